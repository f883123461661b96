"""Write cells into columns or empty them, in the dtypes that came in or the next wider ones."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray


def plain_pandas(frame: Any, dtypes: list[Any]) -> Any:
    """Return a pandas frame with sparse columns made dense, and decimals made floats.

    Sparse columns cannot be written into.
    """
    import pandas as pd

    casts: dict[Hashable, Any] = {}
    for name, dtype in zip(frame.columns, dtypes, strict=True):
        if isinstance(dtype, pd.SparseDtype):
            casts[name] = dtype.subtype
        elif isinstance(dtype, pd.ArrowDtype) and str(dtype).startswith("decimal"):
            casts[name] = np.float64
    return frame.astype(casts) if casts else frame


def plain(frame: Any) -> Any:
    """Return a narwhals frame with decimals and 128-bit integers cast to types that NumPy has."""
    casts = []
    for name, dtype in frame.schema.items():
        if dtype in (nw.Int128, nw.UInt128):
            ends = frame[name].min() or 0, frame[name].max() or 0
            fits = ends[0] >= -(2**63) and ends[1] < 2**63
            casts.append(nw.col(name).cast(nw.Int64 if fits else nw.Float64))
        elif dtype.is_decimal():
            casts.append(nw.col(name).cast(nw.Float64))
    return frame.with_columns(*casts) if casts else frame


def is_missing(value: object) -> bool:
    """Return whether a cell is missing: None, NaN, or pandas' NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def holds_ints(values: NDArray[Any]) -> bool:
    """Return whether a column of objects has present cells, all of them whole numbers."""
    kinds = {type(value) for value in values.tolist() if not is_missing(value)}
    return bool(kinds) and all(issubclass(k, int | np.integer) and k is not bool for k in kinds)


def as_ints(values: list[Any]) -> list[Any]:
    """Return floats without a fraction as ints, and other values as they are."""
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]


def fitting_dtype(dtype: np.dtype[Any], values: NDArray[Any]) -> np.dtype[Any]:
    """Return an array's dtype, or a wider one if it cannot hold these values."""
    if dtype.kind == "O":
        return dtype
    values = np.asarray(values.tolist())
    if values.dtype.kind not in "biuf":
        return np.dtype(object)
    if dtype.kind == "b":
        return dtype if np.isin(values, (0, 1)).all() else np.dtype(np.float64)
    return _wider_dtype(dtype, values) if dtype.kind in "iu" else dtype


def _wider_dtype(dtype: np.dtype[Any], values: NDArray[Any]) -> np.dtype[Any]:
    """Return an integer dtype if it holds these values, else int64 if that does, else float64."""
    if not np.any(values % 1 != 0):
        for wide in (dtype, np.dtype(np.int64)):
            info = np.iinfo(wide)
            if values.min() >= info.min and values.max() <= info.max:
                return wide
    return np.dtype(np.float64)


def scattered(series: Any, positions: NDArray[np.intp], values: NDArray[Any]) -> Any:
    """Return a narwhals series with some cells replaced, in a dtype that holds all of them."""
    backend = nw.get_native_namespace(series)
    series, cells = _wide_enough(series, values)
    if series.dtype.is_numeric():
        new = nw.new_series(series.name, cells, dtype=series.dtype, backend=backend)
        return series.scatter(positions, new)
    if not nw.dependencies.is_pyarrow_chunked_array(series.to_native()):
        return series.scatter(positions, cells)
    listed = series.to_list()  # narwhals can write into some of Arrow's types of text only
    for position, cell in zip(positions.tolist(), cells, strict=True):
        listed[position] = cell
    column = backend.chunked_array([backend.array(listed, type=series.to_native().type)])
    return nw.from_native(column, series_only=True).alias(series.name)


