"""The search of `tree` in loops, row by row, compiled by Numba where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoint.families.additive.kernel import (
    Row,
    dot,
    least,
    moved,
    musts,
    option,
    put,
    repaired,
    weighed,
)
from counterpoint.families.additive.mixtures import maximize_dual, used
from counterpoint.families.additive.tree import ANY, REPAIRS, SPARE, STEEP
from counterpoint.numerics import STEP_SLACK, compiled

__all__ = ["search"]


@compiled
def copied(to: Any, of: Any) -> None:
    """Copy a box."""
    put(to[0], of[0])
    put(to[1], of[1])
    put(to[3], of[3])
    for g in range(len(to[2])):
        put(to[2][g], of[2][g])


@compiled
def _rounded(k: Any, basis: Any, points: Any, spot: Any) -> None:
    """The mixture of points, rounded; of each table, the option of the heaviest."""
    theta, heavy = basis[4], -1
    for p in range(len(theta)):
        if used(basis, p) and (heavy < 0 or theta[p] > theta[heavy]):
            heavy = p
    for j in range(len(spot[0])):
        spot[0][j] = 0.0
        for p in range(len(theta)):
            spot[0][j] += theta[p] * points[0][p, j] if used(basis, p) else 0.0
        if k.whole[j]:
            spot[0][j] = np.rint(spot[0][j])
    put(spot[1], points[1][max(heavy, 0)])


@compiled
def _improved(k: Any, row: Any, basis: Any, points: Any, best: Any, cost_cutoff: Any) -> Any:
    """What the best point costs, after single features of a mixture's points were replaced."""
    m = len(basis[4])
    change, choice = np.empty(points[0].shape[1]), np.empty(points[1].shape[1], np.int64)
    spot = change, choice, np.empty(points[2].shape[1])
    for i in range(m if k.most >= 0 and m == 2 else m + 1):
        if i == m:
            _rounded(k, basis, points, spot)
            changes = 0
            for j in range(len(change)):
                changes += change[j] != 0.0
            for g in range(len(choice)):
                changes += choice[g] != row.here[g]
            if 0 <= k.most < changes:
                break
        elif used(basis, i):
            moved(spot, (points[0][i], points[1][i], points[2][i]))
        else:
            continue
        cost = weighed(k, row, spot)
        for _ in range(REPAIRS if np.isfinite(cost) else 0):
            helps = repaired(k, row, spot)
            cost, satisfied = weighed(k, row, spot), True
            for r in range(len(spot[2])):
                satisfied &= spot[2][r] >= row.short[r] - row.slack[r]
            if satisfied and cost < cost_cutoff:
                cost_cutoff = cost
                put(best[0], change)
                put(best[1], choice)
            if not helps:
                break
    return cost_cutoff


@compiled
def _fixed(k: Any, row: Any, box: Any, lam: Any, ceiling: Any, spot: Any, work: Any) -> Any:
    """Take out of a box what its multipliers exclude; whether that is anything."""
    low, high, mask, _ = box
    total = least(k, row, box, lam, spot, work, 1.0) + dot(lam, row.short)
    if not total > 0.0:
        return False
    slope, _, leave, must = work
    room, less, c = max(ceiling * (1.0 + SPARE) - total, 0.0), False, len(low)
    for j in range(c):
        if not k.whole[j] or k.place[j] >= 0:  # these are not convex
            continue
        limit = leave[j] + room
        if k.curvature[j] > 0.0:
            middle = slope[j] / (2.0 * k.curvature[j])
            reach = np.sqrt(max(limit / k.curvature[j] + middle * middle, 0.0))
            rise, fall = middle + reach, middle - reach
        else:
            up, down, flat = k.absolute[j] - slope[j], k.absolute[j] + slope[j], k.absolute[j]
            rise = limit / up if up > STEEP * flat else np.inf
            fall = -limit / down if down > STEEP * flat else -np.inf
            # beyond the end to which a column is pulled, where nothing else is allowed
            if limit < 0.0 and down < 0.0:
                rise = limit / -down
            if limit < 0.0 and up < 0.0:
                fall = limit / up
        rise, fall = rise * (1.0 + SPARE), fall * (1.0 + SPARE)
        if k.most >= 0 and not must[j]:  # no change is no part of what is counted
            rise, fall = max(rise, 0.0), min(fall, 0.0)
        top, bottom = np.floor(rise + STEP_SLACK), np.ceil(fall - STEP_SLACK)
        less |= top < high[j] or bottom > low[j]
        high[j], low[j] = min(high[j], top), max(low[j], bottom)
    for g in range(mask.shape[0]):
        limit, kept = leave[c + g] + room, -1
        if k.most >= 0:
            limit += option(row, lam, g, row.here[g], 0.0)
            kept = -1 if must[c + g] else row.here[g]
        for o in range(mask.shape[1]):
            if mask[g, o] and o != kept and not option(row, lam, g, o, 1.0) <= limit:
                mask[g, o], less = False, True
    return less


