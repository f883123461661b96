"""What a search leaves behind bounds what is asked for, whatever its multipliers are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.engine.confirm import Confirmation, ask_about
from counterpoint.engine.evidence import Evidence
from counterpoint.engine.pieces import Task
from counterpoint.models import see_through
from counterpoint.rows.encoding import Rows
from counterpoint.solvers.base import Effort

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


def test_an_answer_is_optimal_among_those_that_lead_by_rounding_and_no_more():
    """A tenth too dear, it is not, by how much it was ever asked to lead."""
    model = LogisticRegression().fit(X, X["a"] + X["b"] > 0.0)
    far = X[~model.predict(X)].astype("float32")
    question, (_, inputs), eps = cp.Explainer(model, data=X, extrapolate=True)._read(far)
    reading = see_through(model, question.features, fixed=False)
    task = Task(reading, question, cp.Label(True), Effort(), eps)
    x = far.to_numpy(dtype=float)
    rows = Rows(np.arange(len(x)), np.arange(len(x)), inputs, x, x)
    search = Confirmation(task, rows, task.pieces)
    ask_about(task, rows, [search], None)
    every = np.ones(len(x), dtype=bool)
    assert search._optimal_among_leading(every)[0].all()
    search.exact = x + 1.1 * (search.exact - x)
    search.margin[:, 0] = model.decision_function(pd.DataFrame(search.exact, columns=X.columns))
    assert not search._optimal_among_leading(every)[0].any()
