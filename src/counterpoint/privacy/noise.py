"""Defines laws of noise on the weights of a linear score, with exact quantiles of φᵀμ.

Weights w̃ that were released with noise, were estimated from a sample, or would come out a little
different after another training, decide by φᵀw̃ = φᵀw + φᵀμ. How sure a decision is depends on the
law of one number, φᵀμ, and that law is exact here.

======================  ====================================  ==========================
law                     μ                                     quantile of φᵀμ
======================  ====================================  ==========================
`ProjectedLaplace`      independent Laplace variables         a norm of φ, by integration
`ProjectedGamma`        density ∝ exp(−‖μ‖₂ / s)              a multiple of ‖φ‖₂
`ProjectedGaussian`     normal, any covariance                Φ⁻¹(p) ‖factorᵀ φ‖₂
======================  ====================================  ==========================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.errors import InvalidInput
from counterpoint.numerics import FloatArray
from counterpoint.privacy.contour import blocks, log_tails, upper_quantiles


class NoiseLaw(ABC):
    """The law of a random vector μ (F,), symmetric about 0, seen through its projections φᵀμ.

    Linear scores φᵀw whose weights are known as w̃ = w + μ alone are off by φᵀμ. Every projection
    has a log-concave density, so its quantile q_p(φ) is a norm of φ for p > ½: {φ : φᵀw̃ ≤ −q_p(φ)}
    is convex, and an affine minorant of q_p cuts off none of it (Lagoa, Li & Sznaier, 2005).
    """

    elliptical: ClassVar[bool]
    """Whether the quantile is a Euclidean norm ‖Aᵀφ‖₂ times a number that depends on p alone."""

    n_features: int

    def tail(self, t: ArrayLike, phi: ArrayLike) -> FloatArray:
        """Return the probability P(φᵀμ > t), () or (n,), of vectors φ, (F,) or (n, F).

        ``t`` is in score units; a number, or one for each row of ``phi``.
        """
        return np.exp(self.log_tail(t, phi))

    def log_tail(self, t: ArrayLike, phi: ArrayLike) -> FloatArray:
        """Return log P(φᵀμ > t), as for `tail`; finite also where the probability underflows."""
        rows, shape = self._rows(phi)
        t = _thresholds(t, len(rows))
        upper = self._log_tail(np.abs(t), rows)
        with np.errstate(divide="ignore"):  # log1p(−1) where φ = 0 and t = 0 is not used
            lower = np.log1p(-np.exp(upper))
        return np.where(t >= 0.0, upper, lower).reshape(shape)

    def quantile(self, p: float, phi: ArrayLike) -> FloatArray:
        """Return the quantile q with P(φᵀμ ≤ q) = p, () or (n,), in score units.

        ``p`` is above 0 and below 1; the vectors φ have the shape (F,) or (n, F).
        """
        q, sign = _tail_of(p)
        rows, shape = self._rows(phi)
        return (sign * self._quantiles(q, rows, sloped=False)[0]).reshape(shape)

    def quantile_with_gradient(self, p: float, phi: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return `quantile` and its gradients in φ, (F,) or (n, F): 0, a subgradient, at φ = 0."""
        q, sign = _tail_of(p)
        rows, shape = self._rows(phi)
        values, slopes = self._quantiles(q, rows, sloped=True)
        return (sign * values).reshape(shape), (sign * slopes).reshape(*shape, self.n_features)

    def deviation(self, phi: ArrayLike) -> FloatArray:
        """Return the standard deviation of φᵀμ, () or (n,), in score units: φ is (F,) or (n, F)."""
        rows, shape = self._rows(phi)
        return self._deviation(rows).reshape(shape)

    @abstractmethod
    def scaled(self, factor: float) -> NoiseLaw:
        """Return the law of the noise times a factor above 0."""

    @abstractmethod
    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return independent μ (size, F) from a generator that is no secret: for simulations.

        The same integer ``random_state`` gives the same draws.
        """

    @abstractmethod
    def _log_tail(self, t: FloatArray, rows: FloatArray) -> FloatArray:
        """Return log P(φᵀμ > t), shape (n,), for t ≥ 0 (n,) and rows (n, F)."""

    @abstractmethod
    def _quantiles(
        self, q: float, rows: FloatArray, *, sloped: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return t (n,) with P(φᵀμ > t) = q ≤ ½, and their gradients (n, F) by φ if ``sloped``."""

    @abstractmethod
    def _deviation(self, rows: FloatArray) -> FloatArray:
        """Return the standard deviations (n,) of φᵀμ."""

    def _rows(self, phi: ArrayLike) -> tuple[FloatArray, tuple[int, ...]]:
        """Return φ as rows (n, F), and the shape of results for them: () for a single φ."""
        features = np.asarray(phi, dtype=np.float64)
        if features.ndim not in (1, 2) or features.shape[-1] != self.n_features:
            raise InvalidInput(
                f"Expected features of shape ({self.n_features},) or (n, {self.n_features}); "
                f"got {features.shape}: pass φ(x), one entry for each weight of the model."
            )
        if not np.isfinite(features).all():
            raise InvalidInput(
                "Expected finite features; got NaN or infinity: leave such rows out."
            )
        return features.reshape(-1, self.n_features), features.shape[:-1]


