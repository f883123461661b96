"""What a search leaves behind: boxes that cover what is possible, and why each is closed.

Whoever checks them computes the staircase anew in all closed boxes at once, with arrays: neither
with the loops that may have found them nor in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from scipy import sparse

from counterpoint.certificate import Bounding, Kept
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.errors import NoSolver
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.trees.boxes import Boxes, Row
from counterpoint.trees.form import LeafSums
from counterpoint.trees.grid import Grid, Split

__all__ = ["EXACT", "Proof", "ProofTrees", "evidence_of", "needed", "refuted", "require_separable"]

LEAF, EXACT = 0, 3
"""What a node of a proof is that is not split: a box that holds nothing cheaper than the bound, by
the staircase; one in which the best leaves do not meet the demands when their values are added up
without rounding."""
TOGETHER = 64
"""Boxes that are checked at once: they share the leaves of the box around them."""


@final
@dataclass(eq=False)
class Proof:
    """Boxes that cover what is possible, for one row."""

    kind: list[int]
    what: list[int]  # of a split
    where: list[int]
    left: list[int]  # the first of its two parts; the other is the next
    bound: float  # no point that meets the demands costs less
    leading: float  # nor does any that leads by what was needed, which may be more

    @classmethod
    def begun(cls) -> Proof:
        """One box."""
        return cls([LEAF], [0], [0], [0], np.inf, np.inf)

    def split(self, node: int, split: Split) -> tuple[int, int]:
        """Split a box; the places of its parts."""
        self.kind[node], self.what[node], self.where[node] = split
        self.left[node] = place = len(self.kind)
        for entries in (self.kind, self.what, self.where, self.left):
            entries += [0, 0]
        return place, place + 1

    def closed(self, grid: Grid, root: Boxes) -> tuple[Boxes, BoolArray] | None:
        """The boxes that are not split, near ones together, and which are `EXACT`.

        None if the nodes are no tree.
        """
        nodes = np.array([self.kind, self.what, self.where, self.left])
        at, boxes, levels, found = np.zeros(1, dtype=np.intp), root, [], [root[:0]]
        size, met = np.ones(nodes.shape[1], dtype=np.intp), np.zeros(nodes.shape[1], dtype=bool)
        leaves = []
        while len(at):
            inner = ~np.isin(nodes[0, at], (LEAF, EXACT))
            leaves.append(at[~inner])
            found.append(boxes[~inner])
            split, left = nodes[:3, at[inner]].T, nodes[3, at[inner]]
            levels.append((at[inner], left))
            later = (left > at[inner]) & (left + 1 < len(size))
            if not (later.all() and grid.has(split)):
                return None
            boxes, at = boxes[inner].halves(grid, split), np.column_stack([left, left + 1]).ravel()
            if met[at].any() or len(np.unique(left)) < len(left):
                return None
            met[at] = True
        for node, left in reversed(levels):
            size[node] = size[left] + size[left + 1]
        place = np.zeros_like(size)
        for node, left in levels:
            place[left], place[left + 1] = place[node], place[node] + size[left]
        both = np.concatenate(leaves)
        order = np.argsort(place[both])
        return Boxes.stacked(found)[order], nodes[0, both[order]] == EXACT


@final
@dataclass(frozen=True, eq=False)
class ProofTrees(Bounding):
    """Proofs for rows and one set of demands, checked anew whenever a bound is asked for."""

    program: Program
    condition: LeafSums
    cases: Cases
    proofs: Sequence[Proof]

    @property
    def is_local(self) -> bool:
        return False

    @property
    def kept(self) -> Kept:
        return Kept(np.zeros((len(self.proofs), self.program.size)), own=self.proofs)

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the bounds of the proofs that hold, 0 for the others."""
        out, grid = np.zeros(len(self.proofs)), self.condition.form.grid(self.program.groups)
        for i, (case, proof) in enumerate(zip(self.cases, self.proofs, strict=True)):
            floor = 0.0 if margin is None else needed(self.condition, margin[i])
            bound = proof.bound if margin is None else proof.leading
            if _holds(proof, bound, Row(grid, self.program, case), self.condition, floor):
                out[i] = bound
        return out, out


