"""What is possible for one row under sets of constraints: what one search finds serves others.

A set of constraints has an answer if one was found under more of them, and none if proofs that were
found still hold under it. Only what neither of them decides is searched, many sets at once. A proof
is a sum of inequalities, one for each piece of the target, that no point within the bounds of each
feature meets (Farkas); so constraints on features it does not use are superfluous straight away.
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
"""Inequalities, and the atoms that they rest on beside the target."""

SHARE, BUSY = 0.5, 4.0
"""How much of the time that is left one search may take, and how many times that on the clock, by
which solvers stop, where others keep this one waiting."""
SETS, TRIES = 20_000, 40
"""Up to how many sets of features may change for each to be looked at by itself, and how many of
them are searched."""
SURELY, FAR = 1e-9, 1e200
"""How far proofs must be from undecided, relative to their terms; what counts as infinite."""


@final
class FeasibilityOracle:
    """What is possible for one row under sets of constraints.

    A constraint on features one by one only bounds the row's columns. So there is one program for
    each set of the other constraints, and all that differs between its questions are bounds. The
    parameters are those of `counterpoint.search.conflicts.conflict_of`; ``end`` says when to stop,
    in the seconds of ``thread_time``.
    """

    def __init__(self, query: Query, x: FloatArray, end: float) -> None:
        self.query, self.x, self.end = query, x, end
        requirement = query.target.requirement
        self._start = perf_counter(), thread_time()
        self.features = query.features
        self.atoms = [a for c in query.constraints for a in _atoms(c, self.features)]
        self.margin = 4.0 * query.model.form.margin_error(x, requirement, query.eps)
        """What leads to an answer that the model confirms, in score units."""
        self.is_by_price = requirement.promise is Guarantee.SELECTION
        """Whether the target depends on what points cost, and so on the constraints."""
        self._resolves_ties = bool(query.on_lattice(x).all())
        pieces = query.lattice_union if self._resolves_ties else query.union
        self.bends = any(p.program.duality.nonconvex is not None for p in pieces.listed)
        """Whether some piece of the target is not convex."""
        self._kinds = kinds_region(self.features)
        self._unit_price = EncodedCost(np.ones(self.features.width), np.zeros(self.features.width))
        # Atoms go by their ids; each is kept here, lest another one gets its id, with the position
        # of its bounds in `_bounds` (low and high), or −1.
        self._positions: dict[int, tuple[Constraint, int]] = {}
        self._bounds = np.zeros((2, 0, self.features.width))
        self._programs: dict[object, tuple[Query, Union, Batch]] = {}
        self._answered: list[frozenset[int]] = []
        """Sets of atoms under which there is an answer."""
        self._proofs: list[list[Proof]] = [[(set(), _units(p, x))] for p in pieces.listed]
        """For each piece."""

    def has(self, atoms: Sequence[Constraint]) -> bool:
        """Whether an answer is known."""
        ids = frozenset(map(id, atoms))  # fewer atoms have it as well, unless they set the price
        return any(ids == s if self.is_by_price else ids <= s for s in self._answered)

    def answers(self, sets: Sequence[Sequence[Constraint]]) -> BoolArray:
        """(n,): whether there is an answer under each set; if time runs out, as if there were."""
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
        """(n,): whether a proof that is known excludes every answer under each set."""
        out = np.zeros(len(sets), dtype=bool)
        for which, coupling, _, pieces, cases in self._asked(sets):
            charged = any(LogLoss in piece.program.condition_types for piece in pieces.listed)
            if self.is_by_price or pieces.lazy is not None or charged:
                continue
            ids, everywhere = set(map(id, coupling)), np.ones(len(cases), dtype=bool)
            for piece, proofs in zip(pieces.listed, self._proofs, strict=True):
                cut = Cut.stacked([cut for needed, cut in proofs if needed <= ids])
                n, count = len(cases), len(cut.offset)
                repeated_cases = piece.sees(cases).take(np.repeat(np.arange(n), count))
                cut = cut.take(np.tile(np.arange(count), n))
                refuted = piece.program.duality.refutes(repeated_cases, cut)
                everywhere &= refuted.reshape(n, count).any(axis=1)
                if not everywhere.any():
                    break
            out[which] = everywhere
        return out

    def surely(self, constraints: Sequence[Constraint]) -> bool:
        """Whether there is an answer that leads by enough to be confirmed, if it can."""
        ((*_, pieces, case),) = self._asked([constraints])
        loose = self.is_by_price or not pieces.moves_smoothly(case)[0]
        both = (0.0 * self.margin, self.margin) if loose else (self.margin, 0.0 * self.margin)
        return self.point(constraints, margins=[np.stack(both, axis=1)])[0] is not None

    def point(
        self,
        constraints: Sequence[Constraint],
        encoded_cost: EncodedCost | None = None,
        margins: Sequence[FloatArray] = (),
    ) -> tuple[FloatArray | None, bool]:
        """`points` under one set: the point, if any; whether none exists."""
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

        The cheapest points if there is a price. With margins one after the other; if there are
        none, first with one that makes a point an answer.
        """
        points = np.full((len(sets), self.features.width), np.nan)
        refuted, gap = np.zeros(len(sets), dtype=bool), 1.0 if encoded_cost is None else 1e-9
        for which, coupling, query, pieces, cases in self._asked(sets, encoded_cost):
            few = [int(c.count) for c in coupling if isinstance(c, MaxChanges)]
            unsolved = np.ones(len(which), dtype=bool)
            if few and encoded_cost is None and not (self.is_by_price or self.bends):
                points[which], refuted[which], unsolved = self._few(
                    coupling, cases, min(few), margins
                )
            if unsolved.any():
                unsolved_cases = cases.take(unsolved)
                solutions = self._searched(coupling, query, pieces, unsolved_cases, gap, margins)
                points[which[unsolved]], refuted[which[unsolved]] = solutions
        return points, refuted

    def _few(
        self,
        coupling: Sequence[Constraint],
        cases: Batch,
        count: int,
        margins: Sequence[FloatArray],
    ) -> tuple[FloatArray, BoolArray, BoolArray]:
        """`points` by sets of features that may change, and (n,) where these are too many."""
        constraints = tuple(c for c in coupling if not isinstance(c, MaxChanges))
        query, pieces, _ = self._program(constraints, None)
        points = np.full(cases.x.shape, np.nan)
        refuted, too_many = np.zeros((2, len(cases)), bool)
        looks = {
            i: self._promising(constraints, pieces, case, count) for i, case in enumerate(cases)
        }
        while looks:
            choices = {i: next(look, None) for i, look in looks.items()}
            refuted[[i for i, columns in choices.items() if columns is None]] = True
            unlisted = [i for i, cols in choices.items() if cols is not None and not cols.any()]
            too_many[unlisted] = True
            rows = np.array([i for i in choices if not (refuted[i] or too_many[i])], dtype=np.intp)
            may = np.array([choices[i] for i in rows]).reshape(len(rows), self.features.width)
            narrowed = _only(cases.take(rows), may)
            nearby, none = self._searched(constraints, query, pieces, narrowed, 1.0, margins)
            points[rows] = np.clip(nearby, narrowed.low, narrowed.high)
            looks = {i: looks[i] for i in rows[none].tolist()}
        return points, refuted, too_many

    def _promising(
        self, coupling: Sequence[Constraint], pieces: Union, case: Batch, count: int
    ) -> Iterator[BoolArray]:
        """(d,): the columns of few features that may change, the best first, until none are left.

        A proof says how much each feature by itself can take off what is missing. So it refutes
        most sets without a search, and each search of one of them leaves proofs for the others.
        No column where there are too many sets, or no multipliers that could prove anything.
        """
        blocks = np.zeros((len(self.features.blocks), self.features.width), dtype=bool)
        for row, block in zip(blocks, self.features.blocks, strict=True):
            row[block] = True
        must = np.any(blocks & ((case.low > self.x) | (case.high < self.x)), axis=1)
        free = must | np.any(blocks & (case.low < case.high), axis=1)
        blocks, must = blocks[free, :], must[free]
        count = min(count, len(blocks))
        programs = [piece.program for piece in pieces.listed]
        is_silent = any(p.size == 0 or LogLoss in p.condition_types for p in programs)
        is_narrow = any(piece.narrows for piece in pieces.listed)
        if is_silent or is_narrow or pieces.lazy is not None or comb(len(blocks), count) > SETS:
            yield np.zeros(self.features.width, dtype=bool)
        sets = np.array(list(combinations(range(len(blocks)), count)), dtype=np.intp)
        chosen = np.zeros((len(sets), len(blocks)))
        np.put_along_axis(chosen, sets, 1.0, axis=1)
        chosen, ids = chosen[(chosen >= must).all(axis=1)], set(map(id, coupling))
        alone = _only(case.take(np.zeros(len(blocks), dtype=np.intp)), blocks)
        missing = [np.full(len(chosen), -np.inf) for _ in pieces.listed]
        used = [0] * len(missing)
        tried = np.zeros(len(chosen), dtype=bool)
        for _ in range(TRIES):
            for s, piece in enumerate(pieces.listed):
                proofs = self._proofs[s][used[s] :]
                cuts = [cut for needed, cut in proofs if needed <= ids]
                if cuts:
                    improved = _missing(piece, Cut.stacked(cuts), self.x[0], alone, chosen)
                    missing[s] = np.maximum(missing[s], improved)
                used[s] += len(proofs)
            least = np.where(tried, np.inf, np.min(missing, axis=0))
            if not (least <= SURELY).any():
                return
            best = int(least.argmin())
            tried[best] = True
            yield chosen[best] @ blocks > 0.0
        yield np.zeros(self.features.width, dtype=bool)

    def _searched(
        self,
        coupling: Sequence[Constraint],
        query: Query,
        pieces: Union,
        cases: Batch,
        gap: float,
        margins: Sequence[FloatArray],
    ) -> tuple[FloatArray, BoolArray]:
        """`points` of rows by one search for each margin, in a share of the time that is left."""
        points, refuted = np.full(cases.x.shape, np.nan), np.zeros(len(cases), dtype=bool)
        only, open_ = pieces.is_integral or self.is_by_price, np.arange(len(cases))
        for margin in margins or (self.margin, 0.0 * self.margin)[only:]:
            now = perf_counter(), thread_time()
            if now[1] >= self.end or not len(open_):
                break
            passed, used = now[0] - self._start[0], now[1] - self._start[1]
            waiting = min(max(passed / max(used, 1e-9), 1.0), BUSY)
            effort = Effort(gap, SHARE * (self.end - now[1]) * waiting / len(open_))
            open_cases = cases.take(open_).with_margin(np.repeat(margin, len(open_), axis=0))
            findings = search(pieces, open_cases, effort, query.safety_margins(open_cases.x))
            satisfied = self._meets(findings, query, open_cases)
            none = np.zeros(len(satisfied), dtype=bool)
            if not satisfied.all():
                none = ~satisfied & _refutes(findings, with_margin=bool(margin.any()))
            self._learn(coupling, pieces, findings, np.flatnonzero(none))
            points[open_[satisfied]], refuted[open_[none]] = findings.points[satisfied], True
            open_ = open_[~satisfied & ~none]
        return points, refuted

    def _meets(self, findings: Incumbents, query: Query, cases: Batch) -> BoolArray:
        """(n,): whether a point was found that meets its constraints as an answer has to."""
        region = query.actionable.region & Region((_box(cases.low, cases.high),))
        with np.errstate(invalid="ignore"):
            missed = region.violation(findings.points, cases.x) > VIOLATION
        return (findings.piece >= 0) & ~missed

    def _learn(
        self, coupling: Sequence[Constraint], pieces: Union, findings: Incumbents, rows: IntArray
    ) -> None:
        """Keep the inequalities of a search that excluded every answer of some rows."""
        if self.is_by_price or pieces.lazy is not None:
            return
        regions = ((id(c), c.region(self.features)) for c in coupling)
        ids = {
            key
            for key, region in regions
            if any(isinstance(c, Coupling | ChangeBounds) for c in region)
        }
        for i in rows.tolist():
            evidences, at = findings.evidence, i
            if len(evidences) == 1 and isinstance(evidences[0], RowEvidence):
                evidences, at = evidences[0].rows[i], 0
            for proofs, evidence in zip(self._proofs, evidences, strict=False):
                if not isinstance(evidence, Evidence) or evidence.program.nonconvex:
                    continue
                program, multipliers = evidence.program, evidence.multipliers[at : at + 1]
                if multipliers.any():
                    proofs.append((ids, program.cut(multipliers, self.x)))
                    target = np.zeros_like(multipliers)
                    rows_of_target = np.flatnonzero(
                        program.affine.margin_coefficient + program.affine.tie_coefficient > 0.0
                    )
                    target[:, rows_of_target] = multipliers[:, rows_of_target]
                    proofs.append((set(), program.cut(target, self.x)))

    def _asked(
        self, sets: Sequence[Sequence[Constraint]], encoded_cost: EncodedCost | None = None
    ) -> Iterator[tuple[IntArray, tuple[Constraint, ...], Query, Union, Batch]]:
        """Yield, for sets of constraints that differ in bounds alone, one program with a row each.

        Yielded are the positions in ``sets``, the constraints that are in the program, the query,
        its union, and the rows with the bounds of their sets. ``encoded_cost`` replaces the cost,
        unless what is sure depends on the cost.
        """
        shared: dict[tuple[int, ...], list[int]] = {}
        ends, couplings = np.empty((2, len(sets), self.features.width)), []
        for i, constraints in enumerate(sets):
            positions = [self._position(c) for c in constraints]
            bounds = self._bounds[:, [j for j in positions if j >= 0]]
            ends[0, i] = bounds[0].max(axis=0, initial=-np.inf)
            ends[1, i] = bounds[1].min(axis=0, initial=np.inf)
            pairs = zip(constraints, positions, strict=True)
            couplings.append(tuple(c for c, j in pairs if j < 0))
            shared.setdefault(tuple(map(id, couplings[-1])), []).append(i)
        for members in shared.values():
            coupling, rows = couplings[members[0]], np.array(members)
            query, pieces, case = self._program(coupling, encoded_cost)
            yield rows, coupling, query, pieces, case.take(0 * rows).within(*ends[:, rows])

    def _program(
        self, coupling: tuple[Constraint, ...], encoded_cost: EncodedCost | None
    ) -> tuple[Query, Union, Batch]:
        """The target under some constraints, and the row."""
        key = (*map(id, coupling), id(encoded_cost))
        if key not in self._programs:
            query = replace(self.query, constraints=coupling)
            if not self.is_by_price:
                query = replace(query, encoded_cost=encoded_cost or self._unit_price)
            pieces = query.lattice_union if self._resolves_ties else query.union
            self._programs[key] = query, pieces, query.actionable.cases(self.x)
        return self._programs[key]

    def _position(self, constraint: Constraint) -> int:
        """Return where the bounds are that say all a constraint does; −1 if it is in a program."""
        if id(constraint) not in self._positions:
            region, position = constraint.region(self.features), -1
            if region.condition_types <= {Box, Transitions} and not (
                self.is_by_price or self.bends
            ):
                case = Program(self._unit_price, self._kinds & region).cases(self.x)
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


