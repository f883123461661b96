"""A score with uncertain weights that is positive with a probability: convex, smooth, no cone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.noise import NoiseLaw
from counterpoint.regions.base import EPS, TINY, Supported
from counterpoint.regions.couplings import Affine, Cone

__all__ = ["Chance"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Chance(Supported):
    """q(M y + c) <= slope · y + constant, with q(φ) the p-quantile of the noise φᵀμ on a score.

    A chance constraint: the score slope · y + constant, less its noise, is positive with
    probability p. For p >= ½ and noise whose projections are log-concave and symmetric, q is a norm
    (Lagoa, Li & Sznaier 2005), so each of its gradients supports it: ∇q(v) · φ <= q(φ) for all v
    and φ. So the condition is the intersection of half-spaces, one for each v.

    Parameters
    ----------
    law
        That of μ (F,).
    probability
        p, above ½ and below 1.
    matrix, offset
        (F, d) M and (F,) c: the features φ = M y + c that the noise acts on.
    slope, constant
        (d,) and a number: the score that is to lead, in score units.
    """

    law: NoiseLaw
    probability: float
    matrix: FloatArray
    offset: FloatArray
    slope: FloatArray
    constant: float

    @property
    def is_cone(self) -> bool:
        return self.law.elliptical

    def excess(self, y: FloatArray) -> FloatArray:
        quantile = self.law.quantile(self.probability, self._features(y))
        return np.asarray(quantile - self._ahead(y))

    def supports(self, y: FloatArray) -> tuple[FloatArray, Affine]:
        quantile, gradient = self.law.quantile_with_gradient(self.probability, self._features(y))
        rows = gradient @ self.matrix - self.slope
        high = self.constant - gradient @ self.offset
        none = np.full(len(y), -np.inf)
        return quantile - self._ahead(y), Affine(rows, none, high, np.ones(len(y)))

    def first(self) -> Affine:
        return Affine(np.zeros((0, len(self.slope))), np.zeros(0), np.zeros(0))

    def models(self, y: FloatArray) -> tuple[Cone, ...]:
        """A second-order cone with the same value and slope at a point (1, d).

        With ‖A φ‖ about q(φ), see `NoiseLaw.root`, that is κ ‖A φ‖ + r · φ <= slope · y + constant;
        where the law is elliptical, it is the condition itself.
        """
        root = self.law.root(self.probability)
        if self.is_cone:
            own = root @ self.matrix, root @ self.offset, self.constant, self.slope
            return (Cone(*own, tight=1.0),)
        phi = self._features(y)
        quantile, gradient = self.law.quantile_with_gradient(self.probability, phi[0])
        seen = phi[0] @ root.T
        length = max(float(np.linalg.norm(seen)), TINY)
        scale = float(quantile) / length
        rest = gradient - scale / length * (seen @ root)
        cone = Cone(
            scale * root @ self.matrix,
            scale * root @ self.offset,
            self.constant - float(rest @ self.offset),
            self.slope - rest @ self.matrix,
            tight=1.0,
        )
        return (cone,)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(x)
        terms = reach @ np.abs(self.slope) + abs(self.constant)
        seen = reach @ np.abs(self.matrix.T) + np.abs(self.offset)
        size = terms + self.law.quantile(self.probability, seen)
        over = np.maximum(self.excess(y) - 16.0 * EPS * size, 0.0)
        return np.where(over > 0.0, over / np.maximum(size, TINY), 0.0)

    def _features(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self.matrix.T + self.offset)

    def _ahead(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self.slope + self.constant)
