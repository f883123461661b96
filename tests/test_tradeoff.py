"""Cost against probability, from a fitted model to certified rows: against oracles and itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracles
import pandas as pd
import pytest
import strategies as make
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Additive, Charge, Question, brute_force, cost_of, excess, optimum, pieces
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import counterpoint as cp

RELATIVE = 1e-6
"""The gap that is promised."""
EXACT = 1e-10
"""The gap where a quadratic cost is weighed without constraints."""
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

    def question(
        self, target: cp.Tradeoff, cost: cp.Cost, constraints: Sequence[cp.Constraint], row: Any
    ) -> Question:
        objective_term = Charge(self.classes.index(target.label), target.weight)
        return Question(self.features, self.known, [()], cost, constraints, row, objective_term)


def learnable(data: pd.DataFrame, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Labels that depend on every column, with noise, all classes equally often."""
    ranks = data.rank(method="first").to_numpy() / len(data)
    value = ranks @ rng.normal(size=data.shape[1]) + 0.3 * rng.normal(size=len(data))
    order = value.argsort().argsort()
    return np.array([f"class {k}" for k in range(classes)])[order * classes // len(data)]


def problem(
    rng: np.random.Generator, features: cp.Features, classifier: Any, classes: int
) -> Problem:
    """A pipeline that scales numbers and encodes categories."""
    data = make.frame(features, make.codes(features, rng, 60))
    words = [f.name for f in features if isinstance(f, cp.Categorical)]
    for f in features:  # every category is seen, so that the encoder knows it
        if isinstance(f, cp.Categorical):
            data.loc[: len(f.categories) - 1, f.name] = list(f.categories)
    before = ColumnTransformer(
        [
            ("number", StandardScaler(), [n for n in data if n not in words]),
            ("word", OneHotEncoder(sparse_output=False), words),
        ]
    )
    model = make_pipeline(before, classifier).fit(data, learnable(data, classes, rng))
    return Problem(
        model, data, features, Additive.probed(model.decision_function, data[:1], features)
    )


CLASSIFIERS = {
    "logistic": lambda: LogisticRegression(max_iter=2000),
    "discriminant": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2),
}

PLAIN = {
    "continuous": cp.Features([cp.Continuous(name, (-5.0, 5.0)) for name in "abc"]),
    "whole": cp.Features([cp.Integer(name, 1.0, (-6.0, 6.0)) for name in "abc"]),
    "mixed": cp.Features(
        [
            cp.Continuous("a", (-5.0, 5.0)),
            cp.Integer("b", 1.0, (-6.0, 6.0)),
            cp.Categorical("c", ("ash", "elm", "fir"), observed=("ash", "elm", "fir")),
        ]
    ),
}


# The main law


def rows_after(answers: cp.Counterfactuals) -> list[dict[str, Any]]:
    assert answers.found.all(), answers.report().to_string()
    return answers.to_frame().to_dict("records")


def assert_weighed(model: Any, target: cp.Tradeoff, answers: cp.Counterfactuals):
    """Objective and probability are what the model's own ``predict_proba`` says of the rows."""
    column = model.classes_.tolist().index(target.label)
    said = model.predict_proba(answers.to_frame())[:, column]
    np.testing.assert_allclose(answers.certificates.probability, said, rtol=1e-9)
    seen = said > 1e-300
    objective = 0.5 * target.weight * answers.cost[seen] - np.log(said[seen])
    off = np.abs(answers.certificates.objective[seen] - objective)
    # What ``predict_proba`` takes from 1 is a multiple of a float's 1e-16.
    assert (off <= 1e-9 * objective + 1e-15 / said[seen]).all()
    assert (answers.bound <= answers.certificates.objective).all()


def assert_best(asked: Question, answer: cp.Counterfactual, after: dict[str, Any]):
    """One row is as good as the oracle's, and nothing that is possible is ruled out."""
    certificate = answer.certificate
    assert answer.status == cp.Status.OPTIMAL, f"{answer.status}: {certificate}"
    assert certificate.valid
    assert certificate.gap <= RELATIVE
    for constraint in asked.constraints:
        assert excess(constraint, asked.features, asked.row, after) <= 1e-7, constraint
    cost = cost_of(asked.cost, asked.features, asked.row, after)
    assert certificate.cost == pytest.approx(cost, rel=1e-9, abs=1e-12)
    objective = asked.objective_term(cost, asked.model(after))
    assert certificate.objective == pytest.approx(objective, rel=1e-8, abs=1e-12)
    best = optimum(asked)
    assert best.allows(objective), f"{objective}, below {best}"
    assert objective <= best.high * (1 + RELATIVE), f"{objective} where {best} is possible"
    assert certificate.bound <= best.high, f"bound {certificate.bound} above {best}"


def assert_all_best(
    given: Problem,
    target: cp.Tradeoff,
    cost: cp.Cost,
    constraints: Sequence[cp.Constraint],
    rows: pd.DataFrame,
) -> cp.Counterfactuals:
    """Every row; one that cannot meet its constraints at all is said to be infeasible."""
    options = {"features": given.features, "cost": cost, "constraints": constraints}
    answers = cp.Explainer(given.model, data=given.data, extrapolate=True, **options).explain(
        rows, target
    )
    after = dict(
        zip(
            np.flatnonzero(answers.found),
            answers.to_frame()[answers.found].to_dict("records"),
            strict=True,
        )
    )
    if answers.found.all():
        assert_weighed(given.model, target, answers)
    for i, row in enumerate(rows.to_dict("records")):
        asked = given.question(target, cost, constraints, row)
        if answers.status[i] in NONE:
            assert not optimum(asked).exists, answers[i]
        else:
            assert_best(asked, answers[i], after[i])
    return answers


KINDS = pytest.mark.parametrize("kinds", ["c", "i", "cik"], ids=["continuous", "whole", "mixed"])
ANY_CLASSIFIER = pytest.mark.parametrize("classifier", CLASSIFIERS)