def _wide_enough(series: Any, values: NDArray[Any]) -> tuple[Any, Any]:
    """Return a column in a dtype that holds these values too, and the values as it takes them."""
    dtype = series.dtype
    if dtype.is_numeric() and values.dtype == object:  # categories of a column of numbers
        values = np.asarray(values.tolist())
    if dtype.is_integer():
        numpy_dtype = np.dtype(str(dtype).lower())
        wide_dtype = _wider_dtype(numpy_dtype, values)
        if wide_dtype != numpy_dtype:
            series = series.cast(nw.Float64 if wide_dtype.kind == "f" else nw.Int64)
        return series, values.astype(wide_dtype)
    if dtype == nw.Boolean and not np.isin(values, (0, 1)).all():
        return series.cast(nw.Float64), values.astype(np.float64)
    if dtype in (nw.Categorical, nw.Enum):
        return _with_levels(series, values.tolist())
    if dtype in (nw.Boolean, nw.String):
        return series, list(map(bool if dtype == nw.Boolean else str, values.tolist()))
    if dtype == nw.Object and holds_ints(np.fromiter(series.to_list(), dtype=object)):
        return series, as_ints(values.tolist())
    return series, values


def _with_levels(series: Any, values: list[Any]) -> tuple[Any, list[Any]]:
    """Return a categorical column with these values among its levels, and the values for it.

    New levels go to the end; where the levels are text, the values become text. Arrow, and polars
    but for an ``Enum``, make levels themselves from the cells that are written.
    """
    native, levels = series.to_native(), series.cat.get_categories().to_list()
    if levels and all(isinstance(level, str) for level in levels):
        values = list(map(str, values))
    new = [value for value in dict.fromkeys(values) if value not in set(levels)]
    if new and nw.dependencies.is_pandas_like_series(native):
        series = nw.from_native(native.cat.add_categories(new), series_only=True)
    elif new and series.dtype == nw.Enum:
        series = series.cast(nw.Enum([*levels, *new]))
    return series, values


def emptied(series: Any, rows: NDArray[np.bool_]) -> Any:
    """Return a narwhals series whose cells are missing where the mask ``rows``, (n,), is true.

    In pandas, NumPy's dtypes of whole numbers and booleans become the nullable ones of the same
    size (``Int64`` for ``int64``, ``boolean`` for ``bool``); every other dtype stays.
    """
    native, backend = series.to_native(), nw.get_native_namespace(series)
    if nw.dependencies.is_pyarrow_chunked_array(native):
        native = native.take(backend.array(np.arange(len(rows)), mask=rows))
    elif nw.dependencies.is_pandas_series(native):
        dtype = native.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "biu":  # these have no missing value
            integer = dtype.name.replace("uint", "UInt").replace("int", "Int")
            nullable: Any = "boolean" if dtype.kind == "b" else integer
            native = native.astype(nullable)
        native = native.mask(rows)
    else:
        present = nw.new_series("", (~rows).tolist(), backend=backend)
        return series.to_frame().select(nw.when(present).then(nw.col(series.name)))[series.name]
    return nw.from_native(native, series_only=True).alias(series.name)


def for_pandas(values: Any) -> Any:
    """Return values for a column of a pandas frame; a list keeps its ints beside other values.

    A pair of codes and words becomes a categorical column.
    """
    if isinstance(values, tuple):
        import pandas as pd

        codes, words = values
        return pd.Categorical.from_codes(codes, dtype=_categories(tuple(words)), validate=False)
    kinds = {type(value) for value in values} if isinstance(values, list) else set()
    if len(kinds) < 2 or kinds == {float, type(None)}:
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


@lru_cache(maxsize=16)
def _categories(words: tuple[str, ...]) -> Any:
    """Return pandas' dtype of categories, whose making takes longer than a column of a few rows."""
    import pandas as pd

    return pd.CategoricalDtype(list(words))


def for_typed_frame(values: Any) -> Any:
    """Return values for a column of a typed frame: mixed numbers as floats, other mixtures as text.

    A pair of codes and words becomes a column of the words.
    """
    if isinstance(values, tuple):
        codes, words = values
        return np.array(words, dtype=object)[codes].tolist()
    if not isinstance(values, list):
        return values
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) < 2:
        return values
    cast = float if kinds <= {int, float} else str
    return [None if value is None else cast(value) for value in values]
