"""Multipliers of sums of functions of single columns: what they prove holds for every point."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoint.families.additive.curves import Curve, MergedCurves
from counterpoint.families.additive.sums import SumBounds, lifted
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import AtMost, Box, LinearBounds, Whole
from counterpoint.programs.program import Program
from counterpoint.programs.region import Region

STEPS = np.array([0.5, 1.0, 0.0])


def problem(seed):
    """A program over three columns, of which two may be whole, and a row."""
    rng = np.random.default_rng(seed)
    rows, degree = int(rng.integers(1, 3)), int(rng.integers(1, 5))
    curves = []
    for j in range(3):
        starts = np.append(-np.inf, np.sort(2.0 * rng.normal(size=rng.integers(0, 4))))
        coefficients = rng.normal(size=(len(starts), 1, degree if j else 1))
        curves.append((j, Curve(starts, coefficients, rng.normal(size=len(starts)))))
    linear = rng.normal(size=(rows, 3)) * (rng.random() < 0.5)
    matrix, low = np.hstack([linear, rng.normal(size=(rows, 3))]), 2.0 * rng.normal(size=rows)
    demands = LinearBounds(matrix, low, np.full(rows, np.inf), np.ones(rows))
    box = Box.unbounded(3)
    box.low[:] = rng.normal(size=3) - 2.0
    box.high[:] = box.low + 5.0 * rng.random(3)
    conditions = [SumBounds(demands, tuple(curves)), box]
    if rng.random() < 0.4:
        conditions.append(Whole(np.arange(2), STEPS[:2]))
    if rng.random() < 0.4:
        conditions.append(AtMost(2, tuple(slice(j, j + 1) for j in range(3))))
    weights, zeros = np.abs(rng.normal(size=3)) + 0.1, np.zeros(3)
    encoded_cost = (
        EncodedCost(weights, zeros) if rng.random() < 0.5 else EncodedCost(zeros, weights)
    )
    return (
        Program(encoded_cost, Region(tuple(conditions))),
        rng.uniform(box.low, box.high)[None],
        rng,
    )


def grid(program, x):
    """Many points of the domain: ends, cuts and their neighbours among them."""
    cases, columns = program.cases(x), []
    for j, curve in program.region.conditions[0].curves:
        low, high = cases.low[0, j], cases.high[0, j]
        cuts = curve.starts[1:]
        values = [np.linspace(low, high, 25), x[0, [j]], cuts, np.nextafter(cuts, -np.inf)]
        if program.domain.steps[j]:
            values = [x[0, j] + program.domain.steps[j] * np.arange(-30, 31)]
        flat = np.unique(np.concatenate(values))
        columns.append(flat[(flat >= low - 1e-12) & (flat <= high + 1e-12)])
    return np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1).reshape(-1, 3)


@pytest.mark.parametrize("seed", range(40))
def test_a_bound_is_the_least_of_the_lagrangian_and_below_every_cost(seed):
    program, x, rng = problem(seed)
    y = grid(program, x)
    rows = np.repeat(x, len(y), axis=0)
    multipliers = -np.abs(rng.normal(size=(20, program.size))) * 10.0 ** rng.uniform(-1, 1)
    cases = program.cases(np.repeat(x, 20, axis=0))
    bound = program.bound(cases, multipliers)
    demands = program.region.conditions[0]
    cost = program.encoded_cost(y, rows)
    value = lifted(demands.curves, y) @ demands.rows.matrix.T - demands.rows.low
    lagrangian = cost[:, None] + value @ multipliers.T
    if program.domain.at_most is not None:
        lagrangian = lagrangian[program.domain.at_most.changed(y, rows).sum(axis=1) <= 2]
    least = np.maximum(lagrangian.min(axis=0), 0.0)
    assert (bound <= least + 1e-9 * (1.0 + least)).all()
    assert (bound >= 0.8 * least - 0.3).all()  # the grid is coarse
    satisfied = program.violation(y, rows) <= 1e-12
    if satisfied.any():
        assert (bound <= cost[satisfied].min() * (1.0 + 1e-12)).all()
        assert not program.refutes(cases, multipliers).any()


def test_a_box_that_holds_no_gain_is_refuted():
    curve = Curve.steps([-np.inf, 0.0, 1.0], [0.0, 1.0, 3.0])
    demand = LinearBounds(np.array([[0.0, 1.0]]), np.array([2.0]), np.array([np.inf]), np.ones(1))
    program = Program(
        EncodedCost(np.ones(1), np.zeros(1)), Region((SumBounds(demand, ((0, curve),)),))
    )
    cases = program.cases(np.array([[-2.0], [-2.0]]))
    assert program.bound(cases, np.array([[-1.0], [-0.9]])) == pytest.approx([2.0, 1.8])
    narrow = cases.within(np.full((2, 1), -5.0), np.full((2, 1), np.nextafter(1.0, 0.0)))
    assert program.refutes(narrow, -np.ones((2, 1))).all()
    assert not program.refutes(cases, -np.ones((2, 1))).any()


@pytest.mark.parametrize("seed", range(10))
def test_merged_pieces_are_the_sums_of_the_functions(seed):
    program, x, rng = problem(seed)
    demands = program.region.conditions[0]
    twice = (*demands.curves, (1, Curve.polynomial([0.5, -1.0, 0.25, 2.0], 0.3)))
    matrix = np.hstack([demands.rows.matrix, rng.normal(size=(len(demands.rows.matrix), 1))])
    bends = MergedCurves.of(matrix, twice)
    y, weights = x + rng.normal(size=(50, 3)), rng.normal(size=(50, len(matrix)))
    found = bends.weighted_at(y, weights)[0].sum(axis=1)
    expected = np.einsum("nm,nm->n", weights, lifted(twice, y) @ matrix.T)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