@ANY_CLASSIFIER
@KINDS
@settings(max_examples=6, derandomize=True)
@given(draw=st.data())
def test_every_answer_is_as_good_as_the_oracles(draw, kinds: str, classifier: str):
    assert_a_drawn_problem_is_solved(draw, kinds, classifier)


@pytest.mark.slow
@ANY_CLASSIFIER
@KINDS
@settings(max_examples=100, derandomize=True)
@given(draw=st.data())
def test_many_more_answers_are_as_good_as_the_oracles(draw, kinds: str, classifier: str):
    assert_a_drawn_problem_is_solved(draw, kinds, classifier)


def assert_a_drawn_problem_is_solved(draw: Any, kinds: str, classifier: str):
    features = draw.draw(make.features(kinds, most=4))
    rng = np.random.default_rng(draw.draw(make.seeds))
    given = problem(rng, features, CLASSIFIERS[classifier](), draw.draw(st.integers(2, 4)))
    cost = make.COSTS[draw.draw(make.costs)](rng, features)
    constraints = draw.draw(make.constraints(features))
    target = cp.Tradeoff(draw.draw(st.sampled_from(given.classes)), 10.0 ** rng.uniform(-2, 1))
    rows = given.data.iloc[rng.choice(len(given.data), 1)]
    assert_all_best(given, target, cost, constraints, rows)


# Every kind of model, every class, every cost


def blobs(classes: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(classes)
    centers = 1.5 * rng.normal(size=(classes, 4))
    labels = np.repeat(np.arange(classes), 30)
    data = centers[labels] + rng.normal(size=(len(labels), 4))
    return pd.DataFrame(data, columns=list("abcd")), labels + 3  # labels are no positions


def shared(model: GaussianNB) -> GaussianNB:
    """With the same variances in each class, as a model with a shared variance has."""
    model.var_ = np.tile(model.var_.mean(axis=0), (len(model.classes_), 1))
    return model


def fit_shared(data: pd.DataFrame, labels: np.ndarray) -> GaussianNB:
    return shared(GaussianNB().fit(data, labels))


ZOO = {
    "logistic": (lambda X, y: LogisticRegression(max_iter=2000).fit(X, y), 4),
    "binary logistic": (lambda X, y: LogisticRegression().fit(X, y), 2),
    "scaled logistic": (
        lambda X, y: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y),
        3,
    ),
    "logistic cv": (lambda X, y: make_pipeline(MinMaxScaler(), logistic_cv()).fit(X, y), 3),
    "stochastic": (lambda X, y: SGDClassifier(loss="log_loss", random_state=0).fit(X, y), 2),
    "discriminant": (lambda X, y: LinearDiscriminantAnalysis().fit(X, y), 3),
    "binary discriminant": (lambda X, y: LinearDiscriminantAnalysis().fit(X, y), 2),
    "gaussian bayes": (fit_shared, 3),
    "multinomial bayes": (lambda X, y: make_pipeline(MinMaxScaler(), MultinomialNB()).fit(X, y), 3),
}


def logistic_cv() -> LogisticRegressionCV:
    return LogisticRegressionCV(
        Cs=[0.1, 10.0], cv=3, l1_ratios=(0.0,), scoring="accuracy", use_legacy_attributes=False
    )


def zoo_problem(name: str) -> Problem:
    fit, classes = ZOO[name]
    data, labels = blobs(classes)
    model = fit(data, labels)
    features = cp.Features.from_data(data)
    return Problem(model, data, features, Additive.probed(deciding(model), data[:1], features))


def deciding(model: Any) -> Any:
    """Scores of which ``predict_proba`` is the softmax."""
    if hasattr(model, "decision_function"):
        return model.decision_function
    if isinstance(model, GaussianNB):
        return model.predict_joint_log_proba
    return lambda X: model[-1].predict_joint_log_proba(model[:-1].transform(X))


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("name", ZOO)
def test_every_class_of_every_model_is_weighed(name: str, cost: str):
    given = zoo_problem(name)
    encoded_cost = make.COSTS[cost](np.random.default_rng(0), given.features)
    for k, label in enumerate(given.classes):
        rows, weight = given.data.iloc[k::53], (0.02, 1.0)[k % 2]
        answers = assert_all_best(given, cp.Tradeoff(label, weight), encoded_cost, [], rows)
        if cost != "manhattan":
            assert (answers.gap <= EXACT).all()
            assert answers.closed_form.all()


