"""What is proved of one person and a program with quadratic conditions: the best bound so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.prototypes.curvature import curvature_of, quadrics_of
from counterpoint.prototypes.solvers.held import Stationary
from counterpoint.prototypes.solvers.moments import Relaxed
from counterpoint.prototypes.solvers.quadric import QuadricPrograms
from counterpoint.prototypes.solvers.shor import Shor
from counterpoint.solvers.base import Effort, Optimality

__all__ = ["Floor", "Relaxations"]

FloatArray = NDArray[np.float64]

RELAXED = {Optimality.LOCAL: 20, Optimality.GLOBAL: 40}
"""The largest number of columns that can move for which the relaxation is solved."""
OPEN = 1e-4
"""A relative gap of the relaxation that no other multipliers close."""


@final
@dataclass(frozen=True, eq=False)
class Relaxations:
    """What bounds a program.

    Parameters
    ----------
    program
        The program.
    """

    program: Program

    @cached_property
    def quadric(self) -> QuadricPrograms:
        """The nearest points that meet single conditions."""
        return QuadricPrograms(self.program)

    @cached_property
    def shor(self) -> Shor:
        """The semidefinite relaxation."""
        return Shor(self.program)


@final
class Floor:
    """The best bound so far, and the multipliers that prove it.

    Parameters
    ----------
    relaxations
        Of the program.
    case
        The person.
    effort
        When to stop.
    cutoff
        A cost that is already reached: a point that is not cheaper is of no use.
    """

    def __init__(
        self, relaxations: Relaxations, case: Cases, effort: Effort, cutoff: float
    ) -> None:
        self.relaxations, self.program, self.case = relaxations, relaxations.program, case
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
        nearest = self.relaxations.quadric.nearest(self.case)
        multipliers = np.zeros(self.program.size)
        weights = nearest.multipliers[0]
        multipliers[self.program.convex_size :][: len(weights)] = weights
        self.by(multipliers)
        if nearest.empty[0]:
            self.refuted_by(multipliers)
        return np.asarray(nearest.points[0])

    def relax(self, nearest: FloatArray) -> Relaxed | None:
        """The semidefinite relaxation and its bound, unless there are too many columns.

        Parameters
        ----------
        nearest
            (d,) a point about as far away as the answer; NaN if there is none.
        """
        if (self.case.low < self.case.high).sum() > RELAXED[self.effort.optimality]:
            return None
        price = 1.0
        if np.isfinite(nearest).all():
            price = float(self.program.cost(nearest[None], self.case.x)[0]) or 1.0
        size = price if curvature_of(self.program).is_absolute else np.sqrt(price)
        relaxed = self.relaxations.shor.relaxed(self.case, size, self.effort)
        if relaxed is not None and relaxed.is_empty:
            self.refuted_by(relaxed.multipliers)
        elif relaxed is not None:
            self.relaxed = relaxed
            self.by(relaxed.multipliers)
        return self.relaxed

    def by(self, multipliers: FloatArray, at: FloatArray | None = None) -> None:
        """The bound by some multipliers, if it is better."""
        about = None if at is None else at[None]
        bound = float(self.program.bound(self.case, multipliers[None], about)[0])
        if bound > self.bound:
            self.bound, self.multipliers = bound, multipliers

    def by_optimum(self, optimum: Stationary) -> None:
        """The bound by the multipliers of a stationary point, if they may close the gap to it."""
        multipliers = np.array(optimum.multipliers)
        if self.relaxed is not None:
            if optimum.price - self.bound > OPEN * optimum.price:
                return
            rest = self.program.convex_size + len(quadrics_of(self.program))
            multipliers[rest:] = self.relaxed.multipliers[rest:]
        self.by(multipliers, optimum.point)

    def refuted_by(self, multipliers: FloatArray) -> None:
        """Keep multipliers that prove that there is no point."""
        if self.program.refutes(self.case, multipliers[None])[0]:
            self.multipliers, self.is_empty = multipliers, True
