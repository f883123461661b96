"""Rows as they are given: arrays, sparse matrices, data frames, AnnData."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import InvalidInput
from counterpoint.groups.intake import Intake, arranged
from counterpoint.groups.membership import Groups
from counterpoint.groups.representations import Matrix
from counterpoint.rows.encoding import encode
from counterpoint.rows.table import Table

__all__ = ["Rows", "read"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

ADDED = "Describe it with Categorical to add one."
"""What one does about a category where features are described; here the representation knows."""


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Finite numbers (n, d), dense or sparse, and what their columns are.

    Parameters
    ----------
    matrix
        (n, d) an array of doubles, or a sparse array in rows. A column of categories is a column of
        zeros and ones for each of them.
    intake
        The columns that they were made of.
    """

    matrix: Matrix
    intake: Intake

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def names(self) -> tuple[Hashable, ...]:
        """d names."""
        return self.intake.names

    def take(self, rows: IntArray) -> Rows:
        """Some of the rows."""
        return replace(self, matrix=self.matrix[rows])

    def dense(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Some cells, as a dense array of doubles."""
        part = self.matrix[rows][:, columns]
        return np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=np.float64)

    @property
    def spread(self) -> FloatArray:
        """(d,) the standard deviation of each column."""
        if not sparse.issparse(self.matrix):
            return np.asarray(self.matrix.std(axis=0), dtype=np.float64)
        rows, width = self.matrix.shape
        place, cells = self.matrix.indices, self.matrix.data.astype(np.float64)
        mean = np.bincount(place, cells, width) / rows
        zeros = rows - np.bincount(place, minlength=width)
        squares = np.bincount(place, (cells - mean[place]) ** 2, width)
        return np.sqrt((squares + zeros * mean**2) / rows)

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """(d,) the smallest and the largest value of each column."""
        low, high = self.matrix.min(axis=0), self.matrix.max(axis=0)
        if sparse.issparse(self.matrix):
            low, high = low.toarray(), high.toarray()
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def read(X: Any, groups: Any, intake: Intake | None) -> tuple[Rows, Groups]:
    """Rows and their groups, as they are given.

    Parameters
    ----------
    X
        (n, d) an array, a sparse matrix, a data frame, or an AnnData.
    groups
        As `Groups.of` takes them; of a data frame also the name of a column, of an AnnData that of
        a column of ``obs``.
    intake
        What columns are taken; None for all.

    Raises
    ------
    InvalidInput
        If rows cannot be used, or no column has the name.
    """
    if any(b.__name__ == "AnnData" for b in type(X).__mro__):
        if isinstance(groups, str):
            _require_column(groups, tuple(X.obs), "obs")
            groups = X.obs[groups]
        return _of_matrix(X.X, tuple(X.var_names.tolist()), intake), Groups.of(groups)
    if sparse.issparse(X):
        return _of_matrix(X, None, intake), Groups.of(groups)
    table = Table.read(X)
    if isinstance(groups, str):
        _require_column(groups, () if table.is_array else table.names, "the data frame")
        labels, kept = _labels(table, groups), [name for name in table.names if name != groups]
        return _of_table(table.select(kept), intake), Groups.of(labels)
    return _of_table(table, intake), Groups.of(groups)


def _require_column(name: str, names: tuple[Hashable, ...], what: str) -> None:
    if name not in names:
        raise InvalidInput(
            f"Expected the groups to be a column of {what}; got {name!r}, and there are "
            f"{', '.join(map(str, names)) or 'none'}. Pass one of them, or a label for each row."
        )


def _labels(table: Table, name: str) -> Any:
    """A column of labels, with the order of its categories if it has one."""
    import pandas as pd

    values, levels = table.column(name), table.levels(name)
    return values if levels is None else pd.Categorical(values.tolist(), categories=list(levels))


def _of_table(table: Table, intake: Intake | None) -> Rows:
    """Rows of a frame or an array."""
    if table.is_array:
        return _encoded(_floats(table.native), arranged(intake, None, len(table.names)))
    took = arranged(intake, table.names, len(table.names))
    return _encoded(table.select(took.features.names), took)


def _of_matrix(X: Any, names: tuple[Hashable, ...] | None, intake: Intake | None) -> Rows:
    """Rows of a matrix, which may be sparse."""
    took = arranged(intake, names, X.shape[1])
    wanted = took.features.names
    matrix = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if names is not None and wanted != names:
        place = {name: j for j, name in enumerate(names)}
        matrix = matrix[:, [place[name] for name in wanted]]
    if not sparse.issparse(matrix):
        return _encoded(_floats(matrix), took)
    if not took.features.all_numeric:
        raise InvalidInput(
            "Expected a data frame, because the representation encodes categories; got a sparse "
            "matrix. Pass the frame that has them."
        )
    if not np.isfinite(matrix.data).all():
        raise InvalidInput(
            "Expected finite numbers; got a sparse cell that is none. Impute missing cells, or "
            "leave the rows out."
        )
    return Rows(_summed(matrix), took)


def _summed(matrix: Matrix) -> Matrix:
    """A sparse array that has no cell twice; a copy if there are such."""
    if matrix.has_canonical_format:
        return matrix
    found = matrix.copy()
    found.sum_duplicates()
    return found


def _floats(cells: NDArray[Any]) -> Table:
    """An array as a table; numbers are doubles at once, and not column by column."""
    numbers = cells.dtype.kind in "biuf"
    dense = np.ascontiguousarray(cells, dtype=np.float64) if numbers else cells
    return Table(dense, tuple(f"x{j}" for j in range(cells.shape[1])))


def _encoded(table: Table, took: Intake) -> Rows:
    """Rows with categories encoded, and missing cells filled in as the representation does."""
    names = took.features.names
    given = table.renamed(names) if table.is_array else table
    encoded = encode(given, took.features, took.fills, took.unfilled)
    if encoded.problems:
        row = min(encoded.problems)
        problem = encoded.problems[row].replace(ADDED, "Leave the row out, or fit on it as well.")
        raise InvalidInput(f"Row {row} cannot be used: {problem}")
    codes = took.features.expand(encoded.codes)
    return Rows(np.ascontiguousarray(codes, dtype=np.float64), took)
