"""Laws at edges where exactness is easily lost: ties, tight rows, float32, forced changes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

import counterpoint as cp


def linear(coef: list[float], intercept: float) -> LogisticRegression:
    """A fitted binary model with these numbers: class 1 where coef · x + intercept > 0."""
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.array([coef], dtype=float), np.array([float(intercept)])
    model.classes_, model.n_features_in_ = np.array([0, 1]), len(coef)
    return model


def regressor(coef: list[float], intercept: float) -> LinearRegression:
    model = LinearRegression()
    model.coef_, model.intercept_ = np.array(coef, dtype=float), float(intercept)
    model.n_features_in_ = len(coef)
    return model


COSTS = {
    "manhattan": cp.Manhattan([1.0, 1.4]),
    "squared euclidean": cp.SquaredEuclidean([1.0, 1.4]),
    "mahalanobis": cp.Mahalanobis([[1.0, 0.2], [0.2, 1.4]]),
}


def lattice_optimum(model: Any, cost: cp.Cost, x: np.ndarray, target: int, reach: int) -> float:
    """By trying every whole change up to a reach, and asking the model."""
    steps = np.array(list(product(range(-reach, reach + 1), repeat=len(x))), dtype=float)
    encoded_cost = cost.encoded_cost(cp.Features([cp.Integer("x0"), cp.Integer("x1")]))(
        steps, np.zeros_like(steps)
    )
    return float(encoded_cost[model.predict(x + steps) == target].min())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [cp.Continuous, cp.Integer])
def test_where_a_tie_is_all_that_is_left_it_is_the_answer(kind: Any, dtype: Any):
    """No point of class 0 leads by anything, as its score is 0 at the bound: the tie counts."""
    features, low = [kind("x0"), kind("x1")], [cp.Bounds("x0", low=3.0), cp.Immutable("x1")]
    x = np.array([[5.0, 0.0], [7.0, 0.0]], dtype)
    answers = cp.explain(
        linear([1.0, 1.0], -3.0), x, 0, features=features, constraints=low, cost=cp.Manhattan()
    )
    assert np.asarray(answers.after).tolist() == [[3.0, 0.0], [3.0, 0.0]]
    for answer in answers:
        assert answer.status == cp.Status.OPTIMAL
        assert answer.certificate.on_edge


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6, 1e8])
def test_a_bound_never_exceeds_a_tie_that_the_model_confirms(cost: str, offset: float):
    """A tie at exactly 0 goes to class 0, and is the cheapest way there, also for large numbers."""
    model = linear([2.0, 3.0], -5.0 * offset)
    x = np.array([[offset + 6.0, offset + 4.0]])
    features = [cp.Integer("x0"), cp.Integer("x1")]
    explainer = cp.Explainer(model, features=features, cost=COSTS[cost])
    answer = explainer.explain(x, 0)[0]
    best = lattice_optimum(model, COSTS[cost], x[0], 0, 16)
    assert answer.certificate.bound <= best * (1 + 1e-9)
    assert answer.cost == pytest.approx(best, rel=1e-9)
    assert answer.status == cp.Status.OPTIMAL


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
@pytest.mark.parametrize("off", [0.0, 0.25, 0.5])
def test_a_tie_that_is_lost_is_no_better_answer_that_was_missed(
    cost: str, offset: float, off: float
):
    """At exactly 0 class 1 is not reached: the next value of the lattice is the proved optimum."""
    model = linear([2.0, 4.0], -6.0 * offset)
    x = np.array([[offset - 6.0 + off, offset - 4.0 + off], [offset - 3.0, offset]])
    features = [cp.Integer("x0"), cp.Integer("x1")]
    answers = cp.Explainer(model, features=features, cost=COSTS[cost]).explain(x, 1)
    for i, person in enumerate(x):
        best = lattice_optimum(model, COSTS[cost], person, 1, 16)
        assert answers.cost[i] == pytest.approx(best, rel=1e-9)
        if off == 0.0 or i == 1:  # whoever else is in the batch
            assert answers.status[i] == cp.Status.OPTIMAL
        assert answers[i].certificate.bound <= best * (1 + 1e-9)


def test_a_lattice_is_searched_until_the_model_confirms():
    """It asks for more than it says; the nearest points of the lattice lead by too little."""
    model = linear([1.0, 3e-10], -3.0)
    model.predict = lambda X: (model.decision_function(X) > 1e-9).astype(int)
    features = [cp.Integer("x0"), cp.Integer("x1")]
    x = np.array([[0.0, 0.0], [1.0, 0.0]])
    answers = cp.explain(model, x, 1, features=features, cost=cp.Manhattan([10.0, 1.0]))
    assert answers.found.all()
    assert model.predict(answers.after).tolist() == [1, 1]


def test_a_conflict_counts_a_lost_tie_as_no_answer():
    """x0 may rise to the tie, and x1 has nothing to do with it."""
    model = linear([2.0, 4.0], -6.0)
    limits = [cp.Bounds("x0", high=3.0), cp.Bounds("x1", high=0.0), cp.Bounds("x1", low=-5.0)]
    features = [cp.Integer("x0"), cp.Integer("x1")]
    explainer = cp.Explainer(model, features=features, cost=cp.Manhattan(), constraints=limits)
    answer = explainer.explain(np.zeros((1, 2)), 1)[0]
    assert answer.status == cp.Status.INFEASIBLE
    assert set(answer.conflict.constraints) == set(limits[:2])
    told = {"an answer exists if x0 may go up to 4 (now at most 3)"}
    assert told <= set(answer.conflict.relaxations)


def test_an_answer_at_a_float32_bound_stays_inside_it():
    frame = pd.DataFrame({"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)})
    model = linear([1.0, 1.0], -3.0)
    model.feature_names_in_ = np.array(["a", "b"], dtype=object)
    explainer = cp.Explainer(
        model, cost=cp.Manhattan({"a": 1.0, "b": 5.0}), constraints=[cp.Bounds("a", high=1.1)]
    )
    answers = explainer.explain(frame, 1, gap=1e-5)
    assert answers.status.tolist() == ["optimal"]
    returned = answers.to_frame()
    assert returned.dtypes.tolist() == [np.float32, np.float32]
    assert float(returned["a"].iloc[0]) <= 1.1
    assert model.predict(returned).tolist() == [1]


@pytest.mark.parametrize("value", [5.0, 0.5])
def test_an_interval_of_one_value_is_met_where_floats_allow(value: float):
    model = regressor([1.0, 2.0], 0.0)
    explainer = cp.Explainer(model, cost=cp.Manhattan())
    answers = explainer.explain(np.array([[1.0, 1.0]]), cp.Interval(value, value))
    assert model.predict(answers.to_frame()).tolist() == [value]


@pytest.mark.parametrize("seed", range(5))
def test_mahalanobis_from_outside_the_box_is_the_optimum(seed: int):
    """The nearest point of a box is not its Euclidean projection under a full matrix."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    coef = rng.normal(size=4)
    explainer = cp.Explainer(
        linear(coef.tolist(), 0.1),
        cost=cp.Mahalanobis(root @ root.T + np.eye(4)),
        constraints=[cp.Bounds(f"x{j}", -1.0, 1.0) for j in range(4)],
    )
    answers = explainer.explain(2.0 * rng.normal(size=(40, 4)), cp.OtherLabel())
    assert set(answers.status) <= {"optimal", "infeasible"}


