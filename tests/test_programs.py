"""Weak duality: no multipliers, however wrong, ever bound above what a feasible point costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import minimize
from strategies import Planted, multipliers, planted, seeds

import counterpoint as cp
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import AtMost, Box, Cone, LinearBounds, Transitions, Whole
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.program import Program, kinds_region, own_multipliers, relaxed
from counterpoint.programs.region import Coupling, Region

ROUNDING = 1e-12
"""Of float64 sums of a few dozen terms, relative to the sum of their sizes."""
TRIES = 24


def repeated(case: Planted, n: int):
    return case.program.cases(np.repeat(case.x, n, axis=0))


def size_of_terms(case: Planted, given: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(n,) the sum of the sizes of everything that enters a bound: what rounding is relative to."""
    program, far = case.program, np.abs(np.vstack([case.x, case.points])).max(axis=0)
    terms = []
    for coupling in (program.affine, *program.couplings):
        size = np.abs(coupling.normals) @ far
        for name in ("offset", "low", "high", "radius", "limit"):
            value = np.abs(np.asarray(getattr(coupling, name, 0.0), dtype=float))
            value = np.where(np.isfinite(value), value, 0.0)
            size = size + (np.pad(value, (0, len(size) - len(value))) if value.ndim else value)
        if isinstance(coupling, Cone):  # the multiplier of the slope is as long as the others
            size = size + np.abs(coupling.slope) @ far
        terms.append(size + 2.0)  # the entropy of a few shares is at most 2
    linear = np.abs(given) @ np.concatenate(terms) if terms else np.zeros(len(given))
    full = np.abs(program.encoded_cost.quadratic)
    full = np.diag(full) if full.ndim == 1 else full
    reach = np.abs(at) + far
    return 1.0 + linear + case.costs.max() + np.einsum("ij,jk,ik->i", reach, full, reach)


@given(planted(), seeds)
def test_any_multipliers_and_any_tangent_bound_every_feasible_cost(case: Planted, seed: int):
    rng = np.random.default_rng(seed)
    given = multipliers(rng, case.program.size, TRIES)
    at = case.x + rng.normal(size=(TRIES, case.program.width)) * 10.0 ** rng.uniform(-1, 1.5)
    for tangent in (None, at):
        bound = case.program.bound(repeated(case, TRIES), given, tangent)
        slack = ROUNDING * size_of_terms(case, given, at)
        assert (bound <= case.costs.min() + slack).all()
        assert (bound >= 0.0).all()


@given(planted(), seeds)
def test_a_region_with_a_point_is_never_refuted(case: Planted, seed: int):
    rng = np.random.default_rng(seed)
    given = multipliers(rng, case.program.size, TRIES)
    cases = repeated(case, TRIES)
    assert not case.program.refutes(cases, given).any()
    assert not case.program.domain.is_empty(cases).any()


@given(planted(), seeds)
def test_every_cut_keeps_every_point_of_the_region(case: Planted, seed: int):
    given = multipliers(np.random.default_rng(seed), case.program.size, TRIES)
    normals, offsets = case.program.cut(given, case.x)[:2]
    slack = ROUNDING * size_of_terms(case, given, np.zeros((TRIES, case.program.width)))
    assert (normals @ case.points.T <= (offsets + slack)[:, None]).all()


@given(planted(), seeds)
def test_a_cut_scales_with_its_multipliers(case: Planted, seed: int):
    rng = np.random.default_rng(seed)
    for coupling in (c for c in case.program.region if isinstance(c, Coupling)):
        given = multipliers(rng, coupling.size, TRIES)
        factor = rng.uniform(0.0, 10.0)
        normals, offsets = coupling.cut(given)[:2]
        scaled_normals, scaled_offsets = coupling.cut(factor * given)[:2]
        size = 1.0 + np.abs(given).sum(axis=1) * (100.0 + np.abs(coupling.normals).sum())
        terms = np.abs(given) @ np.abs(coupling.normals)
        assert (np.abs(scaled_normals - factor * normals) <= 1e-12 * factor * terms).all()
        assert (np.abs(scaled_offsets - factor * offsets) <= ROUNDING * factor * size).all()


@given(planted())
def test_planted_points_violate_nothing(case: Planted):
    x = np.repeat(case.x, len(case.points), axis=0)
    assert case.program.region.violation(case.points, x).max() <= ROUNDING


