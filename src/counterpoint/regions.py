"""Regions of the encoded space, and the conditions whose intersection they are.

There are two sorts of condition. A `Domain` condition speaks of features one by one (intervals,
whole steps, one-hot groups, the number of changes), so that a separable function can be minimised
over all of them in closed form. A `Coupling` condition ties features together (linear rows, cones);
it is convex, and it knows its own duality: *any* multipliers turn it into one linear inequality
that each of its points meets (`Coupling.cut`). Everything that is ever proved here follows from
these two facts; see `counterpoint.programs`.

Shapes: ``n`` rows, ``d`` encoded columns, ``m`` multipliers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Affine",
    "AtMost",
    "Box",
    "Condition",
    "Cone",
    "Coupling",
    "Domain",
    "LogSumExp",
    "OneOf",
    "Region",
    "Transitions",
    "Whole",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Cut = tuple[FloatArray, FloatArray]

TINY = np.finfo(np.float64).tiny
EPS = np.finfo(np.float64).eps


class Condition(ABC):
    """A simple demand on a point y, given the factual x."""

    @abstractmethod
    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """(n,): by how much y fails, relative to the size of what is compared; 0 if it does not."""


class Domain(Condition):
    """A condition on features one by one."""


class Coupling(Condition):
    """A convex condition that ties features together."""

    matrix: FloatArray
    """(m, d) the normal that each multiplier weighs."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number m of its multipliers."""

    @abstractmethod
    def cut(self, multipliers: FloatArray) -> Cut:
        """(n, m) multipliers → normals (n, d) and offsets (n,).

        Every y that meets the condition meets ``normals · y <= offsets``, whatever the multipliers;
        and ``cut(t * multipliers)`` is t times ``cut(multipliers)`` for t >= 0.
        """


def _vector(values: ArrayLike) -> FloatArray:
    return np.atleast_1d(np.asarray(values, dtype=np.float64))


def _excess(value: FloatArray, limit: FloatArray, size: FloatArray) -> FloatArray:
    """max(value − limit, 0) relative to the size of the terms of value; 0 for an infinite limit."""
    with np.errstate(invalid="ignore"):
        over = np.maximum(value - limit, 0.0)
    return np.where(over > 0, over / np.maximum(size, TINY), 0.0)


