"""What a search leaves behind bounds every point that is asked for, whatever the multipliers are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.engine.evidence import Evidence

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["a", "b"])


@pytest.mark.parametrize("lead", [0.5, -0.5])
def test_a_bound_with_a_margin_is_below_what_leads_by_it(lead: float):
    """A row that leads by more already costs nothing, so that no multipliers bound it above 0."""
    model = LogisticRegression().fit(X, X["a"] + X["b"] > 0.0)
    cost = cp.Manhattan({"a": 1.0, "b": 2.0})
    explainer = cp.Explainer(model, data=X, cost=cost, extrapolate=True)
    piece = explainer._default_question.pieces(cp.Label(True)).listed[0]
    program, x = piece.program, X.to_numpy()
    cases, margin = program.cases(x), np.full((len(x), 2), [lead, 0.0])
    short = np.maximum(lead - model.decision_function(X), 0.0)
    optimum = short * (np.array([1.0, 2.0]) / np.abs(model.coef_[0])).min()
    for size in (0.1, 0.5, 1.0):
        multipliers = size * RNG.uniform(-1.0, 1.0, size=(len(x), program.size))
        proved = program.bound(cases, multipliers)
        known = Evidence(program, cases, multipliers, None, np.zeros(len(x)), proved=proved)
        bound, told = known.bounds(np.zeros(len(x)), margin)
        assert (bound <= optimum).all()
        assert (told <= optimum).all()
        assert size > 0.9 or bound.any()
