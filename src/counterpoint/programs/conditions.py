"""The conditions whose intersection a region is: on features one by one, and across features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import final, overload

import numpy as np
from numpy.typing import NDArray

from counterpoint.numerics import (
    EPS,
    LARGEST,
    MISSING,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    gamma,
    relative,
)
from counterpoint.programs.region import Condition, Coupling, Cut, Domain, Region

BINARY_PLACES = 20
"""How many binary places a number may have to be on a lattice."""


@final
@dataclass(frozen=True, eq=False)
class Box(Domain):
    """An interval for y in each column, which may depend on x.

    It is low <= y <= high, least <= y − x <= most and min(soft_low, x) <= y <= max(soft_high, x): a
    row beyond a soft bound may stay where it is, or come nearer.
    """

    # low, high: (d,) absolute bounds, infinite where there is none, in feature units
    low: FloatArray
    high: FloatArray
    # least, most: (d,) bounds on the change, infinite where there is none, in feature units
    least: FloatArray
    most: FloatArray
    # soft_low, soft_high: (d,) bounds that give way to the factual value, in feature units,
    # infinite where there is none
    soft_low: FloatArray = field(default_factory=lambda: np.array(-np.inf))
    soft_high: FloatArray = field(default_factory=lambda: np.array(np.inf))

    @classmethod
    def unbounded(cls, d: int) -> Box:
        """Return the box without a bound on any of d columns."""
        return cls(*(np.full(d, end) for _ in range(3) for end in (-np.inf, np.inf)))

    def meet(self, other: Box) -> Box:
        """Return the intersection of two boxes."""
        return Box(
            np.maximum(self.low, other.low),
            np.minimum(self.high, other.high),
            np.maximum(self.least, other.least),
            np.minimum(self.most, other.most),
            np.maximum(self.soft_low, other.soft_low),
            np.minimum(self.soft_high, other.soft_high),
        )

    def bounds(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest values, each (n, d), that the rows of x may take.

        Bounds that are the same for all rows are read-only views of one row, and not copies.
        """
        low, high = self._ends  # (d,), until a bound depends on the row
        if self._has_soft_bounds and ((x < self.soft_low) | (x > self.soft_high)).any():
            low = np.maximum(self.low, np.minimum(self.soft_low, x))
            high = np.minimum(self.high, np.maximum(self.soft_high, x))
        if self._is_relative:
            low = np.maximum(low, np.where(self.least == 0.0, x, x + self.least))
            high = np.minimum(high, np.where(self.most == 0.0, x, x + self.most))
        missing = x == MISSING
        if missing.any():  # a missing cell stays missing
            low, high = np.where(missing, x, low), np.where(missing, x, high)
        if low.ndim == 1 and len(x) == 1:  # indexing takes less time than `broadcast_to`
            return low[None], high[None]
        return np.broadcast_to(low, x.shape), np.broadcast_to(high, x.shape)

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """The bounds (d,) of a row within all soft ones, whose change has no bound."""
        low, high = np.maximum(self.low, self.soft_low), np.minimum(self.high, self.soft_high)
        low.flags.writeable = high.flags.writeable = False
        return low, high

    @cached_property
    def _is_relative(self) -> bool:
        return bool(np.isfinite(self.least).any() or np.isfinite(self.most).any())

    @cached_property
    def _has_soft_bounds(self) -> bool:
        return bool(np.isfinite(self.soft_low).any() or np.isfinite(self.soft_high).any())

    @cached_property
    def below(self) -> NDArray[np.bool_]:
        """Which columns have a bound from below, (d,)."""
        return np.isfinite(self.low) | np.isfinite(self.least) | np.isfinite(self.soft_low)

    @cached_property
    def above(self) -> NDArray[np.bool_]:
        """Which columns have a bound from above, (d,)."""
        return np.isfinite(self.high) | np.isfinite(self.most) | np.isfinite(self.soft_high)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        if not (self.below | self.above).any():
            return np.zeros(len(y))
        worst, (low, high) = np.zeros(len(y)), self.bounds(x)
        if ((y >= low) & (y <= high)).all():
            return worst
        change = np.abs(y - x)
        for bound, sign in ((low, -1.0), (high, 1.0)):
            with np.errstate(invalid="ignore"):  # ∞ − ∞, where a point is infinite
                rounding = 8.0 * EPS * np.maximum(np.abs(x), np.abs(y))
                over = sign * (y - bound) - rounding
                # relative to the numbers, or to the changes where these are smaller
                size = np.maximum(np.abs(bound), np.abs(y))
                size = np.minimum(size, np.maximum(np.abs(bound - x), change))
            worst = np.maximum(worst, relative(over, size).max(axis=1, initial=0.0))
        return worst


