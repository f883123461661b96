"""Newton's method in as many dimensions as there are classes, for softmax probabilities.

Under a quadratic price the answer moves within the span of the score rows, see
`counterpoint.models.softmax`. A batch is solved at once, as if nothing but immutable columns were
bounded. A row whose answer breaks a bound is solved again for the columns that end within their
bounds, until these stay the same; the few rows for which they do not are left to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.costs import Mahalanobis, SquaredEuclidean
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import LogLoss, LogSumExp
from counterpoint.engine.domains import Box
from counterpoint.engine.program import Program
from counterpoint.models.softmax import Hessians, LogLosses, Reduced, minimise, reach
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver

__all__ = ["Newton"]


TRIES = 40
STEPS = 4
EXACTLY = 1e-12
LOSS = LogLosses()


@final
class Newton(Solver):
    """One softmax probability, charged or demanded, under a quadratic price."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {SquaredEuclidean, Mahalanobis, Box, LogLoss, LogSumExp}
    )
    accuracy: ClassVar[float] = 1e-10
    complete: ClassVar[bool] = False
    batched: ClassVar[bool] = True

    def takes(self, program: Program) -> bool:
        one = len(program.beyond_rows) == 1
        return program.kinds <= self.accepts and one and not program.price.absolute.any()

    def prepare(self, program: Program) -> Newtons:
        return Newtons(program)


