"""Nearer to one prototype than to another, each with a metric of its own; and what that proves.

Such conditions e_j(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 are quadratic and not convex. Still,
with multipliers λ >= 0, and normal · y <= offset, which follows from everything else,

    price(y − x) + Σ λ_j e_j(y) + normal · y − offset  <=  price(y − x)

at every point of the region, and the least of the left side over the domain is a lower bound on the
price wherever the left side is convex. With one condition and a quadratic price there are
multipliers without a gap (the S-lemma). A column between bounds has another multiplier τ >= 0, of
(y_j − low_j)(y_j − high_j) <= 0, which bends the sum upwards; in a one-hot block, whose entries are
0 or 1, that is 0 and τ has any sign.

An absolute price has no curvature, but its square has: for any r with |r_ij| <= 1 and r_ii = 1,

    (Σ w_j |δ_j|)² = Σ w_i w_j |δ_i δ_j|  >=  Σ r_ij w_i w_j δ_i δ_j,

and the bound is the square root of that for the right side. The r are multipliers too, one for each
pair of columns.

The left side is a `Lagrangian` L. Where its curvature is at least t B over the columns that can
move, for a diagonal B and t > 0,

    L(y) >= L(z) + ∇L(z) · (y − z) + t (y − z)ᵀB(y − z)

whatever z is. The right side is a sum over columns, whose least over a domain is exact: whole
steps, categories and bounds included. It is the least of L itself if z is that.
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

MET = 1e-13
"""The largest relative violation of a quadratic condition that is rounding."""
PAIRED = 64
"""The largest number of columns whose pairs have multipliers."""


@final
@dataclass(frozen=True, eq=False)
class QuadraticDifference(NonConvex):
    """‖F y + f‖² <= ‖H y + h‖² + limit.

    ``matrix``, ``offset``: (k, d) F and (k,) f: what y is near to; ``rival``, ``rival_offset``: (l,
    d) H and (l,) h: what it is farther from; ``limit``: a number; ``margin_coefficient``: by how
    many score units a unit of margin lowers the limit; 0 for what is a constraint and no part of a
    target; ``tie_coefficient``: the same for the margin that only ties need: 1 where a tie is lost.
    """

    matrix: FloatArray
    offset: FloatArray
    rival: FloatArray
    rival_offset: FloatArray
    limit: float
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
        return self._alone.misses(y, np.zeros((1, 2)))[:, 0]

    def duality(self, program: Program) -> Curvature:
        return Curvature(program)


@final
class Quadrics:
    """The excesses e_j(y) = ‖F_j y + f_j‖² − ‖H_j y + h_j‖² − limit_j of J conditions.

    They are differences of the squared lengths ‖A_g y + a_g‖² of M maps: `signs` (J, M) is 1 for
    the one to be near to, `near_of` (J,), and −1 for its rival. Conditions on one prototype share F
    and f.
    """

    def __init__(self, conditions: Sequence[QuadraticDifference], d: int) -> None:
        self.conditions = tuple(conditions)
        # Conditions on one prototype share its map, so that its distance is computed once.
        keys = [(c.matrix.tobytes(), c.offset.tobytes()) for c in conditions]
        prototypes = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        self.near_of = np.array([prototypes[key] for key in keys], dtype=np.intp)
        self.nearest = [keys.index(key) for key in prototypes]
        """The first condition on each prototype."""
        maps = [(conditions[j].matrix, conditions[j].offset) for j in self.nearest]
        maps += [(c.rival, c.rival_offset) for c in conditions]
        self.signs = np.eye(len(maps))[self.near_of] - np.eye(len(maps))[len(prototypes) :]
        self._absolute_signs = np.abs(self.signs)
        # Maps with fewer rows than others are filled up with zeros.
        k = max((len(a) for _, a in maps), default=1)
        self.maps, self._offset = np.zeros((len(maps), k, d)), np.zeros((len(maps), k))
        for g, (matrix, offset) in enumerate(maps):
            self.maps[g, : len(offset)], self._offset[g, : len(offset)] = matrix, offset
        self._flat = self.maps.reshape(-1, d).T
        self.limits = np.array([c.limit for c in conditions])
        rates = [[c.margin_coefficient, c.tie_coefficient] for c in conditions]
        self._margin_effects = np.array(rates).reshape(-1, 2)
        self._gamma = gamma(k + d + 2)  # of one entry of a map
        self.depth = len(maps) * k + 2 * (k + d) + 2 * len(conditions) + 12
        """Number of roundings in a weighted sum of excesses, or of their slopes or curvatures."""

    def __len__(self) -> int:
        return len(self.conditions)

    @cached_property
    def columns(self) -> BoolArray:
        """(d,) the columns that have an effect on any of them."""
        return np.asarray(self.maps.any(axis=(0, 1)))

    @cached_property
    def forms(self) -> FloatArray:
        """(J, d, d) the curvatures Q_j = F_jᵀF_j − H_jᵀH_j."""
        forms = np.matmul(self.maps.transpose(0, 2, 1), self.maps)
        return np.tensordot(self.signs, forms, axes=1)

    @cached_property
    def sizes(self) -> FloatArray:
        """(J, d, d) the sums of the sizes of the terms of Q_j."""
        absolute = np.abs(self.maps)
        sizes = np.matmul(absolute.transpose(0, 2, 1), absolute)
        return np.tensordot(self._absolute_signs, sizes, axes=1)

    def _seen(self, y: FloatArray) -> FloatArray:
        return np.asarray((y @ self._flat).reshape(len(y), *self._offset.shape) + self._offset)

    def excess(self, y: FloatArray, margin: FloatArray | None = None) -> FloatArray:
        """(n, J) by how much points miss each condition, with (n, 2) margins, in score units."""
        seen = self._seen(y)
        excess = np.einsum("igk,igk->ig", seen, seen) @ self.signs.T - self.limits
        return np.asarray(excess if margin is None else excess + self.closed_in(margin))

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n, J) by how much (n, 2) margins lower the limits."""
        return np.asarray(margin @ self._margin_effects.T)

    def misses(self, y: FloatArray, margin: FloatArray) -> FloatArray:
        """(n, J) `excess`, relative to the size of its terms; 0 where that is rounding."""
        seen = self._seen(y)
        squares = np.einsum("igk,igk->ig", seen, seen)
        excess = squares @ self.signs.T - self.limits + self.closed_in(margin)
        size = squares @ self._absolute_signs.T + np.abs(self.limits)
        return relative(excess - 16.0 * EPS * size, size)

    def slopes(self, y: FloatArray) -> FloatArray:
        """(n, J, d) the gradients of the excesses."""
        return self.steepness(y)[0]

    def steepness(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, J, d) the gradients of the excesses, and the sizes of their two terms."""
        slopes = 2.0 * np.einsum("igk,gkj->igj", self._seen(y), self.maps)
        return np.matmul(self.signs, slopes), np.matmul(self._absolute_signs, np.abs(slopes))

    def expanded(self, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, ...]:
        """Return Σ weights_j e_j, the sizes of its terms, its slope, and those of its terms.

        The weights are not negative.
        """
        width, seen, terms = self._flat.shape[1], self._seen(y), np.abs(y) @ np.abs(self._flat)
        terms = terms.reshape(seen.shape) + np.abs(self._offset)
        squares = np.einsum("igk,igk->ig", seen, seen)
        # What A_g y + a_g may lose where its terms cancel, as it enters the square.
        cancelled = (2.0 * np.abs(seen) + self._gamma * terms) * terms
        sizes = squares + cancelled.sum(axis=2)
        signed, absolute = weights @ self.signs, weights @ self._absolute_signs
        slope, slope_size = seen * signed[:, :, None], terms * absolute[:, :, None]
        return (
            np.einsum("ij,ij->i", signed, squares) - weights @ self.limits,
            np.einsum("ij,ij->i", absolute, sizes) + weights @ np.abs(self.limits),
            2.0 * slope.reshape(len(y), width) @ self._flat.T,
            2.0 * slope_size.reshape(len(y), width) @ np.abs(self._flat.T),
        )


@final
@dataclass(frozen=True, eq=False)
class Lagrangian:
    """L(y) = value + slope · δ + δᵀ(form)δ with δ = y − x, for n rows, and the sizes of its terms.

    ``value`` (n,), ``slope`` (n, d), ``form`` (n, d, d): sums, each of which is worth
    ``roundings``; ``doubt``: (n,) by how much the value may be off besides; ``base``: (d,) the
    diagonal of B, in whose units curvatures are; positive.
    """

    cases: Batch
    value: FloatArray
    slope: FloatArray
    form: FloatArray
    value_size: FloatArray
    slope_size: FloatArray
    form_size: FloatArray
    roundings: int
    doubt: FloatArray
    base: FloatArray

    @cached_property
    def _scale(self) -> FloatArray:
        """(n, d) the units of changes; 0 for columns that cannot move."""
        return np.where(self.cases.low < self.cases.high, 1.0 / np.sqrt(self.base), 0.0)

    @cached_property
    def noise(self) -> FloatArray:
        """(n,) by how much rounding may move an eigenvalue of the curvature."""
        sizes = _scaled(self.form_size, self._scale)
        return np.asarray(gamma(self.roundings) * np.sqrt((sizes**2).sum(axis=(1, 2))))

    @cached_property
    def floor(self) -> FloatArray:
        """(n,) t with a curvature of at least t B over the columns that can move."""
        bend = _scaled(self.form, self._scale)
        finite = np.isfinite(bend).all(axis=(1, 2)) & np.isfinite(self.noise)
        lowest = np.linalg.eigvalsh(np.where(finite[:, None, None], bend, 0.0))[:, 0]
        return np.where(finite, lowest - np.where(finite, self.noise, 0.0), -np.inf)

    def lowest(self, start: FloatArray) -> FloatArray:
        """(n, d) the change at which L is about least between the bounds, if it is convex."""
        low, high = self.cases.low - self.cases.x, self.cases.high - self.cases.x
        start = np.where(np.isfinite(start), start, self.cases.x) - self.cases.x
        delta, held_before = np.minimum(np.maximum(start, low), high), None
        for _ in range(5):  # steps of Newton's method between the bounds
            slope = self.slope + 2.0 * _along(self.form, delta)
            held = ((delta <= low) & (slope >= 0.0)) | ((delta >= high) & (slope <= 0.0))
            free = np.where(held, 0.0, self._scale)
            bend = _scaled(self.form, free)
            bend += self.noise[:, None, None] * np.eye(len(self.base))
            try:
                step = np.linalg.solve(bend, (slope * free)[:, :, None])[:, :, 0] * free
            except np.linalg.LinAlgError:
                break
            delta = np.minimum(np.maximum(delta - 0.5 * np.nan_to_num(step), low), high)
            if held_before is not None and (held == held_before).all():
                break
            held_before = held
        return delta

    def least(
        self, domain: SeparableDomain, delta: FloatArray, floor: FloatArray, base: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) a lower bound over the domain on L, if L − floor Σ base δ² is convex.

        That is replaced by its tangent at changes (n, d); (n,) the sizes of its terms. Where base
        is 0 and a column has no bound, a slope that rounding may leave of a sum counts as 0.
        """
        bent, size = floor[:, None] * base * delta, np.abs(delta)
        pulled = _along(self.form, delta) - bent
        pulled_size = _along(self.form_size, size) + np.abs(bent)
        value = self.value - dots(pulled, delta)
        value_size = self.value_size + dots(pulled_size, size)
        slope, slope_size = self.slope + 2.0 * pulled, self.slope_size + 2.0 * pulled_size
        error = gamma(self.roundings)
        is_open = np.isinf(self.cases.low) | np.isinf(self.cases.high)
        faint = is_open & (base == 0.0) & (np.abs(slope) <= max(128.0 * UNIT, error) * slope_size)
        slope, slope_size = (np.where(faint, 0.0, each) for each in (slope, slope_size))
        numeric = domain.numeric  # δ² is |δ| in a one-hot block
        diagonal = Diagonal(np.where(numeric, 0.0, base), np.where(numeric, base, 0.0))
        share = 1.0 / floor[:, None]
        sizes = Sizes(slope_size * share, None, self.roundings)
        below, rounding = domain.lower(diagonal, slope * share, self.cases, sizes)
        rounding = rounding * floor * (1.0 + 4.0 * UNIT) + self.doubt
        rounding += error * (value_size + np.abs(below) * floor) + TINY
        return value + below * floor - rounding, value_size