@compiled
def _counted(row: Any, must: Any, basis: Any, points: Any) -> Any:
    """The feature that changes in about half of a mixture, −1 if each does in all or none."""
    theta = basis[4]
    c, most, pick = points[0].shape[1], 1e-9, -1
    for f in range(c + points[1].shape[1]):
        if must[f]:
            continue
        share = 0.0
        for p in range(len(theta)):
            if used(basis, p):
                moved = points[0][p, f] != 0.0 if f < c else points[1][p, f - c] != row.here[f - c]
                share += theta[p] if moved else 0.0
        share = min(share, 1.0 - share)
        if share > most:
            most, pick = share, f
    return pick


@compiled
def _apart(k: Any, row: Any, box: Any, basis: Any, points: Any) -> Any:
    """The feature in which the points of a mixture differ most, −1 for none; where it is cut."""
    low, high, mask, _ = box
    theta = basis[4]
    m, most, pick, where = len(theta), 0.0, -1, 0.0
    for j in range(len(low)):
        bends = k.place[j] >= 0
        if not (k.whole[j] or bends) or not low[j] < high[j]:
            continue
        mean, first, last = 0.0, np.inf, -np.inf
        for p in range(m):
            if used(basis, p):
                to = points[0][p, j]
                mean += theta[p] * to
                first, last = min(first, to), max(last, to)
        mean = min(max(mean, low[j]), high[j])
        if not k.whole[j]:  # where its price bends in between, if it does
            near = np.inf
            for cut in row.at[k.place[j]]:
                if first < cut < last and abs(cut - mean) < abs(near - mean):
                    near = cut
            if near < np.inf and ANY + abs(mean - np.rint(mean)) > most:
                most, pick, where = ANY + abs(mean - np.rint(mean)), j, near
            continue
        score = ANY + abs(mean - np.rint(mean)) if first != last else ANY * ANY
        if score > most:
            cut = np.floor(mean)
            most, pick, where = score, j, max(cut - 1.0 if cut >= high[j] else cut, low[j])
    for g in range(mask.shape[0]):
        count, option, differ = 0, -1, 0.0
        for o in range(mask.shape[1]):
            count += mask[g, o]
        if count < 2:
            continue
        for p in range(m):
            if used(basis, p):
                option = points[1][p, g] if option < 0 else option
                differ += theta[p] if points[1][p, g] != option else 0.0
        score = ANY * ANY + max(min(differ, 1.0 - differ), 0.0)
        if score > most:
            most, pick = score, len(low) + g
    return pick, where


@compiled
def _halved(
    k: Any, row: Any, lam: Any, basis: Any, points: Any, g: Any, mask: Any, one: Any, other: Any
) -> None:
    """Split the options of a table between those of a mixture: categories by gain, or in order."""
    least, most, first, upper, lower = np.inf, -np.inf, -1, 0, 0
    ordered = g >= k.groups
    for p in range(len(basis[4])):
        if used(basis, p):
            o = points[1][p, g]
            first = o if first < 0 else first
            value = o if ordered else -option(row, lam, g, o, 0.0)
            least, most = min(least, value), max(most, value)
    for o in range(len(mask)):
        value = o if ordered else -option(row, lam, g, o, 0.0)
        other[o] = mask[o] and value > 0.5 * (least + most)
        one[o] = mask[o] and not other[o]
        upper += other[o]
        lower += one[o]
    if upper and lower:
        return
    for o in range(len(mask)):  # equally good options: the first that is chosen, and the others
        if mask[o] and (first < 0 or not mask[first]):
            first = o
    for o in range(len(mask)):
        other[o], one[o] = o == first, mask[o] and o != first


