"""Rows whose answers are in a forbidden combination are searched again, in smaller boxes.

A search that knows nothing of combinations proposes the cheapest point of a box. Where a forbidden
combination holds that point, the box is split by the combination's *literals* (the conditions on
one feature each that make it up): each split puts off a part that misses one literal, and goes on
in the part that meets it. The parts outside of the combination are searched in turn, the cheapest
box first. So thousands of combinations cost nothing until one is violated, and whatever takes
bounds on columns takes combinations. The boxes of a row are the leaves of a tree that proves its
bound, see `counterpoint.programs.evidence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs.combinations import ForbiddenCombinations
from counterpoint.programs.evidence import Bounding, BoxedEvidence, SearchedNodes
from counterpoint.programs.proof import ProofTrees, SplitKind
from counterpoint.programs.region import Batch
from counterpoint.programs.separable import SeparableDomain
from counterpoint.rows import lattice

MAX_BOXES = 5_000
"""Boxes of a row that are searched at most; each takes what a row without combinations takes."""


@final
class Split(NamedTuple):
    """How a box is split in two, and the part in which it is split next.

    A column is split at a number, or a group of columns, by its first one, into categories.
    """

    kind: int  # `NUMBER` or `SET`, as in `ProofTrees`
    column: int
    where: float  # the largest number of the first part
    options: BoolArray  # (d,) the categories of the first part
    inner: int  # 0 or 1: the part that the combination still holds
    is_forbidden: bool  # whether the combination excludes the other part


@final
class _Node:
    """A box of a row, in a tree."""

    def __init__(self, row: int, low: FloatArray, high: FloatArray) -> None:
        self.row, self.low, self.high = row, low, high
        self.split: Split | None = None
        # whether a combination was cut out of it; it has no split if the combination holds it all
        self.is_cut = False
        self.children: tuple[_Node, ...] = ()
        self.point, self.objective = np.full_like(low, np.nan), np.inf
        # the number of the search that bounds it, and its place there; −1 if it needs no bound
        self.batch, self.place = -1, -1


def is_empty(domain: SeparableDomain, low: FloatArray, high: FloatArray) -> BoolArray:
    """(n,): whether boxes (n, d) hold no point, because a column has no value left."""
    empty = (low > high).any(axis=1)
    for group in domain.groups:
        empty |= ~(high[:, group] > 0.5).any(axis=1)
    return np.asarray(empty)


@final
class BoxTrees:
    """The boxes of rows that were proposed a point in a forbidden combination.

    Rounds alternate: `next` splits boxes and says which to search, `learn` takes what was found.
    The cases are all n rows, and the domain is that in which they were first searched.
    """

    def __init__(
        self, combinations: ForbiddenCombinations, domain: SeparableDomain, cases: Batch
    ) -> None:
        self.combinations, self.domain, self.cases = combinations, domain, cases
        # (n, d) the best points, NaN where there is none, and (n,) their objectives
        self.points = np.full(cases.x.shape, np.nan)
        self.objective = np.full(len(cases), np.inf)
        self.rows = np.zeros(0, dtype=np.intp)  # (m,) the rows of the boxes that are searched next
        self.improved = np.zeros(0, dtype=bool)  # (m,): which of them held a row's best point
        self._roots: dict[int, _Node] = {}
        self._open: dict[int, list[_Node]] = {}  # row → its boxes whose points are forbidden
        self._count = np.zeros(len(cases), dtype=np.intp)  # (n,) boxes that were searched
        self._nodes: list[_Node] = []  # m boxes that are searched next
        self._batches: list[tuple[IntArray, Sequence[Bounding], list[_Node]]] = []

    def violated(self, points: FloatArray, x: FloatArray) -> IntArray:
        """(n,) the first combination that forbids each point (n, d); −1 for none, or no point."""
        forbids = self.combinations.forbid(points, points, x)
        is_forbidden = forbids.any(axis=1) & ~np.isnan(points[:, 0])
        return np.where(is_forbidden, forbids.argmax(axis=1), -1)

    def add_roots(self, rows: IntArray, points: FloatArray, objective: FloatArray) -> None:
        """Begin the trees of some rows, with their (m, d) forbidden points."""
        for i, point, value in zip(rows.tolist(), points, objective.tolist(), strict=True):
            root = _Node(i, np.array(self.cases.low[i]), np.array(self.cases.high[i]))
            root.point, root.objective = point, value
            self._roots[i], self._open[i] = root, [root]

    def next(self, gap: float) -> Batch | None:
        """Split the cheapest open box of each row; return the parts to be searched, if any.

        A box whose cheapest point costs no less than a row's best one, up to the gap, is passed
        over.
        """
        while True:
            self._nodes = []
            for i, nodes in self._open.items():
                nodes[:] = self._promising(i, gap)
                if nodes and self._count[i] <= MAX_BOXES:
                    node = min(nodes, key=lambda node: node.objective)
                    nodes.remove(node)
                    self._split(node)
            if not self._nodes:
                return None
            self.rows = np.array([node.row for node in self._nodes], dtype=np.intp)
            low, high = self._ends()
            x = self.cases.x[self.rows]
            # a box within a combination, or without a point, needs no search and no bound
            searched = ~self.combinations.forbid(low, high, x).any(axis=1)
            searched &= ~is_empty(self.domain, low, high)
            if searched.any():
                chosen = np.flatnonzero(searched)
                self._nodes = [self._nodes[k] for k in chosen.tolist()]
                self.rows = self.rows[chosen]
                boxes = self.cases.take(self.rows)
                return boxes.within(low[chosen], high[chosen])

    def _promising(self, i: int, gap: float) -> list[_Node]:
        """The open boxes of a row that may hold a better point than its best one."""
        cutoff = self.objective[i] * (1.0 - gap)
        return [node for node in self._open[i] if node.objective < cutoff]

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """(m, d) bounds of the boxes that are searched next."""
        return np.array([n.low for n in self._nodes]), np.array([n.high for n in self._nodes])

    def _split(self, node: _Node) -> None:
        """Cut the combination that forbids a box's point out of it; list the parts to search."""
        x = self.cases.x[node.row]
        k = int(self.violated(node.point[None], x[None])[0])
        inner, node.is_cut = node, True
        for split in self._literals(k, node, x):
            inner.split = split
            inner.children = self._halves(inner, split, x)
            outer, inner = inner.children[1 - split.inner], inner.children[split.inner]
            if not split.is_forbidden:
                self._nodes.append(outer)
        # What is left meets all literals. It is allowed where nothing differs from the row, if the
        # combination holds the row itself; else `next` leaves it out, as forbidden.
        self._nodes.append(inner)

    def _literals(self, k: int, node: _Node, x: FloatArray) -> Iterator[Split]:
        """Yield splits by the literals of combination k, but those that all of the box meets.

        Each splits the inner part of the one before, whose bounds are ``low`` and ``high``. If the
        combination holds the row itself, splits by what differs from the row come last.
        """
        low, high = np.array(node.low), np.array(node.high)
        has_literal, options = self.combinations.has_literal[k], self.combinations.options[k]
        groups = [group for group in self.domain.groups if has_literal[group].any()]
        numbers = np.flatnonzero(has_literal & self.domain.numeric).tolist()
        for group in groups:
            if (~options[group] & (high[group] > 0.5)).any():
                yield self._among(group, options[group], is_forbidden=False)
                high[group] = np.where(options[group], high[group], 0.0)
        no_options = np.zeros(len(x), dtype=bool)
        for j in numbers:  # a combination holds numbers strictly between its ends
            below, above = float(self.combinations.low[k, j]), float(self.combinations.high[k, j])
            if np.isfinite(below) and low[j] <= below:
                largest = self._up_to(below, j, x)
                yield Split(SplitKind.NUMBER, j, largest, no_options, inner=1, is_forbidden=False)
                low[j] = self._after(largest, j, x)
            if np.isfinite(above) and high[j] >= above:
                high[j] = self._up_to(float(np.nextafter(above, -np.inf)), j, x)
                yield Split(SplitKind.NUMBER, j, high[j], no_options, inner=0, is_forbidden=False)
        if not ((x < low) | (x > high))[has_literal].any():  # the combination holds the row itself
            yield from self._changes(groups, numbers, low, high, x)

    def _changes(
        self,
        groups: Sequence[slice],
        numbers: Sequence[int],
        low: FloatArray,
        high: FloatArray,
        x: FloatArray,
    ) -> Iterator[Split]:
        """Yield splits of what differs from the row, in groups and numbers, from what does not."""
        for group in groups:
            current = x[group] > 0.5
            if (~current & (high[group] > 0.5)).any():
                yield self._among(group, current, is_forbidden=True)
        no_options = np.zeros(len(x), dtype=bool)
        for j in numbers:
            if low[j] < x[j]:
                largest = self._up_to(float(np.nextafter(x[j], -np.inf)), j, x)
                yield Split(SplitKind.NUMBER, j, largest, no_options, inner=1, is_forbidden=True)
            if high[j] > x[j]:
                here = float(x[j])
                yield Split(SplitKind.NUMBER, j, here, no_options, inner=0, is_forbidden=True)

    def _among(self, group: slice, options: BoolArray, *, is_forbidden: bool) -> Split:
        """The split of a group into some of its categories, the inner part, and the others."""
        first_part = np.zeros(len(self.domain.numeric), dtype=bool)
        first_part[group] = options
        return Split(SplitKind.SET, group.start, 0.0, first_part, 0, is_forbidden)

    def _up_to(self, value: float, j: int, x: FloatArray) -> float:
        """The largest number that a column can have up to a value."""
        step = float(self.domain.steps[j])
        if not step:
            return value
        return float(lattice.number(x[j], lattice.last(x[j], np.asarray(value), step), step))

    def _after(self, value: float, j: int, x: FloatArray) -> float:
        """The least number that a column can have beyond one of its numbers."""
        step = float(self.domain.steps[j])
        if not step:
            return float(np.nextafter(value, np.inf))
        count = lattice.last(x[j], np.asarray(value), step) + 1.0
        return float(lattice.number(x[j], count, step))

    def _halves(self, node: _Node, split: Split, x: FloatArray) -> tuple[_Node, _Node]:
        """The two parts of a box, as `counterpoint.programs.proof.boxes` makes them."""
        first, second = (_Node(node.row, np.array(node.low), np.array(node.high)) for _ in range(2))
        j = split.column
        if split.kind == SplitKind.NUMBER:
            first.high[j] = min(first.high[j], split.where)
            second.low[j] = max(second.low[j], self._after(split.where, j, x))
            return first, second
        group = next(group for group in self.domain.groups if group.start == j)
        inside = split.options[group]
        first.high[group] = np.where(inside, first.high[group], 0.0)
        second.high[group] = np.where(inside, 0.0, second.high[group])
        return first, second

    def learn(
        self, points: FloatArray, objective: FloatArray, evidence: Sequence[Bounding]
    ) -> None:
        """Take the result of a search in the boxes that are searched next.

        These are points (m, d), NaN for none, their objectives (m,), and the bounds of each piece.
        """
        points = np.clip(points, *self._ends())  # a solver may miss its bounds by rounding
        is_forbidden = self.violated(points, self.cases.x[self.rows]) >= 0
        self.improved = np.zeros(len(points), dtype=bool)
        for place, node in enumerate(self._nodes):
            node.batch, node.place = len(self._batches), place
            node.point, node.objective = points[place], float(objective[place])
            self._count[node.row] += 1
            if np.isnan(node.point[0]):
                continue
            if is_forbidden[place]:  # to be split further
                self._open[node.row].append(node)
            elif node.objective < self.objective[node.row]:
                self.objective[node.row], self.points[node.row] = node.objective, node.point
                self.improved[place] = True
        self._batches.append((self.rows, evidence, self._nodes))

    def unfinished(self, gap: float) -> IntArray:
        """The rows with boxes that were not searched further, but may hold a better point."""
        return np.array([i for i in self._open if self._promising(i, gap)], dtype=np.intp)

    def evidence(self, whole: Sequence[Bounding]) -> Sequence[Bounding]:
        """What bounds the rows: the first search, of whole rows, and those of their boxes."""
        roots = {i: root for i, root in self._roots.items() if root.is_cut}
        if not roots:
            return whole
        batches = [
            SearchedNodes(rows, np.array([node.split is None for node in nodes]), evidence)
            for rows, evidence, nodes in self._batches
        ]
        # Leaves are numbered batch by batch: a batch's leaves begin at ``starts``, and within it
        # ``rank`` counts those up to each place.
        starts = np.cumsum([0, *(batch.is_leaf.sum() for batch in batches)])
        rank = [np.cumsum(batch.is_leaf) - 1 for batch in batches]
        trees, order = list[ProofTrees](), list[int]()
        for i, root in roots.items():
            nodes = _by_level(root)
            trees.append(self._tree(i, nodes))
            order += [
                int(starts[node.batch] + rank[node.batch][node.place])
                for node in nodes
                if node.split is None and node.batch >= 0
            ]
        return [BoxedEvidence(whole, ProofTrees.joined(trees), batches, np.array(order, np.intp))]

    def _tree(self, row: int, nodes: list[_Node]) -> ProofTrees:
        """The splits of one row's boxes as a proof without multipliers."""
        grouped = np.flatnonzero(~self.domain.numeric)
        kind, column = np.full((2, len(nodes)), SplitKind.LEAF)
        where, options = np.zeros(len(nodes)), np.zeros((len(nodes), len(grouped)), dtype=bool)
        for place, node in enumerate(nodes):
            if node.split is not None:
                kind[place], column[place], where[place] = node.split[:3]
                options[place] = node.split.options[grouped]
        no_multipliers = np.zeros((len(nodes), 0))
        bound = np.zeros(1)
        return ProofTrees(np.array([row]), bound, kind, column, where, options, no_multipliers)


def _by_level(root: _Node) -> list[_Node]:
    """The nodes of a tree, level by level."""
    out = [root]
    for node in out:
        out += node.children
    return out
