"""Define what solvers share: they propose points and multipliers, which programs judge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, SolverFailure, check_number, shown
from counterpoint.numerics import EPS, FloatArray, IntArray
from counterpoint.programs.conditions import Box, ChangeBounds, LinearBounds, Transitions

if TYPE_CHECKING:
    from counterpoint.programs.program import Program
    from counterpoint.programs.proof import ProofTrees
    from counterpoint.programs.region import Batch

LINEAR = frozenset({Box, ChangeBounds, LinearBounds, Transitions})
"""The types of conditions that every solver of linear rows accepts."""
FEASIBILITY = 1e-9
"""By how much points may miss rows and bounds, relative or in units of change: a tenth of what the
certificate lets pass (`VIOLATION`)."""
DEFAULT_GAP = 1e-6
"""The relative gap: what SCIP is accurate to, and ten times what the other solvers are at worst."""


class Outcome(IntEnum):
    """What a solver reports about one row."""

    FOUND = 0
    """A point, which the solver holds to be feasible."""
    NOTHING = 1
    """No point; the multipliers may still bound the cost."""
    INFEASIBLE = 2
    """The solver holds the row to be infeasible; the multipliers should prove it."""
    LIMIT = 3
    """The time ran out, or the nodes of a branch and bound; there may be a point."""


class Optimality(StrEnum):
    """Where a program is not convex: which of its optima is asked for."""

    LOCAL = "local"
    """The best that descents from several starts find."""
    GLOBAL = "global"
    """The best of all, by an exhaustive search wherever a local optimum is not proved to be it."""


@final
@dataclass(frozen=True)
class Effort:
    """How hard to try."""

    gap: float = 1e-9  # the relative gap, (cost − bound) / cost, at which to stop
    seconds: float | None = None  # time for each row, or None
    optimality: Optimality = Optimality.LOCAL  # whether exhaustive solvers are used
    eps: float = EPS  # from 1 to the next number where rows are kept

    @classmethod
    def checked(cls, gap: float, time_limit: float | None, optimality: str = "local") -> Effort:
        """Return the effort that a user asks for, the limit in seconds; check the numbers."""
        check_number("gap", gap)
        if not 0 <= gap < np.inf:
            raise InvalidInput(f"Expected a finite gap of at least 0; got {shown(gap)}.")
        if time_limit is not None:
            check_number("time_limit", time_limit)
            if not time_limit > 0:
                raise InvalidInput(
                    f"Expected a time limit above 0 seconds; got {shown(time_limit)}."
                )
        try:
            return cls(gap, time_limit, Optimality(str(optimality)))
        except ValueError:
            raise InvalidInput(
                f"Expected an optimality of 'local' or 'global'; got {shown(optimality)}."
            ) from None

    def shared(self, count: int) -> Effort:
        """Return the effort for each of some parts, which share the time evenly."""
        return self if self.seconds is None else replace(self, seconds=self.seconds / count)

    def until(self, end: float) -> Effort:
        """Return the effort with the time that remains until an end, by `time.perf_counter`."""
        return self if end == np.inf else replace(self, seconds=max(end - perf_counter(), 1e-3))


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """The points and multipliers that a solver proposes for n rows."""

    points: FloatArray  # (n, d); NaN where there is none
    multipliers: FloatArray  # (n, size); they bound the cost, or refute the row, by weak duality
    outcomes: NDArray[np.int8]  # (n,) `Outcome`
    # (n,) the solver's own lower bound in cost units, 0 where it has none; infinite if its branch
    # and bound found the row infeasible
    reported: FloatArray
    proof: ProofTrees | None = None  # trees that prove what is reported, if there are any

    @classmethod
    def blank(cls, n: int, program: Program) -> Solution:
        """Return a solution without points for n rows, to be filled in."""
        return cls(
            np.full((n, program.width), np.nan),
            np.zeros((n, program.size)),
            np.full(n, Outcome.NOTHING, dtype=np.int8),
            np.zeros(n),
        )

    def put(self, rows: IntArray | slice, other: Solution) -> None:
        """Replace some rows by those of another solution."""
        self.points[rows], self.multipliers[rows] = other.points, other.multipliers
        self.outcomes[rows], self.reported[rows] = other.outcomes, other.reported

    @property
    def unverified(self) -> FloatArray:
        """The `reported` bounds, (n,), but 0 for rows with a proof, which has its own.

        A search looks for points that lead by a safety margin, so it may report more than is true
        of points without one, such as those at a tie; its proof is checked without the margin.
        """
        out = np.array(self.reported)
        if self.proof is not None:
            out[self.proof.row] = 0.0
        return out

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which rows have a point, (n,)."""
        return np.isfinite(self.points[:, 0]) if len(self.points) else np.zeros(0, dtype=bool)


@dataclass(frozen=True, eq=False)
class Solver(ABC):
    """A method for a family of programs, prepared for one of them: all that depends on no row."""

    program: Program

    accepts: ClassVar[frozenset[type]]
    """The kinds of cost and the types of conditions that it takes; others are refused."""
    accuracy: ClassVar[float]
    """The relative gap that its answers are to reach."""
    complete: ClassVar[bool] = True
    """Whether it settles every row; closed forms settle those that one row of a program decides."""
    batched: ClassVar[bool] = False
    """Whether it takes all rows of a batch at once, so that many cost little more than one."""
    exhaustive: ClassVar[bool] = False
    """Whether it excludes everything else, however long that takes; only if `Effort` asks."""

    @classmethod
    @abstractmethod
    def takes(cls, program: Program) -> bool:
        """Return whether to use it: the program has no types outside of ``accepts``, and so on."""

    @abstractmethod
    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        """Solve for each row of a batch.

        Parameters
        ----------
        cases
            The rows, with their bounds and margins.
        effort
            When to stop.
        cutoff
            (n,) costs of the best points so far: only cheaper ones are of use.
        """


@contextmanager
def translated(backend: str) -> Iterator[None]:
    """Turn errors that a backend raises into `SolverFailure`."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise SolverFailure(f"{backend} failed: {error}") from error
