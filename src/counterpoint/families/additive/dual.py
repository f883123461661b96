"""Multipliers of knapsacks: the highest Lagrangian bound of many boxes at once, by Dantzig–Wolfe.

A basis holds one column more than there are demands: points, what a demand has too much of, and
what it has too little of, at a high price. It gives multipliers; the point that is least by these
enters it, until none improves on it. For one demand, these are secants of a concave function.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from counterpoint.families.additive.knapsack import Candidates, KnapsackLagrangian
from counterpoint.families.additive.repair import repaired
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs.proof import pick, put

__all__ = ["Basis", "maximize_dual"]

STEPS = 60
"""How many multipliers are tried for a box, at most; some four do."""
CLOSE, NEAR = 1e-12, 1e-9
"""A bound is the highest if no point is this much below the basis, relative to the terms of both;
or if it is this near to what a mixture of points costs."""
RAISES, DEARER = 6, 64.0
"""How often a missing demand is made so many times as dear before a box is left as it is."""
SHY = 1.0 - 1e-13
"""By how much less than its cost a column without an end may gain, for its least to be finite."""
FEW = 32
"""So many boxes are bounded together to the end; of more, those that are done leave when they are
half of all, since the overhead of an array operation is worth some 30 boxes."""
POINT, SURPLUS, MISSING = 0, 1, 2
"""What a column of a basis stands for."""


@final
class Basis(NamedTuple):
    """The bases of m boxes for s demands, and the bounds that they led to, written in place."""

    matrix: FloatArray  # (m, s + 1, s + 1) what each column adds to demands, and to the mixture
    cost: FloatArray  # (m, s + 1) of each column
    kind: IntArray  # (m, s + 1)
    points: Candidates  # (m, s + 1) those that columns stand for
    shares: FloatArray  # (m, s + 1) how much of each column it takes
    multipliers: FloatArray  # (m, s) those of the highest bound so far
    bound: FloatArray  # (m,) infinite where a box has no point
    raises: IntArray  # (m,)
    done: BoolArray  # (m,)
    ceiling: FloatArray  # (m,) bounds from there on are as good as the highest
    steepest: FloatArray  # (m,) from which multiplier on a column without an end runs away

    @property
    def weights(self) -> FloatArray:
        """(m, s + 1) of each point in the mixture that reaches the bound."""
        return np.where(self.kind == POINT, np.clip(self.shares, 0.0, 1.0), 0.0)


def maximize_dual(boxes: KnapsackLagrangian, start: FloatArray, ceiling: FloatArray) -> Basis:
    """Return the highest bounds; or any, from the ceilings on.

    ``start`` (m, s) are multipliers to begin with; zeros for any.
    """
    basis, empty = _first(boxes, start, ceiling), boxes.empty
    basis.done[:] |= empty | (basis.bound >= ceiling)
    _climb(boxes, basis, 0)
    np.maximum(basis.bound, 0.0, out=basis.bound)
    basis.bound[empty], basis.multipliers[empty] = np.inf, 0.0
    return basis


def _first(boxes: KnapsackLagrangian, start: FloatArray, ceiling: FloatArray) -> Basis:
    """Return bases of the points at the start, with what each demand has too much or too little."""
    (n, s), k = start.shape, boxes.knapsack
    value, first = boxes.least(start)
    costs, tables = boxes.boxes.option_cost, k.table_gains if boxes.gain is None else boxes.gain
    scale = np.abs(tables).max(axis=(-2, -1), initial=0.0)
    scale = np.maximum(np.abs(k.gains).max(axis=1, initial=0.0), scale)
    scale = np.maximum(np.abs(boxes.missing), scale)  # what missing it costs stays within bounds
    scale[scale == 0.0] = 1.0  # nothing gains anything
    dearest = costs.max(axis=(1, 2), initial=0.0, where=np.isfinite(costs))
    most = first.cost + (k.cost.absolute + k.cost.curvature).max(initial=0.0) + dearest
    spare, demand = first.gain >= boxes.missing, np.arange(s)
    matrix, cost = np.zeros((n, s + 1, s + 1)), np.zeros((n, s + 1))
    matrix[:, :s, 0], matrix[:, s, 0], cost[:, 0] = first.gain, 1.0, first.cost
    matrix[:, demand, demand + 1] = np.where(spare, -1.0, 1.0)
    cost[:, 1:] = np.where(spare, 0.0, np.maximum(4.0 * start, most[:, None] / scale))
    kind, shares = np.full((n, s + 1), POINT), np.zeros((n, s + 1))
    kind[:, 1:], shares[:, 0] = np.where(spare, SURPLUS, MISSING), 1.0
    points = Candidates._make([np.repeat(v[:, None], s + 1, axis=1) for v in first])
    bound = value + (start * boxes.missing).sum(axis=1)
    done, raises = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.intp)
    end = matrix, cost, kind, points, shares, np.array(start), bound, raises, done
    return Basis(*end, ceiling, _steepest(boxes))


def _steepest(boxes: KnapsackLagrangian) -> FloatArray:
    """Return the multipliers, (m,), up to which no column without an end runs away.

    Where there are several demands, all columns have ends.
    """
    k = boxes.knapsack
    if not boxes.rows.is_endless or len(k.gains) > 1:
        return np.full(len(boxes.missing), np.inf)
    sensitive = ~k.nonlinear & (k.gains[0] != 0.0)
    steep = np.where(sensitive, k.cost.absolute / np.abs(k.gains[0]), np.inf)
    end = np.where(k.gains[0] > 0.0, boxes.boxes.high, -boxes.boxes.low)
    steepest = np.where(np.isposinf(end), steep, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(steepest * SHY)


def _climb(boxes: KnapsackLagrangian, basis: Basis, first: int) -> None:
    """Try multipliers, from a step on, until all bounds are as high as they are to get."""
    for step in range(first, STEPS):
        remaining = np.flatnonzero(~basis.done)
        if not len(remaining):
            return
        if len(basis.done) > FEW and 2 * len(remaining) < len(basis.done):
            smaller = pick(basis, remaining)
            _climb(boxes.pick(remaining), smaller, step)
            put(basis, remaining, smaller)
            return
        _improve(boxes, basis)


def _improve(boxes: KnapsackLagrangian, basis: Basis) -> None:
    """Bound all boxes by the multipliers of their bases, and let a column enter each.

    It changes nothing for boxes that are done, whose last multipliers are tried again.
    """
    (n, s), missing = basis.multipliers.shape, boxes.missing
    inverse = inverted(basis.matrix)
    duals = (basis.cost[:, None] @ inverse)[:, 0]
    basis.shares[:] = (inverse @ np.hstack([missing, np.ones((n, 1))])[:, :, None])[:, :, 0]
    lam, height = duals[:, :s], duals[:, s]
    in_cost = lam * np.abs(basis.matrix[:, :s]).max(axis=2)
    surplus = in_cost.argmin(axis=1)
    loose = in_cost.min(axis=1) < -NEAR * np.abs(basis.cost).max(axis=1)
    lam = np.minimum(np.maximum(lam, 0.0), basis.steepest[:, None])
    value, points = boxes.least(lam)
    bound = value + (lam * missing).sum(axis=1)
    better = bound > basis.bound
    np.copyto(basis.bound, bound, where=better)
    np.copyto(basis.multipliers, lam, where=better[:, None])

    size = np.abs(points.cost) + (lam * np.abs(points.gain)).sum(axis=1) + np.abs(height)
    tolerance = 1e-11 * (1.0 + np.abs(missing).max(axis=1, keepdims=True))
    missed = ((basis.kind == MISSING) & (basis.shares > tolerance)).any(axis=1)
    mixed = (basis.cost * basis.shares).sum(axis=1)
    optimal = ~loose & (value >= height - CLOSE * size)
    optimal |= ~missed & (mixed - basis.bound <= NEAR * np.abs(mixed))
    # no multiplier is higher: the column without an end goes as far as it has to
    capped = ~basis.done & (lam[:, 0] >= basis.steepest)
    if capped.any():
        capped &= ~boxes.satisfied(points)
    if capped.any():
        index = np.flatnonzero(capped)
        put(points, index, repaired(boxes.pick(index), pick(points, index)))
    basis.done[:] |= (optimal & ~missed & ~capped) | (basis.bound >= basis.ceiling)
    dearer = optimal & missed & ~capped & ~basis.done
    entering = np.flatnonzero(~basis.done & ~dearer)
    if len(entering):
        _enter(basis, entering, points, np.where(loose & ~capped, surplus, -1), inverse)
    basis.done[:] |= capped
    if dearer.any():
        refuted = dearer & _is_ray(boxes, lam)
        basis.bound[refuted], basis.multipliers[refuted] = np.inf, lam[refuted]
        basis.raises[:] += dearer
        basis.done[:] |= refuted | (basis.raises > RAISES)
        basis.cost[:] *= np.where(dearer[:, None] & (basis.kind == MISSING), DEARER, 1.0)


def _is_ray(boxes: KnapsackLagrangian, lam: FloatArray) -> BoolArray:
    """Return whether demands weighed by multipliers ask for more than can be gained, (m,)."""
    value, _ = boxes.without_cost().least(lam)
    size = (lam * (boxes.slack + np.abs(boxes.missing))).sum(axis=1)
    return np.asarray(value + (lam * boxes.missing).sum(axis=1) > 1e-9 * size)


def _enter(
    basis: Basis, rows: IntArray, points: Candidates, surplus: IntArray, inverse: FloatArray
) -> None:
    """Let a column enter the bases of some boxes; those that it cannot enter are done.

    That is the surplus of a demand where one is named, and not −1; else a point.
    """
    loose, every = surplus[rows] >= 0, np.arange(len(rows))
    new = np.hstack([points.gain[rows], np.ones((len(rows), 1))])
    new[loose] = 0.0
    new[loose, surplus[rows][loose]] = -1.0
    direction = (inverse[rows] @ new[:, :, None])[:, :, 0]
    big = np.abs(direction).max(axis=1, keepdims=True)
    shares = np.maximum(basis.shares[rows], 0.0)
    ratio = np.where(direction > 1e-11 * big, shares / direction, np.inf)
    # of equal ratios, a missing demand leaves first
    tied = (basis.kind[rows] == MISSING) & (ratio <= ratio.min(axis=1, keepdims=True))
    ratio = np.where(tied, -1.0, ratio)
    out = ratio.argmin(axis=1)
    fits = np.isfinite(ratio[every, out])
    basis.done[rows[~fits]] = True
    rows, out, loose = rows[fits], out[fits], loose[fits]
    basis.matrix[rows, :, out] = new[fits]
    basis.cost[rows, out] = np.where(loose, 0.0, points.cost[rows])
    basis.kind[rows, out] = np.where(loose, SURPLUS, POINT)
    put(basis.points, (rows, out), pick(points, rows))


def inverted(matrix: FloatArray) -> FloatArray:
    """Return the inverses of matrices (n, k, k); of a singular one the pseudoinverse.

    Columns of a basis that gain almost the same make it singular. Any multipliers bound a knapsack,
    so that its row loses a better bound at most, and the other rows nothing.
    """
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        if len(matrix) > 1:
            return np.concatenate([inverted(matrix[[i]]) for i in range(len(matrix))])
        return np.asarray(np.linalg.pinv(matrix))
