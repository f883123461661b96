"""Changes in words."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

__all__ = ["amount", "sentence"]

DIGITS = 3
PLAIN = (1e-4, 1e7)
"""Sizes that are written out, without a power of ten."""


def amount(size: float) -> str:
    """A number to three digits, as one would write it."""
    if not PLAIN[0] <= abs(size) < PLAIN[1]:
        return f"{size:.{DIGITS}g}"
    return np.format_float_positional(
        size, precision=DIGITS, unique=False, fractional=False, trim="-"
    )


def sentence(changes: Mapping[Hashable, float], start: Any, end: Any, most: int) -> str:
    """What to change to get from one group to another; so many features are named at most."""
    said = [
        f"{'raise' if change > 0 else 'lower'} {name} by {amount(abs(change))}"
        for name, change in list(changes.items())[:most]
    ]
    if len(changes) > most:
        said.append(f"and {len(changes) - most} more")
    return f"from {start} to {end}: {', '.join(said) or 'nothing changes'}"
