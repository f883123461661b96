"""What is left in boxes of cells: the staircase, which closes them, and where to split the others.

In a box, a leaf costs at least what its nearest cells cost. With m_t(r) the largest value of a leaf
of tree t that costs at most r, S(r) = b + Σ_t m_t(r) bounds the sum at every point of the box that
costs at most r (the *staircase*): the least r at which S(r) meets the demands is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple, final

import numpy as np

from counterpoint.families.trees.boxes import Boxes, Costs, Row
from counterpoint.families.trees.form import LeafSums
from counterpoint.families.trees.grid import NUMBER, SET, Split
from counterpoint.numerics import BoolArray, FloatArray, IntArray

__all__ = ["LeafBound"]

HALVINGS = 10
"""How closely the radius of a box is found: what it is worth, over 2 to the power of so many."""


@cache
def _kernel() -> ModuleType | None:
    """The loops, compiled; None without Numba."""
    if find_spec("numba") is None:
        return None
    return import_module("counterpoint.families.trees.kernel")


@final
class Tables(NamedTuple):
    """Arrays of a grid, of a row over it, and of what is demanded."""

    starts: IntArray
    number: IntArray
    first: IntArray
    last: IntArray
    sets: BoolArray
    of_set: IntArray
    spans: IntArray  # (groups + 1,) where the categories of each begin
    tests: IntArray
    tree: IntArray
    home: IntArray
    next: IntArray
    before: IntArray  # `Row.last`
    cost: FloatArray
    category: FloatArray  # `Row.category_low`
    rest: float
    counts: BoolArray
    group_counts: BoolArray
    here: IntArray
    already_satisfied: BoolArray
    share: float
    most: int  # changes; −1 if they are not counted
    values: FloatArray  # (r, L)
    shift: FloatArray
    needs: FloatArray
    missed: FloatArray
    near: FloatArray  # as `missed`, for sums that are added up one leaf after the other


@final
class Seen(NamedTuple):
    """What n boxes hold."""

    bound: FloatArray  # (n,) infinite for those that hold nothing cheaper than it is worth
    ends: IntArray  # (n,) where the leaves that matter of each end
    leaves: IntArray  # one box after the other
    cells: IntArray
    categories: IntArray
    satisfied: BoolArray  # whether the nearest point meets what is needed
    splits: IntArray  # (n, 3); kind 0 for none
    own: IntArray  # (n, T) the leaf of each tree at the nearest point


@final
@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of n boxes that matter, those of one box after those of another."""

    which: IntArray  # (A,)
    box: IntArray  # (A,)
    cost: FloatArray  # (A,) what each costs at least
    begin: IntArray  # (n · T,) where those of each box and tree begin


