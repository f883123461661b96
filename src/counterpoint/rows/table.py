"""Read and write data frames of any library, and arrays, as one `Table`.

A column into which cells are written keeps the dtype that came in, if that can hold them.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import fields_only
from counterpoint.errors import InvalidInput
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.rows.cells import (
    as_ints,
    emptied,
    fitting_dtype,
    for_pandas,
    for_typed_frame,
    holds_ints,
    plain,
    plain_pandas,
    scattered,
)

Cells = tuple[IntArray, NDArray[Any]]
"""Positions within a column, and the values to write there."""


@final
@dataclass(frozen=True, eq=False)
class Table:
    """n rows of p named columns, backed by the frame or array that was passed."""

    native: Any  # a data frame of any library, or an ndarray of shape (n, p)
    names: tuple[Hashable, ...]  # of an array ``x0 … x{p-1}``, as scikit-learn names them
    labels: Any = None  # the columns of a pandas frame that was `renamed`, as they came

    @classmethod
    def read(cls, data: Any) -> Table:
        """Take a frame, a 2-D array, a list of rows, or one row (1-D array, Series, mapping)."""
        if isinstance(data, Table):
            return data
        table = cls(*_frame_or_array(data))
        if table.all_floats or table.is_array:
            return table
        if not table.is_pandas:
            return cls(plain(table.frame).to_native(), table.names)
        native = plain_pandas(table.native, table.dtypes)
        return table if native is table.native else cls(native, table.names)

    __getstate__ = fields_only

    @cached_property
    def is_array(self) -> bool:
        """Whether the table is backed by an ndarray."""
        return isinstance(self.native, np.ndarray)

    @cached_property
    def is_pandas(self) -> bool:
        """Whether the table is backed by a pandas data frame."""
        return _is_pandas(self.native)

    @cached_property
    def frame(self) -> Any:
        """The data frame, wrapped by narwhals."""
        return _wrapped(self.native)

    def __len__(self) -> int:
        return len(self.native)

    @cached_property
    def dtypes(self) -> list[Any]:
        """The dtypes of a frame's columns, as its library has them."""
        return list(self.native.dtypes if self.is_pandas else self.schema.values())

    @cached_property
    def schema(self) -> Mapping[Hashable, Any]:
        """Name → dtype of a frame's columns in narwhals' terms, which it reads all at once."""
        return dict(self.frame.schema)

    def column(self, name: Hashable) -> NDArray[Any]:
        """Return the values (n,) of one column: numbers in a numeric dtype, others as objects.

        Missing cells of a numeric column are NaN.
        """
        if self.is_array:
            return np.asarray(self.native[:, self._positions[name]])
        if self.is_pandas:
            values = self.native[name]
            if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf":
                return np.asarray(values.array)
        series = self.frame.get_column(name)
        if series.dtype.is_numeric():
            return np.asarray(series.to_numpy())
        return np.fromiter(series.to_list(), dtype=object, count=len(self))

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {name: j for j, name in enumerate(self.names)}

    def row(self, i: int, names: Sequence[Hashable]) -> dict[Hashable, Any]:
        """Return name → value of one row, in Python's own types."""
        matrix = self.native if self.is_array else self.float_matrix
        if matrix is not None:
            cells = matrix[i].tolist()
        elif self.is_pandas:  # a slice: a single row would become a series of one dtype
            cells = self.native.iloc[i : i + 1].to_numpy(dtype=object)[0].tolist()
        else:
            cells = self.take(slice(i, i + 1)).frame.rows()[0]
        row = dict(zip(self.names, cells, strict=True))
        return {n: v.item() if isinstance(v := row[n], np.generic) else v for n in names}

    def foreign(self, name: Hashable) -> str:
        """Return the end of a sentence on a cell of a dtype without numbers and text, else no text.

        In pandas and NumPy any dtype may hold numbers or text: scikit-learn reads them there.
        """
        if self.is_array or self.is_pandas:
            return ""
        dtype = self.schema[name]
        text = nw.String, nw.Categorical, nw.Enum
        fits = dtype.is_numeric() or dtype in (nw.Boolean, nw.Unknown, *text)
        return "" if fits else f" in dtype {type(dtype).__name__}"

    @cached_property
    def whole(self) -> frozenset[Hashable]:
        """The columns of integer dtypes, and those of objects that hold integers only."""
        if self.all_floats:
            return frozenset()

        def is_whole(name: Hashable) -> bool:
            if self.is_array:
                kind = self.native.dtype.kind
                is_integer, is_object = kind in "iu", kind == "O"
            else:
                dtype = self.schema[name]
                is_integer, is_object = dtype.is_integer(), dtype == nw.Object
            return is_integer or (is_object and holds_ints(self.column(name)))

        return frozenset(filter(is_whole, self.names))

    def levels(self, name: Hashable) -> tuple[Hashable, ...] | None:
        """Return the declared levels of a categorical dtype, in order; None for other dtypes."""
        if self.is_array or self.schema[name] not in (nw.Categorical, nw.Enum):
            return None
        return tuple(self.frame.get_column(name).cat.get_categories().to_list())

    def is_ordered(self, name: Hashable) -> bool:
        """Return whether a categorical column declares that the order of its levels matters."""
        native = self.frame.get_column(name).to_native()
        arrow = nw.dependencies.is_pyarrow_chunked_array(native)
        dtype = native.type if arrow else native.dtype
        return bool(self.schema[name] == nw.Enum or getattr(dtype, "ordered", False))

    def select(self, names: Sequence[Hashable]) -> Table:
        """Return the columns with these names, in this order."""
        if tuple(names) == self.names:
            return self
        if self.is_array:
            native = self.native[:, [self._positions[name] for name in names]]
        elif self.is_pandas:
            native = self.native[list(names)]
        else:
            native = self.frame.select(*names).to_native()
        return Table(native, tuple(names))

    def take(self, rows: slice | IntArray) -> Table:
        """Return these rows, in this order."""
        if self.is_array:
            native = self.native[rows]
        elif self.is_pandas:
            native = self.native.iloc[rows]
        else:  # narwhals takes NumPy's whole numbers for names
            positions = slice(*rows.indices(len(self))) if isinstance(rows, slice) else rows
            native = self.frame[positions].to_native()
        return Table(native, self.names, self.labels)

    @cached_property
    def float_dtype(self) -> np.dtype[Any] | None:
        """The dtype of all columns, if they have the same one: float64, float32 or float16."""
        if self.is_array:
            dtypes = {self.native.dtype}
        elif self.is_pandas:
            dtypes = set(self.dtypes)
        else:
            floats = {nw.Float64: np.dtype(np.float64), nw.Float32: np.dtype(np.float32)}
            dtypes = {floats.get(dtype) for dtype in self.dtypes}
        if len(dtypes) > 1:
            return None
        (dtype,) = dtypes
        is_float = isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize <= 8
        return dtype if is_float else None

    @property
    def all_floats(self) -> bool:
        """Whether every dtype is float64."""
        return self.float_dtype == np.float64

    @cached_property
    def singles(self) -> dict[int, float]:
        """Position → ``eps``, the distance from 1 to the next number, of columns below float64."""
        if self.all_floats:
            return {}
        eps = {name: float(np.finfo(name).eps) for name in ("float16", "float32")}
        dtype = self.native.dtype if self.is_array else self.float_dtype
        if dtype is not None:
            names = [dtype.name] * len(self.names)
        else:  # each dtype is turned into text once: frames have many columns and few dtypes
            texts = {dtype: str(dtype).lower() for dtype in set(self.dtypes)}
            names = [texts[dtype] for dtype in self.dtypes]
        return {j: eps[name] for j, name in enumerate(names) if name in eps}

    @cached_property
    def eps(self) -> float:
        """The distance from 1 to the next number in the column of the lowest precision."""
        return max(self.singles.values(), default=EPS)

    @cached_property
    def float_matrix(self) -> FloatArray | None:
        """All cells (n, p) in float64, not copied if they are; None without a `float_dtype`."""
        if self.float_dtype is None:
            return None
        block = self.native if self.is_array or self.is_pandas else self.frame
        return np.asarray(block if self.is_array else block.to_numpy()).astype(
            np.float64, copy=False
        )

    def to_model_input(self, following: Table | None = None, *, named: bool) -> Any:
        """Return the argument of ``model.predict``: a frame if fitted on names, else an array.

        It holds the rows of the ``following`` table, too; None if no one frame can hold both in
        their dtypes.
        """
        if following is not None:
            both = self._followed_by(following)
            return None if both is None else both.to_model_input(named=named)
        if named == (not self.is_array):
            return self.native
        if not named:
            return self.frame.to_numpy()
        import pandas as pd

        return pd.DataFrame(self.native, columns=list(self.names))

    def renamed(self, names: Sequence[Hashable]) -> Table:
        """Return the same array or pandas frame with other column names, by position."""
        if self.is_array:
            return Table(self.native, tuple(names))
        native = self.native.set_axis(list(names), axis=1)
        return Table(native, tuple(names), self.native.columns)

    def as_it_came(self, answers: Table) -> Any:
        """Return the native frame of answers to this table, under the names that it came with."""
        if self.labels is None:
            return answers.native
        return answers.native.set_axis(self.labels, axis=1)

    @cached_property
    def has_nan(self) -> bool:
        """Whether some cell of the `float_matrix` is NaN."""
        if self.float_dtype is None:
            return False
        block: Any = self.native if self.is_array else self.float_matrix  # an array without a cast
        return bool(np.isnan(block).any())

    def with_matrix(self, rows: IntArray | slice | None, matrix: FloatArray) -> Table:
        """Return these rows with all cells replaced, for a table with a `float_dtype`.

        ``rows`` are needed for their labels in the index of a pandas frame; without them the labels
        count from 0.
        """
        native, matrix = self.native, matrix.astype(self.float_dtype, copy=False)
        if self.is_array:
            new: Any = matrix
        elif self.is_pandas:
            index = None if rows is None else native.index[rows]
            new = type(native)(matrix, index=index, columns=native.columns, copy=False)
        else:
            new = self._new_frame({str(name): matrix[:, j] for j, name in enumerate(self.names)})
        return Table(new, self.names)

    def _followed_by(self, other: Table) -> Table | None:
        """Return the rows of both; None unless one frame can hold them in their dtypes."""
        if self.is_array:
            same = other.is_array and self.native.dtype == other.native.dtype
            return Table(np.concatenate([self.native, other.native]), self.names) if same else None
        if not (self.is_pandas and other.is_pandas and self.dtypes == other.dtypes):
            return None
        import pandas as pd

        return Table(pd.concat([self.native, other.native], ignore_index=True), self.names)

    def with_cells(self, rows: IntArray | slice, cells: Mapping[Hashable, Cells]) -> Table:
        """Return these rows with some cells of some columns replaced, in the dtypes that came in.

        A column of whole numbers that receives a fraction, or a number that its dtype cannot hold,
        becomes float64 or int64. One of booleans that receives a number other than 0 and 1 becomes
        float64. A categorical one keeps its levels and adds the new values to them.
        """
        if self.is_array:
            array = self.native[rows]
            dtypes = [fitting_dtype(array.dtype, values) for _, values in cells.values()]
            out = array.astype(np.result_type(array.dtype, *dtypes) if dtypes else array.dtype)
            for name, (positions, values) in cells.items():
                j = self._positions[name]
                ints = array.dtype.kind == "O" and holds_ints(array[:, j])
                out[positions, j] = as_ints(values.tolist()) if ints else values
            return Table(out, self.names)
        taken = self.take(rows)
        changed = [scattered(taken.frame.get_column(name), *cells[name]) for name in cells]
        if not self.is_pandas:
            return Table(taken.frame.with_columns(*changed).to_native(), self.names)
        # pandas' own way: with_columns would put all columns together anew, which took a sixth of
        # the time of a row of German credit.
        frame = taken.native.copy(deep=False)
        for name, column in zip(cells, changed, strict=True):
            frame[name] = column.to_native()
        return Table(frame, self.names)

    def emptied(self, names: Sequence[Hashable], mask: BoolArray) -> Table:
        """Return the table with missing cells in the columns ``names`` of the rows in a mask, (n,).

        In an array, whose columns are all the model's, these rows lose all their cells, whatever
        the ``names``. The cells become NaN, in float64 for whole numbers and booleans, or None for
        text and objects.
        """
        if not mask.any():
            return self
        if self.is_array:
            dtype = self.native.dtype
            if dtype.kind != "f":  # no other dtype that a table takes has a missing value
                dtype = np.dtype(np.float64 if dtype.kind in "biu" else object)
            out = self.native.astype(dtype)
            out[mask] = None if dtype.kind == "O" else np.nan
            return Table(out, self.names)
        columns = [emptied(self.frame.get_column(name), mask) for name in names]
        return Table(self.frame.with_columns(*columns).to_native(), self.names)

    def sibling(self, columns: Mapping[str, Any], rows: IntArray | slice | None) -> Any:
        """Return a new frame in the library of this one, or pandas for an array.

        It has the index of these rows, if they have one. A pair of codes and words is a column of
        these words, in pandas a categorical one.
        """
        if not self.is_array and not self.is_pandas:
            return self._new_frame({n: for_typed_frame(v) for n, v in columns.items()})
        import pandas as pd

        index = None if self.is_array or rows is None else self.native.index[rows]
        return pd.DataFrame({n: for_pandas(v) for n, v in columns.items()}, index=index)

    def beside(self, columns: Mapping[str, Any], rows: IntArray, answers: Table) -> Any:
        """Return the frame of `sibling` with answers to its right, under the names that came.

        A column that has the name of one of the answers' gets underscores at its end.
        """

        def unused(name: str) -> str:
            return unused(f"{name}_") if name in answers.names else name

        left = self.sibling({unused(name): values for name, values in columns.items()}, rows)
        if not self.is_array and not self.is_pandas:
            return nw.concat([_wrapped(left), answers.frame], how="horizontal").to_native()
        import pandas as pd

        labels = list(answers.names) if self.labels is None else self.labels
        right = pd.DataFrame(answers.native).set_axis(labels, axis=1).set_axis(left.index)
        return pd.concat([left, right], axis=1)

    def _new_frame(self, columns: dict[str, Any]) -> Any:
        """Return a native frame in the library of this one."""
        return nw.from_dict(columns, backend=nw.get_native_namespace(self.frame)).to_native()

    def labels_of(self, rows: IntArray) -> Any:
        """Return the labels of rows in the index of a pandas frame, else their positions."""
        return self.native.index[rows] if self.is_pandas else rows


