"""Fit prototypes and predict the label of the nearest one: what all estimators share."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoint.errors import InvalidInput, among, check_parameters, is_listed, shown
from counterpoint.lvq.training import (
    Training,
    TrainingCost,
    TrainingRows,
    discriminant_directions,
    likelihood_ratio,
    relative_distance,
    squared_distances,
    starting_prototypes,
    unit_trace,
)
from counterpoint.numerics import FloatArray, IntArray

Counts = int | Mapping[Any, int] | Sequence[int]
Seed = int | np.random.RandomState | None


class VectorQuantizer(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier that answers with the label of the nearest prototype under its metric.

    A subclass says what training minimises, and by ``_metric_attribute`` what its metric is.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "random_state": ["random_state"],
        "transfer": [StrOptions(among("identity", "sigmoid"))],
        "steepness": [Interval(Real, 0.0, None, closed="neither")],
        "spread": [Interval(Real, 0.0, None, closed="neither"), None],
        "anchor": [Interval(Real, 0.0, None, closed="left")],
        "regularization": [Interval(Real, 0.0, None, closed="left")],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "metric_per": [StrOptions(among("prototype", "class"))],
    }
    _metric_attribute: ClassVar[Literal["", "relevances_", "omega_", "omegas_"]] = ""

    prototypes_per_class: Counts
    metric_per: Literal["prototype", "class"] = "prototype"
    regularization: float = 0.0
    anchor: float = 0.0
    rank: int | None = None
    max_iter: int
    tol: float
    random_state: Seed

    @abstractmethod
    def _cost(self, unit_of_distances: float, nearness: float) -> TrainingCost:
        """Return what training minimises.

        ``nearness`` is the mean squared distance of rows to the nearest prototype of their class at
        the start, and ``unit_of_distances`` the unit of such distances, in feature units.
        """

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
        check_parameters(self)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        weight = _weights(sample_weight, len(X))
        used = weight > 0.0
        self.classes_, label = np.unique(y[used], return_inverse=True)
        rows = TrainingRows.of(X[used], label, weight[used])
        counts, random = self._counts(rows), check_random_state(self.random_state)
        training = self._training(rows, *starting_prototypes(rows, counts, random))
        result = training.minimised(int(self.max_iter), float(self.tol))
        self._set_fitted(training, result.x)
        self.loss_, self.n_iter_ = float(result.fun), max(int(result.nit), 1)
        # Status 1 is a limit. A line search that finds nothing better, at a kink, is an end too.
        if result.status == 1:
            warnings.warn(
                f"{type(self).__name__} stopped after max_iter={self.max_iter} iterations before "
                f"the loss settled to tol={self.tol:g}: raise one of them, or scale the features.",
                ConvergenceWarning,
                stacklevel=2,
            )
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

    def _training(self, rows: TrainingRows, prototypes: FloatArray, owner: IntArray) -> Training:
        """Return the training that starts at prototypes (P, d) of classes ``owner`` (P,)."""
        width, matrix_of = prototypes.shape[1], self._matrix_of(owner)
        if self.rank is not None and self.rank > width:
            raise InvalidInput(
                f"Expected rank to be at most the number of features, {width}; got "
                f"{self.rank}: lower it, or pass None for a square matrix."
            )
        same = rows.label[:, None] == owner
        omega = np.ones(width) if self._metric_attribute == "relevances_" else np.empty(0)
        if self._metric_attribute in ("omega_", "omegas_"):
            omega = discriminant_directions(rows, prototypes, same, self.rank or width)
        if self._metric_attribute == "omegas_":
            omega = np.repeat(omega[None], int(matrix_of.max()) + 1, axis=0)
        distances, _ = squared_distances(rows.x, prototypes, unit_trace(omega)[0], matrix_of)
        nearest = np.where(same, distances, np.inf).min(axis=1)
        nearness = float(rows.weight @ nearest) or float(distances.mean()) or 1.0
        cost = self._cost(rows.scale**2, nearness)
        weights = self.regularization, self.anchor
        return Training(rows, prototypes, owner, same, omega, matrix_of, cost, *weights)

    def _matrix_of(self, owner: IntArray) -> IntArray:
        """(P,) the matrix of each prototype, where there are several."""
        return owner if self.metric_per == "class" else np.arange(len(owner))

    def _distances(self, X: Any) -> FloatArray:
        """(n, P) the squared distances to the prototypes."""
        rows = self._rows(X)
        metric = getattr(self, self._metric_attribute) if self._metric_attribute else np.empty(0)
        omega = np.sqrt(metric) if self._metric_attribute == "relevances_" else metric
        matrix_of = self._matrix_of(np.searchsorted(self.classes_, self.prototype_labels_))
        return squared_distances(rows, self.prototypes_, omega, matrix_of)[0]

    def _rows(self, X: Any) -> FloatArray:
        """(n, d) the rows, checked against those of `fit`."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, order="C", reset=False))

    def _counts(self, rows: TrainingRows) -> IntArray:
        """(C,) the number of prototypes of each class of the rows."""
        if len(self.classes_) < 2:
            raise InvalidInput(
                f"{type(self).__name__} expects rows of at least two classes; got one class, "
                f"{self.classes_.tolist()[0]!r}: pass rows of another one as well."
            )
        counts = _counts_of(self.prototypes_per_class, self.classes_.tolist())[rows.classes]
        distinct = np.bincount(rows.label)
        for c in np.flatnonzero(distinct < counts):
            raise InvalidInput(
                f"Expected at least {counts[c]} distinct rows of class "
                f"{self.classes_.tolist()[rows.classes[c]]!r}, one for each of its prototypes; "
                f"got {distinct[c]}: lower prototypes_per_class, for this class alone by a mapping."
            )
        return counts

    def _set_fitted(self, training: Training, vector: FloatArray) -> None:
        """Set prototypes and metric, in feature units and in the order of ``classes_``.

        Training has an order of classes of its own, see `TrainingRows`.
        """
        rows, (prototypes, unscaled) = training.rows, training.split(vector)
        owner = rows.classes[training.owner]
        order = np.argsort(owner, kind="stable")
        self.prototypes_ = (prototypes * rows.scale + rows.centre)[order]
        self.prototype_labels_ = self.classes_[owner[order]]
        metric = unit_trace(unscaled)[0]
        if self._metric_attribute == "relevances_":
            metric = metric**2
        if self._metric_attribute == "omegas_":
            # Matrices follow in the order in which the sorted prototypes first use them.
            matrix_of = training.matrix_of[order]
            metric = metric[matrix_of[np.sort(np.unique(matrix_of, return_index=True)[1])]]
        if self._metric_attribute:
            setattr(self, self._metric_attribute, metric)


