"""Two classes: the root of one equation, to the last few bits."""

from __future__ import annotations

import numpy as np
from scipy.special import wrightomega

from counterpoint.numerics import TINY, FloatArray

__all__ = ["logistic_root"]


def logistic_root(alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n,) the root t of t = 1 / (1 + exp(α t + β)), and (n,) 1 − t, each to the last few bits.

    For (n,) α >= 0, below 1e290, and finite β. The smaller of the two is solved for; one that is
    below the least positive float is 0. Carreira-Perpiñán & Hada, theorem 4.1.
    """
    root, complement = np.empty(len(alpha)), np.empty(len(alpha))
    size = 1 << 12  # rows at a time, so that what is computed of them stays in the cache
    for start in range(0, len(alpha), size):
        block = slice(start, start + size)
        a, b = alpha[block], beta[block]
        large = 0.5 * a + b < 0.0  # then 1 − t is the smaller one: the root for (α, −α − β)
        total, residue = _sum(a, b)
        shift = np.where(large, -total, b)
        small = _refined(_small_root(a, shift), a, shift, np.where(large, -residue, 0.0))
        root[block] = np.where(large, 1.0 - small, small)
        complement[block] = np.where(large, small, 1.0 - small)
    return root, complement


def rough_root(alpha: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Roughly the same of β = −level, also of two numbers."""
    odds = np.exp(_rough_log_odds(alpha, np.minimum(level, alpha - level)))
    small, large = odds / (1.0 + odds), 2.0 * level > alpha
    return np.abs(large - small), np.abs(~large - small)


def _rough_log_odds(alpha: FloatArray, level: FloatArray) -> FloatArray:
    """About the log-odds w of a root t of at most 1/2: two Newton steps on w + α t = level.

    They start where w is log t, which is Wright's omega: v + log v = log α + level for v = α t.
    """
    scale = np.log(np.maximum(alpha, TINY))
    v = wrightomega(scale + level)
    w = np.where(v > 1.0, np.log(np.maximum(v, 1.0)) - scale, level - v)  # neither cancels
    for _ in range(2):
        odds = np.exp(w)
        complement = 1.0 / (1.0 + odds)
        pull = alpha * odds * complement
        w = w + (level - pull - w) / (1.0 + pull * complement)
    return w


def _small_root(alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """A root of at most 1/2 by Halley's method on its logarithm y.

    y − log(1 − e^y) + α e^y + β = 0 is increasing and convex in y. Each step triples the correct
    digits, of which the first guess has almost one: that of `_rough_log_odds` takes as long as all
    three.
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


def _refined(t: FloatArray, alpha: FloatArray, beta: FloatArray, residue: FloatArray) -> FloatArray:
    """One Newton step with the exponent α t + (β + residue) in twice the precision."""
    product, low = _product(alpha, t)
    total, error = _sum(product, beta)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        wanted = np.exp(-total) * (1.0 - (error + low + residue)) * (1.0 - t)
        step = (wanted / t - 1.0) / (1.0 + alpha * t + t / (1.0 - t))
    return np.where(t > 0.0, t + t * np.nan_to_num(step), t)


def _sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a + b as a float and what rounding took from it (Knuth)."""
    total = a + b
    remainder = total - a
    return total, (a - (total - remainder)) + (b - remainder)


def _product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a · b as a float and what rounding took from it (Dekker)."""
    product, split = a * b, 2.0**27 + 1.0  # halves of 53 bits, whose products are exact
    a_high, b_high = split * a, split * b
    a_high, b_high = a_high - (a_high - a), b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
