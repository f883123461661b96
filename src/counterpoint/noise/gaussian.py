"""Normal noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.errors import InvalidInput
from counterpoint.noise.constants import normal_quantile, upper
from counterpoint.noise.law import NoiseLaw, check_scale

__all__ = ["ProjectedGaussian"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class ProjectedGaussian(NoiseLaw):
    """Normal noise of covariance A Aᵀ, A the `factor`: φᵀμ is normal, of deviation ‖Aᵀ φ‖₂.

    Noise that was added for privacy, or the sampling error of coefficients whose covariance is
    known.

    Parameters
    ----------
    factor
        (F, r) in weight units.
    """

    kind: ClassVar[str] = "gaussian"
    elliptical: ClassVar[bool] = True

    factor: FloatArray

    def __post_init__(self) -> None:
        given = np.array(self.factor, dtype=np.float64)
        if given.ndim != 2 or not given.size or not np.isfinite(given).all():
            raise InvalidInput(
                "Expected the factor of a covariance to be a finite array of shape (F, r), and got "
                f"shape {given.shape}: pass such an array."
            )
        object.__setattr__(self, "factor", given)

    @classmethod
    def isotropic(cls, scale: float, n_features: int) -> ProjectedGaussian:
        """Independent entries of standard deviation ``scale`` > 0."""
        check_scale(scale, n_features)
        return cls(scale * np.eye(n_features))

    @classmethod
    def of(cls, covariance: ArrayLike) -> ProjectedGaussian:
        """Noise of a covariance (F, F), symmetric and positive semi-definite.

        Raises
        ------
        InvalidInput
            If it is none.
        """
        given = np.asarray(covariance, dtype=np.float64)
        square = given.ndim == 2 and given.shape[0] == given.shape[1] and bool(given.size)
        if not square or not np.isfinite(given).all() or not np.allclose(given, given.T):
            raise InvalidInput(
                f"Expected a finite symmetric covariance, and got shape {given.shape}: pass the "
                "covariance of the weights, (F, F)."
            )
        size, towards = np.linalg.eigh(0.5 * (given + given.T))
        if size[0] < -1e-10 * max(size[-1], 0.0) or size[-1] < 0.0:
            raise InvalidInput(
                "Expected a positive semi-definite covariance, and its smallest eigenvalue is "
                f"{size[0]:g}: check how it was estimated."
            )
        return cls(towards * np.sqrt(np.maximum(size, 0.0)))

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """F."""
        return len(self.factor)

    def root(self, p: float) -> FloatArray:
        return normal_quantile(upper(p)) * self.factor.T

    def touching(self, p: float, phi: FloatArray) -> FloatArray:
        return self.root(p)

    def scaled(self, factor: float) -> ProjectedGaussian:
        return ProjectedGaussian(factor * self.factor)

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> FloatArray:
        random = np.random.default_rng(random_state)
        return random.normal(size=(size, self.factor.shape[1])) @ self.factor.T

    def parameters(self) -> dict[str, Any]:
        return {"factor": self.factor.tolist()}

    def _log_tail(self, t: FloatArray, rows: FloatArray) -> FloatArray:
        from scipy.special import log_ndtr

        spread = self._deviation(rows)
        found = log_ndtr(-t / np.where(spread > 0.0, spread, 1.0))
        return np.where(spread > 0.0, found, -np.inf)

    def _quantiles(self, q: float, rows: FloatArray) -> FloatArray:
        return normal_quantile(q) * self._deviation(rows)

    def _slopes(self, q: float, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        spread, k = self._deviation(rows), normal_quantile(q)
        towards = rows @ self.factor @ self.factor.T
        return k * spread, k * towards / np.where(spread > 0.0, spread, 1.0)[:, None]

    def _deviation(self, rows: FloatArray) -> FloatArray:
        return np.linalg.norm(rows @ self.factor, axis=1)
