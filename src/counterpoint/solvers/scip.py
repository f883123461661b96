"""SCIP: the global optimum of programs that are not convex (extra ``global``).

The search is a proof by contradiction: is there a point that costs less than the best one known?
All of those lie in a ball about the person (`Ball`), which is what makes a lifted relaxation tight
(`Spatial`). A point that SCIP finds is polished, becomes the best one known, and the ball shrinks;
when SCIP has excluded all others, what it excluded is the bound. Without a point to begin with, the
ball grows until one is found, or until it holds all that the bounds allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.errors import MissingExtra
from counterpoint.programs import Program
from counterpoint.regions import Affine, AtMost, Box, Cone, Nearer, OneOf, Transitions, Whole
from counterpoint.solvers.balls import Ball
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver
from counterpoint.solvers.quadric import QuadricPrograms
from counterpoint.solvers.stationary import Equations
from counterpoint.solvers.tangents import Tangents

if TYPE_CHECKING:
    from counterpoint.solvers.sheets import Found

__all__ = ["Scip"]

FloatArray = NDArray[np.float64]

USED = 0.8
"""How much of the gap SCIP may leave; some of the rest is given away to its tolerances."""
FINEST = 2e-7
"""The least relative gap that SCIP is asked for."""
TRUSTED = 1e-7
"""What SCIP's tolerances may lift a bound by, as a share of the radius; it is given away."""
MET = 1e-9
"""The largest relative violation of a polished point."""
COARSE, FINE = 4.0, 32.0
"""Scales of tolerances: of the first search of a ball, and of a second one, if need be."""
GROWTH = 8.0
"""How much larger the next ball is, while no point is known."""
BALLS = 7
"""How many of them are searched."""
NODES = 1
"""How many nodes are searched without a ball."""
STEPS = 30
STALLED = 1e-9


@final
class Scip(Solver):
    """Spatial branch and bound by SCIP: as exact as a relative gap of 1e-6, given time."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, Affine, Cone, Nearer}
        | {Whole, OneOf, Transitions, AtMost}
    )
    accuracy: ClassVar[float] = 1e-6
    exhaustive: ClassVar[bool] = True

    def takes(self, program: Program) -> bool:
        return program.kinds <= self.accepts and bool(program.nonconvex)

    def prepare(self, program: Program) -> ScipPrograms:
        _check_extra()
        return ScipPrograms(program)


def _check_extra() -> None:
    try:
        import pyscipopt  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "A search for global optima needs SCIP: pip install 'counterpoint[global]'. Without "
            "it, ask for optimality='local'."
        ) from None


@final
@dataclass(frozen=True, eq=False)
class ScipPrograms(Prepared):
    """A program, of which SCIP gets one person's part at a time."""

    program: Program

    @cached_property
    def quadric(self) -> QuadricPrograms:
        """Each quadratic condition alone, for a first radius."""
        return QuadricPrograms(self.program)

    @cached_property
    def tangents(self) -> Tangents:
        """Convex parts, for polishing."""
        return Tangents(self.program)

    @cached_property
    def equations(self) -> Equations:
        """Conditions of optimality, for polishing."""
        return Equations(self.program)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            hunt = Hunt(self, case, effort, np.inf if cutoff is None else float(cutoff[i]))
            hunt.run()
            hunt.record(out, i)
        return out


