"""Costs for one row: of the cells of a grid, and lower bounds for many boxes of cells at once."""

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


@final
class CellBoxes(NamedTuple):
    """n boxes of cells: an interval of cells for each number, and a set of categories."""

    low: IntArray  # (n, F) the first cell of each number, counted from 0
    high: IntArray  # (n, F) the last one
    among: BoolArray  # (n, C) the categories that are left

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
        """Return the two parts of each box by (n, 3) splits, see `Grid.has`.

        They are the cells before one and the others, or the categories of a set and the others.
        """
        (low, high, among), kind = self, splits[:, 0]
        rows = np.flatnonzero(kind == SplitKind.NUMBER)
        f, cell = splits[rows, 1], splits[rows, 2]
        below, above = np.array(high), np.array(low)
        below[rows, f] = np.minimum(high[rows, f], cell - 1)
        above[rows, f] = np.maximum(low[rows, f], cell)
        rows = np.flatnonzero(kind == SplitKind.SET)
        sets = splits[rows, 1]
        inside, outside = np.array(among), np.array(among)
        inside[rows] &= ~grid.failing(sets)
        outside[rows] &= ~grid.sets[sets]
        return CellBoxes(low, below, inside), CellBoxes(above, high, outside)


@final
@dataclass(frozen=True, eq=False)
class BoxCosts:
    """Lower bounds on the cost of n boxes, and their nearest points, which nearly cost as much."""

    boxes: CellBoxes  # without cells at their ends that have no value
    least: FloatArray  # (n,) infinite where nothing is left
    cells: IntArray  # (n, F) of the nearest points
    categories: IntArray  # (n, groups) of them, as positions among those of all groups
    numbers: FloatArray  # (n, F) the part of each number in the bound
    groups: FloatArray  # (n, groups) that of each group
    # If changes are counted, else None: the features that count and may stay as they are, and how
    # many of these may change, (n,), beside features that have to.
    numbers_stay: BoolArray | None  # (n, F)
    groups_stay: BoolArray | None  # (n, groups)
    changes_left: IntArray | None


