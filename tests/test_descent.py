"""The convex-concave procedure from several starts, against SciPy, SCIP, CVXPY and brute force."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import cvxpy
import numpy as np
import pyscipopt
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from test_quadratic_difference import CCP, PRICES, encoded_cost, local, missing, rivals

import counterpoint as cp
from counterpoint.families.prototypes.quadratic_difference import curvature_of
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
from counterpoint.programs.region import Batch, Condition, Region
from counterpoint.solvers import Effort, Outcome, Solution

INF = np.inf


def answer(program: Program, x: np.ndarray, **options: object) -> tuple[Solution, Batch]:
    cases = program.cases(x)
    return CCP(program).solve(cases, Effort(), **options), cases


def costs(program: Program, x: np.ndarray) -> float:
    """What an answer costs, after it was checked."""
    solution, cases = answer(program, x)
    assert solution.outcomes[0] == Outcome.FOUND
    assert program.violation(solution.points, x)[0] <= 1e-12
    cost = float(program.encoded_cost(solution.points, x)[0])
    bound = program.bound(cases, solution.multipliers, solution.points)[0]
    assert bound <= cost * (1.0 + 1e-12)
    return cost


# Oracles


def slsqp(program: Program, x: np.ndarray, start: np.ndarray) -> float:
    """A local optimum by SciPy over (rise, fall); infinite if it ends outside."""
    d, absolute = program.width, program.encoded_cost.absolute
    quadratic = program.encoded_cost.quadratic
    full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
    cases = program.cases(x)

    def point(v: np.ndarray) -> np.ndarray:
        return x[0] + v[:d] - v[d:]

    def paid(v: np.ndarray) -> float:
        delta = v[:d] - v[d:]
        return float(absolute @ (v[:d] + v[d:]) + delta @ full @ delta)

    def demand(value: Any) -> dict[str, Any]:
        return {"type": "ineq", "fun": lambda v: np.atleast_1d(value(point(v)))}

    demands = [demand(lambda y: -curvature_of(program).quadrics.excess(y[None])[0])]
    affine = program.affine
    for matrix, low, high in (
        (affine.matrix, affine.low, affine.high),
        (np.eye(d), cases.low[0], cases.high[0]),
    ):
        for limit, sign in ((high, 1.0), (low, -1.0)):
            for i in np.flatnonzero(np.isfinite(limit)):
                row, end = sign * matrix[i], sign * limit[i]
                demands.append(demand(lambda y, row=row, end=end: end - row @ y))
    demands += [demand(lambda y, cone=cone: -cone.excess(y[None])) for cone in program.couplings]
    delta = start - x[0]
    first = np.concatenate([np.maximum(delta, 0.0), np.maximum(-delta, 0.0)])
    options = {"maxiter": 200, "ftol": 1e-12}
    with np.errstate(all="ignore"):
        found = minimize(
            paid, first, bounds=[(0.0, None)] * (2 * d), constraints=demands, method="SLSQP",
            options=options,
        )  # fmt: skip
    y = point(found.x)[None]
    return float(program.encoded_cost(y, x)[0]) if program.violation(y, x)[0] <= 1e-7 else np.inf


def several(program: Program, x: np.ndarray, count: int = 8) -> float:
    """The best of several local optima."""
    rng = np.random.default_rng(0)
    places = [
        np.linalg.pinv(c.matrix) @ -c.offset for c in curvature_of(program).quadrics.conditions[:1]
    ]
    starts = [*places, *(x[0] + 2.0 * rng.normal(size=(count, program.width)))]
    return min(slsqp(program, x, start) for start in starts)


def scip(program: Program, x: np.ndarray) -> float:
    """The global optimum by SCIP."""
    model = pyscipopt.Model()
    model.hideOutput()
    d, cases = program.width, program.cases(x)
    low, high = np.maximum(cases.low - x, -20.0)[0], np.minimum(cases.high - x, 20.0)[0]
    delta = [model.addVar(lb=a, ub=b) for a, b in zip(low, high, strict=True)]
    size = [model.addVar(lb=0.0, ub=20.0) for _ in range(d)]
    for one, most in zip(delta, size, strict=True):
        model.addCons(one <= most)
        model.addCons(-one <= most)
    excess, slopes = (
        curvature_of(program).quadrics.excess(x)[0],
        curvature_of(program).quadrics.slopes(x)[0],
    )
    pairs = list(product(range(d), range(d)))
    for form, slope, value in zip(
        curvature_of(program).quadrics.forms, slopes, excess, strict=True
    ):
        bent = pyscipopt.quicksum(form[i, j] * delta[i] * delta[j] for i, j in pairs)
        along = pyscipopt.quicksum(slope[i] * delta[i] for i in range(d))
        model.addCons(bent + along + value <= 0)
    quadratic = program.encoded_cost.quadratic
    full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
    paid = model.addVar(lb=0.0)
    nonlinear = pyscipopt.quicksum(full[i, j] * delta[i] * delta[j] for i, j in pairs)
    weighed = pyscipopt.quicksum(program.encoded_cost.absolute[i] * size[i] for i in range(d))
    model.addCons(nonlinear + weighed <= paid)
    model.setObjective(paid)
    model.setParam("limits/gap", 1e-7)
    model.setParam("numerics/feastol", 1e-9)
    model.optimize()
    if model.getStatus() == "infeasible":
        return INF
    assert model.getStatus() in {"optimal", "gaplimit"}
    return float(model.getObjVal())


def papers(program: Program, x: np.ndarray) -> float:
    """One convex-concave procedure from the prototype (Artelt & Hammer), by CVXPY."""
    first = curvature_of(program).quadrics.conditions[0]
    y = np.linalg.solve(first.matrix, -first.offset)
    best = np.inf
    for _ in range(30):
        point = cvxpy.Variable(program.width)
        near = cvxpy.sum_squares(first.matrix @ point + first.offset)
        demands = []
        for condition in curvature_of(program).quadrics.conditions:
            far = condition.rival @ y + condition.rival_offset
            tangent = far @ far + 2.0 * (far @ condition.rival) @ (point - y)
            demands.append(near <= tangent + condition.limit)
        quadratic = program.encoded_cost.quadratic
        full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
        paid = program.encoded_cost.absolute @ cvxpy.abs(point - x[0])
        paid += cvxpy.quad_form(point - x[0], cvxpy.psd_wrap(full))
        problem = cvxpy.Problem(cvxpy.Minimize(paid), demands)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of inaccuracy: the last steps are tiny
            problem.solve(solver="CLARABEL")
        if point.value is None or problem.value > best * (1.0 - 1e-7):
            break
        y, best = point.value, float(problem.value)
    return best


# Continuous programs


@pytest.mark.parametrize("kind", PRICES)
def test_no_answer_is_dearer_than_the_papers_or_than_local_optima(kind: str):
    for seed in range(5):
        program = local(seed, kind, 4, 3)
        x = missing(program, seed)
        ours = costs(program, x)
        assert ours <= papers(program, x) * (1.0 + 1e-6)
        assert ours <= several(program, x) * (1.0 + 1e-6)


@pytest.mark.parametrize("kind", PRICES)
def test_answers_are_global_optima(kind: str):
    """As SCIP says; and what is proved is never more than that."""
    for seed in range(3):
        program = local(seed, kind, 3, 3)
        x = missing(program, seed)
        solution, cases = answer(program, x)
        optimum, cost = scip(program, x), float(program.encoded_cost(solution.points, x)[0])
        bound = program.bound(cases, solution.multipliers, solution.points)[0]
        assert bound <= optimum * (1.0 + 2e-6)
        assert optimum * (1.0 - 2e-6) <= cost <= optimum * (1.0 + 1e-5)


def held(*columns: int) -> Box:
    """Some of four columns stay."""
    bound = np.where(np.isin(np.arange(4), columns), 0.0, INF)
    return Box(np.full(4, -INF), np.full(4, INF), -bound, bound)


def bounded(rng: np.random.Generator) -> Box:
    return Box(np.full(4, -INF), np.full(4, INF), -rng.uniform(0, 2, 4), rng.uniform(0, 2, 4))


EXTRA = {
    "bounds": lambda rng, _: [bounded(rng)],
    "columns that stay": lambda rng, _: [held(int(rng.integers(4)))],
    "rows": lambda rng, y: [LinearBounds(*_rows(rng, y))],
    "an equation": lambda rng, y: [_equation(rng, y)],
    "a ball": lambda rng, y: [Cone(np.eye(4), -y, float(rng.uniform(0.5, 2.0)))],
    "all": lambda rng, y: [
        held(3),
        LinearBounds(*_rows(rng, y)),
        Cone(np.eye(4), -y, float(rng.uniform(1.0, 3.0))),
    ],
}


def _rows(rng: np.random.Generator, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = rng.normal(size=(2, 4))
    return rows, rows @ y - rng.exponential(size=2), np.array([INF, rows[1] @ y + 1.0])


def _equation(rng: np.random.Generator, y: np.ndarray) -> LinearBounds:
    row = rng.normal(size=(1, 4))
    return LinearBounds(row, row @ y, row @ y)


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", PRICES)
@pytest.mark.parametrize("extra", list(EXTRA))
def test_every_constraint_is_met_and_answers_are_local_optima(kind: str, extra: str):
    """SciPy, started at an answer or elsewhere, finds nothing that is much cheaper."""
    found = 0
    for seed in range(3):
        plain = local(seed, kind, 4, 3)
        x = missing(plain, seed)
        rng = np.random.default_rng(seed)
        place = np.linalg.solve(
            curvature_of(plain).quadrics.conditions[0].matrix,
            -curvature_of(plain).quadrics.conditions[0].offset,
        )
        made: Sequence[Condition] = EXTRA[extra](rng, place)
        program = Program(plain.encoded_cost, Region((*plain.region, *made)))
        solution, cases = answer(program, x)
        best = several(program, x, 2)
        if not solution.found[0]:
            assert np.isinf(best)
            continue
        found += 1
        assert solution.outcomes[0] == Outcome.FOUND
        assert program.violation(solution.points, x)[0] <= 1e-12
        cost = float(program.encoded_cost(solution.points, x)[0])
        assert cost <= slsqp(program, x, solution.points[0]) * (1.0 + 1e-5) + 1e-9
        assert cost <= best * 1.02 + 1e-9
        bound = program.bound(cases, solution.multipliers, solution.points)[0]
        assert bound <= min(cost * (1.0 + 1e-10), best * (1.0 + 1e-6))
    assert found >= 1


def test_a_margin_keeps_answers_off_the_boundary():
    for kind in PRICES:
        program = local(1, kind, 4, 3)
        x = missing(program, 1)
        cases = program.cases(x).with_margin(np.array([0.25]))
        solution = CCP(program).solve(cases, Effort())
        worst = curvature_of(program).quadrics.excess(solution.points).max()
        assert worst == pytest.approx(-0.25, rel=1e-9)
        assert program.encoded_cost(solution.points, x)[0] > costs(program, x)


@pytest.mark.parametrize("kind", PRICES)
def test_units_of_columns_change_no_answer(kind: str):
    for seed in range(4):
        program = local(seed, kind, 4, 3)
        x = missing(program, seed)
        unit = 2.0 ** np.random.default_rng(seed).integers(-20, 21, 4)
        quadratic = program.encoded_cost.quadratic
        outer = unit**2 if quadratic.ndim == 1 else np.outer(unit, unit)
        scaled = [
            replace(c, matrix=c.matrix / unit, rival=c.rival / unit)
            for c in curvature_of(program).quadrics.conditions
        ]
        other = Program(
            EncodedCost(program.encoded_cost.absolute / unit, quadratic / outer), Region((*scaled,))
        )
        assert costs(other, x * unit) == pytest.approx(costs(program, x), rel=1e-6)


def test_a_row_that_meets_everything_stays():
    program = local(2, "absolute", 3, 2)
    rng = np.random.default_rng(0)
    tried = 2.0 * rng.normal(size=(500, 3))
    x = tried[curvature_of(program).quadrics.excess(tried).max(axis=1) < 0.0][:1]
    assert costs(program, x) == 0.0


def test_the_same_call_gives_the_same_answer_to_the_last_bit():
    program = local(7, "absolute", 4, 3)
    x = np.vstack([missing(program, seed) for seed in range(3)])
    first, again = answer(program, x)[0], answer(program, x)[0]
    np.testing.assert_array_equal(first.points, again.points)
    np.testing.assert_array_equal(first.multipliers, again.multipliers)


def test_a_piece_that_cannot_be_cheaper_is_only_bounded():
    program = local(3, "square", 4, 3)
    x = missing(program, 3)
    cost = costs(program, x)
    solution, cases = answer(program, x, cutoff=np.array([0.5 * cost]))
    assert not solution.found[0]
    assert program.bound(cases, solution.multipliers)[0] >= 0.5 * cost


def test_time_that_runs_out_is_said():
    program = local(0, "absolute", 4, 3)
    x = missing(program, 0)
    solution = CCP(program).solve(program.cases(x), Effort(seconds=1e-6))
    assert solution.outcomes[0] == Outcome.LIMIT


def test_nothing_is_found_where_there_is_nothing():
    """Bounds far from the prototype; what cannot be proved is not said."""
    program = local(0, "square", 3, 3)
    x = missing(program, 0)
    far = Box(np.full(3, -INF), np.full(3, INF), np.full(3, -1e-3), np.full(3, 1e-3))
    solution, _ = answer(Program(program.encoded_cost, program.region & Region((far,))), x)
    assert solution.outcomes[0] in {Outcome.NOTHING, Outcome.INFEASIBLE}
    assert not solution.found[0]


# Whole steps, categories, few changes


@pytest.mark.parametrize("kind", PRICES)
def test_whole_steps_are_as_cheap_as_by_brute_force(kind: str):
    steps = np.array([1.0, 0.5, 1.0])
    grid = np.array(list(product(range(-14, 15), repeat=3))) * steps
    dearer = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        whole = Whole(np.arange(3), steps)
        program = Program(encoded_cost(kind, rng, 3), Region((*rivals(rng, 3, 3), whole)))
        x = missing(program, seed)
        points = x + grid
        satisfied = curvature_of(program).quadrics.excess(points).max(axis=1) <= 0.0
        if satisfied.any():
            best = program.encoded_cost(
                points[satisfied], np.repeat(x, satisfied.sum(), axis=0)
            ).min()
            dearer.append(costs(program, x) / best)
    assert len(dearer) >= 4
    assert min(dearer) >= 1.0 - 1e-12
    assert max(dearer) <= 1.0 + 1e-9


@pytest.mark.parametrize("kind", ["absolute", "square"])
def test_a_category_and_numbers_are_as_cheap_as_each_category_alone(kind: str):
    """Columns 0–2 are a category with one transition that is not allowed; 3 and 4 are numbers."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        weights = np.array([0.4, 0.4, 0.4, 1.0, 1.0])
        quadratic = np.where(np.arange(5) < 3, 0.0, weights) * (kind == "square")
        bent = EncodedCost(np.where(quadratic > 0.0, 0.0, weights), quadratic)
        allowed = np.ones((3, 3), dtype=bool)
        allowed[0, 1] = False
        group = slice(0, 3)
        program = Program(
            bent, Region((*rivals(rng, 5, 2), OneOf(group), Transitions(group, allowed)))
        )
        x = np.concatenate([[1.0, 0.0, 0.0], 3.0 * rng.normal(size=2)])[None]
        alone = []
        for category in (0, 2):
            eye = np.eye(3)[category]
            fixed = np.concatenate([eye, [0.0, 0.0]])
            box = Box(
                np.where(np.arange(5) < 3, fixed, -INF), np.where(np.arange(5) < 3, fixed, INF),
                np.full(5, -INF), np.full(5, INF),
            )  # fmt: skip
            part = Program(bent, Region((*curvature_of(program).quadrics.conditions, box)))
            alone.append(several(part, x, 3))
        if np.isfinite(min(alone)):
            assert costs(program, x) <= min(alone) * (1.0 + 1e-5) + 1e-9


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] if k == "full" else []) for k in PRICES]
)
def test_few_changes_are_as_cheap_as_each_choice_of_columns(kind: str):
    """By SCIP: a local solver finds some of the points on one machine, and others on another."""
    blocks = tuple(slice(j, j + 1) for j in range(4))
    ratios = []
    for seed in range(4):
        plain = local(seed, kind, 4, 2)
        program = Program(plain.encoded_cost, plain.region & Region((AtMost(3, blocks),)))
        x = missing(plain, seed)
        parts = (
            Program(plain.encoded_cost, plain.region & Region((held(stay),))) for stay in range(4)
        )
        best = min(scip(part, x) for part in parts)
        assert np.isfinite(best)
        solution, _ = answer(program, x)
        assert solution.outcomes[0] == Outcome.FOUND
        assert program.violation(solution.points, x)[0] <= 1e-12
        ratios.append(float(program.encoded_cost(solution.points, x)[0]) / best)
    assert np.mean(ratios) <= 1.05


# Through the explainer


@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean()])
def test_models_with_local_metrics_are_explained(cost: cp.Cost):
    X, y = load_iris(return_X_y=True)
    model = LGMLVQ(2, random_state=0).fit(X, y)
    explainer = cp.Explainer(model, data=X, cost=cost, constraints=[cp.WithinObserved()])
    rows = X[::10]
    answers = explainer.explain(rows, 1)
    report = answers.report()
    assert answers.found.all()
    assert (model.predict(answers.to_frame()) == 1).all()
    assert set(report["claim"]) <= {"proved", "local"}
    assert (np.asarray(report["violation"], dtype=float) <= 1e-12).all()
    assert (np.asarray(report["bound"]) <= np.asarray(report["cost"])).all()
    for answer_ in answers:
        c = answer_.certificate
        local_ = c.claim == cp.Claim.LOCAL
        assert local_ == (answer_.status == cp.Status.SUBOPTIMAL)
        assert ("local optimum" in answer_.message) == local_
    assert (np.asarray(report["claim"]) == "proved").mean() >= 0.6
