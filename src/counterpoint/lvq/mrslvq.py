"""`MRSLVQ`: the likelihood ratio with one matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from counterpoint.lvq.likelihood import LikelihoodQuantizer
from counterpoint.lvq.metrics import Matrix, Metric
from counterpoint.lvq.parameters import LIKELIHOOD, MATRIX, TRAINING, Rule, check_rank
from counterpoint.lvq.starts import Start
from counterpoint.lvq.training import Plan, Problem, Trained

__all__ = ["MRSLVQ"]


@final
class MRSLVQ(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LikelihoodQuantizer):  # type: ignore[misc]
    """Matrix robust soft learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω. Training maximises the mean over rows of log(p(x, y) / p(x)), where
    p is a mixture of equally weighted Gaussians exp(−d / (2 σ²)) around the prototypes.

    The nearest prototype decides, not the mixture: see `predict_proba`.

    Parameters
    ----------
    prototypes_per_class
        How many prototypes a class has: one number, a mapping from labels to numbers, or a sequence
        in the order of the sorted labels. A class needs as many distinct rows.
    spread
        σ², in units of the squared distances; None for the mean distance of the rows to the nearest
        prototype of their class at the start.
    anchor
        The weight of how far prototypes move from the centres they start at, ½ mean (p − start)² in
        units of the mean variance of the features. Without it, those of separable classes would
        leave the data for infinity.
    rank
        k, the number of rows of Ω; None for d.
    regularization
        The weight of −log det(k ΩΩ′) / k in the loss, which is 0 if all directions count the same
        and infinite if one of them is lost.
    max_iter
        The largest number of iterations; a ``ConvergenceWarning`` if it is reached.
    tol
        Training stops when an iteration lowers the loss by less than this.
    random_state
        For the start; the same integer gives the same model to the last bit.

    Attributes
    ----------
    classes_
        (C,) the sorted labels.
    prototypes_
        (P, d) in feature units, class after class.
    prototype_labels_
        (P,) their labels.
    omega_
        (k, d) Ω, with trace(Ω′Ω) = 1.
    spread_
        σ², in units of the squared distances.
    loss_
        The loss that was reached.
    n_iter_
        The number of iterations.
    n_features_in_, feature_names_in_
        d, and the names of the columns of a data frame.

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

    rules: ClassVar[Mapping[str, Rule]] = {**TRAINING, **LIKELIHOOD, **MATRIX}

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        prototypes_per_class: int | Mapping[Any, int] | Sequence[int] = 1,
        *,
        spread: float | None = None,
        anchor: float = 0.02,
        rank: int | None = None,
        regularization: float = 0.3,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
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

    def transform(self, X: Any) -> NDArray[np.float64]:
        """(n, k) the rows as the metric sees them, Ω x: distances there are Euclidean.

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        return self._rows(X) @ self.omega_.T

    def _metric(self, owner: NDArray[np.intp]) -> Metric:
        return Matrix(self.rank)

    def _plan(self, start: Start) -> Plan:
        check_rank(self.rank, start.prototypes.shape[1])
        metric = self._metric(start.owner)
        cost = self._ratio(start, metric)
        return Plan(metric, cost, self.regularization, self.anchor)

    def _omega(self) -> NDArray[np.float64]:
        return self.omega_

    def _keep(self, trained: Trained, problem: Problem) -> None:
        self.omega_ = trained.omega
