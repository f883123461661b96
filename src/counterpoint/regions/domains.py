"""Conditions on features one by one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.regions.base import EPS, TINY, Domain

__all__ = ["AtMost", "Box", "OneOf", "Transitions", "Whole"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Box(Domain):
    """low <= y <= high and least <= y − x <= most, for each column.

    Parameters
    ----------
    low, high
        (d,) absolute bounds, infinite where there is none, in feature units.
    least, most
        (d,) bounds on the change, infinite where there is none, in feature units.
    """

    low: FloatArray
    high: FloatArray
    least: FloatArray
    most: FloatArray

    @classmethod
    def unbounded(cls, d: int) -> Box:
        """No bound on any of d columns."""
        return cls(np.full(d, -np.inf), np.full(d, np.inf), np.full(d, -np.inf), np.full(d, np.inf))

    def meet(self, other: Box) -> Box:
        """The intersection of two boxes."""
        return Box(
            np.maximum(self.low, other.low),
            np.minimum(self.high, other.high),
            np.maximum(self.least, other.least),
            np.minimum(self.most, other.most),
        )

    def bounds(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, d) smallest and largest values that the rows of x may take."""
        low = np.where(self.least == 0.0, x, x + self.least)
        high = np.where(self.most == 0.0, x, x + self.most)
        return np.maximum(low, self.low), np.minimum(high, self.high)

    @cached_property
    def is_unbounded(self) -> bool:
        """Whether no column has a bound."""
        absolute = np.isinf(self.low).all() and np.isinf(self.high).all()
        return bool(absolute and np.isinf(self.least).all() and np.isinf(self.most).all())

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        if self.is_unbounded:
            return np.zeros(len(y))
        change = np.abs(y - x)
        worst = np.zeros(len(y))
        for bound, sign in zip(self.bounds(x), (-1.0, 1.0), strict=True):
            with np.errstate(invalid="ignore"):
                rounding = 8.0 * EPS * np.maximum(np.abs(x), np.abs(y))
                over = np.maximum(sign * (y - bound) - rounding, 0.0)
                size = np.maximum(np.abs(bound), np.abs(y))
                size = np.minimum(size, np.maximum(np.abs(bound - x), change))
            share = np.where(over > 0, over / np.maximum(size, TINY), 0.0)
            worst = np.maximum(worst, share.max(axis=1, initial=0.0))
        return worst


@final
@dataclass(frozen=True, eq=False)
class Whole(Domain):
    """y − x is a whole number of steps, for these columns.

    Parameters
    ----------
    columns
        (k,) encoded columns.
    steps
        (k,) the size of one step, in feature units.
    """

    columns: IntArray
    steps: FloatArray

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        delta = y[:, self.columns] - x[:, self.columns]
        off = np.abs(delta - np.round(delta / self.steps) * self.steps)
        rounding = 4.0 * EPS * (np.abs(y[:, self.columns]) + np.abs(x[:, self.columns]))
        return np.asarray((np.maximum(off - rounding, 0.0) / self.steps).max(axis=1, initial=0.0))


@final
@dataclass(frozen=True, eq=False)
class OneOf(Domain):
    """Exactly one of these columns is 1 and the others are 0: a category.

    Parameters
    ----------
    columns
        The encoded columns of one categorical feature.
    """

    columns: slice

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        block = y[:, self.columns]
        fractional = np.minimum(np.abs(block), np.abs(1.0 - block)).max(axis=1)
        return np.maximum(fractional, np.abs(block.sum(axis=1) - 1.0))


@final
@dataclass(frozen=True, eq=False)
class Transitions(Domain):
    """Which category may become which, for one categorical feature.

    Parameters
    ----------
    columns
        The encoded columns of the feature, c of them.
    allowed
        (c, c) boolean: row = the factual category, column = the new one.
    """

    columns: slice
    allowed: NDArray[np.bool_]

    def permitted(self, x: FloatArray) -> FloatArray:
        """(n, c): 1 where the category may be chosen, else 0."""
        return np.asarray(self.allowed[x[:, self.columns].argmax(axis=1)], dtype=np.float64)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        over = y[:, self.columns] - self.permitted(x)
        return np.asarray(np.maximum(over, 0.0).max(axis=1))


@final
@dataclass(frozen=True, eq=False)
class AtMost(Domain):
    """At most ``count`` of the features differ between x and y.

    Parameters
    ----------
    count
        The largest number of changed features.
    blocks
        The encoded columns of each feature that counts.
    """

    count: int
    blocks: tuple[slice, ...]

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        changed = self.changed(y, x).sum(axis=1)
        return np.maximum(changed - self.count, 0).astype(np.float64)

    def changed(self, y: FloatArray, x: FloatArray) -> NDArray[np.bool_]:
        """(n, number of blocks): which features differ."""
        differs = y != x
        return np.stack([differs[:, block].any(axis=1) for block in self.blocks], axis=1)
