"""Solve linear and mixed-integer linear programs (weighted Manhattan cost) with HiGHS.

Each change is a rise less a fall, both at least 0, so that costs are linear; under a bound on the
number of changes each feature has a 0–1 switch, and ``rise + fall <= cap · switch``. The model is
passed once; from row to row only bounds and caps change. HiGHS forgets each row before the next, so
that an answer does not depend on the rows before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar, final

import highspy
import numpy as np

from counterpoint.errors import SolverFailure
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import Manhattan
from counterpoint.programs.conditions import INTEGRAL
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.solvers.base import (
    FEASIBILITY,
    LINEAR,
    Effort,
    Outcome,
    Solution,
    Solver,
    translated,
)
from counterpoint.solvers.standard_form import StandardForm, balanced_units

V = TypeVar("V")


STATUS = highspy.HighsModelStatus
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
class Data:
    """The numbers of a batch that differ between rows, in the columns and rows of HiGHS's model.

    The columns are rises, falls, and switches; changes are divided by ``lengths`` (n,). The bounds
    are ``low`` and ``high`` of columns, ``row_low`` and ``row_high`` of rows, and ``caps`` (n, d)
    of the changes of features that have a switch. In ``empty`` rows (n,) some bounds cross.
    """

    def __init__(self, model: Highs, cases: Batch, cutoff: FloatArray | None) -> None:
        form, n, switches = model.form, len(cases), len(model.switches)
        limits = form.limits(cases)
        largest_fall, largest_rise = -limits.low, limits.high
        low = np.maximum(np.hstack([-largest_fall, -largest_rise]), 0.0)
        high = np.maximum(np.hstack([largest_rise, largest_fall]), low)
        self.empty: BoolArray = np.asarray((largest_rise + largest_fall < -FEASIBILITY).any(axis=1))
        self.lengths = np.ones(n) if model.integer.any() else limits.shortfall()
        unit = self.lengths[:, None]
        self.low = np.hstack([low / unit, np.zeros((n, switches))])
        self.high = np.hstack([high / unit, np.ones((n, switches))])
        self.row_low, self.row_high = limits.row_low / unit, limits.row_high / unit
        at_most = form.program.domain.at_most
        if at_most is not None:  # rise + fall − cap · switch <= 0, and the sum of the switches
            unlimited = np.full((n, form.program.width + 1), -np.inf)
            self.row_low = np.hstack([self.row_low, unlimited])
            self.row_high = np.hstack([self.row_high, np.zeros(unlimited.shape)])
            self.row_high[:, -1] = at_most.count
        # no answer of use changes a column by more than the cutoff pays for
        most_cost = np.full(n, np.inf) if cutoff is None or not switches else cutoff
        with np.errstate(divide="ignore", invalid="ignore"):
            caps = np.where(form.absolute > 0.0, most_cost[:, None] / form.absolute, np.inf)
        self.caps = np.minimum(np.maximum(largest_rise, largest_fall), caps)


@final
@dataclass(frozen=True, eq=False)
class Highs(Solver):
    """Linear and mixed-integer linear programs by HiGHS, and the relaxations of the latter."""

    accepts: ClassVar[frozenset[type]] = frozenset(LINEAR | {Manhattan, *INTEGRAL})
    accuracy: ClassVar[float] = 1e-9

    # (d,) units of changes, for a row that is not solved in units of cost
    units: FloatArray | None = None

    @classmethod
    def takes(cls, program: Program) -> bool:
        return program.condition_types <= cls.accepts

    @cached_property
    def form(self) -> StandardForm:
        """The program in the standard form, with changes in units of cost, or in steps."""
        if self.units is not None:
            return StandardForm(self.program, self.units)
        weights, steps = self.program.encoded_cost.absolute, self.program.domain.steps
        costly = np.where((weights > 0.0) & self.program.domain.numeric, weights, 1.0)
        return StandardForm(self.program, np.where(steps > 0.0, steps, 1.0 / costly))

    @property
    def switches(self) -> tuple[slice, ...]:
        """The columns of each feature that has a switch."""
        return self.program.domain.at_most.blocks if self.program.domain.at_most else ()

    @cached_property
    def switch_of_column(self) -> IntArray:
        """The switch of each column, (d,), if there are switches."""
        return np.repeat(np.arange(len(self.switches)), [b.stop - b.start for b in self.switches])

    @cached_property
    def integer(self) -> BoolArray:
        """Which of the model's columns are integers."""
        whole = self.form.integral
        return np.concatenate([whole, whole, np.ones(len(self.switches), dtype=bool)])

    @cached_property
    def cost_unit(self) -> float:
        """The unit of cost in the model: the median cost of a column."""
        encoded_cost = self.form.absolute
        return float(np.median(encoded_cost[encoded_cost > 0.0])) if encoded_cost.any() else 1.0

    @cached_property
    def encoded_cost(self) -> FloatArray:
        """The costs of the model's columns."""
        costs = self.form.absolute / self.cost_unit
        return np.concatenate([costs, costs, np.zeros(len(self.switches))])

    @cached_property
    def matrix(self) -> FloatArray:
        """The model's rows, with caps of 1, which each row of a batch replaces by its own."""
        block, d, s = self.form.matrix, self.program.width, len(self.switches)
        rows = np.hstack([block, -block, np.zeros((len(block), s))])
        if not s:
            return rows
        uses = np.hstack([np.eye(d), np.eye(d), -np.eye(s)[self.switch_of_column]])
        return np.vstack([rows, uses, np.repeat([0.0, 1.0], [2 * d, s])])

    @cached_property
    def _engines(self) -> tuple[Pool[Engine], Pool[Engine]]:
        """Engines of the linear relaxation, and of the program with its integers."""
        linear, integral = (partial(Engine, self, integral=kind) for kind in (False, True))
        return Pool(linear), Pool(integral)

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        solution = self._solved(cases, effort, cutoff)
        for i in self._failed(cases, solution).tolist():
            row = slice(i, i + 1)
            case = cases.take(row)
            balanced = Highs(self.program, balanced_units(self.program, case))
            row_cutoff = None if cutoff is None else cutoff[row]
            solution.put(row, balanced._solved(case, effort, row_cutoff))
        return solution

    def _failed(self, cases: Batch, solution: Solution) -> IntArray:
        """Return rows whose points miss the program, and rows with neither point nor refutation."""
        solved, failed = solution.found, solution.outcomes == Outcome.NOTHING
        if solved.any():
            points, x = solution.points[solved], cases.x[solved]
            failed[solved] = self.program.violation(points, x) > FEASIBILITY
        infeasible = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if len(infeasible) and not self.integer.any():
            rays = solution.multipliers[infeasible]
            failed[infeasible] = ~self.program.refutes(cases.take(infeasible), rays)
        return np.flatnonzero(failed)

    def _solved(self, cases: Batch, effort: Effort, cutoff: FloatArray | None) -> Solution:
        """Solve each row in units of the length of its change, which is a rise less a fall."""
        data, d = Data(self, cases, cutoff), self.program.width
        out = Solution.blank(len(cases), self.program)
        out.outcomes[data.empty] = Outcome.INFEASIBLE
        change, duals = np.full((len(cases), d), np.nan), np.zeros((len(cases), len(self.matrix)))
        possible = ~data.empty
        if self.switches:  # without a cap a change could not be switched off
            possible &= np.isfinite(data.caps).all(axis=1)
        run = self._branch_and_bound if self.integer.any() else self._simplex
        with translated("HiGHS"):
            for i in np.flatnonzero(possible).tolist():
                out.outcomes[i], values, duals[i], out.reported[i] = run(data, i, effort)
                if values is not None:
                    change[i] = values[:d] - values[d : 2 * d]
        out.points[:] = self.form.points(change, cases, data.lengths)
        # HiGHS's duals are positive at lower bounds, and its costs were divided by ``cost_unit``.
        out.multipliers[:] = self.form.multipliers(-duals * self.cost_unit)
        # The caps of switches leave out points that cost more than the cutoff, so that the reported
        # bound holds only up to it.
        if cutoff is not None and self.switches:
            np.minimum(out.reported, cutoff, out=out.reported)
        self._sign_rays(out, cases)  # HiGHS leaves the signs of rays open
        return out

    def _sign_rays(self, out: Solution, cases: Batch) -> None:
        """Turn rays that do not refute their rows around, in place."""
        rows = np.flatnonzero(out.outcomes == Outcome.INFEASIBLE)
        if len(rows):
            wrong = rows[~self.program.refutes(cases.take(rows), out.multipliers[rows])]
            out.multipliers[wrong] *= -1.0

    def _simplex(
        self, data: Data, i: int, _: Effort
    ) -> tuple[Outcome, FloatArray | None, FloatArray, float]:
        """Solve row i of a linear program.

        Return the outcome, the values of the columns, the duals of the rows, >= 0 at a lower bound
        (or a ray that refutes), and the reported bound.
        """
        with self._engines[0].lease() as engine:
            status = engine.run(data, i)
            if status == STATUS.kOptimal:
                return Outcome.FOUND, *engine.solution(), 0.0
            if status == STATUS.kInfeasible:
                return Outcome.INFEASIBLE, None, engine.dual_ray(), 0.0
        return Outcome.NOTHING, None, np.zeros(len(self.matrix)), 0.0

    def _branch_and_bound(
        self, data: Data, i: int, effort: Effort
    ) -> tuple[Outcome, FloatArray | None, FloatArray, float]:
        """Solve row i of an integer program, and return what `_simplex` does.

        The duals are 0, except for a ray that refutes the relaxation: a branch and bound has none.
        """
        with self._engines[1].lease() as engine:
            status = engine.run(data, i, gap=0.1 * effort.gap, seconds=effort.seconds)
            bound, solution = engine.highs.getInfo().mip_dual_bound, engine.highs.getSolution()
            values = np.asarray(solution.col_value) if solution.value_valid else None
        none = np.zeros(len(self.matrix))
        if status == STATUS.kInfeasible:
            outcome, _, ray, _ = self._simplex(data, i, effort)
            return Outcome.INFEASIBLE, None, ray if outcome == Outcome.INFEASIBLE else none, 0.0
        limited = status == STATUS.kTimeLimit
        if not limited and status != STATUS.kOptimal:
            return Outcome.NOTHING, None, none, 0.0
        values = None if values is None else self._with_whole_integers(data, i, values)
        # HiGHS has costs in units of ``cost_unit``
        reported = max(bound * self.cost_unit, 0.0) if np.isfinite(bound) else 0.0
        outcome = Outcome.NOTHING if values is None else Outcome.FOUND
        return Outcome.LIMIT if limited else outcome, values, none, reported

    def _with_whole_integers(self, data: Data, i: int, values: FloatArray) -> FloatArray | None:
        """Round the integers and solve for the others again, so that nothing is off by 1e-6.

        None if that fails.
        """
        whole = self.integer
        values = np.where(whole, np.round(values), values)
        if whole.all():
            return values
        low, high = np.where(whole, values, data.low[i]), np.where(whole, values, data.high[i])
        with self._engines[0].lease() as engine:
            if engine.run(data, i, within=(low, high)) != STATUS.kOptimal:
                return None
            return np.where(whole, values, engine.solution()[0])


