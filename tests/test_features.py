"""Kinds of columns, inferred and said; codes and encoded points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from strategies import codes, features, seeds

import counterpoint as cp

INFERRED = [
    (pd.Series([0.5, 2.0, np.nan]), cp.Continuous("f", observed=(0.5, 2.0))),
    (pd.Series([0.5, 2.0], dtype="float32"), cp.Continuous("f", observed=(0.5, 2.0))),
    (pd.Series([1, 5, 3]), cp.Integer("f", observed=(1.0, 5.0))),
    (pd.Series([1, 5, 3], dtype="int8"), cp.Integer("f", observed=(1.0, 5.0))),
    (pd.Series([1, 5, None], dtype="Int64"), cp.Integer("f", observed=(1.0, 5.0))),
    (pd.Series([0, 1, 1]), cp.Categorical("f", (0, 1), True, (0, 1))),
    (pd.Series([0.0, 1.0]), cp.Categorical("f", (0.0, 1.0), True, (0.0, 1.0))),
    (pd.Series([True, True]), cp.Categorical("f", (False, True), observed=(True,))),
    (pd.Series(["q", "p", None]), cp.Categorical("f", ("p", "q"), observed=("p", "q"))),
    (pd.Series(["q", "p"], dtype=object), cp.Categorical("f", ("p", "q"), observed=("p", "q"))),
    (pd.Series([1.5, 2], dtype=object), cp.Continuous("f", observed=(1.5, 2.0))),
    (pd.Series([3, 2], dtype=object), cp.Integer("f", observed=(2.0, 3.0))),
    (
        pd.Series(pd.Categorical(["b"], ["c", "b", "a"], ordered=True)),
        cp.Categorical("f", ("c", "b", "a"), ordered=True, observed=("b",)),
    ),
    (
        pd.Series(pd.Categorical(["b"], ["c", "b"])),
        cp.Categorical("f", ("c", "b"), observed=("b",)),
    ),
]


@pytest.mark.parametrize(("values", "expected"), INFERRED)
def test_kinds_are_inferred(values: pd.Series, expected: Any):
    assert cp.Features.from_data(pd.DataFrame({"f": values})).items == (expected,)


def test_kinds_are_inferred_from_polars_and_arrays():
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]})
    kinds = [type(f) for f in cp.Features.from_data(frame)]
    assert kinds == [cp.Integer, cp.Categorical, cp.Continuous]
    assert cp.Features.from_data(np.array([[0.5, 2.0], [1.0, 3.0]])).names == ("x0", "x1")


@pytest.mark.parametrize("values", [[np.nan, np.nan], [None, None]])
def test_a_column_without_a_value_is_refused(values: list[Any]):
    with pytest.raises(cp.InvalidInput, match=r"no (finite )?value; drop it or fill it in"):
        cp.Features.from_data(pd.DataFrame({"f": values}))


@given(features(), seeds)
def test_compress_undoes_expand(described: cp.Features, seed: int):
    given = codes(described, np.random.default_rng(seed), 20)
    encoded = described.expand(given)
    assert encoded.shape == (20, described.width)
    np.testing.assert_array_equal(described.compress(encoded), given)
    for f, block in zip(described, described.blocks, strict=True):
        if isinstance(f, cp.Categorical):
            assert (encoded[:, block].sum(axis=1) == 1).all()


def test_columns_are_where_expand_puts_them():
    described = cp.Features(
        [cp.Continuous("a"), cp.Categorical("b", ("p", "q", "r")), cp.Integer("c")]
    )
    assert (described.columns("a"), described.columns("b"), described.columns("c")) == (
        slice(0, 1),
        slice(1, 4),
        slice(4, 5),
    )
    assert described.expand(np.array([[7.0, 2.0, 5.0]])).tolist() == [[7.0, 0.0, 0.0, 1.0, 5.0]]
    assert described.describe("b", 2.0) == "r"
    assert described.describe("c", 5.0) == 5.0


def test_one_description_can_be_replaced():
    described = cp.Features([cp.Continuous("a"), cp.Continuous("b")])
    other = described.replaced(cp.Integer("b", step=5.0))
    assert other["b"] == cp.Integer("b", step=5.0)
    assert described["b"] == cp.Continuous("b")


def test_an_unknown_name_gets_near_ones():
    described = cp.Features([cp.Continuous("income"), cp.Continuous("age")])
    with pytest.raises(cp.InvalidInput, match="no feature 'incme'; did you mean 'income'"):
        described["incme"]
    with pytest.raises(cp.InvalidInput, match="known: 'income', 'age'"):
        described["zzz"]
