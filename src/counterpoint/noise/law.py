"""What is asked of the law of a random vector of weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.errors import InvalidInput

__all__ = ["NoiseLaw", "check_scale"]

FloatArray = NDArray[np.float64]


class NoiseLaw(ABC):
    """The law of a random vector μ (F,), symmetric about 0, seen through its projections φᵀμ.

    Linear scores φᵀw whose weights are known as w̃ = w + μ alone are off by φᵀμ. Every projection
    has a log-concave density, so its quantile q_p(φ) is a norm of φ for p > ½: {φ : φᵀw̃ ≤ −q_p(φ)}
    is convex, and an affine minorant of q_p cuts off none of it (Lagoa, Li & Sznaier, 2005).
    """

    kind: ClassVar[str]
    """The name of the law in a record."""
    elliptical: ClassVar[bool]
    """Whether ‖`root` φ‖₂ is the quantile itself, and not only above it."""

    n_features: int

    def tail(self, t: ArrayLike, phi: ArrayLike) -> FloatArray:
        """P(φᵀμ > t).

        Parameters
        ----------
        t
            Score units; a number, or one for each row of ``phi``.
        phi
            (F,) or (n, F).

        Returns
        -------
        ndarray
            () or (n,).

        Raises
        ------
        InvalidInput
            If shapes disagree, or an entry is no finite number.
        """
        rows, shape = self._rows(phi)
        t = _levels(t, len(rows))
        upper = np.exp(self._log_tail(np.abs(t), rows))
        return np.where(t >= 0.0, upper, 1.0 - upper).reshape(shape)

    def log_tail(self, t: ArrayLike, phi: ArrayLike) -> FloatArray:
        """log P(φᵀμ > t), also where the probability itself is no float any more.

        Parameters
        ----------
        t
            As in `tail`.
        phi
            As in `tail`.
        """
        rows, shape = self._rows(phi)
        t = _levels(t, len(rows))
        upper = self._log_tail(np.abs(t), rows)
        with np.errstate(divide="ignore"):  # log1p(−1) where φ = 0 and t = 0 is not used
            lower = np.log1p(-np.exp(upper))
        return np.where(t >= 0.0, upper, lower).reshape(shape)

    def quantile(self, p: float, phi: ArrayLike) -> FloatArray:
        """q with P(φᵀμ ≤ q) = p, in score units.

        Parameters
        ----------
        p
            Above 0 and below 1.
        phi
            (F,) or (n, F).

        Returns
        -------
        ndarray
            () or (n,).

        Raises
        ------
        InvalidInput
            If p is no such probability, or φ no such array.
        """
        q, sign = _tail_of(p)
        rows, shape = self._rows(phi)
        return (sign * self._quantiles(q, rows)).reshape(shape)

    def quantile_with_gradient(self, p: float, phi: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The quantile, and its gradient in φ; 0 where φ = 0, which is a subgradient for p ≥ ½.

        Parameters
        ----------
        p
            As in `quantile`.
        phi
            As in `quantile`.

        Returns
        -------
        tuple of ndarray
            () or (n,), and (F,) or (n, F).
        """
        q, sign = _tail_of(p)
        rows, shape = self._rows(phi)
        values, slopes = self._slopes(q, rows)
        return (sign * values).reshape(shape), (sign * slopes).reshape(*shape, self.n_features)

    def deviation(self, phi: ArrayLike) -> FloatArray:
        """The standard deviation of φᵀμ, () or (n,), in score units.

        Parameters
        ----------
        phi
            (F,) or (n, F).
        """
        rows, shape = self._rows(phi)
        return self._deviation(rows).reshape(shape)

    @abstractmethod
    def root(self, p: float) -> FloatArray:
        """(r, F) A with `quantile` (p, φ) ≤ ‖A φ‖₂ for every φ, equal if the law is elliptical.

        With it, φᵀw̃ ≤ −q_p(φ) is implied by a second-order cone.

        Parameters
        ----------
        p
            At least ½ and below 1.
        """

    @abstractmethod
    def touching(self, p: float, phi: FloatArray) -> FloatArray:
        """(r, F) A such that ‖A φ‖₂ is the quantile at one φ (F,), and also in its derivatives.

        The first and the second ones; if the law is elliptical, it is the quantile everywhere.

        Parameters
        ----------
        p
            At least ½ and below 1.
        phi
            (F,).
        """

    @abstractmethod
    def scaled(self, factor: float) -> NoiseLaw:
        """The law of so many times the noise.

        Parameters
        ----------
        factor
            Above 0.
        """

    @abstractmethod
    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """(size, F) independent μ, from a generator that is no secret: for simulations.

        Parameters
        ----------
        size
            How many.
        random_state
            The same integer gives the same draws.
        """

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What makes the law again, as plain numbers and lists: see `law_from_record`."""

    @abstractmethod
    def _log_tail(self, t: FloatArray, rows: FloatArray) -> FloatArray:
        """(n,) log P(φᵀμ > t) for t ≥ 0 (n,) and rows (n, F)."""

    @abstractmethod
    def _quantiles(self, q: float, rows: FloatArray) -> FloatArray:
        """(n,) t with P(φᵀμ > t) = q ≤ ½."""

    @abstractmethod
    def _slopes(self, q: float, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) these, and (n, F) their gradients."""

    @abstractmethod
    def _deviation(self, rows: FloatArray) -> FloatArray:
        """(n,) standard deviations."""

    def _rows(self, phi: ArrayLike) -> tuple[FloatArray, tuple[int, ...]]:
        """(n, F) rows, and the shape that answers for them have."""
        given = np.asarray(phi, dtype=np.float64)
        if given.ndim not in (1, 2) or given.shape[-1] != self.n_features:
            raise InvalidInput(
                f"Expected features of shape ({self.n_features},) or (n, {self.n_features}), and "
                f"got {given.shape}: pass φ(x), one entry for each weight of the model."
            )
        if not np.isfinite(given).all():
            raise InvalidInput(
                "Expected finite features, and got NaN or infinity: leave such rows out."
            )
        return given.reshape(-1, self.n_features), given.shape[:-1]


def _levels(t: ArrayLike, n: int) -> FloatArray:
    """(n,) finite t."""
    given = np.asarray(t, dtype=np.float64)
    if given.shape not in ((), (n,)) or not np.isfinite(given).all():
        raise InvalidInput(
            f"Expected t to be a finite number, or one for each of {n} rows, and got {t!r}: pass "
            "such numbers."
        )
    return np.broadcast_to(given, (n,))


def _tail_of(p: float) -> tuple[float, float]:
    """The smaller of p and 1 − p, and the sign of the quantile."""
    if not 0.0 < p < 1.0:
        raise InvalidInput(
            f"Expected a probability above 0 and below 1, and got {p!r}: pass one such as 0.9."
        )
    return (1.0 - p, 1.0) if p >= 0.5 else (p, -1.0)


def check_scale(scale: float, n_features: int) -> None:
    """Hold the parameters of a law against what they can be.

    Raises
    ------
    InvalidInput
        If the scale is not positive, or there is no weight.
    """
    if not (np.isfinite(scale) and scale > 0.0):
        raise InvalidInput(f"Expected a finite noise scale above 0, and got {scale!r}.")
    if n_features < 1:
        raise InvalidInput(f"Expected at least one weight, and got n_features={n_features!r}.")
