"""Raw rows to codes and back: what does not change comes back as it came."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.rows.encoding import decode, encode, match_columns, recode
from counterpoint.rows.table import Table

MIXED = cp.Features(
    [cp.Continuous("a"), cp.Integer("b"), cp.Categorical("c", ("x", "y", "gone"), stand_in="gone")]
)
FILLS = {"a": 0.25, "b": 3.5, "c": "gone"}


def cells(missing: object) -> st.SearchStrategy[list[tuple[object, ...]]]:
    row = st.tuples(
        st.sampled_from([1.5, -2.0, 0.25, np.nan]),
        st.sampled_from([1.0, 7.0, np.nan]),
        st.sampled_from(["x", "y", missing]),
    )
    return st.lists(row, min_size=1, max_size=6)


FRAMES = {
    "object": lambda rows: pd.DataFrame(rows, columns=list("abc")).astype({"c": object}),
    "nullable": lambda rows: pd.DataFrame(rows, columns=list("abc")).astype(
        {"a": "Float64", "b": "Int64", "c": "string"}
    ),
    "category": lambda rows: pd.DataFrame(rows, columns=list("abc")).astype(
        {"c": pd.CategoricalDtype(["x", "y"])}
    ),
    "polars": lambda rows: pl.from_pandas(
        pd.DataFrame(rows, columns=list("abc")).astype({"c": "string", "b": "Int64"})
    ),
}


def same(one, other) -> bool:
    if isinstance(one, pl.DataFrame):
        return one.equals(other, null_equal=True)
    pd.testing.assert_frame_equal(one, other)
    return True


@pytest.mark.parametrize("kind", FRAMES)
@given(rows=cells(None), seed=st.integers(0, 99))
def test_missing_cells_have_the_codes_of_their_fills_and_stay_missing(kind: str, rows, seed: int):
    table = Table.read(FRAMES[kind](rows))
    encoded = encode(table, MIXED, FILLS)
    assert not encoded.problems
    gone = np.array([[pd.isna(value) for value in row] for row in rows])
    np.testing.assert_array_equal(encoded.missing != 0, gone)
    np.testing.assert_array_equal(
        encoded.codes[gone], np.tile([0.25, 3.5, 2.0], (len(rows), 1))[gone]
    )
    every = slice(None)
    assert same(decode(table, MIXED, every, encoded.codes, encoded.codes).native, table.native)

    rng = np.random.default_rng(seed)
    after = np.array(encoded.codes)
    moved = rng.random(after.shape) < 0.5
    after[:, :2] += moved[:, :2]
    after[:, 2] = np.where(moved[:, 2], (after[:, 2] == 0).astype(float), after[:, 2])
    changed = after != encoded.codes
    answer = decode(table, MIXED, every, encoded.codes, after)
    np.testing.assert_array_equal(recode(answer, MIXED, encoded.codes, after), after)
    again = encode(answer, MIXED, FILLS)
    np.testing.assert_array_equal(again.codes, after)
    np.testing.assert_array_equal(again.missing != 0, gone & ~changed)


@given(
    matrix=arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2),
        elements=st.sampled_from([0.0, -0.0, 2.5, np.nan]),
    ),
    seed=st.integers(0, 99),
)
def test_floats_that_do_not_change_are_the_same_bits(matrix: np.ndarray, seed: int):
    matrix = np.where(np.isnan(matrix), -np.float64(np.nan), matrix)  # a NaN has a sign bit too
    table = Table.read(matrix)
    features = cp.Features(cp.Continuous(name) for name in table.names)
    encoded = encode(table, features, dict.fromkeys(table.names, 1.0))
    assert np.isfinite(encoded.codes).all()
    moved = np.random.default_rng(seed).random(matrix.shape) < 0.3
    after = np.where(moved, encoded.codes + 1.0, encoded.codes)
    answer = decode(table, features, slice(None), encoded.codes, after).native
    assert answer[~moved].tobytes() == matrix[~moved].tobytes()
    np.testing.assert_array_equal(answer[moved], encoded.codes[moved] + 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "Float32"])
def test_numbers_are_recoded_as_their_dtype_holds_them(dtype: str):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4], "c": ["x", "y"]}).astype({"a": dtype})
    before = encode(Table.read(frame), MIXED).codes
    after = before + np.array([[0.1, 1.0, 0.0], [0.0, 0.0, 0.0]])
    returned = decode(Table.read(frame), MIXED, slice(None), before, after)
    codes = recode(returned, MIXED, before, after)
    held = np.array([1.1], dtype=dtype.lower())[0]
    assert codes[0, 0] == float(held) != 1.1
    np.testing.assert_array_equal(codes, [[float(held), 4.0, 0.0], [2.0, 4.0, 1.0]])


def test_polars_floats_keep_null_and_nan_apart():
    frame = pl.DataFrame({"a": [1.0, None, float("nan")], "b": [None, 1.0, 2.0]})
    features = cp.Features([cp.Continuous("a"), cp.Continuous("b")])
    table = Table.read(frame)
    codes = encode(table, features, {"a": 5.0, "b": 6.0}).codes
    assert decode(table, features, slice(None), codes, codes).native.equals(frame, null_equal=True)


def test_without_a_fill_a_missing_cell_is_a_problem_of_its_row():
    frame = pd.DataFrame({"a": [1.0, np.nan, np.inf], "b": [1, 2, 3], "c": ["x", "y", None]})
    said = encode(Table.read(frame), MIXED, {"b": 1.0}, {"a": "nobody knows it"}).problems
    assert said == {
        1: "column 'a' is missing, and nobody knows it; expected a finite number. Fill it in.",
        2: "column 'a' is infinite. Replace it by a finite number.",
    }
    said = encode(Table.read(frame), MIXED, {"a": 1.0}).problems
    assert said[2] == "column 'a' is infinite. Replace it by a finite number."
    said = encode(Table.read(frame.assign(a=1.0)), MIXED).problems
    assert said == {2: "column 'c' is missing; expected one of its categories. Fill it in."}


def test_text_among_numbers_is_no_missing_cell():
    frame = pd.DataFrame({"a": [1.0, "many", None]}, dtype=object)
    features = cp.Features([cp.Continuous("a")])
    encoded = encode(Table.read(frame), features, {"a": 2.0})
    assert encoded.problems == {1: "column 'a' holds 'many'; expected a number."}
    assert encoded.codes[2, 0] == 2.0


# --- frames whose columns are numbered ---


def numbered(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(n, 3))
    return data, (data @ [1.0, -1.0, 0.5] > 0).astype(int)


@pytest.mark.parametrize("columns", [None, [5, 3, 4], [0.5, 1.5, 2.5]])
def test_numbered_columns_go_by_position(columns):
    data, labels = numbered()
    frame = pd.DataFrame(data, columns=columns)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data, labels)
    for given_data in (data, None):
        explainer = cp.Explainer(
            model, data=given_data, cost=cp.Manhattan(), constraints=[cp.Immutable("x0")]
        )
        expected = explainer.explain(data, 1).to_frame()
        answers = explainer.explain(frame, 1)
        after = answers.to_frame()
        pd.testing.assert_frame_equal(after, pd.DataFrame(expected, columns=columns))
        assert answers[0].factual == dict(zip(("x0", "x1", "x2"), data[0], strict=True))


def test_features_keep_the_numbers_of_the_columns_of_the_data():
    data, labels = numbered()
    frame = pd.DataFrame(data)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, labels)
    explainer = cp.Explainer(model, data=frame, constraints=[cp.Immutable(1)])
    assert explainer.features.names == (0, 1, 2)
    answers = explainer.explain(frame, 1)
    assert (model.predict(answers.to_frame()) == 1).all()
    assert (answers.to_frame()[1] == frame[1]).all()
    np.testing.assert_array_equal(explainer.explain(data, 1).to_frame(), answers.to_frame())
    turned = explainer.explain(frame[[2, 0, 1]], 1).to_frame()  # they have names, so names decide
    pd.testing.assert_frame_equal(turned[[0, 1, 2]], answers.to_frame())


def test_numbered_columns_of_many_dtypes_with_holes():
    data, labels = numbered()
    frame = pd.DataFrame(data).assign(kind=1)
    frame["kind"] = np.arange(len(frame)) % 3
    frame = frame.set_axis(range(4), axis=1)
    frame.iloc[::5, 0] = np.nan
    before = make_column_transformer((SimpleImputer(), [0, 1]), ("passthrough", [2, 3]))
    model = make_pipeline(before, LogisticRegression()).fit(frame, labels)
    answers = cp.Explainer(model, cost=cp.Manhattan()).explain(frame, 1)
    assert answers.found.all()
    after = answers.to_frame()
    assert list(after.columns) == [0, 1, 2, 3]
    assert (model.predict(after) == 1).all()
    same(after.mask(answers.changed), frame.mask(answers.changed))


def test_positions_are_not_guessed():
    data, labels = numbered()
    features = cp.Features(cp.Continuous(f"x{j}") for j in range(3))
    for frame, named in [
        (pd.DataFrame(data), True),  # the model knows names
        (pd.DataFrame(data, columns=list("abc")), False),  # so does the frame
        (pd.DataFrame(data, columns=[0, 1, "c"]), False),
        (pd.DataFrame(data[:, :2]), False),  # too few
    ]:
        with pytest.raises(cp.InvalidInput, match="missing: 'x0'"):
            match_columns(Table.read(frame), features, named=named)
    named_model = LogisticRegression().fit(pd.DataFrame(data, columns=list("abc")), labels)
    with pytest.raises(cp.InvalidInput, match="missing: 'a'"):
        cp.Explainer(named_model, cost=cp.Manhattan()).explain(pd.DataFrame(data), 1)
