"""Better explanations from those of a path: pruned to fewer features, or polished.

The penalty asks for few changes on average, whereas an explanation of k features is about the pair
that changes most. So offsets are made equal two levels at a time, where that lowers the numbers of
features of such pairs for the least loss, until no pair changes more than k.

Polishing moves offsets so that more rows, not only means, arrive near the groups they are moved to.
Correctness and coverage are shares of rows within a radius ε of others. With 1[a <= ε] smoothed to
the logistic function of (ε − a) / τ they have gradients; τ falls as the search goes on. The ties of
the offsets are kept, so that no change gets denser, and what changes cost, and how far moved values
leave the range of the data, is charged, so that they do not grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import KDTree
from scipy.special import expit

from counterpoint.groups.fitting import refit
from counterpoint.groups.path import Candidate, count_of
from counterpoint.groups.points import Points
from counterpoint.groups.problem import Fusion, Objective, moving
from counterpoint.numerics import FloatArray, IntArray

__all__ = ["SmoothedRates", "pair_counts", "polished", "prunable", "pruned"]


def pair_counts(D: FloatArray) -> IntArray:
    """(l, l) how many features each pair changes."""
    return np.asarray((D[:, None] != D[None]).sum(axis=2))


def prunable(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Some explanations to be pruned, from those of few features a pair to those of many.

    Pruning takes as many merges as features, each chosen among all by moving the means of the
    groups: at most 800 features, and about 80 000 means a merge.
    """
    count = len(candidates[0].translations.groups)
    wide = min(800, 80_000 // (count * count * (count - 1)))
    able = [one for one in candidates if 1 < len(one.translations.columns) <= wide]
    able.sort(key=lambda one: (count_of(one.translations, "each"), one.loss))
    places = np.linspace(0, len(able) - 1, min(most, len(able))).round().astype(int)
    return [able[i] for i in places]


def pruned(task: Objective, start: FloatArray, *, near: bool) -> Iterator[FloatArray]:
    """Offsets (l, d) of which no pair changes more than k features, for falling k, from a start.

    Greedy: of the merges that take a feature from pairs that change more than k, the one that
    raises the loss least for each pair that it takes it from; then the levels are refitted. With
    ``near``, only levels that are next to each other become one, where there are such: either way
    is better at times.
    """
    columns = moving(start)
    part, D = task.of(columns), start[:, columns]
    k = int(pair_counts(D).max(initial=0))
    while (k := min(k - 1, int(0.93 * k))) > 0:  # a large k falls by many features at once
        while ((counts := pair_counts(D)) > k).any():
            # A short refit: what is kept is refitted later.
            D = refit(part, _merged(part, D, counts > k, near=near), 0.0, steps=30).D
        whole = np.zeros_like(start)
        whole[:, columns] = D
        yield whole


def _merged(
    task: Objective, D: FloatArray, crowded: NDArray[np.bool_], *, near: bool
) -> FloatArray:
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
    task: Objective, D: FloatArray, crowded: NDArray[np.bool_], *, near: bool
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The merges of two levels that take a feature from crowded pairs.

    (q,) the feature of each; (q, l) its offsets then; (q,) from how many crowded pairs it is taken.
    """
    features, low, high = _levels(D, near=near)
    column, monotone = D[:, features].T, task.fusion.monotone[features, None]
    between = (low <= column) & (column <= high)  # in the order of the groups, these go along
    both = np.where(monotone != 0, between, (column == low) | (column == high))
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


@final
@dataclass(frozen=True, eq=False)
class SmoothedRates:
    """What polishing minimises: a price on changes, less smoothed correctness and coverage."""

    points: Points  # the rows that are to arrive
    cells: list[FloatArray]  # of each group, their values of the s features, in the offsets' units
    low: FloatArray  # (s,) the smallest and
    high: FloatArray  # (s,) the largest of these in the data
    matrix: FloatArray  # (s, h) what a change of each is after the affine part
    costs: FloatArray  # (s,) of a change of one unit
    level: IntArray  # (l, s) which level each offset is at: those that are tied share one
    radius: float  # ε

    @cached_property
    def _trees(self) -> list[KDTree]:
        return [KDTree(self.points.values[rows]) for rows in self.points.members]

    def value(self, levels: FloatArray, smooth: float, price: float) -> tuple[float, FloatArray]:
        """The objective of some levels and its gradient, at τ and the price of a unit of cost."""
        D = levels[self.level]
        Q = D @ self.matrix
        share, slope_Q = 0.0, np.zeros_like(Q)
        charge, slope = 0.0, np.zeros_like(D)
        for i in range(len(D)):
            others = np.delete(np.arange(len(D)), i)
            gain, pushes = self._arrivals(i, others, Q[others] - Q[i], smooth)
            cost, pulls = self._charges(i, D[others] - D[i])
            share, charge = share + gain, charge + cost
            slope_Q[others] += pushes
            slope_Q[i] -= pushes.sum(axis=0)
            slope[others] += pulls
            slope[i] -= pulls.sum(axis=0)
        pairs = len(D) * (len(D) - 1)
        total = (price * slope - slope_Q @ self.matrix.T) / pairs
        back = np.bincount(self.level.ravel(), weights=total.ravel(), minlength=len(levels))
        return (price * charge - share) / pairs, np.asarray(back, dtype=np.float64)

    def _arrivals(
        self, i: int, others: IntArray, shifts: FloatArray, smooth: float
    ) -> tuple[float, FloatArray]:
        """Smoothed shares of the rows of i, moved to others, and their gradients in the shifts."""
        rows = self.points.members[i]
        hidden = (self.points.hidden[rows] + shifts[:, None]).reshape(-1, shifts.shape[1])
        values, pull = self.points.parts.pull(hidden)
        moved = values.reshape(len(others), len(rows), -1)
        slopes, share = np.zeros_like(moved), 0.0
        for one, j in enumerate(others.tolist()):
            there = self.points.values[self.points.members[j]]
            away, near = self._trees[j].query(moved[one])
            gain, push = self._near(away, moved[one] - there[near], smooth)
            slopes[one] += push
            away, near = KDTree(moved[one]).query(there)
            more, push = self._near(away, moved[one][near] - there, smooth)
            np.add.at(slopes[one], near, push)
            share += gain + more
        pushed = pull(slopes.reshape(len(values), -1)).reshape(len(others), len(rows), -1)
        return share, pushed.sum(axis=1)

    def _near(self, away: FloatArray, apart: FloatArray, smooth: float) -> tuple[float, FloatArray]:
        """The smoothed share of distances within the radius, and its gradient in the points."""
        near = expit((self.radius - away) / smooth)
        steep = near * (1.0 - near) / smooth / np.maximum(away, 1e-12 * self.radius)
        return float(near.mean()), -steep[:, None] * apart / len(away)

    def _charges(self, i: int, changes: FloatArray) -> tuple[float, FloatArray]:
        """What changes (q, s) of the rows of i cost, and the gradient of that.

        A unit of change costs three times as much where it leaves the range of the data.
        """
        cost, slope = np.abs(changes), np.sign(changes)
        for one, change in enumerate(changes):
            moved = self.cells[i] + change
            above, below = moved - self.high, self.low - moved
            beyond = np.maximum(np.maximum(above, below), 0.0)
            tilt = (above > 0.0).mean(axis=0) - (below > 0.0).mean(axis=0)
            changed = change != 0.0
            cost[one] += 2.0 * beyond.mean(axis=0) * changed
            slope[one] += 2.0 * tilt * changed
        return float((cost * self.costs).sum()), slope * self.costs

    def charge(self, D: FloatArray) -> float:
        """What the changes of a pair cost on average."""
        own = [self._charges(i, np.delete(D, i, axis=0) - D[i])[0] for i in range(len(D))]
        return float(np.sum(own)) / (len(D) * (len(D) - 1))


def polished(aim: SmoothedRates, start: FloatArray, fusion: Fusion) -> FloatArray:
    """(l, s) offsets within the bounds by which more rows arrive, from some with the aim's ties."""
    middle = (start.max(axis=0) + start.min(axis=0)) / 2.0
    price = 0.2 / aim.charge(start)  # to change as much again costs 0.2 of the two shares
    levels, half = np.empty((2, int(aim.level.max()) + 1))
    levels[aim.level] = fusion.nearest(start - middle)
    half[aim.level] = fusion.reach / 2.0
    for smooth in (0.5, 0.25, 0.12):  # τ in units of the radius
        levels = minimize(
            aim.value,
            levels,
            args=(smooth * aim.radius, price),
            jac=True,
            method="L-BFGS-B",
            bounds=np.column_stack([-half, half]),
            options={"maxiter": 25},
        ).x
    return fusion.nearest(levels[aim.level])
