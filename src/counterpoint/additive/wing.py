"""What this wing adds: solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counterpoint.additive import form  # noqa: F401 (its readers, once they are there)
from counterpoint.certificate import Bounding

__all__ = ["SEARCHES", "SOLVERS"]

SOLVERS: tuple[Any, ...] = ()
SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {}
