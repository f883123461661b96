"""Pictures: what is drawn is what the path says, and words can be read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Annotation
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint.pictures import plots

WEIGHTS = np.geomspace(1e2, 1e-4, 60)


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    yield
    plt.close("all")


def tradeoffs(label: Any, weights: Any = WEIGHTS) -> list[cp.Target]:
    return [cp.Tradeoff(label, weight) for weight in weights]


@cache
def cancer(cost: type[cp.Cost] = cp.SquaredEuclidean) -> cp.Path:
    """Raw features through a scaler."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    weights = (1.0 / X.var()).to_dict() if cost is cp.SquaredEuclidean else cp.mad_weights(X)
    explainer = cp.Explainer(model, data=X, extrapolate=True, cost=cost(weights))
    return cp.trace(explainer, X[:2], tradeoffs(1))


def digits() -> cp.Path:
    X, y = load_digits(return_X_y=True, as_frame=True)
    model = make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=2000)).fit(X, y)
    features = [cp.Continuous(name) for name in X]
    explainer = cp.Explainer(model, features=features, cost=cp.SquaredEuclidean())
    return cp.trace(explainer, X[:1], tradeoffs(3, WEIGHTS / 100.0))


def credit(german: pd.DataFrame) -> cp.Path:
    """Numbers, whole numbers and categories."""
    X = german[["Age", "LoanDuration", "LoanAmount", "PurposeOfLoan", "HasGuarantor", "OwnsHouse"]]
    X = X.assign(LoanAmount=X["LoanAmount"].astype(float))
    rest = [name for name in X if name != "PurposeOfLoan"]
    before = ColumnTransformer(
        [("n", StandardScaler(), rest), ("w", OneHotEncoder(), ["PurposeOfLoan"])]
    )
    model = make_pipeline(before, LogisticRegression()).fit(X, german["GoodCustomer"])
    policy = [cp.Immutable("Age"), cp.WithinObserved()]
    explainer = cp.Explainer(model, data=X, extrapolate=True, constraints=policy)
    refused = X[model.predict(X) == -1]
    return cp.trace(explainer, refused[:1], tradeoffs(1, np.geomspace(3.0, 1e-3, 20)))


