"""Clarabel: any convex program here, cones and log-sum-exp included.

The variables of a conic program are the change of each column; for each absolute cost a bound on
the size of a change; for each log-sum-exp a share for each of its terms; for a log-loss its value
besides. Interior-point answers are followed by their multipliers, from which the program recomputes
its bound; and, where features ought to stay, by a second run that holds them still.
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

from counterpoint.numerics import LEAST, TINY, FloatArray, IntArray
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
"""Clarabel's status, its point, and the multipliers."""
Sizes = tuple[float, float]
"""Of an answer, in units of change, and of its objective: what Clarabel's tolerances are of."""
Entries = tuple[IntArray, IntArray, FloatArray]
"""Rows, columns and values of a sparse matrix."""

STATUS = clarabel.SolverStatus
TRACE = 1e-7
"""A share of the cost that is noise of the interior point."""
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
        """(size,) the largest entry of what each multiplier weighs, in units of change; or 1."""
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
        """One row; a few columns at a time if there are very many."""
        if not is_wide(self.program):
            return self._solved_whole(case, effort)
        end = np.inf if effort.seconds is None else perf_counter() + effort.seconds

        def narrow(program: Program, case: Batch) -> Answer:
            return Clarabel(program)._solved_whole(case, effort.until(end))  # noqa: SLF001 (its own)

        return by_columns(self.program, case, narrow)

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
        """What Clarabel says of one row, if need be in other units, or with a model of the loss."""
        conic = ConicProgram(self, case, sizes, model)
        hessian, linear = conic.objective()
        result = clarabel.DefaultSolver(
            hessian, linear, *conic.constraints(), self.settings(effort, tolerance)
        ).solve()
        point, duals = np.asarray(result.x), np.asarray(result.z)
        return result.status, conic.point(point), conic.multipliers(duals)

    def _solved_near_row(self, case: Batch, effort: Effort) -> Answer | None:
        """Solve by Newton's method from the row itself; None unless the optimum is close to it.

        So small a change is below the accuracy of an interior point.
        """
        x = np.clip(case.x, case.low, case.high)
        if self.program.violation(x, case.x)[0] > 0.0:
            return None
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
        """Improve a point and multipliers by Newton's method; a step is a quadratic program.

        It is in units of the answer. An exponential cone holds 1 − p and p alike, so a probability
        near 1 leaves it few digits of the loss; the model of the loss has them all.
        """
        value, bound = self._value(case, point, multipliers)
        for _ in range(12):  # each doubles the digits, once the point is near
            if _gap(value, bound) <= 1e-10:
                break
            about = self._sizes(case, point), self._model(case, point)
            status, goal, duals = self.run(case, effort, *about)
            if status not in self.USABLE:
                break
            duals = cost_limited(self.program, case, duals)
            gap = value - bound
            # the step is halved until the objective falls
            halved = (point + 0.5**k * (goal - point) for k in range(20))
            candidate = next((y for y in halved if self._reached(case, y) < value), point)
            reached, proved = self._value(case, candidate, duals)
            if reached < value:
                point, value = candidate, reached
            if proved > bound:
                multipliers, bound = duals, proved
            if not value - bound < gap:
                break
        return point, multipliers

    def _model(self, case: Batch, point: FloatArray) -> Model:
        """The log-loss about a point."""
        z = self.loss.matrix @ point + self.loss.offset
        shares = np.exp(z - self.loss.of(z[None, :])[0])
        return Model(shares, self.loss.matrix @ (point - case.x[0]))

    def _sizes(self, case: Batch, point: FloatArray) -> Sizes:
        """About how large the change is, in units of change, and the objective."""
        size = float((np.abs(point - case.x[0]) / self.form.unit).max())
        cost_cutoff = float(self.program.objective(point[None, :], case)[0])
        return max(size, 1e-12), max(cost_cutoff, LEAST)

    def _value(
        self, case: Batch, point: FloatArray, multipliers: FloatArray
    ) -> tuple[float, float]:
        """The objective at a point, and the bound by multipliers."""
        bound = self.program.bound(case, multipliers[None, :], point[None, :])[0]
        return self._reached(case, point), float(bound)

    def _reached(self, case: Batch, point: FloatArray) -> float:
        """The objective at a point; infinite where it is no answer, however cheap it looks."""
        if self.program.violation(point[None, :], case.x)[0] > 1e-8:  # what answers may miss
            return np.inf
        return float(self.program.objective(point[None, :], case)[0])

    def _sparse(self, case: Batch, point: FloatArray, effort: Effort) -> FloatArray:
        """The point without the traces that an interior point leaves on features that stay.

        Under an absolute cost most features do not move at the optimum. The program is solved
        again with the ones that hardly moved held still, if that costs no more.
        """
        paid = self.program.encoded_cost.absolute * np.abs(point - case.x[0])
        traces = (paid > 0) & (paid <= TRACE * paid.sum())
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
    """Relative; infinite without a value."""
    return (value - bound) / max(value, TINY) if value < np.inf else np.inf


