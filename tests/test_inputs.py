"""Rows in whatever holds them have the same answers, in kind; or a sentence says what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import counterpoint as cp

NUMBERS, WORDS, LEVELS = ["age", "income", "debt"], ["sex", "member"], ["low", "mid", "high"]
COST = cp.Manhattan(
    {"age": 0.3, "income": 0.2, "debt": 0.1, "sex": 3.0, "member": 2.5, "school": 2.0}
)
LIMITS = [cp.Bounds("debt", low=0.0, fall=2.0), cp.Bounds("income", rise=3.0)]


@cache
def people() -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    """A pipeline, the data it was fitted on, and rows that it refuses."""
    rng = np.random.default_rng(0)
    n = 120
    data = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": rng.normal(50.0, 15.0, n).round(2),
            "debt": rng.exponential(10.0, n).round(2),
            "sex": rng.choice(["f", "m"], n),
            "member": rng.random(n) < 0.4,
            "school": rng.choice(LEVELS, n),
        }
    )
    score = data["age"] / 20 + data["income"] / 12 - data["debt"] / 10 + data["member"]
    score += (data["sex"] == "f") + data["school"].map({"low": -1.0, "mid": 0.0, "high": 1.0})
    before = ColumnTransformer(
        [
            ("number", StandardScaler(), NUMBERS),
            ("word", OneHotEncoder(), WORDS),
            ("level", OrdinalEncoder(categories=[LEVELS]), ["school"]),
        ]
    )
    labels = np.where(score > score.median(), "yes", "no")
    model = make_pipeline(before, LogisticRegression()).fit(data, labels)
    worst = model.decision_function(data).argsort()
    return model, data, data.iloc[np.sort(worst[: len(data) // 2 : 7][:8])]


@cache
def explainer() -> cp.Explainer:
    model, data, _ = people()
    return cp.Explainer(model, data=data, cost=COST, constraints=LIMITS)


@cache
def expected() -> np.ndarray:
    answers = explainer().explain(people()[2], "yes")
    assert (answers.status == cp.Status.OPTIMAL).all()
    assert answers.changed.any(axis=0).all()  # each column is written to in some row
    return answers.cost


def typed(**dtypes: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda rows: rows.astype(dtypes)


def in_polars(**dtypes: Any) -> Callable[[pd.DataFrame], pl.DataFrame]:
    return lambda rows: pl.from_pandas(rows).with_columns(
        pl.col(name).cast(dtype) for name, dtype in dtypes.items()
    )


def in_arrow(rows: pd.DataFrame, sex: Any, school: Any) -> pa.Table:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    types = {"sex": sex, "school": school}
    return table.cast(pa.schema([(f.name, types.get(f.name, f.type)) for f in table.schema]))


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "as it was fitted": lambda rows: rows,
    "nullable": lambda rows: rows.convert_dtypes(),
    "in arrow's dtypes": lambda rows: rows.convert_dtypes(dtype_backend="pyarrow"),
    "categories": typed(sex="category", member="category", school="category"),
    "ordered categories": lambda rows: rows.assign(school=pd.Categorical(rows.school, LEVELS)),
    "levels that no row has": lambda rows: rows.assign(
        sex=pd.Categorical(rows.sex, ["f", "m", "other"])
    ),
    "strings": typed(sex="string", school="string"),
    "objects": typed(age=object, income=object, sex=object, member=object),
    "booleans as numbers": typed(member=int),
    "booleans as floats": typed(member=float),
    "whole numbers as floats": typed(age=float),
    "narrow whole numbers": typed(age="uint8"),
    "narrow nullable numbers": typed(age="Int8"),
    "numbers as text": typed(age=str, income=str),
    "numbers as strings": typed(age="string", income="string"),
    "numbers as categories": typed(age="category", income="category"),
    "a sparse column": typed(debt=pd.SparseDtype(float, 0.0)),
    "another order": lambda rows: rows[rows.columns[::-1]],
    "more columns": lambda rows: rows.assign(note="x", when=pd.Timestamp("2020-01-01")),
    "an unsorted index": lambda rows: rows.set_axis(np.arange(len(rows))[::-1] % 5),
    "a hierarchical index": lambda rows: rows.set_axis(
        pd.MultiIndex.from_product([["a", "b"], range(len(rows) // 2)], names=["age", "k"])
    ),
    "an index named like a column": lambda rows: rows.rename_axis("age"),
    "polars": in_polars(),
    "polars, narrow": in_polars(age=pl.UInt8, member=pl.Int8),
    "polars, categories": in_polars(sex=pl.Categorical, school=pl.Enum(LEVELS)),
    "polars, text": in_polars(age=pl.String),
    "arrow": lambda rows: in_arrow(rows, pa.string(), pa.string()),
    "arrow, large": lambda rows: in_arrow(rows, pa.large_string(), pa.large_string()),
    "arrow, categories": lambda rows: in_arrow(
        rows, pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string())
    ),
}
"""What holds rows that has names; each is answered in kind."""
WIDER = {
    "a sparse column": {"debt": "float64"},
}
"""Columns whose dtypes cannot hold their answers."""


def predicted(answers: Any) -> np.ndarray:
    model, data, _ = people()
    frame = answers
    if isinstance(answers, np.ndarray):
        frame = pd.DataFrame(answers, columns=data.columns)
    elif not isinstance(answers, pd.DataFrame):
        frame = answers.to_pandas()
    return np.asarray(model.predict(frame[list(data.columns)]))


@pytest.mark.filterwarnings("ignore:pandas.DataFrame with sparse columns")
@pytest.mark.parametrize("kind", FRAMES)
def test_the_same_rows_have_the_same_answers_in_kind(kind: str):
    rows = FRAMES[kind](people()[2])
    answers = explainer().explain(rows, "yes")
    assert (answers.status == cp.Status.OPTIMAL).all(), answers[0].message
    np.testing.assert_allclose(answers.cost, expected(), rtol=1e-6)
    after = answers.to_frame()
    assert type(after) is type(rows)
    assert (predicted(after) == "yes").all()
    if isinstance(rows, pd.DataFrame):
        pd.testing.assert_index_equal(after.index, rows.index)
        pd.testing.assert_index_equal(after.columns, rows.columns)
        wider = WIDER.get(kind, {})
        assert after.dtypes.astype(str).to_dict() == rows.dtypes.astype(str).to_dict() | wider
    else:
        assert after.schema == rows.schema


@pytest.mark.parametrize(
    "kind", ["nullable", "in arrow's dtypes", "categories", "objects", "polars"]
)
def test_the_data_may_come_in_another_frame_than_the_rows(kind: str):
    model, data, rows = people()
    held = FRAMES[kind](data)
    other = cp.Explainer(model, data=held, cost=COST, constraints=LIMITS)
    answers = other.explain(rows, "yes")
    np.testing.assert_allclose(answers.cost, expected(), rtol=1e-6)


LISTS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "objects": lambda rows: rows.to_numpy(),
    "lists": lambda rows: rows.to_numpy().tolist(),
    "tuples": lambda rows: tuple(rows.itertuples(index=False, name=None)),
    "records": lambda rows: rows.to_dict("records"),
    "columns": lambda rows: rows.to_dict("list"),
    "columns of arrays": lambda rows: {name: rows[name].to_numpy() for name in rows},
    "columns of series": lambda rows: {name: rows[name] for name in rows},
}


@pytest.mark.parametrize("kind", LISTS)
def test_rows_without_a_frame(kind: str):
    """Text among the cells does not make text of the numbers."""
    answers = explainer().explain(LISTS[kind](people()[2]), "yes")
    np.testing.assert_allclose(answers.cost, expected(), rtol=1e-6)
    assert (predicted(answers.to_frame()) == "yes").all()


@pytest.mark.parametrize("kind", ["series", "mapping", "list", "tuple"])
def test_one_row(kind: str):
    row = people()[2].iloc[0]
    given = {"series": row, "mapping": row.to_dict(), "list": row.tolist(), "tuple": tuple(row)}
    answers = explainer().explain(given[kind], "yes")
    assert answers.cost == pytest.approx(expected()[:1])


def test_no_rows_and_rows_with_holes_in_every_dtype():
    rows = people()[2][:3]
    for kind in ("nullable", "in arrow's dtypes", "categories", "strings", "polars"):
        held = FRAMES[kind](rows)
        assert len(explainer().explain(held[:0], "yes")) == 0
        for name in rows:
            if isinstance(held, pl.DataFrame):
                broken = held.with_columns(
                    pl.when(pl.int_range(pl.len()) != 1).then(pl.col(name)).alias(name)
                )
            else:
                broken = held.copy()
                broken[name] = held[name].where(np.arange(len(rows)) != 1)
            answers = explainer().explain(broken, "yes")
            assert np.flatnonzero(answers.status == cp.Status.INVALID).tolist() == [1]
            assert f"column {name!r} is missing" in answers[1].message


# Arrays of one dtype


@cache
def numbers() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3)) * [1.0, 10.0, 100.0]
    labels = (X @ [1.0, 0.1, 0.01] > 0.0).astype(int)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, labels), X


@pytest.mark.parametrize("dtype", [">f8", np.longdouble, object, "U32", "S32"], ids=str)
def test_arrays_of_wide_numbers_lose_nothing(dtype: Any):
    model, X = numbers()
    rows = X[model.predict(X) == 0][:5]
    answers = cp.Explainer(model, data=X).explain(rows.astype(dtype), 1)
    same = cp.Explainer(model, data=X).explain(rows, 1)
    assert (answers.status == cp.Status.OPTIMAL).all()
    np.testing.assert_allclose(answers.cost, same.cost, rtol=1e-9)
    assert (model.predict(answers.to_frame()) == 1).all()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool"])
def test_arrays_of_narrow_numbers_become_wide_enough(dtype: str):
    model, X = numbers()
    rows = np.zeros((1, 3)).astype(dtype)
    label = 1 - int(model.predict(rows)[0])
    answers = cp.Explainer(model, data=X).explain(rows, cp.Label(label, margin=0.5))
    assert answers.to_frame().dtype == np.float64
    assert model.predict(answers.to_frame())[0] == label


def in_polars(values: Any, dtype: Any) -> pl.DataFrame:
    return pl.DataFrame({"a": pl.Series(values).cast(dtype), "b": [0.5, 0.5, 0.5]})


def in_arrow_with(values: Any, dtype: Any) -> pa.Table:
    return pa.table({"a": pa.array(values).cast(dtype), "b": [0.5, 0.5, 0.5]})


@cache
def of_two_numbers() -> cp.Explainer:
    rng = np.random.default_rng(2)
    data = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    model = LogisticRegression().fit(data, data["a"] + data["b"] > 0)
    return cp.Explainer(model, data=data, extrapolate=True)


READ = {
    "decimal, polars": in_polars([1.5, -2.0, 0.5], pl.Decimal(10, 2)),
    "decimal, arrow": in_arrow_with([1.5, -2.0, 0.5], pa.decimal128(10, 2)),
    "decimal, pandas": in_arrow_with([1.5, -2.0, 0.5], pa.decimal128(10, 2)).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "int128": in_polars([1, -2, 3], pl.Int128),
    "int128, large": in_polars([1.0, -2.0, 2.0**70], pl.Int128),
    "boolean": in_polars([True, False, True], pl.Boolean),
}


@pytest.mark.parametrize("kind", READ)
def test_numbers_that_numpy_does_not_have_are_read(kind: str):
    answers = of_two_numbers().explain(READ[kind], cp.OtherLabel())
    assert (answers.status == cp.Status.OPTIMAL).all()
    after = answers.to_frame()
    assert type(after) is type(READ[kind])
    values = np.column_stack([np.asarray(after["a"]), np.asarray(after["b"])])
    assert values.dtype == np.float64
    codes = np.column_stack([[a.row["a"] for a in answers], [a.row["b"] for a in answers]])
    np.testing.assert_array_equal(values, codes)


NO_NUMBERS = {
    "Date": in_polars([1, 2, 3], pl.Date),
    "List": in_polars([[1.0], [2.0], [3.0]], pl.List(pl.Float64)),
    "Object": pl.DataFrame({"a": pl.Series([1, "x", 2], dtype=pl.Object), "b": [0.5] * 3}),
    "Date, arrow": in_arrow_with([1, 2, 3], pa.int32()).cast(
        pa.schema({"a": pa.date32(), "b": pa.float64()})
    ),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_a_dtype_that_holds_no_numbers_is_named(kind: str):
    answers = of_two_numbers().explain(NO_NUMBERS[kind], cp.OtherLabel())
    sentence = f" in dtype {kind.split(',', maxsplit=1)[0]}; expected a number."
    assert [a.message.endswith(sentence) for a in answers] == [True] * 3
    assert answers.to_frame().shape == (3, 2)


TEXT = {
    "polars": in_polars(["1.5", "x", "0.5"], pl.String),
    "categories": in_polars(["1.5", "x", "0.5"], pl.Categorical),
    "enum": in_polars(["1.5", "x", "0.5"], pl.Enum(["1.5", "x", "0.5"])),
    "arrow": in_arrow_with(["1.5", "x", "0.5"], pa.string()),
}


@pytest.mark.parametrize("kind", TEXT)
def test_numbers_as_text_are_read_where_the_model_reads_them(kind: str):
    """A scaler turns text into numbers itself; a logistic regression stops at it."""
    with pytest.raises(cp.InvalidInput, match=r"LogisticRegression.predict does not take these"):
        of_two_numbers().explain(TEXT[kind], cp.OtherLabel())
    rng = np.random.default_rng(2)
    data = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data, data.sum(axis=1) > 0)
    answers = cp.explain(model, TEXT[kind], cp.OtherLabel(), data=data, extrapolate=True)
    assert answers.found.tolist() == [True, False, True]
    assert answers[1].message == "column 'a' holds 'x'; expected a number."
    after = answers.to_frame()
    assert type(after) is type(TEXT[kind])
    assert after["b"].null_count == 1 if kind == "arrow" else after["b"].null_count() == 1


@pytest.mark.parametrize("hole", [0, 1, 2])
def test_a_hole_anywhere_in_polars_or_arrow_costs_its_row_alone(hole: int):
    values = [1.5 if i != hole else None for i in range(3)]
    for rows in (in_polars(values, pl.Float64), in_arrow_with(values, pa.float64())):
        answers = of_two_numbers().explain(rows, cp.OtherLabel())
        assert np.flatnonzero(~answers.found).tolist() == [hole]
        assert "is missing" in answers[hole].message


@pytest.mark.parametrize("count", [1, 2, 999])
def test_bad_cells_among_many_are_found_one_by_one(count: int):
    bad = np.random.default_rng(count).permutation(1000)[:count]
    cells = np.full(1000, 1.5, dtype=object)
    cells[bad] = [(10**400, "x", [1], 1j)[i % 4] for i in range(count)]
    answers = of_two_numbers().explain(pd.DataFrame({"a": cells, "b": 0.5}), cp.OtherLabel())
    assert np.flatnonzero(~answers.found).tolist() == sorted(bad.tolist())
    told = answers.report()["message"][bad]
    said = [f"column 'a' holds {cell!r}; expected a number." for cell in cells[bad]]
    assert told.tolist() == said


def test_masked_cells_are_missing():
    model, X = numbers()
    rows = np.ma.masked_array(X[:3], mask=np.eye(3, dtype=bool)[[0, 1, 1]])
    answers = cp.Explainer(model, data=X).explain(rows, 1)
    assert (answers.status == cp.Status.INVALID).all()
    assert "column 'x0' is missing" in answers[0].message
    assert "column 'x1' is missing" in answers[1].message
    whole = cp.Explainer(model, data=X).explain(np.ma.masked_array(X[:3]), 1)
    assert not (whole.status == cp.Status.INVALID).any()


def test_text_is_not_cut_to_the_width_of_what_came():
    words = np.array([["a", "hi"], ["b", "highest"], ["a", "highest"], ["b", "hi"]] * 10)
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(words, words[:, 1])
    answers = cp.Explainer(model, data=words).explain(np.array([["a", "hi"]]), "highest")
    assert answers.to_frame().tolist() == [["a", "highest"]]


def test_a_category_between_whole_numbers_is_not_rounded():
    rows = np.array([[0.0], [0.5], [1.0]] * 10)
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(rows, rows[:, 0] == 0.5)
    answers = cp.Explainer(model, data=rows).explain(np.array([[1]]), True)
    assert answers.to_frame().tolist() == [[0.5]]


# Whole numbers


@pytest.mark.parametrize("seed", range(6))
def test_whole_columns_stay_whole_to_the_bit(seed: int):
    """Steps counted in units of score are whole numbers of steps of the column."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "a": rng.integers(-50, 50, 60),
            "b": 10.0 * rng.normal(size=60),
            "c": rng.integers(90, size=60),
        }
    )
    score = data @ rng.normal(size=3) + rng.normal(size=60)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data, score > score.median())
    cost = cp.Manhattan(10.0 ** rng.uniform(-3.0, 1.0, 3))
    for constraints in ([], [cp.MaxChanges(1)]):
        explainer = cp.Explainer(model, data=data, cost=cost, constraints=constraints)
        for label in (False, True):
            answers = explainer.explain(data[:25], label)
            assert answers.found.all()
            assert (answers.to_frame().dtypes == data.dtypes).all()


