# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""What a constraint must pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.constraints import Constraint
from counterpoint.costs import Manhattan
from counterpoint.engine.program import Program, kinds_region
from counterpoint.engine.region import Coupling
from counterpoint.rows.features import Features
from counterpoint.testing.samples import changes, raw

__all__ = ["check_constraint"]

FloatArray = NDArray[np.float64]
Row = Mapping[Hashable, Any]
SAMPLES = 400
MET = 1e-9


def check_constraint(
    constraint: Constraint,
    features: Features,
    *,
    allows: Callable[[Row, Row], bool] | None = None,
    random_state: int = 0,
) -> None:
    """Check that a constraint's region is what the constraint says.

    The region permits the changes that ``allows`` permits; the bounds that programs take from it
    hold every permitted change; and every cut of its couplings does, whatever the multipliers.

    Parameters
    ----------
    constraint
        The constraint.
    features
        Columns of the kinds that it takes.
    allows
        The definition: whether a change from one raw row to another is permitted; None to check the
        general laws alone.
    random_state
        The seed of the sample.

    Raises
    ------
    AssertionError
        With a sentence on what differs, or if the sample holds no permitted change, or no
        forbidden one.
    """
    before, after = changes(features, SAMPLES, random_state)
    x, y = features.expand(before), features.expand(after)
    region = constraint.region(features)
    violation = region.violation(y, x)
    assert (violation >= 0).all(), f"{constraint!r} has a negative or undefined violation."
    permitted = violation <= MET
    if allows is not None:
        pairs = list(zip(raw(features, before), raw(features, after), strict=True))
        expected = np.array([allows(old, new) for old, new in pairs])
        for i in np.flatnonzero(permitted != expected).tolist():
            says = "permits" if permitted[i] else "forbids"
            old, new = pairs[i]
            raise AssertionError(f"The region of {constraint!r} {says} {old!r} → {new!r}; wrongly.")
    assert permitted.any(), f"No change of the sample is permitted by {constraint!r}."
    assert not permitted.all(), f"Every change of the sample is permitted by {constraint!r}."
    _check_bounds(constraint, features, x[permitted], y[permitted])
    for condition in region:
        if isinstance(condition, Coupling):
            _check_cuts(constraint, condition, y[permitted], random_state)


def _check_bounds(constraint: Constraint, features: Features, x: FloatArray, y: FloatArray) -> None:
    region = kinds_region(features) & constraint.region(features)
    program = Program(Manhattan().price(features), region)
    cases = program.cases(x)
    room = 1e-9 * (1.0 + np.abs(y))
    outside = (y < cases.low - room) | (y > cases.high + room)
    assert not outside.any(), (
        f"The bounds that a program takes from {constraint!r} exclude a change that it permits."
    )
    assert not program.empty(cases).any(), f"{constraint!r} leaves nothing, yet permits a change."


def _check_cuts(
    constraint: Constraint, coupling: Coupling, y: FloatArray, random_state: int
) -> None:
    rng = np.random.default_rng(random_state)
    normals, offsets = coupling.cut(rng.normal(size=(50, coupling.size)))[:2]
    size = np.abs(y) @ np.abs(normals.T) + np.abs(offsets)
    over = y @ normals.T - offsets > 1e-9 * size
    assert not over.any(), f"A cut of {constraint!r} removes a point of its region."
