"""What is possible for one row under sets of constraints: what one search finds serves others.

A set of constraints has an answer if some point that was found meets it, and none if proofs that
were found still hold under it. Only what neither of them decides is searched. A proof is a sum of
inequalities, one for each piece of the target, that no point within the bounds of each feature
meets (Farkas); so constraints on features it does not use are superfluous straight away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from time import perf_counter, thread_time
from typing import final

import numpy as np

from counterpoint.certificate import VIOLATION, Evidence, RowEvidence, lower_bounds
from counterpoint.constraints import Constraint, Immutable, MaxChanges, WithinObserved
from counterpoint.costs import Price
from counterpoint.engine.domains import Box, Transitions
from counterpoint.engine.pieces import Piece, Pieces, Question
from counterpoint.engine.program import Program, kinds_region
from counterpoint.engine.region import Cases, Coupling, Cut, Region
from counterpoint.engine.search import Found, search
from counterpoint.engine.separable import Diagonal
from counterpoint.numerics import FloatArray
from counterpoint.rows.features import Features
from counterpoint.solvers import Effort
from counterpoint.targets import Guarantee, Target

__all__ = ["Possible"]

Proof = tuple[set[int], Cut]
"""Inequalities, and the atoms that they rest on beside the target."""

SHARE, BUSY = 0.5, 4.0
"""How much of the time that is left one search may take, and how many times that on the clock, by
which solvers stop, where others keep this one waiting."""
LEADING = 4.0
"""By how many rounding errors of the model at the row a relaxation must lead to an answer."""
SETS, TRIES = 20_000, 40
"""Up to how many sets of features may change for each to be looked at by itself, and how many of
them are searched."""
SURELY, FAR = 1e-9, 1e200
"""How far proofs must be from undecided, relative to their terms; what counts as infinite."""


@final
class Possible:
    """What is possible for one row under sets of constraints.

    A constraint on features one by one only bounds the row's columns. So there is one program for
    each set of the other constraints, and all that differs between its questions are bounds. The
    parameters are those of `counterpoint.engine.conflicts.conflict_of`; ``end`` says when to stop,
    in the seconds of ``thread_time``.
    """

    def __init__(
        self, question: Question, target: Target, x: FloatArray, eps: float, end: float
    ) -> None:
        self.question, self.target, self.x, self.eps, self.end = question, target, x, eps, end
        self._start = perf_counter(), thread_time()
        self.features = question.features
        self.atoms = [a for c in question.constraints for a in _atoms(c, self.features)]
        self.margin = LEADING * target.requirement.rounding(question.form, x, eps)
        self.is_by_price = target.promise is Guarantee.SELECTION
        """Whether the target depends on what points cost, and so on the constraints."""
        self._decides = bool(question.on_lattice(x).all())
        pieces = self._pieces_of(question)
        self.bends = any(p.program.nonconvex_duality is not None for p in pieces.listed)
        """Whether some piece of the target is not convex."""
        self._kinds = kinds_region(self.features)
        self._unit_price = Price(np.ones(self.features.width), np.zeros(self.features.width))
        self._limits: dict[int, tuple[Constraint, Cases | None]] = {}
        self._programs: dict[object, tuple[Question, Pieces, Cases]] = {}
        self._points = np.zeros((0, self.features.width))
        self._missed: list[set[int]] = []
        """Which atoms each point that is known misses."""
        self._had: set[frozenset[int]] = set()
        """Sets for which there is an answer, where that of one tells nothing of another."""
        self._proofs: list[list[Proof]] = [[(set(), _units(p))] for p in pieces.listed]
        """For each piece."""

    def has(self, atoms: Sequence[Constraint]) -> bool:
        """Whether an answer is known."""
        ids = frozenset(map(id, atoms))
        return ids in self._had or any(ids.isdisjoint(missed) for missed in self._missed)

    def answer(self, atoms: Sequence[Constraint]) -> bool:
        """Whether there is an answer; if time runs out, as if there were."""
        if self.has(atoms):
            return True
        if self.is_refuted(atoms):
            return False
        point = self._moved(atoms)
        point, refuted = (point, False) if point is not None else self.point(atoms)
        if point is not None and self.is_by_price:
            self._had.add(frozenset(map(id, atoms)))
        elif point is not None:
            self._points = np.vstack([self._points, point])
            self._missed.append(self._misses(point[None]) - set(map(id, atoms)))
        return not refuted

    def is_refuted(self, constraints: Sequence[Constraint]) -> bool:
        """Whether a proof that is known excludes every answer."""
        pieces, case = self._asked(constraints)[1:]
        if self.is_by_price or pieces.lazy is not None:
            return False
        ids = set(map(id, constraints))
        for piece, proofs in zip(pieces.listed, self._proofs, strict=True):
            if piece.program.charges:
                return False
            cut = Cut.stacked([cut for needed, cut in proofs if needed <= ids])
            some = piece.sees(case).take(np.zeros(len(cut.offset), dtype=np.intp))
            if not piece.program.duality.refutes(some, cut).any():
                return False
        return True

    def surely(self, constraints: Sequence[Constraint]) -> bool:
        """Whether there is an answer that leads by enough to be confirmed, if it can."""
        pieces, case = self._asked(constraints)[1:]
        loose = self.is_by_price or not pieces.moves_smoothly(case)[0]
        both = (0.0 * self.margin, self.margin) if loose else (self.margin, 0.0 * self.margin)
        return self.point(constraints, margins=[np.stack(both, axis=1)])[0] is not None

    def point(
        self,
        constraints: Sequence[Constraint],
        price: Price | None = None,
        margins: Sequence[FloatArray] = (),
    ) -> tuple[FloatArray | None, bool]:
        """A point of some piece, if any, the cheapest if there is a price; whether none exists.

        With margins one after the other; if there are none, first with one that makes the point an
        answer.
        """
        if price is None and not (self.is_by_price or self.bends):
            few = [int(c.count) for c in constraints if isinstance(c, MaxChanges)]
            found = self._few(constraints, min(few), margins) if few else None
            if found is not None:
                return found
        question, pieces, case = self._asked(constraints, price)
        gap = 1.0 if price is None else 1e-9
        return self._searched(constraints, question, pieces, case, gap, margins)

    def _few(
        self, constraints: Sequence[Constraint], count: int, margins: Sequence[FloatArray]
    ) -> tuple[FloatArray | None, bool] | None:
        """`point` by each set of features that may change; None if there are too many.

        A proof says how much each feature by itself can take off what is missing. So it refutes
        most sets without a search, and each search of one of them leaves proofs for the others.
        """
        rest = [c for c in constraints if not isinstance(c, MaxChanges)]
        question, pieces, case = self._asked(rest)
        must = (case.low > self.x) | (case.high < self.x)
        moves = must | (case.low < case.high)
        free = [block for block in self.features.blocks if moves[0, block].any()]
        count = min(count, len(free))
        narrow = any(p.narrows or p.program.charges for p in pieces.listed)
        if narrow or pieces.lazy is not None or comb(len(free), count) > SETS:
            return None
        sets = np.array(list(combinations(range(len(free)), count)), dtype=np.intp)
        chosen = np.zeros((len(sets), len(free)))
        np.put_along_axis(chosen, sets, 1.0, axis=1)
        chosen = chosen[(chosen >= [must[0, block].any() for block in free]).all(axis=1)]
        alone, ids = _only(case, [[block] for block in free]), set(map(id, rest))
        missing = [np.full(len(chosen), -np.inf) for _ in pieces.listed]
        used = [0] * len(missing)
        tried = np.zeros(len(chosen), dtype=bool)
        for _ in range(TRIES):
            for s, piece in enumerate(pieces.listed):
                proofs = self._proofs[s][used[s] :]
                cuts = [cut for needed, cut in proofs if needed <= ids]
                if cuts:
                    more = _missing(piece, Cut.stacked(cuts), alone, chosen)
                    missing[s] = np.maximum(missing[s], more)
                used[s] += len(proofs)
            least = np.where(tried, np.inf, np.min(missing, axis=0))
            if not (least <= SURELY).any():
                return None, True
            best = int(least.argmin())
            tried[best] = True
            part = _only(case, [[free[i] for i in np.flatnonzero(chosen[best])]])
            point, refuted = self._searched(rest, question, pieces, part, 1.0, margins)
            if point is not None:
                return np.clip(point, part.low[0], part.high[0]), False
            if not refuted:
                return None, False
        return None

    def _searched(
        self,
        constraints: Sequence[Constraint],
        question: Question,
        pieces: Pieces,
        case: Cases,
        gap: float,
        margins: Sequence[FloatArray],
    ) -> tuple[FloatArray | None, bool]:
        """`point` by one search for each margin, in a share of the time that is left."""
        leads = self.target.leads(question, self.x)
        only = pieces.is_integral or self.is_by_price
        for margin in margins or (self.margin, 0.0 * self.margin)[only:]:
            now = perf_counter(), thread_time()
            if now[1] >= self.end:
                break
            passed, used = now[0] - self._start[0], now[1] - self._start[1]
            waiting = min(max(passed / max(used, 1e-9), 1.0), BUSY)
            effort = Effort(gap, SHARE * (self.end - now[1]) * waiting)
            findings = search(pieces, case.with_margin(margin), effort, leads)
            if self._meets(findings, question, case):
                return findings.points[0], False
            if _refutes(findings, with_margin=bool(margin.any())):
                self._learn(constraints, pieces, findings)
                return None, True
        return None, False

    def _meets(self, findings: Found, question: Question, case: Cases) -> bool:
        """Whether a point was found that meets the constraints as closely as an answer has to."""
        if findings.piece[0] < 0:
            return False
        region = question.actionable.region & Region((_box(case),))
        return bool(region.violation(findings.points, self.x)[0] <= VIOLATION)

    def _moved(self, constraints: Sequence[Constraint]) -> FloatArray | None:
        """A point that is known, moved to within the bounds, if it is an answer there."""
        pieces, case = self._asked(constraints)[1:]
        points = np.clip(self._points, case.low, case.high)
        if self.is_by_price or self.bends or not len(points) or case.empty.any():
            return None
        x, lead = np.repeat(self.x, len(points), axis=0), 0.5 * self.margin
        for piece in pieces.listed:
            program = piece.program
            missed = program.violation(points, x) > VIOLATION
            if not pieces.is_integral:
                ahead = program.tightened(np.stack([lead, 0.0 * lead], axis=1))
                missed |= ahead.violation(points, x) > 0.0
            for condition in piece.supported:
                missed |= condition.excess(points) > 0.0
            if not missed.all():
                return np.asarray(points[missed.argmin()])
        return None

    def _misses(self, point: FloatArray) -> set[int]:
        """Which atoms a point (1, d) misses."""
        limits = {id(a): self._limits_of(a) for a in self.atoms}
        boxes = {key: case for key, case in limits.items() if case is not None}
        regions = [(id(a), a.region(self.features)) for a in self.atoms if limits[id(a)] is None]
        missed = {key for key, r in regions if r.violation(point, self.x)[0] > VIOLATION}
        if boxes:
            y, x = (np.repeat(v, len(boxes), axis=0) for v in (point, self.x))
            over = _box(*boxes.values()).violation(y, x) > VIOLATION
            missed |= {key for key, out in zip(boxes, over.tolist(), strict=True) if out}
        return missed

    def _learn(self, constraints: Sequence[Constraint], pieces: Pieces, findings: Found) -> None:
        """Keep the inequalities of a search that excluded every answer."""
        if self.is_by_price or pieces.lazy is not None:
            return
        regions = ((id(c), c.region(self.features)) for c in constraints)
        ids = {key for key, region in regions if any(isinstance(c, Coupling) for c in region)}
        each = findings.evidence
        if len(each) == 1 and isinstance(each[0], RowEvidence):
            each = each[0].rows[0]
        for kept, evidence in zip(self._proofs, each, strict=False):
            if not isinstance(evidence, Evidence) or evidence.program.nonconvex:
                continue
            program, multipliers = evidence.program, evidence.multipliers
            if multipliers.any():
                kept.append((ids, program.cut(multipliers)))
                alone = np.zeros_like(multipliers)
                rows = np.flatnonzero(program.affine.tight + program.affine.lost > 0.0)
                alone[:, rows] = multipliers[:, rows]
                kept.append((set(), program.cut(alone)))

    def _asked(
        self, constraints: Sequence[Constraint], price: Price | None = None
    ) -> tuple[Question, Pieces, Cases]:
        """The target under other constraints and another price, unless that decides who is sure."""
        limits = [self._limits_of(c) for c in constraints]
        coupling = tuple(c for c, b in zip(constraints, limits, strict=True) if b is None)
        key = (*map(id, coupling), id(price))
        if key not in self._programs:
            question = replace(self.question, constraints=coupling)
            if not self.is_by_price:
                question = replace(question, price=price or self._unit_price)
            self._programs[key] = (
                question,
                self._pieces_of(question),
                question.actionable.cases(self.x),
            )
        question, pieces, case = self._programs[key]
        every = [case, *filter(None, limits)]
        low, high = np.stack([c.low for c in every]), np.stack([c.high for c in every])
        return question, pieces, replace(case, low=low.max(axis=0), high=high.min(axis=0))

    def _pieces_of(self, question: Question) -> Pieces:
        pieces = question.pieces(self.target)
        return question.decided(self.target, pieces) if self._decides else pieces

    def _limits_of(self, constraint: Constraint) -> Cases | None:
        """Bounds that say all that a constraint does; None if it has to be in a program."""
        if id(constraint) not in self._limits:
            region, limits = constraint.region(self.features), None
            if region.kinds <= {Box, Transitions} and not (self.is_by_price or self.bends):
                limits = Program(self._unit_price, self._kinds & region).cases(self.x)
            self._limits[id(constraint)] = constraint, limits
        return self._limits[id(constraint)][1]


def _atoms(constraint: Constraint, features: Features) -> Iterator[Constraint]:
    """A constraint on several features as one constraint on each."""
    if isinstance(constraint, Immutable):
        yield from (Immutable(name) for name in constraint.features)
    elif isinstance(constraint, WithinObserved):
        yield from (constraint.only(name) for name in constraint.features or features.names)
    else:
        yield constraint


def _box(*cases: Cases) -> Box:
    """The bounds of some rows, each for one of as many points."""
    low, high = np.concatenate([c.low for c in cases]), np.concatenate([c.high for c in cases])
    return replace(Box.unbounded(low.shape[1]), low=low, high=high)


def _only(case: Cases, sets: Sequence[Sequence[slice]]) -> Cases:
    """A row once for each set of features, of which alone it may change."""
    some = case.take(np.zeros(len(sets), dtype=np.intp))
    low, high = some.x.copy(), some.x.copy()
    for i, blocks in enumerate(sets):
        for block in blocks:
            low[i, block], high[i, block] = case.low[0, block], case.high[0, block]
    return replace(some, low=low, high=high)


def _units(piece: Piece) -> Cut:
    """Nothing, and each linear row of the target in a piece, from each side, as inequalities."""
    program = piece.program
    rows = np.flatnonzero(program.affine.tight + program.affine.lost > 0.0)
    units = np.eye(program.size)[rows]
    return program.cut(np.vstack([np.zeros((1, program.size)), units, -units]))


def _missing(piece: Piece, cut: Cut, alone: Cases, chosen: FloatArray) -> FloatArray:
    """(T,) how far proofs are from allowing for a set of features to change; not above 0 if all do.

    Relative to the size of their terms. The cut are inequalities that the points of a piece meet;
    ``alone`` is the row once for each of F features, which alone may change; (T, F) sets.
    """
    count, zero = len(cut.offset), np.zeros(cut.normal.shape[1])
    each = alone.take(np.repeat(np.arange(len(alone)), count))
    normals = np.tile(cut.normal, (len(alone), 1))
    gains = piece.program.duality.domain.least(Diagonal(zero, zero), normals, each)
    gains = np.clip(gains, -FAR, FAR).reshape(len(alone), count)
    here = cut.normal @ alone.x[0] - cut.offset
    size = np.abs(cut.normal) @ np.abs(alone.x[0]) + np.abs(cut.offset)
    short = (chosen @ gains + here) / (chosen @ np.abs(gains) + size + 1.0 / FAR)
    return np.asarray(short.max(axis=1))


def _refutes(findings: Found, *, with_margin: bool) -> bool:
    """Whether a search excluded every answer.

    What a branch and bound reports holds with the margin it was given; multipliers, without any.
    """
    reached = np.full(1, np.inf)
    if with_margin:
        return all(np.isposinf(part.bounds(reached)[0][0]) for part in findings.evidence)
    return bool(np.isposinf(lower_bounds(findings.evidence, reached)[0][0]))
