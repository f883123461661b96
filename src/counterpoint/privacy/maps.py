"""Feature maps that read no data: what is linear in them is private, and κ is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.privacy.mechanisms import UPWARDS

__all__ = ["FeatureMap"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class FeatureMap:
    """φ(z) = (z, B); or (√(2/F) (cos Wz, sin Wz), B): random features of exp(−γ ‖z − z'‖²).

    A pair of cosine and sine has norm 1 exactly; a cosine with a random phase would reach √2.

    Parameters
    ----------
    frequencies
        (F/2, d) W: normal, of variance 2γ; (0, d) for z itself.
    intercept
        B ≥ 0, the constant feature; there is none if it is 0.

    References
    ----------
    Rahimi & Recht (2007), Random features for large-scale kernel machines.
    """

    frequencies: FloatArray
    intercept: float

    @classmethod
    def draw(
        cls, shape: tuple[int, int], gamma: float, intercept: float, random: np.random.RandomState
    ) -> FeatureMap:
        """The map of (F/2, d) random frequencies, which depend on nothing but these numbers."""
        return cls(np.sqrt(2.0 * gamma) * random.standard_normal(shape), intercept)

    @property
    def is_linear(self) -> bool:
        """Whether there are no frequencies; if so, κ and Φ hold for rows in the box alone."""
        return not len(self.frequencies)

    @property
    def norm(self) -> float:
        """κ: at least ‖φ‖₂ of rows whose entries are between −1 and 1."""
        if self.is_linear:
            return UPWARDS * float(np.sqrt(self.frequencies.shape[1] + self.intercept**2))
        return UPWARDS * float(np.hypot(1.0, self.intercept))

    @property
    def entry(self) -> float:
        """Φ: at least every |φ_j| of these."""
        most = 1.0 if self.is_linear else float(1.0 / np.sqrt(len(self.frequencies)))
        return max(most, self.intercept)

    def lift(self, Z: FloatArray) -> FloatArray:
        """(n, F) φ of rows (n, d)."""
        rows = Z
        if not self.is_linear:
            phase = Z @ self.frequencies.T
            rows = np.concatenate([np.cos(phase), np.sin(phase)], axis=1)
            rows = rows / np.sqrt(len(self.frequencies))
        if self.intercept == 0.0:
            return rows
        return np.concatenate([rows, np.full((len(rows), 1), self.intercept)], axis=1)