@final
class Hunt:
    """One person's search: for the best point, and for the proof that it is."""

    def __init__(self, owner: ScipPrograms, case: Cases, effort: Effort, cutoff: float) -> None:
        self.owner, self.program, self.case = owner, owner.program, case
        self.effort = effort
        self.gap = max(USED * effort.gap, FINEST)
        self.cost = cutoff
        self.point: FloatArray | None = None
        self.bound = 0.0
        self.outcome = Outcome.NOTHING
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    def run(self) -> None:
        """Search ball after ball."""
        case = self.case
        if case.empty[0] or self.program.empty(case)[0]:
            self.bound = np.inf
        elif (case.low == case.high).all():
            self._offer(case.low[0])
            self.bound = np.inf if self.point is None else self.cost
        elif self._meets(case.x[0]):
            self.point, self.cost = case.x[0], 0.0
        else:
            self._search()

    def _search(self) -> None:
        if np.isinf(self.cost):
            radius = min(self._first_radius(), self._furthest)
            for k in range(BALLS):
                if self._is_done_within(radius) or (k == 0 and self._is_nowhere()):
                    return
                radius = (
                    self.cost if np.isfinite(self.cost) else min(GROWTH * radius, self._furthest)
                )
        while np.isfinite(self.cost) and not self._is_done_within(self.cost):
            pass

    def _is_done_within(self, radius: float) -> bool:
        """Search a ball; whether nothing is left to be done, in this ball or a larger one."""
        share = 1.0 - self.gap
        ball = Ball(self.program, self.case, radius)
        found = self._looked(ball, share, first=True)
        if found.values is not None:
            if self._offer(ball.point(found.values)) and self.cost < share * radius:
                return not self.cost > 0.0
            # It cannot be made exact, or only just: is there anything, with finer tolerances?
            found = self._looked(ball, share, first=False, scale=FINE)
            if found.values is not None:
                self._offer(ball.point(found.values))
        lowest = min(found.bound, share) - TRUSTED
        self.bound = max(self.bound, lowest * radius)
        if not found.ended:
            self.outcome = Outcome.LIMIT
            return True
        if found.values is not None or np.isfinite(self.cost):
            return True
        if radius >= self._furthest:
            self.bound = np.inf
        return bool(np.isinf(self.bound))

    def _is_nowhere(self) -> bool:
        """Whether there is no point at all; if one turns up, it is kept."""
        ball = Ball(self.program, self.case, self._first_radius(), limit=np.inf)
        found = self._looked(ball, np.inf, first=True)
        if found.values is not None:
            self._offer(ball.point(found.values))
        elif found.ended:
            self.bound = np.inf
        return bool(np.isinf(self.bound))

    def _looked(
        self, ball: Ball, share: float, *, first: bool, scale: float = COARSE
    ) -> Found:
        from counterpoint.solvers.sheets import Found, Limits, Translated
        from counterpoint.solvers.spatial import Spatial

        left = self._end - perf_counter()
        if left <= 0.0:
            return Found(ended=False, bound=-np.inf, values=None)
        seconds = left if np.isfinite(left) else None
        nodes = -1 if np.isfinite(share) else NODES
        with Translated():
            spatial = Spatial(ball, share, scale)
            return spatial.search(Limits(self.gap, seconds, first=first, nodes=nodes))

    @cached_property
    def _furthest(self) -> float:
        """A radius with which a ball holds all that the bounds allow."""
        price, x = self.program.price, self.case.x[0]
        away = np.maximum(np.abs(self.case.low[0] - x), np.abs(self.case.high[0] - x))
        if np.isinf(away).any():
            return np.inf
        full = price.quadratic if price.quadratic.ndim == 2 else np.diag(price.quadratic)
        paid = price.absolute @ away + away @ np.abs(full) @ away
        return float(paid) * (1.0 + 4.0 * self.gap)

    def _first_radius(self) -> float:
        """Twice what it costs to meet the most demanding quadratic condition, or about |x|."""
        x = self.case.x
        points = x + np.maximum(np.abs(x), 1.0)
        if len(self.program.quadrics):
            points = np.vstack([self.owner.quadric.nearest(self.case).points, points])
        paid = self.program.cost(points, np.repeat(x, len(points), axis=0))
        usable = np.isfinite(paid) & (paid > 0.0)
        return 2.0 * float(paid[usable][0])

    def _offer(self, y: FloatArray) -> bool:
        """Keep a point, polished, if it meets the program and costs less; whether it does."""
        polished = self._polished(y)
        if polished is None:
            return False
        cost = float(self.program.cost(polished[None], self.case.x)[0])
        if not cost < self.cost:
            return False
        self.point, self.cost = polished, cost
        return True

    def _polished(self, y: FloatArray) -> FloatArray | None:
        """The local optimum about a point, with what is integral held; None if there is none."""
        x = self.case.x
        held = self.program.held(y[None], x)[0]
        case = self.case.within(np.where(held, y, -np.inf), np.where(held, y, np.inf))
        best, lowest = None, np.inf
        for candidate in (y, *(() if held.all() else self._steps(case, y))):
            cost = float(self.program.cost(candidate[None], x)[0])
            if cost < lowest and self._meets(candidate):
                best, lowest = candidate, cost
        return best

    def _steps(self, case: Cases, y: FloatArray) -> Iterator[FloatArray]:
        """The convex-concave procedure from a point, and the stationary points near its own."""
        everything = np.arange(len(self.program.quadrics))
        before = np.inf
        for _ in range(STEPS):
            step = self.owner.tangents.step(case, y, everything, self.effort)
            if step is None:
                return
            y = step.point
            yield y
            cost = float(self.program.cost(y[None], case.x)[0])
            exact = None
            if len(everything):
                exact = self.owner.equations.near(case, y, step.weights, step.rows)
            if exact is not None:
                yield exact.point
            if not cost < before * (1.0 - STALLED):
                return
            before = cost

    def _meets(self, y: FloatArray) -> bool:
        """Whether a point meets the program, with the margin."""
        program, case = self.program, self.case
        if program.violation(y[None], case.x)[0] > MET:
            return False
        return bool(program.tightened(case.margin).violation(y[None], case.x)[0] <= MET)

    def record(self, out: Solution, i: int) -> None:
        """What the search says of its person."""
        out.reported[i] = max(self.bound, 0.0)
        out.outcomes[i] = self.outcome
        if self.point is not None:
            out.points[i] = self.point
            out.reported[i] = min(self.bound, self.cost)
            out.outcomes[i] = Outcome.FOUND if self.outcome == Outcome.NOTHING else self.outcome
        elif np.isinf(self.bound):
            out.outcomes[i] = Outcome.INFEASIBLE
