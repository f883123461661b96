"""The conditions of optimality about a point, with some conditions held: one step of Newton."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from counterpoint.prototypes.solvers.held import Held

__all__ = ["Local"]

FloatArray = NDArray[np.float64]

TINY = 1e-300


@final
@dataclass(frozen=True, eq=False)
class Local:
    """The conditions of optimality over the columns that move, about a start: k columns.

    Parameters
    ----------
    held
        What is held.
    moves
        (k,) positions of the columns.
    values, slopes, forms
        (m,), (m, k) and (q, k, k) of the conditions that are held, the q quadratic ones first.
    price_slope, price_form
        (k,) and (k, k) of the price.
    """

    held: Held
    moves: NDArray[np.intp]
    values: FloatArray
    slopes: FloatArray
    forms: FloatArray
    price_slope: FloatArray
    price_form: FloatArray

    @classmethod
    def about(cls, held: Held) -> Local:
        """The conditions about the start."""
        quadrics, affine = held.equations.quadrics, held.equations.program.affine
        start, margin = held.start, held.case.margin
        moves, chosen = np.flatnonzero(held.moves), np.flatnonzero(held.quadratic)
        active = np.flatnonzero(held.sides)
        sides = held.sides[active]
        matrix = affine.matrix[active] * sides[:, None]
        values, slopes = quadrics.missed(start[None], margin)[0, chosen], np.zeros((0, len(start)))
        if len(chosen):
            slopes = quadrics.slopes(start[None])[0, chosen]
        if len(active):
            low, high = (limit[0, active] for limit in affine.limits(margin))
            values = np.append(values, matrix @ start - np.where(sides > 0.0, high, -low))
        quadratic = held.equations.program.price.quadratic
        form = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
        return cls(
            held,
            moves,
            values,
            np.vstack([slopes, matrix])[:, moves],
            quadrics.forms[np.ix_(chosen, moves, moves)],
            held.price_slope(start)[moves],
            form[np.ix_(moves, moves)],
        )

    @property
    def columns(self) -> int:
        """k."""
        return len(self.moves)

    def point(self, step: FloatArray) -> FloatArray:
        """(d,) the start, moved."""
        y = np.array(self.held.start)
        y[self.moves] += step
        return y

    def length(self, step: FloatArray) -> float:
        """The largest entry of a step, in units of change."""
        return float((np.abs(step) / self.held.equations.unit[self.moves]).max(initial=0.0))

    def size(self, step: FloatArray) -> float:
        """The largest change from x after a step, in the same units."""
        change = np.abs(self.point(step) - self.held.case.x[0])
        return float((change / self.held.equations.unit).max(initial=0.0))

    def first(self) -> FloatArray:
        """(m,) the multipliers that come nearest to optimality at the start."""
        unit = self.held.equations.unit[self.moves]
        scaled = (self.slopes * unit).T
        return np.asarray(np.linalg.lstsq(scaled, -self.price_slope * unit)[0])

    def newton(self, step: FloatArray, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The change of the columns that move, and the next multipliers."""
        k, m, q = len(self.moves), len(self.values), len(self.forms)
        bent = self.forms @ step
        slopes, values = np.array(self.slopes), np.array(self.values)
        values += self.slopes @ step
        values[:q] += bent @ step
        slopes[:q] += 2.0 * bent
        matrix, right = np.zeros((k + m, k + m)), np.empty(k + m)
        form = self.price_form + np.tensordot(multipliers[:q], self.forms, axes=1)
        matrix[:k, :k], matrix[:k, k:], matrix[k:, :k] = 2.0 * form, slopes.T, slopes
        right[:k] = -(self.price_slope + 2.0 * self.price_form @ step)
        right[k:] = -values
        size = np.sqrt(np.maximum(np.abs(matrix).max(axis=1, initial=0.0), TINY))
        scaled = matrix / np.outer(size, size)
        try:
            found = np.linalg.solve(scaled, right / size) / size
        except np.linalg.LinAlgError:
            found = np.linalg.lstsq(scaled, right / size)[0] / size
        return found[:k], found[k:]
