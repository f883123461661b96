"""The least change that gives a class its probability: one multiplier, found in K dimensions.

min ½ δᵀPδ subject to log(p / (1 − p)) >= goal. Its Lagrangian at the multiplier 1/λ is, times λ, a
trade-off with the log-odds for the loss, minimal at u(λ); the log-odds there fall as λ grows, and
the right λ is the one at which they meet the goal. Newton's method moves u and log λ together as
soon as u is near u(λ); until then it minimises at a fixed λ, which a bracket keeps between what is
known to be too small and too large.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.models.softmax.newton import (
    STEPS,
    Descent,
    Reduced,
    blocks,
    direction,
    dots,
    label_entries,
)
from counterpoint.numerics import EPS, LEAST, BoolArray, FloatArray, IntArray

ROUNDED = 32.0 * EPS
"""The rounding of a score, relative to the size of the scores."""
LONGEST = 2.0
"""The longest step of log λ."""


def log_odds(scores: FloatArray, at: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """−log(p / (1 − p)): log Σ exp(z) over the others − z_label; see `newton.Loss`."""
    shares = np.array(scores)
    shares[at] = -np.inf
    top = shares.max(axis=0)
    shares = np.exp(shares - top)
    total = shares.sum(axis=0)
    shares /= total
    return top - scores[at] + np.log(total), shares, np.ones_like(top)


def reach(
    scores: FloatArray,
    gram: FloatArray,
    label: ArrayLike,
    goal: ArrayLike,
    *,
    tolerance: float = 1e-11,
    gap: float = 1e-12,
) -> Reduced:
    """The least δᵀPδ at which the label's log-odds, log p − log(1 − p), are a number.

    ``scores``: (n, K) z̄ at the factual points; ``gram``: (K, K) G = A P⁻¹ Aᵀ, which may be
    singular; ``label``: the position k of the class, and ``goal``: what they shall be, one or (n,).
    Rows at which they are as high already stay. ``tolerance``: the distance from the goal, and
    ``gap``: the relative gap of the cost, at which to stop; both must be met.

    Rows that no change brings there are not settled. ``weight`` is 1 / the multiplier of the
    constraint for the cost ½ δᵀPδ.
    """
    n, classes = scores.shape
    limits = -np.broadcast_to(np.asarray(goal, dtype=np.float64), (n,))
    labels = np.broadcast_to(np.asarray(label, dtype=np.intp), (n,))
    out = Reduced.blank(n, classes)
    for block in blocks(n, classes):
        columns = np.ascontiguousarray(scores[block].T, dtype=np.float64)
        record = out, np.arange(block.start, block.stop)
        _search(columns, labels[block], gram, limits[block], (tolerance, gap), record)
    return out


def _search(
    scores: FloatArray,
    label: IntArray,
    gram: FloatArray,
    limit: FloatArray,
    accuracy: tuple[float, float],
    record: tuple[Reduced, IntArray],
) -> None:
    """Find u and λ of the rows of a block, from the nearest half-space, and record them."""
    (out, rows), size = record, np.abs(scores).max(axis=0) + np.abs(limit)
    mine = label_entries(label)
    # (K, n) by how much each rival alone misses the limit, and the squared lengths of the
    # differences of its row of A to the label's
    short = scores - scores[mine] - limit
    short[mine] = -np.inf
    lengths = gram.diagonal()[:, None] + gram[label, label]
    steep = lengths - 2.0 * gram[:, label]
    steep = np.where(steep <= 16.0 * EPS * lengths, 0.0, steep)

    # rows that have the log-odds already, but for their rounding, stay
    value, shares, _ = log_odds(scores, mine)
    satisfied = value <= limit + ROUNDED * size
    out.coefficients[rows[satisfied]], out.weight[rows[satisfied]] = 0.0, np.inf
    out.shares[rows[satisfied]], out.settled[rows[satisfied]] = shares[:, satisfied].T, True
    # those with a rival as good as identical to the label, and too far ahead of it, cannot move
    blocked = (short > 0) & (steep == 0.0)
    stuck = blocked.any(axis=0)
    out.shares[rows[stuck]] = np.eye(len(scores))[blocked.argmax(axis=0)[stuck]]
    going = np.flatnonzero(~satisfied & ~stuck)
    if not len(going):
        return

    inputs = scores[:, going], label[going], size[going]
    steep, odds = steep[:, going], (value - limit)[going]
    u, weight = _nearest_half_space(short[:, going], steep, odds, inputs[1])
    state = Descent.at(u, weight, inputs, gram, log_odds)
    search = _GoalSearch(state, limit[going], np.sqrt(steep.max(axis=0)), accuracy)
    rows = rows[going]
    for step in range(STEPS + 1):
        gone = search.is_settled() | search.is_hopeless() | (step == STEPS)
        if gone.any():
            settled = search.is_settled(1e-10)[gone]  # if rounding lets them come no nearer
            out.put(rows[gone], search.state.take(gone), step, settled)
            if gone.all():
                return
            rows, search = rows[~gone], search.take(~gone)
        search.advance()


def _nearest_half_space(
    short: FloatArray, steep: FloatArray, odds: FloatArray, label: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(K, n) u and (n,) λ that meet the goal against the rival that makes it dearest."""
    mine = label_entries(label)
    short = np.maximum(short, 1e-3 * odds)  # many rivals may be ahead together, and none alone
    with np.errstate(divide="ignore", invalid="ignore"):
        encoded_cost = np.where(steep > 0.0, short / np.sqrt(steep), -np.inf)
    encoded_cost[mine] = -np.inf
    at = (encoded_cost.argmax(axis=0), mine[1])
    length = np.maximum(short[at] / np.where(steep[at] > 0.0, steep[at], np.inf), LEAST)
    u = np.zeros_like(short)
    u[at], u[mine] = length, -length
    return u, 1.0 / length


