"""Random Fourier features of affine inputs, and sums of them: smooth, with sharp parabolas.

A sum of waves u(y) = Σ_j r_j cos(ω_j · y + ψ_j) + constant is not convex, but each wave lies
between two parabolas that touch it at a given point, and no narrower ones do (de Leeuw & Lange,
2009):

    cos(ψ + θ)  >=  cos ψ − θ sin ψ − ½ κ(ψ) θ²          κ(ψ) = sin(ψ) / ψ, for ψ in [−π, π]
    cos(ψ + θ)  <=  cos ψ − θ sin ψ + ½ κ(ψ − π) θ²

for **all** θ. Both curvatures are at least 0, so u lies above a concave parabola and below a convex
one, everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.region import EPS

__all__ = ["WaveSum", "Waves", "sharpest"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Waves:
    """φ(y) = (cos(Ω y + ψ) / √K, sin(Ω y + ψ) / √K, B): F = 2 K features, and a constant one.

    Parameters
    ----------
    frequencies, phases
        (K, d) Ω and (K,) ψ.
    intercept
        B > 0; 0 if there is no such feature.
    """

    frequencies: FloatArray
    phases: FloatArray
    intercept: float = 0.0

    @property
    def size(self) -> int:
        """F."""
        return 2 * len(self.phases) + (self.intercept > 0.0)

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

    def pulled(self, y: FloatArray, directions: FloatArray) -> FloatArray:
        """(n, d) the gradients of φ(y) · direction, for one direction (n, F) each."""
        k = len(self.phases)
        angle = y @ self.frequencies.T + self.phases
        turn = directions[:, k : 2 * k] * np.cos(angle) - directions[:, :k] * np.sin(angle)
        return np.asarray(turn @ self.frequencies / np.sqrt(k))

    def through(self, matrix: FloatArray, offset: FloatArray) -> Waves:
        """The same features of z = matrix y + offset."""
        phases = self.frequencies @ offset + self.phases
        return replace(self, frequencies=self.frequencies @ matrix, phases=phases)

    def polar(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(N, K) sizes r, (N, K) shifts and (N,) constants of weights · φ for (N, F) weights."""
        k = len(self.phases)
        cosine, sine = weights[:, :k], weights[:, k : 2 * k]
        constant = weights[:, 2 * k :].sum(axis=1) * self.intercept
        return np.hypot(cosine, sine) / np.sqrt(k), -np.arctan2(sine, cosine), constant

    def sum(self, weights: FloatArray) -> WaveSum:
        """weights · φ as a sum of waves, for (F,) weights."""
        size, shift, constant = self.polar(weights[None])
        return WaveSum(self.frequencies, self.phases + shift[0], size[0], float(constant[0]))

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
        wave = self.sum(weights)
        angle = np.abs(y) @ np.abs(self.frequencies).T + np.abs(self.phases)
        off = (self.width + 6) * EPS * angle + (self.size + 8) * EPS
        return np.asarray(2.0 * (off @ wave.sizes + self.size * EPS * abs(wave.constant)))


@final
@dataclass(frozen=True, eq=False)
class WaveSum:
    """u(y) = Σ_j sizes_j cos(frequencies_j · y + phases_j) + constant.

    Parameters
    ----------
    frequencies, phases
        (K, d) and (K,).
    sizes
        (K,) none of them negative.
    constant
        A number.
    """

    frequencies: FloatArray
    phases: FloatArray
    sizes: FloatArray
    constant: float

    def angles(self, y: FloatArray) -> FloatArray:
        """(n, K)."""
        return np.asarray(y @ self.frequencies.T + self.phases)

    def value(self, y: FloatArray) -> FloatArray:
        """(n,)."""
        return np.asarray(np.cos(self.angles(y)) @ self.sizes + self.constant)

    def slope(self, y: FloatArray) -> FloatArray:
        """(n, d)."""
        return np.asarray(-(self.sizes * np.sin(self.angles(y))) @ self.frequencies)

    def hessian(self, y: FloatArray) -> FloatArray:
        """(d, d) at one point (d,)."""
        return self._form(-self.sizes * np.cos(self.angles(y[None])[0]))

    def below(self, y: FloatArray) -> FloatArray:
        """(d, d) Q >= 0 with u(y + δ) >= u(y) + ∇u(y) · δ − ½ δᵀQ δ for all δ."""
        return self._form(self.sizes * sharpest(self.angles(y[None])[0]))

    def above(self, y: FloatArray) -> FloatArray:
        """(d, d) Q >= 0 with u(y + δ) <= u(y) + ∇u(y) · δ + ½ δᵀQ δ for all δ."""
        return self._form(self.sizes * sharpest(self.angles(y[None])[0] - np.pi))

    def _form(self, weights: FloatArray) -> FloatArray:
        return np.asarray((self.frequencies.T * weights) @ self.frequencies)

    @property
    def most(self) -> float:
        """What u does not exceed anywhere."""
        return float(self.sizes.sum()) + self.constant


def sharpest(angle: FloatArray) -> FloatArray:
    """κ: sin(ψ) / ψ of angles wrapped to [−π, π]; what rounds to below 0 is 0."""
    wrapped = np.remainder(angle + np.pi, 2.0 * np.pi) - np.pi
    return np.maximum(np.sinc(wrapped / np.pi), 0.0)
