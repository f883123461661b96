"""Binary trees in arrays, the cells that thresholds cut columns into, and leaves as boxes of cells.

On a product of cells, one of each feature, every tree has one leaf. Cells of a number are intervals
between thresholds, those of a category its values. What a leaf demands of a feature is a *test*: an
interval of cells, or a set of categories.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import UnsupportedModel
from counterpoint.models.form import AffineMap
from counterpoint.numerics import AFTER, EPS, MISSING, BoolArray, FloatArray, IntArray
from counterpoint.programs.proof import NUMBER, SET

__all__ = ["Grid", "Trees", "divided", "narrowed"]

BLOCK = 1 << 23
"""Nodes × columns that are followed down at once: 64 MiB of first and last cells."""
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
        gaps = None if self.missing is None or not (Z == MISSING).any() else self.missing
        while len(open_):
            node = at[open_]
            z = Z[open_ // len(self.roots), self.inputs[node]]
            goes_left = z <= self.thresholds[node]
            for s in np.unique(self.subset[node]).tolist() if self.subsets else ():
                if s >= 0:
                    pairs = self.subset[node] == s
                    goes_left[pairs] = np.isin(z[pairs], self.subsets[s])
            if gaps is not None:
                goes_left = np.where(z == MISSING, gaps[node], goes_left)
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
        count = np.where(kind == NUMBER, len(self.columns), len(self.of_set))
        valid = ((kind == NUMBER) | (kind == SET)) & (what >= 0) & (what < count) & (where >= 0)
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
        """Return the grid of trees over encoded columns after a map, where some are missing.

        Raises
        ------
        UnsupportedModel
            If an input that is tested mixes several features.
        """
        nodes = _NodeTests.of(trees, before, groups, width, gone)
        (tree, leaf), (rows, codes), subsets = _leaf_tests(trees, nodes)
        most, width = np.diff(nodes.starts).max(initial=1), nodes.goes_left.shape[1]
        unique, ids = np.unique(codes, return_inverse=True)
        number, ends = np.divmod(unique, most * most)
        count, pairs, sets = len(unique), [(rows, ids)], [np.zeros((0, width), dtype=bool)]
        for span, (rows, categories) in zip(nodes.spans, subsets, strict=True):
            unique, ids = np.unique(categories, axis=0, return_inverse=True)
            pairs.append((rows, count + ids.ravel()))
            whole = np.zeros((len(unique), width), dtype=bool)
            whole[:, span] = unique
            sets.append(whole)
            count += len(unique)
        rows, ids = _stacked(pairs)
        order, sizes = np.argsort(rows, kind="stable"), np.bincount(rows, minlength=len(leaf))
        place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        tests = np.full((len(leaf), max(int(sizes.max(initial=0)), 1)), count)
        tests[rows[order], place] = ids[order]
        of_set = np.repeat(np.arange(len(groups)), [len(block) for block in sets[1:]])
        return cls(
            nodes.columns,
            groups,
            nodes.starts,
            *nodes.edges,
            nodes.cuts,
            nodes.doubts,
            number,
            *np.divmod(ends, most),
            np.vstack(sets),
            of_set,
            np.array([span.start for span in nodes.spans], dtype=np.intp),
            tests,
            np.searchsorted(tree, np.arange(len(trees.roots))),
            trees.values[leaf] / divisor,
            trees.values[leaf],
        )


@final
@dataclass(frozen=True, eq=False)
class _NodeTests:
    """The tests of all nodes of trees, in cells."""

    columns: IntArray  # (F,) encoded columns that are numbers and tested
    spans: tuple[slice, ...]  # where the categories of each group are among those of all
    starts: IntArray  # (F + 1,) where the cells of each number begin
    edges: tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # (M,) each, see `Grid`
    cuts: FloatArray  # (M,) both, see `Grid`
    doubts: FloatArray
    number: IntArray  # (N,) which number a node tests; −1 for none
    cell: IntArray  # (N,) the last cell on the side of the lower ones
    falls: BoolArray  # (N,) whether the higher ones go left
    group: IntArray  # (N,) which group it tests; −1 for none
    goes_left: BoolArray  # (N, C) which categories do
    fixed: NDArray[np.int8]  # (N,) whether all do, of a node that tests what is constant; else −1

    @classmethod
    def of(
        cls,
        trees: Trees,
        before: AffineMap | None,
        groups: tuple[slice, ...],
        width: int,
        gone: IntArray,
    ) -> _NodeTests:
        """Return the tests of nodes on encoded columns, of which some are missing."""
        matrix, exact = divided(before, width)
        offset = np.zeros(width) if before is None else before.offset
        grouped = np.full(width, -1)
        for g, group in enumerate(groups):
            grouped[group] = g
        ends = np.cumsum([0, *(group.stop - group.start for group in groups)])
        spans = tuple(slice(a, b) for a, b in pairwise(ends.tolist()))
        tested = np.unique(matrix[trees.tested].indices)
        columns = np.setdiff1d(tested[grouped[tested] < 0], gone).astype(np.intp)
        count = len(trees.inputs)
        (number, owner), (cut, slack) = np.full((2, count), -1), np.zeros((2, count))
        fixed = np.full(count, -1, dtype=np.int8)
        falls, goes_left = np.zeros(count, dtype=bool), np.zeros((count, ends[-1]), dtype=bool)
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
            missing = np.isin(mixed, gone).any()
            constant = _constant(trees, nodes, None if missing else mixed, offset[[i]])
            if constant is not None:
                fixed[nodes] = constant
                continue
            if owners[0] < 0:
                number[nodes] = np.searchsorted(columns, mixed[0])
                falls[nodes], inexact = weights[0] < 0.0, None if exact[i] else before
                cut[nodes], slack[nodes] = _cuts(trees, nodes, inexact, mixed[0], weights[0])
                continue
            owner[nodes], span = owners[0], spans[owners[0]]
            values = np.full(span.stop - span.start, offset[i])
            values[mixed - groups[owners[0]].start] += weights
            goes_left[nodes, span] = [trees.goes_left(k, values) for k in nodes.tolist()]
        cuts_of = [np.unique(cut[number == f]) for f in range(len(columns))]
        starts = np.cumsum([0, *(len(cuts) + 1 for cuts in cuts_of)]).astype(np.intp)
        cell, doubts = np.zeros(count, dtype=np.intp), np.zeros(starts[-1] + 1)
        for f, cuts in enumerate(cuts_of):
            nodes = np.flatnonzero(number == f)
            cell[nodes] = np.searchsorted(cuts, cut[nodes])
            np.maximum.at(doubts, starts[f] + cell[nodes] + 1, slack[nodes])
        cuts = np.concatenate([np.zeros(0), *([-np.inf, *cuts] for cuts in cuts_of)])
        high = np.concatenate([np.zeros(0), *([*cuts, np.inf] for cuts in cuts_of)])
        # A cell reaches from above one cut up to the next; at a doubtful one, rounding has a say.
        below, above = doubts[:-1], np.where(np.isinf(high), 0.0, doubts[1:])
        is_doubtful, after = below > 0.0, np.nextafter(cuts, np.inf)
        is_doubtful[starts[:-1]] = False  # there is no cut below a number's first cell
        inner_low, outer_low = (np.where(is_doubtful, cuts + d, after) for d in (below, -below))
        edges = inner_low, high - above, outer_low, high + above
        tests = number, cell, falls, owner, goes_left, fixed
        return cls(columns, spans, starts, edges, cuts, doubts[:-1], *tests)


def narrowed(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the intervals of float32 numbers within intervals."""
    with np.errstate(over="ignore"):
        first, last = low.astype(np.float32), high.astype(np.float32)
    first = np.where(first < low, np.nextafter(first, np.float32(np.inf)), first)
    last = np.where(last > high, np.nextafter(last, np.float32(-np.inf)), last)
    return first.astype(np.float64), last.astype(np.float64)


