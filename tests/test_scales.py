"""Mixed problems whose columns, costs and coefficients differ by up to 1e16: answers, no limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import counterpoint as cp

LETTERS = list("abcd")
SPAN = 8.0
"""Powers of ten between 1 and the scale of a column."""


def problem(seed: int, kind: str, span: float = SPAN) -> tuple[cp.Explainer, pd.DataFrame, int]:
    """A model of up to four classes over continuous, whole and categorical columns, and one row.

    Without bounds there is always an answer: the first column, which is continuous, has one weight
    for the target and none for the other classes.
    """
    rng = np.random.default_rng(seed)
    p, n, classes = int(rng.integers(2, 7)), 60, int(rng.integers(2, 5))
    kinds = ["c", *rng.choice(list("cik"), p - 1)]
    names, scale = [f"f{j}" for j in range(p)], 10.0 ** rng.uniform(-span, span, p)
    data: dict[str, Any] = {}
    features: list[Any] = []
    for name, letter, size in zip(names, kinds, scale, strict=True):
        if letter == "k":
            data[name] = rng.permutation(np.resize(LETTERS, n))
            features.append(cp.Categorical(name, LETTERS))
        elif letter == "i":
            data[name] = rng.integers(-6, 7, n) * size
            features.append(cp.Integer(name, size))
        else:
            data[name] = rng.normal(size=n) * 3.0 * size
            features.append(cp.Continuous(name))
    X = pd.DataFrame(data)
    words = [name for name, letter in zip(names, kinds, strict=True) if letter == "k"]
    numbers = [name for name in names if name not in words]
    encoder = OneHotEncoder(categories=[LETTERS] * len(words))
    columns = ColumnTransformer([("words", encoder, words), ("numbers", "passthrough", numbers)])
    model = make_pipeline(columns, LogisticRegression(max_iter=1)).fit(X, np.arange(n) % classes)
    hot, last = 4 * len(words), model[-1]
    sizes = dict(zip(names, scale, strict=True))
    per = np.append(np.ones(hot), [1.0 / sizes[name] for name in numbers])
    last.coef_ = rng.normal(size=last.coef_.shape) * per
    last.intercept_ = rng.normal(size=last.intercept_.shape)
    row = X.iloc[[0]]
    target = int((model.predict(row)[0] + 1) % classes)
    if classes > 2:
        last.coef_[:, hot] = 0.0
        last.coef_[target, hot] = 1.0 / sizes[numbers[0]]
    weights = 10.0 ** rng.uniform(-span, span, p)
    each = dict(zip(names, weights.tolist(), strict=True))
    if kind == "mahalanobis":
        root = rng.normal(size=(p, p + 2)) * np.sqrt(weights)[:, None]
        at = np.array([letter == "k" for letter in kinds])
        matrix = root @ root.T
        matrix[(at[:, None] | at) & ~np.eye(p, dtype=bool)] = 0.0
        cost: cp.Cost = cp.Mahalanobis(matrix)
    else:
        cost = cp.Manhattan(each) if kind == "manhattan" else cp.SquaredEuclidean(each)
    limits = [cp.MaxChanges(int(rng.integers(1, p + 1)))] if rng.random() < 0.5 else []
    return cp.Explainer(model, features=features, cost=cost, constraints=limits), row, target


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["manhattan", "squared euclidean", "mahalanobis"])
@pytest.mark.parametrize("seed", [14, 16, 17, 21, 26])
def test_there_is_an_answer_and_no_limit_without_a_time_limit(seed: int, kind: str):
    explainer, row, target = problem(seed, kind)
    answers = explainer.explain(row, target)
    assert answers.status[0] in (cp.Status.OPTIMAL, cp.Status.SUBOPTIMAL)
    assert explainer.model.predict(pd.DataFrame([answers[0].row]))[0] == target


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("seed", "kind", "span"),
    [(1392, "mahalanobis", 6.0), (1750, "mahalanobis", 8.0), (1750, "squared euclidean", 8.0)],
)
def test_rows_whose_large_entries_are_held_still_count(seed: int, kind: str, span: float):
    """What is left of such a row must not be so short that any point seems to meet it."""
    explainer, row, target = problem(seed, kind, span)
    answers = explainer.explain(row, target)
    assert answers.status[0] in (cp.Status.OPTIMAL, cp.Status.SUBOPTIMAL)
    assert explainer.model.predict(pd.DataFrame([answers[0].row]))[0] == target


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_branch_and_bound_that_runs_out_of_nodes_is_no_limit():
    """Its answer is suboptimal: `limit` is for a time limit that has run out."""
    explainer, row, target = problem(14, "mahalanobis")
    assert explainer.explain(row, target).status[0] is cp.Status.SUBOPTIMAL
    assert explainer.explain(row, target, time_limit=1e-6).status[0] is cp.Status.LIMIT


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("limits", [[cp.MaxChanges(2)], [cp.MaxChanges(2), cp.Immutable("c")]])
def test_a_rounded_point_that_no_solver_polishes_is_an_answer(limits: list[Any]):
    """Once categories are held whose price is a 1e-9th of the rest, the solver gives up."""
    n = np.arange(60)
    words = {"a": np.resize(LETTERS, 60), "b": np.roll(np.resize(LETTERS, 60), 1)}
    X = pd.DataFrame({**words, "c": np.resize(LETTERS[::-1], 60), "d": 100.0 * n})
    encoder = OneHotEncoder(categories=[LETTERS] * 3)
    columns = ColumnTransformer([("words", encoder, ["a", "b", "c"]), ("d", "passthrough", ["d"])])
    model = make_pipeline(columns, LogisticRegression(max_iter=1)).fit(X, n % 4)
    last = model[-1]
    of_words = [
        [1.248, -2.264, 0.098, -0.437, 1.3, 0.022, 0, -0.359, 1.478, 0.376, 0.393, -0.439],
        [0, 0.065, 0, 0.751, 1.313, -0.892, -0.087, -0.081, 0, 0.817, -0.296, 1.459],
        [1.57, 0, 0.252, -0.685, 1.005, 0.073, 0.996, 0.231, -1.957, 1.837, -0.385, 0.78],
        [0.038, 1.073, 0.654, -0.621, -1.297, 0, -1.619, 1.564, 0.612, 0.031, 0.825, 1.035],
    ]
    last.coef_ = np.column_stack([of_words, np.array([0, 0.942, -1.087, 1.612]) / 3508])
    last.intercept_ = np.array([0.783, -0.358, -0.515, -0.082])
    features = [*(cp.Categorical(name, LETTERS) for name in "abc"), cp.Continuous("d")]
    cost = cp.SquaredEuclidean({"a": 0.138, "b": 0.0043, "c": 1.59, "d": 1.61})
    row = pd.DataFrame({"a": ["a"], "b": ["d"], "c": ["b"], "d": [-16921.0]})
    answers = cp.explain(model, row, 3, features=features, cost=cost, constraints=limits)
    assert answers.status[0] is cp.Status.OPTIMAL
    assert model.predict(answers.to_frame())[0] == 3
