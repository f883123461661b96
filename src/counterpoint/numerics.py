"""Define the array types and tolerances of all rooms, and bound the rounding errors of sums.

A sum of n products is off by at most γ_n times the sum of the sizes of the products,
γ_n = n u / (1 − n u), in any order, in blocks, and with fused operations or without. Each further
rounding of a term adds one to n. Sums of very many terms are added up in blocks, so that n is no
larger than it has to be.

References
----------
Higham (2002), Accuracy and Stability of Numerical Algorithms, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from time import perf_counter
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
WordArray = NDArray[np.int8]
"""Codes of a `Word`, its positions in the list of words."""

EPS = float(np.finfo(np.float64).eps)
"""The distance from 1 to the next number, 2**-52."""
UNIT = float(np.finfo(np.float64).epsneg)
"""u = EPS / 2, the largest error of one operation, relative to its result."""
LARGEST = float(np.finfo(np.float64).max)
"""The largest finite number."""
TINY = float(np.finfo(np.float64).tiny)
"""The smallest number with all of its digits. Each sum is granted an error of so much, in any unit,
since products below it lose digits. A quotient by it may overflow."""
LEAST = 1e-300
"""The least divisor, where `TINY` would not do: a share of it, and its inverse times 1e8, still are
numbers with all of their digits."""
MISSING = 2.0**1000
"""The code of a missing cell for a model that takes it as missing: a number that no cell is near
to, and that can be added to others without overflow."""
LIBRARY = 8
"""How many roundings one exp or log counts as: NumPy's are off by less than 4 units in the last
place, each of which is 2 u."""
BLOCK = 4096
"""The number of terms that `dots` and `total` add up at a time: 131 072 columns then have a `depth`
of 4128."""
IN_CACHE = 1 << 18
"""The largest number of floats in a block of rows, 2 MiB of them, so that its arrays stay in the
cache."""
AFTER = 4
"""How many roundings, relative to its own size, a sum may go through after it was added up."""
STEP_SLACK = 1e-9
"""How far, in steps, a whole number may lie outside its interval because of rounding."""
VIOLATION = 1e-8
"""Largest relative violation of a constraint that counts as rounding: ten times the tolerance that
solvers get (1e-9 and less), since their points are scaled, decoded and encoded again."""
SINGLE = 8.0 * float(np.finfo(np.float32).eps)
"""Largest relative violation of a constraint that counts as rounding in float32 columns, whose
numbers are more than `VIOLATION` apart."""
CLOSED = 1e-9
"""A relative gap that counts as none: far above the rounding of bounds, far below the default gap
of searches, 1e-6."""


def clock() -> float:
    """Return the seconds of the clock that all time limits are measured by."""
    return perf_counter()


def relative(excess: FloatArray, size: FloatArray) -> FloatArray:
    """Return an excess relative to the size of the compared numbers; 0 where it is not positive.

    Where terms overflowed to NaN, the violation is unknown and counts as infinite.
    """
    excess = np.maximum(excess, 0.0)
    with np.errstate(invalid="ignore"):
        share = excess / np.maximum(size, TINY)
    return np.where(excess == 0.0, 0.0, np.where(np.isnan(share), np.inf, share))


def as_slice(positions: IntArray) -> IntArray | slice:
    """Return increasing positions; as a slice if consecutive, so that indexing copies nothing."""
    consecutive = len(positions) > 0 and positions[-1] - positions[0] + 1 == len(positions)
    return slice(int(positions[0]), int(positions[-1]) + 1) if consecutive else positions


def row_blocks(count: int, width: int, numbers: int = IN_CACHE) -> Iterator[slice]:
    """Yield slices that divide ``count`` rows of ``width`` numbers into blocks, in order.

    A block has at most ``numbers``, or is one row that has more by itself.
    """
    size = max(1, numbers // max(width, 1))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def gamma(n: int) -> float:
    """Return γ_n; for n + 1 instead of n, to cover the rounding of the product with it."""
    return (n + 1) * UNIT / (1.0 - (n + 1) * UNIT)


def depth(d: int) -> int:
    """Return the number n of roundings in each sum of d terms that `dots` or `total` returns."""
    return d if d <= BLOCK else BLOCK + -(-d // BLOCK)


def dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the dot products (n,) of rows (n, d) with rows (n, d), or with one vector (d,)."""
    d = a.shape[1]
    if d == 1:  # BLAS is slow at single columns
        return np.asarray(a[:, 0] * b[..., 0])
    if d <= BLOCK:
        return a @ b if b.ndim == 1 else np.einsum("ij,ij->i", a, b)
    sums = [dots(a[:, block], b[..., block]) for block in row_blocks(d, 1, BLOCK)]
    return np.asarray(np.sum(sums, axis=0))


def total(values: FloatArray) -> FloatArray:
    """Return the sums (n,) of rows (n, d)."""
    d = values.shape[1]
    if d <= BLOCK:
        return np.asarray(values.sum(axis=1))
    starts = np.arange(0, d, BLOCK)
    return np.asarray(np.add.reduceat(values, starts, axis=1).sum(axis=1))


def first_float(
    holds: Callable[[FloatArray], BoolArray], low: FloatArray | float, high: FloatArray | float
) -> FloatArray:
    """Return the least number of each of k intervals from which on a condition holds, (k,).

    ``holds`` takes one number for each interval, (k,); once it holds, it must hold for all larger
    numbers. Infinite where it does not even hold at the upper end.
    """
    ends = np.atleast_1d(np.asarray(low, dtype=np.float64)), np.atleast_1d(np.asarray(high))
    least, largest = map(_rank, np.broadcast_arrays(*ends))
    nowhere = ~holds(_ranked(_rank(ends[1])))
    # Bisection over ranks, at most 64 steps: over the numbers it might never reach the last two.
    while (least < largest).any():
        middle = (least >> 1) + (largest >> 1) + (least & largest & 1)  # a plain sum overflows
        holding = holds(_ranked(middle))
        least, largest = np.where(holding, least, middle + 1), np.where(holding, middle, largest)
        least = np.minimum(least, largest)
    return np.where(nowhere, np.inf, _ranked(largest))


