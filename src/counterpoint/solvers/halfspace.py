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
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Affine
from counterpoint.engine.domains import AtMost, Box, OneOf, Transitions, Whole
from counterpoint.engine.program import Program
from counterpoint.engine.separable import SLACK
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver
from counterpoint.solvers.knapsack import Knapsack, Step

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
    complete: ClassVar[bool] = False
    batched: ClassVar[bool] = True

    def takes(self, program: Program) -> bool:
        fits = program.kinds <= self.accepts and program.affine.size > 0
        return fits and (program.price.kind is Manhattan or not program.groups)

    def prepare(self, program: Program) -> HalfSpaces:
        return HalfSpaces(program)


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
    def _limits(self) -> FloatArray:
        """(s,) the limits b."""
        rows, signs = self._sides
        affine = self.program.affine
        return np.where(signs > 0, affine.low[rows], -affine.high[rows])

    @cached_property
    def _effect(self) -> FloatArray:
        """(s,) how much score one unit of (the root of) cost buys at best, without a box."""
        price = self.program.price
        demands = np.abs(self._demands)
        if price.kind is Manhattan:
            weight = np.where(self.program.numeric, price.absolute, 2.0 * price.absolute)
            return np.asarray((demands / np.maximum(weight, 1e-300)).max(axis=1))
        if price.quadratic.ndim == 1:
            return np.asarray(np.sqrt((demands**2 / price.quadratic).sum(axis=1)))
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self._demands, self._directions)))

    @cached_property
    def _directions(self) -> FloatArray:
        """(s, d) the rows of (quadratic⁻¹ a)."""
        return np.asarray(np.linalg.solve(self.program.price.quadratic, self._demands.T).T)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        start = self._start(cases)
        short = self._shortfall(start, cases)
        free = (short <= 0.0).all(axis=1)
        if self.program.price.quadratic.ndim == 2:  # a box's nearest point is not the projection
            free &= (start == cases.x).all(axis=1)
        worst = self._most_expensive(short)
        for side in np.unique(worst[~free]).tolist() if not free.all() else []:
            rows = np.flatnonzero(~free & (worst == side))
            part = slice(None) if len(rows) == len(cases) else rows
            step = self._meet(side, start[part], short[part, side], cases.take(part))
            row, sign = self._sides[0][side], self._sides[1][side]
            out.points[part] = step.points
            out.multipliers[part, row] = -sign * step.multipliers
        out.points[free] = start[free]
        out.points[cases.empty] = np.nan
        self._judge(out, cases)
        return out

    def _judge(self, out: Solution, cases: Cases) -> None:
        """Keep the points that meet every condition; name the rows that cannot be met."""
        blocked = np.isnan(out.points[:, 0])
        met = ~blocked
        if len(self._demands) > 1 or self.program.steps.any() or self.program.groups:
            rest = self._shortfall(np.nan_to_num(out.points), cases)
            size = np.abs(np.nan_to_num(out.points)) @ np.abs(self._demands.T)
            met &= (rest <= 8 * np.finfo(float).eps * (size + np.abs(self._limits))).all(axis=1)
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
        short = self._limits - y @ self._demands.T
        if cases.margin.any():
            short += self.program.affine.closed_in(cases.margin)[:, self._sides[0]]
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
        inside = np.all((points >= cases.low) & (points <= cases.high), axis=1) & still
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
        inside = np.all((rounded >= cases.low) & (rounded <= cases.high), axis=1)
        return np.where(inside[:, None], rounded, np.nan)


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
