"""Random Fourier features of affine inputs, sums of cosines, and constraints on their scores.

A sum of cosines u(y) = Σ_j r_j cos(ω_j · y + ψ_j) + constant is not convex, but each cosine lies
between two parabolas that touch it at a given point, and no narrower ones do (de Leeuw & Lange,
2009):

    cos(ψ + θ)  >=  cos ψ − θ sin ψ − ½ κ(ψ) θ²          κ(ψ) = sin(ψ) / ψ, for ψ in [−π, π]
    cos(ψ + θ)  <=  cos ψ − θ sin ψ + ½ κ(ψ − π) θ²

for **all** θ. Both curvatures are at least 0, so u lies above a concave parabola and below a convex
one, everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.numerics import EPS, TINY, FloatArray, relative
from counterpoint.privacy.noise import NoiseLaw
from counterpoint.programs.conditions import Cone
from counterpoint.programs.program import NonConvex, Program
from counterpoint.programs.region import Region

__all__ = ["CosineSum", "FourierConstraint", "FourierFeatures", "parabola", "sharpest"]


@final
@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """φ(y) = (cos(Ω y + ψ) / √K, sin(Ω y + ψ) / √K, B): F = 2 K features, and a constant one."""

    frequencies: FloatArray  # (K, d) Ω
    phases: FloatArray  # (K,) ψ
    intercept: float = 0.0  # B > 0; 0 if there is no such feature

    @property
    def width(self) -> int:
        """d."""
        return self.frequencies.shape[1]

    def __call__(self, y: FloatArray) -> FloatArray:
        """(n, d) → (n, F)."""
        angle = y @ self.frequencies.T + self.phases
        pairs = np.concatenate([np.cos(angle), np.sin(angle)], axis=1) / np.sqrt(len(self.phases))
        if not self.intercept:
            return pairs
        return np.concatenate([pairs, np.full((len(y), 1), self.intercept)], axis=1)

    def gradients(self, y: FloatArray, directions: FloatArray) -> FloatArray:
        """(n, d) the gradients of φ(y) · direction, for one direction (n, F) each."""
        k = len(self.phases)
        angle = y @ self.frequencies.T + self.phases
        turn = directions[:, k : 2 * k] * np.cos(angle) - directions[:, :k] * np.sin(angle)
        return np.asarray(turn @ self.frequencies / np.sqrt(k))

    def through(self, matrix: FloatArray, offset: FloatArray) -> FourierFeatures:
        """The same features of z = matrix y + offset."""
        phases = self.frequencies @ offset + self.phases
        return replace(self, frequencies=self.frequencies @ matrix, phases=phases)

    def polar(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(N, K) sizes r, (N, K) shifts and (N,) constants of weights · φ for (N, F) weights."""
        k = len(self.phases)
        cosine, sine = weights[:, :k], weights[:, k : 2 * k]
        constant = weights[:, 2 * k :].sum(axis=1) * self.intercept
        return np.hypot(cosine, sine) / np.sqrt(k), -np.arctan2(sine, cosine), constant

    def sum(self, weights: FloatArray) -> CosineSum:
        """weights · φ as a sum of cosines, for (F,) weights."""
        size, shift, constant = self.polar(weights[None])
        return CosineSum(self.frequencies, self.phases + shift[0], size[0], float(constant[0]))

    @property
    def least(self) -> FloatArray:
        """(F,) features of which no norm is less that ignores signs, and which of a pair is which.

        Of a pair with (a, b) the mean with (b, a), signs aside, is (m, m), m = (|a| + |b|) / 2, and
        |a| + |b| >= 1 / √K.
        """
        pairs = np.full(2 * len(self.phases), 0.5 / np.sqrt(len(self.phases)))
        return np.append(pairs, self.intercept) if self.intercept else pairs

    def rounding(self, y: FloatArray, weights: FloatArray) -> FloatArray:
        """(n,) a bound on the rounding error of weights · φ(y)."""
        score, f = self.sum(weights), len(weights)
        angle = np.abs(y) @ np.abs(self.frequencies).T + np.abs(self.phases)
        error = (self.width + 6) * EPS * angle + (f + 8) * EPS
        return np.asarray(2.0 * (error @ score.sizes + f * EPS * abs(score.constant)))


