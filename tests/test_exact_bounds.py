"""No bound exceeds the optimum, not by its last bit: against exact arithmetic.

A program is its numbers, taken as they are. Multipliers come from the solvers, so that bounds are
as near to the optimum as they get, and from nowhere at all; no tolerance is allowed for either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from exact import (
    Exact,
    exact_value,
    filled,
    fractions,
    lattice,
    log_loss,
    log_sum_exp,
    quadratic_program,
    vertices,
)
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.numerics import CLOSED, depth, dots, gamma, total
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import AtMost, Box, LinearBounds, OneOf, Whole
from counterpoint.programs.evidence import has_tangents
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program
from counterpoint.programs.region import Region
from counterpoint.solvers import Effort, applicable

ROWS = 12
WILD = 4
"""How many multipliers without any sense are tried for each row."""
FREE = np.inf


@dataclass(frozen=True)
class Problem:
    """A program, rows, and what they cost at least."""

    program: Program
    x: np.ndarray
    optimum: list[Exact]
    weight: np.ndarray | None = None


def scales(rng: np.random.Generator, d: int, *, wide: bool) -> np.ndarray:
    """(d,) the units of columns."""
    return 10.0 ** rng.uniform(-8.0, 8.0, d) if wide else 10.0 ** rng.uniform(-1.0, 1.0, d)


def rows(rng: np.random.Generator, d: int, m: int, unit: np.ndarray) -> tuple[Any, Any, Any]:
    """Rows, upper limits, and points most of which miss some of them."""
    matrix = rng.normal(size=(m, d)) / unit
    matrix[rng.random((m, d)) < 0.1] = 0.0
    matrix[:, 0] = np.where(matrix.any(axis=1), matrix[:, 0], 1.0 / unit[0])
    x = rng.normal(size=(ROWS, d)) * unit * rng.choice([0.0, 1e-3, 3.0, 1e3])
    high = -rng.exponential(size=m) + 0.3
    return matrix, high, x


def rows_of(matrix: np.ndarray, high: np.ndarray) -> LinearBounds:
    return LinearBounds(matrix, np.full(len(matrix), -np.inf), high)


def boxed(rng: np.random.Generator, x: np.ndarray, unit: np.ndarray) -> Box:
    """Bounds around all points, on some sides of some columns."""
    box = Box.unbounded(x.shape[1])
    for side, end, sign in ((box.low, x.min(axis=0), -1.0), (box.high, x.max(axis=0), 1.0)):
        some = rng.random(len(unit)) < 0.7
        side[some] = (end + sign * rng.exponential(size=len(unit)) * unit)[some]
    return box


def priced(weight: np.ndarray, power: int) -> EncodedCost:
    none = np.zeros(len(weight))
    return EncodedCost(weight, none) if power == 1 else EncodedCost(none, weight)


def one_row(
    rng: np.random.Generator, power: int, *, bounded: bool, wide: bool, most: int = 7
) -> Problem:
    d = int(rng.integers(1, most))
    unit = scales(rng, d, wide=wide)
    matrix, high, x = rows(rng, d, 1, unit)
    weight = rng.uniform(0.2, 3.0, d) / unit**power
    box = boxed(rng, x, unit) if bounded else Box.unbounded(d)
    program = Program(priced(weight, power), Region((rows_of(matrix, high), box)))
    sides = box.low, box.high
    costs = [filled(matrix[0], float(high[0]), v, weight, sides, power) for v in x]
    return Problem(program, x, costs)


def quadratic(rng: np.random.Generator, *, full: bool, wide: bool) -> Problem:
    d, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    unit = scales(rng, d, wide=wide)
    matrix, high, x = rows(rng, d, m, unit)
    if full:
        factor = rng.normal(size=(d, d)) / unit
        whole = factor.T @ factor + rng.choice([1e-6, 0.05]) * np.diag(1.0 / unit**2)
        encoded_cost = EncodedCost(np.zeros(d), (whole + whole.T) / 2.0)
        form = [fractions(row) for row in encoded_cost.quadratic]
    else:
        encoded_cost = EncodedCost(np.zeros(d), rng.uniform(0.2, 3.0, d) / unit**2)
        form = [fractions(row) for row in np.diag(encoded_cost.quadratic)]
    normals, limits = [fractions(row) for row in matrix], fractions(high)
    costs = [quadratic_program(form, normals, limits, fractions(v)) for v in x]
    return Problem(Program(encoded_cost, Region((rows_of(matrix, high),))), x, costs)


def linear(rng: np.random.Generator, *, wide: bool) -> Problem:
    """Several rows under an absolute price, as a model of several classes has them."""
    d, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    unit = scales(rng, d, wide=wide)
    matrix, high, x = rows(rng, d, m, unit)
    box = boxed(rng, x, unit) if rng.random() < 0.5 else Box.unbounded(d)
    weight = rng.uniform(0.2, 3.0, d) / unit
    normals, limits = [fractions(row) for row in matrix], fractions(high)
    sides = box.low, box.high
    costs = [vertices(fractions(weight), normals, limits, fractions(v), sides) for v in x]
    return Problem(Program(priced(weight, 1), Region((rows_of(matrix, high), box))), x, costs)


def on_a_lattice(rng: np.random.Generator) -> Problem:
    """Whole columns, perhaps a bound on the number of changes."""
    d, m, power = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    step = rng.choice([0.25, 1.0, 8.0], d)
    matrix, high = rng.normal(size=(m, d)) / step, -rng.exponential(size=m)
    x = rng.integers(-3, 4, size=(ROWS, d)) * step
    weight = rng.uniform(0.2, 3.0, d) / step**power
    box = Box.unbounded(d)
    box.least[:], box.most[:] = -3.0 * step, 3.0 * step
    conditions = [rows_of(matrix, high), box, Whole(np.arange(d), step)]
    most = int(rng.integers(1, d + 1))
    if rng.random() < 0.5:
        conditions.append(AtMost(most, tuple(slice(j, j + 1) for j in range(d))))
    else:
        most = d
    choices = [[Fraction(k) * Fraction(float(s)) for k in range(-3, 4)] for s in step]
    normals, limits = [fractions(row) for row in matrix], fractions(high)
    costs = [
        lattice(fractions(weight), power, normals, limits, fractions(v), choices, most) for v in x
    ]
    return Problem(Program(priced(weight, power), Region(tuple(conditions))), x, costs)


def categories(rng: np.random.Generator) -> Problem:
    """Two categories with three values each, under one row."""
    matrix, high = rng.normal(size=(1, 6)), rng.normal(size=1) - 1.0
    weight = np.repeat(rng.uniform(0.2, 3.0, 2) / 2.0, 3)
    x = np.hstack([np.eye(3)[rng.integers(0, 3, ROWS)] for _ in range(2)])
    points = [np.append(a, b) for a in np.eye(3) for b in np.eye(3)]
    row, limit, w = fractions(matrix[0]), Fraction(float(high[0])), fractions(weight)
    costs: list[Exact] = []
    for v in x:
        found = [
            sum((p * abs(Fraction(float(s))) for p, s in zip(w, y - v, strict=True)), Fraction(0))
            for y in points
            if sum((p * Fraction(float(q)) for p, q in zip(row, y, strict=True))) <= limit
        ]
        costs.append(min(found, default=None))
    groups = OneOf(slice(0, 3)), OneOf(slice(3, 6))
    program = Program(EncodedCost(weight, np.zeros(6)), Region((rows_of(matrix, high), *groups)))
    return Problem(program, x, costs)


def probable(rng: np.random.Generator, *, charged: bool) -> Problem:
    """A softmax probability among three classes: asked for, or weighed."""
    d = int(rng.integers(2, 4))
    unit = scales(rng, d, wide=False)
    matrix, offset = rng.normal(size=(2, d)) / unit, rng.normal(size=2)
    x = rng.normal(size=(3, d)) * unit * 2.0
    weight = rng.uniform(0.2, 3.0, d) / unit**2
    limit = float(-np.log(rng.uniform(0.3, 0.95)) - 1.5)
    part = LogLoss(matrix, offset) if charged else LogSumExp(matrix, offset, limit)
    program = Program(priced(weight, 2), Region((part,)))
    cases = program.cases(x)
    cost_cutoff = rng.uniform(0.1, 4.0, len(x))
    cases = cases.weighing(cost_cutoff) if charged else cases
    solution = applicable(program)[0](program).solve(cases, Effort())
    costs: list[Exact] = []
    for i, v in enumerate(x):
        guess = solution.points[i] - v
        if charged:
            value = log_loss(weight * 1.0, matrix, offset, v, guess, cost_cutoff[i])
        elif part.excess(v[None])[0] <= -1e-9:
            costs.append(Fraction(0))
            continue
        else:
            nu = float(np.abs(solution.multipliers[i]).sum())
            value, multiplier = log_sum_exp(weight, matrix, offset, limit, v, (guess, nu))
            assert multiplier > 0
        costs.append(exact_value(value))
    return Problem(program, x, costs, cost_cutoff if charged else None)


FAMILIES: dict[str, Callable[[np.random.Generator], Problem]] = {
    "one row, absolute": lambda rng: one_row(rng, 1, bounded=False, wide=False),
    "one row, squared": lambda rng: one_row(rng, 2, bounded=False, wide=False),
    "one row, absolute, wide": lambda rng: one_row(rng, 1, bounded=False, wide=True),
    "one row, squared, wide": lambda rng: one_row(rng, 2, bounded=False, wide=True),
    "box, absolute": lambda rng: one_row(rng, 1, bounded=True, wide=False),
    "box, squared": lambda rng: one_row(rng, 2, bounded=True, wide=False),
    "box, absolute, wide": lambda rng: one_row(rng, 1, bounded=True, wide=True),
    "box, squared, wide": lambda rng: one_row(rng, 2, bounded=True, wide=True),
    "long row, absolute": lambda rng: one_row(rng, 1, bounded=False, wide=False, most=200),
    "long row, squared": lambda rng: one_row(rng, 2, bounded=False, wide=False, most=200),
    "long box, absolute": lambda rng: one_row(rng, 1, bounded=True, wide=False, most=100),
    "long box, squared": lambda rng: one_row(rng, 2, bounded=True, wide=False, most=40),
    "rows, squared": lambda rng: quadratic(rng, full=False, wide=False),
    "rows, squared, wide": lambda rng: quadratic(rng, full=False, wide=True),
    "rows, Mahalanobis": lambda rng: quadratic(rng, full=True, wide=False),
    "rows, Mahalanobis, wide": lambda rng: quadratic(rng, full=True, wide=True),
    "rows, absolute": lambda rng: linear(rng, wide=False),
    "rows, absolute, wide": lambda rng: linear(rng, wide=True),
    "lattice": on_a_lattice,
    "categories": categories,
    "probability": lambda rng: probable(rng, charged=False),
    "charged probability": lambda rng: probable(rng, charged=True),
}


def proposals(problem: Problem, rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Multipliers and points: of the solvers, near those, and wild."""
    program, n = problem.program, len(problem.x)
    cases = problem_cases(problem)
    best = np.zeros((n, program.size))
    at = None
    for solver in applicable(program):
        if solver.exhaustive:
            continue
        solution = solver(program).solve(cases, Effort())
        best = np.nan_to_num(solution.multipliers)
        if has_tangents(program):
            at = np.where(np.isfinite(solution.points), solution.points, problem.x)
        yield best, at
        yield best * (1.0 + rng.integers(-4, 5, best.shape) * 2.0**-52), at
        if solution.found.all():
            break
    for _ in range(WILD):
        size = 10.0 ** rng.uniform(-6.0, 6.0, (n, 1))
        yield rng.normal(size=best.shape) * size, at
        yield best * rng.uniform(0.5, 1.5, best.shape), at


