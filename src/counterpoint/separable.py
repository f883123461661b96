"""Separable functions over separable domains, minimised exactly and for whole batches.

A function Σ_j f_j(δ_j) is least where each of its columns is, whatever the columns are: numbers
between bounds, whole steps, categories; and under a bound on the number of changes, where the
columns that gain most do change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.regions import AtMost

__all__ = ["SLACK", "Diagonal", "Groups", "SeparableDomain"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SLACK = 1e-9
"""How far, in steps, a whole number may lie outside its interval because of rounding."""


@final
@dataclass(frozen=True, eq=False)
class Diagonal:
    """The function Σ absolute |δ| + curvature δ², one column at a time.

    Parameters
    ----------
    absolute, curvature
        (d,) non-negative.
    """

    absolute: FloatArray
    curvature: FloatArray

    def of(self, columns: BoolArray | slice) -> Diagonal:
        """The function of some of the columns."""
        return Diagonal(self.absolute[columns], self.curvature[columns])

    def least(self, slope: FloatArray) -> FloatArray:
        """(n, d) the least of each column's function plus slope · δ, over all δ."""
        excess = np.maximum(np.abs(slope) - self.absolute, 0.0)
        if self.curvature.all():
            return -(excess * excess) / (4.0 * self.curvature)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(excess > 0, -(excess * excess) / (4.0 * self.curvature), 0.0)

    def best(self, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """(n, d) the δ between low and high at which it is least; infinite where unbounded."""
        pull = -np.sign(slope) * np.maximum(np.abs(slope) - self.absolute, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(pull == 0.0, 0.0, pull / (2.0 * self.curvature))
        return np.minimum(np.maximum(free, low), high)

    def value(self, delta: FloatArray, slope: FloatArray) -> FloatArray:
        """(n, d) each column's function plus slope · δ."""
        with np.errstate(invalid="ignore"):
            value = self.absolute * np.abs(delta) + self.curvature * delta * delta + slope * delta
        runaway = np.isinf(delta) & (self.curvature == 0)
        if runaway.any():
            downhill = slope * np.sign(delta) < -self.absolute
            value = np.where(runaway, np.where(downhill, -np.inf, np.inf), value)
        return np.where(delta == 0.0, 0.0, value)


@final
class Groups:
    """One-hot groups, all at once.

    Parameters
    ----------
    groups
        The encoded columns of each.
    """

    def __init__(self, groups: tuple[slice, ...]) -> None:
        sizes = [group.stop - group.start for group in groups]
        self.first = np.array([group.start for group in groups], dtype=np.intp)
        self.columns = np.concatenate([np.arange(g.start, g.stop) for g in groups])
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        self._sizes = np.array(sizes)

    def reduce(self, how: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """(n, columns of groups) → (n, groups)."""
        return np.asarray(how.reduceat(values, self._starts, axis=1))

    def permitted(self, cases: Cases) -> BoolArray:
        """(n, columns of groups): which category may be chosen."""
        allowed = cases.high[:, self.columns] > 0.5
        demanded = cases.low[:, self.columns] > 0.5
        if demanded.any():
            free = ~self.reduce(np.logical_or, demanded)
            allowed &= demanded | np.repeat(free, self._sizes, axis=1)
        return allowed

    def least(
        self, price: Diagonal, slope: FloatArray, cases: Cases
    ) -> tuple[FloatArray, BoolArray]:
        """(n, groups) the least price and slope, against staying; whether a category must go."""
        here, allowed = cases.x[:, self.columns] > 0.5, self.permitted(cases)
        slopes, weight = slope[:, self.columns], 2.0 * price.absolute[self.columns]
        value = np.where(allowed, np.where(here, slopes, slopes + weight), np.inf)
        staying = self.reduce(np.add, np.where(here, slopes, 0.0))
        must_go = ~self.reduce(np.logical_or, allowed & here)
        return np.asarray(self.reduce(np.minimum, value) - staying), np.asarray(must_go)


@final
@dataclass(frozen=True, eq=False)
class SeparableDomain:
    """What each column may be, given the bounds of the cases.

    Parameters
    ----------
    numeric
        (d,) which columns are numbers.
    steps
        (d,) the step of whole columns, 0 for the others.
    groups
        The one-hot groups.
    at_most
        A bound on the number of changed features, or None.
    """

    numeric: BoolArray
    steps: FloatArray
    groups: tuple[slice, ...]
    at_most: AtMost | None

    def least(self, price: Diagonal, slope: FloatArray, cases: Cases) -> FloatArray:
        """(n,) min over y of price(δ) + slope·δ with δ = y − x; infinite where there is no y."""
        numeric = self._numeric_least(price, slope, cases)
        if not self.groups and self.at_most is None:
            return _total(numeric)
        gains = np.zeros(cases.x.shape)
        gains[:, self.numeric] = numeric
        forced = np.zeros(cases.x.shape, dtype=bool)
        forced[:, self.numeric] = ((cases.low > cases.x) | (cases.high < cases.x))[:, self.numeric]
        if self.groups:
            first = self._groups.first
            gains[:, first], forced[:, first] = self._groups.least(price, slope, cases)
        if self.at_most is None:
            return _total(gains)
        return self._best_changes(gains, forced, self.at_most)

    def is_empty(self, cases: Cases) -> BoolArray:
        """(n,): whether some feature has no value left."""
        zero = np.zeros(cases.x.shape[1])
        return np.isposinf(self.least(Diagonal(zero, zero), np.zeros_like(cases.x), cases))

    def _numeric_least(self, price: Diagonal, slope: FloatArray, cases: Cases) -> FloatArray:
        """(n, numeric columns) the least of each column's function of one variable."""
        mask: BoolArray | slice = slice(None) if self.numeric.all() else self.numeric
        price, steps, slope = price.of(mask), self.steps[mask], slope[:, mask]
        if cases.unbounded and not steps.any():
            return price.least(slope)
        low, high = cases.low[:, mask] - cases.x[:, mask], cases.high[:, mask] - cases.x[:, mask]
        if steps.any():
            whole = steps > 0
            low, high = np.array(low), np.array(high)
            low[:, whole] = np.ceil(low[:, whole] / steps[whole] - SLACK) * steps[whole]
            high[:, whole] = np.floor(high[:, whole] / steps[whole] + SLACK) * steps[whole]
        best = price.best(slope, low, high)
        value = price.value(best, slope)
        if steps.any():
            value = np.where(whole, np.inf, value)
            unit = np.where(whole, steps, 1.0)
            for rounding in (np.floor, np.ceil):
                near = np.clip(rounding(best / unit) * unit, low, high)
                candidate = price.value(near, slope)
                value = np.where(whole, np.minimum(value, candidate), value)
        return np.where(low > high, np.inf, value)

    @cached_property
    def _groups(self) -> Groups:
        return Groups(self.groups)

    @staticmethod
    def _best_changes(gains: FloatArray, forced: BoolArray, most: AtMost) -> FloatArray:
        """The least sum when only so many features may contribute; forced ones come first."""
        starts = [block.start for block in most.blocks]
        gain, must = gains[:, starts], forced[:, starts]
        left = most.count - must.sum(axis=1)
        free = np.sort(np.where(must, 0.0, np.minimum(gain, 0.0)), axis=1)
        rank = np.arange(free.shape[1])
        chosen = np.where(rank < left[:, None], free, 0.0)
        total = _total(np.hstack([chosen, np.where(must, gain, 0.0)]))
        return np.where(left < 0, np.inf, total)


def _total(values: FloatArray) -> FloatArray:
    """(n,) the sums of rows; +inf, a column without any value, outweighs −inf."""
    with np.errstate(invalid="ignore"):
        total = values.sum(axis=1)
    if np.isnan(total).any():
        total = np.where(np.isposinf(values).any(axis=1), np.inf, total)
    return np.asarray(total)
