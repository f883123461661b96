"""Fits along a path of λ, on a working set of features; and refits without penalty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.groups.problem import Objective, descend, moving, tied
from counterpoint.numerics import FloatArray, IntArray

__all__ = ["FEW", "Fit", "at_zero", "fit", "follow", "refit"]

FEW = 64
"""Features that are all worked on together: with so few, a working set saves nothing."""
LARGE = 10 * FEW
"""Features of a large working set, of which a step is slow; and of the means fits begin with."""
SHORT = 40
"""Steps on a large working set before it is formed anew, while it grows."""


@final
@dataclass(frozen=True, eq=False)
class Fit:
    """Offsets at one strength λ of the penalty, with what proves them."""

    D: FloatArray  # (l, d) offsets
    strength: float  # λ
    objective: float  # loss plus penalty
    loss: float
    residual: float  # of the proximal gradient, relative to the gradient at zero: 0 if stationary
    gap: float  # to a lower bound, relative to the loss at zero; NaN if the task is not convex
    lipschitz: float  # the curvature of the last step
    iterations: int


def fit(task: Objective, strength: float, start: FloatArray, *, tol: float, gap: float) -> Fit:
    """The offsets of least loss and penalty, from a start.

    Descent works on a set of features, to which those join that would not stay at zero, until there
    are none: whether a feature stays is seen exactly (`Fusion.excess`). It ends at a proximal
    gradient of ``tol``, relative to the gradient at zero, and, if the task is convex, a relative
    gap of ``gap``. If it is not, what is found depends on the start.
    """
    D, steps, reach, L = start.copy(), 0, tol * task.scale, task.least_curvature
    # A task of many features that is not convex has many ends: none is worth many steps.
    most = 20_000 if task.is_convex or task.shape[1] <= FEW else 150
    for _ in range(60):  # far more than it takes: the set may double each time
        work = _working(task, strength, D, reach)
        joining = len(work) > len(moving(D))
        part = task.of(work)
        found = descend(
            part,
            *part.fusion.times(strength),
            D[:, work],
            L,
            tol=reach,
            max_iter=SHORT if len(work) > LARGE and joining else most - steps,
            rounding=task.rounding,
        )
        D = np.zeros_like(D)
        D[:, work] = found.D
        L, steps = found.lipschitz, steps + found.iterations
        ended = task.residual(D, strength, L) <= 2.0 * tol
        if steps >= most or (ended and not task.gap(D, strength) > gap):
            break
        reach = reach / 10.0 if ended else reach  # stationary enough, but the gap is still wide
    return _fit(task, strength, D, L, steps)


def _working(task: Objective, strength: float, D: FloatArray, least: float) -> IntArray:
    """The features that change, and those at zero that would gain most by it: as many, or 32."""
    if task.shape[1] <= FEW:
        return np.arange(task.shape[1])
    working = moving(D)
    excess = task.fusion.excess(-task.slope(D)[1], strength)
    asking = np.setdiff1d(np.flatnonzero(excess > 0.1 * least), working)
    joining = asking[np.argsort(-excess[asking], kind="stable")][: max(32, len(working))]
    return np.union1d(working, joining)


def _fit(task: Objective, strength: float, D: FloatArray, L: float, steps: int) -> Fit:
    loss, residual = task.value(D), task.residual(D, strength, L)
    objective = loss + strength * task.fusion.value(D)
    return Fit(D, strength, objective, loss, residual, task.gap(D, strength), L, steps)


def at_zero(task: Objective, strength: float) -> Fit:
    """Nothing changes: the fit at λ_max and above it."""
    return _fit(task, strength, np.zeros(task.shape), task.least_curvature, 0)


def refit(
    task: Objective, found: FloatArray, strength: float, *, free: bool = False, steps: int = 200
) -> Fit:
    """The offsets of least loss, without penalty, that have the ties of others.

    Descent starts at the others, so that what the loss does not ask for does not change, and ends
    early: many choices are made among refits, and few of them matter. If ``free``, only features
    that do not change at all stay tied.
    """
    work = moving(found)
    part, start, D = task.of(work), found[:, work], np.zeros_like(found)
    distinct = np.broadcast_to(np.arange(float(len(D)))[:, None], start.shape)
    ended = descend(
        part,
        tied(part.fusion, distinct if free else start),
        lambda _: 0.0,
        start,
        task.least_curvature,
        tol=1e-4 * task.scale,
        max_iter=steps,
        rounding=task.rounding,
    )
    D[:, work] = ended.D
    loss, residual = task.value(D), ended.residual / task.scale
    return Fit(D, strength, loss, loss, residual, np.nan, ended.lipschitz, ended.iterations)


def follow(
    task: Objective,
    strengths: Sequence[float],
    means: FloatArray,
    *,
    tol: float,
    gap: float,
    done: Callable[[int], None] = lambda _: None,
) -> list[tuple[Fit, ...]]:
    """Fits at falling strengths, each from the one before; ``done`` is told after each.

    A task that is not convex is followed twice, from zero down and from the means (l, d) of the
    groups up, and has two fits at each strength.
    """

    def chain(strengths: Iterable[float], start: FloatArray) -> Iterator[Fit]:
        for strength in strengths:
            found = fit(task, strength, start, tol=tol, gap=gap)
            start = found.D
            done(1)
            yield found

    down = list(chain(strengths, np.zeros(task.shape)))
    if task.is_convex:
        return [(one,) for one in down]
    gain = -(task.at_zero[1] * means).sum(axis=0)  # features that would lower the loss most
    promising = np.argsort(np.argsort(-gain, kind="stable")) < LARGE
    up = list(chain(strengths[::-1], np.where(promising, means, 0.0)))
    return list(zip(down, up[::-1], strict=True))