def problem_cases(problem: Problem) -> Any:
    cases = problem.program.cases(problem.x)
    return cases if problem.weight is None else cases.weighing(problem.weight)


def excesses(problem: Problem, seed: int) -> tuple[list[Fraction], list[float]]:
    """By how much bounds are too high, relative to the optimum; and the least gap of each row."""
    rng = np.random.default_rng(seed)
    cases = problem_cases(problem)
    over, gaps = [Fraction(0)] * len(problem.x), [np.inf] * len(problem.x)
    for multipliers, at in proposals(problem, rng):
        bound = problem.program.bound(cases, multipliers, at)
        refuted = problem.program.refutes(cases, multipliers)
        assert not np.isnan(bound).any()
        for i, optimum in enumerate(problem.optimum):
            if optimum is None:
                continue
            if refuted[i] or np.isinf(bound[i]):
                over[i] = Fraction(1)
                continue
            above = Fraction(float(bound[i])) - optimum
            size = optimum or Fraction(1)
            over[i] = max(over[i], above / size)
            gaps[i] = min(gaps[i], float(-above / size))
    known = [g for g, o in zip(gaps, problem.optimum, strict=True) if o]
    return [o for o in over if o > 0], known


@pytest.mark.parametrize("family", FAMILIES)
def test_no_bound_exceeds_the_optimum(family: str):
    check(family, range(3))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_bound_of_a_hundred_thousand_exceeds_the_optimum(family: str):
    check(family, range(3, 410))


