"""The condition that a sum of functions of single columns lies between bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.families.additive.curves import Bends, Curve
from counterpoint.numerics import TINY, BoolArray, FloatArray, Sizes, dots, gamma
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.duality import NonConvexDuality
from counterpoint.programs.program import NonConvex, Program
from counterpoint.programs.region import Batch, Cut, Region
from counterpoint.programs.separable import Diagonal


def lifted(curves: tuple[tuple[int, Curve], ...], y: FloatArray) -> FloatArray:
    """(n, d) points → (n, d + outputs), with what the curves make of them."""
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
    """What multipliers of all such rows prove of a program: its Lagrangian, column by column.

    Multipliers are signed as those of `LinearBounds`. Given them, the price and the weighed rows
    are a sum over columns; each is least where `Bends.least` finds it.
    """

    program: Program
    rows: LinearBounds  # over the columns, and then the outputs of all curves
    bends: Bends

    @classmethod
    def of(cls, program: Program) -> SumDuality | None:
        """None if the price of a column depends on the others."""
        conditions = [c for c in program.region if isinstance(c, SumBounds)]
        curves = conditions[0].curves  # of one form
        if program.encoded_cost.quadratic.ndim == 2:
            return None
        rows = conditions[0].rows
        for other in conditions[1:]:
            rows = rows.stacked(other.rows)
        return cls(program, rows, Bends.of(rows.matrix, curves, program.encoded_cost.levels))

    @property
    def size(self) -> int:
        return self.rows.size

    @cached_property
    def tabulated(self) -> BoolArray:
        """(k,) which columns with curves add constants alone, piece by piece."""
        columns = self.bends.columns
        return np.asarray(self.bends.flat & ~self.program.affine.matrix[:, columns].any(axis=0))

    @cached_property
    def linear(self) -> FloatArray:
        """(m, d) what the rows are over columns without curves."""
        matrix = np.array(self.rows.matrix[:, : self.program.width])
        matrix[:, self.bends.columns] = 0.0
        return matrix

    @property
    def columns(self) -> BoolArray:
        moved = np.array(self.linear.any(axis=0), dtype=bool)
        moved[self.bends.columns] = self.bends.coefficients.any(axis=(1, 2, 3))
        return moved

    def tightened(self, margin: FloatArray) -> Region:
        conditions = (c for c in self.program.region if isinstance(c, SumBounds))
        return Region(tuple(c.tightened(margin) for c in conditions))

    def bound(
        self, cases: Batch, multipliers: FloatArray, cut: Cut, at: FloatArray | None
    ) -> FloatArray:
        value, rounding, _ = self._value(cases, multipliers, cut, priced=True)
        return np.maximum(np.where(np.isnan(value), 0.0, value - rounding), 0.0)

    def refutes(self, cases: Batch, multipliers: FloatArray, cut: Cut) -> BoolArray:
        value, rounding, size = self._value(cases, multipliers, cut, priced=False)
        with np.errstate(invalid="ignore"):
            return np.asarray(value > rounding + 1e-12 * size)

    def _value(
        self, cases: Batch, multipliers: FloatArray, cut: Cut, *, priced: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(n,) the Lagrangian, by how much it may be too high, and the size of its terms."""
        program, zero = self.program, np.zeros(self.program.width)
        diagonal = program.duality.diagonal if priced else Diagonal(zero, zero)
        weights, offsets = self.rows.cut_weights(multipliers)
        normal = cut.normal + weights @ self.linear
        terms = cut.weights @ cut.normals + np.abs(weights) @ np.abs(self.linear)
        sizes = Sizes(terms, None, cut.roundings + self.rows.size + 2)
        offset, doubt = cut.offset + offsets.sum(axis=1), cut.doubt
        factor = program.duality.shrinking(normal, sizes, cases) if priced else None
        if factor is not None:
            normal = normal * factor[:, None]
            weights = weights * factor[:, None]
            sizes = sizes.scaled(factor)
            offset, doubt, offsets = offset * factor, doubt * factor, offsets * factor[:, None]
        x, columns = cases.x, self.bends.columns
        encoded_cost = (diagonal.absolute, diagonal.curvature)
        slope = np.array(normal)
        slope[:, columns] = 0.0
        staying, tall = self.bends.here(x, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            least = (
                self.bends.least(cases, weights, normal, encoded_cost, program.domain.steps)[0]
                - staying
            )
            piece_rounding = gamma(self.bends.roundings) * (2.0 * tall + np.abs(least)).sum(axis=1)
            sizes = Sizes(np.where(slope == 0.0, 0.0, sizes.each), None, sizes.count)
            total, rounding = program.domain.lower(
                diagonal, slope, cases, sizes, (columns, least.T)
            )
            size = dots(terms, np.abs(x)) + np.abs(offsets).sum(axis=1) + np.abs(cut.offset)
            size = size + np.abs(np.where(np.isfinite(total), total, 0.0)) + tall.sum(axis=1)
            value = total + dots(normal, x) + staying.sum(axis=1) - offset
            rounding = rounding + piece_rounding + doubt + sizes.rounding(len(zero), 12) * size
        return value, rounding + TINY, size
