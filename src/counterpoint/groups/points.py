"""Rows of groups in the representation, and what can be measured there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from counterpoint.groups.representations import Composed, Matrix, dense
from counterpoint.groups.tables import Groups
from counterpoint.groups.translations import Translations
from counterpoint.numerics import FloatArray, IntArray

__all__ = ["Points", "away", "outside"]


@final
@dataclass(frozen=True, eq=False)
class Points:
    """Rows of groups, in the representation; each row belongs to a group, each group has rows.

    Two points are near if they are within the radius, in Euclidean distance; a point is not near
    itself: where both groups are the same, others count.
    """

    matrix: Matrix
    groups: Groups
    parts: Composed
    hidden: FloatArray
    """(n, h) the rows after the affine part of the representation."""

    @classmethod
    def of(cls, matrix: Matrix, groups: Groups, parts: Composed) -> Points:
        """The rows (n, d) that belong to a group, in the representation."""
        known = np.flatnonzero(groups.member >= 0)
        matrix = matrix[known]
        return cls(matrix, groups.take(known), parts, parts.hidden(matrix))

    def take(self, rows: IntArray) -> Points:
        """Some of the points."""
        return Points(self.matrix[rows], self.groups.take(rows), self.parts, self.hidden[rows])

    @cached_property
    def values(self) -> FloatArray:
        """(n, m) the representation of the rows."""
        return self.parts.finish(self.hidden)

    @cached_property
    def members(self) -> tuple[IntArray, ...]:
        """The rows of each group."""
        return tuple(self.groups.rows(i) for i in range(len(self.groups)))

    @cached_property
    def near(self) -> tuple[Neighbours, ...]:
        """The points of each group, to measure distances to."""
        return tuple(Neighbours(self.values[rows]) for rows in self.members)

    def cells(self, columns: IntArray) -> list[FloatArray]:
        """The cells of some columns, group by group."""
        return [dense(self.matrix[rows][:, columns]) for rows in self.members]

    @cached_property
    def radius(self) -> float:
        """The least radius within which 95 % of each group are near another of it: the paper's.

        Where rows of a group coincide, a thousandth of the extent of all.
        """
        found = 1e-3 * float(np.ptp(self.values, axis=0).max())
        for own in self.near:
            apart = np.sort(own.distances(own.points, 2)) if len(own.points) > 1 else np.zeros(1)
            found = max(found, float(apart[int(np.ceil(0.95 * len(apart))) - 1]))
        return found * (1.0 + 1e-9)  # the distance itself is within it, however it is computed

    def rates(
        self, translations: Translations, radius: float, *, diagonal: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """(l, l) correctness and coverage; without ``diagonal``, NaN for a group and itself."""
        count = len(self.groups)
        correctness, coverage = np.full((2, count, count), np.nan)
        matrix = self.parts.first.matrix[translations.columns]
        for i, own in enumerate(self.near):
            for j, other in enumerate(self.near):
                if i == j and not diagonal:
                    continue
                shift, which = np.asarray(translations.between(i, j) @ matrix), 2 if i == j else 1
                moved = own
                if shift.any():
                    moved = Neighbours(self.parts.finish(self.hidden[self.members[i]] + shift))
                correctness[i, j] = other.within(moved.points, radius, which).mean()
                if self.parts.rest is not None:
                    coverage[i, j] = moved.within(other.points, radius, which).mean()
        if self.parts.rest is None:  # moved rows are as near as the others are that move back
            return correctness, correctness.T.copy()
        return correctness, coverage

    def keys(self, extent: float) -> list[bytes]:
        """Each row in the representation as something to compare, to nine digits."""
        return [row.tobytes() for row in np.round(self.values / extent, 9) + 0.0]


@final
class Neighbours:
    """Points (q, m), and the Euclidean distances of others to the nearest of them."""

    def __init__(self, points: FloatArray) -> None:
        self.points = points

    def distances(self, others: FloatArray, which: int = 1, most: float = np.inf) -> FloatArray:
        """(n,) how far the nearest point is (the next one, for 2); infinite from ``most`` on."""
        if others.shape[1] <= 12:  # in more dimensions, a tree looks at most points anyway
            found = self._tree.query(others, k=[which], distance_upper_bound=most)[0]
            return np.asarray(found[:, 0])
        if len(self.points) < which:
            return np.full(len(others), np.inf)
        apart = np.empty(len(others))
        rows = max(1, 2**22 // len(self.points))  # 32 MB of distances at a time
        for i in range(0, len(others), rows):
            part = others[i : i + rows]
            squares = self._squares - 2.0 * part @ self.points.T
            if which > 1:
                squares.partition(which - 1, axis=1)
                squares = squares[:, which - 1 :]
            apart[i : i + rows] = squares.min(axis=1) + np.einsum("ij,ij->i", part, part)
        return np.sqrt(np.maximum(apart, 0.0))

    def within(self, others: FloatArray, radius: float, which: int = 1) -> NDArray[np.bool_]:
        """(n,) whether that point is within the radius."""
        most = float(np.nextafter(radius, np.inf))  # trees look for what is nearer than that
        return self.distances(others, which, most) <= radius

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.points)

    @cached_property
    def _squares(self) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->i", self.points, self.points))


def outside(
    translations: Translations, points: Points, low: FloatArray, high: FloatArray
) -> FloatArray:
    """(l, l) the share of changed values that leave the range (d,) of each feature."""
    columns = translations.columns
    low, high = low[columns], high[columns]
    slack = 1e-12 * np.maximum(np.abs(low), np.abs(high))  # rounding of moved values
    cells = points.cells(columns)

    def share(i: int, j: int) -> float:
        change = translations.between(i, j)
        moved = cells[i] + change
        out = (moved < low - slack) | (moved > high + slack)
        return float(out[:, change != 0.0].mean()) if change.any() else 0.0

    return translations.over_pairs(share)


def away(translations: Translations, points: Points, scale: FloatArray) -> FloatArray:
    """(l, l) how far moved rows are from the nearest real one, in units of how far those are.

    Distances are Euclidean over all features in units of ``scale``; the median of the rows of i,
    moved to j, to the nearest of j, over the median of the rows of j to the nearest other. Of each
    group, 10 to 500 rows, so that all pairs take two billion products at most.
    """
    width, count = points.matrix.shape[1], len(points.groups)
    most = int(np.clip(int(np.sqrt(2e9 / max(1, width * count * count))), 10, 500))
    shown = points.take(points.groups.thinned(most))
    some = [cells / scale for cells in shown.cells(np.arange(width))]
    real = [Neighbours(cells) for cells in some]
    usual = [float(np.median(own.distances(own.points, 2))) for own in real]

    def ratio(i: int, j: int) -> float:
        shift = np.zeros(width)
        shift[translations.columns] = translations.between(i, j)
        apart = float(np.median(real[j].distances(some[i] + shift / scale)))
        return apart / usual[j] if usual[j] > 0.0 else np.nan

    return translations.over_pairs(ratio, same=1.0)
