"""Better explanations from those of a path, polished.

Polishing moves offsets so that more rows, not only means, arrive near the groups they are moved to.
Correctness and coverage are shares of rows within a radius ε of others. With 1[a <= ε] smoothed to
the logistic function of (ε − a) / τ they have gradients; τ falls as the search goes on. The ties of
the offsets are kept, so that no change gets denser, and what changes cost, and how far moved values
leave the range of the data, is charged, so that they do not grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import KDTree
from scipy.special import expit

from counterpoint.groups.path import Candidate, count_of
from counterpoint.groups.points import Points
from counterpoint.groups.problem import Fusion
from counterpoint.numerics import FloatArray, IntArray

__all__ = ["SmoothedRates", "polished", "prunable"]


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
