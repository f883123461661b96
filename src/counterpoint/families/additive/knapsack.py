"""Programs over columns that are free of each other, as knapsacks: changes that cost and gain.

A *demand* is one side of a row: what changes gain is to be at least what is short. Numeric columns
change by numbers of their units (steps, or feature units). A *table* is a one-hot group, of which
one option is chosen, or a column with a curve of constant pieces, of which one is. For multipliers
λ of the demands, the Lagrangian

    min over the domain of  price(δ) − λ · gain(δ)  +  λ · short

is a sum of minima of one column each, in closed form, and bounds the price from below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from counterpoint.families.additive.moves import Boxes, KnapsackData, Moves, chosen
from counterpoint.families.additive.pieces import Bends
from counterpoint.families.additive.sums import SumDuality
from counterpoint.families.additive.tables import options_of
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases
from counterpoint.rows import lattice

__all__ = ["Knapsack"]


@final
@dataclass(frozen=True, eq=False)
class Knapsack:
    """A program of rows over whole steps, categories and numbers, at a separable price."""

    program: Program

    @cached_property
    def sums(self) -> SumDuality | None:
        """The rows of sums of functions of single columns, if there are any."""
        beyond = self.program.nonconvex_duality
        return beyond if isinstance(beyond, SumDuality) else None

    @cached_property
    def tabulated(self) -> Bends | None:
        """The columns with curves that are tables: the values that count are few."""
        return None if self.sums is None else self.sums.bends.some(self.sums.tabulated)

    @cached_property
    def smooth(self) -> Bends | None:
        """The other columns with curves, which are numeric."""
        sums = self.sums
        if sums is None or sums.tabulated.all():
            return None
        return sums.bends.some(~sums.tabulated)

    @cached_property
    def bent(self) -> IntArray:
        """(b,) the tabulated columns."""
        return np.zeros(0, dtype=np.intp) if self.tabulated is None else self.tabulated.columns

    @cached_property
    def numbers(self) -> IntArray:
        """(c,) the numeric columns."""
        return np.setdiff1d(np.flatnonzero(self.program.numeric), self.bent)

    @cached_property
    def bending(self) -> IntArray:
        """(k,) which of them bend smoothly."""
        own = np.zeros(0, dtype=np.intp) if self.smooth is None else self.smooth.columns
        return np.searchsorted(self.numbers, own)

    @cached_property
    def levelled(self) -> IntArray:
        """(l,) which of them are priced by level, and do not bend otherwise."""
        own = [level.column for level in self.program.encoded_cost.levels]
        return np.setdiff1d(np.flatnonzero(np.isin(self.numbers, own)), self.bending)

    @cached_property
    def rows(self) -> LinearBounds:
        """All rows, over the columns without curves; those of sums come last."""
        affine, sums = self.program.affine, self.sums
        return affine if sums is None else affine.stacked(replace(sums.rows, matrix=sums.linear))

    @cached_property
    def units(self) -> FloatArray:
        """(c,) the steps of whole columns, 1 for the others."""
        steps = self.program.steps[self.numbers]
        return np.where(steps > 0.0, steps, 1.0)

    @cached_property
    def whole(self) -> BoolArray:
        """(c,) which of them are whole."""
        return self.program.steps[self.numbers] > 0.0

    @cached_property
    def absolute(self) -> FloatArray:
        """(c,) the price of |δ|, in units."""
        return np.asarray(self.program.encoded_cost.absolute[self.numbers] * self.units)

    @cached_property
    def curvature(self) -> FloatArray:
        """(c,) the price of δ²."""
        return np.asarray(self.program.encoded_cost.quadratic[self.numbers] * self.units**2)

    @cached_property
    def nonlinear(self) -> BoolArray:
        """(c,) which columns have it."""
        return self.curvature > 0.0

    @cached_property
    def priced(self) -> BoolArray:
        """(c,) which columns cost something to change."""
        return self.nonlinear | (self.absolute > 0.0)

    @cached_property
    def is_curved(self) -> bool:
        """Whether any has."""
        return bool(self.nonlinear.any())

    @cached_property
    def sides(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """(s,) each demand's row, 1 for its lower bound and −1 for its upper one, and limit."""
        affine = self.rows
        below, above = (np.flatnonzero(np.isfinite(v)) for v in (affine.low, affine.high))
        signs = np.repeat([1.0, -1.0], [len(below), len(above)])
        limits = np.concatenate([affine.low[below], -affine.high[above]])
        return np.append(below, above), signs, limits

    @cached_property
    def normals(self) -> FloatArray:
        """(s, d) what one unit of each encoded column gains."""
        rows, signs, _ = self.sides
        return self.rows.matrix[rows] * signs[:, None]

    @cached_property
    def gains(self) -> FloatArray:
        """(s, c) what one unit of each numeric column gains, beside its curve."""
        return np.ascontiguousarray(self.normals[:, self.numbers] * self.units)

    @cached_property
    def options(self) -> tuple[IntArray, BoolArray]:
        """(t, k) the encoded columns of each group, padded, and which are no padding."""
        groups = self.program.groups
        most = max((g.stop - g.start for g in groups), default=0)
        columns = np.array([g.start for g in groups], dtype=np.intp)[:, None] + np.arange(most)
        stops = np.array([g.stop for g in groups], dtype=np.intp)[:, None]
        real = columns < stops
        return np.where(real, columns, columns[:, :1]), real

    @cached_property
    def table_gains(self) -> FloatArray:
        """(s, t, k) what each option of a group gains."""
        return np.ascontiguousarray(self.normals[:, self.options[0]])

    @cached_property
    def endless(self) -> BoolArray:
        """(c,) which columns may change without end, and gain so: points of mixtures must not.

        Of one demand alone, only columns that bend make up mixtures.
        """
        bends = np.zeros(len(self.numbers), dtype=bool)
        bends[self.bending] = True
        open_ = ~(self.program.box.below & self.program.box.above)[self.numbers]
        several = self.gains.any(axis=0) & ~self.nonlinear & (len(self.gains) > 1)
        return np.asarray(open_ & (bends | several))

    @cached_property
    def count(self) -> int | None:
        """How many features may change; None for any number."""
        return None if self.program.at_most is None else self.program.at_most.count

    @cached_property
    def tables(self) -> int:
        """The number t of tables: the groups, and then the columns with curves."""
        return len(self.options[0]) + len(self.bent)

    def given(self, cases: Cases) -> tuple[KnapsackData, FloatArray]:
        """Rows as the knapsack sees them.

        And (3, n, b, k) of tabulated columns: the values that options stand for, and the least and
        largest values that they are nearest to.
        """
        rows, _, limits = self.sides
        x, n, groups = cases.x, len(cases), len(self.options[0])
        own, (columns, real) = x[:, self.numbers], self.options
        parts = own[:, None, :] * self.normals[:, self.numbers]
        short = limits + self.rows.closed_in(cases.margin)[:, rows] - parts.sum(axis=2)
        terms = np.abs(parts).sum(axis=2) + np.abs(limits) + self._largest
        low, high = cases.low[:, self.numbers], cases.high[:, self.numbers]
        low, high = (
            np.where(self.whole, count(own, end, self.units), end - own)
            for count, end in ((lattice.first, low), (lattice.last, high))
        )
        block = x[:, columns] * real
        here = block.argmax(axis=2) if groups else np.zeros((n, 0), dtype=np.intp)
        mask = (cases.high[:, columns] > 0.5) & real
        demanded = (cases.low[:, columns] > 0.5) & real
        mask &= demanded | ~demanded.any(axis=2, keepdims=True)
        encoded_cost = self.program.duality.diagonal.entered(x)[:, columns]
        gain, values = np.zeros((n, 0, 0, 0)), np.zeros((3, n, 0, 0))
        if self.tabulated is not None and len(self.bent):
            more = options_of(self.program, self.tabulated, cases, self._gains_at)
            mask, encoded_cost = (
                _beside(*both) for both in ((mask, more.left), (encoded_cost, more.encoded_cost))
            )
            tables = np.broadcast_to(self.table_gains, (n, *self.table_gains.shape))
            gain, values = _beside(tables, more.gain), more.values
            here = np.hstack([here, more.here])
            terms += self.tabulated.roundings * np.abs(gain).max(axis=3).sum(axis=2)
        added, seen = np.zeros((n, 0, len(rows))), None
        if self.smooth is not None:
            seen = cases
            added = self._sided(self.smooth.added(own[:, self.bending, None])[:, :, 0])
            short -= added.sum(axis=1)
            terms += self.smooth.roundings * np.abs(added).sum(axis=1)
        count = 0 if self.count is None else len(self.numbers) + self.tables
        boxes = Boxes(low, high, mask, np.zeros((n, count), dtype=bool))
        seen = cases if self.program.encoded_cost.levels else seen
        slack, priced = 4.0 * EPS * terms, self._priced(own, low, high)
        return KnapsackData(
            short, slack, encoded_cost, here, gain, boxes, added, seen, *priced
        ), values

    def _priced(
        self, x: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(n, l, p) changes of columns priced by level, and what they cost."""
        by_column = {level.column: level for level in self.program.encoded_cost.levels}
        tables = [
            by_column[int(self.numbers[j])].table(
                x[:, j], low[:, j], high[:, j], float(self.program.steps[self.numbers[j]])
            )
            for j in self.levelled
        ]
        most = max((at.shape[1] for at, _ in tables), default=0)
        out = np.zeros((2, len(x), len(tables), most))
        for i, (j, table) in enumerate(zip(self.levelled, tables, strict=True)):
            order = np.argsort(table[0], axis=1, kind="stable")
            for part, values in zip(out, table, strict=True):
                part[:, i, : order.shape[1]] = np.take_along_axis(values, order, axis=1)
                part[:, i, order.shape[1] :] = part[:, i, order.shape[1] - 1, None]
            out[1, :, i] = self.program.encoded_cost.absolute[self.numbers[j]] * np.abs(
                out[1, :, i]
            )
        return out[0], out[1]

    def _gains_at(self, values: FloatArray) -> FloatArray:
        """(n, s, b, k) what (n, b, k) values of tabulated columns add to demands."""
        assert self.tabulated is not None  # noqa: S101 (asked by the caller)
        own = values[..., None] * self.normals[:, self.bent].T[:, None]
        return np.moveaxis(self._sided(self.tabulated.added(values)) + own, 3, 1)

    @cached_property
    def _largest(self) -> FloatArray:
        """(s,) the sums of the sizes of the largest gains of groups."""
        return np.abs(self.table_gains).max(axis=2, initial=0.0).sum(axis=1)

    def _sided(self, added: FloatArray) -> FloatArray:
        """(…, s) what is added to each demand, of (…, m) what is added to rows of sums."""
        rows, signs, _ = self.sides
        out = np.zeros((*added.shape[:-1], len(rows)))
        ours = rows >= self.program.affine.size
        out[..., ours] = signs[ours] * added[..., rows[ours] - self.program.affine.size]
        return out

    def paid(self, given: KnapsackData, change: FloatArray) -> FloatArray:
        """(n, c) what changes cost."""
        away = np.abs(change)
        if given.cases is not None and self.program.encoded_cost.levels:
            x = given.cases.x[:, self.numbers]
            away = (
                self.program.encoded_cost.apart(
                    self.numbers, lattice.number(x, change, self.units), x
                )
                / self.units
            )
        value = away * self.absolute
        return value + change * change * self.curvature if self.is_curved else value

    def slopes(self, multipliers: FloatArray) -> FloatArray:
        """(n, c) λ · gains, demand by demand, so that it does not depend on the batch."""
        slope = multipliers[:, :1] * self.gains[0]
        for r in range(1, len(self.gains)):
            slope += multipliers[:, r : r + 1] * self.gains[r]
        return slope

    def table_slopes(self, given: KnapsackData, multipliers: FloatArray) -> FloatArray:
        """(n, t, k) the same of options."""
        slope = multipliers[:, 0, None, None] * self.gains_of(given, 0)
        for r in range(1, len(self.gains)):
            slope += multipliers[:, r, None, None] * self.gains_of(given, r)
        return slope

    def gains_of(self, given: KnapsackData, r: int) -> FloatArray:
        """(t, k) or (n, t, k) what options gain of a demand."""
        return given.gain[:, r] if given.gain.shape[1] else self.table_gains[r]

    def chosen_gains(self, given: KnapsackData, choice: IntArray, r: int) -> FloatArray:
        """(n, t) the same of one option each."""
        if not given.gain.shape[1]:
            return np.asarray(self.table_gains[r][np.arange(self.tables), choice])
        return chosen(given.gain[:, r], choice)

    def gained(self, given: KnapsackData, change: FloatArray, choice: IntArray) -> FloatArray:
        """(n, s) what points gain."""
        out = np.empty((len(change), len(self.gains)))
        for r, gains in enumerate(self.gains):
            out[:, r] = (change * gains).sum(axis=1)
            if self.tables:
                out[:, r] += self.chosen_gains(given, choice, r).sum(axis=1)
        if self.smooth is not None:
            out += self.bent_gains(given, change[:, self.bending]).sum(axis=1)
        return out

    def bent_gains(self, given: KnapsackData, change: FloatArray) -> FloatArray:
        """(n, k, s) what curves of smooth columns add to demands, by (n, k) changes."""
        assert self.smooth is not None  # noqa: S101 (asked by the caller)
        assert given.cases is not None  # noqa: S101 (given with such columns)
        y = lattice.number(given.cases.x[:, self.smooth.columns], change, self.units[self.bending])
        return self._sided(self.smooth.added(y[:, :, None])[:, :, 0]) - given.added

    def _by_level(
        self, given: KnapsackData, slope: FloatArray, change: FloatArray, boxes: Boxes
    ) -> None:
        """Put the changes at which columns priced by level less slope · change are least."""
        own = self.levelled
        low, high, ends = boxes.low[:, own], boxes.high[:, own], np.array(change)
        at, value = [given.at], [given.paid - slope[:, own, None] * given.at]
        value[0][(given.at < low[..., None]) | (given.at > high[..., None])] = np.inf
        for end in (low, high):
            ends[:, own] = end
            at.append(end[..., None])
            value.append((self.paid(given, ends)[:, own] - slope[:, own] * end)[..., None])
        every, values = np.concatenate(at, axis=2), np.concatenate(value, axis=2)
        least = values == values.min(axis=2, keepdims=True)
        best = np.where(least, np.abs(every), np.inf).argmin(axis=2)[..., None]
        change[:, own] = np.take_along_axis(every, best, axis=2)[..., 0]

    def nearest(self, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """(n, c) the change of each column at which its price less slope · change is least."""
        still = np.minimum(np.maximum(low, 0.0), high)
        pulled = np.where(slope > 0.0, high, low)
        if not self.is_curved:
            return np.where(np.abs(slope) > self.absolute, pulled, still)
        nonlinear = self.nonlinear
        free = slope / np.where(nonlinear, 2.0 * self.curvature, 1.0)
        free = np.where(self.whole, np.rint(free), free)
        free = np.minimum(np.maximum(free, low), high)
        if nonlinear.all():
            return free
        flat = np.where(np.abs(slope) > self.absolute, pulled, still)
        return np.where(nonlinear, free, flat)

    def least(
        self, given: KnapsackData, boxes: Boxes, multipliers: FloatArray, *, free: bool = False
    ) -> tuple[FloatArray, Moves, tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
        """(n,) the least price less λ · gain in boxes, and where it is reached.

        And what makes it up: (n, c) slopes, (n, c) and (n, t) what features that take another value
        would leave, (n, t, k) values of options.
        Infinite where a box holds no point. If changes are ``free``, without the price.
        """
        slope, count = self.slopes(multipliers), self.count
        if free:
            still = np.minimum(np.maximum(boxes.low, 0.0), boxes.high)
            pulled = np.where(slope > 0.0, boxes.high, boxes.low)
            change = np.where(slope == 0.0, still, pulled)
            value = np.where(slope == 0.0, 0.0, -slope * change)
        else:
            change = self.nearest(slope, boxes.low, boxes.high)
            if len(self.levelled):
                self._by_level(given, slope, change, boxes)
            value = self.paid(given, change) - slope * change
            value[np.isinf(change)] = -np.inf  # it gains more than it costs, without end
        if self.smooth is not None:
            at = self.bending
            scale = 0.0 if free else 1.0
            value[:, at], change[:, at] = self._smoothly(given, boxes, multipliers, slope, scale)
        least = value.sum(axis=1)
        if self.tables:
            values = np.where(boxes.mask, -self.table_slopes(given, multipliers), np.inf)
            if not free:
                values += given.encoded_cost
            choice = values.argmin(axis=2)
            best = chosen(values, choice)
        else:
            values, choice = given.encoded_cost, given.here.copy()
            best = np.zeros(choice.shape)
        empty = (boxes.low > boxes.high).any(axis=1)
        if count is not None:
            must = self.musts(given, boxes)
            empty |= must.sum(axis=1) > count
            staying = np.zeros(choice.shape)
            for r in range(len(self.gains) if self.tables else 0):
                staying -= multipliers[:, r, None] * self.chosen_gains(given, given.here, r)
            kept, instead = _kept(must, np.hstack([value, best - staying]), count)
            c = len(self.numbers)
            still, stay = ~kept[:, :c], ~kept[:, c:]
            change[still], value[still] = 0.0, 0.0
            choice[stay], best[stay] = given.here[stay], staying[stay]
            least = value.sum(axis=1)
            value, own = instead[:, :c], instead[:, c:] + staying
        else:
            own = best
        least = least + best.sum(axis=1)
        least[empty] = np.inf
        return least, self.moves(given, change, choice), (slope, value, own, values)

    def _smoothly(
        self,
        given: KnapsackData,
        boxes: Boxes,
        multipliers: FloatArray,
        slope: FloatArray,
        scale: float,
    ) -> tuple[FloatArray, FloatArray]:
        """(n, k) the least of smooth columns, with a share of the price, and the changes.

        The least is that against staying.
        """
        bends, cases, at = self.smooth, given.cases, self.bending
        assert bends is not None and cases is not None  # noqa: S101, PT018 (asked by the caller)
        x, low, high, pull = (
            cases.x,
            np.array(cases.low),
            np.array(cases.high),
            np.zeros(cases.x.shape),
        )
        own, unit = bends.columns, self.units[at]
        low[:, own] = lattice.number(x[:, own], boxes.low[:, at], unit)
        high[:, own] = lattice.number(x[:, own], boxes.high[:, at], unit)
        pull[:, own] = -slope[:, at] / unit
        weights = self.multipliers(multipliers)[:, self.program.convex_size :]
        encoded_cost = self.program.encoded_cost
        paid = (scale * encoded_cost.absolute, scale * encoded_cost.quadratic)
        inside = replace(cases, low=low, high=high)
        value, where = bends.least(inside, weights, pull, paid, self.program.steps)
        change = (where - x[:, own]) / unit
        change = np.where(self.whole[at], np.rint(change), change)
        change = np.clip(change, boxes.low[:, at], boxes.high[:, at])
        return value + (given.added * multipliers[:, None]).sum(axis=2), change

    def moves(self, given: KnapsackData, change: FloatArray, choice: IntArray) -> Moves:
        """Points with their cost and gain."""
        cost = self.paid(given, change).sum(axis=1)
        if self.tables:
            cost = cost + chosen(given.encoded_cost, choice).sum(axis=1)
        return Moves(change, choice, cost, self.gained(given, change, choice))

    def musts(self, given: KnapsackData, boxes: Boxes) -> BoolArray:
        """(n, c + t): features that cannot stay, or count as changed."""
        out, c = np.array(boxes.forced), len(self.numbers)
        out[:, :c] |= (boxes.low > 0.0) | (boxes.high < 0.0)
        out[:, c:] |= ~chosen(boxes.mask, given.here)
        return out

    def changed(self, given: KnapsackData, moves: Moves) -> BoolArray:
        """(n, c + t): which features differ."""
        return np.hstack([moves.change != 0.0, moves.choice != given.here])

    def points(self, cases: Cases, values: FloatArray, moves: Moves) -> FloatArray:
        """(n, d) encoded points; the values are those of tabulated columns."""
        y = np.array(cases.x)
        own = lattice.number(y[:, self.numbers], moves.change, self.units)
        low, high = cases.low[:, self.numbers], cases.high[:, self.numbers]
        y[:, self.numbers] = np.minimum(np.maximum(own, low), high)
        columns, real = self.options
        rows = np.arange(len(y))
        for t, group in enumerate(columns):
            y[:, group[real[t]]] = 0.0
            y[rows, group[moves.choice[:, t]]] = 1.0
        y[:, self.bent] = chosen(values[0], moves.choice[:, len(columns) :])
        return y

    def multipliers(self, given: FloatArray) -> FloatArray:
        """(n, size) multipliers of the program's rows from (n, s) those of the demands."""
        rows, signs, _ = self.sides
        out = np.zeros((len(given), self.program.size))  # nothing is between both sorts of rows
        for s in range(len(rows)):
            out[:, rows[s]] -= signs[s] * given[:, s]
        return out


def _beside(first: Any, second: Any) -> Any:
    """(…, t, k) and (…, b, k') arrays as one, with zeros beyond the shorter ones."""
    shape, t = list(first.shape), first.shape[-2]
    shape[-2:] = t + second.shape[-2], max(first.shape[-1], second.shape[-1])
    out = np.zeros(shape, dtype=first.dtype)
    out[..., :t, : first.shape[-1]], out[..., t:, : second.shape[-1]] = first, second
    return out


def _kept(must: BoolArray, gain: FloatArray, count: int) -> tuple[BoolArray, FloatArray]:
    """(n, c + t): the features that must change, and the best others, as many as may.

    And what any would leave if it took another value, and so another had to stay.
    """
    left = count - must.sum(axis=1)
    order = np.argsort(np.where(must, 0.0, gain), axis=1, kind="stable")
    rank = np.argsort(order, axis=1)  # those that must change are behind all that gain
    kept = must | ((rank < left[:, None]) & (gain < 0.0))
    free = np.where(must, 0.0, np.minimum(gain, 0.0))
    at = np.clip(left, 1, gain.shape[1]) - 1
    last = np.sort(free, axis=1)[np.arange(len(free)), at][:, None]
    return kept, np.where(must, gain, np.minimum(gain, last))
