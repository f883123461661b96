"""`search` finds the cheapest point over a union of programs, for whole batches.

The union is that of *pieces*: each is a region that gives the target, with what is possible. Their
programs and solvers are `Subproblem`s. `Incumbents` hold the best point of each row so far, and
what bounds all others. If all pieces are written down, closed forms take up all rows at once; then
complete solvers those rows of which a piece may still hold a cheaper point, the most promising
piece first. What cannot be listed, or has conditions that no solver takes, is searched as its
family says: a `LazyUnion`, a condition, `SafetyMargins` that depend on where the answer is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any, final, overload

import numpy as np

from counterpoint.errors import NoSolver
from counterpoint.families.registry import families
from counterpoint.numerics import VIOLATION, BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import Manhattan
from counterpoint.problem.targets import Validation
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


@final
@dataclass(frozen=True, eq=False)
class Subproblem:
    """One piece of a union: its program, with the solvers that are prepared for it."""

    program: Program
    has_bounds: bool = False  # whether the target itself bounds features one by one

    @classmethod
    def of(cls, program: Program, region: Region) -> Subproblem:
        """Make the piece of a union whose target holds in a region; the program has no target."""
        has_bounds = any(isinstance(condition, Domain) for condition in region)
        return cls(Program(program.encoded_cost, region & program.region), has_bounds)

    def within(self, region: Region) -> Subproblem:
        """Return the part of the piece that is within a region."""
        return replace(
            self, program=Program(self.program.encoded_cost, self.program.region & region)
        )

    @cached_property
    def cut_oracles(self) -> tuple[CutOracle, ...]:
        """Conditions that no solver takes; half-spaces that contain them stand in their place."""
        return tuple(c for c in self.program.region if isinstance(c, CutOracle))

    def relaxed(self, cuts: LinearBounds) -> Subproblem:
        """Return the piece with half-spaces in the place of the `cut_oracles` conditions."""
        conditions = tuple(c for c in self.program.region if not isinstance(c, CutOracle))
        bounds = (cuts,) if cuts.size else ()
        return replace(
            self, program=Program(self.program.encoded_cost, Region((*conditions, *bounds)))
        )

    @cached_property
    def free(self) -> Subproblem:
        """The piece without whole steps and limits of changes; for `Manhattan`, without categories.

        Under other costs categories stay, for a simplex in their place has another price.
        """
        grouped = (OneOf,) if self.program.encoded_cost.kind is Manhattan else ()
        return Subproblem(relaxed(self.program, Whole, AtMost, *grouped))

    @cached_property
    def is_solved(self) -> bool:
        """Whether some solver takes it."""
        return any(solver.takes(self.program) for solver in all_solvers())

    @cached_property
    def closed_form(self) -> Solver | None:
        """The solver that takes all rows at once, if there is one."""
        if not self.is_solved:
            return None
        preferred = applicable(self.program)[0]
        return preferred(self.program) if preferred.batched else None

    @cached_property
    def _complete(self) -> dict[type[Solver], Solver | None]:
        """Complete solvers for single rows, in the order to try them; None if not prepared."""
        solvers = applicable(self.program)
        return {s: None for s in solvers if s.complete and not s.batched}

    def complete(self, *, exhaustive: bool) -> Iterator[Solver]:
        """Yield the complete solvers that are ``exhaustive``, or the others, each prepared once."""
        for solver, prepared in self._complete.items():
            if solver.exhaustive == exhaustive:
                ready = self._complete[solver] = prepared or solver(self.program)
                yield ready

    @property
    def is_integral(self) -> bool:
        """Whether the optimum may rest on a branch and bound."""
        return self.may_round or self.program.domain.at_most is not None

    @cached_property
    def may_round(self) -> bool:
        """Whether closed forms may have to round, so that a point costs more than the bound."""
        return bool(self.program.domain.steps.any() or self.program.domain.groups)

    def narrowed(self, cases: Batch) -> Batch:
        """Narrow the bounds of rows to those of the piece."""
        if not self.has_bounds:
            return cases
        bounds = self.program.cases(cases.x)
        return cases.within(bounds.low, bounds.high)


@final
@dataclass(frozen=True, eq=False)
class Union(Sequence[Subproblem]):
    """A cost over a union of regions: wherever the target holds, within what is possible."""

    program: Program  # the cost over what is possible, without the target
    regions: Sequence[Region]  # where the target holds
    lazy: LazyUnion | None = None  # the regions, if they have too many rows to be listed
    start_hint: Any = None  # where to look, if only the family of the target knows
    half_spaces: NearestHalfSpace | None = None  # all pieces at once, if each is a half-space
    combinations: ForbiddenCombinations | None = None  # those that none of the programs excludes

    @classmethod
    def of(cls, program: Program, regions: Sequence[Region], start_hint: Any = None) -> Union:
        """Make the union of the regions of a target, within what is possible by a program."""
        combinations = [c for c in program.region if isinstance(c, ForbiddenCombinations)]
        lazy = half_spaces = joined = None
        if combinations:
            program = relaxed(program, ForbiddenCombinations)
            joined = ForbiddenCombinations.joined(combinations)
        if isinstance(regions, LazyUnion) and regions.size > LISTED:
            lazy = regions
        if isinstance(regions, HalfSpaces) and len(regions) > 1:
            half_spaces = NearestHalfSpace.of(program, regions.rows)
        return cls(program, regions, lazy, start_hint, half_spaces, joined)

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
        """All pieces; none if the union is lazy."""
        if self.lazy is not None:
            return ()
        return tuple(Subproblem.of(self.program, region) for region in self.regions)

    def ties_resolved(self, units: FloatArray) -> Union:
        """Return the union for points on a lattice of these units (d,), with each tie decided."""
        if self.lazy is not None:
            lazy = self.lazy.ties_resolved(units)
            return replace(self, regions=lazy, lazy=lazy)
        resolved = (
            tuple(c.ties_resolved(units) if isinstance(c, LinearBounds) else c for c in region)
            for region in self.regions
        )
        return replace(self, regions=[*map(Region, resolved)])

    @cached_property
    def _programs(self) -> tuple[Program, ...]:
        """Programs that together hold all conditions of the pieces; none if the union is lazy."""
        if self.half_spaces is not None:
            return (self.half_spaces.program,)
        return tuple(piece.program for piece in self.listed)

    @cached_property
    def objective_program(self) -> Program:
        """The program by which answers are judged: its objective, and what is possible.

        It has the objective term of a `Tradeoff`, but no demand of a target.
        """
        with_loss = (program for program in self._programs if LogLoss in program.condition_types)
        program = next(with_loss, self.program)
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
        """The types of all conditions and costs, and of the union if it is lazy."""
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
        """Whether each piece has a closed form, which takes all rows at once."""
        if self.half_spaces is not None:
            return True
        return self.lazy is None and all(piece.closed_form is not None for piece in self.listed)

    @cached_property
    def size(self) -> int:
        """How many multipliers are kept for each row."""
        return sum(program.size for program in self._programs)

    def moves_smoothly(self, cases: Batch) -> BoolArray:
        """(n,): whether a row may move in some continuous column on which the target depends."""
        if self.lazy is None:
            program = self._programs[0]
            normals = np.vstack([c.normals for c in (program.affine, *program.couplings)])
            matters, nonconvex = normals.any(axis=0), program.duality.nonconvex
            if program.nonconvex:
                matters = matters | (True if nonconvex is None else nonconvex.columns)
        else:
            program, matters = self.program, self.lazy.moving
        smooth = (program.domain.steps == 0) & program.domain.numeric & matters
        return np.asarray((cases.low < cases.high)[:, smooth].any(axis=1))


StartingPoints = Callable[[int, float], FloatArray]
"""The position of a row, and when to stop by `clock` → (m, d) answers to begin with, the cheapest
first."""


def _no_points(_: int, __: float) -> FloatArray:
    return np.empty((0, 0))


class SafetyMargins(ABC):
    """The margins that answers to n rows need if these depend on the answer, as under noise."""

    @abstractmethod
    def take(self, rows: IntArray | BoolArray) -> SafetyMargins:
        """Return those of some rows."""

    @abstractmethod
    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        """Return the margins (n,) that points (n, d) at a cost (n,) need, in score units."""

    @final
    def applied(self, verdict: Validation, y: FloatArray, cost: FloatArray) -> Validation:
        """Return the model's verdict on points (n, d), which are valid only with these margins."""
        margin = verdict.margin - self.required(y, cost)
        return replace(verdict, valid=verdict.valid & (margin >= 0.0), margin=margin)


