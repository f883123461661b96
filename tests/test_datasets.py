"""The table that comes with the package: what it is, and that it comes with the package."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import counterpoint as cp
from counterpoint.datasets import load_german_credit


def test_the_table_is_the_published_one(german_source: Path):
    credit = load_german_credit()
    assert gzip.decompress(Path(credit.filename).read_bytes()) == german_source.read_bytes()
    published = pd.read_csv(german_source)
    labels = published.pop("GoodCustomer")
    pd.testing.assert_frame_equal(credit.data, published)
    assert (credit.target_names[credit.target] == np.where(labels == 1, "good", "bad")).all()


def test_a_loader_as_those_of_scikit_learn():
    credit = load_german_credit(as_frame=True)
    assert credit.frame.columns.tolist() == ["GoodCustomer", *credit.feature_names]
    pd.testing.assert_frame_equal(credit.frame[credit.feature_names], credit.data)
    pd.testing.assert_series_equal(credit.frame["GoodCustomer"], credit.target)
    assert credit.data.shape == (1000, 29)
    assert credit.target.value_counts().to_dict() == {1: 700, 0: 300}
    data, target = load_german_credit(return_X_y=True)
    pd.testing.assert_frame_equal(data, credit.data)
    pd.testing.assert_series_equal(target, credit.target)
    data.iloc[0, 0] = "changed"
    assert load_german_credit().data.iloc[0, 0] == "Male"


def test_arrays_hold_what_the_frame_does():
    credit, arrays = load_german_credit(), load_german_credit(as_frame=False)
    assert arrays.data.dtype == object
    assert arrays.frame is None
    assert (arrays.data == credit.data.to_numpy(dtype=object)).all()
    assert {type(cell) for cell in arrays.data.ravel()} == {int, str}
    assert arrays.target.tolist() == credit.target.tolist()
    data, target = load_german_credit(return_X_y=True, as_frame=False)
    assert data.shape == (1000, 29)
    assert target.dtype == np.int64


def test_the_description_has_each_column_its_source_and_its_licence():
    credit = load_german_credit()
    described = re.findall(r"^\| `(\w+)` \|", credit.DESCR, re.MULTILINE)
    assert described == credit.feature_names
    for words in ("Hofmann, H. (1994)", "10.24432/C5NC77", "CC BY 4.0", "BSD 3-Clause", "Ustun"):
        assert words in credit.DESCR
    numbers = credit.data.select_dtypes("number")
    flags = numbers.columns[numbers.isin([0, 1]).all()]
    assert (len(numbers.columns) - len(flags), 29 - len(numbers.columns), len(flags)) == (7, 2, 20)
    assert "Seven columns of whole numbers, two of text, and twenty of 0 and 1" in credit.DESCR
    for name in ("Age", "LoanDuration", "LoanAmount"):
        low, high = credit.data[name].agg(["min", "max"])
        assert f"{low} to {high} |" in next(
            line for line in credit.DESCR.splitlines() if line.startswith(f"| `{name}` |")
        )
    purposes = next(line for line in credit.DESCR.splitlines() if "PurposeOfLoan" in line)
    assert set(re.findall(r"`(\w+)`", purposes)) == {"PurposeOfLoan", *credit.data["PurposeOfLoan"]}


@pytest.mark.parametrize("name", ["return_X_y", "as_frame"])
def test_flags_are_true_or_false(name: str):
    with pytest.raises(cp.InvalidInput, match=f"Expected True or False for {name}; got 'yes'"):
        load_german_credit(**{name: "yes"})  # type: ignore[arg-type]


def test_the_package_has_it_by_its_name():
    assert cp.datasets.load_german_credit is load_german_credit
