"""Global optima by SCIP: against boxes, known distances to conics, and the model's own word."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from brackets import bracket
from known_programs import KNOWN
from scipy.optimize import brentq
from sklearn.datasets import load_iris, make_moons
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.errors import SolverFailure
from counterpoint.families.prototypes.quadratic_difference import QuadraticDifference, curvature_of
from counterpoint.families.prototypes.solvers.scip import Scip, Translation, scip_errors
from counterpoint.lvq import LGMLVQ
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import (
    AtMost,
    Box,
    Cone,
    LinearBounds,
    OneOf,
    Transitions,
    Whole,
)
from counterpoint.programs.program import Program
from counterpoint.programs.region import Condition, Region
from counterpoint.solvers import Effort, Outcome, Solution
from counterpoint.testing import Known, check_solver

INF = np.inf
ASKED = Effort(1e-6, 20.0)
HAIR = 2e-6
"""So little that what could be gained may be lost when a point is made exact."""
PRICES = ("absolute", "square", "full")


def solved(
    program: Program, x: np.ndarray, reached: float = INF, effort: Effort = ASKED
) -> Solution:
    return Scip(program).solve(program.cases(x[None]), effort, np.array([reached]))


def cost_of(program: Program, x: np.ndarray, solution: Solution) -> float:
    return float(program.encoded_cost(solution.points, x[None])[0])


# Random programs


def price_of(kind: str, random: np.random.Generator, d: int) -> EncodedCost:
    weights = random.uniform(0.5, 2.0, d)
    if kind == "absolute":
        return EncodedCost(weights, np.zeros(d))
    if kind == "square":
        return EncodedCost(np.zeros(d), weights)
    root = random.normal(size=(d, d))
    return EncodedCost(np.zeros(d), root @ root.T + 0.3 * np.eye(d))


def nearer(random: np.random.Generator, d: int) -> QuadraticDifference:
    near, far = random.normal(size=(2, d, d))
    at, away = 1.5 * random.normal(size=(2, d))
    return QuadraticDifference(near, -near @ at, far, -far @ away, 0.5 * random.normal(), 1.0)


def nothing(random: np.random.Generator, x: np.ndarray) -> Condition:
    return Box.unbounded(len(x))


def box(random: np.random.Generator, x: np.ndarray) -> Condition:
    low, high = x - random.uniform(0.0, 2.0, len(x)), x + random.uniform(0.0, 2.0, len(x))
    open_below, open_above = random.random((2, len(x))) < 0.4
    free = np.full(len(x), INF)
    return Box(np.where(open_below, -INF, low), np.where(open_above, INF, high), -free, free)


def row(random: np.random.Generator, x: np.ndarray) -> Condition:
    return LinearBounds(
        random.normal(size=(1, len(x))), [random.choice([-INF, -1.0])], random.normal()
    )


def ball(random: np.random.Generator, x: np.ndarray) -> Condition:
    return Cone(np.eye(len(x)), random.normal(size=len(x)) - x, random.uniform(0.5, 3.0))


def steps(random: np.random.Generator, x: np.ndarray) -> Condition:
    return Whole(np.array([0]), np.array([random.choice([0.5, 1.0])]))


def one_change(random: np.random.Generator, x: np.ndarray) -> Condition:
    return AtMost(1, tuple(slice(j, j + 1) for j in range(len(x))))


CONSTRAINTS = (nothing, box, row, ball, steps, one_change)


def posed(kind: str, constraint: object, seed: int) -> tuple[Program, np.ndarray]:
    random = np.random.default_rng(seed)
    x = 2.0 * random.normal(size=2)
    conditions = [nearer(random, 2) for _ in range(random.integers(1, 4))]
    region = Region((*conditions, constraint(random, x)))
    return Program(price_of(kind, random, 2), region), x


def category(kind: str, seed: int) -> tuple[Program, np.ndarray]:
    """A number and a category of three."""
    random = np.random.default_rng(seed)
    x = np.append(random.normal(), np.eye(3)[random.integers(3)])
    weights, numeric = random.uniform(0.5, 2.0, 4), np.arange(4) < 1
    absolute = np.where(numeric, weights * (kind == "absolute"), weights / 2.0)
    quadratic = np.where(numeric, weights * (kind != "absolute"), 0.0)
    encoded_cost = EncodedCost(absolute, np.diag(quadratic) if kind == "full" else quadratic)
    group = slice(1, 4)
    allowed = np.eye(3, dtype=bool) | (random.random((3, 3)) < 0.6)
    conditions = [nearer(random, 4) for _ in range(random.integers(1, 3))]
    return Program(
        encoded_cost, Region((*conditions, OneOf(group), Transitions(group, allowed)))
    ), x


def check(program: Program, x: np.ndarray) -> None:
    """What the oracle brackets; and nothing is excluded that is there, whatever is reached."""
    low, high = bracket(program, x)
    solution = solved(program, x)
    bound, outcome = float(solution.reported[0]), Outcome(solution.outcomes[0])
    assert bound <= high * (1.0 + 1e-9)
    if np.isinf(high):
        assert outcome != Outcome.FOUND or cost_of(program, x, solution) > 5.0
        return
    assert outcome == Outcome.FOUND
    cost = cost_of(program, x, solution)
    assert program.violation(solution.points, x[None])[0] <= 1e-8
    assert low * (1.0 - 1e-9) <= cost <= high * (1.0 + 1e-9)
    assert cost * (1.0 - 1e-6) <= bound <= cost
    for much in (-0.1, HAIR, 1e-3, 0.5) if cost else ():
        again = solved(program, x, cost * (1.0 + much))
        best = min(cost, cost_of(program, x, again)) if again.found[0] else cost
        assert again.reported[0] <= best, f"reached {1.0 + much} times the optimum"
        assert bool(again.found[0]) == (much > 0.0) or much == HAIR


@pytest.mark.parametrize("seeds", [(0, 1), pytest.param((2, 3), marks=pytest.mark.slow)])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("kind", PRICES)
def test_the_optimum_is_found_and_nothing_below_it_is_claimed(
    kind: str, constraint: object, seeds: tuple[int, int]
):
    for seed in seeds:
        check(*posed(kind, constraint, seed))


@pytest.mark.parametrize("kind", PRICES)
def test_the_optimum_over_a_number_and_a_category(kind: str):
    for seed in range(4):
        check(*category(kind, seed))


@pytest.mark.slow
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("kind", PRICES)
def test_many_optima(kind: str, constraint: object):
    for seed in range(4, 40):
        check(*posed(kind, constraint, seed))


@pytest.mark.slow
@pytest.mark.parametrize("kind", PRICES)
def test_many_optima_over_a_number_and_a_category(kind: str):
    for seed in range(4, 80):
        check(*category(kind, seed))


# Conics


def conic(form: list[list[float]], limit: float) -> QuadraticDifference:
    """yᵀ(form)y <= limit."""
    values, vectors = np.linalg.eigh(np.array(form))
    root = np.sqrt(np.abs(values))[:, None] * vectors.T
    up, down = root * (values > 0)[:, None], root * (values < 0)[:, None]
    return QuadraticDifference(up, np.zeros(2), down, np.zeros(2), limit)


def ellipse_distance(a: float, b: float, x: float, y: float) -> float:
    """To x²/a² + y²/b² = 1 from outside: the root of a secular equation."""

    def gap(t: float) -> float:
        return (a * x / (t + a * a)) ** 2 + (b * y / (t + b * b)) ** 2 - 1.0

    t = brentq(gap, 0.0, 1e3, xtol=1e-15)
    return float(np.hypot(x - a * a * x / (t + a * a), y - b * b * y / (t + b * b)))


EUCLID = EncodedCost(np.zeros(2), np.ones(2))
MANHATTAN = EncodedCost(np.ones(2), np.zeros(2))
DISC = [[1.0, 0.0], [0.0, 1.0]]
CONICS = (
    ("into a disc", EUCLID, conic(DISC, 1.0), (3.0, 4.0), 16.0),
    ("out of a disc", EUCLID, conic([[-1.0, 0.0], [0.0, -1.0]], -4.0), (0.6, 0.8), 1.0),
    (
        "out of a disc, along an axis",
        MANHATTAN,
        conic([[-1, 0], [0, -1]], -4.0),
        (1.2, 0.5),
        np.sqrt(3.75) - 1.2,
    ),
    (
        "into an ellipse",
        EUCLID,
        conic([[0.25, 0.0], [0.0, 1.0]], 1.0),
        (3.0, 2.0),
        ellipse_distance(2.0, 1.0, 3.0, 2.0) ** 2,
    ),
    (
        "to a hyperbola from its center",
        EUCLID,
        conic([[-1.0, 0.0], [0.0, 1.0]], -1.0),
        (0.0, 0.0),
        1.0,
    ),
    ("to a hyperbola", EUCLID, conic([[-1.0, 0.0], [0.0, 1.0]], -1.0), (0.0, 3.0), 1.0 + 4.5),
    ("to a pair of lines", MANHATTAN, conic([[0.0, 0.5], [0.5, 0.0]], 0.0), (2.0, 3.0), 2.0),
)


@pytest.mark.parametrize("case", CONICS, ids=lambda case: case[0])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_distance_to_a_conic(case: tuple, size: float):
    """In any units."""
    _, encoded_cost, condition, at, cost = case
    scaled = replace(condition, limit=condition.limit * size * size)
    program, x = Program(encoded_cost, Region((scaled,))), size * np.array(at)
    cost = cost * size if encoded_cost is MANHATTAN else cost * size * size
    solution = solved(program, x)
    assert cost_of(program, x, solution) == pytest.approx(cost, rel=1e-7)
    assert cost * (1.0 - 1e-6) <= solution.reported[0] <= cost


# Outcomes


def test_a_program_without_points_is_refuted_only_without_limits_of_its_own_making():
    nowhere = QuadraticDifference(np.eye(2), np.zeros(2), np.zeros((1, 2)), np.zeros(1), -1.0)
    solution = solved(Program(EUCLID, Region((nowhere,))), np.ones(2))
    assert solution.outcomes[0] == Outcome.INFEASIBLE
    assert np.isinf(solution.reported[0])
    disc = conic([[-1.0, 0.0], [0.0, -1.0]], -4.0)
    inside = Box(np.full(2, -1.0), np.full(2, 1.0), np.full(2, -INF), np.full(2, INF))
    solution = solved(Program(EUCLID, Region((disc, inside))), np.zeros(2))
    assert solution.outcomes[0] == Outcome.INFEASIBLE
    halves = Whole(np.array([0, 1]), np.full(2, 0.7))
    ring = (conic(DISC, 0.9), conic([[-1.0, 0.0], [0.0, -1.0]], -0.6), halves)
    solution = solved(Program(MANHATTAN, Region((*ring, inside))), np.zeros(2))
    assert solution.outcomes[0] == Outcome.INFEASIBLE
    solution = solved(Program(MANHATTAN, Region(ring)), np.zeros(2))
    assert not solution.found[0]
    assert solution.reported[0] > 1e3


def test_who_is_there_already_pays_nothing():
    solution = solved(Program(EUCLID, Region((conic(DISC, 1.0),))), np.array([0.1, 0.2]))
    assert solution.outcomes[0] == Outcome.FOUND
    assert solution.points[0].tolist() == [0.1, 0.2]
    assert solution.reported[0] == 0.0


def hard(d: int, rivals: int, seed: int = 3) -> tuple[Program, np.ndarray]:
    random = np.random.default_rng(seed)
    near = random.normal(size=(d, d))
    conditions = [
        QuadraticDifference(near, np.zeros(d), far, -far @ random.normal(size=d), 0.0)
        for far in random.normal(size=(rivals, d, d))
    ]
    return Program(EncodedCost(np.ones(d), np.zeros(d)), Region(tuple(conditions))), 4.0 * np.ones(
        d
    )


def test_time_that_runs_out_leaves_a_bound_and_what_was_found():
    program, x = hard(6, 10)
    full, brief = solved(program, x), solved(program, x, effort=Effort(1e-6, 0.05))
    assert full.outcomes[0] == Outcome.FOUND
    cost = cost_of(program, x, full)
    assert brief.outcomes[0] == Outcome.LIMIT
    assert 0.0 <= brief.reported[0] < cost * (1.0 - 1e-6)
    assert not brief.found[0] or cost_of(program, x, brief) >= cost * (1.0 - 1e-6)


def test_the_same_search_gives_the_same_answer_and_says_nothing(capfd: pytest.CaptureFixture[str]):
    program, x = hard(4, 8)
    first, second = solved(program, x), solved(program, x)
    assert (first.points == second.points).all()
    assert first.reported == second.reported
    assert capfd.readouterr() == ("", "")


def test_a_margin_tightens_the_answer_and_not_the_bound():
    program, x = posed("absolute", nothing, 2)
    cases = program.cases(x[None])
    plain = Scip(program).solve(cases, ASKED)
    wide = Scip(program).solve(cases.with_margin(np.array([0.1])), ASKED)
    assert (curvature_of(program).quadrics.excess(wide.points) <= -0.1 + 1e-9).all()
    assert wide.reported[0] <= cost_of(program, x, plain)


def test_what_scip_raises_is_translated():
    with (
        pytest.raises(SolverFailure, match="SCIP failed: SCIP: error in LP solver!"),
        scip_errors(),
    ):
        raise Exception("SCIP: error in LP solver!")  # noqa: TRY002 (as SCIP does)
    with pytest.raises(KeyError), scip_errors():
        raise KeyError("mine")


def test_numerical_trouble_claims_nothing(monkeypatch: pytest.MonkeyPatch):
    def stuck(self: Translation, *limits: object) -> None:
        raise Exception("SCIP: error in LP solver!")  # noqa: TRY002 (as SCIP does)

    monkeypatch.setattr(Translation, "solve", stuck)
    program, x = hard(3, 2)
    solution = solved(program, x)
    assert solution.outcomes[0] == Outcome.NOTHING
    assert solution.reported[0] == 0.0
    bounded = Box(x - 1.0, x + 1.0, np.full(3, -INF), np.full(3, INF))
    solution = solved(Program(program.encoded_cost, program.region & Region((bounded,))), x)
    assert solution.outcomes[0] == Outcome.NOTHING
    assert solution.reported[0] == 0.0


class Anything:
    """SCIP on all programs that it could take, convex ones as well; of cones it takes balls."""

    accepts, accuracy, __name__ = Scip.accepts, Scip.accuracy, "Scip"

    def takes(self, program: Program) -> bool:
        sloped = any(c.slope.any() for c in program.region if isinstance(c, Cone))
        return program.condition_types <= self.accepts and not sloped

    def __call__(self, program: Program) -> Scip:
        return Scip(program)


@pytest.mark.parametrize(
    "known", [k for k in KNOWN if Anything().takes(k.program)], ids=lambda k: k.name
)
def test_convex_programs_come_out_the_same(known: Known):
    assert check_solver(Anything(), [known]) == 1


# Explaining

MOONS, SIDES = make_moons(200, noise=0.25, random_state=0)
LOCAL = LGMLVQ(prototypes_per_class=3, random_state=0).fit(MOONS, SIDES)
COSTS = (cp.Manhattan(), cp.SquaredEuclidean(), cp.Mahalanobis(np.array([[2.0, 0.5], [0.5, 1.0]])))


@pytest.mark.parametrize("cost", COSTS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("label", [0, 1])
def test_answers_are_the_cheapest_points_that_the_model_gives_the_label(cost: cp.Cost, label: int):
    """By the model's own word on a grid about each row."""
    rows = MOONS[LOCAL.predict(MOONS) != label][:6]
    explainer = cp.Explainer(LOCAL, data=MOONS, extrapolate=True, cost=cost)
    answers = explainer.explain(rows, label, optimality="global")
    assert (answers.status == cp.Status.OPTIMAL).all()
    side = np.linspace(-1.5, 1.5, 301)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    encoded_cost = cost.encoded_cost(explainer.features)
    for row, answer in zip(rows, answers, strict=True):
        points = row + grid
        paid = encoded_cost(grid, np.zeros_like(grid))[LOCAL.predict(points) == label]
        certificate = answer.certificate
        assert certificate.valid
        assert certificate.bound <= paid.min()
        assert certificate.cost <= paid.min() * (1.0 + 1e-9)
        assert certificate.gap <= 1e-6


