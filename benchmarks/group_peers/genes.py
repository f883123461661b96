"""Blood cells: changes of few genes, against differences of means and against t-tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from sklearn.decomposition import PCA

from counterpoint.groups import GroupTranslations, Limits

FloatArray = NDArray[np.float64]
Rows = tuple[FloatArray, Sequence[int | None]]
"""(n, d) rows and their groups."""

DIMENSIONS = 8
LEAST = 20
"""Cells of a cluster that is explained."""


def blood(file: Path) -> tuple[FloatArray, list[int | None], PCA, list[str]]:
    """Standardised genes of 700 cells, their clusters, principal components, and names."""
    kept = np.load(file)
    X, labels = kept["X_scaled"].astype(float), kept["louvain"].astype(int)
    large = np.bincount(labels) >= LEAST
    groups = [int(label) if large[label] else None for label in labels]
    return X, groups, PCA(DIMENSIONS, random_state=0).fit(X), kept["genes"].tolist()


def fitted(
    space: Any, X: FloatArray, groups: Sequence[int | None], times: float
) -> GroupTranslations:
    """Ours, with changes of at most so many ranges of the cluster means."""
    return GroupTranslations(space, limits=Limits(times=times)).fit(X, groups)


def t_statistics(a: FloatArray, b: FloatArray) -> FloatArray:
    """Student's, of two samples, gene by gene; 0 where both are constant."""
    spread = len(a) * a.var(axis=0) + len(b) * b.var(axis=0)
    scale = np.sqrt(spread / (len(a) + len(b) - 2) * (1.0 / len(a) + 1.0 / len(b)))
    apart = b.mean(axis=0) - a.mean(axis=0)
    return np.divide(apart, scale, out=np.zeros_like(apart), where=scale > 0.0)


def by_tests(learnt: Rows, there: Rows, space: Any, radius: float, k: int) -> tuple[float, float]:
    """Of the k genes of the largest t-statistics of each pair, changed by the difference of means.

    Returns
    -------
    tuple
        Correctness, equation (3), and the share of changed values out of the range of the rows that
        it is learnt from; means over pairs.
    """
    own, others = (dict(_by_group(*rows)) for rows in (learnt, there))
    low, high = (end(np.vstack(list(own.values())), axis=0) for end in (np.min, np.max))
    trees = {label: KDTree(space.transform(rows)) for label, rows in others.items()}
    found = []
    for i, j in permutations(own, 2):
        kept = np.argsort(-np.abs(t_statistics(own[i], own[j])), kind="stable")[:k]
        moved = others[i].copy()
        moved[:, kept] += own[j].mean(axis=0)[kept] - own[i].mean(axis=0)[kept]
        near = trees[j].query(space.transform(moved))[0] <= radius
        out = (moved < low) | (moved > high)
        found.append((near.mean(), out[:, kept].mean()))
    rates = np.mean(found, axis=0)
    return float(rates[0]), float(rates[1])


def _by_group(X: FloatArray, groups: Sequence[int | None]) -> Iterator[tuple[int, FloatArray]]:
    member = np.array([-1 if label is None else label for label in groups])
    for label in np.unique(member[member >= 0]).tolist():
        yield label, X[member == label]
