"""Why there is no answer: the conflict is minimal, and its relaxations are the thresholds."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.lvq import LGMLVQ

NAMES = list("abcd")


def problem(seed: int) -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(80, 4)), columns=NAMES)
    labels = data.to_numpy() @ np.array([1.0, -1.0, 0.5, 2.0]) > 0
    model = LogisticRegression().fit(data, labels)
    row = data[~model.predict(data)].iloc[[0]]
    return model, data, row


def policy(seed: int) -> list[cp.Constraint]:
    """Constraints, some needed for the conflict and some not; each about one or two features."""
    rng = np.random.default_rng(seed)
    made: list[cp.Constraint] = [
        cp.Immutable("a") if rng.random() < 0.5 else cp.Bounds("a", fall=0.1, rise=0.1),
        cp.Monotone("b", "increasing") if rng.random() < 0.5 else cp.Immutable("b"),
        cp.Bounds("c", rise=0.05),
        cp.Linear({"d": 1.0, "a": 0.1}, high=-3.0)
        if rng.random() < 0.5
        else cp.Bounds("d", rise=0.01),
        cp.Bounds("c", fall=5.0),
        cp.WithinObserved("b"),
    ]
    return [made[i] for i in rng.permutation(len(made))]


def status(model: Any, data: pd.DataFrame, row: pd.DataFrame, constraints: Any) -> cp.Status:
    cost = cp.Manhattan()
    return cp.explain(model, row, True, data=data, cost=cost, constraints=constraints).status[0]


def infeasible(*args: Any) -> bool:
    found = status(*args)
    assert found in (cp.Status.OPTIMAL, cp.Status.INFEASIBLE)
    return found == cp.Status.INFEASIBLE


@pytest.mark.parametrize("seed", range(8))
def test_a_conflict_is_a_minimal_conflict(seed: int):
    """Brute force over all subsets: the named ones conflict, and no proper subset of them does."""
    model, data, row = problem(seed)
    constraints = policy(seed)
    if not infeasible(model, data, row, constraints):
        constraints.append(cp.Bounds("d", high=float(row["d"].iloc[0]) - 5.0))
    assert infeasible(model, data, row, constraints)
    answers = cp.explain(model, row, True, data=data, cost=cp.Manhattan(), constraints=constraints)
    conflict = answers[0].conflict
    assert conflict is not None
    named = list(conflict.constraints)
    assert conflict.minimal
    assert set(map(repr, named)) <= set(map(repr, constraints))
    assert named
    assert infeasible(model, data, row, named)
    for size in range(len(named)):
        for subset in combinations(named, size):
            assert not infeasible(model, data, row, list(subset))


NUMBER = r"(-?[0-9.]+(?:e[-+]?[0-9]+)?)"


@pytest.mark.parametrize("seed", range(6))
def test_a_relaxation_is_the_threshold(seed: int):
    """A bound that gives as far as said has an answer; a little less far, it has none."""
    model, data, row = problem(seed)
    at = float(row["a"].iloc[0])
    others = [cp.Immutable("b", "c", "d")]
    bound = cp.Bounds("a", high=at + 1e-3)
    answers = cp.explain(
        model, row, True, data=data, cost=cp.Manhattan(), constraints=[bound, *others]
    )
    conflict = answers[0].conflict
    assert conflict is not None
    said = [r for r in conflict.relaxations if r.startswith("with a ")]
    found = re.search(f"with a at least {NUMBER} instead of {NUMBER}", said[0])
    assert found, said
    needed = float(found[1])
    z = model.decision_function(row)[0]
    assert needed == pytest.approx(at - z / model.coef_[0, 0], rel=1e-5)
    digits = 1e-5 * abs(needed)  # six digits are said
    assert not infeasible(model, data, row, [cp.Bounds("a", high=needed + digits), *others])
    assert infeasible(model, data, row, [cp.Bounds("a", high=needed - digits), *others])


def test_rows_with_an_answer_have_no_conflict():
    model, data, row = problem(0)
    answers = cp.explain(model, row, True, data=data)
    assert answers[0].conflict is None


def test_a_conflict_reads_as_a_sentence():
    model, data, row = problem(0)
    constraints = [cp.Immutable("a", "b", "c", "d"), cp.MaxChanges(2)]
    answers = cp.explain(model, row, True, data=data, constraints=constraints)
    text = str(answers[0].conflict)
    assert text.startswith("These exclude every answer: ")
    assert "a, b, c and d are immutable" in text
    assert "may change" not in text


def test_conflicts_of_metrics_of_their_own():
    """A bound that excludes every answer, of a model whose boundaries bend."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = list(X.columns)
    model = LGMLVQ(random_state=0).fit(X, y)
    held = cp.Immutable(*names[1:])
    bounds = cp.Bounds(names[0], low=4.5, high=5.5)
    answer = cp.explain(model, X.head(1), 2, data=X, constraints=[held, bounds])[0]
    assert answer.status == cp.Status.INFEASIBLE
    conflict = answer.conflict
    assert conflict is not None
    assert bounds in conflict.constraints
    for told in conflict.relaxations:
        assert told.startswith(f"with {names[0]} at ")
