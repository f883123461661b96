"""From raw rows to codes and back, each cell in the dtype that came in.

A missing cell has the code of the value that it counts as (the *fill* of its column), and stays
missing for as long as its code does not change.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, is_comparable, some
from counterpoint.numerics import BoolArray, FloatArray, IntArray, as_slice
from counterpoint.rows.cells import is_missing
from counterpoint.rows.features import Categorical, Feature, Features, near_names
from counterpoint.rows.table import Cells, Table

Fills = Mapping[Hashable, Any]

NO_FILLS: Fills = MappingProxyType({})
PRESENT, NAN, NONE, OTHER = range(4)
"""What a cell holds: a value, or NaN, None, or something else that says that it is missing."""


@final
@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows of a call, read once: the numbers in their cells, and why some cannot be used."""

    table: Table  # the model's columns of these rows and perhaps of others, as they came
    features: Features
    codes: FloatArray  # (n, p); a row with a problem holds arbitrary finite codes
    # (n, p): how a cell that counts as the fill of its column is missing; 0 for all others
    missing: NDArray[np.int8]
    index: IntArray  # (n,) positions in the call
    at: IntArray  # (n,) positions in the table
    problems: dict[int, str]  # position in the call → what is wrong with a row
    weight: FloatArray | None = None  # (n,) how much the price counts against objective terms
    held: BoolArray | None = None  # (n, p) which features must stay

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def x(self) -> FloatArray:
        """(n, d) the rows encoded."""
        return self.codes if self.features.all_numeric else self.features.expand(self.codes)

    def take(self, rows: IntArray) -> RowBatch:
        """Some of the rows, each once and in order, with the whole table."""
        if len(rows) == len(self.index):
            return self
        positions = as_slice(rows)
        batch = replace(
            self,
            codes=self.codes[positions],
            missing=self.missing[positions],
            index=self.index[positions],
            at=self.at[positions],
            weight=None if self.weight is None else self.weight[positions],
            held=None if self.held is None else self.held[positions],
        )
        if "x" in vars(self) and not self.features.all_numeric:
            vars(batch)["x"] = self.x[positions]
        return batch

    def apart(self) -> RowBatch:
        """The same rows in a table of nothing else."""
        if len(self.index) == len(self.table.native):
            return self
        positions = np.arange(len(self.index))
        return replace(self, at=positions, table=self.table.take(as_slice(self.at)))


def match_columns(table: Table, features: Features, *, named: bool = True) -> Table:
    """The table's columns that are features, in the features' order.

    Columns are matched by name; an array's, by position. So are those of a frame without text among
    its column names, such as ``pd.DataFrame(array)``, if the model was not fitted on names
    (``named``): the features' are then ``x0 …`` or those of ``data``, and the frame lacks them.
    """
    names = features.names
    if not table.is_array and table.names == names:
        return table
    if not (table.is_array or named) and len(table.names) == len(names):
        text = any(isinstance(name, str) for name in table.names)
        if not text and set(table.names) != set(names):
            return table.renamed(names)
    if table.is_array:
        if len(table.names) != len(names):
            raise InvalidInput(
                f"Expected {len(names)} columns ({some(names)}); "
                f"got an array with {len(table.names)}."
            )
        return table.renamed(names)
    present_names = set(table.names)
    missing = [name for name in names if name not in present_names]
    if missing:
        extra_names = [name for name in table.names if name not in {*names}]
        alike = ((name, near) for name in missing if (near := near_names(name, extra_names)))
        hint = f" Other columns that are known: {some(extra_names, 12)}." if extra_names else ""
        for name, near in islice(alike, 1):
            hint = f" For {name!r}, did you mean {near}?"
        raise InvalidInput(
            f"Expected the columns that the model uses; missing: {some(missing)}.{hint}"
        )
    return table.select(names)


