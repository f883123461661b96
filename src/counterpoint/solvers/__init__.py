"""Solvers: each a method for one family of programs. They propose; programs and certificates judge.

To add one, write a file and enter it in `SOLVERS`, which is in the order of preference.
"""

from __future__ import annotations

from counterpoint.engine.program import Program
from counterpoint.errors import NoSolver
from counterpoint.prototypes.solvers.ccp import Ccp
from counterpoint.prototypes.solvers.quadric import Quadric
from counterpoint.prototypes.solvers.scip import Scip
from counterpoint.solvers.base import (
    Effort,
    Optimality,
    Outcome,
    Prepared,
    Solution,
    Solver,
)
from counterpoint.solvers.branching import Branching
from counterpoint.solvers.clarabel import Clarabel
from counterpoint.solvers.daqp import Daqp
from counterpoint.solvers.halfspace import HalfSpace
from counterpoint.solvers.highs import Highs
from counterpoint.solvers.logistic import Logistic
from counterpoint.solvers.newton import Newton

__all__ = [
    "SOLVERS",
    "Branching",
    "Ccp",
    "Clarabel",
    "Daqp",
    "Effort",
    "HalfSpace",
    "Highs",
    "Logistic",
    "Newton",
    "Optimality",
    "Outcome",
    "Prepared",
    "Quadric",
    "Scip",
    "Solution",
    "Solver",
    "applicable",
]


def applicable(program: Program) -> tuple[Solver, ...]:
    """The solvers that take a program, in the order in which to try them.

    Raises
    ------
    NoSolver
        If there is none; the message names the nearest solver and what it lacks.
    """
    found = tuple(solver for solver in SOLVERS if solver.takes(program))
    if not any(solver.complete and not solver.exhaustive for solver in found):
        raise NoSolver(_lack(program))
    return found


def _lack(program: Program) -> str:
    def missing(solver: Solver) -> list[str]:
        return sorted(kind.__name__ for kind in program.kinds - solver.accepts)

    nearest = min(SOLVERS, key=lambda solver: len(missing(solver)))
    kinds = ", ".join(sorted(kind.__name__ for kind in program.kinds))
    return (
        f"No solver takes {{{kinds}}}. The nearest, {type(nearest).__name__}, "
        f"lacks {', '.join(missing(nearest))}."
    )


def _relaxed_by(program: Program) -> tuple[Solver, ...]:
    """The solvers of a relaxation inside branch and bound."""
    plain = (s for s in SOLVERS if s.complete and not s.exhaustive)
    direct = (s for s in plain if not isinstance(s, Branching))
    return tuple(s for s in direct if s.takes(program))


SOLVERS: tuple[Solver, ...] = (
    HalfSpace(),
    Quadric(),
    Logistic(),
    Newton(),
    Daqp(),
    Highs(),
    Clarabel(),
    Ccp(Branching(_relaxed_by, nodes=200)),
    Branching(_relaxed_by),
    Scip(),
)
"""All solvers, in the order of preference; those for whole batches first."""