def test_columns_of_zeros_and_ones_are_weighed():
    """Naive Bayes over presence and absence, against every row that there is."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.integers(0, 2, size=(80, 5)), columns=list("abcde"))
    labels = np.where(data["a"] + data["b"] > 1, "both", np.where(data["c"] > 0, "third", "none"))
    model = BernoulliNB(binarize=None).fit(data, labels)
    features = cp.Features([cp.Categorical(n, (0, 1), observed=(0, 1)) for n in data])
    known = Additive.probed(model.predict_joint_log_proba, data[:1], features)
    given = Problem(model, data, features, known)
    rows = data.iloc[:3]
    for label in given.classes:
        for cost in (cp.Manhattan(), cp.SquaredEuclidean({"a": 3.0})):
            target = cp.Tradeoff(label, 0.3)
            explainer = cp.Explainer(
                model, data=data, extrapolate=True, features=features, cost=cost
            )
            answers = explainer.explain(rows, target)
            assert_weighed(model, target, answers)
            for i, row in enumerate(rows.to_dict("records")):
                best = brute_force(given.question(target, cost, [], row), 0)
                assert answers.status[i] == cp.Status.OPTIMAL
                assert answers[i].certificate.objective == pytest.approx(best, rel=1e-9)
                assert answers.bound[i] <= best * (1 + 1e-9)


# Every kind of constraint


def policies(row: dict[str, Any]) -> dict[str, list[cp.Constraint]]:
    return {
        "bounds": [cp.Bounds("a", row["a"] - 0.5, row["a"] + 0.1), cp.Bounds("b", fall=0.2)],
        "a box that excludes the row": [cp.Bounds("a", low=row["a"] + 1.0)],
        "immutable": [cp.Immutable("a"), cp.Immutable("c")],
        "monotone": [cp.Monotone("a", "increasing"), cp.Monotone("b", "decreasing")],
        "rows": [cp.Linear({"a": 1.0, "b": -2.0, "c": 0.5}, high=row["a"] - 2.0 * row["b"])],
        "an equation": [cp.Linear({"a": 1.0, "b": 1.0, "c": 1.0}, low=2.0, high=2.0)],
        "ellipsoid": [cp.Ellipsoid({"a": row["a"], "b": row["b"] + 0.5}, np.eye(2), 0.8)],
        "observed": [cp.WithinObserved()],
        "few changes": [cp.MaxChanges(1)],
        "all of it": [
            cp.Bounds("a", fall=0.5, rise=1.5),
            cp.Linear({"b": 1.0, "c": 1.0}, high=row["b"] + row["c"] + 0.2),
            cp.MaxChanges(2),
            cp.Monotone("c", "increasing"),
        ],
    }


POLICIES = tuple(policies({"a": 0.0, "b": 0.0, "c": 0.0}))


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("policy", POLICIES)
def test_every_constraint_is_kept_and_nothing_else(policy: str, cost: str):
    rng = np.random.default_rng(3)
    given = problem(rng, PLAIN["continuous"], LogisticRegression(), 3)
    encoded_cost = make.COSTS[cost](rng, given.features)
    for k, label in enumerate(given.classes):
        row = given.data.iloc[[7 * k]]
        constraints = policies(row.to_dict("records")[0])[policy]
        assert_all_best(given, cp.Tradeoff(label, 0.1), encoded_cost, constraints, row)


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("policy", POLICIES)
def test_every_constraint_is_kept_by_two_classes(policy: str, cost: str):
    rng = np.random.default_rng(2)
    given = problem(rng, PLAIN["continuous"], LogisticRegression(), 2)
    label = given.classes[POLICIES.index(policy) % 2]
    encoded_cost, row = make.COSTS[cost](rng, given.features), given.data.iloc[[5]]
    constraints = policies(row.to_dict("records")[0])[policy]
    assert_all_best(given, cp.Tradeoff(label, 0.03), encoded_cost, constraints, row)


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("kind", ["whole", "mixed"])
@pytest.mark.parametrize("constraints", [[], [cp.MaxChanges(1)], [cp.Linear({"b": 1.0}, high=2.0)]])
def test_every_whole_row_was_thought_of(kind: str, cost: str, constraints: list[Any]):
    """Against each row within three steps, the mixed problem with its first column held."""
    rng = np.random.default_rng(3)
    given = problem(rng, PLAIN[kind], LogisticRegression(), 3)
    encoded_cost = make.COSTS[cost](rng, given.features)
    numbers = "abc" if kind == "whole" else "ab"
    constraints = constraints + [cp.Bounds(n, fall=3.0, rise=3.0) for n in numbers]
    if kind == "mixed":
        constraints = [*constraints, cp.Immutable("a")]
    options = {"features": given.features, "cost": encoded_cost, "constraints": constraints}
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True, **options)
    for k, label in enumerate(given.classes):
        target = cp.Tradeoff(label, 0.05)
        answers = explainer.explain(given.data.iloc[[11 * k]], target)
        row = given.data.iloc[[11 * k]].to_dict("records")[0]
        asked = given.question(target, encoded_cost, constraints, row)
        best = brute_force(asked, 3)
        if np.isinf(best):
            assert answers.status[0] == cp.Status.INFEASIBLE
            continue
        assert answers.status[0] == cp.Status.OPTIMAL
        assert answers[0].certificate.objective == pytest.approx(best, rel=1e-8)
        assert answers.bound[0] <= best * (1 + 1e-9)


# Weights of all sizes


def softmax_model(matrix: np.ndarray, offset: np.ndarray) -> LogisticRegression:
    """A fitted model with these score rows."""
    model = LogisticRegression()
    model.coef_, model.intercept_ = matrix, offset
    if len(matrix) == 2:
        model.coef_, model.intercept_ = matrix[1:] - matrix[:1], offset[1:] - offset[:1]
    model.classes_, model.n_features_in_ = np.arange(len(matrix)), matrix.shape[1]
    return model


@dataclass(frozen=True)
class Plain:
    """A random softmax model over a few columns, with rows, and a weight of any size."""

    matrix: np.ndarray
    offset: np.ndarray
    rows: np.ndarray
    label: int
    weight: float
    encoded_cost: np.ndarray
    """(D, D) P of a quadratic cost δᵀPδ."""

    @classmethod
    def drawn(cls, seed: int) -> Plain:
        rng = np.random.default_rng(seed)
        k, d = int(rng.integers(2, 9)), int(rng.integers(1, 9))
        matrix = rng.normal(size=(k, d)) * 10.0 ** rng.uniform(-1, 0.5)
        offset = rng.normal(size=k)
        if k > 3 and rng.random() < 0.4:  # a class within the hull of others, never predicted
            matrix[0], offset[0] = (matrix[1] + matrix[2]) / 2, min(offset[1:3]) - 3.0
        rows = rng.normal(size=(4, d)) * 10.0 ** rng.uniform(-1, 1)
        weight = 10.0 ** rng.uniform(-6, 6)
        return cls(matrix, offset, rows, int(rng.integers(k)), weight, make.spd(rng, d))

    @property
    def model(self) -> LogisticRegression:
        return softmax_model(self.matrix, self.offset)

    @property
    def target(self) -> cp.Tradeoff:
        return cp.Tradeoff(self.label, self.weight)

    def explain(self, cost: cp.Cost, constraints: Sequence[cp.Constraint] = ()) -> Any:
        explainer = cp.Explainer(self.model, cost=cost, constraints=constraints)
        return explainer.explain(self.rows, self.target)


QUADRATIC = {
    "squared euclidean": lambda encoded_cost: cp.SquaredEuclidean(np.diagonal(encoded_cost).copy()),
    "mahalanobis": cp.Mahalanobis,
}


def seeds(default: int, most: int) -> Any:
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(default, most)]
    return pytest.mark.parametrize("seed", [*range(default), *slow])


@pytest.mark.parametrize("cost", QUADRATIC)
@seeds(24, 240)
def test_without_constraints_it_is_the_minimiser_to_1e_10(seed: int, cost: str):
    """With P = LLᵀ the columns Lᵀδ cost their squared length, as the paper has it."""
    given = Plain.drawn(seed)
    answers = given.explain(QUADRATIC[cost](given.encoded_cost))
    assert (answers.status == cp.Status.OPTIMAL).all()
    assert (answers.gap <= EXACT).all()
    assert_weighed(given.model, given.target, answers)
    form = (
        np.diag(np.diagonal(given.encoded_cost))
        if cost == "squared euclidean"
        else given.encoded_cost
    )
    root = np.linalg.cholesky(form)
    rows = np.linalg.solve(root, given.matrix.T).T
    scores = given.rows @ given.matrix.T + given.offset
    after = answers.to_frame()
    for i in range(len(scores)):
        change = oracles.newton_in_all_columns(rows, scores[i], given.label, given.weight)
        loss = oracles.log_loss((scores[i] + rows @ change)[None], np.array([given.label]))
        best = given.weight / 2 * change @ change + loss.value[0]
        certificate = answers[i].certificate
        assert certificate.objective <= best * (1 + EXACT) + 1e-300
        assert certificate.bound <= best * (1 + 1e-9)
        moved = (after[i] - given.rows[i]) @ root
        noise = 1e-14 * np.linalg.norm(given.rows[i] @ root)
        room = np.sqrt(2 * 1e-12 * best / given.weight)  # what a gap of 1e-12 leaves
        assert np.linalg.norm(moved - change) <= room + 1e-8 * np.linalg.norm(change) + noise


HELD = {
    "nothing": lambda d: [],
    "bounds": lambda d: [cp.Bounds(f"x{j}", -3.0, 3.0) for j in range(d)],
    "a bounded change": lambda d: [cp.Bounds("x0", fall=0.5, rise=0.5)],
    "an immutable column": lambda d: [cp.Immutable("x0")],
    "a row": lambda d: [cp.Linear({f"x{j}": (-1.0) ** j * (1 + j) for j in range(d)}, high=1.0)],
}


def swept(held: str, cost: str) -> list[Any]:
    """A few models by default, many in the slow run."""
    many = pytest.param(
        range(10, 240), held, cost, id=f"many-{held}-{cost}", marks=pytest.mark.slow
    )
    return [pytest.param(range(10), held, cost, id=f"few-{held}-{cost}"), many]


@pytest.mark.parametrize(
    ("drawn", "held", "cost"), [p for h in HELD for c in sorted(make.COSTS) for p in swept(h, c)]
)
def test_weights_of_all_sizes_are_settled(drawn: range, held: str, cost: str):
    """There always is an answer here, and the bound proves how good it is."""
    off = []
    for seed in drawn:
        given = Plain.drawn(seed)
        d = given.rows.shape[1]
        encoded_cost = {
            "manhattan": cp.Manhattan(np.sqrt(np.diagonal(given.encoded_cost))),
            **{name: made(given.encoded_cost) for name, made in QUADRATIC.items()},
        }[cost]
        answers = given.explain(encoded_cost, HELD[held](d))
        missed = np.flatnonzero(answers.status != cp.Status.OPTIMAL).tolist()
        off += [(seed, i, str(answers.status[i]), given.weight, answers.gap[i]) for i in missed]
        if answers.found.all():
            assert_weighed(given.model, given.target, answers)
    assert not off, f"{len(off)} of {4 * len(drawn)} rows: {off}"


def asked_of(
    rows: Any, offset: Any, x: Any, cost: cp.Cost, constraints: Any, weight: float
) -> cp.Counterfactuals:
    """The first class of a model in small numbers."""
    model = softmax_model(np.array(rows, dtype=float), np.array(offset, dtype=float))
    explainer = cp.Explainer(model, cost=cost, constraints=constraints)
    return explainer.explain(np.array([x], dtype=float), cp.Tradeoff(0, weight))


@pytest.mark.parametrize(
    ("rows", "offset", "x", "weight"),
    [
        ([[2], [1], [0]], [-2, -1, -3], [-6], 1e-4),
        ([[-1], [1], [3]], [1, 2, 1], [3], 1e-3),
        ([[3], [-3], [1]], [2, 2, 0], [-2], 1e-3),
    ],
)
def test_a_column_may_end_at_its_other_bound(rows: Any, offset: Any, x: Any, weight: float):
    bounds = [cp.Bounds("x0", -1.0, 1.0)]
    answers = asked_of(rows, offset, x, cp.SquaredEuclidean(), bounds, weight)
    assert answers.status[0] == cp.Status.OPTIMAL, answers[0].certificate


@pytest.mark.parametrize(
    ("rows", "offset", "x", "weight"),
    [
        ([[1, 1], [2, 2], [-1, 1]], [-2, 3, -2], [4, 3], 0.1),
        ([[-1, -2], [-3, -3], [-2, 1]], [-1, 2, -3], [-5, 4], 0.1),
        ([[3, -1], [-3, 0], [0, -2]], [-1, 2, -3], [1, 2], 1e-4),
        ([[1, -3], [-1, -2], [3, -3]], [-1, 3, -2], [3, 6], 0.1),
    ],
)
def test_columns_leave_their_bounds_again(rows: Any, offset: Any, x: Any, weight: float):
    bounds = [cp.Bounds(name, -1.0, 1.0) for name in ("x0", "x1")]
    answers = asked_of(rows, offset, x, cp.SquaredEuclidean(), bounds, weight)
    assert answers.status[0] == cp.Status.OPTIMAL, answers[0].certificate


@pytest.mark.parametrize(
    ("rows", "offset", "x", "weight"),
    [
        ([[0], [0], [0]], [2, -1, -2], [3], 0.1),
        ([[3], [-3], [-3]], [3, -3, 3], [6], 1e6),
        ([[-3], [3], [3]], [-3, 2, 1], [-4], 1e4),
        ([[-2], [3], [3]], [-2, -2, -2], [-9], 100.0),
        ([[3], [-2], [-2]], [3, 3, -3], [8], 10.0),
    ],
)
def test_a_row_that_had_better_stay_stays(rows: Any, offset: Any, x: Any, weight: float):
    answers = asked_of(rows, offset, x, cp.Manhattan(), [], weight)
    assert answers.status[0] == cp.Status.OPTIMAL, answers[0].certificate
    assert not answers.changed.any()


@pytest.mark.parametrize(
    ("rows", "offset", "x", "weight"),
    [
        ([[-3], [0], [1]], [-1, 3, 0], [-9], 1e5),
        ([[3], [0], [-1]], [3, 3, -1], [7], 1e4),
        ([[-3], [1], [2]], [1, 1, 3], [-7], 100.0),
    ],
)
def test_a_row_far_from_its_relation_hardly_moves(rows: Any, offset: Any, x: Any, weight: float):
    relation = [cp.Linear({"x0": 1.0}, high=20.0)]
    answers = asked_of(rows, offset, x, cp.SquaredEuclidean(), relation, weight)
    assert answers.status[0] == cp.Status.OPTIMAL, answers[0].certificate


@pytest.mark.parametrize(
    ("cost", "rows", "offset", "x", "weight"),
    [
        ("manhattan", [[-3, -1], [-1, -2], [0, 3]], [3, 1, 2], [-8, -3], 1e4),
        ("manhattan", [[-1, 0], [3, 0], [0, 1]], [0, 1, -3], [-6, -4], 1e5),
        ("squared euclidean", [[-1, -2], [3, 2], [2, -2]], [2, 1, 2], [-6, -9], 1e4),
        ("manhattan", [[1, 0], [-2, -3], [-3, 3]], [-3, 3, -3], [0, -2], 1e-3),
        ("manhattan", [[-3, 3], [0, -1], [2, -1]], [1, 2, 2], [-7, 9], 1e3),
        ("manhattan", [[0, -3], [3, -2], [-1, 1]], [0, 0, 1], [-6, -9], 1e5),
        ("squared euclidean", [[0, -3], [3, -2], [-1, 1]], [0, 0, 1], [-6, -9], 1e5),
        ("squared euclidean", [[-3, 2], [-1, -1], [2, -2]], [2, 0, -2], [0, 6], 1e5),
        ("mahalanobis", [[3, 2], [3, -2], [0, -1]], [2, 3, 2], [4, 6], 1e4),
    ],
)
def test_a_row_that_breaks_a_relation_is_answered(
    cost: str, rows: Any, offset: Any, x: Any, weight: float
):
    """It has to move by 1 in all; the probability has next to no say."""
    encoded_cost = {
        "manhattan": cp.Manhattan(),
        "squared euclidean": cp.SquaredEuclidean(),
        "mahalanobis": cp.Mahalanobis(np.eye(2) + 0.2),
    }[cost]
    relation = [cp.Linear({"x0": 1.0, "x1": 1.0}, high=float(sum(x)) - 1.0)]
    answers = asked_of(rows, offset, x, encoded_cost, relation, weight)
    assert answers.status[0] == cp.Status.OPTIMAL, answers[0].certificate


def test_a_row_in_the_middle_of_its_rivals_stays():
    rows, offset, x = [[0], [2], [-2]], [0, 0, 0], [0]
    answers = asked_of(rows, offset, x, cp.Manhattan(), [], 1e-5)
    assert answers.status[0] == cp.Status.OPTIMAL, answers[0].certificate


@pytest.mark.covering(1)
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("weight", [1e-50, 1e-12, 1e50])
def test_weights_far_out_are_no_error(weight: float, cost: str, held: str):
    assert_no_error(weight, cost, held)


def assert_no_error(weight: float, cost: str, held: str):
    """Whatever the status; that a solver does not get there is not said to be an answer."""
    for seed in range(3, 6):
        drawn = Plain.drawn(seed)
        encoded_cost = {
            "manhattan": cp.Manhattan(np.sqrt(np.diagonal(drawn.encoded_cost))),
            **{name: made(drawn.encoded_cost) for name, made in QUADRATIC.items()},
        }[cost]
        constraints = HELD[held](drawn.rows.shape[1])
        explainer = cp.Explainer(drawn.model, cost=encoded_cost, constraints=constraints)
        answers = explainer.explain(drawn.rows, cp.Tradeoff(drawn.label, weight))
        assert cp.Status.INFEASIBLE not in answers.status.tolist()
        found = answers.found
        assert (answers.bound[found] <= answers.certificates.objective[found]).all()


@pytest.mark.parametrize("cost", sorted(make.COSTS))
def test_a_heavier_cost_buys_less_probability(cost: str):
    given = zoo_problem("logistic")
    encoded_cost = make.COSTS[cost](np.random.default_rng(0), given.features)
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True, cost=encoded_cost)
    rows = given.data.iloc[::41]
    weights = 10.0 ** np.arange(-4.0, 3.0)
    for label in given.classes:
        answers = [explainer.explain(rows, cp.Tradeoff(label, w)) for w in weights]
        costs = np.array([a.cost for a in answers])
        p = np.array([a.certificates.probability for a in answers])
        assert (costs[1:] <= costs[:-1] * (1 + 1e-5) + 1e-12).all()
        assert (p[1:] <= p[:-1] * (1 + 1e-6)).all()
        assert (p[0] > 0.9).all()
        assert (costs[-1] <= 1e-2 * costs[0]).all()


@pytest.mark.covering(1)
@pytest.mark.parametrize("factor", [1e-3, 0.5, 8.0, 1e4])
@pytest.mark.parametrize("cost", sorted(make.COSTS))
def test_only_weight_times_cost_counts(cost: str, factor: float):
    given = zoo_problem("discriminant")
    encoded_cost = make.COSTS[cost](np.random.default_rng(1), given.features)
    scaled = (
        cp.Mahalanobis(np.asarray(encoded_cost.matrix) * factor)
        if isinstance(encoded_cost, cp.Mahalanobis)
        else type(encoded_cost)({n: w * factor for n, w in encoded_cost.weights.items()})
    )
    rows = given.data.iloc[::31]
    for label in given.classes:
        one = cp.explain(
            given.model,
            rows,
            cp.Tradeoff(label, 0.3),
            cost=encoded_cost,
            data=given.data,
            extrapolate=True,
        )
        other = cp.explain(
            given.model,
            rows,
            cp.Tradeoff(label, 0.3 / factor),
            cost=scaled,
            data=given.data,
            extrapolate=True,
        )
        np.testing.assert_allclose(
            other.certificates.objective, one.certificates.objective, rtol=1e-8
        )
        np.testing.assert_allclose(other.cost, factor * one.cost, rtol=1e-3, atol=1e-6 * factor)


# Laws of batches


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("kind", PLAIN)
def test_an_answer_does_not_depend_on_the_batch(kind: str, cost: str):
    rng = np.random.default_rng(5)
    given = problem(rng, PLAIN[kind], LogisticRegression(), 3)
    encoded_cost = make.COSTS[cost](rng, given.features)
    options = {"features": given.features, "cost": encoded_cost}
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True, **options)
    target, rows = cp.Tradeoff("class 1", 0.2), given.data[: 24 if kind == "continuous" else 5]
    whole = explainer.explain(rows, target)
    assert (whole.status == cp.Status.OPTIMAL).all()
    again = explainer.explain(rows, target)
    np.testing.assert_array_equal(whole.after, again.after)
    np.testing.assert_array_equal(whole.bound, again.bound)
    backwards = explainer.explain(rows[::-1], target)
    exact = 1e-7 if kind == "continuous" else 1e-6
    np.testing.assert_allclose(backwards.after[::-1], whole.after, rtol=exact, atol=exact)
    for i in range(0, len(rows), 4):
        alone = explainer.explain(rows[i : i + 1], target)
        np.testing.assert_allclose(alone.after[0], whole.after[i], rtol=exact, atol=exact)
        np.testing.assert_allclose(
            alone.certificates.objective[0], whole.certificates.objective[i], rtol=1e-9
        )


def test_no_row_has_a_tradeoff_already():
    """Not even one that the model is sure of, and for which any change costs a fortune."""
    given = zoo_problem("logistic")
    for cost in (cp.Manhattan(), cp.SquaredEuclidean()):
        explainer = cp.Explainer(given.model, data=given.data, extrapolate=True, cost=cost)
        for label in given.classes:
            mine = given.data[given.model.predict(given.data) == label][::3]
            for weight in (1e-2, 1e6):
                answers = explainer.explain(mine, cp.Tradeoff(label, weight))
                assert set(answers.status.tolist()) == {cp.Status.OPTIMAL}


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("weight", [1e-3, 0.1, 10.0])
def test_float32_rows_and_models(weight: float, cost: str):
    data, labels = blobs(3)
    data = data.astype(np.float32)
    model = LogisticRegression().fit(data, labels)
    encoded_cost = make.COSTS[cost](np.random.default_rng(0), cp.Features.from_data(data))
    wide = data.astype(np.float64)
    for label in (3, 4, 5):
        target = cp.Tradeoff(label, weight)
        answers = cp.explain(
            model, data[::23], target, data=data, extrapolate=True, cost=encoded_cost
        )
        assert (answers.status == cp.Status.OPTIMAL).all()
        assert (answers.to_frame().dtypes == np.float32).all()
        same = cp.explain(model, wide[::23], target, data=wide, extrapolate=True, cost=encoded_cost)
        np.testing.assert_allclose(
            answers.certificates.objective, same.certificates.objective, rtol=1e-5
        )


def test_the_report_has_what_was_weighed():
    given = zoo_problem("logistic")
    target, rows = cp.Tradeoff(4, 0.1), given.data[:5]
    answers = cp.explain(
        given.model, rows, target, data=given.data, extrapolate=True, cost=cp.SquaredEuclidean()
    )
    report = answers.report()
    assert {"status", "claim", "valid", "cost", "bound", "gap", "margin"} <= set(report.columns)
    assert (report["status"] == "optimal").all()
    assert (report["claim"] == "proved").all()
    assert report["valid"].all()
    said = given.model.predict_proba(answers.to_frame())[:, 1]
    np.testing.assert_allclose(report["probability"], said, rtol=1e-12)
    weighed = 0.05 * report["cost"] - np.log(said)
    np.testing.assert_allclose(report["objective"], weighed, rtol=1e-12)
    gap = (report["objective"] - report["bound"]) / report["objective"]
    np.testing.assert_allclose(report["gap"], gap, atol=1e-15)
    np.testing.assert_allclose(report["margin"], np.log(said / (1 - said)), rtol=1e-9)
    bad = rows.assign(a=np.nan)
    nothing = cp.explain(given.model, bad, target, data=given.data, extrapolate=True).report()
    assert (nothing["status"] == "invalid").all()
    assert nothing[["objective", "probability"]].isna().all(axis=None)


@seeds(3, 60)
def test_a_tighter_problem_is_never_better(seed: int):
    rng = np.random.default_rng(seed)
    given = problem(rng, PLAIN["mixed"], LogisticRegression(), 3)
    cost = make.COSTS[sorted(make.COSTS)[seed % 3]](rng, given.features)
    row = given.data.iloc[[seed]]
    chain = [cp.MaxChanges(2), cp.Bounds("a", fall=1.0, rise=1.0), cp.Monotone("b", "increasing")]
    last = 0.0
    for count in range(len(chain) + 1):
        options = {"features": given.features, "cost": cost, "constraints": chain[:count]}
        answers = cp.explain(
            given.model,
            row,
            cp.Tradeoff("class 2", 0.1),
            data=given.data,
            extrapolate=True,
            **options,
        )
        assert answers.status[0] == cp.Status.OPTIMAL
        assert answers[0].certificate.objective >= last * (1 - 2 * RELATIVE)
        last = answers[0].certificate.objective


# A probability that is asked for


EPS = float(np.finfo(np.float64).eps)
SURE = [1e-6, 0.01, 0.35, 0.9, 0.999, 1 - 1e-6]


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("at_least", SURE)
def test_a_probability_is_met_and_no_more(at_least: float, cost: str):
    given = zoo_problem(("logistic", "discriminant", "gaussian bayes")[SURE.index(at_least) % 3])
    encoded_cost = make.COSTS[cost](np.random.default_rng(0), given.features)
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True, cost=encoded_cost)
    rows = given.data.iloc[5::73]
    for column, label in enumerate(given.classes):
        target = cp.Probability(label, at_least)
        answers = explainer.explain(rows, target)
        assert answers.found.all()
        said = given.model.predict_proba(answers.to_frame())[:, column]
        assert (said >= at_least).all()
        np.testing.assert_allclose(answers.certificates.probability, said, rtol=1e-9)
        moved = answers.status == cp.Status.OPTIMAL
        assert (moved | (answers.status == cp.Status.ALREADY)).all()
        near = np.abs(np.log(said) - np.log(at_least))
        assert (near[moved] <= (EXACT if cost != "manhattan" else 1e-6)).all()
        if cost != "manhattan":
            assert answers.closed_form.all()
            # A probability near 1 tells log-odds apart by this much only, by which answers lead.
            told = 100.0 * EPS / (1.0 - at_least)
            assert (answers.gap[moved] <= 1e-9 + told).all()
        after = rows_after(answers)
        for i, row in enumerate(rows.to_dict("records")):
            if not moved[i]:
                assert after[i] == row
                continue
            demands = pieces(target, given.classes)
            asked = Question(given.features, given.known, demands, encoded_cost, [], row)
            best = optimum(asked)
            spent = cost_of(encoded_cost, given.features, row, after[i])
            assert best.allows(spent)
            assert spent <= best.high * (1 + RELATIVE)
            assert answers.bound[i] <= best.high


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("left", [1e-8, 1e-9, 1e-11, 1e-13])
def test_near_certainty_is_met_as_nearly_as_floats_tell(left: float, cost: str):
    given = zoo_problem("logistic")
    encoded_cost = make.COSTS[cost](np.random.default_rng(0), given.features)
    explainer = cp.Explainer(given.model, data=given.data, extrapolate=True, cost=encoded_cost)
    rows, at_least = given.data.iloc[5::47], 1.0 - left
    for column, label in enumerate(given.classes):
        answers = explainer.explain(rows, cp.Probability(label, at_least))
        said = given.model.predict_proba(answers.to_frame())[:, column]
        assert answers.found.all()
        assert (said >= at_least).all()
        moved = answers.status != cp.Status.ALREADY
        assert (said - at_least <= 1e-13)[moved].all()


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("policy", POLICIES)
def test_a_probability_keeps_every_constraint(policy: str, cost: str):
    rng = np.random.default_rng(3)
    given = problem(rng, PLAIN["continuous"], LogisticRegression(), 3)
    encoded_cost = make.COSTS[cost](rng, given.features)
    for k, label in enumerate(given.classes):
        rows = given.data.iloc[[7 * k]]
        row = rows.to_dict("records")[0]
        constraints = policies(row)[policy]
        at_least = (0.4, 0.8, 0.6)[k]
        target = cp.Probability(label, at_least)
        options = {"features": given.features, "cost": encoded_cost, "constraints": constraints}
        answers = cp.explain(
            given.model, rows, target, data=given.data, extrapolate=True, **options
        )
        demands = pieces(target, given.classes)
        asked = Question(given.features, given.known, demands, encoded_cost, constraints, row)
        if answers.status[0] == cp.Status.ALREADY:
            assert given.model.predict_proba(rows)[0, k] >= at_least
            continue
        best = optimum(asked)
        if answers.status[0] in NONE:
            assert not best.exists or not optimum(asked.stricter(1e-7)).exists
            continue
        assert answers.status[0] == cp.Status.OPTIMAL
        after = rows_after(answers)[0]
        assert given.model.predict_proba(answers.to_frame())[0, k] >= at_least
        for constraint in constraints:
            assert excess(constraint, given.features, row, after) <= 1e-7
        spent = cost_of(encoded_cost, given.features, row, after)
        assert best.allows(spent)
        assert spent <= best.high * (1 + RELATIVE)
        assert answers.bound[0] <= best.high


@pytest.mark.covering(2)
@pytest.mark.parametrize("related", [[], [cp.Linear({"x0": 1.0, "x1": 1.0}, high=-3.0)]])
@pytest.mark.parametrize("at_least", [0.3, 0.6])
@pytest.mark.parametrize("cost", sorted(make.COSTS))
def test_a_probability_out_of_reach_is_proved_out_of_reach(
    at_least: float, cost: str, related: list[cp.Constraint]
):
    """Of two classes with equal scores, each has a half at most."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        k, d = int(rng.integers(3, 7)), int(rng.integers(2, 7))
        matrix, offset = rng.normal(size=(k, d)), rng.normal(size=k)
        matrix[0], offset[0] = matrix[1], offset[1]
        names = [f"x{j}" for j in range(d)]
        encoded_cost = make.COSTS[cost](rng, cp.Features([cp.Continuous(n) for n in names]))
        model, rows = softmax_model(matrix, offset), rng.normal(size=(3, d))
        explainer = cp.Explainer(model, cost=encoded_cost, constraints=related)
        answers = explainer.explain(rows, cp.Probability(0, at_least))
        odds = np.log(at_least / (1.0 - at_least))
        for i, x in enumerate(rows):
            best = oracles.best_log_odds(matrix, matrix @ x + offset, 0)
            if best < odds - 1e-3:
                assert answers.status[i] == cp.Status.INFEASIBLE
            elif best > odds + 1e-3 and not related:
                assert answers.found[i]


