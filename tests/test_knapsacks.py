"""Branch and bound over knapsacks: against brute force, and every proof against tampering."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler

import counterpoint as cp
from counterpoint.families.additive import solver as knapsacks
from counterpoint.families.additive.curves import Curve
from counterpoint.families.additive.dual import inverted, repaired
from counterpoint.families.additive.knapsack import Knapsack, KnapsackLagrangian, KnapsackRows
from counterpoint.families.additive.solver import Knapsacks
from counterpoint.families.additive.sums import SumBounds, lifted
from counterpoint.problem.costs import EncodedCost, PercentileCost, TransitionCost
from counterpoint.programs.conditions import AtMost, Box, Cone, LinearBounds, OneOf, Whole
from counterpoint.programs.program import Program
from counterpoint.programs.proof import ProofTrees, SplitKind, proved
from counterpoint.programs.region import Batch, Condition, Region
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
        return "limit", len(found.proof.kind)
    if np.isinf(best):
        assert found.outcomes[0] == Outcome.INFEASIBLE, seed
    else:
        assert found.outcomes[0] == Outcome.FOUND, seed
        assert one.program.violation(found.points, one.x)[0] <= 1e-9, seed
        assert one.program.encoded_cost(found.points, one.x)[0] == pytest.approx(best, rel=1e-9), (
            seed
        )
    closed = bound >= best * (1.0 - 1e-8)
    return "proved" if closed else "unproved", len(found.proof.kind)


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


def branched(seed: int, *, full: bool) -> tuple[Problem, ProofTrees | None, float, float]:
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
        for _ in range(20 if tree is not None and len(tree.kind) > 2 else 0):
            assert tree is not None
            bound = still_proved(one.program, cases, tampered(rng, tree))
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
    assert found.proof.take(np.array([2])).row[0] == 0
    bound = proved(program, cases, found.proof)
    assert (found.outcomes == Outcome.FOUND).all()
    assert (bound <= best * (1.0 + 1e-12)).all()
    assert (bound >= best * (1.0 - 1e-8)).all()
    value = np.array(found.proof.value)
    value[:3] = 0.0  # what the cost alone excludes begins where nothing changes
    bound = still_proved(program, cases, found.proof._replace(value=value))
    assert bound < best or best == 0.0


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


LEAF, NUMBER, SET, CHANGE = SplitKind
FIELDS = ("bound", "kind", "column", "value", "options", "multipliers")


def tampered(rng: np.random.Generator, trees: ProofTrees) -> ProofTrees:
    """Trees with an entry of some field changed, of a node that has one."""
    kind = trees.kind
    used = kind >= 0, kind != LEAF, kind == NUMBER, kind == SET, kind == LEAF
    name, nodes = [*zip(FIELDS, (np.zeros(1) == 0, *used), strict=True)][rng.integers(len(FIELDS))]
    values = np.array(getattr(trees, name))
    if not (nodes.any() and values[nodes].size):
        return tampered(rng, trees)
    at = (int(rng.choice(np.flatnonzero(nodes))), *(int(rng.integers(n)) for n in values.shape[1:]))
    if values.dtype == np.bool_:
        values[at] = ~values[at]
    elif values.dtype.kind == "i":
        values[at] = rng.integers(-2, 9)
    else:
        change = rng.choice([0.0, np.inf, -np.inf, np.nan, 1e300, values[at] + 1.0, -values[at]])
        values[at] = change if rng.random() < 0.5 else values[at] + rng.normal()
    return trees._replace(**{name: values})


def still_proved(program: Program, cases: Batch, trees: ProofTrees) -> float:
    """What trees of one row prove; 0 if they are refused."""
    try:
        return float(proved(program, cases, trees)[0])
    except ValueError:
        return 0.0


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
        if len(proof.kind) < 3:
            continue
        for _ in range(20):
            bound = still_proved(one.program, cases, tampered(rng, proof))
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


@pytest.mark.parametrize("kind", ["plain", "curves", "priced"])
def test_any_other_splits_and_multipliers_prove_nothing_false(kind: str):
    """Trees that no search made: random splits, and multipliers near those that it found."""
    rng, sound = np.random.default_rng(1), 0
    for seed in range(60):
        own_kind = {} if kind == "plain" else {kind: True}
        one = problem(np.random.default_rng(seed), **own_kind)
        program, cases, best = one.program, one.program.cases(one.x), least_of(one)
        vector = Knapsacks(program).solve(cases, Effort()).multipliers
        for _ in range(10):
            trees = random_trees(rng, program, one.x[0], vector)
            bound = still_proved(program, cases, trees)
            assert bound <= best * (1.0 + 1e-12), (seed, bound, best)
            sound += bound > 0.0
    assert sound > 100


def random_trees(
    rng: np.random.Generator, program: Program, x: np.ndarray, multipliers: np.ndarray
) -> ProofTrees:
    """A tree of one row with one to eight splits of any kind."""
    count = int(rng.integers(1, 9))
    kind, inner = np.full(2 * count + 1, LEAF), [0]
    while len(inner) < count:  # the next nodes, of which at least one is split
        last = 2 * len(inner)
        inner += [i for i in range(inner[-1] + 1, last + 1) if i == last or rng.random() < 0.6]
    inner = inner[:count]
    starts = [b.start for b in program.domain.at_most.blocks] if program.domain.at_most else []
    numbers, others = (
        np.flatnonzero(program.domain.numeric),
        np.flatnonzero(~program.domain.numeric),
    )
    what, where = np.zeros(len(kind), dtype=np.intp), np.zeros(len(kind))
    for i in inner:
        kinds = [NUMBER] * len(numbers) + [SET] * (len(others) > 0) + [CHANGE] * (len(starts) > 0)
        kind[i] = rng.choice(kinds)
        what[i] = rng.choice({NUMBER: numbers, SET: others, CHANGE: starts}[int(kind[i])])
        where[i] = x[what[i]] + rng.integers(-3, 4) + rng.choice([0.0, 0.5])
    options = rng.random((len(kind), len(others))) < 0.5
    vectors = multipliers * rng.uniform(0.5, 1.5, (len(kind), 1))
    bound = np.full(1, rng.choice([np.inf, 5.0]))
    return ProofTrees(np.zeros(1, dtype=np.intp), bound, kind, what, where, options, vectors)


def test_nodes_that_are_no_tree_are_refused():
    """One too many, one too few, children that are missing, or splits that there are not."""
    for seed in range(40):
        one = problem(np.random.default_rng(seed))
        cases = one.program.cases(one.x)
        proof = Knapsacks(one.program).solve(cases, Effort()).proof
        assert proof is not None
        if len(proof.kind) < 5:
            continue
        less = ProofTrees(*proof[:2], *(array[:-1] for array in proof[2:]))
        more = ProofTrees(*proof[:2], *(np.concatenate([v, v[-1:]]) for v in proof[2:]))
        kind, leaf = np.array(proof.kind), np.flatnonzero(proof.kind == LEAF)[-1]
        kind[leaf] = NUMBER
        away = np.where(proof.kind == LEAF, 0, proof.column + one.program.width)
        alien = np.where(proof.kind == LEAF, LEAF, 9)
        for trees in (
            less,
            more,
            proof._replace(kind=kind),
            proof._replace(kind=alien),
            proof._replace(column=away),
            proof._replace(value=np.full(len(kind), np.nan), kind=np.minimum(proof.kind, NUMBER)),
        ):
            with pytest.raises(ValueError, match="tree"):
                proved(one.program, cases, trees)
        return
    raise AssertionError("no tree is to be changed")


def in_two(
    program: Program, cases: Batch, how: tuple[int, int, float], multipliers: list[list[float]]
) -> float:
    """What a tree of one split proves, with the multipliers of its leaves."""
    kind, what = np.array([how[0], LEAF, LEAF]), np.array([how[1], 0, 0])
    options = np.zeros((3, int((~program.domain.numeric).sum())), dtype=bool)
    where, vectors = np.array([how[2], 0.0, 0.0]), np.array([multipliers[0], *multipliers])
    nodes = kind, what, where, options, vectors
    return float(
        proved(program, cases, ProofTrees(np.zeros(1, np.intp), np.full(1, np.inf), *nodes))[0]
    )


@pytest.mark.parametrize("category", [False, True])
def test_beside_what_changes_others_stay_only_where_no_more_may(*, category: bool):
    """The first alone costs 6.5; the second alone 5; both 5.3, if both may change."""
    matrix = np.array([[0.0, 10.0, 1.8]]) if category else np.array([[2.0, 1.8]])
    absolute = np.array([0.0, 6.5, 1.0]) if category else np.array([1.3, 1.0])
    d, blocks = (
        len(absolute),
        (slice(0, len(absolute) - 1), slice(len(absolute) - 1, len(absolute))),
    )
    rows = LinearBounds(matrix, np.array([8.9]), np.array([np.inf]))
    groups = (OneOf(slice(0, 2)),) if category else ()
    whole = Whole(np.array([d - 1]) if category else np.arange(d), np.ones(1 if category else d))
    program = Program(
        EncodedCost(absolute, np.zeros(d)), Region((rows, whole, *groups, AtMost(1, blocks)))
    )
    x = np.eye(1, d) if category else np.zeros((1, d))
    ends = np.append(np.ones(d - 1), 5.0) if category else np.full(d, 5.0)
    cases = program.cases(x).within(np.zeros((1, d)), ends[None])
    for first in np.linspace(0.0, -1.5, 16):
        for second in np.linspace(0.0, -1.5, 16):
            for how in ((CHANGE, 0, 0.0), (CHANGE, d - 1, 0.0), (NUMBER, d - 1, 2.0)):
                assert in_two(program, cases, how, [[first], [second]]) <= 5.0
    assert in_two(program, cases, (CHANGE, d - 1, 0.0), [[-0.65], [-0.55]]) > 4.5
    for beyond in (-1, d):
        with pytest.raises(ValueError, match="tree"):
            in_two(program, cases, (CHANGE, beyond, 0.0), [[-0.65], [-0.55]])


def test_rounding_excludes_no_value_that_costs_less_than_the_claim():
    """Only 3 is possible, and costs 3; multipliers that cancel out lose most digits."""
    low, high = np.array([3.0, -np.inf, 3.0]), np.array([np.inf, 3.0, np.inf])
    region = Region((LinearBounds(np.ones((3, 1)), low, high), Whole(np.arange(1), np.ones(1))))
    program = Program(EncodedCost(np.ones(1), np.zeros(1)), region)
    cases = program.cases(np.zeros((1, 1))).within(np.zeros((1, 1)), np.full((1, 1), 5.0))
    leaves = [[-1.0, 0.0, 0.0], [-0.9, 1e9, -1e9]]
    for value in (0.0, 1.0, 2.0, 2.5, 3.0 - 1e-15):
        assert in_two(program, cases, (NUMBER, 0, value), leaves) <= 3.0
        assert in_two(program, cases, (NUMBER, 0, value), leaves[::-1]) <= 3.0


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


@pytest.mark.parametrize("classes", [2, 3])
def test_a_row_that_may_not_change_at_all_has_no_answer_and_that_is_proved(classes: int):
    """Of bins alone nothing is left that costs anything, and what is missing must not be free."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.digitize(X.sum(axis=1), np.linspace(-1.0, 1.0, classes - 1))
    bins = KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")
    model = make_pipeline(bins, LogisticRegression(max_iter=1000)).fit(X, y)
    explainer = cp.Explainer(model, data=X, constraints=cp.Immutable("x0", "x1", "x2"))
    answers = explainer.explain(X[model.predict(X) != 0][:20], 0)
    assert (answers.status == cp.Status.INFEASIBLE).all()
    assert (answers.certificates.claim == cp.Claim.PROVED).all()
