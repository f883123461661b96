"""What boxes hold, in loops: compiled by Numba where it is installed, else only tested.

The loops do what `Search` does with arrays, box by box; they pass over most leaves after a test or
two. The names are those of `Grid` and `Row`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoint.families.trees.staircase import Seen
from counterpoint.numerics import compiled

__all__ = ["look", "moves"]


@compiled
def _nearest(after: Any, before: Any, start: Any, top: Any, home: Any, low: Any, high: Any) -> Any:
    """`Row.nearest`, of a number whose cells begin at ``start`` and end at the ``top``."""
    at = home
    if low > home:
        at = after[start + min(low, top - start)]
    elif high < home:
        at = before[start + max(high, 0)]
    return at if low <= at <= high else -1


@compiled
def _best(among: Any, category: Any, members: Any, start: Any, stop: Any) -> Any:
    """The cheapest of some categories of a group, −1 for none."""
    best = -1
    for c in range(start, stop):
        if among[c] and members[c] and (best < 0 or category[c] < category[best]):
            best = c
    return best


@compiled
def _reached(t: Any, trees: Any, leaves: Any, top: Any) -> Any:
    """Whether the largest values of the leaves meet the demands."""
    values = t.values
    for r in range(len(values)):
        top[:] = -np.inf
        for k in range(len(leaves)):
            top[trees[k]] = max(top[trees[k]], values[r, leaves[k]])
        if not top.sum() + t.shift[r] >= t.missed[r]:
            return False
    return True


@compiled
def _base(t: Any, box: Any, at: Any, chosen: Any, already_satisfied: Any) -> Any:
    """What a box costs at least, and how many more features may change; fills the nearest point.

    And which of the features that count may stay as they are, numbers before groups.
    """
    low, high, among = box
    starts, home, after, before, cost = t.starts, t.home, t.next, t.before, t.cost
    base, left, everything = t.rest, t.most, np.ones(len(among), dtype=np.bool_)
    for f in range(len(home)):
        top = starts[f + 1] - 1
        at[f] = _nearest(after, before, starts[f], top, home[f], low[f], high[f])
        if at[f] < 0:
            return np.inf, 0
        own = cost[starts[f] + at[f]]
        base += own - t.share * abs(own)
        if t.most >= 0:
            already_satisfied[f] = t.counts[f] and low[f] <= t.here[f] <= high[f]
            left -= t.counts[f] and not already_satisfied[f]
    for g in range(len(t.spans) - 1):
        start, stop = t.spans[g], t.spans[g + 1]
        chosen[g] = _best(among, t.category, everything, start, stop)
        if chosen[g] < 0:
            return np.inf, 0
        own = t.category[chosen[g]]
        base += own - t.share * abs(own)
        if t.most >= 0:
            already_satisfied[len(home) + g] = (
                t.group_counts[g] and (among & t.already_satisfied)[start:stop].any()
            )
            left -= t.group_counts[g] and not already_satisfied[len(home) + g]
    return (np.inf if t.most >= 0 and left < 0 else base), left


@compiled
def _asked(t: Any, box: Any, near: Any, known: Any) -> None:
    """What tests ask for besides, and which of them change one more of the features that count."""
    low, high, among = box
    at, chosen, already_satisfied = near
    more, moves, passed = known
    starts, home, after, before, cost = t.starts, t.home, t.next, t.before, t.cost
    number, first, last, counted = t.number, t.first, t.last, t.most >= 0
    for test in range(len(number)):
        f, more[test], moves[test] = number[test], 0.0, False
        here = at[f]
        passed[test] = first[test] <= here <= last[test]
        if not passed[test]:
            start, ends = starts[f], (max(low[f], first[test]), min(high[f], last[test]))
            cell = _nearest(after, before, start, starts[f + 1] - 1, home[f], ends[0], ends[1])
            more[test] = np.inf if cell < 0 else cost[start + cell] - cost[start + here]
            if counted:
                moves[test] = already_satisfied[f] and not first[test] <= t.here[f] <= last[test]
    for m in range(len(t.of_set)):
        g = t.of_set[m]
        start, stop = t.spans[g], t.spans[g + 1]
        passed[len(number) + m] = t.sets[m, chosen[g]]
        best = _best(among, t.category, t.sets[m], start, stop)
        more[len(number) + m] = np.inf if best < 0 else t.category[best] - t.category[chosen[g]]
        if counted:
            kept = (among & t.already_satisfied & t.sets[m])[start:stop].any()
            moves[len(number) + m] = already_satisfied[len(home) + g] and not kept


@compiled
def _matter(
    t: Any, leaves: Any, cost_cutoff: Any, base: Any, left: Any, known: Any, out: Any
) -> Any:
    """Fill in the leaves that matter; how many there are, 0 if a tree has none."""
    more, moves, _ = known
    which, trees, costs = out
    tests, begins, counted = t.tests, t.tree, t.most >= 0
    size, width, pad = len(begins), tests.shape[1], len(more)
    count, tree, end, found = 0, -1, 0, True
    for leaf in leaves:
        while leaf >= end:
            if not found:
                return 0
            tree, found = tree + 1, False
            end = begins[tree + 1] if tree + 1 < size else len(tests)
        cost, changes = base, 0
        for j in range(width):
            test = tests[leaf, j]
            if test == pad:
                break
            cost += more[test]
            if counted:
                changes += moves[test]
            if cost >= cost_cutoff:
                break
        if cost < cost_cutoff and not (counted and changes > left):
            which[count], trees[count], costs[count] = leaf, tree, cost
            count, found = count + 1, True
    return count if found and tree == size - 1 else 0


@compiled
def _own(tests: Any, kept: Any, base: Any, passed: Any, own: Any) -> None:
    """Fill in the leaf of each tree at the nearest point."""
    leaves, trees, costs = kept
    for k in range(len(leaves)):
        here = costs[k] == base
        for j in range(tests.shape[1] if here else 0):  # to change something may cost nothing
            here = here and passed[tests[leaves[k], j]]
        if here:
            own[trees[k]] = leaves[k]


@compiled
def _radius(t: Any, kept: Any, low: Any, work: Any) -> Any:
    """The radius from ``low`` on below which the demands are not met.

    Leaves are taken in the order of what they cost, a bucket at a time.
    """
    leaves, trees, costs = kept
    top, sums, heads, links = work
    values, near = t.values, t.near
    top[:] = -np.inf
    width = costs.max() - low
    heads[:] = -1
    for k in range(len(leaves)):
        if costs[k] <= low:
            for r in range(len(sums)):
                top[r, trees[k]] = max(top[r, trees[k]], values[r, leaves[k]])
        else:
            bucket = min(int((costs[k] - low) / width * len(heads)), len(heads) - 1)
            links[k], heads[bucket] = heads[bucket], k
    for r in range(len(sums)):
        sums[r] = t.shift[r] + top[r].sum()
    radius = low
    for bucket in range(len(heads)):
        short = False
        for r in range(len(sums)):
            short |= sums[r] < near[r]
        if not short:
            break
        k = heads[bucket]
        if k >= 0:
            radius = np.inf
        while k >= 0:
            radius = min(radius, costs[k])
            for r in range(len(sums)):
                gain = values[r, leaves[k]] - top[r, trees[k]]
                if gain > 0.0:
                    sums[r] += gain
                    top[r, trees[k]] = values[r, leaves[k]]
            k = links[k]
    return radius


@compiled
def _split(t: Any, kept: Any, near: Any, own: Any, bound: Any, votes: Any) -> Any:
    """The split that most of the improving leaves ask for, each by what it gains."""
    leaves, trees, costs = kept
    at, passed = near
    starts, first, last = t.starts, t.first, t.last
    values, tests, number = t.values, t.tests, t.number
    sums = np.empty(len(t.values))
    for r in range(len(sums)):
        sums[r] = t.shift[r]
        for leaf in own:
            sums[r] += values[r, leaf]
    order = np.argsort(sums)
    top, best = np.empty(len(own)), np.empty(len(own), dtype=np.intp)
    numbers, slots = len(number), starts[-1] + len(t.home)
    for radius in (bound, np.inf):
        for r in order:
            top[:] = -np.inf
            for k in range(len(leaves)):
                value = values[r, leaves[k]]
                if costs[k] <= radius and value > top[trees[k]]:
                    top[trees[k]], best[trees[k]] = value, leaves[k]
            some = False
            votes[:] = 0.0
            for tree in range(len(own)):
                gain = top[tree] - values[r, own[tree]]
                if not gain > 0.0:
                    continue
                some = True
                for j in range(tests.shape[1]):
                    test = tests[best[tree], j]
                    if passed[test]:
                        continue
                    if test < numbers:
                        f = number[test]
                        above = at[f] < first[test]
                        cut = first[test] if above else last[test] + 1
                        votes[starts[f] + f + cut] += gain
                    else:
                        votes[slots + test - numbers] += gain
            if some:
                key = votes.argmax()
                if key >= slots:
                    return 2, key - slots, 0
                f = 0
                while f + 1 < len(t.home) and starts[f + 1] + f + 1 <= key:
                    f += 1
                return 1, f, key - starts[f] - f
    return 0, 0, 0


@compiled
def look(t: Any, boxes: Any, leaves: Any, ends: Any, least: Any, cost_cutoff: Any) -> Any:
    """What boxes hold that costs less than it is worth.

    Each has a low, a high, and what is among; leaves one box after the other, and where they end;
    and a least cost.
    """
    lows, highs, amongs = boxes
    tests = t.tests
    n, size, pad = len(lows), len(t.tree), len(t.number) + len(t.of_set)
    cells = np.zeros((n, len(t.home)), dtype=np.intp)
    categories = np.zeros((n, len(t.spans) - 1), dtype=np.intp)
    bound, stop, satisfied = (
        np.full(n, np.inf),
        np.zeros(n, dtype=np.intp),
        np.zeros(n, dtype=np.bool_),
    )
    splits, own = np.zeros((n, 3), dtype=np.intp), np.zeros((n, size), dtype=np.intp)
    which, trees = np.empty(len(leaves), dtype=np.intp), np.empty(len(leaves), dtype=np.intp)
    costs = np.empty(len(leaves))
    work = (
        np.empty((len(t.values), size)),
        np.empty(len(t.values)),
        np.empty(256, dtype=np.intp),
        np.empty(len(leaves), dtype=np.intp),
    )
    known = (np.empty(pad), np.zeros(pad, dtype=np.bool_), np.ones(pad + 1, dtype=np.bool_))
    already_satisfied = np.zeros(len(t.home) + len(t.spans) - 1, dtype=np.bool_)
    votes = np.empty(t.starts[-1] + len(t.home) + len(t.of_set))
    done = 0
    for i in range(n):
        stop[i] = done
        box, at, chosen = (lows[i], highs[i], amongs[i]), cells[i], categories[i]
        base, left = _base(t, box, at, chosen, already_satisfied)
        if not base < cost_cutoff:
            continue
        _asked(t, box, (at, chosen, already_satisfied), known)
        some = leaves[ends[i - 1] if i else 0 : ends[i]]
        out = which[done:], trees[done:], costs[done:]
        count = _matter(t, some, cost_cutoff, base, left, known, out)
        kept, tree, cost = out[0][:count], out[1][:count], out[2][:count]
        if not count or not _reached(t, tree, kept, work[0][0]):
            continue
        done += count
        stop[i] = done
        _own(tests, (kept, tree, cost), base, known[2], own[i])
        satisfied[i] = True
        for r in range(len(t.values)):
            total = t.shift[r]
            for leaf in own[i]:
                total += t.values[r, leaf]
            satisfied[i] &= total >= t.needs[r]
        bound[i] = _radius(t, (kept, tree, cost), max(base, least[i]), work)
        kind, what, where = _split(t, (kept, tree, cost), (at, known[2]), own[i], bound[i], votes)
        splits[i, 0], splits[i, 1], splits[i, 2] = kind, what, where
    return Seen(bound, stop, which[:done], cells, categories, satisfied, splits, own)


@compiled
def moves(t: Any, at: Any, chosen: Any) -> Any:
    """`Search.moves`: what cells meet the demands by, and if one feature alone moves elsewhere.

    A leaf that cells are in is left by some moves; one of which they fail a single test is entered.
    """
    starts, number, first, last, tests = t.starts, t.number, t.first, t.last, t.tests
    size, cells, numbers, pad = len(t.values), starts[-1], len(number), len(number) + len(t.of_set)
    slots, begins = cells + len(t.home), t.spans
    steps, whole = np.zeros((size, slots)), np.zeros((size, len(t.home)))
    some, held = np.zeros((size, t.sets.shape[1])), np.zeros((size, len(begins) - 1))
    sums = t.shift.copy()
    for leaf in range(len(tests)):
        fails, failed = 0, -1
        for j in range(tests.shape[1]):
            test = tests[leaf, j]
            if test == pad:
                break
            if test < numbers:
                passed = first[test] <= at[number[test]] <= last[test]
            else:
                m = test - numbers
                passed = t.sets[m, chosen[t.of_set[m]]]
            if not passed:
                fails, failed = fails + 1, test
                if fails > 1:
                    break
        if fails > 1:
            continue
        for j in range(tests.shape[1]):
            test = tests[leaf, j]
            if test == pad:
                break
            if fails and test != failed:
                continue
            for r in range(size):
                value = t.values[r, leaf]
                if test < numbers:
                    f = number[test]
                    steps[r, starts[f] + f + first[test]] += value
                    steps[r, starts[f] + f + last[test] + 1] -= value
                    if not fails:
                        whole[r, f] += value
                else:
                    m = test - numbers
                    g = t.of_set[m]
                    for c in range(begins[g], begins[g + 1]):
                        if t.sets[m, c]:
                            some[r, c] += value
                    if not fails:
                        held[r, g] += value
        if not fails:
            for r in range(size):
                sums[r] += t.values[r, leaf]
    out = np.empty((size, cells + t.sets.shape[1]))
    for r in range(size):
        for f in range(len(t.home)):
            total = sums[r] - whole[r, f]
            for c in range(starts[f], starts[f + 1]):
                total += steps[r, c + f]
                out[r, c] = total
        for g in range(len(begins) - 1):
            for c in range(begins[g], begins[g + 1]):
                out[r, cells + c] = sums[r] - held[r, g] + some[r, c]
    return sums, out
