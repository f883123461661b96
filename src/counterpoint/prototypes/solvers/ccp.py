"""Locally optimal answers to programs with quadratic conditions, often proved optimal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Affine, Cone
from counterpoint.engine.domains import Box, Transitions
from counterpoint.engine.program import Program
from counterpoint.prototypes.nearer import Nearer
from counterpoint.prototypes.solvers.descent import Descent, Methods
from counterpoint.prototypes.solvers.integral import INTEGRAL
from counterpoint.prototypes.solvers.lattice import Lattice, Lattices
from counterpoint.solvers.base import Effort, Prepared, Solution, Solver

__all__ = ["Ccp"]

FloatArray = NDArray[np.float64]


@final
class Ccp(Solver):
    """The convex-concave procedure from several starts, see `Descent` and `Lattice`.

    Parameters
    ----------
    branching
        A solver of convex programs with whole steps, categories and few changes.
    """

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, Affine, Cone, Nearer, Transitions}
        | set(INTEGRAL)
    )
    accuracy: ClassVar[float] = 1e-7

    def __init__(self, branching: Solver) -> None:
        self.branching = branching

    def takes(self, program: Program) -> bool:
        return program.kinds <= self.accepts and bool(program.nonconvex)

    def prepare(self, program: Program) -> CcpPrograms:
        return CcpPrograms(program, self.branching)


@final
@dataclass(frozen=True, eq=False)
class CcpPrograms(Prepared):
    """A program and what its searches share."""

    program: Program
    branching: Solver

    @cached_property
    def methods(self) -> Methods:
        """For descents."""
        return Methods(self.program)

    @cached_property
    def lattices(self) -> Lattices:
        """For what is integral."""
        return Lattices(self.program, self.branching)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            search = self._search(case, effort, np.inf if cutoff is None else float(cutoff[i]))
            search.run()
            out.multipliers[i] = search.floor.multipliers
            out.outcomes[i] = search.outcome
            if search.point is not None:
                out.points[i] = search.point
        return out

    def _search(self, case: Cases, effort: Effort, cutoff: float) -> Descent | Lattice:
        if self.program.kinds & set(INTEGRAL):
            return Lattice(self.lattices, case, effort, cutoff)
        return Descent(self.methods, case, effort, cutoff)
