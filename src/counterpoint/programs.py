"""Programs: one cost over one region, without the person's data in it, and what bounds them.

A program is minimise price(y − x) over y in the region. Its region is a *domain* D (intervals, whole
steps, categories, the number of changes: one feature at a time) cut by *couplings* (linear rows,
cones). For any multipliers, each coupling gives a linear inequality that its points meet; their sum
is normal · y <= offset, and

    min over D of  price(y − x) + normal · y − offset                                (weak duality)

is a lower bound on every feasible cost, whoever found the multipliers and however wrong they are.
The minimum is exact, integrality included, because price is separable over D: a sum over columns.
(A full matrix is split into a diagonal and a convex rest; any tangent of the rest bounds it.)
With price 0 the same minimum, if positive, proves that the region is empty (Farkas).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Price
from counterpoint.features import Categorical, Features, Integer
from counterpoint.regions import (
    Affine,
    AtMost,
    Box,
    Condition,
    Coupling,
    OneOf,
    Region,
    Transitions,
    Whole,
)

__all__ = ["Cases", "Program", "kinds_region"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SLACK = 1e-9
"""How far, in steps, a whole number may lie outside its interval because of rounding."""
ROUNDING = 1e-12
"""What a positive Farkas value must exceed, relative to the size of its terms."""


def kinds_region(features: Features) -> Region:
    """Whole steps for integers and one-hot groups for categories."""
    conditions: list[Condition] = []
    whole = [(features.columns(f.name).start, f.step) for f in features if isinstance(f, Integer)]
    if whole:
        columns, steps = zip(*whole, strict=True)
        conditions.append(Whole(np.array(columns, dtype=np.intp), np.array(steps, dtype=float)))
    for feature, block in zip(features, features.blocks, strict=True):
        if isinstance(feature, Categorical):
            conditions.append(OneOf(block))
    return Region(tuple(conditions))


@final
@dataclass(frozen=True, eq=False)
class Cases:
    """The people of a batch, as a program sees them.

    Parameters
    ----------
    x
        (n, d) factual points.
    low, high
        (n, d) bounds on y; a row with low > high somewhere has no feasible point.
    margin
        (n,) how much the target's rows are tightened, in score units.
    """

    x: FloatArray
    low: FloatArray
    high: FloatArray
    margin: FloatArray

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def unbounded(self) -> bool:
        """Whether no column of any row has a bound."""
        one_row = self.low.strides[0] == 0 and self.high.strides[0] == 0
        low, high = (self.low[:1], self.high[:1]) if one_row else (self.low, self.high)
        return bool(np.isinf(low).all() and np.isinf(high).all())

    def take(self, rows: NDArray[np.intp] | BoolArray | slice) -> Cases:
        """Some of the rows."""
        return Cases(
            self.x[rows], _rows_of(self.low, rows), _rows_of(self.high, rows), self.margin[rows]
        )

    def with_margin(self, margin: FloatArray) -> Cases:
        """The same people with another margin."""
        return replace(self, margin=margin)

    def within(self, low: FloatArray, high: FloatArray) -> Cases:
        """The same people with narrower bounds."""
        return replace(self, low=np.maximum(self.low, low), high=np.minimum(self.high, high))

    def __iter__(self) -> Iterator[Cases]:
        for i in range(len(self)):
            yield self.take(slice(i, i + 1))


def _rows_of(bounds: FloatArray, rows: NDArray[np.intp] | BoolArray | slice) -> FloatArray:
    """Rows of an array that may be one row repeated, without repeating it in memory."""
    if bounds.strides[0] == 0 and len(bounds):
        count = len(np.empty(len(bounds), dtype=np.int8)[rows])
        return np.broadcast_to(bounds[0], (count, bounds.shape[1]))
    return bounds[rows]


@final
@dataclass(frozen=True, eq=False)
class Program:
    """Minimise price(y − x) over y in a region.

    Parameters
    ----------
    price
        What a change costs.
    region
        Where y may be, relative to x.
    """

    price: Price
    region: Region

    @property
    def width(self) -> int:
        """The number d of encoded columns."""
        return len(self.price.absolute)

    @cached_property
    def kinds(self) -> frozenset[type]:
        """The kind of its price and the types of its conditions: what a solver must take."""
        return self.region.kinds | {self.price.kind, Box}

    def relaxed(self, *dropped: type) -> Program:
        """The program with conditions of some types dropped; a one-hot group becomes a simplex.

        The rows of the simplices come after the program's own, see `Program.own_multipliers`.
        """
        kept = [c for c in self.region if type(c) not in dropped]
        added: list[Condition] = []
        for group in self.groups if OneOf in dropped else ():
            row = np.zeros((1, self.width))
            row[0, group] = 1.0
            box = Box.unbounded(self.width)
            box.low[group], box.high[group] = 0.0, 1.0
            added += [Affine(row, np.ones(1), np.ones(1)), box]
        return Program(self.price, Region((*kept, *added)))

    def own_multipliers(self, relaxed: FloatArray) -> FloatArray:
        """(n, size) this program's multipliers among those of a program that `relaxed` made."""
        own = self.affine.size
        added = relaxed.shape[1] - self.size
        return np.hstack([relaxed[:, :own], relaxed[:, own + added :]])

    @cached_property
    def box(self) -> Box:
        """All boxes met, with [0, 1] for one-hot columns."""
        box = Box.unbounded(self.width)
        for condition in self.region:
            if isinstance(condition, Box):
                box = box.meet(condition)
        for group in self.groups:
            box.low[group], box.high[group] = 0.0, 1.0
            box.least[group], box.most[group] = -np.inf, np.inf
        return box

    @cached_property
    def affine(self) -> Affine:
        """All linear rows stacked; there may be none."""
        rows = [c for c in self.region if isinstance(c, Affine)]
        out = Affine(np.zeros((0, self.width)), np.zeros(0), np.zeros(0))
        for row in rows:
            out = out.stacked(row)
        return out

    @cached_property
    def curved(self) -> tuple[Coupling, ...]:
        """The couplings that are not linear rows."""
        return tuple(
            c for c in self.region if isinstance(c, Coupling) and not isinstance(c, Affine)
        )

    @cached_property
    def size(self) -> int:
        """The number of multipliers: one for each linear row, then those of the curved couplings."""
        return self.affine.size + sum(coupling.size for coupling in self.curved)

    @cached_property
    def groups(self) -> tuple[slice, ...]:
        """The one-hot groups."""
        return tuple(c.columns for c in self.region if isinstance(c, OneOf))

    @cached_property
    def transitions(self) -> tuple[Transitions, ...]:
        """Which category may become which."""
        return tuple(c for c in self.region if isinstance(c, Transitions))

    @cached_property
    def steps(self) -> FloatArray:
        """(d,) the step of whole columns, 0 for the others."""
        steps = np.zeros(self.width)
        for condition in self.region:
            if isinstance(condition, Whole):
                steps[condition.columns] = condition.steps
        return steps

    @cached_property
    def at_most(self) -> AtMost | None:
        """The tightest bound on the number of changed features."""
        found = [c for c in self.region if isinstance(c, AtMost)]
        return min(found, key=lambda c: c.count) if found else None

    @cached_property
    def numeric(self) -> BoolArray:
        """(d,) which columns belong to no one-hot group."""
        mask = np.ones(self.width, dtype=bool)
        for group in self.groups:
            mask[group] = False
        return mask

    def cases(self, x: FloatArray) -> Cases:
        """What the program knows of these people: their points and their bounds."""
        box = self.box
        if np.isneginf(box.least).all() and np.isposinf(box.most).all():
            low, high = np.broadcast_to(box.low, x.shape), np.broadcast_to(box.high, x.shape)
        else:
            low, high = box.bounds(x)
        if self.transitions:
            high = np.array(high)
            for transition in self.transitions:
                block = high[:, transition.columns]
                np.minimum(block, transition.permitted(x), out=block)
        return Cases(x, *self._on_steps(x, low, high), np.zeros(len(x)))

    def _on_steps(
        self, x: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds of whole columns moved inwards to x + a whole number of steps."""
        whole = np.flatnonzero(self.steps)
        whole = whole[(np.isfinite(low[:, whole]) | np.isfinite(high[:, whole])).any(axis=0)]
        if not len(whole):
            return low, high
        low, high = np.array(low), np.array(high)
        at, step = x[:, whole], self.steps[whole]
        low[:, whole] = at + np.ceil((low[:, whole] - at) / step - SLACK) * step
        high[:, whole] = at + np.floor((high[:, whole] - at) / step + SLACK) * step
        return low, high

    def cost(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """(n,) in cost units."""
        return self.price(y - x)

    @cached_property
    def _merged(self) -> Region:
        """The same region with one box, and one stack of rows."""
        others = [c for c in self.region if not isinstance(c, Box | Affine)]
        first: list[Condition] = [self.box]
        if self.affine.size:
            first.append(self.affine)
        return Region((*first, *others))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """(n,) the largest violation of any condition, relative to the size of its terms."""
        return self._merged.violation(y, x)

    def cut(self, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Normals (n, d) and offsets (n,) of the inequality that the couplings add up to."""
        normal, offset = self.affine.cut(multipliers[:, : self.affine.size])
        start = self.affine.size
        for coupling in self.curved:
            more, constant = coupling.cut(multipliers[:, start : start + coupling.size])
            normal, offset = normal + more, offset + constant
            start += coupling.size
        return normal, offset

    def bound(
        self, cases: Cases, multipliers: FloatArray, at: FloatArray | None = None
    ) -> FloatArray:
        """(n,) lower bounds on the cost of every point of the region: weak duality.

        Parameters
        ----------
        cases
            The people; their margin is not used.
        multipliers
            (n, size), any finite numbers.
        at
            (n, d) any points y, at which a full quadratic price is bounded by its tangent; the
            nearer to the optimum, the better the bound. None for x itself.

        Returns
        -------
        ndarray of shape (n,)
            In cost units; infinite where the domain alone is empty.
        """
        normal, offset = self.cut(multipliers)
        if self.price.quadratic.ndim == 2:
            delta = (at - cases.x) if at is not None else np.zeros_like(cases.x)
            tangent = delta @ self.price.above_floor
            offset = offset + np.einsum("ij,ij->i", tangent, delta)
            slope = normal + 2.0 * tangent
        else:
            shrink = self._shrink(normal, cases)
            if shrink is not None:
                normal, offset = normal * shrink[:, None], offset * shrink
            slope = normal
        least = self._least(self.price.absolute, self.price.floor, slope, normal, cases)
        return np.maximum(least - offset, 0.0)

    def refutes(self, cases: Cases, multipliers: FloatArray) -> BoolArray:
        """(n,): whether the multipliers prove that no point of the region exists (Farkas)."""
        normal, offset = self.cut(multipliers)
        affine = np.abs(multipliers[:, : self.affine.size]) @ np.abs(self.affine.matrix)
        normal = np.where(np.abs(normal) <= 64 * np.finfo(float).eps * affine, 0.0, normal)
        zero = np.zeros(self.width)
        least = self._least(zero, zero, normal, normal, cases)
        terms = np.abs(normal) * np.maximum(np.abs(cases.x), self._reach(cases))
        with np.errstate(invalid="ignore"):
            size = np.abs(offset) + np.where(normal != 0, terms, 0.0).sum(axis=1)
        found = least - offset > ROUNDING * np.where(np.isfinite(size), size, 0.0)
        return np.asarray(found | self.empty(cases))

    def empty(self, cases: Cases) -> BoolArray:
        """(n,): whether some feature has no value left at all."""
        least = self._least(*[np.zeros(self.width)] * 2, *[np.zeros_like(cases.x)] * 2, cases)
        return np.isposinf(least)

    @staticmethod
    def _reach(cases: Cases) -> FloatArray:
        low = np.where(np.isfinite(cases.low), np.abs(cases.low), 0.0)
        high = np.where(np.isfinite(cases.high), np.abs(cases.high), 0.0)
        return np.maximum(low, high)

    def _shrink(self, slope: FloatArray, cases: Cases) -> FloatArray | None:
        """(n,) the factor in [0, 1] that keeps a column without curvature bounded; None if all 1."""
        flat = (self.price.floor == 0.0) & self.numeric
        if not flat.any():
            return None
        weight = self.price.absolute[flat]
        slope, low, high = slope[:, flat], cases.low[:, flat], cases.high[:, flat]
        if cases.unbounded:
            excess = (np.abs(slope) / np.maximum(weight, 1e-300)).max(axis=1)
        else:
            open_slope = np.maximum(
                np.where(np.isinf(high), -slope, 0.0), np.where(np.isinf(low), slope, 0.0)
            )
            excess = (open_slope / np.maximum(weight, 1e-300)).max(axis=1)
        if not (excess > 1.0).any():
            return None
        return np.where(excess > 1.0, (1.0 - 1e-15) / np.maximum(excess, 1.0), 1.0)

    def _least(
        self,
        absolute: FloatArray,
        curvature: FloatArray,
        slope: FloatArray,
        normal: FloatArray,
        cases: Cases,
    ) -> FloatArray:
        """(n,) min over the domain of Σ absolute |δ| + curvature δ² + slope·δ, plus normal·x."""
        base = np.einsum("ij,ij->i", normal, cases.x)
        numeric = self._numeric_least(absolute, curvature, slope, cases)
        if not self.groups and self.at_most is None:
            return np.asarray(base + numeric.sum(axis=1))
        gains = np.zeros((len(cases), self.width))
        gains[:, self.numeric] = numeric
        forced = np.zeros((len(cases), self.width), dtype=bool)
        forced[:, self.numeric] = ((cases.low > cases.x) | (cases.high < cases.x))[:, self.numeric]
        for group in self.groups:
            block, must = self._group_least(2.0 * absolute[group.start], slope, group, cases)
            gains[:, group.start], forced[:, group.start] = block, must
        if self.at_most is None:
            return np.asarray(base + gains.sum(axis=1))
        return np.asarray(base + self._best_changes(gains, forced, self.at_most))

    def _numeric_least(
        self, absolute: FloatArray, curvature: FloatArray, slope: FloatArray, cases: Cases
    ) -> FloatArray:
        """(n, numeric columns) the least of each column's function of one variable."""
        mask: BoolArray | slice = slice(None) if self.numeric.all() else self.numeric
        absolute, curvature, steps = absolute[mask], curvature[mask], self.steps[mask]
        slope = slope[:, mask]
        if cases.unbounded and not steps.any():
            return _free_least(absolute, curvature, slope)
        low, high = cases.low[:, mask] - cases.x[:, mask], cases.high[:, mask] - cases.x[:, mask]
        if steps.any():
            whole = steps > 0
            low, high = np.array(low), np.array(high)
            low[:, whole] = np.ceil(low[:, whole] / steps[whole] - SLACK) * steps[whole]
            high[:, whole] = np.floor(high[:, whole] / steps[whole] + SLACK) * steps[whole]
        best = _best_change(absolute, curvature, slope, low, high)
        value = _one_column(best, absolute, curvature, slope)
        if steps.any():
            value = np.where(whole, np.inf, value)
            unit = np.where(whole, steps, 1.0)
            for rounding in (np.floor, np.ceil):
                near = np.clip(rounding(best / unit) * unit, low, high)
                candidate = _one_column(near, absolute, curvature, slope)
                value = np.where(whole, np.minimum(value, candidate), value)
        return np.where(low > high, np.inf, value)

    @staticmethod
    def _group_least(
        weight: float, slope: FloatArray, group: slice, cases: Cases
    ) -> tuple[FloatArray, BoolArray]:
        """(n,) the least of a category's price and slope, against staying; and whether it must go."""
        here = cases.x[:, group] > 0.5
        permitted = cases.high[:, group] > 0.5
        demanded = cases.low[:, group] > 0.5
        permitted &= demanded | ~demanded.any(axis=1, keepdims=True)
        staying = (slope[:, group] * here).sum(axis=1)
        value = np.where(permitted, slope[:, group] + weight * ~here, np.inf)
        return value.min(axis=1) - staying, ~(permitted & here).any(axis=1)

    @staticmethod
    def _best_changes(gains: FloatArray, forced: BoolArray, most: AtMost) -> FloatArray:
        """The least sum when only so many features may contribute; forced ones come first."""
        starts = [block.start for block in most.blocks]
        gain, must = gains[:, starts], forced[:, starts]
        left = most.count - must.sum(axis=1)
        free = np.sort(np.where(must, 0.0, np.minimum(gain, 0.0)), axis=1)
        rank = np.arange(free.shape[1])
        chosen = np.where(rank < left[:, None], free, 0.0).sum(axis=1)
        total = chosen + np.where(must, gain, 0.0).sum(axis=1)
        blocked = np.isposinf(gain).any(axis=1) | (left < 0)
        return np.where(blocked, np.inf, total)


def _free_least(absolute: FloatArray, curvature: FloatArray, slope: FloatArray) -> FloatArray:
    """min over all δ of absolute |δ| + curvature δ² + slope δ, column by column."""
    excess = np.maximum(np.abs(slope) - absolute, 0.0)
    if curvature.all():
        return -(excess * excess) / (4.0 * curvature)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(excess > 0, -(excess * excess) / (4.0 * curvature), 0.0)


def _best_change(
    absolute: FloatArray,
    curvature: FloatArray,
    slope: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """argmin over [low, high] of absolute |δ| + curvature δ² + slope δ; infinite where unbounded."""
    pull = -np.sign(slope) * np.maximum(np.abs(slope) - absolute, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        free = np.where(pull == 0.0, 0.0, pull / (2.0 * curvature))
    return np.minimum(np.maximum(free, low), high)


def _one_column(
    delta: FloatArray, absolute: FloatArray, curvature: FloatArray, slope: FloatArray
) -> FloatArray:
    with np.errstate(invalid="ignore"):
        value = absolute * np.abs(delta) + curvature * delta * delta + slope * delta
    runaway = np.isinf(delta)
    if runaway.any():
        flat = np.broadcast_to(curvature == 0, delta.shape)
        down = np.where(slope * np.sign(delta) < -absolute, -np.inf, np.inf)
        value = np.where(runaway & flat, down, value)
    return np.where(delta == 0.0, 0.0, value)
