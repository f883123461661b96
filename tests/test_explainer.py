"""The whole way from a fitted model to certified rows, against oracles and against itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import strategies as make
from hypothesis import given, settings
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
from sklearn.compose import ColumnTransformer, make_column_transformer
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
BLAS = 1e-13
"""A matrix product sums in another order for one row than for many, or for another layout."""
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
    before = ColumnTransformer(
        [("number", StandardScaler(), numbers), ("word", OneHotEncoder(), words)]
    )
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
    "ridge": RidgeClassifier,
}


def problem(
    rng: np.random.Generator, features: cp.Features, classifier: Any, classes: int
) -> Problem:
    data = make.frame(features, make.codes(features, rng, 60))
    for f in features:  # every category is seen, so that the encoder knows it
        if isinstance(f, cp.Categorical):
            data.loc[: len(f.categories) - 1, f.name] = list(f.categories)
    model = fitted(classifier, data, learnable(data, classes, rng))
    return Problem(
        model, data, features, Additive.probed(model.decision_function, data[:1], features)
    )


@st.composite
def targets(draw: Any, classes: list[Any], *, probabilities: bool) -> cp.Target:
    label = draw(st.sampled_from(classes))
    margin = draw(st.sampled_from([0.0, 0.0, 0.2]))
    made: list[cp.Target] = [cp.Label(label, margin), cp.OtherLabel(label, margin)]
    if len(classes) > 2:
        made.append(cp.Label(tuple(c for c in classes if c != label)[:2], margin))
    if probabilities:
        made.append(cp.Probability(label, draw(st.sampled_from([0.35, 0.6, 0.9]))))
    return draw(st.sampled_from(made))


def question(
    given: Problem, target: cp.Target, cost: cp.Cost, constraints: Any, row: dict[str, Any]
) -> Question:
    demands = pieces(target, given.classes)
    return Question(given.features, given.known, demands, cost, constraints, row)


# The main law


def assert_right(
    answers: cp.Counterfactuals, i: int, asked: Question, after: dict[str, Any] | None
):
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
        assert not best.exists or not optimum(asked.stricter(1e-7)).exists, f"missed {best}"
        return
    assert status == cp.Status.OPTIMAL, (
        f"{status}, gap {certificate.gap}, cost {certificate.cost}, best {best}"
    )
    assert after is not None
    assert certificate.valid
    assert certificate.gap <= RELATIVE
    cost = cost_of(asked.cost, asked.features, asked.row, after)
    assert certificate.cost == pytest.approx(cost, rel=1e-9, abs=1e-12)
    for constraint in asked.constraints:
        assert excess(constraint, asked.features, asked.row, after) <= 1e-7, constraint
    assert best.allows(cost), f"{cost}, below {best}"
    assert cost <= best.high * (1 + RELATIVE), f"{cost} where {best} is possible"
    assert certificate.bound <= best.high, f"bound {certificate.bound} above {best}"


def rows_after(answers: cp.Counterfactuals) -> dict[int, dict[str, Any]]:
    """Row → what the user gets for it."""
    rows = answers.to_frame()[answers.found].to_dict("records")
    return dict(zip(np.flatnonzero(answers.found).tolist(), rows, strict=True))


def assert_predicted(model: Any, answers: cp.Counterfactuals, target: cp.Target):
    """The model itself agrees, on the rows as returned."""
    rows = answers.to_frame()[answers.found]
    if not len(rows) or not isinstance(target, cp.Label | cp.OtherLabel):
        return
    inside = np.isin(model.predict(rows), list(target.labels))
    assert (inside if isinstance(target, cp.Label) else ~inside).all()


KINDS = pytest.mark.parametrize("kinds", ["c", "i", "cik"], ids=["continuous", "whole", "mixed"])
ANY_CLASSIFIER = pytest.mark.parametrize("classifier", CLASSIFIERS)


@ANY_CLASSIFIER
@KINDS
@settings(max_examples=8)
@given(draw=st.data())
def test_every_answer_is_valid_proved_and_as_cheap_as_the_oracles(
    draw, kinds: str, classifier: str
):
    assert_a_drawn_problem_is_solved(draw, kinds, classifier)


@pytest.mark.slow
@ANY_CLASSIFIER
@KINDS
@settings(max_examples=100)
@given(draw=st.data())
def test_many_more_answers_are_valid_proved_and_as_cheap_as_the_oracles(
    draw, kinds: str, classifier: str
):
    assert_a_drawn_problem_is_solved(draw, kinds, classifier)


def assert_a_drawn_problem_is_solved(draw: Any, kinds: str, classifier: str):
    features = draw.draw(make.features(kinds, most=5))
    rng = np.random.default_rng(draw.draw(make.seeds))
    given = problem(rng, features, CLASSIFIERS[classifier](), draw.draw(st.integers(2, 4)))
    cost = make.COSTS[draw.draw(make.costs)](rng, features)
    constraints = draw.draw(make.constraints(features))
    target = draw.draw(targets(given.classes, probabilities=classifier == "logistic"))
    explainer = cp.Explainer(
        given.model,
        data=given.data,
        extrapolate=True,
        features=features,
        cost=cost,
        constraints=constraints,
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


@pytest.mark.covering(1)
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
    target = cp.Probability(other, 0.97) if seed % 2 else cp.Label(other, 0.5)
    encoded_cost = make.COSTS[cost](rng, given.features)
    if optimum(question(given, target, encoded_cost, near, record).stricter(-0.01)).exists:
        pytest.skip("the target is within reach")
    explainer = cp.Explainer(
        given.model,
        data=given.data,
        extrapolate=True,
        features=given.features,
        cost=encoded_cost,
        constraints=near,
    )
    assert explainer.explain(row, target).status[0] == cp.Status.INFEASIBLE


# Every class of every kind of model, every kind of target


def blobs(classes: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(classes)
    centers = 2.0 * rng.normal(size=(classes, 4))
    labels = np.repeat(np.arange(classes), 30)
    data = centers[labels] + rng.normal(size=(len(labels), 4))
    return pd.DataFrame(data, columns=list("abcd")), labels + 3  # labels are no positions


ZOO = {
    "logistic": (lambda: LogisticRegression(max_iter=2000), 4),
    "binary logistic": (LogisticRegression, 2),
    "linear svc": (lambda: LinearSVC(max_iter=50_000), 3),
    "ridge": (RidgeClassifier, 3),
    "perceptron": (Perceptron, 3),
    "huber": (lambda: SGDClassifier(loss="modified_huber", random_state=0), 2),
    "discriminant": (LinearDiscriminantAnalysis, 3),
    "votes": (lambda: SVC(kernel="linear", decision_function_shape="ovo"), 4),
}


def zoo_problem(name: str) -> tuple[Problem, Any]:
    factory, classes = ZOO[name]
    data, labels = blobs(classes)
    model = factory().fit(data, labels)
    features = cp.Features.from_data(data)
    known = Additive.probed(model.decision_function, data[:1], features)
    demands = vote_pieces if name == "votes" else pieces
    return Problem(model, data, features, known), demands


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("name", ZOO)
def test_every_class_is_a_target(name: str, cost: str):
    given, demands = zoo_problem(name)
    encoded_cost = make.COSTS[cost](np.random.default_rng(0), given.features)
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True, cost=encoded_cost)
    rows = given.data.iloc[::41]
    for label in given.classes:
        for target in (cp.Label(label), cp.OtherLabel(label, 0.1)):
            answers = explainer.explain(rows, target)
            assert_predicted(given.model, answers, target)
            after = rows_after(answers)
            for i, row in enumerate(rows.to_dict("records")):
                asked = demands(target, given.classes)
                whole = Question(given.features, given.known, asked, encoded_cost, [], row)
                assert_right(answers, i, whole, after.get(i))


def test_a_label_set_is_as_near_as_its_nearest_member():
    given, _ = zoo_problem("logistic")
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True)
    rows = given.data[:20]
    each = [explainer.explain(rows, label).cost for label in (4, 6)]
    together = explainer.explain(rows, cp.Label({4, 6}))
    np.testing.assert_allclose(together.cost, np.minimum(*each), rtol=1e-9)
    assert set(given.model.predict(together.to_frame())) <= {4, 6}


def test_anything_else_is_the_nearest_other_class():
    given, _ = zoo_problem("logistic")
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True)
    rows = given.data[::10]
    now = given.model.predict(rows)
    answers = explainer.explain(rows, cp.OtherLabel())
    assert (given.model.predict(answers.to_frame()) != now).all()
    assert (answers.cost > 0).all()
    for i, current in enumerate(now.tolist()):
        others = [c for c in given.classes if c != current]
        nearest = min(explainer.explain(rows.iloc[[i]], c).cost[0] for c in others)
        assert answers.cost[i] == pytest.approx(nearest, rel=1e-9)


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["logistic", "binary logistic", "huber", "discriminant"])
@pytest.mark.parametrize("at_least", [0.2, 0.5, 0.9])
def test_probability_is_what_predict_proba_says(name: str, at_least: float):
    given, _ = zoo_problem(name)
    explainer = cp.Explainer(
        given.model, data=given.data, extrapolate=True, cost=cp.SquaredEuclidean()
    )
    rows = given.data.iloc[::29]
    for column, label in enumerate(given.classes):
        target = cp.Probability(label, at_least)
        answers = explainer.explain(rows, target)
        assert answers.found.all()
        reached = given.model.predict_proba(answers.to_frame())[:, column]
        assert (reached >= at_least).all()
        moved = answers.cost > 0
        np.testing.assert_allclose(reached[moved], at_least, atol=1e-6)  # not a step further
        after = rows_after(answers)
        asked = pieces(target, given.classes, clipped=name == "huber")
        for i, row in enumerate(rows.to_dict("records")):
            whole = Question(given.features, given.known, asked, cp.SquaredEuclidean(), [], row)
            assert_right(answers, i, whole, after.get(i))


@pytest.mark.parametrize("regressor", [LinearRegression, PoissonRegressor])
@pytest.mark.parametrize("ends", [(2.0, 3.0), (4.0, np.inf), (-np.inf, 1.0), (2.0, 2.0 + 1e-6)])
def test_an_interval_is_what_predict_gives(regressor: Any, ends: tuple[float, float]):
    data, _ = blobs(3)
    value = np.exp(0.2 * data["a"] - 0.1 * data["b"] + 0.5)
    model = regressor().fit(data, value)
    low, high = ends
    cost = cp.Manhattan({"a": 2.0})
    answers = cp.explain(
        model, data[::17], cp.Interval(low, high), data=data, extrapolate=True, cost=cost
    )
    assert answers.found.all()
    reached = model.predict(answers.to_frame())
    assert ((reached >= low) & (reached <= high)).all()
    exponential = regressor is PoissonRegressor
    decide = (lambda X: np.log(model.predict(X))) if exponential else model.predict
    features = cp.Features.from_data(data)
    known = Additive.probed(decide, data[:1], features)
    if exponential:
        low, high = np.log([low, high]) if low > 0 else (-np.inf, np.log(high))
    after = rows_after(answers)
    for i, row in enumerate(data[::17].to_dict("records")):
        whole = Question(features, known, interval_pieces(low, high), cost, [], row)
        assert_right(answers, i, whole, after.get(i))


@pytest.mark.parametrize("name", ["logistic", "binary logistic", "linear svc", "votes"])
def test_a_margin_is_kept_in_score_units(name: str):
    given, _ = zoo_problem(name)
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True)
    rows = given.data[::9]
    plain = explainer.explain(rows, given.classes[-1])
    wide = explainer.explain(rows, cp.Label(given.classes[-1], margin=0.7))
    assert (wide.cost >= plain.cost * (1 - 1e-9)).all()
    assert wide.found.all()
    scores = np.atleast_2d(given.model.decision_function(wide.to_frame()).T).T
    if name == "votes":
        k = len(given.classes)
        scores = -scores[:, [k * (k - 1) // 2 - 1]]  # the last pair, for its second class
        safety_margin = scores[:, 0]
    elif scores.shape[1] == 1:
        safety_margin = scores[:, 0]
    else:
        safety_margin = scores[:, -1] - scores[:, :-1].max(axis=1)
    assert (safety_margin >= 0.7 - 1e-12 * np.abs(scores).max()).all()


# Laws of batches


@pytest.fixture(scope="module")
def mixed() -> Problem:
    """A mixed problem with three classes, for laws that need no variety."""
    features = cp.Features(
        [
            cp.Continuous("income", (-5.0, 5.0)),
            cp.Integer("years", 1.0, (-6.0, 6.0)),
            cp.Categorical("home", make.LETTERS[:3], observed=make.LETTERS[:3]),
            cp.Continuous("debt", (-5.0, 5.0)),
        ]
    )
    return problem(np.random.default_rng(5), features, LogisticRegression(), 3)


POLICY = [cp.Monotone("years", "increasing"), cp.Bounds("debt", fall=2.0, rise=2.0)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("kind", PLAIN)
def test_an_answer_stands_alone_and_in_any_batch(kind: str, cost: str, seed: int):
    """Not at a tie that one summation order of the model's own decides and another does not."""
    rng = np.random.default_rng(seed)
    given = problem(rng, PLAIN[kind], LogisticRegression(), 3)
    encoded_cost = make.COSTS[cost](rng, given.features)
    for constraints in ([], [cp.MaxChanges(1)]):
        options = {"data": given.data, "features": given.features, "cost": encoded_cost}
        answers = cp.explain(
            given.model, given.data[:20], "class 1", **options, constraints=constraints
        )
        rows = answers.to_frame()[answers.found]
        assert (given.model.predict(rows) == "class 1").all()
        assert (given.model.predict(rows[::-1]) == "class 1").all()
        assert all(given.model.predict(rows[i : i + 1])[0] == "class 1" for i in range(len(rows)))


