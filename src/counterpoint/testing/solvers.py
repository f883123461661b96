# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""What a solver must pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.solvers import Effort, Outcome, Prepared, Solution, Solver
from counterpoint.testing.known import KNOWN, Known

__all__ = ["check_solver"]

FloatArray = NDArray[np.float64]
FEASIBLE = 1e-7
"""The largest relative violation of a point that counts as found; certificates ask for less."""


def check_solver(
    solver: Solver, programs: Sequence[Known] = KNOWN, *, complete: bool = True
) -> int:
    """Check a solver on the programs that it takes.

    A point that it returns is feasible and, within its accuracy, optimal; what it proves never
    exceeds the known optimum and refutes only what is impossible; a person's answer does not depend
    on who else is in the batch; and a cost that is already reached does not make it claim more.

    Parameters
    ----------
    solver
        The solver.
    programs
        With known answers.
    complete
        Whether the solver must answer every program that it takes; a solver that only settles what
        it can may leave rows open, and its points need not be optimal if its bounds say so.

    Returns
    -------
    int
        How many of the programs it took.

    Raises
    ------
    AssertionError
        With a sentence on what differs.
    """
    taken = [known for known in programs if solver.takes(known.program)]
    for known in taken:
        kinds = known.program.kinds - solver.accepts
        assert not kinds, f"{type(solver).__name__} takes {known.name!r}, but accepts no {kinds}."
        prepared = solver.prepare(known.program)
        cases = known.program.cases(known.x[None, :])
        solution = prepared.solve(cases, Effort())
        _check_claims(solver, known, cases, solution)
        if complete:
            _check_answer(solver, known, cases, solution)
        _check_batch(solver, known, prepared, solution)
        _check_cutoff(solver, known, prepared, cases)
    return len(taken)


def _name(solver: Solver, known: Known) -> str:
    return f"{type(solver).__name__} on {known.name!r}"


def _room(solver: Solver, known: Known) -> float:
    """What rounding and accuracy leave open, in cost units."""
    return (solver.accuracy + 1e-9) * max(abs(known.cost), 1.0) if np.isfinite(known.cost) else 0.0


def _check_claims(solver: Solver, known: Known, cases: Cases, solution: Solution) -> None:
    """Nothing that it says is false."""
    name, program = _name(solver, known), known.program
    refuted = bool(program.refutes(cases, solution.multipliers)[0])
    assert not (refuted and np.isfinite(known.cost)), f"{name} refutes what is possible."
    bound = float(program.bound(cases, solution.multipliers, _tangent(solution, cases))[0])
    told = max(bound, float(solution.reported[0]))
    assert told <= known.cost + _room(solver, known), (
        f"{name}: the bound {told!r} exceeds the optimum {known.cost!r}."
    )
    if solution.found[0]:
        violation = float(program.region.violation(solution.points, cases.x)[0])
        assert violation <= FEASIBLE, f"{name} returns a point with violation {violation:.3g}."
        cost = float(program.objective(solution.points, cases)[0])
        assert cost >= known.cost - _room(solver, known), (
            f"{name} returns a point of cost {cost!r}; the optimum is {known.cost!r}."
        )


def _tangent(solution: Solution, cases: Cases) -> FloatArray:
    return solution.points if solution.found[0] else cases.x


def _check_answer(solver: Solver, known: Known, cases: Cases, solution: Solution) -> None:
    """It says all that there is to say."""
    name, program = _name(solver, known), known.program
    if np.isinf(known.cost):
        assert solution.outcomes[0] == Outcome.INFEASIBLE, (
            f"{name}: expected INFEASIBLE; got {Outcome(solution.outcomes[0]).name}."
        )
        return
    assert solution.outcomes[0] == Outcome.FOUND, (
        f"{name}: expected FOUND; got {Outcome(solution.outcomes[0]).name}."
    )
    cost = float(program.objective(solution.points, cases)[0])
    assert cost <= known.cost + _room(solver, known), (
        f"{name} returns a point of cost {cost!r}; the optimum is {known.cost!r}."
    )
    bound = float(program.bound(cases, solution.multipliers, solution.points)[0])
    told = max(bound, float(solution.reported[0]))
    assert told >= cost - _room(solver, known), (
        f"{name}: cost {cost!r}, but the bound is {told!r}; its accuracy is {solver.accuracy:.0e}."
    )


def _check_batch(solver: Solver, known: Known, prepared: Prepared, alone: Solution) -> None:
    """The same person between two others."""
    d = known.program.width
    shift = np.where(known.program.numeric, 1.0, 0.0)
    x = np.stack([known.x + shift, known.x, known.x - shift])
    together = prepared.solve(known.program.cases(x), Effort())
    name = _name(solver, known)
    assert together.points.shape == (3, d), f"{name}: 3 people, points {together.points.shape}."
    assert together.outcomes[1] == alone.outcomes[0], f"{name}: the outcome depends on the batch."
    same = np.allclose(together.points[1], alone.points[0], rtol=1e-9, atol=1e-9, equal_nan=True)
    assert same, f"{name}: the point depends on the batch."


def _check_cutoff(solver: Solver, known: Known, prepared: Prepared, cases: Cases) -> None:
    """A cost that is already reached, below the optimum and above."""
    if not 0.0 < known.cost < np.inf:
        return
    name = _name(solver, known)
    for factor in (0.5, 2.0):
        solution = prepared.solve(cases, Effort(), np.array([factor * known.cost]))
        refuted = known.program.refutes(cases, solution.multipliers)[0]
        assert not refuted, f"{name}: with a cutoff it refutes what is possible."
        if solution.found[0]:
            cost = float(known.program.objective(solution.points, cases)[0])
            assert cost >= known.cost - _room(solver, known), (
                f"{name}: a cutoff changes the answer."
            )
        if factor > 1.0:
            told = float(solution.reported[0])
            assert told <= known.cost + _room(solver, known), (
                f"{name}: with a cutoff of {factor * known.cost!r} it reports the bound {told!r}; "
                f"the optimum is {known.cost!r}."
            )
