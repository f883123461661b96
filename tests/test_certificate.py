"""Certificates are not fooled: corrupted points, multipliers and reports never make one hold."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from strategies import Planted, multipliers, planted, seeds

import counterpoint as cp
from counterpoint.certificate import (
    MESSAGES,
    NOT_PROMISED,
    ON_EDGE,
    PROMISE_NOT_FOUND,
    PROMISED,
    TIMED_OUT,
    Certificates,
    Comparison,
    certify,
    judge,
    lower_bounds,
    message_of,
)
from counterpoint.lvq import LGMLVQ
from counterpoint.privacy import PrivateSVC
from counterpoint.problem.costs import EncodedCost
from counterpoint.problem.targets import Validation
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.evidence import Bounding, Evidence, has_tangents
from counterpoint.programs.program import Program
from counterpoint.programs.proof import ProofTrees
from counterpoint.programs.region import Region

PROVED, REPORTED, LOCAL, NONE = (word.code for word in cp.Claim)
NEVER = np.full(2, cp.Guarantee.NONE.code, np.int8)
ROUNDING = 1e-10


def triangle() -> Program:
    """min |y₁| + 2|y₂| s.t. y₁ + y₂ >= 4 and y₁ <= 3, from 0: (3, 1), cost 5, multipliers 2, 1."""
    rows = LinearBounds(np.array([[1.0, 1.0], [1.0, 0.0]]), [4.0, -np.inf], [np.inf, 3.0])
    return Program(EncodedCost(np.array([1.0, 2.0]), np.zeros(2)), Region((rows,)))


RIGHT = np.array([[-2.0, 1.0]])
ORIGIN = np.zeros((1, 2))


def evidence(program: Program, given: np.ndarray, told: float = 0.0) -> Evidence:
    n = len(given)
    cases = program.cases(np.zeros((n, program.width)))
    return Evidence(program, cases, given, None, np.full(n, told))


def bounds(program: Program, given: np.ndarray, cost: float, told: float = 0.0):
    return lower_bounds([evidence(program, given, told)], np.full(len(given), cost))


def certificate(program: Program, y: np.ndarray, x: np.ndarray = ORIGIN, *, valid: bool = True):
    cases = program.cases(x)
    zero = np.zeros(len(y))
    known = [evidence(program, np.zeros((len(y), program.size)))]
    verdict = Validation.plain(np.full(len(y), valid), zero, zero, zero)
    return certify(program, y, cases, verdict, known)[0]


def test_the_right_multipliers_prove_the_optimum():
    bound, claim = bounds(triangle(), RIGHT, 5.0)
    assert bound[0] == pytest.approx(5.0, rel=1e-12)
    assert claim[0] == PROVED


@given(seeds)
def test_no_other_multipliers_prove_more(seed: int):
    rng = np.random.default_rng(seed)
    corrupted = np.vstack([RIGHT + 10.0 ** rng.uniform(-12, 3) * rng.normal(size=(50, 2)), -RIGHT])
    bound, claim = bounds(triangle(), corrupted, 5.0)
    assert (bound <= 5.0 * (1 + 1e-12)).all()
    assert set(claim) <= {PROVED, NONE}
    assert (bound[claim == PROVED] >= 5.0 * (1 - 1e-9)).all()


@given(planted(), seeds)
def test_what_is_learned_of_some_rows_bounds_as_if_all_were_computed_at_the_end(
    case: Planted, seed: int
):
    """Rows of which nothing was learned have no multipliers, and are not passed over."""
    rng = np.random.default_rng(seed)
    n, program = 6, case.program
    given, some = multipliers(rng, program.size, n), np.flatnonzero(rng.random(n) < 0.7)
    cases = program.cases(np.repeat(case.x, n, axis=0))
    known, at = Evidence.blank(program, cases), case.x + rng.normal(size=(n, program.width))
    here = at[some] if has_tangents(program) else None
    known.learn(some, given[some], here, program.bound(cases.take(some), given[some], here))
    whole = Evidence(program, cases, known.multipliers, known.at, np.zeros(n))
    for reached in (np.full(n, np.inf), np.full(n, case.costs.min())):
        learned, computed = (each.bounds(reached)[0] for each in (known, whole))
        size = 1.0 + case.costs.max() + np.abs(given).sum(axis=1) * 1e3
        assert (np.isinf(learned) == np.isinf(computed)).all()
        assert (np.abs(learned - computed)[np.isfinite(computed)] <= (ROUNDING * size).max()).all()
        assert (learned <= case.costs.min() + ROUNDING * size).all()


@given(planted(), seeds)
def test_bounds_never_exceed_what_a_feasible_point_costs(case: Planted, seed: int):
    """Whatever multipliers, tangents, and however the rest of the union was refuted."""
    rng = np.random.default_rng(seed)
    n, program = 16, case.program
    given = multipliers(rng, program.size, n)
    cases = program.cases(np.repeat(case.x, n, axis=0))
    at = case.x + rng.normal(size=(n, program.width))
    cost = case.costs.min() if rng.random() < 0.5 else np.inf
    bound, claim = lower_bounds(
        [Evidence(program, cases, given, at, np.zeros(n))], np.full(n, cost)
    )
    size = 1.0 + case.costs.max() + np.abs(given).sum(axis=1) * 1e3
    assert (bound <= case.costs.min() + ROUNDING * size).all()
    assert np.isfinite(bound).all()
    assert (claim != REPORTED).all()


def test_a_reported_bound_is_called_reported_and_never_proved():
    nothing = np.zeros((1, 2))
    bound, claim = bounds(triangle(), nothing, 5.0, told=5.0)
    assert (bound[0], claim[0]) == (5.0, REPORTED)
    bound, claim = bounds(triangle(), RIGHT, 5.0, told=4.9)
    assert claim[0] == PROVED
    assert bound[0] == pytest.approx(5.0)


class Local(Bounding):
    """What a search for local optima proves, and what a solver reported besides."""

    is_local, bound_proofs = True, ()

    def __init__(self, proved: float, told: float) -> None:
        self.given = np.array([proved]), np.array([told])

    def bounds(self, reached):
        return self.given


@pytest.mark.parametrize(
    ("proved", "told", "claim"),
    [(4.0, 4.0, LOCAL), (4.0, 5.0, REPORTED), (5.0, 5.0, PROVED), (4.0, np.inf, REPORTED)],
)
def test_an_optimum_is_local_if_nothing_closes_its_gap(proved: float, told: float, claim: int):
    bound, claims = lower_bounds([Local(proved, told)], np.array([5.0]))
    assert (bound[0], claims[0]) == (told, claim)


def test_a_tree_that_proves_less_takes_nothing_from_multipliers():
    program, zero, one = triangle(), np.zeros(1), np.zeros(1, dtype=np.intp)
    nothing = ProofTrees(one, zero, one, one, zero, np.zeros((1, 0), dtype=bool), np.zeros((1, 2)))
    known = evidence(program, RIGHT)
    known.proofs.append(nothing)
    assert known.bounds(np.array([5.0]))[0][0] == pytest.approx(5.0)


@pytest.mark.parametrize("told", [0.0, 4.9])
def test_a_bound_that_leaves_a_gap_claims_nothing(told: float):
    bound, claim = bounds(triangle(), np.zeros((1, 2)), 5.0, told)
    assert (bound[0], claim[0]) == (told, NONE)


def test_in_single_precision_a_report_is_no_bound_where_nothing_is_claimed():
    """It is of points that lead by a margin, which is felt there."""
    given = [evidence(triangle(), np.zeros((1, 2)), 4.9)]
    bound, claim = lower_bounds(given, np.array([5.0]), exact=False)
    assert (bound[0], claim[0]) == (0.0, NONE)
    given = [evidence(triangle(), np.zeros((1, 2)), 5.0)]
    bound, claim = lower_bounds(given, np.array([5.0]), exact=False)
    assert (bound[0], claim[0]) == (5.0, REPORTED)


def test_a_union_is_bounded_by_its_least_piece():
    near = Program(
        EncodedCost(np.ones(1), np.zeros(1)), Region((LinearBounds([[1.0]], [1.0], [np.inf]),))
    )
    far = Program(
        EncodedCost(np.ones(1), np.zeros(1)), Region((LinearBounds([[1.0]], [9.0], [np.inf]),))
    )
    right, nothing = np.array([[-1.0]]), np.zeros((1, 1))
    proved, claim = lower_bounds([evidence(near, right), evidence(far, right)], np.ones(1))
    assert (proved[0], claim[0]) == (pytest.approx(1.0), PROVED)
    open_piece, claim = lower_bounds([evidence(near, right), evidence(far, nothing)], np.ones(1))
    assert (open_piece[0], claim[0]) == (0.0, NONE)


def test_a_refuted_piece_leaves_the_union():
    rows = LinearBounds(np.array([[1.0], [1.0]]), [2.0, -np.inf], [np.inf, 1.0])
    never = Program(EncodedCost(np.ones(1), np.zeros(1)), Region((rows,)))
    contradiction = np.array([[-1.0, 1.0]])
    bound, _ = bounds(never, contradiction, np.inf)
    assert np.isposinf(bound[0])
    for corrupted in (-contradiction, np.zeros((1, 2)), np.array([[-1.0, 0.5]])):
        bound, _ = bounds(never, corrupted, np.inf)
        assert np.isfinite(bound[0])


@given(planted(conditions=("affine", "cone", "log-sum-exp", "box", "at most")), seeds)
def test_a_point_outside_never_holds(case: Planted, seed: int):
    rng = np.random.default_rng(seed)
    away = case.points[[0]] + 10.0 ** rng.uniform(-3, 2) * rng.normal(size=case.points[[0]].shape)
    x = case.x
    broken = case.program.region.violation(away, x)[0]
    assume(broken > 1e-6)
    result = certificate(case.program, away, x)
    assert not result.holds
    assert result.violation >= broken * (1.0 - 1e-9)


def test_what_the_model_does_not_confirm_never_holds():
    point = np.array([[3.0, 1.0]])
    assert certificate(triangle(), point).holds
    assert not certificate(triangle(), point, valid=False).holds


@pytest.mark.parametrize("push", [1e-7, 1e-3, 1.0])
def test_a_pushed_point_does_not_hold(push: float):
    assert not certificate(triangle(), np.array([[3.0 + push, 1.0]])).holds


def test_costs_are_recomputed_from_the_point():
    assert certificate(triangle(), np.array([[3.0, 1.0]])).cost == 5.0
    assert certificate(triangle(), np.array([[0.0, 4.0]])).cost == 8.0


def test_the_gap_is_relative_and_never_negative():
    program = triangle()
    y, x = np.array([[3.0, 1.0], [3.0, 1.0], [0.0, 4.0]]), np.zeros((3, 2))
    given = np.array([5.0, 7.0, 5.0])  # the second bound lies above the cost: rounding, at most
    ones = np.ones(3, dtype=bool)
    told = Evidence(program, program.cases(x), np.zeros((3, program.size)), None, given)
    verdict = Validation.plain(ones, *np.zeros((3, 3)))
    result = certify(program, y, program.cases(x), verdict, [told])
    assert result.gap.tolist() == [0.0, 0.0, 3.0 / 8.0]
    assert (result.bound <= result.cost).all()


def test_staying_costs_nothing_which_is_proved():
    free = Program(EncodedCost(np.ones(2), np.zeros(2)), Region())
    result = certificate(free, ORIGIN)
    assert (result.cost, result.gap, result.claim) == (0.0, 0.0, cp.Claim.PROVED)


def test_rows_without_an_answer_hold_nothing():
    blank = Certificates.blank(2)
    assert not blank.holds.any()
    assert np.isnan(blank.cost).all()
    assert blank[0].claim == cp.Claim.NONE


def test_what_is_withheld_keeps_its_bound_alone():
    program, y = triangle(), np.array([[3.0, 1.0], [0.0, 0.0]])
    cases = program.cases(np.zeros((2, 2)))
    known = [evidence(program, np.zeros((2, 2)), 7.0)]
    number = np.ones(2)
    said = Validation(number > 0, 2 * number, 0.9 * number, NEVER, 1e-9 * number)
    before = certify(program, y, cases, said, known)
    assert before.holds.tolist() == [True, False]
    after = before.withheld(~before.holds, cp.Guarantee.FIXED)
    for name in ("margin", "violation", "cost", "objective", "probability", "rounding"):
        assert getattr(after, name)[0] == getattr(before, name)[0]
        assert np.isnan(getattr(after, name)[1])
    assert after.valid.tolist() == [True, False]
    assert after.bound.tolist() == [before.bound[0], 7.0]
    assert after.guarantee.tolist() == [cp.Guarantee.NONE, cp.Guarantee.FIXED]


def test_a_row_that_is_refuted_is_infeasible_whatever_the_clock_says():
    blank = Certificates.blank(2)
    blank.bound[:] = [np.inf, 7.0]
    status = judge(blank, gap=1e-6, limited=np.ones(2, bool))
    assert cp.Status.of(status).tolist() == [cp.Status.INFEASIBLE, cp.Status.LIMIT]


def test_nothing_is_claimed_of_rows_that_are_not_settled():
    blank = Certificates.blank(3)
    blank.claims[:], blank.bound[:] = PROVED, [np.inf, 7.0, 7.0]
    judge(blank, GAP, np.array([False, False, True]))
    assert blank.claims.tolist() == [PROVED, NONE, NONE]


def test_an_answer_is_on_edge_below_its_rounding_and_not_at_it():
    verdict = Validation.plain(np.ones(3, dtype=bool), np.array([0.5, 1.0, 2.0]), *np.ones((2, 3)))
    program, x = triangle(), np.zeros((3, 2))
    result = certify(program, x, program.cases(x), verdict, None)
    assert result.on_edge.tolist() == [result[i].on_edge for i in range(3)] == [True, False, False]


def test_sentences_promise_what_a_guarantee_is_about():
    """An answer says how sure it is; without one, none is as sure; a row that stays has no edge."""

    def text(status: cp.Status, guarantee: cp.Guarantee, *, found: bool = False) -> str:
        return message_of(status, cp.Claim.NONE, guarantee, has_answer=found, on_edge=found)

    none, fixed = cp.Guarantee.NONE, cp.Guarantee.FIXED
    for status in (cp.Status.SUBOPTIMAL, cp.Status.LIMIT):
        assert text(status, none, found=True) == f"{MESSAGES[status]} {ON_EDGE}"
        assert text(status, fixed, found=True) == f"{MESSAGES[status]} {PROMISED[fixed]} {ON_EDGE}"
    assert text(cp.Status.LIMIT, fixed) == TIMED_OUT
    for guarantee in (none, fixed):
        assert text(cp.Status.ALREADY, guarantee, found=True) == MESSAGES[cp.Status.ALREADY]
    for status, told in (
        (cp.Status.INFEASIBLE, NOT_PROMISED[fixed]),
        (cp.Status.UNPROVED, PROMISE_NOT_FOUND),
    ):
        assert text(status, none) == MESSAGES[status]
        assert text(status, fixed) == told


def test_the_sentence_of_an_optimal_answer_says_what_it_is_the_best_of_and_how_sure_that_is():
    def text(claim: cp.Claim, *, gap: float = 1e-6, **batch: bool) -> str:
        comparison = Comparison.of(**({"is_cheapest": True, "is_tradeoff": False} | batch))
        sort = cp.Status.OPTIMAL, claim, cp.Guarantee.NONE
        return message_of(*sort, has_answer=True, on_edge=False, comparison=comparison, gap=gap)

    proved, reported = cp.Claim.PROVED, cp.Claim.REPORTED
    assert text(proved) == "This is the cheapest possible change (proved)."
    assert text(reported) == "This is the cheapest possible change (as a solver reports)."
    assert text(proved, gap=0.05) == "No possible change is more than 5 % cheaper (proved)."
    assert text(proved, is_tradeoff=True) == "This is the best possible trade-off (proved)."
    assert text(proved, is_cheapest=False) == (
        "This is the cheapest change that differs enough from the answers before it (proved)."
    )


# Through the whole library


class Liar(LogisticRegression):
    """Predicts the first class wherever the second is less than sure, whatever its scores say."""

    def predict(self, X):
        sure = self.decision_function(X) > 5.0
        return self.classes_[sure.astype(int)]


def test_a_model_that_decides_otherwise_than_its_scores_is_found_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    model = Liar().fit(X, X[:, 0] + X[:, 1] > 0)
    with pytest.raises(cp.ModelError, match="Liar"):
        cp.explain(model, X, True, cost=cp.Manhattan())


class Off(LinearRegression):
    """Predicts something else than what its coefficients say."""

    off = 0.0

    def predict(self, X):
        return super().predict(X) + self.off


class Generous(LogisticRegression):
    """Gives the second class at a tie, where its scores say the first."""

    def predict(self, X):
        return self.classes_[(self.decision_function(X) >= 0.0).astype(int)]


@pytest.mark.parametrize("off", [1e-3, -1e-3])
def test_a_value_that_is_not_what_was_read_is_found_out(off: float):
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = Off().fit(X, X[:, 0] + X[:, 1])
    explainer = cp.Explainer(model, extrapolate=True, data=X)
    model.off = off
    with pytest.raises(cp.ReaderMismatch, match=r"Off predicts .* \(5 of 5 rows\)"):
        explainer.explain(X[:5], cp.Interval(low=5.0))
    with pytest.raises(cp.ReaderMismatch, match=r"for row 0 of data=.* \(50 of 50 rows\)"):
        cp.Explainer(model, extrapolate=True, data=X)


def test_rounding_and_ties_are_no_mismatch():
    X = np.random.default_rng(0).normal(size=(50, 3))
    value = X[:, 0] + X[:, 1]
    model = Off().fit(X, value)
    model.off = 1e-14
    assert cp.explain(model, X[:5], cp.Interval(low=5.0), extrapolate=True, data=X).found.all()
    generous = Generous(fit_intercept=False).fit(X, value > 0)
    tied = np.vstack([np.zeros(3), X[:2]])
    assert generous.predict(tied)[0]
    assert cp.explain(generous, tied, cp.OtherLabel(), data=X).found[1:].all()


# Statuses, claims and guarantees: members of enums, never positions; which go together

CLAIMS = {
    cp.Status.OPTIMAL: {cp.Claim.PROVED, cp.Claim.REPORTED},
    cp.Status.ALREADY: {cp.Claim.PROVED, cp.Claim.REPORTED},
    cp.Status.SUBOPTIMAL: {cp.Claim.LOCAL, cp.Claim.NONE},
    cp.Status.LIMIT: {cp.Claim.NONE},
    cp.Status.INFEASIBLE: {cp.Claim.PROVED, cp.Claim.REPORTED},
    cp.Status.UNPROVED: {cp.Claim.NONE},
    cp.Status.INVALID: {cp.Claim.NONE},
}
GAP = 1e-6


def plain() -> cp.Counterfactuals:
    """A convex question; one row cannot be used."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    rows = X[::10].copy()
    rows.iloc[3, 0] = np.nan
    return cp.explain(LogisticRegression(max_iter=1000).fit(X, y), rows, 1, data=X)


