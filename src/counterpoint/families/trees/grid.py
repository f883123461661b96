"""The cells that thresholds cut columns into, and leaves of trees as boxes of cells.

On a product of cells, one of each feature, every tree has one leaf. Cells of a *number* (a numeric
column that some tree tests) are intervals between thresholds; a *group* has categories instead. The
demand of a leaf on one feature is a *test*: an interval of cells, or a set of categories. Leaves of
all trees share their tests, which are numbered: first those of numbers, then those of groups.
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
from counterpoint.families.trees.ensemble import Trees
from counterpoint.models.form import AffineMap
from counterpoint.numerics import AFTER, EPS, BoolArray, FloatArray, IntArray
from counterpoint.programs.proof import SplitKind


def divided(before: AffineMap | None, inputs: int) -> tuple[Any, BoolArray]:
    """Return the matrix of a map to inputs, sparse, and which inputs are columns as they are."""
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
    """Cells, leaves and their tests, of F numbers and of groups with C categories in all.

    The M cells of all numbers stand one after the other, and so do the categories of all groups.
    """

    columns: IntArray  # (F,) encoded columns that are numbers and tested
    groups: tuple[slice, ...]  # encoded columns of categories
    starts: IntArray  # (F + 1,) where the cells of each number begin
    # (M,) the least and largest values that are in a cell for sure, and that may be: a pipeline
    # before the trees may round a value across a threshold
    inner_low: FloatArray
    inner_high: FloatArray
    outer_low: FloatArray
    outer_high: FloatArray
    # (M,) the threshold below each cell, and how far from it a pipeline's rounding leaves doubt
    cuts: FloatArray
    doubts: FloatArray
    # tests of numbers: the number, and the first and the last of its cells, counted from 0
    test_number: IntArray
    test_first: IntArray
    test_last: IntArray
    sets: BoolArray  # (tests of groups, C) the categories that pass; none of other groups
    set_group: IntArray  # the group of each of these tests
    group_starts: IntArray  # (groups,) where the categories of each begin
    tests: IntArray  # (L, w) the tests of each leaf, padded by the one that everything passes
    tree_starts: IntArray  # (T,) where the leaves of each tree begin
    values: FloatArray  # (L, k) what leaves add to scores
    undivided: FloatArray  # (L, k) the same before the model divides them

    @property
    def pad(self) -> int:
        """The number of tests; as a test, the one that everything passes."""
        return len(self.test_number) + len(self.set_group)

    def inner(self, eps: float) -> tuple[FloatArray, FloatArray]:
        """Return `inner_low` and `inner_high` in a precision in which 1 + eps follows 1."""
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
        return _upper_cuts(self.cuts, self.starts)

    @cached_property
    def cell_number(self) -> IntArray:
        """(M,) the number of each cell."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.starts))

    @cached_property
    def category_group(self) -> IntArray:
        """(C,) the group of each category."""
        return np.repeat(np.arange(len(self.groups)), [g.stop - g.start for g in self.groups])

    @cached_property
    def category_columns(self) -> IntArray:
        """(C,) the encoded column of each category."""
        none = np.zeros(0, dtype=np.intp)
        return np.concatenate([none, *(np.arange(g.start, g.stop) for g in self.groups)])

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """The positions of each group's categories among those of all groups."""
        sizes = [group.stop - group.start for group in self.groups]
        return tuple(
            slice(a, a + m) for a, m in zip(self.group_starts.tolist(), sizes, strict=True)
        )

    @cached_property
    def leaf_tree(self) -> IntArray:
        """(L,) the tree of each leaf."""
        return np.repeat(
            np.arange(len(self.tree_starts)), np.diff(self.tree_starts, append=len(self.tests))
        )

    def by_kind(self, tests: IntArray) -> tuple[IntArray, IntArray]:
        """Return the tests of numbers among some, and those of groups as positions in ``sets``."""
        count = len(self.test_number)
        return tests[tests < count], tests[(tests >= count) & (tests < self.pad)] - count

    def failing(self, sets: IntArray) -> BoolArray:
        """Return the categories (m, C) that fail m tests: of the group, and not in the set."""
        return ~self.sets[sets] & (self.category_group == self.set_group[sets, None])

    def passes(self, cells: IntArray, categories: IntArray, tests: IntArray) -> BoolArray:
        """Return which of its tests (m, w) each of m points passes.

        Points are given by their cells (m, F) and categories (m, groups).
        """
        out, count = np.ones(tests.shape, dtype=bool), len(self.test_number)
        point = np.broadcast_to(np.arange(len(tests))[:, None], tests.shape)
        of_number, of_group = tests < count, (tests >= count) & (tests < self.pad)
        n, m = tests[of_number], tests[of_group] - count
        cell = cells[point[of_number], self.test_number[n]]
        out[of_number] = (self.test_first[n] <= cell) & (cell <= self.test_last[n])
        out[of_group] = self.sets[m, categories[point[of_group], self.set_group[m]]]
        return out

    def passed(self, cells: IntArray, categories: IntArray) -> BoolArray:
        """Return which of all tests (tests + 1,) one point passes."""
        return self.passes(cells[None], categories[None], np.arange(self.pad + 1)[None])[0]

    def by_number(self, how: np.ufunc, values: Any) -> Any:
        """Reduce (n, M) values of cells to (n, F)."""
        return how.reduceat(values, self.starts[:-1], axis=1) if len(self.columns) else values

    def by_group(self, how: np.ufunc, values: Any) -> Any:
        """Reduce (n, C) values of categories to (n, groups)."""
        return how.reduceat(values, self.group_starts, axis=1) if len(self.groups) else values

    def has(self, splits: IntArray) -> bool:
        """Return whether all of (n, 3) splits are possible: kind, what and where.

        A split is a number and the first cell of its second part, or a test of a group and 0.
        """
        kind, what, where = splits.T
        count = np.where(kind == SplitKind.NUMBER, len(self.columns), len(self.set_group))
        valid = (kind == SplitKind.NUMBER) | (kind == SplitKind.SET)
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
        """Return the grid of trees over encoded columns; a map leads from these to the inputs.

        ``groups`` are the columns of categories, and ``gone`` are columns that are missing.
        """
        columns, nodes = _read_nodes(trees, before, groups, width, gone)
        starts, cuts, doubts, node_cell = _cut_cells(nodes, len(columns))
        upper, below = _upper_cuts(cuts, starts), doubts[:-1]
        above = np.where(np.isinf(upper), 0.0, doubts[1:])
        is_doubtful, after = below > 0.0, np.nextafter(cuts, np.inf)
        is_doubtful[starts[:-1]] = False  # there is no cut below a number's first cell
        inner_low, outer_low = (np.where(is_doubtful, cuts + d, after) for d in (below, -below))

        ends = np.cumsum([0, *(group.stop - group.start for group in groups)])
        spans = [slice(a, b) for a, b in pairwise(ends.tolist())]
        cell_counts = np.diff(starts)
        tree, leaf, demands = _leaf_tests(trees, nodes, node_cell, cell_counts, spans)
        # Equal demands of several leaves are one test.
        count, uniques, numbered = 0, [], []
        for _, values in demands:
            unique, index = np.unique(values, axis=0, return_inverse=True)
            uniques.append(unique)
            numbered.append(count + index.ravel())
            count += len(unique)
        tests = _side_by_side(
            np.concatenate([leaves for leaves, _ in demands]),
            np.concatenate(numbered),
            shape=len(leaf),
            padding=count,
        )
        most = cell_counts.max(initial=1)
        (number, interval), subsets = np.divmod(uniques[0], most * most), uniques[1:]
        first, last = np.divmod(interval, most)
        return cls(
            columns=columns,
            groups=groups,
            starts=starts,
            inner_low=inner_low,
            inner_high=upper - above,
            outer_low=outer_low,
            outer_high=upper + above,
            cuts=cuts,
            doubts=below,
            test_number=number,
            test_first=first,
            test_last=last,
            sets=block_diag(*subsets).astype(bool) if subsets else np.zeros((0, 0), dtype=bool),
            set_group=np.repeat(np.arange(len(groups)), [len(block) for block in subsets]),
            group_starts=ends[:-1],
            tests=tests,
            tree_starts=np.searchsorted(tree, np.arange(len(trees.roots))),
            values=trees.values[leaf] / divisor,
            undivided=trees.values[leaf],
        )


