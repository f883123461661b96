"""Gradient descent, conjugate gradient, BFGS and L-BFGS, and the loop that they share.

An iteration makes two passes over A: one for A s, so that a trial of the line search costs O(K),
the other for the gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import final

import numpy as np
from scipy.linalg.blas import daxpy, dsymv, dsyr2

from inverse_peers.line_search import BACKTRACKING, Search, StrongWolfe
from inverse_peers.problem import LIMITS, Limits, Line, Problem, Record, Watch, length, surprise


class Rule(ABC):
    """How a method chooses its direction."""

    @abstractmethod
    def direction(self, gradient: np.ndarray) -> np.ndarray:
        """The direction from a point with this gradient; the caller may overwrite neither."""

    @abstractmethod
    def learn(self, step: np.ndarray, change: np.ndarray, gradient: np.ndarray) -> None:
        """What was gone, by how much the gradient changed, and what it has become."""

    @abstractmethod
    def first(self, slope: float) -> float:
        """The first step to try."""


def descend(
    problem: Problem, rule: Rule, search: Search, limits: Limits
) -> tuple[np.ndarray, Record]:
    """Iterate x ← x + α s from x̄ until the gradient vanishes."""
    watch = Watch(limits)
    A, label, weight = problem.A, problem.label, problem.weight
    scores = A.dot(problem.xbar) + problem.b
    energy, p = surprise(scores, label)
    p[label] -= 1.0
    gradient = p.dot(A)
    moved = np.zeros(len(gradient))
    norm, squared = length(gradient), 0.0
    while watch.goes_on(energy, norm):
        s = rule.direction(gradient)
        across, along, slope = (float(of.dot(s)) for of in (moved, s, gradient))
        line = Line(problem, scores, A.dot(s), (squared, across, along))
        energy, trials = search(line, energy, slope, rule.first(slope))
        step = line.step
        if step == 0.0:
            break
        s = step * s
        moved += s
        squared += step * (2.0 * across + step * along)
        scores, p = line.scores, line.exps / line.total
        p[label] -= 1.0
        ahead = daxpy(moved, p.dot(A), a=weight)
        rule.learn(s, ahead - gradient, ahead)
        gradient = ahead
        norm = length(gradient)
        watch.record.trials.append(trials)
    return problem.xbar + moved, watch.record


class _Unscaled(Rule):
    """A rule whose steps have no natural length: the last step, scaled by the slopes."""

    _reach = 0.0

    def first(self, slope: float) -> float:
        self._slope = slope
        return self._reach / slope if self._reach else 1.0

    def _note(self, step: np.ndarray, direction: np.ndarray) -> None:
        taken = step.dot(direction) / direction.dot(direction)
        self._reach = taken * self._slope


@final
class Steepest(_Unscaled):
    """s = −∇E."""

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        self._direction = -gradient
        return self._direction

    def learn(self, step: np.ndarray, change: np.ndarray, gradient: np.ndarray) -> None:
        self._note(step, self._direction)


@final
class PolakRibiere(_Unscaled):
    """s = −∇E + β s, β = max(0, ∇E·(∇E − ∇E_old) / ‖∇E_old‖²)."""

    def __init__(self) -> None:
        self._direction = np.empty(0)
        self._share = 0.0

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        direction = -gradient
        if self._share > 0.0:
            direction = daxpy(self._direction, direction, a=self._share)
            if direction.dot(gradient) >= 0.0:
                direction = -gradient
        self._direction = direction
        return direction

    def learn(self, step: np.ndarray, change: np.ndarray, gradient: np.ndarray) -> None:
        self._note(step, self._direction)
        old = gradient - change
        self._share = max(0.0, gradient.dot(change) / old.dot(old))


@final
class LimitedMemory(Rule):
    """The two-loop recursion of L-BFGS."""

    def __init__(self, memory: int = 4) -> None:
        self._pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=memory)
        self._scale = 1.0

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        q = -gradient
        shares = []
        for step, change, curvature in reversed(self._pairs):
            share = step.dot(q) / curvature
            q = daxpy(change, q, a=-share)
            shares.append(share)
        q *= self._scale
        for (step, change, curvature), share in zip(self._pairs, reversed(shares), strict=True):
            q = daxpy(step, q, a=share - change.dot(q) / curvature)
        return q

    def learn(self, step: np.ndarray, change: np.ndarray, gradient: np.ndarray) -> None:
        curvature = step.dot(change)
        if curvature > 0.0:
            self._scale = curvature / change.dot(change)
            self._pairs.append((step, change, curvature))

    def first(self, slope: float) -> float:
        return 1.0


@final
class InverseHessian(Rule):
    """BFGS with the inverse Hessian H, of which the upper triangle is kept.

    H∇E is known before H changes, so that an iteration has one product with H and one change of it.
    """

    def __init__(self, size: int) -> None:
        self._inverse = np.asfortranarray(np.eye(size))
        self._next: np.ndarray | None = None
        self._is_new = True

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        self._direction = -gradient if self._next is None else self._next
        return self._direction

    def learn(self, step: np.ndarray, change: np.ndarray, gradient: np.ndarray) -> None:
        curvature = step.dot(change)
        if self._is_new and curvature > 0.0:
            scale = curvature / change.dot(change)
            self._inverse *= scale
            image, moved = scale * gradient, scale * change
            self._is_new = False
        else:
            image = dsymv(1.0, self._inverse, gradient)
            moved = image + self._direction
        if curvature > 0.0:
            ahead = (1.0 + change.dot(moved) / curvature) / (2.0 * curvature) * step
            ahead -= moved / curvature
            dsyr2(1.0, step, ahead, a=self._inverse, overwrite_a=1)
            image += ahead.dot(gradient) * step + step.dot(gradient) * ahead
        self._next = -image

    def first(self, slope: float) -> float:
        return 1.0


def gradient_descent(
    problem: Problem, search: Search | None = None, *, limits: Limits = LIMITS
) -> tuple[np.ndarray, Record]:
    """Steepest descent; without a line search, that of strong Wolfe conditions.

    The others of the paper are `Backtracking()` and `Constant(1 / lipschitz(problem, gram))`.
    """
    return descend(problem, Steepest(), search or StrongWolfe(), limits)


def conjugate_gradient(
    problem: Problem, search: Search | None = None, *, limits: Limits = LIMITS
) -> tuple[np.ndarray, Record]:
    """Polak–Ribière+ with a strong Wolfe line search (c₂ = 0.1, as is usual for it)."""
    return descend(problem, PolakRibiere(), search or StrongWolfe(flatness=0.1), limits)


def lbfgs(
    problem: Problem, memory: int = 4, search: Search = BACKTRACKING, *, limits: Limits = LIMITS
) -> tuple[np.ndarray, Record]:
    """L-BFGS with backtracking."""
    return descend(problem, LimitedMemory(memory), search, limits)


def bfgs(
    problem: Problem, search: Search = BACKTRACKING, *, limits: Limits = LIMITS
) -> tuple[np.ndarray, Record]:
    """BFGS with a D × D inverse Hessian and backtracking, for small D."""
    return descend(problem, InverseHessian(len(problem.xbar)), search, limits)
