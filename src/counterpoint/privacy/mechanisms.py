"""Defines three kinds of noise that make the release of weights private, and how much they need.

OpenDP draws it, on the system's entropy: it adds discrete noise to floats as exact rationals, and
its maps from sensitivity to privacy account for every rounding. The low bits of a float drawn in
the usual way tell which value it was added to (Mironov, 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import exp, expm1, hypot, sqrt
from typing import Any, Literal, NamedTuple, final

import numpy as np
from scipy.special import gammainccinv, log_ndtr

from counterpoint.errors import SolverFailure, missing_extra
from counterpoint.numerics import EPS, FloatArray
from counterpoint.privacy.noise import NoiseLaw, ProjectedGamma, ProjectedGaussian, ProjectedLaplace

ROUND_UP = 1.0 + 1e-12
"""A factor that rounds up what was computed by less than a thousand operations."""


def tight_sensitivity(*, box: float, norm: float, tol: float) -> float:
    """Return the largest ‖w₁ − w₂‖₂ of fits that differ in a row; proved on *Private models*."""
    return ROUND_UP * (2.0 * norm * box + 2.0 * sqrt(2.0 * tol))


Budget = tuple[float, float]
"""ε > 0 and δ that one release may cost; δ is 0 for pure differential privacy."""


@final
class Mechanism(NamedTuple):
    """Noise for F weights whose sensitivity is known in the norm of some order.

    ``release`` adds it to weights, from the system's entropy, so that no seed repeats it; given
    its scale, the sensitivity and the budget, it fails if the scale does not keep within that.
    """

    order: Literal[1, 2]
    law: Callable[[float, int], NoiseLaw]  # of its scale, in weight units, and F
    unit_scale: Callable[[Budget], float]  # the scale for a sensitivity of 1
    release: Callable[[FloatArray, float, float, Budget], FloatArray]
    radius: Callable[[int, float], float]  # of F and δ: ‖μ‖ at scale 1 exceeds it with chance δ

    def sensitivity(self, l2: float, size: int) -> float:
        """Return the sensitivity of F weights in the mechanism's norm, from that in ‖·‖₂."""
        return l2 if self.order == 2 else ROUND_UP * sqrt(size) * l2

    def scale(self, sensitivity: float, budget: Budget) -> float:
        """Return the scale of the noise, in weight units."""
        return ROUND_UP * sensitivity * self.unit_scale(budget)

    def rho(self, budget: Budget, count: int) -> float:
        """Return ρ of zero-concentrated privacy that so many releases of one budget cost."""
        pure = budget[1] == 0.0
        return 0.5 * (budget[0] ** 2 / count if pure else self.unit_scale(budget) ** -2)

    def reach(self, scale: float, size: int, delta: float, norm: float, entry: float) -> float:
        """Return a number that |φᵀμ| exceeds with chance ≤ δ, if ‖φ‖₂ ≤ norm and |φ_j| ≤ entry."""
        dual_norm = norm if self.order == 2 else entry  # |φᵀμ| ≤ ‖φ‖₂ ‖μ‖₂ and ≤ max |φ_j| ‖μ‖₁
        return dual_norm * scale * float(self.radius(size, delta))


def _laplace(weights: FloatArray, scale: float, sensitivity: float, budget: Budget) -> FloatArray:
    """Return weights with independent Laplace noise of scale Δ₁/ε, for pure privacy: (9)."""
    measurement = opendp_noise("laplace", len(weights), scale)
    _require_at_most(measurement.map(sensitivity), budget[0])
    return _released(measurement, weights)


def gamma_noise(
    weights: FloatArray, scale: float, sensitivity: float, budget: Budget
) -> FloatArray:
    """Return weights with noise μ of density ∝ exp(−‖μ‖₂ ε/Δ₂), for pure privacy.

    μ = σN, with N of independent normal entries and σ² = s² times a χ² variable with F + 1 degrees
    of freedom, has this law for s = Δ₂/ε: both have the characteristic function
    (1 + s²‖t‖²)^(−(F + 1) / 2). OpenDP draws N given σ, and the normal variables that σ is made of,
    so that the low bits of what is released tell nothing.

    OpenDP has no map for the mixture, though: ε is proved on paper, and in exact arithmetic. The
    one number that is rounded is σ, by a relative η of at most 10⁻¹⁴; that adds at most
    2η (F + ‖μ‖/s) to ε, which is below 10⁻⁹ but with a chance of less than exp(−10⁴), for F up to
    10⁴. Where a proof by machine is asked for, take Laplace or normal noise.
    """
    _require_at_most(sensitivity / scale, budget[0])
    freedom = len(weights) + 1
    normal = _released(opendp_noise("gaussian", freedom, 1.0), np.zeros(freedom))
    sigma = scale * hypot(*normal)  # within a unit in the last place, however many there are
    return _released(opendp_noise("gaussian", len(weights), sigma), weights)


