"""Lagrangians with quadratic conditions: where they are convex, and how low they get.

L(y) = δᵀ(price)δ + Σ λ_j e_j(y) + normal · y − offset, with δ = y − x. Where its curvature is at
least t B over the columns that can move, for a diagonal B and t > 0,

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

from counterpoint.engine.cases import Cases
from counterpoint.engine.region import Cut
from counterpoint.engine.separable import Diagonal, SeparableDomain
from counterpoint.prototypes.quadrics import Quadrics
from counterpoint.rounding import LIBRARY, SMALLEST, UNIT, Sizes, gamma

__all__ = ["Lagrangian"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

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
class Lagrangian:
    """L for some rows.

    Parameters
    ----------
    quadrics, domain
        The conditions e_j, and what else each column may be.
    cases
        The people, n of them, each with a point in their bounds.
    weights
        (n, J) the λ, none of them negative.
    cut
        Normal and offset; its weights (n, d) are the sizes of the terms of each entry.
    price
        (n, d, d) or (1, d, d).
    base
        (d,) the diagonal of B, in whose units curvatures are; positive.
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

        Parameters
        ----------
        start
            (n, d) where to begin to look for its least.
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
        lost += gamma(self._roundings) * size + SMALLEST
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
