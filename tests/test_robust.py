"""Robust explanations: rules, optima and guarantees, against other software and simulation."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import cvxpy
import joblib
import mpmath
import numpy as np
import pandas as pd
import pytest
from oracles import allows, cost_of
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import counterpoint as cp
from counterpoint.cli import app
from counterpoint.families.uncertain import target as attainable
from counterpoint.families.uncertain.draws import polygon_corners
from counterpoint.families.uncertain.form import UncertainScores
from counterpoint.families.uncertain.linear_margins import (
    Chance,
    DistanceMargin,
    DualNorms,
    LinearMargins,
)
from counterpoint.families.uncertain.target import attainable_sentence
from counterpoint.models import read
from counterpoint.models.reading import ReadModel, see_through
from counterpoint.privacy import PrivateSVC
from counterpoint.privacy.noise import (
    NoiseLaw,
    ProjectedGamma,
    ProjectedGaussian,
    ProjectedLaplace,
)
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Region
from counterpoint.search import conflicts, feasibility, validation
from counterpoint.search.query import Query
from counterpoint.solvers.duals import purified
from counterpoint.testing import check_reader

NAMES = list("abcd")
D = len(NAMES)
PROBABILITIES = (0.75, 0.9, 0.99)
ORACLE = 2e-6
"""The relative error of what CVXPY and SLSQP find."""


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


# Models whose weights and noise are known


def fitted(coef: Sequence[float], intercept: float = 0.0) -> LogisticRegression:
    """A logistic regression with these weights."""
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.array([coef], dtype=float), np.array([float(intercept)])
    model.classes_, model.n_features_in_ = np.array(["no", "yes"]), len(coef)
    return model


COEF, INTERCEPT = np.array([1.0, -0.7, 0.4, 0.2]), -0.3
ROOT = 0.12 * np.random.default_rng(5).normal(size=(D + 1, D + 1))
LAWS: dict[str, NoiseLaw] = {
    "laplace": ProjectedLaplace(0.08, D + 1),
    "gamma": ProjectedGamma(0.04, D + 1),
    "gaussian": ProjectedGaussian(ROOT),
}
ROWS = np.random.default_rng(7).normal(size=(40, D)) - [0.5, -0.5, 0.5, 0.5]
ROWS = ROWS[ROWS @ COEF + INTERCEPT < -0.2][:3]
EVERY_LAW = pytest.mark.parametrize("kind", LAWS)


def model(kind: str) -> cp.UncertainClassifier:
    return cp.UncertainClassifier(fitted(COEF, INTERCEPT), law=LAWS[kind])


def features(step: float | None = None) -> list[Any]:
    kinds = [cp.Continuous(name, (-6.0, 6.0)) for name in NAMES]
    if step is not None:
        kinds[1], kinds[3] = (cp.Integer(name, step, (-6.0, 6.0)) for name in "bd")
    return kinds


COSTS: dict[str, cp.Cost] = {
    "manhattan": cp.Manhattan([1.0, 1.3, 0.8, 2.0]),
    "squared euclidean": cp.SquaredEuclidean([1.0, 2.0, 0.5, 1.0]),
    "mahalanobis": cp.Mahalanobis(np.diag([1.0, 2.0, 0.5, 1.0]) + 0.2),
}
EVERY_COST = pytest.mark.parametrize("cost", COSTS)

# Name → constraints, and the same for CVXPY, of y and x.
CONSTRAINTS: dict[str, tuple[list[cp.Constraint], Callable[[Any, Any], list[Any]]]] = {
    "none": ([], lambda y, x: []),
    "immutable": ([cp.Immutable("a")], lambda y, x: [y[0] == x[0]]),
    "bounds": (
        [cp.Bounds("a", fall=0.3, rise=0.3), cp.Bounds("b", low=-4.0)],
        lambda y, x: [cvxpy.abs(y[0] - x[0]) <= 0.3, y[1] >= -4.0],
    ),
    "monotone": (
        [cp.Monotone("a", "decreasing"), cp.Monotone("c", "increasing")],
        lambda y, x: [y[0] <= x[0], y[2] >= x[2]],
    ),
    "linear": ([cp.Linear.parse("a - b <= 0.5")], lambda y, x: [y[0] - y[1] <= 0.5]),
    "ellipsoid": (
        [cp.Ellipsoid({"a": 0.0, "b": 0.0}, np.eye(2), radius=3.5)],
        lambda y, x: [cvxpy.norm(y[:2]) <= 3.5],
    ),
}
EVERY_CONSTRAINT = pytest.mark.parametrize("limits", CONSTRAINTS)


def explain(
    kind: str,
    target: cp.Robust,
    cost: str = "squared euclidean",
    constraints: Sequence[cp.Constraint] = (),
    rows: np.ndarray = ROWS,
    step: float | None = None,
    **options: Any,
) -> cp.Counterfactuals:
    explainer = cp.Explainer(
        model(kind), features=features(step), cost=COSTS[cost], constraints=constraints
    )
    return explainer.explain(rows, target, **options)


# Oracles


def lifted(y: np.ndarray) -> np.ndarray:
    return np.append(y, 1.0)


def safety_margin(y: np.ndarray) -> float:
    return float(y @ COEF + INTERCEPT)


def inverted(transform: Callable[[np.ndarray], np.ndarray], t: float, size: float) -> float:
    """P(S > t) by the midpoint rule on the formula of Gil-Pelaez (1951)."""
    h = 2.0 * np.pi / (t + 60.0 * size)
    s = h * (np.arange(8000) + 0.5)
    return 0.5 - float((np.sin(t * s) / s * transform(s)).sum()) * h / np.pi


def tail(law: NoiseLaw, phi: np.ndarray, t: float) -> float:
    """P(φᵀμ > t), t >= 0."""
    if isinstance(law, ProjectedGaussian):
        return float(norm.sf(t / np.linalg.norm(law.factor.T @ phi)))
    length = law.scale * float(np.linalg.norm(phi))
    if isinstance(law, ProjectedGamma):
        power = -0.5 * (law.n_features + 1)
        return inverted(lambda s: (1.0 + (s * length) ** 2) ** power, t, length)
    with mpmath.workdps(120):
        apart = [1.0 + 1e-14 * k for k in range(len(phi))]  # equal ones have no such fractions
        pairs = zip(phi, apart, strict=True)
        weights = [mpmath.mpf(law.scale) * abs(float(v)) * mpmath.mpf(k) for v, k in pairs if v]
        terms = []
        for j, a in enumerate(weights):
            others = [a * a / (a * a - b * b) for k, b in enumerate(weights) if k != j]
            terms.append(mpmath.fprod(others) * mpmath.exp(-mpmath.mpf(t) / a) / 2)
        return float(mpmath.fsum(terms))


def multiple(law: NoiseLaw, p: float) -> tuple[np.ndarray, float]:
    """A and k with quantile k ‖A φ‖, for the elliptical laws."""
    if isinstance(law, ProjectedGaussian):
        return law.factor.T, float(norm.ppf(p))
    unit = np.eye(law.n_features)
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = tail(law, unit[0], middle * law.scale) > 1.0 - p
        low, high = (middle, high) if below else (low, middle)
    return law.scale * unit, low


def priced(cost: str, change: Any) -> Any:
    given = COSTS[cost]
    if isinstance(given, cp.Manhattan):
        return given.weights @ cvxpy.abs(change)
    matrix = given.matrix if isinstance(given, cp.Mahalanobis) else np.diag(given.weights)
    return cvxpy.quad_form(change, matrix)


def cheapest(cost: str, x: np.ndarray, demands: Callable[[Any], list[Any]]) -> float:
    y = cvxpy.Variable(D)
    problem = cvxpy.Problem(cvxpy.Minimize(priced(cost, y - x)), demands(y))
    tight = {"tol_gap_rel": 1e-9, "tol_gap_abs": 1e-9, "tol_feas": 1e-9}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": to nine digits, or nearly
        problem.solve(solver=cvxpy.CLARABEL, **tight)
    return float(problem.value)


def conic(kind: str, p: float, cost: str, limits: str, x: np.ndarray) -> float:
    root, k = multiple(LAWS[kind], p)
    more = CONSTRAINTS[limits][1]

    def demands(y: Any) -> list[Any]:
        phi = cvxpy.hstack([y, 1.0])
        return [k * cvxpy.norm(root @ phi) <= COEF @ y + INTERCEPT, *more(y, x)]

    return cheapest(cost, x, demands)


def assert_sure(kind: str, p: float, answers: cp.Counterfactuals):
    """Every answer meets its rule, and its probability is the one of an oracle."""
    assert answers.found.any()
    for i, y in zip(np.flatnonzero(answers.found), answers.to_frame()[answers.found], strict=True):
        exact = tail(LAWS[kind], lifted(y), safety_margin(y))
        assert exact <= (1.0 - p) * (1.0 + 1e-9)
        assert answers[i].certificate.probability == pytest.approx(1.0 - exact, abs=1e-9)
        assert answers[i].certificate.probability >= p


# The chance constraint of a fixed point: optima


@pytest.mark.covering(1)
@EVERY_COST
@EVERY_CONSTRAINT
@pytest.mark.parametrize("kind", ["gaussian", "gamma"])
def test_cones_are_those_of_cvxpy(kind: str, limits: str, cost: str):
    answers = explain(kind, cp.Robust("yes", 0.9, "fixed"), cost, CONSTRAINTS[limits][0])
    expected = [conic(kind, 0.9, cost, limits, x) for x in ROWS]
    assert np.array_equal(answers.found, np.isfinite(expected)), answers.report().to_string()
    found = answers.found
    np.testing.assert_allclose(answers.cost[found], np.array(expected)[found], rtol=ORACLE)
    assert (answers.gap[found] <= 1e-7).all()
    assert (answers.status[~found] == cp.Status.INFEASIBLE).all()
    assert_sure(kind, 0.9, answers)


@EVERY_COST
@EVERY_LAW
def test_rows_that_have_the_label_and_are_not_sure_leave_no_gap(kind: str, cost: str):
    """The first relaxation leaves such a row where it is, at no cost."""
    rows = ROWS + ((0.1 - ROWS @ COEF - INTERCEPT) / (COEF @ COEF))[:, None] * COEF
    answers = explain(kind, cp.Robust("yes", 0.9, "fixed"), cost, rows=rows)
    assert answers.found.all()
    assert (answers.cost > 0.0).all()
    assert (answers.gap <= 1e-7).all()
    assert_sure(kind, 0.9, answers)


def by_slsqp(p: float, cost: str, x: np.ndarray, law: NoiseLaw) -> float:
    """Rises and falls apart, so that a Manhattan cost is smooth; from feasible starts."""
    given = COSTS[cost]
    matrix = given.matrix if isinstance(given, cp.Mahalanobis) else np.diag(given.weights)

    def encoded_cost(v: np.ndarray) -> float:
        change = v[:D] - v[D:]
        if isinstance(given, cp.Manhattan):
            return float(given.weights @ (v[:D] + v[D:]))
        return float(change @ matrix @ change) + 1e-9 * float(v @ v)

    def slack(v: np.ndarray) -> float:
        y = x + v[:D] - v[D:]
        away = safety_margin(y)
        log_tail = np.log(tail(law, lifted(y), abs(away)))
        return float(np.log(1.0 - p) - (log_tail if away > 0.0 else np.log1p(-np.exp(log_tail))))

    best = np.inf
    for scale in (3.0, 6.0):
        start = np.concatenate([np.maximum(scale * COEF, 0.0), np.maximum(-scale * COEF, 0.0)])
        found = minimize(
            encoded_cost,
            start,
            method="SLSQP",
            bounds=[(0.0, 20.0)] * (2 * D),
            constraints=[{"type": "ineq", "fun": slack}],
            options={"ftol": 1e-12, "maxiter": 200, "eps": 1e-7},
        )
        if slack(found.x) >= -1e-7:
            best = min(best, float(found.fun))
    return best


@EVERY_COST
@pytest.mark.parametrize("p", [0.9, slow(0.75), slow(0.99)])
def test_laplace_noise_is_solved_as_by_slsqp(p: float, cost: str):
    answers = explain("laplace", cp.Robust("yes", p, "fixed"), cost, rows=ROWS[:1])
    assert answers.cost[0] == pytest.approx(by_slsqp(p, cost, ROWS[0], LAWS["laplace"]), rel=1e-5)
    assert answers.bound[0] <= answers.cost[0]
    assert answers.gap[0] <= 1e-7
    assert_sure("laplace", p, answers)


@EVERY_LAW
@pytest.mark.parametrize("cost", ["manhattan", "mahalanobis", slow("squared euclidean")])
@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
def test_every_answer_keeps_constraints_and_rule(guarantee: str, cost: str, kind: str):
    """With all constraints at once, whole columns, and few changes."""
    several = [
        *(cp.Bounds("a", fall=2.5, rise=2.5), cp.Monotone("c", "increasing")),
        *(cp.Linear.parse("a - b <= 9"), cp.MaxChanges(3)),
    ]
    target, described = cp.Robust("yes", 0.75, guarantee), features(0.5)
    rows = np.array(ROWS)
    rows[:, [1, 3]] = np.round(2.0 * rows[:, [1, 3]]) / 2.0
    answers = explain(kind, target, cost, several, rows, step=0.5)
    assert_sure(kind, 0.75, answers)
    assert (answers.gap[answers.found] <= 1e-6).all()
    assert set(answers.report()["guarantee"]) == {guarantee}
    frames = [
        pd.DataFrame(part, columns=NAMES)
        for part in (rows[answers.found], answers.to_frame()[answers.found])
    ]
    for before, after in zip(*(frame.to_dict("records") for frame in frames), strict=True):
        for constraint in several:
            assert allows(constraint, cp.Features(described), before, after), constraint


@pytest.mark.covering(2)
@EVERY_LAW
@EVERY_COST
@pytest.mark.parametrize("radius", [None, 2.0])
def test_whole_columns_and_categories_are_those_of_brute_force(
    cost: str, kind: str, radius: float | None
):
    """Also within an ellipsoid."""
    described = cp.Features(
        [
            cp.Integer("a", 0.5, (-2.0, 2.0)),
            cp.Integer("b", 1.0, (-3.0, 3.0)),
            cp.Categorical("c", ("ash", "elm", "fir"), observed=("ash", "elm", "fir")),
        ]
    )
    data = pd.DataFrame({"a": [0.0, 0.5, 1.0], "b": [0, 1, 2], "c": ["ash", "elm", "fir"]})
    encode = OneHotEncoder(sparse_output=False).fit(data[["c"]])
    before = make_column_transformer(encode, data)
    coef = [1.0, -0.6, 0.5, -0.4, -0.1]
    noisy = {
        "laplace": ProjectedLaplace(0.12, 6),
        "gamma": ProjectedGamma(0.07, 6),
        "gaussian": ProjectedGaussian(0.2 * np.random.default_rng(1).normal(size=(6, 6))),
    }[kind]
    chain = make_pipeline(before, cp.UncertainClassifier(fitted(coef, -1.0), law=noisy))
    spent = {
        "manhattan": cp.Manhattan([1.0, 0.7, 1.5]),
        "squared euclidean": cp.SquaredEuclidean([1.0, 0.5, 2.0]),
        "mahalanobis": cp.Mahalanobis([[1.0, 0.2, 0.0], [0.2, 0.5, 0.0], [0.0, 0.0, 2.0]]),
    }[cost]
    limits: list[cp.Constraint] = [cp.WithinObserved()]
    if radius is not None:
        limits.append(cp.Ellipsoid({"a": 0.0, "b": 0.0}, np.diag([1.0, 0.25]), radius=radius))
    explainer = cp.Explainer(chain, features=described, cost=spent, constraints=limits)
    row = {"a": -0.5, "b": 1, "c": "elm"}
    answer = explainer.explain(pd.DataFrame([row]), cp.Robust("yes", 0.8, "fixed"))[0]
    best = np.inf
    for a, b, c in product(np.arange(-2.0, 2.1, 0.5), range(-3, 4), ("ash", "elm", "fir")):
        after = {"a": float(a), "b": b, "c": c}
        phi = np.array([a, b, c == "ash", c == "elm", c == "fir", 1.0], dtype=float)
        if radius is not None and a * a + 0.25 * b * b > radius * radius:
            continue
        score = float(phi[:5] @ coef - 1.0)
        encoded_cost = cost_of(spent, described, row, after)
        if score > 0.0 and encoded_cost < best and tail(noisy, phi, score) <= 0.2:
            best = encoded_cost
    assert np.isfinite(best)
    assert answer.status == cp.Status.OPTIMAL
    assert answer.cost == pytest.approx(best, rel=1e-9)


def make_column_transformer(encode: Any, data: pd.DataFrame) -> Any:
    from sklearn.compose import ColumnTransformer

    parts = [("number", "passthrough", ["a", "b"]), ("word", encode, ["c"])]
    return ColumnTransformer(parts).fit(data)


def of_many(scale: float, coef: np.ndarray, seed: int) -> cp.UncertainClassifier:
    """A model of many columns whose weights are hardly known."""
    law = ProjectedLaplace(scale, len(coef) + 1)
    return cp.UncertainClassifier(fitted(coef.tolist(), 0.1 * seed), law=law)


@pytest.mark.covering(1)
@pytest.mark.parametrize("p", [0.9, 0.99])
@pytest.mark.parametrize("seed", [0, 2])
def test_much_noise_on_many_columns_leaves_no_gap(seed: int, p: float):
    """Under a Manhattan cost, where tangents alone leave 1e-7."""
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=30)
    rows = rng.normal(size=(2, 30)) - 0.3 * coef
    for limits in ([], [cp.Bounds(name, rise=2, fall=2) for name in map(str, range(30))]):
        answers = cp.Explainer(
            of_many(0.45, coef, 0),
            features=[cp.Continuous(str(j)) for j in range(30)],
            cost=cp.Manhattan(),
            constraints=limits,
        ).explain(rows, cp.Robust("yes", p, "fixed"))
        assert answers.found.all()
        assert (answers.gap <= 1e-8).all()
        assert (answers.certificates.claim == cp.Claim.PROVED).all()


@pytest.mark.parametrize(
    ("d", "cost", "seed"),
    [
        (12, cp.Manhattan(), 0),
        (12, cp.SquaredEuclidean(), 1),
        *(slow(30, cost, k) for cost in (cp.Manhattan(), cp.SquaredEuclidean()) for k in (0, 1)),
    ],
)
def test_a_little_more_than_can_be_had_is_proved_to_be_too_much(d: int, cost: cp.Cost, seed: int):
    """Of Laplace noise on many columns, whose cones are only like it where they touch it."""
    names = [str(j) for j in range(d)]
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=d)
    explainer = cp.Explainer(
        of_many(1.0, coef, 0),
        features=[cp.Continuous(name) for name in names],
        cost=cost,
        constraints=[cp.Bounds(name, rise=1.5, fall=1.5) for name in names],
    )
    row = rng.normal(size=(1, d)) - 0.1 * coef
    low, high = np.log(2.0), 14.0  # of −log (1 − p)
    for _ in range(9):
        middle = 0.5 * (low + high)
        target = cp.Robust("yes", 1.0 - np.exp(-middle), "fixed")
        answer = explainer.explain(row, target)[0]
        assert answer.status in {cp.Status.OPTIMAL, cp.Status.INFEASIBLE}, answer
        low, high = (middle, high) if answer.found else (low, middle)
    assert np.log(2.0) < low < high < 14.0


@pytest.mark.parametrize("seed", [1, slow(2)])
def test_cones_and_whole_columns_together(seed: int):
    """An ellipsoid around seven columns, of which five are whole, with a category."""
    words, numbers = ("ash", "elm", "fir"), [f"i{j}" for j in range(7)]
    described = [cp.Continuous(name) for name in numbers[:2]]
    described += [cp.Integer(name) for name in numbers[2:]]
    described += [cp.Categorical("k", words, observed=words)]
    data = pd.DataFrame({name: [0.0, 1.0, 2.0] for name in numbers} | {"k": words})
    encode = OneHotEncoder(sparse_output=False).fit(data[["k"]])
    from sklearn.compose import ColumnTransformer

    parts = [("number", "passthrough", numbers), ("word", encode, ["k"])]
    before = ColumnTransformer(parts).fit(data)
    rng = np.random.default_rng(seed)
    coef, root = rng.normal(size=10), rng.normal(size=(7, 7))
    limits = [cp.Ellipsoid(dict.fromkeys(numbers, 0.0), root @ root.T / 7 + np.eye(7), 8.0)]
    for cost in (cp.Manhattan(), cp.SquaredEuclidean()):
        chain = make_pipeline(before, of_many(0.25, coef, -seed))
        explainer = cp.Explainer(chain, features=described, cost=cost, constraints=limits)
        row = pd.DataFrame([dict.fromkeys(numbers, 0.0) | {"k": words[coef[-3:].argmin()]}])
        for guarantee in ("fixed", "selection"):
            answer = explainer.explain(row, cp.Robust("yes", 0.9, guarantee))[0]
            assert answer.status in {cp.Status.OPTIMAL, cp.Status.INFEASIBLE}, answer
            if answer.found:
                assert answer.certificate.gap <= 1e-6
                assert answer.certificate.violation <= 1e-8


@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
def test_numbers_move_beside_a_category_that_is_held(guarantee: Any):
    """Under a quadratic cost, where the category stays one while the numbers are refined."""
    words = ("ash", "elm", "fir")
    data = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 2.0], "k": words, "n": [0, 1, 2]})
    from sklearn.compose import ColumnTransformer

    encode = OneHotEncoder(sparse_output=False).fit(data[["k"]])
    parts = [("word", encode, ["k"]), ("number", "passthrough", ["a", "b", "n"])]
    before = ColumnTransformer(parts).fit(data)
    noisy = cp.UncertainClassifier(
        fitted([0.4, -0.2, -0.2, 1.0, 0.7, 0.3], -4.0), law=ProjectedLaplace(0.05, 7)
    )
    chain = make_pipeline(before, noisy)
    cost = cp.SquaredEuclidean([1.0, 1.0, 1.0, 1.0])
    explainer = cp.Explainer(
        chain, data=data, features=[cp.Integer("n")], cost=cost, extrapolate=True
    )
    answers = explainer.explain(data, cp.Robust("yes", 0.95, guarantee))
    assert set(answers.status) <= {cp.Status.OPTIMAL, cp.Status.ALREADY}


def test_a_hair_of_a_change_beside_whole_columns_is_found():
    """Where only a continuous column has to move, and by next to nothing, there is an answer."""
    explainer = cp.Explainer(model("gamma"), features=features(1.0), cost=COSTS["manhattan"])
    row = np.array([[0.0, 2.0, 0.0, 1.0]])
    low, high = 0.0, 6.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        row[0, 0] = middle
        sure = tail(LAWS["gamma"], lifted(row[0]), max(safety_margin(row[0]), 0.0)) <= 0.25
        low, high = (low, middle) if sure else (middle, high)
    for short in (1e-3, 1e-5, 1e-7):
        row[0, 0] = low - short
        answer = explainer.explain(row, cp.Robust("yes", 0.75, "fixed"))[0]
        assert answer.status == cp.Status.OPTIMAL, answer
        assert answer.cost <= short * (1.0 + 1e-6) + 1e-9


@EVERY_COST
def test_noise_that_grows_faster_than_any_lead_is_proved_to_exclude_all(cost: str):
    """Also where an ellipsoid leaves the relaxation to an interior point."""
    noisy = cp.UncertainClassifier(fitted(COEF, INTERCEPT), law=ProjectedLaplace(0.9, D + 1))
    limits = [cp.Ellipsoid({"a": 0.0, "b": 0.0}, np.eye(2), radius=5.0)]
    explainer = cp.Explainer(noisy, features=features(), cost=COSTS[cost], constraints=limits)
    answers = explainer.explain(ROWS, cp.Robust("yes", 0.99, "selection"))
    assert (answers.status == cp.Status.INFEASIBLE).all()


@EVERY_COST
def test_few_changes_are_those_of_all_subsets(cost: str):
    answers = explain("gaussian", cp.Robust("yes", 0.9, "fixed"), cost, [cp.MaxChanges(2)])
    root, k = multiple(LAWS["gaussian"], 0.9)
    for i, x in enumerate(ROWS):
        best = np.inf
        for still in combinations(range(D), D - 2):

            def demands(y: Any, x: np.ndarray = x, still: tuple[int, ...] = still) -> list[Any]:
                phi = cvxpy.hstack([y, 1.0])
                lead_of = COEF @ y + INTERCEPT
                return [k * cvxpy.norm(root @ phi) <= lead_of, *(y[j] == x[j] for j in still)]

            best = min(best, cheapest(cost, x, demands))
        assert answers.cost[i] == pytest.approx(best, rel=ORACLE)
        assert answers.gap[i] <= 1e-6


# The guarantee of a point that was chosen by looking


def question(kind: str, cost: str, constraints: Sequence[cp.Constraint] = ()) -> Query:
    described = cp.Features(features())
    return Query.ask(
        see_through(model(kind), described, fixed=True), described, constraints, COSTS[cost]
    )


def band(
    kind: str, cost: str, p: float, constraints: Sequence[cp.Constraint] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """(n, V) both coordinates of the corners of each row's polygon."""
    program, noise = question(kind, cost, constraints).actionable, LAWS[kind].draw(10_000, 0)
    reach = DualNorms(program, program.cases(ROWS)).of(noise[:, :D])
    return polygon_corners(np.stack([noise @ lifted(x) for x in ROWS]), reach, p)


