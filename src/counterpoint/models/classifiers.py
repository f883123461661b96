"""Linear classifiers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.neighbors import NearestCentroid
from sklearn.svm import LinearSVC

from counterpoint.errors import UnsupportedModel
from counterpoint.models.attributes import (
    OTHER_SCORES,
    classes_of,
    dense,
    linear_scores,
    scores_of_rows,
)
from counterpoint.models.dispatch import on, quiet, read
from counterpoint.models.form import Form, Magnitude
from counterpoint.models.linear import LinearScores, Link

__all__ = ["ONE_VS_REST"]

ONE_VS_REST = (
    "the model is one-vs-rest, so its probabilities are independent ones divided by their sum, "
    "not a softmax of its scores"
)


@on(read, LogisticRegression)
def _(model: Any) -> Form:
    classes = classes_of(model)
    multi_class = getattr(model, "multi_class", "auto")  # gone in scikit-learn 1.8
    if len(classes) == 2 and multi_class == "multinomial":
        coef, intercept = dense(model.coef_)[0], float(dense(model.intercept_)[0])
        matrix, offset = np.stack([-coef, coef]), np.array([-intercept, intercept])
        return LinearScores(matrix, offset, classes, link=Link.SOFTMAX)
    one_vs_rest = multi_class == "ovr" or (
        model.solver == "liblinear" and multi_class != "multinomial"
    )
    if len(classes) > 2 and one_vs_rest:
        return linear_scores(model, Link.NONE, ONE_VS_REST)
    return linear_scores(model, Link.SOFTMAX)


@on(read, LinearDiscriminantAnalysis)
def _(model: Any) -> Form:
    return linear_scores(model, Link.SOFTMAX)


@on(read, SGDClassifier)
def _(model: Any) -> Form:
    binary = len(classes_of(model)) == 2
    if model.loss == "log_loss":
        return linear_scores(model, Link.SOFTMAX if binary else Link.NONE, ONE_VS_REST)
    if model.loss == "modified_huber":
        return linear_scores(model, Link.CLIPPED if binary else Link.NONE, ONE_VS_REST)
    reason = f"SGDClassifier with loss={model.loss!r} has none"
    return linear_scores(model, Link.NONE, reason)


@on(read, LinearSVC, Perceptron)
def _without_probabilities(model: Any) -> Form:
    return linear_scores(model, Link.NONE, f"{type(model).__name__} has none")


with suppress(ImportError):  # leaves scikit-learn with version 1.10
    from sklearn.linear_model import PassiveAggressiveClassifier

    read.register(PassiveAggressiveClassifier, _without_probabilities)


@on(read, RidgeClassifier, RidgeClassifierCV)
def _(model: Any) -> Form:
    form = linear_scores(model, Link.NONE, f"{type(model).__name__} has none")
    with quiet():  # fitted on names, asked with an array
        answer = model.predict(np.zeros((1, form.width)))
    if np.ndim(answer) != 1:
        raise UnsupportedModel(
            f"{type(model).__name__} was fitted on several labels for each row; expected one "
            "class. Fit one model for each label and explain them one by one."
        )
    return form


@on(read, NearestCentroid)
def _(model: Any) -> Form:
    classes = classes_of(model)
    if model.metric != "euclidean":
        raise UnsupportedModel(
            f"NearestCentroid with metric={model.metric!r} has decision boundaries that are not "
            "linear. Use metric='euclidean'."
        )
    centroids = dense(model.centroids_)
    prior = getattr(model, "class_prior_", None)  # new in scikit-learn 1.6
    if prior is None or np.isclose(prior, 1.0 / len(classes)).all():
        offset = -0.5 * (centroids**2).sum(axis=1)
        sizes = Magnitude.of_distances(centroids)
        return scores_of_rows(centroids, offset, classes, Link.NONE, OTHER_SCORES, sizes)
    deviation = dense(model.within_class_std_dev_).ravel()
    weights = np.where(deviation != 0, deviation, 1.0) ** -2.0
    offset = 2.0 * np.log(prior) - (weights * centroids**2).sum(axis=1)
    sizes = Magnitude.of_distances(centroids, sparse.diags_array(np.sqrt(weights)).tocsr())
    return scores_of_rows(2.0 * weights * centroids, offset, classes, Link.SOFTMAX, sizes=sizes)


@on(read, CalibratedClassifierCV)
def _(_model: Any) -> Form:
    raise UnsupportedModel(
        "CalibratedClassifierCV cannot be read exactly: its probabilities are an average over "
        "folds of calibrations that are not linear. Explain the classifier that was calibrated, "
        "and set its threshold with FixedThresholdClassifier."
    )


@on(read, DummyClassifier)
def _(_model: Any) -> Form:
    raise UnsupportedModel(
        "DummyClassifier does not look at its inputs, so no change of them changes its decision. "
        "Fit a model that does."
    )
