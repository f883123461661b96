"""Branch and bound over knapsacks: against brute force, and every proof against tampering."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.families.additive import solver as knapsacks
from counterpoint.families.additive.curves import Curve
from counterpoint.families.additive.dual import inverted
from counterpoint.families.additive.knapsack import Knapsack, KnapsackLagrangian, KnapsackRows
from counterpoint.families.additive.repair import repaired
from counterpoint.families.additive.solver import Knapsacks
from counterpoint.families.additive.sums import SumBounds, lifted
from counterpoint.problem.costs import EncodedCost, PercentileCost, TransitionCost
from counterpoint.programs.conditions import AtMost, Box, Cone, LinearBounds, OneOf, Whole
from counterpoint.programs.program import Program
from counterpoint.programs.proof import Proof, proved
from counterpoint.programs.region import Condition, Region
from counterpoint.solvers import Effort, Outcome
from counterpoint.solvers.branching import Branching


class Problem(NamedTuple):
    program: Program
    x: np.ndarray
    """(1, d)."""
    points: np.ndarray
    """(m, d) every point of the domain."""


def random_curves(rng: np.random.Generator) -> list[Curve]:
    """Bins, a parabola and cubics: one or two of them."""
    starts = np.append(-np.inf, np.sort(rng.integers(-8, 9, size=3) / 2.0 + [0.0, 0.25, 0.125]))
    made = [
        Curve.steps(starts, rng.normal(size=(4, 2))),
        Curve.polynomial(rng.normal(size=3), 0.5),
        Curve(starts, 0.1 * rng.normal(size=(4, 1, 4)), np.append(0.0, starts[1:])),
    ]
    return [made[i] for i in rng.choice(3, size=int(rng.integers(1, 3)), replace=False)]


def tables(
    rng: np.random.Generator, numbers: int, blocks: list[slice]
) -> list[TransitionCost | PercentileCost]:
    """Levels of some numbers, and costs by pair of some categories."""
    out: list[TransitionCost | PercentileCost] = []
    for j in np.flatnonzero(rng.random(numbers) < 0.7).tolist():
        knots = np.unique(rng.integers(-6, 7, size=int(rng.integers(1, 6))) / 2.0)
        slopes = rng.uniform(1.0, 8.0, size=len(knots) + 1)
        out.append(PercentileCost(j, knots, slopes / slopes.min()))
    for block in blocks:
        size = block.stop - block.start
        if rng.random() < 0.7:
            out.append(
                TransitionCost(block, rng.uniform(0.1, 3.0, (size, size)) * (1.0 - np.eye(size)))
            )
    return out


def problem(rng: np.random.Generator, *, curves: bool = False, priced: bool = False) -> Problem:
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
    if curves and numbers:
        bent = tuple((int(rng.integers(numbers)), curve) for curve in random_curves(rng))
        more = rng.normal(size=(some, sum(curve.outputs for _, curve in bent)))
        rows = np.hstack([matrix.astype(float), more])
        limit = lifted(bent, x[None])[0] @ rows.T + rng.normal(0.5, 2.0, size=some)
        conditions.append(SumBounds(LinearBounds(rows, limit, limit + width), bent))
    else:
        conditions.append(LinearBounds(matrix.astype(float), limit, limit + width))
    if rng.random() < 0.4 and not curves:
        conditions.append(AtMost(int(rng.integers(1, len(blocks) + 1)), tuple(blocks)))
    weights = rng.choice([1.0, 2.0, 0.5], size=d) if rng.random() < 0.5 else rng.uniform(0.1, 3, d)
    absolute, quadratic = np.array(weights), np.zeros(d)
    if rng.random() < 0.5:
        absolute[:numbers], quadratic[:numbers] = 0.0, weights[:numbers]
    for block in blocks[numbers:]:
        absolute[block] = weights[block.start] / 2.0
    some_tables = tables(rng, numbers, blocks[numbers:]) if priced else []
    for table in some_tables:
        if isinstance(table, TransitionCost):
            costs = table.costs[table.costs > 0.0]
            absolute[table.columns] = 0.5 * costs.min(initial=np.inf)
        else:
            absolute[table.column], quadratic[table.column] = weights[table.column], 0.0
    program = Program(
        EncodedCost(absolute, quadratic, tuple(some_tables)), Region(tuple(conditions))
    )
    points = [np.concatenate([np.atleast_1d(v) for v in chosen]) for chosen in product(*choices)]
    return Problem(program, x[None], np.array(points).reshape(-1, d))


def least_of(one: Problem) -> float:
    """By brute force."""
    if not len(one.points):
        return np.inf
    x = np.repeat(one.x, len(one.points), axis=0)
    satisfied = one.program.region.violation(one.points, x) <= 1e-12
    return float(one.program.encoded_cost(one.points, x)[satisfied].min(initial=np.inf))


def check(seed: int, *, curves: bool = False, priced: bool = False) -> tuple[str, int]:
    one = problem(np.random.default_rng(seed), curves=curves, priced=priced)
    solver, cases = Knapsacks(one.program), one.program.cases(one.x)
    found, best = solver.solve(cases, Effort()), least_of(one)
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
        assert one.program.encoded_cost(found.points, one.x)[0] == pytest.approx(best, rel=1e-9), (
            seed
        )
    closed = bound >= best * (1.0 - 1e-8)
    return "proved" if closed else "unproved", len(found.proof.row)


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_it_finds_what_brute_force_finds_and_proves_it(start: int):
    assert {check(seed)[0] for seed in range(start, start + 50)} == {"proved"}


def test_a_limit_of_time_leaves_rows_to_others():
    """The first rows are searched, and then the clock is looked at."""
    one = problem(np.random.default_rng(0))
    cases = one.program.cases(np.repeat(one.x, 40, axis=0))
    found = Knapsacks(one.program).solve(cases, Effort(seconds=1e-12))
    assert found.outcomes[-1] == Outcome.LIMIT
    assert found.proof is not None
    assert proved(one.program, cases, found.proof)[-1] == 0.0


@pytest.mark.parametrize("start", range(0, 100, 50))
def test_so_it_does_where_columns_are_bent(start: int):
    assert {check(seed, curves=True)[0] for seed in range(start, start + 50)} == {"proved"}


@pytest.mark.parametrize("curves", [False, True])
def test_so_it_does_where_prices_are_tables(*, curves: bool):
    assert {check(seed, curves=curves, priced=True)[0] for seed in range(40)} == {"proved"}


@pytest.mark.parametrize("changes", [None, 1, 2])
def test_numbers_priced_by_level(changes: int | None):
    """All but one number are where their level bends, at an end or stay; that one does the rest."""
    for seed in range(12):
        rng, d = np.random.default_rng(seed), 3
        x, row = rng.normal(size=(1, d)), rng.normal(size=d)
        low, high, free = x[0] - 2.0, x[0] + 2.0, np.full(d, np.inf)
        levels = []
        for j in range(d):
            slopes = rng.uniform(1.0, 9.0, size=5)
            levels.append(PercentileCost(j, np.sort(rng.normal(size=4)), slopes / slopes.min()))
        least = float(row @ x[0] + rng.uniform(0.2, 2.0) * np.abs(row).sum())
        limit = LinearBounds(row[None], np.array([least]), np.array([np.inf]))
        most = (
            [] if changes is None else [AtMost(changes, tuple(slice(j, j + 1) for j in range(d)))]
        )
        region = Region((limit, Box(low, high, -free, free), *most))
        program = Program(EncodedCost(rng.uniform(0.5, 2.0, d), np.zeros(d), tuple(levels)), region)
        ends = [np.array([low[j], high[j], x[0, j], *levels[j].knots]) for j in range(d)]
        points = []
        for j in range(d):
            others = np.delete(np.arange(d), j)
            for chosen in product(*(ends[k] for k in others)):
                y = np.zeros(d)
                y[others] = chosen
                y[j] = (least - row @ y) / row[j]
                points += [y, np.where(np.arange(d) == j, x[0, j], y)]
        best = least_of(Problem(program, x, np.clip(points, low, high)))
        cases = program.cases(x)
        found = Knapsacks(program).solve(cases, Effort())
        assert found.proof is not None
        bound = float(proved(program, cases, found.proof)[0])
        assert bound <= best * (1.0 + 1e-9), seed
        if np.isfinite(best):
            assert program.encoded_cost(found.points, x)[0] == pytest.approx(best, rel=1e-8), seed
        assert bound >= best * (1.0 - 1e-8), seed


@pytest.mark.slow
@pytest.mark.parametrize("priced", [False, True])
def test_it_finds_what_brute_force_finds_of_thousands(*, priced: bool):
    found = Counter(check(seed, priced=priced)[0] for seed in range(1000, 5000))
    assert set(found) <= {"proved", "unproved"}
    assert found["unproved"] <= 4  # reported alone, and right


@pytest.mark.parametrize("seed", range(4))
def test_relations_that_are_only_just_met_are_no_obstacle_to_a_proof(seed: int):
    """What they lack is next to nothing, so that to miss them must not count without end."""
    rng, pairs = np.random.default_rng(seed), 5
    d = 2 * pairs
    rows = np.vstack([rng.normal(size=d), -np.repeat(np.eye(pairs), 2, axis=1)])
    low = np.append(0.6 * np.maximum(rows[0], 0.0).sum(), -np.ones(pairs))
    box = Box(np.zeros(d), np.ones(d), np.full(d, -np.inf), np.full(d, np.inf))
    demands = LinearBounds(rows, low, np.full(len(low), np.inf))
    region = Region((demands, Whole(np.arange(d), np.ones(d)), box))
    program = Program(EncodedCost(rng.uniform(0.3, 1.0, d), np.zeros(d)), region)
    x = np.tile([1.0, 0.0], pairs)[None]
    points = np.array(list(product([0.0, 1.0], repeat=d)))
    best = least_of(Problem(program, x, points))
    cases = program.cases(x)
    found = Knapsacks(program).solve(cases, Effort())
    assert found.proof is not None
    bound = float(proved(program, cases, found.proof)[0])
    assert best * (1.0 - 1e-8) <= bound <= best * (1.0 + 1e-12) or bound == best


def test_a_demand_that_all_together_only_just_meet_is_met():
    """The sum in the other order may be an ulp below: that is rounding, and no refutation."""
    rng, d = np.random.default_rng(0), 4
    for _ in range(20):
        row, most = rng.uniform(0.1, 1.0, size=d), rng.integers(1, 5, size=d).astype(float)
        total = float((row * most).sum())
        low = np.array([np.nextafter(total, np.inf)])
        box = Box(np.zeros(d), most, np.full(d, -np.inf), np.full(d, np.inf))
        demand = LinearBounds(row[None], low, np.array([np.inf]))
        region = Region((demand, Whole(np.arange(d), np.ones(d)), box))
        program = Program(EncodedCost(np.ones(d), np.zeros(d)), region)
        found = Knapsacks(program).solve(program.cases(np.zeros((1, d))), Effort())
        assert found.outcomes[0] == Outcome.FOUND
        assert found.points[0].tolist() == most.tolist()


def test_no_replacement_changes_more_features_than_may():
    """Of two categories one has changed; to change the other too is cheaper, and one too many."""
    groups = (OneOf(slice(0, 2)), OneOf(slice(2, 5)))
    blocks = (slice(0, 2), slice(2, 5))
    demand = LinearBounds(
        np.array([[0.0, 2.0, 0.0, 1.0, 3.0]]), np.array([3.0]), np.array([np.inf])
    )
    encoded_cost = EncodedCost(np.array([0.5, 0.5, 2.0, 2.0, 9.0]), np.zeros(5))
    program = Program(encoded_cost, Region((demand, *groups, AtMost(1, blocks))))
    cases = program.cases(np.array([[1.0, 0.0, 1.0, 0.0, 0.0]]))
    rows = KnapsackRows(Knapsack(program), cases)
    boxes = KnapsackLagrangian(rows, rows.boxes)
    points = boxes.points(np.zeros((1, 0)), np.array([[0, 1]]))
    after = repaired(boxes, points)
    assert boxes.satisfied(after).all()
    assert after.choice.tolist() == [[0, 2]]


def of_scip(program: Program, x: np.ndarray) -> float:
    """The optimum of a program of whole columns and categories from (d,) a point, by SCIP."""
    pyscipopt = pytest.importorskip("pyscipopt")
    model, box = pyscipopt.Model(), program.cases(x[None])
    model.hideOutput()
    model.setParam("limits/gap", 0.0)
    model.setParam("numerics/feastol", 1e-9)
    units = np.where(program.domain.steps > 0.0, program.domain.steps, 1.0)
    ends = np.stack([box.low[0], box.high[0]], axis=1) - x[:, None]
    moves = [
        model.addVar(vtype="I", lb=low, ub=high)
        for low, high in np.rint(ends / units[:, None]).tolist()
    ]
    sizes, paid = [model.addVar(lb=0.0) for _ in moves], model.addVar(lb=0.0)
    for size, move in zip(sizes, moves, strict=True):
        model.addCons(size >= move)
        model.addCons(size >= -move)
    delta = [unit * move for unit, move in zip(units.tolist(), moves, strict=True)]
    rows, short = program.affine.matrix, program.affine.low - program.affine.matrix @ x
    for row, low in zip(rows.tolist(), short.tolist(), strict=True):
        gained = (gain * change for gain, change in zip(row, delta, strict=True))
        model.addCons(pyscipopt.quicksum(gained) >= low)
    for group in program.domain.groups:
        model.addCons(pyscipopt.quicksum(moves[group]) == 0)
    encoded_cost = program.encoded_cost
    absolute, quadratic = (
        (encoded_cost.absolute * units).tolist(),
        (encoded_cost.quadratic * units**2).tolist(),
    )
    cost = pyscipopt.quicksum(
        a * size + q * move * move
        for a, q, size, move in zip(absolute, quadratic, sizes, moves, strict=True)
    )
    model.addCons(paid >= cost)
    model.setObjective(paid)
    model.optimize()
    return float(model.getObjVal()) if model.getStatus() == "optimal" else np.inf


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_it_finds_what_scip_finds(seed: int):
    """Twelve whole columns and three groups: more points than could be listed."""
    rng, numbers, groups = np.random.default_rng(seed), 12, 3
    d, some = numbers + 4 * groups, 1 + seed % 4
    blocks = [slice(numbers + 4 * g, numbers + 4 * g + 4) for g in range(groups)]
    none, low, high = np.full(d, np.inf), np.full(d, -np.inf), np.full(d, np.inf)
    low[:numbers], high[:numbers] = -6.0, 6.0
    matrix, x = rng.normal(size=(some, d)), np.zeros((1, d))
    x[0, :numbers] = rng.integers(-3, 4, numbers)
    x[0, [block.start for block in blocks]] = 1.0
    rows = LinearBounds(matrix, matrix @ x[0] + rng.uniform(0.5, 4.0, some), np.full(some, np.inf))
    weights = rng.uniform(0.2, 2.0, d)
    weights[numbers:] = np.repeat(weights[numbers::4], 4)
    square = np.where((np.arange(d) < numbers) & (seed % 2 == 1), weights, 0.0)
    conditions = Whole(np.arange(numbers), np.ones(numbers)), Box(low, high, -none, none)
    region = Region((rows, *conditions, *map(OneOf, blocks)))
    program = Program(EncodedCost(np.where(square > 0.0, 0.0, weights), square), region)
    cases, best = program.cases(x), of_scip(program, x[0])
    found = Knapsacks(program).solve(cases, Effort())
    assert found.proof is not None
    assert program.encoded_cost(found.points, x)[0] == pytest.approx(best, rel=1e-6)
    assert proved(program, cases, found.proof)[0] >= best * (1.0 - 1e-6)


def metric(rng: np.random.Generator, program: Program) -> EncodedCost:
    """A price by a full matrix over the numbers; categories as they are."""
    some = np.flatnonzero(program.domain.numeric)
    root, quadratic = rng.normal(size=(len(some), len(some))), np.zeros((program.width,) * 2)
    quadratic[np.ix_(some, some)] = root @ root.T + 0.2 * np.eye(len(some))
    return EncodedCost(
        np.where(program.domain.numeric, 0.0, program.encoded_cost.absolute), quadratic
    )


def branched(seed: int, *, full: bool) -> tuple[Problem, Proof | None, float, float]:
    """A problem within a ball, or at a full price; its tree, what that proves, what is reported."""
    rng = np.random.default_rng(seed)
    one = problem(rng)
    around = one.x[0] + np.random.default_rng(seed).normal(size=one.x.shape[1])
    ball = Region(() if full else (Cone(np.eye(len(around)), -around, 4.0),))
    encoded_cost = metric(rng, one.program) if full else one.program.encoded_cost
    one = one._replace(program=Program(encoded_cost, one.program.region & ball))
    cases = one.program.cases(one.x)
    found = Branching(one.program).solve(cases, Effort())
    bound = np.zeros(1) if found.proof is None else proved(one.program, cases, found.proof)
    return one, found.proof, float(bound[0]), float(found.reported[0])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("start", range(0, 60, 30))
def test_a_branch_and_bound_leaves_a_proof_too(start: int, *, full: bool):
    trees = 0
    for seed in range(start, start + 30):
        one, tree, bound, reported = branched(seed, full=full)
        best = least_of(one)
        assert bound <= best * (1.0 + 1e-12), (seed, bound, best)
        if tree is not None:
            assert bound >= reported * (1.0 - 1e-12), seed
            trees += 1
    assert trees >= 25


@pytest.mark.parametrize("full", [False, True])
def test_its_proof_is_refused_or_still_true_when_it_is_tampered_with(*, full: bool):
    rng, refused = np.random.default_rng(0), 0
    for seed in range(20):
        one, tree, own, _ = branched(seed, full=full)
        best, cases = least_of(one), one.program.cases(one.x)
        for _ in range(20 if tree is not None and len(tree.row) > 2 else 0):
            assert tree is not None
            bound = float(proved(one.program, cases, tampered(rng, tree))[0])
            assert bound <= best * (1.0 + 1e-12), (seed, bound, best)
            refused += bound < own * (1.0 - 1e-8)
    assert refused > 30


@pytest.mark.parametrize("seed", range(30))
def test_several_demands_on_columns_without_an_end_are_proved_too(seed: int):
    """The tree begins with the whole domain, of which the price alone excludes what is far."""
    rng = np.random.default_rng(seed)
    d, some = 3, int(rng.integers(2, 4))
    matrix = rng.integers(-3, 4, (some, d)).astype(float)
    at = rng.integers(-4, 5, d).astype(float)
    rows = LinearBounds(matrix, matrix @ at - rng.uniform(0, 1, some), np.full(some, np.inf))
    nonlinear = rng.random(d) < 0.3
    weights = rng.uniform(0.1, 3.0, d)
    encoded_cost = EncodedCost(np.where(nonlinear, 0.0, weights), np.where(nonlinear, weights, 0.0))
    program = Program(encoded_cost, Region((rows, Whole(np.arange(d), np.ones(d)))))
    points = np.array(list(product(np.arange(-20.0, 21.0), repeat=d)))
    best = least_of(Problem(program, np.zeros((1, d)), points))
    cases = program.cases(np.zeros((3, d)))
    found = Knapsacks(program).solve(cases, Effort())
    assert found.proof is not None
    assert found.proof.take(np.array([2])).root[0] == 0
    bound = proved(program, cases, found.proof)
    assert (found.outcomes == Outcome.FOUND).all()
    assert (bound <= best * (1.0 + 1e-12)).all()
    assert (bound >= best * (1.0 - 1e-8)).all()
    low = np.array(found.proof.low)
    low[found.proof.root[0]] = 0.0  # a part of the domain
    assert proved(program, cases, found.proof._replace(low=low))[0] == 0.0


def test_columns_without_an_end_are_searched_as_far_as_a_cost_reaches():
    """.6 in the one that bends costs 5.76, and 1 in the other 7."""
    rows = LinearBounds(np.array([[0.0, 1.0, 1.0]]), np.array([0.96]), np.array([np.inf]))
    bent = SumBounds(rows, ((0, Curve.polynomial([0.0, 1.0, 1.0])),))
    region = Region((bent, Whole(np.array([1]), np.ones(1))))
    program = Program(EncodedCost(np.zeros(2), np.array([16.0, 7.0])), region)
    cases = program.cases(np.zeros((1, 2)))
    found = Knapsacks(program).solve(cases, Effort())
    assert found.proof is not None
    assert found.points[0] == pytest.approx([0.6, 0.0], abs=1e-5)
    assert proved(program, cases, found.proof)[0] == pytest.approx(5.76, rel=1e-5)


def test_a_mixture_is_an_answer_where_no_more_change_than_may():
    """Two demands on continuous columns beside a whole one: both change, in shares."""
    matrix = np.array([[2.0, 1.0, 0.1], [1.0, 2.0, 0.1]])
    rows = LinearBounds(matrix, np.array([3.0, 3.0]), np.full(2, np.inf))
    none, blocks = np.full(3, np.inf), tuple(slice(j, j + 1) for j in range(3))
    box = Box(np.zeros(3), np.full(3, 9.0), -none, none)
    whole = Whole(np.array([2]), np.ones(1))
    program = Program(
        EncodedCost(np.ones(3), np.zeros(3)), Region((rows, whole, box, AtMost(2, blocks)))
    )
    cases = program.cases(np.zeros((1, 3)))
    found = Knapsacks(program).solve(cases, Effort())
    assert found.outcomes[0] == Outcome.FOUND
    assert found.points[0] == pytest.approx([1.0, 1.0, 0.0])
    assert found.proof is not None
    assert proved(program, cases, found.proof)[0] == pytest.approx(2.0, rel=1e-8)


@pytest.mark.parametrize("cost", [None, cp.SquaredEuclidean([1.0, 0.5, 0.2, 1.0, 2.0])])
def test_twenty_classes_over_whole_steps_are_proved(cost: cp.Cost | None):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, (600, 5))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(X, ((X - 5.5) @ rng.normal(size=(5, 20))).argmax(axis=1))
    answers = cp.Explainer(model, data=X, cost=cost).explain(X[:12], int(model.classes_[-1]))
    assert len(model.classes_) > 12
    assert {*answers.report()["claim"]} == {"proved"}


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_with_few_changes_of_columns_without_an_end_are_proved(seed: int):
    """Where as many change as may, the others stay, and their missing ends loosen no bound."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 15, (300, 2)), rng.normal(size=(300, 2))])
    score = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=(4, 4))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, score.argmax(axis=1))
    kinds = [cp.Integer("x0"), cp.Integer("x1"), cp.Continuous("x2"), cp.Continuous("x3")]
    few, rows = [cp.MaxChanges(2)], X[model.predict(X) != 1][:6]
    explainer = cp.Explainer(model, features=kinds, constraints=few, cost=cp.Manhattan())
    answers = explainer.explain(rows, cp.Probability(1, 0.6))
    assert {*answers.report()["claim"]} == {"proved"}


