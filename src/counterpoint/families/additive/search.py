"""Branch and bound over knapsacks, for whole batches, with a tree that proves the answer.

A row is searched in the same way alone and in any batch. A node is closed by its bound; before it
is split, its box loses what its multipliers exclude. Answers come from repairing the points of the
mixtures that reach the bounds. Ties are broken by order: the first point that turns up, the lowest
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

PRUNING_SLACK = 1e-10
"""Relative margin above the incumbent when pruning; it exceeds the rounding of bounds."""
DISAGREEMENT = 1e-6
"""Weight of disagreement between the mixture's points, relative to fractionality, when choosing the
branching column; its square is the weight of a column that has several values at all."""


@final
class KnapsackNodes(NamedTuple):
    """Boxes of m nodes, each with the multipliers and the mixture of points that bound it."""

    boxes: Boxes
    multipliers: FloatArray  # (m, s) those of the parents, before the nodes are bounded
    weights: FloatArray  # (m, q) of the points in the mixtures; q is 0 before
    points: Candidates  # (m, q)


@final
class NodeRecord(NamedTuple):
    """The parts of m nodes that their proof needs: box and multipliers, see `Boxes`."""

    low: FloatArray
    high: FloatArray
    mask: BoolArray  # (m, t, k) options that are left
    forced: BoolArray
    multipliers: FloatArray


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # of columns without an end
def search_knapsacks(
    knapsack: Knapsack,
    cases: Batch,
    effort: Effort,
    cutoff: FloatArray | None,
    most_nodes: int,
    domain: Batch | None = None,
) -> Solution:
    """Search each row with at most so many nodes; rows share their time.

    Points are of use only if they cost less than the cutoff (n,). The cases may be only the part of
    a ``domain`` that points below the cutoff are in; the proof then is of the domain.
    """
    end = np.inf if effort.seconds is None else clock() + effort.seconds * len(cases)
    costs = np.full(len(cases), np.inf) if cutoff is None else cutoff
    problem = KnapsackProblem(KnapsackRows(knapsack, cases), costs, effort.gap, most_nodes, end)
    tree = branch_and_bound(problem)
    claim = problem.best.cost * problem.share  # infinite if there is neither a point nor a cutoff
    is_unproved = tree.unfinished | (tree.least < problem.cutoff)
    out, solved = Solution.blank(len(cases), knapsack.program), np.flatnonzero(problem.improved)
    boxes = arrays.pick(problem.rows.boxes, solved)
    out.points[solved] = problem.rows.points(boxes, arrays.pick(problem.best, solved))
    out.outcomes[solved] = Outcome.FOUND
    out.outcomes[~is_unproved & np.isposinf(claim)] = Outcome.INFEASIBLE
    out.outcomes[is_unproved] = Outcome.LIMIT
    out.reported[:] = np.where(is_unproved, 0.0, claim)
    out.multipliers[:] = knapsack.multipliers(tree.record.multipliers[: len(cases)])
    proof = _proof(problem.rows, domain or cases, tree, np.flatnonzero(~is_unproved), claim)
    return replace(out, proof=proof)


@final
class KnapsackProblem(BranchingProblem[KnapsackNodes]):
    """Knapsacks of n rows as a problem of branch and bound, with the best points so far.

    A node is closed if it has no point that costs less than ``share`` of the best one. A row stops
    after ``most_nodes`` nodes, or at the time ``end`` by `clock`.
    """

    def __init__(
        self, rows: KnapsackRows, cutoff: FloatArray, gap: float, most_nodes: int, end: float
    ) -> None:
        self.rows, self.knapsack = rows, rows.knapsack
        self.share, self.most_nodes, self.end = 1.0 - gap, most_nodes, end
        # until a point is found, only the cost counts, which is the cutoff
        nothing = np.zeros(rows.boxes.low.shape), np.array(rows.factual)
        self.best = Candidates(*nothing, np.array(cutoff), np.zeros(rows.missing.shape))
        self.improved = np.zeros(len(cutoff), dtype=bool)  # whether a point was found
        self.node_count = np.zeros(len(cutoff), dtype=np.intp)

    @property
    def cutoff(self) -> FloatArray:
        return np.asarray(self.best.cost * self.share * (1.0 + PRUNING_SLACK))

    @property
    def exhausted(self) -> BoolArray:
        return np.asarray((self.node_count > self.most_nodes) | (clock() > self.end))

    def roots(self) -> KnapsackNodes:
        rows, n = self.rows, len(self.node_count)
        empty = np.zeros((n, 0))
        c, t, s = (v.shape[1] for v in (rows.boxes.low, rows.factual, rows.missing))
        choice = np.zeros((n, 0, t), dtype=np.intp)
        points = Candidates(np.zeros((n, 0, c)), choice, empty, np.zeros((n, 0, s)))
        return KnapsackNodes(rows.boxes, np.zeros(rows.missing.shape), empty, points)

    def bound(self, nodes: KnapsackNodes, row: IntArray) -> tuple[KnapsackNodes, FloatArray]:
        self.node_count += np.bincount(row, minlength=len(self.node_count))
        lagrangian = KnapsackLagrangian(self.rows, nodes.boxes)
        dual = maximize_dual(lagrangian, nodes.multipliers, self.cutoff[row])
        self._improve(lagrangian, dual)
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
        boxes = _narrowed(lagrangian, nodes.multipliers, self.cutoff[row])
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

    def _improve(self, lagrangian: KnapsackLagrangian, dual: Basis) -> None:
        """Keep better points: those of the mixtures, and the rounded mixtures, all repaired."""
        is_open = dual.bound < self.best.cost[lagrangian.boxes.row]
        used = is_open[:, None] & np.isfinite(dual.points.cost) & (dual.weights > 0.0)
        point, box = np.nonzero(used.T)  # the first points of all boxes, then the second ones, …
        change, choice = dual.points.change[box, point], dual.points.choice[box, point]
        # The two points of a single demand mostly differ in one feature, which repairing replaces
        # anyway: beside tables, their mixture is not rounded.
        if not self.knapsack.tables or dual.weights.shape[1] > 2:
            rounded_box = np.flatnonzero(is_open)
            rounded_change, rounded_choice = _rounded(lagrangian, dual)
            change = np.concatenate([change, rounded_change[rounded_box]])
            choice = np.concatenate([choice, rounded_choice[rounded_box]])
            box = np.append(box, rounded_box)
        if len(box):
            candidates = lagrangian.pick(box)
            self._keep(candidates, repaired(candidates, candidates.points(change, choice)))

    def _keep(self, lagrangian: KnapsackLagrangian, points: Candidates) -> None:
        """Keep the cheapest point of each row, if it meets all demands and is better."""
        row = lagrangian.boxes.row
        good = np.flatnonzero(lagrangian.satisfied(points) & (points.cost < self.best.cost[row]))
        if len(good):
            order = good[np.lexsort((good, points.cost[good], row[good]))]
            cheapest = order[np.unique(row[order], return_index=True)[1]]
            arrays.put(self.best, row[cheapest], arrays.pick(points, cheapest))
            self.improved[row[cheapest]] = True


def _rounded(lagrangian: KnapsackLagrangian, dual: Basis) -> tuple[FloatArray, IntArray]:
    """Return rounded mixtures: changes (m, c), and the choices (m, t) of their heaviest points.

    Several demands may need as many continuous columns to change, which no single point does.
    """
    k, weights, points = lagrangian.knapsack, dual.weights[:, :, None], dual.points
    change = np.where(weights > 0.0, weights * points.change, 0.0).sum(axis=1)
    change = np.where(k.whole, np.rint(change), change)
    choice = points.choice[np.arange(len(weights)), dual.weights.argmax(axis=1)]
    if k.at_most is not None:  # a mixture may change more than its points, and more than may change
        changes = np.hstack([change != 0.0, choice != lagrangian.factual]).sum(axis=1)
        too_many = (changes > k.at_most)[:, None]  # then the first point stands for the mixture
        change = np.where(too_many, points.change[:, 0], change)
        choice = np.where(too_many, points.choice[:, 0], choice)
    return change, choice


def _narrowed(lagrangian: KnapsackLagrangian, multipliers: FloatArray, cutoff: FloatArray) -> Boxes:
    """Return boxes without values that, by multipliers (m, s), cost more than the cutoff (m,).

    The Lagrangian with one feature at a value, and the others at their least, bounds the cost of
    all points with that value. So a feature's term may exceed its least by the ``room`` that is
    between the Lagrangian's least and the cutoff. A least that is not positive excludes nothing.
    """
    k, box = lagrangian.knapsack, lagrangian.boxes
    if k.sums is not None:
        return box  # terms of curves are not of this form
    terms = lagrangian.terms(multipliers)
    least = terms.total + (multipliers * lagrangian.missing).sum(axis=1)
    room = np.where(least > 0.0, cutoff * (1.0 + PRUNING_SLACK) - least, np.inf)[:, None]
    limit = terms.numbers + np.maximum(room, 0.0)  # the most that a term of a number may be
    # The largest rises; and the largest falls, which are rises in the opposite direction.
    rise, fall = (
        _reach(lagrangian, slope, limit, end)
        for slope, end in ((terms.slope, box.high), (-terms.slope, -box.low))
    )
    if not k.tables:
        return box._replace(low=-fall, high=rise)
    fits = terms.options <= (terms.tables + room)[:, :, None]
    # Where changes are counted, a table's least may assume that it takes another feature's place.
    # The factual option is no change and takes none, so it stays where no change is forced.
    if k.at_most is not None:
        may_stay = ~lagrangian.must[:, len(k.numbers) :, None]
        fits |= may_stay & (np.arange(fits.shape[2]) == lagrangian.factual[:, :, None])
    option_cost = np.where(fits, box.option_cost, np.inf)
    return box._replace(low=-fall, high=rise, option_cost=option_cost)


def _split(lagrangian: KnapsackLagrangian, nodes: KnapsackNodes) -> tuple[Boxes, Boxes, BoolArray]:
    """Return two parts of each box, and whether there are two, (m,).

    A feature is split by whether it changes, or else by its values, see `KnapsackProblem.split`.
    """
    k, box, count = lagrangian.knapsack, lagrangian.boxes, len(lagrangian.knapsack.numbers)
    index = np.arange(len(nodes.weights))
    score, cut = _scores(lagrangian, nodes)
    feature = score.argmax(axis=1)
    has_parts, by_change = np.asarray(score[index, feature] > 0.0), np.zeros(len(index), dtype=bool)
    if k.at_most is not None:
        points = nodes.points
        changes = np.concatenate(
            [points.change != 0.0, points.choice != lagrangian.factual[:, None]], 2
        )
        share = (nodes.weights[:, :, None] * changes).sum(axis=1)  # of the mixture that changes it
        disagreement = np.where(lagrangian.must, 0.0, np.minimum(share, 1.0 - share))
        by_change = disagreement.max(axis=1) > 1e-9
        feature = np.where(by_change, disagreement.argmax(axis=1), feature)
        has_parts |= by_change
    first, second = arrays.pick(box, index), arrays.pick(box, index)  # copies
    is_number, by_value = feature < count, has_parts & ~by_change

    rows = np.flatnonzero(by_value & is_number)
    j = feature[rows]
    first.high[rows, j] = cut[rows, j]
    second.low[rows, j] = cut[rows, j] + k.whole[j]
    rows = np.flatnonzero(by_value & ~is_number)
    if len(rows):
        t = feature[rows] - count
        upper = _upper_options(lagrangian.pick(rows), arrays.pick(nodes, rows), t)
        first.option_cost[rows, t] = np.where(upper, np.inf, box.option_cost[rows, t])
        second.option_cost[rows, t] = np.where(upper, box.option_cost[rows, t], np.inf)

    rows = np.flatnonzero(by_change & is_number)
    first.low[rows, feature[rows]] = first.high[rows, feature[rows]] = 0.0
    rows = np.flatnonzero(by_change & ~is_number)
    t = feature[rows] - count
    is_change = np.arange(box.option_cost.shape[2]) != lagrangian.factual[rows, t][:, None]
    first.option_cost[rows, t] = np.where(is_change, np.inf, box.option_cost[rows, t])
    rows = np.flatnonzero(by_change)
    second.forced[rows, feature[rows]] = True
    return first, second, has_parts


def _reach(
    lagrangian: KnapsackLagrangian, slope: FloatArray, limit: FloatArray, end: FloatArray
) -> FloatArray:
    """Return how far numbers may rise (m, c) within limits (m, c) of their terms and up to an end.

    The term of δ >= 0 units is absolute δ + curvature δ² − slope δ, where ``slope`` is λ · gain. Of
    falls, this is asked with the opposite slopes.
    """
    k = lagrangian.knapsack
    uphill, other_way = k.cost.absolute - slope, k.cost.absolute + slope  # a unit's term, each way
    # Where the term is almost flat, a quotient by it would be all rounding.
    reach = np.where(uphill > 1e-9 * k.cost.absolute, limit / uphill, np.inf)
    # A limit below 0 asks for a change; the other way gains it, from some distance on.
    reach = np.where((limit < 0.0) & (other_way < 0.0), limit / -other_way, reach)
    if k.cost.is_curved:  # curvature δ² − slope δ <= limit, by its larger root
        curvature = np.where(k.nonlinear, k.cost.curvature, 1.0)
        middle = slope / (2.0 * curvature)
        root = middle + np.sqrt(np.maximum(limit / curvature + middle * middle, 0.0))
        reach = np.where(k.nonlinear, root, reach)
    reach = reach * (1.0 + PRUNING_SLACK)
    reach[:, k.levelled] = np.inf  # these terms are not convex
    if k.at_most is not None:  # no change takes no other feature's place
        reach = np.where(lagrangian.must[:, : len(k.numbers)], reach, np.maximum(reach, 0.0))
    return np.where(k.whole, np.minimum(end, np.floor(reach + STEP_SLACK)), end)


def _scores(lagrangian: KnapsackLagrangian, nodes: KnapsackNodes) -> tuple[FloatArray, FloatArray]:
    """Return scores for splitting each feature, (m, c + t), and where numbers are cut, (m, c).

    A score is 0 for a feature with a single value. It is high where the points of a mixture differ,
    and highest where the mixture is half-way between whole numbers, or torn between options.
    """
    k, box, points = lagrangian.knapsack, lagrangian.boxes, nodes.points
    weights = nodes.weights[:, :, None]
    used = weights > 0.0
    mean = np.where(used, weights * points.change, 0.0).sum(axis=1)
    low = np.where(used, points.change, np.inf).min(axis=1)
    high = np.where(used, points.change, -np.inf).max(axis=1)
    # Whole numbers are cut at the mixture's mean, columns with percentile costs where the cost
    # bends, and smooth ones in the middle; other continuous columns are never split.
    inside = np.clip(mean, box.low, box.high)
    cut, fraction = np.floor(inside), np.abs(inside - np.rint(inside))
    cut = np.maximum(np.where(cut >= box.high, cut - 1.0, cut), box.low)  # both parts have values
    can_split, differs = (box.low < box.high) & k.whole, low != high
    levelled = k.levelled[~k.whole[k.levelled]]
    if len(levelled):
        cut[:, levelled], can_split[:, levelled] = _level_cuts(lagrangian, low, high, mean)
    if k.smooth is not None:
        smooth = k.smooth_columns
        middle = 0.5 * (np.where(differs, low, box.low) + np.where(differs, high, box.high))
        cut[:, smooth] = np.where(k.whole, np.floor(middle), middle)[:, smooth]
        can_split[:, smooth] |= ((cut > box.low) & (cut < box.high))[:, smooth]
        can_split &= np.isfinite(cut)  # there is no middle of a range without ends
        fraction[:, smooth] = _smooth_scores(lagrangian, nodes, low, high)
    several = DISAGREEMENT * DISAGREEMENT  # the score of several values on which all points agree
    score = np.where(can_split, np.where(differs, DISAGREEMENT + fraction, several), 0.0)
    if not k.tables:
        return score, cut
    # (m, t) the weight of the points that choose another option than the first point does
    share = np.where(points.choice != points.choice[:, :1], weights, 0.0).sum(axis=1)
    has_options = np.isfinite(box.option_cost).sum(axis=2) > 1
    options = np.where(has_options, several + np.minimum(share, 1.0 - share), 0.0)
    return np.hstack([score, options]), cut


def _smooth_scores(
    lagrangian: KnapsackLagrangian, nodes: KnapsackNodes, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return the scores of smooth columns, (m, k), at most ½ as for fractions of whole numbers.

    They are half of what the curves gain between the least and the largest change of the mixture's
    points, ``low`` and ``high`` (m, c), relative to the largest such gain of any feature: a curve
    that gains by far less than others is not worth a split.
    """
    k, smooth, multipliers = (
        lagrangian.knapsack,
        lagrangian.knapsack.smooth_columns,
        nodes.multipliers,
    )
    curve_gain = np.abs(
        lagrangian.smooth_gains(high[:, smooth]) - lagrangian.smooth_gains(low[:, smooth])
    )
    curve_gain = (curve_gain * multipliers[:, None]).sum(axis=2)
    curve_gain = np.where((low != high)[:, smooth], curve_gain, 0.0)
    # Of the numbers without a curve, only whole ones can be split.
    is_whole, distance = np.array(k.whole), high - low
    is_whole[smooth] = False
    distance = np.where(is_whole & np.isfinite(distance), distance, 0.0)
    number_gain = np.abs(k.slopes(multipliers) * distance)
    # Of tables, (m, q, t) gains of the options that the q points choose: the largest less the least
    used, choice = nodes.weights[:, :, None] > 0.0, nodes.points.choice
    option_gain = -lagrangian.without_cost().option_values(multipliers)
    chosen = np.take_along_axis(option_gain, choice.swapaxes(1, 2), axis=2).swapaxes(1, 2)
    table_gain = np.where(used, chosen, -np.inf).max(axis=1)
    table_gain = table_gain - np.where(used, chosen, np.inf).min(axis=1)
    largest = np.hstack([curve_gain, number_gain, table_gain])
    largest = largest.max(axis=1, initial=0.0, keepdims=True)
    zero = np.zeros(curve_gain.shape)
    return 0.5 * np.divide(curve_gain, largest, out=zero, where=largest > 0.0)