@pytest.mark.parametrize("cost", sorted(make.COSTS))
def test_an_answer_does_not_depend_on_the_batch(mixed: Problem, cost: str):
    encoded_cost = make.COSTS[cost](np.random.default_rng(1), mixed.features)
    ask = cp.Explainer(
        mixed.model,
        data=mixed.data,
        extrapolate=True,
        features=mixed.features,
        cost=encoded_cost,
        constraints=POLICY,
    )
    rows = mixed.data[:12]
    whole = ask.explain(rows, "class 2")
    backwards = ask.explain(rows[::-1], "class 2")
    assert_same(whole, backwards, np.arange(12)[::-1], rounding=BLAS)
    for i in range(0, 12, 3):
        assert_same(ask.explain(rows[i : i + 1], "class 2"), whole, np.array([i]), rounding=BLAS)


@pytest.mark.parametrize("cost", sorted(make.COSTS))
def test_the_same_call_gives_the_same_bits(mixed: Problem, cost: str):
    encoded_cost = make.COSTS[cost](np.random.default_rng(1), mixed.features)
    options = {
        "data": mixed.data,
        "features": mixed.features,
        "cost": encoded_cost,
        "constraints": POLICY,
    }
    ask = cp.Explainer(mixed.model, **options)
    first = ask.explain(mixed.data[:12], "class 0")
    ask.explain(mixed.data[12:30], "class 1")  # what was asked in between leaves no trace
    assert_same(first, ask.explain(mixed.data[:12], "class 0"), np.arange(12))
    fresh = cp.explain(mixed.model, mixed.data[:12], "class 0", **options)
    assert_same(first, fresh, np.arange(12))


