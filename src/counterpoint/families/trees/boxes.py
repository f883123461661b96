"""What the cells of a grid cost one row, and what boxes of cells cost, many boxes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from counterpoint.families.trees.grid import Grid, narrowed
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
from counterpoint.programs.proof import SplitKind
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice

ROUNDINGS = 16
"""Roundings in the cost of one feature, and in a share of it."""


@final
class CellBoxes(NamedTuple):
    """The cells of each number and the categories that are left in n boxes."""

    low: IntArray  # (n, F)
    high: IntArray  # (n, F)
    among: BoolArray  # (n, C)

    @property
    def hull(self) -> CellBoxes:
        """One box that holds all of them."""
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        return CellBoxes(low[None], high[None], np.logical_or.reduce(self.among)[None])

    def hold(self, cells: IntArray, categories: IntArray) -> bool:
        """Return whether the first box holds cells and categories."""
        within = (self.low[0] <= cells) & (cells <= self.high[0])
        return bool(within.all() and self.among[0, categories].all())

    def halves(self, grid: Grid, splits: IntArray) -> tuple[CellBoxes, CellBoxes]:
        """Return the two parts of each box by (n, 3) splits.

        They are the cells before one and the others, or the categories of a set and the others.
        """
        (low, high, among), (kind, what, where) = self, splits.T
        at, test = np.flatnonzero(kind == SplitKind.NUMBER), np.flatnonzero(kind == SplitKind.SET)
        f, cell, m = what[at], where[at], what[test]
        below, above = np.array(high), np.array(low)
        below[at, f] = np.minimum(high[at, f], cell - 1)
        above[at, f] = np.maximum(low[at, f], cell)
        inside, outside = np.array(among), np.array(among)
        inside[test] &= grid.sets[m] | (grid.owner != grid.of_set[m, None])
        outside[test] &= ~grid.sets[m]
        return CellBoxes(low, below, inside), CellBoxes(above, high, outside)


@final
@dataclass(frozen=True, eq=False)
class BoxCosts:
    """Least costs of n boxes, and their nearest points."""

    boxes: CellBoxes  # without cells that have no value at their ends
    base: FloatArray  # (n,) infinite where nothing is left
    cells: IntArray  # (n, F) of the nearest points
    categories: IntArray  # (n, groups), among those of all groups
    numbers: FloatArray  # (n, F) and (n, groups) what these cost
    groups: FloatArray
    # (n, F) and (n, groups) which features that count may stay as they are, and (n,) how many of
    # the others may change; None if changes are not counted
    numbers_stay: BoolArray | None
    groups_stay: BoolArray | None
    changes_left: IntArray | None


@final
class RelationCosts:
    """Least costs of changes of single columns, with multipliers of linear relations.

    For any multipliers, no point that keeps the relations costs less than price(y − x) + slope ·
    (y − x) + base. All of it is lowered by a ``share`` of its terms, for roundings.
    """

    def __init__(
        self, program: Program, case: Batch, multipliers: FloatArray, share: float
    ) -> None:
        self.program, self.x, encoded_cost = program, case.x[0], program.encoded_cost
        cut = program.cut(multipliers[None], case.x)
        self.slope, terms = cut.normal[0], (cut.weights @ cut.normals)[0]
        self.error = gamma(cut.roundings) * terms + share * np.abs(self.slope)
        self.absolute = encoded_cost.absolute * (1.0 - share) - self.error
        self.nonlinear, self.share = encoded_cost.diagonal * (1.0 - share), share
        size = terms @ np.abs(self.x) + np.abs(cut.offset[0])
        base = self.slope @ self.x - cut.offset[0] - cut.doubt[0]
        self.base = float(base - (gamma(cut.roundings + len(terms) + AFTER) + share) * size)

    def least(self, columns: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the least cost (m,) of columns in [low, high]; infinite where no value is."""
        x, steps, slope = self.x[columns], self.program.domain.steps[columns], self.slope[columns]
        flat, nonlinear = np.maximum(self.absolute[columns], 0.0), self.nonlinear[columns]
        steep = np.maximum(np.abs(slope) - flat, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            free = -np.sign(slope) * np.where(steep > 0.0, steep / (2.0 * nonlinear), 0.0)
            count = np.where(steps > 0.0, free / steps, 0.0)
            costs = []
            for near in (np.floor(count), np.ceil(count)):
                toward = np.where(steps > 0.0, lattice.number(x, near, steps), x + free)
                change = _nearest(x, low, high, steps, toward) - x
                size = np.abs(change)
                costs.append(flat * size + nonlinear * size * size + slope * change)
            gain = np.maximum(-self.absolute[columns], 0.0)
            reach = np.maximum(np.abs(low - x), np.abs(high - x))
            cost = np.minimum(*costs) - np.where(gain > 0.0, gain * reach, 0.0)
        empty = np.isnan(_nearest(x, low, high, steps))
        return np.where(empty, np.inf, np.where(np.isfinite(cost), cost, -(LEAST**-0.5)))


@final
class RowCosts:
    """One row of a program: the cost of each cell, and the nearest value in it.

    With (m,) multipliers of linear relations, cells cost what `RelationCosts` say.
    """

    def __init__(
        self, grid: Grid, program: Program, case: Batch, multipliers: FloatArray | None = None
    ) -> None:
        self.grid, self.x, self.program, self.case = grid, case.x[0], program, case
        low, high = np.array(case.low[0]), np.array(case.high[0])
        whole = np.flatnonzero(program.domain.steps)  # their bounds move inwards, to whole steps
        ends = low[whole], high[whole]
        ends = lattice.within_bounds(self.x[whole], *ends, program.domain.steps[whole])
        (low[whole], high[whole]), self.bounds = ends, (low, high)
        margins = [c.margins for c in program.region if isinstance(c, MinimumChange)]
        self.clearance = np.max(margins, axis=0) if margins else np.zeros(program.width)
        share = (len(grid.columns) + len(grid.groups) + ROUNDINGS) * 2.0 * UNIT
        self.shave, self.share, relations = 1.0 - share, 0.0, None
        if multipliers is not None:
            self.share = 4.0 * (share + program.width * UNIT)
            relations = RelationCosts(program, case, multipliers, self.share)
        self._set_numbers(low, high, relations)
        self._set_categories(low, high, relations)
        untested = np.flatnonzero(program.domain.numeric)
        self.untested = untested[~np.isin(untested, grid.columns)]  # numbers that no tree tests
        x = self.x[self.untested]
        ends = low[self.untested], high[self.untested]
        self.untested_value = _nearest(x, *ends, program.domain.steps[self.untested])
        paid = self.shave * _paid(program.encoded_cost, self.untested, self.untested_value, x)
        if relations is not None:
            paid = relations.least(self.untested, *ends)
        self.fixed_cost = float(paid.sum() - self.share * np.abs(paid).sum())
        self.fixed_cost += 0.0 if relations is None else relations.base
        self.most: int | None = None  # features that may change, if changes are counted
        if program.domain.at_most is not None:
            counted = np.zeros(len(self.x), dtype=bool)
            for block in program.domain.at_most.blocks:
                counted[block] = True
            moved = self.untested_value != x
            if relations is not None:
                moved = (ends[0] > x) | (ends[1] < x)
            self.most = program.domain.at_most.count - int((counted[self.untested] & moved).sum())
            self.counts = counted[grid.columns]
            self.group_counts = np.array([counted[g.start] for g in grid.groups], dtype=bool)
        among = np.isfinite(self.category)
        first, last = self.next[grid.starts[:-1]], self.previous[grid.starts[1:] - 1]
        possible = grid.by_group(np.logical_or, among[None]).all()
        empty = (first > self.top).any() or np.isnan(self.untested_value).any() or not possible
        self.root = None if empty else CellBoxes(first[None], last[None], among[None])

    def _set_numbers(
        self, low: FloatArray, high: FloatArray, relations: RelationCosts | None
    ) -> None:
        grid, encoded_cost = self.grid, self.program.encoded_cost
        self.top = np.diff(grid.starts) - 1
        owner, column = grid.cell_owner, grid.columns[grid.cell_owner]
        x, step = self.x[column], self.program.domain.steps[column]
        inner, outer = (
            (np.maximum(first, low[column]), np.minimum(last, high[column]))
            for first, last in (self.ends(EPS), self.ends())
        )
        self.value = _nearest(x, *inner, step)
        # (M,) by who goes there, and at least by whatever is in the cell
        self.paid = _paid(encoded_cost, column, self.value, x)
        if relations is None:
            self.cost = self.shave * _paid(encoded_cost, column, _nearest(x, *outer, step), x)
        else:
            self.cost = relations.least(column, *outer)
        self.can_stay = self.value == x
        # of each cell, the first from it on that has a value, and the last up to it: from 0, past
        # the ends if there is none
        start = grid.starts[owner]
        place, possible = np.arange(len(column)), np.isfinite(self.cost)
        after = np.minimum.accumulate(np.where(possible, place, len(column))[::-1])[::-1]
        self.next = np.minimum(after, grid.starts[owner + 1]) - start
        before = np.maximum.accumulate(np.where(possible, place, -1))
        self.previous = np.maximum(before, start - 1) - start
        # the cheapest cell of each number; on either side of it none is cheaper than one before
        least = grid.by_number(np.minimum, self.cost[None])[0]
        best = np.flatnonzero(self.cost == least[owner])
        home = best[np.searchsorted(owner[best], np.arange(len(self.top)))]
        if relations is not None:  # roundings must not undo that
            for a, b, c in zip(grid.starts[:-1], home, grid.starts[1:], strict=True):
                self.cost[a:b] = np.minimum.accumulate(self.cost[a:b])
                self.cost[b:c] = np.minimum.accumulate(self.cost[b:c][::-1])[::-1]
            self.cost[~possible] = np.inf
        self.cell = np.full(len(self.top), -1)  # of each number as it is; −1 for none
        self.cell[owner[self.can_stay]] = (place - start)[self.can_stay]
        if relations is None:
            home[owner[self.can_stay]] = place[self.can_stay]
        self.home = home - grid.starts[:-1]
        # of each test, the ends without cells that have no value, and the cost of passing it
        begin = grid.starts[grid.number]
        self.first, self.final = self.next[begin + grid.first], self.previous[begin + grid.last]
        empty = self.first > self.final
        at = begin + np.where(empty, 0, np.clip(self.home[grid.number], self.first, self.final))
        self.test_cost = np.where(empty, np.inf, self.cost[at])

    def ends(self, eps: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the first and last values (M,) that may be in each cell.

        Or that surely are, of numbers kept so that 1 + eps is next. They are clear of the
        thresholds that are crossed, by as much as is required.
        """
        grid = self.grid
        low, high = (grid.outer_low, grid.outer_high) if eps is None else grid.inner(eps)
        column = grid.columns[grid.cell_owner]
        clearance, x = self.clearance[column], self.x[column]
        if not clearance.any():
            return low, high
        if eps is None:  # whatever may hold x is not cut, for what stays crosses nothing
            rises, falls = grid.outer_low > x, grid.outer_high < x
        else:
            rises, falls = grid.cuts >= x, grid.upper < x
        rises &= (clearance > 0.0) & np.isfinite(grid.cuts)
        falls &= (clearance > 0.0) & np.isfinite(grid.upper)
        first = np.where(rises, MinimumChange.beyond(grid.cuts, clearance)[0], -np.inf)
        last = np.where(falls, MinimumChange.beyond(grid.upper, clearance)[1], np.inf)
        if eps is not None and eps > EPS:
            first, last = narrowed(first, last)
        return np.maximum(low, first), np.minimum(high, last)

    def _set_categories(
        self, low: FloatArray, high: FloatArray, relations: RelationCosts | None
    ) -> None:
        grid, column = self.grid, self.grid.members
        allowed, forced = high[column] > 0.5, low[column] > 0.5
        allowed &= forced | ~grid.by_group(np.logical_or, forced[None])[0][grid.owner]
        self.current = self.x[column] > 0.5  # the categories of the row
        entered = self.program.duality.diagonal.entered(self.x[None])[0, column]
        self.category = np.where(allowed, entered, np.inf)
        self.category_low = self.shave * self.category
        if relations is not None:
            slope, error = relations.slope[column], relations.error[column]
            terms = np.where(self.current, [slope, error], 0.0)
            now = grid.by_group(np.add, terms)[:, grid.owner].sum(axis=0)
            charged = (1.0 - self.share) * self.category_low[allowed]
            self.category_low[allowed] = charged + (slope - error - now)[allowed]

    def costs(self, boxes: CellBoxes) -> BoxCosts:
        """Return the least costs of boxes and their nearest points."""
        grid, starts = self.grid, self.grid.starts[:-1]
        # Of each number, the cells from the first to the last that has a value, and the cheapest.
        low = self.next[starts + np.clip(boxes.low, 0, self.top)]
        high = self.previous[starts + np.clip(boxes.high, 0, self.top)]
        without = (low > high) | (boxes.low > boxes.high)
        cells = np.clip(self.home, low, np.maximum(low, high))
        cells[without] = 0
        numbers = np.where(without, np.inf, self.cost[starts + cells])
        options = np.where(boxes.among, self.category_low, np.inf)
        groups = grid.by_group(np.minimum, options)
        base = self.fixed_cost + numbers.sum(axis=1) + groups.sum(axis=1)
        empty = np.isinf(base)[:, None]
        numbers, groups = np.where(empty, 0.0, numbers), np.where(empty, 0.0, groups)
        if self.share:  # roundings of the sums
            base -= self.share * (np.abs(numbers).sum(axis=1) + np.abs(groups).sum(axis=1))
        cheapest = [options[:, span].argmin(axis=1) + span.start for span in grid.spans]
        categories = np.array(cheapest, dtype=np.intp).reshape(len(grid.spans), len(base)).T
        numbers_stay = groups_stay = changes_left = None
        if self.most is not None:  # a feature changes for sure if its own cell is not in the box
            numbers_stay = self.counts & (low <= self.cell) & (self.cell <= high)
            groups_stay = self.group_counts & grid.by_group(
                np.logical_or, boxes.among & self.current
            )
            moved = (self.counts & ~numbers_stay).sum(axis=1)
            changes_left = self.most - moved - (self.group_counts & ~groups_stay).sum(axis=1)
            base = np.where(changes_left < 0, np.inf, base)
        boxes = CellBoxes(low, high, boxes.among)
        nearest = cells, categories, numbers, groups
        return BoxCosts(boxes, base, *nearest, numbers_stay, groups_stay, changes_left)

    def test_costs(self, costs: BoxCosts) -> tuple[FloatArray, BoolArray | None]:
        """Return what all tests cost n boxes above their least cost, (tests + 1, n).

        The second array says whether a test changes one more of the features that count; it is None
        where they are not counted.
        """
        grid, boxes, f, g = self.grid, costs.boxes, self.grid.number, self.grid.of_set
        extra, count = np.zeros((grid.pad + 1, len(costs.base))), len(f)
        # what either asks for is asked for by the dearer one: costs rise on both sides of home
        numbers = np.maximum(self.test_cost[:, None] - costs.numbers.T[f], 0.0)
        misses = (self.first[:, None] > boxes.high.T[f]) | (self.final[:, None] < boxes.low.T[f])
        numbers[misses] = np.inf
        extra[:count] = numbers
        which, members = np.nonzero(grid.sets)
        begin = np.searchsorted(which, np.arange(len(g)))
        options = np.where(boxes.among.T, self.category_low[:, None], np.inf)[members]
        extra[count:-1] = np.minimum.reduceat(options, begin) - costs.groups.T[g]
        if costs.numbers_stay is None or costs.groups_stay is None:
            return extra, None
        changes = np.zeros(extra.shape, dtype=bool)
        stay = (grid.first <= self.cell[f]) & (self.cell[f] <= grid.last)
        changes[:count] = costs.numbers_stay.T[f] & ~stay[:, None]
        stay = np.logical_or.reduceat((boxes.among & self.current).T[members], begin)
        changes[count:-1] = costs.groups_stay.T[g] & ~stay
        return extra, changes

    def leaf_costs(
        self, costs: BoxCosts, leaf: IntArray, box: IntArray
    ) -> tuple[FloatArray, BoolArray | bool]:
        """Return the least costs (A,) of points in leaves and boxes, and which of them may be."""
        extra, changes = self.test_costs(costs)
        cost, count = np.zeros(len(leaf)), np.zeros(len(leaf), dtype=np.intp)
        for tests in self.grid.tests.T:
            at = tests[leaf] * len(costs.base) + box
            cost += extra.ravel()[at]
            if changes is not None:
                count += changes.ravel()[at]
        cost += costs.base[box]
        return cost, costs.changes_left is None or count <= costs.changes_left[box]

    def allows(self, cells: IntArray, categories: IntArray) -> bool:
        """Return whether the nearest point in cells may be chosen."""
        if not np.isfinite(self.cost_of(cells, categories)):
            return False
        if self.most is None:
            return True
        numbers = self.counts & ~self.can_stay[self.grid.starts[:-1] + cells]
        groups = self.group_counts & ~self.current[categories]
        return int(numbers.sum() + groups.sum()) <= self.most

    def cells(self, y: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the cells and categories of a point."""
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

    def leaves(self, cells: IntArray, categories: IntArray) -> IntArray:
        """Return the leaf (T,) of each tree at the points of cells."""
        return np.flatnonzero(self.grid.passed(cells, categories)[self.grid.tests].all(axis=1))

    def around(self, cells: IntArray, categories: IntArray) -> CellBoxes:
        """Return the box of all cells in which every tree has the leaf that it has in these.

        Of a number that is to be clear of thresholds only its own cell: not all between them are.
        """
        grid, tests = self.grid, np.unique(self.grid.tests[self.leaves(cells, categories)])
        n, m = grid.parted(tests)
        low, high = np.zeros(len(cells), dtype=np.intp), np.array(self.top)
        np.maximum.at(low, grid.number[n], grid.first[n])
        np.minimum.at(high, grid.number[n], grid.last[n])
        alone = self.clearance[grid.columns] > 0.0
        low[alone] = high[alone] = cells[alone]
        among = (grid.sets[m] | (grid.owner != grid.of_set[m, None])).all(axis=0)
        return CellBoxes(low[None], high[None], among[None])

    def charging(self, multipliers: FloatArray) -> RowCosts:
        """Return the row with multipliers of linear relations."""
        if not multipliers.any():
            return self
        return RowCosts(self.grid, self.program, self.case, multipliers)

    def cost_of(self, cells: IntArray, categories: IntArray) -> float:
        """Return the cost of the nearest point in cells."""
        numbers = self.paid[self.grid.starts[:-1] + cells].sum()
        return self.fixed_cost + float(numbers + self.category[categories].sum())

    def point(self, cells: IntArray, categories: IntArray) -> FloatArray:
        """Return the nearest point (d,) in cells."""
        y = np.array(self.x)
        y[self.untested] = self.untested_value
        y[self.grid.columns] = self.value[self.grid.starts[:-1] + cells]
        for group, at in zip(self.grid.groups, categories - self.grid.firsts, strict=True):
            y[group] = 0.0
            y[group.start + at] = 1.0
        return y

    def point_in(self, cells: IntArray, categories: IntArray, eps: float) -> FloatArray:
        """Return the nearest point (d,) that is surely in cells, in a precision: 1, then 1 + eps.

        Where changes are counted, columns that need not change stay where they are.
        """
        y, column = self.point(cells, categories), self.grid.columns
        cell = self.grid.starts[:-1] + cells
        first, last = self.ends(eps)
        low = np.maximum(first[cell], self.bounds[0][column])
        high = np.minimum(last[cell], self.bounds[1][column])
        value = _nearest(self.x[column], low, high, self.program.domain.steps[column])
        stays = (y[column] == self.x[column]) & (self.program.domain.at_most is not None)
        y[column] = np.where(np.isnan(value) | stays, y[column], value)
        return y


def _nearest(
    x: FloatArray,
    low: FloatArray,
    high: FloatArray,
    steps: FloatArray,
    toward: FloatArray | None = None,
) -> FloatArray:
    """Return the values in [low, high] nearest to x, in whole steps if there are; NaN for none.

    Or those nearest to ``toward``, which are values at whole steps from x.
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
    """Return the costs of moving columns to values one by one; infinite if there is none."""
    size = encoded_cost.distances(columns, y, x)
    cost = encoded_cost.absolute[columns] * size + encoded_cost.diagonal[columns] * size * size
    return np.where(np.isnan(y), np.inf, cost)
