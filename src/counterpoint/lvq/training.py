"""The one training loop: L-BFGS over prototypes and matrices jointly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from counterpoint.lvq.costs import Cost
from counterpoint.lvq.metrics import Metric
from counterpoint.lvq.starts import Start

__all__ = ["Plan", "Problem", "Trained", "train"]

FloatArray = NDArray[np.float64]


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
