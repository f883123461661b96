"""Functions of one column, piece by piece: what scorecards, splines and power transforms compute.

A reader of a transformer makes one `Curve` for each column that is not passed on as it is: the
values where its pieces start, and a polynomial on each. A step function (bins, scorecards, boosted
tables) has constants; a spline has cubics.

All functions of one column are merged (`MergedCurves`): between the starts of any of their pieces,
what the column adds to a row is one polynomial. Together with a cost and a linear term, it is least
at an end of the piece, at the factual value, or where the derivative is 0: in closed form up to
degree 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.errors import InvalidInput
from counterpoint.numerics import STEP_SLACK, TINY, BoolArray, FloatArray, IntArray, gamma
from counterpoint.problem.costs import PercentileCost
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """o functions φ of one number y: Σ_k coefficients[i, o, k] (y − centers[i])^k.

    Piece i holds ``starts[i] <= y < starts[i + 1]``, compared as float64 numbers. Where a model
    compares ``y <= edge``, the next piece starts at ``np.nextafter(edge, np.inf)``; where it
    compares in float32, a start is the float64 value of the first float32 number of its piece.
    """

    starts: FloatArray  # (m,) increasing; the first is −inf
    coefficients: FloatArray  # (m, o, k): of polynomials of degree k − 1, at most 3
    centers: FloatArray  # (m,) finite
    roundings: int = 16  # those that the model's own φ is worth, relative to sizes of its terms
    # whether y − center is off by roundings of y and of the center, and not by its own alone, as
    # behind a scaler
    blurred: bool = False

    def __post_init__(self) -> None:
        m, _, k = self.coefficients.shape
        increasing = bool((np.diff(self.starts) > 0.0).all()) and self.starts[0] == -np.inf
        if not (increasing and self.starts.shape == self.centers.shape == (m,) and 1 <= k <= 4):
            raise InvalidInput(
                "Expected pieces that start at increasing values, the first at −inf, each with a "
                f"center and a polynomial of degree 3 or less; got starts {self.starts!r}, "
                f"{len(self.centers)} centers and coefficients of shape {self.coefficients.shape}."
            )

    @classmethod
    def steps(cls, starts: ArrayLike, values: ArrayLike) -> Curve:
        """Constant pieces: (m,) starts, the first −inf, and (m,) or (m, o) values."""
        first = np.asarray(starts, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64).reshape(len(first), -1, 1)
        return cls(first, values, np.zeros(len(first)), roundings=1)

    @classmethod
    def polynomial(cls, coefficients: ArrayLike, center: float = 0.0) -> Curve:
        """One piece: (k,) coefficients of (y − center)^0, …, or (o, k) for several functions."""
        rows = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
        return cls(np.array([-np.inf]), rows[None], np.array([center]))

    @property
    def outputs(self) -> int:
        """The number o of functions."""
        return self.coefficients.shape[1]

    def piece(self, y: FloatArray) -> IntArray:
        """The piece that each number is in."""
        return np.maximum(np.searchsorted(self.starts, y, side="right") - 1, 0)

    def __call__(self, y: FloatArray) -> FloatArray:
        """(n,) → (n, o)."""
        i = self.piece(y)
        return _polynomials(self.coefficients[i], (y - self.centers[i])[:, None])

    def sizes(self, y: FloatArray) -> FloatArray:
        """(n, o) what a rounding is relative to, of terms or of y − center."""
        i = self.piece(y)
        blur = float(self.blurred)
        return sizes_of(np.abs(self.coefficients[i]), y[:, None], self.centers[i, None], blur)


def _polynomials(coefficients: FloatArray, u: FloatArray) -> FloatArray:
    """Return the values of polynomials in u by Horner's rule; coefficients are (…, k)."""
    value = coefficients[..., -1]
    for k in range(coefficients.shape[-1] - 2, -1, -1):
        value = value * u + coefficients[..., k]
    return np.asarray(value)


def sizes_of(
    coefficients: FloatArray, y: FloatArray, centers: FloatArray, blur: FloatArray | float
) -> FloatArray:
    """(…,) the sizes of the terms of polynomials in u = y − center; coefficients are (…, k) sizes.

    Where there is a ``blur`` (1, or 0), also how much they move with y and the center: far from 0
    that is much less than the terms of powers of these.
    """
    u, value = np.abs(y - centers), coefficients[..., -1]
    slope = np.zeros(value.shape)
    for k in range(coefficients.shape[-1] - 2, -1, -1):
        slope, value = slope * u + value, value * u + coefficients[..., k]
    return np.asarray(value + slope * (blur * (np.abs(y) + np.abs(centers))))


