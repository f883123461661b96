"""Lower bounds on the costs of boxes of cells from the leaves in them, and where to split boxes.

In a box, a leaf costs at least as much as its nearest cells. With m_t(r) the largest value of a
leaf of tree t that costs at most the *radius* r, S(r) = shift + Σ_t m_t(r) bounds the sum at every
point of the box that costs at most r. So the least r at which S(r) meets the demands is a lower
bound.

Answers are found by moves of one feature at a time (`Exchange`). One pass over the leaves gives the
sums after every such move, as trees exchange leaves in Zhang et al. (2020), "An efficient
adversarial attack for tree ensembles".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from counterpoint.families.trees.boxes import BoxCosts, CellBoxes, RowCosts
from counterpoint.families.trees.form import LeafSums
from counterpoint.numerics import TINY, BoolArray, FloatArray, IntArray, clock
from counterpoint.programs import arrays
from counterpoint.programs.proof import SplitKind

State = tuple[IntArray, IntArray]
"""The cell of each number, and the category of each group."""


@final
@dataclass(frozen=True, eq=False)
class OpenBox:
    """A box of cells in the search; the fields from ``split`` on are known once it is bounded."""

    box: CellBoxes  # one
    leaves: IntArray  # (A,) the leaves that a point of it below the cutoff may be in
    multipliers: FloatArray  # (m,) of relations, which bound it without the trees
    bound: float = 0.0  # no point of it that meets the demands costs less
    split: tuple[int, int, int] = (0, 0, 0)  # see `Grid.has`; kind 0 if it is not to be split
    nearest: State | None = None  # its nearest point
    path: IntArray | None = None  # (T,) the leaves that the nearest point is in
    meets: bool = False  # whether the nearest point meets the demands
    # Cells of the cheapest point that keeps the relations, whatever the trees say, and its cost as
    # reported by a solver.
    cheapest: State | None = None
    reported: float = 0.0


@final
class _Leaves(NamedTuple):
    """A pairs of an open box and a leaf that matters in it, by box and then by tree.

    Each of the k open boxes has leaves of each of T trees.
    """

    open_boxes: IntArray  # (k,) as positions among all boxes
    leaf: IntArray  # (A,)
    box: IntArray  # (A,) its box, as a position in ``open_boxes``
    cost: FloatArray  # (A,) least cost of a point in both
    begin: IntArray  # (k · T,) where the pairs of each box and tree begin
    values: FloatArray  # (r, A) what leaves add to each demand


@final
class LeafBound:
    """Bounds of boxes for one row and one set of r demands.

    Leaves add ``values`` (r, L) to sums, which with the demands' shift are at least ``needs`` (r,)
    at an answer.
    """

    def __init__(
        self, row: RowCosts, condition: LeafSums, needs: FloatArray | float, values: FloatArray
    ) -> None:
        self.row, self.grid, self.condition = row, row.grid, condition
        self.needs = np.broadcast_to(np.asarray(needs, dtype=np.float64), condition.shift.shape)
        self.values = values

    def look(self, boxes: Sequence[OpenBox], cutoff: float) -> list[OpenBox]:
        """Return boxes with their bounds: infinite if nothing in them costs less than a cutoff.

        No bound is below the one that a box had before. What else is known of an open box, see
        `OpenBox`, is set as well.
        """
        none = np.zeros(0, dtype=np.intp)
        out = [replace(box, leaves=none, bound=np.inf) for box in boxes]
        costs = self.row.costs(arrays.stacked([box.box for box in boxes]))
        near = self._near(costs, [box.leaves for box in boxes], cutoff)
        if not len(near.open_boxes):
            return out
        nearest = self._nearest(costs, near)
        least = np.maximum(costs.least, [box.bound for box in boxes])
        bound = self._radii(near, least[near.open_boxes])
        values, path = near.values[:, nearest], near.leaf[nearest]
        splits = self._splits(costs, near, values, bound)
        sums = values.sum(axis=2) + self.condition.shift[:, None]
        meets = (self.needs <= sums.T).all(axis=1)
        leaves = np.split(near.leaf, near.begin[:: len(self.grid.tree_starts)][1:])
        for k, index in enumerate(near.open_boxes.tolist()):
            out[index] = replace(
                boxes[index],
                leaves=leaves[k],
                bound=float(bound[k]),
                split=tuple(splits[k].tolist()),
                nearest=(costs.cells[index], costs.categories[index]),
                path=path[k],
                meets=bool(meets[k]),
            )
        return out

    def _near(self, costs: BoxCosts, leaves: Sequence[IntArray], cutoff: float) -> _Leaves:
        """Return the leaves that cost less than the cutoff, in boxes that may hold an answer.

        None is in a box where the sums of each tree's best value among them miss a demand.
        """
        n, trees = len(leaves), len(self.grid.tree_starts)
        # pairs of a leaf and a box, by box and then by tree; a run is those of one box and one tree
        leaf, box = np.concatenate(leaves), np.repeat(np.arange(n), [*map(len, leaves)])
        cost, allowed = self.row.leaf_costs(costs, leaf, box)
        pairs = np.flatnonzero((cost < cutoff) & allowed)
        leaf, box, cost = leaf[pairs], box[pairs], cost[pairs]
        begin = _run_starts(box * trees + self.grid.leaf_tree[leaf])
        values, box_of_run = self.values[:, leaf], box[begin]
        is_open = np.bincount(box_of_run, minlength=n) == trees  # every tree has a leaf
        if len(leaf):
            top = np.maximum.reduceat(values, begin, axis=1)
            sums = np.stack([np.bincount(box_of_run, best, n) for best in top])
            is_open &= self._may_meet(sums + self.condition.shift[:, None])
        open_boxes = np.flatnonzero(is_open)
        if len(open_boxes) < n:
            pairs = np.flatnonzero(is_open[box])
            leaf, cost, values = leaf[pairs], cost[pairs], values[:, pairs]
            box = np.searchsorted(open_boxes, box[pairs])
            begin = _run_starts(box * trees + self.grid.leaf_tree[leaf])
        return _Leaves(open_boxes, leaf, box, cost, begin, values)

    def _may_meet(self, sums: FloatArray) -> BoolArray:
        """Return whether sums (r, k) may meet the demands: no model does below the tolerance."""
        return np.asarray((sums >= -self.condition.tolerance[:, None]).all(axis=0))

    def _top(self, near: _Leaves, within: BoolArray) -> FloatArray:
        """Return the largest value in each tree (r, k, T) of leaves ``within`` a radius."""
        values = np.where(within, near.values, -np.inf)
        top = np.maximum.reduceat(values, near.begin, axis=1)
        return np.asarray(top.reshape(len(values), -1, len(self.grid.tree_starts)))

    def _nearest(self, costs: BoxCosts, near: _Leaves) -> IntArray:
        """Return the pairs (k, T) of the leaves that the nearest points of boxes are in.

        They cost as much as the box itself. Others may, too, if a change costs nothing: those fail
        a test.
        """
        pair = np.flatnonzero(near.cost == costs.least[near.open_boxes][near.box])
        if len(pair) != len(near.begin):
            box, tests = near.open_boxes[near.box[pair]], self.grid.tests[near.leaf[pair]]
            passes = self.grid.passes(costs.cells[box], costs.categories[box], tests)
            pair = pair[passes.all(axis=1)]
        return pair.reshape(-1, len(self.grid.tree_starts))

    def _radii(self, near: _Leaves, low: FloatArray) -> FloatArray:
        """Return radii (k,), from ``low`` on, below which S does not meet the demands.

        S at a radius is the sum over the trees of the best values of leaves that cost no more. Ten
        bisections, and then the next cost of a leaf: S rises only there.
        """
        shift = self.condition.shift[:, None]

        def may_meet(radius: FloatArray) -> BoolArray:
            top = self._top(near, near.cost <= radius[near.box])
            return self._may_meet(top.sum(axis=2) + shift)

        fails = ~may_meet(low)
        if not fails.any():
            return low
        begin = near.begin[:: len(self.grid.tree_starts)]  # (k,) where the pairs of a box begin
        high = np.maximum.reduceat(near.cost, begin)
        for _ in range(10):
            middle = np.where(fails, 0.5 * (low + high), low)
            enough = may_meet(middle)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        beyond = np.where(near.cost > low[near.box], near.cost, np.inf)
        return np.where(fails, np.minimum.reduceat(beyond, begin), low)

    def _splits(
        self, costs: BoxCosts, near: _Leaves, nearest: FloatArray, bound: FloatArray
    ) -> IntArray:
        """Return the split (k, 3) of each box that most of its improving leaves ask for.

        Of each tree, that is the leaf of the largest value, if this is larger than the value of the
        nearest point's leaf, one of ``nearest`` (r, k, T). Values are those for one demand: of the
        demands to which any leaf adds more than the nearest point's, the one that this point misses
        by most. Leaves that cost no more than the bound (k,) come first, as they hold it down, and
        any others only if none of those improves: if all came at once, deep forests would stay
        unproved.
        """
        trees, box = len(self.grid.tree_starts), np.arange(len(bound))
        sums = nearest.sum(axis=2) + self.condition.shift[:, None]
        is_candidate = near.cost <= bound[near.box]  # (A,) of the pairs of a leaf and a box
        # (k,) whether any of these improves a tree's value for any demand
        improves: BoolArray = np.asarray((self._top(near, is_candidate) > nearest).any(axis=(0, 2)))
        is_candidate |= ~improves[near.box]
        best = self._top(near, is_candidate)
        demand = np.where((best > nearest).any(axis=2), sums, np.inf).argmin(axis=0)  # (k,)
        top = best[demand, box].ravel()  # (k · T,)
        gain = top - nearest[demand, box].ravel()
        improving = np.flatnonzero(gain > 0.0)  # a number for each box and tree
        if not len(improving):
            return np.zeros((len(bound), 3), dtype=np.intp)
        # The first leaf of the box and the tree with the best value.
        value = near.values[demand[near.box], np.arange(len(near.box))]
        value = np.where(is_candidate, value, -np.inf)
        is_best = value == top[near.box * trees + self.grid.leaf_tree[near.leaf]]
        pair = np.flatnonzero(is_best)
        leaf = near.leaf[pair[np.searchsorted(pair, near.begin[improving])]]
        return self._votes(costs, near.open_boxes, improving // trees, leaf, gain[improving])

    def _votes(
        self, costs: BoxCosts, open_boxes: IntArray, box: IntArray, leaf: IntArray, gain: FloatArray
    ) -> IntArray:
        """Return the split (k, 3) of each of k ``open_boxes`` that has the most votes.

        Each leaf (m,) of a box (m,) gives its gain (m,) to every split that separates it from the
        cheapest point of that box, which is one for each of the leaf's tests that the point fails.
        """
        grid = self.grid
        tests, index = grid.tests[leaf], open_boxes[box]
        passes = grid.passes(costs.cells[index], costs.categories[index], tests)
        voter, column = np.nonzero(~passes)
        test, box, gain = tests[voter, column], box[voter], gain[voter]
        # Candidates are numbered: first every cell of every number, as the first one on the right
        # of a split, with one more behind the last; then every set of categories.
        number_splits = int(grid.starts[-1]) + len(grid.columns)
        candidates = number_splits + len(grid.set_group)
        candidate = number_splits + test - len(grid.test_number)
        is_number = test < len(grid.test_number)
        interval = test[is_number]
        number = grid.test_number[interval]
        below = costs.cells[open_boxes[box[is_number]], number] < grid.test_first[interval]
        # The right part of the split begins with the leaf's first cell if the point is below it,
        # else with the first cell after the leaf's.
        cell = np.where(below, grid.test_first[interval], grid.test_last[interval] + 1)
        begins = grid.starts + np.arange(len(grid.starts))
        candidate[is_number] = begins[number] + cell
        votes = np.bincount(box * candidates + candidate, gain, len(open_boxes) * candidates)
        votes = votes.reshape(-1, candidates)
        best = votes.argmax(axis=1)
        number = np.searchsorted(begins, best, "right") - 1
        splits = np.where(
            best < number_splits,
            [np.full(len(best), SplitKind.NUMBER), number, best - begins[number]],
            [np.full(len(best), SplitKind.SET), best - number_splits, np.zeros_like(best)],
        ).T
        splits[votes.max(axis=1) == 0.0] = 0  # no leaf voted: no split
        return np.asarray(splits, dtype=np.intp)


@final
class Exchange:
    """A local search for one row, which offers the answers that it comes to.

    A *move* takes one feature to a cell or a category: there are M + C of them, numbered like the
    cells and then the categories. Sums of at least a ``goal`` (r,) meet the demands, unless by a
    tie that rounding hides.
    """

    def __init__(
        self, leaf_bound: LeafBound, goal: FloatArray, offer: Callable[[IntArray, IntArray], None]
    ) -> None:
        self.leaf_bound, self.row, self.grid = leaf_bound, leaf_bound.row, leaf_bound.grid
        self.goal, self.offer, row, grid = goal, offer, leaf_bound.row, leaf_bound.grid
        self.end = np.inf  # when to stop, by `clock`
        # (M + C,) the feature that moves, the cost of being there, and whether it counts as changed
        self.feature = np.append(grid.cell_number, len(grid.columns) + grid.category_group)
        self.cost = np.append(row.paid, row.category_cost)
        if row.most_changes is not None:
            numbers = row.number_counts[grid.cell_number] & ~row.can_stay
            groups = row.group_counts[grid.category_group] & ~row.is_own
            self.changes = np.append(numbers, groups)

    def greedy(self, cells: IntArray, categories: IntArray) -> None:
        """Offer answers that the best moves lead to, from these cells and categories on."""
        if not self.row.allows(cells, categories):
            return
        starts, count = self.grid.starts[:-1], len(self.row.paid)
        state = np.append(starts + cells, count + categories)  # (features,) as moves
        for _ in range(60):
            if clock() > self.end:
                break
            cells, categories = state[: len(starts)] - starts, state[len(starts) :] - count
            sums, moved_sums = self.sums(cells, categories)
            if (sums >= self.leaf_bound.needs).all():  # of ties the search decides
                self.offer(cells, categories)
            move = self._best_move(sums, moved_sums, self._extra_cost(state))
            if move is None:
                break
            state[self.feature[move]] = move

    def _extra_cost(self, state: IntArray) -> FloatArray:
        """Return what each move adds to the cost, (M + C,); infinite where it may not be made."""
        extra = self.cost - self.cost[state][self.feature]
        if self.row.most_changes is not None:
            changed = self.changes[state]
            count = changed.sum() - changed[self.feature] + self.changes
            extra[count > self.row.most_changes] = np.inf
        return np.asarray(extra)

    def _best_move(self, sums: FloatArray, moved_sums: FloatArray, extra: FloatArray) -> int | None:
        """Return the move to make next; None to stay.

        The cheapest move that comes to the goal is made; where the goal is met, only if it saves
        something. If no move comes to the goal, the one is made that gains most for its cost.
        """
        if not len(extra):  # all numbers are missing, and there are no categories
            return None
        satisfied: BoolArray = np.asarray((moved_sums >= self.goal[:, None]).all(axis=0))
        cheapest = int(np.where(satisfied, extra, np.inf).argmin())
        if (sums >= self.goal).all():
            return cheapest if extra[cheapest] < 0.0 else None
        if satisfied[cheapest] and np.isfinite(extra[cheapest]):
            return cheapest
        missing = np.minimum(moved_sums - self.goal[:, None], 0.0).sum(axis=0)
        gain = missing - np.minimum(sums - self.goal, 0.0).sum()
        gain[np.isinf(extra)] = 0.0
        with np.errstate(over="ignore"):  # moves that cost nothing come first
            rate = gain / np.maximum(extra, TINY)
        rate[gain <= 0.3 * gain.max()] = 0.0  # small steps at a good rate would take too many
        steepest = int(rate.argmax())
        return steepest if rate[steepest] > 0.0 else None

    def sums(self, cells: IntArray, categories: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums for each demand at a point, (r,), and after each move, (r, M + C).

        A move leaves those of the point's leaves of which it fails a test, and enters the leaves
        that fail one test at the point, if it passes that. So a test counts by the values of its
        leaves: a move that passes it gains what enters, and keeps what would leave.
        """
        grid, values, count = self.grid, self.leaf_bound.values, len(self.grid.test_number)
        failed = ~grid.passed(cells, categories)[grid.tests]
        fails = failed.sum(axis=1)
        path, near = np.flatnonzero(fails == 0), np.flatnonzero(fails == 1)
        leaving, entering = grid.tests[path].ravel(), grid.tests[near][failed[near]]
        # A test of a number counts from its first to its last cell. It is added where it begins,
        # subtracted where it has ended, and a cumulative sum yields all cells. Each number has a
        # slot for each of its cells, and a last one behind them, where all its tests have ended.
        first_slot = grid.starts[:-1] + np.arange(len(grid.columns))
        size = int(grid.starts[-1]) + len(grid.columns)
        begin = first_slot[grid.test_number] + grid.test_first
        behind = first_slot[grid.test_number] + grid.test_last + 1
        last_slot = np.append(first_slot, size)[1:] - 1
        spread = [span.stop - span.start for span in grid.spans]
        sums = values[:, path].sum(axis=1) + self.leaf_bound.condition.shift
        moved = np.empty((len(sums), len(self.cost)))
        for r, value in enumerate(values):
            left = np.repeat(value[path], grid.tests.shape[1])
            left = np.bincount(leaving, left, grid.pad + 1)
            passed = left + np.bincount(entering, value[near], grid.pad + 1)
            # A move of a number takes away what its tests would leave, from its first slot up to
            # its last one, and adds what the cell's tests pass.
            steps = np.bincount(begin, passed[:count], size)
            steps = steps - np.bincount(behind, passed[:count], size)
            steps += np.bincount(last_slot[grid.test_number], left[:count], size)
            steps -= np.bincount(first_slot[grid.test_number], left[:count], size)
            left_of_group = np.bincount(grid.set_group, left[count:-1], len(grid.spans))
            of_categories = passed[count:-1] @ grid.sets - np.repeat(left_of_group, spread)
            of_cells = np.delete(np.cumsum(steps), last_slot)
            moved[r] = sums[r] + np.append(of_cells, of_categories)
        return sums, moved


def _run_starts(key: IntArray) -> IntArray:
    """Return where runs of equal keys begin."""
    return np.flatnonzero(np.diff(key, prepend=-1))
