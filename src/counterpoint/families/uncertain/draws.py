"""What draws of the noise tell with confidence: quantiles of several numbers at once.

An estimate from draws is too large rather than too small: it holds the share of the noise that is
asked for, but with a chance of one in a thousand.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.numerics import FloatArray

CONFIDENCE = 0.999
"""How sure it is that a share of at least p of the noise is below what was estimated from draws."""
PILOT = 0.2
"""The share of the draws that tells how each number spreads; the others tell how far to reach."""


def joint_quantiles(draws: FloatArray, probability: float) -> FloatArray:
    """(…, V, N) draws of V numbers → (…, V) T with all at most T at once, with probability p.

    In units of how the first draws of each spread, T is an order statistic of the others.

    Raises
    ------
    InvalidInput
        If there are too few draws.
    """
    n = draws.shape[-1]
    pilot = int(np.ceil(PILOT * n))
    rank = _order_statistic(n - pilot, probability)
    if rank is None:
        raise InvalidInput(
            f"Expected at least {least_draws(probability) + 3} draws of the noise to tell a "
            f"probability of {probability!r}; got draws={n}. Ask for more, or for "
            "guarantee='fixed'."
        )
    # The spread is that of the quantile asked for, or of one standard deviation.
    levels = [0.5, max(probability, 0.84)]
    middle, upper = np.quantile(draws[..., :pilot], levels, axis=-1)[..., None]
    spread = np.where(upper > middle, upper - middle, 1.0)
    scores = ((draws[..., pilot:] - middle) / spread).max(axis=-2)
    largest = np.partition(scores, rank - 1, axis=-1)[..., rank - 1]
    return np.asarray(middle[..., 0] + largest[..., None] * spread[..., 0])


@lru_cache(maxsize=256)
def _order_statistic(draws: int, probability: float) -> int | None:
    """Return the least rank of draws below which a share of p is; None if none is sure enough."""
    from scipy.special import bdtrc

    ranks = np.arange(1, draws + 1)
    enough = np.flatnonzero(bdtrc(ranks - 1, draws, probability) <= 1.0 - CONFIDENCE)
    return int(ranks[enough[0]]) if len(enough) else None


def least_draws(probability: float) -> int:
    """About how many draws tell a probability; never fewer than needed."""
    least = np.log(1.0 - CONFIDENCE) / np.log(probability)
    return int(np.ceil((np.ceil(least) + 1.0) / (1.0 - PILOT))) + 2


def polygon_corners(
    first: FloatArray, second: FloatArray, probability: float
) -> tuple[FloatArray, FloatArray]:
    """(n, N) draws of two numbers → (n, V) both at the corners of polygons with a share of p."""
    pilot = int(np.ceil(PILOT * first.shape[1]))
    sizes = (np.sqrt((v[:, :pilot] ** 2).mean(axis=1, keepdims=True)) for v in (first, second))
    units = [np.where(size > 0.0, size, 1.0) for size in sizes]
    angle = np.linspace(0.0, 0.5 * np.pi, 8)  # each side more asks for more of all others
    sides = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    sides[[0, -1]] = np.eye(2)
    scaled = np.stack([first / units[0], second / units[1]], axis=1)
    corners = _intersections(sides, joint_quantiles(sides @ scaled, probability))
    return corners[0] * units[0], corners[1] * units[1]


def _intersections(sides: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n, V) both coordinates of the corners of {z : sides z <= limits, z₂ >= 0}.

    Where two lines intersect outside, the first corner stands instead.
    """
    sides = np.vstack([sides, [0.0, -1.0]])
    limits = np.hstack([limits, np.zeros((len(limits), 1))])
    i, j = np.triu_indices(len(sides), 1)
    turn = sides[i, 0] * sides[j, 1] - sides[i, 1] * sides[j, 0]
    i, j, turn = (pairs[np.abs(turn) > 1e-9] for pairs in (i, j, turn))  # which are not parallel
    first = (limits[:, i] * sides[j, 1] - limits[:, j] * sides[i, 1]) / turn
    second = (limits[:, j] * sides[i, 0] - limits[:, i] * sides[j, 0]) / turn
    values = first[:, :, None] * sides[:, 0] + second[:, :, None] * sides[:, 1]
    # Rounding must not drop a corner: with one that is a little outside, T is only larger.
    room = 1e-9 * (np.abs(limits).max(axis=1)[:, None, None] + np.abs(values))
    inside = (values <= limits[:, None, :] + room).all(axis=2)
    corner = np.where(inside, np.arange(inside.shape[1]), inside.argmax(axis=1)[:, None])
    rows = np.arange(len(limits))[:, None]
    return first[rows, corner], second[rows, corner]
