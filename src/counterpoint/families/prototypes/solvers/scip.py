"""Global optima of programs that are not convex: each as a model in SCIP (extra ``global``).

What SCIP reports is a bound with tolerances; its best point is made exact by descents.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from counterpoint.errors import SolverFailure, missing_extra
from counterpoint.families.prototypes.quadratic_difference import curvature_of
from counterpoint.families.prototypes.solvers.ccp import Ccp, LocalSearch
from counterpoint.families.prototypes.solvers.lower_bound import Quadric
from counterpoint.numerics import TINY, VIOLATION, FloatArray
from counterpoint.programs.program import tightened
from counterpoint.programs.region import Batch
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

if TYPE_CHECKING:
    from counterpoint.programs.program import Program

TRUSTED = 1e-7
"""What SCIP's tolerances may lift a bound by, relative to the cost to beat; it is given away."""
LENGTH = 32.0
"""What SCIP sees in the place of a change of one unit, its square for the cost and for squares: its
tolerances are absolute, and with finer ones it prints to the standard error."""
MOST_STEPS = 1e6
"""A column that may move by more steps counts as continuous: SCIP holds integers to 1e-6."""
PARAMETERS: dict[str, Any] = {
    "misc/allowstrongdualreds": False,  # nothing is cut off but what is impossible or too dear
    "misc/allowweakdualreds": False,
    "lp/presolving": False,  # it prints to the standard error, whatever it is told
}


@contextmanager
def scip_errors() -> Iterator[None]:
    """Raise SCIP's errors, which are bare exceptions, as `SolverFailure`."""
    try:
        yield
    except BaseException as error:
        if "SCIP:" in str(error):
            raise SolverFailure(f"SCIP failed: {error}") from error
        raise


@final
@dataclass(frozen=True, eq=False)
class Scip(Solver):
    """Spatial branch and bound by SCIP: as exact as a relative gap of 1e-6, if time allows."""

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
            raise missing_extra(
                "A search for global optima needs SCIP",
                "global",
                "Without it, ask for optimality='local'.",
            ) from None

    @cached_property
    def local(self) -> Ccp:
        """The local search whose descents make points exact."""
        return Ccp(self.program)

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            search, bound = LocalSearch(self.local, case, effort, np.inf), np.inf
            if not case.empty[0] and not self.program.domain.is_empty(case)[0]:
                search.offer(case.x)
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
        # Most of the gap is left to SCIP, some is for its tolerances.
        gap, bound = min(max(0.8 * search.effort.gap, 2.0 * TRUSTED), 0.5), 0.0
        while not search.is_late:
            unit = cost if np.isfinite(cost) else self._typical_cost(search.case)
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
                self._make_exact(search, y)
            if not search.cost < cost or bound >= (1.0 - search.effort.gap) * search.cost:
                break
            cost = search.cost
        return bound

    def _make_exact(self, search: LocalSearch, y: FloatArray) -> None:
        """Offer where descents from a point of SCIP's end, or the point itself where they fail."""
        x, (low, high) = search.case.x, search.holding(y)
        search.dive(y, low, high)
        y = np.clip(y, low, high)
        closed_in = tightened(self.program, search.case.margin)
        cost = float(self.program.encoded_cost(y[None], x)[0])
        missed = max(region.violation(y[None], x)[0] for region in (self.program, closed_in))
        if cost < search.cost * (1.0 - VIOLATION) and missed <= VIOLATION:
            search.point, search.cost = y, cost

    def _typical_cost(self, case: Batch) -> float:
        """Return what it costs to meet the most demanding quadratic condition, or about |x|."""
        points = case.x + np.maximum(np.abs(case.x), 1.0)
        if len(curvature_of(self.program).quadrics):
            points = np.vstack([self.local.quadric.nearest(case)[0], points])
        cost = self.program.encoded_cost(points, np.repeat(case.x, len(points), axis=0))
        return float(cost[np.isfinite(cost) & (cost > 0.0)][0])