def test_global_is_never_dearer_and_its_bound_never_lower():
    X, y = load_iris(return_X_y=True)
    model = QuadraticDiscriminantAnalysis().fit(X, y)
    explainer = cp.Explainer(model, data=X, extrapolate=True)
    for label in (0, 1, 2):
        rows = X[model.predict(X) != label][::25]
        near, best = (
            explainer.explain(rows, label),
            explainer.explain(rows, label, optimality="global"),
        )
        assert (best.status == cp.Status.OPTIMAL).all()
        cost = [[a.certificate.cost for a in answers] for answers in (near, best)]
        bound = [[a.certificate.bound for a in answers] for answers in (near, best)]
        assert (np.array(cost[1]) <= np.array(cost[0]) * (1.0 + 1e-9)).all()
        assert (np.array(bound[1]) >= np.array(bound[0]) * (1.0 - 1e-9)).all()
        assert {a.certificate.claim for a in best} <= {cp.Claim.PROVED, cp.Claim.REPORTED}


def test_convex_models_give_the_same_answers_for_both_words():
    model = LogisticRegression().fit(MOONS, SIDES)
    explainer = cp.Explainer(model, data=MOONS, extrapolate=True)
    rows = MOONS[model.predict(MOONS) == 0][:5]
    local, best = (explainer.explain(rows, 1, optimality=o) for o in ("local", "global"))
    assert (local.to_frame() == best.to_frame()).all()
    assert local.report().equals(best.report())


