"""One row over a grid: what its cells cost, and what boxes of them cost, many boxes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from counterpoint.costs import Price
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.numerics import STEP_SLACK, UNIT, BoolArray, FloatArray, IntArray
from counterpoint.trees.grid import NUMBER, Grid, Split

__all__ = ["Boxes", "Costs", "Row", "held", "reduced"]

ROUNDINGS = 16
"""Roundings of what one feature costs, and of a share of it."""


@final
@dataclass(frozen=True, eq=False)
class Boxes:
    """The cells that are left of each number, and the categories, in n boxes."""

    low: IntArray  # (n, F)
    high: IntArray  # (n, F)
    among: BoolArray  # (n, C)

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, i: int) -> Boxes:
        return Boxes(self.low[i : i + 1], self.high[i : i + 1], self.among[i : i + 1])

    @classmethod
    def stacked(cls, parts: Sequence[Boxes]) -> Boxes:
        """The boxes of all parts."""
        return cls(
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            np.concatenate([part.among for part in parts]),
        )

    def halves(self, grid: Grid, split: Split) -> Boxes:
        """The two parts of one box: the cells before one, or the categories of a set; the rest."""
        kind, what, where = split
        low, high = np.repeat(self.low, 2, axis=0), np.repeat(self.high, 2, axis=0)
        among = np.repeat(self.among, 2, axis=0)
        if kind == NUMBER:
            high[0, what] = min(high[0, what], where - 1)
            low[1, what] = max(low[1, what], where)
        else:
            span = grid.spans[grid.of_set[what]]
            among[0, span] &= grid.sets[what, span]
            among[1, span] &= ~grid.sets[what, span]
        return Boxes(low, high, among)


@final
@dataclass(frozen=True, eq=False)
class Costs:
    """What n boxes cost at least, at which nearest points, and what tests ask for besides."""

    base: FloatArray  # (n,) infinite where nothing is left
    cells: IntArray  # (n, F) of the nearest points
    categories: IntArray  # (n, groups), among those of all groups
    more: FloatArray  # (n, tests + 1) what it costs at least to pass each test, besides
    # (n, tests + 1) whether that changes one more of the features that count, and (n,) how many
    # more may change; None if changes are not counted
    changes: BoolArray | None
    left: IntArray | None

    def passed(self, grid: Grid, box: IntArray, tests: IntArray) -> BoolArray:
        """(m, w): whether the nearest points of (m,) boxes pass tests."""
        out = np.ones(tests.shape, dtype=bool)
        owner = np.broadcast_to(box[:, None], tests.shape)
        here = tests < len(grid.number)
        n = tests[here]
        cells = self.cells[owner[here], grid.number[n]]
        out[here] = (grid.first[n] <= cells) & (cells <= grid.last[n])
        here = ~here & (tests < grid.pad)
        m = tests[here] - len(grid.number)
        out[here] = grid.sets[m, self.categories[owner[here], grid.of_set[m]]]
        return out


@final
class Row:
    """One row of a program: what its cells cost, and where in them the nearest value is."""

    def __init__(self, grid: Grid, program: Program, case: Cases) -> None:
        self.grid, self.x, self.steps = grid, case.x[0], program.steps
        low, high = _on_lattice(self.x, case.low[0], case.high[0], program.steps)
        self.bounds = low, high
        shave = 1.0 - (len(grid.columns) + len(grid.groups) + ROUNDINGS) * 2.0 * UNIT
        self._set_numbers(program, low, high, shave)
        self._set_categories(program, low, high, shave)
        rest = np.flatnonzero(program.numeric)
        self.rest = rest[~np.isin(rest, grid.columns)]  # what no tree looks at
        x = self.x[self.rest]
        self.away = _nearest(x, low[self.rest], high[self.rest], program.steps[self.rest])
        self.rest_cost = float(shave * _paid(program.price, self.rest, self.away - x).sum())
        self.most: int | None = None
        if program.at_most is not None:
            counted = np.zeros(len(self.x), dtype=bool)
            for block in program.at_most.blocks:
                counted[block] = True
            self.most = program.at_most.count - int((counted[self.rest] & (self.away != x)).sum())
            self.counts = counted[grid.columns]
            self.group_counts = np.array([counted[g.start] for g in grid.groups], dtype=bool)
        among = np.isfinite(self.category)
        first, last = self.next[grid.starts[:-1]], self.last[grid.starts[1:] - 1]
        some = reduced(np.logical_or, among[None], grid.firsts).all()
        empty = (first > self.top).any() or np.isnan(self.away).any() or not some
        self.root = None if empty else Boxes(first[None], last[None], among[None])

    def _set_numbers(
        self, program: Program, low: FloatArray, high: FloatArray, shave: float
    ) -> None:
        grid, price = self.grid, program.price
        owner = np.repeat(np.arange(len(grid.columns)), np.diff(grid.starts))
        on = grid.columns[owner]
        x, step = self.x[on], program.steps[on]
        inner = np.maximum(grid.inner_low, low[on]), np.minimum(grid.inner_high, high[on])
        outer = np.maximum(grid.outer_low, low[on]), np.minimum(grid.outer_high, high[on])
        self.value = _nearest(x, *inner, step)
        # (M,) by who goes there, and at least by whatever is there
        self.paid = _paid(price, on, self.value - x)
        self.paid[np.isnan(self.value)] = np.inf
        self.cost = shave * _paid(price, on, _nearest(x, *outer, step) - x)
        self.cost[np.isnan(self.cost)] = np.inf
        self.can_stay = self.value == x
        # the cheapest cell of each number; of each cell, the first from it on that has a value,
        # and the last up to it: from 0, past the ends if there is none
        start = grid.starts[owner]
        place, there = np.arange(len(on)), np.isfinite(self.cost)
        after = np.minimum.accumulate(np.where(there, place, len(on))[::-1])[::-1]
        self.next = np.minimum(after, grid.starts[owner + 1]) - start
        before = np.maximum.accumulate(np.where(there, place, -1))
        self.last = np.maximum(before, start - 1) - start
        self.top = np.diff(grid.starts) - 1
        ends = zip(grid.starts, grid.starts[1:], strict=False)
        self.home = np.array([self.cost[a:b].argmin() for a, b in ends], dtype=np.intp)

    def _set_categories(
        self, program: Program, low: FloatArray, high: FloatArray, shave: float
    ) -> None:
        grid, price = self.grid, program.price
        self.category = np.full(grid.sets.shape[1], np.inf)  # what each of them costs
        self.stays = np.zeros(len(self.category), dtype=bool)
        for span, group in zip(grid.spans, grid.groups, strict=True):
            here = int(self.x[group].argmax())
            allowed = high[group] > 0.5
            if (low[group] > 0.5).any():
                allowed &= low[group] > 0.5
            for one in program.transitions:
                if one.columns == group:
                    allowed &= one.allowed[here]
            moves = np.abs(np.eye(len(allowed)) - self.x[group])
            paid = moves @ price.absolute[group] + moves**2 @ price.diagonal[group]
            self.category[span] = np.where(allowed, paid, np.inf)
            self.stays[span.start + here] = True
        self.category_low = shave * self.category

    def nearest(self, low: IntArray, high: IntArray, number: IntArray | slice) -> IntArray:
        """(n, m) the cheapest of the cells from low to high of numbers; −1 where none is left."""
        home, start = self.home[number], self.grid.starts[:-1][number]
        right = self.next[start + np.minimum(low, self.top[number])]
        left = self.last[start + np.maximum(high, 0)]
        at = np.where(low > home, right, np.where(high < home, left, home))
        return np.where((at >= low) & (at <= high), at, -1)

    def costs(self, boxes: Boxes) -> Costs:
        """What boxes cost."""
        grid = self.grid
        starts = grid.starts[:-1]
        cells = self.nearest(boxes.low, boxes.high, slice(None))
        at_home = starts + np.maximum(cells, 0)
        own = np.where(cells < 0, np.inf, self.cost[at_home])
        some = np.where(boxes.among, self.category_low, np.inf)
        groups = reduced(np.minimum, some, grid.firsts)
        base = self.rest_cost + own.sum(axis=1) + groups.sum(axis=1)
        empty = np.isinf(base)[:, None]
        own, groups = np.where(empty, 0.0, own), np.where(empty, 0.0, groups)
        best = [some[:, span].argmin(axis=1) + span.start for span in grid.spans]
        categories = np.array(best, dtype=np.intp).reshape(len(grid.spans), len(boxes)).T

        low = np.maximum(grid.first, boxes.low[:, grid.number])
        high = np.minimum(grid.last, boxes.high[:, grid.number])
        at = self.nearest(low, high, grid.number)
        place = starts[grid.number] + np.maximum(at, 0)
        more = np.zeros((len(boxes), grid.pad + 1))
        numbers, sets = slice(0, len(grid.number)), slice(len(grid.number), grid.pad)
        more[:, numbers] = np.where(at < 0, np.inf, self.cost[place] - own[:, grid.number])
        passed = reduced(np.minimum, some[:, grid.members], grid.begin)
        more[:, sets] = passed - groups[:, grid.of_set]
        if self.most is None:
            return Costs(base, cells, categories, more, None, None)

        goes = self.counts & self.can_stay[at_home]
        among = boxes.among & self.stays
        leaves = self.group_counts & reduced(np.logical_or, among, grid.firsts)
        moved = (self.counts & ~goes).sum(axis=1) + (self.group_counts & ~leaves).sum(axis=1)
        left = self.most - moved
        changes = np.zeros(more.shape, dtype=bool)
        changes[:, numbers] = goes[:, grid.number] & ~self.can_stay[place]
        kept = reduced(np.logical_or, among[:, grid.members], grid.begin)
        changes[:, sets] = leaves[:, grid.of_set] & ~kept
        return Costs(np.where(left < 0, np.inf, base), cells, categories, more, changes, left)

    def price_of(self, cells: IntArray, categories: IntArray) -> float:
        """What the nearest point in cells costs."""
        numbers = self.paid[self.grid.starts[:-1] + cells].sum()
        return self.rest_cost + float(numbers + self.category[categories].sum())

    def point(self, cells: IntArray, categories: IntArray) -> FloatArray:
        """(d,) the nearest point in cells."""
        y = np.array(self.x)
        y[self.rest] = self.away
        y[self.grid.columns] = self.value[self.grid.starts[:-1] + cells]
        for group, at in zip(self.grid.groups, categories - self.grid.firsts, strict=True):
            y[group] = 0.0
            y[group.start + at] = 1.0
        return y


def held(row: Row, cells: IntArray, categories: IntArray, eps: float) -> FloatArray:
    """(d,) the nearest point in cells among numbers that are kept so that 1 + eps is next."""
    y, on = row.point(cells, categories), row.grid.columns
    at = row.grid.starts[:-1] + cells
    low, high = (np.asarray(end)[at] for end in row.grid.inner(eps))
    low, high = np.maximum(low, row.bounds[0][on]), np.minimum(high, row.bounds[1][on])
    value = _nearest(row.x[on], low, high, row.steps[on])
    y[on] = np.where(np.isnan(value), y[on], value)
    return y


def reduced(how: np.ufunc, values: Any, begin: IntArray) -> Any:
    """(n, m) → (n, parts) what parts that begin at places reduce to."""
    return how.reduceat(values, begin, axis=1) if len(begin) else values[:, :0]


def _on_lattice(
    x: FloatArray, low: FloatArray, high: FloatArray, steps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The bounds of whole columns on the values that are whole steps from x."""
    low, high = np.array(low), np.array(high)
    whole = np.flatnonzero(steps)
    at, step = x[whole], steps[whole]
    low[whole] = at + np.ceil((low[whole] - at) / step - STEP_SLACK) * step
    high[whole] = at + np.floor((high[whole] - at) / step + STEP_SLACK) * step
    return low, high


def _nearest(x: FloatArray, low: FloatArray, high: FloatArray, steps: FloatArray) -> FloatArray:
    """The values in [low, high] nearest to x, in whole steps from it if there are; NaN if none."""
    out = np.where(low > high, np.nan, np.clip(x, low, high))
    whole = np.flatnonzero((steps > 0.0) & (out != x) & ~np.isnan(out))
    if len(whole):
        at, step, up = x[whole], steps[whole], out[whole] > x[whole]
        way, end = np.where(up, step, -step), np.where(up, low[whole], high[whole])
        count = np.ceil((end - at) / way) - 1.0
        for _ in range(2):  # the quotient may have been rounded across a whole number
            found = at + count * way
            count += np.where(up, found < low[whole], found > high[whole])
        found = at + count * way
        out[whole] = np.where((found >= low[whole]) & (found <= high[whole]), found, np.nan)
    return out


def _paid(price: Price, columns: IntArray, change: FloatArray) -> FloatArray:
    """What changes of columns cost one by one; NaN if there is none."""
    size = np.abs(change)
    return np.asarray(price.absolute[columns] * size + price.diagonal[columns] * size * size)
