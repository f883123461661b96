"""Proof trees: what a branch and bound did, so that anyone can check it without a solver.

A tree parts the domain of a row by *splits*, of which each leaves out nothing; multipliers bound
the cost in each leaf by weak duality (`Program.bound`). So no point costs less than the least bound
of a leaf, and where all leaves are refuted, there is no point. What is not worth searching, because
multipliers of a node exclude it, is a leaf with these multipliers.

Nothing in a tree is believed: boxes are made from the domain by its splits, and every bound is
recomputed, rounding included. Other splits or multipliers are another proof, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice

if TYPE_CHECKING:
    from counterpoint.programs.program import Program

LEAF, NUMBER, SET, CHANGE = 0, 1, 2, 3
"""How nodes are split: a number up to a value, or beyond it; a category among some of its group, or
among the others; a feature that stays, or one that counts as changed."""
TOGETHER = 2048
"""Leaves that are bounded at once: their arrays stay in a processor's cache, 1.3 times as fast."""
OLD = "its proof is of an older version; answer the row again, and make a record of that"
Levels = list[tuple[slice, IntArray]]
"""The nodes of each level below the roots, and their parents."""


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

    def levels(self) -> Levels:
        """Return the levels below the roots; raise a ValueError if these are no trees."""
        inner = np.flatnonzero(self.kind != LEAF)
        parent = np.append(np.zeros(len(self.row), np.intp), np.repeat(inner, 2))
        nodes, end = np.arange(len(parent)), len(self.row)
        if len(parent) != len(self.kind) or (parent[end:] >= nodes[end:]).any():
            raise ValueError("the nodes of a tree do not fit together")
        levels: Levels = []
        while end < len(parent):
            level = slice(end, len(self.row) + 2 * int(np.searchsorted(inner, end)))
            levels.append((level, parent[level]))
            end = level.stop
        return levels

    @property
    def depth(self) -> IntArray:
        """The level of each node, (N,); 0 for roots."""
        below = np.arange(len(self.kind)) >= len(self.row)
        return inherited(self.levels(), np.add, below.astype(np.intp))

    @property
    def tree(self) -> IntArray:
        """The tree of each node, (N,), as a number of those in ``row``."""
        tree = np.zeros(len(self.kind), dtype=np.intp)
        tree[: len(self.row)] = np.arange(len(self.row))
        return inherited(self.levels(), np.add, tree)

    def take(self, rows: IntArray) -> ProofTrees:
        """Return the trees of some rows, which are numbered anew."""
        place = np.full(max(self.row.max(initial=-1), rows.max(initial=-1)) + 1, -1)
        place[rows] = np.arange(len(rows))
        trees = place[self.row] >= 0
        nodes = trees[self.tree]
        values: Any = (array[nodes] for array in self[2:])
        return ProofTrees(place[self.row[trees]], self.bound[trees], *values)

    def each(self) -> Iterator[tuple[int, ProofTrees]]:
        """Yield each row with its tree."""
        tree = self.tree
        order = np.argsort(tree, kind="stable")
        ends = np.cumsum(np.bincount(tree, minlength=len(self.row)))[:-1]
        for k, nodes in enumerate(np.split(order, ends) if len(self.row) else ()):
            values: Any = (array[nodes] for array in self[2:])
            yield int(self.row[k]), ProofTrees(np.zeros(1, np.intp), self.bound[[k]], *values)

    @classmethod
    def joined(cls, batches: Sequence[ProofTrees]) -> ProofTrees:
        """Return the trees of several batches of other rows."""
        order = np.argsort(np.concatenate([trees.depth for trees in batches]), kind="stable")
        row, bound, *nodes = map(np.concatenate, zip(*batches, strict=True))
        return cls._make([row, bound, *(array[order] for array in nodes)])


def inherited(levels: Levels, combine: np.ufunc, values: Any) -> Any:
    """Return what each node has by its own values (N, …) and those of the nodes above it."""
    out = np.array(values)
    for level, parent in levels:
        combine(out[level], out[parent], out=out[level])
    return out


