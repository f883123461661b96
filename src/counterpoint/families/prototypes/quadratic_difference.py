"""Bound the cost of points that are nearer to one prototype than to others, by weak duality.

If prototypes have metrics of their own, the conditions e_j(y) = ‖F y + f‖² − ‖H y + h‖² − limit
<= 0 are quadratic and not convex. Still, with multipliers λ >= 0, and normal · y <= offset, which
follows from all other conditions,

    L(y)  =  cost(y − x) + Σ λ_j e_j(y) + normal · y − offset  <=  cost(y − x)

at every point of the region. Where L is convex, its least over the domain is a lower bound on the
cost. With one condition and a quadratic cost some λ leaves no gap (the S-lemma). A column between
bounds has another multiplier τ >= 0, of (y_j − low_j)(y_j − high_j) <= 0, which bends L upwards; in
a one-hot block, whose entries are 0 or 1, that product is 0 and τ has any sign.

An absolute cost has no curvature, but its square has: for any r with |r_ij| <= 1 and r_ii = 1,

    (Σ w_j |δ_j|)² = Σ w_i w_j |δ_i δ_j|  >=  Σ r_ij w_i w_j δ_i δ_j,

so the right side takes the place of the cost in L, and the root of the least of L is the bound. The
r are multipliers too, one for each pair of columns.

`Lagrangian` finds the least of L. Where the curvature of L is at least t B over the columns that
can move, for a diagonal B and t > 0,

    L(y) >= L(z) + ∇L(z) · (y − z) + t (y − z)ᵀB(y − z)

whatever z is. The right side is a sum over columns, whose least over a domain is exact: whole
steps, categories and bounds included. If z minimises L, both sides have the same least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.numerics import (
    EPS,
    LIBRARY,
    TINY,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    Sizes,
    dots,
    gamma,
    relative,
)
from counterpoint.programs.conditions import Box, Cone, LinearBounds
from counterpoint.programs.duality import NonConvexDuality
from counterpoint.programs.program import NonConvex, Program
from counterpoint.programs.region import Batch, Cut, Region
from counterpoint.programs.separable import Diagonal, SeparableDomain


@final
@dataclass(frozen=True, eq=False)
class QuadraticDifference(NonConvex):
    """‖F y + f‖² <= ‖H y + h‖² + limit: y is nearer to one prototype than to its rival."""

    matrix: FloatArray  # (k, d) F
    offset: FloatArray  # (k,) f
    rival: FloatArray  # (l, d) H
    rival_offset: FloatArray  # (l,) h
    limit: float
    # By how much a unit of margin lowers the limit; 0 for a constraint, which is no part of a
    # target. Then the same for the margin that only ties need: 1 where a tie is lost, else 0.
    margin_coefficient: float = 0.0
    tie_coefficient: float = 0.0

    def tightened(self, margin: FloatArray) -> QuadraticDifference:
        """The same with its limit lowered by a (1, 2) margin."""
        rates = (self.margin_coefficient, self.tie_coefficient)
        return replace(self, limit=self.limit - float(margin[0] @ rates))

    @cached_property
    def _alone(self) -> Quadrics:
        return Quadrics((self,), self.matrix.shape[1])

    def excess(self, y: FloatArray) -> FloatArray:
        return self._alone.excess(y)[:, 0]

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return self._alone.relative_excess(y, np.zeros((1, 2)))[:, 0]

    def duality(self, program: Program) -> Curvature:
        return Curvature(program)


@final
class Quadrics:
    """The excesses e_j(y) = ‖F_j y + f_j‖² − ‖H_j y + h_j‖² − limit_j of J conditions.

    They are differences of squared lengths ‖A_m y + a_m‖² of M maps: first the maps F of the G
    different prototypes, since many conditions may be on one prototype; then the J maps H.

    Attributes
    ----------
    maps
        (M, k, d) A; maps with fewer rows than others are filled up with zeros.
    signs
        (J, M) 1 for the map of a condition's prototype, −1 for that of its rival, else 0.
    prototype_of
        (J,) the position of each condition's prototype.
    first_of
        For each prototype the first condition on it.
    limits
        (J,).
    roundings
        The number of roundings in a weighted sum of excesses, or of their slopes or curvatures.
    """

    def __init__(self, conditions: Sequence[QuadraticDifference], d: int) -> None:
        self.conditions = tuple(conditions)
        # Conditions with the same F and f are on one prototype: key → its position.
        keys = [(c.matrix.tobytes(), c.offset.tobytes()) for c in conditions]
        positions = {key: g for g, key in enumerate(dict.fromkeys(keys))}
        self.prototype_of = np.array([positions[key] for key in keys], dtype=np.intp)
        self.first_of = [keys.index(key) for key in positions]
        maps = [(conditions[j].matrix, conditions[j].offset) for j in self.first_of]
        maps += [(c.rival, c.rival_offset) for c in conditions]
        rival_of = np.arange(len(positions), len(maps))
        self.signs = np.eye(len(maps))[self.prototype_of] - np.eye(len(maps))[rival_of]
        self._absolute_signs = np.abs(self.signs)
        k = max((len(offset) for _, offset in maps), default=1)
        self.maps, self._offsets = np.zeros((len(maps), k, d)), np.zeros((len(maps), k))
        for m, (matrix, offset) in enumerate(maps):
            self.maps[m, : len(offset)], self._offsets[m, : len(offset)] = matrix, offset
        self._all_rows = self.maps.reshape(-1, d).T  # (d, M k), for one product with all maps
        self.limits = np.array([c.limit for c in conditions])
        rates = [[c.margin_coefficient, c.tie_coefficient] for c in conditions]
        self._margin_rates = np.array(rates).reshape(-1, 2)
        self._gamma = gamma(k + d + 2)  # of one entry of A y + a
        # Sums over all rows of maps, over the terms of the two factors of a square, and twice over
        # conditions; and a few products.
        self.roundings = len(maps) * k + 2 * (k + d) + 2 * len(conditions) + 12

    def __len__(self) -> int:
        return len(self.conditions)

    @cached_property
    def columns(self) -> BoolArray:
        """(d,) the columns that have an effect on any condition."""
        return np.asarray(self.maps.any(axis=(0, 1)))

    @cached_property
    def forms(self) -> FloatArray:
        """(J, d, d) the curvatures Q_j = F_jᵀF_j − H_jᵀH_j."""
        forms = np.matmul(self.maps.transpose(0, 2, 1), self.maps)
        return np.tensordot(self.signs, forms, axes=1)

    @cached_property
    def sizes(self) -> FloatArray:
        """(J, d, d) the sums of the absolute terms of the curvatures."""
        absolute = np.abs(self.maps)
        sizes = np.matmul(absolute.transpose(0, 2, 1), absolute)
        return np.tensordot(self._absolute_signs, sizes, axes=1)

    def _images(self, y: FloatArray) -> FloatArray:
        """(n, M, k) A y + a."""
        images = (y @ self._all_rows).reshape(len(y), *self._offsets.shape)
        return np.asarray(images + self._offsets)

    def excess(self, y: FloatArray, margin: FloatArray | None = None) -> FloatArray:
        """(n, J) by how much points miss each condition, with (n, 2) margins, in score units."""
        images = self._images(y)
        excess = np.einsum("nmk,nmk->nm", images, images) @ self.signs.T - self.limits
        return np.asarray(excess if margin is None else excess + self.closed_in(margin))

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n, J) by how much (n, 2) margins lower the limits."""
        return np.asarray(margin @ self._margin_rates.T)

    def relative_excess(self, y: FloatArray, margin: FloatArray) -> FloatArray:
        """(n, J) `excess`, relative to the size of its terms; 0 where that is rounding."""
        images = self._images(y)
        squares = np.einsum("nmk,nmk->nm", images, images)
        excess = squares @ self.signs.T - self.limits + self.closed_in(margin)
        size = squares @ self._absolute_signs.T + np.abs(self.limits)
        return relative(excess - 16.0 * EPS * size, size)

    def slopes(self, y: FloatArray) -> FloatArray:
        """(n, J, d) the gradients of the excesses."""
        return self.slopes_with_sizes(y)[0]

    def slopes_with_sizes(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, J, d) the gradients of the excesses, and the sizes of their two terms."""
        slopes = 2.0 * np.einsum("nmk,mkd->nmd", self._images(y), self.maps)
        return np.matmul(self.signs, slopes), np.matmul(self._absolute_signs, np.abs(slopes))

    def weighted_sum(self, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, ...]:
        """Return the value (n,) and the slope (n, d) of Σ weights_j e_j at points, and error sizes.

        The order is value, size, slope, size; rounding moves each by at most γ times its size. The
        weights (n, J) are not negative.
        """
        images, shape = self._images(y), (len(y), self._all_rows.shape[1])
        terms = (np.abs(y) @ np.abs(self._all_rows)).reshape(images.shape) + np.abs(self._offsets)
        squares = np.einsum("nmk,nmk->nm", images, images)
        # An entry of A y + a is off by γ · terms, so its square by γ times this, and by the
        # rounding of the square itself.
        square_sizes = squares + ((2.0 * np.abs(images) + self._gamma * terms) * terms).sum(axis=2)
        signed, absolute = weights @ self.signs, weights @ self._absolute_signs
        slopes, slope_sizes = images * signed[:, :, None], terms * absolute[:, :, None]
        return (
            np.einsum("ij,ij->i", signed, squares) - weights @ self.limits,
            np.einsum("ij,ij->i", absolute, square_sizes) + weights @ np.abs(self.limits),
            2.0 * slopes.reshape(shape) @ self._all_rows.T,
            2.0 * slope_sizes.reshape(shape) @ np.abs(self._all_rows.T),
        )


@final
@dataclass(frozen=True, eq=False)
class Lagrangian:
    """L(y) = value + slope · δ + δᵀ(form)δ with δ = y − x, for n rows, and a bound on its least.

    Curvatures are in units of a diagonal matrix B, those of the costs of columns.
    """

    cases: Batch
    value: FloatArray  # (n,)
    slope: FloatArray  # (n, d)
    form: FloatArray  # (n, d, d)
    # The sizes of the terms of which the three are sums, and how many roundings each sum is worth.
    value_size: FloatArray
    slope_size: FloatArray
    form_size: FloatArray
    roundings: int
    offset_error: FloatArray  # (n,) of the cut in ``value``, besides what these sizes bound
    base: FloatArray  # (d,) the diagonal of B, positive

    @cached_property
    def _scale(self) -> FloatArray:
        """(n, d) the changes with a curvature of 1 in B; 0 for columns that cannot move."""
        return np.where(self.cases.low < self.cases.high, 1.0 / np.sqrt(self.base), 0.0)

    @cached_property
    def eigenvalue_error(self) -> FloatArray:
        """(n,) by how much rounding may move an eigenvalue of the curvature."""
        sizes = _scaled(self.form_size, self._scale)
        return np.asarray(gamma(self.roundings) * np.sqrt((sizes**2).sum(axis=(1, 2))))

    @cached_property
    def least_curvature(self) -> FloatArray:
        """(n,) t with a curvature of at least t B over the columns that can move."""
        form, error = _scaled(self.form, self._scale), self.eigenvalue_error
        finite = np.isfinite(form).all(axis=(1, 2)) & np.isfinite(error)
        least = np.linalg.eigvalsh(np.where(finite[:, None, None], form, 0.0))[:, 0]
        return np.where(finite, least - np.where(finite, error, 0.0), -np.inf)

    def minimizer(self, start: FloatArray) -> FloatArray:
        """Return changes (n, d) about where L is least between the bounds, if L is convex.

        Newton's method, from the points ``start`` (n, d), on the columns that no bound stops. The
        lower bound on L is valid at any change, and sharp at the minimiser, so five steps must do.
        """
        low, high = self.cases.low - self.cases.x, self.cases.high - self.cases.x
        start = np.where(np.isfinite(start), start, self.cases.x) - self.cases.x
        delta, stopped_before = np.minimum(np.maximum(start, low), high), None
        for _ in range(5):
            slope = self.slope + 2.0 * _products(self.form, delta)
            # at a bound, and L would fall only beyond it
            stopped = ((delta <= low) & (slope >= 0.0)) | ((delta >= high) & (slope <= 0.0))
            scale = np.where(stopped, 0.0, self._scale)
            form = _scaled(self.form, scale)  # in units of B; the identity on stopped columns
            # A curvature that is 0 but for rounding may come out negative: this lifts it above 0.
            form += self.eigenvalue_error[:, None, None] * np.eye(len(self.base))
            try:
                step = np.linalg.solve(form, (slope * scale)[:, :, None])[:, :, 0] * scale
            except np.linalg.LinAlgError:
                break
            # Half of the step, for the second derivative is twice the form.
            delta = np.minimum(np.maximum(delta - 0.5 * np.nan_to_num(step), low), high)
            if stopped_before is not None and (stopped == stopped_before).all():
                break  # L is quadratic: one step is exact if no other column is stopped
            stopped_before = stopped
        return delta

    def lower_bound(
        self, domain: SeparableDomain, delta: FloatArray, curvature: FloatArray, base: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return (n,) lower bounds on L over the domain, and (n,) the sizes of their terms.

        L is split into ``curvature · Σ base_j δ_j²``, for positive numbers (n,), and the rest,
        which must be convex. The rest is replaced by its tangent at changes ``delta`` (n, d), and
        the sum is minimised column by column.
        """
        # The rest is value + slope · δ + δᵀRδ with R = form − diag(curvature · base), and its
        # tangent value − deltaᵀR delta + (slope + 2 R delta) · δ. ``rest_slope`` is R delta.
        parabola_slope, size = curvature[:, None] * base * delta, np.abs(delta)
        rest_slope = _products(self.form, delta) - parabola_slope
        rest_slope_size = _products(self.form_size, size) + np.abs(parabola_slope)
        value = self.value - dots(rest_slope, delta)
        value_size = self.value_size + dots(rest_slope_size, size)
        slope, slope_size = self.slope + 2.0 * rest_slope, self.slope_size + 2.0 * rest_slope_size
        error = gamma(self.roundings)
        # Without a bound and curvature any slope, however small, makes the least −∞: one that
        # rounding may leave of a sum counts as 0; 128 u is what solvers' multipliers leave.
        is_open = np.isinf(self.cases.low) | np.isinf(self.cases.high)
        negligible = np.abs(slope) <= max(128.0 * UNIT, error) * slope_size
        negligible &= is_open & (base == 0.0)
        slope = np.where(negligible, 0.0, slope)
        slope_size = np.where(negligible, 0.0, slope_size)
        numeric = domain.numeric  # δ² is |δ| in a one-hot block
        diagonal = Diagonal(np.where(numeric, 0.0, base), np.where(numeric, base, 0.0))
        # The domain minimises the sum of parabolas and tangent, divided by the curvature.
        scale = 1.0 / curvature[:, None]
        sizes = Sizes(slope_size * scale, None, self.roundings)
        least, rounding = domain.lower(diagonal, slope * scale, self.cases, sizes)
        rounding = rounding * curvature * (1.0 + 4.0 * UNIT) + self.offset_error
        rounding += error * (value_size + np.abs(least) * curvature) + TINY
        return value + least * curvature - rounding, value_size


