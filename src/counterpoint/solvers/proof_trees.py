"""Proof trees of searches whose nodes are boxes of a domain; the checker believes nothing here.

A search may leave out a part of a node that its multipliers exclude. The part becomes a leaf with
these multipliers, but only where it is needed: costs are convex in each column, so that an end of a
box matters only where the cheapest point of a leaf would lie beyond it, or what refutes a leaf.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs import arrays
from counterpoint.programs.program import Program
from counterpoint.programs.proof import ProofTrees, SplitKind, Splits
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice
from counterpoint.solvers.branch_and_bound import levels


@final
class SearchedBoxes(NamedTuple):
    """The boxes that a search went through, N nodes; children come after their parents."""

    row: IntArray  # (N,)
    low: FloatArray  # (N, d) bounds on y
    high: FloatArray
    forced: BoolArray  # (N, d): features that count as changed, by their first columns
    multipliers: FloatArray  # (N, size), see `ProofTrees`
    children: IntArray  # (N, 2); −1 for a leaf
    refuted: BoolArray  # (N,): whether the multipliers refute the box

    def proof_trees(
        self, program: Program, cases: Batch, roots: IntArray, bound: FloatArray
    ) -> ProofTrees:
        """Return the trees of some roots, which cover the domains of the cases.

        What a node's children leave of its box is split off first, as leaves that its multipliers
        close; what lies beyond the box of a root is excluded by the cost alone. ``bound`` is what
        each tree claims.
        """
        inner = np.flatnonzero(self.children[:, 0] >= 0)
        first, second = self.children[inner].T
        # the smallest box around the children of each node, or a leaf's own
        low, high = np.array(self.low), np.array(self.high)
        low[inner] = np.minimum(self.low[first], self.low[second])
        high[inner] = np.maximum(self.high[first], self.high[second])
        beyond = _beyond(
            program, roots, cases.take(self.row[roots]), self.low[roots], self.high[roots]
        )
        excluded = [beyond]
        if (low > self.low).any() or (high < self.high).any():
            kept = replace(cases.take(self.row), low=low, high=high)
            excluded += _excluded(program, cases.take(self.row), self, kept, roots)
        exclusions = arrays.stacked(excluded)
        order = np.argsort(exclusions.node, kind="stable")
        by_cost = order < len(beyond.node)
        exclusions = arrays.pick(exclusions, order)
        closed_by = np.where(by_cost[:, None], 0.0, self.multipliers[exclusions.node])
        splits = _splits(program, self, inner)
        return _chained(self, roots, splits, exclusions, closed_by)._replace(bound=bound)


@final
class SplitNodes(NamedTuple):
    """How some nodes are split."""

    node: IntArray  # (m,)
    splits: Splits
    goes_second: BoolArray  # (m,): whether the search goes on in the second child, or in the first


def _options(program: Program, high: FloatArray) -> BoolArray:
    """Return which categories boxes hold, (m, columns of groups)."""
    return np.asarray(high[:, ~program.domain.numeric] > 0.5)


def _splits(program: Program, boxes: SearchedBoxes, inner: IntArray) -> SplitNodes:
    """Return the splits of inner nodes, by the first column in which their two children differ.

    A feature that has to change in the second alone comes before numbers, and these before
    categories. Children that are alike are split so that all is in the first.
    """
    first, second = boxes.children[inner].T
    low, high, numeric = boxes.low, boxes.high, program.domain.numeric
    forced = boxes.forced[second] & ~boxes.forced[first]
    numbers = ((low[first] != low[second]) | (high[first] != high[second])) & numeric
    categories = ((high[first] > 0.5) != (high[second] > 0.5)) & ~numeric
    is_change, is_number = forced.any(axis=1), numbers.any(axis=1)
    is_set = ~is_number & (categories.any(axis=1) | ~numeric.any())
    column = np.where(is_number, numbers.argmax(axis=1), numeric.argmax())
    value = high[first, column]
    # of children that are alike: a finite value beyond all others, so that nothing is split off
    value = np.where(is_number, value, np.minimum(value, 1e300))
    column = np.where(is_set, categories.argmax(axis=1), column)
    column = np.where(is_change, forced.argmax(axis=1), column)
    kind = np.where(is_set, SplitKind.SET, SplitKind.NUMBER)
    kind = np.where(is_change, SplitKind.CHANGE, kind)
    starts = np.arange(program.width)  # a category is given by the first column of its group
    for group in program.domain.groups:
        starts[group] = group.start
    splits = Splits(kind, starts[column], value, _options(program, high[first]))
    return SplitNodes(inner, splits, np.zeros(len(inner), dtype=bool))


def _beyond(
    program: Program, node: IntArray, domain: Batch, low: FloatArray, high: FloatArray
) -> SplitNodes:
    """Return splits that cut the numbers outside of low to high, (m, d), off the nodes' domains."""
    numeric, steps = program.domain.numeric, program.domain.steps
    unit = np.where(steps > 0.0, steps, 1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        # the last value below ``low``: a step of the lattice, or a float
        step_below = lattice.number(domain.x, lattice.first(domain.x, low, unit) - 1.0, unit)
        below = np.where(steps > 0.0, step_below, np.nextafter(low, -np.inf))
    splits = []
    # The first child has the numbers up to the value: it is what is cut off at the lower end.
    for mask, value, goes_second in (
        ((low > domain.low) & numeric, below, True),
        ((high < domain.high) & numeric, high, False),
    ):
        index, column = np.nonzero(mask)
        kind, options = np.full(len(index), SplitKind.NUMBER), (~numeric).sum()
        no_options = np.zeros((len(index), options), dtype=bool)
        split = Splits(kind, column, value[index, column], no_options)
        splits.append(SplitNodes(node[index], split, np.full(len(index), goes_second)))
    return arrays.stacked(splits)


def _excluded(
    program: Program, domain: Batch, boxes: SearchedBoxes, kept: Batch, roots: IntArray
) -> list[SplitNodes]:
    """Return splits of what multipliers exclude, as far as leaves need them.

    ``domain`` and ``kept`` (N,) are the rows of the nodes: within their domains, and within what
    the children make up of the boxes. From the deepest level up: a node needs an end of its box if
    a child needs one that is the same; where the children end before the box does, the node is
    split there, and needs its own end no more.
    """
    # where the cost and the multipliers are least over the whole domain
    slope = program.cut(boxes.multipliers[:, : program.size], domain.x).normal
    ends = domain.low - domain.x, domain.high - domain.x
    best = program.duality.diagonal.best(slope, *ends, domain.x, program.domain.steps)
    refuted = boxes.refuted[:, None]
    at_low = np.asarray((best < boxes.low - domain.x) | (refuted & (slope > 0.0)))
    at_high = np.asarray((best > boxes.high - domain.x) | (refuted & (slope < 0.0)))
    options = _options(program, kept.high)
    lost_options = _options(program, boxes.high) & ~options
    needs_low, needs_high = np.array(at_low), np.array(at_high)
    cut_low, cut_high = np.zeros(at_low.shape, dtype=bool), np.zeros(at_low.shape, dtype=bool)
    for level in levels(boxes.children, roots)[::-1]:
        inner = level[boxes.children[level, 0] >= 0]
        children = boxes.children[inner]
        for needs, cut, inner_end, outer_end in (
            (needs_low, cut_low, kept.low, boxes.low),
            (needs_high, cut_high, kept.high, boxes.high),
        ):
            same = outer_end[children] == inner_end[inner][:, None]
            needed: BoolArray = np.asarray((needs[children] & same).any(axis=1))
            narrower = inner_end[inner] != outer_end[inner]
            cut[inner] = needed & narrower & program.domain.numeric
            needs[inner] = needed & ~narrower
        # an excluded part is a leaf of this node, bounded by its multipliers within its other ends
        exclusions = np.hstack([cut_low[inner], cut_high[inner], lost_options[inner]])
        excludes = np.asarray(exclusions.any(axis=1, keepdims=True))
        for needs, at_end in ((needs_low, at_low), (needs_high, at_high)):
            needs[inner] |= excludes & at_end[inner]
    low, high = np.where(cut_low, kept.low, -np.inf), np.where(cut_high, kept.high, np.inf)
    box = replace(domain, low=boxes.low, high=boxes.high)
    splits = [_beyond(program, np.arange(len(low)), box, low, high)]
    grouped = np.flatnonzero(~program.domain.numeric)
    for group in program.domain.groups:
        columns = (grouped >= group.start) & (grouped < group.stop)
        node = np.flatnonzero(lost_options[:, columns].any(axis=1))
        kind, column = np.full(len(node), SplitKind.SET), np.full(len(node), group.start)
        split = Splits(kind, column, np.zeros(len(node)), options[node])
        splits.append(SplitNodes(node, split, np.zeros(len(node), dtype=bool)))
    return splits


def _chained(
    boxes: SearchedBoxes,
    roots: IntArray,
    splits: SplitNodes,
    exclusions: SplitNodes,
    closed_by: FloatArray,
) -> ProofTrees:
    """Return trees in which nodes are split one exclusion after the other, and then by their split.

    Exclusions stand in the order of their nodes. Each adds two children: a leaf with the
    multipliers ``closed_by``, which is what was excluded, and a node in which the search goes on,
    where the next exclusion of its node is made, or the node's split::

        node ─ exclusion ─┬─ searched ─ exclusion ─┬─ searched ─ split ─┬─ child
                          └─ closed                └─ closed            └─ child
    """
    n, count = len(boxes.row), len(exclusions.node)
    searched, closed = n + np.arange(count), n + count + np.arange(count)  # the new nodes
    is_first = np.diff(exclusions.node, prepend=-1) != 0
    is_last = np.diff(exclusions.node, append=n) != 0
    parent = np.where(is_first, exclusions.node, searched - 1)
    chain_end = np.arange(n)  # the node that is split as the search split each node
    chain_end[exclusions.node[is_last]] = searched[is_last]
    children = np.full((n + 2 * count, 2), -1)
    children[chain_end[splits.node]] = boxes.children[splits.node]
    pairs = np.stack([searched, closed], axis=1)
    children[parent] = np.where(exclusions.goes_second[:, None], pairs[:, ::-1], pairs)
    kind, column = np.full((2, n + 2 * count), SplitKind.LEAF)
    value = np.zeros(len(kind))
    options = np.zeros((len(kind), splits.splits.options.shape[1]), dtype=bool)
    for node, split in ((chain_end[splits.node], splits.splits), (parent, exclusions.splits)):
        kind[node], column[node], value[node], options[node] = split
    multipliers = np.zeros((len(kind), boxes.multipliers.shape[1]))
    multipliers[:n] = boxes.multipliers
    multipliers[chain_end] = boxes.multipliers
    multipliers[closed] = closed_by
    multipliers = np.where((kind == SplitKind.LEAF)[:, None], multipliers, 0.0)
    order = np.concatenate(levels(children, roots))
    nodes: Any = (array[order] for array in (kind, column, value, options, multipliers))
    return ProofTrees(boxes.row[roots], np.zeros(len(roots)), *nodes)
