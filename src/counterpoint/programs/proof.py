"""Proof trees: what a branch and bound did, so that anyone can check it without a solver.

A tree parts the domain of a row by *splits*, of which each leaves out nothing; multipliers bound
the cost in each leaf by weak duality (`Program.bound`). So no point costs less than the least bound
of a leaf, and where all leaves are refuted, there is no point. What is not worth searching, because
multipliers of a node exclude it, is a leaf with these multipliers.

Nothing in a tree is believed: boxes are made from the domain by its splits, and every bound is
recomputed, rounding included. Other splits or multipliers are another proof, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs.region import Cases
from counterpoint.rows import lattice

if TYPE_CHECKING:
    from counterpoint.programs.program import Program

__all__ = [
    "CHANGE",
    "LEAF",
    "NUMBER",
    "OLD",
    "SET",
    "ProofTrees",
    "Splits",
    "least_of_leaves",
    "node_size",
    "pick",
    "proved",
    "put",
    "stacked",
]

LEAF, NUMBER, SET, CHANGE = 0, 1, 2, 3
"""How nodes are split: a number up to a value, or beyond it; a category among some of its group, or
among the others; a feature that stays, or one that counts as changed."""
TOGETHER = 2048
"""Leaves that are bounded at once: their arrays stay in a processor's cache, 1.3 times as fast."""
OLD = "its proof is of an older version; answer the row again, and make a record of that"
Boxes = TypeVar("Boxes", bound=tuple[Any, ...])
"""A named tuple of arrays with one entry for each box."""


def node_size(program: Program) -> int:
    """How many numbers bound a leaf, see `ProofTrees.multipliers`."""
    return program.size + (program.encoded_cost.quadratic.ndim == 2) * program.width


@final
class Splits(NamedTuple):
    """How nodes are split."""

    kind: IntArray  # (N,)
    what: IntArray  # (N,) the column, of a group or a feature its first
    where: FloatArray  # (N,) the value of a number
    options: BoolArray  # (N, columns of groups) the categories of the first child


@final
class ProofTrees(NamedTuple):
    """The trees of R rows, N nodes in all, level by level: the roots come first.

    The children of the first node that is split are the first two of the next level, and so on.
    """

    row: IntArray  # (R,) whose trees they are
    bound: FloatArray  # (R,) in cost units, what they claim; infinite where there is no point
    kind: IntArray  # of N nodes, see `Splits`
    what: IntArray
    where: FloatArray
    options: BoolArray
    # (N, size) of leaves, any; of a full quadratic cost (N, size + d), with points whose tangents
    # bound it
    multipliers: FloatArray

    @property
    def splits(self) -> Splits:
        """How nodes are split."""
        return Splits(self.kind, self.what, self.where, self.options)

    def levels(self) -> list[IntArray]:
        """Return the tree of each node by level; raise a ValueError if these are no trees."""
        tree, levels, size = np.arange(len(self.row)), list[IntArray](), 0
        while len(tree):
            kind = self.kind[size : size + len(tree)]
            if len(kind) < len(tree):
                break
            levels.append(tree)
            size += len(tree)
            tree = np.repeat(tree[kind != LEAF], 2)
        if len(tree) or size != len(self.kind):
            raise ValueError("the nodes of a tree do not fit together")
        return levels

    def take(self, rows: IntArray) -> ProofTrees:
        """Return the trees of some rows, which are numbered anew."""
        place = np.full(max(self.row.max(initial=-1), rows.max(initial=-1)) + 1, -1)
        place[rows] = np.arange(len(rows))
        trees = place[self.row] >= 0
        nodes = trees[np.concatenate([self.row[:0], *self.levels()])]
        values: Any = (array[nodes] for array in self[2:])
        return ProofTrees(place[self.row[trees]], self.bound[trees], *values)

    def each(self) -> Iterator[tuple[int, ProofTrees]]:
        """Yield each row with its tree."""
        tree = np.concatenate([self.row[:0], *self.levels()])
        order = np.argsort(tree, kind="stable")
        ends = np.cumsum(np.bincount(tree, minlength=len(self.row)))[:-1]
        for k, nodes in enumerate(np.split(order, ends) if len(self.row) else ()):
            values: Any = (array[nodes] for array in self[2:])
            yield int(self.row[k]), ProofTrees(np.zeros(1, np.intp), self.bound[[k]], *values)

    @classmethod
    def joined(cls, batches: Sequence[ProofTrees]) -> ProofTrees:
        """Return the trees of several batches of other rows."""
        sizes = [[*map(len, trees.levels())] for trees in batches]
        depth = np.concatenate([np.repeat(np.arange(len(size)), size) for size in sizes])
        order = np.argsort(depth, kind="stable")
        row, bound, *nodes = map(np.concatenate, zip(*batches, strict=True))
        return cls._make([row, bound, *(array[order] for array in nodes)])


