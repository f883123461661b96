"""Minimise separable functions over separable domains, exactly and for whole batches.

A sum Σ_j f_j(δ_j) is least where each of its terms is, whatever the columns are: numbers between
bounds, whole steps, categories. Under a bound on the number of changes, the features whose terms
fall most below 0 change, and the others stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.numerics import (
    AFTER,
    BLOCK,
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


@final
@dataclass(frozen=True, eq=False)
class Diagonal:
    """The function Σ absolute |δ| + curvature δ² of changes δ, one column at a time."""

    # absolute, curvature: (d,) not negative; no column has both
    absolute: FloatArray
    curvature: FloatArray
    # costs in place of these: of categories, by the factual one; of numbers that have both bounds
    transitions: tuple[TransitionCost, ...] = ()
    levels: tuple[PercentileCost, ...] = ()

    def of(self, columns: BoolArray | slice) -> Diagonal:
        """Return the function of some of the columns, without their `transitions` and `levels`."""
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
        """Whether all columns have curvature, and so none an absolute function."""
        return bool(self.curvature.all())

    def entered(self, x: FloatArray) -> FloatArray:
        """Return the cost (n, d) of changing to each category; 0 for the factual one.

        A change of category moves two columns by 1, hence the 2.
        """
        out = 2.0 * self.absolute * (x <= 0.5)
        for columns, costs in self.transitions:
            out[:, columns] = costs[x[:, columns].argmax(axis=1)]
        return np.asarray(out)

    @cached_property
    def dearest(self) -> FloatArray:
        """The largest cost of changing to each category, (d,)."""
        out = 2.0 * self.absolute
        for columns, costs in self.transitions:
            out[columns] = costs.max(axis=0)
        return out

    def least(self, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least of each column's function plus slope · δ over all δ, and |δ| there.

        All are (n, d). Where the slope exceeds an absolute cost both are infinite.
        """
        if self.is_curved_throughout:  # the same as below, without copies: |slope| / (2 curvature)
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
        """Return the changes (n, d) within low and high at which the function + slope · δ is least.

        They are infinite where the sum falls without end. Where ``steps`` (d,) are not 0, x + δ is
        on the lattice of x, as x + low and x + high are.
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
        # a convex function is least at one of the two steps around its free optimum
        unit = np.where(steps > 0.0, steps, 1.0)
        down, up = (
            np.minimum(np.maximum(lattice.number(x, count, unit) - x, low), high)
            for count in (np.floor(best / unit), np.ceil(best / unit))
        )
        is_down = self.value(down, slope) <= self.value(up, slope)
        return np.where(steps > 0.0, np.where(is_down, down, up), best)

    def total(self, distance: FloatArray) -> FloatArray:
        """Return the sum (n,) of the functions at changes of these distances (n, d)."""
        out = np.zeros(len(distance))
        if self.is_absolute:
            out += dots(distance, self.absolute)
        if self.is_curved:
            out += dots(distance * distance, self.curvature)
        return out

    def value(self, delta: FloatArray, slope: FloatArray) -> FloatArray:
        """Return each column's function plus slope · δ, (n, d); changes δ may be infinite."""
        with np.errstate(invalid="ignore"):
            value = slope * delta
            if self.is_absolute:
                cost = np.abs(delta)
                cost *= self.absolute
                value += cost
            if self.is_curved:
                value += self.curvature * delta * delta
        if self.is_curved_throughout or np.isfinite(value).all():
            return value
        # infinity less infinity is no number: the sign of slope + absolute decides
        is_infinite = np.isinf(delta) & (self.curvature == 0)
        falls = slope * np.sign(delta) < -self.absolute
        return np.where(is_infinite, np.where(falls, -np.inf, np.inf), value)


