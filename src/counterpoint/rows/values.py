"""Values written into some cells of a column, in the dtype that came in if that can hold them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Cells",
    "as_they_are",
    "emptied_array",
    "emptied_series",
    "holds_ints",
    "is_missing",
    "one_kind",
    "scatter_array",
    "scatter_series",
]

Cells = tuple[NDArray[np.intp], NDArray[Any]]
"""Positions within a column, and the values to write there."""


def scatter_array(
    array: NDArray[Any], names: tuple[Hashable, ...], cells: Mapping[Hashable, Cells]
) -> NDArray[Any]:
    """A copy of an array with some cells replaced, in a dtype that holds all of them."""
    needed = [_fitting_dtype(array.dtype, values) for _, values in cells.values()]
    out = array.astype(np.result_type(array.dtype, *needed) if needed else array.dtype)
    for name, (positions, values) in cells.items():
        j = names.index(name)
        held = array.dtype.kind == "O" and holds_ints(array[:, j].tolist())
        out[positions, j] = _as_ints(values.tolist()) if held else values
    return out


def holds_ints(values: list[Any]) -> bool:
    """Whether Python's whole numbers are all that a column of objects holds, if not missing."""
    found = False
    for value in values:
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            found = True
        elif not is_missing(value):
            return False
    return found


def is_missing(value: object) -> bool:
    """Whether a cell is missing: None, NaN, or pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _as_ints(values: list[Any]) -> list[Any]:
    """Floats without a fraction as ints; others as they are."""
    whole = [isinstance(value, float) and value.is_integer() for value in values]
    return [int(value) if w else value for value, w in zip(values, whole, strict=True)]


def _fitting_dtype(dtype: np.dtype[Any], values: NDArray[Any]) -> np.dtype[Any]:
    if dtype.kind == "O" or len(values) == 0:
        return dtype
    values = np.asarray(values.tolist())
    if dtype.kind in "US":
        return np.result_type(dtype, values.dtype)
    if values.dtype.kind not in "biuf":
        return np.dtype(object)
    if dtype.kind == "b":
        return dtype if np.isin(values, (0, 1)).all() else np.dtype(np.float64)
    return _whole_dtype(dtype, values) if dtype.kind in "iu" else dtype


def _whole_dtype(dtype: np.dtype[Any], values: NDArray[Any]) -> np.dtype[Any]:
    """The dtype of whole numbers, or a wider one that holds these values."""
    if np.any(values % 1 != 0):
        return np.dtype(np.float64)
    for wide in (dtype, np.dtype(np.int64)):
        info = np.iinfo(wide)
        if values.min() >= info.min and values.max() <= info.max:
            return wide
    return np.dtype(np.float64)


def emptied_array(array: NDArray[Any], rows: NDArray[np.bool_]) -> NDArray[Any]:
    """A copy of an (n, p) array with NaN in some rows; None in one of text or objects.

    Whole numbers and booleans become float64, which can be missing.
    """
    if array.dtype.kind in "biuf":
        out = array.astype(array.dtype if array.dtype.kind == "f" else np.float64)
        out[rows] = np.nan
        return out
    out = array.astype(object)
    out[rows] = None
    return out


def _nullable(dtype: np.dtype[Any]) -> Any:
    """pandas' dtype for the same whole numbers or booleans where some may be missing."""
    if dtype.kind == "b":
        return "boolean"
    return dtype.name.replace("uint", "UInt").replace("int", "Int")


def emptied_series(series: Any, rows: NDArray[np.bool_]) -> Any:
    """A narwhals series with some cells missing.

    pandas' whole numbers and booleans of NumPy become the nullable ones of the same size (``Int64``
    for ``int64``, ``boolean`` for ``bool``); every other dtype stays.
    """
    import narwhals.stable.v2 as nw

    native = series.to_native()
    if nw.dependencies.is_pyarrow_chunked_array(native):
        kept = np.where(rows, -1, np.arange(len(rows)))
        pyarrow = nw.get_native_namespace(series)
        native = native.take(pyarrow.array(kept, mask=rows))
    elif nw.dependencies.is_pandas_series(native):
        if isinstance(native.dtype, np.dtype) and native.dtype.kind in "biu":
            native = native.astype(_nullable(native.dtype))
        native = native.mask(rows)
    else:
        present = nw.new_series("", (~rows).tolist(), backend=nw.get_native_namespace(series))
        return series.to_frame().select(nw.when(present).then(nw.col(series.name)))[series.name]
    return nw.from_native(native, series_only=True).alias(series.name)


