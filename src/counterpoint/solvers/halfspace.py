"""One half-space at a time, in closed form, for whole batches.

For each case the most expensive single row of the program is met at the least cost, within the
box. That is a relaxation, so its cost is a lower bound; where the point happens to meet the other
rows too, it is the optimum. With weighted Manhattan cost the one-row problem is a continuous
knapsack (fill the features in the order of score gained for a unit of cost); with squared Euclidean
cost, a root of a monotone function of one multiplier; with Mahalanobis cost, one division.
What is integral is relaxed too: whole columns are rounded outwards, and points that then miss some
condition are dropped, but not what their multipliers prove.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.numerics import EPS, LEAST, STEP_SLACK, UNIT, FloatArray, IntArray
from counterpoint.problem.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import INTEGRAL, Box, LinearBounds, Transitions
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases
from counterpoint.rows import lattice
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

__all__ = ["HalfSpace"]


ROUNDED = 4.0 * UNIT
"""What a sum may be off by, relative to it, that counts as met."""
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
        fits = program.condition_types <= cls.accepts and program.affine.size > 0
        return fits and (program.encoded_cost.kind is Manhattan or not program.groups)

    @cached_property
    def _is_integral(self) -> bool:
        return bool(self.program.condition_types & set(INTEGRAL))

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
        encoded_cost = self.program.encoded_cost
        demands = np.abs(self._normals)
        if encoded_cost.kind is Manhattan:
            weight = np.where(
                self.program.numeric, encoded_cost.absolute, 2.0 * encoded_cost.absolute
            )
            return np.asarray((demands / np.maximum(weight, LEAST)).max(axis=1))
        if encoded_cost.quadratic.ndim == 1:
            return np.asarray(np.sqrt((demands**2 / encoded_cost.quadratic).sum(axis=1)))
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self._normals, self._directions)))

    @cached_property
    def _directions(self) -> FloatArray:
        """(s, d) the rows of (quadratic⁻¹ a)."""
        return np.asarray(np.linalg.solve(self.program.encoded_cost.quadratic, self._normals.T).T)

    @cached_property
    def _buys(self) -> list[tuple[FloatArray, IntArray]]:
        """For each demand what a unit of score costs, and the columns that give any, best first."""
        gains = np.abs(self._normals)
        encoded_cost = np.broadcast_to(self.program.encoded_cost.absolute, gains.shape)
        cost_cutoff = np.divide(
            encoded_cost, gains, out=np.full(gains.shape, np.inf), where=gains > 0.0
        )
        order, some = (
            np.argsort(cost_cutoff, axis=1, kind="stable"),
            np.count_nonzero(gains, axis=1),
        )
        return [(cost_cutoff[s], order[s, :count]) for s, count in enumerate(some.tolist())]

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        start = cases.x
        if not cases.unbounded:
            start = np.clip(start, cases.low, cases.high)
            for group in self.program.groups:  # a forbidden category is left as it is
                start[:, group] = cases.x[:, group]
        short = self._shortfall(start, cases)
        free = (short <= 0.0).all(axis=1)
        if (
            self.program.encoded_cost.quadratic.ndim == 2
        ):  # a box's nearest point is not the projection
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
        if self.program.steps.any():
            points = self._rounded(points, cases)
        out = Solution(points, multipliers, np.full(n, Outcome.NOTHING, dtype=np.int8), np.zeros(n))
        self._judge(out, cases)
        return out

    def _judge(self, out: Solution, cases: Cases) -> None:
        """Keep the points that meet every condition; name the rows that cannot be met."""
        blocked = np.isnan(out.points[:, 0])
        satisfied = ~blocked
        if len(self._normals) > 1 or self._is_integral:
            points = np.nan_to_num(out.points)
            rest, size = self._shortfall(points, cases), np.abs(points) @ np.abs(self._normals.T)
            satisfied &= (rest <= 8 * EPS * (size + np.abs(self._limits))).all(axis=1)
        if self._is_integral:
            satisfied &= self.program.violation(np.nan_to_num(out.points), cases.x) == 0.0
        out.points[~satisfied] = np.nan
        out.outcomes[satisfied] = Outcome.FOUND
        if blocked.any():
            refuted = self.program.refutes(cases.take(blocked), out.multipliers[blocked])
            out.outcomes[np.flatnonzero(blocked)[refuted]] = Outcome.INFEASIBLE

    def _rounded(self, points: FloatArray, cases: Cases) -> FloatArray:
        """Whole columns away from where they are: that helps to meet the demand."""
        whole = np.flatnonzero(self.program.steps)
        step, x = self.program.steps[whole], cases.x[:, whole]
        count = (points[:, whole] - x) / step
        count = np.sign(count) * np.ceil(np.abs(count) - STEP_SLACK)
        low, high = cases.low[:, whole], cases.high[:, whole]
        points[:, whole] = np.minimum(np.maximum(lattice.number(x, count, step), low), high)
        return points

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
            encoded_cost = np.maximum(short, 0.0) / self._effect
        return np.asarray(np.nan_to_num(encoded_cost, posinf=np.inf).argmax(axis=1))

    def _meet(self, side: int, start: FloatArray, short: FloatArray, cases: Cases) -> Moves:
        encoded_cost = self.program.encoded_cost
        demand = self._normals[side]
        if encoded_cost.kind is Manhattan:
            if self.program.groups:
                return _filled_with_categories(self.program, demand, start, short, cases)
            return _filled(self._buys[side], demand, start, short, cases)
        if encoded_cost.kind is SquaredEuclidean:
            return _meet_diagonal(demand, encoded_cost.quadratic, start, short, cases)
        return self._meet_full(side, start, short, cases)

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
    total, low, high = short + (start - x) @ demand, low - x, high - x
    some = slice(None) if demand.all() else np.flatnonzero(demand)
    reach = np.where(demand[some] > 0.0, high[:, some], low[:, some]) @ demand[some]
    possible = reach >= total * (1.0 - ROUNDED)
    multiplier = _root(direction, demand, total, low, high, np.abs(multiplier))
    points = np.clip(x + multiplier[:, None] * direction, cases.low, cases.high)
    points[~possible] = np.nan
    return points, np.where(possible, multiplier, 1.0)


def _root(
    direction: FloatArray,
    demand: FloatArray,
    total: FloatArray,
    low: FloatArray,
    high: FloatArray,
    guess: FloatArray,
) -> FloatArray:
    """(n,) λ >= 0 with demand · clip(λ direction, low, high) = total: Newton kept in a bracket.

    Each row until it is met, whatever the others are.
    """
    lower, upper = np.zeros(len(total)), np.full(len(total), np.inf)
    root, left, slopes = np.array(guess), np.arange(len(total)), demand * direction
    for _ in range(60):  # some 5 do; halving the bracket takes all of them
        part = slice(None) if len(left) == len(total) else left
        at, move = root[part], np.multiply.outer(root[part], direction)
        clipped = np.maximum(move, low[part])
        np.minimum(clipped, high[part], out=clipped)
        excess = clipped @ demand - total[part]
        off = np.abs(excess) > 2.0 * ROUNDED * np.abs(total[part])
        left, at, excess = left[off], at[off], excess[off]
        if not len(left):
            break
        lower[left] = np.where(excess <= 0, at, lower[left])
        upper[left] = np.where(excess >= 0, at, upper[left])
        slope = np.where(clipped[off] == move[off], slopes, 0.0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = at - excess / slope
        above = upper[left]
        middle = np.where(np.isinf(above), 2.0 * at + guess[left], 0.5 * (lower[left] + above))
        usable = (newton > lower[left]) & (newton < above) & np.isfinite(newton)
        root[left] = np.where(usable, newton, middle)
        left = left[root[left] != at]
    return root


def _filled(
    buys: tuple[FloatArray, IntArray],
    demand: FloatArray,
    start: FloatArray,
    short: FloatArray,
    cases: Cases,
) -> Moves:
    """One demand under weighted Manhattan cost: a knapsack, filled with the best buys first.

    A column gives the score that its interval leaves room for, in the demand's direction.
    """
    cost_cutoff, order = buys
    if not len(order):
        return np.full_like(start, np.nan), np.ones(len(start))
    points, gain = np.array(start), np.abs(demand)
    if cases.unbounded:  # then the best column gives all
        points[:, order[0]] += np.maximum(short, 0.0) / demand[order[0]]
        return points, np.full(len(start), cost_cutoff[order[0]])
    worths, left, width = np.ones(len(start)), np.arange(len(start)), 1
    while len(left):  # most rows need the first few columns only
        ways, some = order[:width], cases if len(left) == len(start) else cases.take(left)
        at, low, high = start[left[:, None], ways], some.low[:, ways], some.high[:, ways]
        room = np.maximum(np.where(demand[ways] > 0.0, high - at, at - low), 0.0) * gain[ways]
        so_far, rows = np.cumsum(room, axis=1), np.arange(len(left))
        last = np.count_nonzero(so_far < short[left, None] * (1.0 - ROUNDED), axis=1)
        satisfied, last = last < len(ways), np.minimum(last, len(ways) - 1)
        amount = np.where(np.arange(len(ways)) < last[:, None], room, 0.0)
        before = np.where(last > 0, so_far[rows, last - 1], 0.0)
        amount[rows, last] = np.maximum(short[left] - before, 0.0)
        moved = np.minimum(np.maximum(at + amount / demand[ways], low), high)
        points[left[satisfied, None], ways], worths[left[satisfied]] = (
            moved[satisfied],
            cost_cutoff[ways[last[satisfied]]],
        )
        left, width = left[~satisfied], 4 * width
        if len(ways) == len(order):
            points[left] = np.nan
            break
    return points, worths


def _filled_with_categories(
    program: Program, demand: FloatArray, start: FloatArray, short: FloatArray, cases: Cases
) -> Moves:
    """The same with one-hot groups, of each of which the best category alone is bought."""
    rows, encoded_cost, groups = (
        np.arange(len(start)),
        program.encoded_cost.absolute,
        program.groups,
    )
    some, points = program.numeric & (demand != 0.0), np.array(start)
    gain = np.repeat(np.where(some, np.abs(demand), 0.0)[None], len(start), axis=0)
    with np.errstate(invalid="ignore"):
        room = np.where(demand > 0.0, cases.high - start, start - cases.low).clip(0.0) * gain
    room[:, ~some] = 0.0
    for group in groups:
        scores = np.where(cases.high[:, group] > 0.5, demand[group], -np.inf)
        column = group.start + scores.argmax(axis=1)
        more = np.maximum(scores.max(axis=1) - start[:, group] @ demand[group], 0.0)
        gain[rows, column] = room[rows, column] = more
    weight = np.where(program.numeric, encoded_cost, 2.0 * encoded_cost)
    cost_cutoff = np.divide(weight, gain, out=np.full(gain.shape, np.inf), where=gain > 0.0)
    order = np.argsort(cost_cutoff, axis=1, kind="stable")
    so_far = np.cumsum(np.take_along_axis(room, order, axis=1), axis=1)
    enough = so_far >= short[:, None] * (1.0 - ROUNDED)
    possible = enough[:, -1]
    last = np.where(possible, enough.argmax(axis=1), len(demand) - 1)
    column = order[rows, last]
    full = np.zeros(room.shape, dtype=bool)
    np.put_along_axis(full, order, np.arange(len(demand)) < last[:, None], axis=1)
    amount = np.where(full, room, 0.0)
    amount[rows, column] = np.maximum(short - np.where(last > 0, so_far[rows, last - 1], 0.0), 0.0)
    points += amount / np.where(demand == 0.0, 1.0, demand)
    np.minimum(np.maximum(points, cases.low, out=points), cases.high, out=points)
    for group in groups:
        chosen = amount[:, group] > 0.0
        changes = chosen.any(axis=1, keepdims=True)
        points[:, group] = np.where(changes, chosen, start[:, group])
    points[~possible] = np.nan
    return points, np.where(possible, cost_cutoff[rows, column], 1.0)