# Missing cells that an encoder knows


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder(encoded_missing_value=9)])
def test_missing_cells_that_are_a_category_are_said_to_be(encoder: Any):
    """They cost their rows, and no answer makes a cell missing."""
    rng = np.random.default_rng(0)
    words = rng.choice(["a", "b", None], 60)
    data = pd.DataFrame({"word": words, "n": rng.normal(size=60)})
    before = ColumnTransformer([("w", encoder, ["word"])], remainder="passthrough")
    labels = (data["n"] + 2.0 * data["word"].isna()) > 0.5
    model = make_pipeline(before, LogisticRegression()).fit(data, labels)
    answers = cp.Explainer(model, data=data, cost=cp.Manhattan({"word": 1e-3})).explain(data, True)
    invalid = answers.status == cp.Status.INVALID
    np.testing.assert_array_equal(invalid, data["word"].isna())
    sentence = "column 'word' is missing, and the model takes that for a category of its own; "
    assert all(answers[i].message.startswith(sentence) for i in np.flatnonzero(invalid))
    after = answers.to_frame()[answers.found]
    assert model.predict(after).all()
    assert not after["word"].isna().any()


# What is refused


REFUSED: dict[str, tuple[Callable[[pd.DataFrame], Any], str]] = {
    "a lazy frame": (lambda rows: pl.from_pandas(rows).lazy(), r"got LazyFrame. Call collect\(\)"),
    "a structured array": (
        lambda rows: rows.to_records(index=False),
        r"got a structured one with the fields age, .*Pass pd.DataFrame\(rows\)",
    ),
    "ragged lists": (lambda _: [[1.0, 2.0], [3.0]], "rows of the same length; got lists of diff"),
    "ragged columns": (lambda _: {"age": [1, 2], "income": [3.0]}, "columns of the same length"),
    "the same column twice": (
        lambda rows: pd.concat([rows, rows[["age"]]], axis=1),
        "distinct column names; got age more than once",
    ),
    "hierarchical columns": (
        lambda rows: rows.set_axis(pd.MultiIndex.from_product([["a"], rows.columns]), axis=1),
        r"missing: 'age'.*known: \('a', 'age'\)",
    ),
    "a sparse matrix": (lambda _: sparse.csr_array(np.eye(6)), r"dense: pass rows.toarray\(\)"),
    "no rows at all": (lambda _: [], "got list"),
    "a set": (lambda _: {1.0}, "got set"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_holds_no_rows_is_refused_in_a_sentence(kind: str):
    make, sentence = REFUSED[kind]
    with pytest.raises(cp.InvalidInput, match=sentence) as error:
        explainer().explain(make(people()[2]), "yes")
    assert "\n" not in str(error.value)


def test_categories_of_dates_are_dates():
    days = pd.date_range("2020-01-01", periods=3)
    data = pd.DataFrame({"day": pd.Categorical(list(days) * 10), "n": np.arange(30.0)})
    model = make_pipeline(
        ColumnTransformer([("d", OneHotEncoder(), ["day"])], remainder="passthrough"),
        LogisticRegression(),
    ).fit(data, np.arange(30) > 14)
    with pytest.raises(cp.InvalidInput, match="Column 'day' holds dates; turn them into a number"):
        cp.Explainer(model, data=data)


def test_an_unknown_category_is_shown_as_it_is():
    rows = people()[2].assign(sex=np.int64(1))
    assert "unknown category 1;" in explainer().explain(rows, "yes")[0].message


@pytest.mark.parametrize("label", [np.array("yes"), np.array(["yes"]), np.str_("yes")])
def test_a_label_may_be_numpys(label: Any):
    assert explainer().explain(people()[2], label).found.all()


def test_a_series_is_no_label():
    with pytest.raises(cp.InvalidInput, match="Expected a class label; got a Series"):
        explainer().explain(people()[2], pd.Series(["yes"]))
