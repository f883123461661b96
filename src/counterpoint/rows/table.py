"""A rectangular block of named columns, whichever library it comes from."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import fields_only
from counterpoint.errors import InvalidInput
from counterpoint.numerics import EPS
from counterpoint.rows.values import (
    Cells,
    as_they_are,
    emptied_array,
    emptied_series,
    holds_ints,
    one_kind,
    scatter_array,
    scatter_series,
)

__all__ = ["Table", "repeated"]

NARROW = ("float16", "float32")


@final
@dataclass(frozen=True, eq=False)
class Table:
    """A rectangular block of named columns, backed by the frame that was passed.

    Parameters
    ----------
    native
        A data frame of any library, or an ndarray of shape (n, p).
    names
        The column names; for an array ``x0 … x{p-1}``, as scikit-learn names them.
    known_floats
        Whether every dtype is float64, if that is known already.
    labels
        The columns of the pandas frame that came, if it goes by other names here.
    """

    native: Any
    names: tuple[Hashable, ...]
    known_floats: bool | None = None
    labels: Any = None

    @classmethod
    def read(cls, data: Any) -> Table:
        """Take a frame, a 2-D array, a list of rows, or one row (1-D array, Series, mapping).

        Raises
        ------
        InvalidInput
            If it is none of these, has no columns, or two columns share a name.
        """
        if isinstance(data, Table):
            return data
        table = cls(*_frame_or_array(data))
        return table if table.all_floats or not table.is_pandas else table._dense()

    __getstate__ = fields_only

    def _dense(self) -> Table:
        """The same pandas frame with its sparse columns dense: cells can be written into them."""
        import pandas as pd

        dtypes = self.native.dtypes.items()
        held = {n: dtype.subtype for n, dtype in dtypes if isinstance(dtype, pd.SparseDtype)}
        return Table(self.native.astype(held), self.names) if held else self

    @cached_property
    def is_array(self) -> bool:
        """Whether the table is backed by an ndarray."""
        return isinstance(self.native, np.ndarray)

    @cached_property
    def is_pandas(self) -> bool:
        """Whether the table is backed by a pandas data frame."""
        import narwhals.stable.v2 as nw

        return bool(nw.dependencies.is_pandas_dataframe(self.native))

    @cached_property
    def frame(self) -> Any:
        """The data frame in narwhals' clothes."""
        return _wrapped(self.native)

    def __len__(self) -> int:
        return len(self.native)

    def column(self, name: Hashable) -> NDArray[Any]:
        """The values of one column; floats are float64 with NaN for what is missing."""
        if self.is_array:
            return np.asarray(self.native[:, self.names.index(name)])
        if self.is_pandas:
            values = self.native[name]
            if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf":
                return np.asarray(values)
        series = self.frame.get_column(name)
        if series.dtype.is_numeric():
            return np.asarray(series.to_numpy())
        return np.asarray(series.to_list(), dtype=object)

    def dtype(self, name: Hashable) -> Any:
        """The dtype of a column: NumPy's for an array, narwhals' for a frame."""
        return self.native.dtype if self.is_array else self.frame.schema[name]

    @cached_property
    def whole(self) -> frozenset[Hashable]:
        """The columns whose dtypes hold whole numbers, and those of objects that hold no others."""
        if self.is_array and self.native.dtype.kind != "O":
            return frozenset(self.names if self.native.dtype.kind in "iu" else ())
        return frozenset(filter(self._is_whole, self.names))

    def _is_whole(self, name: Hashable) -> bool:
        import narwhals.stable.v2 as nw

        if self.is_array or self.dtype(name) == nw.Object:
            return holds_ints(self.column(name).tolist())
        return bool(self.dtype(name).is_integer())

    def levels(self, name: Hashable) -> tuple[Hashable, ...] | None:
        """The declared levels of a categorical dtype, in their order; None for other dtypes."""
        import narwhals.stable.v2 as nw

        if self.is_array or self.dtype(name) not in (nw.Categorical, nw.Enum):
            return None
        return tuple(self.frame.get_column(name).cat.get_categories().to_list())

    def is_ordered(self, name: Hashable) -> bool:
        """Whether a categorical column declares that its levels are in order."""
        import narwhals.stable.v2 as nw

        if self.levels(name) is None:
            return False
        series = self.frame.get_column(name)
        native = series.to_native()
        arrow = nw.dependencies.is_pyarrow_chunked_array(native)
        dtype = native.type if arrow else native.dtype
        return bool(series.dtype == nw.Enum or getattr(dtype, "ordered", False))

    def select(self, names: Sequence[Hashable]) -> Table:
        """The columns with these names, in this order."""
        if tuple(names) == self.names:
            return self
        if self.is_array:
            return Table(self.native[:, [self.names.index(name) for name in names]], tuple(names))
        if self.is_pandas:
            return Table(self.native[list(names)], tuple(names))
        return Table(self.frame.select(*names).to_native(), tuple(names))

    def take(self, rows: slice | NDArray[np.intp]) -> Table:
        """These rows, in this order."""
        if self.is_array:
            return Table(self.native[rows], self.names, self.all_floats)
        if self.is_pandas:
            return Table(self.native.iloc[rows], self.names, self.all_floats)
        return Table(self.frame[rows].to_native(), self.names, self.all_floats)

    @cached_property
    def all_floats(self) -> bool:
        """Whether every dtype is float64."""
        if self.known_floats is not None:
            return self.known_floats
        if self.is_array:
            return bool(self.native.dtype == np.float64)
        if self.is_pandas:
            return set(self.native.dtypes) == {np.dtype(np.float64)}
        import narwhals.stable.v2 as nw

        return all(dtype == nw.Float64 for dtype in self.frame.schema.values())

    @cached_property
    def singles(self) -> tuple[int, ...]:
        """The positions of columns in float32 or narrower."""
        if self.all_floats:
            return ()
        if self.is_array:
            narrow = self.native.dtype.kind == "f" and self.native.dtype.itemsize < 8
            return tuple(range(len(self.names))) if narrow else ()
        dtypes = self.native.dtypes if self.is_pandas else self.frame.schema.values()
        return tuple(j for j, dtype in enumerate(dtypes) if str(dtype).lower() in NARROW)

    @cached_property
    def eps(self) -> float:
        """The distance from 1 to the next number in the narrowest of its dtypes."""
        if not self.singles:
            return EPS
        kinds = {str(self.dtype(self.names[j])).lower() for j in self.singles}
        return max(float(np.finfo(kind).eps) for kind in kinds)

    @cached_property
    def float_matrix(self) -> NDArray[np.float64] | None:
        """The whole block as (n, p) float64, without a copy if possible; None for other dtypes."""
        if not self.all_floats:
            return None
        if self.is_array or self.is_pandas:
            return np.asarray(self.native)
        return np.asarray(self.frame.to_numpy())

    def to_model_input(self, *others: Table, named: bool) -> Any:
        """What ``model.predict`` takes: a frame if the model was fitted on names, else an array.

        With another table, the rows of both; None unless one frame can hold them as they are.
        """
        if others:
            both = self._followed_by(*others)
            return None if both is None else both.to_model_input(named=named)
        if named == (not self.is_array):
            return self.native
        if not named:
            return self.frame.to_numpy()
        import pandas as pd

        return pd.DataFrame(self.native, columns=list(self.names))

    def renamed(self, names: Sequence[Hashable]) -> Table:
        """The same array or pandas frame under other names (positions decide)."""
        if self.is_array:
            return Table(self.native, tuple(names))
        native = self.native.set_axis(list(names), axis=1)
        return Table(native, tuple(names), self.known_floats, self.native.columns)

    def as_it_came(self, answers: Table) -> Any:
        """The native frame of rows of this table, under the names that this one came with."""
        if self.labels is None:
            return answers.native
        return answers.native.set_axis(self.labels, axis=1)

    def with_matrix(self, rows: NDArray[np.intp] | slice, matrix: NDArray[np.float64]) -> Table:
        """These rows with all cells replaced by ``matrix`` (only where every dtype is float64)."""
        if self.is_array:
            return Table(matrix, self.names, known_floats=True)
        native = self.native
        if self.is_pandas:
            frame = type(native)(
                matrix, index=native.index[rows], columns=native.columns, copy=False
            )
            return Table(frame, self.names, known_floats=True)
        import narwhals.stable.v2 as nw

        columns = {str(name): matrix[:, j] for j, name in enumerate(self.names)}
        backend = nw.get_native_namespace(self.frame)
        return Table(
            nw.from_dict(columns, backend=backend).to_native(), self.names, known_floats=True
        )

    def _followed_by(self, other: Table) -> Table | None:
        """The rows of both; None unless one frame can hold them in the dtypes that they have."""
        if self.is_array:
            same = other.is_array and self.native.dtype == other.native.dtype
            return Table(np.concatenate([self.native, other.native]), self.names) if same else None
        if not self.is_pandas or not other.is_pandas:
            return None
        if self.all_floats and other.all_floats:
            both = np.concatenate([np.asarray(self.native), np.asarray(other.native)])
            frame = type(self.native)(both, columns=self.native.columns, copy=False)
            return Table(frame, self.names, known_floats=True)
        if list(self.native.dtypes) != list(other.native.dtypes):
            return None
        import pandas as pd

        return Table(pd.concat([self.native, other.native]), self.names)

    def with_cells(self, rows: NDArray[np.intp] | slice, cells: Mapping[Hashable, Cells]) -> Table:
        """These rows with some cells replaced, column by column, in the dtypes that came in.

        A column of whole numbers that receives a fraction, or a number that its dtype cannot hold,
        becomes float64 or int64; one of booleans that receives something else, float64; one of
        categories keeps its levels, and what it receives becomes one of them.
        """
        if self.is_array:
            return Table(scatter_array(self.native[rows], self.names, cells), self.names)
        frame = self.take(rows).frame
        changed = [
            scatter_series(frame.get_column(name), positions, values)
            for name, (positions, values) in cells.items()
            if len(positions)
        ]
        return Table((frame.with_columns(*changed) if changed else frame).to_native(), self.names)

    def emptied(self, names: Sequence[Hashable], rows: NDArray[np.bool_]) -> Table:
        """The same with the cells of some columns missing in (n,) some rows."""
        if not rows.any():
            return self
        if self.is_array:
            return Table(emptied_array(self.native, rows), self.names)
        columns = [emptied_series(self.frame.get_column(name), rows) for name in names]
        return Table(self.frame.with_columns(*columns).to_native(), self.names)

    def sibling(self, columns: Mapping[str, Any], rows: NDArray[np.intp] | None) -> Any:
        """Another frame in the same library (pandas for an array), with the index of these rows."""
        import narwhals.stable.v2 as nw

        if not self.is_array and not self.is_pandas:
            backend = nw.get_native_namespace(self.frame)
            alike = {name: one_kind(values) for name, values in columns.items()}
            return nw.from_dict(alike, backend=backend).to_native()
        import pandas as pd

        held = {name: as_they_are(values) for name, values in columns.items()}
        if self.is_array or rows is None:
            return pd.DataFrame(held)
        return pd.DataFrame(held, index=self.native.index[rows])

    def labels_of(self, rows: NDArray[np.intp]) -> Any:
        """What rows are called: their labels in the index of a pandas frame, else positions."""
        return self.native.index[rows] if self.is_pandas else rows


def repeated(tables: tuple[Table, Table], rows: NDArray[np.intp]) -> tuple[Table, Table]:
    """These rows, each as often as it is named."""
    came, inputs = tables
    some = inputs.take(rows)
    return some if came is inputs else came.take(rows), some


def _frame_or_array(data: Any) -> tuple[Any, tuple[Hashable, ...]]:
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


def _wrapped(data: Any) -> Any:
    """A frame in narwhals' clothes."""
    import narwhals.stable.v2 as nw

    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        raise InvalidInput(
            "Expected a data frame (pandas, polars, Arrow), a 2-D array or one row; "
            f"got {type(data).__name__}. {_instead(data)}"
        ) from None


def _columns(data: Any) -> tuple[Hashable, ...]:
    import narwhals.stable.v2 as nw

    if nw.dependencies.is_pandas_dataframe(data):
        return tuple(data.columns)
    return tuple(_wrapped(data).columns)


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


def _named(array: NDArray[Any]) -> tuple[NDArray[Any], tuple[Hashable, ...]]:
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
