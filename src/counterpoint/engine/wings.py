"""The wings: families of models, each in a folder of its own, which the rest does without.

The rest imports no wing. It meets their conditions, unions and bounds as kinds of its own (see
`counterpoint.engine.region`), and asks each wing's module ``wing`` for what it adds. Importing that
registers readers. ``SOLVERS`` are its solvers, ``SEARCHES`` says how unions with conditions or
leads of its own, and its lazy unions, are searched, ``TABLES`` whether so they are at prices with
tables, and ``PROOFS`` how proofs of its own are read
from records, by condition or lazy union. What its targets look like in a policy file is
in a module ``policy``, programs to check solvers with in a module ``known``, if it has any.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

__all__ = ["WINGS", "parts", "wings"]

WINGS = ("additive", "prototypes", "robust", "trees")
"""Their folders."""


@cache
def wings() -> tuple[ModuleType, ...]:
    """The module ``wing`` of each wing; a wing whose folder is not there is left out."""
    return parts("wing")


@cache
def parts(part: str) -> tuple[ModuleType, ...]:
    """The module of this name in each wing that has one."""
    found = []
    for name in WINGS:
        folder = f"counterpoint.{name}"
        try:
            import_module(folder)
        except ImportError as error:
            if error.name != folder:
                raise
        else:
            if find_spec(f"{folder}.{part}") is not None:
                found.append(import_module(f"{folder}.{part}"))
    return tuple(found)