@final
@dataclass(frozen=True)
class ProjectedLaplace(NoiseLaw):
    """Independent Laplace variables: φᵀμ = λ Σ φ_j L_j.

    The law of each projection is exact, by contour integration: relative errors of tails and
    quantiles are around 1e-15, whatever φ.

    Parameters
    ----------
    scale
        λ > 0, in weight units: E|μ_j| = λ, and the standard deviation is √2 λ.
    n_features
        F.

    Examples
    --------
    >>> law = ProjectedLaplace(scale=0.5, n_features=2)
    >>> print(law.quantile(0.9, [[1.0, 0.0], [0.6, 0.8]]).round(6))
    [0.804719 0.843923]
    """

    elliptical: ClassVar[bool] = False

    scale: float
    n_features: int

    def __post_init__(self) -> None:
        _check_scale(self.scale, self.n_features)

    def scaled(self, factor: float) -> ProjectedLaplace:
        return replace(self, scale=factor * self.scale)

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> FloatArray:
        random = np.random.default_rng(random_state)
        return random.laplace(scale=self.scale, size=(size, self.n_features))

    def _log_tail(self, t: FloatArray, rows: FloatArray) -> FloatArray:
        return _log_tails(t, *self._units(rows))

    def _quantiles(
        self, q: float, rows: FloatArray, *, sloped: bool
    ) -> tuple[FloatArray, FloatArray]:
        unit, squares = self._units(rows)
        values, slopes = np.zeros(len(rows)), np.zeros_like(rows)
        for block in blocks((unit > 0.0) & (q < 0.5), self.n_features):
            block_squares = squares[block]
            # It starts at the quantile of a normal variable of the same variance.
            start = np.sqrt(2.0 * block_squares.sum(axis=1)) * normal_quantile(q)
            values[block], contour = upper_quantiles(block_squares, q, start)
            if sloped:
                slopes[block] = contour.slopes(block_squares, values[block])
        return values * unit, slopes * self.scale * np.sign(rows)

    def _deviation(self, rows: FloatArray) -> FloatArray:
        return np.sqrt(2.0) * self.scale * np.linalg.norm(rows, axis=1)

    def _units(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the largest weight (n,) of each projection, and squares (n, F) in this unit."""
        largest = np.abs(rows).max(axis=1)
        relative = rows / np.where(largest > 0.0, largest, 1.0)[:, None]
        return self.scale * largest, np.square(relative)


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

    elliptical: ClassVar[bool] = True

    scale: float
    n_features: int

    def __post_init__(self) -> None:
        _check_scale(self.scale, self.n_features)

    def scaled(self, factor: float) -> ProjectedGamma:
        return replace(self, scale=factor * self.scale)

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> FloatArray:
        random = np.random.default_rng(random_state)
        directions = random.normal(size=(size, self.n_features))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return directions * random.gamma(self.n_features, self.scale, size=(size, 1))

    def _log_tail(self, t: FloatArray, rows: FloatArray) -> FloatArray:
        unit = self.scale * np.linalg.norm(rows, axis=1)
        return _log_tails(t, unit, np.ones((len(rows), 1)), self._power)

    def _quantiles(
        self, q: float, rows: FloatArray, *, sloped: bool
    ) -> tuple[FloatArray, FloatArray]:
        return _multiple_of_norm(self.scale * _gamma_quantile(q, self._power), rows, rows)

    def _deviation(self, rows: FloatArray) -> FloatArray:
        return np.sqrt(2.0 * self._power) * self.scale * np.linalg.norm(rows, axis=1)

    @property
    def _power(self) -> float:
        """The exponent of the transform, as `counterpoint.privacy.contour` has it."""
        return 0.5 * (self.n_features + 1)


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

    elliptical: ClassVar[bool] = True

    factor: FloatArray

    def __post_init__(self) -> None:
        factor = np.array(self.factor, dtype=np.float64)
        if factor.ndim != 2 or not factor.size or not np.isfinite(factor).all():
            raise InvalidInput(
                "Expected the factor of a covariance to be a finite array of shape (F, r); got "
                f"shape {factor.shape}: pass such an array."
            )
        object.__setattr__(self, "factor", factor)

    @classmethod
    def isotropic(cls, scale: float, n_features: int) -> ProjectedGaussian:
        """Make noise of independent entries of standard deviation ``scale`` > 0."""
        _check_scale(scale, n_features)
        return cls(scale * np.eye(n_features))

    @classmethod
    def of(cls, covariance: ArrayLike) -> ProjectedGaussian:
        """Make normal noise from its covariance (F, F), symmetric and positive semi-definite."""
        matrix = np.asarray(covariance, dtype=np.float64)
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and bool(matrix.size)
        if not square or not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
            raise InvalidInput(
                f"Expected a finite symmetric covariance; got shape {matrix.shape}: pass the "
                "covariance of the weights, (F, F)."
            )
        # the factor is V √Λ, by the eigenvalues Λ in ascending order and the eigenvectors V
        eigenvalues, eigenvectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        smallest, largest = eigenvalues[[0, -1]]
        if smallest < -1e-10 * max(largest, 0.0) or largest < 0.0:  # more than their rounding
            raise InvalidInput(
                "Expected a positive semi-definite covariance, and its smallest eigenvalue is "
                f"{smallest:g}: check how it was estimated."
            )
        return cls(eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0)))

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """F."""
        return len(self.factor)

    def scaled(self, factor: float) -> ProjectedGaussian:
        return ProjectedGaussian(factor * self.factor)

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> FloatArray:
        random = np.random.default_rng(random_state)
        return random.normal(size=(size, self.factor.shape[1])) @ self.factor.T

    def _log_tail(self, t: FloatArray, rows: FloatArray) -> FloatArray:
        from scipy.special import log_ndtr

        spread = self._deviation(rows)
        values = log_ndtr(-t / np.where(spread > 0.0, spread, 1.0))
        return np.where(spread > 0.0, values, -np.inf)

    def _quantiles(
        self, q: float, rows: FloatArray, *, sloped: bool
    ) -> tuple[FloatArray, FloatArray]:
        projected = rows @ self.factor
        gradients = projected @ self.factor.T if sloped else rows  # any, if not asked for
        return _multiple_of_norm(normal_quantile(q), projected, gradients)

    def _deviation(self, rows: FloatArray) -> FloatArray:
        return np.linalg.norm(rows @ self.factor, axis=1)


def _multiple_of_norm(
    k: float, projected: FloatArray, gradients: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return k ‖Aᵀφ‖ (n,) and its gradients (n, F), from Aᵀφ (n, r) and A Aᵀφ (n, F)."""
    norm = np.linalg.norm(projected, axis=1)
    return k * norm, k * gradients / np.where(norm > 0.0, norm, 1.0)[:, None]


def _log_tails(
    t: FloatArray, unit: FloatArray, squares: FloatArray, power: float = 1.0
) -> FloatArray:
    """Return log P(S > t), shape (n,), from squared weights (n, F) in the given units (n,)."""
    values = np.where(t > 0.0, -np.inf, -np.log(2.0))
    for block in blocks((unit > 0.0) & (t > 0.0), squares.shape[1]):
        values[block] = log_tails(squares[block], t[block] / unit[block], power)
    return np.where((unit == 0.0) & (t >= 0.0), -np.inf, values)


@lru_cache(maxsize=256)
def _gamma_quantile(q: float, power: float) -> float:
    """Return t with P(φᵀμ > t) = q ≤ ½ of spherical gamma noise of scale 1, for ‖φ‖₂ = 1."""
    if q == 0.5:
        return 0.0
    start = np.array([max(np.sqrt(2.0 * power), 1.0) * normal_quantile(q)])
    return float(upper_quantiles(np.ones((1, 1)), q, start, power)[0][0])


def _thresholds(t: ArrayLike, n: int) -> FloatArray:
    """Return t as finite numbers (n,), or raise."""
    thresholds = np.asarray(t, dtype=np.float64)
    if thresholds.shape not in ((), (n,)) or not np.isfinite(thresholds).all():
        raise InvalidInput(
            f"Expected t to be a finite number, or one for each of {n} rows; got {t!r}: pass "
            "such numbers."
        )
    return np.broadcast_to(thresholds, (n,))


def _tail_of(p: float) -> tuple[float, float]:
    """Return the smaller of p and 1 − p, and the sign of the quantile."""
    if not 0.0 < p < 1.0:
        raise InvalidInput(
            f"Expected a probability above 0 and below 1; got {p!r}: pass one such as 0.9."
        )
    return (1.0 - p, 1.0) if p >= 0.5 else (p, -1.0)


def _check_scale(scale: float, n_features: int) -> None:
    if not (np.isfinite(scale) and scale > 0.0):
        raise InvalidInput(f"Expected a finite noise scale above 0; got {scale!r}.")
    if n_features < 1:
        raise InvalidInput(f"Expected at least one weight; got n_features={n_features!r}.")


def normal_quantile(q: float) -> float:
    """Return z with P(Z > z) = q for a standard normal Z."""
    from scipy.special import ndtri

    return -float(ndtri(q))
