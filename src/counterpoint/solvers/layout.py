"""A weighted Manhattan program as the columns and rows of a (mixed-integer) linear program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program

__all__ = ["Data", "Layout", "balanced_units", "shortfall"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

CROSSED = 1e-9
BALANCINGS = 8
"""Passes of geometric equilibration; more change the units by less than a factor of 2."""


@final
@dataclass(frozen=True, eq=False)
class Data:
    """What changes from person to person, in rows.

    Parameters
    ----------
    low, high, cost
        (n, columns).
    row_low, row_high
        (n, rows).
    caps
        (n, numeric columns) how far each may move if its switch is on; no columns without switches.
    scale
        (n,) all lengths are divided by it.
    """

    low: FloatArray
    high: FloatArray
    cost: FloatArray
    row_low: FloatArray
    row_high: FloatArray
    caps: FloatArray
    scale: FloatArray

    def within(self, i: int, low: FloatArray, high: FloatArray) -> Data:
        """One person with other bounds."""
        one = slice(i, i + 1)
        rows = self.row_low[one], self.row_high[one]
        return Data(low[None], high[None], self.cost[one], *rows, self.caps[one], self.scale[one])


@final
class Layout:
    """How a program becomes columns and rows.

    Columns: rises and falls of the numeric columns, in units in which they cost about 1; one-hot
    columns as they are; and, for a bound on the number of changes, a 0–1 switch for each feature.
    Rows: those of the program, divided by their largest entry; one sum for each group; for the
    switches, ``rise + fall <= cap · switch``, ``new category <= switch``, and their sum.

    Parameters
    ----------
    program
        The program.
    units
        (numeric columns,) other units of those that have no whole steps, in feature units.
    """

    def __init__(self, program: Program, units: FloatArray | None = None) -> None:
        self.program = program
        self.numbers = np.flatnonzero(program.numeric)
        self.hot = np.flatnonzero(~program.numeric)
        self.switches = program.at_most.blocks if program.at_most else ()
        p = len(self.numbers)
        self.hot_at, self.switch_at = 2 * p, 2 * p + len(self.hot)
        steps = program.steps[self.numbers]
        weights = program.price.absolute[self.numbers]
        free = 1.0 / np.where(weights > 0, weights, 1.0) if units is None else units
        self.unit = np.where(steps > 0, steps, free)
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

    def data(self, cases: Cases, cutoff: FloatArray | None) -> Data:
        """Bounds and costs of a batch; infinite caps for a person whose switches lack a bound."""
        x, n = cases.x, len(cases)
        up = (cases.high - x)[:, self.numbers] / self.unit
        down = (x - cases.low)[:, self.numbers] / self.unit
        low = np.maximum(np.hstack([-down, -up]), 0.0)
        high = np.maximum(np.hstack([up, down]), low)
        empty = up + down < -CROSSED
        if empty.any():
            high = np.where(np.hstack([empty, empty]), low - 1.0, high)
        caps = np.zeros((n, 0))
        if self.switches:
            reach = np.full(n, np.inf) if cutoff is None else cutoff
            with np.errstate(divide="ignore", invalid="ignore"):
                caps = np.where(self.price > 0, reach[:, None] / self.price, np.inf)
            caps = np.minimum(np.maximum(up, down), caps)
        row_low, row_high = self._row_bounds(cases)
        scale = np.ones(n) if self.integer.any() else shortfall(row_low, row_high)
        per = scale[:, None]
        extra = np.zeros((n, len(self.switches)))
        weight = 2.0 * self.program.price.absolute[self.hot]
        price = np.broadcast_to(self.price, (n, len(self.price)))
        hot_cost = -weight * (x[:, self.hot] > 0.5)
        return Data(
            np.hstack([low / per, cases.low[:, self.hot], extra]),
            np.hstack([high / per, cases.high[:, self.hot], extra + 1.0]),
            np.hstack([price, price, hot_cost, extra]) / self.normal,
            row_low / per,
            row_high / per,
            caps,
            scale,
        )

    def _row_bounds(self, cases: Cases) -> tuple[FloatArray, FloatArray]:
        program, x, n = self.program, cases.x, len(cases)
        low, high = program.affine.limits(cases.margin)
        here = x[:, self.numbers] @ program.affine.matrix[:, self.numbers].T
        ones = np.ones((n, len(program.groups)))
        lows = [(low - here) / self.row_size, ones]
        highs = [(high - here) / self.row_size, ones]
        if program.at_most is not None:
            count = np.full((n, 1), float(program.at_most.count))
            stays = (x[:, self.hot] > 0.5).astype(np.float64)
            highs += [np.zeros((n, len(self.numbers))), stays, count]
            lows += [np.full((n, len(self.numbers) + len(self.hot) + 1), -np.inf)]
        return np.hstack(lows), np.hstack(highs)

    def points(self, values: FloatArray, cases: Cases, scale: FloatArray) -> FloatArray:
        """(n, d) the encoded points that the columns' values stand for, inside their bounds."""
        p = len(self.numbers)
        y = np.array(cases.x)
        y[:, self.numbers] += (values[:, :p] - values[:, p : 2 * p]) * self.unit * scale[:, None]
        y[:, self.hot] = values[:, self.hot_at : self.switch_at]
        return np.minimum(np.maximum(y, cases.low), cases.high)

    def multipliers(self, duals: FloatArray) -> FloatArray:
        """(…, size) the program's multipliers from the rows' duals (>= 0 for a lower bound)."""
        size = self.program.affine.size
        return -duals[..., :size] * self.normal / self.row_size

    def cost_of(self, objective: FloatArray, cases: Cases) -> FloatArray:
        """(n,) objectives in cost units: categories that stay enter them with their weight."""
        here = cases.x[:, self.hot] > 0.5
        return objective * self.normal + here @ (2.0 * self.program.price.absolute[self.hot])


