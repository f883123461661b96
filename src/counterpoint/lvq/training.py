"""What training minimises, and the one training loop: L-BFGS over prototypes and matrices jointly.

A cost is a function of the distances of rows to prototypes, with its gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from counterpoint.lvq.metrics import Metric
from counterpoint.lvq.starts import Start

__all__ = ["Cost", "LikelihoodRatio", "Plan", "Problem", "RelativeDistance", "Trained", "train"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

NEAR = 1e-12
"""Distances, in units of the mean variance, that are as good as none."""


class Cost(ABC):
    """A weighted mean over rows of a function of their distances to the prototypes."""

    @abstractmethod
    def of(
        self, distances: FloatArray, own: BoolArray, weight: FloatArray
    ) -> tuple[float, FloatArray]:
        """The cost, and its slope ∂cost/∂distances.

        Parameters
        ----------
        distances
            (n, P).
        own
            (n, P): whether the prototype has the label of the row.
        weight
            (n,) of sum 1.

        Returns
        -------
        tuple
            The cost and (n, P).
        """


@final
@dataclass(frozen=True)
class RelativeDistance(Cost):
    """Mean of f((d⁺ − d⁻) / (d⁺ + d⁻)).

    d⁺ is the distance to the nearest prototype of the row's own class, d⁻ that to the nearest of
    another; the quotient is between −1 and 1, and negative where the row is classified rightly.

    Parameters
    ----------
    steepness
        s in f(u) = 1 / (1 + exp(−s u)); None for f(u) = u.

    References
    ----------
    Sato & Yamada (1996), Generalized learning vector quantization.
    """

    steepness: float | None

    def of(
        self, distances: FloatArray, own: BoolArray, weight: FloatArray
    ) -> tuple[float, FloatArray]:
        rows = np.arange(len(distances))
        right = np.where(own, distances, np.inf).argmin(axis=1)
        wrong = np.where(own, np.inf, distances).argmin(axis=1)
        plus, minus = distances[rows, right], distances[rows, wrong]
        total = plus + minus + NEAR
        quotient = (plus - minus) / total
        value, rate = self._transferred(quotient)
        pull = weight * rate / total
        slope = np.zeros_like(distances)
        slope[rows, right] = pull * (1.0 - quotient)
        slope[rows, wrong] = -pull * (1.0 + quotient)
        return float(weight @ value), slope

    def _transferred(self, quotient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """f and f′."""
        if self.steepness is None:
            return quotient, np.ones_like(quotient)
        value = expit(self.steepness * quotient)
        return value, self.steepness * value * (1.0 - value)


@final
@dataclass(frozen=True)
class LikelihoodRatio(Cost):
    """Mean of −log(p(x, y) / p(x)) under a mixture of Gaussians around the prototypes.

    p(x) = Σ_j exp(−d_j / (2 spread)), and p(x, y) the same sum over the prototypes of the row's own
    class: equal weights, equal spread.

    Parameters
    ----------
    spread
        σ², in the units of the distances.

    References
    ----------
    Seo & Obermayer (2003), Soft learning vector quantization.
    """

    spread: float

    def of(
        self, distances: FloatArray, own: BoolArray, weight: FloatArray
    ) -> tuple[float, FloatArray]:
        exponent = distances / (-2.0 * self.spread)
        every, share = _log_sum(exponent)
        right, right_share = _log_sum(np.where(own, exponent, -np.inf))
        slope = (right_share - share) * (weight / (2.0 * self.spread))[:, None]
        return float(weight @ (every - right)), slope


def _log_sum(exponent: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n,) log Σ_j exp, and (n, P) the share of each term."""
    top = exponent.max(axis=1, keepdims=True)
    terms = np.exp(exponent - top)
    total = terms.sum(axis=1, keepdims=True)
    return (top + np.log(total))[:, 0], terms / total


@final
@dataclass(frozen=True)
class Plan:
    """What is trained.

    Parameters
    ----------
    metric
        How distances are measured.
    cost
        What is minimised of them.
    regularization
        The weight of the degeneracy of Ω.
    anchor
        The weight of how far prototypes move: ½ mean (p − start)², in units of the mean variance.
    """

    metric: Metric
    cost: Cost
    regularization: float = 0.0
    anchor: float = 0.0


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """A function of one vector: the prototypes, and Ω up to a factor, both of order 1.

    Parameters
    ----------
    start
        The rows, and where it begins.
    plan
        What is trained.
    """

    start: Start
    plan: Plan

    @cached_property
    def omega(self) -> FloatArray:
        """Ω to start from."""
        return self.plan.metric.start(self.start)

    @property
    def first(self) -> FloatArray:
        """(P d + size of Ω,) the vector to start from."""
        return np.concatenate([self.start.prototypes.ravel(), self.omega.ravel()])

    def split(self, vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The prototypes (P, d) and Ω, not yet scaled."""
        places = self.start.prototypes
        prototypes, omega = np.split(vector, [places.size])
        return prototypes.reshape(places.shape), omega.reshape(self.omega.shape)

    def loss(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """The loss and its gradient."""
        plan, rows = self.plan, self.start.rows
        prototypes, raw = self.split(vector)
        omega, back = plan.metric.unit(raw)
        distances, pull = plan.metric.distances(rows.x, prototypes, omega)
        value, slope = plan.cost.of(distances, self.start.own, rows.weight)
        places, matrices = pull(slope)
        if plan.regularization:
            degeneracy, away = plan.metric.degeneracy(omega)
            value += plan.regularization * degeneracy
            matrices = matrices + plan.regularization * away
        if plan.anchor:
            moved = prototypes - self.start.prototypes
            value += 0.5 * plan.anchor * float((moved * moved).mean())
            places = places + plan.anchor / moved.size * moved
        return value, np.concatenate([places.ravel(), back(matrices).ravel()])


@final
@dataclass(frozen=True, eq=False)
class Trained:
    """What training found, in the units of the rows.

    Parameters
    ----------
    prototypes
        (P, d), in the order of the start.
    omega
        Ω, scaled so that trace(Ω′Ω) = 1.
    loss
        The loss that was reached.
    iterations
        How many it took; 1 also if the start could not be improved.
    converged
        False if it could have taken more.
    """

    prototypes: FloatArray
    omega: FloatArray
    loss: float
    iterations: int
    converged: bool


def train(problem: Problem, max_iter: int, tol: float) -> Trained:
    """Minimise the loss.

    Parameters
    ----------
    problem
        What is minimised, and from where.
    max_iter
        The largest number of iterations.
    tol
        It stops when an iteration lowers the loss by less than this, or when no entry of the
        gradient is larger.
    """
    limits = {"maxiter": max_iter, "maxfun": np.inf, "ftol": tol, "gtol": tol}
    found = minimize(problem.loss, problem.first, jac=True, method="L-BFGS-B", options=limits)
    prototypes, raw = problem.split(found.x)
    omega, _ = problem.plan.metric.unit(raw)
    # A line search that finds nothing better ends at a kink of the loss: that is an end, too.
    converged = int(found.status) != 1
    return Trained(prototypes, omega, float(found.fun), max(int(found.nit), 1), converged)
