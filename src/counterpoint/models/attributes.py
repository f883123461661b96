"""Fitted attributes as float64 arrays, with the checks that every reader needs."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import UnsupportedModel
from counterpoint.models.columns import Columns
from counterpoint.models.dispatch import require_fitted
from counterpoint.models.form import Magnitude
from counterpoint.models.linear import LinearScores, Link

__all__ = [
    "OTHER_SCORES",
    "classes_of",
    "dense",
    "eps_of",
    "fitted",
    "linear_scores",
    "scores_of_rows",
]

OTHER_SCORES = "NearestCentroid predicts by other scores than its decision_function gives"

FloatArray = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
NARROW = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
"""The distance from 1 to the next number in dtypes that are narrower than float64."""
SIMPLE = (str, bytes, int, float, type, type(None), FunctionType, ModuleType)
"""What holds no arrays."""


def dense(values: Any) -> FloatArray:
    """An array or sparse matrix as a float64 array."""
    return np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64)


def eps_of(model: Any) -> float:
    """The distance from 1 to the next number in the narrowest dtype in which a model holds any.

    A model that was fitted on float32 has coefficients in float32, and computes in it.
    """
    eps, left, seen = EPS, [model], set[int]()
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, SIMPLE):
            continue
        seen.add(id(value))
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        eps = max(eps, NARROW.get(kind, EPS))
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            left.extend(value)
        else:
            left.extend(getattr(value, "__dict__", {}).values())
    return eps


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
        coef, intercept = matrix[1] - matrix[0], float(offset[1] - offset[0])
        own = sizes or Magnitude.of(matrix, offset)
        return LinearScores.binary(coef, intercept, classes, link=link, magnitude=own, **why)
    return LinearScores(matrix, offset, classes, link=link, magnitude=sizes, **why)
