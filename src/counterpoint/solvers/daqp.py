"""Solve small dense quadratic programs with DAQP.

Changes are in units in which the cost has a unit diagonal. For relaxed categories the cost w/2 |δ|
of a one-hot column becomes w/2 δ²: the same at 0 and ±1, and less between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import daqp
import numpy as np

from counterpoint.caches import Memo
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import EncodedCost, Mahalanobis, SquaredEuclidean
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.solvers.base import LINEAR, Effort, Outcome, Solution, Solver, translated
from counterpoint.solvers.highs import Highs
from counterpoint.solvers.standard_form import BatchBounds, StandardForm

EQUAL, INFEASIBLE = 5, -1
"""DAQP's own numbers: that a row or column is fixed, and that there is no point."""
OUTCOMES = {
    1: Outcome.FOUND,
    2: Outcome.FOUND,
    INFEASIBLE: Outcome.INFEASIBLE,
    -7: Outcome.LIMIT,
}
"""By DAQP's exit flags."""
TOLERANCES = {"primal_tol": 1e-10, "dual_tol": 1e-12, "iter_limit": 100_000}
"""In units in which a change is about 1 long: well within what counts as rounding (1e-8 of a row's
terms). The limit of iterations ends a search that cycles."""


@final
@dataclass(frozen=True, eq=False)
class Daqp(Solver):
    """Continuous quadratic programs, by DAQP; `Branching` proves those with categories."""

    accepts: ClassVar[frozenset[type]] = frozenset(LINEAR | {SquaredEuclidean, Mahalanobis})
    accuracy: ClassVar[float] = 1e-8

    @classmethod
    def takes(cls, program: Program) -> bool:
        return program.condition_types <= cls.accepts

    @cached_property
    def form(self) -> StandardForm:
        """The program in the standard form, in units in which the cost has a unit diagonal."""
        encoded_cost = self.program.encoded_cost
        unit = 1.0 / np.sqrt(2.0 * (encoded_cost.diagonal + encoded_cost.absolute))
        return StandardForm(self.program, unit, norm=2)

    @cached_property
    def _hessian(self) -> FloatArray:
        """The matrix of the cost, (d, d), with a unit diagonal, one-hot columns included."""
        if self.form.hessian.ndim == 1:
            return np.eye(self.program.width)
        return self.form.hessian + np.diag(2.0 * self.form.absolute * self.form.unit)

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        with translated("DAQP"):
            solution = self._solved(cases, effort)
            self._check_infeasible(cases, effort, solution)
            return solution

    def _solved(self, cases: Batch, effort: Effort, lengths: FloatArray | None = None) -> Solution:
        """Solve the rows for their changes in units of ``lengths`` (n,), about their own lengths.

        By default these are by how much the worst row or column is missed if nothing changes.
        Columns that cannot move are left out of DAQP's program; rows of the batch that leave out
        the same columns share their matrices. Linear rows are divided by their norms over the free
        columns.
        """
        limits, duals = self.form.limits(cases), np.zeros((len(cases), len(self.form.matrix)))
        # Bounds that cross by 1e-12 of the row's value do so by rounding: the column is held.
        crossed = limits.low - limits.high > 1e-12 * np.abs(cases.x / self.form.unit)
        blocked = crossed.any(axis=1)
        flags = np.where(blocked, INFEASIBLE, 0)
        free = limits.low < limits.high
        change = np.where(free, 0.0, limits.low)
        fixed_part, norms = change @ self.form.matrix.T, self._row_norms(free)
        row_low, row_high = ((v - fixed_part) / norms for v in (limits.row_low, limits.row_high))
        limits = limits._replace(row_low=row_low, row_high=row_high)
        if lengths is None:
            lengths = limits.shortfall(columns=True)
        limits = BatchBounds(*(limit / lengths[:, None] for limit in limits))
        change /= lengths[:, None]
        seconds = {} if effort.seconds is None else {"time_limit": effort.seconds}
        rows_by_mask: dict[bytes, list[int]] = {}
        for i in np.flatnonzero(~blocked).tolist():
            rows_by_mask.setdefault(free[i].tobytes(), []).append(i)
        for mask, indices in rows_by_mask.items():  # rows with the same free columns
            rows, columns = np.array(indices), np.flatnonzero(free[indices[0]])
            some_limits = BatchBounds(*(limit[rows] for limit in limits))
            free_change, flags[rows], unit_duals = self._run(
                mask, change[rows], some_limits, seconds
            )
            change[np.ix_(rows, columns)], duals[rows] = free_change, unit_duals / norms[rows]
        outcomes = [OUTCOMES.get(flag, Outcome.NOTHING) for flag in flags.tolist()]
        solved = np.array([outcome == Outcome.FOUND for outcome in outcomes], dtype=bool)[:, None]
        points = np.where(solved, self.form.points(change, cases, lengths), np.nan)
        # A cost that is a square was divided by length², and the linear rows by length.
        multipliers = self.form.multipliers(duals * lengths[:, None])
        return Solution(points, multipliers, np.array(outcomes, np.int8), np.zeros(len(points)))

    def _run(
        self, mask: bytes, held: FloatArray, limits: BatchBounds, seconds: dict[str, float]
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        """Run DAQP for n rows with the same free columns, given by a mask.

        The other columns are ``held`` at changes (n, d). Return the changes of the free columns,
        DAQP's exit flags (n,), and the duals of the linear rows; 0 where nothing is found.
        """
        free = np.frombuffer(mask, dtype=bool)
        low, high, n = limits.low[:, free], limits.high[:, free], len(held)
        linear = held @ self._hessian[:, free]
        hessian, matrix = self._restrictions.made(mask, lambda: self._restricted(mask))
        first = low.shape[1]  # the position of the first linear row, after the bounds
        # DAQP ignores strides: it reads the numbers of a row one after the other.
        low = np.ascontiguousarray(np.hstack([low, limits.row_low]))
        high = np.ascontiguousarray(np.hstack([high, limits.row_high]))
        linear = np.ascontiguousarray(linear)
        sense = np.where(low == high, EQUAL, 0).astype(np.int32, order="C")
        out, flags = np.zeros((n, len(hessian))), np.zeros(n, dtype=np.intp)
        duals = np.zeros((n, len(matrix)))
        for i in range(n):
            point, _, flags[i], info = daqp.solve(
                hessian, linear[i], matrix, high[i], low[i], sense[i], **TOLERANCES, **seconds
            )
            if flags[i] > 0:  # else it may be infinite
                out[i], duals[i] = point, info["lam"][first:]
        return out, flags, duals

    def _check_infeasible(self, cases: Batch, effort: Effort, solution: Solution) -> None:
        """Refute the rows that DAQP calls infeasible, or solve them in larger units, in place.

        Its tolerances are absolute: if changes are so large that rounding exceeds these, it misses
        points that exist. HiGHS refutes a row, or finds a feasible point, and the largest change of
        that is the unit in which DAQP tries again. If it fails again, the row gets HiGHS's point.
        """
        rows = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if not len(rows):
            return
        cases = cases.take(rows)
        feasible = self._refuter.solve(cases, Effort())
        solution.multipliers[rows] = feasible.multipliers
        lengths = np.abs((feasible.points - cases.x) / self.form.unit).max(axis=1)
        for i in np.flatnonzero(feasible.found & (lengths > 0.0)).tolist():
            row = slice(i, i + 1)
            rescaled = self._solved(cases.take(row), effort, lengths[row])
            if not rescaled.found[0]:
                rescaled.points[0], rescaled.outcomes[0] = feasible.points[i], Outcome.FOUND
            solution.put(rows[row], rescaled)

    def _restricted(self, mask: bytes) -> tuple[FloatArray, FloatArray]:
        """Return the matrix of the cost and unit linear rows over the free columns."""
        free = np.frombuffer(mask, dtype=bool)
        norms = self._row_norms(free[None, :])[0]
        matrix = np.ascontiguousarray(self.form.matrix[:, free] / norms[:, None])
        return self._hessian[np.ix_(free, free)], matrix

    def _row_norms(self, free: BoolArray) -> FloatArray:
        """Return the norm of each linear row over the free columns, (n, rows); 1 if it is 0.

        With tolerances relative to the whole row, one whose large entries are all fixed would be
        met by any point.
        """
        norms = np.sqrt(free @ (self.form.matrix**2).T)
        return np.where(norms > 0.0, norms, 1.0)

    @cached_property
    def _restrictions(self) -> Memo[bytes, tuple[FloatArray, FloatArray]]:
        return Memo()  # by the mask of free columns, which rows often share

    @cached_property
    def _refuter(self) -> Highs:
        """The same region under a linear cost, in HiGHS: it gives multipliers that refute a row."""
        encoded_cost = EncodedCost(np.ones(self.program.width), np.zeros(self.program.width))
        return Highs(Program(encoded_cost, self.program.region))
