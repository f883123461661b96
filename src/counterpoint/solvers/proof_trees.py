"""Proof trees of searches whose nodes are boxes of a domain; who checks them believes nothing here.

A search may leave out what the multipliers of a node exclude. That becomes a leaf with these
multipliers, but only where it is needed: costs are convex in each column, so that an end of a box
matters only where the cheapest point of a leaf would lie beyond it, or what refutes a leaf.
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

FAR = 1e300
"""A number beyond all values of columns, to split off nothing."""


@final
class SearchedBoxes(NamedTuple):
    """The boxes that a search went through, N nodes; children come after their parents."""

    row: IntArray  # (N,)
    low: FloatArray  # (N, d) bounds on y
    high: FloatArray
    forced: BoolArray  # (N, d): features that count as changed, by their first columns
    multipliers: FloatArray  # (N, size), see `ProofTrees`
    children: IntArray  # (N, 2); −1 for a leaf
    refuted: BoolArray  # (N,): whether multipliers show that there is no point

    def proof_trees(
        self, program: Program, cases: Batch, roots: IntArray, bound: FloatArray
    ) -> ProofTrees:
        """Return the trees that begin with the boxes of some roots, by their splits.

        They cover the domains of the cases: what lies beyond the boxes of roots is excluded by the
        cost alone. ``bound`` is what each tree claims.
        """
        nodes = replace(cases.take(self.row), low=self.low, high=self.high)
        inner = np.flatnonzero(self.children[:, 0] >= 0)
        first, second = self.children[inner].T
        low, high = np.array(self.low), np.array(self.high)
        low[inner] = np.minimum(self.low[first], self.low[second])
        high[inner] = np.maximum(self.high[first], self.high[second])
        parted = replace(nodes, low=low, high=high)  # what the children make up
        beyond = _beyond(
            program, roots, cases.take(self.row[roots]), self.low[roots], self.high[roots]
        )
        excluded = [beyond]
        if (low > self.low).any() or (high < self.high).any():
            domain = cases.take(self.row)
            by_level = levels(self.children, roots)
            excluded += _excluded(program, (domain, nodes, parted), self, by_level)
        exclusions = arrays.stacked(excluded)
        order = np.argsort(exclusions.node, kind="stable")
        by_cost = order < len(beyond.node)
        exclusions = arrays.pick(exclusions, order)
        closed_by = np.where(by_cost[:, None], 0.0, self.multipliers[exclusions.node])
        splits = _splits(program, self, inner)
        return _chained(self, roots, splits, exclusions, closed_by)._replace(bound=bound)


@final
class SplitNodes(NamedTuple):
    """Some nodes, and how they are split."""

    node: IntArray  # (m,)
    how: Splits
    second: BoolArray  # (m,): whether the search went on in the second part; else in the first


def _options(program: Program, high: FloatArray) -> BoolArray:
    """Return which categories boxes hold, (m, columns of groups)."""
    return np.asarray(high[:, _columns(program)] > 0.5)


def _columns(program: Program) -> IntArray:
    return np.flatnonzero(~program.domain.numeric)


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
    is_forced, is_number = forced.any(axis=1), numbers.any(axis=1)
    is_set = ~is_number & (categories.any(axis=1) | ~numeric.any())
    column = np.where(is_number, numbers.argmax(axis=1), numeric.argmax())
    where = high[first, column]
    where = np.where(is_number, where, np.minimum(where, FAR))
    column = np.where(is_set, categories.argmax(axis=1), column)
    column = np.where(is_forced, forced.argmax(axis=1), column)
    kind = np.where(is_forced, SplitKind.CHANGE, np.where(is_set, SplitKind.SET, SplitKind.NUMBER))
    starts = np.arange(program.width)
    for group in program.domain.groups:
        starts[group] = group.start
    how = Splits(kind, starts[column], where, _options(program, high[first]))
    return SplitNodes(inner, how, np.zeros(len(inner), dtype=bool))


def _beyond(
    program: Program, node: IntArray, whole: Batch, low: FloatArray, high: FloatArray
) -> SplitNodes:
    """Return splits of what lies beyond the ends (m, d) of numbers from the nodes' boxes."""
    numeric, steps = program.domain.numeric, program.domain.steps
    unit = np.where(steps > 0.0, steps, 1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        before = lattice.number(whole.x, lattice.first(whole.x, low, unit) - 1.0, unit)
        before = np.where(steps > 0.0, before, np.nextafter(low, -np.inf))
    splits = []
    for mask, where, second in (
        ((low > whole.low) & numeric, before, True),
        ((high < whole.high) & numeric, high, False),
    ):
        at, what = np.nonzero(mask)
        options = np.zeros((len(at), (~numeric).sum()), dtype=bool)
        how = Splits(np.full(len(at), SplitKind.NUMBER), what, where[at, what], options)
        splits.append(SplitNodes(node[at], how, np.full(len(at), second)))
    return arrays.stacked(splits)


def _excluded(
    program: Program,
    cases: tuple[Batch, Batch, Batch],
    boxes: SearchedBoxes,
    by_level: list[IntArray],
) -> list[SplitNodes]:
    """Return splits of what multipliers exclude, as far as leaves need them.

    The cases are the domains of nodes, their boxes, and what their children make up of these.
    """
    domain, nodes, parted = cases
    slope = program.cut(boxes.multipliers[:, : program.size], nodes.x).normal
    whole = domain.low - domain.x, domain.high - domain.x
    best = program.duality.diagonal.best(slope, *whole, domain.x, program.domain.steps)
    refuted = boxes.refuted[:, None]
    at_low = np.asarray((best < nodes.low - nodes.x) | (refuted & (slope > 0.0)))
    at_high = np.asarray((best > nodes.high - nodes.x) | (refuted & (slope < 0.0)))
    options = _options(program, parted.high)
    without = _options(program, nodes.high) & ~options
    needs_low, needs_high = np.array(at_low), np.array(at_high)
    cut_low, cut_high = np.zeros(at_low.shape, dtype=bool), np.zeros(at_low.shape, dtype=bool)
    for level in by_level[::-1]:
        inner = level[boxes.children[level, 0] >= 0]
        children = boxes.children[inner]
        for needs, cut, ends, outer in (
            (needs_low, cut_low, parted.low, nodes.low),
            (needs_high, cut_high, parted.high, nodes.high),
        ):
            same = outer[children] == ends[inner][:, None]
            needed: BoolArray = np.asarray((needs[children] & same).any(axis=1))
            narrower = ends[inner] != outer[inner]
            cut[inner] = needed & narrower & program.domain.numeric
            needs[inner] = needed & ~narrower
        # the leaf of an exclusion is bounded in what is there of the other columns
        exclusions = np.hstack([cut_low[inner], cut_high[inner], without[inner]])
        excludes = np.asarray(exclusions.any(axis=1, keepdims=True))
        for needs, at_end in ((needs_low, at_low), (needs_high, at_high)):
            needs[inner] |= excludes & at_end[inner]
    low, high = np.where(cut_low, parted.low, -np.inf), np.where(cut_high, parted.high, np.inf)
    splits, columns = [_beyond(program, np.arange(len(low)), nodes, low, high)], _columns(program)
    for group in program.domain.groups:
        at = np.flatnonzero(
            without[:, (columns >= group.start) & (columns < group.stop)].any(axis=1)
        )
        kind, what = np.full(len(at), SplitKind.SET), np.full(len(at), group.start)
        how = Splits(kind, what, np.zeros(len(at)), options[at])
        splits.append(SplitNodes(at, how, np.zeros(len(at), dtype=bool)))
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
    end = np.arange(n)  # of each node's chain
    end[exclusions.node[is_last]] = searched[is_last]
    children = np.full((n + 2 * count, 2), -1)
    children[end[splits.node]] = boxes.children[splits.node]
    pairs = np.stack([searched, closed], axis=1)
    children[parent] = np.where(exclusions.second[:, None], pairs[:, ::-1], pairs)
    kind, what = np.full((2, n + 2 * count), SplitKind.LEAF)
    where = np.zeros(len(kind))
    options = np.zeros((len(kind), splits.how.options.shape[1]), dtype=bool)
    for node, how in ((end[splits.node], splits.how), (parent, exclusions.how)):
        kind[node], what[node], where[node], options[node] = how
    multipliers = np.zeros((len(kind), boxes.multipliers.shape[1]))
    multipliers[:n] = boxes.multipliers
    multipliers[end] = boxes.multipliers
    multipliers[closed] = closed_by
    order = np.concatenate(levels(children, roots))
    multipliers = np.where((kind == SplitKind.LEAF)[:, None], multipliers, 0.0)
    nodes: Any = (array[order] for array in (kind, what, where, options, multipliers))
    return ProofTrees(boxes.row[roots], np.zeros(len(roots)), *nodes)
