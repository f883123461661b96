"""Programs over columns that are free of each other, as knapsacks: changes that cost and gain.

A *demand* is one side of a linear row: what changes gain is to be at least what is short. Numeric
columns change by numbers of their units (steps, or feature units); a *table* is a one-hot group,
from which one option is chosen. For multipliers λ of the demands, the Lagrangian

    min over the domain of  price(δ) − λ · gain(δ)  +  λ · short

is a sum of minima of one column each, in closed form, and bounds the price from below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from counterpoint.additive.sums import SumDuality
from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.numerics import EPS, STEP_SLACK, BoolArray, FloatArray, IntArray

__all__ = ["Boxes", "Given", "Knapsack", "Moves"]


@final
class Boxes(NamedTuple):
    """Boxes of n rows' domains."""

    low: FloatArray  # (n, c) least changes of the c numeric columns, in their units
    high: FloatArray
    mask: BoolArray  # (n, t, k) which options of the tables are left
    forced: BoolArray  # (n, c + t) features that count as changed; (n, 0) if none are counted

    def take(self, rows: Any) -> Boxes:
        """Some of them."""
        return Boxes(*(part[rows] for part in self))


@final
class Moves(NamedTuple):
    """One point of each of n rows."""

    change: FloatArray  # (n, c) in units
    choice: IntArray  # (n, t) the option of each table
    cost: FloatArray  # (n,)
    gain: FloatArray  # (n, s) of each demand

    def take(self, rows: Any) -> Moves:
        """Some of them."""
        return Moves(*(part[rows] for part in self))

    def put(self, rows: Any, other: Moves) -> None:
        """Write the points of some rows."""
        for mine, new in zip(self, other, strict=True):
            mine[rows] = new


@final
@dataclass(frozen=True, eq=False)
class Given:
    """What a knapsack knows of n rows."""

    short: FloatArray  # (n, s) what changes must gain, with the gains of tables as they are
    slack: FloatArray  # (n, s) by how much that may be missed: rounding
    price: FloatArray  # (n, t, k) of each option
    here: IntArray  # (n, t) the factual option
    # (n, s, t, k) what options gain; (n, 0, 0, 0) if that is the same for all rows
    gain: FloatArray
    # (3, n, b, k) of columns with curves: the values that options stand for, the least and largest;
    # of all rows, also where some are taken
    values: FloatArray
    boxes: Boxes

    def take(self, rows: Any) -> Given:
        """Some of them."""
        return Given(
            self.short[rows],
            self.slack[rows],
            self.price[rows],
            self.here[rows],
            self.gain[rows],
            self.values,
            self.boxes.take(rows),
        )


