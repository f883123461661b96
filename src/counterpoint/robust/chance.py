"""A score with uncertain weights that is positive with a probability: convex, smooth, no cone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.couplings import Affine, Cone
from counterpoint.engine.region import EPS, TINY, Supported
from counterpoint.noise import NoiseLaw

__all__ = ["Chance"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

FLAT = 1e-9
"""Curvatures below this share of the largest count as none."""


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

    def around(self, y: FloatArray, free: BoolArray, lost: float) -> FloatArray:
        root = self.law.touching(self.probability, self._features(y)[0])
        seen, across = root @ self._features(y)[0], root @ self.matrix[:, free]
        length = max(float(np.linalg.norm(seen)), TINY)
        along = seen @ across / length
        bends, towards = np.linalg.eigh((across.T @ across - np.outer(along, along)) / length)
        kept = bends > FLAT * max(float(bends[-1]), TINY) if len(bends) else bends > 0.0
        moves = np.zeros((int(kept.sum()), y.shape[1]))
        moves[:, free] = (np.sqrt(2.0 * lost / bends[kept]) * towards[:, kept]).T
        return np.concatenate([y + moves, y - moves])

    def first(self) -> Affine:
        return Affine(np.zeros((0, len(self.slope))), np.zeros(0), np.zeros(0))

    def place(self, y: FloatArray) -> FloatArray:
        """φ."""
        return np.asarray(self._features(y)[0])

    def turned(self, place: FloatArray, ray: FloatArray) -> tuple[FloatArray, Affine] | None:
        """With ‖A φ‖ for q, multipliers u combine to u · A φ, which supports ‖A φ‖ at A⁻¹ u."""
        root = self.law.touching(self.probability, place)
        u = ray[: len(root)]
        size = float(np.abs(u).max(initial=0.0))
        if self.is_cone or not 0.0 < size < np.inf:
            return None
        phi = np.asarray(np.linalg.lstsq(root, u / size)[0], dtype=np.float64)
        _, gradient = self.law.quantile_with_gradient(self.probability, phi)
        row = (gradient @ self.matrix - self.slope)[None]
        high = np.array([self.constant - float(gradient @ self.offset)])
        return phi, Affine(row, np.full(1, -np.inf), high, np.ones(1))

    def models(self, place: FloatArray) -> tuple[Cone, ...]:
        """A second-order cone with the same value, slope and curvature at φ.

        Where the law is elliptical, it is the condition itself.
        """
        root = self.law.touching(self.probability, place)
        own = root @ self.matrix, root @ self.offset, self.constant, self.slope
        return (Cone(*own, tight=1.0),)

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
