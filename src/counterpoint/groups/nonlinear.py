"""Representations that are not affine: torch modules, and any function by differences."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np

from counterpoint.errors import InvalidInput, MissingExtra
from counterpoint.groups.representations import Affine, Composed, Pull, Representation, in_chunks
from counterpoint.numerics import FloatArray

__all__ = ["FiniteDifferences", "TorchFunction", "of_module"]


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
        steps = np.diag(np.broadcast_to(np.asarray(self.step, dtype=np.float64), (d,)))
        shifts = np.concatenate([np.zeros((1, d)), steps, -steps])[:, None]

        def values(shifts: FloatArray) -> FloatArray:
            moved = in_chunks(self._values, (X + shifts).reshape(-1, d))
            return moved.reshape(len(shifts), len(X), -1)

        # Each call has its own cost: of few rows, what may be asked later comes along.
        first = values(shifts if shifts.shape[0] * len(X) <= 1000 else shifts[:1])

        @cache
        def slopes() -> FloatArray:  # (d, n, m)
            moved = first[1:] if len(first) > 1 else values(shifts[1:])
            return (moved[:d] - moved[d:]) / (2.0 * steps.diagonal()[:, None, None])

        return first[0], lambda C: np.asarray(np.einsum("dnm,nm->nd", slopes(), C))

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
    """Read a torch module in double precision; its first step, nn.Linear, says its width."""
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
