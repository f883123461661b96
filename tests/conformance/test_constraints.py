"""Every constraint permits what its definition permits, in raw terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from oracles import allows
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.programs.conditions import Box
from counterpoint.programs.region import Region
from counterpoint.testing import check_constraint

FEATURES = cp.Features(
    [
        cp.Continuous("income", observed=(-4.0, 4.0)),
        cp.Integer("years", step=2.0, observed=(-6.0, 6.0)),
        cp.Continuous("debt", observed=(-1.0, 1.0)),
        cp.Categorical("home", ("rent", "loan", "own"), observed=("rent", "own")),
        cp.Categorical("grade", ("low", "mid", "top"), ordered=True, observed=("low", "mid")),
        cp.Categorical("rooms", (1, 2, 4), observed=(1, 2, 4)),
    ]
)

CONSTRAINTS = [
    cp.Immutable("income"),
    cp.Immutable("years", "home"),
    cp.Bounds("income", low=-1.0, high=2.0),
    cp.Bounds("income", low=1.0),
    cp.Bounds("income", fall=1.0),
    cp.Bounds("income", rise=0.5),
    cp.Bounds("years", high=4.0, fall=2.0),
    cp.Bounds("rooms", low=2.0),
    cp.Bounds("rooms", rise=1.0),
    cp.Monotone("income", "increasing"),
    cp.Monotone("income", "decreasing"),
    cp.Monotone("years", "increasing"),
    cp.Monotone("grade", "increasing"),
    cp.Monotone("grade", "decreasing"),
    cp.Monotone("rooms", "decreasing"),
    cp.Linear({"income": 1.0, "debt": -2.0}, high=1.0),
    cp.Linear({"income": 1.0, "years": 0.5, "rooms": -1.0}, low=-2.0, high=3.0),
    cp.Linear.parse("income <= 2 * rooms - 3"),
    cp.Ellipsoid({"income": 1.0, "debt": 0.5}, [[0.3, 0.1], [0.1, 1.0]], 1.5),
    cp.Ellipsoid({"debt": 0.0, "years": 0.0}, np.diag([1.0, 0.1]), 2.0),
    cp.MaxChanges(1),
    cp.MaxChanges(3),
    cp.WithinObserved(),
    cp.WithinObserved("debt", "home"),
]
Row = Mapping[Any, Any]
DEFINED: dict[cp.Constraint, Callable[[Row, Row], bool]] = {
    cp.SameChange("income", "years"): lambda old, new: bool(
        np.isclose(new["income"] - old["income"], new["years"] - old["years"])
    ),
    cp.OppositeChange("income", "years"): lambda old, new: bool(
        np.isclose(new["income"] - old["income"], old["years"] - new["years"])
    ),
}
"""Constraints and their definitions, from rows before and after."""
COMBINATIONS: list[tuple[cp.Constraint, Callable[[Row, Row], bool]]] = [
    (
        cp.Forbidden({"home": ["rent", "loan"]}, {"income": (None, 1.0), "rooms": 4}),
        lambda old, new: bool(
            not (new["home"] in ("rent", "loan") and new["income"] <= 1.0 and new["rooms"] == 4)
            or all(new[name] == old[name] for name in ("home", "income", "rooms"))
        ),
    ),
    (
        cp.Implies({"years": (0.0, None)}, {"grade": {"mid", "top"}, "rooms": (2, None)}),
        lambda old, new: all(
            bool(new["years"] < 0.0 or meets)
            or (new["years"] == old["years"] and new[name] == old[name])
            for name, meets in (("grade", new["grade"] != "low"), ("rooms", new["rooms"] >= 2))
        ),
    ),
    (
        cp.Implies({"home": "own"}, {"debt": (-0.5, 0.5)}),
        lambda old, new: bool(
            new["home"] != "own"
            or -0.5 <= new["debt"] <= 0.5
            or (old["home"] == "own" and new["debt"] == old["debt"])
        ),
    ),
    (
        cp.ObservedCombinations(
            "rooms",
            "home",
            min_count=3,
            seen=[(("rooms", "home"), [(1, "rent"), (2, "rent"), (4, "own"), (4, "loan")])],
        ),
        lambda old, new: (
            (new["rooms"], new["home"]) in [(1, "rent"), (2, "rent"), (4, "own"), (4, "loan")]
            or (new["rooms"], new["home"]) == (old["rooms"], old["home"])
        ),
    ),
]
"""The same of constraints that have no hash."""


@pytest.mark.parametrize("constraint", DEFINED, ids=repr)
def test_a_constraint_permits_what_its_definition_permits(constraint: cp.Constraint):
    for features in (FEATURES, cp.Features(list(FEATURES)[::-1])):
        check_constraint(constraint, features, allows=DEFINED[constraint])


@pytest.mark.parametrize(
    ("constraint", "permits"),
    COMBINATIONS,
    ids=lambda value: "" if callable(value) else str(value)[:40],
)
def test_combinations_are_excluded_as_their_definitions_say(
    constraint: cp.Constraint, permits: Callable[[Row, Row], bool]
):
    for features in (FEATURES, cp.Features(list(FEATURES)[::-1])):
        check_constraint(constraint, features, allows=permits)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_every_constraint_conforms(constraint: cp.Constraint):
    check_constraint(
        constraint, FEATURES, allows=lambda old, new: allows(constraint, FEATURES, old, new)
    )


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_the_order_of_the_features_does_not_matter(constraint: cp.Constraint):
    backwards = cp.Features(list(FEATURES)[::-1])
    check_constraint(
        constraint, backwards, allows=lambda old, new: allows(constraint, backwards, old, new)
    )


CLEAR = [cp.Clearance("income", 0.5), cp.Clearance("years", 1.0)]


@pytest.mark.parametrize("constraint", CLEAR, ids=repr)
def test_a_constraint_conforms_that_depends_on_the_model(constraint: cp.Clearance):
    """Each threshold that lies between a value and the other one is so far from the latter."""
    numbers = cp.Features([FEATURES["income"], FEATURES["years"]])
    rng = np.random.default_rng(0)
    data = rng.integers(-4, 5, (200, 2)).astype(float)
    tree = DecisionTreeClassifier(max_leaf_nodes=6).fit(data, data.sum(axis=1) > 0.0)
    described = list(cp.Features([cp.Continuous("x0"), cp.Continuous("x1")]))
    form = cp.Explainer(tree, features=described, cost=cp.Manhattan()).reading.form
    at = numbers.names.index(constraint.feature)
    cuts = tree.tree_.threshold[tree.tree_.feature == at]

    def is_clear(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> bool:
        before, after = old[constraint.feature], new[constraint.feature]
        passed = cuts[(cuts >= min(before, after)) & (cuts < max(before, after))]
        return bool((np.abs(after - passed) >= constraint.margin).all())

    check_constraint(constraint, numbers, allows=is_clear, form=form)


class Never(cp.Constraint):
    """Permits only what a box permits that is too small."""

    def region(self, features: cp.Features) -> Region:
        box = Box.unbounded(features.width)
        box.high[0] = 0.0
        return Region((box,))

    def __str__(self) -> str:
        return "never"


def test_the_suite_catches_a_region_that_forbids_too_much():
    with pytest.raises(AssertionError, match=r"forbids .* wrongly"):
        check_constraint(Never(), FEATURES, allows=lambda old, new: new["income"] <= 1.0)
    with pytest.raises(AssertionError, match=r"permits .* wrongly"):
        check_constraint(Never(), FEATURES, allows=lambda old, new: new["income"] <= -1.0)
