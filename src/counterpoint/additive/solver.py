"""Whole steps, categories and bounds on the number of changes, for whole batches, with proofs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.additive.knapsack import Knapsack
from counterpoint.additive.sums import SumBounds, SumDuality
from counterpoint.additive.tree import searched
from counterpoint.costs import Manhattan, SquaredEuclidean
from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.domains import INTEGRAL, Box, Transitions
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.numerics import FloatArray
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

__all__ = ["Knapsacks"]

DEMANDS = 12
"""The most demands, sides of linear rows, that are taken: the time of a node grows with their
square."""
NODES = 2000
"""After so many nodes a row is left to other solvers."""
FINE, HALF = 1e-3, 0.5
"""What share of the gap that was asked for is left open; where columns bend, of which boxes are
halved until they are small."""
FINEST = 5e-10
"""The least relative gap that is: bounds and costs are off by less."""


@final
@dataclass(frozen=True, eq=False)
class Knapsacks(Solver):
    """Branch and bound over knapsacks of few linear rows, at separable prices."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Box, LinearBounds, SumBounds, Transitions, *INTEGRAL}
    )
    accuracy: ClassVar[float] = 1e-9
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        if not program.kinds <= cls.accepts or not program.kinds & {*INTEGRAL, SumBounds}:
            return False
        sums = program.nonconvex_duality
        if program.nonconvex and not isinstance(sums, SumDuality):
            return False
        knapsack = Knapsack(program)
        demands = len(knapsack.sides[0])
        # Of several demands, points without end would make up mixtures.
        return demands == 1 or (1 < demands <= DEMANDS and knapsack.is_bounded)

    @cached_property
    def knapsack(self) -> Knapsack:
        """The program as a knapsack."""
        return Knapsack(self.program)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        if not len(cases):
            return Solution.blank(0, self.program)
        share = FINE if self.knapsack.smooth is None else HALF
        finer = replace(effort, gap=max(share * effort.gap, FINEST))
        if self.knapsack.is_endless:
            return self._deepened(cases, finer, cutoff)
        return searched(self.knapsack, cases, finer, cutoff, NODES)

    def _deepened(self, cases: Cases, effort: Effort, cutoff: FloatArray | None) -> Solution:
        """Within a cost that grows until it suffices: columns that bend have no end otherwise.

        No point of less cost is further away in a column than that cost takes there. The trees
        leave out what is beyond, so that the answers are reported.
        """
        out, worth = Solution.blank(len(cases), self.program), np.full(len(cases), np.inf)
        worth = worth if cutoff is None else cutoff
        left, bending = np.arange(len(cases)), self.knapsack.numbers[self.knapsack.bending]
        reach = np.full(self.program.width, np.inf)
        for most in 8.0 ** np.arange(-2, 10):
            some = cases.take(left)
            with np.errstate(divide="ignore"):
                reach[bending] = most / self.program.price.absolute[bending]
            near = some.within(some.x - reach, some.x + reach)
            found = searched(self.knapsack, near, effort, np.minimum(worth[left], most), NODES)
            none = found.outcomes == Outcome.NOTHING
            out.put(left, found)
            left = left[none & (worth[left] > most)]
            if not len(left):
                break
        return out
