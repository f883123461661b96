"""SCIP: the global optimum of programs that are not convex (extra ``global``).

The search is a proof by contradiction: is there a point that costs less than the best one known?
All of those lie in a ball about the row (`Ball`), which is what makes a lifted relaxation tight
(`Spatial`). A point that SCIP finds is polished, becomes the best one known, and the ball shrinks;
when SCIP has excluded all others, what it excluded is the bound. Without a point to begin with, the
ball grows until one is found, or until it holds all that the bounds allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from counterpoint.errors import MissingExtra, SolverFailure
from counterpoint.families.prototypes.nearer import curvature_of
from counterpoint.families.prototypes.solvers.ccp import Ccp
from counterpoint.families.prototypes.solvers.lower_bound import Quadric
from counterpoint.numerics import FloatArray
from counterpoint.programs.region import Cases
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

if TYPE_CHECKING:
    from counterpoint.families.prototypes.solvers.spatial import ScipFound
    from counterpoint.programs.program import Program

__all__ = ["Scip"]

TRUSTED = 1e-7
"""What SCIP's tolerances may lift a bound by, as a share of the radius; it is given away."""
MET = 5e-9
"""The largest relative violation of a point that meets a program."""


@final
@dataclass(frozen=True, eq=False)
class Scip(Solver):
    """Spatial branch and bound by SCIP: as exact as a relative gap of 1e-6, given time."""

    accepts: ClassVar[frozenset[type]] = Quadric.accepts
    accuracy: ClassVar[float] = 1e-6
    exhaustive: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        return Quadric.takes(program)

    def __post_init__(self) -> None:
        try:
            import pyscipopt  # noqa: F401
        except ImportError:
            raise MissingExtra(
                "A search for global optima needs SCIP: pip install 'counterpoint[global]'. "
                "Without it, ask for optimality='local'."
            ) from None

    @cached_property
    def local(self) -> Ccp:
        """What polishes a point."""
        return Ccp(self.program)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            reached = np.inf if cutoff is None else float(cutoff[i])
            search = GlobalSearch(self, case, effort, reached)
            search.run()
            out.reported[i], out.outcomes[i] = max(search.bound, 0.0), search.outcome
            if search.point is not None:
                out.points[i] = search.point
                out.reported[i] = min(search.bound, search.cost)
        return out