@final
@dataclass(frozen=True, eq=False)
class Knapsack:
    """A program of linear rows over whole steps, categories and numbers, at a separable price."""

    program: Program

    @cached_property
    def sums(self) -> SumDuality | None:
        """The rows of sums of functions of single columns, if there are any."""
        beyond = self.program.nonconvex_duality
        return beyond if isinstance(beyond, SumDuality) else None

    @cached_property
    def bent(self) -> IntArray:
        """(b,) the columns with curves, each of which is a table of the values that count."""
        return np.zeros(0, dtype=np.intp) if self.sums is None else self.sums.bends.columns

    @cached_property
    def numbers(self) -> IntArray:
        """(c,) the numeric columns without."""
        return np.setdiff1d(np.flatnonzero(self.program.numeric), self.bent)

    @cached_property
    def rows(self) -> LinearBounds:
        """All rows, over the columns without curves; those of sums come last."""
        affine = self.program.affine
        return (
            affine
            if self.sums is None
            else affine.stacked(replace(self.sums.rows, matrix=self.sums.linear))
        )

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
        return np.asarray(self.program.price.absolute[self.numbers] * self.units)

    @cached_property
    def curvature(self) -> FloatArray:
        """(c,) the price of δ²."""
        return np.asarray(self.program.price.quadratic[self.numbers] * self.units**2)

    @cached_property
    def curved(self) -> BoolArray:
        """(c,) which columns have it."""
        return self.curvature > 0.0

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
        """(s, c) what one unit of each numeric column gains."""
        return np.ascontiguousarray(self.normals[:, self.numbers] * self.units)

    @cached_property
    def options(self) -> tuple[IntArray, BoolArray]:
        """(t, k) the encoded columns of each table, padded, and which are no padding."""
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
    def is_bounded(self) -> bool:
        """Whether no column that gains anything may change without end, at a price or by bounds."""
        ends = (self.program.box.below & self.program.box.above)[self.numbers] | self.curved
        return bool(ends[self.gains.any(axis=0)].all())

    @cached_property
    def count(self) -> int | None:
        """How many features may change; None for any number."""
        return None if self.program.at_most is None else self.program.at_most.count

    @property
    def tables(self) -> int:
        """The number t of tables: the groups, and then the columns with curves."""
        return len(self.options[0]) + len(self.bent)

    def given(self, cases: Cases) -> Given:
        """Rows as the knapsack sees them."""
        rows, _, limits = self.sides
        x, n, groups = cases.x, len(cases), len(self.options[0])
        own, (columns, real) = x[:, self.numbers], self.options
        parts = own[:, None, :] * self.normals[:, self.numbers]
        short = limits + self.rows.closed_in(cases.margin)[:, rows] - parts.sum(axis=2)
        terms = np.abs(parts).sum(axis=2) + np.abs(limits) + self._largest
        low, high = cases.low[:, self.numbers] - own, cases.high[:, self.numbers] - own
        low, high, whole = low / self.units, high / self.units, self.whole
        low[:, whole] = np.ceil(low[:, whole] - STEP_SLACK)
        high[:, whole] = np.floor(high[:, whole] + STEP_SLACK)
        block = x[:, columns] * real
        here = block.argmax(axis=2) if groups else np.zeros((n, 0), dtype=np.intp)
        mask = (cases.high[:, columns] > 0.5) & real
        demanded = (cases.low[:, columns] > 0.5) & real
        mask &= demanded | ~demanded.any(axis=2, keepdims=True)
        price = 2.0 * self.program.price.absolute[columns] * (block < 0.5)
        gain, values = np.zeros((n, 0, 0, 0)), np.zeros((3, n, 0, 0))
        if self.sums is not None:
            mask, price, here, gain, values = self._with_bent(cases, mask, price, here)
            terms += self.sums.bends.roundings * np.abs(gain).max(axis=3).sum(axis=2)
        count = 0 if self.count is None else len(self.numbers) + self.tables
        boxes = Boxes(low, high, mask, np.zeros((n, count), dtype=bool))
        return Given(short, 4.0 * EPS * terms, price, here, gain, values, boxes)

    @cached_property
    def _largest(self) -> FloatArray:
        """(s,) the sums of the sizes of the largest gains of groups."""
        return np.abs(self.table_gains).max(axis=2, initial=0.0).sum(axis=1)

    def _with_bent(
        self, cases: Cases, mask: BoolArray, price: FloatArray, here: IntArray
    ) -> tuple[BoolArray, FloatArray, IntArray, FloatArray, FloatArray]:
        """Groups and columns with curves: what is left, prices, factual options, gains, values."""
        assert self.sums is not None  # noqa: S101 (asked by the caller)
        n, x = len(cases), cases.x[:, self.bent, None]
        values = options_of(self.sums, cases, self.program.steps)
        at, (rows, signs, _) = np.clip(x, values[1], values[2]), self.sides
        at = np.where(np.isnan(values[0]), at, values[0])
        left = values[1] <= values[2]
        at = np.where(left, at, x)
        absolute, curvature = (
            part[self.bent][:, None]
            for part in (self.program.price.absolute, self.program.price.quadratic)
        )
        paid = absolute * np.abs(at - x) + curvature * (at - x) ** 2
        stays = np.where(left, np.abs(at - x), np.inf).argmin(axis=2)
        count, groups = self.program.affine.size, mask.shape[1]
        added = self.sums.bends.added(at)  # (n, b, k, rows of sums)
        own = np.zeros((n, len(rows), *at.shape[1:]))
        for s, (row, sign) in enumerate(zip(rows.tolist(), signs.tolist(), strict=True)):
            slope = 0.0 if row >= count else self.program.affine.matrix[row, self.bent][:, None]
            own[:, s] = sign * (added[..., row - count] if row >= count else at * slope)
        low, high = values[1], values[2]
        if len(rows) == 1:
            order, left, stays, low, high = _records(own[:, 0], left, stays, low, high)
            at, paid, own = (
                np.take_along_axis(part, order if part.ndim == 3 else order[:, None], axis=-1)
                for part in (at, paid, own)
            )
        most = max(mask.shape[2], at.shape[2])
        gain = np.zeros((n, len(rows), self.tables, most))
        gain[:, :, :groups, : self.table_gains.shape[2]] = self.table_gains
        gain[:, :, groups:, : at.shape[2]] = own

        def beside(first: Any, second: Any) -> Any:
            out = np.zeros((n, self.tables, most), dtype=first.dtype)
            out[:, :groups, : first.shape[2]], out[:, groups:, : second.shape[2]] = first, second
            return out

        every = np.hstack([here, stays])
        full = np.stack([at, low, high])
        return beside(mask, left), beside(price, paid), every, gain, full

    def paid(self, change: FloatArray) -> FloatArray:
        """(n, c) what changes cost."""
        with np.errstate(invalid="ignore"):  # of a column without an end
            value = np.abs(change) * self.absolute
            return value + change * change * self.curvature if self.curved.any() else value

    def slopes(self, multipliers: FloatArray) -> FloatArray:
        """(n, c) λ · gains, demand by demand, so that it does not depend on the batch."""
        slope = multipliers[:, :1] * self.gains[0]
        for r in range(1, len(self.gains)):
            slope += multipliers[:, r : r + 1] * self.gains[r]
        return slope

    def table_slopes(self, given: Given, multipliers: FloatArray) -> FloatArray:
        """(n, t, k) the same of options."""
        slope = multipliers[:, 0, None, None] * self.gains_of(given, 0)
        for r in range(1, len(self.gains)):
            slope += multipliers[:, r, None, None] * self.gains_of(given, r)
        return slope

    def gains_of(self, given: Given, r: int) -> FloatArray:
        """(t, k) or (n, t, k) what options gain of a demand."""
        return given.gain[:, r] if given.gain.shape[1] else self.table_gains[r]

    def chosen_gains(self, given: Given, choice: IntArray, r: int) -> FloatArray:
        """(n, t) the same of one option each."""
        if not given.gain.shape[1]:
            return np.asarray(self.table_gains[r][np.arange(self.tables), choice])
        return np.take_along_axis(given.gain[:, r], choice[:, :, None], axis=2)[:, :, 0]

    def gained(self, given: Given, change: FloatArray, choice: IntArray) -> FloatArray:
        """(n, s) what points gain."""
        out = np.empty((len(change), len(self.gains)))
        for r, gains in enumerate(self.gains):
            with np.errstate(invalid="ignore"):
                out[:, r] = (change * gains).sum(axis=1)
            if self.tables:
                out[:, r] += self.chosen_gains(given, choice, r).sum(axis=1)
        return out

    def nearest(self, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """(n, c) the change of each column at which its price less slope · change is least."""
        still = np.minimum(np.maximum(low, 0.0), high)
        pulled = np.where(slope > 0.0, high, low)
        if not self.curved.any():
            return np.where(np.abs(slope) > self.absolute, pulled, still)
        curved = self.curved
        free = slope / np.where(curved, 2.0 * self.curvature, 1.0)
        free = np.where(self.whole, np.rint(free), free)
        free = np.minimum(np.maximum(free, low), high)
        if curved.all():
            return free
        flat = np.where(np.abs(slope) > self.absolute, pulled, still)
        return np.where(curved, free, flat)

    def least(
        self, given: Given, boxes: Boxes, multipliers: FloatArray, *, free: bool = False
    ) -> tuple[FloatArray, Moves, tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
        """(n,) the least price less λ · gain in boxes, and where it is reached.

        And what makes it up: (n, c) slopes, (n, c) and (n, t) what features that take another value
        would leave, (n, t, k) values of options.
        Infinite where a box holds no point. If changes are ``free``, without the price.
        """
        slope = self.slopes(multipliers)
        if free:
            still = np.minimum(np.maximum(boxes.low, 0.0), boxes.high)
            pulled = np.where(slope > 0.0, boxes.high, boxes.low)
            change = np.where(slope == 0.0, still, pulled)
            with np.errstate(invalid="ignore"):
                value = np.where(slope == 0.0, 0.0, -slope * change)
        else:
            change = self.nearest(slope, boxes.low, boxes.high)
            with np.errstate(invalid="ignore"):
                value = self.paid(change) - slope * change
            value[np.isinf(change)] = -np.inf  # it gains more than it costs, without end
        values = np.where(boxes.mask, -self.table_slopes(given, multipliers), np.inf)
        if not free:
            values += given.price
        n = len(slope)
        if self.tables:
            choice = values.argmin(axis=2)
            best = np.take_along_axis(values, choice[:, :, None], axis=2)[:, :, 0]
        else:
            choice, best = np.array(given.here), np.zeros((n, 0))
        empty = (boxes.low > boxes.high).any(axis=1)
        if self.count is not None:
            must = self.musts(given, boxes)
            empty |= must.sum(axis=1) > self.count
            staying = self._staying(given, multipliers)
            kept, instead = self._kept(must, np.hstack([value, best - staying]), self.count)
            stay, still = ~kept[:, len(self.numbers) :], ~kept[:, : len(self.numbers)]
            change[still], value[still] = 0.0, 0.0
            choice[stay], best[stay] = given.here[stay], staying[stay]
        least = value.sum(axis=1) + best.sum(axis=1)
        least[empty] = np.inf
        if self.count is not None:
            c = len(self.numbers)
            value, best = instead[:, :c], instead[:, c:] + staying
        return least, self.moves(given, change, choice), (slope, value, best, values)

    def moves(self, given: Given, change: FloatArray, choice: IntArray) -> Moves:
        """Points with their cost and gain."""
        cost = self.paid(change).sum(axis=1)
        if self.tables:
            chosen = np.take_along_axis(given.price, choice[:, :, None], axis=2)[:, :, 0]
            cost = cost + chosen.sum(axis=1)
        return Moves(change, choice, cost, self.gained(given, change, choice))

    def musts(self, given: Given, boxes: Boxes) -> BoolArray:
        """(n, c + t): features that cannot stay, or count as changed."""
        out = np.array(boxes.forced)
        c = len(self.numbers)
        out[:, :c] |= (boxes.low > 0.0) | (boxes.high < 0.0)
        if self.tables:
            stays = np.take_along_axis(boxes.mask, given.here[:, :, None], axis=2)[:, :, 0]
            out[:, c:] |= ~stays
        return out

    def _staying(self, given: Given, multipliers: FloatArray) -> FloatArray:
        """(n, t) the least of each table if it stays."""
        staying = np.zeros((len(multipliers), self.tables))
        for r in range(len(self.gains)):
            staying -= multipliers[:, r, None] * self.chosen_gains(given, given.here, r)
        return staying

    @staticmethod
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
        last = np.take_along_axis(np.sort(free, axis=1), at[:, None], axis=1)
        return kept, np.where(must, gain, np.minimum(gain, last))

    def changed(self, given: Given, moves: Moves) -> BoolArray:
        """(n, c + t): which features differ."""
        return np.hstack([moves.change != 0.0, moves.choice != given.here])

    def met(self, given: Given, moves: Moves) -> BoolArray:
        """(n,): whether points meet all demands."""
        return np.asarray((moves.gain >= given.short - given.slack).all(axis=1))

    def repaired(self, given: Given, moves: Moves) -> tuple[BoolArray, Moves]:
        """The cheapest replacement of one feature after which all demands are met.

        (n,): whether there is one that does so, or lowers the cost of a point that meets them.
        """
        c = len(self.numbers)
        missing = given.short - moves.gain
        done = self.met(given, moves)
        boxes = given.boxes
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = boxes.low, boxes.high
            possible = np.ones(moves.change.shape, dtype=bool)
            for r, gains in enumerate(self.gains):
                need = moves.change + missing[:, r, None] / gains
                low = np.where(gains > 0.0, np.maximum(low, need), low)
                high = np.where(gains < 0.0, np.minimum(high, need), high)
                possible &= (gains != 0.0) | (missing[:, r] <= given.slack[:, r])[:, None]
            low = np.where(self.whole, np.ceil(low - STEP_SLACK), low)
            high = np.where(self.whole, np.floor(high + STEP_SLACK), high)
        possible &= low <= high
        target = np.minimum(np.maximum(low, 0.0), high)
        target = np.where(possible & np.isfinite(target), target, 0.0)
        price = np.where(possible, self.paid(target) - self.paid(moves.change), np.inf)
        counted = None
        if self.count is not None:
            counted = self.changed(given, moves)
            full = counted.sum(axis=1) >= self.count
            price[(target != 0.0) & ~counted[:, :c] & full[:, None]] = np.inf
        if self.tables:
            price = np.hstack([price, self._swaps(given, moves, missing, counted)])
        item = price.argmin(axis=1)
        rows = np.arange(len(price))
        gain = price[rows, item]
        helps = np.isfinite(gain) & (~done | (gain < 0.0))
        change, choice = np.array(moves.change), np.array(moves.choice)
        number = helps & (item < c)
        change[rows[number], item[number]] = target[rows[number], item[number]]
        swap = helps & ~number
        if swap.any():
            t, k = np.divmod(item[swap] - c, given.price.shape[2])
            choice[rows[swap], t] = k
        return helps, self.moves(given, change, choice)

    def _swaps(
        self, given: Given, moves: Moves, missing: FloatArray, counted: BoolArray | None
    ) -> FloatArray:
        """(n, t · k) what it costs more to choose another option; infinite if that does not do."""
        mask = np.array(given.boxes.mask)
        for r in range(len(self.gains)):
            now = self.chosen_gains(given, moves.choice, r)
            enough = missing[:, r, None] + now - given.slack[:, r, None]
            mask &= self.gains_of(given, r) >= enough[:, :, None]
        now = np.take_along_axis(given.price, moves.choice[:, :, None], axis=2)
        price = np.where(mask, given.price - now, np.inf)
        if counted is not None:
            full = counted.sum(axis=1) >= (self.count or 0)
            new = full[:, None] & ~counted[:, len(self.numbers) :]
            price[new] = np.where(given.price[new] > 0.0, np.inf, price[new])
        return price.reshape(len(price), price.shape[1] * price.shape[2])

    def points(self, cases: Cases, given: Given, moves: Moves) -> FloatArray:
        """(n, d) encoded points."""
        y = np.array(cases.x)
        own = y[:, self.numbers] + moves.change * self.units
        low, high = cases.low[:, self.numbers], cases.high[:, self.numbers]
        y[:, self.numbers] = np.minimum(np.maximum(own, low), high)
        columns, real = self.options
        rows = np.arange(len(y))
        groups = len(columns)
        for t in range(groups):
            y[:, columns[t][real[t]]] = 0.0
            y[rows, columns[t][moves.choice[:, t]]] = 1.0
        for t, column in enumerate(self.bent.tolist()):
            y[:, column] = given.values[0, rows, t, moves.choice[:, groups + t]]
        return y

    def multipliers(self, given: FloatArray) -> FloatArray:
        """(n, size) multipliers of the program's rows from (n, s) those of the demands."""
        rows, signs, _ = self.sides
        out = np.zeros((len(given), self.program.size))  # nothing is between both sorts of rows
        for s in range(len(rows)):
            out[:, rows[s]] -= signs[s] * given[:, s]
        return out


def _records(
    gain: FloatArray, left: BoolArray, stays: IntArray, low: FloatArray, high: FloatArray
) -> tuple[IntArray, BoolArray, IntArray, FloatArray, FloatArray]:
    """The options of columns that gain more than all on the way there; nothing else is worth it.

    (n, b, k') which of the k they are, in their order, and which of these there are; (n, b) where
    the column stays; least and largest values, up to the next ones that are kept.
    """
    k = gain.shape[2]
    every, here = np.arange(k), stays[:, :, None]
    own = np.where(left, gain, -np.inf)
    kept, none = every == here, np.full((*stays.shape, 1), -np.inf)
    for way in (slice(None), slice(None, None, -1)):
        side = every >= here if way.step is None else every <= here
        best = np.maximum.accumulate(np.where(side, own, -np.inf)[..., way], axis=2)
        before = np.concatenate([none, best[..., :-1]], axis=2)[..., way]
        kept |= side & (every != here) & left & (own > before)
    place = np.where(kept, every, k)
    after = np.minimum.accumulate(place[..., ::-1], axis=2)[..., ::-1]
    after = np.concatenate([after[..., 1:], np.full((*stays.shape, 1), k)], axis=2)
    before_it = np.maximum.accumulate(np.where(kept, every, -1), axis=2)
    before_it = np.concatenate([np.full((*stays.shape, 1), -1), before_it[..., :-1]], axis=2)
    top = np.where(left, high, -np.inf).max(axis=2, keepdims=True)
    bottom = np.where(left, low, np.inf).min(axis=2, keepdims=True)
    up = np.nextafter(np.take_along_axis(low, np.minimum(after, k - 1), axis=2), -np.inf)
    down = np.nextafter(np.take_along_axis(high, np.maximum(before_it, 0), axis=2), np.inf)
    high = np.where(every >= here, np.where(after < k, up, top), high)
    low = np.where(every <= here, np.where(before_it >= 0, down, bottom), low)
    count = int(kept.sum(axis=2).max(initial=1))
    order = np.argsort(~kept, axis=2, kind="stable")[:, :, :count]
    out = (np.take_along_axis(part, order, axis=2) for part in (kept & left, low, high))
    some, low, high = out
    return order, some, (kept & (every < here)).sum(axis=2), low, high


def options_of(sums: SumDuality, cases: Cases, steps: FloatArray) -> FloatArray:
    """(3, n, b, k) of columns with curves: NaN or the value of each option, least and largest.

    An option is a piece, where the nearest value is best; or a value on its steps.
    """
    low, high = sums.bends.reachable(cases, steps)
    values = np.stack([np.full(low.shape, np.nan), low, high])
    bends = ~sums.bends.flat  # (b,)
    if not bends.any():
        return values
    x = cases.x[:, sums.bends.columns]
    unit = np.where(steps > 0.0, steps, 1.0)[sums.bends.columns]
    with np.errstate(invalid="ignore"):
        first = np.ceil((cases.low[:, sums.bends.columns] - x) / unit - STEP_SLACK)
        last = np.floor((cases.high[:, sums.bends.columns] - x) / unit + STEP_SLACK)
    first, last = np.maximum(first, -MOST / 2), np.minimum(last, MOST / 2)
    most = int(np.where(bends, last - first + 1.0, 0.0).max(initial=1.0))
    out = np.stack([np.full((*x.shape, max(most, low.shape[2])), v) for v in (np.nan, 1.0, 0.0)])
    out[..., : low.shape[2]] = np.where(bends[:, None], out[..., : low.shape[2]], values)
    number = first[:, :, None] + np.arange(most)
    at = x[:, :, None] + number * unit[:, None]
    here = bends[:, None] & (number <= last[:, :, None])
    for part, missing in zip(out, (np.nan, 1.0, 0.0), strict=True):
        part[..., :most] = np.where(here, at, np.where(bends[:, None], missing, part[..., :most]))
    return out


MOST = 4096
"""How many steps of a column with a curve are looked at, half of them up and half down."""
