"""Margins in feature units beyond the thresholds of trees: kept, at the least cost."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.metrics import constraint_violation
from counterpoint.programs.conditions import MinimumChange

NAMES = ["a", "b", "c"]
ENDS = np.array([[-9.0, -9.0, 0.0], [9.0, 9.0, 9.0]])
FEATURES = [cp.Continuous("a"), cp.Continuous("b"), cp.Integer("c")]
BOUNDS = [cp.Bounds(name, low, high) for name, low, high in zip(NAMES, *ENDS, strict=True)]
OPTIONS: dict[str, Any] = {"features": FEATURES, "cost": cp.Manhattan(dict.fromkeys(NAMES, 1.0))}
CLOSE = 1e-6  # how near to a threshold these models may take either side, in float32


def fitted(seed: int) -> tuple[Any, pd.DataFrame]:
    """A tree, a forest or a boosted ensemble, over two numbers and a whole one."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(0, 8, 60)])
    score = X[:, 0] - X[:, 1] ** 2 + 0.4 * X[:, 2]
    y = pd.qcut(score + 0.3 * rng.normal(size=60), 2 + seed % 2, labels=False)
    model = (
        DecisionTreeClassifier(max_depth=4, random_state=seed),
        RandomForestClassifier(4, max_depth=3, random_state=seed),
        GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=seed),
    )[seed % 3]
    frame = pd.DataFrame(X, columns=NAMES)
    return model.fit(frame, y), frame


def cuts_of(model: Any) -> list[np.ndarray]:
    trees = [one.tree_ for one in np.ravel(getattr(model, "estimators_", model))]
    tested = [(t.feature[t.feature >= 0], t.threshold[t.feature >= 0]) for t in trees]
    return [np.unique(np.concatenate([at[on == j] for on, at in tested])) for j in range(3)]


def is_clear(v: float, x: float, cuts: np.ndarray, margin: float) -> bool:
    """Whether a value is so far beyond each threshold between x and it.

    At a threshold it is on the lower side; near to one, rounding may have it on either.
    """
    if v == x or margin == 0.0:
        return True
    if v > x:
        passed = cuts[((cuts > x + CLOSE) | (cuts == x)) & (cuts < v - CLOSE)]
        return bool((v >= passed + margin - CLOSE).all())
    passed = cuts[(cuts < x - CLOSE) & ((cuts > v + CLOSE) | (cuts == v))]
    return bool((v <= passed - margin + CLOSE).all())


def cheapest(
    model: Any, x: np.ndarray, target: int, margins: np.ndarray, most: int
) -> tuple[float, float]:
    """The least cost by brute force; and of points where the target leads by more than a tie."""
    cuts, values = cuts_of(model), []
    for j, margin in enumerate(margins):
        ends = [
            x[j],
            *(t + (margin or CLOSE / 3) for t in cuts[j] if t >= x[j]),
            *(t - (margin or CLOSE / 3) for t in cuts[j] if t < x[j]),
        ]
        some = ends if j < 2 else range(10)
        kept = (v for v in some if ENDS[0, j] <= v <= ENDS[1, j])
        values.append([v for v in kept if is_clear(v, x[j], cuts[j], margin)])
    grid = pd.DataFrame(list(product(*values)), columns=NAMES)
    change = np.abs(grid.to_numpy() - x)
    good = (model.predict(grid) == target) & ((change > 0).sum(axis=1) <= most)
    shares = model.predict_proba(grid)
    safety_margins = good & (
        shares[:, target] > np.delete(shares, target, axis=1).max(axis=1) + 1e-9
    )
    cost = change.sum(axis=1)
    return float(cost[good].min(initial=np.inf)), float(cost[safety_margins].min(initial=np.inf))


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))]
)
@pytest.mark.parametrize("margins", [(0.1, 0.0, 2.5), (0.3, 0.4, 0.5)], ids=str)
def test_answers_are_the_cheapest_that_are_clear(margins: tuple[float, ...], seed: int) -> None:
    model, frame = fitted(seed)
    asked, cuts = np.array(margins), cuts_of(model)
    clear = [cp.Clearance(name, m) for name, m in zip(NAMES, margins, strict=True) if m]
    rng = np.random.default_rng(seed)
    for target, most in product(model.classes_.tolist(), (1, 3)):
        constraints = [*clear, *BOUNDS, cp.MaxChanges(most)]
        rows = frame.iloc[:3]
        found = cp.explain(model, rows, target, constraints=constraints, **OPTIONS)
        for i, answer in enumerate(found):
            x = rows.iloc[i].to_numpy()
            best, leading = cheapest(model, x, target, asked, most)
            assert answer.certificate.claim == "proved"
            if str(answer.status) == "infeasible":
                assert np.isinf(best)
                continue
            assert answer.certificate.bound <= best + 3 * CLOSE
            costs = [pytest.approx(cost, abs=3 * CLOSE) for cost in (best, leading)]
            assert answer.certificate.cost in costs  # a tie is no answer if another leads
            y = np.array([answer.row[name] for name in NAMES])
            for j in range(3):
                assert is_clear(y[j], x[j], cuts[j], asked[j])
            short = rng.random((50, 3)) * np.maximum(asked - 2 * CLOSE, 0.0)
            near = y - np.sign(y - x) * np.minimum(np.abs(y - x), short)
            assert (model.predict(pd.DataFrame(near, columns=NAMES)) == target).all()


