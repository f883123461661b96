"""SCIP: the global optimum of programs that are not convex (extra ``global``).

A program is translated as it stands, and solved by SCIP's spatial branch and bound. Columns are
measured in units in which the cost to beat is 1, so that SCIP's tolerances, which are absolute,
mean the same for every row. A point of SCIP's is made exact by a descent, and becomes the one to
beat; the bound is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from counterpoint.errors import MissingExtra, SolverFailure
from counterpoint.families.prototypes.quadratic_difference import curvature_of
from counterpoint.families.prototypes.solvers.ccp import Ccp, LocalSearch
from counterpoint.families.prototypes.solvers.lower_bound import Quadric
from counterpoint.numerics import VIOLATION, FloatArray
from counterpoint.programs.program import tightened
from counterpoint.programs.region import Cases
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

if TYPE_CHECKING:
    from counterpoint.programs.program import Program

__all__ = ["Scip"]

TRUSTED = 1e-7
"""What SCIP's tolerances may lift a bound by, relative to the cost to beat; it is given away."""


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
        """The local search whose descents make points exact."""
        return Ccp(self.program)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            search, bound = LocalSearch(self.local, case, effort, np.inf), np.inf
            if not case.empty[0] and not self.program.domain.is_empty(case)[0]:
                search.keep(case.x)
                if search.point is None:
                    bound = self._search(search, np.inf if cutoff is None else float(cutoff[i]))
            out.reported[i] = max(min(bound, search.cost), 0.0)
            if search.point is not None:
                out.points[i], out.outcomes[i] = search.point, Outcome.FOUND
            elif np.isinf(bound):
                out.outcomes[i] = Outcome.INFEASIBLE
            if search.is_late:
                out.outcomes[i] = Outcome.LIMIT
        return out

    def _search(self, search: LocalSearch, cost: float) -> float:
        """Beat a cost until SCIP excludes all that is cheaper, or time is up; return the bound."""
        from counterpoint.families.prototypes.solvers.scip_model import Translation, scip_errors

        # Most of the gap is left to SCIP, some is for its tolerances.
        gap, bound = min(max(0.8 * search.effort.gap, 2.0 * TRUSTED), 0.5), 0.0
        while not search.is_late:
            unit = cost if np.isfinite(cost) else self._unit(search.case)
            try:
                with scip_errors():
                    model = Translation(self.program, search.case, unit, (1.0 - gap) * cost)
                    lowest, y = model.solve(gap, search.seconds)
            except SolverFailure as failure:
                if "error in LP solver" not in str(failure):
                    raise
                break  # a numerical reason: no claim
            bound = max(bound, min(lowest - TRUSTED * unit, (1.0 - gap - TRUSTED) * cost))
            if y is not None:
                self._offer(search, y)
            if not search.cost < cost or bound >= (1.0 - search.effort.gap) * search.cost:
                break
            cost = search.cost
        return bound

    def _offer(self, search: LocalSearch, y: FloatArray) -> None:
        """Keep what descents from a point of SCIP's find, or the point itself where they fail."""
        x, (low, high) = search.case.x, search.holding(y)
        search.dive(y, low, high)
        y = np.clip(y, low, high)
        # In a corner a descent finds its way only along the bounds.
        near = np.abs(y - x[0]).max() * 1e-6
        search.dive(y, np.where(high - y <= near, high, low), np.where(y - low <= near, low, high))
        missed = self.program.violation(y[None], x)
        closed_in = tightened(self.program, search.case.margin)
        missed = np.maximum(missed, closed_in.violation(y[None], x))
        cost = float(self.program.encoded_cost(y[None], x)[0])
        if cost < search.cost * (1.0 - VIOLATION) and missed[0] <= VIOLATION:
            search.point, search.cost = y, cost

    def _unit(self, case: Cases) -> float:
        """Return what it costs to meet the most demanding quadratic condition, or about |x|."""
        points = case.x + np.maximum(np.abs(case.x), 1.0)
        if len(curvature_of(self.program).quadrics):
            points = np.vstack([self.local.quadric.nearest(case)[0], points])
        cost = self.program.encoded_cost(points, np.repeat(case.x, len(points), axis=0))
        return float(cost[np.isfinite(cost) & (cost > 0.0)][0])