@final
class Engine:
    """One model inside HiGHS, whose numbers are those of the row that was run last."""

    def __init__(self, model: Highs, *, integral: bool) -> None:
        self.highs, self.integral = highspy.Highs(), integral
        options = {} if integral else {"solver": "simplex", "presolve": "off"}
        for name, value in (OPTIONS | options).items():
            self.highs.setOptionValue(name, value)
        with translated("HiGHS"):
            if self.highs.passModel(_model(model, integral=integral)) == highspy.HighsStatus.kError:
                raise SolverFailure(
                    "HiGHS refused the model; its numbers may be too large or too small."
                )
        rows, columns = model.matrix.shape
        self._columns, self._rows = (np.arange(m, dtype=np.int32) for m in (columns, rows))
        # where each row of a batch writes its caps: (column of the program, row and column of the
        # model) of the entry −cap in rise + fall − cap · switch <= 0. Only numbers have one of
        # their own: the changes of categories have the cap 1, always.
        numbers = np.flatnonzero(model.program.domain.numeric & bool(model.switches)).tolist()
        first_row, first_switch = len(model.form.matrix), 2 * model.program.width
        self._cap_entries = [
            (j, first_row + j, first_switch + int(model.switch_of_column[j])) for j in numbers
        ]

    def run(
        self,
        data: Data,
        i: int,
        *,
        gap: float = 0.0,
        seconds: float | None = None,
        within: tuple[FloatArray, FloatArray] | None = None,
    ) -> Any:
        """Solve the model with the numbers of row i, and return HiGHS's model status.

        The bounds of the columns are those ``within``, low and high, or else the row's own.
        """
        highs, (low, high) = self.highs, within or (data.low[i], data.high[i])
        highs.changeColsBounds(len(self._columns), self._columns, low, high)
        highs.changeRowsBounds(len(self._rows), self._rows, data.row_low[i], data.row_high[i])
        for column, row, switch in self._cap_entries:
            highs.changeCoeff(row, switch, -data.caps[i, column])
        highs.clearSolver()
        if self.integral:
            highs.setOptionValue("mip_rel_gap", gap)
            highs.setOptionValue("time_limit", np.inf if seconds is None else seconds)
        highs.run()
        if highs.getModelStatus() == STATUS.kNotset:
            # Other users of HiGHS in this thread have set its scheduler to more threads.
            highs.resetGlobalScheduler(True)  # noqa: FBT003 (it has no name)
            highs.run()
        return highs.getModelStatus()

    def solution(self) -> tuple[FloatArray, FloatArray]:
        """Return the values of the columns, and the duals of the rows."""
        solution = self.highs.getSolution()
        return np.asarray(solution.col_value), np.asarray(solution.row_dual)

    def dual_ray(self) -> FloatArray:
        """Return a dual ray that refutes the rows, up to its sign; zeros if there is none."""
        _, exists, ray = self.highs.getDualRay()
        return np.asarray(ray) if exists else np.zeros(len(self._rows))


