"""The loop that adds cuts or columns: solve a relaxation, add what it lacks, and solve it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["refined"]

R = TypeVar("R")
S = TypeVar("S")


def refined(
    relaxation: R, solve: Callable[[R], S], extend: Callable[[R, S], R | None]
) -> tuple[R, S]:
    """The last relaxation and its solution: the one at which there is nothing to add.

    ``extend`` is given a relaxation with its solution, and returns a larger one: with the cuts that
    the solution misses, or the columns that would make it cheaper; None if it lacks nothing, or if
    time is up.
    """
    while True:
        solution = solve(relaxation)
        larger = extend(relaxation, solution)
        if larger is None:
            return relaxation, solution
        relaxation = larger
