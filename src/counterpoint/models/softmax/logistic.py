"""Find the probability at the optimum of two classes: the root of one equation."""

from __future__ import annotations

import numpy as np

from counterpoint.numerics import FloatArray


def logistic_root(alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the root t of t = 1 / (1 + exp(α t + β)), and 1 − t, both (n,).

    Each is as exact as it follows from the rounded β. For (n,) α >= 0, below 1e290, and finite β.
    The smaller of the two is solved for; one that is below the least positive float is 0.
    Carreira-Perpiñán & Hada, theorem 4.1.
    """
    large = 0.5 * alpha + beta < 0.0  # t > 1/2: 1 − t is the root for (α, −α − β)
    small = _small_root(alpha, np.where(large, -alpha - beta, beta))
    return np.where(large, 1.0 - small, small), np.where(large, small, 1.0 - small)


def _small_root(alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """Find a root t of at most 1/2 by Halley's method on its logarithm y.

    The function y − log(1 − e^y) + α e^y + β, 0 at the root, is increasing and convex in y. Each
    step triples the correct digits, of which the first guess has almost one.
    """
    # Without log(1 − e^y), w = y + log α is the root of w + e^w = level. Above 1, e^w is most of
    # the left side, so w ≈ log(level − log level); below, w ≈ level − log(1 + e^level).
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_alpha = np.log(alpha)
        level = log_alpha - beta
        w = np.log(np.maximum(level - np.log(np.maximum(level, 1.0)), 1.0))
        y = -beta - np.log1p(np.exp(np.minimum(level, 1.0)))
    largest = -np.log(2.0)
    y = np.minimum(np.where(level > 1.0, w - log_alpha, y), largest)
    for _ in range(3):
        t = np.exp(y)
        alpha_t, inverse = alpha * t, 1.0 / (1.0 - t)
        value = y - np.log1p(-t) + alpha_t + beta
        slope = inverse + alpha_t
        curvature = t * inverse * inverse + alpha_t
        y = np.minimum(y - value / (slope - 0.5 * value * curvature / slope), largest)
    return np.exp(y)
