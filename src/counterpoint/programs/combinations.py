"""Combinations of values that do not occur: a point is in none of them, unless its row is.

A *combination* is an intersection of literals: the category of a feature is in a set, or a number
lies strictly between two ends. So the complement of a literal is closed, and a search can branch on
literals: in one part the first fails, in another it holds and the second fails, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.numerics import MISSING, BoolArray, FloatArray, IntArray
from counterpoint.programs.region import Condition


@final
@dataclass(frozen=True, eq=False)
class ForbiddenCombinations(Condition):
    """y is in none of K combinations, except one whose columns are all as in x.

    A number that is missing is in no combination with a literal for it. No solver has to know the
    condition: `counterpoint.search.combinations` branches on the literals.
    """

    # (K, d) the columns for which each combination has a literal: all of a one-hot group, or none
    has_literal: BoolArray
    # (K, d) the columns that may be 1: of categories in its sets, and all without a literal
    options: BoolArray
    # low, high: (K, d) the ends between which numbers are; infinite where there is none
    low: FloatArray
    high: FloatArray
    # (K, d): whether the float32 next to an end counts as the end, and so as outside
    singles: BoolArray

    @classmethod
    def joined(cls, conditions: Sequence[ForbiddenCombinations]) -> ForbiddenCombinations:
        """Return a condition with the combinations of all."""
        names = (field.name for field in fields(cls))
        return cls(*(np.concatenate([getattr(c, name) for c in conditions]) for name in names))

    @cached_property
    def _excluded(self) -> tuple[IntArray, FloatArray]:
        """The columns that some combination's sets lack, and which combinations, (columns, K)."""
        columns = np.flatnonzero(~self.options.all(axis=0))
        return columns, np.ascontiguousarray(~self.options[:, columns].T, dtype=np.float32)

    @cached_property
    def _numbers(self) -> tuple[tuple[int, IntArray], ...]:
        """The columns of numbers with literals, and the combinations that have one for each."""
        has_end = np.isfinite(self.low) | np.isfinite(self.high)
        columns = np.flatnonzero(has_end.any(axis=0)).tolist()
        return tuple((j, np.flatnonzero(has_end[:, j])) for j in columns)

    def hold(self, low: FloatArray, high: FloatArray) -> BoolArray:
        """Return which combinations hold all points of boxes, (n, K); low and high are (n, d)."""
        columns, excluded = self._excluded
        # no category that a box still has is outside of the combination's set
        out = np.asarray((high[:, columns] > 0.5).astype(np.float32) @ excluded == 0.0)
        for j, combinations in self._numbers:
            least, most = low[:, [j]], high[:, [j]]
            below, above = self.low[combinations, j], self.high[combinations, j]
            inside = (np.isneginf(below) | (least > below)) & (np.isposinf(above) | (most < above))
            with np.errstate(over="ignore"):
                ends = least == below.astype(np.float32), least == above.astype(np.float32)
            is_end = (least == most) & (ends[0] | ends[1]) & self.singles[combinations, j]
            out[:, combinations] &= inside & ~is_end & (least != MISSING)
        return out

    def forbid(self, low: FloatArray, high: FloatArray, x: FloatArray) -> BoolArray:
        """Return which combinations exclude all points of boxes, (n, K), for rows x (n, d).

        They hold the box, and it differs from x in some column for which they have a literal.
        """
        out = self.hold(low, high)
        rows = np.flatnonzero(out.any(axis=1))
        if len(rows):
            differs = ((x[rows] < low[rows]) | (x[rows] > high[rows])).astype(np.float32)
            out[rows] &= differs @ self.has_literal.astype(np.float32).T > 0.0
        return out

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return np.asarray(self.forbid(y, y, x).any(axis=1), dtype=np.float64)
