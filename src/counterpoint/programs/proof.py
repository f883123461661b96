"""Proof trees: what a branch and bound did, so that anyone can check it without a solver.

A tree parts the domain of a row by *splits*, none of which leaves out a point; multipliers bound
the cost in each leaf by weak duality (`Program.bound`). So no point costs less than the least bound
of a leaf, and where all leaves are refuted, there is no point. A part that a search left out,
because multipliers of a node exclude it, is a leaf with these multipliers.

Nothing in a tree is believed: boxes are made from the domain by its splits, and every bound is
recomputed, rounding included. Other splits or multipliers are another proof, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from counterpoint.numerics import BLOCK, BoolArray, FloatArray, IntArray
from counterpoint.programs import arrays
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice

if TYPE_CHECKING:
    from counterpoint.programs.program import Program

OLD = "its proof is of an older version; answer the row again, and make a record of that"
Levels = list[tuple[slice, IntArray]]
"""The nodes of each level below the roots, and their parents."""


def node_size(program: Program) -> int:
    """How many numbers bound a leaf, see `ProofTrees.multipliers`."""
    return program.size + (program.encoded_cost.quadratic.ndim == 2) * program.width


@final
class SplitKind(IntEnum):
    """How a node is split in two; records hold the numbers."""

    LEAF = 0  # not at all
    NUMBER = 1  # the values of a number up to some value | those beyond it
    SET = 2  # some categories of a group | the others
    CHANGE = 3  # a feature stays | it counts as changed


@final
class Splits(NamedTuple):
    """How N nodes are split."""

    kind: IntArray  # (N,) of `SplitKind`
    column: IntArray  # (N,) the encoded column; of a group or a feature its first
    value: FloatArray  # (N,) of a number: the last value of the first child
    options: BoolArray  # (N, columns of groups) of a set: the categories of the first child


@final
class ProofTrees(NamedTuple):
    """The trees of R rows, N nodes in all, level by level: the roots come first.

    The children of the first node that is split are the first two of the next level, and so on.
    """

    row: IntArray  # (R,) the row that each tree is of
    bound: FloatArray  # (R,) in cost units, what they claim; infinite where there is no point
    # of the N nodes, see `Splits`; a family may number columns and values in its own way
    kind: IntArray
    column: IntArray
    value: FloatArray
    options: BoolArray
    # (N, size) of leaves, any; of a full quadratic cost (N, size + d), with points whose tangents
    # bound it
    multipliers: FloatArray

    @property
    def splits(self) -> Splits:
        """How nodes are split."""
        return Splits(self.kind, self.column, self.value, self.options)

    @property
    def is_leaf(self) -> BoolArray:
        """Which nodes are not split, (N,)."""
        return np.asarray(self.kind == SplitKind.LEAF)

    def levels(self) -> Levels:
        """Return the levels below the roots; raise a ValueError if these are no trees."""
        roots, inner = len(self.row), np.flatnonzero(~self.is_leaf)
        parent = np.append(np.zeros(roots, np.intp), np.repeat(inner, 2))  # any for roots
        node = np.arange(len(parent))
        if len(parent) != len(self.kind) or (parent[roots:] >= node[roots:]).any():
            raise ValueError("the nodes of a tree do not fit together")
        levels, end = Levels(), roots
        while end < len(parent):
            # the children of all inner nodes before ``end`` stand before the end of the next level
            level = slice(end, roots + 2 * int(np.searchsorted(inner, end)))
            levels.append((level, parent[level]))
            end = level.stop
        return levels

    def inherited(self, combine: np.ufunc, values: Any) -> Any:
        """Return the values (N, …) of nodes combined with those of all nodes above them."""
        out = np.array(values)
        for level, parent in self.levels():
            combine(out[level], out[parent], out=out[level])
        return out

    @property
    def depth(self) -> IntArray:
        """The level of each node, (N,); 0 for roots."""
        below = np.arange(len(self.kind)) >= len(self.row)
        return np.asarray(self.inherited(np.add, below.astype(np.intp)))

    @property
    def tree(self) -> IntArray:
        """The tree of each node, (N,), as a number of those in ``row``."""
        tree = np.zeros(len(self.kind), dtype=np.intp)
        tree[: len(self.row)] = np.arange(len(self.row))
        return np.asarray(self.inherited(np.add, tree))

    def take(self, rows: IntArray) -> ProofTrees:
        """Return the trees of some rows, which are numbered anew."""
        new_row = places(rows, self.row)
        taken = new_row >= 0
        nodes = taken[self.tree]
        values: Any = (array[nodes] for array in self[2:])
        return ProofTrees(new_row[taken], self.bound[taken], *values)

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


def places(rows: IntArray, among: IntArray) -> IntArray:
    """Return the place in ``rows`` of each row ``among`` others; −1 where it is none of them."""
    place = np.full(max(among.max(initial=-1), rows.max(initial=-1)) + 1, -1)
    place[rows] = np.arange(len(rows))
    return place[among]


def proved(program: Program, cases: Batch, trees: ProofTrees) -> FloatArray:
    """Return lower bounds (n,) on the cost of any point, by the tree of each row; 0 without one.

    Infinite where no point exists. The margins of the cases have no part in it. Raise a ValueError
    if the nodes make up no tree, or a split does not exist.
    """
    row, least = trees.row, np.array(trees.bound)  # a tree proves no more than it claims
    trees = trees._replace(
        multipliers=np.where(np.isfinite(trees.multipliers), trees.multipliers, 0.0)
    )
    with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond all bounds prove nothing
        tree = trees.tree
        low, high, forced = boxes(program, cases.take(row), tree, trees)
        leaves = np.flatnonzero(trees.is_leaf)
        for start in range(0, len(leaves), BLOCK):  # arrays of a block stay in the cache
            nodes = leaves[start : start + BLOCK]
            box = replace(cases.take(row[tree[nodes]]), low=low[nodes], high=high[nodes])
            if forced.any():
                box = _with_others_held(program, replace(box, forced=forced[nodes]))
            claimed = trees.bound[tree[nodes]]
            bound = _bound(program, box, trees.multipliers[nodes], claimed)
            np.minimum.at(least, tree[nodes], bound)
    least = np.where(np.isnan(least), 0.0, np.maximum(least, 0.0))
    out = np.zeros(len(cases))
    np.maximum.at(out, row, least)
    return out


def _bound(
    program: Program, leaves: Batch, multipliers: FloatArray, claimed: FloatArray
) -> FloatArray:
    """Return the bounds (m,) of leaves' boxes; infinite if refuted.

    To refute is tried only where the bound is below what is ``claimed`` (m,).
    """
    multipliers, tangent_points = np.split(multipliers, [program.size], axis=1)
    bound = program.bound(leaves, multipliers, tangent_points if tangent_points.size else None)
    short = np.flatnonzero(bound < claimed)
    refuted = program.refutes(leaves.take(short), multipliers[short])
    bound[short[refuted]] = np.inf
    return bound


def _with_others_held(program: Program, boxes: Batch) -> Batch:
    """Hold all other features at x in boxes where as many features must change as may change."""
    at_most = program.domain.at_most
    if at_most is None:
        return boxes
    must = program.domain.must_change(boxes)
    full = must[:, [block.start for block in at_most.blocks]].sum(axis=1) >= at_most.count
    held = np.zeros(must.shape, dtype=bool)
    for block in at_most.blocks:
        held[:, block] = (full & ~must[:, block.start])[:, None]
    return boxes.holding(held, boxes.x)


def boxes(
    program: Program, cases: Batch, tree: IntArray, trees: ProofTrees
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the bounds (N, d) of the boxes of nodes, and which features count as changed in them.

    The boxes of a node's children together hold all of its points. ``cases`` are the rows of the
    trees, in their order; ``tree`` (N,) is `ProofTrees.tree`. Raise a ValueError for a split that
    does not exist.
    """
    domain = program.domain
    blocks = () if domain.at_most is None else domain.at_most.blocks
    inner = np.flatnonzero(~trees.is_leaf)
    kind, column, value, options = splits = arrays.pick(trees.splits, inner)
    _check_splits(program, splits)
    x = cases.x[tree[inner]]
    first = len(cases) + 2 * np.arange(len(inner))  # the first child of each; the second is next
    # what each split by itself leaves of the domain to a child, to begin with all
    low, high = np.full((2, len(tree), program.width), [[[-np.inf]], [[np.inf]]])
    forced = np.zeros((len(tree), program.width if blocks else 0), dtype=bool)
    low[: len(cases)], high[: len(cases)] = cases.low, cases.high

    # a number goes on after its value: at the next step of its lattice, or the next float
    step, from_x = domain.steps[column], x[np.arange(len(column)), column]
    unit = np.where(step > 0.0, step, 1.0)
    next_step = lattice.number(from_x, lattice.last(from_x, value, unit) + 1.0, unit)
    after = np.where(step > 0.0, next_step, np.nextafter(value, np.inf))
    number = kind == SplitKind.NUMBER
    high[first[number], column[number]] = value[number]
    low[first[number] + 1, column[number]] = after[number]
    category = kind == SplitKind.SET
    grouped = np.flatnonzero(~domain.numeric)
    for group in domain.groups if category.any() else ():
        nodes = np.flatnonzero(category & (column >= group.start) & (column < group.stop))
        inside = options[nodes][:, (grouped >= group.start) & (grouped < group.stop)]
        high[first[nodes], group] = np.where(inside, np.inf, 0.0)
        high[first[nodes] + 1, group] = np.where(inside, 0.0, np.inf)
    change = kind == SplitKind.CHANGE
    for block in blocks if change.any() else ():
        nodes = np.flatnonzero(change & (column == block.start))
        low[first[nodes], block] = high[first[nodes], block] = x[nodes, block]
        forced[first[nodes] + 1, block.start] = True

    low, high = trees.inherited(np.maximum, low), trees.inherited(np.minimum, high)
    return low, high, trees.inherited(np.logical_or, forced)


def _check_splits(program: Program, splits: Splits) -> None:
    """Raise a ValueError if a split of an inner node is none of the program's domain."""
    domain, (kind, column, value, _) = program.domain, splits
    within = (column >= 0) & (column < program.width)
    column = np.where(within, column, 0)
    blocks = () if domain.at_most is None else domain.at_most.blocks
    can_change = np.isin(column, [block.start for block in blocks])
    exists = (kind == SplitKind.NUMBER) & domain.numeric[column] & np.isfinite(value)
    exists |= (kind == SplitKind.SET) & ~domain.numeric[column]
    exists |= (kind == SplitKind.CHANGE) & can_change
    if not (within & exists).all():
        raise ValueError("a node of a tree is split in no way that there is")