@pytest.mark.parametrize("seed", range(3))
def test_no_clear_point_that_keeps_a_relation_is_cheaper(seed: int) -> None:
    model, frame = fitted(3 * seed + 1)
    margins, rng = np.array([0.1, 0.2, 0.5]), np.random.default_rng(seed)
    clear = [cp.Clearance(name, m) for name, m in zip(NAMES, margins, strict=True)]
    relation, cuts = cp.Linear.parse("a + b <= -0.2"), cuts_of(model)
    for target in model.classes_.tolist():
        rows = frame.iloc[:4]
        constraints = [*clear, relation, *BOUNDS]
        found = cp.explain(model, rows, target, constraints=constraints, **OPTIONS)
        assert found.found.any()
        for i, answer in enumerate(found):
            x = rows.iloc[i].to_numpy()
            y = np.array([answer.row[name] for name in NAMES], dtype=float)
            if answer.certificate.claim == "proved" and str(answer.status) != "infeasible":
                assert y[0] + y[1] <= -0.2 + 1e-9 or str(answer.status) == "already"
                for j in range(3):
                    assert is_clear(y[j], x[j], cuts[j], margins[j])
            some = x + rng.normal(size=(600, 3)) * [1.5, 1.5, 0.0]
            some[:, 2] = rng.integers(0, 9, 600)
            some = some[some[:, 0] + some[:, 1] <= -0.2]
            good = model.predict(pd.DataFrame(some, columns=NAMES)) == target
            for y in some[good]:
                if all(is_clear(y[j], x[j], cuts[j], margins[j] + 3 * CLOSE) for j in range(3)):
                    assert np.abs(y - x).sum() >= answer.certificate.bound


def numbers() -> Any:
    return st.integers(-8, 8).map(lambda k: k / 2.0)


@given(numbers(), numbers(), st.lists(numbers(), min_size=1, max_size=4), st.integers(1, 5))
def test_what_is_clear_is_as_it_is_said(x: float, y: float, cuts: list[float], half: int) -> None:
    margin, k = half / 2.0, len(cuts)
    known = np.zeros(k, dtype=np.intp), np.array(cuts), np.zeros(k)
    clear = MinimumChange(np.array([margin]), known)
    passed = [t for t in cuts if min(x, y) <= t < max(x, y)]  # a value up to t is below it
    kept = all(abs(y - t) >= margin for t in passed)
    assert (clear.violation(np.array([[y]]), np.array([[x]]))[0] == 0.0) == kept


