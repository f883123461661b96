"""Frames come back as they came, with some cells replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import counterpoint as cp
from counterpoint.rows.encoding import decode, encode
from counterpoint.rows.table import Table

FRAME = pd.DataFrame(
    {"a": [1.5, 2.5, 3.5], "b": [1, 2, 3], "c": ["x", "y", "x"]}, index=["r", "s", "t"]
)

DTYPES = [
    *("float64", "float32", "int64", "int32", "int16", "int8", "uint8"),
    *("Int64", "Int8", "UInt8", "Float64", "Float32"),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [None, ["p", "q", "r"], [7, 7, 7]], ids=["plain", "text", "same"])
def test_a_changed_cell_keeps_the_dtype(dtype: str, index: Any):
    frame = pd.DataFrame({"f": pd.array([1, 2, 3], dtype=dtype)}, index=index)
    changed = changed_to(frame, 5.0)
    assert changed["f"].dtype == dtype
    assert changed["f"].tolist() == [1, 5, 3]
    assert changed.index.equals(frame.index)
    assert frame["f"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "Int8"])
def test_a_number_that_does_not_fit_widens_the_dtype(dtype: str):
    frame = pd.DataFrame({"f": pd.array([1, 2, 3], dtype=dtype)})
    assert changed_to(frame, 300.0)["f"].tolist() == [1, 300, 3]
    assert changed_to(frame, -300.0)["f"].tolist() == [1, -300, 3]
    assert changed_to(frame, 0.5)["f"].tolist() == [1.0, 0.5, 3.0]


def changed_to(frame: Any, value: float) -> Any:
    cells = {"f": (np.array([1]), np.array([value]))}
    return Table.read(frame).with_cells(slice(None), cells).native


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int64, pl.Float32, pl.Float64, pl.UInt8])
def test_polars_keeps_its_dtypes(dtype: Any):
    frame = pl.DataFrame({"f": [1, 2, 3]}, schema={"f": dtype})
    changed = changed_to(frame, 5.0)
    assert changed.schema == frame.schema
    assert changed["f"].to_list() == [1, 5, 3]


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical(["x", "y", "x"]),
        np.array(["x", "y", "x"], dtype=object),
        pd.array(["x", "y", "x"], dtype="string"),
    ],
    ids=["category", "object", "string"],
)
def test_text_keeps_its_dtype(values: Any):
    frame = pd.DataFrame({"f": values})
    table = Table.read(frame)
    cells = {"f": (np.array([0]), np.array(["y"], dtype=object))}
    changed = table.with_cells(slice(None), cells).native
    assert changed["f"].dtype == frame["f"].dtype
    assert changed["f"].tolist() == ["y", "y", "x"]


def test_rows_are_taken_by_position():
    table = Table.read(FRAME).take(np.array([2, 0]))
    assert table.native.index.tolist() == ["t", "r"]
    assert table.column("a").tolist() == [3.5, 1.5]


def test_columns_are_selected_by_name():
    assert Table.read(FRAME).select(["c", "a"]).names == ("c", "a")


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"a": [1.0], "b": [2.0]}),
        pa.table({"a": [1.0], "b": [2.0]}),
        pd.DataFrame({"a": [1.0], "b": [2.0]}),
        {"a": 1.0, "b": 2.0},
        pd.Series({"a": 1.0, "b": 2.0}),
    ],
    ids=["polars", "arrow", "pandas", "mapping", "series"],
)
def test_every_kind_of_table_is_read(data: Any):
    table = Table.read(data)
    assert table.names == ("a", "b")
    assert len(table) == 1
    assert table.column("b").tolist() == [2.0]


def test_arrays_have_the_names_of_scikit_learn():
    table = Table.read(np.zeros((2, 3)))
    assert table.names == ("x0", "x1", "x2")
    assert len(Table.read(np.zeros(3))) == 1


@pytest.mark.parametrize("array", [np.zeros((2, 0)), np.zeros((1, 1, 1))])
def test_an_array_of_another_shape_is_refused(array: np.ndarray):
    with pytest.raises(cp.InvalidInput, match=r"shape \(rows, features\); got shape"):
        Table.read(array)


def test_decode_undoes_encode():
    features = cp.Features.from_data(FRAME)
    table = Table.read(FRAME)
    before = encode(table, features).codes
    same = decode(table, features, slice(None), before, before).native
    pd.testing.assert_frame_equal(same, FRAME)
    after = before + [[0.25, 2.0, 0.0]] * 3
    after[:, 2] = 1.0 - after[:, 2]
    moved = decode(table, features, slice(None), before, after)
    np.testing.assert_array_equal(encode(moved, features).codes, after)
    assert moved.native["c"].tolist() == ["y", "x", "y"]


MANY = pd.DataFrame(
    {
        **{dtype: pd.array([1, 0, 1], dtype=dtype) for dtype in DTYPES},
        "bool": [True, False, True],
        "boolean": pd.array([True, False, None], dtype="boolean"),
        "text": ["x", "y", "x"],
        "object": pd.Series(["x", "y", "x"], dtype=object),
        "category": pd.Categorical(["x", "y", "x"], categories=["z", "x", "y"], ordered=True),
        "arrow": pd.array([1, 2, 3], dtype="int8[pyarrow]"),
        "arrow text": pd.array(["x", "y", "x"], dtype="string[pyarrow]"),
    }
)
NULLABLE = {"int64": "Int64", "int32": "Int32", "int16": "Int16", "int8": "Int8", "uint8": "UInt8"}
NULLABLE |= {"bool": "boolean"}
HOLE = np.array([False, True, False])


@pytest.mark.parametrize(
    "index", [[0, 1, 2], list("pqr"), [7, 7, 7]], ids=["plain", "text", "same"]
)
def test_emptied_rows_of_pandas_are_missing_and_nothing_else_changes(index: Any):
    """Only whole numbers and booleans of NumPy change their dtype, to the nullable twin."""
    frame = MANY.set_axis(index)
    table = Table.read(frame)
    assert table.emptied(list(frame), np.zeros(3, dtype=bool)).native is table.native
    names = [name for name in frame if name != "Int64"]
    back = table.emptied(names, HOLE).native
    assert back.index.equals(frame.index)
    assert list(back) == list(frame)
    wanted = frame.dtypes.astype(str).replace(NULLABLE)
    assert back.dtypes.astype(str).tolist() == wanted.tolist()
    assert back[names].iloc[1].isna().all()
    expected = frame.astype(NULLABLE)
    pd.testing.assert_frame_equal(back.iloc[[0, 2]], expected.iloc[[0, 2]])
    assert back["Int64"].tolist() == [1, 0, 1]


def test_emptied_rows_of_polars_and_arrow_are_null_in_the_same_dtypes():
    frame = pl.DataFrame(
        {
            "int": pl.Series([1, 2, 3], dtype=pl.Int8),
            "flag": [True, False, True],
            "enum": pl.Series(["x", "y", "x"], dtype=pl.Enum(["x", "y"])),
            "category": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
            "float": pl.Series([1.0, 2.0, 3.0], dtype=pl.Float32),
            "text": ["x", "y", "x"],
        }
    )
    back = Table.read(frame).emptied(frame.columns, HOLE).native
    assert back.schema == frame.schema
    assert back.rows() == [frame.row(0), (None,) * 6, frame.row(2)]
    arrow = frame.drop("enum").to_arrow()
    back = Table.read(arrow).emptied(arrow.column_names, HOLE).native
    assert back.schema == arrow.schema
    assert back.to_pylist() == [
        row if i != 1 else dict.fromkeys(row) for i, row in enumerate(arrow.to_pylist())
    ]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool", "<U3", "object"])
def test_emptied_rows_of_an_array(dtype: str):
    array = np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype)
    back = Table.read(array).emptied(("x0", "x1"), HOLE).native
    text = array.dtype.kind in "UO"
    wide = np.dtype(object if text else np.float64)
    assert back.dtype == (array.dtype if array.dtype.kind == "f" else wide)
    assert pd.isna(back[1]).all()
    assert (back[[0, 2]] == array[[0, 2]]).all()
    assert array.tolist() == np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype).tolist()


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["x", "y", "x"], dtype=pd.CategoricalDtype(["y", "x"], ordered=True)),
        pd.Series(["x", "y", "x"], dtype="category"),
        pl.Series(["x", "y", "x"], dtype=pl.Enum(["y", "x"])),
        pl.Series(["x", "y", "x"], dtype=pl.Categorical),
        pa.chunked_array([["x", "y", "x"]]).dictionary_encode(),
    ],
    ids=["ordered", "pandas", "enum", "polars", "arrow"],
)
def test_a_new_category_becomes_a_level(column: Any):
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
    frame = make[type(column).__module__.split(".")[0]]({"f": column})
    cells = {"f": (np.array([2]), np.array(["new"], dtype=object))}
    table = Table.read(frame)
    changed = table.with_cells(slice(None), cells)
    assert changed.column("f").tolist() == ["x", "y", "new"]
    assert set(changed.levels("f") or ()) >= {"x", "y", "new"}
    assert changed.is_ordered("f") == table.is_ordered("f")
    assert type(changed.native) is type(frame)
