"""Cutting planes for convex conditions that no solver takes: one row and one program at a time.

A relaxation replaces each condition by a few half-spaces that contain it. Any solver takes that,
and its bound holds for the program itself. Where the relaxation's optimum violates a condition, the
half-space that it violates most is added, and so on (Kelley 1960). With whole columns and
categories, a branch and bound solves the relaxation; then these are held, and the other columns are
refined by themselves (Duran & Grossmann 1986).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from time import perf_counter
from typing import final

import numpy as np

from counterpoint.families.uncertain.linear_margins import LinearMargins
from counterpoint.numerics import VIOLATION, FloatArray
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.evidence import Bounding, Evidence, RowEvidence
from counterpoint.programs.region import Batch, Region
from counterpoint.search.search import Incumbents, Subproblem, Union
from counterpoint.solvers.base import Effort, Outcome
from counterpoint.solvers.duals import purified

EXACT = 1e-9
"""The relative gap that is aimed at where columns are continuous, since the last digits are cheap;
in whole steps a tenth of the gap of the effort is."""


@final
class Refinement:
    """The search for one row in one subproblem.

    Attributes
    ----------
    best, bound
        The evidence with the largest lower bound on the cost, and that bound.
    point, cost
        The cheapest point (1, d) so far that meets all conditions, and its cost; None and infinite
        before there is one.
    limited
        Whether time ran out.
    """

    best: Evidence

    def __init__(
        self,
        subproblem: Subproblem,
        case: Batch,
        effort: Effort,
        *,
        outer: Refinement | None = None,
    ) -> None:
        """Start a search; one within an ``outer`` search goes on from the half-spaces of that."""
        self.subproblem, self.case, self.effort = subproblem, case, effort
        # whether relaxations are solved by a branch and bound; an inner search holds what is whole
        self.branches = subproblem.is_integral and outer is None
        if outer is None:
            self.half_spaces = LinearBounds(
                np.zeros((0, subproblem.program.width)), np.zeros(0), np.zeros(0)
            )
            for condition in subproblem.cut_oracles:
                self.half_spaces = self.half_spaces.stacked(condition.first())
            self.deadline = np.inf if effort.seconds is None else perf_counter() + effort.seconds
        else:
            self.half_spaces, self.deadline = outer.half_spaces, outer.deadline
        self.bound, self.cost, self.limited = -np.inf, np.inf, False
        self.point: FloatArray | None = None
        self.last_optimum = case.x  # of a relaxation
        self.last_excess = np.inf  # by how much it violates the conditions, in score units
        excesses = (float(c.excess(case.x)[0]) for c in subproblem.cut_oracles)
        self._factual_excess = max(excesses, default=0.0)
        # by how much the next optimum is to lie inside the half-spaces, in score units
        self.inward_shift = 0.0
        # A violation that costs such a share of the point's own cost is answered by a shift, not
        # by one more half-space; the shift's cost is then a part of the gap that is aimed at.
        self.negligible = 0.1 * EXACT if effort.gap < 1.0 else 1.0  # 1: any point will do
        self.has_far_half_spaces = False  # see `_may_have_a_point`

    def run(self, cost_cutoff: float) -> None:
        """Search until the gap is closed, or no point below the cutoff remains."""
        for k in range(1000):  # some 10 do; with absolute costs and much noise, some hundreds
            if self._is_closed(k) or self.bound >= cost_cutoff:
                return
            optimum = self._solve_relaxation(cost_cutoff)
            if optimum is None:
                if self.limited or not self._may_have_a_point(cost_cutoff):
                    return
                continue  # without a shift inwards, or with half-spaces far out
            self.last_optimum, excess = optimum, self._add_half_spaces(optimum)
            if excess <= 0.0:  # the relaxation's optimum meets all conditions
                self._offer(optimum)
                return
            if self.branches:
                self._refine_continuous_columns(optimum, cost_cutoff)
            else:
                self._shift_inwards(optimum, excess)

    def _is_closed(self, k: int) -> bool:
        """Return whether the gap is as small as is aimed at after k rounds."""
        if k == 150:  # from then on a tenth of the effort's gap will do in continuous columns too
            self.negligible = max(self.negligible, 0.1 * self.effort.gap)
        if self.effort.gap >= 1.0 or np.isinf(self.cost):
            return np.isfinite(self.cost)
        gap = max(0.1 * self.effort.gap, EXACT) if self.branches else EXACT
        return self.cost - self.bound <= gap * self.cost

    # A round: the relaxation's optimum, and half-spaces that exclude it

    def _solve_relaxation(self, cost_cutoff: float) -> FloatArray | None:
        """(1, d) the optimum within the half-spaces so far; None if there is nothing to gain."""
        relaxed = self.subproblem.relaxed(self.half_spaces)
        program, case = relaxed.program, self.case
        rows = program.affine
        impossible = np.flatnonzero(~rows.matrix.any(axis=1) & (rows.high < 0.0))
        if len(impossible):  # 0 <= a negative number
            multipliers = np.zeros((1, program.size))
            multipliers[0, impossible[0]] = 1.0
            self._learn(
                Evidence(program, case, multipliers, None, np.full(1, -np.inf)), cost_cutoff
            )
            if np.isinf(self.bound):
                return None
        case = case.with_margin(case.margin + np.array([self.inward_shift, 0.0]))
        effort, point, self.limited = self._effort(), None, False
        closed_form = None if relaxed.is_integral else relaxed.closed_form
        for solver in chain(filter(None, [closed_form]), relaxed.complete(exhaustive=False)):
            solution = solver.solve(case, effort)
            if solution.found[0] and program.violation(solution.points, case.x)[0] <= VIOLATION:
                point = solution.points
            elif solver is closed_form:  # more than one row decides
                continue
            multipliers, tangent = solution.multipliers, point
            if point is None:  # multipliers that nearly refute are sharpened until they do
                multipliers, tangent = purified(program, case, multipliers[0])[None], case.x
            # Of a branch and bound its proof counts: what it reports is about points that lead by
            # the margin, and the bound has to hold for those that do not, too.
            trees = [] if solution.proof is None else [solution.proof]
            evidence = Evidence(program, case, multipliers, tangent, solution.unverified, trees)
            self._learn(evidence, cost_cutoff)
            # A branch and bound that had to leave a node open has a point all the same.
            self.limited = solution.outcomes[0] == Outcome.LIMIT and (
                point is None or perf_counter() >= self.deadline
            )
            if point is not None or self.limited or np.isinf(self.bound):
                break
        return None if self.limited or self.bound >= cost_cutoff else point

    def _effort(self) -> Effort:
        """Return the effort of a relaxation: a sharper gap, and half of the time that remains."""
        gap, seconds = self.effort.gap, self.effort.seconds
        if np.isfinite(self.deadline):
            seconds = max(0.5 * (self.deadline - perf_counter()), 1e-6)
        return replace(self.effort, gap=gap if self.branches else min(gap, EXACT), seconds=seconds)

    def _learn(self, evidence: Evidence, cost_cutoff: float) -> None:
        """Keep the evidence with the largest bound."""
        self.evidence = evidence
        bound = float(evidence.bounds(np.array([cost_cutoff]))[1][0])
        if bound > self.bound:
            self.best, self.bound = evidence, bound

    def _add_half_spaces(self, y: FloatArray) -> float:
        """Add each condition's half-space at a point; return by how much the worst is violated."""
        worst = -np.inf
        for condition in self.subproblem.cut_oracles:
            excess, half_space = condition.supports(y)
            worst = max(worst, float(excess[0] + self.case.margin[0, 0]))
            self.half_spaces = self.half_spaces.stacked(half_space)
        return worst

    def _offer(self, y: FloatArray) -> None:
        """Take a point that meets all conditions, if it is cheaper than the one so far."""
        cost = float(self.subproblem.program.objective(y, self.case)[0])
        if cost < self.cost:
            self.point, self.cost = y, cost

    # What comes next where the optimum violates a condition, or where there is none

    def _refine_continuous_columns(self, y: FloatArray, cost_cutoff: float) -> None:
        """Search with the whole columns and categories of a point; keep what that search finds."""
        held = self.subproblem.program.domain.held(y, self.case.x)
        case = self.case.holding(held, y)
        inner = Refinement(self.subproblem.free, case, self.effort, outer=self)
        inner.run(min(cost_cutoff, self.cost))
        self.half_spaces = inner.half_spaces
        if inner.point is not None:
            self._offer(np.where(held, y, inner.point))

    def _shift_inwards(self, y: FloatArray, excess: float) -> None:
        """Ask for a point a little inside the half-spaces, where the excess costs next to nothing.

        Half-spaces alone come nearer to a curved condition for ever, and never quite to it.
        """
        cost = float(self.subproblem.program.objective(y, self.case)[0])
        rows = self.evidence.program.affine
        # what a score unit costs: by the multipliers, and by the row's own way to the target
        marginal = float(
            np.abs(self.evidence.multipliers[0, : rows.size]) @ rows.margin_coefficient
        )
        average = cost / self._factual_excess if self._factual_excess > 0.0 else 0.0
        # A solver that misses nearly the same twice does not do better: its rows have errors.
        is_stuck = abs(excess - self.last_excess) <= 1e-3 * excess
        self.last_excess = excess
        negligible = max(self.negligible, VIOLATION if is_stuck else 0.0)
        if excess * max(marginal, average) < negligible * cost:
            self.inward_shift = max(1.2 * excess, 2.0 * self.inward_shift)

    def _may_have_a_point(self, cost_cutoff: float) -> bool:
        """Return whether to go on where a relaxation has no point, and prepare for it."""
        if self.inward_shift:  # it may be too large
            self.inward_shift, self.negligible = 0.0, max(0.01 * self.negligible, 0.1 * EXACT)
            return True
        if self.has_far_half_spaces or self.bound >= cost_cutoff:
            return False
        # Half-spaces far out along columns without bounds. Where all others are nearly parallel,
        # rounding alone lets points far out meet them, and what solvers rightly hold to be
        # impossible cannot be refuted. Half-spaces hardly turn from so far on.
        self.has_far_half_spaces, x = True, self.case.x
        distance = 1e3 * np.maximum(np.abs(self.last_optimum - x), np.abs(x))
        for ends, sign in ((self.case.low, -1.0), (self.case.high, 1.0)):
            for j in np.flatnonzero(np.isinf(ends[0])):
                is_column = np.arange(x.shape[1]) == j
                self._add_half_spaces(x + sign * np.where(is_column, distance, 0.0))
        return True


def cutting_planes(
    incumbents: Incumbents, union: Union, safety_margins: LinearMargins | None
) -> list[Bounding]:
    """Search a union whose conditions no solver takes, row by row; return what bounds its rows.

    A row's entry in ``safety_margins`` is one more condition. The time of each row is shared evenly
    among the subproblems.
    """
    effort, evidence = incumbents.effort.shared(len(union)), []
    incumbents.closed[:] = False
    for i in range(len(incumbents.cases)):
        row, best = np.array([i]), []
        for s, listed in enumerate(union.listed):
            subproblem = listed
            if safety_margins is not None:
                subproblem = listed.within(Region((safety_margins.rows[i],)))
            case = subproblem.narrowed(incumbents.cases).take(row)
            refinement = Refinement(subproblem, case, effort)
            refinement.run(float(incumbents.cutoff()[i]))
            incumbents.limited[i] |= refinement.limited
            if refinement.point is not None:
                incumbents.offer(s, row, refinement.point, np.array([refinement.cost]))
            best.append(refinement.best)
        evidence.append(best)
    return [RowEvidence(evidence)]