@final
class Incumbents:
    """The best points so far of n rows, and what bounds all others.

    Objectives (n,) that are known already have to be beaten. A search that takes long asks for
    ``starting_points``.
    """

    def __init__(
        self,
        cases: Batch,
        effort: Effort,
        objective: FloatArray | None = None,
        starting_points: StartingPoints = _no_points,
    ) -> None:
        n = len(cases.x)
        self.cases, self.effort, self.starting_points = cases, effort, starting_points
        # row → (d,) its point rounded for columns of lower precision, where the numbers nearest to
        # the point will not do
        self.rounded_points: dict[int, FloatArray] = {}
        self.piece = np.full(n, -1, dtype=np.intp)  # of each point; −1 where there is none
        self.objective = np.full(n, np.inf) if objective is None else np.array(objective)
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
        """(n,) the bounds from which on a piece holds nothing better by more than the gap."""
        unknown = np.isinf(self.objective)
        objective = np.where(unknown, 0.0, self.objective)  # for infinity times 0 is not a number
        return np.where(unknown, np.inf, objective * (1.0 - self.effort.gap))

    def offer(self, s: int, rows: IntArray, points: FloatArray, objective: FloatArray) -> None:
        """Take points (m, d) of piece ``s`` for some rows, where they are better than the best."""
        better = np.flatnonzero(objective < self.objective[rows])
        if len(better) == len(self.cases) and (np.diff(rows) == 1).all():  # then nothing is copied
            self.points = points
        else:
            self.points[rows[better]] = points[better]
        self.piece[rows[better]] = s
        self.objective[rows[better]] = objective[better]


