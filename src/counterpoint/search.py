"""The cheapest point over a union of programs, for whole batches.

Closed forms first, for all people and all pieces at once. Then, piece by piece in the order of
their lower bounds, a complete solver for the people whose piece could still be the cheapest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.certificate import VIOLATION
from counterpoint.programs import Program
from counterpoint.solvers import Effort, Outcome, Prepared, Solution, applicable

__all__ = ["Findings", "Piece", "Proof", "search"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Piece:
    """A program with its prepared solvers."""

    program: Program

    @cached_property
    def closed_form(self) -> Prepared | None:
        """A method for all rows at once, if there is one."""
        first = applicable(self.program)[0]
        return first.prepare(self.program) if first.batched else None

    @cached_property
    def complete(self) -> tuple[Prepared, ...]:
        """The complete solvers that take rows one by one, in the order in which to try them."""
        solvers = applicable(self.program)
        return tuple(s.prepare(self.program) for s in solvers if s.complete and not s.batched)

    @property
    def is_integral(self) -> bool:
        """Whether the optimum may rest on a branch and bound."""
        return self.rounds or self.program.at_most is not None

    @cached_property
    def rounds(self) -> bool:
        """Whether closed forms may have to round, so that their cost may exceed the bound."""
        return bool(self.program.steps.any() or self.program.groups)


@final
@dataclass(eq=False)
class Proof:
    """What is known of one piece, for each row: enough to bound its cost from below.

    Parameters
    ----------
    multipliers
        (n, size).
    at
        (n, d) points for the tangents of a full quadratic price; None without one.
    reported
        (n,) lower bounds that a branch and bound reported; infinite if it found nothing feasible
        and refuted every leaf.
    """

    multipliers: FloatArray
    at: FloatArray | None
    reported: FloatArray


@final
@dataclass(frozen=True, eq=False)
class Findings:
    """What a search found.

    Parameters
    ----------
    points
        (n, d) the cheapest points; NaN where there is none.
    piece
        (n,) the piece of each point; −1 where there is none.
    proofs
        One for each piece.
    limited
        (n,): whether time ran out.
    closed
        (n,): whether closed forms alone settled the row.
    """

    points: FloatArray
    piece: IntArray
    proofs: tuple[Proof, ...]
    limited: BoolArray
    closed: BoolArray


def search(pieces: Sequence[Piece], cases: Sequence[Cases], effort: Effort) -> Findings:
    """The cheapest point of any piece, for each row.

    Parameters
    ----------
    pieces
        The union.
    cases
        The same people as each piece sees them.
    effort
        When to stop.
    """
    state = _State(pieces, cases, effort)
    for s in range(len(pieces)):
        state.close(s)
    state.branch()
    return state.findings()


@final
class _State:
    """The search in progress."""

    def __init__(self, pieces: Sequence[Piece], cases: Sequence[Cases], effort: Effort) -> None:
        n = len(cases[0])
        self.pieces, self.cases, self.effort = pieces, cases, effort
        self.points = np.full(cases[0].x.shape, np.nan)
        self.piece = np.full(n, -1, dtype=np.intp)
        self.cost = np.full(n, np.inf)
        self.limited = np.zeros(n, dtype=bool)
        self.closed = np.ones(n, dtype=bool)
        self.open = np.ones((len(pieces), n), dtype=bool)
        self.bounds = np.zeros((len(pieces), n))
        self.proofs = [self._blank_proof(piece.program, n) for piece in pieces]

    def _blank_proof(self, program: Program, n: int) -> Proof:
        full = program.price.quadratic.ndim == 2
        at = np.array(self.cases[0].x) if full else None
        return Proof(np.zeros((n, program.size)), at, np.zeros(n))

    def close(self, s: int) -> None:
        """Closed forms for every row of a piece."""
        piece, cases = self.pieces[s], self.cases[s]
        if piece.closed_form is None:
            return
        solution = piece.closed_form.solve(cases, self.effort)
        iterated = bool(piece.program.beyond_rows)
        plain = not piece.rounds and not iterated
        if len(self.pieces) == 1 and plain and solution.found.all():
            self._take_all(solution)
            return
        rows = np.arange(len(cases))
        self._learn(s, rows, solution)
        if plain:
            self.open[s] &= ~solution.found
        elif iterated:  # as good as its bound says, and no better
            self.open[s] &= self._may_improve(s, rows) | ~solution.found

    def _take_all(self, solution: Solution) -> None:
        """Every row settled by the one piece: nothing to compare."""
        self.points = solution.points
        self.piece[:] = 0
        self.proofs[0].multipliers = solution.multipliers
        if self.proofs[0].at is not None:
            self.proofs[0].at = solution.points
        self.open[:] = False

    def branch(self) -> None:
        """Complete solvers for what closed forms left open, the most promising piece first."""
        if not self.open.any():
            return
        promising = self.open & (self.bounds < self._worth_beating())
        self.closed = np.asarray(~promising.any(axis=0))
        everyone = np.arange(len(self.cost))
        for at in np.argsort(self.bounds, axis=0, kind="stable"):  # each row's next piece
            improves = self.bounds[at, everyone] < self._worth_beating()
            if not improves.any():  # nor do the pieces to come, whose bounds are no lower
                return
            improves &= self.open[at, everyone]
            for s in np.unique(at[improves]).tolist():
                self._solve(s, np.flatnonzero(improves & (at == s)))

    def _may_improve(self, s: int, rows: IntArray) -> BoolArray:
        return self.bounds[s, rows] < self._worth_beating()[rows]

    def _worth_beating(self) -> FloatArray:
        """(n,) a piece with a bound from here on is not searched."""
        none = np.isinf(self.cost)
        return np.where(none, np.inf, np.where(none, 0.0, self.cost) * (1.0 - self.effort.gap))

    def _solve(self, s: int, rows: IntArray) -> None:
        """One solver after another, until each row is settled."""
        for prepared in self.pieces[s].complete:
            if not len(rows):
                return
            solution = prepared.solve(self.cases[s].take(rows), self.effort, self.cost[rows])
            self._learn(s, rows, self._meeting(s, rows, solution))
            self.limited[rows[solution.outcomes == Outcome.LIMIT]] = True
            again = self.open[s, rows] & ~self.limited[rows] & self._may_improve(s, rows)
            rows = rows[again]

    def _meeting(self, s: int, rows: IntArray, solution: Solution) -> Solution:
        """The solution without points that miss the piece: they must not shadow better ones."""
        found = np.flatnonzero(solution.found)
        x = self.cases[s].x[rows[found]]
        missed = found[self.pieces[s].program.violation(solution.points[found], x) > VIOLATION]
        solution.points[missed], solution.reported[missed] = np.nan, 0.0
        solution.outcomes[missed] = Outcome.NOTHING
        return solution

    def _learn(self, s: int, rows: IntArray, solution: Solution) -> None:
        """Keep better points, better bounds and refutations."""
        program, proof = self.pieces[s].program, self.proofs[s]
        everyone = len(rows) == len(self.cost)
        case = self.cases[s] if everyone else self.cases[s].take(rows)
        found = solution.found
        if found.any():
            cost = np.full(len(rows), np.inf)
            part = case if found.all() else case.take(found)
            cost[found] = program.objective(solution.points[found], part)
            better = np.flatnonzero(cost < self.cost[rows])
            self.points[rows[better]] = solution.points[better]
            self.piece[rows[better]] = s
            self.cost[rows[better]] = cost[better]
        at = None
        if proof.at is not None:
            at = np.where(found[:, None], solution.points, proof.at[rows])
        bound = program.bound(case, solution.multipliers, at)
        claimed = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if len(claimed):
            refuted = program.refutes(case.take(claimed), solution.multipliers[claimed])
            bound[claimed[refuted]] = np.inf
        tighter = bound >= self.bounds[s, rows]
        proof.multipliers[rows[tighter]] = solution.multipliers[tighter]
        if proof.at is not None and at is not None:
            proof.at[rows[tighter]] = at[tighter]
        proof.reported[rows] = np.maximum(proof.reported[rows], solution.reported)
        self.bounds[s, rows] = np.maximum(
            self.bounds[s, rows], np.maximum(bound, solution.reported)
        )
        self.open[s, rows] &= np.isfinite(self.bounds[s, rows])

    def findings(self) -> Findings:
        """The end of the search."""
        return Findings(self.points, self.piece, tuple(self.proofs), self.limited, self.closed)