def lines(ax: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """All that is drawn as a line, but the zero line."""
    return [line.get_data() for line in ax.lines if line.get_linestyle() != "None"]


def words(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def named(ax: Any) -> list[str]:
    return [t.get_text() for t in ax.texts if isinstance(t, Annotation)]


def boxes(ax: Any) -> np.ndarray:
    """(w, 2, 2) where words stand, in pixels."""
    ax.figure.canvas.draw()
    texts = [plt.Text.get_window_extent(text) for text in ax.texts]
    return np.array([[[b.x0, b.y0], [b.x1, b.y1]] for b in texts])


def assert_legible(figure: Any):
    """No words on other words, none outside the picture."""
    for ax in figure.axes:
        placed = boxes(ax)
        for i, a in enumerate(placed):
            for b in placed[:i]:
                assert not ((a[0] < b[1] - 0.5) & (b[0] < a[1] - 0.5)).all()
        if len(placed):
            assert (placed >= -1.0).all()
            assert (placed <= [figure.bbox.width + 1.0, figure.bbox.height + 1.0]).all()


def test_no_window_opens():
    assert mpl.get_backend().lower() == "agg"


def test_the_curve_is_the_probability_against_the_distance():
    path = cancer()
    figure = path.plot(row=1)
    left, right = figure.axes
    x, y = lines(left)[0]
    np.testing.assert_allclose(x, np.sqrt(path.cost[1]))
    np.testing.assert_allclose(y, path.probability[1])
    assert (left.get_xlabel(), left.get_ylabel()) == ("distance (√cost)", "probability of 1")
    assert right.get_xlabel() == left.get_xlabel()
    assert right.get_ylabel() == "change, in units of distance"
    assert_legible(figure)


def test_the_weights_are_marked_at_decades():
    path = cancer()
    left = path.plot().axes[0]
    dots = next(line for line in left.lines if line.get_linestyle() == "None")
    decades = 10.0 ** np.arange(2, -5, -1)
    nearest = np.abs(np.log(WEIGHTS) - np.log(decades[:, None])).argmin(axis=1)
    np.testing.assert_array_equal(dots.get_xdata(), np.sqrt(path.cost[0, nearest]))
    np.testing.assert_array_equal(dots.get_ydata(), path.probability[0, nearest])
    assert {"100", "1", "0.01", "0.0001", "● weight"} <= set(words(left))
    assert {float(said) for said in named(left)} <= {float(f"1e{k}") for k in range(-4, 3)}


def test_few_weights_are_all_marked():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    path = cp.trace(
        cp.Explainer(model, data=X, extrapolate=True), X[:1], tradeoffs(1, [0.05, 3.0, 0.4])
    )
    left = path.plot().axes[0]
    dots = next(line for line in left.lines if line.get_linestyle() == "None")
    np.testing.assert_array_equal(dots.get_xdata(), np.sort(path.cost[0]))
    assert set(named(left)) <= {"3", "0.4", "0.05"}


def test_decades_that_no_answer_is_near_stay_out():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    weights = [*np.geomspace(30.0, 2.0, 15), *np.geomspace(0.5, 0.1, 15)]
    path = cp.trace(cp.Explainer(model, data=X, extrapolate=True), X[:1], tradeoffs(1, weights))
    left = path.plot().axes[0]
    dots = next(line for line in left.lines if line.get_linestyle() == "None")
    assert len(dots.get_xdata()) == 2
    assert set(named(left)) <= {"10", "0.1"}


def test_the_features_that_move_most_are_named_at_their_ends():
    path = cancer()
    for count in (1, 8, 12):
        figure = path.plot(features=count)
        right = figure.axes[1]
        most = np.abs(path.moved[0]).max(axis=0)
        order = np.argsort(-most)[:count]
        drawn = lines(right)[1:]
        assert len(drawn) == count
        for (x, y), j in zip(drawn, order, strict=True):
            np.testing.assert_allclose(x, np.sqrt(path.cost[0]))
            np.testing.assert_allclose(y, path.moved[0, :, j])
        assert [said.split("  ")[0] for said in named(right)] == [
            path.features.names[j] for j in order
        ]
        looks = {(line.get_color(), line.get_linestyle()) for line in right.lines[1:]}
        assert len(looks) == count
        assert_legible(figure)
    worst = next(said for said in named(right) if said.startswith("worst area"))
    change = path.changes[0, -1, path.features.index("worst area")]
    assert worst == f"worst area  −{-change:,.0f}"


def test_another_cost_is_its_own_axis():
    figure = cancer(cp.Manhattan).plot()
    left, right = figure.axes
    assert left.get_xlabel() == right.get_xlabel() == "cost"
    assert right.get_ylabel() == "change, in units of cost"
    assert_legible(figure)


def test_many_classes():
    path = digits()
    figure = path.plot()
    assert figure.axes[0].get_ylabel() == "probability of 3"
    assert len(named(figure.axes[1])) == 8
    assert_legible(figure)


def test_whole_numbers_and_categories_move_in_steps(german: pd.DataFrame):
    path = credit(german)
    figure = path.plot()
    left, right = figure.axes
    steps = {
        said.split("  ")[0]: line.get_drawstyle()
        for said, line in zip(named(right), right.lines[1:], strict=True)
    }
    assert set(steps.values()) == {"steps-post"}
    assert "PurposeOfLoan" in steps
    said = next(said for said in named(right) if said.startswith("PurposeOfLoan"))
    old = path.answers[0][0].factual["PurposeOfLoan"]
    new = path.to_frame()["PurposeOfLoan"].iloc[-1]
    assert said == f"PurposeOfLoan  {old} → {new}"
    dots = next(line for line in left.lines if line.get_linestyle() == "None")
    assert set(dots.get_xdata()) <= set(path.cost[0])  # answers, and nothing between them
    assert_legible(figure)


@pytest.mark.parametrize(
    ("targets", "name"),
    [
        ([cp.Probability(1, p) for p in (0.2, 0.5, 0.9)], "probability of 1"),
        ([cp.Label(1, margin) for margin in (0.0, 1.0, 2.0)], "margin"),
        ([cp.Tradeoff(1, 0.3)], "probability of 1"),
    ],
)
def test_other_targets(targets: Any, name: str):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    path = cp.trace(cp.Explainer(model, data=X, extrapolate=True), X[:1], targets)
    figure = path.plot()
    x, values = lines(figure.axes[0])[0]
    np.testing.assert_allclose(x, path.cost[0])
    wanted = path.probability[0] if name.startswith("prob") else [t.margin for t in targets]
    np.testing.assert_allclose(values, wanted)
    assert figure.axes[0].get_ylabel() == name
    assert_legible(figure)


@pytest.mark.parametrize(("bound", "name"), [("low", "at least"), ("high", "at most")])
def test_intervals_end_where_they_are_dearest(bound: str, name: str):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(50, 3)), columns=list("abc"))
    model = LinearRegression().fit(X, X.to_numpy() @ [1.0, 2.0, -1.0])
    sign = 1.0 if bound == "low" else -1.0
    targets = [cp.Interval(**{bound: sign * v}) for v in (8.0, 5.0, 6.0)]
    path = cp.trace(cp.Explainer(model, data=X, extrapolate=True), X[:1], targets)
    left, _ = path.plot().axes
    x, y = lines(left)[0]
    assert (np.diff(x) > 0.0).all()
    np.testing.assert_array_equal(y, sign * np.array([5.0, 6.0, 8.0]))
    assert left.get_ylabel() == f"value, {name}"