# Bad input


@pytest.mark.parametrize("weight", [0.0, -1.0, -0.0, np.nan, np.inf, -np.inf, 1e-51, 1e51])
def test_a_weight_is_above_0_and_within_reason(weight: float):
    with pytest.raises(cp.InvalidInput, match=r"^Expected a .*weight .*; got"):
        cp.Tradeoff("yes", weight)


@pytest.mark.parametrize("at_least", [0.0, 1.0, -0.5, 1.5, np.nan, np.inf, -np.inf])
def test_a_probability_is_between_0_and_1(at_least: float):
    with pytest.raises(cp.InvalidInput, match="between 0 and 1, both excluded; got"):
        cp.Probability("yes", at_least)


@pytest.mark.parametrize("target", [cp.Tradeoff(99, 0.1), cp.Probability(99, 0.5)])
@pytest.mark.parametrize("name", ["logistic", "binary logistic"])
def test_an_unknown_label_lists_the_classes(name: str, target: cp.Target):
    given = zoo_problem(name)
    for rows in (given.data[:2], given.data[:0]):
        with pytest.raises(cp.InvalidInput, match=r"among the classes \[3, 4.*\]; got 99"):
            cp.explain(given.model, rows, target, data=given.data, extrapolate=True)


WITHOUT = {
    "linear svc": (lambda X, y: LinearSVC(max_iter=50_000).fit(X, y), 3),
    "binary linear svc": (lambda X, y: LinearSVC(max_iter=50_000).fit(X, y), 2),
    "ridge": (lambda X, y: RidgeClassifier().fit(X, y), 3),
    "hinge": (lambda X, y: SGDClassifier(random_state=0).fit(X, y), 2),
    "one against the rest": (lambda X, y: OneVsRestClassifier(LogisticRegression()).fit(X, y), 3),
    "stochastic, one against the rest": (
        lambda X, y: SGDClassifier(loss="log_loss", random_state=0).fit(X, y),
        3,
    ),
    "votes": (lambda X, y: SVC(kernel="linear").fit(X, y), 3),
    "binary svc": (lambda X, y: SVC(kernel="linear").fit(X, y), 2),
}