def repeated(tables: tuple[Table, Table], rows: IntArray) -> tuple[Table, Table]:
    """Return rows of a table and of its model's columns, each as often as ``rows`` names it."""
    table, inputs = tables
    rows_of_inputs = inputs.take(rows)
    return rows_of_inputs if table is inputs else table.take(rows), rows_of_inputs


# Reading


def _frame_or_array(data: Any) -> tuple[Any, tuple[Hashable, ...]]:
    """Return a frame or an ndarray of shape (n, p), and its column names."""
    if isinstance(data, np.ndarray):
        array = _unmasked(data) if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
        return _named(array.astype(object) if array.dtype.kind in "US" else array)
    is_list = isinstance(data, list | tuple) and len(data) > 0
    if isinstance(data, Mapping) or (is_list and all(isinstance(row, Mapping) for row in data)):
        data = _of_mappings(data)
    elif is_list:
        return _named(_stacked(data))
    elif _is_pandas(data, "Series"):  # a row, of dtype object if its columns differ
        data = data.to_frame().T.infer_objects()
    names = tuple(data.columns.tolist() if _is_pandas(data) else _wrapped(data).columns)
    if len(set(names)) < len(names):
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        raise InvalidInput(
            f"Expected distinct column names; got {', '.join(twice)} more than once. Rename them."
        )
    if not names:
        raise InvalidInput("Expected a frame with at least one column; got none.")
    return data, names


