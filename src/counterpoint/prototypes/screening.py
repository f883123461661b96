"""A glance at thousands of cells: the one rival of each that bounds what it costs from below best.

To lead a single rival j, the score i of a cell must gain what it is behind at x. Under an absolute
price that costs at least ``behind / rate``, where the rate is the most that a unit of cost gains, a
dual norm; under a quadratic one, the square of that. All cells are bounded by the rival that leads
at x; those with the least bounds, by a handful of rivals near x, and by rivals that turn out to be
in the way of other cells. Only which rival, and how much its row weighs, is chosen here; what that
proves is computed by `Glance`, with bounds and whole steps.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.evidence import Glance, blocks

__all__ = ["View"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

NEAR = 16
"""How many rivals near a row are compared at first."""
CANDIDATES = 512
"""With how many cells at a time."""
LONGER = (2.0, 4.0, 8.0)
"""Weights to try where columns have bounds, as multiples of what is best without: the cheapest ones
may not suffice."""


@final
class View:
    """All cells as one row sees them.

    Parameters
    ----------
    glance
        What is known of the row; what is found out is written there.
    pool
        The rivals with which cells are compared; None to begin with those near the row.
    """

    def __init__(self, glance: Glance, pool: IntArray | None = None) -> None:
        program, case = glance.program, glance.case
        self.glance, self.cells, self.spread = glance, glance.cells, glance.spread
        x, low, high = case.x[0], case.low[0], case.high[0]
        start = np.where(program.numeric, np.minimum(np.maximum(x, low), high), x)
        self.scores = self.cells.scores(start)
        self.falls, self.rises = low < start, high > start
        self.is_free = bool(self.falls.all() and self.rises.all())
        room = np.append(start - low, high - start)
        self.is_bounded = bool((np.isfinite(room) & (room > 0.0)).any())
        quadratic, absolute = program.price.quadratic, program.price.absolute
        diagonal = quadratic if quadratic.ndim == 1 else np.diag(quadratic)
        self.flat, self.curved = np.flatnonzero(absolute), np.flatnonzero(diagonal)
        self.per_cost, self.per_square = 1.0 / absolute[self.flat], 1.0 / diagonal[self.curved]
        self.gratis = np.flatnonzero((absolute == 0.0) & (diagonal == 0.0))
        self.fall, self.rise = (start - low)[self.gratis], (high - start)[self.gratis]
        self.pool = self._nearest() if pool is None else pool
        self.seen = np.zeros(len(self.cells), dtype=np.intp)
        """(S,) with how many rivals of the pool each cell was compared."""
        self.bounds = self._first_look()
        """(S,) lower bounds; infinite for a cell that is out of reach, or done with."""

    def _nearest(self) -> IntArray:
        """The rivals that lead most, the first first."""
        scores = self.scores[self.cells.rivals]
        count = min(NEAR, len(scores))
        near = np.argpartition(-scores, count - 1)[:count]
        return np.asarray(near[np.argsort(-scores[near], kind="stable")])

    def _first_look(self) -> FloatArray:
        """All cells against the rival that leads."""
        glance, leader = self.glance, self.pool[:1]
        glance.rivals[:] = leader[0]
        for part in blocks(len(self.cells), glance.program.width):
            cells = np.arange(part.start, part.stop)
            glance.weights[part] = self._against(cells, leader)[1][:, 0]
        return glance.bounds()

    def close(self, cells: IntArray) -> None:
        """No more is to be found out about some cells."""
        self.bounds[cells] = np.inf

    def add(self, rivals: IntArray) -> None:
        """More rivals for the pool."""
        self.pool = np.append(self.pool, rivals[~np.isin(rivals, self.pool)])

    def next_cell(self, reached: float) -> int | None:
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
        """Some cells with some rivals."""
        for part in blocks(len(cells), len(rivals) * self.glance.program.width):
            some = cells[part]
            gains, weights = self._against(some, rivals)
            best = gains.argmax(axis=1)
            weight = weights[np.arange(len(some)), best]
            self._improve(some, rivals[best], weight)
            for times in LONGER if self.is_bounded else ():
                self._improve(some, rivals[best], times * weight)

    def _improve(self, cells: IntArray, rivals: IntArray, weights: FloatArray) -> None:
        """Keep what bounds some cells better."""
        bound = self.glance.weighed(cells, rivals, weights)
        better = bound > self.bounds[cells]
        cells = cells[better]
        self.bounds[cells] = bound[better]
        self.glance.rivals[cells], self.glance.weights[cells] = rivals[better], weights[better]

    def in_the_way(self, s: int, count: int) -> IntArray:
        """The rivals of the pool that cost the most to lead from one cell."""
        gains, _ = self._against(np.array([s]), self.pool)
        order = np.argsort(-gains[0], kind="stable")[:count]
        return np.unique(np.append(self.pool[order], self.glance.rivals[s]))

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
        steep = np.zeros(behind.shape)
        if self.spread is not None:
            steep = ((apart[:, :, self.spread.columns] @ self.spread.root) ** 2).sum(axis=2)
        elif len(self.curved):
            steep = effect[:, :, self.curved] ** 2 @ self.per_square
        rate = (effect[:, :, self.flat] * self.per_cost).max(axis=2, initial=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.minimum(2.0 * behind / steep, 1.0 / rate)
            gain = weight * behind - 0.25 * weight * weight * steep
        stuck = np.isinf(weight) & (behind > 0.0)
        gain = np.where(stuck, np.inf, np.where(behind > 0.0, gain, 0.0))
        return gain, np.where(stuck, 1.0, np.where(behind > 0.0, weight, 0.0))