@final
@dataclass(frozen=True, eq=False)
class MergedCurves:
    """All curves of k columns: what a column adds to each of m rows, one polynomial on each piece.

    Columns have up to p pieces, those of all their curves. A value y of column i in its piece q
    adds Σ_c coefficients[i, q, r, c] (y − centers[i, q])^c to row r.
    """

    columns: IntArray  # (k,) encoded columns
    starts: FloatArray  # (k, p) where pieces start, the first −inf; infinite beyond the last
    centers: FloatArray  # (k, p)
    coefficients: FloatArray  # (k, p, m, 4)
    sizes: FloatArray  # (k, p, m, 4) of the terms that coefficients are sums of
    blurs: FloatArray  # (k,) 1 for columns with a curve that is blurred, else 0
    roundings: int  # of each value, relative to the sizes of its terms
    # (k, p, 2) level and slope at each center under a `PercentileCost`
    levels: FloatArray | None = None

    @classmethod
    def of(
        cls,
        matrix: FloatArray,
        curves: tuple[tuple[int, Curve], ...],
        levels: tuple[PercentileCost, ...] = (),
    ) -> MergedCurves:
        """Return the merged curves of rows (m, d + outputs) over columns, then outputs of curves.

        Pieces also end at the knots of a column's `PercentileCost`: levels are linear on each.
        """
        width = matrix.shape[1] - sum(curve.outputs for _, curve in curves)
        level_of = {level.column: level for level in levels}
        curves_of: dict[int, list[tuple[Curve, FloatArray]]] = {}
        output = width
        for column, curve in curves:
            weights = matrix[:, output : output + curve.outputs]  # (m, o) of rows over its outputs
            curves_of.setdefault(column, []).append((curve, weights))
            output += curve.outputs
        columns = sorted(curves_of)
        starts_of = [
            np.unique(
                np.concatenate(
                    [
                        level_of[j].knots if j in level_of else [-np.inf],
                        *(curve.starts for curve, _ in curves_of[j]),
                    ]
                )
            )
            for j in columns
        ]
        shape = (len(columns), max(map(len, starts_of)))
        out = cls(
            np.array(columns, dtype=np.intp),
            np.full(shape, np.inf),
            np.zeros(shape),
            np.zeros((*shape, len(matrix), 4)),
            np.zeros((*shape, len(matrix), 4)),
            np.array([float(any(curve.blurred for curve, _ in curves_of[j])) for j in columns]),
            64 + max(curve.roundings for _, curve in curves) + len(curves),
            np.ones((*shape, 2)) if level_of.keys() & set(columns) else None,
        )
        for i, (j, starts) in enumerate(zip(columns, starts_of, strict=True)):
            count, ends = len(starts), np.append(starts[1:], np.inf)
            # a piece is centered at its start; the first, which has none, at its end
            center = np.where(np.isfinite(starts), starts, np.where(np.isfinite(ends), ends, 0.0))
            out.starts[i, :count], out.centers[i, :count] = starts, center
            total, size = out.coefficients[i, :count], out.sizes[i, :count]  # written in place
            total[:, :, 0], total[:, :, 1] = center[:, None] * matrix[:, j], matrix[:, j]
            size[:] = np.abs(total)
            for curve, weights in curves_of[j]:
                piece = curve.piece(starts)
                shift = center - curve.centers[piece]
                weighted = np.einsum("ro,qoc->qrc", weights, curve.coefficients)[piece]
                sizes = np.einsum("ro,qoc->qrc", np.abs(weights), np.abs(curve.coefficients))[piece]
                total += _recentered(weighted, shift)
                size += _recentered(sizes, np.abs(shift))
            if out.levels is not None:
                level = level_of.get(j)
                out.levels[i, :count, 0] = center if level is None else level(center)
                if level is not None:
                    after = np.searchsorted(level.knots, starts, side="right")
                    out.levels[i, :count, 1] = level.slopes[after]
        return out

    def take(self, which: BoolArray) -> MergedCurves:
        """Return the merged curves of some of the columns."""
        names = ("columns", "starts", "centers", "coefficients", "sizes", "blurs")
        levels = None if self.levels is None else self.levels[which]
        return replace(self, levels=levels, **{name: getattr(self, name)[which] for name in names})

    @cached_property
    def ends(self) -> FloatArray:
        """(k, p) the last numbers of the pieces; −inf where there is none."""
        after = np.hstack([self.starts[:, 1:], np.full((len(self.starts), 1), np.inf)])
        last = np.where(np.isposinf(after), np.inf, np.nextafter(after, -np.inf))
        return np.where(np.isposinf(self.starts), -np.inf, last)

    @cached_property
    def flat(self) -> BoolArray:
        """(k,) whether all pieces of a column are constant."""
        return np.asarray(~self.coefficients[..., 1:].any(axis=(1, 2, 3)))

    @cached_property
    def is_flat(self) -> bool:
        """Whether every piece is constant."""
        return bool(self.flat.all())

    def piece(self, y: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the pieces of values (n, k, …) as an index (column, piece) of arrays (k, p, …)."""
        column, piece = np.arange(len(self.columns)), np.zeros(y.shape, dtype=np.intp)
        for i in column if self.starts.shape[1] > 1 else ():
            after = np.searchsorted(self.starts[i], y[:, i], side="right")
            piece[:, i] = np.maximum(after - 1, 0)
        return column.reshape(-1, *[1] * (y.ndim - 2)), piece

    def added(self, y: FloatArray) -> FloatArray:
        """Return what q values (n, k, q) of each column add to each row, (n, k, q, m)."""
        piece = self.piece(y)
        return _polynomials(self.coefficients[piece], (y - self.centers[piece])[..., None])

    def in_single_precision(self, y: FloatArray) -> FloatArray:
        """Return values (n, k) as float32 numbers in the same pieces, where these have any."""
        piece, single = self.piece(y), y.astype(np.float32)
        low, high = self.starts[piece], self.ends[piece]
        down, up = (np.nextafter(single, np.float32(end)) for end in (-np.inf, np.inf))
        inside = np.where(single < low, up, np.where(single > high, down, single))
        return np.where((inside >= low) & (inside <= high), inside, y)

    def reachable(self, cases: Batch, steps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and largest values within each piece and the cases' bounds, (n, k, p).

        Where there is no value, the least is above the largest. ``steps`` (d,) are those of whole
        columns, 0 for the others.
        """
        x, low, high = (v[:, self.columns, None] for v in (cases.x, cases.low, cases.high))
        low, high = np.maximum(low, self.starts), np.minimum(high, self.ends)
        unit = steps[self.columns][:, None]
        return lattice.within(x, low, high, unit) if unit.any() else (low, high)

    def weighted(self, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what values (n, k, p), one in each piece, add to weighed rows, and terms' sizes.

        ``weights`` (n, m) are those of the rows. Both have a shape of (n, k, p).
        """
        if self.is_flat:
            constants, size = self.coefficients[..., 0], self.sizes[..., 0]
            added = np.tensordot(weights, constants, (1, 2))
            return added, np.tensordot(np.abs(weights), size, (1, 2))
        polynomials = np.einsum("nm,kpmc->nkpc", weights, self.coefficients)
        sizes = np.einsum("nm,kpmc->nkpc", np.abs(weights), self.sizes)
        with np.errstate(invalid="ignore", over="ignore"):
            value = _polynomials(polynomials, y - self.centers)
            return value, sizes_of(sizes, y, self.centers, self.blurs[:, None])

    def weighted_at(self, x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the columns of points (n, d) add to weighed rows, and terms' sizes, (n, k).

        It evaluates one piece of each column, where `weighted` evaluates all.
        """
        y, piece = x[:, self.columns], self.piece(x[:, self.columns])
        centers = self.centers[piece]
        powers = (y - centers)[..., None] ** np.arange(4)
        value = np.einsum("nkmc,nm,nkc->nk", self.coefficients[piece], weights, powers)
        sizes = np.einsum("nkmc,nm->nkc", self.sizes[piece], np.abs(weights))
        return value, sizes_of(sizes, y, centers, self.blurs)

    def least(
        self,
        cases: Batch,
        weights: FloatArray,
        slope: FloatArray,
        encoded_cost: tuple[FloatArray, FloatArray],
        steps: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the least value of each column's term in a Lagrangian, (n, k), and the y there.

        With δ = y − x, the term of a column is absolute |δ| + curvature δ² + slope · δ + what y
        adds to the rows, weighed by ``weights`` (n, m). The ``slope`` is (n, d), ``encoded_cost``
        the pair of absolute and curvature, (d,) each. Values are lowered by their rounding error,
        and infinite where a column has no value.
        """
        absolute, curvature = (costs[self.columns][:, None] for costs in encoded_cost)
        out, where = np.empty((2, len(cases), len(self.columns)))
        block = max(1, 2_000_000 // self.starts.size)  # rows: 16 MB of numbers for all pieces
        for start in range(0, len(cases), block):
            rows = slice(start, start + block)
            chunk = cases.take(rows)
            low, high = self.reachable(chunk, steps)
            x, slopes = chunk.x[:, self.columns, None], slope[rows][:, self.columns, None]
            terms = chunk, weights[rows], slopes, (absolute, curvature)
            best, best_y = np.full(low.shape, np.inf), np.broadcast_to(x, low.shape)
            for candidate in self._candidates(*terms, steps):
                y = np.minimum(np.maximum(candidate, low), high)
                # 0 · ∞ is no number. Cubes of 1e100 are, and outweigh all else as infinity would.
                y = np.minimum(np.maximum(y, -1e100), 1e100)
                value = self._lowered_term(y, *terms)
                best, best_y = np.minimum(best, value), np.where(value < best, y, best_y)
            best = np.where(low <= high, best, np.inf)
            piece = best.argmin(axis=2)[:, :, None]
            out[rows] = np.take_along_axis(best, piece, axis=2)[:, :, 0]
            where[rows] = np.take_along_axis(best_y, piece, axis=2)[:, :, 0]
        return out, where

    def _lowered_term(
        self,
        y: FloatArray,
        cases: Batch,
        weights: FloatArray,
        slopes: FloatArray,
        costs: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """Return the terms of `least` at values (n, k, p), less their rounding errors.

        The slopes (n, k, 1) and the pair of costs (k, 1) are those of the columns with curves.
        """
        absolute, curvature = costs
        with np.errstate(invalid="ignore", over="ignore"):
            delta = y - cases.x[:, self.columns, None]
            distance, level_size = self._distance(y, cases.x)
            cost = absolute * distance + curvature * delta * delta
            added, size = self.weighted(y, weights)
            size = size + cost + np.abs(slopes * delta) + absolute * level_size
            value = added + cost + slopes * delta - gamma(self.roundings) * size - TINY
        return np.where(np.isnan(value), -np.inf, value)

    def _distance(self, y: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Return the distances of values (n, k, p) from points (n, d), by levels if there are any.

        The second array has the sizes of the levels that are subtracted, and whose rounding counts.
        """
        numbers = x[:, self.columns]
        if self.levels is None:
            return np.abs(y - numbers[:, :, None]), 0.0
        piece = self.piece(numbers)
        level, level_slope = np.moveaxis(self.levels[piece], -1, 0)
        factual = (level + level_slope * (numbers - self.centers[piece]))[:, :, None]
        levels = self.levels[..., 0] + self.levels[..., 1] * (y - self.centers)
        return np.abs(levels - factual), np.abs(levels) + np.abs(factual)

    def _candidates(
        self,
        cases: Batch,
        weights: FloatArray,
        slopes: FloatArray,
        costs: tuple[FloatArray, FloatArray],
        steps: FloatArray,
    ) -> Iterator[FloatArray]:
        """Yield values (n, k, p) of which one, clipped to its piece, has the least term there.

        These are x, the ends, and where the derivative is 0; of whole columns the steps beside it.
        """
        x, shape = cases.x[:, self.columns, None], (len(cases), *self.starts.shape)
        yield np.broadcast_to(x, shape)
        if self.is_flat and self.levels is None and not slopes.any():
            return  # a constant piece is least where it is nearest
        yield np.full(shape, -np.inf)
        yield np.full(shape, np.inf)
        c = np.einsum("nm,kpmc->nkpc", weights, self.coefficients)
        absolute, curvature = costs
        unit = steps[self.columns][:, None]
        level_slope = 1.0 if self.levels is None else self.levels[..., 1]
        for sign in (-1.0, 1.0) if absolute.any() else (0.0,):  # left and right of x
            # with u = y − center, the derivative is
            # 3 c₃ u² + 2 (c₂ + curvature) u + c₁ + slope ± absolute + 2 curvature (center − x)
            constant = c[..., 1] + slopes + sign * absolute * level_slope
            constant = constant + 2.0 * curvature * (self.centers - x)
            for u in _roots(3.0 * c[..., 3], 2.0 * (c[..., 2] + curvature), constant):
                y = u + self.centers
                if not unit.any():
                    yield y
                    continue
                with np.errstate(invalid="ignore"):
                    step = np.where(unit > 0.0, unit, 1.0)
                    for rounded in (np.floor, np.ceil):
                        count = rounded((y - x) / step + STEP_SLACK)
                        yield np.where(unit > 0.0, lattice.number(x, count, step), y)


def _recentered(coefficients: FloatArray, shift: FloatArray) -> FloatArray:
    """Return polynomials (q, m, degree + 1) in u + shift (q,) as cubics (q, m, 4) in u."""
    count = coefficients.shape[2]
    out = np.zeros((*coefficients.shape[:2], 4))
    out[:, :, :count] = coefficients
    h = shift[:, None]
    for k in range(3):  # Taylor's shift, by Horner's rule
        for c in range(2, k - 1, -1):
            out[:, :, c] += h * out[:, :, c + 1]
    return out


def _roots(a: FloatArray, b: FloatArray, c: FloatArray) -> Iterator[FloatArray]:
    """Yield the real roots of a u² + b u + c; 0 where there are none.

    They are q / a and c / q, of which neither subtracts numbers that are nearly equal.
    """
    with np.errstate(all="ignore"):
        root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
        q = -0.5 * (b + np.copysign(root, b))
        for u in (q / a, c / q) if a.any() else (c / q,):
            yield np.where(np.isfinite(u), u, 0.0)
