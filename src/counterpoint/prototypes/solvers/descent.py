"""The convex-concave procedure from several starts, and what bounds its answers.

From a point that meets the conditions the program's convex part about it is solved, which gives a
cheaper such point, and so on until nothing improves (Artelt & Hammer, equations 38–42). A start
that misses conditions is first moved by Newton's method until it meets them, or else led to meet
them by a penalty. Where a bound closes the gap, the search ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import final

import numpy as np

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.prototypes.nearer import curvature_of
from counterpoint.prototypes.solvers.convex_step import Step, convex_step, standard_form
from counterpoint.prototypes.solvers.lower_bound import LowerBound
from counterpoint.prototypes.solvers.quadric import Quadric
from counterpoint.solvers.base import Effort, Outcome
from counterpoint.solvers.standard_form import StandardForm

__all__ = ["Descents", "LocalSearch", "RowDescent"]

STALLED = 1e-9
"""A relative gain in price at which a descent ends."""
HOPE = 1.3
"""No start is tried after one whose answer costs so many times what is already reached."""
FURTHER = np.array([0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 11.0, 15.0, 23.0, 31.0, -1e-8, -1e-6, -1e-4])
"""How far beyond the end of a step to look, in lengths of the step; or before it, in case that its
end is not quite within convex conditions."""
WITHIN = 1e-10
"""How far within a condition a start is moved, relative to what the row misses."""
PAST = 1e-9
"""How far beyond a root of an excess its other side is looked at, relative to the root."""
TRACE = 1e-6
"""A share of the largest change that is noise of the interior point."""
PENALTIES = (10.0, 100.0, 1e3, *(1e4,) * 5)
"""What it costs to miss conditions, while a start misses them, relative to the price."""


@final
@dataclass(frozen=True, eq=False)
class Descents:
    """What the descents of one program share; its integral conditions are not looked at."""

    program: Program

    @cached_property
    def form(self) -> StandardForm:
        """The program in the standard form, with changes that cost about 1 as units."""
        return standard_form(self.program)

    @cached_property
    def quadric(self) -> Quadric:
        """The nearest points that meet single conditions."""
        return Quadric(self.program)

    @cached_property
    def prototypes(self) -> FloatArray:
        """(G, d) the points to which the conditions ask to be near, one for each metric."""
        quadrics = curvature_of(self.program).quadrics
        near = [quadrics.conditions[j] for j in quadrics.nearest]
        return np.stack([-np.linalg.pinv(c.matrix) @ c.offset for c in near])

    def met(self, points: FloatArray, case: Cases) -> BoolArray:
        """(k,): which points meet the program, but for rounding."""
        cases = case.take(np.zeros(len(points), dtype=np.intp))
        return curvature_of(self.program).meets(points, cases)

    def corrected(self, start: FloatArray, case: Cases) -> FloatArray:
        """A point near a start that meets quadratic conditions and rows, or comes nearer to it.

        Newton's method on what is missed, by the least change in units of the price; columns that
        the start leaves alone stay.
        """
        quadrics, affine = curvature_of(self.program).quadrics, self.program.affine
        x, low, high, unit = case.x[0], case.low[0], case.high[0], self.form.unit
        y = np.clip(start, low, high)
        change = np.abs(y - x) / unit
        free = (low < high) & (change > 1e-5 * change.max(initial=0.0))
        y = np.where(free, y, np.clip(x, low, high))
        least, most = (limit[0] for limit in affine.limits(case.margin))
        inwards = WITHIN * np.abs(quadrics.missed(case.x, case.margin)).max(initial=0.0)
        for _ in range(15):
            along, over = affine.matrix @ y, quadrics.missed(y[None], case.margin)[0] + inwards
            over = np.concatenate([over, along - most, least - along])
            missed = over > 0.0
            if not missed.any():
                break
            slopes = np.vstack([quadrics.slopes(y[None])[0], affine.matrix, -affine.matrix])
            slopes = slopes[missed][:, free] * unit[free]
            y[free] -= np.linalg.pinv(slopes) @ over[missed] * unit[free]
            y = np.clip(y, low, high)
        return y

    def alone(self, case: Cases) -> FloatArray:
        """(k, d) for each column that is no category the least change of it alone that is enough.

        Along a line an excess is a quadratic, so its roots are the only candidates; whole columns
        take the next whole step.
        """
        program, x, quadrics = self.program, case.x[0], curvature_of(self.program).quadrics
        value, slope = quadrics.missed(case.x, case.margin)[0, :, None], quadrics.slopes(case.x)[0]
        moves = roots(np.diagonal(quadrics.forms, axis1=1, axis2=2), slope, value)
        used = np.isfinite(moves) & (moves != 0.0) & program.numeric
        change, column = moves[used], np.nonzero(used)[1]
        step = program.steps[column]
        unit = np.where(step > 0.0, step, 1.0)
        outward = np.sign(change) * np.ceil(np.abs(change) / unit - PAST) * unit
        points = np.repeat(x[None], len(column), axis=0)
        move = np.where(step > 0.0, outward, change * (1.0 + PAST))
        points[np.arange(len(column)), column] += move
        return points[self.met(points, case)]


def roots(square: FloatArray, slope: FloatArray, value: FloatArray) -> FloatArray:
    """Both roots of square t² + slope t + value, one stack above the other; NaN for none."""
    with np.errstate(all="ignore"):
        root = np.sqrt(slope * slope - 4.0 * square * value)
        larger = -0.5 * (slope + np.where(slope >= 0.0, root, -root))
        return np.concatenate([larger / square, value / larger])


class LocalSearch(ABC):
    """One row's search: the cheapest point so far, and what is proved of all others.

    ``cutoff`` is a cost that is reached: a dearer point is of no use.
    """

    def __init__(self, shared: Descents, case: Cases, effort: Effort, cutoff: float) -> None:
        self.shared, self.program, self.case, self.effort = shared, shared.program, case, effort
        self.lower = LowerBound(shared.quadric, case, effort, cutoff)
        self.point: FloatArray | None = None
        self.cost = np.inf
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    @abstractmethod
    def run(self) -> None:
        """Search, until the gap is closed, nothing can be gained, or time is up."""

    @property
    def outcome(self) -> Outcome:
        """What there is to say."""
        if self.case.empty[0] or self.lower.is_empty:
            return Outcome.INFEASIBLE
        if self._is_late:
            return Outcome.LIMIT
        return Outcome.NOTHING if self.point is None else Outcome.FOUND

    @property
    def _is_late(self) -> bool:
        return perf_counter() > self._end

    def _is_over(self) -> bool:
        return self.lower.closes(self.cost) or self._is_late

    def _keep(self, points: FloatArray, gain: float = 0.0) -> bool:
        """Keep the cheapest of some points that meets the program; whether that is a gain."""
        cost = self.program.cost(points, np.repeat(self.case.x, len(points), axis=0))
        cheaper = np.flatnonzero(cost < self.cost * (1.0 - gain))
        met = self.shared.met(points[cheaper], self.case)
        if not met.any():
            return False
        best = cheaper[met][cost[cheaper[met]].argmin()]
        self.point, self.cost = points[best], float(cost[best])
        return True


@final
class RowDescent(LocalSearch):
    """One row's search without what is integral."""

    def __init__(self, shared: Descents, case: Cases, effort: Effort, cutoff: float) -> None:
        super().__init__(shared, case, effort, cutoff)
        self.quadrics = curvature_of(self.program).quadrics
        self._last: Step | None = None

    def run(self) -> None:
        if self.case.empty[0]:
            return
        for start in self._starts():
            self.descend(start)
            if self._last is not None:
                self.lower.by_step(self._last)
            if self._is_over():
                return

    def _starts(self) -> Iterator[FloatArray]:
        """Points to start from, the most promising first; bounds on the way."""
        nearest = self.lower.nearest()
        if self._is_over():
            return
        found = self.lower.relax(nearest)
        if self._is_over():
            return
        yield nearest if found is None else found.point
        if self.cost > HOPE * self.lower.cutoff:
            return
        yield from self.shared.prototypes
        if self._keep(self.shared.alone(self.case)):
            self._trim()

    def _price(self, point: FloatArray) -> float:
        return float(self.program.cost(point[None], self.case.x)[0])

    def descend(self, start: FloatArray) -> None:
        """One descent; what it finds is kept if it is cheaper than what is known."""
        at = self._entered(start)
        if at is None:
            return
        price = self._price(at)
        self._keep(at[None])
        for _ in range(40):
            step = self._step(at)
            if step is None:
                break
            reached = self._within(at, step.point)
            self._keep(reached[None])
            cost, before = self._price(reached), price
            if cost < price:
                at, price = reached, cost
            if cost >= before * (1.0 - STALLED) or self._is_late:
                self._last = step
                break
        if self.program.price.absolute.any():
            self._tidy(at)
        self._trim()

    def _entered(self, start: FloatArray) -> FloatArray | None:
        """A point near a start that meets the program, or None."""
        if not np.isfinite(start).all():
            return None
        at = self.shared.corrected(start, self.case)
        for penalty in PENALTIES:
            if self.shared.met(at[None], self.case)[0]:
                return at
            step = self._step(at, penalty)
            if step is None or self._is_late:
                return None
            at = step.point
        return at if self.shared.met(at[None], self.case)[0] else None

    def _step(self, at: FloatArray, penalty: float | None = None) -> Step | None:
        return convex_step(self.shared.form, self.case, at, self.effort.until(self._end), penalty)

    def _tidy(self, point: FloatArray) -> None:
        """What hardly moved stays, if that costs no more: interior points leave traces."""
        x, absolute = self.case.x[0], self.program.price.absolute > 0.0
        change = np.abs(point - x) / self.shared.form.unit
        still = (change <= TRACE * change.max(initial=0.0)) & absolute
        if (point == x)[still].all() or not (self.cost >= self._price(point)):
            return
        plain = self.case
        self.case = plain.within(np.where(still, x, -np.inf), np.where(still, x, np.inf))
        at = self.shared.corrected(np.where(still, x, point), self.case)
        step = self._step(at)
        self.case = plain
        self.cost *= 1.0 + STALLED
        self._keep((at if step is None else self._within(at, step.point))[None])

    def _trim(self) -> None:
        """Back towards the row as far as conditions let the best point: steps stay within them."""
        if self.point is not None:
            home = np.clip(self.case.x[0], self.case.low[0], self.case.high[0])
            share = self._entry(home, self.point - home)
            for part in (share, share + 1e-3 * (1.0 - share)):
                self._keep((home + part * (self.point - home))[None])

    def _within(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """The cheapest point at the end of a step, before or beyond it, that meets the program."""
        back = self._entry(end, start - end)
        end = start if np.isnan(back) else end + back * (start - end)
        tried = end + FURTHER[:, None] * (end - start)
        tried = np.vstack([end, tried[self.shared.met(tried, self.case)]])
        cost = self.program.cost(tried, np.repeat(self.case.x, len(tried), axis=0))
        return np.asarray(tried[cost.argmin()])

    def _entry(self, point: FloatArray, move: FloatArray) -> float:
        """The largest t in [0, 1] from which on to 1 point + t · move meets quadratic conditions.

        NaN if it misses one of them at 1.
        """
        value = self.quadrics.missed(point[None], self.case.margin)[0]
        slope = self.quadrics.slopes(point[None])[0] @ move
        square = np.einsum("jkl,k,l->j", self.quadrics.forms, move, move)
        if (square + slope + value > 0.0).any():
            return float("nan")
        ends = roots(square, slope, value)
        return float(ends[(ends > 0.0) & (ends < 1.0)].max(initial=0.0))