def _is_pandas(data: Any, kind: str = "DataFrame") -> bool:
    """Return whether data are a frame (or a series) of pandas, without importing it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, getattr(pandas, kind))


def _wrapped(data: Any) -> Any:
    """Return a frame wrapped by narwhals; refuse other things with the advice that fits them."""
    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        from scipy import sparse

        advice = "Pass rows as a frame with named columns."
        if sparse.issparse(data):
            advice = "Answers to sparse rows are dense: pass rows.toarray(), a part at a time."
        elif nw.dependencies.is_polars_lazyframe(data):
            advice = "Call collect() on it first."
        raise InvalidInput(
            "Expected a data frame (pandas, polars, Arrow), a 2-D array or one row; "
            f"got {type(data).__name__}. {advice}"
        ) from None


def _named(array: NDArray[Any]) -> tuple[NDArray[Any], tuple[Hashable, ...]]:
    """Return an array of rows, and the names that scikit-learn gives its columns."""
    if array.dtype.names is not None:
        raise InvalidInput(
            "Expected an array of numbers or objects; got a structured one with the fields "
            f"{', '.join(array.dtype.names)}. Pass pd.DataFrame(rows)."
        )
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInput(f"Expected an array of shape (rows, features); got shape {array.shape}.")
    return array, _names_of_columns(array.shape[1])


@lru_cache(maxsize=8)
def _names_of_columns(count: int) -> tuple[str, ...]:
    """Return x0, x1, …; making 100 000 of them takes longer than an answer."""
    return tuple(f"x{j}" for j in range(count))


def _unmasked(array: Any) -> NDArray[Any]:
    """Return a masked array as a plain one, whose masked cells are NaN or None."""
    if not np.ma.is_masked(array):
        return np.asarray(array.data)
    if array.dtype.kind in "biuf":
        return np.asarray(array.astype(np.result_type(array.dtype, np.float16)).filled(np.nan))
    return np.asarray(array.astype(object).filled(None))


def _stacked(rows: Sequence[Any]) -> NDArray[Any]:
    """Return a list of cells or of rows as an array; of objects if some are text."""
    try:
        array = np.asarray(rows)
    except ValueError:
        raise InvalidInput(
            "Expected rows of the same length; got lists of different lengths."
        ) from None
    return np.asarray(rows, dtype=object) if array.dtype.kind in "US" else array


def _of_mappings(data: Any) -> Any:
    """Return a pandas frame of one row or a list of rows, name → value, or columns, name → values.

    Which of these a single mapping is, its values tell: it holds columns if all are lists.
    """
    import pandas as pd

    holds_columns = isinstance(data, Mapping) and all(
        isinstance(values, list | np.ndarray) or nw.dependencies.is_into_series(values)
        for values in data.values()
    )
    if not holds_columns:
        rows = [data] if isinstance(data, Mapping) else data
        names = dict.fromkeys(name for row in rows for name in row)
        data = {name: [row.get(name) for row in rows] for name in names}
    try:
        return pd.DataFrame(dict(data))
    except ValueError as error:
        raise InvalidInput(f"Expected columns of the same length; pandas says: {error}.") from None
