"""A glance at thousands of cells: the one rival of each that bounds what it costs from below best.

To lead a single rival j, the score i of a cell must gain what it is behind at x. Under an absolute
price that costs at least ``behind / rate``, where the rate is the most that a unit of cost gains, a
dual norm; under a quadratic one, the square of that. All cells are bounded by the rival that leads
at x; those with the least bounds, by a handful of rivals near x, and by rivals that turn out to be
in the way of other cells. Only which rival, and how much its row weighs, is chosen here; what that
proves is computed by `Glance`, with bounds and whole steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import CLOSED
from counterpoint.costs import Spread
from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.numerics import Sizes
from counterpoint.prototypes.cells import Cells

__all__ = ["Glance", "View"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

NUMBERS = 1 << 17
"""How many numbers to work on at a time, so that they stay in the cache."""
NEAR = 16
"""How many rivals near a row are compared at first."""
CANDIDATES = 512
"""With how many cells at a time."""
LONGER = (2.0, 4.0, 8.0)
"""Weights to try where columns have bounds, as multiples of what is best without: the cheapest ones
may not suffice."""


@final
@dataclass(frozen=True, eq=False)
class Glance:
    """One rival for each cell, and how much its row weighs: a bound without a search.

    ``program``: the cost over what is possible, without the target; ``cells``: the target;
    ``rivals``: (S,) positions among the rivals, any; ``weights``: (S,), any; negative ones count as
    0; ``spread``: what a full quadratic price means to the columns that the row can move; None
    for others.
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
        """The row as often as that, without repeating anything in memory."""
        case = self.case
        parts = (case.x, case.low, case.high, case.margin)
        return Cases(*(np.broadcast_to(part[0], (count, part.shape[1])) for part in parts))


def blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of rows of so many numbers that fit into the cache."""
    size = max(16, NUMBERS // max(width, 1))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


@final
class View:
    """All cells as one row sees them.

    What is found out is written into the glance.
    """

    def __init__(self, glance: Glance) -> None:
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
        self.pool = self._nearest()
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
