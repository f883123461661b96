"""Fitted attributes as float64 arrays and forms, with the checks that every reader needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import UnsupportedModel
from counterpoint.models.dispatch import fitted
from counterpoint.models.form import Magnitude
from counterpoint.models.linear import LinearScores, Link
from counterpoint.numerics import FloatArray

__all__ = ["OTHER_SCORES", "classes_of", "dense", "linear_scores", "scores_of_rows"]

OTHER_SCORES = "NearestCentroid predicts by other scores than its decision_function gives"


def dense(values: Any) -> FloatArray:
    """An array or sparse matrix as a float64 array."""
    return np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64)


def classes_of(model: Any) -> NDArray[Any]:
    """(k,) the labels of a fitted classifier with one output.

    Raises
    ------
    UnsupportedModel
        If it has several outputs, knows one class only, or has NaN among its classes.
    """
    classes, name = fitted(model).classes_, type(model).__name__
    if isinstance(classes, list) or np.ndim(classes) != 1:
        raise UnsupportedModel(
            f"{name} has several outputs; expected one. "
            "Fit one model for each output and explain them one by one."
        )
    if len(classes) < 2:
        raise UnsupportedModel(
            f"{name} knows only the class {classes.tolist()[0]!r}, so nothing "
            "changes its decision. Fit it on data with two classes or more."
        )
    if any(label != label for label in classes.tolist()):  # noqa: PLR0124 (so is NaN)
        raise UnsupportedModel(
            f"{name} has NaN among its classes, which no prediction is equal to. "
            "Fit it on labels without NaN."
        )
    return np.asarray(classes)


def linear_scores(model: Any, link: Link, reason: str = "") -> LinearScores:
    """The form of ``coef_``, ``intercept_`` and ``classes_``; one row is a binary decision."""
    classes = classes_of(model)
    coef = np.atleast_2d(dense(model.coef_))
    intercept = np.array(np.broadcast_to(dense(model.intercept_).ravel(), len(coef)))
    why: Any = {"no_probabilities": reason} if reason else {}
    if len(coef) == 1:
        return LinearScores.binary(coef[0], intercept[0], classes, link=link, **why)
    return LinearScores(coef, intercept, classes, link=link, **why)


def scores_of_rows(
    matrix: FloatArray,
    offset: FloatArray,
    classes: NDArray[Any],
    link: Link,
    reason: str = "",
    sizes: Magnitude | None = None,
) -> LinearScores:
    """The form of one score for each class; two classes become their difference.

    ``sizes`` are those of the terms of what the model computes, if that is not the scores.
    """
    why: Any = {"no_probabilities": reason} if reason else {}
    if len(classes) == 2:
        sizes = sizes or Magnitude.of(matrix, offset)
        matrix, offset = np.diff(matrix, axis=0), np.diff(offset)
        return LinearScores.binary(matrix, offset[0], classes, link=link, magnitude=sizes, **why)
    return LinearScores(matrix, offset, classes, link=link, magnitude=sizes, **why)
