"""Whole steps that are no binary fractions: every number x + k · step is in its own piece.

The oracle is the model's own `predict` on all numbers of the lattice.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.numerics import STEP_SLACK
from counterpoint.rows import lattice

STEPS = [1.0, 0.25, 0.1, 0.01, 1 / 3, 0.3]


def quietly(model, data, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data, y)


@pytest.mark.parametrize("step", STEPS)
def test_the_first_and_the_last_number_between_two_ends(step):
    rng = np.random.default_rng(0)
    x = rng.choice([0.0, 1.7, -3.2, 1e5, 1e9], size=2000) + step * rng.integers(0, 9, size=2000)
    near = lattice.number(x, rng.integers(-50, 50, size=2000).astype(float), step)
    low = near + rng.integers(-2, 3, size=2000) * np.spacing(near)  # at a number, and beside it
    high = low + rng.choice([0.0, 1.0, 3.0]) * step
    first, last = lattice.first(x, low, step), lattice.last(x, high, step)
    assert (lattice.number(x, first, step) >= low).all()
    assert (lattice.number(x, first - 1.0, step) < low).all()
    assert (lattice.number(x, last, step) <= high).all()
    assert (lattice.number(x, last + 1.0, step) > high).all()
    least, most = lattice.within(x, low, high, np.full(2000, step))
    assert (least == lattice.number(x, first, step)).all()
    assert (most == lattice.number(x, last, step)).all()


def test_ends_without_a_number_or_a_limit():
    x, steps = np.array([0.1, 0.1, 0.1]), np.array([0.3, 0.3, 0.0])
    low, high = np.array([0.2, -np.inf, 0.15]), np.array([0.3, np.inf, 0.25])
    least, most = lattice.within(x, low, high, steps)
    assert least[0] > most[0]
    assert least[1:].tolist() == [-np.inf, 0.15]
    assert most[1:].tolist() == [np.inf, 0.25]


def test_a_bound_is_meant_for_the_number_that_rounding_puts_beside_it():
    x, step = np.array([1.7]), np.array([0.1])
    beyond = lattice.number(x, np.array([3.0]), step)
    least, most = lattice.within_bounds(x, x, np.nextafter(beyond, 0.0), step)
    assert (least, most) == (x, beyond)
    short = beyond - 3.0 * STEP_SLACK * step
    assert lattice.within_bounds(x, x, short, step)[1] == lattice.number(x, np.array([2.0]), step)


def test_a_number_on_a_knot_is_an_answer():
    data = pd.DataFrame({"a": np.tile([1.7, 1.8, 1.9, 2.0], 10)})
    model = make_pipeline(SplineTransformer(n_knots=4), LogisticRegression(C=1e6, max_iter=5000))
    model.fit(data, data["a"] == 1.8)
    features, cost = [cp.Integer("a", step=0.1)], cp.Manhattan([1.0])
    explainer = cp.Explainer(model, data=data, features=features, cost=cost)
    answer = explainer.explain(data.iloc[[3]], True)[0]
    assert answer.status == "optimal"
    assert answer.row["a"] == 2.0 - 2 * 0.1


def test_a_number_on_a_threshold_is_the_cheapest():
    data = pd.DataFrame({"a": 2.4 + 0.3 * np.arange(12)})
    threshold = np.nextafter(2.4 + 10 * 0.3, 0.0)
    model = make_pipeline(Binarizer(threshold=threshold), LogisticRegression(C=100.0))
    model.fit(data, data["a"] > threshold)
    features, cost = [cp.Integer("a", step=0.3)], cp.Manhattan([1.0])
    answer = cp.Explainer(model, data=data, features=features, cost=cost).explain(data[:1], True)[0]
    assert answer.row["a"] == 2.4 + 10 * 0.3
    assert (answer.status, str(answer.certificate.claim)) == ("optimal", "proved")


def steps_of(kind):
    return {
        "splines": SplineTransformer(n_knots=4),
        "lines": SplineTransformer(n_knots=4, degree=1, extrapolation="linear"),
        "continued": SplineTransformer(n_knots=3, extrapolation="continue"),
        "bins": KBinsDiscretizer(4, strategy="uniform"),
        "quantiles": QuantileTransformer(n_quantiles=7),
        "scaled": make_pipeline(StandardScaler(), SplineTransformer(n_knots=3)),
        "plain": "passthrough",
    }[kind]


def asked(rng, kind, step, squared, free):
    """A model over two whole columns, an explainer of it, and its rows."""
    steps, base = np.array([step, rng.choice(STEPS)]), rng.choice([0.0, 2.4, -3.0, 100.0], size=2)
    cells = base + rng.integers(0, 6, size=(30, 2)) * steps
    cells = np.round(cells, 6) if rng.random() < 0.5 else cells
    data = pd.DataFrame(cells, columns=["a", "b"])
    score = np.sin((cells - base) @ rng.normal(size=2) / step)
    y = score > np.quantile(score, 0.6)
    if kind == "bayes":
        model = GaussianNB()
    else:
        each = [(steps_of(kind), [name]) for name in data]
        model = make_pipeline(make_column_transformer(*each), LogisticRegression(C=100.0))
    quietly(model, data, y)
    cost = cp.SquaredEuclidean([1.0, 0.7]) if squared else cp.Manhattan([1.0, 0.7])
    features = [cp.Integer(name, step=float(s)) for name, s in zip(data, steps, strict=True)]
    limits = [cp.MaxChanges(1)] if rng.random() < 0.3 else []
    if rng.random() < 0.3:  # rows are on either side, and some outside
        low, high = sorted(rng.choice(cells[:, 1], size=2))
        limits.append(cp.Bounds("b", low=float(low), high=float(high)))
    explainer = cp.Explainer(
        model, data=data, features=features, cost=cost, constraints=limits, extrapolate=free
    )
    return model, explainer, data, steps, limits


def points_of(row, data, steps, limits, free):
    """All numbers of the lattice of a row that are possible; some of them, if there is no end."""
    axes = []
    for j, (name, step) in enumerate(zip(data, steps, strict=True)):
        values = row[j] + np.arange(-40, 41) * step
        low, high = (data[name].min(), data[name].max()) if not free else (-np.inf, np.inf)
        low, high = min(low, row[j]), max(high, row[j])
        for limit in limits:
            if isinstance(limit, cp.Bounds) and limit.feature == name:
                low, high = max(low, limit.low), min(high, limit.high)
        slack = STEP_SLACK * step
        axes.append(values[(values >= low - slack) & (values <= high + slack)])
    points = np.array([*product(*axes)]).reshape(-1, len(axes))
    if any(isinstance(limit, cp.MaxChanges) for limit in limits):
        points = points[(points != row).sum(axis=1) <= 1]
    return points, axes


@pytest.mark.covering(1)
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "kind", ["splines", "lines", "continued", "bins", "quantiles", "scaled", "plain", "bayes"]
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_no_number_of_the_lattice_is_cheaper(kind, step, squared, free):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        model, explainer, data, steps, limits = asked(rng, kind, step, squared, free)
        label = bool(rng.random() < 0.5)
        rows = data[model.predict(data) != label].drop_duplicates()[:4]
        if not len(rows):
            continue
        for answer, row in zip(explainer.explain(rows, label), rows.to_numpy(), strict=True):
            points, axes = points_of(row, data, steps, limits, free)
            there = points[model.predict(pd.DataFrame(points, columns=list(data))) == label]
            away = np.abs(there - row)
            best = ((away**2 if squared else away) @ [1.0, 0.7]).min(initial=np.inf)
            assert answer.certificate.bound <= best * (1.0 + 1e-9) + 1e-12
            assert answer.found or not np.isfinite(best)
            if answer.found:
                assert answer.status == "optimal"
                assert answer.cost <= best * (1.0 + 1e-6)
                y = np.array([answer.row[name] for name in data])
                assert all(np.isin(v, axis) for v, axis in zip(y, axes, strict=True)) or free


def test_bins_of_a_column_outside_its_bounds_count_as_changed():
    """Its nearest value is where it moves least, and not where it stays."""
    a, b = np.meshgrid(np.arange(9.0), np.arange(-4.0, 4.0))
    data = pd.DataFrame({"a": a.ravel(), "b": b.ravel()})
    y = (data["a"] > 2.0) | (data["b"] > 2.0)
    steps = make_column_transformer(
        (Binarizer(threshold=2.0), ["a"]), (Binarizer(threshold=2.0), ["b"])
    )
    model = make_pipeline(steps, LogisticRegression(C=100.0)).fit(data, y)
    explainer = cp.Explainer(
        model,
        data=data,
        features=[cp.Integer("a"), cp.Integer("b")],
        cost=cp.Manhattan([1.0, 1.0]),
        constraints=[cp.MaxChanges(1), cp.Bounds("b", low=0.0)],
    )
    answer = explainer.explain(pd.DataFrame({"a": [2.0], "b": [-2.0]}), True)[0]
    assert (answer.status, answer.row) == ("optimal", {"a": 2.0, "b": 3.0})


@pytest.mark.parametrize("family", ["linear", "bins", "tree"])
def test_single_precision_takes_steps_that_it_holds_and_refuses_others(family: str) -> None:
    a = np.tile([0.1, 0.2, 0.3, 0.4], 10)
    frame = pd.DataFrame({"a": a, "b": 2.5 * a}).round(2)
    models = {
        "linear": LogisticRegression(),
        "bins": make_pipeline(KBinsDiscretizer(4, strategy="uniform"), LogisticRegression()),
        "tree": DecisionTreeClassifier(random_state=0),
    }
    rows = frame.astype("float32")
    model = models[family].fit(rows, frame["a"] > 0.15)
    steps = [cp.Integer("a", step=0.1), cp.Integer("b", step=0.25)]
    for dtypes, held in (
        ({"a": "float32", "b": "float64"}, False),  # .3f + .1 is no number of float32
        ({"a": "float64", "b": "float32"}, True),
    ):
        explainer = cp.Explainer(model, data=frame, features=steps)
        row = frame.iloc[[0]].astype(dtypes)
        answers = explainer.explain(row, True, gap=1e-3)
        assert answers.found[0] == held
        assert (answers.status[0] == "invalid") != held
        assert cp.recheck(answers[0].to_record(), model, accept_reported=True).ok
        if not held:
            assert "does not hold 0.1 and whole steps of 0.1 exactly" in answers.message(0)


def test_a_lattice_is_held_up_to_the_numbers_that_are_multiples_of_its_unit() -> None:
    eps = float(np.finfo(np.float32).eps)
    ends = np.array([[0.0, 2.0**24 - 1.0], [0.0, 2.0**25], [-np.inf, np.inf], [0.0, 1.0]])
    held = lattice.is_held(np.array([3.0, 3.0, 3.0, 0.25]), ends, 1.0, eps)
    assert held.tolist() == [True, False, True, True]
    assert not lattice.is_held(np.array([0.0]), ends[:1], 0.1, eps).any()
