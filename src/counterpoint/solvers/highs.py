"""HiGHS: linear and mixed-integer linear programs (weighted Manhattan cost).

The model is passed once; for each person only bounds and the costs of the factual categories
change. Every person starts from nothing (what HiGHS remembers of the last one is cleared), so that
an answer does not depend on who was asked before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, final

import highspy
import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Pool
from counterpoint.costs import Manhattan
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Affine
from counterpoint.engine.domains import AtMost, Box, OneOf, Transitions, Whole
from counterpoint.engine.program import Program
from counterpoint.errors import SolverFailure
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver
from counterpoint.solvers.layout import Data, Layout, balanced_units

__all__ = ["Highs"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

STATUS = highspy.HighsModelStatus
FEASIBILITY = 1e-9
OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "simplex_scale_strategy": 0,
    "primal_feasibility_tolerance": FEASIBILITY,
    "dual_feasibility_tolerance": FEASIBILITY,
    "mip_feasibility_tolerance": FEASIBILITY,
    "mip_abs_gap": 0.0,
    "mip_heuristic_run_feasibility_jump": False,  # it can crash the process (HiGHS 1.15.1)
}


@final
class Highs(Solver):
    """Linear and mixed-integer linear programs by HiGHS."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, Box, Affine, Transitions, OneOf, Whole, AtMost}
    )
    accuracy: ClassVar[float] = 1e-9

    def takes(self, program: Program) -> bool:
        return program.kinds <= self.accepts

    def prepare(self, program: Program) -> HighsPrograms:
        return HighsPrograms(program)


@final
@dataclass(frozen=True, eq=False)
class HighsPrograms(Prepared):
    """A program in HiGHS, and its linear relaxation.

    Parameters
    ----------
    program
        The program.
    units
        Those of the numeric columns; None for units of cost, and others for rows for which these
        do not do.
    """

    program: Program
    units: FloatArray | None = None

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self.program, self.units)

    @cached_property
    def _linear(self) -> Pool[Engine]:
        return Pool(partial(Engine, self._layout, integral=False))

    @cached_property
    def _integral(self) -> Pool[Engine]:
        return Pool(partial(Engine, self._layout, integral=True))

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        solution = self._solved(cases, effort, cutoff)
        if self.units is None:
            for i in self._doubtful(cases, solution).tolist():
                case = cases.take(slice(i, i + 1))
                other = HighsPrograms(self.program, balanced_units(self.program, case))
                below = None if cutoff is None else cutoff[i : i + 1]
                solution.put(i, other._solved(case, effort, below))
        return solution

    def _doubtful(self, cases: Cases, solution: Solution) -> IntArray:
        """The rows whose points miss the program, and those with neither point nor refutation."""
        found, missed = solution.found, solution.outcomes == Outcome.NOTHING
        if found.any():
            points, x = solution.points[found], cases.x[found]
            missed[found] = self.program.violation(points, x) > FEASIBILITY
        blocked = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if len(blocked) and not self._layout.integer.any():
            part = cases.take(blocked)
            missed[blocked] = ~self.program.refutes(part, solution.multipliers[blocked])
        return np.flatnonzero(missed)

    def _solved(self, cases: Cases, effort: Effort, cutoff: FloatArray | None) -> Solution:
        layout = self._layout
        data = layout.data(cases, cutoff)
        answers = _Answers(len(cases), layout)
        empty = (data.low > data.high).any(axis=1)
        answers.outcomes[empty] = Outcome.INFEASIBLE
        rows = np.flatnonzero(~empty & np.isfinite(data.caps).all(axis=1))
        with _translated():
            if layout.integer.any():
                for i in rows.tolist():
                    self._branch_and_bound(data, effort, answers, i)
            else:
                with self._linear.lease() as engine:
                    for i in rows.tolist():
                        _simplex(engine, data, answers, i)
        self._sign_rays(answers, cases)
        reported = np.maximum(layout.cost_of(answers.objective, cases), 0.0)
        if cutoff is not None and layout.switches:  # their caps leave out what costs more
            reported = np.minimum(reported, cutoff)
        return Solution(
            layout.points(answers.values, cases, data.scale),
            layout.multipliers(answers.duals),
            answers.outcomes,
            np.where(np.isfinite(reported), reported, 0.0),
        )

    def _sign_rays(self, answers: _Answers, cases: Cases) -> None:
        """HiGHS does not say in which sense a ray refutes its row; the program does."""
        rows = np.flatnonzero(answers.outcomes == Outcome.INFEASIBLE)
        if not len(rows):
            return
        multipliers = self._layout.multipliers(answers.duals[rows])
        wrong = ~self.program.refutes(cases.take(rows), multipliers)
        answers.duals[rows[wrong]] *= -1.0

    def _branch_and_bound(self, data: Data, effort: Effort, answers: _Answers, i: int) -> None:
        with self._integral.lease() as engine:
            status = engine.run(data, i, gap=0.1 * effort.gap, seconds=effort.seconds)
            bound, values = engine.dual_bound(), engine.incumbent()
        if status == STATUS.kInfeasible:
            answers.outcomes[i] = Outcome.INFEASIBLE
            with self._linear.lease() as linear:
                if linear.run(data, i) == STATUS.kInfeasible:
                    answers.duals[i] = linear.dual_ray()
            return
        limited = status == STATUS.kTimeLimit
        if not limited and status != STATUS.kOptimal:
            return
        answers.outcomes[i] = Outcome.LIMIT if limited else Outcome.NOTHING
        answers.objective[i] = bound
        settled = None if values is None else self._settled(data, i, values)
        if settled is not None:
            answers.values[i] = settled
            answers.outcomes[i] = Outcome.LIMIT if limited else Outcome.FOUND

    def _settled(self, data: Data, i: int, values: FloatArray) -> FloatArray | None:
        """Integers rounded for good and the rest solved anew, so that nothing is off by 1e-6."""
        whole = self._layout.integer
        values = np.where(whole, np.round(values), values)
        if whole.all():
            return values
        low, high = np.where(whole, values, data.low[i]), np.where(whole, values, data.high[i])
        with self._linear.lease() as engine:
            if engine.run(data.within(i, low, high), 0) != STATUS.kOptimal:
                return None
            return np.where(whole, values, engine.solution()[0])


