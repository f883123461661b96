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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Price
from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cut, NonConvexDuality, Region
from counterpoint.engine.separable import SeparableDomain
from counterpoint.prototypes.lagrangian import Lagrangian
from counterpoint.prototypes.quadrics import Quadrics
from counterpoint.rounding import UNIT, gamma

__all__ = ["Curvature", "curvature_of", "quadrics_of"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

LARGEST = 1e100
"""Multipliers beyond prove nothing, so that nothing overflows."""
PAIRED = 64
"""The largest number of columns whose pairs have multipliers."""


@final
@dataclass(frozen=True, eq=False)
class Curvature(NonConvexDuality):
    """Bounds by the curvature of a program's quadratic conditions.

    Parameters
    ----------
    price
        What a change costs.
    quadrics
        The conditions.
    domain
        What else each column may be.
    bounded
        The columns with bounds on both sides, and those of one-hot groups.
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

        Parameters
        ----------
        cases
            The people; their margin is not used.
        multipliers
            (n, size) any finite numbers: the λ and the τ, of which negative ones count as 0 but for
            one-hot columns; then, for an absolute price, the r_ij, i < j row by row, which are cut
            to −1 … 1. The λ, the τ and what made the cut are in units of the price; of its square,
            if it is absolute.
        cut
            Inequalities that all points of the region meet.
        at
            (n, d) points about which to look for the least, and at which an absolute price has the
            slopes s; None for x itself.
        margin
            (n, 2) by how much the conditions are closed in; None for not at all.
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
    """A program's quadratic conditions, evaluated together."""
    return curvature_of(program).quadrics
