"""One half-space at a time, in closed form, for whole batches.

For each case the most expensive single row of the program is met at the least cost, within the
box. That is a relaxation, so its cost is a lower bound; where the point happens to meet the other
rows too, it is the optimum. With weighted Manhattan cost the one-row problem is a continuous
knapsack (fill the features in the order of score gained for a unit of cost); with squared Euclidean
cost, a root of a monotone function of one multiplier; with Mahalanobis cost, one division.
Whole steps and categories are rounded to a feasible point, which the program's bound then judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.domains import INTEGRAL, Box, Transitions
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.engine.separable import OneHotGroups
from counterpoint.numerics import (
    EPS,
    LEAST,
    STEP_SLACK,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
)
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

__all__ = ["HalfSpace", "filled"]


ROUNDED = 4.0 * UNIT
"""What a sum may be off by, relative to it, that counts as met."""
SPARE = 1e-12
"""By what share whole steps may exceed the room they were counted in: that is rounding."""


Moves = tuple[FloatArray, FloatArray]
"""(n, d) where moves lead that meet one demand at the least cost, NaN where the box leaves no way
to meet it; (n,) the multipliers of its row."""


@final
@dataclass(frozen=True, eq=False)
class HalfSpace(Solver):
    """Closed forms for one row; complete only where one row decides."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, LinearBounds, Transitions, *INTEGRAL}
    )
    accuracy: ClassVar[float] = 1e-12
    complete: ClassVar[bool] = False
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        fits = program.kinds <= cls.accepts and program.affine.size > 0
        return fits and (program.price.kind is Manhattan or not program.groups)

    @cached_property
    def _rows(self) -> tuple[IntArray, FloatArray]:
        """(s,) the row of each demand a·y >= b, and +1 for its lower bound, −1 for its upper."""
        affine = self.program.affine
        lower, upper = (np.flatnonzero(np.isfinite(v)) for v in (affine.low, affine.high))
        return np.append(lower, upper), np.repeat([1.0, -1.0], [len(lower), len(upper)])

    @cached_property
    def _normals(self) -> FloatArray:
        """(s, d) the normals a."""
        rows, signs = self._rows
        return self.program.affine.matrix[rows] * signs[:, None]

    @cached_property
    def _limits(self) -> FloatArray:
        """(s,) the limits b."""
        low, high = self.program.affine.low, -self.program.affine.high
        return np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)]])

    @cached_property
    def _effect(self) -> FloatArray:
        """(s,) how much score one unit of (the root of) cost buys at best, without a box."""
        price = self.program.price
        demands = np.abs(self._normals)
        if price.kind is Manhattan:
            weight = np.where(self.program.numeric, price.absolute, 2.0 * price.absolute)
            return np.asarray((demands / np.maximum(weight, LEAST)).max(axis=1))
        if price.quadratic.ndim == 1:
            return np.asarray(np.sqrt((demands**2 / price.quadratic).sum(axis=1)))
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self._normals, self._directions)))

    @cached_property
    def _directions(self) -> FloatArray:
        """(s, d) the rows of (quadratic⁻¹ a)."""
        return np.asarray(np.linalg.solve(self.program.price.quadratic, self._normals.T).T)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        start = self._start(cases)
        short = self._shortfall(start, cases)
        free = (short <= 0.0).all(axis=1)
        if self.program.price.quadratic.ndim == 2:  # a box's nearest point is not the projection
            free &= (start == cases.x).all(axis=1)
        worst, n = self._most_expensive(short), len(start)
        points, multipliers = np.array(start), np.zeros((n, self.program.size))
        for side in np.flatnonzero(np.bincount(worst[~free])).tolist():
            rows = np.flatnonzero(~free & (worst == side))
            part, some = (slice(None), cases) if len(rows) == n else (rows, cases.take(rows))
            points[part], weights = self._meet(side, start[part], short[part, side], some)
            row, sign = (of[side] for of in self._rows)
            multipliers[part, row] = -sign * weights
        if not cases.unbounded:
            points[(cases.low > cases.high).any(axis=1)] = np.nan
        out = Solution(points, multipliers, np.full(n, Outcome.NOTHING, dtype=np.int8), np.zeros(n))
        self._judge(out, cases)
        return out

    def _judge(self, out: Solution, cases: Cases) -> None:
        """Keep the points that meet every condition; name the rows that cannot be met."""
        blocked = np.isnan(out.points[:, 0])
        met = ~blocked
        if len(self._normals) > 1 or self.program.steps.any() or self.program.groups:
            rest = self._shortfall(np.nan_to_num(out.points), cases)
            size = np.abs(np.nan_to_num(out.points)) @ np.abs(self._normals.T)
            met &= (rest <= 8 * EPS * (size + np.abs(self._limits))).all(axis=1)
        for group in self.program.groups:
            met &= (np.nan_to_num(out.points[:, group]) <= cases.high[:, group]).all(axis=1)
        if self.program.at_most is not None:
            met &= self.program.at_most.violation(np.nan_to_num(out.points), cases.x) == 0
        out.points[~met] = np.nan
        out.outcomes[met] = Outcome.FOUND
        if blocked.any():
            refuted = self.program.refutes(cases.take(blocked), out.multipliers[blocked])
            out.outcomes[np.flatnonzero(blocked)[refuted]] = Outcome.INFEASIBLE

    def _start(self, cases: Cases) -> FloatArray:
        """(n, d) the nearest points of the box; a forbidden category is left as it is."""
        low, high = cases.low, cases.high
        if cases.unbounded:
            return cases.x
        numeric = self.program.numeric
        if numeric.all():
            return np.clip(cases.x, low, high)
        start = np.array(cases.x)
        start[:, numeric] = np.clip(cases.x[:, numeric], low[:, numeric], high[:, numeric])
        return start

    def _shortfall(self, y: FloatArray, cases: Cases) -> FloatArray:
        """(n, s) by how much each demand is missed, in score units."""
        short = self._limits - y @ self._normals.T
        if cases.margin.any():
            short += self.program.affine.closed_in(cases.margin)[:, self._rows[0]]
        return np.asarray(short)

    def _most_expensive(self, short: FloatArray) -> IntArray:
        if short.shape[1] == 1:
            return np.zeros(len(short), dtype=np.intp)
        with np.errstate(divide="ignore", invalid="ignore"):
            price = np.maximum(short, 0.0) / self._effect
        return np.asarray(np.nan_to_num(price, posinf=np.inf).argmax(axis=1))

    def _meet(self, side: int, start: FloatArray, short: FloatArray, cases: Cases) -> Moves:
        price = self.program.price
        demand = self._normals[side]
        if price.kind is Manhattan:
            return filled(self.program, demand, start, short, cases)
        if price.kind is SquaredEuclidean:
            points, multipliers = _meet_diagonal(demand, price.quadratic, start, short, cases)
        else:
            points, multipliers = self._meet_full(side, start, short, cases)
        if self.program.steps.any():
            points = self._rounded(points, demand, cases)
        return points, multipliers

    def _meet_full(self, side: int, start: FloatArray, short: FloatArray, cases: Cases) -> Moves:
        """The unconstrained optimum, where it lies in the box."""
        demand, direction = self._normals[side], self._directions[side]
        if not demand.any():
            return np.full_like(start, np.nan), np.ones(len(start))
        length = short / float(demand @ direction)
        points = start + length[:, None] * direction
        inside = np.all((points >= cases.low) & (points <= cases.high), axis=1)
        inside &= (start == cases.x).all(axis=1)
        return np.where(inside[:, None], points, np.nan), 2.0 * length

    def _rounded(self, points: FloatArray, demand: FloatArray, cases: Cases) -> FloatArray:
        """Whole columns rounded towards meeting the demand, within their intervals."""
        steps = self.program.steps
        whole = steps > 0
        unit = np.where(whole, steps, 1.0)
        count = (points - cases.x) / unit
        up = np.where(demand > 0, np.ceil(count - STEP_SLACK), np.floor(count + STEP_SLACK))
        up = np.where(demand == 0, np.round(count), up)
        rounded = np.where(whole, cases.x + up * unit, points)
        inside = np.all((rounded >= cases.low) & (rounded <= cases.high), axis=1)
        return np.where(inside[:, None], rounded, np.nan)