def balanced_units(program: Program, case: Cases) -> FloatArray:
    """(numeric columns,) units in which one row's demands and its columns are of about one size.

    Geometric equilibration of the linear rows and what they miss by. Units of cost, which are the
    usual ones, can differ by so much that a solver takes the entries of some columns for nothing.

    Parameters
    ----------
    program
        The program.
    case
        One row.
    """
    numeric = program.numeric
    low, high = (limit[0] for limit in program.affine.limits(case.margin))
    here = program.affine.matrix @ case.x[0]
    missed = np.maximum(np.maximum(low - here, here - high), 0.0)
    table = np.abs(np.column_stack([program.affine.matrix, missed]))
    kept = np.append(~numeric, True)
    kept[:-1] |= program.steps > 0
    units = np.append(np.where(program.steps > 0, program.steps, 1.0), 1.0)
    for _ in range(BALANCINGS):
        rows = _middle(table * units, axis=1)
        units = np.where(kept, units, 1.0 / _middle(table / rows[:, None], axis=0))
    width = np.where(case.high[0] > case.low[0], case.high[0] - case.low[0], np.inf)
    return np.minimum(units[:-1], width)[numeric]


def _middle(sizes: FloatArray, axis: int) -> FloatArray:
    """The geometric mean of the largest and the least entry above 0; 1 where there is none."""
    least = np.where(sizes > 0, sizes, np.inf).min(axis=axis, initial=np.inf)
    most = sizes.max(axis=axis, initial=0.0)
    return np.where(most > 0, np.sqrt(np.where(most > 0, least, 1.0)) * np.sqrt(most), 1.0)


def shortfall(row_low: FloatArray, row_high: FloatArray) -> FloatArray:
    """(n,) about the size of the answer: by how much the worst row is missed if nothing changes."""
    short = np.maximum(row_low, -row_high).max(axis=1, initial=0.0)
    return np.where((short > 0.0) & np.isfinite(short), short, 1.0)
