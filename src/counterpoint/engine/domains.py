"""Conditions on features one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.region import Domain
from counterpoint.numerics import EPS, MISSING, FloatArray, IntArray, relative

__all__ = ["INTEGRAL", "AtMost", "Box", "OneOf", "Transitions", "Whole"]


@final
@dataclass(frozen=True, eq=False)
class Box(Domain):
    """Intervals for y that may depend on x, for each column.

    They are low <= y <= high, least <= y − x <= most and min(soft_low, x) <= y <= max(soft_high,
    x): a soft bound is none to a row that lies beyond it, which may stay or come nearer.
    """

    # low, high: (d,) absolute bounds, infinite where there is none, in feature units
    low: FloatArray
    high: FloatArray
    # least, most: (d,) bounds on the change, infinite where there is none, in feature units
    least: FloatArray
    most: FloatArray
    # soft_low, soft_high: (d,) bounds that give way to the factual value, infinite where there is
    # none, in feature units; none by default
    soft_low: FloatArray = field(default_factory=lambda: np.array(-np.inf))
    soft_high: FloatArray = field(default_factory=lambda: np.array(np.inf))

    @classmethod
    def unbounded(cls, d: int) -> Box:
        """No bound on any of d columns."""
        return cls(*(np.full(d, end) for _ in range(3) for end in (-np.inf, np.inf)))

    def meet(self, other: Box) -> Box:
        """The intersection of two boxes."""
        return Box(
            np.maximum(self.low, other.low),
            np.minimum(self.high, other.high),
            np.maximum(self.least, other.least),
            np.minimum(self.most, other.most),
            np.maximum(self.soft_low, other.soft_low),
            np.minimum(self.soft_high, other.soft_high),
        )

    def bounds(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, d) smallest and largest values that the rows of x may take.

        Where they are the same for all rows, they are one row that is repeated, and no copies.
        """
        low, high = self._ends
        if self._gives_way and ((x < self.soft_low) | (x > self.soft_high)).any():
            low = np.maximum(self.low, np.minimum(self.soft_low, x))
            high = np.minimum(self.high, np.maximum(self.soft_high, x))
        if np.isfinite(self.least).any() or np.isfinite(self.most).any():
            low = np.maximum(low, np.where(self.least == 0.0, x, x + self.least))
            high = np.minimum(high, np.where(self.most == 0.0, x, x + self.most))
        gone = x == MISSING
        if gone.any():  # what is missing stays so
            low, high = np.where(gone, x, low), np.where(gone, x, high)
        return np.broadcast_to(low, x.shape), np.broadcast_to(high, x.shape)

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """(d,) the bounds of a row that lies within all soft ones and may change by any amount."""
        return np.maximum(self.low, self.soft_low), np.minimum(self.high, self.soft_high)

    @cached_property
    def _gives_way(self) -> bool:
        """Whether any bound is soft."""
        return bool(np.isfinite(self.soft_low).any() or np.isfinite(self.soft_high).any())

    @cached_property
    def below(self) -> NDArray[np.bool_]:
        """(d,): which columns have a bound from below."""
        return np.isfinite(self.low) | np.isfinite(self.least) | np.isfinite(self.soft_low)

    @cached_property
    def above(self) -> NDArray[np.bool_]:
        """(d,): which columns have a bound from above."""
        return np.isfinite(self.high) | np.isfinite(self.most) | np.isfinite(self.soft_high)

    @cached_property
    def is_unbounded(self) -> bool:
        """Whether no column has a bound."""
        return not (self.below.any() or self.above.any())

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        if self.is_unbounded:
            return np.zeros(len(y))
        worst, (low, high) = np.zeros(len(y)), self.bounds(x)
        if ((y >= low) & (y <= high)).all():
            return worst
        change = np.abs(y - x)
        for bound, sign in ((low, -1.0), (high, 1.0)):
            with np.errstate(invalid="ignore"):
                rounding = 8.0 * EPS * np.maximum(np.abs(x), np.abs(y))
                over = sign * (y - bound) - rounding
                size = np.maximum(np.abs(bound), np.abs(y))
                size = np.minimum(size, np.maximum(np.abs(bound - x), change))
            worst = np.maximum(worst, relative(over, size).max(axis=1, initial=0.0))
        return worst


@final
@dataclass(frozen=True, eq=False)
class Whole(Domain):
    """y − x is a whole number of steps, for these columns."""

    columns: IntArray  # (k,) encoded columns
    steps: FloatArray  # (k,) the size of one step, in feature units

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        delta = y[:, self.columns] - x[:, self.columns]
        off = np.abs(delta - np.round(delta / self.steps) * self.steps)
        rounding = 4.0 * EPS * (np.abs(y[:, self.columns]) + np.abs(x[:, self.columns]))
        return np.asarray((np.maximum(off - rounding, 0.0) / self.steps).max(axis=1, initial=0.0))


@final
@dataclass(frozen=True, eq=False)
class OneOf(Domain):
    """Exactly one of these columns is 1 and the others are 0: a category."""

    columns: slice  # the encoded columns of one categorical feature

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        block = y[:, self.columns]
        fractional = np.minimum(np.abs(block), np.abs(1.0 - block)).max(axis=1)
        return np.maximum(fractional, np.abs(block.sum(axis=1) - 1.0))


@final
@dataclass(frozen=True, eq=False)
class Transitions(Domain):
    """Which category may become which, for one categorical feature."""

    columns: slice  # the encoded columns of the feature, c of them
    allowed: NDArray[np.bool_]  # (c, c) boolean: row = the factual category, column = the new one

    def permitted(self, x: FloatArray) -> FloatArray:
        """(n, c): 1 where the category may be chosen, else 0."""
        return np.asarray(self.allowed[x[:, self.columns].argmax(axis=1)], dtype=np.float64)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        over = y[:, self.columns] - self.permitted(x)
        return np.asarray(np.maximum(over, 0.0).max(axis=1))


@final
@dataclass(frozen=True, eq=False)
class AtMost(Domain):
    """At most ``count`` of the features differ between x and y."""

    count: int  # the largest number of changed features
    blocks: tuple[slice, ...]  # the encoded columns of each feature that counts

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        changed = self.changed(y, x).sum(axis=1)
        return np.maximum(changed - self.count, 0).astype(np.float64)

    def changed(self, y: FloatArray, x: FloatArray) -> NDArray[np.bool_]:
        """(n, number of blocks): which features differ."""
        differs = y != x
        return np.stack([differs[:, block].any(axis=1) for block in self.blocks], axis=1)


INTEGRAL: tuple[type[Domain], ...] = (Whole, OneOf, AtMost)
"""What convex programs lack."""
