"""Every cost is what its docstring says, on every mix of features."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from oracles import cost_of
from strategies import COSTS, features, seeds

import counterpoint as cp
from counterpoint.problem.costs import EncodedCost
from counterpoint.testing import check_cost

Row = Mapping[Hashable, Any]


@pytest.mark.parametrize("name", COSTS)
@given(described=features(least=1), seed=seeds)
def test_every_cost_conforms(name: str, described: cp.Features, seed: int):
    cost = COSTS[name](np.random.default_rng(seed), described)
    check_cost(cost, described, value=lambda old, new: cost_of(cost, described, old, new))


@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean(), cp.Manhattan([2.0, 3.0])])
def test_weights_may_be_none_or_a_sequence(cost: cp.Cost):
    described = cp.Features([cp.Continuous("a"), cp.Categorical("b", ("p", "q", "r"))])
    check_cost(cost, described, value=lambda old, new: cost_of(cost, described, old, new))


TABLED: tuple[Any, ...] = (cp.Manhattan, cp.SquaredEuclidean, cp.PercentileShift)


def by_table(cost: Any, described: cp.Features, old: Row, new: Row) -> float:
    """The definition of costs by pair and of percentile shifts: a table for each feature."""
    total = 0.0
    for feature in described:
        name, weight = feature.name, cost.weights.get(feature.name, 1.0)
        one, other = old[name], new[name]
        if isinstance(feature, cp.Categorical):
            pair = weight.get((one, other), 1.0) if isinstance(weight, dict) else weight
            total += pair * (one != other)
        elif isinstance(cost, cp.PercentileShift):
            values, ranks = np.array(cost.ranks[name]).T
            ends = (ranks[-1] - ranks[0]) / (values[-1] - values[0])
            far = np.array([values[0] - 1e3, *values, values[-1] + 1e3])
            levels = np.array([ranks[0] - 1e3 * ends, *ranks, ranks[-1] + 1e3 * ends])
            total += weight * abs(np.diff(np.interp([one, other], far, levels))[0])
        else:
            size = abs(other - one)
            total += weight * (size if isinstance(cost, cp.Manhattan) else size**2)
    return float(total)


@pytest.mark.parametrize("kind", TABLED)
def test_tables_of_features_conform(kind: Any):
    described = cp.Features(
        [
            cp.Continuous("a", observed=(0.0, 9.0)),
            cp.Integer("b", 2.0, (0.0, 20.0)),
            cp.Categorical("c", ("p", "q", "r")),
            cp.Categorical("d", (0, 1)),
        ]
    )
    weights = {"c": {("p", "q"): 3.0, ("q", "p"): 0.25, ("r", "q"): 2.0}, "b": 2.0, "d": 0.5}
    ranks = {"a": [(1.0, 0.0), (2.0, 0.7), (8.0, 1.0)], "b": [(-1.0, 0.1), (4.0, 0.2), (9.0, 0.9)]}
    cost = kind(ranks, weights) if kind is cp.PercentileShift else kind(weights)
    check_cost(cost, described, value=lambda old, new: by_table(cost, described, old, new))


class Cost(cp.Cost):
    """Any price, for what follows."""

    def __init__(self, encoded_cost: EncodedCost) -> None:
        self._price = encoded_cost

    def encoded_cost(self, features: cp.Features) -> EncodedCost:
        return self._price


@pytest.mark.parametrize(
    ("absolute", "value", "message"),
    [
        (0.0, lambda old, new: 0.0, "asks nothing for the change"),
        (2.0, lambda old, new: abs(new["a"] - old["a"]), "its definition says"),
    ],
)
def test_the_suite_catches(absolute: float, value, message: str):
    described = cp.Features([cp.Continuous("a")])
    wrong = Cost(EncodedCost(np.array([absolute]), np.zeros(1)))
    with pytest.raises(AssertionError, match=message):
        check_cost(wrong, described, value=value)