def asked_of(kind: str, cost: str, p: float, constraints: Sequence[cp.Constraint] = ()) -> Any:
    found = cp.Robust("yes", p, "selection").safety_margins(question(kind, cost, constraints), ROWS)
    assert isinstance(found, LinearMargins)
    return found.rows


def dual(cost: str, pulls: np.ndarray, free: Sequence[int] = range(D)) -> np.ndarray:
    """(N,) the most that each of (N, d) functions gains for a unit of distance."""
    given, some = COSTS[cost], pulls[:, list(free)]
    if isinstance(given, cp.Manhattan):
        return (np.abs(some) / np.asarray(given.weights)[list(free)]).max(axis=1)
    matrix = given.matrix if isinstance(given, cp.Mahalanobis) else np.diag(given.weights)
    inverse = np.linalg.inv(np.asarray(matrix)[np.ix_(list(free), list(free))])
    return np.sqrt(np.einsum("ij,jk,ik->i", some, inverse, some))


@pytest.mark.covering(2)
@EVERY_LAW
@EVERY_COST
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_noise_takes_no_more_than_the_band_at_any_distance_at_once(p: float, cost: str, kind: str):
    """Fresh draws: with probability p and more, and not much more, at all distances together."""
    found, law = band(kind, cost, p), LAWS[kind]
    noise = law.draw(100_000, 99)
    away = dual(cost, noise[:, :D])
    distances = np.concatenate([[0.0], np.geomspace(1e-2, 1e3, 40)])
    for x, start, rate in zip(ROWS, *found, strict=True):
        needed = (start + rate * distances[:, None]).max(axis=1)
        taken = (noise @ lifted(x))[:, None] + away[:, None] * distances
        kept = (taken <= needed).all(axis=1).mean()
        spread = 4.0 * np.sqrt(p * (1.0 - p) / 8000.0)
        assert p - 3e-3 <= kept <= p + 2.0 * spread + 1e-2
        assert (np.diff(needed) >= 0.0).all()


