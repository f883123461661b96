"""Answers by moves of one feature at a time: downhill, and from one answer to a better one nearby.

One pass over the leaves gives the sums wherever any single feature moves: leaves that a point is
in are left, those of which it fails one test are entered. An answer is improved by
taking back one or two of its changes and making up for them by moves of others, as trees exchange
leaves in Zhang et al. (2020), "An efficient adversarial attack for tree ensembles".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import combinations
from typing import final

import numpy as np

from counterpoint.families.trees.leaf_bound import LeafBound
from counterpoint.numerics import TINY, BoolArray, FloatArray, IntArray, clock

__all__ = ["Exchange"]

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
