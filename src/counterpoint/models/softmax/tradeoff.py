"""The trade-off λ/2 δᵀPδ − log p_label: its minimiser, in K dimensions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.models.softmax.descent import Rows, State
from counterpoint.models.softmax.logistic import logistic_root
from counterpoint.models.softmax.reduced import LogLosses, Reduced, blocks, pair_gram
from counterpoint.models.softmax.single import Single
from counterpoint.models.softmax.start import guess
from counterpoint.numerics import FloatArray, IntArray

__all__ = ["minimise"]


STEPS = 200
FEW = 4
"""So many rows are solved one by one."""
LOSS = LogLosses()


def minimise(
    scores: FloatArray,
    gram: FloatArray,
    label: ArrayLike,
    weight: ArrayLike,
    *,
    tolerance: float = 1e-8,
    gap: float = 1e-12,
) -> Reduced:
    """Minimise λ/2 δᵀPδ − log p_label for each row.

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
    labels = np.broadcast_to(np.asarray(label, dtype=np.intp), (n,))
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), (n,))
    out = Reduced.blank(n, classes)
    if n <= FEW and classes > 2:
        _one_by_one(
            np.asarray(scores, dtype=np.float64), gram, labels, weights, (tolerance, gap), out
        )
        return out
    solve = _closed_form if classes == 2 else _newton
    for part in blocks(n, classes):
        columns = np.ascontiguousarray(scores[part].T, dtype=np.float64)
        size = np.abs(columns).max(axis=0)
        rows = Rows(columns, labels[part], np.arange(part.start, part.stop), size)
        solve(rows, gram, np.array(weights[part]), (tolerance, gap), out)
    return out


def _one_by_one(
    scores: FloatArray,
    gram: FloatArray,
    label: IntArray,
    weight: FloatArray,
    asked: tuple[float, float],
    out: Reduced,
) -> None:
    """A few rows: `Single`."""
    for i in range(len(scores)):
        row = Single(scores[i], gram, int(label[i]), float(weight[i]))
        out.iterations[i], out.settled[i] = row.run(STEPS, *asked)
        out.coefficients[i], out.shares[i] = row.u, row.shares
        out.weight[i], out.gradient[i] = row.weight, np.sqrt(row.gradient)


def _closed_form(
    rows: Rows,
    gram: FloatArray,
    weight: FloatArray,
    asked: tuple[float, float],
    out: Reduced,
) -> None:
    """Two classes: theorem 4.2."""
    columns, label = np.arange(len(rows.label)), rows.label
    ahead = rows.scores[1 - label, columns] - rows.scores[label, columns]
    share, _ = logistic_root(pair_gram(gram, label, 1 - label) / weight, -ahead)
    u = np.empty_like(rows.scores)
    u[label, columns], u[1 - label, columns] = -share / weight, share / weight
    _record(out, rows, State.at(u, weight, rows, gram, LOSS), asked, 0)


def _newton(
    rows: Rows,
    gram: FloatArray,
    weight: FloatArray,
    asked: tuple[float, float],
    out: Reduced,
) -> None:
    """More classes: Newton's method, with a line search; finished rows leave."""
    state = State.at(guess(rows.scores, gram, rows.label, weight), weight, rows, gram, LOSS)
    start = np.array(state.gradient)
    for step in range(STEPS):
        done = _is_settled(state, asked)
        if done.any():
            _record(out, rows.take(done), state.take(done), asked, step)
            rows, state, start = rows.take(~done), state.take(~done), start[~done]
        if not len(rows.label):
            return
        direction = state.newton(gram, start)
        state, stuck = state.descended(direction, rows, gram, LOSS)
        if stuck.any():
            _record(out, rows.take(stuck), state.take(stuck), asked, step + 1)
            rows, state, start = rows.take(~stuck), state.take(~stuck), start[~stuck]
    _record(out, rows, state, asked, STEPS)


def _is_settled(state: State, asked: tuple[float, float]) -> NDArray[np.bool_]:
    """(n,): strong convexity bounds E − E* by ‖∇E‖² / 2λ."""
    tolerance, gap = asked
    close = state.gradient <= 2.0 * state.weight * gap * state.value
    return np.asarray(close & (state.gradient <= tolerance * tolerance))


def _record(out: Reduced, rows: Rows, state: State, asked: tuple[float, float], steps: int) -> None:
    at = rows.position
    out.coefficients[at] = state.u.T
    out.weight[at] = state.weight
    out.shares[at] = state.shares.T
    out.gradient[at] = np.sqrt(state.gradient)
    out.iterations[at] = steps
    out.settled[at] = _is_settled(state, asked)
