"""The seven estimators: a metric and a cost each; what they share is in `quantizer`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from counterpoint.lvq.metrics import Diagonal, Identity, Matrices, Matrix, Metric
from counterpoint.lvq.parameters import documented
from counterpoint.lvq.quantizer import VectorQuantizer
from counterpoint.lvq.starts import Start
from counterpoint.lvq.training import Cost, LikelihoodRatio, RelativeDistance

__all__ = ["GLVQ", "GMLVQ", "GRLVQ", "LGMLVQ", "LMRSLVQ", "MRSLVQ", "RSLVQ"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Counts = int | Mapping[Any, int] | Sequence[int]
Seed = int | np.random.RandomState | None


class Relative(VectorQuantizer, ABC):
    """A vector quantizer that is trained on relative distances."""

    transfer: Literal["identity", "sigmoid"]
    steepness: float

    def _cost(self, start: Start, metric: Metric) -> Cost:
        return RelativeDistance(float(self.steepness) if self.transfer == "sigmoid" else None)


class Likelihood(VectorQuantizer, ABC):
    """A vector quantizer whose prototypes are the centres of a mixture of Gaussians."""

    spread: float | None
    spread_: float

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, C) the posterior probability of each class under the mixture.

        The sum of exp(−d / (2 spread_)) over the prototypes of the class, divided by the sum over
        all. `predict` goes by the nearest prototype alone: where a class has several, the two may
        differ.

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        share = softmax(self._distances(X) / (-2.0 * self.spread_), axis=1)
        _, starts = np.unique(self.prototype_labels_, return_index=True)
        return np.asarray(np.add.reduceat(share, starts, axis=1))

    def _cost(self, start: Start, metric: Metric) -> Cost:
        unit = start.rows.scale**2
        spread = _nearness(start, metric) if self.spread is None else float(self.spread) / unit
        self.spread_ = spread * unit
        return LikelihoodRatio(spread)


def _nearness(start: Start, metric: Metric) -> float:
    """The mean distance of rows to the nearest prototype of their class; if that is 0, to any."""
    omega, _ = metric.unit(metric.start(start))
    distances, _ = metric.distances(start.rows.x, start.prototypes, omega)
    nearest = np.where(start.own, distances, np.inf).min(axis=1)
    return float(start.rows.weight @ nearest) or float(distances.mean()) or 1.0


@final
@documented("loss_", "n_iter_")
class GLVQ(Relative):
    """Generalized learning vector quantization.

    The label of the nearest prototype, by the squared Euclidean distance d(x, p). Training lowers
    the mean over rows of f((d⁺ − d⁻) / (d⁺ + d⁻)): d⁺ is the distance to the nearest prototype of
    the row's own class, d⁻ that to the nearest of another.

    References
    ----------
    Sato & Yamada (1996), Generalized learning vector quantization.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import GLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GLVQ(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.prototypes_.shape
    (6, 4)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        prototypes_per_class: Counts = 1,
        *,
        transfer: Literal["identity", "sigmoid"] = "sigmoid",
        steepness: float = 8.0,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.transfer = transfer
        self.steepness = steepness
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _metric(self, owner: IntArray) -> Metric:
        return Identity()


@final
@documented("relevances_", "loss_", "n_iter_")
class GRLVQ(Relative):
    """Generalized relevance learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = Σ_j λ_j (x_j − p_j)²
    with learned relevances λ. Training lowers the mean over rows of f((d⁺ − d⁻) / (d⁺ + d⁻)):
    d⁺ is the distance to the nearest prototype of the row's own class, d⁻ that to the nearest
    of another.

    References
    ----------
    Hammer & Villmann (2002), Generalized relevance learning vector quantization.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import GRLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GRLVQ(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.relevances_.shape
    (4,)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        prototypes_per_class: Counts = 1,
        *,
        transfer: Literal["identity", "sigmoid"] = "sigmoid",
        steepness: float = 8.0,
        regularization: float = 0.05,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.transfer = transfer
        self.steepness = steepness
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _metric(self, owner: IntArray) -> Metric:
        return Diagonal()


@final
@documented("omega_", "loss_", "n_iter_")
class GMLVQ(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Relative):  # type: ignore[misc]
    """Generalized matrix learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω. Training lowers the mean over rows of f((d⁺ − d⁻) / (d⁺ + d⁻)): d⁺
    is the distance to the nearest prototype of the row's own class, d⁻ that to the nearest of
    another.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Adaptive relevance matrices in learning vector quantization;
    Schneider et al. (2010), Regularization in matrix relevance learning; Bunte et al. (2012),
    Limited rank matrix learning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import GMLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GMLVQ(prototypes_per_class=2, rank=2, random_state=0).fit(X, y)
    >>> model.transform(X).shape
    (150, 2)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        prototypes_per_class: Counts = 1,
        *,
        transfer: Literal["identity", "sigmoid"] = "sigmoid",
        steepness: float = 8.0,
        rank: int | None = None,
        regularization: float = 0.05,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.transfer = transfer
        self.steepness = steepness
        self.rank = rank
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @property
    def _n_features_out(self) -> int:
        return len(self.omega_)

    def transform(self, X: Any) -> FloatArray:
        """(n, k) the rows as the metric sees them, Ω x: distances there are Euclidean.

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        return self._rows(X) @ self.omega_.T

    def _metric(self, owner: IntArray) -> Metric:
        return Matrix(self.rank)


@final
@documented("omegas_", "loss_", "n_iter_")
class LGMLVQ(Relative):
    """Localized generalized matrix learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω for each prototype, or for each class. Training lowers the mean over
    rows of f((d⁺ − d⁻) / (d⁺ + d⁻)): d⁺ is the distance to the nearest prototype of the row's
    own class, d⁻ that to the nearest of another.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Adaptive relevance matrices in learning vector quantization;
    Schneider et al. (2010), Regularization in matrix relevance learning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import LGMLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LGMLVQ(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.omegas_.shape
    (6, 4, 4)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        prototypes_per_class: Counts = 1,
        *,
        metric_per: Literal["prototype", "class"] = "prototype",
        transfer: Literal["identity", "sigmoid"] = "sigmoid",
        steepness: float = 8.0,
        rank: int | None = None,
        regularization: float = 0.05,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.metric_per = metric_per
        self.transfer = transfer
        self.steepness = steepness
        self.rank = rank
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _metric(self, owner: IntArray) -> Metric:
        return Matrices.per(self.metric_per, owner, self.rank)


@final
@documented("spread_", "loss_", "n_iter_")
class RSLVQ(Likelihood):
    """Robust soft learning vector quantization.

    The label of the nearest prototype, by the squared Euclidean distance d(x, p). Training
    maximises the mean over rows of log(p(x, y) / p(x)), where p is a mixture of equally
    weighted Gaussians exp(−d / (2 σ²)) around the prototypes.

    The nearest prototype decides, not the mixture: see `predict_proba`.

    References
    ----------
    Seo & Obermayer (2003), Soft learning vector quantization.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import RSLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RSLVQ(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (150, 3)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        prototypes_per_class: Counts = 1,
        *,
        spread: float | None = None,
        anchor: float = 0.02,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.spread = spread
        self.anchor = anchor
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _metric(self, owner: IntArray) -> Metric:
        return Identity()


@final
@documented("omega_", "spread_", "loss_", "n_iter_")
class MRSLVQ(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Likelihood):  # type: ignore[misc]
    """Matrix robust soft learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω. Training maximises the mean over rows of log(p(x, y) / p(x)), where
    p is a mixture of equally weighted Gaussians exp(−d / (2 σ²)) around the prototypes.

    The nearest prototype decides, not the mixture: see `predict_proba`.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Distance learning in discriminative vector quantization.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import MRSLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MRSLVQ(prototypes_per_class=2, rank=2, random_state=0).fit(X, y)
    >>> model.transform(X).shape
    (150, 2)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        prototypes_per_class: Counts = 1,
        *,
        spread: float | None = None,
        anchor: float = 0.02,
        rank: int | None = None,
        regularization: float = 0.3,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.spread = spread
        self.anchor = anchor
        self.rank = rank
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @property
    def _n_features_out(self) -> int:
        return len(self.omega_)

    def transform(self, X: Any) -> FloatArray:
        """(n, k) the rows as the metric sees them, Ω x: distances there are Euclidean.

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        return self._rows(X) @ self.omega_.T

    def _metric(self, owner: IntArray) -> Metric:
        return Matrix(self.rank)


@final
@documented("omegas_", "spread_", "loss_", "n_iter_")
class LMRSLVQ(Likelihood):
    """Localized matrix robust soft learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω for each prototype, or for each class. Training maximises the mean
    over rows of log(p(x, y) / p(x)), where p is a mixture of equally weighted Gaussians exp(−d
    / (2 σ²)) around the prototypes.

    The nearest prototype decides, not the mixture: see `predict_proba`.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Distance learning in discriminative vector quantization.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import LMRSLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LMRSLVQ(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.omegas_.shape
    (6, 4, 4)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        prototypes_per_class: Counts = 1,
        *,
        metric_per: Literal["prototype", "class"] = "prototype",
        spread: float | None = None,
        anchor: float = 0.02,
        rank: int | None = None,
        regularization: float = 0.3,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.metric_per = metric_per
        self.spread = spread
        self.anchor = anchor
        self.rank = rank
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _metric(self, owner: IntArray) -> Metric:
        return Matrices.per(self.metric_per, owner, self.rank)
