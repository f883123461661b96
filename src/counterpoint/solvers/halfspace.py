"""One half-space at a time, in closed form, for whole batches.

For each person the most expensive single row of the program is met at the least cost, within the
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
from numpy.typing import NDArray

from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs import SLACK, Cases, Program
from counterpoint.regions import Affine, AtMost, Box, OneOf, Transitions, Whole
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver

__all__ = ["HalfSpace"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

NEWTON_STEPS = 60


@final
class HalfSpace(Solver):
    """Closed forms for one row; complete only where one row decides."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, Affine, Whole, OneOf, Transitions, AtMost}
    )
    accuracy: ClassVar[float] = 1e-12

    def takes(self, program: Program) -> bool:
        fits = program.kinds <= self.accepts and program.affine.size > 0
        return fits and (program.price.kind is Manhattan or not program.groups)

    def prepare(self, program: Program) -> HalfSpaces:
        return HalfSpaces(program)


@final
@dataclass(frozen=True, eq=False)
class Step:
    """Moves that meet one row at the least cost.

    Parameters
    ----------
    points
        (n, d) where they lead; NaN where the row cannot be met within the box.
    multipliers
        (n,) of the row.
    """

    points: FloatArray
    multipliers: FloatArray


@final
@dataclass(frozen=True, eq=False)
class HalfSpaces(Prepared):
    """The rows of a program as one-sided demands a·y >= b."""

    program: Program

    @cached_property
    def _sides(self) -> tuple[IntArray, FloatArray]:
        """Which row each one-sided demand comes from, and its sign: +1 for a lower bound."""
        affine = self.program.affine
        lower = np.flatnonzero(np.isfinite(affine.low))
        upper = np.flatnonzero(np.isfinite(affine.high))
        rows = np.concatenate([lower, upper])
        return rows, np.concatenate([np.ones(len(lower)), -np.ones(len(upper))])

    @cached_property
    def _demands(self) -> FloatArray:
        """(s, d) the normals a."""
        rows, signs = self._sides
        return self.program.affine.matrix[rows] * signs[:, None]

    @cached_property
    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """(s,) the limits b, and how much they grow for each unit of margin."""
        rows, signs = self._sides
        affine = self.program.affine
        limits = np.where(signs > 0, affine.low[rows], -affine.high[rows])
        return limits, affine.tight[rows]

    @cached_property
    def _effect(self) -> FloatArray:
        """(s,) how much score one unit of (the root of) cost buys at best, without a box."""
        price = self.program.price
        demands = np.abs(self._demands)
        if price.kind is Manhattan:
            weight = np.where(self.program.numeric, price.absolute, 2.0 * price.absolute)
            return np.asarray((demands / np.maximum(weight, 1e-300)).max(axis=1))
        if price.quadratic.ndim == 1:
            return np.sqrt((demands**2 / price.quadratic).sum(axis=1))
        return np.sqrt(np.einsum("ij,ij->i", self._demands, self._directions))

    @cached_property
    def _directions(self) -> FloatArray:
        """(s, d) the rows of (quadratic⁻¹ a)."""
        return np.linalg.solve(self.program.price.quadratic, self._demands.T).T

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        start = self._start(cases)
        short = self._shortfall(start, cases)
        free = (short <= 0.0).all(axis=1)
        worst = self._most_expensive(short)
        for side in np.unique(worst[~free]).tolist() if not free.all() else []:
            rows = np.flatnonzero(~free & (worst == side))
            part = slice(None) if len(rows) == len(cases) else rows
            step = self._meet(side, start[part], short[part, side], cases.take(part))
            row, sign = self._sides[0][side], self._sides[1][side]
            out.points[part] = step.points
            out.multipliers[part, row] = -sign * step.multipliers
        out.points[free] = start[free]
        self._judge(out, cases)
        return out

    def _judge(self, out: Solution, cases: Cases) -> None:
        """Keep the points that meet every condition; name the rows that cannot be met."""
        blocked = np.isnan(out.points[:, 0])
        met = ~blocked
        if len(self._demands) > 1 or self.program.steps.any() or self.program.groups:
            rest = self._shortfall(np.nan_to_num(out.points), cases)
            size = np.abs(np.nan_to_num(out.points)) @ np.abs(self._demands.T)
            met &= (rest <= 8 * np.finfo(float).eps * (size + np.abs(self._limits[0]))).all(axis=1)
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
        limits, tight = self._limits
        short = limits - y @ self._demands.T
        if tight.any():
            short += cases.margin[:, None] * tight
        return np.asarray(short)

    def _most_expensive(self, short: FloatArray) -> IntArray:
        if short.shape[1] == 1:
            return np.zeros(len(short), dtype=np.intp)
        with np.errstate(divide="ignore", invalid="ignore"):
            price = np.maximum(short, 0.0) / self._effect
        return np.asarray(np.nan_to_num(price, posinf=np.inf).argmax(axis=1))

    def _meet(self, side: int, start: FloatArray, short: FloatArray, cases: Cases) -> Step:
        price = self.program.price
        demand = self._demands[side]
        if price.kind is Manhattan:
            return Knapsack(self.program, demand).meet(start, short, cases)
        if price.kind is SquaredEuclidean:
            step = _meet_diagonal(demand, price.quadratic, start, short, cases)
        else:
            step = self._meet_full(side, start, short, cases)
        if self.program.steps.any():
            return Step(self._rounded(step.points, demand, cases), step.multipliers)
        return step

    def _meet_full(self, side: int, start: FloatArray, short: FloatArray, cases: Cases) -> Step:
        """The unconstrained optimum, where it lies in the box."""
        demand, direction = self._demands[side], self._directions[side]
        still = (start == cases.x).all(axis=1)
        length = short / float(demand @ direction) if demand.any() else np.full(len(short), np.nan)
        points = start + length[:, None] * direction
        inside = ((points >= cases.low) & (points <= cases.high)).all(axis=1) & still
        blocked = np.where(demand.any(), 0.0, 1.0)
        multipliers = np.where(blocked, 1.0, 2.0 * np.nan_to_num(length))
        return Step(np.where(inside[:, None], points, np.nan), multipliers)

    def _rounded(self, points: FloatArray, demand: FloatArray, cases: Cases) -> FloatArray:
        """Whole columns rounded towards meeting the demand, within their intervals."""
        steps = self.program.steps
        whole = steps > 0
        unit = np.where(whole, steps, 1.0)
        count = (points - cases.x) / unit
        up = np.where(demand > 0, np.ceil(count - SLACK), np.floor(count + SLACK))
        up = np.where(demand == 0, np.round(count), up)
        rounded = np.where(whole, cases.x + up * unit, points)
        inside = ((rounded >= cases.low) & (rounded <= cases.high)).all(axis=1)
        return np.where(inside[:, None], rounded, np.nan)


