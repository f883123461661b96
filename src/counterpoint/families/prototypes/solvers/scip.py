"""Search programs that are not convex for global optima by SCIP (extra ``global``).

Its bound is reported less its tolerances; its best point is made exact by descents.
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

BOUND_ERROR = 1e-7
"""How much SCIP's tolerances may lift a bound, relative to the cost to beat; it is subtracted."""
SCALE = 32.0
"""The size in SCIP of a change of one unit; that of its cost is the square. SCIP's tolerances are
absolute, and with finer ones it prints to the standard error."""
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
        solution = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            search, bound = LocalSearch(self.local, case, effort, np.inf), np.inf
            if not case.empty[0] and not self.program.domain.is_empty(case)[0]:
                search.offer(case.x)
                if search.point is None:
                    bound = self._search(search, np.inf if cutoff is None else float(cutoff[i]))
            solution.reported[i] = max(min(bound, search.cost), 0.0)
            if search.point is not None:
                solution.points[i], solution.outcomes[i] = search.point, Outcome.FOUND
            elif np.isinf(bound):
                solution.outcomes[i] = Outcome.INFEASIBLE
            if search.is_late:
                solution.outcomes[i] = Outcome.LIMIT
        return solution

    def _search(self, search: LocalSearch, cost: float) -> float:
        """Let SCIP beat a cost, then the cost of its point made exact, and so on; return the bound.

        The search ends when SCIP has excluded all that is cheaper, or time is up.
        """
        # Most of the gap is left to SCIP, some is for its tolerances.
        gap, bound = min(max(0.8 * search.effort.gap, 2.0 * BOUND_ERROR), 0.5), 0.0
        while not search.is_late:
            unit = cost if np.isfinite(cost) else self._typical_cost(search.case)
            try:
                with scip_errors():
                    model = Translation(self.program, search.case, unit, (1.0 - gap) * cost)
                    reported, y = model.solve(gap, search.seconds)
            except SolverFailure as failure:
                if "error in LP solver" not in str(failure):
                    raise
                break  # a numerical reason: no claim
            reported -= BOUND_ERROR * unit
            # SCIP excluded points below its limit only, (1 − gap) · cost.
            bound = max(bound, min(reported, (1.0 - gap - BOUND_ERROR) * cost))
            if y is not None:
                self._make_exact(search, y)
            if not search.cost < cost or bound >= (1.0 - search.effort.gap) * search.cost:
                break
            cost = search.cost
        return bound

    def _make_exact(self, search: LocalSearch, y: FloatArray) -> None:
        """Offer a point of SCIP's (d,) after descents with its integral columns held.

        Where these fail, the point itself is taken, if it misses nothing but by rounding.
        """
        x, (low, high) = search.case.x, search.holding(y)
        search.dive(y, low, high)
        y = np.clip(y, low, high)
        closed_in = tightened(self.program, search.case.margin)
        cost = float(self.program.encoded_cost(y[None], x)[0])
        violation = max(region.violation(y[None], x)[0] for region in (self.program, closed_in))
        if cost < search.cost * (1.0 - VIOLATION) and violation <= VIOLATION:
            search.point, search.cost = y, cost

    def _typical_cost(self, case: Batch) -> float:
        """Return the cost of meeting the most demanding quadratic condition, or of doubling x."""
        points = case.x + np.maximum(np.abs(case.x), 1.0)
        if len(curvature_of(self.program).quadrics):
            points = np.vstack([self.local.quadric.nearest(case)[0], points])
        cost = self.program.encoded_cost(points, np.repeat(case.x, len(points), axis=0))
        return float(cost[np.isfinite(cost) & (cost > 0.0)][0])


