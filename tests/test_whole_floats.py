"""Whole numbers that came as floats: in a data frame, they change in whole steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.lvq import LGMLVQ

pytestmark = pytest.mark.delicate


def households() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "income": rng.normal(50, 10, 300),
            "dependents": rng.integers(0, 6, 300).astype(float),
            "adults": rng.integers(1, 3, 300).astype(float),
        }
    )
    y = (X.income / 10 - X.dependents + rng.normal(0, 1, 300) > 3).astype(int)
    return X, y


def kind(values: Any, library: str = "pandas") -> cp.Feature:
    frame: Any = pd.DataFrame({"a": values})
    if library == "polars":
        frame = pl.from_pandas(frame)
    return cp.Features.from_data(frame)["a"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_three_different_whole_numbers_are_whole_steps(library: str):
    assert kind([1.0, 2.0, 3.0], library) == cp.Integer("a", observed=(1.0, 3.0))
    assert kind([1.0, np.nan, 3.0, 0.0], library) == cp.Integer("a", observed=(0.0, 3.0))
    assert isinstance(kind([1.0, 2.0, 2.0], library), cp.Continuous)  # whole by accident
    assert isinstance(kind([1.0, 2.0, 3.5], library), cp.Continuous)
    assert isinstance(kind([0.0, 1.0, np.nan], library), cp.Categorical)


def test_numbers_without_fractions_say_nothing():
    """Beyond 2**53, and in float32 beyond 2**24, every number is whole."""
    assert isinstance(kind([1e17, 2e17, 3e17]), cp.Continuous)
    assert isinstance(kind(np.array([1e8, 2e8, 3e8], np.float32)), cp.Continuous)
    assert isinstance(kind(np.array([1.0, 2.0, 3.0], np.float32)), cp.Integer)


def test_arrays_stay_continuous():
    values = np.arange(12.0).reshape(4, 3)
    assert all(isinstance(feature, cp.Continuous) for feature in cp.Features.from_data(values))
    assert all(isinstance(f, cp.Continuous) for f in cp.Features.from_data(values.tolist()))


@pytest.mark.parametrize("missing", [False, True])
def test_answers_are_whole_in_the_dtype_that_came(missing: bool):
    X, y = households()
    if missing:
        X.loc[::10, "dependents"] = np.nan
    imputer = SimpleImputer(strategy="median")
    model = make_pipeline(imputer, StandardScaler(), LogisticRegression()).fit(X, y)
    rows = X[(model.predict(X) == 0) & X.dependents.notna()]
    answers = cp.Explainer(model, data=X).explain(rows, 1)
    frame = answers.to_frame()
    assert (answers.status == cp.Status.OPTIMAL).all()
    assert frame.dtypes.equals(X.dtypes)
    assert answers.changed[:, 1].mean() > 0.3
    assert (frame.dependents % 1 == 0).all()
    # the cheapest of all whole numbers, by the model's own predict
    weights = cp.mad_weights(X)
    scale, coefficients = model[1], model[-1].coef_[0]
    for i in range(10):
        row, best = rows.iloc[i], np.inf
        for dependents in range(6):
            point = row.copy()
            point["dependents"] = dependents
            score = model.decision_function(point.to_frame().T)[0]
            income = row.income + max(-score, 0.0) * scale.scale_[0] / coefficients[0]
            if income <= X.income.max():
                cost = weights["dependents"] * abs(dependents - row.dependents)
                best = min(best, cost + weights["income"] * (income - row.income))
        assert answers[i].cost <= best * (1.0 + 1e-6)


def test_the_summary_says_so_and_how_to_lift_it():
    X, y = households()
    model = LogisticRegression().fit(X, y)
    summary = cp.Explainer(model, data=X).summary()
    assert "dependents: integer, steps of 1, 0 to 5\n" in summary
    assert "adults: continuous, 1 to 2\n" in summary
    sentence = "whole in the data, hence in whole steps: dependents (describe a column with Conti"
    assert sentence in summary
    lifted = cp.Explainer(model, data=X, features=cp.Continuous("dependents")).summary()
    assert "dependents: continuous, 0 to 5\n" in lifted
    assert "whole steps" not in lifted
    ints = cp.Explainer(model, data=X.astype({"dependents": int})).summary()
    assert "whole in the data" not in ints
    assert "may not be proved" not in summary


def test_the_summary_says_which_models_may_not_prove_whole_steps():
    X, y = households()
    model = LGMLVQ(random_state=0).fit(X, y)
    sentence = (
        "whole steps of dependents: answers of this model may not be proved to be the cheapest"
    )
    assert sentence in cp.Explainer(model, data=X).summary()
    lifted = cp.Explainer(model, data=X, features=cp.Continuous("dependents"))
    assert sentence not in lifted.summary()


def test_a_mean_that_float32_does_not_hold_leaves_a_column_continuous():
    """Whole steps from a mean of 2.6 would make rows with a missing cell unusable."""
    X, y = households()
    X.loc[::10, "dependents"] = np.nan
    X = X.astype(np.float32)
    model = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(X, y)
    explainer = cp.Explainer(model, data=X)
    assert isinstance(explainer.features["dependents"], cp.Continuous)
    assert "invalid" not in explainer.explain(X.head(30), 1).status.astype(str)
