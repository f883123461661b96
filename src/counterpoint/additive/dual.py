"""Multipliers of knapsacks: the highest Lagrangian bound of many boxes at once.

For one demand the bound is a concave function of one number: its root is found between a point that
gains too little and one that gains enough (secants, and Newton's steps where prices bend). For
several demands, by Dantzig–Wolfe: a basis of as many points and demands as there are rows, and a
point that improves on it by the multipliers, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from counterpoint.additive.knapsack import Boxes, Given, Knapsack, Moves
from counterpoint.numerics import BoolArray, FloatArray, IntArray

__all__ = ["Dual", "highest"]

STEPS = 60
"""How many multipliers are tried for a box, at most; some four do."""
CLOSE = 1e-12
"""A bound this near to what a mixture of points costs, relative to it, is the highest."""
NEAR = 1e-10
"""The same for several demands, whose bases are less exact."""
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


def highest(
    k: Knapsack, given: Given, boxes: Boxes, start: FloatArray, ceiling: FloatArray
) -> Dual:
    """The highest bounds; or any, from the ceilings on.

    ``start``: (n, s) multipliers to begin with; zeros for any.
    """
    if len(k.gains) == 1:
        return _secants(k, given, boxes, start, ceiling)
    return _columns(k, given, boxes, start, ceiling)


def _steepest(k: Knapsack, boxes: Boxes) -> FloatArray:
    """(n,) the multiplier of one demand from which on a column without an end runs away."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steep = np.where(k.curved | (k.gains[0] == 0.0), np.inf, k.absolute / np.abs(k.gains[0]))
    end = np.where(k.gains[0] > 0.0, boxes.high, -boxes.low)
    return np.asarray(np.where(np.isposinf(end), steep, np.inf).min(axis=1, initial=np.inf) * SHY)


