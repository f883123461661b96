"""Solve for one softmax probability, traded off or demanded: closed forms and Newton, in batches.

With two classes, with p the label's probability, the log-loss has one multiplier, v = 1 − p at the
optimum: given v, the best change of each column is known, and the score z of the other class falls
as v grows. Under squared costs the columns that do not end at a bound give the equation v = 1 / (1
+ exp(αv + β)), whose root is known; which columns do is found by iteration. Under absolute costs
one column after the other is used up, in the order of score gained for a unit of cost, until the
next one costs more than it gains.

With more classes, or where the probability is demanded, the answer under a quadratic cost moves
within the span of the score rows: Newton's method in as many dimensions as there are classes, see
`counterpoint.models.softmax`. A row whose answer breaks a bound is solved again for the columns
that end within their bounds, until these stay the same; the few for which they do not are left to
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.models.softmax import Reduced, logistic_root, minimise, reach
from counterpoint.numerics import TINY, BoolArray, FloatArray
from counterpoint.problem.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import Box
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver


@final
@dataclass(frozen=True, eq=False)
class Logistic(Solver):
    """The log-loss of two classes over a box."""

    accepts: ClassVar[frozenset[type]] = frozenset({Manhattan, SquaredEuclidean, Box, LogLoss})
    accuracy: ClassVar[float] = 1e-12
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        encoded_cost = program.encoded_cost
        is_diagonal = encoded_cost.quadratic.ndim == 1
        is_one_kind = encoded_cost.absolute.all() or (is_diagonal and encoded_cost.quadratic.all())
        terms = program.couplings
        is_single = len(terms) == 1 and isinstance(terms[0], LogLoss) and terms[0].size == 1
        return program.condition_types <= cls.accepts and bool(is_one_kind) and is_single

    @cached_property
    def _score(self) -> tuple[FloatArray, float]:
        """Row and offset of the score of the other class, relative to the label's."""
        (loss,) = (c for c in self.program.couplings if isinstance(c, LogLoss))
        return loss.matrix[0], float(loss.offset[0])

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        row, offset = self._score
        score = cases.x @ row + offset
        meet = self._absolute if self.program.encoded_cost.absolute.any() else self._squared
        points, share = meet(cases, score)
        points[cases.empty] = np.nan
        outcomes = np.where(cases.empty, Outcome.INFEASIBLE, Outcome.FOUND).astype(np.int8)
        return Solution(points, share[:, None], outcomes, np.zeros(len(points)))

    def _squared(self, cases: Batch, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the optima (n, d) and v (n,) under a squared cost: δ = v direction / weight."""
        row, _ = self._score
        direction = -0.5 * row / self.program.encoded_cost.quadratic
        pull = -float(row @ direction)
        share = logistic_root(pull / cases.weights, -score)[0]
        if not cases.unbounded:
            share = self._within(direction, cases, score, share)
        points = np.multiply.outer(share / cases.weights, direction)
        points += cases.x
        if not cases.unbounded:
            np.minimum(np.maximum(points, cases.low), cases.high, out=points)
        return points, share

    def _within(
        self, direction: FloatArray, cases: Batch, score: FloatArray, share: FloatArray
    ) -> FloatArray:
        """Return v (n,) with bounds, starting from ``share`` (n,), the v without.

        For the columns that are within their bounds at a try of v, the equation has a root; if the
        same columns are within their bounds there, it is v. The root falls as the try grows, so
        each try also bounds v from one side; a root beyond the bounds is replaced by their middle.
        """
        row, _ = self._score
        rates, low, high = -row * direction, cases.low - cases.x, cases.high - cases.x
        least, most = np.zeros(len(share)), np.ones(len(share))
        unsolved = np.flatnonzero(~cases.empty)
        for _ in range(100):  # some 5 do
            if not len(unsolved):
                break
            weight = cases.weights[unsolved]
            move = (share[unsolved] / weight)[:, None] * direction
            change = np.minimum(np.maximum(move, low[unsolved]), high[unsolved])
            free = change == move
            pull = free @ rates
            bounded_score = score[unsolved] + np.where(free, 0.0, change) @ row
            root = logistic_root(pull / weight, -bounded_score)[0]
            tried = share[unsolved]
            least[unsolved] = np.where(root >= tried, tried, least[unsolved])
            most[unsolved] = np.where(root <= tried, tried, most[unsolved])
            inside = (root >= least[unsolved]) & (root <= most[unsolved])
            middle = np.sqrt(np.maximum(least[unsolved], TINY) * most[unsolved])
            share[unsolved] = np.where(inside, root, middle)
            unsolved = unsolved[np.abs(share[unsolved] - tried) > 1e-16 * tried]
        return share

    def _absolute(self, cases: Batch, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the optima (n, d) and v (n,) under an absolute cost; ``score`` (n,) is the rows'.

        The score is that of the other class, and v = 1 / (1 + exp(−score)) its probability, which
        is what a unit less of score takes off the loss. So a column is moved, in the direction in
        which the score falls, while weight · cost / gain < v, that is, while the score is above the
        logit of that, its floor.
        """
        (row, offset), unit_cost = self._score, self.program.encoded_cost.absolute
        start = np.minimum(np.maximum(cases.x, cases.low), cases.high)
        useful = np.flatnonzero(row)
        order = useful[np.argsort(unit_cost[useful] / np.abs(row[useful]), kind="stable")]
        gain = np.abs(row[order])  # of score by a unit of change, cheapest score first
        up, down = cases.high[:, order] - start[:, order], start[:, order] - cases.low[:, order]
        room = np.where(row[order] < 0.0, up, down)
        # (n, columns) the score before each column is moved, once all before it are used up
        used_up = np.cumsum(gain * room, axis=1)
        used_up = np.hstack([np.zeros((len(room), 1)), used_up[:, :-1]])
        before = (score + (start - cases.x) @ row)[:, None] - used_up
        price = np.multiply.outer(cases.weights, unit_cost[order] / gain)
        with np.errstate(divide="ignore", invalid="ignore"):
            floor = np.where(price < 1.0, np.log(price) - np.log1p(-price), np.inf)
            amount = np.minimum(np.maximum((before - floor) / gain, 0.0), room)
        points = np.array(start)
        points[:, order] -= np.sign(row[order]) * amount
        with np.errstate(over="ignore"):
            return points, 1.0 / (1.0 + np.exp(-(points @ row + offset)))


@final
@dataclass(frozen=True, eq=False)
class Newton(Solver):
    """One softmax probability, traded off or demanded, under a quadratic cost."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {SquaredEuclidean, Mahalanobis, Box, LogLoss, LogSumExp}
    )
    accuracy: ClassVar[float] = 1e-10
    complete: ClassVar[bool] = False
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        quadratic = len(program.couplings) == 1 and not program.encoded_cost.absolute.any()
        return program.condition_types <= cls.accepts and quadratic

    @cached_property
    def _condition(self) -> LogLoss | LogSumExp:
        condition = self.program.couplings[0]
        assert isinstance(condition, LogLoss | LogSumExp)  # noqa: S101 (what `takes` made sure of)
        return condition

    @cached_property
    def _free(self) -> BoolArray:
        box = self.program.domain.box
        return np.asarray((box.least < 0.0) | (box.most > 0.0))

    @cached_property
    def _directions(self) -> FloatArray:
        """The rows times the inverse of the quadratic cost, (m, d); 0 in immutable columns."""
        matrix, quadratic = self._condition.matrix, self.program.encoded_cost.quadratic
        if quadratic.ndim == 1:
            return np.where(self._free, matrix / quadratic, 0.0)
        free = self._free
        directions = np.zeros(matrix.shape)
        directions[:, free] = np.linalg.solve(quadratic[np.ix_(free, free)], matrix[:, free].T).T
        return directions

    @cached_property
    def _gram(self) -> FloatArray:
        """Products of the rows in the metric of the cost, (m + 1, m + 1); the label's are 0."""
        m = self._condition.size
        gram = np.zeros((m + 1, m + 1))
        gram[:m, :m] = self._directions @ self._condition.matrix.T
        return 0.5 * (gram + gram.T)

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = self._unbounded(cases)
        outside = np.flatnonzero(~self._is_inside(out.points, cases))
        out.points[outside] = np.nan
        if self.program.encoded_cost.quadratic.ndim == 1 and not cases.unbounded:
            for i in outside[~cases.empty[outside]].tolist():
                self._within(cases.take(slice(i, i + 1)), out, i)
        out.outcomes[out.found] = Outcome.FOUND
        unsolved = np.flatnonzero(~out.found)
        if len(unsolved):
            refuted = self.program.refutes(cases.take(unsolved), out.multipliers[unsolved])
            out.outcomes[unsolved[refuted]] = Outcome.INFEASIBLE
        return out

    @staticmethod
    def _is_inside(points: FloatArray, cases: Batch) -> BoolArray:
        """Return whether points keep the bounds, (n,); NaN does not."""
        if cases.unbounded:
            return ~np.isnan(points[:, 0])
        return np.asarray(((points >= cases.low) & (points <= cases.high)).all(axis=1))

    def _unbounded(self, cases: Batch) -> Solution:
        """Solve as if only immutable columns were bounded."""
        condition, x = self._condition, cases.x
        scores = np.zeros((len(x), condition.size + 1))
        np.matmul(x, condition.matrix.T, out=scores[:, :-1])
        scores[:, :-1] += condition.offset
        reduced = self._reduced(scores, self._gram, cases)
        points = self._moved(x, reduced)
        if not isinstance(condition, LogLoss):  # a loss judges any point by its bound
            points[~reduced.settled] = np.nan
        outcomes = np.full(len(x), Outcome.NOTHING, dtype=np.int8)
        multipliers = self._multipliers(reduced)
        return Solution(points, multipliers, outcomes, np.zeros(len(x)))

    def _reduced(
        self,
        scores: FloatArray,
        gram: FloatArray,
        cases: Batch,
        shares: FloatArray | None = None,
    ) -> Reduced:
        """Return the solution in as many dimensions as there are classes.

        ``scores`` (n, m + 1) are those at x, the label's last; ``shares`` are a start.
        """
        condition = self._condition
        if isinstance(condition, LogLoss):
            return minimise(scores, gram, condition.size, 2.0 * cases.weights, shares=shares)
        return reach(scores, gram, condition.size, cases.margin[:, 0] - condition.limit)

    def _multipliers(self, reduced: Reduced) -> FloatArray:
        """Return multipliers (n, m): the shares of the classes; for a demand, times its own.

        Where no point meets the demand, shares alone may refute it.
        """
        shares = reduced.shares[:, :-1]
        if isinstance(self._condition, LogLoss):
            return shares
        is_met = reduced.settled & (reduced.weight > 0.0)
        return shares * np.where(is_met, 2.0 / reduced.weight, 1.0)[:, None]

    def _within(self, case: Batch, out: Solution, i: int) -> None:
        """Solve one row with bounds, and write it into row i of the solution if that succeeds.

        The columns that end at a bound are held there, and the others solved for, until twice the
        same columns end at the same bounds; then that is the optimum.
        """
        condition, directions, x = self._condition, self._directions, case.x[0]
        low, high = case.low[0] - x, case.high[0] - x
        scores_at_x = condition.matrix @ x + condition.offset
        gram = np.zeros_like(self._gram)
        change = np.clip(np.nan_to_num(out.points[i] - x), low, high)
        free = (low < change) & (change < high)
        # (d,) −1 for a column that ends at its lower bound, 1 at its upper one, 0 between them
        sides = np.sign(change - low) + np.sign(change - high)
        scores, shares = np.zeros((2, 1, len(gram)))
        shares[0, :-1] = out.multipliers[i]  # those without bounds, which are near
        for _ in range(40):  # some 5 do
            gram[:-1, :-1] = directions[:, free] @ condition.matrix[:, free].T
            scores[0, :-1] = scores_at_x + condition.matrix @ np.where(free, 0.0, change)
            reduced = self._reduced(scores, gram, case, shares)
            shares = reduced.shares
            if not isinstance(condition, LogLoss) and not reduced.settled[0]:
                return
            # At the optimum G (λ u − shares) = 0. This solution u says also how far the columns
            # that are held would move; `coefficients` speak of the free ones.
            u = reduced.shares[0, :-1] / reduced.weight[0]
            change = np.minimum(np.maximum(-u @ directions, low), high)
            free = (low < change) & (change < high)
            previous, sides = sides, np.sign(change - low) + np.sign(change - high)
            if (sides == previous).all():
                out.points[i] = np.clip(x + change, case.low[0], case.high[0])
                out.multipliers[i] = self._multipliers(reduced)[0]
                return

    def _moved(self, x: FloatArray, reduced: Reduced) -> FloatArray:
        """Return the points x − Q⁻¹Aᵀu (n, d), with Q the cost, A the rows, u the coefficients."""
        points = reduced.coefficients[:, :-1] @ self._directions
        return np.subtract(x, points, out=points)
