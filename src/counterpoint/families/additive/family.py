"""Register the readers of steps and models that bin or bend columns, and list their solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from counterpoint.families.additive import estimators, readers  # noqa: F401 (registers them)
from counterpoint.families.additive.solver import Knapsacks
from counterpoint.programs.evidence import Bounding
from counterpoint.solvers.base import Solver

SOLVERS: tuple[type[Solver], ...] = (Knapsacks,)
TABLES = True
TARGETS: tuple[type, ...] = ()
SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {}
PROOFS: dict[type, Callable[..., Bounding]] = {}