def _rank(values: FloatArray) -> NDArray[np.int64]:
    """Return whole numbers in the order of the floats, one apart for neighbouring floats."""
    # The bits of positive floats are in their order; those of negative ones in the opposite order.
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _ranked(ranks: NDArray[np.int64]) -> FloatArray:
    """Return the floats that have these ranks: the inverse of `_rank`."""
    bits = np.where(ranks < 0, np.iinfo(np.int64).min - ranks, ranks)
    return np.asarray(bits.view(np.float64))


@final
@dataclass(frozen=True, eq=False)
class Sizes:
    """Bound the sizes of the terms that were summed to get the entries of vectors, (n, d).

    The sizes (n, d) are at least the sums of the absolute terms of each entry. They are held as
    ``heights @ units`` of low rank k where all vectors are made of the same k rows, so that their
    sums take n k + k d operations and not n d.

    Each entry is off by at most ``gamma(count) * sizes``, and by `AFTER` roundings of its own.
    """

    heights: FloatArray  # (n, k), not negative; without units (n, d), the sizes themselves
    units: FloatArray | None  # (k, d), not negative
    count: int  # how many roundings an entry counts as

    def of(self, columns: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Sizes:
        """Return the sizes of some of the columns."""
        if isinstance(columns, slice) and columns == slice(None):
            return self
        if self.units is None:
            return replace(self, heights=self.heights[:, columns])
        return replace(self, units=self.units[:, columns])

    @property
    def each(self) -> FloatArray:
        """The sizes of all entries, (n, d)."""
        return self.heights if self.units is None else np.asarray(self.heights @ self.units)

    def at(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return the sizes (m,) of single entries, by their rows and columns."""
        if self.units is None:
            return np.asarray(self.heights[rows, columns])
        return np.einsum("ij,ji->i", self.heights[rows], self.units[:, columns])

    @property
    def largest_in_columns(self) -> FloatArray:
        """Upper bounds (d,) on the sizes in each column."""
        if self.units is None:
            return np.asarray(self.heights.max(axis=0, initial=0.0))
        return np.asarray(self.heights.max(axis=0, initial=0.0) @ self.units)

    def along(self, lengths: FloatArray) -> FloatArray:
        """Return the dot products (n,) of the sizes with lengths (n, d), which are not negative."""
        if self.units is None:
            return dots(self.heights, lengths)
        if len(self.units) == 1:
            return np.asarray(self.heights[:, 0] * dots(lengths, self.units[0]))
        return np.einsum("ij,ij->i", self.heights, lengths @ self.units.T)

    def largest_in_rows(self, factors: FloatArray) -> FloatArray:
        """Return upper bounds (n,) on the sizes times factors (d,), which are not negative."""
        if self.units is None:
            return np.asarray((self.heights * factors).max(axis=1, initial=0.0))
        return np.asarray(self.heights @ (self.units * factors).max(axis=1, initial=0.0))

    def parabola_error(self, curvature: FloatArray) -> FloatArray:
        """Return upper bounds (n,) on Σ_j error_j² / curvature_j over the errors of the entries.

        Where entries are slopes of parabolas, slope_j δ + curvature_j δ² / 2 with their minimum at
        δ_j, an error lowers this minimum by at most error_j |δ_j| + error_j² / (2 curvature_j).
        `along` bounds the first term, and this method twice the second. Columns with a curvature
        (d,) of 0 count as 0.
        """
        inverse = 1.0 / np.where(curvature > 0.0, curvature, np.inf)
        squared_heights = self.heights * self.heights
        if self.units is None:
            squares = squared_heights @ inverse
        else:  # (Σ_k height_k unit_kj)² <= k · Σ_k (height_k unit_kj)²
            squares = len(self.units) * squared_heights @ ((self.units * self.units) @ inverse)
        share = gamma(self.count + AFTER)
        return np.asarray(share * share * squares)

    def rounding(self, d: int, extra: int) -> float:
        """Return the γ of a sum of d entries times other numbers, with ``extra`` more roundings."""
        return gamma(self.count + depth(d) + AFTER + extra)

    def scaled(self, factor: FloatArray) -> Sizes:
        """Return the sizes of the vectors times factors (n,); `AFTER` covers this rounding."""
        return replace(self, heights=self.heights * factor[:, None])

    def plus(self, other: Sizes) -> Sizes:
        """Return the sizes of the sums of the vectors of both."""
        count = max(self.count, other.count) + 1
        if self.units is None or other.units is None:
            return Sizes(self.each + other.each, None, count)
        heights = np.hstack([self.heights, other.heights])
        return Sizes(heights, np.vstack([self.units, other.units]), count)


class Word(StrEnum):
    """One of a few words; columns hold its ``code``, the position in their list."""

    code: int

    def __new__(cls, text: str) -> Self:
        """Give each word the next code."""
        word = str.__new__(cls, text)
        word._value_, word.code = text, len(cls.__members__)
        return word

    @classmethod
    def of(cls, codes: WordArray) -> NDArray[np.object_]:
        """Return the words that these codes stand for."""
        return np.array([*cls], dtype=object)[codes]
