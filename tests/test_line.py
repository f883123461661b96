"""Two classes in one coordinate: what is settled there is what the general way finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.models.form import Magnitude, rounding
from counterpoint.numerics import AFTER, EPS
from counterpoint.search import answering
from counterpoint.search.line import Line


@pytest.fixture(autouse=True)
def however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small questions are asked in coordinates as well."""
    monkeypatch.setattr(answering, "PRODUCTS", 0)


class Stubborn(LogisticRegression):
    """A model that stays with its first class until the score is well above 0."""

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.decision_function(X) > 1e-9).astype(int)]


def data(seed: int, labels: list[Any], n: int = 400, d: int = 12) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, d) + rng.normal(size=d)
    return np.array(labels)[(X @ rng.normal(size=d) > 0).astype(int)], X


def settled(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """What `Line.settle` says of the rows of each call from now on."""
    told: list[np.ndarray] = []
    original = Line.settle

    def settle(self: Line, *args: Any) -> Any:
        told.append(original(self, *args))
        return told[-1]

    monkeypatch.setattr(Line, "settle", settle)
    return told


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"], [False, True]])
@pytest.mark.parametrize("cost", [cp.SquaredEuclidean(), cp.Manhattan()], ids=str)
@pytest.mark.parametrize("frame", [np.asarray, pd.DataFrame])
def test_answers_are_those_of_the_general_way(
    frame: Any, cost: cp.Cost, labels: list[Any], monkeypatch: pytest.MonkeyPatch
):
    y, X = data(1, labels)
    columns = [f"c{j}" for j in range(X.shape[1])]
    given = X if frame is np.asarray else pd.DataFrame(X, columns=columns, index=range(5, 405))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(given, y)
    kept = [cp.Immutable("c3" if frame is pd.DataFrame else "x3")]
    explainer = cp.Explainer(model, data=given, extrapolate=True, cost=cost, constraints=kept)
    for target in (cp.OtherLabel(), cp.Label(labels[1]), cp.OtherLabel(labels[1])):
        with monkeypatch.context() as patched:
            patched.setattr(Line, "of", lambda *_: None)
            general = explainer.explain(given, target)
        told = settled(monkeypatch)
        answers = explainer.explain(given, target)
        assert np.mean(told[0]) > 0.99
        assert answers.status.tolist() == general.status.tolist()
        assert answers.targets.tolist() == general.targets.tolist()
        mine, theirs = answers.certificates, general.certificates
        assert mine.claim.tolist() == theirs.claim.tolist()
        assert (mine.valid == theirs.valid).all()
        for name in ("cost", "objective", "bound", "violation"):
            expected = pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-300)
            assert getattr(mine, name) == expected, name
        assert (mine.bound <= mine.cost).all()
        # what the answers lead by is a small difference of larger scores
        assert (np.abs(mine.margin - theirs.margin) <= 2.0 * theirs.rounding + 1e-12).all()
        assert mine.rounding == pytest.approx(theirs.rounding, rel=1.0 / 16.0)
        assert answers.after == pytest.approx(general.after, rel=1e-9, abs=1e-12)
        assert (answers.after[:, 3] == answers.before[:, 3]).all()
        already_satisfied = answers.status == "already"
        assert (answers.after[already_satisfied] == answers.before[already_satisfied]).all()
        said = model.predict(answers.to_frame())
        satisfied = said != model.predict(given) if target == cp.OtherLabel() else said == labels[1]
        assert (satisfied if target != cp.OtherLabel(labels[1]) else ~satisfied).all()
        assert cp.recheck([answers[i].to_record() for i in (0, 7, 200)], model).ok


def test_what_the_model_does_not_confirm_goes_the_general_way(monkeypatch: pytest.MonkeyPatch):
    y, X = data(2, [0, 1])
    model = Stubborn(max_iter=10_000).fit(X, y)
    told = settled(monkeypatch)
    answers = cp.Explainer(model, cost=cp.SquaredEuclidean()).explain(X, 1)
    up = answers.status != "already"
    assert up.sum() > 50
    assert not told[0][up].any()
    assert told[0][~up].all()
    assert answers.found.all()
    assert (model.predict(answers.to_frame()) == 1).all()


def test_rows_at_a_tie_and_rows_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch):
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.ones((1, 10)), np.zeros(1)
    model.classes_, model.n_features_in_ = np.array([0, 1]), 10
    X = np.random.default_rng(0).normal(size=(50, 10))
    X[7] = [1.0, -1.0] * 5
    X[11, 3] = np.nan
    explainer, told = cp.Explainer(model, cost=cp.SquaredEuclidean()), settled(monkeypatch)
    answers = explainer.explain(X, cp.OtherLabel())
    assert np.flatnonzero(~told[0]).tolist() == [7, 11]
    assert answers.status[11] == "invalid"
    monkeypatch.setattr(Line, "of", lambda *_: None)
    assert answers.status.tolist() == explainer.explain(X, cp.OtherLabel()).status.tolist()
    others = np.delete(np.arange(50), 11)
    made = answers.to_frame()
    assert (model.predict(made[others]) != model.predict(X[others])).all()
    assert np.isnan(made[11]).all()
    assert (answers.before[11] == answers.after[11]).all()


def test_no_time_is_lost_where_more_is_asked(monkeypatch: pytest.MonkeyPatch):
    y, X = data(3, [0, 1])
    model = LogisticRegression(max_iter=10_000).fit(X, y)
    told = settled(monkeypatch)
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    for target in (cp.Probability(1, 0.8), cp.Tradeoff(1, 0.1), cp.Label(1, margin=0.5)):
        assert set(explainer.explain(X, target).status) <= {"optimal", "already"}
    assert not told


@pytest.mark.parametrize("seed", range(6))
def test_the_largest_of_the_sizes_of_terms(seed: int):
    """One output may be nowhere less than the others; the bits of a bound are six, rounded up."""
    rng = np.random.default_rng(seed)
    matrix, offset = rng.normal(size=(3, 5)), rng.normal(size=3)
    if seed % 2:
        matrix[1], offset[1] = 4.0 * np.abs(matrix).max(axis=0), 5.0
    x = rng.normal(size=(50, 5)) * 10.0 ** rng.uniform(-200, 200, (50, 1))
    sizes = Magnitude(np.abs(matrix), np.abs(offset), 5)
    assert sizes.largest(x) == pytest.approx(sizes(x).max(axis=1), rel=1e-14)
    assert (sizes._tallest is not None) == bool(seed % 2)
    exact = (5 + AFTER) * EPS * sizes.largest(x) * 2.0
    bound = rounding(x, sizes, EPS)
    assert ((bound >= exact) & (bound <= exact * (1.0 + 1.0 / 32.0))).all()
    mantissa = 64.0 * np.frexp(bound)[0]
    assert (mantissa == np.rint(mantissa)).all()
