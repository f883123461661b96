"""The trade-off λ/2 δᵀPδ − log p_label: its minimiser, in K dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.models.softmax.descent import (
    ROUGH,
    Descent,
    Reduced,
    blocks,
    every,
    log_loss,
    own,
)
from counterpoint.models.softmax.logistic import logistic_root, rough_root
from counterpoint.numerics import TINY, BoolArray, FloatArray, IntArray

__all__ = ["minimise"]

STEPS = 200
"""Newton steps at most: what is not settled then is returned as it is, and says so."""
FEW = 4
"""So many rows are solved one by one: alone, a row takes a third of what a batch of one takes."""
ROUNDS = 3
"""Rivals that a guess looks at, one by one; a worse guess costs steps of Newton's method alone."""
UNSEEN = 1e-8
"""The share, relative to the label's, below which a rival without a share stays without."""
SEEN = 1.0
"""By how much log-odds may be off what they are to be for Newton's method to begin."""


def minimise(
    scores: FloatArray,
    gram: FloatArray,
    label: ArrayLike,
    weight: ArrayLike,
    *,
    shares: FloatArray | None = None,
    accuracy: tuple[float, float] = (1e-8, 1e-12),
) -> Reduced:
    """Minimise λ/2 δᵀPδ − log p for each row, with p the probability of its label.

    Two classes are solved in closed form, more by Newton's method.

    Parameters
    ----------
    scores
        (n, K) z̄ at the factual points.
    gram
        (K, K) G = A P⁻¹ Aᵀ; it may be singular.
    label
        The position k of the class, one or (n,).
    weight
        λ > 0, one or (n,).
    shares
        (n, K) about the probabilities at the optimum, to start from; None for a guess.
    accuracy
        The length of the gradient, and the relative gap of the objective, at which to stop; both
        must be met. Where scores are so large that rounding keeps the gradient above, a row stops
        where it does not fall any more, and is not settled.

    Returns
    -------
    Reduced
    """
    n, classes = scores.shape
    weights, labels = np.empty(n), np.empty(n, dtype=np.intp)
    weights[:], labels[:] = weight, label
    scores = np.asarray(scores, dtype=np.float64)
    out = Reduced.blank(n, classes)
    for part in range(n) if n <= FEW else blocks(n, classes):
        columns = np.ascontiguousarray(scores[part].T)
        given = columns, labels[part], np.abs(columns).max(axis=0)
        if classes == 2:
            u = _of_two(columns, gram, labels[part], weights[part])
        elif shares is None:
            u = _guess(columns, gram, labels[part], weights[part])
        else:
            u = _pulled(np.array(shares[part].T), labels[part], weights[part])
        state = Descent.at(u, weights[part], given, gram, log_loss)
        _descend(state, accuracy, out, part, closed=classes == 2)
    return out


def _descend(
    state: Descent, accuracy: tuple[float, float], out: Reduced, part: Any, *, closed: bool
) -> None:
    """The rows of a block, or one row alone, from a start; finished rows leave."""
    rows = np.arange(len(out.weight))[part]
    start: FloatArray = np.maximum(state.gradient, TINY)
    stuck: Any = np.bool_(closed)
    for step in range(STEPS + 1):
        settled = _is_settled(state, *accuracy)
        gone = settled | stuck | (step == STEPS)
        if every(gone):
            out.put(rows, state, step, settled)
            return
        if gone.any():
            out.put(rows[gone], state.take(gone), step, settled[gone])
            rows, state, start = rows[~gone], state.take(~gone), start[~gone]
        # one row alone is solved exactly
        alone, progress = state.label.ndim == 0, state.gradient / start
        forcing = progress if alone else np.minimum(ROUGH, np.sqrt(progress))
        state, stuck = state.descended(state.newton(forcing))


def _is_settled(state: Descent, tolerance: float, gap: float) -> BoolArray:
    """(n,): strong convexity bounds E − E* by ‖∇E‖² / 2λ."""
    close = state.gradient <= 2.0 * state.weight * gap * state.value
    return close & (state.gradient <= tolerance * tolerance)


def _apart(gram: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
    """(n,) the squared length of the difference of rows i and j of A, in the metric P⁻¹."""
    return np.maximum(gram[i, i] - 2.0 * gram[i, j] + gram[j, j], 0.0)


def _of_two(
    scores: FloatArray, gram: FloatArray, label: IntArray, weight: FloatArray
) -> FloatArray:
    """(2, n) u of two classes: theorem 4.2."""
    mine, other, u = own(label), own(1 - label), np.empty_like(scores)
    slope, ahead = _apart(gram, label, 1 - label) / weight, scores[other] - scores[mine]
    share = logistic_root(np.atleast_1d(slope), np.atleast_1d(-ahead))[0].reshape(label.shape)
    u[mine], u[other] = -share / weight, share / weight
    return u


def _guess(scores: FloatArray, gram: FloatArray, label: IntArray, weight: FloatArray) -> FloatArray:
    """(K, n) u near the optimum of each row: rivals one by one, by the closed form for two classes.

    The dual of the trade-off has one variable v ≥ 0 a rival, and v_label = 1 − Σ v. Given the
    others, the best v_j is the root of the two-class equation. A few such steps, each on the rival
    that is furthest from its optimum, spare Newton's method half of its steps: all those in which
    one rival after the other comes into sight.
    """
    mine = own(label)
    shares = np.zeros(scores.shape)
    shares[mine] = 1.0
    ahead = scores - scores[mine]  # of the label, at the current shares
    for _ in range(min(ROUNDS, len(scores))):
        held = np.log(np.maximum(shares / np.maximum(shares[mine], TINY), UNSEEN))
        lead = ahead - held
        lead[mine] = -np.inf
        rival = lead.argmax(axis=0)
        at = (rival, *mine[1:])
        if every(lead[at] < SEEN):
            break
        before, slope = shares[at], _apart(gram, rival, label) / weight
        total = before + shares[mine]
        share, rest = rough_root(total * slope, ahead[at] + slope * before)
        shares[at], shares[mine] = total * share, total * rest
        toward = gram[:, rival] - gram[:, label]
        ahead -= ((total * share - before) / weight) * (toward - toward[mine])
    return _pulled(shares, label, weight)


def _pulled(shares: FloatArray, label: IntArray, weight: FloatArray) -> FloatArray:
    """(K, n) u where the gradient vanishes for these shares, which are overwritten."""
    mine, u = own(label), shares
    u /= weight
    u[mine] = 0.0
    u[mine] = -u.sum(axis=0)
    return u
