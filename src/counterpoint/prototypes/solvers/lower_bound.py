"""What is proved of one row and a program with quadratic conditions: the best bound so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.prototypes.solvers.shor import Relaxed
from counterpoint.prototypes.solvers.tangents import Step
from counterpoint.solvers.base import Effort, Optimality

if TYPE_CHECKING:
    from counterpoint.prototypes.solvers.descent import Descents

__all__ = ["LowerBound"]

FloatArray = NDArray[np.float64]

RELAXED = {Optimality.LOCAL: 20, Optimality.GLOBAL: 40}
"""The largest number of columns that can move for which the relaxation is solved."""
OPEN = 1e-4
"""A relative gap of the relaxation that no other multipliers close."""


@final
class LowerBound:
    """The best bound so far, and the multipliers that prove it."""

    def __init__(self, shared: Descents, case: Cases, effort: Effort, cutoff: float) -> None:
        self.shared, self.program, self.case = shared, shared.program, case
        self.effort, self.cutoff = effort, cutoff
        self.bound = 0.0
        self.multipliers = np.zeros(self.program.size)
        self.is_empty = False
        self.relaxed: Relaxed | None = None

    def closes(self, cost: float) -> bool:
        """Whether nothing can be gained on a cost, or on what is already reached."""
        close = self.bound >= cost * (1.0 - self.effort.gap) if np.isfinite(cost) else False
        hopeless = self.bound >= self.cutoff * (1.0 - 0.1 * self.effort.gap)
        return bool(close or hopeless or self.is_empty)

    def nearest(self) -> FloatArray:
        """(d,) the nearest point that meets the condition which asks for most, and its bound."""
        nearest = self.shared.quadric.nearest(self.case)
        multipliers = np.zeros(self.program.size)
        weights = nearest.multipliers[0]
        multipliers[self.program.convex_size :][: len(weights)] = weights
        self._by(multipliers)
        if nearest.empty[0]:
            self._refuted_by(multipliers)
        return np.asarray(nearest.points[0])

    def relax(self, nearest: FloatArray) -> Relaxed | None:
        """The semidefinite relaxation and its bound, unless there are too many columns.

        ``nearest`` (d,) is about as far away as the answer; NaN if there is no such point.
        """
        if (self.case.low < self.case.high).sum() > RELAXED[self.effort.optimality]:
            return None
        price = 1.0
        if np.isfinite(nearest).all():
            price = float(self.program.cost(nearest[None], self.case.x)[0]) or 1.0
        size = price if self.shared.curvature.is_absolute else np.sqrt(price)
        found = self.shared.relaxed(self.case, size, self.effort)
        if found is not None and found.is_empty:
            self._refuted_by(found.multipliers)
        elif found is not None:
            self.relaxed = found
            self._by(found.multipliers)
        return self.relaxed

    def by_step(self, step: Step) -> None:
        """The bound by the multipliers of a last step, if they may close the gap to its point."""
        program, curvature, y = self.program, self.shared.curvature, step.point
        cost = float(program.cost(y[None], self.case.x)[0])
        if self.closes(cost):
            return
        multipliers, at, j = np.zeros(program.size), program.convex_size, len(step.weights)
        multipliers[: len(step.rows)], multipliers[at : at + j] = step.rows, step.weights
        if curvature.is_absolute:  # in units of its square, see `Curvature`
            multipliers[: at + j] *= 2.0 * cost
            slope = curvature.quadrics.slope(y[None], step.weights[None])[0]
            pull = -(slope + step.rows @ program.affine.matrix)
            s = np.clip(pull / program.price.absolute, -1.0, 1.0)
            first, second = curvature.pairs
            multipliers[program.size - len(first) :] = s[first] * s[second]
        if self.relaxed is not None:
            if cost - self.bound > OPEN * cost:
                return
            multipliers[at + j :] = self.relaxed.multipliers[at + j :]
        self._by(multipliers, y)

    def _by(self, multipliers: FloatArray, at: FloatArray | None = None) -> None:
        """The bound by some multipliers, if it is better."""
        about = None if at is None else at[None]
        bound = float(self.program.bound(self.case, multipliers[None], about)[0])
        if bound > self.bound:
            self.bound, self.multipliers = bound, multipliers

    def _refuted_by(self, multipliers: FloatArray) -> None:
        """Keep multipliers that prove that there is no point."""
        if self.program.refutes(self.case, multipliers[None])[0]:
            self.multipliers, self.is_empty = multipliers, True