@pytest.mark.covering(2)
@EVERY_LAW
@EVERY_COST
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_the_label_that_known_weights_do_not_give_is_as_sure(p: float, cost: str, kind: str):
    """Noise says which label is asked for, and then takes too much of its lead: not more often."""
    found, law = band(kind, cost, p), LAWS[kind]
    noise = law.draw(40_000, 99)
    distances = np.concatenate([[0.0], np.geomspace(1e-2, 1e3, 30)])
    away = dual(cost, noise[:, :D])[:, None] * distances
    for x, start, rate in zip(ROWS, *found, strict=True):
        needed = (start + rate * distances[:, None]).max(axis=1)
        near = noise @ lifted(x)
        missed = {s: (s * near[:, None] + away > needed).any(axis=1) for s in (1.0, -1.0)}
        for true in np.array([-2.0, -0.5, 0.0, 0.5, 2.0]) * near.std():
            asks = near < -true  # whether known weights give the first label, though not by much
            wrong = np.where(asks, missed[1.0], missed[-1.0]).mean()
            assert wrong <= 1.0 - p + 6e-3


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("times", [5.0, *(slow(t) for t in (2.5, 8.0, 20.0))])
def test_no_point_that_is_certified_is_wrong_more_often_whoever_chose_it(kind: str, times: float):
    """The worst of a plane of points, for each of many releases of weights of several lengths."""
    d, p, rng, draws = 6, 0.9, np.random.default_rng(5), 40 if times == 5.0 else 120
    scale = {"laplace": 1.0, "gamma": np.sqrt(2.0 / (d + 2)), "gaussian": np.sqrt(2.0)}[kind]
    laws = {"laplace": ProjectedLaplace, "gamma": ProjectedGamma}
    law = laws.get(kind, ProjectedGaussian.isotropic)(scale, d + 1)
    angle, far = np.meshgrid(np.linspace(-1.5, 1.5, 25), np.geomspace(0.02, 60.0, 30))
    plane = np.stack([far * np.cos(angle), far * np.sin(angle)], axis=-1).reshape(-1, 2)
    for direction in (np.eye(d)[0], np.ones(d) / np.sqrt(d)):
        for distance, side in ((0.3, 0.0), (3.0, 2.0)):
            v = times * np.sqrt(2.0) * direction
            x = side * rng.normal(size=d)
            true = np.append(v, -times * np.sqrt(2.0) * (distance + x @ direction))
            wrong = 0
            for mu in law.draw(draws, 3):
                w, g = true + mu, mu[:d]
                aside = g - (g @ v) / (v @ v) * v
                axes = np.stack([w[:d] / np.linalg.norm(w[:d]), aside / np.linalg.norm(aside)])
                y = x + plane @ axes
                y = y[y @ v + true[d] < 0.0]  # where the true weights are for the other label
                names = [f"x{j}" for j in range(d)]
                described = cp.Features([cp.Continuous(name) for name in names])
                model = cp.UncertainClassifier(fitted(w[:d], float(w[d])), law=law)
                reading = see_through(model, described, fixed=True)
                asked = Query.ask(reading, described, (), cp.SquaredEuclidean(np.ones(d)))
                target = cp.Robust("yes", p, "selection", draws=4000)
                (condition,) = target.safety_margins(asked, x[None]).rows
                satisfied = (y @ w[:d] + w[d] >= 0.0) & (condition.excess(y) <= 0.0)
                wrong += bool(satisfied.any())
            assert wrong <= 0.1 * draws + 3.0 * np.sqrt(0.09 * draws)


