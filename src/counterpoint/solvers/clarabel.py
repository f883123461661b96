"""Clarabel: any convex program here, cones and log-sum-exp included.

Interior-point answers are followed by their multipliers, from which the program recomputes its
bound; and, where features ought to stay, by a second run that holds them still.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import clarabel
import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.errors import SolverFailure
from counterpoint.programs import Program
from counterpoint.regions import Affine, Box, Cone, LogSumExp, Transitions
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver
from counterpoint.solvers.conic import Conic, Rows, purified

__all__ = ["Clarabel"]

FloatArray = NDArray[np.float64]

STATUS = clarabel.SolverStatus
SOLVED = (STATUS.Solved, STATUS.AlmostSolved)
TRACE = 1e-7
"""A share of the cost that is noise of the interior point."""
INFEASIBLE = (STATUS.PrimalInfeasible, STATUS.AlmostPrimalInfeasible)


@final
class Clarabel(Solver):
    """Convex programs with linear rows, second-order and exponential cones by Clarabel."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, Affine, Transitions, Cone, LogSumExp}
    )
    accuracy: ClassVar[float] = 1e-7

    def takes(self, program: Program) -> bool:
        return program.kinds <= self.accepts

    def prepare(self, program: Program) -> ClarabelPrograms:
        return ClarabelPrograms(program)


@final
@dataclass(frozen=True, eq=False)
class ClarabelPrograms(Prepared):
    """A program as cones over scaled changes."""

    program: Program

    @cached_property
    def _conic(self) -> Conic:
        return Conic(self.program)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            if (case.low > case.high).any():
                out.outcomes[i] = Outcome.INFEASIBLE
                continue
            with _translated():
                self._solve_one(case, effort, out, i)
        return out

    def _solve_one(self, case: Cases, effort: Effort, out: Solution, i: int) -> None:
        rows, result = self._run(case, effort)
        if result.status in SOLVED:
            point = self._point(case, rows, result)
            out.points[i] = self._sparse(case, point, effort)
            out.outcomes[i] = Outcome.FOUND
            out.multipliers[i] = rows.multipliers(np.asarray(result.z))
        elif result.status in INFEASIBLE:
            out.outcomes[i] = Outcome.INFEASIBLE
            ray = rows.multipliers(np.asarray(result.z))
            out.multipliers[i] = purified(self.program, case, ray)
        elif result.status == STATUS.MaxTime:
            out.outcomes[i] = Outcome.LIMIT

    def _run(self, case: Cases, effort: Effort) -> tuple[Rows, Any]:
        rows = Rows(self._conic, case)
        hessian, linear = self._conic.objective
        solver = clarabel.DefaultSolver(
            hessian * (rows.scale**2 / rows.worth),
            linear * (rows.scale / rows.worth),
            rows.matrix,
            rows.right,
            rows.cones,
            _settings(effort),
        )
        return rows, solver.solve()

    def _point(self, case: Cases, rows: Rows, result: Any) -> FloatArray:
        change = np.asarray(result.x)[: self.program.width] * self._conic.unit * rows.scale
        y = case.x[0] + change
        return np.minimum(np.maximum(y, case.low[0]), case.high[0])

    def _sparse(self, case: Cases, point: FloatArray, effort: Effort) -> FloatArray:
        """The point without the traces that an interior point leaves on features that stay.

        Under an absolute price most features do not move at the optimum. The program is solved
        again with the ones that hardly moved held still, if that costs no more.
        """
        paid = self.program.price.absolute * np.abs(point - case.x[0])
        traces = (paid > 0) & (paid <= TRACE * paid.sum())
        held = traces & (case.low[0] <= case.x[0]) & (case.x[0] <= case.high[0])
        if not held.any():
            return point
        low, high = (np.where(held, case.x, bound) for bound in (case.low, case.high))
        still = Cases(case.x, low, high, case.margin)
        rows, result = self._run(still, effort)
        if result.status not in SOLVED:
            return point
        sparser = self._point(still, rows, result)
        before, after = self.program.cost(np.stack([point, sparser]), case.x)
        return sparser if after <= before * (1.0 + TRACE) else point


def _settings(effort: Effort) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_rel, settings.tol_gap_abs = 1e-10, 1e-12
    settings.tol_feas, settings.max_iter = 1e-10, 200
    if effort.seconds:
        settings.time_limit = effort.seconds
    return settings


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the backend as our own."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        raise SolverFailure(f"Clarabel failed: {error}") from error