def search(
    union: Union,
    cases: Batch,
    effort: Effort,
    safety_margins: SafetyMargins | None = None,
    starting_points: StartingPoints = _no_points,
    objective: FloatArray | None = None,
) -> Incumbents:
    """Search for the cheapest point of any piece, for each row.

    The rows' bounds need not have those of single pieces. Points lead by ``safety_margins`` besides
    the margins of the rows, if there are any, and have a lower ``objective`` (n,) than is known
    already. A search that takes long begins with ``starting_points``, which meet target and
    constraints.
    """
    if union.combinations is not None:
        _require_boxes(union, safety_margins)
        return _search_outside(union, union.combinations, cases, effort, starting_points)
    incumbent = Incumbents(cases, effort, objective, starting_points)
    types = union.condition_types | {type(safety_margins)}
    for family in families():
        for condition_type in types & family.SEARCHES.keys():
            if union.program.encoded_cost.tables and not family.TABLES:
                raise NoSolver(lack(union.program))
            family_search = family.SEARCHES[condition_type]
            incumbent.evidence = family_search(incumbent, union, safety_margins)
            return incumbent
    if union.half_spaces is not None and _search_half_spaces(incumbent, union.half_spaces):
        return incumbent
    return search_listed(incumbent, union.listed)


def _require_boxes(union: Union, safety_margins: SafetyMargins | None) -> None:
    """Raise `NoSolver` for a family of models that is not searched in boxes."""
    types = union.condition_types | {type(safety_margins)}
    for family in families():
        folder = family.__name__.removesuffix("family")
        if not family.TABLES and any(each.__module__.startswith(folder) for each in types):
            raise NoSolver(
                "Combinations that do not occur (Implies, Forbidden, ObservedCombinations) are "
                "taken for linear, additive and tree models. Leave them out for this model."
            )


