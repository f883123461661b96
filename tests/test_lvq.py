"""Learning vector quantization: gradients, laws of invariance, known solutions, public numbers."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from counterpoint.errors import InvalidInput
from counterpoint.lvq import GLVQ, GMLVQ, GRLVQ, LGMLVQ, LMRSLVQ, MRSLVQ, RSLVQ
from counterpoint.lvq.training import (
    Training,
    TrainingRows,
    centres,
    starting_prototypes,
    unit_trace,
)

RELATIVE = (GLVQ, GRLVQ, GMLVQ, LGMLVQ)
LIKELIHOOD = (RSLVQ, MRSLVQ, LMRSLVQ)
ALL = (*RELATIVE, *LIKELIHOOD)
LOCAL = (LGMLVQ, LMRSLVQ)
SQUARE = (GMLVQ, MRSLVQ)
CONFIGURATIONS: dict[str, Any] = {
    **{cls.__name__: cls() for cls in ALL},
    "GLVQ, identity": GLVQ(transfer="identity"),
    "GRLVQ, no regularization": GRLVQ(regularization=0.0),
    "GMLVQ, rank 2": GMLVQ(rank=2, regularization=0.2),
    "GMLVQ, rank 1, identity": GMLVQ(rank=1, transfer="identity", regularization=0.0),
    "LGMLVQ, per class": LGMLVQ(metric_per="class"),
    "LGMLVQ, rank 2, per class": LGMLVQ(rank=2, metric_per="class", regularization=0.5),
    "RSLVQ, no anchor": RSLVQ(spread=0.7, anchor=0.0),
    "MRSLVQ, rank 2": MRSLVQ(rank=2, anchor=0.5),
    "LMRSLVQ, rank 1, per class": LMRSLVQ(rank=1, metric_per="class", spread=0.3),
}
every = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
configured = pytest.mark.parametrize("name", CONFIGURATIONS)


def model(name: str, **changes: Any) -> Any:
    made = clone(CONFIGURATIONS[name])
    return made.set_params(**{"prototypes_per_class": [2, 1, 3], "random_state": 0} | changes)


def data(seed: int = 0, n: int = 90, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that overlap, on columns of different scales."""
    X, y = make_blobs(n, d, centers=3, cluster_std=4.0, random_state=seed)
    return X * np.array([1.0, 0.5, 2.0, 1.5])[:d], y


def training_of(estimator: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Training:
    rows = TrainingRows.of(X, y, weight)
    counts = np.array([2, 1, 3])[rows.classes]
    return estimator._training(rows, *starting_prototypes(rows, counts, np.random.RandomState(0)))


def squared(X: np.ndarray, fitted: Any) -> np.ndarray:
    """Distances by the definition, from the public attributes."""
    d = X.shape[1]
    single = getattr(fitted, "omega_", None)
    if isinstance(fitted, GLVQ | RSLVQ):
        single = np.eye(d)
    if isinstance(fitted, GRLVQ):
        single = np.diag(np.sqrt(fitted.relevances_))
    values = np.empty((len(X), len(fitted.prototypes_)))
    for j, (p, label) in enumerate(zip(fitted.prototypes_, fitted.prototype_labels_, strict=True)):
        omega = single
        if isinstance(fitted, LOCAL):
            per_class = fitted.metric_per == "class"
            omega = fitted.omegas_[list(fitted.classes_).index(label) if per_class else j]
        for i, x in enumerate(X):
            moved = omega @ (x - p)
            values[i, j] = moved @ moved
    return values


# Gradients


@configured
@pytest.mark.parametrize("seed", [0, 1])
def test_the_gradient_is_that_of_finite_differences(name: str, seed: int):
    random = np.random.default_rng(seed)
    X, y = data(seed)
    problem = training_of(model(name), X, y, random.uniform(0.1, 3.0, len(X)))
    vector = problem.start + 0.3 * random.normal(size=problem.start.size)
    _, gradient = problem.loss(vector)
    for i, step in enumerate(1e-6 * np.eye(vector.size)):
        slope = (problem.loss(vector + step)[0] - problem.loss(vector - step)[0]) / 2e-6
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-8)


@configured
def test_the_gradient_is_finite_where_rows_and_prototypes_of_all_classes_coincide(name: str):
    X = np.zeros((9, 4))
    y = np.arange(9) % 3
    rows, owner = TrainingRows.of(X, y, np.ones(9)), np.array([0, 0, 1, 2, 2, 2])
    problem = model(name)._training(rows, np.zeros((6, 4)), owner)
    value, gradient = problem.loss(problem.start)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


