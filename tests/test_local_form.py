"""Prototypes with metrics of their own, and Gaussian classes: the form, and how models are read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import strategies as make
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint.errors import InvalidInput, ModelNotFitted, UnsupportedModel
from counterpoint.families.prototypes.form import LocalPrototypes, Prototypes
from counterpoint.families.prototypes.quadratic_difference import QuadraticDifference
from counterpoint.lvq import LGMLVQ, LMRSLVQ
from counterpoint.models import read, see_through
from counterpoint.models.form import AffineMap
from counterpoint.models.linear import LinearScores, Link
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.region import Region
from counterpoint.testing import check_reader

WORDS = np.array(["elm", "ash", "fir", "birch"])


# By hand


def distances(X: Any, prototypes: Any, matrices: Any, offsets: Any = None) -> np.ndarray:
    """(n, P) ‖Ω (y − p)‖² + b, one by one."""
    out = np.empty((len(X), len(prototypes)))
    for i, (p, omega) in enumerate(zip(prototypes, matrices, strict=True)):
        for row, y in enumerate(X):
            out[row, i] = ((np.asarray(omega) @ (y - p)) ** 2).sum()
    return out if offsets is None else out + offsets


def satisfied(region: Region, y: np.ndarray) -> bool:
    """Whether y is in the region, ties decided; without any tolerance, so only for exact values."""
    for condition in region:
        if isinstance(condition, QuadraticDifference):
            short, lost = condition.excess(y[None]), np.array([condition.tie_coefficient])
        else:
            assert isinstance(condition, LinearBounds)
            short, lost = condition.matrix @ y - condition.high, condition.tie_coefficient
        if (short > 0.0).any() or ((short == 0.0) & (lost > 0.0)).any():
            return False
    return True


@st.composite
def whole(draw: Any) -> tuple[Any, ...]:
    """Models of small whole numbers, in which everything is exact and ties abound."""
    rng = np.random.default_rng(draw(make.seeds))
    d, classes = draw(st.integers(1, 3)), draw(st.integers(2, 3))
    labels = WORDS[rng.permutation(np.repeat(np.arange(classes), rng.integers(1, 4, classes)))]
    count = len(labels)
    different = rng.integers(-2, 3, size=(draw(st.integers(1, 3)), draw(st.integers(1, 3)), d))
    different[0, 0, 0] = 1
    matrices = different[rng.integers(len(different), size=count)]
    matrices[0] = different[0]
    points, offsets = rng.integers(-2, 3, size=(count, d)), rng.integers(0, 3, size=count)
    return points, labels, matrices.astype(float), offsets


@settings(max_examples=150)
@given(parts=whole(), seed=make.seeds, margin=st.sampled_from([0.0, 0.0, 1.0, 2.0]))
def test_a_point_is_in_a_region_if_it_is_decided_so_ties_included(parts, seed: int, margin: float):
    points, labels, matrices, offsets = parts
    form = LocalPrototypes.from_arrays(points, labels, matrices, offsets)
    X = np.random.default_rng(seed).integers(-4, 5, size=(40, points.shape[1])).astype(float)
    away = distances(X, points, matrices, offsets)
    predicted = labels[away.argmin(axis=1)]
    np.testing.assert_array_equal(form.predict(X), predicted)
    classes = sorted(set(labels.tolist()))
    targets = [kind(label, margin) for label in classes for kind in (cp.Label, cp.OtherLabel)]
    for target in targets:
        wanted = np.isin(labels, target.labels) == isinstance(target, cp.Label)
        safety_margin = away[:, ~wanted].min(axis=1) - away[:, wanted].min(axis=1)
        expected = safety_margin >= margin if margin else wanted[away.argmin(axis=1)]
        regions = form.regions(target)
        found = [any(satisfied(region, y) for region in regions) for y in X]
        np.testing.assert_array_equal(found, expected, err_msg=repr(target))
        np.testing.assert_array_equal(form.margin(X, target), safety_margin - margin)


@settings(max_examples=25)
@given(seed=make.seeds, per_class=st.booleans(), scale=st.sampled_from([1.0, 1e-6, 1e4]))
def test_scores_are_distances_of_any_rank(seed: int, per_class: bool, scale: float):
    rng = np.random.default_rng(seed)
    labels = WORDS[[2, 0, 1, 0]]
    points, offsets = scale * rng.normal(size=(4, 3)), scale**2 * rng.normal(size=4)
    matrices = [rng.normal(size=(rank, 3)) for rank in (1, 3, 5, 2)]
    if per_class:  # ash elm fir
        matrices = matrices[:3]
    form = LocalPrototypes.from_arrays(
        points, labels, matrices, offsets, metric_per="class" if per_class else "prototype"
    )
    own = [matrices[{"ash": 0, "elm": 1, "fir": 2}[w]] for w in labels] if per_class else matrices
    X = scale * rng.normal(size=(30, 3)) * 10.0 ** rng.uniform(0, 5, size=(30, 1))
    away = distances(X, points, own, offsets)
    assert (np.abs(form.scores(X) + away).max(axis=1) <= form.noise(X)).all()
    assert (form.noise(X) <= 1e-11 * away.max(axis=1)).all()
    np.testing.assert_array_equal(form.predict(X), labels[away.argmin(axis=1)])


def test_relevances_are_the_diagonal():
    rng = np.random.default_rng(0)
    points, relevances = rng.normal(size=(3, 4)), rng.exponential(size=(3, 4))
    relevances[1, 2] = 0.0
    labels, X = WORDS[[0, 1, 2]], rng.normal(size=(50, 4))
    form = LocalPrototypes.from_arrays(points, labels, relevances)
    expected = ((X[:, None] - points) ** 2 * relevances).sum(axis=2)
    np.testing.assert_allclose(form.scores(X), -expected, rtol=1e-12)
    shared = LocalPrototypes.from_arrays(points, labels, relevances, metric_per="class")
    by_class = ((X[:, None] - points) ** 2 * relevances[[1, 0, 2]]).sum(axis=2)  # ash elm fir
    np.testing.assert_allclose(shared.scores(X), -by_class, rtol=1e-12)


def exact(values: np.ndarray) -> Any:
    return np.vectorize(Fraction, otypes=[object])(values)


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("spread", [1.0, 1e5])
def test_the_rounding_of_a_score_stays_within_its_bound(shift: float, spread: float):
    rng = np.random.default_rng(0)
    form = make.local(rng, 5, 3).through(AffineMap(rng.normal(size=(5, 7)), rng.normal(size=5)))
    X = shift + spread * rng.normal(size=(20, 7))
    images = [
        exact(X) @ exact(form.factors[m]).T + exact(f)
        for m, f in zip(form.metric, form.shifts, strict=True)
    ]
    true = -np.stack([(z * z).sum(axis=1) for z in images], axis=1) - exact(form.offsets)
    off = np.abs((exact(form.scores(X)) - true).astype(float)).max(axis=1)
    assert (2.0 * off <= form.noise(X)).all()  # a difference of two scores has both their errors
    assert (form.noise(X) <= 1e4 * off.max()).all()  # and is no idle bound


# Where metrics are shared


def same_points(first: tuple[Region, ...], second: tuple[Region, ...], X: np.ndarray) -> None:
    inside = [
        np.any([r.violation(X, X) == 0.0 for r in regions], axis=0) for regions in (first, second)
    ]
    np.testing.assert_array_equal(*inside)
    assert 0 < inside[0].sum() < len(X)


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e7])
def test_one_metric_for_all_is_linear(scale: float):
    rng = np.random.default_rng(1)
    points, labels = scale * rng.normal(size=(7, 3)), WORDS[[0, 1, 2, 0, 1, 2, 0]]
    omega, X = rng.normal(size=(2, 3)), scale * 3.0 * rng.normal(size=(500, 3))
    shapes = [omega, np.vstack([omega, 0 * omega])]
    form = LocalPrototypes.from_arrays(points, labels, [*shapes, *[omega] * 5])
    plain = Prototypes.from_arrays(points, labels, omega)
    assert len(form.factors) == 1
    np.testing.assert_array_equal(form.predict(X), plain.predict(X))
    for label in WORDS[:3]:
        regions = form.regions(cp.Label(label))
        assert {type(c) for region in regions for c in region} == {LinearBounds}
        same_points(regions, plain.regions(cp.Label(label)), X)
        np.testing.assert_allclose(
            form.margin(X, cp.Label(label)),
            plain.margin(X, cp.Label(label)),
            atol=1e-12 * scale**2,
        )


class Held:
    """A model that predicts as a form does."""

    def __init__(self, form: Any):
        self.form, self.classes_ = form, form.classes

    def predict(self, X):
        return self.form.predict(np.asarray(X, dtype=float))


@read.register(Held)
def _(model: Held) -> Any:
    return model.form


@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean()], ids=repr)
def test_one_metric_for_all_is_answered_as_such(cost: cp.Cost):
    rng = np.random.default_rng(0)
    points, labels, omega = rng.normal(size=(6, 3)), np.arange(6) % 3, rng.normal(size=(3, 3))
    X = 2.0 * rng.normal(size=(20, 3))
    forms = (
        LocalPrototypes.from_arrays(points, labels, [omega] * 6),
        Prototypes.from_arrays(points, labels, omega),
    )
    for label in range(3):
        ours, plain = (cp.Explainer(Held(f), cost=cost).explain(X, label) for f in forms)
        assert set(ours.status) == {cp.Status.OPTIMAL, cp.Status.ALREADY}
        np.testing.assert_allclose(ours.cost, plain.cost, rtol=1e-8, atol=1e-12)


def test_metrics_that_differ_a_little_are_not_taken_for_one():
    rng = np.random.default_rng(1)
    omega = rng.normal(size=(3, 3))
    for change in (1e-12, -1e-9):
        other = omega * (1.0 + change * np.eye(3)[1])
        form = LocalPrototypes.from_arrays(rng.normal(size=(2, 3)), [0, 1], [omega, other])
        assert len(form.factors) == 2
        (region,) = form.regions(cp.Label(1))
        assert region.condition_types == {QuadraticDifference}


def test_linear_and_quadratic_conditions_stand_side_by_side():
    rng = np.random.default_rng(2)
    points, labels = rng.normal(size=(4, 2)), np.array([0, 1, 2, 2])
    first, second = rng.normal(size=(2, 2, 2))
    form = LocalPrototypes.from_arrays(points, labels, [first, second, first, second])
    for region, own in zip(form.regions(cp.Label(2)), (first, second), strict=True):
        linear, nonlinear = region.conditions
        assert isinstance(linear, LinearBounds)
        assert isinstance(nonlinear, QuadraticDifference)
        assert len(linear.matrix) == 1
        np.testing.assert_array_equal(nonlinear.matrix, own)
        np.testing.assert_array_equal(nonlinear.rival, second if own is first else first)
        rates = (nonlinear.margin_coefficient, nonlinear.tie_coefficient)
        assert (*rates, *linear.margin_coefficient, *linear.tie_coefficient) == (
            1.0,
            1.0,
            1.0,
            1.0,
        )
    for region in form.regions(cp.Label(0)):
        nonlinear_rows = [c for c in region if isinstance(c, QuadraticDifference)]
        assert [c.tie_coefficient for c in nonlinear_rows] == [
            0.0,
            0.0,
        ]
    for region in form.regions(cp.Label(2, margin=0.5)):
        assert not any(
            np.any(c.tie_coefficient)
            for c in region
            if isinstance(c, LinearBounds | QuadraticDifference)
        )


# Ties, shadows, repetitions


def test_the_first_of_identical_prototypes_takes_the_place_through_any_map():
    rng = np.random.default_rng(0)
    points, omegas = rng.normal(size=(5, 4)), rng.normal(size=(5, 3, 4))
    twice = np.repeat(np.arange(5), 2)
    form = LocalPrototypes.from_arrays(points[twice], np.arange(10) % 2, omegas[twice])
    seen = make.seen_through(form, rng, 9)
    X = rng.normal(size=(500, 9))
    assert (seen.predict(X) == 0).all()
    assert (seen.margin(X, cp.Label(0)) == 0.0).all()
    assert (seen.margin(X, cp.Label(1)) == 0.0).all()
    assert len(seen.regions(cp.Label(0))) == 5
    for target in (cp.Label(1), cp.Label(0, margin=0.1), cp.Label(1, margin=0.1)):
        (nowhere,) = seen.regions(target)
        assert (nowhere.violation(X, X) > 0.0).all()


def test_an_offset_decides_between_identical_prototypes():
    points, omega = np.zeros((2, 2)), np.array([np.eye(2)] * 2)
    form = LocalPrototypes.from_arrays(points, ["dear", "cheap"], omega, [1.0, 0.25])
    X = np.random.default_rng(0).normal(size=(50, 2))
    assert (form.predict(X) == "cheap").all()
    np.testing.assert_allclose(form.margin(X, cp.Label("cheap", margin=0.5)), 0.25, rtol=1e-13)
    for margin in (0.0, 0.75):
        (everywhere,) = form.regions(cp.Label("cheap", margin=margin))
        assert (everywhere.violation(X, X) == 0.0).all()
        satisfied = cp.Explainer(Held(form), cost=cp.Manhattan()).explain(
            X, cp.Label("cheap", margin)
        )
        assert (satisfied.status == cp.Status.ALREADY).all()
    for target in (cp.Label("cheap", margin=0.76), cp.Label("dear")):
        (nowhere,) = form.regions(target)
        assert (nowhere.violation(X, X) > 0.0).all()
        missed = cp.Explainer(Held(form), cost=cp.Manhattan()).explain(X, target)
        assert (missed.status == cp.Status.INFEASIBLE).all()


def test_repetitions_within_a_class_change_nothing():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(4, 3)), np.array([0, 1, 2, 0])
    omegas = rng.normal(size=(4, 2, 3)) * [1.0, 1.0, 0.0]  # no metric looks at the last column
    once = LocalPrototypes.from_arrays(points, labels, omegas, np.arange(4.0))
    again = LocalPrototypes.from_arrays(
        np.concatenate([points + np.eye(3)[2], points]),
        np.tile(labels, 2),
        np.concatenate([omegas, omegas]),
        np.concatenate([np.arange(4.0) + 1.0, np.arange(4.0)]),
    )
    X = rng.normal(size=(100, 3))
    np.testing.assert_array_equal(once.scores(X), again.scores(X))
    assert [len(form.regions(cp.Label(0))) for form in (once, again)] == [2, 2]


# Gaussians


def spread(
    classes: int, d: int = 4, n: int = 60, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Classes that are stretched each in its own way."""
    rng = np.random.default_rng(classes)
    parts = [rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) for _ in range(classes)]
    X = np.concatenate([part + 3.0 * rng.normal(size=d) for part in parts])
    return scale * X, np.repeat(WORDS[:classes], n)


