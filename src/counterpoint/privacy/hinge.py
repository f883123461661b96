"""The minimiser of (2), to a certified gap.

The objective is ½ ‖w‖² + C/n Σ max(0, 1 − a_iᵀw), with rows a_i = y_i φ_i. A primal-dual
interior-point method with Mehrotra's predictor and corrector; each step solves one system of F
equations, so that the number of rows enters linearly. Once it is plain which rows are on the
margin, the equations that then hold are solved by themselves, which is exact but for rounding.
Nothing depends on a guess or on a random number.

Besides w, a point has four numbers for each row, all positive: α_i, C/n − α_i, and the slacks of
its margin, a_iᵀw + lack_i − excess_i = 1. They are the rows of an array (4, n).

References
----------
Mehrotra (1992), On the implementation of a primal-dual interior point method.
Ferris & Munson (2002), Interior-point methods for massive support vector machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from counterpoint.errors import SolverFailure
from counterpoint.numerics import FloatArray


def minimize_hinge(rows: FloatArray, box: float, tol: float, max_iter: int) -> FloatArray:
    """Return weights (F,) certified to be within ``tol`` of the minimum, or raise `SolverFailure`.

    ``rows`` (n, F) are y_i φ_i, and ``box`` is C/n. The error tells nothing about the rows.
    """
    w = np.zeros(rows.shape[1])
    duals = np.repeat([[0.5 * box], [0.5 * box], [1.0], [2.0]], len(rows), axis=1)
    # Where floats end before the iterations do, nothing is certified; a warning would tell of rows.
    with suppress(LinAlgError), np.errstate(all="ignore"):
        for _ in range(max_iter):
            w, duals = _moved(rows, w, duals)
            gap = _complementarity(duals)
            # Rows on the margin are looked for once the gap is small, relative to C.
            near = gap <= 1e-4 * box * len(rows)
            for candidate in _candidates(rows, duals, box) if near else ():
                alpha = np.clip(candidate, 0.0, box)
                weights = alpha @ rows
                if certified_gap(rows, alpha, weights, box) <= tol:
                    return weights
            if not gap > 0.0:  # there is no step from here
                break
    raise SolverFailure(
        f"Expected the weights to be within tol={tol:g} of the best ones, and max_iter={max_iter} "
        "iterations did not prove it, so that nothing is released: raise max_iter, or tol, at the "
        "price of a little more noise."
    )


def _complementarity(duals: FloatArray) -> float:
    alpha, free, excess, lack = duals
    return float(alpha @ excess + free @ lack)


def _moved(
    rows: FloatArray, weights: FloatArray, duals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Take one step of Mehrotra's method: predict, choose how far to centre, correct.

    ``duals`` (4, n) are α, C/n − α, and the slacks excess and lack of a row's margin.
    """
    alpha, free, excess, lack = duals
    stiff = 1.0 / (excess / alpha + lack / free)
    system = cho_factor(_gram(rows, stiff), overwrite_a=True, check_finite=False)
    short = 1.0 + excess - lack - rows @ weights
    residual = alpha @ rows - weights

    def step(upper: FloatArray | float, lower: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Return Newton's step towards α excess = ``upper`` and (C/n − α) lack = ``lower``."""
        upper = upper - alpha * excess
        lower = lower - free * lack
        aim = short + upper / alpha - lower / free
        w = cho_solve(system, residual + (stiff * aim) @ rows, check_finite=False)
        a = stiff * (aim - rows @ w)
        return w, np.stack([a, -a, (upper - excess * a) / alpha, (lower + lack * a) / free])

    gap, share = _complementarity(duals), 0.995  # of the way to the boundary
    mean = gap / (2.0 * len(rows))
    _, predictor = step(0.0, 0.0)
    predicted = duals + _room(duals, predictor, 1.0 / share) * predictor
    remaining = max(_complementarity(predicted), 0.0) / gap
    centre = remaining**3 * mean
    w, change = step(centre - predictor[0] * predictor[2], centre - predictor[1] * predictor[3])
    length = min(1.0, share * _room(duals, change, 1.0 / share))
    if not _complementarity(duals + length * change) <= 0.7 * gap:
        w, change = step(0.5 * mean, 0.5 * mean)  # the corrector overshoots: to the middle
        length = min(1.0, share * _room(duals, change, 1.0 / share))
    return weights + length * w, duals + length * change


def _room(duals: FloatArray, change: FloatArray, most: float) -> float:
    """Return how far a step may go, up to ``most``, until a positive number becomes 0."""
    down = change < 0.0
    return float((duals[down] / -change[down]).min(initial=most))


def _candidates(rows: FloatArray, duals: FloatArray, box: float) -> Iterator[FloatArray]:
    """(n,) α; and the nearest with a_iᵀw = 1 on the margin, and α_i = 0 or C/n elsewhere."""
    alpha, free, excess, lack = duals
    yield alpha
    scale = box * np.maximum(np.einsum("ij,ij->i", rows, rows), 1.0)
    above = excess * scale > alpha
    below = lack * scale > free
    on = ~above & ~below
    alpha = np.where(on, alpha, np.where(below & ~above, box, 0.0))
    margin, rank = rows[on], 1e-12  # singular values below this, relative to the largest, are 0
    for _ in range(2):  # the second takes out what the first rounded
        turn = lstsq(margin, 1.0 - margin @ (alpha @ rows), cond=rank, check_finite=False)[0]
        alpha[on] += lstsq(margin.T, turn, cond=rank, check_finite=False)[0]
    yield alpha


def _gram(rows: FloatArray, stiff: FloatArray) -> FloatArray:
    """(F, F) the identity and Σ stiff_i a_i a_iᵀ."""
    size = rows.shape[1]
    total = np.eye(size)
    step = max(1, 2**21 // size)  # 16 MB of weighted rows at a time
    for i in range(0, len(rows), step):
        block = rows[i : i + step]
        total += (block.T * stiff[i : i + step]) @ block
    return total


def certified_gap(rows: FloatArray, alpha: FloatArray, weights: FloatArray, box: float) -> float:
    """Return an upper bound on the value of (2) at w less that of its dual at α, with rounding.

    It is ½ ‖w − Σ α_i a_i‖² + Σ (C/n − α_i) max(0, 1 − a_iᵀw) + Σ α_i max(0, a_iᵀw − 1), where
    no term is negative.
    """
    # Sums are in extended precision, where the platform has it.
    n, size = rows.shape
    wide = np.longdouble
    w, total, loss, rounding = weights.astype(wide), np.zeros(size, wide), wide(0.0), 0.0
    spread = np.zeros(size)
    unit = max(float(np.finfo(wide).eps), 2.0**-63)  # pairs of doubles claim more than they hold
    step = max(1, 2**16 // size)  # a megabyte in extended precision at a time
    for i in range(0, n, step):
        block, a = rows[i : i + step].astype(wide), alpha[i : i + step].astype(wide)
        total += a @ block
        short = 1.0 - block @ w
        counted = np.where(short > 0.0, wide(box) - a, a)
        loss += (counted * np.abs(short)).sum()
        magnitudes = np.abs(rows[i : i + step])
        error = 2.0 * (size + 3) * unit * (magnitudes @ np.abs(weights) + 1.0)
        # Within the error the sign of ``short`` is unknown, and C/n is the larger of both weights.
        rounding += float(error @ np.where(np.abs(short) > error, counted, box))
        spread += alpha[i : i + step] @ magnitudes
    distance = float(np.linalg.norm((w - total).astype(np.float64)))
    distance += 2.0 * n * unit * float(np.linalg.norm(spread))
    summing = 2.0 * n * unit * float(loss)
    return (0.5 * distance * distance + float(loss) + rounding + summing) * (1.0 + 1e-9)
