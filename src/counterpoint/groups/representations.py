"""Defines representations: differentiable maps from features to a space of few dimensions."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.special import expit

from counterpoint.errors import InvalidInput, missing_extra, several
from counterpoint.numerics import BoolArray, FloatArray

Matrix = Any
"""A dense array or a sparse one of SciPy."""
Pull = Callable[[FloatArray], FloatArray]
"""Takes gradients (n, m) in the values of a map to gradients (n, d) in its rows."""


class Representation(ABC):
    """A differentiable map r from features (n, d) to a space of few dimensions (n, m)."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """d."""

    @abstractmethod
    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        """Return the values at rows, and a function that pulls gradients back through the map.

        Parameters
        ----------
        X
            (n, d) rows.

        Returns
        -------
        tuple
            (n, m) the values r(x); and a function that takes (n, m) to (n, d), the vector–Jacobian
            product of each row.
        """


@final
@dataclass(frozen=True, eq=False)
class Affine(Representation):
    """r(x) = x M + c: what scalers, PCA, linear discriminants and first layers are.

    Parameters
    ----------
    matrix
        (d, m) M, dense or sparse. A row of a dense one that is all NaN, as scanpy leaves it for
        genes that its PCA does not use, counts as 0, and a warning says so.
    offset
        (m,) c, or one number for all. Explanations of groups in an affine space do not depend on
        it.
    """

    matrix: Matrix
    offset: FloatArray = field(default_factory=lambda: np.zeros(()))

    def __post_init__(self) -> None:
        is_sparse = sparse.issparse(self.matrix)
        matrix: Matrix = self.matrix if is_sparse else np.asarray(self.matrix, dtype=np.float64)
        offset = np.asarray(self.offset, dtype=np.float64)
        offset = np.full(matrix.shape[1:], offset) if offset.ndim == 0 else offset.ravel()
        if matrix.ndim != 2 or offset.shape != matrix.shape[1:]:
            raise InvalidInput(
                "Expected a matrix (features, dimensions) and an offset (dimensions,); got the "
                f"shapes {matrix.shape} and {offset.shape}. Transpose components_ of scikit-learn."
            )
        if not is_sparse:
            matrix, offset = _without_unused(matrix, offset)
        entries = matrix.tocoo().data if is_sparse else matrix
        if not (np.isfinite(entries).all() and np.isfinite(offset).all()):
            raise InvalidInput(
                "Expected finite numbers in an affine map; got others. Leave out features without "
                "a weight, or give them 0."
            )
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "offset", offset)

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[0])

    def vjp(self, X: Matrix) -> tuple[FloatArray, Pull]:
        return dense(X @ self.matrix) + self.offset, lambda C: dense(C @ self.matrix.T)

    def then(self, other: Affine) -> Affine:
        """Return the affine map that applies this one, then the other."""
        offset = dense(self.offset[None] @ other.matrix)[0] + other.offset
        return Affine(self.matrix @ other.matrix, offset)


def _without_unused(matrix: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Set the loadings of features whose loadings are all NaN to 0, with a warning.

    If other numbers are not finite, nothing is set, so that the map is refused.
    """
    unused: BoolArray = np.asarray(np.isnan(matrix).all(axis=1))
    no_offset = np.isnan(offset).all()  # as −means @ matrix is, if a loading is NaN
    is_finite = np.isfinite(matrix[~unused]).all() and (no_offset or np.isfinite(offset).all())
    if not unused.any() or unused.all() or not is_finite:
        return matrix, offset
    message = (
        f"{unused.sum()} of {several(len(matrix), 'feature')} have no loadings (NaN): they count "
        "as 0, and no explanation changes these features."
    )
    if no_offset:
        message += " So does the offset, which is NaN with them: it only moves the origin."
        offset = np.zeros_like(offset)
    warnings.warn(message, UserWarning, stacklevel=4)
    return np.where(unused[:, None], 0.0, matrix), offset


