"""What linear inequalities prove of a cost over a domain of columns that are free of each other.

With normal · y <= offset for all points y of a region, each of them costs at least

    min over the domain of  cost(y − x) + normal · y − offset                       (weak duality)

The minimum is exact, integrality included, because the cost is separable over the domain: a sum
over columns. (A full matrix is split into a diagonal and a convex rest; any tangent of the rest
bounds it.) With cost 0 the same minimum, if positive, proves that the region is empty (Farkas).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from counterpoint.numerics import (
    LEAST,
    TINY,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    Sizes,
    depth,
    dots,
    gamma,
)
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.region import Batch, Cut, Region
from counterpoint.programs.separable import Diagonal, SeparableDomain

if TYPE_CHECKING:
    from counterpoint.problem.costs import EncodedCost

STEEPEST = 1.0 - 16.0 * UNIT
"""The share of the cost of a column without curvature to which a slope beyond it is shrunk: less
than 1 by more than the roundings of the slope, of the shrinking and of all comparisons."""


class NonConvexDuality(ABC):
    """The bounds and refutations by multipliers of a program's conditions that are not convex."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of multipliers."""

    @property
    @abstractmethod
    def columns(self) -> BoolArray:
        """(d,) the columns that have an effect on the conditions."""

    @abstractmethod
    def tightened(self, margin: FloatArray) -> Region:
        """The conditions that are demands of the target, closed in by a (1, 2) margin."""

    @abstractmethod
    def bound(
        self, cases: Batch, multipliers: FloatArray, cut: Cut, at: FloatArray | None
    ) -> FloatArray:
        """Return lower bounds on the cost, (n,).

        The parameters are those of `Program.bound`, and ``cut`` is the sum of all convex
        conditions, which every point of the region meets.
        """

    @abstractmethod
    def refutes(self, cases: Batch, multipliers: FloatArray, cut: Cut) -> BoolArray:
        """Return whether the multipliers prove that no point of the region exists, (n,)."""