def _along(forms: FloatArray, delta: FloatArray) -> FloatArray:
    """(n, d) each row times its form."""
    return np.matmul(delta[:, None, :], forms)[:, 0, :]


def _scaled(forms: FloatArray, scale: FloatArray) -> FloatArray:
    """(n, d, d) forms in units (n, d); the identity on columns whose unit is 0."""
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
    """What the multipliers of a program's quadratic conditions prove."""
    duality = program.duality.nonconvex
    return duality if isinstance(duality, Curvature) else Curvature(program)


@final
class Curvature(NonConvexDuality):
    """Bounds by the curvature of a program's quadratic conditions."""

    def __init__(self, program: Program) -> None:
        self.program, self.encoded_cost, self.domain = program, program.encoded_cost, program.domain
        conditions = [c for c in program.nonconvex if isinstance(c, QuadraticDifference)]
        for cone in (c for c in program.region if isinstance(c, Cone) and _is_ball(c)):
            none = np.zeros((0, program.width)), np.zeros(0)  # no rival bends it
            conditions.append(QuadraticDifference(cone.matrix, cone.offset, *none, cone.radius**2))
        self.quadrics = Quadrics(conditions, program.width)
        self.bounded = np.flatnonzero(
            (program.domain.box.below & program.domain.box.above) | ~program.domain.numeric
        )
        """The columns with bounds on both sides, and those of one-hot groups."""
        self.is_absolute = not self.encoded_cost.quadratic.any()
        """Whether the price is absolute alone, so that its square is what curves."""
        paired = self.is_absolute and program.width <= PAIRED
        self.pairs = np.triu_indices(program.width if paired else 0, 1)
        """The pairs i < j of columns that have a multiplier."""

    @property
    def columns(self) -> BoolArray:
        return self.quadrics.columns

    @property
    def size(self) -> int:
        return len(self.quadrics) + len(self.bounded) + len(self.pairs[0])

    @cached_property
    def _other_conditions(self) -> Region:
        """What the program asks beside quadratic conditions, rows and bounds."""
        types = (QuadraticDifference, LinearBounds, Box)
        return Region(tuple(c for c in self.program.region if not isinstance(c, types)))

    def meets(self, points: FloatArray, cases: Batch) -> BoolArray:
        """(n,): which points meet the program with the margins, but for rounding."""
        inside = (cases.low <= points) & (points <= cases.high)
        out: BoolArray = np.asarray(inside.all(axis=1))
        y, inside_cases = (points, cases) if out.all() else (points[out], cases.take(out))
        satisfied = (self.quadrics.misses(y, inside_cases.margin) <= MET).all(axis=1)
        affine = self.program.affine
        if affine.size:
            low, high = affine.limits(inside_cases.margin)
            along, terms = y @ affine.matrix.T, np.abs(y) @ np.abs(affine.matrix.T)
            for over, limit in ((along - high, high), (low - along, low)):
                size = terms + np.abs(np.where(np.isfinite(limit), limit, 0.0))
                satisfied &= (relative(over, size) <= 10.0 * MET).all(axis=1)
        out[out] = satisfied & (self._other_conditions.violation(y, inside_cases.x) <= 10.0 * MET)
        return out

    def tightened(self, margin: FloatArray) -> Region:
        demands = (c for c in self.quadrics.conditions if c.margin_coefficient or c.tie_coefficient)
        return Region(tuple(c.tightened(margin) for c in demands))

    @cached_property
    def form(self) -> FloatArray:
        """(d, d) a quadratic form below the price; (w_i w_j), if the price is absolute.

        In a one-hot block |δ| is δ², for δ is −1, 0 or 1.
        """
        absolute, quadratic = self.encoded_cost.absolute, self.encoded_cost.quadratic
        if self.is_absolute:
            return np.outer(absolute, absolute)
        full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
        return np.asarray(full + np.diag(np.where(self.domain.numeric, 0.0, absolute)))

    @cached_property
    def base(self) -> FloatArray:
        """(d,) the curvature of each column's price; that of the conditions where it has none."""
        diagonal = np.diag(self.form)
        return np.where(diagonal > 0.0, diagonal, self._condition_base)

    @cached_property
    def _condition_base(self) -> FloatArray:
        diagonal = np.einsum("jkk->k", self.quadrics.sizes)
        return np.where(diagonal > 0.0, diagonal, diagonal.max(initial=0.0) or 1.0)

    def bound(
        self, cases: Batch, multipliers: FloatArray, cut: Cut, at: FloatArray | None
    ) -> FloatArray:
        """(n,) lower bounds on the price at every point of the region; 0 where there is none.

        The multipliers are the λ and the τ, of which negative ones count as 0 but for one-hot
        columns; then, for an absolute price, the r_ij, i < j row by row, which are cut to −1 … 1.
        The λ, the τ and what made the cut are in units of the price; of its square, if it is
        absolute. About ``at`` the least is looked for.
        """
        out = np.zeros(len(cases.x))
        cost = self.form * self._ratios(multipliers) if self.is_absolute else self.form[None]
        rows, whole = self._weighed(cases, multipliers, cut, self.base, cost)
        if not len(rows):
            return out
        convex = whole.floor > 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            delta = whole.lowest(whole.cases.x if at is None else at[rows])
            floor = np.where(convex, whole.floor, 1.0)
            least, _ = whole.least(self.domain, delta, floor, self.base)
        least = np.where(convex & np.isfinite(least), np.maximum(least, 0.0), 0.0)
        out[rows] = np.sqrt(least) * (1.0 - 8.0 * UNIT) if self.is_absolute else least
        return out

    def refutes(self, cases: Batch, multipliers: FloatArray, cut: Cut) -> BoolArray:
        """(n,): whether Σ λ_j e_j + normal · y − offset is convex and positive throughout.

        A curvature that may be rounding counts as 0. On columns without bounds, positive then means
        up to a thousand times as far away as the row itself; and by more than 1e-12 of the terms.
        """
        out, base = np.zeros(len(cases.x), dtype=bool), self._condition_base
        rows, plain = self._weighed(cases, multipliers, cut, base, np.zeros((1, *self.form.shape)))
        if not len(rows):
            return out
        x, none = plain.cases.x, np.zeros(len(base))
        with np.errstate(over="ignore", invalid="ignore"):
            delta = plain.lowest(x)
            least, size = plain.least(self.domain, delta, np.ones(len(rows)), none)
            width = plain.cases.high - plain.cases.low
            reach = np.where(np.isfinite(width), width, 1e3 * (np.abs(x + delta) + np.abs(x)))
            bent = np.where(plain.floor > 0.0, 0.0, 2.0 * plain.noise) * ((reach * reach) @ base)
            out[rows] = (least > 1e-12 * size + bent) & (plain.floor >= -2.0 * plain.noise)
        return out

    def _weighed(
        self,
        cases: Batch,
        multipliers: FloatArray,
        cut: Cut,
        base: FloatArray,
        cost: FloatArray,
    ) -> tuple[IntArray, Lagrangian]:
        """The rows with multipliers, and what these and (n, d, d) or (1, d, d) prices add up to."""
        quadrics, which = self.quadrics, self.bounded
        count, d = len(quadrics), len(base)
        weights = np.maximum(multipliers[:, :count], 0.0)
        sane = np.abs(multipliers).max(axis=1, initial=0.0) <= 1e100  # so that nothing overflows
        sane &= np.isfinite(cut.offset) & np.isfinite(cut.normal).all(axis=1)
        rows = np.flatnonzero(weights.any(axis=1) & sane & ~cases.empty)
        if len(rows) < len(sane):
            cases, cut, weights = cases.take(rows), cut.take(rows), weights[rows]
            cost = cost if len(cost) == 1 else cost[rows]
        x, terms = cases.x, cut.weights @ cut.normals
        value, value_size, slope, slope_size = quadrics.expanded(x, weights)
        value += dots(cut.normal, x) - cut.offset
        value_size += dots(terms, np.abs(x)) + np.abs(cut.offset)
        slope += cut.normal
        slope_size += terms
        form = cost + np.tensordot(weights, quadrics.forms, axes=1)
        form_size = np.abs(cost) + np.tensordot(weights, quadrics.sizes, axes=1)
        # Σ τ (y − low)(y − high) = Σ τ (δ + below)(δ + above)
        one_hot, at = ~self.domain.numeric[which], x[:, which]
        tau = multipliers[rows, count : count + len(which)]
        tau = np.where(one_hot, tau, np.maximum(tau, 0.0))
        below = at - np.where(one_hot, 0.0, cases.low[:, which])
        above = at - np.where(one_hot, 1.0, cases.high[:, which])
        value += (tau * below * above).sum(axis=1)
        value_size += np.abs(tau * below * above).sum(axis=1)
        slope[:, which] += tau * (below + above)
        slope_size[:, which] += np.abs(tau) * (np.abs(below) + np.abs(above))
        form[:, which, which] += tau
        form_size[:, which, which] += np.abs(tau)
        roundings = cut.roundings + quadrics.depth + 10 * d + 6 + LIBRARY
        sizes = value_size, slope_size, form_size
        return rows, Lagrangian(cases, value, slope, form, *sizes, roundings, cut.doubt, base)

    def _ratios(self, multipliers: FloatArray) -> FloatArray:
        d = len(self.encoded_cost.absolute)
        ratios = np.zeros((len(multipliers), d, d))
        first = len(self.quadrics) + len(self.bounded)
        ratios[:, *self.pairs] = np.clip(multipliers[:, first:], -1.0, 1.0)
        return np.asarray(ratios + ratios.transpose(0, 2, 1) + np.eye(d))
