"""Solve convex programs with Clarabel, cones and log-sum-exp included.

The variables of a conic program are the change of each column; for each absolute cost a bound on
the size of a change; for each log-sum-exp a share for each of its terms; for a log-loss its value
besides. From the multipliers of an interior-point answer the program recomputes its bound; where
features ought to stay that moved by traces, a second run holds them still.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, final

import clarabel
import numpy as np
from scipy import sparse

from counterpoint.numerics import LEAST, TINY, VIOLATION, FloatArray, IntArray
from counterpoint.problem.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import Cone
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program, relaxed
from counterpoint.programs.region import Batch, Coupling
from counterpoint.solvers.base import LINEAR, Effort, Outcome, Solution, Solver, translated
from counterpoint.solvers.columns import Answer, by_columns, is_wide
from counterpoint.solvers.duals import cost_limited, purified
from counterpoint.solvers.standard_form import StandardForm

Run = tuple[Any, FloatArray, FloatArray]
"""Clarabel's status, its point (d,), and the program's multipliers (size,)."""
Sizes = tuple[float, float]
"""About the size of an answer, in units of change, and of its objective: Clarabel's tolerances are
relative to these."""
Entries = tuple[IntArray, IntArray, FloatArray]
"""Rows, columns and values of a sparse matrix."""

STATUS = clarabel.SolverStatus
TRACE = 1e-7
"""A share of the cost, or of the objective, that is noise of the interior point."""
INFEASIBLE = (STATUS.PrimalInfeasible, STATUS.AlmostPrimalInfeasible)


@final
@dataclass(frozen=True, eq=False)
class Clarabel(Solver):
    """Convex programs with linear rows, second-order and exponential cones by Clarabel."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        LINEAR | {Manhattan, SquaredEuclidean, Mahalanobis, Cone, LogLoss, LogSumExp}
    )
    accuracy: ClassVar[float] = 1e-7
    SOLVED: ClassVar = (STATUS.Solved, STATUS.AlmostSolved)
    # statuses whose points may be better than what there was; the program itself judges that
    USABLE: ClassVar = (*SOLVED, STATUS.InsufficientProgress)

    @classmethod
    def takes(cls, program: Program) -> bool:
        return program.condition_types <= cls.accepts

    @cached_property
    def form(self) -> StandardForm:
        """The program in the standard form, with changes in units of cost."""
        encoded_cost = self.program.encoded_cost
        size = encoded_cost.absolute + np.sqrt(encoded_cost.diagonal)
        return StandardForm(self.program, 1.0 / np.where(size > 0, size, 1.0))

    def steepest(self, coupling: Coupling) -> FloatArray:
        """Return the largest entry of each normal, in units of change, (size,); 1 if it is 0."""
        size = np.abs(coupling.normals * self.form.unit).max(axis=1, initial=0.0)
        return np.where(size > 0.0, size, 1.0)

    @property
    def has_loss(self) -> bool:
        """Whether a log-loss is traded off against the cost."""
        return LogLoss in self.program.condition_types

    @cached_property
    def loss(self) -> LogLoss:
        """The log-loss in the objective."""
        (loss,) = (c for c in self.program.couplings if isinstance(c, LogLoss))
        return loss

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        out.outcomes[cases.empty] = Outcome.INFEASIBLE
        with translated("Clarabel"):
            for i in np.flatnonzero(~cases.empty).tolist():
                answer = self._solved(cases.take(slice(i, i + 1)), effort)
                out.outcomes[i], out.points[i], out.multipliers[i] = answer
        return out

    def _solved(self, case: Batch, effort: Effort) -> Answer:
        """Solve one row; over a few columns at a time if there are very many."""
        if not is_wide(self.program):
            return self._solved_whole(case, effort)
        end = np.inf if effort.seconds is None else perf_counter() + effort.seconds

        def solve(program: Program, case: Batch) -> Answer:
            return Clarabel(program)._solved_whole(case, effort.until(end))  # noqa: SLF001 (its own)

        return by_columns(self.program, case, solve)

    def _solved_whole(self, case: Batch, effort: Effort) -> Answer:
        """Solve one row with all columns at once.

        With a loss in the objective, Newton's method refines a rough answer of Clarabel; if there
        is none, it starts at the cheapest point instead.
        """
        has_loss = self.has_loss
        near_row = self._solved_near_row(case, effort) if has_loss else None
        if near_row is not None:
            return near_row
        status, point, duals = self.run(case, effort)
        usable = status in (self.USABLE if has_loss else self.SOLVED)
        is_start = usable and has_loss and self._is_start(case, point)
        if has_loss and status not in INFEASIBLE and not is_start:
            from_cheapest = self._solved_from_cheapest(case, effort)
            if from_cheapest is not None:
                return from_cheapest
        if usable:
            duals = cost_limited(self.program, case, duals)
            if has_loss:
                point, duals = self._sharpened(case, effort, point, duals)
            return Outcome.FOUND, self._sparse(case, point, effort), duals
        no_point = np.full(self.program.width, np.nan)
        if status == STATUS.MaxTime:
            return Outcome.LIMIT, no_point, np.zeros(self.program.size)
        # Where Clarabel gives up, its multipliers may nevertheless prove that no point exists.
        ray = purified(self.program, case, duals)
        refuted = status in INFEASIBLE or self.program.refutes(case, ray[None, :])[0]
        return Outcome.INFEASIBLE if refuted else Outcome.NOTHING, no_point, ray

    @staticmethod
    def settings(effort: Effort, tolerance: float = 1e-10) -> Any:
        """Return settings of the library, for an answer and an objective of about 1."""
        out = clarabel.DefaultSettings()
        out.verbose, out.max_threads = False, 1
        out.tol_gap_rel = out.tol_feas = tolerance
        out.tol_gap_abs = min(1e-12, 0.1 * tolerance)
        if effort.seconds:
            out.time_limit = effort.seconds
        return out

    def run(
        self, case: Batch, effort: Effort, sizes: Sizes | None = None, model: Model | None = None,
        tolerance: float = 1e-10,
    ) -> Run:  # fmt: skip
        """Run Clarabel for one row, with these sizes, and a model in place of the log-loss."""
        conic = ConicProgram(self, case, sizes, model)
        hessian, linear = conic.objective()
        result = clarabel.DefaultSolver(
            hessian, linear, *conic.constraints(), self.settings(effort, tolerance)
        ).solve()
        point, duals = np.asarray(result.x), np.asarray(result.z)
        return result.status, conic.point(point), conic.multipliers(duals)

    def _solved_near_row(self, case: Batch, effort: Effort) -> Answer | None:
        """Solve by Newton's method from the row itself; None unless the optimum is close to it.

        A change so small is below the accuracy of an interior point.
        """
        x = np.clip(case.x, case.low, case.high)
        if self.program.violation(x, case.x)[0] > 0.0:
            return None
        # The row costs nothing, so only the loss has multipliers at first: its gradient.
        multipliers = np.zeros(self.program.size)
        multipliers[-self.loss.size :] = self._model(case, x[0]).shares
        if _gap(*self._value(case, x[0], multipliers)) > 1e-2:  # then cones do better
            return None
        point, multipliers = self._sharpened(case, effort, x[0], multipliers)
        settled = _gap(*self._value(case, point, multipliers)) <= TRACE
        return (Outcome.FOUND, point, multipliers) if settled else None

    def _solved_from_cheapest(self, case: Batch, effort: Effort) -> Answer | None:
        """Solve by Newton's method from the cheapest point; None if there is no such point.

        It is near the optimum where the loss is negligible beside the cost.
        """
        cheapest = Clarabel(relaxed(self.program, LogLoss)).solve(case, effort)
        if not cheapest.found[0]:
            return None
        shares = self._model(case, cheapest.points[0]).shares
        multipliers = np.append(cheapest.multipliers[0] * float(case.weights[0]), shares)
        return Outcome.FOUND, *self._sharpened(case, effort, cheapest.points[0], multipliers)

    def _is_start(self, case: Batch, point: FloatArray) -> bool:
        """Return whether a point of a rough solution misses no row by too much to start there."""
        affine = self.program.affine.tightened(case.margin)
        value = affine.matrix @ point - affine.of_change * (affine.matrix @ case.x[0])
        terms = 1.0 + np.abs(affine.matrix) @ np.abs(point)
        over = np.maximum(affine.low - value, value - affine.high)
        return bool((over <= 1e-5 * terms).all())

    def _sharpened(
        self, case: Batch, effort: Effort, point: FloatArray, multipliers: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Improve a point and multipliers by Newton's method; each step is a quadratic program.

        An exponential cone holds 1 − p and p to the same absolute accuracy, so its answer has few
        correct digits of a loss near 0. A quadratic model of the loss, with change and objective in
        units of their sizes at the point, has all.
        """
        value, bound = self._value(case, point, multipliers)
        for _ in range(12):  # each doubles the digits, once the point is near
            if _gap(value, bound) <= 1e-10:
                break
            sizes, model = self._sizes(case, point), self._model(case, point)
            status, model_optimum, duals = self.run(case, effort, sizes, model)
            if status not in self.USABLE:
                break
            # slopes beyond an absolute cost, by rounding, would ruin the bound
            duals = cost_limited(self.program, case, duals)
            gap = value - bound
            # the step is halved until the objective falls
            steps = (point + 0.5**k * (model_optimum - point) for k in range(20))
            candidate = next((y for y in steps if self._objective(case, y) < value), point)
            candidate_value, candidate_bound = self._value(case, candidate, duals)
            if candidate_value < value:
                point, value = candidate, candidate_value
            if candidate_bound > bound:
                multipliers, bound = duals, candidate_bound
            if not value - bound < gap:
                break
        return point, multipliers

    def _model(self, case: Batch, point: FloatArray) -> Model:
        """Return the log-loss to the second order about a point."""
        z = self.loss.matrix @ point + self.loss.offset
        shares = np.exp(z - self.loss.of(z[None, :])[0])
        return Model(shares, self.loss.matrix @ (point - case.x[0]))

    def _sizes(self, case: Batch, point: FloatArray) -> Sizes:
        """Return the sizes of the change to a point and of its objective."""
        size = float((np.abs(point - case.x[0]) / self.form.unit).max())
        objective = float(self.program.objective(point[None, :], case)[0])
        return max(size, 1e-12), max(objective, LEAST)

    def _value(
        self, case: Batch, point: FloatArray, multipliers: FloatArray
    ) -> tuple[float, float]:
        """Return the objective at a point, and the bound by multipliers."""
        bound = self.program.bound(case, multipliers[None, :], point[None, :])[0]
        return self._objective(case, point), float(bound)

    def _objective(self, case: Batch, point: FloatArray) -> float:
        """Return the objective at a point; infinite if it is no answer, however cheap it looks."""
        if self.program.violation(point[None, :], case.x)[0] > VIOLATION:
            return np.inf
        return float(self.program.objective(point[None, :], case)[0])

    def _sparse(self, case: Batch, point: FloatArray, effort: Effort) -> FloatArray:
        """Return the point without the traces that an interior point leaves on features that stay.

        Under an absolute cost most features do not move at the optimum. The program is solved
        again with those held that hardly moved, and that point is taken if it costs no more.
        """
        costs = self.program.encoded_cost.absolute * np.abs(point - case.x[0])
        traces = (costs > 0) & (costs <= TRACE * costs.sum())
        held = traces & (case.low[0] <= case.x[0]) & (case.x[0] <= case.high[0])
        if not held.any():
            return point
        low, high = (np.where(held, case.x, bound) for bound in (case.low, case.high))
        status, sparser, _ = self.run(replace(case, low=low, high=high), effort)
        if status not in self.SOLVED:
            return point
        before, after = (self.program.objective(y[None, :], case)[0] for y in (point, sparser))
        return sparser if after <= before * (1.0 + TRACE) else point


def _gap(value: float, bound: float) -> float:
    """Return the gap relative to the value; infinite without a value."""
    return (value - bound) / max(value, TINY) if value < np.inf else np.inf


@final
class Model(NamedTuple):
    """A log-loss to the second order about a point: a quadratic function of s = M (y − x)."""

    shares: FloatArray  # (m,) its gradient p at the point
    at: FloatArray  # (m,) s at the point

    def form(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return its quadratic (m, m) and linear (m,) parts about s = 0, for s in units (m,).

        The Hessian is H = diag(p) − ppᵀ, so the slope at 0 is p − H s.
        """
        curvature = np.diag(self.shares) - np.outer(self.shares, self.shares)
        slope = self.shares - curvature @ self.at
        return curvature * np.outer(unit, unit), slope * unit


@final
class ConicProgram:
    """The conic program of one row, built when it is made, and the way back from its duals.

    All changes are divided by ``scale``, about the size of the answer, and the objective by
    ``value``, about its size, so that tolerances mean the same for small and large answers. A
    ``model`` takes the place of the log-loss. Blocks of rows are appended one after the other; what
    each returns finds its duals again.
    """

    def __init__(
        self, solver: Clarabel, case: Batch, sizes: Sizes | None, model: Model | None
    ) -> None:
        self.solver, self.case, self.model = solver, case, model
        self.program, self.form = solver.program, solver.form
        self.scale, self.value = sizes or self._sizes()
        self.entries: list[Entries] = []
        self.rights: list[FloatArray] = []
        self.cones: list[Any] = []
        self.count, self.width = 0, self.program.width  # of rows and of variables
        low, high, row_low, row_high = (v[0] for v in self.form.limits(case, self.scale))
        self._add_between(low, high, _picked)
        self.absolute = np.flatnonzero(self.form.absolute)
        if len(self.absolute):  # each change and its negative are at most another variable
            both, signs = np.tile(self.absolute, 2), np.repeat([1.0, -1.0], len(self.absolute))
            bounds = _picked(np.tile(self._variables(len(self.absolute)), 2), -1.0)
            cones = [clarabel.NonnegativeConeT(len(both))]
            self._add(cones, np.zeros(len(both)), _picked(both, signs), bounds)
        matrix = self.form.matrix
        self.sides = self._add_between(
            row_low, row_high, lambda rows, signs: _entries_of(signs[:, None] * matrix[rows])
        )
        # for each condition, what reads its multipliers from the duals
        self.readers = [self._add_coupling(coupling) for coupling in self.program.couplings]

    def constraints(self) -> tuple[sparse.csc_matrix, FloatArray, list[Any]]:
        """Return matrix, right side and cones: right − matrix · variables lies in the cones."""
        matrix = _matrix(self.entries, (self.count, self.width))
        return matrix, np.concatenate(self.rights), self.cones

    def objective(self) -> tuple[sparse.csc_matrix, FloatArray]:
        """Return the upper triangle of P and q of the objective ½ vᵀPv + qᵀv of variables v.

        First of the variables are the changes, then come the sizes of those with an absolute cost;
        the last one is the value of the log-loss, or the last ones are the scores of its model.
        """
        d, hessian = self.program.width, self.form.hessian
        weight = float(self.case.weights[0]) if self.solver.has_loss else 1.0
        if hessian.ndim == 2:
            i, j, values = _entries_of(np.triu(hessian))
        else:
            i = j = np.flatnonzero(hessian)
            values = hessian[i]
        entries = [(i, j, values * (weight * self.scale**2 / self.value))]
        linear = np.zeros(self.width)
        costs = self.form.absolute[self.absolute]
        linear[d : d + len(costs)] = costs * (weight * self.scale / self.value)
        if self.model is not None:
            curvature, slope = self.model.form(self._score_unit)
            curvature, slope = curvature / self.value, slope / self.value
            first = self.width - len(slope)
            linear[first:] = slope
            i, j, values = _entries_of(np.triu(curvature))
            entries.append((i + first, j + first, values))
        elif self.solver.has_loss:
            linear[-1] = 1.0 / self.value
        return _matrix(entries, (self.width, self.width)), linear

    def point(self, variables: FloatArray) -> FloatArray:
        """Return the point (d,) that variables stand for."""
        change = variables[None, : self.program.width]
        return self.form.points(change, self.case, np.full(1, self.scale))[0]

    def multipliers(self, duals: FloatArray) -> FloatArray:
        """Return the program's multipliers (size,)."""
        first, rows, signs = self.sides
        of_rows = np.zeros((1, len(self.form.matrix)))
        np.add.at(of_rows[0], rows, signs * duals[first : first + len(rows)])
        out = self.form.multipliers(of_rows, self.scale)[0]
        of_couplings = [read(duals) for read in self.readers]
        out[self.program.affine.size :] = np.concatenate([*of_couplings, np.zeros(0)])
        return out * self.value

    @cached_property
    def _score_unit(self) -> FloatArray:
        """Units of the scores' changes in a model, (m,): the largest that one column makes."""
        return self.solver.steepest(self.solver.loss) * self.scale

    def _sizes(self) -> Sizes:
        """Return about the sizes of change and objective by which to scale, without an answer yet.

        The change is the least that may satisfy the condition that is missed most if nothing
        changes, or the least that may lower the log-loss to 0, if that is more.
        """
        x, limits, steepest = self.case.x, self.form.limits(self.case), self.solver.steepest
        shortfall = float(np.maximum(limits.row_low, -limits.row_high).max(initial=0.0))
        for coupling in self.program.couplings:
            if isinstance(coupling, Cone | LogSumExp):
                needed = float(coupling.excess(x)[0] / steepest(coupling).max())
                shortfall = max(shortfall, needed)
        change = shortfall if 0.0 < shortfall < np.inf else 1.0  # 1: it is not known
        if not self.solver.has_loss:
            return change, change**2 if self.program.encoded_cost.quadratic.any() else change
        loss = float(self.solver.loss.amount(x)[0])
        loss_change = min(max(loss, 1.0) / float(steepest(self.solver.loss).max()), 1e12)
        known_change = 0.0 if change == 1.0 else change
        return max(loss_change, known_change), max(loss, 1e-9)

    def _variables(self, count: int) -> IntArray:
        """Append variables; return their positions."""
        self.width += count
        return np.arange(self.width - count, self.width)

    def _add(self, cones: list[Any], right: FloatArray, *entries: Entries) -> int:
        """Append rows of cones; return the position of the first."""
        first = self.count
        self.entries += [(i + first, j, values) for i, j, values in entries]
        self.rights.append(right)
        self.cones += cones
        self.count += len(right)
        return first

    def _add_between(
        self, low: FloatArray, high: FloatArray, block: Callable[[IntArray, FloatArray], Entries]
    ) -> tuple[int, IntArray, FloatArray]:
        """Append low <= row k <= high as sides: sign · row k <= sign · bound, + for the upper one.

        Where both bounds are equal, the upper side is an equation. ``block`` makes the entries of
        sides from their rows and signs. Return the position of the first side, and the row and sign
        of each.
        """
        equal = low == high
        masks = equal, np.isfinite(high) & ~equal, np.isfinite(low) & ~equal
        rows = np.concatenate([np.flatnonzero(mask) for mask in masks])
        signs = np.repeat([1.0, 1.0, -1.0], [np.count_nonzero(mask) for mask in masks])
        count = int(equal.sum())
        cones = [clarabel.ZeroConeT(count)] if count else []
        cones += [clarabel.NonnegativeConeT(len(rows) - count)] if len(rows) > count else []
        right = np.where(signs > 0.0, high[rows], -low[rows])
        return self._add(cones, right, block(rows, signs)), rows, signs

    def _add_coupling(self, coupling: Coupling) -> Callable[[FloatArray], FloatArray]:
        """Append a condition; return what reads its multipliers from the duals."""
        if isinstance(coupling, Cone):
            return self._add_cone(coupling)
        x = self.case.x[0]
        if isinstance(coupling, LogSumExp):
            limit = coupling.limit - float(self.case.margin[0, 0])
            scores = coupling.matrix @ x + coupling.offset - limit
            first = self._add_exponentials(coupling.matrix, scores)
        else:
            loss = self.solver.loss
            if self.model is not None:
                return self._add_scores(loss)
            # scores are relative to the label's, whose own is 0 and comes last
            matrix = np.vstack([loss.matrix, np.zeros((1, self.program.width))])
            scores = np.append(loss.matrix @ x + loss.offset, 0.0)
            first = self._add_exponentials(matrix, scores, has_value=True)
        # the first of the three rows of each score's cone, which holds the score
        return lambda duals: np.maximum(-duals[first : first + 3 * coupling.size : 3], 0.0)

    def _add_cone(self, cone: Cone) -> Callable[[FloatArray], FloatArray]:
        """Append that (slope · y + radius, M y + c) is in the second-order cone."""
        x, size = self.case.x[0], self.solver.steepest(cone).max()
        radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
        block = -np.vstack([cone.slope, cone.matrix]) / size * self.form.unit
        right = np.append(cone.slope @ x + radius, cone.matrix @ x + cone.offset)
        right = right / (size * self.scale)
        first = self._add([clarabel.SecondOrderConeT(len(right))], right, _entries_of(block))
        head, tail = slice(first + 1, first + len(right)), slice(first, first + 1)
        return lambda duals: np.append(-duals[head], duals[tail])[: cone.size] / (size * self.scale)

    def _add_exponentials(
        self, matrix: FloatArray, scores: FloatArray, *, has_value: bool = False
    ) -> int:
        """Append log Σ exp(z) <= value for the m scores z = matrix · change + scores.

        The value is one more variable if ``has_value``, else 0. Each score has a share as another
        variable: exp(z − value) <= share, and the shares add up to at most 1. Return the position
        of the first row.
        """
        m = len(matrix)
        # the cone of a score has three rows, a = z − value, b = 1, c = share: b exp(a / b) <= c
        rows, shares = 3 * np.arange(m), self._variables(m)
        i, j, values = _entries_of(-matrix * self.scale * self.form.unit)
        right = np.stack([scores, np.ones(m), np.zeros(m)], axis=1).ravel()
        entries = [(3 * i, j, values), (rows + 2, shares, -np.ones(m))]
        if has_value:
            entries.append((rows, np.repeat(self._variables(1), m), np.ones(m)))
        first = self._add([clarabel.ExponentialConeT() for _ in range(m)], right, *entries)
        total = np.zeros(m, dtype=np.intp), shares, np.ones(m)
        self._add([clarabel.NonnegativeConeT(1)], np.ones(1), total)
        return first

    def _add_scores(self, loss: LogLoss) -> Callable[[FloatArray], FloatArray]:
        """Append the changes of a log-loss's scores as variables: a model is in terms of these."""
        m, unit = loss.size, self._score_unit
        block = _entries_of(loss.matrix * (self.scale / unit)[:, None] * self.form.unit)
        changes = _picked(self._variables(m), -1.0)
        first = self._add([clarabel.ZeroConeT(m)], np.zeros(m), block, changes)
        return lambda duals: np.maximum(duals[first : first + m] / unit, 0.0)


def _entries_of(block: FloatArray) -> Entries:
    """Return the entries of a matrix that are not 0."""
    i, j = np.nonzero(block)
    return i, j, block[i, j]


def _picked(columns: IntArray, value: FloatArray | float) -> Entries:
    """Return the entries of a matrix whose row k has one value, in column ``columns[k]``."""
    return np.arange(len(columns)), columns, np.full(len(columns), value)


def _matrix(entries: list[Entries], shape: tuple[int, int]) -> sparse.csc_matrix:
    """Return the matrix with these entries, none of them twice."""
    rows, columns, values = (np.concatenate(arrays) for arrays in zip(*entries, strict=True))
    return sparse.csc_matrix((values, (rows, columns)), shape=shape)
