"""The convex-concave procedure for one row, from several starts, and what bounds its answer.

From a point that meets the conditions the program's convex part about it is solved, which gives a
cheaper such point, and so on until nothing improves (Artelt & Hammer, equations 38–42). The way
from one point to the next is followed as far as it stays within the conditions and gets cheaper. A
start that misses conditions is first moved by Newton's method until it meets them, or else led to
meet them by a penalty. Where a bound closes the gap, the search ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Affine
from counterpoint.engine.domains import Box
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.prototypes.nearer import Curvature, Nearer, curvature_of
from counterpoint.prototypes.solvers.lower_bound import LowerBound
from counterpoint.prototypes.solvers.quadric import QuadricPrograms
from counterpoint.prototypes.solvers.shor import Relaxed, relaxed
from counterpoint.prototypes.solvers.tangents import Step, convex_step, unit_changes
from counterpoint.solvers.base import Effort, Outcome

__all__ = ["Descent", "Descents"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

STEPS = 40
STALLED = 1e-9
"""A relative gain in price at which a descent ends."""
FAMILIAR = 0.02
"""How near to where another descent ended one is given up, relative to the change."""
HOPE = 1.3
"""No start is tried after one whose answer costs so many times what is already reached."""
FEW = 6
"""So many conditions are all looked at from the first."""
ADDED = 5
"""How often conditions that a step misses are added to those that it looks at."""
LENGTHS = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
"""How far beyond the end of a step to look, in lengths of the step."""
SHORTER = 1.0 - np.array([1e-4, 1e-6, 1e-8])
"""How much shorter a step is, in case that its end is not quite within convex conditions."""
MET, ROUNDING = 1e-12, 1e-13
"""The largest relative violations that are rounding: of anything, and of quadratic conditions."""
WITHIN = 1e-10
"""How far within a condition a start is moved, relative to what the row misses."""
CORRECTIONS = 15
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
    def curvature(self) -> Curvature:
        """The program's quadratic conditions, and what they prove."""
        return curvature_of(self.program)

    @cached_property
    def unit(self) -> FloatArray:
        """(d,) the change of each column that costs about 1."""
        return unit_changes(self.program)

    @cached_property
    def quadric(self) -> QuadricPrograms:
        """The nearest points that meet single conditions."""
        return QuadricPrograms(self.program)

    @cached_property
    def prototypes(self) -> FloatArray:
        """(G, d) the points to which the conditions ask to be near, one for each metric."""
        quadrics = self.curvature.quadrics
        near = [quadrics.conditions[j] for j in quadrics.nearest]
        return np.stack([-np.linalg.pinv(c.matrix) @ c.offset for c in near])

    def relaxed(self, case: Cases, size: float, effort: Effort) -> Relaxed | None:
        """The semidefinite relaxation."""
        return relaxed(self.program, case, size, effort)

    def met(self, points: FloatArray, case: Cases) -> BoolArray:
        """(k,): which points meet the program, but for rounding."""
        cases = case.take(np.zeros(len(points), dtype=np.intp))
        missed = self.curvature.quadrics.misses(points, cases.margin)
        inside = ((case.low <= points) & (points <= case.high)).all(axis=1)
        out: BoolArray = np.asarray((missed <= ROUNDING).all(axis=1) & inside)
        part, x = points[out], cases.x[out]
        rest = self._rest.violation(part, x)
        if self.program.affine.size:
            rest = np.maximum(rest, self.program.affine.tightened(case.margin).violation(part, x))
        out[out] = rest <= MET
        return out

    @cached_property
    def _rest(self) -> Region:
        """What the program asks beside quadratic conditions, rows and bounds."""
        known = (Nearer, Affine, Box)
        return Region(tuple(c for c in self.program.region if not isinstance(c, known)))

    def alone(self, case: Cases) -> FloatArray:
        """(k, d) for each column that is no category the least change of it alone that is enough.

        Along a line an excess is a quadratic, so its roots are the only candidates; whole columns
        take the next whole step.
        """
        program, x, quadrics = self.program, case.x[0], self.curvature.quadrics
        value, slope = quadrics.missed(case.x, case.margin)[0, :, None], quadrics.slopes(case.x)[0]
        bend = np.diagonal(quadrics.forms, axis1=1, axis2=2)
        with np.errstate(all="ignore"):
            root = np.sqrt(slope * slope - 4.0 * bend * value)
            larger = -0.5 * (slope + np.where(slope >= 0.0, root, -root))
            moves = np.vstack([larger / bend, value / larger])
        used = np.isfinite(moves) & (moves != 0.0) & program.numeric
        change, column = moves[used], np.nonzero(used)[1]
        step = program.steps[column]
        unit = np.where(step > 0.0, step, 1.0)
        outward = np.sign(change) * np.ceil(np.abs(change) / unit - PAST) * unit
        points = np.repeat(x[None], len(column), axis=0)
        move = np.where(step > 0.0, outward, change * (1.0 + PAST))
        points[np.arange(len(column)), column] += move
        return points[self.met(points, case)]

    def corrected(self, start: FloatArray, case: Cases) -> FloatArray:
        """A point near a start that meets quadratic conditions and rows, or comes nearer to it.

        Newton's method on what is missed, by the least change in units of the price; columns that
        the start leaves alone stay.
        """
        quadrics, affine, x = self.curvature.quadrics, self.program.affine, case.x[0]
        low, high = case.low[0], case.high[0]
        y = np.clip(start, low, high)
        change = np.abs(y - x) / self.unit
        free = (low < high) & (change > 1e-5 * change.max(initial=0.0))
        y = np.where(free, y, np.clip(x, low, high))
        least, most = (limit[0] for limit in affine.limits(case.margin))
        inwards = WITHIN * np.abs(quadrics.missed(case.x, case.margin)).max()
        for _ in range(CORRECTIONS):
            along = affine.matrix @ y
            over = quadrics.missed(y[None], case.margin)[0] + inwards
            over = np.concatenate([over, along - most, least - along])
            missed = over > 0.0
            if not missed.any():
                break
            slopes = np.vstack([quadrics.slopes(y[None])[0], affine.matrix, -affine.matrix])
            slopes = slopes[missed][:, free] * self.unit[free]
            y[free] -= np.linalg.pinv(slopes) @ over[missed] * self.unit[free]
            y = np.clip(y, low, high)
        return y


