"""Descend to local optima of programs with quadratic conditions: the convex-concave procedure.

In each quadratic condition e(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 the distance to the rival is
replaced by its tangent at a point ``at`` (Artelt & Hammer, equations 38–42), which leaves

    ‖F (y − at)‖² + ∇e(at) · (y − at) + e(at)  <=  0.

That is convex, implies the condition, and is met by ``at`` if the condition is. So the optimum of
the program with these conditions, its *convex part* about ``at``, costs no more than ``at``; it is
the next point, and so on until nothing improves. A start that misses conditions is first moved by
Newton's method until it meets them, or else led to meet them by a penalty.
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

ACCURACY = 1e-9
"""The accuracy of a step, relative to the change. A smaller gain, relative to the cost, is none."""


@final
@dataclass(frozen=True, eq=False)
class Descents:
    """Descents of one program. Their steps ignore its integral conditions, the points meet them."""

    program: Program

    @cached_property
    def free(self) -> Descents:
        """Descents of the program without its integral conditions."""
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
        """(G, d) the prototypes that conditions ask to be near to: y with F y + f = 0."""
        firsts = [self.quadrics.conditions[j] for j in self.quadrics.first_of]
        return np.stack([-np.linalg.pinv(c.matrix) @ c.offset for c in firsts])

    def satisfied(self, points: FloatArray, case: Batch) -> BoolArray:
        """(k,): which points meet the program, but for rounding."""
        cases = case.take(np.zeros(len(points), dtype=np.intp))
        return curvature_of(self.program).meets(points, cases)

    def encoded_cost(self, point: FloatArray, case: Batch) -> float:
        """Return the cost of a point (d,)."""
        return float(self.program.encoded_cost(point[None], case.x)[0])

    def corrected(self, start: FloatArray, case: Batch) -> FloatArray:
        """Move a start (d,) until it meets bounds, rows and quadratic conditions, or nearly so.

        By Newton's method on all that is missed, with the least change in units of the cost.
        Columns in which the start hardly differs from the row stay with the row.
        """
        quadrics, affine = self.quadrics, self.program.affine
        x, low, high, unit = case.x[0], case.low[0], case.high[0], self.unit
        y = np.clip(start, low, high)
        change = np.abs(y - x) / unit
        free = (low < high) & (change > 1e-5 * change.max(initial=0.0))
        y = np.where(free, y, np.clip(x, low, high))
        row_low, row_high = (limit[0] for limit in affine.limits(case.margin))
        # A little inside, so that the rounding of the excesses does not undo it.
        inset = 1e-10 * np.abs(quadrics.excess(case.x, case.margin)).max(initial=0.0)
        for _ in range(15):
            values, excess = affine.matrix @ y, quadrics.excess(y[None], case.margin)[0] + inset
            excess = np.concatenate([excess, values - row_high, row_low - values])
            missed = excess > 0.0
            if not missed.any():
                break
            slopes = np.vstack([quadrics.slopes(y[None])[0], affine.matrix, -affine.matrix])
            slopes = slopes[missed][:, free] * unit[free]
            y[free] -= np.linalg.pinv(slopes) @ excess[missed] * unit[free]
            y = np.clip(y, low, high)
        return y

    def single_changes(self, case: Batch) -> FloatArray:
        """Return points (k, d) that meet the program and differ from the row in one number each.

        Along a column an excess is a quadratic function, and the least change that makes it 0 is
        one of its roots; columns in whole steps take the next whole step beyond a root.
        """
        program, x, quadrics = self.program, case.x[0], self.quadrics
        value, slope = quadrics.excess(case.x, case.margin)[0, :, None], quadrics.slopes(case.x)[0]
        # (2 J, d) the changes of each column that make the excess of each of the J conditions 0
        changes = roots(np.diagonal(quadrics.forms, axis1=1, axis2=2), slope, value)
        usable = np.isfinite(changes) & (changes != 0.0) & program.domain.numeric
        change, column = changes[usable], np.nonzero(usable)[1]
        # Rounding may leave a root on the wrong side, so points just beyond it are tried, too; and
        # a root just beyond a whole step may belong on it.
        rounding = 1e-9
        beyond = np.outer([1.0, 1.0 + 1e-3 * rounding, 1.0 + rounding], change)
        step = program.domain.steps[column]  # 0 for none
        unit = np.where(step > 0.0, step, 1.0)
        whole = np.sign(change) * np.ceil(np.abs(change) / unit - rounding) * unit
        move = np.where(step > 0.0, whole, beyond).ravel()
        points = x + move[:, None] * np.eye(len(x))[np.tile(column, 3)]
        return points[self.satisfied(points, case)]

    def descended(self, start: FloatArray, case: Batch, end: float) -> FloatArray | None:
        """Return the cheapest point (d,) of a descent that meets the program; None without one.

        The descent stops at ``end`` in the seconds of ``perf_counter``.
        """
        at = self._feasible_start(start, case, end)
        if at is None:
            return None
        best, best_cost = at, self.encoded_cost(at, case)
        for _ in range(40):
            optimum = self._step(at, case, end)
            if optimum is None:
                break
            point, previous_cost = self._shortened(at, optimum, case), best_cost
            cost = self.encoded_cost(point, case)
            if cost < best_cost:
                at, best_cost = point, cost
                best = at if self.satisfied(at[None], case)[0] else best
            if cost >= previous_cost * (1.0 - ACCURACY) or perf_counter() > end:
                break
        if self.program.encoded_cost.absolute.any():
            best = self._without_traces(best, case, end)
        # Steps stay a little within the conditions: back towards the row as far as these allow.
        home = np.clip(case.x[0], case.low[0], case.high[0])
        share = self._last_entry(home, best - home, case)
        shares = np.array([[share], [share + 1e-3 * (1.0 - share)]])
        points = home + shares * (best - home)
        points = np.vstack([best, points[self.satisfied(points, case)]])
        return np.asarray(points[self.program.encoded_cost(points, case.x).argmin()])

    def _feasible_start(self, start: FloatArray, case: Batch, end: float) -> FloatArray | None:
        """Return a point near a start that meets the program, by Newton's method or penalties."""
        if not np.isfinite(start).all():
            return None
        at = self.corrected(start, case)
        for _ in range(8):
            if self.satisfied(at[None], case)[0]:
                return at
            optimum = self._step(at, case, end, may_miss=True)
            if optimum is None or perf_counter() > end:
                return None
            at = optimum
        return at if self.satisfied(at[None], case)[0] else None

    def _step(
        self, at: FloatArray, case: Batch, end: float, *, may_miss: bool = False
    ) -> FloatArray | None:
        """Return the optimum (d,) of the convex part about a point; None if it is not found.

        Quadratic conditions may be missed at a penalty, or not at all.
        """
        if not (case.low[0] < case.high[0]).any():
            return None
        # Starts may be so far away that squares overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(self.quadrics.excess(at[None], case.margin)).all():
                return None
        with translated("Clarabel"), np.errstate(over="ignore", invalid="ignore"):
            program, convex_case, units = self._convex_part(at, case, may_miss=may_miss)
            effort = Effort().until(end)
            status, point, _ = Clarabel(program).run(convex_case, effort, units, tolerance=ACCURACY)
        if status not in Clarabel.SOLVED:
            return None
        # The program has the columns that can move, or have to, before its others; the rest stay.
        columns = (case.low[0] < case.high[0]) | (case.low[0] != case.x[0])
        y = np.array(case.x[0])
        y[columns] = point[: int(columns.sum())]
        return y

    def _without_traces(self, point: FloatArray, case: Batch, end: float) -> FloatArray:
        """Return the point (d,) without the tiny changes that an interior-point method leaves.

        Columns that hardly moved are held at the row, and another step is taken. The point stays as
        it is if that costs more, or misses the program.
        """
        x, absolute = case.x[0], self.program.encoded_cost.absolute
        change = np.abs(point - x) / self.unit
        traces = (change <= 1e-6 * change.max(initial=0.0)) & (absolute > 0.0)
        if (point == x)[traces].all():
            return point
        held = case.holding(traces[None], case.x)
        other = self.corrected(np.where(traces, x, point), held)
        optimum = self._step(other, held, end)
        other = other if optimum is None else self._shortened(other, optimum, held)
        dearer = self.encoded_cost(other, case) >= self.encoded_cost(point, case) * (1.0 + ACCURACY)
        return point if dearer or not self.satisfied(other[None], case)[0] else other

    def _shortened(self, start: FloatArray, end: FloatArray, case: Batch) -> FloatArray:
        """Return the end of a step, or the last point before it up to which conditions are met."""
        share = self._last_entry(end, start - end, case)
        return start if np.isnan(share) else end + share * (start - end)

    def _last_entry(self, point: FloatArray, move: FloatArray, case: Batch) -> float:
        """Return the least t in [0, 1] from which on to 1 quadratic conditions are met.

        They are asked of point + t · move; NaN if one of them is missed at 1. Along the line each
        excess is a quadratic function, so t is 0 or the largest of their roots below 1.
        """
        value = self.quadrics.excess(point[None], case.margin)[0]
        slope = self.quadrics.slopes(point[None])[0] @ move
        square = np.einsum("jkl,k,l->j", self.quadrics.forms, move, move)
        if (square + slope + value > 0.0).any():
            return float("nan")
        entries = roots(square, slope, value)
        return float(entries[(entries > 0.0) & (entries < 1.0)].max(initial=0.0))

    def _convex_part(
        self, at: FloatArray, case: Batch, *, may_miss: bool
    ) -> tuple[Program, Batch, tuple[float, float]]:
        """Return the convex part about a point as a program, the row in it, and units.

        The units are those of changes and of the cost. The program's columns are the k that can
        move, or have to; a square_g for each of the G prototypes; and, if conditions may be missed,
        how far. Conditions on one prototype share a cone, ‖F (y − at)‖² <= unit_g · square_g, and
        have a row each: unit_g · square_g + ∇e_j(at) · (y − at) + e_j(at) <= unit_j · missed.
        """
        x, low, high, unit = case.x[0], case.low[0], case.high[0], self.unit
        quadrics, affine, encoded_cost = (
            self.quadrics,
            self.program.affine,
            self.program.encoded_cost,
        )
        columns, count = (low < high) | (low != x), len(quadrics.first_of)
        k = int(columns.sum())
        width = k + count + may_miss

        def widened(matrix: FloatArray) -> FloatArray:
            """The columns that can move, of (…, d), and zeros for the others: (…, width)."""
            wide = np.zeros((*matrix.shape[:-1], width))
            wide[..., :k] = matrix[..., columns]
            return wide

        # Units in which all numbers are about 1; ``size`` is about that of the change.
        excess, slopes = quadrics.excess(at[None], case.margin)[0], quadrics.slopes(at[None])[0]
        steepest = np.abs(slopes * unit)[:, low < high].max(axis=1, initial=0.0)
        distance = np.abs(excess) / np.maximum(steepest, 1e-9 * np.abs(excess) + TINY)
        size = float((np.abs(at - x) / unit).max(initial=0.0))
        size = size if size > 0.0 else max(float(distance.max(initial=0.0)), 1e-9)
        cost_unit = size**2 if encoded_cost.quadratic.any() else size
        maps = quadrics.maps[:count]
        squares = ((maps * unit * (low < high)) ** 2).sum(axis=1)
        curvatures = np.maximum(squares.max(axis=1, initial=0.0), TINY)  # one for each prototype
        square_units = (size * curvatures)[quadrics.prototype_of]

        tangents = widened(slopes)
        tangents[np.arange(len(slopes)), k + quadrics.prototype_of] = square_units
        if may_miss:
            tangents[:, -1] = -np.maximum(steepest, square_units) * size
        matrix = np.vstack([tangents, widened(affine.matrix)])
        value = matrix @ np.append(at[columns], np.zeros(width - k))
        # The step stays within the rows by twice its accuracy.
        inset = 2.0 * ACCURACY * size * np.abs(affine.matrix * unit).max(axis=1, initial=0.0)
        inset[affine.low == affine.high] = 0.0
        below, above = (limit[0] - affine.matrix @ at for limit in affine.limits(case.margin))
        below = np.append(np.full(len(slopes), -np.inf), below + inset)
        above = np.append(-excess, above - inset)
        couplings: list[Coupling] = [LinearBounds(matrix, value + below, value + above)]
        for square, factor in enumerate(maps / np.sqrt(curvatures)[:, None, None], k):
            # ‖F (y − at)‖² <= size · square, as ‖(2 F (y − at), square − size)‖ <= square + size
            pick = np.eye(1, width, k=square)
            offset = np.append(-2.0 * factor[:, columns] @ at[columns], -size)
            couplings.append(Cone(np.vstack([2.0 * widened(factor), pick]), offset, size, pick[0]))

        absolute, quadratic = widened(encoded_cost.absolute), widened(encoded_cost.quadratic)
        if quadratic.ndim == 2:
            quadratic = widened(quadratic.T)
        if may_miss:
            absolute[-1] = 1e3 * cost_unit  # so dear that conditions are missed only if they must
        no_limit = np.where(np.arange(width) < k, 0.0, np.inf)
        bounds = widened(x)[None], widened(low)[None], (widened(high) + no_limit)[None]
        program = Program(EncodedCost(absolute, quadratic), Region(tuple(couplings)))
        return program, Batch(*bounds, np.zeros((1, 2))), (size, cost_unit)


def roots(square: FloatArray, slope: FloatArray, value: FloatArray) -> FloatArray:
    """Return both roots of square t² + slope t + value, one stack above the other; NaN for none."""
    with np.errstate(all="ignore"):
        root = np.sqrt(slope * slope - 4.0 * square * value)
        larger = -0.5 * (slope + np.where(slope >= 0.0, root, -root))
        return np.concatenate([larger / square, value / larger])