def test_time_that_runs_out_is_said_with_the_gap_that_is_left(monkeypatch: pytest.MonkeyPatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 6))
    y = (X[:, :4].prod(axis=1) > 0).astype(int) + (X[:, 4] > 1.0)
    model = LGMLVQ(prototypes_per_class=3, regularization=0.0, random_state=0).fit(X, y)
    explainer = cp.Explainer(model, data=X, extrapolate=True, cost=cp.Manhattan())
    rows = 1.5 * X[model.predict(X) != 2][:6]
    local, full = (explainer.explain(rows, 2, optimality=o) for o in ("local", "global"))

    def late(self: Translation, gap: float, seconds: float) -> tuple[float, None]:
        time.sleep(seconds)
        return 0.0, None

    monkeypatch.setattr(Translation, "solve", late)
    brief = explainer.explain(rows, 2, optimality="global", time_limit=2.0)
    assert (full.status == cp.Status.OPTIMAL).all()
    assert (brief.status == cp.Status.LIMIT).any()
    for near, cut, best in zip(local, brief, full, strict=True):
        certificate = cut.certificate
        assert certificate.valid
        # An answer leads by rounding errors, by how many of them depends on where it was found.
        assert certificate.cost == pytest.approx(near.certificate.cost, rel=1e-12)
        assert (certificate.gap > 1e-6) == (cut.status == cp.Status.LIMIT)
        assert certificate.bound <= best.certificate.cost <= certificate.cost * (1.0 + 1e-9)