def impossible() -> cp.Counterfactuals:
    """Nothing may change."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    return cp.explain(model, X[::10], 1, constraints=[cp.Immutable(*X)], cost=cp.Manhattan())


def whole(changes: int = 3, **options: float) -> cp.Counterfactuals:
    """Whole numbers, few of which may change: branch and bound."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = (X * 10).round()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    features = [cp.Integer(name) for name in X]
    constraints = [cp.WithinObserved(), cp.MaxChanges(changes)]
    explainer = cp.Explainer(
        model, data=X, features=features, cost=cp.SquaredEuclidean(), constraints=constraints
    )
    return explainer.explain(X[::15], 1, **options)


def bent() -> cp.Counterfactuals:
    """Prototypes with metrics of their own: local optima."""
    X, y = load_iris(return_X_y=True)
    model = LGMLVQ(2, random_state=0).fit(X, y)
    return cp.explain(model, X[::10], 1, data=X, cost=cp.Manhattan())


def unsure() -> cp.Counterfactuals:
    """The way to a prototype that is not sure enough."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = pd.DataFrame(rng.normal(size=(300, 2)) + 2.0 * y[:, None], columns=["a", "b"])
    model = PrivateSVC(
        1.0,
        feature_map="fourier",
        n_components=24,
        bounds=(-6, 6),
        insecure_noise_seed=1,
        random_state=3,
        classes=[0, 1],
    ).fit(X, y)
    target = cp.Robust(1, 0.9999, "fixed", search="segment", prototype=[1.2, 1.2])
    features = [cp.Continuous(name, (-6, 6)) for name in X]
    explainer = cp.Explainer(model, features=features, cost=cp.Manhattan([1.0, 1.0]))
    return explainer.explain(X[model.predict(X) == 0].head(3), target)


def turned() -> cp.Counterfactuals:
    """Whole numbers at a price that is no sum over columns."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = (X.iloc[:, :3] * 2).round()
    model = LogisticRegression(max_iter=1000).fit(X, y == 1)
    features = [cp.Integer(name) for name in X]
    cost = cp.Mahalanobis(np.eye(3) + 0.5)
    explainer = cp.Explainer(
        model, data=X, features=features, cost=cost, constraints=cp.WithinObserved()
    )
    return explainer.explain(X[::30], cp.OtherLabel())


