"""Programs over columns that are free of each other, as knapsacks: changes that cost and gain.

A *demand* is one side of a row: what changes gain is to be at least what is missing. Numeric
columns change by numbers of their units (steps, or feature units). A *table* is a one-hot group, of
which one option is chosen, or a column with a curve of constant pieces, of which one is. For
multipliers λ of the demands, the Lagrangian

    min over the domain of  cost(δ) − λ · gain(δ)  +  λ · missing

is a sum of minima of one column each, in closed form, and bounds the cost from below.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np

from counterpoint.families.additive.curves import Bends
from counterpoint.families.additive.sums import SumDuality
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.programs import arrays
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.programs.separable import Diagonal, best_changes
from counterpoint.rows import lattice


@final
class Boxes(NamedTuple):
    """Boxes of m nodes within the domains of their rows."""

    row: IntArray  # (m,) whose nodes they are
    low: FloatArray  # (m, c) least changes of the c numeric columns, in their units
    high: FloatArray
    option_cost: FloatArray  # (m, t, k) of the options of tables; infinite for those left out
    forced: BoolArray  # (m, c + t) features that count as changed; (m, 0) if none are counted


@final
class Candidates(NamedTuple):
    """One point of each of m boxes."""

    change: FloatArray  # (m, c) in units
    choice: IntArray  # (m, t) the option of each table
    cost: FloatArray  # (m,)
    gain: FloatArray  # (m, s) of each demand


@final
class Terms(NamedTuple):
    """The least terms of Lagrangians of m boxes, feature by feature, against staying."""

    total: FloatArray  # (m,) their sum
    slope: FloatArray  # (m, c) λ · gain of a unit
    numbers: FloatArray  # (m, c)
    options: FloatArray  # (m, t, k) of all options
    tables: FloatArray  # (m, t) of the best options


@final
class Knapsack:
    """A program over whole steps, categories and numbers at a separable cost, without the rows."""

    def __init__(self, program: Program) -> None:
        self.program, cost, steps = program, program.encoded_cost, program.domain.steps
        sums = program.duality.nonconvex
        self.sums = sums if isinstance(sums, SumDuality) else None
        # columns with curves: tables, if all pieces are constant, and smooth numeric columns
        self.tabulated: Bends | None = None
        self.smooth: Bends | None = None
        self.bent = smooth = np.zeros(0, dtype=np.intp)
        affine = program.affine
        if self.sums is not None:
            self.tabulated = self.sums.bends.some(self.sums.tabulated)
            self.bent = self.tabulated.columns
            if not self.sums.tabulated.all():
                self.smooth = self.sums.bends.some(~self.sums.tabulated)
                smooth = self.smooth.columns
            affine = affine.stacked(replace(self.sums.rows, matrix=self.sums.linear))
        self.affine = affine  # all rows, those of sums last

        # (c,) of the numeric columns
        self.numbers = numbers = np.setdiff1d(np.flatnonzero(program.domain.numeric), self.bent)
        self.whole = steps[numbers] > 0.0
        self.units = np.where(self.whole, steps[numbers], 1.0)
        absolute, curvature = cost.absolute[numbers], cost.quadratic[numbers]
        self.cost = Diagonal(absolute * self.units, curvature * self.units**2)  # in units
        self.nonlinear = self.cost.curvature > 0.0
        self.priced = self.nonlinear | (self.cost.absolute > 0.0)
        self.smooth_columns = np.searchsorted(numbers, smooth)
        levels = [level.column for level in cost.levels]
        self.levelled = np.setdiff1d(np.flatnonzero(np.isin(numbers, levels)), self.smooth_columns)

        # (s,) each demand's row, 1 for its lower bound and −1 for its upper one, and limit
        below, above = (np.flatnonzero(np.isfinite(v)) for v in (affine.low, affine.high))
        self.rows = np.append(below, above)
        self.signs = np.repeat([1.0, -1.0], [len(below), len(above)])
        self.limits = np.concatenate([affine.low[below], -affine.high[above]])
        self.normals = affine.matrix[self.rows] * self.signs[:, None]  # (s, d)
        # (s, c) what a unit of each column gains, beside its curve
        self.gains = np.ascontiguousarray(self.normals[:, numbers] * self.units)

        # (t, k) the encoded columns of each group, padded; which are no padding; what they gain
        groups = program.domain.groups
        ends = np.array([(g.start, g.stop) for g in groups], dtype=np.intp).reshape(-1, 2, 1)
        columns = ends[:, 0] + np.arange(np.diff(ends, axis=1).max(initial=0))
        self.is_option = columns < ends[:, 1]
        self.options = np.where(self.is_option, columns, ends[:, 0])
        self.table_gains = np.ascontiguousarray(self.normals[:, self.options])  # (s, t, k)
        self.tables = len(groups) + len(self.bent)
        self.at_most = None if program.domain.at_most is None else program.domain.at_most.count

        # (c,) columns that may change without end, and gain so: points of mixtures must not. Of a
        # single demand, only columns that bend make up mixtures
        bends = np.isin(np.arange(len(numbers)), self.smooth_columns)
        several = self.gains.any(axis=0) & ~self.nonlinear & (len(self.gains) > 1)
        open_ended = ~(program.domain.box.below & program.domain.box.above)[numbers]
        self.endless = open_ended & (bends | several)

    def multipliers(self, of_demands: FloatArray) -> FloatArray:
        """Return multipliers of the program's rows (n, size) from those of the demands (n, s)."""
        out = np.zeros((len(of_demands), self.program.size))
        for s, row in enumerate(self.rows):
            out[:, row] -= self.signs[s] * of_demands[:, s]
        return out

    def of_demands(self, added: FloatArray) -> FloatArray:
        """Return what is added to each demand (…, s), from what is added to rows of sums (…, m)."""
        out, size = np.zeros((*added.shape[:-1], len(self.rows))), self.program.affine.size
        curved = self.rows >= size
        out[..., curved] = self.signs[curved] * added[..., self.rows[curved] - size]
        return out

    def slopes(self, multipliers: FloatArray) -> FloatArray:
        """Return λ · gains (m, c), demand by demand, so that it does not depend on the batch."""
        slope = multipliers[:, :1] * self.gains[0]
        for r in range(1, len(self.gains)):
            slope += multipliers[:, r : r + 1] * self.gains[r]
        return slope


