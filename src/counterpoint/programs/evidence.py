"""Keep what a search leaves behind, and bound all other answers by it, without a solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from counterpoint.numerics import CLOSED, BoolArray, FloatArray, IntArray
from counterpoint.programs.proof import OLD, ProofTrees, places, proved

if TYPE_CHECKING:
    from counterpoint.programs.program import Program
    from counterpoint.programs.region import Batch


def has_tangents(program: Program) -> bool:
    """Return whether points sharpen bounds: of a full quadratic cost, or what is not convex."""
    return program.encoded_cost.quadratic.ndim == 2 or program.duality.nonconvex is not None


def proof_size(program: Program) -> int:
    """Return how many numbers prove a bound: multipliers, and how far a tangent's point is."""
    return program.size + has_tangents(program) * program.width


@final
class BoundProof(NamedTuple):
    """The proofs of bounds on one piece of a target, for n rows."""

    # (n, proof_size) and, with tangents, how far their points are from the row: not where they are,
    # which would tell the row
    multipliers: FloatArray
    trees: Sequence[ProofTrees] = ()
    # (n,) proofs that only the family reads that made them
    family_proofs: Sequence[Any] | None = None
    boxed: BoxedProof | None = None  # of rows that were branched on combinations, besides

    @classmethod
    def without_multipliers(
        cls,
        program: Program,
        n: int,
        trees: Sequence[ProofTrees] = (),
        family_proofs: Sequence[Any] | None = None,
    ) -> BoundProof:
        """Return the proofs of n rows that are trees, or of a family's own."""
        return cls(np.zeros((n, proof_size(program))), trees, family_proofs)

    def require_no_family_proofs(self) -> None:
        """Raise a ValueError if there are any, as older versions made them for all families."""
        if self.family_proofs is not None:
            raise ValueError(OLD)

    def take(self, rows: IntArray) -> BoundProof:
        """Return the proofs of some rows, in order."""
        all_trees = (trees.take(rows) for trees in self.trees)
        trees = [trees for trees in all_trees if len(trees.row)]
        family_proofs, boxed = self.family_proofs, self.boxed
        if family_proofs is not None:
            family_proofs = [family_proofs[i] for i in rows.tolist()]
        boxed = None if boxed is None else boxed.take(rows)
        return BoundProof(self.multipliers[rows], trees, family_proofs, boxed)

    @classmethod
    def joined(cls, proofs: Sequence[BoundProof]) -> BoundProof:
        """Return the proofs of several batches, one after the other; none of them is boxed."""
        counts = [len(proof.multipliers) for proof in proofs]
        starts = np.cumsum([0, *counts[:-1]]).tolist()
        trees = [
            batch._replace(row=batch.row + start)
            for proof, start in zip(proofs, starts, strict=True)
            for batch in proof.trees
        ]
        listed: list[Any] = []
        for proof, count in zip(proofs, counts, strict=True):
            listed += [None] * count if proof.family_proofs is None else [*proof.family_proofs]
        family_proofs = None if all(proof is None for proof in listed) else listed
        return cls(np.concatenate([p.multipliers for p in proofs]), trees, family_proofs)


@final
class BoxedProof(NamedTuple):
    """Boxes that cover the domains of some rows, and the proofs of bounds in them.

    A box that is empty, or excluded by a forbidden combination, needs no proof.
    """

    splits: ProofTrees  # whose leaves are the boxes; without multipliers
    row: IntArray  # (L,) the row of each box that has a proof, in the order of the row's leaves
    leaves: BoundProof  # of these L boxes

    def take(self, rows: IntArray) -> BoxedProof | None:
        """Return the proofs of some rows, in order; None if none of these was branched."""
        splits, new_row = self.splits.take(rows), places(rows, self.row)
        if not len(splits.row):
            return None
        leaves = np.flatnonzero(new_row >= 0)
        return BoxedProof(splits, new_row[leaves], self.leaves.take(leaves))


