"""One row over a grid: what its cells cost, and what boxes of them cost, many boxes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from counterpoint.families.trees.grid import NUMBER, SET, Grid, narrowed
from counterpoint.numerics import (
    AFTER,
    EPS,
    LEAST,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    gamma,
)
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import MinimumChange
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases
from counterpoint.rows import lattice

__all__ = ["Boxes", "Costs", "Row", "held", "on_lattice", "reduced"]

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

    def __getitem__(self, some: slice | BoolArray | IntArray) -> Boxes:
        return Boxes(self.low[some], self.high[some], self.among[some])

    @classmethod
    def stacked(cls, parts: Sequence[Boxes]) -> Boxes:
        """The boxes of all parts."""
        return cls(
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            np.concatenate([part.among for part in parts]),
        )

    @property
    def hull(self) -> Boxes:
        """One box that holds all of them."""
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        return Boxes(low[None], high[None], np.logical_or.reduce(self.among)[None])

    def hold(self, cells: IntArray, categories: IntArray) -> bool:
        """Whether the first box holds cells and categories."""
        within = (self.low[0] <= cells) & (cells <= self.high[0])
        return bool(within.all() and self.among[0, categories].all())

    def halves(self, grid: Grid, splits: IntArray) -> Boxes:
        """The two parts of each box by (n, 3) splits, one after the other.

        They are the cells before one, or the categories of a set; and the rest.
        """
        low, high = np.repeat(self.low, 2, axis=0), np.repeat(self.high, 2, axis=0)
        among = np.repeat(self.among, 2, axis=0)
        kind, what, where = splits.T
        left = 2 * np.flatnonzero(kind == NUMBER)
        f, cell = what[kind == NUMBER], where[kind == NUMBER]
        high[left, f] = np.minimum(high[left, f], cell - 1)
        low[left + 1, f] = np.maximum(low[left + 1, f], cell)
        left, m = 2 * np.flatnonzero(kind == SET), what[kind == SET]
        among[left] &= grid.sets[m] | (grid.owner != grid.of_set[m, None])
        among[left + 1] &= ~grid.sets[m]
        return Boxes(low, high, among)


@final
@dataclass(frozen=True, eq=False)
class Costs:
    """What n boxes cost at least, and at which nearest points."""

    boxes: Boxes  # without cells that have no value at their ends
    base: FloatArray  # (n,) infinite where nothing is left
    cells: IntArray  # (n, F) of the nearest points
    categories: IntArray  # (n, groups), among those of all groups
    own: FloatArray  # (n, F) and (n, groups) what these cost
    groups: FloatArray
    # (n, F) and (n, groups) which features that count may stay as they are, and (n,) how many more
    # of them may change; None if changes are not counted
    already_satisfied: BoolArray | None
    leaves: BoolArray | None
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
class Charges:
    """What changes of single columns cost at least, with multipliers of linear relations.

    For any multipliers, no point that keeps the relations costs less than price(y − x) + slope ·
    (y − x) + base. All of it is lowered by a ``share`` of its terms, for roundings.
    """

    def __init__(
        self, program: Program, case: Cases, multipliers: FloatArray, share: float
    ) -> None:
        self.program, self.x, encoded_cost = program, case.x[0], program.encoded_cost
        cut = program.cut(multipliers[None])
        self.slope, terms = cut.normal[0], (cut.weights @ cut.normals)[0]
        self.off = gamma(cut.roundings) * terms + share * np.abs(self.slope)
        self.absolute = encoded_cost.absolute * (1.0 - share) - self.off
        self.nonlinear, self.share = encoded_cost.diagonal * (1.0 - share), share
        size = terms @ np.abs(self.x) + np.abs(cut.offset[0])
        base = self.slope @ self.x - cut.offset[0] - cut.doubt[0]
        self.base = float(base - (gamma(cut.roundings + len(terms) + AFTER) + share) * size)

    def least(self, columns: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """(m,) the least that values of columns in [low, high] cost; infinite if there are none."""
        x, steps, slope = self.x[columns], self.program.steps[columns], self.slope[columns]
        flat, nonlinear = np.maximum(self.absolute[columns], 0.0), self.nonlinear[columns]
        steep = np.maximum(np.abs(slope) - flat, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            free = -np.sign(slope) * np.where(steep > 0.0, steep / (2.0 * nonlinear), 0.0)
            count = np.where(steps > 0.0, free / steps, 0.0)
            both = []
            for near in (np.floor(count), np.ceil(count)):
                toward = np.where(steps > 0.0, lattice.number(x, near, steps), x + free)
                change = _nearest(x, low, high, steps, toward) - x
                size = np.abs(change)
                both.append(flat * size + nonlinear * size * size + slope * change)
            lost = np.maximum(-self.absolute[columns], 0.0)
            reach = np.maximum(np.abs(low - x), np.abs(high - x))
            found = np.minimum(*both) - np.where(lost > 0.0, lost * reach, 0.0)
        empty = np.isnan(_nearest(x, low, high, steps))
        return np.where(empty, np.inf, np.where(np.isfinite(found), found, -(LEAST**-0.5)))


@final
class Row:
    """One row of a program: what its cells cost, and where in them the nearest value is.

    With (m,) multipliers of linear relations, cells cost what `Charges` say.
    """

    def __init__(
        self, grid: Grid, program: Program, case: Cases, multipliers: FloatArray | None = None
    ) -> None:
        self.grid, self.x, self.program, self.case = grid, case.x[0], program, case
        low, high = on_lattice(self.x, case.low[0], case.high[0], program.steps)
        self.bounds = low, high
        clear = [c.margins for c in program.region if isinstance(c, MinimumChange)]
        self.clear = np.max(clear, axis=0) if clear else np.zeros(program.width)
        share = (len(grid.columns) + len(grid.groups) + ROUNDINGS) * 2.0 * UNIT
        self.shave, self.share, objective_terms = 1.0 - share, 0.0, None
        if multipliers is not None:
            self.share = 4.0 * (share + program.width * UNIT)
            objective_terms = Charges(program, case, multipliers, self.share)
        self._set_numbers(program, low, high, objective_terms)
        self._set_categories(program, low, high, objective_terms)
        rest = np.flatnonzero(program.numeric)
        self.rest = rest[~np.isin(rest, grid.columns)]  # what no tree looks at
        x = self.x[self.rest]
        ends = low[self.rest], high[self.rest]
        self.away = _nearest(x, *ends, program.steps[self.rest])
        paid = self.shave * _paid(program.encoded_cost, self.rest, self.away, x)
        if objective_terms is not None:
            paid = objective_terms.least(self.rest, *ends)
        self.rest_cost = float(paid.sum() - self.share * np.abs(paid).sum())
        self.rest_cost += 0.0 if objective_terms is None else objective_terms.base
        self.most: int | None = None
        if program.at_most is not None:
            counted = np.zeros(len(self.x), dtype=bool)
            for block in program.at_most.blocks:
                counted[block] = True
            gone = (self.away != x) if objective_terms is None else (ends[0] > x) | (ends[1] < x)
            self.most = program.at_most.count - int((counted[self.rest] & gone).sum())
            self.counts = counted[grid.columns]
            self.group_counts = np.array([counted[g.start] for g in grid.groups], dtype=bool)
        among = np.isfinite(self.category)
        first, last = self.next[grid.starts[:-1]], self.last[grid.starts[1:] - 1]
        some = reduced(np.logical_or, among[None], grid.firsts).all()
        empty = (first > self.top).any() or np.isnan(self.away).any() or not some
        self.root = None if empty else Boxes(first[None], last[None], among[None])

    def _set_numbers(
        self, program: Program, low: FloatArray, high: FloatArray, objective_terms: Charges | None
    ) -> None:
        grid, encoded_cost = self.grid, program.encoded_cost
        self.top = np.diff(grid.starts) - 1
        owner = np.repeat(np.arange(len(self.top)), self.top + 1)
        on = grid.columns[owner]
        x, step = self.x[on], program.steps[on]
        inner, outer = (
            (np.maximum(first, low[on]), np.minimum(last, high[on]))
            for first, last in (self.ends(EPS), self.ends())
        )
        self.value = _nearest(x, *inner, step)
        # (M,) by who goes there, and at least by whatever is there
        self.paid = _paid(encoded_cost, on, self.value, x)
        self.paid[np.isnan(self.value)] = np.inf
        if objective_terms is None:
            self.cost = self.shave * _paid(encoded_cost, on, _nearest(x, *outer, step), x)
            self.cost[np.isnan(self.cost)] = np.inf
        else:
            self.cost = objective_terms.least(on, *outer)
        self.can_stay = self.value == x
        # of each cell, the first from it on that has a value, and the last up to it: from 0, past
        # the ends if there is none
        start = grid.starts[owner]
        place, there = np.arange(len(on)), np.isfinite(self.cost)
        after = np.minimum.accumulate(np.where(there, place, len(on))[::-1])[::-1]
        self.next = np.minimum(after, grid.starts[owner + 1]) - start
        before = np.maximum.accumulate(np.where(there, place, -1))
        self.last = np.maximum(before, start - 1) - start
        # the cheapest cell of each number; on either side of it none is cheaper than one before
        least = reduced(np.minimum, self.cost[None], grid.starts[:-1])[0]
        best = np.flatnonzero(self.cost == least[owner])
        home = best[np.searchsorted(owner[best], np.arange(len(self.top)))]
        if objective_terms is not None:  # roundings must not undo that
            for a, b, c in zip(grid.starts[:-1], home, grid.starts[1:], strict=True):
                self.cost[a:b] = np.minimum.accumulate(self.cost[a:b])
                self.cost[b:c] = np.minimum.accumulate(self.cost[b:c][::-1])[::-1]
            self.cost[~there] = np.inf
        self.here = np.full(len(self.top), -1)  # the cell of each number as it is; −1 for none
        self.here[owner[self.can_stay]] = (place - start)[self.can_stay]
        if objective_terms is None:
            home[owner[self.can_stay]] = place[self.can_stay]
        self.home = home - grid.starts[:-1]
        # of each test, the ends without cells that have no value, and what it costs to pass
        begin = grid.starts[grid.number]
        self.first, self.final = self.next[begin + grid.first], self.last[begin + grid.last]
        empty = self.first > self.final
        at = begin + np.where(empty, 0, np.clip(self.home[grid.number], self.first, self.final))
        self.asked = np.where(empty, np.inf, self.cost[at])

    def ends(self, eps: float | None = None) -> tuple[FloatArray, FloatArray]:
        """(M,) what may be in each cell; what surely is, of numbers kept so that 1 + eps is next.

        What is left of it beyond the thresholds that are crossed, by the clearance that is asked.
        """
        grid = self.grid
        low, high = (grid.outer_low, grid.outer_high) if eps is None else grid.inner(eps)
        on = np.repeat(grid.columns, np.diff(grid.starts))
        clear, x = self.clear[on], self.x[on]
        if not clear.any():
            return low, high
        if eps is None:  # whatever may hold x is not cut, for what stays crosses nothing
            rises, falls = grid.outer_low > x, grid.outer_high < x
        else:
            rises, falls = grid.cuts >= x, grid.upper < x
        cut = (clear > 0.0) & np.isfinite(grid.cuts), (clear > 0.0) & np.isfinite(grid.upper)
        first = np.where(rises & cut[0], MinimumChange.beyond(grid.cuts, clear)[0], -np.inf)
        last = np.where(falls & cut[1], MinimumChange.beyond(grid.upper, clear)[1], np.inf)
        if eps is not None and eps > EPS:
            first, last = narrowed(first, last)
        return np.maximum(low, first), np.minimum(high, last)

    def _set_categories(
        self, program: Program, low: FloatArray, high: FloatArray, objective_terms: Charges | None
    ) -> None:
        grid, on = self.grid, self.grid.members
        allowed, held = high[on] > 0.5, low[on] > 0.5
        allowed &= held | ~reduced(np.logical_or, held[None], grid.firsts)[0][grid.owner]
        self.already_satisfied = self.x[on] > 0.5
        entered = program.duality.diagonal.entered(self.x[None])[0, on]
        self.category = np.where(allowed, entered, np.inf)
        self.category_low = self.shave * self.category
        if objective_terms is not None:
            slope, off = objective_terms.slope[on], objective_terms.off[on]
            both = np.where(self.already_satisfied, [slope, off], 0.0)
            now = reduced(np.add, both, grid.firsts)[:, grid.owner]
            charged = (1.0 - self.share) * self.category_low[allowed]
            self.category_low[allowed] = charged + (slope - off - now.sum(axis=0))[allowed]

    def costs(self, boxes: Boxes) -> Costs:
        """What boxes cost."""
        grid, starts = self.grid, self.grid.starts[:-1]
        low = self.next[starts + np.clip(boxes.low, 0, self.top)]
        high = self.last[starts + np.clip(boxes.high, 0, self.top)]
        none = (low > high) | (boxes.low > boxes.high)
        cells = np.clip(self.home, low, np.maximum(low, high))
        cells[none] = 0
        at = starts + cells
        own = np.where(none, np.inf, self.cost[at])
        some = np.where(boxes.among, self.category_low, np.inf)
        groups = reduced(np.minimum, some, grid.firsts)
        base = self.rest_cost + own.sum(axis=1) + groups.sum(axis=1)
        empty = np.isinf(base)[:, None]
        own, groups = np.where(empty, 0.0, own), np.where(empty, 0.0, groups)
        if self.share:
            base -= self.share * (np.abs(own).sum(axis=1) + np.abs(groups).sum(axis=1))
        best = [some[:, span].argmin(axis=1) + span.start for span in grid.spans]
        categories = np.array(best, dtype=np.intp).reshape(len(grid.spans), len(boxes)).T
        already_satisfied = leaves = left = None
        if self.most is not None:
            already_satisfied = self.counts & (low <= self.here) & (self.here <= high)
            leaves = self.group_counts & reduced(
                np.logical_or, boxes.among & self.already_satisfied, grid.firsts
            )
            moved = (self.counts & ~already_satisfied).sum(axis=1) + (
                self.group_counts & ~leaves
            ).sum(axis=1)
            left = self.most - moved
            base = np.where(left < 0, np.inf, base)
        boxes = Boxes(low, high, boxes.among)
        return Costs(boxes, base, cells, categories, own, groups, already_satisfied, leaves, left)

    def asks(self, known: Costs, tests: IntArray) -> tuple[FloatArray, BoolArray | None]:
        """(t, n) what it costs at least to pass tests, in ascending order, besides what boxes cost.

        And whether that changes one more of the features that count; None if they are not counted.
        """
        grid, boxes = self.grid, known.boxes
        ends = np.searchsorted(tests, [len(grid.number), grid.pad])
        n, m = tests[: ends[0]], tests[ends[0] : ends[1]] - len(grid.number)
        f, g = grid.number[n], grid.of_set[m]
        more = np.zeros((len(tests), len(boxes)))
        # what either asks for is asked for by the dearer one: costs rise on both sides of home
        numbers = np.maximum(self.asked[n, None] - known.own.T[f], 0.0)
        misses = (self.first[n, None] > boxes.high.T[f]) | (self.final[n, None] < boxes.low.T[f])
        numbers[misses] = np.inf
        more[: ends[0]] = numbers
        if len(m):
            which, members = np.nonzero(grid.sets[m])
            begin = np.searchsorted(which, np.arange(len(m)))
            some = np.where(boxes.among.T, self.category_low[:, None], np.inf)[members]
            more[ends[0] : ends[1]] = np.minimum.reduceat(some, begin) - known.groups.T[g]
        if known.already_satisfied is None or known.leaves is None:
            return more, None
        changes = np.zeros(more.shape, dtype=bool)
        stay = (grid.first[n] <= self.here[f]) & (self.here[f] <= grid.last[n])
        changes[: ends[0]] = known.already_satisfied.T[f] & ~stay[:, None]
        if len(m):
            kept = np.logical_or.reduceat((boxes.among & self.already_satisfied).T[members], begin)
            changes[ends[0] : ends[1]] = known.leaves.T[g] & ~kept
        return more, changes

    def allows(self, cells: IntArray, categories: IntArray) -> bool:
        """Whether the nearest point in cells may be chosen."""
        if not np.isfinite(self.price_of(cells, categories)):
            return False
        if self.most is None:
            return True
        numbers = self.counts & ~self.can_stay[self.grid.starts[:-1] + cells]
        return (
            int(numbers.sum() + (self.group_counts & ~self.already_satisfied[categories]).sum())
            <= self.most
        )

    def cells(self, y: FloatArray) -> tuple[IntArray, IntArray]:
        """The cells and categories of a point."""
        grid = self.grid
        cells = [
            int(np.searchsorted(grid.outer_low[a:b], y[column], "right")) - 1
            for a, b, column in zip(grid.starts[:-1], grid.starts[1:], grid.columns, strict=True)
        ]
        chosen = [
            span.start + int(y[group].argmax())
            for span, group in zip(grid.spans, grid.groups, strict=True)
        ]
        return np.array(cells, np.intp), np.array(chosen, np.intp)

    def passed(self, cells: IntArray, categories: IntArray) -> BoolArray:
        """(tests + 1,): which tests the points of cells pass."""
        grid, at = self.grid, cells[self.grid.number]
        sets = grid.sets[np.arange(len(grid.of_set)), categories[grid.of_set]]
        return np.concatenate([(grid.first <= at) & (at <= grid.last), sets, [True]])

    def around(self, cells: IntArray, categories: IntArray) -> Boxes:
        """The box of all cells in which every tree has the leaf that it has in these.

        Of a number that is to be clear of thresholds only its own: not all between them are.
        """
        grid, passed = self.grid, self.passed(cells, categories)
        own = np.unique(grid.tests[passed[grid.tests].all(axis=1)])
        n = own[own < len(grid.number)]
        m = own[(own >= len(grid.number)) & (own < grid.pad)] - len(grid.number)
        low, high = np.zeros(len(cells), dtype=np.intp), np.array(self.top)
        np.maximum.at(low, grid.number[n], grid.first[n])
        np.minimum.at(high, grid.number[n], grid.last[n])
        alone = self.clear[grid.columns] > 0.0
        low[alone] = high[alone] = cells[alone]
        among = (grid.sets[m] | (grid.owner != grid.of_set[m, None])).all(axis=0)
        return Boxes(low[None], high[None], among[None])

    def charging(self, multipliers: FloatArray) -> Row:
        """The row with multipliers of linear relations."""
        if not multipliers.any():
            return self
        return Row(self.grid, self.program, self.case, multipliers)

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
    """(d,) the nearest point in cells among numbers that are kept so that 1 + eps is next.

    Where only so many columns may change, those that do not need to are left where they are.
    """
    y, on = row.point(cells, categories), row.grid.columns
    at = row.grid.starts[:-1] + cells
    low, high = (np.asarray(end)[at] for end in row.ends(eps))
    low, high = np.maximum(low, row.bounds[0][on]), np.minimum(high, row.bounds[1][on])
    value = _nearest(row.x[on], low, high, row.program.steps[on])
    already_satisfied = np.isnan(value) | ((y[on] == row.x[on]) & (row.program.at_most is not None))
    y[on] = np.where(already_satisfied, y[on], value)
    return y


def reduced(how: np.ufunc, values: Any, begin: IntArray) -> Any:
    """(n, m) → (n, parts) what parts that begin at places reduce to."""
    return how.reduceat(values, begin, axis=1) if len(begin) else values[:, :0]


def on_lattice(
    x: FloatArray, low: FloatArray, high: FloatArray, steps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The bounds of whole columns on the values that are whole steps from x."""
    low, high = np.array(low), np.array(high)
    whole = np.flatnonzero(steps)
    at, step = x[whole], steps[whole]
    low[whole], high[whole] = lattice.within_bounds(at, low[whole], high[whole], step)
    return low, high


def _nearest(
    x: FloatArray,
    low: FloatArray,
    high: FloatArray,
    steps: FloatArray,
    toward: FloatArray | None = None,
) -> FloatArray:
    """The values in [low, high] nearest to x, in whole steps from it if there are; NaN if none.

    Or nearest to other values, which are as many steps away.
    """
    toward = x if toward is None else toward
    out = np.clip(toward, low, high)
    out[(low > high) | np.isinf(out)] = np.nan  # a split by what is missing alone is at infinity
    whole = np.flatnonzero((steps > 0.0) & (out != toward) & ~np.isnan(out))
    if len(whole):
        at, step, up = x[whole], steps[whole], out[whole] > toward[whole]
        least, most = lattice.within(at, low[whole], high[whole], step)
        value = np.where(up, least, most)
        out[whole] = np.where(least <= most, value, np.nan)
    return out


def _paid(encoded_cost: EncodedCost, columns: IntArray, y: FloatArray, x: FloatArray) -> FloatArray:
    """What it costs to move columns to values one by one; NaN if there is none."""
    size = encoded_cost.apart(columns, y, x)
    return np.asarray(
        encoded_cost.absolute[columns] * size + encoded_cost.diagonal[columns] * size * size
    )
