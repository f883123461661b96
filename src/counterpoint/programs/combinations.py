"""Combinations of values that do not occur: a point is in none of them, unless its row is.

A *combination* is an intersection of literals: the category of a feature is in a set, or a number
lies strictly between two ends. So the complement of a literal is closed, and a search can branch on
them: in one part the first fails, in another it holds and the second fails, and so on.
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
    """y is in none of K combinations, but where all that one speaks of is as in x.

    A number that is missing is in no combination that speaks of it. No search has to know the
    condition: `counterpoint.search.combinations` branches on what it forbids.
    """

    # (K, d) the columns that each combination speaks of: all of a group of categories, or none
    speaks: BoolArray
    # (K, d) the columns of categories that it holds, and all others that it does not speak of
    options: BoolArray
    # low, high: (K, d) the ends between which numbers are; infinite where there is none
    low: FloatArray
    high: FloatArray
    # (K, d): whether the nearest number of single precision is as good as an end itself
    singles: BoolArray

    @classmethod
    def joined(cls, conditions: Sequence[ForbiddenCombinations]) -> ForbiddenCombinations:
        """The combinations of all of them."""
        names = (field.name for field in fields(cls))
        return cls(*(np.concatenate([getattr(c, name) for c in conditions]) for name in names))

    @cached_property
    def _excluded(self) -> tuple[IntArray, FloatArray]:
        """Columns of categories that some combination lacks; (columns, K) which of them lack it."""
        columns = np.flatnonzero(~self.options.all(axis=0))
        return columns, np.ascontiguousarray(~self.options[:, columns].T, dtype=np.float32)

    @cached_property
    def _numbers(self) -> tuple[tuple[int, IntArray], ...]:
        """Columns of numbers, and the combinations that speak of each."""
        spoken = np.isfinite(self.low) | np.isfinite(self.high)
        columns = np.flatnonzero(spoken.any(axis=0)).tolist()
        return tuple((j, np.flatnonzero(spoken[:, j])) for j in columns)

    def hold(self, low: FloatArray, high: FloatArray) -> BoolArray:
        """(n, K): which combinations hold all points of n boxes; low and high are (n, d)."""
        columns, excluded = self._excluded
        out = np.asarray((high[:, columns] > 0.5).astype(np.float32) @ excluded == 0.0)
        for j, which in self._numbers:
            least, most = low[:, [j]], high[:, [j]]
            below, above = self.low[which, j], self.high[which, j]
            inside = (np.isneginf(below) | (least > below)) & (np.isposinf(above) | (most < above))
            with np.errstate(over="ignore"):
                ends = least == below.astype(np.float32), least == above.astype(np.float32)
            is_end = (least == most) & (ends[0] | ends[1]) & self.singles[which, j]
            out[:, which] &= inside & ~is_end & (least != MISSING)
        return out

    def forbid(self, low: FloatArray, high: FloatArray, x: FloatArray) -> BoolArray:
        """(n, K): which combinations exclude all points of boxes, as answers to rows x (n, d)."""
        out = self.hold(low, high)
        held = np.flatnonzero(out.any(axis=1))
        if len(held):
            differs = ((x[held] < low[held]) | (x[held] > high[held])).astype(np.float32)
            out[held] &= differs @ self.speaks.astype(np.float32).T > 0.0
        return out

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return np.asarray(self.forbid(y, y, x).any(axis=1), dtype=np.float64)
