"""Nearest-prototype models: exact answers, whatever the metric, the cost and the constraints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import strategies as make
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Additive, Demand, Question, Subproblem, allows, cost_of, excess, grid, optimum
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
import counterpoint.lvq
from counterpoint.errors import InvalidInput, ModelNotFitted, UnsupportedModel
from counterpoint.families.prototypes import family as readers
from counterpoint.families.prototypes.form import LocalPrototypes, Prototypes
from counterpoint.models import read, see_through
from counterpoint.models.linear import LinearScores
from counterpoint.search import answering
from counterpoint.testing import check_form, check_reader

RELATIVE = 1e-6
"""The gap that is promised."""
NOTHING = {cp.Status.INFEASIBLE, cp.Status.UNPROVED}


# Models: plain stand-ins under the names that readers go by


class Nearest(ClassifierMixin, BaseEstimator):
    """The class of the nearest of some training points, in some metric."""

    def __init__(self, per_class: int = 2, seed: int = 0):
        self.per_class = per_class
        self.seed = seed

    def fit(self, X, y):
        X, rng = np.asarray(X, dtype=float), np.random.default_rng(self.seed)
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        chosen = [rng.choice(np.flatnonzero(y == c), self.per_class) for c in self.classes_]
        points = X[np.concatenate(chosen)]
        noise = 0.3 * X.std(axis=0) * rng.normal(size=points.shape)
        self.hold(points + noise, np.repeat(self.classes_, self.per_class))
        self.learn(rng.normal(size=X.shape[1:] * 2) / np.sqrt(X.shape[1]))
        return self

    def hold(self, points, labels):
        self.prototypes_, self.prototype_labels_ = points, labels

    def learn(self, matrix):
        pass

    @property
    def omega(self):
        return np.eye(self.n_features_in_)

    def distances(self, X):
        seen = np.asarray(X, dtype=float) @ self.omega.T
        return ((seen[:, None] - self.prototypes_ @ self.omega.T) ** 2).sum(axis=2)

    def predict(self, X):
        return self.prototype_labels_[self.distances(X).argmin(axis=1)]


class GLVQ(Nearest):
    __module__ = "counterpoint.lvq.glvq"


class RSLVQ(Nearest):
    __module__ = "counterpoint.lvq.rslvq"


class GRLVQ(Nearest):
    __module__ = "counterpoint.lvq.glvq"

    def learn(self, matrix):
        self.relevances_ = np.abs(matrix[0]) + 0.1

    @property
    def omega(self):
        return np.diag(np.sqrt(self.relevances_))


class GMLVQ(Nearest):
    __module__ = "counterpoint.lvq.glvq"

    def learn(self, matrix):
        self.omega_ = matrix[: max(1, len(matrix) - 1)]  # not of full rank

    @property
    def omega(self):
        return self.omega_


class MRSLVQ(GMLVQ):
    __module__ = "counterpoint.lvq.rslvq"


OWN = {cls.__name__: cls for cls in (GLVQ, GRLVQ, GMLVQ, RSLVQ, MRSLVQ)}


# Problems, and what is known of them by probing


def fitted(model: Any, data: pd.DataFrame, labels: np.ndarray) -> Any:
    """A pipeline that scales numbers and encodes categories."""
    words = [name for name in data if data[name].dtype.kind not in "iuf"]
    numbers = [name for name in data if name not in words]
    before = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(sparse_output=False), words)
    )
    return make_pipeline(before, model).fit(data, labels)


def scores(model: Any, rows: pd.DataFrame) -> np.ndarray:
    """One for each prototype: its distance with the other sign, but for what all have in common."""
    seen = np.asarray(model[:-1].transform(rows), dtype=float)
    total = ((seen @ model[-1].omega.T) ** 2).sum(axis=1)
    return total[:, None] - model[-1].distances(seen)


def demands(model: Any, target: Any) -> list[Subproblem]:
    """One piece for each prototype of a wanted class, against every other class's."""
    given = target.labels
    owner, eye = model[-1].prototype_labels_.tolist(), np.eye(len(model[-1].prototype_labels_))
    wanted = [(label in given) == isinstance(target, cp.Label) for label in owner]
    return [
        tuple(Demand(eye[i] - eye[j], target.margin) for j in range(len(owner)) if not wanted[j])
        for i in range(len(owner))
        if wanted[i]
    ]


