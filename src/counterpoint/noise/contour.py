"""The law of a sum of Laplace variables, by integration in the complex plane.

S = Σ b_j L_j, with independent L_j of density ½ exp(−|x|), has the transform
M(z) = E exp(z S) = Π 1 / (1 − b_j² z²) for |Re z| < 1 / max b, and the tail

    P(S > t) = 1 / (2πi) ∫ exp(−z t) M(z) / z dz

along any line from −i∞ to +i∞ that crosses the real axis at a c in between. The line is bent into
the hyperbola z(v) = r cosh(v + iθ), with r cos θ = c. On it exp(−z t) decays twice exponentially,
and every |1 − b_j² z²| grows with |v|, so that the integrand is largest on the real axis:
nothing cancels, and the trapezoidal rule converges geometrically. Partial fractions, which look
simpler, lose all digits from some twenty weights on.

Weights are scaled so that the largest is 1, and so is t. ``power`` is that of M: the projections of
spherical gamma noise have M(z) = (1 − z²)^−((F + 1) / 2).

References
----------
Weideman & Trefethen (2007), Parabolic and hyperbolic contours for computing the Bromwich integral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.noise.hyperbola import ANGLE, MOST, crossing, cut, inside, step_of

__all__ = ["Contour", "blocks", "log_tails", "upper_quantiles"]

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

FAR = 1e4
"""Beyond this t the logarithm of the tail is followed along its tangent."""
NEAR = 0.05
"""A contour made for t serves all t that differ by so much."""
BLOCK = 1_000_000
"""Rows, times nodes, times weights, that are computed with in one call, about."""
CACHED = 5_000
"""So many complex numbers are computed with at once."""


@final
@dataclass(frozen=True, eq=False)
class Contour:
    """Nodes and weights for n laws, each good for t near the one that it was made for.

    Parameters
    ----------
    crossing
        (n,) c.
    log_transform
        (n,) log M(c).
    z
        (n, J) the nodes.
    weight
        (n, J) M(z) / M(c) · dz / z, with the step of the rule and 1 / π in it; 0 behind the cut.
    """

    crossing: FloatArray
    log_transform: FloatArray
    z: ComplexArray
    weight: ComplexArray

    @classmethod
    def through(cls, squares: FloatArray, t: FloatArray, power: float = 1.0) -> Contour:
        """The contour for squared weights (n, F), the largest of each row 1, and t ≥ 0 (n,)."""
        c = crossing(squares, t, power)
        r = c / np.cos(ANGLE)
        h = step_of(squares, t, power, r)
        last = cut(squares, t, power, c)
        number = np.arange(int((last / h).max()) + 2)
        v = h[:, None] * number
        kept = v <= (last + h)[:, None]
        v = np.minimum(v, (last + h)[:, None]) + 1j * ANGLE
        z = r[:, None] * np.cosh(v)
        weight = r[:, None] * np.sinh(v) / z * (h / np.pi)[:, None] * kept
        weight[:, 0] *= 0.5  # the other half of the contour is its mirror image
        for some in _columns(z, squares):
            scale = 1.0 / inside(some, c)[:, None, :]
            factor = (some[:, None, :] * scale) * (z * z)[:, :, None]
            np.subtract(scale, factor, out=factor)
            weight /= factor.prod(axis=2) if power == 1.0 else (factor**power).prod(axis=2)
        return cls(c, -power * np.log(inside(squares, c)).sum(axis=1), z, weight)

    def log_tail(self, t: FloatArray) -> FloatArray:
        """(n,) log P(S > t)."""
        return self.log_transform - self.crossing * t + np.log(self._terms(t).imag.sum(axis=1))

    def hazard(self, t: FloatArray) -> FloatArray:
        """(n,) the density of S at t over P(S > t)."""
        terms = self._terms(t)
        return (terms * self.z).imag.sum(axis=1) / terms.imag.sum(axis=1)

    def slopes(self, squares: FloatArray, t: FloatArray, power: float = 1.0) -> FloatArray:
        """(n, F) the derivatives by b_j of the quantile t at a fixed probability."""
        terms = self._terms(t)
        z = self.z * self.z
        pulls = []
        for some in _columns(z, squares):
            factor = some[:, None, :] * z[:, :, None]
            np.subtract(1.0, factor, out=factor)
            np.divide((terms * z)[:, :, None], factor, out=factor)
            pulls.append(factor.imag.sum(axis=1))
        density = (terms * self.z).imag.sum(axis=1)[:, None]
        return 2.0 * power * np.sqrt(squares) * np.concatenate(pulls, axis=1) / density

    def bend(self, squares: FloatArray, t: FloatArray, slopes: FloatArray) -> FloatArray:
        """(F, F) the second derivatives by b of the quantile t of one law, with its slopes (1, F).

        Along the surface on which the tail stays as it is, the logarithm of the integrand has the
        slopes u_j = ∂ log M / ∂b_j − z ∂t / ∂b_j.
        """
        terms, z = self._terms(t)[0], self.z[0][:, None]
        b = np.sqrt(squares)
        factor = 1.0 - squares * (z * z)
        pull = 2.0 * b * (z * z) / factor - z * slopes
        own = 2.0 * (z * z) * (1.0 + squares * (z * z)) / (factor * factor)
        outer = ((pull * terms[:, None]).T @ pull).imag + np.diag((terms @ own).imag)
        return np.asarray(outer / (terms @ self.z[0]).imag)

    def _terms(self, t: FloatArray) -> ComplexArray:
        return self.weight * np.exp(-(self.z - self.crossing[:, None]) * t[:, None])


def log_tails(squares: FloatArray, t: FloatArray, power: float = 1.0) -> FloatArray:
    """(n,) log P(S > t).

    It is a concave function, so that its tangent, which is followed from 10⁴ on, lies above it.

    Parameters
    ----------
    squares
        (n, F) squared weights, the largest of each row 1.
    t
        (n,) positive.
    power
        Of the transform.
    """
    near = np.minimum(t, FAR)
    contour = Contour.through(squares, near, power)
    return contour.log_tail(near) - contour.hazard(near) * (t - near)


def upper_quantiles(
    squares: FloatArray, q: float, start: FloatArray, power: float = 1.0
) -> tuple[FloatArray, Contour]:
    """(n,) t with P(S > t) = q < ½, and the contour through it.

    The tail is log-concave, so Newton's method on its logarithm lands right of the solution from
    anywhere and comes down to it from there.

    Parameters
    ----------
    squares
        (n, F) squared weights, the largest of each row 1.
    q
        The probability.
    start
        (n,) positive guesses.
    power
        Of the transform.
    """
    t, goal = start, float(np.log(q))
    contour = Contour.through(squares, t, power)
    for _ in range(MOST):
        found = _newton(contour, t, goal)
        near = np.abs(found - t) <= NEAR * t
        t = found
        if near.all():
            break
        contour = Contour.through(squares, t, power)
    return t, contour


def blocks(rows: Sequence[int] | NDArray[np.intp], width: int) -> list[NDArray[np.intp]]:
    """Rows in parts that are held at once."""
    chosen = np.asarray(rows, dtype=np.intp)
    many = max(1, BLOCK // (60 * (width + 20)))
    return [chosen[i : i + many] for i in range(0, len(chosen), many)]


def _newton(contour: Contour, start: FloatArray, goal: float) -> FloatArray:
    """(n,) the quantiles, as far as one contour reaches: from half the start to twice it."""
    t = start
    for _ in range(MOST):
        step = (contour.log_tail(t) - goal) / contour.hazard(t)
        moved = np.clip(t + step, 0.5 * start, 2.0 * start)
        done = np.abs(moved - t) <= 1e-15 * t
        t = moved
        if done.all():
            break
    return t


def _columns(z: ComplexArray, squares: FloatArray) -> list[FloatArray]:
    """Squares (n, F) in parts (n, f) with which arrays (n, J, f) fit a cache."""
    width = max(1, CACHED // z.size)
    return [squares[:, i : i + width] for i in range(0, squares.shape[1], width)]