@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean(), cp.Mahalanobis(np.eye(3))])
@pytest.mark.parametrize("relation", ["x0 <= 0", "x0 == 0", "x0 <= 3 * x1", "x0 + x1 == 0"])
def test_relations_that_are_tight_at_zero_are_met(cost: cp.Cost, relation: str):
    """Rounding left by terms that cancel is no violation."""
    rng = np.random.default_rng(0)
    explainer = cp.Explainer(
        linear([1.0, -2.0, 0.5], 0.3), cost=cost, constraints=[cp.Linear.parse(relation)]
    )
    answers = explainer.explain(5.0 * rng.normal(size=(100, 3)), cp.OtherLabel())
    assert set(answers.status) == {"optimal"}


@pytest.mark.parametrize("cost", [None, cp.SquaredEuclidean(), cp.Mahalanobis(np.eye(3))], ids=repr)
def test_a_category_that_has_to_change_changes(cost: cp.Cost | None):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"flag": rng.integers(0, 2, 60), "other": rng.integers(0, 2, 60), "z": rng.normal(size=60)}
    )
    label = (frame["z"] + frame["flag"] - frame["other"] > 0).astype(int)
    model = LogisticRegression().fit(frame, label)
    policy = [cp.Bounds("flag", low=1), cp.Bounds("other", high=0)]
    explainer = cp.Explainer(model, data=frame, extrapolate=True, cost=cost, constraints=policy)
    answers = explainer.explain(frame, cp.OtherLabel())
    assert set(answers.status) == {"optimal"}
    assert (answers.to_frame()["flag"] == 1).all()
    assert (answers.to_frame()["other"] == 0).all()


