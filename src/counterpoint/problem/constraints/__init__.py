"""Constrain what a person can or may change, in feature names and feature units."""

from counterpoint.problem.constraints.combinations import (
    Forbidden,
    Implies,
    ObservedCombinations,
)
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
from counterpoint.problem.constraints.relations import (
    Ellipsoid,
    Linear,
    OppositeChange,
    SameChange,
)

CONSTRAINTS: tuple[type[Constraint], ...] = (
    WithinObserved,
    ObservedCombinations,
    Ellipsoid,
    Clearance,
    Forbidden,
    Implies,
    Linear,
    SameChange,
    OppositeChange,
    Monotone,
    MaxChanges,
    Immutable,
    Bounds,
)
"""The constraints of policy files. A conflict leaves them out in this order, where it can: first
those that say least about the person."""

__all__ = [
    "CONSTRAINTS",
    "Bounds",
    "Clearance",
    "Constraint",
    "Ellipsoid",
    "Forbidden",
    "Immutable",
    "Implies",
    "Linear",
    "MaxChanges",
    "Monotone",
    "ObservedCombinations",
    "OppositeChange",
    "SameChange",
    "WithinObserved",
    "all_constraints",
    "named",
]
