"""Fits: accelerated proximal gradient descent on a working set of features, along a path of λ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from counterpoint.groups.problem import Fusion, Objective, moving
from counterpoint.groups.representations import FloatArray, IntArray

__all__ = ["FEW", "Fit", "Iterate", "at_zero", "descend", "fit", "follow", "refit", "tied"]

FEW = 64
"""Features that are all worked on together: with so few, a working set saves nothing."""
LARGE = 640
"""Features of a large working set, of which a step is slow; and of the means fits begin with."""
SHORT = 40
"""Steps on a large working set before it is formed anew, while it grows."""
ROUNDING = 1e-14
"""By which an objective may seem to rise, relative to the loss where nothing changes."""

Prox = Callable[[FloatArray, float], FloatArray]
"""Takes offsets V and a step to the offsets of least ½‖D − V‖² + step · penalty."""


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


@final
class Iterate(NamedTuple):
    """What descent found: ``residual`` is the length of the last step's proximal gradient."""

    D: FloatArray
    objective: float
    residual: float
    lipschitz: float
    iterations: int


def descend(  # noqa: PLR0913 (a problem, where to begin, when to end)
    task: Objective,
    prox: Prox,
    penalty: Callable[[FloatArray], float],
    start: FloatArray,
    L: float,
    *,
    tol: float,
    max_iter: int,
    rounding: float,
) -> Iterate:
    """Minimise loss and penalty until the proximal gradient is shorter than ``tol``.

    FISTA (Beck & Teboulle 2009) with the restarts of O'Donoghue & Candès (2015), from a first guess
    L of the curvature. A step that would raise the objective by more than rounding is taken back,
    and a plain proximal step, which cannot, follows; so the objective falls, whether the loss is
    convex or not.
    """
    x = y = prox(start, 0.0)
    best, moment, plain = task.value(x) + penalty(x), 1.0, True
    residual, steps = np.inf, 0
    while steps < max_iter:
        steps += 1
        z, loss, L = _step(task, prox, y, L, rounding)
        value = loss + penalty(z)
        move = float(np.linalg.norm(z - y))
        residual = L * move
        if value > best + rounding and not plain:
            y, moment, plain = x, 1.0, True
            continue
        turned = float(np.vdot(y - z, z - x)) > 0.0
        ahead = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * moment * moment))
        y = z if turned else z + (moment - 1.0) / ahead * (z - x)
        moment, plain = (1.0, True) if turned else (ahead, False)
        x, best = z, value
        # Less curvature may do for the next step; near rounding any would seem enough.
        if L * move * move > 1e3 * rounding:
            L *= 0.9
        if residual <= tol:
            break
    return Iterate(x, best, residual, L, steps)


def _step(
    task: Objective, prox: Prox, y: FloatArray, L: float, rounding: float
) -> tuple[FloatArray, float, float]:
    """A proximal step from y, the loss there, and the curvature that made it short enough."""
    loss, slope = task.slope(y)
    while True:
        z = prox(y - slope / L, 1.0 / L)
        move, there = z - y, task.value(z)
        bound = loss + float(np.vdot(slope, move)) + 0.5 * L * float(np.vdot(move, move))
        if there <= bound + rounding or task.curvature <= L:
            return z, there, L
        L = min(2.0 * L, task.curvature)


