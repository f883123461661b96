"""One half-space at a time, in closed form, for whole batches.

For each case the most expensive single row of the program is met at the least cost, within the
box. That is a relaxation, so its cost is a lower bound; where the point happens to meet the other
rows too, it is the optimum. With weighted Manhattan cost the one-row problem is a continuous
knapsack (fill the features in the order of score gained for a unit of cost); with squared Euclidean
cost, a root of a monotone function of one multiplier; with Mahalanobis cost, one division.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.domains import Box
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.numerics import EPS, LEAST, UNIT, FloatArray, IntArray
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

__all__ = ["HalfSpace", "filled"]


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
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, LinearBounds}
    )
    accuracy: ClassVar[float] = 1e-12
    complete: ClassVar[bool] = False
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        return program.kinds <= cls.accepts and program.affine.size > 0

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
            return np.asarray((demands / np.maximum(price.absolute, LEAST)).max(axis=1))
        if price.quadratic.ndim == 1:
            return np.asarray(np.sqrt((demands**2 / price.quadratic).sum(axis=1)))
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self._normals, self._directions)))

    @cached_property
    def _directions(self) -> FloatArray:
        """(s, d) the rows of (quadratic⁻¹ a)."""
        return np.asarray(np.linalg.solve(self.program.price.quadratic, self._normals.T).T)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        start = cases.x if cases.unbounded else np.clip(cases.x, cases.low, cases.high)
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
        if len(self._normals) > 1:
            rest = self._shortfall(np.nan_to_num(out.points), cases)
            size = np.abs(np.nan_to_num(out.points)) @ np.abs(self._normals.T)
            met &= (rest <= 8 * EPS * (size + np.abs(self._limits))).all(axis=1)
        out.points[~met] = np.nan
        out.outcomes[met] = Outcome.FOUND
        if blocked.any():
            refuted = self.program.refutes(cases.take(blocked), out.multipliers[blocked])
            out.outcomes[np.flatnonzero(blocked)[refuted]] = Outcome.INFEASIBLE

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
            return filled(price.absolute, demand, start, short, cases)
        if price.kind is SquaredEuclidean:
            return _meet_diagonal(demand, price.quadratic, start, short, cases)
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
    price: FloatArray, demand: FloatArray, start: FloatArray, short: FloatArray, cases: Cases
) -> Moves:
    """One demand under weighted Manhattan cost: a knapsack, filled with the best buys first.

    A column gives the score that its interval leaves room for, in the demand's direction.
    """
    gain = np.abs(demand)
    worth = np.divide(price, gain, out=np.full(len(price), np.inf), where=gain > 0.0)
    order = np.argsort(worth, kind="stable")[: np.count_nonzero(gain)]
    if not len(order):
        return np.full_like(start, np.nan), np.ones(len(start))
    points, best = np.array(start), int(order[0])
    limit = (cases.high if demand[best] > 0.0 else cases.low)[:, best]
    limit = limit[:1] if limit.strides[0] == 0 else limit
    if not np.isfinite(limit).any():  # the one best column has room for all
        points[:, best] += short / demand[best]
        return points, np.full(len(points), worth[best])
    at, low, high = start[:, order], cases.low[:, order], cases.high[:, order]
    room = np.maximum(np.where(demand[order] > 0.0, high - at, at - low), 0.0) * gain[order]
    so_far = np.cumsum(room, axis=1)
    enough = so_far >= short[:, None] * (1.0 - ROUNDED)
    possible = enough[:, -1]
    last = np.where(possible, enough.argmax(axis=1), len(order) - 1)
    rows = np.arange(len(start))
    before = np.where(last > 0, so_far[rows, last - 1], 0.0)
    amount = np.where(np.arange(len(order)) < last[:, None], room, 0.0)
    amount[rows, last] = np.maximum(short - before, 0.0)
    points[:, order] = np.minimum(np.maximum(at + amount / demand[order], low), high)
    points[~possible] = np.nan
    return points, np.where(possible, worth[order[last]], 1.0)