def _level_cuts(
    lagrangian: KnapsackLagrangian, low: FloatArray, high: FloatArray, mean: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return where to cut l continuous columns with percentile costs, (m, l), and whether to.

    A cut is a change at which the cost bends, between the least and the largest change of the
    mixture's points, ``low`` and ``high`` (m, c); of several the one nearest to the mean (m, c).
    """
    k = lagrangian.knapsack
    continuous = ~k.whole[k.levelled]
    columns = k.levelled[continuous]
    # (m, l, k) the changes of each box's row at which the costs bend
    bends = lagrangian.rows.level_changes[lagrangian.boxes.row][:, continuous]
    inside = (bends > low[:, columns, None]) & (bends < high[:, columns, None])
    distance = np.where(inside, np.abs(bends - mean[:, columns, None]), np.inf)
    nearest = distance.argmin(axis=2)[..., None]
    return np.take_along_axis(bends, nearest, axis=2)[..., 0], np.asarray(inside.any(axis=2))


def _upper_options(lagrangian: KnapsackLagrangian, nodes: KnapsackNodes, t: IntArray) -> BoolArray:
    """Return the upper part (m, k) of the options of one table of each box, t (m,).

    Options have a rank: their gain λ · gains, or the order of pieces if the table is a curve, so
    that both parts are intervals. The upper part is above the middle between the ranks that the
    mixture chooses.
    """
    index = np.arange(len(t))
    option_cost = lagrangian.boxes.option_cost
    mask = np.isfinite(option_cost[index, t])  # the options that are left
    order = np.broadcast_to(np.arange(mask.shape[1], dtype=np.float64), mask.shape)
    gain = np.zeros(mask.shape)
    for r in range(len(lagrangian.knapsack.gains)):
        gains = np.broadcast_to(lagrangian.gains_of(r), option_cost.shape)[index, t]
        gain += nodes.multipliers[:, r, None] * gains
    is_curve = t >= len(lagrangian.knapsack.options)  # tables of curves come after those of groups
    rank = np.where(is_curve[:, None], order, gain)
    choice, used = nodes.points.choice[index, :, t], nodes.weights > 0.0
    chosen = rank[index[:, None], choice]
    most = np.where(used, chosen, -np.inf).max(axis=1)
    least = np.where(used, chosen, np.inf).min(axis=1)
    upper = mask & (rank > (0.5 * (most + least))[:, None])
    # Options of one rank leave a part empty: then the first chosen one is parted from the others.
    is_trivial = ~upper.any(axis=1) | (upper == mask).all(axis=1)
    first = np.where(mask[index, choice[:, 0]], choice[:, 0], mask.argmax(axis=1))
    alone = np.arange(mask.shape[1]) == first[:, None]
    return np.asarray(np.where(is_trivial[:, None], alone, upper))


def _proof(
    rows: KnapsackRows, domain: Batch, tree: SearchTree, proved: IntArray, claim: FloatArray
) -> ProofTrees:
    """Return the proof trees of ``proved`` rows, which claim a bound (n,) each.

    Boxes are translated into bounds on encoded columns. An end that was not moved keeps the bound
    of the row, so that no split is needed for it.
    """
    k, cases, row, record = rows.knapsack, rows.cases, tree.row, tree.record
    root = arrays.pick(rows.boxes, row)
    low, high = cases.low[row], cases.high[row]
    for bounds, ends, root_ends in ((low, record.low, root.low), (high, record.high, root.high)):
        number = lattice.number(rows.x[row], ends, k.units)
        bounds[:, k.numbers] = np.where(ends != root_ends, number, bounds[:, k.numbers])
    permitted = np.isfinite(root.option_cost)
    # Of groups, the columns of options that were removed are 0.
    for t, (group, is_option) in enumerate(zip(k.options, k.is_option, strict=True)):
        columns = group[is_option]
        removed = (permitted[:, t] & ~record.mask[:, t])[:, : len(is_option)][:, is_option]
        high[:, columns] = np.where(removed, 0.0, high[:, columns])
    # Of curves in tables, the pieces that are left are an interval.
    node = np.arange(len(row))
    for b, column in enumerate(k.tabulated_columns.tolist()):
        least, most = rows.values[1:, row, b]  # of each piece
        (first, last), (root_first, root_last) = (
            _ends(options[:, len(k.options) + b, : least.shape[1]])
            for options in (record.mask, permitted)
        )
        low[:, column] = np.where(first > root_first, least[node, first], low[:, column])
        high[:, column] = np.where(last < root_last, most[node, last], high[:, column])
    forced = np.zeros(low.shape, dtype=bool)
    if k.at_most is not None:
        starts = np.array([group.start for group in k.program.domain.groups], dtype=np.intp)
        forced[:, np.concatenate([k.numbers, starts, k.tabulated_columns])] = record.forced
    refuted = np.isposinf(tree.bound)
    multipliers = k.multipliers(record.multipliers)
    boxes = SearchedBoxes(row, low, high, forced, multipliers, tree.children, refuted)
    return boxes.proof_trees(k.program, domain, proved, claim[proved])


def _ends(mask: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first and the last option (m,) of masks (m, k)."""
    return mask.argmax(axis=1), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