@final
@dataclass(frozen=True, eq=False)
class Duality:
    """The bounds and refutations by single inequalities, of a cost over a separable domain."""

    encoded_cost: EncodedCost
    domain: SeparableDomain
    weighed: bool  # whether the objective is the cost times each row's weight, and a log-loss
    nonconvex: NonConvexDuality | None  # of the conditions that are not convex, if there are any

    def bound(
        self, cases: Batch, cut: Cut, sizes: Sizes, at: FloatArray | None = None
    ) -> FloatArray:
        """Return lower bounds (n,) on the cost of points that meet the cut, rounding included.

        A normal's entry that may be rounding counts as 0 on a column that has neither a cost nor a
        bound, see `refutes`. ``sizes`` are those of the terms of the normals. A full quadratic cost
        is bounded by its tangent ``at`` points (n, d), by default x.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            bound = self._bound(cases, cut, sizes, at)
        infinite = np.flatnonzero(~np.isfinite(bound))
        if len(infinite):  # an overflow proves nothing; a domain without a point does
            bound[infinite] = np.where(self.domain.is_empty(cases.take(infinite)), np.inf, 0.0)
        return bound

    def _bound(self, cases: Batch, cut: Cut, sizes: Sizes, at: FloatArray | None) -> FloatArray:
        """Return `bound`; not finite where numbers overflow, or the domain has no point.

        It is min Σ_j (cost_j(δ) + slope_j · δ) + normal · x − offset, less what may be rounding.
        """
        normal, offset, offset_error = cut.normal, cut.offset, cut.offset_error
        if self._costless.any():  # an entry that is only rounding would make the least −∞ there
            normal, sizes = _without_negligible(cut, self._costless, cases)
        # The bound of a weighted cost is weight · min(cost + (normal · y − offset) / weight): the
        # cut is divided by the weight here, and the bound multiplied by it in the end.
        if self.weighed:
            per_weight = 1.0 / cases.weights
            normal, offset = normal * per_weight[:, None], offset * per_weight
            offset_error, sizes = offset_error * per_weight, sizes.scaled(per_weight)
        slope, slope_sizes, d = normal, sizes, normal.shape[1]
        if self.encoded_cost.quadratic.ndim == 2:
            # The matrix is a diagonal ``floor`` and a convex rest R, which its tangent at δ₀
            # bounds: δᵀRδ >= 2 δ₀ᵀRδ − δ₀ᵀRδ₀.
            delta = (at - cases.x) if at is not None else np.zeros_like(cases.x)
            tangent = delta @ self.encoded_cost.above_floor
            offset = offset + np.einsum("ij,ij->i", tangent, delta)
            slope = normal + 2.0 * tangent
            # No entry Q_jk of a matrix without a negative eigenvalue exceeds units_j · units_k.
            units = np.sqrt(np.diag(self.encoded_cost.quadratic))
            delta_size = np.abs(delta) @ units
            offset_error = offset_error + gamma(2 * d + 8) * delta_size * delta_size
            slope_sizes = sizes.plus(Sizes(2.0 * delta_size[:, None], units[None], d + 4))
        else:
            # A slope steeper than an absolute cost makes the least −∞ as well. Multipliers times a
            # factor prove a bound, too: such a factor makes the slopes no steeper than the cost.
            shrink = self.shrink_factors(normal, sizes, cases)
            if shrink is not None:
                slope = normal = normal * shrink[:, None]
                offset, offset_error = offset * shrink, offset_error * shrink
                slope_sizes = sizes = sizes.scaled(shrink)
        least, error = self.domain.lower(self.diagonal, slope, cases, slope_sizes)
        size = sizes.along(np.abs(cases.x)) + np.abs(offset) + np.abs(least)
        error = error + offset_error + sizes.rounding(d, 8) * size + TINY
        bound = np.maximum(least + dots(normal, cases.x) - offset - error, 0.0)
        return np.asarray(bound * (cases.weights * (1.0 - 4.0 * UNIT))) if self.weighed else bound

    @cached_property
    def diagonal(self) -> Diagonal:
        """The cost, or the diagonal part of a full quadratic one."""
        encoded_cost = self.encoded_cost
        return Diagonal(
            encoded_cost.absolute, encoded_cost.floor, encoded_cost.transitions, encoded_cost.levels
        )

    @cached_property
    def _flat(self) -> BoolArray:
        """(d,) the numeric columns without curvature."""
        return (self.encoded_cost.floor == 0.0) & self.domain.numeric

    @cached_property
    def _costless(self) -> BoolArray:
        """(d,) the columns of `_flat` that cost nothing."""
        return (
            self._flat
            & (self.encoded_cost.absolute == 0.0)
            & (self.encoded_cost.quadratic.ndim == 1)
        )

    def refutes(self, cases: Batch, cut: Cut) -> BoolArray:
        """Return whether no point of the domain meets the cut, (n,).

        That is so if min normal · y > offset, by more than rounding. On a column without a bound,
        an entry of the normal that may be the rounding of a sum that cancels counts as 0.
        """
        zero = np.zeros(cut.normal.shape[1])
        normal, sizes = _without_negligible(cut, np.ones(len(zero), dtype=bool), cases)
        with np.errstate(over="ignore", invalid="ignore"):
            least, error = self.domain.lower(Diagonal(zero, zero), normal, cases, sizes)
            size = np.abs(cut.offset) + dots(
                np.abs(normal), np.maximum(np.abs(cases.x), _largest(cases))
            )
            terms = sizes.along(np.abs(cases.x)) + np.abs(cut.offset) + np.abs(least)
            error = error + cut.offset_error + gamma(cut.roundings + depth(len(zero)) + 8) * terms
            value = least + dots(normal, cases.x) - cut.offset
            # By more than rounding: points some 1e12 times as far away are not proved to be none.
            refuted = np.asarray(value > error + 1e-12 * size)
        empty = np.flatnonzero(np.isposinf(least))
        if len(empty):
            refuted[empty] = self.domain.is_empty(cases.take(empty))
        return refuted

    def shrink_factors(self, slope: FloatArray, sizes: Sizes, cases: Batch) -> FloatArray | None:
        """Return factors of multipliers, (n,) in [0, 1]; None if all are 1.

        A slope (n, d) that exceeds the cost of a column without curvature makes the least −∞, if
        the column has no bound on that side. With the factors no slope does, nor would it without
        rounding; ``sizes`` are those of the terms of the slopes.
        """
        flat = self._flat
        if not flat.any():
            return None
        below, above = np.isinf(cases.low[:, flat]), np.isinf(cases.high[:, flat])
        if not (below.any() or above.any()):
            return None
        per_cost = 1.0 / np.maximum(self.encoded_cost.absolute[flat], LEAST)
        slope, sizes = slope[:, flat], sizes.of(flat)
        # (n,) the steepest slope, with its rounding, relative to the cost of its column
        if cases.unbounded:
            steepest = (np.abs(slope) * per_cost).max(axis=1)
            steepest += gamma(sizes.count) * sizes.largest_in_rows(per_cost)
        else:
            error = gamma(sizes.count) * sizes.each
            up = np.where(above, error - slope, -np.inf)
            down = np.where(below, error + slope, -np.inf)
            steepest = (np.maximum(up, down) * per_cost).max(axis=1, initial=0.0)
        if not (steepest > STEEPEST).any():
            return None
        return np.where(steepest > STEEPEST, STEEPEST / np.maximum(steepest, STEEPEST), 1.0)


@final
class LinearRows:
    """`Duality.bound` for cuts of one linear row each, without an (n, d) array where possible.

    The rows are (s, d), the cost is separable, and nothing is integral. Columns that are not
    ``free`` never change; `bound`, which knows no bounds, leaves them where they are.
    """

    def __init__(self, encoded_cost: EncodedCost, rows: FloatArray, free: BoolArray | None = None):
        moving = rows if free is None else np.where(free, rows, 0.0)
        flat = encoded_cost.quadratic == 0
        # (s,) of unit weights: the largest slope relative to an absolute cost, Σ a² / 4q of others
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            steepest = np.nan_to_num(np.abs(moving[:, flat]) / encoded_cost.absolute[flat])
            self._curved = (moving[:, ~flat] ** 2 / (4.0 * encoded_cost.quadratic[~flat])).sum(1)
        self._cost, self._rows, self._sizes = encoded_cost, rows, np.abs(rows)
        self._is_absolute = bool(encoded_cost.absolute.all())
        self._rounding = gamma(rows.shape[1] + 16)
        self._steepest = steepest.max(axis=1, initial=0.0)
        # (s,) whether a change of free columns changes the rows
        self.moves = (self._curved > 0.0) | (self._steepest > 0.0)

    def nearest(
        self, x: FloatArray, missed: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the multipliers of rows · y <= high that bound most, and their bounds, (n, s).

        ``missed`` (n, s) is by how much points, with their margins, miss the rows.
        """
        flat = self._steepest > 0.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            weight = np.where(flat, 1.0 / self._steepest, missed / (2.0 * self._curved))
        weight = np.where((missed > 0.0) & self.moves, weight, 0.0)
        return weight, self.bound(x, weight, weight * high)

    def bound(self, x: FloatArray, weight: FloatArray, offset: FloatArray) -> FloatArray:
        """Return `Duality.bound` (n, s) without bounds, by weights and offsets (n, s) of rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self._steepest.any():
                shrink = STEEPEST / np.maximum(np.abs(weight) * self._steepest, STEEPEST)
                weight, offset = weight * shrink, offset * shrink
            least = weight * weight * self._curved
            size = np.abs(weight) * _products(np.abs(x), self._sizes) + np.abs(offset) + least
            error = gamma(self._rows.shape[1] + 12) * size + TINY
            # terms that overflow make a NaN, which proves nothing
            bound = weight * _products(x, self._rows) - least - offset - error
            return np.fmax(bound, 0.0)

    def bound_within(
        self, cases: Batch, weight: FloatArray, offset: FloatArray, row: IntArray | int = 0
    ) -> FloatArray | None:
        """Return `Duality.bound` (n,) within bounds, by weights >= 0 (n,) of a row.

        The row is one for all, or of each case, (n,). None if a factual point is outside of its
        bounds, or a column costs nothing.

        That is the least of cost + weight · row · y − offset: its value at x, less what each column
        takes off it by moving down its slope. Most columns stay, for their slope does not exceed
        their absolute cost, and are not looked at.
        """
        x, low, high = cases.x, cases.low, cases.high
        if low.strides[0] == 0 and high.strides[0] == 0:  # one row that is repeated
            low, high = low[:1], high[:1]
        is_costly = self._is_absolute or self._cost.quadratic.all()
        if not (is_costly and ((x >= low) & (x <= high)).all()):
            return None
        rows, sizes = np.atleast_2d(self._rows[row]), np.atleast_2d(self._sizes[row])
        absolute, quadratic = self._cost.absolute, self._cost.quadratic
        with np.errstate(over="ignore", invalid="ignore"):
            least = weight * along(x, rows) - offset
            terms = weight * along(np.abs(x), sizes) + np.abs(offset)  # the sizes of all terms
            steepest = sizes.max(axis=0) * weight.max(initial=0.0)
            columns = np.flatnonzero(steepest > STEEPEST * STEEPEST * absolute)
            absolute, quadratic = absolute[columns], quadratic[columns]
            # (n, columns) |slope|, and how far each column may move down its slope
            slope = weight[:, None] * sizes[:, columns]
            move = np.abs(x[:, columns] - np.where(rows > 0.0, low, high)[:, columns])
            if self._is_absolute:
                pays = slope > STEEPEST * absolute
                is_endless = pays & np.isinf(move)
                if is_endless.any():  # as in `Duality.shrink_factors`
                    excess = np.where(is_endless, slope / absolute, 0.0).max(axis=1)
                    shrink = STEEPEST / np.maximum(excess, STEEPEST)
                    least, terms, slope = least * shrink, terms * shrink, slope * shrink[:, None]
                move = np.where(pays & ~is_endless, move, 0.0)
                least -= (np.maximum(slope - absolute, 0.0) * move).sum(axis=1)
            else:
                move = np.minimum(slope / (2.0 * quadratic), move)
                least -= (move * (slope - quadratic * move)).sum(axis=1)
            terms += (move * (slope + absolute)).sum(axis=1)
            # terms that overflow make a NaN, which proves nothing
            return np.fmax(least - self._rounding * terms - TINY, 0.0)


def along(values: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the products (n,) of values (n, d) with rows (n, d), or one row (1, d) for all."""
    return np.asarray(values @ rows[0]) if len(rows) == 1 else dots(values, rows)


