"""The trade-off λ/2 δᵀPδ − log p_label: its minimiser, in K dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.models.softmax.descent import ROUGH, Descent, Reduced, blocks, every, log_loss
from counterpoint.models.softmax.logistic import logistic_root, rough_root
from counterpoint.numerics import TINY, BoolArray, FloatArray

__all__ = ["minimise"]

STEPS = 200
FEW = 4
"""So many rows are solved one by one: alone, a row takes a third of what a batch of one takes."""
ROUNDS = 4
UNSEEN = 1e-8
"""The share, relative to the label's, below which a rival without a share stays without."""
SEEN = 1.0
"""By how much log-odds may be off what they are to be for Newton's method to begin."""


def minimise(
    scores: FloatArray,
    gram: FloatArray,
    weight: ArrayLike,
    *,
    tolerance: float = 1e-8,
    gap: float = 1e-12,
) -> Reduced:
    """Minimise λ/2 δᵀPδ − log p for each row, with p the probability of the last class.

    Two classes are solved in closed form, more by Newton's method.

    Parameters
    ----------
    scores
        (n, K) z̄ at the factual points.
    gram
        (K, K) G = A P⁻¹ Aᵀ; it may be singular.
    weight
        λ > 0, one or (n,).
    tolerance
        The length of the gradient at which to stop. Where scores are so large that rounding keeps
        it above, a row stops where it does not fall any more, and is not settled.
    gap
        The relative gap of the objective at which to stop; both must be met.

    Returns
    -------
    Reduced
    """
    n, classes = scores.shape
    weights = np.empty(n)
    weights[:] = weight
    scores = np.asarray(scores, dtype=np.float64)
    out = Reduced.blank(n, classes)
    for part in range(n) if n <= FEW else blocks(n, classes):
        columns = np.ascontiguousarray(scores[part].T)
        _minimise(columns, gram, weights[part], (tolerance, gap), out, part)
    return out


def _minimise(
    scores: FloatArray,
    gram: FloatArray,
    weight: FloatArray,
    asked: tuple[float, float],
    out: Reduced,
    part: Any,
) -> None:
    """The rows of a block, or one row alone; finished rows leave."""
    closed = len(scores) == 2
    u = _of_two(scores, gram, weight) if closed else _guess(scores, gram, weight)
    size = np.abs(scores).max(axis=0)
    state = Descent.at(u, weight, scores, size, gram, log_loss)
    rows = np.arange(len(out.weight))[part]
    start: FloatArray = np.maximum(state.gradient, TINY)
    stuck: Any = np.bool_(closed)
    for step in range(STEPS + 1):
        settled = _is_settled(state, asked)
        gone = settled | stuck | (step == STEPS)
        if every(gone):
            out.put(rows, state, step, settled)
            return
        if gone.any():
            out.put(rows[gone], state.take(gone), step, settled[gone])
            rows, state, start = rows[~gone], state.take(~gone), start[~gone]
        progress = np.sqrt(state.gradient / start)
        state, stuck = state.descended(state.newton(np.minimum(ROUGH, progress)))


def _is_settled(state: Descent, asked: tuple[float, float]) -> BoolArray:
    """(n,): strong convexity bounds E − E* by ‖∇E‖² / 2λ."""
    tolerance, gap = asked
    close = state.gradient <= 2.0 * state.weight * gap * state.value
    return close & (state.gradient <= tolerance * tolerance)


def _of_two(scores: FloatArray, gram: FloatArray, weight: FloatArray) -> FloatArray:
    """(2, n) u of two classes: theorem 4.2."""
    apart = max(gram[0, 0] - 2.0 * gram[0, 1] + gram[1, 1], 0.0)
    slope, ahead = np.atleast_1d(apart / weight), np.atleast_1d(scores[0] - scores[1])
    u = logistic_root(slope, -ahead)[0].reshape(scores[0].shape) / weight
    return np.stack([u, -u])


def _guess(scores: FloatArray, gram: FloatArray, weight: FloatArray) -> FloatArray:
    """(K, n) u near the optimum of each row: rivals one by one, by the closed form for two classes.

    The dual of the trade-off has one variable v ≥ 0 a rival, and v_label = 1 − Σ v. Given the
    others, the best v_j is the root of the two-class equation. A few such steps, each on the rival
    that is furthest from its optimum, spare Newton's method half of its steps: all those in which
    one rival after the other comes into sight.
    """
    toward = gram - gram[:, -1:]
    toward = toward - toward[-1]  # of the differences to the label's row
    apart = np.maximum(toward.diagonal(), 0.0)
    shares = np.zeros(scores.shape)
    shares[-1] = 1.0
    ahead = scores - scores[-1]  # of the label, at the current shares
    columns = (np.arange(scores.shape[1]),) if scores.ndim == 2 else ()
    for _ in range(min(ROUNDS, len(scores))):
        own = shares[-1]
        held = np.log(np.maximum(shares / np.maximum(own, TINY), UNSEEN))
        lead = ahead - held
        lead[-1] = -np.inf
        rival = lead.argmax(axis=0)
        at = (rival, *columns)
        if every(lead[at] < SEEN):
            break
        before, slope = shares[at], apart[rival] / weight
        total = before + own
        share, rest = rough_root(total * slope, -(ahead[at] + slope * before))
        shares[at], shares[-1] = total * share, total * rest
        ahead -= ((total * share - before) / weight) * toward[:, rival]
    u = shares / weight
    u[-1] = 0.0
    u[-1] = -u.sum(axis=0)
    return u
