"""Proofs by boxes of cells that cover what is possible, each closed for a reason.

Whoever checks them bounds all closed boxes anew with `RowCosts`, many at once: neither in the order
of the search that found them, nor with its bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from counterpoint.errors import NoSolver
from counterpoint.families.trees.boxes import CellBoxes, RowCosts
from counterpoint.families.trees.form import LeafSums, Order
from counterpoint.families.trees.grid import Grid
from counterpoint.families.trees.relations import Relations, without_trees
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs.evidence import Bounding, Kept, kept_size
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases
from counterpoint.solvers.branch_and_bound import pick, stacked

__all__ = ["EXACT", "BoxProof", "BoxProofs", "evidence_of", "needed", "refuted", "require_rows"]

TESTS = 1 << 22
"""Tests of leaves times boxes that are checked together: 32 MiB of each of some arrays."""
TOGETHER = 64
"""Boxes that are checked together: they share the leaves of the box around them."""
CLOSED, EXACT = 0, 3
"""Kinds of nodes that are not split: a box that holds nothing cheaper than the bound; one whose
best leaves do not meet the demands when their values are added up without rounding."""


@final
@dataclass(frozen=True, eq=False)
class BoxProof:
    """Boxes that cover what is possible for one row, a node each; the root comes first."""

    kind: list[int]
    what: list[int]  # of a split
    where: list[int]
    first: list[int]  # the nodes of its two parts
    second: list[int]
    multipliers: list[list[float]]  # of linear relations, for boxes that are not split
    bound: float  # no point that meets the demands costs less

    @classmethod
    def alone(cls, size: int, bound: float) -> BoxProof:
        """Return one box that proves a bound by itself."""
        return cls([CLOSED], [0], [0], [0], [0], [[0.0] * size], bound)

    def closed(self, grid: Grid, root: CellBoxes) -> tuple[CellBoxes, IntArray] | None:
        """Return the boxes that are not split, near ones together, and their nodes.

        None if the nodes are no tree.
        """
        splits = np.array([self.kind, self.what, self.where]).T
        children = np.array([self.first, self.second]).T
        split = (splits[:, 0] != CLOSED) & (splits[:, 0] != EXACT)
        inner, nodes = np.flatnonzero(split), np.arange(len(split))
        # parts come after the whole, and no two boxes share one
        later = (children[inner] > inner[:, None]) & (children[inner] < len(split))
        apart = len(np.unique(children[inner])) == children[inner].size
        if not (later.all() and apart and grid.has(splits[inner])):
            return None
        size, place = np.ones_like(nodes), np.zeros_like(nodes)
        for k in inner[::-1].tolist():
            size[k] = size[children[k]].sum()
        for k in inner.tolist():
            place[children[k]] = place[k] + np.array([0, size[children[k, 0]]])
        at, boxes, ends = nodes[:1], root, []
        while len(at):
            open_ = split[at]
            ends.append((at[~open_], pick(boxes, ~open_)))
            at = at[open_]
            boxes = stacked(pick(boxes, open_).halves(grid, splits[at]))
            at = children[at].T.ravel()
        which = np.concatenate([end for end, _ in ends])
        order = np.argsort(place[which])
        return pick(stacked([end for _, end in ends]), order), which[order]


@final
@dataclass(frozen=True, eq=False)
class BoxProofs(Bounding):
    """Proofs for rows and one set of demands, checked anew whenever a bound is asked for."""

    program: Program
    condition: LeafSums
    cases: Cases
    proofs: Sequence[BoxProof]
    reported: FloatArray  # (n,) bounds that rest on the word of a solver; 0 for none

    @property
    def is_local(self) -> bool:
        return False

    @property
    def kept(self) -> Kept:
        return Kept(
            np.zeros((len(self.proofs), kept_size(self.program))), family_proofs=self.proofs
        )

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the bounds (n,) of the proofs that hold, 0 for the others."""
        out, form = np.zeros(len(self.proofs)), self.condition.form
        for i, (case, proof) in enumerate(zip(self.cases, self.proofs, strict=True)):
            needs = needed(self.condition, np.zeros(2) if margin is None else margin[i])
            row = RowCosts(form.grid(self.program.domain.groups, case.x[0]), self.program, case)
            if _holds(proof, row, self.condition, needs):
                out[i] = proof.bound
        return out, np.maximum(out, self.reported)


