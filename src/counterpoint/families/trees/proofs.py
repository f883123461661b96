"""What a search leaves behind: boxes that cover what is possible, and why each is closed.

Whoever checks them computes the staircase anew in all closed boxes at once, with arrays: neither
with the loops that may have found them nor in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from counterpoint.errors import NoSolver
from counterpoint.families.trees.boxes import Boxes, Row
from counterpoint.families.trees.form import LeafSums, Order
from counterpoint.families.trees.grid import Grid, Split
from counterpoint.families.trees.relations import Relations, without_trees
from counterpoint.families.trees.relaxation import Demands, Literals
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs.evidence import Bounding, Kept
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases

__all__ = ["EXACT", "Proof", "ProofTrees", "evidence_of", "needed", "refuted", "require_rows"]

TESTS = 1 << 22
"""Tests of leaves times boxes that are checked together: 32 MiB of each of some arrays."""
LEAF, EXACT = 0, 3
"""What a node of a proof is that is not split: a box that holds nothing cheaper than the bound, by
the staircase; one in which the best leaves do not meet the demands when their values are added up
without rounding."""


@final
@dataclass(eq=False)
class Proof:
    """Boxes that cover what is possible, for one row."""

    kind: list[int]
    what: list[int]  # of a split
    where: list[int]
    left: list[int]  # the first of its two parts; the other is the next
    # multipliers of linear relations, then prices by which a linear relaxation closes a box, if any
    prices: list[list[float]]
    bound: float  # no point that meets the demands costs less
    leading: float  # nor does any that leads by what was needed, which may be more

    @classmethod
    def begun(cls) -> Proof:
        """One box."""
        return cls([LEAF], [0], [0], [0], [[]], np.inf, np.inf)

    def split(self, node: int, split: Split) -> tuple[int, int]:
        """Split a box; the places of its parts."""
        self.kind[node], self.what[node], self.where[node] = split
        self.left[node] = place = len(self.kind)
        for entries in (self.kind, self.what, self.where, self.left):
            entries += [0, 0]
        self.prices += [[], []]
        return place, place + 1

    def cut(self, node: int, size: int) -> None:
        """Take back that a box was split, when there were so many."""
        for entries in (self.kind, self.what, self.where, self.left, self.prices):
            del entries[size:]
        self.kind[node] = LEAF

    def closed(self, grid: Grid, root: Boxes) -> tuple[Boxes, IntArray] | None:
        """The boxes that are not split, near ones together, and which nodes they are.

        None if the nodes are no tree.
        """
        nodes = np.array([self.kind, self.what, self.where, self.left])
        split = (nodes[0] != LEAF) & (nodes[0] != EXACT)
        inner, left = np.flatnonzero(split), nodes[3, split]
        # parts come after the whole, and no two boxes share one
        later = (left > inner) & (left + 1 < len(split))
        apart = np.diff(np.sort(left)) > 1
        if not (later.all() and apart.all() and grid.has(nodes[:3, inner].T)):
            return None
        size, place = np.ones(len(split), dtype=np.intp), np.zeros(len(split), dtype=np.intp)
        for k in range(len(inner) - 1, -1, -1):
            size[inner[k]] = size[left[k]] + size[left[k] + 1]
        for k in range(len(inner)):
            place[left[k]] = place[inner[k]]
            place[left[k] + 1] = place[inner[k]] + size[left[k]]
        at, boxes, ends = np.zeros(1, dtype=np.intp), root, []
        while len(at):
            some = split[at]
            ends.append((at[~some], boxes[~some]))
            parts = nodes[3, at[some]]
            boxes = boxes[some].halves(grid, nodes[:3, at[some]].T)
            at = np.column_stack([parts, parts + 1]).ravel()
        which = np.concatenate([end for end, _ in ends])
        order = np.argsort(place[which])
        return Boxes.stacked([end for _, end in ends])[order], which[order]


@final
@dataclass(frozen=True, eq=False)
class ProofTrees(Bounding):
    """Proofs for rows and one set of demands, checked anew whenever a bound is asked for."""

    program: Program
    condition: LeafSums
    cases: Cases
    proofs: Sequence[Proof]
    reported: FloatArray  # (n,) bounds that rest on the word of a solver; 0 for none

    @property
    def is_local(self) -> bool:
        return False

    @property
    def kept(self) -> Kept:
        return Kept(np.zeros((len(self.proofs), self.program.kept_size)), own=self.proofs)

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the bounds of the proofs that hold, 0 for the others."""
        out, form = np.zeros(len(self.proofs)), self.condition.form
        for i, (case, proof) in enumerate(zip(self.cases, self.proofs, strict=True)):
            floor = 0.0 if margin is None else needed(self.condition, margin[i])
            bound = proof.bound if margin is None else proof.leading
            row = Row(form.grid(self.program.groups, case.x[0]), self.program, case)
            if _holds(proof, bound, row, self.condition, floor):
                out[i] = bound
        return out, np.maximum(out, self.reported)