@final
class OneHotGroups:
    """One-hot groups, each given by its encoded columns, and computed with all at once."""

    def __init__(self, groups: tuple[slice, ...]) -> None:
        sizes = [group.stop - group.start for group in groups]
        # (groups,) the first column of each, and (columns of groups,) all of their columns
        self.first = np.array([group.start for group in groups], dtype=np.intp)
        self.columns = np.concatenate([np.arange(g.start, g.stop) for g in groups])
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        self._sizes = np.array(sizes)

    def spread(self, values: FloatArray) -> FloatArray:
        """Repeat values (n, groups) for each column of its group, (n, columns of groups)."""
        return np.repeat(values, self._sizes, axis=1)

    def reduce(self, how: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """Combine values (n, columns of groups) within each group, (n, groups)."""
        return np.asarray(how.reduceat(values, self._starts, axis=1))

    def violation(self, y: FloatArray) -> FloatArray:
        """Return the largest `OneOf.violation` of any group, (n,)."""
        shares = y[:, self.columns]
        fractional = np.minimum(np.abs(shares), np.abs(1.0 - shares)).max(axis=1)
        return np.maximum(fractional, np.abs(self.reduce(np.add, shares) - 1.0).max(axis=1))

    def permitted(self, cases: Batch) -> BoolArray:
        """Return which categories may be chosen, (n, columns of groups).

        Where bounds demand a category to be 1, the group has no other choice.
        """
        allowed = cases.high[:, self.columns] > 0.5
        demanded = cases.low[:, self.columns] > 0.5
        if demanded.any():
            free = ~self.reduce(np.logical_or, demanded)
            allowed &= demanded | np.repeat(free, self._sizes, axis=1)
        return allowed

    def size(self, cost: Diagonal, sizes: Sizes) -> FloatArray:
        """Return at least the sums (n, groups) of the sizes of the terms of `least`."""
        terms = sizes.heights if sizes.units is None else sizes.units
        largest = self.reduce(np.maximum, terms[:, self.columns])
        largest = largest if sizes.units is None else sizes.heights @ largest
        dearest = self.reduce(np.maximum, cost.dearest[None, self.columns])
        return np.asarray(2.0 * largest + dearest)  # the slopes of two columns, and one cost

    def least(self, cost: Diagonal, slope: FloatArray, cases: Batch) -> FloatArray:
        """Return the least of cost + slope · δ over the categories of each group, (n, groups)."""
        factual, allowed = cases.x[:, self.columns] > 0.5, self.permitted(cases)
        slopes = slope[:, self.columns]
        value = np.where(allowed, slopes + cost.entered(cases.x)[:, self.columns], np.inf)
        staying = self.reduce(np.add, np.where(factual, slopes, 0.0))
        return np.asarray(self.reduce(np.minimum, value) - staying)

    def forced(self, cases: Batch) -> BoolArray:
        """Return whether the factual category may not stay, (n, groups)."""
        factual, allowed = cases.x[:, self.columns] > 0.5, self.permitted(cases)
        return np.asarray(~self.reduce(np.logical_or, allowed & factual))


@final
@dataclass(frozen=True, eq=False)
class SeparableDomain:
    """The values that each column may take, beside the bounds of the cases (`Batch`)."""

    box: Box  # the intersection of all boxes, [0, 1] for one-hot columns
    numeric: BoolArray  # (d,) which columns are numbers; the others are of one-hot groups
    steps: FloatArray  # (d,) the step of whole columns, 0 for the others
    groups: tuple[slice, ...]  # the encoded columns of each one-hot group
    at_most: AtMost | None  # the bound on the number of changed features, if there is one

    def held(self, y: FloatArray, x: FloatArray) -> BoolArray:
        """Return which entries of points y (n, d) are integral and stay when the rest is solved.

        They are whole columns, categories and, where changes are counted, all that is as in x.
        """
        integral = (self.steps > 0) | ~self.numeric
        held = np.repeat(integral[None, :], len(y), axis=0)
        return held if self.at_most is None else held | (y == x)

    def least(self, cost: Diagonal, slope: FloatArray, cases: Batch) -> FloatArray:
        """Return the least of cost(δ) + slope · δ, δ = y − x, (n,); infinite if there is no y."""
        return self._combined(self._columns(cost, slope, cases)[0], cost, slope, cases)

    def lower(
        self,
        cost: Diagonal,
        slope: FloatArray,
        cases: Batch,
        sizes: Sizes,
        replaced: tuple[IntArray, FloatArray] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return `least`, (n,), and by how much rounding may have raised it, (n,).

        ``sizes`` are those of the terms of the slopes; none is smaller than its slope.
        ``replaced`` are the least values of some numeric columns that have no slope: their numbers
        (k,) and the values (k, n).
        """
        least, reach = self._columns(cost, slope, cases)
        self._replace(least, reach, replaced)
        value = self._combined(least, cost, slope, cases)
        numeric_sizes, numeric_cost = sizes, cost
        if self.groups:
            slope = slope[:, self.numeric]
            numeric_sizes = sizes.of(self.numeric)
            numeric_cost = cost.of(self.numeric)
        if not cases.unbounded and not numeric_cost.is_curved_throughout:
            reach = self._farthest(numeric_cost, slope, reach, numeric_sizes, cases)
        if self.steps.any():  # rounding may have chosen the next step
            reach = reach + self.steps[self.numeric]
        rounding = sizes.rounding(cases.x.shape[1], LIBRARY)  # relative to the sizes of the terms
        if self.at_most is not None:
            return value, rounding * self._size_of_changes(cost, sizes, reach, cases) + TINY
        size, parabola_error = numeric_sizes.along(reach), np.zeros(len(slope))
        if cases.unbounded and not self.steps.any() and not self.groups:
            size -= value  # which is −curvature · reach²
        else:
            size += numeric_cost.total(reach)
        if numeric_cost.is_curved:
            # what a rounded slope takes off a parabola beyond reach · rounding
            parabola_error = numeric_sizes.parabola_error(2.0 * numeric_cost.curvature)
        if self.groups:
            size += self.hot.size(cost, sizes).sum(axis=1)
        return value, rounding * size + parabola_error + TINY

    def _replace(
        self, least: FloatArray, reach: FloatArray, replaced: tuple[IntArray, FloatArray] | None
    ) -> None:
        """Write the ``replaced`` values of numeric columns into the least ones, in place."""
        for column, values in zip(*replaced, strict=True) if replaced is not None else ():
            number = int(self.numeric[:column].sum())  # among the numeric columns
            least[:, number], reach[:, number] = values, 0.0

    def _size_of_changes(
        self, cost: Diagonal, sizes: Sizes, reach: FloatArray, cases: Batch
    ) -> FloatArray:
        """Return the sum (n,) of the sizes of terms over those features that make it largest.

        At most ``at_most.count`` may change, and those that must are among them. ``sizes`` are
        those of the terms of the slopes, and ``reach`` (n, numeric columns) the largest changes of
        numbers.
        """
        assert self.at_most is not None  # noqa: S101 (asked by the caller)
        slope_sizes, out = sizes.each, np.zeros(cases.x.shape)
        slope, numeric_cost = slope_sizes[:, self.numeric], cost.of(self.numeric)
        distance = np.where(np.isinf(reach), 0.0, reach)
        terms = distance * (slope + numeric_cost.absolute + numeric_cost.curvature * distance)
        # as `Sizes.parabola_error`, but for the rounding by which the caller multiplies all terms
        is_curved = numeric_cost.curvature > 0.0
        curvature = np.where(is_curved, numeric_cost.curvature, 1.0)
        terms += gamma(sizes.count + AFTER) * np.where(is_curved, slope * slope / curvature, 0.0)
        out[:, self.numeric] = np.where(np.isinf(reach), np.inf, terms)
        if self.groups:
            full_sizes = replace(sizes, units=None, heights=slope_sizes)  # as (n, d), computed once
            out[:, self.hot.first] = self.hot.size(cost, full_sizes)
        starts = [block.start for block in self.at_most.blocks]
        out, must = out[:, starts], self.must_change(cases)[:, starts]  # (n, features)
        return total(np.where(best_changes(-out, must, self.at_most.count), out, 0.0))

    def must_change(self, cases: Batch) -> BoolArray:
        """Return which numbers, and which groups by their first columns, cannot stay, (n, d)."""
        forced = np.zeros(cases.x.shape, dtype=bool)
        forced[:, self.numeric] = ((cases.low > cases.x) | (cases.high < cases.x))[:, self.numeric]
        if self.groups:
            forced[:, self.hot.first] = self.hot.forced(cases)
        return forced if cases.forced is None else forced | cases.forced

    def _farthest(
        self,
        cost: Diagonal,
        slope: FloatArray,
        reach: FloatArray,
        sizes: Sizes,
        cases: Batch,
    ) -> FloatArray:
        """Return the farthest changes that the exact slopes may lead to, (n, numeric columns).

        A column without curvature is least where it stays if |slope| <= absolute, else at an end of
        its interval; where the two are equal but for rounding, that end may be the right place.
        """
        steepness, share = np.abs(slope), gamma(sizes.count)
        difference = steepness - cost.absolute
        np.abs(difference, out=difference)
        # First by an upper bound of the rounding in each column: most slopes are far from deciding.
        near = difference <= (share + (AFTER + 1) * UNIT) * sizes.largest_in_columns
        if not near.any():
            return reach
        rows, columns = np.nonzero(near & (cost.curvature == 0.0))
        steepness, difference = steepness[rows, columns], difference[rows, columns]
        rounding = share * sizes.at(rows, columns) + AFTER * UNIT * steepness
        undecided = (difference <= rounding) & (rounding > 0.0)
        any_sign = rounding >= steepness + cost.absolute[columns]  # the slope may be of either
        rows, columns, any_sign = rows[undecided], columns[undecided], any_sign[undecided]
        if not len(rows):
            return reach
        encoded = np.flatnonzero(self.numeric)[columns]
        x, low, high = (v[rows, encoded] for v in (cases.x, cases.low, cases.high))
        down, up = np.abs(low - x), np.abs(high - x)
        downhill = np.where(slope[rows, columns] > 0.0, down, up)
        distance, out = np.where(any_sign, np.maximum(down, up), downhill), np.array(reach)
        out[rows, columns] = np.maximum(out[rows, columns], distance)
        return out

    def _combined(
        self, numeric: FloatArray, cost: Diagonal, slope: FloatArray, cases: Batch
    ) -> FloatArray:
        """Return the least sums (n,), given the least of each numeric column.

        Infinite where more features must change than may.
        """
        if not self.groups and self.at_most is None:
            return _total(numeric)
        gains = np.zeros(cases.x.shape)
        gains[:, self.numeric] = numeric
        if self.groups:
            gains[:, self.hot.first] = self.hot.least(cost, slope, cases)
        if self.at_most is None:
            return _total(gains)
        starts, count = [block.start for block in self.at_most.blocks], self.at_most.count
        gain, must = gains[:, starts], self.must_change(cases)[:, starts]
        least = _total(np.where(best_changes(gain, must, count), gain, 0.0))
        return np.where(must.sum(axis=1) > count, np.inf, least)

    def is_empty(self, cases: Batch) -> BoolArray:
        """Return whether some feature has no value left, or too many must change, (n,)."""
        zero = np.zeros(cases.x.shape[1])
        return np.isposinf(self.least(Diagonal(zero, zero), np.zeros_like(cases.x), cases))

    def _columns(
        self, cost: Diagonal, slope: FloatArray, cases: Batch
    ) -> tuple[FloatArray, FloatArray]:
        """Return the least of cost + slope · δ in each numeric column, and |δ| there.

        Both are (n, numeric columns). The least is infinite where a column has no value.
        """
        mask: BoolArray | slice = slice(None) if self.numeric.all() else self.numeric
        levels, all_slopes = cost.levels, slope  # `Diagonal.of` leaves the levels out
        cost, steps, slope = cost.of(mask), self.steps[mask], slope[:, mask]
        if cases.unbounded and not steps.any():
            return cost.least(slope)
        x = cases.x[:, mask]
        low, high = cases.low[:, mask], cases.high[:, mask]
        if steps.any():
            low, high = lattice.within_bounds(x, low, high, steps)
        low, high = low - x, high - x
        best = cost.best(slope, low, high, x, steps if steps.any() else None)
        value, reach = cost.value(best, slope), np.abs(best)
        # The slope of a level is at least 1, so its cost is at least absolute · |δ|: this bounds it
        # where an end of the column is infinite. Between two ends its knots say what is least.
        for level in levels:
            number = int(self.numeric[: level.column].sum())  # among the numeric columns
            bounded = np.flatnonzero(np.isfinite(high[:, number] - low[:, number]))
            for rows in np.split(bounded, range(BLOCK, len(bounded), BLOCK)):
                value[rows, number], reach[rows, number] = self._by_level(
                    level, cost.absolute[number], all_slopes[rows, level.column], cases.take(rows)
                )
        value[low > high] = np.inf
        return value, reach

    def _by_level(
        self, level: PercentileCost, absolute: float, slope: FloatArray, cases: Batch
    ) -> tuple[FloatArray, FloatArray]:
        """Return the least (n,) of absolute · |change of level| + slope · δ over a bounded column.

        It is lowered by its rounding. Also return the largest |δ| within the bounds, (n,). The
        function is linear between the knots of the level, so only these, and the ends, are tried.
        """
        j = level.column
        x, step = cases.x[:, j], float(self.steps[j])
        low, high = cases.low[:, j], cases.high[:, j]
        if step:
            low = lattice.first(x, low - STEP_SLACK * step, step)
            high = lattice.last(x, high + STEP_SLACK * step, step)
        else:
            low, high = low - x, high - x
        change, rise = level.table(x, low, high, step)
        change *= step or 1.0
        reach = np.abs(change).max(axis=1)
        terms = np.abs(level(x)) + np.abs(rise).max(axis=1)
        rounding = np.where(reach == 0.0, 0.0, gamma(AFTER + LIBRARY + len(level.knots)) * terms)
        least = (absolute * np.abs(rise) + slope[:, None] * change).min(axis=1)
        return least - 2.0 * absolute * rounding, reach

    @cached_property
    def hot(self) -> OneHotGroups:
        """The one-hot groups, all at once."""
        return OneHotGroups(self.groups)


def best_changes(value: FloatArray, must: BoolArray, count: int) -> BoolArray:
    """Return which features (n, f) change: all that must, and those of the least values below 0.

    They are at most ``count``, unless more must change; of equal values the first change.
    """
    remaining = count - must.sum(axis=1)
    order = np.argsort(np.where(must, 0.0, value), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(value.shape[1])[None], axis=1)
    return must | ((rank < remaining[:, None]) & (value < 0.0))


def _total(values: FloatArray) -> FloatArray:
    """Return the sums of rows, (n,); +inf, a column without any value, outweighs −inf."""
    with np.errstate(invalid="ignore"):
        summed = total(values)
    if np.isnan(summed).any():
        summed = np.where(np.isposinf(values).any(axis=1), np.inf, summed)
    return np.asarray(summed)
