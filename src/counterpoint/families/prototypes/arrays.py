"""Check the arrays of models of nearest prototypes, and find prototypes that coincide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.errors import InvalidInput
from counterpoint.numerics import FloatArray, IntArray


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
    # Two prototypes p and q differ by at most 2 max(|p|, |q|) in a column. Values that are not
    # finite have a message of their own, in `metrics_of`.
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


def metrics_of(
    matrices: Sequence[ArrayLike], count: int, points: FloatArray, owners: str
) -> list[FloatArray]:
    """Check the metrics of prototypes (P, d); return them as arrays of float64.

    There are to be ``count`` of them, one for ``owners`` (words for the message): all matrices
    (k, d), where k may differ, or all relevances (d,), which are not negative.
    """
    width, arrays = points.shape[1], [np.asarray(matrix, dtype=np.float64) for matrix in matrices]
    shapes = sorted({array.shape for array in arrays})
    same_kind = {len(shape) for shape in shapes} in ({1}, {2})
    if len(arrays) != count or not same_kind or any(shape[-1] != width for shape in shapes):
        raise InvalidInput(
            f"Expected {count} matrices of shape (k, {width}), one for {owners}, or as many rows "
            f"of {width} relevances; got {len(arrays)} of shape {' and '.join(map(str, shapes))}."
        )
    if not all(np.isfinite(array).all() for array in (points, *arrays)):
        raise InvalidInput("Expected finite prototypes and matrices; got others.")
    least = min(array.min() for array in arrays)
    if arrays[0].ndim == 1 and least < 0.0:
        raise InvalidInput(f"Expected relevances of at least 0; got {least:.6g}.")
    if not any(array.any() for array in arrays):
        raise InvalidInput("Expected a metric in which some column counts; got zeros alone.")
    return arrays


def factors_of(metrics: Sequence[FloatArray]) -> FloatArray:
    """Return the matrices Ω of all metrics as one array (count, k, d).

    Relevances λ become the diagonal matrix with ΩᵀΩ = diag(λ); matrices with fewer rows than others
    are filled up with rows of zeros, which add nothing to a distance.
    """
    roots = [np.diag(np.sqrt(metric)) if metric.ndim == 1 else metric for metric in metrics]
    factors = np.zeros((len(roots), max(map(len, roots)), roots[0].shape[1]))
    for factor, root in zip(factors, roots, strict=True):
        factor[: len(root)] = root
    return factors


def distinct(place: IntArray, owner: IntArray, offsets: FloatArray) -> IntArray:
    """Return the positions of the prototypes that can win, in increasing order.

    Of several prototypes of one class (``owner``) at one place, that is the first of those with the
    least offset. All arrays are of shape (P,).
    """
    order = np.lexsort((offsets, owner, place))
    _, firsts = np.unique(np.stack([place, owner])[:, order], axis=1, return_index=True)
    return np.sort(order[firsts])


def first_equal(rows: FloatArray | IntArray) -> IntArray:
    """Return for each of n arrays the position of the first that is equal to it, shape (n,)."""
    position_of: dict[bytes, int] = {}
    keys = (np.ascontiguousarray(row + 0.0).tobytes() for row in rows)  # −0 becomes 0
    return np.array([position_of.setdefault(key, i) for i, key in enumerate(keys)], dtype=np.intp)
