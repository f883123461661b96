"""`FeasibilityOracle` says for one row under which sets of constraints there is an answer.

What one search finds serves others. A set of constraints has an answer if one was found under more
of them, and none if proofs that were found still hold under it. Only what neither of them decides
is searched, many sets at once. A proof is a sum of inequalities, one for each piece of the target,
that no point within the bounds of each feature meets (Farkas); so constraints on features it does
not use are superfluous straight away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from time import perf_counter, thread_time
from typing import final

import numpy as np

from counterpoint.certificate import lower_bounds
from counterpoint.numerics import VIOLATION, BoolArray, FloatArray, IntArray
from counterpoint.problem.constraints import (
    Constraint,
    Immutable,
    MaxChanges,
    ObservedCombinations,
    WithinObserved,
)
from counterpoint.problem.costs import EncodedCost
from counterpoint.problem.targets import Guarantee
from counterpoint.programs.conditions import Box, ChangeBounds, Transitions
from counterpoint.programs.evidence import Evidence, RowEvidence
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.program import Program, kinds_region
from counterpoint.programs.region import Batch, Coupling, Cut, Region
from counterpoint.programs.separable import Diagonal
from counterpoint.rows.features import Features
from counterpoint.search.query import Query
from counterpoint.search.search import Incumbents, Subproblem, Union, search
from counterpoint.solvers import Effort

Proof = tuple[set[int], Cut]
"""The ids of constraints that inequalities rest on, beside the target, and the inequalities."""

SHARE, BUSY = 0.5, 4.0
"""How much of the time that is left one search may take, and how many times that on the clock, by
which solvers stop, where other programs keep this one waiting."""
SETS, TRIES = 20_000, 40
"""Up to how many sets of features are listed, each by itself, and how many of them are searched."""
UNDECIDED, INFINITE = 1e-9, 1e200
"""How close to 0 what proofs lack is rounding, relative to its terms; what counts as infinite."""


@final
class FeasibilityOracle:
    """Answers, for one row, under which sets of constraints there is a point of the target.

    A constraint on features one by one only bounds the row's columns; the others are *coupling*. So
    there is one program for each set of coupling constraints, and all that differs between its
    questions are bounds. Constraints are told apart by their ids, not by what they say.

    Parameters
    ----------
    query, x
        What is asked, with the constraints that may conflict; and the row, (1, d), encoded.
    end
        When to stop, in the seconds of ``thread_time``.
    """

    def __init__(self, query: Query, x: FloatArray, end: float) -> None:
        self.query, self.x, self.end = query, x, end
        requirement, form = query.target.requirement, query.model.form
        self._start = perf_counter(), thread_time()
        self.features = query.features
        # the constraints, those on several features split into one for each
        self.atoms = [a for c in query.constraints for a in _atoms(c, self.features)]
        # the margin, in score units, that makes a point an answer that the model confirms: twice
        # that of the search itself
        self.margin = 4.0 * form.margin_error(x, requirement, query.eps)
        # whether the target depends on which answer is the cheapest, and so on the constraints
        self.is_cost_dependent = requirement.promise is Guarantee.SELECTION
        self._resolves_ties = bool(query.on_lattice(x).all())
        pieces = (query.lattice_union if self._resolves_ties else query.union).listed
        self.is_nonconvex = any(p.program.duality.nonconvex is not None for p in pieces)
        self._kinds_region = kinds_region(self.features)
        self._unit_cost = EncodedCost(np.ones(self.features.width), np.zeros(self.features.width))
        # id → the constraint, held lest another one gets its id, and the position of its bounds in
        # `_bounds` (low and high, constraints, columns); −1 if it is coupling
        self._positions: dict[int, tuple[Constraint, int]] = {}
        self._bounds = np.zeros((2, 0, self.features.width))
        self._programs: dict[object, tuple[Query, Union, Batch]] = {}
        self._answered: list[frozenset[int]] = []  # sets under which there is an answer
        # by piece; the first ones are known without a search
        self._proofs: list[list[Proof]] = [[(set(), _target_inequalities(p, x))] for p in pieces]

    def has(self, atoms: Sequence[Constraint]) -> bool:
        """Return whether an answer is known under these constraints, or more of them."""
        ids = frozenset(map(id, atoms))
        if self.is_cost_dependent:  # with fewer of them, the cost is another
            return ids in self._answered
        return any(ids <= answered for answered in self._answered)

    def answers(self, sets: Sequence[Sequence[Constraint]]) -> BoolArray:
        """(n,): whether there is an answer under each set; True also where time runs out."""
        exists = np.ones(len(sets), dtype=bool)
        undecided = [i for i, atoms in enumerate(sets) if not self.has(atoms)]
        exists[undecided] = ~self.refuted([sets[i] for i in undecided])
        undecided = [i for i in undecided if exists[i]]
        if undecided:
            searched = [sets[i] for i in undecided]
            points, refuted = self.points(searched)
            exists[undecided] = ~refuted
            with_point = np.flatnonzero(~np.isnan(points[:, 0]))
            self._answered += [frozenset(map(id, searched[i])) for i in with_point.tolist()]
        return exists

    def refuted(self, sets: Sequence[Sequence[Constraint]]) -> BoolArray:
        """(n,): whether known proofs exclude every answer under each set.

        They do if for each piece of the target there is an inequality that rests on constraints of
        the set, and that no point within the bounds of the set meets.
        """
        out = np.zeros(len(sets), dtype=bool)
        for positions, coupling, _, union, cases in self._grouped(sets):
            has_loss = any(LogLoss in piece.program.condition_types for piece in union.listed)
            # inequalities are of listed pieces that depend neither on the cost nor on a loss
            if self.is_cost_dependent or union.lazy is not None or has_loss:
                continue
            ids, all_refuted = set(map(id, coupling)), np.ones(len(cases), dtype=bool)
            for piece, proofs in zip(union.listed, self._proofs, strict=True):
                cut = Cut.stacked([cut for needed_ids, cut in proofs if needed_ids <= ids])
                n, count = len(cases), len(cut.offset)
                # each inequality by itself within the bounds of each set: (n · count,)
                repeated_cases = piece.narrowed(cases).take(np.repeat(np.arange(n), count))
                repeated_cut = cut.take(np.tile(np.arange(count), n))
                refuted = piece.program.duality.refutes(repeated_cases, repeated_cut)
                all_refuted &= refuted.reshape(n, count).any(axis=1)
                if not all_refuted.any():
                    break
            out[positions] = all_refuted
        return out

    def surely(self, constraints: Sequence[Constraint]) -> bool:
        """Return whether there is an answer that leads by enough to be confirmed, if it can."""
        ((*_, union, case),) = self._grouped([constraints])
        zero = 0.0 * self.margin
        # where no column moves smoothly, only ties that are lost are asked for a margin
        is_rigid = self.is_cost_dependent or not union.moves_smoothly(case)[0]
        both = (zero, self.margin) if is_rigid else (self.margin, zero)
        return self.point(constraints, margins=[np.stack(both, axis=1)])[0] is not None

    def point(
        self,
        constraints: Sequence[Constraint],
        encoded_cost: EncodedCost | None = None,
        margins: Sequence[FloatArray] = (),
    ) -> tuple[FloatArray | None, bool]:
        """Return a point under one set, as `points` does, or None; and whether none exists."""
        if self.refuted([constraints])[0]:
            return None, True
        points, refuted = self.points([constraints], encoded_cost, margins)
        return None if np.isnan(points[0, 0]) else points[0], bool(refuted[0])

    def points(
        self,
        sets: Sequence[Sequence[Constraint]],
        encoded_cost: EncodedCost | None = None,
        margins: Sequence[FloatArray] = (),
    ) -> tuple[FloatArray, BoolArray]:
        """(n, d) a point of some piece under each set, NaN if none was found; whether none exists.

        It is the cheapest if there is a cost. ``margins`` are tried one after the other; by
        default, first one that makes a point an answer, and then none.
        """
        points = np.full((len(sets), self.features.width), np.nan)
        refuted, gap = np.zeros(len(sets), dtype=bool), 1.0 if encoded_cost is None else 1e-9
        for positions, coupling, query, union, cases in self._grouped(sets, encoded_cost):
            counts = [int(c.count) for c in coupling if isinstance(c, MaxChanges)]
            unsolved = np.ones(len(positions), dtype=bool)
            is_plain = not (self.is_cost_dependent or self.is_nonconvex)
            # Any point will do: sets of few features are tried, of which proofs exclude most
            # without a search, unless there are too many.
            if counts and encoded_cost is None and is_plain:
                points[positions], refuted[positions], unsolved = self._by_changed_features(
                    coupling, cases, min(counts), margins
                )
            if unsolved.any():
                rows = positions[unsolved]
                points[rows], refuted[rows] = self._searched(
                    coupling, query, union, cases.take(unsolved), gap, margins
                )
        return points, refuted

    def _by_changed_features(
        self,
        coupling: Sequence[Constraint],
        cases: Batch,
        count: int,
        margins: Sequence[FloatArray],
    ) -> tuple[FloatArray, BoolArray, BoolArray]:
        """`points` with at most ``count`` changes, by the sets of features that may change.

        Return also (n,) where these are too many, so that nothing is known. Each round searches the
        most promising set of each row.
        """
        constraints = tuple(c for c in coupling if not isinstance(c, MaxChanges))
        query, union, _ = self._program(constraints, None)
        points = np.full(cases.x.shape, np.nan)
        refuted, too_many = np.zeros((2, len(cases)), bool)
        proposals = {
            i: self._promising_features(constraints, union, case, count)
            for i, case in enumerate(cases)
        }
        while proposals:
            # (d,) columns; None where no set allows a point; none of them where sets are too many
            chosen = {i: next(proposal, None) for i, proposal in proposals.items()}
            refuted[[i for i, columns in chosen.items() if columns is None]] = True
            proposed = [i for i, columns in chosen.items() if columns is not None]
            too_many[[i for i in proposed if not np.any(chosen[i])]] = True
            rows = np.array([i for i in chosen if not (refuted[i] or too_many[i])], dtype=np.intp)
            may_change = np.array([chosen[i] for i in rows]).reshape(len(rows), self.features.width)
            narrowed = _changing(cases.take(rows), may_change)
            solved, none = self._searched(constraints, query, union, narrowed, 1.0, margins)
            points[rows] = np.clip(solved, narrowed.low, narrowed.high)
            proposals = {i: proposals[i] for i in rows[none].tolist()}
        return points, refuted, too_many

    def _promising_features(
        self, coupling: Sequence[Constraint], union: Union, case: Batch, count: int
    ) -> Iterator[BoolArray]:
        """Yield the columns (d,) of few features that may change, the best first.

        It ends when known proofs exclude all other sets: they say how much each feature by itself
        can take off what is missing. So they refute most sets without a search, and each search of
        one of them leaves proofs for the others. No column is yielded where there are too many
        sets, or no multipliers that could prove anything.
        """
        nothing = np.zeros(self.features.width, dtype=bool)
        blocks = np.zeros((len(self.features.blocks), self.features.width), dtype=bool)
        for row, block in zip(blocks, self.features.blocks, strict=True):
            row[block] = True
        must_change = np.any(blocks & ((case.low > self.x) | (case.high < self.x)), axis=1)
        may_change = must_change | np.any(blocks & (case.low < case.high), axis=1)
        blocks, must_change = blocks[may_change, :], must_change[may_change]
        count = min(count, len(blocks))
        if self._proves_nothing(union) or comb(len(blocks), count) > SETS:
            yield nothing
        sets = np.array(list(combinations(range(len(blocks)), count)), dtype=np.intp)
        chosen = np.zeros((len(sets), len(blocks)))  # 1 for the features of each set
        np.put_along_axis(chosen, sets, 1.0, axis=1)
        chosen = chosen[(chosen >= must_change).all(axis=1)]
        alone = _changing(case.take(np.zeros(len(blocks), dtype=np.intp)), blocks)
        ids = set(map(id, coupling))
        # by piece: how far the proofs so far are from allowing for each set, and how many they are
        lacking = [np.full(len(chosen), -np.inf) for _ in union.listed]
        used = [0] * len(lacking)
        tried = np.zeros(len(chosen), dtype=bool)
        for _ in range(TRIES):
            for s, piece in enumerate(union.listed):
                proofs = self._proofs[s][used[s] :]
                cuts = [cut for needed_ids, cut in proofs if needed_ids <= ids]
                if cuts:
                    improved = _lacking(piece, Cut.stacked(cuts), self.x[0], alone, chosen)
                    lacking[s] = np.maximum(lacking[s], improved)
                used[s] += len(proofs)
            least = np.where(tried, np.inf, np.min(lacking, axis=0))  # of any piece
            if not (least <= UNDECIDED).any():
                return
            best = int(least.argmin())
            tried[best] = True
            yield chosen[best] @ blocks > 0.0
        yield nothing

    @staticmethod
    def _proves_nothing(union: Union) -> bool:
        """Whether proofs of the pieces do not exclude answers by features."""
        if union.lazy is not None or any(piece.has_bounds for piece in union.listed):
            return True
        programs = [piece.program for piece in union.listed]
        return any(p.size == 0 or LogLoss in p.condition_types for p in programs)

    def _searched(
        self,
        coupling: Sequence[Constraint],
        query: Query,
        union: Union,
        cases: Batch,
        gap: float,
        margins: Sequence[FloatArray],
    ) -> tuple[FloatArray, BoolArray]:
        """`points` of rows by one search for each margin, in a share of the time that is left."""
        points, refuted = np.full(cases.x.shape, np.nan), np.zeros(len(cases), dtype=bool)
        # What a branch and bound reports with a margin would not hold without one; and a target
        # that depends on the cost has safety margins of its own.
        without_margin = union.is_integral or self.is_cost_dependent
        default = (0.0 * self.margin,) if without_margin else (self.margin, 0.0 * self.margin)
        unsolved = np.arange(len(cases))
        for margin in margins or default:
            wall, thread = perf_counter(), thread_time()
            if thread >= self.end or not len(unsolved):
                break
            elapsed, used = wall - self._start[0], thread - self._start[1]
            # seconds on the clock, by which solvers stop, for each second of this thread
            clock_rate = min(max(elapsed / max(used, 1e-9), 1.0), BUSY)
            effort = Effort(gap, SHARE * (self.end - thread) * clock_rate / len(unsolved))
            searched = cases.take(unsolved).with_margin(np.repeat(margin, len(unsolved), axis=0))
            incumbents = search(union, searched, effort, query.safety_margins(searched.x))
            satisfied = self._meets(incumbents, query, searched)
            excluded = np.zeros(len(satisfied), dtype=bool)
            if not satisfied.all():
                excluded = ~satisfied & _refutes(incumbents, with_margin=bool(margin.any()))
            self._learn(coupling, union, incumbents, np.flatnonzero(excluded))
            points[unsolved[satisfied]] = incumbents.points[satisfied]
            refuted[unsolved[excluded]] = True
            unsolved = unsolved[~satisfied & ~excluded]
        return points, refuted

    def _meets(self, incumbents: Incumbents, query: Query, cases: Batch) -> BoolArray:
        """(n,): whether a point was found that meets its constraints as an answer has to."""
        box = replace(Box.unbounded(cases.low.shape[-1]), low=cases.low, high=cases.high)
        region = query.actionable.region & Region((box,))
        with np.errstate(invalid="ignore"):
            missed = region.violation(incumbents.points, cases.x) > VIOLATION
        return (incumbents.piece >= 0) & ~missed

    def _learn(
        self, coupling: Sequence[Constraint], union: Union, incumbents: Incumbents, rows: IntArray
    ) -> None:
        """Keep the inequalities of a search that excluded every answer of some rows.

        They rest on the constraints that have multipliers. The multipliers of the target's own rows
        alone make up another inequality, which rests on no constraint, and is kept besides.
        """
        if self.is_cost_dependent or union.lazy is not None:
            return
        regions = ((id(c), c.region(self.features)) for c in coupling)
        ids = {
            key
            for key, region in regions
            if any(isinstance(c, Coupling | ChangeBounds) for c in region)
        }
        for i in rows.tolist():
            pieces, position = incumbents.evidence, i
            if len(pieces) == 1 and isinstance(pieces[0], RowEvidence):
                pieces, position = pieces[0].rows[i], 0
            for proofs, evidence in zip(self._proofs, pieces, strict=False):
                if not isinstance(evidence, Evidence) or evidence.program.nonconvex:
                    continue
                program = evidence.program
                multipliers = evidence.multipliers[position : position + 1]
                if multipliers.any():
                    of_target = np.zeros_like(multipliers)
                    target_rows = _target_rows(program)
                    of_target[:, target_rows] = multipliers[:, target_rows]
                    proofs.append((ids, program.cut(multipliers, self.x)))
                    proofs.append((set(), program.cut(of_target, self.x)))

    def _grouped(
        self, sets: Sequence[Sequence[Constraint]], encoded_cost: EncodedCost | None = None
    ) -> Iterator[tuple[IntArray, tuple[Constraint, ...], Query, Union, Batch]]:
        """Yield, for sets of constraints that differ in bounds alone, one program with a row each.

        Yielded are the positions in ``sets``, the coupling constraints, the query with these, its
        union, and the row once for each set, with the bounds of that set. ``encoded_cost`` replaces
        the cost, unless the target depends on the cost.
        """
        groups: dict[tuple[int, ...], list[int]] = {}  # ids of coupling constraints → sets
        ends, couplings = np.empty((2, len(sets), self.features.width)), []
        for i, constraints in enumerate(sets):
            positions = [self._position(c) for c in constraints]
            low, high = self._bounds[:, [j for j in positions if j >= 0]]
            ends[0, i] = low.max(axis=0, initial=-np.inf)
            ends[1, i] = high.min(axis=0, initial=np.inf)
            pairs = zip(constraints, positions, strict=True)
            couplings.append(tuple(c for c, j in pairs if j < 0))
            groups.setdefault(tuple(map(id, couplings[-1])), []).append(i)
        for members in groups.values():
            coupling, indices = couplings[members[0]], np.array(members)
            query, union, case = self._program(coupling, encoded_cost)
            cases = case.take(np.zeros_like(indices))  # the one row, once for each set
            yield indices, coupling, query, union, cases.within(*ends[:, indices])

    def _program(
        self, coupling: tuple[Constraint, ...], encoded_cost: EncodedCost | None
    ) -> tuple[Query, Union, Batch]:
        """The query under coupling constraints, its union, and the row."""
        key = (*map(id, coupling), id(encoded_cost))
        if key not in self._programs:
            query = replace(self.query, constraints=coupling)
            if not self.is_cost_dependent:
                query = replace(query, encoded_cost=encoded_cost or self._unit_cost)
            union = query.lattice_union if self._resolves_ties else query.union
            self._programs[key] = query, union, query.actionable.cases(self.x)
        return self._programs[key]

    def _position(self, constraint: Constraint) -> int:
        """Return the position in `_bounds` of all that a constraint says; −1 if it is coupling."""
        if id(constraint) not in self._positions:
            region, position = constraint.region(self.features), -1
            only_bounds = region.condition_types <= {Box, Transitions}
            if only_bounds and not (self.is_cost_dependent or self.is_nonconvex):
                case = Program(self._unit_cost, self._kinds_region & region).cases(self.x)
                position = self._bounds.shape[1]
                self._bounds = np.append(self._bounds, np.stack([case.low, case.high]), axis=1)
            self._positions[id(constraint)] = constraint, position
        return self._positions[id(constraint)][1]


def _atoms(constraint: Constraint, features: Features) -> Iterator[Constraint]:
    """A constraint on several features as one constraint on each."""
    if isinstance(constraint, Immutable):
        yield from (constraint.only(name) for name in constraint.features)
    elif isinstance(constraint, WithinObserved):
        yield from (constraint.only(name) for name in constraint.features or features.names)
    elif isinstance(constraint, ObservedCombinations):
        yield from constraint.each()
    else:
        yield constraint


def _changing(cases: Batch, may_change: BoolArray) -> Batch:
    """Return rows of which only some columns (n, d) may change."""
    low, high = (np.where(may_change, end, cases.x) for end in (cases.low, cases.high))
    return replace(cases, low=low, high=high)


def _target_rows(program: Program) -> IntArray:
    """The linear rows of a program that the target demands: those with margins."""
    return np.flatnonzero(program.affine.margin_coefficient + program.affine.tie_coefficient > 0.0)


def _target_inequalities(piece: Subproblem, x: FloatArray) -> Cut:
    """Inequalities that hold in a piece before any search: each row of the target, by both sides.

    The first is 0 <= 0, so that there is one of a piece without rows, too.
    """
    program = piece.program
    units = np.eye(program.size)[_target_rows(program)]
    return program.cut(np.vstack([np.zeros((1, program.size)), units, -units]), x)


def _lacking(
    piece: Subproblem, cut: Cut, x: FloatArray, alone: Batch, chosen: FloatArray
) -> FloatArray:
    """(T,) how far inequalities are from holding if sets of features change; above 0, none may.

    Each inequality normal · y <= offset of the ``cut`` lacks its surplus at the row, normal · x −
    offset, less what the features of a set can take off it, which they do one by one. The largest
    of these counts, relative to the size of its terms. ``alone`` is the row x once for each of F
    features, of which only this one may change; ``chosen`` (T, F) is 1 for the features of a set.
    """
    count, zero = len(cut.offset), np.zeros(cut.normal.shape[1])
    repeated_rows = alone.take(np.repeat(np.arange(len(alone)), count))
    normals = np.tile(cut.normal, (len(alone), 1))
    change = piece.program.duality.domain.least(Diagonal(zero, zero), normals, repeated_rows)
    change = np.clip(change, -INFINITE, INFINITE).reshape(len(alone), count)
    surplus = cut.normal @ x - cut.offset
    size = np.abs(cut.normal) @ np.abs(x) + np.abs(cut.offset)
    terms = chosen @ np.abs(change) + size + 1.0 / INFINITE
    return np.asarray(((chosen @ change + surplus) / terms).max(axis=1))


def _refutes(incumbents: Incumbents, *, with_margin: bool) -> BoolArray:
    """(n,): whether a search excluded every answer.

    What a branch and bound reports is about points with the margin it was given; what multipliers
    prove, about all.
    """
    no_answer = np.full(len(incumbents.piece), np.inf)
    if with_margin:
        proved = [evidence.bounds(no_answer)[0] for evidence in incumbents.evidence]
        return np.asarray(np.isposinf(proved).all(axis=0))
    return np.isposinf(lower_bounds(incumbents.evidence, no_answer)[0])
