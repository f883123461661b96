"""Every cost is what its docstring says, on every mix of features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from oracles import cost_of
from strategies import COSTS, features, seeds

import counterpoint as cp
from counterpoint.costs import Price
from counterpoint.testing import check_cost


@pytest.mark.parametrize("name", COSTS)
@given(described=features(least=1), seed=seeds)
def test_every_cost_conforms(name: str, described: cp.Features, seed: int):
    cost = COSTS[name](np.random.default_rng(seed), described)
    check_cost(cost, described, value=lambda old, new: cost_of(cost, described, old, new))


@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean(), cp.Manhattan([2.0, 3.0])])
def test_weights_may_be_none_or_a_sequence(cost: cp.Cost):
    described = cp.Features([cp.Continuous("a"), cp.Categorical("b", ("p", "q", "r"))])
    check_cost(cost, described, value=lambda old, new: cost_of(cost, described, old, new))


class Cost(cp.Cost):
    """Any price, for what follows."""

    def __init__(self, price: Price) -> None:
        self._price = price

    def price(self, features: cp.Features) -> Price:
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
    wrong = Cost(Price(np.array([absolute]), np.zeros(1)))
    with pytest.raises(AssertionError, match=message):
        check_cost(wrong, described, value=value)
