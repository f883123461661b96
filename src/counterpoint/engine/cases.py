"""Rows as programs and solvers see them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.numerics import BoolArray, FloatArray

__all__ = ["Cases"]


@final
@dataclass(frozen=True, eq=False)
class Cases:
    """Rows as a program sees them."""

    x: FloatArray  # (n, d) factual points
    # low, high: (n, d) bounds on y; a row with low > high somewhere has no feasible point
    low: FloatArray
    high: FloatArray
    # (n, 2) how much the target's rows are tightened, in score units: all of them, and besides
    # those at which a tie is lost. (n,) for all of them
    margin: FloatArray
    # (n,) how much the price counts against what is charged; None for 1
    weight: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.margin.ndim == 1:
            both = np.stack([self.margin, np.zeros_like(self.margin)], axis=1)
            object.__setattr__(self, "margin", both)

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def unbounded(self) -> bool:
        """Whether no column of any row has a bound."""
        one_row = self.low.strides[0] == 0 and self.high.strides[0] == 0
        low, high = (self.low[:1], self.high[:1]) if one_row else (self.low, self.high)
        return bool(np.isinf(low).all() and np.isinf(high).all())

    @cached_property
    def empty(self) -> BoolArray:
        """(n,): whether a row's bounds leave no point."""
        if self.unbounded:
            return np.zeros(len(self), dtype=bool)
        return np.asarray((self.low > self.high).any(axis=1))

    def take(self, rows: NDArray[np.intp] | BoolArray | slice) -> Cases:
        """Some of the rows."""
        return Cases(
            self.x[rows],
            _rows_of(self.low, rows),
            _rows_of(self.high, rows),
            self.margin[rows],
            None if self.weight is None else self.weight[rows],
        )

    @property
    def weights(self) -> FloatArray:
        """(n,) `weight`, whether given or not."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def weighing(self, weight: FloatArray) -> Cases:
        """The same rows with a weight of the price."""
        return replace(self, weight=weight)

    def with_margin(self, margin: FloatArray) -> Cases:
        """The same rows with another margin."""
        return replace(self, margin=margin)

    def within(self, low: FloatArray, high: FloatArray) -> Cases:
        """The same rows with narrower bounds."""
        return replace(self, low=np.maximum(self.low, low), high=np.minimum(self.high, high))

    def __iter__(self) -> Iterator[Cases]:
        for i in range(len(self)):
            yield self.take(slice(i, i + 1))


def _rows_of(bounds: FloatArray, rows: NDArray[np.intp] | BoolArray | slice) -> FloatArray:
    """Rows of an array that may be one row repeated, without repeating it in memory."""
    if bounds.strides[0] == 0 and len(bounds):
        count = len(np.empty(len(bounds), dtype=np.int8)[rows])
        return np.broadcast_to(bounds[0], (count, bounds.shape[1]))
    return bounds[rows]
