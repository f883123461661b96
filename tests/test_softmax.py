"""Softmax classifiers inverted in K dimensions, against many digits, D dimensions and duality."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import mpmath
import numpy as np
import oracles
import pytest
import strategies as make
from oracles import LONG
from scipy.optimize import minimize

from counterpoint.models.softmax import Reduced, direction, logistic_root, minimise, newton, reach

EPS = float(np.finfo(float).eps)
ULPS = 4 * EPS
MANY = pytest.mark.parametrize("many", [300, pytest.param(1000, marks=pytest.mark.slow)])
"""Random models: two rows each, and in every tenth twelve, which are solved by iteration."""

needs_long = pytest.mark.skipif(
    np.finfo(LONG).eps > 1e-18, reason="the processor has no floats of more than 64 bits"
)


# The root for two classes


REGIMES = {
    "any size": lambda rng, n: (
        10.0 ** rng.uniform(-12, 12, n),
        rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-12, 6, n),
    ),
    "moderate roots": lambda rng, n: rooted(rng, 5.0 * rng.normal(size=n)),
    "any root": lambda rng, n: rooted(rng, rng.uniform(-700.0, 700.0, n)),
    "about one half": lambda rng, n: rooted(rng, rng.normal(size=n) * 10.0 ** rng.uniform(-9, 0)),
    "nearly subnormal": lambda rng, n: rooted(rng, rng.choice([-1, 1], n) * rng.uniform(700, 708)),
    "hardly any slope": lambda rng, n: (10.0 ** rng.uniform(-300, -12, n), 30 * rng.normal(size=n)),
}


def rooted(rng: np.random.Generator, log_odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """α of all sizes, and the β for which the log-odds of the root are about these."""
    alpha = 10.0 ** rng.uniform(-12, 12, len(log_odds))
    return alpha, -log_odds - alpha / (1.0 + np.exp(-log_odds))


def assert_roots(alpha: np.ndarray, beta: np.ndarray):
    known = [oracles.logistic_root(a, b) for a, b in zip(alpha, beta, strict=True)]
    for given, side in zip(logistic_root(alpha, beta), (0, 1), strict=True):
        off = np.array(
            [oracles.relative_error(t, k[side]) for t, k in zip(given, known, strict=True)]
        )
        # rounding errors of β, and of the logarithm of the root, which are as much of the root
        size = np.abs(beta) if side == 0 else np.abs(alpha + beta)
        log = np.abs(np.log(np.maximum(given, 5e-324)))
        known_to = ULPS * (1.0 + log + size / (1.0 + alpha * np.minimum(given, 0.5)))
        worst = int(np.argmax(off / known_to))
        assert off[worst] <= known_to[worst], f"α = {alpha[worst]!r}, β = {beta[worst]!r}"


@pytest.mark.parametrize("regime", REGIMES)
def test_the_root_and_what_it_leaves_of_1_are_right_to_the_rounding_of_beta(regime: str):
    assert_roots(*REGIMES[regime](np.random.default_rng(0), 100))


@pytest.mark.slow
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_more_roots_are_right_to_the_rounding_of_beta(regime: str, seed: int):
    assert_roots(*REGIMES[regime](np.random.default_rng(seed), 3000))


def test_without_a_slope_the_root_is_the_logistic_function():
    beta = np.concatenate([np.linspace(-700, 700, 301), [0.0, -1e6, 1e6, 1e-300, -1e-300]])
    root, rest = logistic_root(np.zeros(len(beta)), beta)
    with mpmath.workdps(oracles.DIGITS):
        for t, left, b in zip(root, rest, beta, strict=True):
            known_to = ULPS * (1.0 + abs(float(b)))  # the rounding of β is as much of the root
            assert oracles.relative_error(t, 1 / (1 + mpmath.exp(float(b)))) <= known_to
            assert oracles.relative_error(left, 1 / (1 + mpmath.exp(-float(b)))) <= known_to


@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1.0, 1e12])
def test_what_is_below_the_least_float_is_0(alpha: float):
    root, rest = logistic_root(np.full(2, alpha), np.array([800.0, 1e6]))
    np.testing.assert_array_equal(root, 0.0)
    np.testing.assert_array_equal(rest, 1.0)
    root, rest = logistic_root(np.full(2, alpha), -alpha - np.array([800.0, 1e6]))
    if alpha < 1e10:  # else −α − β rounds to anything
        np.testing.assert_array_equal(root, 1.0)
        np.testing.assert_array_equal(rest, 0.0)


def test_roots_of_nothing_are_nothing():
    root, rest = logistic_root(np.empty(0), np.empty(0))
    assert len(root) == len(rest) == 0


@pytest.mark.parametrize("alpha", [0.0, 1e-9, 0.3, 1e3, 1e9])
def test_the_root_falls_as_beta_grows(alpha: float):
    rng = np.random.default_rng(0)
    wide = np.sort(rng.choice([-1, 1], 3000) * 10.0 ** rng.uniform(-12, 6, 3000))
    start = rng.normal(size=40)[:, None]
    close = np.sort(start + EPS * np.arange(50) * np.abs(start), axis=1)
    for beta in (wide, *close):
        root, rest = logistic_root(np.full(len(beta), alpha), beta)
        assert (root[1:] <= root[:-1] * (1 + 2 * ULPS)).all()
        assert (rest[1:] >= rest[:-1] * (1 - 2 * ULPS)).all()
        assert ((root >= 0) & (root <= 1) & (rest >= 0) & (rest <= 1)).all()


def test_a_root_does_not_depend_on_its_neighbours():
    alpha, beta = REGIMES["any size"](np.random.default_rng(1), 4097 * 2)
    together = logistic_root(alpha, beta)
    for i in range(0, len(alpha), 97):
        alone = logistic_root(alpha[i : i + 1], beta[i : i + 1])
        for one, all_ in zip(alone, together, strict=True):
            assert one[0] == pytest.approx(all_[i], rel=ULPS, abs=1e-310)


# The trade-off


@dataclass(frozen=True)
class Judged:
    """An answer in K dimensions, judged in D dimensions and many digits."""

    given: make.Softmax
    reduced: Reduced
    slope: np.ndarray
    """(n,) ‖∇E‖."""
    value: np.ndarray
    """(n,) E, or ½ ‖δ‖² where the log-odds are asked for."""
    bound: np.ndarray
    """(n,) what it is at least."""
    short: np.ndarray
    """(n,) the loss at the answer."""

    @property
    def gap(self) -> np.ndarray:
        """(n,) relative; 0 where the value is too small for a float."""
        value = np.maximum(self.value, oracles.LEAST)
        return np.where(self.value < 1e-290, 0.0, ((self.value - self.bound) / value).astype(float))

    @property
    def rounding(self) -> np.ndarray:
        """(n,) about what rounding does to a score z̄ − Gu."""
        gram = np.abs(self.given.gram)
        size = np.abs(self.given.scores).max(axis=1)
        return 4 * EPS * (size + (np.abs(self.reduced.coefficients) @ gram).max(axis=1))

    @property
    def steepest(self) -> float:
        """The length of the longest row of A."""
        return float(np.sqrt(np.diagonal(self.given.gram).max()))


def changes(given: make.Softmax, reduced: Reduced) -> np.ndarray:
    """(n, D) δ = −Aᵀu."""
    return -(reduced.coefficients.astype(LONG) @ given.matrix.astype(LONG))


def judged(given: make.Softmax, reduced: Reduced) -> Judged:
    change, weight = changes(given, reduced), given.weight.astype(LONG)[:, None]
    scores = given.scores.astype(LONG) + change @ given.matrix.astype(LONG).T
    loss = oracles.log_loss(scores, given.label)
    slope = weight * change + loss.pull @ given.matrix.astype(LONG)
    value = weight[:, 0] / 2 * (change * change).sum(axis=1) + loss.value
    bound = oracles.tradeoff_bound(given, reduced.shares)
    length = np.sqrt((slope * slope).sum(axis=1)).astype(float)
    return Judged(given, reduced, length, value, bound, loss.value)


def minimised(given: make.Softmax, **options: tuple[float, float]) -> Reduced:
    return minimise(given.scores, given.gram, given.label, given.weight, **options)


@cache
def weighed(many: int) -> tuple[Judged, ...]:
    """So many random models, minimised."""
    models = [
        make.softmax(np.random.default_rng(seed), rows=2 if seed % 10 else 12)
        for seed in range(many)
    ]
    return tuple(judged(given, minimised(given)) for given in models)


def every(answers: tuple[Judged, ...], of: Any) -> np.ndarray:
    return np.concatenate([np.atleast_1d(of(a)) for a in answers])


@needs_long
@MANY
def test_settled_rows_have_no_slope_left(many: int):
    answers = weighed(many)
    settled = every(answers, lambda a: a.reduced.settled)
    slope = every(answers, lambda a: a.slope - 4 * a.steepest * a.rounding)
    assert (slope[settled] < 1e-8).all()


@needs_long
@MANY
def test_settled_rows_are_optimal_by_duality(many: int):
    answers = weighed(many)
    settled = every(answers, lambda a: a.reduced.settled)
    gap = every(answers, lambda a: a.gap)
    assert (gap[settled] <= 1e-10).all()
    assert (gap >= -1e-13).all()  # the bound is one, whatever the answer


@MANY
def test_nearly_all_rows_are_settled(many: int):
    settled = every(weighed(many), lambda a: a.reduced.settled)
    assert settled.mean() >= 0.998, f"{(~settled).sum()} of {len(settled)} are not"


@MANY
def test_99_percent_of_all_rows_are_settled_and_all_of_the_ordinary_ones(many: int):
    """Ordinary: as many columns as classes, and a weight at which coefficients cannot cancel."""
    assert every(weighed(many), lambda a: a.reduced.settled).mean() >= 0.99
    for a in weighed(many):
        if a.given.is_wide:
            assert (a.reduced.settled | (a.given.weight < 1e-3)).all()


@MANY
def test_no_row_takes_long(many: int):
    iterations = every(weighed(many), lambda a: a.reduced.iterations)
    assert iterations.max() <= 60, f"{(iterations > 60).sum()} of {len(iterations)} take longer"


@pytest.mark.parametrize(
    ("rows", "scores", "weight"),
    [
        ([0, 0, -1, 3], [2, -5, 3, 3], 1e-6),
        ([-2, 0, 3, -3, -2], [-5, -2, -4, 5, 0], 1e-6),
    ],
)
def test_a_label_between_others_does_not_take_long(rows: Any, scores: Any, weight: float):
    matrix = np.array(rows, dtype=float)[:, None]
    reduced = minimise(np.array([scores], dtype=float), matrix @ matrix.T, 0, weight)
    assert reduced.iterations[0] <= 60


@needs_long
@MANY
def test_a_smaller_slope_may_be_asked_for(many: int):
    share = []
    for a in weighed(many)[::8]:
        sharper = judged(a.given, minimised(a.given, accuracy=(1e-12, 1e-12)))
        settled = sharper.reduced.settled
        room = 1e-12 + 4 * a.steepest * sharper.rounding
        assert (sharper.slope[settled] <= room[settled]).all()
        share.append(settled.mean())
    assert np.mean(share) >= 0.95


@MANY
def test_coefficients_sum_to_0_and_shares_to_1(many: int):
    for a in weighed(many):
        u, shares = a.reduced.coefficients, a.reduced.shares
        assert (np.abs(u.sum(axis=1)) <= 1e-13 * np.abs(u).sum(axis=1)).all()
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-13)
        np.testing.assert_array_equal(a.reduced.weight, a.given.weight)


SMALL = range(120)


def small(seed: int) -> make.Softmax:
    """Of few classes, with scores and weights at which plain methods work."""
    given = make.softmax(np.random.default_rng(seed), most=8, largest=30.0)
    return replace(given, weight=10.0 ** np.random.default_rng(seed).uniform(-3, 3, size=4))


def assert_no_better(given: make.Softmax, i: int, change: np.ndarray, answer: Judged):
    """As low as another method's answer, and by strong convexity as near as that says."""
    one = given.take(slice(i, i + 1))
    scores = one.scores + change @ one.matrix.T
    value = one.weight[0] / 2 * change @ change + oracles.log_loss(scores, one.label).value[0]
    assert float(answer.value[i]) <= value * (1 + 1e-10) + 1e-14
    ours = changes(given, answer.reduced)[i].astype(float)
    room = np.sqrt(2 * max(value - float(answer.value[i]), 1e-15 * (1 + value)) / one.weight[0])
    assert np.linalg.norm(ours - change) <= 2 * room + 1e-9 * np.linalg.norm(change)


