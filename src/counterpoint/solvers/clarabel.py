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

from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Affine, Cone, LogLoss, LogSumExp
from counterpoint.engine.domains import Box, Transitions
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.numerics import FloatArray
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver, translated
from counterpoint.solvers.conic import Conic, ConicProgram, Model
from counterpoint.solvers.duals import priced, purified

__all__ = ["Clarabel"]

Answer = tuple[Outcome, FloatArray, FloatArray]
"""Of one row: the point, NaN where there is none, and the multipliers."""

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

    @cached_property
    def _uncharged(self) -> ClarabelPrograms:
        """The same demands at the price alone."""
        demands = Region(tuple(c for c in self.program.region if not isinstance(c, LogLoss)))
        return ClarabelPrograms(Program(self.program.price, demands))

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        out.outcomes[cases.empty] = Outcome.INFEASIBLE
        with translated("Clarabel"):
            for i in np.flatnonzero(~cases.empty).tolist():
                found = self._solved(cases.take(slice(i, i + 1)), effort)
                out.outcomes[i], out.points[i], out.multipliers[i] = found
        return out

    def _solved(self, case: Cases, effort: Effort) -> Answer:
        charged = bool(self.program.charges)
        stays = self._settled_by_staying(case, effort) if charged else None
        if stays is not None:
            return stays
        rows, result = self._run(case, effort)
        point, duals = _answer(rows, result)
        usable = result.status in (USABLE if charged else SOLVED)
        astray = result.status not in INFEASIBLE and not (usable and self._is_allowed(case, point))
        without = self._settled_without(case, effort) if charged and astray else None
        if without is not None:
            return without
        if usable:
            duals = priced(self.program, case, duals)
            if charged:
                point, duals = self._sharpened(case, effort, point, duals)
            point = self._on_the_surface(case, self._sparse(case, point, effort))
            return Outcome.FOUND, point, duals
        nowhere = np.full(self.program.width, np.nan)
        if result.status == STATUS.MaxTime:
            return Outcome.LIMIT, nowhere, np.zeros(self.program.size)
        ray = purified(self.program, case, duals)
        refuted = result.status in INFEASIBLE or self.program.refutes(case, ray[None, :])[0]
        return Outcome.INFEASIBLE if refuted else Outcome.NOTHING, nowhere, ray

    def _run(
        self, case: Cases, effort: Effort, model: Model | None = None
    ) -> tuple[ConicProgram, Any]:
        rows = ConicProgram(self._conic, case, model)
        hessian, linear = rows.objective()
        solver = clarabel.DefaultSolver(
            hessian, linear, rows.matrix, rows.right, rows.cones, _settings(effort)
        )
        return rows, solver.solve()

    def _settled_by_staying(self, case: Cases, effort: Effort) -> Answer | None:
        """Where hardly any change is worth its price: Newton's method from x itself ends at once.

        Where next to nothing moves, cones see nothing but their own noise.
        """
        x = np.clip(case.x, case.low, case.high)
        if self.program.violation(x, case.x)[0] > 0.0:
            return None
        charge, multipliers = self.program.charges[0], np.zeros(self.program.size)
        multipliers[-charge.size :] = self._model(case, x[0]).shares
        if _gap(*self._value(case, x[0], multipliers)) > NEARLY:
            return None
        point, multipliers = self._sharpened(case, effort, x[0], multipliers)
        settled = _gap(*self._value(case, point, multipliers)) <= TRACE
        return (Outcome.FOUND, point, multipliers) if settled else None

    def _settled_without(self, case: Cases, effort: Effort) -> Answer | None:
        """From the cheapest point that is allowed: where the charge is nothing beside the price."""
        plain = self._uncharged.solve(case, effort)
        if not plain.found[0]:
            return None
        shares = self._model(case, plain.points[0]).shares
        multipliers = np.append(plain.multipliers[0] * float(case.weights[0]), shares)
        return Outcome.FOUND, *self._sharpened(case, effort, plain.points[0], multipliers)

    def _is_allowed(self, case: Cases, point: FloatArray) -> bool:
        """Whether a point meets the linear rows, but for what a solver leaves."""
        affine = self.program.affine
        low, high = (limit[0] for limit in affine.limits(case.margin))
        value, room = affine.matrix @ point, 1.0 + np.abs(affine.matrix) @ np.abs(point)
        room *= ALLOWED
        return bool(((low - room <= value) & (value <= high + room)).all())

    def _on_the_surface(self, case: Cases, point: FloatArray) -> FloatArray:
        """A point that meets a probability by more than need be, moved back towards the row.

        All demands are convex, so the way back is allowed if the row itself meets the others.
        """
        curved, x = self.program.curved, case.x[0]
        if len(curved) != 1 or not isinstance(curved[0], LogSumExp):
            return point
        demand = curved[0]
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
            goal, duals = _answer(rows, result)
            duals = priced(self.program, case, duals)
            left = value - bound
            # the way there is shortened until the objective falls.
            tried = (point + 0.5**k * (goal - point) for k in range(HALVINGS))
            goal = next((y for y in tried if self._reached(case, y) < value), point)
            reached, proved = self._value(case, goal, duals)
            if reached < value:
                point, value = goal, reached
            if proved > bound:
                multipliers, bound = duals, proved
            if not value - bound < left:
                break
        return point, multipliers

    def _model(self, case: Cases, point: FloatArray) -> Model:
        """The log-loss about a point."""
        charge = self.program.charges[0]
        z = charge.matrix @ point + charge.offset
        shares = np.exp(z - charge.of(z[None, :])[0])
        change = point - case.x[0]
        size = float((np.abs(change) / self._conic.form.unit).max())
        worth = float(self.program.objective(point[None, :], case)[0])
        return Model(shares, charge.matrix @ change, max(size, 1e-12), max(worth, 1e-300))

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
        rows, result = self._run(replace(case, low=low, high=high), effort)
        if result.status not in SOLVED:
            return point
        sparser = _answer(rows, result)[0]
        before, after = (self.program.objective(y[None, :], case)[0] for y in (point, sparser))
        return sparser if after <= before * (1.0 + TRACE) else point


def _answer(rows: ConicProgram, result: Any) -> tuple[FloatArray, FloatArray]:
    """The point and the multipliers of a run."""
    return rows.point(np.asarray(result.x)), rows.multipliers(np.asarray(result.z))


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
