"""What all estimators share: validation, training, and the label of the nearest prototype."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoint.errors import InvalidInput
from counterpoint.estimator_rules import check
from counterpoint.lvq.metrics import Metric
from counterpoint.lvq.parameters import RULES, check_rank, counts_of
from counterpoint.lvq.starts import Rows, Start
from counterpoint.lvq.training import Cost, Plan, Problem, Trained, train

__all__ = ["VectorQuantizer"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


class VectorQuantizer(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier that answers with the label of the nearest prototype under its metric.

    Which metric, and what training minimises, is for those who implement it to say.
    """

    prototypes_per_class: int | Mapping[Any, int] | Sequence[int]
    regularization: float = 0.0
    anchor: float = 0.0
    rank: int | None = None
    max_iter: int
    tol: float
    random_state: int | np.random.RandomState | None

    @abstractmethod
    def _metric(self, owner: IntArray) -> Metric:
        """The metric, for prototypes (P,) that belong to these classes."""

    @abstractmethod
    def _cost(self, start: Start, metric: Metric) -> Cost:
        """What training minimises, from this start."""

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn prototypes and metric.

        Parameters
        ----------
        X
            (n, d) array or data frame of finite numbers.
        y
            (n,) labels of at least two classes: numbers, strings or booleans.
        sample_weight
            (n,) non-negative; None for 1 each. A row of weight 2 counts as two, one of
            weight 0 as none.

        Returns
        -------
        Self
            Itself, fitted.

        Raises
        ------
        InvalidInput
            If a parameter is none that can be, a weight is negative, there is only one class, or a
            class has fewer distinct rows than it is to have prototypes.
        """
        check(type(self).__name__, self.get_params(deep=False), RULES)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        weight = _weights(sample_weight, len(X))
        used = weight > 0.0
        self.classes_, label = np.unique(y[used], return_inverse=True)
        rows = Rows.of(X[used], label, weight[used])
        counts = self._counts(rows)
        start = Start.of(rows, counts, check_random_state(self.random_state))
        problem = Problem(start, self._plan(start))
        self._set(train(problem, int(self.max_iter), float(self.tol)), problem)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) the label of the nearest prototype; the first of them, if some are equally near.

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        nearest = self._distances(X).argmin(axis=1)
        return np.asarray(self.prototype_labels_[nearest])

    def decision_function(self, X: Any) -> FloatArray:
        """How near the classes are, in units of squared distances.

        Parameters
        ----------
        X
            (n, d) as in `fit`.

        Returns
        -------
        ndarray
            Of two classes: (n,) the distance to the nearest prototype of ``classes_[0]`` less that
            to the nearest of ``classes_[1]``. Of more: (n, C) minus the distance to the nearest
            prototype of each.
        """
        distances = self._distances(X)
        _, starts = np.unique(self.prototype_labels_, return_index=True)
        nearest = np.minimum.reduceat(distances, starts, axis=1)
        return nearest[:, 0] - nearest[:, 1] if len(starts) == 2 else -nearest

    def _plan(self, start: Start) -> Plan:
        """What is trained, from this start."""
        check_rank(self.rank, start.prototypes.shape[1])
        metric = self._metric(start.owner)
        return Plan(metric, self._cost(start, metric), self.regularization, self.anchor)

    def _distances(self, X: Any) -> FloatArray:
        """(n, P) the squared distances to the prototypes."""
        rows = self._rows(X)
        metric = self._metric(np.searchsorted(self.classes_, self.prototype_labels_))
        kept = getattr(self, metric.attribute) if metric.attribute else np.empty(0)
        return metric.distances(rows, self.prototypes_, metric.omega(kept))[0]

    def _rows(self, X: Any) -> FloatArray:
        """(n, d) rows as those of the fit."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, order="C", reset=False))

    def _counts(self, rows: Rows) -> IntArray:
        """(C,) the number of prototypes of each class of the rows."""
        if len(self.classes_) < 2:
            raise InvalidInput(
                f"{type(self).__name__} expects rows of at least two classes, and got one class, "
                f"{self.classes_.tolist()[0]!r}: pass rows of another one as well."
            )
        counts = counts_of(self.prototypes_per_class, self.classes_)[rows.classes]
        distinct = np.bincount(rows.label)
        for c in np.flatnonzero(distinct < counts):
            raise InvalidInput(
                f"Expected at least {counts[c]} distinct rows of class "
                f"{self.classes_.tolist()[rows.classes[c]]!r}, one for each of its prototypes, and "
                f"got {distinct[c]}: lower prototypes_per_class, for this class alone by a mapping."
            )
        return counts

    def _set(self, trained: Trained, problem: Problem) -> None:
        """Set the fitted attributes, in feature units and in the order of ``classes_``."""
        start, rows = problem.start, problem.start.rows
        self.prototypes_ = (trained.prototypes * rows.scale + rows.centre)[start.order]
        self.prototype_labels_ = self.classes_[rows.classes[start.owner[start.order]]]
        self.loss_, self.n_iter_ = trained.loss, trained.iterations
        metric = problem.plan.metric
        if metric.attribute:
            setattr(self, metric.attribute, metric.kept(trained.omega, start.order))
        if not trained.converged:
            warnings.warn(
                f"{type(self).__name__} stopped after max_iter={self.max_iter} iterations before "
                f"the loss settled to tol={self.tol:g}: raise one of them, or scale the features.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _weights(given: ArrayLike | None, n: int) -> FloatArray:
    """(n,) the weights of the rows."""
    if given is None:
        return np.ones(n)
    weight = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.shape != (n,):
        raise InvalidInput(
            f"Expected sample_weight to be one number for each of {n} rows, and its shape is "
            f"{weight.shape}: pass a flat array of that length."
        )
    if (weight < 0.0).any():
        raise InvalidInput(
            f"Expected sample_weight to be non-negative, and got {weight.min():g}: pass 0 to leave "
            "a row out."
        )
    if not weight.any():
        raise InvalidInput(
            "Expected a positive sample_weight, and the weight of every row is zero: pass 1 for "
            "the rows that count."
        )
    return np.asarray(weight)