def _search_outside(
    union: Union,
    combinations: ForbiddenCombinations,
    cases: Batch,
    effort: Effort,
    starting_points: StartingPoints,
) -> Incumbents:
    """Search outside of forbidden combinations.

    Rows are searched as if nothing was forbidden; those whose points are in a combination, again in
    boxes beside it, which `BoxTrees` split off. The boxes of a row share its time, and are searched
    within half the gap, so that what is left of it is enough to pass other boxes over.
    """
    program, union = union.objective_program, replace(union, combinations=None)
    incumbent = search(union, cases, effort, None, starting_points)
    trees = BoxTrees(combinations, union.program.domain, cases)
    # Points are moved off the borders of their cells for float32, maybe into a combination: then
    # the nearest numbers have to do.
    for i, y in [*incumbent.rounded_points.items()]:
        if trees.violated(y[None], cases.x[i : i + 1])[0] >= 0:
            del incumbent.rounded_points[i]
    rows = np.flatnonzero(trees.violated(incumbent.points, cases.x) >= 0)
    if not len(rows):
        return incumbent
    points = incumbent.points[rows]
    trees.add_roots(rows, points, program.objective(points, cases.take(rows)))
    finer = replace(effort, gap=0.5 * effort.gap)
    end = np.inf if effort.seconds is None else perf_counter() + effort.seconds * len(rows)
    while perf_counter() < end and (boxes := trees.next(finer.gap)) is not None:
        box_rows, share = trees.rows, finer.until(end).shared(len(boxes))
        starts = partial(_starts_within, boxes, box_rows, starting_points)
        result = search(union, boxes, share, None, starts, trees.objective[box_rows])
        trees.learn(result.points, program.objective(result.points, boxes), result.evidence)
        incumbent.limited[box_rows[result.limited]] = True
        for box in np.flatnonzero(trees.improved).tolist():
            i = int(box_rows[box])
            incumbent.piece[i] = result.piece[box]
            incumbent.rounded_points.pop(i, None)
            if box in result.rounded_points:
                incumbent.rounded_points[i] = result.rounded_points[box]
    incumbent.limited[trees.unfinished(finer.gap)] = True
    incumbent.closed[rows] = False
    incumbent.points = np.array(incumbent.points)
    incumbent.points[rows], incumbent.objective[rows] = trees.points[rows], trees.objective[rows]
    incumbent.piece[rows[np.isinf(trees.objective[rows])]] = -1
    incumbent.evidence = trees.evidence(incumbent.evidence)
    return incumbent


def _starts_within(
    boxes: Batch, box_rows: IntArray, starting_points: StartingPoints, box: int, end: float
) -> FloatArray:
    """(m, d) the starting points of a row that lie in one of its boxes."""
    points = starting_points(int(box_rows[box]), end)
    if not len(points):
        return points
    inside = (points >= boxes.low[box]) & (points <= boxes.high[box])
    return np.asarray(points[inside.all(axis=1)])


def _search_half_spaces(incumbent: Incumbents, half_spaces: NearestHalfSpace) -> bool:
    """Search many half-spaces at once; return whether that settles all rows."""
    points, objective, piece, evidence = half_spaces.solve(incumbent.cases, incumbent.effort.gap)
    if not ((piece >= 0) | np.isposinf(evidence.proved).all(axis=1)).all():
        return False
    incumbent.points, incumbent.objective, incumbent.piece = points, objective, piece
    incumbent.evidence = [evidence]
    return True