@pytest.mark.parametrize("target", [cp.Tradeoff(4, 0.1), cp.Probability(4, 0.5)], ids=repr)
@pytest.mark.parametrize("name", WITHOUT)
def test_a_model_without_probabilities_says_so_in_a_sentence(name: str, target: cp.Target):
    fit, classes = WITHOUT[name]
    data, labels = blobs(classes)
    model = fit(data, labels)
    kind = type(target).__name__
    with pytest.raises(
        cp.InvalidInput, match=rf"^{kind} needs class probabilities: .*Use Label"
    ) as e:
        cp.explain(model, data[:3], target, data=data, extrapolate=True)
    assert "\n" not in str(e.value)
    assert len(str(e.value)) < 300


@pytest.mark.parametrize("target", [cp.Tradeoff(4, 0.1), cp.Probability(4, 0.5)], ids=repr)
def test_a_regressor_has_no_probabilities(target: cp.Target):
    data, labels = blobs(3)
    model = LinearRegression().fit(data, labels)
    with pytest.raises(cp.InvalidInput, match=r"for a regressor \(Interval\); got"):
        cp.explain(model, data[:3], target, data=data, extrapolate=True)


def test_clipped_probabilities_are_not_weighed_but_reached():
    data, labels = blobs(2)
    model = SGDClassifier(loss="modified_huber", random_state=0).fit(data, labels)
    with pytest.raises(cp.InvalidInput, match="modified Huber loss are clipped"):
        cp.explain(model, data[:3], cp.Tradeoff(4, 0.1), data=data, extrapolate=True)
    for column, label in enumerate((3, 4)):
        for at_least in (0.1, 0.5, 0.9, 0.999):
            answers = cp.explain(
                model, data[::7], cp.Probability(label, at_least), data=data, extrapolate=True
            )
            assert answers.found.all()
            assert (model.predict_proba(answers.to_frame())[:, column] >= at_least).all()