@final
class LossBound:
    """`Duality.bound` for a log-loss and a separable quadratic cost over columns without bounds.

    The answer moves by −P⁻¹Aᵀv / 2w in the rows A of the loss, so that G = A P⁻¹ Aᵀ is all that
    the least objective needs: it is found in as many dimensions as the loss has, not columns.
    """

    def __init__(self, encoded_cost: EncodedCost, loss: LogLoss) -> None:
        self._loss, quadratic = loss, encoded_cost.quadratic
        self._gram = (loss.matrix / quadratic) @ loss.matrix.T
        self._unit = np.abs(loss.matrix).max(axis=0)  # no entry of its column is larger
        self._steepest = float((self._unit * self._unit / quadratic).sum())

    def bound(self, cases: Batch, multipliers: FloatArray) -> FloatArray:
        """Return `Duality.bound` (n,) by multipliers (n, m), without an (n, d) array."""
        shares, entropy = self._loss.shares(multipliers)
        x, weights, total = cases.x, cases.weights, shares.sum(axis=1)
        fall = np.einsum("ij,ij->i", shares @ self._gram, shares) / (4.0 * weights)
        value = np.einsum("ij,ij->i", shares, x @ self._loss.matrix.T + self._loss.offset)
        terms = total * (np.abs(x) @ self._unit) + shares @ np.abs(self._loss.offset)
        terms += total * total * self._steepest / (4.0 * weights)
        error = gamma(x.shape[1] + 4 * len(self._gram) + 16) * terms
        error += self._loss.entropy_error(total, entropy)
        return np.fmax((value + entropy - fall - error - TINY) * (1.0 - 4.0 * UNIT), 0.0)


