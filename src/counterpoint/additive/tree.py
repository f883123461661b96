"""Branch and bound over knapsacks, for whole batches, with a tree that proves the answer.

Each row has a tree of its own, searched depth first, a few nodes at a time; what is done for a row
does not depend on the others. A node is closed by its bound; before it is split, options are fixed
that its multipliers exclude. Points come from replacing one feature of what the bounds were reached
by. Of equally good points, and of replacements that cost the same, the first found and the first
column count; a column's smallest change does.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np

from counterpoint.additive.dual import Dual, highest
from counterpoint.additive.knapsack import Boxes, Given, Knapsack, Moves
from counterpoint.engine.proof import Proof
from counterpoint.engine.region import Cases
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray
from counterpoint.solvers.base import Effort

__all__ = ["Searched", "searched"]

WIDTH = 16
"""How many nodes of a row are visited at once."""
REPAIRS = 3
"""How often one feature of a point is replaced, at most."""
SPARE = 1e-10
"""By what share more than the ceiling is excluded or closed: more than the rounding of bounds."""


STEEP = 1e-9
"""What a column takes a unit, relative to its price, beyond which it may be bounded by that."""


ANY = 1e-6
"""What it counts that points of a mixture differ in a column, beside how far that is from whole."""


@final
class Searched(NamedTuple):
    """What became of n rows."""

    best: Moves  # infinite costs where there is no point
    settled: BoolArray  # (n,) whether every node was closed
    ceiling: FloatArray  # (n,) where it was, what every other point costs at least
    multipliers: FloatArray  # (n, size) those of the first nodes
    proof: Proof
    points: FloatArray  # (n, d) the best points, as encoded rows


@final
class _Pool:
    """Nodes of all rows, in arrays that grow."""

    def __init__(self, k: Knapsack, root: Boxes, demands: int) -> None:
        n = len(root.low)
        self.size = n
        self.row = np.arange(n)
        self.boxes = root
        self.start = np.zeros((n, demands))  # multipliers: the parent's, then the node's own
        self.bound = np.zeros(n)
        self.children = np.full((n, 2), -1)

    def _grown(self, array: Any, count: int) -> Any:
        if self.size + count <= len(array):
            return array
        more = np.zeros((max(2 * len(array), self.size + count), *array.shape[1:]), array.dtype)
        more[: self.size] = array[: self.size]
        return more

    def add(self, row: IntArray, boxes: Boxes, start: FloatArray, bound: FloatArray) -> IntArray:
        """New nodes; their numbers."""
        at = np.arange(self.size, self.size + len(row))
        self.row = self._grown(self.row, len(row))
        self.boxes = Boxes(*(self._grown(part, len(row)) for part in self.boxes))
        self.start, self.bound = (self._grown(v, len(row)) for v in (self.start, self.bound))
        self.children = self._grown(self.children, len(row))
        self.row[at], self.start[at], self.bound[at], self.children[at] = row, start, bound, -1
        for mine, new in zip(self.boxes, boxes, strict=True):
            mine[at] = new
        self.size += len(row)
        return at


def searched(
    k: Knapsack, cases: Cases, effort: Effort, cutoff: FloatArray | None, nodes: int
) -> Searched:
    """Branch and bound for each row, with at most so many nodes; rows share their time.

    Points are of use only if they cost less than the cutoff (n,).
    """
    end = np.inf if effort.seconds is None else perf_counter() + effort.seconds * len(cases)
    given, n, gap = k.given(cases), len(cases), effort.gap
    best = Moves(
        np.zeros(given.boxes.low.shape),
        np.array(given.here),
        np.full(n, np.inf) if cutoff is None else np.array(cutoff),
        np.zeros(given.short.shape),
    )
    found = np.zeros(n, dtype=bool)
    pool, share = _Pool(k, given.boxes, len(k.gains)), 1.0 - gap
    stack, depth = np.zeros((n, 64), dtype=np.intp), np.ones(n, dtype=np.intp)
    stack[:, 0] = np.arange(n)
    visited, stuck = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=bool)
    while True:
        if perf_counter() > end:
            stuck |= depth > 0
            break
        at, rank = _popped(stack, depth, pool, best.cost * share)
        if not len(at):
            break
        row = pool.row[at]
        np.add.at(visited, row, 1)
        some, boxes = given.take(row), pool.boxes.take(at)
        dual = highest(k, some, boxes, pool.start[at], best.cost[row] * share * (1.0 + SPARE))
        _improved(k, some, dual, row, best, found)
        ceiling = best.cost[row] * share * (1.0 + SPARE)
        pool.start[at], pool.bound[at] = dual.multipliers, dual.bound
        left = np.flatnonzero(dual.bound < ceiling)
        if not len(left):
            continue
        left_at, left_row = at[left], row[left]
        open_ = _fixed(k, some.take(left), boxes.take(left), dual, left, ceiling[left])
        pieces, good = _split(k, some.take(left), open_, dual, left)
        good |= _smaller(open_, boxes.take(left))  # nothing to split, but less than it was
        stuck[left_row[~good]] = True
        left, left_at, left_row = left[good], left_at[good], left_row[good]
        starts, bounds = dual.multipliers[left], dual.bound[left]
        for child, piece in enumerate(pieces):
            made = pool.add(left_row, piece.take(good), starts, bounds)
            pool.children[left_at, child] = made
        stuck |= visited > nodes
        stack = _pushed(stack, depth, pool.children[left_at], left_row, rank[left])
        depth[stuck] = 0
    best.cost[~found] = np.inf
    ceiling = np.where(np.isfinite(best.cost), best.cost, np.inf if cutoff is None else cutoff)
    ceiling = ceiling * share
    proof = _proof(k, cases, given, pool, ~stuck, ceiling)
    points = k.points(cases, given, best)
    return Searched(best, ~stuck, ceiling, k.multipliers(pool.start[:n]), proof, points)


def _popped(
    stack: IntArray, depth: IntArray, pool: _Pool, ceiling: FloatArray
) -> tuple[IntArray, IntArray]:
    """The next nodes of each row that their parents' bounds do not close, and their ranks."""
    taken = []
    for rank in range(WIDTH):
        rows = np.flatnonzero(depth)
        got = []
        while len(rows):
            depth[rows] -= 1
            at = stack[rows, depth[rows]]
            open_ = pool.bound[at] < ceiling[rows] * (1.0 + SPARE)
            got.append(at[open_])
            rows = rows[~open_ & (depth[rows] > 0)]
        taken.append((np.sort(np.concatenate(got)) if got else np.zeros(0, dtype=np.intp), rank))
    at = np.concatenate([nodes for nodes, _ in taken])
    return at, np.concatenate([np.full(len(nodes), rank) for nodes, rank in taken])


