"""Constraints on the change: two numbers change by the same amount, or by opposite amounts."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, SplineTransformer
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.lvq import GLVQ
from counterpoint.programs.conditions import ChangeBounds

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(RNG.integers(0, (9, 9, 6), (300, 3)), columns=["a", "b", "c"])
SCORE = PEOPLE["a"] - 0.7 * PEOPLE["b"] + 0.5 * PEOPLE["c"] + RNG.normal(0.0, 0.7, 300)
GRID = pd.DataFrame(product(range(9), range(9), range(6)), columns=["a", "b", "c"])
"""All rows that data= leaves to an answer."""

BINS = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
MODELS: dict[str, tuple[Any, int]] = {
    "two classes": (LogisticRegression(), 2),
    "three classes": (LogisticRegression(max_iter=1000), 3),
    "splines": (make_pipeline(SplineTransformer(3), LogisticRegression()), 2),
    "bins": (make_pipeline(BINS, LogisticRegression(max_iter=1000)), 2),
    "tree": (DecisionTreeClassifier(max_depth=6, random_state=0), 3),
    "forest": (RandomForestClassifier(20, random_state=0), 3),
    "boosting": (HistGradientBoostingClassifier(max_iter=20), 2),
    "cells": (GLVQ(prototypes_per_class=2, random_state=0), 3),
}
COSTS = {
    "by MAD": None,
    "squared": cp.SquaredEuclidean(),
}
Relation = Any  # a class of constraints on two names
SIGNS: dict[Relation, int] = {cp.SameChange: 1, cp.OppositeChange: -1}
"""The change of the first number is the sign times that of the second."""
relations = pytest.mark.parametrize("relation", SIGNS, ids=lambda relation: relation.__name__)
FURTHER: dict[str, list[cp.Constraint]] = {
    "alone": [],
    "few": [cp.MaxChanges(2)],
    "bounded": [cp.Bounds("b", fall=1), cp.Monotone("c", "increasing")],
}


def fitted(name: str) -> Any:
    model, classes = MODELS[name]
    ends = [0.0, 2.0] if classes == 3 else [1.5]
    return model.fit(PEOPLE, np.digitize(SCORE, ends))


def cheapest(explainer: cp.Explainer, row: pd.Series, points: pd.DataFrame) -> float:
    """The least cost of a point of the grid that keeps all constraints; infinite for none."""
    change = points - row
    keeps = pd.Series(True, index=points.index)
    for constraint in explainer.constraints:
        match constraint:
            case _ if type(constraint) in SIGNS:
                keeps &= change["a"] == SIGNS[type(constraint)] * change["b"]
            case cp.MaxChanges(count=count):
                keeps &= (change != 0).sum(axis=1) <= count
            case cp.Bounds(fall=fall):
                keeps &= change["b"] >= -fall
            case cp.Monotone():
                keeps &= change["c"] >= 0
    if isinstance(explainer.cost, cp.SquaredEuclidean):
        cost = (change**2).sum(axis=1)
    else:
        cost = sum(abs(change[n]) / spread for n, (spread, _) in explainer.spreads.items())
    return float(cost[keeps].min()) if keeps.any() else np.inf


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.parametrize("name", MODELS)
@relations
def test_answers_are_those_of_brute_force_and_proved(
    relation: Relation, name: str, further: str, cost: str
) -> None:
    model = fitted(name)
    constraints = [relation("a", "b"), *FURTHER[further]]
    explainer = cp.Explainer(model, data=PEOPLE, constraints=constraints, cost=COSTS[cost])
    rows = PEOPLE.head(20)
    answers = explainer.explain(rows, 1)
    points = GRID[model.predict(GRID) == 1]
    for i, answer in enumerate(answers):
        best = cheapest(explainer, rows.iloc[i], points)
        if model.predict(rows.iloc[[i]])[0] == 1:
            assert answer.status == "already"
        elif np.isinf(best):
            assert answer.status == "infeasible"
        else:
            assert answer.status == "optimal", answer
            assert answer.cost == pytest.approx(best)
    change = answers.to_frame() - rows
    assert (change["a"] == SIGNS[relation] * change["b"]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean()], ids=repr)
@relations
def test_continuous_answers_are_those_of_cvxpy(
    relation: Relation, cost: cp.Cost, dtype: str
) -> None:
    sign = SIGNS[relation]
    rng = np.random.default_rng(1)
    data = pd.DataFrame(rng.normal(size=(200, 4)) * [1.0, 3.0, 0.1, 10.0], columns=list("abcd"))
    labels = (data @ [1.0, 0.2, -5.0, 0.05] > 0.3).astype(int)
    data = data.astype(dtype)
    model = LogisticRegression(C=100.0, max_iter=5000).fit(data, labels)
    explainer = cp.Explainer(model, data=data, constraints=relation("a", "b"), cost=cost)
    rows = data[model.predict(data) == 0].head(10)
    answers = explainer.explain(rows, 1)
    weights, intercept = model.coef_[0].astype(float), float(model.intercept_[0])
    for i, answer in enumerate(answers):
        x, y = rows.iloc[i].to_numpy(float), cvxpy.Variable(4)
        price = cvxpy.norm1(y - x) if isinstance(cost, cp.Manhattan) else cvxpy.sum_squares(y - x)
        ends = data.min().to_numpy(float), data.max().to_numpy(float)
        keeps = [y[0] - x[0] == sign * (y[1] - x[1]), weights @ y + intercept >= 0.0]
        problem = cvxpy.Problem(cvxpy.Minimize(price), [*keeps, y >= ends[0], y <= ends[1]])
        least = problem.solve(solver="CLARABEL")
        # of numbers of float32 few are such a change away, or none that is near
        if dtype == "float32" and answer.status == "unproved":
            continue
        assert answer.cost == pytest.approx(least, rel=1e-6 if dtype == "float64" else 1e-3)
        assert answer.certificate.bound <= least * (1.0 + 1e-6)
        after = answers.to_frame().iloc[i].to_numpy(float)
        eps = np.finfo(dtype).eps
        off = 8.0 * eps * (np.abs(after[:2]) + np.abs(x[:2])).sum()
        assert abs((after[0] - x[0]) - sign * (after[1] - x[1])) <= off


@relations
def test_steps_of_two_columns_that_differ_meet(relation: Relation) -> None:
    """Of steps 2 and 3, only multiples of 6 are the same or the opposite change."""
    features = [cp.Integer("a", step=2.0), cp.Integer("b", step=3.0), cp.Continuous("c")]
    data = PEOPLE * [2, 3, 1.0]
    model = LogisticRegression().fit(data, data["a"] > 8)
    constraints = [relation("a", "b"), cp.Immutable("c")]
    explainer = cp.Explainer(model, data=data, features=features, constraints=constraints)
    rows = data[(model.predict(data) == 0) & (data["b"] < 12)].head(10)
    answers = explainer.explain(rows, True)
    change = (answers.to_frame() - rows).dropna()
    assert (change["a"] == SIGNS[relation] * change["b"]).all()
    assert set(change["a"]) <= {0.0, 6.0, 12.0, 18.0}
    assert set(answers.status) <= {cp.Status.OPTIMAL, cp.Status.INFEASIBLE}
    assert (answers.status == cp.Status.OPTIMAL).any()


@relations
def test_a_conflict_names_it(relation: Relation) -> None:
    explainer = cp.Explainer(
        fitted("two classes"),
        data=PEOPLE,
        constraints=[relation("a", "b"), cp.Immutable("c"), cp.Bounds("a", rise=2)],
    )
    row = pd.DataFrame({"a": [1], "b": [5], "c": [0]})
    answer = explainer.explain(row, 1)[0]
    assert answer.status == "infeasible", answer
    conflict = answer.conflict
    assert conflict is not None
    assert relation("a", "b") in conflict.constraints
    without = cp.Explainer(
        explainer.model, data=PEOPLE, constraints=[cp.Immutable("c"), cp.Bounds("a", rise=2)]
    )
    assert without.explain(row, 1)[0].status == "optimal"


@pytest.mark.parametrize("name", ["two classes", "bins", "forest", "cells"])
@relations
def test_records_are_in_order(relation: Relation, name: str, tmp_path: Path) -> None:
    explainer = cp.Explainer(fitted(name), data=PEOPLE, constraints=relation("a", "b"))
    answers = explainer.explain(PEOPLE.head(12), 1)
    answers.to_records(tmp_path / "answers.jsonl")
    assert cp.recheck(tmp_path / "answers.jsonl", explainer.model).ok


@relations
def test_names_other_than_of_two_numbers_are_refused(relation: Relation) -> None:
    features = [cp.Continuous("a"), cp.Categorical("home", ("own", "rent"))]
    with pytest.raises(cp.InvalidInput, match=f"two different features for {relation.__name__}"):
        relation("a", "a")
    with pytest.raises(cp.InvalidInput, match=f"{relation.__name__} takes numeric features"):
        relation("a", "home").region(cp.Features(features))


@relations
def test_other_models_refuse_it_in_a_sentence(relation: Relation) -> None:
    model = QuadraticDiscriminantAnalysis().fit(PEOPLE, SCORE > 1.5)
    explainer = cp.Explainer(model, data=PEOPLE, constraints=relation("a", "b"))
    with pytest.raises(cp.NoSolver, match="changes that depend on one another"):
        explainer.explain(PEOPLE.head(2), 1)


def test_of_few_changes_a_half_has_the_leaf_of_its_nearest_point() -> None:
    """With multipliers, the nearest point of half a box changes more features than may change."""
    model, row = fitted("forest"), PEOPLE.iloc[15]
    total = float(row["a"] + row["b"])
    explainer = cp.Explainer(
        model,
        data=PEOPLE,
        constraints=[cp.Linear({"a": 1.0, "b": 1.0}, low=total, high=total), cp.MaxChanges(2)],
        cost=cp.SquaredEuclidean(),
    )
    answer = explainer.explain(PEOPLE.iloc[[15]], 1)[0]
    change = GRID[model.predict(GRID) == 1] - row
    keeps = (change["a"] == -change["b"]) & ((change != 0).sum(axis=1) <= 2)
    assert answer.status == "optimal", answer
    assert answer.cost == pytest.approx((change[keeps] ** 2).sum(axis=1).min())


@relations
def test_equations_hold_to_the_last_digits_of_float32(relation: Relation) -> None:
    """Rounding a value of 100 moves a change of .5 by 1e-5 of itself: rows had no answers."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal((0.0, 100.0), (1.0, 5.0), (200, 2)), columns=["a", "b"])
    X = X.astype("float32")
    model = LogisticRegression(C=100.0).fit(X, X["a"] + 0.3 * (X["b"] - 100.0) > 0.0)
    rows = X[~model.predict(X)].head(10)
    answers = cp.Explainer(
        model, data=X, constraints=[relation("a", "b")], extrapolate=True
    ).explain(rows, True)
    assert answers.found.all()
    change = answers.to_frame().astype(float) - rows.astype(float)
    difference = change["a"] - SIGNS[relation] * change["b"]
    assert (difference.abs() <= np.spacing(np.float32(128.0))).all()
    assert cp.recheck([answer.to_record() for answer in answers], model).problems == ()


def test_in_double_precision_an_equation_is_not_loosened() -> None:
    rows = ChangeBounds.equation(np.array([1.0, -1.0]))
    x, y = np.array([[1e6, 3.0]]), np.array([[1e6 + 1.0, 4.0 + 1e-6]])
    assert rows.violation(y, x)[0] > 1e-7
    assert rows.violation(y + np.array([[0.3, 0.3]]), x)[0] > 1e-7
