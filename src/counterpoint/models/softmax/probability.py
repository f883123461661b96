"""Find the least change that gives a class its probability: one multiplier, in K dimensions.

Minimised is ½ δᵀPδ subject to log(p / (1 − p)) >= goal. Its Lagrangian at the multiplier 1/λ is,
times λ, a trade-off with the log-odds for the loss, minimal at u(λ); the log-odds there fall as λ
grows, and the right λ is the one at which they meet the goal. Newton's method moves u and log λ
together as soon as u is near u(λ); until then it minimises at a fixed λ, which a bracket keeps
between what is known to be too small and too large.

The loss is minus the log-odds, so its limit is minus the goal.
"""

from __future__ import annotations

from copy import copy
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.models.softmax.newton import (
    STEPS,
    Descent,
    Entries,
    Reduced,
    blocks,
    direction,
    dots,
    label_entries,
)
from counterpoint.numerics import EPS, LEAST, BoolArray, FloatArray, IntArray

SCORE_ROUNDING = 32.0 * EPS
"""The rounding of a score, relative to the size of the scores."""


def log_odds_loss(scores: FloatArray, labels: Entries) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return −log(p / (1 − p)): log Σ exp(z) over the others − z_label; see `newton.Loss`."""
    shares = np.array(scores)
    shares[labels] = -np.inf
    top = shares.max(axis=0)
    shares = np.exp(shares - top)
    total = shares.sum(axis=0)
    shares /= total
    return top - scores[labels] + np.log(total), shares, np.ones_like(top)


def reach(scores: FloatArray, gram: FloatArray, label: ArrayLike, goal: ArrayLike) -> Reduced:
    """Minimise δᵀPδ for each row, so that its label's log-odds, log p − log(1 − p), are at a goal.

    ``scores``: (n, K) z̄ at the factual points; ``gram``: (K, K) G = A P⁻¹ Aᵀ, which may be
    singular; ``label``: the position k of the class, and ``goal``: the least log-odds, one or (n,).
    Rows at which they are as high already stay. Rows that no change brings there are not settled.
    The ``weight`` of a solution is 1 / the multiplier of the constraint for the cost ½ δᵀPδ.
    """
    n, classes = scores.shape
    # Solved in blocks with a column a row: the loss, minus the log-odds, is at most its limit.
    limits = -np.broadcast_to(np.asarray(goal, dtype=np.float64), (n,))
    labels = np.broadcast_to(np.asarray(label, dtype=np.intp), (n,))
    out = Reduced.blank(n, classes)
    for block in blocks(n, classes):
        columns = np.ascontiguousarray(scores[block].T, dtype=np.float64)
        rows = np.arange(block.start, block.stop)
        _search(columns, labels[block], gram, limits[block], out, rows)
    return out


def _search(
    scores: FloatArray,
    label: IntArray,
    gram: FloatArray,
    limit: FloatArray,
    out: Reduced,
    rows: IntArray,
) -> None:
    """Find u and λ of the rows of a block, from the nearest half-space, and record them."""
    score_size = np.abs(scores).max(axis=0) + np.abs(limit)
    at_label = label_entries(label)
    # (K, n) by how much each rival alone misses the limit, and the squared distances, in P⁻¹, of
    # its row of A from the label's: 0 where rounding cannot tell the rows apart
    shortfall = scores - scores[at_label] - limit
    shortfall[at_label] = -np.inf
    lengths = gram.diagonal()[:, None] + gram[label, label]
    square = lengths - 2.0 * gram[:, label]
    square = np.where(square <= 16.0 * EPS * lengths, 0.0, square)

    # Rows that have the log-odds already, but for their rounding, stay.
    loss_value, shares, _ = log_odds_loss(scores, at_label)
    satisfied = loss_value <= limit + SCORE_ROUNDING * score_size
    out.coefficients[rows[satisfied]], out.weight[rows[satisfied]] = 0.0, np.inf
    out.shares[rows[satisfied]], out.settled[rows[satisfied]] = shares[:, satisfied].T, True
    # No change moves a label away from a rival with the same row of A. If that one is too far
    # ahead, its share of 1 proves that the goal is out of reach.
    blocked = (shortfall > 0) & (square == 0.0)
    hopeless = blocked.any(axis=0)
    out.shares[rows[hopeless]] = np.eye(len(scores))[blocked.argmax(axis=0)[hopeless]]
    remaining = np.flatnonzero(~satisfied & ~hopeless)
    if not len(remaining):
        return

    inputs = scores[:, remaining], label[remaining], score_size[remaining]
    square, missing = square[:, remaining], (loss_value - limit)[remaining]
    u, weight = _nearest_half_space(shortfall[:, remaining], square, missing, inputs[1])
    state = Descent.at(u, weight, inputs, gram, log_odds_loss)
    steepest = np.sqrt(square.max(axis=0))
    _meet_goals(_GoalSearch(state, limit[remaining], steepest), out, rows[remaining])


def _meet_goals(search: _GoalSearch, out: Reduced, rows: IntArray) -> None:
    """Move rows until they meet their goals, and record each when it does, or cannot."""
    for step in range(STEPS + 1):
        done = search.is_settled() | search.has_stalled() | (step == STEPS)
        if done.any():
            settled = search.is_settled(1e-10)[done]  # if rounding lets them come no nearer
            out.put(rows[done], search.state.take(done), step, settled)
            if done.all():
                return
            rows, search = rows[~done], search.take(~done)
        search.advance()


def _nearest_half_space(
    shortfall: FloatArray, square: FloatArray, missing: FloatArray, label: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(K, n) u and (n,) λ that meet the goal against the rival that makes it dearest.

    The goal against one rival is a half-space. The least change into it has the length shortfall /
    √square, u = ±shortfall / square at the rival and the label, and λ = 1 / u.
    """
    at_label = label_entries(label)
    # Where many rivals are ahead together, and none alone, a start away from 0 is still needed.
    shortfall = np.maximum(shortfall, 1e-3 * missing)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(square > 0.0, shortfall / np.sqrt(square), -np.inf)
    distance[at_label] = -np.inf
    dearest = label_entries(distance.argmax(axis=0))
    pull = shortfall[dearest] / np.where(square[dearest] > 0.0, square[dearest], np.inf)
    pull = np.maximum(pull, LEAST)
    u = np.zeros_like(shortfall)
    u[dearest], u[at_label] = pull, -pull
    return u, 1.0 / pull