@EVERY_COST
def test_moves_that_are_closed_to_a_row_pull_at_nothing(cost: str):
    """Immutable columns, and those that only rise, make the band narrower; never wider."""
    wide = band("laplace", cost, 0.9)
    for constraints in ([cp.Immutable("a", "c")], [cp.Monotone("a", "increasing")]):
        narrow = band("laplace", cost, 0.9, constraints)
        same = cost == "mahalanobis" and isinstance(constraints[0], cp.Monotone)
        at = [(start + 5.0 * rate).max(axis=1) for start, rate in (narrow, wide)]
        less = at[0] - at[1]
        assert (less == 0.0).all() if same else (less < 0.0).all()
    pulls = np.random.default_rng(0).normal(size=(50, D))
    asked = question("laplace", cost, [cp.Immutable("a", "c")])
    reach = DualNorms(asked.actionable, asked.actionable.cases(ROWS[:1])).of(pulls)[0]
    np.testing.assert_allclose(reach, dual(cost, pulls, [1, 3]), rtol=1e-12)
    if cost != "mahalanobis":  # there a column that only rises counts as one that moves both ways
        rises = question("laplace", cost, [cp.Monotone("a", "increasing")]).actionable
        upwards = np.hstack([np.maximum(pulls[:, :1], 0.0), pulls[:, 1:]])
        reach = DualNorms(rises, rises.cases(ROWS[:1])).of(pulls)[0]
        np.testing.assert_allclose(reach, dual(cost, upwards), rtol=1e-12)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("cost", ["manhattan", "squared euclidean", "mahalanobis"])
