"""What this wing adds: readers of models with noise on their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counterpoint.certificate import Bounding
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.refine import cutting_planes
from counterpoint.engine.search import Found, Leads
from counterpoint.robust import reader  # noqa: F401 (registers its readers)
from counterpoint.robust.bounds.fourier import WaveLeads
from counterpoint.robust.bounds.linear import LinearLeads
from counterpoint.robust.conditions import Chance, Lead
from counterpoint.robust.search import WaveSearch
from counterpoint.robust.waves import WaveLimit

__all__ = ["SOLVERS", "WAYS", "known"]

SOLVERS: tuple[Any, ...] = ()
"""None: no solver takes its conditions as they are, see `WAYS`."""


def _outside_in(found: Found, pieces: Pieces, leads: Leads | None) -> Sequence[Bounding]:
    return cutting_planes(
        found, pieces.listed, leads.regions if isinstance(leads, LinearLeads) else None
    )


def _by_descents(found: Found, pieces: Pieces, leads: Leads | None) -> Sequence[Bounding]:
    assert leads is None or isinstance(leads, WaveLeads)  # noqa: S101 (see `WAYS`)
    search = WaveSearch(found, pieces.listed, pieces.aim, leads)
    search.run()
    return search.evidence()


WAYS: dict[type, Callable[..., Sequence[Bounding]]] = {
    **dict.fromkeys((Chance, Lead, LinearLeads), _outside_in),
    **dict.fromkeys((WaveLimit, WaveLeads), _by_descents),
}


def known() -> tuple[Any, ...]:
    """No programs."""
    return ()
