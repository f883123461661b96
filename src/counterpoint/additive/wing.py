"""What this wing adds: solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counterpoint.additive import estimators, readers  # noqa: F401 (they register themselves)
from counterpoint.certificate import Bounding

__all__ = ["SEARCHES", "SOLVERS"]

SOLVERS: tuple[Any, ...] = ()
SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {}