def related() -> cp.Counterfactuals:
    """Whole numbers in a relation, within one leaf: no split and no multipliers close the gap."""
    X = np.array(list(product(range(10), range(10))), dtype=np.float64)
    model = DecisionTreeClassifier(max_depth=1).fit(X, X[:, 1] > 3)
    features, relation = [cp.Integer("x0"), cp.Integer("x1")], cp.Linear({"x0": 3, "x1": -1}, low=0)
    return cp.explain(model, X[:1], True, data=X, features=features, constraints=relation)


QUESTIONS = {
    "convex": plain,
    "turned": turned,
    "impossible": impossible,
    "whole numbers": whole,
    "one change": lambda: whole(1),
    "out of time": lambda: whole(time_limit=1e-9),
    "local": bent,
    "unsure": unsure,
    "related": related,
}


@cache
def answers_to(question: str) -> cp.Counterfactuals:
    return QUESTIONS[question]()


@pytest.mark.parametrize("question", QUESTIONS)
def test_only_what_settles_a_row_is_claimed_to_be_proved_or_reported(question: str):
    answers = answers_to(question)
    for answer in answers:
        c = answer.certificate
        assert c.claim in CLAIMS[answer.status], f"{answer.status}: {c.claim}"
        if c.claim in {cp.Claim.PROVED, cp.Claim.REPORTED}:
            assert c.gap <= GAP if answer.found else c.bound == np.inf
    report = answers.report()
    assert report["claim"].tolist() == [str(a.certificate.claim) for a in answers]
    assert report["status"].tolist() == [str(a.status) for a in answers]
    assert report["guarantee"].tolist() == [str(a.certificate.guarantee) for a in answers]