def fit(task: Objective, strength: float, start: FloatArray, *, tol: float, gap: float) -> Fit:
    """The offsets of least loss and penalty, from a start.

    Descent works on a set of features, to which those join that would not stay at zero, until there
    are none: whether a feature stays is seen exactly (`Fusion.excess`). It ends at a proximal
    gradient of ``tol``, relative to the gradient at zero, and, if the task is convex, a relative
    gap of ``gap``. If it is not, what is found depends on the start.
    """
    scale, L = _scale(task), _curvature(task)
    D, steps, reach, ended = start.copy(), 0, tol * scale, False
    # A task of many features that is not convex has many ends: none is worth many steps.
    most = 20_000 if task.is_convex or task.shape[1] <= FEW else 150
    for _ in range(60):  # far more than it takes: the set may double each time
        work = _working(task, strength, D, reach)
        joining = len(work) > len(moving(D))
        part = task.of(work)
        found = descend(
            part,
            *_fused(part.fusion, strength),
            D[:, work],
            L,
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
        reach = reach / 10.0 if ended else reach  # stationary enough, but the gap is still wide
    return _fit(task, strength, D, L, steps)


def at_zero(task: Objective, strength: float) -> Fit:
    """Nothing changes: the fit at λ_max and above it."""
    return _fit(task, strength, np.zeros(task.shape), _curvature(task), 0)


def refit(
    task: Objective,
    found: FloatArray,
    strength: float,
    *,
    free: bool = False,
    steps: int = 200,
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
        _curvature(task),
        tol=1e-4 * _scale(task),
        max_iter=steps,
        rounding=ROUNDING * task.at_zero[0],
    )
    D[:, work] = ended.D
    loss, residual = task.value(D), ended.residual / _scale(task)
    return Fit(D, strength, loss, loss, residual, np.nan, ended.lipschitz, ended.iterations)


def tied(fusion: Fusion, pattern: FloatArray) -> Prox:
    """The nearest offsets within the bounds that have the ties of a pattern (l, d)."""
    places = np.argsort(pattern, axis=0, kind="stable")
    ascending = np.take_along_axis(pattern, places, axis=0)
    levels = np.zeros(pattern.shape, dtype=np.intp)
    levels[1:] = np.cumsum(ascending[1:] > ascending[:-1], axis=0)
    level = np.empty_like(levels)
    np.put_along_axis(level, places, levels, axis=0)
    level += len(pattern) * np.arange(pattern.shape[1])
    share = 1.0 / np.maximum(np.bincount(level.ravel(), minlength=pattern.size), 1)

    def prox(V: FloatArray, _: float) -> FloatArray:
        sums = np.bincount(level.ravel(), weights=V.ravel(), minlength=V.size)
        return fusion.nearest((sums * share)[level])

    return prox


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


def _fused(fusion: Fusion, strength: float) -> tuple[Prox, Callable[[FloatArray], float]]:
    """λ times the pairwise-fused penalty, within the bounds: its prox and its value."""
    return lambda V, step: fusion.prox(V, step * strength), lambda D: strength * fusion.value(D)


def _fit(task: Objective, strength: float, D: FloatArray, L: float, steps: int) -> Fit:
    loss, residual = task.value(D), _residual(task, strength, D, L) / _scale(task)
    objective = loss + strength * task.fusion.value(D)
    return Fit(D, strength, objective, loss, residual, _gap(task, strength, D), L, steps)


def _curvature(task: Objective) -> float:
    """A curvature that is not too large: the loss falls by no more than what it is."""
    loss, slope = task.at_zero
    least = float(np.finfo(np.float64).tiny)
    return max(0.5 * float(np.vdot(slope, slope)) / loss, least) if loss > 0.0 else 1.0


def _scale(task: Objective) -> float:
    """The length of the gradient where nothing changes."""
    return float(np.linalg.norm(task.at_zero[1])) or 1.0


def _working(task: Objective, strength: float, D: FloatArray, least: float) -> IntArray:
    """The features that change, and those at zero that would gain most by it: as many, or 32."""
    if task.shape[1] <= FEW:
        return np.arange(task.shape[1])
    working = moving(D)
    excess = task.fusion.excess(-task.slope(D)[1], strength)
    asking = np.setdiff1d(np.flatnonzero(excess > 0.1 * least), working)
    joining = asking[np.argsort(-excess[asking], kind="stable")][: max(32, len(working))]
    return np.union1d(working, joining)


def _residual(task: Objective, strength: float, D: FloatArray, L: float) -> float:
    """The length of the proximal gradient, over all features."""
    slope = task.slope(D)[1]
    return L * float(np.linalg.norm(D - task.fusion.prox(D - slope / L, strength / L)))


def _gap(task: Objective, strength: float, D: FloatArray) -> float:
    """Of a convex task, the gap in units of the loss where nothing changes; NaN of others."""
    return task.gap(D, strength) / (task.at_zero[0] or 1.0) if task.is_convex else float("nan")
