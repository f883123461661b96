# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""Checks solvers on programs whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterpoint.programs.region import Batch
from counterpoint.solvers import Effort, Outcome, Solution, Solver
from counterpoint.testing.known import KNOWN, Known


def check_solver(
    solver: type[Solver], programs: Sequence[Known] = KNOWN, *, complete: bool = True
) -> int:
    """Check a solver on the programs that it takes.

    A point that it returns is feasible and, within its accuracy, optimal; what it proves never
    exceeds the known optimum and refutes only what is impossible; a row's answer does not depend on
    the others in the batch; and a cost that is already reached does not make it claim more.

    Parameters
    ----------
    solver
        Its class.
    programs
        Programs with known answers.
    complete
        Whether the solver must answer every program that it takes; one that only settles what it
        can may leave rows open, and its points need not be optimal if its bounds say so.

    Returns
    -------
    int
        How many of the programs it took.
    """
    problems = [problem for problem in programs if solver.takes(problem.program)]
    for problem in problems:
        types = problem.program.condition_types - solver.accepts
        assert not types, f"{solver.__name__} takes {problem.name!r}, but accepts no {types}."
        prepared = solver(problem.program)
        alone = _check_answer(solver, problem, prepared, complete=complete)
        _check_batch(solver, problem, prepared, alone)
        if 0.0 < problem.cost < np.inf:
            _check_cutoff(solver, problem, prepared)
    return len(problems)


def _described(solver: type[Solver], problem: Known) -> tuple[str, Batch, float]:
    """Return the name of the check, the row, and the tolerance of its cost, in cost units."""
    scale = max(abs(problem.cost), 1.0) if np.isfinite(problem.cost) else 0.0
    tolerance = (solver.accuracy + 1e-9) * scale
    name = f"{solver.__name__} on {problem.name!r}"
    return name, problem.program.cases(problem.x[None, :]), tolerance


def _check_answer(
    solver: type[Solver], problem: Known, prepared: Solver, *, complete: bool
) -> Solution:
    """Check that no claim is false, and of a complete solver that none is missing."""
    name, batch, tolerance = _described(solver, problem)
    program, solution = problem.program, prepared.solve(batch, Effort())
    refuted = bool(program.refutes(batch, solution.multipliers)[0])
    assert not (refuted and np.isfinite(problem.cost)), f"{name} refutes what is possible."
    tangent = solution.points if solution.found[0] else batch.x
    bound = float(program.bound(batch, solution.multipliers, tangent)[0])
    proved = max(bound, float(solution.reported[0]))
    assert proved <= problem.cost + tolerance, (
        f"{name}: the bound {proved!r} exceeds the optimum {problem.cost!r}."
    )
    cost = np.nan
    if solution.found[0]:
        violation = float(program.region.violation(solution.points, batch.x)[0])
        # It is relative; certificates ask for less.
        assert violation <= 1e-7, f"{name} returns a point with violation {violation:.3g}."
        cost = float(program.objective(solution.points, batch)[0])
        assert cost >= problem.cost - tolerance, (
            f"{name} returns a point of cost {cost!r}; the optimum is {problem.cost!r}."
        )
    if not complete:
        return solution
    expected = Outcome.INFEASIBLE if np.isinf(problem.cost) else Outcome.FOUND
    assert solution.outcomes[0] == expected, (
        f"{name}: expected {expected.name}; got {Outcome(solution.outcomes[0]).name}."
    )
    if expected is Outcome.FOUND:
        assert cost <= problem.cost + tolerance, (
            f"{name} returns a point of cost {cost!r}; the optimum is {problem.cost!r}."
        )
        assert proved >= cost - tolerance, (
            f"{name}: cost {cost!r}, but the bound is {proved!r}; its accuracy is "
            f"{solver.accuracy:.0e}."
        )
    return solution


def _check_batch(solver: type[Solver], problem: Known, prepared: Solver, alone: Solution) -> None:
    """Check that a row between two others is answered as it is alone."""
    name = _described(solver, problem)[0]
    shift = np.where(problem.program.domain.numeric, 1.0, 0.0)
    x = np.stack([problem.x + shift, problem.x, problem.x - shift])
    together = prepared.solve(problem.program.cases(x), Effort())
    assert together.points.shape == x.shape, f"{name}: 3 rows, points {together.points.shape}."
    assert together.outcomes[1] == alone.outcomes[0], f"{name}: the outcome depends on the batch."
    same = np.allclose(together.points[1], alone.points[0], rtol=1e-9, atol=1e-9, equal_nan=True)
    assert same, f"{name}: the point depends on the batch."


def _check_cutoff(solver: type[Solver], problem: Known, prepared: Solver) -> None:
    """Check answers with a cost that is already reached, below the optimum and above."""
    name, batch, tolerance = _described(solver, problem)
    for factor in (0.5, 2.0):
        solution = prepared.solve(batch, Effort(), np.array([factor * problem.cost]))
        refuted = problem.program.refutes(batch, solution.multipliers)[0]
        assert not refuted, f"{name}: with a cutoff it refutes what is possible."
        if solution.found[0]:
            cost = float(problem.program.objective(solution.points, batch)[0])
            assert cost >= problem.cost - tolerance, f"{name}: a cutoff changes the answer."
        # Below the optimum a cutoff leaves nothing to find, of which any bound is true.
        reported = float(solution.reported[0])
        assert factor < 1.0 or reported <= problem.cost + tolerance, (
            f"{name}: with a cutoff of {factor * problem.cost!r} it reports the bound "
            f"{reported!r}; the optimum is {problem.cost!r}."
        )
