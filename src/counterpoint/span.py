"""The span of a model's score rows, in which answers move under a quadratic price.

It knows the full rows behind coordinates, and makes so few of them at a time that they fit into a
budget of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.costs import Price
from counterpoint.models.linear import LinearScores

__all__ = ["FAINT", "MEMORY", "InSpan", "Span", "blocks", "dense", "moved"]

FloatArray = NDArray[np.float64]

MEMORY = 1 << 26
"""Bytes of full rows that are made at a time: 64 MiB. More makes nothing faster."""
FAINT = 64.0 * np.finfo(np.float64).eps
"""A direction that is this small beside the largest is none."""


@final
@dataclass(frozen=True, eq=False)
class Span:
    """The directions in which answers move.

    Only differences of scores count, so all is relative to their mean.

    Parameters
    ----------
    matrix, offset
        (k, d) the score rows less their mean, and (k,) the offsets less theirs.
    directions
        (r, d) changes; in their coordinates the cost is the sum of squares.
    scores
        (k, r) what each adds to the scores.
    held
        (k, h) an orthonormal basis of the scores that no change reaches.
    """

    matrix: FloatArray
    offset: FloatArray
    directions: FloatArray
    scores: FloatArray
    held: FloatArray

    @classmethod
    def of(cls, form: LinearScores, price: Price, free: NDArray[np.bool_]) -> Span:
        """The span of a form's score rows, under a price, within the free columns.

        With P = L Lᵀ and the singular values A L⁻ᵀ = V S W the directions are W L⁻¹, and what they
        add to the scores is V S.
        """
        matrix = form.matrix - form.matrix.mean(axis=0)
        if price.quadratic.ndim == 1:
            unit = 1.0 / np.sqrt(price.quadratic[free])
            scaled = matrix[:, free] * unit
        else:
            factor = np.linalg.cholesky(price.quadratic[np.ix_(free, free)])
            scaled = np.linalg.solve(factor, matrix[:, free].T).T
        axes, length, ways = np.linalg.svd(scaled, full_matrices=False)
        reached = length > FAINT * length.max(initial=0.0)
        ways = ways[reached]
        directions = np.zeros((len(ways), form.width))
        back = ways * unit if price.quadratic.ndim == 1 else np.linalg.solve(factor.T, ways.T).T
        directions[:, free] = back
        axes = axes[:, reached]
        whole = np.linalg.svd(axes, full_matrices=True)[0]
        offset = form.offset - form.offset.mean()
        return cls(matrix, offset, directions, axes * length[reached], whole[:, axes.shape[1] :])

    def coordinates(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, k) scores → (n, r) and (n, h) coordinates, free and held, at which they are these."""
        lengths = np.einsum("ij,ij->j", self.scores, self.scores)
        away = scores - self.offset
        return away @ (self.scores / lengths), away @ self.held

    def scores_of(self, full: Any) -> tuple[FloatArray, dict[int, str]]:
        """(n, k) scores in float64, and which rows hold something that is not finite."""
        scores = np.empty((full.shape[0], len(self.offset)))
        for part in blocks(*full.shape):
            scores[part] = full[part].astype(np.float64, copy=False) @ self.matrix.T
        scores += self.offset
        bad = np.flatnonzero(~np.isfinite(scores).all(axis=1)).tolist()
        sentence = "the row holds a value that is missing or infinite; expected finite numbers."
        return np.nan_to_num(scores, posinf=0.0, neginf=0.0), dict.fromkeys(bad, sentence)


@final
@dataclass(frozen=True, eq=False)
class InSpan:
    """A model of full rows, asked with coordinates: the last one is the row that they belong to.

    Parameters
    ----------
    model
        The model.
    X
        (n, d) the factual rows.
    start
        (n, r) their coordinates.
    span
        The directions.
    """

    model: Any
    X: Any
    start: FloatArray
    span: Span

    @property
    def classes_(self) -> NDArray[Any]:
        """(k,) labels."""
        return np.asarray(self.model.classes_)

    def predict(self, T: FloatArray) -> NDArray[Any]:
        """(n,) the model's predictions."""
        return self._asked(self.model.predict, T)

    def predict_proba(self, T: FloatArray) -> FloatArray:
        """(n, k) the model's probabilities."""
        return self._asked(self.model.predict_proba, T)

    def _asked(self, method: Callable[[Any], Any], T: FloatArray) -> NDArray[Any]:
        """What the model says of full rows, block by block."""
        rows = np.rint(T[:, -1]).astype(np.intp)
        change = T[:, : self.start.shape[1]] - self.start[rows]
        said = [  # no block gets a name, by which it would stay while the next one is made
            np.asarray(method(self._full(rows[part], change[part])))
            for part in blocks(len(T), self.X.shape[1])
        ]
        return np.concatenate(said)

    def _full(self, rows: NDArray[np.intp], change: FloatArray) -> Any:
        """Some full rows; factual ones as they came."""
        return moved(self.X[rows], change, self.span.directions) if change.any() else self.X[rows]


def blocks(n: int, width: int, memory: int | None = None) -> Iterator[slice]:
    """Slices of rows whose float64 values fit into some bytes."""
    size = max(1, (memory or MEMORY) // (8 * max(width, 1)))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def dense(rows: Any) -> NDArray[Any]:
    """The rows as an array of their own."""
    return rows.toarray() if sparse.issparse(rows) else np.array(rows)


def moved(rows: Any, coefficients: FloatArray, directions: FloatArray) -> NDArray[Any]:
    """(m, d) rows + coefficients · directions, dense, in the precision of the rows."""
    full = coefficients @ directions
    if sparse.issparse(rows):
        full[np.repeat(np.arange(len(full)), np.diff(rows.indptr)), rows.indices] += rows.data
    else:
        full += rows
    return full.astype(rows.dtype, copy=False)
