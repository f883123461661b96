"""Search programs with scores of random Fourier features: on a segment, and by descents.

Answers are local optima. In a step of a descent a parabola takes the place of the constraint: it
has the constraint's value and slope at the point, and its curvature without the negative part, so
that the step is a convex program. If its optimum misses the constraint itself, the step is repeated
with a margin that is larger by as much.
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
    incumbents: Incumbents, union: Union, safety_margins: FourierMargins | None
) -> list[Bounding]:
    """Search subproblems with a `FourierConstraint` row by row, and offer their points.

    Return the evidence that bounds the costs from below, one for each subproblem.
    """
    incumbents.closed[:] = False  # no row is settled by a closed form here
    if incumbents.effort.optimality is Optimality.GLOBAL:
        raise InvalidInput(
            "Expected optimality='local' for a model with random features: nothing here "
            "searches all of its optima. The bound of an answer says how good one could be."
        )
    evidence: list[Bounding] = []
    for index, subproblem in enumerate(union.listed):
        program = subproblem.program
        if program.domain.at_most is not None:
            raise InvalidInput(
                "Expected no MaxChanges for a model with random features: its answers move all "
                "columns a little. Hold columns with Immutable instead."
            )
        require_known(program, ACCEPTS)
        constraint, cases = _constraint_of(program), subproblem.narrowed(incumbents.cases)
        evidence.append(DistanceBounds(program.encoded_cost, constraint, cases, safety_margins))
        # Descents are smooth: they cannot change categories or columns in whole steps.
        held = cases.holding((program.domain.steps > 0.0) | ~program.domain.numeric, cases.x)
        for i in np.flatnonzero(~held.empty).tolist():
            row = np.array([i])
            margins = None if safety_margins is None else safety_margins.take(row)
            hint = union.start_hint or StartHint()
            search = RowSearch(program, held.take(row), incumbents.effort, hint, margins)
            point = search.run()
            incumbents.limited[i] |= search.limited
            if point is not None:
                incumbents.offer(index, row, point[None], np.array([search.cost_of(point)]))
    return evidence


def _constraint_of(program: Program) -> FourierConstraint:
    (constraint,) = (c for c in program.region if isinstance(c, FourierConstraint))
    return constraint


@final
class RowSearch:
    """The search for one row, whose whole columns and categories are held.

    Attributes
    ----------
    convex
        The program without the constraint and what is integral.
    constraint, tightened
        The constraint on the score, and the same with the margin that points need at present.
    start
        (d,) the row, moved between its bounds.
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
        # Columns that are integral are held, so that their conditions hold.
        dropped = (FourierConstraint, Whole, OneOf)
        convex = Region(tuple(c for c in program.region if not isinstance(c, dropped)))
        self.constraint = _constraint_of(program)
        self.convex = Program(program.encoded_cost, convex)
        self.has_bounds_only = not self.convex.affine.size and not self.convex.couplings
        self.case, self.effort = case, effort
        self.x, self.low, self.high = case.x[0], case.low[0], case.high[0]
        self.free = self.low < self.high
        self.end = np.inf if effort.seconds is None else perf_counter() + effort.seconds
        self.limited = False  # until time runs out
        self.hint, self.safety_margins = hint, safety_margins
        self.start = self._clipped(self.x)
        self._set_margin(0.0)  # makes ``tightened``

    def run(self) -> FloatArray | None:
        """Return the cheapest point (d,) that is found; None without one."""
        hint, margins, points = self.hint, self.safety_margins, list[FloatArray]()
        if hint.prototype is not None:
            self._set_margin(0.0 if margins is None else float(margins.segments[0]))
            points += self._first_feasible(self.start, self._clipped(hint.prototype))
        if hint.anywhere or (hint.otherwise and not points):
            point = self._nearest_in_balls(points if margins is None else [])
            points += [] if point is None else [point]
        return min(points, key=self.cost_of, default=None)

    def cost_of(self, y: FloatArray) -> float:
        """Return the cost of a point (d,)."""
        return float(self.convex.encoded_cost(y[None], self.x[None])[0])

    def _set_margin(self, margin: float) -> None:
        """Tighten the constraint by a safety margin, and by the margin of the row."""
        margin += float(self.constraint.closed_in(self.case.margin)[0])
        self.tightened = replace(self.constraint, margin=self.constraint.margin + margin)

    def _nearest_in_balls(self, points: list[FloatArray]) -> FloatArray | None:
        """Return the cheapest point of descents that leads by the margin of its own distance.

        There is a margin for each ball about the row, and larger balls have larger ones. The
        smallest ball's is tried first; if the best point for it lies in a larger ball, that ball's
        margin is the next. Descents start at points that have the margin: first at ``points`` and
        at others uphill of random ones; then uphill of the best point so far, and of random ones
        again if no point there has the margin.
        """
        margins = np.zeros(1) if self.safety_margins is None else self.safety_margins.balls[0]
        best, ball = None, 0
        while margins[ball] <= self.tightened.largest_score:  # else no score has the margin
            self._set_margin(float(margins[ball]))
            starts = points if best is None else self._first_feasible(best, self._climb(best))
            if best is None or not starts:
                for point in self._random_points():
                    starts = starts + self._first_feasible(self.start, self._climb(point))
            best = self._best_descent(starts)
            if best is None or self.safety_margins is None:
                return best
            own_ball = int(self.safety_margins.smallest_ball(np.array([self.cost_of(best)]))[0])
            if own_ball <= ball:
                return best
            ball = own_ball
        return None

    def _best_descent(self, starts: list[FloatArray]) -> FloatArray | None:
        """Return the best point of descents from the three cheapest of feasible points, if any.

        All three descents are coarse; only the best one is continued.
        """
        points: list[FloatArray] = []
        for start in sorted(starts, key=self.cost_of)[:3]:
            points.append(self._descend(start, 1e-2))
            self.limited = perf_counter() > self.end
            if self.limited:
                break
        best = min(points, key=self.cost_of, default=None)
        if best is None or self.limited or self.effort.gap >= 1.0:  # any point will do
            return best
        return self._without_traces(self._descend(best, 1e-11))

    # Starts

    def _random_points(self) -> FloatArray:
        """(S, d) points about the row where angles differ by about 0 to 2, from a fixed seed."""
        features, angles = self.constraint.features, np.array([0.0, 0.7, 0.7, 2.0])
        frequency = np.sqrt((features.frequencies**2).sum(axis=0))
        moves = self.free & (frequency > 0.0)
        size = np.where(moves, 1.0 / np.where(moves, frequency, 1.0), 0.0)
        size *= np.sqrt(len(features.phases) / max(int(self.free.sum()), 1))
        changes = np.random.default_rng(0).normal(size=(len(angles), features.width)) * size
        return self._clipped(self.start + angles[:, None] * changes)

    def _climb(self, y: FloatArray) -> FloatArray:
        """Move a point (d,) uphill until it is feasible, or nothing improves.

        Each step goes to the top of a parabola below the score, so none lowers the score.
        """
        for _ in range(60):
            if len(self._feasible(y[None])):
                break
            higher = self._higher(y)
            if higher is None or np.abs(higher - y).max() <= 1e-9 * np.abs(higher).max():
                break
            y = higher
        return y

    def _higher(self, y: FloatArray) -> FloatArray | None:
        """Return the top (d,) of the parabola below the score that touches it at y.

        Within bounds it is clipped; within other constraints the cheapest point from it is taken.
        """
        score, free = self.constraint.score_about(y), np.flatnonzero(self.free)
        if not len(free):
            return None
        form, slope = score.curvatures_below[0][np.ix_(free, free)], score.slopes[0][free]
        ridge = 1e-3 * max(float(np.trace(form)) / len(free), TINY)  # the form may have no inverse
        top = np.array(y)
        top[free] += np.linalg.solve(form + ridge * np.eye(len(free)), slope)
        if self.has_bounds_only:
            return self._clipped(top)
        return self._optimum(Region(), replace(self.case, x=top[None]))

    def _first_feasible(self, start: FloatArray, end: FloatArray) -> list[FloatArray]:
        """Return the first feasible point on a segment, as far as a grid shows; [] without one.

        Between the last point of the grid that misses the constraint and the first feasible one,
        the root of the excess is found.
        """
        from scipy.optimize import brentq

        points = start + np.linspace(0.0, 1.0, 97)[:, None] * (end - start)
        points[-1] = end
        feasible = self._feasible(points)
        if not len(feasible):
            return []
        outside, inside = points[max(feasible[0] - 1, 0)], points[feasible[0]]
        if self._excess(outside) <= 0.0:
            return [inside]
        step, accuracy = inside - outside, 1e-13
        share = brentq(lambda t: self._excess(outside + t * step), 0.0, 1.0, xtol=accuracy)
        point = outside + (share + 2.0 * accuracy) * step
        return [point if len(self._feasible(point[None])) else inside]

    # Descents

    def _descend(self, start: FloatArray, least_gain: float) -> FloatArray:
        """Descend from a feasible point (d,) until a step gains less than a share of the cost."""
        y, cost = start, self.cost_of(start)
        for _ in range(60):
            point = self._step(y)
            if point is None:
                break
            gain = cost - self.cost_of(point)
            y, cost = point, cost - gain
            if gain <= least_gain * cost:
                break
        return y

    def _step(self, y: FloatArray) -> FloatArray | None:
        """Return a feasible point that costs less than y; None if a convex model gives none.

        If the optimum of the model misses the constraint, the model is tightened by a little more
        than that.
        """
        value, slope = (values[0] for values in self.tightened.excess_with_slope(y[None]))
        # The excess is a constant minus the score, but for the noise, whose curvature is left out.
        curvatures, axes = np.linalg.eigh(-self.constraint.score_about(y).hessians[0])
        form = (axes * np.maximum(curvatures, 0.0)) @ axes.T
        margin = 0.0
        for _ in range(4):
            model = parabola(y, float(value) + margin, slope, form)
            point = self._optimum(model, self.case)
            if point is None:
                return None
            excess = self._excess(point)
            if excess <= 0.0:
                return point if self.cost_of(point) < self.cost_of(y) else None
            margin += 1.1 * excess
        return None

    def _without_traces(self, y: FloatArray) -> FloatArray:
        """Return the point (d,) without its tiny changes, if it is feasible without them.

        Nobody would make a change of less than 1e-4 of an absolute cost.
        """
        cost = self.convex.encoded_cost
        costs = cost.absolute * np.abs(y - self.x)
        traces = (costs > 0.0) & (costs <= 1e-4 * costs.sum())
        if cost.kind is not Manhattan or not traces.any():
            return y
        point = np.where(traces, self.x, y)
        return point if len(self._feasible(point[None])) else y

    def _optimum(self, model: Region, case: Batch) -> FloatArray | None:
        """Return the cheapest point (d,) of the convex program within a model, if one is found."""
        effort = replace(self.effort, gap=min(self.effort.gap, 1e-9))
        program = Program(self.convex.encoded_cost, self.convex.region & model)
        for prepared in Subproblem(program).complete(exhaustive=False):
            solution = prepared.solve(case.with_margin(np.zeros((1, 2))), effort)
            if solution.outcomes[0] == Outcome.FOUND:
                return self._clipped(solution.points[0])
        return None

    # Points

    def _excess(self, y: FloatArray) -> float:
        """Return by how much a point (d,) misses the tightened constraint; positive if it does."""
        return float(self.tightened.excess(y[None])[0])

    def _clipped(self, y: FloatArray) -> FloatArray:
        return np.clip(y, self.low, self.high)

    def _feasible(self, points: FloatArray) -> IntArray:
        """Return which points (k, d) meet the constraint and all else but for rounding."""
        violation = self.convex.violation(points, np.broadcast_to(self.x, points.shape))
        feasible = np.flatnonzero(violation <= 4096.0 * EPS)
        return feasible[self.tightened.excess(points[feasible]) <= 0.0]


def parabola(at: FloatArray, value: float, slope: FloatArray, form: FloatArray) -> Region:
    """Return the cone value + slope · δ + ½ δᵀ form δ <= 0 with δ = y − at, for a form >= 0.

    With ‖M δ‖² = 2 δᵀ form δ and s = −value − slope · δ, it is ‖(M δ, s/σ − σ)‖ <= s/σ + σ. Any σ
    will do; this one makes the numbers about as large as one another.
    """
    curvatures, axes = np.linalg.eigh(form)
    curved = curvatures > 4096.0 * EPS * max(float(curvatures[-1]), TINY)
    matrix = np.sqrt(2.0 * curvatures[curved])[:, None] * axes[:, curved].T
    sigma = float(np.sqrt(max(abs(value), float(np.abs(slope).max()), TINY)))
    s_slope, s_constant = -slope / sigma, (-value + float(slope @ at)) / sigma  # of s/σ
    rows, offset = np.vstack([matrix, s_slope]), np.append(-matrix @ at, s_constant - sigma)
    return Region((Cone(rows, offset, s_constant + sigma, s_slope),))
