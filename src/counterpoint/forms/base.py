"""A form: a fitted model as mathematics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.regions import Region
from counterpoint.targets import Target

__all__ = ["AffineMap", "Form", "require_finite"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class AffineMap:
    """x ↦ M x + c: preprocessing seen through.

    Parameters
    ----------
    matrix
        (m, d).
    offset
        (m,).
    """

    matrix: FloatArray
    offset: FloatArray

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n, d) → (n, m)."""
        return x @ self.matrix.T + self.offset

    def followed_by(self, matrix: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The matrix and offset of z ↦ matrix z + offset after this map."""
        return matrix @ self.matrix, matrix @ self.offset + offset


class Form(ABC):
    """A fitted model that says which regions of the input space make up its decisions."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number d of inputs."""

    @abstractmethod
    def predict(self, X: FloatArray) -> NDArray[Any]:
        """(n, d) → (n,): what the model's own ``predict`` returns."""

    @abstractmethod
    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        """(n,): by how much the target is met, in score units; negative where it is not.

        For `Confidence` on the scale of log-odds, for `Interval` of the prediction. It includes
        the margin that the target itself asks for. For `Tradeoff`, which demands nothing, it is the
        log-odds of the label.
        """

    @abstractmethod
    def noise(self, X: FloatArray) -> FloatArray:
        """(n,): a bound on the rounding error of a float64 score at X, in score units."""

    @abstractmethod
    def regions(self, target: Target) -> Sequence[Region]:
        """Closed convex pieces whose union is where the target holds.

        For `Tradeoff`, which holds everywhere, one piece without bounds and with its charge.

        Raises
        ------
        InvalidInput
            If the target does not fit the form: an unknown label, an `Interval` of a classifier,
            a `Confidence` or `Tradeoff` of a model without probabilities.
        """

    @abstractmethod
    def through(self, before: AffineMap) -> Form:
        """The same model for inputs that pass ``before`` first."""


def require_finite(*coefficients: FloatArray | float) -> None:
    """Raise `InvalidInput` if there is NaN or infinity among the coefficients of a model."""
    if not all(np.isfinite(part).all() for part in coefficients):
        raise InvalidInput(
            "Expected finite coefficients, also after the preprocessing; the model has NaN or "
            "infinity among them. Fit it again, on finite data."
        )
