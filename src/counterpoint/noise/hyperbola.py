"""Where the contour crosses the real axis, how densely it is sampled, and how far.

`counterpoint.noise.contour` says what is integrated. Squared weights are (n, F), the largest of
each row 1; t is (n,) and not negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ANGLE", "MOST", "crossing", "cut", "inside", "step_of"]

FloatArray = NDArray[np.float64]

ANGLE = np.deg2rad(67.5)
"""θ: the wider, the faster the decay, and the nearer the pole at 0."""
NEGLIGIBLE = 39.0
"""exp(−39) is a hundredth of the relative spacing of floats."""
SLACK = 3.0
"""How far left of the saddle point the contour may cross, in units of its width: a factor of less
than 100 in the integrand, for far fewer nodes where a single weight is large."""
ROOM = 0.3
"""The distance to the nearest pole, in v, up to which that is done."""
HEIGHTS = np.linspace(0.15, 0.95, 6)
"""Where in the strip of analyticity the integrand is looked at, as fractions of it."""
FARTHEST = 45.0
"""Beyond this v every integrand is negligible: it decays at least as exp(−v)."""
MOST = 100
"""More steps than any of the iterations takes."""


def inside(squares: FloatArray, c: FloatArray) -> FloatArray:
    """(n, F) 1 − b² c²."""
    return 1.0 - squares * (c * c)[:, None]


def crossing(squares: FloatArray, t: FloatArray, power: float) -> FloatArray:
    """(n,) c: near the minimum over (0, 1) of the integrand, by Newton's method on its logarithm.

    That is −c t − log c − power Σ log(1 − b² c²), which is self-concordant: damped steps stay
    inside and converge from anywhere.
    """
    mass = power * squares.sum(axis=1)
    c = np.maximum(t / (mass + np.hypot(mass, t)), 1.0 / np.sqrt(2.0 * mass + 1.0))
    for _ in range(MOST):
        part = squares / inside(squares, c)
        slope = -t - 1.0 / c + 2.0 * power * c * part.sum(axis=1)
        grown = part * (1.0 + 2.0 * part * (c * c)[:, None])
        bend = 1.0 / c**2 + 2.0 * power * grown.sum(axis=1)
        decrement = np.abs(slope) / np.sqrt(bend)
        if (decrement < 0.05).all():
            break
        c = c - slope / bend / (1.0 + decrement)
    farthest = c / (1.0 + SLACK / (c * np.sqrt(bend)))
    return np.maximum(farthest, np.minimum(c, np.cos(ANGLE) / np.cos(ANGLE - ROOM)))


def step_of(squares: FloatArray, t: FloatArray, power: float, r: FloatArray) -> FloatArray:
    """(n,) the step of the trapezoidal rule.

    The error is exp(−2π d / h) times the integrand at the height d of v. At imaginary v, where that
    is largest, z = r cos(θ ± d) is real.
    """
    pole = np.arccos(1.0 / np.maximum(r, 1.0))  # θ where the hyperbola would cross at 1
    room = (np.full_like(r, np.pi / 2.0 - ANGLE), ANGLE - pole)
    middle = _log_size(squares, t, power, r, np.full((len(r), 1), ANGLE))
    steps = []
    for sign, most in zip((1.0, -1.0), room, strict=True):
        d = most[:, None] * HEIGHTS
        grown = _log_size(squares, t, power, r, ANGLE + sign * d) - middle
        steps.append((2.0 * np.pi * d / np.maximum(NEGLIGIBLE + grown, 1.0)).max(axis=1))
    return np.minimum(*steps)


def _log_size(
    squares: FloatArray, t: FloatArray, power: float, r: FloatArray, angle: FloatArray
) -> FloatArray:
    """(n, m) the logarithm of the integrand where the hyperbola of an angle (n, m) crosses."""
    z = r[:, None] * np.cos(angle)
    factor = np.abs(1.0 - squares[:, None, :] * (z * z)[:, :, None])
    return np.log(np.tan(angle)) - t[:, None] * z - power * np.log(factor).sum(axis=2)


def cut(squares: FloatArray, t: FloatArray, power: float, c: FloatArray) -> FloatArray:
    """(n,) the v from which on the integrand is negligible, by bisection."""
    low, high = np.zeros_like(c), np.full_like(c, FARTHEST)
    whole = power * np.log(inside(squares, c)).sum(axis=1)
    for _ in range(10):
        v = 0.5 * (low + high)
        z = (c / np.cos(ANGLE)) * np.cosh(v + 1j * ANGLE)
        size = 1.0 - squares * (z * z)[:, None]
        squared = size.real * size.real + size.imag * size.imag
        fall = t * (z.real - c) + 0.5 * power * np.log(squared).sum(axis=1) - whole
        fall -= np.log(np.abs(z) / c)  # the integrand of the density has z once more
        small = fall >= NEGLIGIBLE
        low, high = np.where(small, low, v), np.where(small, v, high)
    return high
