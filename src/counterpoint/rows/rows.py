"""Rows that are asked about: as the model takes them, as codes, and encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.rows.table import Table

__all__ = ["Rows"]


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that are asked about, and what each of them asks for itself.

    Parameters
    ----------
    index
        (n,) their positions in the call.
    table
        The model's columns of them, as they came.
    codes, x
        (n, p) their codes, and (n, d) the same encoded.
    weight
        (n,) what the price counts beside what is charged; None if nothing is.
    held
        (n, p) which features must stay; None if none must.
    """

    index: IntArray
    table: Table
    codes: FloatArray
    x: FloatArray
    weight: FloatArray | None = None
    held: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.index)

    def take(self, part: IntArray) -> Rows:
        """Some of them, each once and in order."""
        if len(part) == len(self.index):
            return self
        return Rows(
            self.index[part],
            self.table.take(part),
            self.codes[part],
            self.x[part],
            None if self.weight is None else self.weight[part],
            None if self.held is None else self.held[part],
        )
