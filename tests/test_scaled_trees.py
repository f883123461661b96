"""Trees behind scalers over whole steps: thresholds are data values, and rounding decides there.

The oracle asks the model about every point of a lattice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from test_ties import packaged

import counterpoint as cp
from counterpoint.families.trees.form import TreeScores
from counterpoint.models.columns import Columns
from counterpoint.models.dispatch import read_step
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table

COST = np.array([1.0, 0.5, 2.0])
STEPS = {"a": 1.0, "b": 0.1, "c": 0.25}
COUNT = 7
SMALL = {"max_depth": 3, "n_estimators": 5}

SCALERS: dict[str, Callable[[], Any]] = {
    "standard": StandardScaler,
    "without mean": lambda: StandardScaler(with_mean=False),
    "without scale": lambda: StandardScaler(with_std=False),
    "minimum": lambda: MinMaxScaler((-1.0, 2.0)),
    "robust": RobustScaler,
    "largest": MaxAbsScaler,
    "two": lambda: make_pipeline(MinMaxScaler(), StandardScaler()),
    "imputed": lambda: make_pipeline(SimpleImputer(), StandardScaler()),
}
MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(random_state=0, **SMALL),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=5, max_depth=3),
    "XGBoost": lambda: packaged("xgboost", "XGBClassifier", **SMALL),
    "LightGBM": lambda: packaged("lightgbm", "LGBMClassifier", verbose=-1, **SMALL),
}


def lattice(x: pd.Series | None = None) -> pd.DataFrame:
    """All rows that are whole steps from a row, or from 0, as answers are: x + k · step."""
    columns = []
    for name, step in STEPS.items():
        start = 0.0 if x is None else float(x[name])
        first = round(start / step)
        columns.append(start + np.arange(-first, COUNT - first) * step)
    grids = np.meshgrid(*columns, indexing="ij")
    return pd.DataFrame({name: g.ravel() for name, g in zip(STEPS, grids, strict=True)})


def fitted(scaler: str, model: str) -> Any:
    """A model of every second step, so that thresholds midway between values are steps as well."""
    rng, frame = np.random.default_rng([*scaler.encode(), *model.encode()]), lattice()
    even = frame[(np.rint(frame / [*STEPS.values()]) % 2 == 0).all(axis=1)]
    X = even.iloc[rng.integers(0, len(even), 200)].reset_index(drop=True)
    score = X.to_numpy() / COUNT / [*STEPS.values()] @ rng.normal(size=3) + 0.2 * rng.normal(
        size=200
    )
    return make_pipeline(SCALERS[scaler](), MODELS[model]()).fit(X, score > np.median(score))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scaler", SCALERS)
def test_whole_steps_on_thresholds_behind_a_scaler_are_decided(scaler: str, model: str) -> None:
    frame, pipeline = lattice(), fitted(scaler, model)
    features = [cp.Integer(name, step=step) for name, step in STEPS.items()]
    cost = cp.Manhattan(dict(zip(STEPS, COST, strict=True)))
    explainer = cp.Explainer(pipeline, data=frame, features=features, cost=cost)
    rows = frame.iloc[[0, 100, 171, 342]]
    answers = explainer.explain(rows, cp.OtherLabel())
    for i, answer in enumerate(answers):
        points = lattice(rows.iloc[i])
        encoded_cost = (np.abs(points - rows.to_numpy()[i]) @ COST).to_numpy()
        meets = pipeline.predict(points) != pipeline.predict(rows)[i]
        assert str(answer.status) == "optimal"
        assert answer.cost == pytest.approx(encoded_cost[meets].min(), rel=1e-9)
        assert str(answer.certificate.claim) == "proved"
        assert cp.recheck(answer.to_record(), pipeline).ok


@pytest.mark.parametrize("scaler", SCALERS)
def test_the_last_number_up_to_a_threshold_is_what_the_scaler_says(scaler: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2)) * [1e-3, 1e6] + [5.0, -1e7]
    step = SCALERS[scaler]().fit(X)
    seen = read_step(step, Columns.inputs(2)).map()
    assert sorted(seen.computed) == [0, 1]
    np.testing.assert_array_equal(seen(X), step.transform(X))
    Z = step.transform(X)
    for i in range(2):
        thresholds = np.concatenate([Z[:, i], rng.normal(size=20), [0.0, -0.0, np.inf]])
        last = seen.last_up_to(i, thresholds)
        for at, ok in ((last, True), (np.nextafter(last, np.inf), False)):
            some = np.where(np.isfinite(at), at, 0.0)
            out = step.transform(np.column_stack([some, some]))[:, i]
            finite = np.isfinite(thresholds)
            np.testing.assert_array_equal((out <= thresholds)[finite], ok)
        assert last[-1] == np.inf


def test_beside_categories_or_behind_other_steps_it_is_not_known_how_scalers_compute() -> None:
    X = pd.DataFrame({"a": [0.0, 1.0, 3.0], "b": [1.0, 0.5, 7.0], "k": ["u", "v", "v"]})
    encoded = make_column_transformer((OneHotEncoder(), ["k"]), remainder="passthrough")
    sparse = make_pipeline(encoded, MaxAbsScaler()).fit(X)
    mixed = make_pipeline(PCA(), StandardScaler()).fit(X[["a", "b"]])
    again = make_pipeline(StandardScaler(), PCA()).fit(X[["a", "b"]])
    alone = make_column_transformer((OneHotEncoder(), ["k"]), (MinMaxScaler(), ["a", "b"])).fit(X)
    for step, count in ((sparse, 0), (mixed, 0), (again, 0), (alone, 2)):
        known = Features.from_data(Table.read(X[list(step.feature_names_in_)]))
        assert len(read_step(step, Columns.raw(known)).map().computed) == count


def test_rows_in_single_precision_are_in_doubt_at_thresholds() -> None:
    """A scaler computes in float32 there, and nobody says what that makes of a threshold."""
    model = fitted("standard", "histograms")
    features = [cp.Integer("a"), cp.Continuous("b"), cp.Integer("c", step=0.25)]
    explainer = cp.Explainer(model, data=lattice(), features=features)
    for dtype in ("float64", "float32"):
        rows = lattice().iloc[[0, 100]].astype(dtype)
        answers = explainer.explain(rows, cp.OtherLabel())
        form = answers.query.model.form
        assert isinstance(form, TreeScores)
        assert (form.thresholds(())[2].max() > 0.0) == (dtype == "float32")
        for answer in answers:
            assert cp.recheck(answer.to_record(), model).ok
