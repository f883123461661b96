"""Put programs into a standard form of arrays, which each backend translates.

    minimise    Σ_j absolute_j |v_j| + ½ vᵀ hessian v
    subject to  low <= v <= high  and  row_low <= matrix v <= row_high

v is the change of each column, (y − x) / unit. The linear rows are the program's own, then one for
each one-hot group, whose changes add up to 0; each is divided by its size. Only the bounds depend
on the row of a batch. Cones are not part of the form: only Clarabel takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch


@final
class BatchBounds(NamedTuple):
    """The bounds of columns, (n, d), and of linear rows, (n, rows), of n rows of a batch."""

    low: FloatArray
    high: FloatArray
    row_low: FloatArray
    row_high: FloatArray

    def shortfall(self, *, columns: bool = False) -> FloatArray:
        """Return about the size of the answer, (n,), for which to scale; 1 if it is unknown.

        It is by how much the worst linear row, or with ``columns`` the worst column, is missed if
        nothing changes.
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
        """The cost of |v|, (d,)."""
        return np.asarray(self.program.encoded_cost.absolute * self.unit)

    @cached_property
    def hessian(self) -> FloatArray:
        """The second derivative of the cost by v: a diagonal (d,), or a full matrix (d, d)."""
        quadratic = 2.0 * self.program.encoded_cost.quadratic
        return quadratic * (self.unit**2 if quadratic.ndim == 1 else np.outer(self.unit, self.unit))

    @cached_property
    def integral(self) -> BoolArray:
        """The columns whose changes are whole numbers, (d,), if the unit of each is its step."""
        return (self.program.domain.steps > 0.0) | ~self.program.domain.numeric

    @cached_property
    def _unscaled(self) -> FloatArray:
        """The linear rows, (rows, d), in feature units."""
        sums = np.zeros((len(self.program.domain.groups), self.program.width))
        for row, group in zip(sums, self.program.domain.groups, strict=True):
            row[group] = 1.0
        return np.vstack([self.program.affine.matrix, sums])

    @cached_property
    def size(self) -> FloatArray:
        """What each linear row is divided by, (rows,): its norm in units of changes."""
        if not self.program.width:
            return np.ones(len(self._unscaled))
        size = np.linalg.norm(self._unscaled * self.unit, self.norm, axis=1)
        return np.where(size > 0.0, size, 1.0)

    @cached_property
    def matrix(self) -> FloatArray:
        """The linear rows, (rows, d), divided by their sizes."""
        return np.asarray(self._unscaled / self.size[:, None] * self.unit)

    def limits(self, cases: Batch, length: float = 1.0) -> BatchBounds:
        """Return the bounds of a batch, for changes in units of a length."""
        x, affine = cases.x, self.program.affine
        values, none = affine.start(x), np.zeros((len(cases), len(self.program.domain.groups)))
        low, high = (v - values for v in affine.limits(cases.margin))
        if self.program.domain.groups:
            low, high = np.hstack([low, none]), np.hstack([high, none])
        unit, size = self.unit * length, self.size * length
        return BatchBounds((cases.low - x) / unit, (cases.high - x) / unit, low / size, high / size)

    def points(self, change: FloatArray, cases: Batch, lengths: FloatArray) -> FloatArray:
        """Return the points (n, d) of changes in units of lengths (n,), moved into their bounds."""
        y = cases.x + change * self.unit * lengths[:, None]
        return np.minimum(np.maximum(y, cases.low), cases.high)

    def multipliers(self, duals: FloatArray, length: float = 1.0) -> FloatArray:
        """Return the program's multipliers (n, size) from the rows' duals, > 0 at upper bounds."""
        out = np.zeros((len(duals), self.program.size))
        rows = self.program.affine.size
        out[:, :rows] = duals[:, :rows] / (self.size[:rows] * length)
        return out


def balanced_units(program: Program, case: Batch) -> FloatArray:
    """Return units (d,) in which a row's demands and its columns are of about one size.

    They equilibrate, in geometric means, the table of the linear rows and by how much these are
    missed. Units of cost, which are the usual ones, can differ by so much that a solver takes the
    entries of some columns for 0. Whole columns and categories keep their steps.
    """
    low, high = (limit[0] for limit in program.affine.limits(case.margin))
    values = program.affine.start(case.x)[0]
    missed = np.maximum(np.maximum(low - values, values - high), 0.0)
    table = np.abs(np.column_stack([program.affine.matrix, missed]))
    fixed = np.append((program.domain.steps > 0.0) | ~program.domain.numeric, True)
    units = np.append(np.where(program.domain.steps > 0.0, program.domain.steps, 1.0), 1.0)
    for _ in range(8):  # more change the units by less than a factor of 2
        sizes = _geometric_middle(table * units, axis=1)
        units = np.where(fixed, units, 1.0 / _geometric_middle(table / sizes[:, None], axis=0))
    # no unit is larger than the room that the column has
    width = np.where(case.high[0] > case.low[0], case.high[0] - case.low[0], np.inf)
    return np.where(fixed[:-1], units[:-1], np.minimum(units[:-1], width))


def _geometric_middle(sizes: FloatArray, axis: int) -> FloatArray:
    """Return the geometric mean of the largest and the least entry above 0; 1 if there is none."""
    least = np.where(sizes > 0, sizes, np.inf).min(axis=axis, initial=np.inf)
    most = sizes.max(axis=axis, initial=0.0)
    return np.where(most > 0, np.sqrt(np.where(most > 0, least, 1.0)) * np.sqrt(most), 1.0)