@final
@dataclass(frozen=True, eq=False)
class Whole(Domain):
    """y − x is a whole number of steps, for these columns."""

    columns: IntArray  # (k,) encoded columns
    steps: FloatArray  # (k,) the size of one step, in feature units

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        delta = y[:, self.columns] - x[:, self.columns]
        distance = np.abs(delta - np.round(delta / self.steps) * self.steps)
        rounding = 4.0 * EPS * (np.abs(y[:, self.columns]) + np.abs(x[:, self.columns]))
        return np.asarray(
            (np.maximum(distance - rounding, 0.0) / self.steps).max(axis=1, initial=0.0)
        )


@final
@dataclass(frozen=True, eq=False)
class OneOf(Domain):
    """Exactly one of these columns is 1 and the others are 0: a category."""

    columns: slice  # the encoded columns of one categorical feature

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        block = y[:, self.columns]
        fractional = np.minimum(np.abs(block), np.abs(1.0 - block)).max(axis=1)
        return np.maximum(fractional, np.abs(block.sum(axis=1) - 1.0))


@final
@dataclass(frozen=True, eq=False)
class Transitions(Domain):
    """Which category may become which, for one categorical feature."""

    columns: slice  # the encoded columns of the feature, c of them
    allowed: NDArray[np.bool_]  # (c, c) boolean: row = the factual category, column = the new one

    def permitted(self, x: FloatArray) -> FloatArray:
        """Return 1 where the category may be chosen, else 0, (n, c)."""
        return np.asarray(self.allowed[x[:, self.columns].argmax(axis=1)], dtype=np.float64)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        over = y[:, self.columns] - self.permitted(x)
        return np.asarray(np.maximum(over, 0.0).max(axis=1))


@final
@dataclass(frozen=True, eq=False)
class AtMost(Domain):
    """At most ``count`` of the features differ between x and y."""

    count: int  # the largest number of changed features
    blocks: tuple[slice, ...]  # the encoded columns of each feature that counts

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        changed = self.changed(y, x).sum(axis=1)
        return np.maximum(changed - self.count, 0).astype(np.float64)

    def changed(self, y: FloatArray, x: FloatArray) -> NDArray[np.bool_]:
        """Return which features differ, (n, number of blocks)."""
        differs = y != x
        return np.stack([differs[:, block].any(axis=1) for block in self.blocks], axis=1)


INTEGRAL: tuple[type[Domain], ...] = (Whole, OneOf, AtMost)
"""The types of conditions that make a program's variables integral."""


