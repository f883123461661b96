# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""Checks costs and constraints: both are about changes of raw rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from counterpoint.models.form import Form
from counterpoint.numerics import FloatArray
from counterpoint.problem.constraints import Constraint
from counterpoint.problem.costs import Cost, EncodedCost, Manhattan
from counterpoint.programs.program import Program, kinds_region
from counterpoint.programs.region import Coupling
from counterpoint.rows.features import Categorical, Features, Integer

Row = Mapping[Hashable, Any]


def check_cost(
    cost: Cost,
    features: Features,
    *,
    value: Callable[[Row, Row], float] | None = None,
    random_state: int = 0,
) -> None:
    """Check that a cost is a cost of changes.

    It is 0 for no change and positive for any; its formula is convex, and tables of features charge
    no less; and it is as ``value`` defines it for the raw rows.

    Parameters
    ----------
    cost
        The cost.
    features
        Columns of the kinds that it takes.
    value
        The definition: the cost of a change from one raw row to another; None to check the general
        laws alone.
    random_state
        The seed of the sample.
    """
    encoded_cost = cost.encoded_cost(features)
    n = 200
    before, after = _changes(features, n, random_state)
    x, y = features.expand(before), features.expand(after)
    costs = encoded_cost(y, x)
    formula = EncodedCost(encoded_cost.absolute, encoded_cost.quadratic)
    by_formula = formula(y, x)
    assert costs.shape == (n,), f"The price of {n} changes has shape {costs.shape}."
    assert not encoded_cost(x, x).any(), f"{cost!r} asks a price for no change."
    free = (before != after).any(axis=1) & ~(costs > 0)
    assert not free.any(), f"{cost!r} asks nothing for the change of row {free.argmax()}."
    concave = formula((y - x) / 2.0, np.zeros_like(x)) > by_formula / 2.0 * (1.0 + 1e-12)
    assert not concave.any(), (
        f"{cost!r} is not convex: half of change {concave.argmax()} costs more than half of its "
        "cost."
    )
    less = costs < by_formula * (1.0 - 1e-12)
    assert not less.any(), f"{cost!r} asks less for change {less.argmax()} than its formula."
    if value is not None:
        pairs = zip(_raw(features, before), _raw(features, after), strict=True)
        for i, (old, new) in enumerate(pairs):
            expected = value(old, new)
            assert abs(costs[i] - expected) <= 1e-12 * (expected + encoded_cost.absolute.max()), (
                f"{cost!r} asks {costs[i]!r} for {old!r} → {new!r}; "
                f"its definition says {expected!r}."
            )


def check_constraint(
    constraint: Constraint,
    features: Features,
    *,
    allows: Callable[[Row, Row], bool] | None = None,
    form: Form | None = None,
    random_state: int = 0,
) -> None:
    """Check that a constraint's region is as the constraint is defined.

    The region permits the changes that ``allows`` permits; and every permitted change is within
    the bounds that programs take from it, and within the cuts of its couplings, whatever the
    multipliers.

    Parameters
    ----------
    constraint
        The constraint.
    features
        Columns of the kinds that it takes.
    allows
        The definition: whether a change from one raw row to another is permitted; None to check the
        general laws alone.
    form
        The form of the model, for constraints that depend on it.
    random_state
        The seed of the sample.
    """
    before, after = _changes(features, 400, random_state)
    x, y = features.expand(before), features.expand(after)
    region = constraint.region(features)
    if form is not None:
        region = form.placed(kinds_region(features) & region)
    violation = region.violation(y, x)
    assert (violation >= 0).all(), f"{constraint!r} has a negative or undefined violation."
    permitted = violation <= 1e-9
    if allows is not None:
        pairs = zip(_raw(features, before), _raw(features, after), strict=True)
        for permits, (old, new) in zip(permitted.tolist(), pairs, strict=True):
            assert permits == allows(old, new), (
                f"The region of {constraint!r} {'permits' if permits else 'forbids'} "
                f"{old!r} → {new!r}; wrongly."
            )
    assert permitted.any(), f"No change of the sample is permitted by {constraint!r}."
    assert not permitted.all(), f"Every change of the sample is permitted by {constraint!r}."
    x, y = x[permitted], y[permitted]
    program = Program(Manhattan().encoded_cost(features), kinds_region(features) & region)
    batch = program.cases(x)
    tolerance = 1e-9 * (1.0 + np.abs(y))
    assert not ((y < batch.low - tolerance) | (y > batch.high + tolerance)).any(), (
        f"The bounds that a program takes from {constraint!r} exclude a change that it permits."
    )
    assert not program.domain.is_empty(batch).any(), (
        f"{constraint!r} leaves nothing, yet permits a change."
    )
    rng = np.random.default_rng(random_state)
    for condition in region:
        if isinstance(condition, Coupling):
            normals, offsets = condition.cut(rng.normal(size=(50, condition.size)))[:2]
            sizes = np.abs(y) @ np.abs(normals.T) + np.abs(offsets)
            removed = y @ normals.T - offsets > 1e-9 * sizes
            assert not removed.any(), f"A cut of {constraint!r} removes a point of its region."


def _changes(features: Features, n: int, random_state: int) -> tuple[FloatArray, FloatArray]:
    """Return codes (n, p) before and after, of which about half of the cells change.

    In every fourth row, numbers rise or fall by one amount, where it is a multiple of their step:
    constraints on equal changes permit few of the others.
    """
    rng = np.random.default_rng(random_state)
    before, after = _codes(features, n, rng), _codes(features, n, rng)
    steps = [f.step if isinstance(f, Integer) else 1.0 for f in features]
    amount = max(steps) * rng.integers(1, 4, (n, 1)) * rng.choice([-1.0, 1.0], before.shape)
    alike = features.is_numeric & (amount % steps == 0.0) & (np.arange(n) % 4 == 0)[:, None]
    after = np.where(alike, before + amount, after)
    return before, np.where(rng.random(before.shape) < 0.5, before, after)


def _codes(features: Features, n: int, rng: np.random.Generator) -> FloatArray:
    """Return random codes (n, p); numbers leave what was observed by up to 30 % of it."""
    codes = np.empty((n, len(features)))
    for j, feature in enumerate(features):
        if isinstance(feature, Categorical):
            codes[:, j] = rng.integers(len(feature.categories), size=n)
            continue
        step = feature.step if isinstance(feature, Integer) else 1.0
        low, high = feature.observed or (-5.0 * step, 5.0 * step)
        spread = max(high - low, step)
        values = rng.uniform(low - 0.3 * spread, high + 0.3 * spread, size=n)
        codes[:, j] = np.round(values / step) * step if isinstance(feature, Integer) else values
    return codes


def _raw(features: Features, codes: FloatArray) -> list[dict[Hashable, Any]]:
    """Return codes (n, p) as n rows of names and values."""
    names = features.names
    rows = (zip(names, row, strict=True) for row in codes.tolist())
    return [{name: features.describe(name, code) for name, code in row} for row in rows]
