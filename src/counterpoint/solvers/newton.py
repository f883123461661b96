"""Newton's method in as many dimensions as there are classes, for softmax probabilities.

Under a quadratic price the answer moves within the span of the score rows, see
`counterpoint.softmax`. A batch is solved at once, as if nothing but immutable columns were bounded;
rows whose answer breaks a bound are left to a solver that knows bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.costs import Mahalanobis, SquaredEuclidean
from counterpoint.programs import Program
from counterpoint.regions import Box, LogLoss, LogSumExp
from counterpoint.softmax import Reduced, minimise, reach
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver
from counterpoint.solvers.polish import Slope, polished

__all__ = ["Newton"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@final
class Newton(Solver):
    """One softmax probability, charged or demanded, under a quadratic price."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {SquaredEuclidean, Mahalanobis, Box, LogLoss, LogSumExp}
    )
    accuracy: ClassVar[float] = 1e-10
    complete: ClassVar[bool] = False

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
        condition, x = self._condition, cases.x
        scores = np.zeros((len(x), condition.size + 1))
        scores[:, :-1] = x @ condition.matrix.T
        scores[:, :-1] += condition.offset
        if isinstance(condition, LogLoss):
            reduced = minimise(scores, self._gram, condition.size, 2.0 * cases.weights)
            found, points = np.ones(len(x), dtype=bool), self._moved(x, reduced)
            self._polish(points, cases, condition, reduced)
            multipliers = reduced.shares[:, :-1]
        else:
            goal = cases.margin[:, 0] - condition.limit
            reduced = reach(scores, self._gram, condition.size, goal)
            found, points = reduced.settled, self._moved(x, reduced)
            multipliers = reduced.shares[:, :-1] * (2.0 / reduced.weight)[:, None]
            multipliers[~found] = 0.0
        if not cases.unbounded:
            found = found & ((points >= cases.low) & (points <= cases.high)).all(axis=1)
        points[~found] = np.nan
        outcomes = np.where(found, Outcome.FOUND, Outcome.NOTHING).astype(np.int8)
        return Solution(points, multipliers, outcomes, np.zeros(len(x)))

    def _moved(self, x: FloatArray, reduced: Reduced) -> FloatArray:
        """(n, d) x − P⁻¹Aᵀu."""
        points = reduced.coefficients[:, :-1] @ self._directions
        return np.subtract(x, points, out=points)

    def _polish(self, points: FloatArray, cases: Cases, charge: LogLoss, reduced: Reduced) -> None:
        """Where large coefficients cancel, a few steps on the points themselves."""
        rows = np.flatnonzero(~reduced.settled)
        if not len(rows):
            return
        weight, price = 2.0 * cases.weights[rows], self.program.price
        start = Slope(points[rows], cases.x[rows], weight, charge, self._directions, price)
        end = polished(start, self._gram)
        points[rows], reduced.shares[rows] = end.points, end.shares.T
