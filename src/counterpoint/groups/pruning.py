"""Offsets with fewer levels: what a penalty on all pairs does not find for few features.

The penalty asks for few changes on average, whereas an explanation of k features is about the pair
that changes most. So offsets are made equal two levels at a time, where that lowers the numbers of
features of such pairs for the least loss, until no pair changes more than k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import final

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
FALL = 0.93
"""How much of a large k the next one is."""


@final
@dataclass(frozen=True, eq=False)
class _Merge:
    """Levels of a feature that become one.

    Parameters
    ----------
    feature
        Its position.
    groups
        Those at these levels.
    level
        What they share then.
    """

    feature: int
    groups: IntArray
    level: float


def pair_counts(D: FloatArray) -> IntArray:
    """(l, l) how many features each pair changes."""
    return np.asarray((D[:, None] != D[None]).sum(axis=2))


def prunable(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Some explanations to be pruned, from those of few features a pair to those of many."""
    count = len(candidates[0].translations.groups)
    wide = WORK // (count * count * (count - 1))
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
    merges, gains = _relieving(list(_merges(task, D, near=near)), D, crowded)
    if not merges:  # only levels with another one between them are of crowded pairs
        merges, gains = _relieving(list(_merges(task, D, near=False)), D, crowded)
    tried = np.repeat(D[None], len(merges), axis=0)
    for one, merge in zip(tried, merges, strict=True):
        one[merge.groups, merge.feature] = merge.level
    rise = task.values(tried) - task.value(D)
    worth = np.where(rise > 0.0, rise / gains, rise * gains)
    return np.asarray(tried[int(np.argmin(worth))])


def _merges(task: Task, D: FloatArray, *, near: bool) -> Iterator[_Merge]:
    """Pairs of levels of each feature: all of them, or those next to each other.

    Where offsets are in the order of the groups, with all levels between them.
    """
    for feature, (column, course) in enumerate(zip(D.T, task.fusion.course, strict=True)):
        levels = np.unique(column)
        for low, high in pairwise(levels) if near else combinations(levels, 2):
            between = (low <= column) & (column <= high)
            both = np.flatnonzero(between if course else (column == low) | (column == high))
            yield _Merge(feature, both, float(column[both].mean()))


def _relieving(
    merges: Sequence[_Merge], D: FloatArray, crowded: NDArray[np.bool_]
) -> tuple[list[_Merge], FloatArray]:
    """The merges that take a feature from crowded pairs, and from how many."""
    gains = np.zeros(len(merges))
    for place, one in enumerate(merges):
        column = D[one.groups, one.feature]
        apart = column[:, None] != column
        gains[place] = (crowded[np.ix_(one.groups, one.groups)] & apart).sum() / 2.0
    kept = np.flatnonzero(gains).tolist()
    return [merges[i] for i in kept], gains[kept]
