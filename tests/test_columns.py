"""Wide programs, a few columns at a time: against CVXPY, and against the whole at once."""

from __future__ import annotations

import cvxpy
import numpy as np
import pytest

from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import Box, LinearBounds
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program
from counterpoint.programs.region import Condition, Region
from counterpoint.solvers import Effort, Outcome
from counterpoint.solvers.clarabel import Clarabel
from counterpoint.solvers.columns import is_wide

WIDTH, RIVALS = 300, 4


def wide(seed: int, *, charged: bool, reach: float = np.inf, limit: float = 0.1) -> Program:
    """A label against four others, with a linear row besides."""
    rng = np.random.default_rng(seed)
    matrix, offset = rng.normal(size=(RIVALS, WIDTH)), rng.normal(size=RIVALS)
    softmax = LogLoss(matrix, offset) if charged else LogSumExp(matrix, offset, limit)
    conditions: list[Condition] = [softmax]
    conditions.append(LinearBounds(rng.normal(size=(1, WIDTH)), np.ones(1), np.full(1, np.inf)))
    box = Box.unbounded(WIDTH)
    box.least[:], box.most[:] = -reach, reach
    encoded_cost = EncodedCost(rng.uniform(0.5, 2.0, WIDTH), np.zeros(WIDTH))
    return Program(encoded_cost, Region((*conditions, box)))


def optimum(program: Program, x: np.ndarray, weight: float, reach: float) -> float:
    """The same by CVXPY."""
    delta = cvxpy.Variable(WIDTH)
    paid, y = program.encoded_cost.absolute @ cvxpy.abs(delta), x + delta
    (rows,) = (c for c in program.region if isinstance(c, LinearBounds))
    conditions = [rows.matrix @ y >= rows.low]
    if np.isfinite(reach):
        conditions.append(cvxpy.abs(delta) <= reach)
    softmax = program.couplings[0]
    assert isinstance(softmax, LogLoss | LogSumExp)
    scores = softmax.matrix @ y + softmax.offset
    if isinstance(softmax, LogLoss):
        paid = weight * paid + cvxpy.log_sum_exp(cvxpy.hstack([scores, 0.0]))
    else:
        conditions.append(cvxpy.log_sum_exp(scores) <= softmax.limit)
    return float(cvxpy.Problem(cvxpy.Minimize(paid), conditions).solve(solver="CLARABEL"))


@pytest.mark.parametrize("charged", [True, False], ids=["traded off", "demanded"])
@pytest.mark.parametrize("reach", [np.inf, 0.02], ids=["free", "box"])
def test_the_optimum_is_that_of_all_columns_and_few_of_them_move(charged: bool, reach: float):
    program, rng, weight = wide(1, charged=charged, reach=reach), np.random.default_rng(2), 0.05
    assert is_wide(program)
    cases = program.cases(rng.normal(size=(3, WIDTH)) * 0.1)
    cases = cases.weighing(np.full(3, weight)) if charged else cases
    solution = Clarabel(program).solve(cases, Effort())
    reached = program.objective(solution.points, cases)
    least = [optimum(program, x, weight, reach) for x in cases.x]
    np.testing.assert_allclose(reached, least, rtol=1e-6)
    bound = program.bound(cases, solution.multipliers, solution.points)
    assert (bound <= reached * (1.0 + 1e-8)).all()  # points may miss rows by as much
    np.testing.assert_allclose(bound, reached, rtol=1e-7)
    assert program.violation(solution.points, cases.x).max() <= 1e-8
    assert ((solution.points != cases.x).sum(axis=1) < (WIDTH if reach < 1 else 10)).all()


def test_where_no_column_helps_that_is_proved():
    program = wide(3, charged=False, reach=1e-3, limit=-5.0)
    cases = program.cases(np.zeros((2, WIDTH)))
    solution = Clarabel(program).solve(cases, Effort())
    assert (solution.outcomes == Outcome.INFEASIBLE).all()
    assert program.refutes(cases, solution.multipliers).all()


def test_what_is_not_wide_or_gratis_is_solved_whole():
    program = wide(1, charged=True)
    free = Program(EncodedCost(np.zeros(WIDTH), np.zeros(WIDTH)), program.region)
    assert not is_wide(free)
