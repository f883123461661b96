"""Bounds and repairs of `dual` and `repair` in loops, box by box, compiled by Numba.

For columns that do not bend smoothly. Multipliers come from Dantzig and Wolfe's method for any
number of demands, with the inverse of the basis. Names are those of `Knapsack` and `Given`;
features are numbers, then tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from counterpoint.additive.dual import CLOSE, NEAR, RAISES, SHY, STEPS
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray, compiled

__all__ = [
    "Row",
    "Shared",
    "dot",
    "highest",
    "least",
    "moved",
    "musts",
    "option",
    "put",
    "repaired",
    "used",
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
    price: FloatArray  # (t, k)
    here: IntArray  # (t,)
    gain: FloatArray  # (s, t, k)
    low: FloatArray  # (c,)
    high: FloatArray
    mask: BoolArray  # (t, k)
    at: FloatArray  # (l, p) increasing changes, and what they cost: linear between two of them
    paid: FloatArray


POINT, SURPLUS, MISSING = 0, 1, 2
"""What a position of a basis holds."""


@compiled
def dot(a: Any, b: Any) -> Any:
    """a · b."""
    out = 0.0
    for i in range(len(a)):
        out += a[i] * b[i]
    return out


@compiled
def _largest(a: Any) -> Any:
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
def used(basis: Any, p: Any) -> Any:
    """Whether a position of a basis holds a point that is part of the mixture."""
    return basis[3][p] == POINT and basis[4][p] > 0.0


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
    value = scale * row.price[g, o]
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
        cost += row.price[g, choice[g]]
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
def _enter(basis: Any, way: Any, column: Any, cost: Any, kind: Any) -> Any:
    """A column enters a basis; the position that leaves, −1 if none may."""
    columns, inverse, costs, kinds, theta = basis
    size, big, out, least = len(way), _largest(way), -1, np.inf
    for i in range(size):
        if way[i] > 1e-11 * big:
            ratio = max(theta[i], 0.0) / way[i]
            # of equal ratios, a missing demand leaves first
            first = ratio == least and kinds[i] == MISSING and kinds[out] != MISSING
            if ratio < least or first:
                out, least = i, ratio
    if out < 0:
        return out
    put(columns[:, out], column)
    costs[out], kinds[out] = cost, kind
    for r in range(size):
        inverse[out, r] /= way[out]
        for i in range(size):
            if i != out:
                inverse[i, r] -= way[i] * inverse[out, r]
    return out


@compiled
def _begun(k: Any, row: Any, start: Any, point: Any, cost: Any, basis: Any) -> None:
    """A basis of one point, and of what each demand has too much of, or what is missing."""
    columns, inverse, costs, kinds, _ = basis
    s, gain = len(start), point[2]
    for i in range(s + 1):
        for r in range(s + 1):
            columns[i, r] = inverse[i, r] = 0.0
    put(columns[:s, 0], gain)
    columns[s, 0] = inverse[0, s] = 1.0
    costs[0], kinds[0], most, dearest = cost, POINT, 0.0, 0.0
    for j in range(len(k.absolute)):
        most = max(most, k.absolute[j] + k.curvature[j])
    for g in range(len(row.price)):
        dearest = max(dearest, _largest(row.price[g]))
    for r in range(s):
        reach = max(abs(row.short[r]), _largest(k.gains[r]))
        for g in range(row.gain.shape[1]):
            reach = max(reach, _largest(row.gain[r, g]))
        spare = gain[r] >= row.short[r]
        sign = -1.0 if spare else 1.0
        columns[r, r + 1] = inverse[r + 1, r] = sign
        inverse[r + 1, s] = -sign * gain[r]
        dear = max(4.0 * start[r], (cost + most + dearest) / (reach if reach > 0.0 else 1.0))
        costs[r + 1] = 0.0 if spare else dear
        kinds[r + 1] = SURPLUS if spare else MISSING


@compiled
def _steepest(k: Any, box: Any) -> Any:
    """From which multiplier of one demand on a column without an end runs away."""
    low, high, _, _ = box
    out = np.inf
    for j in range(len(low)):
        gain = k.gains[0, j]
        end = high[j] if gain > 0.0 else -low[j]
        if gain != 0.0 and k.curvature[j] == 0.0 and end == np.inf:
            out = min(out, k.absolute[j] / abs(gain))
    return out * SHY


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
            price = _level_paid(row.at[p], row.paid[p], target)
            price -= _level_paid(row.at[p], row.paid[p], change[j])
        else:
            price = _paid(k, j, target) - _paid(k, j, change[j])
        if price < best:
            best, item, to = price, j, target
    option = -1
    for g in range(len(choice)):
        now = choice[g]
        for o in range(row.mask.shape[1]):
            price = row.price[g, o] - row.price[g, now]
            fits = row.mask[g, o] and price < best
            if full and now == row.here[g]:
                fits &= not row.price[g, o] > 0.0
            for r in range(s if fits else 0):
                enough = row.short[r] - gain[r] + row.gain[r, g, now] - row.slack[r]
                fits &= row.gain[r, g, o] >= enough
            if fits:
                best, item, option = price, c + g, o
    if item < 0 or (done and not best < 0.0):
        return False
    if item < c:
        change[item] = to
    else:
        choice[item - c] = option
    return True


@compiled
def _stretched(k: Any, row: Any, basis: Any, points: Any) -> None:
    """What is missing of one demand made up by a column without an end, as far as it has to go."""
    kinds, theta = basis[3], basis[4]
    far = 0 if kinds[0] == MISSING else 1
    near = 1 - far
    first, one = points[2][near][0], (points[0][far], points[1][far], points[2][far])
    moved(one, (points[0][near], points[1][near], points[2][near]))
    if repaired(k, row, one):
        weighed(k, row, one)
        kinds[far] = POINT
        more, lacks = one[2][0] - first, row.short[0] - first
        theta[far] = min(max(lacks / more, 0.0), 1.0) if more > 0.0 else 1.0
        theta[near] = 1.0 - theta[far]


@compiled
def _impossible(k: Any, row: Any, box: Any, lam: Any, raised: Any, spot: Any, work: Any) -> Any:
    """Whether demands, weighed by multipliers or in the end each alone, ask for too much."""
    for r in range(-1, len(lam) if raised > RAISES else 0):
        for q in range(len(lam) if r >= 0 else 0):
            lam[q] = 1.0 if q == r else 0.0
        total, size = least(k, row, box, lam, spot, work, 0.0), 0.0
        for q in range(len(lam)):
            total += lam[q] * row.short[q]
            size += lam[q] * (row.slack[q] + abs(row.short[q]))
        if total > 1e-9 * size:
            return True
    return False


@compiled
def _duals(basis: Any, lam: Any) -> Any:
    """Fill in the multipliers of a basis; the height, and which of them is negative, −1 for none.

    Those count as 0.
    """
    columns, inverse, costs, _, _ = basis
    s, loose, least = len(lam), -1, -NEAR * _largest(costs)
    for r in range(s):
        lam[r] = dot(costs, inverse[:, r])
        worth = lam[r] * _largest(columns[r])
        if worth < least:
            loose, least = r, worth
        lam[r] = max(lam[r], 0.0)
    return dot(costs, inverse[:, s]), loose


@compiled
def _mixed(row: Any, basis: Any) -> Any:
    """What the mixture of a basis costs, and whether some demand is missed; fills in the shares."""
    _, inverse, costs, kinds, theta = basis
    s, cost, missing = len(row.short), 0.0, False
    scale = 1e-11 * (1.0 + _largest(row.short))
    for i in range(s + 1):
        theta[i] = dot(inverse[i, :s], row.short) + inverse[i, s]
        missing |= kinds[i] == MISSING and theta[i] > scale
        cost += costs[i] * theta[i]
    return cost, missing


@compiled
def highest(
    k: Any, row: Any, box: Any, at: Any, ceiling: Any, basis: Any, points: Any, work: Any
) -> Any:
    """The highest bound of a box, or any from the ceiling on; from multipliers ``at``, and there.

    The basis holds the points of which a mixture reaches it, and their shares.
    """
    s, kinds, steepest = len(at), basis[3], np.inf
    if s == 1:
        steepest = _steepest(k, box)
    lam, new, way = np.empty(s), np.empty(s + 1), np.empty(s + 1)
    spot = np.empty(points[0].shape[1]), np.empty(points[1].shape[1], np.int64), np.empty(s)
    for r in range(s):
        lam[r] = min(at[r], steepest)
    if k.most >= 0:
        musts(row, box, work[3])
    bound, mixed, missing, height, loose, raised = -np.inf, np.inf, True, 0.0, -1, 0
    for step in range(STEPS):
        if step:
            height, loose = _duals(basis, lam)
        pinned = s == 1 and step > 0 and lam[0] >= steepest
        if pinned:
            lam[0] = steepest
        value = least(k, row, box, lam, spot, work, 1.0)
        if value == np.inf:  # there is no point
            bound = np.inf
            break
        cost, total = weighed(k, row, spot), value + dot(lam, row.short)
        if total > bound:
            bound = total
            put(at, lam)
        if not step:
            _begun(k, row, lam, spot, cost, basis)
            moved((points[0][0], points[1][0], points[2][0]), spot)
        elif pinned and spot[2][0] < row.short[0] - row.slack[0]:
            if missing:
                _stretched(k, row, basis, points)
            break
        else:
            size = abs(cost) + abs(height)
            for r in range(s):
                size += lam[r] * abs(spot[2][r])
            if loose < 0 and not pinned and value >= height - CLOSE * size:
                if not missing:
                    break
                raised += 1
                if _impossible(k, row, box, lam, raised, spot, work):
                    bound = np.inf
                    put(at, lam)
                if raised > RAISES or bound == np.inf:
                    break
                for i in range(s + 1):
                    basis[2][i] *= 64.0 if kinds[i] == MISSING else 1.0
                continue
            for r in range(s):
                new[r] = spot[2][r] if loose < 0 else 0.0
            new[s] = 1.0 if loose < 0 else 0.0
            if loose >= 0:
                new[loose] = -1.0
            for i in range(s + 1):
                way[i] = dot(basis[1][i], new)
            kind = POINT if loose < 0 else SURPLUS
            out = _enter(basis, way, new, cost if loose < 0 else 0.0, kind)
            if out < 0:
                break
            if loose < 0:
                moved((points[0][out], points[1][out], points[2][out]), spot)
        mixed, missing = _mixed(row, basis)
        if bound >= ceiling or (not missing and mixed - bound <= NEAR * abs(mixed)):
            break
    if bound == np.inf:
        for i in range(s + 1):
            kinds[i] = SURPLUS
    return max(bound, 0.0)