@compiled
def _split(
    k: Any, row: Any, box: Any, lam: Any, must: Any, basis: Any, points: Any, one: Any, other: Any
) -> Any:
    """Fill in two parts of a box; whether there are two.

    Where changes are counted, a feature stays or counts as changed; else the column in which the
    points of a mixture differ most is split between them.
    """
    c = len(box[0])
    copied(one, box)
    copied(other, box)
    pick = -1
    if k.most >= 0:
        musts(row, box, must)
        pick = _counted(row, must, basis, points)
    if pick >= 0:
        other[3][pick] = True
        if pick < c:
            one[0][pick] = one[1][pick] = 0.0
        else:
            for o in range(box[2].shape[1]):
                one[2][pick - c, o] = o == row.here[pick - c]
        return True
    pick, cut = _apart(k, row, box, basis, points)
    if pick >= c:
        g = pick - c
        _halved(k, row, lam, basis, points, g, box[2][g], one[2][g], other[2][g])
    elif pick >= 0:
        one[1][pick], other[0][pick] = cut, cut + (1.0 if k.whole[pick] else 0.0)
    return pick >= 0


@compiled
def search(k: Any, rows: Any, share: Any, most: Any, best: Any, nodes: Any) -> Any:
    """Branch and bound for each row, as `tree.searched`, with at most so many nodes.

    Fills in the ``best`` points, what they cost, whether they are found, and which rows are stuck;
    and nodes, first the root of each row; the two children of a node are next to each other. How
    many rows and nodes there are, for stops before there might be too many nodes.
    """
    (n, c), (_, t, _), s = rows.low.shape, rows.encoded_cost.shape, rows.short.shape[1]
    costs, found, stuck = best[2:]
    row, multipliers, children, low, high, mask, forced = nodes
    basis = (
        np.zeros((s + 1, s + 1)),
        np.zeros((s + 1, s + 1)),
        np.zeros(s + 1),
        np.zeros(s + 1, dtype=np.int64),
        np.zeros(s + 1),
    )
    points = np.zeros((s + 1, c)), np.zeros((s + 1, t), dtype=np.int64), np.zeros((s + 1, s))
    spot = np.empty(c), np.empty(t, dtype=np.int64), np.empty(s)
    work = np.empty(c), np.empty(c + t), np.empty(c + t), np.zeros(c + t, np.bool_)
    whole = (
        np.empty(c),
        np.empty(c),
        np.empty(mask.shape[1:], np.bool_),
        np.empty(forced.shape[1], np.bool_),
    )
    size = 0
    for i in range(n):
        if size + most + 2 > len(row):
            return i, size
        own = Row(
            rows.short[i],
            rows.slack[i],
            rows.encoded_cost[i],
            rows.here[i],
            rows.gain[i % len(rows.gain)],
            rows.low[i],
            rows.high[i],
            rows.mask[i],
            rows.at[i],
            rows.paid[i],
        )
        at = begun = size
        forced[at] = False  # a row before that got stuck has left parts there
        copied((low[at], high[at], mask[at], forced[at]), (own.low, own.high, own.mask, forced[at]))
        row[at], size = i, size + 1
        while at < size and not stuck[i]:
            box, lam = (low[at], high[at], mask[at], forced[at]), multipliers[at]
            ceiling = costs[i] * share * (1.0 + SPARE)
            bound = maximize_dual(k, own, box, lam, ceiling, basis, points, work)
            if bound < costs[i]:
                cost = _improved(k, own, basis, points, (best[0][i], best[1][i]), costs[i])
                found[i] |= cost < costs[i]
                costs[i] = cost
                ceiling = cost * share * (1.0 + SPARE)
            if bound < ceiling:
                copied(whole, box)
                less = t == k.groups and _fixed(k, own, whole, lam, ceiling, spot, work)
                one = low[size], high[size], mask[size], forced[size]
                other = low[size + 1], high[size + 1], mask[size + 1], forced[size + 1]
                must = work[3]
                good = _split(k, own, whole, lam, must, basis, points, one, other) or less
                stuck[i] = not good or size - begun > most - 2
                if not stuck[i]:
                    for child in range(2):
                        put(multipliers[size + child], lam)
                        row[size + child], children[at, child] = i, size + child
                    size += 2
            at += 1
    return n, size