def _side_by_side(row: IntArray, value: IntArray, shape: int, padding: int) -> IntArray:
    """Return the values of each of so many rows side by side, in their order, and padded."""
    order, sizes = np.argsort(row, kind="stable"), np.bincount(row, minlength=shape)
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    out = np.full((shape, max(int(sizes.max(initial=0)), 1)), padding)
    out[row[order], place] = value[order]
    return out


@final
class _NodeTests(NamedTuple):
    """What the N nodes of trees test, in encoded columns: a number, a group, or a constant."""

    number: IntArray  # (N,) the number that a node tests; −1 for none
    cut: FloatArray  # (N,) its value up to which rows go one way
    doubt: FloatArray  # (N,) how far from the cut rounding may send rows the other way
    falls: BoolArray  # (N,) whether rows above the cut go left, and not those up to it
    group: IntArray  # (N,) the group that it tests; −1 for none
    goes_left: BoolArray  # (N, C) the categories that go left
    constant: NDArray[np.int8]  # (N,) 1 if all rows go left, 0 if all go right, −1 if some do


def _read_nodes(
    trees: Trees, before: AffineMap | None, groups: tuple[slice, ...], width: int, gone: IntArray
) -> tuple[IntArray, _NodeTests]:
    """Return the columns (F,) of numbers that are tested and not missing, and the nodes' tests.

    An input has to depend on one number or one group alone. Raise an `UnsupportedModel` if a tested
    one does not: leaves would be no boxes.
    """
    matrix, exact = divided(before, width)
    offset = np.zeros(width) if before is None else before.offset
    group_of_column = np.full(width, -1)
    for g, group in enumerate(groups):
        group_of_column[group] = g
    ends = np.cumsum([0, *(group.stop - group.start for group in groups)])
    tested = np.unique(matrix[trees.tested].indices)
    columns = np.setdiff1d(tested[group_of_column[tested] < 0], gone).astype(np.intp)
    n = len(trees.inputs)
    (number, node_group), (cut, doubt) = np.full((2, n), -1), np.zeros((2, n))
    falls, constant = np.zeros(n, dtype=bool), np.full(n, -1, dtype=np.int8)
    goes_left = np.zeros((n, ends[-1]), dtype=bool)
    for i in trees.tested.tolist():
        nodes = np.flatnonzero(trees.inputs == i)
        entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
        # The input is Σ weights · columns over these sources.
        sources, weights = matrix.indices[entries], matrix.data[entries]
        source_groups = np.unique(group_of_column[sources])
        if len(source_groups) > 1 or (len(sources) > 1 and source_groups[0] < 0):
            raise UnsupportedModel(
                f"The trees test input {i}, which mixes several columns, so that their leaves "
                "are no boxes. Fit them on columns that are scaled, selected or encoded one by "
                "one."
            )
        if trees.missing is not None and np.isin(sources, gone).any():
            constant[nodes] = trees.missing[nodes]
        elif not len(sources):
            constant[nodes] = [trees.goes_left(k, offset[[i]])[0] for k in nodes.tolist()]
        elif source_groups[0] >= 0:
            g = int(source_groups[0])
            node_group[nodes] = g
            values = np.full(ends[g + 1] - ends[g], offset[i])  # of the input, category by category
            values[sources - groups[g].start] += weights
            left = [trees.goes_left(k, values) for k in nodes.tolist()]
            goes_left[nodes, ends[g] : ends[g + 1]] = left
        else:
            number[nodes] = np.searchsorted(columns, sources[0])
            falls[nodes], inexact = weights[0] < 0.0, None if exact[i] else before
            cut[nodes], doubt[nodes] = _cuts(trees, nodes, inexact, sources[0], weights[0])
    return columns, _NodeTests(number, cut, doubt, falls, node_group, goes_left, constant)