@pytest.mark.parametrize("seed", SMALL[::2])
def test_newton_in_all_columns_finds_the_same(seed: int):
    given = small(seed)
    answer = judged(given, minimised(given))
    for i in range(4):
        change = oracles.newton_in_all_columns(
            given.matrix, given.scores[i], given.label[i], given.weight[i]
        )
        assert_no_better(given, i, change, answer)


@pytest.mark.parametrize("seed", SMALL[1::4])
def test_scipy_finds_the_same(seed: int):
    given = small(seed)
    answer = judged(given, minimised(given))
    for i in range(4):
        a, z, k, weight = given.matrix, given.scores[i], given.label[i], given.weight[i]

        def value(d: np.ndarray, a=a, z=z, k=k, weight=weight) -> tuple[float, np.ndarray]:
            loss = oracles.log_loss((z + a @ d)[None, :], np.array([k]))
            return weight / 2 * d @ d + loss.value[0], weight * d + loss.pull[0] @ a

        def hessian(d: np.ndarray, a=a, z=z, k=k, weight=weight) -> np.ndarray:
            p = oracles.log_loss((z + a @ d)[None, :], np.array([k])).pull[0].copy()
            p[k] += 1.0
            return weight * np.eye(len(d)) + a.T @ (np.diag(p) - np.outer(p, p)) @ a

        start = np.zeros(a.shape[1])
        found = minimize(
            value, start, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-9}
        )
        assert_no_better(given, i, found.x, answer)


