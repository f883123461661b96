"""The parts of a model with local metrics: checked, and told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.errors import InvalidInput
from counterpoint.models.scores import EPS

__all__ = ["Parts", "distinct", "first_equal", "parts_of"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Parts:
    """Prototypes with a metric each.

    Parameters
    ----------
    points
        (P, d).
    labels
        (P,).
    factors
        (M, k, d) matrices Ω, those of one metric being the same one.
    metric
        (P,) the position of each prototype's matrix.
    offsets
        (P,) what is added to the squared distance.
    """

    points: FloatArray
    labels: NDArray[Any]
    factors: FloatArray
    metric: IntArray
    offsets: FloatArray


def parts_of(
    prototypes: ArrayLike,
    labels: ArrayLike,
    matrices: ArrayLike | Sequence[ArrayLike],
    offsets: ArrayLike | None,
    metric_per: Literal["prototype", "class"],
) -> Parts:
    """The parts as arrays that fit each other; see `LocalPrototypes.from_arrays`."""
    points, kinds = np.asarray(prototypes, dtype=np.float64), np.asarray(labels)
    if points.ndim != 2 or kinds.shape != points.shape[:1]:
        raise InvalidInput(
            "Expected prototypes of shape (P, d) and P labels; "
            f"got shapes {points.shape} and {kinds.shape}."
        )
    which = np.arange(len(kinds))
    if metric_per == "class":
        which = np.unique(kinds, return_inverse=True)[1].ravel()
    elif metric_per != "prototype":
        raise InvalidInput(f"Expected metric_per 'prototype' or 'class'; got {metric_per!r}.")
    count = int(which.max(initial=-1)) + 1
    factors = _factors(matrices, count, points.shape[1], metric_per)
    added = np.zeros(len(kinds)) if offsets is None else np.asarray(offsets, dtype=np.float64)
    if added.shape != kinds.shape:
        raise InvalidInput(f"Expected {len(kinds)} offsets; got shape {added.shape}.")
    if not all(np.isfinite(part).all() for part in (points, factors, added)):
        raise InvalidInput("Expected finite prototypes, matrices and offsets; got others.")
    if not factors.any():
        raise InvalidInput("Expected metrics in which some column counts; got zeros alone.")
    return Parts(points, kinds, factors, _alike(factors)[which], added)


def _factors(
    matrices: ArrayLike | Sequence[ArrayLike], count: int, width: int, metric_per: str
) -> FloatArray:
    """(count, k, d) matrices, shorter ones filled up with rows of zeros."""
    listed = matrices if isinstance(matrices, Sequence) else np.atleast_1d(np.asarray(matrices))
    found = [np.asarray(matrix, dtype=np.float64) for matrix in listed]
    shapes = sorted({matrix.shape for matrix in found})
    dimensions = {len(shape) for shape in shapes}
    fits = all(shape[-1:] == (width,) for shape in shapes) and dimensions in ({1}, {2})
    if len(found) != count or not fits:
        raise InvalidInput(
            f"Expected {count} matrices of shape (k, {width}), one for each {metric_per}, or as "
            f"many rows of {width} relevances; got {len(found)} of shape "
            f"{' and '.join(map(str, shapes))}."
        )
    if dimensions == {1}:
        relevances = np.stack(found)
        if (relevances < 0.0).any():
            raise InvalidInput(f"Expected relevances of at least 0; got {relevances.min():.6g}.")
        return np.asarray(np.sqrt(relevances)[:, None, :] * np.eye(width))
    out = np.zeros((count, max(len(matrix) for matrix in found), width))
    for place, matrix in zip(out, found, strict=True):
        place[: len(matrix)] = matrix
    return out


def _alike(factors: FloatArray) -> IntArray:
    """(M,) the first matrix Ω with the same ΩᵀΩ, up to the rounding of that product."""
    first = first_equal(factors)
    size = np.sum(factors * factors, axis=1)
    rounding = 2.0 * (factors.shape[1] + 2) * EPS
    for j in np.flatnonzero(first == np.arange(len(first))).tolist():
        near = np.all(np.abs(size[:j] - size[j]) <= rounding * size[j], axis=1)
        for i in np.flatnonzero(near & (first[:j] == np.arange(j))).tolist():
            apart = np.abs(factors[i].T @ factors[i] - factors[j].T @ factors[j])
            if (apart <= rounding * np.sqrt(np.outer(size[j], size[j]))).all():
                first[first == j] = i
                break
    return first


def distinct(parts: Parts, owner: IntArray) -> tuple[IntArray, FloatArray]:
    """Which prototypes to keep, and their (P, k) shifts −Ωp, equal ones equal to the last bit.

    Of several of one class at one place, the first with the least offset is kept: the others never
    win.
    """
    counts = np.asarray(parts.factors.any(axis=1))[parts.metric]  # columns that a metric looks at
    place = first_equal(np.column_stack([parts.metric, np.where(counts, parts.points, 0.0)]))
    order = np.lexsort((parts.offsets, owner, place))
    _, best = np.unique(np.stack([place, owner])[:, order], axis=1, return_index=True)
    kept = np.sort(order[best])
    shifts = np.empty((len(kept), parts.factors.shape[1]))
    for row, at in zip(shifts, place[kept].tolist(), strict=True):
        row[:] = -(parts.factors[parts.metric[at]] @ parts.points[at])
    return kept, shifts


def first_equal(rows: FloatArray) -> IntArray:
    """(n,) for each of n arrays the first that is equal to it."""
    seen: dict[bytes, int] = {}
    keys = (np.ascontiguousarray(row + 0.0).tobytes() for row in rows)  # −0 becomes 0
    return np.array([seen.setdefault(key, i) for i, key in enumerate(keys)], dtype=np.intp)
