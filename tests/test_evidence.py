"""What a search leaves behind bounds what is asked for, whatever its multipliers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.programs.evidence import Evidence
from counterpoint.search import validation

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["a", "b"])


@pytest.mark.parametrize("safety_margin", [0.5, -0.5])
def test_a_bound_with_a_margin_is_below_what_leads_by_it(safety_margin: float):
    """A row that leads by more already costs nothing, so that no multipliers bound it above 0."""
    model = LogisticRegression().fit(X, X["a"] + X["b"] > 0.0)
    cost = cp.Manhattan({"a": 1.0, "b": 2.0})
    explainer = cp.Explainer(model, data=X, cost=cost, extrapolate=True)
    piece = explainer._default_question.pieces(cp.Label(True)).listed[0]
    program, x = piece.program, X.to_numpy()
    cases, margin = program.cases(x), np.full((len(x), 2), [safety_margin, 0.0])
    short = np.maximum(safety_margin - model.decision_function(X), 0.0)
    optimum = short * (np.array([1.0, 2.0]) / np.abs(model.coef_[0])).min()
    for size in (0.1, 0.5, 1.0):
        multipliers = size * RNG.uniform(-1.0, 1.0, size=(len(x), program.size))
        proved = program.bound(cases, multipliers)
        known = Evidence(program, cases, multipliers, None, np.zeros(len(x)), proved=proved)
        bound, told = known.bounds(np.zeros(len(x)), margin)
        assert (bound <= optimum).all()
        assert (told <= optimum).all()
        assert size > 0.9 or bound.any()


def test_no_bound_is_above_a_point_that_gave_way_to_one_that_leads_by_more(
    monkeypatch: pytest.MonkeyPatch,
):
    """What was confirmed first may cost less than the answer, and a solver's word is not better."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.round(rng.normal(size=(60, 4)) * 8.0) / 8.0, columns=list("abcd"))
    model = LogisticRegression(C=100.0).fit(X, X.sum(axis=1) > 0.0)
    steps, limit = [cp.Integer("a", step=0.125)], [cp.MaxChanges(2)]
    explainer = cp.Explainer(model, data=X, features=steps, constraints=limit)
    honest = explainer.explain(X.head(8), cp.OtherLabel()).certificates
    bounds = Evidence.bounds

    def boastful(self: Evidence, *args: Any) -> tuple[np.ndarray, np.ndarray]:
        proved, told = bounds(self, *args)
        return proved, 2.0 * told

    monkeypatch.setattr(Evidence, "bounds", boastful)
    monkeypatch.setattr(validation, "SPARE", 1e11)
    answers = explainer.explain(X.head(8), cp.OtherLabel())
    certificates = answers.certificates
    # where the first point was confirmed; elsewhere it was a tie that is lost
    gave_way = certificates.bound < certificates.cost * (1.0 - 1e-4)
    assert gave_way.any()
    assert certificates.bound[gave_way] == pytest.approx(honest.cost[gave_way], rel=1e-9)
    assert (answers.status[gave_way] == "suboptimal").all()
    assert (certificates.claim[gave_way] == "none").all()