@final
@dataclass(frozen=True, eq=False)
class Composed(Representation):
    """An affine map followed by another representation; None if nothing follows."""

    first: Affine
    second: Representation | None

    @property
    def n_features(self) -> int:
        return self.first.n_features

    def vjp(self, X: Matrix) -> tuple[FloatArray, Pull]:
        hidden, pull_first = self.first.vjp(X)
        values, pull = self.pull(hidden)
        return values, lambda C: pull_first(pull(C))

    def hidden(self, X: Matrix) -> FloatArray:
        """Return the values (n, h) of the affine map."""
        return self.first.vjp(X)[0]

    def pull(self, hidden: FloatArray) -> tuple[FloatArray, Pull]:
        """Do as `vjp`, from the values of the affine map and to gradients in these, all finite."""
        if self.second is None:
            return hidden, lambda C: C
        values, pull = self.second.vjp(hidden)
        return _finite(values), lambda C: _finite(pull(C))

    def finish(self, hidden: FloatArray) -> FloatArray:
        """Return the values (n, m) of rows from those of the affine map, `hidden`."""
        return _in_chunks(lambda rows: self.pull(rows)[0], hidden)

    def values(self, X: Matrix) -> FloatArray:
        """Return the values (n, m) of rows."""
        return _in_chunks(lambda rows: self.finish(self.hidden(rows)), X)


ACTIVATIONS: Mapping[str, tuple[Callable[[FloatArray], FloatArray], ...]] = {
    "elu": (
        lambda a: np.maximum(a, 0.0) + np.expm1(np.minimum(a, 0.0)),
        lambda value: np.minimum(value, 0.0) + 1.0,
    ),
    "identity": (lambda a: a, np.ones_like),
    "logistic": (expit, lambda value: value * (1.0 - value)),
    "relu": (lambda a: np.maximum(a, 0.0), lambda value: (value > 0.0).astype(np.float64)),
    "tanh": (np.tanh, lambda value: 1.0 - value * value),
}
"""Each function of inputs, entry by entry, and its derivative as a function of its value."""


@final
@dataclass(frozen=True, eq=False)
class Network(Representation):
    """A feed-forward network: affine maps, with an activation between each two.

    Parameters
    ----------
    weights
        A matrix (inputs, outputs) for each layer. PyTorch keeps them transposed.
    biases
        A vector (outputs,) for each layer.
    activation
        ``"elu"``, ``"identity"``, ``"logistic"``, ``"relu"`` or ``"tanh"``; pass a torch module
        that has others.
    activates_inputs
        Whether the inputs pass the activation, too, as after the first layer of a network.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoint.groups import Network
    >>> net = Network([np.eye(3)[:, :2], np.ones((2, 1))], [np.zeros(2), np.zeros(1)], "elu")
    >>> net.vjp(np.array([[1.0, 2.0, 3.0]]))[0]
    array([[3.]])
    """

    weights: Any
    biases: Any
    activation: str = "relu"
    activates_inputs: bool = False

    def __post_init__(self) -> None:
        weights, biases = (
            tuple(np.array(array, dtype=np.float64) for array in arrays)
            for arrays in (self.weights, self.biases)
        )
        shapes = [(w.shape, b.shape) for w, b in zip(weights, biases, strict=False)]
        are_maps = all(len(w) == 2 and b == w[1:] for w, b in shapes)
        follow = all(b == w[:1] for (_, b), (w, _) in pairwise(shapes))
        if not (weights and len(weights) == len(biases) and are_maps and follow):
            raise InvalidInput(
                "Expected a matrix (inputs, outputs) and a vector (outputs,) for each layer, which "
                f"takes the outputs of the one before; got the shapes {shapes} of {len(weights)} "
                f"matrices and {len(biases)} vectors. Transpose weights that come from PyTorch, "
                "and pass zeros for a layer without bias."
            )
        if not all(np.isfinite(array).all() for array in (*weights, *biases)):
            raise InvalidInput("Expected finite weights; got others. Train the network again.")
        if self.activation not in ACTIVATIONS:
            raise InvalidInput(
                f"Expected an activation among {', '.join(ACTIVATIONS)}; got {self.activation!r}. "
                "Pass a torch module or a Representation of your own for others."
            )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)

    @property
    def n_features(self) -> int:
        return len(self.layers[0][0])

    @property
    def layers(self) -> list[tuple[FloatArray, FloatArray]]:
        """The matrix and the vector of each layer."""
        return list(zip(self.weights, self.biases, strict=True))

    def __repr__(self) -> str:
        sizes = (self.n_features, *(len(bias) for _, bias in self.layers))
        return f"<Network: {' → '.join(map(str, sizes))}; {self.activation}>"

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        activate, slope = ACTIVATIONS[self.activation]
        inputs: list[FloatArray] = []  # of each layer, after the activation
        for weight, bias in self.layers:
            if inputs or self.activates_inputs:
                X = activate(X)
            inputs.append(X)
            X = X @ weight + bias

        def pull(C: FloatArray) -> FloatArray:
            for k in reversed(range(len(inputs))):
                C = C @ self.layers[k][0].T
                if k or self.activates_inputs:
                    C = C * slope(inputs[k])  # as a function of the activation's value
            return C

        return X, pull