def test_what_was_asked_before_changes_nothing():
    """With equal weights there are many optima; the one that is given is always the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 8))
    model = LogisticRegression().fit(X, rng.integers(0, 4, 150))
    relation = cp.Linear.parse("x0 - x1 <= 0.5")
    explainer = cp.Explainer(model, cost=cp.Manhattan(), constraints=[relation])
    first = explainer.explain(X, 2)
    order = rng.permutation(len(X))
    explainer.explain(X[order], 3)
    again = explainer.explain(X, 2)
    assert (first.after == again.after).all()
    mixed = explainer.explain(X[order], 2)
    assert np.allclose(mixed.after, first.after[order], rtol=1e-9, atol=1e-9)


def test_values_never_leave_their_bounds_by_an_ulp():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 0.7, size=(500, 5))
    model = Ridge().fit(X, X @ rng.normal(size=5))
    bounds = [cp.Bounds(f"x{j}", 0.0, 0.7) for j in range(5)]
    explainer = cp.Explainer(model, cost=cp.Manhattan(), constraints=bounds)
    after = explainer.explain(X, cp.Interval(low=0.5)).to_frame()
    assert after.min() >= 0.0
    assert after.max() <= 0.7


def test_an_answer_that_ends_at_a_bound_is_at_the_bound():
    """Solvers of quadratic programs end a hair from it."""
    high = 0.7 / 3.0
    limits = [cp.Linear.parse("x0 - x1 <= 2"), *(cp.Bounds(f"x{j}", -high, high) for j in range(3))]
    model = linear([1.0, -2.0, 0.5], 0.3)
    cost = cp.Mahalanobis(np.eye(3) + 0.1)
    X = np.random.default_rng(0).normal(size=(30, 3))
    answers = cp.explain(model, X, cp.OtherLabel(), cost=cost, constraints=limits)
    after = np.asarray(answers.after)[answers.found]
    away = np.abs(np.abs(after) - high)
    assert (away == 0.0).sum() > 30
    assert not ((away > 0.0) & (away < 1e-12)).any()


def test_half_a_step_is_a_violation_however_large_the_number():
    explainer = cp.Explainer(
        linear([1.0, 1.0], -2e9), features=[cp.Integer("x0"), cp.Integer("x1")], cost=cp.Manhattan()
    )
    plain = explainer._prepared(explainer.features).actionable
    x = np.array([[1e9, 1e9]])
    assert plain.violation(x + 0.5, x)[0] > 0.4
    assert plain.violation(x + 1.0, x)[0] == 0.0
