"""Boosted tables and scorecards are read as the sums that they are."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint  # noqa: F401 (before what brings a HiGHS of its own)
from counterpoint.errors import UnsupportedModel
from counterpoint.families.additive.form import Additive
from counterpoint.models import see_through
from counterpoint.rows.features import Categorical, Continuous, Features
from counterpoint.testing import check_reader

RNG = np.random.default_rng(0)
DATA = pd.DataFrame(
    {
        "income": RNG.normal(size=400),
        "debts": RNG.integers(0, 9, size=400),
        "job": RNG.choice(["cook", "clerk", "smith"], size=400),
        "late": RNG.integers(0, 2, size=400).astype(bool),
        "age": RNG.normal(size=400),
    }
)
SCORE = DATA.income + (DATA.job == "cook") - 0.2 * DATA.debts + 0.3 * RNG.normal(size=400)
BINARY = np.where(SCORE > 0, "yes", "no")
THREE = np.where(DATA.age > 1, "later", BINARY)
NUMBERS = DATA[["income", "debts", "age"]].to_numpy()


def package(name):
    try:
        return __import__(name, fromlist=["_"])
    except ImportError as error:
        pytest.skip(f"{name} cannot be imported: {error}")


def boosted(kind, data, y, **options):
    glassbox = package("interpret.glassbox")
    given = {"interactions": 0, "n_jobs": 1, "outer_bags": 1, "max_rounds": 30, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(glassbox, f"ExplainableBoosting{kind}")(**given).fit(data, y)


def at_the_cuts(form, rows):
    out = [rows]
    for j, curve in form.curves:
        cuts = curve.starts[1:]
        for cut in np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)]):
            row = rows[[len(out) % len(rows)]].copy()
            row[:, j] = cut
            out.append(row)
    return np.concatenate(out)


# --- explainable boosting machines ---


@pytest.mark.parametrize("y", [BINARY, THREE], ids=["two", "three"])
def test_a_boosted_classifier_is_a_table_a_column(y):
    model = boosted("Classifier", DATA, y)
    check_reader(model, DATA)
    assert isinstance(see_through(model, Features.from_data(DATA), fixed=False).form, Additive)


@pytest.mark.parametrize("objective", ["rmse", "poisson_deviance"])
def test_a_boosted_regressor_is_a_table_a_column(objective):
    check_reader(boosted("Regressor", DATA, DATA.debts + 1.0, objective=objective), DATA)


def test_boosted_tables_are_cut_at_the_same_numbers():
    model = boosted("Classifier", NUMBERS, BINARY)
    reading = see_through(model, None, fixed=False)
    assert not reading.named
    form, rows = reading.form, at_the_cuts(reading.form, NUMBERS)
    lifted = np.hstack([rows, *(curve(rows[:, j]) for j, curve in form.curves)])
    expected = model.decision_function(rows)
    np.testing.assert_allclose(form.inner.scores(lifted)[:, 1], expected, atol=1e-13)


def test_a_calibrated_boosted_classifier():
    model = boosted("Classifier", NUMBERS, BINARY)
    calibrated = CalibratedClassifierCV(model, method="isotonic", ensemble=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_reader(calibrated.fit(NUMBERS, BINARY), NUMBERS)


def test_interactions_and_categories_that_are_numbers_are_refused():
    with pytest.raises(
        UnsupportedModel, match=r"has interactions, such as that of .*interactions=0"
    ):
        see_through(boosted("Classifier", DATA, BINARY, interactions=2), None, fixed=False)
    kinds = ["nominal", "continuous", "continuous"]
    data = NUMBERS[:, [1, 0, 2]]
    model = boosted("Classifier", data, BINARY, feature_types=kinds)
    with pytest.raises(UnsupportedModel, match=r"takes categories, but .* Describe it as Categor"):
        see_through(model, None, fixed=False)
    model.bins_[1][0] = model.bins_[1][0][::-1].copy()
    features = Features([Categorical("x0", tuple(range(9))), Continuous("x1"), Continuous("x2")])
    with pytest.raises(UnsupportedModel, match=r"the bins of .* do not increase"):
        see_through(model, features, fixed=True)


# --- scorecards ---


def process(**options):
    optbinning, names = package("optbinning"), ["income", "debts", "job", "age", "late"]
    given = {"categorical_variables": ["job"], "max_n_bins": 6, "min_bin_size": 0.05, **options}
    return optbinning.BinningProcess(names, **given)


def scorecard(estimator, y, **options):
    binning, optbinning = process(**options), package("optbinning")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optbinning.Scorecard(binning, estimator).fit(DATA, y)


def test_a_scorecard_is_a_step_function_a_column():
    model = scorecard(LogisticRegression(), (BINARY == "yes").astype(int))
    check_reader(model, DATA)
    check_reader(scorecard(LinearRegression(), SCORE.to_numpy()), DATA)
    selected = scorecard(
        LogisticRegression(),
        (BINARY == "yes").astype(int),
        selection_criteria={"iv": {"strategy": "highest", "top": 2}},
    )
    check_reader(selected, DATA)


def test_a_binning_in_a_pipeline():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(process(), StandardScaler(), LogisticRegression())
        check_reader(model.fit(DATA, (BINARY == "yes").astype(int)), DATA)


def test_special_codes_are_refused():
    model = scorecard(
        LogisticRegression(), (BINARY == "yes").astype(int), special_codes=[-9.0, -8.0]
    )
    with pytest.raises(UnsupportedModel, match=r"has special codes, .* Mark them as missing"):
        see_through(model, Features.from_data(DATA), fixed=False)