def assert_same(
    a: cp.Counterfactuals, b: cp.Counterfactuals, rows: np.ndarray, rounding: float = 0.0
):
    """Row i of a is row rows[i] of b, to the last bit unless rounding is allowed for."""
    assert [str(s) for s in a.status] == [str(b.status[j]) for j in rows]
    for name in ("cost", "bound"):
        left, right = getattr(a, name), getattr(b, name)[rows]
        np.testing.assert_allclose(left, right, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(a.after, b.after[rows], rtol=rounding, atol=rounding)


# Metamorphic laws


@pytest.mark.parametrize("cost", [cp.Manhattan, cp.SquaredEuclidean])
@pytest.mark.parametrize("unit", [1e-9, 1e-3, 60.0, 1e9])
def test_the_unit_of_a_feature_changes_nothing(unit: float, cost: Any):
    """A column in other units, its weight in the inverse units: the same answer, the same cost."""
    data, labels = blobs(3)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data, labels)
    other = data.assign(a=data["a"] * unit)
    same_model = make_pipeline(StandardScaler(), LogisticRegression()).fit(other, labels)
    weight = 1.0 / unit if cost is cp.Manhattan else 1.0 / unit**2
    constraints = [cp.Bounds("b", fall=1.0, rise=1.0), cp.Linear({"a": 1.0, "c": 1.0}, high=3.0)]
    in_units = [constraints[0], cp.Linear({"a": 1.0 / unit, "c": 1.0}, high=3.0)]
    for label in (3, 4, 5):
        plain = cp.explain(
            model,
            data[::7],
            label,
            data=data,
            extrapolate=True,
            cost=cost(),
            constraints=constraints,
        )
        scaled = cp.explain(
            same_model,
            other[::7],
            label,
            data=other,
            extrapolate=True,
            cost=cost({"a": weight}),
            constraints=in_units,
        )
        # Scaling the training data moves the fitted coefficients by the fit's own tolerance.
        assert plain.status.tolist() == scaled.status.tolist()
        np.testing.assert_allclose(scaled.cost, plain.cost, rtol=1e-4, atol=1e-9)
        assert (np.nan_to_num(scaled.gap) <= RELATIVE).all()


