"""Branch and bound over knapsacks, for whole batches, with a tree that proves the answer.

Each row has a tree of its own, searched a layer at a time; what is done for a row does not depend
on the others. A node is closed by its bound; before it is split, options are fixed that its
multipliers exclude. Points come from replacing one feature of what the bounds were reached by. Of
equally good points, and of replacements that cost the same, the first found and the first column
count; a column's smallest change does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, final

import numpy as np

from counterpoint.families.additive.dual import Dual, maximize_dual
from counterpoint.families.additive.knapsack import Knapsack
from counterpoint.families.additive.moves import Boxes, KnapsackData, Moves, chosen
from counterpoint.families.additive.repair import repaired
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray, clock
from counterpoint.programs.proof import Proof
from counterpoint.programs.region import Cases
from counterpoint.rows import lattice
from counterpoint.solvers.base import Effort, Outcome, Solution

__all__ = ["searched"]

REPAIRS = 3
"""How often one feature of a point is replaced, at most."""
SPARE = 1e-10
"""By what share more than the ceiling is excluded or closed: more than the rounding of bounds."""
STEEP = 1e-9
"""What a column takes a unit, relative to its price, beyond which it may be bounded by that."""
ANY = 1e-6
"""What it counts that points of a mixture differ in a column, beside how far that is from whole."""


@final
class _Nodes(NamedTuple):
    """Nodes of some rows; children come after their parents."""

    row: IntArray  # (m,)
    boxes: Boxes
    multipliers: FloatArray  # (m, s)
    children: IntArray  # (m, 2) numbers of nodes; −1 for a leaf

    @property
    def roots(self) -> IntArray:
        """(n,) the first node of each row."""
        return np.unique(self.row, return_index=True)[1]


@final
class _Searched(NamedTuple):
    """What a search leaves of n rows."""

    best: Moves
    found: BoolArray  # (n,) whether that is a point which costs less than the cutoff
    stuck: BoolArray  # (n,) whether some node is left
    nodes: _Nodes


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # of columns without an end
def searched(
    k: Knapsack, cases: Cases, effort: Effort, cutoff: FloatArray | None, most: int
) -> Solution:
    """Branch and bound for each row, with at most so many nodes; rows share their time.

    Points are of use only if they cost less than the cutoff (n,).
    """
    end = np.inf if effort.seconds is None else clock() + effort.seconds * len(cases)
    (given, values), n, share = k.given(cases), len(cases), 1.0 - effort.gap
    cost_cutoff = np.full(n, np.inf) if cutoff is None else cutoff
    out = Solution.blank(n, k.program)
    one = _layered(k, given, cost_cutoff, share, most, end)
    best, found, stuck, nodes = one
    ceiling = np.where(found, best.cost, cost_cutoff) * share
    out.points[found] = k.points(cases, values, best)[found]
    out.outcomes[found] = Outcome.FOUND
    out.outcomes[~stuck & np.isposinf(ceiling)] = Outcome.INFEASIBLE
    out.outcomes[stuck] = Outcome.LIMIT
    out.reported[:] = np.where(stuck, 0.0, ceiling)
    out.multipliers[:] = k.multipliers(nodes.multipliers[nodes.roots])
    return replace(out, proof=_proof(k, cases, (given, values), one, ceiling))


def _layered(
    k: Knapsack, given: KnapsackData, cost_cutoff: FloatArray, share: float, most: int, end: float
) -> _Searched:
    """All rows at once, layer by layer."""
    n = len(cost_cutoff)
    best = Moves(
        np.zeros(given.boxes.low.shape),
        np.array(given.here),
        np.array(cost_cutoff),
        np.zeros(given.short.shape),
    )
    found, stuck = np.zeros((2, n), dtype=bool)
    layers, count, size = list[_Nodes](), np.zeros(n, dtype=np.intp), 0
    row, boxes, start = np.arange(n), given.boxes, np.zeros(given.short.shape)
    while len(row):
        count += np.bincount(row, minlength=n)
        stuck |= (count > most) | (clock() > end)
        some, children = given.take(row), np.full((len(row), 2), -1)
        dual = maximize_dual(k, some, boxes, start, best.cost[row] * share * (1.0 + SPARE))
        _improved(k, some, dual, row, best, found)
        ceiling = best.cost[row] * share * (1.0 + SPARE)
        left = np.flatnonzero((dual.bound < ceiling) & ~stuck[row])
        some, dual_left, inside = some.take(left), dual.take(left), boxes.take(left)
        open_ = _fixed(k, some, inside, dual_left, ceiling[left])
        pieces, good = _split(k, some, open_, dual_left)
        good |= _smaller(open_, inside)  # nothing to split, but less than it was
        stuck[row[left[~good]]] = True
        size += len(row)
        at = left[good]
        children[at] = size + np.arange(2 * len(at)).reshape(2, -1).T
        layers.append(_Nodes(row, boxes, dual.multipliers, children))
        row, start = np.tile(row[at], 2), np.tile(dual.multipliers[at], (2, 1))
        halves = zip(*(piece.take(good) for piece in pieces), strict=True)
        boxes = Boxes(*map(np.concatenate, halves))
    return _Searched(best, found, stuck, _joined(layers))


def _joined(layers: list[_Nodes]) -> _Nodes:
    """Nodes one after the other."""
    if len(layers) == 1:
        return layers[0]
    row, boxes, *rest = zip(*layers, strict=True)
    joined = Boxes(*map(np.concatenate, zip(*boxes, strict=True)))
    return _Nodes(np.concatenate(row), joined, *map(np.concatenate, rest))


def _improved(
    k: Knapsack, given: KnapsackData, dual: Dual, row: IntArray, best: Moves, found: BoolArray
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
        helps, now = repaired(k, part, now)
        good = np.flatnonzero(part.satisfied(now) & (now.cost < best.cost[rows]))
        if len(good):
            order = good[np.lexsort((np.arange(len(good)), now.cost[good], rows[good]))]
            chosen = order[np.unique(rows[order], return_index=True)[1]]
            best.put(rows[chosen], now.take(chosen))
            found[rows[chosen]] = True
        part, now, rows = part.take(helps), now.take(helps), rows[helps]


def _rounded(k: Knapsack, given: KnapsackData, points: list[Moves], weights: FloatArray) -> Moves:
    """The mixture of points, rounded; of each table, the heaviest option."""
    change = sum(
        np.where(weights[:, i, None] > 0.0, weights[:, i, None] * p.change, 0.0)
        for i, p in enumerate(points)
    )
    change = np.asarray(np.where(k.whole, np.rint(change), change))
    heaviest = weights.argmax(axis=1)
    choice = np.stack([p.choice for p in points], axis=1)[np.arange(len(weights)), heaviest]
    if k.count is not None:  # not where more would change than may
        several = np.hstack([change != 0.0, choice != given.here]).sum(axis=1) > k.count
        change, choice = (
            np.where(several[:, None], old, new)
            for old, new in zip(points[0][:2], (change, choice), strict=True)
        )
    return k.moves(given, change, choice)


def _fixed(
    k: Knapsack, given: KnapsackData, boxes: Boxes, dual: Dual, ceiling: FloatArray
) -> Boxes:
    """Boxes without what their multipliers exclude."""
    if k.sums is not None:
        return boxes
    lam = dual.multipliers
    value, _, (slope, values, best, options) = k.least(given, boxes, lam)
    total = value + (lam * given.short).sum(axis=1)
    room = np.where(total > 0.0, ceiling * (1.0 + SPARE) - total, np.inf)[:, None]
    limit = values + np.maximum(room, 0.0)
    low, high = boxes.low, boxes.high
    up, down = k.absolute - slope, k.absolute + slope  # what a unit takes, upwards, downwards
    rise = np.where(up > STEEP * k.absolute, limit / up, np.inf)
    fall = np.where(down > STEEP * k.absolute, -limit / down, -np.inf)
    # beyond the end to which a column is pulled, where nothing else is allowed
    rise = np.where((limit < 0.0) & (down < 0.0), limit / -down, rise)
    fall = np.where((limit < 0.0) & (up < 0.0), limit / up, fall)
    if k.is_curved:
        bend = np.where(k.nonlinear, k.curvature, 1.0)
        middle = slope / (2.0 * bend)
        reach = np.sqrt(np.maximum(limit / bend + middle * middle, 0.0))
        rise = np.where(k.nonlinear, middle + reach, rise)
        fall = np.where(k.nonlinear, middle - reach, fall)
    rise, fall = rise * (1.0 + SPARE), fall * (1.0 + SPARE)
    rise[:, k.levelled], fall[:, k.levelled] = np.inf, -np.inf  # these are not convex
    if k.count is not None:  # no change is no part of what is counted
        may = ~k.musts(given, boxes)[:, : len(k.numbers)]
        rise, fall = (
            np.where(may, end(v, 0.0), v) for end, v in ((np.maximum, rise), (np.minimum, fall))
        )
    high = np.where(k.whole, np.minimum(high, np.floor(rise + STEP_SLACK)), high)
    low = np.where(k.whole, np.maximum(low, np.ceil(fall - STEP_SLACK)), low)
    if not k.tables:
        return boxes._replace(low=low, high=high)
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


def _split(
    k: Knapsack, given: KnapsackData, boxes: Boxes, dual: Dual
) -> tuple[tuple[Boxes, Boxes], BoolArray]:
    """Two parts of each box, and (n,) whether there are two.

    Where changes are counted, a feature stays or counts as changed; else the column in which the
    points of a mixture differ most is split between them.
    """
    n, c, rows = len(boxes.low), len(k.numbers), np.arange(len(boxes.low))
    score, cut = _apart(k, given, boxes, dual)
    counted, pick = np.zeros(n, dtype=bool), score.argmax(axis=1)
    if k.count is not None:
        changed = np.zeros((n, c + k.tables))
        for i, p in enumerate(dual.points):
            changed += dual.weights[:, i, None] * k.changed(given, p)
        free = ~k.musts(given, boxes)
        share = np.where(free, np.minimum(changed, 1.0 - changed), 0.0)
        counted = share.max(axis=1) > 1e-9
        pick = np.where(counted, share.argmax(axis=1), pick)
    good = counted | (score[rows, pick] > 0.0)
    one, other = boxes.take(rows), boxes.take(rows)
    number = np.flatnonzero(good & ~counted & (pick < c))
    j = pick[number]
    one.high[number, j] = cut[number, j]
    other.low[number, j] = cut[number, j] + k.whole[j]
    table = np.flatnonzero(good & ~counted & (pick >= c))
    if len(table):
        t = pick[table] - c
        upper = _upper_options(k, given, boxes, dual, table, t)
        one.mask[table, t] &= ~upper
        other.mask[table, t] &= upper
    staying = np.flatnonzero(counted)
    if len(staying):
        j = pick[staying]
        number = j < c
        one.low[staying[number], j[number]] = one.high[staying[number], j[number]] = 0.0
        rest, t = staying[~number], j[~number] - c
        one.mask[rest, t] = np.arange(boxes.mask.shape[2]) == given.here[rest, t][:, None]
        other.forced[staying, j] = True
    return (one, other), np.asarray(good)


def _apart(
    k: Knapsack, given: KnapsackData, boxes: Boxes, dual: Dual
) -> tuple[FloatArray, FloatArray]:
    """(n, c + t) how much it helps to split each feature, and (n, c) where numbers are cut."""
    used = dual.weights > 0.0
    mean = np.zeros(boxes.low.shape)
    low, high = np.full(mean.shape, np.inf), np.full(mean.shape, -np.inf)
    for i, p in enumerate(dual.points):
        mine = used[:, i, None]
        mean += np.where(mine, dual.weights[:, i, None] * p.change, 0.0)
        low = np.where(mine, np.minimum(low, p.change), low)
        high = np.where(mine, np.maximum(high, p.change), high)
    inside = np.clip(mean, boxes.low, boxes.high)
    cut, off = np.floor(inside), np.abs(inside - np.rint(inside))
    cut = np.maximum(np.where(cut >= boxes.high, cut - 1.0, cut), boxes.low)
    several, apart = (boxes.low < boxes.high) & k.whole, low != high
    at = k.levelled[~k.whole[k.levelled]]
    if len(at):
        cut[:, at], several[:, at] = _bent_between(k, given, low, high, mean)
    if k.smooth is not None:
        at = k.bending
        ends = np.where(apart, low, boxes.low), np.where(apart, high, boxes.high)
        middle = np.where(k.whole, np.floor(0.5 * (ends[0] + ends[1])), 0.5 * (ends[0] + ends[1]))
        cut[:, at] = middle[:, at]
        several[:, at] |= (cut > boxes.low)[:, at] & (cut < boxes.high)[:, at]
        several &= np.isfinite(cut)  # there is no middle of a range without ends
        jumps = np.abs(k.bent_gains(given, high[:, at]) - k.bent_gains(given, low[:, at]))
        jumps = np.where(apart[:, at], (jumps * dual.multipliers[:, None]).sum(axis=2), 0.0)
        most = np.maximum(
            jumps.max(axis=1, keepdims=True), _other_jumps(k, given, dual, high - low)
        )
        off[:, at] = 0.5 * np.divide(jumps, most, out=np.zeros(jumps.shape), where=most > 0.0)
    score = np.where(several, np.where(apart, ANY + off, ANY * ANY), 0.0)
    if not k.tables:
        return score, cut
    first, differ = dual.points[0].choice, np.zeros(given.here.shape)
    for i, p in enumerate(dual.points[1:], 1):
        differ += np.where(p.choice != first, dual.weights[:, i, None], 0.0)
    choices = boxes.mask.sum(axis=2) > 1
    options = np.where(choices, ANY * ANY + np.minimum(differ, 1.0 - differ), 0.0)
    return np.hstack([score, options]), cut


def _other_jumps(k: Knapsack, given: KnapsackData, dual: Dual, far: FloatArray) -> FloatArray:
    """(n, 1) by how much single features that do not bend differ in gain in a mixture, at most.

    A column that bends is not worth a split where it moves by far less. ``far`` (n, c): how far
    points are apart.
    """
    rigid = np.array(k.whole)
    rigid[k.bending] = False
    slope, far = k.slopes(dual.multipliers), np.where(rigid & np.isfinite(far), far, 0.0)
    options = k.table_slopes(given, dual.multipliers)
    gains = np.stack([chosen(options, p.choice) for p in dual.points])
    used = (dual.weights > 0.0).T[:, :, None]
    most = np.where(used, gains, -np.inf).max(axis=0) - np.where(used, gains, np.inf).min(axis=0)
    return np.hstack([np.abs(slope * far), most]).max(axis=1, initial=0.0, keepdims=True)


def _bent_between(
    k: Knapsack, given: KnapsackData, low: FloatArray, high: FloatArray, mean: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """(n, l) where prices by level of continuous columns bend between two changes; if they do.

    The nearest such place to what is given.
    """
    some = ~k.whole[k.levelled]
    at, own = given.at[:, some], k.levelled[some]
    inside = (at > low[:, own, None]) & (at < high[:, own, None])
    off = np.where(inside, np.abs(at - mean[:, own, None]), np.inf)
    best = off.argmin(axis=2)[..., None]
    return np.take_along_axis(at, best, axis=2)[..., 0], np.asarray(inside.any(axis=2))


def _upper_options(
    k: Knapsack, given: KnapsackData, boxes: Boxes, dual: Dual, rows: IntArray, t: IntArray
) -> BoolArray:
    """(rows, k) the options of a table that gain more, between two that a mixture chooses.

    Values of a column with curves are split by their order.
    """
    every = np.arange(len(rows))
    gain = k.table_slopes(given.take(rows), dual.multipliers[rows])[every, t]
    chosen = np.stack([p.choice[rows, t] for p in dual.points], axis=1)
    order = np.broadcast_to(np.arange(gain.shape[1], dtype=np.float64), gain.shape)
    gain = np.where((t >= len(k.options[0]))[:, None], order, gain)
    own, used = gain[every[:, None], chosen], dual.weights[rows] > 0.0
    most = np.where(used, own, -np.inf).max(axis=1)
    least = np.where(used, own, np.inf).min(axis=1)
    mask = boxes.mask[rows, t]
    upper = mask & (gain > (0.5 * (most + least))[:, None])
    flat = ~upper.any(axis=1) | (upper == mask).all(axis=1)
    # equally good options: the first that is chosen, and the others
    first = np.where(mask[every, chosen[:, 0]], chosen[:, 0], mask.argmax(axis=1))
    alone = np.arange(mask.shape[1]) == first[:, None]
    return np.asarray(np.where(flat[:, None], alone, upper))


def _proof(
    k: Knapsack,
    cases: Cases,
    seen: tuple[KnapsackData, FloatArray],
    one: _Searched,
    ceiling: FloatArray,
) -> Proof:
    """The trees of the rows that are not stuck, in encoded columns."""
    (given, values), nodes = seen, one.nodes
    chosen = np.flatnonzero(~one.stuck[nodes.row])
    at = np.full(len(nodes.row) + 1, -1)
    at[chosen] = np.arange(len(chosen))
    row, boxes = nodes.row[chosen], nodes.boxes.take(chosen)
    low, high, x = cases.low[row], cases.high[row], cases.x[row]
    root = given.boxes.take(row)
    own = x[:, k.numbers]
    for ends, mine, whole in ((low, boxes.low, root.low), (high, boxes.high, root.high)):
        ends[:, k.numbers] = np.where(
            mine != whole, lattice.number(own, mine, k.units), ends[:, k.numbers]
        )
    columns, real = k.options
    for t, group in enumerate(columns):
        out = (root.mask[:, t] & ~boxes.mask[:, t])[:, : real.shape[1]]
        high[:, group[real[t]]] = np.where(out[:, real[t]], 0.0, high[:, group[real[t]]])
    for t, column in enumerate(k.bent.tolist(), len(columns)):
        reach, every = values[1:, row, t - len(columns)], np.arange(len(row))
        left, all_ = (part.mask[:, t, : reach.shape[2]] for part in (boxes, root))
        first, last = left.argmax(axis=1), left.shape[1] - 1 - left[:, ::-1].argmax(axis=1)
        less = first > all_.argmax(axis=1)
        fewer = last < left.shape[1] - 1 - all_[:, ::-1].argmax(axis=1)
        low[:, column] = np.where(less, reach[0, every, first], low[:, column])
        high[:, column] = np.where(fewer, reach[1, every, last], high[:, column])
    forced = np.zeros(low.shape, dtype=bool)
    if k.count is not None:
        starts = np.array([g.start for g in k.program.groups], dtype=np.intp)
        forced[:, np.concatenate([k.numbers, starts, k.bent])] = boxes.forced
    multipliers, children = k.multipliers(nodes.multipliers[chosen]), at[nodes.children[chosen]]
    return Proof(row, low, high, forced, multipliers, children, at[nodes.roots], ceiling)
