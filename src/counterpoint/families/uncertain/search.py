"""Scores of random Fourier features: points on the segment to a prototype, and by descents.

The condition is smooth and not convex, so that what is found is a local optimum; how far from it
the optimum can be at most is said by `DistanceBounds`.

A step of a descent minimises the price where a parabola that stands in for the condition is not
positive: one with the condition's own value, slope and, as far as that can be, curvature at the
point. Under a quadratic price and without rows that is one root (the S-lemma), and the curvature is
the condition's own, so that it is Newton's method; else it is a convex program, without the
negative part of the curvature. What a step misses the condition by is asked for besides, and it is
never taken for granted: every point is held against the condition itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.families.uncertain.wave_bounds import (
    DistanceBounds,
    WaveLeads,
    diagonalised,
    metric_of,
)
from counterpoint.families.uncertain.waves import FourierConstraint, parabola
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray
from counterpoint.problem.costs import Manhattan
from counterpoint.programs.conditions import AtMost, OneOf, Whole
from counterpoint.programs.evidence import Bounding
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases, Region
from counterpoint.search.search import Found
from counterpoint.search.union import StartHint, Subproblem, Union
from counterpoint.solvers import Effort, Optimality, Outcome

__all__ = ["RowSearch", "search_waves"]


def search_waves(found: Found, pieces: Union, safety_margins: WaveLeads | None) -> list[Bounding]:
    """Pieces with a `FourierConstraint`, one row after the other, and what bounds them."""
    found.closed[:] = False
    if found.effort.optimality is Optimality.GLOBAL:
        raise InvalidInput(
            "Expected optimality='local' for a model with random features: nothing here "
            "searches all of its optima. The bound of an answer says how good one could be."
        )
    evidence: list[Bounding] = []
    for s, piece in enumerate(pieces.listed):
        program = piece.program
        if program.at_most is not None:
            raise InvalidInput(
                "Expected no MaxChanges for a model with random features: its answers move all "
                "columns a little. Hold columns with Immutable instead."
            )
        limit, cases = _limit_of(program), piece.sees(found.cases)
        evidence.append(DistanceBounds(program.encoded_cost, limit, cases, safety_margins))
        # Whole columns and categories stay.
        held = cases.holding((program.steps > 0.0) | ~program.numeric, cases.x)
        for i in np.flatnonzero(~held.empty).tolist():
            row = np.array([i])
            own = None if safety_margins is None else safety_margins.take(row)
            search = RowSearch(program, held.take(row), found.effort, pieces.aim, own)
            point = search.run()
            found.limited[i] |= search.limited
            if point is not None:
                found.offer(s, row, point[None], np.array([search.encoded_cost(point)]))
    return evidence


def _limit_of(program: Program) -> FourierConstraint:
    """The condition of a program that is not convex."""
    (found,) = (c for c in program.region if isinstance(c, FourierConstraint))
    return found


@final
class RowSearch:
    """One row, wherever it is to be looked for an answer; its whole columns are held."""

    def __init__(
        self,
        program: Program,
        case: Cases,
        effort: Effort,
        aim: StartHint,
        safety_margins: WaveLeads | None,
    ) -> None:
        dropped = (FourierConstraint, Whole, OneOf, AtMost)
        kept = (c for c in program.region if not isinstance(c, dropped))
        self.own, self.rest = _limit_of(program), Program(program.encoded_cost, Region(tuple(kept)))
        self.numeric = program.numeric
        self.is_open = not self.rest.affine.size and not self.rest.nonlinear  # but for bounds
        self.case, self.effort = case, effort
        self.x, self.low, self.high = case.x[0], case.low[0], case.high[0]
        self.free = self.low < self.high
        self.end = np.inf if effort.seconds is None else perf_counter() + effort.seconds
        self.aim, self.safety_margins = aim, safety_margins
        self.limited = False  # whether time ran out
        self.start = self._clipped(self.x)
        self._ask(0.0)

    def run(self) -> FloatArray | None:
        """(d,) the cheapest point that was found."""
        aim, safety_margins, points = self.aim, self.safety_margins, list[FloatArray]()
        if aim.prototype is not None and aim.on_segment:
            self._ask(0.0 if safety_margins is None else float(safety_margins.segments[0]))
            point = self._enter(self.start, self._clipped(aim.prototype))
            points += [] if point is None else [point]
        if aim.anywhere or (aim.otherwise and not points):
            point = self._nearest(points if safety_margins is None else [])
            points += [] if point is None else [point]
        return min(points, key=self.encoded_cost, default=None)

    def encoded_cost(self, y: FloatArray) -> float:
        """What a point (d,) costs."""
        return float(self.rest.encoded_cost(y[None], self.x[None])[0])

    def _ask(self, asked: float) -> None:
        """Ask for another lead from here on."""
        more = asked + float(self.own.closed_in(self.case.margin)[0])
        self.limit = replace(self.own, asked=self.own.asked + more)

    def _nearest(self, known: list[FloatArray]) -> FloatArray | None:
        """The nearest point that leads by what its own distance asks for: radii from below."""
        asked = np.zeros(1) if self.safety_margins is None else self.safety_margins.balls[0]
        best, v = None, 0
        while v < len(asked):
            self._ask(float(asked[v]))
            if asked[v] > self.limit.score.most:
                return None
            starts = known if best is None else self._entered(best, best[None])
            if best is None or not starts:
                starts = starts + self._entered(self.start, self._around())
            best = self._descended(starts)
            if best is None or self.safety_margins is None:
                return best
            place = int(self.safety_margins.places(np.array([self.encoded_cost(best)]))[0])
            if place <= v:
                return best
            v = place
        return None

    def _descended(self, starts: list[FloatArray]) -> FloatArray | None:
        """The best of descents from the three cheapest of some points within."""
        best: FloatArray | None = None
        for start in sorted(starts, key=self.encoded_cost)[:3]:
            point = self._descend(start, 1e-2)
            if best is None or self.encoded_cost(point) < self.encoded_cost(best):
                best = point
            if perf_counter() > self.end:
                self.limited = True
                return best
        if best is None or self.effort.gap >= 1.0:  # any point will do
            return best
        return self._tidied(self._descend(best, 1e-11))

    # Ways in

    def _entered(self, start: FloatArray, feet: FloatArray) -> list[FloatArray]:
        """Points within that are near the first ones on the way from a start to tops of climbs."""
        found = (self._first_within(start, self._climbed(foot)) for foot in feet)
        return [points[1] for points in found if points is not None]

    def _around(self) -> FloatArray:
        """(S, d) points about the row, the same for every row.

        Their distances are in units in which the angles of waves change by 1.
        """
        waves, distances = self.limit.waves, np.array([0.0, 0.7, 0.7, 2.0])
        steep = np.sqrt((waves.frequencies**2).sum(axis=0))
        size = np.where(self.free & (steep > 0.0), 1.0 / np.where(steep > 0.0, steep, 1.0), 0.0)
        size *= np.sqrt(len(waves.phases) / max(int(self.free.sum()), 1))
        moves = np.random.default_rng(0).normal(size=(len(distances), waves.width)) * size
        return self._clipped(self.start + distances[:, None] * moves)

    def _climbed(self, y: FloatArray) -> FloatArray:
        """Uphill, each step to the top of a parabola below, until a little more than is asked."""
        asked = self.limit.asked + 1.05 * self._noise
        for _ in range(60):
            is_high = self.limit.score.value(y[None])[0] >= asked
            if is_high and self._is_possible(y[None])[0]:
                break
            higher = self._higher(y)
            if higher is None or np.abs(higher - y).max() <= 1e-9 * np.abs(higher).max():
                break
            y = higher
        return y

    def _higher(self, y: FloatArray) -> FloatArray | None:
        """(d,) the top of the parabola below the score, as far as constraints let one go."""
        score, free = self.limit.score, np.flatnonzero(self.free)
        if not len(free):
            return None
        form = score.below(y)[np.ix_(free, free)]
        ridge = 1e-3 * max(float(np.trace(form)) / len(free), TINY)
        top = np.array(y)
        slope = score.slope(y[None])[0][free]
        top[free] += np.linalg.solve(form + ridge * np.eye(len(free)), slope)
        if self.is_open:
            return self._clipped(top)
        return self._optimum(Region(), replace(self.case, x=top[None]))

    @cached_property
    def _noise(self) -> float:
        """What the noise asks for at the row; elsewhere it is not much less, or more."""
        limit, x = self.own, self.case.x
        return float(limit.excess(x)[0] + limit.score.value(x)[0] - limit.asked)

    def _first_within(
        self, start: FloatArray, end: FloatArray
    ) -> tuple[FloatArray | None, FloatArray] | None:
        """The first point of a grid that is within, after the one before it if that is possible."""
        points = start + np.linspace(0.0, 1.0, 97)[:, None] * (end - start)
        points[-1] = end
        possible, score = self._is_possible(points), self.limit.score.value(points)
        # The quantile is not looked at where the score is well below what noise asks for.
        asked = self.limit.asked + 0.9 * self._noise
        for i in np.flatnonzero(possible & (score >= asked)).tolist():
            if self._excess(points[i]) <= 0.0:
                return (points[i - 1] if i and possible[i - 1] else None), points[i]
        return None

    def _enter(self, start: FloatArray, end: FloatArray) -> FloatArray | None:
        """(d,) the first point that is found on a segment to meet everything; None if none does."""
        from scipy.optimize import brentq

        found = self._first_within(start, end)
        if found is None or found[0] is None:
            return None if found is None else found[1]
        outside, way = found[0], found[1] - found[0]
        if self._excess(outside) <= 0.0:
            return outside
        off = 1e-13  # a share of a step of the grid
        share = brentq(lambda share: self._excess(outside + share * way), 0.0, 1.0, xtol=off)
        points = (outside + (share + more * off) * way for more in range(4))
        return next((point for point in points if self._excess(point) <= 0.0), found[1])

    # Descents

    def _descend(self, start: FloatArray, settled: float) -> FloatArray:
        """(d,) a local optimum, from a point within; the last step gains a share of ``settled``."""
        y, cost = start, self.encoded_cost(start)
        for _ in range(60):
            found = self._step(y)
            if found is None:
                break
            encoded_cost = self.encoded_cost(found)
            gained = cost - encoded_cost
            if gained > 0.0:
                y, cost = found, encoded_cost
            if gained <= settled * cost:
                break
        return y

    def _step(self, y: FloatArray) -> FloatArray | None:
        """A cheaper point within, or None; what a model misses is asked for besides."""
        value, slope = (part[0] for part in self.limit.excess_with_slope(y[None]))
        hessian, more = -self.limit.score.hessian(y), 0.0
        for _ in range(4):
            found = self._of_model(y, float(value) + more, slope, hessian)
            if found is None:
                return None
            missed = self._excess(found)
            if missed <= 0.0:
                return found if self.encoded_cost(found) < self.encoded_cost(y) else None
            more += 1.1 * missed
        return None

    def _tidied(self, y: FloatArray) -> FloatArray:
        """(d,) a point whose traces of changes are gone, under an absolute price; else the same."""
        encoded_cost, gone = self.rest.encoded_cost, np.abs(y - self.x)
        paid = encoded_cost.absolute * gone
        traces = (paid > 0.0) & (paid <= 1e-4 * paid.sum())  # no change that anyone would make
        if encoded_cost.kind is not Manhattan or not traces.any():
            return y
        found = np.where(traces, self.x, y)
        is_within = self._excess(found) <= 0.0 and self._is_possible(found[None])[0]
        return found if is_within else y

    def _of_model(
        self, y: FloatArray, value: float, slope: FloatArray, hessian: FloatArray
    ) -> FloatArray | None:
        """(d,) the optimum of a model of the limit; None if there is none, or it is not found."""
        found = self._by_root(y, value, slope, hessian)
        if found is not None:
            return found
        sizes, towards = np.linalg.eigh(hessian)
        positive = (towards * np.maximum(sizes, 0.0)) @ towards.T
        return self._optimum(parabola(y, value, slope, positive), self.case)

    def _by_root(
        self, y: FloatArray, value: float, slope: FloatArray, hessian: FloatArray
    ) -> FloatArray | None:
        """The same under a quadratic price, if neither rows nor bounds are in its way (S-lemma).

        In coordinates in which the price is ‖z‖² and the model c + b · z + ½ Σ h z², the optimum is
        z = −ν b / (2 + ν h) for the ν > 0 at which the model is 0.
        """
        free, encoded_cost = self.free, self.rest.encoded_cost
        if not (self.is_open and encoded_cost.diagonal[self.numeric].all()):
            return None
        metric = metric_of(encoded_cost)
        if (metric[np.ix_(free, ~free)] @ (self.start - self.x)[~free]).any():
            return None
        form, gone = hessian[np.ix_(free, free)], (y - self.x)[free]
        bends, axes = diagonalised(form, metric[np.ix_(free, free)])
        here = value - slope[free] @ gone + 0.5 * gone @ form @ gone
        z = _root(here, axes.T @ (slope[free] - form @ gone), bends)
        if z is None:
            return None
        found = np.array(self.start)
        found[free] = self.x[free] + axes @ z
        return found if (self._clipped(found) == found).all() else None

    def _optimum(self, model: Region, case: Cases) -> FloatArray | None:
        """(d,) the cheapest point of a convex model and all else, by the first solver that can."""
        rest, effort = self.rest, replace(self.effort, gap=min(self.effort.gap, 1e-9))
        program = Program(rest.encoded_cost, rest.region & model)
        for prepared in Subproblem(program).complete(exhaustive=False):
            solution = prepared.solve(case.with_margin(np.zeros((1, 2))), effort)
            if solution.outcomes[0] == Outcome.FOUND:
                return self._clipped(solution.points[0])
        return None

    # Points

    def _excess(self, y: FloatArray) -> float:
        """By how much a point (d,) misses the limit."""
        return float(self.limit.excess(y[None])[0])

    def _clipped(self, y: FloatArray) -> FloatArray:
        """Points moved between the bounds."""
        return np.minimum(np.maximum(y, self.low), self.high)

    def _is_possible(self, y: FloatArray) -> BoolArray:
        """(k,): which points (k, d) meet all but the limit, as far as rounding can tell."""
        inside = ((self.low <= y) & (y <= self.high)).all(axis=1)
        if self.is_open:
            return np.asarray(inside)
        missed = self.rest.violation(y, np.broadcast_to(self.x, y.shape))
        return np.asarray(inside & (missed <= 4096.0 * EPS))


def _root(here: float, along: FloatArray, bends: FloatArray) -> FloatArray | None:
    """(k,) the nearest z to 0 with here + along · z + ½ Σ bends z² <= 0; None if there is none."""
    from scipy.optimize import brentq

    if here <= 0.0:
        return np.zeros_like(along)

    def at(nu: float) -> FloatArray:
        return -nu * along / (2.0 + nu * bends)

    def value(nu: float) -> float:
        z = at(nu)
        return here + float(along @ z + 0.5 * (bends * z) @ z)

    end = 2.0 / -float(bends[0]) if bends[0] < 0.0 else np.inf
    high = 1.0 if np.isinf(end) else 0.5 * end
    for _ in range(100):
        if value(high) <= 0.0:
            return at(brentq(value, 0.0, high, xtol=TINY, rtol=4.0 * EPS) * (1.0 + 4.0 * EPS))
        high = 2.0 * high if np.isinf(end) else 0.5 * (high + end)
    return None
