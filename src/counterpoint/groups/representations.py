"""Representations: differentiable maps from features to a space of few dimensions."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import expit, ndtr

from counterpoint.errors import InvalidInput, several
from counterpoint.numerics import BoolArray, FloatArray

__all__ = [
    "ACTIVATIONS",
    "Affine",
    "Composed",
    "Matrix",
    "Network",
    "Pull",
    "Representation",
    "dense",
    "in_chunks",
    "stages",
]

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
        """The values at rows, and what pulls gradients back through the map.

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
        """The affine map that applies this one, then the other."""
        offset = dense(self.offset[None] @ other.matrix)[0] + other.offset
        return Affine(self.matrix @ other.matrix, offset)


def _without_unused(matrix: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
    """An affine map in which features whose loadings are all NaN have the loadings 0."""
    unused: BoolArray = np.asarray(np.isnan(matrix).all(axis=1))
    no_offset = np.isnan(offset).all()  # −means @ matrix
    is_finite = np.isfinite(matrix[~unused]).all() and (no_offset or np.isfinite(offset).all())
    if not unused.any() or unused.all() or not is_finite:
        return matrix, offset
    sentence = (
        f"{unused.sum()} of {several(len(matrix), 'feature')} have no loadings (NaN): they count "
        "as 0, and no explanation changes these features."
    )
    if no_offset:
        sentence += " So does the offset, which is NaN with them: it only moves the origin."
        offset = np.zeros_like(offset)
    warnings.warn(sentence, UserWarning, stacklevel=4)
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
        """(n, h) the values of the affine map."""
        return self.first.vjp(X)[0]

    def pull(self, hidden: FloatArray) -> tuple[FloatArray, Pull]:
        """Return what `vjp` does, from the affine map's values; an error if not finite."""
        if self.second is None:
            return hidden, lambda C: C
        values, pull = self.second.vjp(hidden)
        return _finite(values), lambda C: _finite(pull(C))

    def finish(self, hidden: FloatArray) -> FloatArray:
        """(n, m) the values of rows, from the values of the affine map."""
        return in_chunks(lambda rows: self.pull(rows)[0], hidden)

    def values(self, X: Matrix) -> FloatArray:
        """(n, m) the values of rows."""
        return in_chunks(lambda rows: self.finish(self.hidden(rows)), X)


Activation = Callable[[FloatArray], tuple[FloatArray, Callable[[], FloatArray]]]
"""Takes inputs to values, and to what gives derivatives if asked for, entry by entry."""


def _elu(
    a: FloatArray, scale: float = 1.0, alpha: float = 1.0
) -> tuple[FloatArray, Callable[[], FloatArray]]:
    tail = alpha * np.expm1(np.minimum(a, 0.0))
    value = scale * (np.maximum(a, 0.0) + tail)
    return value, lambda: scale * (tail + np.where(a > 0.0, 1.0, alpha))


def _tanh(a: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
    value = np.tanh(a)
    return value, lambda: 1.0 - value * value


def _sigmoid(a: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
    value = expit(a)
    return value, lambda: value * (1.0 - value)


def _silu(a: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
    gate = expit(a)
    return a * gate, lambda: gate * (1.0 + a * (1.0 - gate))


def _gelu(a: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
    below = ndtr(a)
    return a * below, lambda: below + a * np.exp(-0.5 * a * a) / np.sqrt(2.0 * np.pi)


ACTIVATIONS: Mapping[str, Activation] = {
    "elu": _elu,
    "gelu": _gelu,
    "identity": lambda a: (a, lambda: np.ones_like(a)),
    "leaky_relu": lambda a: (np.where(a > 0.0, a, 0.01 * a), lambda: np.where(a > 0.0, 1.0, 0.01)),
    "logistic": _sigmoid,
    "relu": lambda a: (np.maximum(a, 0.0), lambda: (a > 0.0).astype(float)),
    "selu": lambda a: _elu(a, 1.0507009873554805, 1.6732632423543772),  # Klambauer et al. (2017)
    "sigmoid": _sigmoid,
    "silu": _silu,
    "softplus": lambda a: (np.logaddexp(0.0, a), lambda: expit(a)),
    "tanh": _tanh,
}
"""As PyTorch and scikit-learn define them, with their default parameters."""


@final
class Network(Representation):
    """A feed-forward network: affine maps, with an activation between each two.

    Parameters
    ----------
    weights
        A matrix (inputs, outputs) for each layer. PyTorch keeps them transposed.
    biases
        A vector (outputs,) for each layer.
    activation
        One of `ACTIVATIONS` for all layers but the last, or one for each of these.
    output
        The activation of the last layer.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoint.groups import Network
    >>> net = Network([np.eye(3)[:, :2], np.ones((2, 1))], [np.zeros(2), np.zeros(1)], "elu")
    >>> net.vjp(np.array([[1.0, 2.0, 3.0]]))[0]
    array([[3.]])
    """

    def __init__(
        self,
        weights: Sequence[ArrayLike],
        biases: Sequence[ArrayLike],
        activation: str | Sequence[str] = "relu",
        output: str = "identity",
    ) -> None:
        self.weights = tuple(np.array(weight, dtype=np.float64) for weight in weights)
        self.biases = tuple(np.array(bias, dtype=np.float64) for bias in biases)
        _check_layers(self.weights, self.biases)
        between = len(self.weights) - 1
        names = [activation] * between if isinstance(activation, str) else list(activation)
        if len(names) != between:
            raise InvalidInput(
                f"Expected {between} activations, one after each layer but the last; got "
                f"{len(names)}. Pass one name for all, or one for each."
            )
        self.sizes = (len(self.weights[0]), *map(len, self.biases))
        self.activations = ("identity", *names)  # of what each layer takes
        self.output = output
        if output != "identity":
            self.activations = (*self.activations, output)
            self.weights = (*self.weights, np.eye(self.sizes[-1]))
            self.biases = (*self.biases, np.zeros(self.sizes[-1]))
        for name in self.activations:
            if name not in ACTIVATIONS:
                raise InvalidInput(
                    f"Expected activations among {', '.join(ACTIVATIONS)}; got {name!r}. Pass a "
                    "torch module or a Representation of your own for others."
                )

    @property
    def n_features(self) -> int:
        return len(self.weights[0])

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys((*self.activations[1:], self.output)))
        return f"<Network: {' → '.join(map(str, self.sizes))}; {names}>"

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        slopes = []
        for name, weight, bias in zip(self.activations, self.weights, self.biases, strict=True):
            X, slope = ACTIVATIONS[name](X)
            slopes.append(slope)
            X = X @ weight + bias

        def pull(C: FloatArray) -> FloatArray:
            for weight, slope in zip(self.weights[::-1], slopes[::-1], strict=True):
                C = (C @ weight.T) * slope()
            return C

        return X, pull

    def after_first(self) -> Network | None:
        """Return what follows the affine map of the first layer; None if nothing does."""
        if len(self.weights) == 1:
            return None
        remainder = copy(self)
        for name in ("weights", "biases", "activations", "sizes"):
            setattr(remainder, name, getattr(self, name)[1:])
        return remainder


def _check_layers(weights: tuple[FloatArray, ...], biases: tuple[FloatArray, ...]) -> None:
    if not weights or len(weights) != len(biases):
        raise InvalidInput(
            f"Expected a weight matrix and a bias for each layer; got {len(weights)} and "
            f"{len(biases)}. Pass zeros for a layer without bias."
        )
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if weight.ndim != 2 or bias.shape != weight.shape[1:]:
            raise InvalidInput(
                f"Expected layer {i} to be a matrix (inputs, outputs) and a vector (outputs,); got "
                f"the shapes {weight.shape} and {bias.shape}. Transpose weights that come from "
                "PyTorch."
            )
        if i and len(weight) != len(biases[i - 1]):
            raise InvalidInput(
                f"Expected layer {i} to take the {len(biases[i - 1])} outputs of the one before; "
                f"it takes {len(weight)}. Check the order of the layers, or transpose them."
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InvalidInput(f"Expected finite weights; got others in layer {i}. Train it again.")


def stages(representation: Representation) -> Composed:
    """Split a representation into all that is affine at its beginning, and what follows."""
    match representation:
        case Affine():
            return Composed(representation, None)
        case Composed(_, None):
            return representation
        case Network() as net:
            return Composed(Affine(net.weights[0], net.biases[0]), net.after_first())
        case Composed(first, Representation() as second):
            inner = stages(second)
            return Composed(first.then(inner.first), inner.second)
    identity = sparse.eye_array(representation.n_features, format="csr")
    return Composed(Affine(identity), representation)


def dense(matrix: Matrix) -> FloatArray:
    """A dense or sparse array as a dense one of doubles."""
    filled = matrix.toarray() if sparse.issparse(matrix) else matrix
    return np.asarray(filled, dtype=np.float64)


def in_chunks(function: Callable[[Matrix], FloatArray], rows: Matrix) -> FloatArray:
    """Apply a function to 4096 rows at a time, so that what a network holds of them is small."""
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
