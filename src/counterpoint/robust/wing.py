"""What this wing adds: readers of models with noise on their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from counterpoint.engine.evidence import Leads
from counterpoint.engine.frontier import Frontier, Way
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.refine import CuttingPlanes
from counterpoint.robust import reader  # noqa: F401 (registers its readers)
from counterpoint.robust.bounds.fourier import WaveLeads
from counterpoint.robust.bounds.linear import LinearLeads
from counterpoint.robust.conditions import Chance, Lead
from counterpoint.robust.search import WaveSearch
from counterpoint.robust.waves import WaveLimit

__all__ = ["SOLVERS", "WAYS", "known"]

SOLVERS: tuple[Any, ...] = ()
"""None: no solver takes its conditions as they are, see `WAYS`."""


def _outside_in(frontier: Frontier, pieces: Pieces, leads: Leads | None) -> Way:
    return CuttingPlanes(
        frontier, pieces.listed, leads.regions if isinstance(leads, LinearLeads) else None
    )


def _by_descents(frontier: Frontier, pieces: Pieces, leads: Leads | None) -> Way:
    assert leads is None or isinstance(leads, WaveLeads)  # noqa: S101 (see `WAYS`)
    return WaveSearch(frontier, pieces.listed, pieces.aim, leads)


WAYS: dict[type, Callable[..., Way]] = {
    **dict.fromkeys((Chance, Lead, LinearLeads), _outside_in),
    **dict.fromkeys((WaveLimit, WaveLeads), _by_descents),
}


def known() -> tuple[Any, ...]:
    """No programs."""
    return ()
