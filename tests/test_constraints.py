"""Relations as text, ellipsoids from data, constraints as sentences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import counterpoint as cp

RELATIONS = [
    ("2ndFlr <= 1stFlr", cp.Linear({"2ndFlr": 1.0, "1stFlr": -1.0}, high=0.0)),
    ("a + 2 * b >= 3", cp.Linear({"a": 1.0, "b": 2.0}, low=3.0)),
    ("a - b == 1.5e1", cp.Linear({"a": 1.0, "b": -1.0}, low=15.0, high=15.0)),
    (
        "Gr Liv Area <= 2 * Lot Area - 5",
        cp.Linear({"Gr Liv Area": 1.0, "Lot Area": -2.0}, high=-5.0),
    ),
    ("- a <= 2", cp.Linear({"a": -1.0}, high=2.0)),
    ("0.5 * a + 1 <= b + 3", cp.Linear({"a": 0.5, "b": -1.0}, high=2.0)),
    ("`a` <= 3", cp.Linear({"a": 1.0}, high=3.0)),
    ("3 <= a", cp.Linear({"a": -1.0}, high=-3.0)),
]


@pytest.mark.parametrize(("text", "expected"), RELATIONS)
def test_relations_are_read(text: str, expected: cp.Linear):
    assert cp.Linear.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a < b",
        "a <= b <= c",
        "2 * 3 * a <= 1",
        "1 <= 2",
        "",
        "1.2.3 * a <= 3",
        ". * a <= 3",
        "`a <= 3",
        "a <= 3 - ",
        "a + <= 3",
    ],
)
def test_what_is_no_relation_is_refused(text: str):
    with pytest.raises(cp.InvalidInput):
        cp.Linear.parse(text)


def test_an_ellipsoid_from_data_covers_its_share():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(20_000, 2)) @ [[2.0, 1.0], [0.0, 1.0]], columns=["a", "b"])
    ellipsoid = cp.Ellipsoid.from_data(data, ["a", "b"], coverage=0.9)
    away = data.to_numpy() - list(ellipsoid.center.values())
    inside = (
        np.einsum("ij,jk,ik->i", away, np.asarray(ellipsoid.matrix), away) <= ellipsoid.radius**2
    )
    assert inside.mean() == pytest.approx(0.9, abs=0.01)  # four standard errors of 20 000 rows


def test_dependent_columns_make_no_ellipsoid():
    data = pd.DataFrame({"a": [1.0, 2.0, 3.0, 5.0]})
    data["b"] = 2.0 * data["a"]
    with pytest.raises(cp.InvalidInput):
        cp.Ellipsoid.from_data(data, ["a", "b"])


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (cp.Immutable("age"), "age is immutable"),
        (cp.Monotone("age", "increasing"), "age only rises"),
        (cp.Monotone("age", "decreasing"), "age only falls"),
        (cp.Clearance("age", 2.5), "age ends at least 2.5 beyond each threshold that it crosses"),
        (cp.MaxChanges(1), "at most 1 feature may change"),
        (cp.MaxChanges(3), "at most 3 features may change"),
    ],
)
def test_a_constraint_reads_as_a_sentence(constraint: cp.Constraint, text: str):
    assert str(constraint) == text


def test_constraints_do_not_share_what_they_were_given():
    """The region is made anew; what a caller does to one does not reach another."""
    features = cp.Features([cp.Continuous("a"), cp.Continuous("b")])
    bounds = cp.Bounds("a", low=1.0)
    first = bounds.region(features).conditions[0]
    first.low[:] = 99.0
    assert bounds.region(features).conditions[0].low.tolist() == [1.0, -np.inf]


@pytest.mark.parametrize(
    "ends", [{"low": np.inf}, {"high": -np.inf}, {"low": -np.inf, "high": -np.inf}], ids=str
)
def test_bounds_that_no_number_meets_are_refused(ends: dict[str, float]):
    for make in (
        lambda: cp.Bounds("a", **ends),
        lambda: cp.Linear({"a": 1.0}, **ends),
        lambda: cp.Interval(**ends),
    ):
        with pytest.raises(cp.InvalidInput, match="below infinity"):
            make()
