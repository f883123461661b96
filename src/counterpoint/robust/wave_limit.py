"""A score of random Fourier features that leads, with certainty or with a probability."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.couplings import Cone
from counterpoint.engine.region import EPS, TINY, NonConvex, Region
from counterpoint.noise import NoiseLaw
from counterpoint.robust.waves import Waves, WaveSum

if TYPE_CHECKING:
    from counterpoint.engine.program import Program

__all__ = ["WaveLimit"]

FloatArray = NDArray[np.float64]

FLAT = 1e-12
"""Curvatures below this share of the largest count as none."""


@final
@dataclass(frozen=True, eq=False)
class WaveLimit(NonConvex):
    """weights · φ(y) >= asked + q_p(φ(y)), with q_p the p-quantile of the noise φᵀμ on a score.

    Smooth and not convex: the score is a sum of waves. ‖φ(y)‖ is the same everywhere, so the
    quantile of spherical noise is a constant; that of Laplace noise changes a little with y.

    Parameters
    ----------
    waves
        φ.
    weights
        (F,): the score that is to lead, in score units.
    asked
        By how much, in score units.
    law
        That of μ (F,); None for no noise.
    probability
        p, above ½ and below 1.
    lost
        1 if a tie is lost, else 0.
    """

    waves: Waves
    weights: FloatArray
    asked: float = 0.0
    law: NoiseLaw | None = None
    probability: float = 0.5
    lost: float = 0.0

    @cached_property
    def score(self) -> WaveSum:
        """weights · φ."""
        return self.waves.sum(self.weights)

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n,) by how much more (n, 2) margins ask for."""
        return np.asarray(margin @ np.array([1.0, self.lost]))

    def asking(self, more: float) -> WaveLimit:
        """The same, with so much more asked."""
        return replace(self, asked=self.asked + more)

    def excess(self, y: FloatArray) -> FloatArray:
        missed = self.asked - self.score.value(y)
        if self.law is None:
            return np.asarray(missed)
        return np.asarray(missed + self.law.quantile(self.probability, self.waves(y)))

    def excess_with_slope(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) the excess, and its gradients (n, d)."""
        missed, slope = self.asked - self.score.value(y), -self.score.slope(y)
        if self.law is None:
            return np.asarray(missed), np.asarray(slope)
        asked, pull = self.law.quantile_with_gradient(self.probability, self.waves(y))
        return np.asarray(missed + asked), np.asarray(slope + self.waves.pulled(y, pull))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        size = self.score.sizes.sum() + abs(self.score.constant) + abs(self.asked)
        over = np.maximum(self.excess(y) - 64.0 * EPS * size, 0.0)
        return np.where(over > 0.0, over / max(size, TINY), 0.0)

    def convexified(self, at: FloatArray, margin: float) -> Region:
        """The ellipsoid that the parabola below the score leaves, with the quantile's tangent.

        Without noise, or where the quantile is a constant, it is within the condition.
        """
        value, slope = self.excess_with_slope(at[None])
        return self.parabola(at, float(value[0]) + margin, slope[0], self.score.below(at))

    def duality(self, program: Program) -> None:
        """Bounds come from parabolas below the score, see `Soundings`."""
        return

    @staticmethod
    def parabola(at: FloatArray, value: float, slope: FloatArray, form: FloatArray) -> Region:
        """value + slope · δ + ½ δᵀ form δ <= 0 with δ = y − at, for a form that is not negative.

        With ‖M δ‖² = ½ δᵀ form δ and s = −value − slope · δ: ‖(2 M δ, s/σ − σ)‖ <= s/σ + σ.
        """
        sizes, towards = np.linalg.eigh(form)
        kept = sizes > FLAT * max(float(sizes[-1]), TINY)
        matrix = np.sqrt(2.0 * sizes[kept])[:, None] * towards[:, kept].T
        sigma = float(np.sqrt(max(abs(value), float(np.abs(slope).max()), TINY)))
        along, constant = -slope / sigma, (-value + float(slope @ at)) / sigma
        rows = np.vstack([matrix, along])
        offset = np.append(-matrix @ at, constant - sigma)
        return Region((Cone(rows, offset, constant + sigma, along),))

    @cached_property
    def least_asked(self) -> float:
        """What the score has to be at least, at any point that meets it.

        The quantile of noise is a norm of φ; one that treats features and signs alike, as that of
        every law of a `PrivateSVC`, is at least that of `Waves.least`.
        """
        if self.law is None:
            return self.asked
        constant = self.law.elliptical
        phi = self.waves(np.zeros((1, self.waves.width)))[0] if constant else self.waves.least
        return self.asked + float(self.law.quantile(self.probability, phi)) * (1.0 - 64.0 * EPS)
