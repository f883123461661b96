"""The arrays of models of nearest prototypes: checked, and without what is there twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.errors import InvalidInput
from counterpoint.numerics import FloatArray, IntArray

__all__ = ["distinct", "factors_of", "first_equal", "metric_of", "validated"]


def validated(
    prototypes: ArrayLike, labels: ArrayLike
) -> tuple[FloatArray, NDArray[Any], IntArray]:
    """Check prototypes and labels; return the points, the classes and the index of each class.

    They are of shapes (P, d), (k,) and (P,): prototype p is of the class ``classes[index[p]]``.
    """
    points, labels = np.asarray(prototypes, dtype=np.float64), np.asarray(labels)
    if points.ndim != 2 or labels.shape != points.shape[:1]:
        raise InvalidInput(
            "Expected prototypes of shape (P, d) and P labels; "
            f"got shapes {points.shape} and {labels.shape}."
        )
    # The square of 2 p bounds the squared distance of two prototypes in one column. Values that are
    # not finite have a message of their own, in `metric_of`.
    with np.errstate(over="ignore"):
        overflows = np.isinf((2.0 * points) ** 2 @ np.ones(points.shape[1])).any()
    if overflows and np.isfinite(points).all():
        raise InvalidInput(
            "Expected prototypes whose squared distances are finite; they overflow. "
            "Scale the columns."
        )
    classes, index = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(
            f"Expected prototypes of two classes or more; got {classes.tolist()!r} alone."
        )
    return points, classes, index.ravel()


def metric_of(matrix: ArrayLike | None, points: FloatArray) -> FloatArray | None:
    """The metric, if it fits the prototypes."""
    omega = None if matrix is None else np.asarray(matrix, dtype=np.float64)
    if omega is not None and (omega.ndim not in (1, 2) or omega.shape[-1] != points.shape[1]):
        raise InvalidInput(
            f"Expected a matrix of shape (k, {points.shape[1]}), one for all prototypes, or "
            f"({points.shape[1]},) relevances; got shape {omega.shape}."
        )
    if not np.isfinite(points).all() or not (omega is None or np.isfinite(omega).all()):
        raise InvalidInput("Expected finite prototypes and a finite matrix; got others.")
    if omega is not None and omega.ndim == 1 and (omega < 0.0).any():
        raise InvalidInput(f"Expected relevances of at least 0; got {omega.min():.6g}.")
    if omega is not None and not omega.any():
        raise InvalidInput("Expected a metric in which some column counts; got zeros alone.")
    return omega


def factors_of(
    matrices: ArrayLike | Sequence[ArrayLike], count: int, width: int, metric_per: str
) -> FloatArray:
    """(count, k, d) matrices, shorter ones filled up with rows of zeros."""
    listed = matrices if isinstance(matrices, Sequence) else np.atleast_1d(np.asarray(matrices))
    arrays = [np.asarray(matrix, dtype=np.float64) for matrix in listed]
    shapes = sorted({matrix.shape for matrix in arrays})
    dimensions = {len(shape) for shape in shapes}
    fits = all(shape[-1:] == (width,) for shape in shapes) and dimensions in ({1}, {2})
    if len(arrays) != count or not fits:
        raise InvalidInput(
            f"Expected {count} matrices of shape (k, {width}), one for each {metric_per}, or as "
            f"many rows of {width} relevances; got {len(arrays)} of shape "
            f"{' and '.join(map(str, shapes))}."
        )
    if dimensions == {1}:
        relevances = np.stack(arrays)
        if (relevances < 0.0).any():
            raise InvalidInput(f"Expected relevances of at least 0; got {relevances.min():.6g}.")
        return np.asarray(np.sqrt(relevances)[:, None, :] * np.eye(width))
    out = np.zeros((count, max(len(matrix) for matrix in arrays), width))
    for place, matrix in zip(out, arrays, strict=True):
        place[: len(matrix)] = matrix
    return out


def distinct(place: IntArray, owner: IntArray, offsets: FloatArray) -> IntArray:
    """Of several prototypes of one class at one place, the first with the least offset.

    The others never win.
    """
    order = np.lexsort((offsets, owner, place))
    _, best = np.unique(np.stack([place, owner])[:, order], axis=1, return_index=True)
    return np.sort(order[best])


def first_equal(rows: FloatArray | IntArray) -> IntArray:
    """(n,) for each of n arrays the first that is equal to it."""
    seen: dict[bytes, int] = {}
    keys = (np.ascontiguousarray(row + 0.0).tobytes() for row in rows)  # −0 becomes 0
    return np.array([seen.setdefault(key, i) for i, key in enumerate(keys)], dtype=np.intp)