@given(planted(conditions=("box", "changes", "transitions", "affine", "at most"), most=3), seeds)
def test_the_bound_is_the_exact_minimum_over_the_domain(case: Planted, seed: int):
    """Weak duality loses nothing but the couplings: the inner minimum is exact (brute force)."""
    rng = np.random.default_rng(seed)
    program = bounded(case)
    cases = program.cases(case.x)
    given = multipliers(rng, program.size, 1) * 0.1
    normal, offset = program.cut(given, case.x)[:2]
    values = []
    for y in domain(case, program, normal[0]):
        change = (y - case.x[0])[None, :]
        values.append(
            program.encoded_cost(change, np.zeros_like(change))[0] + normal[0] @ y - offset[0]
        )
    expected = max(min(values), 0.0)
    if program.encoded_cost.quadratic.ndim == 2:
        # A full matrix is bounded by a tangent, exact where it touches; elsewhere only below.
        assert program.bound(cases, given)[0] <= expected + 1e-9 * (1 + np.abs(values).max())
    else:
        assert program.bound(cases, given)[0] == pytest.approx(
            expected, rel=1e-9, abs=1e-11 * np.abs(values).max()
        )


def bounded(case: Planted) -> Program:
    """The same program with every number within three steps of x, so that brute force ends."""
    box = Box.unbounded(case.program.width)
    reach = np.where(case.program.domain.steps > 0, 3.0 * case.program.domain.steps, 2.5)
    numeric = case.program.domain.numeric
    box.least[numeric], box.most[numeric] = -reach[numeric], reach[numeric]
    return Program(case.program.encoded_cost, case.program.region & Region((box,)))


def domain(case: Planted, program: Program, slope: np.ndarray) -> Iterator[np.ndarray]:
    """Every point of the domain that can be a minimum of a separable function with this slope."""
    x = case.x[0]
    box = next(b for b in [program.domain.box])
    low, high = (bound[0] for bound in box.bounds(case.x))
    choices = []
    for f, block in zip(case.features, case.features.blocks, strict=True):
        j = block.start
        if isinstance(f, cp.Categorical):
            eye = np.eye(block.stop - block.start)
            here = int(x[block].argmax())
            allowed = [
                t.allowed[here]
                for t in program.region
                if isinstance(t, Transitions) and t.columns == block
            ]
            choices.append([e for c, e in enumerate(eye) if all(a[c] for a in allowed)])
        elif isinstance(f, cp.Integer):
            steps = x[j] + f.step * np.arange(-9, 10)
            inside = (steps >= low[j] - 1e-9) & (steps <= high[j] + 1e-9)
            choices.append([np.array([v]) for v in steps[inside]])
        else:
            curve = (
                np.atleast_1d(program.encoded_cost.quadratic)[j]
                if program.encoded_cost.quadratic.ndim == 1
                else 0
            )
            turns = [x[j]] + ([x[j] - slope[j] / (2.0 * curve)] if curve > 0 else [])
            kept = [v for v in turns if low[j] <= v <= high[j]]
            choices.append([np.array([v]) for v in [low[j], high[j], *kept]])
    counts = [c.count for c in program.region if isinstance(c, AtMost)]
    for parts in product(*choices):
        y = np.concatenate(parts)
        changed = sum((y[b] != x[b]).any() for b in case.features.blocks)
        if changed <= min(counts, default=len(case.features)):
            yield y


@given(planted(), seeds)
def test_the_units_of_the_columns_change_neither_bounds_nor_violations(case: Planted, seed: int):
    """Columns in units of 2⁻³⁰ to 2³⁰ (1e-9 to 1e9): only the numbers of the input differ."""
    rng = np.random.default_rng(seed)
    unit = np.where(
        case.program.domain.numeric, 2.0 ** rng.integers(-30, 31, case.program.width), 1.0
    )
    other = in_units(case.program, unit)
    given = multipliers(rng, case.program.size, TRIES)
    x = np.repeat(case.x, TRIES, axis=0)
    at = x + rng.normal(size=x.shape)
    plain = case.program.bound(case.program.cases(x), given, at)
    scaled = other.bound(other.cases(x * unit), given, at * unit)
    slack = ROUNDING * size_of_terms(case, given, at)
    assert (np.abs(scaled - plain) <= slack).all()
    away = np.where(rng.random(at.shape) < 0.5, at, x)
    here = case.program.region.violation(away, x)
    there = other.region.violation(away * unit, x * unit)
    np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-14)