def _cut_cells(
    nodes: _NodeTests, numbers: int
) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    """Return the cells between the cuts of numbers, and each node's.

    That is where the cells of each number begin (F + 1,), the cut below each cell (M,), how far
    from it rounding leaves doubt, (M + 1,) with 0 in the end, and the last cell up to the cut of
    each node (N,), counted from 0. A cell reaches from above one cut up to the next.
    """
    cuts_of = [np.unique(nodes.cut[nodes.number == f]) for f in range(numbers)]
    starts = np.cumsum([0, *(len(cuts) + 1 for cuts in cuts_of)]).astype(np.intp)
    node_cell, doubts = np.zeros(len(nodes.cut), dtype=np.intp), np.zeros(starts[-1] + 1)
    for f, cuts in enumerate(cuts_of):
        tests = np.flatnonzero(nodes.number == f)
        node_cell[tests] = np.searchsorted(cuts, nodes.cut[tests])
        np.maximum.at(doubts, starts[f] + node_cell[tests] + 1, nodes.doubt[tests])
    cuts = np.concatenate([np.zeros(0), *([-np.inf, *cuts] for cuts in cuts_of)])
    return starts, cuts, doubts, node_cell


def _upper_cuts(cuts: FloatArray, starts: IntArray) -> FloatArray:
    """Return the cut above each cell (M,) from those below; infinite above a number's last cell."""
    upper = np.append(cuts, np.inf)[1:]
    upper[starts[1:] - 1] = np.inf
    return upper