def _meet_diagonal(
    demand: FloatArray, quadratic: FloatArray, start: FloatArray, short: FloatArray, cases: Cases
) -> Moves:
    """min Σ q δ² s.t. a·δ >= short: δ(λ) = clip(λ a / 2q) with λ the root of a·δ(λ) = short."""
    direction = demand / (2.0 * quadratic)
    rate = float(demand @ direction)
    if rate == 0.0:
        return np.full_like(start, np.nan), np.ones(len(start))
    x, low, high = cases.x, cases.low, cases.high
    multiplier = short / rate
    if cases.unbounded:
        points = np.multiply.outer(multiplier, direction)
        points += x
        return points, multiplier
    total = short + (start - x) @ demand
    furthest = np.where(demand > 0, high, np.where(demand < 0, low, x)) - x
    with np.errstate(invalid="ignore"):
        reach = (furthest * np.where(demand == 0, 0.0, demand)).sum(axis=1)
    possible = reach >= total * (1.0 - ROUNDED)
    multiplier = _root(direction, demand, total, low - x, high - x, np.abs(multiplier))
    points = np.clip(x + multiplier[:, None] * direction, low, high)
    return np.where(possible[:, None], points, np.nan), np.where(possible, multiplier, 1.0)


def _root(
    direction: FloatArray,
    demand: FloatArray,
    total: FloatArray,
    low: FloatArray,
    high: FloatArray,
    guess: FloatArray,
) -> FloatArray:
    """(n,) λ >= 0 with demand · clip(λ direction, low, high) = total: Newton kept in a bracket."""
    lower, upper = np.zeros(len(total)), np.full(len(total), np.inf)
    root = np.array(guess)
    slopes = demand * direction
    for _ in range(60):  # some 5 do; halving the bracket takes all of them
        move = root[:, None] * direction
        clipped = np.minimum(np.maximum(move, low), high)
        excess = clipped @ demand - total
        if (np.abs(excess) <= 2.0 * ROUNDED * np.abs(total)).all():
            break
        lower = np.where(excess <= 0, root, lower)
        upper = np.where(excess >= 0, root, upper)
        slope = np.where(clipped == move, slopes, 0.0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = root - excess / slope
        middle = np.where(np.isinf(upper), 2.0 * root + guess, 0.5 * (lower + upper))
        usable = (newton > lower) & (newton < upper) & np.isfinite(newton)
        following = np.where(usable, newton, middle)
        if (following == root).all():
            break
        root = np.where(excess == 0, root, following)
    return root


def filled(
    program: Program, demand: FloatArray, start: FloatArray, short: FloatArray, cases: Cases
) -> Moves:
    """One demand under weighted Manhattan cost: a knapsack, filled with the best buys first.

    An item is a numeric column, with the room that its interval leaves in the demand's direction,
    or a category, which gives the best permitted change or nothing.
    """
    numbers, groups = np.flatnonzero(program.numeric), program.groups
    unit_price = _per_unit(program.price.absolute[numbers], np.abs(demand[numbers]))
    if not groups and np.isfinite(unit_price).any():  # the one best column may have room for all
        item = int(unit_price.argmin())
        column = int(numbers[item])
        limit = (cases.high if demand[column] > 0 else cases.low)[:, column]
        limit = limit[:1] if limit.strides[0] == 0 else limit
        if not program.steps[column] and not np.isfinite(limit).any():
            points = np.array(start)
            points[:, column] += short / demand[column]
            return points, np.full(len(points), unit_price[item])
    room = _room(program, demand, start, cases)
    price = np.broadcast_to(unit_price, room.shape)
    grain = program.steps[numbers] * np.abs(demand[numbers])
    if groups:
        hot = OneHotGroups(groups)
        scores = np.where(hot.permitted(cases), demand[hot.columns], -np.inf)
        here = hot.reduce(np.add, start[:, hot.columns] * demand[hot.columns])
        gain = np.maximum(hot.reduce(np.maximum, scores) - here, 0.0)
        weights = 2.0 * program.price.absolute[hot.first]
        price, room = np.hstack([price, _per_unit(weights, gain)]), np.hstack([room, gain])
        grain = np.append(grain, np.full(len(groups), np.nan))
    amount, possible, multipliers = _greedy(short, room, price, grain)
    points = _moved(program, demand, start, amount, cases)
    points[~possible] = np.nan
    return points, np.where(possible, multipliers, 1.0)


def _per_unit(weight: FloatArray, gain: FloatArray) -> FloatArray:
    """Cost for each unit of score; infinite where the score gains nothing, even if that is free."""
    price = np.full(np.broadcast_shapes(weight.shape, gain.shape), np.inf)
    return np.divide(weight, gain, out=price, where=gain > 0)


def _room(program: Program, demand: FloatArray, start: FloatArray, cases: Cases) -> FloatArray:
    """(n, numeric items) score units that each column can still give."""
    numbers = np.flatnonzero(program.numeric)
    effect, steps = demand[numbers], program.steps[numbers]
    rise = np.maximum(cases.high[:, numbers] - start[:, numbers], 0.0)
    fall = np.maximum(start[:, numbers] - cases.low[:, numbers], 0.0)
    room, whole = np.where(effect > 0, rise, fall), steps > 0
    if whole.any():
        room[:, whole] = np.floor(room[:, whole] / steps[whole] + STEP_SLACK) * steps[whole]
    with np.errstate(invalid="ignore"):
        return np.where(effect == 0, 0.0, room * np.abs(effect))


def _greedy(
    short: FloatArray, room: FloatArray, price: FloatArray, grain: FloatArray
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """(n, items) amounts, in the order of price until (n,) are met; (n,) whether; (n,) multipliers.

    Of each item there is some room; its grain is what multiples must be taken of, 0 for any amount,
    NaN for all or nothing.
    """
    rows, alike = np.arange(len(short)), price.strides[0] == 0
    order = np.argsort(price[:1] if alike else price, axis=1, kind="stable")
    order = np.broadcast_to(order, price.shape)
    so_far = np.cumsum(np.take_along_axis(room, order, axis=1), axis=1)
    enough = so_far >= short[:, None] * (1.0 - ROUNDED)
    possible = enough[:, -1]
    last = np.where(possible, enough.argmax(axis=1), room.shape[1] - 1)
    item = order[rows, last]
    before = np.where(last > 0, so_far[rows, np.maximum(last - 1, 0)], 0.0)
    taken = np.zeros(room.shape, dtype=bool)
    np.put_along_axis(taken, order, np.arange(room.shape[1]) < last[:, None], axis=1)
    amount = np.where(taken, room, 0.0)
    missing = np.maximum(short - before, 0.0)
    if (grain == 0.0).all():
        amount[rows, item] += missing
    else:
        _finish(amount, missing, room, price, grain)
    return amount, possible, price[rows, item]


def _finish(
    amount: FloatArray,
    missing: FloatArray,
    room: FloatArray,
    price: FloatArray,
    grain: FloatArray,
) -> None:
    """Add to ``amount`` the cheapest single item that covers the rest, in whole grains."""
    rows, left = np.arange(len(amount)), room - amount
    need = np.broadcast_to(missing[:, None], room.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.ceil(need / np.where(grain > 0, grain, 1.0) - STEP_SLACK) * grain
    need = np.where(grain > 0, steps, np.where(np.isnan(grain), left, need))
    covers = (need >= missing[:, None] * (1.0 - 2.0 * ROUNDED)) & (need <= left * (1.0 + SPARE))
    with np.errstate(invalid="ignore"):
        cost = np.where(covers & np.isfinite(price), need * price, np.inf)
    choice = cost.argmin(axis=1)
    nothing = ~np.isfinite(cost[rows, choice]) | (missing <= 0)
    amount[rows, choice] += np.where(nothing, 0.0, need[rows, choice])


def _moved(
    program: Program, demand: FloatArray, start: FloatArray, amount: FloatArray, cases: Cases
) -> FloatArray:
    """(n, d) where the amounts of the items lead."""
    numbers, points = np.flatnonzero(program.numeric), np.array(start)
    effect = np.where(demand[numbers] == 0, 1.0, demand[numbers])
    change, steps = amount[:, : len(numbers)] / effect, program.steps[numbers]
    whole = steps > 0.0
    change[:, whole] = np.rint(change[:, whole] / steps[whole]) * steps[whole]
    moved = points[:, numbers] + change
    points[:, numbers] = np.clip(moved, cases.low[:, numbers], cases.high[:, numbers])
    chosen = amount[:, len(numbers) :] > 0.0
    if not chosen.any():
        return points
    hot = OneHotGroups(program.groups)
    scores = np.full(points.shape, -np.inf)
    scores[:, hot.columns] = np.where(hot.permitted(cases), demand[hot.columns], -np.inf)
    for g, group in enumerate(program.groups):
        rows = np.flatnonzero(chosen[:, g])
        best = scores[rows, group].argmax(axis=1)
        points[rows, group] = np.eye(group.stop - group.start)[best]
    return points
