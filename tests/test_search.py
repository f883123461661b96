"""The cheapest point over a union: no worse than every piece on its own, whatever their order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from sklearn.linear_model import LogisticRegression
from strategies import Planted, planted, seeds

import counterpoint as cp
from counterpoint.certificate import lower_bounds
from counterpoint.families.prototypes.quadratic_difference import QuadraticDifference
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch, Condition, Region
from counterpoint.search.search import Incumbents, Subproblem, Union, search
from counterpoint.solvers import Effort, Outcome, Solution, branching

LINEAR = ("affine", "box", "at most", "transitions", "changes")


def halves(case: Planted, seed: int) -> list[Program]:
    """A union: the program's region, cut differently in each piece."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(3):
        row = rng.normal(size=(1, case.program.width))
        least = float((case.points @ row[0]).min() + rng.exponential())
        extra = Region((LinearBounds(row, [least], [np.inf]),))
        made.append(Program(case.program.encoded_cost, case.program.region & extra))
    return made


def found(programs: list[Program], x: np.ndarray) -> tuple[Incumbents, float, float]:
    everywhere = Program(programs[0].encoded_cost, Region())
    pieces = Union.of(everywhere, [program.region for program in programs])
    findings = search(pieces, programs[0].cases(x), Effort(1e-9))
    cost = np.array([np.inf])
    if findings.piece[0] >= 0:
        cost = programs[findings.piece[0]].encoded_cost(findings.points, x)
    bound, _ = lower_bounds(findings.evidence, cost)
    return findings, float(cost[0]), float(bound[0])


@given(planted(conditions=LINEAR, most=4), seeds)
def test_a_union_costs_what_its_cheapest_piece_costs(case: Planted, seed: int):
    programs = halves(case, seed)
    alone = [found([program], case.x)[1] for program in programs]
    findings, cost, bound = found(programs, case.x)
    assert cost == pytest.approx(min(alone), rel=1e-6, abs=1e-9)
    if np.isfinite(cost):
        piece = programs[findings.piece[0]]
        assert piece.region.violation(findings.points, case.x)[0] <= 1e-8
        assert bound >= cost * (1 - 1e-6) - 1e-9
        backwards = found(programs[::-1], case.x)[1]
        assert backwards == pytest.approx(cost, rel=1e-6, abs=1e-9)


@given(planted(conditions=LINEAR, most=4), seeds)
def test_a_planted_point_is_never_beaten_by_nothing(case: Planted, seed: int):
    """Where there is a point, there is an answer, and it is no dearer."""
    findings, cost, bound = found([case.program], case.x)
    assert findings.piece[0] == 0
    assert cost <= case.costs.min() * (1 + 1e-6) + 1e-9
    assert bound <= cost * (1 + 1e-9) + 1e-12


def test_nothing_is_found_where_every_piece_is_impossible():
    rows = LinearBounds(np.array([[1.0], [1.0]]), [2.0, -np.inf], [np.inf, 1.0])
    never = Program(EncodedCost(np.ones(1), np.zeros(1)), Region((rows,)))
    findings, cost, bound = found([never, never], np.zeros((1, 1)))
    assert findings.piece[0] == -1
    assert np.isnan(findings.points).all()
    assert np.isinf(cost)
    assert np.isposinf(bound)


class Told:
    """Says the same whatever it is asked, with multipliers that prove nothing."""

    def __init__(self, program: Program, outcome: Outcome, point: float = np.nan) -> None:
        self.program, self.outcome, self.point, self.times = program, outcome, point, 0

    def solve(self, cases: Batch, effort: Effort, cutoff: np.ndarray | None = None) -> Solution:
        self.times += 1
        solution = Solution.blank(len(cases), self.program)
        solution.outcomes[:], solution.points[:] = self.outcome, self.point
        return solution


@pytest.mark.parametrize(
    "condition",
    [
        QuadraticDifference(np.zeros((1, 2)), np.zeros(1), np.eye(2), np.zeros(2), -4.0),
        LogLoss(np.array([[-1.0, -2.0]]), np.zeros(1)),
    ],
    ids=["not convex", "charged"],
)
def test_what_is_iterated_is_as_good_as_its_bound_says(
    condition: Condition, monkeypatch: pytest.MonkeyPatch
):
    """A closed form that stops too early leaves the row to solvers that do not."""
    program = Program(EncodedCost(np.zeros(2), np.ones(2)), Region((condition,)))
    cases = program.cases(np.array([[1.0, 0.5]]))
    pieces = Union.of(program, [Region()])
    best = program.objective(search(pieces, cases, Effort(1e-9)).points, cases)
    early = Told(program, Outcome.FOUND, 3.0)
    monkeypatch.setattr(Subproblem, "closed_form", early)
    findings = search(Union.of(program, [Region()]), cases, Effort(1e-9))
    assert early.times == 1
    assert not findings.closed[0]
    assert program.objective(findings.points, cases) == pytest.approx(best, rel=1e-6)


def test_solvers_are_asked_until_one_settles_the_row_or_time_runs_out(
    monkeypatch: pytest.MonkeyPatch,
):
    rows = LinearBounds(np.array([[1.0, 2.0], [2.0, 1.0]]), [3.0, 3.0], [np.inf, np.inf])
    program = Program(EncodedCost(np.zeros(2), np.ones(2)), Region((rows,)))
    for outcome in (Outcome.NOTHING, Outcome.LIMIT):
        solvers = Told(program, outcome), Told(program, Outcome.FOUND, 1.0)
        monkeypatch.setattr(Subproblem, "closed_form", None)
        monkeypatch.setattr(
            Subproblem, "complete", lambda _, exhaustive, known=solvers: iter(known)
        )
        findings = search(
            Union.of(program, [Region()]), program.cases(np.zeros((1, 2))), Effort(1e-9)
        )
        out_of_time = outcome == Outcome.LIMIT
        assert findings.limited[0] == out_of_time
        assert [solver.times for solver in solvers] == [1, 0 if out_of_time else 1]
        assert findings.piece[0] == (-1 if out_of_time else 0)


def test_rows_that_one_half_space_settles_need_no_solver():
    row = LinearBounds(np.array([[1.0, 2.0]]), [3.0], [np.inf])
    program = Program(EncodedCost(np.ones(2), np.zeros(2)), Region((row,)))
    findings, cost, _ = found([program], np.zeros((1, 2)))
    assert findings.closed[0]
    assert cost == pytest.approx(1.5)


def test_without_a_limit_of_time_the_nodes_are_counted_and_with_one_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 6)), columns=list("abcdef"))
    model = LogisticRegression().fit(X, X.sum(axis=1) > 0.0)
    A = rng.normal(size=(6, 6))
    cost = cp.Mahalanobis(A @ A.T + 0.01 * np.eye(6))
    explainer = cp.Explainer(model, data=X, cost=cost, constraints=[cp.MaxChanges(2)])
    row = X[~model.predict(X)].head(1)
    monkeypatch.setattr(branching, "MOST_WORK", 1)
    assert explainer.explain(row, True)[0].status == "suboptimal"
    assert explainer.explain(row, True, time_limit=20.0)[0].status == "optimal"
    monkeypatch.setattr(branching, "MOST_NODES", 1)
    assert explainer.explain(row, True, time_limit=20.0)[0].status == "limit"
