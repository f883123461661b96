"""Minimises (2), the objective of a support vector machine, to a certified gap.

The objective is ½ ‖w‖² + C/n Σ max(0, 1 − a_iᵀw), with rows a_i = y_i φ_i. A primal-dual
interior-point method with Mehrotra's predictor and corrector; each step solves one system of F
equations, so that the number of rows enters linearly. Once it is plain which rows are on the
margin, the equations that then hold are solved by themselves, which is exact but for rounding.
Nothing depends on a guess or on a random number.

Besides w, a point has four numbers for each row, all positive: its multiplier α_i, ``free``_i =
C/n − α_i, and the slacks of its margin, a_iᵀw + ``lack``_i − ``excess``_i = 1. They are the rows of
an array ``duals`` (4, n). At the optimum w = Σ α_i a_i, α_i excess_i = 0 and free_i lack_i = 0.

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
    # w = 0 with slacks 0 + lack − excess = 1
    w = np.zeros(rows.shape[1])
    duals = np.repeat([[0.5 * box], [0.5 * box], [1.0], [2.0]], len(rows), axis=1)
    # If numbers overflow or vanish, nothing is certified; a warning would tell something of rows.
    with suppress(LinAlgError), np.errstate(all="ignore"):
        for _ in range(max_iter):
            w, duals = _step(rows, w, duals)
            gap = _complementarity(duals)
            # Rows on the margin are looked for once the gap is small, relative to C.
            is_near = gap <= 1e-4 * box * len(rows)
            for candidate in _candidates(rows, duals, box) if is_near else ():
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
    """Return Σ α_i excess_i + (C/n − α_i) lack_i, which is the duality gap of feasible points."""
    alpha, free, excess, lack = duals
    return float(alpha @ excess + free @ lack)


def _step(
    rows: FloatArray, weights: FloatArray, duals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return w and duals (4, n) after one step of Mehrotra's method.

    It predicts how far a step without centring would get, chooses by that how much to centre, and
    corrects for the products of changes that Newton's equations leave out.
    """
    alpha, free, excess, lack = duals
    # Newton's equations, with all changes but that of w eliminated, have the matrix
    # I + Σ curvature_i a_i a_iᵀ.
    curvature = 1.0 / (excess / alpha + lack / free)
    system = cho_factor(_gram(rows, curvature), overwrite_a=True, check_finite=False)
    margin_residual = 1.0 + excess - lack - rows @ weights
    weight_residual = alpha @ rows - weights

    def newton(
        upper: FloatArray | float, lower: FloatArray | float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the changes of w and duals towards α excess = upper and free lack = lower."""
        upper = upper - alpha * excess
        lower = lower - free * lack
        target = margin_residual + upper / alpha - lower / free
        right_side = weight_residual + (curvature * target) @ rows
        w_change = cho_solve(system, right_side, check_finite=False)
        a = curvature * (target - rows @ w_change)  # the change of α
        changes = [a, -a, (upper - excess * a) / alpha, (lower + lack * a) / free]
        return w_change, np.stack(changes)

    gap = _complementarity(duals)
    mean = gap / (2.0 * len(rows))  # of the products α excess and free lack
    share = 0.995  # of the way to where a number becomes 0
    _, predictor = newton(0.0, 0.0)
    predicted = duals + _length_to_zero(duals, predictor, 1.0 / share) * predictor
    remaining = max(_complementarity(predicted), 0.0) / gap
    centre = remaining**3 * mean  # the more of the gap is left so, the more it is centred
    upper, lower = centre - predictor[0] * predictor[2], centre - predictor[1] * predictor[3]
    w_change, change = newton(upper, lower)
    length = min(1.0, share * _length_to_zero(duals, change, 1.0 / share))
    if not _complementarity(duals + length * change) <= 0.7 * gap:
        w_change, change = newton(0.5 * mean, 0.5 * mean)  # the corrector overshoots: to the middle
        length = min(1.0, share * _length_to_zero(duals, change, 1.0 / share))
    return weights + length * w_change, duals + length * change


def _length_to_zero(duals: FloatArray, change: FloatArray, most: float) -> float:
    """Return the length of a step, at most ``most``, at which the first number becomes 0."""
    falls = change < 0.0
    return float((duals[falls] / -change[falls]).min(initial=most))


def _candidates(rows: FloatArray, duals: FloatArray, box: float) -> Iterator[FloatArray]:
    """Yield α (n,), and then the nearest one that satisfies the equations of the optimum.

    Rows on the margin have a_iᵀw = 1, those above it α_i = 0, and those below it α_i = C/n.
    """
    alpha, free, excess, lack = duals
    yield alpha
    # At the optimum one of excess and α is 0, and one of lack and C/n − α. So a row is above the
    # margin if its excess is the larger one, and below it if its lack is; ``scale`` takes slacks to
    # the units of α.
    scale = box * np.maximum(np.einsum("ij,ij->i", rows, rows), 1.0)
    above = excess * scale > alpha
    below = lack * scale > free
    on_margin = ~above & ~below
    alpha = np.where(on_margin, alpha, np.where(below & ~above, box, 0.0))
    margin, rank = rows[on_margin], 1e-12  # smaller singular values, relative to the largest, are 0
    for _ in range(2):  # the second takes out what the first rounded
        # The least change of w that puts rows on the margin, and of α that makes this change.
        change = lstsq(margin, 1.0 - margin @ (alpha @ rows), cond=rank, check_finite=False)[0]
        alpha[on_margin] += lstsq(margin.T, change, cond=rank, check_finite=False)[0]
    yield alpha


def _gram(rows: FloatArray, curvature: FloatArray) -> FloatArray:
    """Return the identity plus Σ curvature_i a_i a_iᵀ, shape (F, F)."""
    size = rows.shape[1]
    total = np.eye(size)
    step = max(1, 2**21 // size)  # 16 MB of weighted rows at a time
    for i in range(0, len(rows), step):
        block = rows[i : i + step]
        total += (block.T * curvature[i : i + step]) @ block
    return total


def certified_gap(rows: FloatArray, alpha: FloatArray, weights: FloatArray, box: float) -> float:
    """Return an upper bound on the value of (2) at w less that of its dual at α, with rounding.

    It is ½ ‖w − Σ α_i a_i‖² + Σ (C/n − α_i) max(0, 1 − a_iᵀw) + Σ α_i max(0, a_iᵀw − 1), where
    no term is negative.
    """
    # Sums are in extended precision, where the platform has it. Each of the three terms is raised
    # by its own rounding error.
    n, size = rows.shape
    wide = np.longdouble
    w, total, loss, rounding = weights.astype(wide), np.zeros(size, wide), wide(0.0), 0.0
    total_size = np.zeros(size)  # of the terms of ``total``, Σ α_i a_i
    unit = max(float(np.finfo(wide).eps), 2.0**-63)  # pairs of doubles claim more than they hold
    step = max(1, 2**16 // size)  # a megabyte in extended precision at a time
    for i in range(0, n, step):
        block, a = rows[i : i + step].astype(wide), alpha[i : i + step].astype(wide)
        total += a @ block
        shortfall = 1.0 - block @ w
        factor = np.where(shortfall > 0.0, wide(box) - a, a)
        loss += (factor * np.abs(shortfall)).sum()
        magnitudes = np.abs(rows[i : i + step])
        error = 2.0 * (size + 3) * unit * (magnitudes @ np.abs(weights) + 1.0)
        # Within the error the sign of ``shortfall`` is unknown, and C/n is at least either factor.
        rounding += float(error @ np.where(np.abs(shortfall) > error, factor, box))
        total_size += alpha[i : i + step] @ magnitudes
    distance = float(np.linalg.norm((w - total).astype(np.float64)))
    distance += 2.0 * n * unit * float(np.linalg.norm(total_size))
    summing = 2.0 * n * unit * float(loss)
    return (0.5 * distance * distance + float(loss) + rounding + summing) * (1.0 + 1e-9)