def _model(model: Highs, *, integral: bool) -> Any:
    """Return the model as HiGHS takes it, with the bounds of no row yet."""
    (rows, columns), used = model.matrix.shape, model.matrix != 0.0
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, rows
    lp.col_cost_ = model.encoded_cost
    lp.col_lower_, lp.col_upper_ = np.zeros(columns), np.full(columns, np.inf)
    lp.row_lower_, lp.row_upper_ = np.full(rows, -np.inf), np.full(rows, np.inf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(used.sum(axis=0))]).astype(np.int32)
    lp.a_matrix_.index_ = np.nonzero(used.T)[1].astype(np.int32)
    lp.a_matrix_.value_ = model.matrix.T[used.T]
    if integral:
        kinds = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        lp.integrality_ = [kinds[int(whole)] for whole in model.integer]
    return lp


@final
class Pool(Generic[V]):
    """Objects with a state, such as engines, each leased to one thread at a time.

    As many are made as are leased at once. An answer must not depend on what an object did before.
    """

    def __init__(self, make: Callable[[], V]) -> None:
        self._make = make
        self._idle: list[V] = []

    @contextmanager
    def lease(self) -> Iterator[V]:
        """Lease an object until the end of the block; after an error it is dropped."""
        try:
            item = self._idle.pop()  # atomic: no other thread gets the same
        except IndexError:
            item = self._make()
        yield item
        self._idle.append(item)