def in_units(program: Program, unit: np.ndarray) -> Program:
    quadratic = program.encoded_cost.quadratic
    outer = unit**2 if quadratic.ndim == 1 else np.outer(unit, unit)
    encoded_cost = EncodedCost(program.encoded_cost.absolute / unit, quadratic / outer)
    made = []
    for condition in program.region:
        match condition:
            case Box():
                ends = (condition.low, condition.high, condition.least, condition.most)
                made.append(Box(*(end * unit for end in ends)))
            case Whole():
                made.append(replace(condition, steps=condition.steps * unit[condition.columns]))
            case Cone():
                matrix, slope = condition.matrix / unit, condition.slope / unit
                made.append(replace(condition, matrix=matrix, slope=slope))
            case Coupling():
                made.append(replace(condition, matrix=condition.matrix / unit))
            case _:
                made.append(condition)
    return Program(encoded_cost, Region(tuple(made)))


@given(planted())
def test_a_relaxation_contains_the_region(case: Planted):
    x = np.repeat(case.x, len(case.points), axis=0)
    for dropped in program_kinds(case.program):
        relaxation = relaxed(case.program, dropped)
        assert relaxation.region.violation(case.points, x).max() <= ROUNDING
        assert dropped not in relaxation.region.condition_types or dropped is LinearBounds


def program_kinds(program: Program) -> list[type]:
    return sorted(
        program.region.condition_types - {Box, LinearBounds}, key=lambda kind: kind.__name__
    )


@given(planted(), seeds)
def test_multipliers_of_a_relaxation_bound_the_program(case: Planted, seed: int):
    kinds = program_kinds(case.program)
    relaxation = relaxed(case.program, *kinds)
    given = multipliers(np.random.default_rng(seed), relaxation.size, TRIES)
    own = own_multipliers(case.program, given) if kinds == [] else given
    if any(issubclass(kind, Coupling) for kind in kinds):
        return
    own = own_multipliers(case.program, given)
    assert own.shape == (TRIES, case.program.size)
    bound = case.program.bound(repeated(case, TRIES), own)
    assert (bound <= case.costs.min() + ROUNDING * size_of_terms(case, own, case.x)).all()


# Known answers, by hand


def one_row(encoded_cost: EncodedCost, a: list[float], least: float) -> Program:
    return Program(encoded_cost, Region((LinearBounds(np.array([a]), [least], [np.inf]),)))


def test_the_right_multiplier_closes_the_gap_of_one_half_space():
    """min 2|y₁| + |y₂| s.t. y₁ + y₂ >= 3 from 0: buy y₂, cost 3, multiplier 1."""
    program = one_row(EncodedCost(np.array([2.0, 1.0]), np.zeros(2)), [1.0, 1.0], 3.0)
    cases = program.cases(np.zeros((1, 2)))
    assert program.bound(cases, np.array([[-1.0]]))[0] == pytest.approx(3.0, rel=1e-14)
    assert program.bound(cases, np.array([[1.0]]))[0] == 0.0  # the wrong sign proves nothing


def test_the_right_multiplier_closes_the_gap_of_a_square():
    """min y₁² + y₂² s.t. y₁ + y₂ >= 2 from 0: (1, 1), cost 2, multiplier 2."""
    program = one_row(EncodedCost(np.zeros(2), np.ones(2)), [1.0, 1.0], 2.0)
    cases = program.cases(np.zeros((1, 2)))
    assert program.bound(cases, np.array([[-2.0]]))[0] == pytest.approx(2.0, rel=1e-14)


def test_contradicting_bounds_and_rows_are_refuted():
    """y₁ + y₂ >= 3 with y₁, y₂ <= 1."""
    box = Box(np.full(2, -np.inf), np.ones(2), np.full(2, -np.inf), np.full(2, np.inf))
    row = LinearBounds(np.array([[1.0, 1.0]]), [3.0], [np.inf])
    program = Program(EncodedCost(np.ones(2), np.zeros(2)), Region((row, box)))
    cases = program.cases(np.zeros((1, 2)))
    assert program.refutes(cases, np.array([[-1.0]]))[0]
    assert not program.refutes(cases, np.array([[1.0]]))[0]
    assert not program.domain.is_empty(cases)[0]


def test_a_region_of_one_point_is_never_refuted():
    """However large the numbers are that cancel in the sum of what its rows add up to."""
    for low, high, least, most in ((-1e6, 5.0, 5.0, np.inf), (-5.0, 1e6, -np.inf, -5.0)):
        rows, box = LinearBounds(np.array([[1.0]]), [least], [most]), Box.unbounded(1)
        box.low[0], box.high[0] = low, high
        program = Program(EncodedCost(np.ones(1), np.zeros(1)), Region((box, rows)))
        cases = program.cases(np.zeros((1, 1)))
        for multiplier in (-1.0, 1.0):
            assert not program.refutes(cases, np.array([[multiplier]]))[0]