def _pushed(
    stack: IntArray, depth: IntArray, children: IntArray, row: IntArray, rank: IntArray
) -> IntArray:
    """Children onto the stacks, those of the first nodes on top; the first child below."""
    for r in range(WIDTH - 1, -1, -1):
        here = rank == r
        for child in range(2) if here.any() else ():
            rows = row[here]
            if depth[rows].max(initial=0) >= stack.shape[1]:
                stack = np.hstack([stack, np.zeros_like(stack)])
            stack[rows, depth[rows]] = children[here, child]
            depth[rows] += 1
    return stack


def _improved(
    k: Knapsack, given: Given, dual: Dual, row: IntArray, best: Moves, found: BoolArray
) -> None:
    """Better points, from replacing single features of those that the bounds were reached by."""
    live = np.flatnonzero(dual.bound < best.cost[row])
    some, weights = given.take(live), dual.weights[live]
    candidates = [points.take(live) for points in dual.points]
    used = [np.isfinite(p.cost) & (weights[:, i] > 0.0) for i, p in enumerate(candidates)]
    if not k.tables or len(candidates) > 2:
        candidates.append(_rounded(k, some, candidates, weights))
        used.append(np.ones(len(live), dtype=bool))
    which = [np.flatnonzero(mine) for mine in used]
    every = np.concatenate(which)
    part, rows = some.take(every), row[live[every]]
    parts = [p.take(mine) for p, mine in zip(candidates, which, strict=True)]
    now = Moves(*(np.concatenate(list(same)) for same in zip(*parts, strict=True)))
    for _ in range(REPAIRS):
        if not len(rows):
            return
        helps, now = k.repaired(part, now)
        met = k.met(part, now)
        good = np.flatnonzero(met & (now.cost < best.cost[rows]))
        if len(good):
            order = good[np.lexsort((np.arange(len(good)), now.cost[good], rows[good]))]
            chosen = order[np.unique(rows[order], return_index=True)[1]]
            best.put(rows[chosen], now.take(chosen))
            found[rows[chosen]] = True
        part, now, rows = part.take(helps), now.take(helps), rows[helps]


