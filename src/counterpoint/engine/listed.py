"""Few pieces: closed forms for all rows of each, then complete solvers where those leave a gap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import final

import numpy as np

from counterpoint.certificate import VIOLATION
from counterpoint.engine.evidence import Evidence
from counterpoint.engine.frontier import Frontier, Way
from counterpoint.engine.pieces import Piece
from counterpoint.engine.program import Program
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.solvers import Effort, Optimality, Outcome, Prepared, Solution

__all__ = ["Listed"]


TINY = 1e-6
"""The least time that a solver is given, in seconds."""


@final
@dataclass(eq=False)
class Proof:
    """What is known of one piece, for each row: enough to bound its cost from below.

    Parameters
    ----------
    multipliers
        (n, size).
    at
        (n, d) points at which bounds are sharpest, see `Program.bound`; None where none are used.
    reported
        (n,) lower bounds that a branch and bound reported; infinite if it found nothing feasible
        and refuted every leaf.
    """

    multipliers: FloatArray
    at: FloatArray | None
    reported: FloatArray

    @classmethod
    def blank(cls, program: Program, x: FloatArray) -> Proof:
        """Nothing."""
        at = np.array(x) if program.has_tangents else None
        return cls(np.zeros((len(x), program.size)), at, np.zeros(len(x)))


@final
class Listed(Way):
    """Pieces that are all written down.

    Parameters
    ----------
    frontier
        The search.
    pieces
        The union; the time of each row is shared evenly among them.
    """

    def __init__(self, frontier: Frontier, pieces: tuple[Piece, ...]) -> None:
        self.frontier, self.pieces = frontier, pieces
        self.effort = frontier.effort.shared(len(pieces))
        self.cases = [piece.sees(frontier.cases) for piece in pieces]
        self.open = np.ones((len(pieces), len(frontier.cases)), dtype=bool)
        self.bounds = np.zeros(self.open.shape)
        self.proofs = [Proof.blank(piece.program, frontier.cases.x) for piece in pieces]

    def run(self) -> None:
        exhaustive = self.effort.optimality is Optimality.GLOBAL
        if exhaustive:
            self._prepare_exhaustive()
        for s in range(len(self.pieces)):
            self._close(s)
        if self.open.any():
            promising = self.open & (self.bounds < self.frontier.worth_beating())
            self.frontier.closed = np.asarray(~promising.any(axis=0))
            self._branch()
            for i in range(len(self.frontier.cases) if exhaustive else 0):
                self._exhaust(i)

    def _prepare_exhaustive(self) -> None:
        """At once, for what they need may be missing."""
        for piece in self.pieces:
            list(piece.complete(exhaustive=True))

    def evidence(self) -> list[Evidence]:
        parts = zip(self.pieces, self.cases, self.proofs, strict=True)
        return [Evidence(p.program, c, o.multipliers, o.at, o.reported) for p, c, o in parts]

    def _close(self, s: int) -> None:
        """Closed forms for every row of a piece."""
        piece, cases = self.pieces[s], self.cases[s]
        if piece.closed_form is None:
            return
        solution = piece.closed_form.solve(cases, self.effort)
        iterated = bool(piece.program.beyond_rows or piece.program.nonconvex)
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
        frontier, proof = self.frontier, self.proofs[0]
        frontier.points = solution.points
        frontier.piece[:] = 0
        proof.multipliers = solution.multipliers
        if proof.at is not None:
            proof.at = solution.points
        self.open[:] = False

    def _branch(self) -> None:
        """Complete solvers for what closed forms left open, the most promising piece first."""
        everyone = np.arange(self.open.shape[1])
        for at in np.argsort(self.bounds, axis=0, kind="stable"):  # each row's next piece
            improves = self.bounds[at, everyone] < self.frontier.worth_beating()
            if not improves.any():  # nor do the pieces to come, whose bounds are no lower
                return
            improves &= self.open[at, everyone]
            for s in np.unique(at[improves]).tolist():
                rows = np.flatnonzero(improves & (at == s))
                self._solve(s, rows, self.pieces[s].complete(exhaustive=False), self.effort)

    def _exhaust(self, i: int) -> None:
        """Exhaustive solvers for one row; the pieces that are left share the time that is left."""
        row, seconds = np.array([i]), self.frontier.effort.seconds
        end = np.inf if seconds is None else perf_counter() + seconds
        searched = np.zeros(len(self.pieces), dtype=bool)
        while True:
            promising = self.bounds[:, i] < self.frontier.worth_beating()[i]
            left = np.flatnonzero(promising & self.open[:, i] & ~searched)
            if not len(left):
                return
            s = int(left[self.bounds[left, i].argmin()])
            searched[s] = True
            share = (end - perf_counter()) / len(left)
            effort = replace(self.effort, seconds=max(share, TINY) if seconds else None)
            self._solve(s, row, self.pieces[s].complete(exhaustive=True), effort)

    def _may_improve(self, s: int, rows: IntArray) -> BoolArray:
        """(rows,): whether a piece may hold better points."""
        return self.bounds[s, rows] < self.frontier.worth_beating()[rows]

    def _solve(self, s: int, rows: IntArray, solvers: Iterable[Prepared], effort: Effort) -> None:
        """One solver after another, until each row is settled."""
        frontier = self.frontier
        for prepared in solvers:
            if not len(rows):
                return
            solution = prepared.solve(self.cases[s].take(rows), effort, frontier.cost[rows])
            self._learn(s, rows, self._meeting(s, rows, solution))
            frontier.limited[rows[solution.outcomes == Outcome.LIMIT]] = True
            again = self.open[s, rows] & ~frontier.limited[rows]
            rows = rows[again & self._may_improve(s, rows)]

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
        program, proof, bounds = self.pieces[s].program, self.proofs[s], self.bounds[s]
        case = self.cases[s]
        if len(rows) < len(case):
            case = case.take(rows)
        found = solution.found
        if found.any():
            cost = np.full(len(rows), np.inf)
            part = case if found.all() else case.take(found)
            cost[found] = program.objective(solution.points[found], part)
            self.frontier.offer(s, rows, solution.points, cost)
        at = None
        if proof.at is not None:
            at = np.where(found[:, None], solution.points, proof.at[rows])
        bound = program.bound(case, solution.multipliers, at)
        claimed = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if len(claimed):
            refuted = program.refutes(case.take(claimed), solution.multipliers[claimed])
            bound[claimed[refuted]] = np.inf
        tighter = bound >= bounds[rows]
        proof.multipliers[rows[tighter]] = solution.multipliers[tighter]
        if proof.at is not None and at is not None:
            proof.at[rows[tighter]] = at[tighter]
        proof.reported[rows] = np.maximum(proof.reported[rows], solution.reported)
        bounds[rows] = np.maximum(bounds[rows], np.maximum(bound, solution.reported))
        self.open[s, rows] &= np.isfinite(bounds[rows])
