# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""What a cost must pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from counterpoint.costs import Cost
from counterpoint.rows.features import Features
from counterpoint.testing.samples import changes, raw

__all__ = ["check_cost"]

Row = Mapping[Hashable, Any]
SAMPLES = 200


def check_cost(
    cost: Cost,
    features: Features,
    *,
    value: Callable[[Row, Row], float] | None = None,
    random_state: int = 0,
) -> None:
    """Check that a cost is a price of changes.

    It is 0 for no change and positive for any; it is convex; a category costs the same to leave for
    any other; and it is what ``value`` says of the raw rows.

    Parameters
    ----------
    cost
        The cost.
    features
        Columns of the kinds that it takes.
    value
        The definition, from the raw rows before and after, in cost units; None to check the
        general laws alone.
    random_state
        The seed of the sample.

    Raises
    ------
    AssertionError
        With a sentence on what differs.
    """
    price = cost.price(features)
    before, after = changes(features, SAMPLES, random_state)
    x, y = features.expand(before), features.expand(after)
    found = price(y - x)
    assert found.shape == (SAMPLES,), f"The price of {SAMPLES} changes has shape {found.shape}."
    assert not price(np.zeros_like(x)).any(), f"{cost!r} asks a price for no change."
    free = (before != after).any(axis=1) & ~(found > 0)
    assert not free.any(), f"{cost!r} asks nothing for the change of row {free.argmax()}."
    middle = price((y - x) / 2.0)
    bent = middle > found / 2.0 * (1.0 + 1e-12)
    assert not bent.any(), (
        f"{cost!r} is not convex: half of change {bent.argmax()} costs more than half of its cost."
    )
    if value is not None:
        pairs = zip(raw(features, before), raw(features, after), strict=True)
        for i, (old, new) in enumerate(pairs):
            expected = value(old, new)
            assert abs(found[i] - expected) <= 1e-12 * (expected + price.absolute.max()), (
                f"{cost!r} asks {found[i]!r} for {old!r} → {new!r}; "
                f"its definition says {expected!r}."
            )
