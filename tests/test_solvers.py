"""Which solver takes what, and what a refusal says. What they answer: conformance/test_solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import pytest
from hypothesis import given
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from strategies import Planted, planted

import counterpoint as cp
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import Box, Cone, LinearBounds, Whole
from counterpoint.programs.program import Program
from counterpoint.programs.region import Condition, Region
from counterpoint.solvers import Effort, Outcome, Solution, all_solvers, applicable
from counterpoint.solvers import daqp as quadratic
from counterpoint.solvers.clarabel import Model
from counterpoint.solvers.daqp import Daqp
from counterpoint.solvers.halfspace import HalfSpace
from counterpoint.solvers.highs import Highs

ABSOLUTE = EncodedCost(np.ones(2), np.zeros(2))
ROW = LinearBounds(np.array([[1.0, 1.0]]), [1.0], [np.inf])


@given(planted())
def test_every_program_that_can_be_said_has_a_complete_solver(case: Planted):
    found = applicable(case.program)
    assert any(solver is not HalfSpace for solver in found)
    assert all(case.program.condition_types <= solver.accepts for solver in found)
    assert list(found) == [s for s in all_solvers() if s in found]


def test_an_unknown_condition_is_refused_with_what_is_missing():
    @dataclass(frozen=True, eq=False)
    class Torus(Condition):
        def violation(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:
            return np.zeros(len(y))

    program = Program(ABSOLUTE, Region((ROW, Torus())))
    with pytest.raises(
        cp.NoSolver, match=r"^This model cannot be searched with Torus\. Leave out Torus\.$"
    ):
        applicable(program)


def test_what_does_not_go_together_is_said_and_its_advice_is_good():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.columns = [*"abcd"]
    model = make_pipeline(SplineTransformer(n_knots=3), LogisticRegression()).fit(X, y > 0)
    linear, ellipsoid = cp.Linear({"a": 1, "b": 1}, high=20), cp.Ellipsoid.from_data(X, ["a", "b"])
    full, square, manhattan = cp.Mahalanobis(np.eye(4) + 0.1), cp.SquaredEuclidean(), cp.Manhattan()

    def ask(cost: cp.Cost, constraints: list[cp.Constraint]) -> bool:
        explainer = cp.Explainer(model, data=X, cost=cost, constraints=constraints)
        return explainer.explain(X[:1], True).found.all()

    one = "a Mahalanobis cost. Use a squared Euclidean cost, or use a Manhattan cost."
    both = (
        "a Mahalanobis cost and an ellipsoid together. Use a squared Euclidean cost and leave out "
        "the ellipsoid, or use a Manhattan cost and leave out the ellipsoid."
    )
    many = [cp.Linear({"a": 1, "b": 1 + i}, high=20) for i in range(70)]
    rows = "constraints that relate columns. Leave out these constraints."
    refused = [(full, [], one), (full, [ellipsoid], both), (manhattan, many, rows)]
    for cost, constraints, message in refused:
        with pytest.raises(cp.NoSolver) as caught:
            ask(cost, constraints)
        assert str(caught.value) == f"This model cannot be searched with {message}"
    assert all(ask(*advised) for advised in [(square, []), (manhattan, []), (manhattan, [linear])])


def test_a_linear_program_goes_to_highs_and_never_a_quadratic_one():
    assert [s.__name__ for s in applicable(Program(ABSOLUTE, Region((ROW,))))][:2] == [
        "HalfSpace",
        "Highs",
    ]
    square = Program(EncodedCost(np.zeros(2), np.ones(2)), Region((ROW,)))
    assert not any(s is Highs for s in applicable(square))


def test_rows_of_a_batch_are_each_found_and_proved():
    rng = np.random.default_rng(0)
    rows = LinearBounds(np.array([[1.0, 2.0, 1.0], [2.0, 1.0, -1.0]]), [4.0, 3.0], [np.inf, np.inf])
    program = Program(EncodedCost(np.ones(3), np.zeros(3)), Region((rows,)))
    cases = program.cases(1e-3 * rng.normal(size=(30, 3)))
    solution = Highs(program).solve(cases, Effort())
    assert solution.found.all()
    assert (rows.violation(solution.points, cases.x) <= 1e-9).all()
    cost = program.encoded_cost(solution.points, cases.x)
    np.testing.assert_allclose(program.bound(cases, solution.multipliers), cost, rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_of_linear_programs_gives_what_each_row_gets_alone(seed: int):
    rng = np.random.default_rng(seed)
    matrix, there = rng.normal(size=(3, 5)), rng.uniform(-3.0, 1.0, 5)
    rows = LinearBounds(matrix, matrix @ there - 1.0, np.full(3, np.inf))
    box = Box(np.full(5, -9.0), np.full(5, 9.0), -np.full(5, 4.0), rng.uniform(1.0, 4.0, 5))
    program = Program(EncodedCost(rng.uniform(0.5, 2.0, 5), np.zeros(5)), Region((rows, box)))
    cases = program.cases(0.1 * rng.normal(size=(200, 5)))
    together = Highs(program).solve(cases, Effort())
    assert together.found.sum() > 100
    for i, case in enumerate(cases):
        alone = Highs(program).solve(case, Effort())
        assert alone.outcomes[0] == together.outcomes[i]
        np.testing.assert_allclose(alone.points[0], together.points[i], rtol=0, atol=1e-9)
        np.testing.assert_allclose(alone.multipliers[0], together.multipliers[i], atol=1e-9)


def test_a_row_that_highs_gives_up_is_solved_in_other_units(monkeypatch: pytest.MonkeyPatch):
    """In the usual units it says nothing of every other row."""
    usual = Highs._solved

    def solved(self: Highs, cases: Any, effort: Effort, cutoff: Any = None) -> Solution:
        solution = usual(self, cases, effort, cutoff)
        if self.units is None:
            blank = Solution.blank(1, self.program)
            for i in range(0, len(cases), 2):
                solution.put(slice(i, i + 1), blank)
        return solution

    monkeypatch.setattr(Highs, "_solved", solved)
    program = Program(ABSOLUTE, Region((ROW,)))
    cases = program.cases(np.array([[0.0, 0.0], [0.5, 0.0], [0.0, -1.0]]))
    solution = Highs(program).solve(cases, Effort())
    np.testing.assert_allclose(program.encoded_cost(solution.points, cases.x), [1.0, 0.5, 2.0])
    np.testing.assert_allclose(program.bound(cases, solution.multipliers), [1.0, 0.5, 2.0])


def test_highs_answers_after_others_have_run_it_with_more_threads():
    """One scheduler serves all of a thread, and HiGHS refuses to run with another number."""
    highspy.Highs.resetGlobalScheduler(True)
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    other.setOptionValue("threads", 3)
    other.addVar(0.0, 10.0)
    other.run()
    row = LinearBounds(np.array([[2.0]]), np.array([3.0]), np.array([np.inf]))
    program = Program(
        EncodedCost(np.ones(1), np.zeros(1)), Region((Whole(np.array([0]), np.ones(1)), row))
    )
    solution = Highs(program).solve(program.cases(np.zeros((1, 1))), Effort(), np.full(1, 9.0))
    assert solution.points[0] == 2.0


def test_what_daqp_leaves_behind_where_it_finds_nothing_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
):
    """It may be infinite, of a program without a point."""
    kept = quadratic.daqp.solve

    def solved(*args: Any, **options: Any) -> Any:
        point, value, flag, info = kept(*args, **options)
        return (point, value, flag, info) if flag > 0 else (point - np.inf, value, flag, info)

    monkeypatch.setattr(quadratic.daqp, "solve", solved)
    rows = LinearBounds(np.array([[1.0, 2.0], [1.0, 2.0]]), [1.0, -np.inf], [np.inf, 0.0])
    program = Program(EncodedCost(np.zeros(2), np.ones(2)), Region((rows,)))
    with np.errstate(all="raise"):
        solution = Daqp(program).solve(program.cases(np.zeros((1, 2))), Effort())
    assert solution.outcomes == Outcome.INFEASIBLE


def test_a_blank_solution_claims_nothing():
    program = Program(ABSOLUTE, Region((ROW, Cone(np.eye(2), np.zeros(2), 9.0))))
    blank = Solution.blank(3, program)
    assert not blank.found.any()
    assert (blank.reported == 0).all()
    assert blank.multipliers.shape == (3, program.size)


@pytest.mark.parametrize("solver", all_solvers(), ids=lambda s: s.__name__)
def test_no_people_no_answers(solver):
    from known_programs import KNOWN

    program = next(k.program for k in KNOWN if solver.takes(k.program))
    solution = solver(program).solve(program.cases(np.zeros((0, program.width))), Effort())
    assert solution.points.shape == (0, program.width)


def test_the_model_of_a_loss_has_its_slope_and_curvature_where_it_is_made():
    rng = np.random.default_rng(0)
    at, unit = rng.normal(size=4), rng.uniform(0.5, 2.0, 4)
    shares = np.exp(at) / (1.0 + np.exp(at).sum())  # of log(1 + Σ exp s)
    square, line = Model(shares, at).form(unit)
    np.testing.assert_allclose(square @ (at / unit) + line, shares * unit)
    ahead = at + 1e-6 * np.eye(4)
    bent = (np.exp(ahead) / (1.0 + np.exp(ahead).sum(axis=1, keepdims=True)) - shares) / 1e-6
    np.testing.assert_allclose(square, bent * np.outer(unit, unit), atol=1e-5)
