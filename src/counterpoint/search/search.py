"""The cheapest point over a union of programs, for whole batches.

`Found` holds what is known of each row; the most promising pieces are taken up first. Where all of
them are written down, that is closed forms for all rows and all pieces at once, then complete
solvers for the rows whose piece could still be the cheapest. What cannot be listed, or has
conditions that no solver takes, is searched as its family says: a `LazyUnion`, a condition,
`SafetyMargins` that depend on where the answer is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, final

import numpy as np

from counterpoint.errors import NoSolver
from counterpoint.families.registry import families
from counterpoint.numerics import VIOLATION, BoolArray, FloatArray, IntArray
from counterpoint.programs.evidence import Bounding, Evidence, Kept
from counterpoint.programs.region import Cases
from counterpoint.solvers.base import Effort, Optimality, Outcome, Solution, Solver

if TYPE_CHECKING:
    from counterpoint.search.union import Subproblem, Union
    from counterpoint.solvers.halfspace import NearestHalfSpace

__all__ = ["Found", "Incumbents", "SafetyMargins", "highest_probability", "search", "search_listed"]

TRACE = 1e-7
"""What the price counts beside −log of a probability that is to be as high as can be."""
TIMES = 3
"""How many such prices are tried, each a trace of what the last one left."""
CLOSELY = 1e-6
"""The relative gap of each of these searches."""
SHORTEST = 1e-6
"""The least time that a solver is given, in seconds."""

Incumbents = Callable[[int, float], FloatArray]
"""The number of a row, and when to stop by `clock` → (m, d) answers to begin with, the cheapest
first."""


def _none(_: int, __: float) -> FloatArray:
    return np.empty((0, 0))


class SafetyMargins(ABC):
    """What the lead of an answer has to be, however it was chosen, for each of n rows."""

    @abstractmethod
    def take(self, rows: IntArray | BoolArray) -> SafetyMargins:
        """That of some rows."""

    @abstractmethod
    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        """(n,) the leads of points (n, d) that cost (n,), in score units."""


@final
class Found:
    """The best points so far of n rows, and what bounds all others.

    Objectives (n,) may be ``reached`` already. A search that takes long may ask for ``incumbents``.
    """

    def __init__(
        self,
        cases: Cases,
        effort: Effort,
        reached: FloatArray | None = None,
        incumbents: Incumbents = _none,
    ) -> None:
        n = len(cases.x)
        self.cases, self.effort, self.incumbents = cases, effort, incumbents
        self.points = np.full(cases.x.shape, np.nan)
        # how columns of lower precision are to hold some points, if not as the nearest numbers
        self.written: dict[int, FloatArray] = {}
        self.piece = np.full(n, -1, dtype=np.intp)  # of each point; −1 where there is none
        self.objective = np.full(n, np.inf) if reached is None else np.array(reached)
        self.limited = np.zeros(n, dtype=bool)  # whether time ran out
        self.closed = np.ones(n, dtype=bool)  # whether closed forms alone settled the row
        self.evidence: Sequence[Bounding] = ()  # what bounds every piece from below
        # the same of pieces that were searched together, for records
        self.kept_of_pieces: list[Kept | None] | None = None

    @property
    def kept(self) -> list[Kept | None]:
        """What proves the bounds of each piece, for a record."""
        return self.kept_of_pieces or [evidence.kept for evidence in self.evidence]

    def worth_beating(self) -> FloatArray:
        """(n,) a piece with a bound from here on is not searched."""
        none = np.isinf(self.objective)
        return np.where(none, np.inf, np.where(none, 0.0, self.objective) * (1.0 - self.effort.gap))

    def offer(self, s: int, rows: IntArray, points: FloatArray, objective: FloatArray) -> None:
        """Points of a piece; the ones that are better are kept."""
        better = np.flatnonzero(objective < self.objective[rows])
        self.points[rows[better]] = points[better]
        self.piece[rows[better]] = s
        self.objective[rows[better]] = objective[better]


def search(
    pieces: Union,
    cases: Cases,
    effort: Effort,
    safety_margins: SafetyMargins | None = None,
    incumbents: Incumbents = _none,
) -> Found:
    """The best point of any piece, for each row.

    Rows are as programs see them, but for what pieces say of features one by one;
    ``safety_margins`` are
    those that are needed where points are, if the union does not say all; ``incumbents`` are points
    that meet target and constraints, for a search that takes long.
    """
    found = Found(cases, effort, incumbents=incumbents)
    kinds = pieces.condition_types | {type(safety_margins)}
    for family in families():
        for kind in kinds & family.SEARCHES.keys():
            if pieces.program.encoded_cost.tables and not family.TABLES:
                from counterpoint.solvers import lack

                raise NoSolver(lack(pieces.program))
            found.evidence = family.SEARCHES[kind](found, pieces, safety_margins)
            return found
    if pieces.half_spaces is not None and _nearest_half_space(found, pieces.half_spaces):
        return found
    return search_listed(found, pieces.listed)


def _nearest_half_space(found: Found, half_spaces: NearestHalfSpace) -> bool:
    """Search many half-spaces at once; whether all rows are settled by that."""
    points, objective, piece, evidence = half_spaces.solve(found.cases, found.effort.gap)
    if not ((piece >= 0) | np.isposinf(evidence.proved).all(axis=1)).all():
        return False
    found.points, found.objective, found.piece = points, objective, piece
    found.evidence, found.kept_of_pieces = [evidence], evidence.kept_of_pieces
    return True


def search_listed(found: Found, pieces: Sequence[Subproblem]) -> Found:
    """Pieces that are all written down: closed forms, then complete solvers where they leave a gap.

    The time of each row is shared evenly among the pieces.
    """
    exhaustive, first = found.effort.optimality is Optimality.GLOBAL, None
    if exhaustive:
        for piece in pieces:
            list(piece.complete(exhaustive=True))  # at once, for what they need may be missing
    if len(pieces) == 1 and pieces[0].closed_form is not None:
        piece, program = pieces[0], pieces[0].program
        cases = piece.sees(found.cases) if piece.narrows else found.cases
        first = pieces[0].closed_form.solve(cases, found.effort)
        iterated = bool(program.nonlinear_and_objective_terms or program.nonconvex)
        solved = np.isfinite(first.points[:, 0]) & (first.outcomes != Outcome.LIMIT)
        if not piece.rounds and not iterated and solved.all():
            found.points, at = first.points, first.points if program.has_tangents else None
            found.piece[:] = 0
            trees = [] if first.proof is None else [(np.arange(len(cases)), first.proof)]
            known = Evidence(program, cases, first.multipliers, at, first.reported, trees)
            found.evidence = [known]
            return found
    one = _Listed(found, pieces)
    for s in range(len(pieces)):
        one.close(s, first)
    if one.open.any():
        promising = one.open & (one.bounds < found.worth_beating())
        found.closed = np.asarray(~promising.any(axis=0))
        one.branch()
        for i in range(len(found.cases) if exhaustive else 0):
            one.exhaust(i)
    found.evidence = one.evidence
    return found


def highest_probability(pieces: Union, x: FloatArray, end: float) -> float | None:
    """The highest probability of a label that is traded off, but for a trace of the cost.

    −log of it, which the pieces charge, is minimised with a price that is next to nothing beside
    it: without any, the highest may be reached at infinity only. Stops at ``end`` of `thread_time`.
    """
    program = pieces[0].program
    cases, weight, best = program.cases(x), np.full(1, TRACE), None
    for _ in range(TIMES):
        left = end - thread_time()
        if left <= 0.0:
            break
        found = search(pieces, cases.weighing(weight), Effort(CLOSELY, left / TIMES))
        if found.piece[0] < 0:
            break
        y = found.points
        charged = float(
            sum(objective_term.amount(y)[0] for objective_term in program.objective_terms)
        )
        reached = float(np.exp(-charged))
        if best is not None and reached <= best * (1.0 + CLOSELY):
            break
        best = reached
        weight = TRACE * max(charged, TRACE) / np.maximum(program.cost(y, x), TRACE)
    return best


@final
class _Listed:
    """Which of some pieces may still hold better points of each row: (pieces, n) `open`, bounds."""

    def __init__(self, found: Found, pieces: Sequence[Subproblem]) -> None:
        self.found, self.pieces = found, pieces
        self.effort = found.effort.shared(len(pieces))
        self.open = np.ones((len(pieces), len(found.points)), dtype=bool)
        self.bounds = np.zeros(self.open.shape)
        seen = (piece.sees(found.cases) if piece.narrows else found.cases for piece in pieces)
        self.evidence = [
            Evidence.blank(piece.program, cases) for piece, cases in zip(pieces, seen, strict=True)
        ]

    def close(self, s: int, solution: Solution | None) -> None:
        """Closed forms for every row of a piece, unless their solution is given."""
        piece, known = self.pieces[s], self.evidence[s]
        if piece.closed_form is None:
            return
        if solution is None:
            cutoff = self.found.objective if np.isfinite(self.found.objective).any() else None
            solution = piece.closed_form.solve(known.cases, self.effort, cutoff)
        solved = solution.found & (solution.outcomes != Outcome.LIMIT)
        self._learn(s, np.arange(len(solved)), solution)
        if (
            piece.program.nonlinear_and_objective_terms or piece.program.nonconvex
        ):  # as good as its bound says
            self.open[s] &= (self.bounds[s] < self.found.worth_beating()) | ~solved
        elif not piece.rounds:
            self.open[s] &= ~solved

    def branch(self) -> None:
        """Complete solvers for what closed forms left open, the most promising piece first."""
        everyone = np.arange(self.open.shape[1])
        for at in np.argsort(self.bounds, axis=0, kind="stable"):  # each row's next piece
            improves = self.bounds[at, everyone] < self.found.worth_beating()
            if not improves.any():  # nor do the pieces to come, whose bounds are no lower
                return
            improves &= self.open[at, everyone]
            for s in np.unique(at[improves]).tolist():
                rows = np.flatnonzero(improves & (at == s))
                self._solve(s, rows, self.pieces[s].complete(exhaustive=False), self.effort)

    def exhaust(self, i: int) -> None:
        """Exhaustive solvers for one row; the pieces that are left share the time that is left."""
        row, seconds = np.array([i]), self.found.effort.seconds
        end = np.inf if seconds is None else perf_counter() + seconds
        searched = np.zeros(len(self.pieces), dtype=bool)
        while True:
            promising = self.bounds[:, i] < self.found.worth_beating()[i]
            left = np.flatnonzero(promising & self.open[:, i] & ~searched)
            if not len(left):
                return
            s = int(left[self.bounds[left, i].argmin()])
            searched[s] = True
            share = (end - perf_counter()) / len(left)
            effort = replace(self.effort, seconds=max(share, SHORTEST) if seconds else None)
            self._solve(s, row, self.pieces[s].complete(exhaustive=True), effort)

    def _solve(self, s: int, rows: IntArray, solvers: Iterable[Solver], effort: Effort) -> None:
        """One solver after another, until each row is settled."""
        found, cases, program = self.found, self.evidence[s].cases, self.pieces[s].program
        for solver in solvers:
            if not len(rows):
                return
            solution = solver.solve(cases.take(rows), effort, found.objective[rows])
            here = np.flatnonzero(solution.found)  # what misses the piece must not shadow the rest
            missed = program.violation(solution.points[here], cases.x[rows[here]]) > VIOLATION
            solution.points[here[missed]], solution.reported[here[missed]] = np.nan, 0.0
            solution.outcomes[here[missed]] = Outcome.NOTHING
            self._learn(s, rows, solution)
            found.limited[rows[solution.outcomes == Outcome.LIMIT]] = True
            again = self.open[s, rows] & ~found.limited[rows]
            rows = rows[again & (self.bounds[s, rows] < found.worth_beating()[rows])]

    def _learn(self, s: int, rows: IntArray, solution: Solution) -> None:
        """Keep better points, better bounds and refutations."""
        program, known, bounds = self.pieces[s].program, self.evidence[s], self.bounds[s]
        case = known.cases if len(rows) == len(known.cases) else known.cases.take(rows)
        found = solution.found
        if found.any():
            objective = np.full(len(rows), np.inf)
            part = case if found.all() else case.take(found)
            objective[found] = program.objective(solution.points[found], part)
            self.found.offer(s, rows, solution.points, objective)
        at = None
        if known.at is not None:
            at = np.where(found[:, None], solution.points, known.at[rows])
        bound = program.bound(case, solution.multipliers, at)
        claimed = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if len(claimed):
            refuted = program.refutes(case.take(claimed), solution.multipliers[claimed])
            bound[claimed[refuted]] = np.inf
        tighter = bound >= bounds[rows]
        near = None if at is None else at[tighter]
        known.learn(rows[tighter], solution.multipliers[tighter], near, bound[tighter])
        known.reported[rows] = np.maximum(known.reported[rows], solution.reported)
        if solution.proof is not None:
            known.proofs.append((rows, solution.proof))
        bounds[rows] = np.maximum(bounds[rows], np.maximum(bound, solution.reported))
        self.open[s, rows] &= np.isfinite(bounds[rows])