def learnable(data: pd.DataFrame, classes: int, rng: np.random.Generator) -> np.ndarray:
    ranks = data.rank(method="first").to_numpy() / len(data)
    value = ranks @ rng.normal(size=data.shape[1]) + 0.3 * rng.normal(size=len(data))
    order = value.argsort().argsort()
    return np.array([f"class {k}" for k in range(classes)])[order * classes // len(data)]


def asked(
    model: Any, data: pd.DataFrame, features: cp.Features, target: Any, row: dict[str, Any]
) -> Question:
    """The question without a cost and constraints."""
    known = Additive.probed(lambda rows: scores(model, rows), data[:1], features)
    return Question(features, known, demands(model, target), cp.Manhattan(), [], row)


def rows_after(answers: cp.Counterfactuals) -> dict[int, dict[str, Any]]:
    rows = answers.to_frame()[answers.found].to_dict("records")
    return dict(zip(np.flatnonzero(answers.found).tolist(), rows, strict=True))


def assert_right(answers: cp.Counterfactuals, i: int, q: Question, after: dict[str, Any] | None):
    """One row is what the oracle says: as cheap, or as impossible."""
    status, certificate = answers.status[i], answers[i].certificate
    if status == cp.Status.ALREADY:
        assert certificate.cost == 0.0
        return
    best = optimum(q)
    if status in NOTHING:  # met with nothing to spare, or missed by nothing, is undecided
        assert not best.exists or not optimum(q.stricter(1e-7)).exists, f"missed {best}"
        return
    assert status == cp.Status.OPTIMAL, f"{status}: {certificate}, best {best}"
    assert after is not None
    assert certificate.gap <= RELATIVE
    for constraint in q.constraints:
        assert excess(constraint, q.features, q.row, after) <= 1e-7, constraint
    cost = cost_of(q.cost, q.features, q.row, after)
    assert certificate.cost == pytest.approx(cost, rel=1e-9, abs=1e-12)
    assert best.allows(cost), f"{cost}, below {best}"
    assert cost <= best.high * (1 + RELATIVE), f"{cost} where {best} is possible"
    assert certificate.bound <= best.high, f"bound {certificate.bound} above {best}"


def assert_predicted(model: Any, answers: cp.Counterfactuals, target: Any):
    rows = answers.to_frame()[answers.found]
    if len(rows):
        inside = np.isin(model.predict(rows), list(target.labels))
        assert (inside == isinstance(target, cp.Label)).all()


# The main law


@pytest.mark.parametrize("name", ["GLVQ", "GRLVQ", "GMLVQ"])
@pytest.mark.parametrize("kinds", ["c", "i", "cik"], ids=["continuous", "whole", "mixed"])
@settings(max_examples=6)
@given(draw=st.data())
def test_every_answer_is_valid_proved_and_as_cheap_as_the_oracles(draw, kinds: str, name: str):
    features = draw.draw(make.features(kinds, most=4))
    rng = np.random.default_rng(draw.draw(make.seeds))
    data = make.frame(features, make.codes(features, rng, 60))
    for f in features:  # every category is seen, so that the encoder knows it
        if isinstance(f, cp.Categorical):
            data.loc[: len(f.categories) - 1, f.name] = list(f.categories)
    classes = draw.draw(st.integers(2, 3))
    own = OWN[name](per_class=draw.draw(st.integers(1, 2)), seed=draw.draw(make.seeds))
    model = fitted(own, data, learnable(data, classes, rng))
    cost = make.COSTS[draw.draw(make.costs)](rng, features)
    constraints = draw.draw(make.constraints(features))
    kind = draw.draw(st.sampled_from([cp.Label, cp.OtherLabel]))
    target = kind(f"class {rng.integers(classes)}", draw.draw(st.sampled_from([0.0, 0.1])))
    explainer = cp.Explainer(
        model, data=data, extrapolate=True, features=features, cost=cost, constraints=constraints
    )
    rows = data.iloc[rng.choice(len(data), 2, replace=False)]
    answers = explainer.explain(rows, target)
    after = rows_after(answers)
    assert_predicted(model, answers, target)
    for i, row in enumerate(rows.to_dict("records")):
        q = asked(model, data, features, target, row)
        assert_right(answers, i, replace(q, cost=cost, constraints=constraints), after.get(i))


def blobs(classes: int = 3, d: int = 4) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(classes)
    labels = np.repeat(np.arange(classes), 40)
    data = 2.5 * rng.normal(size=(classes, d))[labels] + rng.normal(size=(len(labels), d))
    return pd.DataFrame(data, columns=list("abcdefgh")[:d]), labels + 3  # labels are no positions


CONSTRAINTS: dict[str, list[cp.Constraint]] = {
    "free": [],
    "bounded": [cp.Bounds("a", low=-6.0, high=4.0), cp.Bounds("b", fall=2.0, rise=3.0)],
    "immutable and linear": [cp.Immutable("c"), cp.Linear({"a": 1.0, "b": -1.0}, high=1.5)],
    "few changes": [cp.MaxChanges(2)],
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("limits", CONSTRAINTS)
@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ"])
def test_every_class_is_a_target(name: str, limits: str, cost: str):
    data, labels = blobs()
    model = fitted(OWN[name](per_class=2), data, labels)
    features, rows = cp.Features.from_data(data), data.iloc[[3, 90]]
    encoded_cost = make.COSTS[cost](np.random.default_rng(0), features)
    explainer = cp.Explainer(
        model, data=data, extrapolate=True, cost=encoded_cost, constraints=CONSTRAINTS[limits]
    )
    solved = 0
    for label in model.classes_.tolist():
        target = cp.Label(label)
        answers = explainer.explain(rows, target)
        assert_predicted(model, answers, target)
        assert set(answers.status) <= {
            cp.Status.OPTIMAL,
            cp.Status.ALREADY,
            cp.Status.INFEASIBLE,
        }
        solved += int((answers.status == cp.Status.OPTIMAL).sum())
        after = rows_after(answers)
        for i, row in enumerate(rows.to_dict("records")):
            q = asked(model, data, features, target, row)
            whole = replace(q, cost=encoded_cost, constraints=CONSTRAINTS[limits])
            assert_right(answers, i, whole, after.get(i))
    assert solved


# Against the model itself, point by point


def discrete(seed: int) -> tuple[pd.DataFrame, cp.Features, np.ndarray]:
    """Few whole numbers, in which ties between prototypes abound, and a category."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "a": rng.integers(0, 5, 40),
            "b": rng.integers(0, 5, 40),
            "c": np.resize(["ash", "elm", "fir"], 40),
        }
    )
    features = cp.Features(
        [
            cp.Integer("a", observed=(0, 4)),
            cp.Integer("b", observed=(0, 4)),
            cp.Categorical("c", ("ash", "elm", "fir"), observed=("ash", "elm", "fir")),
        ]
    )
    return data, features, rng.integers(3, size=40)


def whole_pipeline(model: Any, data: pd.DataFrame, labels: np.ndarray) -> Any:
    """Whole numbers as they are, so that ties are ties."""
    before = make_column_transformer(
        ("passthrough", ["a", "b"]), (OneHotEncoder(sparse_output=False), ["c"])
    )
    return make_pipeline(before, model).fit(data, labels)


class Lattice(GLVQ):
    """Prototypes at whole numbers."""

    __module__ = "counterpoint.lvq.glvq"

    def hold(self, points, labels):
        super().hold(np.round(points), labels)


LIMITS: list[list[cp.Constraint]] = [
    [cp.WithinObserved()],
    [cp.WithinObserved(), cp.Immutable("c"), cp.Bounds("a", rise=2)],
    [cp.WithinObserved(), cp.MaxChanges(1)],
    [cp.WithinObserved(), cp.Linear({"a": 1.0, "b": 1.0}, high=6.0)],
]


def tried(
    model: Any, features: cp.Features, cost: cp.Cost, limits: list[cp.Constraint], row: Any
) -> dict[Any, float]:
    """Label → the least cost at which the model gives it, among all rows that there are."""
    every = [
        after
        for after in grid(features, row, 4)
        if all(allows(limit, features, row, after) for limit in limits)
    ]
    costs = np.array([cost_of(cost, features, row, after) for after in every])
    found = model.predict(pd.DataFrame(every))
    classes = model.classes_.tolist()
    return {c: costs[found == c].min(initial=np.inf) for c in classes}


@pytest.mark.covering(2)
@pytest.mark.parametrize("cost", sorted(make.COSTS))
@pytest.mark.parametrize("limits", range(len(LIMITS)))
@pytest.mark.parametrize(
    "model",
    [Lattice(per_class=3), KNeighborsClassifier(1, algorithm="brute")],
    ids=["lattice", "neighbours"],
)
def test_discrete_answers_are_the_best_of_all_rows(model: Any, limits: int, cost: str):
    data, features, labels = discrete(limits)
    fit = whole_pipeline(model, data, labels)
    encoded_cost = make.COSTS[cost](np.random.default_rng(limits), features)
    explainer = cp.Explainer(
        fit,
        data=data,
        extrapolate=True,
        features=features,
        cost=encoded_cost,
        constraints=LIMITS[limits],
    )
    rows = data.iloc[[1, 20]]
    best = [
        tried(fit, features, encoded_cost, LIMITS[limits], row) for row in rows.to_dict("records")
    ]
    for label in fit.classes_.tolist():
        answers = explainer.explain(rows, label)
        for i in range(len(rows)):
            if answers.status[i] == cp.Status.ALREADY:
                continue
            if np.isinf(best[i][label]):
                assert answers.status[i] == cp.Status.INFEASIBLE
                continue
            assert answers.status[i] == cp.Status.OPTIMAL
            assert answers[i].certificate.gap <= RELATIVE
            assert answers.cost[i] == pytest.approx(best[i][label], rel=1e-9)


def test_a_search_tree_whose_ties_nobody_knows_is_bounded_as_if_they_were_won():
    rng = np.random.default_rng(5)
    grid_points = np.stack(np.meshgrid(*[np.arange(5)] * 2), axis=-1).reshape(-1, 2)
    X = np.unique(rng.integers(0, 5, size=(14, 2)), axis=0)
    y = rng.integers(3, size=len(X))
    model = KNeighborsClassifier(1, algorithm="kd_tree").fit(X, y)
    assert not read(model).first_wins
    features = cp.Features([cp.Integer("a", observed=(0, 4)), cp.Integer("b", observed=(0, 4))])
    explainer = cp.Explainer(
        model, features=features, cost=cp.Manhattan(), constraints=[cp.WithinObserved()]
    )
    predicted = model.predict(grid_points)
    for label in range(3):
        answers = explainer.explain(grid_points, label)
        for i, x in enumerate(grid_points):
            if answers.status[i] == cp.Status.ALREADY:
                continue
            best = np.abs(grid_points[predicted == label] - x).sum(axis=1).min()
            assert answers.status[i] in (cp.Status.OPTIMAL, cp.Status.SUBOPTIMAL)
            assert answers[i].certificate.bound <= best * (1 + 1e-9)
            assert best <= answers.cost[i] * (1 + 1e-9)
            if answers.status[i] == cp.Status.OPTIMAL:
                assert answers.cost[i] == pytest.approx(best)


# Through pipelines, in the user's own columns


def mixed() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    data = pd.DataFrame(
        {
            "income": rng.normal(30_000.0, 8_000.0, 150),
            "age": rng.integers(18, 70, 150),
            "home": rng.choice(["own", "rent", "free"], 150),
        }
    )
    value = data["income"] / 8_000 + data["age"] / 20 + 2.0 * (data["home"] == "own")
    return data, np.array(["low", "middle", "high"])[np.digitize(value, [5.8, 7.2])]


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", [None, cp.SquaredEuclidean({"income": 1e-6, "home": 9.0})])
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_answers_are_raw_rows_of_the_kind_that_came(kind: Any, cost: cp.Cost | None):
    data, labels = mixed()
    model = fitted(GMLVQ(per_class=3), data, labels)
    explainer = cp.Explainer(
        model, data=data, extrapolate=True, cost=cost, constraints=[cp.Bounds("age", fall=0)]
    )
    rows = data.iloc[:15]
    for label in model.classes_.tolist():
        answers = explainer.explain(rows if kind is pd.DataFrame else pl.from_pandas(rows), label)
        assert set(answers.status) <= {cp.Status.OPTIMAL, cp.Status.ALREADY}
        after = answers.to_frame()
        assert isinstance(after, kind)
        assert list(after.columns) == list(data.columns)
        back = after if kind is pd.DataFrame else after.to_pandas()
        assert (model.predict(back) == label).all()
        assert (back["age"].to_numpy() >= rows["age"].to_numpy()).all()


@pytest.mark.covering(2)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("before", [(), (StandardScaler(),), (StandardScaler(), PCA(3))])
@pytest.mark.parametrize("model", [GMLVQ(per_class=3), KNeighborsClassifier(1)], ids=repr)
def test_arrays_through_scalers_and_projections(model: Any, before: Any, dtype: Any):
    X, y = load_iris(return_X_y=True)
    X = X[::2] * np.array([1.0, 20.0, 0.1, 3.0]) + 1.0
    fit = make_pipeline(*before, model).fit(X, y[::2])
    check_reader(fit, X, features=cp.Features(cp.Continuous(f"x{j}") for j in range(4)))
    for cost in (None, cp.SquaredEuclidean()):
        explainer = cp.Explainer(fit, data=X, extrapolate=True, cost=cost)
        for label in range(3):
            answers = explainer.explain(X[::9].astype(dtype), label)
            after = answers.to_frame()
            assert after.dtype == dtype
            assert (fit.predict(after) == label).all()
            moved = answers.status != cp.Status.ALREADY
            assert moved.any()
            if dtype is np.float64:
                assert (answers.status[moved] == cp.Status.OPTIMAL).all()


@pytest.mark.parametrize("words", [False, True])
def test_missing_cells_of_a_model_that_can_only_predict(words: bool):
    data, labels = blobs()
    labels = np.char.add("class ", labels.astype(str)) if words else labels
    model = make_pipeline(SimpleImputer(), StandardScaler(), GLVQ()).fit(data, labels)
    explainer = cp.Explainer(model, data=data, extrapolate=True)
    holes, filled = data.iloc[:8].copy(), data.iloc[:8].copy()
    holes.iloc[0, 1], filled.iloc[0, 1] = np.nan, data["b"].mean()
    for label in model.classes_.tolist():
        answers, expected = explainer.explain(holes, label), explainer.explain(filled, label)
        np.testing.assert_array_equal(answers.status, expected.status)
        np.testing.assert_allclose(answers.cost, expected.cost)


def test_far_from_the_origin_nothing_is_lost():
    data, labels = blobs()
    X = data.to_numpy() + 1e4
    model = GLVQ(per_class=3).fit(X, labels)
    explainer = cp.Explainer(model, data=X, extrapolate=True, cost=cp.SquaredEuclidean())
    near = cp.Explainer(
        GLVQ(per_class=3).fit(X - 1e4, labels),
        data=X - 1e4,
        extrapolate=True,
        cost=cp.SquaredEuclidean(),
    )
    for label in model.classes_.tolist():
        answers = explainer.explain(X, label)
        assert set(answers.status) == {cp.Status.OPTIMAL, cp.Status.ALREADY}
        expected = near.explain(X - 1e4, label).cost
        np.testing.assert_allclose(answers.cost, expected, rtol=1e-5, atol=1e-9)


# Margins, ties, classes that cannot be reached


def test_a_margin_is_one_of_squared_distances():
    data, labels = blobs()
    model = GMLVQ(per_class=2).fit(data.to_numpy(), labels)
    answers = cp.Explainer(model, data=data.to_numpy(), extrapolate=True).explain(
        data.to_numpy(), cp.Label(4, margin=0.2)
    )
    away = model.distances(answers.to_frame())
    own = model.prototype_labels_ == 4
    safety_margin = away[:, ~own].min(axis=1) - away[:, own].min(axis=1)
    assert (safety_margin >= 0.2 - 1e-9).all()
    np.testing.assert_allclose(safety_margin[answers.cost > 0], 0.2, atol=1e-8)
    np.testing.assert_allclose(answers.report()["margin"], safety_margin - 0.2, atol=1e-8)


def test_a_margin_that_no_point_has_is_proved_impossible():
    """The middle of three prototypes in a row has a cell of length 2."""
    form = Prototypes.from_arrays([[0.0], [2.0], [4.0]], ["low", "middle", "high"])
    for cost in (cp.Manhattan(), cp.SquaredEuclidean(), cp.Mahalanobis(np.eye(1))):
        explainer = cp.Explainer(Held(form), cost=cost)
        reached = explainer.explain(np.array([[5.0]]), cp.Label("middle", margin=3.9))
        assert reached.status[0] == cp.Status.OPTIMAL
        missed = explainer.explain(np.array([[5.0]]), cp.Label("middle", margin=4.1))
        assert missed.status[0] == cp.Status.INFEASIBLE


class Held:
    """A model that predicts as a form does; where distances are equal, the first wins."""

    def __init__(self, form: Prototypes):
        self.form, self.classes_ = form, form.classes

    def predict(self, X):
        return self.form.predict(np.asarray(X, dtype=float))


@read.register(Held)
def _(model: Held) -> Prototypes:
    return model.form


PRICES = [cp.Manhattan(), cp.SquaredEuclidean(), cp.Mahalanobis(np.array([[2.0, 1.0], [1.0, 2.0]]))]


@pytest.mark.parametrize("cost", PRICES, ids=lambda cost: type(cost).__name__)
def test_the_first_of_identical_prototypes_takes_the_place(cost: cp.Cost):
    points = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 0.0], [0.0, 4.0], [3.0, 0.0]])
    form = Prototypes.from_arrays(points, ["a", "b", "c", "a", "b"])
    explainer = cp.Explainer(Held(form), cost=cost)
    rows = np.array([[0.0, 0.0], [1.0, 1.0]])
    reached = explainer.explain(rows, "b")
    assert (reached.status == cp.Status.OPTIMAL).all()
    assert (form.predict(reached.to_frame()) == "b").all()
    for target in (cp.Label("c"), cp.Label("c", margin=0.1), cp.Label("b", margin=0.1)):
        missed = explainer.explain(rows, target)
        assert (missed.status == cp.Status.INFEASIBLE).all()
        assert "No point at all gives the target" in str(missed[0].conflict)
    together = explainer.explain(rows, cp.Label({"b", "c"}, margin=0.1))
    assert (together.status == cp.Status.OPTIMAL).all()
    away = explainer.explain(np.array([[3.0, 0.1]]), cp.OtherLabel("b"))
    assert form.predict(away.to_frame()).tolist() == ["a"]


def test_identical_prototypes_tie_exactly_through_any_map():
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(7, 5)), 2, axis=0)
    form = Prototypes.from_arrays(points, np.arange(14) % 2, rng.normal(size=(3, 5)))
    seen = make.seen_through(form, rng, 9)
    X = rng.normal(size=(500, 9))
    assert (seen.predict(X) == 0).all()
    assert (seen.margin(X, cp.Label(0)) == 0.0).all()
    assert (seen.margin(X, cp.Label(1)) == 0.0).all()
    assert len(seen.regions(cp.Label(0))) == 7
    assert len(seen.regions(cp.Label(1))) == 1  # the empty one


def test_repetitions_within_a_class_change_nothing():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    once = Prototypes.from_arrays(points, labels)
    twice = Prototypes.from_arrays(np.tile(points, (2, 1)), np.tile(labels, 2))
    np.testing.assert_array_equal(once.rows, twice.rows)
    blind = Prototypes.from_arrays(  # they differ where the metric does not look
        np.concatenate([points, points + np.eye(3)[2]]), np.tile(labels, 2), [1.0, 2.0, 0.0]
    )
    assert len(blind.rows) == 6
    check_form(twice, [cp.Label(k) for k in range(3)], same=[once])


def test_what_constraints_exclude_is_proved_with_a_conflict():
    data, labels = blobs()
    model = fitted(GLVQ(per_class=2), data, labels)
    row = data.iloc[[0]]
    other = next(c for c in model.classes_ if c != model.predict(row)[0])
    near = [cp.Bounds(name, fall=0.1, rise=0.1) for name in data]
    for cost in sorted(make.COSTS):
        encoded_cost = make.COSTS[cost](np.random.default_rng(0), cp.Features.from_data(data))
        answers = cp.Explainer(
            model, data=data, extrapolate=True, cost=encoded_cost, constraints=near
        ).explain(row, other)
        assert answers.status[0] == cp.Status.INFEASIBLE
        assert answers[0].conflict.constraints
        assert "These exclude every answer: " in str(answers[0].conflict)


def test_targets_that_do_not_fit_are_refused_in_a_sentence():
    form = Prototypes.from_arrays(np.eye(3), ["a", "b", "a"])
    with pytest.raises(
        InvalidInput, match=r"the classes that have prototypes \['a', 'b'\]; got 'c'"
    ):
        form.regions(cp.Label("c"))
    for target in (cp.Probability("a", 0.9), cp.Tradeoff("a", 1.0)):
        for ask in (form.regions, lambda target: form.margin(np.eye(3), target)):
            with pytest.raises(InvalidInput, match=r"distances are no probabilities\. Use Label"):
                ask(target)
    with pytest.raises(InvalidInput, match="a target for a classifier"):
        form.regions(cp.Interval(low=1.0))
    with pytest.raises(InvalidInput, match="leaves some class out and some in"):
        form.regions(cp.Label({"a", "b"}))
    model = GLVQ().fit(np.eye(4), np.array([0, 0, 1, 1]))
    model.classes_ = np.array([0, 1, 2])  # seen in training, and no prototype was left
    with pytest.raises(InvalidInput, match=r"that have prototypes \[0, 1\]; got 2"):
        cp.Explainer(model, data=np.eye(4)).explain(np.eye(4), 2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((np.zeros(3), ["a", "b", "c"]), r"shape \(P, d\) and P labels; got shapes \(3,\)"),
        ((np.eye(3), ["a", "b"]), r"got shapes \(3, 3\) and \(2,\)"),
        ((np.eye(3), ["a", "b", "b"], np.eye(2)), r"shape \(k, 3\), .*of shape \(2, 2\)"),
        ((np.eye(3), ["a", "b", "b"], np.zeros((3, 3, 3))), r"got 1 of shape \(3, 3, 3\)"),
        ((np.eye(3), ["a", "b", "b"], [1.0, -0.5, 0.0]), r"at least 0; got -0\.5"),
        ((np.eye(3), ["a", "b", "b"], np.zeros((2, 3))), "some column counts"),
        ((np.full((2, 1), np.nan), ["a", "b"]), "finite"),
        ((np.eye(3), ["a", "a", "a"]), r"two classes or more; got \['a'\] alone"),
    ],
)
def test_arrays_that_are_no_model_are_refused(given: Any, sentence: str):
    with pytest.raises(InvalidInput, match=sentence):
        Prototypes.from_arrays(*given)


# The same model in other words


@pytest.mark.parametrize("cost", PRICES, ids=lambda cost: type(cost).__name__)
def test_one_prototype_a_class_is_linear(cost: cp.Cost):
    rng = np.random.default_rng(0)
    p, X = rng.normal(size=(2, 2)), rng.normal(size=(50, 2))
    omega = rng.normal(size=(2, 2))
    form = Prototypes.from_arrays(p, [False, True], omega)
    metric = omega.T @ omega
    line = LinearScores.binary(
        2.0 * metric @ (p[1] - p[0]), p[0] @ metric @ p[0] - p[1] @ metric @ p[1], form.classes
    )
    np.testing.assert_allclose(form.margin(X, cp.Label(True)), line.margin(X, cp.Label(True)))
    limits = [cp.Bounds("x0", low=-1.5, high=1.5)]
    for target in (cp.Label(True), cp.Label(False, margin=0.3)):
        found = cp.Explainer(Held(form), cost=cost, constraints=limits).explain(X, target)
        expected = cp.Explainer(Linear(line), cost=cost, constraints=limits).explain(X, target)
        np.testing.assert_array_equal(found.status, expected.status)
        np.testing.assert_allclose(found.to_frame(), expected.to_frame(), atol=1e-9)


class Linear(Held):
    pass


@read.register(Linear)
def _(model: Linear) -> LinearScores:
    return model.form


def test_the_order_of_prototypes_changes_nothing():
    data, labels = blobs(3, 5)
    X, rng = data.to_numpy(), np.random.default_rng(0)
    points, owner = X[::8], labels[::8]
    first = Prototypes.from_arrays(points, owner)
    order = rng.permutation(len(points))
    second = Prototypes.from_arrays(points[order], owner[order])
    for cost in (cp.Manhattan(), cp.SquaredEuclidean()):
        for label in first.classes.tolist():
            one, two = (
                cp.Explainer(Held(form), cost=cost).explain(X[1::9], label)
                for form in (first, second)
            )
            np.testing.assert_array_equal(one.status, two.status)
            np.testing.assert_allclose(one.cost, two.cost, rtol=1e-9)
            if isinstance(cost, cp.SquaredEuclidean):  # whose optimum is unique
                np.testing.assert_allclose(one.to_frame(), two.to_frame(), atol=1e-7)


def test_anything_else_is_the_nearest_other_class():
    data, labels = blobs()
    X = data.to_numpy()
    model = GMLVQ(per_class=2).fit(X, labels)
    explainer = cp.Explainer(model, data=X, extrapolate=True)
    each = np.stack([explainer.explain(X, label).cost for label in model.classes_.tolist()])
    each[np.searchsorted(model.classes_, model.predict(X)), np.arange(len(X))] = np.inf
    np.testing.assert_allclose(
        explainer.explain(X, cp.OtherLabel()).cost, each.min(axis=0), rtol=1e-9
    )


# Batches


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("load", "width"), [(load_breast_cancer, 5), (load_digits, 10)])
@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean()])
def test_many_rows_are_optimal(load: Any, width: int, cost: cp.Cost, count: int):
    X, y = load(return_X_y=True)
    Z = make_pipeline(StandardScaler(), PCA(width)).fit_transform(X)
    rng = np.random.default_rng(0)
    model = GLVQ(per_class=3).fit(Z, y)
    rows = Z[rng.integers(len(Z), size=count)] + 0.1 * rng.normal(size=(count, width))
    answers = cp.Explainer(model, data=Z, extrapolate=True, cost=cost).explain(rows, 1)
    assert set(answers.status) == {cp.Status.OPTIMAL, cp.Status.ALREADY}
    assert (model.predict(answers.to_frame()) == 1).all()
    assert answers.report()["gap"].max() <= RELATIVE
    some = slice(0, count, count // 10 - 3)
    few = cp.Explainer(model, data=Z, extrapolate=True, cost=cost).explain(rows[some], 1)
    np.testing.assert_allclose(few.cost, answers.cost[some], rtol=1e-9)


def test_many_prototypes_take_fewer_rows_at_once(monkeypatch: pytest.MonkeyPatch):
    X, y = load_iris(return_X_y=True)
    model = KNeighborsClassifier(1, algorithm="brute").fit(X[::5], y[::5])
    explainer = cp.Explainer(model, data=X, extrapolate=True)
    before = explainer.explain(X, 2)
    monkeypatch.setattr(answering, "MULTIPLIERS", 40 * 10 * 20)
    after = explainer.explain(X, 2)
    np.testing.assert_array_equal(before.status, after.status)
    np.testing.assert_array_equal(before.to_frame(), after.to_frame())


# Readers


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("classes", [2, 3])
def test_own_estimators_are_read_as_they_are(name: str, classes: int):
    data, labels = blobs(classes)
    model = OWN[name](per_class=3).fit(data.to_numpy(), labels)
    rows = np.concatenate([data.to_numpy(), 20.0 * np.random.default_rng(0).normal(size=(500, 4))])
    check_reader(model, rows, features=cp.Features(cp.Continuous(f"x{j}") for j in range(4)))
    assert isinstance(read(model), Prototypes)


class GlvqModel(Nearest):
    __module__ = "sklearn_lvq.glvq"

    def hold(self, points, labels):
        self.w_, self.c_w_ = points, labels

    @property
    def prototypes_(self):
        return self.w_

    @property
    def prototype_labels_(self):
        return self.c_w_


class GrlvqModel(GlvqModel):
    __module__ = "sklearn_lvq.grlvq"

    def learn(self, matrix):
        self.lambda_ = np.abs(matrix[0]) + 0.1

    @property
    def omega(self):
        return np.diag(np.sqrt(self.lambda_))


class GmlvqModel(GlvqModel):
    __module__ = "sklearn_lvq.gmlvq"

    def learn(self, matrix):
        self.omega_ = matrix[:2]

    @property
    def omega(self):
        return self.omega_


class GrmlvqModel(GlvqModel):
    __module__ = "sklearn_lvq.grmlvq"

    def learn(self, matrix):
        self.omega_, self.lambda_ = matrix[:3], np.abs(matrix[0])

    @property
    def omega(self):
        return self.omega_ * self.lambda_


class Sklvq(Nearest):
    """sklvq keeps labels as positions, and a name of its distance."""

    distance_type = "squared-euclidean"
    force_all_finite = True

    def hold(self, points, labels):
        self.prototypes_ = points
        self.prototypes_labels_ = np.searchsorted(self.classes_, labels)

    @property
    def prototype_labels_(self):
        return self.classes_[self.prototypes_labels_]


def of_sklvq(name: str, **more: Any) -> type:
    return type(name, (Sklvq,), {"__module__": f"sklvq.models._{name.lower()}", **more})


Adaptive = of_sklvq(
    "GMLVQ",
    distance_type="adaptive-squared-euclidean",
    learn=lambda self, matrix: setattr(self, "omega_", matrix[:2]),
    omega=property(lambda self: self.omega_),
)


@pytest.mark.parametrize(
    "kind", [GlvqModel, GrlvqModel, GmlvqModel, GrmlvqModel, of_sklvq("GLVQ"), Adaptive]
)
def test_models_of_other_packages_are_known_by_their_names(kind: type):
    data, labels = blobs()
    words = np.array(["", "", "", "deny", "maybe", "accept"])[labels]
    model = kind(per_class=2).fit(data.to_numpy(), words)
    check_reader(model, data.to_numpy())
    mine = type("Mine", (kind,), {"__module__": "mine"})(per_class=2)  # of the user, over theirs
    check_reader(make_pipeline(StandardScaler(), mine).fit(data, words), data)
    assert cp.explain(
        model, data.to_numpy()[:5], "maybe", data=data.to_numpy(), extrapolate=True
    ).found.all()


def test_a_reader_for_the_class_itself_comes_first():
    kind = type("GLVQ", (Nearest,), {"__module__": "counterpoint.lvq"})
    read.register(kind, lambda model: LinearScores.binary([1.0], 0.0, np.array([0, 1])))
    assert isinstance(read(kind()), LinearScores)


def refused(kind: type, **parameters: Any) -> Any:
    data, labels = blobs()
    model = kind().fit(data.to_numpy(), labels)
    vars(model).update(parameters)
    return model


def neighbors(**parameters: Any) -> Any:
    X = np.repeat(np.arange(12.0).reshape(6, 2), 2, axis=0)
    return KNeighborsClassifier(**parameters).fit(X, np.arange(12) % 2)


REFUSED = [
    (lambda: refused(of_sklvq("GLVQ"), distance_type=type), "Use distance_type='squared-eucl"),
    (lambda: refused(of_sklvq("GLVQ"), force_all_finite="allow-nan"), "force_all_finite=True"),
    (neighbors, r"With n_neighbors=5, several neighbours vote; use n_neighbors=1"),
    (lambda: neighbors(n_neighbors=1, metric="manhattan"), "metric='manhattan' has .* not read"),
    (lambda: neighbors(n_neighbors=1, p=3), "Use metric='euclidean'"),
    (lambda: neighbors(n_neighbors=1), "equal training points of different classes"),
    (lambda: refused(GLVQ, classes_=np.array([3])), "knows only the class 3"),
]


@pytest.mark.parametrize(("make_model", "sentence"), REFUSED, ids=[s[:40] for _, s in REFUSED])
def test_what_cannot_be_read_is_refused_with_a_sentence(make_model: Any, sentence: str):
    with pytest.raises(UnsupportedModel, match=sentence):
        see_through(make_model(), None, fixed=False)


def test_a_model_that_was_not_fitted_is_named():
    for model in (GLVQ(), GmlvqModel(), of_sklvq("GLVQ")(), KNeighborsClassifier(1)):
        with pytest.raises(ModelNotFitted, match="has not been fitted"):
            see_through(model, cp.Features([cp.Continuous("a")]), fixed=False)


@pytest.mark.parametrize("algorithm", ["brute", "kd_tree", "ball_tree", "auto"])
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("metric", ["minkowski", "euclidean", "l2"])
def test_one_nearest_neighbour_is_read_as_it_is(algorithm: str, weights: str, metric: str):
    X, y = load_iris(return_X_y=True)
    X, kept = np.unique(X, axis=0, return_index=True)
    model = KNeighborsClassifier(1, weights=weights, algorithm=algorithm, metric=metric)
    check_reader(model.fit(X, y[kept]), X + 0.3 * np.random.default_rng(0).normal(size=X.shape))


def test_the_first_of_equal_training_points_wins_without_a_tree():
    model = neighbors(n_neighbors=1, algorithm="brute")
    check = np.arange(12.0).reshape(6, 2) + 0.1
    assert read(model).predict(check).tolist() == model.predict(check).tolist() == [0] * 6
    answers = cp.Explainer(model, cost=cp.Manhattan()).explain(check, 1)
    assert (answers.status == cp.Status.INFEASIBLE).all()


def test_training_points_that_are_too_many_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readers, "MOST_NEIGHBORS", 11)
    with pytest.raises(UnsupportedModel, match=r"keeps 12 training points; up to 11 are read"):
        read(neighbors(n_neighbors=1, algorithm="brute"))


@pytest.mark.parametrize("name", counterpoint.lvq.__all__)
def test_an_estimator_that_is_not_fitted_is_said_to_be_so(name: str):
    with pytest.raises(cp.ModelNotFitted):
        cp.Explainer(getattr(counterpoint.lvq, name)(), cost=cp.Manhattan())


def test_prototypes_whose_distances_overflow_are_refused():
    for many in (Prototypes, LocalPrototypes):
        given = {} if many is Prototypes else {"matrices": [[1.0, 1.0], [1.0, 1.0]]}
        with pytest.raises(cp.InvalidInput, match="they overflow"):
            many.from_arrays([[0.0, 0.0], [1e154, 1e154]], [0, 1], *given.values())
