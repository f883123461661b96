"""The standard form of programs, which each backend translates.

    minimise    Σ_j absolute_j |v_j| + ½ vᵀ hessian v
    subject to  low <= v <= high  and  row_low <= matrix v <= row_high

v is the change of each column, (y − x) / unit. Each row is divided by its size. Bounds differ from
row to row of a batch, everything else is the program's. Nothing is integral; cones are known to
Clarabel alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from counterpoint.numerics import FloatArray
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch


@final
class BatchBounds(NamedTuple):
    """What differs between the rows of a batch: (n, d) and (n, rows) bounds."""

    low: FloatArray
    high: FloatArray
    row_low: FloatArray
    row_high: FloatArray

    def shortfall(self, *, columns: bool = False) -> FloatArray:
        """(n,) about the size of the answer: what the worst row is missed by if nothing changes.

        Or the worst column.
        """
        short = np.maximum(self.row_low, -self.row_high).max(axis=1, initial=0.0)
        if columns:
            short = np.maximum(short, np.maximum(self.low, -self.high).max(axis=1, initial=0.0))
        return np.where((short > 0.0) & np.isfinite(short), short, 1.0)


@final
@dataclass(frozen=True, eq=False)
class StandardForm:
    """A program in the standard form."""

    program: Program
    unit: FloatArray  # (d,) the units of changes, in feature units
    norm: float = np.inf  # the order of the norm by which rows are divided

    @cached_property
    def absolute(self) -> FloatArray:
        """(d,) the cost of |v|."""
        return np.asarray(self.program.encoded_cost.absolute * self.unit)

    @cached_property
    def hessian(self) -> FloatArray:
        """(d,), or (d, d) for a full matrix."""
        quadratic = 2.0 * self.program.encoded_cost.quadratic
        return quadratic * (self.unit**2 if quadratic.ndim == 1 else np.outer(self.unit, self.unit))

    @cached_property
    def size(self) -> FloatArray:
        """(rows,) what each row is divided by."""
        if not self.program.width:
            return np.ones(self.program.affine.size)
        size = np.linalg.norm(self.program.affine.matrix * self.unit, self.norm, axis=1)
        return np.where(size > 0.0, size, 1.0)

    @cached_property
    def matrix(self) -> FloatArray:
        """(rows, d)."""
        return np.asarray(self.program.affine.matrix / self.size[:, None] * self.unit)

    def limits(self, cases: Batch, length: float = 1.0) -> BatchBounds:
        """The bounds of a batch, for changes in units of a length."""
        x, affine = cases.x, self.program.affine
        values = affine.start(x)
        low, high = (v - values for v in affine.limits(cases.margin))
        unit, size = self.unit * length, self.size * length
        return BatchBounds((cases.low - x) / unit, (cases.high - x) / unit, low / size, high / size)

    def points(self, change: FloatArray, cases: Batch, lengths: FloatArray) -> FloatArray:
        """(n, d) the points that changes in units of (n,) lengths lead to, inside their bounds."""
        y = cases.x + change * self.unit * lengths[:, None]
        return np.minimum(np.maximum(y, cases.low), cases.high)

    def multipliers(self, duals: FloatArray, length: float = 1.0) -> FloatArray:
        """(n, size) the program's multipliers from those of the rows, positive at upper bounds."""
        out = np.zeros((len(duals), self.program.size))
        out[:, : self.program.affine.size] = duals / (self.size * length)
        return out