@given(seed=make.seeds)
def test_a_constraint_that_the_answer_meets_anyway_changes_no_cost(mixed: Problem, seed: int):
    rng = np.random.default_rng(seed)
    cost = make.COSTS[str(rng.choice(sorted(make.COSTS)))](rng, mixed.features)
    row = mixed.data.iloc[[rng.integers(len(mixed.data))]]
    options = {"data": mixed.data, "features": mixed.features, "cost": cost, "extrapolate": True}
    free = cp.explain(mixed.model, row, "class 1", **options)
    answer = free.to_frame().iloc[0]
    total = float(answer["income"] + answer["debt"])
    redundant = [
        cp.Bounds("income", low=float(answer["income"]) - 1.0, high=float(answer["income"]) + 1.0),
        cp.Linear({"income": 1.0, "debt": 1.0}, low=total - 1.0, high=total + 1.0),
        cp.MaxChanges(4),
        cp.Bounds("years", low=float(answer["years"])),
    ]
    held = cp.explain(mixed.model, row, "class 1", **options, constraints=redundant)
    assert held.cost[0] == pytest.approx(free.cost[0], rel=2 * RELATIVE, abs=1e-9)


@settings(max_examples=settings.default.max_examples // 2)
@given(seed=make.seeds)
def test_a_tighter_problem_is_never_cheaper(mixed: Problem, seed: int):
    rng = np.random.default_rng(seed)
    cost = make.COSTS[str(rng.choice(sorted(make.COSTS)))](rng, mixed.features)
    row = mixed.data.iloc[[rng.integers(len(mixed.data))]]
    options = {"data": mixed.data, "features": mixed.features, "cost": cost}
    chain = [
        cp.MaxChanges(3),
        cp.Immutable("home"),
        cp.Bounds("income", fall=3.0, rise=3.0),
        cp.Monotone("debt", "decreasing"),
    ]
    last = 0.0
    for count in range(len(chain) + 1):
        answers = cp.explain(mixed.model, row, "class 2", **options, constraints=chain[:count])
        reached = answers.cost[0] if answers.found[0] else np.inf
        assert reached >= last * (1.0 - RELATIVE)
        assert not (np.isinf(last) and np.isfinite(reached))
        last = reached


# Frames as they came


def named(frame: pd.DataFrame, labels: np.ndarray) -> Any:
    words = [n for n in frame if not pd.api.types.is_numeric_dtype(frame[n])]
    rest = [n for n in frame if n not in words]
    before = ColumnTransformer([("n", StandardScaler(), rest), ("w", OneHotEncoder(), words)])
    return make_pipeline(before, LogisticRegression()).fit(frame, labels)


@pytest.fixture(scope="module")
def people() -> tuple[pd.DataFrame, np.ndarray]:
    """Every dtype that a column may have."""
    rng = np.random.default_rng(3)
    n = 80
    frame = pd.DataFrame(
        {
            "float64": rng.normal(size=n),
            "float32": rng.normal(size=n).astype(np.float32),
            "int8": rng.integers(-5, 6, size=n).astype(np.int8),
            "Int64": pd.array(rng.integers(0, 9, size=n), dtype="Int64"),
            "category": pd.Categorical(rng.choice(["low", "mid", "top"], n), ["low", "mid", "top"]),
            "bool": rng.random(n) < 0.5,
            "object": rng.choice(["p", "q", "r"], n).astype(object),
        },
        index=pd.Index([f"person {i}" for i in range(n)], name="who"),
    )
    total = (
        frame["float64"]
        + frame["float32"]
        + 0.2 * frame["int8"]
        + 0.2 * frame["Int64"].astype(float)
    )
    total = total + (frame["category"] == "top") + frame["bool"] + (frame["object"] == "r")
    return frame, (total > total.median()).to_numpy()


@pytest.mark.parametrize("cost", sorted(make.COSTS))
def test_index_columns_and_dtypes_come_back(people: Any, cost: str):
    frame, labels = people
    model = named(frame, labels)
    features = cp.Features.from_data(frame)
    encoded_cost = make.COSTS[cost](np.random.default_rng(2), features)
    answers = cp.explain(model, frame[:25], True, data=frame, extrapolate=True, cost=encoded_cost)
    back = answers.to_frame()
    assert answers.found.all()
    assert back.index.equals(frame[:25].index)
    assert back.index.name == "who"
    assert back.dtypes.equals(frame.dtypes)
    assert model.predict(back).all()


def test_each_dtype_comes_back_when_its_column_changes(people: Any):
    frame, labels = people
    model = named(frame, labels)
    for name in frame:
        others = [other for other in frame if other != name]
        explainer = cp.Explainer(
            model, data=frame, extrapolate=True, constraints=cp.Immutable(*others)
        )
        kept = frame[explainer.explain(frame, True).found]
        back = explainer.explain(kept, True).to_frame()
        assert (back[name] != kept[name]).any(), f"no row changes {name}; the test shows nothing"
        assert back[name].dtype == frame[name].dtype
        pd.testing.assert_frame_equal(back[others], kept[others])


def test_cells_that_do_not_change_are_the_very_values(people: Any):
    frame, labels = people
    frame = frame.assign(float64=frame["float64"] * (1.0 + 1e-16) + 0.1)  # no round numbers
    model = named(frame, labels)
    answers = cp.explain(
        model, frame, True, data=frame, extrapolate=True, constraints=[cp.MaxChanges(2)]
    )
    back, kept = answers.to_frame(), frame.loc[answers.to_frame().index]
    changed = pd.DataFrame(answers.changed[answers.found], index=back.index, columns=list(frame))
    for name in frame:
        same = ~changed[name].to_numpy()
        left, right = back[name].to_numpy()[same], kept[name].to_numpy()[same]
        assert left.tolist() == right.tolist()
    assert (changed.sum(axis=1) <= 2).all()


def test_reordered_and_extra_columns(people: Any):
    frame, labels = people
    model = named(frame, labels)
    plain = cp.explain(model, frame[:20], True, data=frame, extrapolate=True)
    mixed_up = frame[:20][list(frame)[::-1]].assign(note="kept as it is", number=7)
    answers = cp.explain(model, mixed_up, True, data=frame, extrapolate=True)
    back = answers.to_frame()
    assert list(back) == list(mixed_up)
    assert (back["note"] == "kept as it is").all()
    assert (back["number"] == 7).all()
    np.testing.assert_array_equal(answers.cost, plain.cost)
    pd.testing.assert_frame_equal(back[list(frame)], plain.to_frame())


def test_polars_in_polars_out(people: Any):
    frame, labels = people
    plain = frame[["float64", "float32", "int8"]].reset_index(drop=True)
    model = LogisticRegression().fit(plain, labels)
    rows = pl.from_pandas(plain)
    model_of_polars = LogisticRegression().fit(rows, labels)
    answers = cp.explain(model_of_polars, rows[:10], True, data=rows, extrapolate=True)
    back = answers.to_frame()
    assert isinstance(back, pl.DataFrame)
    assert back.schema == rows.schema
    expected = cp.explain(model, plain[:10], True, data=plain, extrapolate=True)
    np.testing.assert_array_equal(answers.cost, expected.cost)
    assert isinstance(answers.report(), pl.DataFrame)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8])