@final
class Model(NamedTuple):
    """A log-loss to the second order about a point: a quadratic function of s = M (y − x)."""

    shares: FloatArray  # (m,) its gradient p there
    at: FloatArray  # (m,) s there

    def form(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(m, m) and (m,) its quadratic and linear parts about s = 0, for s in some units."""
        curvature = np.diag(self.shares) - np.outer(self.shares, self.shares)
        slope = self.shares - curvature @ self.at
        return curvature * np.outer(unit, unit), slope * unit


@final
class ConicProgram:
    """The conic program of one row, and the way back from its duals.

    All changes are divided by ``scale``, about the size of the answer, and the objective by
    ``cost_cutoff``, about its cost, so that tolerances mean the same for small and large answers.
    With a ``model``, that stands for the log-loss.
    """

    def __init__(
        self, owner: Clarabel, case: Batch, sizes: Sizes | None, model: Model | None
    ) -> None:
        self.owner, self.case, self.model = owner, case, model
        self.program, self.form = owner.program, owner.form
        self.scale, self.cost_cutoff = sizes or self._sizes()
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
        """Matrix, right side and cones: right − matrix · variables is in the cones."""
        matrix = _matrix(self.entries, (self.count, self.width))
        return matrix, np.concatenate(self.rights), self.cones

    def objective(self) -> tuple[sparse.csc_matrix, FloatArray]:
        """Half a quadratic form (its upper triangle) and a linear one."""
        d, hessian = self.program.width, self.form.hessian
        weight = float(self.case.weights[0]) if self.owner.has_loss else 1.0
        if hessian.ndim == 2:
            i, j, values = _entries_of(np.triu(hessian))
        else:
            i = j = np.flatnonzero(hessian)
            values = hessian[i]
        entries = [(i, j, values * (weight * self.scale**2 / self.cost_cutoff))]
        linear = np.zeros(self.width)
        costs = self.form.absolute[self.absolute]
        linear[d : d + len(costs)] = costs * (weight * self.scale / self.cost_cutoff)
        if self.model is not None:
            curvature, slope = self.model.form(self._score_unit)
            curvature, slope = curvature / self.cost_cutoff, slope / self.cost_cutoff
            first = self.width - len(slope)
            linear[first:] = slope
            i, j, values = _entries_of(np.triu(curvature))
            entries.append((i + first, j + first, values))
        elif self.owner.has_loss:
            linear[-1] = 1.0 / self.cost_cutoff
        return _matrix(entries, (self.width, self.width)), linear

    def point(self, variables: FloatArray) -> FloatArray:
        """(d,) the point that variables stand for."""
        change = variables[None, : self.program.width]
        return self.form.points(change, self.case, np.full(1, self.scale))[0]

    def multipliers(self, duals: FloatArray) -> FloatArray:
        """(size,) the program's multipliers."""
        first, rows, signs = self.sides
        of_rows = np.zeros((1, len(self.form.matrix)))
        np.add.at(of_rows[0], rows, signs * duals[first : first + len(rows)])
        out = self.form.multipliers(of_rows, self.scale)[0]
        of_couplings = [read(duals) for read in self.readers]
        out[self.program.affine.size :] = np.concatenate([*of_couplings, np.zeros(0)])
        return out * self.cost_cutoff

    @cached_property
    def _score_unit(self) -> FloatArray:
        """(m,) how far the scores of a model may move: the largest entries of its rows."""
        return self.owner.steepest(self.owner.loss) * self.scale

    def _sizes(self) -> Sizes:
        """About the size of the answer, in units of change, and about its objective.

        The size is what the worst condition is missed by if nothing changes.
        """
        x, limits, steepest = self.case.x, self.form.limits(self.case), self.owner.steepest
        worst = float(np.maximum(limits.row_low, -limits.row_high).max(initial=0.0))
        for coupling in self.program.couplings:
            if isinstance(coupling, Cone | LogSumExp):
                worst = max(worst, float(coupling.excess(x)[0] / steepest(coupling).max()))
        scale = worst if 0.0 < worst < np.inf else 1.0
        if not self.owner.has_loss:
            return scale, scale**2 if self.program.encoded_cost.quadratic.any() else scale
        amount = float(self.owner.loss.amount(x)[0])
        reach = max(amount, 1.0) / float(steepest(self.owner.loss).max())
        return max(min(reach, 1e12), scale if scale != 1.0 else 0.0), max(amount, 1e-9)

    def _variables(self, count: int) -> IntArray:
        """Positions of so many further variables."""
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
        """Append low <= rows <= high, given the entries of rows times signs.

        Return the position of the first side, and the row and sign of each.
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
            loss = self.owner.loss
            if self.model is not None:
                return self._add_scores(loss)
            matrix = np.vstack([loss.matrix, np.zeros((1, self.program.width))])
            scores = np.append(loss.matrix @ x + loss.offset, 0.0)
            first = self._add_exponentials(matrix, scores, is_above=True)
        return lambda duals: np.maximum(-duals[first : first + 3 * coupling.size : 3], 0.0)

    def _add_cone(self, cone: Cone) -> Callable[[FloatArray], FloatArray]:
        """(slope · y + radius, M y + c) in the second-order cone."""
        x, size = self.case.x[0], self.owner.steepest(cone).max()
        radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
        block = -np.vstack([cone.slope, cone.matrix]) / size * self.form.unit
        right = np.append(cone.slope @ x + radius, cone.matrix @ x + cone.offset)
        right = right / (size * self.scale)
        first = self._add([clarabel.SecondOrderConeT(len(right))], right, _entries_of(block))
        head, tail = slice(first + 1, first + len(right)), slice(first, first + 1)
        return lambda duals: np.append(-duals[head], duals[tail])[: cone.size] / (size * self.scale)

    def _add_exponentials(
        self, matrix: FloatArray, scores: FloatArray, *, is_above: bool = False
    ) -> int:
        """exp(matrix · change + scores − value) <= shares that add up to 1 at most.

        The value is one more variable, which ``is_above`` a log-loss; else it is 0.
        """
        m = len(matrix)
        rows, shares = 3 * np.arange(m), self._variables(m)
        i, j, values = _entries_of(-matrix * self.scale * self.form.unit)
        right = np.stack([scores, np.ones(m), np.zeros(m)], axis=1).ravel()
        entries = [(3 * i, j, values), (rows + 2, shares, -np.ones(m))]
        if is_above:
            entries.append((rows, np.repeat(self._variables(1), m), np.ones(m)))
        first = self._add([clarabel.ExponentialConeT() for _ in range(m)], right, *entries)
        total = np.zeros(m, dtype=np.intp), shares, np.ones(m)
        self._add([clarabel.NonnegativeConeT(1)], np.ones(1), total)
        return first

    def _add_scores(self, loss: LogLoss) -> Callable[[FloatArray], FloatArray]:
        """Append the changes of a log-loss's scores, as the last variables."""
        m, unit = loss.size, self._score_unit
        block = _entries_of(loss.matrix * (self.scale / unit)[:, None] * self.form.unit)
        changes = _picked(self._variables(m), -1.0)
        first = self._add([clarabel.ZeroConeT(m)], np.zeros(m), block, changes)
        return lambda duals: np.maximum(duals[first : first + m] / unit, 0.0)


def _entries_of(block: FloatArray) -> Entries:
    """The entries of a matrix that are not 0."""
    i, j = np.nonzero(block)
    return i, j, block[i, j]


def _picked(columns: IntArray, value: FloatArray | float) -> Entries:
    """One column a row."""
    return np.arange(len(columns)), columns, np.full(len(columns), value)


def _matrix(entries: list[Entries], shape: tuple[int, int]) -> sparse.csc_matrix:
    """The matrix with these entries, none of them twice."""
    rows, columns, values = (np.concatenate(arrays) for arrays in zip(*entries, strict=True))
    return sparse.csc_matrix((values, (rows, columns)), shape=shape)