def encode(
    table: Table,
    features: Features,
    fills: Fills = NO_FILLS,
    unfilled: Mapping[Hashable, str] = NO_FILLS,
) -> RowBatch:
    """Read the rows of a table whose columns are the features, in order.

    ``fills`` says by name what a missing cell counts as; in other columns it is a problem of its
    row, and ``unfilled`` may say why, as the end of a sentence.
    """
    problems: dict[int, str] = {}
    positions = np.arange(len(table.native))
    matrix = table.float_matrix if features.all_numeric else None
    if matrix is not None and (np.isfinite(matrix.sum()) or np.isfinite(matrix).all()):
        missing = np.broadcast_to(np.int8(PRESENT), matrix.shape)
        return RowBatch(table, features, matrix, missing, positions, positions, problems)
    codes = np.empty((len(table), len(features))) if matrix is None else np.array(matrix)
    missing = np.zeros(codes.shape, dtype=np.int8)
    read = np.zeros(len(features), bool) if matrix is None else np.isfinite(matrix).all(axis=0)
    for j in np.flatnonzero(~read).tolist():
        feature, name = features.items[j], features.names[j]
        values = table.column(name)
        if not isinstance(feature, Categorical):
            values = _as_numbers(name, values, problems, table.foreign(name))
        fill, why_not = fills.get(name), unfilled.get(name, "")
        codes[:, j], missing[:, j] = _column_codes(feature, values, fill, why_not, problems)
    return RowBatch(table, features, codes, missing, positions, positions, problems)


def present(table: Table, features: Features) -> FloatArray:
    """(m, p) codes of the rows that can be used."""
    encoded = encode(table, features)
    return np.delete(encoded.codes, list(encoded.problems), axis=0)


def numbers(table: Table, name: Hashable) -> FloatArray:
    """(m,) the finite numbers that one column holds, wherever it stands in the table."""
    values = _as_numbers(name, table.column(name), {}, table.foreign(name))
    return values[np.isfinite(values)]


def decode(
    table: Table,
    features: Features,
    rows: slice | IntArray,
    before: FloatArray,
    after: FloatArray,
    *,
    whole: bool = False,
) -> Table:
    """These rows of the table, with the cells whose (n, p) codes differ replaced, and no others.

    The table is as it came in, and may hold more columns than the features; no cell is missing if
    it is ``whole``.
    """
    matrix = _matrix(table, features, rows, before, after, whole=whole)
    if matrix is not None:
        return table.with_matrix(rows, matrix)
    cells: dict[Hashable, Cells] = {}
    changed = before != after
    for j in np.flatnonzero(changed.any(axis=0)).tolist():
        feature, positions = features.items[j], np.flatnonzero(changed[:, j])
        values: NDArray[Any] = after[positions, j]
        if isinstance(feature, Categorical):
            words = np.fromiter(feature.categories, dtype=object)
            values = words[values.astype(np.intp)]
        cells[feature.name] = positions, values
    return table.with_cells(rows, cells)


def cells_after(
    table: Table, features: Features, i: int, before: FloatArray, after: FloatArray
) -> dict[Hashable, Any]:
    """Name → value of those cells of one row whose (1, p) codes differ, as `decode` writes them."""
    row, moved = slice(i, i + 1), np.flatnonzero(before[0] != after[0]).tolist()
    names = [features.names[j] for j in moved]
    if not names:
        return {}
    matrix = _matrix(table, features, row, before, after, whole=False)
    if matrix is not None:
        return dict(zip(names, matrix[0, moved].tolist(), strict=True))
    return decode(table, features, row, before, after).row(0, names)


def _matrix(
    table: Table,
    features: Features,
    rows: slice | IntArray,
    before: FloatArray,
    after: FloatArray,
    *,
    whole: bool,
) -> FloatArray | None:
    """`decode` for a table of floats of one kind, as its matrix; None for others."""
    # columns of an array are matched by position: to compare 100 000 names would take its time
    same = len(table.names) == len(features) if table.is_array else table.names == features.names
    if not (same and features.all_numeric) or table.float_matrix is None:
        return None
    matrix = after
    if table.has_nan and not whole:
        matrix_before = table.float_matrix[rows]
        gaps = np.isnan(matrix_before) & (before == after)
        if gaps.any() and not (table.is_array or table.is_pandas):
            return None  # others tell a null from a NaN
        # before the cast: the code of a cell that stays missing may be too large for the dtype
        matrix = np.where(gaps, matrix_before, after)
    return matrix.astype(table.float_dtype, copy=False)


