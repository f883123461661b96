"""Accelerated proximal gradient descent, with restarts and backtracking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups.fusion import Fusion
from counterpoint.groups.matching import Task

__all__ = ["Descent", "Fused", "Penalty", "Tied", "descend"]

FloatArray = NDArray[np.float64]

FAR = 1e3
"""Times rounding, a step lowers the bound on the objective by, if its curvature can be seen."""
EASED = 0.9
"""How much less curvature is assumed from step to step."""


class Penalty(ABC):
    """What is added to the loss, of offsets (l, d)."""

    @abstractmethod
    def value(self, D: FloatArray) -> float:
        """The penalty."""

    @abstractmethod
    def prox(self, V: FloatArray, step: float) -> FloatArray:
        """The offsets of least ½‖D − V‖² + step · penalty."""


@final
@dataclass(frozen=True, eq=False)
class Fused(Penalty):
    """λ times the pairwise-fused penalty, within the bounds."""

    fusion: Fusion
    strength: float

    def value(self, D: FloatArray) -> float:
        return self.strength * self.fusion.value(D)

    def prox(self, V: FloatArray, step: float) -> FloatArray:
        return self.fusion.prox(V, step * self.strength)


@final
class Tied(Penalty):
    """Nothing, for offsets that have the ties of others and lie within the bounds.

    Parameters
    ----------
    fusion
        The bounds.
    pattern
        (l, d) offsets whose ties are kept.
    """

    def __init__(self, fusion: Fusion, pattern: FloatArray) -> None:
        self.fusion = fusion
        places = np.argsort(pattern, axis=0, kind="stable")
        sorted_ = np.take_along_axis(pattern, places, axis=0)
        levels = np.zeros(pattern.shape, dtype=np.intp)
        levels[1:] = np.cumsum(sorted_[1:] > sorted_[:-1], axis=0)
        self._level = np.empty_like(levels)
        np.put_along_axis(self._level, places, levels, axis=0)
        self._level += len(pattern) * np.arange(pattern.shape[1])
        counts = np.bincount(self._level.ravel(), minlength=pattern.size)
        self._share = 1.0 / np.maximum(counts, 1)

    def value(self, D: FloatArray) -> float:
        return 0.0

    def prox(self, V: FloatArray, step: float) -> FloatArray:
        level = self._level
        sums = np.bincount(level.ravel(), weights=V.ravel(), minlength=V.size)
        return self.fusion.nearest((sums * self._share)[level])


@final
@dataclass(frozen=True, eq=False)
class Descent:
    """What descent found.

    Parameters
    ----------
    D
        (l, d) offsets.
    objective
        Loss and penalty there.
    residual
        The length of the proximal gradient of the last step, which is 0 at stationary points only.
    lipschitz
        The curvature that the last step assumed.
    iterations
        How many steps it took.
    """

    D: FloatArray
    objective: float
    residual: float
    lipschitz: float
    iterations: int


def descend(
    task: Task, penalty: Penalty, start: Descent, *, tol: float, max_iter: int, rounding: float
) -> Descent:
    """Lower loss and penalty until the proximal gradient is short.

    FISTA (Beck & Teboulle 2009) with the restarts of O'Donoghue & Candès (2015). A step that would
    raise the objective is taken back, and a plain proximal step, which cannot, follows; so the
    objective falls, whether the loss is convex or not.

    Parameters
    ----------
    task, penalty
        What is minimised.
    start
        From where; ``lipschitz`` is a first guess.
    tol
        The length of the proximal gradient at which it ends.
    max_iter
        The largest number of steps.
    rounding
        What an objective may seem to rise by, in units of the loss.
    """
    x = y = penalty.prox(start.D, 0.0)
    best, moment, plain, L = task.value(x) + penalty.value(x), 1.0, True, start.lipschitz
    residual, steps = np.inf, 0
    while steps < max_iter:
        steps += 1
        z, value, L = _step(task, penalty, y, L, rounding)
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
        if L * move * move > FAR * rounding:  # else any curvature would seem enough
            L *= EASED
        if residual <= tol:
            break
    return Descent(x, best, residual, L, steps)


def _step(
    task: Task, penalty: Penalty, y: FloatArray, L: float, rounding: float
) -> tuple[FloatArray, float, float]:
    """A proximal step from y, the objective there, and the curvature that made it short enough."""
    loss, slope = task.slope(y)
    while True:
        z = penalty.prox(y - slope / L, 1.0 / L)
        move = z - y
        there = task.value(z)
        bound = loss + float(np.vdot(slope, move)) + 0.5 * L * float(np.vdot(move, move))
        if there <= bound + rounding or task.curvature <= L:
            return z, there + penalty.value(z), L
        L = min(2.0 * L, task.curvature)