def test_arrays_in_arrays_out(dtype: Any):
    rng = np.random.default_rng(0)
    rows = (4.0 * rng.normal(size=(60, 3))).astype(dtype)
    labels = rows.astype(float) @ [1.0, -2.0, 0.5] > 0.3
    model = LogisticRegression().fit(rows, labels)
    answers = cp.explain(model, rows[:20], True, data=rows, extrapolate=True)
    back = answers.to_frame()
    assert isinstance(back, np.ndarray)
    assert back.dtype == dtype
    assert answers.found.all()
    assert model.predict(back).all()


def test_one_row_may_be_a_series_a_mapping_or_a_vector():
    data, labels = blobs(2)
    model = LogisticRegression().fit(data, labels)
    explainer = cp.Explainer(model, data=data, extrapolate=True)
    expected = explainer.explain(data[:1], 4).cost
    for row in (data.iloc[0], data.iloc[0].to_dict(), data.iloc[0].to_numpy()):
        np.testing.assert_allclose(explainer.explain(row, 4).cost, expected, rtol=BLAS)


def test_data_gives_features_weights_and_constants():
    data, labels = blobs(2)
    data = data.assign(a=1.5)
    model = LogisticRegression().fit(data, labels)
    explainer = cp.Explainer(model, data=data, extrapolate=True)
    assert explainer.constant == ("a",)
    answers = explainer.explain(data, 3)
    assert (answers.to_frame()["a"] == 1.5).all()
    weights = cp.mad_weights(data)
    away = np.median(np.abs(data["b"] - data["b"].median()))
    assert weights["b"] == pytest.approx(1.0 / away)
    given = cp.explain(model, data, 3, data=data, extrapolate=True, cost=cp.Manhattan(weights))
    np.testing.assert_array_equal(answers.cost, given.cost)


