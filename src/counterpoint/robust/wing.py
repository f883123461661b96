"""What this wing adds: readers of models with noise on their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from counterpoint.engine.evidence import Leads
from counterpoint.engine.frontier import Frontier, Way
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.refine import Outer
from counterpoint.robust import reader  # noqa: F401 (registers its readers)
from counterpoint.robust.bounds.fourier import Sweeps
from counterpoint.robust.bounds.linear import Band
from counterpoint.robust.conditions import Chance, Lead
from counterpoint.robust.search import Smooth
from counterpoint.robust.waves import WaveLimit

__all__ = ["SOLVERS", "WAYS", "known"]

SOLVERS: tuple[Any, ...] = ()
"""None: no solver takes its conditions as they are, see `WAYS`."""


def _outside_in(frontier: Frontier, pieces: Pieces, leads: Leads | None) -> Way:
    return Outer(frontier, pieces.listed, leads.regions if isinstance(leads, Band) else None)


def _by_descents(frontier: Frontier, pieces: Pieces, leads: Leads | None) -> Way:
    assert leads is None or isinstance(leads, Sweeps)  # noqa: S101 (see `WAYS`)
    return Smooth(frontier, pieces.listed, pieces.aim, leads)


WAYS: dict[type, Callable[..., Way]] = {
    **dict.fromkeys((Chance, Lead, Band), _outside_in),
    **dict.fromkeys((WaveLimit, Sweeps), _by_descents),
}


def known() -> tuple[Any, ...]:
    """No programs."""
    return ()
