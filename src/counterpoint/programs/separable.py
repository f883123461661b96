"""Separable functions over separable domains, minimised exactly and for whole batches.

A function Σ_j f_j(δ_j) is least where each of its columns is, whatever the columns are: numbers
between bounds, whole steps, categories; and under a bound on the number of changes, where the
columns that gain most do change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.numerics import (
    AFTER,
    LIBRARY,
    STEP_SLACK,
    TINY,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    Sizes,
    dots,
    gamma,
    total,
)
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice

if TYPE_CHECKING:
    from counterpoint.problem.costs import PercentileCost, TransitionCost
    from counterpoint.programs.conditions import AtMost, Box

PART = 4096
"""How many rows are compared with the knots of a level at once."""


@final
@dataclass(frozen=True, eq=False)
class Diagonal:
    """The function Σ absolute |δ| + curvature δ², one column at a time."""

    # absolute, curvature: (d,) non-negative; no column has both
    absolute: FloatArray
    curvature: FloatArray
    # what categories cost instead, by the factual one; and numbers, where their cases have ends
    transitions: tuple[TransitionCost, ...] = ()
    levels: tuple[PercentileCost, ...] = ()

    def of(self, columns: BoolArray | slice) -> Diagonal:
        """The function of some of the columns."""
        if isinstance(columns, slice) and columns == slice(None):
            return self
        return Diagonal(self.absolute[columns], self.curvature[columns])

    @cached_property
    def is_absolute(self) -> bool:
        """Whether some column has an absolute function."""
        return bool(self.absolute.any())

    @cached_property
    def is_curved(self) -> bool:
        """Whether some column has curvature."""
        return bool(self.curvature.any())

    @cached_property
    def is_curved_throughout(self) -> bool:
        """Whether all columns have curvature."""
        return bool(self.curvature.all())

    def entered(self, x: FloatArray) -> FloatArray:
        """(n, d) what it costs to be in each category."""
        out = 2.0 * self.absolute * (x <= 0.5)
        for columns, costs in self.transitions:
            out[:, columns] = costs[x[:, columns].argmax(axis=1)]
        return np.asarray(out)

    @cached_property
    def dearest(self) -> FloatArray:
        """(d,) what it costs to come to a category, at most."""
        out = 2.0 * self.absolute
        for columns, costs in self.transitions:
            out[columns] = costs.max(axis=0)
        return out

    def least(self, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, d) the least of each column's function plus slope · δ over all δ, and |δ| there."""
        if self.is_curved_throughout:
            reach = np.abs(slope)
            reach *= 0.5 / self.curvature
            value = reach * reach
            value *= -self.curvature
            return value, reach
        if not self.is_curved:
            reach = np.where(np.abs(slope) > self.absolute, np.inf, 0.0)
            return -reach, reach
        excess = np.maximum(np.abs(slope) - self.absolute, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(excess > 0.0, excess / (2.0 * self.curvature), 0.0)
            value = np.where(np.isinf(reach), -np.inf, -(reach * reach * self.curvature))
        return value, reach

    def best(
        self,
        slope: FloatArray,
        low: FloatArray,
        high: FloatArray,
        x: FloatArray | float = 0.0,
        steps: FloatArray | BoolArray | None = None,
    ) -> FloatArray:
        """(n, d) the δ between low and high at which it is least; infinite where unbounded.

        Where ``steps`` (d,) are not 0, x + δ is on the lattice of x, as at low and high.
        """
        if self.is_curved_throughout:
            free = slope * (-0.5 / self.curvature)
        elif not self.is_curved:
            pulled = np.abs(slope) > self.absolute
            free = np.where(pulled, np.where(slope > 0.0, low, high), 0.0)
        else:
            pull = -np.sign(slope) * np.maximum(np.abs(slope) - self.absolute, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                free = np.where(pull == 0.0, 0.0, pull / (2.0 * self.curvature))
        best = np.maximum(free, low)
        np.minimum(best, high, out=best)
        if steps is None or not self.is_curved:
            return best
        unit = np.where(steps > 0.0, steps, 1.0)
        down, up = (
            np.minimum(np.maximum(lattice.number(x, count, unit) - x, low), high)
            for count in (np.floor(best / unit), np.ceil(best / unit))
        )
        lower = self.value(down, slope) <= self.value(up, slope)
        return np.where(steps > 0.0, np.where(lower, down, up), best)

    def value(self, delta: FloatArray, slope: FloatArray) -> FloatArray:
        """(n, d) each column's function plus slope · δ."""
        with np.errstate(invalid="ignore"):
            value = slope * delta
            if self.is_absolute:
                paid = np.abs(delta)
                paid *= self.absolute
                value += paid
            if self.is_curved:
                value += self.curvature * delta * delta
        if self.is_curved_throughout or np.isfinite(value).all():
            return value
        runaway = np.isinf(delta) & (self.curvature == 0)
        downhill = slope * np.sign(delta) < -self.absolute
        return np.where(runaway, np.where(downhill, -np.inf, np.inf), value)


@final
class OneHotGroups:
    """One-hot groups, all at once; each is given by its encoded columns."""

    def __init__(self, groups: tuple[slice, ...]) -> None:
        sizes = [group.stop - group.start for group in groups]
        self.first = np.array([group.start for group in groups], dtype=np.intp)
        self.columns = np.concatenate([np.arange(g.start, g.stop) for g in groups])
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        self._sizes = np.array(sizes)

    def spread(self, values: FloatArray) -> FloatArray:
        """(n, groups) → (n, columns of groups), each as often as its group has columns."""
        return np.repeat(values, self._sizes, axis=1)

    def reduce(self, how: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """(n, columns of groups) → (n, groups)."""
        return np.asarray(how.reduceat(values, self._starts, axis=1))

    def violation(self, y: FloatArray) -> FloatArray:
        """(n,) the largest `OneOf.violation` of any group."""
        shares = y[:, self.columns]
        fractional = np.minimum(np.abs(shares), np.abs(1.0 - shares)).max(axis=1)
        return np.maximum(fractional, np.abs(self.reduce(np.add, shares) - 1.0).max(axis=1))

    def permitted(self, cases: Batch) -> BoolArray:
        """(n, columns of groups): which category may be chosen."""
        allowed = cases.high[:, self.columns] > 0.5
        demanded = cases.low[:, self.columns] > 0.5
        if demanded.any():
            free = ~self.reduce(np.logical_or, demanded)
            allowed &= demanded | np.repeat(free, self._sizes, axis=1)
        return allowed

    def size(self, encoded_cost: Diagonal, sizes: Sizes) -> FloatArray:
        """(n, groups) the sums of the sizes of the terms of `least`, at most."""
        tall = sizes.heights if sizes.units is None else sizes.units
        tallest = self.reduce(np.maximum, tall[:, self.columns])
        height = tallest if sizes.units is None else sizes.heights @ tallest
        dearest = self.reduce(np.maximum, encoded_cost.dearest[None, self.columns])
        return np.asarray(2.0 * height + dearest)

    def least(self, encoded_cost: Diagonal, slope: FloatArray, cases: Batch) -> FloatArray:
        """(n, groups) the least price and slope, against staying."""
        factual, allowed = cases.x[:, self.columns] > 0.5, self.permitted(cases)
        slopes = slope[:, self.columns]
        value = np.where(allowed, slopes + encoded_cost.entered(cases.x)[:, self.columns], np.inf)
        staying = self.reduce(np.add, np.where(factual, slopes, 0.0))
        return np.asarray(self.reduce(np.minimum, value) - staying)

    def forced(self, cases: Batch) -> BoolArray:
        """(n, groups): whether a category must go."""
        factual, allowed = cases.x[:, self.columns] > 0.5, self.permitted(cases)
        return np.asarray(~self.reduce(np.logical_or, allowed & factual))


@final
@dataclass(frozen=True, eq=False)
class SeparableDomain:
    """What each column may be, given the bounds of the cases."""

    box: Box  # the intersection of all boxes, [0, 1] for one-hot columns
    numeric: BoolArray  # (d,) which columns are numbers
    steps: FloatArray  # (d,) the step of whole columns, 0 for the others
    groups: tuple[slice, ...]  # the one-hot groups
    at_most: AtMost | None  # A bound on the number of changed features, or None

    def held(self, y: FloatArray, x: FloatArray) -> BoolArray:
        """(n, d): what is integral about y: whole columns, categories, features that stay."""
        integral = (self.steps > 0) | ~self.numeric
        held = np.repeat(integral[None, :], len(y), axis=0)
        return held if self.at_most is None else held | (y == x)

    def least(self, encoded_cost: Diagonal, slope: FloatArray, cases: Batch) -> FloatArray:
        """(n,) min over y of price(δ) + slope·δ with δ = y − x; infinite where there is no y."""
        return self._combined(
            self._columns(encoded_cost, slope, cases)[0], encoded_cost, slope, cases
        )

    def lower(
        self,
        encoded_cost: Diagonal,
        slope: FloatArray,
        cases: Batch,
        sizes: Sizes,
        replaced: tuple[IntArray, FloatArray] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) `least`, and (n,) by how much it may be too high, for all rounding.

        The sizes are those of the terms of the slopes; none is smaller than its slope. Of some
        numeric columns, (k,) and (k, n), the least may be given ``replaced``; they have no slope.
        """
        least, reach = self._columns(encoded_cost, slope, cases)
        self._put(least, reach, replaced)
        value = self._combined(least, encoded_cost, slope, cases)
        numeric_sizes, numeric_cost = sizes, encoded_cost
        if self.groups:
            slope = slope[:, self.numeric]
            numeric_sizes = sizes.of(self.numeric)
            numeric_cost = encoded_cost.of(self.numeric)
        if not cases.unbounded and not numeric_cost.is_curved_throughout:
            reach = self._either(numeric_cost, slope, reach, numeric_sizes, cases)
        if self.steps.any():
            reach = reach + self.steps[self.numeric]
        share = sizes.rounding(cases.x.shape[1], LIBRARY)
        if self.at_most is not None:
            return value, share * self._changed(encoded_cost, sizes, reach, cases) + TINY
        size, bend = numeric_sizes.along(reach), np.zeros(len(slope))
        if cases.unbounded and not self.steps.any() and not self.groups:
            size -= value  # which is −curvature · reach²
        else:
            size += self._paid(numeric_cost, reach)
        if numeric_cost.is_curved:
            bend = numeric_sizes.parabola_error(2.0 * numeric_cost.curvature)
        if self.groups:
            size += self.hot.size(encoded_cost, sizes).sum(axis=1)
        return value, share * size + bend + TINY

    def _put(
        self, least: FloatArray, reach: FloatArray, replaced: tuple[IntArray, FloatArray] | None
    ) -> None:
        """Write what is given of some numeric columns."""
        for column, values in zip(*replaced, strict=True) if replaced is not None else ():
            at = int(self.numeric[:column].sum())
            least[:, at], reach[:, at] = values, 0.0

    @staticmethod
    def _paid(encoded_cost: Diagonal, reach: FloatArray) -> FloatArray | float:
        """(n,) the price of (n, numeric columns) |δ|."""
        paid = dots(reach, encoded_cost.absolute) if encoded_cost.is_absolute else 0.0
        return (
            paid + dots(reach * reach, encoded_cost.curvature) if encoded_cost.is_curved else paid
        )

    def _changed(
        self, encoded_cost: Diagonal, sizes: Sizes, reach: FloatArray, cases: Batch
    ) -> FloatArray:
        """Return the sum (n,) of the sizes of terms over the features that may change at once.

        Those are the features with the largest, as many as `AtMost` has. ``reach``: the largest
        changes of numeric columns.
        """
        assert self.at_most is not None  # noqa: S101 (asked by the caller)
        every_size, size = sizes.each, np.zeros(cases.x.shape)
        size_of, cost = every_size[:, self.numeric], encoded_cost.of(self.numeric)
        nonlinear = cost.curvature > 0.0
        bend = np.where(
            nonlinear, size_of * size_of / np.where(nonlinear, cost.curvature, 1.0), 0.0
        )
        distance = np.where(np.isinf(reach), 0.0, reach)
        terms = distance * (size_of + cost.absolute + cost.curvature * distance)
        terms += gamma(sizes.count + AFTER) * bend
        size[:, self.numeric] = np.where(np.isinf(reach), np.inf, terms)
        if self.groups:
            size[:, self.hot.first] = self.hot.size(
                encoded_cost, replace(sizes, units=None, heights=every_size)
            )
        starts = [block.start for block in self.at_most.blocks]
        size, must = size[:, starts], self.must_change(cases)[:, starts]
        return total(np.where(best_changes(-size, must, self.at_most.count), size, 0.0))

    def must_change(self, cases: Batch) -> BoolArray:
        """(n, d): which columns, of a group its first, cannot stay."""
        forced = np.zeros(cases.x.shape, dtype=bool)
        forced[:, self.numeric] = ((cases.low > cases.x) | (cases.high < cases.x))[:, self.numeric]
        if self.groups:
            forced[:, self.hot.first] = self.hot.forced(cases)
        return forced if cases.forced is None else forced | cases.forced

    def _either(
        self,
        encoded_cost: Diagonal,
        slope: FloatArray,
        reach: FloatArray,
        sizes: Sizes,
        cases: Batch,
    ) -> FloatArray:
        """(n, numeric columns) |δ|, the larger one where rounding has decided between two.

        A column without curvature is least at the end of its interval, or as near to 0 as it gets.
        """
        size, share = np.abs(slope), gamma(sizes.count)
        apart = size - encoded_cost.absolute
        np.abs(apart, out=apart)
        # at most: |slope| is no more than its size, and most slopes are far from what decides.
        near = apart <= (share + (AFTER + 1) * UNIT) * sizes.largest_in_columns
        if not near.any():
            return reach
        rows, columns = np.nonzero(near & (encoded_cost.curvature == 0.0))
        size, apart = size[rows, columns], apart[rows, columns]
        rounding = share * sizes.at(rows, columns) + AFTER * UNIT * size
        doubtful = (apart <= rounding) & (rounding > 0.0)
        either = rounding >= size + encoded_cost.absolute[columns]
        rows, columns, either = rows[doubtful], columns[doubtful], either[doubtful]
        if not len(rows):
            return reach
        which = np.flatnonzero(self.numeric)[columns]
        x, low, high = (v[rows, which] for v in (cases.x, cases.low, cases.high))
        down, up = np.abs(low - x), np.abs(high - x)
        downhill = np.where(slope[rows, columns] > 0.0, down, up)
        distance, out = np.where(either, np.maximum(down, up), downhill), np.array(reach)
        out[rows, columns] = np.maximum(out[rows, columns], distance)
        return out

    def _combined(
        self, numeric: FloatArray, encoded_cost: Diagonal, slope: FloatArray, cases: Batch
    ) -> FloatArray:
        """(n,) the least sum, of the least of each numeric column."""
        if not self.groups and self.at_most is None:
            return _total(numeric)
        gains = np.zeros(cases.x.shape)
        gains[:, self.numeric] = numeric
        if self.groups:
            gains[:, self.hot.first] = self.hot.least(encoded_cost, slope, cases)
        if self.at_most is None:
            return _total(gains)
        starts, count = [block.start for block in self.at_most.blocks], self.at_most.count
        gain, must = gains[:, starts], self.must_change(cases)[:, starts]
        least = _total(np.where(best_changes(gain, must, count), gain, 0.0))
        return np.where(must.sum(axis=1) > count, np.inf, least)

    def is_empty(self, cases: Batch) -> BoolArray:
        """(n,): whether some feature has no value left."""
        zero = np.zeros(cases.x.shape[1])
        return np.isposinf(self.least(Diagonal(zero, zero), np.zeros_like(cases.x), cases))

    def _columns(
        self, encoded_cost: Diagonal, slope: FloatArray, cases: Batch
    ) -> tuple[FloatArray, FloatArray]:
        """(n, numeric columns) the least of each column's function of one variable, and |δ|."""
        mask: BoolArray | slice = slice(None) if self.numeric.all() else self.numeric
        levels, every = encoded_cost.levels, slope
        encoded_cost, steps, slope = encoded_cost.of(mask), self.steps[mask], slope[:, mask]
        if cases.unbounded and not steps.any():
            return encoded_cost.least(slope)
        x = cases.x[:, mask]
        low, high = cases.low[:, mask], cases.high[:, mask]
        if steps.any():
            low, high = lattice.within_bounds(x, low, high, steps)
        low, high = low - x, high - x
        best = encoded_cost.best(slope, low, high, x, steps if steps.any() else None)
        value, reach = encoded_cost.value(best, slope), np.abs(best)
        for level in levels:
            at = int(self.numeric[: level.column].sum())
            ended = np.flatnonzero(np.isfinite(high[:, at] - low[:, at]))
            for rows in np.split(ended, range(PART, len(ended), PART)):
                chunk = cases.take(rows)
                value[rows, at], reach[rows, at] = self.by_level(
                    level, encoded_cost.absolute[at], every[rows, level.column], chunk
                )
        value[low > high] = np.inf
        return value, reach

    def by_level(
        self, level: PercentileCost, absolute: float, slope: FloatArray, cases: Batch
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the least price by level and slope of a column with ends, lowered by its rounding.

        And the largest |δ| within them.
        """
        j = level.column
        x, step = cases.x[:, j], float(self.steps[j])
        low, high = cases.low[:, j], cases.high[:, j]
        if step:
            low = lattice.first(x, low - STEP_SLACK * step, step)
            high = lattice.last(x, high + STEP_SLACK * step, step)
        else:
            low, high = low - x, high - x
        at, rise = level.table(x, low, high, step)
        at *= step or 1.0
        reach = np.abs(at).max(axis=1)
        tall = np.abs(level(x)) + np.abs(rise).max(axis=1)
        rounding = np.where(reach == 0.0, 0.0, gamma(AFTER + LIBRARY + len(level.knots)) * tall)
        least = (absolute * np.abs(rise) + slope[:, None] * at).min(axis=1)
        return least - 2.0 * absolute * rounding, reach

    @cached_property
    def hot(self) -> OneHotGroups:
        """The one-hot groups, all at once."""
        return OneHotGroups(self.groups)


def best_changes(value: FloatArray, must: BoolArray, count: int) -> BoolArray:
    """Return the features (n, f) that must change, and the least of the others below 0.

    There are as many as may change in all; of equal ones the first.
    """
    remaining = count - must.sum(axis=1)
    order = np.argsort(np.where(must, 0.0, value), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(value.shape[1])[None], axis=1)
    return must | ((rank < remaining[:, None]) & (value < 0.0))


def _total(values: FloatArray) -> FloatArray:
    """(n,) the sums of rows; +inf, a column without any value, outweighs −inf."""
    with np.errstate(invalid="ignore"):
        summed = total(values)
    if np.isnan(summed).any():
        summed = np.where(np.isposinf(values).any(axis=1), np.inf, summed)
    return np.asarray(summed)