def test_a_bad_row_costs_no_other_row():
    given = zoo_problem("logistic")
    rows = given.data[:5].copy()
    target, options = cp.Tradeoff(4, 0.1), {"data": given.data, "cost": cp.SquaredEuclidean()}
    plain = cp.explain(given.model, rows, target, **options)
    rows.iloc[2, 1] = np.nan
    answers = cp.explain(given.model, rows, target, **options)
    assert answers.status[2] == cp.Status.INVALID
    others = [0, 1, 3, 4]
    assert (answers.status[others] == cp.Status.OPTIMAL).all()
    np.testing.assert_allclose(answers.after[others], plain.after[others], rtol=1e-9, atol=1e-12)


def test_no_rows_give_no_answers():
    given = zoo_problem("logistic")
    answers = cp.explain(
        given.model, given.data[:0], cp.Tradeoff(4, 0.1), data=given.data, extrapolate=True
    )
    assert len(answers) == len(answers.to_frame()) == len(answers.report()) == 0


class RoundedProbabilities(LogisticRegression):
    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return super().predict_proba(X).round(1)


def test_rows_that_are_searched_apart_are_compared_with_their_own_predictions():
    # Rows with whole numbers and rows between them are searched apart, and asked about together.
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 9, 60).astype(float), "b": rng.normal(size=60)})
    model = RoundedProbabilities().fit(X, X.a + X.b > 4.0)
    features = [cp.Integer("a"), cp.Continuous("b")]
    explainer = cp.Explainer(model, features=features, cost=cp.SquaredEuclidean())
    rows = X.head(4)
    rows.loc[[1, 3], "a"] += 0.5
    answers = explainer.explain(rows, cp.Tradeoff(True, 1.0))
    assert (answers.status == "unproved").all()  # its probabilities are not those that were read
