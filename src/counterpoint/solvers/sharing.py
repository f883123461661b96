"""What one person's optimum says about the others'.

An optimal basis (LP) or active set (QP) gives the answer as an affine function of the person. So
once one person is solved, the same basis is tried on everybody who is still open, in one matrix
product: where the point it gives is feasible, strictly, it is the only optimum. A basis that
leaves a choice (a reduced cost of 0) is not shared, so that nobody's answer depends on who else is
in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.solvers.layout import Data

__all__ = ["ActiveSet", "Basis", "Patience"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

WORTH = 3
"""One trial of a basis on everybody takes about as long as so many runs of a solver."""
STRICT = 1e-9
"""How far inside its bounds a value must be, in units of the answer."""


@final
class Patience:
    """Whether sharing still pays: it stops after some bases in a row that few others could use."""

    def __init__(self, tries: int = 8) -> None:
        self.tries = self.left = tries

    def note(self, others: int) -> None:
        """So many others were settled by the last basis."""
        self.left = self.tries if others >= WORTH else self.left - 1

    @property
    def ended(self) -> bool:
        """Whether to stop trying."""
        return self.left <= 0


@final
@dataclass(frozen=True, eq=False)
class Basis:
    """An optimal basis of min cost·v subject to low <= v <= high, row_low <= M v <= row_high.

    Parameters
    ----------
    matrix
        (rows, columns) M.
    basic
        The basic columns.
    at_high
        Columns that are at their upper bounds; all others that are not basic are at their lower.
    active
        The rows at a bound, as many as there are basic columns.
    active_high
        (active,) whether it is the upper bound.
    duals
        (rows,) the duals, the same for everybody.
    """

    matrix: FloatArray
    basic: IntArray
    at_high: IntArray
    active: IntArray
    active_high: BoolArray
    duals: FloatArray

    @classmethod
    def strict(
        cls,
        matrix: FloatArray,
        cost: FloatArray,
        statuses: tuple[IntArray, IntArray],
        duals: FloatArray,
    ) -> Basis | None:
        """The basis, unless it is degenerate in the duals, so that other optima may exist.

        Parameters
        ----------
        matrix, cost, duals
            Of the program.
        statuses
            Of columns and rows: 0 at the lower bound, 1 basic, 2 at the upper bound.
        """
        columns, rows = statuses
        basic, active = np.flatnonzero(columns == 1), np.flatnonzero(rows != 1)
        if len(basic) != len(active):
            return None
        reduced = cost - duals @ matrix
        if (np.abs(np.delete(reduced, basic)) <= STRICT).any():
            return None
        if (np.abs(duals[active]) <= STRICT).any():
            return None
        at_high = np.flatnonzero(columns == 2)
        return cls(matrix, basic, at_high, active, rows[active] == 2, duals)

    def try_on(self, data: Data, rows: IntArray) -> tuple[BoolArray, FloatArray]:
        """(rows,) for whom it is optimal, and (fitting, columns) the values it gives them."""
        with np.errstate(invalid="ignore"):  # a bound that is missing for another fits nobody
            return self._try_on(data, rows)

    def _try_on(self, data: Data, rows: IntArray) -> tuple[BoolArray, FloatArray]:
        at = np.ix_(rows, self.active)
        bound = np.where(self.active_high, data.row_high[at], data.row_low[at])
        fixed = self._fixed(data, rows)
        if fixed is not None:
            bound = bound - fixed @ self.matrix[self.active].T
        solved = bound @ self._inverse
        at = np.ix_(rows, self.basic)
        low, high = data.low[at], data.high[at]
        fits = ((solved > low + STRICT) & (solved < high - STRICT)).all(axis=1)
        fits &= np.isfinite(solved).all(axis=1)
        others = self._others
        if len(others):
            reach = solved @ self.matrix[np.ix_(others, self.basic)].T
            reach = reach if fixed is None else reach + fixed @ self.matrix[others].T
            at = np.ix_(rows, others)
            inside = (reach > data.row_low[at] + STRICT) & (reach < data.row_high[at] - STRICT)
            fits &= inside.all(axis=1)
        values = np.zeros((int(fits.sum()), self.matrix.shape[1])) if fixed is None else fixed[fits]
        values[:, self.basic] = solved[fits]
        return np.asarray(fits), values

    def _fixed(self, data: Data, rows: IntArray) -> FloatArray | None:
        """(rows, columns) the values of the columns that are not basic; None if all are 0."""
        if not len(self.at_high) and data.low_is_zero:
            return None
        values = np.array(data.low[rows])
        values[:, self.at_high] = data.high[np.ix_(rows, self.at_high)]
        values[:, self.basic] = 0.0
        return values

    @cached_property
    def _others(self) -> IntArray:
        """The rows that are not active."""
        return np.delete(np.arange(len(self.matrix)), self.active)

    @cached_property
    def _inverse(self) -> FloatArray:
        """The basic columns as a function of the active rows; NaN (fits nobody) if singular."""
        square = self.matrix[np.ix_(self.active, self.basic)]
        try:
            return np.asarray(np.linalg.inv(square).T)
        except np.linalg.LinAlgError:
            return np.full(square.shape, np.nan)


@final
@dataclass(frozen=True, eq=False)
class ActiveSet:
    """The active rows of min ½‖v‖² subject to low <= M v <= high, without other bounds.

    Parameters
    ----------
    matrix
        (rows, r) M, with rows of norm 1.
    active
        The rows at a bound.
    sign
        (active,) +1 at the upper bound, −1 at the lower.
    """

    matrix: FloatArray
    active: IntArray
    sign: FloatArray

    def try_on(self, low: FloatArray, high: FloatArray) -> tuple[BoolArray, FloatArray, FloatArray]:
        """(n,) for whom it is optimal, (n, r) the points it gives, (n, rows) the duals."""
        n = len(low)
        duals = np.zeros((n, len(self.matrix)))
        rows = self.matrix[self.active]
        bound = np.where(self.sign > 0, high[:, self.active], low[:, self.active])
        try:
            weights = bound @ np.linalg.inv(rows @ rows.T)
        except np.linalg.LinAlgError:
            return np.zeros(n, dtype=bool), np.zeros((n, self.matrix.shape[1])), duals
        points = weights @ rows
        fits = (-weights * self.sign > STRICT).all(axis=1)
        duals[:, self.active] = -weights
        others = np.delete(np.arange(len(self.matrix)), self.active)
        reach = points @ self.matrix[others].T
        inside = (reach > low[:, others] + STRICT) & (reach < high[:, others] - STRICT)
        return fits & inside.all(axis=1), points, duals