def scatter_series(series: Any, positions: NDArray[np.intp], values: NDArray[Any]) -> Any:
    """A narwhals series with some cells replaced, in a dtype that holds all of them."""
    import narwhals.stable.v2 as nw

    if not series.dtype.is_numeric():
        series, listed = _wide_enough(series, values.tolist())
        if nw.dependencies.is_pyarrow_chunked_array(series.to_native()):
            return _scatter_arrow(series, positions, listed)
        return series.scatter(positions.tolist(), listed)
    if series.dtype.is_integer():
        numbers = np.asarray(values.tolist())
        needed = _whole_dtype(np.dtype(str(series.dtype).lower()), numbers)
        if needed != np.dtype(str(series.dtype).lower()):
            series = series.cast(nw.Float64 if needed.kind == "f" else nw.Int64)
    listed = [int(v) for v in values] if series.dtype.is_integer() else values.tolist()
    backend = nw.get_native_namespace(series)
    new = nw.new_series(series.name, listed, dtype=series.dtype, backend=backend)
    return series.scatter(positions.tolist(), new)


def _scatter_arrow(series: Any, positions: NDArray[np.intp], values: list[Any]) -> Any:
    """The same for an Arrow column, of which narwhals takes some types of text only."""
    import narwhals.stable.v2 as nw

    native, pyarrow = series.to_native(), nw.get_native_namespace(series)
    listed = native.to_pylist()
    for position, value in zip(positions.tolist(), values, strict=True):
        listed[position] = value
    column = pyarrow.chunked_array([pyarrow.array(listed, type=native.type)])
    return nw.from_native(column, series_only=True).alias(series.name)


def _with_levels(series: Any, values: list[Any]) -> Any:
    """A column of categories, with those of these values as levels that are none yet, at the end.

    Arrow makes its dictionaries anew from what a column holds, and polars the levels of all but an
    ``Enum``.
    """
    import narwhals.stable.v2 as nw

    native, levels = series.to_native(), series.cat.get_categories().to_list()
    new = [value for value in dict.fromkeys(values) if value not in set(levels)]
    if not new:
        return series
    if nw.dependencies.is_pandas_like_series(native):
        return nw.from_native(native.cat.add_categories(new), series_only=True)
    return series.cast(nw.Enum([*levels, *new])) if series.dtype == nw.Enum else series


def _wide_enough(series: Any, values: list[Any]) -> tuple[Any, list[Any]]:
    """A column of no numbers in a dtype that holds these values too, and the values for it."""
    import narwhals.stable.v2 as nw

    if series.dtype == nw.Boolean:
        if set(values) <= {False, True}:
            return series, [bool(value) for value in values]
        return series.cast(nw.Float64), values
    if series.dtype in (nw.Categorical, nw.Enum):
        return _with_levels(series, values), values
    if series.dtype == nw.String:
        return series, [value if isinstance(value, str) else str(value) for value in values]
    if series.dtype == nw.Object and holds_ints(series.to_list()):
        return series, _as_ints(values)
    return series, values


def as_they_are(values: Any) -> Any:
    """A list for a pandas column, such that no whole number in it becomes a float."""
    kinds = {type(value) for value in values} if isinstance(values, list) else set()
    if len(kinds) < 2 or kinds == {float, type(None)}:
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def one_kind(values: Any) -> Any:
    """A list for a column that holds values of one type only: numbers as floats, else as text."""
    if not isinstance(values, list):
        return values
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) < 2:
        return values
    cast = float if kinds <= {int, float} else str
    return [None if value is None else cast(value) for value in values]