def _products(forms: FloatArray, delta: FloatArray) -> FloatArray:
    """(n, d) each row of ``delta`` (n, d) times its own form (d, d)."""
    return np.matmul(delta[:, None, :], forms)[:, 0, :]


def _scaled(forms: FloatArray, scale: FloatArray) -> FloatArray:
    """(n, d, d) forms in units (n, d) of the columns; the identity on columns whose unit is 0."""
    scaled = forms * scale[:, :, None] * scale[:, None, :]
    diagonal = np.arange(scale.shape[1])
    scaled[:, diagonal, diagonal] += scale == 0.0
    return np.asarray(scaled)


def _is_ball(cone: Cone) -> bool:
    """Whether a cone is ‖M y + c‖ <= radius: a constraint, which no margin closes in."""
    return not (cone.slope.any() or cone.margin_coefficient or cone.tie_coefficient)


def is_quadratic(program: Program, accepts: frozenset[type]) -> bool:
    """Whether a program holds these types alone, quadratic conditions, and no cones but balls."""
    cones = (c for c in program.region if isinstance(c, Cone))
    accepted = program.condition_types <= accepts and bool(program.nonconvex)
    return accepted and all(map(_is_ball, cones))


def curvature_of(program: Program) -> Curvature:
    """Return the bound of a program with quadratic conditions; that of a cone alone, without."""
    duality = program.duality.nonconvex
    return duality if isinstance(duality, Curvature) else Curvature(program)