def narrowed(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and largest float32 numbers of intervals, as float64 numbers."""
    with np.errstate(over="ignore"):
        first, last = low.astype(np.float32), high.astype(np.float32)
    first = np.where(first < low, np.nextafter(first, np.float32(np.inf)), first)
    last = np.where(last > high, np.nextafter(last, np.float32(-np.inf)), last)
    return first.astype(np.float64), last.astype(np.float64)


def _cuts(
    trees: Trees, nodes: IntArray, before: AffineMap | None, column: int, weight: float
) -> tuple[FloatArray, FloatArray]:
    """Return where nodes that test one input cut its column, and the doubts, in column units.

    The input is weight · column + offset, or the column itself (``before`` is None). A doubt is how
    far from a cut rounding may take the input across its threshold: 0 if it is the column itself,
    or if it is known how the model computes it.
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
    size = sizes(reach)[:, 0] + np.abs(thresholds)  # of the terms of the input at the cut
    # twice, so that a point beyond it is clear of the threshold after all of its roundings
    return cut, np.asarray(2.0 * (sizes.terms + AFTER) * EPS * size / abs(weight))


def _leaf_tests(
    trees: Trees, nodes: _NodeTests, node_cell: IntArray, cells: IntArray, spans: list[slice]
) -> tuple[IntArray, IntArray, list[tuple[IntArray, NDArray[Any]]]]:
    """Return the tree and the node of each leaf that some row reaches, and the leaves' demands.

    Demands are pairs of arrays, the leaves and what each demands: first intervals of numbers, then
    the categories (demands, categories) of each group; without demands that everything passes. An
    interval is one number, (number · most + first cell) · most + last cell, where ``most`` is the
    largest number of ``cells`` (F,). Only nodes above a leaf are looked at: all leaves × all
    columns of a forest on wide tables are gigabytes.
    """
    tree, leaf, pair_leaf, pair_node, to_left = _paths(trees)
    # No row reaches a leaf on the other side of a node where all rows go one way.
    constant, reached = nodes.constant[pair_node], np.ones(len(leaf), dtype=bool)
    reached[pair_leaf[(constant >= 0) & ((constant == 1) != to_left)]] = False

    # Of each leaf and number, the cells that pass all nodes above the leaf that test the number.
    pairs = np.flatnonzero(nodes.number[pair_node] >= 0)
    pairs, begin, leaves, number = _by_leaf(pairs, pair_leaf, nodes.number[pair_node])
    node, end = pair_node[pairs], node_cell[pair_node[pairs]]
    is_below = nodes.falls[node] != to_left[pairs]  # whether the cells up to the cut pass
    low = np.maximum.reduceat(np.where(is_below, 0, end + 1), begin)
    high = np.minimum.reduceat(np.where(is_below, end, cells[nodes.number[node]] - 1), begin)
    reached[leaves[low > high]] = False
    is_demand, most = (low > 0) | (high < cells[number] - 1), cells.max(initial=1)
    interval = (number * most + low) * most + high
    demands: list[tuple[IntArray, NDArray[Any]]] = [(leaves[is_demand], interval[is_demand])]

    # Of each leaf and group, the categories that pass.
    for g, span in enumerate(spans):
        pairs = np.flatnonzero(nodes.group[pair_node] == g)
        pairs, begin, leaves, _ = _by_leaf(pairs, pair_leaf, nodes.group[pair_node])
        passes = nodes.goes_left[pair_node[pairs], span] == to_left[pairs, None]
        among: BoolArray = np.asarray(np.logical_and.reduceat(passes, begin, axis=0))
        reached[leaves[~among.any(axis=1)]] = False
        is_demand = np.asarray(~among.all(axis=1))
        demands.append((leaves[is_demand], among[is_demand]))
    # Leaves are numbered anew, without those that no row reaches, and these make no demands.
    new_position = np.cumsum(reached) - 1
    demands = [
        (new_position[leaves[reached[leaves]]], values[reached[leaves]])
        for leaves, values in demands
    ]
    return tree[reached], leaf[reached], demands


def _paths(trees: Trees) -> tuple[IntArray, IntArray, IntArray, IntArray, BoolArray]:
    """Return the tree and the node of each leaf, tree by tree, and the nodes above each leaf.

    The latter are pairs of a leaf's position and a node above it, and whether the leaf is on the
    node's left: three arrays with one entry for each pair.
    """
    inner, parent = np.flatnonzero(trees.inputs >= 0), np.full(len(trees.inputs), -1)
    is_left = np.zeros(len(parent), dtype=bool)
    parent[trees.right_child[inner]] = parent[trees.left_child[inner]] = inner
    is_left[trees.left_child[inner]] = True
    leaf = np.flatnonzero(trees.inputs < 0)
    # All leaves climb one level in each step, until they are at their roots.
    leaves_of_step, node_of_step, left_of_step = [], [], []
    climbing, node, top = np.arange(len(leaf)), leaf, np.array(leaf)
    while len(climbing):
        top[climbing] = node
        below_root = parent[node] >= 0
        climbing, node = climbing[below_root], node[below_root]
        leaves_of_step.append(climbing)
        left_of_step.append(is_left[node])
        node = parent[node]
        node_of_step.append(node)
    pair_leaf = np.concatenate(leaves_of_step)
    tree_of_node = np.full(len(parent), -1)
    tree_of_node[trees.roots] = np.arange(len(trees.roots))
    tree = tree_of_node[top]  # −1 for nodes that no root leads to, which are left out
    # Of leaves of equal values the first asks for splits: those near the root ask for few.
    depth = np.bincount(pair_leaf, minlength=len(leaf))
    order = np.lexsort((depth, tree))[(tree < 0).sum() :]
    place = np.full(len(leaf), -1)
    place[order] = np.arange(len(order))
    pair_leaf = place[pair_leaf]
    kept = pair_leaf >= 0
    pair_node, to_left = np.concatenate(node_of_step)[kept], np.concatenate(left_of_step)[kept]
    return tree[order], leaf[order], pair_leaf[kept], pair_node, to_left


def _by_leaf(
    pairs: IntArray, pair_leaf: IntArray, feature: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return pairs sorted by leaf and then by feature, and the runs in which both are the same.

    Of each run, that is where it begins, its leaf and its feature.
    """
    count = int(feature.max(initial=0)) + 1
    key = pair_leaf[pairs] * count + feature[pairs]
    order = np.argsort(key, kind="stable")
    begin = np.flatnonzero(np.diff(key[order], prepend=-1))
    return pairs[order], begin, *np.divmod(key[order[begin]], count)
