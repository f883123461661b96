"""Multipliers of knapsacks: the highest Lagrangian bound of many boxes at once.

For one demand the bound is a concave function of one number: its root is found between a point that
gains too little and one that gains enough (secants, and Newton's steps where costs bend). For
several demands, by Dantzig–Wolfe: a basis of as many points and demands as there are rows, and a
point that improves on it by the multipliers, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from counterpoint.families.additive.knapsack import Candidates, KnapsackLagrangian
from counterpoint.families.additive.repair import repaired
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.solvers.branch_and_bound import copied, pick, put

__all__ = ["Dual", "maximize_dual"]

STEPS = 60
"""How many multipliers are tried for a box, at most; some four do."""
CLOSE = 1e-12
"""A bound this near to what a mixture of points costs, relative to it, is the highest."""
NEAR = 1e-9
"""The same for several demands, whose bases are less exact, and where columns bend."""
RAISES = 6
"""How often a missing demand is made 64 times as dear before it is taken to be impossible."""
SHY = 1.0 - 1e-13
"""By how much less than its cost a column without an end may gain, for its least to be finite."""
FEW = 32
"""So many boxes are bounded together to the end; of more, those that are done leave when they are
half of all, since the overhead of an array operation is worth some 30 boxes."""


@final
class Dual(NamedTuple):
    """The highest bounds of m boxes, and the points of which mixtures reach them."""

    multipliers: FloatArray  # (m, s)
    bound: FloatArray  # (m,) infinite where a box has no point
    points: Candidates  # (m, q) of them
    weights: FloatArray  # (m, q) of each point in the mixture


def maximize_dual(boxes: KnapsackLagrangian, start: FloatArray, ceiling: FloatArray) -> Dual:
    """Return the highest bounds; or any, from the ceilings on.

    ``start`` (m, s) are multipliers to begin with; zeros for any.
    """
    several = len(boxes.knapsack.gains) > 1
    dual = (_several_demands if several else _one_demand)(boxes, start, ceiling)
    return dual._replace(bound=np.maximum(dual.bound, 0.0))


def _take_over(points: Candidates, new: Candidates, where: BoolArray) -> None:
    """Write some of other points, in place."""
    np.copyto(points.cost, new.cost, where=where)
    for array, other in zip(points, new, strict=True):
        if array.ndim == 2:
            np.copyto(array, other, where=where[:, None])


@final
class Bracket(NamedTuple):
    """Between which multipliers of one demand the highest bounds of m boxes lie.

    The ``lower`` points gain too little; the ``upper`` ones enough, if their costs are finite. All
    but the ceiling are (m,) or points, written in place.
    """

    trial: FloatArray  # the multiplier to evaluate next; of boxes that are done, the last one
    done: BoolArray
    bound: FloatArray  # the highest so far
    multiplier: FloatArray  # and where it is
    below: FloatArray
    above: FloatArray
    lower: Candidates
    upper: Candidates
    steepest: FloatArray  # from where on a column without an end runs away
    ceiling: FloatArray

    def learn(self, boxes: KnapsackLagrangian) -> BoolArray:
        """Evaluate the trial multipliers; return where their points gain enough, (m,).

        It changes nothing for boxes that are done, whose last trial is evaluated again.
        """
        value, points = boxes.least(self.trial[:, None])
        value += self.trial * boxes.missing[:, 0]
        better = value > self.bound
        np.copyto(self.bound, value, where=better)
        np.copyto(self.multiplier, self.trial, where=better)
        enough = np.asarray(points.gain[:, 0] >= boxes.enough[:, 0])
        for where, end, side in (
            (enough, self.above, self.upper),
            (~enough, self.below, self.lower),
        ):
            np.copyto(end, self.trial, where=where)
            _take_over(side, points, where)
        return enough

    def following(self, boxes: KnapsackLagrangian, step: int) -> tuple[FloatArray, BoolArray]:
        """Return the multipliers to try next, and where bounds are as high as they get, (m,)."""
        k, low, high, missing = boxes.knapsack, self.below, self.above, boxes.missing[:, 0]
        first, second = self.lower.cost, self.upper.cost
        lacks, excess = missing - self.lower.gain[:, 0], self.upper.gain[:, 0] - missing
        # the multiplier at which both points are as good as each other, and what a mixture costs
        chord = (second - first) / (lacks + excess)
        mixed = first + lacks * chord
        close = (CLOSE if k.smooth is None else NEAR) * np.abs(mixed)
        highest = (mixed - self.bound <= close) & np.isfinite(mixed)
        if k.is_curved and step % 3 < 2:  # Newton's step, as if whole columns were not
            nearer = (excess < lacks) & np.isfinite(second)
            change = np.where(nearer[:, None], self.upper.change, self.lower.change)
            inner = (change > boxes.boxes.low) & (change < boxes.boxes.high)
            inner = k.nonlinear & (inner | (low == 0.0)[:, None])
            bend = (inner * (k.gains[0] ** 2 / (2.0 * k.curvature + (~k.nonlinear)))).sum(axis=1)
            newton = np.where(nearer, high - excess / bend, low + lacks / bend)
            chord = np.where(np.isfinite(newton), newton, chord)
        high = np.minimum(high, self.steepest)
        middle = np.where(np.isinf(high), np.where(low > 0.0, 4.0 * low, 1.0), 0.5 * (low + high))
        inside = (chord > low) & (chord < high)
        if k.smooth is not None and step % 4 == 3:  # one end may stand still
            inside[:] = False
        return np.where(inside, chord, np.minimum(middle, high)), highest

    def narrow(self, boxes: KnapsackLagrangian, first: int = 1) -> None:
        """Try multipliers, from a step on, until all bounds are as high as they are to get."""
        for step in range(first, STEPS):
            remaining = np.flatnonzero(~self.done)
            if not len(remaining):
                return
            if len(self.done) > FEW and 2 * len(remaining) < len(self.done):
                bracket = pick(self, remaining)
                bracket.narrow(boxes.pick(remaining), step)
                put(self, remaining, bracket)
                return
            enough = self.learn(boxes)
            trial, highest = self.following(boxes, step)
            self.done[:] |= highest | (self.bound >= self.ceiling) | (trial == self.trial)
            self.done[:] |= ~enough & (self.trial >= self.steepest)
            np.copyto(self.trial, trial, where=~self.done)


def _one_demand(boxes: KnapsackLagrangian, start: FloatArray, ceiling: FloatArray) -> Dual:
    n, missing = len(start), boxes.missing[:, 0]
    value, lower = boxes.least(np.zeros((n, 1)))
    bound = np.where(boxes.empty, np.inf, value)
    enough, upper = boxes.satisfied(lower), copied(lower)
    upper.cost[~enough] = np.inf
    done, above = enough | (bound >= ceiling), np.where(enough, 0.0, np.inf)
    zero, steepest = (np.zeros(n) for _ in range(3)), _steepest(boxes)
    bracket = Bracket(
        next(zero), done, bound, next(zero), next(zero), above, lower, upper, steepest, ceiling
    )
    if start.any() and not done.all():
        np.copyto(bracket.trial, start[:, 0], where=~done & (start[:, 0] < steepest))
        bracket.learn(boxes)
        done |= bound >= ceiling
    _reach(boxes, bracket)
    trial, _ = bracket.following(boxes, 0)
    np.copyto(bracket.trial, trial, where=~done)
    bracket.narrow(boxes)
    if boxes.rows.is_endless:  # the bound is at the cost of a column without an end: as far as it
        endless = np.flatnonzero(np.isinf(upper.cost) & np.isfinite(bound))  # has to go
        if len(endless):
            put(upper, endless, repaired(boxes.pick(endless), pick(lower, endless)))
    weights = np.empty((n, 2))
    weight = (upper.gain[:, 0] - missing) / (upper.gain[:, 0] - lower.gain[:, 0])
    weight = np.minimum(np.maximum(np.where(np.isnan(weight), 0.0, weight), 0.0), 1.0)
    weights[:, 0], weights[:, 1] = weight, 1.0 - weight
    return Dual(bracket.multiplier[:, None], bound, _side_by_side([lower, upper]), weights)


def _side_by_side(points: list[Candidates]) -> Candidates:
    return Candidates(*(np.array(arrays).swapaxes(0, 1) for arrays in zip(*points, strict=True)))


def _steepest(boxes: KnapsackLagrangian) -> FloatArray:
    """Return the multipliers, (m,), up to which no column without an end runs away."""
    k = boxes.knapsack
    if not boxes.rows.is_endless:
        return np.full(len(boxes.missing), np.inf)
    sensitive = ~k.nonlinear & (k.gains[0] != 0.0)
    steep = np.where(sensitive, k.absolute / np.abs(k.gains[0]), np.inf)
    end = np.where(k.gains[0] > 0.0, boxes.boxes.high, -boxes.boxes.low)
    steepest = np.where(np.isposinf(end), steep, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(steepest * SHY)


def _reach(boxes: KnapsackLagrangian, bracket: Bracket) -> None:
    """Give brackets that lack an upper point the one that gains most, if that is enough."""
    lacking = ~bracket.done & np.isinf(bracket.upper.cost)
    if not lacking.any():
        return
    _, points = boxes.least(np.ones((len(lacking), 1)), free=True)
    points.cost[~np.isfinite(points.cost + points.gain[:, 0])] = np.inf
    _take_over(bracket.upper, points, lacking)
    impossible = lacking & ~boxes.satisfied(points)
    bracket.bound[impossible], bracket.multiplier[impossible] = np.inf, 1.0
    bracket.done[impossible] = True


def _several_demands(boxes: KnapsackLagrangian, start: FloatArray, ceiling: FloatArray) -> Dual:
    """Dantzig–Wolfe; positions 0 … s of a basis hold points, or what a demand has too much of."""
    n, s = start.shape
    every = np.arange(n)
    value, first = boxes.least(start)
    bound, best = value + (start * boxes.missing).sum(axis=1), np.array(start)
    impossible = boxes.empty | np.isposinf(value)
    basis = _Basis(boxes, first, start)
    remaining, raises = np.flatnonzero(~impossible & (bound < ceiling)), np.zeros(n, dtype=np.intp)
    active = boxes
    for _ in range(STEPS):
        if not len(remaining):
            break
        if len(remaining) < len(active.missing):
            active = boxes.pick(remaining)
        duals, theta = basis.solve(remaining)
        lam, height = duals[:, :s], duals[:, s]
        in_cost = lam * np.abs(basis.columns[remaining, :s]).max(axis=2)
        surplus = in_cost.argmin(axis=1)
        least_cost = in_cost[np.arange(len(remaining)), surplus]
        loose = least_cost < -NEAR * np.abs(basis.cost[remaining]).max(axis=1)
        lam = np.maximum(lam, 0.0)
        value, points = active.least(lam)
        total = value + (lam * active.missing).sum(axis=1)
        better = total > bound[remaining]
        bound[remaining[better]], best[remaining[better]] = total[better], lam[better]
        size = np.abs(points.cost) + (lam * np.abs(points.gain)).sum(axis=1) + np.abs(height)
        missed = basis.misses(remaining, theta)
        mixed = (basis.cost[remaining] * theta).sum(axis=1)
        optimal = ~loose & (value >= height - CLOSE * size)
        optimal |= ~missed & (mixed - bound[remaining] <= NEAR * np.abs(mixed))
        done = (optimal & ~missed) | (bound[remaining] >= ceiling[remaining])
        dearer = optimal & missed & ~done
        raises[remaining[dearer]] += 1
        hopeless = dearer & (raises[remaining] > RAISES)
        basis.make_dearer(remaining[dearer])
        entering = np.flatnonzero(~done & ~dearer)
        done |= hopeless
        if len(entering):
            column = pick(points, entering), surplus[entering], loose[entering]
            done[entering] |= ~basis.enter(remaining[entering], *column, theta[entering])
        if hopeless.any():
            refuted = _is_ray(active, lam) & hopeless
            bound[remaining[refuted]], best[remaining[refuted]] = np.inf, lam[refuted]
        remaining = remaining[~done]
    theta = basis.solve(every)[1]
    doubtful = np.flatnonzero(basis.misses(every, theta) & (bound < ceiling) & ~impossible)
    _refute_alone(boxes, doubtful, bound, best)
    weights = np.where(basis.kind == POINT, np.clip(theta, 0.0, 1.0), 0.0)
    bound[impossible], best[impossible] = np.inf, 0.0
    return Dual(best, bound, _side_by_side(basis.points), weights)


def _refute_alone(
    boxes: KnapsackLagrangian, doubtful: IntArray, bound: FloatArray, best: FloatArray
) -> None:
    """Bound boxes of which one demand alone asks for more than can be gained, in place."""
    for demand in np.eye(best.shape[1]):
        if len(doubtful):
            alone = np.tile(demand, (len(doubtful), 1))
            refuted = _is_ray(boxes.pick(doubtful), alone)
            bound[doubtful[refuted]], best[doubtful[refuted]] = np.inf, demand
            doubtful = doubtful[~refuted]


def _is_ray(boxes: KnapsackLagrangian, lam: FloatArray) -> BoolArray:
    """Return whether demands weighed by multipliers ask for more than can be gained, (m,)."""
    value, _ = boxes.least(lam, free=True)
    size = (lam * (boxes.slack + np.abs(boxes.missing))).sum(axis=1)
    return np.asarray(value + (lam * boxes.missing).sum(axis=1) > 1e-9 * size)


POINT, SURPLUS, MISSING = 0, 1, 2
"""What a position of a basis holds."""


@final
class _Basis:
    """Bases of n boxes: s + 1 columns of the master program, with the points that some hold."""

    def __init__(self, boxes: KnapsackLagrangian, first: Candidates, start: FloatArray) -> None:
        n, s = start.shape
        k = boxes.knapsack
        self.missing = boxes.missing
        self.columns, self.cost = np.zeros((n, s + 1, s + 1)), np.zeros((n, s + 1))
        self.kind = np.full((n, s + 1), POINT, dtype=np.int8)
        self.points = [copied(first) for _ in range(s + 1)]
        self.columns[:, :s, 0], self.columns[:, s, 0], self.cost[:, 0] = first.gain, 1.0, first.cost
        tables = k.table_gains if boxes.gain is None else boxes.gain
        scale = np.abs(tables).max(axis=(-2, -1), initial=0.0)
        scale = np.maximum(np.abs(k.gains).max(axis=1, initial=0.0), scale)
        reach = np.maximum(
            np.abs(boxes.missing), scale
        )  # what missing it costs stays within bounds
        reach[reach == 0.0] = 1.0  # nothing gains anything
        costs = boxes.boxes.option_cost
        dearest = costs.max(axis=(1, 2), initial=0.0, where=np.isfinite(costs))
        most = first.cost + (k.absolute + k.curvature).max(initial=0.0) + dearest
        dear = np.maximum(4.0 * start, most[:, None] / reach)
        spare = first.gain >= boxes.missing
        demand = np.arange(s)
        self.columns[:, demand, demand + 1] = np.where(spare, -1.0, 1.0)
        self.cost[:, 1:] = np.where(spare, 0.0, dear)
        self.kind[:, 1:] = np.where(spare, SURPLUS, MISSING)

    def solve(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the duals and the shares of the columns, (rows, s + 1) both."""
        matrix = self.columns[rows]
        target = np.hstack([self.missing[rows], np.ones((len(rows), 1))])
        return solved(matrix.transpose(0, 2, 1), self.cost[rows]), solved(matrix, target)

    def misses(self, rows: IntArray, theta: FloatArray) -> BoolArray:
        """Return whether some demand is missed, (rows,)."""
        scale = 1e-11 * (1.0 + np.abs(self.missing[rows]).max(axis=1, keepdims=True))
        return np.asarray(((self.kind[rows] == MISSING) & (theta > scale)).any(axis=1))

    def make_dearer(self, rows: IntArray) -> None:
        """Let missing demands cost 64 times as much."""
        self.cost[rows] *= np.where(self.kind[rows] == MISSING, 64.0, 1.0)

    def enter(
        self,
        rows: IntArray,
        points: Candidates,
        surplus: IntArray,
        loose: BoolArray,
        theta: FloatArray,
    ) -> BoolArray:
        """Let a column enter each basis; return whether it did, (rows,).

        That is the surplus of a demand where multipliers are ``loose``, below 0; else a point.
        """
        every = np.arange(len(rows))
        new = np.hstack([points.gain, np.ones((len(rows), 1))])
        new[loose] = 0.0
        new[loose, surplus[loose]] = -1.0
        direction = solved(self.columns[rows], new)
        big = np.abs(direction).max(axis=1, keepdims=True)
        ratio = np.where(direction > 1e-11 * big, np.maximum(theta, 0.0) / direction, np.inf)
        # of equal ratios, a missing demand leaves first
        tied = (self.kind[rows] == MISSING) & (ratio <= ratio.min(axis=1, keepdims=True))
        ratio = np.where(tied, -1.0, ratio)
        out = ratio.argmin(axis=1)
        fits = np.isfinite(ratio[every, out])
        rows, out, every = rows[fits], out[fits], every[fits]
        self.columns[rows, :, out] = new[every]
        self.cost[rows, out] = np.where(loose[every], 0.0, points.cost[every])
        self.kind[rows, out] = np.where(loose[every], SURPLUS, POINT)
        for position in np.unique(out).tolist():
            at = out == position
            put(self.points[position], rows[at], pick(points, every[at]))
        return np.asarray(fits)


def solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve systems (n, k, k), right sides (n, k); a singular one by least squares.

    Columns of a basis that gain almost the same make it singular. Any multipliers bound a knapsack,
    so that its row loses a better bound at most, and the other rows nothing.
    """
    try:
        return np.asarray(np.linalg.solve(matrix, right[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        if len(matrix) > 1:
            rows = (solved(matrix[[i]], right[[i]]) for i in range(len(matrix)))
            return np.concatenate(list(rows))
        return np.asarray((np.linalg.pinv(matrix) @ right[:, :, None])[:, :, 0])