def least_of_leaves(
    trees: ProofTrees,
    boxes: Boxes,
    halves: Callable[[Boxes, IntArray], tuple[Boxes, Boxes]],
    bounds: Callable[[Boxes, IntArray, IntArray], FloatArray],
) -> FloatArray:
    """Return what trees prove, (R,): the least bound of a leaf, and no more than they claim.

    ``boxes`` are the domains, of which those of leaves are made. ``halves`` parts boxes as their
    nodes say; it raises a ValueError for what is no split. ``bounds`` are those of leaves, of which
    it is told the boxes, the nodes and the trees. Neighbours come one after the other.
    """
    start, place, leaves = 0, np.zeros(len(trees.row)), []
    for depth, tree in enumerate(trees.levels(), 1):
        nodes = np.arange(start, start + len(tree))
        is_leaf, start = trees.kind[nodes] == LEAF, start + len(tree)
        leaves.append((pick(boxes, is_leaf), nodes[is_leaf], tree[is_leaf], place[is_leaf]))
        both = stacked(halves(pick(boxes, ~is_leaf), nodes[~is_leaf]))
        boxes = pick(both, np.arange(2 * (~is_leaf).sum()).reshape(2, -1).T.ravel())
        place = np.repeat(place[~is_leaf], 2)
        place[1::2] += 0.5**depth
    least = np.array(trees.bound)
    if leaves:
        boxes = stacked([level[0] for level in leaves])
        nodes, tree, place = (np.concatenate([level[i] for level in leaves]) for i in (1, 2, 3))
        order = np.lexsort((place, tree))
        nodes, tree = nodes[order], tree[order]
        np.minimum.at(least, tree, bounds(pick(boxes, order), nodes, tree))
    return np.where(np.isnan(least), 0.0, np.maximum(least, 0.0))


@final
class DomainBoxes(NamedTuple):
    """Boxes of the domains of rows."""

    x: FloatArray  # (m, d)
    low: FloatArray
    high: FloatArray
    forced: BoolArray  # (m, d): features that count as changed, by their first columns


def proved(program: Program, cases: Cases, trees: ProofTrees) -> FloatArray:
    """Return what every point of a row costs at least, (n,), by its tree; 0 if it has none.

    Infinite where no point exists. The margins of the cases have no part in it. Raise a ValueError
    if there is no such tree.
    """
    out, row = np.zeros(len(cases)), trees.row
    none = np.zeros((len(row), program.width), dtype=bool)
    roots = DomainBoxes(cases.x[row], cases.low[row], cases.high[row], none)
    trees = trees._replace(
        multipliers=np.where(np.isfinite(trees.multipliers), trees.multipliers, 0.0)
    )

    def bounds(boxes: DomainBoxes, nodes: IntArray, tree: IntArray) -> FloatArray:
        forced = boxes.forced if boxes.forced.any() else None
        leaves = replace(cases.take(row[tree]), low=boxes.low, high=boxes.high, forced=forced)
        bound = np.array(trees.bound[tree])
        for start in range(0, len(nodes), TOGETHER):
            chunk = slice(start, start + TOGETHER)
            multipliers = trees.multipliers[nodes[chunk]]
            bound[chunk] = _bound(program, leaves.take(chunk), multipliers, bound[chunk])
        return bound

    with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond all bounds prove nothing
        of_nodes = cases.x[row[np.concatenate([*trees.levels(), row[:0]])]]
        halves = _halving(program, of_nodes, trees.splits)
        np.maximum.at(out, row, least_of_leaves(trees, roots, halves, bounds))
    return out


def _bound(
    program: Program, leaves: Cases, multipliers: FloatArray, enough: FloatArray
) -> FloatArray:
    """Return the bounds of boxes, (m,); infinite if refuted, which is tried where one is short."""
    leaves = _exhausted(program, leaves)
    multipliers, at = np.split(multipliers, [program.size], axis=1)
    bound = program.bound(leaves, multipliers, at if at.size else None)
    short = np.flatnonzero(bound < enough)
    refuted = program.refutes(leaves.take(short), multipliers[short])
    bound[short[refuted]] = np.inf
    return bound