def test_whole_steps_strengthen_the_bound():
    """min y² s.t. y >= ½ from 0: the multiplier 1 proves ¼ over reals, ½ over whole steps."""
    row = Region((LinearBounds(np.array([[1.0]]), [0.5], [np.inf]),))
    for described, expected in ((cp.Continuous("a"), 0.25), (cp.Integer("a"), 0.5)):
        features = cp.Features([described])
        encoded_cost = cp.SquaredEuclidean().encoded_cost(features)
        program = Program(encoded_cost, kinds_region(features) & row)
        bound = program.bound(program.cases(np.zeros((1, 1))), np.array([[-1.0]]))
        assert bound[0] == pytest.approx(expected, rel=1e-14)


def test_a_forbidden_category_leaves_nothing():
    described = cp.Features([cp.Categorical("a", ("p", "q"))])
    never = Transitions(slice(0, 2), np.zeros((2, 2), dtype=bool))
    program = Program(
        cp.Manhattan().encoded_cost(described), kinds_region(described) & Region((never,))
    )
    cases = program.cases(described.expand(np.zeros((1, 1))))
    assert program.domain.is_empty(cases)[0]
    assert program.refutes(cases, np.zeros((1, 0)))[0]


def test_a_price_is_absolute_or_quadratic_for_each_column():
    with pytest.raises(cp.InvalidInput, match="absolute or a quadratic price; got both"):
        EncodedCost(np.ones(2), np.ones(2))


def test_changes_that_are_used_up_prove_that_there_is_no_answer():
    """One column has to move, only one may, and the row needs another one, which has no bounds."""
    box = Box.unbounded(2)
    box.low[0] = 2.0
    row = LinearBounds(np.array([[0.0, -1.0]]), np.array([-np.inf]), np.array([-1.0]))
    few = AtMost(1, (slice(0, 1), slice(1, 2)))
    for encoded_cost in (
        EncodedCost(np.ones(2), np.zeros(2)),
        EncodedCost(np.zeros(2), np.ones(2)),
    ):
        program = Program(encoded_cost, Region((row, box, few)))
        cases = program.cases(np.zeros((1, 2)))
        assert program.refutes(cases, np.ones((1, 1)))[0]


def test_the_right_multipliers_close_the_gap_of_a_cone_that_opens():
    """min |y| s.t. 2 <= y / 2: at y = 4, by multipliers u and t of one length, 2."""
    cone = Cone(np.zeros((1, 1)), np.array([2.0]), 0.0, np.array([0.5]))
    program = Program(EncodedCost(np.ones(1), np.zeros(1)), Region((cone,)))
    cases = program.cases(np.zeros((1, 1)))
    bound = program.bound(cases, np.array([[2.0, 2.0]]))[0]
    assert bound == pytest.approx(4.0, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_loss_is_bounded_in_as_many_dimensions_as_it_has(seed: int):
    """Below the objective of every point, and as high as the least that SciPy finds."""
    rng, d, m = np.random.default_rng(seed), 6, 3
    loss = LogLoss(rng.normal(size=(m, d)), rng.normal(size=m))
    program = Program(EncodedCost(np.zeros(d), rng.uniform(0.1, 2.0, d)), Region((loss,)))
    cases = program.cases(rng.normal(size=(5, d))).weighing(rng.uniform(0.05, 2.0, 5))
    shares = np.zeros((5, m))
    for i, case in enumerate(cases):

        def objective(y: np.ndarray, case: Any = case) -> float:
            return float(program.objective(y[None], case)[0])

        best = minimize(objective, case.x[0], method="BFGS", options={"gtol": 1e-10})
        scores = np.exp(loss.matrix @ best.x + loss.offset)
        shares[i] = scores / (1.0 + scores.sum())
        bound = program.bound(case, shares[i : i + 1])[0]
        assert bound <= best.fun * (1.0 + 1e-12)
        np.testing.assert_allclose(bound, best.fun, rtol=1e-7)
    points = cases.x + rng.normal(size=(300, 5, d)) * rng.uniform(0.0, 2.0, (300, 1, 1))
    values = np.array([program.objective(y, cases) for y in points])
    for tried in (shares, rng.uniform(0.0, 1.0, (5, m)), rng.normal(size=(5, m))):
        assert (program.bound(cases, tried) <= values).all()
