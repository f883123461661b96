"""How far the nearest of some points is, and whether it is near enough."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

__all__ = ["Neighbours"]

FloatArray = NDArray[np.float64]

FLAT = 12
"""Dimensions up to which a tree is worth it."""
BLOCK = 2**22
"""Distances held at a time."""


@final
@dataclass(frozen=True, eq=False)
class Neighbours:
    """Points that others are held against, in Euclidean distance.

    Parameters
    ----------
    points
        (q, m).
    """

    points: FloatArray

    def distances(self, others: FloatArray, which: int = 1) -> FloatArray:
        """(n,) how far the nearest point is, or the next one.

        Parameters
        ----------
        others
            (n, m).
        which
            1 for the nearest, 2 for the next; infinite if there are fewer.
        """
        return self._within(others, which, np.inf)

    def near(self, others: FloatArray, radius: float, which: int = 1) -> NDArray[np.bool_]:
        """(n,) whether that point is within the radius; parameters are those of `distances`."""
        reach = np.nextafter(radius, np.inf)  # trees look for what is nearer than that
        return self._within(others, which, float(reach)) <= radius

    def _within(self, others: FloatArray, which: int, reach: float) -> FloatArray:
        if others.shape[1] <= FLAT:
            found = self._tree.query(others, k=[which], distance_upper_bound=reach)[0]
            return np.asarray(found[:, 0])
        if len(self.points) < which:
            return np.full(len(others), np.inf)
        away = np.empty(len(others))
        rows = max(1, BLOCK // len(self.points))
        for i in range(0, len(others), rows):
            part = others[i : i + rows]
            squares = self._squares - 2.0 * part @ self.points.T
            if which > 1:
                squares.partition(which - 1, axis=1)
                squares = squares[:, which - 1 :]
            away[i : i + rows] = squares.min(axis=1) + np.einsum("ij,ij->i", part, part)
        return np.sqrt(np.maximum(away, 0.0))

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.points)

    @cached_property
    def _squares(self) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->i", self.points, self.points))
