"""Lower bounds on what boxes of cells cost, from the leaves that lie in them, and where to split.

In a box, a leaf costs at least what its nearest cells cost. With m_t(r) the largest value of a leaf
of tree t that costs at most r, S(r) = b + Σ_t m_t(r) bounds the sum at every point of the box that
costs at most r: the least r at which S(r) meets the demands is a lower bound.

Answers are found by moves of one feature at a time (`Exchange`). One pass over the leaves gives the
sums wherever any single feature moves, as trees exchange leaves in Zhang et al. (2020), "An
efficient adversarial attack for tree ensembles".
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

HALVINGS = 10
"""How closely the radius of a box is bounded: the cutoff over 2 to the power of so many."""
GREEDY = 60
"""Moves of one feature to find an answer to begin with."""
SHARE = 0.3
"""A move that gains less than this share of the best gain is too small."""

State = tuple[IntArray, IntArray]
"""The cell of each number, and the category of each group."""


@final
@dataclass(frozen=True, eq=False)
class OpenBox:
    """A box of cells; what follows its bound is known once it is bounded and still open."""

    box: CellBoxes  # one
    leaves: IntArray  # (A,) those that a point of it below the cutoff may be in
    multipliers: FloatArray  # (m,) of relations, which bound it without the trees
    bound: float = 0.0  # no point of it that meets the demands costs less
    split: tuple[int, int, int] = (0, 0, 0)  # kind 0 if it is not to be split
    nearest: State | None = None  # its nearest point
    path: IntArray | None = None  # (T,) the leaf of each tree that this is in
    meets: bool = False  # whether it meets what is needed
    # of its cheapest point that keeps relations, once it is known: the cells, and the bound if
    # solvers are believed
    cheapest: State | None = None
    reported: float = 0.0


@final
class _Leaves(NamedTuple):
    """The leaves that matter, by box and then by tree; each of k boxes has some of each tree."""

    which: IntArray  # (k,) which of the boxes they are
    leaf: IntArray  # (A,)
    box: IntArray  # (A,) the place of its box among the k
    cost: FloatArray  # (A,) least cost of a point in both
    begin: IntArray  # (k · T,) where those of each box and tree begin
    values: FloatArray  # (r, A) what they add to each demand


@final
class LeafBound:
    """Bounds of boxes for one row and one set of demands.

    An answer meets these by what it ``needs`` (r,); leaves add ``values`` (r, L) to them.
    """

    def __init__(
        self, row: RowCosts, condition: LeafSums, needs: FloatArray | float, values: FloatArray
    ) -> None:
        self.row, self.grid, self.condition = row, row.grid, condition
        self.needs = np.broadcast_to(np.asarray(needs, dtype=np.float64), condition.shift.shape)
        self.values = values

    def look(self, boxes: Sequence[OpenBox], cutoff: float) -> list[OpenBox]:
        """Return boxes with their bounds, which are infinite if nothing in them is below a cutoff.

        None is less than the bound that a box had before.
        """
        none = np.zeros(0, dtype=np.intp)
        out = [replace(box, leaves=none, bound=np.inf) for box in boxes]
        costs = self.row.costs(arrays.stacked([box.box for box in boxes]))
        near = self._near(costs, [box.leaves for box in boxes], cutoff)
        if not len(near.which):
            return out
        place = self._nearest(costs, near)
        least = np.maximum(costs.base, [box.bound for box in boxes])
        bound = self._radii(near, least[near.which])
        nearest = near.values[:, place]
        splits = self._splits(costs, near, nearest, bound)
        path = near.leaf[place]
        sums = self.values[:, path].sum(axis=2) + self.condition.shift[:, None]
        meets = (self.needs <= sums.T).all(axis=1)
        leaves = np.split(near.leaf, near.begin[:: len(self.grid.tree)][1:])
        for k, index in enumerate(near.which.tolist()):
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
        """Return the leaves below the cutoff, of the boxes in which S meets the demands."""
        n, size = len(leaves), len(self.grid.tree)
        leaf, box = np.concatenate(leaves), np.repeat(np.arange(n), [*map(len, leaves)])
        cost, allowed = self.row.leaf_costs(costs, leaf, box)
        matters = np.flatnonzero((cost < cutoff) & allowed)
        leaf, box, cost = leaf[matters], box[matters], cost[matters]
        begin = _begin(box * size + self.grid.tree_of[leaf])
        values, owner = self.values[:, leaf], box[begin]
        promising = np.bincount(owner, minlength=n) == size  # every tree has a leaf
        if len(leaf):
            top = np.maximum.reduceat(values, begin, axis=1)
            sums = np.stack([np.bincount(owner, best, n) for best in top])
            promising &= self._reach(sums + self.condition.shift[:, None])
        which = np.flatnonzero(promising)
        if len(which) < n:
            matters = np.flatnonzero(promising[box])
            leaf, cost, values = leaf[matters], cost[matters], values[:, matters]
            box = np.searchsorted(which, box[matters])
            begin = _begin(box * size + self.grid.tree_of[leaf])
        return _Leaves(which, leaf, box, cost, begin, values)

    def _reach(self, sums: FloatArray) -> BoolArray:
        """Return whether sums (r, k) may meet the demands; below the tolerance no model does."""
        return np.asarray((sums >= -self.condition.tolerance[:, None]).all(axis=0))

    def _top(self, near: _Leaves, within: BoolArray) -> FloatArray:
        """Return the largest value in each tree (r, k, T) of leaves ``within`` a radius."""
        values = np.where(within, near.values, -np.inf)
        top = np.maximum.reduceat(values, near.begin, axis=1)
        return np.asarray(top.reshape(len(values), -1, len(self.grid.tree)))

    def _nearest(self, costs: BoxCosts, near: _Leaves) -> IntArray:
        """Return the places (k, T) of the leaves that the nearest points are in."""
        place = np.flatnonzero(near.cost == costs.base[near.which][near.box])
        if len(place) != len(near.begin):  # to change something may cost nothing
            box, tests = near.which[near.box[place]], self.grid.tests[near.leaf[place]]
            passes = self.grid.passes(costs.cells[box], costs.categories[box], tests)
            place = place[passes.all(axis=1)]
        return place.reshape(-1, len(self.grid.tree))

    def _radii(self, near: _Leaves, low: FloatArray) -> FloatArray:
        """Return radii (k,), from ``low`` on, below which S does not meet the demands."""
        shift = self.condition.shift[:, None]

        def reached(radius: FloatArray) -> BoolArray:
            top = self._top(near, near.cost <= radius[near.box])
            return self._reach(top.sum(axis=2) + shift)

        short = ~reached(low)
        if not short.any():
            return low
        begin = near.begin[:: len(self.grid.tree)]
        high = np.maximum.reduceat(near.cost, begin)
        for _ in range(HALVINGS):
            middle = np.where(short, 0.5 * (low + high), low)
            enough = reached(middle)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        beyond = np.where(near.cost > low[near.box], near.cost, np.inf)
        return np.where(short, np.minimum.reduceat(beyond, begin), low)

    def _splits(
        self, costs: BoxCosts, near: _Leaves, nearest: FloatArray, bound: FloatArray
    ) -> IntArray:
        """Return the split (k, 3) of each box that most of the improving leaves ask for.

        These are the best leaves within its bound, or of all if none of those improves; for the
        demand that the ``nearest`` leaves, of values (r, k, T), miss by most and that others meet
        better. Leaves within the bound are what holds it down: without them first, deep forests
        stay unproved.
        """
        size, box = len(self.grid.tree), np.arange(len(bound))
        sums = nearest.sum(axis=2) + self.condition.shift[:, None]
        within = near.cost <= bound[near.box]
        improves: BoolArray = np.asarray((self._top(near, within) > nearest).any(axis=(0, 2)))
        within |= ~improves[near.box]
        best = self._top(near, within)
        demand = np.where((best > nearest).any(axis=2), sums, np.inf).argmin(axis=0)
        top = best[demand, box].ravel()
        gain = top - nearest[demand, box].ravel()
        improving = np.flatnonzero(gain > 0.0)
        if not len(improving):
            return np.zeros((len(bound), 3), dtype=np.intp)
        value = np.where(within, near.values[demand[near.box], np.arange(len(within))], -np.inf)
        place = np.flatnonzero(value == top[near.box * size + self.grid.tree_of[near.leaf]])
        leaf = near.leaf[place[np.searchsorted(place, near.begin[improving])]]
        return self._votes(costs, near.which, improving // size, leaf, gain[improving])

    def _votes(
        self, costs: BoxCosts, which: IntArray, box: IntArray, leaf: IntArray, gain: FloatArray
    ) -> IntArray:
        """Return the split (k, 3) of each of k boxes that has the most votes.

        Each leaf (m,) of a box (m,) gives its gain (m,) to every split that separates it from the
        cheapest point of that box, which is one for each of the leaf's tests that the point fails.
        """
        grid = self.grid
        tests, at = grid.tests[leaf], which[box]
        passes = grid.passes(costs.cells[at], costs.categories[at], tests)
        voter, column = np.nonzero(~passes)
        test, box, gain = tests[voter, column], box[voter], gain[voter]
        # Candidates are numbered: first every cell of every number, as the first one on the right
        # of a split, with one more behind the last; then every set of categories.
        number_splits = int(grid.starts[-1]) + len(grid.columns)
        candidates = number_splits + len(grid.of_set)
        candidate = number_splits + test - len(grid.number)
        is_number = test < len(grid.number)
        interval = test[is_number]
        number = grid.number[interval]
        below = costs.cells[which[box[is_number]], number] < grid.first[interval]
        cell = np.where(below, grid.first[interval], grid.last[interval] + 1)
        begins = grid.starts + np.arange(len(grid.starts))
        candidate[is_number] = begins[number] + cell
        votes = np.bincount(box * candidates + candidate, gain, len(which) * candidates)
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
    """Moves of single features over the cells of one row, which lead to answers that it offers.

    Sums that come to a ``goal`` (r,) meet the demands, unless by a tie that rounding hides.
    """

    def __init__(
        self, leaf_bound: LeafBound, goal: FloatArray, offer: Callable[[IntArray, IntArray], None]
    ) -> None:
        self.leaf_bound, self.row, self.grid = leaf_bound, leaf_bound.row, leaf_bound.grid
        self.goal, self.offer, row, grid = goal, offer, leaf_bound.row, leaf_bound.grid
        self.end = np.inf  # when to stop, by `clock`
        # A move takes a feature to a cell or a category; there are as many as of these. (M + C,)
        # its feature, the cost of being there, and whether that counts as a change.
        self.feature = np.append(grid.cell_owner, len(grid.columns) + grid.owner)
        self.price = np.append(row.paid, row.category)
        if row.most is not None:
            numbers = row.counts[grid.cell_owner] & ~row.can_stay
            groups = row.group_counts[grid.owner] & ~row.current
            self.changes = np.append(numbers, groups)

    def greedy(self, cells: IntArray, categories: IntArray) -> None:
        """Offer answers that moves of one feature lead to, from these cells and categories on.

        Those moves gain most for their cost; when the demands are met, they save most.
        """
        if not self.row.allows(cells, categories):
            return
        starts, count = self.grid.starts[:-1], len(self.row.paid)
        at = np.append(starts + cells, count + categories)
        for _ in range(GREEDY):
            if clock() > self.end:
                break
            cells, categories = at[: len(starts)] - starts, at[len(starts) :] - count
            now, moved = self.sums(cells, categories)
            if (now >= self.leaf_bound.needs).all():  # of ties the search decides
                self.offer(cells, categories)
            move = self._best_move(now, moved, self._extra(at))
            if move is None:
                break
            at[self.feature[move]] = move

    def _extra(self, at: IntArray) -> FloatArray:
        """Return the cost (M + C,) of moving one feature elsewhere; infinite if it may not."""
        extra = self.price - self.price[at][self.feature]
        if self.row.most is not None:
            changed = self.changes[at]
            count = changed.sum() - changed[self.feature] + self.changes
            extra[count > self.row.most] = np.inf
        return np.asarray(extra)

    def _best_move(self, now: FloatArray, moved: FloatArray, extra: FloatArray) -> int | None:
        """Return the move of one feature to make next; None to stay."""
        if not len(extra):  # all numbers are missing, and there are no categories
            return None
        satisfied: BoolArray = np.asarray((moved >= self.goal[:, None]).all(axis=0))
        best = int(np.where(satisfied, extra, np.inf).argmin())
        if (now >= self.goal).all():
            return best if extra[best] < 0.0 else None
        if satisfied[best] and np.isfinite(extra[best]):
            return best
        short = np.minimum(moved - self.goal[:, None], 0.0).sum(axis=0)
        gain = short - np.minimum(now - self.goal, 0.0).sum()
        gain[np.isinf(extra)] = 0.0
        with np.errstate(over="ignore"):  # what costs nothing comes first
            rate = np.where(gain > SHARE * gain.max(), gain / np.maximum(extra, TINY), 0.0)
        steepest = int(rate.argmax())
        return steepest if rate[steepest] > 0.0 else None

    def sums(self, cells: IntArray, categories: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what a point meets demands by, (r,), and if one feature alone moves, (r, M + C).

        Leaves that the point is in are left by some moves; those of which it fails one test are
        entered.
        """
        grid, values, count = self.grid, self.leaf_bound.values, len(self.grid.number)
        failed = ~grid.passed(cells, categories)[grid.tests]
        fails = failed.sum(axis=1)
        at, near = np.flatnonzero(fails == 0), np.flatnonzero(fails == 1)
        leaving, entering = grid.tests[at].ravel(), grid.tests[near][failed[near]]
        slots = grid.starts[:-1] + np.arange(len(grid.columns))  # one more for each number
        size = int(grid.starts[-1]) + len(grid.columns)
        first, last = slots[grid.number] + grid.first, slots[grid.number] + grid.last + 1
        stops = np.append(slots[1:], size)[: len(slots)] - 1 if len(slots) else slots
        ends = stops[grid.number]
        sums = values[:, at].sum(axis=1) + self.leaf_bound.condition.shift
        spread = [span.stop - span.start for span in grid.spans]
        out = np.empty((len(sums), len(self.price)))
        for r, value in enumerate(values):
            out_of = np.bincount(leaving, np.repeat(value[at], grid.tests.shape[1]), grid.pad + 1)
            both = out_of + np.bincount(entering, value[near], grid.pad + 1)
            steps = np.bincount(first, both[:count], size) - np.bincount(last, both[:count], size)
            steps += np.bincount(ends, out_of[:count], size)
            steps -= np.bincount(slots[grid.number], out_of[:count], size)
            whole = np.bincount(grid.of_set, out_of[count:-1], len(grid.spans))
            sets = both[count:-1] @ grid.sets - np.repeat(whole, spread)
            out[r] = sums[r] + np.append(np.delete(np.cumsum(steps), stops), sets)
        return sums, out


def _begin(key: IntArray) -> IntArray:
    """Return where runs of equal keys begin."""
    return np.flatnonzero(np.diff(key, prepend=-1))
