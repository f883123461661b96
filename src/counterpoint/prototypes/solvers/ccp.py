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
from counterpoint.prototypes.solvers.descent import Descent, Descents
from counterpoint.prototypes.solvers.lattice import INTEGRAL, Lattice
from counterpoint.solvers.base import Effort, Prepared, Solution, Solver

__all__ = ["Ccp"]

FloatArray = NDArray[np.float64]


@final
class Ccp(Solver):
    """The convex-concave procedure from several starts, see `Descent` and `Lattice`."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, Affine, Cone, Nearer, Transitions}
        | set(INTEGRAL)
    )
    accuracy: ClassVar[float] = 1e-7

    def takes(self, program: Program) -> bool:
        return program.kinds <= self.accepts and bool(program.nonconvex)

    def prepare(self, program: Program) -> CcpPrograms:
        return CcpPrograms(program)


@final
@dataclass(frozen=True, eq=False)
class CcpPrograms(Prepared):
    """A program and what its searches share."""

    program: Program

    @cached_property
    def whole(self) -> Descents:
        """Descents of the program."""
        return Descents(self.program)

    @cached_property
    def free(self) -> Descents:
        """Those without what is integral."""
        return Descents(self.program.relaxed(*INTEGRAL))

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            search = self._search(case, effort, np.inf if cutoff is None else float(cutoff[i]))
            search.run()
            out.multipliers[i] = search.lower.multipliers
            out.outcomes[i] = search.outcome
            if search.point is not None:
                out.points[i] = search.point
        return out

    def _search(self, case: Cases, effort: Effort, cutoff: float) -> Descent | Lattice:
        if self.program.kinds & set(INTEGRAL):
            return Lattice(self.whole, self.free, case, effort, cutoff)
        return Descent(self.whole, case, effort, cutoff)
