"""Offsets with fewer levels: what a penalty on all pairs does not find for few features.

The penalty asks for few changes on average, whereas an explanation of k features is about the pair
that changes most. So offsets are made equal two levels at a time, where that lowers the numbers of
features of such pairs for the least loss, until no pair changes more than k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups.fitting import refit
from counterpoint.groups.matching import Task
from counterpoint.groups.path import Candidate, count_of

__all__ = ["pair_counts", "prunable", "pruned"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

STEPS = 30
"""Of descent after two levels have become one; what is kept is refitted later."""
WORK = 80_000
"""Means of groups, moved, that one merge is chosen by, at most."""
WIDE = 800
"""Features of an explanation that is pruned, at most: it takes as many merges."""
FALL = 0.93
"""How much of a large k the next one is."""


def pair_counts(D: FloatArray) -> IntArray:
    """(l, l) how many features each pair changes."""
    return np.asarray((D[:, None] != D[None]).sum(axis=2))


def prunable(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Some explanations to be pruned, from those of few features a pair to those of many."""
    count = len(candidates[0].translations.groups)
    wide = min(WIDE, WORK // (count * count * (count - 1)))
    able = [one for one in candidates if 1 < len(one.translations.columns) <= wide]
    able.sort(key=lambda one: (count_of(one.translations, "each"), one.loss))
    places = np.linspace(0, len(able) - 1, min(most, len(able))).round().astype(int)
    return [able[i] for i in places]


def pruned(task: Task, start: FloatArray, *, near: bool) -> Iterator[FloatArray]:
    """Offsets (l, d) of which no pair changes more than k features, for falling k.

    Greedy: of the merges that take a feature from pairs that change more than k, the one that
    raises the loss least for each pair that it takes it from; then the levels are refitted.

    Parameters
    ----------
    task
        What is minimised.
    start
        (l, d) offsets to begin at.
    near
        Whether only levels that are next to each other become one, where there are such. Either way
        is better at times.
    """
    columns = np.flatnonzero(np.ptp(start, axis=0) > 0.0)
    part, D = task.of(columns), start[:, columns]
    k = int(pair_counts(D).max(initial=0))
    while (k := min(k - 1, int(FALL * k))) > 0:
        while ((counts := pair_counts(D)) > k).any():
            D = refit(part, _merged(part, D, counts > k, near=near), 0.0, steps=STEPS).D
        whole = np.zeros_like(start)
        whole[:, columns] = D
        yield whole


def _merged(task: Task, D: FloatArray, crowded: NDArray[np.bool_], *, near: bool) -> FloatArray:
    """Offsets after the merge that relieves crowded pairs for the least loss."""
    features, columns, gains = _relieving(task, D, crowded, near=near)
    if not len(features):  # only levels with another one between them are of crowded pairs
        features, columns, gains = _relieving(task, D, crowded, near=False)
    rise = task.exchanged(D, features, columns) - task.value(D)
    least = int(np.argmin(np.where(rise > 0.0, rise / gains, rise * gains)))
    merged = D.copy()
    merged[:, features[least]] = columns[least]
    return merged


def _relieving(
    task: Task, D: FloatArray, crowded: NDArray[np.bool_], *, near: bool
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The merges of two levels that take a feature from crowded pairs.

    Returns
    -------
    tuple
        (q,) the feature of each merge; (q, l) its offsets after it; and (q,) from how many crowded
        pairs it is taken.
    """
    features, low, high = _levels(D, near=near)
    column, course = D[:, features].T, task.fusion.course[features, None]
    between = (low <= column) & (column <= high)  # in the order of the groups, these go along
    both = np.where(course != 0, between, (column == low) | (column == high))
    level = (column * both).sum(axis=1) / both.sum(axis=1)
    apart = both[:, None] & both[:, :, None] & (column[:, None] != column[:, :, None])
    gains = (apart & crowded).sum(axis=(1, 2)) / 2.0
    kept = np.flatnonzero(gains)
    return features[kept], np.where(both, level[:, None], column)[kept], gains[kept]


def _levels(D: FloatArray, *, near: bool) -> tuple[IntArray, FloatArray, FloatArray]:
    """Two levels of a feature (q,), (q, 1), (q, 1): all of them, or those next to each other."""
    ascending = np.sort(D, axis=0)
    new = np.concatenate([np.ones((1, D.shape[1]), dtype=bool), ascending[1:] > ascending[:-1]])
    if near:
        first, second = np.arange(len(D) - 1), np.arange(1, len(D))
        apart = new[second]
    else:
        first, second = np.triu_indices(len(D), 1)
        apart = new[first] & new[second]
    features, at = np.nonzero(apart.T)
    low, high = ascending[first[at], features], ascending[second[at], features]
    return features, low[:, None], high[:, None]
