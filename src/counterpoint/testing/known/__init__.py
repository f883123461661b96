"""Small programs with their optima and multipliers, derived by hand."""

from __future__ import annotations

from counterpoint.testing.known.build import Known
from counterpoint.testing.known.charged import CHARGED
from counterpoint.testing.known.curved import CURVED
from counterpoint.testing.known.impossible import IMPOSSIBLE
from counterpoint.testing.known.integral import INTEGRAL
from counterpoint.testing.known.rows import ROWS
from counterpoint.wings import wings

__all__ = ["KNOWN", "Known"]

OWN = (*ROWS, *CURVED, *INTEGRAL, *CHARGED, *IMPOSSIBLE)
KNOWN: tuple[Known, ...] = (*OWN, *(known for wing in wings() for known in wing.known()))
"""Programs of every kind of price and condition, with answers and without."""
