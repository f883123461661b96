"""Solve for one half-space at a time, in closed form, for whole batches.

For each case the single row of the program that costs most is met at the least cost, within the
box. That is a relaxation, so its cost is a lower bound; where the point meets the other rows too,
it is the optimum. With weighted Manhattan cost the one-row problem is a continuous
knapsack (fill the features in the order of score gained for a unit of cost); with squared Euclidean
cost, a root of a monotone function of one multiplier; with Mahalanobis cost, one division.
A program with anything integral is a knapsack, see `counterpoint.families.additive`.

Where any one of many half-spaces will do (any class but the row's own), `NearestHalfSpace` bounds
each by its distance without the box, and meets those that may be the nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.numerics import (
    EPS,
    IN_CACHE,
    LEAST,
    UNIT,
    FloatArray,
    IntArray,
    Sizes,
    gamma,
)
from counterpoint.problem.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import Box, LinearBounds
from counterpoint.programs.duality import LinearRows, along
from counterpoint.programs.evidence import HalfSpaceEvidence
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch, Cut, Region
from counterpoint.solvers.base import LINEAR, Effort, Outcome, Solution, Solver

ROUNDED = 4.0 * UNIT
"""A demand that is missed by so little, relative to it, counts as met."""
Moves = tuple[FloatArray, FloatArray]
"""The cheapest points (n, d) that meet one demand a row, NaN where the box has none, and the
multipliers (n,) of the demands."""


@final
@dataclass(frozen=True, eq=False)
class HalfSpace(Solver):
    """Closed forms for one row; complete only where one row decides."""

    accepts: ClassVar[frozenset[type]] = LINEAR | {Manhattan, SquaredEuclidean, Mahalanobis}
    accuracy: ClassVar[float] = 1e-12
    complete: ClassVar[bool] = False
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        return program.condition_types <= cls.accepts and program.affine.size > 0

    @cached_property
    def _rows(self) -> tuple[IntArray, FloatArray]:
        """The row of each demand a·y >= b, (s,), and +1 if it is a lower bound, −1 if an upper."""
        affine = self.program.affine
        lower, upper = (np.flatnonzero(np.isfinite(v)) for v in (affine.low, affine.high))
        return np.append(lower, upper), np.repeat([1.0, -1.0], [len(lower), len(upper)])

    @cached_property
    def normals(self) -> FloatArray:
        """The normals a of the demands, (s, d)."""
        rows, signs = self._rows
        return self.program.affine.matrix[rows] * signs[:, None]

    @cached_property
    def _limits(self) -> FloatArray:
        low, high = self.program.affine.low, -self.program.affine.high
        return np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)]])

    @cached_property
    def _effect(self) -> FloatArray:
        """How much score one unit of cost buys at best, without the box, (s,).

        Of a quadratic cost, one unit of its root.
        """
        encoded_cost = self.program.encoded_cost
        demands = np.abs(self.normals)
        if encoded_cost.kind is Manhattan:
            return np.asarray((demands / np.maximum(encoded_cost.absolute, LEAST)).max(axis=1))
        if encoded_cost.quadratic.ndim == 1:
            return np.asarray(np.sqrt((demands**2 / encoded_cost.quadratic).sum(axis=1)))
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.normals, self._directions)))

    @cached_property
    def _directions(self) -> FloatArray:
        """The vectors quadratic⁻¹ a of the demands, (s, d)."""
        return np.asarray(np.linalg.solve(self.program.encoded_cost.quadratic, self.normals.T).T)

    @cached_property
    def _buys(self) -> tuple[FloatArray, IntArray]:
        """The cost of a unit of score in each column, and the columns, cheapest first, (s, d)."""
        gains = np.abs(self.normals)
        weights = np.broadcast_to(self.program.encoded_cost.absolute, gains.shape)
        costs = np.divide(weights, gains, out=np.full(gains.shape, np.inf), where=gains > 0.0)
        return costs, np.argsort(costs, axis=1, kind="stable")

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        """Meet the one demand of each row that is the most expensive by itself, in closed form.

        The point is an answer only if it meets the other conditions as well, see `_judge`.
        """
        start = cases.x if cases.unbounded else np.clip(cases.x, cases.low, cases.high)
        short = self.shortfall(start, cases)  # (n, s)
        optimal = (short <= 0.0).all(axis=1)
        if self.program.encoded_cost.quadratic.ndim == 2:
            # Under a full quadratic cost the cheapest point of a box is not x clipped to it.
            optimal &= (start == cases.x).all(axis=1)
        dearest, n = self._most_expensive(short), len(start)
        points, multipliers = np.array(start), np.zeros((n, self.program.size))
        affine_row, sign = self._rows
        meet = self._meet_full if self.program.encoded_cost.kind is Mahalanobis else self.meet_each
        for demand in np.flatnonzero(np.bincount(dearest[~optimal])).tolist():
            rows, weights = np.flatnonzero(~optimal & (dearest == demand)), np.ones(1)
            single = slice(demand, demand + 1)
            if not self.normals[demand].any():  # no point meets it
                points[rows] = np.nan
            elif len(rows) == n:  # nothing is copied
                points, weights = meet(single, start, short[:, demand], cases)
            else:
                points[rows], weights = meet(
                    single, start[rows], short[rows, demand], cases.take(rows)
                )
            multipliers[rows, affine_row[demand]] = -sign[demand] * weights
        if not cases.unbounded:
            points[(cases.low > cases.high).any(axis=1)] = np.nan
        out = Solution(points, multipliers, np.full(n, Outcome.NOTHING, dtype=np.int8), np.zeros(n))
        self._judge(out, cases)
        return out

    def _judge(self, out: Solution, cases: Batch) -> None:
        """Drop points that miss a demand, and mark refuted rows as infeasible, in place."""
        blocked = np.isnan(out.points[:, 0])
        satisfied = ~blocked
        if len(self.normals) > 1:
            points = np.nan_to_num(out.points)
            missed, size = self.shortfall(points, cases), np.abs(points) @ np.abs(self.normals.T)
            satisfied &= (missed <= 8 * EPS * (size + np.abs(self._limits))).all(axis=1)
        out.points[~satisfied] = np.nan
        out.outcomes[satisfied] = Outcome.FOUND
        if blocked.any():
            refuted = self.program.refutes(cases.take(blocked), out.multipliers[blocked])
            out.outcomes[np.flatnonzero(blocked)[refuted]] = Outcome.INFEASIBLE

    def shortfall(self, y: FloatArray, cases: Batch) -> FloatArray:
        """Return by how much each demand is missed, in score units, (n, s); negative if met."""
        rows, _ = self._rows
        short = self._limits - y @ self.normals.T
        if self.program.affine.of_change.any():
            short += (cases.x @ self.normals.T) * self.program.affine.of_change[rows]
        if cases.margin.any():
            short += self.program.affine.closed_in(cases.margin)[:, rows]
        return np.asarray(short)

    def _most_expensive(self, short: FloatArray) -> IntArray:
        """Return the demand (n,) that by itself costs each row most, without bounds."""
        if short.shape[1] == 1:
            return np.zeros(len(short), dtype=np.intp)
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.maximum(short, 0.0) / self._effect
        return np.asarray(np.nan_to_num(cost, posinf=np.inf).argmax(axis=1))

    def meet_each(
        self, demands: slice | IntArray, start: FloatArray, short: FloatArray, cases: Batch
    ) -> Moves:
        """Meet a demand at the least separable cost: one for all rows, or of each row, (n,).

        ``start`` (n, d) are the rows moved into their bounds, ``short`` (n,) is by how much they
        miss their demands. No demand's normal is 0.
        """
        normal, encoded_cost = self.normals[demands], self.program.encoded_cost
        if encoded_cost.kind is Manhattan:
            costs, order = self._buys
            return _filled(costs[demands], order[demands], normal, start, short, cases)
        return _meet_diagonal(normal, encoded_cost.quadratic, start, short, cases)

    def _meet_full(
        self, demand: slice | IntArray, start: FloatArray, short: FloatArray, cases: Batch
    ) -> Moves:
        """Meet one demand at the least full quadratic cost, where that point lies in the box.

        Elsewhere NaN: which columns end at a bound is left to a quadratic program.
        """
        (normal,), (direction,) = self.normals[demand], self._directions[demand]
        length = short / float(normal @ direction)
        points = start + length[:, None] * direction
        inside = np.all((points >= cases.low) & (points <= cases.high), axis=1)
        inside &= (start == cases.x).all(axis=1)
        return np.where(inside[:, None], points, np.nan), 2.0 * length


@final
class NearestHalfSpace:
    """The nearest of many half-spaces within one box, under a separable cost, for whole batches.

    Each is bounded by its distance without the box, in which columns that never change are held.
    Only those that may still be nearer than the best point are met exactly.
    """

    def __init__(self, program: Program, rows: LinearBounds) -> None:
        self.program = Program(program.encoded_cost, program.region & Region((rows,)))
        box = self.program.domain.box
        free = (box.least < 0.0) | (box.most > 0.0)
        self.solver = HalfSpace(self.program)
        self.distance = LinearRows(program.encoded_cost, rows.matrix, free)

    @classmethod
    def of(cls, program: Program, rows: LinearBounds) -> NearestHalfSpace | None:
        """Return a search for the nearest point of a program that meets any of some rows.

        None unless the program has only boxes, the rows only upper limits, and each column a cost.
        """
        encoded_cost = program.encoded_cost
        weights = encoded_cost.absolute if encoded_cost.kind is Manhattan else encoded_cost.diagonal
        has_boxes_alone = program.condition_types <= {Manhattan, SquaredEuclidean, Box}
        is_upper = np.isneginf(rows.low) & np.isfinite(rows.high)
        return cls(program, rows) if weights.all() and has_boxes_alone and is_upper.all() else None

    def solve(
        self, cases: Batch, gap: float
    ) -> tuple[FloatArray, FloatArray, IntArray, HalfSpaceEvidence]:
        """Return the nearest points (n, d), their costs and half-spaces (n,), and all bounds.

        Where there is no point, it is NaN, its cost infinite, and its half-space −1. Half-spaces
        that may be nearer by no more than a relative ``gap`` are not tried.
        """
        start, n = np.clip(cases.x, cases.low, cases.high), len(cases)
        missed = self.solver.shortfall(cases.x, cases)
        # (n, s) bounds without the box; where a half-space is tried, that with the box replaces it
        multipliers, proved = self.distance.nearest(cases.x, missed, self.program.affine.high)
        points, cost, piece = np.full(start.shape, np.nan), np.full(n, np.inf), np.full(n, -1)
        untried = np.ones(proved.shape, dtype=bool)
        # Pairs of a row and a half-space are tried: first that which seems nearest, of those that a
        # change may reach; then all that may be nearer still.
        rows, sides = np.arange(n), np.where(self.distance.moves, proved, np.inf).argmin(axis=1)
        size = max(1, IN_CACHE // max(self.program.size, start.shape[1]))
        for _ in range(2):
            for first in range(0, len(rows), size):
                row, side = rows[first : first + size], sides[first : first + size]
                pair = row, side
                y, multipliers[pair], bound = self._meet(
                    cases.take(row), start[row], missed[pair], side
                )
                proved[pair], untried[pair] = np.maximum(bound, proved[pair]), False
                distance = self.program.encoded_cost(y, cases.x[row])
                distance = np.where(np.isnan(y[:, 0]), np.inf, distance)
                # the nearest half-space of each row in this block, where it is nearer than before
                order = np.lexsort((distance, row))
                nearest = order[np.unique(row[order], return_index=True)[1]]
                nearest = nearest[distance[nearest] < cost[row[nearest]]]
                points[row[nearest]], cost[row[nearest]] = y[nearest], distance[nearest]
                piece[row[nearest]] = side[nearest]
            cutoff = np.where(piece < 0, np.inf, cost * (1.0 - gap))
            rows, sides = np.nonzero(untried & (proved < cutoff[:, None]))
        return points, cost, piece, HalfSpaceEvidence(multipliers, proved)

    def _meet(
        self, cases: Batch, start: FloatArray, missed: FloatArray, sides: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return each row's nearest point of one half-space, its multiplier, and the bound of that.

        The half-spaces are those at ``sides`` (n,), which the rows miss by ``missed`` (n,);
        ``start`` (n, d) are the rows moved into their bounds. The bound is infinite where the
        multiplier refutes the half-space.
        """
        short, normals = missed, self.solver.normals[sides]
        if not cases.unbounded:  # ``start`` is not x
            short = self.solver.shortfall(start, cases)[np.arange(len(start)), sides]
        # any weight may refute a half-space that no point meets, so it is 1
        y, weights = np.array(start), np.where(short > 0.0, 1.0, 0.0)
        y[(short > 0.0) | cases.empty] = np.nan
        rows = np.flatnonzero((short > 0.0) & normals.any(axis=1))
        if len(rows):
            y[rows], weights[rows] = self.solver.meet_each(
                sides[rows], start[rows], short[rows], cases.take(rows)
            )
        y[cases.empty] = np.nan
        offset = weights * self.program.affine.high[sides]
        bound = self.distance.bound_within(cases, weights, offset, sides)
        if bound is None:
            normal, none = weights[:, None] * normals, np.zeros((len(y), 0))
            # The sizes are passed by themselves: each cut is a multiple of another single row.
            cut = Cut(-normal, offset, none, normals[:0], 2, gamma(4) * np.abs(offset))
            bound = self.program.duality.bound(cases, cut, Sizes(np.abs(normal), None, 2))
        blocked = np.flatnonzero(np.isnan(y[:, 0]))
        if len(blocked):
            multipliers = np.zeros((len(blocked), self.program.size))
            multipliers[np.arange(len(blocked)), sides[blocked]] = weights[blocked]
            refuted = self.program.refutes(cases.take(blocked), multipliers)
            bound[blocked[refuted]] = np.inf
        return y, weights, bound


