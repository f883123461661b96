"""What `Knapsack` and `repair` do of a row, in loops over its features, compiled by Numba.

For columns that do not bend smoothly. Names are those of `Knapsack` and `KnapsackData`; features
are numbers, then tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray, compiled

__all__ = [
    "Row",
    "Shared",
    "dot",
    "largest",
    "least",
    "moved",
    "musts",
    "option",
    "put",
    "repaired",
    "weighed",
]


@final
class Shared(NamedTuple):
    """What rows share."""

    absolute: FloatArray  # (c,)
    curvature: FloatArray
    whole: BoolArray
    gains: FloatArray  # (s, c)
    groups: int  # how many tables are of categories; the others are of values, in their order
    most: int  # how many features may change; −1 if changes are not counted
    place: IntArray  # (c,) of each number among those priced by level; −1 if it is not


@final
class Row(NamedTuple):
    """What a row, or with one more dimension several, has of its own; its domain."""

    short: FloatArray  # (s,)
    slack: FloatArray
    encoded_cost: FloatArray  # (t, k)
    here: IntArray  # (t,)
    gain: FloatArray  # (s, t, k)
    low: FloatArray  # (c,)
    high: FloatArray
    mask: BoolArray  # (t, k)
    at: FloatArray  # (l, p) increasing changes, and what they cost: linear between two of them
    paid: FloatArray


@compiled
def dot(a: Any, b: Any) -> Any:
    """a · b."""
    out = 0.0
    for i in range(len(a)):
        out += a[i] * b[i]
    return out


@compiled
def largest(a: Any) -> Any:
    """The size of the largest number."""
    out = 0.0
    for value in a:
        out = max(out, abs(value))
    return out


@compiled
def put(to: Any, of: Any) -> None:
    """Copy vectors: arrays of slices take long to compile."""
    for i in range(len(to)):
        to[i] = of[i]


@compiled
def moved(to: Any, of: Any) -> None:
    """Copy a point."""
    put(to[0], of[0])
    put(to[1], of[1])
    put(to[2], of[2])


@compiled
def _paid(k: Any, j: Any, change: Any) -> Any:
    """What the change of a number costs."""
    value = abs(change) * k.absolute[j]
    return value + change * change * k.curvature[j] if k.curvature[j] > 0.0 else value


@compiled
def _level_paid(at: Any, paid: Any, change: Any) -> Any:
    """The same of a number priced by level, between the changes at which that bends."""
    i = min(max(np.searchsorted(at, change), 1), len(at) - 1)
    if at[i] == change or at[i] == at[i - 1]:
        return paid[i]
    return paid[i - 1] + (paid[i] - paid[i - 1]) * (change - at[i - 1]) / (at[i] - at[i - 1])


@compiled
def _nearest(k: Any, j: Any, slope: Any, ends: Any, scale: Any) -> Any:
    """The change of a number at which a scale of its price less slope · change is least."""
    low, high = ends
    if scale * k.curvature[j] > 0.0:
        free = slope / (2.0 * k.curvature[j])
        return min(max(np.rint(free) if k.whole[j] else free, low), high)
    if abs(slope) > scale * k.absolute[j]:
        return high if slope > 0.0 else low
    return min(max(low, 0.0), high)


@compiled
def _level_nearest(at: Any, paid: Any, slope: Any, ends: Any, scale: Any) -> Any:
    """The same of a number priced by level: where that bends, or an end; the smallest such."""
    low, high = ends
    best = low if abs(low) <= abs(high) else high
    other = high if best == low else low
    least = scale * _level_paid(at, paid, best) - slope * best
    value = scale * _level_paid(at, paid, other) - slope * other
    if value < least:
        least, best = value, other
    for i in range(np.searchsorted(at, low), len(at)):
        if at[i] > high:
            break
        value = scale * paid[i] - slope * at[i]
        if value < least or (value == least and abs(at[i]) < abs(best)):
            least, best = value, at[i]
    return best, least


@compiled
def option(row: Any, lam: Any, g: Any, o: Any, scale: Any) -> Any:
    """A scale of the price of an option less what it gains."""
    value = scale * row.encoded_cost[g, o]
    for r in range(len(lam)):
        value -= lam[r] * row.gain[r, g, o]
    return value


@compiled
def musts(row: Any, box: Any, must: Any) -> None:
    """Fill in which features of a box cannot stay, or count as changed."""
    low, high, mask, forced = box
    c = len(low)
    for j in range(c):
        must[j] = forced[j] or low[j] > 0.0 or high[j] < 0.0
    for g in range(len(mask)):
        must[c + g] = forced[c + g] or not mask[g, row.here[g]]


@compiled
def _chosen(k: Any, row: Any, point: Any, own: Any, leave: Any, must: Any) -> Any:
    """Leave as they are all features but those that must change and the best others.

    Only as many as may; ``leave`` becomes what any leaves that takes another value. Whether the
    box has a point.
    """
    change, choice, _ = point
    c, left = len(change), k.most
    kept = np.zeros(len(own), dtype=np.bool_)
    for f in range(len(own)):
        left -= must[f]
        kept[f] = must[f]
    if left < 0:
        return False
    last = 0.0
    for i in range(max(left, 1)):
        best, most = -1, 0.0
        for f in range(len(own)):
            if not kept[f] and own[f] < most:
                best, most = f, own[f]
        last = most if best >= 0 else 0.0
        if best < 0 or left == 0:
            break
        kept[best] = i < left
    for f in range(len(own)):
        leave[f] = own[f] if must[f] else min(own[f], last)
        if not kept[f]:
            own[f] = 0.0
            if f < c:
                change[f] = 0.0
            else:
                choice[f - c] = row.here[f - c]
    return True


@compiled
def weighed(k: Any, row: Any, point: Any) -> Any:
    """The cost of a point; fills in what it gains."""
    change, choice, gain = point
    cost = 0.0
    for j in range(len(change)):
        p = k.place[j]
        if p >= 0:
            cost += _level_paid(row.at[p], row.paid[p], change[j])
        else:
            cost += _paid(k, j, change[j])
    for g in range(len(choice)):
        cost += row.encoded_cost[g, choice[g]]
    for r in range(len(gain)):
        gain[r] = dot(change, k.gains[r])
        for g in range(len(choice)):
            gain[r] += row.gain[r, g, choice[g]]
    return cost


@compiled
def least(k: Any, row: Any, box: Any, lam: Any, point: Any, work: Any, scale: Any) -> Any:
    """A scale of the price, less λ · gain, at least in a box; its point, slopes, features' values.

    Infinite where the box holds no point.
    """
    low, high, mask, _ = box
    change, choice, _ = point
    slope, own, leave, must = work
    c, total = len(low), 0.0
    for j in range(c):
        if low[j] > high[j]:
            return np.inf
        slope[j] = 0.0
        for r in range(len(lam)):
            slope[j] += lam[r] * k.gains[r, j]
        p = k.place[j]
        if p >= 0:
            at, paid = row.at[p], row.paid[p]
            change[j], own[j] = _level_nearest(at, paid, slope[j], (low[j], high[j]), scale)
            continue
        to = _nearest(k, j, slope[j], (low[j], high[j]), scale)
        change[j], own[j] = to, -np.inf  # it gains more than it costs, without end
        if not np.isinf(to):
            own[j] = scale * _paid(k, j, to) - slope[j] * to
    staying = 0.0
    for g in range(len(choice)):
        best, own[c + g] = -1, np.inf
        for o in range(mask.shape[1]):
            if mask[g, o]:
                value = option(row, lam, g, o, scale)
                if best < 0 or value < own[c + g]:
                    best, own[c + g] = o, value
        if best < 0:
            return np.inf
        choice[g] = best
        if k.most >= 0:
            here = option(row, lam, g, row.here[g], 0.0)
            own[c + g] -= here
            staying += here
    if k.most < 0:
        put(leave, own)
    elif not _chosen(k, row, point, own, leave, must):
        return np.inf
    for value in own:
        total += value
    return total + staying


@compiled
def repaired(k: Any, row: Any, point: Any) -> Any:
    """The cheapest replacement of one feature after which all demands are met, if there is any.

    Whether it does so first, or lowers the cost of a point that meets them.
    """
    change, choice, gain = point
    c, s, best, item, to = len(change), len(gain), np.inf, -1, 0.0
    changes, done = 0, True
    for r in range(s):
        done &= gain[r] >= row.short[r] - row.slack[r]
    for j in range(c):
        changes += change[j] != 0.0
    for g in range(len(choice)):
        changes += choice[g] != row.here[g]
    full = 0 <= k.most <= changes
    for j in range(c):
        low, high, fits = row.low[j], row.high[j], True
        for r in range(s):
            lacks, each = row.short[r] - gain[r], k.gains[r, j]
            if each > 0.0:
                low = max(low, change[j] + lacks / each)
            elif each < 0.0:
                high = min(high, change[j] + lacks / each)
            elif lacks > row.slack[r]:
                fits = False
        if k.whole[j]:
            low, high = np.ceil(low - STEP_SLACK), np.floor(high + STEP_SLACK)
        target = min(max(low, 0.0), high)
        if not fits or low > high or np.isinf(target) or (full and change[j] == 0.0 != target):
            continue
        p = k.place[j]
        if p >= 0:
            encoded_cost = _level_paid(row.at[p], row.paid[p], target)
            encoded_cost -= _level_paid(row.at[p], row.paid[p], change[j])
        else:
            encoded_cost = _paid(k, j, target) - _paid(k, j, change[j])
        if encoded_cost < best:
            best, item, to = encoded_cost, j, target
    option = -1
    for g in range(len(choice)):
        now = choice[g]
        for o in range(row.mask.shape[1]):
            encoded_cost = row.encoded_cost[g, o] - row.encoded_cost[g, now]
            fits = row.mask[g, o] and encoded_cost < best
            if full and now == row.here[g]:
                fits &= not row.encoded_cost[g, o] > 0.0
            for r in range(s if fits else 0):
                enough = row.short[r] - gain[r] + row.gain[r, g, now] - row.slack[r]
                fits &= row.gain[r, g, o] >= enough
            if fits:
                best, item, option = encoded_cost, c + g, o
    if item < 0 or (done and not best < 0.0):
        return False
    if item < c:
        change[item] = to
    else:
        choice[item - c] = option
    return True
