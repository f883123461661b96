"""What noise on the weights asks of a linear score: convex conditions, known by half-spaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.couplings import Affine
from counterpoint.engine.region import Supported
from counterpoint.noise import NoiseLaw
from counterpoint.numerics import EPS, TINY

__all__ = ["Chance", "Lead"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Chance(Supported):
    """q(M y + c) <= slope · y + constant, with q(φ) the p-quantile of the noise φᵀμ on a score.

    A chance constraint: the score slope · y + constant, less its noise, is positive with
    probability p. For p >= ½ and noise whose projections are log-concave and symmetric, q is a norm
    (Lagoa, Li & Sznaier 2005), so each of its gradients supports it: ∇q(v) · φ <= q(φ) for all v
    and φ. So the condition is the intersection of half-spaces, one for each v.

    Parameters
    ----------
    law
        That of μ (F,).
    probability
        p, above ½ and below 1.
    matrix, offset
        (F, d) M and (F,) c: the features φ = M y + c that the noise acts on.
    slope, constant
        (d,) and a number: the score that is to lead, in score units.
    """

    law: NoiseLaw
    probability: float
    matrix: FloatArray
    offset: FloatArray
    slope: FloatArray
    constant: float

    def excess(self, y: FloatArray) -> FloatArray:
        quantile = self.law.quantile(self.probability, y @ self.matrix.T + self.offset)
        return np.asarray(quantile - (y @ self.slope + self.constant))

    def supports(self, y: FloatArray) -> tuple[FloatArray, Affine]:
        phi = y @ self.matrix.T + self.offset
        quantile, gradient = self.law.quantile_with_gradient(self.probability, phi)
        high = self.constant - gradient @ self.offset
        halves = _half_spaces(gradient @ self.matrix - self.slope, high)
        return np.asarray(quantile - (y @ self.slope + self.constant)), halves

    def first(self) -> Affine:
        return _half_spaces(np.zeros((0, len(self.slope))), np.zeros(0))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(x)
        terms = reach @ np.abs(self.slope) + abs(self.constant)
        phi = reach @ np.abs(self.matrix.T) + np.abs(self.offset)
        return _relative(self.excess(y), terms + self.law.quantile(self.probability, phi))


@final
@dataclass(frozen=True, eq=False)
class Lead(Supported):
    """start_v + rate_v ‖y − x‖ <= slope · y + constant for each v, about one row x.

    The norm is that of a cost: Σ absolute |δ|, or √(δᵀ quadratic δ). Each functional g of dual norm
    1 supports it, g · δ <= ‖δ‖, so that the condition is the intersection of half-spaces.

    Parameters
    ----------
    x
        (d,) the row.
    start, rate
        (V,) in score units, and in score units for a unit of distance, not negative.
    slope, constant
        (d,) and a number: the score that is to lead.
    least
        What it leads by at least where it leads by enough, in score units; infinite if it never
        does.
    absolute
        (d,) for the first norm; zeros for the second.
    quadratic
        (d,) for a diagonal matrix, or (d, d).
    """

    x: FloatArray
    start: FloatArray
    rate: FloatArray
    slope: FloatArray
    constant: float
    least: float
    absolute: FloatArray
    quadratic: FloatArray

    def excess(self, y: FloatArray) -> FloatArray:
        needed = self.start + self.rate * self._length(y - self.x)[:, None]
        return np.asarray(needed.max(axis=1) - (y @ self.slope + self.constant))

    def supports(self, y: FloatArray) -> tuple[FloatArray, Affine]:
        delta = y - self.x
        length = self._length(delta)
        needed = self.start + self.rate * length[:, None]
        at = needed.argmax(axis=1)
        if self.absolute.any():  # where nothing moves, along the slope
            towards = np.where(delta == 0.0, np.sign(self.slope), np.sign(delta))
            functional = self.absolute * towards
        else:
            functional = self._weighed(delta) / np.maximum(length, TINY)[:, None]
        pull = self.rate[at, None] * functional
        high = self.constant - self.start[at] + pull @ self.x
        excess = needed.max(axis=1) - (y @ self.slope + self.constant)
        return np.asarray(excess), _half_spaces(pull - self.slope, high)

    def first(self) -> Affine:
        """The lead at the least distance at which it can be enough, or a contradiction."""
        if np.isinf(self.least):
            return _half_spaces(np.zeros((1, len(self.slope))), -np.ones(1))
        return _half_spaces(-self.slope[None, :], np.array([self.constant - self.least]))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(self.x)
        terms = reach @ np.abs(self.slope) + abs(self.constant)
        size = terms + np.abs(self.start).max() + self.rate.max() * self._length(reach)
        return _relative(self.excess(y), size)

    def _length(self, delta: FloatArray) -> FloatArray:
        """(n,) norms of (n, d) changes."""
        if self.absolute.any():
            return np.asarray(np.abs(delta) @ self.absolute)
        square = np.einsum("ij,ij->i", delta, self._weighed(delta))
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))

    def _weighed(self, delta: FloatArray) -> FloatArray:
        """(n, d) changes times the matrix."""
        diagonal = self.quadratic.ndim == 1
        return np.asarray(delta * self.quadratic if diagonal else delta @ self.quadratic)


def _half_spaces(rows: FloatArray, high: FloatArray) -> Affine:
    """rows · y <= high, in score units."""
    return Affine(rows, np.full(len(high), -np.inf), high, np.ones(len(high)))


def _relative(excess: FloatArray, size: FloatArray) -> FloatArray:
    """(n,) an excess beside the size of its terms; 0 where it may be rounding."""
    over = np.maximum(excess - 16.0 * EPS * size, 0.0)
    return np.where(over > 0.0, over / np.maximum(size, TINY), 0.0)