def test_no_move_gains_more_than_its_reach(cost: str, few: bool):
    """Numbers that only rise, whole ones, categories, and few changes at a time."""
    words = ("ash", "elm", "fir")
    described = cp.Features(
        [
            cp.Continuous("a", (-3.0, 3.0)),
            cp.Integer("b", 0.5, (-3.0, 3.0)),
            cp.Categorical("c", words, observed=words),
            cp.Categorical("d", words[:2], observed=words[:2]),
        ]
    )
    spent = {
        "manhattan": cp.Manhattan([1.0, 0.7, 1.5, 0.4]),
        "squared euclidean": cp.SquaredEuclidean([1.0, 0.5, 2.0, 0.3]),
        "mahalanobis": cp.Mahalanobis(np.diag([1.0, 0.5, 2.0, 0.3])),
    }[cost]
    limits = [cp.Monotone("a", "increasing"), *[cp.MaxChanges(2)] * few, cp.WithinObserved()]
    logistic = LogisticRegression()
    logistic.coef_, logistic.intercept_ = np.ones((1, described.width)), np.zeros(1)
    logistic.classes_, logistic.n_features_in_ = np.array([0, 1]), described.width
    reading = ReadModel(logistic, read(logistic), described, named=False, steps=())
    plain = Query.ask(reading, described, limits, spent).actionable
    rng = np.random.default_rng(3)
    codes = np.column_stack(
        [rng.uniform(-3, 3, 4000), rng.integers(-6, 7, 4000) / 2, *rng.integers(0, 2, (2, 4000))]
    )
    x = np.repeat(described.expand(codes[:1]), 4000, axis=0)
    y = described.expand(codes)
    y = y[plain.violation(y, x) == 0.0]
    x = x[: len(y)]
    assert len(y) > 20
    gains = rng.normal(size=(30, described.width))
    reach = DualNorms(plain, plain.cases(x[:1])).of(gains)[0]
    encoded_cost = plain.encoded_cost(y, x)
    distance = encoded_cost if cost == "manhattan" else np.sqrt(encoded_cost)
    assert ((y - x) @ gains.T <= reach * distance[:, None] * (1.0 + 1e-12)).all()


def demanded(condition: Any, cost: str, delta: Any, ahead: Any) -> list[Any]:
    """What a lead asks for, for CVXPY: written down once more."""
    given = COSTS[cost]
    if cost == "manhattan":
        far = given.weights @ cvxpy.abs(delta)
    else:
        matrix = given.matrix if isinstance(given, cp.Mahalanobis) else np.diag(given.weights)
        far = cvxpy.norm(np.linalg.cholesky(matrix).T @ delta)
    pairs = sorted(set(zip(condition.start.tolist(), condition.rate.tolist(), strict=True)))
    return [a + b * far <= ahead for a, b in pairs]


@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
@pytest.mark.parametrize("kind", ["laplace", "gamma", "gaussian"])
def test_answers_in_whole_steps_are_proved(kind: str, guarantee: str):
    """By the proof of the branch and bound over the half-spaces of noise.

    What it reports is not enough: it searches for points that lead by a safety margin, and its
    bound need not hold for a point that leads by less.
    """
    answers = explain(kind, cp.Robust("yes", 0.9, guarantee), step=1.0)
    assert answers.found.any()
    assert (answers.certificates.claim[answers.found] == cp.Claim.PROVED).all()


@pytest.mark.parametrize("kind", ["laplace", *(slow(kind) for kind in ("gamma", "gaussian"))])
@EVERY_COST
@EVERY_CONSTRAINT
def test_a_lead_that_grows_with_the_distance_is_met_as_by_cvxpy(limits: str, cost: str, kind: str):
    constraints, more = CONSTRAINTS[limits]
    answers = explain(kind, cp.Robust("yes", 0.75, "selection"), cost, constraints)
    asked = asked_of(kind, cost, 0.75, constraints)
    for i, (x, condition) in enumerate(zip(ROWS, asked, strict=True)):

        def demands(y: Any, x: np.ndarray = x, condition: Any = condition) -> list[Any]:
            return [*demanded(condition, cost, y - x, COEF @ y + INTERCEPT), *more(y, x)]

        expected = cheapest(cost, x, demands)
        if np.isinf(expected):
            assert answers.status[i] == cp.Status.INFEASIBLE, answers[i]
            continue
        assert answers.cost[i] == pytest.approx(expected, rel=ORACLE)
        assert answers.gap[i] <= 1e-7
    found = answers.found
    if found.any():
        assert (answers.certificates.probability[found] >= 0.75).all()
        assert set(answers.report()["guarantee"][found]) == {"selection"}


@pytest.mark.parametrize(
    ("kind", "cost"),
    [
        ("laplace", "squared euclidean"),
        ("gaussian", "squared euclidean"),
        slow("laplace", "manhattan"),
        slow("gaussian", "manhattan"),
    ],
)
def test_what_is_promised_is_kept_where_optimal_points_break_their_word(kind: str, cost: str):
    """The winner's curse: known weights, many releases of them, one answer to each."""
    rng, p, times = np.random.default_rng(11), 0.9, 60
    d = 30
    true = rng.normal(size=d) / np.sqrt(d)
    law: NoiseLaw = ProjectedLaplace(0.05, d + 1)
    if kind == "gaussian":
        law = ProjectedGaussian.isotropic(0.07, d + 1)
    x = rng.normal(size=d)
    x -= (true @ x + 0.8) / (true @ true) * true
    encoded_cost = cp.Manhattan() if cost == "manhattan" else cp.SquaredEuclidean()
    kept: dict[str, list[bool]] = {"fixed": [], "selection": []}
    for noise in law.draw(times, 5):
        known = true + noise[:d]
        released = cp.UncertainClassifier(fitted(known, noise[d]), law=law)
        explainer = cp.Explainer(released, cost=encoded_cost)
        for guarantee, held in kept.items():
            answer = explainer.explain(x[None], cp.Robust("yes", p, guarantee, draws=2000))[0]
            if answer.found and answer.status != cp.Status.ALREADY:
                y = np.array(list(answer.row.values()))
                held.append(bool(true @ y >= 0.0))
    assert min(map(len, kept.values())) > 0.9 * times
    spread = np.sqrt(p * (1.0 - p) / times)
    assert np.mean(kept["selection"]) >= p - 3.0 * spread
    assert np.mean(kept["fixed"]) < p - 2.0 * spread


# What else is asked, and by whom


def test_the_best_guarantee_that_can_be_had():
    """With little noise that of a chosen point; with more, that of a fixed one; then none."""
    said = []
    for scale in (0.02, 0.3, 3.0):
        uncertain = cp.UncertainClassifier(
            fitted(COEF, INTERCEPT), law=ProjectedLaplace(scale, D + 1)
        )
        explainer = cp.Explainer(uncertain, cost=cp.SquaredEuclidean())
        (answer,) = explainer.explain(ROWS[:1], cp.Robust("yes", 0.95))
        said.append((answer.status, answer.certificate.guarantee))
        text = " ".join(str(answer).split())
        promised = "Of all questions asked like this, at most"
        assert ("%" in text) == (promised in text) == (answer.certificate.guarantee == "selection")
        if answer.found:
            chosen = "chosen by looking at the weights" in answer.message
            assert chosen
    assert said == [
        (cp.Status.OPTIMAL, cp.Guarantee.SELECTION),
        (cp.Status.OPTIMAL, cp.Guarantee.FIXED),
        (cp.Status.INFEASIBLE, cp.Guarantee.FIXED),
    ]


