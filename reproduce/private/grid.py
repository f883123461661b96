"""What is simulated: data sets, β and p, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from private.known import Kind
from private.sets import data_sets
from private.simulation import Cell, Sizes, Tally, simulated

__all__ = ["BETAS", "CURVE", "FULL", "PS", "QUICK", "Amount", "cells", "tallies"]

P = 0.9
BETA = 5.0
BETAS: dict[Kind, tuple[float, ...]] = {
    "fourier": (5.0, 10.0, 20.0, 50.0),
    "linear": (50.0, 100.0, 200.0, 400.0),
}
"""Features of both signs add up to less noise than the 31 weights of standardised columns."""
PS = (0.6, 0.75, 0.99)
"""Beside 0.9, at the second of these β."""
CURVE = (0.1, 1.0, 2.5, *BETAS["fourier"])
"""Of figures 5 and 6, for breast cancer."""
CURVE_PS = (0.6, 0.75, P, 0.99)
"""Of figure 5b, at β = 5."""


@dataclass(frozen=True)
class Amount:
    """How much is done: everything, or enough to see that it works.

    Parameters
    ----------
    cell
        For each cell of the simulation.
    accuracies
        Draws of the noise for each accuracy.
    features
        How often random features are drawn for accuracies.
    constants
        Draws that check a quantile.
    neighbours
        Rows that are exchanged, of each data set.
    plane
        Draws of the noise in two dimensions.
    leads
        Rows, and draws, for what a lead has to be.
    short
        Whether only the first data set and half of the grid are simulated.
    """

    cell: Sizes
    accuracies: int
    features: int
    constants: int
    neighbours: int
    plane: int
    safety_margins: tuple[int, int]
    short: bool


FULL = Amount(Sizes(100, 30, 5), 10_000, 10, 2_000_000, 60, 300, (6, 2_000), short=False)
QUICK = Amount(Sizes(2, 1, 1), 50, 1, 20_000, 3, 20, (1, 200), short=True)


def cells(kind: Kind, amount: Amount) -> list[Cell]:
    """Those of the tables of real validity."""
    betas = BETAS[kind]
    pairs = [(beta, P) for beta in betas] + [(betas[1], p) for p in PS]
    if amount.short:
        return [Cell("breast cancer", kind, *pair) for pair in pairs[1::2]]
    return [Cell(data.name, kind, *pair) for data in data_sets() for pair in pairs]


def tallies(cell: Cell, amount: Amount) -> dict[str, Tally]:
    """Method → what it answered."""
    return simulated(cell, amount.cell)
