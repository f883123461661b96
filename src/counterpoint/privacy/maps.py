"""Feature maps that read no data: what is linear in them is private, and κ is known beforehand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.privacy.sensitivity import UPWARDS

__all__ = ["FeatureMap", "FourierMap", "LinearMap", "UnitBox"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class UnitBox:
    """Public bounds of the columns, and the affine map of what is within onto [−1, 1].

    Parameters
    ----------
    low, high
        (d,) in feature units.
    """

    low: FloatArray
    high: FloatArray

    def scaled(self, X: FloatArray) -> FloatArray:
        """(n, d) the rows in units of the box, wherever they are."""
        half = 0.5 * (self.high - self.low)
        return (X - (self.low + half)) / half

    def clipped(self, X: FloatArray) -> FloatArray:
        """(n, d) the same, with what is outside moved to the nearest bound."""
        return np.clip(self.scaled(np.clip(X, self.low, self.high)), -1.0, 1.0)


class FeatureMap(ABC):
    """φ: rows in units of the box to features; the last is constant if there is an intercept."""

    bounded: ClassVar[bool]
    """Whether κ and Φ hold outside of the box as well."""

    frequencies: FloatArray
    """(F/2, d) of random features; (0, d) if there are none."""
    intercept: float
    """B, the constant feature; 0 for none."""

    @property
    @abstractmethod
    def size(self) -> int:
        """F."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """κ: at least ‖φ‖₂ of whatever is in the box."""

    @property
    @abstractmethod
    def entry(self) -> float:
        """Φ: at least every |φ_j| of whatever is in the box."""

    @abstractmethod
    def lift(self, Z: FloatArray) -> FloatArray:
        """(n, F) φ of rows (n, d)."""


@final
@dataclass(frozen=True)
class LinearMap(FeatureMap):
    """φ(z) = (z, B).

    Parameters
    ----------
    n_inputs
        d.
    intercept
        B ≥ 0; there is no such feature if it is 0.
    """

    bounded: ClassVar[bool] = False

    n_inputs: int
    intercept: float

    @property
    def frequencies(self) -> FloatArray:  # type: ignore[override]
        """(0, d)."""
        return np.empty((0, self.n_inputs))

    @property
    def size(self) -> int:
        return self.n_inputs + (self.intercept > 0.0)

    @property
    def norm(self) -> float:
        return UPWARDS * float(np.sqrt(self.n_inputs + self.intercept**2))

    @property
    def entry(self) -> float:
        return max(1.0, self.intercept)

    def lift(self, Z: FloatArray) -> FloatArray:
        return _with_intercept(Z, self.intercept)


@final
@dataclass(frozen=True, eq=False)
class FourierMap(FeatureMap):
    """φ(z) = (√(2/F) (cos Wz, sin Wz), B): random Fourier features of exp(−γ ‖z − z'‖²).

    A pair of cosine and sine has norm 1 exactly; a cosine with a random phase would reach √2.

    Parameters
    ----------
    frequencies
        (F/2, d) W: normal, of variance 2γ.
    intercept
        B ≥ 0; there is no such feature if it is 0.

    References
    ----------
    Rahimi & Recht (2007), Random features for large-scale kernel machines.
    """

    bounded: ClassVar[bool] = True

    frequencies: FloatArray
    intercept: float

    @classmethod
    def draw(
        cls,
        n_components: int,
        n_inputs: int,
        gamma: float,
        intercept: float,
        random: np.random.RandomState,
    ) -> FourierMap:
        """The map of random frequencies, which depend on nothing but these numbers."""
        shape = (n_components // 2, n_inputs)
        return cls(np.sqrt(2.0 * gamma) * random.standard_normal(shape), intercept)

    @property
    def size(self) -> int:
        return 2 * len(self.frequencies) + (self.intercept > 0.0)

    @property
    def norm(self) -> float:
        return UPWARDS * float(np.hypot(1.0, self.intercept))

    @property
    def entry(self) -> float:
        return max(float(1.0 / np.sqrt(len(self.frequencies))), self.intercept)

    def lift(self, Z: FloatArray) -> FloatArray:
        phase = Z @ self.frequencies.T
        pairs = np.concatenate([np.cos(phase), np.sin(phase)], axis=1)
        return _with_intercept(pairs / np.sqrt(len(self.frequencies)), self.intercept)


def _with_intercept(rows: FloatArray, intercept: float) -> FloatArray:
    if intercept == 0.0:
        return rows
    return np.concatenate([rows, np.full((len(rows), 1), intercept)], axis=1)