def _box(low: FloatArray, high: FloatArray) -> Box:
    return replace(Box.unbounded(low.shape[-1]), low=low, high=high)


def _only(cases: Batch, may: BoolArray) -> Batch:
    """Rows of which only some columns (n, d) may change."""
    low, high = np.where(may, cases.low, cases.x), np.where(may, cases.high, cases.x)
    return replace(cases, low=low, high=high)


def _units(piece: Subproblem, x: FloatArray) -> Cut:
    """Nothing, and each linear row of the target in a piece, from each side, as inequalities."""
    program = piece.program
    rows = np.flatnonzero(program.affine.margin_coefficient + program.affine.tie_coefficient > 0.0)
    units = np.eye(program.size)[rows]
    return program.cut(np.vstack([np.zeros((1, program.size)), units, -units]), x)


def _missing(
    piece: Subproblem, cut: Cut, x: FloatArray, alone: Batch, chosen: FloatArray
) -> FloatArray:
    """(T,) how far proofs are from allowing for a set of features to change; not above 0 if all do.

    Relative to the size of their terms. The cut are inequalities that the points of a piece meet;
    ``alone`` is the row x once for each of F features, which alone may change; (T, F) sets.
    """
    count, zero = len(cut.offset), np.zeros(cut.normal.shape[1])
    repeated_rows = alone.take(np.repeat(np.arange(len(alone)), count))
    normals = np.tile(cut.normal, (len(alone), 1))
    gains = piece.program.duality.domain.least(Diagonal(zero, zero), normals, repeated_rows)
    gains = np.clip(gains, -FAR, FAR).reshape(len(alone), count)
    surplus = cut.normal @ x - cut.offset
    size = np.abs(cut.normal) @ np.abs(x) + np.abs(cut.offset)
    short = (chosen @ gains + surplus) / (chosen @ np.abs(gains) + size + 1.0 / FAR)
    return np.asarray(short.max(axis=1))


def _refutes(findings: Incumbents, *, with_margin: bool) -> BoolArray:
    """(n,): whether a search excluded every answer.

    What a branch and bound reports holds with the margin it was given; multipliers, without any.
    """
    reached = np.full(len(findings.piece), np.inf)
    if with_margin:
        proved = [evidence.bounds(reached)[0] for evidence in findings.evidence]
        return np.asarray(np.isposinf(proved).all(axis=0))
    return np.isposinf(lower_bounds(findings.evidence, reached)[0])
