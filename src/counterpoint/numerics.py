"""Numbers and array types that are used throughout, and what rounding can do to a sum.

A sum of n products is off by at most γ_n times the sum of their sizes, γ_n = n u / (1 − n u), in
any order, in blocks, and with fused operations or without. Each further rounding of a term adds one
to n. Sums of very many terms are added up in blocks, so that n is no larger than it has to be.

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
"""The codes of words."""

UNIT = 2.0**-53
"""u: what one operation is off by at most, relative to its result."""
EPS = 2.0 * UNIT
"""From 1 to the next number."""
LARGEST = float(np.finfo(np.float64).max)
"""The largest number."""
MISSING = 2.0**1000
"""The code of a missing cell for a model that takes it as missing: a number that no cell is near
to, and that can be added to others without overflow."""
TINY = float(np.finfo(np.float64).tiny)
"""The smallest number with all of its digits: granted for each sum, in any unit, since products
below it lose digits. What is divided by it may overflow, unless it is 0 as well."""
LEAST = 1e-300
"""What is divided by counts as at least so much: a share of it, and its inverse times 1e8, are
numbers with all of their digits, as those of `TINY` are not."""
LIBRARY = 8
"""How many roundings exp and log are worth: NumPy's are off by less than 4 units in the last place,
each of which is 2 u."""
BLOCK = 4096
"""How many terms are added up at a time: 131 072 columns have n = 4128 then."""
IN_CACHE = 1 << 18
"""How many numbers a block of rows has at most, 2 MiB of them, so that arrays stay in the cache."""
AFTER = 4
"""How many roundings, relative to the number itself, a sum may go through when it is done."""
STEP_SLACK = 1e-9
"""How far, in steps, a whole number may lie outside its interval because of rounding."""
VIOLATION = 1e-8
"""Largest relative violation of a constraint that counts as rounding: ten times what solvers are
asked for (1e-9 and less), since their points are scaled, decoded and encoded again."""
SINGLE = 8.0 * float(np.finfo(np.float32).eps)
"""Largest relative violation of a constraint that counts as rounding in float32 columns, of
which `VIOLATION` is less than one."""
CLOSED = 1e-9
"""A relative gap below which nothing is left to prove: far above the rounding of bounds, far below
the 1e-6 that is asked for by default."""


def clock() -> float:
    """Return the seconds by which limits of time are kept."""
    return perf_counter()


def relative(over: FloatArray, size: FloatArray) -> FloatArray:
    """An excess relative to the size of what is compared; 0 where there is none.

    What cannot be computed, because terms overflow, is infinite: nothing shows that it is met.
    """
    over = np.maximum(over, 0.0)
    with np.errstate(invalid="ignore"):
        share = over / np.maximum(size, TINY)
    return np.where(over == 0.0, 0.0, np.where(np.isnan(share), np.inf, share))


def as_slice(rows: IntArray) -> IntArray | slice:
    """Increasing positions; a slice if each follows the one before, so that nothing is copied."""
    together = len(rows) > 0 and rows[-1] - rows[0] + 1 == len(rows)
    return slice(int(rows[0]), int(rows[-1]) + 1) if together else rows


def row_blocks(count: int, width: int, numbers: int = IN_CACHE) -> Iterator[slice]:
    """Yield slices of so many rows, blocks of at most ``numbers`` where a row has ``width``.

    A row that has more numbers by itself is a block of its own.
    """
    size = max(1, numbers // max(width, 1))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def gamma(n: int) -> float:
    """γ_n, of n roundings: n + 1 and not n, to cover the rounding of the product with γ."""
    return (n + 1) * UNIT / (1.0 - (n + 1) * UNIT)


def depth(d: int) -> int:
    """How many roundings `dots` and `total` of d terms are worth."""
    return d if d <= BLOCK else BLOCK + -(-d // BLOCK)


def dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """(n, d) and (n, d) or (d,) → (n,) the sums of products, row by row."""
    d = a.shape[1]
    if d == 1:  # which BLAS is slow at
        return np.asarray(a[:, 0] * b[..., 0])
    if d <= BLOCK:
        return a @ b if b.ndim == 1 else np.einsum("ij,ij->i", a, b)
    sums = [dots(a[:, block], b[..., block]) for block in row_blocks(d, 1, BLOCK)]
    return np.asarray(np.sum(sums, axis=0))


def total(values: FloatArray) -> FloatArray:
    """(n, d) → (n,) the sums of rows."""
    d = values.shape[1]
    if d <= BLOCK:
        return np.asarray(values.sum(axis=1))
    starts = np.arange(0, d, BLOCK)
    return np.asarray(np.add.reduceat(values, starts, axis=1).sum(axis=1))


def first_float(
    holds: Callable[[FloatArray], BoolArray], low: FloatArray | float, high: FloatArray | float
) -> FloatArray:
    """The least numbers of (k,) intervals at which something holds that, once it does, goes on to.

    Infinite where it does not hold at the upper end. ``holds`` takes one number for each interval.
    """
    ends = np.atleast_1d(np.asarray(low, dtype=np.float64)), np.atleast_1d(np.asarray(high))
    (below, above), none = map(_rank, np.broadcast_arrays(*ends)), ~holds(_ranked(_rank(ends[1])))
    while (below < above).any():
        middle = (below >> 1) + (above >> 1) + (below & above & 1)
        holding = holds(_ranked(middle))
        below, above = np.where(holding, below, middle + 1), np.where(holding, middle, above)
        below = np.minimum(below, above)
    return np.where(none, np.inf, _ranked(above))


def _rank(values: FloatArray) -> NDArray[np.int64]:
    """Numbers in the order of floats, one apart where the floats are neighbours."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _ranked(ranks: NDArray[np.int64]) -> FloatArray:
    """The numbers of such places."""
    bits = np.where(ranks < 0, np.iinfo(np.int64).min - ranks, ranks)
    return np.asarray(bits.view(np.float64))