def test_what_is_added_later_is_as_if_it_had_been_asked_at_once(mixed: Problem):
    first = cp.Explainer(mixed.model, data=mixed.data)
    X, name = mixed.data.head(20), first.features.names[0]
    before = first.explain(X, cp.OtherLabel())
    rules = (cp.Immutable(name), cp.MaxChanges(2))
    for cost in (None, cp.Manhattan()):
        at_once = cp.Explainer(mixed.model, data=mixed.data, constraints=rules, cost=cost)
        later = first.adding(rules[0]).adding(rules[1:], cost=cost)
        assert later.summary() == at_once.summary()
        pair = [e.explain(X, cp.OtherLabel()) for e in (at_once, later)]
        assert pair[0].report().equals(pair[1].report())
        assert pair[0].to_frame().equals(pair[1].to_frame())
    assert first.explain(X, cp.OtherLabel()).report().equals(before.report())
    with pytest.raises(cp.InvalidInput, match="Expected a cost such as"):
        first.adding(cost="free")
    with pytest.raises(cp.InvalidInput, match="There is no feature 'x'"):
        first.adding(cp.Immutable("x"))


def test_a_time_limit_keeps_the_best_answer_and_its_gap(mixed: Problem):
    cost = make.mahalanobis(np.random.default_rng(0), mixed.features)
    options = {"data": mixed.data, "features": mixed.features, "cost": cost}
    answers = cp.explain(mixed.model, mixed.data[:10], "class 2", **options, time_limit=1e-9)
    free = cp.explain(mixed.model, mixed.data[:10], "class 2", **options)
    known = {cp.Status.LIMIT, cp.Status.OPTIMAL, cp.Status.ALREADY}
    assert set(answers.status.tolist()) <= known
    found = answers.found
    assert (answers.cost[found] >= free.cost[found] * (1 - RELATIVE)).all()
    assert (answers.bound[found] <= free.cost[found] * (1 + RELATIVE)).all()


