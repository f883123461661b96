"""Rows as they are given: arrays, sparse matrices, data frames, AnnData."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import InvalidInput
from counterpoint.frames import Table
from counterpoint.groups.membership import Groups
from counterpoint.groups.representations import Matrix

__all__ = ["Rows", "read"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Finite numbers (n, d), dense or sparse, and the names of their columns.

    Parameters
    ----------
    matrix
        (n, d) an array of doubles, or a sparse array in rows.
    names
        d names.
    """

    matrix: Matrix
    names: tuple[Hashable, ...]

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def take(self, rows: IntArray) -> Rows:
        """Some of the rows."""
        return Rows(self.matrix[rows], self.names)

    def dense(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Some cells, as a dense array of doubles."""
        part = self.matrix[rows][:, columns]
        return np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=np.float64)

    @property
    def spread(self) -> FloatArray:
        """(d,) the standard deviation of each column."""
        if not sparse.issparse(self.matrix):
            return np.asarray(self.matrix.std(axis=0), dtype=np.float64)
        mean = np.asarray(self.matrix.mean(axis=0), dtype=np.float64)
        squares = np.asarray(self.matrix.power(2).mean(axis=0), dtype=np.float64)
        return np.sqrt(np.maximum(squares - mean * mean, 0.0))

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """(d,) the smallest and the largest value of each column."""
        low, high = self.matrix.min(axis=0), self.matrix.max(axis=0)
        if sparse.issparse(self.matrix):
            low, high = low.toarray(), high.toarray()
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def read(X: Any, groups: Any) -> tuple[Rows, Groups]:
    """Rows and their groups, as they are given.

    Parameters
    ----------
    X
        (n, d) an array, a sparse matrix, a data frame of numbers, or an AnnData.
    groups
        As `Groups.of` takes them; for an AnnData also the name of a column of ``obs``.

    Raises
    ------
    InvalidInput
        If rows are no finite numbers, or no column of an AnnData has the name.
    """
    if any(b.__name__ == "AnnData" for b in type(X).__mro__):
        names = tuple(X.var_names.tolist())
        if isinstance(groups, str):
            if groups not in X.obs:
                raise InvalidInput(
                    f"Expected the groups to be a column of obs; got {groups!r}, and there are "
                    f"{', '.join(map(str, X.obs)) or 'none'}. Pass one of them, or labels."
                )
            groups = X.obs[groups]
        return _finite(Rows(_matrix(X.X), names)), Groups.of(groups)
    if isinstance(groups, str):
        raise InvalidInput(
            f"Expected a label for each row; got the word {groups!r}. Names of columns are for "
            "AnnData alone."
        )
    if sparse.issparse(X):
        names = tuple(f"x{j}" for j in range(X.shape[1]))
        return _finite(Rows(_matrix(X), names)), Groups.of(groups)
    table = Table.read(X)
    matrix = table.native if table.is_array else table.float_matrix
    if matrix is None:
        matrix = np.column_stack([_numbers(table, name) for name in table.names])
    return _finite(Rows(_matrix(matrix), table.names)), Groups.of(groups)


def _numbers(table: Table, name: Hashable) -> FloatArray:
    values = table.column(name)
    if values.dtype.kind not in "biuf":
        raise InvalidInput(
            f"Expected columns of numbers; {name!r} has others. Encode it, or leave it out."
        )
    return values.astype(np.float64)


def _matrix(X: Any) -> Matrix:
    """A dense array of doubles, or a sparse array in rows."""
    if sparse.issparse(X):
        return sparse.csr_array(X)
    dense = np.asarray(X)
    if dense.ndim != 2 or dense.dtype.kind not in "biuf":
        raise InvalidInput(
            f"Expected rows of numbers of shape (n, d); got {dense.dtype} of shape {dense.shape}. "
            "Pass an array, a sparse matrix, or a data frame."
        )
    return np.ascontiguousarray(dense, dtype=np.float64)


def _finite(rows: Rows) -> Rows:
    cells = rows.matrix.data if sparse.issparse(rows.matrix) else rows.matrix
    if not np.isfinite(cells).all():
        found = "a sparse cell"
        if not sparse.issparse(rows.matrix):
            i, j = (int(at) for at in np.argwhere(~np.isfinite(rows.matrix))[0])
            found = f"{rows.matrix[i, j]} in row {i}, column {rows.names[j]!r}"
        raise InvalidInput(
            f"Expected finite numbers; got {found}. Impute missing cells, or leave the rows out."
        )
    return rows
