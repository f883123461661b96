"""Representations: differentiable maps from features to a space of few dimensions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import InvalidInput

__all__ = [
    "Affine",
    "Composed",
    "FiniteDifferences",
    "FloatArray",
    "IntArray",
    "Matrix",
    "Representation",
    "dense",
    "stages",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Matrix = Any
"""A dense array or a sparse one of SciPy."""
Pull = Callable[[FloatArray], FloatArray]
"""Takes gradients (n, m) in the values of a map to gradients (n, d) in its rows."""

ROWS = 4096
"""Rows that are mapped at a time, so that what a network holds of its layers stays small."""


class Representation(ABC):
    """A differentiable map r from features (n, d) to a space of few dimensions (n, m)."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """d."""

    @abstractmethod
    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        """The values at rows, and what pulls gradients back through the map.

        Parameters
        ----------
        X
            (n, d) rows.

        Returns
        -------
        tuple
            (n, m) the values r(x); and a function that takes (n, m) to (n, d), the vector–Jacobian
            product of each row.
        """


@final
@dataclass(frozen=True, eq=False)
class Affine(Representation):
    """r(x) = x M + c: what scalers, PCA, linear discriminants and first layers are.

    Parameters
    ----------
    matrix
        (d, m) M, dense or sparse.
    offset
        (m,) c.

    Raises
    ------
    InvalidInput
        If their shapes do not fit together, or they are not finite.
    """

    matrix: Matrix
    offset: FloatArray

    def __post_init__(self) -> None:
        is_sparse = sparse.issparse(self.matrix)
        matrix: Matrix = self.matrix if is_sparse else np.asarray(self.matrix, dtype=np.float64)
        offset = np.asarray(self.offset, dtype=np.float64).ravel()
        if matrix.ndim != 2 or offset.shape != matrix.shape[1:]:
            raise InvalidInput(
                "Expected a matrix (features, dimensions) and an offset (dimensions,); got the "
                f"shapes {matrix.shape} and {offset.shape}. Transpose components_ of scikit-learn."
            )
        entries = matrix.tocoo().data if is_sparse else matrix
        if not (np.isfinite(entries).all() and np.isfinite(offset).all()):
            raise InvalidInput(
                "Expected finite numbers in an affine map; got others. Leave out features without "
                "a weight, or give them 0."
            )
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "offset", offset)

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[0])

    def vjp(self, X: Matrix) -> tuple[FloatArray, Pull]:
        return dense(X @ self.matrix) + self.offset, lambda C: dense(C @ self.matrix.T)

    def then(self, other: Affine) -> Affine:
        """The affine map that applies this one, then the other."""
        offset = dense(self.offset[None] @ other.matrix)[0] + other.offset
        return Affine(self.matrix @ other.matrix, offset)

    @classmethod
    def scaling(cls, scale: FloatArray, offset: FloatArray) -> Affine:
        """r(x) = scale · x + offset, entry by entry."""
        return cls(sparse.diags_array(scale, format="csr"), offset)


@final
@dataclass(frozen=True, eq=False)
class Composed(Representation):
    """An affine map, and any other on what it gives.

    Parameters
    ----------
    first
        The affine map.
    rest
        The other; None if nothing follows.
    """

    first: Affine
    rest: Representation | None

    @property
    def n_features(self) -> int:
        return self.first.n_features

    def vjp(self, X: Matrix) -> tuple[FloatArray, Pull]:
        hidden, back = self.first.vjp(X)
        values, pull = self.pull(hidden)
        return values, lambda C: back(pull(C))

    def hidden(self, X: Matrix) -> FloatArray:
        """(n, h) the values of the affine map."""
        return self.first.vjp(X)[0]

    def pull(self, hidden: FloatArray) -> tuple[FloatArray, Pull]:
        """As `vjp`, from the values of the affine map on; an error where it is not finite."""
        if self.rest is None:
            return hidden, lambda C: C
        values, pull = self.rest.vjp(hidden)
        return _finite(values), lambda C: _finite(pull(C))

    def finish(self, hidden: FloatArray) -> FloatArray:
        """(n, m) the values of rows, from the values of the affine map."""
        parts = range(0, max(len(hidden), 1), ROWS)
        return np.concatenate([self.pull(hidden[i : i + ROWS])[0] for i in parts])

    def values(self, X: Matrix) -> FloatArray:
        """(n, m) the values of rows."""
        parts = range(0, max(X.shape[0], 1), ROWS)
        return np.concatenate([self.finish(self.hidden(X[i : i + ROWS])) for i in parts])


@final
@dataclass(frozen=True, eq=False)
class FiniteDifferences(Representation):
    """Any smooth function of few features, with central differences for its derivatives.

    Each gradient takes 2 d calls. The answers are as exact as the differences, about eight digits
    of a function in double precision; one in single precision needs a larger step, such as 1e-2.

    Parameters
    ----------
    function
        Takes rows (n, d) to (n, m).
    features
        d, at most 64.
    step
        How far rows are moved to either side, in feature units; one number or d of them.

    Raises
    ------
    InvalidInput
        If there are more features, or a step is not positive.
    """

    function: Callable[[FloatArray], Any]
    features: int
    step: float | FloatArray = 1e-5

    def __post_init__(self) -> None:
        if not 1 <= self.features <= 64:  # each gradient takes two calls for each
            raise InvalidInput(
                f"Expected finite differences of 1 to 64 features; got {self.features}. "
                "Pass a representation with derivatives: a Network, a torch module, or your own "
                "subclass of Representation."
            )
        if not np.all(np.asarray(self.step) > 0.0):
            raise InvalidInput(f"Expected a positive step; got {self.step}. Pass 1e-5, say.")

    @property
    def n_features(self) -> int:
        return self.features

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pull]:
        steps = np.broadcast_to(np.asarray(self.step, dtype=float), (self.features,))

        def pull(C: FloatArray) -> FloatArray:
            slopes = np.empty(X.shape)
            for j, h in enumerate(steps.tolist()):
                up, down = X.copy(), X.copy()
                up[:, j] += h
                down[:, j] -= h
                change = (self._values(up) - self._values(down)) / (2.0 * h)
                slopes[:, j] = (change * C).sum(axis=1)
            return slopes

        return self._values(X), pull

    def _values(self, X: FloatArray) -> FloatArray:
        values = np.asarray(self.function(X), dtype=np.float64)
        if values.ndim != 2 or len(values) != len(X):
            raise InvalidInput(
                f"Expected the function to take rows of shape {X.shape} to as many rows; got the "
                f"shape {values.shape}. Return an array of shape (rows, dimensions)."
            )
        return values


@singledispatch
def stages(representation: Representation) -> Composed:
    """A representation as all that is affine at its beginning, and the rest.

    Sparse rows stay sparse until the rest, and a change of few features is cheap.
    """
    width = representation.n_features
    return Composed(Affine.scaling(np.ones(width), np.zeros(width)), representation)


@stages.register
def _(representation: Affine) -> Composed:
    return Composed(representation, None)


@stages.register
def _(representation: Composed) -> Composed:
    if representation.rest is None:
        return representation
    inner = stages(representation.rest)
    return Composed(representation.first.then(inner.first), inner.rest)


def dense(matrix: Matrix) -> FloatArray:
    """A dense or sparse array as a dense one of doubles."""
    filled = matrix.toarray() if sparse.issparse(matrix) else matrix
    return np.asarray(filled, dtype=np.float64)


def _finite(values: FloatArray) -> FloatArray:
    if not np.isfinite(values).all():
        raise InvalidInput(
            "Expected finite values from the representation, and finite derivatives, also where "
            "rows are moved to within the limits; got others. Scale the rows as those it was "
            "fitted on, or make it finite everywhere, as torch.log1p(x.clamp(min=0)) is."
        )
    return values
