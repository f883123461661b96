"""What a search leaves behind, and the lower bounds that follow from it by weak duality alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Price
from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.prototypes.cells import Cells
from counterpoint.rounding import UNIT, Sizes

__all__ = [
    "Bounding",
    "CellEvidence",
    "Evidence",
    "Glance",
    "RowOfCells",
    "Spread",
    "blocks",
    "least_moves",
    "spared",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

CLOSED = 1e-9
"""A relative gap below which nothing is left to prove."""
NUMBERS = 1 << 17
"""How many numbers to work on at a time, so that they stay in the cache."""


class Bounding(ABC):
    """What bounds the objectives of some rows from below, however it was found."""

    @abstractmethod
    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) bounds that are proved, and those with what was reported; infinite if refuted.

        Only where a bound is below what was ``reached`` does a row need to be refuted. With (n, 2)
        margins, see `Cases`, they may be bounds on what meets the target by so much.
        """


@final
@dataclass(frozen=True, eq=False)
class Evidence(Bounding):
    """What a search leaves behind of one piece, for each row.

    Parameters
    ----------
    program
        The piece.
    cases
        The people, as the piece sees them.
    multipliers
        (n, size), any.
    at
        (n, d) points at which bounds are sharpest, see `Program.bound`; None where none are used.
    reported
        (n,) bounds that a branch and bound reported; infinite if it refuted every leaf.
    """

    program: Program
    cases: Cases
    multipliers: FloatArray
    at: FloatArray | None
    reported: FloatArray

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        bound = self.program.bound(self.cases, self.multipliers, self.at, margin)
        doubtful = np.flatnonzero(bound < reached * (1.0 - CLOSED))
        if len(doubtful):
            part, multipliers = self.cases.take(doubtful), self.multipliers[doubtful]
            bound[doubtful[self.program.refutes(part, multipliers)]] = np.inf
        return bound, np.maximum(bound, self.reported)


@final
@dataclass(frozen=True, eq=False)
class Spread:
    """A quadratic price over the columns that can move: how far a unit of its root reaches.

    Parameters
    ----------
    price
        The price.
    free
        (d,) the columns that can move.
    """

    price: Price
    free: BoolArray

    @cached_property
    def columns(self) -> IntArray:
        """The columns that can move and whose price is quadratic."""
        return np.flatnonzero(self.free & (np.diag(self.price.quadratic) > 0.0))

    @cached_property
    def root(self) -> FloatArray:
        """(f, f) R with R Rᵀ the inverse of the price's matrix over these columns."""
        matrix = self.price.quadratic[np.ix_(self.columns, self.columns)]
        return np.asarray(np.linalg.inv(np.linalg.cholesky(matrix)).T)

    def furthest(self, normal: FloatArray) -> FloatArray:
        """(m, d) the changes δ with the least price + normal · δ, were there no bounds."""
        change = np.zeros(normal.shape)
        change[:, self.columns] = -0.5 * (normal[:, self.columns] @ self.root) @ self.root.T
        return change


