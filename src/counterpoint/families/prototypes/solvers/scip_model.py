"""A program that is not convex as a model in SCIP (extra ``global``)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyscipopt

from counterpoint.errors import SolverFailure
from counterpoint.families.prototypes.quadratic_difference import curvature_of
from counterpoint.numerics import EPS, TINY, FloatArray
from counterpoint.programs.conditions import Cone

if TYPE_CHECKING:
    from counterpoint.programs.program import Program
    from counterpoint.programs.region import Cases

__all__ = ["Translation", "scip_errors"]

LENGTH = 32.0
"""What SCIP sees in the place of a change of one unit, its square for the cost and for squares: its
tolerances are absolute, and with finer ones it prints to the standard error."""
ROUNDED = 16.0 * EPS
"""How much of its terms a row gives away, so that rounding excludes nothing."""
MOST_STEPS = 1e6
"""A column that may move by more steps counts as continuous: SCIP holds integers to 1e-6."""
PARAMETERS: dict[str, Any] = {
    "misc/allowstrongdualreds": False,  # nothing is cut off but what is impossible or too dear
    "misc/allowweakdualreds": False,
    "lp/presolving": False,  # it prints to the standard error, whatever it is told
}


def scip_errors() -> ExitStack:
    """Return a context in which SCIP's errors, bare exceptions, become `SolverFailure`."""

    def translate(_kind: object, error: BaseException | None, _trace: object) -> None:
        if "SCIP:" in str(error):
            raise SolverFailure(f"SCIP failed: {error}") from error

    stack = ExitStack()
    stack.push(translate)
    return stack


