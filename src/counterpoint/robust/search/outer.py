"""Pieces with conditions that are known by their half-spaces: chance constraints, and leads.

Each row has half-spaces of its own, and some conditions are about one row alone: so rows are taken
one after the other, see `counterpoint.robust.search.approach`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.evidence import Bounding, RowEvidence
from counterpoint.engine.frontier import Frontier, Way
from counterpoint.engine.pieces import Piece
from counterpoint.engine.region import Region
from counterpoint.robust.search.approach import Approach

__all__ = ["Outer"]

FloatArray = NDArray[np.float64]


@final
class Outer(Way):
    """Pieces with conditions that no solver takes, one row after the other.

    Parameters
    ----------
    frontier
        The search.
    pieces
        The union; the time of each row is shared evenly among them.
    beside
        What each row has to meet besides; None for nothing.
    """

    def __init__(
        self, frontier: Frontier, pieces: tuple[Piece, ...], beside: Sequence[Region] | None = None
    ) -> None:
        self.frontier, self.pieces, self.beside = frontier, pieces, beside
        self.effort = frontier.effort.shared(len(pieces))
        self.known: list[list[Bounding]] = []

    def evidence(self) -> list[Bounding]:
        return [RowEvidence(self.known)]

    def run(self) -> None:
        self.frontier.closed[:] = False
        for i in range(len(self.frontier.cases)):
            self.known.append([self._approach(i, s) for s in range(len(self.pieces))])

    def _approach(self, i: int, s: int) -> Bounding:
        """One row in one piece; the best that bounds it."""
        frontier, piece, row = self.frontier, self.pieces[s], np.array([i])
        if self.beside is not None:
            piece = piece.within(self.beside[i])
        approach = Approach(piece, piece.sees(frontier.cases).take(row), self.effort)
        approach.run(float(frontier.worth_beating()[i]))
        frontier.limited[i] |= approach.limited
        if approach.point is not None:
            frontier.offer(s, row, approach.point, np.array([approach.cost]))
        return approach.best
