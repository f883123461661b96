"""The optimisation problem: a least-squares loss and the pairwise-fused penalty, exactly.

An explanation is offsets D (l, d), a row for each group; the change from group i to group j is
D_j − D_i. Each feature f is charged w_f Σ_{i<j} |D_jf − D_if|, and no change of it may be larger
than its reach. Only differences count, so that each column may be shifted until it lies between
minus and plus half of the reach: a bound on all changes is, exactly, a box on the offsets. Of a
feature that may only rise from each group to the next, the offsets are in that order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from counterpoint.groups.representations import Composed, FloatArray, IntArray, Matrix, dense

__all__ = ["Fusion", "Task", "rising"]

MOVED = 2**15
"""Means of groups, moved, that are mapped at a time where there are very many: a few megabytes."""


@final
@dataclass(frozen=True, eq=False)
class Fusion:
    """The penalty Σ_f w_f Σ_{i<j} |v_j − v_i| of the columns v of D, with what they may be.

    Parameters
    ----------
    groups
        l, the number of rows.
    weight
        (d,) w, positive.
    reach
        (d,) the largest change; 0 for a feature that stays, infinite for a free one.
    course
        (d,) 1 for a feature that may only rise from each group to the next, −1 for one that may
        only fall, 0 for others.
    """

    groups: int
    weight: FloatArray
    reach: FloatArray
    course: IntArray

    def of(self, columns: IntArray) -> Fusion:
        """The penalty of some columns."""
        return Fusion(self.groups, self.weight[columns], self.reach[columns], self.course[columns])

    @cached_property
    def ranks(self) -> FloatArray:
        """(l,) how many entries are smaller, less how many are larger, in ascending order."""
        return np.arange(1.0 - self.groups, self.groups, 2.0)

    @cached_property
    def cuts(self) -> FloatArray:
        """(l − 1,) m (l − m): how many pairs a split into the first m and the rest separates."""
        first = np.arange(1.0, self.groups)
        return first * (self.groups - first)

    def value(self, D: FloatArray) -> float:
        """Σ_f w_f Σ_{i<j} |D_jf − D_if|."""
        return float((self.ranks @ np.sort(D, axis=0)) @ self.weight)

    def prox(self, V: FloatArray, step: float) -> FloatArray:
        """The columns v within their bounds of least ½‖v − V‖² + step w Σ_{i<j} |v_j − v_i|.

        In ascending order the penalty is linear, so that what is left is isotonic regression; and
        the best within a box is the best, clipped to it.
        """
        rows = (V * self._sign).T
        places = np.argsort(rows, axis=1, kind="stable")
        if self._ordered.any():
            places[self._ordered] = np.arange(self.groups)
        places += self._begins
        target = rows.ravel()[places] - step * self._charges
        half = self.reach[:, None] / 2.0
        found = np.empty(target.size)
        found[places.ravel()] = np.clip(rising(target), -half, half).ravel()
        return found.reshape(target.shape).T * self._sign

    def nearest(self, V: FloatArray) -> FloatArray:
        """The columns within their bounds that are nearest to those of V."""
        if self._ordered.any():
            return self.prox(V, 0.0)
        return np.clip(V, -self.reach / 2.0, self.reach / 2.0)

    @cached_property
    def _sign(self) -> FloatArray:
        return np.where(self.course < 0, -1.0, 1.0)

    @cached_property
    def _ordered(self) -> NDArray[np.bool_]:
        return self.course != 0

    @cached_property
    def _begins(self) -> IntArray:
        return self.groups * np.arange(len(self.weight))[:, None]

    @cached_property
    def _charges(self) -> FloatArray:
        return self.weight[:, None] * self.ranks

    def pulls(self, G: FloatArray) -> FloatArray:
        """(l − 1, d) how much a pull G, of column sums 0, gains per unit of each split.

        The offsets of the m groups that are pulled up most rise against those of the rest.
        """
        G, free = G * self._sign, ~self._ordered
        G[:, free] = np.sort(G[:, free], axis=0)
        return np.cumsum(G[::-1], axis=0)[:-1]

    def excess(self, G: FloatArray, strength: float) -> FloatArray:
        """(d,) how far a pull exceeds what keeps a column at zero; negative where it stays.

        A column stays at zero if and only if no split gains more than it costs.
        """
        costs = strength * self.weight * self.cuts[:, None]
        excess = (self.pulls(G) - costs).max(axis=0)
        return np.where(self.reach > 0.0, excess, -np.inf)

    def critical(self, G: FloatArray) -> float:
        """The least λ for which D = 0 withstands a pull."""
        worth = (self.pulls(G) / self.cuts[:, None]).max(axis=0) / self.weight
        return float(worth[self.reach > 0.0].max(initial=0.0))

    def conjugate(self, G: FloatArray, strength: float) -> float:
        """The largest ⟨G, D⟩ − λ value(D) over the D within their bounds; G has column sums 0.

        It is convex and, order by order, linear, so that it is largest at a split with all of the
        reach between its sides.
        """
        excess = np.maximum(self.excess(G, strength), 0.0)
        positive = excess > 0.0
        return float(excess[positive] @ self.reach[positive])


def rising(T: FloatArray) -> FloatArray:
    """(d, l) the non-decreasing rows nearest to those of T (least squares).

    All rows are one isotonic regression, each above the one before, so that none is pooled with
    another; entries of a pool are equal to the last bit.
    """
    count, width = T.shape
    if not count:
        return T.copy()
    low = T.min(axis=1, keepdims=True)
    span = T.max(axis=1, keepdims=True) - low
    span[span == 0.0] = 1.0
    level = (T - low) / span + 2.0 * np.arange(count)[:, None]
    starts = np.zeros(T.size, dtype=bool)
    starts[isotonic_regression(level.ravel()).blocks[:-1]] = True
    starts[::width] = True
    inner = np.arange(T.size) % width > 0
    while True:
        begins = np.flatnonzero(starts)
        ends = np.append(begins[1:], T.size)
        means = np.add.reduceat(T.ravel(), begins) / (ends - begins)
        # What rounding in common units kept apart is pooled in the row's own.
        falls = np.flatnonzero((means[1:] <= means[:-1]) & inner[begins[1:]])
        if not len(falls):
            return np.repeat(means, ends - begins).reshape(T.shape)
        starts[begins[1:][falls]] = False


@final
@dataclass(frozen=True, eq=False)
class Task:
    """Minimise loss(D M) + λ Σ_f w_f Σ_{i<j} |D_jf − D_if| over offsets D within their bounds.

    The loss is the mean over i ≠ j of ½‖r(x̄_i + D_j − D_i) − r̄_j‖², of equation (9), as a function
    of Q = D M, (l, h): what offsets are after the affine part of the representation.

    Parameters
    ----------
    base
        (l, h) the means of the groups after the affine part.
    targets
        (l, m) r̄, the means of the representations of their rows.
    parts
        The representation.
    matrix
        (d, h) M, dense or sparse: the matrix of its affine part, in the units of D.
    fusion
        The penalty and the bounds.
    """

    base: FloatArray
    targets: FloatArray
    parts: Composed
    matrix: Matrix
    fusion: Fusion

    @property
    def shape(self) -> tuple[int, int]:
        """(l, d)."""
        return len(self.base), int(self.matrix.shape[0])

    @property
    def is_convex(self) -> bool:
        """Whether the representation is affine."""
        return self.parts.rest is None

    def of(self, columns: IntArray) -> Task:
        """The task over some features, where all others stay."""
        return replace(self, matrix=self.matrix[columns], fusion=self.fusion.of(columns))

    def value(self, D: FloatArray) -> float:
        """The loss."""
        return self._loss(dense(D @ self.matrix))[0]

    def slope(self, D: FloatArray) -> tuple[float, FloatArray]:
        """The loss and its gradient (l, d), whose columns add up to 0."""
        loss, slope = self._loss(dense(D @ self.matrix))
        return loss, dense(slope() @ self.matrix.T)

    def _loss(self, Q: FloatArray) -> tuple[float, Callable[[], FloatArray]]:
        """The loss, and what computes its gradient (l, h)."""
        count = len(Q)
        if self.is_convex:  # r̄_j = r(x̄_j), and pairs add up to a variance
            away = Q - self.targets
            away -= away.mean(axis=0)
            loss = float(np.vdot(away, away)) / (count - 1)
            return loss, lambda: 2.0 / (count - 1) * away
        values, pull = self.parts.pull(((self.base - Q)[:, None] + Q).reshape(-1, Q.shape[1]))
        away = values.reshape(count, count, -1) - self.targets  # of the mean of i, moved to j
        away[np.diag_indices(count)] = 0.0
        away, pairs = away.reshape(len(values), -1), count * (count - 1)

        def slope() -> FloatArray:
            slopes = pull(away / pairs).reshape(count, count, -1)
            return slopes.sum(axis=0) - slopes.sum(axis=1)

        return float(0.5 * np.vdot(away, away) / pairs), slope

    def exchanged(self, D: FloatArray, features: IntArray, columns: FloatArray) -> FloatArray:
        """(q,) the loss of offsets of which one column (q,) is another (q, l)."""
        Q, change, losses = dense(D @ self.matrix), columns - D[:, features].T, []
        step = max(1, MOVED // len(D) ** 2)
        for i in range(0, len(features), step):
            part = slice(i, i + step)
            rows = dense(self.matrix[features[part]])
            losses.append(self._losses(Q + change[part, :, None] * rows[:, None]))
        return np.concatenate(losses)

    def _losses(self, Q: FloatArray) -> FloatArray:
        """(q,) the loss at each of many Q (q, l, h)."""
        count = Q.shape[1]
        if self.is_convex:
            away = Q - self.targets
            away -= away.mean(axis=1, keepdims=True)
            return np.asarray((away**2).sum(axis=(1, 2)) / (count - 1))
        points = (self.base - Q)[:, :, None] + Q[:, None]
        values = self.parts.pull(points.reshape(-1, Q.shape[2]))[0]
        away = values.reshape(len(Q), count, count, -1) - self.targets
        away[:, np.arange(count), np.arange(count)] = 0.0
        return np.asarray(0.5 * (away**2).sum(axis=(1, 2, 3)) / (count * (count - 1)))

    @cached_property
    def at_zero(self) -> tuple[float, FloatArray]:
        """The loss and its gradient where nothing changes."""
        return self.slope(np.zeros(self.shape))

    @cached_property
    def curvature(self) -> float:
        """The largest curvature of the loss; infinite where it is not known."""
        if not self.is_convex:
            return np.inf
        gram = dense(self.matrix.T @ self.matrix)
        top = float(np.linalg.eigvalsh(gram)[-1]) if gram.size else 0.0
        return max(2.0 / (len(self.base) - 1) * top, np.finfo(float).tiny)

    @cached_property
    def critical(self) -> float:
        """λ_max, the least λ for which nothing changes is stationary."""
        return self.fusion.critical(-self.at_zero[1])

    def gap(self, D: FloatArray, strength: float) -> float:
        """Of a convex task: the objective less a lower bound on it, by Fenchel's duality.

        The bound takes the gradient U of the loss as the dual point, or the multiple of it which
        no feature exceeds, or none without a bound on its change; it holds for any U.
        """
        loss, slope = self._loss(dense(D @ self.matrix))
        U = slope()
        objective = loss + strength * self.fusion.value(D)
        pull = -dense(U @ self.matrix.T)
        free = np.flatnonzero(np.isinf(self.fusion.reach))
        worth = self.fusion.critical(pull), self.fusion.of(free).critical(pull[:, free])
        shrunk = {min(1.0, strength / one) * (1.0 - 1e-15) for one in worth if one > 0.0}
        bounds = [
            -self._conjugate(share * U) - self.fusion.conjugate(share * pull, strength)
            for share in {1.0} | shrunk
        ]
        return objective - max(bounds)

    def _conjugate(self, U: FloatArray) -> float:
        """Of an affine representation: the largest ⟨U, Q⟩ − loss(Q); U has column sums 0."""
        return float(np.vdot(U, self.targets) + 0.25 * (len(self.base) - 1) * np.vdot(U, U))
