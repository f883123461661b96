"""Lower bounds on what boxes of cells cost, from the leaves that lie in them, and where to split.

In a box, a leaf costs at least what its nearest cells cost. With m_t(r) the largest value of a leaf
of tree t that costs at most r, S(r) = b + Σ_t m_t(r) bounds the sum at every point of the box that
costs at most r: the least r at which S(r) meets the demands is a lower bound.

Answers are found by moves of one feature at a time (`Exchange`). One pass over the leaves gives the
sums wherever any single feature moves. An answer is improved by taking back one or two of its
changes and making up for them by moves of others, as trees exchange leaves in Zhang et al. (2020),
"An efficient adversarial attack for tree ensembles".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, final

import numpy as np

from counterpoint.families.trees.boxes import BoxCosts, CellBoxes, RowCosts
from counterpoint.families.trees.form import LeafSums
from counterpoint.numerics import TINY, BoolArray, FloatArray, IntArray, clock
from counterpoint.programs.proof import NUMBER, SET

__all__ = ["Exchange", "LeafBound", "State"]

HALVINGS = 10
"""How closely the radius of a box is bounded: the cutoff over 2 to the power of so many."""
GREEDY = 60
"""Moves of one feature to find an answer to begin with."""
SHARE = 0.3
"""A move that gains less than this share of the best gain is too small."""
REPAIRS = 8
"""Moves that make up for a change that was taken back; few answers need more than three."""
PASSES = 20
"""How often all changes of an answer are tried; after a few none of them helps."""

State = tuple[IntArray, IntArray]
"""The cell of each number, and the category of each group."""


@final
class Promising(NamedTuple):
    """The k boxes that may hold a point below the cutoff which meets the demands."""

    which: IntArray  # (k,) which of the boxes they are
    bound: FloatArray  # (k,)
    leaves: list[IntArray]  # of each, those that such a point may be in
    cells: IntArray  # (k, F) of the nearest points
    categories: IntArray  # (k, groups)
    meets: BoolArray  # (k,) whether the nearest points meet what is needed
    path: IntArray  # (k, T) the leaf of each tree at the nearest points
    splits: IntArray  # (k, 3); kind 0 for none


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
    """Bounds of boxes for one row and one set of demands, of which an answer meets what it needs.

    Parameters
    ----------
    row
        The row, over a grid.
    condition
        The demands.
    needs
        (r,) by how much an answer has to meet each.
    values
        (r, L) what leaves add to each demand.
    """

    def __init__(
        self, row: RowCosts, condition: LeafSums, needs: FloatArray | float, values: FloatArray
    ) -> None:
        self.row, self.grid, self.condition = row, row.grid, condition
        self.needs = np.broadcast_to(np.asarray(needs, dtype=np.float64), condition.shift.shape)
        self.values = values

    def look(
        self, boxes: CellBoxes, leaves: Sequence[IntArray], cutoff: float, least: FloatArray
    ) -> Promising | None:
        """Bound n boxes whose points cost the ``least`` (n,) or more; None if none is promising."""
        costs = self.row.costs(boxes)
        near = self._near(costs, leaves, cutoff)
        if not len(near.which):
            return None
        which, shift = near.which, self.condition.shift[:, None]
        place = self._nearest(costs, near)
        bound = self._radii(near, np.maximum(costs.base, least)[which])
        splits = self._splits(costs, near, near.values[:, place], bound)
        path = near.leaf[place]
        sums = self.values[:, path].sum(axis=2) + shift
        ends = near.begin[:: len(self.grid.tree)][1:]
        return Promising(
            which,
            bound,
            np.split(near.leaf, ends),
            costs.cells[which],
            costs.categories[which],
            (self.needs <= sums.T).all(axis=1),
            path,
            splits,
        )

    def _near(self, costs: BoxCosts, leaves: Sequence[IntArray], cutoff: float) -> _Leaves:
        """Return the leaves below the cutoff, of the boxes in which S meets the demands."""
        n, size = len(leaves), len(self.grid.tree)
        leaf, box = np.concatenate(leaves), np.repeat(np.arange(n), [*map(len, leaves)])
        cost, allowed = self.row.leaf_costs(costs, leaf, box)
        if self.row.share:  # multipliers may draw the nearest point to where too much changes
            allowed = allowed | (cost == costs.base[box])
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
            place = place[costs.passed(self.grid, box, tests).all(axis=1)]
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

        These are the best leaves within its bound, or of all; for the demand that the ``nearest``
        leaves, of values (r, k, T), miss by most and that others of these improve.
        """
        order = np.argsort(nearest.sum(axis=2) + self.condition.shift[:, None], axis=0)
        demand, radius = np.zeros(len(bound), dtype=np.intp), np.full(len(bound), -np.inf)
        for reach in (bound, np.full(len(bound), np.inf)):
            improves = (self._top(near, near.cost <= reach[near.box]) > nearest).any(axis=2)
            ranked = np.take_along_axis(improves, order, axis=0)
            first = np.where(np.isinf(radius) & ranked.any(axis=0), ranked.argmax(axis=0), -1)
            new = np.flatnonzero(first >= 0)
            demand[new], radius[new] = order[first[new], new], reach[new]
            if not np.isneginf(radius).any():
                break
        size = len(self.grid.tree)
        present = np.take_along_axis(nearest, demand[None, :, None], axis=0)[0].ravel()
        value = near.values[demand[near.box], np.arange(len(near.box))]
        value[near.cost > radius[near.box]] = -np.inf
        top = np.maximum.reduceat(value, near.begin)
        improving = np.flatnonzero(top > present)
        if not len(improving):
            return np.zeros((len(bound), 3), dtype=np.intp)
        group = near.box * size + self.grid.tree_of[near.leaf]
        best = np.flatnonzero(value == top[group])
        leaf = near.leaf[best[np.searchsorted(best, near.begin[improving])]]
        return self._votes(costs, near.which, improving // size, leaf, (top - present)[improving])

    def _votes(
        self, costs: BoxCosts, which: IntArray, box: IntArray, leaf: IntArray, gain: FloatArray
    ) -> IntArray:
        """Return the split (k, 3) of each of k boxes that has the most votes.

        Each leaf (m,) of a box (m,) gives its gain (m,) to every split that separates it from the
        cheapest point of that box, which is one for each of the leaf's tests that the point fails.
        """
        grid = self.grid
        tests = grid.tests[leaf]
        voter, column = np.nonzero(~costs.passed(grid, which[box], tests))
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
            [np.full(len(best), NUMBER), number, best - begins[number]],
            [np.full(len(best), SET), best - number_splits, np.zeros(len(best), dtype=np.intp)],
        ).T
        splits[votes.max(axis=1) == 0.0] = 0  # no leaf voted: no split
        return np.asarray(splits, dtype=np.intp)

    def moves(self, cells: IntArray, categories: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what a point meets demands by, (r,), and if one feature alone moves, (r, M + C).

        Leaves that the point is in are left by some moves; those of which it fails one test are
        entered.
        """
        grid, count = self.grid, len(self.grid.number)
        failed = ~self.row.passed(cells, categories)[grid.tests]
        fails = failed.sum(axis=1)
        at, near = np.flatnonzero(fails == 0), np.flatnonzero(fails == 1)
        leaving, entering = grid.tests[at].ravel(), grid.tests[near][failed[near]]
        slots = grid.starts[:-1] + np.arange(len(grid.columns))  # one more for each number
        size = int(grid.starts[-1]) + len(grid.columns)
        first, last = slots[grid.number] + grid.first, slots[grid.number] + grid.last + 1
        stops = np.append(slots[1:], size)[: len(slots)] - 1 if len(slots) else slots
        ends = stops[grid.number]
        sums = self.values[:, at].sum(axis=1) + self.condition.shift
        spread = [span.stop - span.start for span in grid.spans]
        out = np.empty((len(sums), len(self.row.paid) + len(self.row.category)))
        for r, value in enumerate(self.values):
            out_of = np.bincount(leaving, np.repeat(value[at], grid.tests.shape[1]), grid.pad + 1)
            both = out_of + np.bincount(entering, value[near], grid.pad + 1)
            steps = np.bincount(first, both[:count], size) - np.bincount(last, both[:count], size)
            steps += np.bincount(ends, out_of[:count], size)
            steps -= np.bincount(slots[grid.number], out_of[:count], size)
            whole = np.bincount(grid.of_set, out_of[count:-1], len(grid.spans))
            sets = both[count:-1] @ grid.sets - np.repeat(whole, spread)
            out[r] = sums[r] + np.append(np.delete(np.cumsum(steps), stops), sets)
        return sums, out


@final
class Exchange:
    """Moves of single features over the cells of one row.

    Parameters
    ----------
    leaf_bound
        The row with its demands.
    goal
        (r,) what sums come to that meet the demands, unless by a tie that rounding hides.
    offer
        Keeps an answer if it is better than the best so far.
    """

    def __init__(
        self, leaf_bound: LeafBound, goal: FloatArray, offer: Callable[[IntArray, IntArray], None]
    ) -> None:
        self.leaf_bound, self.row, self.grid = leaf_bound, leaf_bound.row, leaf_bound.row.grid
        self.needs, self.offer = goal, offer
        self.end = np.inf  # when to stop, by `clock`
        self._improved = set[bytes]()  # answers from which others went on
        self.owner = np.repeat(np.arange(len(self.row.top)), self.row.top + 1)
        self.group = self.grid.owner
        self.place = np.arange(len(self.owner)) - self.grid.starts[self.owner]

    def greedy(self, start: State | None = None) -> State | None:
        """Return an answer, by moves of one feature that gain most for their cost; None for none.

        When the demands are met, moves that save most. It starts from these cells and categories,
        or from the nearest ones.
        """
        start, reached = start or self.nearest, None
        if not self.row.allows(*start):
            return None
        for _ in range(GREEDY):
            if clock() > self.end:
                break
            now, moved = self.leaf_bound.moves(*start)
            best = self._best_move(now, moved, self._extra(*start))
            if (now >= self.leaf_bound.needs).all():  # of ties the search decides
                self.offer(*start)
            if (now >= self.needs).all():
                reached = start
            if best is None:
                break
            start = self._after(start, best)
        return reached

    @cached_property
    def nearest(self) -> State:
        """The nearest cells of the row."""
        assert self.row.root is not None  # noqa: S101 (asked by the caller)
        costs = self.row.costs(self.row.root)
        return costs.cells[0], costs.categories[0]

    def _extra(self, cells: IntArray, categories: IntArray) -> FloatArray:
        """Return the cost (M + C,) of moving one feature elsewhere; infinite if it may not."""
        row = self.row
        paid = row.paid[self.grid.starts[:-1] + cells][self.owner]
        extra = np.append(row.paid - paid, row.category - row.category[categories][self.group])
        if row.most is not None:
            extra[self._too_many(cells, categories)] = np.inf
        return extra

    def _too_many(self, cells: IntArray, categories: IntArray) -> BoolArray:
        """Return whether moving one feature elsewhere, (M + C,), makes too many changes."""
        row, start = self.row, self.grid.starts[:-1]
        moved = row.counts & ~row.can_stay[start + cells]
        changed = row.group_counts & ~row.current[categories]
        count, owner, group = moved.sum() + changed.sum(), self.owner, self.group
        numbers = count - moved[owner] + (row.counts[owner] & ~row.can_stay)
        sets = count - changed[group] + (row.group_counts[group] & ~row.current)
        return np.asarray(np.concatenate([numbers, sets]) > row.most)

    def _after(self, state: State, move: int) -> State:
        """Return cells and categories after a move."""
        cells, categories = state
        if move < len(self.owner):
            cells = cells.copy()
            cells[self.owner[move]] = self.place[move]
        else:
            categories = categories.copy()
            member = move - len(self.owner)
            categories[self.group[member]] = member
        return cells, categories

    def _best_move(self, now: FloatArray, moved: FloatArray, extra: FloatArray) -> int | None:
        """Return the move of one feature to make next; None to stay."""
        if not len(extra):  # all numbers are missing, and there are no categories
            return None
        satisfied: BoolArray = np.asarray((moved >= self.needs[:, None]).all(axis=0))
        best = int(np.where(satisfied, extra, np.inf).argmin())
        if (now >= self.needs).all():
            return best if extra[best] < 0.0 else None
        if satisfied[best] and np.isfinite(extra[best]):
            return best
        return self._steepest(now, moved, extra)

    def _steepest(self, now: FloatArray, moved: FloatArray, extra: FloatArray) -> int | None:
        """Return the move that gains most for what it costs."""
        short = np.minimum(moved - self.needs[:, None], 0.0).sum(axis=0)
        gain = short - np.minimum(now - self.needs, 0.0).sum()
        gain[np.isinf(extra)] = 0.0
        with np.errstate(over="ignore"):  # what costs nothing comes first
            rate = np.where(gain > SHARE * gain.max(), gain / np.maximum(extra, TINY), 0.0)
        best = int(rate.argmax())
        return best if rate[best] > 0.0 else None

    # --- from one answer to a better one ---

    def improve(self, state: State) -> None:
        """Go from an answer to better ones until nothing helps, or the time is over.

        Or until it is one from which another answer went on.
        """
        for _ in range(PASSES):
            cost, better = self.row.cost_of(*state), None
            key = state[0].tobytes() + state[1].tobytes()
            if key in self._improved:
                return
            self._improved.add(key)
            for start, barred in self._neighbours(state):
                if clock() > self.end:
                    return
                better = self._made_up(start, barred, cost)
                if better is not None:
                    state = better
                    break
            if better is None:
                return

    def _neighbours(self, state: State) -> Iterator[tuple[State, BoolArray]]:
        """Yield the answer without one or two of its changes, and the moves that would redo these.

        The dearest changes come first.
        """
        (cells, categories), nearest = state, self.nearest
        start = self.grid.starts[:-1]
        numbers = self.row.paid[start + cells] - self.row.paid[start + nearest[0]]
        groups = self.row.category[categories] - self.row.category[nearest[1]]
        costs = np.append(numbers, groups)
        costs[np.append(cells == nearest[0], categories == nearest[1])] = -np.inf
        changed = np.argsort(-costs, kind="stable")[: np.isfinite(costs).sum()].tolist()
        for changes in (*((k,) for k in changed), *combinations(changed, 2)):
            undone = np.zeros(len(costs), dtype=bool)
            undone[list(changes)] = True
            in_numbers, in_groups = np.split(undone, [len(cells)])
            without = (
                np.where(in_numbers, nearest[0], cells),
                np.where(in_groups, nearest[1], categories),
            )
            yield without, np.append(in_numbers[self.owner], in_groups[self.group])

    def _made_up(self, state: State, barred: BoolArray, cost: float) -> State | None:
        """Return an answer below a cost by moves that meet the demands again; None for none.

        At first they move other features than those barred. On the way, each single move that would
        meet the demands is followed as well.
        """
        for turn in range(REPAIRS):
            if clock() > self.end:
                break
            now, moved = self.leaf_bound.moves(*state)
            if (now >= self.needs).all():
                return self._cheaper(state, cost)
            extra = self._extra(*state)
            if turn == 0:
                extra[barred] = np.inf
            extra[self.row.cost_of(*state) + extra >= cost] = np.inf
            satisfied = np.asarray((moved >= self.needs[:, None]).all(axis=0))
            ways = np.where(satisfied, extra, np.inf)
            best = int(ways.argmin())
            if np.isfinite(ways[best]):
                better = self._cheaper(self._after(state, best), cost)
                if better is not None:
                    return better
            extra[satisfied] = np.inf
            move = self._steepest(now, moved, extra)
            if move is None:
                return None
            state = self._after(state, move)
        return None

    def _cheaper(self, state: State, cost: float) -> State | None:
        """Return the answer to which moves lead from a state, if it costs less than that."""
        reached = self.greedy(state)
        return reached if reached and self.row.cost_of(*reached) < cost else None


def _begin(key: IntArray) -> IntArray:
    """Return where runs of equal keys begin."""
    return np.flatnonzero(np.diff(key, prepend=-1))