def search_listed(incumbent: Incumbents, pieces: Sequence[Subproblem]) -> Incumbents:
    """Search all pieces one by one: by closed forms, then by complete solvers.

    The time of each row is shared evenly among the pieces.
    """
    exhaustive = incumbent.effort.optimality is Optimality.GLOBAL
    if exhaustive:
        for piece in pieces:  # prepared before any search, for a package may be missing
            list(piece.complete(exhaustive=True))
    solution = None
    if len(pieces) == 1 and pieces[0].closed_form is not None:
        piece, program = pieces[0], pieces[0].program
        cases = piece.narrowed(incumbent.cases)
        solution = pieces[0].closed_form.solve(cases, incumbent.effort)
        iterated = bool(program.couplings or program.nonconvex)
        solved = np.isfinite(solution.points[:, 0]) & (solution.outcomes != Outcome.LIMIT)
        if not piece.may_round and not iterated and solved.all():
            # The points are the best of the only piece, which is all there is to do for most rows:
            # `certify` computes their objectives.
            incumbent.points, incumbent.piece[:] = solution.points, 0
            reported, multipliers = solution.unverified, solution.multipliers
            trees = [] if solution.proof is None else [solution.proof]
            at = solution.points if has_tangents(program) else None
            incumbent.evidence = [Evidence(program, cases, multipliers, at, reported, trees)]
            return incumbent
    listed = _ListedSearch(incumbent, pieces)
    for s in range(len(pieces)):
        listed.solve_by_closed_form(s, solution)
    if listed.open.any():
        promising = listed.open & (listed.bounds < incumbent.cutoff())
        incumbent.closed = np.asarray(~promising.any(axis=0))
        listed.solve_completely()
        for i in range(len(incumbent.cases) if exhaustive else 0):
            listed.solve_exhaustively(i)
    incumbent.evidence = listed.evidence
    return incumbent


