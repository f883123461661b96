"""What multipliers of quadratic conditions prove, though the conditions are not convex.

With multipliers λ >= 0 of the conditions e_j(y) <= 0 (`Nearer`), and normal · y <= offset, which
follows from everything else,

    price(y − x) + Σ λ_j e_j(y) + normal · y − offset  <=  price(y − x)

at every point of the region, and the least of the left side over the domain is a lower bound on the
price wherever the left side is convex. With one condition and a quadratic price there are
multipliers without a gap (the S-lemma). A column between bounds has another multiplier τ >= 0, of
(y_j − low_j)(y_j − high_j) <= 0, which bends the sum upwards; in a one-hot block, whose entries are
0 or 1, that is 0 and τ has any sign.

An absolute price has no curvature, but its square has: for any r with |r_ij| <= 1 and r_ii = 1,

    (Σ w_j |δ_j|)² = Σ w_i w_j |δ_i δ_j|  >=  Σ r_ij w_i w_j δ_i δ_j,

and the bound is the square root of that for the right side. The r are multipliers too, one for each
pair of columns. At a stationary point δ of price c, there are slopes s of the price, |s_j| <= 1,
with 2c w_j s_j = −∇_j(Σ λ_j e_j + normal · y); with r_ij = s_i s_j wherever i or j has moved, both
sides agree there to the first order.

The left side is a Lagrangian L. Where its curvature is at least t B over the columns that can move,
for a diagonal B and t > 0,

    L(y) >= L(z) + ∇L(z) · (y − z) + t (y − z)ᵀB(y − z)

whatever z is. The right side is a sum over columns, whose least over a domain is exact: whole
steps, categories and bounds included. It is the least of L itself if z is that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Price
from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cut, NonConvexDuality, Region
from counterpoint.engine.separable import Diagonal, SeparableDomain
from counterpoint.numerics import LIBRARY, TINY, UNIT, Sizes, gamma
from counterpoint.prototypes.nearer import Quadrics

__all__ = ["Curvature", "Lagrangian", "curvature_of", "quadrics_of"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

LARGEST = 1e100
"""Multipliers beyond prove nothing, so that nothing overflows."""
PAIRED = 64
"""The largest number of columns whose pairs have multipliers."""
CANCELLED = 128 * UNIT
"""What is left of a sum that cancels, relative to the size of its terms."""
TURNS = 5
"""Steps of Newton's method between the bounds at most."""
POSITIVE = 1e-12
"""What a positive least must exceed besides what rounding may add to it, relative to the size of
its terms."""
AFAR = 1e3
"""Where no curvature is left, positive means up to so many times as far away as the row itself."""


