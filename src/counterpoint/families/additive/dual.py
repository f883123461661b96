"""Multipliers of knapsacks: the highest Lagrangian bound of many boxes at once.

For one demand the bound is a concave function of one number: its root is found between a point that
gains too little and one that gains enough (secants, and Newton's steps where prices bend). For
several demands, by Dantzig–Wolfe: a basis of as many points and demands as there are rows, and a
point that improves on it by the multipliers, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from counterpoint.families.additive.knapsack import Knapsack
from counterpoint.families.additive.moves import Boxes, KnapsackData, Moves
from counterpoint.families.additive.repair import repaired
from counterpoint.numerics import BoolArray, FloatArray, IntArray

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
"""By how much less than its price a column without an end may gain, for its least to be finite."""


@final
class Dual(NamedTuple):
    """The highest bounds of n boxes, and the points of which mixtures reach them."""

    multipliers: FloatArray  # (n, s)
    bound: FloatArray  # (n,) infinite where a box has no point
    points: tuple[Moves, ...]  # m of them for each row
    weights: FloatArray  # (n, m) of each point in the mixture

    def take(self, rows: IntArray) -> Dual:
        """Some of them."""
        points = tuple(part.take(rows) for part in self.points)
        return Dual(self.multipliers[rows], self.bound[rows], points, self.weights[rows])


def maximize_dual(
    k: Knapsack, given: KnapsackData, boxes: Boxes, start: FloatArray, ceiling: FloatArray
) -> Dual:
    """The highest bounds; or any, from the ceilings on.

    ``start``: (n, s) multipliers to begin with; zeros for any.
    """
    found = (_secants if len(k.gains) == 1 else _columns)(k, given, boxes, start, ceiling)
    return found._replace(bound=np.maximum(found.bound, 0.0))


@final
class _Brackets:
    """Between which multipliers of one demand the highest bounds of n boxes lie.

    Below, the ``left`` points gain too little; above, the ``right`` ones enough, if their costs are
    finite.
    """

    def __init__(self, k: Knapsack, given: KnapsackData, boxes: Boxes, free: Moves) -> None:
        n = len(given.short)
        self.k, self.boxes, self.short = k, boxes, given.short[:, 0]
        self.enough = self.short - given.slack[:, 0]
        self.at, self.bound = np.zeros(n), np.full(n, -np.inf)
        self.below, self.above = np.zeros(n), np.full(n, np.inf)
        self.left = free
        self.right = free.take(np.arange(n))
        self.right.cost[:] = np.inf
        # from where on a column without an end runs away
        steep = np.where(k.nonlinear | (k.gains[0] == 0.0), np.inf, k.absolute / np.abs(k.gains[0]))
        end = np.where(k.gains[0] > 0.0, boxes.high, -boxes.low)
        self.steepest = np.where(np.isposinf(end), steep, np.inf).min(axis=1, initial=np.inf) * SHY

    def learn(self, rows: IntArray, lam: FloatArray, value: FloatArray, moves: Moves) -> BoolArray:
        """What multipliers show of some rows: (rows,) whether their points gain enough."""
        value = value + lam * self.short[rows]
        better = value > self.bound[rows]
        self.bound[rows[better]], self.at[rows[better]] = value[better], lam[better]
        gains = moves.gain[:, 0] >= self.enough[rows]
        if gains.any():
            self.right.put(rows[gains], moves.take(gains))
            self.above[rows[gains]] = lam[gains]
        if not gains.all():
            self.left.put(rows[~gains], moves.take(~gains))
            self.below[rows[~gains]] = lam[~gains]
        return np.asarray(gains)

    def next(self, rows: IntArray, step: int) -> tuple[FloatArray, BoolArray]:
        """(rows,) the multipliers to try next, and where bounds are as high as they get."""
        k, low, high = self.k, self.below[rows], self.above[rows]
        first, second = self.left.cost[rows], self.right.cost[rows]
        lacks = self.short[rows] - self.left.gain[rows, 0]
        over = self.right.gain[rows, 0] - self.short[rows]
        # the multiplier at which both points are as good as each other, and what a mixture costs
        chord = (second - first) / (lacks + over)
        mixed = first + lacks * chord
        close = (CLOSE if k.smooth is None else NEAR) * np.abs(mixed)
        done = (mixed - self.bound[rows] <= close) & np.isfinite(mixed)
        if k.is_curved and step % 3 < 2:  # Newton's step, as if whole columns were not
            upper = (over < lacks) & np.isfinite(second)
            change = np.where(upper[:, None], self.right.change[rows], self.left.change[rows])
            inner = (change > self.boxes.low[rows]) & (change < self.boxes.high[rows])
            inner = k.nonlinear & (inner | (low == 0.0)[:, None])
            bend = (inner * (k.gains[0] ** 2 / (2.0 * k.curvature + (~k.nonlinear)))).sum(axis=1)
            newton = np.where(upper, high - over / bend, low + lacks / bend)
            chord = np.where(np.isfinite(newton), newton, chord)
        high = np.minimum(high, self.steepest[rows])
        middle = np.where(np.isinf(high), np.where(low > 0.0, 4.0 * low, 1.0), 0.5 * (low + high))
        inside = (chord > low) & (chord < high)
        if k.smooth is not None and step % 4 == 3:  # one end may stand still
            inside[:] = False
        return np.where(inside, chord, np.minimum(middle, high)), done


def _secants(
    k: Knapsack, given: KnapsackData, boxes: Boxes, start: FloatArray, ceiling: FloatArray
) -> Dual:
    n, warm = len(start), bool(start.any())
    every = np.arange(n)
    each = np.tile(every, 2) if warm else every  # at 0, and at multipliers to begin with
    some, inside = (given.take(each), boxes.take(each)) if warm else (given, boxes)
    lam = np.append(np.zeros(n), start)[: len(each)]
    value, moves, _ = k.least(some, inside, lam[:, None])
    one = _Brackets(k, given, boxes, moves.take(slice(n)))
    satisfied = one.learn(every, lam[:n], value[:n], moves.take(slice(n)))
    open_ = np.flatnonzero(~satisfied & (one.bound < ceiling))
    if warm and len(open_):
        warmed = open_[start[open_, 0] < one.steepest[open_]]
        at = n + warmed
        one.learn(warmed, lam[at], value[at], moves.take(at))
        open_ = open_[one.bound[open_] < ceiling[open_]]
    far = open_[np.isinf(one.right.cost[open_])]
    if len(far):
        _, moves, _ = k.least(given.take(far), boxes.take(far), np.ones((len(far), 1)), free=True)
        one.right.put(far, moves)
        one.right.cost[far[~np.isfinite(moves.cost + moves.gain[:, 0])]] = np.inf
        impossible = far[~(moves.gain[:, 0] >= one.enough[far])]
        one.bound[impossible], one.at[impossible] = np.inf, 1.0
        open_ = open_[one.bound[open_] < ceiling[open_]]
    trial, _ = one.next(open_, 0)
    some, inside = given.take(open_), boxes.take(open_)
    for step in range(1, STEPS):
        if not len(open_):
            break
        value, moves, _ = k.least(some, inside, trial[:, None])
        gains = one.learn(open_, trial, value, moves)
        following, done = one.next(open_, step)
        done |= (one.bound[open_] >= ceiling[open_]) | (following == trial)
        done |= ~gains & (trial >= one.steepest[open_])
        trial = following
        if done.any():
            open_, trial = open_[~done], trial[~done]
            some, inside = some.take(~done), inside.take(~done)
    left, right, short = one.left, one.right, one.short
    lost = np.flatnonzero(np.isinf(right.cost) & np.isfinite(one.bound))
    if len(lost):  # the bound is at the price of a column without an end: as far as it has to go
        right.put(lost, repaired(k, given.take(lost), left.take(lost))[1])
    weight = (right.gain[:, 0] - short) / (right.gain[:, 0] - left.gain[:, 0])
    weight = np.clip(np.nan_to_num(weight, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    weights = np.stack([weight, 1.0 - weight], axis=1)
    return Dual(one.at[:, None], one.bound, (left, right), weights)


def _columns(
    k: Knapsack, given: KnapsackData, boxes: Boxes, start: FloatArray, ceiling: FloatArray
) -> Dual:
    """Dantzig–Wolfe; positions 0 … s of a basis hold points, or what a demand has too much of."""
    n, s = start.shape
    value, first, _ = k.least(given, boxes, start)
    bound, at = value + (start * given.short).sum(axis=1), np.array(start)
    impossible = np.isposinf(value)
    basis = _Basis(k, given, first, start)
    open_ = np.flatnonzero(~impossible & (bound < ceiling))
    raises = np.zeros(n, dtype=np.intp)
    for _ in range(STEPS):
        if not len(open_):
            break
        duals, theta = basis.solved(open_)
        lam, height = duals[:, :s], duals[:, s]
        cost_cutoff = lam * np.abs(basis.columns[open_, :s]).max(axis=2)  # in units of cost
        surplus = cost_cutoff.argmin(axis=1)
        rows = np.arange(len(open_))
        loose = cost_cutoff[rows, surplus] < -NEAR * np.abs(basis.cost[open_]).max(axis=1)
        lam = np.maximum(lam, 0.0)
        value, moves, _ = k.least(given.take(open_), boxes.take(open_), lam)
        total = value + (lam * given.short[open_]).sum(axis=1)
        better = total > bound[open_]
        bound[open_[better]], at[open_[better]] = total[better], lam[better]
        size = np.abs(moves.cost) + (lam * np.abs(moves.gain)).sum(axis=1) + np.abs(height)
        missing = basis.missing(open_, theta)
        mixed = (basis.cost[open_] * theta).sum(axis=1)
        optimal = ~loose & (value >= height - CLOSE * size)
        optimal |= ~missing & (mixed - bound[open_] <= NEAR * np.abs(mixed))
        done = (optimal & ~missing) | (bound[open_] >= ceiling[open_])
        dearer = optimal & missing & ~done
        raises[open_[dearer]] += 1
        hopeless = dearer & (raises[open_] > RAISES)
        basis.dearer(open_[dearer])
        entering = ~done & ~dearer
        stuck = np.zeros(len(open_), dtype=bool)
        if entering.any():
            some = open_[entering]
            stuck[entering] = ~basis.enter(
                some, moves.take(entering), surplus[entering], loose[entering], theta[entering]
            )
        if hopeless.any():
            lost = open_[hopeless]
            none = _ray(k, given, boxes, lost, lam[hopeless])
            bound[lost[none]], at[lost[none]] = np.inf, lam[hopeless][none]
        open_ = open_[~(done | hopeless | stuck)]
    _, theta = basis.solved(np.arange(n))
    lost = np.flatnonzero(basis.missing(np.arange(n), theta) & (bound < ceiling) & ~impossible)
    for r in range(s) if len(lost) else ():  # one demand alone may ask for too much
        only = np.zeros((len(lost), s))
        only[:, r] = 1.0
        none = _ray(k, given, boxes, lost, only)
        bound[lost[none]], at[lost[none]] = np.inf, only[none]
    weights = np.where(basis.kind == POINT, np.clip(theta, 0.0, 1.0), 0.0)
    bound[impossible], at[impossible] = np.inf, 0.0
    return Dual(at, bound, tuple(basis.points), weights)


def _ray(
    k: Knapsack, given: KnapsackData, boxes: Boxes, rows: IntArray, lam: FloatArray
) -> BoolArray:
    """(rows,): whether demands weighed by multipliers ask for more than can be gained."""
    some = given.take(rows)
    value, _, _ = k.least(some, boxes.take(rows), lam, free=True)
    size = (lam * (some.slack + np.abs(some.short))).sum(axis=1)
    return np.asarray(value + (lam * some.short).sum(axis=1) > 1e-9 * size)


POINT, SURPLUS, MISSING = 0, 1, 2
"""What a position of a basis holds."""


@final
class _Basis:
    """Bases of n rows: s + 1 columns of the master program, with the points that some hold."""

    def __init__(self, k: Knapsack, given: KnapsackData, first: Moves, start: FloatArray) -> None:
        n, s = start.shape
        self.s, self.short = s, given.short
        self.columns, self.cost = np.zeros((n, s + 1, s + 1)), np.zeros((n, s + 1))
        self.kind = np.zeros((n, s + 1), dtype=np.int8)
        self.points = [first.take(np.arange(n)) for _ in range(s + 1)]
        self.columns[:, :s, 0], self.columns[:, s, 0], self.cost[:, 0] = first.gain, 1.0, first.cost
        tables = given.gain if given.gain.shape[1] else k.table_gains
        scale = np.abs(tables).max(axis=(-2, -1), initial=0.0)
        scale = np.maximum(np.abs(k.gains).max(axis=1, initial=0.0), scale)
        reach = np.maximum(np.abs(given.short), scale)  # what missing it costs stays within bounds
        reach[reach == 0.0] = 1.0  # nothing gains anything
        most = (k.absolute + k.curvature).max(initial=0.0) + given.encoded_cost.max(initial=0.0)
        dear = np.maximum(4.0 * start, (first.cost[:, None] + most) / reach)
        for r in range(s):
            spare = first.gain[:, r] >= given.short[:, r]
            self.columns[:, r, r + 1] = np.where(spare, -1.0, 1.0)
            self.cost[:, r + 1] = np.where(spare, 0.0, dear[:, r])
            self.kind[:, r + 1] = np.where(spare, SURPLUS, MISSING)

    def solved(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """(rows, s + 1) the duals, and the shares of the columns."""
        matrix = self.columns[rows]
        right = np.hstack([self.short[rows], np.ones((len(rows), 1))])
        duals = np.linalg.solve(matrix.transpose(0, 2, 1), self.cost[rows][:, :, None])[:, :, 0]
        return duals, np.linalg.solve(matrix, right[:, :, None])[:, :, 0]

    def missing(self, rows: IntArray, theta: FloatArray) -> BoolArray:
        """(rows,): whether some demand is missed."""
        scale = 1e-11 * (1.0 + np.abs(self.short[rows]).max(axis=1, keepdims=True))
        return np.asarray(((self.kind[rows] == MISSING) & (theta > scale)).any(axis=1))

    def dearer(self, rows: IntArray) -> None:
        """Missing demands cost 64 times as much."""
        self.cost[rows] *= np.where(self.kind[rows] == MISSING, 64.0, 1.0)

    def enter(
        self,
        rows: IntArray,
        moves: Moves,
        surplus: IntArray,
        loose: BoolArray,
        theta: FloatArray,
    ) -> BoolArray:
        """A column enters each basis: a demand's surplus where multipliers are negative, a point.

        (rows,): whether it did.
        """
        s, at = self.s, np.arange(len(rows))
        new = np.hstack([moves.gain, np.ones((len(rows), 1))])
        new[loose] = 0.0
        new[loose, surplus[loose]] = -1.0
        way = np.linalg.solve(self.columns[rows], new[:, :, None])[:, :, 0]
        big = np.abs(way).max(axis=1, keepdims=True)
        ratio = np.where(way > 1e-11 * big, np.maximum(theta, 0.0) / way, np.inf)
        # of equal ratios, a missing demand leaves first
        ratio = np.where(
            (self.kind[rows] == MISSING) & (ratio <= ratio.min(axis=1, keepdims=True)), -1.0, ratio
        )
        out = ratio.argmin(axis=1)
        fits = np.isfinite(ratio[at, out])
        rows, out, at = rows[fits], out[fits], at[fits]
        self.columns[rows, :, out] = new[at]
        self.cost[rows, out] = np.where(loose[at], 0.0, moves.cost[at])
        self.kind[rows, out] = np.where(loose[at], SURPLUS, POINT)
        for position in range(s + 1):
            here = out == position
            if here.any():
                self.points[position].put(rows[here], moves.take(at[here]))
        return np.asarray(fits)