def _simplex(engine: Engine, data: Data, answers: _Answers, i: int) -> None:
    status = engine.run(data, i)
    if status == STATUS.kOptimal:
        answers.values[i], answers.duals[i] = engine.solution()
        answers.outcomes[i] = Outcome.FOUND
    elif status == STATUS.kInfeasible:
        answers.outcomes[i] = Outcome.INFEASIBLE
        answers.duals[i] = engine.dual_ray()


@final
class _Answers:
    """What HiGHS said, in its own columns and rows."""

    def __init__(self, n: int, layout: Layout) -> None:
        self.values = np.full((n, layout.columns), np.nan)
        self.duals = np.zeros((n, len(layout.matrix)))
        self.outcomes = np.full(n, Outcome.NOTHING, dtype=np.int8)
        self.objective = np.full(n, -np.inf)


@final
class Engine:
    """One model inside HiGHS, of which people change the numbers."""

    def __init__(self, layout: Layout, *, integral: bool) -> None:
        self.layout = layout
        self.integral = integral
        self.highs = highspy.Highs()
        for name, value in OPTIONS.items():
            self.highs.setOptionValue(name, value)
        if not integral:
            self.highs.setOptionValue("solver", "simplex")
            self.highs.setOptionValue("presolve", "off")
        with _translated():
            _expect(self.highs.passModel(_model(layout, integral=integral)))
        self._columns = np.arange(layout.columns, dtype=np.int32)
        self._rows = np.arange(len(layout.matrix), dtype=np.int32)

    def run(self, data: Data, i: int, *, gap: float = 0.0, seconds: float | None = None) -> Any:
        """Solve with one person's numbers from nothing; HiGHS's model status."""
        highs = self.highs
        highs.changeColsBounds(len(self._columns), self._columns, data.low[i], data.high[i])
        if len(self.layout.hot):
            highs.changeColsCost(len(self._columns), self._columns, data.cost[i])
        highs.changeRowsBounds(len(self._rows), self._rows, data.row_low[i], data.row_high[i])
        if data.caps.shape[1]:
            first = self.layout.first_switch_row
            for (j, switch), cap in zip(
                self.layout.switch_of_numbers(), data.caps[i].tolist(), strict=True
            ):
                highs.changeCoeff(first + j, switch, -cap)
        highs.clearSolver()
        if self.integral:
            highs.setOptionValue("mip_rel_gap", gap)
            highs.setOptionValue("time_limit", np.inf if seconds is None else seconds)
        highs.run()
        return highs.getModelStatus()

    def solution(self) -> tuple[FloatArray, FloatArray]:
        """Values of the columns, and duals of the rows."""
        solution = self.highs.getSolution()
        return np.asarray(solution.col_value), np.asarray(solution.row_dual)

    def incumbent(self) -> FloatArray | None:
        """Values of the best integer point, if there is one."""
        solution = self.highs.getSolution()
        return np.asarray(solution.col_value) if solution.value_valid else None

    def dual_bound(self) -> float:
        """The lower bound of branch and bound, as an objective value."""
        return float(self.highs.getInfo().mip_dual_bound)

    def dual_ray(self) -> FloatArray:
        """A ray of the dual that shows the rows to be contradictory, up to its sign; else zeros."""
        _, exists, ray = self.highs.getDualRay()
        return np.asarray(ray) if exists else np.zeros(len(self._rows))


def _model(layout: Layout, *, integral: bool) -> Any:
    rows, columns = layout.matrix.shape
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = columns, rows
    hot = np.zeros(len(layout.hot) + len(layout.switches))
    model.col_cost_ = np.concatenate([layout.price, layout.price, hot]) / layout.normal
    model.col_lower_, model.col_upper_ = np.zeros(columns), np.full(columns, np.inf)
    model.row_lower_, model.row_upper_ = np.full(rows, -np.inf), np.full(rows, np.inf)
    used = layout.matrix != 0
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.concatenate([[0], np.cumsum(used.sum(axis=0))]).astype(np.int32)
    model.a_matrix_.index_ = np.nonzero(used.T)[1].astype(np.int32)
    model.a_matrix_.value_ = layout.matrix.T[used.T]
    if integral:
        kinds = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        model.integrality_ = [kinds[int(whole)] for whole in layout.integer]
    return model


def _expect(status: Any) -> None:
    if status == highspy.HighsStatus.kError:
        raise SolverFailure("HiGHS refused the model; its numbers may be too large or too small.")


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the backend as our own."""
    try:
        yield
    except (RuntimeError, TypeError, IndexError) as error:
        raise SolverFailure(f"HiGHS failed: {error}") from error