@final
class _GoalSearch:
    """The states of rows that are still on their way, and between which λ each must end."""

    def __init__(self, state: Descent, limit: FloatArray, steepest: FloatArray) -> None:
        # (n,) limits of the loss, and the largest distances, in P⁻¹, of a rival's row of A from the
        # label's
        self.state, self.limit, self.steepest = state, limit, steepest
        # (n,) the bracket of log λ; near its first lower end no change that matters reaches a goal
        self.low = self.floor = np.log(state.weight) - np.log(1e20)
        self.high = np.full(len(limit), np.inf)
        # (n,) how near u and λ came at best, and for how many steps they have not come much nearer
        self.nearest, self.idle = self.high, np.zeros(len(limit), dtype=np.intp)

    def take(self, keep: BoolArray) -> _GoalSearch:
        """Return the search of some of the rows."""
        remaining = copy(self)
        remaining.state = self.state.take(keep)
        for name in ("limit", "steepest", "low", "high", "floor", "nearest", "idle"):
            setattr(remaining, name, getattr(self, name)[keep])
        return remaining

    @property
    def _missing(self) -> FloatArray:
        """(n,) by how much the loss exceeds its limit."""
        return np.asarray(self.state.loss_value - self.limit)

    def is_settled(self, gap: float = 1e-12) -> BoolArray:
        """(n,): the goal is met, and the cost is optimal to a relative gap.

        A distance from the goal below 1e-11, or below the rounding of scores, is none.
        """
        state, missing = self.state, np.abs(self._missing)
        rounding = SCORE_ROUNDING * state.score_size
        # λ² times the cost ½ uᵀGu. By strong convexity the cost is above the least by ‖∇E‖² / 2λ²
        # at most, and a unit of the loss that is missing is worth 1 / λ of it.
        scaled_cost = state.weight * (state.objective - state.loss_value)
        close = missing <= np.maximum(1e-11, rounding)
        close &= (missing * state.weight <= gap * scaled_cost) | (missing <= rounding)
        return np.asarray(close & (state.squared_gradient <= 2.0 * gap * scaled_cost))

    def has_stalled(self) -> BoolArray:
        """(n,): λ has nowhere to go, or for many steps nothing has come nearer.

        Counts the steps, so it is asked once in each. A row that is as near to its goal as rounding
        lets it come has fewer.
        """
        state, missing = self.state, np.abs(self._missing)
        distance = missing + np.sqrt(state.squared_gradient) / state.weight
        nearer = distance < 0.5 * self.nearest
        self.nearest = np.where(nearer, distance, self.nearest)
        self.idle = np.where(nearer, 0, self.idle + 1)
        patience = np.where(missing <= 2.0 * SCORE_ROUNDING * state.score_size, 12, 40)
        return np.asarray((self.idle >= patience) | (np.log(state.weight) <= self.floor + 1.0))

    def advance(self) -> None:
        """Take one step with each row, of u alone or of u and λ.

        u is to minimise E at the present λ, by Newton's method, and λ is to be such that the loss
        there is at its limit.
        """
        state, missing = self.state, self._missing
        step = state.newton()
        gain = dots(_slope(state), step)  # (n,) by how much the step changes the loss, about
        decrease = -dots(state.gram_residual, step)  # about twice what E can still fall
        # λ moves as well if the step of u leaves at least half of what is missing, and can be made
        # in full; or if E can fall by no more than rounding
        joint = (np.abs(gain) <= 0.5 * np.abs(missing)) & (decrease <= 1.0)
        joint |= decrease <= EPS * np.abs(state.objective)
        self._narrow_bracket()
        log_change, tangent = np.zeros(len(missing)), np.zeros_like(step)
        both, alone = np.flatnonzero(joint), np.flatnonzero(~joint)
        if len(both):
            log_change[both], tangent[:, both] = self._weight_step(both, (missing + gain)[both])
        u, weight = state.u + step + log_change * tangent, state.weight * np.exp(log_change)
        following = state.moved(u, weight)
        if len(alone):  # the step of u is shortened until E falls
            following.put(alone, state.take(alone).descended(step[:, alone])[0])
        self.state = following

    def _narrow_bracket(self) -> None:
        """Bound λ where the loss at u and at u(λ) miss the limit on the same side.

        By strong convexity u is within ‖r‖/λ of u(λ), and no score difference, hence no loss, is
        steeper than the rows of A are apart.
        """
        state, missing, level = self.state, self._missing, np.log(self.state.weight)
        error = self.steepest * np.sqrt(state.squared_gradient) / state.weight
        certain = error < np.abs(missing)
        self.high = np.where(certain & (missing > 0), np.minimum(self.high, level), self.high)
        self.low = np.where(certain & (missing < 0), np.maximum(self.low, level), self.low)

    def _weight_step(self, rows: IntArray, missing: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the change (m,) of log λ by which rows meet their goals, and (K, m) du / d log λ.

        A change that leads out of the bracket, or is longer than 2, is replaced by the one that
        leads to the middle of what remains.
        """
        state = self.state.take(rows)
        # At u(λ) the residual r, which has a term λ u, is 0 for every λ. So du / d log λ is
        # Newton's direction against dr / d log λ, which is λ u.
        gram, residual_rate = state.gram, state.weight * state.u
        tangent = direction(gram, state.shares, state.weight, residual_rate, gram @ residual_rate)
        rate = dots(_slope(state), tangent)  # d loss / d log λ
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            change = np.nan_to_num(-missing / rate)
        level = np.log(state.weight)
        low = np.maximum(self.low[rows], level - 2.0)
        high = np.minimum(self.high[rows], level + 2.0)
        outside = (level + change <= low) | (level + change >= high)
        return np.where(outside, 0.5 * (low + high) - level, change), tangent


def _slope(state: Descent) -> FloatArray:
    """(K, n) the gradient of the loss in u: −G (p − e)."""
    return np.asarray(state.gram_residual - state.weight * (state.gram @ state.u))
