"""Quadratic conditions that are not convex: what they hold, what multipliers of them prove, and the
solvers that take one at a time or relax them all."""

from __future__ import annotations

from dataclasses import replace

import cvxpy
import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from scipy.optimize import minimize
from strategies import Planted, multipliers, planted, seeds

import counterpoint as cp
from counterpoint.certificate import lower_bounds
from counterpoint.families.prototypes.quadratic_difference import (
    QuadraticDifference,
    Quadrics,
    curvature_of,
)
from counterpoint.families.prototypes.solvers.lower_bound import Quadric, relaxed
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import Box, LinearBounds, Whole
from counterpoint.programs.evidence import Evidence
from counterpoint.programs.program import Program
from counterpoint.programs.region import Condition, Region
from counterpoint.solvers import Effort, Outcome, all_solvers

CONDITIONS = ("box", "changes", "transitions", "affine", "cone", "at most", "nearer")
PRICES = ("absolute", "square", "full")
TRIES = 24
CCP = next(solver for solver in all_solvers() if solver.__name__ == "Ccp")


def encoded_cost(kind: str, rng: np.random.Generator, d: int) -> EncodedCost:
    weights = rng.uniform(0.3, 3.0, d)
    if kind == "absolute":
        return EncodedCost(weights, np.zeros(d))
    if kind == "square":
        return EncodedCost(np.zeros(d), weights)
    root = rng.normal(size=(d, d))
    return EncodedCost(np.zeros(d), root @ root.T + np.diag(weights))


def rivals(
    rng: np.random.Generator, d: int, count: int, margin: float = 0.0
) -> list[QuadraticDifference]:
    """One prototype against others, each with a metric of its own."""
    matrix, place = rng.normal(size=(d, d)), rng.normal(size=d)
    made = []
    for _ in range(count):
        rival, there = rng.normal(size=(d, d)), place + 2.0 * rng.normal(size=d)
        made.append(
            QuadraticDifference(matrix, -matrix @ place, rival, -rival @ there, -margin, 1.0)
        )
    return made


def local(seed: int, kind: str, d: int = 4, count: int = 3, *extra: Condition) -> Program:
    rng = np.random.default_rng(seed)
    return Program(encoded_cost(kind, rng, d), Region((*rivals(rng, d, count), *extra)))


def missing(program: Program, seed: int) -> np.ndarray:
    """(1, d) a point that misses some condition of a program."""
    rng = np.random.default_rng(seed)
    tried = 3.0 * rng.normal(size=(200, program.width))
    return tried[curvature_of(program).quadrics.excess(tried).max(axis=1) > 0.0][:1]


# What the conditions hold


@given(seeds)
def test_nearer_compares_two_squared_distances(seed: int):
    rng = np.random.default_rng(seed)
    condition = replace(rivals(rng, 3, 1)[0], limit=float(rng.normal()))
    y = 3.0 * rng.normal(size=(50, 3))
    near = [np.linalg.norm(condition.matrix @ row + condition.offset) ** 2 for row in y]
    far = [np.linalg.norm(condition.rival @ row + condition.rival_offset) ** 2 for row in y]
    expected = np.array(near) - np.array(far) - condition.limit
    np.testing.assert_allclose(condition.excess(y), expected, rtol=1e-12, atol=1e-11)
    assert ((condition.violation(y, y) > 0) == (expected > 0)).all()


def test_a_margin_lowers_the_limit_of_a_target():
    (condition,) = rivals(np.random.default_rng(0), 2, 1)
    tighter = replace(condition, margin_coefficient=2.0, tie_coefficient=0.5).tightened(
        np.array([[0.25, 1.0]])
    )
    assert tighter.limit == condition.limit - 1.0
    constraint = replace(condition, margin_coefficient=0.0)
    assert constraint.tightened(np.array([[0.25, 1.0]])).limit == condition.limit


