"""Register the readers of trees and of ensembles of them, and list how they are searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counterpoint.families.trees import boosted, readers  # noqa: F401 (registers them)
from counterpoint.families.trees.form import LeafSums
from counterpoint.families.trees.proofs import evidence_of
from counterpoint.families.trees.search import search_trees
from counterpoint.programs.evidence import Bounding

SOLVERS: tuple[Any, ...] = ()
"""No solver takes its conditions as they are, see `SEARCHES`."""
TABLES = True
TARGETS: tuple[type, ...] = ()
SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {LeafSums: search_trees}
PROOFS: dict[type, Callable[..., Bounding]] = {LeafSums: evidence_of}