@final
class KnapsackRows:
    """The knapsacks of n rows: their domains, what options cost and gain, and what is missing."""

    def __init__(self, knapsack: Knapsack, cases: Batch) -> None:
        self.knapsack, self.cases = knapsack, cases
        k, n, program = knapsack, len(cases), knapsack.program
        self.x = x = cases.x[:, k.numbers]
        gains = x[:, None, :] * k.normals[:, k.numbers]
        closed_in = k.affine.closed_in(cases.margin)[:, k.rows]
        # (n, s) what changes must gain, with the gains of tables as they are
        self.missing = k.limits + closed_in - gains.sum(axis=2) * (1.0 - k.affine.of_change[k.rows])
        size = np.abs(gains).sum(axis=2) + np.abs(k.limits)
        size += np.abs(k.table_gains).max(axis=2, initial=0.0).sum(axis=1)

        low, high = cases.low[:, k.numbers], cases.high[:, k.numbers]
        if k.whole.any():
            low = np.where(k.whole, lattice.first(x, low, k.units), low - x)
            high = np.where(k.whole, lattice.last(x, high, k.units), high - x)
        else:
            low, high = low - x, high - x
        mask, self.factual = self._groups()
        cost = program.duality.diagonal.entered(cases.x)[:, k.options]
        # (n, s, t, k) what options gain, if that is not the same for all rows; and for tabulated
        # columns (3, n, b, k): values of options, and the least and largest of their pieces
        self.gain: FloatArray | None = None
        self.values = np.zeros((3, n, 0, 0))
        if k.tabulated is not None and len(k.bent):
            possible, paid, factual, gain = self._tabulate_curves(k.tabulated)
            mask, cost = _one_below_other(mask, possible), _one_below_other(cost, paid)
            groups = np.broadcast_to(k.table_gains, (n, *k.table_gains.shape))
            self.gain = _one_below_other(groups, gain)
            self.factual = np.hstack([self.factual, factual])
            size += k.tabulated.roundings * np.abs(self.gain).max(axis=3).sum(axis=2)
        if k.smooth is not None:  # (n, k, s) what smooth columns add as they are
            self.added = k.of_demands(k.smooth.added(x[:, k.smooth_columns, None])[:, :, 0])
            self.missing -= self.added.sum(axis=1)
            size += k.smooth.roundings * np.abs(self.added).sum(axis=1)
        self.slack = 4.0 * EPS * size  # (n, s) by how much that may be missed: rounding
        self.is_endless = bool(np.isinf(low).any() or np.isinf(high).any())
        features = 0 if k.at_most is None else len(k.numbers) + k.tables
        forced = np.zeros((n, features), dtype=bool)
        cost = np.where(mask, cost, np.inf)
        self.boxes = Boxes(np.arange(n), low, high, cost, forced)
        self._tabulate_levels()

    def _groups(self) -> tuple[BoolArray, IntArray]:
        """Return which options of groups are permitted (n, t, k), and the factual ones (n, t)."""
        k, cases = self.knapsack, self.cases
        if not len(k.options):
            return np.zeros((len(cases), 0, 0), dtype=bool), np.zeros(
                (len(cases), 0), dtype=np.intp
            )
        factual = (cases.x[:, k.options] * k.is_option).argmax(axis=2)
        demanded = (cases.low[:, k.options] > 0.5) & k.is_option
        mask = (cases.high[:, k.options] > 0.5) & k.is_option
        return mask & (demanded | ~demanded.any(axis=2, keepdims=True)), factual

    def _tabulate_levels(self) -> None:
        """Tabulate columns whose cost is by level: (n, l, p) increasing changes and their costs.

        Costs are linear between two of them.
        """
        k, n = self.knapsack, len(self.cases)
        cost, low, high = k.program.encoded_cost, self.boxes.low, self.boxes.high
        by_column = {level.column: level for level in cost.levels}
        tables = []
        for j in k.levelled.tolist():
            column = int(k.numbers[j])
            step = float(k.program.domain.steps[column])
            at, rise = by_column[column].table(self.x[:, j], low[:, j], high[:, j], step)
            order = np.argsort(at, axis=1, kind="stable")
            paid = cost.absolute[column] * np.abs(rise)
            tables.append([np.take_along_axis(v, order, axis=1) for v in (at, paid)])
        width = max((at.shape[1] for at, _ in tables), default=0)
        padded = [[np.pad(v, ((0, 0), (0, width - v.shape[1])), "edge") for v in t] for t in tables]
        both = np.array(padded).reshape(len(tables), 2, n, width).transpose(1, 2, 0, 3)
        self.level_changes, self.level_costs = both

    def _tabulate_curves(self, bends: Bends) -> tuple[BoolArray, FloatArray, IntArray, FloatArray]:
        """Return the options of tabulated columns: of each piece its value nearest to the row.

        Which of them are possible, (n, b, k), and their costs; at which one a column stays or moves
        least, (n, b); what they gain, (n, s, b, k). Where changes are counted, a column that cannot
        stay has an impossible option on the side of its row, at which it would.
        """
        k, cases, program = self.knapsack, self.cases, self.knapsack.program
        x, columns, cost = cases.x[:, bends.columns, None], bends.columns, program.encoded_cost
        low, high = bends.reachable(cases, program.domain.steps)
        below, above = x < cases.low[:, columns, None], x > cases.high[:, columns, None]
        counted = program.domain.at_most is not None and bool((below | above).any())
        if counted:
            end = np.full(below.shape, np.inf)
            low = np.concatenate([end, low, end], axis=2)
            high = np.concatenate([-end, high, -end], axis=2)
        possible = low <= high
        y = np.where(possible, np.clip(x, low, high), x)
        distance = cost.distances(columns, *(np.moveaxis(v, 1, 2) for v in (y, x)))
        distance = np.moveaxis(distance, 1, 2)
        paid = cost.absolute[columns, None] * distance + cost.quadratic[columns, None] * distance**2
        # not by what it costs: where ranks are equal, values beside x cost nothing either
        factual = np.where(possible, np.abs(y - x), np.inf).argmin(axis=2)
        if counted:
            side = np.where(above[..., 0], possible.shape[2] - 1, 0)
            factual = np.where((below | above)[..., 0], side, factual)
        linear = y[..., None] * k.normals[:, columns].T[:, None]
        self.values = np.stack([y, low, high])
        return possible, paid, factual, np.moveaxis(k.of_demands(bends.added(y)) + linear, 3, 1)

    def points(self, boxes: Boxes, points: Candidates) -> FloatArray:
        """Return points in encoded columns, (m, d)."""
        k, cases = self.knapsack, self.cases.take(boxes.row)
        y, every = np.array(cases.x), np.arange(len(boxes.row))
        y[:, k.numbers] = lattice.number(self.x[boxes.row], points.change, k.units)
        y[:, k.numbers] = np.clip(y, cases.low, cases.high)[:, k.numbers]
        for t, (group, is_option) in enumerate(zip(k.options, k.is_option, strict=True)):
            y[:, group[is_option]] = 0.0
            y[every, group[points.choice[:, t]]] = 1.0
        for t, column in enumerate(k.bent.tolist()):
            y[:, column] = self.values[0, boxes.row, t, points.choice[:, len(k.options) + t]]
        return y