# What changes nothing


def assert_alike(given: make.Softmax, one: Reduced, other: Reduced, rounding: float = 0.0):
    """The same change of the same rows, as far as settled rows are exact: ‖∇E‖ / λ."""
    both = one.settled & other.settled
    assert (one.settled == other.settled).mean() >= 0.75
    off = np.linalg.norm((changes(given, one) - changes(given, other)).astype(float), axis=1)
    size = np.linalg.norm(changes(given, one).astype(float), axis=1)
    exact = 2 * judged(given, one).rounding * np.sqrt(np.diagonal(given.gram).max()) + 1e-8
    assert (off <= (2 * exact + rounding) / given.weight + 1e-12 * size)[both].all()


@pytest.mark.parametrize("seed", range(40))
def test_the_order_of_the_classes_changes_nothing(seed: int):
    rng = np.random.default_rng(seed)
    given = make.softmax(rng)
    order = rng.permutation(len(given.matrix))
    back = order.argsort()
    other = make.Softmax(
        given.matrix[order], given.scores[:, order], back[given.label], given.weight
    )
    swapped = minimised(other)
    returned = replace(
        swapped, coefficients=swapped.coefficients[:, back], shares=swapped.shares[:, back]
    )
    assert_alike(given, minimised(given), returned)


@pytest.mark.parametrize("seed", range(40))
def test_what_all_scores_have_in_common_changes_nothing(seed: int):
    """A constant, or a row of A: differences of scores are all that counts."""
    rng = np.random.default_rng(seed)
    given = make.softmax(rng, largest=100.0)
    plain = minimised(given)
    higher = replace(given, scores=given.scores + 7.25)
    assert_alike(given, plain, minimised(higher), rounding=1e-12)
    row = np.round(rng.normal(size=given.matrix.shape[1]) * 64) / 64
    tilted = replace(given, matrix=given.matrix + row)
    assert_alike(given, plain, minimised(tilted), rounding=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_a_row_does_not_depend_on_the_batch(seed: int):
    """Each with its own label and weight, and all of them also with one."""
    rng = np.random.default_rng(seed)
    given = make.softmax(rng, rows=40)
    together = minimised(given)
    for i in range(0, 40, 13):
        alone = given.take(slice(i, i + 1))
        assert_alike(alone, minimised(alone), taken(together, slice(i, i + 1)))
    label, weight = int(given.label[0]), float(given.weight[0])
    alike = replace(given, label=np.full(40, label), weight=np.full(40, weight))
    same = minimise(given.scores, given.gram, label, weight)
    np.testing.assert_array_equal(same.coefficients, minimised(alike).coefficients)


def taken(reduced: Reduced, rows: Any) -> Reduced:
    return Reduced(*(getattr(reduced, name)[rows] for name in Reduced.__dataclass_fields__))


@pytest.mark.parametrize(
    ("classes", "rows"),
    [*product((2, 3, 60), (0, 1, 8, 9, 700)), *product((130, 300), (0, 1, 2, 4, 9))],
)
def test_batches_of_any_size(classes: int, rows: int):
    rng = np.random.default_rng(rows)
    matrix = rng.normal(size=(classes, 70))
    scores = rng.normal(size=(rows, classes))
    label, weight = rng.integers(classes, size=rows), 10.0 ** rng.uniform(-2, 2, size=rows)
    given = make.Softmax(matrix, scores, label, weight)
    goal = rng.normal(size=rows)
    for reduced in (minimised(given), reach(scores, given.gram, label, goal)):
        assert reduced.coefficients.shape == reduced.shares.shape == (rows, classes)
        for name in ("weight", "gradient", "iterations", "settled"):
            assert getattr(reduced, name).shape == (rows,)
        assert reduced.settled.all()


def test_where_all_rows_of_a_are_equal_nothing_moves():
    rng = np.random.default_rng(0)
    matrix, scores = np.tile(rng.normal(size=5), (4, 1)), rng.normal(size=(20, 4))
    given = make.Softmax(matrix, scores, rng.integers(4, size=20), 10.0 ** rng.uniform(-6, 6, 20))
    reduced = minimised(given)
    assert (np.abs(changes(given, reduced)).max(axis=1) <= 1e-14 / given.weight).all()
    nothing = minimise(scores, np.zeros((4, 4)), given.label, given.weight)
    assert nothing.settled.all()
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(nothing.shares, p, rtol=1e-13)


def test_no_input_is_written_to():
    given = make.softmax(np.random.default_rng(0))
    gram, goal = given.gram, np.ones(4)
    kept = [np.array(a) for a in (given.scores, gram, given.label, given.weight, goal)]
    minimise(given.scores, gram, given.label, given.weight)
    reach(given.scores, gram, given.label, goal)
    for now, before in zip(
        (given.scores, gram, given.label, given.weight, goal), kept, strict=True
    ):
        np.testing.assert_array_equal(now, before)


# A goal for the log-odds


@dataclass(frozen=True)
class Aimed:
    """What `reach` answers, and what it should."""

    judged: Judged
    goal: np.ndarray


def aimed(given: make.Softmax, goal: np.ndarray, **options: float) -> Aimed:
    reduced = reach(given.scores, given.gram, given.label, goal, **options)
    change = changes(given, reduced)
    scores = given.scores.astype(LONG) + change @ given.matrix.astype(LONG).T
    loss = oracles.log_odds_loss(scores, given.label)
    weight = np.where(np.isfinite(reduced.weight), reduced.weight, 1.0).astype(LONG)[:, None]
    slope = weight * change + loss.pull @ given.matrix.astype(LONG)
    length = np.sqrt((slope * slope).sum(axis=1)).astype(float)
    value = (change * change).sum(axis=1) / 2
    bound = oracles.reach_bound(given, goal, reduced.shares, reduced.weight)
    return Aimed(Judged(given, reduced, length, value, bound, loss.value), goal)


@cache
def reached(many: int) -> tuple[Aimed, ...]:
    """A sixth as many, each row with a goal."""
    answers = []
    for seed in range(many // 6):
        rng = np.random.default_rng(seed)
        goal = rng.choice([-1.0, 1.0], 4) * 10.0 ** rng.uniform(-3, 1.3, 4)
        answers.append(aimed(make.softmax(rng), goal))
    return tuple(answers)


def before(a: Aimed) -> np.ndarray:
    """(n,) the log-odds that rows have."""
    given = a.judged.given
    return -oracles.log_odds_loss(given.scores.astype(LONG), given.label).value.astype(float)


@needs_long
@MANY
def test_the_log_odds_are_the_goal_to_1e_10(many: int):
    for a in reached(many):
        moved = a.judged.reduced.settled & (before(a) < a.goal)
        off = np.abs(a.judged.short + a.goal).astype(float)
        assert (off <= 1e-10 + 4 * a.judged.rounding)[moved].all()


@needs_long
@MANY
def test_no_smaller_change_reaches_the_goal(many: int):
    """By duality; and by the conditions of Karush, Kuhn and Tucker."""
    for a in reached(many):
        moved = a.judged.reduced.settled & (before(a) < a.goal)
        assert (a.judged.gap <= 1e-10)[moved].all()
        pull = a.judged.steepest * (1e-6 + 8 * a.judged.rounding)
        assert (a.judged.slope <= pull)[moved].all()


@MANY
def test_rows_that_are_there_stay(many: int):
    seen = 0
    for a in reached(many):
        there = before(a) >= a.goal + 1e-9
        seen += there.sum()
        assert a.judged.reduced.settled[there].all()
        assert not a.judged.reduced.coefficients[there].any()
        assert np.isinf(a.judged.reduced.weight[there]).all()
        assert not a.judged.reduced.iterations[there].any()
    assert seen > many * 2 // 25


@cache
def attainable(many: int) -> tuple[tuple[Aimed, np.ndarray], ...]:
    """Answers, and the highest log-odds that there are, where scores let CVXPY tell."""
    some = [a for a in reached(many) if np.abs(a.judged.given.scores).max() <= 300]
    return tuple((a, highest(a.judged.given)) for a in some)


def highest(given: make.Softmax) -> np.ndarray:
    rows = zip(given.scores, given.label.tolist(), strict=True)
    return np.array([oracles.best_log_odds(given.matrix, z, k) for z, k in rows])


@MANY
def test_goals_that_no_point_has_are_not_reached(many: int):
    seen = 0
    for a, best in attainable(many):
        beyond = best < a.goal - 1e-6
        seen += beyond.sum()
        assert not a.judged.reduced.settled[beyond].any()
    assert seen > many // 50


@MANY
def test_nearly_all_goals_that_points_have_are_reached(many: int):
    within = np.concatenate([best > a.goal + 1e-2 for a, best in attainable(many)])
    settled = np.concatenate([a.judged.reduced.settled for a, _ in attainable(many)])
    assert settled[within].mean() >= 0.99


@MANY
def test_all_goals_that_points_have_are_reached(many: int):
    for a, best in attainable(many):
        assert a.judged.reduced.settled[best > a.goal + 1e-2].all()


@pytest.mark.parametrize(
    ("rows", "scores", "label", "goal"),
    [
        ([[1, 0, 3], [-1, -2, -3], [1, -2, 3]], [-20, 14, 9], 0, 2.0),
        ([[-2, 0, 0], [1, 1, 2], [-3, 1, -1], [3, -3, -1]], [-10, 8, 14, 18], 0, 0.0),
        ([[1, -2], [2, 3], [3, 0]], [16, -17, 13], 0, 3.0),  # short of it by 1e-13
        (  # a loss that happens to be the goal, at a u far from optimal
            [[-46 / 64, -8 / 64], [-46 / 64, -8 / 64], [-4 / 64, -7 / 64]],
            [0.6514528741, 0.754968534614, 0.38347400943],
            2,
            -0.002175496979548277,
        ),
        ([[1, -2], [2, 3], [3, 0]], [16, -17, 13], 0, 5.0),
        ([[1, 0], [0, 1], [0, 0]], [-20, 14, 9], 0, 2.0),
    ],
)
def test_small_numbers_reach_their_goal(rows: Any, scores: Any, label: int, goal: float):
    matrix, k = np.array(rows, dtype=float), np.array([label])
    given = make.Softmax(matrix, np.array([scores], dtype=float), k, np.ones(1))
    assert highest(given)[0] == np.inf
    answer = aimed(given, np.array([goal]))
    assert answer.judged.reduced.settled.all()
    assert abs(answer.judged.short[0] + goal) <= 1e-10


@MANY
def test_rows_that_never_get_there_do_not_take_long(many: int):
    for a in reached(many):
        assert (a.judged.reduced.iterations <= 600).all()


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 40))]
)
def test_cvxpy_finds_no_smaller_change(seed: int):
    rng = np.random.default_rng(seed)
    given = make.softmax(rng, most=6, largest=10.0)
    goal = before(aimed(given, np.zeros(4))) + 10.0 ** rng.uniform(-2, 1, 4)
    answer = aimed(given, goal)
    for i in range(4):
        k = int(given.label[i])
        if oracles.best_log_odds(given.matrix, given.scores[i], k) < np.inf:
            continue
        assert answer.judged.reduced.settled[i]
        best = oracles.least_change(given.matrix, given.scores[i], k, goal[i])
        value = pytest.approx(float(answer.judged.value[i]), rel=1e-6, abs=1e-9)
        assert best.low == value
        assert best.high == value