def test_answers_that_are_missing_are_left_out():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=list("ab"))
    model = LinearRegression().fit(X, X.to_numpy() @ [1.0, 2.0])
    explainer = cp.Explainer(model, data=X, constraints=[cp.WithinObserved()])
    targets = [cp.Interval(low=v) for v in (2.0, 3.0, 1000.0)]
    path = cp.trace(explainer, X[:1], targets)
    assert path.found[0].tolist() == [True, True, False]
    assert len(lines(path.plot().axes[0])[0][0]) == 2


def test_nothing_changes():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=list("ab"))
    model = LogisticRegression().fit(X, X["a"] > 0)
    path = cp.trace(
        cp.Explainer(model, data=X, extrapolate=True),
        X[:1],
        [cp.Tradeoff(True, w) for w in (1e6, 1e5)],
    )
    assert words(path.plot().axes[1]) == ["nothing changes"]


def test_names_are_no_mathematics():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["$a_$b", "x^2 $\\$"])
    model = LogisticRegression().fit(X, np.where(X.sum(axis=1) > 0, "$\\yes$", "no"))
    path = cp.trace(cp.Explainer(model, data=X, extrapolate=True), X[:1], tradeoffs("$\\yes$"))
    figure = path.plot()
    assert figure.axes[0].get_ylabel() == "probability of $\\yes$"
    assert_legible(figure)


def test_axes_may_be_given():
    path = cancer()
    figure, both = plt.subplots(2, 1)
    assert path.plot(ax=both) is figure
    assert len(both[1].lines) == 9
    figure, one = plt.subplots()
    assert path.plot(ax=one) is figure
    assert len(figure.axes) == 1
    parts = plt.figure().subfigures(1, 2)
    whole = parts[1].figure
    assert path.plot(ax=parts[1].subplots(1, 2)) is whole


# Bad input


@pytest.mark.parametrize("features", [0, -1, 1.5, True, "all"])
def test_a_number_of_features_is_wanted(features: Any):
    with pytest.raises(cp.InvalidInput, match=r"Expected a number of features, at least 1; got"):
        cancer().plot(features=features)


@pytest.mark.parametrize("ax", ["left", [], [1, 2]])
def test_axes_are_wanted(ax: Any):
    with pytest.raises(cp.InvalidInput, match=r"Expected two matplotlib axes, one, or None; got"):
        cancer().plot(ax=ax)
    with pytest.raises(cp.InvalidInput, match=r"Expected two matplotlib axes"):
        cancer().plot(ax=plt.subplots(1, 3)[1])


def test_one_number_must_vary():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    explainer = cp.Explainer(model, data=X, extrapolate=True)
    for targets in ([0, 1], [cp.Tradeoff(0, 1.0), cp.Tradeoff(1, 1.0)]):
        path = cp.trace(explainer, X[:1], targets)
        with pytest.raises(cp.InvalidInput, match=r"Expected targets that differ in one number"):
            path.plot()
    with pytest.raises(IndexError):
        path.plot(row=1)
    lost = cp.trace(explainer, X[:1] * np.nan, tradeoffs(1))
    with pytest.raises(cp.NoAnswer, match=r"There is nothing to plot. invalid: column"):
        lost.plot()


# Heights of words


@pytest.mark.parametrize("seed", range(20))
def test_heights_keep_apart_and_in_order(seed: int):
    rng = np.random.default_rng(seed)
    ends = np.round(rng.random(rng.integers(1, 12)), 1)
    least = 0.07
    heights = plots._apart(ends, least)
    order = np.argsort(ends, kind="stable")
    assert (np.diff(heights[order]) >= least - 1e-12).all()
    assert (heights >= 0.0).all()
    assert (heights <= 1.0 + 1e-12).all()
    apart = np.diff(np.sort(ends), prepend=-1.0) >= least
    if apart.all():
        np.testing.assert_allclose(heights, ends, atol=1e-12)
