"""What may be passed as rows, made a frame of its own library or an array."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput

__all__ = ["frame_or_array", "wrapped"]

Names = tuple[Hashable, ...]


def frame_or_array(data: Any) -> tuple[Any, Names]:
    """A frame or an ndarray of shape (n, p), and its column names.

    Raises
    ------
    InvalidInput
        If the data are neither, nor rows of which one can be made.
    """
    if isinstance(data, np.ndarray):
        return _named(_unmasked(data) if isinstance(data, np.ma.MaskedArray) else np.asarray(data))
    import narwhals.stable.v2 as nw

    if isinstance(data, list | tuple) and data:
        if not all(isinstance(row, Mapping) for row in data):
            return _named(_stacked(data))
        data = _of_mappings(data)
    elif isinstance(data, Mapping):
        data = _of_columns(data) if _holds_columns(data) else _of_mappings([data])
    elif nw.dependencies.is_pandas_series(data):
        data = _of_series(data)
    names = _columns(data)
    if len(set(names)) < len(names):
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        raise InvalidInput(
            f"Expected distinct column names; got {', '.join(twice)} more than once. Rename them."
        )
    if not names:
        raise InvalidInput("Expected a frame with at least one column; got none.")
    return data, names


def wrapped(data: Any) -> Any:
    """A frame in narwhals' clothes."""
    import narwhals.stable.v2 as nw

    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        raise InvalidInput(
            "Expected a data frame (pandas, polars, Arrow), a 2-D array or one row; "
            f"got {type(data).__name__}. {_instead(data)}"
        ) from None


def _columns(data: Any) -> Names:
    import narwhals.stable.v2 as nw

    if nw.dependencies.is_pandas_dataframe(data):
        return tuple(data.columns)
    return tuple(wrapped(data).columns)


def _instead(data: Any) -> str:
    """What to pass for something that is neither a frame nor an array."""
    import narwhals.stable.v2 as nw
    from scipy import sparse

    if sparse.issparse(data):
        return (
            "Answers to sparse rows are dense: use Explainer.explain_factored, which keeps them as "
            "a few coefficients each, or pass rows.toarray()."
        )
    if nw.dependencies.is_polars_lazyframe(data):
        return "Call collect() on it first."
    return "Pass rows as a frame with named columns."


def _named(array: NDArray[Any]) -> tuple[NDArray[Any], Names]:
    """An array of rows, and the names that scikit-learn gives its columns."""
    if array.dtype.names is not None:
        raise InvalidInput(
            "Expected an array of numbers or objects; got a structured one with the fields "
            f"{', '.join(array.dtype.names)}. Pass pd.DataFrame(rows)."
        )
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInput(f"Expected an array of shape (rows, features); got shape {array.shape}.")
    return array, tuple(f"x{j}" for j in range(array.shape[1]))


def _unmasked(array: Any) -> NDArray[Any]:
    """A masked array with its masked cells missing."""
    if not np.ma.is_masked(array):
        return np.asarray(array.data)
    if array.dtype.kind in "biuf":
        return np.asarray(array.astype(np.result_type(array.dtype, np.float16)).filled(np.nan))
    return np.asarray(array.astype(object).filled(None))


def _stacked(rows: Sequence[Any]) -> NDArray[Any]:
    """One row, or rows, as lists; each cell as it is where some are text."""
    try:
        array = np.asarray(rows)
    except ValueError:
        raise InvalidInput(
            "Expected rows of the same length; got lists of different lengths."
        ) from None
    return np.asarray(rows, dtype=object) if array.dtype.kind in "US" else array


def _of_mappings(rows: Sequence[Mapping[Any, Any]]) -> Any:
    """Rows as name → value."""
    import pandas as pd

    names = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame({name: [row.get(name) for row in rows] for name in names})


def _holds_columns(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping is name → values of many rows."""
    import narwhals.stable.v2 as nw

    return bool(data) and all(
        isinstance(values, list | np.ndarray) or nw.dependencies.is_into_series(values)
        for values in data.values()
    )


def _of_columns(columns: Mapping[Any, Any]) -> Any:
    import pandas as pd

    try:
        return pd.DataFrame(dict(columns))
    except ValueError as error:
        raise InvalidInput(f"Expected columns of the same length; pandas says: {error}.") from None


def _of_series(series: Any) -> Any:
    """One pandas row: ``frame.iloc[i]`` has dtype object when columns differ; restore each."""
    return series.to_frame().T.infer_objects()