def _constant(
    trees: Trees, nodes: IntArray, columns: IntArray | None, offset: FloatArray
) -> BoolArray | None:
    """Return whether all goes left at nodes that test no column, or one that is missing (None)."""
    if columns is None:
        return None if trees.missing is None else trees.missing[nodes]
    if len(columns):
        return None
    return np.array([trees.goes_left(k, offset)[0] for k in nodes.tolist()])


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


_Tests = tuple[NDArray[Any], NDArray[Any]]
"""Leaves, and of each a test: (number · c + first cell) · c + last, or a set of categories; c is
the most cells that a number has."""


def _leaf_tests(trees: Trees, nodes: _NodeTests) -> tuple[_Tests, _Tests, list[_Tests]]:
    """Return the tree and node of each leaf, and the leaves' tests of numbers and of each group.

    A leaf names at most as many features as it is deep. So leaves are followed down in blocks of
    trees, and only what they name is kept: all leaves × all columns of a forest on wide tables are
    gigabytes.
    """
    order = np.argsort(trees.roots)
    sizes = np.empty(len(order), dtype=np.intp)
    sizes[order] = np.diff(trees.roots[order], append=len(trees.inputs))
    width = len(nodes.columns) + nodes.goes_left.shape[1]
    block = np.cumsum(sizes) * max(width, 1) // BLOCK  # of each tree
    cells, count = np.diff(nodes.starts), 0
    most = cells.max(initial=1)
    leaves, ranges = list[_Tests](), list[_Tests]()
    subsets: list[list[_Tests]] = [[] for _ in nodes.spans]
    for chunk in np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(block)) + 1):
        tree, leaf, low, high, among = _leaves(trees, nodes, chunk)
        leaves.append((tree, leaf))
        rows, f = np.nonzero((low > 0) | (high < cells - 1))
        ranges.append((count + rows, (f * most + low[rows, f]) * most + high[rows, f]))
        for span, tests in zip(nodes.spans, subsets, strict=True):
            rows = np.flatnonzero(~among[:, span].all(axis=1))
            tests.append((count + rows, among[rows, span]))
        count += len(leaf)
    return _stacked(leaves), _stacked(ranges), [*map(_stacked, subsets)]