def _secants(
    k: Knapsack, given: Given, boxes: Boxes, start: FloatArray, ceiling: FloatArray
) -> Dual:
    n, short = len(start), given.short[:, 0]
    enough = short - given.slack[:, 0]
    at = np.zeros((n, 1))
    bound, left, _ = k.least(given, boxes, at)
    bound = bound + 0.0
    most, right, _ = k.least(given, boxes, np.ones((n, 1)), free=True)
    with np.errstate(invalid="ignore"):
        impossible = ~(-most >= enough) | np.isposinf(bound)
    bound[impossible], at[impossible] = np.inf, 1.0
    met = left.gain[:, 0] >= enough
    steepest, below, above = _steepest(k, boxes), np.zeros(n), np.full(n, np.inf)
    right.cost[np.isnan(right.cost) | ~np.isfinite(right.gain[:, 0])] = np.inf
    right.put(met, left.take(met))
    open_ = np.flatnonzero(~met & ~impossible & (bound < ceiling))
    trial = _first(k, start[:, 0], steepest, left, right, short)
    for step in range(STEPS):
        if not len(open_):
            break
        lam, some = trial[open_], given.take(open_)
        value, moves, _ = k.least(some, boxes.take(open_), lam[:, None])
        value = value + lam * short[open_]
        better = value > bound[open_]
        bound[open_[better]], at[open_[better], 0] = value[better], lam[better]
        gains = moves.gain[:, 0] >= enough[open_]
        right.put(open_[gains], moves.take(gains))
        left.put(open_[~gains], moves.take(~gains))
        above[open_[gains]], below[open_[~gains]] = lam[gains], lam[~gains]
        done = (bound[open_] >= ceiling[open_]) | (~gains & (lam >= steepest[open_]))
        following = _chord(left.take(open_), right.take(open_))
        if k.curved.any() and step % 3 < 2:
            newton = _newton(k, some, lam, moves)
            following = np.where(np.isfinite(newton), newton, following)
        low, high = below[open_], np.minimum(above[open_], steepest[open_])
        mixed = _mixed(left.take(open_), right.take(open_), short[open_])
        with np.errstate(invalid="ignore"):
            done |= (mixed - bound[open_] <= CLOSE * np.abs(mixed)) & np.isfinite(mixed)
            inside = (following > low) & (following < high)
            middle = np.where(np.isinf(high), 4.0 * lam, 0.5 * (low + high))
            middle = np.minimum(middle, high)
            following = np.where(inside, following, middle)
        done |= following == lam
        trial[open_] = following
        open_ = open_[~done]
    lost = np.flatnonzero(np.isinf(right.cost) & ~impossible)
    if len(lost):  # the bound is at the price of a column without an end: as far as it has to go
        right.put(lost, k.repaired(given.take(lost), left.take(lost))[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = (right.gain[:, 0] - short) / (right.gain[:, 0] - left.gain[:, 0])
    weight = np.clip(np.nan_to_num(weight, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    return Dual(at, bound, (left, right), np.stack([weight, 1.0 - weight], axis=1))


def _first(
    k: Knapsack,
    start: FloatArray,
    steepest: FloatArray,
    left: Moves,
    right: Moves,
    short: FloatArray,
) -> FloatArray:
    """(n,) multipliers to try first."""
    chord = _chord(left, right)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = np.where(k.curved, k.gains[0] ** 2 / (2.0 * k.curvature), 0.0).sum()
        newton = (short - left.gain[:, 0]) / bend
    known = np.where(np.isfinite(chord) & (chord > 0.0), chord, np.nan_to_num(newton, posinf=1.0))
    trial = np.where(start > 0.0, start, known)
    return np.asarray(np.minimum(np.where(trial > 0.0, trial, 1.0), steepest))


def _chord(left: Moves, right: Moves) -> FloatArray:
    """(n,) the multiplier at which both points are as good as each other."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((right.cost - left.cost) / (right.gain[:, 0] - left.gain[:, 0]))


def _newton(k: Knapsack, given: Given, lam: FloatArray, moves: Moves) -> FloatArray:
    """(n,) Newton's step, as if whole columns were not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = (moves.change > given.boxes.low) & (moves.change < given.boxes.high) & k.curved
        bend = (inner * (k.gains[0] ** 2 / (2.0 * k.curvature + (~k.curved)))).sum(axis=1)
        return np.asarray(lam + (given.short[:, 0] - moves.gain[:, 0]) / bend)


def _mixed(left: Moves, right: Moves, short: FloatArray) -> FloatArray:
    """(n,) what the mixture of two points that gains what is short costs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (short - left.gain[:, 0]) / (right.gain[:, 0] - left.gain[:, 0])
        mixed = left.cost + share * (right.cost - left.cost)
    return np.asarray(np.where(np.isnan(mixed), np.inf, mixed))


def _columns(
    k: Knapsack, given: Given, boxes: Boxes, start: FloatArray, ceiling: FloatArray
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
        worth = lam * np.abs(basis.columns[open_, :s]).max(axis=2)  # in units of cost
        surplus = worth.argmin(axis=1)
        rows = np.arange(len(open_))
        loose = worth[rows, surplus] < -NEAR * np.abs(basis.cost[open_]).max(axis=1)
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


def _ray(k: Knapsack, given: Given, boxes: Boxes, rows: IntArray, lam: FloatArray) -> BoolArray:
    """(rows,): whether demands weighed by multipliers ask for more than can be gained."""
    some = given.take(rows)
    value, _, _ = k.least(some, boxes.take(rows), lam, free=True)
    size = (lam * (some.slack + np.abs(some.short))).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(value + (lam * some.short).sum(axis=1) > 1e-9 * size)


POINT, SURPLUS, MISSING = 0, 1, 2
"""What a position of a basis holds."""


@final
class _Basis:
    """Bases of n rows: s + 1 columns of the master program, with the points that some hold."""

    def __init__(self, k: Knapsack, given: Given, first: Moves, start: FloatArray) -> None:
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
        most = (k.absolute + k.curvature).max(initial=0.0) + given.price.max(initial=0.0)
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
        with np.errstate(divide="ignore", invalid="ignore"):
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
