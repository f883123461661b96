"""The minimiser of (2), to a certified gap.

The objective is ½ ‖w‖² + C/n Σ max(0, 1 − a_iᵀw), with rows a_i = y_i φ_i. A primal-dual
interior-point method with Mehrotra's predictor and corrector; each step solves one system of F
equations, so that the number of rows enters linearly. Once it is plain which rows are on the
margin, the equations that then hold are solved by themselves, which is exact but for rounding.
Nothing depends on a guess or on a random number.

References
----------
Mehrotra (1992), On the implementation of a primal-dual interior point method.
Ferris & Munson (2002), Interior-point methods for massive support vector machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from counterpoint.errors import SolverFailure
from counterpoint.privacy.gap import certified_gap

__all__ = ["minimize_hinge"]

FloatArray = NDArray[np.float64]

BLOCK = 1 << 21
"""Numbers of the weighted rows that are held at once."""
SHORT = 0.995
"""The part of the way to the boundary that a step goes."""
WORTH = 0.7
"""A step that leaves more of the gap is replaced by one towards the middle of what is feasible."""
CENTRAL = 0.5
"""What such a step leaves of the gap."""
RANK = 1e-12
"""Singular values of the rows on the margin below this, relative to the largest, are 0."""
SETTLING = 1e-4
"""The gap, relative to C, from which on the rows on the margin are looked for."""


def minimize_hinge(rows: FloatArray, box: float, tol: float, max_iter: int) -> FloatArray:
    """(F,) weights whose objective is certified to be within ``tol`` of the minimum.

    The objective is 1-strongly convex: they are within √(2 tol) of the minimiser.

    Parameters
    ----------
    rows
        (n, F) y_i φ_i.
    box
        C/n.
    tol
        In units of the objective.
    max_iter
        The largest number of iterations.

    Raises
    ------
    SolverFailure
        If the gap is not certified after so many. The message says nothing about the rows.
    """
    point, settling = _Point.start(len(rows), rows.shape[1], box), SETTLING * box * len(rows)
    # Where floats end before the iterations do, nothing is certified; a warning would tell of rows.
    with suppress(LinAlgError), np.errstate(all="ignore"):
        for _ in range(max_iter):
            point = point.moved(rows)
            for found in point.candidates(rows, box) if point.gap() <= settling else ():
                alpha = np.clip(found, 0.0, box)
                weights = alpha @ rows
                if certified_gap(rows, alpha, weights, box) <= tol:
                    return weights
    raise SolverFailure(
        f"Expected the weights to be within tol={tol:g} of the best ones, and max_iter={max_iter} "
        "iterations did not prove it, so that nothing is released: raise max_iter, or tol, at the "
        "price of a little more noise."
    )


@final
@dataclass(frozen=True, eq=False)
class _Point:
    """w, α, C/n − α, and the slacks of the margins: a_iᵀw + lack_i − excess_i = 1."""

    weights: FloatArray
    alpha: FloatArray
    free: FloatArray
    excess: FloatArray
    lack: FloatArray

    @classmethod
    def start(cls, n: int, size: int, box: float) -> _Point:
        half = np.full(n, 0.5 * box)
        return cls(np.zeros(size), half, half, np.ones(n), np.full(n, 2.0))

    def gap(self) -> float:
        """What complementarity lacks."""
        return float(self.alpha @ self.excess + self.free @ self.lack)

    def moved(self, rows: FloatArray) -> _Point:
        """One predictor, one corrector."""
        stiff = 1.0 / (self.excess / self.alpha + self.lack / self.free)
        system = cho_factor(_gram(rows, stiff), overwrite_a=True, check_finite=False)
        short = 1.0 + self.excess - self.lack - rows @ self.weights
        off = self.alpha @ rows - self.weights

        def step(upper: FloatArray, lower: FloatArray) -> _Point:
            """Newton's, towards α excess = ``upper`` and (C/n − α) lack = ``lower``, as changes."""
            upper = upper - self.alpha * self.excess
            lower = lower - self.free * self.lack
            aim = short + upper / self.alpha - lower / self.free
            w = cho_solve(system, off + (stiff * aim) @ rows, check_finite=False)
            a = stiff * (aim - rows @ w)
            excess = (upper - self.excess * a) / self.alpha
            return _Point(w, a, -a, excess, (lower + self.lack * a) / self.free)

        mean = np.full_like(self.alpha, self.gap() / (2.0 * len(rows)))
        trial = step(0.0 * mean, 0.0 * mean)
        left = max(self.along(trial, self.room(trial)).gap(), 0.0) / self.gap()
        centre = left**3 * mean
        ahead = step(centre - trial.alpha * trial.excess, centre - trial.free * trial.lack)
        moved = self.along(ahead, min(1.0, SHORT * self.room(ahead)))
        if moved.gap() <= WORTH * self.gap():
            return moved
        ahead = step(CENTRAL * mean, CENTRAL * mean)  # the corrector overshoots: to the middle
        return self.along(ahead, min(1.0, SHORT * self.room(ahead)))

    def room(self, step: _Point) -> float:
        """How far a step may go, at most 1 / SHORT, until something that is positive is 0."""
        most = 1.0 / SHORT
        for value, change in (
            (self.alpha, step.alpha),
            (self.free, step.free),
            (self.excess, step.excess),
            (self.lack, step.lack),
        ):
            down = change < 0.0
            if down.any():
                most = min(most, float((value[down] / -change[down]).min()))
        return most

    def along(self, step: _Point, length: float) -> _Point:
        return _Point(
            self.weights + length * step.weights,
            self.alpha + length * step.alpha,
            self.free + length * step.free,
            self.excess + length * step.excess,
            self.lack + length * step.lack,
        )

    def candidates(self, rows: FloatArray, box: float) -> Iterator[FloatArray]:
        """(n,) α; and the nearest with a_iᵀw = 1 on the margin, and α_i = 0 or C/n elsewhere."""
        yield self.alpha
        scale = box * np.maximum(np.einsum("ij,ij->i", rows, rows), 1.0)
        above = self.excess * scale > self.alpha
        below = self.lack * scale > self.free
        on = ~above & ~below
        alpha = np.where(on, self.alpha, np.where(below & ~above, box, 0.0))
        margin = rows[on]
        for _ in range(2):  # the second takes out what the first rounded
            turn = lstsq(margin, 1.0 - margin @ (alpha @ rows), cond=RANK, check_finite=False)[0]
            alpha[on] += lstsq(margin.T, turn, cond=RANK, check_finite=False)[0]
        yield alpha


def _gram(rows: FloatArray, stiff: FloatArray) -> FloatArray:
    """(F, F) the identity and Σ stiff_i a_i a_iᵀ."""
    size = rows.shape[1]
    total = np.eye(size)
    step = max(1, BLOCK // size)
    for i in range(0, len(rows), step):
        part = rows[i : i + step]
        total += (part.T * stiff[i : i + step]) @ part
    return total
