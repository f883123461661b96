"""The least change that gives a class its probability: one multiplier, found in K dimensions.

min ½ δᵀPδ subject to log(p / (1 − p)) >= goal. Its Lagrangian at the multiplier 1/λ is, times λ, a
trade-off with the log-odds for the loss, minimal at u(λ); the log-odds there fall as λ grows, and
the right λ is the one at which they meet the goal. Newton's method moves u and log λ together as
soon as u is near u(λ); until then it minimises at a fixed λ, which a bracket keeps between what is
known to be too small and too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.models.softmax.descent import ROUGH, Rows, State
from counterpoint.models.softmax.reduced import LogOdds, Reduced, blocks, dots
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray

__all__ = ["reach"]


STEPS = 200
ROUGHLY = (1e-2, 1e-3)
"""The tolerance and the gap of problems on the way."""
MILD = 50.0
"""What a goal may be away, in units of log-odds, for Newton's method to go there directly."""
COOLING = 4.0
LOSS = LogOdds()
NEAR = 0.5
"""What is left to gain at this λ, as a share of what is missing of the goal, to move λ as well."""
QUADRATIC = 1.0
"""The Newton decrement, in units of the loss, up to which a full step can be trusted."""
NEARLY = 1e-10
"""The gap at which a row counts as settled if rounding lets it come no nearer."""
ROUNDED = 32.0 * EPS
"""The rounding of a score, relative to the size of the scores."""
LONGEST = 2.0
"""The longest step of log λ."""
FURTHEST = float(np.log(1e20))
"""How far log λ may fall below the first guess; beyond, no change that matters reaches the goal."""


def reach(
    scores: FloatArray,
    gram: FloatArray,
    label: ArrayLike,
    log_odds: ArrayLike,
    *,
    tolerance: float = 1e-11,
    gap: float = 1e-12,
) -> Reduced:
    """The least δᵀPδ at which the label's log-odds, log p − log(1 − p), are a number.

    Parameters
    ----------
    scores
        (n, K) z̄ at the factual points.
    gram
        (K, K) G = A P⁻¹ Aᵀ; it may be singular.
    label
        The position k of the class, one or (n,).
    log_odds
        What they shall be, one or (n,). Rows at which they are as high already stay.
    tolerance
        The distance from ``log_odds`` at which to stop.
    gap
        The relative gap of the cost at which to stop; both must be met.

    Returns
    -------
    Reduced
        Rows that no change brings there are not settled. ``weight`` is 1 / the multiplier of the
        constraint for the cost ½ δᵀPδ.
    """
    n, classes = scores.shape
    labels = np.broadcast_to(np.asarray(label, dtype=np.intp), (n,))
    goals = np.broadcast_to(np.asarray(log_odds, dtype=np.float64), (n,))
    out = Reduced.blank(n, classes)
    for part in blocks(n, classes):
        columns = np.ascontiguousarray(scores[part].T, dtype=np.float64)
        size = np.abs(columns).max(axis=0) + np.abs(goals[part])
        rows = Rows(columns, labels[part], np.arange(part.start, part.stop), size)
        _reach(rows, gram, -goals[part], (tolerance, gap), out)
    return out


def _reach(
    rows: Rows, gram: FloatArray, limit: FloatArray, asked: tuple[float, float], out: Reduced
) -> None:
    """Rows of a block; those far from the goal by way of softer problems.

    Divided by a temperature T, scores far apart come near: T log Σ exp(z/T) is smooth where
    log Σ exp(z) is all but piecewise linear, and Newton's method would follow its creases. Each
    answer is the start at a quarter of the temperature.
    """
    missing = LOSS.pull(rows.scores, rows.label).value - limit
    heat = np.ceil(np.log(np.maximum(missing / MILD, 1.0)) / np.log(COOLING))
    for level in range(int(heat.max(initial=0.0)), 0, -1):
        warm = np.flatnonzero(heat >= level)
        temperature = COOLING**level
        part = rows.take(warm)
        softer = Rows(part.scores / temperature, part.label, part.position, part.size / temperature)
        start = _started(out, part, temperature)
        _Search(softer, gram / temperature**2, limit[warm] / temperature, ROUGHLY, out).run(start)
        out.coefficients[part.position] /= temperature
        out.weight[part.position] *= temperature
    _Search(rows, gram, limit, asked, out).run(_started(out, rows, 1.0))


def _started(out: Reduced, rows: Rows, temperature: float) -> tuple[FloatArray, FloatArray]:
    """(K, n) u and (n,) λ where rows stand, in the units of a temperature; 0 where nowhere yet."""
    u, weight = out.coefficients[rows.position].T, out.weight[rows.position]
    known = np.isfinite(weight) & (weight > 0)
    return np.where(known, u * temperature, 0.0), np.where(known, weight / temperature, 0.0)