def probes(X: np.ndarray, n: int = 600) -> np.ndarray:
    """The rows and points far from them."""
    rng = np.random.default_rng(0)
    far = X.std(axis=0) * rng.normal(size=(n, X.shape[1])) * 10.0 ** rng.uniform(0, 4, size=(n, 1))
    return np.concatenate([X, X.mean(axis=0) + far])


def described(X: np.ndarray) -> cp.Features:
    return cp.Features(cp.Continuous(f"x{j}") for j in range(X.shape[1]))


def quadratic(**parameters: Any) -> QuadraticDiscriminantAnalysis:
    model = QuadraticDiscriminantAnalysis()
    known = set(parameters) <= set(model.get_params())
    return [model.set_params(**parameters)] if known else []


GAUSSIANS = [
    *quadratic(),
    *quadratic(reg_param=0.2, store_covariance=True),
    *quadratic(solver="eigen"),
    *quadratic(solver="eigen", shrinkage=0.3),
    *quadratic(solver="eigen", shrinkage="auto"),
    GaussianNB(),
    GaussianNB(var_smoothing=0.1),
]


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("model", GAUSSIANS, ids=repr)
def test_gaussian_scores_are_the_models_own(model: Any, classes: int, scale: float):
    X, y = spread(classes, scale=scale)
    y[:9] = WORDS[classes - 1]  # classes of different sizes
    finer = {} if isinstance(model, GaussianNB) else {"tol": 1e-12}  # than narrow classes
    model = clone(model).set_params(**finer).fit(X, y)
    rows = probes(X)
    form = read(model)
    assert isinstance(form, LocalPrototypes)
    assert form.classes.tolist() == model.classes_.tolist() == [form.classes[o] for o in form.owner]
    scores = form.scores(rows)
    if isinstance(model, GaussianNB):
        own = model.predict_joint_log_proba(rows) + 0.5 * X.shape[1] * np.log(2.0 * np.pi)
    else:
        own = model.decision_function(rows)
        scores = scores[:, 1] - scores[:, 0] if classes == 2 else scores
    off = np.abs(scores - own).reshape(len(rows), -1).max(axis=1)
    assert (off <= form.noise(rows)).all()
    check_reader(model, rows, features=described(X))
    np.testing.assert_array_equal(form.predict(rows), model.predict(rows))