@final
@dataclass(frozen=True, eq=False)
class Newtons(Prepared):
    """The score rows of the other classes against the label's, and their products."""

    program: Program

    @cached_property
    def _condition(self) -> LogLoss | LogSumExp:
        condition = self.program.beyond_rows[0]
        assert isinstance(condition, LogLoss | LogSumExp)  # noqa: S101 (what `takes` made sure of)
        return condition

    @cached_property
    def _free(self) -> BoolArray:
        """(d,) the columns that may change."""
        box = self.program.box
        return np.asarray((box.least < 0.0) | (box.most > 0.0))

    @cached_property
    def _directions(self) -> FloatArray:
        """(m, d) the rows times the inverse of the price: 0 in columns that may not change."""
        matrix, quadratic = self._condition.matrix, self.program.price.quadratic
        if quadratic.ndim == 1:
            return np.where(self._free, matrix / quadratic, 0.0)
        free = self._free
        directions = np.zeros(matrix.shape)
        directions[:, free] = np.linalg.solve(quadratic[np.ix_(free, free)], matrix[:, free].T).T
        return directions

    @cached_property
    def _gram(self) -> FloatArray:
        """(m + 1, m + 1) products of the rows in the metric of the price; the label is last, 0."""
        m = self._condition.size
        gram = np.zeros((m + 1, m + 1))
        gram[:m, :m] = self._directions @ self._condition.matrix.T
        return 0.5 * (gram + gram.T)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = self._unbounded(cases)
        outside = np.flatnonzero(~self._is_inside(out.points, cases))
        out.points[outside] = np.nan
        if self.program.price.quadratic.ndim == 1 and not cases.unbounded:
            for i in outside[~cases.empty[outside]].tolist():
                self._within(cases.take(slice(i, i + 1)), out, i)
        out.outcomes[out.found] = Outcome.FOUND
        lost = np.flatnonzero(~out.found)
        if len(lost):
            refuted = self.program.refutes(cases.take(lost), out.multipliers[lost])
            out.outcomes[lost[refuted]] = Outcome.INFEASIBLE
        return out

    @staticmethod
    def _is_inside(points: FloatArray, cases: Cases) -> BoolArray:
        """(n,): whether points keep the bounds; not where there is none."""
        if cases.unbounded:
            return ~np.isnan(points[:, 0])
        return np.asarray(((points >= cases.low) & (points <= cases.high)).all(axis=1))

    def _unbounded(self, cases: Cases) -> Solution:
        """As if only immutable columns were bounded."""
        condition, x = self._condition, cases.x
        scores = np.zeros((len(x), condition.size + 1))
        np.matmul(x, condition.matrix.T, out=scores[:, :-1])
        scores[:, :-1] += condition.offset
        reduced = self._reduced(scores, self._gram, cases)
        points = self._moved(x, reduced)
        if isinstance(condition, LogLoss):
            self._polish(points, cases, condition, reduced)
        else:
            points[~reduced.settled] = np.nan
        outcomes = np.full(len(x), Outcome.NOTHING, dtype=np.int8)
        multipliers = self._multipliers(reduced)
        return Solution(points, multipliers, outcomes, np.zeros(len(x)))

    def _reduced(self, scores: FloatArray, gram: FloatArray, cases: Cases) -> Reduced:
        """The solution in as many dimensions as there are classes."""
        condition = self._condition
        if isinstance(condition, LogLoss):
            return minimise(scores, gram, condition.size, 2.0 * cases.weights)
        return reach(scores, gram, condition.size, cases.margin[:, 0] - condition.limit)

    def _multipliers(self, reduced: Reduced) -> FloatArray:
        """(n, m) shares; for a demand times its multiplier."""
        shares = reduced.shares[:, :-1]
        if isinstance(self._condition, LogLoss):
            return shares
        known = reduced.settled & (reduced.weight > 0.0)
        return shares * np.where(known, 2.0 / reduced.weight, 1.0)[:, None]  # or they may refute

    def _within(self, case: Cases, out: Solution, i: int) -> None:
        """One row with bounds: exact for the columns that are free, until these stay the same."""
        condition, directions, x = self._condition, self._directions, case.x[0]
        low, high = case.low[0] - x, case.high[0] - x
        start = condition.matrix @ x + condition.offset
        gram = np.zeros_like(self._gram)
        change = np.clip(np.nan_to_num(out.points[i] - x), low, high)
        free = (low < change) & (change < high)
        sides = np.sign(change - low) + np.sign(change - high)  # 0 between bounds
        for _ in range(TRIES):
            gram[:-1, :-1] = directions[:, free] @ condition.matrix[:, free].T
            held = np.where(free, 0.0, change)
            scores = np.append(start + condition.matrix @ held, 0.0)
            reduced = self._reduced(scores[None, :], gram, case)
            if not isinstance(condition, LogLoss) and not reduced.settled[0]:
                return
            pull = (
                reduced.shares[0, :-1] / reduced.weight[0]
            )  # what u is at the optimum, if G allows
            wish = -pull @ directions
            change = np.clip(wish, low, high)
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

    def _polish(self, points: FloatArray, cases: Cases, charge: LogLoss, reduced: Reduced) -> None:
        """Newton steps on the points themselves, for the few rows whose coefficients cancel.

        Where λ is small and the label's row lies within the hull of the others, u is large, and of
        G u little is left but rounding. The gradient at the point itself has no such loss.
        """
        rows = np.flatnonzero(~reduced.settled)
        if not len(rows):
            return
        x, weight, y = cases.x[rows], 2.0 * cases.weights[rows], points[rows]
        price, exactly = self.program.price, np.full(len(rows), EXACTLY)
        shares, steepest = self._steepest(y, x, weight, charge)
        for _ in range(STEPS):
            weighed = np.zeros_like(shares)
            weighed[:-1] = charge.matrix @ steepest.T
            hessians = Hessians(self._gram, shares, weight)
            along = hessians.direction(np.zeros_like(weighed), weighed, exactly)
            there = y + (along[:-1].T @ self._directions - steepest / weight[:, None])
            new_shares, new_steepest = self._steepest(there, x, weight, charge)
            better = price(new_steepest) < price(steepest)
            if not better.any():
                break
            shares = np.where(better, new_shares, shares)
            y = np.where(better[:, None], there, y)
            steepest = np.where(better[:, None], new_steepest, steepest)
        points[rows], reduced.shares[rows] = y, shares.T

    def _steepest(
        self, y: FloatArray, x: FloatArray, weight: FloatArray, charge: LogLoss
    ) -> tuple[FloatArray, FloatArray]:
        """(m + 1, n) the probabilities of the classes, the label's last, and (n, d) P⁻¹∇E."""
        scores = np.zeros((charge.size + 1, len(y)))
        scores[:-1] = charge.matrix @ y.T + charge.offset[:, None]
        shares = LOSS.pull(scores, np.full(len(y), charge.size)).shares
        return shares, weight[:, None] * (y - x) + shares[:-1].T @ self._directions
