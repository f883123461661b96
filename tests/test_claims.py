"""Statuses, claims and guarantees: members of enums, never positions; which go together."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.lvq import LGMLVQ
from counterpoint.privacy import PrivateSVC

CLAIMS = {
    cp.Status.OPTIMAL: {cp.Claim.PROVED, cp.Claim.REPORTED},
    cp.Status.ALREADY: {cp.Claim.PROVED, cp.Claim.REPORTED},
    cp.Status.SUBOPTIMAL: {cp.Claim.LOCAL, cp.Claim.NONE},
    cp.Status.LIMIT: {cp.Claim.NONE},
    cp.Status.INFEASIBLE: {cp.Claim.PROVED, cp.Claim.REPORTED},
    cp.Status.UNPROVED: {cp.Claim.NONE},
    cp.Status.INVALID: {cp.Claim.NONE},
}
GAP = 1e-6


def plain() -> cp.Counterfactuals:
    """A convex question; one row cannot be used."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    rows = X[::10].copy()
    rows.iloc[3, 0] = np.nan
    return cp.explain(LogisticRegression(max_iter=1000).fit(X, y), rows, 1, data=X)


def impossible() -> cp.Counterfactuals:
    """Nothing may change."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    return cp.explain(model, X[::10], 1, constraints=[cp.Immutable(*X)], cost=cp.Manhattan())


def whole(changes: int = 3, **options: float) -> cp.Counterfactuals:
    """Whole numbers, few of which may change: branch and bound."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = (X * 10).round()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    features = [cp.Integer(name) for name in X]
    constraints = [cp.WithinObserved(), cp.MaxChanges(changes)]
    explainer = cp.Explainer(
        model, data=X, features=features, cost=cp.SquaredEuclidean(), constraints=constraints
    )
    return explainer.explain(X[::15], 1, **options)


def bent() -> cp.Counterfactuals:
    """Prototypes with metrics of their own: local optima."""
    X, y = load_iris(return_X_y=True)
    model = LGMLVQ(2, random_state=0).fit(X, y)
    return cp.explain(model, X[::10], 1, data=X, cost=cp.Manhattan())


def unsure() -> cp.Counterfactuals:
    """The way to a prototype that is not sure enough."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = pd.DataFrame(rng.normal(size=(300, 2)) + 2.0 * y[:, None], columns=["a", "b"])
    model = PrivateSVC(
        1.0,
        feature_map="fourier",
        n_components=24,
        bounds=(-6, 6),
        insecure_noise_seed=1,
        random_state=3,
        classes=[0, 1],
    ).fit(X, y)
    target = cp.Robust(1, 0.9999, "fixed", search="segment", prototype=[1.2, 1.2])
    features = [cp.Continuous(name, (-6, 6)) for name in X]
    explainer = cp.Explainer(model, features=features, cost=cp.Manhattan([1.0, 1.0]))
    return explainer.explain(X[model.predict(X) == 0].head(3), target)


QUESTIONS = {
    "convex": plain,
    "impossible": impossible,
    "whole numbers": whole,
    "one change": lambda: whole(1),
    "out of time": lambda: whole(time_limit=1e-9),
    "local": bent,
    "unsure": unsure,
}


@cache
def answers_to(question: str) -> cp.Counterfactuals:
    return QUESTIONS[question]()


@pytest.mark.parametrize("question", QUESTIONS)
def test_only_what_settles_a_row_is_claimed_to_be_proved_or_reported(question: str):
    answers = answers_to(question)
    for answer in answers:
        c = answer.certificate
        assert c.claim in CLAIMS[answer.status], f"{answer.status}: {c.claim}"
        if c.claim in {cp.Claim.PROVED, cp.Claim.REPORTED}:
            assert c.gap <= GAP if answer.found else c.bound == np.inf
    report = answers.report()
    assert report["claim"].tolist() == [str(a.certificate.claim) for a in answers]
    assert report["status"].tolist() == [str(a.status) for a in answers]
    assert report["guarantee"].tolist() == [str(a.certificate.guarantee) for a in answers]


def test_the_questions_have_every_status_and_every_claim():
    seen = [(a.status, a.certificate.claim) for q in QUESTIONS for a in answers_to(q)]
    assert {status for status, _ in seen} == set(cp.Status)
    assert {claim for _, claim in seen} == set(cp.Claim)


@pytest.mark.parametrize("question", QUESTIONS)
def test_columns_hold_members_and_compare_with_nothing_else(question: str):
    answers = answers_to(question)
    columns = {
        cp.Status: answers.statuses,
        cp.Claim: answers.certificates.claim,
        cp.Guarantee: answers.certificates.guarantee,
    }
    for kind, column in columns.items():
        assert all(type(member) is kind for member in column)
        for number in range(len(kind)):  # members are no positions in their enum
            assert not (column == number).any()
    assert all(type(status) is cp.Status for status in answers.status)
    assert all(type(answer.status) is cp.Status for answer in answers)
