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

The left side is a `Lagrangian`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.families.prototypes.lagrangian import Lagrangian, Quadrics
from counterpoint.numerics import (
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    gamma,
    relative,
)
from counterpoint.programs.conditions import Box, LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases, Cut, NonConvex, NonConvexDuality, Region

__all__ = ["Curvature", "QuadraticDifference", "curvature_of"]

MET = 1e-13
"""The largest relative violation of a quadratic condition that is rounding."""
PAIRED = 64
"""The largest number of columns whose pairs have multipliers."""


@final
@dataclass(frozen=True, eq=False)
class QuadraticDifference(NonConvex):
    """‖F y + f‖² <= ‖H y + h‖² + limit.

    ``matrix``, ``offset``: (k, d) F and (k,) f: what y is near to; ``rival``, ``rival_offset``: (l,
    d) H and (l,) h: what it is farther from; ``limit``: A number; ``tight``: by how many score
    units a unit of margin lowers the limit; 0 for what is a constraint and no part of a target;
    ``lost``: the same for the margin that only ties need: 1 where a tie is lost.
    """

    matrix: FloatArray
    offset: FloatArray
    rival: FloatArray
    rival_offset: FloatArray
    limit: float
    tight: float = 0.0
    lost: float = 0.0

    def tightened(self, margin: FloatArray) -> QuadraticDifference:
        """The same with its limit lowered by a (1, 2) margin."""
        return replace(self, limit=self.limit - float(margin[0] @ (self.tight, self.lost)))

    @cached_property
    def _alone(self) -> Quadrics:
        return Quadrics((self,), self.matrix.shape[1])

    def excess(self, y: FloatArray) -> FloatArray:
        return self._alone.excess(y)[:, 0]

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return self._alone.misses(y, np.zeros((1, 2)))[:, 0]

    def duality(self, program: Program) -> Curvature:
        return Curvature(program)


def curvature_of(program: Program) -> Curvature:
    """What the multipliers of a program's quadratic conditions prove."""
    duality = program.nonconvex_duality
    return duality if isinstance(duality, Curvature) else Curvature(program)


@final
class Curvature(NonConvexDuality):
    """Bounds by the curvature of a program's quadratic conditions."""

    def __init__(self, program: Program) -> None:
        self.program, self.encoded_cost, self.domain = program, program.encoded_cost, program.domain
        conditions = [c for c in program.nonconvex if isinstance(c, QuadraticDifference)]
        self.quadrics = Quadrics(conditions, program.width)
        self.bounded = np.flatnonzero((program.box.below & program.box.above) | ~program.numeric)
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
    def _others(self) -> Region:
        """What the program asks beside quadratic conditions, rows and bounds."""
        types = (QuadraticDifference, LinearBounds, Box)
        return Region(tuple(c for c in self.program.region if not isinstance(c, types)))

    def meets(self, points: FloatArray, cases: Cases) -> BoolArray:
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
        out[out] = satisfied & (self._others.violation(y, inside_cases.x) <= 10.0 * MET)
        return out

    def tightened(self, margin: FloatArray) -> Region:
        demands = (c for c in self.quadrics.conditions if c.tight or c.lost)
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
        return np.where(diagonal > 0.0, diagonal, self._own_base)

    @cached_property
    def _own_base(self) -> FloatArray:
        diagonal = np.einsum("jkk->k", self.quadrics.sizes)
        return np.where(diagonal > 0.0, diagonal, diagonal.max(initial=0.0) or 1.0)

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
        absolute. About ``at`` the least is looked for.
        """
        out = np.zeros(len(cases.x))
        if margin is not None:
            weights = np.maximum(multipliers[:, : len(self.quadrics)], 0.0)
            gained = np.einsum("ij,ij->i", weights, self.quadrics.closed_in(margin))
            cut = cut._replace(offset=cut.offset - gained)
        encoded_cost = self.form * self._ratios(multipliers) if self.is_absolute else self.form
        rows, whole = self._weighed(cases, multipliers, cut, self.base, encoded_cost)
        if len(rows):
            least = np.maximum(whole.least(whole.cases.x if at is None else at[rows]), 0.0)
            out[rows] = np.sqrt(least) * (1.0 - 8.0 * UNIT) if self.is_absolute else least
        return out

    def refutes(self, cases: Cases, multipliers: FloatArray, cut: Cut) -> BoolArray:
        """(n,): whether Σ λ_j e_j + normal · y − offset is convex and positive throughout."""
        out = np.zeros(len(cases.x), dtype=bool)
        none = np.zeros((len(self._own_base),) * 2)
        rows, plain = self._weighed(cases, multipliers, cut, self._own_base, none)
        if len(rows):
            out[rows] = plain.is_positive(plain.cases.x)
        return out

    def _weighed(
        self,
        cases: Cases,
        multipliers: FloatArray,
        cut: Cut,
        base: FloatArray,
        encoded_cost: FloatArray,
    ) -> tuple[IntArray, Lagrangian]:
        """The rows with multipliers, and what these and a (d, d) or (n, d, d) price add up to."""
        count = len(self.quadrics)
        weights = np.maximum(multipliers[:, :count], 0.0)
        sane = np.abs(multipliers).max(axis=1, initial=0.0) <= 1e100  # so that nothing overflows
        sane &= np.isfinite(cut.offset) & np.isfinite(cut.normal).all(axis=1)
        chosen = weights.any(axis=1) & sane & ~cases.empty
        rows, chosen_cases = np.flatnonzero(chosen), cases
        if not chosen.all():
            chosen_cases, cut = cases.take(rows), cut.take(rows)
        terms = cut.weights @ cut.normals
        form = np.zeros((1, len(base), len(base)))
        if len(self.bounded):
            # Σ τ (y − low)(y − high) = δᵀ(τ)δ + slope · y − offset
            which, d = self.bounded, len(base)
            one_hot, x = ~self.domain.numeric[which], chosen_cases.x[:, which]
            tau = multipliers[rows, count : count + len(which)]
            tau = np.where(one_hot, tau, np.maximum(tau, 0.0))
            below = x - np.where(one_hot, 0.0, chosen_cases.low[:, which])
            above = x - np.where(one_hot, 1.0, chosen_cases.high[:, which])
            slope, constant = tau * (below + above), tau * below * above
            size = np.abs(tau) * (np.abs(below) + np.abs(above))
            form = np.zeros((len(rows), d, d))
            form[:, which, which] = tau
            normal = np.array(cut.normal)
            normal[:, which] += slope
            terms[:, which] += size
            rounded = (np.abs(constant) + size * np.abs(x)).sum(axis=1)
            cut = cut._replace(
                normal=normal,
                offset=cut.offset + (slope * x - constant).sum(axis=1),
                roundings=cut.roundings + 6,
                doubt=cut.doubt + gamma(d + 6) * rounded,
            )
        cut = cut._replace(weights=terms, normals=np.eye(len(base)))
        form = form + (encoded_cost if encoded_cost.ndim == 2 else encoded_cost[rows])
        return rows, Lagrangian(
            self.quadrics, self.domain, chosen_cases, weights[rows], cut, form, base
        )

    def _ratios(self, multipliers: FloatArray) -> FloatArray:
        """(n, d, d) the r_ij that are multipliers."""
        d = len(self.encoded_cost.absolute)
        ratios = np.zeros((len(multipliers), d, d))
        first = len(self.quadrics) + len(self.bounded)
        ratios[:, *self.pairs] = np.clip(multipliers[:, first:], -1.0, 1.0)
        return np.asarray(ratios + ratios.transpose(0, 2, 1) + np.eye(d))
