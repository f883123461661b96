"""Quadratic conditions together with whole steps, categories and few changes: found by diving.

First the program without what is integral is solved by descents. From its answer one integral part
after the other is held, the most decided ones first, and what is left descends again, until all are
held. The points found so are improved in two ways that take turns: by moves of up to three
integral parts, all of them tried at once; and by branch and bound over the convex part about the
point (one step of the convex-concave procedure), given up after some nodes. In between the other
columns descend with the integral parts held. What is proved comes from relaxations and the
program's own bound, which takes integrality into account.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.prototypes.curvature import quadrics_of
from counterpoint.prototypes.nearer import Nearer
from counterpoint.prototypes.solvers.descent import Descent, Methods
from counterpoint.prototypes.solvers.floor import Floor, Relaxations
from counterpoint.prototypes.solvers.integral import INTEGRAL, Integral, joined
from counterpoint.prototypes.solvers.starts import Starts
from counterpoint.solvers.base import Effort, Outcome, Solver

__all__ = ["Lattice", "Lattices"]

FloatArray = NDArray[np.float64]

GAINED = 1e-9
TURNS = 20
TOGETHER = (80, 30, 0)
"""The largest number of moves that are tried two at a time, three at a time, and no more."""
ELSEWHERE = 24
"""How many integral parts are put elsewhere for the other columns to descend."""
BRANCHED = 4
"""How often the convex part is searched."""
LOOSE = 1e-3
"""The relative gap at which such a search ends."""


@final
@dataclass(frozen=True, eq=False)
class Lattices:
    """What the searches of one program share.

    Parameters
    ----------
    program
        The program.
    branching
        A solver of its convex parts.
    """

    program: Program
    branching: Solver

    @cached_property
    def methods(self) -> Methods:
        """Descents without what is integral."""
        return Methods(self.program.relaxed(*INTEGRAL))

    @cached_property
    def relaxations(self) -> Relaxations:
        """What bounds it."""
        return Relaxations(self.program)

    @cached_property
    def starts(self) -> Starts:
        """Starts that change a single feature, and what meets the program."""
        return Starts(self.program)


@final
class Lattice:
    """One person's search.

    Parameters
    ----------
    shared
        Of the program.
    case
        The person.
    effort
        When to stop.
    cutoff
        A cost that is already reached.
    """

    def __init__(self, shared: Lattices, case: Cases, effort: Effort, cutoff: float) -> None:
        self.shared, self.program, self.case, self.effort = shared, shared.program, case, effort
        self.integral = Integral(self.program, case)
        self.floor = Floor(shared.relaxations, case, effort, cutoff)
        self.point: FloatArray | None = None
        self.cost = np.inf
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    @property
    def outcome(self) -> Outcome:
        """What there is to say."""
        if self.case.empty[0] or self.floor.is_empty:
            return Outcome.INFEASIBLE
        if perf_counter() > self._end:
            return Outcome.LIMIT
        return Outcome.NOTHING if self.point is None else Outcome.FOUND

    def run(self) -> None:
        """Dive, then improve what was found."""
        if self.case.empty[0]:
            return
        nearest = self.floor.nearest()
        relaxed = None if self._is_over() else self.floor.relax(nearest)
        if self._is_over():
            return
        self._keep(np.vstack([self.case.x, self.shared.starts.alone(self.case)]))
        starts = [*self.shared.methods.starts.prototypes, nearest]
        if relaxed is not None:
            starts = [relaxed.point, *starts]
        for start in starts:
            self._dive(start, self.case.low[0], self.case.high[0])
            if self._is_over():
                return
        self._improve()

    def _is_over(self) -> bool:
        return self.floor.closes(self.cost) or perf_counter() > self._end

    def _keep(self, points: FloatArray) -> bool:
        """Keep the cheapest of some points that meets the program; whether that is a gain."""
        if not len(points):
            return False
        cost = self.program.cost(points, np.repeat(self.case.x, len(points), axis=0))
        cheaper = np.flatnonzero(cost < self.cost * (1.0 - GAINED))
        met = self.shared.starts.met(points[cheaper], self.case)
        if not met.any():
            return False
        best = cheaper[met][cost[cheaper[met]].argmin()]
        self.point, self.cost = points[best], float(cost[best])
        return True

    def _descent(self, start: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray | None:
        """Where a descent without what is integral ends, within bounds."""
        within = replace(self.case, low=low[None], high=high[None])
        left = None if np.isinf(self._end) else max(self._end - perf_counter(), 1e-3)
        effort = replace(self.effort, seconds=left)
        descent = Descent(self.shared.methods, within, effort, np.inf)
        descent.descend(start)
        return descent.point

    def _dive(self, start: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Within bounds, hold one integral part after the other, from where a descent ends."""
        if not np.isfinite(start).all():
            return
        point = self._descent(start, low, high)
        for _ in range(2 * self.program.width):
            if point is None or perf_counter() > self._end:
                return
            held = self.integral.held(point, low, high)
            if held is None:
                self._keep(self.integral.exactly(point)[None])
                return
            for value in self.integral.choices(point, held):
                lower, upper = np.array(low), np.array(high)
                lower[held] = upper[held] = value
                found = self._descent(point, lower, upper)
                if found is not None:
                    break
            point, low, high = found, lower, upper

    def _improve(self) -> None:
        """Moves, convex parts and descents in turn, until none of them gains anything."""
        for _ in range(BRANCHED):
            if self.point is None or self._is_over():
                return
            self._move()
            gained = self._settle()
            gained |= self._settle_elsewhere()
            if not (self._branch() or gained):
                return

    def _settle_elsewhere(self) -> bool:
        """Dive where another feature changes, or an integral part is held elsewhere."""
        before = self.cost
        if self.point is not None:
            for low, high, start in islice(self.integral.elsewhere(self.point), ELSEWHERE):
                if (low < high).any() and perf_counter() <= self._end:
                    self._dive(start, low, high)
        return self.cost < before

    def _settle(self) -> bool:
        """Let the other columns descend with the integral parts held; whether that gains."""
        if self.point is None:
            return False
        held = self.program.held(self.point[None], self.case.x)[0]
        if held.all():
            return False
        low = np.where(held, self.point, self.case.low[0])
        high = np.where(held, self.point, self.case.high[0])
        found = self._descent(self.point, low, high)
        return found is not None and self._keep(found[None])

    def _move(self) -> None:
        """Moves of one or two integral parts, as long as one gains."""
        for _ in range(TURNS):
            if self.point is None or perf_counter() > self._end:
                return
            alone = moves = self.integral.moves(self.point)
            for most in TOGETHER:
                if self._keep(self.point + moves):
                    break
                if len(alone) > most:
                    return
                moves = joined(moves, alone)
            else:
                return

    def _branch(self) -> bool:
        """Branch and bound over the convex part about the point; whether that gains."""
        if self.point is None or self._is_over():
            return False
        margin = quadrics_of(self.program).closed_in(self.case.margin)[0]
        parts = [
            condition.convexified(self.point, float(closed))
            for condition, closed in zip(quadrics_of(self.program).conditions, margin, strict=True)
        ]
        rest = tuple(c for c in self.program.region if not isinstance(c, Nearer))
        convex = Program(self.program.price, Region((*rest, *(c for part in parts for c in part))))
        left = None if np.isinf(self._end) else max(self._end - perf_counter(), 1e-3)
        prepared = self.shared.branching.prepare(convex)
        solution = prepared.solve(self.case, Effort(LOOSE, left), np.array([self.cost]))
        return bool(solution.found[0]) and self._keep(
            self.integral.exactly(solution.points[0])[None]
        )
