"""Binary trees in arrays, and the leaves that rows come to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from counterpoint.errors import UnsupportedModel
from counterpoint.numerics import MISSING, BoolArray, FloatArray, IntArray


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

        The ``sets`` are the pair of `subset` and `subsets`.
        """
        is_leaf, nodes = children[0] < 0, np.arange(len(values))
        left, right = np.where(is_leaf, nodes, children).astype(np.intp)
        return cls(
            inputs=np.where(is_leaf, -1, inputs).astype(np.intp),
            thresholds=np.where(is_leaf, 0.0, thresholds),
            left_child=left,
            right_child=right,
            values=values,
            roots=np.zeros(1, dtype=np.intp),
            subset=np.where(is_leaf, -1, sets[0]),
            subsets=sets[1],
            missing=missing,
        )

    @classmethod
    def joined(cls, members: list[Trees]) -> Trees:
        """Return the trees of all members."""
        if not members:
            raise UnsupportedModel("The model has no trees. Fit it with one at least.")
        starts = np.cumsum([0, *(len(trees.inputs) for trees in members)])[:-1].tolist()
        first_sets = np.cumsum([0, *(len(trees.subsets) for trees in members)])[:-1].tolist()
        pairs = list(zip(members, starts, strict=True))
        missing = [trees.missing for trees in members if trees.missing is not None]
        subset = [
            np.where(trees.subset < 0, -1, trees.subset + first)
            for trees, first in zip(members, first_sets, strict=True)
        ]
        return cls(
            inputs=np.concatenate([trees.inputs for trees in members]),
            thresholds=np.concatenate([trees.thresholds for trees in members]),
            left_child=np.concatenate([trees.left_child + start for trees, start in pairs]),
            right_child=np.concatenate([trees.right_child + start for trees, start in pairs]),
            values=np.vstack([trees.values for trees in members]),
            roots=np.concatenate([trees.roots + start for trees, start in pairs]),
            subset=np.concatenate(subset),
            subsets=tuple(values for trees in members for values in trees.subsets),
            missing=np.concatenate(missing) if len(missing) == len(members) else None,
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
        """Return the leaf (n, T) of each tree at inputs (n, inputs)."""
        node_of_pair = np.tile(self.roots, len(Z))  # of a row and a tree
        inner = np.flatnonzero(self.inputs[node_of_pair] >= 0)  # pairs that are not at a leaf yet
        has_missing = self.missing is not None and (Z == MISSING).any()
        missing_goes_left = self.missing if has_missing else None
        while len(inner):
            node = node_of_pair[inner]
            z = Z[inner // len(self.roots), self.inputs[node]]
            goes_left = z <= self.thresholds[node]
            for s in np.unique(self.subset[node]).tolist() if self.subsets else ():
                if s >= 0:  # the node tests a set of categories and no threshold
                    with_set = self.subset[node] == s
                    goes_left[with_set] = np.isin(z[with_set], self.subsets[s])
            if missing_goes_left is not None:
                goes_left = np.where(z == MISSING, missing_goes_left[node], goes_left)
            node = np.where(goes_left, self.left_child[node], self.right_child[node])
            node_of_pair[inner] = node
            inner = inner[self.inputs[node] >= 0]
        return node_of_pair.reshape(len(Z), len(self.roots))

    def summed(self, Z: FloatArray, start: FloatArray) -> FloatArray:
        """Return the sums (n, k) at inputs, added up tree by tree in the precision of a start."""
        out = np.tile(start, (len(Z), 1))
        step = max((1 << 20) // len(self.roots), 1)  # 8 MiB an array of rows times trees
        values = self.values.astype(start.dtype)
        for begin in range(0, len(Z), step):
            rows = slice(begin, begin + step)
            for leaves in self.leaves(Z[rows]).T:
                out[rows] += values[leaves]
        return out
