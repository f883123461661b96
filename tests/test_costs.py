"""Weights from data, and the one formula that all costs become."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from scipy.stats import median_abs_deviation
from strategies import seeds, spd

import counterpoint as cp
from counterpoint.costs import Price


def test_mad_weights_are_one_over_the_median_absolute_deviation():
    data = pd.DataFrame(np.random.default_rng(0).gamma(2.0, size=(101, 3)), columns=list("abc"))
    weights = cp.mad_weights(data)
    for name in data:
        assert weights[name] == pytest.approx(1.0 / median_abs_deviation(data[name]), rel=1e-12)


def test_where_the_mad_is_0_the_standard_deviation_takes_its_place():
    data = pd.DataFrame({"rare": [0.0] * 9 + [10.0], "flat": [2.0] * 10, "word": ["p", "q"] * 5})
    weights = cp.mad_weights(data)
    assert weights["rare"] == pytest.approx(1.0 / np.std(data["rare"]))
    assert weights["flat"] == weights["word"] == 1.0


def test_the_summary_says_where_a_weight_came_from():
    from sklearn.linear_model import LogisticRegression

    data = pd.DataFrame({"rare": [0.0] * 9 + [10.0], "usual": np.arange(10.0)})
    model = LogisticRegression().fit(data, [0, 1] * 5)
    assert (
        "rare: median absolute deviation 0, so its standard deviation, 3"
        in cp.Explainer(model, data=data).summary()
    )


def test_missing_values_do_not_enter_the_weights():
    column = np.arange(11.0)
    data = pd.DataFrame({"a": np.append(column, np.nan)})
    assert cp.mad_weights(data)["a"] == pytest.approx(1.0 / median_abs_deviation(column))


@given(seeds)
def test_the_floor_lies_below_the_matrix(seed: int):
    """quadratic − diag(floor) is positive semidefinite: what is left is convex."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-6, 6, size=4)
    price = Price(np.zeros(4), spd(rng, 4) * np.outer(scale, scale))
    rest = price.above_floor / np.outer(scale, scale)
    assert (price.floor > 0).all()
    assert np.linalg.eigvalsh(rest)[0] >= -1e-12 * np.abs(rest).max()


def test_a_full_matrix_over_categories_alone_has_no_floor():
    features = cp.Features([cp.Categorical("a", ("p", "q"))])
    price = cp.Mahalanobis([[2.0]]).price(features)
    assert price.floor.tolist() == [0.0, 0.0]
    assert price(np.array([[1.0, -1.0]])).tolist() == [2.0]


def test_a_mapping_may_leave_features_out():
    features = cp.Features([cp.Continuous("a"), cp.Continuous("b")])
    assert cp.Manhattan({"b": 3.0}).price(features).absolute.tolist() == [1.0, 3.0]
