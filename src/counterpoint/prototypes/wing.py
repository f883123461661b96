"""What this wing adds: readers of nearest prototypes and Gaussians, and solvers of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from counterpoint.certificate import Bounding
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.search import Found
from counterpoint.prototypes import reader  # noqa: F401 (it registers readers)
from counterpoint.prototypes.cells import Cells, search_cells
from counterpoint.prototypes.solvers.lattice import Ccp
from counterpoint.prototypes.solvers.lower_bound import Quadric
from counterpoint.prototypes.solvers.scip import Scip
from counterpoint.solvers.base import Solver

__all__ = ["SOLVERS", "WAYS"]

SOLVERS: tuple[type[Solver], ...] = (Quadric, Ccp, Scip)
"""In the order of preference."""


def _cell_by_cell(found: Found, pieces: Pieces, _leads: object) -> Sequence[Bounding]:
    assert isinstance(pieces.lazy, Cells)  # noqa: S101 (see `WAYS`)
    return search_cells(found, pieces.program, pieces.lazy)


WAYS: dict[type, Callable[..., Sequence[Bounding]]] = {Cells: _cell_by_cell}
