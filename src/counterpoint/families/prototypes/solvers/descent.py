"""The convex-concave procedure: descents to local optima of programs with quadratic conditions.

Each quadratic condition e(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 is replaced by what one tangent
of its rival's distance leaves (Artelt & Hammer, equations 38–42). About the point ``at`` that is

    ‖F (y − at)‖² + ∇e(at) · (y − at) + e(at)  <=  0,

convex, within the condition, and met by ``at`` if that meets it. The optimum of this convex part is
a cheaper such point, and so on until nothing improves. A start that misses conditions is first
moved by Newton's method until it meets them, or else led to meet them by a penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import final

import numpy as np

from counterpoint.families.prototypes.quadratic_difference import Quadrics, curvature_of
from counterpoint.numerics import TINY, BoolArray, FloatArray
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import INTEGRAL, Cone, LinearBounds
from counterpoint.programs.program import Program, relaxed
from counterpoint.programs.region import Batch, Coupling, Region
from counterpoint.solvers.base import Effort, translated
from counterpoint.solvers.clarabel import Clarabel

STALLED = 1e-9
"""A relative gain in price that counts as none."""
PAST = 1e-9
"""How far beyond a root of an excess its other side is looked at, relative to the root."""
SAFE = 2e-9
"""How far within convex conditions a step stays, relative to the change: twice its tolerance."""
PENALTY = 1e3
"""What it costs to miss conditions, while a start misses them, relative to the price."""


@final
@dataclass(frozen=True, eq=False)
class Descents:
    """Descents of one program, whose integral conditions they do not look at."""

    program: Program

    @cached_property
    def free(self) -> Descents:
        """Those of the program without what is integral."""
        is_free = not self.program.condition_types & set(INTEGRAL)
        return self if is_free else Descents(relaxed(self.program, *INTEGRAL))

    @cached_property
    def quadrics(self) -> Quadrics:
        """The quadratic conditions."""
        return curvature_of(self.program).quadrics

    @cached_property
    def unit(self) -> FloatArray:
        """(d,) changes that cost about 1."""
        size = self.program.encoded_cost.absolute + np.sqrt(self.program.encoded_cost.diagonal)
        return np.asarray(1.0 / np.where(size > 0.0, size, 1.0))

    @cached_property
    def prototypes(self) -> FloatArray:
        """(G, d) the points to which the conditions ask to be near, one for each metric."""
        near = [self.quadrics.conditions[j] for j in self.quadrics.first_of]
        return np.stack([-np.linalg.pinv(c.matrix) @ c.offset for c in near])

    def satisfied(self, points: FloatArray, case: Batch) -> BoolArray:
        """(k,): which points meet the program, but for rounding."""
        cases = case.take(np.zeros(len(points), dtype=np.intp))
        return curvature_of(self.program).meets(points, cases)

    def encoded_cost(self, point: FloatArray, case: Batch) -> float:
        """What a point (d,) costs."""
        return float(self.program.encoded_cost(point[None], case.x)[0])

    def corrected(self, start: FloatArray, case: Batch) -> FloatArray:
        """A point near a start that meets quadratic conditions and rows, or comes nearer to it.

        Newton's method on what is missed, by the least change in units of the price; columns that
        the start leaves alone stay.
        """
        quadrics, affine = self.quadrics, self.program.affine
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

    def alone(self, case: Batch) -> FloatArray:
        """(k, d) for each column that is no category the least change of it alone that is enough.

        Along a line an excess is a quadratic, so its roots are the only candidates; whole columns
        take the next whole step.
        """
        program, x, quadrics = self.program, case.x[0], self.quadrics
        value, slope = quadrics.excess(case.x, case.margin)[0, :, None], quadrics.slopes(case.x)[0]
        moves = roots(np.diagonal(quadrics.forms, axis1=1, axis2=2), slope, value)
        used = np.isfinite(moves) & (moves != 0.0) & program.domain.numeric
        change, column = moves[used], np.nonzero(used)[1]
        step = program.domain.steps[column]
        unit = np.where(step > 0.0, step, 1.0)
        outward = np.sign(change) * np.ceil(np.abs(change) / unit - PAST) * unit
        beyond = np.outer([1.0, 1.0 + 1e-3 * PAST, 1.0 + PAST], change)  # in case of rounding
        move = np.where(step > 0.0, outward, beyond).ravel()
        points = x + move[:, None] * np.eye(len(x))[np.tile(column, 3)]
        return points[self.satisfied(points, case)]

    def descended(self, start: FloatArray, case: Batch, end: float) -> FloatArray | None:
        """(d,) the cheapest point of a descent from a start that meets the program, or None.

        It stops at ``end`` in the seconds of ``perf_counter``.
        """
        at = self._entered(start, case, end)
        if at is None:
            return None
        best, encoded_cost = at, self.encoded_cost(at, case)
        for _ in range(40):
            goal = self._step(at, case, end)
            if goal is None:
                break
            reached, before = self._within(at, goal, case), encoded_cost
            cost = self.encoded_cost(reached, case)
            if cost < encoded_cost:
                at, encoded_cost = reached, cost
                best = at if self.satisfied(at[None], case)[0] else best
            if cost >= before * (1.0 - STALLED) or perf_counter() > end:
                break
        if self.program.encoded_cost.absolute.any():
            best = self._tidied(best, case, end)
        # back towards the row as far as conditions let it: steps stay within them
        home = np.clip(case.x[0], case.low[0], case.high[0])
        share = self._entry(home, best - home, case)
        shares = np.array([[share], [share + 1e-3 * (1.0 - share)]])
        points = home + shares * (best - home)
        points = np.vstack([best, points[self.satisfied(points, case)]])
        return np.asarray(points[self.program.encoded_cost(points, case.x).argmin()])

    def _entered(self, start: FloatArray, case: Batch, end: float) -> FloatArray | None:
        """A point near a start that meets the program, or None."""
        if not np.isfinite(start).all():
            return None
        at = self.corrected(start, case)
        for _ in range(8):
            if self.satisfied(at[None], case)[0]:
                return at
            goal = self._step(at, case, end, PENALTY)
            if goal is None or perf_counter() > end:
                return None
            at = goal
        return at if self.satisfied(at[None], case)[0] else None

    def _step(
        self, at: FloatArray, case: Batch, end: float, penalty: float | None = None
    ) -> FloatArray | None:
        """(d,) the optimum of the convex part about a point; None if that fails.

        To miss quadratic conditions costs a ``penalty``, relative to the price, or is forbidden.
        """
        if not (case.low[0] < case.high[0]).any():
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(self.quadrics.excess(at[None], case.margin)).all():
                return None  # squares of numbers beyond 1e154
        with translated("Clarabel"), np.errstate(over="ignore", invalid="ignore"):
            program, convex_cases, sizes = self._convex_part(at, case, penalty)  # starts run away
            solver, effort = Clarabel(program), Effort().until(end)
            status, point, _ = solver.run(convex_cases, effort, sizes, tolerance=0.5 * SAFE)
        if status not in Clarabel.SOLVED:
            return None
        columns = (case.low[0] < case.high[0]) | (case.low[0] != case.x[0])
        y = np.array(case.x[0])
        y[columns] = point[: int(columns.sum())]
        return y

    def _tidied(self, point: FloatArray, case: Batch, end: float) -> FloatArray:
        """The same with what hardly moved held still, if that costs no more.

        Interior points leave traces.
        """
        x, encoded_cost = case.x[0], self.program.encoded_cost.absolute
        change = np.abs(point - x) / self.unit
        still = (change <= 1e-6 * change.max(initial=0.0)) & (encoded_cost > 0.0)
        if (point == x)[still].all():
            return point
        held = case.holding(still[None], case.x)
        tidy = self.corrected(np.where(still, x, point), held)
        goal = self._step(tidy, held, end)
        tidy = tidy if goal is None else self._within(tidy, goal, held)
        dear = self.encoded_cost(tidy, case) >= self.encoded_cost(point, case) * (1.0 + STALLED)
        return point if dear or not self.satisfied(tidy[None], case)[0] else tidy

    def _within(self, start: FloatArray, end: FloatArray, case: Batch) -> FloatArray:
        """The end of a step, or as near to it as quadratic conditions are met from there on."""
        share = self._entry(end, start - end, case)
        return start if np.isnan(share) else end + share * (start - end)

    def _entry(self, point: FloatArray, move: FloatArray, case: Batch) -> float:
        """The largest t in [0, 1] from which on to 1 point + t · move meets quadratic conditions.

        NaN if it misses one of them at 1.
        """
        value = self.quadrics.excess(point[None], case.margin)[0]
        slope = self.quadrics.slopes(point[None])[0] @ move
        square = np.einsum("jkl,k,l->j", self.quadrics.forms, move, move)
        if (square + slope + value > 0.0).any():
            return float("nan")
        ends = roots(square, slope, value)
        return float(ends[(ends > 0.0) & (ends < 1.0)].max(initial=0.0))

    def _convex_part(
        self, at: FloatArray, case: Batch, penalty: float | None
    ) -> tuple[Program, Batch, tuple[float, float]]:
        """One row's convex part as a program: the tangents' J rows come before the program's own.

        Its columns are those that can move, or have to; a square for each prototype, in units of
        the change; and, with a penalty, how far the conditions are missed. Conditions on one
        prototype share a cone, ‖F (y − at)‖² <= square, and have a row each: square + ∇e_j(at) ·
        (y − at) + e_j(at) <= missed.
        """
        x, low, high, unit = case.x[0], case.low[0], case.high[0], self.unit
        quadrics = self.quadrics
        affine = self.program.affine
        encoded_cost = self.program.encoded_cost
        columns, g = (low < high) | (low != x), len(quadrics.first_of)
        k, width = int(columns.sum()), int(columns.sum()) + g + (penalty is not None)
        excess, slopes = quadrics.excess(at[None], case.margin)[0], quadrics.slopes(at[None])[0]

        def over(matrix: FloatArray) -> FloatArray:
            wide = np.zeros((*matrix.shape[:-1], width))
            wide[..., :k] = matrix[..., columns]
            return wide

        steep = np.abs(slopes * unit)[:, low < high].max(axis=1, initial=0.0)
        short = np.abs(excess) / np.maximum(steep, 1e-9 * np.abs(excess) + TINY)
        size = float((np.abs(at - x) / unit).max(initial=0.0))  # about how large the change is
        size = size if size > 0.0 else max(float(short.max(initial=0.0)), 1e-9)
        maps = quadrics.maps[:g]
        spread = (maps * unit * (low < high)) ** 2
        widths = np.maximum(spread.sum(axis=1).max(axis=1, initial=0.0), TINY)
        tangents = over(slopes)
        tangents[np.arange(len(slopes)), k + quadrics.prototype_of] = (size * widths)[
            quadrics.prototype_of
        ]
        if penalty is not None:
            tangents[:, -1] = -np.maximum(steep, (size * widths)[quadrics.prototype_of]) * size
        rows = np.vstack([tangents, over(affine.matrix)])
        start = np.append(at[columns], np.zeros(width - k))
        inwards = SAFE * size * np.abs(affine.matrix * unit).max(axis=1, initial=0.0)
        inwards[affine.low == affine.high] = 0.0
        least, most = (limit[0] - affine.matrix @ at for limit in affine.limits(case.margin))
        above = np.append(-excess, most - inwards)
        below = np.append(np.full(len(slopes), -np.inf), least + inwards)
        couplings: list[Coupling] = [LinearBounds(rows, rows @ start + below, rows @ start + above)]
        for square, matrix in enumerate(maps / np.sqrt(widths)[:, None, None], k):
            # ‖F (y − at)‖² <= size · square, as ‖(2 F (y − at), square − size)‖ <= square + size
            alone = np.eye(1, width, k=square)
            offset = np.append(-2.0 * matrix[:, columns] @ at[columns], -size)
            couplings.append(Cone(np.vstack([2.0 * over(matrix), alone]), offset, size, alone[0]))
        cost_cutoff = size**2 if encoded_cost.quadratic.any() else size
        absolute, quadratic = over(encoded_cost.absolute), over(encoded_cost.quadratic)
        if quadratic.ndim == 2:
            quadratic = over(quadratic.T)
        if penalty is not None:
            absolute[-1] = penalty * cost_cutoff
        open_ = np.where(np.arange(width) < k, 0.0, np.inf)
        bounds = over(x)[None], over(low)[None], (over(high) + open_)[None]
        cases = Batch(*bounds, np.zeros((1, 2)))
        return (
            Program(EncodedCost(absolute, quadratic), Region(tuple(couplings))),
            cases,
            (size, cost_cutoff),
        )


def roots(square: FloatArray, slope: FloatArray, value: FloatArray) -> FloatArray:
    """Both roots of square t² + slope t + value, one stack above the other; NaN for none."""
    with np.errstate(all="ignore"):
        root = np.sqrt(slope * slope - 4.0 * square * value)
        larger = -0.5 * (slope + np.where(slope >= 0.0, root, -root))
        return np.concatenate([larger / square, value / larger])