@final
class Translation:
    """One row's program as a model in SCIP, over v with y = base + unit · v.

    ``cost_unit``: the cost that counts as 1; ``limit``: points that cost no less are not looked
    for; infinite for none.
    """

    def __init__(self, program: Program, case: Batch, cost_unit: float, limit: float) -> None:
        import pyscipopt

        self.sum = pyscipopt.quicksum
        self.program, self.curvature, self.x = program, curvature_of(program), case.x[0]
        self.cost_unit, self.model = cost_unit / LENGTH**2, pyscipopt.Model()
        self.model.hideOutput()
        self.model.setHeuristics(pyscipopt.SCIP_PARAMSETTING.OFF)
        self.model.setParams(PARAMETERS)
        if np.isfinite(limit):
            self.model.setObjlimit(limit / self.cost_unit)
        numeric, steps = program.domain.numeric, program.domain.steps
        self.base = np.where(numeric, self.x, 0.0)
        self.unit = np.where(numeric, self._changes(cost_unit) / LENGTH, 1.0)
        self.unit = np.where(steps > 0.0, steps, self.unit)
        width = np.maximum(np.maximum(case.high[0] - self.x, self.x - case.low[0]), 0.0)
        reach = np.minimum(self._changes(limit) * (1.0 + 1e-9), width)
        self.reach = np.where(numeric, reach, 1.0)  # (d,) the largest changes
        low = np.maximum(case.low[0] - self.base, -self.reach) / self.unit
        high = np.minimum(case.high[0] - self.base, self.reach) / self.unit
        is_countable = np.isinf(self.reach) | (self.reach <= MOST_STEPS * self.unit)
        whole = ~numeric | ((steps > 0.0) & is_countable)
        self.v = [
            self.model.addVar(lb=least, ub=max(least, most), vtype="I" if is_whole else "C")
            for least, most, is_whole in zip(low.tolist(), high.tolist(), whole, strict=True)
        ]
        self._add_cost()
        self._add_conditions()
        self._add_changes()

    def solve(self, gap: float, seconds: float | None) -> tuple[float, FloatArray | None]:
        """Return SCIP's bound, infinite if it found no point below the limit, and its best point.

        It stops at a relative gap, or after so many seconds.
        """
        model = self.model
        model.setParam("limits/gap", gap)
        if seconds is not None:
            model.setParam("limits/time", seconds)
        model.optimize()
        if model.getStatus() == "userinterrupt":
            raise KeyboardInterrupt
        if model.getStatus() == "infeasible":
            return np.inf, None
        point = None
        if model.getNSols():
            best = model.getBestSol()
            point = self.base + self.unit * [model.getSolVal(best, v) for v in self.v]
        return float(model.getDualbound()) * self.cost_unit, point

    def _changes(self, cost: float) -> FloatArray:
        """(d,) how far each column alone may change for a cost; infinite where it has no price."""
        form, absolute = self.curvature.form, self.program.encoded_cost.absolute
        changes, columns = np.full(len(self.x), np.inf), np.flatnonzero(np.diag(form))
        if self.curvature.is_absolute:
            changes[columns] = cost / absolute[columns]
        else:  # whatever the others do
            inverse = np.linalg.inv(form[np.ix_(columns, columns)])
            changes[columns] = np.sqrt(cost * np.diag(inverse))
        return changes

    def _add_cost(self) -> None:
        """The cost: its absolute values each have a bound; a quadratic form has one in all."""
        offset = (self.base - self.x) / self.unit
        if self.curvature.is_absolute:
            rates = self.program.encoded_cost.absolute * self.unit / self.cost_unit
            for j in np.flatnonzero(rates).tolist():
                length = self.model.addVar(lb=0.0, obj=rates[j])
                for sign in (1.0, -1.0):
                    self.model.addCons(sign * (self.v[j] + offset[j]) <= length)
            return
        form = self.curvature.form * np.outer(self.unit, self.unit) / self.cost_unit
        total = self.model.addVar(lb=0.0, obj=1.0)
        self.model.addCons(
            self._function(offset @ form @ offset, 2.0 * form @ offset, form) <= total
        )

    def _function(self, value: float, slope: FloatArray, form: FloatArray | None = None) -> Any:
        """The expression value + slope · v + vᵀ(form)v."""
        terms = [slope[i] * self.v[i] for i in np.flatnonzero(slope)]
        if form is not None:
            terms += [form[i, j] * (self.v[i] * self.v[j]) for i, j in np.argwhere(form)]
        return self.sum(terms) + value

    def _add_conditions(self) -> None:
        """Quadratic conditions, linear rows and categories, with coefficients of about 1."""
        quadrics, affine, unit = self.curvature.quadrics, self.program.affine, self.unit
        forms = quadrics.forms * np.outer(unit, unit)
        base = self.base[None]
        rows = [*zip(quadrics.excess(base)[0], quadrics.slopes(base)[0] * unit, forms, strict=True)]
        for matrix, limit in ((affine.matrix, affine.high), (-affine.matrix, -affine.low)):
            values, none = matrix @ self.base - limit, np.zeros((0, 0))
            rows += [
                (values[j], matrix[j] * unit, none) for j in np.flatnonzero(np.isfinite(limit))
            ]
        for value, slope, form in rows:
            steep = np.abs(slope).max(initial=0.0) / LENGTH
            scale = max(np.abs(form).max(initial=0.0), steep, TINY)
            self.model.addCons(self._function(value / scale, slope / scale, form / scale) <= 0.0)
        for group in self.program.domain.groups:
            self.model.addCons(self.sum(self.v[group]) == 1.0)

    def _add_changes(self) -> None:
        """At most so many features change; what may change by any amount is not counted."""
        at_most = self.program.domain.at_most
        if at_most is None:
            return
        switches = [self.model.addVar(vtype="B") for _ in at_most.blocks]
        for block, switch in zip(at_most.blocks, switches, strict=True):
            for j in range(block.start, block.stop):
                if 0.0 < self.reach[j] < np.inf:
                    delta = self.base[j] - self.x[j] + self.unit[j] * self.v[j]
                    for sign in (1.0, -1.0):
                        self.model.addCons(sign / self.reach[j] * delta <= switch)
        self.model.addCons(self.sum(switches) <= at_most.count)
