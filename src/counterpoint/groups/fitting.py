"""Fits at one strength of the penalty, over few features or very many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups.descent import Descent, Fused, Tied, descend
from counterpoint.groups.matching import Task

__all__ = ["FEW", "Fit", "at_zero", "fit", "refit"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

FEW = 64
"""Features that are all worked on together."""
BATCH = 32
"""Features that join the working set at least, where so many ask to."""
ROUNDS = 60
"""How often the working set is formed."""
LARGE = 640
SHORT = 40
"""Steps on a working set of more features than that, before it is formed anew, while it grows."""
LONG, ENOUGH = 20_000, 150
"""Steps at most; and of a task of many features that is not convex, which has many ends."""
ROUNDING = 1e-14
"""Of the loss where nothing changes: what an objective may seem to rise by."""
LOOSE = 10.0
"""How much shorter the proximal gradient is made where the gap of a convex task is still wide."""
REFIT_STEPS = 200
REFIT_TOL = 1e-4
"""Where refits end: many choices are made among them, and few of them matter."""


@final
@dataclass(frozen=True, eq=False)
class Fit:
    """Offsets at one strength.

    Parameters
    ----------
    D
        (l, d) offsets.
    strength
        λ.
    objective, loss
        Loss plus penalty, and the loss alone.
    residual
        The length of the proximal gradient over all features, relative to the length of the
        gradient where nothing changes; 0 at stationary points only.
    gap
        Of a convex task, the objective less a lower bound on it, relative to the loss where
        nothing changes; NaN of others.
    lipschitz
        The curvature of the last step.
    iterations
        How many steps it took.
    """

    D: FloatArray
    strength: float
    objective: float
    loss: float
    residual: float
    gap: float
    lipschitz: float
    iterations: int


def fit(task: Task, strength: float, start: FloatArray, *, tol: float, gap: float) -> Fit:
    """The offsets of least loss and penalty, from a start.

    Descent works on a set of features, to which those join that would not stay at zero, until there
    are none: whether a feature stays is seen exactly (`Fusion.excess`).

    Parameters
    ----------
    task
        What is minimised.
    strength
        λ.
    start
        (l, d) offsets to begin at. Of a task that is not convex, what is found depends on it.
    tol
        The length of the proximal gradient at which it ends, relative to that of the gradient at
        zero.
    gap
        The relative gap at which it ends, for a convex task.
    """
    scale, L = _scale(task), _curvature(task)
    D, steps, reach, ended = start.copy(), 0, tol * scale, False
    most = LONG if task.is_convex or task.shape[1] <= FEW else ENOUGH
    for _ in range(ROUNDS):
        work = _working(task, strength, D, reach)
        joining = len(work) > np.count_nonzero(np.ptp(D, axis=0))
        found = descend(
            task.of(work),
            Fused(task.fusion.of(work), strength),
            Descent(D[:, work], np.inf, np.inf, L, 0),
            tol=reach,
            max_iter=SHORT if len(work) > LARGE and joining else most - steps,
            rounding=ROUNDING * task.at_zero[0],
        )
        D = np.zeros_like(D)
        D[:, work] = found.D
        L, steps = found.lipschitz, steps + found.iterations
        ended = _residual(task, strength, D, L) <= 2.0 * tol * scale
        if steps >= most or (ended and not _gap(task, strength, D) > gap):
            break
        reach = reach / LOOSE if ended else reach
    loss = task.value(D)
    return Fit(
        D,
        strength,
        loss + strength * task.fusion.value(D),
        loss,
        _residual(task, strength, D, L) / scale,
        _gap(task, strength, D),
        L,
        steps,
    )


def at_zero(task: Task, strength: float) -> Fit:
    """Nothing changes: the fit at λ_max and above it."""
    loss, L, D = task.at_zero[0], _curvature(task), np.zeros(task.shape)
    residual = _residual(task, strength, D, L) / _scale(task)
    return Fit(D, strength, loss, loss, residual, _gap(task, strength, D), L, 0)


def refit(
    task: Task,
    found: FloatArray,
    strength: float,
    *,
    free: bool = False,
    steps: int = REFIT_STEPS,
) -> Fit:
    """Without penalty: the offsets of least loss that have the ties of others.

    From these on, so that what the loss does not ask for does not change.

    Parameters
    ----------
    task
        What is minimised.
    found
        (l, d) the others.
    strength
        λ, for the record.
    free
        Whether the offsets of features that change at all are free of ties.
    steps
        How many it takes at most.
    """
    work = np.flatnonzero(np.ptp(found, axis=0) > 0.0)
    part, start, D = task.of(work), found[:, work], np.zeros_like(found)
    distinct = np.broadcast_to(np.arange(float(len(D)))[:, None], start.shape)
    ended = descend(
        part,
        Tied(part.fusion, distinct if free else start),
        Descent(start, np.inf, np.inf, _curvature(task), 0),
        tol=REFIT_TOL * _scale(task),
        max_iter=steps,
        rounding=ROUNDING * task.at_zero[0],
    )
    D[:, work] = ended.D
    loss, residual = task.value(D), ended.residual / _scale(task)
    return Fit(D, strength, loss, loss, residual, np.nan, ended.lipschitz, ended.iterations)


def _curvature(task: Task) -> float:
    """A curvature that is not too large: the loss falls by no more than what it is."""
    loss, slope = task.at_zero
    least = float(np.finfo(np.float64).tiny)
    return max(0.5 * float(np.vdot(slope, slope)) / loss, least) if loss > 0.0 else 1.0


def _scale(task: Task) -> float:
    """The length of the gradient where nothing changes."""
    return float(np.linalg.norm(task.at_zero[1])) or 1.0


def _working(task: Task, strength: float, D: FloatArray, least: float) -> IntArray:
    """The features that change, and those at zero that would gain most by it."""
    if task.shape[1] <= FEW:
        return np.arange(task.shape[1])
    moving = np.ptp(D, axis=0) > 0.0
    excess = task.fusion.excess(-task.slope(D)[1], strength)
    asking = np.flatnonzero((excess > 0.1 * least) & ~moving)
    most = max(BATCH, int(np.count_nonzero(moving)))
    joining = asking[np.argsort(-excess[asking], kind="stable")][:most]
    return np.union1d(np.flatnonzero(moving), joining)


def _residual(task: Task, strength: float, D: FloatArray, L: float) -> float:
    """The length of the proximal gradient, over all features."""
    slope = task.slope(D)[1]
    return L * float(np.linalg.norm(D - task.fusion.prox(D - slope / L, strength / L)))


def _gap(task: Task, strength: float, D: FloatArray) -> float:
    """Of a convex task, the gap in units of the loss where nothing changes; NaN of others."""
    return task.gap(D, strength) / (task.at_zero[0] or 1.0) if task.is_convex else float("nan")
