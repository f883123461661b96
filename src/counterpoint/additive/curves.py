"""Functions of one column, piece by piece: what scorecards, splines and power transforms compute.

A reader of a transformer makes one `Curve` for each column that is not passed on as it is: the
values where its pieces start, and a polynomial on each. A step function (bins, scorecards, boosted
tables) has constants; a spline has cubics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.caches import fields_only
from counterpoint.errors import InvalidInput
from counterpoint.numerics import BoolArray, FloatArray, IntArray

__all__ = ["Curve"]


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """o functions φ of one number y: Σ_k coefficients[i, o, k] (y − centers[i])^k.

    Piece i holds ``starts[i] <= y < starts[i + 1]``, compared as float64 numbers. Where a model
    compares ``y <= edge``, the next piece starts at ``np.nextafter(edge, np.inf)``; where it
    compares in float32, a start is the float64 value of the first float32 number of its piece.

    Parameters
    ----------
    starts
        (m,) increasing; the first is −inf.
    coefficients
        (m, o, k): of polynomials of degree k − 1, at most 3.
    centers
        (m,) finite.
    roundings
        How many roundings the model's own φ is worth, relative to the sizes of its terms.
    """

    starts: FloatArray
    coefficients: FloatArray
    centers: FloatArray
    roundings: int = 16

    __getstate__ = fields_only

    def __post_init__(self) -> None:
        m, _, k = self.coefficients.shape
        increasing = bool((np.diff(self.starts) > 0.0).all()) and self.starts[0] == -np.inf
        if not (increasing and self.starts.shape == self.centers.shape == (m,) and 1 <= k <= 4):
            raise InvalidInput(
                "Expected pieces that start at increasing values, the first at −inf, each with a "
                f"center and a polynomial of degree 3 or less; got starts {self.starts!r}, "
                f"{len(self.centers)} centers and coefficients of shape {self.coefficients.shape}."
            )

    @classmethod
    def steps(cls, starts: ArrayLike, values: ArrayLike) -> Curve:
        """Constant pieces: (m,) starts, the first −inf, and (m,) or (m, o) values."""
        first = np.asarray(starts, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64).reshape(len(first), -1, 1)
        return cls(first, values, np.zeros(len(first)), roundings=1)

    @classmethod
    def polynomial(cls, coefficients: ArrayLike, center: float = 0.0) -> Curve:
        """One piece: (k,) coefficients of (y − center)^0, …, or (o, k) for several functions."""
        given = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
        return cls(np.array([-np.inf]), given[None], np.array([center]))

    @property
    def outputs(self) -> int:
        """The number o of functions."""
        return self.coefficients.shape[1]

    @cached_property
    def is_constant(self) -> BoolArray:
        """(m,): whether a piece is constant."""
        return np.asarray(~self.coefficients[:, :, 1:].any(axis=(1, 2)))

    def piece(self, y: FloatArray) -> IntArray:
        """The piece that each number is in."""
        return np.maximum(np.searchsorted(self.starts, y, side="right") - 1, 0)

    def __call__(self, y: FloatArray) -> FloatArray:
        """(n,) → (n, o)."""
        return self._summed(y, self.coefficients, signed=True)

    def sizes(self, y: FloatArray) -> FloatArray:
        """(n, o) the sums of the sizes of the terms."""
        return self._summed(y, np.abs(self.coefficients), signed=False)

    def _summed(self, y: FloatArray, coefficients: FloatArray, *, signed: bool) -> FloatArray:
        i = self.piece(y)
        if coefficients.shape[2] == 1:
            return np.asarray(coefficients[i, :, 0])
        u = y - self.centers[i] if signed else np.abs(y) + np.abs(self.centers[i])
        value = coefficients[i, :, -1]
        for k in range(coefficients.shape[2] - 2, -1, -1):
            value = value * u[:, None] + coefficients[i, :, k]
        return np.asarray(value)

    def followed_by(self, matrix: FloatArray) -> Curve:
        """The (q,) functions ``matrix @ φ``; the matrix is (q, o)."""
        mixed = np.einsum("qo,iok->iqk", matrix, self.coefficients)
        return replace(self, coefficients=mixed, roundings=self.roundings + matrix.shape[1])
