"""DAQP: small dense quadratic programs, with categories as binaries.

Changes are measured in units in which the price has a unit diagonal. Without bounds the answer lies
in the span of the rows, x − P⁻¹Aᵀλ, so the program is solved there: its size is the number of rows,
whatever the number of features. A one-hot column's share of its category's weight, w/2 |δ|, enters
as w/2 δ²: the same at 0 and ±1, and less between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import daqp
import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo
from counterpoint.costs import Mahalanobis, Price, SquaredEuclidean
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Affine
from counterpoint.engine.domains import Box, OneOf, Transitions
from counterpoint.engine.program import Program
from counterpoint.errors import SolverFailure
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver
from counterpoint.solvers.highs import Highs
from counterpoint.solvers.layout import shortfall

__all__ = ["Daqp"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]

EQUAL, BINARY = 5, 16
OUTCOMES = {1: Outcome.FOUND, 2: Outcome.FOUND, -1: Outcome.INFEASIBLE, -7: Outcome.LIMIT}
CROSSED = 1e-12
WITHIN = 1e-9
"""How far, relatively, DAQP's branch and bound may stop from the optimum."""
TOLERANCES = {"primal_tol": 1e-10, "dual_tol": 1e-12, "iter_limit": 100_000}


@final
class Daqp(Solver):
    """Quadratic programs, continuous or with one-hot groups, by DAQP."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {SquaredEuclidean, Mahalanobis, Box, Affine, Transitions, OneOf}
    )
    accuracy: ClassVar[float] = 1e-8

    def takes(self, program: Program) -> bool:
        return program.kinds <= self.accepts

    def prepare(self, program: Program) -> DaqpPrograms:
        return DaqpPrograms(program)


@final
@dataclass(frozen=True, eq=False)
class DaqpPrograms(Prepared):
    """A program in the units and shape that DAQP gets."""

    program: Program

    @cached_property
    def _hessian(self) -> FloatArray:
        """(d, d) or (d,) twice the price's quadratic form, one-hot columns included."""
        price = self.program.price
        hot = 2.0 * price.absolute
        if price.quadratic.ndim == 1:
            return 2.0 * price.quadratic + hot
        return 2.0 * price.quadratic + np.diag(hot)

    @cached_property
    def _unit(self) -> FloatArray:
        diagonal = self._hessian if self._hessian.ndim == 1 else np.diag(self._hessian)
        return np.asarray(1.0 / np.sqrt(diagonal))

    @cached_property
    def _scaled(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Unit-diagonal Hessian, rows of norm 1, and the rows' norms."""
        rows = np.vstack([self.program.affine.matrix, self._sums]) * self._unit
        size = np.linalg.norm(rows, axis=1)
        size = np.where(size > 0, size, 1.0)
        d = self.program.width
        full = self._hessian.ndim == 2
        hessian = self._hessian * np.outer(self._unit, self._unit) if full else np.eye(d)
        return hessian, rows / size[:, None], size

    @cached_property
    def _sums(self) -> FloatArray:
        """(groups, d) the rows by which a group's changes add up to 0."""
        rows = np.zeros((len(self.program.groups), self.program.width))
        for row, group in zip(rows, self.program.groups, strict=True):
            row[group] = 1.0
        return rows

    @cached_property
    def _span(self) -> tuple[FloatArray, FloatArray]:
        """(d, r) scaled directions of unit Hessian that span the answers; the rows in them."""
        hessian, rows, _ = self._scaled
        root = np.linalg.cholesky(hessian)
        q, _ = np.linalg.qr(np.linalg.solve(root, rows.T))
        directions = np.linalg.solve(root.T, q)
        return directions, rows @ directions

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        answers = _Answers(len(cases), self.program)
        with _translated():
            if cases.unbounded:
                self._solve_in_span(cases, answers)
            else:
                self._solve_bounded(cases, effort, answers)
            solution = self._solution(cases, answers)
            self._doubted(cases, effort, solution)
        return solution

    def _solution(self, cases: Cases, answers: _Answers) -> Solution:
        points = cases.x + answers.change * self._unit
        points = np.minimum(np.maximum(points, cases.low), cases.high)
        points[answers.outcomes != Outcome.FOUND] = np.nan
        for group in self.program.groups:
            points[:, group] = np.round(points[:, group])
        duals = answers.duals / self._scaled[2]
        reported = np.zeros(len(cases))
        found = np.flatnonzero(answers.branched & (answers.outcomes == Outcome.FOUND))
        reported[found] = self.program.cost(points[found], cases.x[found]) * (1.0 - WITHIN)
        multipliers = duals[:, : self.program.size]
        return Solution(points, multipliers, answers.outcomes, reported)

    def _doubted(self, cases: Cases, effort: Effort, solution: Solution) -> None:
        """Rows that DAQP holds to be infeasible: refuted, or solved in units of a feasible point.

        Where its tolerances are below the rounding of large changes it finds nothing; a feasible
        point of the linear relaxation says how large they are, and is kept if all else fails.
        """
        rows = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if not len(rows):
            return
        part = cases.take(rows)
        linear = self._refuter.solve(part, Effort())
        solution.multipliers[rows] = self.program.own_multipliers(linear.multipliers)
        change = np.abs((linear.points - part.x) / self._unit).max(axis=1)
        for i in np.flatnonzero(linear.found & (change > 0.0)).tolist():
            case, answers = part.take(slice(i, i + 1)), _Answers(1, self.program)
            self._solve_bounded(case, effort, answers, change[i : i + 1])
            other = self._solution(case, answers)
            if not other.found[0] and not self.program.groups:
                other.points[0], other.outcomes[0] = linear.points[i], Outcome.FOUND
            solution.put(int(rows[i]), other)

    def _row_bounds(self, cases: Cases) -> tuple[FloatArray, FloatArray]:
        """(n, rows) bounds on the rows' scaled changes."""
        affine, size = self.program.affine, self._scaled[2]
        low, high = affine.limits(cases.margin)
        here = cases.x @ affine.matrix.T
        none = np.zeros((len(cases), len(self._sums)))
        return np.hstack([low - here, none]) / size, np.hstack([high - here, none]) / size

    def _solve_in_span(self, cases: Cases, answers: _Answers) -> None:
        directions, rows = self._span
        low, high = self._row_bounds(cases)
        scale = shortfall(low, high)
        low, high = low / scale[:, None], high / scale[:, None]
        sense = np.where(low == high, EQUAL, 0).astype(np.int32)
        rank = rows.shape[1]
        hessian, linear, steps = np.eye(rank), np.zeros(rank), np.zeros((len(cases), rank))
        for i in range(len(cases)):
            steps[i], _, flag, info = daqp.solve(
                hessian, linear, rows, high[i], low[i], sense[i], **TOLERANCES
            )
            answers.put(i, flag, info["lam"])
        answers.change[:] = (steps @ directions.T) * scale[:, None]
        answers.duals *= scale[:, None]

    def _solve_bounded(
        self, cases: Cases, effort: Effort, answers: _Answers, size: FloatArray | None = None
    ) -> None:
        """Columns that cannot move are put in as numbers; DAQP gets the others.

        Parameters
        ----------
        cases, effort, answers
            What is asked, and where what is found goes.
        size
            (n,) about how large the scaled changes are, if that is known.
        """
        low = (cases.low - cases.x) / self._unit
        high = (cases.high - cases.x) / self._unit
        crossed = (low - high > CROSSED * np.abs(cases.x / self._unit)).any(axis=1)
        answers.outcomes[crossed] = Outcome.INFEASIBLE
        free = low < high
        change = np.where(free, 0.0, low)
        shift = change @ self._scaled[1].T
        row_low, row_high = (limit - shift for limit in self._row_bounds(cases))
        hot = ~self.program.numeric
        answers.branched[:] = (free & hot).any(axis=1)
        lower, upper = np.hstack([low, row_low]), np.hstack([high, row_high])
        scale = (shortfall(lower, upper) if size is None else size)[:, None]
        lower, upper = lower / scale, upper / scale
        sense = np.where(lower == upper, EQUAL, 0).astype(np.int32)
        sense[:, : len(hot)][:, hot] = BINARY
        limit = {} if effort.seconds is None else {"time_limit": effort.seconds}
        for i in np.flatnonzero(~crossed).tolist():
            hessian, matrix = self._restricted(free[i].tobytes())
            kept = np.concatenate([free[i], np.ones(len(matrix), dtype=bool)])
            linear = self._scaled[0][free[i]] @ (change[i] / scale[i])
            y, _, flag, info = daqp.solve(
                hessian,
                linear,
                matrix,
                upper[i, kept],
                lower[i, kept],
                sense[i, kept],
                **TOLERANCES,
                **limit,
            )
            answers.put(i, flag, info["lam"][len(hessian) :])
            change[i, free[i]] = y * scale[i]
        answers.change[:] = change
        answers.duals *= scale

    def _restricted(self, free: bytes) -> tuple[FloatArray, FloatArray]:
        """Hessian and rows over the free columns; people often share what is fixed."""

        def made() -> tuple[FloatArray, FloatArray]:
            mask = np.frombuffer(free, dtype=bool)
            hessian, matrix, _ = self._scaled
            return hessian[np.ix_(mask, mask)], np.ascontiguousarray(matrix[:, mask])

        return self._restrictions.get(free, made)

    @cached_property
    def _restrictions(self) -> Memo[bytes, tuple[FloatArray, FloatArray]]:
        return Memo()

    @cached_property
    def _refuter(self) -> Prepared:
        """The linear relaxation in HiGHS, which gives the multipliers that DAQP does not."""
        price = Price(np.ones(self.program.width), np.zeros(self.program.width))
        return Highs().prepare(Program(price, self.program.relaxed(OneOf).region))


@final
class _Answers:
    """What DAQP said, in its own units."""

    def __init__(self, n: int, program: Program) -> None:
        self.change = np.zeros((n, program.width))
        self.duals = np.zeros((n, program.size + len(program.groups)))
        self.outcomes = np.full(n, Outcome.NOTHING, dtype=np.int8)
        self.branched = np.zeros(n, dtype=bool)

    def put(self, i: int, flag: int, duals: Any) -> None:
        """One result."""
        self.outcomes[i] = OUTCOMES.get(flag, Outcome.NOTHING)
        if self.outcomes[i] == Outcome.FOUND:
            self.duals[i] = duals


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the backend as our own."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        raise SolverFailure(f"DAQP failed: {error}") from error