@final
class Translation:
    """One row's program as a model in SCIP, over v with y = base + unit · v.

    ``unit``: the cost that counts as 1; ``limit``: points that cost no less are not looked for;
    infinite for none.
    """

    def __init__(self, program: Program, case: Cases, unit: float, limit: float) -> None:
        self.program, self.curvature, self.x = program, curvature_of(program), case.x[0]
        self.cost_unit, self.model = unit / LENGTH**2, pyscipopt.Model()
        self.model.hideOutput()
        self.model.setHeuristics(pyscipopt.SCIP_PARAMSETTING.OFF)
        for name, value in PARAMETERS.items():
            self.model.setParam(name, value)
        if np.isfinite(limit):
            self.model.setObjlimit(limit / self.cost_unit)
        self.base, steps = np.where(program.domain.numeric, self.x, 0.0), program.domain.steps
        self.unit = np.where(program.domain.numeric, self._changes(unit) / LENGTH, 1.0)
        self.unit = np.where(steps > 0.0, steps, self.unit)
        away = np.maximum(case.high[0] - self.x, self.x - case.low[0])
        reach = np.minimum(self._changes(limit) * (1.0 + 1e-9), np.maximum(away, 0.0))
        self.reach = np.where(program.domain.numeric, reach, 1.0)  # (d,) the largest changes
        low = np.maximum(case.low[0] - self.base, -self.reach) / self.unit
        high = np.minimum(case.high[0] - self.base, self.reach) / self.unit
        is_countable = np.isinf(self.reach) | (self.reach <= MOST_STEPS * self.unit)
        whole = ~program.domain.numeric | ((steps > 0.0) & is_countable)
        self.v = [
            self.model.addVar(lb=least, ub=max(least, most), vtype="I" if is_whole else "C")
            for least, most, is_whole in zip(low.tolist(), high.tolist(), whole, strict=True)
        ]
        self._add_cost()
        self._add_conditions()
        self._add_cones()
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
        status = model.getStatus()
        if status == "userinterrupt":
            raise KeyboardInterrupt
        if status == "infeasible":
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

    def _sum(self, form: FloatArray, slope: FloatArray, value: float) -> Any:
        """The expression vᵀ(form)v + slope · v + value."""
        terms = [form[i, j] * (self.v[i] * self.v[j]) for i, j in np.argwhere(form)]
        terms += [slope[i] * self.v[i] for i in np.flatnonzero(slope)]
        return pyscipopt.quicksum(terms) + value

    def _add_at_most_zero(self, form: FloatArray, slope: FloatArray, value: float) -> None:
        """The condition vᵀ(form)v + slope · v + value <= 0, with coefficients of about 1."""
        steep = np.abs(slope).max(initial=0.0) / LENGTH
        scale = max(np.abs(form).max(initial=0.0), steep, TINY)
        self.model.addCons(self._sum(form / scale, slope / scale, value / scale) <= 0.0)

    def _add_cost(self) -> None:
        """The cost as the epigraph of a quadratic form, or of each absolute value."""
        total, delta = self.model.addVar(lb=0.0, obj=1.0), self.base - self.x
        if not self.curvature.is_absolute:
            form = self.curvature.form / self.cost_unit
            slope, value = 2.0 * (form @ delta) * self.unit, delta @ form @ delta
            form = form * np.outer(self.unit, self.unit)
            self.model.addCons(self._sum(form, slope, value) <= total)
            return
        rates = self.program.encoded_cost.absolute / self.cost_unit
        terms: list[Any] = []
        for j in np.flatnonzero(rates).tolist():
            length = self.model.addVar(lb=0.0)
            for sign in (1.0, -1.0):
                self.model.addCons(sign * (self.v[j] + delta[j] / self.unit[j]) <= length)
            terms.append(rates[j] * self.unit[j] * length)
        self.model.addCons(pyscipopt.quicksum(terms) <= total)

    def _add_conditions(self) -> None:
        """Quadratic conditions, linear rows and categories; rounding excludes nothing."""
        quadrics, affine, unit = self.curvature.quadrics, self.program.affine, self.unit
        unit_weights = np.eye(len(quadrics))
        points = np.repeat(self.base[None], len(unit_weights), axis=0)
        value, size, *_ = quadrics.expanded(points, unit_weights)
        forms = quadrics.forms * np.outer(unit, unit)
        slopes = quadrics.slopes(self.base[None])[0] * unit
        for row in zip(forms, slopes, value - ROUNDED * size, strict=True):
            self._add_at_most_zero(*row)
        none = np.zeros((0, 0))
        for matrix, limit in ((affine.matrix, affine.high), (-affine.matrix, -affine.low)):
            size = np.abs(matrix) @ (np.abs(self.base) + np.abs(self.x)) + np.abs(limit)
            value = matrix @ self.base - limit - ROUNDED * size
            for j in np.flatnonzero(np.isfinite(limit)):
                self._add_at_most_zero(none, matrix[j] * unit, value[j])
        for group in self.program.domain.groups:
            self.model.addCons(pyscipopt.quicksum(self.v[group]) == 1.0)

    def _add_cones(self) -> None:
        """‖M y + c‖ <= slope · y + radius; its square would lose half of the digits at an apex."""
        for cone in self.program.couplings:
            if not isinstance(cone, Cone):
                continue
            matrix = np.vstack([cone.matrix, cone.slope])
            offset = np.append(cone.offset, cone.radius)
            value, rows = matrix @ self.base + offset, matrix * self.unit
            terms = np.abs(matrix) @ np.abs(self.base) + np.abs(offset)
            value[-1] += ROUNDED * np.linalg.norm(terms)
            scale = max(np.abs(rows).max(), TINY) / LENGTH
            sides = [self.model.addVar(lb=None) for _ in value]
            for side, row, at in zip(sides, rows / scale, value / scale, strict=True):
                self.model.addCons(self._sum(np.zeros((0, 0)), row, at) == side)
            squares = pyscipopt.quicksum(side * side for side in sides[:-1])
            self.model.addCons(pyscipopt.sqrt(squares) <= sides[-1])

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
        self.model.addCons(pyscipopt.quicksum(switches) <= at_most.count)