def _gaussian(weights: FloatArray, scale: float, sensitivity: float, budget: Budget) -> FloatArray:
    """Return weights with independent normal noise, (ε, δ)-private by `normal_delta`."""
    _require_at_most(1e-100, scale)  # a scale of 0, or nearly, is no noise
    measurement = opendp_noise("gaussian", len(weights), scale)
    _require_at_most(normal_delta(budget[0], measurement.map(sensitivity)), budget[1])
    return _released(measurement, weights)


def normal_delta(epsilon: float, rho: float) -> float:
    """Return δ at ε of normal noise with (Δ/σ)² / 2 = ρ, rounded up.

    With r = Δ/σ it is Φ(r/2 − ε/r) − exp(ε) Φ(−r/2 − ε/r) (Balle & Wang, 2018, theorem 8).
    """
    # By the logarithms of both terms, as exp(ε) alone may overflow.
    ratio = sqrt(2.0 * rho)
    upper, lower = (
        float(log_ndtr(z)) for z in (0.5 * ratio - epsilon / ratio, -0.5 * ratio - epsilon / ratio)
    )
    difference = min(epsilon + lower - upper, 0.0)
    rounding = 64.0 * EPS * (1.0 + epsilon + abs(upper) + abs(lower))
    return exp(upper) * min(rounding - expm1(difference), 1.0)


def _require_at_most(cost: float, budget: float) -> None:
    """Raise if a release costs more than it may."""
    if not cost <= budget:
        raise SolverFailure(
            f"Expected noise that costs at most {budget:g}, and it costs {cost:g}: nothing is "
            "released; this is a fault of the calibration, not of the data."
        )


def _pure_unit_scale(budget: Budget) -> float:
    return 1.0 / budget[0]


@lru_cache(maxsize=128)
def _normal_unit_scale(budget: Budget) -> float:
    """Return the smallest standard deviation of normal noise for a sensitivity of 1."""
    epsilon, delta = budget
    low, high = 0.0, 1.0
    while normal_delta(epsilon, 0.5 * high**-2) > delta:
        low, high = high, 2.0 * high
    while (middle := 0.5 * (low + high)) not in (low, high):  # until no float is between them
        enough = normal_delta(epsilon, 0.5 * middle**-2) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def opendp_noise(law: Literal["laplace", "gaussian"], size: int, scale: float) -> Any:
    """Return an OpenDP measurement: independent noise, private in ‖·‖₁ or concentrated in ‖·‖₂."""
    with _opendp() as dp:
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
        if law == "laplace":
            return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)
        return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)


def _released(measurement: Any, weights: FloatArray) -> FloatArray:
    with _opendp():
        return np.array(measurement(weights.tolist()))


@contextmanager
def _opendp() -> Iterator[Any]:
    """Import OpenDP, and translate its errors."""
    try:
        import opendp.prelude as dp
        from opendp.mod import OpenDPException
    except ImportError as error:
        raise missing_extra("The noise of a private model needs OpenDP", "privacy") from error
    dp.enable_features("contrib")
    try:
        yield dp
    except OpenDPException as error:
        message = " ".join(str(error).split())
        raise SolverFailure(f"OpenDP refused to make this noise, and says: {message}") from error


MECHANISMS: dict[str, Mechanism] = {
    # ‖μ‖₁ of Laplace noise, and ‖μ‖₂ of the second, are gamma variables
    "laplace": Mechanism(1, ProjectedLaplace, _pure_unit_scale, _laplace, gammainccinv),
    "gamma": Mechanism(2, ProjectedGamma, _pure_unit_scale, gamma_noise, gammainccinv),
    "gaussian": Mechanism(
        2,
        ProjectedGaussian.isotropic,
        _normal_unit_scale,
        _gaussian,
        lambda size, delta: sqrt(2.0 * gammainccinv(0.5 * size, delta)),
    ),
}
