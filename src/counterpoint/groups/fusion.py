"""The pairwise-fused penalty of one explanation for all pairs, exactly.

An explanation is offsets D (l, d), a row for each group; the change from group i to group j is
D_j − D_i. Each feature f is charged w_f Σ_{i<j} |D_jf − D_if|, and no change of it may be larger
than its reach. Only differences count, so that each column may be shifted until it lies between
minus and plus half of the reach: a bound on all changes is, exactly, a box on the offsets. Of a
feature that may only rise from each group to the next, the offsets are in that order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

__all__ = ["Fusion", "rising"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Fusion:
    """The penalty λ Σ_f w_f Σ_{i<j} |v_j − v_i| of the columns v of D, with what they may be.

    Parameters
    ----------
    groups
        l, the number of rows.
    weight
        (d,) w, positive.
    reach
        (d,) the largest change; 0 for a feature that stays, infinite for a free one.
    course
        (d,) 1 for a feature that may only rise from each group to the next, −1 for one that may
        only fall, 0 for others.
    """

    groups: int
    weight: FloatArray
    reach: FloatArray
    course: IntArray

    def of(self, columns: IntArray) -> Fusion:
        """The penalty of some columns."""
        return Fusion(self.groups, self.weight[columns], self.reach[columns], self.course[columns])

    @cached_property
    def ranks(self) -> FloatArray:
        """(l,) how many entries are smaller, less how many are larger, in ascending order."""
        return np.arange(1.0 - self.groups, self.groups, 2.0)

    @cached_property
    def cuts(self) -> FloatArray:
        """(l − 1,) m (l − m): how many pairs a split into the first m and the rest separates."""
        first = np.arange(1.0, self.groups)
        return first * (self.groups - first)

    def value(self, D: FloatArray) -> float:
        """Σ_f w_f Σ_{i<j} |D_jf − D_if|."""
        return float((self.ranks @ np.sort(D, axis=0)) @ self.weight)

    def prox(self, V: FloatArray, step: float) -> FloatArray:
        """The columns v within their bounds of least ½‖v − V‖² + step w Σ_{i<j} |v_j − v_i|.

        In ascending order the penalty is linear, so that what is left is isotonic regression; and
        the best within a box is the best, clipped to it.
        """
        rows = (V * self._sign).T if self._turned else V.T
        places = np.argsort(rows, axis=1, kind="stable")
        if self._bound.any():
            places[self._bound] = np.arange(self.groups)
        flat = places + self._begins
        target = rows.ravel()[flat] - step * self._charges
        half = self.reach[:, None] / 2.0
        found = np.empty(target.size)
        found[flat.ravel()] = np.clip(rising(target), -half, half).ravel()
        fitted = found.reshape(target.shape).T
        return fitted * self._sign if self._turned else fitted

    def nearest(self, V: FloatArray) -> FloatArray:
        """The columns within their bounds that are nearest to those of V."""
        if self._bound.any():
            return self.prox(V, 0.0)
        return np.clip(V, -self.reach / 2.0, self.reach / 2.0)

    @cached_property
    def _sign(self) -> FloatArray:
        return np.where(self.course < 0, -1.0, 1.0)

    @cached_property
    def _turned(self) -> bool:
        return bool((self.course < 0).any())

    @cached_property
    def _bound(self) -> NDArray[np.bool_]:
        return self.course != 0

    @cached_property
    def _begins(self) -> IntArray:
        return self.groups * np.arange(len(self.weight))[:, None]

    @cached_property
    def _charges(self) -> FloatArray:
        return self.weight[:, None] * self.ranks

    def pulls(self, G: FloatArray) -> FloatArray:
        """(l − 1, d) how much a pull G, of column sums 0, gains per unit of each split.

        The offsets of the m groups that are pulled up most rise against those of the rest.
        """
        G = np.where(self.course < 0, -G, G)
        free = self.course == 0
        G[:, free] = np.sort(G[:, free], axis=0)
        return np.cumsum(G[::-1], axis=0)[:-1]

    def excess(self, G: FloatArray, strength: float) -> FloatArray:
        """(d,) how far a pull exceeds what keeps a column at zero; negative where it stays.

        A column stays at zero if and only if no split gains more than it costs.
        """
        costs = strength * self.weight * self.cuts[:, None]
        excess = (self.pulls(G) - costs).max(axis=0)
        return np.where(self.reach > 0.0, excess, -np.inf)

    def critical(self, G: FloatArray) -> float:
        """The least λ for which D = 0 withstands a pull."""
        worth = (self.pulls(G) / self.cuts[:, None]).max(axis=0) / self.weight
        movable = worth[self.reach > 0.0]
        return float(movable.max(initial=0.0))

    def conjugate(self, G: FloatArray, strength: float) -> float:
        """The largest ⟨G, D⟩ − λ value(D) over the D within their bounds; G has column sums 0.

        It is convex and, order by order, linear, so that it is largest at a split with all of the
        reach between its sides.
        """
        excess = np.maximum(self.excess(G, strength), 0.0)
        positive = excess > 0.0
        return float(excess[positive] @ self.reach[positive])


def rising(T: FloatArray) -> FloatArray:
    """(d, l) the non-decreasing rows nearest to those of T (least squares).

    All rows are one isotonic regression, each above the one before, so that none is pooled with
    another; entries of a pool are equal to the last bit.
    """
    count, width = T.shape
    if not count:
        return T.copy()
    low = T.min(axis=1, keepdims=True)
    span = T.max(axis=1, keepdims=True) - low
    span[span == 0.0] = 1.0
    level = (T - low) / span + 2.0 * np.arange(count)[:, None]
    blocks = isotonic_regression(level.ravel()).blocks[:-1]
    starts = np.zeros(T.size, dtype=bool)
    starts[blocks] = True
    starts[::width] = True
    inner = np.arange(T.size) % width > 0
    while True:
        begins = np.flatnonzero(starts)
        ends = np.append(begins[1:], T.size)
        means = np.add.reduceat(T.ravel(), begins) / (ends - begins)
        # What rounding in common units kept apart is pooled in the row's own.
        falls = np.flatnonzero((means[1:] <= means[:-1]) & inner[begins[1:]])
        if not len(falls):
            return np.repeat(means, ends - begins).reshape(T.shape)
        starts[begins[1:][falls]] = False
