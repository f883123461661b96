"""The families of models that the rest of the package does without.

The rest imports no family. It meets their conditions, unions and bounds as types of its own (see
`counterpoint.programs.region`), and asks the module ``family`` of each for what it adds. Importing
that module registers readers. ``SOLVERS`` are the family's solvers, ``SEARCHES`` says how unions
with conditions or margins of its own, and its lazy unions, are searched, ``TABLES`` whether that
holds for costs with tables, and ``PROOFS`` how its proofs are read from records, by condition or
lazy union. ``TARGETS`` are targets of its own, which the policy file takes too.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

FAMILIES = ("additive", "prototypes", "uncertain", "trees")
"""Their folders."""


@cache
def families() -> tuple[ModuleType, ...]:
    """Return the module ``family`` of each family; one whose folder is not there is left out."""
    modules = []
    for family in FAMILIES:
        folder = f"counterpoint.families.{family}"
        try:
            import_module(folder)
        except ImportError as error:
            if error.name != folder:
                raise
        else:
            modules.append(import_module(f"{folder}.family"))
    return tuple(modules)
