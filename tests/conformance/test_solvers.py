"""Every solver on every program that it takes: known answers, and random ones against oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import strategies as make
from hypothesis import given
from hypothesis import strategies as st
from known_programs import KNOWN
from oracles import Additive, Demand, Optimum, Question, optimum

import counterpoint as cp
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.program import Program, kinds_region
from counterpoint.programs.region import Region
from counterpoint.solvers import Effort, Outcome, Solution, Solver, all_solvers
from counterpoint.testing import Known, check_solver

BY_NAME = {solver.__name__: solver for solver in all_solvers()}


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_the_known_programs_are_right(known: Known):
    """Hand-derived points are feasible at their cost, and multipliers prove it."""
    cases = known.program.cases(known.x[None, :])
    if known.point is not None:
        y = known.point[None, :]
        assert known.program.region.violation(y, cases.x)[0] <= 1e-15
        assert known.program.objective(y, cases)[0] == pytest.approx(known.cost, rel=1e-14)
    else:
        assert np.isinf(known.cost)
    if known.multipliers is not None:
        given = known.multipliers[None, :]
        at = None if known.point is None else known.point[None, :]
        if np.isinf(known.cost):
            assert known.program.refutes(cases, given)[0]
        else:
            # A full matrix keeps 1% of its curvature for the bound's own finiteness.
            bound = known.program.bound(cases, given, at)[0]
            assert bound == pytest.approx(known.cost, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    "known", [k for k in KNOWN if k.multipliers is not None], ids=lambda k: k.name
)
def test_no_other_multipliers_prove_more_of_a_known_program(known: Known):
    rng = np.random.default_rng(0)
    cases = known.program.cases(np.repeat(known.x[None, :], 400, axis=0))
    given = known.multipliers + 10.0 ** rng.uniform(-6, 2, size=(400, 1)) * rng.normal(
        size=(400, known.program.size)
    )
    at = cases.x if known.point is None else np.repeat(known.point[None, :], 400, axis=0)
    bound = known.program.bound(cases, given, at)
    if np.isfinite(known.cost):
        assert (bound <= known.cost + 1e-12 * np.abs(given).max()).all()
        assert not known.program.refutes(cases, given).any()


@pytest.mark.parametrize("name", BY_NAME)
def test_every_solver_answers_the_known_programs(name: str):
    solver = BY_NAME[name]
    taken = check_solver(solver, KNOWN, complete=solver.complete)
    assert taken >= 6


def test_every_known_program_has_a_complete_solver():
    for known in KNOWN:
        assert any(s.takes(known.program) for s in all_solvers() if s.complete)


@st.composite
def asked(draw: Any) -> tuple[Program, np.ndarray, Question]:
    """A random program in the library's terms and the same in the oracle's."""
    features = draw(make.features(least=1, most=4))
    rng = np.random.default_rng(draw(make.seeds))
    cost = make.COSTS[draw(make.costs)](rng, features)
    constraints = draw(make.constraints(features))
    row = rng.normal(size=features.width)
    least = float(rng.normal(1.0, 4.0))
    region = kinds_region(features) & Region((LinearBounds(row[None, :], [least], [np.inf]),))
    for constraint in constraints:
        region = region & constraint.region(features)
    codes = make.codes(features, rng, 1)
    slopes, tables = {}, {}
    for f, block in zip(features, features.blocks, strict=True):
        if isinstance(f, cp.Categorical):
            tables[f.name] = {
                c: np.array([v]) for c, v in zip(f.categories, row[block], strict=True)
            }
        else:
            slopes[f.name] = row[block]
    known = Additive(np.zeros(1), slopes, tables)
    raw = make.frame(features, codes).to_dict("records")[0]
    question = Question(features, known, [(Demand(np.ones(1), least),)], cost, constraints, raw)
    return Program(cost.encoded_cost(features), region), features.expand(codes), question


@given(asked())
def test_every_solver_agrees_with_the_oracle_on_random_programs(case: Any):
    program, x, question = case
    solvers = [s for s in all_solvers() if s.takes(program)]
    best = optimum(question)
    if best.exists != optimum(question.stricter(1e-6)).exists:
        return  # feasible by a hair: either answer is right
    for solver in solvers:
        if not solver.complete:
            continue
        check_one(solver, program, x, best)


def check_one(solver: Solver, program: Program, x: np.ndarray, best: Optimum):
    """A point of a solver keeps conditions up to a tolerance, and may cost less by as much."""
    cases = program.cases(x)
    # A switch for "changed" in HiGHS needs a bound on changes; a cost that is reached gives one.
    reached = np.array([2.0 * best.high + 1.0])
    solution = solver(program).solve(cases, Effort(), reached)
    name = solver.__name__
    if not best.exists:
        assert solution.outcomes[0] != Outcome.FOUND, f"{name} finds a point where there is none"
        return
    room = 1e-6 * best.high + 2e-8
    assert solution.outcomes[0] == Outcome.FOUND, f"{name}: {Outcome(solution.outcomes[0]).name}"
    cost = program.objective(solution.points, cases)[0]
    assert program.region.violation(solution.points, cases.x)[0] <= 1e-8
    assert best.low - room <= cost <= best.high + room, f"{name}: {cost} against {best}"
    assert best.low - room <= told(program, cases, solution) <= best.high + room, name


def told(program: Program, cases: Any, solution: Solution) -> float:
    bound = program.bound(cases, solution.multipliers, solution.points)[0]
    return max(float(bound), float(solution.reported[0]))


# The suite itself catches what it is for


class Wrong:
    """A solver that changes what another says."""

    accepts = BY_NAME["Highs"].accepts
    accuracy = 1e-9

    def __init__(self, change: Any) -> None:
        self.change, self.__name__ = change, "Wrong"

    def takes(self, program: Program) -> bool:
        return BY_NAME["Highs"].takes(program)

    def __call__(self, program: Program) -> Any:
        wrong, right = self, BY_NAME["Highs"](program)

        class Prepared:
            def solve(self, cases: Any, effort: Effort, cutoff: Any = None) -> Solution:
                solution = right.solve(cases, effort, cutoff)
                wrong.change(solution)
                return solution

        return Prepared()


def dearer(solution: Solution) -> None:
    solution.points[:, 0] += 1.0


def nearer(solution: Solution) -> None:
    solution.points[:] *= 0.5


def boastful(solution: Solution) -> None:
    solution.reported[:] = 1e3


def unproved(solution: Solution) -> None:
    solution.multipliers[:] = 0.0
    solution.reported[:] = 0.0


def silent(solution: Solution) -> None:
    solution.points[:] = np.nan
    solution.outcomes[:] = Outcome.NOTHING


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dearer, "returns a point"),
        (nearer, "with violation"),
        (boastful, "exceeds the optimum"),
        (unproved, "but the bound is"),
        (silent, "expected FOUND"),
    ],
)
def test_the_suite_catches_a_solver_that_is_wrong(change: Any, message: str):
    known = [k for k in KNOWN if k.name.startswith("absolute, one row")]
    with pytest.raises(AssertionError, match=message):
        check_solver(Wrong(change), known)
