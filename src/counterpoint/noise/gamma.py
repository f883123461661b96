"""Noise of a uniform direction and a length of the gamma law."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.noise.constants import normal_quantile, upper
from counterpoint.noise.contour import blocks, log_tails, upper_quantiles
from counterpoint.noise.law import NoiseLaw, check_scale

__all__ = ["ProjectedGamma"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True)
class ProjectedGamma(NoiseLaw):
    """A uniform direction, and a length of the gamma law: density ∝ exp(−‖μ‖₂ / s).

    The law is spherical, so all quantiles are multiples of ‖φ‖₂. The projection on a unit vector
    has the characteristic function (1 + s² t²)^(−(F + 1) / 2).

    Parameters
    ----------
    scale
        s > 0, in weight units: the length has mean F s, a projection the standard deviation
        √(F + 1) s ‖φ‖₂.
    n_features
        F.
    """

    kind: ClassVar[str] = "gamma"
    elliptical: ClassVar[bool] = True

    scale: float
    n_features: int

    def __post_init__(self) -> None:
        check_scale(self.scale, self.n_features)

    def root(self, p: float) -> FloatArray:
        return self.scale * _gamma_quantile(upper(p), self._power) * np.eye(self.n_features)

    def touching(self, p: float, phi: FloatArray) -> FloatArray:
        return self.root(p)

    def scaled(self, factor: float) -> ProjectedGamma:
        return replace(self, scale=factor * self.scale)

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> FloatArray:
        random = np.random.default_rng(random_state)
        towards = random.normal(size=(size, self.n_features))
        towards /= np.linalg.norm(towards, axis=1, keepdims=True)
        return towards * random.gamma(self.n_features, self.scale, size=(size, 1))

    def parameters(self) -> dict[str, Any]:
        return {"scale": float(self.scale), "n_features": int(self.n_features)}

    def _log_tail(self, t: FloatArray, rows: FloatArray) -> FloatArray:
        length = self.scale * np.linalg.norm(rows, axis=1)
        found = np.where(t > 0.0, -np.inf, -np.log(2.0))
        for some in blocks(np.flatnonzero((length > 0.0) & (t > 0.0)), 1):
            found[some] = log_tails(np.ones((len(some), 1)), t[some] / length[some], self._power)
        return np.where((length == 0.0) & (t >= 0.0), -np.inf, found)

    def _quantiles(self, q: float, rows: FloatArray) -> FloatArray:
        return self.scale * _gamma_quantile(q, self._power) * np.linalg.norm(rows, axis=1)

    def _slopes(self, q: float, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        k = self.scale * _gamma_quantile(q, self._power)
        length = np.linalg.norm(rows, axis=1)
        return k * length, k * rows / np.where(length > 0.0, length, 1.0)[:, None]

    def _deviation(self, rows: FloatArray) -> FloatArray:
        return np.sqrt(2.0 * self._power) * self.scale * np.linalg.norm(rows, axis=1)

    @property
    def _power(self) -> float:
        return 0.5 * (self.n_features + 1)


@lru_cache(maxsize=256)
def _gamma_quantile(q: float, power: float) -> float:
    """The upper quantile of spherical gamma noise of scale 1 along a unit vector."""
    if q == 0.5:
        return 0.0
    start = np.array([max(np.sqrt(2.0 * power), 1.0) * normal_quantile(q)])
    return float(upper_quantiles(np.ones((1, 1)), q, start, power)[0][0])