@final
@dataclass(frozen=True, eq=False)
class Box(Domain):
    """low <= y <= high and least <= y − x <= most, for each column.

    Parameters
    ----------
    low, high
        (d,) absolute bounds, infinite where there is none, in feature units.
    least, most
        (d,) bounds on the change, infinite where there is none, in feature units.
    """

    low: FloatArray
    high: FloatArray
    least: FloatArray
    most: FloatArray

    @classmethod
    def unbounded(cls, d: int) -> Box:
        """No bound on any of d columns."""
        return cls(np.full(d, -np.inf), np.full(d, np.inf), np.full(d, -np.inf), np.full(d, np.inf))

    def meet(self, other: Box) -> Box:
        """The intersection of two boxes."""
        return Box(
            np.maximum(self.low, other.low),
            np.minimum(self.high, other.high),
            np.maximum(self.least, other.least),
            np.minimum(self.most, other.most),
        )

    def bounds(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, d) smallest and largest values that the rows of x may take."""
        low = np.where(self.least == 0.0, x, x + self.least)
        high = np.where(self.most == 0.0, x, x + self.most)
        return np.maximum(low, self.low), np.minimum(high, self.high)

    @cached_property
    def is_unbounded(self) -> bool:
        """Whether no column has a bound."""
        absolute = np.isinf(self.low).all() and np.isinf(self.high).all()
        return bool(absolute and np.isinf(self.least).all() and np.isinf(self.most).all())

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        if self.is_unbounded:
            return np.zeros(len(y))
        change = np.abs(y - x)
        worst = np.zeros(len(y))
        for bound, sign in zip(self.bounds(x), (-1.0, 1.0), strict=True):
            with np.errstate(invalid="ignore"):
                rounding = 8.0 * EPS * np.maximum(np.abs(x), np.abs(y))
                over = np.maximum(sign * (y - bound) - rounding, 0.0)
                size = np.maximum(np.abs(bound), np.abs(y))
                size = np.minimum(size, np.maximum(np.abs(bound - x), change))
            share = np.where(over > 0, over / np.maximum(size, TINY), 0.0)
            worst = np.maximum(worst, share.max(axis=1, initial=0.0))
        return worst


@final
@dataclass(frozen=True, eq=False)
class Whole(Domain):
    """y − x is a whole number of steps, for these columns.

    Parameters
    ----------
    columns
        (k,) encoded columns.
    steps
        (k,) the size of one step, in feature units.
    """

    columns: IntArray
    steps: FloatArray

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        delta = y[:, self.columns] - x[:, self.columns]
        off = np.abs(delta - np.round(delta / self.steps) * self.steps)
        rounding = 4.0 * EPS * (np.abs(y[:, self.columns]) + np.abs(x[:, self.columns]))
        return np.asarray((np.maximum(off - rounding, 0.0) / self.steps).max(axis=1, initial=0.0))


@final
@dataclass(frozen=True, eq=False)
class OneOf(Domain):
    """Exactly one of these columns is 1 and the others are 0: a category.

    Parameters
    ----------
    columns
        The encoded columns of one categorical feature.
    """

    columns: slice

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        block = y[:, self.columns]
        fractional = np.minimum(np.abs(block), np.abs(1.0 - block)).max(axis=1)
        return np.maximum(fractional, np.abs(block.sum(axis=1) - 1.0))


@final
@dataclass(frozen=True, eq=False)
class Transitions(Domain):
    """Which category may become which, for one categorical feature.

    Parameters
    ----------
    columns
        The encoded columns of the feature, c of them.
    allowed
        (c, c) boolean: row = the factual category, column = the new one.
    """

    columns: slice
    allowed: NDArray[np.bool_]

    def permitted(self, x: FloatArray) -> FloatArray:
        """(n, c): 1 where the category may be chosen, else 0."""
        return np.asarray(self.allowed[x[:, self.columns].argmax(axis=1)], dtype=np.float64)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        over = y[:, self.columns] - self.permitted(x)
        return np.asarray(np.maximum(over, 0.0).max(axis=1))


@final
@dataclass(frozen=True, eq=False)
class AtMost(Domain):
    """At most ``count`` of the features differ between x and y.

    Parameters
    ----------
    count
        The largest number of changed features.
    blocks
        The encoded columns of each feature that counts.
    """

    count: int
    blocks: tuple[slice, ...]

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        changed = self.changed(y, x).sum(axis=1)
        return np.maximum(changed - self.count, 0).astype(np.float64)

    def changed(self, y: FloatArray, x: FloatArray) -> NDArray[np.bool_]:
        """(n, number of blocks): which features differ."""
        differs = y != x
        return np.stack([differs[:, block].any(axis=1) for block in self.blocks], axis=1)


@final
@dataclass(frozen=True, eq=False)
class Affine(Coupling):
    """low <= A y <= high, row by row.

    Multipliers are signed: positive for the upper side of a row, negative for the lower.

    Parameters
    ----------
    matrix
        (m, d) the rows A.
    low, high
        (m,) bounds, infinite where there is none.
    tight
        (m,) how many score units a row's bounds close in for each unit of margin; 0 for rows that
        are constraints and no part of a target.
    lost
        (m,) the same for the margin that only ties need: 1 for a row at which a tie is lost.
    """

    matrix: FloatArray
    low: FloatArray
    high: FloatArray
    tight: FloatArray = field(default_factory=lambda: np.zeros(0))
    lost: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _vector(getattr(self, name)))
        object.__setattr__(self, "matrix", np.atleast_2d(np.asarray(self.matrix, dtype=np.float64)))
        for name in ("tight", "lost"):
            if len(getattr(self, name)) != len(self.matrix):
                object.__setattr__(self, name, np.zeros(len(self.matrix)))

    @property
    def size(self) -> int:
        return len(self.matrix)

    def stacked(self, other: Affine) -> Affine:
        """The rows of both."""
        return Affine(
            np.concatenate([self.matrix, other.matrix]),
            np.concatenate([self.low, other.low]),
            np.concatenate([self.high, other.high]),
            np.concatenate([self.tight, other.tight]),
            np.concatenate([self.lost, other.lost]),
        )

    def cut(self, multipliers: FloatArray) -> Cut:
        weights, offsets = self.cut_weights(multipliers)
        return weights @ self.matrix, np.asarray(offsets.sum(axis=1))

    def cut_weights(self, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, m) weights of the rows, and what each adds to the offset; 0 for a missing side."""
        up = np.where(np.isfinite(self.high), np.maximum(multipliers, 0.0), 0.0)
        down = np.where(np.isfinite(self.low), np.maximum(-multipliers, 0.0), 0.0)
        high = np.where(np.isfinite(self.high), self.high, 0.0)
        low = np.where(np.isfinite(self.low), self.low, 0.0)
        return up - down, up * high - down * low

    def limits(self, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, m) lower and upper bounds, closed in by (n, 2) margins until they meet at most."""
        shift = self.closed_in(margin)
        return self.low + shift, self.high - shift

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n, m) how much (n, 2) margins, see `Cases`, close in each row's bounds."""
        return np.minimum(margin @ np.stack([self.tight, self.lost]), self.room)

    @cached_property
    def room(self) -> FloatArray:
        """(m,) how far each row's bounds can close in before they meet."""
        return np.asarray(np.maximum((self.high - self.low) / 2.0, 0.0))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        value, before = y @ self.matrix.T, x @ self.matrix.T
        weight = np.abs(self.matrix.T)
        terms = (np.abs(y) + np.abs(x)) @ weight
        change = np.abs(y - x) @ weight
        worst = np.zeros(len(y))
        for after, came, limit in (
            (value, before, self.high),
            (-value, -before, -self.low),
        ):
            with np.errstate(invalid="ignore"):
                over = np.maximum(after - limit - 16.0 * EPS * terms, 0.0)
                size = np.minimum(terms + np.abs(limit), change + np.abs(limit - came))
            share = np.where(over > 0, over / np.maximum(size, TINY), 0.0)
            worst = np.maximum(worst, share.max(axis=1, initial=0.0))
        return worst