@final
@dataclass(frozen=True, eq=False)
class Knapsack:
    """One demand a·y >= b under weighted Manhattan cost: fill the best buys first.

    An item is a numeric column, with the room that its interval leaves in the demand's direction,
    or a category, which gives the best permitted change or nothing.
    """

    program: Program
    demand: FloatArray

    @cached_property
    def _columns(self) -> IntArray:
        """(items,) the encoded column of each item; for a group, its first."""
        groups = [group.start for group in self.program.groups]
        return np.concatenate([np.flatnonzero(self.program.numeric), groups]).astype(np.intp)

    @cached_property
    def _numbers(self) -> IntArray:
        return np.flatnonzero(self.program.numeric)

    @cached_property
    def _unit_price(self) -> FloatArray:
        """(numeric items,) cost for each unit of score; infinite for columns without effect."""
        weight = self.program.price.absolute[self._numbers]
        effect = np.abs(self.demand[self._numbers])
        with np.errstate(divide="ignore"):
            return np.where(effect > 0, weight / effect, np.inf)

    def meet(self, start: FloatArray, short: FloatArray, cases: Cases) -> Step:
        """Meet the demand at the least cost from the start points."""
        quick = self._best_alone(start, short, cases)
        if quick is not None:
            return quick
        room = self._room(start, cases)
        if not self.program.groups:
            price = np.broadcast_to(self._unit_price, room.shape)
            return self._fill(start, short, cases, room, price, None)
        gain, best = self._category_gains(start, cases)
        weights = 2.0 * self.program.price.absolute[[g.start for g in self.program.groups]]
        with np.errstate(divide="ignore"):
            group_price = np.where(gain > 0, weights / gain, np.inf)
        price = np.concatenate([np.broadcast_to(self._unit_price, room.shape), group_price], axis=1)
        return self._fill(start, short, cases, np.concatenate([room, gain], axis=1), price, best)

    def _best_alone(self, start: FloatArray, short: FloatArray, cases: Cases) -> Step | None:
        """The whole batch by its one best column, if that has room without limit."""
        if self.program.groups or not np.isfinite(self._unit_price).any():
            return None
        item = int(self._unit_price.argmin())
        column = int(self._numbers[item])
        limit = (cases.high if self.demand[column] > 0 else cases.low)[:, column]
        if (
            self.program.steps[column]
            or np.isfinite(limit[:1] if limit.strides[0] == 0 else limit).any()
        ):
            return None
        points = np.array(start)
        points[:, column] += short / self.demand[column]
        return Step(points, np.full(len(points), self._unit_price[item]))

    def _room(self, start: FloatArray, cases: Cases) -> FloatArray:
        """(n, numeric items) score units that each column can still give."""
        numbers = self._numbers
        effect = self.demand[numbers]
        rise = np.maximum(cases.high[:, numbers] - start[:, numbers], 0.0)
        fall = np.maximum(start[:, numbers] - cases.low[:, numbers], 0.0)
        room = np.where(effect > 0, rise, fall)
        steps = self.program.steps[numbers]
        whole = steps > 0
        if whole.any():
            room = np.array(room)
            room[:, whole] = np.floor(room[:, whole] / steps[whole] + SLACK) * steps[whole]
        with np.errstate(invalid="ignore"):
            return np.where(effect == 0, 0.0, room * np.abs(effect))

    def _category_gains(self, start: FloatArray, cases: Cases) -> tuple[FloatArray, IntArray]:
        """(n, groups) the most score a permitted change gives, and the category that gives it."""
        gains = np.empty((len(start), len(self.program.groups)))
        best = np.empty(gains.shape, dtype=np.intp)
        for g, group in enumerate(self.program.groups):
            effect = self.demand[group]
            reach = np.where(cases.high[:, group] > 0.5, effect, -np.inf)
            best[:, g] = reach.argmax(axis=1)
            here = start[:, group] @ effect
            gains[:, g] = np.maximum(reach[np.arange(len(start)), best[:, g]] - here, 0.0)
        return gains, best

    def _fill(
        self,
        start: FloatArray,
        short: FloatArray,
        cases: Cases,
        room: FloatArray,
        price: FloatArray,
        best: IntArray | None,
    ) -> Step:
        """Items in the order of their price until the demand is met; the last one in part."""
        n = len(start)
        rows = np.arange(n)
        order = np.argsort(price[:1] if best is None else price, axis=1, kind="stable")
        order = np.broadcast_to(order, price.shape)
        filled = np.cumsum(np.take_along_axis(room, order, axis=1), axis=1)
        enough = filled >= short[:, None] * (1.0 - 4e-16)
        possible = enough[:, -1]
        last = np.where(possible, enough.argmax(axis=1), room.shape[1] - 1)
        item = order[rows, last]
        before = np.where(last > 0, filled[rows, np.maximum(last - 1, 0)], 0.0)
        taken = np.zeros_like(room)
        np.put_along_axis(taken, order, np.arange(room.shape[1]) < last[:, None], axis=1)
        amount = np.where(taken > 0, room, 0.0)
        missing = np.maximum(short - before, 0.0)
        self._finish(amount, missing, room, price, item)
        points = self._moved(start, amount, best)
        multiplier = np.where(possible, price[rows, item], 1.0)
        return Step(np.where(possible[:, None], points, np.nan), multiplier)

    def _finish(
        self,
        amount: FloatArray,
        missing: FloatArray,
        room: FloatArray,
        price: FloatArray,
        item: IntArray,
    ) -> None:
        """Add to ``amount`` the cheapest single item that covers what is missing, whole if it must."""
        rows = np.arange(len(amount))
        numbers = len(self._numbers)
        grain = np.full(room.shape[1], np.nan)
        grain[:numbers] = self.program.steps[self._numbers] * np.abs(self.demand[self._numbers])
        if not (grain[:numbers] > 0).any() and room.shape[1] == numbers:
            amount[rows, item] += missing
            return
        left = room - amount
        need = np.broadcast_to(missing[:, None], room.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.ceil(need / np.where(grain > 0, grain, 1.0) - SLACK) * grain
        need = np.where(grain > 0, steps, need)
        need = np.where(np.isnan(grain), left, need)
        covers = (need >= missing[:, None] * (1 - 1e-15)) & (need <= left * (1 + 1e-12))
        with np.errstate(invalid="ignore"):
            cost = np.where(covers & np.isfinite(price), need * price, np.inf)
        choice = cost.argmin(axis=1)
        nothing = ~np.isfinite(cost[rows, choice]) | (missing <= 0)
        amount[rows, choice] += np.where(nothing, 0.0, need[rows, choice])

    def _moved(self, start: FloatArray, amount: FloatArray, best: IntArray | None) -> FloatArray:
        numbers = self._numbers
        effect = np.where(self.demand[numbers] == 0, 1.0, self.demand[numbers])
        points = np.array(start)
        points[:, numbers] += amount[:, : len(numbers)] / effect
        if best is not None:
            switched = amount[:, len(numbers) :] > 0
            for g, group in enumerate(self.program.groups):
                rows = np.flatnonzero(switched[:, g])
                points[rows, group] = 0.0
                points[rows, group.start + best[rows, g]] = 1.0
        return points


def _meet_diagonal(
    demand: FloatArray, quadratic: FloatArray, start: FloatArray, short: FloatArray, cases: Cases
) -> Step:
    """min Σ q δ² s.t. a·δ >= short: δ(λ) = clip(λ a / 2q) with λ the root of a·δ(λ) = short."""
    direction = demand / (2.0 * quadratic)
    rate = float(demand @ direction)
    if rate == 0.0:
        return Step(np.full_like(start, np.nan), np.ones(len(start)))
    x, low, high = cases.x, cases.low, cases.high
    multiplier = short / rate
    if cases.unbounded:
        points = np.multiply.outer(multiplier, direction)
        points += x
        return Step(points, multiplier)
    total = short + (start - x) @ demand
    furthest = np.where(demand > 0, high, np.where(demand < 0, low, x)) - x
    with np.errstate(invalid="ignore"):
        reach = (furthest * np.where(demand == 0, 0.0, demand)).sum(axis=1)
    possible = reach >= total * (1.0 - 4e-16)
    multiplier = _root(direction, demand, total, low - x, high - x, np.abs(multiplier))
    points = np.clip(x + multiplier[:, None] * direction, low, high)
    return Step(np.where(possible[:, None], points, np.nan), np.where(possible, multiplier, 1.0))


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
    for _ in range(NEWTON_STEPS):
        move = root[:, None] * direction
        clipped = np.minimum(np.maximum(move, low), high)
        excess = clipped @ demand - total
        if (np.abs(excess) <= 1e-15 * np.abs(total)).all():
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