# Tampering


FIELDS = ("row", "low", "high", "forced", "multipliers", "children", "root", "ceiling")


def tampered(rng: np.random.Generator, proof: Proof) -> Proof:
    """A proof with an entry of some field changed."""
    name = str(rng.choice(FIELDS))
    part = np.array(getattr(proof, name))
    if not part.size:
        return proof
    at = np.unravel_index(int(rng.integers(part.size)), part.shape)
    if part.dtype == np.bool_:
        part[at] = ~part[at]
    elif part.dtype.kind == "i":
        part[at] = rng.integers(-2, len(proof.row) + 2) if name != "row" else 0
    else:
        change = rng.choice([0.0, np.inf, -np.inf, np.nan, 1e300, part[at] + 1.0, -part[at]])
        part[at] = change if rng.random() < 0.5 else part[at] + rng.normal()
    return proof._replace(**{name: part})


@pytest.mark.parametrize("kind", ["plain", "curves", "priced"])
@pytest.mark.parametrize("times", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_tampered_proof_is_refused_or_still_true(times: int, kind: str):
    rng, changed, seed, refused = np.random.default_rng(0), 0, 0, 0
    while changed < times:
        own_kind = {} if kind == "plain" else {kind: True}
        one = problem(np.random.default_rng(seed), **own_kind)
        seed += 1
        cases, best = one.program.cases(one.x), least_of(one)
        proof = Knapsacks(one.program).solve(cases, Effort()).proof
        assert proof is not None
        own = float(proved(one.program, cases, proof)[0])
        if len(proof.row) < 3:
            continue
        for _ in range(20):
            bound = float(proved(one.program, cases, tampered(rng, proof))[0])
            assert bound <= best * (1.0 + 1e-12), (seed, bound, best)
            refused += bound < own * (1.0 - 1e-8)
            changed += 1
    assert refused > 0.3 * times


def test_the_trees_of_some_rows_are_those_of_each():
    one = problem(np.random.default_rng(12))
    x = np.repeat(one.x, 4, axis=0)
    cases = one.program.cases(x)
    proof = Knapsacks(one.program).solve(cases, Effort()).proof
    assert proof is not None
    whole = proved(one.program, cases, proof)
    some = np.array([2, 0])
    assert (proved(one.program, cases.take(some), proof.take(some)) == whole[some]).all()


def test_no_tree_reaches_into_that_of_another_row():
    """A row whose inner nodes have the leaves of another row would have no leaf that costs less."""
    for seed in range(40):
        one = problem(np.random.default_rng(seed))
        cases = one.program.cases(np.repeat(one.x, 2, axis=0))
        proof = Knapsacks(one.program).solve(cases, Effort()).proof
        assert proof is not None
        endless = proof._replace(ceiling=np.full(2, np.inf))
        if (proof.row == 0).sum() < 3 or not proved(one.program, cases, endless).all():
            continue  # nothing is excluded by a ceiling
        below = (proof.row == 0) & (np.arange(len(proof.row)) != proof.root[0])
        lent = endless._replace(row=np.where(below, 1, proof.row))
        assert proved(one.program, cases, lent)[0] == 0.0
        alien = endless._replace(row=np.ones_like(proof.row), root=proof.root[[1, 1]])
        assert proved(one.program, cases, alien)[0] == 0.0
        children = np.array(proof.children)
        children[proof.root[0]] = proof.root[0]  # its own parts
        assert proved(one.program, cases, lent._replace(children=children))[0] == 0.0
        return
    raise AssertionError("no tree is to be lent")


def test_two_parts_leave_out_no_whole_number_between_them():
    cut, seed = 0, 0
    while cut < 12 and seed < 300:
        one, seed = problem(np.random.default_rng(seed)), seed + 1
        cases, steps = one.program.cases(one.x), one.program.domain.steps
        proof = Knapsacks(one.program).solve(cases, Effort()).proof
        assert proof is not None
        if not proved(one.program, cases, proof)[0] > 0.0:
            continue
        for node in np.flatnonzero((proof.children >= 0).all(axis=1))[:12]:
            left, right = proof.children[node]
            for one_part, other in ((left, right), (right, left)):
                apart = (proof.high[other] < proof.low[one_part]) & (steps > 0.0)
                for j in np.flatnonzero(apart):
                    low = np.array(proof.low)
                    low[one_part, j] += steps[j]
                    assert proved(one.program, cases, proof._replace(low=low))[0] == 0.0
                    cut += 1
    assert cut >= 12


def split_in_two(
    program: Program, ends: tuple[list[float], list[float]], multipliers: list[Any], ceiling: float
) -> float:
    """What a tree proves of 0 to 5 in each column whose two leaves are both of some values alone.

    The multipliers are those of the root, and of the leaves.
    """
    low, high = np.zeros((3, program.width)), np.full((3, program.width), 5.0)
    cases = program.cases(np.zeros((1, program.width))).within(low[:1], high[:1])
    low[1:], high[1:] = ends
    root, leaf = multipliers
    nodes = np.zeros(3, dtype=np.intp), low, high, np.zeros(low.shape, dtype=bool)
    children = np.array([[1, 2], [-1, -1], [-1, -1]])
    every = np.array([root, leaf, leaf]), children, np.zeros(1, dtype=np.intp)
    return float(proved(program, cases, Proof(*nodes, *every, np.array([ceiling])))[0])


def test_no_proof_leaves_out_that_a_column_stays_where_changes_are_counted():
    """If the first stays, the second may change instead, for 5; the first alone costs 6.5."""
    rows = LinearBounds(np.array([[2.0, 1.8]]), np.array([8.9]), np.array([np.inf]))
    one = AtMost(1, (slice(0, 1), slice(1, 2)))
    region = Region((rows, Whole(np.arange(2), np.ones(2)), one))
    program = Program(EncodedCost(np.array([1.3, 1.0]), np.zeros(2)), region)
    everything, changed = ([0.0, 0.0], [5.0, 5.0]), ([1.0, 0.0], [5.0, 5.0])
    assert split_in_two(program, everything, [[-1.0], [-1.0]], 8.0) > 4.0
    assert split_in_two(program, changed, [[-1.0], [-0.65]], 8.0) <= 5.0


def test_no_proof_leaves_out_that_a_category_stays_where_changes_are_counted():
    """If it stays, the number may change instead, for 5; the other category costs 6.5."""
    rows = LinearBounds(np.array([[0.0, 10.0, 1.8]]), np.array([8.9]), np.array([np.inf]))
    one, numbers = AtMost(1, (slice(0, 2), slice(2, 3))), Whole(np.array([2]), np.ones(1))
    program = Program(
        EncodedCost(np.array([0.0, 6.5, 1.0]), np.zeros(3)),
        Region((rows, numbers, OneOf(slice(0, 2)), one)),
    )
    low, high = np.zeros((3, 3)), np.tile([1.0, 1.0, 5.0], (3, 1))
    cases = program.cases(np.array([[1.0, 0.0, 0.0]])).within(low[:1], high[:1])
    high[1:, 0] = 0.0
    nodes = np.zeros(3, dtype=np.intp), low, high, np.zeros((3, 3), dtype=bool)
    every = -np.array([[1.0], [0.65], [0.65]]), np.array([[1, 2], [-1, -1], [-1, -1]])
    proof = Proof(*nodes, *every, np.zeros(1, dtype=np.intp), np.array([8.0]))
    assert proved(program, cases, proof)[0] <= 5.0


def test_the_others_stay_only_where_all_that_may_change_do():
    """1 and 4 cost 5.3; the first alone 6.5; the second alone does not suffice."""
    rows = LinearBounds(np.array([[2.0, 1.8]]), np.array([8.9]), np.array([np.inf]))
    high = np.array([[5.0, 4.0], [0.0, 4.0], [5.0, 4.0]])
    forced = np.array([[False, False], [False, False], [True, False]])
    for count, least in ((1, 5.78), (2, 4.9)):
        few = AtMost(count, (slice(0, 1), slice(1, 2)))
        region = Region((rows, Whole(np.arange(2), np.ones(2)), few))
        program = Program(EncodedCost(np.array([1.3, 1.0]), np.zeros(2)), region)
        cases = program.cases(np.zeros((1, 2))).within(np.zeros((1, 2)), high[:1])
        nodes = np.zeros(3, dtype=np.intp), np.zeros((3, 2)), high, forced
        every = -np.array([[0.0], [1.0], [0.65]]), np.array([[1, 2], [-1, -1], [-1, -1]])
        proof = Proof(*nodes, *every, np.zeros(1, dtype=np.intp), np.array([np.inf]))
        assert least <= proved(program, cases, proof)[0] <= (6.5 if count == 1 else 5.3)


def test_beside_a_part_in_which_a_column_changes_one_holds_that_it_stays():
    """The second alone costs 5, the first alone 6.5."""
    rows = LinearBounds(np.array([[2.0, 1.8]]), np.array([8.9]), np.array([np.inf]))
    one = AtMost(1, (slice(0, 1), slice(1, 2)))
    region = Region((rows, Whole(np.arange(2), np.ones(2)), one))
    program = Program(EncodedCost(np.array([1.3, 1.0]), np.zeros(2)), region)
    high, forced = np.full((3, 2), 5.0), np.zeros((3, 2), dtype=bool)
    cases = program.cases(np.zeros((1, 2))).within(np.zeros((1, 2)), high[:1])
    forced[2, 0] = True
    for begin in (0.0, 1.0):
        low = np.array([[0.0, 0.0], [begin, 0.0], [0.0, 0.0]])
        nodes = np.zeros(3, dtype=np.intp), low, high, forced
        every = -np.array([[0.0], [0.65], [0.65]]), np.array([[1, 2], [-1, -1], [-1, -1]])
        proof = Proof(*nodes, *every, np.zeros(1, dtype=np.intp), np.array([np.inf]))
        assert proved(program, cases, proof)[0] <= 5.0


def test_what_takes_the_place_of_another_change_excludes_more():
    """5 in the first cost 6.5, and the second may not change then, which takes 4."""
    rows = LinearBounds(np.array([[0.0, 1.8]]), np.array([8.9]), np.array([np.inf]))
    one = AtMost(1, (slice(0, 1), slice(1, 2)))
    region = Region((rows, Whole(np.arange(2), np.ones(2)), one))
    program = Program(EncodedCost(np.array([1.3, 1.0]), np.zeros(2)), region)
    for ceiling, bound in ((15.0, 4.9), (16.0, 0.0)):
        least = split_in_two(program, ([0.0, 0.0], [4.0, 5.0]), [[-1.0], [-1.0]], ceiling)
        assert least == pytest.approx(bound)


def test_rounding_excludes_no_value_that_costs_less_than_the_ceiling():
    """Only 3 is possible, and costs 3; multipliers that cancel out lose most digits."""
    low, high = np.array([3.0, -np.inf, 3.0]), np.array([np.inf, 3.0, np.inf])
    region = Region((LinearBounds(np.ones((3, 1)), low, high), Whole(np.arange(1), np.ones(1))))
    program = Program(EncodedCost(np.ones(1), np.zeros(1)), region)
    multipliers = [[-0.9, 1e9, -1e9], [-1.0, 0.0, 0.0]]
    assert split_in_two(program, ([0.0], [2.0]), multipliers, 2.99) == 2.99
    for excess in (1e-8, 1e-6, 1e-5):
        assert split_in_two(program, ([0.0], [2.0]), multipliers, 3.0 + excess) <= 3.0


def test_a_category_without_a_value_left_has_no_answer():
    group, d = slice(1, 4), 4
    rows = LinearBounds(np.array([[1.0, 0.0, 2.0, 5.0]]), np.array([4.0]), np.array([np.inf]))
    region = Region((rows, Whole(np.arange(1), np.ones(1)), OneOf(group)))
    program = Program(EncodedCost(np.ones(d), np.zeros(d)), region)
    x = np.tile([0.0, 1.0, 0.0, 0.0], (200, 1))
    low, high = np.zeros((200, d)), np.full((200, d), 9.0)
    high[:, 1:] = 0.0
    cases = program.cases(x).within(low, high)
    found = Knapsacks(program).solve(cases, Effort())
    assert (found.outcomes == Outcome.INFEASIBLE).all()
    assert found.proof is not None
    assert np.isposinf(proved(program, cases, found.proof)).all()


def test_a_batch_of_no_rows_has_no_answers():
    one = problem(np.random.default_rng(12))
    none = one.program.cases(one.x[:0])
    assert not len(Knapsacks(one.program).solve(none, Effort()).points)


@pytest.mark.parametrize("nodes", [10_000, 3, 6])
def test_a_row_is_answered_alone_as_in_a_batch(nodes: int, monkeypatch: pytest.MonkeyPatch):
    """Where a row takes too many nodes, those after it begin as if it had not been."""
    monkeypatch.setattr(knapsacks, "NODES", nodes)
    for seed in range(40):
        one = problem(np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        shift = np.where(one.program.domain.numeric, one.program.domain.steps, 0.0) * rng.integers(
            -2, 3
        )
        x = np.vstack([one.x + shift, one.x, one.x - shift, one.x])
        solver = Knapsacks(one.program)
        together = solver.solve(one.program.cases(x), Effort())
        for i in range(4):
            alone = solver.solve(one.program.cases(x[i : i + 1]), Effort())
            assert alone.outcomes[0] == together.outcomes[i]
            assert np.array_equal(alone.points[0], together.points[i], equal_nan=True)
            assert alone.reported[0] == together.reported[i]


def test_a_singular_basis_costs_no_other_row_its_bound():
    """Its own inverse is one by least squares; those of the others are as without it."""
    matrix = np.random.default_rng(0).normal(size=(5, 3, 3))
    expected = np.linalg.inv(matrix)
    matrix[2] = 1.0
    inverse, others = inverted(matrix), np.arange(5) != 2
    assert (inverse[others] == expected[others]).all()
    assert np.allclose(inverse[2], 1.0 / 9.0)