def test_a_fixed_guarantee_says_what_it_is():
    (answer,) = explain("laplace", cp.Robust("yes", 0.9, "fixed"), rows=ROWS[:1])
    assert "of a point fixed beforehand; this answer was chosen by looking" in answer.message
    assert "probability 0.9 if fixed beforehand" in str(answer)


def test_the_same_call_gives_the_same_answer():
    target = cp.Robust("yes", 0.8)
    first, second = (explain("laplace", target, "manhattan") for _ in range(2))
    assert (first.to_frame() == second.to_frame()).all()
    other = explain("laplace", cp.Robust("yes", 0.8, random_state=1), "manhattan")
    assert not np.array_equal(first.cost, other.cost)
    np.testing.assert_allclose(first.cost, other.cost, rtol=0.05)


def test_a_batch_says_what_each_row_says():
    for guarantee in ("fixed", "selection"):
        target = cp.Robust("yes", 0.8, guarantee)
        together = explain("laplace", target)
        for i in range(len(ROWS)):
            alone = explain("laplace", target, rows=ROWS[i : i + 1])
            np.testing.assert_allclose(alone.to_frame()[0], together.to_frame()[i], rtol=1e-12)


@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
def test_a_row_that_is_sure_stays(guarantee: str):
    far = ROWS[:1] + 20.0 * COEF
    near = explain("laplace", cp.Robust("yes", 0.9, guarantee), rows=ROWS[:1]).to_frame()
    for row, status in ((far, "already"), (near + 0.3 * COEF, "already"), (ROWS[:1], "optimal")):
        (answer,) = explain("laplace", cp.Robust("yes", 0.9, guarantee), rows=row)
        assert answer.status == status
        assert answer.certificate.guarantee == guarantee
        assert answer.certificate.probability >= 0.9


def test_half_is_what_the_model_predicts():
    plain = cp.explain(fitted(COEF, INTERCEPT), ROWS, "yes", cost=COSTS["manhattan"])
    half = cp.explain(
        model("laplace"), ROWS, cp.Robust("yes", 0.5, "fixed"), cost=COSTS["manhattan"]
    )
    np.testing.assert_allclose(half.cost, plain.cost, rtol=1e-12)
    assert (half.certificates.probability >= 0.5).all()


@pytest.mark.parametrize("guarantee", ["selection", pytest.param("fixed", marks=pytest.mark.slow)])
def test_no_answer_and_what_would_be_one(guarantee: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conflicts, "IN_ALL", 60.0)  # seconds; else a slow machine finds less
    limits = [cp.Bounds(name, fall=0.8, rise=0.8) for name in NAMES]

    def asked(p: float) -> cp.Counterfactual:
        target = cp.Robust("yes", p, guarantee)
        return explain("laplace", target, "squared euclidean", limits, ROWS[2:])[0]

    answer = asked(0.999)
    assert answer.status == cp.Status.INFEASIBLE
    assert "with weights as uncertain as these" in answer.message
    conflict = answer.conflict
    assert conflict is not None
    assert conflict.attainable is not None
    assert conflict.constraints
    assert "f a probability of 0." in str(conflict)
    assert asked(conflict.attainable).found
    assert not asked(conflict.attainable + 0.001).found


def told(message: str) -> tuple[float | None, float]:
    """The probability and the share of the noise that a message says is attainable."""
    reached = re.search(r"A probability of (0\.\d+) is attainable", message)
    share = re.search(r"is attainable with (0\.\d+) times the noise", message)
    assert share, message
    assert reached or "Not even a probability of 0.5 was reached" in message
    return float(reached[1]) if reached else None, float(share[1])


@pytest.mark.covering(1)
@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
@pytest.mark.parametrize("scale", [0.25, 0.6])
@EVERY_COST
def test_a_row_without_an_answer_says_what_could_be_had(cost: str, scale: float, guarantee: str):
    limits = [cp.Bounds(name, fall=1.5, rise=1.5) for name in NAMES]

    def asked(p: float, scale: float) -> cp.Counterfactuals:
        law = ProjectedLaplace(scale, D + 1)
        noisy = cp.UncertainClassifier(fitted(COEF, INTERCEPT), law=law)
        explainer = cp.Explainer(noisy, features=features(), cost=COSTS[cost], constraints=limits)
        return explainer.explain(ROWS[:1], cp.Robust("yes", p, guarantee))

    answers = asked(0.999, scale)
    assert answers.status[0] == cp.Status.INFEASIBLE
    reached, share = told(answers[0].message)
    what = {"fixed": "for a fixed point", "selection": "only if it was settled on beforehand"}
    assert (what[guarantee] in answers[0].message) == (reached is not None)
    assert answers.report()["message"][0] == answers[0].message
    assert "epsilon" not in answers[0].message
    assert asked(0.999, share * scale).found[0]
    assert not asked(0.999, min(1.1 * share, 1.0) * scale).found[0]
    if reached is None:
        assert not asked(0.5, scale).found[0]
    else:
        assert asked(reached, scale).found[0]
        assert not asked(1.0 - 0.9 * (1.0 - reached), scale).found[0]


def test_a_row_that_no_noise_keeps_from_its_label_says_so():
    limits = [cp.Immutable(*NAMES)]
    for guarantee in ("fixed", "selection"):
        answer = explain("laplace", cp.Robust("yes", 0.9, guarantee), constraints=limits)[0]
        assert "Even without noise no change was found that gives the label." in answer.message


def test_what_could_be_had_of_a_private_machine_is_said_in_epsilon():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(300, 3))
    y = X[:, 0] > 0.2 * X[:, 1]
    options = {"C": 20.0, "bounds": (-1, 1), "classes": [False, True], "insecure_noise_seed": 0}
    limits = [cp.WithinObserved()]
    for mechanism, delta in (("laplace", None), ("gaussian", 1e-6)):
        released = PrivateSVC(2.0, mechanism=mechanism, delta=delta, **options).fit(X, y)
        row = np.zeros((1, 3))
        target = cp.Robust(not released.predict(row)[0], 0.9999, "fixed")
        for private in (False, True):
            released.private_, released.epsilon_spent_ = private, 2.0 if private else np.inf
            explainer = cp.Explainer(released, cost=cp.Manhattan(), constraints=limits)
            message = explainer.explain(row, target)[0].message
            _, share = told(message)
            epsilon = re.search(r"times the noise \(epsilon = (\S+)\)", message)
            assert (epsilon is not None) == (private and mechanism == "laplace"), message
            if epsilon:
                assert 2.0 / share <= float(epsilon[1]) <= 2.0 / share * 1.01


def test_a_report_looks_closely_at_the_first_rows_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("counterpoint.results.REMARKS", 1)
    limits = [cp.Bounds(name, fall=0.1, rise=0.1) for name in NAMES]
    answers = explain("laplace", cp.Robust("yes", 0.999, "fixed"), constraints=limits)
    messages = answers.report()["message"].tolist()
    assert [len(message) > len(messages[1]) for message in messages] == [True, False, False]
    assert answers[1].message.startswith(messages[1])
    assert len(answers[1].message) > len(messages[1])


def test_what_could_be_had_is_searched_for_once(monkeypatch: pytest.MonkeyPatch):
    """For a row's message and for the report together."""
    limits = [cp.Bounds(name, fall=0.1, rise=0.1) for name in NAMES]
    answers = explain("laplace", cp.Robust("yes", 0.999, "fixed"), constraints=limits)
    searched: list[Any] = []
    look = attainable.remark_without_answer
    monkeypatch.setattr(
        attainable, "remark_without_answer", lambda *a: (searched.append(a), look(*a))[1]
    )
    first = answers[0].message
    assert answers.report()["message"].tolist() == [first, answers[1].message, answers[2].message]
    assert len(searched) == len(answers) == 3