@pytest.mark.parametrize("model", [QuadraticDiscriminantAnalysis(), GaussianNB()], ids=repr)
@pytest.mark.parametrize("priors", [[0.2, 0.8], [0.999, 0.001]])
def test_priors_and_the_probability_of_one_of_two_classes(model: Any, priors: list[float]):
    X, y = spread(2)
    model = model.set_params(priors=priors).fit(X, y)
    form, rows = read(model), probes(X)
    clear = np.abs(form.scores(rows) @ [1.0, -1.0]) < 12.0  # where a probability says something
    for column, label in enumerate(model.classes_):
        probability = model.predict_proba(rows)[:, column]
        for p in (0.01, 0.5, 0.7, 0.999):
            target = cp.Probability(label, p)
            (region,) = form.regions(target)
            assert region.condition_types == {QuadraticDifference}
            inside, margin = region.violation(rows, rows) == 0.0, form.margin(rows, target)
            np.testing.assert_array_equal(inside, probability >= p)
            np.testing.assert_array_equal(margin >= 0.0, probability >= p)
            with np.errstate(divide="ignore"):
                odds = np.log(probability / (1.0 - probability)) - np.log(p / (1.0 - p))
            np.testing.assert_allclose(margin[clear], odds[clear], atol=1e-8)
            assert [c.tie_coefficient for c in region] == [0.0]