@final
class GlobalSearch:
    """One row's search: for the best point, and for the proof that it is."""

    def __init__(self, owner: Scip, case: Cases, effort: Effort, cutoff: float) -> None:
        self.owner, self.program, self.case = owner, owner.program, case
        self.effort = effort
        # SCIP may leave most of the gap, some is for its tolerances; it takes none that is finer
        self.gap = min(max(0.8 * effort.gap, 2.0 * TRUSTED), 0.5)
        self.cost = cutoff
        self.point: FloatArray | None = None
        self.bound = 0.0
        self._is_cut_off = False
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    @property
    def outcome(self) -> Outcome:
        """What there is to say."""
        if self._is_cut_off:
            return Outcome.LIMIT
        if self.point is not None:
            return Outcome.FOUND
        return Outcome.INFEASIBLE if np.isinf(self.bound) else Outcome.NOTHING

    def run(self) -> None:
        """Search ball after ball, each larger than the last while no point is known."""
        case = self.case
        if case.empty[0] or self.program.empty(case)[0]:
            self.bound = np.inf
        elif (case.low == case.high).all():
            self._offer(case.low[0])
            missed = self.program.violation(case.low, case.x)[0] > MET
            self.bound = np.inf if missed else float(self.program.cost(case.low, case.x)[0])
        elif self._meets(case.x[0]):
            self.point, self.cost = case.x[0], 0.0
        else:
            self._search()

    def _search(self) -> None:
        if np.isinf(self.cost):
            radius = min(self._first_radius(), self._furthest)
            for k in range(7):
                if self._is_done_within(radius) or (k == 0 and self._is_nowhere()):
                    return
                radius = min(8.0 * radius, self._furthest, self.cost)
        while np.isfinite(self.cost) and not self._is_done_within(self.cost):
            pass

    def _is_done_within(self, radius: float) -> bool:
        """Search a ball; whether nothing is left to be done, in this ball or a larger one."""
        share = 1.0 - self.gap
        found, point = self._looked(radius, share, first=True)
        if point is not None:
            if self._offer(point) and self.cost < share * radius:
                return not self.cost > 0.0
            # It cannot be made exact, or only just: is there anything, with finer tolerances?
            found, point = self._looked(radius, share, first=False, scale=32.0)
            if point is not None:
                self._offer(point)
        lowest = min(found.bound, share) - TRUSTED
        self.bound = max(self.bound, lowest * radius)
        if not found.ended:
            self._is_cut_off = True
            return True
        if np.isposinf(found.bound) and radius >= self._furthest and np.isinf(self.cost):
            self.bound = np.inf
        return point is not None or radius >= min(self.cost, self._furthest)

    def _is_nowhere(self) -> bool:
        """Whether there is no point at all; if one turns up, it is kept."""
        found, point = self._looked(self._first_radius(), np.inf, first=True)
        if point is not None:
            self._offer(point)
        elif found.ended:
            self.bound = max(self.bound, found.bound)
        return bool(np.isposinf(self.bound))

    def _looked(
        self, radius: float, share: float, *, first: bool, scale: float = 4.0
    ) -> tuple[ScipFound, FloatArray | None]:
        """What is found in a ball; in one without a limit, if any share of its radius will do."""
        from counterpoint.families.prototypes.solvers.spatial import (
            Ball,
            ScipFound,
            Spatial,
            scip_errors,
        )

        left = self._end - perf_counter()
        if left <= 0.0:
            return ScipFound(ended=False, bound=-np.inf), None
        limited = bool(np.isfinite(share))
        ball = Ball(self.program, self.case, radius, 1.0 if limited else np.inf)
        seconds, nodes = left if np.isfinite(left) else None, -1 if limited else 1
        try:
            with scip_errors():
                model = Spatial(ball, share, scale)
                found = model.search(self.gap, seconds, first=first, nodes=nodes)
        except SolverFailure as failure:
            if "error in LP solver" not in str(failure):
                raise
            return ScipFound(ended=True, bound=-np.inf), None  # a numerical reason: no claim
        return found, None if found.values is None else ball.point(found.values)

    @cached_property
    def _furthest(self) -> float:
        """A radius with which a ball holds all that the bounds allow."""
        encoded_cost, x = self.program.encoded_cost, self.case.x[0]
        away = np.maximum(np.abs(self.case.low[0] - x), np.abs(self.case.high[0] - x))
        if np.isinf(away).any():
            return np.inf
        full = (
            encoded_cost.quadratic
            if encoded_cost.quadratic.ndim == 2
            else np.diag(encoded_cost.quadratic)
        )
        paid = encoded_cost.absolute @ away + away @ np.abs(full) @ away
        return float(paid) * (1.0 + 4.0 * self.gap)

    def _first_radius(self) -> float:
        """Twice what it costs to meet the most demanding quadratic condition, or about |x|."""
        x = self.case.x
        points = x + np.maximum(np.abs(x), 1.0)
        if len(curvature_of(self.program).quadrics):
            nearest = self.owner.local.quadric.nearest(self.case)[0]
            points = np.vstack([nearest, points])
        paid = self.program.cost(points, np.repeat(x, len(points), axis=0))
        usable = np.isfinite(paid) & (paid > 0.0)
        return 2.0 * float(paid[usable][0])

    def _offer(self, y: FloatArray) -> bool:
        """Keep what a descent from a point finds, or the point itself, if it costs less.

        What is integral is held. Whether it does.
        """
        before, held, found = self.cost, self.program.held(y[None], self.case.x)[0], [y]
        if not held.all():
            within = self.case.within(np.where(held, y, -np.inf), np.where(held, y, np.inf))
            polished = self.owner.local.descents.free.descended(y, within, self._end)
            found += [] if polished is None else [polished]
        for point in found:
            cost = float(self.program.cost(point[None], self.case.x)[0])
            if cost < self.cost and self._meets(point):
                self.point, self.cost = point, cost
        return self.cost < before

    def _meets(self, y: FloatArray) -> bool:
        """Whether a (d,) point meets the program, with the margin."""
        x, margin = self.case.x, self.program.tightened(self.case.margin)
        missed = self.program.violation(y[None], x), margin.violation(y[None], x)
        return bool(max(part[0] for part in missed) <= MET)
