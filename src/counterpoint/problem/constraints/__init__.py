"""What a person can or may change, in feature names and feature units."""

from counterpoint.problem.constraints.features import (
    Bounds,
    Clearance,
    Constraint,
    Immutable,
    MaxChanges,
    Monotone,
    WithinObserved,
    all_constraints,
    named,
)
from counterpoint.problem.constraints.relations import Ellipsoid, Linear, SameChange

__all__ = [
    "Bounds",
    "Clearance",
    "Constraint",
    "Ellipsoid",
    "Immutable",
    "Linear",
    "MaxChanges",
    "Monotone",
    "SameChange",
    "WithinObserved",
    "all_constraints",
    "named",
]