def _holds(
    proof: Proof, bound: float, row: Row, condition: LeafSums, floor: FloatArray | float
) -> bool:
    """Whether no point that meets the demands by the ``floor`` costs less than a bound."""
    if row.root is None:
        return True
    grid, found = row.grid, proof.closed(row.grid, row.root)
    if found is None:
        return False
    values, missed = condition.weights @ grid.values.T, floor - condition.noise
    boxes, exact = found
    for start in range(0, len(boxes), TOGETHER):
        part, some = boxes[start : start + TOGETHER], np.arange(len(grid.tests))
        some = some[_cheaper(row, part.hull, some, bound)[:, 0]]
        begin = np.searchsorted(some, grid.tree)
        if (np.diff(begin, append=len(some)) == 0).any():
            continue
        near = _cheaper(row, part, some, bound)
        left = np.ones(len(part), dtype=bool)
        for value, shift, least in zip(values[:, some], condition.shift, missed, strict=True):
            top = np.maximum.reduceat(np.where(near, value[:, None], -np.inf), begin)
            left &= top.sum(axis=0) + shift >= least
        for k in np.flatnonzero(left).tolist():
            if not (exact[start + k] and refuted(condition, grid, values, some[near[:, k]])):
                return False
    return True


def _cheaper(row: Row, boxes: Boxes, leaves: IntArray, bound: float) -> BoolArray:
    """(A, n): whether leaves meet boxes at less than a bound."""
    tests = row.grid.tests[leaves]
    asked = np.zeros(row.grid.pad + 1, dtype=bool)
    asked[tests] = True
    known = row.costs(boxes)
    more, changes = row.asks(known, np.flatnonzero(asked))
    at, ends = (np.cumsum(asked) - 1)[tests].ravel(), np.arange(0, tests.size + 1, tests.shape[1])
    adds = sparse.csr_array((np.ones(tests.size), at, ends), (len(tests), len(more)))
    near = adds @ more + known.base < bound
    if changes is not None:
        near &= adds @ changes <= known.left
    return np.asarray(near)


def refuted(condition: LeafSums, grid: Grid, values: FloatArray, leaves: IntArray) -> bool:
    """Whether the best of a box's leaves do not meet a demand, added up without rounding."""
    begin, values = np.searchsorted(leaves, grid.tree), values[:, leaves]
    near = np.maximum.reduceat(values - EPS * np.abs(values), begin, axis=1)
    sizes = np.diff(np.append(begin, len(leaves)))
    tree = np.repeat(np.arange(len(begin)), sizes)
    more = np.column_stack([condition.weights * condition.form.base, condition.offset])
    for r, weight in enumerate(condition.weights):
        best: dict[int, Fraction] = {}
        for k in np.flatnonzero(values[r] + EPS * np.abs(values[r]) >= near[r][tree]).tolist():
            pairs = zip(weight.tolist(), grid.values[leaves[k]].tolist(), strict=True)
            exact = sum((Fraction(w) * Fraction(v) for w, v in pairs), Fraction(0))
            best[tree[k]] = max(best.get(tree[k], exact), exact)
        total = sum(best.values(), sum(map(Fraction, more[r].tolist()), Fraction(0)))
        if total < 0 or (condition.lost[r] and total == 0):
            return True
    return False


def needed(condition: LeafSums, margin: FloatArray) -> FloatArray:
    """(r,) by how much each demand is to be met, for a margin as of `Cases`."""
    return np.asarray(margin[0] + np.where(condition.lost, margin[1], 0.0))


def require_separable(program: Program) -> None:
    """Raise `NoSolver` for what ties columns together beside the trees."""
    full = program.price.quadratic.ndim == 2
    if full or program.size:
        what = "a full Mahalanobis cost" if full else "relations between columns"
        raise NoSolver(
            f"Trees cannot be searched with {what}. Use a cost and constraints of one feature at a "
            "time."
        )


def evidence_of(program: Program, cases: Cases, told: Sequence[dict[str, Any]]) -> ProofTrees:
    """Proofs as a record tells them; a ValueError if they are none."""
    condition = next(c for c in program.region if isinstance(c, LeafSums))
    require_separable(program)
    proofs = []
    for each in told:
        entries = [each[name] for name in ("kind", "what", "where", "left")]
        whole = all(type(v) is int and v >= 0 for entry in entries for v in entry)
        if not whole or len({len(entry) for entry in entries}) != 1 or len(each) != 6:
            raise ValueError("the nodes of a tree are whole numbers, as many of each sort")
        proofs.append(Proof(*entries, *(_bound(each[name]) for name in ("bound", "leading"))))
    return ProofTrees(program, condition, cases, proofs)


def _bound(told: float | str) -> float:
    """A bound as a record tells it; NaN is none."""
    bound = float(told)
    if not bound >= 0.0:
        raise ValueError("a bound is a number of at least 0")
    return bound
