"""The oracles' own accuracy: optima that are known in many digits lie where an oracle says."""

from __future__ import annotations

import mpmath
import numpy as np
import oracles
import pytest
from oracles import Additive, Demand, Optimum, Question, optimum

import counterpoint as cp

SHARE = 1e-9
"""How narrow a bracket is, as a share of 1 + optimum, where columns are continuous."""


def question(kinds: str, cost: cp.Cost, constraints: list[cp.Constraint], seed: int) -> Question:
    """Raise a random score by 9."""
    rng = np.random.default_rng(seed)
    kind = {"c": cp.Continuous, "i": cp.Integer}
    names = [f"f{j}" for j in range(len(kinds))]
    features = cp.Features([kind[k](n) for n, k in zip(names, kinds, strict=True)])
    slopes = dict(zip(names, rng.normal(size=(len(kinds), 1)), strict=True))
    model = Additive(np.zeros(1), slopes)
    row = dict.fromkeys(names, 1.0)
    least = float(model(row)[0]) + 9.0
    return Question(features, model, [(Demand(np.ones(1), least),)], cost, constraints, row)


def raised(q: Question) -> tuple[list[mpmath.mpf], mpmath.mpf]:
    """The slopes, and how much the score lacks, in 50 digits."""
    slopes = [mpmath.mpf(float(s[0])) for s in q.model.slopes.values()]
    (demand,) = q.pieces[0]
    return slopes, mpmath.mpf(demand.least) - mpmath.fsum(slopes)


def assert_within(found: Optimum, truth: mpmath.mpf, share: float = SHARE):
    assert found.low <= truth <= found.high
    assert found.high - found.low <= share * (1.0 + found.high)


@pytest.mark.parametrize("seed", range(8))
def test_a_projection_in_many_digits_lies_between(seed: int):
    """Squared distance to a half-space: short² / Σ s² / w; absolute: short / max |s| / w."""
    with mpmath.workdps(50):
        weights = (10.0 ** np.random.default_rng(seed).uniform(-1, 1, size=4)).tolist()
        q = question("cccc", cp.SquaredEuclidean(weights), [], seed)
        slopes, short = raised(q)
        per = [s * s / mpmath.mpf(w) for s, w in zip(slopes, weights, strict=True)]
        assert_within(optimum(q), short**2 / mpmath.fsum(per))
        q = question("cccc", cp.Manhattan(weights), [], seed)
        each = [abs(s) / mpmath.mpf(w) for s, w in zip(slopes, weights, strict=True)]
        assert_within(optimum(q), short / max(each))
        fewest = question("cccc", cp.SquaredEuclidean(weights), [cp.MaxChanges(1)], seed)
        assert_within(optimum(fewest), short**2 / max(per))


@pytest.mark.parametrize("seed", range(4))
def test_scip_ends_where_the_continuous_columns_are_polished(seed: int):
    """One whole column stays, the other three are as in closed form."""
    with mpmath.workdps(50):
        q = question("iccc", cp.SquaredEuclidean(), [cp.Immutable("f0")], seed)
        slopes, short = raised(q)
        truth = short**2 / mpmath.fsum(s * s for s in slopes[1:])
        assert_within(optimum(q), truth, 3.0 * oracles.SCIP_OFF)
        assert optimum(q).high - truth <= SHARE * truth


def test_a_bracket_holds_for_any_multipliers_and_any_point():
    """What proves the optimum is computed, and no word of the solver's is taken for it."""
    import cvxpy

    change = cvxpy.Variable(2)
    demands = [change[0] + change[1] >= 2.0, change[0] <= 0.5]
    for encoded_cost, truth in (
        (oracles.EncodedCost(0.0, None, np.eye(2), np.zeros(2)), 2.5),
        (oracles.EncodedCost(0.0, np.array([1.0, 2.0]), None, np.zeros(2)), 3.5),
    ):
        rng = np.random.default_rng(0)
        for _ in range(40):
            change.value = rng.normal(size=2)
            for demand in demands:
                demand.dual_variables[0].save_value(rng.exponential())
            found = oracles.bracketed(encoded_cost, cvxpy.Constant(0.0), demands, change)
            assert found.low <= truth <= found.high


def test_no_point_costs_infinitely_much():
    q = question("cc", cp.Manhattan(), [cp.Immutable("f0", "f1")], 0)
    assert not optimum(q).exists
