"""Answers for scores of random Fourier features: on the segment to a prototype, and by descents.

Answers are local optima. A step of a descent minimises the cost where a parabola that stands in for
the constraint is not positive: one with the constraint's own value and slope at the point, and its
curvature without the negative part, so that the step is a convex program. What a step misses the
constraint by is added to its margin, and every point is held against the constraint itself.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.families.uncertain.fourier import (
    DistanceBounds,
    FourierConstraint,
    FourierMargins,
)
from counterpoint.families.uncertain.target import StartHint
from counterpoint.numerics import EPS, TINY, FloatArray, IntArray
from counterpoint.problem.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import (
    Box,
    Cone,
    LinearBounds,
    OneOf,
    Transitions,
    Whole,
)
from counterpoint.programs.evidence import Bounding
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch, Region
from counterpoint.search.search import Incumbents, Subproblem, Union
from counterpoint.solvers import require_known
from counterpoint.solvers.base import Effort, Optimality, Outcome

ACCEPTS: frozenset[type] = frozenset(
    {Manhattan, SquaredEuclidean, Mahalanobis, Box, Transitions, LinearBounds, Cone}
).union({FourierConstraint, Whole, OneOf})
"""The types of costs and conditions that descents know."""


def search_fourier(
    result: Incumbents, pieces: Union, safety_margins: FourierMargins | None
) -> list[Bounding]:
    """Offer points of programs with a `FourierConstraint` to the result, row by row.

    Return the evidence that bounds the costs from below, one for each subproblem.
    """
    result.closed[:] = False
    if result.effort.optimality is Optimality.GLOBAL:
        raise InvalidInput(
            "Expected optimality='local' for a model with random features: nothing here "
            "searches all of its optima. The bound of an answer says how good one could be."
        )
    evidence: list[Bounding] = []
    for index, subproblem in enumerate(pieces.listed):
        program = subproblem.program
        if program.domain.at_most is not None:
            raise InvalidInput(
                "Expected no MaxChanges for a model with random features: its answers move all "
                "columns a little. Hold columns with Immutable instead."
            )
        require_known(program, ACCEPTS)
        constraint, cases = _constraint_of(program), subproblem.sees(result.cases)
        evidence.append(DistanceBounds(program.encoded_cost, constraint, cases, safety_margins))
        # Descents are smooth: they cannot change categories or columns in whole steps.
        held = cases.holding((program.domain.steps > 0.0) | ~program.domain.numeric, cases.x)
        for i in np.flatnonzero(~held.empty).tolist():
            row = np.array([i])
            margins = None if safety_margins is None else safety_margins.take(row)
            hint = pieces.start_hint or StartHint()
            search = RowSearch(program, held.take(row), result.effort, hint, margins)
            point = search.run()
            result.limited[i] |= search.limited
            if point is not None:
                result.offer(index, row, point[None], np.array([search.cost_of(point)]))
    return evidence


def _constraint_of(program: Program) -> FourierConstraint:
    (constraint,) = (c for c in program.region if isinstance(c, FourierConstraint))
    return constraint


@final
class RowSearch:
    """The search for one row, whose whole columns and categories are held.

    Attributes
    ----------
    limited
        Whether time ran out.
    """

    def __init__(
        self,
        program: Program,
        case: Batch,
        effort: Effort,
        hint: StartHint,
        safety_margins: FourierMargins | None,
    ) -> None:
        dropped = (FourierConstraint, Whole, OneOf)
        convex = Region(tuple(c for c in program.region if not isinstance(c, dropped)))
        self.constraint = _constraint_of(program)
        self.convex = Program(program.encoded_cost, convex)
        self.has_bounds_only = not self.convex.affine.size and not self.convex.couplings
        self.case, self.effort = case, effort
        self.x, self.low, self.high = case.x[0], case.low[0], case.high[0]
        self.free = self.low < self.high
        self.end = np.inf if effort.seconds is None else perf_counter() + effort.seconds
        self.hint, self.safety_margins, self.limited = hint, safety_margins, False
        self.start = self._clipped(self.x)
        self._set_margin(0.0)

    def run(self) -> FloatArray | None:
        """Return the cheapest point (d,) that is seen; None without one."""
        hint, margins, points = self.hint, self.safety_margins, list[FloatArray]()
        if hint.prototype is not None:
            self._set_margin(0.0 if margins is None else float(margins.segments[0]))
            points += self._entered(self.start, self._clipped(hint.prototype))
        if hint.anywhere or (hint.otherwise and not points):
            point = self._nearest(points if margins is None else [])
            points += [] if point is None else [point]
        return min(points, key=self.cost_of, default=None)

    def cost_of(self, y: FloatArray) -> float:
        """Return what a point (d,) costs."""
        return float(self.convex.encoded_cost(y[None], self.x[None])[0])

    def _set_margin(self, margin: float) -> None:
        """Require so much more than the constraint itself from now on."""
        margin += float(self.constraint.closed_in(self.case.margin)[0])
        self.limit = replace(self.constraint, margin=self.constraint.margin + margin)

    def _nearest(self, points: list[FloatArray]) -> FloatArray | None:
        """The nearest point that leads by the margin of its own distance: radii from below."""
        margins = np.zeros(1) if self.safety_margins is None else self.safety_margins.balls[0]
        best, v = None, 0
        while margins[v] <= self.limit.most:
            self._set_margin(float(margins[v]))
            starts = points if best is None else self._entered(best, self._climbed(best))
            if best is None or not starts:
                for foot in self._around():
                    starts = starts + self._entered(self.start, self._climbed(foot))
            best = self._descended(starts)
            if best is None or self.safety_margins is None:
                return best
            place = int(self.safety_margins.places(np.array([self.cost_of(best)]))[0])
            if place <= v:
                return best
            v = place
        return None

    def _descended(self, starts: list[FloatArray]) -> FloatArray | None:
        """The best of descents from the three cheapest of some points within."""
        points: list[FloatArray] = []
        for start in sorted(starts, key=self.cost_of)[:3]:
            points.append(self._descend(start, 1e-2))
            self.limited = perf_counter() > self.end
            if self.limited:
                break
        best = min(points, key=self.cost_of, default=None)
        if best is None or self.limited or self.effort.gap >= 1.0:  # any point will do
            return best
        return self._tidied(self._descend(best, 1e-11))

    # Ways in

    def _around(self) -> FloatArray:
        """(S, d) points about the row, the same for every row, where angles change by 0 to 2."""
        features, distances = self.limit.features, np.array([0.0, 0.7, 0.7, 2.0])
        steep = np.sqrt((features.frequencies**2).sum(axis=0))
        size = np.where(self.free & (steep > 0.0), 1.0 / np.where(steep > 0.0, steep, 1.0), 0.0)
        size *= np.sqrt(len(features.phases) / max(int(self.free.sum()), 1))
        moves = np.random.default_rng(0).normal(size=(len(distances), features.width)) * size
        return self._clipped(self.start + distances[:, None] * moves)

    def _climbed(self, y: FloatArray) -> FloatArray:
        """Climb, each step to the top of a parabola below the score, until all is met."""
        for _ in range(60):
            if len(self._within(y[None])):
                break
            higher = self._higher(y)
            if higher is None or np.abs(higher - y).max() <= 1e-9 * np.abs(higher).max():
                break
            y = higher
        return y

    def _higher(self, y: FloatArray) -> FloatArray | None:
        """(d,) the top of the parabola below the score, as far as constraints let one go."""
        score, free = self.limit.about(y), np.flatnonzero(self.free)
        if not len(free):
            return None
        form, slope, top = score.below[0][np.ix_(free, free)], score.slopes[0][free], np.array(y)
        ridge = 1e-3 * max(float(np.trace(form)) / len(free), TINY)
        top[free] += np.linalg.solve(form + ridge * np.eye(len(free)), slope)
        if self.has_bounds_only:
            return self._clipped(top)
        return self._optimum(Region(), replace(self.case, x=top[None]))

    def _entered(self, start: FloatArray, end: FloatArray) -> list[FloatArray]:
        """The first point that is seen on a segment to meet everything, if there is one."""
        from scipy.optimize import brentq

        points = start + np.linspace(0.0, 1.0, 97)[:, None] * (end - start)
        points[-1] = end
        within = self._within(points)
        if not len(within):
            return []
        outside, inside = points[max(within[0] - 1, 0)], points[within[0]]
        if self._excess(outside) <= 0.0:
            return [inside]
        length, accuracy = inside - outside, 1e-13  # a share of a step of the grid
        share = brentq(lambda t: self._excess(outside + t * length), 0.0, 1.0, xtol=accuracy)
        point = outside + (share + 2.0 * accuracy) * length
        return [point if len(self._within(point[None])) else inside]

    # Descents

    def _descend(self, start: FloatArray, settled: float) -> FloatArray:
        """(d,) a local optimum, from a point within; the last step gains a share of ``settled``."""
        y, cost = start, self.cost_of(start)
        for _ in range(60):
            point = self._step(y)
            if point is None:
                break
            gain = cost - self.cost_of(point)
            y, cost = point, cost - gain
            if gain <= settled * cost:
                break
        return y

    def _step(self, y: FloatArray) -> FloatArray | None:
        """A cheaper point within, or None; what a model misses is added to its margin."""
        value, slope = (values[0] for values in self.limit.excess_with_slope(y[None]))
        sizes, axes = np.linalg.eigh(-self.limit.about(y).hessians[0])
        curvature, margin = (axes * np.maximum(sizes, 0.0)) @ axes.T, 0.0
        for _ in range(4):
            model = parabola(y, float(value) + margin, slope, curvature)
            point = self._optimum(model, self.case)
            if point is None:
                return None
            missed = self._excess(point)
            if missed <= 0.0:
                return point if self.cost_of(point) < self.cost_of(y) else None
            margin += 1.1 * missed
        return None

    def _tidied(self, y: FloatArray) -> FloatArray:
        """(d,) the point without traces of changes, under an absolute cost; else the same."""
        cost = self.convex.encoded_cost
        paid = cost.absolute * np.abs(y - self.x)
        traces = (paid > 0.0) & (paid <= 1e-4 * paid.sum())  # no change that anyone would make
        if cost.kind is not Manhattan or not traces.any():
            return y
        point = np.where(traces, self.x, y)
        return point if len(self._within(point[None])) else y

    def _optimum(self, model: Region, case: Batch) -> FloatArray | None:
        """(d,) the cheapest point of a convex model and all else, by the first solver that can."""
        effort = replace(self.effort, gap=min(self.effort.gap, 1e-9))
        program = Program(self.convex.encoded_cost, self.convex.region & model)
        for prepared in Subproblem(program).complete(exhaustive=False):
            solution = prepared.solve(case.with_margin(np.zeros((1, 2))), effort)
            if solution.outcomes[0] == Outcome.FOUND:
                return self._clipped(solution.points[0])
        return None

    # Points

    def _excess(self, y: FloatArray) -> float:
        """How much a point (d,) misses the limit by."""
        return float(self.limit.excess(y[None])[0])

    def _clipped(self, y: FloatArray) -> FloatArray:
        return np.clip(y, self.low, self.high)

    def _within(self, points: FloatArray) -> IntArray:
        """Which of the points (k, d) meet the limit and, as far as rounding can tell, all else."""
        missed = self.convex.violation(points, np.broadcast_to(self.x, points.shape))
        feasible = np.flatnonzero(missed <= 4096.0 * EPS)
        return feasible[self.limit.excess(points[feasible]) <= 0.0]


def parabola(at: FloatArray, value: float, slope: FloatArray, form: FloatArray) -> Region:
    """value + slope · δ + ½ δᵀ form δ <= 0 with δ = y − at, for a form that is not negative.

    With ‖M δ‖² = ½ δᵀ form δ and s = −value − slope · δ: ‖(2 M δ, s/σ − σ)‖ <= s/σ + σ.
    """
    sizes, towards = np.linalg.eigh(form)
    curved = sizes > 4096.0 * EPS * max(float(sizes[-1]), TINY)
    matrix = np.sqrt(2.0 * sizes[curved])[:, None] * towards[:, curved].T
    sigma = float(np.sqrt(max(abs(value), float(np.abs(slope).max()), TINY)))
    along, constant = -slope / sigma, (-value + float(slope @ at)) / sigma
    rows, offset = np.vstack([matrix, along]), np.append(-matrix @ at, constant - sigma)
    return Region((Cone(rows, offset, constant + sigma, along),))
