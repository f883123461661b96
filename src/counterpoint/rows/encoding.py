"""Turn raw rows into codes and back, each cell in the dtype that came in.

A missing cell has the code of the value that it counts as (the *fill* of its column), and stays
missing as long as its code does not change.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
"""Whether a cell is missing, and how: it holds a value, NaN, None, or another missing value."""


@final
@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows of a call, read once: their codes, and the problems of those that cannot be used.

    A batch is some of the rows of a table: `take` selects rows and keeps the whole table.
    """

    table: Table  # the model's columns of these rows and perhaps of others, as they came
    features: Features
    codes: FloatArray  # (n, p); a row with a problem has arbitrary finite codes
    missing: NDArray[np.int8]  # (n, p) how a cell that counts as its fill is missing, else PRESENT
    index: IntArray  # (n,) positions in the call
    at: IntArray  # (n,) positions in the table
    problems: dict[int, str]  # position in the call → why the row cannot be used
    weight: FloatArray | None = None  # (n,) weights of the cost against the terms of a trade-off
    held: BoolArray | None = None  # (n, p) the features that answers must not change

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def x(self) -> FloatArray:
        """The encoded rows, (n, d)."""
        return self.codes if self.features.all_numeric else self.features.expand(self.codes)

    def take(self, rows: IntArray) -> RowBatch:
        """Return some of the rows, by strictly increasing positions, with the whole table."""
        if len(rows) == len(self.index):  # all of them, as each comes once
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
        if "x" in vars(self) and not self.features.all_numeric:  # encoded already
            vars(batch)["x"] = self.x[positions]
        return batch

    def apart(self) -> RowBatch:
        """Return the same rows with a table that holds no others."""
        if len(self.index) == len(self.table.native):
            return self
        positions = np.arange(len(self.index))
        return replace(self, at=positions, table=self.table.take(as_slice(self.at)))


def match_columns(table: Table, features: Features, *, named: bool = True) -> Table:
    """Return the columns of a table that are features, in the order of the features.

    Columns of an array are matched by position, others by name. So are those of a frame whose names
    are no text, such as ``pd.DataFrame(array)``, if the model was not fitted on names (``named`` is
    false) and the features have other names.
    """
    names = features.names
    if table.is_array:
        if len(table.names) != len(names):
            raise InvalidInput(
                f"Expected {len(names)} columns ({some(names)}); "
                f"got an array with {len(table.names)}."
            )
        return table.renamed(names)
    if table.names == names:
        return table
    if not named and len(table.names) == len(names):
        has_text = any(isinstance(name, str) for name in table.names)
        if not has_text and set(table.names) != set(names):
            return table.renamed(names)
    _check_present(names, table.names)
    return table.select(names)


def _check_present(expected: Sequence[Hashable], names: Sequence[Hashable]) -> None:
    """Refuse a table without one of the expected columns; name others that may be meant."""
    present_names, expected_names = set(names), set(expected)
    missing = [name for name in expected if name not in present_names]
    if not missing:
        return
    others = [name for name in names if name not in expected_names]
    hint = f" Other columns that are known: {some(others, 12)}." if others else ""
    for name in missing:
        if near := near_names(name, others):
            hint = f" For {name!r}, did you mean {near}?"
            break
    raise InvalidInput(f"Expected the columns that the model uses; missing: {some(missing)}.{hint}")


def encode(
    table: Table,
    features: Features,
    fills: Fills = NO_FILLS,
    unfilled: Mapping[Hashable, str] = NO_FILLS,
) -> RowBatch:
    """Read the rows of a table whose columns are the features, in order.

    ``fills`` holds by name the value that a missing cell counts as. In a column without one, a
    missing cell is a problem of its row, and ``unfilled`` may hold the reason, as the end of a
    sentence.
    """
    problems: dict[int, str] = {}
    positions = np.arange(len(table.native))
    matrix = table.float_matrix if features.all_numeric else None
    # A finite sum proves all cells finite, without an array of flags.
    if matrix is not None and (np.isfinite(matrix.sum()) or np.isfinite(matrix).all()):
        missing = np.broadcast_to(np.int8(PRESENT), matrix.shape)
        return RowBatch(table, features, matrix, missing, positions, positions, problems)
    codes = np.empty((len(table), len(features))) if matrix is None else np.array(matrix)
    missing = np.zeros(codes.shape, dtype=np.int8)
    # Columns of the matrix are read already, unless a cell of theirs is missing or infinite.
    is_read = np.zeros(len(features), bool) if matrix is None else np.isfinite(matrix).all(axis=0)
    for j in np.flatnonzero(~is_read).tolist():
        feature, name = features.items[j], features.names[j]
        values = table.column(name)
        if not isinstance(feature, Categorical):
            values = _as_numbers(name, values, problems, table.foreign(name))
        fill, why_not = fills.get(name), unfilled.get(name, "")
        codes[:, j], missing[:, j] = _column_codes(feature, values, fill, why_not, problems)
    return RowBatch(table, features, codes, missing, positions, positions, problems)


def present(table: Table, features: Features) -> FloatArray:
    """Return the codes (m, p) of the rows without a problem."""
    encoded = encode(table, features)
    return np.delete(encoded.codes, list(encoded.problems), axis=0)


