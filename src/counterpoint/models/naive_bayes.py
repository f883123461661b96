"""Naive Bayes that is linear, by its kind or because all of its inputs are categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)

from counterpoint.errors import UnsupportedModel
from counterpoint.models.attributes import classes_of, dense, scores_of_rows
from counterpoint.models.columns import NUMBERS, Columns
from counterpoint.models.dispatch import finish, on, read, require_fitted
from counterpoint.models.form import Form
from counterpoint.models.linear import Link
from counterpoint.models.probe import by_running

__all__: list[str] = []


@on(read, MultinomialNB)
def _(model: Any) -> Form:
    classes = classes_of(model)
    offset = dense(model.class_log_prior_)
    return scores_of_rows(dense(model.feature_log_prob_), offset, classes, Link.SOFTMAX)


@on(read, ComplementNB)
def _(model: Any) -> Form:
    classes = classes_of(model)
    weights = dense(model.feature_log_prob_)
    return scores_of_rows(weights, np.zeros(len(classes)), classes, Link.SOFTMAX)


@on(read, BernoulliNB)
def _(model: Any) -> Form:
    classes = classes_of(model)
    if model.binarize is not None:
        raise UnsupportedModel(
            f"BernoulliNB with binarize={model.binarize!r} cuts its inputs at a threshold, which "
            "is not linear. Fit it on columns of 0 and 1 with binarize=None."
        )
    yes = dense(model.feature_log_prob_)
    no = np.log1p(-np.exp(yes))
    offset = dense(model.class_log_prior_) + no.sum(axis=1)
    return scores_of_rows(yes - no, offset, classes, Link.SOFTMAX)


@on(read, CategoricalNB)
def _(_model: Any) -> Form:
    raise UnsupportedModel(
        "CategoricalNB takes categories, not numbers. Put an OrdinalEncoder before it, and "
        "describe its columns as Categorical."
    )


@on(finish, BernoulliNB, CategoricalNB, GaussianNB)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Of categories any log-likelihood that is a sum over columns is linear."""
    require_fitted(model, columns)
    if (columns.sources == NUMBERS).any():
        return finish.dispatch(object)(model, columns)
    scores = by_running(model, columns, method="predict_joint_log_proba").map()
    form = scores_of_rows(scores.matrix, scores.offset, classes_of(model), Link.SOFTMAX)
    said = (
        f"{type(model).__name__} as {type(form).__name__} over {len(columns)} inputs of categories"
    )
    return form, columns.noted(said)
