"""Newton steps on the points themselves, for the few rows whose coefficients cancel.

Where λ is small and the label's row lies within the hull of the others, u is large, and of G u
little is left but rounding. The gradient at the point itself has no such loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Price
from counterpoint.engine.charges import LogLoss
from counterpoint.models.softmax import Hessians, LogLosses

__all__ = ["Slope", "polished"]

FloatArray = NDArray[np.float64]

STEPS = 4
EXACTLY = 1e-12
LOSS = LogLosses()


@final
@dataclass(frozen=True, eq=False)
class Slope:
    """λ/2 δᵀPδ and what is charged, at points, and how their sum E falls.

    Parameters
    ----------
    points, x
        (n, d) where the rows are, and their factual points.
    weight
        (n,) λ.
    charge
        What is charged.
    directions
        (m, d) its rows times P⁻¹.
    price
        δᵀPδ.
    """

    points: FloatArray
    x: FloatArray
    weight: FloatArray
    charge: LogLoss
    directions: FloatArray
    price: Price

    @cached_property
    def shares(self) -> FloatArray:
        """(m + 1, n) the probabilities of the classes, the label's last."""
        scores = np.zeros((self.charge.size + 1, len(self.points)))
        scores[:-1] = self.charge.matrix @ self.points.T + self.charge.offset[:, None]
        label = np.full(len(self.points), self.charge.size)
        return LOSS.pull(scores, label).shares

    @cached_property
    def steepest(self) -> FloatArray:
        """(n, d) P⁻¹∇E."""
        pulled = self.shares[:-1].T @ self.directions
        return np.asarray(self.weight[:, None] * (self.points - self.x) + pulled)

    @cached_property
    def length(self) -> FloatArray:
        """(n,) ‖∇E‖² in the metric P⁻¹."""
        return self.price(self.steepest)

    def step(self, gram: FloatArray) -> FloatArray:
        """(n, d) the Newton step."""
        weighed = np.zeros_like(self.shares)
        weighed[:-1] = self.charge.matrix @ self.steepest.T
        hessians = Hessians(gram, self.shares, self.weight)
        forcing = np.full(len(self.x), EXACTLY)
        along = hessians.direction(np.zeros_like(weighed), weighed, forcing)
        return np.asarray(along[:-1].T @ self.directions - self.steepest / self.weight[:, None])

    def at(self, points: FloatArray) -> Slope:
        """The same rows at other points."""
        return Slope(points, self.x, self.weight, self.charge, self.directions, self.price)


def polished(slope: Slope, gram: FloatArray) -> Slope:
    """Where the gradient is as short as a few steps make it; rows that they lengthen stay."""
    for _ in range(STEPS):
        there = slope.at(slope.points + slope.step(gram))
        better = there.length < slope.length
        if not better.any():
            break
        slope = slope.at(np.where(better[:, None], there.points, slope.points))
    return slope
