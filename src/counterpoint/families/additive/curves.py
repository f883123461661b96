"""Functions of one column, piece by piece: what scorecards, splines and power transforms compute.

A reader of a transformer makes one `Curve` for each column that is not passed on as it is: the
values where its pieces start, and a polynomial on each. A step function (bins, scorecards, boosted
tables) has constants; a spline has cubics.

All functions of one column are merged (`Bends`): between the starts of any of their pieces, what
the column adds to a row is one polynomial. With a price and a slope besides, its least is at an end
of the piece, at the factual value, or where the derivative is 0: in closed form up to degree 3.
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

CELLS = 2_000_000
"""How many numbers an array of rows, columns and pieces holds at most: rows go in parts."""
FAR = 1e100
"""What stands for an infinite end: powers of it are numbers, and outweigh all else."""


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
class Bends:
    """What k columns add to m rows, on up to p pieces each."""

    columns: IntArray  # (k,) encoded columns
    starts: FloatArray  # (k, p) where pieces start, the first −inf; infinite beyond the last
    centers: FloatArray  # (k, p)
    coefficients: FloatArray  # (k, p, m, degree + 1)
    sizes: FloatArray  # of the terms that coefficients are sums of
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
    ) -> Bends:
        """Of (m, d + outputs) rows over columns, and then the outputs of curves."""
        width = matrix.shape[1] - sum(curve.outputs for _, curve in curves)
        ends = width + np.cumsum([0, *(curve.outputs for _, curve in curves)])
        by_level = {level.column: level for level in levels}
        columns = sorted({column for column, _ in curves})
        curves_of = {
            j: [(c, s) for (i, c), s in zip(curves, ends[:-1], strict=True) if i == j]
            for j in columns
        }
        knots = [
            np.unique([-np.inf, *(by_level[j].knots if j in by_level else ()), *starts])
            for j in columns
            for starts in [np.concatenate([curve.starts for curve, _ in curves_of[j]])]
        ]
        shape = (len(columns), max(map(len, knots)))
        out = cls(
            np.array(columns, dtype=np.intp),
            np.full(shape, np.inf),
            np.zeros(shape),
            np.zeros((*shape, len(matrix), 4)),
            np.zeros((*shape, len(matrix), 4)),
            np.array([float(any(curve.blurred for curve, _ in curves_of[j])) for j in columns]),
            64 + max(curve.roundings for _, curve in curves) + len(curves),
            np.ones((*shape, 2)) if by_level.keys() & set(columns) else None,
        )
        for i, (j, first) in enumerate(zip(columns, knots, strict=True)):
            inside, count = np.append(first[1:], first[-1] + 1.0), len(first)
            center = np.where(np.isfinite(first), first, np.where(np.isfinite(inside), inside, 0.0))
            out.starts[i, :count], out.centers[i, :count] = first, center
            total, size = out.coefficients[i, :count], out.sizes[i, :count]
            total[:, :, 0], total[:, :, 1] = center[:, None] * matrix[:, j], matrix[:, j]
            size[:] = np.abs(total)
            for curve, start in curves_of[j]:
                weights, at = matrix[:, start : start + curve.outputs], curve.piece(first)
                by = center - curve.centers[at]
                mixed = np.einsum("qo,iok->iqk", weights, curve.coefficients)[at]
                tall = np.einsum("qo,iok->iqk", np.abs(weights), np.abs(curve.coefficients))[at]
                total += _moved(mixed, by)
                size += _moved(tall, np.abs(by))
            if out.levels is not None:
                level = by_level.get(j)
                out.levels[i, :count, 0] = center if level is None else level(center)
                if level is not None:
                    slopes = np.searchsorted(level.knots, first, side="right")
                    out.levels[i, :count, 1] = level.slopes[slopes]
        return out

    def some(self, which: BoolArray) -> Bends:
        """What some of the columns add."""
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
    def is_flat(self) -> bool:
        """Whether every piece is constant."""
        return not self.coefficients[..., 1:].any()

    @cached_property
    def flat(self) -> BoolArray:
        """(k,) whether all pieces of a column are constant."""
        return np.asarray(~self.coefficients[..., 1:].any(axis=(1, 2, 3)))

    def piece(self, y: FloatArray) -> tuple[IntArray, IntArray]:
        """Return which pieces (n, k) values are in, as an index of arrays (k, p, …)."""
        every, at = np.arange(len(self.columns)), np.zeros(y.shape, dtype=np.intp)
        for i in every if self.starts.shape[1] > 1 else ():
            at[:, i] = np.maximum(np.searchsorted(self.starts[i], y[:, i], side="right") - 1, 0)
        return every.reshape(-1, *[1] * (y.ndim - 2)), at

    def added(self, y: FloatArray) -> FloatArray:
        """(n, k, q, m) what q values of each column add to each row."""
        piece = self.piece(y)
        return _polynomials(self.coefficients[piece], (y - self.centers[piece])[..., None])

    def in_single_precision(self, y: FloatArray) -> FloatArray:
        """(n, k) values as float32 numbers in the same pieces, where these have any."""
        piece, single = self.piece(y), y.astype(np.float32)
        low, high = self.starts[piece], self.ends[piece]
        down, up = (np.nextafter(single, np.float32(way)) for way in (-np.inf, np.inf))
        inside = np.where(single < low, up, np.where(single > high, down, single))
        return np.where((inside >= low) & (inside <= high), inside, y)

    def reachable(self, cases: Batch, steps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, k, p) the least and largest values within each piece and the bounds of the cases."""
        x, low, high = (v[:, self.columns, None] for v in (cases.x, cases.low, cases.high))
        low, high = np.maximum(low, self.starts), np.minimum(high, self.ends)
        unit = steps[self.columns][:, None]
        return lattice.within(x, low, high, unit) if unit.any() else (low, high)

    def value(self, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What (n, k, p) values in their pieces add to (n, m) weighed rows; sizes of the terms."""
        if self.is_flat:
            constants, size = self.coefficients[..., 0], self.sizes[..., 0]
            added = np.tensordot(weights, constants, (1, 2))
            return added, np.tensordot(np.abs(weights), size, (1, 2))
        mixed = np.einsum("nm,kpmc->nkpc", weights, self.coefficients)
        tall = np.einsum("nm,kpmc->nkpc", np.abs(weights), self.sizes)
        with np.errstate(invalid="ignore", over="ignore"):
            value = _polynomials(mixed, y - self.centers)
            return value, sizes_of(tall, y, self.centers, self.blurs[:, None])

    def here(self, x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, k) what the columns of (n, d) points add, and the sizes of the terms."""
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
        """(n, k) what columns take at least: price, (n, d) slope · (y − x), and weighed rows.

        And (n, k) where. ``encoded_cost`` is what |δ| and δ² cost, (d,) each. The least is lowered
        by what it may be off; infinite where a column has no value.
        """
        absolute, curvature = (rows[self.columns][:, None] for rows in encoded_cost)
        out, where = np.empty((2, len(cases), len(self.columns)))
        together = max(1, CELLS // self.starts.size)
        for start in range(0, len(cases), together):
            rows = slice(start, start + together)
            chunk = cases.take(rows)
            low, high = self.reachable(chunk, steps)
            x, pull = chunk.x[:, self.columns, None], slope[rows][:, self.columns, None]
            best, at = np.full(low.shape, np.inf), np.broadcast_to(x, low.shape)
            for y in self._candidates(chunk, weights[rows], pull, (absolute, curvature), steps):
                y = np.minimum(np.maximum(y, low), high)  # noqa: PLW2901 (within its piece)
                y = np.minimum(np.maximum(y, -FAR), FAR)  # noqa: PLW2901 (0 · ∞ is no number)
                with np.errstate(invalid="ignore", over="ignore"):
                    delta = y - x
                    away, tall = self._apart(y, chunk.x)
                    paid = absolute * away + curvature * delta * delta
                    value, size = self.value(y, weights[rows])
                    size = size + paid + np.abs(pull * delta) + absolute * tall
                    value = value + paid + pull * delta - gamma(self.roundings) * size - TINY
                value = np.where(np.isnan(value), -np.inf, value)
                best, at = np.minimum(best, value), np.where(value < best, y, at)
            best = np.where(low <= high, best, np.inf)
            piece = best.argmin(axis=2)[:, :, None]
            out[rows] = np.take_along_axis(best, piece, axis=2)[:, :, 0]
            where[rows] = np.take_along_axis(at, piece, axis=2)[:, :, 0]
        return out, where

    def _apart(self, y: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """How far (n, k, p) values in their pieces are from (n, d) points, by their levels if any.

        And the sizes of what that is a difference of.
        """
        numbers = x[:, self.columns]
        if self.levels is None:
            return np.abs(y - numbers[:, :, None]), 0.0
        piece = self.piece(numbers)
        level, steep = np.moveaxis(self.levels[piece], -1, 0)
        factual = (level + steep * (numbers - self.centers[piece]))[:, :, None]
        levels = self.levels[..., 0] + self.levels[..., 1] * (y - self.centers)
        return np.abs(levels - factual), np.abs(levels) + np.abs(factual)

    def _candidates(
        self,
        cases: Batch,
        weights: FloatArray,
        pull: FloatArray,
        encoded_cost: tuple[FloatArray, FloatArray],
        steps: FloatArray,
    ) -> Iterator[FloatArray]:
        """Where a column of a row may take the least within a piece, before it is clipped to it."""
        x, shape = cases.x[:, self.columns, None], (len(cases), *self.starts.shape)
        yield np.broadcast_to(x, shape)
        if self.is_flat and self.levels is None and not pull.any():
            return  # a constant piece is least where it is nearest
        yield np.full(shape, -np.inf)
        yield np.full(shape, np.inf)
        mixed = np.einsum("nm,kpmc->nkpc", weights, self.coefficients)
        absolute, curvature = encoded_cost
        unit = steps[self.columns][:, None]
        steep = 1.0 if self.levels is None else self.levels[..., 1]
        for sign in (-1.0, 1.0) if absolute.any() else (0.0,):
            slope = mixed[..., 1] + pull + sign * absolute * steep
            slope = slope + 2.0 * curvature * (self.centers - x)
            for u in _roots(3.0 * mixed[..., 3], 2.0 * (mixed[..., 2] + curvature), slope):
                y = u + self.centers
                if not unit.any():
                    yield y
                    continue
                with np.errstate(invalid="ignore"):
                    by = np.where(unit > 0.0, unit, 1.0)
                    for way in (np.floor, np.ceil):
                        count = way((y - x) / by + STEP_SLACK)
                        yield np.where(unit > 0.0, lattice.number(x, count, by), y)


def _moved(coefficients: FloatArray, by: FloatArray) -> FloatArray:
    """(p, m, degree + 1) polynomials in u + by, as cubics in u."""
    p, m, count = coefficients.shape
    out = np.zeros((p, m, 4))
    out[:, :, :count] = coefficients
    h = by[:, None]
    for k in range(3):  # Taylor's shift, by Horner's rule
        for c in range(2, k - 1, -1):
            out[:, :, c] += h * out[:, :, c + 1]
    return out


def _roots(a: FloatArray, b: FloatArray, c: FloatArray) -> Iterator[FloatArray]:
    """The real roots of a u² + b u + c; 0 where there are none."""
    with np.errstate(all="ignore"):
        root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
        q = -0.5 * (b + np.copysign(root, b))
        for u in (q / a, c / q) if a.any() else (c / q,):
            yield np.where(np.isfinite(u), u, 0.0)