@final
class KnapsackLagrangian:
    """What changes within m boxes cost and gain, and their Lagrangian for any multipliers."""

    def __init__(self, rows: KnapsackRows, boxes: Boxes) -> None:
        self.rows, self.knapsack = rows, rows.knapsack
        self.cost, self.scale = rows.knapsack.cost, 1.0
        self.missing, self.slack = rows.missing[boxes.row], rows.slack[boxes.row]
        self.enough = self.missing - self.slack  # gains from which on demands are met
        self.factual = rows.factual[boxes.row]
        self.gain = None if rows.gain is None else rows.gain[boxes.row]
        self.index = np.arange(len(boxes.row))[:, None], np.arange(self.knapsack.tables)
        self.narrow(boxes)

    def pick(self, index: Any) -> KnapsackLagrangian:
        """Return the Lagrangian of some of the boxes."""
        return KnapsackLagrangian(self.rows, arrays.pick(self.boxes, index))

    def within(self, boxes: Boxes) -> KnapsackLagrangian:
        """Return the Lagrangian of narrower boxes."""
        inside = copy(self)
        inside.narrow(boxes)
        return inside

    def without_cost(self) -> KnapsackLagrangian:
        """Return the Lagrangian of the same boxes if changes cost nothing."""
        nothing = np.where(np.isinf(self.boxes.option_cost), np.inf, 0.0)
        inside = self.within(self.boxes._replace(option_cost=nothing))
        zero = np.zeros_like(self.cost.absolute)
        inside.cost, inside.scale = Diagonal(zero, zero), 0.0
        return inside

    # --- points ---

    def points(self, change: FloatArray, choice: IntArray) -> Candidates:
        """Return points with their cost and gain."""
        k, cost = self.knapsack, self.paid(change).sum(axis=1)
        gain = np.empty((len(cost), len(k.gains)))
        for r, gains in enumerate(k.gains):
            gain[:, r] = (change * gains).sum(axis=1)
            if k.tables:
                gain[:, r] += self.chosen_gains(choice, r).sum(axis=1)
        if k.tables:
            cost += self.chosen(self.boxes.option_cost, choice).sum(axis=1)
        if k.smooth is not None:
            gain += self.smooth_gains(change[:, k.smooth_columns]).sum(axis=1)
        return Candidates(change, choice, cost, gain)

    def paid(self, change: FloatArray) -> FloatArray:
        """Return the cost of changes (m, c) of numeric columns."""
        k, cost = self.knapsack, self.knapsack.program.encoded_cost
        distance = np.abs(change)
        if cost.levels:
            x = self.rows.x[self.boxes.row]
            distance = cost.distances(k.numbers, lattice.number(x, change, k.units), x) / k.units
        distance *= self.cost.absolute
        if self.cost.is_curved:
            distance += change * change * self.cost.curvature
        return distance

    def chosen(self, values: FloatArray, choice: IntArray) -> FloatArray:
        """Return the value of the chosen option of each table, (m, t) of (m, t, k)."""
        return np.asarray(values[*self.index, choice])

    def chosen_gains(self, choice: IntArray, r: int) -> FloatArray:
        """Return what the chosen option of each table gains on a demand, (m, t)."""
        if self.gain is None:
            return np.asarray(self.knapsack.table_gains[r, self.index[1], choice])
        return np.asarray(self.gain[self.index[0], r, self.index[1], choice])

    def gains_of(self, r: int) -> FloatArray:
        """Return what options gain on a demand, (t, k) or (m, t, k)."""
        return self.knapsack.table_gains[r] if self.gain is None else self.gain[:, r]

    def smooth_gains(self, change: FloatArray) -> FloatArray:
        """Return what changes (m, k) of smooth columns gain by their curves, (m, k, s)."""
        k, row = self.knapsack, self.boxes.row
        assert k.smooth is not None  # noqa: S101 (asked by the caller)
        x, units = self.rows.x[row][:, k.smooth_columns], k.units[k.smooth_columns]
        y = lattice.number(x, change, units)
        return k.of_demands(k.smooth.added(y[:, :, None])[:, :, 0]) - self.rows.added[row]

    def satisfied(self, points: Candidates) -> BoolArray:
        """Return which points meet all demands, (m,)."""
        return np.asarray((points.gain >= self.enough).all(axis=1))

    def changed(self, points: Candidates) -> BoolArray:
        """Return which features differ from the factual row, (m, c + t)."""
        return np.hstack([points.change != 0.0, points.choice != self.factual])

    def narrow(self, boxes: Boxes) -> None:
        """Go on with narrower boxes, and with the features (m, c + t) that must change in them."""
        self.boxes = boxes
        if self.knapsack.at_most is not None:
            tables = np.isinf(self.chosen(boxes.option_cost, self.factual))
            cannot_stay = np.hstack([(boxes.low > 0.0) | (boxes.high < 0.0), tables])
            self.must = boxes.forced | cannot_stay

    @property
    def empty(self) -> BoolArray:
        """Return which boxes have no value left for some feature, or too many that must change."""
        empty = (self.boxes.low > self.boxes.high).any(axis=1)
        if self.knapsack.at_most is not None:
            empty |= self.must.sum(axis=1) > self.knapsack.at_most
        return np.asarray(empty)

    # --- minima ---

    def least(self, multipliers: FloatArray) -> tuple[FloatArray, Candidates]:
        """Return the least cost less λ · gain of each box that is not empty, (m,), and where."""
        k, slope = self.knapsack, self.knapsack.slopes(multipliers)
        change, options = self._changes(slope, multipliers), self.option_values(multipliers)
        choice = options.argmin(axis=2) if k.tables else self.factual
        if k.at_most is not None:
            terms, _ = self._against_staying(multipliers, slope, change, options)
            changing = best_changes(terms, self.must, k.at_most)
            change = np.where(changing[:, : len(k.numbers)], change, 0.0)
            choice = np.where(changing[:, len(k.numbers) :], choice, self.factual)
        points = self.points(change, choice)
        value = points.cost - (multipliers * points.gain).sum(axis=1)
        if self.rows.is_endless:  # a column gains more than it costs, without end
            value[np.isinf(change).any(axis=1)] = -np.inf
        return value, points

    def _changes(self, slope: FloatArray, multipliers: FloatArray) -> FloatArray:
        """Return the change (m, c) of each column at which its term is least."""
        k, (low, high) = self.knapsack, self.boxes[1:3]
        change = self.cost.best(-slope, low, high, steps=k.whole)
        if len(k.levelled):
            self._choose_levels(slope, change)
        if k.smooth is not None:
            change[:, k.smooth_columns] = self._smooth_changes(slope, multipliers)
        return change

    def option_values(self, multipliers: FloatArray) -> FloatArray:
        """Return the terms (m, t, k) of all options; infinite for those that are left out."""
        values = self.boxes.option_cost
        if self.knapsack.tables:
            for r in range(len(self.knapsack.gains)):
                values = values - multipliers[:, r, None, None] * self.gains_of(r)
        return values

    def _against_staying(
        self, multipliers: FloatArray, slope: FloatArray, change: FloatArray, options: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the least terms of features (m, c + t), less those of factual options (m, t)."""
        k, numbers = self.knapsack, self.paid(change) - slope * change
        numbers[np.isinf(change) & (slope != 0.0)] = -np.inf
        if k.smooth is not None:
            gains = self.smooth_gains(change[:, k.smooth_columns])
            numbers[:, k.smooth_columns] -= (gains * multipliers[:, None]).sum(axis=2)
        staying = np.zeros(self.factual.shape)
        if not k.tables:
            return numbers, staying
        for r in range(len(k.gains)):
            staying -= multipliers[:, r, None] * self.chosen_gains(self.factual, r)
        return np.hstack([numbers, options.min(axis=2) - staying]), staying

    def terms(self, multipliers: FloatArray) -> Terms:
        """Return the least terms, and what each feature takes at least of the total.

        Where changes are counted, a feature that takes another value may change at the expense of
        one that then has to stay.
        """
        k, slope = self.knapsack, self.knapsack.slopes(multipliers)
        change, options = self._changes(slope, multipliers), self.option_values(multipliers)
        terms, staying = self._against_staying(multipliers, slope, change, options)
        total = terms.sum(axis=1)
        if k.at_most is not None:
            total = np.where(best_changes(terms, self.must, k.at_most), terms, 0.0).sum(axis=1)
            gains = np.sort(np.where(self.must, 0.0, np.minimum(terms, 0.0)), axis=1)
            last = np.clip(k.at_most - self.must.sum(axis=1), 1, terms.shape[1]) - 1
            last_gain = np.take_along_axis(gains, last[:, None], axis=1)
            terms = np.where(self.must, terms, np.minimum(terms, last_gain))
        numbers, tables = np.split(terms, [len(k.numbers)], axis=1)
        return Terms(total + staying.sum(axis=1), slope, numbers, options, tables + staying)

    def _choose_levels(self, slope: FloatArray, change: FloatArray) -> None:
        """Write the least of columns whose cost is by level into ``change``: a level or an end."""
        columns, row = self.knapsack.levelled, self.boxes.row
        low, high, ends = self.boxes.low[:, columns], self.boxes.high[:, columns], np.array(change)
        changes = [self.rows.level_changes[row]]
        paid = self.rows.level_costs[row] * self.scale
        values = [paid - slope[:, columns, None] * changes[0]]
        values[0][(changes[0] < low[..., None]) | (changes[0] > high[..., None])] = np.inf
        for end in (low, high):
            ends[:, columns] = end
            changes.append(end[..., None])
            values.append((self.paid(ends)[:, columns] - slope[:, columns] * end)[..., None])
        every, value = np.concatenate(changes, axis=2), np.concatenate(values, axis=2)
        least = value == value.min(axis=2, keepdims=True)
        best = np.where(least, np.abs(every), np.inf).argmin(axis=2)[..., None]
        change[:, columns] = np.take_along_axis(every, best, axis=2)[..., 0]

    def _smooth_changes(self, slope: FloatArray, multipliers: FloatArray) -> FloatArray:
        """Return the changes (m, k) of smooth columns at which their terms are least."""
        k, bends, cases = self.knapsack, self.knapsack.smooth, self.rows.cases
        assert bends is not None  # noqa: S101 (asked by the caller)
        at, columns, cases = k.smooth_columns, bends.columns, cases.take(self.boxes.row)
        x, units, ends = cases.x[:, columns], k.units[k.smooth_columns], self.boxes[1:3]
        low, high, pull = np.array(cases.low), np.array(cases.high), np.zeros(cases.x.shape)
        for bounds, end in ((low, ends[0]), (high, ends[1])):
            bounds[:, columns] = lattice.number(x, end[:, at], units)
        pull[:, columns] = -slope[:, at] / units
        weights = k.multipliers(multipliers)[:, k.program.affine.size :]
        cost = k.program.encoded_cost
        costs = self.scale * cost.absolute, self.scale * cost.quadratic
        inside = replace(cases, low=low, high=high)
        y = bends.least(inside, weights, pull, costs, k.program.domain.steps)[1]
        change = np.where(k.whole[at], np.rint((y - x) / units), (y - x) / units)
        rounded = lattice.number(x, change, units)
        # what was found at the end of a piece is not to be rounded into the next one
        beyond = ~k.whole[at] & (bends.piece(rounded)[1] != bends.piece(y)[1])
        nearer = np.nextafter(change + (y - rounded), np.copysign(np.inf, y - rounded))
        change = np.where(beyond, nearer, change)
        return np.clip(change, ends[0][:, at], ends[1][:, at])


def _one_below_other(first: Any, second: Any) -> Any:
    """Return arrays (…, t, k) and (…, b, k') as one, with zeros beyond the shorter ones."""
    shape, t = list(first.shape), first.shape[-2]
    shape[-2:] = t + second.shape[-2], max(first.shape[-1], second.shape[-1])
    out = np.zeros(shape, dtype=first.dtype)
    out[..., :t, : first.shape[-1]], out[..., t:, : second.shape[-1]] = first, second
    return out