@dataclass(eq=False, repr=False)
class Relative(VectorQuantizer, ABC):
    """A vector quantizer that is trained on relative distances.

    Training lowers the mean over rows of f((d⁺ − d⁻) / (d⁺ + d⁻)): d⁺ is the distance to the
    nearest prototype of the row's own class, d⁻ that to the nearest of another.
    """

    prototypes_per_class: Counts = 1
    _: KW_ONLY
    transfer: Literal["identity", "sigmoid"] = "sigmoid"
    steepness: float = 8.0
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Seed = None

    def _cost(self, unit_of_distances: float, nearness: float) -> TrainingCost:
        return relative_distance(float(self.steepness) if self.transfer == "sigmoid" else None)


@dataclass(eq=False, repr=False)
class Likelihood(VectorQuantizer, ABC):
    """A vector quantizer whose prototypes are the centres of a mixture of Gaussians.

    Training maximises the mean over rows of log(p(x, y) / p(x)), where p is a mixture of equally
    weighted Gaussians exp(−d / (2 σ²)) around the prototypes. The nearest prototype decides, not
    the mixture: see `predict_proba`.
    """

    prototypes_per_class: Counts = 1
    _: KW_ONLY
    spread: float | None = None
    anchor: float = 0.02
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Seed = None

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

    def _cost(self, unit_of_distances: float, nearness: float) -> TrainingCost:
        spread = nearness if self.spread is None else float(self.spread) / unit_of_distances
        self.spread_ = spread * unit_of_distances
        return likelihood_ratio(spread)


def _counts_of(requested: Any, labels: list[Any]) -> IntArray:
    """(C,) the number of prototypes of each class, in the order of the sorted labels."""
    if isinstance(requested, Mapping):
        numbers: list[Any] = [requested.get(label) for label in labels]
    else:
        numbers = list(requested) if is_listed(requested) else [requested] * len(labels)
    wrong = (isinstance(n, bool) or not isinstance(n, Integral) or int(n) < 1 for n in numbers)
    if len(numbers) != len(labels) or any(wrong):
        raise InvalidInput(
            "Expected prototypes_per_class to be a whole number of at least 1, or one for each of "
            f"the classes {shown(labels)}, in this order or in a mapping; got {shown(requested)}."
        )
    return np.array(numbers, dtype=np.intp)


def _weights(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    """Check the weights of n rows and return them, (n,); None is 1 each."""
    if sample_weight is None:
        return np.ones(n)
    weight = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weight.shape != (n,):
        raise InvalidInput(
            f"Expected sample_weight to be one number for each of {n} rows, and its shape is "
            f"{weight.shape}: pass a flat array of that length."
        )
    if (weight < 0.0).any():
        raise InvalidInput(
            f"Expected sample_weight to be non-negative; got {weight.min():g}: pass 0 to leave "
            "a row out."
        )
    if not weight.any():
        raise InvalidInput(
            "Expected a positive sample_weight, and the weight of every row is zero: pass 1 for "
            "rows that count."
        )
    return np.asarray(weight)
