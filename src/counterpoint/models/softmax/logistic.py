"""Two classes: the root of one equation."""

from __future__ import annotations

import numpy as np

from counterpoint.numerics import FloatArray


def logistic_root(alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n,) the root t of t = 1 / (1 + exp(α t + β)), and (n,) 1 − t.

    Each is as exact as it follows from the rounded β. For (n,) α >= 0, below 1e290, and finite β.
    The smaller of the two is solved for; one that is below the least positive float is 0.
    Carreira-Perpiñán & Hada, theorem 4.1.
    """
    large = 0.5 * alpha + beta < 0.0  # then 1 − t is the smaller one: the root for (α, −α − β)
    small = _small_root(alpha, np.where(large, -alpha - beta, beta))
    return np.where(large, 1.0 - small, small), np.where(large, small, 1.0 - small)


def _small_root(alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """A root of at most 1/2 by Halley's method on its logarithm y.

    y − log(1 − e^y) + α e^y + β = 0 is increasing and convex in y. Each step triples the correct
    digits, of which the first guess has almost one.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        scale = np.log(alpha)
        level = scale - beta  # w + e^w ≈ level for w = y + log α
        low = np.log(np.maximum(level - np.log(np.maximum(level, 1.0)), 1.0))
        near = -beta - np.log1p(np.exp(np.minimum(level, 1.0)))
    half = -np.log(2.0)  # the logarithm of the largest root that is solved for
    y = np.minimum(np.where(level > 1.0, low - scale, near), half)
    for _ in range(3):
        t = np.exp(y)
        pull, free = alpha * t, 1.0 / (1.0 - t)
        value = y - np.log1p(-t) + pull + beta
        slope = free + pull
        bend = t * free * free + pull
        y = np.minimum(y - value / (slope - 0.5 * value * bend / slope), half)
    return np.exp(y)