def _exhausted(program: Program, boxes: Cases) -> Cases:
    """Return boxes in which the others stay where as many features must change as may."""
    if program.domain.at_most is None or boxes.forced is None:
        return boxes
    must = program.domain.must_change(boxes)
    full = must[:, [block.start for block in program.domain.at_most.blocks]].sum(axis=1)
    still = np.zeros(must.shape, dtype=bool)
    for block in program.domain.at_most.blocks:
        still[:, block] = ((full >= program.domain.at_most.count) & ~must[:, block.start])[:, None]
    return boxes.holding(still, boxes.x)


def _halving(
    program: Program, x: FloatArray, splits: Splits
) -> Callable[[DomainBoxes, IntArray], tuple[DomainBoxes, DomainBoxes]]:
    """Return what parts the boxes of nodes in two, which together hold all of their points.

    All that does not depend on the boxes is done for all nodes at once; (N, d) x are their rows.
    """
    kind, what, value, options = splits
    domain, leaf = program.domain, kind == LEAF
    blocks = () if domain.at_most is None else domain.at_most.blocks
    fits = (what >= 0) & (what < program.width)
    what = np.where(fits, what, 0)
    fits &= np.isin(kind, (NUMBER, SET, CHANGE))
    fits &= (kind != NUMBER) | (domain.numeric[what] & np.isfinite(value))
    fits &= (kind != SET) | ~domain.numeric[what]
    fits &= (kind != CHANGE) | np.isin(what, [block.start for block in blocks])
    if not (fits | leaf).all():
        raise ValueError("a node of a tree is split in no way that there is")
    step, from_x = domain.steps[what], x[np.arange(len(what)), what]
    unit = np.where(step > 0.0, step, 1.0)
    whole = lattice.number(from_x, lattice.last(from_x, value, unit) + 1.0, unit)
    after = np.where(step > 0.0, whole, np.nextafter(value, np.inf))
    sets = kind == SET
    closed = np.zeros((2, *(x.shape if sets.any() else (len(x), 0))), dtype=bool)
    grouped = np.flatnonzero(~domain.numeric)
    for group in domain.groups if sets.any() else ():
        nodes = np.flatnonzero(sets & (what >= group.start) & (what < group.stop))
        inside = options[nodes][:, (grouped >= group.start) & (grouped < group.stop)]
        closed[0, nodes, group], closed[1, nodes, group] = ~inside, inside

    def halves(boxes: DomainBoxes, nodes: IntArray) -> tuple[DomainBoxes, DomainBoxes]:
        first = boxes._replace(high=np.array(boxes.high))
        second = boxes._replace(low=np.array(boxes.low), high=np.array(boxes.high))
        kinds = kind[nodes]
        numbers, changes = np.flatnonzero(kinds == NUMBER), np.flatnonzero(kinds == CHANGE)
        if len(numbers):
            at = what[nodes[numbers]]
            ends = value[nodes[numbers]], after[nodes[numbers]]
            first.high[numbers, at] = np.minimum(first.high[numbers, at], ends[0])
            second.low[numbers, at] = np.maximum(second.low[numbers, at], ends[1])
        if closed.size:
            first.high[closed[0, nodes]] = 0.0
            second.high[closed[1, nodes]] = 0.0
        if len(changes):
            first = first._replace(low=np.array(first.low))
            second = second._replace(forced=np.array(second.forced))
        for block in blocks if len(changes) else ():
            rows = changes[what[nodes[changes]] == block.start]
            first.low[rows, block] = np.maximum(first.low[rows, block], boxes.x[rows, block])
            first.high[rows, block] = np.minimum(first.high[rows, block], boxes.x[rows, block])
            second.forced[rows, block.start] = True
        return first, second

    return halves


def pick(nodes: Any, index: Any) -> Any:
    """Return some entries of all arrays of a named tuple; copies of them, by their numbers."""
    return nodes._make([pick(v, index) if isinstance(v, tuple) else v[index] for v in nodes])


def put(nodes: Any, index: Any, values: Any) -> None:
    """Write entries of all arrays of a named tuple, in place."""
    for array, value in zip(nodes, values, strict=True):
        if isinstance(array, tuple):
            put(array, index, value)
        else:
            array[index] = value


def stacked(batches: Any) -> Any:
    """Return named tuples of one type as one, their entries one after the other."""
    if len(batches) == 1:
        return batches[0]
    return batches[0]._make(
        stacked(arrays) if isinstance(arrays[0], tuple) else np.concatenate(arrays)
        for arrays in zip(*batches, strict=True)
    )