@pytest.mark.parametrize("word", ["best", "", None, 1, "GLOBAL"])
def test_another_word_is_refused(word: object):
    explainer = cp.Explainer(LOCAL, data=MOONS, extrapolate=True)
    sentence = rf"Expected an optimality of 'local' or 'global'; got {word!r}\."
    with pytest.raises(cp.InvalidInput, match=sentence):
        explainer.explain(MOONS[:1], 1, optimality=word)
    with pytest.raises(cp.InvalidInput, match=sentence):
        cp.explain(LOCAL, MOONS[:1], 1, data=MOONS, extrapolate=True, optimality=word)


# Without SCIP


def test_without_scip_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pyscipopt"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    explainer = cp.Explainer(LOCAL, data=MOONS, extrapolate=True)
    row = MOONS[LOCAL.predict(MOONS) == 0][:1]
    assert explainer.explain(row, 1).found.all()
    sentence = r"pip install '\.\[global\]'\. Without it, ask for optimality='local'\."
    with pytest.raises(cp.MissingExtra, match=sentence):
        explainer.explain(row, 1, optimality="global")
    convex = cp.Explainer(LogisticRegression().fit(MOONS, SIDES), data=MOONS, extrapolate=True)
    assert convex.explain(row, 1, optimality="global").found.all()