def numbers(table: Table, name: Hashable) -> FloatArray:
    """Return the finite numbers (m,) of one column of a table."""
    values = _as_numbers(name, table.column(name), {}, table.foreign(name))
    return values[np.isfinite(values)]


def decode(
    table: Table,
    features: Features,
    rows: slice | IntArray,
    before: FloatArray,
    after: FloatArray,
    *,
    none_missing: bool = False,
) -> Table:
    """Return some rows of a table with the cells replaced whose codes (n, p) differ.

    The table is as it came in, and may have more columns than the features. ``none_missing`` says
    that no cell is missing, so that none is looked for.
    """
    matrix = _matrix(table, features, rows, before, after, none_missing=none_missing)
    if matrix is not None:
        return table.with_matrix(rows, matrix)
    cells: dict[Hashable, Cells] = {}
    changed = before != after
    for j in np.flatnonzero(changed.any(axis=0)).tolist():
        feature, positions = features.items[j], np.flatnonzero(changed[:, j])
        values: NDArray[Any] = after[positions, j]
        if isinstance(feature, Categorical):
            categories = np.fromiter(feature.categories, dtype=object)
            values = categories[values.astype(np.intp)]
        cells[feature.name] = positions, values
    return table.with_cells(rows, cells)


def cells_after(
    table: Table, features: Features, i: int, before: FloatArray, after: FloatArray
) -> dict[Hashable, Any]:
    """Return name → value of the cells of row i whose codes (1, p) differ, as `decode` has them."""
    row, moved = slice(i, i + 1), np.flatnonzero(before[0] != after[0]).tolist()
    names = [features.names[j] for j in moved]
    if not names:
        return {}
    matrix = _matrix(table, features, row, before, after, none_missing=False)
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
    none_missing: bool,
) -> FloatArray | None:
    """Return the matrix of `decode` for a table of one dtype of floats; None for others."""
    # Columns of an array are matched by position: comparing 100 000 names would take long.
    names = table.names
    match = len(names) == len(features) if table.is_array else names == features.names
    if not (match and features.all_numeric) or table.float_matrix is None:
        return None
    matrix = after
    if table.has_nan and not none_missing:
        matrix_before = table.float_matrix[rows]
        stays_missing = np.isnan(matrix_before) & (before == after)
        if stays_missing.any() and not (table.is_array or table.is_pandas):
            return None  # other libraries distinguish null and NaN, which a matrix does not
        # Before the cast: the code of a cell that stays missing may be too large for the dtype.
        matrix = np.where(stays_missing, matrix_before, after)
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
    """Return the rows of `decode`, their codes (n, p) as returned, and these encoded (n, d).

    The codes differ from ``after`` where a dtype rounds a number. With ``followed``, all rows of
    the table as they came follow in the same table, or in a second one.
    """
    matrix = _matrix(table, features, rows, before, after, none_missing=False)
    if matrix is not None and table.float_matrix is not None:  # a table of one dtype of floats
        codes = after
        if not table.all_floats:
            codes = matrix.astype(np.float64)
            # a cell that stays missing keeps its code
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
    """Return the codes (n, p) of returned rows: the numbers after the cast to their dtypes.

    A cell that is still missing keeps its code, and so does a column without a changed cell.
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
    """Return the codes (n,) of one column, and how the cells are missing that count as the fill.

    A cell that cannot be used is added to the problems of its row: an unknown category, an infinite
    number, or a missing cell without a fill.
    """
    if isinstance(feature, Categorical):
        codes, expected = _positions(feature, values), "one of its categories"
        has_code = codes >= 0
        fill = None if fill is None else feature.categories.index(fill)
    else:
        codes, expected = values, "a finite number"
        has_code = np.isfinite(codes)
    if has_code.all():
        return codes, PRESENT
    missing = np.zeros(len(values), dtype=np.int8)
    uncoded = np.flatnonzero(~has_code)
    missing[uncoded] = [_how_missing(value) for value in values[uncoded].tolist()]
    codes = np.where(has_code, codes, 0.0 if fill is None else fill)
    unusable = uncoded if fill is None else uncoded[missing[uncoded] == PRESENT]
    for i in unusable.tolist():
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
    """Return a column as floats (n,), NaN where a cell is missing or no number.

    The latter is added to the problems of its row. ``foreign`` ends the sentence on a dtype that
    holds no numbers, so that none of its cells is one.
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
    """Return a cell as a number; None if it is none.

    Text such as ``1_000``, or with digits of other scripts, is none: Python reads it as a number,
    but other software that reads the answers does not.
    """
    if isinstance(value, str) and (not value.isascii() or "_" in value):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _positions(feature: Categorical, values: NDArray[Any]) -> FloatArray:
    """Return the positions (n,) of cells among the categories; −1 for a cell that is none."""
    position = {category: code for code, category in enumerate(feature.categories)}
    cells = values.tolist()
    try:
        codes = [position.get(cell, -1) for cell in cells]
    except TypeError:  # some cell has no hash: it is no category
        codes = [position.get(cell, -1) if is_comparable(cell) else -1 for cell in cells]
    return np.array(codes, dtype=np.float64)


def _how_missing(value: object) -> int:
    """Return how a cell is missing, or PRESENT."""
    if not is_missing(value):
        return PRESENT
    if value is None:
        return NONE
    return NAN if isinstance(value, float | np.floating) else OTHER