@final
@dataclass(frozen=True, eq=False)
class Curvature(NonConvexDuality):
    """Bounds by the curvature of a program's quadratic conditions.

    ``price``: what a change costs; ``domain``: what else each column may be; ``bounded``: the
    columns with bounds on both sides, and those of one-hot groups.
    """

    price: Price
    quadrics: Quadrics
    domain: SeparableDomain
    bounded: IntArray

    @classmethod
    def of(cls, program: Program, quadrics: Quadrics) -> Curvature:
        """That of a program with these conditions."""
        bounded = np.flatnonzero((program.box.below & program.box.above) | ~program.numeric)
        return cls(program.price, quadrics, program.domain, bounded)

    @property
    def columns(self) -> BoolArray:
        return self.quadrics.columns

    def tightened(self, margin: FloatArray) -> Region:
        demands = (c for c in self.quadrics.conditions if c.tight or c.lost)
        return Region(tuple(c.tightened(margin) for c in demands))

    def bound(
        self,
        cases: Cases,
        multipliers: FloatArray,
        cut: Cut,
        at: FloatArray | None,
        margin: FloatArray | None = None,
    ) -> FloatArray:
        """(n,) lower bounds on the price at every point of the region; 0 where there is none.

        The multipliers are the λ and the τ, of which negative ones count as 0 but for one-hot
        columns; then, for an absolute price, the r_ij, i < j row by row, which are cut to −1 … 1.
        The λ, the τ and what made the cut are in units of the price; of its square, if it is
        absolute. About ``at`` the least is looked for; there an absolute price has the slopes s.
        """
        out = np.zeros(len(cases))
        if margin is not None:
            weights = np.maximum(multipliers[:, : len(self.quadrics)], 0.0)
            more = np.einsum("ij,ij->i", weights, self.quadrics.closed_in(margin))
            cut = cut._replace(offset=cut.offset - more)
        rows, plain = self._weighed(cases, multipliers, cut, self.base)
        if not len(rows):
            return out
        start = plain.inside(plain.cases.x if at is None else at[rows])
        if not self.is_absolute:
            out[rows] = np.maximum(plain.priced(self.form).least(start), 0.0)
            return out
        ratios = self._ratios(multipliers[rows])
        square = plain.priced(self.form * ratios).least(start)
        if at is not None:
            sloping = self._sloping(plain, start, ratios)
            square = np.maximum(square, plain.priced(self.form * sloping).least(start))
        out[rows] = np.sqrt(np.maximum(square, 0.0)) * (1.0 - 8.0 * UNIT)
        return out

    def refutes(self, cases: Cases, multipliers: FloatArray, cut: Cut) -> BoolArray:
        """(n,): whether the multipliers prove that no point of the region exists.

        They do if Σ λ_j e_j + normal · y − offset is convex and positive throughout the domain.
        """
        out = np.zeros(len(cases), dtype=bool)
        rows, plain = self._weighed(cases, multipliers, cut, self._own_base)
        if len(rows):
            out[rows] = plain.is_positive(plain.inside(plain.cases.x))
        return out

    def _weighed(
        self, cases: Cases, multipliers: FloatArray, cut: Cut, base: FloatArray
    ) -> tuple[IntArray, Lagrangian]:
        """The rows with multipliers, and what these add up to without a price."""
        weights = np.maximum(multipliers[:, : len(self.quadrics)], 0.0)
        sane = np.abs(multipliers).max(axis=1, initial=0.0) <= LARGEST
        sane &= np.isfinite(cut.offset) & np.isfinite(cut.normal).all(axis=1)
        rows = np.flatnonzero(weights.any(axis=1) & sane & ~cases.empty)
        part, cut = cases.take(rows), cut.take(rows)
        terms = cut.weights @ cut.normals
        form = np.zeros((1, len(base), len(base)))
        if len(self.bounded):
            form, more = self._within(part, multipliers[rows])
            terms = terms + more.weights
            cut = cut._replace(
                normal=cut.normal + more.normal,
                offset=cut.offset + more.offset,
                roundings=cut.roundings + more.roundings,
                doubt=cut.doubt + more.doubt,
            )
        cut = cut._replace(weights=terms, normals=np.eye(len(base)))
        return rows, Lagrangian(self.quadrics, self.domain, part, weights[rows], cut, form, base)

    def _within(self, cases: Cases, multipliers: FloatArray) -> tuple[FloatArray, Cut]:
        """(n, d, d) A, and b and c, with Σ τ (y − low)(y − high) = δᵀA δ + b · y − c."""
        first, d = len(self.quadrics), len(self.price.absolute)
        given = multipliers[:, first : first + len(self.bounded)]
        one_hot = ~self.domain.numeric[self.bounded]
        tau, low, high = np.zeros((3, len(cases), d))
        tau[:, self.bounded] = np.where(one_hot, given, np.maximum(given, 0.0))
        low[:, self.bounded] = np.where(one_hot, 0.0, cases.low[:, self.bounded])
        high[:, self.bounded] = np.where(one_hot, 1.0, cases.high[:, self.bounded])
        form = np.zeros((len(cases), d, d))
        form[:, np.arange(d), np.arange(d)] = tau
        slope = tau * ((cases.x - low) + (cases.x - high))
        here = tau * (cases.x - low) * (cases.x - high)
        terms = np.abs(tau) * (np.abs(cases.x - low) + np.abs(cases.x - high))
        size = (np.abs(here) + terms * np.abs(cases.x)).sum(axis=1)
        offset = np.asarray((slope * cases.x - here).sum(axis=1))
        return form, Cut(slope, offset, terms, np.eye(d), 6, gamma(d + 6) * size)

    @cached_property
    def is_absolute(self) -> bool:
        """Whether the price is absolute alone, so that its square is what curves."""
        return not self.price.quadratic.any()

    @property
    def size(self) -> int:
        """The number of its multipliers: of conditions, bounded columns, and pairs of columns."""
        return len(self.quadrics) + len(self.bounded) + len(self.pairs[0])

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The pairs i < j of columns that have a multiplier: none unless the price is absolute."""
        d = len(self.price.absolute)
        return np.triu_indices(d if self.is_absolute and d <= PAIRED else 0, 1)

    @cached_property
    def form(self) -> FloatArray:
        """(d, d) a quadratic form below the price; (w_i w_j), if the price is absolute.

        In a one-hot block |δ| is δ², for δ is −1, 0 or 1.
        """
        if self.is_absolute:
            return np.outer(self.price.absolute, self.price.absolute)
        quadratic = self.price.quadratic
        full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
        return np.asarray(full + np.diag(np.where(self.domain.numeric, 0.0, self.price.absolute)))

    @cached_property
    def base(self) -> FloatArray:
        """(d,) the curvature of each column's price; that of the conditions where it has none."""
        diagonal = np.diag(self.form)
        return np.where(diagonal > 0.0, diagonal, self._own_base)

    @cached_property
    def _own_base(self) -> FloatArray:
        diagonal = np.einsum("jkk->k", self.quadrics.sizes)
        return np.where(diagonal > 0.0, diagonal, diagonal.max(initial=0.0) or 1.0)

    def _ratios(self, multipliers: FloatArray) -> FloatArray:
        """(n, d, d) the r_ij that are multipliers."""
        d = len(self.price.absolute)
        ratios = np.zeros((len(multipliers), d, d))
        first = len(self.quadrics) + len(self.bounded)
        ratios[:, *self.pairs] = np.clip(multipliers[:, first:], -1.0, 1.0)
        return np.asarray(ratios + ratios.transpose(0, 2, 1) + np.eye(d))

    def _sloping(self, plain: Lagrangian, y: FloatArray, ratios: FloatArray) -> FloatArray:
        """(n, d, d) the same, but s_i s_j at points y: for columns that have moved, or for all."""
        delta, weight = y - plain.cases.x, self.price.absolute
        with np.errstate(divide="ignore", invalid="ignore"):
            s = -plain.slope(y) / (2.0 * self.price(delta)[:, None] * weight)
        s = np.clip(np.nan_to_num(s), -1.0, 1.0)
        moved = (delta != 0.0) | (not len(self.pairs[0]))
        either = moved[:, :, None] | moved[:, None, :]
        mixed = np.where(either, s[:, :, None] * s[:, None, :], ratios)
        diagonal = np.arange(len(weight))
        mixed[:, diagonal, diagonal] = 1.0
        return np.asarray(mixed)


