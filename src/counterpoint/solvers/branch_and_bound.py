"""The one branch and bound: nodes are bounded, and closed by that or split, until none is open.

A *problem* says what its nodes are, how they are bounded and how they are split. It also keeps the
best point of each row, and so the cutoff from which on a node is of no use. Three problems do:
integers under cones (`branching`), knapsacks (the family `additive`) and boxes of cells (the family
`trees`). What a search leaves behind is a tree, of which the problem makes a proof.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar, final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs import arrays

Nodes = TypeVar("Nodes", bound=tuple[Any, ...])
"""A named tuple of arrays (of any type, objects included) with one entry for each node. Such tuples
may be nested."""


class BranchingProblem(ABC, Generic[Nodes]):
    """What a branch and bound asks about the n rows it searches, each with a tree of its own."""

    @property
    @abstractmethod
    def cutoff(self) -> FloatArray:
        """Bounds (n,) from which on a node of a row is of no use; better points lower them."""

    @property
    @abstractmethod
    def exhausted(self) -> BoolArray:
        """Rows (n,) that have used up their time or nodes: their open nodes are left."""

    @abstractmethod
    def roots(self) -> Nodes:
        """Return one node for each row, all of its domain."""

    @abstractmethod
    def bound(self, nodes: Nodes, row: IntArray) -> tuple[Nodes, FloatArray]:
        """Return m new nodes, with what was learned of them, and their lower bounds (m,).

        ``row`` (m,) says whose nodes they are. Better points that turn up on the way are kept.
        """

    @abstractmethod
    def record(self, nodes: Nodes) -> tuple[Any, ...]:
        """Return what the tree remembers of bounded nodes, a named tuple of the same kind."""

    @abstractmethod
    def split(self, nodes: Nodes, row: IntArray) -> tuple[Nodes, Nodes, BoolArray]:
        """Return two children of each of m open nodes, and a mask (m,) of nodes that have them.

        The others become leaves, and what is returned as their children is ignored.
        """


@final
class SearchTree(NamedTuple):
    """The trees of n rows: N nodes, children after their parents; the roots come first."""

    row: IntArray  # (N,)
    bound: FloatArray  # (N,)
    children: IntArray  # (N, 2) the numbers of nodes; −1 for a leaf
    record: Any  # what the problem remembers of the N nodes
    least: FloatArray  # (n,) the least bound of a leaf
    unfinished: BoolArray  # (n,) whether a row was exhausted while nodes of it were open

    def by_level(self, roots: IntArray) -> IntArray:
        """Return the nodes of the trees of some roots, level by level."""
        return np.concatenate(levels(self.children, roots))


@final
class _Open(NamedTuple):
    """Nodes that were bounded and may have to be split."""

    row: IntArray
    bound: FloatArray
    number: IntArray
    nodes: Any


@final
class _Step(NamedTuple):
    """Nodes that were bounded together, as the tree remembers them."""

    row: IntArray
    bound: FloatArray
    parent: IntArray  # −1 for a root
    record: Any


def branch_and_bound(problem: BranchingProblem[Nodes], width: int | None = None) -> SearchTree:
    """Search the trees of all rows until no open node can hold anything better.

    In each step the open nodes of the least bounds are split and all children bounded at once: one
    node in the first step, then twice as many in each, up to the ``width``; or all that are open,
    without a ``width``. Nodes of equal bounds are taken in the order in which they were bounded. A
    node that cannot be split stays a leaf with the bound that it has.
    """
    n, most_splits, node_count = len(problem.cutoff), 1, 0
    unfinished, steps = np.zeros(n, dtype=bool), list[_Step]()
    # nodes to bound next: at first the roots, and then the children of each step
    nodes, row, parent = problem.roots(), np.arange(n), np.full(n, -1)
    queue: list[_Open] = []  # bounded nodes
    while len(row) or queue:
        if len(row):
            nodes, bound = problem.bound(nodes, row)
            steps.append(_Step(row, bound, parent, problem.record(nodes)))
            queue.append(_Open(row, bound, node_count + np.arange(len(row)), nodes))
            node_count += len(row)
        # Bounds may have lowered cutoffs, so all open nodes are compared with them again. Rows that
        # are exhausted are marked in ``unfinished``.
        chosen, queue = _still_open(problem, arrays.stacked(queue), unfinished), list[_Open]()
        if not len(chosen.row):
            break
        if width is not None:
            if len(chosen.row) > most_splits:
                index = _least(chosen.bound, most_splits)
                remaining = np.ones(len(chosen.row), dtype=bool)
                remaining[index] = False
                queue, chosen = [arrays.pick(chosen, remaining)], arrays.pick(chosen, index)
            most_splits = min(2 * most_splits, width)
        first, second, has_children = problem.split(chosen.nodes, chosen.row)
        if not has_children.all():
            chosen, first, second = (arrays.pick(v, has_children) for v in (chosen, first, second))
        # all first children, then all second ones, in the order of their parents: see `_tree`
        nodes = arrays.stacked([first, second])
        row, parent = (np.concatenate([v, v]) for v in (chosen.row, chosen.number))
    return _tree(arrays.stacked(steps), unfinished)


def _least(bound: FloatArray, count: int) -> IntArray:
    """Return the indices of the ``count`` least bounds in order; of equal ones the first."""
    near = np.flatnonzero(bound <= np.partition(bound, count - 1)[count - 1])
    return near[np.argsort(bound[near], kind="stable")][:count]


def _still_open(problem: BranchingProblem[Any], queue: _Open, unfinished: BoolArray) -> _Open:
    """Return the nodes below their cutoffs; mark exhausted rows in ``unfinished``, drop theirs."""
    below = queue.bound < problem.cutoff[queue.row]
    exhausted = below & problem.exhausted[queue.row]
    unfinished[queue.row[exhausted]] = True
    remaining = below & ~exhausted
    return queue if remaining.all() else arrays.pick(queue, remaining)


def _tree(steps: _Step, unfinished: BoolArray) -> SearchTree:
    """Return the tree of all nodes, in the order in which they were bounded."""
    children = np.full((len(steps.row), 2), -1)
    # in each step the first children come before the second, so a stable sort by parents pairs them
    node = np.flatnonzero(steps.parent >= 0)
    pairs = node[np.argsort(steps.parent[node], kind="stable")].reshape(-1, 2)
    children[steps.parent[pairs[:, 0]]] = pairs
    leaf, least = children[:, 0] < 0, np.full(len(unfinished), np.inf)
    np.minimum.at(least, steps.row[leaf], steps.bound[leaf])
    return SearchTree(steps.row, steps.bound, children, steps.record, least, unfinished)


def levels(children: IntArray, roots: IntArray) -> list[IntArray]:
    """Return the nodes of the trees of some roots, by their numbers, level by level."""
    out = [roots]
    while len(out[-1]):
        below = children[out[-1]]
        out.append(below[below[:, 0] >= 0].ravel())
    return out