@pytest.mark.parametrize("goal", [-3.0, 0.0, 1e-3, 5.0, 30.0])
def test_two_classes_are_a_half_space(goal: float):
    """δ = (goal − z) a / ‖a‖² for z = a · x + b, the label's score less the other's."""
    rng = np.random.default_rng(0)
    matrix, scores = rng.normal(size=(2, 6)), 5.0 * rng.normal(size=(200, 2))
    label = rng.integers(2, size=200)
    given = make.Softmax(matrix, scores, label, np.ones(200))
    reduced = reach(scores, given.gram, label, goal)
    assert reduced.settled.all()
    sign = np.where(label == 1, 1.0, -1.0)
    row, now = sign[:, None] * (matrix[1] - matrix[0]), sign * (scores[:, 1] - scores[:, 0])
    step = np.maximum(goal - now, 0.0) / (row * row).sum(axis=1)
    np.testing.assert_allclose(
        changes(given, reduced).astype(float), step[:, None] * row, rtol=1e-9, atol=1e-11
    )
    moved = step > 0
    np.testing.assert_allclose(1.0 / reduced.weight[moved], step[moved], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(20))
def test_each_row_has_its_own_goal_and_label(seed: int):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(5, 9))
    scores, goal = 3.0 * rng.normal(size=(12, 5)), 3.0 * rng.normal(size=12)
    label = rng.integers(5, size=12)
    given = make.Softmax(matrix, scores, label, np.ones(12))
    together = reach(scores, given.gram, label, goal)
    for i in range(12):
        alone = reach(scores[i : i + 1], given.gram, int(label[i]), float(goal[i]))
        np.testing.assert_allclose(
            alone.coefficients[0], together.coefficients[i], rtol=1e-6, atol=1e-9
        )
    assert together.settled.all()


