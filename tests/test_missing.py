"""Missing cells count as what the pipeline fills in, and stay missing unless they change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectKBest
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import counterpoint as cp
from counterpoint.models import see_through

NUMBERS = ["income", "debt", "flag"]
WORDS = ["home", "job"]


def people(
    n: int = 240, seed: int = 0, *, none: object = np.nan
) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with holes everywhere, and labels that depend on every column."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "income": rng.normal(3.0, 1.0, n),
            "debt": rng.integers(0, 9, n).astype(float),
            "flag": rng.integers(0, 2, n).astype(float),
            "home": rng.choice(["own", "rent", "free"], n),
            "job": rng.choice(["a", "b", "c"], n),
        }
    )
    value = data["income"] - 0.2 * data["debt"] + data["flag"] + (data["home"] == "own")
    labels = np.where(value + rng.normal(0, 0.3, n) > 3.0, "yes", "no")
    for name in data:
        hole = rng.random(n) < 0.25
        if name in WORDS:
            data[name] = data[name].astype(object)
        data.loc[hole, name] = none if name in WORDS else np.nan
    return data, labels


def pipeline(numbers, words, classifier=None, *, unknown: str = "error"):
    encoder = OneHotEncoder(handle_unknown=unknown)
    before = make_column_transformer(
        (make_pipeline(numbers, StandardScaler()), NUMBERS),
        (make_pipeline(words, encoder), WORDS),
    )
    return make_pipeline(before, classifier or LogisticRegression())


NUMERIC = {
    "mean": SimpleImputer(),
    "median": SimpleImputer(strategy="median"),
    "often": SimpleImputer(strategy="most_frequent"),
    "minus one": SimpleImputer(strategy="constant", fill_value=-1.0),
}
TEXT = {
    "often": SimpleImputer(strategy="most_frequent"),
    "word": SimpleImputer(strategy="constant", fill_value="none"),
}


def filled(data: pd.DataFrame, explainer: cp.Explainer) -> pd.DataFrame:
    """The rows as a person would write them who knows the fills."""
    return data.fillna(value=dict(explainer.reading.fills))


@pytest.mark.covering(1)
@pytest.mark.parametrize("words", TEXT)
@pytest.mark.parametrize("numbers", NUMERIC)
def test_a_missing_cell_counts_as_its_fill(numbers: str, words: str):
    data, labels = people()
    model = pipeline(NUMERIC[numbers], TEXT[words]).fit(data, labels)
    constraints = [cp.Monotone("debt", "decreasing"), cp.Bounds("income", rise=2.0)]
    explainer = cp.Explainer(model, data=data, constraints=constraints)
    assert set(explainer.reading.fills) == set(data)
    for label in ("yes", "no"):
        answers = explainer.explain(data, label)
        assert not (answers.status == cp.Status.INVALID).any()
        written = explainer.explain(filled(data, explainer), label)
        np.testing.assert_array_equal(answers.status, written.status)
        np.testing.assert_allclose(answers.cost, written.cost, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(answers.changed, written.changed)
        assert answers.found.any()
        assert (model.predict(answers.to_frame()) == label).all()
        assert np.nanmax(answers.certificates.violation) <= 1e-9


@pytest.mark.parametrize("words", TEXT)
def test_what_is_missing_stays_missing_unless_it_changes(words: str):
    data, labels = people()
    model = pipeline(SimpleImputer(), TEXT[words]).fit(data, labels)
    answers = cp.Explainer(model, data=data).explain(data, "yes")
    after = answers.to_frame()
    before, changed = data.loc[after.index], answers.changed[answers.found]
    assert (changed & before.isna().to_numpy()).any(), "the data should show the law"
    assert (after.dtypes == before.dtypes).all()
    for j, name in enumerate(data):
        kept = ~changed[:, j]
        pd.testing.assert_series_equal(after[name][kept], before[name][kept])
        assert not after[name][changed[:, j]].isna().any()


def test_changes_say_that_a_cell_was_missing():
    data, labels = people()
    model = pipeline(SimpleImputer(), TEXT["word"]).fit(data, labels)
    answers = cp.Explainer(model, data=data).explain(data, "yes")
    table = answers.changes()
    assert table["from"].isna().any()
    for row, feature, old in zip(table["row"], table["feature"], table["from"], strict=True):
        assert pd.isna(old) == pd.isna(data[feature].iloc[row])
        one = answers[row]
        assert pd.isna(one.changes[feature][0]) == pd.isna(old)
        assert not pd.isna(one.changes[feature][1])
        assert one.row[feature] == one.changes[feature][1]


def test_no_answer_chooses_what_stands_for_missing_cells():
    data, _ = people()
    model = pipeline(SimpleImputer(), TEXT["word"]).fit(
        data, np.where(data["home"].isna(), "yes", "no")
    )
    explainer = cp.Explainer(model, data=data, cost=cp.Manhattan({"home": 1e-3}))
    answers = explainer.explain(data, "yes")  # "none" would be by far the cheapest
    homes = answers.to_frame()["home"][answers.found]
    assert "none" not in set(homes)
    assert (homes.isna() == data.loc[homes.index, "home"].isna()).all()
    observed = cp.Explainer(model, data=data, constraints=[cp.WithinObserved()])
    assert (observed.explain(data, "no").certificates.violation[data["home"].isna()] == 0).any()


def test_an_encoder_that_ignores_the_fill():
    data, labels = people()
    whole = data.assign(home=data["home"].fillna("own"), job=data["job"].fillna("a"))
    model = pipeline(SimpleImputer(), TEXT["word"], unknown="ignore").fit(whole, labels)
    answers = cp.Explainer(model, data=whole).explain(data, "yes")
    assert answers.found.all()
    assert (model.predict(answers.to_frame()) == "yes").all()


def test_an_encoder_that_stops_at_the_fill():
    data, labels = people()
    whole = data.assign(home=data["home"].fillna("own"), job=data["job"].fillna("a"))
    model = pipeline(SimpleImputer(), TEXT["word"]).fit(whole, labels)
    explainer = cp.Explainer(model, data=whole)
    assert explainer.features["home"].categories == ("free", "own", "rent")
    answers = explainer.explain(data, "yes")
    gone = data[WORDS].isna().any(axis=1).to_numpy()
    np.testing.assert_array_equal(answers.status == cp.Status.INVALID, gone)
    said = answers[int(gone.argmax())].message
    assert "the pipeline fills in 'none', which is none of the categories it takes" in said


def test_an_encoder_that_makes_nothing_finite_of_the_fill():
    data, labels = people()
    whole = data.assign(home=data["home"].fillna("own"))
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    model = make_pipeline(
        make_column_transformer((make_pipeline(TEXT["word"], encoder), ["home"])),
        LogisticRegression(),
    ).fit(whole, labels)
    explainer = cp.Explainer(model, data=whole)
    assert not explainer.reading.fills


# --- where a missing cell counts as no one value ---

DEPENDS = "the pipeline's fill for it depends on other columns"
INDICATED = "the model also looks at whether it is missing"


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (KNNImputer(), DEPENDS),
        (IterativeImputer(max_iter=2, tol=1e9), DEPENDS),
        (SimpleImputer(add_indicator=True), INDICATED),
        (make_union(SimpleImputer(), MissingIndicator()), INDICATED),
        (
            make_union(SimpleImputer(), SimpleImputer(strategy="constant", fill_value=-1.0)),
            " here and ",
        ),
        (
            make_union(SimpleImputer(), make_pipeline(StandardScaler(), SimpleImputer())),
            "everywhere",
        ),
        (make_pipeline(StandardScaler(), SimpleImputer()), "is missing; expected"),
    ],
    ids=repr,
)
def test_a_column_without_one_fill_says_why(before, why: str):
    data, labels = people()
    rows = data[["income", "debt"]]
    model = make_pipeline(before, LogisticRegression()).fit(rows, labels)
    explainer = cp.Explainer(model, data=rows)
    assert not explainer.reading.fills
    answers = explainer.explain(rows, "yes")
    gone = rows.isna().any(axis=1).to_numpy()
    np.testing.assert_array_equal(answers.status == cp.Status.INVALID, gone)
    assert why in answers[int(gone.argmax())].message
    assert answers.found[~gone].all()


def test_the_same_fill_twice_is_one_fill():
    data, labels = people()
    rows = data[["income", "debt"]]
    model = make_pipeline(make_union(SimpleImputer(), SimpleImputer()), LogisticRegression())
    answers = cp.Explainer(model.fit(rows, labels), data=rows).explain(rows, "yes")
    assert answers.found.all()


def test_a_column_that_is_used_as_it_is_elsewhere():
    data, labels = people()
    whole = data[["income", "debt"]].fillna(1.0)
    before = make_column_transformer(
        (SimpleImputer(), ["income", "debt"]), ("passthrough", ["debt"])
    )
    model = make_pipeline(before, LogisticRegression()).fit(whole, labels)
    explainer = cp.Explainer(model, data=whole)
    assert set(explainer.reading.fills) == {"income"}
    said = explainer.explain(data[["income", "debt"]].iloc[data["debt"].isna().argmax()], "yes")[0]
    assert "the pipeline does not fill it in everywhere" in said.message


def test_a_step_before_the_imputer_that_stops_at_missing_cells():
    data, labels = people()
    whole = data[["income", "debt"]].fillna(1.0)
    model = make_pipeline(SelectKBest(k=1), SimpleImputer(), LogisticRegression()).fit(
        whole, labels
    )
    answers = cp.Explainer(model, data=whole).explain(data[["income", "debt"]], "yes")
    gone = data[["income", "debt"]].isna().any(axis=1).to_numpy()
    np.testing.assert_array_equal(answers.status == cp.Status.INVALID, gone)
    assert answers.found[~gone].all()


def test_none_is_missing_only_to_an_imputer_that_takes_it_for_missing():
    data, labels = people()
    model = pipeline(SimpleImputer(), TEXT["word"]).fit(data, labels)
    rows = data.copy()
    at = int(rows["home"].isna().argmax())
    rows.iloc[at, rows.columns.get_loc("home")] = None
    answers = cp.Explainer(model, data=data).explain(rows, "yes")
    assert answers.status[at] == cp.Status.INVALID
    assert "column 'home' holds None, which the pipeline does not fill in" in answers[at].message
    assert answers.found.sum() == len(rows) - 1


def test_a_cell_at_which_the_imputer_stops_costs_only_its_row():
    data, labels = people()
    model = pipeline(SimpleImputer(), TEXT["often"]).fit(data, labels)
    rows = data.astype({"home": "string"})  # its pd.NA has no truth value
    answers = cp.Explainer(model, data=data).explain(rows, "yes")
    gone = data["home"].isna().to_numpy()
    np.testing.assert_array_equal(answers.status == cp.Status.INVALID, gone)
    assert "column 'home' holds <NA>" in answers[int(gone.argmax())].message
    assert answers.found[~gone].all()


def test_a_fill_that_is_not_the_models_is_never_believed():
    data, labels = people()
    model = pipeline(SimpleImputer(), TEXT["word"]).fit(data, labels)
    explainer = cp.Explainer(model, data=data)
    for name, wrong in {"debt": 0.0, "home": "own"}.items():
        fills = {**explainer.reading.fills, name: wrong}
        lying = cp.Explainer(model, data=data)
        lying.reading = replace(explainer.reading, fills=fills)
        lying._queries = type(lying._queries)()  # made anew with these fills
        answers = lying.explain(data, "yes")
        gone = data[name].isna().to_numpy()
        np.testing.assert_array_equal(answers.status == cp.Status.INVALID, gone)


# --- frames of every sort ---


@pytest.mark.parametrize("whole", [False, True])
def test_polars_nulls(whole: bool):
    data, labels = people(none=None)
    words = SimpleImputer(strategy="most_frequent", missing_values=None)
    model = pipeline(SimpleImputer(), words).fit(data, labels)
    if whole:
        data = data[NUMBERS]
        model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(data, labels)
    frame = pl.from_pandas(data)
    answers = cp.Explainer(model, data=data).explain(frame, "yes")
    assert answers.found.all()
    after = answers.to_frame()
    assert after.schema == frame.schema
    assert (model.predict(after.to_pandas() if whole else after) == "yes").all()
    for j, name in enumerate(frame.columns):
        kept = pl.Series(~answers.changed[:, j])
        assert after[name].filter(kept).equals(frame[name].filter(kept), null_equal=True)
    assert answers.changes()["from"].null_count() > 0


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "float32", "object"])
def test_nullable_numbers(dtype: str):
    data, labels = people()
    rows = data[["debt", "income"]].astype({"debt": dtype})
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(rows, labels)
    answers = cp.Explainer(
        model, data=rows, extrapolate=True, constraints=[cp.Immutable("income")]
    ).explain(rows, "yes")
    assert answers.found.all()
    after = answers.to_frame()
    assert (model.predict(after) == "yes").all()
    changed = answers.changed[:, 0]
    assert (changed & rows["debt"].isna()).any()
    assert after["debt"][~changed].isna().equals(rows["debt"][~changed].isna())
    assert not after["debt"][changed].isna().any()


@pytest.mark.parametrize("dtype", ["category", "str"])
@pytest.mark.parametrize("words", TEXT)
def test_words_of_every_dtype(dtype: str, words: str):
    data, labels = people()
    rows = data.astype(dict.fromkeys(WORDS, dtype))
    model = pipeline(SimpleImputer(), TEXT[words]).fit(rows, labels)
    answers = cp.Explainer(model, data=rows).explain(rows, "yes")
    assert answers.found.all()
    after = answers.to_frame()
    assert (after.dtypes == rows.dtypes).all()
    assert (model.predict(after) == "yes").all()


def test_arrays():
    data, labels = people()
    rows = data[NUMBERS].to_numpy()
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(rows, labels)
    answers = cp.Explainer(model, data=rows).explain(rows, "yes")
    after = answers.to_frame()
    assert (model.predict(after) == "yes").all()
    np.testing.assert_array_equal(after[~answers.changed], rows[~answers.changed])
    assert not np.isnan(after[answers.changed]).any()


def test_a_whole_number_moves_in_steps_from_its_fill():
    data, labels = people(seed=1)
    rows = data[["debt", "income"]]
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(rows, labels)
    fill = model[0].statistics_[0]
    assert fill % 1 != 0
    explainer = cp.Explainer(
        model, data=rows, features=[cp.Integer("debt")], constraints=[cp.Immutable("income")]
    )
    for given in (rows, rows.astype({"debt": "Int64"})):
        answers = explainer.explain(given, "yes")
        after = answers.to_frame()["debt"]
        gone = rows["debt"].isna().to_numpy()
        changed = answers.changed[:, 0]
        moved = after[gone & changed].astype(float) - fill
        assert len(moved)
        np.testing.assert_allclose(moved % 1, moved.round() % 1, atol=1e-9)
        assert after[gone & ~changed].isna().all()


# --- regressors, costs, words ---


def test_regressors():
    data, _ = people()
    rows = data[["income", "debt"]]
    value = rows["income"].fillna(3.0) - rows["debt"].fillna(4.0)
    model = make_pipeline(SimpleImputer(), LinearRegression()).fit(rows, value)
    answers = cp.Explainer(model, data=rows).explain(rows, cp.Interval(2.0, 3.0))
    predicted = model.predict(answers.to_frame())
    assert answers.found.all()
    assert ((predicted >= 2.0) & (predicted <= 3.0)).all()


def test_the_default_cost_looks_at_what_is_there():
    data, _ = people()
    for name, weight in cp.mad_weights(data[["income", "debt"]]).items():
        there = data[name].dropna()
        assert weight == pytest.approx(1 / np.median(np.abs(there - there.median())))


def test_the_summary_says_what_is_filled_in():
    data, labels = people()
    model = pipeline(SimpleImputer(strategy="constant", fill_value=-1.0), TEXT["word"])
    line = next(
        line
        for line in cp.Explainer(model.fit(data, labels), data=data).summary().splitlines()
        if "missing" in line
    )
    assert "income as -1" in line
    assert "home as none" in line


def test_a_column_that_is_all_missing():
    data, labels = people()
    data = data.assign(nothing=np.nan)
    model = pipeline(SimpleImputer(), TEXT["word"]).fit(data, labels)
    assert cp.Explainer(model, data=data).explain(data, "yes").found.any()
    used = make_pipeline(SimpleImputer(keep_empty_features=True), LogisticRegression())
    rows = data[["income", "nothing"]]
    with pytest.raises(cp.InvalidInput, match="'nothing' has no finite value"):
        cp.Explainer(used.fit(rows, labels), data=rows)


def test_without_data_the_fills_are_the_same():
    data, labels = people()
    for words in TEXT.values():
        model = pipeline(SimpleImputer(), words).fit(data, labels)
        with_data = cp.Explainer(model, data=data).reading.fills
        assert see_through(model, None, fixed=False).fills == with_data


# --- real data ---


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("strategy", ["mean", pytest.param("median", marks=pytest.mark.slow)])
def test_ames(ames: pd.DataFrame, strategy: str, count: int):
    labels = np.where(ames.pop("SalePrice") >= 160_000, "high", "low")
    ames = ames.drop(columns=["Order", "PID"])
    numbers = ames.select_dtypes("number").columns.tolist()
    words = [name for name in ames if name not in numbers]
    before = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy=strategy), StandardScaler()), numbers),
        (make_pipeline(TEXT["word"], OneHotEncoder(handle_unknown="ignore")), words),
    )
    model = make_pipeline(before, LogisticRegression(max_iter=2000)).fit(ames, labels)
    assert ames.isna().any(axis=1).all(), "every row has holes"
    rows = ames[labels == "low"].head(count)
    answers = cp.Explainer(model, data=ames).explain(rows, "high")
    assert answers.found.all()
    after = answers.to_frame()
    assert (model.predict(after) == "high").all()
    assert (after.dtypes == rows.dtypes).all()
    pd.testing.assert_frame_equal(after.mask(answers.changed), rows.mask(answers.changed))
    assert answers.certificates.violation.max() <= 1e-9
