"""What a search knows of each row, and the order in which it takes up the pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.engine.cases import Cases
from counterpoint.engine.evidence import Bounding
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.solvers import Effort

__all__ = ["Findings", "Frontier", "Way"]


@final
@dataclass(frozen=True, eq=False)
class Findings:
    """What a search found.

    Parameters
    ----------
    points
        (n, d) the cheapest points; NaN where there is none.
    piece
        (n,) the piece of each point; −1 where there is none.
    evidence
        What bounds every piece from below.
    limited
        (n,): whether time ran out.
    closed
        (n,): whether closed forms alone settled the row.
    """

    points: FloatArray
    piece: IntArray
    evidence: Sequence[Bounding]
    limited: BoolArray
    closed: BoolArray


@final
class Frontier:
    """The best points so far, and which pieces may still hold better ones.

    Parameters
    ----------
    cases
        The people.
    effort
        When to stop.
    reached
        (n,) costs that are reached already; None for none.
    """

    def __init__(self, cases: Cases, effort: Effort, reached: FloatArray | None = None) -> None:
        n = len(cases)
        self.cases, self.effort = cases, effort
        self.points = np.full(cases.x.shape, np.nan)
        self.piece = np.full(n, -1, dtype=np.intp)
        self.cost = np.full(n, np.inf) if reached is None else np.array(reached)
        self.limited = np.zeros(n, dtype=bool)
        self.closed = np.ones(n, dtype=bool)

    def worth_beating(self) -> FloatArray:
        """(n,) a piece with a bound from here on is not searched."""
        none = np.isinf(self.cost)
        return np.where(none, np.inf, np.where(none, 0.0, self.cost) * (1.0 - self.effort.gap))

    def offer(self, s: int, rows: IntArray, points: FloatArray, cost: FloatArray) -> None:
        """Points of a piece; the ones that are cheaper are kept."""
        better = np.flatnonzero(cost < self.cost[rows])
        self.points[rows[better]] = points[better]
        self.piece[rows[better]] = s
        self.cost[rows[better]] = cost[better]

    def run(self, way: Way) -> Findings:
        """Search, and say what was found."""
        way.run()
        return Findings(self.points, self.piece, way.evidence(), self.limited, self.closed)


class Way(ABC):
    """How pieces are bounded and solved."""

    @abstractmethod
    def run(self) -> None:
        """Search all pieces for all rows."""

    @abstractmethod
    def evidence(self) -> Sequence[Bounding]:
        """What bounds every piece from below."""
