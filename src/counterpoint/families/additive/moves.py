"""Rows as knapsacks see them: boxes of their domains, and points in these."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs.region import Cases

__all__ = ["Boxes", "KnapsackData", "Moves", "chosen"]


@final
class Boxes(NamedTuple):
    """Boxes of n rows' domains."""

    low: FloatArray  # (n, c) least changes of the c numeric columns, in their units
    high: FloatArray
    mask: BoolArray  # (n, t, k) which options of the tables are left
    forced: BoolArray  # (n, c + t) features that count as changed; (n, 0) if none are counted

    def take(self, rows: Any) -> Boxes:
        """Some of them."""
        return Boxes(self.low[rows], self.high[rows], self.mask[rows], self.forced[rows])


@final
class Moves(NamedTuple):
    """One point of each of n rows."""

    change: FloatArray  # (n, c) in units
    choice: IntArray  # (n, t) the option of each table
    cost: FloatArray  # (n,)
    gain: FloatArray  # (n, s) of each demand

    def take(self, rows: Any) -> Moves:
        """Some of them."""
        return Moves(self.change[rows], self.choice[rows], self.cost[rows], self.gain[rows])

    def put(self, rows: Any, other: Moves) -> None:
        """Write the points of some rows."""
        for mine, new in zip(self, other, strict=True):
            mine[rows] = new


@final
class KnapsackData(NamedTuple):
    """What a knapsack knows of n rows."""

    short: FloatArray  # (n, s) what changes must gain, with the gains of tables as they are
    slack: FloatArray  # (n, s) by how much that may be missed: rounding
    encoded_cost: FloatArray  # (n, t, k) of each option
    here: IntArray  # (n, t) the factual option
    # (n, s, t, k) what options gain; (n, 0, 0, 0) if that is the same for all rows
    gain: FloatArray
    boxes: Boxes
    added: FloatArray  # (n, k, s) what columns that bend smoothly add to demands as they are
    cases: Cases | None  # the rows, if there are such columns, or prices by level
    # (n, l, p) increasing changes in units, and what they cost: of l columns priced by level,
    # linear between two of them
    at: FloatArray
    paid: FloatArray

    def take(self, rows: Any) -> KnapsackData:
        """Some of them."""
        return KnapsackData(
            self.short[rows],
            self.slack[rows],
            self.encoded_cost[rows],
            self.here[rows],
            self.gain[rows],
            self.boxes.take(rows),
            self.added[rows],
            None if self.cases is None else self.cases.take(rows),
            self.at[rows],
            self.paid[rows],
        )

    def satisfied(self, moves: Moves) -> BoolArray:
        """(n,): whether points meet all demands."""
        return np.asarray((moves.gain >= self.short - self.slack).all(axis=1))


def chosen(values: Any, choice: IntArray) -> Any:
    """(n, t) of (n, t, k) values, one of each table."""
    n, t = choice.shape
    return values[np.arange(n)[:, None], np.arange(t), choice]
