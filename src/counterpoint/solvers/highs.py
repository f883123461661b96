"""HiGHS: linear programs (weighted Manhattan cost).

Each change is a rise less a fall, both at least 0, so that costs are linear. The model is passed
once; from row to row only bounds change. Every row starts from nothing (what HiGHS remembers of the
last one is cleared), so that an answer does not depend on the rows before. What is integral is left
to knapsacks, and to our own branch and bound over these programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import highspy
import numpy as np

from counterpoint.errors import SolverFailure
from counterpoint.numerics import FloatArray
from counterpoint.problem.costs import Manhattan
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.solvers.base import LINEAR, Effort, Outcome, Solution, Solver, translated
from counterpoint.solvers.standard_form import StandardForm

STATUS = highspy.HighsModelStatus
FEASIBILITY = 1e-9
"""By how much rows and bounds may be missed, or bounds cross by rounding, in units of change."""
OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "solver": "simplex",
    "presolve": "off",
    "simplex_scale_strategy": 0,
    "primal_feasibility_tolerance": FEASIBILITY,
    "dual_feasibility_tolerance": FEASIBILITY,
}


@final
@dataclass(frozen=True, eq=False)
class Highs(Solver):
    """Linear programs by HiGHS."""

    accepts: ClassVar[frozenset[type]] = LINEAR | {Manhattan}
    accuracy: ClassVar[float] = 1e-9

    @classmethod
    def takes(cls, program: Program) -> bool:
        return program.condition_types <= cls.accepts

    @cached_property
    def form(self) -> StandardForm:
        """The program in the standard form, with changes in units of cost."""
        weights = self.program.encoded_cost.absolute
        return StandardForm(self.program, 1.0 / np.where(weights > 0.0, weights, 1.0))

    @cached_property
    def _unit_cost(self) -> float:
        """The cost that is 1 in HiGHS's model."""
        costs = self.form.absolute
        return float(np.median(costs[costs > 0.0])) if costs.any() else 1.0

    @cached_property
    def _idle(self) -> list[Any]:
        return []

    @contextmanager
    def _engine(self) -> Iterator[Any]:
        """Lend a HiGHS with the model, which no other thread has until the end of the block.

        As many are made as are out at once; one is dropped after an error.
        """
        try:
            engine = self._idle.pop()  # atomic: no other thread gets the same
        except IndexError:
            engine = self._new_engine()
        yield engine
        self._idle.append(engine)

    def _new_engine(self) -> Any:
        """Make a HiGHS with the model; its bounds are those of no row yet."""
        matrix, costs = self.form.matrix, self.form.absolute / self._unit_cost
        block = np.hstack([matrix, -matrix])
        used, (rows, columns) = block != 0.0, block.shape
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = columns, rows
        lp.col_cost_ = np.tile(costs, 2)
        lp.col_lower_, lp.col_upper_ = np.zeros(columns), np.full(columns, np.inf)
        lp.row_lower_, lp.row_upper_ = np.full(rows, -np.inf), np.full(rows, np.inf)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(used.sum(axis=0))]).astype(np.int32)
        lp.a_matrix_.index_ = np.nonzero(used.T)[1].astype(np.int32)
        lp.a_matrix_.value_ = block.T[used.T]
        engine = highspy.Highs()
        for name, value in OPTIONS.items():
            engine.setOptionValue(name, value)
        if engine.passModel(lp) == highspy.HighsStatus.kError:
            raise SolverFailure(
                "HiGHS refused the model; its numbers may be too large or too small."
            )
        return engine

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        """Solve each row in units of its shortfall; a change is a rise less a fall."""
        limits, d = self.form.limits(cases), self.program.width
        lengths = limits.shortfall()
        low, high, row_low, row_high = (bounds / lengths[:, None] for bounds in limits)
        least = np.maximum(np.hstack([low, -high]), 0.0)
        most = np.maximum(np.hstack([high, -low]), least)
        possible = ~(limits.high - limits.low < -FEASIBILITY).any(axis=1)
        out = Solution.blank(len(cases), self.program)
        out.outcomes[~possible] = Outcome.INFEASIBLE
        change, duals = np.full(low.shape, np.nan), np.zeros(row_low.shape)
        with translated("HiGHS"), self._engine() as engine:
            for i in np.flatnonzero(possible).tolist():
                status = _run(engine, (least[i], most[i]), (row_low[i], row_high[i]))
                if status == STATUS.kOptimal:
                    solution, out.outcomes[i] = engine.getSolution(), Outcome.FOUND
                    values = np.asarray(solution.col_value)
                    change[i], duals[i] = values[:d] - values[d:], solution.row_dual
                elif status == STATUS.kInfeasible:
                    out.outcomes[i] = Outcome.INFEASIBLE
                    _, exists, ray = engine.getDualRay()
                    duals[i] = ray if exists else 0.0
        out.points[:] = self.form.points(change, cases, lengths)
        out.multipliers[:] = self.form.multipliers(-duals * self._unit_cost)
        blocked = np.flatnonzero(out.outcomes == Outcome.INFEASIBLE)
        if len(blocked):  # HiGHS does not say in which sense a ray refutes a row; the program does
            wrong = ~self.program.refutes(cases.take(blocked), out.multipliers[blocked])
            out.multipliers[blocked[wrong]] *= -1.0
        return out


def _run(
    engine: Any, columns: tuple[FloatArray, FloatArray], rows: tuple[FloatArray, FloatArray]
) -> Any:
    """Solve an engine's model with the lower and upper bounds of a row; return HiGHS's status."""
    for change, bounds in ((engine.changeColsBounds, columns), (engine.changeRowsBounds, rows)):
        count = len(bounds[0])
        change(count, np.arange(count, dtype=np.int32), *bounds)
    engine.clearSolver()
    engine.run()
    if engine.getModelStatus() == STATUS.kNotset:
        # Other users of HiGHS in this thread have set its scheduler to more threads.
        engine.resetGlobalScheduler(True)  # noqa: FBT003 (it has no name)
        engine.run()
    return engine.getModelStatus()