@final
class Translation:
    """One row's program as a model in SCIP, over variables v with y = base + unit · v.

    The model counts costs in units of ``cost_unit`` / `SCALE`², and looks only for points that cost
    less than the ``limit``, which may be infinite.

    Attributes
    ----------
    base, unit
        (d,) so that whole steps and categories are integers, and other changes about `SCALE`.
    largest_change
        (d,) how far each column may change within its bounds and the limit.
    """

    def __init__(self, program: Program, case: Batch, cost_unit: float, limit: float) -> None:
        import pyscipopt

        self.sum = pyscipopt.quicksum
        self.program, self.curvature, self.x = program, curvature_of(program), case.x[0]
        self.cost_unit, self.model = cost_unit / SCALE**2, pyscipopt.Model()
        self.model.hideOutput()
        self.model.setHeuristics(pyscipopt.SCIP_PARAMSETTING.OFF)
        self.model.setParams(PARAMETERS)
        if np.isfinite(limit):
            self.model.setObjlimit(limit / self.cost_unit)
        numeric, steps = program.domain.numeric, program.domain.steps
        self.base = np.where(numeric, self.x, 0.0)
        self.unit = np.where(numeric, self._changes(cost_unit) / SCALE, 1.0)
        self.unit = np.where(steps > 0.0, steps, self.unit)
        to_bounds = np.maximum(np.maximum(case.high[0] - self.x, self.x - case.low[0]), 0.0)
        largest = np.minimum(self._changes(limit) * (1.0 + 1e-9), to_bounds)
        self.largest_change = np.where(numeric, largest, 1.0)
        low = np.maximum(case.low[0] - self.base, -self.largest_change) / self.unit
        high = np.minimum(case.high[0] - self.base, self.largest_change) / self.unit
        # A column with an end, but more than a million steps from it, counts as continuous: SCIP
        # holds integers to 1e-6.
        is_countable = np.isinf(self.largest_change) | (self.largest_change <= 1e6 * self.unit)
        is_integer = ~numeric | ((steps > 0.0) & is_countable)
        self.v = [
            self.model.addVar(lb=lower, ub=max(lower, upper), vtype="I" if integer else "C")
            for lower, upper, integer in zip(low.tolist(), high.tolist(), is_integer, strict=True)
        ]
        self._add_cost()
        self._add_conditions()
        self._add_most_changes()

    def solve(self, gap: float, seconds: float | None) -> tuple[float, FloatArray | None]:
        """Return SCIP's bound, infinite if no point is below the limit, and its best point, if any.

        It stops at a relative ``gap``, or after so many ``seconds``.
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
        """(d,) how far each column may change for a cost at most; infinite where it costs nothing.

        Under a full matrix, that is how far it may change whatever other columns do.
        """
        form, absolute = self.curvature.form, self.program.encoded_cost.absolute
        changes, columns = np.full(len(self.x), np.inf), np.flatnonzero(np.diag(form))
        if self.curvature.is_absolute:
            changes[columns] = cost / absolute[columns]
        else:
            inverse = np.linalg.inv(form[np.ix_(columns, columns)])
            changes[columns] = np.sqrt(cost * np.diag(inverse))
        return changes

    def _add_cost(self) -> None:
        """Add the cost: a variable above each absolute change, or one above the quadratic form."""
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
        """Return the expression value + slope · v + vᵀ(form)v."""
        terms = [slope[i] * self.v[i] for i in np.flatnonzero(slope)]
        if form is not None:
            terms += [form[i, j] * (self.v[i] * self.v[j]) for i, j in np.argwhere(form)]
        return self.sum(terms) + value

    def _add_conditions(self) -> None:
        """Add quadratic conditions, linear rows and categories.

        The first two are functions value + slope · v + vᵀ(form)v <= 0 of the variables v. With
        y = base + unit · v, the value is that at the base, and slopes and forms are times units.
        """
        quadrics, affine, unit = self.curvature.quadrics, self.program.affine, self.unit
        values, slopes = quadrics.excess(self.base[None])[0], quadrics.slopes(self.base[None])[0]
        forms = quadrics.forms * np.outer(unit, unit)
        functions = [*zip(values, slopes * unit, forms, strict=True)]
        no_form = np.zeros((0, 0))
        for matrix, limit in ((affine.matrix, affine.high), (-affine.matrix, -affine.low)):
            excess = matrix @ self.base - limit
            finite = np.flatnonzero(np.isfinite(limit))
            functions += [(excess[j], matrix[j] * unit, no_form) for j in finite]
        # The largest coefficient becomes 1 in a form, or `SCALE` in a slope, since v is about so.
        for value, slope, form in functions:
            steepest = np.abs(slope).max(initial=0.0) / SCALE
            scale = max(np.abs(form).max(initial=0.0), steepest, TINY)
            self.model.addCons(self._function(value / scale, slope / scale, form / scale) <= 0.0)
        for group in self.program.domain.groups:
            self.model.addCons(self.sum(self.v[group]) == 1.0)

    def _add_most_changes(self) -> None:
        """Add that only so many features change, with a switch for each: |δ| <= largest · switch.

        Columns without a largest change are left out, for no switch could stop them: their changes
        do not count, and the bound holds all the same.
        """
        at_most = self.program.domain.at_most
        if at_most is None:
            return
        switches = [self.model.addVar(vtype="B") for _ in at_most.blocks]
        for block, switch in zip(at_most.blocks, switches, strict=True):
            for j in range(block.start, block.stop):
                if 0.0 < self.largest_change[j] < np.inf:
                    delta = self.base[j] - self.x[j] + self.unit[j] * self.v[j]
                    for sign in (1.0, -1.0):
                        self.model.addCons(sign / self.largest_change[j] * delta <= switch)
        self.model.addCons(self.sum(switches) <= at_most.count)
