"""Correctness, coverage and similarity: equations (3), (4), (10); and the radius in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from counterpoint.errors import InvalidInput
from counterpoint.groups.membership import Groups
from counterpoint.groups.representations import Stages
from counterpoint.groups.translations import Translations

__all__ = ["Points", "nearest", "similarity"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

FLAT = 12
"""Dimensions up to which a tree is worth it."""
BLOCK = 2**22
"""Distances held at a time."""
POINT = 1e-3
"""Of the extent of all rows: a radius that is not smaller where rows coincide."""
ALIKE = 0.95
"""How much of each group is to be near others of it: the paper's rule."""


@final
@dataclass(frozen=True, eq=False)
class Points:
    """Rows in the representation, by groups; what explanations are judged on.

    Two points are near if they are within the radius, in Euclidean distance; a point is not near
    itself: where both groups are the same, others count.

    Parameters
    ----------
    parts
        The representation.
    hidden
        (n, h) the rows after its affine part.
    groups
        Their groups; each has rows.
    """

    parts: Stages
    hidden: FloatArray
    groups: Groups

    @cached_property
    def values(self) -> FloatArray:
        """(n, m) the representation of the rows."""
        return self.parts.finish(self.hidden)

    @cached_property
    def radius(self) -> float:
        """The least radius within which 95 % of each group are near another of it.

        Where rows of a group coincide, a small share of the extent of all.
        """
        found = POINT * float(np.ptp(self.values, axis=0).max())
        for i in range(len(self.groups)):
            own = self.values[self.groups.rows(i)]
            away = np.sort(nearest(own, own, 2)) if len(own) > 1 else np.zeros(1)
            found = max(found, float(away[int(np.ceil(ALIKE * len(away))) - 1]))
        return found * (1.0 + 1e-9)  # the distance itself is within it, however it is computed

    def rates(self, translations: Translations, radius: float) -> tuple[FloatArray, FloatArray]:
        """Correctness and coverage of each pair.

        Returns
        -------
        tuple
            (l, l) correctness: the share of rows of i, moved to j, that are near a row of j; and
            (l, l) coverage: the share of rows of j that are near a row of i, moved to j.
        """
        count = len(self.groups)
        correctness, coverage = np.empty((2, count, count))
        shift = self.parts.first.matrix[translations.columns]
        for i in range(count):
            rows = self.groups.rows(i)
            for j in range(count):
                moved = self._moved(rows, np.asarray(translations.between(i, j) @ shift))
                there, others = self.values[self.groups.rows(j)], 2 if i == j else 1
                correctness[i, j] = (nearest(moved, there, others) <= radius).mean()
                coverage[i, j] = (nearest(there, moved, others) <= radius).mean()
        return correctness, coverage

    def _moved(self, rows: IntArray, shift: FloatArray) -> FloatArray:
        if not shift.any():
            return self.values[rows]
        return self.parts.finish(self.hidden[rows] + shift)


def nearest(points: FloatArray, among: FloatArray, which: int = 1) -> FloatArray:
    """(n,) the distance of each point to the nearest of others, or to the next one.

    Parameters
    ----------
    points
        (n, m).
    among
        (q, m).
    which
        1 for the nearest, 2 for the next; infinite if there are fewer.
    """
    if points.shape[1] <= FLAT:
        return np.asarray(KDTree(among).query(points, k=[which])[0][:, 0])
    if len(among) < which:
        return np.full(len(points), np.inf)
    found = np.empty(len(points))
    squares, rows = np.einsum("ij,ij->i", among, among), max(1, BLOCK // len(among))
    for i in range(0, len(points), rows):
        part = points[i : i + rows]
        away = squares - 2.0 * part @ among.T + np.einsum("ij,ij->i", part, part)[:, None]
        found[i : i + rows] = np.partition(away, which - 1, axis=1)[:, which - 1]
    return np.sqrt(np.maximum(found, 0.0))


def similarity(sparser: Translations, denser: Translations) -> FloatArray:
    """How much of each explanation uses features that another one uses too, by equation (10).

    Parameters
    ----------
    sparser
        e₁, whose changes are counted.
    denser
        e₂, whose features count.

    Returns
    -------
    ndarray
        (l, l) Σ_f |e₁f| 1[e₂f ≠ 0] / ‖e₁‖₁ of each pair; 1 where e₁ changes nothing.

    Raises
    ------
    InvalidInput
        If they are about other groups or features.
    """
    if sparser.groups != denser.groups or sparser.names != denser.names:
        raise InvalidInput(
            "Expected translations of the same groups and features; got others. Fit both on the "
            "same columns and labels."
        )
    shared = np.ones((len(sparser.groups),) * 2)
    for i, j in sparser.pairs:
        one, other = np.zeros((2, len(sparser.names)))
        one[sparser.columns] = np.abs(sparser.between(i, j))
        other[denser.columns] = denser.between(i, j)
        if one.any():
            shared[i, j] = one[other != 0.0].sum() / one.sum()
    return shared