def _rounded(k: Knapsack, given: Given, points: list[Moves], weights: FloatArray) -> Moves:
    """The mixture of points, rounded; of each table, the heaviest option."""
    with np.errstate(invalid="ignore"):
        change = sum(
            np.where(weights[:, i, None] > 0.0, weights[:, i, None] * p.change, 0.0)
            for i, p in enumerate(points)
        )
    change = np.asarray(np.where(k.whole, np.rint(change), change))
    if k.count is not None:
        return points[0]
    heaviest = weights.argmax(axis=1)
    choice = np.stack([p.choice for p in points], axis=1)[np.arange(len(weights)), heaviest]
    return k.moves(given, change, choice)


def _fixed(
    k: Knapsack, given: Given, boxes: Boxes, dual: Dual, at: IntArray, ceiling: FloatArray
) -> Boxes:
    """Boxes without what their multipliers exclude."""
    if k.sums is not None:
        return boxes
    lam = dual.multipliers[at]
    value, _, (slope, values, best, options) = k.least(given, boxes, lam)
    total = value + (lam * given.short).sum(axis=1)
    room = np.where(total > 0.0, ceiling * (1.0 + SPARE) - total, np.inf)[:, None]
    limit = values + np.maximum(room, 0.0)
    low, high = boxes.low, boxes.high
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = k.absolute - slope, k.absolute + slope  # what a unit takes, upwards, downwards
        rise = np.where(up > STEEP * k.absolute, limit / up, np.inf)
        fall = np.where(down > STEEP * k.absolute, -limit / down, -np.inf)
        # beyond the end to which a column is pulled, where nothing else is allowed
        rise = np.where((limit < 0.0) & (down < 0.0), limit / -down, rise)
        fall = np.where((limit < 0.0) & (up < 0.0), limit / up, fall)
        if k.curved.any():
            bend = np.where(k.curved, k.curvature, 1.0)
            middle = slope / (2.0 * bend)
            reach = np.sqrt(np.maximum(limit / bend + middle * middle, 0.0))
            rise = np.where(k.curved, middle + reach, rise)
            fall = np.where(k.curved, middle - reach, fall)
    rise, fall = rise * (1.0 + SPARE), fall * (1.0 + SPARE)
    if k.count is not None:  # no change is no part of what is counted
        may = ~k.musts(given, boxes)[:, : len(k.numbers)]
        rise, fall = (
            np.where(may, end(v, 0.0), v) for end, v in ((np.maximum, rise), (np.minimum, fall))
        )
    with np.errstate(invalid="ignore"):
        high = np.where(k.whole, np.minimum(high, np.floor(rise + STEP_SLACK)), high)
        low = np.where(k.whole, np.maximum(low, np.ceil(fall - STEP_SLACK)), low)
    if not k.tables:
        return boxes._replace(low=low, high=high)
    with np.errstate(invalid="ignore"):
        fits = options <= (best + room)[:, :, None]
    if k.count is not None:
        may = ~k.musts(given, boxes)[:, len(k.numbers) :]
        fits |= may[:, :, None] & (np.arange(fits.shape[2]) == given.here[:, :, None])
    mask = boxes.mask & fits
    return boxes._replace(low=low, high=high, mask=mask)


