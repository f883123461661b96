"""The law of a sum of Laplace variables, by integration in the complex plane.

S = Σ b_j L_j, with independent L_j of density ½ exp(−|x|), has the transform
M(z) = E exp(z S) = Π 1 / (1 − b_j² z²) for |Re z| < 1 / max b, and the tail

    P(S > t) = 1 / (2πi) ∫ exp(−z t) M(z) / z dz

along any line from −i∞ to +i∞ that crosses the real axis at a c in between. The line is bent into
the hyperbola z(v) = r cosh(v + iθ), with r cos θ = c. On it exp(−z t) decays twice exponentially,
and every |1 − b_j² z²| grows with |v|, so that the integrand is largest on the real axis:
nothing cancels, and the trapezoidal rule converges geometrically. Partial fractions, which look
simpler, lose all digits from some twenty weights on.

Squared weights ``squares`` (n, F) are scaled so that the largest of each row is 1, and so is t
(n,), not negative. ``power`` is that of M: the projections of spherical gamma noise have
M(z) = (1 − z²)^−((F + 1) / 2).

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
"""The logarithm of what is left out, so that sums of it are no more than rounding."""


@final
@dataclass(frozen=True, eq=False)
class Contour:
    """Nodes and weights for n laws, each good for t near the one that it was made for."""

    crossing: FloatArray  # (n,) c
    log_transform: FloatArray  # (n,) log M(c)
    z: ComplexArray  # (n, J) the nodes
    weight: ComplexArray  # (n, J) M(z) / M(c) dz / z, with the step and 1 / π; 0 behind the cut

    @classmethod
    def through(cls, squares: FloatArray, t: FloatArray, power: float = 1.0) -> Contour:
        """Return the contours for n laws of squared weights (n, F), near the quantiles t (n,).

        A contour is the hyperbola z = r cosh(v + iθ), at steps h in v from 0 to where the integrand
        is negligible; it crosses the real axis at c = r cos θ.
        """
        c = _crossing(squares, t, power)
        r = c / np.cos(ANGLE)
        h = _step(squares, t, power, r)
        end = _cut(squares, t, power, c)
        steps = np.arange(int((end / h).max()) + 2)
        v = h[:, None] * steps
        within = v <= (end + h)[:, None]
        v = np.minimum(v, (end + h)[:, None]) + 1j * ANGLE
        z = r[:, None] * np.cosh(v)
        weight = r[:, None] * np.sinh(v) / z * (h / np.pi)[:, None] * within
        weight[:, 0] *= 0.5  # the other half of the contour is its mirror image
        inside = _inside(squares, c)
        shrunk = _factors(squares, z)
        shrunk /= inside[:, None, :]
        weight /= shrunk.prod(axis=2) ** power
        return cls(c, -power * np.log(inside).sum(axis=1), z, weight)

    def log_tail(self, t: FloatArray) -> FloatArray:
        """(n,) log P(S > t)."""
        return self.log_transform - self.crossing * t + np.log(self._terms(t).imag.sum(axis=1))

    def hazard(self, t: FloatArray) -> FloatArray:
        """(n,) the density of S at t over P(S > t)."""
        terms = self._terms(t)
        return (terms * self.z).imag.sum(axis=1) / terms.imag.sum(axis=1)

    def slopes(self, squares: FloatArray, t: FloatArray) -> FloatArray:
        """(n, F) the derivatives by b_j of the quantile t at a fixed probability, for power 1."""
        terms = self._terms(t) * self.z
        factors = _factors(squares, self.z)
        pulls = np.divide((terms * self.z)[:, :, None], factors, out=factors).imag.sum(axis=1)
        return 2.0 * np.sqrt(squares) * pulls / terms.imag.sum(axis=1)[:, None]

    def _terms(self, t: FloatArray) -> ComplexArray:
        return self.weight * np.exp(-(self.z - self.crossing[:, None]) * t[:, None])


def log_tails(squares: FloatArray, t: FloatArray, power: float = 1.0) -> FloatArray:
    """(n,) log P(S > t) for positive t."""
    # Concave, so that its tangent, which is followed from 10⁴ on, lies above it.
    near = np.minimum(t, 1e4)
    contour = Contour.through(squares, near, power)
    return contour.log_tail(near) - contour.hazard(near) * (t - near)


def upper_quantiles(
    squares: FloatArray, q: float, start: FloatArray, power: float = 1.0
) -> tuple[FloatArray, Contour]:
    """Return t (n,) with P(S > t) = q < ½, and the contours there, from positive guesses."""
    # The tail is log-concave: Newton's method lands right of the solution, and comes down to it.
    t, goal = start, float(np.log(q))
    contour = Contour.through(squares, t, power)
    for _ in range(100):  # never so many
        moved = _newton(contour, t, goal)
        near = np.abs(moved - t) <= 0.05 * t  # a contour serves as far as this
        t = moved
        if near.all():
            break
        contour = Contour.through(squares, t, power)
    return t, contour


def blocks(which: BoolArray, width: int) -> list[IntArray]:
    """Row numbers where ``which``, in parts with about a million numbers (nodes times weights)."""
    chosen = np.flatnonzero(which)
    many = max(1, 1_000_000 // (60 * (width + 20)))
    return [chosen[i : i + many] for i in range(0, len(chosen), many)]


def _newton(contour: Contour, start: FloatArray, goal: float) -> FloatArray:
    """(n,) the quantiles, as far as one contour reaches: from half the start to twice it."""
    t = start
    for _ in range(100):  # never so many
        step = (contour.log_tail(t) - goal) / contour.hazard(t)
        moved = np.clip(t + step, 0.5 * start, 2.0 * start)
        done = np.abs(moved - t) <= 1e-15 * t
        t = moved
        if done.all():
            break
    return t


def _factors(squares: FloatArray, z: NDArray[Any]) -> NDArray[Any]:
    """(n, J, F) 1 − b² z²."""
    factors = squares[:, None, :] * (z * z)[:, :, None]
    return np.subtract(1.0, factors, out=factors)


def _inside(squares: FloatArray, c: FloatArray) -> FloatArray:
    """(n, F) 1 − b² c²."""
    return 1.0 - squares * (c * c)[:, None]


def _crossing(squares: FloatArray, t: FloatArray, power: float) -> FloatArray:
    """Return where contours cross the real axis: c (n,), near the integrand's minimum in (0, 1).

    Newton's method on its logarithm, −c t − log c − power Σ log(1 − b² c²), which is
    self-concordant: damped steps stay inside and converge from anywhere.
    """
    mass = power * squares.sum(axis=1)
    c = np.maximum(t / (mass + np.hypot(mass, t)), 1.0 / np.sqrt(2.0 * mass + 1.0))
    for _ in range(100):  # never so many
        ratio = squares / _inside(squares, c)
        slope = -t - 1.0 / c + 2.0 * power * c * ratio.sum(axis=1)
        grown = ratio * (1.0 + 2.0 * ratio * (c * c)[:, None])
        bend = 1.0 / c**2 + 2.0 * power * grown.sum(axis=1)
        decrement = np.abs(slope) / np.sqrt(bend)
        if (decrement < 0.05).all():
            break
        c = c - slope / bend / (1.0 + decrement)
    # Up to three times its width left of the saddle point, but not where the nearest pole is 0.3
    # away in v: a factor of less than 100 in the integrand, and far fewer nodes where a single
    # weight is large.
    farthest = c / (1.0 + 3.0 / (c * np.sqrt(bend)))
    return np.maximum(farthest, np.minimum(c, np.cos(ANGLE) / np.cos(ANGLE - 0.3)))


def _step(squares: FloatArray, t: FloatArray, power: float, r: FloatArray) -> FloatArray:
    """(n,) the step of the trapezoidal rule.

    The error is exp(−2π d / h) times the integrand at the height d of v. At imaginary v, where that
    is largest, z = r cos(θ ± d) is real. Six heights are tried in the strip of analyticity.
    """
    pole = np.arccos(1.0 / np.maximum(r, 1.0))  # θ where the hyperbola would cross at 1
    middle = _log_size(squares, t, power, r, np.full((len(r), 1), ANGLE))
    steps = []
    for sign, room in ((1.0, np.full_like(r, np.pi / 2.0 - ANGLE)), (-1.0, ANGLE - pole)):
        d = room[:, None] * np.linspace(0.15, 0.95, 6)
        grown = _log_size(squares, t, power, r, ANGLE + sign * d) - middle
        steps.append((2.0 * np.pi * d / np.maximum(NEGLIGIBLE + grown, 1.0)).max(axis=1))
    return np.minimum(*steps)


def _log_size(
    squares: FloatArray, t: FloatArray, power: float, r: FloatArray, angle: FloatArray
) -> FloatArray:
    """(n, m) the logarithm of the integrand where the hyperbola of an angle (n, m) crosses."""
    z = r[:, None] * np.cos(angle)
    shrunk = np.log(np.abs(_factors(squares, z))).sum(axis=2)
    return np.log(np.tan(angle)) - t[:, None] * z - power * shrunk


def _cut(squares: FloatArray, t: FloatArray, power: float, c: FloatArray) -> FloatArray:
    """(n,) a v, at most 45, from which on the integrand is negligible: the first of 24."""
    v = np.geomspace(0.3, 45.0, 24)
    z = (c / np.cos(ANGLE))[:, None] * np.cosh(v + 1j * ANGLE)
    shrunk = np.log(np.abs(_factors(squares, z)) / _inside(squares, c)[:, None, :]).sum(axis=2)
    # the integrand of the density has z once more
    fall = t[:, None] * (z.real - c[:, None]) + power * shrunk - np.log(np.abs(z) / c[:, None])
    return np.asarray(v[(fall[:, :-1] < NEGLIGIBLE).sum(axis=1)])