@final
@dataclass(frozen=True, eq=False)
class FiniteDifferences(Representation):
    """Any function of few features, with central differences for its derivatives.

    Derivatives take 2 d times as many rows, so explanations ask for few of them: they descend on
    linearised problems, one after the other (Gauss–Newton). Differences are good to about eight
    digits of a smooth function in double precision. One in single precision needs a larger step,
    such as 1e-2; one with many corners, such as a quantile transformer, a step over several.

    Parameters
    ----------
    function
        Takes rows (n, d) to (n, m).
    features
        d, at most 64.
    step
        How far rows are moved to either side, in feature units; one number or d of them.
    """

    function: Callable[[FloatArray], Any]
    features: int
    step: float | FloatArray = 1e-5

    def __post_init__(self) -> None:
        if not 1 <= self.features <= 64:  # each gradient takes two rows for each
            raise InvalidInput(
                f"Expected finite differences of 1 to 64 features; got {self.features}. "
                "Pass a representation with derivatives: a Network, a torch module, or your own "
                "subclass of Representation."
            )
        if not np.all(np.asarray(self.step) > 0.0):
            raise InvalidInput(f"Expected a positive step; got {self.step}. Pass 1e-5, say.")

    @property
    def n_features(self) -> int:
        return self.features

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        d = self.features
        steps = np.broadcast_to(np.asarray(self.step, dtype=np.float64), (d,))

        @cache  # pulled for several gradients, and not at all where only values matter
        def slopes() -> FloatArray:  # (d, n, m)
            moves = np.stack([np.diag(steps), np.diag(-steps)])[:, :, None]  # of one feature each
            up, down = _in_chunks(self._values, (X + moves).reshape(-1, d)).reshape(
                2, d, len(X), -1
            )
            return np.asarray((up - down) / (2.0 * steps[:, None, None]))

        values = _in_chunks(self._values, X)
        return values, lambda C: np.asarray(np.einsum("dnm,nm->nd", slopes(), C))

    def _values(self, X: FloatArray) -> FloatArray:
        values = np.asarray(self.function(X), dtype=np.float64)
        if values.ndim != 2 or len(values) != len(X):
            raise InvalidInput(
                f"Expected the function to take rows of shape {X.shape} to as many rows; got the "
                f"shape {values.shape}. Return an array of shape (rows, dimensions)."
            )
        return values