@final
class LeafBound:
    """The staircase of one row and one set of demands, which an answer meets by what it ``needs``.

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
        self, row: Row, condition: LeafSums, needs: FloatArray | float, values: FloatArray
    ) -> None:
        self.row, self.grid, self.condition = row, row.grid, condition
        self.needs = np.broadcast_to(np.asarray(needs, dtype=np.float64), condition.shift.shape)
        self.missed = -condition.tolerance[:, None]  # (r, 1) below it no model meets the demand
        self.values = values

    def look(
        self,
        boxes: Boxes,
        leaves: Sequence[IntArray],
        cost_cutoff: float,
        least: FloatArray,
    ) -> Seen:
        """What boxes hold for less than it is worth, where no point costs less than the least."""
        kernel = _kernel()
        if kernel is not None:
            return kernel.look(
                self.tables,
                (boxes.low, boxes.high, boxes.among),
                np.concatenate(leaves),
                np.cumsum([len(part) for part in leaves]),
                least,
                cost_cutoff,
            )
        n, grid = len(boxes), self.grid
        known = self.row.costs(boxes)
        held, kept = self._held(known, leaves, cost_cutoff)
        seen = Seen(
            np.full(n, np.inf),
            np.searchsorted(held[kept.box], np.arange(n), "right"),
            kept.which,
            known.cells,
            known.categories,
            np.zeros(n, dtype=bool),
            np.zeros((n, 3), dtype=np.intp),
            np.zeros((n, len(grid.tree)), dtype=np.intp),
        )
        if not len(held):
            return seen
        own = self._own(known, kept, held)
        seen.own[held] = kept.which[own]
        sums = self.values[:, kept.which[own]].sum(axis=2) + self.condition.shift[:, None]
        seen.satisfied[held] = (self.needs <= sums.T).all(axis=1)
        seen.bound[held] = self._radii(kept, np.maximum(known.base, least)[held])
        seen.splits[held] = self._splits(known, kept, held, own, seen.bound[held])
        return seen

    def moves(self, cells: IntArray, categories: IntArray) -> tuple[FloatArray, FloatArray]:
        """(r,) what a point meets demands by, and (r, M + C) if one feature alone moves."""
        kernel = _kernel()
        if kernel is not None:
            sums, moved = kernel.moves(self.tables, cells, categories)
            return sums, moved
        grid, count = self.grid, len(self.grid.number)
        failed = ~self.row.passed(cells, categories)[grid.tests]
        fails = failed.sum(axis=1)
        own, near = np.flatnonzero(fails == 0), np.flatnonzero(fails == 1)
        # leaves that the point is in are left, those that it fails one test of are entered
        left = grid.tests[own].ravel()
        entered = grid.tests[near][failed[near]]
        slots = grid.starts[:-1] + np.arange(len(grid.columns))  # one more for each number
        size = int(grid.starts[-1]) + len(grid.columns)
        first, last = slots[grid.number] + grid.first, slots[grid.number] + grid.last + 1
        stops = np.append(slots[1:], size)[: len(slots)] - 1 if len(slots) else slots
        ends = stops[grid.number]
        sums = self.values[:, own].sum(axis=1) + self.condition.shift
        spread = [span.stop - span.start for span in grid.spans]
        out = np.empty((len(sums), len(self.row.paid) + len(self.row.category)))
        for r, value in enumerate(self.values):
            lost = np.bincount(left, np.repeat(value[own], grid.tests.shape[1]), grid.pad + 1)
            won = np.bincount(entered, value[near], grid.pad + 1)
            both = (lost + won)[:count]
            steps = np.bincount(first, both, size) - np.bincount(last, both, size)
            steps += np.bincount(ends, lost[:count], size)
            steps -= np.bincount(slots[grid.number], lost[:count], size)
            whole = np.bincount(grid.of_set, lost[count:-1], len(grid.spans))
            sets = (lost + won)[count:-1] @ grid.sets - np.repeat(whole, spread)
            out[r] = sums[r] + np.append(np.delete(np.cumsum(steps), stops), sets)
        return sums, out

    @cached_property
    def tables(self) -> Tables:
        """What the compiled loops take."""
        grid, row = self.grid, self.row
        counts, group_counts = np.zeros((2, 0), dtype=bool)
        if row.most is not None:
            counts, group_counts = row.counts, row.group_counts
        return Tables(
            grid.starts,
            grid.number,
            grid.first,
            grid.last,
            grid.sets,
            grid.of_set,
            np.append(grid.firsts, grid.sets.shape[1]),
            grid.tests,
            grid.tree,
            row.home,
            row.next,
            row.last,
            row.cost,
            row.category_low,
            row.rest_cost,
            counts,
            group_counts,
            row.here,
            row.already_satisfied,
            row.share,
            -1 if row.most is None else row.most,
            self.values,
            self.condition.shift,
            self.needs,
            self.missed[:, 0],
            self.missed[:, 0]
            - self.condition.noise * np.diff(grid.tree, append=len(grid.values)).max(),
        )

    def _held(
        self, known: Costs, leaves: Sequence[IntArray], cost_cutoff: float
    ) -> tuple[IntArray, Leaves]:
        """The boxes that hold something for less than it is worth, and their leaves that do.

        In all others S does not meet the demands.
        """
        which = np.concatenate(leaves)
        box = np.repeat(np.arange(len(leaves)), [len(part) for part in leaves])
        tests = self.grid.tests[which]
        more, changes = self.row.asks(known, np.arange(self.grid.pad + 1))
        cost = known.base[box] + more[tests, box[:, None]].sum(axis=1)
        matters = cost < cost_cutoff
        if changes is not None and known.left is not None:
            matters &= changes[tests, box[:, None]].sum(axis=1) <= known.left[box]
        held, trees = np.arange(len(leaves)), self.grid.tree
        kept = Leaves(which, box, cost, self._begin(which, box, len(held)))
        kept = self._part(kept, matters, len(held))
        sizes = np.diff(np.append(kept.begin, len(kept.which))).reshape(-1, len(trees))
        full: BoolArray = np.asarray((sizes > 0).all(axis=1))
        if not full.all():
            held, kept = held[full], self._part(kept, full[kept.box], int(full.sum()))
        if len(held):
            full = self._reach(kept, np.ones(len(kept.which), dtype=bool))
            if not full.all():
                held, kept = held[full], self._part(kept, full[kept.box], int(full.sum()))
        return held, kept

    def _part(self, leaves: Leaves, some: BoolArray, count: int) -> Leaves:
        """Some of the leaves, of so many boxes."""
        box = leaves.box[some]
        if count:  # numbered anew if boxes are gone
            new = np.cumsum(np.append(0, np.diff(box) > 0)) if len(box) else box
            box = new if len(box) and new[-1] + 1 == count else box
        which = leaves.which[some]
        return Leaves(which, box, leaves.cost[some], self._begin(which, box, count))

    def _begin(self, which: IntArray, box: IntArray, count: int) -> IntArray:
        """(count · T,) where the leaves of each box and tree begin."""
        size = len(self.values[0])
        keys = (np.arange(count)[:, None] * size + self.grid.tree).ravel()
        return np.searchsorted(box * size + which, keys)

    def _top(self, leaves: Leaves, near: BoolArray) -> FloatArray:
        """(r, n, T) the largest value in each tree of the leaves that are near."""
        values = np.where(near, self.values[:, leaves.which], -np.inf)
        top = np.maximum.reduceat(values, leaves.begin, axis=1)
        return np.asarray(top.reshape(len(values), -1, len(self.grid.tree)))

    def _reach(self, leaves: Leaves, near: BoolArray) -> BoolArray:
        """(n,): whether S meets the demands with the leaves that are near."""
        sums = self._top(leaves, near).sum(axis=2) + self.condition.shift[:, None]
        return np.asarray((sums >= self.missed).all(axis=0))

    def _own(self, known: Costs, leaves: Leaves, held: IntArray) -> IntArray:
        """(n, T) the leaf of each tree at the nearest point of each box, as places among them."""
        own = np.flatnonzero(leaves.cost == known.base[held][leaves.box])
        count = len(held) * len(self.grid.tree)
        if len(own) != count:  # to change something may cost nothing
            tests = self.grid.tests[leaves.which[own]]
            own = own[known.passed(self.grid, held[leaves.box[own]], tests).all(axis=1)]
        return own.reshape(len(held), -1)

    def _radii(self, leaves: Leaves, low: FloatArray) -> FloatArray:
        """(n,) radii, from ``low`` on, below which S does not meet the demands."""
        short = ~self._reach(leaves, leaves.cost <= low[leaves.box])
        if not short.any():
            return low
        begin = leaves.begin[:: len(self.grid.tree)]
        high, low = np.maximum.reduceat(leaves.cost, begin), np.array(low)
        for _ in range(HALVINGS):
            middle = np.where(short, 0.5 * (low + high), low)
            reached = self._reach(leaves, leaves.cost <= middle[leaves.box])
            low = np.where(short & ~reached, middle, low)
            high = np.where(reached, middle, high)
        beyond = np.where(leaves.cost > low[leaves.box], leaves.cost, np.inf)
        return np.where(short, np.minimum.reduceat(beyond, begin), low)

    def _splits(
        self, known: Costs, leaves: Leaves, held: IntArray, own: IntArray, bounds: FloatArray
    ) -> IntArray:
        """(n, 3) for each box the split that most of the improving leaves ask for, if there are."""
        which, box, cost = leaves.which, leaves.box, leaves.cost
        here = self.values[:, which[own]]  # (r, n, T)
        order = np.argsort(here.sum(axis=2) + self.condition.shift[:, None], axis=0)
        out = np.zeros((len(held), 3), dtype=np.intp)
        left = np.ones(len(held), dtype=bool)
        for near in (cost <= bounds[box], np.ones(len(cost), dtype=bool)):
            top = self._top(leaves, near)
            for r in order:
                gain = np.take_along_axis(top - here, r[None, :, None], axis=0)[0]
                wanted = np.flatnonzero(left & (gain > 0.0).any(axis=1))
                if len(wanted):
                    values = np.where(near, self.values[r[box], which], -np.inf)
                    out[wanted] = self._votes(known, leaves, values, gain, held, wanted)
                    left[wanted] = False
            if not left.any():
                break
        return out

    def _votes(
        self,
        known: Costs,
        leaves: Leaves,
        values: FloatArray,
        gain: FloatArray,
        held: IntArray,
        wanted: IntArray,
    ) -> list[Split]:
        """The split that the improving leaves of each box ask for most, each by what it gains."""
        grid, trees = self.grid, len(self.grid.tree)
        sizes = np.diff(np.append(leaves.begin, len(values)))
        highest = np.flatnonzero(
            values == np.repeat(np.maximum.reduceat(values, leaves.begin), sizes)
        )
        first = highest[np.searchsorted(highest, leaves.begin)].reshape(-1, trees)
        box, tree = np.nonzero(gain[wanted] > 0.0)
        leaf = leaves.which[first[wanted[box], tree]]
        tests = grid.tests[leaf]
        who, column = np.nonzero(~known.passed(grid, held[wanted[box]], tests))
        ids, weight = tests[who, column], gain[wanted[box[who]], tree[who]]
        count = int(grid.starts[-1]) + len(grid.columns)
        is_number = ids < len(grid.number)
        n = ids[is_number]
        below = known.cells[held[wanted[box[who[is_number]]]], grid.number[n]] < grid.first[n]
        cut = np.where(below, grid.first[n], grid.last[n] + 1)
        keys = count + ids - len(grid.number)
        keys[is_number] = grid.starts[grid.number[n]] + grid.number[n] + cut
        each = count + len(grid.of_set)
        found = np.bincount(box[who] * each + keys, weight, minlength=len(wanted) * each)
        begins = grid.starts + np.arange(len(grid.starts))
        out: list[Split] = []
        for best in found.reshape(len(wanted), each).argmax(axis=1).tolist():
            f = int(np.searchsorted(begins, best, "right")) - 1
            out.append(
                (SET, best - count, 0) if best >= count else (NUMBER, f, best - int(begins[f]))
            )
        return out
