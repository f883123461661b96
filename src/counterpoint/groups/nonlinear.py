"""Representations that bend: any function, torch modules, transformers of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
from scipy.special import boxcox, boxcox1p
from sklearn.preprocessing import normalize

from counterpoint.errors import InvalidInput, MissingExtra, UnsupportedModel
from counterpoint.groups.representations import (
    Affine,
    Composed,
    Pull,
    Representation,
    Rough,
    dense,
    in_parts,
)
from counterpoint.numerics import FloatArray

__all__ = [
    "FiniteDifferences",
    "KernelMap",
    "PowerMap",
    "QuantileMap",
    "TorchFunction",
    "of_module",
]


@final
@dataclass(frozen=True, eq=False)
class FiniteDifferences(Rough):
    """Any smooth function of few features, with central differences for its derivatives.

    Derivatives take 2 d times as many rows, in one call or a few. Explanations take few of them:
    they descend on linearised problems, one after the other (Gauss–Newton). Differences are good to
    about eight digits of a function in double precision; one in single precision needs a larger
    step, such as 1e-2.

    Parameters
    ----------
    function
        Takes rows (n, d) to (n, m).
    features
        d, at most 64.
    step
        How far rows are moved to either side, in feature units; one number or d of them.

    Raises
    ------
    InvalidInput
        If there are more features, or a step is not positive.
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
            found = in_parts(self._values, (X + shifts).reshape(-1, d))
            return found.reshape(len(shifts), len(X), -1)

        # Each call has its own cost: of few rows, what may be asked later comes along.
        first = values(shifts if shifts.shape[0] * len(X) <= 1000 else shifts[:1])

        @cache
        def slopes() -> FloatArray:  # (d, n, m)
            rest = first[1:] if len(first) > 1 else values(shifts[1:])
            return (rest[:d] - rest[d:]) / (2.0 * steps.diagonal()[:, None, None])

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
            given = torch.from_numpy(np.array(C)).to(values.dtype)
            (slope,) = torch.autograd.grad(values, rows, given, retain_graph=True)
            return np.asarray(slope.double().numpy())

        return np.asarray(values.detach().double().numpy()), pull


def of_module(module: Any) -> Representation:
    """A torch module in double precision; it has to begin with nn.Linear, which knows its width."""
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


@final
class KernelMap(Representation):
    """Projections of a fitted kernel PCA: r(x) = Σ_z k(x, z) b_z + c over the rows z of its fit."""

    def __init__(self, model: Any) -> None:
        kinds = ("rbf", "poly", "cosine", "linear")
        if model.kernel not in kinds:
            raise UnsupportedModel(
                f"KernelPCA with kernel={model.kernel!r} has no derivatives that are known. Use "
                f"one of {', '.join(kinds)}, or FiniteDifferences(model.transform, features)."
            )
        self.kind, self.rows = model.kernel, dense(model.X_fit_)
        self.gamma, self.degree = float(model.gamma_), float(model.degree)
        self.constant = float(model.coef0)
        if self.kind == "cosine":
            self.rows = normalize(self.rows)
        self.squares = np.einsum("ij,ij->i", self.rows, self.rows)
        known = model.eigenvalues_ > 0.0  # scikit-learn leaves the others at zero
        weights = np.zeros_like(model.eigenvectors_)
        weights[:, known] = model.eigenvectors_[:, known] / np.sqrt(model.eigenvalues_[known])
        centre = model._centerer  # noqa: SLF001 (its means are nowhere else)
        self.weights = weights - weights.mean(axis=0)
        self.offset = (centre.K_fit_all_ - centre.K_fit_rows_) @ weights

    @property
    def n_features(self) -> int:
        return int(self.rows.shape[1])

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        rows, lengths = X, np.ones((len(X), 1))
        if self.kind == "cosine":
            lengths = np.linalg.norm(X, axis=1, keepdims=True)
            lengths[lengths == 0.0] = 1.0  # as scikit-learn does
            rows = X / lengths
        dots = rows @ self.rows.T
        match self.kind:
            case "rbf":
                own = np.einsum("ij,ij->i", rows, rows)[:, None]
                values = np.exp(-self.gamma * np.maximum(own + self.squares - 2.0 * dots, 0.0))
                slopes = 2.0 * self.gamma * values
            case "poly":
                base = self.gamma * dots + self.constant
                values = base**self.degree
                slopes = self.gamma * self.degree * base ** (self.degree - 1.0)
            case _:
                values, slopes = dots, np.ones_like(dots)

        def pull(C: FloatArray) -> FloatArray:
            pushed = (C @ self.weights.T) * slopes
            back = pushed @ self.rows
            if self.kind == "rbf":
                back -= pushed.sum(axis=1, keepdims=True) * rows
            if self.kind == "cosine":  # lengths do not count
                back = (back - rows * (rows * back).sum(axis=1, keepdims=True)) / lengths
            return np.asarray(back)

        return values @ self.weights + self.offset, pull


@final
class PowerMap(Representation):
    """A fitted ``PowerTransformer``: a power of each feature, then standardised."""

    def __init__(self, model: Any) -> None:
        self.powers, self.method = model.lambdas_, model.method
        self.centre, self.scale = np.zeros(len(self.powers)), np.ones(len(self.powers))
        if model.standardize:
            standard = model._scaler  # noqa: SLF001 (its numbers are nowhere else)
            self.centre, self.scale = standard.mean_, standard.scale_

    @property
    def n_features(self) -> int:
        return len(self.powers)

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        if self.method == "box-cox":  # of what is not positive: not a number
            base, powers = np.where(X > 0.0, X, np.nan), self.powers - 1.0
            values = boxcox(base, self.powers)
        else:  # Yeo and Johnson: the same on both sides of 0, with 2 − λ below it
            sign = np.where(X >= 0.0, 1.0, -1.0)
            base, powers = 1.0 + np.abs(X), sign * (self.powers - 1.0)
            values = sign * boxcox1p(np.abs(X), 1.0 + powers)
        slopes = base**powers / self.scale
        return (values - self.centre) / self.scale, lambda C: np.asarray(C * slopes)


@final
class QuantileMap(Rough):
    """A fitted ``QuantileTransformer``: its values, and secants in place of its many slopes."""

    def __init__(self, model: Any) -> None:
        self.model = copy(model).set_output(transform="default")
        vars(self.model).pop("feature_names_in_", None)  # it is given arrays
        low, high = np.quantile(model.quantiles_, [0.1, 0.9], axis=0)
        self.step = np.where(high > low, 0.1 * (high - low), 1.0)  # over several corners

    @property
    def n_features(self) -> int:
        return len(self.step)

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        stacked = np.concatenate([X, X + self.step, X - self.step])
        values, up, down = np.split(self.model.transform(stacked), 3)
        slopes = (up - down) / (2.0 * self.step)
        return values, lambda C: np.asarray(C * slopes)
