"""Whole steps, categories and bounds on the number of changes, for whole batches, with proofs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from counterpoint.families.additive.knapsack import Knapsack
from counterpoint.families.additive.search import search_knapsacks
from counterpoint.families.additive.sums import SumBounds, SumDuality
from counterpoint.numerics import EPS, FloatArray
from counterpoint.problem.costs import Manhattan, PercentileCost, SquaredEuclidean, TransitionCost
from counterpoint.programs.conditions import (
    INTEGRAL,
    AtMost,
    Box,
    ChangeBounds,
    LinearBounds,
    Transitions,
)
from counterpoint.programs.program import Program
from counterpoint.programs.proof import ProofTrees
from counterpoint.programs.region import Batch
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

DEMANDS = 64
"""The most demands, sides of linear rows, that are taken: the time of a node grows with their
square."""
NODES = 10_000
"""After so many nodes a row is left to other solvers."""
FINE, HALF = 1e-3, 0.5
"""What share of the gap that was asked for is left open; where columns bend, of which boxes are
halved until they are small."""
AMPLE = 1.0 + 1e-6
"""Columns without an end reach a little further than a cost, so that beyond is more than it."""
FINEST = 5e-10
"""The least relative gap that is: bounds and costs are off by less."""


@final
@dataclass(frozen=True, eq=False)
class Knapsacks(Solver):
    """Branch and bound over knapsacks of few linear rows, at separable prices."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {
            Manhattan,
            SquaredEuclidean,
            TransitionCost,
            PercentileCost,
            Box,
            LinearBounds,
            ChangeBounds,
            SumBounds,
            Transitions,
        }
    ).union(INTEGRAL)
    accuracy: ClassVar[float] = 1e-9
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        reasons = {*INTEGRAL, SumBounds, PercentileCost}  # without any, other solvers are quicker
        if not program.condition_types <= cls.accepts or not program.condition_types & reasons:
            return False
        sums = program.duality.nonconvex
        if program.nonconvex and not isinstance(sums, SumDuality):
            return False
        knapsack = Knapsack(program)
        levels = [level.column for level in program.encoded_cost.levels]
        if not (program.domain.box.below & program.domain.box.above)[levels].all():
            return False  # percentiles that would have no end
        demands, free = len(knapsack.rows), knapsack.endless & ~knapsack.priced
        if demands <= 1:  # without any there is nothing to search
            return demands == 1
        # Continuous columns at a squared cost take a basis of several demands many steps a box:
        # branch and bound over quadratic programs is quicker, unless changes are counted.
        special = {AtMost, SumBounds, TransitionCost, PercentileCost} & program.condition_types
        slow = bool((knapsack.nonlinear & ~knapsack.whole).any()) and not special
        return demands <= DEMANDS and not free.any() and not slow

    @cached_property
    def knapsack(self) -> Knapsack:
        """The program as a knapsack."""
        return Knapsack(self.program)

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        if not len(cases):
            return Solution.blank(0, self.program)
        share = FINE if self.knapsack.smooth is None else HALF
        finer = replace(effort, gap=max(share * effort.gap, FINEST))
        if (self.knapsack.endless & self.knapsack.priced).any():
            solution = self._deepened(cases, finer, cutoff)
        else:
            solution = search_knapsacks(self.knapsack, cases, finer, cutoff, NODES)
        if effort.eps > EPS:
            self._round(solution.points, cases.x)
        return solution

    def _round(self, points: FloatArray, x: FloatArray) -> None:
        """Round columns with curves to float32, which must not take them into another piece.

        Of (n, d) points in place, where the rows x hold such numbers; whole steps are exact.
        """
        sums = self.knapsack.sums
        if sums is None:
            return
        continuous = sums.bends.some(self.program.domain.steps[sums.bends.columns] == 0.0)
        columns = continuous.columns
        single = x[:, columns] == x[:, columns].astype(np.float32)
        rounded = continuous.in_single_precision(points[:, columns])
        points[:, columns] = np.where(single, rounded, points[:, columns])

    def _deepened(self, cases: Batch, effort: Effort, cutoff: FloatArray | None) -> Solution:
        """Search within a cost that grows until it suffices, for columns without an end.

        A point of less cost is no further away in a column than that cost takes there.
        """
        out, trees = Solution.blank(len(cases), self.program), list[ProofTrees]()
        cutoff = np.full(len(cases), np.inf) if cutoff is None else cutoff
        remaining, reach = np.arange(len(cases)), np.full(self.program.width, np.inf)
        endless = self.knapsack.numbers[self.knapsack.endless]
        encoded_cost = self.program.encoded_cost
        quadratic, absolute = encoded_cost.quadratic[endless], encoded_cost.absolute[endless]
        for most in 8.0 ** np.arange(-2, 10):
            rows = cases.take(remaining)
            with np.errstate(divide="ignore"):
                distance = np.where(quadratic > 0.0, np.sqrt(most / quadratic), most / absolute)
            reach[endless] = AMPLE * distance
            near = rows.within(rows.x - reach, rows.x + reach)
            solution = search_knapsacks(
                self.knapsack, near, effort, np.minimum(cutoff[remaining], most), NODES, rows
            )
            farther = (solution.outcomes == Outcome.NOTHING) & (cutoff[remaining] > most)
            out.put(remaining, solution)
            assert solution.proof is not None  # noqa: S101 (a search leaves its trees)
            done = solution.proof.take(np.flatnonzero(~farther))
            trees.append(done._replace(row=remaining[~farther][done.row]))
            remaining = remaining[farther]
            if not len(remaining):
                break
        return replace(out, proof=ProofTrees.joined(trees))
