"""What the simulation found, for one kind of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from private.grid import Amount, cells, tallies
from private.known import Kind
from private.methods import METHODS
from private.simulation import Cell, Tally, interval

__all__ = ["FIXED", "NAMES", "NONE", "SELECTION", "Results", "interval_of", "results", "right"]

SELECTION, FIXED, NONE = "selection", "fixed", "none"
"""Guarantees, as certificates have them."""
NAMES: dict[Kind, str] = {"fourier": "random features", "linear": "linear"}


@dataclass(frozen=True, eq=False)
class Results:
    """All cells of one kind of features, and how much was done."""

    kind: Kind
    held: dict[Cell, dict[str, Tally]]
    amount: Amount

    def of(self, method: str, p: float | None = None) -> list[tuple[Cell, Tally]]:
        """What a method answered, in each cell; nothing if it is not for such features."""
        some = [(c, t) for c, t in self.held.items() if p is None or c.p == p]
        return [(cell, held[method]) for cell, held in some if method in held]

    def promising(self) -> Iterator[tuple[str, Cell, Tally]]:
        """Answers that come with the guarantee of a chosen point."""
        for method in METHODS[self.kind]:
            for cell, tally in self.of(method):
                if set(tally.guarantees) == {SELECTION}:
                    yield method, cell, tally


def results(kind: Kind, amount: Amount) -> Results:
    """The simulation."""
    return Results(kind, {cell: tallies(cell, amount) for cell in cells(kind, amount)}, amount)


def right(tally: Tally) -> str:
    if not tally.found:
        return ""
    low, high = interval_of(tally)
    return f"{tally.right / tally.found:.3f} ({low:.3f}–{high:.3f})"


def interval_of(tally: Tally) -> tuple[float, float]:
    return interval(tally.right, tally.found)