def _meet_diagonal(
    demand: FloatArray, quadratic: FloatArray, start: FloatArray, short: FloatArray, cases: Batch
) -> Moves:
    """Meet demands a·δ >= total under a cost Σ q δ²: δ(λ) = clip(λ a / 2q), a·δ(λ) = total.

    The demands' normals a are (n, d), or (1, d) for all rows. The rows miss the demands by their
    total, and ``start``, the rows moved into their bounds, by ``short`` (n,).
    """
    direction = demand / (2.0 * quadratic)
    x, low, high = cases.x, cases.low, cases.high
    multiplier = short / along(direction, demand)
    if cases.unbounded:
        points = multiplier[:, None] * direction
        points += x
        return points, multiplier
    total, low, high = short + along(start - x, demand), low - x, high - x
    ends = np.where(demand > 0.0, high, np.where(demand < 0.0, low, 0.0))
    possible = along(ends, demand) >= total * (1.0 - ROUNDED)
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
    """Return λ >= 0 with demand · clip(λ direction, low, high) = total, (n,).

    The left side rises in λ, piecewise linearly: Newton's method, kept in a bracket. Each row is
    iterated until it meets its total, whatever the others are, so that batches answer as rows do.
    """
    lower, upper = np.zeros(len(total)), np.full(len(total), np.inf)
    root, unsolved, is_shared = np.array(guess), np.arange(len(total)), len(demand) == 1
    for _ in range(60):  # some 5 do; halving the bracket takes all of them
        rows = slice(None) if len(unsolved) == len(total) else unsolved
        demands = slice(None) if is_shared else rows
        current, move = root[rows], root[rows][:, None] * direction[demands]
        clipped = np.maximum(move, low[rows])
        np.minimum(clipped, high[rows], out=clipped)
        excess = along(clipped, demand[demands]) - total[rows]
        unmet = np.abs(excess) > 2.0 * ROUNDED * np.abs(total[rows])
        unsolved, current, excess = unsolved[unmet], current[unmet], excess[unmet]
        if not len(unsolved):
            break
        lower[unsolved] = np.where(excess <= 0, current, lower[unsolved])
        upper[unsolved] = np.where(excess >= 0, current, upper[unsolved])
        demands = slice(None) if is_shared else unsolved
        slopes = demand[demands] * direction[demands]
        slope = np.where(clipped[unmet] == move[unmet], slopes, 0.0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = current - excess / slope
        above = upper[unsolved]
        middle = 0.5 * (lower[unsolved] + above)
        middle = np.where(np.isinf(above), 2.0 * current + guess[unsolved], middle)
        usable = (newton > lower[unsolved]) & (newton < above) & np.isfinite(newton)
        root[unsolved] = np.where(usable, newton, middle)
        unsolved = unsolved[root[unsolved] != current]
    return root


def _filled(
    costs: FloatArray,
    order: IntArray,
    demand: FloatArray,
    start: FloatArray,
    short: FloatArray,
    cases: Batch,
) -> Moves:
    """Meet demands under weighted Manhattan cost: a knapsack, filled with the best buys first.

    Each column gives as much score as its interval leaves room for, until the demand is met. The
    normals, the costs of a unit of score in each column, and the columns in the order of these are
    (n, d), or (1, d) for all rows. The multiplier is the cost of the last unit of score.
    """
    is_shared, points, every_row = len(demand) == 1, np.array(start), np.arange(len(start))
    if cases.unbounded:  # then the cheapest column gives all
        best = order[:, 0]
        of_row = (0 if is_shared else every_row), best
        points[every_row, best] += np.maximum(short, 0.0) / demand[of_row]
        return points, np.broadcast_to(costs[of_row], short.shape)
    multipliers, unmet, width = np.ones(len(start)), every_row, 1
    useful = int(np.isfinite(costs).sum(axis=1).max())
    while len(unmet):  # with four times as many columns each time: most rows need the first few
        width = min(width, useful)
        normal_row: int | IntArray = 0 if is_shared else unmet[:, None]
        columns = order[0, :width] if is_shared else order[unmet, :width]
        slope, unit_cost = demand[normal_row, columns], costs[normal_row, columns]
        remaining = cases if len(unmet) == len(start) else cases.take(unmet)
        indices = np.arange(len(unmet))
        current = start[unmet[:, None], columns]
        low = remaining.low[indices[:, None], columns]
        high = remaining.high[indices[:, None], columns]
        room = np.where(slope > 0.0, high - current, current - low)
        room = np.where(slope == 0.0, 0.0, np.maximum(room, 0.0)) * np.abs(slope)  # in score
        filled = np.cumsum(room, axis=1)
        last = np.count_nonzero(filled < short[unmet, None] * (1.0 - ROUNDED), axis=1)
        is_met, last = last < width, np.minimum(last, width - 1)  # the last gives the remainder
        amount = np.where(np.arange(width) < last[:, None], room, 0.0)
        before_last = np.where(last > 0, filled[indices, last - 1], 0.0)
        amount[indices, last] = np.maximum(short[unmet] - before_last, 0.0)
        change = np.divide(amount, slope, out=np.zeros(amount.shape), where=slope != 0.0)
        moved = np.minimum(np.maximum(current + change, low), high)
        met = unmet[is_met]
        points[met[:, None], np.broadcast_to(columns, moved.shape)[is_met]] = moved[is_met]
        multipliers[met] = np.broadcast_to(unit_cost, moved.shape)[indices, last][is_met]
        unmet = unmet[~is_met]
        if width == useful:
            points[unmet] = np.nan
            break
        width *= 4
    return points, multipliers