def _smaller(boxes: Boxes, before: Boxes) -> BoolArray:
    """(n,): whether something was fixed."""
    ends = (boxes.low != before.low) | (boxes.high != before.high)
    return np.asarray(ends.any(axis=1) | (boxes.mask != before.mask).any(axis=(1, 2)))


def _split(  # noqa: C901, PLR0915
    k: Knapsack, given: Given, boxes: Boxes, dual: Dual, at: IntArray
) -> tuple[tuple[Boxes, Boxes], BoolArray]:
    """Two parts of each box, the more promising one last; (n,) whether there are two."""
    points, weights = [p.take(at) for p in dual.points], dual.weights[at]
    n, c = len(at), len(k.numbers)
    mean = np.zeros((n, c))
    spread_low, spread_high = np.full((n, c), np.inf), np.full((n, c), -np.inf)
    for i, p in enumerate(points):
        used = weights[:, i, None] > 0.0
        with np.errstate(invalid="ignore"):
            mean += np.where(used, weights[:, i, None] * p.change, 0.0)
        spread_low = np.where(used, np.minimum(spread_low, p.change), spread_low)
        spread_high = np.where(used, np.maximum(spread_high, p.change), spread_high)
    inside = np.clip(mean, boxes.low, boxes.high)
    floor = np.floor(inside)
    off = np.abs(inside - np.rint(inside))
    several = (boxes.low < boxes.high) & k.whole
    apart = (spread_low != spread_high) & several
    numeric = np.where(apart, ANY + off, np.where(several, ANY * ANY, 0.0))
    score = [numeric]
    if k.tables:
        first = points[0].choice
        differ = np.zeros((n, k.tables))
        for i, p in enumerate(points[1:], 1):
            differ += np.where(p.choice != first, weights[:, i, None], 0.0)
        several = boxes.mask.sum(axis=2) > 1
        score.append(np.where(several, ANY * ANY + np.minimum(differ, 1.0 - differ), 0.0))
    scores = np.hstack(score)
    if k.count is not None:
        changed = np.zeros((n, c + k.tables))
        for i, p in enumerate(points):
            changed += weights[:, i, None] * k.changed(given, p)
        free = ~k.musts(given, boxes)
        share = np.where(free, np.minimum(changed, 1.0 - changed), 0.0)
        counted = share.max(axis=1) > 1e-9
        pick = share.argmax(axis=1)
    else:
        counted, pick = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.intp)
    item = np.where(counted, pick, scores.argmax(axis=1))
    rows = np.arange(n)
    good = counted | (scores[rows, item] > 0.0)
    one, other = boxes.take(rows), boxes.take(rows)
    number = np.flatnonzero(good & ~counted & (item < c))
    if len(number):
        j = item[number]
        cut = floor[number, j]
        cut = np.where(cut >= boxes.high[number, j], cut - 1.0, cut)
        cut = np.where(cut < boxes.low[number, j], boxes.low[number, j], cut)
        up = inside[number, j] > 0.0  # the larger change is visited first
        for part, upper in ((one, ~up), (other, up)):
            part.low[number[upper], j[upper]] = cut[upper] + 1.0
            part.high[number[~upper], j[~upper]] = cut[~upper]
    table = np.flatnonzero(good & ~counted & (item >= c))
    if len(table):
        _split_tables(
            k, given, boxes, dual, at, points, weights, table, item[table] - c, one, other
        )
    staying = np.flatnonzero(counted)
    if len(staying):
        j = item[staying]
        number = j < c
        one.low[staying[number], j[number]] = 0.0
        one.high[staying[number], j[number]] = 0.0
        t = j[~number] - c
        one.mask[staying[~number], t] = False
        one.mask[staying[~number], t, given.here[staying[~number], t]] = True
        other.forced[staying, j] = True
    return (one, other), np.asarray(good)


