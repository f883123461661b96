"""Logistic regression weighed against the cost, in closed form for whole batches, bounds included.

With two classes all that the charge says to the columns is one number, v = 1 − p at the optimum:
each column then settles by itself, and the score z falls as v grows. Under squared prices the
columns that do not end at a bound give the equation v = 1 / (1 + exp(αv + β)), whose root is known;
which do is found by trying. Under absolute prices one column after the other is used up, in the
order of score gained for a unit of cost, until the next one is not worth its price.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.costs import Manhattan, SquaredEuclidean
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import LogLoss
from counterpoint.engine.domains import Box
from counterpoint.engine.program import Program
from counterpoint.models.softmax import logistic_root
from counterpoint.numerics import FloatArray
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver

__all__ = ["Logistic"]


TRIES = 100


@final
class Logistic(Solver):
    """The log-loss of two classes over a box."""

    accepts: ClassVar[frozenset[type]] = frozenset({Manhattan, SquaredEuclidean, Box, LogLoss})
    accuracy: ClassVar[float] = 1e-12
    batched: ClassVar[bool] = True

    def takes(self, program: Program) -> bool:
        price = program.price
        alike = bool(price.absolute.all() or (price.quadratic.ndim == 1 and price.quadratic.all()))
        one = len(program.charges) == 1 and program.charges[0].size == 1
        return program.kinds <= self.accepts and alike and one

    def prepare(self, program: Program) -> Logistics:
        return Logistics(program)


@final
@dataclass(frozen=True, eq=False)
class Logistics(Prepared):
    """A program whose charge is log(1 + exp(m · y + c))."""

    program: Program

    @cached_property
    def _charge(self) -> LogLoss:
        return self.program.charges[0]

    @property
    def _row(self) -> FloatArray:
        """(d,) m."""
        return np.asarray(self._charge.matrix[0])

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        score = cases.x @ self._row + self._charge.offset[0]
        meet = self._absolute if self.program.price.absolute.any() else self._squared
        points, share = meet(cases, score)
        empty = cases.empty
        points[empty] = np.nan
        outcomes = np.where(empty, Outcome.INFEASIBLE, Outcome.FOUND).astype(np.int8)
        return Solution(points, share[:, None], outcomes, np.zeros(len(points)))

    def _squared(self, cases: Cases, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, d) points and (n,) v under a squared price."""
        direction = -0.5 * self._row / self.program.price.quadratic
        pull = -float(self._row @ direction)
        share = logistic_root(pull / cases.weights, -score)[0]
        if not cases.unbounded:
            share = self._within(direction, cases, score, share)
        points = np.multiply.outer(share / cases.weights, direction)
        points += cases.x
        if not cases.unbounded:
            np.minimum(np.maximum(points, cases.low), cases.high, out=points)
        return points, share

    def _within(
        self, direction: FloatArray, cases: Cases, score: FloatArray, share: FloatArray
    ) -> FloatArray:
        """(n,) v with bounds: exact for the columns that are free, until these stay the same.

        What v would have to be falls as v grows, so each try also narrows where v is.
        """
        row, rates = self._row, -self._row * direction
        low, high = cases.low - cases.x, cases.high - cases.x
        least, most = np.zeros(len(share)), np.ones(len(share))
        open_ = np.flatnonzero(~cases.empty)
        for _ in range(TRIES):
            if not len(open_):
                break
            weight = cases.weights[open_]
            move = (share[open_] / weight)[:, None] * direction
            held = np.minimum(np.maximum(move, low[open_]), high[open_])
            free = held == move
            pull = free @ rates
            level = score[open_] + np.where(free, 0.0, held) @ row
            root = logistic_root(pull / weight, -level)[0]
            here = share[open_]
            least[open_] = np.where(root >= here, here, least[open_])
            most[open_] = np.where(root <= here, here, most[open_])
            inside = (root >= least[open_]) & (root <= most[open_])
            middle = np.sqrt(np.maximum(least[open_], 1e-300) * most[open_])
            share[open_] = np.where(inside, root, middle)
            open_ = open_[np.abs(share[open_] - here) > 1e-16 * here]
        return share

    def _absolute(self, cases: Cases, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, d) points and (n,) v under an absolute price."""
        row, price = self._row, self.program.price.absolute
        start = np.minimum(np.maximum(cases.x, cases.low), cases.high)
        used = np.flatnonzero(row)
        order = used[np.argsort(price[used] / np.abs(row[used]), kind="stable")]
        gain = np.abs(row[order])
        up, down = cases.high[:, order] - start[:, order], start[:, order] - cases.low[:, order]
        room = np.where(row[order] < 0.0, up, down)
        before = (score + (start - cases.x) @ row)[:, None] - _sums_before(gain * room)
        worth = np.multiply.outer(cases.weights, price[order] / gain)
        with np.errstate(divide="ignore", invalid="ignore"):
            floor = np.where(worth < 1.0, np.log(worth) - np.log1p(-worth), np.inf)
            amount = np.minimum(np.maximum((before - floor) / gain, 0.0), room)
        points = np.array(start)
        points[:, order] -= np.sign(row[order]) * amount
        last = points @ row + self._charge.offset[0]
        with np.errstate(over="ignore"):
            return points, 1.0 / (1.0 + np.exp(-last))


def _sums_before(values: FloatArray) -> FloatArray:
    """(n, d) for each column the sum of those before it."""
    sums = np.cumsum(values, axis=1)
    return np.hstack([np.zeros((len(values), 1)), sums[:, :-1]])
