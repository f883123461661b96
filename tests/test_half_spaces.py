"""The nearest of many half-spaces: no longer the own class, of many, against brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.search.search import Union

CLASSES, COLUMNS = 12, 5
COSTS = {"absolute": cp.Manhattan(), "squared": cp.SquaredEuclidean()}
LIMITS = {
    "free": [],
    "bounds": [cp.Bounds(f"x{j}", low=-1.0, high=1.0) for j in range(COLUMNS)],
    "held": [
        cp.Immutable("x0"),
        cp.Monotone("x1", "increasing"),
        cp.Bounds("x2", low=-0.5, high=0.5),
    ],
}


def classifier(seed: int = 0) -> Any:
    """A softmax classifier with random scores."""
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(4 * CLASSES, COLUMNS)), np.tile(np.arange(CLASSES), 4)
    model = LogisticRegression(max_iter=500).fit(X, labels)
    model.coef_ = rng.normal(size=(CLASSES, COLUMNS))
    model.intercept_ = 0.3 * rng.normal(size=CLASSES)
    return model


def box(limits: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of one row, written down anew."""
    low, high = np.full(COLUMNS, -np.inf), np.full(COLUMNS, np.inf)
    if limits == "bounds":
        low[:], high[:] = -1.0, 1.0
    if limits == "held":
        low[:3], high[:3] = [x[0], x[1], -0.5], [x[0], np.inf, 0.5]
    return low, high


def nearest(model: Any, x: np.ndarray, own: int, cost: str, limits: str) -> float:
    """The least cost at which any other class leads the own one, by SciPy, class by class."""
    low, high = box(limits, x)
    best = np.inf
    for k in np.flatnonzero(np.arange(CLASSES) != own):
        a = model.coef_[k] - model.coef_[own]
        b = float(model.intercept_[own] - model.intercept_[k])  # a · y >= b
        if cost == "absolute":
            split = np.concatenate([a, -a])
            up, down = np.maximum([low - x, high - x], 0.0), np.maximum([x - high, x - low], 0.0)
            ends = np.hstack([up, down]).T.tolist()
            result = linprog(np.ones(2 * COLUMNS), [-split], [a @ x - b], bounds=ends)
            found = result.fun if result.status == 0 else np.inf
        else:
            result = minimize(
                lambda y: float((y - x) @ (y - x)),
                np.clip(x, low, high),
                jac=lambda y: 2.0 * (y - x),
                bounds=np.column_stack([low, high]).tolist(),
                constraints=[{"type": "ineq", "fun": lambda y, a=a, b=b: a @ y - b}],
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 500},
            )
            found = result.fun if a @ result.x - b >= -1e-7 else np.inf
        best = min(best, float(found))
    return best


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("cost", COSTS)
def test_another_class_leads_at_the_least_cost(cost: str, limits: str):
    model, rng = classifier(), np.random.default_rng(1)
    X = rng.normal(size=(25, COLUMNS)) * 0.6
    X = np.clip(X, -0.5, 0.5) if limits != "free" else X
    explainer = cp.Explainer(model, cost=COSTS[cost], constraints=LIMITS[limits])
    own, answers = model.predict(X), explainer.explain(X, cp.OtherLabel())
    for i, x in enumerate(X):
        least = nearest(model, x, own[i], cost, limits)
        if np.isinf(least):
            assert answers.status[i] == "infeasible"
            continue
        assert answers.status[i] == "optimal"
        assert answers[i].certificate.claim == "proved"
        y = answers.after[i]
        assert model.predict(y[None])[0] != own[i]
        low, high = box(limits, x)
        assert ((y >= low) & (y <= high)).all()
        np.testing.assert_allclose(answers.cost[i], least, rtol=1e-6)
        # nothing that is cheaper by more than the gap is of another class
        away = rng.normal(size=(2000, COLUMNS))
        power = 1.0 if cost == "absolute" else 2.0
        length = (np.abs(away) ** power).sum(axis=1)
        scale = (0.999 * least * rng.random(2000) / length) ** (1.0 / power)
        points = x + away * scale[:, None]
        points = points[((points >= low) & (points <= high)).all(axis=1)]
        assert not len(points) or (model.predict(points) == own[i]).all()


def test_one_row_gets_what_it_gets_in_a_batch_and_its_record_is_checked(tmp_path: Path):
    model, rng = classifier(3), np.random.default_rng(2)
    X = rng.normal(size=(12, COLUMNS))
    explainer = cp.Explainer(model, cost=cp.Manhattan(), constraints=LIMITS["bounds"])
    answers = explainer.explain(np.clip(X, -1.0, 1.0), cp.OtherLabel())
    for i, x in enumerate(np.clip(X, -1.0, 1.0)):
        alone = explainer.explain(x[None], cp.OtherLabel())
        assert alone.status[0] == answers.status[i]
        np.testing.assert_allclose(alone.cost[0], answers.cost[i], rtol=1e-12)
    assert answers.proofs
    assert all(len(proofs) == CLASSES - 1 for _, proofs in answers.proofs)
    answers.to_records(tmp_path / "answers.jsonl")
    assert cp.recheck(tmp_path / "answers.jsonl", model).ok


def test_where_no_class_can_be_reached_each_is_refuted():
    model = classifier()
    explainer = cp.Explainer(
        model,
        cost=cp.Manhattan(),
        constraints=[cp.Bounds(f"x{j}", rise=1e-4, fall=1e-4) for j in range(COLUMNS)],
    )
    X = np.random.default_rng(0).normal(size=(30, COLUMNS))
    answers = explainer.explain(X, cp.OtherLabel())
    assert (answers.status == "infeasible").sum() > 20
    assert (answers.certificates.claim[answers.status == "infeasible"] == "proved").all()


@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_a_margin_is_kept_from_the_own_class_alone(margin: float):
    model, X = classifier(), np.random.default_rng(4).normal(size=(10, COLUMNS))
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    answers = explainer.explain(X, cp.OtherLabel(margin=margin))
    scores, own = model.decision_function(answers.after), model.predict(X)
    lead = scores.max(axis=1) - scores[np.arange(len(X)), own]
    assert (lead >= margin).all()
    assert (lead <= margin + 1e-9).all()


def test_a_class_with_the_same_scores_is_no_way_out():
    """It never leads; that it does not tie either is not proved, so the answers are valid only."""
    model = classifier()
    model.coef_[3], model.intercept_[3] = model.coef_[0], model.intercept_[0]
    X = np.random.default_rng(5).normal(size=(40, COLUMNS))
    X = X[model.predict(X) == 0]
    answers = cp.Explainer(model, cost=cp.Manhattan()).explain(X, cp.OtherLabel())
    assert len(X)
    assert answers.found.all()
    assert (model.predict(answers.after) != 0).all()


def test_pieces_are_made_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    explainer, made = cp.Explainer(classifier(), cost=cp.Manhattan()), list[int]()
    usual = Union.__getitem__
    monkeypatch.setattr(Union, "__getitem__", lambda self, s: (made.append(s), usual(self, s))[1])
    explainer.explain(np.zeros((1, COLUMNS)), cp.OtherLabel())
    assert not made
