"""What this wing adds: readers of nearest prototypes and Gaussians, and solvers of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from counterpoint.engine.frontier import Frontier, Way
from counterpoint.engine.pieces import Pieces
from counterpoint.prototypes import gaussians, reader  # noqa: F401 (each registers its readers)
from counterpoint.prototypes.celled import Celled
from counterpoint.prototypes.cells import Cells
from counterpoint.prototypes.solvers.ccp import Ccp
from counterpoint.prototypes.solvers.quadric import Quadric
from counterpoint.prototypes.solvers.scip import Scip
from counterpoint.solvers.base import Solver

__all__ = ["SOLVERS", "WAYS", "known"]

SOLVERS: tuple[Solver, ...] = (Quadric(), Ccp(), Scip())
"""In the order of preference."""


def _cell_by_cell(frontier: Frontier, pieces: Pieces, _leads: object) -> Way:
    assert isinstance(pieces.lazy, Cells)  # noqa: S101 (see `WAYS`)
    return Celled(frontier, pieces.program, pieces.lazy)


WAYS: dict[type, Callable[..., Way]] = {Cells: _cell_by_cell}


def known() -> tuple[Any, ...]:
    """Programs with their optima, see `counterpoint.testing.known`."""
    from counterpoint.prototypes.known import local

    return local()