def test_a_wanted_gap_is_kept(mixed: Problem):
    cost = make.squared(np.random.default_rng(0), mixed.features)
    options = {"data": mixed.data, "features": mixed.features, "cost": cost}
    best = cp.explain(mixed.model, mixed.data[:20], "class 0", **options).cost
    loose = cp.explain(mixed.model, mixed.data[:20], "class 0", **options, gap=0.3)
    assert (loose.gap <= 0.3).all()
    assert (loose.cost * (1 - 0.3) <= best * (1 + RELATIVE)).all()


# What data= implies: numbers stay within their ranges, categories among those that occur


def shown(seed: int = 0) -> tuple[Any, pd.DataFrame]:
    """A model of numbers and categories, some of which no row has, and its rows."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 300),
            "debt": rng.normal(size=300).round(3),
            "job": pd.Categorical(
                rng.choice(["clerk", "nurse"], 300), categories=["clerk", "nurse", "astronaut"]
            ),
        }
    )
    encoder = OneHotEncoder(categories=[["clerk", "nurse", "astronaut"]])
    before = make_column_transformer((encoder, ["job"]), remainder=StandardScaler())
    score = data["age"] / 20 - data["debt"] + (data["job"] == "nurse")
    model = make_pipeline(before, LogisticRegression()).fit(data, score > 4.5)
    model[-1].coef_[0, 2] = 40.0  # no row says anything of it
    return model, data


AS_FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda data: data,
    "text": lambda data: data.astype({"job": str, "age": "int16"}),
    "nullable": lambda data: data.astype({"age": "Int64", "debt": "Float64", "job": "string"}),
    "arrow-backed": lambda data: data.astype(
        {"age": "int64[pyarrow]", "debt": "double[pyarrow]", "job": "string[pyarrow]"}
    ),
    "float32": lambda data: data.astype({"debt": "float32"}),
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", AS_FRAMES)
@pytest.mark.parametrize("target", [True, False])
def test_answers_stay_within_the_data_by_default(kind: str, target: bool):
    model, data = shown()
    rows = AS_FRAMES[kind](data)
    for constraints in ([], cp.Immutable("debt", "job")):
        asked = {"data": rows, "constraints": constraints}
        answers = cp.explain(model, rows, target, **asked)
        free = cp.explain(model, rows, target, extrapolate=True, **asked)
        after = answers.to_frame()
        assert after.index.equals(rows.index)
        assert (after.dtypes == rows.dtypes).all() or not answers.found.all()
        back = after[answers.found]
        for name in ("age", "debt"):
            assert back[name].between(rows[name].min(), rows[name].max()).all()
        assert set(back["job"]) <= {"clerk", "nurse"}
        assert (model.predict(back.astype({"age": int, "debt": float})) == target).all()
        assert free.found.all()
        away = free.to_frame()
        assert set(away["job"]) <= {"clerk", "nurse"}
        both = answers.found
        assert (free.cost[both] <= answers.cost[both] * (1 + 1e-9)).all()
    assert not away["age"].between(rows["age"].min(), rows["age"].max()).all()
    assert not both.all()


def test_the_default_is_what_the_constraint_says():
    """Brute force by the same demand said in bounds, from which nothing is lifted."""
    model, data = shown(1)
    answers = cp.explain(model, data, True, data=data)
    said = [cp.Bounds(n, low=data[n].min(), high=data[n].max()) for n in ("age", "debt")]
    same = cp.explain(model, data, True, data=data, constraints=said, extrapolate=True)
    asked = cp.explain(model, data, True, data=data, constraints=[cp.WithinObserved()])
    for other in (same, asked):
        np.testing.assert_array_equal(answers.found, other.found)
        np.testing.assert_allclose(answers.cost, other.cost, rtol=1e-9)


def test_a_row_outside_the_range_may_stay_or_come_nearer():
    model, data = shown()
    row = data.iloc[[0]].assign(age=110, debt=-9.0)
    held = cp.explain(model, row, False, data=data, constraints=[cp.Immutable("debt", "job")])
    assert not held.found.any()  # the age alone does not reach it within the range
    answer = cp.explain(model, row, False, data=data)[0]
    assert answer.found
    assert answer.row["age"] <= 110
    assert -9.0 <= answer.row["debt"] <= data["debt"].max()
    nearer = cp.explain(model, row, True, data=data)
    assert nearer.status[0] == cp.Status.ALREADY
    odd = data.iloc[[0]].assign(
        job=pd.Categorical(["astronaut"], categories=data["job"].cat.categories)
    )
    already_satisfied = cp.explain(model, odd, True, data=data, constraints=[cp.Immutable("job")])
    assert already_satisfied.status[0] == cp.Status.ALREADY  # its own category is no problem


@pytest.mark.parametrize("bounds", [{"high": 120}, {"low": 5}, {"low": 5, "high": 120}])
def test_bounds_beyond_the_data_are_meant_on_their_side(bounds: dict[str, float]):
    model, data = shown()
    frozen = cp.Immutable("debt", "job")
    limits = {"low": data["age"].min(), "high": data["age"].max()} | bounds
    said = cp.Bounds("age", **bounds)
    for target in (True, False):
        answers = cp.explain(model, data, target, data=data, constraints=[said, frozen])
        expected = cp.explain(
            model,
            data,
            target,
            data=data,
            constraints=[cp.Bounds("age", **limits), frozen],
            extrapolate=True,
        )
        np.testing.assert_array_equal(answers.found, expected.found)
        np.testing.assert_array_equal(answers.cost, expected.cost)


def test_features_say_otherwise():
    model, data = shown()
    job = cp.Categorical("job", ("clerk", "nurse", "astronaut"))
    cost = cp.Manhattan({"job": 1e-3})
    free = cp.explain(model, data[:40], True, data=data, features=job, cost=cost)
    chosen = set(free.to_frame()["job"][free.changed[:, 2]])
    assert "astronaut" in chosen
    ages = cp.Integer("age", observed=(0, 200))
    frozen = cp.Immutable("debt", "job")
    wide = cp.explain(model, data, True, data=data, features=[ages], constraints=frozen)
    assert (
        wide.found.sum() > cp.explain(model, data, True, data=data, constraints=frozen).found.sum()
    )
    assert wide.to_frame()["age"].max() > data["age"].max()


def test_a_default_range_is_named_in_conflicts_as_what_it_is():
    model, data = shown()
    frozen = cp.Immutable("debt", "job")
    answers = cp.explain(model, data, True, data=data, constraints=frozen)
    conflict = answers[int(np.flatnonzero(answers.status == cp.Status.INFEASIBLE)[0])].conflict
    assert conflict is not None
    assert cp.WithinObserved("age") in conflict.constraints
    assert "age stays within what the data showed (pass extrapolate=True to lift it)" in str(
        conflict
    )
    asked = [frozen, cp.WithinObserved("age")]
    again = cp.explain(model, data, True, data=data, constraints=asked)
    found = again[int(np.flatnonzero(again.status == cp.Status.INFEASIBLE)[0])].conflict
    assert "extrapolate" not in str(found)


def test_the_summary_says_what_the_data_imply():
    model, data = shown()
    lifted = "numbers stay within the ranges above (pass extrapolate=True to lift it)"
    known = "job: only categories that occur in the data"
    said = cp.Explainer(model, data=data).summary()
    assert lifted in said
    assert known in said
    free = cp.Explainer(model, data=data, extrapolate=True).summary()
    assert lifted not in free
    assert known in free
    bound = cp.Explainer(model, data=data, constraints=cp.Bounds("age", high=120)).summary()
    assert "within the ranges above, but where a bound says otherwise" in bound


# Effort


def calls(action: Callable[[], Any]) -> int:
    """How many functions of Python are called: seconds depend on what else runs."""
    count = 0

    def counted(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("kind", ["pandas", "polars", "array", "described"])
def test_making_an_explainer_takes_work_in_proportion_to_the_columns(kind):
    work = []
    for width in (50, 100, 200):
        X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, width))).add_prefix("c")
        model = LogisticRegression().fit(X, X["c0"] > 0.0)
        data = {"polars": pl.from_pandas(X), "array": X.to_numpy()}.get(kind, X)
        features = [cp.Integer(name) for name in X.columns] if kind == "described" else None
        if kind == "array":
            model = LogisticRegression().fit(data, X["c0"] > 0.0)
        make_one = partial(cp.Explainer, model, data=data, features=features)
        make_one()  # what is imported or cached is not counted
        work.append(calls(make_one))
    assert work[2] - work[1] <= 2.1 * (work[1] - work[0])
