"""Correctness, coverage and similarity: equations (3), (4), (10); and the radius in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.groups.membership import Groups
from counterpoint.groups.neighbours import Neighbours
from counterpoint.groups.representations import Stages
from counterpoint.groups.translations import Translations

__all__ = ["Points", "similarity"]

FloatArray = NDArray[np.float64]

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
        for own in self._groups:
            away = np.sort(own.distances(own.points, 2)) if len(own.points) > 1 else np.zeros(1)
            found = max(found, float(away[int(np.ceil(ALIKE * len(away))) - 1]))
        return found * (1.0 + 1e-9)  # the distance itself is within it, however it is computed

    def rates(
        self, translations: Translations, radius: float, *, diagonal: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Correctness and coverage of each pair.

        Parameters
        ----------
        translations
            The explanation.
        radius
            ε.
        diagonal
            Whether each group and itself are a pair; NaN there if not.

        Returns
        -------
        tuple
            (l, l) correctness: the share of rows of i, moved to j, that are near a row of j; and
            (l, l) coverage: the share of rows of j that are near a row of i, moved to j.
        """
        count = len(self.groups)
        correctness, coverage = np.full((2, count, count), np.nan)
        matrix = self.parts.first.matrix[translations.columns]
        for i, own in enumerate(self._groups):
            for j, other in enumerate(self._groups):
                if i == j and not diagonal:
                    continue
                shift = np.asarray(translations.between(i, j) @ matrix)
                moved, which = self._moved(i, shift), 2 if i == j else 1
                correctness[i, j] = other.near(moved, radius, which).mean()
                if self.parts.rest is not None:
                    there = Neighbours(moved) if shift.any() else own
                    coverage[i, j] = there.near(other.points, radius, which).mean()
        if self.parts.rest is None:  # moved rows are as near as the others are that move back
            return correctness, correctness.T.copy()
        return correctness, coverage

    def _moved(self, group: int, shift: FloatArray) -> FloatArray:
        """The rows of a group as they are seen after a shift of what the affine part gives."""
        if not shift.any():
            return self._groups[group].points
        return self.parts.finish(self.hidden[self.groups.rows(group)] + shift)

    @cached_property
    def _groups(self) -> tuple[Neighbours, ...]:
        return tuple(Neighbours(self.values[self.groups.rows(i)]) for i in range(len(self.groups)))


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
        (l, l) ``Σ_f |e₁f| 1[e₂f ≠ 0] / ‖e₁‖₁`` of each pair; 1 where e₁ changes nothing.

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