@final
class TorchFunction(Representation):
    """A differentiable function of torch tensors.

    Other inputs of an encoder than the rows go into the function, so that encoders of other
    packages, such as scvi-tools, need no adapter: of one that takes logarithms and returns the
    mean first, ``lambda x: encoder(torch.log1p(x.clamp(min=0)), batch)[0]``; moved rows may hold
    negative numbers.

    Parameters
    ----------
    function
        Takes a tensor (n, d) of doubles to one of shape (n, m). Put modules into double precision
        and evaluation first: ``module.double().eval()``.
    features
        d.
    """

    def __init__(self, function: Callable[[Any], Any], features: int) -> None:
        try:
            import torch
        except ImportError:
            raise missing_extra("TorchFunction needs torch", "torch") from None
        self.function, self.features, self._torch = function, int(features), torch

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"<TorchFunction: {name} of {self.features} features>"

    @property
    def n_features(self) -> int:
        return self.features

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        torch = self._torch
        with torch.enable_grad():
            rows = torch.from_numpy(np.array(X, dtype=np.float64)).requires_grad_()
            values = self.function(rows)
        if not isinstance(values, torch.Tensor) or values.ndim != 2 or len(values) != len(X):
            got = tuple(getattr(values, "shape", ())) or type(values).__name__
            raise InvalidInput(
                f"Expected a tensor of shape ({len(X)}, m) from the module; got {got}. Wrap it in "
                "a TorchFunction that returns the tensor of the representation."
            )

        def pull(C: FloatArray) -> FloatArray:
            gradient = torch.from_numpy(np.array(C)).to(values.dtype)
            (slope,) = torch.autograd.grad(values, rows, gradient, retain_graph=True)
            return np.asarray(slope.double().numpy())

        return np.asarray(values.detach().double().numpy()), pull


def of_module(module: Any) -> Representation:
    """Read a torch module that begins with nn.Linear, in double precision."""
    from torch import nn

    double = deepcopy(module).double().eval().requires_grad_(requires_grad=False).cpu()
    steps = list(double) if type(double) is nn.Sequential else [double]
    if not steps or type(steps[0]) is not nn.Linear:
        raise InvalidInput(
            f"Expected to know how many features {type(module).__name__} takes, and it does not "
            "begin with nn.Linear. Pass TorchFunction(module.double().eval(), features)."
        )
    weight, bias = steps[0].weight.numpy().T, steps[0].bias
    first = Affine(np.array(weight), np.zeros(weight.shape[1]) if bias is None else bias.numpy())
    if len(steps) == 1:
        return first
    return Composed(first, TorchFunction(nn.Sequential(*steps[1:]), weight.shape[1]))


def stages(representation: Representation) -> Composed:
    """Split a representation into an affine map, as long as there is one, and what follows.

    Whatever offsets do, they do through the map, after which rows may have far fewer dimensions.
    """
    match representation:
        case Affine():
            return Composed(representation, None)
        case Composed(_, None):
            return representation
        case Composed(first, Representation() as second):
            inner = stages(second)
            return Composed(first.then(inner.first), inner.second)
        case Network(_, _, activation, False):
            (weight, bias), *layers = representation.layers
            if not layers:
                return Composed(Affine(weight, bias), None)
            weights, biases = zip(*layers, strict=True)
            second = Network(weights, biases, activation, activates_inputs=True)
            return Composed(Affine(weight, bias), second)
    identity = sparse.eye_array(representation.n_features, format="csr")
    return Composed(Affine(identity), representation)


def dense(matrix: Matrix) -> FloatArray:
    """Return a dense or sparse array as a dense one of doubles."""
    filled = matrix.toarray() if sparse.issparse(matrix) else matrix
    return np.asarray(filled, dtype=np.float64)


def _in_chunks(function: Callable[[Matrix], FloatArray], rows: Matrix) -> FloatArray:
    """Apply a function to 4096 rows at a time, so that a network's hidden layers stay small."""
    starts = range(0, max(rows.shape[0], 1), 4096)
    return np.concatenate([function(rows[i : i + 4096]) for i in starts])


def _finite(values: FloatArray) -> FloatArray:
    if not np.isfinite(values).all():
        raise InvalidInput(
            "Expected finite values from the representation, and finite derivatives, also where "
            "rows are moved to within the limits; got others. Scale the rows as those it was "
            "fitted on, or make it finite everywhere, as torch.log1p(x.clamp(min=0)) is."
        )
    return values
