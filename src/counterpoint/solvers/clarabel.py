"""Clarabel: any convex program here, cones and log-sum-exp included.

Interior-point answers are followed by their multipliers, from which the program recomputes its
bound; and, where features ought to stay, by a second run that holds them still.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import clarabel
import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.engine.cases import Cases
from counterpoint.engine.charges import LogLoss
from counterpoint.engine.couplings import Affine, Cone, LogSumExp
from counterpoint.engine.domains import Box, Transitions
from counterpoint.engine.program import Program
from counterpoint.engine.region import Charge, Region
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver, translated
from counterpoint.solvers.conic import Conic, Model, Rows
from counterpoint.solvers.duals import priced, purified

__all__ = ["Clarabel"]

FloatArray = NDArray[np.float64]

STATUS = clarabel.SolverStatus
SOLVED = (STATUS.Solved, STATUS.AlmostSolved)
USABLE = (*SOLVED, STATUS.InsufficientProgress)
"""What may still be better than what there was: that is judged by the program itself."""
TRACE = 1e-7
"""A share of the cost that is noise of the interior point."""
SHARPER = 12
"""Steps of Newton's method at most, after a program with charges was solved with cones."""
CLOSED = 1e-10
"""A relative gap at which none is needed."""
NEARLY = 1e-2
"""A relative gap at which Newton's method may as well begin at the row itself."""
ALLOWED = 1e-5
"""Largest violation, relative to the terms of a row, of a point that one may go on from."""
MISSED = 1e-8
"""Largest relative violation of a point that is an answer."""
HALVINGS = 20
BISECTIONS = 60
INFEASIBLE = (STATUS.PrimalInfeasible, STATUS.AlmostPrimalInfeasible)


