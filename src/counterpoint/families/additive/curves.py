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

__all__ = ["Curve", "sizes_of"]


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
    blurred
        Whether y − center is off by roundings of y and of the center, and not by its own alone, as
        behind a scaler.
    """

    starts: FloatArray
    coefficients: FloatArray
    centers: FloatArray
    roundings: int = 16
    blurred: bool = False

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
        rows = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
        return cls(np.array([-np.inf]), rows[None], np.array([center]))

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
        i = self.piece(y)
        u, value = (y - self.centers[i])[:, None], self.coefficients[i, :, -1]
        for k in range(self.coefficients.shape[2] - 2, -1, -1):
            value = value * u + self.coefficients[i, :, k]
        return np.asarray(value)

    def sizes(self, y: FloatArray) -> FloatArray:
        """(n, o) what a rounding is relative to, of terms or of y − center."""
        i = self.piece(y)
        blur = float(self.blurred)
        return sizes_of(np.abs(self.coefficients[i]), y[:, None], self.centers[i, None], blur)

    @cached_property
    def size(self) -> Curve:
        """The curve whose coefficients are the sizes of these."""
        return replace(self, coefficients=np.abs(self.coefficients))

    def followed_by(self, matrix: FloatArray) -> Curve:
        """The (q,) functions ``matrix @ φ``; the matrix is (q, o)."""
        mixed = np.einsum("qo,iok->iqk", matrix, self.coefficients)
        return replace(self, coefficients=mixed, roundings=self.roundings + matrix.shape[1])


def sizes_of(
    coefficients: FloatArray, y: FloatArray, centers: FloatArray, blur: FloatArray | float
) -> FloatArray:
    """(…,) the sizes of the terms of polynomials in u = y − center; coefficients are (…, k) sizes.

    Where there is a ``blur`` (1, or 0), also how much they move with y and the center: far from 0
    that is much less than the terms of powers of these.
    """
    u, value = np.abs(y - centers), coefficients[..., -1]
    slope = np.zeros(value.shape)
    for k in range(coefficients.shape[-1] - 2, -1, -1):
        slope, value = slope * u + value, value * u + coefficients[..., k]
    return np.asarray(value + slope * (blur * (np.abs(y) + np.abs(centers))))