def as_returned(
    table: Table,
    features: Features,
    rows: slice | IntArray,
    before: FloatArray,
    after: FloatArray,
    *,
    followed: bool = False,
) -> tuple[tuple[Table, ...], FloatArray, FloatArray]:
    """`decode`, with the codes of the rows as they are returned, and the same encoded.

    They may be ``followed`` by all rows of the table as they came: in the same frame, or another.
    """
    matrix = _matrix(table, features, rows, before, after, whole=False)
    if matrix is not None and table.float_matrix is not None:
        codes = after
        if not table.all_floats:
            codes = matrix.astype(np.float64)
            codes = np.where(np.isnan(codes), after, codes) if table.has_nan else codes
        if followed:
            both = np.concatenate([matrix, table.float_matrix])
            return (table.with_matrix(None, both),), codes, codes
        return (table.with_matrix(rows, matrix),), codes, codes
    returned = decode(table, features, rows, before, after)
    codes = recode(returned, features, before, after)
    tables = (returned, table) if followed else (returned,)
    return tables, codes, codes if features.all_numeric else features.expand(codes)


def recode(
    returned: Table, features: Features, before: FloatArray, after: FloatArray
) -> FloatArray:
    """(n, p) the codes of rows as they were returned: numbers after the cast to their dtypes.

    A cell that is still missing keeps its code, and so do columns that nothing was written into.
    """
    codes = np.array(after)
    for j in np.flatnonzero((before != after).any(axis=0) & features.is_numeric).tolist():
        name = features.items[j].name
        values = _as_numbers(name, returned.column(name), {})
        codes[:, j] = np.where(np.isnan(values), codes[:, j], values)
    return codes


def _column_codes(
    feature: Feature,
    values: NDArray[Any],
    fill: Any,
    why_not: str,
    problems: dict[int, str],
) -> tuple[FloatArray, NDArray[np.int8] | int]:
    """The codes of one column, and how a cell is missing that counts as the fill.

    What cannot be used is a problem of its row: an unknown category, what is infinite, what is
    missing where nothing is filled in.
    """
    if isinstance(feature, Categorical):
        codes, expected = _positions(feature, values), "one of its categories"
        bad, fill = codes < 0, None if fill is None else feature.categories.index(fill)
    else:
        codes, expected = values, "a finite number"
        bad = ~np.isfinite(codes)
    if not bad.any():
        return codes, PRESENT
    missing = np.zeros(len(values), dtype=np.int8)
    at = np.flatnonzero(bad)
    missing[at] = [_kind(value) for value in values[at].tolist()]
    codes = np.where(bad, 0.0 if fill is None else fill, codes)
    for i in (at if fill is None else at[missing[at] == PRESENT]).tolist():
        if missing[i]:
            text = f"is missing{why_not and f', and {why_not}'}; expected {expected}. Fill it in."
        elif isinstance(feature, Categorical):
            (value,) = values[i : i + 1].tolist()
            text = (
                f"holds the unknown category {value!r}; known: {some(feature.categories)}. "
                "Describe it with Categorical to add one."
            )
        else:
            text = "is infinite. Replace it by a finite number."
        problems.setdefault(i, f"column {feature.name!r} {text}")
    return codes, PRESENT if fill is None else missing


def _as_numbers(
    name: Hashable, values: NDArray[Any], problems: dict[int, str], foreign: str = ""
) -> FloatArray:
    """(n,) numbers; NaN for what is missing, and for what is none, which is a problem of its row.

    In a ``foreign`` dtype nothing is a number.
    """
    if values.dtype.kind in "biuf":
        return values.astype(np.float64, copy=False)
    import pandas as pd

    out, values = np.full(len(values), np.nan), values.astype(object)
    for i in np.flatnonzero(~pd.isna(values)).tolist():
        number = None if foreign else _number(values[i])
        if number is None:
            text = f"column {name!r} holds {values[i]!r}{foreign}; expected a number."
            problems.setdefault(i, text)
        else:
            out[i] = number
    return out


def _number(value: Any) -> float | None:
    """Return a cell as a number; None for other things, and for text that Python alone reads so.

    It does so with ``1_000`` and digits of other scripts; software that reads the answers does not.
    """
    if isinstance(value, str) and (not value.isascii() or "_" in value):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _positions(feature: Categorical, values: NDArray[Any]) -> FloatArray:
    """The positions of categories; -1 for what is none."""
    position = {category: code for code, category in enumerate(feature.categories)}
    cells = values.tolist()
    try:
        codes = [position.get(cell, -1) for cell in cells]
    except TypeError:  # what has no hash is no category
        codes = [position.get(cell, -1) if is_comparable(cell) else -1 for cell in cells]
    return np.array(codes, dtype=np.float64)


def _kind(value: object) -> int:
    """How a cell is missing; PRESENT if it is not."""
    if not is_missing(value):
        return PRESENT
    if value is None:
        return NONE
    return NAN if isinstance(value, float | np.floating) else OTHER
