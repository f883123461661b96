"""The bounds of `dual` in loops, box by box, compiled by Numba.

Multipliers come from Dantzig and Wolfe's method for any number of demands, with the inverse of the
basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoint.families.additive.dual import CLOSE, NEAR, RAISES, SHY, STEPS
from counterpoint.families.additive.kernel import (
    dot,
    largest,
    least,
    moved,
    musts,
    put,
    repaired,
    weighed,
)
from counterpoint.numerics import compiled

__all__ = ["maximize_dual", "used"]

POINT, SURPLUS, MISSING = 0, 1, 2
"""What a position of a basis holds."""


@compiled
def used(basis: Any, p: Any) -> Any:
    """Whether a position of a basis holds a point that is part of the mixture."""
    return basis[3][p] == POINT and basis[4][p] > 0.0


@compiled
def _enter(basis: Any, way: Any, column: Any, cost: Any, kind: Any) -> Any:
    """A column enters a basis; the position that leaves, −1 if none may."""
    columns, inverse, costs, kinds, theta = basis
    size, big, out, least = len(way), largest(way), -1, np.inf
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
    for g in range(len(row.encoded_cost)):
        dearest = max(dearest, largest(row.encoded_cost[g]))
    for r in range(s):
        reach = max(abs(row.short[r]), largest(k.gains[r]))
        for g in range(row.gain.shape[1]):
            reach = max(reach, largest(row.gain[r, g]))
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
    s, loose, least = len(lam), -1, -NEAR * largest(costs)
    for r in range(s):
        lam[r] = dot(costs, inverse[:, r])
        cost_cutoff = lam[r] * largest(columns[r])
        if cost_cutoff < least:
            loose, least = r, cost_cutoff
        lam[r] = max(lam[r], 0.0)
    return dot(costs, inverse[:, s]), loose


@compiled
def _mixed(row: Any, basis: Any) -> Any:
    """What the mixture of a basis costs, and whether some demand is missed; fills in the shares."""
    _, inverse, costs, kinds, theta = basis
    s, cost, missing = len(row.short), 0.0, False
    scale = 1e-11 * (1.0 + largest(row.short))
    for i in range(s + 1):
        theta[i] = dot(inverse[i, :s], row.short) + inverse[i, s]
        missing |= kinds[i] == MISSING and theta[i] > scale
        cost += costs[i] * theta[i]
    return cost, missing


@compiled
def maximize_dual(
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