def test_probabilities_are_claimed_where_a_region_gives_them():
    two, three = (read(QuadraticDiscriminantAnalysis().fit(*spread(k))) for k in (2, 3))
    prototypes = LocalPrototypes.from_arrays([[0.0], [1.0]], ["ash", "elm"], [[[1.0]], [[2.0]]])
    for target in (cp.Probability("ash", 0.9), cp.Tradeoff("ash", 1.0)):
        with pytest.raises(InvalidInput, match=f"{type(target).__name__} needs class probabilit"):
            prototypes.regions(target)
    for form in (two, three):
        with pytest.raises(InvalidInput, match=r"whose −log is convex; .* Use Probability, or"):
            form.margin(np.zeros((1, 4)), cp.Tradeoff("ash", 1.0))
        with pytest.raises(InvalidInput, match="Expected a target among the classes"):
            form.regions(cp.Probability("oak", 0.9))
        with pytest.raises(InvalidInput, match="Label, OtherLabel or Probability"):
            form.regions(cp.Interval(low=0.0))
    with pytest.raises(InvalidInput, match=r"read for two classes .*margin=2\.8904\)"):
        three.regions(cp.Probability("ash", 0.9))


def test_the_margin_that_is_named_instead_of_a_probability_gives_it():
    X, y = spread(4)
    model = GaussianNB().fit(X, y)
    form, rows = read(model), probes(X)
    for label, p in [("elm", 0.9), ("fir", 0.01)]:
        with pytest.raises(InvalidInput) as caught:
            form.regions(cp.Probability(label, p))
        margin = float(str(caught.value).split("margin=")[1].split(")")[0])
        inside = form.margin(rows, cp.Label(label, margin=margin)) >= 0.0
        assert inside.any()
        column = model.classes_.tolist().index(label)
        assert (model.predict_proba(rows)[inside, column] >= p).all()


