"""Add readers of models with noisy weights, the target `Robust`, and how both are searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counterpoint.families.uncertain import form  # noqa: F401 (registers its readers)
from counterpoint.families.uncertain.fourier import FourierConstraint, FourierMargins
from counterpoint.families.uncertain.fourier_search import search_fourier
from counterpoint.families.uncertain.linear_margins import Chance, DistanceMargin, LinearMargins
from counterpoint.families.uncertain.refine import cutting_planes
from counterpoint.families.uncertain.target import Robust
from counterpoint.programs.evidence import Bounding

SOLVERS: tuple[Any, ...] = ()
"""None: no solver takes its conditions as they are, see `SEARCHES`."""
TABLES = False
TARGETS: tuple[type, ...] = (Robust,)
SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {
    **dict.fromkeys((Chance, DistanceMargin, LinearMargins), cutting_planes),
    **dict.fromkeys((FourierConstraint, FourierMargins), search_fourier),
}
PROOFS: dict[type, Callable[..., Bounding]] = {}
