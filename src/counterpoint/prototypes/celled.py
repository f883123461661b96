"""Thousands of cells: a glance at all of them, then rows of a few, when they are needed.

To lead a single rival j, the score i of a cell must gain what it is behind at x. Under an absolute
price that costs at least ``behind / rate``, where the rate is the most that a unit of cost gains, a
dual norm; under a quadratic one, the square of that. All cells are bounded by the rival that leads
at x; those with the least bounds, by a handful of rivals near x, and by rivals that turn out to be
in the way of other cells. Only which rival, and how much its row weighs, is chosen here; what that
proves is computed by `Glance`, with bounds and whole steps.

The most promising cell is then solved with the rows of a few rivals; whatever rival its point does
not lead is added, and so on. A relaxation whose optimum leads all rivals is the cell; one that
already costs more than what was reached says enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import final

import numpy as np

from counterpoint.certificate import Bounding
from counterpoint.engine.pieces import Piece
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.engine.search import Found, search_listed
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.prototypes.cells import Cells, Glance, Spread, blocks

__all__ = ["CellEvidence", "search_cells"]

NEAR = 16
"""How many rivals near a row are compared at first."""
CANDIDATES = 512
"""With how many cells at a time."""
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


def search_cells(found: Found, program: Program, cells: Cells) -> list[CellEvidence]:
    """Cells that are never all written down, one row after the other; what bounds them.

    ``program``: the cost over what is possible, without the target.
    """
    known, spreads = [], dict[bytes, Spread]()
    for i, case in enumerate(found.cases):
        spread = None
        if program.price.quadratic.ndim == 2:
            free = case.low[0] < case.high[0]
            spread = spreads.setdefault(free.tobytes(), Spread(program.price, free))
        rivals, weights = np.zeros(len(cells), dtype=np.intp), np.zeros(len(cells))
        row = _Row(found, i, Glance(program, cells, case, rivals, weights, spread))
        row.run()
        known.append((row.glance, row.opened))
    return [CellEvidence(known)]


@final
class _Row:
    """The search of one row: the most promising cell first, until no other can be cheaper.

    Each cell may take half of the time that is left. What is found out of all cells is written into
    the glance.
    """

    def __init__(self, found: Found, i: int, glance: Glance) -> None:
        self.found, self.row, self.glance = found, np.array([i]), glance
        self.program, self.cells, self.case = glance.program, glance.cells, glance.case
        self.opened: list[tuple[int, Bounding]] = []
        seconds = found.effort.seconds
        self.end = np.inf if seconds is None else perf_counter() + seconds
        x, low, high = self.case.x[0], self.case.low[0], self.case.high[0]
        start = np.where(self.program.numeric, np.minimum(np.maximum(x, low), high), x)
        self.scores = self.cells.scores(start)
        self.falls, self.rises = low < start, high > start
        self.is_free = bool(self.falls.all() and self.rises.all())
        absolute, diagonal = self.program.price.absolute, self.program.price.diagonal
        self.flat, self.curved = np.flatnonzero(absolute), np.flatnonzero(diagonal)
        self.gratis = np.flatnonzero((absolute == 0.0) & (diagonal == 0.0))
        self.fall, self.rise = (start - low)[self.gratis], (high - start)[self.gratis]
        scores = self.scores[self.cells.rivals]
        near = np.argpartition(-scores, min(NEAR, len(scores)) - 1)[:NEAR]
        # The rivals that cells are compared with: those that lead most, the first first.
        self.pool = near[np.argsort(-scores[near], kind="stable")]
        # (S,) with how many rivals of the pool each cell was compared
        self.seen = np.zeros(len(self.cells), dtype=np.intp)
        glance.rivals[:] = self.pool[0]
        for part in blocks(len(self.cells), self.program.width):
            cells = np.arange(part.start, part.stop)
            glance.weights[part] = self._against(cells, self.pool[:1])[1][:, 0]
        # (S,) lower bounds; infinite for a cell that is out of reach, or done with
        self.bounds = glance.bounds()

    @property
    def worth(self) -> float:
        """A cell with a bound from here on is not opened."""
        return float(self.found.worth_beating()[self.row][0])

    def run(self) -> None:
        """Search."""
        while (s := self._next_cell(self.worth)) is not None:
            if perf_counter() > self.end:
                self.found.limited[self.row] = True
                return
            added = self._open(s)
            self.pool = np.append(self.pool, added[~np.isin(added, self.pool)])
            self.bounds[s] = np.inf

    def _open(self, s: int) -> IntArray:
        """One cell: with a few rivals, then with those that are missed, which are returned."""
        cells, found, row = self.cells, self.found, self.row
        gains, _ = self._against(np.array([s]), self.pool)
        order = np.argsort(-gains[0], kind="stable")[:FIRST]
        rivals = first = np.unique(np.append(self.pool[order], self.glance.rivals[s]))
        bound, known = -np.inf, len(self.opened)
        while True:
            piece = Piece.of(self.program, Region((cells.rows(s, rivals),)))
            part = self._relaxed(piece)
            (evidence,) = part.evidence
            told = evidence.bounds(np.where(part.piece < 0, found.cost[row], 0.0))[1][0]
            if told > bound:
                bound = told
                self.opened[known:] = [(s, evidence)]
            found.limited[row] |= part.limited
            found.closed[row] &= part.closed
            missed = rivals[:0]
            if part.piece[0] >= 0:
                missed = cells.missed(s, part.points[0], self.case.margin[0])
                missed = missed[~np.isin(missed, rivals)]
                if not len(missed):
                    cost = piece.program.objective(part.points, self.case)
                    found.offer(s, row, part.points, cost)
            if not len(missed) or part.limited[0] or bound >= self.worth:
                return np.setdiff1d(rivals, first)
            rivals = np.append(rivals, missed[:MORE])

    def _relaxed(self, piece: Piece) -> Found:
        """A cell with some of its rows: a search of its own."""
        effort = self.found.effort
        if np.isfinite(self.end):
            effort = replace(effort, seconds=max(0.5 * (self.end - perf_counter()), 1e-6))
        return search_listed(Found(self.case, effort, self.found.cost[self.row]), (piece,))

    def _next_cell(self, reached: float) -> int | None:
        """The cell with the least bound below what was reached, compared with all of the pool."""
        while True:
            s = int(self.bounds.argmin())
            if not self.bounds[s] < reached:
                return None
            if self.seen[s] == len(self.pool):
                return s
            cells = np.flatnonzero((self.bounds < reached) & (self.seen < len(self.pool)))
            if len(cells) > CANDIDATES:
                cells = cells[np.argpartition(self.bounds[cells], CANDIDATES)[:CANDIDATES]]
            self._compare(cells, self.pool[self.seen[cells].min() :])
            self.seen[cells] = len(self.pool)

    def _compare(self, cells: IntArray, rivals: IntArray) -> None:
        """Some cells with some rivals; what bounds them better is kept."""
        for part in blocks(len(cells), len(rivals) * self.program.width):
            some = cells[part]
            gains, weights = self._against(some, rivals)
            best = gains.argmax(axis=1)
            rival, weight = rivals[best], weights[np.arange(len(some)), best]
            bound = self.glance.weighed(some, rival, weight)
            better = bound > self.bounds[some]
            some = some[better]
            self.bounds[some] = bound[better]
            self.glance.rivals[some], self.glance.weights[some] = rival[better], weight[better]

    def _against(self, cells: IntArray, rivals: IntArray) -> tuple[FloatArray, FloatArray]:
        """(m, k) the least cost by which each cell leads each rival, and the weight that shows it.

        Columns count as free or held, whatever bounds they have; the cost is infinite, and the
        weight 1, where no move helps.
        """
        own, others = self.cells.own[cells], self.cells.rivals[rivals]
        behind = self.scores[others] - self.scores[own][:, None] + self.cells.lead
        behind[self.cells.place[others] == self.cells.place[own][:, None]] = 0.0
        apart = self.cells.matrix[others] - self.cells.matrix[own][:, None]
        if len(self.gratis):
            some = apart[:, :, self.gratis]
            with np.errstate(invalid="ignore"):
                gained = np.where(some > 0.0, some * self.fall, -some * self.rise)
            behind -= np.where(some == 0.0, 0.0, gained).sum(axis=2)
        effect = np.abs(apart)
        if not self.is_free:
            effect *= np.where(apart > 0.0, self.falls, self.rises)
        price, spread = self.program.price, self.glance.spread
        steep = np.zeros(behind.shape)
        if spread is not None:
            steep = ((apart[:, :, spread.columns] @ spread.root) ** 2).sum(axis=2)
        elif len(self.curved):
            steep = effect[:, :, self.curved] ** 2 @ (1.0 / price.diagonal[self.curved])
        rate = (effect[:, :, self.flat] / price.absolute[self.flat]).max(axis=2, initial=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.minimum(2.0 * behind / steep, 1.0 / rate)
            gain = weight * behind - 0.25 * weight * weight * steep
        stuck = np.isinf(weight) & (behind > 0.0)
        gain = np.where(stuck, np.inf, np.where(behind > 0.0, gain, 0.0))
        return gain, np.where(stuck, 1.0, np.where(behind > 0.0, weight, 0.0))
