"""What a person can or may change, in feature names and feature units."""

from counterpoint.constraints.alone import (
    Bounds,
    Constraint,
    Immutable,
    Monotone,
    WithinObserved,
    all_constraints,
    named,
)
from counterpoint.constraints.joint import Ellipsoid, Linear, MaxChanges

__all__ = [
    "Bounds",
    "Constraint",
    "Ellipsoid",
    "Immutable",
    "Linear",
    "MaxChanges",
    "Monotone",
    "WithinObserved",
    "all_constraints",
    "named",
]