@final
class Curvature(NonConvexDuality):
    """Lower bounds on the cost of a program with quadratic conditions, from multipliers.

    The multipliers of a row are, one after the other, λ of the conditions, τ of columns between
    bounds and, for an absolute cost, r of pairs of columns.

    Attributes
    ----------
    quadrics
        The quadratic conditions, and balls, which are such conditions without a rival.
    bounded
        The columns with bounds on both sides, and those of one-hot groups: those with a τ.
    is_absolute
        Whether the cost is absolute alone, so that its square takes its place.
    pairs
        The pairs i < j of columns with an r, as two arrays of positions.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.encoded_cost, self.domain = program, program.encoded_cost, program.domain
        conditions = [c for c in program.nonconvex if isinstance(c, QuadraticDifference)]
        for ball in (c for c in program.region if isinstance(c, Cone) and _is_ball(c)):
            no_rival = np.zeros((0, program.width)), np.zeros(0)
            limit = ball.radius**2
            conditions.append(QuadraticDifference(ball.matrix, ball.offset, *no_rival, limit))
        self.quadrics = Quadrics(conditions, program.width)
        self.bounded = np.flatnonzero(
            (program.domain.box.below & program.domain.box.above) | ~program.domain.numeric
        )
        self.is_absolute = not self.encoded_cost.quadratic.any()
        paired = self.is_absolute and program.width <= 64  # there are width² / 2 pairs
        self.pairs = np.triu_indices(program.width if paired else 0, 1)

    @property
    def columns(self) -> BoolArray:
        return self.quadrics.columns

    @property
    def size(self) -> int:
        return len(self.quadrics) + len(self.bounded) + len(self.pairs[0])

    @cached_property
    def _other_conditions(self) -> Region:
        """The conditions of the program that are not quadratic, rows or bounds."""
        types = (QuadraticDifference, LinearBounds, Box)
        return Region(tuple(c for c in self.program.region if not isinstance(c, types)))

    def meets(self, points: FloatArray, cases: Batch) -> BoolArray:
        """(n,): which points meet the program with the margins, but for rounding.

        Bounds are met exactly, quadratic conditions to a tenth of what all others are granted.
        """
        rounding = 1e-13  # the largest relative violation that counts as such
        satisfied = np.asarray(((cases.low <= points) & (points <= cases.high)).all(axis=1))
        all_inside = bool(satisfied.all())
        y, inside = (points, cases) if all_inside else (points[satisfied], cases.take(satisfied))
        met = (self.quadrics.relative_excess(y, inside.margin) <= rounding).all(axis=1)
        affine = self.program.affine
        if affine.size:
            low, high = affine.limits(inside.margin)
            value, terms = y @ affine.matrix.T, np.abs(y) @ np.abs(affine.matrix.T)
            for excess, limit in ((value - high, high), (low - value, low)):
                size = terms + np.abs(np.where(np.isfinite(limit), limit, 0.0))
                met &= (relative(excess, size) <= 10.0 * rounding).all(axis=1)
        met &= self._other_conditions.violation(y, inside.x) <= 10.0 * rounding
        satisfied[satisfied] = met
        return satisfied

    def tightened(self, margin: FloatArray) -> Region:
        demands = (c for c in self.quadrics.conditions if c.margin_coefficient or c.tie_coefficient)
        return Region(tuple(c.tightened(margin) for c in demands))

    @cached_property
    def form(self) -> FloatArray:
        """(d, d) a quadratic form that is at most the cost; (w_i w_j) if the cost is absolute.

        In a one-hot block |δ| is δ², for δ is −1, 0 or 1.
        """
        absolute, quadratic = self.encoded_cost.absolute, self.encoded_cost.quadratic
        if self.is_absolute:
            return np.outer(absolute, absolute)
        full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
        return np.asarray(full + np.diag(np.where(self.domain.numeric, 0.0, absolute)))

    @cached_property
    def base(self) -> FloatArray:
        """(d,) the curvature of each column's cost; that of the conditions where it has none."""
        diagonal = np.diag(self.form)
        return np.where(diagonal > 0.0, diagonal, self._condition_base)

    @cached_property
    def _condition_base(self) -> FloatArray:
        diagonal = np.einsum("jkk->k", self.quadrics.sizes)
        return np.where(diagonal > 0.0, diagonal, diagonal.max(initial=0.0) or 1.0)

    def bound(
        self, cases: Batch, multipliers: FloatArray, cut: Cut, at: FloatArray | None
    ) -> FloatArray:
        """(n,) lower bounds on the cost at every point of the region; 0 where nothing is proved.

        Any multipliers will do: negative λ and τ count as 0, but for one-hot columns, and r beyond
        −1 … 1 as the nearer end. λ, τ and those behind the cut are in units of the cost; of its
        square, if it is absolute. The least is looked for near ``at`` (n, d).
        """
        bounds = np.zeros(len(cases.x))
        cost = self.form * self._ratios(multipliers) if self.is_absolute else self.form[None]
        rows, lagrangian = self._lagrangian(cases, multipliers, cut, self.base, cost)
        if not len(rows):
            return bounds
        convex = lagrangian.least_curvature > 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            delta = lagrangian.minimizer(lagrangian.cases.x if at is None else at[rows])
            curvature = np.where(convex, lagrangian.least_curvature, 1.0)
            least, _ = lagrangian.lower_bound(self.domain, delta, curvature, self.base)
        least = np.where(convex & np.isfinite(least), np.maximum(least, 0.0), 0.0)
        bounds[rows] = np.sqrt(least) * (1.0 - 8.0 * UNIT) if self.is_absolute else least
        return bounds

    def refutes(self, cases: Batch, multipliers: FloatArray, cut: Cut) -> BoolArray:
        """(n,): whether L without the cost is convex and positive, so that no point is possible.

        At points of the region L without the cost is not positive. A curvature that may be rounding
        counts as 0. On columns without bounds, positive then means up to a thousand times as far
        away as the row itself; and by more than 1e-12 of the terms.
        """
        refuted, base = np.zeros(len(cases.x), dtype=bool), self._condition_base
        no_cost = np.zeros((1, *self.form.shape))
        rows, lagrangian = self._lagrangian(cases, multipliers, cut, base, no_cost)
        if not len(rows):
            return refuted
        cases, error = lagrangian.cases, lagrangian.eigenvalue_error
        with np.errstate(over="ignore", invalid="ignore"):
            delta = lagrangian.minimizer(cases.x)
            # No parabola is split off (its base is 0): the tangent bounds all of L.
            curvature, no_parabola = np.ones(len(rows)), np.zeros(len(base))
            least, size = lagrangian.lower_bound(self.domain, delta, curvature, no_parabola)
            # Where the curvature may be rounding, it is at least −2 error, and L may fall below the
            # tangent by as much: 2 error · Σ base_j reach_j².
            width, distance = cases.high - cases.low, np.abs(cases.x + delta) + np.abs(cases.x)
            reach = np.where(np.isfinite(width), width, 1e3 * distance)
            is_curved = lagrangian.least_curvature > 0.0
            fall = np.where(is_curved, 0.0, 2.0 * error) * ((reach * reach) @ base)
            is_convex = lagrangian.least_curvature >= -2.0 * error
            refuted[rows] = (least > 1e-12 * size + fall) & is_convex
        return refuted

    def _lagrangian(
        self,
        cases: Batch,
        multipliers: FloatArray,
        cut: Cut,
        base: FloatArray,
        cost: FloatArray,
    ) -> tuple[IntArray, Lagrangian]:
        """Return the rows for which multipliers may prove something, and L for these.

        ``cost``: its forms, (n, d, d), or (1, d, d) for all rows.
        """
        quadrics, bounded = self.quadrics, self.bounded
        count, d = len(quadrics), len(base)
        weights = np.maximum(multipliers[:, :count], 0.0)
        usable = np.abs(multipliers).max(axis=1, initial=0.0) <= 1e100  # so that nothing overflows
        usable &= np.isfinite(cut.offset) & np.isfinite(cut.normal).all(axis=1)
        rows = np.flatnonzero(weights.any(axis=1) & usable & ~cases.empty)
        if len(rows) < len(usable):
            cases, cut, weights = cases.take(rows), cut.take(rows), weights[rows]
            cost = cost if len(cost) == 1 else cost[rows]
        x, normal_size = cases.x, cut.weights @ cut.normals
        value, value_size, slope, slope_size = quadrics.weighted_sum(x, weights)
        value += dots(cut.normal, x) - cut.offset
        value_size += dots(normal_size, np.abs(x)) + np.abs(cut.offset)
        slope += cut.normal
        slope_size += normal_size
        form = cost + np.tensordot(weights, quadrics.forms, axes=1)
        form_size = np.abs(cost) + np.tensordot(weights, quadrics.sizes, axes=1)
        # τ (y − low)(y − high) = τ (δ + above_low)(δ + above_high); one-hot columns are 0 or 1
        one_hot = ~self.domain.numeric[bounded]
        tau = multipliers[rows, count : count + len(bounded)]
        tau = np.where(one_hot, tau, np.maximum(tau, 0.0))
        above_low = x[:, bounded] - np.where(one_hot, 0.0, cases.low[:, bounded])
        above_high = x[:, bounded] - np.where(one_hot, 1.0, cases.high[:, bounded])
        value += (tau * above_low * above_high).sum(axis=1)
        value_size += np.abs(tau * above_low * above_high).sum(axis=1)
        slope[:, bounded] += tau * (above_low + above_high)
        slope_size[:, bounded] += np.abs(tau) * (np.abs(above_low) + np.abs(above_high))
        form[:, bounded, bounded] += tau
        form_size[:, bounded, bounded] += np.abs(tau)
        roundings = cut.roundings + quadrics.roundings + 10 * d + 6 + LIBRARY
        sizes = value_size, slope_size, form_size
        return rows, Lagrangian(
            cases, value, slope, form, *sizes, roundings, cut.offset_error, base
        )

    def _ratios(self, multipliers: FloatArray) -> FloatArray:
        """(n, d, d) r, symmetric, with 1 on the diagonal and 0 for pairs without a multiplier."""
        d = len(self.encoded_cost.absolute)
        ratios = np.zeros((len(multipliers), d, d))
        first = len(self.quadrics) + len(self.bounded)
        ratios[:, *self.pairs] = np.clip(multipliers[:, first:], -1.0, 1.0)
        return np.asarray(ratios + ratios.transpose(0, 2, 1) + np.eye(d))
