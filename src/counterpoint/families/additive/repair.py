"""Better points: the cheapest replacement of one feature after which all demands are met."""

from __future__ import annotations

import numpy as np

from counterpoint.families.additive.knapsack import Candidates, KnapsackLagrangian
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray

__all__ = ["repaired"]

HALVINGS = 36
"""How closely a column with a curve is taken back: its change, over 2 to the power of so many."""


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
    """Return changes (m, k) of smooth columns, as small as met demands allow; and where all are.

    None is more than the change that the column has.
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
