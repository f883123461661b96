"""Random people, as the checks need them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.rows.features import Categorical, Features, Integer

__all__ = ["changes", "raw"]

FloatArray = NDArray[np.float64]

REACH = 5.0


def changes(features: Features, n: int, random_state: int) -> tuple[FloatArray, FloatArray]:
    """(n, p) codes before and after, of which about half of the cells change."""
    rng = np.random.default_rng(random_state)
    before, after = _codes(features, n, rng), _codes(features, n, rng)
    return before, np.where(rng.random(before.shape) < 0.5, before, after)


def raw(features: Features, codes: FloatArray) -> list[dict[Hashable, Any]]:
    """(n, p) codes as n rows of names and values."""
    return [
        {
            name: features.describe(name, code)
            for name, code in zip(features.names, row, strict=True)
        }
        for row in codes.tolist()
    ]


def _codes(features: Features, n: int, rng: np.random.Generator) -> FloatArray:
    out = np.empty((n, len(features)))
    for j, feature in enumerate(features):
        if isinstance(feature, Categorical):
            out[:, j] = rng.integers(len(feature.categories), size=n)
            continue
        step = feature.step if isinstance(feature, Integer) else 1.0
        low, high = feature.observed or (-REACH * step, REACH * step)
        spread = max(high - low, step)
        values = rng.uniform(low - 0.3 * spread, high + 0.3 * spread, size=n)
        out[:, j] = np.round(values / step) * step if isinstance(feature, Integer) else values
    return out