@final
@dataclass(frozen=True, eq=False)
class Glance:
    """One rival for each cell, and how much its row weighs: a bound without a search.

    Parameters
    ----------
    program
        The cost over what is possible, without the target.
    cells
        The target.
    case
        One person.
    rivals
        (S,) positions among the rivals, any.
    weights
        (S,), any; negative ones count as 0.
    spread
        What a full quadratic price means to the columns that the person can move; None for others.
    """

    program: Program
    cells: Cells
    case: Cases
    rivals: IntArray
    weights: FloatArray
    spread: Spread | None

    def closed_in(self, margin: FloatArray | None) -> Glance:
        """The same at points that lead by (1, 2) margins more."""
        if margin is None:
            return self
        lead = self.cells.lead + float(margin[0, 0])
        return replace(self, cells=replace(self.cells, lead=lead))

    def bounds(self, reached: float = np.inf) -> FloatArray:
        """(S,) lower bounds on the cost in each cell; infinite where there is no point of it.

        Only a cell whose bound is below what was ``reached`` needs to be refuted.
        """
        out = np.empty(len(self.cells))
        for part in blocks(len(self.cells), self.program.width):
            out[part] = self.weighed(part, self.rivals[part], self.weights[part], reached)
        return out

    def weighed(
        self, part: slice | IntArray, rivals: IntArray, weights: FloatArray, reached: float = np.inf
    ) -> FloatArray:
        """`bounds` of some cells by other rivals and weights."""
        rivals = np.clip(rivals, 0, len(self.cells.rivals) - 1)
        cut = self.cells.cuts(part, rivals, np.nan_to_num(weights, posinf=0.0))
        sizes = Sizes(cut.weights, cut.normals, cut.roundings)
        cases = self._repeated(len(rivals))
        at = None if self.spread is None else cases.x + self.spread.furthest(cut.normal)
        bound = self.program.duality.bound(cases, cut, sizes, at)
        doubtful = np.flatnonzero(bound < reached * (1.0 - CLOSED))
        if len(doubtful) and not cases.unbounded:
            some = cut.take(doubtful)
            refuted = self.program.duality.refutes(self._repeated(len(doubtful)), some)
            bound[doubtful[refuted]] = np.inf
        return bound

    def _repeated(self, count: int) -> Cases:
        """The person as often as that, without repeating anything in memory."""
        case = self.case
        parts = (case.x, case.low, case.high, case.margin)
        return Cases(*(np.broadcast_to(part[0], (count, part.shape[1])) for part in parts))


def least_moves(program: Program, x: FloatArray) -> FloatArray:
    """(d,) what a change of each column costs at least; 0 where it may be as small as any.

    A column of a category stands for a change to it.
    """
    price, steps = program.price, program.steps
    moves = (price.absolute * steps + price.floor * steps * steps) * (1.0 - 8.0 * UNIT)
    return np.where(program.numeric | (x > 0.5), moves, 2.0 * price.absolute)


def spared(program: Program, case: Cases, narrower: Cases) -> float:
    """What any point of a case costs at least that is not within narrower bounds of the same.

    Bounds may have been narrowed so that some whole columns and categories cannot change.
    """
    low, high, x = narrower.low[0], narrower.high[0], case.x[0]
    moved = (low != case.low[0]) | (high != case.high[0])
    stays = np.where(program.numeric, (low == x) & (high == x), x <= 0.5)
    least = np.where(stays, least_moves(program, x), 0.0)
    return float(least[moved].min(initial=np.inf))


@final
@dataclass(frozen=True, eq=False)
class RowOfCells:
    """What a search leaves behind of many cells for one row: of most of them, a glance.

    Parameters
    ----------
    case
        The person.
    glance
        At all cells, perhaps within narrower bounds, see `spared`.
    opened
        Cells that were searched, and what is known of a relaxation of each with some of its rows,
        perhaps within narrower bounds.
    """

    case: Cases
    glance: Glance
    opened: Sequence[tuple[int, Evidence]]

    def bounds(self, reached: float, margin: FloatArray | None = None) -> tuple[float, float]:
        """The least bound of a cell that is proved, and with what was reported."""
        program = self.glance.program
        proved = self.glance.closed_in(margin).bounds(reached)
        proved = np.minimum(proved, spared(program, self.case, self.glance.case))
        best = np.array(proved)
        for cell, evidence in self.opened:
            least = spared(program, self.case, evidence.cases)
            bound, told = evidence.bounds(np.array([reached]), margin)
            proved[cell] = max(proved[cell], min(bound[0], least))
            best[cell] = max(best[cell], min(told[0], least))
        return float(proved.min()), float(best.min())


@final
@dataclass(frozen=True, eq=False)
class CellEvidence(Bounding):
    """What a search leaves behind of many cells, row by row.

    Parameters
    ----------
    rows
        What is known of each.
    """

    rows: Sequence[RowOfCells]

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        both = [
            row.bounds(least, None if margin is None else margin[[i]])
            for i, (row, least) in enumerate(zip(self.rows, reached.tolist(), strict=True))
        ]
        proved, best = np.array(both).reshape(-1, 2).T
        return proved, best


def blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of rows of so many numbers that fit into the cache."""
    size = max(16, NUMBERS // max(width, 1))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
