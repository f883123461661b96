"""Binary trees in arrays, the cells that thresholds cut columns into, and leaves as boxes of cells.

On a product of cells, one of each feature, every tree has one leaf. Cells of a number are intervals
between thresholds, those of a category its values. What a leaf demands of a feature is a *test*: an
interval of cells, or a set of categories.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag

from counterpoint.errors import UnsupportedModel
from counterpoint.models.form import AffineMap
from counterpoint.numerics import AFTER, EPS, MISSING, BoolArray, FloatArray, IntArray
from counterpoint.programs.proof import SplitKind

PAIRS = 1 << 20
"""Pairs of a row and a tree that are walked at once: 8 MiB of each of a few arrays."""


@final
@dataclass(frozen=True, eq=False)
class Trees:
    """Binary trees in arrays, one node after the other."""

    inputs: IntArray  # (N,) the input that a node tests; −1 at a leaf
    thresholds: FloatArray  # (N,) an input up to it goes left, compared in float64
    left_child: IntArray  # (N,) at a leaf, the leaf itself
    right_child: IntArray  # (N,)
    values: FloatArray  # (N, k) what a leaf adds to each score
    roots: IntArray  # (T,)
    # (N,) which of the sets an input must be in to go left, instead of a threshold; −1 for none
    subset: IntArray
    subsets: tuple[FloatArray, ...] = ()  # sets of inputs that are categories, sorted
    missing: BoolArray | None = None  # (N,) whether missing values go left; None if none may be

    @classmethod
    def one(
        cls,
        inputs: Any,
        thresholds: Any,
        children: Any,
        values: FloatArray,
        missing: BoolArray | None = None,
        sets: tuple[Any, tuple[FloatArray, ...]] = (-1, ()),
    ) -> Trees:
        """Return one tree, of which the root comes first; its leaves have children (2, N) below 0.

        The ``sets`` of categories are the number of each node, −1 for a threshold, and all of them.
        """
        leaf, nodes = children[0] < 0, np.arange(len(values))
        below, above = np.where(leaf, nodes, children).astype(np.intp)
        return cls(
            np.where(leaf, -1, inputs).astype(np.intp),
            np.where(leaf, 0.0, thresholds),
            below,
            above,
            values,
            np.zeros(1, dtype=np.intp),
            np.where(leaf, -1, sets[0]),
            sets[1],
            missing,
        )

    @classmethod
    def joined(cls, members: list[Trees]) -> Trees:
        """Return the trees of all members."""
        if not members:
            raise UnsupportedModel("The model has no trees. Fit it with one at least.")
        starts = np.cumsum([0, *(len(trees.inputs) for trees in members)])
        sets = np.cumsum([0, *(len(trees.subsets) for trees in members)])
        pairs = list(zip(members, starts.tolist(), strict=False))
        missing = [trees.missing for trees in members if trees.missing is not None]
        subset = [
            np.where(trees.subset < 0, -1, trees.subset + start)
            for trees, start in zip(members, sets, strict=False)
        ]
        return cls(
            np.concatenate([trees.inputs for trees in members]),
            np.concatenate([trees.thresholds for trees in members]),
            np.concatenate([trees.left_child + start for trees, start in pairs]),
            np.concatenate([trees.right_child + start for trees, start in pairs]),
            np.vstack([trees.values for trees in members]),
            np.concatenate([trees.roots + start for trees, start in pairs]),
            np.concatenate(subset),
            tuple(values for trees in members for values in trees.subsets),
            np.concatenate(missing) if len(missing) == len(members) else None,
        )

    @cached_property
    def tested(self) -> IntArray:
        """The inputs that some node tests."""
        return np.unique(self.inputs[self.inputs >= 0])

    @cached_property
    def sizes(self) -> FloatArray:
        """(k,) the sum over trees of the largest size of a leaf's value."""
        order = np.argsort(self.roots)
        size = np.maximum.reduceat(np.abs(self.values), self.roots[order], axis=0)
        return np.asarray(size.sum(axis=0))

    def goes_left(self, node: int, inputs: FloatArray) -> BoolArray:
        """Return whether values (m,) of the input that a node tests go left."""
        if self.subset[node] >= 0:
            return np.isin(inputs, self.subsets[self.subset[node]])
        return np.asarray(inputs <= self.thresholds[node])

    def leaves(self, Z: FloatArray) -> IntArray:
        """Return the leaf (n, T) of each tree at inputs."""
        at = np.tile(self.roots, len(Z))
        open_ = np.flatnonzero(self.inputs[at] >= 0)  # pairs of a row and a tree not at a leaf yet
        has_missing = self.missing is not None and (Z == MISSING).any()
        missing_goes_left = self.missing if has_missing else None
        while len(open_):
            node = at[open_]
            z = Z[open_ // len(self.roots), self.inputs[node]]
            goes_left = z <= self.thresholds[node]
            for s in np.unique(self.subset[node]).tolist() if self.subsets else ():
                if s >= 0:  # the node tests a set of categories and no threshold
                    pairs = self.subset[node] == s
                    goes_left[pairs] = np.isin(z[pairs], self.subsets[s])
            if missing_goes_left is not None:
                goes_left = np.where(z == MISSING, missing_goes_left[node], goes_left)
            at[open_] = node = np.where(goes_left, self.left_child[node], self.right_child[node])
            open_ = open_[self.inputs[node] >= 0]
        return at.reshape(len(Z), len(self.roots))

    def summed(self, Z: FloatArray, start: FloatArray) -> FloatArray:
        """Return the sums (n, k) at inputs, added up tree by tree in the precision of a start."""
        out, step = np.tile(start, (len(Z), 1)), max(PAIRS // len(self.roots), 1)
        values = self.values.astype(start.dtype)
        for begin in range(0, len(Z), step):
            rows = slice(begin, begin + step)
            for leaves in self.leaves(Z[rows]).T:
                out[rows] += values[leaves]
        return out


def divided(before: AffineMap | None, inputs: int) -> tuple[Any, BoolArray]:
    """Return the rows of a map to inputs, sparse, and which inputs are columns as they are."""
    if before is None:
        return sparse.eye_array(inputs, format="csr"), np.ones(inputs, dtype=bool)
    matrix, sizes = sparse.csr_array(before.matrix), sparse.csr_array(before.sizes.matrix)
    matrix.eliminate_zeros()
    single = np.diff(matrix.indptr) == 1
    exact = single & (before.offset == 0.0) & (before.sizes.offset == 0.0)
    for i in np.flatnonzero(exact).tolist():
        row = matrix.data[matrix.indptr[i] : matrix.indptr[i + 1]]
        exact[i] = row[0] == 1.0 and sizes[[i]].sum() == 1.0
    return matrix, exact


@final
@dataclass(frozen=True, eq=False)
class Grid:
    """Cells, leaves and their tests, of F numbers and of groups with C categories in all."""

    columns: IntArray  # (F,) encoded columns that are numbers and tested
    groups: tuple[slice, ...]  # encoded columns of categories
    starts: IntArray  # (F + 1,) where the cells of each number begin
    # (M,) ends of what is surely in each cell, and of what may be: a pipeline may round
    inner_low: FloatArray
    inner_high: FloatArray
    outer_low: FloatArray
    outer_high: FloatArray
    # (M,) the threshold below each cell, and how far from it a pipeline's rounding leaves doubt
    cuts: FloatArray
    doubts: FloatArray
    # tests of numbers: the position of the number, and the first and last of its cells, from 0
    number: IntArray
    first: IntArray
    last: IntArray
    sets: BoolArray  # (tests of categories, C): which are in
    of_set: IntArray  # the group of each
    firsts: IntArray  # (groups,) where the categories of each begin
    tests: IntArray  # (L, w) the tests of each leaf: numbers first, padded by one more
    tree: IntArray  # (T,) where the leaves of each tree begin
    values: FloatArray  # (L, k)
    undivided: FloatArray  # (L, k) the same before the model divides them

    @property
    def pad(self) -> int:
        """The number of tests; as a test, the one that everything passes."""
        return len(self.number) + len(self.of_set)

    def inner(self, eps: float) -> tuple[FloatArray, FloatArray]:
        """Return the ends (M,) of what is surely in cells, where numbers have a precision."""
        low, high = self.inner_low, self.inner_high
        if eps <= EPS:
            return low, high
        with np.errstate(invalid="ignore", over="ignore"):  # of cells without an end
            share = 0.5 * eps / EPS
            low = low + np.nan_to_num(share * (low - self.outer_low))
            high = high - np.nan_to_num(share * (self.outer_high - high))
        return narrowed(low, high)

    @property
    def upper(self) -> FloatArray:
        """(M,) the threshold above each cell."""
        out = np.append(self.cuts, np.inf)[1:]
        out[self.starts[1:] - 1] = np.inf
        return out

    @cached_property
    def cell_owner(self) -> IntArray:
        """(M,) the number of each cell."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.starts))

    @cached_property
    def owner(self) -> IntArray:
        """(C,) the group of each category."""
        return np.repeat(np.arange(len(self.groups)), [g.stop - g.start for g in self.groups])

    @cached_property
    def members(self) -> IntArray:
        """(C,) the encoded column of each category."""
        none = np.zeros(0, dtype=np.intp)
        return np.concatenate([none, *(np.arange(g.start, g.stop) for g in self.groups)])

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Where the categories of each group are among those of all."""
        sizes = [group.stop - group.start for group in self.groups]
        return tuple(slice(a, a + m) for a, m in zip(self.firsts.tolist(), sizes, strict=True))

    @cached_property
    def tree_of(self) -> IntArray:
        """(L,) the tree of each leaf."""
        return np.repeat(np.arange(len(self.tree)), np.diff(self.tree, append=len(self.tests)))

    def parted(self, tests: IntArray) -> tuple[IntArray, IntArray]:
        """Return those of some tests that are of numbers, and of sets among those of sets."""
        count = len(self.number)
        return tests[tests < count], tests[(tests >= count) & (tests < self.pad)] - count

    def passes(self, cells: IntArray, categories: IntArray, tests: IntArray) -> BoolArray:
        """Return which of (m, w) tests are passed by m points: their cells and categories."""
        out, point = np.ones(tests.shape, dtype=bool), np.arange(len(tests))[:, None]
        point = np.broadcast_to(point, tests.shape)
        number, group = tests < len(self.number), (tests >= len(self.number)) & (tests < self.pad)
        n, m = tests[number], tests[group] - len(self.number)
        at = cells[point[number], self.number[n]]
        out[number] = (self.first[n] <= at) & (at <= self.last[n])
        out[group] = self.sets[m, categories[point[group], self.of_set[m]]]
        return out

    def passed(self, cells: IntArray, categories: IntArray) -> BoolArray:
        """Return which of all tests (tests + 1,) one point passes."""
        return self.passes(cells[None], categories[None], np.arange(self.pad + 1)[None])[0]

    def by_number(self, how: np.ufunc, values: Any) -> Any:
        """Reduce (n, M) values of cells to (n, F)."""
        return how.reduceat(values, self.starts[:-1], axis=1) if len(self.columns) else values

    def by_group(self, how: np.ufunc, values: Any) -> Any:
        """Reduce (n, C) values of categories to (n, groups)."""
        return how.reduceat(values, self.firsts, axis=1) if len(self.groups) else values

    def has(self, splits: IntArray) -> bool:
        """Return whether there are all of (n, 3) splits: kind, what and where.

        That is a number and its first cell in the second part, or a test of categories and 0.
        """
        kind, what, where = splits.T
        is_number = kind == SplitKind.NUMBER
        count = np.where(is_number, len(self.columns), len(self.of_set))
        valid = is_number | (kind == SplitKind.SET)
        valid &= (what >= 0) & (what < count) & (where >= 0)
        return bool(valid.all())

    @classmethod
    def of(
        cls,
        trees: Trees,
        before: AffineMap | None,
        groups: tuple[slice, ...],
        width: int,
        gone: IntArray,
        divisor: int = 1,
    ) -> Grid:
        """Return the grid of trees over encoded columns after a map, where some are missing."""
        columns, nodes = _read_nodes(trees, before, groups, width, gone)
        ends = np.cumsum([0, *(group.stop - group.start for group in groups)])
        # A cell reaches from above one cut up to the next; at a doubtful one, rounding has a say.
        cuts_of = [np.unique(nodes.cut[nodes.number == f]) for f in range(len(columns))]
        starts = np.cumsum([0, *(len(cuts) + 1 for cuts in cuts_of)]).astype(np.intp)
        cell, doubts = np.zeros(len(nodes.cut), dtype=np.intp), np.zeros(starts[-1] + 1)
        for f, cuts in enumerate(cuts_of):
            at = np.flatnonzero(nodes.number == f)
            cell[at] = np.searchsorted(cuts, nodes.cut[at])
            np.maximum.at(doubts, starts[f] + cell[at] + 1, nodes.doubt[at])
        cuts = np.concatenate([np.zeros(0), *([-np.inf, *cuts] for cuts in cuts_of)])
        high = np.concatenate([np.zeros(0), *([*cuts, np.inf] for cuts in cuts_of)])
        below, above = doubts[:-1], np.where(np.isinf(high), 0.0, doubts[1:])
        is_doubtful, after = below > 0.0, np.nextafter(cuts, np.inf)
        is_doubtful[starts[:-1]] = False  # there is no cut below a number's first cell
        inner_low, outer_low = (np.where(is_doubtful, cuts + d, after) for d in (below, -below))

        spans = [slice(a, b) for a, b in pairwise(ends.tolist())]
        most = np.diff(starts).max(initial=1)
        tree, leaf, demands = _leaf_tests(trees, nodes, cell, np.diff(starts), spans)
        row, count, uniques, ids = np.concatenate([rows for rows, _ in demands]), 0, [], []
        for _, values in demands:
            unique, index = np.unique(values, axis=0, return_inverse=True)
            uniques.append(unique)
            ids.append(count + index.ravel())
            count += len(unique)
        number, span, subsets = *np.divmod(uniques[0], most * most), uniques[1:]
        test = np.concatenate(ids)
        order, sizes = np.argsort(row, kind="stable"), np.bincount(row, minlength=len(leaf))
        place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        tests = np.full((len(leaf), max(int(sizes.max(initial=0)), 1)), count)
        tests[row[order], place] = test[order]
        return cls(
            columns,
            groups,
            starts,
            inner_low,
            high - above,
            outer_low,
            high + above,
            cuts,
            below,
            number,
            *np.divmod(span, most),
            block_diag(*subsets).astype(bool) if subsets else np.zeros((0, 0), dtype=bool),
            np.repeat(np.arange(len(groups)), [len(block) for block in subsets]),
            ends[:-1],
            tests,
            np.searchsorted(tree, np.arange(len(trees.roots))),
            trees.values[leaf] / divisor,
            trees.values[leaf],
        )


@final
class _NodeTests(NamedTuple):
    """What the N nodes of trees test, in encoded columns."""

    number: IntArray  # (N,) which number a node tests; −1 for none
    cut: FloatArray  # (N,) up to where it cuts its column, and how far rounding leaves doubt
    doubt: FloatArray
    falls: BoolArray  # (N,) whether the higher ones go left
    group: IntArray  # (N,) which group it tests; −1 for none
    goes_left: BoolArray  # (N, C) which categories do
    fixed: NDArray[np.int8]  # (N,) whether all do, of a node that tests what is constant; else −1


def _read_nodes(
    trees: Trees, before: AffineMap | None, groups: tuple[slice, ...], width: int, gone: IntArray
) -> tuple[IntArray, _NodeTests]:
    """Return the columns of numbers (F,) that are tested, and the tests; some are missing."""
    matrix, exact = divided(before, width)
    offset = np.zeros(width) if before is None else before.offset
    grouped = np.full(width, -1)
    for g, group in enumerate(groups):
        grouped[group] = g
    ends = np.cumsum([0, *(group.stop - group.start for group in groups)])
    tested = np.unique(matrix[trees.tested].indices)
    columns = np.setdiff1d(tested[grouped[tested] < 0], gone).astype(np.intp)
    n = len(trees.inputs)
    (number, owner), (cut, doubt) = np.full((2, n), -1), np.zeros((2, n))
    falls, fixed = np.zeros(n, dtype=bool), np.full(n, -1, dtype=np.int8)
    goes_left = np.zeros((n, ends[-1]), dtype=bool)
    for i in trees.tested.tolist():
        nodes = np.flatnonzero(trees.inputs == i)
        row = slice(matrix.indptr[i], matrix.indptr[i + 1])
        mixed, weights = matrix.indices[row], matrix.data[row]
        owners = np.unique(grouped[mixed])
        if len(owners) > 1 or (len(mixed) > 1 and owners[0] < 0):
            raise UnsupportedModel(
                f"The trees test input {i}, which mixes several columns, so that their leaves "
                "are no boxes. Fit them on columns that are scaled, selected or encoded one by "
                "one."
            )
        if trees.missing is not None and np.isin(mixed, gone).any():
            fixed[nodes] = trees.missing[nodes]
        elif not len(mixed):
            fixed[nodes] = [trees.goes_left(k, offset[[i]])[0] for k in nodes.tolist()]
        elif owners[0] >= 0:
            owner[nodes], group = owners[0], groups[owners[0]]
            span = slice(ends[owners[0]], ends[owners[0] + 1])
            values = np.full(group.stop - group.start, offset[i])
            values[mixed - group.start] += weights
            goes_left[nodes, span] = [trees.goes_left(k, values) for k in nodes.tolist()]
        else:
            number[nodes] = np.searchsorted(columns, mixed[0])
            falls[nodes], inexact = weights[0] < 0.0, None if exact[i] else before
            cut[nodes], doubt[nodes] = _cuts(trees, nodes, inexact, mixed[0], weights[0])
    return columns, _NodeTests(number, cut, doubt, falls, owner, goes_left, fixed)


def narrowed(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the intervals of float32 numbers within intervals."""
    with np.errstate(over="ignore"):
        first, last = low.astype(np.float32), high.astype(np.float32)
    first = np.where(first < low, np.nextafter(first, np.float32(np.inf)), first)
    last = np.where(last > high, np.nextafter(last, np.float32(-np.inf)), last)
    return first.astype(np.float64), last.astype(np.float64)


def _cuts(
    trees: Trees, nodes: IntArray, before: AffineMap | None, column: int, weight: float
) -> tuple[FloatArray, FloatArray]:
    """Return where nodes that test one input cut its column, and the doubt, in column units.

    The doubt is how far from a cut rounding may take an input across its threshold: nowhere, where
    it is the column itself (``before`` is None), or it is known how the model computes it.
    """
    i, thresholds = int(trees.inputs[nodes[0]]), trees.thresholds[nodes]
    if (trees.subset[nodes] >= 0).any():
        raise UnsupportedModel(
            f"The trees take input {i} as a category, and it is a number here. "
            "Describe its column as Categorical."
        )
    if before is None:
        return thresholds, np.zeros(len(thresholds))
    if i in before.computed:
        return before.last_up_to(i, thresholds), np.zeros(len(thresholds))
    cut = (thresholds - before.offset[i]) / weight
    sizes = before.sizes.take(np.array([i]))
    reach = np.zeros((len(cut), sizes.matrix.shape[1]))
    reach[:, column] = cut
    size = sizes(reach)[:, 0] + np.abs(thresholds)
    scale = abs(sparse.csr_array(before.matrix)[[i]].sum())
    # twice, so that a point beyond it is clear of the threshold after all of its roundings
    return cut, np.asarray(2.0 * (sizes.terms + AFTER) * EPS * size / scale)


def _leaf_tests(
    trees: Trees, nodes: _NodeTests, cell: IntArray, cells: IntArray, spans: list[slice]
) -> tuple[IntArray, IntArray, list[tuple[IntArray, NDArray[Any]]]]:
    """Return the tree and node of each leaf that something reaches, and what it demands.

    These are the tests of numbers, and then of each group, that not everything passes. Only nodes
    above a leaf are looked at: all leaves × all columns of a forest on wide tables are gigabytes.
    """
    tree, leaf, row, node, to_left = _paths(trees)
    fixed, reached = nodes.fixed[node], np.ones(len(leaf), dtype=bool)
    reached[row[(fixed >= 0) & ((fixed == 1) != to_left)]] = False
    at = np.flatnonzero(nodes.number[node] >= 0)
    at, begin, rows, f = _by_leaf(at, row, nodes.number[node])
    is_lower, end = nodes.falls[node[at]] != to_left[at], cell[node[at]]
    low = np.maximum.reduceat(np.where(is_lower, 0, end + 1), begin)
    high = np.minimum.reduceat(np.where(is_lower, end, cells[nodes.number[node[at]]] - 1), begin)
    reached[rows[low > high]] = False
    partial = (low > 0) | (high < cells[f] - 1)
    most = cells.max(initial=1)  # as one number: (number · most + first) · most + last
    tests: list[tuple[IntArray, NDArray[Any]]] = [
        (rows[partial], (f * most + low)[partial] * most + high[partial])
    ]
    for g, span in enumerate(spans):
        at, begin, rows, _ = _by_leaf(
            np.flatnonzero(nodes.group[node] == g), row, nodes.group[node]
        )
        passes = nodes.goes_left[node[at], span] == to_left[at, None]
        among: BoolArray = np.asarray(np.logical_and.reduceat(passes, begin, axis=0))
        reached[rows[~among.any(axis=1)]] = False
        partial = np.asarray(~among.all(axis=1))
        tests.append((rows[partial], among[partial]))
    place = np.cumsum(reached) - 1
    tests = [(place[rows[reached[rows]]], values[reached[rows]]) for rows, values in tests]
    return tree[reached], leaf[reached], tests


def _paths(trees: Trees) -> tuple[IntArray, IntArray, IntArray, IntArray, BoolArray]:
    """Return the tree and node of each leaf, tree by tree, and each with every node above it.

    These are pairs of a leaf's position and a node, and whether the leaf is on the node's left.
    """
    inner, parent = np.flatnonzero(trees.inputs >= 0), np.full(len(trees.inputs), -1)
    is_left = np.zeros(len(parent), dtype=bool)
    parent[trees.right_child[inner]] = parent[trees.left_child[inner]] = inner
    is_left[trees.left_child[inner]] = True
    leaf = np.flatnonzero(trees.inputs < 0)
    tree = np.full(len(parent), -1)
    tree[trees.roots] = np.arange(len(trees.roots))
    rows, above, sides = [], [], []
    row, at, top = np.arange(len(leaf)), leaf, np.array(leaf)
    while len(row):
        top[row] = at
        up = parent[at] >= 0
        row, at = row[up], at[up]
        rows.append(row)
        sides.append(is_left[at])
        at = parent[at]
        above.append(at)
    # Of leaves of equal values the first asks for splits: those near the root ask for few.
    depth, unreached = np.bincount(np.concatenate(rows), minlength=len(leaf)), tree[top] < 0
    order = np.lexsort((depth, tree[top]))[unreached.sum() :]
    place = np.full(len(leaf), -1)
    place[order] = np.arange(len(order))
    row = place[np.concatenate(rows)]
    reached = row >= 0
    node, to_left = np.concatenate(above)[reached], np.concatenate(sides)[reached]
    return tree[top[order]], leaf[order], row[reached], node, to_left


def _by_leaf(
    at: IntArray, row: IntArray, feature: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return some tests, leaf by leaf and feature by feature, where each pair begins, and both."""
    count = int(feature.max(initial=0)) + 1
    key = row[at] * count + feature[at]
    order = np.argsort(key, kind="stable")
    begin = np.flatnonzero(np.diff(key[order], prepend=-1))
    return at[order], begin, *np.divmod(key[order[begin]], count)