def check(family: str, seeds: range) -> None:
    """No bound is too high; with the multipliers of a solver, most leave no gap that counts.

    Where almost all cancels, rounding leaves more of a gap: at x of 1e3, with 1e-4 to go, say.
    """
    gaps: list[float] = []
    for seed in seeds:
        problem = FAMILIES[family](np.random.default_rng(seed))
        over, left = excesses(problem, seed)
        assert not over
        if not problem.program.domain.steps.any() and not problem.program.domain.groups:
            gaps += left
    assert np.quantile(gaps or [0.0], 0.9) <= CLOSED


def model_of(rng: np.random.Generator, d: int, classes: int) -> LogisticRegression:
    """A fitted model with these numbers."""
    model = LogisticRegression()
    rows_ = 1 if classes == 2 else classes
    model.coef_ = rng.normal(size=(rows_, d)) * 10.0 ** rng.uniform(-2.0, 2.0, d)
    model.intercept_ = rng.normal(size=rows_)
    model.classes_, model.n_features_in_ = np.arange(classes), d
    return model


def truth(model: Any, label: int, cost: str, weight: np.ndarray, x: np.ndarray) -> Exact:
    """The optimum for the model's own numbers: the differences of its scores are exact here."""
    coef = [fractions(row) for row in model.coef_]
    offset = fractions(model.intercept_)
    if len(coef) == 1:
        coef, offset = [[Fraction(0)] * len(x), coef[0]], [Fraction(0), offset[0]]
    others = [k for k in range(len(coef)) if k != label]
    normals = [[a - b for a, b in zip(coef[k], coef[label], strict=True)] for k in others]
    limits = [offset[label] - offset[k] for k in others]
    w = fractions(weight)
    if cost == "Manhattan":
        free = np.full(len(x), -np.inf), np.full(len(x), np.inf)
        return vertices(w, normals, limits, fractions(x), free)
    form = [[v if i == j else Fraction(0) for j in range(len(w))] for i, v in enumerate(w)]
    return quadratic_program(form, normals, limits, fractions(x))


