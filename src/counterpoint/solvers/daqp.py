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

from counterpoint.costs import Mahalanobis, Price, SquaredEuclidean
from counterpoint.errors import SolverFailure
from counterpoint.programs import Cases, Program
from counterpoint.regions import Affine, Box, OneOf, Transitions
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver
from counterpoint.solvers.highs import Highs

__all__ = ["Daqp"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]

EQUAL, BINARY = 5, 16
SOLVED, INFEASIBLE, TIME = (1, 2), -1, -7
FAR = 1e30
CROSSED = 1e-12
REPORTED_WITHIN = 1e-9
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
        """(d, r) scaled directions with unit Hessian that span the answers, and the rows in them."""
        hessian, rows, _ = self._scaled
        root = np.linalg.cholesky(hessian)
        q, _ = np.linalg.qr(np.linalg.solve(root, rows.T))
        directions = np.linalg.solve(root.T, q)
        return directions, rows @ directions

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        row_low, row_high = self._row_bounds(cases)
        for i, case in enumerate(cases):
            with _translated():
                if cases.unbounded:
                    self._solve_in_span(case, row_low[i], row_high[i], out, i)
                else:
                    self._solve_bounded(case, (row_low[i], row_high[i]), effort, out, i)
        return out

    def _row_bounds(self, cases: Cases) -> tuple[FloatArray, FloatArray]:
        """(n, rows) bounds on the rows' scaled changes."""
        affine, size = self.program.affine, self._scaled[2]
        low, high = affine.limits(cases.margin)
        here = cases.x @ affine.matrix.T
        none = np.zeros((len(cases), len(self._sums)))
        low = np.hstack([np.maximum(low - here, -FAR), none]) / size
        return low, np.hstack([np.minimum(high - here, FAR), none]) / size

    def _solve_in_span(
        self, case: Cases, row_low: FloatArray, row_high: FloatArray, out: Solution, i: int
    ) -> None:
        directions, rows = self._span
        scale = _scale(row_low, row_high)
        sense = np.where(row_low == row_high, EQUAL, 0).astype(np.int32)
        if not rows.shape[1]:
            return
        result = daqp.solve(
            np.eye(rows.shape[1]),
            np.zeros(rows.shape[1]),
            rows,
            row_high / scale,
            row_low / scale,
            sense,
            **TOLERANCES,
        )
        point = case.x[0] + (directions @ result[0]) * self._unit * scale
        self._record(result, point, np.asarray(result[3]["lam"]) * scale, out, i)
        if out.outcomes[i] == Outcome.INFEASIBLE:
            out.multipliers[i] = self._farkas(case)

    def _solve_bounded(
        self, case: Cases, rows: tuple[FloatArray, FloatArray], effort: Effort, out: Solution, i: int
    ) -> None:
        """Columns that cannot move are put in as numbers; DAQP gets the others."""
        x = case.x[0]
        hessian, matrix, _ = self._scaled
        low = np.maximum(case.low[0] - x, -FAR) / self._unit
        high = np.minimum(case.high[0] - x, FAR) / self._unit
        if (low > high + CROSSED * np.abs(high)).any():
            out.outcomes[i] = Outcome.INFEASIBLE
            return
        free = low < high
        change = np.where(free, 0.0, low)
        shift = matrix @ change
        integral = bool((free & ~self.program.numeric).any())
        row_low, row_high = rows[0] - shift, rows[1] - shift
        scale = 1.0 if integral or change.any() else _scale(row_low, row_high)
        lower = np.concatenate([low[free], row_low]) / scale
        upper = np.concatenate([high[free], row_high]) / scale
        sense = np.where(lower == upper, EQUAL, 0).astype(np.int32)
        sense[: int(free.sum())][~self.program.numeric[free]] = BINARY
        limit = {"time_limit": effort.seconds} if effort.seconds and integral else {}
        result = daqp.solve(
            hessian[np.ix_(free, free)],
            hessian[free] @ change,
            np.ascontiguousarray(matrix[:, free]),
            upper,
            lower,
            sense,
            **TOLERANCES,
            **limit,
        )
        change[free] = np.asarray(result[0]) * scale
        duals = np.asarray(result[3]["lam"])[int(free.sum()) :] * scale
        self._record(result, x + change * self._unit, duals, out, i)
        if out.outcomes[i] == Outcome.INFEASIBLE:
            out.multipliers[i] = self._farkas(case)
        elif integral and out.outcomes[i] == Outcome.FOUND:
            cost = self.program.cost(out.points[i : i + 1], case.x)[0]
            out.reported[i] = max(cost * (1.0 - REPORTED_WITHIN), 0.0)

    def _farkas(self, case: Cases) -> FloatArray:
        """Multipliers that refute the linear relaxation, which DAQP does not give; HiGHS does."""
        solution = self._refuter.solve(case, Effort())
        return self.program.own_multipliers(solution.multipliers)[0]

    @cached_property
    def _refuter(self) -> Prepared:
        price = Price(np.ones(self.program.width), np.zeros(self.program.width))
        return Highs().prepare(Program(price, self.program.relaxed(OneOf).region))

    def _record(
        self, result: tuple[Any, ...], point: FloatArray, duals: FloatArray, out: Solution, i: int
    ) -> None:
        flag = int(result[2])
        if flag in SOLVED:
            for group in self.program.groups:
                point[group] = np.round(point[group])
            out.points[i] = point
            out.outcomes[i] = Outcome.FOUND
            out.multipliers[i] = (duals / self._scaled[2])[: self.program.size]
        elif flag == INFEASIBLE:
            out.outcomes[i] = Outcome.INFEASIBLE
        elif flag == TIME:
            out.outcomes[i] = Outcome.LIMIT


def _scale(row_low: FloatArray, row_high: FloatArray) -> float:
    """About the size of the answer: how much the worst row is missed if nothing changes."""
    short = max(float(row_low.max(initial=-np.inf)), float((-row_high).max(initial=-np.inf)))
    return short if 0.0 < short < FAR else 1.0


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the backend as our own."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        raise SolverFailure(f"DAQP failed: {error}") from error
