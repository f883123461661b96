"""What a search leaves behind, and the lower bounds that follow from it by weak duality alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.costs import Price
from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.numerics import BoolArray, FloatArray, IntArray

__all__ = ["Bounding", "Evidence", "Leads", "RowEvidence", "Spread"]


CLOSED = 1e-9
"""A relative gap below which nothing is left to prove."""


class Bounding(ABC):
    """What bounds the objectives of some rows from below, however it was found."""

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether the search looks for local optima, so that a gap may remain."""

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

    @property
    def is_local(self) -> bool:
        return bool(self.program.nonconvex)

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
class RowEvidence(Bounding):
    """What is known of each row by itself.

    Parameters
    ----------
    rows
        For each row what bounds each of its pieces.
    """

    rows: Sequence[Sequence[Bounding]]

    @property
    def is_local(self) -> bool:
        return False

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        proved, best = np.full((2, len(reached)), np.inf)
        for i, pieces in enumerate(self.rows):
            for piece in pieces:
                part = None if margin is None else margin[i : i + 1]
                bound, told = piece.bounds(reached[i : i + 1], part)
                proved[i], best[i] = min(proved[i], bound[0]), min(best[i], told[0])
        return proved, best


class Leads(ABC):
    """What the lead of an answer has to be, however it was chosen, for each of n rows."""

    @abstractmethod
    def take(self, rows: IntArray | BoolArray) -> Leads:
        """That of some rows."""

    @abstractmethod
    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        """(n,) the leads of points (n, d) that cost (n,), in score units."""


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