def curvature_of(program: Program) -> Curvature:
    """What the multipliers of a program's quadratic conditions prove."""
    found = program.nonconvex_duality
    assert isinstance(found, Curvature)  # noqa: S101 (solvers here take programs with `Nearer`)
    return found


def quadrics_of(program: Program) -> Quadrics:
    """A program's quadratic conditions, evaluated together; there may be none."""
    if not program.nonconvex:
        return Quadrics((), program.width)
    return curvature_of(program).quadrics


@final
@dataclass(frozen=True, eq=False)
class Lagrangian:
    """L for some rows.

    ``quadrics``, ``domain``: the conditions e_j, and what else each column may be; ``cases``: the
    rows, n of them, each with a point in their bounds; ``weights``: (n, J) the λ, none of them
    negative; ``cut``: normal and offset; its weights (n, d) are the sizes of the terms of each
    entry; ``price``: (n, d, d) or (1, d, d); ``base``: (d,) the diagonal of B, in whose units
    curvatures are; positive.
    """

    quadrics: Quadrics
    domain: SeparableDomain
    cases: Cases
    weights: FloatArray
    cut: Cut
    price: FloatArray
    base: FloatArray

    def priced(self, price: FloatArray) -> Lagrangian:
        """The same with a (d, d) or (n, d, d) price besides."""
        return replace(self, price=self.price + price)

    def inside(self, y: FloatArray) -> FloatArray:
        """Points moved between the bounds; x where there is none."""
        low, high = self._bounds
        return np.minimum(np.maximum(np.where(np.isfinite(y), y, self.cases.x), low), high)

    def slope(self, y: FloatArray) -> FloatArray:
        """(n, d) ∇L."""
        paid = np.einsum("ij,ijk->ik", y - self.cases.x, self._prices)
        return np.asarray(2.0 * paid + self.quadrics.slope(y, self.weights) + self.cut.normal)

    def least(self, start: FloatArray) -> FloatArray:
        """(n,) a lower bound on L over the domain; −inf where L is not convex, or there is none.

        ``start``: (n, d) where to begin to look for its least.
        """
        convex = self._floor > 0.0
        if not convex.any():
            return np.full(len(start), -np.inf)
        floor = np.where(convex, self._floor, 1.0)
        z = self._lowest(start)
        value, size = self._value(z)
        slope, delta = self.slope(z), z - self.cases.x
        slope_size = self._slope_size(z)
        bent = 2.0 * floor[:, None] * self.base * np.abs(delta)
        tilted = (slope - 2.0 * floor[:, None] * self.base * delta) / floor[:, None]
        sizes = Sizes((slope_size + bent) / floor[:, None], None, self._roundings)
        below, lost = self.domain.lower(self._diagonal, tilted, self.cases, sizes)
        here = ((floor[:, None] * self.base * delta - slope) * delta).sum(axis=1)
        size = size + ((bent + slope_size) * np.abs(delta)).sum(axis=1) + np.abs(below) * floor
        lost = self.cut.doubt + lost * floor * (1.0 + 4.0 * UNIT)
        lost += gamma(self._roundings) * size + TINY
        with np.errstate(invalid="ignore"):
            bound = value + below * floor + here - lost
        return np.where(convex & np.isfinite(bound), bound, -np.inf)

    def is_positive(self, start: FloatArray) -> BoolArray:
        """(n,): whether L is convex, and positive throughout the domain.

        On columns without a bound, entries of its slope that are no more than what rounding leaves
        of a sum that cancels count as 0, and so does such a curvature; see `POSITIVE` and `AFAR`.
        """
        z = self._lowest(start)
        value, size = self._value(z)
        slope, delta = self.slope(z), z - self.cases.x
        slope_size = self._slope_size(z)
        open_ = np.isinf(self.cases.low) | np.isinf(self.cases.high)
        cancelled = max(CANCELLED, gamma(self._roundings))
        faint = open_ & (np.abs(slope) <= cancelled * slope_size)
        slope = np.where(faint, 0.0, slope)
        none = np.zeros(len(self.base))
        sizes = Sizes(np.where(faint, 0.0, slope_size), None, self._roundings)
        below, lost = self.domain.lower(Diagonal(none, none), slope, self.cases, sizes)
        below -= np.einsum("ij,ij->i", slope, delta)
        along = size + (slope_size * np.abs(delta)).sum(axis=1) + np.abs(value)
        lost += self.cut.doubt + gamma(self._roundings + 2) * along
        with np.errstate(invalid="ignore"):
            width = self.cases.high - self.cases.low
        reach = np.where(np.isfinite(width), width, AFAR * (np.abs(z) + np.abs(self.cases.x)))
        curved = np.where(self._floor > 0.0, 0.0, 2.0 * self._noise)
        size = POSITIVE * (size + np.abs(slope * delta).sum(axis=1))
        positive = value + below > lost + size + curved * ((reach * reach) @ self.base)
        return np.asarray(positive & (self._floor >= -2.0 * self._noise))

    @cached_property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """(n, d) least and largest values; the only category that is left of a group is chosen."""
        low, high = self.cases.low, self.cases.high
        for group in self.domain.groups:
            allowed = high[:, group] > 0.5
            only = allowed & (allowed.sum(axis=1) == 1)[:, None]
            if only.any():
                low = np.array(low)
                low[:, group] = np.where(only, high[:, group], low[:, group])
        return low, high

    @cached_property
    def _movable(self) -> BoolArray:
        return self._bounds[0] < self._bounds[1]

    @cached_property
    def _prices(self) -> FloatArray:
        return np.broadcast_to(self.price, (len(self.cases), *self.price.shape[1:]))

    @cached_property
    def _scale(self) -> FloatArray:
        """(n, d) the units of changes; 0 for columns that cannot move."""
        return np.where(self._movable, 1.0 / np.sqrt(self.base), 0.0)

    @cached_property
    def _bend(self) -> FloatArray:
        """(n, d, d) the curvature in these units; 1 for columns that cannot move."""
        form = self.price + self.quadrics.form(self.weights)
        form = form * self._scale[:, :, None] * self._scale[:, None, :]
        diagonal = np.arange(len(self.base))
        form[:, diagonal, diagonal] += ~self._movable
        return form

    @cached_property
    def _noise(self) -> FloatArray:
        """(n,) by how much rounding may move an eigenvalue of the curvature."""
        sizes = np.abs(self.price) + self.quadrics.size(self.weights)
        sizes = sizes * self._scale[:, :, None] * self._scale[:, None, :]
        share = gamma(self._roundings + 8 * len(self.base))
        return np.asarray(share * np.sqrt((sizes**2).sum(axis=(1, 2))))

    @cached_property
    def _floor(self) -> FloatArray:
        """(n,) t with a curvature of at least t B over the columns that can move."""
        known = np.isfinite(self._bend).all(axis=(1, 2)) & np.isfinite(self._noise)
        lowest = np.linalg.eigvalsh(np.where(known[:, None, None], self._bend, 0.0))[:, 0]
        return np.where(known, lowest - np.where(known, self._noise, 0.0), -np.inf)

    @property
    def _roundings(self) -> int:
        """How many roundings its value and its slope are worth."""
        return self.cut.roundings + self.quadrics.depth + 2 * len(self.base) + LIBRARY

    @cached_property
    def _diagonal(self) -> Diagonal:
        """Σ base δ², column by column; δ² is |δ| in a one-hot block."""
        numeric = self.domain.numeric
        return Diagonal(np.where(numeric, 0.0, self.base), np.where(numeric, self.base, 0.0))

    def _value(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) L at points, and the sum of the sizes of its terms."""
        delta = y - self.cases.x
        value, size = self.quadrics.total(y, self.weights)
        paid = np.einsum("ij,ijk->ik", delta, self._prices)
        value += (paid * delta + self.cut.normal * y).sum(axis=1) - self.cut.offset
        far = np.abs(delta)
        dear = np.einsum("ij,ijk->ik", far, np.abs(self._prices))
        size += (dear * far + self.cut.weights * np.abs(y)).sum(axis=1) + np.abs(self.cut.offset)
        return value, size

    def _slope_size(self, y: FloatArray) -> FloatArray:
        """(n, d) the sums of the sizes of the terms of the slope."""
        paid = np.einsum("ij,ijk->ik", np.abs(y - self.cases.x), np.abs(self._prices))
        size = self.quadrics.slope_size(y, self.weights)
        return np.asarray(2.0 * paid + size + self.cut.weights)

    def _lowest(self, y: FloatArray) -> FloatArray:
        """(n, d) about where L is least between the bounds, if it is convex."""
        low, high = self._bounds
        held_before = None
        for _ in range(TURNS):
            slope = self.slope(y)
            held = ((y <= low) & (slope >= 0.0)) | ((y >= high) & (slope <= 0.0))
            y = self.inside(y + self._newton(slope, held | ~self._movable))
            if held_before is not None and (held == held_before).all():
                break
            held_before = held
        return y

    def _newton(self, slope: FloatArray, held: BoolArray) -> FloatArray:
        """(n, d) the step to where the slope is 0 on the columns that are not held."""
        free = ~held
        bend = self._bend * free[:, :, None] * free[:, None, :]
        diagonal = np.arange(len(self.base))
        bend[:, diagonal, diagonal] += held + self._noise[:, None]
        right = np.where(free, slope * self._scale, 0.0)
        try:
            step = np.linalg.solve(bend, right[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            return np.zeros_like(slope)
        return np.asarray(-0.5 * np.nan_to_num(step) * self._scale)
