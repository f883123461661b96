"""Branch and bound over knapsacks: against brute force, and every proof against tampering."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from counterpoint.additive.solver import Knapsacks
from counterpoint.costs import Price
from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.domains import AtMost, Box, OneOf, Whole
from counterpoint.engine.program import Program
from counterpoint.engine.proof import proved
from counterpoint.engine.region import Condition, Region
from counterpoint.solvers import Effort, Outcome

FEW = False


class Problem(NamedTuple):
    program: Program
    x: np.ndarray
    """(1, d)."""
    points: np.ndarray
    """(m, d) every point of the domain."""


def problem(rng: np.random.Generator) -> Problem:
    """Whole columns, categories, one to three rows, any separable price, perhaps few changes."""
    numbers, groups = int(rng.integers(0, 4)), int(rng.integers(0, 3))
    numbers += numbers + groups == 0
    sizes = rng.integers(2, 5, size=groups)
    d = numbers + int(sizes.sum())
    steps = rng.choice([1.0, 0.5, 3.0], size=numbers)
    x, low, high = np.zeros(d), np.full(d, -np.inf), np.full(d, np.inf)
    x[:numbers] = rng.integers(-3, 4, size=numbers) * steps
    low[:numbers] = x[:numbers] - rng.integers(-1, 4, size=numbers) * steps
    high[:numbers] = low[:numbers] + rng.integers(0, 5, size=numbers) * steps
    conditions: list[Condition] = [Whole(np.arange(numbers), steps)] if numbers else []
    blocks, start = [slice(j, j + 1) for j in range(numbers)], numbers
    choices: list[Any] = [
        low[j] + np.arange(round((high[j] - low[j]) / steps[j]) + 1) * steps[j]
        for j in range(numbers)
    ]
    for size in sizes.tolist():
        blocks.append(slice(start, start + size))
        conditions.append(OneOf(blocks[-1]))
        x[start + rng.integers(size)] = 1.0
        choices.append(np.eye(size))
        start += size
    none = np.full(d, np.inf)
    conditions.append(Box(low, high, -none, none))
    some = int(rng.integers(1, 4))
    matrix = rng.normal(size=(some, d)) if rng.random() < 0.6 else rng.integers(-3, 4, (some, d))
    width = float(rng.choice([np.inf, 0.5, 3.0]))
    limit = matrix @ x + rng.normal(0.5, 2.0, size=some)
    limit = limit if rng.random() < 0.5 else np.rint(limit)
    conditions.append(LinearBounds(matrix.astype(float), limit, limit + width))
    if FEW and rng.random() < 0.4:
        conditions.append(AtMost(int(rng.integers(1, len(blocks) + 1)), tuple(blocks)))
    weights = rng.choice([1.0, 2.0, 0.5], size=d) if rng.random() < 0.5 else rng.uniform(0.1, 3, d)
    absolute, quadratic = np.array(weights), np.zeros(d)
    if rng.random() < 0.5:
        absolute[:numbers], quadratic[:numbers] = 0.0, weights[:numbers]
    for block in blocks[numbers:]:
        absolute[block] = weights[block.start] / 2.0
    program = Program(Price(absolute, quadratic), Region(tuple(conditions)))
    points = [np.concatenate([np.atleast_1d(v) for v in chosen]) for chosen in product(*choices)]
    return Problem(program, x[None], np.array(points).reshape(-1, d))


def least(one: Problem) -> float:
    """By brute force."""
    if not len(one.points):
        return np.inf
    x = np.repeat(one.x, len(one.points), axis=0)
    met = one.program.region.violation(one.points, x) <= 1e-12
    return float(one.program.price(one.points - x)[met].min(initial=np.inf))


def check(seed: int) -> tuple[str, int]:
    one = problem(np.random.default_rng(seed))
    solver, cases = Knapsacks(one.program), one.program.cases(one.x)
    found, best = solver.solve(cases, Effort()), least(one)
    assert found.proof is not None
    bound = float(proved(one.program, cases, found.proof)[0])
    assert bound <= best * (1.0 + 1e-12), (seed, bound, best)
    assert found.reported[0] <= best * (1.0 + 1e-9), (seed, found.reported, best)
    if found.outcomes[0] == Outcome.LIMIT:
        return "limit", len(found.proof.row)
    if np.isinf(best):
        assert found.outcomes[0] == Outcome.INFEASIBLE, seed
    else:
        assert found.outcomes[0] == Outcome.FOUND, seed
        assert one.program.violation(found.points, one.x)[0] <= 1e-9, seed
        assert one.program.price(found.points - one.x)[0] == pytest.approx(best, rel=1e-9), seed
    closed = bound >= best * (1.0 - 1e-8)
    return "proved" if closed else "unproved", len(found.proof.row)


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_it_finds_what_brute_force_finds_and_proves_it(start: int):
    assert {check(seed)[0] for seed in range(start, start + 50)} == {"proved"}


@pytest.mark.slow
def test_it_finds_what_brute_force_finds_of_thousands():
    assert {check(seed)[0] for seed in range(1000, 5000)} == {"proved"}
