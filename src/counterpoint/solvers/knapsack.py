"""One demand under weighted Manhattan cost: a knapsack, filled in the order of price."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.engine.separable import SLACK, Groups

__all__ = ["Knapsack", "Step"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Step:
    """Moves that meet one row at the least cost.

    Parameters
    ----------
    points
        (n, d) where they lead; NaN where the row cannot be met within the box.
    multipliers
        (n,) of the row.
    """

    points: FloatArray
    multipliers: FloatArray


@final
@dataclass(frozen=True, eq=False)
class Knapsack:
    """One demand a·y >= b under weighted Manhattan cost: fill the best buys first.

    An item is a numeric column, with the room that its interval leaves in the demand's direction,
    or a category, which gives the best permitted change or nothing.
    """

    program: Program
    demand: FloatArray

    @cached_property
    def _columns(self) -> IntArray:
        """(items,) the encoded column of each item; for a group, its first."""
        groups = [group.start for group in self.program.groups]
        return np.concatenate([np.flatnonzero(self.program.numeric), groups]).astype(np.intp)

    @cached_property
    def _numbers(self) -> IntArray:
        return np.flatnonzero(self.program.numeric)

    @cached_property
    def _unit_price(self) -> FloatArray:
        """(numeric items,) cost for each unit of score; infinite for columns without effect."""
        weight = self.program.price.absolute[self._numbers]
        return _per_unit(weight, np.abs(self.demand[self._numbers]))

    def meet(self, start: FloatArray, short: FloatArray, cases: Cases) -> Step:
        """Meet the demand at the least cost from the start points."""
        quick = self._best_alone(start, short, cases)
        if quick is not None:
            return quick
        room = self._room(start, cases)
        if not self.program.groups:
            price = np.broadcast_to(self._unit_price, room.shape)
            return self._fill(start, short, cases, room, price)
        gain = self._category_gains(start, cases)
        weights = 2.0 * self.program.price.absolute[[g.start for g in self.program.groups]]
        prices = np.broadcast_to(self._unit_price, room.shape), _per_unit(weights, gain)
        price = np.concatenate(prices, axis=1)
        return self._fill(start, short, cases, np.concatenate([room, gain], axis=1), price)

    def _best_alone(self, start: FloatArray, short: FloatArray, cases: Cases) -> Step | None:
        """The whole batch by its one best column, if that has room without limit."""
        if self.program.groups or not np.isfinite(self._unit_price).any():
            return None
        item = int(self._unit_price.argmin())
        column = int(self._numbers[item])
        limit = (cases.high if self.demand[column] > 0 else cases.low)[:, column]
        if (
            self.program.steps[column]
            or np.isfinite(limit[:1] if limit.strides[0] == 0 else limit).any()
        ):
            return None
        points = np.array(start)
        points[:, column] += short / self.demand[column]
        return Step(points, np.full(len(points), self._unit_price[item]))

    def _room(self, start: FloatArray, cases: Cases) -> FloatArray:
        """(n, numeric items) score units that each column can still give."""
        numbers = self._numbers
        effect = self.demand[numbers]
        rise = np.maximum(cases.high[:, numbers] - start[:, numbers], 0.0)
        fall = np.maximum(start[:, numbers] - cases.low[:, numbers], 0.0)
        room = np.where(effect > 0, rise, fall)
        steps = self.program.steps[numbers]
        whole = steps > 0
        if whole.any():
            room = np.array(room)
            room[:, whole] = np.floor(room[:, whole] / steps[whole] + SLACK) * steps[whole]
        with np.errstate(invalid="ignore"):
            return np.where(effect == 0, 0.0, room * np.abs(effect))

    @cached_property
    def _groups(self) -> Groups:
        return Groups(self.program.groups)

    def _reach(self, cases: Cases) -> FloatArray:
        """(n, columns of groups) the score of each permitted category."""
        effect = self.demand[self._groups.columns]
        return np.where(self._groups.permitted(cases), effect, -np.inf)

    def _category_gains(self, start: FloatArray, cases: Cases) -> FloatArray:
        """(n, groups) the most score that a permitted change of category gives."""
        groups = self._groups
        here = groups.reduce(np.add, start[:, groups.columns] * self.demand[groups.columns])
        return np.maximum(groups.reduce(np.maximum, self._reach(cases)) - here, 0.0)

    def _fill(
        self,
        start: FloatArray,
        short: FloatArray,
        cases: Cases,
        room: FloatArray,
        price: FloatArray,
    ) -> Step:
        """Items in the order of their price until the demand is met; the last one in part."""
        n = len(start)
        rows = np.arange(n)
        order = np.argsort(price if self.program.groups else price[:1], axis=1, kind="stable")
        order = np.broadcast_to(order, price.shape)
        filled = np.cumsum(np.take_along_axis(room, order, axis=1), axis=1)
        enough = filled >= short[:, None] * (1.0 - 4e-16)
        possible = enough[:, -1]
        last = np.where(possible, enough.argmax(axis=1), room.shape[1] - 1)
        item = order[rows, last]
        before = np.where(last > 0, filled[rows, np.maximum(last - 1, 0)], 0.0)
        taken = np.zeros_like(room)
        np.put_along_axis(taken, order, np.arange(room.shape[1]) < last[:, None], axis=1)
        amount = np.where(taken > 0, room, 0.0)
        missing = np.maximum(short - before, 0.0)
        self._finish(amount, missing, room, price, item)
        points = self._moved(start, amount, cases)
        multiplier = np.where(possible, price[rows, item], 1.0)
        return Step(np.where(possible[:, None], points, np.nan), multiplier)

    def _finish(
        self,
        amount: FloatArray,
        missing: FloatArray,
        room: FloatArray,
        price: FloatArray,
        item: IntArray,
    ) -> None:
        """Add to ``amount`` the cheapest single item that covers the rest, whole if it must."""
        rows = np.arange(len(amount))
        numbers = len(self._numbers)
        grain = np.full(room.shape[1], np.nan)
        grain[:numbers] = self.program.steps[self._numbers] * np.abs(self.demand[self._numbers])
        if not (grain[:numbers] > 0).any() and room.shape[1] == numbers:
            amount[rows, item] += missing
            return
        left = room - amount
        need = np.broadcast_to(missing[:, None], room.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.ceil(need / np.where(grain > 0, grain, 1.0) - SLACK) * grain
        need = np.where(grain > 0, steps, need)
        need = np.where(np.isnan(grain), left, need)
        covers = (need >= missing[:, None] * (1 - 1e-15)) & (need <= left * (1 + 1e-12))
        with np.errstate(invalid="ignore"):
            cost = np.where(covers & np.isfinite(price), need * price, np.inf)
        choice = cost.argmin(axis=1)
        nothing = ~np.isfinite(cost[rows, choice]) | (missing <= 0)
        amount[rows, choice] += np.where(nothing, 0.0, need[rows, choice])

    def _moved(self, start: FloatArray, amount: FloatArray, cases: Cases) -> FloatArray:
        numbers = self._numbers
        effect = np.where(self.demand[numbers] == 0, 1.0, self.demand[numbers])
        points = np.array(start)
        change, steps = amount[:, : len(numbers)] / effect, self.program.steps[numbers]
        whole = steps > 0.0
        change[:, whole] = np.rint(change[:, whole] / steps[whole]) * steps[whole]
        moved = points[:, numbers] + change
        points[:, numbers] = np.clip(moved, cases.low[:, numbers], cases.high[:, numbers])
        for row, g in zip(*np.nonzero(amount[:, len(numbers) :] > 0), strict=True):
            group = self.program.groups[g]
            permitted = self._groups.permitted(cases.take(slice(row, row + 1)))[0]
            inside = (self._groups.columns >= group.start) & (self._groups.columns < group.stop)
            best = np.where(permitted[inside], self.demand[group], -np.inf).argmax()
            points[row, group] = 0.0
            points[row, group.start + best] = 1.0
        return points


def _per_unit(weight: FloatArray, gain: FloatArray) -> FloatArray:
    """Cost for each unit of score; infinite where there is nothing to gain, even for nothing."""
    price = np.full(np.broadcast_shapes(weight.shape, gain.shape), np.inf)
    return np.divide(weight, gain, out=price, where=gain > 0)
