"""Public conformance checks: what a reader, form, cost, constraint or solver of your own must pass.

Each check raises an `AssertionError` with a sentence on what differs. They need nothing beyond the
package itself; `KNOWN` are small programs whose optima and multipliers were derived by hand.
"""

from __future__ import annotations

from counterpoint.testing.changes import check_constraint, check_cost
from counterpoint.testing.forms import check_form
from counterpoint.testing.known import KNOWN, Known
from counterpoint.testing.readers import check_reader
from counterpoint.testing.solvers import check_solver

__all__ = [
    "KNOWN",
    "Known",
    "check_constraint",
    "check_cost",
    "check_form",
    "check_reader",
    "check_solver",
]
