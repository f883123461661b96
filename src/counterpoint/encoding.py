"""From raw rows to codes and back, each cell in the dtype that came in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.features import Categorical, Features, is_missing, unknown_name
from counterpoint.frames import Cells, Table

__all__ = ["Encoded", "decode", "encode", "match_columns", "recode"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Encoded:
    """Codes of raw rows, and a sentence for each row that cannot be used.

    Parameters
    ----------
    codes
        (n, p); a row with a problem holds arbitrary finite codes.
    problems
        Row position → what is wrong with it.
    """

    codes: FloatArray
    problems: dict[int, str]


def match_columns(table: Table, features: Features) -> Table:
    """The table's columns that are features, in the features' order.

    Columns are matched by name; an array's, by position.

    Raises
    ------
    InvalidInput
        If columns are missing.
    """
    if table.is_array:
        if len(table.names) != len(features):
            raise InvalidInput(
                f"Expected {len(features)} columns ({_some(features.names)}); "
                f"got an array with {len(table.names)}."
            )
        return table.renamed(features.names)
    missing = [name for name in features.names if name not in table.names]
    if missing:
        hint = unknown_name(missing[0], table.names).split("; ", 1)[1]
        raise InvalidInput(
            f"Expected the columns that the model uses; missing: {_some(missing)} "
            f"(for {missing[0]!r}: {hint})."
        )
    return table.select(features.names)


def encode(table: Table, features: Features) -> Encoded:
    """Codes of the rows of a table whose columns are the features, in order."""
    matrix = table.float_matrix if features.all_numeric else None
    problems: dict[int, str] = {}
    if matrix is not None:
        if not np.isfinite(matrix.sum(dtype=np.float64)) and not np.isfinite(matrix).all():
            matrix = matrix.copy()
            for j, name in enumerate(features.names):
                matrix[:, j] = _finite(name, matrix[:, j], problems)
        return Encoded(matrix, problems)
    codes = np.empty((len(table), len(features)))
    for j, feature in enumerate(features):
        values = table.column(feature.name)
        if isinstance(feature, Categorical):
            codes[:, j] = _category_codes(feature, values, problems)
        else:
            codes[:, j] = _finite(
                feature.name, _as_numbers(feature.name, values, problems), problems
            )
    return Encoded(codes, problems)


def decode(
    table: Table,
    features: Features,
    rows: slice | NDArray[np.intp],
    before: FloatArray,
    after: FloatArray,
) -> Table:
    """These rows of the table, with the cells whose codes differ replaced.

    Parameters
    ----------
    table
        The rows as they came in; it may hold more columns than the features.
    rows
        Which of its rows.
    before, after
        (len(rows), p) codes of those rows, as they came and as they shall be.
    """
    if features.all_numeric and table.float_matrix is not None and table.names == features.names:
        return table.with_matrix(rows, after)
    cells: dict[Hashable, Cells] = {}
    for j, feature in enumerate(features):
        positions = np.flatnonzero(before[:, j] != after[:, j])
        values: NDArray[Any] = after[positions, j]
        if isinstance(feature, Categorical):
            values = np.empty(len(positions), dtype=object)
            values[:] = [feature.categories[int(code)] for code in after[positions, j]]
        cells[feature.name] = positions, values
    return table.with_cells(rows, cells)


def recode(returned: Table, features: Features, codes: FloatArray) -> FloatArray:
    """(n, p) the codes of rows as they were returned: numbers after the cast to their dtypes."""
    if returned.float_matrix is not None:
        return codes
    codes = np.array(codes)
    for j, feature in enumerate(features):
        if not isinstance(feature, Categorical):
            codes[:, j] = returned.column(feature.name).astype(np.float64)
    return codes


def _as_numbers(name: Hashable, values: NDArray[Any], problems: dict[int, str]) -> FloatArray:
    if values.dtype.kind in "biuf":
        return values.astype(np.float64, copy=False)
    out = np.full(len(values), np.nan)
    for i, value in enumerate(values.tolist()):
        if is_missing(value):
            continue
        try:
            out[i] = float(value)
        except (TypeError, ValueError):
            problems.setdefault(i, f"column {name!r} holds {value!r}; expected a number.")
    return out


def _finite(name: Hashable, values: FloatArray, problems: dict[int, str]) -> FloatArray:
    bad = ~np.isfinite(values)
    if not bad.any():
        return values
    for i in np.flatnonzero(bad).tolist():
        what = "is missing" if np.isnan(values[i]) else "is infinite"
        problems.setdefault(i, f"column {name!r} {what}; expected a finite number. Fill it in.")
    return np.where(bad, 0.0, values)


def _category_codes(
    feature: Categorical, values: NDArray[Any], problems: dict[int, str]
) -> FloatArray:
    """Positions in ``feature.categories``; an unknown category is a problem of its row."""
    position = {category: code for code, category in enumerate(feature.categories)}
    if values.dtype.kind in "biuf":
        distinct, inverse = np.unique(values, return_inverse=True)
        codes = np.array([position.get(value, -1) for value in distinct.tolist()], dtype=float)
        codes = codes[inverse]
    else:
        listed = values.tolist()
        codes = np.array([_lookup(position, value) for value in listed], dtype=np.float64)
    for i in np.flatnonzero(codes < 0).tolist():
        problems.setdefault(i, _unknown_category(feature, values[i]))
    return np.maximum(codes, 0.0)


def _lookup(position: dict[Hashable, int], value: Any) -> int:
    try:
        return position.get(value, -1)
    except TypeError:
        return -1


def _unknown_category(feature: Categorical, value: object) -> str:
    if is_missing(value):
        return f"column {feature.name!r} is missing; expected one of its categories. Fill it in."
    return (
        f"column {feature.name!r} holds the unknown category {value!r}; "
        f"known: {_some(feature.categories)}. Describe it with Categorical to add one."
    )


def _some(values: Any, most: int = 8) -> str:
    values = list(values)
    shown = ", ".join(repr(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"