@final
@dataclass(frozen=True, eq=False)
class Cone(Coupling):
    """‖M y + c‖₂ <= radius: an ellipsoid or a ball.

    Any u gives the cut uᵀ(M y + c) <= ‖u‖ · radius (Cauchy–Schwarz).

    Parameters
    ----------
    matrix
        (m, d).
    offset
        (m,).
    radius
        A positive number.
    """

    matrix: FloatArray
    offset: FloatArray
    radius: float

    @property
    def size(self) -> int:
        return len(self.matrix)

    def cut(self, multipliers: FloatArray) -> Cut:
        length = np.linalg.norm(multipliers, axis=1)
        return multipliers @ self.matrix, length * self.radius - multipliers @ self.offset

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        length = np.linalg.norm(y @ self.matrix.T + self.offset, axis=1)
        terms = (np.abs(y) + np.abs(x)) @ np.abs(self.matrix.T) + np.abs(self.offset)
        rounding = 8.0 * EPS * np.linalg.norm(terms, axis=1)
        return np.maximum((length - rounding) / self.radius - 1.0, 0.0)


@final
@dataclass(frozen=True, eq=False)
class LogSumExp(Coupling):
    """log Σᵢ exp(M y + c)ᵢ <= limit: a softmax probability of at least exp(−limit).

    Multipliers v >= 0 with total t and shares p = v/t give the cut
    t · (pᵀ(M y + c) + H(p)) <= t · limit, H the entropy (the conjugate of log-sum-exp).

    Parameters
    ----------
    matrix
        (m, d) differences of score rows.
    offset
        (m,).
    limit
        A number.
    """

    matrix: FloatArray
    offset: FloatArray
    limit: float

    @property
    def size(self) -> int:
        return len(self.matrix)

    def cut(self, multipliers: FloatArray) -> Cut:
        v = np.maximum(multipliers, 0.0)
        total = v.sum(axis=1, keepdims=True)
        share = v / np.maximum(total, TINY)
        entropy = -(share * np.log(np.maximum(share, TINY))).sum(axis=1)
        return v @ self.matrix, total[:, 0] * (self.limit - entropy) - v @ self.offset

    def value(self, y: FloatArray) -> FloatArray:
        """(n,): log Σ exp(M y + c)."""
        z = y @ self.matrix.T + self.offset
        top = z.max(axis=1)
        return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        terms = (np.abs(y) + np.abs(x)) @ np.abs(self.matrix.T) + np.abs(self.offset)
        size = terms.max(axis=1) + abs(self.limit)
        return _excess(self.value(y), np.asarray(self.limit), size)


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
    def kinds(self) -> frozenset[type]:
        """The types of its conditions."""
        return frozenset(type(condition) for condition in self.conditions)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """(n,): the largest violation of any condition; 0 inside."""
        worst = np.zeros(len(y))
        for condition in self.conditions:
            worst = np.maximum(worst, condition.violation(y, x))
        return worst
