"""The condition that a sum of functions of single columns lies between bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from counterpoint.additive.curves import Curve
from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.region import NonConvex, NonConvexDuality
from counterpoint.numerics import FloatArray

if TYPE_CHECKING:
    from counterpoint.engine.program import Program

__all__ = ["SumBounds", "lifted"]


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
        return None
