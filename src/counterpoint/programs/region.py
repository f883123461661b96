"""Conditions, regions that are their intersections, and rows as programs see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.numerics import BoolArray, FloatArray, IntArray


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """n rows as a program sees them: their points, bounds and margins."""

    x: FloatArray  # (n, d) factual points
    # low, high: (n, d) bounds on y; a row with low > high somewhere has no feasible point
    low: FloatArray
    high: FloatArray
    # (n, 2) by how much the target's rows are tightened, in score units: all of them, and besides
    # those at which a tie is lost; (n,) is taken as the first alone
    margin: FloatArray
    # (n,) the weight of the cost where a log-loss is added to it; None for 1
    weight: FloatArray | None = None
    # (n, d): features that count as changed whether they are or not, by their first columns; None
    # for none
    forced: BoolArray | None = None

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

    def take(self, rows: NDArray[np.intp] | BoolArray | slice) -> Batch:
        """Some of the rows."""
        return Batch(
            self.x[rows],
            _rows_of(self.low, rows),
            _rows_of(self.high, rows),
            self.margin[rows],
            None if self.weight is None else self.weight[rows],
            None if self.forced is None else self.forced[rows],
        )

    @property
    def weights(self) -> FloatArray:
        """(n,) `weight`, whether given or not."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def weighing(self, weight: FloatArray) -> Batch:
        """The same rows with weights of the cost."""
        return replace(self, weight=weight)

    def with_margin(self, margin: FloatArray) -> Batch:
        """The same rows with another margin."""
        return replace(self, margin=margin)

    def holding(self, held: BoolArray, y: FloatArray) -> Batch:
        """The same rows with the ``held`` entries (n, d) fixed at points y."""
        return self.within(np.where(held, y, -np.inf), np.where(held, y, np.inf))

    def within(self, low: FloatArray, high: FloatArray) -> Batch:
        """The same rows with narrower bounds."""
        return replace(self, low=np.maximum(self.low, low), high=np.minimum(self.high, high))

    def __iter__(self) -> Iterator[Batch]:
        for i in range(len(self)):
            yield self.take(slice(i, i + 1))


def _rows_of(bounds: FloatArray, rows: NDArray[np.intp] | BoolArray | slice) -> FloatArray:
    """Return rows of bounds; those that are one row repeated stay a view of it."""
    if bounds.strides[0] == 0 and len(bounds):
        count = len(np.empty(len(bounds), dtype=np.int8)[rows])
        return np.broadcast_to(bounds[0], (count, bounds.shape[1]))
    return bounds[rows]


@final
class Cut(NamedTuple):
    """n inequalities normal · y <= offset, with the sizes of the terms that they are sums of."""

    # normal, offset: (n, d) and (n,)
    normal: FloatArray
    offset: FloatArray
    # weights, normals: (n, m) and (m, d), not negative: the sizes of the terms of the normals add
    # up to at most ``weights @ normals``
    weights: FloatArray
    normals: FloatArray
    roundings: int  # of each entry of a normal, see `counterpoint.numerics`
    offset_error: FloatArray  # (n,) by how much the offsets may be off by rounding

    @classmethod
    def stacked(cls, cuts: Sequence[Cut]) -> Cut:
        """All inequalities of some, one after the other."""
        terms = np.concatenate([cut.weights @ cut.normals for cut in cuts])
        return cls(
            np.concatenate([cut.normal for cut in cuts]),
            np.concatenate([cut.offset for cut in cuts]),
            np.eye(len(terms)),
            terms,
            max(cut.roundings for cut in cuts),
            np.concatenate([cut.offset_error for cut in cuts]),
        )

    def take(self, rows: IntArray) -> Cut:
        """Some of them."""
        return self._replace(
            normal=self.normal[rows],
            offset=self.offset[rows],
            weights=self.weights[rows],
            offset_error=self.offset_error[rows],
        )


class Condition(ABC):
    """A simple demand on a point y, given the factual x."""

    @abstractmethod
    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """Return by how much y fails, relative to the size of what is compared, (n,); else 0."""


class Domain(Condition):
    """A condition on features one by one."""


class Coupling(Condition):
    """A convex condition that ties features together, or a convex term of the objective."""

    @property
    @abstractmethod
    def normals(self) -> FloatArray:
        """(m, d) the normal that each multiplier weighs."""

    @cached_property
    def sizes(self) -> FloatArray:
        """(m, d) the sizes of the numbers in `normals`."""
        return np.abs(self.normals)

    @cached_property
    def size(self) -> int:
        """The number m of its multipliers."""
        return len(self.normals)

    @abstractmethod
    def cut(self, multipliers: FloatArray) -> Cut:
        """Return the inequalities that multipliers (n, m) make of it.

        Whatever the multipliers, every y that meets the coupling meets normal · y <= offset; a
        term of the objective is at least normal · y − offset (0 if all multipliers are 0). The cut
        of a coupling with t >= 0 times the multipliers is t times as large.
        """


@final
@dataclass(frozen=True, eq=False)
class Region:
    """All points that meet every condition; ``a & b`` intersects; ``Region()`` is everything."""

    conditions: tuple[Condition, ...] = ()

    def __and__(self, other: Region) -> Region:
        return Region(self.conditions + other.conditions)

    def __iter__(self) -> Iterator[Condition]:
        return iter(self.conditions)

    @property
    def condition_types(self) -> frozenset[type]:
        """The types of its conditions."""
        return frozenset(type(condition) for condition in self.conditions)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """Return the largest violation of any condition, (n,); 0 inside."""
        worst = np.zeros(len(y))
        for condition in self.conditions:
            worst = np.maximum(worst, condition.violation(y, x))
        return worst


class LazyUnion(Sequence[Region]):
    """Regions whose union is a target, each written down only when it is indexed."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of linear rows of all regions together."""

    @property
    @abstractmethod
    def has_ties(self) -> bool:
        """Whether some region excludes points at a tie."""

    @property
    @abstractmethod
    def moving(self) -> BoolArray:
        """(d,) which columns have an effect on any region."""

    @abstractmethod
    def some(self, which: slice) -> LazyUnion:
        """Some of the regions, still not written down."""

    @abstractmethod
    def ties_resolved(self, units: FloatArray) -> LazyUnion:
        """The same regions with each tie decided, for points that are multiples of these units."""
