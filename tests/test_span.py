"""Questions asked in coordinates: the same answers, and bounds that hold for the rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mpmath import mp, mpf
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.numerics import EPS
from counterpoint.search import answering
from counterpoint.search.span import ProjectedRows, Subspace


@pytest.fixture(autouse=True)
def however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small questions are asked in coordinates as well."""
    monkeypatch.setattr(answering, "PRODUCTS", 0)


def softmax(matrix: np.ndarray, offset: np.ndarray) -> Any:
    model = LogisticRegression()
    model.coef_, model.intercept_ = matrix, offset
    model.classes_, model.n_features_in_ = np.arange(max(2, len(matrix))), matrix.shape[1]
    return model


def drawn(seed: int, k: int, d: int, n: int = 6) -> tuple[Any, np.ndarray]:
    """A model, the classes of some alike, and rows of various sizes."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(k, d)) * 10.0 ** rng.uniform(-2, 2)
    matrix += 10.0 ** rng.uniform(-3, 3) * rng.normal(size=d)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1))
    return softmax(matrix, rng.normal(size=len(matrix))), X


def costs(d: int, seed: int, k: int = 3) -> list[cp.Cost]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    weights = 10.0 ** rng.uniform(-2, 2, d)
    spread = cp.Mahalanobis(root @ root.T + np.eye(d))
    absolute = [cp.Manhattan(), cp.Manhattan(weights)] if k < 3 else []
    return [cp.SquaredEuclidean(), cp.SquaredEuclidean(weights), spread, *absolute]


def targets(k: int) -> list[cp.Target]:
    probable = [cp.Probability(0, 0.9), cp.Tradeoff(1, 0.1), cp.Tradeoff(0, 10.0)]
    return [cp.OtherLabel(), cp.Label(k - 1), cp.Label({0, 1} if k > 2 else 0), *probable]


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_the_answers_are_those_of_full_rows(seed: int, k: int, monkeypatch: pytest.MonkeyPatch):
    model, X = drawn(seed, k, 40)
    for cost in costs(40, seed, k):
        explainer = cp.Explainer(model, cost=cost)
        for target in targets(max(k, 2)):
            with monkeypatch.context() as patched:
                patched.setattr(answering, "_in_span", lambda *_: None)
                full = explainer.explain(X, target)
            few = explainer.explain(X, target)
            assert few.status.tolist() == full.status.tolist()
            assert few.certificates.claim.tolist() == full.certificates.claim.tolist()
            assert few.cost == pytest.approx(full.cost, rel=1e-6, abs=1e-20)
            found = few.found
            assert (few.bound[found] <= full.certificates.objective[found] * (1 + 1e-9)).all()
            change = few.after - few.before
            again = explainer._default_question.encoded_cost(change, np.zeros_like(change))
            assert few.cost[found] == pytest.approx(again[found], rel=1e-9)
            form = explainer.reading.form
            rounding = target.requirement.rounding(form, few.after, EPS)
            assert (few.certificates.rounding[found] >= rounding[found] * (1.0 - 1.0 / 32.0)).all()


@pytest.mark.parametrize("frame", [np.asarray, pd.DataFrame])
def test_the_model_was_asked_about_the_rows_that_are_returned(frame: Any):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 30))).rename(columns=str)
    y = (X.sum(axis=1) > 0).astype(int)
    given = X if frame is pd.DataFrame else X.to_numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(given, y)
    explainer = cp.Explainer(model, data=given, extrapolate=True, cost=cp.SquaredEuclidean())
    for target in (cp.OtherLabel(), 1, cp.Probability(1, 0.7), cp.Tradeoff(1, 0.2)):
        answers = explainer.explain(given, target)
        made = answers.to_frame()
        assert type(made) is type(given)
        assert set(answers.status) <= {cp.Status.OPTIMAL, cp.Status.ALREADY}
        if not isinstance(target, cp.Tradeoff):
            assert not (answers.certificates.on_edge & (answers.status == "optimal")).any()
        if target == 1:
            assert (model.predict(made) == 1).all()
        if isinstance(target, cp.Probability | cp.Tradeoff):
            said = model.predict_proba(made)[:, 1]
            assert answers.certificates.probability == pytest.approx(said, rel=1e-12)


def test_rows_that_cannot_be_used_keep_their_place():
    model, X = drawn(1, 3, 30)
    X[2, 5], X[4, 0] = np.nan, 1e308
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    answers = explainer.explain(X, cp.Tradeoff(1, 0.1))
    assert answers.status[2] == "invalid"
    assert np.isnan(answers.to_frame()[2]).all()
    good = np.array([0, 1, 3, 5])
    assert (answers.status[good] == "optimal").all()
    assert explainer.explain(X[good], cp.Tradeoff(1, 0.1)).cost == pytest.approx(
        answers.cost[good], rel=1e-9
    )


def exactly(values: np.ndarray) -> list[Any]:
    """Floats as fractions, nested as they are."""
    return [exactly(row) if row.ndim else Fraction(float(row)) for row in values]


def product(a: list[Any], b: list[Any]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


@pytest.mark.parametrize("seed", range(12))
def test_what_coordinates_lose_is_allowed_for(seed: int):
    """‖t‖² <= (1 + stretch) c, and scores differ by what is said, in exact numbers."""
    rng = np.random.default_rng(seed)
    model, X = drawn(seed, 4, 12)
    weights = 10.0 ** rng.uniform(-2, 2, 12)
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean(weights))
    span = explainer._default_question.span
    assert isinstance(span, Subspace)
    rows = ProjectedRows.of(span, model, X, exactly=True)
    r = len(span.directions)
    encoded_cost, scores = exactly(weights), exactly(span.question.form.matrix)
    directions, matrix = exactly(span.directions), exactly(model.coef_)
    for i, x in enumerate(X):
        change = exactly(rng.normal(size=12) * 10.0 ** rng.uniform(-3, 3))
        pulled = [p * c for p, c in zip(encoded_cost, change, strict=True)]
        t = [product(way, pulled) for way in directions]
        cost = product(pulled, change)
        assert sum(v * v for v in t) <= cost * Fraction(1.0 + span.cost_inflation)
        start = exactly(rows.start[i])
        y = [a + b for a, b in zip(exactly(x), change, strict=True)]
        at = [a + b for a, b in zip(start, [*t, *([Fraction(0)] * (len(start) - r))], strict=True)]
        off = [product(a, y) - product(s, at) for a, s in zip(matrix, scores, strict=True)]
        far = 2.0 * span.stray * float(cost) ** 0.5 * (1.0 + 1e-12)
        shared = exactly(model.intercept_ - span.offset)  # rounded as doubt allows for
        off = [a + b for a, b in zip(off, shared, strict=True)]
        assert float(max(off) - min(off)) <= rows.doubt[i] + far


@pytest.mark.parametrize("seed", range(1, 12))
def test_what_one_column_loses_is_allowed_for(seed: int):
    """|t| <= (1 + stretch) c, and scores differ by what is said, in exact numbers."""
    rng = np.random.default_rng(seed)
    model, X = drawn(seed, 1, 12)
    weights = 10.0 ** rng.uniform(-2, 2, 12)
    immutable = cp.Immutable(*(f"x{j}" for j in range(seed)))
    explainer = cp.Explainer(model, cost=cp.Manhattan(weights), constraints=immutable)
    span = explainer._default_question.span
    assert isinstance(span, Subspace)
    rows = ProjectedRows.of(span, model, X, exactly=True)
    assert (np.flatnonzero(span.directions[0]) >= seed).all()
    centred, slope = exactly(span.matrix), exactly(span.scores)
    matrix, scores = exactly(model.coef_)[0], exactly(span.question.form.matrix)
    for i, x in enumerate(X):
        change = rng.normal(size=12) * 10.0 ** rng.uniform(-3, 3)
        change[:seed] = 0.0
        change = exactly(change)
        cost = sum(Fraction(float(w)) * abs(v) for w, v in zip(weights, change, strict=True))
        t = product(centred[1], change) / slope[1][0]
        assert abs(t) <= cost * Fraction(1.0 + span.cost_inflation)
        assert abs(product(centred[0], change) - slope[0][0] * t) <= cost * Fraction(span.stray)
        start, y = exactly(rows.start[i]), [a + b for a, b in zip(exactly(x), change, strict=True)]
        at = [start[0] + t, *start[1:]]
        off = product(matrix, y) - product(scores[1], at) + product(scores[0], at)
        shared = Fraction(float(model.intercept_[0])) - (
            Fraction(float(span.offset[1])) - Fraction(float(span.offset[0]))
        )
        assert abs(off + shared) <= Fraction(float(rows.doubt[i])) + 2 * cost * Fraction(span.stray)


@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_two_classes_are_below_the_exact_optimum(seed: int):
    """The nearest point of a half-space, in fractions."""
    model, X = drawn(seed, 1, 15)
    weights = 10.0 ** np.random.default_rng(seed).uniform(-2, 2, 15)
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean(weights))
    w, c = exactly(model.coef_[0]), Fraction(float(model.intercept_[0]))
    steep = sum(v * v / p for v, p in zip(w, exactly(weights), strict=True))
    for label in (0, 1):
        answers = explainer.explain(X, label)
        for i, x in enumerate(X):
            score = product(w, exactly(x)) + c
            if answers.status[i] == "optimal":
                best = score * score / steep
                assert Fraction(float(answers.bound[i])) <= best
                assert float(answers.bound[i]) >= float(best) * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_a_tradeoff_are_below_the_exact_optimum(seed: int):
    """Newton's method in K dimensions, with 60 digits."""
    model, X = drawn(seed, 3, 14, n=3)
    weight, label = 0.3, 1
    answers = cp.Explainer(model, cost=cp.SquaredEuclidean()).explain(X, cp.Tradeoff(label, weight))
    with mp.workdps(60):
        rows = mp.matrix((np.delete(model.coef_, label, 0) - 0.0).tolist())
        own = model.coef_[label].tolist()
        for i in range(2):
            for j in range(14):
                rows[i, j] = rows[i, j] - mpf(own[j])
        offset = [mpf(v) - mpf(model.intercept_[label]) for v in np.delete(model.intercept_, label)]
        gram = rows * rows.T
        for i, x in enumerate(X):
            start = rows * mp.matrix(x.tolist()) + mp.matrix(offset)
            best = least(gram, start, mpf(weight))
            assert mpf(float(answers.bound[i])) <= best
            assert answers.status[i] == "optimal"
            assert float(answers.certificates.objective[i]) == pytest.approx(float(best), rel=1e-6)


