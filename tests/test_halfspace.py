"""Closed forms for one row: what they take they settle at its optimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog
from strategies import seeds

from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import Box, LinearBounds, Whole
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch, Region
from counterpoint.search.search import Union, search
from counterpoint.solvers import Effort, Outcome, applicable
from counterpoint.solvers.halfspace import HalfSpace

ROWS = 24
CLOSE = 1e-9
"""Relative; SciPy's simplex leaves as much, and a root by `brentq` less."""


def demand(rng: np.random.Generator, d: int) -> LinearBounds:
    """One row a·y >= b or a·y <= b, some of its entries 0."""
    row = rng.normal(size=(1, d)) * np.where(
        rng.random(d) < 0.2, 0.0, 10.0 ** rng.uniform(-3, 3, d)
    )
    if not row.any():
        row[0, 0] = 1.0
    return (
        LinearBounds(row, [rng.normal()], [np.inf])
        if rng.random() < 0.5
        else LinearBounds(row, [-np.inf], [rng.normal()])
    )


def boxed(rng: np.random.Generator, program: Program, x: np.ndarray, share: float) -> Batch:
    """Rows with bounds of their own on a share of the sides; some rows lie outside of them."""
    low = np.where(rng.random(x.shape) < share, x - rng.exponential(size=x.shape) + 0.1, -np.inf)
    high = np.where(rng.random(x.shape) < share, x + rng.exponential(size=x.shape) - 0.1, np.inf)
    cases = program.cases(x)
    return replace(cases, low=np.minimum(low, high), high=np.maximum(low, high))


def linear_optimum(program: Program, cases: Batch, i: int) -> float:
    """The least weighted Manhattan cost of one row by SciPy's linear programming; inf for none."""
    weights, d, row = program.encoded_cost.absolute, program.width, program.affine
    x, low, high = cases.x[i], cases.low[i], cases.high[i]
    size = np.abs(row.matrix).max()
    both = np.hstack([row.matrix, -row.matrix]) / size
    here = row.matrix @ x
    above = np.isfinite(row.high)
    A, b = (both, (row.high - here) / size) if above.all() else (-both, (here - row.low) / size)
    apart = np.hstack([np.eye(d), -np.eye(d)])
    bounds = [(row, limit) for row, limit in zip(apart, high - x, strict=True) if limit < np.inf]
    bounds += [(-row, limit) for row, limit in zip(apart, x - low, strict=True) if limit < np.inf]
    A = np.vstack([A, *(row for row, _ in bounds)])
    b = np.append(b, [limit for _, limit in bounds])
    found = linprog(np.tile(weights, 2), A, b, bounds=(0, None), method="highs-ds")
    return float(found.fun) if found.status == 0 else np.inf


def root_optimum(program: Program, cases: Batch, i: int) -> float:
    """The least weighted squared Euclidean cost of one row: the root of its dual by `brentq`."""
    row = program.affine
    sign = 1.0 if np.isfinite(row.low).all() else -1.0
    a = sign * row.matrix[0]
    b = float(sign * (row.low if sign > 0 else row.high)[0])
    x, q, low, high = cases.x[i], program.encoded_cost.quadratic, cases.low[i], cases.high[i]
    at = lambda log: np.clip(x + np.exp(log) * a / (2.0 * q), low, high)  # noqa: E731
    missed = lambda log: float(at(log) @ a - b)  # noqa: E731
    cost = lambda y: float(((y - x) ** 2 * q).sum())  # noqa: E731
    if np.clip(x, low, high) @ a >= b:
        return cost(np.clip(x, low, high))
    if missed(60.0) < 0.0:
        return np.inf
    return cost(at(brentq(missed, -80.0, 60.0, xtol=1e-14, rtol=1e-14)))


def check_settled(program: Program, cases: Batch, optima: np.ndarray) -> None:
    """Each row has a point at the optimum, and multipliers that prove it; or it is refuted."""
    solution = HalfSpace(program).solve(cases, Effort())
    possible = np.isfinite(optima)
    assert (solution.outcomes == np.where(possible, Outcome.FOUND, Outcome.INFEASIBLE)).all()
    assert (solution.found == possible).all()
    part = cases.take(possible)
    cost = program.encoded_cost(solution.points[possible], part.x)
    np.testing.assert_allclose(cost, optima[possible], rtol=CLOSE, atol=1e-12)
    bound = program.bound(part, solution.multipliers[possible], solution.points[possible])
    np.testing.assert_allclose(bound, cost, rtol=1e-9, atol=1e-12)
    assert (program.violation(solution.points[possible], part.x) <= 1e-12).all()
    inside = (part.low <= solution.points[possible]) & (solution.points[possible] <= part.high)
    assert inside.all()