@final
@dataclass(frozen=True, eq=False)
class MinimumChange(Domain):
    """y ends at least a margin beyond each threshold that lies between x and y.

    A value up to a threshold is on its lower side. A threshold counts as passed where rounding
    leaves doubt; a column that does not change passes none. Margins are met up to the rounding of
    float32, in which many models compare: half a step beyond 2.5 is 3.
    """

    margins: FloatArray  # (d,) in feature units, 0 for none
    # of a model's k thresholds: the columns (k,), their values (k,), and how near to these a
    # comparison is in doubt (k,), in feature units; None until they are known
    thresholds: tuple[IntArray, FloatArray, FloatArray] | None = None

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        if self.thresholds is None:
            raise ValueError("The thresholds are not known; see Form.placed.")
        columns, threshold, doubt = self.thresholds
        with_margin = self.margins[columns] > 0.0
        columns, threshold = columns[with_margin], threshold[with_margin]
        doubt = doubt[with_margin]
        before, after, margins = x[:, columns], y[:, columns], self.margins[columns]
        rises = (after > before) & (before <= threshold) & (after > threshold - doubt)
        falls = (after < before) & (before > threshold)
        falls &= np.where(doubt > 0.0, after < threshold + doubt, after <= threshold)
        low, high = self.beyond(threshold, margins)
        short = np.where(rises, low - after, np.where(falls, after - high, 0.0))
        return np.asarray((np.maximum(short, 0.0) / margins).max(axis=1, initial=0.0))

    @staticmethod
    def beyond(at: FloatArray, margins: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least values that are a margin above thresholds, and the largest below."""
        with np.errstate(invalid="ignore"):  # of a threshold at infinity
            distance = margins - float(np.finfo(np.float32).eps) * (np.abs(at) + margins)
            return at + distance, at - distance


@final
@dataclass(frozen=True, eq=False)
class LinearBounds(Coupling):
    """low <= A y <= high, row by row.

    Multipliers are signed: positive for the upper side of a row, negative for the lower.
    """

    matrix: FloatArray  # (m, d) the rows A
    # low, high: (m,) bounds, infinite where there is none
    low: FloatArray
    high: FloatArray
    # (m,) by how many score units a row's bounds close in for each unit of margin; 0 for
    # constraints, which are no part of a target
    margin_coefficient: FloatArray = field(default_factory=lambda: np.zeros(0))
    # (m,) the same for the margin that only ties need: 1 for a row at which a tie is lost
    tie_coefficient: FloatArray = field(default_factory=lambda: np.zeros(0))
    # (m,) 1 for the rows of `ChangeBounds`, low <= A (y − x) <= high, and 0 for the others
    of_change: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bounds = np.atleast_1d(np.asarray(getattr(self, name), dtype=np.float64))
            object.__setattr__(self, name, bounds)
        object.__setattr__(self, "matrix", np.atleast_2d(np.asarray(self.matrix, dtype=np.float64)))
        for name in ("margin_coefficient", "tie_coefficient", "of_change"):
            if len(getattr(self, name)) != len(self.matrix):
                object.__setattr__(self, name, np.zeros(len(self.matrix)))

    @property
    def normals(self) -> FloatArray:
        return self.matrix

    def take(self, rows: slice) -> LinearBounds:
        """Return some of the rows."""
        return LinearBounds(*(getattr(self, field.name)[rows] for field in fields(self)))

    def stacked(self, other: LinearBounds) -> LinearBounds:
        """Return the rows of both."""
        names = (field.name for field in fields(self))
        return LinearBounds(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))

    def cut(self, multipliers: FloatArray) -> Cut:
        weights, offsets = self.cut_weights(multipliers)
        offset = np.asarray(offsets.sum(axis=1))
        size = np.abs(offsets).sum(axis=1)
        # A row, and its bound, may be a difference of two rows, which was itself rounded once.
        normal, count = weights @ self.matrix, self.size + 1
        return Cut(normal, offset, np.abs(weights), self.sizes, count, gamma(count + 2) * size)

    def moved(self, cut: Cut, multipliers: FloatArray, x: FloatArray) -> Cut:
        """Return the cut at x (n, d), given the `cut` of the same multipliers.

        The limit of A y in a row about the change is high + A x, which `cut` does not know.
        """
        weights = self.cut_weights(multipliers)[0] * self.of_change
        offset = (weights * (x @ self.matrix.T)).sum(axis=1)
        size = (np.abs(weights) * (np.abs(x) @ self.sizes.T)).sum(axis=1)
        offset_error = gamma(x.shape[1] + self.size + 4) * (size + np.abs(cut.offset))
        return cut._replace(
            offset=cut.offset + offset, offset_error=cut.offset_error + offset_error
        )

    def cut_weights(self, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of the rows, and weight · limit, (n, m); 0 for a missing side."""
        above, high, below, low = self._sides
        if not below.any():  # as in most targets; this is quicker
            up = np.maximum(multipliers, 0.0) * above
            return up, up * high
        weights = np.clip(multipliers, -LARGEST * below, LARGEST * above)
        return weights, weights * np.where(weights > 0.0, high, low)

    @cached_property
    def _sides(self) -> tuple[BoolArray, FloatArray, BoolArray, FloatArray]:
        """Which upper bounds there are, (m,), and these or 0; the same of the lower ones."""
        above, below = np.isfinite(self.high), np.isfinite(self.low)
        return above, np.where(above, self.high, 0.0), below, np.where(below, self.low, 0.0)

    def start(self, x: FloatArray) -> FloatArray:
        """Return the values (n, m) of the rows at x itself: 0 for those about the change."""
        return np.asarray((x @ self.matrix.T) * (1.0 - self.of_change))

    def limits(self, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds (n, m), closed in by margins (n, 2), at most until they meet."""
        shift = self.closed_in(margin)
        return self.low + shift, self.high - shift

    def tightened(self, margin: FloatArray) -> LinearBounds:
        """Return the same rows with bounds closed in by a (1, 2) margin."""
        low, high = self.limits(margin)
        return replace(self, low=low[0], high=high[0])

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """Return by how much margins (n, 2), see `Batch`, close in each row's bounds, (n, m)."""
        return np.minimum(margin @ self._closing, self.room)

    @cached_property
    def _closing(self) -> FloatArray:
        """(2, m) `margin_coefficient` and `tie_coefficient`."""
        return np.stack([self.margin_coefficient, self.tie_coefficient])

    def ties_resolved(self, units: FloatArray) -> LinearBounds:
        """Return rows that exclude lost ties by their limits, for points of a lattice.

        Over columns that are multiples of their units, the values of a row are multiples of one
        number, its gap. So an upper limit at which a tie would be lost moves down by half a gap,
        and the row needs no margin for ties. Rows for which that is not exact stay as they are.
        Units are (d,), 0 for a column that may have any value.
        """
        largest = 0.5 / UNIT  # whole numbers below it are exact
        # in units of the last binary place all terms of a row are whole numbers
        terms = np.ldexp(self.matrix * units, BINARY_PLACES)
        limit = np.ldexp(np.where(np.isfinite(self.high), self.high, 0.0), BINARY_PLACES)
        exact = (terms == np.rint(terms)).all(axis=1) & (np.abs(terms).sum(axis=1) < largest)
        exact &= (limit == np.rint(limit)) & (np.abs(limit) < largest)
        on_lattice = ~self.matrix[:, units == 0].any(axis=1)
        loses_ties = (self.tie_coefficient > 0.0) & np.isneginf(self.low) & np.isfinite(self.high)
        rows = np.flatnonzero(exact & on_lattice & loses_ties)
        gap = np.gcd.reduce(terms[rows].astype(np.int64), axis=1)
        rows, gap = rows[gap > 0], gap[gap > 0]
        high, ties = np.array(self.high), np.array(self.tie_coefficient)
        tied = np.fmod(limit[rows], gap) == 0.0
        high[rows[tied]] -= np.ldexp(gap[tied].astype(np.float64), -BINARY_PLACES - 1)
        ties[rows] = 0.0  # limits that are no multiple of the gap are at no tie
        return replace(self, high=high, tie_coefficient=ties)

    @cached_property
    def room(self) -> FloatArray:
        """How far each row's bounds can close in before they meet, (m,)."""
        return np.asarray(np.maximum((self.high - self.low) / 2.0, 0.0))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        moved = self.of_change * (x @ self.matrix.T)
        value, before = y @ self.matrix.T - moved, self.start(x)
        weight = np.abs(self.matrix.T)
        terms = (np.abs(y) + np.abs(x)) @ weight
        change = np.abs(y - x) @ weight
        least_size = self._least_size(y)
        worst = np.zeros(len(y))
        for after, start, limit in ((value, before, self.high), (-value, -before, -self.low)):
            with np.errstate(invalid="ignore"):
                over = after - limit - 16.0 * EPS * terms
                # relative to the terms, or to the changes where these are smaller
                size = np.minimum(terms + np.abs(limit), change + np.abs(limit - start))
                size = np.maximum(size, least_size)
            worst = np.maximum(worst, relative(over, size).max(axis=1, initial=0.0))
        return worst

    def _least_size(self, y: FloatArray) -> FloatArray | float:
        """Return what violations of rows about the change are at least relative to, (n, m).

        Such a row is known to the last digits of the values only. The last digit of a fraction that
        float32 holds is an eighth of the violation that counts as rounding there, see `SINGLE`.
        """
        if not self.of_change.any():
            return 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            in_float32 = (y == y.astype(np.float32)) & (y != np.rint(y))
        terms = np.where(in_float32, np.abs(y), 0.0) @ np.abs(self.matrix.T)
        return np.asarray(self.of_change * terms / 8.0)


@final
@dataclass(frozen=True, eq=False)
class ChangeBounds(Condition):
    """low <= A (y − x) <= high, row by row: linear bounds on the change.

    It has a type of its own because not every solver knows rows whose limits move with x.
    """

    rows: LinearBounds  # with `of_change` 1

    @classmethod
    def equation(cls, row: FloatArray) -> ChangeBounds:
        """Return the condition that changes, weighted by a row (d,), add up to 0."""
        return cls(LinearBounds(row[None], np.zeros(1), np.zeros(1), of_change=np.ones(1)))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return self.rows.violation(y, x)


@final
@dataclass(frozen=True, eq=False)
class HalfSpaces(Sequence[Region]):
    """Regions of one linear row each, whose union is a target; each is made when indexed."""

    rows: LinearBounds

    def __len__(self) -> int:
        return self.rows.size

    @overload
    def __getitem__(self, s: int) -> Region: ...
    @overload
    def __getitem__(self, s: slice) -> HalfSpaces: ...
    def __getitem__(self, s: int | slice) -> Region | HalfSpaces:
        if isinstance(s, slice):
            return HalfSpaces(self.rows.take(s))
        s = range(len(self))[s]  # beyond the end there is none
        return Region((self.rows.take(slice(s, s + 1)),))


@final
@dataclass(frozen=True, eq=False)
class Cone(Coupling):
    """‖M y + c‖₂ <= slope · y + radius: a ball, an ellipsoid, or a cone that opens along its slope.

    Multipliers u (m,), and with a slope one more, t, give uᵀ(M y + c) <= t′ (slope · y + radius)
    with t′ = max(t, ‖u‖) (Cauchy–Schwarz; the right side of the cone is never negative).
    """

    matrix: FloatArray  # (m, d)
    offset: FloatArray  # (m,)
    radius: float  # positive if there is no slope
    slope: FloatArray = field(default_factory=lambda: np.zeros(0))  # (d,); zeros by default
    # by how many score units a unit of margin lowers the radius; 0 for a constraint, which is no
    # part of a target
    margin_coefficient: float = 0.0
    # the same for the margin that only ties need: 1 where a tie is lost
    tie_coefficient: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.slope):
            object.__setattr__(self, "slope", np.zeros(self.matrix.shape[1]))

    @cached_property
    def normals(self) -> FloatArray:
        """(size, d) the normal that each multiplier weighs."""
        return np.vstack([self.matrix, -self.slope]) if self.slope.any() else self.matrix

    def cut(self, multipliers: FloatArray) -> Cut:
        u, m = multipliers[:, : len(self.matrix)], len(self.matrix)
        t, offset_weights = self._heights(multipliers), np.abs(u)
        offset = t * self.radius - u @ self.offset
        size = np.abs(t * self.radius) + offset_weights @ np.abs(self.offset)
        sloping = bool(self.slope.any())
        weights = np.column_stack([offset_weights, t]) if sloping else offset_weights
        normal = u @ self.matrix - t[:, None] * self.slope
        return Cut(normal, offset, weights, self.sizes, m + 2, gamma(m + 4) * size)

    def _heights(self, multipliers: FloatArray) -> FloatArray:
        """Return t′ (n,), which is at least ‖u‖ however that was rounded."""
        u, m = multipliers[:, : len(self.matrix)], len(self.matrix)
        length = np.linalg.norm(u, axis=1) * (1.0 + gamma(m + 4))
        # with a slope the last multiplier is t
        return np.asarray(np.maximum(length, multipliers[:, -1] if self.slope.any() else 0.0))

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """Return by how much margins (n, 2), see `Batch`, lower the radius, (n,)."""
        return np.asarray(margin @ np.array([self.margin_coefficient, self.tie_coefficient]))

    def tightened(self, margin: FloatArray) -> Cone:
        """Return the same cone with its radius lowered by a (1, 2) margin."""
        return replace(self, radius=self.radius - float(self.closed_in(margin)[0]))

    def excess(self, y: FloatArray) -> FloatArray:
        """Return by how much points miss it, in score units, (n,); negative where they do not."""
        length = np.linalg.norm(y @ self.matrix.T + self.offset, axis=1)
        return np.asarray(length - y @ self.slope - self.radius)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(x)
        terms = np.linalg.norm(reach @ np.abs(self.matrix.T) + np.abs(self.offset), axis=1)
        limit = reach @ np.abs(self.slope) + abs(self.radius)
        over = self.excess(y) - 8.0 * EPS * (terms + limit)
        return relative(over, terms + limit if self.slope.any() else limit)


class CutOracle(Condition):
    """A convex condition that is known only by half-spaces that contain it: it has no own duality.

    A family solves programs with the few half-spaces that matter, and adds others where points
    miss the condition.
    """

    @abstractmethod
    def excess(self, y: FloatArray) -> FloatArray:
        """Return by how much points miss it, in score units, (n,); negative where they do not."""

    @abstractmethod
    def supports(self, y: FloatArray) -> tuple[FloatArray, LinearBounds]:
        """Return the excess (n,) of points, and for each a half-space that it misses by as much."""

    @abstractmethod
    def first(self) -> LinearBounds:
        """Return half-spaces to begin with; there may be none."""
