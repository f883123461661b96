"""What this wing adds: readers of models with noise on their weights, and how they are searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counterpoint.engine.evidence import Bounding
from counterpoint.robust import form  # noqa: F401 (registers its readers)
from counterpoint.robust.chance import Chance, Lead
from counterpoint.robust.leads import FootLead, LinearLeads
from counterpoint.robust.refine import cutting_planes
from counterpoint.robust.search import search_waves
from counterpoint.robust.wave_bounds import WaveLeads
from counterpoint.robust.waves import WaveLimit

__all__ = ["PROOFS", "SEARCHES", "SOLVERS", "TABLES"]

SOLVERS: tuple[Any, ...] = ()
"""None: no solver takes its conditions as they are, see `SEARCHES`."""
TABLES = False
SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {
    **dict.fromkeys((Chance, FootLead, Lead, LinearLeads), cutting_planes),
    **dict.fromkeys((WaveLimit, WaveLeads), search_waves),
}
PROOFS: dict[type, Callable[..., Bounding]] = {}
