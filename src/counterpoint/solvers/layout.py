"""A weighted Manhattan program as the columns and rows of a (mixed-integer) linear program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.programs import Cases, Program

__all__ = ["Data", "Layout"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

CROSSED = 1e-9


@final
@dataclass(frozen=True, eq=False)
class Data:
    """What changes from person to person.

    Parameters
    ----------
    low, high, cost
        (columns,).
    row_low, row_high
        (rows,).
    caps
        (numeric columns,) how far each may move if its switch is on; empty without switches.
    scale
        All lengths are divided by it.
    """

    low: FloatArray
    high: FloatArray
    cost: FloatArray
    row_low: FloatArray
    row_high: FloatArray
    caps: FloatArray
    scale: float


@final
class Layout:
    """How a program becomes columns and rows.

    Columns: rises and falls of the numeric columns, in units in which they cost about 1; one-hot
    columns as they are; and, for a bound on the number of changes, a 0–1 switch for each feature.
    Rows: those of the program, divided by their largest entry; one sum for each group; for the
    switches, ``rise + fall <= cap · switch``, ``new category <= switch`` and the bound on their sum.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.numbers = np.flatnonzero(program.numeric)
        self.hot = np.flatnonzero(~program.numeric)
        self.switches = program.at_most.blocks if program.at_most else ()
        p = len(self.numbers)
        self.hot_at, self.switch_at = 2 * p, 2 * p + len(self.hot)
        steps = program.steps[self.numbers]
        weights = program.price.absolute[self.numbers]
        self.unit = np.where(steps > 0, steps, 1.0 / np.where(weights > 0, weights, 1.0))
        self.price = weights * self.unit
        self.normal = float(np.median(self.price[self.price > 0])) if self.price.any() else 1.0
        block = self._program_rows()
        size = np.abs(block).max(axis=1, initial=0.0)
        self.row_size = np.where(size > 0, size, 1.0)
        rows = [block / self.row_size[:, None], self._group_rows(), self._switch_rows()]
        self.matrix = np.vstack(rows)
        whole = steps > 0
        binary = np.ones(len(self.hot) + len(self.switches), dtype=bool)
        self.integer: BoolArray = np.concatenate([whole, whole, binary])

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.switch_at + len(self.switches)

    @property
    def first_switch_row(self) -> int:
        """The row of the first numeric column's switch."""
        return self.program.affine.size + len(self.program.groups)

    def _program_rows(self) -> FloatArray:
        matrix = self.program.affine.matrix
        numeric = matrix[:, self.numbers] * self.unit
        none = np.zeros((len(matrix), len(self.switches)))
        return np.hstack([numeric, -numeric, matrix[:, self.hot], none])

    def _group_rows(self) -> FloatArray:
        rows = np.zeros((len(self.program.groups), self.columns))
        for row, group in zip(rows, self.program.groups, strict=True):
            members = (self.hot >= group.start) & (self.hot < group.stop)
            row[self.hot_at : self.switch_at][members] = 1.0
        return rows

    def _switch_rows(self) -> FloatArray:
        """The caps stand at 1 here; each person brings their own."""
        if not self.switches:
            return np.zeros((0, self.columns))
        p = len(self.numbers)
        rows = np.zeros((p + len(self.hot) + 1, self.columns))
        for row, (column, switch) in zip(rows, self.switch_of_numbers(), strict=False):
            row[[column, p + column, switch]] = 1.0, 1.0, -1.0
        owner = self._owner()
        for j, column in enumerate(self.hot.tolist()):
            rows[p + j, [self.hot_at + j, self.switch_at + owner[column]]] = 1.0, -1.0
        rows[-1, self.switch_at :] = 1.0
        return rows

    def _owner(self) -> dict[int, int]:
        return {c: s for s, b in enumerate(self.switches) for c in range(b.start, b.stop)}

    def switch_of_numbers(self) -> list[tuple[int, int]]:
        """(position among the numeric columns, column of its switch)."""
        owner = self._owner()
        return [(j, self.switch_at + owner[c]) for j, c in enumerate(self.numbers.tolist())]

    def data(self, case: Cases, cutoff: float) -> Data | None:
        """Bounds and costs for one person (a case of one row).

        None if a switch would need a finite cap and neither bounds nor a known cost gives one.
        """
        x = case.x[0]
        up = (case.high[0] - x)[self.numbers] / self.unit
        down = (x - case.low[0])[self.numbers] / self.unit
        low = np.concatenate([np.maximum(-down, 0.0), np.maximum(-up, 0.0)])
        high = np.maximum(np.concatenate([up, down]), 0.0)
        empty = np.tile(up + down < -CROSSED, 2)
        high = np.where(empty, low - 1.0, np.maximum(high, low))
        caps = np.zeros(0)
        if self.switches:
            reach = np.full(len(self.price), cutoff) / np.where(self.price > 0, self.price, 1.0)
            caps = np.minimum(np.maximum(up, down), np.where(self.price > 0, reach, np.inf))
            if not np.isfinite(caps).all():
                return None
        row_low, row_high = self._row_bounds(case)
        scale = 1.0 if self.integer.any() else self._scale(row_low, row_high)
        here = x[self.hot] > 0.5
        weight = 2.0 * self.program.price.absolute[self.hot]
        extra = len(self.switches)
        cost = np.concatenate([self.price, self.price, -weight * here, np.zeros(extra)])
        low = np.concatenate([low / scale, case.low[0, self.hot], np.zeros(extra)])
        high = np.concatenate([high / scale, case.high[0, self.hot], np.ones(extra)])
        return Data(
            low, high, cost / self.normal, row_low / scale, row_high / scale, caps, scale
        )

    def _row_bounds(self, case: Cases) -> tuple[FloatArray, FloatArray]:
        program, x = self.program, case.x[0]
        low, high = program.affine.limits(case.margin)
        here = program.affine.matrix[:, self.numbers] @ x[self.numbers]
        ones = np.ones(len(program.groups))
        lows = [(low[0] - here) / self.row_size, ones]
        highs = [(high[0] - here) / self.row_size, ones]
        if program.at_most is not None:
            stays = x[self.hot] > 0.5
            highs += [np.zeros(len(self.numbers)), np.where(stays, 1.0, 0.0)]
            highs += [np.array([float(program.at_most.count)])]
            lows += [np.full(len(self.numbers) + len(self.hot) + 1, -np.inf)]
        return np.concatenate(lows), np.concatenate(highs)

    @staticmethod
    def _scale(row_low: FloatArray, row_high: FloatArray) -> float:
        """About the size of the answer: how much the worst row is missed if nothing changes."""
        short = max(float(row_low.max(initial=-np.inf)), float((-row_high).max(initial=-np.inf)))
        return short if 0.0 < short < np.inf else 1.0

    def point(self, values: FloatArray, case: Cases, scale: float) -> FloatArray:
        """(d,) the encoded point that the columns' values stand for, inside its bounds."""
        p = len(self.numbers)
        y = np.array(case.x[0])
        change = (values[:p] - values[p : 2 * p]) * self.unit * scale
        y[self.numbers] += change
        y[self.hot] = values[self.hot_at : self.switch_at]
        return np.minimum(np.maximum(y, case.low[0]), case.high[0])

    def multipliers(self, duals: FloatArray) -> FloatArray:
        """(size,) the program's multipliers from the duals of the rows (>= 0 for a lower bound)."""
        size = self.program.affine.size
        return -duals[:size] * self.normal / self.row_size

    def cost_of(self, objective: float, case: Cases) -> float:
        """The objective in cost units: categories that stay enter it with their weight."""
        here = case.x[0][self.hot] > 0.5
        return objective * self.normal + float(2.0 * self.program.price.absolute[self.hot] @ here)
