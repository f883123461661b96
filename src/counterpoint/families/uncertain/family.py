"""What this family adds: readers of models with noisy weights, and how they are searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counterpoint.families.uncertain import form  # noqa: F401 (registers its readers)
from counterpoint.families.uncertain.chance import Chance, SafetyMargin
from counterpoint.families.uncertain.refine import cutting_planes
from counterpoint.families.uncertain.safety_margins import LinearLeads
from counterpoint.families.uncertain.search import search_waves
from counterpoint.families.uncertain.wave_bounds import WaveLeads
from counterpoint.families.uncertain.waves import FourierConstraint
from counterpoint.programs.evidence import Bounding

__all__ = ["PROOFS", "SEARCHES", "SOLVERS", "TABLES"]

SOLVERS: tuple[Any, ...] = ()
"""None: no solver takes its conditions as they are, see `SEARCHES`."""
TABLES = False
SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {
    **dict.fromkeys((Chance, SafetyMargin, LinearLeads), cutting_planes),
    **dict.fromkeys((FourierConstraint, WaveLeads), search_waves),
}
PROOFS: dict[type, Callable[..., Bounding]] = {}