@final
@dataclass(frozen=True, eq=False)
class Sizes:
    """How large the terms are of which n vectors of d numbers were summed."""

    # heights, units: (n, k) and (k, d), not negative: the sizes of the terms of each number add up
    # to at most ``heights @ units``. Without units, heights (n, d) are the sizes themselves
    heights: FloatArray
    units: FloatArray | None
    # how many roundings each number is worth, so that it is off by at most ``gamma(count) * heights
    # @ units``, and `AFTER` roundings of its own
    count: int

    def of(self, columns: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Sizes:
        """The sizes of some of the columns."""
        if isinstance(columns, slice) and columns == slice(None):
            return self
        if self.units is None:
            return replace(self, heights=self.heights[:, columns])
        return replace(self, units=self.units[:, columns])

    @property
    def each(self) -> FloatArray:
        """(n, d) the sizes."""
        return self.heights if self.units is None else np.asarray(self.heights @ self.units)

    def at(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """(k,) the sizes of single numbers."""
        if self.units is None:
            return np.asarray(self.heights[rows, columns])
        return np.einsum("ij,ji->i", self.heights[rows], self.units[:, columns])

    @property
    def most(self) -> FloatArray:
        """(d,) at least the largest size in each column."""
        if self.units is None:
            return np.asarray(self.heights.max(axis=0, initial=0.0))
        return np.asarray(self.heights.max(axis=0, initial=0.0) @ self.units)

    def along(self, lengths: FloatArray) -> FloatArray:
        """(n, d) lengths, not negative → (n,) the sums of the sizes times the lengths."""
        if self.units is None:
            return dots(self.heights, lengths)
        if len(self.units) == 1:
            return np.asarray(self.heights[:, 0] * dots(lengths, self.units[0]))
        return np.einsum("ij,ij->i", self.heights, lengths @ self.units.T)

    def highest(self, factors: FloatArray) -> FloatArray:
        """(n,) at least the largest of the sizes times (d,) factors, not negative."""
        if self.units is None:
            return np.asarray((self.heights * factors).max(axis=1, initial=0.0))
        return np.asarray(self.heights @ (self.units * factors).max(axis=1, initial=0.0))

    def bent(self, bends: FloatArray) -> FloatArray:
        """(n,) by how much rounding of slopes may lower parabolas with (d,) bends >= 0 in all."""
        share = 1.0 / np.where(bends > 0.0, bends, np.inf)
        if self.units is None:
            over = np.asarray((self.heights * self.heights) @ share)
        else:
            squares = (self.units * self.units) @ share
            over = np.asarray(len(self.units) * (self.heights * self.heights) @ squares)
        slopes = gamma(self.count + AFTER)
        return np.asarray(slopes * slopes * over)

    def rounding(self, d: int, extra: int) -> float:
        """γ of the roundings of sums of d such numbers times others, and of so many more."""
        return gamma(self.count + depth(d) + AFTER + extra)

    def scaled(self, factor: FloatArray) -> Sizes:
        """The same, where the numbers are multiplied by (n,) factors, for which see `AFTER`."""
        return replace(self, heights=self.heights * factor[:, None])

    def beside(self, other: Sizes) -> Sizes:
        """The sizes of the sums of both."""
        count = max(self.count, other.count) + 1
        if self.units is None or other.units is None:
            return Sizes(self.each + other.each, None, count)
        heights = np.hstack([self.heights, other.heights])
        return Sizes(heights, np.vstack([self.units, other.units]), count)


class Word(StrEnum):
    """One of a few words; columns hold its ``code``, the position in their list."""

    code: int

    def __new__(cls, text: str) -> Self:
        """Count on."""
        word = str.__new__(cls, text)
        word._value_, word.code = text, len(cls.__members__)
        return word

    @classmethod
    def of(cls, codes: WordArray) -> NDArray[np.object_]:
        """The words that these codes stand for."""
        return np.array([*cls], dtype=object)[codes]