@final
@dataclass(eq=False)
class _Search:
    """The rows of a block that are still on their way.

    Parameters
    ----------
    rows, gram
        The problems.
    limit
        (n,) what the loss, the negative log-odds, shall be.
    asked
        The tolerance and the gap.
    out
        Where finished rows go.
    """

    rows: Rows
    gram: FloatArray
    limit: FloatArray
    asked: tuple[float, float]
    out: Reduced

    def run(self, start: tuple[FloatArray, FloatArray]) -> None:
        """Until every row is finished.

        Parameters
        ----------
        start
            (K, n) u and (n,) λ; 0 for rows that start at the nearest half-space.
        """
        going = ~(self._those_that_stay() | self._those_that_cannot_move())
        self.rows, self.limit = self.rows.take(going), self.limit[going]
        if not going.any():
            return
        u, weight = self._nearest_half_space()
        known = start[1][going] > 0
        u = np.where(known, start[0][:, going], u)
        weight = np.where(known, start[1][going], weight)
        self.state = State.at(u, weight, self.rows, self.gram, LOSS)
        self.steepest = np.sqrt(self._steepness().max(axis=0))
        self.low, self.high = np.log(weight) - FURTHEST, np.full(len(weight), np.inf)
        self.least = np.array(self.low)
        self.best = np.full(len(weight), np.inf)
        self.idle = np.zeros(len(weight), dtype=np.intp)
        for step in range(STEPS):
            self._finish(self._is_settled() | self._is_hopeless(), step)
            if not len(self.rows.label):
                return
            self._advance()
        self._finish(np.ones(len(self.rows.label), dtype=bool), STEPS)

    def _those_that_stay(self) -> BoolArray:
        """(n,): rows that have the log-odds already, but for their rounding; u = 0."""
        pull = LOSS.pull(self.rows.scores, self.rows.label)
        there = pull.value <= self.limit + ROUNDED * self.rows.size
        at = self.rows.position[there]
        self.out.coefficients[at] = 0.0
        self.out.weight[at] = np.inf
        self.out.shares[at] = pull.shares[:, there].T
        self.out.settled[at] = True
        return np.asarray(there)

    def _those_that_cannot_move(self) -> BoolArray:
        """(n,): rows with a rival as good as identical to the label, and too far ahead of it."""
        blocked = (self._short_of_rivals() > 0) & (self._steepness() == 0.0)
        stuck = blocked.any(axis=0)
        at = self.rows.position[stuck]
        self.out.shares[at] = np.eye(len(blocked))[blocked.argmax(axis=0)[stuck]]
        return np.asarray(stuck)

    def _nearest_half_space(self) -> tuple[FloatArray, FloatArray]:
        """(K, n) u and (n,) λ that meet the goal against the rival that makes it dearest."""
        rows, columns = self.rows, np.arange(len(self.rows.label))
        steep, short = self._steepness(), self._short_of_rivals()
        odds = LOSS.pull(rows.scores, rows.label).value - self.limit
        short = np.maximum(short, 1e-3 * odds)  # many rivals may be ahead together, and none alone
        with np.errstate(divide="ignore", invalid="ignore"):
            price = np.where(steep > 0.0, short / np.sqrt(steep), -np.inf)
        price[rows.label, columns] = -np.inf
        rival = price.argmax(axis=0)
        length = short[rival, columns] / np.where(steep > 0.0, steep, np.inf)[rival, columns]
        length = np.maximum(length, 1e-300)
        u = np.zeros_like(rows.scores)
        u[rival, columns], u[rows.label, columns] = length, -length
        return u, 1.0 / length

    def _short_of_rivals(self) -> FloatArray:
        """(K, n) by how much each rival alone misses the limit; negative where it does not."""
        rows, columns = self.rows, np.arange(len(self.rows.label))
        short = rows.scores - rows.scores[rows.label, columns] - self.limit
        short[rows.label, columns] = -np.inf
        return np.asarray(short)

    def _steepness(self) -> FloatArray:
        """(K, n) the squared lengths of the differences of rows of A to the label's."""
        every, label = np.diagonal(self.gram), self.rows.label
        size = every[:, None] + every[label]
        steep = size - 2.0 * self.gram[:, label]
        return np.where(steep <= 16.0 * EPS * size, 0.0, steep)

    @property
    def _missing(self) -> FloatArray:
        """(n,) by how much the loss exceeds its limit."""
        return np.asarray(self.state.loss - self.limit)

    def _is_settled(self, least: float = 0.0) -> BoolArray:
        """(n,): the goal is met to the tolerance, and the cost is optimal to the gap or ``least``.

        Closer to the goal than scores are rounded is close enough.
        """
        tolerance, gap = self.asked
        state, missing = self.state, np.abs(self._missing)
        noise = ROUNDED * self.rows.size
        gap = max(gap, least)
        cost = state.weight * (state.value - state.loss)  # times λ²: what r is measured against
        close = missing <= np.maximum(tolerance, noise)
        close &= (missing * state.weight <= gap * cost) | (missing <= noise)
        return np.asarray(close & (state.gradient <= 2.0 * gap * cost))

    def _is_hopeless(self) -> BoolArray:
        """(n,): λ has nowhere to go, or rounding lets nothing improve any more."""
        state = self.state
        merit = np.abs(self._missing) + np.sqrt(state.gradient) / state.weight
        better = merit < 0.5 * self.best
        self.best = np.where(better, merit, self.best)
        self.idle = np.where(better, 0, self.idle + 1)
        noise = np.abs(self._missing) <= 64.0 * EPS * self.rows.size
        return np.asarray(
            (noise & (self.idle >= 12))
            | (self.idle >= 40)
            | (np.log(state.weight) <= self.least + 1.0)
        )

    def _advance(self) -> None:
        """One step of each row, of u alone or of u and λ."""
        state, gram, missing = self.state, self.gram, self._missing
        hessians = state.hessians(gram)
        forcing = np.minimum(ROUGH, np.sqrt(np.minimum(np.abs(missing), 1.0)) * ROUGH)
        inner = hessians.direction(state.residual, state.weighed, forcing)
        gain = dots(self._slope(state), inner)
        left = -dots(state.weighed, inner)  # about twice what the value can still fall
        joint = (np.abs(gain) <= NEAR * np.abs(missing)) & (left <= QUADRATIC)
        joint |= left <= EPS * np.abs(state.value)
        self._bracket(missing)
        change, along = np.zeros(len(missing)), np.zeros_like(inner)
        at, alone = np.flatnonzero(joint), np.flatnonzero(~joint)
        if len(at):
            change[at], along[:, at] = self._with_weight(at, (missing + gain)[at], forcing[at])
        following = State.at(
            state.u + inner + change * along,
            state.weight * np.exp(change),
            self.rows,
            gram,
            LOSS,
        )
        if len(alone):
            part = state.take(alone)
            lower, _ = part.descended(inner[:, alone], self.rows.take(alone), gram, LOSS)
            following.put(alone, lower)
        self.state = following

    def _with_weight(
        self, at: IntArray, missing: FloatArray, forcing: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(m,) steps of log λ by which some rows meet their goal, and (K, m) how u follows them."""
        state, gram = self.state.take(at), self.gram
        pulled = state.weight * state.u
        along = state.hessians(gram).direction(pulled, gram @ pulled, forcing)
        rate = dots(self._slope(state), along)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            change = np.clip(-missing / rate, -LONGEST, LONGEST)
        return self._inside(np.nan_to_num(change), at), along

    def _slope(self, state: State) -> FloatArray:
        """(K, n) the gradient of the loss in u: −G (p − e)."""
        return np.asarray(state.weighed - state.weight * (self.gram @ state.u))

    def _bracket(self, missing: FloatArray) -> None:
        """Where the loss at u and at u(λ) miss the limit on the same side, λ is on that side.

        By strong convexity u is within ‖r‖/λ of u(λ), and no score difference, hence no loss, is
        steeper than the rows of A are apart.
        """
        state, level = self.state, np.log(self.state.weight)
        off = self.steepest * np.sqrt(state.gradient) / state.weight
        near = off < np.abs(missing)
        self.high = np.where(near & (missing > 0), np.minimum(self.high, level), self.high)
        self.low = np.where(near & (missing < 0), np.maximum(self.low, level), self.low)

    def _inside(self, change: FloatArray, at: IntArray) -> FloatArray:
        """Steps of log λ that stay inside the bracket; the middle where they do not."""
        level = np.log(self.state.weight[at])
        low = np.maximum(self.low[at], level - LONGEST)
        high = np.minimum(self.high[at], level + LONGEST)
        outside = (level + change <= low) | (level + change >= high)
        return np.where(outside, 0.5 * (low + high) - level, change)

    def _finish(self, done: BoolArray, step: int) -> None:
        """Record rows and let them go."""
        if not done.any():
            return
        at, state, out = self.rows.position[done], self.state.take(done), self.out
        out.coefficients[at] = state.u.T
        out.weight[at] = state.weight
        out.shares[at] = state.shares.T
        out.gradient[at] = np.sqrt(state.gradient)
        out.iterations[at] += step
        out.settled[at] = self._is_settled(NEARLY)[done]
        keep = ~done
        self.rows, self.state, self.limit = (
            self.rows.take(keep),
            self.state.take(keep),
            self.limit[keep],
        )
        for name in ("low", "high", "least", "best", "idle", "steepest"):
            setattr(self, name, getattr(self, name)[keep])
