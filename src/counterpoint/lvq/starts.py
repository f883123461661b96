"""Training rows, and where training starts: the centres of k-means within each class.

Neither depends on the order of the rows or on how their labels are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

__all__ = ["Rows", "Start", "centres"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

SWEEPS = 20
"""At most so many times are rows assigned to centres anew: it is a start, not the answer."""
FLOOR = 0.1
"""How much of the scatter around prototypes is taken to be the same in all directions."""


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct weighted rows, class after class, centred and on a common scale.

    Parameters
    ----------
    x
        (n, d) (X − centre) / scale.
    label
        (n,) the class of each row, counted in the order of their first rows.
    weight
        (n,) positive, of sum 1.
    classes
        (C,) the position in the caller's classes of each class.
    centre
        (d,) the weighted mean, in feature units.
    scale
        The root of the mean variance of the columns, in feature units; 1 if that is 0.
    """

    x: FloatArray
    label: IntArray
    weight: FloatArray
    classes: IntArray
    centre: FloatArray
    scale: float

    @classmethod
    def of(cls, X: FloatArray, label: IntArray, weight: FloatArray) -> Rows:
        """Rows (n, d) with a class 0 … C − 1 and a positive weight each; equal ones are merged."""
        order = np.lexsort((weight, label, *X.T[::-1]))
        X, label, weight = X[order], label[order], weight[order]
        _, first, label = np.unique(label, return_index=True, return_inverse=True)
        classes = np.argsort(first)
        label = np.argsort(classes)[label]
        order = np.argsort(label, kind="stable")
        X, label, weight = X[order], label[order], weight[order]
        new = np.ones(len(X), dtype=bool)
        new[1:] = (X[1:] != X[:-1]).any(axis=1) | (label[1:] != label[:-1])
        starts = np.flatnonzero(new)
        X, label, weight = X[starts], label[starts], np.add.reduceat(weight, starts)
        weight = weight / weight.sum()
        centre = weight @ X
        X = X - centre
        scale = float(np.sqrt((weight @ (X * X)).mean())) or 1.0
        return cls(X / scale, label, weight, classes, centre, scale)

    def of_class(self, position: int) -> tuple[FloatArray, FloatArray]:
        """The rows of a class and their weights."""
        own = slice(*np.searchsorted(self.label, (position, position + 1)))
        return self.x[own], self.weight[own]


@final
@dataclass(frozen=True, eq=False)
class Start:
    """Prototypes before training, in the units of the rows.

    Parameters
    ----------
    rows
        What they were made from.
    prototypes
        (P, d), class after class.
    owner
        (P,) the class of each.
    """

    rows: Rows
    prototypes: FloatArray
    owner: IntArray

    @classmethod
    def of(cls, rows: Rows, counts: IntArray, random: np.random.RandomState) -> Start:
        """Centres of k-means in each class, as many as asked for.

        Parameters
        ----------
        rows
            The training rows.
        counts
            (C,) at most the number of distinct rows of each class.
        random
            Drawn from once; each class gets the same draws, so that their order does not matter.
        """
        seed = int(random.randint(np.iinfo(np.int32).max))
        found = [
            centres(*rows.of_class(c), int(count), np.random.RandomState(seed))
            for c, count in enumerate(counts)
        ]
        return cls(rows, np.vstack(found), np.repeat(np.arange(len(counts)), counts))

    @property
    def order(self) -> IntArray:
        """(P,) the prototypes in the order of the caller's classes."""
        return np.argsort(self.rows.classes[self.owner], kind="stable")

    @cached_property
    def own(self) -> BoolArray:
        """(n, P): whether the prototype has the label of the row."""
        return np.asarray(self.rows.label[:, None] == self.owner)

    def directions(self, rank: int) -> FloatArray:
        """(rank, d): those that tell the prototypes apart best, as in linear discriminant analysis.

        The identity, if space has no more directions than that.
        """
        width = self.prototypes.shape[1]
        if rank == width:
            return np.eye(width)
        distances = cdist(self.rows.x, self.prototypes, "sqeuclidean")
        nearest = np.where(self.own, distances, np.inf).argmin(axis=1)
        apart = self.rows.x - self.prototypes[nearest]
        within = apart.T @ (self.rows.weight[:, None] * apart)
        floor = FLOOR * (within.trace() / width or 1.0)
        within = (1.0 - FLOOR) * within + floor * np.eye(width)
        between = self.prototypes.T @ self.prototypes / len(self.prototypes)
        _, vectors = eigh(between, within)
        return np.asarray(vectors[:, ::-1][:, :rank].T)


def centres(
    x: FloatArray, weight: FloatArray, count: int, random: np.random.RandomState
) -> FloatArray:
    """(count, d) centres of weighted k-means.

    Parameters
    ----------
    x
        (n, d) distinct rows, at least as many as centres.
    weight
        (n,) positive.
    count
        The number of centres.
    random
        What the first centres are drawn with.

    References
    ----------
    Arthur & Vassilvitskii (2007), k-means++: the advantages of careful seeding; with the best of a
    few candidates in each draw.
    """
    found = _spread_out(x, weight, count, random)
    nearest = np.full(len(x), -1)
    for _ in range(SWEEPS):
        previous, nearest = nearest, cdist(x, found, "sqeuclidean").argmin(axis=1)
        if np.array_equal(previous, nearest):
            break
        share = (nearest == np.arange(count)[:, None]) * weight
        mass = share.sum(axis=1, keepdims=True)
        found = np.where(mass > 0.0, share @ x / np.where(mass > 0.0, mass, 1.0), found)
    return found


def _spread_out(
    x: FloatArray, weight: FloatArray, count: int, random: np.random.RandomState
) -> FloatArray:
    """(count, d) rows that are far from each other."""
    chosen = [int(random.choice(len(x), p=weight / weight.sum()))]
    far = cdist(x[chosen], x, "sqeuclidean")[0]
    tries = 2 + int(np.log(count))
    while len(chosen) < count:
        mass = weight * far if far.any() else weight  # rows may differ by less than rounding
        drawn = random.choice(len(x), size=tries, p=mass / mass.sum())
        left = np.minimum(far, cdist(x[drawn], x, "sqeuclidean"))
        best = int((left @ weight).argmin())
        chosen.append(int(drawn[best]))
        far = left[best]
    return x[chosen]
