"""The convex-concave procedure from several starts, and what bounds its answers.

Each quadratic condition e(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 is replaced by what one tangent
of its rival's distance leaves (Artelt & Hammer, equations 38–42). About the point ``at`` that is

    ‖F (y − at)‖² + ∇e(at) · (y − at) + e(at)  <=  0,

convex, within the condition, and met by ``at`` if that meets it. The optimum of this convex part is
a cheaper such point, and so on until nothing improves. A start that misses conditions is first
moved by Newton's method until it meets them, or else led to meet them by a penalty. Where a bound
closes the gap, the search ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import NamedTuple, final

import numpy as np

from counterpoint.costs import Price
from counterpoint.engine.couplings import Cone, LinearBounds
from counterpoint.engine.domains import INTEGRAL
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases, Coupling, Region
from counterpoint.numerics import TINY, BoolArray, FloatArray
from counterpoint.prototypes.nearer import curvature_of, quadrics_of
from counterpoint.prototypes.solvers.lower_bound import (
    RELAXED,
    Quadric,
    relaxed,
)
from counterpoint.solvers.base import Effort, Outcome, translated
from counterpoint.solvers.clarabel import SOLVED, Clarabel

__all__ = ["STALLED", "Descents", "LocalSearch", "RowDescent"]

STALLED = 1e-9
"""A relative gain in price that counts as none."""
FURTHER = np.array([0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 11.0, 15.0, 23.0, 31.0, -1e-8, -1e-6, -1e-4])
"""How far beyond the end of a step to look, in lengths of the step; or before it, in case that its
end is not quite within convex conditions."""
PAST = 1e-9
"""How far beyond a root of an excess its other side is looked at, relative to the root."""
SAFE = 2e-9
"""How far within convex conditions a step stays, relative to the change: twice its tolerance."""
PENALTIES = (10.0, 100.0, 1e3, *(1e4,) * 5)
"""What it costs to miss conditions, while a start misses them, relative to the price."""


@final
class Step(NamedTuple):
    """The optimum of a convex part, and the multipliers of its quadratic conditions and rows."""

    point: FloatArray  # (d,) within the bounds
    weights: FloatArray  # (J,)
    rows: FloatArray  # (program.affine.size,)


@final
@dataclass(frozen=True, eq=False)
class Descents:
    """What the descents of one program share; its integral conditions are not looked at."""

    program: Program

    @cached_property
    def free(self) -> Descents:
        """Those of the program without what is integral."""
        return Descents(self.program.relaxed(*INTEGRAL))

    @cached_property
    def unit(self) -> FloatArray:
        """(d,) changes that cost about 1."""
        size = self.program.price.absolute + np.sqrt(self.program.price.diagonal)
        return np.asarray(1.0 / np.where(size > 0.0, size, 1.0))

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
        x, low, high, unit = case.x[0], case.low[0], case.high[0], self.unit
        y = np.clip(start, low, high)
        change = np.abs(y - x) / unit
        free = (low < high) & (change > 1e-5 * change.max(initial=0.0))
        y = np.where(free, y, np.clip(x, low, high))
        least, most = (limit[0] for limit in affine.limits(case.margin))
        # the least that rounding of what the row misses does not undo
        inwards = 1e-10 * np.abs(quadrics.excess(case.x, case.margin)).max(initial=0.0)
        for _ in range(15):
            along, over = affine.matrix @ y, quadrics.excess(y[None], case.margin)[0] + inwards
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
        value, slope = quadrics.excess(case.x, case.margin)[0, :, None], quadrics.slopes(case.x)[0]
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
    """One row's search: the cheapest point so far, and the best bound with its multipliers.

    ``cutoff`` is a cost that is reached: a dearer point is of no use.
    """

    def __init__(self, shared: Descents, case: Cases, effort: Effort, cutoff: float) -> None:
        self.shared, self.program, self.case, self.effort = shared, shared.program, case, effort
        self.cutoff, self.cost, self.bound, self.is_empty = cutoff, np.inf, 0.0, False
        self.point: FloatArray | None = None
        self.multipliers = np.zeros(self.program.size)
        self.relaxed: FloatArray | None = None
        """The multipliers of the relaxation."""
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    @abstractmethod
    def run(self) -> None:
        """Search, until the gap is closed, nothing can be gained, or time is up."""

    @property
    def outcome(self) -> Outcome:
        """What there is to say."""
        if self.case.empty[0] or self.is_empty:
            return Outcome.INFEASIBLE
        if self._is_late:
            return Outcome.LIMIT
        return Outcome.NOTHING if self.point is None else Outcome.FOUND

    @property
    def _is_late(self) -> bool:
        return perf_counter() > self._end

    def _closes(self, cost: float) -> bool:
        """Whether nothing can be gained on a cost, or on what is already reached."""
        gap = self.effort.gap
        closed = cost < np.inf and self.bound >= cost * (1.0 - gap)
        return bool(closed or self.bound >= self.cutoff * (1.0 - 0.1 * gap) or self.is_empty)

    def _is_over(self) -> bool:
        return self._closes(self.cost) or self._is_late

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

    def _nearest(self) -> FloatArray:
        """(d,) the nearest point that meets the condition which asks for most; NaN without one.

        Its bound is known: `Quadric` came before.
        """
        (point,), (weights,), (empty,) = self.shared.quadric.nearest(self.case)
        if empty:
            self._learn(self._placed(weights), empty=True)
        return np.asarray(point)

    def _relax(self, nearest: FloatArray) -> FloatArray | None:
        """(d,) where the semidefinite relaxation has its optimum, and its bound.

        None if there are too many columns, or it is not solved. ``nearest`` (d,) is about as far
        away as the answer; NaN if there is no such point.
        """
        if (self.case.low < self.case.high).sum() > RELAXED[self.effort.optimality]:
            return None
        price = (self._price(nearest) if np.isfinite(nearest).all() else 0.0) or 1.0
        size = price if curvature_of(self.program).is_absolute else np.sqrt(price)
        found = relaxed(self.program, self.case, size, self.effort)
        if found is None:
            return None
        multipliers, point = found
        empty = bool(np.isnan(point).any())
        self._learn(multipliers, empty=empty)
        self.relaxed = None if empty else multipliers
        return None if empty else point

    def _learn_step(self, step: Step) -> None:
        """The bound by the multipliers of a last step, if they may close the gap to its point."""
        program, curvature, cost = self.program, curvature_of(self.program), self._price(step.point)
        # a relative gap of the relaxation from which on no other multipliers close it
        if self._closes(cost) or (self.relaxed is not None and cost - self.bound > 1e-4 * cost):
            return
        multipliers, at = self._placed(step.weights, step.rows), program.convex_size
        if curvature.is_absolute:  # in units of its square, see `Curvature`
            multipliers *= 2.0 * cost
            slope = curvature.quadrics.slope(step.point[None], step.weights[None])[0]
            pull = -(slope + step.rows @ program.affine.matrix)
            s = np.clip(pull / program.price.absolute, -1.0, 1.0)
            first, second = curvature.pairs
            multipliers[program.size - len(first) :] = s[first] * s[second]
        if self.relaxed is not None:
            rest = at + len(step.weights)
            multipliers[rest:] = self.relaxed[rest:]
        self._learn(multipliers, step.point)

    def _placed(self, weights: FloatArray, rows: FloatArray | tuple[()] = ()) -> FloatArray:
        """(size,) multipliers of quadratic conditions, and of linear rows."""
        out = np.zeros(self.program.size)
        out[: len(rows)] = rows
        out[self.program.convex_size :][: len(weights)] = weights
        return out

    def _learn(
        self, multipliers: FloatArray, at: FloatArray | None = None, *, empty: bool = False
    ) -> None:
        """Keep multipliers that bound better, or prove that there is no point, if it is said so."""
        about = None if at is None else at[None]
        bound = float(self.program.bound(self.case, multipliers[None], about)[0])
        if bound > self.bound:
            self.bound, self.multipliers = bound, multipliers
        if empty and self.program.refutes(self.case, multipliers[None])[0]:
            self.multipliers, self.is_empty = multipliers, True

    def _price(self, point: FloatArray) -> float:
        return float(self.program.cost(point[None], self.case.x)[0])


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
            self._last = None
            self.descend(start)
            if self._last is not None:
                self._learn_step(self._last)
            if self._is_over():
                return

    def _starts(self) -> Iterator[FloatArray]:
        """Points to start from, the most promising first; bounds on the way."""
        nearest = self._nearest()
        if self._is_over():
            return
        found = self._relax(nearest)
        if self._is_over():
            return
        yield nearest if found is None else found
        if self.cost > 1.3 * self.cutoff:  # other starts hardly ever gain so much
            return
        yield from self.shared.prototypes
        if self._keep(self.shared.alone(self.case)):
            self._trim()

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
        """The optimum of the convex part about a point; None if that fails.

        To miss quadratic conditions costs a ``penalty``, relative to the price, or is forbidden.
        """
        if not (self.case.low[0] < self.case.high[0]).any():
            return None
        case, unit = self.case, self.shared.unit
        with (
            translated("Clarabel"),
            np.errstate(over="ignore", invalid="ignore"),
        ):  # starts run away
            program, part, sizes = convex_part(self.program, case, at, unit, penalty)
            status, point, duals = Clarabel(program).run(
                part, self.effort.until(self._end), sizes, tolerance=0.5 * SAFE
            )
        if status not in SOLVED:
            return None
        kept = (case.low[0] < case.high[0]) | (case.low[0] != case.x[0])
        y, count = np.array(case.x[0]), len(self.quadrics)
        y[kept] = point[: int(kept.sum())]
        return Step(y, duals[:count], duals[count : count + self.program.affine.size])

    def _tidy(self, point: FloatArray) -> None:
        """What hardly moved stays, if that costs no more: interior points leave traces."""
        x, plain = self.case.x[0], self.case
        change = np.abs(point - x) / self.shared.unit
        still = (change <= 1e-6 * change.max(initial=0.0)) & (self.program.price.absolute > 0.0)
        if (point == x)[still].all() or not (self.cost >= self._price(point)):
            return
        self.case = plain.holding(still[None], plain.x)
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
        value = self.quadrics.excess(point[None], self.case.margin)[0]
        slope = self.quadrics.slopes(point[None])[0] @ move
        square = np.einsum("jkl,k,l->j", self.quadrics.forms, move, move)
        if (square + slope + value > 0.0).any():
            return float("nan")
        ends = roots(square, slope, value)
        return float(ends[(ends > 0.0) & (ends < 1.0)].max(initial=0.0))


def convex_part(
    program: Program, case: Cases, at: FloatArray, unit: FloatArray, penalty: float | None
) -> tuple[Program, Cases, tuple[float, float]]:
    """One row's convex part as a program: the tangents' J rows come before the program's own.

    Its columns are those that can move, or have to; a square for each prototype, in units of the
    change; and, with a penalty, how far the conditions are missed. Conditions on one prototype
    share a cone, ‖F (y − at)‖² <= square, and have a row each: square + ∇e_j(at) · (y − at) +
    e_j(at) <= missed.
    """
    x, low, high = case.x[0], case.low[0], case.high[0]
    quadrics, affine, price = quadrics_of(program), program.affine, program.price
    kept, g = (low < high) | (low != x), len(quadrics.nearest)
    k, width = int(kept.sum()), int(kept.sum()) + g + (penalty is not None)
    excess, slopes = quadrics.excess(at[None], case.margin)[0], quadrics.slopes(at[None])[0]

    def over(matrix: FloatArray) -> FloatArray:
        wide = np.zeros((*matrix.shape[:-1], width))
        wide[..., :k] = matrix[..., kept]
        return wide

    steep = np.abs(slopes * unit)[:, low < high].max(axis=1, initial=0.0)
    short = np.abs(excess) / np.maximum(steep, 1e-9 * np.abs(excess) + TINY)
    size = float((np.abs(at - x) / unit).max(initial=0.0))  # about how large the change is
    size = size if size > 0.0 else max(float(short.max(initial=0.0)), 1e-9)
    maps = quadrics.maps[:g]
    spread = (maps * unit * (low < high)) ** 2
    widths = np.maximum(spread.sum(axis=1).max(axis=1, initial=0.0), TINY)
    tangents = over(slopes)
    tangents[np.arange(len(slopes)), k + quadrics.near_of] = (size * widths)[quadrics.near_of]
    if penalty is not None:
        tangents[:, -1] = -np.maximum(steep, (size * widths)[quadrics.near_of]) * size
    rows, here = (
        np.vstack([tangents, over(affine.matrix)]),
        np.append(at[kept], np.zeros(width - k)),
    )
    inwards = SAFE * size * np.abs(affine.matrix * unit).max(axis=1, initial=0.0)
    inwards[affine.low == affine.high] = 0.0
    least, most = (limit[0] - affine.matrix @ at for limit in affine.limits(case.margin))
    above = np.append(-excess, most - inwards)
    below = np.append(np.full(len(slopes), -np.inf), least + inwards)
    couplings: list[Coupling] = [LinearBounds(rows, rows @ here + below, rows @ here + above)]
    for square, matrix in enumerate(maps / np.sqrt(widths)[:, None, None], k):
        # ‖F (y − at)‖² <= size · square, as ‖(2 F (y − at), square − size)‖ <= square + size
        alone = np.eye(1, width, k=square)
        offset = np.append(-2.0 * matrix[:, kept] @ at[kept], -size)
        couplings.append(Cone(np.vstack([2.0 * over(matrix), alone]), offset, size, alone[0]))
    for cone in program.curved:
        if isinstance(cone, Cone):
            stays = np.where(kept, 0.0, x)
            radius = cone.radius + cone.slope @ stays - float(cone.closed_in(case.margin)[0])
            radius -= SAFE * size * np.abs(np.vstack([cone.slope, cone.matrix]) * unit).max()
            offset = cone.offset + cone.matrix @ stays
            couplings.append(Cone(over(cone.matrix), offset, float(radius), over(cone.slope)))
    worth = size**2 if price.quadratic.any() else size
    absolute, quadratic = over(price.absolute), over(price.quadratic)
    if quadratic.ndim == 2:
        quadratic = over(quadratic.T)
    if penalty is not None:
        absolute[-1] = penalty * worth
    open_ = np.where(np.arange(width) < k, 0.0, np.inf)
    bounds = over(x)[None], over(low)[None], (over(high) + open_)[None]
    part = Cases(*bounds, np.zeros((1, 2)))
    return Program(Price(absolute, quadratic), Region(tuple(couplings))), part, (size, worth)
