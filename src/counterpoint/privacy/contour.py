"""Computes the law of a sum of Laplace variables, by integration in the complex plane.

S = Σ b_j L_j, with independent L_j of density ½ exp(−|x|), has the transform
M(z) = E exp(z S) = Π 1 / (1 − b_j² z²) for |Re z| < 1 / max b, and the tail

    P(S > t) = 1 / (2πi) ∫ exp(−z t) M(z) / z dz

along any line from −i∞ to +i∞ that crosses the real axis at a c in between. The line is bent into
the hyperbola z(v) = r cosh(v + iθ), with r cos θ = c. On it exp(−z t) decays twice exponentially,
and every |1 − b_j² z²| grows with |v|, so that the integrand is largest on the real axis:
nothing cancels, and the trapezoidal rule converges geometrically. Partial fractions, which look
simpler, lose all digits from some twenty weights on.

In the functions, ``squares`` (n, F) are b_j² of n laws, in units in which the largest of each is 1,
as ``t`` (n,) is, which is not negative. ``power`` is an exponent of M: the projections of spherical
gamma noise have M(z) = (1 − z²)^−((F + 1) / 2).

References
----------
Weideman & Trefethen (2007), Parabolic and hyperbolic contours for computing the Bromwich integral.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray

ComplexArray = NDArray[np.complex128]

ANGLE = np.deg2rad(67.5)
"""θ: the wider, the faster the decay, and the nearer the pole at 0."""
NEGLIGIBLE = -np.log(EPS / 20.0)
"""How far the logarithm of the integrand has fallen where its sums are no more than rounding."""


@final
@dataclass(frozen=True, eq=False)
class Contour:
    """J nodes and weights for each of n laws, good for t near the one that they were made for."""

    crossing: FloatArray  # (n,) c, where the contour crosses the real axis
    log_transform: FloatArray  # (n,) log M(c)
    z: ComplexArray  # (n, J) the nodes, on the upper half of the contour
    weight: ComplexArray  # (n, J) M(z) / M(c) dz / z, with the step and 1 / π; 0 of spare nodes

    @classmethod
    def through(cls, squares: FloatArray, t: FloatArray, power: float = 1.0) -> Contour:
        """Return the contours for n laws of squared weights (n, F), near the quantiles t (n,).

        A contour is the hyperbola z = r cosh(v + iθ), at steps h in v from 0 to where the integrand
        is negligible; it crosses the real axis at c = r cos θ. The weights are the
        integrand without exp(−z t), which depends on t, and relative to M(c).
        """
        c = _crossing(squares, t, power)
        r = c / np.cos(ANGLE)
        h = _step(squares, t, power, r)
        end = _end(squares, t, power, c)
        # All laws get as many nodes as the one that needs most; those beyond its own end are spare.
        v = h[:, None] * np.arange(int((end / h).max()) + 2)
        last = (end + h)[:, None]
        is_needed = v <= last
        v = np.minimum(v, last) + 1j * ANGLE
        z = r[:, None] * np.cosh(v)
        # dz / z times the step of the trapezoidal rule, with dz = r sinh(v + iθ) dv
        weight = r[:, None] * np.sinh(v) / z * (h / np.pi)[:, None] * is_needed
        weight[:, 0] *= 0.5  # the other half of the contour is its mirror image
        # M(z) / M(c): the factors 1 − b_j² z² are divided first, since their products may overflow
        at_crossing = _real_factors(squares, c)
        ratios = _factors(squares, z)
        ratios /= at_crossing[:, None, :]
        weight /= ratios.prod(axis=2) ** power
        return cls(c, -power * np.log(at_crossing).sum(axis=1), z, weight)

    def log_tail(self, t: FloatArray) -> FloatArray:
        """Return log P(S > t), shape (n,)."""
        return self.log_transform - self.crossing * t + np.log(self._terms(t).imag.sum(axis=1))

    def hazard(self, t: FloatArray) -> FloatArray:
        """Return the density of S at t over P(S > t), shape (n,)."""
        terms = self._terms(t)
        return (terms * self.z).imag.sum(axis=1) / terms.imag.sum(axis=1)

    def slopes(self, squares: FloatArray, t: FloatArray) -> FloatArray:
        """Return derivatives (n, F) by b_j of the quantile t at a fixed probability, for power 1.

        They are −(∂P/∂b_j) / (∂P/∂t), by sums over the same nodes: the derivative of log M by b_j
        is 2 b_j z² / (1 − b_j² z²), that of exp(−z t) by t has the factor −z.
        """
        density = self._terms(t) * self.z
        factors = _factors(squares, self.z)
        sums = np.divide((density * self.z)[:, :, None], factors, out=factors).imag.sum(axis=1)
        return 2.0 * np.sqrt(squares) * sums / density.imag.sum(axis=1)[:, None]

    def _terms(self, t: FloatArray) -> ComplexArray:
        """Return the terms (n, J) whose imaginary parts add up to P(S > t) exp(c t) / M(c)."""
        return self.weight * np.exp(-(self.z - self.crossing[:, None]) * t[:, None])


def log_tails(squares: FloatArray, t: FloatArray, power: float = 1.0) -> FloatArray:
    """Return log P(S > t) for positive t, shape (n,)."""
    # It is concave, so that its tangent, which is followed from 10⁴ on, lies above it.
    near = np.minimum(t, 1e4)
    contour = Contour.through(squares, near, power)
    return contour.log_tail(near) - contour.hazard(near) * (t - near)


def upper_quantiles(
    squares: FloatArray, q: float, start: FloatArray, power: float = 1.0
) -> tuple[FloatArray, Contour]:
    """Return t (n,) with P(S > t) = q < ½, and the contours there, from positive guesses."""
    # The tail is log-concave: Newton's method lands right of the solution, and comes down to it.
    t, log_q = start, float(np.log(q))
    contour = Contour.through(squares, t, power)
    for _ in range(100):  # never so many
        t, previous = _newton(contour, t, log_q), t
        if (np.abs(t - previous) <= 0.05 * previous).all():  # a contour serves as far as this
            break
        contour = Contour.through(squares, t, power)
    return t, contour


def blocks(mask: BoolArray, width: int) -> list[IntArray]:
    """Return the rows of a mask, in blocks of about a million numbers (60 nodes times weights)."""
    rows = np.flatnonzero(mask)
    size = max(1, 1_000_000 // (60 * (width + 20)))
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def _newton(contour: Contour, start: FloatArray, log_q: float) -> FloatArray:
    """Return the quantiles (n,), as far as one contour reaches: from half the start to twice it."""
    t = start
    for _ in range(100):  # never so many
        step = (contour.log_tail(t) - log_q) / contour.hazard(t)
        t, previous = np.clip(t + step, 0.5 * start, 2.0 * start), t
        if (np.abs(t - previous) <= 1e-15 * previous).all():
            break
    return t


def _factors(squares: FloatArray, z: NDArray[Any]) -> NDArray[Any]:
    """Return 1 − b_j² z² for z (n, J), shape (n, J, F)."""
    factors = squares[:, None, :] * (z * z)[:, :, None]
    return np.subtract(1.0, factors, out=factors)


def _real_factors(squares: FloatArray, c: FloatArray) -> FloatArray:
    """Return 1 − b_j² c² for real c (n,), shape (n, F)."""
    return 1.0 - squares * (c * c)[:, None]


def _crossing(squares: FloatArray, t: FloatArray, power: float) -> FloatArray:
    """Return where contours cross the real axis: c (n,), near the integrand's minimum in (0, 1).

    Newton's method on its logarithm, −c t − log c − power Σ log(1 − b² c²), which is
    self-concordant: damped steps stay inside and converge from anywhere.
    """
    # It starts at the larger of the minima without −log c and without −c t, both as if Σ b² were
    # made of weights of 1.
    mass = power * squares.sum(axis=1)
    c = np.maximum(t / (mass + np.hypot(mass, t)), 1.0 / np.sqrt(2.0 * mass + 1.0))
    for _ in range(100):  # never so many
        ratio = squares / _real_factors(squares, c)
        slope = -t - 1.0 / c + 2.0 * power * c * ratio.sum(axis=1)
        ratio_slope = ratio * (1.0 + 2.0 * ratio * (c * c)[:, None])
        curvature = 1.0 / c**2 + 2.0 * power * ratio_slope.sum(axis=1)
        decrement = np.abs(slope) / np.sqrt(curvature)
        if (decrement < 0.05).all():
            break
        c = c - slope / curvature / (1.0 + decrement)
    # The crossing is left of this saddle point, by up to three times its width, but no farther than
    # where the pole of M is 0.3 away in v. That costs a factor of less than 100 in the integrand,
    # and saves many nodes where a single weight is large, and the saddle point near its pole.
    leftmost = c / (1.0 + 3.0 / (c * np.sqrt(curvature)))
    return np.maximum(leftmost, np.minimum(c, np.cos(ANGLE) / np.cos(ANGLE - 0.3)))


def _step(squares: FloatArray, t: FloatArray, power: float, r: FloatArray) -> FloatArray:
    """Return the step h (n,) of the trapezoidal rule in v at which its error is negligible.

    The error has two terms, one for each side of the contour: exp(−2π d / h) times the integrand
    at v ± i d, for any d up to the nearest pole on that side. Such a v lies on the hyperbola of the
    angle θ ± d; above, the pole is that of 1 / z at 0, of the angle π / 2, and below that of the
    transform M at 1. On a hyperbola the integrand is largest where it crosses the real axis, at
    z = r cos(θ ± d).

    With log |integrand| higher by ``rise`` at d than on the contour, a term is negligible for
    h = 2π d / (NEGLIGIBLE + rise). Each side takes the largest of six d, and both have to do.
    """
    pole = np.arccos(1.0 / np.maximum(r, 1.0))  # the angle of the hyperbola that crosses at 1
    log_size = _log_size(squares, t, power, r, np.full((len(r), 1), ANGLE))
    steps = []
    for sign, height in ((1.0, np.full_like(r, np.pi / 2.0 - ANGLE)), (-1.0, ANGLE - pole)):
        d = height[:, None] * np.linspace(0.15, 0.95, 6)
        rise = _log_size(squares, t, power, r, ANGLE + sign * d) - log_size
        steps.append((2.0 * np.pi * d / np.maximum(NEGLIGIBLE + rise, 1.0)).max(axis=1))
    return np.minimum(*steps)


def _log_size(
    squares: FloatArray, t: FloatArray, power: float, r: FloatArray, angle: FloatArray
) -> FloatArray:
    """Return log |integrand| (n, m) where hyperbolas of angles (n, m) cross the real axis."""
    z = r[:, None] * np.cos(angle)
    log_factors = np.log(np.abs(_factors(squares, z))).sum(axis=2)
    # there dz / z = i tan(angle) dv
    return np.log(np.tan(angle)) - t[:, None] * z - power * log_factors


def _end(squares: FloatArray, t: FloatArray, power: float, c: FloatArray) -> FloatArray:
    """Return the first of 24 v (n,), at most 45, from which on the integrand is negligible."""
    v = np.geomspace(0.3, 45.0, 24)
    z = (c / np.cos(ANGLE))[:, None] * np.cosh(v + 1j * ANGLE)
    ratios = np.abs(_factors(squares, z)) / _real_factors(squares, c)[:, None, :]
    log_ratios = np.log(ratios).sum(axis=2)
    # the integrand of the density has z once more
    fall = t[:, None] * (z.real - c[:, None]) + power * log_ratios - np.log(np.abs(z) / c[:, None])
    return np.asarray(v[(fall[:, :-1] < NEGLIGIBLE).sum(axis=1)])
