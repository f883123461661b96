"""What columns can hold: cells written into them, or taken out, in the dtypes that came in."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray


def plain_pandas(frame: Any, dtypes: list[Any]) -> Any:
    """A pandas frame without sparse columns, into which nothing can be written, and decimals."""
    import pandas as pd

    casts: dict[Hashable, Any] = {}
    for name, dtype in zip(frame.columns, dtypes, strict=True):
        if isinstance(dtype, pd.SparseDtype):
            casts[name] = dtype.subtype
        elif isinstance(dtype, pd.ArrowDtype) and str(dtype).startswith("decimal"):
            casts[name] = np.float64
    return frame.astype(casts) if casts else frame


def plain(frame: Any) -> Any:
    """A narwhals frame without decimals, and integers that NumPy does not have."""
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
    """Whether a cell is missing: None, NaN, or pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def holds_ints(values: NDArray[Any]) -> bool:
    """Whether Python's whole numbers are all that a column of objects holds, if not missing."""
    kinds = {type(value) for value in values.tolist() if not is_missing(value)}
    return bool(kinds) and all(issubclass(k, int | np.integer) and k is not bool for k in kinds)


def as_ints(values: list[Any]) -> list[Any]:
    """Floats without a fraction as ints; others as they are."""
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]


def fitting_dtype(dtype: np.dtype[Any], values: NDArray[Any]) -> np.dtype[Any]:
    """An array's dtype, or one that holds these values too."""
    if dtype.kind == "O":
        return dtype
    values = np.asarray(values.tolist())
    if values.dtype.kind not in "biuf":
        return np.dtype(object)
    if dtype.kind == "b":
        return dtype if np.isin(values, (0, 1)).all() else np.dtype(np.float64)
    return _whole_dtype(dtype, values) if dtype.kind in "iu" else dtype


def _whole_dtype(dtype: np.dtype[Any], values: NDArray[Any]) -> np.dtype[Any]:
    """The dtype of whole numbers, or a wider one that holds these values."""
    if not np.any(values % 1 != 0):
        for wide in (dtype, np.dtype(np.int64)):
            info = np.iinfo(wide)
            if values.min() >= info.min and values.max() <= info.max:
                return wide
    return np.dtype(np.float64)


def scattered(series: Any, positions: NDArray[np.intp], values: NDArray[Any]) -> Any:
    """A narwhals series with some cells replaced, in a dtype that holds all of them."""
    backend = nw.get_native_namespace(series)
    series, cells = _wide_enough(series, values)
    if series.dtype.is_numeric():
        new = nw.new_series(series.name, cells, dtype=series.dtype, backend=backend)
        return series.scatter(positions, new)
    if not nw.dependencies.is_pyarrow_chunked_array(series.to_native()):
        return series.scatter(positions, cells)
    listed = series.to_list()  # narwhals writes into some types of Arrow's text only
    for position, cell in zip(positions.tolist(), cells, strict=True):
        listed[position] = cell
    column = backend.chunked_array([backend.array(listed, type=series.to_native().type)])
    return nw.from_native(column, series_only=True).alias(series.name)


def _wide_enough(series: Any, values: NDArray[Any]) -> tuple[Any, Any]:
    """A column in a dtype that holds these values too, and the values for it."""
    dtype = series.dtype
    if dtype.is_numeric() and values.dtype == object:
        values = np.asarray(values.tolist())
    if dtype.is_integer():
        held_dtype = np.dtype(str(dtype).lower())
        needed = _whole_dtype(held_dtype, values)
        wide = nw.Float64 if needed.kind == "f" else nw.Int64
        return series if needed == held_dtype else series.cast(wide), values.astype(needed)
    if dtype == nw.Boolean and not np.isin(values, (0, 1)).all():
        return series.cast(nw.Float64), values.astype(np.float64)
    if dtype in (nw.Categorical, nw.Enum):
        return _with_levels(series, values.tolist())
    if dtype in (nw.Boolean, nw.String):
        return series, list(map(bool if dtype == nw.Boolean else str, values.tolist()))
    ints = dtype == nw.Object and holds_ints(np.fromiter(series.to_list(), dtype=object))
    return series, as_ints(values.tolist()) if ints else values


def _with_levels(series: Any, values: list[Any]) -> tuple[Any, list[Any]]:
    """A column of categories, with those of these values as levels that are none yet, at the end.

    Beside text, a number is text.

    Arrow makes its dictionaries anew from what a column holds, and polars the levels of all but an
    ``Enum``.
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
    """Return a narwhals series whose cells are missing where a mask of the rows, (n,), is true.

    pandas' whole numbers and booleans of NumPy become the nullable ones of the same size (``Int64``
    for ``int64``, ``boolean`` for ``bool``); every other dtype stays.
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


def as_they_are(values: Any) -> Any:
    """A list for a pandas column, such that no whole number in it becomes a float."""
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
    """A dtype of pandas, which takes longer to make than a column of a few rows."""
    import pandas as pd

    return pd.CategoricalDtype(list(words))


def one_kind(values: Any) -> Any:
    """Values of one type only: numbers as floats, else as text; and words."""
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
