"""Transformers of scikit-learn that bend, with their derivatives."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy.special import boxcox, boxcox1p
from sklearn.preprocessing import normalize

from counterpoint.errors import UnsupportedModel
from counterpoint.groups.representations import Pull, Representation, dense
from counterpoint.numerics import FloatArray

__all__ = ["KernelMap", "PowerMap"]


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