@final
class RelationCosts:
    """Lower bounds on the cost of single columns for one row, with multipliers of linear relations.

    For any multipliers, a point that keeps the relations costs at least cost(y − x) + slope · (y −
    x) + base, which is a sum over columns. The terms are lowered by a ``rounding_share`` of their
    sizes.
    """

    def __init__(
        self, program: Program, case: Batch, multipliers: FloatArray, rounding_share: float
    ) -> None:
        self.program, self.x, encoded_cost = program, case.x[0], program.encoded_cost
        cut = program.cut(multipliers[None], case.x)
        self.slope, terms = cut.normal[0], (cut.weights @ cut.normals)[0]
        # errors of the slope are charged to the cost of a change, as they grow with it
        self.error = gamma(cut.roundings) * terms + rounding_share * np.abs(self.slope)
        self.absolute = encoded_cost.absolute * (1.0 - rounding_share) - self.error
        self.nonlinear = encoded_cost.diagonal * (1.0 - rounding_share)
        self.rounding_share = rounding_share
        size = terms @ np.abs(self.x) + np.abs(cut.offset[0])
        base = self.slope @ self.x - cut.offset[0] - cut.offset_error[0]
        error = gamma(cut.roundings + len(terms) + AFTER) + rounding_share
        self.base = float(base - error * size)

    def least(self, columns: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the least term (m,) of columns in [low, high]; infinite where no value is."""
        x, steps, slope = self.x[columns], self.program.domain.steps[columns], self.slope[columns]
        absolute, nonlinear = np.maximum(self.absolute[columns], 0.0), self.nonlinear[columns]
        pull = np.maximum(np.abs(slope) - absolute, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # without bounds, the term is least at this change, or on one of the steps beside it
            free = -np.sign(slope) * np.where(pull > 0.0, pull / (2.0 * nonlinear), 0.0)
            count = np.where(steps > 0.0, free / steps, 0.0)
            costs = []
            for near in (np.floor(count), np.ceil(count)):
                toward = np.where(steps > 0.0, lattice.number(x, near, steps), x + free)
                change = _nearest(x, low, high, steps, toward) - x
                size = np.abs(change)
                costs.append(absolute * size + nonlinear * size * size + slope * change)
            # errors that exceed the cost count by the farthest end
            excess = np.maximum(-self.absolute[columns], 0.0)
            reach = np.maximum(np.abs(low - x), np.abs(high - x))
            cost = np.minimum(*costs) - np.where(excess > 0.0, excess * reach, 0.0)
        empty = np.isnan(_nearest(x, low, high, steps))
        # a column that gains without end: so little that the sum stays below any cutoff
        return np.where(empty, np.inf, np.where(np.isfinite(cost), cost, -(LEAST**-0.5)))


@final
class RowCosts:
    """Costs of cells and categories for one row of a program, and lower bounds on them.

    A cell has its nearest value, its cost, and a bound for whatever may be in it. With (m,)
    multipliers of linear relations, the bounds are those of `RelationCosts`. Of each number, bounds
    fall up to its cheapest cell and rise from there on.
    """

    def __init__(
        self, grid: Grid, program: Program, case: Batch, multipliers: FloatArray | None = None
    ) -> None:
        self.grid, self.x, self.program, self.case = grid, case.x[0], program, case
        low, high = np.array(case.low[0]), np.array(case.high[0])
        whole = np.flatnonzero(program.domain.steps)  # their bounds move inwards, to whole steps
        low[whole], high[whole] = lattice.within_bounds(
            self.x[whole], low[whole], high[whole], program.domain.steps[whole]
        )
        self.bounds = low, high
        margins = [c.margins for c in program.region if isinstance(c, MinimumChange)]
        self.clearance = np.max(margins, axis=0) if margins else np.zeros(program.width)
        # Costs of features, of at most 16 roundings each, are lowered so far that their sums, in
        # any order, are below the exact ones. Terms of relations have both signs, so that a share
        # of their sizes is subtracted from the sums instead.
        rounding = (len(grid.columns) + len(grid.groups) + 16) * 2.0 * UNIT
        self.cost_factor, self.rounding_share, relations = 1.0 - rounding, 0.0, None
        if multipliers is not None:
            self.rounding_share = 4.0 * (rounding + program.width * UNIT)
            relations = RelationCosts(program, case, multipliers, self.rounding_share)
        self._set_numbers(low, high, relations)
        self._set_tests()
        self._set_categories(low, high, relations)
        self._set_untested(low, high, relations)
        # The box of all that is possible: of each number the first and the last cell with values.
        among = np.isfinite(self.category_cost)
        first = self.next_cell[grid.starts[:-1]]
        last = self.previous_cell[grid.starts[1:] - 1]
        possible = grid.by_group(np.logical_or, among[None]).all()
        empty = (first > self.top).any() or np.isnan(self.untested_value).any() or not possible
        self.root = None if empty else CellBoxes(first[None], last[None], among[None])

    def _set_numbers(
        self, low: FloatArray, high: FloatArray, relations: RelationCosts | None
    ) -> None:
        """Set the values and costs of the M cells, and the cheapest cell of each number."""
        grid, encoded_cost = self.grid, self.program.encoded_cost
        self.top = np.diff(grid.starts) - 1  # (F,) the last cell, counted from 0
        number = grid.cell_number
        column = grid.columns[number]
        x, step = self.x[column], self.program.domain.steps[column]
        inner, outer = (
            (np.maximum(first, low[column]), np.minimum(last, high[column]))
            for first, last in (self.ends(EPS), self.ends())
        )
        self.value = _nearest(x, *inner, step)
        self.paid = _paid(encoded_cost, column, self.value, x)
        if relations is None:
            nearest = _nearest(x, *outer, step)
            self.cell_bound = self.cost_factor * _paid(encoded_cost, column, nearest, x)
        else:
            self.cell_bound = relations.least(column, *outer)
        self.can_stay = self.value == x
        # The first cell from each one on that has a value, and the last one up to it, counted from
        # 0; past the ends if there is none.
        start = grid.starts[number]
        cell, possible = np.arange(len(column)), np.isfinite(self.cell_bound)
        after = np.minimum.accumulate(np.where(possible, cell, len(column))[::-1])[::-1]
        self.next_cell = np.minimum(after, grid.starts[number + 1]) - start
        before = np.maximum.accumulate(np.where(possible, cell, -1))
        self.previous_cell = np.maximum(before, start - 1) - start
        least = grid.by_number(np.minimum, self.cell_bound[None])[0]
        best = np.flatnonzero(self.cell_bound == least[number])
        cheapest = best[np.searchsorted(number[best], np.arange(len(self.top)))]  # the first one
        if relations is not None:  # rounding must not break that bounds fall and rise
            for a, b, c in zip(grid.starts[:-1], cheapest, grid.starts[1:], strict=True):
                left, right = self.cell_bound[a:b], self.cell_bound[b:c]
                left[:] = np.minimum.accumulate(left)
                right[:] = np.minimum.accumulate(right[::-1])[::-1]
            self.cell_bound[~possible] = np.inf
        self.own_cell = np.full(len(self.top), -1)  # of each number as it is; −1 for none
        self.own_cell[number[self.can_stay]] = (cell - start)[self.can_stay]
        if relations is None:  # ranks may be equal on both sides of x
            cheapest[number[self.can_stay]] = cell[self.can_stay]
        self.cheapest_cell = cheapest - grid.starts[:-1]

    def _set_tests(self) -> None:
        """Set the cells that pass each test of a number, and the least cost of passing it.

        Cells without values at the ends of an interval are left out.
        """
        grid = self.grid
        begin = grid.starts[grid.test_number]
        self.test_low = self.next_cell[begin + grid.test_first]
        self.test_high = self.previous_cell[begin + grid.test_last]
        empty = self.test_low > self.test_high
        cell = np.clip(self.cheapest_cell[grid.test_number], self.test_low, self.test_high)
        bound = self.cell_bound[begin + np.where(empty, 0, cell)]
        self.test_cost = np.where(empty, np.inf, bound)

    def _set_untested(
        self, low: FloatArray, high: FloatArray, relations: RelationCosts | None
    ) -> None:
        """Set what does not depend on cells: numbers that no tree tests, and the changes allowed.

        Such a number is always at its nearest value between its bounds. ``fixed_cost`` is a lower
        bound on the cost of all of them: ``lowering`` and ``share`` take off the rounding.
        """
        grid, domain = self.grid, self.program.domain
        numeric = np.flatnonzero(domain.numeric)
        self.untested = numeric[~np.isin(numeric, grid.columns)]
        x = self.x[self.untested]
        ends = low[self.untested], high[self.untested]
        self.untested_value = _nearest(x, *ends, domain.steps[self.untested])
        if relations is None:
            cost = _paid(self.program.encoded_cost, self.untested, self.untested_value, x)
            bound, has_changed = self.cost_factor * cost, self.untested_value != x
        else:
            bound = relations.least(self.untested, *ends)
            has_changed = (ends[0] > x) | (ends[1] < x)
        self.fixed_cost = float(bound.sum() - self.rounding_share * np.abs(bound).sum())
        self.fixed_cost += 0.0 if relations is None else relations.base
        # how many of the tested features may change, beside the others that must; None for all
        self.most_changes: int | None = None
        if domain.at_most is not None:
            counted = np.zeros(len(self.x), dtype=bool)
            for block in domain.at_most.blocks:
                counted[block] = True
            forced = int((counted[self.untested] & has_changed).sum())
            self.most_changes = domain.at_most.count - forced
            # whether a change of each tested number, and of each group, counts
            self.number_counts = counted[grid.columns]
            self.group_counts = np.array([counted[g.start] for g in grid.groups], dtype=bool)

    def ends(self, eps: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the first and last values (M,) that may be in each cell.

        With a precision ``eps``, in which 1 + eps follows 1, those that surely are. `MinimumChange`
        asks for a clearance from thresholds that a change from x crosses: so cells above x begin so
        far above their lower threshold, and cells below x end so far below their upper one.
        """
        grid = self.grid
        low, high = (grid.outer_low, grid.outer_high) if eps is None else grid.inner(eps)
        column = grid.columns[grid.cell_number]
        clearance, x = self.clearance[column], self.x[column]
        if not clearance.any():
            return low, high
        if eps is None:  # a cell that may hold x is not narrowed: to stay crosses nothing
            is_above, is_below = grid.outer_low > x, grid.outer_high < x
        else:
            is_above, is_below = grid.cuts >= x, grid.upper < x
        is_above &= (clearance > 0.0) & np.isfinite(grid.cuts)
        is_below &= (clearance > 0.0) & np.isfinite(grid.upper)
        first = np.where(is_above, MinimumChange.beyond(grid.cuts, clearance)[0], -np.inf)
        last = np.where(is_below, MinimumChange.beyond(grid.upper, clearance)[1], np.inf)
        if eps is not None and eps > EPS:
            first, last = narrowed(first, last)
        return np.maximum(low, first), np.minimum(high, last)

    def _set_categories(
        self, low: FloatArray, high: FloatArray, relations: RelationCosts | None
    ) -> None:
        """Set the costs (C,) of categories, infinite where they may not be, and their bounds."""
        grid, column = self.grid, self.grid.category_columns
        allowed, forced = high[column] > 0.5, low[column] > 0.5
        # A category that is forced leaves no other of its group.
        has_forced = grid.by_group(np.logical_or, forced[None])[0]  # (groups,)
        allowed &= forced | ~has_forced[grid.category_group]
        self.is_own = self.x[column] > 0.5  # the categories of the row
        entered = self.program.duality.diagonal.entered(self.x[None])[0, column]
        self.category_cost = np.where(allowed, entered, np.inf)
        self.category_bound = self.cost_factor * self.category_cost
        # Another category moves two columns: it enters, which adds at least its slope − error, and
        # the own one leaves, which takes at most its slope + error away.
        if relations is not None:
            slope, error = relations.slope[column], relations.error[column]
            own = np.where(self.is_own, [slope, error], 0.0)
            leaving = grid.by_group(np.add, own)[:, grid.category_group].sum(axis=0)
            cost = (1.0 - self.rounding_share) * self.category_bound[allowed]
            self.category_bound[allowed] = cost + (slope - error - leaving)[allowed]

    def costs(self, boxes: CellBoxes) -> BoxCosts:
        """Return lower bounds on the costs of boxes, and their nearest points."""
        grid, starts = self.grid, self.grid.starts[:-1]
        # Of each number, the cells from the first to the last that has a value, and the cheapest.
        low = self.next_cell[starts + np.clip(boxes.low, 0, self.top)]
        high = self.previous_cell[starts + np.clip(boxes.high, 0, self.top)]
        no_value = (low > high) | (boxes.low > boxes.high)
        cells = np.clip(self.cheapest_cell, low, np.maximum(low, high))
        cells[no_value] = 0
        numbers = np.where(no_value, np.inf, self.cell_bound[starts + cells])
        options = np.where(boxes.among, self.category_bound, np.inf)
        groups = grid.by_group(np.minimum, options)
        least = self.fixed_cost + numbers.sum(axis=1) + groups.sum(axis=1)
        empty = np.isinf(least)[:, None]
        numbers, groups = np.where(empty, 0.0, numbers), np.where(empty, 0.0, groups)
        if self.rounding_share:  # roundings of the sums
            least -= self.rounding_share * (
                np.abs(numbers).sum(axis=1) + np.abs(groups).sum(axis=1)
            )
        cheapest = [options[:, span].argmin(axis=1) + span.start for span in grid.spans]
        categories = np.array(cheapest, dtype=np.intp).reshape(len(grid.spans), len(least)).T
        numbers_stay = groups_stay = changes_left = None
        if self.most_changes is not None:  # features change for sure if their own cells are not in
            numbers_stay = self.number_counts & (low <= self.own_cell) & (self.own_cell <= high)
            has_own = grid.by_group(np.logical_or, boxes.among & self.is_own)
            groups_stay = self.group_counts & has_own
            changes_left = self.most_changes - (self.number_counts & ~numbers_stay).sum(axis=1)
            changes_left = changes_left - (self.group_counts & ~groups_stay).sum(axis=1)
            least = np.where(changes_left < 0, np.inf, least)
        boxes = CellBoxes(low, high, boxes.among)
        nearest = cells, categories, numbers, groups
        return BoxCosts(boxes, least, *nearest, numbers_stay, groups_stay, changes_left)

    def test_costs(self, costs: BoxCosts) -> tuple[FloatArray, BoolArray | None]:
        """Return what it costs n boxes to pass each test, above their least, (tests + 1, n).

        The second array says whether passing it changes one more of the features that count; it is
        None where they are not counted. The last test is the one that everything passes.
        """
        grid, boxes, f, g = self.grid, costs.boxes, self.grid.test_number, self.grid.set_group
        extra, count = np.zeros((grid.pad + 1, len(costs.least))), len(f)
        # Bounds rise on both sides of the cheapest cell. So of two intervals that meet, the box's
        # and the test's, the cheapest cell in both is the dearer one of their cheapest cells.
        numbers = np.maximum(self.test_cost[:, None] - costs.numbers.T[f], 0.0)
        misses = self.test_low[:, None] > boxes.high.T[f]
        misses |= self.test_high[:, None] < boxes.low.T[f]
        numbers[misses] = np.inf
        extra[:count] = numbers
        # A set costs what its cheapest category in the box does; the sets' ``members`` stand one
        # after the other.
        set_of_member, members = np.nonzero(grid.sets)
        begin = np.searchsorted(set_of_member, np.arange(len(g)))
        member_costs = np.where(boxes.among.T, self.category_bound[:, None], np.inf)[members]
        extra[count:-1] = np.minimum.reduceat(member_costs, begin) - costs.groups.T[g]
        if costs.numbers_stay is None or costs.groups_stay is None:
            return extra, None
        # A feature that may stay has to change for a test that its own cell or category fails.
        changes = np.zeros(extra.shape, dtype=bool)
        number_passes = (grid.test_first <= self.own_cell[f]) & (self.own_cell[f] <= grid.test_last)
        changes[:count] = costs.numbers_stay.T[f] & ~number_passes[:, None]
        group_passes = np.logical_or.reduceat((boxes.among & self.is_own).T[members], begin)
        changes[count:-1] = costs.groups_stay.T[g] & ~group_passes
        return extra, changes

    def leaf_costs(
        self, costs: BoxCosts, leaf: IntArray, box: IntArray
    ) -> tuple[FloatArray, BoolArray | bool]:
        """Return the least costs (A,) of points in A pairs of a leaf and a box.

        The second value says which pairs change no more features than are allowed.
        """
        extra, changes = self.test_costs(costs)
        cost, count = np.zeros(len(leaf)), np.zeros(len(leaf), dtype=np.intp)
        for tests in self.grid.tests.T:
            position = tests[leaf] * len(costs.least) + box  # in the raveled array
            cost += extra.ravel()[position]
            if changes is not None:
                count += changes.ravel()[position]
        cost += costs.least[box]
        return cost, costs.changes_left is None or count <= costs.changes_left[box]

    def allows(self, cells: IntArray, categories: IntArray) -> bool:
        """Return whether the nearest point in cells may be chosen."""
        if not np.isfinite(self.cost_of(cells, categories)):
            return False
        if self.most_changes is None:
            return True
        numbers = self.number_counts & ~self.can_stay[self.grid.starts[:-1] + cells]
        groups = self.group_counts & ~self.is_own[categories]
        return int(numbers.sum() + groups.sum()) <= self.most_changes

    def cells(self, y: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the cells (F,) and categories (groups,) of a point (d,)."""
        grid = self.grid
        cells = [
            int(np.searchsorted(grid.outer_low[a:b], y[column], "right")) - 1
            for a, b, column in zip(grid.starts[:-1], grid.starts[1:], grid.columns, strict=True)
        ]
        categories = [
            span.start + int(y[group].argmax())
            for span, group in zip(grid.spans, grid.groups, strict=True)
        ]
        return np.array(cells, np.intp), np.array(categories, np.intp)

    def leaves(self, cells: IntArray, categories: IntArray) -> IntArray:
        """Return the leaf (T,) of each tree at the points of cells."""
        return np.flatnonzero(self.grid.passed(cells, categories)[self.grid.tests].all(axis=1))

    def around(self, cells: IntArray, categories: IntArray) -> CellBoxes:
        """Return the box of all cells in which every tree has the leaf that it has in these.

        A number that has to be clear of thresholds keeps its own cell alone, for not all values
        from one cell to another are clear of them.
        """
        grid, tests = self.grid, np.unique(self.grid.tests[self.leaves(cells, categories)])
        number_tests, set_tests = grid.by_kind(tests)
        number = grid.test_number[number_tests]
        low, high = np.zeros(len(cells), dtype=np.intp), np.array(self.top)
        np.maximum.at(low, number, grid.test_first[number_tests])
        np.minimum.at(high, number, grid.test_last[number_tests])
        is_clear = self.clearance[grid.columns] > 0.0
        low[is_clear] = high[is_clear] = cells[is_clear]
        among = ~np.asarray(grid.failing(set_tests).any(axis=0))
        return CellBoxes(low[None], high[None], among[None])

    def with_relations(self, multipliers: FloatArray) -> RowCosts:
        """Return the costs of the same row with multipliers (m,) of linear relations."""
        return RowCosts(self.grid, self.program, self.case, multipliers)

    def cost_of(self, cells: IntArray, categories: IntArray) -> float:
        """Return the cost of the nearest point in cells."""
        numbers = self.paid[self.grid.starts[:-1] + cells].sum()
        return self.fixed_cost + float(numbers + self.category_cost[categories].sum())

    def point(self, cells: IntArray, categories: IntArray) -> FloatArray:
        """Return the nearest point (d,) in cells."""
        y = np.array(self.x)
        y[self.untested] = self.untested_value
        y[self.grid.columns] = self.value[self.grid.starts[:-1] + cells]
        options = categories - self.grid.group_starts
        for group, option in zip(self.grid.groups, options, strict=True):
            y[group] = 0.0
            y[group.start + option] = 1.0
        return y

    def point_in(self, cells: IntArray, categories: IntArray, eps: float) -> FloatArray:
        """Return the nearest point (d,) that is surely in cells where 1 + eps follows 1.

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
    """Return the values in [low, high] that are nearest to ``toward``; NaN where there is none.

    Where there are steps, values are at whole steps from x, as ``toward`` is; by default, it is x.
    """
    toward = x if toward is None else toward
    out = np.clip(toward, low, high)
    out[(low > high) | np.isinf(out)] = np.nan  # a split by what is missing alone is at infinity
    whole = np.flatnonzero((steps > 0.0) & (out != toward) & ~np.isnan(out))
    if len(whole):  # an end of the interval, which is not at a whole step
        is_rise = out[whole] > toward[whole]
        least, most = lattice.within(x[whole], low[whole], high[whole], steps[whole])
        out[whole] = np.where(least <= most, np.where(is_rise, least, most), np.nan)
    return out


def _paid(encoded_cost: EncodedCost, columns: IntArray, y: FloatArray, x: FloatArray) -> FloatArray:
    """Return the costs of moving columns to values one by one; infinite if there is none."""
    distance = encoded_cost.distances(columns, y, x)
    absolute, curvature = encoded_cost.absolute[columns], encoded_cost.diagonal[columns]
    cost = absolute * distance + curvature * distance * distance
    return np.where(np.isnan(y), np.inf, cost)
