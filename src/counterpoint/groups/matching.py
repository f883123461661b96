"""How well offsets map the mean of each group to that of each other, and the task as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.groups.fusion import Fusion
from counterpoint.groups.representations import Matrix, Representation, times

__all__ = ["Matching", "Task"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

MOVED = 2**15
"""Means of groups, moved, that are mapped at a time where there are very many."""


@final
@dataclass(frozen=True, eq=False)
class Matching:
    """The mean over i ≠ j of ½‖r(x̄_i + D_j − D_i) − r̄_j‖², of equation (9), as one function of Q.

    Q = D M, (l, h), is what offsets D are after the affine part x M + c of the representation.

    Parameters
    ----------
    base
        (l, h) the means of the groups after the affine part.
    targets
        (l, m) r̄, the means of the representations of their rows.
    rest
        The representation after the affine part; None if nothing follows.
    """

    base: FloatArray
    targets: FloatArray
    rest: Representation | None

    @property
    def groups(self) -> int:
        """l."""
        return len(self.base)

    def value(self, Q: FloatArray) -> float:
        """The loss."""
        if self.rest is None:
            return self._affine(Q)[0]
        return self._half_squares(self._residual(self.rest.vjp(self._points(Q))[0]))

    def values(self, Q: FloatArray) -> FloatArray:
        """(q,) the loss at each of many Q (q, l, h)."""
        count = self.groups
        if self.rest is None:
            away = Q - self.targets
            away -= away.mean(axis=1, keepdims=True)
            return np.asarray((away**2).sum(axis=(1, 2)) / (count - 1))
        points = (self.base - Q)[:, :, None] + Q[:, None]
        values = self.rest.vjp(points.reshape(-1, Q.shape[2]))[0]
        away = values.reshape(len(Q), count, count, -1) - self.targets
        away[:, np.arange(count), np.arange(count)] = 0.0
        return np.asarray(0.5 * (away**2).sum(axis=(1, 2, 3)) / (count * (count - 1)))

    def slope(self, Q: FloatArray) -> tuple[float, FloatArray]:
        """The loss and its gradient (l, h), whose columns add up to 0."""
        if self.rest is None:
            return self._affine(Q)
        count = self.groups
        values, pull = self.rest.vjp(self._points(Q))
        residual = self._residual(values)
        slopes = pull(residual / (count * (count - 1))).reshape(count, count, -1)
        return self._half_squares(residual), slopes.sum(axis=0) - slopes.sum(axis=1)

    def conjugate(self, U: FloatArray) -> float:
        """Of an affine representation: the largest ⟨U, Q⟩ − loss(Q); U has column sums 0."""
        return float(np.vdot(U, self.targets) + 0.25 * (self.groups - 1) * np.vdot(U, U))

    def _points(self, Q: FloatArray) -> FloatArray:
        """(l l, h) the mean of i, moved to j; rows are pairs (i, j)."""
        return ((self.base - Q)[:, None] + Q).reshape(-1, Q.shape[1])

    def _residual(self, values: FloatArray) -> FloatArray:
        """(l l, m) how far moved means are from the targets; 0 where i = j."""
        away = values.reshape(self.groups, self.groups, -1) - self.targets
        away[np.diag_indices(self.groups)] = 0.0
        return away.reshape(len(values), -1)

    def _half_squares(self, residual: FloatArray) -> float:
        pairs = self.groups * (self.groups - 1)
        return float(0.5 * np.vdot(residual, residual) / pairs)

    def _affine(self, Q: FloatArray) -> tuple[float, FloatArray]:
        """Where r is affine, r̄_j = r(x̄_j), and pairs add up to a variance."""
        away = Q - self.targets
        away -= away.mean(axis=0)
        return float(np.vdot(away, away)) / (self.groups - 1), 2.0 / (self.groups - 1) * away


@final
@dataclass(frozen=True, eq=False)
class Task:
    """Minimise loss(D M) + λ Σ_f w_f Σ_{i<j} |D_jf − D_if| over offsets D within their bounds.

    Parameters
    ----------
    matching
        The loss.
    matrix
        (d, h) M, dense or sparse.
    fusion
        The penalty and the bounds.
    """

    matching: Matching
    matrix: Matrix
    fusion: Fusion

    @property
    def shape(self) -> tuple[int, int]:
        """(l, d)."""
        return self.matching.groups, int(self.matrix.shape[0])

    @property
    def is_convex(self) -> bool:
        """Whether the representation is affine."""
        return self.matching.rest is None

    def of(self, columns: IntArray) -> Task:
        """The task over some features, where all others stay."""
        return Task(self.matching, self.matrix[columns], self.fusion.of(columns))

    def value(self, D: FloatArray) -> float:
        """The loss."""
        return self.matching.value(times(D, self.matrix))

    def exchanged(self, D: FloatArray, features: IntArray, columns: FloatArray) -> FloatArray:
        """(q,) the loss of offsets of which one column is another.

        Parameters
        ----------
        D
            (l, d) the offsets.
        features, columns
            (q,) which column, and (q, l) what it is then.
        """
        Q, change, losses = times(D, self.matrix), columns - D[:, features].T, []
        step = max(1, MOVED // len(D) ** 2)
        for i in range(0, len(features), step):
            part = slice(i, i + step)
            rows = self.matrix[features[part]]
            dense = np.asarray(rows.toarray() if sparse.issparse(rows) else rows)
            losses.append(self.matching.values(Q + change[part, :, None] * dense[:, None]))
        return np.concatenate(losses)

    def slope(self, D: FloatArray) -> tuple[float, FloatArray]:
        """The loss and its gradient (l, d)."""
        loss, slope = self.matching.slope(times(D, self.matrix))
        return loss, times(slope, self.matrix.T)

    @cached_property
    def at_zero(self) -> tuple[float, FloatArray]:
        """The loss and its gradient where nothing changes."""
        return self.slope(np.zeros(self.shape))

    @cached_property
    def curvature(self) -> float:
        """The largest curvature of the loss; infinite where it is not known."""
        if not self.is_convex:
            return np.inf
        gram = times(self.matrix.T, self.matrix)
        top = float(np.linalg.eigvalsh(gram)[-1]) if gram.size else 0.0
        return max(2.0 / (self.matching.groups - 1) * top, np.finfo(float).tiny)

    @cached_property
    def critical(self) -> float:
        """λ_max, the least λ for which nothing changes is stationary."""
        return self.fusion.critical(-self.at_zero[1])

    def gap(self, D: FloatArray, strength: float) -> float:
        """Of a convex task: the objective less a lower bound on it, by Fenchel's duality.

        The bound takes the gradient U of the loss as the dual point, or the multiple of it which
        no feature exceeds, or none without a bound on its change; it holds for any U.
        """
        loss, slope = self.matching.slope(times(D, self.matrix))
        objective = loss + strength * self.fusion.value(D)
        pull = -times(slope, self.matrix.T)
        free = np.flatnonzero(np.isinf(self.fusion.reach))
        worth = self.fusion.critical(pull), self.fusion.of(free).critical(pull[:, free])
        shrunk = {min(1.0, strength / one) * (1.0 - 1e-15) for one in worth if one > 0.0}
        bounds = [
            -self.matching.conjugate(share * slope) - self.fusion.conjugate(share * pull, strength)
            for share in {1.0} | shrunk
        ]
        return objective - max(bounds)