def _holds(proof: BoxProof, row: RowCosts, condition: LeafSums, needs: FloatArray) -> bool:
    """Return whether no point that meets the demands by what it needs costs less than the bound."""
    if row.root is None:
        return True
    grid, size = row.grid, row.program.size
    closed = proof.closed(grid, row.root)
    if closed is None:
        return False
    boxes, nodes = closed
    vectors = [proof.multipliers[node] for node in nodes.tolist()]
    if {len(vector) for vector in vectors} != {size} or not np.isfinite(vectors).all():
        return False
    values, shift = condition.weights @ grid.values.T, condition.shift + condition.tolerance - needs
    relations = Relations(row, without_trees(row.program)) if size else None
    for multipliers, chunk in _chunks(np.array(vectors), max(1, TESTS // max(grid.pad, 1))):
        rows = [row, row.charging(multipliers)][not multipliers.any() :]
        for k, leaves in _open(rows, pick(boxes, chunk), values, shift, proof.bound):
            exact = proof.kind[nodes[chunk[k]]] == EXACT and refuted(condition, grid, leaves)
            box = pick(boxes, chunk[k : k + 1])
            if not exact and (relations is None or relations.bound(box, multipliers) < proof.bound):
                return False
    return True


def _chunks(vectors: FloatArray, most: int) -> Iterator[tuple[FloatArray, IntArray]]:
    """Yield multipliers and a few of the boxes that they are of."""
    unique, alike = np.zeros((1, 0)), np.zeros(len(vectors), dtype=np.intp)
    if vectors.size:
        unique, alike = np.unique(vectors, axis=0, return_inverse=True)
    together = min(TOGETHER, most)
    for kind, multipliers in enumerate(unique):
        same = np.flatnonzero(alike.ravel() == kind)
        for begin in range(0, len(same), together):
            yield multipliers, same[begin : begin + together]


def _open(
    rows: Sequence[RowCosts],
    boxes: CellBoxes,
    values: FloatArray,
    shift: FloatArray,
    bound: float,
) -> Iterator[tuple[int, IntArray]]:
    """Yield the boxes that leaves do not close, and their leaves below a bound.

    By what each of some rows is charged, with multipliers of relations and without.
    """
    grid, leaves = rows[0].grid, np.arange(len(rows[0].grid.tests))
    if len(boxes.low) > 1:
        leaves = leaves[_cheaper(rows, boxes.hull, leaves, bound)[:, 0]]
    begin = np.searchsorted(leaves, grid.tree)
    if (np.diff(begin, append=len(leaves)) == 0).any():
        return  # a tree has no leaf here
    near = _cheaper(rows, boxes, leaves, bound)
    reaches = np.ones(near.shape[1], dtype=bool)
    for value, offset in zip(values[:, leaves], shift, strict=True):
        top = np.maximum.reduceat(np.where(near, value[:, None], -np.inf), begin)
        reaches &= top.sum(axis=0) + offset >= 0.0
    for k in np.flatnonzero(reaches).tolist():
        yield k, leaves[near[:, k]]


def _cheaper(
    rows: Sequence[RowCosts], boxes: CellBoxes, leaves: IntArray, bound: float
) -> BoolArray:
    """Return whether leaves meet boxes below a bound, (A, n), as each of some rows is charged."""
    grid, near = rows[0].grid, np.ones((len(leaves), len(boxes.low)), dtype=bool)
    tests = grid.tests[leaves]
    tested = np.zeros(grid.pad + 1, dtype=bool)
    tested[tests] = True
    at, ends = (np.cumsum(tested) - 1)[tests].ravel(), np.arange(0, tests.size + 1, tests.shape[1])
    for row in rows:
        costs = row.costs(boxes)
        extra, changes = row.test_costs(costs, np.flatnonzero(tested))
        adds = sparse.csr_array((np.ones(tests.size), at, ends), (len(tests), len(extra)))
        near &= adds @ extra + costs.base < bound
        if changes is not None:
            near &= adds @ changes <= costs.changes_left
    return near


def refuted(condition: LeafSums, grid: Grid, leaves: IntArray) -> bool:
    """Return whether the model's own sums over the best of a box's leaves miss a demand.

    That is known where nothing is rounded but the last division, for all values are binary
    fractions; and of sums that are added up tree by tree, for no larger term makes a rounded sum
    smaller. What other sums come to, within their rounding, is up to the model.
    """
    form, weights, values = condition.form, condition.weights, grid.undivided[leaves]
    begin, gains = np.searchsorted(leaves, grid.tree), weights @ values.T
    top = np.maximum.reduceat(gains, begin, axis=1)
    if not condition.ties_resolved or (form.order is Order.OWN and not condition.slack):
        return False
    if form.sums_exactly(values):
        sums = (top.sum(axis=1) + weights @ form.base) / form.divisor
    elif form.order is not Order.ANY or condition.slack:
        # with any other leaf a sum is below 0 by more than rounding, if the best is near it
        error = 2.0 * form.divisor * condition.tolerance[:, None]
        near = gains >= top.repeat(np.diff([*begin, len(leaves)]), axis=1) - error
        low = np.minimum.reduceat(np.where(near[:, :, None], values, np.inf), begin, axis=1)
        high = np.maximum.reduceat(np.where(near[:, :, None], values, -np.inf), begin, axis=1)
        best = np.where(weights[:, None] > 0.0, high, low)
        sums = (weights * form.added(best)).sum(axis=1)
    else:
        return False
    sums = sums + condition.offset
    beyond = condition.tolerance if condition.slack else form.link_error
    return bool(np.where(condition.strict, sums <= 0.0, sums < -beyond).any())


def needed(condition: LeafSums, margin: FloatArray) -> FloatArray:
    """Return by how much (r,) each demand is to be met, for a margin as of `Cases`."""
    return np.asarray(margin[0] + np.where(condition.strict, margin[1], 0.0))


def require_rows(program: Program) -> None:
    """Raise `NoSolver` for conditions and costs that tie columns together beside the trees."""
    full = program.encoded_cost.quadratic.ndim == 2
    if full or program.couplings:
        what = "a full Mahalanobis cost" if full else "relations that are not linear"
        raise NoSolver(
            f"Trees cannot be searched with {what}. Use a cost of one feature at a time, and "
            "constraints of one feature at a time or Linear."
        )


def evidence_of(
    condition: LeafSums, program: Program, cases: Cases, records: Sequence[dict[str, Any]]
) -> BoxProofs:
    """Read the proof of each row from its record; raise a ValueError if one is malformed.

    Whether the proofs hold is checked later, whenever a bound is asked for.
    """
    require_rows(program)
    proofs = []
    for record in records:
        nodes = [record[name] for name in ("kind", "what", "where", "first", "second")]
        are_whole = all(type(v) is int and v >= 0 for values in nodes for v in values)
        lengths = {len(values) for values in (*nodes, record["multipliers"])}
        # The five lists of the nodes, their multipliers and the bound, and nothing else.
        if not are_whole or len(lengths) != 1 or len(record) != 7:
            raise ValueError("the nodes of a tree are whole numbers, as many of each sort")
        multipliers = [[float(value) for value in vector] for vector in record["multipliers"]]
        bound = float(record["bound"])
        if not bound >= 0.0:
            raise ValueError("a bound is a number of at least 0")
        kind, what, where, first, second = nodes
        proofs.append(BoxProof(kind, what, where, first, second, multipliers, bound))
    return BoxProofs(program, condition, cases, proofs, np.zeros(len(cases)))
