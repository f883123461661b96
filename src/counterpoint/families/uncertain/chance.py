"""A linear score that leads by a quantile of its noise, at a point that was fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.numerics import EPS, FloatArray, relative
from counterpoint.privacy.noise import NoiseLaw
from counterpoint.programs.conditions import CutOracle, LinearBounds

__all__ = ["Chance", "half_spaces"]


@final
@dataclass(frozen=True, eq=False)
class Chance(CutOracle):
    """q(M y + c) <= slope · y + constant, with q(φ) the p-quantile of the noise φᵀμ on a score.

    For p >= ½ and noise whose projections are log-concave and symmetric, q is a norm (Lagoa, Li &
    Sznaier 2005), so each of its gradients supports it: ∇q(v) · φ <= q(φ) for all v and φ. So the
    condition is the intersection of half-spaces, one for each v.
    """

    law: NoiseLaw  # that of μ (F,)
    probability: float  # above ½ and below 1
    matrix: FloatArray  # (F, d) M
    offset: FloatArray  # (F,) c
    slope: FloatArray  # (d,)
    constant: float  # in score units

    def excess(self, y: FloatArray) -> FloatArray:
        quantile = self.law.quantile(self.probability, y @ self.matrix.T + self.offset)
        return np.asarray(quantile - (y @ self.slope + self.constant))

    def supports(self, y: FloatArray) -> tuple[FloatArray, LinearBounds]:
        phi = y @ self.matrix.T + self.offset
        quantile, gradient = self.law.quantile_with_gradient(self.probability, phi)
        rows, high = gradient @ self.matrix - self.slope, self.constant - gradient @ self.offset
        return np.asarray(quantile - (y @ self.slope + self.constant)), half_spaces(rows, high)

    def first(self) -> LinearBounds:
        return half_spaces(np.zeros((0, len(self.slope))), np.zeros(0))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(x)
        size = reach @ np.abs(self.slope) + abs(self.constant)
        phi = reach @ np.abs(self.matrix.T) + np.abs(self.offset)
        size = size + self.law.quantile(self.probability, phi)
        return relative(self.excess(y) - 16.0 * EPS * size, size)


def half_spaces(rows: FloatArray, high: FloatArray) -> LinearBounds:
    """rows · y <= high, in score units."""
    return LinearBounds(rows, np.full(len(high), -np.inf), high, np.ones(len(high)))
