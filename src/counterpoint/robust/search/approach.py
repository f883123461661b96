"""One row and one piece with conditions that are known by their half-spaces: from outside.

A relaxation knows a few of the half-spaces; any solver takes it, and its bound holds. Where its
point misses a condition, the half-space that it misses most is added (Kelley's cutting planes):
near a vertex, or under a quadratic cost, that is Newton's method. Where it is not enough, the
optimum under a second-order cone that touches the condition is looked at too, and the cone moved
there: its curvature is nearly the right one, so that each step leaves a few hundredths of the
error.

Whole steps and categories are found in the relaxation by a branch and bound; then they are held,
and the rest is settled by itself (Duran & Grossmann, 1986).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Manhattan
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Affine
from counterpoint.engine.evidence import Evidence
from counterpoint.engine.frontier import Findings, Frontier
from counterpoint.engine.listed import Listed
from counterpoint.engine.pieces import Piece
from counterpoint.robust.faceted import faceted
from counterpoint.robust.search.farkas import contradicted, sharpened
from counterpoint.solvers import Effort

__all__ = ["Approach"]

FloatArray = NDArray[np.float64]
Places = list[FloatArray]

ROUNDS = 60
"""How many times half-spaces are added at most."""
FIRST = 2
"""After so many rounds cones are looked at as well."""
EXACT = 1e-9
"""The relative gap that is aimed at in the first rounds with cones."""
CONES = 4
"""How many these are."""
NEARER = 1e-8
"""The relative gap that is aimed at later, as long as rounds gain; then a tenth of what is asked
for will do."""
DOUBTS = 4
"""How often more half-spaces may help where those there are leave nothing, but prove nothing."""
SLOW = 0.7
"""The part of a gap that a round leaves which gains something."""
CLOSED = 1e-10
"""A point that misses by what costs a share of so much needs no half-space, only a little more."""
ROUNDING = 1e-7
"""What a solver may leave, as such a share."""
NEARLY = 1e-2
"""From this gap on the optimum under cones is surrounded by half-spaces, under some prices."""
AROUND = (2e-10, 2e-9)
"""What they cut off less than the best one, as shares of the cost."""
STALLED = 0.5
"""A round that leaves such a part of what was missed says that a solver can do no better."""
INWARDS = 2.0
"""How far inside the next point is to be, in units of what this one misses."""


@final
class Approach:
    """One row in one piece, from outside.

    Parameters
    ----------
    piece, case, effort
        What is asked.
    cuts
        Half-spaces to begin with.
    end
        When to stop, in the seconds of ``perf_counter``; None for what the effort says.

    Attributes
    ----------
    best, bound
        What gives the best bound, and that bound.
    point, cost
        The cheapest point that meets all conditions, (1, d), and what it costs.
    limited
        Whether time ran out.
    """

    best: Evidence

    def __init__(
        self,
        piece: Piece,
        case: Cases,
        effort: Effort,
        cuts: Affine | None = None,
        end: float | None = None,
    ) -> None:
        self.free = piece.free
        few = piece.program.at_most is not None  # a branch and bound that gains nothing by it
        self.piece = faceted(piece) if piece.is_integral and not few else piece
        self.case, self.effort = case, effort
        first = Affine(np.zeros((0, piece.program.width)), np.zeros(0), np.zeros(0))
        for condition in self.piece.supported:
            first = first.stacked(condition.first())
        self.cuts = first if cuts is None else cuts
        stop = np.inf if effort.seconds is None else perf_counter() + effort.seconds
        self.end = stop if end is None else end
        self.bound, self.cost, self.limited = -np.inf, np.inf, False
        self.point: FloatArray | None = None
        self.inwards, self.gap = 0.0, np.inf
        self.missed, self.missed_by_cones = np.inf, np.inf

    def run(self, worth: float) -> None:
        """Until the gap is closed, or there is no point, or none below ``worth``."""
        if self.piece.is_integral:
            self._run_integral(worth)
        else:
            self._run_smooth(worth)

    def _run_smooth(self, worth: float) -> None:
        """Half-spaces where relaxations end; then also where cones do."""
        places: Places | None = None
        doubts = 0
        for k in range(ROUNDS):
            y = self._relaxed(worth)
            if y is None:
                if self.bound >= worth or self.limited or doubts == DOUBTS:
                    return
                if not self.inwards:  # there is nothing, which is not proved
                    places = self._touched(places or self._places(self.case.x), worth)
                    doubts += 1
                self.inwards = 0.0
                continue
            missed = self._cut(y)
            if missed <= 0.0:
                return
            self._go_inwards(missed, y, self.missed)
            self.missed = missed
            if k >= FIRST:
                places = self._touched(places or self._places(y), worth)
            if self._is_closed(k):
                return

    def _run_integral(self, worth: float) -> None:
        """Whole steps and categories of a relaxation held, the rest settled by itself."""
        if not self.free.is_integral:
            self._continue(Approach(self.free, self.case, self.effort, end=self.end), worth)
            if self._is_closed(0):
                return
        for k in range(ROUNDS):
            y = self._relaxed(worth) if self.bound < worth else None
            if y is None or self._cut(y) <= 0.0:
                return
            held = self.piece.program.held(y, self.case.x)
            low, high = np.where(held, y, -np.inf), np.where(held, y, np.inf)
            case = self.case.within(low, high)
            settled = Approach(self.free, case, self.effort, self.cuts, self.end)
            settled._run_smooth(min(worth, self.cost))
            self.cuts = settled.cuts
            if settled.point is not None:
                self._offer(np.where(held, y, settled.point))
            if self._is_closed(k):
                return

    def _continue(self, other: Approach, worth: float) -> None:
        """From the half-spaces and the bound of a relaxation."""
        other.run(worth)
        self.cuts = self.cuts.stacked(other.cuts)
        self.best, self.bound = other.best, other.bound
        if other.point is not None:
            missed = self.piece.program.violation(other.point, self.case.x)[0]
            if missed == 0.0:  # nothing had to be rounded
                self._offer(other.point)

    def _relaxed(self, worth: float) -> FloatArray | None:
        """(1, d) the optimum within the half-spaces so far; None if it is not worth going on."""
        relaxed = self.piece.relaxed(self.cuts)
        contradiction = contradicted(relaxed.program, self.case)
        if contradiction is not None:
            self.best, self.bound = contradiction, np.inf
            return None
        found, self.evidence = self._search(relaxed)
        if found.piece[0] < 0:
            self.evidence = sharpened(self.evidence)
        self._learn(self.evidence, worth)
        # A branch and bound that had to leave a node open has a point all the same, to go on from.
        stuck = found.piece[0] < 0 or perf_counter() >= self.end
        self.limited = bool(found.limited[0]) and stuck
        none = found.piece[0] < 0 or self.limited or self.bound >= worth
        return None if none else found.points

    def _learn(self, evidence: Evidence, worth: float) -> None:
        """Keep what bounds better."""
        told = float(evidence.bounds(np.array([worth]))[1][0])
        if told > self.bound:
            self.best, self.bound = evidence, told

    def _search(self, piece: Piece) -> tuple[Findings, Evidence]:
        """A piece that solvers take: a search of its own."""
        effort = self.effort
        if not piece.is_integral:
            effort = replace(effort, gap=min(effort.gap, EXACT))
        if np.isfinite(self.end):
            effort = replace(effort, seconds=max(0.5 * (self.end - perf_counter()), 1e-6))
        case = self.case.with_margin(self.case.margin + np.array([self.inwards, 0.0]))
        inner = Frontier(case, effort)
        way = Listed(inner, (piece,))
        return inner.run(way), way.evidence()[0]

    def _cut(self, y: FloatArray) -> float:
        """By how much a point misses the conditions; it is offered, or excluded from now on."""
        missed = -np.inf
        for condition in self.piece.supported:
            excess, support = condition.supports(y)
            missed = max(missed, float(excess[0] + self.case.margin[0, 0]))
            self.cuts = self.cuts.stacked(support)
        if missed <= 0.0:
            self._offer(y)
        return missed

    def _offer(self, y: FloatArray) -> None:
        cost = float(self.piece.program.objective(y, self.case)[0])
        if cost < self.cost:
            self.point, self.cost = y, cost

    def _places(self, y: FloatArray) -> Places:
        """Where the conditions are looked at, from a point (1, d)."""
        return [condition.place(y) for condition in self.piece.supported]

    def _touched(self, places: Places, worth: float) -> Places:
        """Where the optimum is under cones that touch the conditions at places; cut as well."""
        model = self.piece.modelled(places)
        if model is None:
            return places
        found, evidence = self._search(model)
        if all(condition.is_cone for condition in self.piece.supported):
            self._learn(evidence, worth)
        if found.piece[0] < 0:
            return self._turned(places, evidence)
        missed = self._cut(found.points)
        if missed > 0.0:
            self._go_inwards(missed, found.points, self.missed_by_cones)
            self.missed_by_cones = missed
        self._surround(found.points)
        return self._places(found.points)

    def _turned(self, places: Places, evidence: Evidence) -> Places:
        """Where to touch next, if cones that touch at places have no point: see why that is so."""
        ray, cones = evidence.multipliers[0], evidence.program.curved
        ends = np.cumsum([evidence.program.affine.size, *(cone.size for cone in cones)])
        parts = np.split(ray[: ends[-1]], ends[:-1])[1:]
        own = iter(parts[len(parts) - len(places) :])
        out = []
        for condition, place, part in zip(self.piece.supported, places, own, strict=True):
            turned, support = condition.turned(place, part) or (place, None)
            if support is not None:
                self.cuts = self.cuts.stacked(support)
            out.append(turned)
        return out

    def _surround(self, y: FloatArray) -> None:
        """Half-spaces at points around an optimum under cones, which is not known exactly.

        Under an absolute price the bound by a single one is as far off as that is; a weighted mean
        of these is far nearer.
        """
        cost = float(self.piece.program.objective(y, self.case)[0])
        near = cost - self.bound <= NEARLY * cost and self.effort.gap < 1.0
        if self.piece.program.price.kind is not Manhattan or not near:
            return
        worth = self._worth(cost)
        free = (np.abs(y - self.case.x) > 0.0)[0]
        free &= (self.case.low[0] < y[0]) & (y[0] < self.case.high[0])
        for condition in self.piece.supported:
            for share in AROUND if worth > 0.0 else ():
                points = condition.around(y, free, share * cost / worth)
                self.cuts = self.cuts.stacked(condition.supports(points)[1])

    def _go_inwards(self, missed: float, y: FloatArray, before: float) -> None:
        """If only rounding is missed, what is found next is to be a little inside."""
        cost = float(self.piece.program.objective(y, self.case)[0])
        share = missed * self._worth(cost) / cost if cost else np.inf
        stalled = missed > STALLED * before
        if share <= CLOSED or (stalled and share <= min(0.1 * self.effort.gap, ROUNDING)):
            self.inwards = INWARDS * max(missed, self.inwards)

    def _worth(self, cost: float) -> float:
        """About what a score unit costs: here by the multipliers, and on the way from the row."""
        affine, missed = self.evidence.program.affine, self._missed_at_first
        here = float(np.abs(self.evidence.multipliers[0, : affine.size]) @ affine.tight)
        return max(here, cost / missed if missed > 0.0 else 0.0)

    @cached_property
    def _missed_at_first(self) -> float:
        """By how much the row itself misses the conditions."""
        return max(float(c.excess(self.case.x)[0]) for c in self.piece.supported)

    def _is_closed(self, k: int) -> bool:
        """Whether the gap is as small as is to be expected after so many rounds."""
        if np.isinf(self.cost) or self.effort.gap >= 1.0:
            return np.isfinite(self.cost)
        gap, before = self.cost - self.bound, self.gap
        self.gap = gap
        wanted = max(0.1 * self.effort.gap, EXACT)
        if not self.piece.is_integral and (k < FIRST + CONES or gap <= SLOW * before):
            wanted = EXACT if k < FIRST + CONES else min(wanted, NEARER)
        return gap <= wanted * self.cost
