"""One softmax probability, traded off or demanded, for whole batches: closed forms and Newton.

With two classes all that a log-loss says to the columns is one number, v = 1 − p at the optimum:
each column then settles by itself, and the score z falls as v grows. Under squared costs the
columns that do not end at a bound give the equation v = 1 / (1 + exp(αv + β)), whose root is known;
which do is found by trying. Under absolute costs one column after the other is used up, in the
order of score gained for a unit of cost, until the next one is not worth its cost.

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
        alike = bool(
            encoded_cost.absolute.all()
            or (encoded_cost.quadratic.ndim == 1 and encoded_cost.quadratic.all())
        )
        terms = program.couplings
        alone = len(terms) == 1 and isinstance(terms[0], LogLoss) and terms[0].size == 1
        return program.condition_types <= cls.accepts and alike and alone

    @cached_property
    def _score(self) -> tuple[FloatArray, float]:
        """Row and offset of the only score."""
        (loss,) = (c for c in self.program.couplings if isinstance(c, LogLoss))
        return loss.matrix[0], float(loss.offset[0])

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        row, offset = self._score
        score = cases.x @ row + offset
        meet = self._absolute if self.program.encoded_cost.absolute.any() else self._squared
        points, share = meet(cases, score)
        empty = cases.empty
        points[empty] = np.nan
        outcomes = np.where(empty, Outcome.INFEASIBLE, Outcome.FOUND).astype(np.int8)
        return Solution(points, share[:, None], outcomes, np.zeros(len(points)))

    def _squared(self, cases: Batch, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, d) points and (n,) v under a squared cost."""
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
        """(n,) v with bounds: exact for the columns that are free, until these stay the same.

        What v would have to be falls as v grows, so each try also narrows where v is.
        """
        row, _ = self._score
        rates, low, high = -row * direction, cases.low - cases.x, cases.high - cases.x
        least, most = np.zeros(len(share)), np.ones(len(share))
        open_ = np.flatnonzero(~cases.empty)
        for _ in range(100):  # each halves where v is at least
            if not len(open_):
                break
            weight = cases.weights[open_]
            move = (share[open_] / weight)[:, None] * direction
            held = np.minimum(np.maximum(move, low[open_]), high[open_])
            free = held == move
            pull = free @ rates
            level = score[open_] + np.where(free, 0.0, held) @ row
            root = logistic_root(pull / weight, -level)[0]
            before = share[open_]
            least[open_] = np.where(root >= before, before, least[open_])
            most[open_] = np.where(root <= before, before, most[open_])
            inside = (root >= least[open_]) & (root <= most[open_])
            middle = np.sqrt(np.maximum(least[open_], TINY) * most[open_])
            share[open_] = np.where(inside, root, middle)
            open_ = open_[np.abs(share[open_] - before) > 1e-16 * before]
        return share

    def _absolute(self, cases: Batch, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, d) points and (n,) v under an absolute cost."""
        (row, offset), encoded_cost = self._score, self.program.encoded_cost.absolute
        start = np.minimum(np.maximum(cases.x, cases.low), cases.high)
        used = np.flatnonzero(row)
        order = used[np.argsort(encoded_cost[used] / np.abs(row[used]), kind="stable")]
        gain = np.abs(row[order])
        up, down = cases.high[:, order] - start[:, order], start[:, order] - cases.low[:, order]
        room = np.where(row[order] < 0.0, up, down)
        before = (score + (start - cases.x) @ row)[:, None] - _sums_before(gain * room)
        cost_cutoff = np.multiply.outer(cases.weights, encoded_cost[order] / gain)
        with np.errstate(divide="ignore", invalid="ignore"):
            floor = np.where(
                cost_cutoff < 1.0, np.log(cost_cutoff) - np.log1p(-cost_cutoff), np.inf
            )
            amount = np.minimum(np.maximum((before - floor) / gain, 0.0), room)
        points = np.array(start)
        points[:, order] -= np.sign(row[order]) * amount
        last = points @ row + offset
        with np.errstate(over="ignore"):
            return points, 1.0 / (1.0 + np.exp(-last))


def _sums_before(values: FloatArray) -> FloatArray:
    sums = np.cumsum(values, axis=1)
    return np.hstack([np.zeros((len(values), 1)), sums[:, :-1]])


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
        """(m, d) the rows times the inverse of the cost: 0 in columns that may not change."""
        matrix, quadratic = self._condition.matrix, self.program.encoded_cost.quadratic
        if quadratic.ndim == 1:
            return np.where(self._free, matrix / quadratic, 0.0)
        free = self._free
        directions = np.zeros(matrix.shape)
        directions[:, free] = np.linalg.solve(quadratic[np.ix_(free, free)], matrix[:, free].T).T
        return directions

    @cached_property
    def _gram(self) -> FloatArray:
        """(m + 1, m + 1) products of the rows in the metric of the cost; the label is last, 0."""
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
        """(n,): whether points keep the bounds; not where there is none."""
        if cases.unbounded:
            return ~np.isnan(points[:, 0])
        return np.asarray(((points >= cases.low) & (points <= cases.high)).all(axis=1))

    def _unbounded(self, cases: Batch) -> Solution:
        """As if only immutable columns were bounded."""
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
        """The solution in as many dimensions as there are classes."""
        condition = self._condition
        if isinstance(condition, LogLoss):
            return minimise(scores, gram, condition.size, 2.0 * cases.weights, shares=shares)
        return reach(scores, gram, condition.size, cases.margin[:, 0] - condition.limit)

    def _multipliers(self, reduced: Reduced) -> FloatArray:
        """(n, m) shares; for a demand times its multiplier."""
        shares = reduced.shares[:, :-1]
        if isinstance(self._condition, LogLoss):
            return shares
        weighed = reduced.settled & (reduced.weight > 0.0)
        return shares * np.where(weighed, 2.0 / reduced.weight, 1.0)[:, None]  # or they may refute

    def _within(self, case: Batch, out: Solution, i: int) -> None:
        """One row with bounds: exact for the columns that are free, until these stay the same."""
        condition, directions, x = self._condition, self._directions, case.x[0]
        low, high = case.low[0] - x, case.high[0] - x
        start = condition.matrix @ x + condition.offset
        gram = np.zeros_like(self._gram)
        change = np.clip(np.nan_to_num(out.points[i] - x), low, high)
        free = (low < change) & (change < high)
        sides = np.sign(change - low) + np.sign(change - high)  # 0 between bounds
        scores, shares = np.zeros((2, 1, len(gram)))
        shares[0, :-1] = out.multipliers[i]  # those without bounds are near
        for _ in range(40):  # some 5 do
            gram[:-1, :-1] = directions[:, free] @ condition.matrix[:, free].T
            scores[0, :-1] = start + condition.matrix @ np.where(free, 0.0, change)
            reduced = self._reduced(scores, gram, case, shares)
            shares = reduced.shares
            if not isinstance(condition, LogLoss) and not reduced.settled[0]:
                return
            u = reduced.shares[0, :-1] / reduced.weight[0]  # at the optimum, if G allows
            change = np.minimum(np.maximum(-u @ directions, low), high)
            free = (low < change) & (change < high)
            before, sides = sides, np.sign(change - low) + np.sign(change - high)
            if (sides == before).all():
                out.points[i] = np.clip(x + change, case.low[0], case.high[0])
                out.multipliers[i] = self._multipliers(reduced)[0]
                return

    def _moved(self, x: FloatArray, reduced: Reduced) -> FloatArray:
        """(n, d) x − P⁻¹Aᵀu."""
        points = reduced.coefficients[:, :-1] @ self._directions
        return np.subtract(x, points, out=points)
