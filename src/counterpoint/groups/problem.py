"""States the problem, a least-squares loss and a pairwise-fused penalty, and descends on both.

An explanation is offsets D (l, d), a row for each group; the change from group i to group j is
D_j − D_i. Each feature f is charged w_f Σ_{i<j} |D_jf − D_if|, and no change of it may be larger
than its reach. Only differences count, so that each column may be shifted until it lies between
minus and plus half of the reach: a bound on all changes is, exactly, a box on the offsets. Of a
feature that may only rise from each group to the next, the offsets are in that order.

A *split* of a column raises its larger entries, the last m in ascending order, against the others.
Up to a shift, a column is a sum of splits in its order, and its penalty the sum of theirs: where no
split helps, nothing does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, final

import numpy as np
from scipy.optimize import isotonic_regression

from counterpoint.groups.representations import (
    Composed,
    FiniteDifferences,
    Matrix,
    Pull,
    Representation,
    dense,
)
from counterpoint.numerics import TINY, FloatArray, IntArray

Prox = Callable[[FloatArray, float], FloatArray]
"""Takes offsets V and a step to the offsets of least ½‖D − V‖² + step · penalty."""


@final
@dataclass(frozen=True, eq=False)
class Fusion:
    """The penalty Σ_f w_f Σ_{i<j} |D_jf − D_if| of offsets D (l, d), and their bounds."""

    groups: int  # l
    weight: FloatArray  # (d,) w, positive
    reach: FloatArray  # (d,) the largest change: 0 for immutable features, infinite for free ones
    monotone: IntArray  # (d,) 1: may only rise from each group to the next; −1: only fall; 0: both

    def of(self, columns: IntArray) -> Fusion:
        """Return the penalty of some columns."""
        weight, reach, monotone = self.weight[columns], self.reach[columns], self.monotone[columns]
        return Fusion(self.groups, weight, reach, monotone)

    @cached_property
    def _ranks(self) -> FloatArray:
        """How many entries (l,) are smaller, less how many are larger, in ascending order."""
        return np.arange(1.0 - self.groups, self.groups, 2.0)

    @cached_property
    def _pairs_split(self) -> FloatArray:
        """How many pairs a split of the last m of l separates: m (l − m), shape (l − 1, 1)."""
        last = np.arange(1.0, self.groups)[:, None]
        return last * (self.groups - last)

    @cached_property
    def _sign(self) -> FloatArray:
        """−1 for columns (d,) that may only fall, which are solved upside down, else 1."""
        return np.where(self.monotone < 0, -1.0, 1.0)

    @cached_property
    def _charges(self) -> FloatArray:
        """Weight (d, l) of each entry of a column in the penalty, in ascending order."""
        return self.weight[:, None] * self._ranks

    def value(self, D: FloatArray) -> float:
        """Return Σ_f w_f Σ_{i<j} |D_jf − D_if|."""
        return float((self._ranks @ np.sort(D, axis=0)) @ self.weight)

    def prox(self, V: FloatArray, step: float, strength: float = 1.0) -> FloatArray:
        """Return the D within the bounds of least ½‖D − V‖² + step · λ · value(D)."""
        # D is in the order of V, or of the groups if monotone. In that order the penalty is linear:
        # what is left is the nearest rising sequence to V less its charges, cut off at the bounds.
        rows = (V * self._sign).T
        order = np.argsort(rows, axis=1, kind="stable")
        if self.monotone.any():
            order[self.monotone != 0] = np.arange(self.groups)
        order += self.groups * np.arange(len(order))[:, None]  # positions in all rows, end to end
        target = rows.ravel()[order] - step * strength * self._charges
        half = self.reach[:, None] / 2.0
        columns = np.empty(target.size)
        columns[order.ravel()] = np.clip(rising(target), -half, half).ravel()
        return columns.reshape(target.shape).T * self._sign

    def nearest(self, V: FloatArray) -> FloatArray:
        """Return the offsets within their bounds that are nearest to V."""
        if self.monotone.any():
            return self.prox(V, 0.0)
        return np.clip(V, -self.reach / 2.0, self.reach / 2.0)

    def _gains(self, G: FloatArray) -> FloatArray:
        """Return the gain (l − 1, d) of ⟨G, D⟩ per unit of each split; G has column sums 0."""
        G, free = G * self._sign, self.monotone == 0
        G[:, free] = np.sort(G[:, free], axis=0)
        return np.cumsum(G[::-1], axis=0)[:-1]

    def excess(self, G: FloatArray, strength: float) -> FloatArray:
        """Return the gain less the cost (d,) of the best split; 0 stays where it is negative."""
        excess = (self._gains(G) - strength * self.weight * self._pairs_split).max(axis=0)
        return np.where(self.reach > 0.0, excess, -np.inf)

    def critical(self, G: FloatArray) -> float:
        """Return the least λ at which no split gains more than it costs, so that D = 0 is best."""
        ratios = (self._gains(G) / self._pairs_split).max(axis=0) / self.weight
        return float(ratios[self.reach > 0.0].max(initial=0.0))

    def conjugate(self, G: FloatArray, strength: float) -> float:
        """Return the largest ⟨G, D⟩ − λ value(D) over D within the bounds; G has column sums 0."""
        # Linear in each order of a column, so largest at a split, its sides apart by the reach.
        excess = np.maximum(self.excess(G, strength), 0.0)
        positive = excess > 0.0
        return float(excess[positive] @ self.reach[positive])


def moving(D: FloatArray) -> IntArray:
    """Return the features that some pair of groups changes."""
    return np.flatnonzero(np.ptp(D, axis=0) > 0.0)


def rising(T: FloatArray) -> FloatArray:
    """Return the non-decreasing rows (d, l) nearest to those of T (least squares).

    Such a row consists of pools of neighbours that have their mean; it is the same in every entry
    of a pool, to the last bit.
    """
    count, width = T.shape
    if not count:
        return T.copy()
    # One regression of all rows end to end finds the pools: each row is scaled to [0, 1] and lifted
    # above the one before it, so that no pool holds entries of two.
    low = T.min(axis=1, keepdims=True)
    span = T.max(axis=1, keepdims=True) - low
    span[span == 0.0] = 1.0
    lifted = (T - low) / span + 2.0 * np.arange(count)[:, None]
    is_start = np.zeros(T.size, dtype=bool)  # of a pool
    is_start[isotonic_regression(lifted.ravel()).blocks[:-1]] = True
    is_start[::width] = True
    while True:
        starts = np.flatnonzero(is_start)
        sizes = np.append(starts[1:], T.size) - starts
        means = np.add.reduceat(T.ravel(), starts) / sizes
        # Pools that only rounding in common units held apart are joined in the row's own units.
        falls = (means[1:] <= means[:-1]) & (starts[1:] % width > 0)
        if not falls.any():
            return np.repeat(means, sizes).reshape(T.shape)
        is_start[starts[1:][falls]] = False


def levels_of(D: FloatArray) -> IntArray:
    """Return the number (l, d) of each entry's level: of distinct values, column by column.

    Levels of a column are numbered in ascending order, and from one column to the next.
    """
    order = np.argsort(D.T, axis=1, kind="stable")
    ascending = np.take_along_axis(D.T, order, axis=1)
    is_level = np.ones(order.shape, dtype=bool)
    is_level[:, 1:] = ascending[:, 1:] > ascending[:, :-1]
    level = np.empty(order.shape, dtype=np.intp)
    np.put_along_axis(level, order, np.cumsum(is_level).reshape(order.shape) - 1, axis=1)
    return np.ascontiguousarray(level.T)


def tie_pattern(D: FloatArray) -> bytes:
    """Return which offsets are tied, and their order, as bytes to compare."""
    columns = moving(D)
    return columns.tobytes() + levels_of(D[:, columns]).tobytes()


def tied(fusion: Fusion, pattern: FloatArray) -> Prox:
    """Return the projection on offsets within the bounds with the ties of a pattern (l, d)."""
    level = levels_of(pattern)
    share = 1.0 / np.bincount(level.ravel())

    def prox(V: FloatArray, _: float) -> FloatArray:
        sums = np.bincount(level.ravel(), weights=V.ravel())
        return fusion.nearest((sums * share)[level])

    return prox


@final
@dataclass(frozen=True, eq=False)
class Tangent(Representation):
    """A representation to first order about n rows: about each, values are linear in its move.

    It takes the same n rows in this order after any moves, or several such batches end to end;
    derivatives are for one batch.
    """

    rows: FloatArray  # (n, h)
    values: FloatArray  # (n, m) the representation of the rows
    slopes: FloatArray  # (n, m, h) its derivatives there

    @property
    def n_features(self) -> int:
        return self.rows.shape[1]

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        moves = X.reshape(-1, *self.rows.shape) - self.rows
        values = self.values + (self.slopes @ moves[..., None])[..., 0]
        return values.reshape(len(X), -1), lambda C: (C[:, None] @ self.slopes)[:, 0]


@final
@dataclass(frozen=True, eq=False)
class Objective:
    """Minimise loss(D M) + λ Σ_f w_f Σ_{i<j} |D_jf − D_if| over offsets D within their bounds.

    The loss is the mean over i ≠ j of ½‖r(x̄_i + D_j − D_i) − r̄_j‖², of equation (9). It is computed
    from Q = D M (l, h), the offsets after the affine part of the representation r. The loss and
    its gradient where nothing changes are cached: tolerances and gaps are relative to them.
    """

    base: FloatArray  # (l, h) the means of the groups after the affine part
    targets: FloatArray  # (l, m) r̄, the means of the representations of their rows
    space: Composed  # r
    matrix: Matrix  # (d, h) M of its affine part, in the units of D
    fusion: Fusion

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of groups and of features, (l, d)."""
        return len(self.base), int(self.matrix.shape[0])

    @cached_property
    def is_convex(self) -> bool:
        """Whether the representation is affine."""
        return self.space.second is None

    @property
    def by_tangents(self) -> bool:
        """Whether derivatives are so dear that descents are on linearised tasks."""
        return isinstance(self.space.second, FiniteDifferences)

    def of(self, columns: IntArray) -> Objective:
        """Return the task over some features, where all others stay."""
        return replace(self, matrix=self.matrix[columns], fusion=self.fusion.of(columns))

    def value(self, D: FloatArray) -> float:
        """Return the loss."""
        residuals, _ = self._residuals(D @ self.matrix)
        return float(np.vdot(residuals, residuals)) / self._divisor

    def slope(self, D: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient (l, d), whose columns add up to 0."""
        loss, slope = self._slope(D @ self.matrix)
        return loss, slope @ self.matrix.T

    def _slope(self, Q: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient (l, h) by Q."""
        residuals, pull = self._residuals(Q)
        loss = float(np.vdot(residuals, residuals)) / self._divisor
        if pull is None:
            return loss, 2.0 / self._divisor * residuals
        slopes = pull((residuals / (self._divisor // 2)).reshape(-1, residuals.shape[2]))
        slopes = slopes.reshape(*residuals.shape[:2], -1)
        return loss, slopes.sum(axis=0) - slopes.sum(axis=1)  # j is moved to, i is moved from

    def _residuals(self, Q: FloatArray) -> tuple[FloatArray, Pull | None]:
        """Return numbers whose squares add up to the loss times ``_divisor``, for one or more Q.

        They are r(x̄_i + D_j − D_i) − r̄_j, shape (…, l, l, m), with the derivatives of r. If r is
        affine, r(x̄_i) is r̄_i, so that they are differences of a_j = D_j M − r̄_j; the squares of
        a_j less their mean, shape (…, l, m), then add up to as much, by another divisor.
        """
        count = len(self.base)
        if self.is_convex:
            residuals = Q - self.targets
            residuals -= np.add.reduce(residuals, axis=-2, keepdims=True) / count
            return residuals, None
        moved = (self.base - Q)[..., None, :] + Q[..., None, :, :]  # the mean of i, moved to j
        values, pull = self.space.pull(moved.reshape(-1, Q.shape[-1]))
        residuals = values.reshape(*moved.shape[:-1], -1) - self.targets
        # A group and itself, the diagonal of (l, l), are no pair.
        residuals.reshape(-1, count * count, residuals.shape[-1])[:, :: count + 1] = 0.0
        return residuals, pull

    @cached_property
    def _divisor(self) -> int:
        """The number by which squares of `_residuals` are divided to get a mean of halves."""
        count = len(self.base)
        return count - 1 if self.is_convex else 2 * count * (count - 1)

    def tangent(self, D: FloatArray) -> Objective:
        """Return the task with a representation linearised about D: of the same gradient there."""
        Q = D @ self.matrix
        moved = ((self.base - Q)[:, None] + Q).reshape(-1, Q.shape[1])
        values, pull = self.space.pull(moved)
        slopes = np.stack(
            [pull(np.tile(axis, (len(moved), 1))) for axis in np.eye(values.shape[1])], 1
        )
        return replace(self, space=Composed(self.space.first, Tangent(moved, values, slopes)))

    def exchanged(
        self, D: FloatArray, features: IntArray, columns: FloatArray, *, at_once: int = 2**15
    ) -> FloatArray:
        """Return the losses (q,) of offsets D (l, d), with one feature's column replaced in each.

        Exchange i puts ``columns[i]`` (l,) in place of D's column ``features[i]``. At most
        ``at_once`` means are moved at a time, to bound memory.
        """
        Q, change, losses = D @ self.matrix, columns - D[:, features].T, []
        # To take all pairs of groups, l² means are moved for each exchange.
        step = max(1, at_once // len(D) ** 2)
        for i in range(0, len(features), step):
            chunk = slice(i, i + step)
            rows = dense(self.matrix[features[chunk]])
            # One feature changes Q by an outer product, so that those of all exchanges in the chunk
            # are Q + change ⊗ row of M, (chunk, l, h).
            residuals, _ = self._residuals(Q + change[chunk, :, None] * rows[:, None])
            squares = (residuals**2).sum(axis=tuple(range(1, residuals.ndim)))
            losses.append(squares / self._divisor)
        return np.concatenate(losses)

    @cached_property
    def at_zero(self) -> tuple[float, FloatArray]:
        """The loss and its gradient where nothing changes."""
        return self.slope(np.zeros(self.shape))

    @cached_property
    def scale(self) -> float:
        """The length of the gradient where nothing changes."""
        return float(np.linalg.norm(self.at_zero[1])) or 1.0

    @property
    def rounding(self) -> float:
        """Upper bound on an apparent rise of the objective caused by rounding."""
        return 1e-14 * self.at_zero[0]

    @cached_property
    def least_curvature(self) -> float:
        """A lower bound on the curvature: the loss falls by at most itself.

        With the curvature L, a step from D = 0 lowers it by ‖slope‖² / (2 L) at least.
        """
        loss, slope = self.at_zero
        return max(0.5 * float(np.vdot(slope, slope)) / loss, TINY) if loss > 0.0 else 1.0

    @cached_property
    def curvature(self) -> float:
        """The largest curvature of the loss; infinite where it is not known."""
        if not self.is_convex:
            return np.inf
        gram = dense(self.matrix.T @ self.matrix)
        top = float(np.linalg.eigvalsh(gram)[-1]) if gram.size else 0.0
        return max(2.0 / (len(self.base) - 1) * top, TINY)

    @cached_property
    def critical(self) -> float:
        """The least λ at which nothing changes."""
        return self.fusion.critical(-self.at_zero[1])

    def residual(self, D: FloatArray, strength: float, L: float) -> float:
        """Return the length of the proximal gradient, relative to the gradient at zero."""
        slope = self.slope(D)[1]
        move = D - self.fusion.prox(D - slope / L, strength / L)
        return L * float(np.linalg.norm(move)) / self.scale

    def gap(self, D: FloatArray, strength: float) -> float:
        """Return objective less Fenchel bound, relative to the loss at zero; NaN if not convex.

        Each dual point V (l, m) gives a lower bound on the objective: −loss*(V) − penalty*(−V Mᵀ),
        with the conjugates * of both; loss*(V) = ⟨V, r̄⟩ + ¼ (l − 1) ‖V‖².
        """
        if not self.is_convex:
            return float("nan")
        loss, U = self._slope(D @ self.matrix)
        objective = loss + strength * self.fusion.value(D)
        pull = -(U @ self.matrix.T)  # (l, d) the direction in which the loss falls
        # The largest bound counts. At the optimum V = U, the gradient of the loss. Elsewhere
        # penalty* may be large at it, and infinite if a feature without a bound on its changes
        # gains by a split. So U is also scaled down until no feature gains, where penalty* is 0,
        # and until none of those without a bound does.
        free = np.flatnonzero(np.isinf(self.fusion.reach))
        criticals = self.fusion.critical(pull), self.fusion.of(free).critical(pull[:, free])
        factors = {
            min(1.0, strength / critical) * (1.0 - 1e-15) for critical in criticals if critical > 0
        }
        bounds = []
        for factor in {1.0} | factors:
            V = factor * U
            of_loss = np.vdot(V, self.targets) + 0.25 * (len(self.base) - 1) * np.vdot(V, V)
            bounds.append(-float(of_loss) - self.fusion.conjugate(factor * pull, strength))
        return (objective - max(bounds)) / (self.at_zero[0] or 1.0)


def descend(  # noqa: PLR0913 (a problem, where to begin, when to end)
    task: Objective,
    strength: float,
    start: FloatArray,
    L: float,
    *,
    tol: float,
    max_iter: int,
    rounding: float,
    pattern: FloatArray | None = None,
) -> tuple[FloatArray, float, float, int]:
    """Minimise loss and penalty until the proximal gradient is shorter than ``tol``.

    It runs FISTA (Beck & Teboulle 2009) with the restarts of O'Donoghue & Candès (2015), from a
    first guess L of the curvature. A step that would raise the objective by more than ``rounding``
    is taken back, and a plain proximal step, which cannot, follows; so the objective falls, whether
    the loss is convex or not. With a ``pattern`` (l, d), offsets have its ties, and ``strength``
    is 0.

    Returns the offsets, the length of the last step's proximal gradient, the curvature that made
    it short enough, and the number of steps.
    """
    fusion = task.fusion
    prox = partial(fusion.prox, strength=strength) if pattern is None else tied(fusion, pattern)
    x = y = prox(start, 0.0)  # x is the best point so far, y the one that the next step is from
    if task.by_tangents:
        options = {"rounding": rounding, "pattern": pattern}
        return _by_tangents(task, strength, x, L, tol, max_iter, **options)
    best, momentum, is_plain = task.value(x), 1.0, True  # plain: a step from x itself
    if strength:
        best += strength * fusion.value(x)
    residual, steps = np.inf, 0
    while steps < max_iter:
        steps += 1
        z, loss, L = _step(task, prox, y, L, rounding)
        objective = loss + strength * fusion.value(z) if strength else loss
        move = float(np.linalg.norm(z - y))
        residual = L * move
        if objective > best + rounding and not is_plain:
            y, momentum, is_plain = x, 1.0, True
            continue
        next_momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
        if float(np.vdot(y - z, z - x)) > 0.0:  # momentum leads uphill: restart without it
            y, momentum, is_plain = z, 1.0, True
        else:
            y = z + (momentum - 1.0) / next_momentum * (z - x)
            momentum, is_plain = next_momentum, False
        x, best = z, objective
        # Less curvature may do for the next step; near rounding any would seem enough.
        if L * move * move > 1e3 * rounding:
            L *= 0.9
        if residual <= tol:
            break
    return x, residual, L, steps


def _by_tangents(
    task: Objective,
    strength: float,
    x: FloatArray,
    L: float,
    tol: float,
    max_iter: int,
    **options: Any,
) -> tuple[FloatArray, float, float, int]:
    """Do as `descend` on a nonlinear task: linearise it, descend, and repeat (Gauss–Newton).

    If the objective itself rises, the point is not taken, and the descent from the last one is
    repeated with a quarter of the steps; once there is one, with a larger curvature L. After seven
    rises in a row it ends, for the derivative may be a secant that leads nowhere.
    """
    # x is the best point so far, ``tangent`` the task linearised about it.
    candidate, best, residual, length, steps, rises = x, np.inf, np.inf, 64, 0, 0
    while steps < max_iter and rises < 7:
        steps += 1
        linearised = task.tangent(candidate)  # whose loss at the candidate is that of the task
        objective = linearised.value(candidate) + strength * task.fusion.value(candidate)
        if objective <= best + options["rounding"]:
            stalls = best - objective < 1e9 * options["rounding"]  # about 1e-5 of the loss at zero
            x, best, tangent, rises = candidate, objective, linearised, 0
            # a single step, for the residual at x
            _, residual, L, _ = descend(tangent, strength, x, L, tol=0.0, max_iter=1, **options)
            if residual <= tol or stalls:
                break
        else:
            rises += 1
            if length > 1:
                length //= 4
            else:
                L *= 4.0
        tolerance = 0.3 * residual
        candidate, _, L, _ = descend(
            tangent, strength, x, L, tol=tolerance, max_iter=length, **options
        )
    return x, residual, L, steps


def _step(
    task: Objective, prox: Prox, y: FloatArray, L: float, rounding: float
) -> tuple[FloatArray, float, float]:
    """Take a proximal step from y: return the point, its loss, and the curvature of the step.

    L is doubled until the parabola of this curvature about y, which the step minimises, is not
    below the loss; that of the largest curvature never is.
    """
    loss, slope = task.slope(y)
    while True:
        z = prox(y - slope / L, 1.0 / L)
        move, moved_loss = z - y, task.value(z)
        parabola = loss + float(np.vdot(slope, move)) + 0.5 * L * float(np.vdot(move, move))
        if moved_loss <= parabola + rounding or task.curvature <= L:
            return z, moved_loss, L
        L = min(2.0 * L, task.curvature)
