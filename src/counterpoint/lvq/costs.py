"""What training minimises: a cost of the distances of rows to prototypes, with its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["Cost", "LikelihoodRatio", "RelativeDistance", "relative"]

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


def relative(transfer: Literal["identity", "sigmoid"], steepness: float) -> RelativeDistance:
    """The cost for f by its name, ``"identity"`` or ``"sigmoid"``."""
    return RelativeDistance(float(steepness) if transfer == "sigmoid" else None)


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
