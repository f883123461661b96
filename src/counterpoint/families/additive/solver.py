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

NODES = 10_000
"""After so many nodes a row is left to other solvers."""


@final
@dataclass(frozen=True, eq=False)
class Knapsacks(Solver):
    """Branch and bound for programs with a separable cost and few linear rows or sums of curves."""

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
        types = program.condition_types
        # without any of these, other solvers are quicker
        if not types <= cls.accepts or not types & {*INTEGRAL, SumBounds, PercentileCost}:
            return False
        sums = program.duality.nonconvex
        if program.nonconvex and not isinstance(sums, SumDuality):
            return False
        knapsack = Knapsack(program)
        levels = [level.column for level in program.encoded_cost.levels]
        if not (program.domain.box.below & program.domain.box.above)[levels].all():
            return False  # percentiles are tabulated from bound to bound
        demands = len(knapsack.rows)
        if demands <= 1:  # without any there is nothing to search
            return demands == 1
        if demands > 64:  # the time of a node grows with their square
            return False
        # Continuous columns at a squared cost take a basis of several demands many steps a box:
        # branch and bound over quadratic programs is quicker, where it takes the program.
        quadratic = (knapsack.nonlinear & ~knapsack.whole).any()
        slow = quadratic and not types & {AtMost, SumBounds, TransitionCost, PercentileCost}
        # where no cost says how far a column may go, it cannot be searched, see `_deepened`
        free = (knapsack.endless & ~knapsack.priced).any()
        return not slow and not free

    @cached_property
    def knapsack(self) -> Knapsack:
        """The program as a knapsack."""
        return Knapsack(self.program)

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        if not len(cases):
            return Solution.blank(0, self.program)
        # Only a thousandth of the gap that was asked for is left open, but half of it where columns
        # bend, since boxes of those are halved until they are small. A gap of 5e-10 is the least:
        # bounds and costs are off by less.
        share = 1e-3 if self.knapsack.smooth is None else 0.5
        finer = replace(effort, gap=max(share * effort.gap, 5e-10))
        if (self.knapsack.endless & self.knapsack.priced).any():
            solution = self._deepened(cases, finer, cutoff)
        else:
            solution = search_knapsacks(self.knapsack, cases, finer, cutoff, NODES)
        if effort.eps > EPS:
            self._round(solution.points, cases.x)
        return solution

    def _round(self, points: FloatArray, x: FloatArray) -> None:
        """Round points (n, d) in place to float32 where their rows x hold such numbers.

        Only columns with curves are rounded, and stay in their pieces; whole steps are exact.
        """
        sums = self.knapsack.sums
        if sums is None:
            return
        continuous = sums.merged.take(self.program.domain.steps[sums.merged.columns] == 0.0)
        columns = continuous.columns
        single = x[:, columns] == x[:, columns].astype(np.float32)
        rounded = continuous.in_single_precision(points[:, columns])
        points[:, columns] = np.where(single, rounded, points[:, columns])

    def _deepened(self, cases: Batch, effort: Effort, cutoff: FloatArray | None) -> Solution:
        """Search points up to a cost that grows until it suffices, for columns without an end.

        No point up to that cost is farther away in a column than it pays for there.
        """
        out, trees = Solution.blank(len(cases), self.program), list[ProofTrees]()
        cutoff = np.full(len(cases), np.inf) if cutoff is None else cutoff
        remaining, reach = np.arange(len(cases)), np.full(self.program.width, np.inf)
        endless = self.knapsack.numbers[self.knapsack.endless]
        encoded_cost = self.program.encoded_cost
        quadratic, absolute = encoded_cost.quadratic[endless], encoded_cost.absolute[endless]
        for largest_cost in 8.0 ** np.arange(-2, 10):
            rows = cases.take(remaining)
            with np.errstate(divide="ignore"):
                distance = np.where(
                    quadratic > 0.0, np.sqrt(largest_cost / quadratic), largest_cost / absolute
                )
            # a little farther, so that rounding leaves no point beyond that costs less
            reach[endless] = (1.0 + 1e-6) * distance
            near = rows.within(rows.x - reach, rows.x + reach)
            lower_cutoff = np.minimum(cutoff[remaining], largest_cost)
            solution = search_knapsacks(self.knapsack, near, effort, lower_cutoff, NODES, rows)
            out.put(remaining, solution)
            assert solution.proof is not None  # noqa: S101 (a search leaves its trees)
            farther = (solution.outcomes == Outcome.NOTHING) & (cutoff[remaining] > largest_cost)
            done = solution.proof.take(np.flatnonzero(~farther))
            trees.append(done._replace(row=remaining[~farther][done.row]))
            remaining = remaining[farther]
            if not len(remaining):
                break
        return replace(out, proof=ProofTrees.joined(trees))