def _products(x: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the products (n, s) of points and rows."""
    return dots(x, rows[0])[:, None] if len(rows) == 1 else np.asarray(x @ rows.T)


def _without_negligible(cut: Cut, columns: BoolArray, cases: Batch) -> tuple[FloatArray, Sizes]:
    """Return normals (n, d) with 0 for negligible entries on some columns, and their sizes.

    An entry is negligible if it may be the rounding of a sum that cancels, and the column lacks a
    bound: there it would make the least −∞.
    """
    terms = cut.weights @ cut.normals
    is_open = columns & (np.isinf(cases.low) | np.isinf(cases.high))
    # 128 u: what solvers' multipliers leave of a sum that cancels, beyond its own rounding
    negligible = is_open & (np.abs(cut.normal) <= max(128 * UNIT, gamma(cut.roundings)) * terms)
    sizes = Sizes(np.where(negligible, 0.0, terms), None, cut.roundings)
    return np.where(negligible, 0.0, cut.normal), sizes


def _largest(cases: Batch) -> FloatArray:
    """Return the size of the larger finite bound of each column, (n, d); 0 if there is none."""
    low = np.where(np.isfinite(cases.low), np.abs(cases.low), 0.0)
    high = np.where(np.isfinite(cases.high), np.abs(cases.high), 0.0)
    return np.maximum(low, high)