def test_equal_variances_stay_linear():
    X, y = spread(3)
    model = GaussianNB().fit(X, y)
    model.var_ = np.tile(model.var_.mean(axis=0), (3, 1))
    assert isinstance(read(model), LinearScores)
    model.var_[0, 1] *= 1.01
    assert isinstance(read(model), LocalPrototypes)
    check_reader(model, probes(X), features=described(X))


# Learning vector quantisation


OWN = [
    LGMLVQ(2, random_state=0, max_iter=20, tol=1e-2),
    LGMLVQ(2, metric_per="class", rank=2, random_state=0, max_iter=20, tol=1e-2),
    LMRSLVQ({"elm": 1, "ash": 3, "fir": 2}, random_state=0, max_iter=20, tol=1e-2),
    LMRSLVQ(1, metric_per="class", random_state=0, max_iter=20, tol=1e-2),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", OWN, ids=repr)
def test_own_estimators_are_read_as_they_are(model: Any):
    X, y = spread(3)
    model.fit(X, y)
    rows = probes(X)
    form = read(model)
    assert isinstance(form, LocalPrototypes)
    away = model._distances(rows)
    assert (np.abs(form.scores(rows) + away).max(axis=1) <= form.noise(rows)).all()
    check_reader(model, rows, features=described(X))
    np.testing.assert_array_equal(form.predict(rows), model.predict(rows))


class Local(ClassifierMixin, BaseEstimator):
    """A stand-in for models of other packages: a random metric for each prototype or class."""

    def __init__(self, per_class: int = 2, *, shared: bool = False):
        self.per_class = per_class
        self.shared = shared

    def fit(self, X, y):
        X, rng = np.asarray(X, dtype=float), np.random.default_rng(0)
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        chosen = [rng.choice(np.flatnonzero(y == c), self.per_class) for c in self.classes_]
        count = len(self.classes_) * (1 if self.shared else self.per_class)
        ranks = 1 + np.arange(count) % self.n_features_in_ if self.ranks else [X.shape[1]] * count
        omegas = [rng.normal(size=(rank, X.shape[1])) for rank in ranks]
        owner = np.repeat(np.arange(len(self.classes_)), self.per_class)
        self.hold(X[np.concatenate(chosen)], owner, omegas)
        self.parts = X[np.concatenate(chosen)], owner, omegas
        return self

    def predict(self, X):
        points, owner, omegas = self.parts
        own = [omegas[c if self.shared else i] for i, c in enumerate(owner)]
        away = distances(np.asarray(X, dtype=float), points, own)
        return self.classes_[owner[away.argmin(axis=1)]]


class LgmlvqModel(Local):
    __module__ = "sklearn_lvq.lgmlvq"
    ranks = True

    def hold(self, points, owner, omegas):
        self.w_, self.c_w_, self.omegas_ = points, self.classes_[owner], omegas


LmrslvqModel = type("LmrslvqModel", (LgmlvqModel,), {"__module__": "sklearn_lvq.lmrslvq"})


class Sklvq(Local):
    __module__ = "sklvq.models._lgmlvq"
    ranks = False
    distance_type = "local-adaptive-squared-euclidean"
    force_all_finite = True

    def hold(self, points, owner, omegas):
        self.prototypes_, self.prototypes_labels_, self.omega_ = points, owner, np.array(omegas)

    @property
    def relevance_localization(self):
        return "class" if self.shared else "prototypes"


OfSklvq = type("LGMLVQ", (Sklvq,), {"__module__": "sklvq.models._lgmlvq"})


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("per_class", [1, 2])
@pytest.mark.parametrize("kind", [LgmlvqModel, LmrslvqModel, OfSklvq])
def test_models_of_other_packages_are_known_by_their_names(kind: type, per_class: int, shared):
    X, y = spread(3)
    model = kind(per_class, shared=shared).fit(X, y)
    assert isinstance(read(model), LocalPrototypes)
    check_reader(model, probes(X, 100), features=described(X))
    piped = make_pipeline(StandardScaler(), kind(per_class, shared=shared)).fit(X, y)
    check_reader(piped, probes(X, 100), features=described(X))


# Through pipelines


MODELS = [
    QuadraticDiscriminantAnalysis(),
    GaussianNB(),
    LGMLVQ(1, random_state=0, max_iter=20, tol=1e-2),
]
quietly = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@quietly
@pytest.mark.parametrize("before", [(PCA(3),), (StandardScaler(), PCA(2, whiten=True))], ids=str)
@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_scalers_and_projections_are_seen_through(model: Any, load: Any, before: Any):
    X, y = load(return_X_y=True)
    fit = make_pipeline(*before, model).fit(X, y)
    form = see_through(fit, described(X), fixed=True).form
    assert isinstance(form, LocalPrototypes)
    assert form.width == X.shape[1]
    check_reader(fit, probes(X), features=described(X))
    np.testing.assert_array_equal(form.predict(X), fit.predict(X))


@quietly
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_whole_numbers_and_categories_are_seen_through(model: Any):
    rng = np.random.default_rng(1)
    data = pd.DataFrame(
        {
            "income": rng.normal(30_000.0, 8_000.0, 200),
            "age": rng.integers(18, 70, 200),
            "home": rng.choice(["own", "rent", "free"], 200),
        }
    )
    value = data["income"] / 8_000 + data["age"] / 20 + 2.0 * (data["home"] == "own")
    before = make_column_transformer(
        (StandardScaler(), ["income", "age"]),
        (OneHotEncoder(sparse_output=False, drop="first"), ["home"]),
    )
    labels = np.array(["low", "middle", "high"])[np.digitize(value, [5.8, 7.2])]
    fit = make_pipeline(before, model).fit(data, labels)
    check_reader(fit, data)
    reading = see_through(fit, cp.Features.from_data(data), fixed=False)
    assert isinstance(reading.form, LocalPrototypes)
    assert len(reading.form.regions(cp.Label("low"))) == 1


# What cannot be


ONE = np.eye(2)[None]
WRONG = [
    (([[0.0], [1.0]], ["a", "a"], [[[1.0]]] * 2), "two classes or more; got \\['a'\\] alone"),
    (([0.0, 1.0], ["a", "b"], ONE), "prototypes of shape"),
    (([[0.0, 1.0]], ["a", "b"], ONE), "and P labels"),
    (([[0.0, 0.0]] * 2, ["a", "b"], ONE), r"Expected 2 matrices of shape \(k, 2\), one for each p"),
    (([[0.0, 0.0]] * 2, ["a", "b"], np.ones((2, 2, 3))), r"got 2 of shape \(2, 3\)"),
    (([[0.0, 0.0]] * 2, ["a", "b"], [np.eye(2), np.ones(2)]), r"got 2 of shape \(2,\) and \(2, 2"),
    (([[0.0, 0.0]] * 2, ["a", "b"], 3.0), "Expected 2 matrices"),
    (([[0.0, 0.0]] * 2, ["a", "b"], [[1.0, 2.0], [1.0, -0.5]]), "at least 0; got -0.5"),
    (([[0.0, 0.0]] * 2, ["a", "b"], np.zeros((2, 1, 2))), "some column counts; got zeros alone"),
    (([[0.0, np.nan]] * 2, ["a", "b"], np.ones((2, 2))), "Expected finite prototypes"),
    (([[0.0, 0.0]] * 2, ["a", "b"], np.ones((2, 2)), [0.0]), r"Expected 2 finite offsets; got \[0"),
    (([[0.0, 0.0]] * 2, ["a", "b"], np.ones((2, 2)), [0.0, np.inf]), "Expected 2 finite offsets"),
]


@pytest.mark.parametrize(("parts", "sentence"), WRONG, ids=[s for _, s in WRONG])
def test_parts_that_do_not_fit_are_named(parts: Any, sentence: str):
    with pytest.raises(InvalidInput, match=sentence):
        LocalPrototypes.from_arrays(*parts)


def test_options_that_do_not_fit_are_named():
    points, labels, omegas = np.arange(6.0).reshape(3, 2), ["a", "b", "b"], np.ones((3, 1, 2))
    with pytest.raises(InvalidInput, match="for 3 prototypes of 2 classes"):
        LocalPrototypes.from_arrays(points, labels, omegas, link=Link.SOFTMAX)
    with pytest.raises(InvalidInput, match=r"Expected Link\.NONE, or Link.SOFTMAX"):
        LocalPrototypes.from_arrays(points[:2], labels[:2], omegas[:2], link=Link.CLIPPED)
    with pytest.raises(InvalidInput, match=r"Expected 2 matrices of .* one for each class"):
        LocalPrototypes.from_arrays(points, labels, omegas, metric_per="class")
    with pytest.raises(InvalidInput, match="'prototype' or 'class'; got 'row'"):
        LocalPrototypes.from_arrays(points, labels, omegas, metric_per="row")  # type: ignore[arg-type]


def altered(model: Any, **parts: Any) -> Any:
    model.fit(*spread(2))
    vars(model).update(parts)
    return model


FLAT = [np.array([2.0, 1.0, 0.5, 0.0]), np.ones(4)]
REFUSED = [
    (lambda: altered(QuadraticDiscriminantAnalysis(), scalings_=FLAT), "direction of the class 'a"),
    (lambda: altered(QuadraticDiscriminantAnalysis(), scalings_=FLAT[::-1]), "of the class 'elm'"),
    (
        lambda: altered(QuadraticDiscriminantAnalysis(), scalings_=[np.full(4, np.nan), FLAT[1]]),
        "larger reg_param",
    ),
    (lambda: altered(QuadraticDiscriminantAnalysis(priors=[1, 0])), "prior 0.0 for the class 'elm"),
    (lambda: altered(GaussianNB(priors=[0, 1])), "GaussianNB has the prior 0.0 for the class 'ash"),
    (
        lambda: altered(GaussianNB(), var_=np.array([[1.0, 1, 1, 0], [1, 1, 1, 1]])),
        "one value alone of its input 3 .* var_smoothing above 0",
    ),
    (lambda: altered(OfSklvq(), force_all_finite="allow-nan"), "Use distance_type='local-adaptive"),
]


@pytest.mark.parametrize(("make_model", "sentence"), REFUSED, ids=[s for _, s in REFUSED])
def test_what_cannot_be_read_is_refused_with_a_sentence(make_model: Any, sentence: str):
    with pytest.raises(UnsupportedModel, match=sentence):
        see_through(make_model(), None, fixed=False)


def test_a_model_that_was_not_fitted_is_named():
    models = [LGMLVQ(), LMRSLVQ(), LgmlvqModel(), LmrslvqModel(), OfSklvq(), GaussianNB()]
    for model in [*models, QuadraticDiscriminantAnalysis()]:
        with pytest.raises(ModelNotFitted, match="has not been fitted"):
            see_through(model, cp.Features([cp.Continuous("a")]), fixed=False)
