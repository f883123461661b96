"""Binary trees in arrays, and the leaves that inputs come to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.errors import UnsupportedModel
from counterpoint.numerics import MISSING, BoolArray, FloatArray, IntArray

__all__ = ["Trees"]

CELLS = 1 << 20
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

    def valued(self, values: FloatArray) -> Trees:
        """Return the same trees with other values of their leaves."""
        return replace(self, values=values)

    def over(self, inputs: IntArray) -> Trees:
        """Return the same trees where their inputs have these numbers."""
        return replace(self, inputs=np.where(self.inputs < 0, -1, inputs[self.inputs]))

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
        s = int(self.subset[node])
        if s >= 0:
            return np.isin(inputs, self.subsets[s])
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
        out, step = np.tile(start, (len(Z), 1)), max(CELLS // len(self.roots), 1)
        values = self.values.astype(start.dtype)
        for begin in range(0, len(Z), step):
            rows = slice(begin, begin + step)
            for leaves in self.leaves(Z[rows]).T:
                out[rows] += values[leaves]
        return out
