"""Solvers: each a method for one family of programs. They propose; programs and certificates judge.

To add one, write a file and enter it in `all_solvers`. Families bring the solvers of their own
conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial, reduce
from itertools import combinations

import numpy as np

from counterpoint.errors import NoSolver
from counterpoint.families.registry import families
from counterpoint.problem.costs import EncodedCost, Mahalanobis, Manhattan
from counterpoint.programs.conditions import (
    AtMost,
    ChangeBounds,
    Cone,
    LinearBounds,
    MinimumChange,
    Whole,
)
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program, relaxed
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
    "require_known",
]


def applicable(program: Program) -> tuple[type[Solver], ...]:
    """Return the solvers that take a program, in the order in which to try them.

    Raises
    ------
    NoSolver
        If there is none that is complete; the message says what to leave out, see `lack`.
    """
    solvers = tuple(solver for solver in all_solvers() if solver.takes(program))
    if not _is_taken(program):
        raise NoSolver(lack(program))
    return solvers


def lack(program: Program) -> str:
    """Return a sentence on why no solver takes a program, and what to leave out.

    One part is left out, or if that does not do, two; each way that does is named.
    """
    if program.encoded_cost.tables:
        return (
            "Costs by pair of categories and percentile shifts are taken for the labels of linear, "
            "additive and tree models, and the probabilities of two classes; numbers with ranks "
            "need bounds, as data give them. Use one weight for each feature here."
        )

    for count in (1, 2):
        ways = [
            way
            for way in combinations(_simpler(program), count)
            if _is_taken(reduce(lambda simpler, part: part[2](simpler), way, program))
        ]
        if ways:
            names = dict.fromkeys(name for way in ways for name, _, _ in way)
            advice = dict.fromkeys(" and ".join(advice for _, advice, _ in way) for way in ways)
            *first, last = names
            together = f"{', '.join(first)} and {last} together" if first else last
            text = ", or ".join(advice)
            return f"This model cannot be searched with {together}. {text[0].upper()}{text[1:]}."
    return (
        "This model cannot be searched with this cost and these constraints. Use a Manhattan cost, "
        "and constraints of one feature at a time."
    )


Simpler = tuple[str, str, Callable[[Program], Program]]
"""A part of a query, what to do about it, and a function that takes it out of a program."""

DISPENSABLE: dict[type, tuple[str, str]] = {
    LinearBounds: ("constraints that relate columns", "leave out these constraints"),
    ChangeBounds: ("changes that depend on one another", "leave out these constraints"),
    Cone: ("an ellipsoid", "leave out the ellipsoid"),
    AtMost: ("a limit on the number of changes", "leave out this limit"),
    MinimumChange: ("a least change", "leave out the least change"),
    Whole: ("columns of whole numbers", "take these columns as continuous"),
    LogLoss: ("a probability", "ask for the label"),
    LogSumExp: ("a probability", "ask for the label"),
}
"""The names of conditions that a query can do without, and what to do about them."""


def _simpler(program: Program) -> Iterator[Simpler]:
    """Yield the ways in which a user can make a program simpler by one part."""
    cost, condition_types = program.encoded_cost, program.region.condition_types
    square = EncodedCost(cost.absolute, cost.diagonal)
    linear = EncodedCost(cost.absolute + np.sqrt(cost.diagonal), np.zeros(program.width))
    is_full = cost.kind is Mahalanobis
    name = "a Mahalanobis cost" if is_full else "a squared Euclidean cost"
    if is_full:
        yield name, "use a squared Euclidean cost", partial(replace, encoded_cost=square)
    if cost.kind is not Manhattan:
        yield name, "use a Manhattan cost", partial(replace, encoded_cost=linear)
    accepted = frozenset[type]().union(*(solver.accepts for solver in all_solvers()))
    for condition_type in (*DISPENSABLE, *(condition_types - accepted)):
        if condition_type in condition_types:
            yield *_dispensable(condition_type), partial(_without, condition_type)


def _without(condition_type: type, program: Program) -> Program:
    return relaxed(program, condition_type)


def _dispensable(condition_type: type) -> tuple[str, str]:
    """Return the name of a type of condition, and what to do about it."""
    class_name = condition_type.__name__
    return DISPENSABLE.get(condition_type, (class_name, f"leave out {class_name}"))


def require_known(program: Program, known: frozenset[type]) -> None:
    """Raise `NoSolver` for a condition of a type that a search does not know."""
    for kind in sorted(program.condition_types - known, key=lambda kind: kind.__name__):
        name, advice = _dispensable(kind)
        raise NoSolver(
            f"This model cannot be searched with {name}. {advice[0].upper()}{advice[1:]}."
        )


def _is_taken(program: Program) -> bool:
    return any(s.complete and not s.exhaustive and s.takes(program) for s in all_solvers())


@cache
def all_solvers() -> tuple[type[Solver], ...]:
    """Return all solvers, in the order of preference: first those that settle whole batches.

    Each is imported when the first program is to be solved, with the library that it calls.
    """
    from counterpoint.solvers.branching import Branching
    from counterpoint.solvers.clarabel import Clarabel
    from counterpoint.solvers.daqp import Daqp
    from counterpoint.solvers.halfspace import HalfSpace
    from counterpoint.solvers.highs import Highs
    from counterpoint.solvers.probability import Logistic, Newton

    general = (HalfSpace, Logistic, Newton, Daqp, Highs, Clarabel, Branching)
    solvers = (*general, *(solver for family in families() for solver in family.SOLVERS))
    return tuple(sorted(solvers, key=lambda solver: not (solver.batched and solver.complete)))