@given(seeds)
def test_conditions_together_are_the_conditions_one_by_one(seed: int):
    """With several prototypes, and metrics of several ranks."""
    rng = np.random.default_rng(seed)
    several = [
        *rivals(rng, 3, 2),
        *rivals(rng, 3, 1),
        QuadraticDifference(np.eye(1, 3), *_flat(rng), 1.0),
    ]
    together = Quadrics(several, 3)
    assert len(together) == 4
    assert together.prototype_of.tolist() == [0, 0, 1, 2]
    y, margin = rng.normal(size=(6, 3)), rng.uniform(size=(6, 2))
    excess = np.stack([c.excess(y) for c in several], axis=1)
    np.testing.assert_allclose(together.excess(y), excess, rtol=1e-12, atol=1e-12)
    closed = np.stack(
        [c.excess(y) + margin @ [c.margin_coefficient, c.tie_coefficient] for c in several], axis=1
    )
    np.testing.assert_allclose(together.excess(y, margin), closed, rtol=1e-12, atol=1e-12)
    misses = np.stack([c.violation(y, y) for c in several], axis=1)
    np.testing.assert_allclose(
        together.relative_excess(y, np.zeros((6, 2))), misses, rtol=1e-9, atol=1e-15
    )
    weights, step = rng.uniform(size=(6, 4)), 1e-6
    slope = np.einsum("nj,njd->nd", weights, together.slopes(y))
    assert (np.abs(together.forms) <= together.sizes).all()
    value, size, steep, slope_size = together.weighted_sum(y, weights)
    np.testing.assert_allclose(value, (weights * excess).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(steep, slope, rtol=1e-12, atol=1e-12)
    assert (np.abs(value) <= size).all()
    assert (np.abs(slope) <= slope_size).all()
    for j in range(3):
        ahead, behind = (y + sign * step * np.eye(3)[j] for sign in (1.0, -1.0))
        rise = ((together.excess(ahead) - together.excess(behind)) * weights).sum(axis=1)
        np.testing.assert_allclose(slope[:, j], rise / (2.0 * step), rtol=1e-6, atol=1e-6)
    bent = np.einsum("nj,njd->nd", weights, together.slopes(y + 1.0) - together.slopes(y)) / 2.0
    form = np.tensordot(weights, together.forms, axes=1)
    np.testing.assert_allclose(form.sum(axis=2), bent, rtol=1e-9, atol=1e-9)


def test_columns_with_an_effect_are_those_of_either_side():
    """The prototype sees the first column, and its rival the second."""
    rng = np.random.default_rng(0)
    one = Quadrics([QuadraticDifference(np.eye(1, 3), *_flat(rng), 1.0)], 3)
    assert one.columns.tolist() == [True, True, False]
    assert ((one.slopes(rng.normal(size=(5, 3))) != 0.0).any(axis=(0, 1)) == one.columns).all()


def _flat(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A rival that sees one column."""
    return rng.normal(size=1), np.eye(1, 3, k=1), rng.normal(size=1)


# What multipliers prove


def about(case: Planted, rng: np.random.Generator) -> np.ndarray:
    """(TRIES, d) points to bound about: feasible ones, and any."""
    at = case.x + rng.normal(size=(TRIES, case.program.width)) * 10.0 ** rng.uniform(-2, 1.5)
    at[::2] = case.points[rng.integers(len(case.points), size=TRIES // 2)]
    return at


@given(planted(conditions=CONDITIONS).filter(lambda case: case.program.nonconvex), seeds)
def test_no_multipliers_bound_above_a_feasible_cost_or_refute_it(case: Planted, seed: int):
    rng, program = np.random.default_rng(seed), case.program
    given_ = multipliers(rng, program.size, TRIES)
    curvature = (
        np.abs(curvature_of(program).quadrics.sizes).max() / curvature_of(program).base.min()
    )
    given_[::3] *= rng.uniform() / (1.0 + curvature)  # small enough to be convex now and then
    cases = program.cases(np.repeat(case.x, TRIES, axis=0))
    room = 1e-12 * (1.0 + np.abs(given_).sum(axis=1)) * (1.0 + case.costs.max())
    for at in (None, about(case, rng)):
        bound = program.bound(cases, given_, at)
        assert (bound <= case.costs.min() * (1.0 + 1e-9) + room).all()
        assert (bound >= 0.0).all()
    assert not program.refutes(cases, given_).any()


@given(planted(conditions=CONDITIONS).filter(lambda case: case.program.nonconvex), seeds)
def test_multipliers_near_the_best_ones_bound_below_too(case: Planted, seed: int):
    """Where bounds are sharp: those that a solver left, and others nearby."""
    rng, program, one = np.random.default_rng(seed), case.program, case.program.cases(case.x)
    solution = CCP(program).solve(one, Effort())
    reached = case.costs.min()
    assert solution.outcomes[0] != Outcome.INFEASIBLE
    if solution.found[0]:
        assert program.violation(solution.points, case.x)[0] <= 1e-12
        reached = min(reached, program.encoded_cost(solution.points, case.x)[0])
    noise = 10.0 ** rng.uniform(-9, 0, size=(TRIES, 1)) * rng.normal(size=(TRIES, program.size))
    noise[0] = 0.0
    cases = program.cases(np.repeat(case.x, TRIES, axis=0))
    at = about(case, rng)
    at[:: TRIES // 2] = np.where(solution.found[0], solution.points, case.x)
    for tangent in (None, at):
        bound = program.bound(cases, solution.multipliers * (1.0 + noise), tangent)
        assert (bound <= reached * (1.0 + 1e-12) + 1e-13).all()


@pytest.mark.parametrize("kind", PRICES)
def test_huge_multipliers_prove_nothing(kind: str):
    free = np.full(4, np.inf)
    program = local(0, kind, 4, 3, Box(np.full(4, -9.0), np.full(4, 9.0), -free, free))
    cases = program.cases(np.repeat(missing(program, 0), 5, axis=0))
    sizes = np.array([1e308, 1e200, 1e99, 1e20, 1e-300])[:, None]
    given_ = sizes * np.random.default_rng(0).uniform(-1, 1, size=(5, program.size))
    reached = 3.0 * costs_of_anything(program, cases.x[:1])
    for at in (None, cases.x + 1.0):
        assert (program.bound(cases, given_, at) <= reached).all()
    assert not program.refutes(cases, given_).any()


def costs_of_anything(program: Program, x: np.ndarray) -> float:
    """What some point that meets the program costs."""
    tried = 3.0 * np.random.default_rng(1).normal(size=(2000, program.width))
    satisfied = tried[program.region.violation(tried, np.repeat(x, len(tried), axis=0)) == 0.0]
    return float(program.encoded_cost(satisfied, np.repeat(x, len(satisfied), axis=0)).min())


@pytest.mark.parametrize("kind", ["square", "full"])
def test_the_bound_is_the_least_of_the_lagrangian_between_bounds(kind: str):
    """Against SciPy, wherever it is convex; a wrong point to start from costs nothing."""
    rng = np.random.default_rng(0)
    seen = 0
    for seed in range(40):
        free = np.full(4, np.inf)
        box = Box(-free, free, -rng.uniform(0, 0.5, 4), rng.uniform(0, 0.5, 4))
        row = LinearBounds(rng.normal(size=(1, 4)), [-1.0], [1.0])
        program = local(seed, kind, 4, 3, box, row)
        x = missing(program, seed)
        cases = program.cases(x)
        given_ = np.concatenate([[0.1 * rng.normal()], rng.uniform(0, 0.1, 7)])[None]
        found = _least(program, x[0], given_[0], cases.low[0], cases.high[0])
        bound = program.bound(cases, given_)[0]
        if found is not None and found > 1e-3:
            seen += 1
            assert bound == pytest.approx(found, rel=1e-8)
    assert seen >= 5


def _least(
    program: Program, x: np.ndarray, given_: np.ndarray, low: np.ndarray, high: np.ndarray
) -> float | None:
    full = program.encoded_cost.quadratic
    full = np.diag(full) if full.ndim == 1 else full
    row, conditions, bounds = np.split(given_, [1, 4])
    form = (
        full
        + np.tensordot(conditions, curvature_of(program).quadrics.forms, axes=1)
        + np.diag(bounds)
    )
    if np.linalg.eigvalsh(form)[0] <= 1e-6:
        return None

    def value(y: np.ndarray) -> float:
        excess = sum(
            w * c.excess(y[None])[0]
            for w, c in zip(conditions, curvature_of(program).quadrics.conditions, strict=True)
        )
        along = row[0] * (program.affine.matrix[0] @ y) - abs(row[0])  # its limits are −1 and 1
        within = bounds @ ((y - low) * (y - high))
        return float((y - x) @ full @ (y - x) + excess + along + within)

    options = {"ftol": 1e-15, "gtol": 1e-12}
    ends = list(zip(low, high, strict=True))
    return float(minimize(value, x, bounds=ends, method="L-BFGS-B", options=options).fun)


def test_a_bound_survives_rounding_far_from_the_origin():
    """Prototypes at 1e6: the true optimum, in 60 digits, is never exceeded."""
    rng, far = np.random.default_rng(3), 1e6
    for _ in range(20):
        (near,) = rivals(rng, 2, 1)
        moved = QuadraticDifference(
            near.matrix, near.offset - near.matrix.sum(axis=1) * far,
            near.rival, near.rival_offset - near.rival.sum(axis=1) * far, 0.0,
        )  # fmt: skip
        program = Program(encoded_cost("square", rng, 2), Region((moved,)))
        x = far + 3.0 * rng.normal(size=(1, 2))
        cases = program.cases(x)
        solution = Quadric(program).solve(cases, Effort())
        bound = program.bound(cases, solution.multipliers, solution.points)[0]
        if bound > 0.0:
            truth = _exact_dual(
                moved, program.encoded_cost.quadratic, x[0], solution.multipliers[0, 0]
            )
            assert bound <= truth
            assert bound >= truth * (1.0 - 1e-6)


def _exact_dual(
    moved: QuadraticDifference, weights: np.ndarray, x: np.ndarray, start: float
) -> mpmath.mpf:
    """max over λ of min over y of Σ w (y − x)² + λ e(y), which is the optimum (S-lemma)."""
    with mpmath.workdps(60):
        near, far = mpmath.matrix(moved.matrix), mpmath.matrix(moved.rival)
        at = mpmath.matrix(x)
        f, h = near * at + mpmath.matrix(moved.offset), far * at + mpmath.matrix(moved.rival_offset)
        form = near.T * near - far.T * far
        half, value = near.T * f - far.T * h, (f.T * f)[0] - (h.T * h)[0]
        encoded_cost = mpmath.diag([mpmath.mpf(w) for w in weights])

        def dual(multiplier: mpmath.mpf) -> mpmath.mpf:
            step = mpmath.lu_solve(encoded_cost + multiplier * form, half)
            return multiplier * value - multiplier**2 * (half.T * step)[0]

        low, high = mpmath.mpf(start) * (1 - mpmath.mpf(10) ** -6), mpmath.mpf(start)
        high *= 1 + mpmath.mpf(10) ** -6
        for _ in range(80):  # golden section
            first, second = low + (high - low) * 0.382, low + (high - low) * 0.618
            low, high = (low, second) if dual(first) > dual(second) else (first, high)
        return dual((low + high) / 2) * (1 + mpmath.mpf(10) ** -25)


@given(seeds)
def test_units_of_columns_change_no_bound(seed: int):
    rng = np.random.default_rng(seed)
    program = local(seed, PRICES[seed % 3], 3)
    x = missing(program, seed)
    assume(len(x) > 0)
    solution = CCP(program).solve(program.cases(x), Effort())
    unit = 2.0 ** rng.integers(-20, 21, 3)
    quadratic = program.encoded_cost.quadratic
    outer = unit**2 if quadratic.ndim == 1 else np.outer(unit, unit)
    other = EncodedCost(program.encoded_cost.absolute / unit, quadratic / outer)
    scaled = Program(
        other,
        Region(
            tuple(
                replace(c, matrix=c.matrix / unit, rival=c.rival / unit)
                for c in curvature_of(program).quadrics.conditions
            )
        ),
    )
    at = solution.points if solution.found[0] else x
    plain = program.bound(program.cases(x), solution.multipliers, at)
    there = scaled.bound(scaled.cases(x * unit), solution.multipliers, at * unit)
    np.testing.assert_allclose(there, plain, rtol=1e-9, atol=1e-12)


def test_a_gap_that_no_convexity_closes_is_called_local():
    """An absolute price and a rival that bends: proved within the gap asked for, or local."""
    local_, proved, none = cp.Claim.LOCAL, cp.Claim.PROVED, cp.Claim.NONE
    program = local(0, "square", 3, 1)
    x = missing(program, 0)
    solution = Quadric(program).solve(program.cases(x), Effort())
    cost = program.encoded_cost(solution.points, x)

    def claim(factor: float, reached: np.ndarray, gap: float) -> cp.Claim:
        given_ = solution.multipliers * factor
        known = Evidence(program, program.cases(x), given_, solution.points, np.zeros(1))
        return [*cp.Claim][lower_bounds([known], reached, gap)[1][0]]

    assert claim(1.0, cost, 1e-9) == proved
    assert claim(0.5, cost, 1e-9) == local_
    assert claim(0.5, cost, 0.9) == proved
    assert claim(0.0, cost, 1e-9) == local_
    assert claim(0.5, np.array([np.inf]), 1e-9) == none  # a bound, though nothing was found


# One condition at a time: the S-lemma


def sdp(program: Program, x: np.ndarray) -> float:
    """Shor's relaxation by CVXPY; of the squared price, where that is absolute."""
    d, quadrics = program.width, curvature_of(program).quadrics
    moment = cvxpy.Variable((d + 1, d + 1), PSD=True)
    X, delta = moment[:d, :d], moment[d, :d]
    excess, slopes = quadrics.excess(x)[0], quadrics.slopes(x)[0]
    demands = [
        cvxpy.trace(form @ X) + slope @ delta + value <= 0
        for form, slope, value in zip(quadrics.forms, slopes, excess, strict=True)
    ]
    absolute, quadratic = program.encoded_cost.absolute, program.encoded_cost.quadratic
    if absolute.any():
        paid = cvxpy.sum(cvxpy.multiply(np.outer(absolute, absolute), cvxpy.abs(X)))
    else:
        paid = cvxpy.trace((np.diag(quadratic) if quadratic.ndim == 1 else quadratic) @ X)
    problem = cvxpy.Problem(cvxpy.Minimize(paid), [moment[d, d] == 1, *demands])
    problem.solve(solver="CLARABEL", tol_gap_rel=1e-9, tol_gap_abs=1e-10, tol_feas=1e-10)
    return np.sqrt(max(problem.value, 0.0)) if absolute.any() else problem.value


@pytest.mark.parametrize("kind", ["square", "full"])
def test_one_condition_is_settled_as_a_semidefinite_program_says(kind: str):
    """Strong duality: the relaxation has no gap, whatever the curvature."""
    for seed in range(12):
        program = local(seed, kind, 4, 1)
        x = missing(program, seed)
        if not len(x):
            continue
        cases = program.cases(x)
        solution = Quadric(program).solve(cases, Effort())
        expected = sdp(program, x)
        assert solution.outcomes[0] == Outcome.FOUND
        assert program.encoded_cost(solution.points, x)[0] == pytest.approx(
            expected, rel=1e-6, abs=1e-8
        )
        bound = program.bound(cases, solution.multipliers, solution.points)[0]
        assert bound == pytest.approx(program.encoded_cost(solution.points, x)[0], rel=1e-9)


@given(seeds)
def test_a_batch_of_quadrics_is_its_rows(seed: int):
    """Also where some columns cannot move for some rows."""
    rng = np.random.default_rng(seed)
    program = local(seed, PRICES[seed % 3], 4, 3)
    x = 2.0 * rng.normal(size=(5, 4))
    held = rng.random((5, 4)) < 0.3
    cases = program.cases(x)
    cases = replace(cases, low=np.where(held, x, -np.inf), high=np.where(held, x, np.inf))
    prepared = Quadric(program)
    together = prepared.solve(cases, Effort())
    for i, case in enumerate(cases):
        alone = prepared.solve(case, Effort())
        assert alone.outcomes[0] == together.outcomes[i]
        np.testing.assert_allclose(alone.multipliers[0], together.multipliers[i], rtol=1e-9)
        np.testing.assert_allclose(alone.points[0], together.points[i], rtol=1e-9, atol=1e-12)
        if together.found[i]:
            assert (together.points[i][held[i]] == x[i][held[i]]).all()


def test_columns_that_cannot_move_are_left_out():
    """With the same conditions over the other columns alone, the same answer."""
    program = local(5, "square", 4, 1)
    x = missing(program, 5)
    fixed = replace(
        program.cases(x), low=np.array([[x[0, 0], *[-np.inf] * 3]]),
        high=np.array([[x[0, 0], *[np.inf] * 3]]),
    )  # fmt: skip
    (condition,) = curvature_of(program).quadrics.conditions
    smaller = Program(
        EncodedCost(np.zeros(3), program.encoded_cost.quadratic[1:]),
        Region((
            QuadraticDifference(
                condition.matrix[:, 1:], condition.offset + condition.matrix[:, 0] * x[0, 0],
                condition.rival[:, 1:], condition.rival_offset + condition.rival[:, 0] * x[0, 0],
                condition.limit,
            ),
        )),
    )  # fmt: skip
    ours = Quadric(program).solve(fixed, Effort())
    theirs = Quadric(smaller).solve(smaller.cases(x[:, 1:]), Effort())
    np.testing.assert_allclose(ours.points[:, 1:], theirs.points, rtol=1e-10)
    bound = program.bound(fixed, ours.multipliers, ours.points)
    np.testing.assert_allclose(bound, program.encoded_cost(ours.points, x), rtol=1e-9)


def test_a_condition_without_points_is_refuted():
    """Nearer to one of two prototypes at one place, by a margin; and a disc of no radius."""
    rng = np.random.default_rng(0)
    matrix, place = rng.normal(size=(3, 3)), rng.normal(size=3)
    same = QuadraticDifference(matrix, -matrix @ place, matrix, -matrix @ place, -0.1)
    smaller = QuadraticDifference(
        1.5 * matrix, -1.5 * matrix @ place, matrix, -matrix @ place, -0.1
    )
    for condition in (same, smaller):
        for kind in PRICES:
            program = Program(encoded_cost(kind, rng, 3), Region((condition, *rivals(rng, 3, 2))))
            for solver in (Quadric, CCP):
                cases = program.cases(rng.normal(size=(4, 3)))
                solution = solver(program).solve(cases, Effort())
                assert (solution.outcomes == Outcome.INFEASIBLE).all()
                assert program.refutes(cases, solution.multipliers).all()
    at_place = Program(encoded_cost("square", rng, 3), Region((replace(smaller, limit=0.0),)))
    solution = CCP(at_place).solve(at_place.cases(rng.normal(size=(1, 3))), Effort())
    assert solution.outcomes[0] != Outcome.INFEASIBLE  # the prototype itself is left


# All conditions, relaxed


@pytest.mark.parametrize("kind", PRICES)
def test_the_relaxation_is_as_good_as_cvxpys(kind: str):
    for seed in range(6):
        program = local(seed, kind, 3, 5)
        x = missing(program, seed)
        cases = program.cases(x)
        found = relaxed(program, cases, 1.0, Effort())
        assert found is not None
        bound = program.bound(cases, found[0][None], found[1][None])[0]
        assert bound == pytest.approx(sdp(program, x), rel=2e-6, abs=1e-7)


def test_whole_steps_strengthen_a_bound_by_curvature():
    """(y − 3)² <= y² / 4 from ½ in whole steps: 1 is proved too little over reals."""
    condition = QuadraticDifference(
        np.eye(1), np.array([-3.0]), np.array([[0.5]]), np.zeros(1), 0.0
    )
    steps = Whole(np.zeros(1, dtype=np.intp), np.ones(1))
    plain = Program(EncodedCost(np.zeros(1), np.ones(1)), Region((condition,)))
    whole = Program(EncodedCost(np.zeros(1), np.ones(1)), Region((condition, steps)))
    x, given_ = np.full((1, 1), 0.5), np.ones((1, 1))
    reals = plain.bound(plain.cases(x), given_)[0]
    wholes = whole.bound(whole.cases(x), given_)[0]
    assert reals < wholes <= 4.0
    assert wholes == pytest.approx(1.0 + 1.6875, rel=1e-12)  # one step, and what it misses
