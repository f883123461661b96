"""Thousands of cells: a glance at all of them, then rows of a few, when they are needed.

A cell is solved with the rows of a few rivals; whatever rival its point does not lead is added, and
so on. A relaxation whose optimum leads all rivals is the cell; one that already costs more than
what was reached says enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Bounding
from counterpoint.costs import Spread
from counterpoint.engine.cases import Cases
from counterpoint.engine.pieces import Piece
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.engine.search import Found, search_listed
from counterpoint.prototypes.cells import Cells
from counterpoint.prototypes.screening import Glance, View

__all__ = ["CellEvidence", "Celled"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

FIRST = 4
"""With how many rivals the search of a cell begins."""
MORE = 8
"""How many are added at a time."""


@final
@dataclass(frozen=True, eq=False)
class CellEvidence(Bounding):
    """What a search leaves behind of many cells, row by row.

    For each row a glance at all cells, and of the cells that were searched what is known of a
    relaxation of each with some of its rows.
    """

    rows: Sequence[tuple[Glance, Sequence[tuple[int, Bounding]]]]

    @property
    def is_local(self) -> bool:
        return False

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        both = np.empty((2, len(reached)))
        for i, (glance, opened) in enumerate(self.rows):
            part = None if margin is None else margin[[i]]
            proved = glance.closed_in(part).bounds(float(reached[i]))
            best = np.array(proved)
            for cell, evidence in opened:
                bound, told = evidence.bounds(reached[[i]], part)
                proved[cell] = max(proved[cell], bound[0])
                best[cell] = max(best[cell], told[0])
            both[:, i] = proved.min(), best.min()
        return both[0], both[1]


@final
class Celled:
    """Cells that are never all written down, one row after the other.

    ``program``: the cost over what is possible, without the target; ``cells``: the target. Each
    cell may take half of the time that its row has left.
    """

    def __init__(self, frontier: Found, program: Program, cells: Cells) -> None:
        self.frontier, self.program, self.cells = frontier, program, cells
        self.known: list[tuple[Glance, list[tuple[int, Bounding]]]] = []
        self._spreads: dict[bytes, Spread] = {}

    def run(self) -> list[CellEvidence]:
        """All rows; what bounds them."""
        for i in range(len(self.frontier.cases)):
            row = _Row(self, i)
            row.run()
            self.known.append((row.view.glance, row.opened))
        return [CellEvidence(self.known)]

    def glance(self, case: Cases) -> Glance:
        """At all cells, with nothing known of them yet."""
        rivals, weights = np.zeros(len(self.cells), dtype=np.intp), np.zeros(len(self.cells))
        spread = None
        if self.program.price.quadratic.ndim == 2:
            free = case.low[0] < case.high[0]
            made = Spread(self.program.price, free)
            spread = self._spreads.setdefault(free.tobytes(), made)
        return Glance(self.program, self.cells, case, rivals, weights, spread)


@final
class _Row:
    """The search of one row: the most promising cell first, until no other can be cheaper."""

    def __init__(self, owner: Celled, i: int) -> None:
        self.owner, self.frontier, self.row = owner, owner.frontier, np.array([i])
        self.case = self.frontier.cases.take(self.row)
        self.view = View(owner.glance(self.case))
        self.opened: list[tuple[int, Bounding]] = []
        seconds = self.frontier.effort.seconds
        self.end = np.inf if seconds is None else perf_counter() + seconds

    @property
    def worth(self) -> float:
        """A cell with a bound from here on is not opened."""
        return float(self.frontier.worth_beating()[self.row][0])

    def run(self) -> None:
        """Search."""
        while (s := self.view.next_cell(self.worth)) is not None:
            if perf_counter() > self.end:
                self.frontier.limited[self.row] = True
                return
            self.view.add(self._open(s))
            self.view.close(np.array([s]))

    def _open(self, s: int) -> IntArray:
        """One cell: with a few rivals, then with those that are missed, which are returned."""
        cells, frontier, row = self.owner.cells, self.frontier, self.row
        rivals = first = self.view.in_the_way(s, FIRST)
        bound, known = -np.inf, len(self.opened)
        while True:
            piece = Piece.of(self.owner.program, Region((cells.rows(s, rivals),)))
            found = self._relaxed(piece)
            (evidence,) = found.evidence
            told = evidence.bounds(np.where(found.piece < 0, frontier.cost[row], 0.0))[1][0]
            if told > bound:
                bound = told
                self.opened[known:] = [(s, evidence)]
            frontier.limited[row] |= found.limited
            frontier.closed[row] &= found.closed
            missed = rivals[:0]
            if found.piece[0] >= 0:
                missed = cells.missed(s, found.points[0], self.case.margin[0])
                missed = missed[~np.isin(missed, rivals)]
                if not len(missed):
                    cost = piece.program.objective(found.points, self.case)
                    frontier.offer(s, row, found.points, cost)
            if not len(missed) or found.limited[0] or bound >= self.worth:
                break
            rivals = np.append(rivals, missed[:MORE])
        return np.setdiff1d(rivals, first)

    def _relaxed(self, piece: Piece) -> Found:
        """A cell with some of its rows: a search of its own."""
        effort = self.frontier.effort
        if np.isfinite(self.end):
            effort = replace(effort, seconds=max(0.5 * (self.end - perf_counter()), 1e-6))
        inner = Found(self.view.glance.case, effort, self.frontier.cost[self.row])
        return search_listed(inner, (piece,))
