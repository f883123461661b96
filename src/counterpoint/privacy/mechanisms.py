"""Three kinds of noise that make the release of weights private."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from math import hypot, sqrt
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import SolverFailure
from counterpoint.noise import NoiseLaw, ProjectedGamma, ProjectedGaussian, ProjectedLaplace
from counterpoint.privacy import secure
from counterpoint.privacy.sensitivity import UPWARDS

__all__ = ["MECHANISMS", "Budget", "Gamma", "Gaussian", "Laplace", "Mechanism"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Budget:
    """What one release may cost.

    Parameters
    ----------
    epsilon
        ε > 0.
    delta
        δ; 0 for pure differential privacy.
    """

    epsilon: float
    delta: float = 0.0


class Mechanism(ABC):
    """Noise for F weights whose sensitivity in some norm is known."""

    pure: ClassVar[bool]
    """Whether δ = 0."""

    @abstractmethod
    def sensitivity(self, l2: float, size: int) -> float:
        """The sensitivity in the mechanism's norm, from that in ‖·‖₂."""

    @abstractmethod
    def scale(self, sensitivity: float, size: int, budget: Budget) -> float:
        """The scale of the noise, in weight units."""

    @abstractmethod
    def law(self, scale: float, size: int) -> NoiseLaw:
        """The law of the noise."""

    @abstractmethod
    def release(
        self, weights: FloatArray, scale: float, sensitivity: float, budget: Budget
    ) -> FloatArray:
        """The weights with noise from the system's entropy; no seed repeats it.

        Raises
        ------
        MissingExtra
            If OpenDP is not installed.
        SolverFailure
            If OpenDP's own map says that the scale does not keep within the budget.
        """

    @abstractmethod
    def reach(self, scale: float, size: int, delta: float, norm: float, entry: float) -> float:
        """What |φᵀμ| exceeds, for any φ with ‖φ‖₂ ≤ norm and |φ_j| ≤ entry, with chance ≤ δ."""


@final
class Laplace(Mechanism):
    """Independent Laplace noise of scale Δ₁/ε: pure. The paper's (9)."""

    pure = True

    def sensitivity(self, l2: float, size: int) -> float:
        return UPWARDS * sqrt(size) * l2

    def scale(self, sensitivity: float, size: int, budget: Budget) -> float:
        return UPWARDS * sensitivity / budget.epsilon

    def law(self, scale: float, size: int) -> NoiseLaw:
        return ProjectedLaplace(scale, size)

    def release(
        self, weights: FloatArray, scale: float, sensitivity: float, budget: Budget
    ) -> FloatArray:
        measurement = secure.laplace(len(weights), scale)
        _hold(measurement.map(sensitivity), budget.epsilon)
        return secure.released(measurement, weights)

    def reach(self, scale: float, size: int, delta: float, norm: float, entry: float) -> float:
        from scipy.special import gammainccinv

        return entry * scale * float(gammainccinv(size, delta))  # ‖μ‖₁ is gamma-distributed


@final
class Gamma(Mechanism):
    """Noise of density ∝ exp(−‖μ‖₂ ε/Δ₂): pure.

    μ = σN, with N of independent normal entries and σ² = s² times a χ² variable with F + 1 degrees
    of freedom, has this law for s = Δ₂/ε: both have the characteristic function
    (1 + s²‖t‖²)^(−(F + 1) / 2). OpenDP draws N given σ, and the normal variables that σ is made of,
    so that the low bits of what is released tell nothing.

    But OpenDP has no map for the mixture: ε is proved on paper, and in exact arithmetic. The one
    number that is rounded is σ, by a relative η of at most 10⁻¹⁴; that adds at most
    2η (F + ‖μ‖/s) to ε, which is below 10⁻⁹ but with a chance of less than exp(−10⁴), for F up to
    10⁴. Where a proof by machine is asked for, take Laplace or normal noise.
    """

    pure = True

    def sensitivity(self, l2: float, size: int) -> float:
        return l2

    def scale(self, sensitivity: float, size: int, budget: Budget) -> float:
        return UPWARDS * sensitivity / budget.epsilon

    def law(self, scale: float, size: int) -> NoiseLaw:
        return ProjectedGamma(scale, size)

    def release(
        self, weights: FloatArray, scale: float, sensitivity: float, budget: Budget
    ) -> FloatArray:
        _hold(sensitivity / scale, budget.epsilon)
        freedom = len(weights) + 1
        normal = secure.released(secure.gaussian(freedom, 1.0), np.zeros(freedom))
        sigma = scale * hypot(*normal)  # within a unit in the last place, however many there are
        return secure.released(secure.gaussian(len(weights), sigma), weights)

    def reach(self, scale: float, size: int, delta: float, norm: float, entry: float) -> float:
        from scipy.special import gammainccinv

        return norm * scale * float(gammainccinv(size, delta))


@final
class Gaussian(Mechanism):
    """Independent normal noise: (ε, δ)-private, by OpenDP's map through concentrated privacy."""

    pure = False

    def sensitivity(self, l2: float, size: int) -> float:
        return l2

    def scale(self, sensitivity: float, size: int, budget: Budget) -> float:
        return UPWARDS * sensitivity * _unit_scale(budget)

    def law(self, scale: float, size: int) -> NoiseLaw:
        return ProjectedGaussian.isotropic(scale, size)

    def release(
        self, weights: FloatArray, scale: float, sensitivity: float, budget: Budget
    ) -> FloatArray:
        measurement = secure.approximate(secure.gaussian(len(weights), scale), budget.delta)
        epsilon, delta = measurement.map(sensitivity)
        _hold(epsilon, budget.epsilon)
        _hold(delta, budget.delta)
        return secure.released(measurement, weights)

    def reach(self, scale: float, size: int, delta: float, norm: float, entry: float) -> float:
        from scipy.special import gammainccinv

        return norm * scale * sqrt(2.0 * float(gammainccinv(0.5 * size, delta)))


MECHANISMS: dict[str, Mechanism] = {
    "laplace": Laplace(),
    "gamma": Gamma(),
    "gaussian": Gaussian(),
}


@lru_cache(maxsize=128)
def _unit_scale(budget: Budget) -> float:
    """The standard deviation for sensitivity 1; it grows in proportion."""
    return secure.smallest_scale(
        lambda scale: secure.approximate(secure.gaussian(1, scale), budget.delta),
        1.0,
        (budget.epsilon, budget.delta),
    )


def _hold(spent: float, budget: float) -> None:
    """Release nothing that costs more than it may."""
    if not spent <= budget:
        raise SolverFailure(
            f"Expected noise that costs at most {budget:g}, and it costs {spent:g}: nothing is "
            "released; this is a fault of the calibration, not of the data."
        )