@final
class Descent:
    """One row's search; ``cutoff`` is a cost that is reached: a dearer point is of no use."""

    def __init__(self, shared: Descents, case: Cases, effort: Effort, cutoff: float) -> None:
        self.shared, self.program, self.case, self.effort = shared, shared.program, case, effort
        self.quadrics = shared.curvature.quadrics
        self.lower = LowerBound(shared, case, effort, cutoff)
        self.point: FloatArray | None = None
        self.cost = np.inf
        self._ends: list[tuple[FloatArray, float]] = []
        self._chosen = np.zeros(0, dtype=np.intp)
        self._last: Step | None = None
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    @property
    def outcome(self) -> Outcome:
        """What there is to say."""
        if self.case.empty[0] or self.lower.is_empty:
            return Outcome.INFEASIBLE
        if perf_counter() > self._end:
            return Outcome.LIMIT
        return Outcome.NOTHING if self.point is None else Outcome.FOUND

    def run(self) -> None:
        """Search from all starts, until the gap is closed, nothing can be gained, or time is up."""
        if self.case.empty[0]:
            return
        for start in self._starts():
            self.descend(start)
            if self._last is not None:
                self.lower.by_step(self._last)
            if self._is_over():
                return

    def _is_over(self) -> bool:
        return self.lower.closes(self.cost) or perf_counter() > self._end

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
        if found is not None:
            yield from found.spread
        yield from self.shared.prototypes
        alone = self.shared.alone(self.case)
        if len(alone):
            cost = self.program.cost(alone, np.repeat(self.case.x, len(alone), axis=0))
            self._keep(alone[cost.argmin()])

    def _keep(self, point: FloatArray) -> None:
        """Keep a point if it meets the program and is cheaper."""
        cost = self._price(point)
        if cost < self.cost and self.shared.met(point[None], self.case)[0]:
            self.point, self.cost = point, cost

    def _price(self, point: FloatArray) -> float:
        return float(self.program.cost(point[None], self.case.x)[0])

    def _missed(self, point: FloatArray) -> FloatArray:
        """(J,) by how much a point misses the quadratic conditions."""
        return np.asarray(self.quadrics.missed(point[None], self.case.margin)[0])

    def descend(self, start: FloatArray) -> None:
        """One descent; what it finds is kept if it is cheaper than what is known."""
        at = self._entered(start)
        if at is None:
            return
        price = self._price(at)
        self._keep(at)
        for _ in range(STEPS):
            step = self._step(at)
            if step is None:
                break
            reached = self._followed(at, step.point)
            if self._is_familiar(reached):
                return
            self._keep(reached)
            cost, before = self._price(reached), price
            if cost < price:
                at, price = reached, cost
            if cost >= before * (1.0 - STALLED) or perf_counter() > self._end:
                self._last = step
                break
        self._ends.append((at, price))
        if self.program.price.absolute.any():
            self._tidy(at)
        self._trim()

    def _entered(self, start: FloatArray) -> FloatArray | None:
        """A point near a start that meets the program, or None."""
        if not np.isfinite(start).all():
            return None
        at = self.shared.corrected(start, self.case)
        self._chosen = self._first(at)
        for penalty in PENALTIES:
            if self.shared.met(at[None], self.case)[0]:
                return at
            step = self._step(at, penalty)
            if step is None or perf_counter() > self._end:
                return None
            at = step.point
        return at if self.shared.met(at[None], self.case)[0] else None

    def _tidy(self, point: FloatArray) -> None:
        """What hardly moved stays, if that costs no more: interior points leave traces."""
        x = self.case.x[0]
        change = np.abs(point - x) / self.shared.unit
        still = (change <= TRACE * change.max(initial=0.0)) & (self.program.price.absolute > 0.0)
        if (point == x)[still].all() or not (self.cost >= self._price(point)):
            return
        case = self.case.within(np.where(still, x, -np.inf)[None], np.where(still, x, np.inf)[None])
        at = self.shared.corrected(np.where(still, x, point), case)
        step = convex_step(self.program, case, at, self._chosen, self._left())
        self.cost *= 1.0 + STALLED
        self._keep(at if step is None else self._followed(at, step.point))

    def _trim(self) -> None:
        """Back towards the row as far as conditions let the best point: steps stay within them."""
        if self.point is not None:
            home = np.clip(self.case.x[0], self.case.low[0], self.case.high[0])
            share = self._entry(home, self.point - home)
            for part in (share, share + 1e-3 * (1.0 - share)):
                self._keep(home + part * (self.point - home))

    def _first(self, start: FloatArray) -> IntArray:
        """The conditions to look at first: those that the start or the row itself meets least."""
        missed, at_x = self._missed(start), self._missed(self.case.x[0])
        if len(missed) <= FEW:
            return np.arange(len(missed))
        return np.union1d(np.argsort(-missed)[: FEW // 2], np.argsort(-at_x)[: FEW // 2])

    def _step(self, at: FloatArray, penalty: float | None = None) -> Step | None:
        """The next point; conditions that it misses are looked at from then on."""
        step, room = None, WITHIN * float(np.abs(self._missed(self.case.x[0])).max(initial=0.0))
        for _ in range(ADDED):
            chosen = self._chosen
            step = convex_step(self.program, self.case, at, chosen, self._left(), penalty)
            if step is None:
                break
            missed = np.setdiff1d(np.flatnonzero(self._missed(step.point) > room), chosen)
            if not len(missed):
                break
            self._chosen = np.union1d(chosen, missed)
        return step

    def _left(self) -> Effort:
        if np.isinf(self._end):
            return self.effort
        return replace(self.effort, seconds=max(self._end - perf_counter(), 1e-3))

    def _followed(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """The cheapest point on the way to a point and beyond that meets the program."""
        back = self._entry(end, start - end)
        end = start if np.isnan(back) else end + back * (start - end)
        tried = end + (np.append(LENGTHS, SHORTER) - 1.0)[:, None] * (end - start)
        met = self.shared.met(tried, self.case)
        if not met[1:].any():
            return end
        cost = self.program.cost(tried, np.repeat(self.case.x, len(tried), axis=0))
        cost[1:] = np.where(met[1:], cost[1:], np.inf)
        return np.asarray(tried[cost.argmin()])

    def _entry(self, point: FloatArray, move: FloatArray) -> float:
        """The largest t in [0, 1] from which on to 1 point + t · move meets quadratic conditions.

        NaN if it misses one of them at 1.
        """
        value, slope = self._missed(point), self.quadrics.slopes(point[None])[0] @ move
        square = np.einsum("jkl,k,l->j", self.quadrics.forms, move, move)
        if (square + slope + value > 0.0).any():
            return float("nan")
        with np.errstate(all="ignore"):
            root = np.sqrt(slope * slope - 4.0 * square * value)
            larger = -0.5 * (slope + np.where(slope >= 0.0, root, -root))
            roots = np.concatenate([larger / square, value / larger])
        return float(roots[(roots > 0.0) & (roots < 1.0)].max(initial=0.0))

    def _is_familiar(self, point: FloatArray) -> bool:
        """Whether a descent that ended nearby was there already, at a lower price."""
        price, unit = self._price(point), self.shared.unit
        size = (np.abs(point - self.case.x[0]) / unit).max()
        return any(
            price >= reached * (1.0 - 1e-7)
            and (np.abs(point - end) / unit).max() <= FAMILIAR * size
            for end, reached in self._ends
        )