@final
@dataclass(frozen=True, eq=False)
class CosineSum:
    """u(y) = Σ_j sizes_j cos(frequencies_j · y + phases_j) + constant."""

    frequencies: FloatArray  # (K, d)
    phases: FloatArray  # (K,)
    sizes: FloatArray  # (K,) none of them negative
    constant: float

    def value(self, y: FloatArray) -> FloatArray:
        """(n,)."""
        return np.asarray(np.cos(self._angles(y)) @ self.sizes + self.constant)

    def slope(self, y: FloatArray) -> FloatArray:
        """(n, d)."""
        return np.asarray(-(self.sizes * np.sin(self._angles(y))) @ self.frequencies)

    def hessian(self, y: FloatArray) -> FloatArray:
        """(d, d) at one point (d,)."""
        return self._form(-self.sizes * np.cos(self._angles(y)))

    def below(self, y: FloatArray) -> FloatArray:
        """(d, d) Q >= 0 with u(y + δ) >= u(y) + ∇u(y) · δ − ½ δᵀQ δ for all δ."""
        return self._form(self.sizes * sharpest(self._angles(y)))

    def above(self, y: FloatArray) -> FloatArray:
        """(d, d) Q >= 0 with u(y + δ) <= u(y) + ∇u(y) · δ + ½ δᵀQ δ for all δ."""
        return self._form(self.sizes * sharpest(self._angles(y) - np.pi))

    @property
    def most(self) -> float:
        """What u does not exceed anywhere."""
        return float(self.sizes.sum()) + self.constant

    def _angles(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self.frequencies.T + self.phases)

    def _form(self, weights: FloatArray) -> FloatArray:
        return np.asarray((self.frequencies.T * weights) @ self.frequencies)


def sharpest(angle: FloatArray) -> FloatArray:
    """κ: sin(ψ) / ψ of angles wrapped to [−π, π]; what rounds to below 0 is 0."""
    wrapped = np.remainder(angle + np.pi, 2.0 * np.pi) - np.pi
    return np.maximum(np.sinc(wrapped / np.pi), 0.0)


@final
@dataclass(frozen=True, eq=False)
class FourierConstraint(NonConvex):
    """weights · φ(y) >= margin + q_p(φ(y)), with q_p the p-quantile of the noise φᵀμ on a score.

    Smooth and not convex: the score is a sum of cosines. ‖φ(y)‖ is the same everywhere, so the
    quantile of spherical noise is a constant; that of Laplace noise changes a little with y.
    """

    features: FourierFeatures
    weights: FloatArray  # (F,): the score that is to lead
    margin: float = 0.0  # in score units
    law: NoiseLaw | None = None  # that of μ (F,); None for no noise
    probability: float = 0.5
    tie_coefficient: float = 0.0  # 1 if a tie is the other class's, else 0

    @cached_property
    def score(self) -> CosineSum:
        """weights · φ."""
        return self.features.sum(self.weights)

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n,) what (n, 2) margins of rows add to the constraint's own."""
        return np.asarray(margin @ np.array([1.0, self.tie_coefficient]))

    def excess(self, y: FloatArray) -> FloatArray:
        missed = self.margin - self.score.value(y)
        if self.law is None:
            return np.asarray(missed)
        return np.asarray(missed + self.law.quantile(self.probability, self.features(y)))

    def excess_with_slope(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) the excess, and its gradients (n, d)."""
        missed, slope = self.margin - self.score.value(y), -self.score.slope(y)
        if self.law is None:
            return np.asarray(missed), np.asarray(slope)
        quantile, pull = self.law.quantile_with_gradient(self.probability, self.features(y))
        return np.asarray(missed + quantile), np.asarray(slope + self.features.gradients(y, pull))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        size = self.score.sizes.sum() + abs(self.score.constant) + abs(self.margin)
        return relative(self.excess(y) - 64.0 * EPS * size, size)

    def duality(self, program: Program) -> None:
        """Return None: bounds come from parabolas above the score, see `DistanceBounds`."""

    @cached_property
    def least_score(self) -> float:
        """What the score has to be at least, at any point that meets it.

        The quantile of noise is a norm of φ; one that treats features and signs alike, as that of
        every law of a `PrivateSVC`, is at least that of `FourierFeatures.least`.
        """
        if self.law is None:
            return self.margin
        phi = self.features.least
        if self.law.elliptical:  # a multiple of ‖φ(y)‖, which is the same everywhere
            phi = self.features(np.zeros((1, self.features.width)))[0]
        return self.margin + float(self.law.quantile(self.probability, phi)) * (1.0 - 64.0 * EPS)


def parabola(at: FloatArray, value: float, slope: FloatArray, form: FloatArray) -> Region:
    """value + slope · δ + ½ δᵀ form δ <= 0 with δ = y − at, for a form that is not negative.

    With ‖M δ‖² = ½ δᵀ form δ and s = −value − slope · δ: ‖(2 M δ, s/σ − σ)‖ <= s/σ + σ.
    """
    sizes, towards = np.linalg.eigh(form)
    curved = sizes > 4096.0 * EPS * max(float(sizes[-1]), TINY)
    matrix = np.sqrt(2.0 * sizes[curved])[:, None] * towards[:, curved].T
    sigma = float(np.sqrt(max(abs(value), float(np.abs(slope).max()), TINY)))
    along, constant = -slope / sigma, (-value + float(slope @ at)) / sigma
    rows, offset = np.vstack([matrix, along]), np.append(-matrix @ at, constant - sigma)
    return Region((Cone(rows, offset, constant + sigma, along),))