def test_the_questions_have_every_status_and_every_claim():
    seen = [(a.status, a.certificate.claim) for q in QUESTIONS for a in answers_to(q)]
    assert {status for status, _ in seen} == set(cp.Status)
    assert {claim for _, claim in seen} == set(cp.Claim)


@pytest.mark.parametrize("question", QUESTIONS)
def test_columns_hold_members_and_compare_with_nothing_else(question: str):
    answers = answers_to(question)
    columns = {
        cp.Status: answers.status,
        cp.Claim: answers.certificates.claim,
        cp.Guarantee: answers.certificates.guarantee,
    }
    for kind, column in columns.items():
        assert all(type(member) is kind for member in column)
        for number in range(len(kind)):  # members are no positions in their enum
            assert not (column == number).any()
    assert all(type(status) is cp.Status for status in answers.status)
    assert all(type(answer.status) is cp.Status for answer in answers)


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")
@pytest.mark.parametrize(("row", "coefficient"), [(1e120, 1e200), (1e200, 1e150)])
def test_what_overflows_is_not_met(row: float, coefficient: float):
    model = LinearSVC().fit([[1.0, 1.0], [-1.0, -1.0], [2.0, 1.0], [-2.0, -1.0]], [1, 0, 1, 0])
    relation = cp.Linear({"x0": -coefficient, "x1": coefficient}, high=0.0)  # x1 <= x0
    for cost in (cp.SquaredEuclidean(), cp.Manhattan({"x0": 1.0, "x1": 1.0})):
        answers = cp.explain(model, [[-row, -row]], 1, cost=cost, constraints=relation)
        for answer in answers:
            assert not answer.found or answer.row["x1"] <= answer.row["x0"] * (1.0 - 1e-6)