def _holds(
    proof: Proof,
    bound: float,
    row: Row,
    condition: LeafSums,
    floor: FloatArray | float,
    together: int = 64,
) -> bool:
    """Whether no point that meets the demands by the ``floor`` costs less than a bound.

    So many boxes are checked ``together``: those that share the leaves of the box around them.
    """
    if row.root is None:
        return True
    grid, m = row.grid, row.program.size
    found = proof.closed(grid, row.root)
    if found is None:
        return False
    boxes, nodes = found
    together = max(1, min(together, TESTS // max(grid.pad, 1)))
    each = [proof.prices[node][:m] for node in nodes.tolist()] if m else [[]]
    if {len(some) for some in each} != {m} or not np.isfinite(each).all():
        return False
    shift = condition.shift + condition.tolerance - floor
    demands = Demands(condition.weights @ grid.values.T, shift)
    relations = Relations(row, without_trees(row.program)) if m else None
    kinds: FloatArray
    kinds, alike = np.unique(each, axis=0, return_inverse=True)
    for kind, multipliers in enumerate(kinds):
        rows = [row, row.charging(multipliers)][not multipliers.any() :]
        those = np.flatnonzero(alike.ravel() == kind) if m else np.arange(len(boxes))
        for part in (those[k : k + together] for k in range(0, len(those), together)):
            for k, leaves in _left(rows, boxes[part], demands, bound):
                node, box = nodes[part[k]], boxes[part[k : k + 1]]
                exact = proof.kind[node] == EXACT
                told = exact and refuted(condition, grid, leaves)
                known = rows[-1], box, leaves, proof.prices[node], demands, relations
                if not told and not _priced(*known) >= bound:
                    return False
    return True


def _priced(
    row: Row,
    box: Boxes,
    leaves: IntArray,
    prices: list[float],
    demands: Demands,
    relations: Relations | None,
) -> float:
    """What multipliers of relations, or prices besides, prove that a box costs; 0 for nothing."""
    m, bound = row.program.size, 0.0
    if relations is not None:
        bound = relations.bound(box, np.array(prices[:m]))
    if len(prices) > m:
        bound = max(bound, Literals(row, box, leaves).bound(demands, prices[m:]))
    return bound


def _left(
    rows: Sequence[Row], boxes: Boxes, demands: Demands, bound: float
) -> Iterator[tuple[int, IntArray]]:
    """The boxes that the staircase does not close, and their leaves at less than a bound.

    By what each of some rows is charged, with multipliers of relations and without.
    """
    grid, some = rows[0].grid, np.arange(len(rows[0].grid.tests))
    if len(boxes) > 1:
        some = some[_cheaper(rows, boxes.hull, some, bound)[:, 0]]
    begin = np.searchsorted(some, grid.tree)
    if (np.diff(begin, append=len(some)) == 0).any():
        return  # a tree has no leaf here
    near = _cheaper(rows, boxes, some, bound)
    left = np.ones(len(boxes), dtype=bool)
    for value, shift in zip(demands.values[:, some], demands.shift, strict=True):
        top = np.maximum.reduceat(np.where(near, value[:, None], -np.inf), begin)
        left &= top.sum(axis=0) + shift >= 0.0
    for k in np.flatnonzero(left).tolist():
        yield k, some[near[:, k]]


def _cheaper(rows: Sequence[Row], boxes: Boxes, leaves: IntArray, bound: float) -> BoolArray:
    """(A, n): whether leaves meet boxes at less than a bound, as each of some rows is charged."""
    grid, near = rows[0].grid, np.ones((len(leaves), len(boxes)), dtype=bool)
    tests = grid.tests[leaves]
    asked = np.zeros(grid.pad + 1, dtype=bool)
    asked[tests] = True
    at, ends = (np.cumsum(asked) - 1)[tests].ravel(), np.arange(0, tests.size + 1, tests.shape[1])
    for row in rows:
        known = row.costs(boxes)
        more, changes = row.asks(known, np.flatnonzero(asked))
        adds = sparse.csr_array((np.ones(tests.size), at, ends), (len(tests), len(more)))
        near &= adds @ more + known.base < bound
        if changes is not None:
            near &= adds @ changes <= known.left
    return near


def refuted(condition: LeafSums, grid: Grid, leaves: IntArray) -> bool:
    """Whether the model's own sums over the best of a box's leaves miss a demand.

    That is known where nothing is rounded but the last division, for all values are binary
    fractions; and of sums that are added up tree by tree, for no larger term makes a rounded sum
    smaller. What other sums come to, within their rounding, is up to the model.
    """
    form, weights, values = condition.form, condition.weights, grid.own[leaves]
    each, cost_cutoff = np.searchsorted(leaves, grid.tree), weights @ values.T
    top = np.maximum.reduceat(cost_cutoff, each, axis=1)
    if not condition.ties_resolved or (form.order is Order.OWN and not condition.slack):
        return False
    if form.sums_exactly(values):
        sums = (top.sum(axis=1) + weights @ form.base) / form.divisor
    elif form.order is not Order.ANY or condition.slack:
        # with any other leaf a sum is below 0 by more than rounding, if the best is near it
        off = 2.0 * form.divisor * condition.tolerance[:, None]
        near = cost_cutoff >= top.repeat(np.diff([*each, len(leaves)]), axis=1) - off
        low = np.minimum.reduceat(np.where(near[:, :, None], values, np.inf), each, axis=1)
        high = np.maximum.reduceat(np.where(near[:, :, None], values, -np.inf), each, axis=1)
        best = np.where(weights[:, None] > 0.0, high, low)
        sums = (weights * form.added(best)).sum(axis=1)
    else:
        return False
    sums = sums + condition.offset
    beyond = condition.tolerance if condition.slack else form.link_error
    return bool(np.where(condition.lost, sums <= 0.0, sums < -beyond).any())


def needed(condition: LeafSums, margin: FloatArray) -> FloatArray:
    """(r,) by how much each demand is to be met, for a margin as of `Cases`."""
    return np.asarray(margin[0] + np.where(condition.lost, margin[1], 0.0))


def require_rows(program: Program) -> None:
    """Raise `NoSolver` for what ties columns together beside the trees."""
    full = program.encoded_cost.quadratic.ndim == 2
    if full or program.nonlinear_and_objective_terms:
        what = "a full Mahalanobis cost" if full else "relations that are not linear"
        raise NoSolver(
            f"Trees cannot be searched with {what}. Use a cost of one feature at a time, and "
            "constraints of one feature at a time or Linear."
        )


def evidence_of(
    condition: LeafSums, program: Program, cases: Cases, told: Sequence[dict[str, Any]]
) -> ProofTrees:
    """Proofs as a record tells them; a ValueError if they are none."""
    require_rows(program)
    proofs = []
    for each in told:
        entries = [each[name] for name in ("kind", "what", "where", "left")]
        whole = all(type(v) is int and v >= 0 for entry in entries for v in entry)
        if not whole or len({len(entry) for entry in entries}) != 1 or len(each) != 7:
            raise ValueError("the nodes of a tree are whole numbers, as many of each sort")
        prices = [[float(encoded_cost) for encoded_cost in some] for some in each["prices"]]
        bounds = (_bound(each[name]) for name in ("bound", "leading"))
        kind, what, where, left = entries
        proofs.append(Proof(kind, what, where, left, prices, *bounds))
    return ProofTrees(program, condition, cases, proofs, np.zeros(len(cases)))


def _bound(told: float | str) -> float:
    """A bound as a record tells it; NaN is none."""
    bound = float(told)
    if not bound >= 0.0:
        raise ValueError("a bound is a number of at least 0")
    return bound
