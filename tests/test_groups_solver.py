"""Explanations between groups, solved: the penalty, its prox, fits and refits, against oracles."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from counterpoint.groups import (
    Affine,
    FiniteDifferences,
    GroupTranslations,
    Limits,
    Network,
)
from counterpoint.groups.fitting import Fit, at_zero, fit, follow, refit
from counterpoint.groups.problem import Fusion, Objective, descend, rising, tie_pattern, tied
from counterpoint.groups.representations import Representation, dense, stages

FREE, RISES, FALLS = 0, 1, -1


def fusion(n: int, weight: Any, reach: Any = np.inf, monotone: Any = FREE) -> Fusion:
    weight = np.atleast_1d(np.asarray(weight, dtype=float))
    many = np.ones(len(weight))
    return Fusion(n, weight, reach * many, (monotone * many).astype(int))


def spread_of(v: np.ndarray) -> float:
    """Σ_{i<j} |v_j − v_i|, pair by pair."""
    return float(sum(abs(v[i] - v[j]) for i, j in combinations(range(len(v)), 2)))


def network(seed: int, sizes: tuple[int, ...] = (5, 8, 6, 2), activation: str = "elu") -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [rng.normal(size=pair) * np.sqrt(2.0 / pair[0]) for pair in pairs]
    return Network(weights, [rng.normal(size=b) * 0.2 for _, b in pairs], activation)


def task(
    representation: Representation, means: np.ndarray, penalty: Fusion, noise: float = 0.0
) -> Objective:
    parts = stages(representation)
    base = parts.hidden(means)
    targets = parts.finish(base) + noise * np.random.default_rng(0).normal(size=(len(means), 1))
    if parts.second is None:
        targets = base
    return Objective(base, targets, parts, parts.first.matrix, penalty)


def linear_task(seed: int, n: int = 4, d: int = 7, m: int = 2, **bounds: Any) -> Objective:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n, d))
    weight = rng.uniform(0.5, 2.0, size=d) * 2.0 / (n * (n - 1))
    return task(Affine(rng.normal(size=(d, m)), np.zeros(m)), means, fusion(n, weight, **bounds))


# --- the penalty and its prox ---


@given(st.integers(0, 10_000), st.integers(2, 9), st.sampled_from([0.0, 0.01, 0.2, 3.0]))
def test_the_value_is_the_sum_over_pairs(seed: int, n: int, size: float):
    rng = np.random.default_rng(seed)
    D = size * rng.normal(size=(n, 3)).round(1)
    weight = rng.uniform(0.1, 2.0, 3)
    told = fusion(n, weight).value(D)
    assert told == pytest.approx(sum(w * spread_of(v) for w, v in zip(weight, D.T, strict=True)))


def prox_oracle(v: np.ndarray, weight: float, reach: float, monotone: int) -> np.ndarray:
    """CVXPY on the definition."""
    x, n = cvxpy.Variable(len(v)), len(v)
    pairs = list(combinations(range(n), 2))
    cost = 0.5 * cvxpy.sum_squares(x - v)
    cost += weight * sum(cvxpy.abs(x[i] - x[j]) for i, j in pairs)
    rules = [cvxpy.abs(x) <= reach / 2.0] if np.isfinite(reach) else []
    rules += [monotone * (x[i + 1] - x[i]) >= 0.0 for i in range(n - 1)] if monotone else []
    cvxpy.Problem(cvxpy.Minimize(cost), rules).solve(
        solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    return np.asarray(x.value)


@pytest.mark.parametrize("monotone", [FREE, RISES, FALLS])
@pytest.mark.parametrize("reach", [np.inf, 1.5, 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_prox_is_that_of_an_oracle(seed: int, reach: float, monotone: int):
    rng = np.random.default_rng(seed)
    n = 4 + 2 * seed
    V = rng.normal(size=(n, 3))
    V[1] = V[0]  # ties
    weight = np.array([0.02, 0.2, 1.0])
    found = fusion(n, weight, reach, monotone).prox(V, 0.7)
    for v, w, x in zip(V.T, weight, found.T, strict=True):
        np.testing.assert_allclose(x, prox_oracle(v, 0.7 * w, reach, monotone), atol=2e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_prox_is_that_of_sequential_quadratic_programming(seed: int):
    rng = np.random.default_rng(seed)
    n, w, b = 5, 0.15, 1.2
    v = rng.normal(size=n)
    pairs = list(combinations(range(n), 2))
    signs = np.array([[float(k == j) - float(k == i) for k in range(n)] for i, j in pairs])

    def cost(z: np.ndarray) -> float:  # x, and |differences| as slack
        return 0.5 * float(((z[:n] - v) ** 2).sum()) + w * float(z[n:].sum())

    rules = [
        {"type": "ineq", "fun": lambda z, s=s: z[n:] - s * (signs @ z[:n])} for s in (1.0, -1.0)
    ]
    bounds = [(-b / 2, b / 2)] * n + [(0.0, None)] * len(pairs)
    start = np.concatenate([np.zeros(n), np.zeros(len(pairs))])
    oracle = minimize(
        cost, start, method="SLSQP", bounds=bounds, constraints=rules, options={"ftol": 1e-14}
    )
    found = fusion(n, w, b).prox(v[:, None], 1.0)[:, 0]
    np.testing.assert_allclose(found, oracle.x[:n], atol=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 20))
def test_rising_rows_are_isotonic_regressions(seed: int, rows: int, n: int):
    from sklearn.isotonic import isotonic_regression

    rng = np.random.default_rng(seed)
    T = rng.normal(size=(rows, n)) * 10.0 ** rng.integers(-8, 8, size=(rows, 1))
    found = rising(T)
    scale = np.abs(T).max(axis=1, keepdims=True)
    for one, t, s in zip(found, T, scale, strict=True):
        np.testing.assert_allclose(one, isotonic_regression(t), atol=1e-10 * s[0])
        assert (np.diff(one) >= 0.0).all()


@pytest.mark.parametrize("fall", [1e-15, 1e-14, 1e-13])
def test_rows_never_fall_by_what_rounding_hides_among_many(fall: float):
    """Later rows lie at higher levels, where a mean may come out below a value it exceeds."""
    rng = np.random.default_rng(0)
    pools = -np.sort(-rng.uniform(1.0, 2.0, (3000, 3)), axis=1)
    after = pools.mean(axis=1, keepdims=True) * (1.0 - fall)
    T = np.hstack([np.zeros((3000, 1)), pools, after, np.full((3000, 1), 3.0)])
    found = rising(T)
    assert (np.diff(found, axis=1) >= 0.0).all()
    np.testing.assert_allclose(found[:, 1:5], np.repeat(after, 4, axis=1), rtol=2.0 * fall + 1e-14)
    np.testing.assert_array_equal(found[:, [0, 5]], T[:, [0, 5]])


@given(st.integers(0, 10_000), st.sampled_from([0.5, 2.0, np.inf]))
def test_the_nearest_columns_keep_the_order_and_the_bounds(seed: int, reach: float):
    """Isotonic regressions, clipped, where a column is monotone; the column clipped, where not."""
    from sklearn.isotonic import isotonic_regression

    rng = np.random.default_rng(seed)
    n, monotone = int(rng.integers(2, 8)), np.append(rng.choice([FREE, RISES, FALLS], 4), RISES)
    V = rng.normal(size=(n, 5))
    found = fusion(n, np.ones(5), reach, monotone).nearest(V)
    for way, v, one in zip(monotone, V.T, found.T, strict=True):
        fitted = v if way == FREE else isotonic_regression(v, increasing=way == RISES)
        np.testing.assert_allclose(one, np.clip(fitted, -reach / 2.0, reach / 2.0), atol=1e-12)


@given(st.integers(0, 10_000), st.sampled_from([1e-14, 1e-9, 1e-3, 1.0, 1e3]))
def test_ties_are_exact_whatever_the_weight(seed: int, weight: float):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(6, 4)).round(1)
    found = fusion(6, np.full(4, weight)).prox(V, 1.0)
    same = V[:, None] == V[None]
    assert (found[:, None] == found[None])[same].all()
    if weight >= 1.0:
        assert (np.ptp(found, axis=0) == 0.0).all()


def test_the_box_on_changes_is_a_box_on_offsets():
    """A bound on all differences, as CVXPY has it, costs what the box around zero costs."""
    made = linear_task(3, reach=0.8)
    M, fusion_ = np.asarray(made.matrix), made.fusion
    n, d = made.shape
    strength = 0.05 * made.critical
    D = cvxpy.Variable((n, d))
    value = penalised(made, D, strength)
    differences = [cvxpy.abs(D[i] - D[j]) <= fusion_.reach for i, j in combinations(range(n), 2)]
    oracle = cvxpy.Problem(cvxpy.Minimize(value), differences).solve(solver="CLARABEL")
    found = fit(made, strength, np.zeros((n, d)), tol=1e-8, gap=1e-10)
    assert M.shape == (d, 2)
    assert np.ptp(found.D, axis=0).max() == pytest.approx(0.8, abs=1e-9)  # it binds
    assert found.objective == pytest.approx(oracle, rel=1e-7)


def penalised(made: Objective, D: Any, strength: float) -> Any:
    """Objective (9) over all ordered pairs, from its definition."""
    n, _ = made.shape
    M, targets = dense(made.matrix), made.targets
    base, weight = made.base, made.fusion.weight
    loss, cost = 0.0, 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                reached = base[i] + (D[j] - D[i]) @ M
                loss += 0.5 * cvxpy.sum_squares(reached - targets[j]) / (n * (n - 1))
                cost += weight @ cvxpy.abs(D[j] - D[i]) / 2.0
    return loss + strength * cost


# --- linear representations: global optima ---


@pytest.mark.parametrize("monotone", [FREE, RISES])
@pytest.mark.parametrize("reach", [np.inf, 1.0])
@pytest.mark.parametrize("share", [0.5, 0.05])
@pytest.mark.parametrize("seed", range(2))
def test_a_linear_fit_is_a_global_optimum(seed: int, share: float, reach: float, monotone: int):
    made = linear_task(seed, reach=reach, monotone=monotone)
    strength = share * made.critical
    found = fit(made, strength, np.zeros(made.shape), tol=1e-6, gap=1e-9)
    D = cvxpy.Variable(made.shape)
    rules = [] if np.isinf(reach) else [cvxpy.abs(D) <= reach / 2.0]
    rules += [D[1:] >= D[:-1]] if monotone else []
    oracle = cvxpy.Problem(cvxpy.Minimize(penalised(made, D, strength)), rules).solve(
        solver="CLARABEL"
    )
    assert found.objective == pytest.approx(oracle, rel=1e-6, abs=1e-9)
    assert 0.0 <= found.gap + 1e-12 <= 1e-8
    assert found.residual <= 1e-5


@pytest.mark.parametrize("reach", [np.inf, 0.7])
@pytest.mark.parametrize("seed", range(5))
def test_the_gap_bounds_how_far_any_offsets_are_from_the_optimum(seed: int, reach: float):
    made = linear_task(seed, reach=reach)
    strength = 0.2 * made.critical
    least = fit(made, strength, np.zeros(made.shape), tol=1e-8, gap=1e-11).objective
    rng = np.random.default_rng(seed)
    for size in (1e-6, 1e-2, 1.0):
        D = made.fusion.nearest(size * rng.normal(size=made.shape))
        objective = made.value(D) + strength * made.fusion.value(D)
        assert made.at_zero[0] * made.gap(D, strength) >= objective - least - 1e-9


def test_the_gap_is_proved_where_some_changes_have_a_bound_and_others_none():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    X = rng.normal(size=(90, 8))
    X[y == 1, :4] += 3.0
    X[y == 2, 2:6] -= 3.0
    space = Affine(rng.normal(size=(8, 3)), np.zeros(3))
    for free in (["x1"], ["x1", "x2"]):
        limits = Limits(times=0.5, bounds=dict.fromkeys(free, np.inf))
        path = GroupTranslations(space, limits=limits).fit(X, y).path_
        assert all(one.gap <= 1e-8 for one in path.fits)
        assert max(one.iterations for one in path.fits) < 1000


def test_the_largest_strength_is_where_something_begins_to_change():
    for seed in range(4):
        made = linear_task(seed)
        start = np.zeros(made.shape)
        above = fit(made, 1.001 * made.critical, start, tol=1e-9, gap=1e-12)
        below = fit(made, 0.999 * made.critical, start, tol=1e-9, gap=1e-12)
        assert not np.ptp(above.D, axis=0).any()
        assert np.ptp(below.D, axis=0).any()
        assert at_zero(made, made.critical).residual <= 1e-12


@given(st.integers(0, 10_000), st.integers(2, 7))
def test_excess_and_conjugate_are_what_brute_force_over_splits_says(seed: int, n: int):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, 2))
    G -= G.mean(axis=0)
    made = fusion(n, [0.3, 0.6], 1.7)
    gains = np.full(2, -np.inf)
    for size in range(1, n):
        for split in combinations(range(n), size):
            gain = G[list(split)].sum(axis=0) - 0.5 * made.weight * size * (n - size)
            gains = np.maximum(gains, gain)
    np.testing.assert_allclose(made.excess(G, 0.5), gains, atol=1e-12)
    assert made.conjugate(G, 0.5) == pytest.approx(1.7 * np.maximum(gains, 0.0).sum(), abs=1e-12)


# --- other representations: stationary points ---


@pytest.mark.parametrize("activation", ["elu", "tanh", "logistic"])
def test_the_gradient_is_that_of_finite_differences(activation: str):
    rng = np.random.default_rng(1)
    made = task(network(0, activation=activation), rng.normal(size=(4, 5)), fusion(4, np.ones(5)))
    made = replace(made, targets=rng.normal(size=(4, 2)))
    D = 0.3 * rng.normal(size=made.shape)
    loss, slope = made.slope(D)
    assert loss == pytest.approx(made.value(D))
    for _ in range(5):
        way, h = rng.normal(size=made.shape), 1e-5
        change = (made.value(D + h * way) - made.value(D - h * way)) / (2 * h)
        assert change == pytest.approx(float((slope * way).sum()), rel=1e-6)
    np.testing.assert_allclose(slope.sum(axis=0), 0.0, atol=1e-12)


def test_the_loss_is_equation_nine_over_all_pairs():
    rng = np.random.default_rng(2)
    net, means, targets = network(1), rng.normal(size=(3, 5)), rng.normal(size=(3, 2))
    made = task(net, means, fusion(3, np.ones(5)))
    made = replace(made, targets=targets)
    D = rng.normal(size=(3, 5))
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    losses = [
        0.5 * ((net.vjp((means[i] + D[j] - D[i])[None])[0] - targets[j]) ** 2).sum()
        for i, j in pairs
    ]
    assert made.value(D) == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_is_stationary_and_no_worse_than_its_start(seed: int):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(4, 5))
    made = task(network(seed), means, fusion(4, np.full(5, 2.0 / 12.0), 3.0), noise=0.1)
    strength = 0.1 * made.critical
    for start in (np.zeros(made.shape), made.fusion.nearest(means - means.mean(axis=0))):
        found = fit(made, strength, start, tol=1e-7, gap=np.inf)
        first = made.value(start) + strength * made.fusion.value(start)
        assert found.objective <= first + 1e-12
        assert found.residual <= 2.1e-7
        assert np.isnan(found.gap)
        for _ in range(20):  # and so no small step from it goes down
            way = rng.normal(size=made.shape)
            near = made.fusion.nearest(found.D + 1e-4 * way / np.linalg.norm(way))
            here = made.value(near) + strength * made.fusion.value(near)
            assert here >= found.objective - 1e-9


def test_finite_differences_find_what_derivatives_find():
    rng = np.random.default_rng(0)
    net, means = network(2), rng.normal(size=(3, 5))
    penalty = fusion(3, np.full(5, 1.0 / 3.0), 3.0)
    known = task(net, means, penalty)
    blind = task(FiniteDifferences(lambda X: net.vjp(X)[0], 5), means, penalty)
    assert blind.critical == pytest.approx(known.critical, rel=1e-6)
    found = [
        fit(one, 0.2 * known.critical, np.zeros((3, 5)), tol=1e-5, gap=np.inf).objective
        for one in (known, blind)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)


# --- many features: the working set ---


@pytest.mark.parametrize("reach", [np.inf, 0.5])
def test_a_working_set_finds_what_all_features_find(reach: float):
    made = linear_task(5, n=5, d=300, m=4, reach=reach)
    strength = 0.1 * made.critical
    found = fit(made, strength, np.zeros(made.shape), tol=1e-7, gap=1e-9)
    start = np.zeros(made.shape)
    whole, *_ = descend(made, strength, start, 1.0, tol=1e-9, max_iter=20_000, rounding=1e-15)
    objective = made.value(whole) + strength * made.fusion.value(whole)
    assert found.objective == pytest.approx(objective, rel=1e-8)
    assert found.gap <= 1e-8
    assert 0 < np.count_nonzero(np.ptp(found.D, axis=0)) < 100


def test_a_working_set_is_worked_on_until_the_fit_is_proved():
    made = linear_task(5, n=5, d=300, m=4, reach=0.5)
    strength, start = 0.02 * made.critical, np.zeros(made.shape)
    found = fit(made, strength, start, tol=1e-6, gap=1e-9)
    assert np.count_nonzero(np.ptp(found.D, axis=0)) > 5
    assert found.gap <= 1e-9


# --- refits and paths ---


def test_a_refit_keeps_ties_and_lowers_the_loss():
    made = linear_task(7, n=5, d=8)
    found = fit(made, 0.2 * made.critical, np.zeros(made.shape), tol=1e-8, gap=1e-10)
    ended = refit(made, found.D, found.strength)
    tied = found.D[:, None] == found.D[None]
    assert (ended.D[:, None] == ended.D[None])[tied].all()
    assert ended.loss <= found.loss
    free = refit(made, found.D, found.strength, free=True)
    assert free.loss <= ended.loss + 1e-9
    moving = np.ptp(found.D, axis=0) > 0.0
    assert (np.ptp(free.D, axis=0)[~moving] == 0.0).all()


def test_tied_offsets_are_the_nearest_with_these_ties():
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 3, size=(6, 4)).astype(float)
    V = rng.normal(size=(6, 4))
    found = tied(fusion(6, np.ones(4), 0.9), pattern)(V, 1.0)
    for v, p, x in zip(V.T, pattern.T, found.T, strict=True):
        for level in np.unique(p):
            mean = np.clip(v[p == level].mean(), -0.45, 0.45)
            np.testing.assert_allclose(x[p == level], mean, atol=1e-15)


def test_a_path_gets_denser():
    made = linear_task(11, n=5, d=12)
    strengths = list(made.critical * np.geomspace(1.0, 1e-2, 6)[1:])
    fits = follow(made, strengths, np.zeros(made.shape), tol=1e-6, gap=1e-9)
    objectives = [one.objective for (one,) in fits]
    assert (np.diff(objectives) <= 1e-9).all()


def test_of_two_starts_the_better_one_is_kept():
    rng = np.random.default_rng(4)
    means = 2.0 * rng.normal(size=(4, 5))
    made = task(network(4, activation="tanh"), means, fusion(4, np.full(5, 1 / 6), 8.0))
    strengths = list(made.critical * np.geomspace(1.0, 1e-2, 5)[1:])
    centred = made.fusion.nearest(means - means.mean(axis=0))
    for tried in follow(made, strengths, centred, tol=1e-6, gap=1e-9):
        assert len(tried) == 2
    y = np.repeat([0, 1, 2, 3], 20)
    X = means[y] + rng.normal(size=(80, 5))
    model = GroupTranslations(network(4, activation="tanh"), strengths=4).fit(X, y)
    made, strengths = model.task_, [one.strength for one in model.path_.fits[1:]]
    followed = follow(made, strengths, model.scene_.centred(made), tol=1e-6, gap=1e-9)
    kept = [min(one.objective for one in tried) for tried in followed]
    assert [one.objective for one in model.path_.fits[1:]] == kept


def test_patterns_are_ties_and_order_alone():
    D = np.array([[0.0, 1.0, 5.0], [0.0, 2.0, 5.0], [0.0, 2.0, 4.0]])
    other = np.array([[3.0, -9.0, 0.2], [3.0, 8.0, 0.2], [3.0, 8.0, 0.1]])
    assert tie_pattern(D) == tie_pattern(other)
    assert tie_pattern(D) != tie_pattern(-D)
    assert tie_pattern(D[:, [0, 2, 1]]) != tie_pattern(D)
    assert tie_pattern(1e-3 * D) == tie_pattern(D)
    wide = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1e-3]])
    assert len({tie_pattern(wide), tie_pattern(-wide), tie_pattern(0.0 * wide)}) == 3


def test_a_fit_says_what_it_is():
    made = linear_task(0)
    found = fit(made, 0.3 * made.critical, np.zeros(made.shape), tol=1e-8, gap=1e-10)
    assert isinstance(found, Fit)
    assert found.loss == pytest.approx(made.value(found.D))
    assert found.objective == pytest.approx(
        found.loss + found.strength * made.fusion.value(found.D)
    )


def test_a_linear_path_has_gaps():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 6)), np.repeat([0, 1, 2], 20)
    X[y == 1, :2] += 3.0
    X[y == 2, 2:4] -= 2.0
    model = GroupTranslations(
        Affine(rng.normal(size=(6, 2)), np.zeros(2)), limits=Limits(times=2.0), strengths=12
    ).fit(X, y)
    assert all(one.gap <= 1e-8 and one.residual <= 1e-5 for one in model.path_.fits)
