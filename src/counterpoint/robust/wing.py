"""What this wing adds: readers of models with noise on their weights, and how they are searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counterpoint.certificate import Bounding
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.search import Found, Leads
from counterpoint.robust import form  # noqa: F401 (registers its readers)
from counterpoint.robust.chance import Chance, Lead, LinearLeads
from counterpoint.robust.refine import cutting_planes
from counterpoint.robust.search import search_waves
from counterpoint.robust.wave_bounds import WaveLeads
from counterpoint.robust.waves import WaveLimit

__all__ = ["SEARCHES", "SOLVERS"]

SOLVERS: tuple[Any, ...] = ()
"""None: no solver takes its conditions as they are, see `SEARCHES`."""


def _outside_in(found: Found, pieces: Pieces, leads: Leads | None) -> Sequence[Bounding]:
    beside = leads.leads if isinstance(leads, LinearLeads) else None
    return cutting_planes(found, pieces.listed, beside)


def _by_descents(found: Found, pieces: Pieces, leads: Leads | None) -> Sequence[Bounding]:
    assert leads is None or isinstance(leads, WaveLeads)  # noqa: S101 (see `SEARCHES`)
    return search_waves(found, pieces.listed, pieces.aim, leads)


SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {
    **dict.fromkeys((Chance, Lead, LinearLeads), _outside_in),
    **dict.fromkeys((WaveLimit, WaveLeads), _by_descents),
}