@pytest.mark.parametrize("seed", range(20))
def test_order_and_common_parts_change_no_goal(seed: int):
    rng = np.random.default_rng(seed)
    matrix, scores = rng.normal(size=(6, 9)), 3.0 * rng.normal(size=(12, 6))
    label, goal = rng.integers(6, size=12), 3.0 * rng.normal(size=12)
    order, row = rng.permutation(6), rng.normal(size=9)
    plain = reach(scores, matrix @ matrix.T, label, goal)
    other = (matrix + row)[order]
    swapped = reach(scores[:, order] - 2.5, other @ other.T, order.argsort()[label], goal)
    np.testing.assert_allclose(
        swapped.coefficients @ other, plain.coefficients @ matrix, rtol=1e-5, atol=1e-8
    )


# Newton directions


@pytest.mark.parametrize("rows", [1, 8, 9, 50])
@pytest.mark.parametrize("seed", range(12))
def test_a_direction_is_the_newton_step_in_all_columns(
    rows: int, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """Rows few and many: solved directly, and by iteration; weights and shares of all sizes."""
    monkeypatch.setattr(newton, "ACCURACY", 1e-14)
    rng = np.random.default_rng(seed)
    given = make.softmax(rng, most=24, rows=rows)
    k = len(given.matrix)
    shares = rng.dirichlet(np.full(k, 10.0 ** rng.uniform(-2, 1)), size=rows).T
    shares[rng.random(k) < 0.2] *= 1e-30
    shares[:, rng.random(rows) < 0.2] = np.eye(k)[:, :1]
    shares /= shares.sum(axis=0)
    residual = rng.normal(size=(k, rows))
    residual -= residual.mean(axis=0)
    weighed = given.gram @ residual
    step = direction(given.gram, shares, given.weight, residual, weighed)
    steepest = np.sqrt(np.diagonal(given.gram).max())
    for i in range(rows):
        slope = -(residual[:, i].astype(LONG) @ given.matrix.astype(LONG))
        expected = oracles.newton_step(given.matrix, shares[:, i], given.weight[i], slope)
        ours = -(step[:, i].astype(LONG) @ given.matrix.astype(LONG))
        off = np.linalg.norm((ours - expected).astype(float))
        rounding = 16 * EPS * steepest * np.abs(residual[:, i]).sum() / given.weight[i]
        assert off <= 1e-8 * np.linalg.norm(expected.astype(float)) + rounding


@pytest.mark.parametrize("seed", range(6))
def test_a_rough_direction_leads_down_and_is_near_the_newton_step(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    rng = np.random.default_rng(seed)
    matrix, rows = rng.normal(size=(40, 60)), 80
    gram, weight = matrix @ matrix.T, 10.0 ** rng.uniform(-6, 2, size=rows)
    shares = rng.dirichlet(np.full(40, 0.1), size=rows).T
    residual = rng.normal(size=(40, rows))
    residual -= residual.mean(axis=0)

    def step(accuracy: float) -> np.ndarray:
        monkeypatch.setattr(newton, "ACCURACY", accuracy)
        return direction(gram, shares, weight, residual, gram @ residual)

    def length(change: np.ndarray) -> np.ndarray:
        """In the metric of the second derivatives of E."""
        moved = gram @ change
        mean = (shares * moved).sum(axis=0)
        square = weight * (change * moved).sum(axis=0) + (shares * (moved - mean) ** 2).sum(axis=0)
        return np.sqrt(square)

    exact, rough = step(1e-14), step(1e-3)
    assert ((gram @ residual) * rough).sum(axis=0).max() < 0.0
    conditioned = weight >= 0.1  # a small residual tells little of the others
    near = length(rough - exact) <= 0.05 * length(exact)
    assert near[conditioned].all()


@pytest.mark.parametrize("rows", [1, 9])
def test_rows_of_equal_classes_are_no_singular_matrix(rows: int):
    rng = np.random.default_rng(0)
    for _ in range(200):
        matrix = np.repeat(rng.normal(size=(1, 5)), 10, axis=0) * 10.0 ** rng.uniform(6, 13)
        weight = 10.0 ** rng.uniform(-12, 0)
        with np.errstate(all="ignore"):
            minimise(rng.normal(size=(rows, 10)), matrix @ matrix.T, 0, weight)


def test_what_overflows_in_conjugate_gradients_warns_nobody():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(100, 5)) * 1e8
    matrix[1] = matrix[0]
    minimise(rng.normal(size=(9, 100)) * 1e8, matrix @ matrix.T, 0, 1.0)