@pytest.mark.parametrize("cost", ["Manhattan", "SquaredEuclidean"])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_no_proved_certificate_exceeds_the_optimum(classes: int, cost: str):
    """Every class as the target, of models as they are read."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 4))
        model, X = model_of(rng, d, classes), rng.normal(size=(8, d))
        weight = rng.uniform(0.2, 3.0, d)
        explainer = cp.Explainer(model, cost=getattr(cp, cost)(weights=weight), features=None)
        for label in range(classes):
            answers = explainer.explain(X, cp.Label(label))
            for i, answer in enumerate(answers):
                best = truth(model, label, cost, weight, X[i])
                certificate = answer.certificate
                assert certificate.claim == cp.Claim.PROVED or best is None
                if best is not None:
                    assert Fraction(certificate.bound) <= best


@pytest.mark.parametrize("d", [1, 4096, 4097, pytest.param(20_000, marks=pytest.mark.slow)])
def test_sums_are_off_by_no_more_than_their_roundings(d: int):
    """Of any length, against exact sums, where nearly all cancels."""
    rng = np.random.default_rng(d)
    a, b = rng.normal(size=(2, d)) * 1e3, rng.normal(size=(2, d))
    a[1, d // 2 :], b[1, d // 2 :] = -a[1, : d - d // 2], b[1, : d - d // 2]
    for given in (b, b[0]):
        found = dots(a, given)
        for i, row in enumerate(np.broadcast_to(given, a.shape)):
            terms = [p * q for p, q in zip(fractions(a[i]), fractions(row), strict=True)]
            off = abs(Fraction(float(found[i])) - sum(terms, Fraction(0)))
            assert off <= Fraction(gamma(depth(d))) * sum(map(abs, terms), Fraction(0))
    sums = total(a)
    for i in range(2):
        off = abs(Fraction(float(sums[i])) - sum(fractions(a[i]), Fraction(0)))
        assert off <= Fraction(gamma(depth(d))) * sum(map(abs, fractions(a[i])), Fraction(0))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_proof_of_infeasibility_allows_for_its_rounding(seed: int):
    """Very many columns: a point that meets a row just so is not excluded by how sums come out."""
    d = 131_072
    rng = np.random.default_rng(seed)
    row, y = rng.normal(size=d), rng.normal(size=d)
    exact = sum((p * q for p, q in zip(fractions(row), fractions(y), strict=True)), Fraction(0))
    high = float(exact)
    high = high if Fraction(high) >= exact else float(np.nextafter(high, np.inf))
    box = Box.unbounded(d)
    box.low[:], box.high[:] = y, y
    program = Program(priced(np.ones(d), 1), Region((rows_of(row[None], np.array([high])), box)))
    cases = program.cases(y[None] + rng.normal(size=(1, d)) * 1e3)
    assert not program.refutes(cases, np.ones((1, 1)))[0]
    assert np.isfinite(program.bound(cases, np.ones((1, 1)))[0])
