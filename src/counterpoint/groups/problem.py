"""The problem that is solved: limits and prices, a least-squares loss, a pairwise-fused penalty.

An explanation is offsets D (l, d), a row for each group; the change from group i to group j is
D_j − D_i. Each feature f is charged w_f Σ_{i<j} |D_jf − D_if|, and no change of it may be larger
than its reach. Only differences count, so that each column may be shifted until it lies between
minus and plus half of the reach: a bound on all changes is, exactly, a box on the offsets. Of a
feature that may only rise from each group to the next, the offsets are in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from counterpoint.errors import InvalidInput
from counterpoint.groups.representations import Composed, FloatArray, IntArray, Matrix, dense
from counterpoint.rows.features import unknown_name

__all__ = ["Fusion", "Limits", "Objective", "moving", "prices", "rising"]

MOVED = 2**15
"""Means of groups, moved, that are mapped at a time where there are very many: a few megabytes."""

Bound = float | tuple[float, float]


@final
@dataclass(frozen=True)
class Limits:
    """Bounds on the change of each feature between any two groups.

    Parameters
    ----------
    times
        The largest change in units of the range of the group means; infinite for none. The
        difference of means is within it from 1 on.
    bounds
        Name or position → the largest change up or down in feature units, in place of that: a
        number, or the two ends (low, high). Every change has its opposite, so that both are held
        within the nearer of the two. Here and below, the name of a column of categories stands for
        all of them, and ``home=own`` for one.
    immutable
        Names or positions of features that stay.
    rising, falling
        Names or positions of features that may only rise, or only fall, from each group to those
        after it, in the order of the groups.
    """

    times: float = 1.5
    bounds: Mapping[Hashable, Bound] = field(default_factory=dict)
    immutable: Sequence[Hashable] = ()
    rising: Sequence[Hashable] = ()
    falling: Sequence[Hashable] = ()

    def reach(self, means: FloatArray, names: tuple[Hashable, ...]) -> FloatArray:
        """(d,) the largest change of each feature, in feature units, from the means of groups."""
        if not _number(self.times) >= 0.0:
            raise InvalidInput(f"Expected times of at least 0; got {self.times!r}. Pass 1.5, say.")
        span = np.ptp(means, axis=0)
        reach = np.where(span > 0.0, self.times, 0.0) * np.where(span > 0.0, span, 1.0)
        for name, bound in self.bounds.items():
            low, high = _ends(bound)
            if not low <= 0.0 <= high:
                raise InvalidInput(
                    f"Expected the bounds of {name!r} to hold 0, the change from a group to "
                    f"itself; got {bound!r}. Pass the largest change, or (low, high) with low <= 0 "
                    "<= high."
                )
            reach[places(name, names)] = min(-low, high)
        reach[_listed(self.immutable, "immutable", names)] = 0.0
        return reach

    def monotone(self, names: tuple[Hashable, ...]) -> IntArray:
        """(d,) 1 for features that only rise, −1 for those that only fall, 0 for others."""
        monotone = np.zeros(len(names), dtype=np.intp)
        monotone[_listed(self.rising, "rising", names)] = 1
        falling = _listed(self.falling, "falling", names)
        if (monotone[falling] != 0).any():
            both = names[falling[np.flatnonzero(monotone[falling])[0]]]
            raise InvalidInput(
                f"Expected features to rise or to fall; {both!r} is to do both. Make it immutable "
                "if it is to stay."
            )
        monotone[falling] = -1
        return monotone


def prices(
    costs: ArrayLike | Mapping[Hashable, float] | None,
    spread: FloatArray,
    names: tuple[Hashable, ...],
) -> FloatArray:
    """(d,) what a change of one unit costs; by default 1 for each standard deviation."""
    price = 1.0 / np.where(spread > 0.0, spread, 1.0)
    if isinstance(costs, Mapping):
        for name, cost in costs.items():
            price[places(name, names)] = _number(cost)
    elif costs is not None:
        given = np.asarray(costs)
        if given.shape != (len(names),) or given.dtype.kind not in "biuf":
            raise InvalidInput(
                f"Expected a cost for each of {len(names)} features; got {given.dtype} of shape "
                f"{given.shape}. Pass a flat sequence of numbers, or a mapping from names."
            )
        price = given.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(price) & (price > 0.0)))
    if len(wrong):
        raise InvalidInput(
            f"Expected positive costs; got {price[wrong[0]]} for {names[wrong[0]]!r}. Make a "
            "feature that must not change immutable."
        )
    return price


def places(name: Hashable, names: tuple[Hashable, ...]) -> list[int]:
    """The positions of a feature, by its name or its position; of categories there are several."""
    if name in names:
        return [names.index(name)]
    whole: Any = name
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        if 0 <= whole < len(names):
            return [int(whole)]
        raise InvalidInput(
            f"Expected a position below {len(names)}; got {name!r}. Positions begin at 0."
        )
    found = [i for i, one in enumerate(names) if str(one).startswith(f"{name}=")]
    if not found:
        raise InvalidInput(unknown_name(name, names))
    return found


def _listed(given: Sequence[Hashable], what: str, names: tuple[Hashable, ...]) -> IntArray:
    if isinstance(given, str):
        raise InvalidInput(f"Expected a list of names in {what}; got {given!r}. Pass [{given!r}].")
    found = [place for name in given for place in places(name, names)]
    return np.array(found, dtype=np.intp)


def _ends(bound: Bound) -> tuple[float, float]:
    """The ends of a bound; NaN for what is none."""
    given: Any = bound
    if isinstance(given, tuple | list) and len(given) == 2:
        return _number(given[0]), _number(given[1])
    return -_number(given), _number(given)


def _number(value: Any) -> float:
    """NaN for what is no number."""
    return float(value) if isinstance(value, int | float | np.number) else float("nan")


@final
@dataclass(frozen=True, eq=False)
class Fusion:
    """The penalty Σ_f w_f Σ_{i<j} |v_j − v_i| of the columns v of D, with their bounds."""

    groups: int  # l
    weight: FloatArray  # (d,) w, positive
    reach: FloatArray  # (d,) the largest change: 0 for immutable features, infinite for free ones
    monotone: IntArray  # (d,) 1: may only rise from each group to the next; −1: only fall; 0: both

    def of(self, columns: IntArray) -> Fusion:
        """The penalty of some columns."""
        return Fusion(
            self.groups, self.weight[columns], self.reach[columns], self.monotone[columns]
        )

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
        return np.where(self.monotone < 0, -1.0, 1.0)

    @cached_property
    def _ordered(self) -> NDArray[np.bool_]:
        return self.monotone != 0

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


def moving(D: FloatArray) -> IntArray:
    """The features that some pair of groups changes."""
    return np.flatnonzero(np.ptp(D, axis=0) > 0.0)


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
class Objective:
    """Minimise loss(D M) + λ Σ_f w_f Σ_{i<j} |D_jf − D_if| over offsets D within their bounds.

    The loss is the mean over i ≠ j of ½‖r(x̄_i + D_j − D_i) − r̄_j‖², of equation (9), as a function
    of Q = D M, (l, h): what offsets are after the affine part of the representation r.
    """

    base: FloatArray  # (l, h) the means of the groups after the affine part
    targets: FloatArray  # (l, m) r̄, the means of the representations of their rows
    parts: Composed  # r
    matrix: Matrix  # (d, h) M of its affine part, in the units of D
    fusion: Fusion

    @property
    def shape(self) -> tuple[int, int]:
        """(l, d)."""
        return len(self.base), int(self.matrix.shape[0])

    @property
    def is_convex(self) -> bool:
        """Whether the representation is affine."""
        return self.parts.rest is None

    def of(self, columns: IntArray) -> Objective:
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
