"""Branch and bound over knapsacks, for whole batches, with a tree that proves the answer.

What is done for a row does not depend on the others. A node is closed by its bound; before it is
split, options are fixed that its multipliers exclude. Points come from replacing one feature of
what the bounds were reached by. Ties are broken by order: the first point that turns up, the lowest
column index, the smallest change of a column.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, final

import numpy as np

from counterpoint.families.additive.dual import Basis, maximize_dual, repaired
from counterpoint.families.additive.knapsack import (
    Boxes,
    Candidates,
    Knapsack,
    KnapsackLagrangian,
    KnapsackRows,
)
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray, clock
from counterpoint.programs import arrays
from counterpoint.programs.proof import ProofTrees
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice
from counterpoint.solvers.base import Effort, Outcome, Solution
from counterpoint.solvers.branch_and_bound import BranchingProblem, SearchTree, branch_and_bound
from counterpoint.solvers.proof_trees import SearchedBoxes

SPARE = 1e-10
"""Relative margin above the incumbent when pruning; it exceeds the rounding of bounds."""
STEEP = 1e-9
"""Share of its cost that a column takes a unit, beyond which it may be bounded by that."""
ANY = 1e-6
"""Weight of disagreement between the mixture's points, relative to fractionality, when choosing the
branching column."""


@final
class KnapsackNodes(NamedTuple):
    """Boxes with the multipliers to begin with; then those, and mixtures, that bound them best."""

    boxes: Boxes
    multipliers: FloatArray  # (m, s)
    weights: FloatArray  # (m, q) of the points in the mixtures; q is 0 before they are bounded
    points: Candidates  # (m, q) of them


@final
class NodeRecord(NamedTuple):
    """What the trees remember of nodes."""

    low: FloatArray
    high: FloatArray
    mask: BoolArray  # (m, t, k) options that are not left out
    forced: BoolArray
    multipliers: FloatArray


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # of columns without an end
def search_knapsacks(
    knapsack: Knapsack,
    cases: Batch,
    effort: Effort,
    cutoff: FloatArray | None,
    most: int,
    domain: Batch | None = None,
) -> Solution:
    """Search each row with at most so many nodes; rows share their time.

    Points are of use only if they cost less than the cutoff (n,). If the cases are only part of a
    domain, the cost alone is to exclude what lies beyond.
    """
    end = np.inf if effort.seconds is None else clock() + effort.seconds * len(cases)
    reached = np.full(len(cases), np.inf) if cutoff is None else cutoff
    problem = KnapsackProblem(KnapsackRows(knapsack, cases), reached, effort.gap, most, end)
    tree, ceiling = branch_and_bound(problem), problem.best.cost * problem.share
    stuck = tree.unfinished | (tree.least < problem.cutoff)
    out, solved = Solution.blank(len(cases), knapsack.program), np.flatnonzero(problem.improved)
    boxes = arrays.pick(problem.rows.boxes, solved)
    out.points[solved] = problem.rows.points(boxes, arrays.pick(problem.best, solved))
    out.outcomes[solved] = Outcome.FOUND
    out.outcomes[~stuck & np.isposinf(ceiling)] = Outcome.INFEASIBLE
    out.outcomes[stuck] = Outcome.LIMIT
    out.reported[:] = np.where(stuck, 0.0, ceiling)
    out.multipliers[:] = knapsack.multipliers(tree.record.multipliers[: len(cases)])
    return replace(out, proof=_proof(problem.rows, domain or cases, tree, stuck, ceiling))


@final
class KnapsackProblem(BranchingProblem[KnapsackNodes]):
    """The trees of n rows, with the best points so far."""

    def __init__(
        self, rows: KnapsackRows, reached: FloatArray, gap: float, most: int, end: float
    ) -> None:
        n, k, low = len(reached), rows.knapsack, rows.boxes.low
        self.rows, self.knapsack, self.share, self.most, self.end = rows, k, 1.0 - gap, most, end
        none = np.zeros(low.shape), np.array(rows.factual)
        self.best = Candidates(*none, np.array(reached), np.zeros(rows.missing.shape))
        self.improved = np.zeros(n, dtype=bool)  # whether that is a point
        self.count = np.zeros(n, dtype=np.intp)  # of nodes

    @property
    def cutoff(self) -> FloatArray:
        return np.asarray(self.best.cost * self.share * (1.0 + SPARE))

    @property
    def exhausted(self) -> BoolArray:
        return np.asarray((self.count > self.most) | (clock() > self.end))

    def roots(self) -> KnapsackNodes:
        rows, n = self.rows, len(self.count)
        empty = np.zeros((n, 0))
        c, t, s = (v.shape[1] for v in (rows.boxes.low, rows.factual, rows.missing))
        choice = np.zeros((n, 0, t), dtype=np.intp)
        points = Candidates(np.zeros((n, 0, c)), choice, empty, np.zeros((n, 0, s)))
        return KnapsackNodes(rows.boxes, np.zeros(rows.missing.shape), empty, points)

    def bound(self, nodes: KnapsackNodes, row: IntArray) -> tuple[KnapsackNodes, FloatArray]:
        self.count += np.bincount(row, minlength=len(self.count))
        boxes = KnapsackLagrangian(self.rows, nodes.boxes)
        dual = maximize_dual(boxes, nodes.multipliers, self.cutoff[row])
        self._improve(boxes, dual)
        return KnapsackNodes(nodes.boxes, dual.multipliers, dual.weights, dual.points), dual.bound

    def record(self, nodes: KnapsackNodes) -> NodeRecord:
        boxes, mask = nodes.boxes, np.isfinite(nodes.boxes.option_cost)
        return NodeRecord(boxes.low, boxes.high, mask, boxes.forced, nodes.multipliers)

    def split(
        self, nodes: KnapsackNodes, row: IntArray
    ) -> tuple[KnapsackNodes, KnapsackNodes, BoolArray]:
        """Return two children of each node, and a mask (m,) of the nodes that are not leaves.

        Boxes are first narrowed to what may cost less than the cutoffs of their rows. Then each is
        split: where the number of changed features is limited, at a feature that only some points
        of the mixture change, which stays in the first child and counts as changed in the
        second; else in the column or table in which the points differ most.
        """
        before = nodes.boxes
        lagrangian = KnapsackLagrangian(self.rows, before)
        boxes = _fixed(lagrangian, nodes.multipliers, self.cutoff[row])
        first, second, has_children = _split(lagrangian.within(boxes), nodes)
        # A box that was narrowed and cannot be split goes on as two equal children: its bound may
        # rise when it is computed again.
        is_narrowed = (boxes.low != before.low).any(axis=1)
        is_narrowed |= (boxes.high != before.high).any(axis=1)
        is_narrowed |= (boxes.option_cost != before.option_cost).any(axis=(1, 2))
        has_children |= is_narrowed
        # The children begin with the multipliers of their parent. Its mixture may lie outside of
        # them, so that they have none until they are bounded.
        unbounded = nodes._replace(
            weights=nodes.weights[:, :0], points=arrays.pick(nodes.points, np.s_[:, :0])
        )
        children = unbounded._replace(boxes=first), unbounded._replace(boxes=second)
        return *children, has_children

    def _improve(self, boxes: KnapsackLagrangian, dual: Basis) -> None:
        """Keep better points: where the dual is least, and mixtures of these, rounded and repaired.

        Repairing replaces features by others until the demands are met.
        """
        live = dual.bound < self.best.cost[boxes.boxes.row]
        used = live[:, None] & np.isfinite(dual.points.cost) & (dual.weights > 0.0)
        which, index = np.nonzero(used.T)
        change, choice = dual.points.change[index, which], dual.points.choice[index, which]
        if not self.knapsack.tables or dual.weights.shape[1] > 2:
            middle = np.flatnonzero(live)
            mixed = _rounded(boxes, dual)
            change, choice = (
                np.concatenate([v, w[middle]]) for v, w in zip((change, choice), mixed, strict=True)
            )
            index = np.append(index, middle)
        if not len(index):
            return
        candidates = boxes.pick(index)
        self._keep(candidates, repaired(candidates, candidates.points(change, choice)))

    def _keep(self, boxes: KnapsackLagrangian, points: Candidates) -> None:
        """Keep the cheapest point of each row, if it meets all demands and is better."""
        row = boxes.boxes.row
        good = np.flatnonzero(boxes.satisfied(points) & (points.cost < self.best.cost[row]))
        if len(good):
            order = good[np.lexsort((good, points.cost[good], row[good]))]
            cheapest = order[np.unique(row[order], return_index=True)[1]]
            arrays.put(self.best, row[cheapest], arrays.pick(points, cheapest))
            self.improved[row[cheapest]] = True


def _rounded(boxes: KnapsackLagrangian, dual: Basis) -> tuple[FloatArray, IntArray]:
    """Return mixtures, rounded, as changes and choices; of each table the heaviest option.

    Several demands are met by no fewer continuous columns than they are.
    """
    k, weights, points = boxes.knapsack, dual.weights[:, :, None], dual.points
    change = np.where(weights > 0.0, weights * points.change, 0.0).sum(axis=1)
    change = np.where(k.whole, np.rint(change), change)
    choice = points.choice[np.arange(len(weights)), dual.weights.argmax(axis=1)]
    if k.at_most is not None:  # a mixture may change more than its points, and more than may change
        changes = np.hstack([change != 0.0, choice != boxes.factual]).sum(axis=1)
        several = (changes > k.at_most)[:, None]
        change = np.where(several, points.change[:, 0], change)
        choice = np.where(several, points.choice[:, 0], choice)
    return change, choice


def _fixed(boxes: KnapsackLagrangian, multipliers: FloatArray, ceiling: FloatArray) -> Boxes:
    """Return boxes without what their multipliers exclude."""
    k, box = boxes.knapsack, boxes.boxes
    if k.sums is not None:
        return box
    terms = boxes.terms(multipliers)
    total = terms.total + (multipliers * boxes.missing).sum(axis=1)
    room = np.where(total > 0.0, ceiling * (1.0 + SPARE) - total, np.inf)[:, None]
    limit = terms.numbers + np.maximum(room, 0.0)
    ends = []
    for sign, end in ((1.0, box.high), (-1.0, -box.low)):  # how far it may rise, and fall
        # what a unit takes, in this direction and the other
        up, down = k.cost.absolute - sign * terms.slope, k.cost.absolute + sign * terms.slope
        reach = np.where(up > STEEP * k.cost.absolute, limit / up, np.inf)
        # beyond the end to which a column is pulled, where nothing else is allowed
        reach = np.where((limit < 0.0) & (down < 0.0), limit / -down, reach)
        if k.cost.is_curved:
            bend = np.where(k.nonlinear, k.cost.curvature, 1.0)
            middle = terms.slope / (2.0 * bend)
            bent = sign * middle + np.sqrt(np.maximum(limit / bend + middle * middle, 0.0))
            reach = np.where(k.nonlinear, bent, reach)
        reach = reach * (1.0 + SPARE)
        reach[:, k.levelled] = np.inf  # these are not convex
        if k.at_most is not None:  # no change is no part of what is counted
            reach = np.where(boxes.must[:, : len(k.numbers)], reach, np.maximum(reach, 0.0))
        ends.append(np.where(k.whole, np.minimum(end, np.floor(reach + STEP_SLACK)), end))
    high, low = ends[0], -ends[1]
    if not k.tables:
        return box._replace(low=low, high=high)
    fits = terms.options <= (terms.tables + room)[:, :, None]
    if k.at_most is not None:
        may = ~boxes.must[:, len(k.numbers) :]
        fits |= may[:, :, None] & (np.arange(fits.shape[2]) == boxes.factual[:, :, None])
    cost = np.where(fits, box.option_cost, np.inf)
    return box._replace(low=low, high=high, option_cost=cost)


def _split(boxes: KnapsackLagrangian, nodes: KnapsackNodes) -> tuple[Boxes, Boxes, BoolArray]:
    """Return two parts of each box, and whether there are two, (m,)."""
    k, box, every = boxes.knapsack, boxes.boxes, np.arange(len(nodes.weights))
    score, cut = _scores(boxes, nodes)
    feature = score.argmax(axis=1)
    fits, counted = np.asarray(score[every, feature] > 0.0), np.zeros(len(every), dtype=bool)
    if k.at_most is not None:
        points = nodes.points
        moved = np.concatenate([points.change != 0.0, points.choice != boxes.factual[:, None]], 2)
        changed = (nodes.weights[:, :, None] * moved).sum(axis=1)
        share = np.where(boxes.must, 0.0, np.minimum(changed, 1.0 - changed))
        counted = share.max(axis=1) > 1e-9
        feature = np.where(counted, share.argmax(axis=1), feature)
        fits |= counted
    first, second = arrays.pick(box, every), arrays.pick(box, every)  # copies
    numeric = feature < len(k.numbers)
    rows = np.flatnonzero(fits & ~counted & numeric)
    j = feature[rows]
    first.high[rows, j] = cut[rows, j]
    second.low[rows, j] = cut[rows, j] + k.whole[j]
    rows = np.flatnonzero(fits & ~counted & ~numeric)
    if len(rows):
        t = feature[rows] - len(k.numbers)
        upper = _upper_options(boxes.pick(rows), arrays.pick(nodes, rows), t)
        first.option_cost[rows, t] = np.where(upper, np.inf, box.option_cost[rows, t])
        second.option_cost[rows, t] = np.where(upper, box.option_cost[rows, t], np.inf)
    rows = np.flatnonzero(counted & numeric)
    first.low[rows, feature[rows]] = first.high[rows, feature[rows]] = 0.0
    rows = np.flatnonzero(counted & ~numeric)
    t = feature[rows] - len(k.numbers)
    changed = np.arange(box.option_cost.shape[2]) != boxes.factual[rows, t][:, None]
    first.option_cost[rows, t] = np.where(changed, np.inf, box.option_cost[rows, t])
    rows = np.flatnonzero(counted)
    second.forced[rows, feature[rows]] = True
    return first, second, fits


def _scores(boxes: KnapsackLagrangian, nodes: KnapsackNodes) -> tuple[FloatArray, FloatArray]:
    """Return how much it helps to split each feature, (m, c + t), and where numbers are cut.

    It helps where the points of a mixture differ: most, where the mixture is far from whole, or
    torn between options. Features that have several values but do not differ come last.
    """
    k, box, points = boxes.knapsack, boxes.boxes, nodes.points
    weights = nodes.weights[:, :, None]
    used = weights > 0.0
    mean = np.where(used, weights * points.change, 0.0).sum(axis=1)
    low = np.where(used, points.change, np.inf).min(axis=1)
    high = np.where(used, points.change, -np.inf).max(axis=1)
    inside = np.clip(mean, box.low, box.high)
    cut, fraction = np.floor(inside), np.abs(inside - np.rint(inside))
    cut = np.maximum(np.where(cut >= box.high, cut - 1.0, cut), box.low)
    can_split, differs = (box.low < box.high) & k.whole, low != high
    levelled = k.levelled[~k.whole[k.levelled]]
    if len(levelled):
        cut[:, levelled], can_split[:, levelled] = _bends_between(boxes, low, high, mean)
    if k.smooth is not None:
        smooth = k.smooth_columns
        middle = 0.5 * (np.where(differs, low, box.low) + np.where(differs, high, box.high))
        cut[:, smooth] = np.where(k.whole, np.floor(middle), middle)[:, smooth]
        can_split[:, smooth] |= ((cut > box.low) & (cut < box.high))[:, smooth]
        can_split &= np.isfinite(cut)  # there is no middle of a range without ends
        fraction[:, smooth] = _jumps(boxes, nodes, low, high)
    score = np.where(can_split, np.where(differs, ANY + fraction, ANY * ANY), 0.0)
    if not k.tables:
        return score, cut
    share = np.where(points.choice != points.choice[:, :1], weights, 0.0).sum(axis=1)
    has_options = np.isfinite(box.option_cost).sum(axis=2) > 1
    options = np.where(has_options, ANY * ANY + np.minimum(share, 1.0 - share), 0.0)
    return np.hstack([score, options]), cut


def _jumps(
    boxes: KnapsackLagrangian, nodes: KnapsackNodes, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return half the gain between the ends of each smooth column, (m, k), relative to the largest.

    That is the largest of any feature that the mixture splits: a column that bends is not worth a
    split where it gains by far less than others. ``low`` and ``high`` are where the points are.
    """
    k, smooth, multipliers = boxes.knapsack, boxes.knapsack.smooth_columns, nodes.multipliers
    gains = np.abs(boxes.smooth_gains(high[:, smooth]) - boxes.smooth_gains(low[:, smooth]))
    gains = (gains * multipliers[:, None]).sum(axis=2)
    jumps = np.where((low != high)[:, smooth], gains, 0.0)
    linear, distance = np.array(k.whole), high - low
    linear[smooth] = False
    distance = np.where(linear & np.isfinite(distance), distance, 0.0)
    numbers = np.abs(k.slopes(multipliers) * distance)
    used, choice = nodes.weights[:, :, None] > 0.0, nodes.points.choice
    options = -boxes.without_cost().option_values(multipliers)
    gains = np.take_along_axis(options, choice.swapaxes(1, 2), axis=2).swapaxes(1, 2)
    tables = np.where(used, gains, -np.inf).max(axis=1) - np.where(used, gains, np.inf).min(axis=1)
    most = np.hstack([jumps, numbers, tables]).max(axis=1, initial=0.0, keepdims=True)
    return 0.5 * np.divide(jumps, most, out=np.zeros(jumps.shape), where=most > 0.0)