def _split_tables(  # noqa: PLR0913, PLR0917
    k: Knapsack,
    given: Given,
    boxes: Boxes,
    dual: Dual,
    at: IntArray,
    points: list[Moves],
    weights: FloatArray,
    rows: IntArray,
    t: IntArray,
    one: Boxes,
    other: Boxes,
) -> None:
    """The options of a table by what they gain, between two that points of the mixture choose."""
    gain = k.table_slopes(given.take(rows), dual.multipliers[at[rows]])[np.arange(len(rows)), t]
    chosen = np.stack([p.choice[rows, t] for p in points], axis=1)
    used = weights[rows] > 0.0
    # values of a column with curves are split by their order
    order = np.broadcast_to(np.arange(gain.shape[1], dtype=np.float64), gain.shape)
    gain = np.where((t >= len(k.options[0]))[:, None], order, gain)
    own = np.take_along_axis(gain, chosen, axis=1)
    most = np.where(used, own, -np.inf).max(axis=1)
    least = np.where(used, own, np.inf).min(axis=1)
    mask = boxes.mask[rows, t]
    upper = mask & (gain > (0.5 * (most + least))[:, None])
    flat = ~upper.any(axis=1) | (upper == mask).all(axis=1)
    if flat.any():  # equally good options: the first that is chosen, and the others
        single = np.zeros_like(mask)
        first = np.where(
            mask[np.arange(len(rows)), chosen[:, 0]], chosen[:, 0], mask.argmax(axis=1)
        )
        single[np.arange(len(rows)), first] = True
        upper = np.where(flat[:, None], single, upper)
    one.mask[rows, t] = mask & ~upper
    other.mask[rows, t] = upper


def _proof(
    k: Knapsack, cases: Cases, given: Given, pool: _Pool, kept: BoolArray, ceiling: FloatArray
) -> Proof:
    """The trees of the rows that are kept, in encoded columns."""
    n = len(cases)
    size = pool.size
    chosen = np.flatnonzero(kept[pool.row[:size]])
    at = np.full(size + 1, -1)
    at[chosen] = np.arange(len(chosen))
    row, boxes = pool.row[chosen], pool.boxes.take(chosen)
    low, high, x = cases.low[row], cases.high[row], cases.x[row]
    ends = (low[:, k.numbers], high[:, k.numbers], x[:, k.numbers])
    root_low, root_high = given.boxes.low[row], given.boxes.high[row]
    low[:, k.numbers] = np.where(boxes.low > root_low, ends[2] + boxes.low * k.units, ends[0])
    high[:, k.numbers] = np.where(boxes.high < root_high, ends[2] + boxes.high * k.units, ends[1])
    columns, real = k.options
    for t in range(len(columns)):
        out = (given.boxes.mask[row, t] & ~boxes.mask[:, t])[:, : real.shape[1]]
        block = columns[t][real[t]]
        high[:, block] = np.where(out[:, real[t]], 0.0, high[:, block])
    for t, column in enumerate(k.bent.tolist(), len(columns)):
        reach = given.values[1:, row, t - len(columns)]
        root, mine = given.boxes.mask[row, t], boxes.mask[:, t]
        mine, root = (part[:, : reach.shape[2]] for part in (mine, root))
        every, count = np.arange(len(row)), reach.shape[2] - 1
        first, last = mine.argmax(axis=1), count - mine[:, ::-1].argmax(axis=1)
        less, fewer = first > root.argmax(axis=1), last < count - root[:, ::-1].argmax(axis=1)
        low[:, column] = np.where(less, reach[0, every, first], low[:, column])
        high[:, column] = np.where(fewer, reach[1, every, last], high[:, column])
    forced = np.zeros(low.shape, dtype=bool)
    if k.count is not None:
        c = len(k.numbers)
        forced[:, k.numbers] = boxes.forced[:, :c]
        if k.tables:
            own = np.append([g.start for g in k.program.groups], k.bent).astype(np.intp)
            forced[:, own] = boxes.forced[:, c:]
    multipliers = k.multipliers(pool.start[chosen])
    root = np.where(kept, at[np.arange(n)], -1)
    return Proof(row, low, high, forced, multipliers, at[pool.children[chosen]], root, ceiling)
