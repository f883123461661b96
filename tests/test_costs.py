"""Weights from data, and the one formula that all costs become."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from scipy.stats import median_abs_deviation, percentileofscore
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from strategies import seeds, spd

import counterpoint as cp
from counterpoint.privacy.noise import ProjectedGaussian
from counterpoint.problem.costs import EncodedCost


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
    encoded_cost = EncodedCost(np.zeros(4), spd(rng, 4) * np.outer(scale, scale))
    rest = encoded_cost.above_floor / np.outer(scale, scale)
    assert (encoded_cost.floor > 0).all()
    assert np.linalg.eigvalsh(rest)[0] >= -1e-12 * np.abs(rest).max()


def test_a_full_matrix_over_categories_alone_has_no_floor():
    features = cp.Features([cp.Categorical("a", ("p", "q"))])
    encoded_cost = cp.Mahalanobis([[2.0]]).encoded_cost(features)
    assert encoded_cost.floor.tolist() == [0.0, 0.0]
    assert encoded_cost(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])).tolist() == [2.0]


def test_the_labels_of_a_series_say_which_weight_is_whose():
    features = cp.Features([cp.Continuous("a"), cp.Continuous("b"), cp.Continuous("c")])
    for series in (pd.Series({"c": 5.0, "b": 3.0}), pd.Series({"a": 1.0, "b": 3.0, "c": 5.0})):
        cost = cp.Manhattan(series)
        assert cost.weights == series.to_dict()
        assert cost.encoded_cost(features).absolute.tolist() == [1.0, 3.0, 5.0]
    counted = cp.SquaredEuclidean(pd.Series([1.0, 3.0, 5.0]))
    assert counted.encoded_cost(features).diagonal.tolist() == [1.0, 3.0, 5.0]
    with pytest.raises(cp.InvalidInput, match="'d'"):
        cp.Manhattan(pd.Series({"d": 3.0})).encoded_cost(features)


def test_the_labels_of_a_matrix_are_the_features_in_their_order():
    features = cp.Features([cp.Continuous("a"), cp.Continuous("b")])
    matrix = pd.DataFrame([[2.0, 0.5], [0.5, 1.0]], index=["a", "b"], columns=["a", "b"])
    for one in (matrix, pd.DataFrame(matrix.to_numpy())):
        cost = cp.Mahalanobis(one)
        assert cost.encoded_cost(features).quadratic.tolist() == matrix.to_numpy().tolist()
        assert cp.Problem(cost=cost).to_dict()["cost"]["matrix"] == matrix.to_numpy().tolist()
    turned = matrix.loc[["b", "a"], ["b", "a"]]
    expected = r"in the order \['a', 'b'\]; got \['b', 'a'\]. Reorder them."
    with pytest.raises(cp.InvalidInput, match=expected):
        cp.Mahalanobis(turned).encoded_cost(features)
    with pytest.raises(cp.InvalidInput, match=expected):
        cp.Ellipsoid({"a": 0.0, "b": 0.0}, turned)


def test_a_mapping_may_leave_features_out():
    features = cp.Features([cp.Continuous("a"), cp.Continuous("b")])
    assert cp.Manhattan({"b": 3.0}).encoded_cost(features).absolute.tolist() == [1.0, 3.0]


def test_a_rank_is_the_share_below_and_half_of_what_is_equal():
    data = pd.DataFrame({"a": np.random.default_rng(0).integers(0, 30, 500), "b": ["p", "q"] * 250})
    ranks = cp.percentile_ranks(data)
    assert ranks.keys() == {"a"}
    for value, rank in ranks["a"]:
        assert rank == pytest.approx(percentileofscore(data["a"], value, kind="mean") / 100.0)
    assert len(ranks["a"]) == 30
    few = cp.percentile_ranks(data, knots=5)["a"]
    assert {*few} <= {*ranks["a"]}
    assert len(few) == 5
    assert few[0] == ranks["a"][0]
    assert few[-1] == ranks["a"][-1]


@pytest.mark.parametrize(
    ("cost", "sentence"),
    [
        (cp.Manhattan({"a": {("p", "q"): 1.0}}), "Expected one weight for 'a'"),
        (cp.Manhattan({"c": {("p", "z"): 1.0}}), "which are 'p', 'q'; got"),
        (cp.Manhattan({"c": {("p", "p"): 1.0}}), "two categories of 'c'"),
        (cp.Manhattan({"c": {("p", "q"): 0.0}}), "positive finite cost of 'c' from 'p' to 'q'"),
        (cp.SquaredEuclidean({"c": {"p": 1.0}}), "pairs .from, to."),
        (cp.PercentileShift({}), "percentile ranks of 'a'; got none"),
        (cp.PercentileShift({"a": [(0.0, 0.0), (0.0, 1.0)]}), "both increasing"),
        (cp.PercentileShift({"a": [0.0, 1.0]}), "pairs .value, rank. for 'a'"),
        (cp.PercentileShift({"a": [(0, 0)], "z": [(0, 0)]}), "no feature 'z'"),
    ],
)
def test_tables_that_are_none_are_refused(cost: cp.Cost, sentence: str):
    with pytest.raises(cp.InvalidInput, match=sentence):
        cost.encoded_cost(cp.Features([cp.Continuous("a"), cp.Categorical("c", ("p", "q"))]))


def people() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 32, 200),
            "loans": rng.integers(0, 6, 200),
            "home": rng.choice(["free", "own", "rent"], 200),
        }
    )


@pytest.mark.parametrize("kind", [LogisticRegression, RandomForestClassifier])
@pytest.mark.parametrize("cost", [cp.Manhattan, cp.SquaredEuclidean, cp.PercentileShift])
def test_answers_are_the_cheapest_by_the_tables(kind: Any, cost: Any, tmp_path: Path):
    """Linear models and forests, against all that could be done; proofs hold when checked again."""
    data = people()
    score = 0.3 * data["age"] - data["loans"] + 2.0 * (data["home"] == "own")
    forest = {"n_estimators": 5, "max_depth": 3, "random_state": 0}
    own = kind(**forest) if kind is RandomForestClassifier else kind(max_iter=1000)
    columns = make_column_transformer((OneHotEncoder(), ["home"]), remainder="passthrough")
    model = make_pipeline(columns, own).fit(data, score > score.median())
    weights = {"home": {("rent", "own"): 9.0, ("rent", "free"): 0.2, ("free", "own"): 0.3}}
    ranks = [cp.percentile_ranks(data)] if cost is cp.PercentileShift else []
    asked = cost(*ranks, weights)
    refused = data[~model.predict(data)].head(8)
    answers = cp.Explainer(model, data=data, cost=asked).explain(refused, True)
    assert {*answers.report()["claim"]} == {"proved"}
    every = product(range(20, 32), range(6), ["free", "own", "rent"])
    points = pd.DataFrame(list(every), columns=[*data])
    points = points[model.predict(points)]
    encoded_cost, codes = asked.encoded_cost(answers.features), {"free": 0, "own": 1, "rent": 2}
    y = answers.features.expand(points.replace({"home": codes}).to_numpy(dtype=float))
    for i, (_, row) in enumerate(refused.iterrows()):
        x = np.array([[row["age"], row["loans"], codes[row["home"]]]], dtype=float)
        costs = encoded_cost(y, np.repeat(answers.features.expand(x), len(y), axis=0))
        assert answers.cost[i] == pytest.approx(costs.min(), rel=1e-9)
    answers.to_records(tmp_path / "answers.jsonl")
    assert cp.recheck(tmp_path / "answers.jsonl", model).ok


@pytest.mark.parametrize(
    "target", [cp.Tradeoff(True, 2.0), cp.Robust(True, 0.9)], ids=["trade-off", "robust"]
)
def test_what_tables_are_not_taken_for_is_said(target: cp.Target):
    data = people().drop(columns="home")
    model = LogisticRegression().fit(data, data["age"] > 25)
    if isinstance(target, cp.Robust):
        model = cp.UncertainClassifier(model, law=ProjectedGaussian(np.eye(3) * 1e-2))
    cost = cp.PercentileShift(cp.percentile_ranks(data))
    with pytest.raises(cp.NoSolver, match="Costs by pair of categories and percentile shifts"):
        cp.Explainer(model, data=data, cost=cost).explain(data.head(3), target)