# The contract of scikit-learn


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if "," in name else [])
        for name in CONFIGURATIONS
        if "rank" not in name
    ],
)
def test_the_estimator_keeps_the_contract(name: str):
    check_estimator(clone(CONFIGURATIONS[name]), on_skip=None)


@every
def test_a_pickle_predicts_the_same(cls: type):
    X, y = data()
    fitted = cls(2, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301 (our own)
    assert np.array_equal(again.decision_function(X), fitted.decision_function(X))


@every
def test_frames_name_their_columns(cls: type):
    X, y = data()
    frame = pd.DataFrame(X, columns=[*"abcd"])
    fitted = cls(random_state=0).fit(frame, y)
    assert list(fitted.feature_names_in_) == [*"abcd"]
    assert np.array_equal(fitted.predict(frame), cls(random_state=0).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[[*"dcba"]])


@every
def test_it_says_so_when_it_is_not_fitted(cls: type):
    with pytest.raises(NotFittedError):
        cls().predict(np.zeros((1, 2)))


@pytest.mark.parametrize("cls", SQUARE, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("rank", [None, 1, 3])
def test_distances_are_euclidean_after_the_transformation(cls: type, rank: int | None):
    X, y = data()
    fitted = cls(2, rank=rank, random_state=0).fit(X, y)
    near = fitted.transform(X)[:, None] - fitted.transform(fitted.prototypes_)
    assert np.allclose((near**2).sum(axis=2), squared(X, fitted), rtol=1e-9)
    assert near.shape[2] == (rank or 4) == len(fitted.get_feature_names_out())
    assert np.array_equal(clone(fitted).fit_transform(X, y), fitted.transform(X))


# What was fitted


@configured
def test_attributes_have_their_shapes_and_the_trace_is_one(name: str):
    X, y = data()
    labels = np.array(["low", "mid", "top"])[y]
    fitted = model(name).fit(X, labels)
    assert fitted.prototypes_.shape == (6, 4)
    assert fitted.prototype_labels_.tolist() == ["low", "low", "mid", "top", "top", "top"]
    assert fitted.classes_.tolist() == ["low", "mid", "top"]
    assert fitted.n_features_in_ == 4
    assert fitted.n_iter_ >= 1
    if isinstance(fitted, GRLVQ):
        assert fitted.relevances_.shape == (4,)
        assert (fitted.relevances_ >= 0.0).all()
        assert fitted.relevances_.sum() == pytest.approx(1.0)
    if isinstance(fitted, SQUARE):
        assert fitted.omega_.shape == (fitted.rank or 4, 4)
        assert (fitted.omega_**2).sum() == pytest.approx(1.0)
    if isinstance(fitted, LOCAL):
        many = 3 if fitted.metric_per == "class" else 6
        assert fitted.omegas_.shape == (many, fitted.rank or 4, 4)
        assert np.allclose((fitted.omegas_**2).sum(axis=(1, 2)), 1.0)


@configured
def test_the_nearest_prototype_decides(name: str):
    X, y = data()
    fitted = model(name).fit(X, y)
    new = data(1)[0]
    distances = squared(new, fitted)
    assert np.array_equal(fitted.predict(new), fitted.prototype_labels_[distances.argmin(axis=1)])
    nearest = [distances[:, fitted.prototype_labels_ == c].min(axis=1) for c in fitted.classes_]
    assert np.allclose(fitted.decision_function(new), -np.transpose(nearest), rtol=1e-9)


@every
def test_the_decision_between_two_classes_is_a_difference_of_distances(cls: type):
    X, y = data()
    fitted = cls([2, 3], random_state=0).fit(X, y > 0)
    distances = squared(X, fitted)
    difference = distances[:, :2].min(axis=1) - distances[:, 2:].min(axis=1)
    assert np.allclose(fitted.decision_function(X), difference, rtol=1e-9, atol=1e-12)
    assert np.array_equal(fitted.predict(X), fitted.decision_function(X) > 0)


@pytest.mark.parametrize("cls", LIKELIHOOD, ids=lambda cls: cls.__name__)
def test_probabilities_are_the_posterior_of_the_mixture(cls: type):
    X, y = data()
    fitted = cls([2, 1, 3], random_state=0).fit(X, y)
    terms = np.exp(squared(X, fitted) / (-2.0 * fitted.spread_))
    sums = np.transpose([terms[:, fitted.prototype_labels_ == c].sum(axis=1) for c in range(3)])
    assert np.allclose(fitted.predict_proba(X), sums / sums.sum(axis=1, keepdims=True), rtol=1e-9)
    assert cls(spread=0.25, random_state=0).fit(X, y).spread_ == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("cls", RELATIVE, ids=lambda cls: cls.__name__)
def test_the_relative_loss_is_what_it_says(cls: type):
    X, y = data()
    weight = np.random.default_rng(0).uniform(size=len(X))
    fitted = cls([2, 1, 3], random_state=0).fit(X, y, weight)
    own = y[:, None] == fitted.prototype_labels_
    distances = squared(X, fitted)
    plus, minus = (np.where(mask, distances, np.inf).min(axis=1) for mask in (own, ~own))
    value = 1.0 / (1.0 + np.exp(-8.0 * (plus - minus) / (plus + minus)))
    loss = weight @ value / weight.sum() + regularized(fitted)
    assert fitted.loss_ == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("cls", LIKELIHOOD, ids=lambda cls: cls.__name__)
def test_the_likelihood_loss_is_what_it_says(cls: type):
    X, y = data()
    fitted = cls([2, 1, 3], anchor=0.0, random_state=0).fit(X, y)
    right = fitted.predict_proba(X)[np.arange(len(X)), y]
    assert fitted.loss_ == pytest.approx(-np.log(right).mean() + regularized(fitted), rel=1e-9)


def regularized(fitted: Any) -> float:
    if isinstance(fitted, GRLVQ):
        return -fitted.regularization * float(np.log(4 * fitted.relevances_).mean())
    omegas = fitted.omegas_ if isinstance(fitted, LOCAL) else [getattr(fitted, "omega_", None)]
    if omegas[0] is None:
        return 0.0
    logs = [np.linalg.slogdet(len(o) * o @ o.T)[1] / len(o) for o in omegas]
    return -fitted.regularization * float(np.mean(logs))


@configured
def test_more_iterations_never_raise_the_loss(name: str):
    X, y = data()
    problem = training_of(model(name), X, y, np.ones(len(X)))
    reached = [problem.minimised(most, 1e-9).fun for most in (1, 2, 4, 8, 16, 32)]
    losses = [problem.loss(problem.start)[0], *reached]
    assert all(a >= b for a, b in pairwise(losses))
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("cls", [GRLVQ, *SQUARE, *LOCAL], ids=lambda cls: cls.__name__)
def test_regularization_keeps_directions(cls: type):
    X, y = data()
    spread = []
    for strength in (0.001, 0.1, 10.0):
        fitted = cls(2, regularization=strength, random_state=0).fit(X, y)
        spread.append(regularized(fitted) / strength)
    assert spread[0] > spread[1] > spread[2] > -1e-12


# Invariance


@configured
def test_the_order_of_rows_does_not_matter_at_all(name: str):
    X, y = data()
    order = np.random.default_rng(0).permutation(len(X))
    one, other = model(name).fit(X, y), model(name).fit(X[order], y[order])
    assert_same(one, other)


@configured
def test_weights_count_rows(name: str):
    X, y = data()
    weight = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    repeated = np.repeat(np.arange(len(X)), weight.astype(int))
    one = model(name).fit(X, y, sample_weight=weight)
    assert_same(one, model(name).fit(X[repeated], y[repeated]))
    assert_same(one, model(name).fit(X, y, sample_weight=4.0 * weight))


@configured
def test_renamed_labels_rename_the_answers_and_nothing_else(name: str):
    X, y = data()
    names = np.array(["m", "z", "a"])
    counts = {0: 2, 1: 1, 2: 3}
    one = model(name, prototypes_per_class=counts).fit(X, y)
    renamed = {names[c]: n for c, n in counts.items()}
    other = model(name, prototypes_per_class=renamed).fit(X, names[y])
    assert np.array_equal(names[one.predict(X)], other.predict(X))
    assert one.loss_ == other.loss_
    order = np.concatenate([np.flatnonzero(names[one.prototype_labels_] == c) for c in "amz"])
    assert np.array_equal(one.prototypes_[order], other.prototypes_)
    if isinstance(one, LOCAL):
        matrices = [2, 0, 1] if one.metric_per == "class" else order
        assert np.array_equal(one.omegas_[matrices], other.omegas_)


@configured
def test_units_do_not_matter(name: str):
    X, y = data()
    spread = getattr(CONFIGURATIONS[name], "spread", None)
    changed = {} if spread is None else {"spread": 64.0 * spread}
    one, other = model(name).fit(X, y), model(name, **changed).fit(8.0 * X, y)
    assert np.array_equal(8.0 * one.prototypes_, other.prototypes_)
    assert np.array_equal(one.predict(X), other.predict(8.0 * X))
    assert np.array_equal(64.0 * one.decision_function(X), other.decision_function(8.0 * X))


@pytest.mark.parametrize("cls", [GLVQ, GMLVQ, LGMLVQ, RSLVQ, MRSLVQ, LMRSLVQ])
def test_a_rotation_of_the_features_rotates_the_model(cls: type):
    X, y = data()
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    problem = training_of(cls(), X, y, np.ones(len(X)))
    turned = replace(problem.rows, x=problem.rows.x @ rotation.T)
    other = cls()._training(turned, problem.prototypes @ rotation.T, problem.owner)
    one, two = problem.minimised(12, 0.0), other.minimised(12, 0.0)
    assert two.fun == pytest.approx(one.fun, rel=1e-7)
    (places, raw), (moved, other_raw) = problem.split(one.x), other.split(two.x)
    assert np.allclose(moved, places @ rotation.T, atol=1e-5)
    if raw.size:
        omega, turned_omega = unit_trace(raw)[0], unit_trace(other_raw)[0]
        assert np.allclose(turned_omega, rotation @ omega @ rotation.T, atol=1e-5)


@pytest.mark.parametrize("name", [cls.__name__ for cls in ALL])
def test_the_same_seed_gives_the_same_bits(name: str):
    X, y = data()
    assert_same(model(name).fit(X, y), model(name).fit(X, y))
    assert_same(model(name).fit(X, y), model(name).fit(np.asfortranarray(X), y.tolist()))
    seeded = model(name, random_state=np.random.RandomState(0))
    assert_same(model(name).fit(X, y), seeded.fit(X, y))


def assert_same(one: Any, other: Any) -> None:
    assert one.loss_ == other.loss_
    assert one.n_iter_ == other.n_iter_
    assert np.array_equal(one.prototypes_, other.prototypes_)
    for name in ("omega_", "omegas_", "relevances_", "spread_"):
        assert np.array_equal(getattr(one, name, 0), getattr(other, name, 0))


# Solutions that are known


@pytest.mark.parametrize("cls", [RSLVQ, MRSLVQ], ids=lambda cls: cls.__name__)
def test_one_prototype_a_class_is_logistic_regression(cls: type):
    X, y = data()
    free = {} if cls is RSLVQ else {"regularization": 0.0}
    fitted = cls(anchor=0.0, tol=1e-12, random_state=0, **free).fit(X, y)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(X, y)
    assert np.allclose(fitted.predict_proba(X), peer.predict_proba(X), atol=1e-3)


def test_two_balls_are_told_apart_in_the_middle():
    X = np.random.default_rng(0).normal(size=(400, 2))
    X, y = np.vstack([X - [3.0, 0.0], [3.0, 0.0] - X]), np.repeat([0, 1], 400)
    for cls in ALL:
        fitted = cls(random_state=0).fit(X, y)
        line = np.column_stack([np.linspace(-2, 2, 41), np.zeros(41)])
        wrong = fitted.predict(line) != (line[:, 0] > 0)
        assert np.abs(line[wrong, 0]).max(initial=0.0) <= 0.5, cls.__name__


def test_relevances_find_the_features_that_matter():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    y = X[:, 1] + X[:, 3] > 0
    fitted = GRLVQ(random_state=0).fit(X, y)
    assert set(np.argsort(fitted.relevances_)[-2:]) == {1, 3}
    direction = GMLVQ(rank=1, random_state=0).fit(X, y).omega_[0]
    assert np.abs(direction @ [0, 1, 0, 1, 0]) / np.sqrt(2.0) > 0.99


def test_the_start_is_as_good_as_that_of_k_means():
    X, _ = make_blobs(300, 3, centers=5, cluster_std=0.5, random_state=0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    found = centres(X, weight, 5, np.random.RandomState(0))
    peer = KMeans(5, n_init=10, random_state=0).fit(X, sample_weight=weight).cluster_centers_
    order, theirs = (c[np.lexsort(c.T)] for c in (found, peer))
    assert np.allclose(order, theirs, atol=1e-6)


# Data as they come


@every
@pytest.mark.parametrize("labels", [[3, -1], ["no", "yes"], [False, True], [1.0, 2.0]])
def test_labels_are_of_any_kind(cls: type, labels: list[Any]):
    X, y = data()
    named = np.array(labels)[(y > 0).astype(int)]
    fitted = cls(2, random_state=0).fit(X, named)
    assert set(fitted.predict(X).tolist()) == set(labels)
    assert fitted.predict(X).dtype == named.dtype
    assert fitted.score(X, named) > 0.6


@every
def test_constant_columns_and_repeated_rows_are_taken(cls: type):
    X, y = data()
    X = np.column_stack([X, np.full(len(X), 7.0)])
    fitted = cls(2, random_state=0).fit(np.vstack([X] * 3), np.tile(y, 3))
    assert np.allclose(fitted.prototypes_[:, 4], 7.0)
    assert fitted.score(X, y) > 0.5


@every
def test_points_of_both_classes_are_taken(cls: type):
    X, y = np.zeros((6, 2)), np.arange(6) % 2
    fitted = cls(random_state=0).fit(X, y)
    assert np.isfinite(fitted.decision_function(X)).all()
    X = np.repeat(np.arange(8.0).reshape(4, 2), 2, axis=0)
    fitted = cls(2, random_state=0).fit(X, np.arange(8) % 2)
    assert np.isfinite(fitted.decision_function(X)).all()


@every
def test_rows_that_differ_by_less_than_rounding_are_taken(cls: type):
    X = np.array([[0.0], [1e-30], [1.0], [2.0], [1e10]])
    fitted = cls(2, random_state=0).fit(X, [0, 0, 1, 1, 1])
    assert np.isfinite(fitted.decision_function(X)).all()


@every
def test_a_class_may_have_as_many_prototypes_as_distinct_rows(cls: type):
    X, y = np.arange(12.0).reshape(6, 2), [0, 0, 0, 1, 1, 1]
    fitted = cls(3, random_state=0).fit(X, y)
    assert np.array_equal(fitted.predict(X), y)
    with pytest.raises(InvalidInput, match=r"at least 3 distinct rows of class 0, .* got 2: lower"):
        cls(3).fit(X[[0, 0, 1, 3, 4, 5]], y)


@pytest.mark.parametrize("counts", [[1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), {2: 3, 0: 1, 1: 2}])
def test_each_class_has_its_own_number_of_prototypes(counts: Any):
    X, y = data()
    assert GLVQ(counts).fit(X, y).prototype_labels_.tolist() == [0, 1, 1, 2, 2, 2]


# What cannot be


BAD: list[tuple[type, dict[str, Any], str]] = [
    (GLVQ, {"prototypes_per_class": 0}, "whole number of at least 1, .* got 0"),
    (GLVQ, {"prototypes_per_class": "two"}, "got 'two'"),
    (GLVQ, {"prototypes_per_class": True}, "got True"),
    (GLVQ, {"prototypes_per_class": [1, 2]}, r"each of the classes \[0, 1, 2\], .* got \[1, 2\]"),
    (GLVQ, {"prototypes_per_class": {0: 1, 2: 1}}, r"classes \[0, 1, 2\], .* \{0: 1, 2: 1\}"),
    (
        GLVQ,
        {"transfer": "relu"},
        r"'transfer' .* of GLVQ must be a str among \{'identity', 'sigmoid'\}. Got 'relu' instead",
    ),
    (
        GRLVQ,
        {"steepness": 0},
        r"'steepness' parameter of GRLVQ must be a float in the range \(0.0, inf\). Got 0 instead",
    ),
    (GRLVQ, {"steepness": np.nan}, "Got nan"),
    (
        GMLVQ,
        {"rank": 0},
        r"'rank' parameter of GMLVQ must be an int in the range \[1, inf\) or None. Got 0 instead",
    ),
    (GMLVQ, {"rank": 5}, "rank to be at most the number of features, 4; got 5: lower it"),
    (GMLVQ, {"regularization": -1}, r"'regularization' .* float in the range \[0.0, inf\). Got -1"),
    (
        GMLVQ,
        {"regularization": True},
        "'regularization' .* must be a number .*, and not a boolean. Got True",
    ),
    (
        LGMLVQ,
        {"metric_per": "row"},
        r"'metric_per' .* str among \{'prototype', 'class'\}. Got 'row'",
    ),
    (RSLVQ, {"spread": 0.0}, r"'spread' .* float in the range \(0.0, inf\) or None. Got 0.0"),
    (MRSLVQ, {"anchor": -0.1}, r"'anchor' .* float in the range \[0.0, inf\). Got -0.1"),
    (LMRSLVQ, {"max_iter": 1.5}, r"'max_iter' .* int in the range \[1, inf\). Got 1.5"),
    (LMRSLVQ, {"tol": "low"}, r"'tol' .* float in the range \[0.0, inf\). Got 'low'"),
    (LMRSLVQ, {"tol": np.inf}, r"'tol' .* float in the range \[0.0, inf\). Got inf"),
    (LMRSLVQ, {"anchor": 10**400}, "'anchor' .* must be a number that float64 can hold"),
    (LMRSLVQ, {"random_state": "any"}, "'random_state' .* Got 'any'"),
]


@pytest.mark.parametrize(("cls", "parameters", "message"), BAD)
def test_a_parameter_that_cannot_be_is_refused(cls: type, parameters: Any, message: str):
    with pytest.raises(InvalidInput, match=message):
        cls(**parameters).fit(*data())


@every
def test_rows_that_cannot_be_learned_from_are_refused(cls: type):
    X, y = data()
    with pytest.raises(InvalidInput, match="at least two classes; got one class, 1: pass"):
        cls().fit(X[y == 1], y[y == 1])
    with pytest.raises(InvalidInput, match="one class, 2"):
        cls().fit(X, y, sample_weight=y == 2)
    with pytest.raises(InvalidInput, match="non-negative; got -1: pass 0"):
        cls().fit(X, y, sample_weight=np.full(len(X), -1.0))
    with pytest.raises(InvalidInput, match="every row is zero: pass 1"):
        cls().fit(X, y, sample_weight=np.zeros(len(X)))
    with pytest.raises(InvalidInput, match=r"each of 90 rows, and its shape is \(3,\): pass"):
        cls().fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="NaN"):
        cls().fit(np.full_like(X, np.nan), y)


def test_training_that_is_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match="max_iter=2 iterations .* raise one of them"):
        GMLVQ(2, max_iter=2, random_state=0).fit(*data())


# Public numbers: mean accuracy over four folds, 3 prototypes a class

HOUSES = [
    *("Total Bsmt SF", "1st Flr SF", "2nd Flr SF", "Gr Liv Area", "Wood Deck SF"),
    *("Open Porch SF", "3Ssn Porch", "Screen Porch", "Pool Area"),
]


def folds(X: np.ndarray, y: np.ndarray, *steps: Any) -> Iterator[tuple[np.ndarray, ...]]:
    for train_rows, test_rows in KFold(4, shuffle=True, random_state=42).split(X):
        before = make_pipeline(*map(clone, steps), StandardScaler()).fit(X[train_rows])
        yield (
            before.transform(X[train_rows]),
            y[train_rows],
            before.transform(X[test_rows]),
            y[test_rows],
        )


def accuracy(cls: type, parts: list[tuple[np.ndarray, ...]]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        scores = [cls(3, random_state=0).fit(X, y).score(A, b) for X, y, A, b in parts]
    return float(np.mean(scores))


def assert_reached(parts: list[tuple[np.ndarray, ...]], goals: dict[type, float]) -> None:
    for cls, goal in goals.items():
        assert accuracy(cls, parts) >= goal, cls.__name__


def test_it_is_as_accurate_as_public_packages_on_breast_cancer():
    parts = list(folds(*load_breast_cancer(return_X_y=True), PCA(5)))
    assert_reached(parts, {GLVQ: 0.940, GMLVQ: 0.953, LGMLVQ: 0.956})
    assert_reached(parts, dict.fromkeys((GRLVQ, *LIKELIHOOD), 0.940))


@pytest.mark.slow
def test_it_is_as_accurate_as_public_packages_on_digits():
    parts = list(folds(*load_digits(return_X_y=True), PCA(10)))
    assert_reached(parts, {GLVQ: 0.923, GMLVQ: 0.939, LGMLVQ: 0.963, GRLVQ: 0.93, RSLVQ: 0.923})


def test_it_is_as_accurate_as_public_packages_on_iris_and_wine():
    assert_reached(list(folds(*load_iris(return_X_y=True))), dict.fromkeys(ALL, 0.945))
    assert_reached(list(folds(*load_wine(return_X_y=True))), dict.fromkeys(ALL, 0.940))


def test_it_is_as_accurate_as_public_packages_on_houses(ames: pd.DataFrame):
    X = ames[HOUSES].fillna(0.0)
    y = (ames["SalePrice"] >= 160_000).to_numpy()
    parts = list(folds(X.to_numpy(float), y))
    assert_reached(parts, {GLVQ: 0.831, GMLVQ: 0.834, LGMLVQ: 0.855})
