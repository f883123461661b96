"""Estimate quantiles of several numbers at once from draws of the noise, with confidence.

An estimate is too large rather than too small: with a confidence of 99.9 % at least the share of
the noise that is asked for lies below it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.numerics import FloatArray

CONFIDENCE = 0.999
"""How sure it is that a share of at least p of the noise is below what was estimated from draws."""
PILOT = 0.2
"""The share of the draws that sets the unit of each number; the others set the quantile in these
units. If the same draws did both, the order statistic would not be one of independent draws."""


def joint_quantiles(draws: FloatArray, probability: float) -> FloatArray:
    """Return upper bounds (…, V) that V random numbers all meet at once, with a probability.

    ``draws`` (…, V, N) are N draws of the numbers. The first of them, the pilot, give each number a
    median and a spread. Less its median and in units of its spread, every number has the same
    bound: an order statistic, over the other draws, of the largest of the V numbers.

    Raises
    ------
    InvalidInput
        If there are too few draws.
    """
    n = draws.shape[-1]
    pilot = int(np.ceil(PILOT * n))
    rank = _order_statistic(n - pilot, probability)
    if rank is None:
        raise InvalidInput(  # with three draws to spare
            f"Expected at least {least_draws(probability) + 3} draws of the noise to tell a "
            f"probability of {probability!r}; got draws={n}. Ask for more, or for "
            "guarantee='fixed'."
        )
    # The spread is from the median to the quantile at ``probability``, but to no lower one than at
    # 0.84: of a normal distribution that is one standard deviation.
    levels = [0.5, max(probability, 0.84)]
    median, upper = np.quantile(draws[..., :pilot], levels, axis=-1)[..., None]
    spread = np.where(upper > median, upper - median, 1.0)
    largest = ((draws[..., pilot:] - median) / spread).max(axis=-2)
    bound = np.partition(largest, rank - 1, axis=-1)[..., rank - 1]
    return np.asarray(median[..., 0] + bound[..., None] * spread[..., 0])


@lru_cache(maxsize=256)
def _order_statistic(draws: int, probability: float) -> int | None:
    """Return the least rank whose order statistic exceeds the quantile; None if no rank is sure.

    That of rank r is below the quantile if r draws or more are, of which the number is binomial.
    """
    from scipy.special import bdtrc

    ranks = np.arange(1, draws + 1)
    sure = np.flatnonzero(bdtrc(ranks - 1, draws, probability) <= 1.0 - CONFIDENCE)
    return int(ranks[sure[0]]) if len(sure) else None


def least_draws(probability: float) -> int:
    """Return about how many draws are needed for a quantile, never fewer than are.

    The largest of n draws exceeds the quantile with the confidence if 1 − pⁿ does.
    """
    least = np.log(1.0 - CONFIDENCE) / np.log(probability)
    return int(np.ceil((np.ceil(least) + 1.0) / (1.0 - PILOT))) + 2


def polygon_corners(
    first: FloatArray, second: FloatArray, probability: float
) -> tuple[FloatArray, FloatArray]:
    """Return the corners of n polygons, each of which holds two numbers with a probability.

    From N draws of both, (n, N); their values at the V corners are (n, V). The second number is not
    negative. A polygon is the intersection of the half-planes that joint quantiles of eight
    weighted sums give; with more of them, the quantile of each grows.
    """
    pilot = int(np.ceil(PILOT * first.shape[1]))
    sizes = (np.sqrt((v[:, :pilot] ** 2).mean(axis=1, keepdims=True)) for v in (first, second))
    units = [np.where(size > 0.0, size, 1.0) for size in sizes]
    angle = np.linspace(0.0, 0.5 * np.pi, 8)
    normals = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    normals[[0, -1]] = np.eye(2)  # whose sines and cosines may round
    scaled = np.stack([first / units[0], second / units[1]], axis=1)
    corners = _corners(normals, joint_quantiles(normals @ scaled, probability))
    return corners[0] * units[0], corners[1] * units[1]


def _corners(normals: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both coordinates (n, V) of the corners of {z : normals z <= limits, z₂ >= 0}.

    These are the intersections of two of the lines that meet all others. The number of pairs of
    lines is the same for all n; in the place of a pair that intersects outside stands the first
    corner.
    """
    normals = np.vstack([normals, [0.0, -1.0]])
    limits = np.hstack([limits, np.zeros((len(limits), 1))])
    i, j = np.triu_indices(len(normals), 1)
    determinant = normals[i, 0] * normals[j, 1] - normals[i, 1] * normals[j, 0]
    i, j, determinant = (pairs[np.abs(determinant) > 1e-9] for pairs in (i, j, determinant))
    first = (limits[:, i] * normals[j, 1] - limits[:, j] * normals[i, 1]) / determinant
    second = (limits[:, j] * normals[i, 0] - limits[:, i] * normals[j, 0]) / determinant
    values = first[:, :, None] * normals[:, 0] + second[:, :, None] * normals[:, 1]
    # Rounding must not drop a corner: with one that is a little outside, margins are only larger.
    tolerance = 1e-9 * (np.abs(limits).max(axis=1)[:, None, None] + np.abs(values))
    inside = (values <= limits[:, None, :] + tolerance).all(axis=2)
    corner = np.where(inside, np.arange(inside.shape[1]), inside.argmax(axis=1)[:, None])
    rows = np.arange(len(limits))[:, None]
    return first[rows, corner], second[rows, corner]
