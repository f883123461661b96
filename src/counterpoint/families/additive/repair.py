"""Better points: the cheapest replacement of one feature after which all demands are met."""

from __future__ import annotations

import numpy as np

from counterpoint.families.additive.knapsack import Knapsack
from counterpoint.families.additive.moves import KnapsackData, Moves, chosen
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray

__all__ = ["repaired"]

HALVINGS = 36
"""How closely a column with a curve is taken back: its change, over 2 to the power of so many."""


def repaired(k: Knapsack, given: KnapsackData, moves: Moves) -> tuple[BoolArray, Moves]:
    """The cheapest replacement of one feature after which all demands are met.

    (n,): whether there is one that does so, or lowers the cost of a point that meets them.
    """
    c, missing = len(k.numbers), given.short - moves.gain
    done, (low, high, _, _) = given.satisfied(moves), given.boxes
    possible = np.ones(moves.change.shape, dtype=bool)
    for r, gains in enumerate(k.gains):
        need = moves.change + missing[:, r, None] / gains
        low = np.where(gains > 0.0, np.maximum(low, need), low)
        high = np.where(gains < 0.0, np.minimum(high, need), high)
        possible &= (gains != 0.0) | (missing[:, r] <= given.slack[:, r])[:, None]
    low = np.where(k.whole, np.ceil(low - STEP_SLACK), low)
    high = np.where(k.whole, np.floor(high + STEP_SLACK), high)
    target = np.minimum(np.maximum(low, 0.0), high)
    if k.smooth is not None:
        at = k.bending
        target[:, at], possible[:, at] = _taken_back(k, given, moves, missing)
        low[:, at], high[:, at] = given.boxes.low[:, at], given.boxes.high[:, at]
    possible &= (low <= target) & (target <= high) & np.isfinite(target)
    target = np.where(possible, target, 0.0)
    encoded_cost = np.where(possible, k.paid(given, target) - k.paid(given, moves.change), np.inf)
    counted = None
    if k.count is not None:
        counted = k.changed(given, moves)
        full = counted.sum(axis=1) >= k.count
        encoded_cost[(target != 0.0) & ~counted[:, :c] & full[:, None]] = np.inf
    if k.tables:
        encoded_cost = np.hstack([encoded_cost, _swaps(k, given, moves, missing, counted)])
    item = encoded_cost.argmin(axis=1)
    rows = np.arange(len(encoded_cost))
    gain = encoded_cost[rows, item]
    helps = np.isfinite(gain) & (~done | (gain < 0.0))
    change, choice = np.array(moves.change), np.array(moves.choice)
    number = helps & (item < c)
    change[rows[number], item[number]] = target[rows[number], item[number]]
    swap = helps & ~number
    if swap.any():
        t, option = np.divmod(item[swap] - c, given.encoded_cost.shape[2])
        choice[rows[swap], t] = option
    return helps, k.moves(given, change, choice)


def _taken_back(
    k: Knapsack, given: KnapsackData, moves: Moves, missing: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """(n, k) changes of smooth columns, as small as demands that are met allow; where all are.

    No more than the change that each now has.
    """
    now = moves.change[:, k.bending]
    linear, enough = k.gains[:, k.bending].T, (missing - given.slack)[:, None]
    held = now[:, :, None] * linear + k.bent_gains(given, now)
    back, kept = np.zeros(now.shape), np.ones(now.shape)
    for _ in range(HALVINGS):
        change = 0.5 * (back + kept) * now
        more = change[:, :, None] * linear + k.bent_gains(given, change) - held
        good = ((more >= enough) | (enough > 0.0)).all(axis=2)
        kept, back = (
            np.where(good, 0.5 * (back + kept), kept),
            np.where(good, back, 0.5 * (back + kept)),
        )
    change = kept * now
    change = np.where(k.whole[k.bending], np.copysign(np.ceil(np.abs(change)), now), change)
    more = change[:, :, None] * linear + k.bent_gains(given, change) - held
    return change, np.asarray((more >= enough).all(axis=2))


def _swaps(
    k: Knapsack, given: KnapsackData, moves: Moves, missing: FloatArray, counted: BoolArray | None
) -> FloatArray:
    """(n, t · k) what it costs more to choose another option; infinite if that does not do."""
    mask = np.array(given.boxes.mask)
    for r in range(len(k.gains)):
        now = k.chosen_gains(given, moves.choice, r)
        enough = missing[:, r, None] + now - given.slack[:, r, None]
        mask &= k.gains_of(given, r) >= enough[:, :, None]
    now = chosen(given.encoded_cost, moves.choice)
    encoded_cost = np.where(mask, given.encoded_cost - now[:, :, None], np.inf)
    if counted is not None:
        full = counted.sum(axis=1) >= (k.count or 0)
        new = full[:, None] & ~counted[:, len(k.numbers) :]
        encoded_cost[new] = np.where(given.encoded_cost[new] > 0.0, np.inf, encoded_cost[new])
    return encoded_cost.reshape(len(encoded_cost), encoded_cost.shape[1] * encoded_cost.shape[2])