@final
class Clarabel(Solver):
    """Convex programs with linear rows, second-order and exponential cones by Clarabel."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, Affine, Transitions, Cone}
        | {LogLoss, LogSumExp}
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
            with translated("Clarabel"):
                self._solve_one(case, effort, out, i)
        return out

    def _solve_one(self, case: Cases, effort: Effort, out: Solution, i: int) -> None:
        if self.program.charges and self._settled_by_staying(case, effort, out, i):
            return
        rows, result = self._run(case, effort)
        usable = result.status in (USABLE if self.program.charges else SOLVED)
        astray = result.status not in INFEASIBLE and not (
            usable and self._is_allowed(case, rows, result)
        )
        if self.program.charges and astray and self._settled_without(case, effort, out, i):
            return
        if usable:
            point = self._point(case, rows, result)
            multipliers = self._multipliers(case, rows, result)
            if self.program.charges:
                point, multipliers = self._sharpened(case, effort, point, multipliers)
            out.points[i] = self._on_the_surface(case, self._sparse(case, point, effort))
            out.outcomes[i] = Outcome.FOUND
            out.multipliers[i] = multipliers
        elif result.status == STATUS.MaxTime:
            out.outcomes[i] = Outcome.LIMIT
        else:
            ray = purified(self.program, case, rows.multipliers(np.asarray(result.z)))
            refuted = self.program.refutes(case, ray[None, :])[0]
            if refuted or result.status in INFEASIBLE:
                out.outcomes[i] = Outcome.INFEASIBLE
            out.multipliers[i] = ray

    def _settled_by_staying(self, case: Cases, effort: Effort, out: Solution, i: int) -> bool:
        """Whether hardly any change is worth its price: Newton's method from x itself ends at once.

        Where next to nothing moves, cones see nothing but their own noise.
        """
        x = np.clip(case.x, case.low, case.high)
        if self.program.violation(x, case.x)[0] > 0.0:
            return False
        charge, multipliers = self.program.charges[0], np.zeros(self.program.size)
        multipliers[-charge.size :] = self._model(case, x[0]).shares
        if _gap(*self._value(case, x[0], multipliers)) > NEARLY:
            return False
        point, multipliers = self._sharpened(case, effort, x[0], multipliers)
        if _gap(*self._value(case, point, multipliers)) > TRACE:
            return False
        out.points[i], out.multipliers[i], out.outcomes[i] = point, multipliers, Outcome.FOUND
        return True

    def _is_allowed(self, case: Cases, rows: Rows, result: Any) -> bool:
        """Whether the point of a run meets the linear rows, but for what a solver leaves."""
        affine, point = self.program.affine, self._point(case, rows, result)
        low, high = (limit[0] for limit in affine.limits(case.margin))
        value = affine.matrix @ point
        room = ALLOWED * (1.0 + np.abs(affine.matrix) @ np.abs(point))
        return bool(((low - room <= value) & (value <= high + room)).all())

    @cached_property
    def _uncharged(self) -> ClarabelPrograms:
        """The same demands at the price alone."""
        demands = Region(tuple(c for c in self.program.region if not isinstance(c, Charge)))
        return ClarabelPrograms(Program(self.program.price, demands))

    def _settled_without(self, case: Cases, effort: Effort, out: Solution, i: int) -> bool:
        """From the cheapest point that is allowed: where the charge is nothing beside the price."""
        plain = self._uncharged.solve(case, effort)
        if not plain.found[0]:
            return False
        shares = self._model(case, plain.points[0]).shares
        multipliers = np.append(plain.multipliers[0] * float(case.weights[0]), shares)
        out.points[i], out.multipliers[i] = self._sharpened(
            case, effort, plain.points[0], multipliers
        )
        out.outcomes[i] = Outcome.FOUND
        return True

    def _on_the_surface(self, case: Cases, point: FloatArray) -> FloatArray:
        """A point that meets a probability by more than need be, moved back towards the row.

        All demands are convex, so the way back is allowed if the row itself meets the others.
        """
        curved = self.program.curved
        if len(curved) != 1 or not isinstance(curved[0], LogSumExp):
            return point
        x, demand = case.x[0], curved[0]
        others = Region(tuple(c for c in self.program.region if c is not demand))
        within = bool(((case.low[0] <= x) & (x <= case.high[0])).all())
        if not within or others.violation(case.x, case.x)[0] > 0.0:
            return point
        limit, inside, outside = demand.limit - float(case.margin[0, 0]), 1.0, 0.0
        for _ in range(BISECTIONS):
            middle = 0.5 * (inside + outside)
            met = demand.value((x + middle * (point - x))[None, :])[0] <= limit
            inside, outside = (middle, outside) if met else (inside, middle)
        return np.asarray(x + inside * (point - x))

    def _sharpened(
        self, case: Cases, effort: Effort, point: FloatArray, multipliers: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Newton's method from there on, each step a quadratic program in units of the answer.

        An exponential cone holds 1 − p and p alike, so a probability near 1 leaves it few digits of
        the loss; the model of the loss has them all.
        """
        value, bound = self._value(case, point, multipliers)
        for _ in range(SHARPER):
            if _gap(value, bound) <= CLOSED:
                break
            rows, result = self._run(case, effort, self._model(case, point))
            if result.status not in USABLE:
                break
            other, duals = self._point(case, rows, result), self._multipliers(case, rows, result)
            other, reached = self._lower(case, point, other, value)
            proved = self._value(case, other, duals)[1]
            gained = (value - bound) - (min(reached, value) - max(proved, bound))
            if reached < value:
                point, value = other, reached
            if proved > bound:
                multipliers, bound = duals, proved
            if not gained > 0.0:
                break
        return point, multipliers

    def _model(self, case: Cases, point: FloatArray) -> Model:
        """The log-loss about a point."""
        charge = self.program.charges[0]
        assert isinstance(charge, LogLoss)  # noqa: S101 (all that this solver accepts)
        z = charge.matrix @ point + charge.offset
        shares = np.exp(z - charge.of(z[None, :])[0])
        change = point - case.x[0]
        size = float((np.abs(change) / self._conic.unit).max())
        worth = float(self.program.objective(point[None, :], case)[0])
        return Model(shares, charge.matrix @ change, max(size, 1e-12), max(worth, 1e-300))

    def _lower(
        self, case: Cases, point: FloatArray, other: FloatArray, value: float
    ) -> tuple[FloatArray, float]:
        """The first point on the way back from another one whose objective is below a value."""
        length = 1.0
        for _ in range(HALVINGS):
            tried = point + length * (other - point)
            reached = self._reached(case, tried)
            if reached < value:
                return tried, reached
            length *= 0.5
        return point, value

    def _value(
        self, case: Cases, point: FloatArray, multipliers: FloatArray
    ) -> tuple[float, float]:
        """The objective at a point, and the bound by multipliers."""
        bound = self.program.bound(case, multipliers[None, :], point[None, :])
        return self._reached(case, point), float(bound[0])

    def _reached(self, case: Cases, point: FloatArray) -> float:
        """The objective at a point; infinite where it is no answer, however cheap it looks."""
        if self.program.violation(point[None, :], case.x)[0] > MISSED:
            return np.inf
        return float(self.program.objective(point[None, :], case)[0])

    def _run(self, case: Cases, effort: Effort, model: Model | None = None) -> tuple[Rows, Any]:
        rows = Rows(self._conic, case, model)
        hessian, linear = rows.objective()
        solver = clarabel.DefaultSolver(
            hessian, linear, rows.matrix, rows.right, rows.cones, _settings(effort)
        )
        return rows, solver.solve()

    def _point(self, case: Cases, rows: Rows, result: Any) -> FloatArray:
        change = np.asarray(result.x)[: self.program.width] * self._conic.unit * rows.scale
        y = case.x[0] + change
        return np.minimum(np.maximum(y, case.low[0]), case.high[0])

    def _multipliers(self, case: Cases, rows: Rows, result: Any) -> FloatArray:
        return priced(self.program, case, rows.multipliers(np.asarray(result.z)))

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
        still = replace(case, low=low, high=high)
        rows, result = self._run(still, effort)
        if result.status not in SOLVED:
            return point
        sparser = self._point(still, rows, result)
        before = self.program.objective(point[None, :], case)[0]
        after = self.program.objective(sparser[None, :], case)[0]
        return sparser if after <= before * (1.0 + TRACE) else point


def _gap(value: float, bound: float) -> float:
    """Relative; infinite without a value."""
    return (value - bound) / max(value, 1e-300) if value < np.inf else np.inf


def _settings(effort: Effort) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_rel, settings.tol_gap_abs = 1e-10, 1e-12
    settings.tol_feas, settings.max_iter = 1e-10, 200
    if effort.seconds:
        settings.time_limit = effort.seconds
    return settings
