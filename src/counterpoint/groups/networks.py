"""Neural networks as representations: given by their weights, or by a function of torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr

from counterpoint.errors import InvalidInput, MissingExtra
from counterpoint.groups.representations import (
    Affine,
    Composed,
    FloatArray,
    Pull,
    Representation,
    stages,
)

__all__ = ["ACTIVATIONS", "Network", "TorchFunction", "of_module"]

Activation = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Takes inputs to values and derivatives, entry by entry."""


def _elu(a: FloatArray, scale: float = 1.0, alpha: float = 1.0) -> tuple[FloatArray, FloatArray]:
    tail = alpha * np.expm1(np.minimum(a, 0.0))
    return scale * (np.maximum(a, 0.0) + tail), scale * np.where(a > 0.0, 1.0, tail + alpha)


def _tanh(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    value = np.tanh(a)
    return value, 1.0 - value * value


def _sigmoid(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    value = expit(a)
    return value, value * (1.0 - value)


def _silu(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    gate = expit(a)
    return a * gate, gate * (1.0 + a * (1.0 - gate))


def _gelu(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    below = ndtr(a)
    return a * below, below + a * np.exp(-0.5 * a * a) / np.sqrt(2.0 * np.pi)


ACTIVATIONS: Mapping[str, Activation] = {
    "elu": _elu,
    "gelu": _gelu,
    "identity": lambda a: (a, np.ones_like(a)),
    "leaky_relu": lambda a: (np.where(a > 0.0, a, 0.01 * a), np.where(a > 0.0, 1.0, 0.01)),
    "logistic": _sigmoid,
    "relu": lambda a: (np.maximum(a, 0.0), (a > 0.0).astype(float)),
    "selu": lambda a: _elu(a, 1.0507009873554805, 1.6732632423543772),  # Klambauer et al. (2017)
    "sigmoid": _sigmoid,
    "silu": _silu,
    "softplus": lambda a: (np.logaddexp(0.0, a), expit(a)),
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

    Raises
    ------
    InvalidInput
        If shapes do not fit together, weights are not finite, or an activation is not known.

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
        self.activations = (*names, output)
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
        sizes = [self.n_features, *(weight.shape[1] for weight in self.weights)]
        said = ", ".join(dict.fromkeys(self.activations))
        return f"<Network: {' → '.join(map(str, sizes))}; {said}>"

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        return stages(self).vjp(X)


@final
@dataclass(frozen=True, eq=False)
class _Layers(Representation):
    """Activations, each followed by an affine map; after the last one there may be none."""

    names: tuple[str, ...]
    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]

    @property
    def n_features(self) -> int:
        return len(self.weights[0])

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        slopes = []
        for name, weight, bias in zip(self.names, self.weights, self.biases, strict=True):
            X, slope = ACTIVATIONS[name](X)
            slopes.append(slope)
            X = X @ weight + bias

        def pull(C: FloatArray) -> FloatArray:
            for weight, slope in zip(self.weights[::-1], slopes[::-1], strict=True):
                C = (C @ weight.T) * slope
            return C

        return X, pull


@stages.register
def _(representation: Network) -> Composed:
    weights, biases = representation.weights, representation.biases
    names = representation.activations
    if names[-1] == "identity":
        names = names[:-1]
    else:
        width = weights[-1].shape[1]
        weights, biases = (*weights, np.eye(width)), (*biases, np.zeros(width))
    rest = _Layers(names, weights[1:], biases[1:]) if names else None
    return Composed(Affine(weights[0], biases[0]), rest)


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


@final
class TorchFunction(Representation):
    """A differentiable function of torch tensors.

    What an encoder needs beside the rows goes into the function, so that encoders of other
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

    Raises
    ------
    MissingExtra
        If torch is not installed.
    """

    def __init__(self, function: Callable[[Any], Any], features: int) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtra(
                "TorchFunction needs torch, which is not installed. "
                "Install it with pip install 'counterpoint[torch]'."
            ) from None
        self.function, self.features, self._torch = function, int(features), torch

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
            given = torch.from_numpy(np.array(C)).to(values.dtype)
            (slope,) = torch.autograd.grad(values, rows, given, retain_graph=True)
            return np.asarray(slope.double().numpy())

        return np.asarray(values.detach().double().numpy()), pull


def of_module(module: Any) -> Representation:
    """A torch module in double precision; it has to begin with nn.Linear, which knows its width."""
    from torch import nn

    copy = deepcopy(module).double().eval().requires_grad_(requires_grad=False).cpu()
    steps = list(copy) if type(copy) is nn.Sequential else [copy]
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
