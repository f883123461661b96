"""Fitted attributes as float64 arrays, with the checks that every reader needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import UnsupportedModel
from counterpoint.forms import LinearScores, Link
from counterpoint.readers.columns import Columns
from counterpoint.readers.dispatch import require_fitted

__all__ = ["OTHER_SCORES", "classes_of", "dense", "fitted", "linear_scores", "scores_of_rows"]

OTHER_SCORES = "NearestCentroid predicts by other scores than its decision_function gives"

FloatArray = NDArray[np.float64]


def dense(values: Any) -> FloatArray:
    """An array or sparse matrix as a float64 array."""
    return np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64)


def fitted(model: Any) -> Any:
    """The model, if it has been fitted."""
    require_fitted(model, Columns.inputs(1))
    return model


def classes_of(model: Any) -> NDArray[Any]:
    """(k,) the labels of a fitted classifier with one output.

    Raises
    ------
    UnsupportedModel
        If it has several outputs, knows one class only, or has NaN among its classes.
    """
    classes = fitted(model).classes_
    if isinstance(classes, list) or np.ndim(classes) != 1:
        raise UnsupportedModel(
            f"{type(model).__name__} has several outputs; expected one. "
            "Fit one model for each output and explain them one by one."
        )
    if len(classes) < 2:
        raise UnsupportedModel(
            f"{type(model).__name__} knows only the class {classes.tolist()[0]!r}, so nothing "
            "changes its decision. Fit it on data with two classes or more."
        )
    if any(label != label for label in classes.tolist()):  # noqa: PLR0124 (so is NaN)
        raise UnsupportedModel(
            f"{type(model).__name__} has NaN among its classes, which no prediction is equal to. "
            "Fit it on labels without NaN."
        )
    return np.asarray(classes)


def linear_scores(model: Any, link: Link, reason: str = "") -> LinearScores:
    """The form of ``coef_``, ``intercept_`` and ``classes_``; one row is a binary decision."""
    classes = classes_of(model)
    coef = np.atleast_2d(dense(model.coef_))
    intercept = np.broadcast_to(dense(model.intercept_).ravel(), len(coef))
    why: Any = {"no_probabilities": reason} if reason else {}
    if len(coef) == 1:
        return LinearScores.binary(coef[0], float(intercept[0]), classes, link=link, **why)
    return LinearScores(coef, np.array(intercept), classes, link=link, **why)


def scores_of_rows(
    matrix: FloatArray, offset: FloatArray, classes: NDArray[Any], link: Link, reason: str = ""
) -> LinearScores:
    """The form of one score for each class; two classes become their difference."""
    why: Any = {"no_probabilities": reason} if reason else {}
    if len(classes) == 2:
        coef, intercept = matrix[1] - matrix[0], float(offset[1] - offset[0])
        return LinearScores.binary(coef, intercept, classes, link=link, **why)
    return LinearScores(matrix, offset, classes, link=link, **why)