class Bounding(ABC):
    """Lower bounds on the objectives of n rows, and their proofs, however they were found."""

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether the search looks for local optima only, so that a gap may remain."""

    @abstractmethod
    def bounds(self, incumbent: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return proved bounds (n,), and bounds with what solvers report; infinite if refuted.

        To refute a row is tried only where its bound is below the ``incumbent`` (n,), the objective
        of the best point.
        """

    @property
    @abstractmethod
    def bound_proofs(self) -> Sequence[BoundProof]:
        """The proofs of the bounds for a record, one for each piece; empty if there are none."""


@final
@dataclass(eq=False)
class Evidence(Bounding):
    """The multipliers and proof trees of a search over one piece, for n rows."""

    program: Program
    cases: Batch
    multipliers: FloatArray  # (n, size), any
    # (n, d) points of tangents, see `Program.bound`; None unless the program `has_tangents`
    at: FloatArray | None
    # (n,) bounds that a branch and bound reported; infinite if it refuted every leaf
    reported: FloatArray
    proofs: list[ProofTrees] = field(default_factory=list)  # of some rows
    # (n,) the bounds of the multipliers; NaN where they have not been computed
    proved: FloatArray | None = None

    @classmethod
    def blank(cls, program: Program, cases: Batch) -> Evidence:
        """Return evidence that proves nothing, to be filled in."""
        n, at = len(cases.x), np.array(cases.x) if has_tangents(program) else None
        multipliers, unknown = np.zeros((n, program.size)), np.full(n, np.nan)
        return cls(program, cases, multipliers, at, np.zeros(n), proved=unknown)

    @classmethod
    def of_proof(cls, program: Program, cases: Batch, proofs: BoundProof) -> Evidence:
        """Return the evidence of a recorded proof for the same program and rows."""
        multipliers, away = np.split(proofs.multipliers, [program.size], axis=1)
        at = cases.x + away if has_tangents(program) else None
        return cls(program, cases, multipliers, at, np.zeros(len(cases)), [*proofs.trees])

    @property
    def is_local(self) -> bool:
        return bool(self.program.nonconvex)

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        if self.at is None:
            return [BoundProof(self.multipliers, self.proofs)]
        away = np.nan_to_num(self.at - self.cases.x)  # of no point: the row itself
        return [BoundProof(np.hstack([self.multipliers, away]), self.proofs)]

    def bounds(self, incumbent: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.proved is not None and not np.isnan(self.proved).any():
            bound = np.array(self.proved)
        else:
            bound = self.program.bound(self.cases, self.multipliers, self.at)
        if self.proofs:
            bound = np.maximum(bound, self._proved_by_trees)
        undecided = np.flatnonzero(bound < incumbent * (1.0 - CLOSED))
        if len(undecided):
            undecided_cases, multipliers = self.cases.take(undecided), self.multipliers[undecided]
            bound[undecided[self.program.refutes(undecided_cases, multipliers)]] = np.inf
        return bound, np.maximum(bound, self.reported)

    def learn(
        self, rows: IntArray, multipliers: FloatArray, at: FloatArray | None, proved: FloatArray
    ) -> None:
        """Replace the multipliers of some rows, and the bounds that `Program.bound` gives them."""
        self.multipliers[rows] = multipliers
        if self.at is not None and at is not None:
            self.at[rows] = at
        if self.proved is not None:
            self.proved[rows] = proved

    @cached_property
    def _proved_by_trees(self) -> FloatArray:
        """The bounds of the trees, (n,); 0 for rows without one."""
        bound = np.zeros(len(self.cases))
        for trees in self.proofs:
            bound = np.maximum(bound, proved(self.program, self.cases, trees))
        return bound


@final
@dataclass(frozen=True, eq=False)
class HalfSpaceEvidence(Bounding):
    """The bounds of many pieces at once, each of one linear row within a box."""

    multipliers: FloatArray  # (n, pieces)
    proved: FloatArray  # (n, pieces) their bounds; infinite where they refute the piece

    @property
    def is_local(self) -> bool:
        return False

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        return [*map(BoundProof, self.multipliers.T[:, :, None])]

    def bounds(self, incumbent: FloatArray) -> tuple[FloatArray, FloatArray]:
        bound = self.proved.min(axis=1)
        return bound, bound


@final
class SearchedNodes(NamedTuple):
    """Boxes that were searched together."""

    row: IntArray  # (m,) the row of each
    is_leaf: BoolArray  # (m,): whether it was not split further
    evidence: Sequence[Bounding]  # of each piece, within the m boxes


@final
@dataclass(frozen=True, eq=False)
class BoxedEvidence(Bounding):
    """The bounds of n rows in boxes that cover their domains, but for forbidden and empty ones."""

    whole: Sequence[Bounding]  # of each piece, for n rows, without forbidden combinations
    splits: ProofTrees  # of the rows that were branched; without multipliers
    batches: Sequence[SearchedNodes]
    order: IntArray  # the leaves of all batches, by row and by their order in its tree

    @property
    def is_local(self) -> bool:
        return any(piece.is_local for piece in self.whole)

    def bounds(self, incumbent: FloatArray) -> tuple[FloatArray, FloatArray]:
        out = np.min([piece.bounds(incumbent) for piece in self.whole], axis=0)
        branched = self.splits.row
        boxed = np.full(out.shape, np.inf)
        for row, is_leaf, evidence in self.batches:
            bounds = np.min([piece.bounds(incumbent[row]) for piece in evidence], axis=0)
            for least, bound in zip(boxed, bounds, strict=True):
                np.minimum.at(least, row[is_leaf], bound[is_leaf])
        out[:, branched] = np.maximum(out[:, branched], boxed[:, branched])
        return out[0], out[1]

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        """The proof of each piece for whole rows, with those in their boxes; none if one lacks."""
        whole = [proof for piece in self.whole for proof in piece.bound_proofs]
        if not self.batches:  # all boxes are forbidden or empty
            none = np.zeros(0, dtype=np.intp)
            boxed = [BoxedProof(self.splits, none, proof.take(none)) for proof in whole]
            return [p._replace(boxed=box) for p, box in zip(whole, boxed, strict=True)]
        # piece → its proofs in the leaves of each batch
        leaf_proofs: list[list[BoundProof]] = [[] for _ in whole]
        for _, is_leaf, evidence in self.batches:
            proofs = [proof for piece in evidence for proof in piece.bound_proofs]
            if len(proofs) != len(whole):
                return []
            for of_piece, proof in zip(leaf_proofs, proofs, strict=True):
                of_piece.append(proof.take(np.flatnonzero(is_leaf)))
        # the leaves come batch by batch, and are put in the order of the trees
        row = np.concatenate([batch.row[batch.is_leaf] for batch in self.batches])[self.order]
        leaves = [BoundProof.joined(of_piece).take(self.order) for of_piece in leaf_proofs]
        boxed = [BoxedProof(self.splits, row, proof) for proof in leaves]
        return [p._replace(boxed=box) for p, box in zip(whole, boxed, strict=True)]


@final
@dataclass(frozen=True, eq=False)
class RowEvidence(Bounding):
    """The bounds of rows that were searched one by one: for each row, those of its pieces."""

    rows: Sequence[Sequence[Bounding]]

    @property
    def is_local(self) -> bool:
        return False

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        """The proofs that a family reads itself, if there is one of each row."""
        bounding = [piece for pieces in self.rows for piece in pieces]
        proofs = [proof for piece in bounding for proof in piece.bound_proofs]
        family_proofs = [p for proof in proofs for p in proof.family_proofs or ()]
        if not len(family_proofs) == len(bounding) == len(self.rows):
            return []
        multipliers = np.vstack([proof.multipliers for proof in proofs])
        return [BoundProof(multipliers, family_proofs=family_proofs)]

    def bounds(self, incumbent: FloatArray) -> tuple[FloatArray, FloatArray]:
        proved, best = np.full((2, len(incumbent)), np.inf)
        for i, pieces in enumerate(self.rows):
            for piece in pieces:
                bound, reported_bound = piece.bounds(incumbent[i : i + 1])
                proved[i], best[i] = min(proved[i], bound[0]), min(best[i], reported_bound[0])
        return proved, best