def proved(program: Program, cases: Batch, trees: ProofTrees) -> FloatArray:
    """Return what every point of a row costs at least, (n,), by its tree; 0 if it has none.

    Infinite where no point exists. The margins of the cases have no part in it. Raise a ValueError
    if there is no such tree.
    """
    out, row, least = np.zeros(len(cases)), trees.row, np.array(trees.bound)
    trees = trees._replace(
        multipliers=np.where(np.isfinite(trees.multipliers), trees.multipliers, 0.0)
    )
    with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond all bounds prove nothing
        tree = trees.tree
        low, high, forced = boxes(program, cases.take(row), tree, trees)
        is_leaf = np.flatnonzero(trees.kind == LEAF)
        for start in range(0, len(is_leaf), TOGETHER):
            nodes = is_leaf[start : start + TOGETHER]
            leaves = replace(cases.take(row[tree[nodes]]), low=low[nodes], high=high[nodes])
            if forced.any():
                leaves = _exhausted(program, replace(leaves, forced=forced[nodes]))
            enough = trees.bound[tree[nodes]]
            bound = _bound(program, leaves, trees.multipliers[nodes], enough)
            np.minimum.at(least, tree[nodes], bound)
    least = np.where(np.isnan(least), 0.0, np.maximum(least, 0.0))
    np.maximum.at(out, row, least)
    return out


def _bound(
    program: Program, leaves: Batch, multipliers: FloatArray, enough: FloatArray
) -> FloatArray:
    """Return the bounds of boxes, (m,); infinite if refuted, which is tried where one is short."""
    multipliers, at = np.split(multipliers, [program.size], axis=1)
    bound = program.bound(leaves, multipliers, at if at.size else None)
    short = np.flatnonzero(bound < enough)
    refuted = program.refutes(leaves.take(short), multipliers[short])
    bound[short[refuted]] = np.inf
    return bound


def _exhausted(program: Program, leaves: Batch) -> Batch:
    """Return boxes in which the others stay where as many features must change as may."""
    at_most = program.domain.at_most
    if at_most is None:
        return leaves
    must = program.domain.must_change(leaves)
    full = must[:, [block.start for block in at_most.blocks]].sum(axis=1) >= at_most.count
    still = np.zeros(must.shape, dtype=bool)
    for block in at_most.blocks:
        still[:, block] = (full & ~must[:, block.start])[:, None]
    return leaves.holding(still, leaves.x)


def boxes(
    program: Program, cases: Batch, tree: IntArray, trees: ProofTrees
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the bounds (N, d) of the boxes of nodes, and which features count as changed in them.

    The boxes of a node's children together hold all of its points. ``cases`` are those of trees.
    """
    inner = np.flatnonzero(trees.kind != LEAF)
    kind, what, value, options = pick(trees.splits, inner)
    x, domain = cases.x[tree[inner]], program.domain
    blocks = () if domain.at_most is None else domain.at_most.blocks
    fits = (what >= 0) & (what < program.width)
    what = np.where(fits, what, 0)
    number, category, change = (kind == name for name in (NUMBER, SET, CHANGE))
    can_change = np.isin(what, [block.start for block in blocks])
    fits &= ~number | (domain.numeric[what] & np.isfinite(value))
    fits &= ~category | ~domain.numeric[what]
    if not (fits & (number | category | (change & can_change))).all():
        raise ValueError("a node of a tree is split in no way that there is")
    low, high = np.full((2, len(tree), program.width), [[[-np.inf]], [[np.inf]]])
    forced = np.zeros((len(tree), program.width if blocks else 0), dtype=bool)
    low[: len(cases)], high[: len(cases)] = cases.low, cases.high
    first = len(cases) + 2 * np.arange(len(inner))  # the first children
    step, from_x = domain.steps[what], x[np.arange(len(what)), what]
    unit = np.where(step > 0.0, step, 1.0)
    whole = lattice.number(from_x, lattice.last(from_x, value, unit) + 1.0, unit)
    after = np.where(step > 0.0, whole, np.nextafter(value, np.inf))
    high[first[number], what[number]] = value[number]
    low[first[number] + 1, what[number]] = after[number]
    grouped = np.flatnonzero(~domain.numeric)
    for group in domain.groups if category.any() else ():
        nodes = np.flatnonzero(category & (what >= group.start) & (what < group.stop))
        inside = options[nodes][:, (grouped >= group.start) & (grouped < group.stop)]
        high[first[nodes], group] = np.where(inside, np.inf, 0.0)
        high[first[nodes] + 1, group] = np.where(inside, 0.0, np.inf)
    for block in blocks if change.any() else ():
        nodes = np.flatnonzero(change & (what == block.start))
        low[first[nodes], block] = high[first[nodes], block] = x[nodes, block]
        forced[first[nodes] + 1, block.start] = True
    levels = trees.levels()
    low, high = inherited(levels, np.maximum, low), inherited(levels, np.minimum, high)
    return low, high, inherited(levels, np.logical_or, forced)


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