@final
class _ListedSearch:
    """A search over k pieces, each for n rows: `open` (k, n) where a piece may hold a better point.

    A piece's ``bounds`` (k, n) are below all of its points, as far as it was searched.
    """

    def __init__(self, incumbent: Incumbents, pieces: Sequence[Subproblem]) -> None:
        self.incumbent, self.pieces = incumbent, pieces
        self.effort = incumbent.effort.shared(len(pieces))
        self.open = np.ones((len(pieces), len(incumbent.cases)), dtype=bool)
        self.bounds = np.zeros(self.open.shape)
        self.evidence = [
            Evidence.blank(piece.program, piece.narrowed(incumbent.cases)) for piece in pieces
        ]

    def solve_by_closed_form(self, s: int, solution: Solution | None) -> None:
        """Learn the closed form's ``solution`` of all rows of a piece, after solving if it is None.

        The piece is closed for a row if the solution is its best point.
        """
        piece, evidence, incumbent = self.pieces[s], self.evidence[s], self.incumbent
        if piece.closed_form is None:
            return
        if solution is None:
            cutoff = incumbent.objective if np.isfinite(incumbent.objective).any() else None
            solution = piece.closed_form.solve(evidence.cases, self.effort, cutoff)
        solved = solution.found & (solution.outcomes != Outcome.LIMIT)
        self._learn(s, np.arange(len(solved)), solution)
        if piece.program.couplings or piece.program.nonconvex:
            # the point was iterated to, and is the best one only if its bound says so
            self.open[s] &= (self.bounds[s] < incumbent.cutoff()) | ~solved
        elif not piece.may_round:  # a rounded point may not be the best
            self.open[s] &= ~solved

    def solve_completely(self) -> None:
        """Solve what closed forms left open, the most promising piece of each row first."""
        rows = np.arange(self.open.shape[1])
        for next_piece in np.argsort(self.bounds, axis=0, kind="stable"):  # (n,)
            improves = self.bounds[next_piece, rows] < self.incumbent.cutoff()
            if not improves.any():  # nor do the pieces to come, whose bounds are no lower
                return
            improves &= self.open[next_piece, rows]
            for s in np.unique(next_piece[improves]).tolist():
                unsolved = np.flatnonzero(improves & (next_piece == s))
                self._solve(s, unsolved, self.pieces[s].complete(exhaustive=False), self.effort)

    def solve_exhaustively(self, i: int) -> None:
        """Call exhaustive solvers for one row; the unsearched pieces share the remaining time."""
        row, seconds = np.array([i]), self.incumbent.effort.seconds
        end = np.inf if seconds is None else perf_counter() + seconds
        searched = np.zeros(len(self.pieces), dtype=bool)
        while True:
            promising = self.bounds[:, i] < self.incumbent.cutoff()[i]
            unsearched = np.flatnonzero(promising & self.open[:, i] & ~searched)
            if not len(unsearched):
                return
            s = int(unsearched[self.bounds[unsearched, i].argmin()])
            searched[s] = True
            effort = self.effort
            if seconds:  # a solver refuses a limit that is not positive
                share = (end - perf_counter()) / len(unsearched)
                effort = replace(effort, seconds=max(share, 1e-6))
            self._solve(s, row, self.pieces[s].complete(exhaustive=True), effort)

    def _solve(self, s: int, rows: IntArray, solvers: Iterable[Solver], effort: Effort) -> None:
        """Call one solver after another, until each of some rows is settled in a piece."""
        incumbent, program, cases = self.incumbent, self.pieces[s].program, self.evidence[s].cases
        for solver in solvers:
            if not len(rows):
                return
            solution = solver.solve(cases.take(rows), effort, incumbent.objective[rows])
            # a point that misses the piece must not pass for the best of the others
            with_point = np.flatnonzero(solution.found)
            violation = program.violation(solution.points[with_point], cases.x[rows[with_point]])
            missed = with_point[violation > VIOLATION]
            solution.points[missed], solution.reported[missed] = np.nan, 0.0
            solution.outcomes[missed] = Outcome.NOTHING
            self._learn(s, rows, solution)
            incumbent.limited[rows[solution.outcomes == Outcome.LIMIT]] = True
            unsettled = self.open[s, rows] & ~incumbent.limited[rows]
            rows = rows[unsettled & (self.bounds[s, rows] < incumbent.cutoff()[rows])]

    def _learn(self, s: int, rows: IntArray, solution: Solution) -> None:
        """Keep what a solution says of some rows: better points, better bounds, refutations."""
        program, evidence, bounds = self.pieces[s].program, self.evidence[s], self.bounds[s]
        cases = evidence.cases if len(rows) == len(evidence.cases) else evidence.cases.take(rows)
        solved = solution.found
        if solved.any():
            objective = np.full(len(rows), np.inf)
            all_solved = bool(solved.all())  # then nothing is copied
            solved_cases = cases if all_solved else cases.take(solved)
            points = solution.points if all_solved else solution.points[solved]
            objective[solved] = program.objective(points, solved_cases)
            self.incumbent.offer(s, rows, solution.points, objective)
        at = None
        if evidence.at is not None:  # where the bound is sharpest: at the point, if there is one
            at = np.where(solved[:, None], solution.points, evidence.at[rows])
        bound = program.bound(cases, solution.multipliers, at)
        claimed = np.flatnonzero(solution.outcomes == Outcome.INFEASIBLE)
        if len(claimed):
            refuted = program.refutes(cases.take(claimed), solution.multipliers[claimed])
            bound[claimed[refuted]] = np.inf
        tighter = bound >= bounds[rows]
        tighter_at = None if at is None else at[tighter]
        evidence.learn(rows[tighter], solution.multipliers[tighter], tighter_at, bound[tighter])
        evidence.reported[rows] = np.maximum(evidence.reported[rows], solution.unverified)
        if solution.proof is not None:
            evidence.proofs.append(solution.proof._replace(row=rows[solution.proof.row]))
        bounds[rows] = np.maximum(bounds[rows], np.maximum(bound, solution.reported))
        self.open[s, rows] &= np.isfinite(bounds[rows])
