"""Small programs with their optima and multipliers, derived by hand."""

from __future__ import annotations

from counterpoint.testing.known.build import Known
from counterpoint.testing.known.charged import CHARGED
from counterpoint.testing.known.curved import CURVED
from counterpoint.testing.known.impossible import IMPOSSIBLE
from counterpoint.testing.known.integral import INTEGRAL
from counterpoint.testing.known.local import LOCAL
from counterpoint.testing.known.rows import ROWS

__all__ = ["KNOWN", "Known"]

KNOWN: tuple[Known, ...] = (*ROWS, *CURVED, *INTEGRAL, *CHARGED, *LOCAL, *IMPOSSIBLE)
"""Programs of every kind of price and condition, with answers and without."""
