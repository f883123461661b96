# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""Checks forms: their regions, margins and predictions must agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterpoint.errors import UnsupportedModel
from counterpoint.models.form import AffineMap, Form
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.problem.targets import Label, Requirement, Target
from counterpoint.programs.conditions import CutOracle
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.program import NonConvex


def check_form(
    form: Form,
    targets: Sequence[Target],
    *,
    same: Sequence[Form] = (),
    points: FloatArray | None = None,
    random_state: int = 0,
) -> None:
    """Check that a form's regions are where its predictions are.

    For each target, a point is in one of the regions if and only if the prediction meets the target
    and the margin is not negative. The margin falls by as much as the target asks for. A `Tradeoff`
    charges −log of the probability whose log-odds are the margin. A form that sees its input
    through an affine map decides as the form itself does behind that map. A condition that is not
    convex is met where nothing is in excess of it. A half-space that supports a condition holds all
    of it, and misses its own point by as much as that misses the condition.

    Parameters
    ----------
    form
        The form.
    targets
        Targets to ask for; every class should be among them.
    same
        Forms that are the same model in another order: with classes or prototypes permuted.
    points
        (n, d) where to compare; None for normal ones.
    random_state
        The seed of the sample.
    """
    rng = np.random.default_rng(random_state)
    X = 3.0 * rng.normal(size=(600, form.width)) if points is None else points
    sample = X[:600]  # for checks that take longer
    for target in targets:
        if not target.demanding:
            _check_charge((form, *same), target, X)
            continue
        _check_regions(form, target, X)
        for condition in (c for region in form.regions(target) for c in region):
            if isinstance(condition, NonConvex):
                _check_excess(form, condition, sample)
            if isinstance(condition, CutOracle):
                _check_supports(form, condition, sample)
        for other in same:
            _check_same(form, other, target, X)
        if target.requirement == Requirement(target.requirement.labels):
            _check_margin(form, target, X)
    _check_through(form, targets, X, rng)


def _tolerance(form: Form, X: FloatArray) -> FloatArray:
    """Return a million rounding errors (n,): nearer to a boundary, either answer is right."""
    return 1e6 * form.noise(X)


def _inside(form: Form, target: Target, X: FloatArray) -> BoolArray:
    """Return which points (n,) are in one of the target's regions."""
    inside = np.zeros(len(X), dtype=bool)
    for region in form.regions(target):
        inside |= region.violation(X, X) == 0.0
    return inside


def _check_regions(form: Form, target: Target, X: FloatArray) -> None:
    assert form.regions(target), f"{target!r} has no region."
    inside, margin = _inside(form, target, X), form.margin(X, target)
    is_clear = np.abs(margin) > _tolerance(form, X)
    for name, expected in (("margin", margin >= 0), ("prediction", _predicted(form, target, X))):
        wrong = is_clear & (inside != expected)
        first = int(wrong.argmax())
        assert not wrong.any(), (
            f"By the regions, {target!r} is {'' if inside[first] else 'not '}met at {X[first]!r}; "
            f"by the {name}, it is {'' if expected[first] else 'not '}met "
            f"({int(wrong.sum())} points)."
        )
    assert inside.any(), f"No point of the sample meets {target!r}; pass points that do."
    assert not inside.all(), f"Every point of the sample meets {target!r}; pass points that do not."


def _check_excess(form: Form, condition: NonConvex, X: FloatArray) -> None:
    excess = condition.excess(X)
    is_clear = np.abs(excess) > _tolerance(form, X)
    wrong = is_clear & ((excess <= 0.0) != (condition.violation(X, X) == 0.0))
    assert not wrong.any(), (
        f"A {type(condition).__name__} is met elsewhere than where nothing is in excess of it."
    )