def test_half_a_step_beyond_a_threshold_is_the_next_whole_number() -> None:
    X = pd.DataFrame({"count": np.arange(6.0)})
    model = DecisionTreeClassifier().fit(X, X["count"] > 2)
    for asked, y in ((0.25, 3.0), (0.5, 3.0), (0.75, 4.0), (1.5, 4.0), (2.5, 5.0)):
        options = {"features": cp.Integer("count"), "cost": cp.Manhattan({"count": 1.0})}
        clear = [cp.Clearance("count", asked), cp.Bounds("count", 0, 5)]
        (found,) = cp.explain(model, X[:1], True, constraints=clear, **options)
        assert (found.row["count"], found.certificate.claim) == (y, "proved")
    (none,) = cp.explain(
        model, X[:1], True, constraints=[cp.Clearance("count", 2.75), clear[1]], **options
    )
    assert (str(none.status), none.certificate.claim) == ("infeasible", "proved")
    assert any("count" in str(each) for each in none.conflict.constraints)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(5, max_depth=3, random_state=0),
        HistGradientBoostingClassifier(max_iter=5),
        make_pipeline(StandardScaler(), RandomForestClassifier(5, max_depth=3, random_state=0)),
    ],
    ids=["forest", "histograms", "pipeline"],
)
def test_answers_of_either_precision_are_clear(model: Any, dtype: type) -> None:
    frame, labels = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = frame.iloc[:, [0, 1, 4]].astype(dtype)
    model.fit(frame, labels)
    margins = [0.2, 0.3, 0.002]
    clear = [cp.Clearance(name, m) for name, m in zip(frame, margins, strict=True)]
    rows = frame[:10]
    gap = 1e-6 if dtype is np.float64 else 1e-4  # the next number of a column is farther
    free = cp.explain(model, rows, cp.OtherLabel(), data=frame, gap=gap)
    found = cp.explain(model, rows, cp.OtherLabel(), data=frame, constraints=clear, gap=gap)
    assert set(map(str, found.status)) <= {"optimal", "infeasible"}
    assert {answer.certificate.claim for answer in found} == {"proved"}
    assert found.found.sum() >= 5
    assert (found.cost >= (1.0 - gap) * free.cost - 1e-9)[found.found].all()
    x, y = rows.to_numpy(float)[found.found], found.to_frame().to_numpy(float)[found.found]
    moved = np.sign(y - x) * np.minimum(np.abs(y - x), 0.99 * np.array(margins))
    near = pd.DataFrame(y - moved, columns=frame.columns).astype(dtype)
    assert (model.predict(near) == model.predict(found.to_frame()[found.found])).all()


def test_what_is_missing_stays_so_and_crosses_nothing() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=NAMES)
    X[rng.random(X.shape) < 0.2] = np.nan
    y = X["a"].fillna(1.0) + X["b"].fillna(0.0) > 0.3
    model = HistGradientBoostingClassifier(max_iter=5).fit(X, y)
    clear = [cp.Clearance(name, 0.1) for name in NAMES]
    rows = X[X["a"].isna()][:5]
    found = cp.explain(model, rows, cp.OtherLabel(), data=X, constraints=clear)
    assert {answer.certificate.claim for answer in found} == {"proved"}
    assert found.found.any()
    assert found.to_frame()["a"].isna().all()


def test_metrics_measure_it() -> None:
    model, frame = fitted(1)
    clear = [cp.Clearance("a", 0.2), cp.Clearance("b", 0.2)]
    rows = frame[model.predict(frame) == 0][:6]
    free = cp.explain(model, rows, 1, constraints=BOUNDS, **OPTIONS)
    kept = cp.explain(model, rows, 1, constraints=[*BOUNDS, *clear], **OPTIONS)
    assert kept.found.any()
    for answers, worst in ((free, 0.5), (kept, 0.0)):
        missed = constraint_violation(model, rows, answers, clear, data=frame)
        assert np.nanmax(missed) >= worst
        assert worst or np.nanmax(missed) == 0.0


def test_models_without_thresholds_refuse_it() -> None:
    _, frame = fitted(0)
    model = LogisticRegression().fit(frame, frame["a"] > 0)
    with pytest.raises(cp.InvalidInput, match="thresholds of trees, and this model has none"):
        cp.Explainer(model, data=frame, constraints=cp.Clearance("a", 0.1))
