"""What can be done with released weights: all of it is public, and costs nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log, sqrt
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoint.errors import InvalidInput
from counterpoint.noise import NoiseLaw
from counterpoint.privacy.maps import FeatureMap, FourierMap, LinearMap, UnitBox
from counterpoint.privacy.mechanisms import MECHANISMS

__all__ = ["PrivateClassifier"]

FloatArray = NDArray[np.float64]


class PrivateClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Two classes, told apart by the sign of φ(x)ᵀw̃, with weights w̃ that were released with noise.

    How they are learned, and what makes them private, is for those who implement it to say.
    """

    tol: float
    trust_data: bool
    insecure_noise_seed: int | None

    coef_: FloatArray
    classes_: NDArray[Any]
    scale_: float
    norm_bound_: float
    entry_bound_: float
    bounds_: FloatArray
    frequencies_: FloatArray
    intercept_scaling_: float
    mechanism_: str
    private_: bool

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the weights and release them with noise; nothing else of the rows is kept.

        Parameters
        ----------
        X
            (n, d) array or data frame of finite numbers.
        y
            (n,) labels among the classes.

        Returns
        -------
        Self
            Itself, fitted.

        Raises
        ------
        InvalidInput
            If a parameter is none that can be, or is missing; or a label is not among the classes.
        SolverFailure
            If the weights are not proved to be near enough to the best ones.
        MissingExtra
            If OpenDP is not installed.
        """

    def features(self, X: Any) -> FloatArray:
        """(n, F) φ(x), of which scores are linear.

        Parameters
        ----------
        X
            (n, d) as in `fit`; rows outside the bounds are not clipped.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return self._map().lift(UnitBox(*self.bounds_).scaled(X))

    def decision_function(self, X: Any) -> FloatArray:
        """(n,) φ(x)ᵀw̃, in score units.

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        return self.features(X) @ self.coef_

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) the second class where the score is at least 0, else the first (4).

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        second = self.decision_function(X) >= 0.0
        return np.asarray(self.classes_[second.astype(np.intp)])

    @property
    def noise_(self) -> NoiseLaw:
        """The law of w̃ − w, which is public."""
        check_is_fitted(self)
        return MECHANISMS[self.mechanism_].law(self.scale_, len(self.coef_))

    def error_bound(self, delta: float, rule: Literal["exact", "paper"] = "exact") -> float:
        """What no score within the bounds is off by, with a chance of 1 − δ.

        The smallest e for which the model is (e, δ)-useful (11): |φ(x)ᵀw̃ − φ(x)ᵀw*| ≤ e for all x
        at once.

        Parameters
        ----------
        delta
            δ, above 0 and below 1.
        rule
            ``"exact"``: by the law of the norm of the noise. ``"paper"``: 2Φλ(F − ln δ), which is
            for Laplace noise, and larger.

        Returns
        -------
        float
            In score units.

        Raises
        ------
        InvalidInput
            If δ is no such number, or the paper's rule is asked for with other noise.
        """
        check_is_fitted(self)
        if not 0.0 < delta < 1.0:
            raise InvalidInput(
                f"Expected delta to be above 0 and below 1, and got {delta!r}: pass 0.05, say."
            )
        size, solved = len(self.coef_), self.norm_bound_ * sqrt(2.0 * self.tol)
        if rule == "exact":
            mechanism = MECHANISMS[self.mechanism_]
            sizes = (self.norm_bound_, self.entry_bound_)
            return mechanism.reach(self.scale_, size, delta, *sizes) + solved
        if self.mechanism_ != "laplace":
            raise InvalidInput(
                f"Expected Laplace noise for rule='paper', and the model has {self.mechanism_} "
                "noise: pass rule='exact'."
            )
        return 2.0 * self.entry_bound_ * self.scale_ * (size - log(delta))

    def is_useful(
        self, error: float, delta: float, rule: Literal["exact", "paper"] = "exact"
    ) -> bool:
        """Whether it is (error, δ)-useful (11); by the paper's rule, λ ≤ error / (2Φ(F − ln δ)).

        Parameters
        ----------
        error
            In score units.
        delta
            As in `error_bound`.
        rule
            As in `error_bound`.
        """
        return self.error_bound(delta, rule) <= error

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        flaws = self._flaws()
        if not flaws and not getattr(self, "private_", True):
            flaws = ["fitted otherwise than its parameters say"]
        return f"{text} [not private: {', '.join(flaws)}]" if flaws else text

    def _flaws(self) -> list[str]:
        """Why the model is not private."""
        found = ["trust_data=True"] if self.trust_data else []
        seeded = self.insecure_noise_seed is not None
        return [*found, f"insecure_noise_seed={self.insecure_noise_seed}"] if seeded else found

    def _map(self) -> FeatureMap:
        """The feature map of the fit."""
        if len(self.frequencies_):
            return FourierMap(self.frequencies_, self.intercept_scaling_)
        return LinearMap(self.n_features_in_, self.intercept_scaling_)
