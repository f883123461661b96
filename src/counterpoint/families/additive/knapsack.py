"""Programs with a separable cost and few linear rows, as knapsacks: changes that cost and gain.

A *demand* is one side of a linear row: changes have to *gain* at least what is *missing* for the
row to hold. Numeric columns change by multiples of their *unit*, a step of whole columns and 1 for
the others. A *table* has options, of which one is chosen: a one-hot group has its categories, and a
column with a curve of constant pieces has these pieces. *Features* are the numeric columns and then
the tables. For multipliers λ of the demands, the Lagrangian

    min over the domain of  cost(δ) − λ · gain(δ)  +  λ · missing

is a sum of minima of one column each, in closed form, and bounds the cost from below.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np

from counterpoint.families.additive.curves import MergedCurves
from counterpoint.families.additive.sums import SumDuality
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.programs import arrays
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.programs.separable import Diagonal, best_changes
from counterpoint.rows import lattice


@final
class Boxes(NamedTuple):
    """Boxes of m nodes: what is left of the domains of their rows."""

    row: IntArray  # (m,) positions of their rows
    low: FloatArray  # (m, c) least changes of the c numeric columns, in their units
    high: FloatArray  # (m, c) largest ones
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
    """The terms cost − λ · gain of the features of m boxes, at their least."""

    total: FloatArray  # (m,) their sum
    slope: FloatArray  # (m, c) λ · gain of a unit
    numbers: FloatArray  # (m, c) of numeric columns
    options: FloatArray  # (m, t, k) of all options of tables
    tables: FloatArray  # (m, t) of the best option of each


@final
class Knapsack:
    """A program as a knapsack, without the rows that it is solved for: s demands on c + t features.

    Columns with curves are tables if all their pieces are constant, else *smooth* numeric columns.
    """

    def __init__(self, program: Program) -> None:
        self.program, sums = program, program.duality.nonconvex
        self.sums = sums if isinstance(sums, SumDuality) else None
        self._set_curves()
        self._set_numbers()
        self._set_demands()
        self._set_tables()
        self.at_most = None if program.domain.at_most is None else program.domain.at_most.count
        # (c,) columns without an end for which the least of a Lagrangian may be at infinity, which
        # is no point of a mixture. With a single demand, multipliers are capped instead, see
        # `dual._caps`; but a curve has no greatest slope.
        is_smooth = np.isin(np.arange(len(self.numbers)), self.smooth_columns)
        several = self.gains.any(axis=0) & ~self.nonlinear & (len(self.gains) > 1)
        open_ended = ~(program.domain.box.below & program.domain.box.above)[self.numbers]
        self.endless = open_ended & (is_smooth | several)

    def _set_curves(self) -> None:
        """Set the curves of both kinds, and all linear rows, those of sums last."""
        self.tabulated: MergedCurves | None = None
        self.smooth: MergedCurves | None = None
        self.tabulated_columns = np.zeros(0, dtype=np.intp)
        self.affine = self.program.affine
        if self.sums is not None:
            self.tabulated = self.sums.merged.take(self.sums.tabulated)
            self.tabulated_columns = self.tabulated.columns
            if not self.sums.tabulated.all():
                self.smooth = self.sums.merged.take(~self.sums.tabulated)
            linear = replace(self.sums.rows, matrix=self.sums.linear)
            self.affine = self.affine.stacked(linear)

    def _set_numbers(self) -> None:
        """Set what is known of the c numeric columns.

        That is the encoded column of each, whether it is whole, its unit and the cost of a unit;
        and the positions of columns with smooth curves, and of other columns with costs by level.
        """
        cost, domain = self.program.encoded_cost, self.program.domain
        numeric = np.flatnonzero(domain.numeric)
        self.numbers = numbers = np.setdiff1d(numeric, self.tabulated_columns)
        self.whole = domain.steps[numbers] > 0.0
        self.units = np.where(self.whole, domain.steps[numbers], 1.0)
        absolute, curvature = cost.absolute[numbers], cost.quadratic[numbers]
        self.cost = Diagonal(absolute * self.units, curvature * self.units**2)
        self.nonlinear = self.cost.curvature > 0.0
        self.priced = self.nonlinear | (self.cost.absolute > 0.0)
        smooth = np.zeros(0, dtype=np.intp) if self.smooth is None else self.smooth.columns
        self.smooth_columns = np.searchsorted(numbers, smooth)
        levels = [level.column for level in cost.levels]
        self.levelled = np.setdiff1d(np.flatnonzero(np.isin(numbers, levels)), self.smooth_columns)

    def _set_demands(self) -> None:
        """Set what is known of the s demands.

        That is the row of each, the sign (1 for its lower bound, −1 for its upper one), the limit
        and the normal (s, d); and what a unit of each numeric column gains, beside its curve.
        """
        affine = self.affine
        below, above = (np.flatnonzero(np.isfinite(v)) for v in (affine.low, affine.high))
        self.rows = np.append(below, above)
        self.signs = np.repeat([1.0, -1.0], [len(below), len(above)])
        self.limits = np.concatenate([affine.low[below], -affine.high[above]])
        self.normals = affine.matrix[self.rows] * self.signs[:, None]
        self.gains = np.ascontiguousarray(self.normals[:, self.numbers] * self.units)

    def _set_tables(self) -> None:
        """Set the options of groups, as encoded columns (groups, k), and what they gain.

        Groups are padded to the largest one; ``is_option`` tells options from padding.
        """
        groups = self.program.domain.groups
        ends = np.array([(g.start, g.stop) for g in groups], dtype=np.intp).reshape(-1, 2, 1)
        columns = ends[:, 0] + np.arange(np.diff(ends, axis=1).max(initial=0))
        self.is_option = columns < ends[:, 1]
        self.options = np.where(self.is_option, columns, ends[:, 0])
        self.table_gains = np.ascontiguousarray(self.normals[:, self.options])
        self.tables = len(groups) + len(self.tabulated_columns)  # the number t

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
    """The knapsacks of n rows: their domains, what options cost and gain, and what is missing.

    ``missing`` (n, s) is the gain that each demand asks for, ``factual`` (n, t) the option of each
    table in the row, and ``boxes`` holds the whole domain of each row.
    """

    def __init__(self, knapsack: Knapsack, cases: Batch) -> None:
        self.knapsack, self.cases = knapsack, cases
        k, n, program = knapsack, len(cases), knapsack.program
        self.x = x = cases.x[:, k.numbers]
        at_x = x[:, None, :] * k.normals[:, k.numbers]
        closed_in = k.affine.closed_in(cases.margin)[:, k.rows]
        # Numbers gain by their change, so that what they have at x is subtracted, unless the row
        # is one of changes. Options gain by what they are, and are not.
        self.missing = k.limits + closed_in - at_x.sum(axis=2) * (1.0 - k.affine.of_change[k.rows])
        size = np.abs(at_x).sum(axis=2) + np.abs(k.limits)  # of the terms that are rounded
        size += np.abs(k.table_gains).max(axis=2, initial=0.0).sum(axis=1)

        low, high = cases.low[:, k.numbers], cases.high[:, k.numbers]
        if k.whole.any():
            low = np.where(k.whole, lattice.first(x, low, k.units), low - x)
            high = np.where(k.whole, lattice.last(x, high, k.units), high - x)
        else:
            low, high = low - x, high - x
        permitted, self.factual = self._groups()
        cost = program.duality.diagonal.entered(cases.x)[:, k.options]
        # (n, s, t, k) what options gain, if that is not the same for all rows, see
        # `Knapsack.table_gains`; and for b tabulated columns (3, n, b, k) the values of options,
        # and the least and largest value of their pieces
        self.gain: FloatArray | None = None
        self.values = np.zeros((3, n, 0, 0))
        if k.tabulated is not None and len(k.tabulated_columns):
            possible, paid, factual, gain = self._tabulate_curves(k.tabulated)
            permitted, cost = _one_below_other(permitted, possible), _one_below_other(cost, paid)
            groups = np.broadcast_to(k.table_gains, (n, *k.table_gains.shape))
            self.gain = _one_below_other(groups, gain)
            self.factual = np.hstack([self.factual, factual])
            size += k.tabulated.roundings * np.abs(self.gain).max(axis=3).sum(axis=2)
        if k.smooth is not None:  # their curves, too, gain by the change from x
            self.added = k.of_demands(k.smooth.added(x[:, k.smooth_columns, None])[:, :, 0])
            self.missing -= self.added.sum(axis=1)
            size += k.smooth.roundings * np.abs(self.added).sum(axis=1)
        self.slack = 4.0 * EPS * size  # (n, s) rounding error of what is missing
        self.is_endless = bool(np.isinf(low).any() or np.isinf(high).any())
        features = 0 if k.at_most is None else len(k.numbers) + k.tables
        forced = np.zeros((n, features), dtype=bool)
        cost = np.where(permitted, cost, np.inf)
        self.boxes = Boxes(np.arange(n), low, high, cost, forced)
        self._tabulate_levels()

    def _groups(self) -> tuple[BoolArray, IntArray]:
        """Return which options of groups are permitted, (n, groups, k), and the factual ones."""
        k, cases, shape = self.knapsack, self.cases, (len(self.cases), *self.knapsack.options.shape)
        if not len(k.options):
            return np.zeros(shape, dtype=bool), np.zeros(shape[:2], dtype=np.intp)
        factual = (cases.x[:, k.options] * k.is_option).argmax(axis=2)
        demanded = (cases.low[:, k.options] > 0.5) & k.is_option
        permitted = (cases.high[:, k.options] > 0.5) & k.is_option
        # where an option is demanded, no other is permitted
        return permitted & (demanded | ~demanded.any(axis=2, keepdims=True)), factual

    def _tabulate_levels(self) -> None:
        """Set ``level_changes`` and ``level_costs`` of the l columns whose cost is by level.

        Both are (n, l, p): increasing changes, and what they cost. Costs are linear in between.
        """
        k, n = self.knapsack, len(self.cases)
        cost, low, high = k.program.encoded_cost, self.boxes.low, self.boxes.high
        level_of = {level.column: level for level in cost.levels}
        tables = []
        for j in k.levelled.tolist():
            column = int(k.numbers[j])
            step = float(k.program.domain.steps[column])
            change, rise = level_of[column].table(self.x[:, j], low[:, j], high[:, j], step)
            order = np.argsort(change, axis=1, kind="stable")
            paid = cost.absolute[column] * np.abs(rise)
            tables.append([np.take_along_axis(v, order, axis=1) for v in (change, paid)])
        width = max((change.shape[1] for change, _ in tables), default=0)
        # padded by the last change and its cost, which add nothing to choose from
        padded = [[np.pad(v, ((0, 0), (0, width - v.shape[1])), "edge") for v in t] for t in tables]
        both = np.array(padded).reshape(len(tables), 2, n, width).transpose(1, 2, 0, 3)
        self.level_changes, self.level_costs = both

    def _tabulate_curves(
        self, curves: MergedCurves
    ) -> tuple[BoolArray, FloatArray, IntArray, FloatArray]:
        """Return the options of b tabulated columns; sets their values and ends as ``values``.

        Each of k pieces is an option: its value nearest to the row. Returned are which options are
        possible and what they cost, (n, b, k); the factual option, (n, b), or the nearest one if a
        column cannot stay; and what the options gain, (n, s, b, k).

        Where changes are counted, the factual option of a column that cannot stay is not possible:
        it is one more before the first or after the last piece, on the side on which x lies.
        """
        k, cases, program = self.knapsack, self.cases, self.knapsack.program
        columns, cost = curves.columns, program.encoded_cost
        x = cases.x[:, columns, None]
        low, high = curves.reachable(cases, program.domain.steps)
        below, above = x < cases.low[:, columns, None], x > cases.high[:, columns, None]
        is_counted = program.domain.at_most is not None and bool((below | above).any())
        if is_counted:
            end = np.full(below.shape, np.inf)  # from ∞ to −∞: no value
            low = np.concatenate([end, low, end], axis=2)
            high = np.concatenate([-end, high, -end], axis=2)
        possible = low <= high
        y = np.where(possible, np.clip(x, low, high), x)  # (n, b, k)
        # `distances` takes columns as the last axis
        distance = cost.distances(columns, *(np.moveaxis(v, 1, 2) for v in (y, x)))
        distance = np.moveaxis(distance, 1, 2)
        paid = cost.absolute[columns, None] * distance + cost.quadratic[columns, None] * distance**2
        # not the cheapest option: where ranks are equal, values beside x cost nothing either
        factual = np.where(possible, np.abs(y - x), np.inf).argmin(axis=2)
        if is_counted:
            outside = np.where(above[..., 0], possible.shape[2] - 1, 0)
            factual = np.where((below | above)[..., 0], outside, factual)
        # (n, b, k, s) by the linear parts of the demands and by the curves, and then (n, s, b, k)
        linear = y[..., None] * k.normals[:, columns].T[:, None]
        gain = np.moveaxis(k.of_demands(curves.added(y)) + linear, 3, 1)
        self.values = np.stack([y, low, high])
        return possible, paid, factual, gain

    def points(self, boxes: Boxes, points: Candidates) -> FloatArray:
        """Return points in encoded columns, (m, d)."""
        k, cases = self.knapsack, self.cases.take(boxes.row)
        y, point = np.array(cases.x), np.arange(len(boxes.row))
        y[:, k.numbers] = lattice.number(self.x[boxes.row], points.change, k.units)
        y[:, k.numbers] = np.clip(y, cases.low, cases.high)[:, k.numbers]
        for t, (group, is_option) in enumerate(zip(k.options, k.is_option, strict=True)):
            y[:, group[is_option]] = 0.0
            y[point, group[points.choice[:, t]]] = 1.0
        for t, column in enumerate(k.tabulated_columns.tolist()):
            y[:, column] = self.values[0, boxes.row, t, points.choice[:, len(k.options) + t]]
        return y


@final
class KnapsackLagrangian:
    """What changes within m boxes cost and gain, and their Lagrangian for any multipliers."""

    def __init__(self, rows: KnapsackRows, boxes: Boxes) -> None:
        self.rows, self.knapsack = rows, rows.knapsack
        self.cost, self.scale = rows.knapsack.cost, 1.0
        self.missing, self.slack = rows.missing[boxes.row], rows.slack[boxes.row]
        self.enough = self.missing - self.slack  # (m, s) gains from which on demands are met
        self.factual = rows.factual[boxes.row]
        self.gain = None if rows.gain is None else rows.gain[boxes.row]
        # (box, table), to be followed by the option, as an index of arrays (m, t, k)
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
        option_cost = np.where(np.isinf(self.boxes.option_cost), np.inf, 0.0)
        free = self.within(self.boxes._replace(option_cost=option_cost))
        zero = np.zeros_like(self.cost.absolute)
        free.cost, free.scale = Diagonal(zero, zero), 0.0
        return free

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
        paid = distance * self.cost.absolute
        if self.cost.is_curved:
            paid += change * change * self.cost.curvature
        return paid

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
        """Set the boxes and, if changes are counted, the features that ``must`` change, (m, c + t).

        Those are the ones that count as changed, and those that cannot stay as they are.
        """
        self.boxes = boxes
        if self.knapsack.at_most is not None:
            tables = np.isinf(self.chosen(boxes.option_cost, self.factual))
            cannot_stay = np.hstack([(boxes.low > 0.0) | (boxes.high < 0.0), tables])
            self.must = boxes.forced | cannot_stay

    @property
    def empty(self) -> BoolArray:
        """Return which boxes are empty, (m,), or have too many features that must change.

        Of a table that has no option left, the least term is infinite, and so is the bound.
        """
        empty = (self.boxes.low > self.boxes.high).any(axis=1)
        if self.knapsack.at_most is not None:
            empty |= self.must.sum(axis=1) > self.knapsack.at_most
        return np.asarray(empty)

    # --- minima ---

    def least(self, multipliers: FloatArray) -> tuple[FloatArray, Candidates]:
        """Return the least cost − λ · gain of each box that is not empty, (m,), and its point."""
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
        if self.rows.is_endless:  # a column that changes without end gains more than it costs
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
        """Return how features' least terms differ from those of staying, (m, c + t).

        Numbers that stay have terms of 0. The second array has those of factual options, (m, t).
        """
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
        """Return the least terms: the total, and the part of it that each feature has at least.

        A value whose own term exceeds its feature's part by more than the total may rise cannot
        occur. Where changes are counted, a feature that changes may take the place of the one that
        gains least of those that change: its part is at most what that one gains.
        """
        k, slope = self.knapsack, self.knapsack.slopes(multipliers)
        change, options = self._changes(slope, multipliers), self.option_values(multipliers)
        # relative to the terms of staying, which are 0 for numbers, and ``staying`` for tables
        terms, staying = self._against_staying(multipliers, slope, change, options)
        total = terms.sum(axis=1)
        if k.at_most is not None:
            total = np.where(best_changes(terms, self.must, k.at_most), terms, 0.0).sum(axis=1)
            # Beside features that must change, ``count`` others may: those with the least terms. A
            # feature may take the place of the last of these.
            optional = np.sort(np.where(self.must, 0.0, np.minimum(terms, 0.0)), axis=1)
            count = np.clip(k.at_most - self.must.sum(axis=1), 1, terms.shape[1])
            replaceable = np.take_along_axis(optional, count[:, None] - 1, axis=1)
            terms = np.where(self.must, terms, np.minimum(terms, replaceable))
        numbers, tables = np.split(terms, [len(k.numbers)], axis=1)
        return Terms(total + staying.sum(axis=1), slope, numbers, options, tables + staying)

    def _choose_levels(self, slope: FloatArray, change: FloatArray) -> None:
        """Write the minimizers of columns whose cost is by level into ``change`` (m, c).

        Their terms are linear between tabulated changes, so that one of these is least, or an end
        of the box; of equally good ones the smallest change.
        """
        columns, row = self.knapsack.levelled, self.boxes.row
        low, high = self.boxes.low[:, columns, None], self.boxes.high[:, columns, None]
        slopes, tabulated = slope[:, columns, None], self.rows.level_changes[row]
        value = self.rows.level_costs[row] * self.scale - slopes * tabulated
        value[(tabulated < low) | (tabulated > high)] = np.inf
        changes, values, trial = [tabulated], [value], np.array(change)
        for end in (low, high):
            trial[:, columns] = end[..., 0]
            changes.append(end)
            values.append(self.paid(trial)[:, columns, None] - slopes * end)
        every_change, value = np.concatenate(changes, axis=2), np.concatenate(values, axis=2)
        is_least = value == value.min(axis=2, keepdims=True)
        best = np.where(is_least, np.abs(every_change), np.inf).argmin(axis=2)[..., None]
        change[:, columns] = np.take_along_axis(every_change, best, axis=2)[..., 0]

    def _smooth_changes(self, slope: FloatArray, multipliers: FloatArray) -> FloatArray:
        """Return the changes (m, k) of smooth columns at which their terms are least.

        `MergedCurves.least` finds the values y; they are expressed in units of change from x.
        """
        k, curves, cost = self.knapsack, self.knapsack.smooth, self.knapsack.program.encoded_cost
        assert curves is not None  # noqa: S101 (asked by the caller)
        smooth, columns = k.smooth_columns, curves.columns
        units, whole = k.units[smooth], k.whole[smooth]
        cases = self.rows.cases.take(self.boxes.row)
        x, least, most = cases.x[:, columns], self.boxes.low[:, smooth], self.boxes.high[:, smooth]
        low, high, slopes = np.array(cases.low), np.array(cases.high), np.zeros(cases.x.shape)
        low[:, columns] = lattice.number(x, least, units)
        high[:, columns] = lattice.number(x, most, units)
        slopes[:, columns] = -slope[:, smooth] / units  # λ · gain per feature unit, without curves
        weights = k.multipliers(multipliers)[:, k.program.affine.size :]
        costs = self.scale * cost.absolute, self.scale * cost.quadratic
        inside = replace(cases, low=low, high=high)
        y = curves.least(inside, weights, slopes, costs, k.program.domain.steps)[1]
        change = np.where(whole, np.rint((y - x) / units), (y - x) / units)
        rounded = lattice.number(x, change, units)
        # y may be the last value of a piece, and x + change must not be rounded into the next one
        beyond = ~whole & (curves.piece(rounded)[1] != curves.piece(y)[1])
        nearer = np.nextafter(change + (y - rounded), np.copysign(np.inf, y - rounded))
        return np.clip(np.where(beyond, nearer, change), least, most)


def _one_below_other(first: Any, second: Any) -> Any:
    """Return arrays (…, t, k) and (…, b, k') as one, with zeros beyond the shorter ones."""
    shape, t = list(first.shape), first.shape[-2]
    shape[-2:] = t + second.shape[-2], max(first.shape[-1], second.shape[-1])
    out = np.zeros(shape, dtype=first.dtype)
    out[..., :t, : first.shape[-1]], out[..., t:, : second.shape[-1]] = first, second
    return out
