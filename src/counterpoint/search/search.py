"""The cheapest point over a union of programs, for whole batches.

`Incumbents` holds what is known of each row; the most promising subproblems are taken up first. If
all of them are written down, that is closed forms for all rows and all subproblems at once, then
complete solvers for the rows whose subproblem could still be the cheapest. What cannot be listed,
or has conditions that no solver takes, is searched as its family says: a `LazyUnion`, a condition,
`SafetyMargins` that depend on where the answer is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter, thread_time
from typing import Any, final, overload

import numpy as np

from counterpoint.errors import NoSolver
from counterpoint.families.registry import families
from counterpoint.numerics import VIOLATION, BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import Manhattan
from counterpoint.programs.combinations import ForbiddenCombinations
from counterpoint.programs.conditions import (
    AtMost,
    CutOracle,
    HalfSpaces,
    LinearBounds,
    OneOf,
    Whole,
)
from counterpoint.programs.evidence import Bounding, BoundProof, Evidence, has_tangents
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.program import Program, relaxed
from counterpoint.programs.region import Batch, Domain, LazyUnion, Region
from counterpoint.search.combinations import BoxTrees
from counterpoint.solvers import Solver, all_solvers, applicable, lack
from counterpoint.solvers.base import Effort, Optimality, Outcome, Solution
from counterpoint.solvers.halfspace import NearestHalfSpace

LISTED = 2048
"""A lazy union is listed if all its regions together have at most this many rows."""
COST_SHARE = 1e-7
"""The share of the cost in the objective, relative to −log of a probability to be maximised."""
PROBABILITY_SEARCHES = 3
"""Searches for the highest probability; each weighs the cost by the point of the one before."""
PROBABILITY_GAP = 1e-6
"""The relative gap of each of these searches."""
SHORTEST = 1e-6
"""The least time that a solver is given, in seconds."""


@final
@dataclass(frozen=True, eq=False)
class Subproblem:
    """A program with its prepared solvers."""

    program: Program
    narrows: bool = False  # whether the target itself says what features may be, one by one

    @classmethod
    def of(cls, program: Program, region: Region) -> Subproblem:
        """What is possible without the target, within a region of the target."""
        narrows = any(isinstance(condition, Domain) for condition in region)
        return cls(Program(program.encoded_cost, region & program.region), narrows)

    def within(self, region: Region) -> Subproblem:
        """The piece within a region besides."""
        return replace(
            self, program=Program(self.program.encoded_cost, self.program.region & region)
        )

    @cached_property
    def supported(self) -> tuple[CutOracle, ...]:
        """Its conditions that no solver takes, but by half-spaces that hold them."""
        return tuple(c for c in self.program.region if isinstance(c, CutOracle))

    def relaxed(self, cuts: LinearBounds) -> Subproblem:
        """The piece with half-spaces in their place."""
        conditions = tuple(c for c in self.program.region if not isinstance(c, CutOracle))
        bounds = (cuts,) if cuts.size else ()
        return replace(
            self, program=Program(self.program.encoded_cost, Region((*conditions, *bounds)))
        )

    @cached_property
    def free(self) -> Subproblem:
        """The piece without whole steps, and without categories unless only they have a price."""
        dropped = (
            (Whole, AtMost, OneOf)
            if self.program.encoded_cost.kind is Manhattan
            else (Whole, AtMost)
        )
        return Subproblem(relaxed(self.program, *dropped))

    @cached_property
    def is_solved(self) -> bool:
        """Whether some solver takes it."""
        return any(solver.takes(self.program) for solver in all_solvers())

    @cached_property
    def closed_form(self) -> Solver | None:
        """A method for all rows at once, if there is one."""
        if not self.is_solved:
            return None
        first = applicable(self.program)[0]
        return first(self.program) if first.batched else None

    @cached_property
    def _complete(self) -> dict[type[Solver], Solver | None]:
        """The complete solvers that take rows one by one, in the order in which to try them."""
        solvers = applicable(self.program)
        return {s: None for s in solvers if s.complete and not s.batched}

    def complete(self, *, exhaustive: bool) -> Iterator[Solver]:
        """The complete solvers that take rows one by one, each prepared when it is asked for.

        Those that are exhaustive, or the others.
        """
        for solver, prepared in self._complete.items():
            if solver.exhaustive != exhaustive:
                continue
            ready = prepared or solver(self.program)
            self._complete[solver] = ready
            yield ready

    @property
    def is_integral(self) -> bool:
        """Whether the optimum may rest on a branch and bound."""
        return self.rounds or self.program.domain.at_most is not None

    @cached_property
    def rounds(self) -> bool:
        """Whether closed forms may have to round, so that their cost may exceed the bound."""
        return bool(self.program.domain.steps.any() or self.program.domain.groups)

    def sees(self, cases: Batch) -> Batch:
        """The cases as this piece sees them."""
        if not self.narrows:
            return cases
        bounds = self.program.cases(cases.x)
        return cases.within(bounds.low, bounds.high)


@final
@dataclass(frozen=True, eq=False)
class Union(Sequence[Subproblem]):
    """The programs whose union is a target."""

    program: Program  # the cost over what is possible, without the target
    regions: Sequence[Region]  # where the target holds
    # the regions themselves, where they have too many rows to be listed
    lazy: LazyUnion | None = None
    aim: Any = None  # where to look, if only the family of the target knows
    half_spaces: NearestHalfSpace | None = None  # all pieces at once, if each is a half-space
    combinations: ForbiddenCombinations | None = None  # what none of its programs knows

    @classmethod
    def of(cls, program: Program, regions: Sequence[Region], aim: Any = None) -> Union:
        """What is possible without the target, within the regions whose union is the target."""
        combinations = [c for c in program.region if isinstance(c, ForbiddenCombinations)]
        lazy = half_spaces = joined = None
        if combinations:
            program = relaxed(program, ForbiddenCombinations)
            joined = ForbiddenCombinations.joined(combinations)
        if isinstance(regions, LazyUnion) and regions.size > LISTED:
            lazy = regions
        if isinstance(regions, HalfSpaces) and len(regions) > 1:
            half_spaces = NearestHalfSpace.of(program, regions.rows)
        return cls(program, regions, lazy, aim, half_spaces, joined)

    def __len__(self) -> int:
        return len(self.regions)

    @overload
    def __getitem__(self, s: int) -> Subproblem: ...
    @overload
    def __getitem__(self, s: slice) -> Union: ...
    def __getitem__(self, s: int | slice) -> Subproblem | Union:
        if isinstance(s, slice):
            lazy = None if self.lazy is None else self.lazy.some(s)
            regions = self.regions[s] if lazy is None else lazy
            return replace(self, regions=regions, lazy=lazy, half_spaces=None)
        return self.listed[s] if self.lazy is None else Subproblem.of(self.program, self.regions[s])

    @cached_property
    def listed(self) -> Sequence[Subproblem]:
        """All of them, unless the union is lazy."""
        if self.lazy is not None:
            return ()
        return tuple(Subproblem.of(self.program, region) for region in self.regions)

    def ties_resolved(self, units: FloatArray) -> Union:
        """The same points on a lattice of these units, each tie in it decided."""
        if self.lazy is not None:
            lazy = self.lazy.ties_resolved(units)
            return replace(self, regions=lazy, lazy=lazy)

        regions = [
            Region(
                tuple(c.ties_resolved(units) if isinstance(c, LinearBounds) else c for c in region)
            )
            for region in self.regions
        ]
        return replace(self, regions=regions)

    @cached_property
    def _programs(self) -> tuple[Program, ...]:
        """Programs that have all conditions of the pieces, if these are written down."""
        if self.half_spaces is not None:
            return (self.half_spaces.program,)
        return tuple(piece.program for piece in self.listed)

    @cached_property
    def objective_program(self) -> Program:
        """The cost over what is possible, with what the target charges but not its demands."""
        charged = (program for program in self._programs if LogLoss in program.condition_types)
        program = next(charged, self.program)
        if self.combinations is None:
            return program
        return Program(program.encoded_cost, program.region & Region((self.combinations,)))

    @cached_property
    def proof_programs(self) -> tuple[Program, ...]:
        """The programs that a record holds proofs of: all pieces, or the lazy union as one."""
        if self.lazy is not None:
            return (self.program,)
        return tuple(piece.program for piece in self.listed)

    @cached_property
    def proof_count(self) -> int:
        """The number of `proof_programs`, without making them."""
        return len(self.regions) if self.lazy is None else 1

    @cached_property
    def condition_types(self) -> frozenset[type]:
        """The types of all conditions and of their prices, and of the union if it is lazy."""
        return frozenset(
            {type(self.lazy)}.union(*(program.condition_types for program in self._programs))
        )

    @cached_property
    def has_ties(self) -> bool:
        """Whether some linear row of the target may lose a tie."""
        if self.lazy is not None:
            return self.lazy.has_ties
        return any(program.affine.tie_coefficient.any() for program in self._programs)

    @cached_property
    def is_integral(self) -> bool:
        """Whether the optimum may rest on a branch and bound."""
        return any(Subproblem(p).is_integral for p in self._programs or (self.program,))

    @cached_property
    def is_quick(self) -> bool:
        """Whether there is a closed form to try on all rows at once, in each of them."""
        if self.half_spaces is not None:
            return True
        return self.lazy is None and all(piece.closed_form is not None for piece in self.listed)

    @cached_property
    def size(self) -> int:
        """How many multipliers of what is listed are kept for each row."""
        return sum(program.size for program in self._programs)

    def moves_smoothly(self, cases: Batch) -> BoolArray:
        """(n,): whether some continuous column with an effect is free to move."""
        if self.lazy is None:
            program = self._programs[0]
            normals = np.vstack([c.normals for c in (program.affine, *program.couplings)])
            moving, nonconvex = normals.any(axis=0), program.duality.nonconvex
            if program.nonconvex:
                moving = moving | (True if nonconvex is None else nonconvex.columns)
        else:
            program, moving = self.program, self.lazy.moving
        smooth = (program.domain.steps == 0) & program.domain.numeric & moving
        return np.asarray((cases.low < cases.high)[:, smooth].any(axis=1))


StartingPoints = Callable[[int, float], FloatArray]
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
class Incumbents:
    """The best points so far of n rows, and what bounds all others.

    Objectives (n,) may be ``reached`` already. Long searches ask for ``starting_points``.
    """

    def __init__(
        self,
        cases: Batch,
        effort: Effort,
        reached: FloatArray | None = None,
        starting_points: StartingPoints = _none,
    ) -> None:
        n = len(cases.x)
        self.cases, self.effort, self.starting_points = cases, effort, starting_points
        # how columns of lower precision are to hold some points, if not as the nearest numbers
        self.written: dict[int, FloatArray] = {}
        self.piece = np.full(n, -1, dtype=np.intp)  # of each point; −1 where there is none
        self.objective = np.full(n, np.inf) if reached is None else np.array(reached)
        self.limited = np.zeros(n, dtype=bool)  # whether time ran out
        self.closed = np.ones(n, dtype=bool)  # whether closed forms alone settled the row
        self.evidence: Sequence[Bounding] = ()  # what bounds every piece from below

    @cached_property
    def points(self) -> FloatArray:
        """(n, d) the best points; NaN where there is none."""
        return np.full(self.cases.x.shape, np.nan)

    @property
    def bound_proofs(self) -> list[BoundProof]:
        """What proves the bounds of each piece, for a record; nothing may prove some of them."""
        return [proof for evidence in self.evidence for proof in evidence.bound_proofs]

    def cutoff(self) -> FloatArray:
        """(n,) a piece with a bound from here on is not searched."""
        none = np.isinf(self.objective)
        return np.where(none, np.inf, np.where(none, 0.0, self.objective) * (1.0 - self.effort.gap))

    def offer(self, s: int, rows: IntArray, points: FloatArray, objective: FloatArray) -> None:
        """Take points of a piece that are better than those so far."""
        better = np.flatnonzero(objective < self.objective[rows])
        if len(better) == len(self.cases) and (np.diff(rows) == 1).all():  # then nothing is copied
            self.points = points
        else:
            self.points[rows[better]] = points[better]
        self.piece[rows[better]] = s
        self.objective[rows[better]] = objective[better]


def search(
    pieces: Union,
    cases: Batch,
    effort: Effort,
    safety_margins: SafetyMargins | None = None,
    starting_points: StartingPoints = _none,
    reached: FloatArray | None = None,
) -> Incumbents:
    """Search for the cheapest point of any piece, for each row.

    Rows are as programs see them, but for what pieces say of features one by one. Points lead by
    ``safety_margins`` besides, if these depend on where they are, and cost less than what is
    ``reached`` (n,); ``starting_points`` meet target and constraints, for a search that takes long.
    """
    if pieces.combinations is not None:
        _require_boxes(pieces, safety_margins)
        return _search_outside(pieces, pieces.combinations, cases, effort, starting_points)
    incumbent = Incumbents(cases, effort, reached, starting_points)
    kinds = pieces.condition_types | {type(safety_margins)}
    for family in families():
        for kind in kinds & family.SEARCHES.keys():
            if pieces.program.encoded_cost.tables and not family.TABLES:
                raise NoSolver(lack(pieces.program))
            incumbent.evidence = family.SEARCHES[kind](incumbent, pieces, safety_margins)
            return incumbent
    if pieces.half_spaces is not None and _nearest_half_space(incumbent, pieces.half_spaces):
        return incumbent
    return search_listed(incumbent, pieces.listed)


def _require_boxes(pieces: Union, safety_margins: SafetyMargins | None) -> None:
    """Raise `NoSolver` for a family of models that is not searched in boxes."""
    kinds = pieces.condition_types | {type(safety_margins)}
    for family in families():
        home = family.__name__.removesuffix("family")
        if not family.TABLES and any(kind.__module__.startswith(home) for kind in kinds):
            raise NoSolver(
                "Combinations that do not occur (Implies, Forbidden, ObservedCombinations) are "
                "taken for linear, additive and tree models. Leave them out for this model."
            )


def _search_outside(
    pieces: Union,
    combinations: ForbiddenCombinations,
    cases: Batch,
    effort: Effort,
    starting_points: StartingPoints,
) -> Incumbents:
    """Search outside of forbidden combinations: boxes in the place of rows whose points are in one.

    They share a row's time, and are searched within half the gap, so that what is left of it is
    enough to pass boxes over.
    """
    program, pieces = pieces.objective_program, replace(pieces, combinations=None)
    incumbent = search(pieces, cases, effort, None, starting_points)
    trees = BoxTrees(combinations, pieces.program.domain, cases)
    rows = np.flatnonzero(trees.violated(incumbent.points, cases.x) >= 0)
    if not len(rows):
        return incumbent
    points = incumbent.points[rows]
    trees.add_roots(rows, points, program.objective(points, cases.take(rows)))
    finer = replace(effort, gap=0.5 * effort.gap)
    end = np.inf if effort.seconds is None else perf_counter() + effort.seconds * len(rows)
    while perf_counter() < end and (boxes := trees.next(finer.gap)) is not None:
        row, share = trees.rows, finer.until(end).shared(len(boxes))
        starts = partial(_starts_within, boxes, row, starting_points)
        result = search(pieces, boxes, share, None, starts, trees.reached[row])
        trees.learn(result.points, program.objective(result.points, boxes), result.evidence)
        incumbent.limited[row[result.limited]] = True
        for place in np.flatnonzero(trees.improved).tolist():
            i = int(row[place])
            incumbent.piece[i] = result.piece[place]
            incumbent.written.pop(i, None)
            if place in result.written:
                incumbent.written[i] = result.written[place]
    incumbent.limited[trees.unfinished(finer.gap)] = True
    incumbent.closed[rows] = False
    incumbent.points = np.array(incumbent.points)
    incumbent.points[rows], incumbent.objective[rows] = trees.points[rows], trees.reached[rows]
    incumbent.piece[rows[np.isinf(trees.reached[rows])]] = -1
    incumbent.evidence = trees.evidence(incumbent.evidence)
    return incumbent


def _starts_within(
    boxes: Batch, row: IntArray, starting_points: StartingPoints, place: int, end: float
) -> FloatArray:
    """(m, d) answers to begin with that lie in one of the boxes of some rows."""
    points = starting_points(int(row[place]), end)
    if not len(points):
        return points
    inside = (points >= boxes.low[place]) & (points <= boxes.high[place])
    return np.asarray(points[inside.all(axis=1)])


def _nearest_half_space(incumbent: Incumbents, half_spaces: NearestHalfSpace) -> bool:
    """Search many half-spaces at once; return whether all rows are settled by that."""
    points, objective, piece, evidence = half_spaces.solve(incumbent.cases, incumbent.effort.gap)
    if not ((piece >= 0) | np.isposinf(evidence.proved).all(axis=1)).all():
        return False
    incumbent.points, incumbent.objective, incumbent.piece = points, objective, piece
    incumbent.evidence = [evidence]
    return True


def search_listed(incumbent: Incumbents, pieces: Sequence[Subproblem]) -> Incumbents:
    """Search pieces that are all written down: by closed forms, then by complete solvers.

    The time of each row is shared evenly among the pieces.
    """
    exhaustive, first = incumbent.effort.optimality is Optimality.GLOBAL, None
    if exhaustive:
        for piece in pieces:
            list(piece.complete(exhaustive=True))  # at once, for what they need may be missing
    if len(pieces) == 1 and pieces[0].closed_form is not None:
        piece, program = pieces[0], pieces[0].program
        cases = piece.sees(incumbent.cases) if piece.narrows else incumbent.cases
        first = pieces[0].closed_form.solve(cases, incumbent.effort)
        iterated = bool(program.couplings or program.nonconvex)
        solved = np.isfinite(first.points[:, 0]) & (first.outcomes != Outcome.LIMIT)
        if not piece.rounds and not iterated and solved.all():
            incumbent.points, at = first.points, first.points if has_tangents(program) else None
            incumbent.piece[:] = 0
            trees = [] if first.proof is None else [first.proof]
            evidence = Evidence(program, cases, first.multipliers, at, first.unverified, trees)
            incumbent.evidence = [evidence]
            return incumbent
    listed = _Listed(incumbent, pieces)
    for s in range(len(pieces)):
        listed.close(s, first)
    if listed.open.any():
        promising = listed.open & (listed.bounds < incumbent.cutoff())
        incumbent.closed = np.asarray(~promising.any(axis=0))
        listed.branch()
        for i in range(len(incumbent.cases) if exhaustive else 0):
            listed.exhaust(i)
    incumbent.evidence = listed.evidence
    return incumbent


def highest_probability(pieces: Union, x: FloatArray, end: float) -> float | None:
    """Return the highest probability of a label that changes of one row x (1, d) reach, or None.

    The pieces are those of a `Tradeoff`, whose objective is the weighted cost and −log of the
    label's probability. Here the weight is so small that the cost hardly counts; it is not 0,
    because without a cost the highest probability may be reached at infinity only. Stops at ``end``
    of `thread_time`; None if there is no point by then.
    """
    program = pieces[0].program
    terms = [term for term in program.couplings if isinstance(term, LogLoss)]
    cases, weight, highest = program.cases(x), np.full(1, COST_SHARE), None
    for _ in range(PROBABILITY_SEARCHES):
        remaining = end - thread_time()
        if remaining <= 0.0:
            break
        effort = Effort(PROBABILITY_GAP, remaining / PROBABILITY_SEARCHES)
        incumbent = search(pieces, cases.weighing(weight), effort)
        if incumbent.piece[0] < 0:  # no point
            break
        y = incumbent.points
        loss = float(sum(term.amount(y)[0] for term in terms))
        probability = float(np.exp(-loss))
        if highest is not None and probability <= highest * (1.0 + PROBABILITY_GAP):
            break
        highest = probability
        # The first weight takes no account of the units of the cost. With the next one, the cost of
        # this point is about `COST_SHARE` of its loss; the maxima keep out zeros.
        cost = np.maximum(program.encoded_cost(y, x), COST_SHARE)
        weight = COST_SHARE * max(loss, COST_SHARE) / cost
    return highest


@final
class _Listed:
    """Which of some pieces may still hold better points of each row: (pieces, n) `open`, bounds."""

    def __init__(self, incumbent: Incumbents, pieces: Sequence[Subproblem]) -> None:
        self.found, self.pieces = incumbent, pieces
        self.effort = incumbent.effort.shared(len(pieces))
        self.open = np.ones((len(pieces), len(incumbent.cases)), dtype=bool)
        self.bounds = np.zeros(self.open.shape)
        seen = (
            piece.sees(incumbent.cases) if piece.narrows else incumbent.cases for piece in pieces
        )
        self.evidence = [
            Evidence.blank(piece.program, cases) for piece, cases in zip(pieces, seen, strict=True)
        ]

    def close(self, s: int, solution: Solution | None) -> None:
        """Closed forms for every row of a piece, unless their solution is given."""
        piece, evidence = self.pieces[s], self.evidence[s]
        if piece.closed_form is None:
            return
        if solution is None:
            cutoff = self.found.objective if np.isfinite(self.found.objective).any() else None
            solution = piece.closed_form.solve(evidence.cases, self.effort, cutoff)
        solved = solution.found & (solution.outcomes != Outcome.LIMIT)
        self._learn(s, np.arange(len(solved)), solution)
        if piece.program.couplings or piece.program.nonconvex:  # as good as its bound says
            self.open[s] &= (self.bounds[s] < self.found.cutoff()) | ~solved
        elif not piece.rounds:
            self.open[s] &= ~solved

    def branch(self) -> None:
        """Complete solvers for what closed forms left open, the most promising piece first."""
        everyone = np.arange(self.open.shape[1])
        for at in np.argsort(self.bounds, axis=0, kind="stable"):  # each row's next piece
            improves = self.bounds[at, everyone] < self.found.cutoff()
            if not improves.any():  # nor do the pieces to come, whose bounds are no lower
                return
            improves &= self.open[at, everyone]
            for s in np.unique(at[improves]).tolist():
                rows = np.flatnonzero(improves & (at == s))
                self._solve(s, rows, self.pieces[s].complete(exhaustive=False), self.effort)

    def exhaust(self, i: int) -> None:
        """Call exhaustive solvers for one row; the unsearched pieces share the remaining time."""
        row, seconds = np.array([i]), self.found.effort.seconds
        end = np.inf if seconds is None else perf_counter() + seconds
        searched = np.zeros(len(self.pieces), dtype=bool)
        while True:
            promising = self.bounds[:, i] < self.found.cutoff()[i]
            unsearched = np.flatnonzero(promising & self.open[:, i] & ~searched)
            if not len(unsearched):
                return
            s = int(unsearched[self.bounds[unsearched, i].argmin()])
            searched[s] = True
            share = (end - perf_counter()) / len(unsearched)
            effort = replace(self.effort, seconds=max(share, SHORTEST) if seconds else None)
            self._solve(s, row, self.pieces[s].complete(exhaustive=True), effort)

    def _solve(self, s: int, rows: IntArray, solvers: Iterable[Solver], effort: Effort) -> None:
        """One solver after another, until each row is settled."""
        incumbent, cases, program = self.found, self.evidence[s].cases, self.pieces[s].program
        for solver in solvers:
            if not len(rows):
                return
            solution = solver.solve(cases.take(rows), effort, incumbent.objective[rows])
            points = np.flatnonzero(
                solution.found
            )  # what misses the piece must not shadow the rest
            missed = program.violation(solution.points[points], cases.x[rows[points]]) > VIOLATION
            solution.points[points[missed]], solution.reported[points[missed]] = np.nan, 0.0
            solution.outcomes[points[missed]] = Outcome.NOTHING
            self._learn(s, rows, solution)
            incumbent.limited[rows[solution.outcomes == Outcome.LIMIT]] = True
            unsettled = self.open[s, rows] & ~incumbent.limited[rows]
            rows = rows[unsettled & (self.bounds[s, rows] < incumbent.cutoff()[rows])]

    def _learn(self, s: int, rows: IntArray, solution: Solution) -> None:
        """Keep better points, better bounds and refutations."""
        program, evidence, bounds = self.pieces[s].program, self.evidence[s], self.bounds[s]
        case = evidence.cases if len(rows) == len(evidence.cases) else evidence.cases.take(rows)
        solved = solution.found
        if solved.any():
            objective = np.full(len(rows), np.inf)
            every = bool(solved.all())  # then nothing is copied
            solved_case = case if every else case.take(solved)
            points = solution.points if every else solution.points[solved]
            objective[solved] = program.objective(points, solved_case)
            self.found.offer(s, rows, solution.points, objective)
        at = None
        if evidence.at is not None:
            at = np.where(solved[:, None], solution.points, evidence.at[rows])
        bound = program.bound(case, solution.multipliers, at)
        claimed = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if len(claimed):
            refuted = program.refutes(case.take(claimed), solution.multipliers[claimed])
            bound[claimed[refuted]] = np.inf
        tighter = bound >= bounds[rows]
        near = None if at is None else at[tighter]
        evidence.learn(rows[tighter], solution.multipliers[tighter], near, bound[tighter])
        evidence.reported[rows] = np.maximum(evidence.reported[rows], solution.unverified)
        if solution.proof is not None:
            evidence.proofs.append(solution.proof._replace(row=rows[solution.proof.row]))
        bounds[rows] = np.maximum(bounds[rows], np.maximum(bound, solution.reported))
        self.open[s, rows] &= np.isfinite(bounds[rows])
