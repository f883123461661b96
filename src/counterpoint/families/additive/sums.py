"""The condition that a sum of functions of single columns lies between bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.families.additive.curves import Curve, MergedCurves
from counterpoint.numerics import TINY, BoolArray, FloatArray, Sizes, dots, gamma
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.duality import NonConvexDuality
from counterpoint.programs.program import NonConvex, Program
from counterpoint.programs.region import Batch, Cut, Region
from counterpoint.programs.separable import Diagonal


def lifted(curves: tuple[tuple[int, Curve], ...], y: FloatArray) -> FloatArray:
    """Return points (n, d) with the outputs of all curves after their columns, (n, d + outputs)."""
    return np.hstack([y, *(curve(y[:, j]) for j, curve in curves)])


@final
@dataclass(frozen=True, eq=False)
class SumBounds(NonConvex):
    """low <= A (y, φ(y)) <= high, row by row, with φ the functions of single columns."""

    rows: LinearBounds  # over the d columns, and then the outputs of the curves
    curves: tuple[tuple[int, Curve], ...]  # (column, curve)

    def excess(self, y: FloatArray) -> FloatArray:
        value = lifted(self.curves, y) @ self.rows.matrix.T
        return np.asarray(np.maximum(value - self.rows.high, self.rows.low - value).max(axis=1))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return self.rows.violation(lifted(self.curves, y), lifted(self.curves, x))

    def tightened(self, margin: FloatArray) -> SumBounds:
        """The same with its bounds closed in by a (1, 2) margin."""
        return replace(self, rows=self.rows.tightened(margin))

    def duality(self, program: Program) -> NonConvexDuality | None:
        return SumDuality.of(program)


@final
@dataclass(frozen=True, eq=False)
class SumDuality(NonConvexDuality):
    """Lower bounds from multipliers of all rows of `SumBounds` in a program.

    Multipliers are signed as those of `LinearBounds`. Given them, the Lagrangian, which is the cost
    plus the weighed rows, is a sum over columns, and each column's minimum is known: of one with
    curves by `MergedCurves.least`, of any other by the program's domain.
    """

    program: Program
    rows: LinearBounds  # over the columns, and then the outputs of all curves
    merged: MergedCurves  # of those rows

    @classmethod
    def of(cls, program: Program) -> SumDuality | None:
        """Return the duality of a program; None if the cost of a column depends on the others."""
        if program.encoded_cost.quadratic.ndim == 2:
            return None
        first, *others = (c for c in program.region if isinstance(c, SumBounds))
        rows = first.rows
        for other in others:  # they are of one form and have the same curves
            rows = rows.stacked(other.rows)
        levels = program.encoded_cost.levels
        return cls(program, rows, MergedCurves.of(rows.matrix, first.curves, levels))

    @property
    def size(self) -> int:
        return self.rows.size

    @cached_property
    def tabulated(self) -> BoolArray:
        """(k,) which columns with curves are in no linear row, and have constant pieces alone."""
        columns = self.merged.columns
        return np.asarray(self.merged.flat & ~self.program.affine.matrix[:, columns].any(axis=0))

    @cached_property
    def linear(self) -> FloatArray:
        """(m, d) the rows' matrix over columns without curves, 0 in those with curves."""
        matrix = np.array(self.rows.matrix[:, : self.program.width])
        matrix[:, self.merged.columns] = 0.0
        return matrix

    @property
    def columns(self) -> BoolArray:
        moved = np.array(self.linear.any(axis=0), dtype=bool)
        moved[self.merged.columns] = self.merged.coefficients.any(axis=(1, 2, 3))
        return moved

    def tightened(self, margin: FloatArray) -> Region:
        conditions = (c for c in self.program.region if isinstance(c, SumBounds))
        return Region(tuple(c.tightened(margin) for c in conditions))

    def bound(
        self, cases: Batch, multipliers: FloatArray, cut: Cut, at: FloatArray | None
    ) -> FloatArray:
        value, rounding, _ = self._least(cases, multipliers, cut, with_cost=True)
        return np.maximum(np.where(np.isnan(value), 0.0, value - rounding), 0.0)

    def refutes(self, cases: Batch, multipliers: FloatArray, cut: Cut) -> BoolArray:
        value, rounding, size = self._least(cases, multipliers, cut, with_cost=False)
        with np.errstate(invalid="ignore"):
            # a row that is refuted gets no answer, so a share of the terms is granted beside
            return np.asarray(value > rounding + 1e-12 * size)

    def _least(
        self, cases: Batch, multipliers: FloatArray, cut: Cut, *, with_cost: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the least value of the Lagrangian (n,), its rounding error, and its terms' size.

        The Lagrangian is cost + normal · y + weighed curves − offset. Its convex part is the
        ``cut``. Without the cost, a least value above 0 shows that no point meets all conditions.
        """
        program, zero = self.program, np.zeros(self.program.width)
        cost = program.duality.diagonal if with_cost else Diagonal(zero, zero)
        weights, offsets = self.rows.cut_weights(multipliers)
        normal = cut.normal + weights @ self.linear
        terms = cut.weights @ cut.normals + np.abs(weights) @ np.abs(self.linear)
        sizes = Sizes(terms, None, cut.roundings + self.rows.size + 2)
        offset, offset_error = cut.offset + offsets.sum(axis=1), cut.offset_error
        # Columns without ends and without curvature must not gain more than they cost. Smaller
        # multipliers are multipliers, too.
        factor = program.duality.shrink_factors(normal, sizes, cases) if with_cost else None
        if factor is not None:
            normal = normal * factor[:, None]
            weights = weights * factor[:, None]
            sizes = sizes.scaled(factor)
            offset, offset_error = offset * factor, offset_error * factor
            offsets = offsets * factor[:, None]

        x, columns, merged = cases.x, self.merged.columns, self.merged
        factual, factual_size = merged.weighted_at(x, weights)
        slope = np.array(normal)  # of the columns without curves
        slope[:, columns] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            # All minima are of changes from x: the factual values are added in the end.
            costs, steps = (cost.absolute, cost.curvature), program.domain.steps
            change = merged.least(cases, weights, normal, costs, steps)[0] - factual
            curve_error = 2.0 * factual_size + np.abs(change)
            curve_error = gamma(merged.roundings) * curve_error.sum(axis=1)
            sizes = Sizes(np.where(slope == 0.0, 0.0, sizes.each), None, sizes.count)
            total, rounding = program.domain.lower(cost, slope, cases, sizes, (columns, change.T))
            size = dots(terms, np.abs(x)) + np.abs(offsets).sum(axis=1) + np.abs(cut.offset)
            size = size + np.abs(np.where(np.isfinite(total), total, 0.0))
            size = size + factual_size.sum(axis=1)
            value = total + dots(normal, x) + factual.sum(axis=1) - offset
            rounding = rounding + curve_error + offset_error
            rounding = rounding + sizes.rounding(len(zero), 12) * size
        return value, rounding + TINY, size
