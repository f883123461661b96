"""The whole way from a fitted model to certified rows, against oracles and against itself."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import strategies as make
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    Additive,
    Question,
    cost_of,
    excess,
    interval_pieces,
    meets,
    optimum,
    pieces,
    vote_pieces,
)
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Perceptron,
    PoissonRegressor,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import counterpoint as cp

RELATIVE = 1e-6
"""The gap that is promised."""
ORACLE = 2e-8
"""What SCIP and Clarabel leave open in absolute terms: their tolerance of 1e-9 on each row, times
multipliers of about 10 (costs here are of size 1)."""
NONE = {cp.Status.INFEASIBLE, cp.Status.UNPROVED}


# Problems


@dataclass(frozen=True)
class Problem:
    """A fitted model with data, and what is known of it by probing."""

    model: Any
    data: pd.DataFrame
    features: cp.Features
    known: Additive

    @property
    def classes(self) -> list[Any]:
        return self.model.classes_.tolist()


def fitted(classifier: Any, data: pd.DataFrame, labels: np.ndarray) -> Any:
    """A pipeline that scales numbers and encodes categories; the decision is scaled to about 1."""
    words = [name for name in data if data[name].dtype.kind not in "iuf"]
    numbers = [name for name in data if name not in words]
    before = ColumnTransformer([("number", StandardScaler(), numbers), ("word", OneHotEncoder(), words)])
    return make_pipeline(before, classifier).fit(data, labels)


def learnable(data: pd.DataFrame, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Labels that depend on every column, with noise, all classes equally often."""
    ranks = data.rank(method="first").to_numpy() / len(data)
    value = ranks @ rng.normal(size=data.shape[1]) + 0.3 * rng.normal(size=len(data))
    order = value.argsort().argsort()
    return np.array([f"class {k}" for k in range(classes)])[order * classes // len(data)]


CLASSIFIERS = {
    "logistic": lambda: LogisticRegression(max_iter=2000),
    "svc": lambda: LinearSVC(max_iter=20_000),
    "ridge": lambda: RidgeClassifier(),
}


def problem(rng: np.random.Generator, features: cp.Features, classifier: Any, classes: int) -> Problem:
    data = make.frame(features, make.codes(features, rng, 60))
    for f in features:  # every category is seen, so that the encoder knows it
        if isinstance(f, cp.Categorical):
            data.loc[: len(f.categories) - 1, f.name] = list(f.categories)
    model = fitted(classifier, data, learnable(data, classes, rng))
    return Problem(model, data, features, Additive.probed(model.decision_function, data[:1], features))


@st.composite
def targets(draw: Any, classes: list[Any], *, probabilities: bool) -> cp.Target:
    label = draw(st.sampled_from(classes))
    margin = draw(st.sampled_from([0.0, 0.0, 0.2]))
    made: list[cp.Target] = [cp.Label(label, margin), cp.OtherLabel(label, margin)]
    if len(classes) > 2:
        made.append(cp.Label(tuple(c for c in classes if c != label)[:2], margin))
    if probabilities:
        made.append(cp.Confidence(label, draw(st.sampled_from([0.35, 0.6, 0.9]))))
    return draw(st.sampled_from(made))


def question(
    given: Problem, target: cp.Target, cost: cp.Cost, constraints: Any, row: dict[str, Any]
) -> Question:
    demands = pieces(target, given.classes)
    return Question(given.features, given.known, demands, cost, constraints, row)


# The main law


def assert_right(answers: cp.Counterfactuals, i: int, asked: Question, after: dict[str, Any] | None):
    """One row is what the oracle says: as cheap, or as impossible."""
    status, certificate = answers.status[i], answers[i].certificate
    if status == cp.Status.ALREADY:  # constraints are about changes; there is none
        assert certificate.valid
        assert certificate.cost == certificate.gap == 0.0
        assert after == asked.row
        assert any(meets(piece, asked.model(asked.row)) for piece in asked.pieces)
        return
    best = optimum(asked)
    if status in NONE:
        # A target that is met with nothing to spare, or missed by nothing, is undecided.
        assert np.isinf(best) or np.isinf(optimum(asked.stricter(1e-7))), f"missed {best}"
        return
    assert status == cp.Status.OPTIMAL, f"{status}, gap {certificate.gap}, cost {certificate.cost}, best {best}"
    assert after is not None
    assert certificate.valid
    assert certificate.gap <= RELATIVE
    cost = cost_of(asked.cost, asked.features, asked.row, after)
    assert certificate.cost == pytest.approx(cost, rel=1e-9, abs=1e-12)
    for constraint in asked.constraints:
        assert excess(constraint, asked.features, asked.row, after) <= 1e-7, constraint
    slack = RELATIVE * cost + ORACLE
    assert np.isfinite(best) or np.isfinite(optimum(asked.stricter(-1e-7)))
    if np.isfinite(best):
        assert cost <= best + slack, f"{cost} where {best} is possible"
        assert certificate.bound <= best + slack, f"bound {certificate.bound} above {best}"


def rows_after(answers: cp.Counterfactuals) -> dict[int, dict[str, Any]]:
    """Row → what the user gets for it."""
    rows = answers.to_frame().to_dict("records")
    return dict(zip(np.flatnonzero(answers.found).tolist(), rows, strict=True))


def assert_predicted(model: Any, answers: cp.Counterfactuals, target: cp.Target):
    """The model itself agrees, on the rows as returned."""
    rows = answers.to_frame()
    if not len(rows) or not isinstance(target, cp.Label | cp.OtherLabel):
        return
    inside = np.isin(model.predict(rows), list(target.labels))
    assert (inside if isinstance(target, cp.Label) else ~inside).all()


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("kinds", ["c", "i", "cik"], ids=["continuous", "whole", "mixed"])
@given(draw=st.data())
def test_every_answer_is_valid_proved_and_as_cheap_as_the_oracles(draw, kinds: str, classifier: str):
    features = draw.draw(make.features(kinds, most=5))
    rng = np.random.default_rng(draw.draw(make.seeds))
    given = problem(rng, features, CLASSIFIERS[classifier](), draw.draw(st.integers(2, 4)))
    cost = make.COSTS[draw.draw(make.costs)](rng, features)
    constraints = draw.draw(make.constraints(features))
    target = draw.draw(targets(given.classes, probabilities=classifier == "logistic"))
    explainer = cp.Explainer(
        given.model, data=given.data, features=features, cost=cost, constraints=constraints
    )
    rows = given.data.iloc[rng.choice(len(given.data), 2, replace=False)]
    answers = explainer.explain(rows, target)
    after = rows_after(answers)
    assert_predicted(given.model, answers, target)
    for i, row in enumerate(rows.to_dict("records")):
        assert_right(answers, i, question(given, target, cost, constraints, row), after.get(i))


PLAIN = {
    "continuous": cp.Features([cp.Continuous(name, (-5.0, 5.0)) for name in "abc"]),
    "whole": cp.Features([cp.Integer(name, 1.0, (-6.0, 6.0)) for name in "abc"]),
    "mixed": cp.Features(
        [
            cp.Continuous("a", (-5.0, 5.0)),
            cp.Integer("b", 1.0, (-6.0, 6.0)),
            cp.Categorical("c", ("ash", "elm"), observed=("ash", "elm")),
        ]
    ),
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("kind", PLAIN)
def test_what_is_impossible_by_far_is_proved_impossible(kind: str, cost: str, seed: int):
    """INFEASIBLE, and not UNPROVED, where even a target that is 0.01 easier is out of reach."""
    rng = np.random.default_rng(seed)
    given = problem(rng, PLAIN[kind], LogisticRegression(), 3)
    row = given.data.iloc[[0]]
    record = row.to_dict("records")[0]
    other = next(c for c in given.classes if c != given.model.predict(row)[0])
    center = {"a": record["a"], "b": record["b"]}
    near = {
        0: [cp.Ellipsoid(center, make.spd(rng, 2), 0.1), cp.Immutable("c")],
        1: [cp.Bounds("a", fall=0.1, rise=0.1), cp.Bounds("b", fall=1, rise=1), cp.Immutable("c")],
        2: [cp.Linear({"a": 1.0, "b": 1.0}, low=1e3), cp.WithinObserved("a", "b")],
    }[seed % 3]
    target = cp.Confidence(other, 0.97) if seed % 2 else cp.Label(other, 0.5)
    price = make.COSTS[cost](rng, given.features)
    if np.isfinite(optimum(question(given, target, price, near, record).stricter(-0.01))):
        pytest.skip("the target is within reach")
    explainer = cp.Explainer(
        given.model, data=given.data, features=given.features, cost=price, constraints=near
    )
    assert explainer.explain(row, target).status[0] == cp.Status.INFEASIBLE
