"""Cutting planes: conditions that are known by their half-spaces, for one row and one program.

A relaxation knows a few half-spaces of a convex condition; any solver takes it, and its bound
holds. Where its optimum misses a condition, the half-space that it misses most is added, and so on
(Kelley 1960). Whole steps and categories are settled in the relaxation by a branch and bound; then
they are held, and the other columns are refined by themselves (Duran & Grossmann 1986).
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
in whole steps a tenth of the gap of the effort will do."""
NEARLY = 0.1 * EXACT
"""Where a point misses a condition by what costs such a share of its own cost, the next one is to
be a little inside. What it costs more is then a part of the gap that is aimed at."""


@final
class Refinement:
    """The search for one row in one subproblem.

    Attributes
    ----------
    best, bound
        What gives the best lower bound, and that bound.
    point, cost
        The cheapest point that meets all conditions, (1, d), and what it costs.
    limited
        Whether time ran out.
    """

    best: Evidence

    def __init__(
        self,
        piece: Subproblem,
        case: Batch,
        effort: Effort,
        *,
        outer: Refinement | None = None,
    ) -> None:
        """Start a search; one in which an outer search's whole columns are held goes on from it."""
        self.piece, self.case, self.effort = piece, case, effort
        self.branches = piece.is_integral and outer is None
        if outer is None:
            self.cuts = LinearBounds(np.zeros((0, piece.program.width)), np.zeros(0), np.zeros(0))
            for condition in piece.supported:
                self.cuts = self.cuts.stacked(condition.first())
            self.end = np.inf if effort.seconds is None else perf_counter() + effort.seconds
        else:
            self.cuts, self.end = outer.cuts, outer.end
        self.bound, self.cost, self.limited = -np.inf, np.inf, False
        self.point: FloatArray | None = None
        self.last = case.x  # the last optimum of a relaxation
        excesses = (float(c.excess(case.x)[0]) for c in piece.supported)
        self._missed_at_first = max(excesses, default=0.0)
        self.inwards, self.missed, self.fenced = 0.0, np.inf, False
        # where any point will do, at once
        self.accepted = NEARLY if effort.gap < 1.0 else 1.0

    def run(self, cost_cutoff: float) -> None:
        """Search until the gap is closed, or no point below the cutoff remains."""
        for k in range(1000):  # some 10 do; for absolute costs and much noise some hundreds
            if self._is_closed(k) or self.bound >= cost_cutoff:
                return
            y = self._relaxed(cost_cutoff)
            if y is None:
                if self.limited or not self._goes_on(cost_cutoff):
                    return
                continue
            self.last, missed = y, self._cut(y)
            if missed <= 0.0:
                self._offer(y)
                return
            if self.branches:
                self._hold(y, cost_cutoff)
            else:
                self._go_inwards(y, missed)

    def _goes_on(self, cost_cutoff: float) -> bool:
        """Return whether there may be a point after all, where a relaxation has none."""
        if self.inwards:  # which may be too much
            self.inwards, self.accepted = 0.0, max(0.01 * self.accepted, NEARLY)
            return True
        if self.fenced or self.bound >= cost_cutoff:
            return False
        # Half-spaces far out along columns without bounds. Where all others are nearly parallel,
        # rounding alone lets points far out meet them, and what solvers rightly hold to be
        # impossible cannot be refuted. Half-spaces hardly turn from so far on.
        self.fenced, x = True, self.case.x
        distance = 1e3 * np.maximum(np.abs(self.last - x), np.abs(x))
        for ends, sign in ((self.case.low, -1.0), (self.case.high, 1.0)):
            for j in np.flatnonzero(np.isinf(ends[0])):
                self._cut(x + sign * np.where(np.arange(x.shape[1]) == j, distance, 0.0))
        return True

    def _go_inwards(self, y: FloatArray, missed: float) -> None:
        """Where hardly anything is missed, the next point is to be a little inside."""
        cost = float(self.piece.program.objective(y, self.case)[0])
        rows, first = self.evidence.program.affine, self._missed_at_first
        unit = float(np.abs(self.evidence.multipliers[0, : rows.size]) @ rows.margin_coefficient)
        unit = max(unit, cost / first if first > 0.0 else 0.0)  # what a score unit costs, about
        # A solver that misses nearly the same twice does not do better: its rows have errors.
        stuck = abs(missed - self.missed) <= 1e-3 * missed
        self.missed = missed
        if missed * unit < max(self.accepted, VIOLATION if stuck else 0.0) * cost:
            self.inwards = max(1.2 * missed, 2.0 * self.inwards)

    def _hold(self, y: FloatArray, cost_cutoff: float) -> None:
        """Refine the other columns where whole steps and categories are those of a point."""
        held = self.piece.program.domain.held(y, self.case.x)
        case = self.case.holding(held, y)
        inner = Refinement(self.piece.free, case, self.effort, outer=self)
        inner.run(min(cost_cutoff, self.cost))
        self.cuts = inner.cuts
        if inner.point is not None:
            self._offer(np.where(held, y, inner.point))

    def _relaxed(self, cost_cutoff: float) -> FloatArray | None:
        """(1, d) the optimum within the half-spaces so far; None if it is not worth going on."""
        relaxed = self.piece.relaxed(self.cuts)
        program, case = relaxed.program, self.case
        rows = program.affine
        impossible = np.flatnonzero(~rows.matrix.any(axis=1) & (rows.high < 0.0))
        if len(impossible):  # 0 <= a negative number
            proof = np.zeros((1, program.size))
            proof[0, impossible[0]] = 1.0
            self._learn(Evidence(program, case, proof, None, np.full(1, -np.inf)), cost_cutoff)
            if np.isinf(self.bound):
                return None
        case = case.with_margin(case.margin + np.array([self.inwards, 0.0]))
        effort, point, self.limited = self._effort(), None, False
        closed = None if relaxed.is_integral else relaxed.closed_form
        for prepared in chain(filter(None, [closed]), relaxed.complete(exhaustive=False)):
            solution = prepared.solve(case, effort)
            if solution.found[0] and program.violation(solution.points, case.x)[0] <= VIOLATION:
                point = solution.points
            elif prepared is closed:  # more than one row decides
                continue
            multipliers, tangent = solution.multipliers, point
            if point is None:  # what nearly refutes is sharpened until it does
                multipliers, tangent = purified(program, case, multipliers[0])[None], case.x
            trees = [] if solution.proof is None else [solution.proof]
            reported = solution.unverified
            evidence = Evidence(program, case, multipliers, tangent, reported, trees)
            self._learn(evidence, cost_cutoff)
            # A branch and bound that had to leave a node open has a point all the same.
            self.limited = solution.outcomes[0] == Outcome.LIMIT and (
                point is None or perf_counter() >= self.end
            )
            if point is not None or self.limited or np.isinf(self.bound):
                break
        return None if self.limited or self.bound >= cost_cutoff else point

    def _learn(self, evidence: Evidence, cost_cutoff: float) -> None:
        """Keep the evidence that bounds the cost best."""
        self.evidence = evidence
        bound = float(evidence.bounds(np.array([cost_cutoff]))[1][0])
        if bound > self.bound:
            self.best, self.bound = evidence, bound

    def _effort(self) -> Effort:
        """The effort of a relaxation: a sharper gap, and half of the time that remains."""
        gap, seconds = self.effort.gap, self.effort.seconds
        if np.isfinite(self.end):
            seconds = max(0.5 * (self.end - perf_counter()), 1e-6)
        return replace(self.effort, gap=gap if self.branches else min(gap, EXACT), seconds=seconds)

    def _cut(self, y: FloatArray) -> float:
        """Add the half-spaces of all conditions at a point; return how much it misses them by."""
        missed = -np.inf
        for condition in self.piece.supported:
            excess, support = condition.supports(y)
            missed = max(missed, float(excess[0] + self.case.margin[0, 0]))
            self.cuts = self.cuts.stacked(support)
        return missed

    def _offer(self, y: FloatArray) -> None:
        cost = float(self.piece.program.objective(y, self.case)[0])
        if cost < self.cost:
            self.point, self.cost = y, cost

    def _is_closed(self, k: int) -> bool:
        """Return whether the gap is as small as is aimed at after so many rounds."""
        if k == 150:  # from then on a tenth of the effort's gap will do
            self.accepted = max(self.accepted, 0.1 * self.effort.gap)
        if self.effort.gap >= 1.0 or np.isinf(self.cost):
            return np.isfinite(self.cost)
        gap = max(0.1 * self.effort.gap, EXACT) if self.branches else EXACT
        return self.cost - self.bound <= gap * self.cost


def cutting_planes(
    result: Incumbents, pieces: Union, safety_margins: LinearMargins | None
) -> list[Bounding]:
    """Search programs with conditions that no solver takes, row by row; return what bounds them.

    ``safety_margins`` are conditions of each row. The time of each row is shared evenly among the
    programs.
    """
    effort, evidence = result.effort.shared(len(pieces)), []
    result.closed[:] = False
    for i in range(len(result.cases)):
        row, best = np.array([i]), []
        for s, listed in enumerate(pieces.listed):
            piece = listed
            if safety_margins is not None:
                piece = listed.within(Region((safety_margins.rows[i],)))
            refinement = Refinement(piece, piece.sees(result.cases).take(row), effort)
            refinement.run(float(result.worth_beating()[i]))
            result.limited[i] |= refinement.limited
            if refinement.point is not None:
                result.offer(s, row, refinement.point, np.array([refinement.cost]))
            best.append(refinement.best)
        evidence.append(best)
    return [RowEvidence(evidence)]
