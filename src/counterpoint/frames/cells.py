"""Values written into some cells of a column, in the dtype that came in if that can hold them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cells", "scatter_array", "scatter_series"]

Cells = tuple[NDArray[np.intp], NDArray[Any]]
"""Positions within a column, and the values to write there."""


def scatter_array(
    array: NDArray[Any], names: tuple[Hashable, ...], cells: Mapping[Hashable, Cells]
) -> NDArray[Any]:
    """A copy of an array with some cells replaced, in a dtype that holds all of them."""
    needed = [_fitting_dtype(array.dtype, values) for _, values in cells.values()]
    out = array.astype(np.result_type(array.dtype, *needed) if needed else array.dtype)
    for name, (positions, values) in cells.items():
        out[positions, names.index(name)] = values
    return out


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


def _wide_enough(series: Any, values: list[Any]) -> tuple[Any, list[Any]]:
    """A column of categories, booleans or text in a dtype that holds these values too, and they."""
    import narwhals.stable.v2 as nw

    if series.dtype == nw.Boolean:
        if set(values) <= {False, True}:
            return series, [bool(value) for value in values]
        return series.cast(nw.Float64), values
    if series.dtype in (nw.Categorical, nw.Enum):
        known = set(series.cat.get_categories().to_list())
        if known.issuperset(values):
            return series, values
        numbers = all(isinstance(value, int | float) for value in (*known, *values))
        series = series.cast(nw.Float64 if numbers else nw.String)
    if series.dtype == nw.String:
        return series, [value if isinstance(value, str) else str(value) for value in values]
    return series, values