def _stacked(blocks: list[_Tests]) -> _Tests:
    rows, tests = zip(*blocks, strict=True)
    return np.concatenate(rows), np.concatenate(tests)


def _leaves(trees: Trees, nodes: _NodeTests, which: IntArray) -> tuple[NDArray[Any], ...]:
    """Return the leaves of some trees: tree, node, their cells and categories."""
    cells = np.diff(nodes.starts)
    at = trees.roots[which]
    level: tuple[NDArray[Any], ...] = (
        which,
        at,
        np.zeros((len(at), len(cells)), dtype=np.int32),
        np.tile((cells - 1).astype(np.int32), (len(at), 1)),
        np.ones((len(at), nodes.goes_left.shape[1]), dtype=bool),
    )
    leaves = []
    while len(level[0]):
        is_leaf = trees.inputs[level[1]] < 0
        leaves.append(tuple(array[is_leaf] for array in level))
        inner = tuple(array[~is_leaf] for array in level)
        sides = [_children(trees, nodes, inner, to_left=to_left) for to_left in (True, False)]
        level = tuple(np.concatenate(arrays) for arrays in zip(*sides, strict=True))
    joined = tuple(np.concatenate(arrays) for arrays in zip(*leaves, strict=True))
    order = np.argsort(joined[0], kind="stable")
    return tuple(array[order] for array in joined)


def _children(
    trees: Trees, nodes: _NodeTests, level: tuple[NDArray[Any], ...], *, to_left: bool
) -> list[NDArray[Any]]:
    """Return the children on one side, without those that nothing reaches."""
    tree, at, low, high, among = level
    low, high, among = np.array(low), np.array(high), np.array(among)
    rows = np.flatnonzero(nodes.number[at] >= 0)
    f, cell = nodes.number[at[rows]], nodes.cell[at[rows]]
    lower = nodes.falls[at[rows]] != to_left
    high[rows[lower], f[lower]] = np.minimum(high[rows[lower], f[lower]], cell[lower])
    upper = ~lower
    low[rows[upper], f[upper]] = np.maximum(low[rows[upper], f[upper]], cell[upper] + 1)
    live: BoolArray = np.asarray((low <= high).all(axis=1))
    goes = nodes.goes_left[at] == to_left
    for g, span in enumerate(nodes.spans):
        rows = np.flatnonzero(nodes.group[at] == g)
        among[rows, span] &= goes[rows, span]
        live[rows] &= among[rows, span].any(axis=1)
    live &= (nodes.fixed[at] < 0) | ((nodes.fixed[at] == 1) == to_left)
    child = (trees.left_child if to_left else trees.right_child)[at]
    return [array[live] for array in (tree, child, low, high, among)]
