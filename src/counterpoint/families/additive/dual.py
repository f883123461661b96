"""Multipliers of knapsacks: the highest Lagrangian bound of many boxes at once, by Dantzig–Wolfe.

A basis holds one column more than there are demands: points, what a demand has too much of, and
what it has too little of, at a high price. It gives multipliers; the point that is least by these
enters it, until none improves on it. For one demand, these are secants of a concave function.

Points that miss a demand are mended by replacing one feature, as cheaply as can be.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from counterpoint.families.additive.knapsack import Candidates, KnapsackLagrangian
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray
from counterpoint.programs import arrays

STEPS = 60
"""How many multipliers are tried for a box, at most; some four do."""
CLOSE, NEAR = 1e-12, 1e-9
"""A bound is the highest if no point is this much below the basis, relative to the terms of both;
or if it is this near to what a mixture of points costs."""
RAISES, DEARER = 6, 64.0
"""How often a missing demand is made so many times as dear before a box is left as it is."""
SHY = 1.0 - 1e-13
"""By how much less than its cost a column without an end may gain, for its least to be finite."""
HALVINGS = 36
"""How closely a column with a curve is taken back: its change, over 2 to the power of so many."""
POINT, SURPLUS, MISSING = 0, 1, 2
"""What a column of a basis stands for."""


@final
class Basis(NamedTuple):
    """The bases of m boxes for s demands, and the bounds that they led to, written in place."""

    matrix: FloatArray  # (m, s + 1, s + 1) what each column adds to demands, and to the mixture
    target: FloatArray  # (m, s + 1) what they are to add up to
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
    for _ in range(STEPS):
        if basis.done.all():
            break
        _improve(boxes, basis)
    np.maximum(basis.bound, 0.0, out=basis.bound)
    basis.bound[empty], basis.multipliers[empty] = np.inf, 0.0
    return basis


def _first(boxes: KnapsackLagrangian, start: FloatArray, ceiling: FloatArray) -> Basis:
    """Return the first bases: the least point of each box at the start, and a column for demands.

    A demand that the point meets has a column for its surplus, which is free; any other has one for
    what is missing, at a cost above that of the dearest change that could gain it.
    """
    (n, s), k = start.shape, boxes.knapsack
    value, first = boxes.least(start)
    costs, tables = boxes.boxes.option_cost, k.table_gains if boxes.gain is None else boxes.gain
    gain = np.abs(tables).max(axis=(-2, -1), initial=0.0)  # the largest for each demand
    gain = np.maximum(np.abs(k.gains).max(axis=1, initial=0.0), gain)
    gain = np.maximum(np.abs(boxes.missing), gain)  # what missing it costs stays within bounds
    gain[gain == 0.0] = 1.0  # nothing gains anything
    dearest = costs.max(axis=(1, 2), initial=0.0, where=np.isfinite(costs))
    dearest += first.cost + (k.cost.absolute + k.cost.curvature).max(initial=0.0)
    dearest[dearest == 0.0] = 1.0  # nothing is left to choose, and what is missing is not free
    is_met, demand = first.gain >= boxes.missing, np.arange(s)
    matrix, cost = np.zeros((n, s + 1, s + 1)), np.zeros((n, s + 1))
    matrix[:, :s, 0], matrix[:, s, 0], cost[:, 0] = first.gain, 1.0, first.cost
    matrix[:, demand, demand + 1] = np.where(is_met, -1.0, 1.0)
    cost[:, 1:] = np.where(is_met, 0.0, np.maximum(4.0 * start, dearest[:, None] / gain))
    kind, shares = np.full((n, s + 1), POINT), np.zeros((n, s + 1))
    kind[:, 1:], shares[:, 0] = np.where(is_met, SURPLUS, MISSING), 1.0
    points = Candidates._make([np.repeat(v[:, None], s + 1, axis=1) for v in first])
    target, multipliers = np.hstack([boxes.missing, np.ones((n, 1))]), np.array(start)
    bound = value + (start * boxes.missing).sum(axis=1)
    done, raises = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.intp)
    columns = matrix, target, cost, kind, points, shares
    return Basis(*columns, multipliers, bound, raises, done, ceiling, _steepest(boxes))


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


def _improve(boxes: KnapsackLagrangian, basis: Basis) -> None:
    """Bound all boxes by the multipliers of their bases, and let a column enter each.

    It changes nothing for boxes that are done, whose last multipliers are tried again.
    """
    s, inverse = basis.multipliers.shape[1], inverted(basis.matrix)
    duals = (basis.cost[:, None] @ inverse)[:, 0]
    basis.shares[:] = (inverse @ basis.target[:, :, None])[:, :, 0]
    lam, height = duals[:, :s], duals[:, s]
    in_cost = lam * np.abs(basis.matrix[:, :s]).max(axis=2)
    surplus = in_cost.argmin(axis=1)
    loose = in_cost.min(axis=1) < -NEAR * np.abs(basis.cost).max(axis=1)
    lam = np.minimum(np.maximum(lam, 0.0), basis.steepest[:, None])
    value, points = boxes.least(lam)
    bound = value + (lam * boxes.missing).sum(axis=1)
    better = bound > basis.bound
    np.copyto(basis.bound, bound, where=better)
    np.copyto(basis.multipliers, lam, where=better[:, None])

    size = np.abs(points.cost) + (lam * np.abs(points.gain)).sum(axis=1) + np.abs(height)
    tolerance = 2e-11 * np.abs(basis.target).max(axis=1, keepdims=True)
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
        arrays.put(points, index, repaired(boxes.pick(index), arrays.pick(points, index)))
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
    arrays.put(basis.points, (rows, out), arrays.pick(points, rows))


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


# --- points that meet their demands ---


def repaired(boxes: KnapsackLagrangian, points: Candidates) -> Candidates:
    """Replace one feature of each point, as cheaply as can be, so that all demands are met.

    A point stays as it is if that cannot be done, or if it meets them already and none is cheaper.
    """
    k, every = boxes.knapsack, np.arange(len(points.cost))
    missing = boxes.missing - points.gain
    counted = full = None
    if k.at_most is not None:
        counted = boxes.changed(points)
        full = counted.sum(axis=1) >= k.at_most
    change = _least_changes(boxes, points, missing)
    possible = np.isfinite(change)
    change = np.where(possible, change, 0.0)
    increase = np.where(possible, boxes.paid(change) - boxes.paid(points.change), np.inf)
    if counted is not None and full is not None:
        increase[(change != 0.0) & ~counted[:, : len(k.numbers)] & full[:, None]] = np.inf
    if k.tables:
        swaps = _swaps(boxes, points, missing)
        if counted is not None and full is not None:
            new = full[:, None] & ~counted[:, len(k.numbers) :]
            swaps[new[:, :, None] & (boxes.boxes.option_cost > 0.0)] = np.inf
        increase = np.hstack([increase, swaps.reshape(len(swaps), -1)])
    item = increase.argmin(axis=1)
    best = increase[every, item]
    helps = np.isfinite(best) & (~boxes.satisfied(points) | (best < 0.0))
    changes, choice = np.array(points.change), np.array(points.choice)
    number = np.flatnonzero(helps & (item < len(k.numbers)))
    changes[number, item[number]] = change[number, item[number]]
    swap = np.flatnonzero(helps & (item >= len(k.numbers)))
    if len(swap):
        table, option = np.divmod(item[swap] - len(k.numbers), boxes.boxes.option_cost.shape[2])
        choice[swap, table] = option
    return boxes.points(changes, choice)


def _least_changes(
    boxes: KnapsackLagrangian, points: Candidates, missing: FloatArray
) -> FloatArray:
    """Return the change (m, c) of each column nearest to none that meets all demands alone.

    NaN where there is none.
    """
    k, (low, high) = boxes.knapsack, boxes.boxes[1:3]
    possible = np.ones(points.change.shape, dtype=bool)
    for r, gains in enumerate(k.gains):
        need = points.change + missing[:, r, None] / gains
        low = np.where(gains > 0.0, np.maximum(low, need), low)
        high = np.where(gains < 0.0, np.minimum(high, need), high)
        possible &= (gains != 0.0) | (missing[:, r] <= boxes.slack[:, r])[:, None]
    low = np.where(k.whole, np.ceil(low - STEP_SLACK), low)
    high = np.where(k.whole, np.floor(high + STEP_SLACK), high)
    change = np.minimum(np.maximum(low, 0.0), high)
    possible &= (low <= change) & (change <= high)
    if k.smooth is not None:
        at, (low, high) = k.smooth_columns, boxes.boxes[1:3]
        change[:, at], possible[:, at] = _taken_back(boxes, points, missing)
        possible[:, at] &= ((low <= change) & (change <= high))[:, at]
    return np.where(possible & np.isfinite(change), change, np.nan)


def _taken_back(
    boxes: KnapsackLagrangian, points: Candidates, missing: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return changes (m, k) of smooth columns, each the least for which met demands stay met.

    Also returns where all demands are met by that. Each change is a share of the one before, found
    by bisection, while other columns stay as they are.
    """
    k, at = boxes.knapsack, boxes.knapsack.smooth_columns
    change, linear = points.change[:, at], k.gains[:, at].T
    enough = (missing - boxes.slack)[:, None]
    held = change[:, :, None] * linear + boxes.smooth_gains(change)

    def gain(changes: FloatArray) -> FloatArray:
        return changes[:, :, None] * linear + boxes.smooth_gains(changes) - held

    low, high = np.zeros(change.shape), np.ones(change.shape)  # shares of the change
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        meets = ((gain(middle * change) >= enough) | (enough > 0.0)).all(axis=2)
        high, low = np.where(meets, middle, high), np.where(meets, low, middle)
    changes = high * change
    away = np.copysign(np.ceil(np.abs(changes)), change)
    changes = np.where(k.whole[at], away, changes)
    return changes, np.asarray((gain(changes) >= enough).all(axis=2))


def _swaps(boxes: KnapsackLagrangian, points: Candidates, missing: FloatArray) -> FloatArray:
    """Return what it costs more to choose another option (m, t, k); infinite if demands stay."""
    cost = boxes.boxes.option_cost
    increase = cost - boxes.chosen(cost, points.choice)[:, :, None]
    for r in range(len(boxes.knapsack.gains)):
        gain = boxes.chosen_gains(points.choice, r)
        enough = missing[:, r, None] + gain - boxes.slack[:, r, None]
        increase = np.where(boxes.gains_of(r) >= enough[:, :, None], increase, np.inf)
    return increase