def least(gram: Any, start: Any, weight: Any) -> Any:
    """The least of λ/2 vᵀGv / λ² + log(1 + Σ exp(start − G v / λ)): damped Newton in v."""

    def value(v: Any) -> Any:
        z = start - gram * v / weight
        return (v.T * gram * v)[0] / (2 * weight) + mp.log1p(sum(mp.exp(t) for t in z))

    v = mp.matrix(2, 1)
    for _ in range(100):
        z = start - gram * v / weight
        total = 1 + sum(mp.exp(t) for t in z)
        p = mp.matrix([mp.exp(t) / total for t in z])
        w = mp.diag(list(p)) - p * p.T
        step = mp.lu_solve(mp.eye(2) + w * gram / weight, p - v)
        length = mpf(1)
        while length > mpf(10) ** -30 and value(v + length * step) > value(v):
            length /= 2
        v = v + length * step
        if mp.norm(step) < mpf(10) ** -40:
            break
    return value(v)


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_that_are_asked_about_in_turn_are_written_as_they_were_judged(order: str):
    """Many classes at once, few rows of some: blocks of all rows, and rows apart."""
    rng = np.random.default_rng(5)
    X = np.asarray(rng.normal(size=(900, 40)), order=order)
    model = softmax(rng.normal(size=(3, 40)), np.array([0.0, 9.0, 9.0]))
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    for target in (cp.OtherLabel(), cp.Label(0), cp.Label(1), cp.Tradeoff(2, 0.5)):
        answers = explainer.explain(X, target)
        made = answers.to_frame()
        assert (made[answers.status == "already"] == X[answers.status == "already"]).all()
        assert answers.cost == pytest.approx(((made - X) ** 2).sum(axis=1), rel=1e-9, abs=1e-300)
        said, before = model.predict(made), model.predict(X)
        if target == cp.OtherLabel():
            assert (said != before).all()
        elif isinstance(target, cp.Label):
            assert (said == target.label).all()
        alone = explainer.explain(X[:5], target).to_frame()
        assert alone == pytest.approx(made[:5], rel=1e-9, abs=1e-9)
