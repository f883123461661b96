"""Training rows, and where training starts: the centres of k-means within each class.

Neither depends on the order of the rows or on how their labels are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from counterpoint.numerics import BoolArray, FloatArray, IntArray

__all__ = ["TrainingRows", "centres", "directions", "starting_prototypes"]


@final
@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Distinct weighted rows, class after class, centred and on a common scale."""

    x: FloatArray  # (n, d) (X − centre) / scale
    label: IntArray  # (n,) the class of each row, counted in the order of their first rows
    weight: FloatArray  # (n,) positive, of sum 1
    classes: IntArray  # (C,) the position in the caller's classes of each class
    centre: FloatArray  # (d,) the weighted mean, in feature units
    scale: float  # the root of the mean variance of the columns, in feature units; 1 if that is 0

    @classmethod
    def of(cls, X: FloatArray, label: IntArray, weight: FloatArray) -> TrainingRows:
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


def starting_prototypes(
    rows: TrainingRows, counts: IntArray, random: np.random.RandomState
) -> tuple[FloatArray, IntArray]:
    """(P, d) k-means centres in each class, each from the same draws, and (P,) their classes."""
    seed = int(random.randint(np.iinfo(np.int32).max))
    ends = np.searchsorted(rows.label, np.arange(len(counts) + 1))
    found = [
        centres(rows.x[a:b], rows.weight[a:b], int(count), np.random.RandomState(seed))
        for a, b, count in zip(ends[:-1], ends[1:], counts, strict=True)
    ]
    return np.vstack(found), np.repeat(np.arange(len(counts)), counts)


def directions(rows: TrainingRows, prototypes: FloatArray, own: BoolArray, rank: int) -> FloatArray:
    """(rank, d): those that tell the prototypes apart best, as in linear discriminant analysis."""
    width = prototypes.shape[1]
    if rank == width:
        return np.eye(width)
    nearest = np.where(own, cdist(rows.x, prototypes, "sqeuclidean"), np.inf).argmin(axis=1)
    apart = rows.x - prototypes[nearest]
    within = apart.T @ (rows.weight[:, None] * apart)
    shrinkage = 0.1  # of the scatter around prototypes, to the same in all directions
    floor = shrinkage * (within.trace() / width or 1.0)
    within = (1.0 - shrinkage) * within + floor * np.eye(width)
    _, vectors = eigh(prototypes.T @ prototypes / len(prototypes), within)
    return np.asarray(vectors[:, ::-1][:, :rank].T)


def centres(
    x: FloatArray, weight: FloatArray, count: int, random: np.random.RandomState
) -> FloatArray:
    """(count, d) centres of weighted k-means of distinct rows (n, d), n ≥ count."""
    found = _spread_out(x, weight, count, random)
    nearest = np.full(len(x), -1)
    for _ in range(20):  # it is a start, not the answer
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
