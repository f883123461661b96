"""Where the data are."""

from __future__ import annotations

from pathlib import Path

from _common import data_file
from group_peers.eldr import RADIUS, Published, published

__all__ = ["Published", "cells_file", "folder", "sets"]


def folder() -> Path | None:
    """What the authors published; None if it is not here."""
    file = data_file("eldr/results/Iris/out.csv")
    return None if file is None else file.parents[2]


def cells_file() -> Path | None:
    """Single cells; None if they are not here."""
    return data_file("scrna/pbmc68k_reduced.npz")


def sets(where: Path, *, quick: bool) -> list[Published]:
    """Their data sets."""
    return [published(where, name) for name in (("Iris", "Heart") if quick else RADIUS)]
