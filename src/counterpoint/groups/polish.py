"""Offsets moved so that more rows, not only means, arrive near the groups they are moved to.

Correctness and coverage are shares of rows within a radius ε of others. With 1[a <= ε] smoothed to
the logistic function of (ε − a) / τ they have gradients; τ falls as the search goes on. The ties of
the offsets are kept, so that no change gets denser, and what changes cost, and how far moved values
leave the range of the data, is charged, so that they do not grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import KDTree
from scipy.special import expit

from counterpoint.groups.fusion import Fusion
from counterpoint.groups.metrics import Points

__all__ = ["Aim", "polished", "ties"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

SMOOTH = (0.5, 0.25, 0.12)
"""τ, one after the other, in units of the radius."""
STEPS = 25
"""Iterations of L-BFGS at each of them."""
PRICE = 0.2
"""What it costs to change as much again as the offsets do, in units of the two shares."""
BEYOND = 2.0
"""What a unit of change costs more where it leaves the range of the data."""


@final
@dataclass(frozen=True, eq=False)
class Aim:
    """What is minimised: a price on changes, less smoothed correctness and coverage.

    Parameters
    ----------
    points
        The rows that are to arrive.
    cells
        (n, s) their values of the features that change, in the units of the offsets.
    ends
        (2, s) the smallest and largest values of these in the data.
    matrix
        (s, h) what a change of each is after the affine part of the representation.
    costs
        (s,) what a change of one unit costs.
    level
        (l, s) which level each offset is at: those that are tied share one.
    radius
        ε.
    """

    points: Points
    cells: FloatArray
    ends: FloatArray
    matrix: FloatArray
    costs: FloatArray
    level: IntArray
    radius: float

    @cached_property
    def _trees(self) -> list[KDTree]:
        return [KDTree(self.points.values[rows]) for rows in self._rows]

    @cached_property
    def _rows(self) -> list[IntArray]:
        return [self.points.groups.rows(i) for i in range(len(self.level))]

    def value(self, levels: FloatArray, smooth: float, price: float) -> tuple[float, FloatArray]:
        """The objective and its gradient.

        Parameters
        ----------
        levels
            The levels of the offsets.
        smooth
            τ.
        price
            What a unit of cost is charged.
        """
        D = levels[self.level]
        Q = D @ self.matrix
        share, slope_Q = 0.0, np.zeros_like(Q)
        charge, slope = 0.0, np.zeros_like(D)
        for i in range(len(D)):
            others = np.array([j for j in range(len(D)) if j != i])
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
        rows = self._rows[i]
        hidden = (self.points.hidden[rows] + shifts[:, None]).reshape(-1, shifts.shape[1])
        values, pull = self.points.parts.pull(hidden)
        moved = values.reshape(len(others), len(rows), -1)
        slopes, share = np.zeros_like(moved), 0.0
        for one, j in enumerate(others.tolist()):
            there = self.points.values[self._rows[j]]
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
        """What changes (q, s) of the rows of i cost, and the gradient of that."""
        low, high = self.ends
        cells = self.cells[self._rows[i]]
        cost, slope = np.abs(changes), np.sign(changes)
        for one, change in enumerate(changes):
            moved = cells + change
            above, below = moved - high, low - moved
            beyond = np.maximum(np.maximum(above, below), 0.0)
            tilt = (above > 0.0).mean(axis=0) - (below > 0.0).mean(axis=0)
            changed = change != 0.0
            cost[one] += BEYOND * beyond.mean(axis=0) * changed
            slope[one] += BEYOND * tilt * changed
        return float((cost * self.costs).sum()), slope * self.costs

    def charge(self, D: FloatArray) -> float:
        """What the changes of a pair cost on average."""
        own = [self._charges(i, np.delete(D, i, axis=0) - D[i])[0] for i in range(len(D))]
        return float(np.sum(own)) / (len(D) * (len(D) - 1))


def ties(D: FloatArray) -> IntArray:
    """(l, s) which level each offset is at, over all columns."""
    level, count = np.empty(D.shape, dtype=np.intp), 0
    for c, column in enumerate(D.T):
        values, places = np.unique(column, return_inverse=True)
        level[:, c] = places + count
        count += len(values)
    return level


def polished(aim: Aim, start: FloatArray, fusion: Fusion) -> FloatArray:
    """(l, s) offsets by which more rows arrive.

    Parameters
    ----------
    aim
        What is minimised.
    start
        (l, s) offsets to begin at, with the ties of the aim.
    fusion
        The bounds.
    """
    middle = (start.max(axis=0) + start.min(axis=0)) / 2.0
    price = PRICE / aim.charge(start)
    levels, half = np.empty((2, int(aim.level.max()) + 1))
    levels[aim.level] = fusion.nearest(start - middle)
    half[aim.level] = fusion.reach / 2.0
    for smooth in SMOOTH:
        levels = minimize(
            aim.value,
            levels,
            args=(smooth * aim.radius, price),
            jac=True,
            method="L-BFGS-B",
            bounds=np.column_stack([-half, half]),
            options={"maxiter": STEPS},
        ).x
    return fusion.nearest(levels[aim.level])
