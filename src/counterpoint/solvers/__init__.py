"""Solvers: each a method for one family of programs. They propose; programs and certificates judge.

To add one, write a file and enter it in `all_solvers`. Wings bring the solvers of their conditions.
"""

from __future__ import annotations

from functools import cache

from counterpoint.engine.program import Program
from counterpoint.engine.wings import wings
from counterpoint.errors import NoSolver
from counterpoint.solvers.base import (
    Effort,
    Optimality,
    Outcome,
    Solution,
    Solver,
)

__all__ = [
    "Effort",
    "Optimality",
    "Outcome",
    "Solution",
    "Solver",
    "all_solvers",
    "applicable",
    "lack",
]


def applicable(program: Program) -> tuple[type[Solver], ...]:
    """The solvers that take a program, in the order in which to try them.

    Raises
    ------
    NoSolver
        If there is none; the message names the nearest solver and what it lacks.
    """
    found = tuple(solver for solver in all_solvers() if solver.takes(program))
    if not any(solver.complete and not solver.exhaustive for solver in found):
        raise NoSolver(lack(program))
    return found


def lack(program: Program) -> str:
    """A sentence on why no solver takes a program."""
    if program.price.tables:
        return (
            "Costs by pair of categories and percentile shifts are taken for the labels of linear, "
            "additive and tree models, and the probabilities of two classes; numbers with ranks "
            "need bounds, as data give them. Use one weight for each feature here."
        )

    def missing(solver: type[Solver]) -> list[str]:
        return sorted(kind.__name__ for kind in program.kinds - solver.accepts)

    nearest = min(all_solvers(), key=lambda solver: len(missing(solver)))
    kinds = ", ".join(sorted(kind.__name__ for kind in program.kinds))
    return (
        f"No solver takes {{{kinds}}}. The nearest, {nearest.__name__}, "
        f"lacks {', '.join(missing(nearest))}."
    )


@cache
def all_solvers() -> tuple[type[Solver], ...]:
    """All solvers, in the order of preference: first those that settle whole batches.

    Each is imported when the first program is to be solved, with the library that it calls.
    """
    from counterpoint.solvers.branching import Branching
    from counterpoint.solvers.clarabel import Clarabel
    from counterpoint.solvers.daqp import Daqp
    from counterpoint.solvers.halfspace import HalfSpace
    from counterpoint.solvers.highs import Highs
    from counterpoint.solvers.probability import Logistic, Newton

    own = (HalfSpace, Logistic, Newton, Daqp, Highs, Clarabel, Branching)
    found = (*own, *(solver for wing in wings() for solver in wing.SOLVERS))
    return tuple(sorted(found, key=lambda solver: not (solver.batched and solver.complete)))