@given(seeds, st.integers(1, 6), st.sampled_from([0.0, 0.3, 0.9]))
@settings(max_examples=30)
def test_one_row_at_a_linear_price_is_settled_at_its_optimum(seed: int, d: int, share: float):
    rng = np.random.default_rng(seed)
    encoded_cost = EncodedCost(10.0 ** rng.uniform(-2, 2, d), np.zeros(d))
    program = Program(encoded_cost, Region((demand(rng, d),)))
    cases = boxed(rng, program, rng.normal(size=(ROWS, d)), share)
    check_settled(
        program, cases, np.array([linear_optimum(program, cases, i) for i in range(ROWS)])
    )


@given(seeds, st.integers(1, 6), st.sampled_from([0.0, 0.3, 0.9]))
@settings(max_examples=30)
def test_one_row_at_a_diagonal_quadratic_price_is_settled_at_its_optimum(
    seed: int, d: int, share: float
):
    rng = np.random.default_rng(seed)
    encoded_cost = EncodedCost(np.zeros(d), 10.0 ** rng.uniform(-2, 2, d))
    program = Program(encoded_cost, Region((demand(rng, d),)))
    cases = boxed(rng, program, rng.normal(size=(ROWS, d)), share)
    check_settled(program, cases, np.array([root_optimum(program, cases, i) for i in range(ROWS)]))


@given(seeds, st.integers(1, 6))
@settings(max_examples=15)
def test_one_row_at_a_full_quadratic_price_is_settled_at_its_optimum(seed: int, d: int):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d + 2))
    quadratic, row = root @ root.T, demand(rng, d)
    program = Program(EncodedCost(np.zeros(d), quadratic), Region((row,)))
    x = rng.normal(size=(ROWS, d))
    sign = 1.0 if np.isfinite(row.low).all() else -1.0
    limit = float((row.low if sign > 0 else row.high)[0])
    short = np.maximum(sign * (limit - x @ row.matrix[0]), 0.0)
    # |L⁻¹a| is the size of the row in the price's own norm.
    along = np.linalg.lstsq(root, row.matrix[0], rcond=None)[0]
    check_settled(program, program.cases(x), short**2 / (along @ along))


@pytest.mark.parametrize("square", [False, True], ids=["linear price", "quadratic price"])
def test_closed_forms_alone_settle_a_whole_batch(square: bool):
    """With one row and nothing integral no other solver is asked, whatever the bounds."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        d = int(rng.integers(1, 6))
        weights, none = rng.uniform(0.5, 2.0, d), np.zeros(d)
        row, box = demand(rng, d), Box.unbounded(d)
        box.high[:] = rng.uniform(0.0, 3.0, d)
        encoded_cost = EncodedCost(none, weights) if square else EncodedCost(weights, none)
        actionable = Program(encoded_cost, Region((box,)))
        cases = actionable.cases(rng.normal(size=(ROWS, d)))
        findings = search(Union.of(actionable, [Region((row,))]), cases, Effort())
        assert findings.closed.all()


# Whole steps are those of knapsacks


@given(seeds)
@settings(max_examples=60)
def test_a_knapsack_with_one_kind_of_whole_item_is_settled_at_its_optimum(seed: int):
    """One whole column: the least number of steps; one category: its cheapest change."""
    rng = np.random.default_rng(seed)
    step, a = float(rng.choice([0.25, 1.0, 3.0])), float(rng.normal())
    program = Program(
        EncodedCost(np.ones(1), np.zeros(1)),
        Region(
            (
                Whole(np.zeros(1, dtype=np.intp), np.array([step])),
                LinearBounds([[a]], [1.0], [np.inf]),
            )
        ),
    )
    x = rng.integers(-4, 5, (ROWS, 1)) * step
    solution = applicable(program)[0](program).solve(program.cases(x), Effort())
    assert (solution.outcomes == Outcome.FOUND).all()
    for i in range(ROWS):
        counts = np.arange(-2000, 2001) * step
        meets = (x[i, 0] + counts) * a >= 1.0 - 1e-12
        if meets.any():
            least = np.abs(counts[meets]).min()
            assert abs(solution.points[i, 0] - x[i, 0]) == pytest.approx(least)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_whole_steps_that_are_enough_are_not_taken_twice(sign: float):
    """y = 2 units away is the optimum over real numbers, up to rounding, and a whole number."""
    row, whole = (
        LinearBounds(np.array([[0.1 * sign]]), [0.2], [np.inf]),
        Whole(np.array([0]), np.ones(1)),
    )
    program = Program(EncodedCost(np.zeros(1), np.ones(1)), Region((row, whole)))
    solution = applicable(program)[0](program).solve(program.cases(np.zeros((1, 1))), Effort())
    assert solution.points.tolist() == [[2.0 * sign]]