def _bends_between(
    boxes: KnapsackLagrangian, low: FloatArray, high: FloatArray, mean: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return where costs by level of continuous columns bend between two changes, (m, l); if so.

    That is the place nearest to the mean.
    """
    k = boxes.knapsack
    continuous = ~k.whole[k.levelled]
    columns = k.levelled[continuous]
    at = boxes.rows.level_changes[boxes.boxes.row][:, continuous]
    inside = (at > low[:, columns, None]) & (at < high[:, columns, None])
    distance = np.where(inside, np.abs(at - mean[:, columns, None]), np.inf)
    nearest = distance.argmin(axis=2)[..., None]
    return np.take_along_axis(at, nearest, axis=2)[..., 0], np.asarray(inside.any(axis=2))


def _upper_options(boxes: KnapsackLagrangian, nodes: KnapsackNodes, t: IntArray) -> BoolArray:
    """Return the options of a table (m, k) that gain more, between two that a mixture chooses.

    Values of a column with curves are split by their order.
    """
    every, groups = np.arange(len(t)), len(boxes.knapsack.options)
    mask = np.isfinite(boxes.boxes.option_cost[every, t])
    order = np.broadcast_to(np.arange(mask.shape[1], dtype=np.float64), mask.shape)
    gain = np.zeros(mask.shape)
    for r in range(len(boxes.knapsack.gains)):
        gains = np.broadcast_to(boxes.gains_of(r), boxes.boxes.option_cost.shape)[every, t]
        gain += nodes.multipliers[:, r, None] * gains
    gain = np.where((t >= groups)[:, None], order, gain)
    choice, used = nodes.points.choice[every, :, t], nodes.weights > 0.0
    chosen = gain[every[:, None], choice]
    most = np.where(used, chosen, -np.inf).max(axis=1)
    least = np.where(used, chosen, np.inf).min(axis=1)
    upper = mask & (gain > (0.5 * (most + least))[:, None])
    flat = ~upper.any(axis=1) | (upper == mask).all(axis=1)
    # equally good options: the first that is chosen, and the others
    first = np.where(mask[every, choice[:, 0]], choice[:, 0], mask.argmax(axis=1))
    alone = np.arange(mask.shape[1]) == first[:, None]
    return np.asarray(np.where(flat[:, None], alone, upper))


def _proof(
    rows: KnapsackRows, domain: Batch, tree: SearchTree, stuck: BoolArray, ceiling: FloatArray
) -> ProofTrees:
    """Return the trees of rows that are not stuck, in encoded columns."""
    k, cases, row, record = rows.knapsack, rows.cases, tree.row, tree.record
    root = arrays.pick(rows.boxes, row)
    low, high = cases.low[row], cases.high[row]
    for bounds, ends, whole in ((low, record.low, root.low), (high, record.high, root.high)):
        number = lattice.number(rows.x[row], ends, k.units)
        bounds[:, k.numbers] = np.where(ends != whole, number, bounds[:, k.numbers])
    mask = np.isfinite(root.option_cost)
    for t, (group, is_option) in enumerate(zip(k.options, k.is_option, strict=True)):
        columns = group[is_option]
        out = (mask[:, t] & ~record.mask[:, t])[:, : len(is_option)][:, is_option]
        high[:, columns] = np.where(out, 0.0, high[:, columns])
    every = np.arange(len(row))
    for b, column in enumerate(k.tabulated_columns.tolist()):
        least, most = rows.values[1:, row, b]
        (first, last), (begin, end) = (
            _ends(options[:, len(k.options) + b, : least.shape[1]])
            for options in (record.mask, mask)
        )
        low[:, column] = np.where(first > begin, least[every, first], low[:, column])
        high[:, column] = np.where(last < end, most[every, last], high[:, column])
    forced = np.zeros(low.shape, dtype=bool)
    if k.at_most is not None:
        starts = np.array([group.start for group in k.program.domain.groups], dtype=np.intp)
        forced[:, np.concatenate([k.numbers, starts, k.tabulated_columns])] = record.forced
    multipliers, solved = k.multipliers(record.multipliers), np.flatnonzero(~stuck)
    refuted = np.isposinf(tree.bound)
    boxes = SearchedBoxes(row, low, high, forced, multipliers, tree.children, refuted)
    return boxes.proof_trees(k.program, domain, solved, ceiling[solved])


def _ends(mask: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first and last of the options (m, k) that are not left out."""
    return mask.argmax(axis=1), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