class Clock:
    """A clock that moves on by so many seconds each time it is looked at."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
def test_the_highest_probability_is_searched_for_until_the_deadline(
    guarantee: str, monkeypatch: pytest.MonkeyPatch
):
    """No try begins after it, neither for a conflict nor for a message."""
    limits = [cp.Bounds(name, fall=0.8, rise=0.8) for name in NAMES]
    target = cp.Robust("yes", 0.999, guarantee)
    answers = explain("laplace", target, "squared euclidean", limits, ROWS[2:])
    answer, tries = answers[0], list[float]()
    assert answer.status == cp.Status.INFEASIBLE
    clock = Clock(0.1)
    monkeypatch.setattr(attainable, "thread_time", clock)
    for module in (conflicts, feasibility):
        monkeypatch.setattr(module, "thread_time", clock)
    look = attainable.search

    def seen(*given: Any) -> Any:
        tries.append(clock.now)
        return look(*given)

    monkeypatch.setattr(attainable, "search", seen)
    start = clock.now
    assert answer.conflict is not None
    assert all(at <= start + conflicts.IN_ALL for at in tries)
    clock.step, start = 1.0, clock.now
    tries.clear()
    assert answer.message
    assert tries
    assert all(at <= start + clock.step + attainable.IN_ALL for at in tries)


def test_a_row_that_lacks_only_a_lead_is_searched_once(monkeypatch: pytest.MonkeyPatch):
    """It is sure as a fixed point, and yet has no guarantee for a chosen one."""
    target = cp.Robust("yes", 0.9, "selection")
    near = explain("laplace", cp.Robust("yes", 0.9, "fixed"), rows=ROWS[:1]).to_frame()
    searches: list[Any] = []
    search = validation.search
    monkeypatch.setattr(validation, "search", lambda *a: (searches.append(a), search(*a))[1])
    (answer,) = explain("laplace", target, rows=near + 1e-6 * COEF)
    assert answer.status == cp.Status.OPTIMAL
    assert len(searches) == 1


def test_what_could_be_had_says_what_it_is_a_probability_of():
    for asked, said in (
        (cp.Robust("yes", 0.9, "fixed"), " for a fixed point"),
        (cp.Robust("yes", 0.9, "selection"), " (a promise only if it was settled on beforehand)"),
    ):
        told = attainable_sentence(asked, 0.75, None, None)
        assert told == f"A probability of 0.750 is attainable{said}."


def test_no_probability_below_one_is_called_one():
    near, far = ROWS[:1], ROWS[:1] + 1000.0 * COEF
    for p, rows in ((1.0 - 1e-9, near), (0.9, far)):
        answer = explain("laplace", cp.Robust("yes", p, "fixed"), rows=rows)[0]
        assert "probability above 0.999999 if fixed beforehand" in str(answer)
    message = explain("laplace", cp.Robust("yes", 1.0 - 1e-12, "fixed"), rows=near)[0].message
    assert "; 0.999999999999 is attainable with" in message


@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
def test_a_number_that_is_too_large_costs_its_own_row_alone(guarantee: str):
    rows = np.array(ROWS)
    rows[0, 1], rows[1, 2] = 1e300, -1e99
    answers = explain("laplace", cp.Robust("yes", 0.8, guarantee), rows=rows)
    assert answers.status[0] == cp.Status.INVALID
    assert "'b' holds 1e+300, which is too large to say what noise" in answers[0].message
    assert answers.status[2] == cp.Status.OPTIMAL


def test_time_that_runs_out_is_said():
    answers = explain(
        "laplace", cp.Robust("yes", 0.9, "fixed"), "manhattan", step=0.5, time_limit=1e-9
    )
    assert set(answers.status) <= {cp.Status.LIMIT, cp.Status.OPTIMAL, cp.Status.SUBOPTIMAL}


# Readers


@pytest.mark.parametrize("mechanism", ["laplace", "gamma", "gaussian"])
@pytest.mark.parametrize("intercept", [None, 0.0, 2.0])
def test_a_private_machine_is_read_with_its_noise(intercept: float | None, mechanism: str):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.normal(size=(400, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 0.0], columns=list("abc")
    )
    y = np.where(X["a"] - 5.0 + 0.1 * X["b"] > 0.0, "yes", "no")
    options = {"delta": 1e-5} if mechanism == "gaussian" else {}
    private = PrivateSVC(
        20.0,
        C=20.0,
        bounds=([0.0, -40.0, -0.5], [10.0, 40.0, 0.5]),
        classes=["no", "yes"],
        mechanism=mechanism,
        intercept_scaling=intercept,
        insecure_noise_seed=0,
        **options,
    ).fit(X, y)
    check_reader(private, X)
    read_form = read(private)
    assert isinstance(read_form, UncertainScores)
    np.testing.assert_allclose(read_form.phi(X.to_numpy()), private.features(X), atol=1e-12)
    rows = X[private.predict(X) == "no"].head(3)
    answers = cp.explain(private, rows, cp.Robust("yes", 0.9), data=X)
    assert answers.found.all()
    after = answers.to_frame()
    assert (private.predict(after) == "yes").all()
    scores = private.decision_function(after)
    certain = 1.0 - private.noise_.tail(scores, private.features(after))
    np.testing.assert_allclose(answers.certificates.probability, certain, rtol=1e-9)


def test_an_uncertain_classifier_is_an_estimator_that_passes_on():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, D)), columns=NAMES)
    y = np.where(X["a"] > X["b"], "yes", "no")
    scaler = StandardScaler().fit(X)
    logistic = LogisticRegression().fit(scaler.transform(X), y)
    uncertain = cp.UncertainClassifier(logistic, covariance=0.01 * np.eye(D + 1))
    chain = make_pipeline(scaler, uncertain)
    check_reader(chain, X)
    plain = make_pipeline(scaler, logistic)
    assert (chain.predict(X) == plain.predict(X)).all()
    np.testing.assert_array_equal(chain.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(chain.decision_function(X), plain.decision_function(X))
    assert uncertain.fit(X, y) is uncertain
    assert uncertain.get_params()["estimator"] is logistic
    answers = cp.explain(chain, X[y == "no"][:2], cp.Robust("yes", 0.9), data=X)
    assert answers.found.all()
    sure = cp.explain(chain, X[y == "no"][:2], cp.Probability("yes", 0.9), data=X)
    assert (sure.certificates.probability >= 0.9).all()
    assert set(sure.report()["guarantee"]) == {"none"}


# Bad input


@pytest.mark.parametrize("probability", [0.0, 0.4999, 1.0, 1.5, -0.1, float("nan"), "0.9", True])
def test_a_probability_is_at_least_a_half_and_below_one(probability: Any):
    with pytest.raises(cp.InvalidInput, match=r"at least 0\.5, as likely as not, and below 1"):
        cp.Robust("yes", probability)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guarantee": "sure"}, "Expected guarantee 'best' or 'selection' or 'fixed'; got 'sure'"),
        ({"draws": 0}, "Expected draws to be a whole number of at least 1; got 0"),
        ({"random_state": -1}, "Expected random_state to be a whole number of at least 0"),
    ],
)
def test_what_makes_no_sense_is_said(options: Any, message: str):
    with pytest.raises(cp.InvalidInput, match=message):
        cp.Robust("yes", 0.9, **options)


def test_too_few_draws_for_a_probability():
    with pytest.raises(cp.InvalidInput, match=r"at least \d+ draws .* got draws=500"):
        explain("laplace", cp.Robust("yes", 0.999, draws=500))


def test_a_model_without_noise_names_the_wrapper():
    X = ROWS
    for plain in (fitted(COEF), LinearRegression().fit(X, [0.0, 1.0, 2.0])):
        with pytest.raises(
            cp.InvalidInput, match=r"PrivateSVC .*cp\.UncertainClassifier\(model, cov"
        ):
            cp.explain(plain, X, cp.Robust("yes", 0.9), cost=cp.Manhattan())


def test_an_unknown_label():
    with pytest.raises(cp.InvalidInput, match="Expected a target among the classes"):
        explain("laplace", cp.Robust("maybe", 0.9))


def test_three_classes_are_not_read():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, D)), rng.integers(0, 3, size=60)
    three = cp.UncertainClassifier(LogisticRegression().fit(X, y), covariance=np.eye(D + 1))
    with pytest.raises(cp.UnsupportedModel, match="binary linear classifiers; got Logistic"):
        cp.explain(three, X, cp.Robust(1, 0.9), cost=cp.Manhattan())


def test_what_cannot_be_robust_is_said_with_what_to_do():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, D)), rng.integers(0, 3, size=60)

    def refused(model: Any, kind: type[cp.CounterpointError] = cp.UnsupportedModel) -> str:
        with pytest.raises(kind) as caught:
            cp.explain(model, X, cp.Robust(1, 0.9), cost=cp.Manhattan())
        return str(caught.value)

    against = "Fit one class against the others"
    three, noise = LogisticRegression().fit(X, y), {"covariance": np.eye(D + 1)}
    assert refused(three, cp.InvalidInput) == (
        "Robust needs a binary linear model; got a classifier of 3 classes. "
        f"{against}, and say how uncertain its weights are."
    )
    assert refused(cp.UncertainClassifier(three, **noise)).endswith(f"3 classes. {against}.")
    two = cp.UncertainClassifier(LogisticRegression().fit(X, y > 0), **noise)
    options = {"bounds": (-4, 4), "classes": [False, True], "epsilon": 1.0}
    private = PrivateSVC(**options).fit(X, y > 0)
    waves = PrivateSVC(**options, feature_map="fourier", n_components=8).fit(X, y > 0)
    for itself in (two, private, waves):
        assert refused(cp.UncertainClassifier(itself, **noise)) == (
            f"{type(itself).__name__} says itself how uncertain its weights are. Pass it as it is, "
            "without UncertainClassifier."
        )
    tree = DecisionTreeClassifier(max_depth=2).fit(X, y > 0)
    for other in (tree, LinearRegression().fit(X, y)):
        assert refused(cp.UncertainClassifier(other, **noise)).endswith(
            f"got {type(other).__name__}, which is none. Explain it without the noise."
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Expected a covariance or a law; got neither"),
        ({"covariance": np.eye(D + 1), "law": ProjectedLaplace(1.0, D + 1)}, "got both"),
        ({"covariance": np.eye(D)}, rf"Expected noise on {D + 1} numbers, {D} weights and then"),
        ({"law": "laplace"}, "Expected a law of counterpoint.privacy.noise; got 'laplace'"),
        ({"covariance": -np.eye(D + 1)}, "Expected a positive semi-definite covariance"),
    ],
)
def test_noise_that_does_not_fit_the_model(options: Any, message: str):
    wrong = cp.UncertainClassifier(fitted(COEF), **options)
    with pytest.raises(cp.InvalidInput, match=message):
        cp.explain(wrong, ROWS, cp.Robust("yes", 0.9), cost=cp.Manhattan())


def test_a_classifier_that_is_not_fitted():
    blank = cp.UncertainClassifier(LogisticRegression(), covariance=np.eye(D + 1))
    with pytest.raises(cp.ModelNotFitted):
        cp.explain(blank, ROWS, cp.Robust("yes", 0.9), cost=cp.Manhattan())


# From the command line


def test_the_command_says_what_a_guarantee_is(tmp_path: Path):
    rows = pd.DataFrame(ROWS, columns=NAMES)
    logistic = LogisticRegression().fit(
        pd.concat([rows, rows + COEF]), ["no"] * len(rows) + ["yes"] * len(rows)
    )
    noisy = cp.UncertainClassifier(logistic, covariance=1e-4 * np.eye(D + 1))
    joblib.dump(noisy, tmp_path / "model.joblib")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    at = ["explain", str(tmp_path / "model.joblib"), str(tmp_path / "rows.csv"), "--trust-pickle"]
    asked = [*at, "--data", str(tmp_path / "rows.csv"), "--target", "yes", "--robust", "0.9"]
    asked.append("--extrapolate")
    for guarantee, said in (
        ("fixed", "of a point fixed beforehand"),
        ("selection", "share of all questions"),
    ):
        shown = CliRunner().invoke(app, [*asked, "--guarantee", guarantee])
        assert shown.exit_code == 0, shown.output
        assert said in " ".join(shown.output.split())
        assert ("%" in shown.output) == (guarantee == "selection")
        lines = CliRunner().invoke(app, [*asked, "--guarantee", guarantee, "--out", "-"])
        for line in lines.stdout.splitlines():
            assert json.loads(line)["certificate"]["guarantee"] == guarantee


# Half-spaces about a condition hold every point that meets it


@EVERY_LAW
def test_every_half_space_of_a_chance_holds_its_points(kind: str):
    """With an offset of the features, wherever it touches; there it misses what its point does."""
    rng = np.random.default_rng(3)
    lift = rng.normal(size=(D + 1, 3))
    chance = Chance(LAWS[kind], 0.9, lift, rng.normal(size=D + 1), rng.normal(size=3), 0.2)
    y = 3.0 * rng.normal(size=(400, 3))
    satisfied = y[chance.excess(y) <= 0.0]
    assert 50 < len(satisfied) < 350
    excess, touching = chance.supports(y[:20])
    own = (touching.matrix * y[:20]).sum(axis=1) - touching.high
    np.testing.assert_allclose(own, excess, atol=1e-9)
    assert (satisfied @ touching.matrix.T <= touching.high + 1e-9).all()


def test_every_half_space_of_a_lead_holds_its_points():
    rng = np.random.default_rng(3)
    slope, norm = rng.normal(size=3), EncodedCost(np.zeros(3), np.eye(3))
    safety_margin = DistanceMargin(
        np.zeros(3), np.array([0.5]), np.array([0.4]), slope, -0.3, 0.0, norm
    )
    y = 3.0 * rng.normal(size=(400, 3))
    y[:40] = np.outer(np.linspace(0.0, 9.0, 40), slope)  # where the condition has an edge
    satisfied = y[safety_margin.excess(y) <= 0.0]
    assert 50 < len(satisfied) < 350
    least = float((satisfied @ slope - 0.3).min())
    for half in (replace(safety_margin, least=least).first(), safety_margin.supports(y)[1]):
        assert (satisfied @ half.matrix.T <= half.high + 1e-9).all()
    excess, half = safety_margin.supports(y)
    np.testing.assert_allclose((y * half.matrix).sum(axis=1) - half.high, excess, atol=1e-9)
    never = replace(safety_margin, least=np.inf).first()
    assert never.violation(y, y).min() > 0.0


def test_an_answer_says_what_is_promised_and_how_many_questions_are_answered():
    v, rng = np.array([3.0, -2.0, 1.0, 0.0]), np.random.default_rng(2)
    x = np.array([[-1.0, 0.5, 0.0, 0.2]])
    for scale, p, least, most in ((0.02, 0.9, 99, 100), (1.3, 0.9, 10, 95), (2.5, 0.55, 10, 95)):
        shares = []
        law = ProjectedGaussian.isotropic(scale, D + 1)
        for mu in law.draw(20, rng):
            noisy = cp.UncertainClassifier(fitted(v + mu[:D], float(mu[D])), law=law)
            asked = cp.Explainer(noisy, cost=cp.SquaredEuclidean())
            answer = asked.explain(x, cp.Robust("yes", p, "selection", draws=2000))[0]
            shares.append(answer.found)
            if answer.changes:  # of a row that is sure as it is, nothing is promised
                told = re.search(
                    r"at most (\S+) % get a wrong .* About (\d+) % get", answer.message
                )
                assert told is not None
                assert float(told[1]) == pytest.approx(100.0 * (1.0 - p))
                assert ("half of these answers" in answer.message) == (
                    int(told[2]) < 200.0 * (1.0 - p)
                )
        assert least <= 100.0 * np.mean(shares) <= most, (scale, np.mean(shares))


def test_what_nearly_refutes_is_sharpened_until_it_does():
    """y₁ >= 3 + 4 y₂ and y₁ <= 1 + 4 y₂: equal multipliers refute it; nearly equal ones do not."""
    rows = LinearBounds(np.array([[1.0, -4.0], [1.0, -4.0]]), [3.0, -np.inf], [np.inf, 1.0])
    program = Program(EncodedCost(np.ones(2), np.zeros(2)), Region((rows,)))
    case = program.cases(np.zeros((1, 2)))
    for ray in np.array([[-1.0, 1.0], [-1.0, 1.0 + 1e-9]]):
        assert program.refutes(case, purified(program, case, ray)[None])[0]
    assert not program.refutes(case, ray[None])[0]