@final
class _GoalSearch:
    """The rows of a block that are still on their way."""

    def __init__(
        self,
        state: Descent,
        limit: FloatArray,
        steepest: FloatArray,
        accuracy: tuple[float, float],
    ) -> None:
        # where they are, (n,) the limits of the loss, and the length of the longest difference of
        # rows of A to the label's; the tolerance and the gap
        self.state, self.limit, self.steepest, self.accuracy = state, limit, steepest, accuracy
        # (n,) the bracket of log λ, and the log λ below which no change that matters reaches the
        # goal
        self.low = self.least = np.log(state.weight) - np.log(1e20)
        self.high = np.full(len(limit), np.inf)
        # (n,) how near u and λ came at best, and for how many steps they have not come nearer
        self.best, self.idle = self.high, np.zeros(len(limit), dtype=np.intp)

    def take(self, keep: BoolArray) -> _GoalSearch:
        """Some of the rows."""
        remaining = _GoalSearch(
            self.state.take(keep), self.limit[keep], self.steepest[keep], self.accuracy
        )
        for name in ("low", "high", "least", "best", "idle"):
            setattr(remaining, name, getattr(self, name)[keep])
        return remaining

    @property
    def _missing(self) -> FloatArray:
        """(n,) by how much the loss exceeds its limit."""
        return np.asarray(self.state.loss_value - self.limit)

    def is_settled(self, least: float = 0.0) -> BoolArray:
        """(n,): the goal is met to the tolerance, and the cost is optimal to the gap or ``least``.

        Closer to the goal than scores are rounded is close enough.
        """
        tolerance, gap = self.accuracy
        state, missing = self.state, np.abs(self._missing)
        noise = ROUNDED * self.state.size
        gap = max(gap, least)
        cost = state.weight * (
            state.value - state.loss_value
        )  # times λ²: what r is measured against
        close = missing <= np.maximum(tolerance, noise)
        close &= (missing * state.weight <= gap * cost) | (missing <= noise)
        return np.asarray(close & (state.gradient <= 2.0 * gap * cost))

    def is_hopeless(self) -> BoolArray:
        """(n,): λ has nowhere to go, or rounding lets nothing improve any more."""
        state = self.state
        merit = np.abs(self._missing) + np.sqrt(state.gradient) / state.weight
        better = merit < 0.5 * self.best
        self.best = np.where(better, merit, self.best)
        self.idle = np.where(better, 0, self.idle + 1)
        noise = np.abs(self._missing) <= 64.0 * EPS * self.state.size
        return np.asarray(
            (noise & (self.idle >= 12))
            | (self.idle >= 40)
            | (np.log(state.weight) <= self.least + 1.0)
        )

    def advance(self) -> None:
        """One step of each row, of u alone or of u and λ."""
        state, missing = self.state, self._missing
        inner = state.newton()
        gain = dots(_slope(state), inner)
        decrease = -dots(state.weighed, inner)  # about twice what the value can still fall
        # λ moves as well if u leaves half of what is missing, and its full step can be trusted
        joint = (np.abs(gain) <= 0.5 * np.abs(missing)) & (decrease <= 1.0)
        joint |= decrease <= EPS * np.abs(state.value)
        self._bracket(missing)
        change, along = np.zeros(len(missing)), np.zeros_like(inner)
        at, alone = np.flatnonzero(joint), np.flatnonzero(~joint)
        if len(at):
            change[at], along[:, at] = self._with_weight(at, (missing + gain)[at])
        u, weight = state.u + inner + change * along, state.weight * np.exp(change)
        following = state.moved(u, weight)
        if len(alone):
            following.put(alone, state.take(alone).descended(inner[:, alone])[0])
        self.state = following

    def _with_weight(self, at: IntArray, missing: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(m,) steps of log λ by which some rows meet their goal, and (K, m) how u follows them."""
        state = self.state.take(at)
        gram, pulled = state.gram, state.weight * state.u
        along = direction(gram, state.shares, state.weight, pulled, gram @ pulled)
        rate = dots(_slope(state), along)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            change = np.clip(-missing / rate, -LONGEST, LONGEST)
        return self._inside(np.nan_to_num(change), at), along

    def _bracket(self, missing: FloatArray) -> None:
        """Where the loss at u and at u(λ) miss the limit on the same side, λ is on that side.

        By strong convexity u is within ‖r‖/λ of u(λ), and no score difference, hence no loss, is
        steeper than the rows of A are apart.
        """
        state, level = self.state, np.log(self.state.weight)
        error = self.steepest * np.sqrt(state.gradient) / state.weight
        near = error < np.abs(missing)
        self.high = np.where(near & (missing > 0), np.minimum(self.high, level), self.high)
        self.low = np.where(near & (missing < 0), np.maximum(self.low, level), self.low)

    def _inside(self, change: FloatArray, at: IntArray) -> FloatArray:
        """Steps of log λ that stay inside the bracket; the middle where they do not."""
        level = np.log(self.state.weight[at])
        low = np.maximum(self.low[at], level - LONGEST)
        high = np.minimum(self.high[at], level + LONGEST)
        outside = (level + change <= low) | (level + change >= high)
        return np.where(outside, 0.5 * (low + high) - level, change)


def _slope(state: Descent) -> FloatArray:
    """(K, n) the gradient of the loss in u: −G (p − e)."""
    return np.asarray(state.weighed - state.weight * (state.gram @ state.u))