def _check_supports(form: Form, condition: CutOracle, X: FloatArray) -> None:
    tolerance, kind = _tolerance(form, X), type(condition).__name__
    excess, halves = condition.supports(X)  # a half-space for each point
    over = X @ halves.matrix.T - halves.high  # (n, n) by how much a point (row) is outside of it
    assert (np.abs(excess - condition.excess(X)) <= tolerance).all(), (
        f"The excess of a {kind} is not what its half-spaces are made of."
    )
    assert (np.abs(np.diag(over) - excess) <= tolerance).all(), (
        f"A half-space of a {kind} does not miss its own point by what that is in excess."
    )
    assert (over <= (excess + tolerance)[:, None]).all(), (
        f"A half-space of a {kind} cuts off a point that meets it."
    )


def _check_charge(forms: Sequence[Form], target: Target, X: FloatArray) -> None:
    margin = forms[0].margin(X, target)
    for form in forms:
        regions = form.regions(target)
        assert len(regions) == 1, f"Expected one region of {target!r}; got {len(regions)}."
        terms = [condition for condition in regions[0] if isinstance(condition, LogLoss)]
        assert terms == list(regions[0]), f"{target!r} demands something: {regions[0]!r}."
        charged = sum((term.amount(X) for term in terms), np.zeros(len(X)))
        wrong = np.abs(charged - np.logaddexp(0.0, -margin)) > _tolerance(form, X)
        assert not wrong.any(), f"What {target!r} charges is not −log of its probability."


def _predicted(form: Form, target: Target, X: FloatArray) -> BoolArray:
    """Return whether the prediction meets the target; the margin, where that says more."""
    predicted, required = form.predict(X), target.requirement
    if required.limits is not None:
        return np.asarray((predicted >= required.limits[0]) & (predicted <= required.limits[1]))
    if required == Requirement(required.labels, required.others):
        among = np.array([label in required.labels for label in predicted.tolist()])
        return among ^ required.others
    return np.asarray(form.margin(X, target) >= 0)


def _check_same(form: Form, other: Form, target: Target, X: FloatArray) -> None:
    margin, tolerance = form.margin(X, target), _tolerance(form, X)
    changed = _inside(other, target, X) != _inside(form, target, X)
    assert not (changed & (np.abs(margin) > tolerance)).any(), (
        f"Another order changes the regions of {target!r}."
    )
    wrong = np.abs(other.margin(X, target) - margin) > tolerance
    assert not wrong.any(), f"Another order changes the margin of {target!r}."


def _check_margin(form: Form, target: Target, X: FloatArray) -> None:
    stricter = Label(target.requirement.labels, margin=0.25)
    margin, tolerance = form.margin(X, stricter), _tolerance(form, X)
    wrong = np.abs(form.margin(X, target) - 0.25 - margin) > tolerance
    assert not wrong.any(), f"A margin of 0.25 does not lower the margin of {target!r} by 0.25."
    wrong = (np.abs(margin) > tolerance) & (_inside(form, stricter, X) != (margin >= 0))
    assert not wrong.any(), (
        f"The regions of {target!r} with a margin of 0.25 are not where the form leads by it."
    )


def _check_through(
    form: Form, targets: Sequence[Target], X: FloatArray, rng: np.random.Generator
) -> None:
    """Check that a form seen through an affine map A decides as the form does after A."""
    d = form.width
    affine = AffineMap(rng.normal(size=(d, d + 1)), rng.normal(size=d))
    try:
        composed = form.through(affine)
    except UnsupportedModel:  # functions of one column each take no mixtures, but another order
        affine = AffineMap(np.eye(d, d + 1)[:, ::-1], np.zeros(d))
        composed = form.through(affine)
    width = composed.width
    assert width == d + 1, f"Through a map of {d + 1} inputs, the form takes {width}."
    Z = rng.normal(size=(len(X), d + 1))
    outputs = affine(Z)
    tolerance = _tolerance(composed, Z) + _tolerance(form, outputs)
    for target in targets:
        expected = form.margin(outputs, target)
        wrong = np.abs(composed.margin(Z, target) - expected) > tolerance
        assert not wrong.any(), f"Through an affine map, the margin of {target!r} differs."
        if target.requirement.probable:
            continue
        is_clear = np.abs(expected) > _tolerance(form, outputs)
        same = _predicted(composed, target, Z) == _predicted(form, target, outputs)
        assert same[is_clear].all(), f"Through an affine map, {target!r} is met elsewhere."
