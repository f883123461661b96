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
    monkeypatch.setattr(validation, "MARGIN_FACTOR", 1e11)
    answers = explainer.explain(X.head(8), cp.OtherLabel())
    certificates = answers.certificates
    # where the first point was confirmed; elsewhere it was a tie that is lost
    gave_way = certificates.bound < certificates.cost * (1.0 - 1e-4)
    assert gave_way.any()
    assert certificates.bound[gave_way] == pytest.approx(honest.cost[gave_way], rel=1e-9)
    assert (answers.status[gave_way] == "suboptimal").all()
    assert (certificates.claim[gave_way] == "none").all()
