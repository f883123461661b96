"""One block of rows: Arrow record batch in, record batch out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from counterpoint import (
    Categorical,
    Counterfactuals,
    Explainer,
    Integer,
    InvalidInput,
)
from counterpoint.errors import some

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = [
    "answered",
    "block_rows",
    "explain_batch",
    "no_rows",
    "on_spark",
    "regrouped",
]


def explain_batch(
    explainer: Explainer,
    batch: pa.RecordBatch,
    target: Any,
    *,
    gap: float = 1e-6,
    time_limit: float | None = None,
    optimality: Literal["local", "global"] = "local",
) -> pa.RecordBatch:
    """The answers to a record batch, as a record batch with one row for each that came.

    The schema of the answers depends on that of the rows alone: an empty batch tells it.

    Parameters
    ----------
    explainer
        What explains.
    batch
        n rows, with the model's columns by name. In a column of text where numbers are expected,
        each cell is read as a number, and where it is none, its row is invalid.
    target, gap, time_limit, optimality
        As for `Explainer.explain`.

    Returns
    -------
    pyarrow.RecordBatch
        All columns that came, those of the model with their values in the answer (null in a row
        without one), and the report of `Counterfactuals.report`, each of its columns with ``cf_``
        before its name. A column of whole numbers that may take others comes in float64.

    Raises
    ------
    InvalidInput
        If columns are missing, or there is one already that the report needs.
    """
    options = {"gap": gap, "time_limit": time_limit, "optimality": optimality}
    return answered(explainer, batch, target, options)[0]


def on_spark(
    frame: Any,
    explainer: Explainer,
    target: Any,
    *,
    gap: float = 1e-6,
    time_limit: float | None = None,
    optimality: Literal["local", "global"] = "local",
) -> Any:
    """The answers to a data frame of Spark, as a data frame of Spark, by its ``mapInArrow``.

    Nothing is computed before Spark is asked for the rows. The workers need counterpoint, and are
    best given ``spark.sql.execution.arrow.maxRecordsPerBatch`` of 50 000 or more.

    Parameters
    ----------
    frame
        A ``pyspark.sql.DataFrame``.
    explainer, target, gap, time_limit, optimality
        As for `explain_batch`.

    Returns
    -------
    pyspark.sql.DataFrame
        As `explain_batch` says.
    """
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    options = {"gap": gap, "time_limit": time_limit, "optimality": optimality}
    schema = to_arrow_schema(frame.schema)
    most = block_rows(schema)

    def answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            for batch in batches:
                for block in regrouped([batch], most):
                    yield answered(explainer, block, target, options)[0]

    told = answered(explainer, no_rows(schema), target, options)[0].schema
    return frame.mapInArrow(answers, from_arrow_schema(told))


def answered(
    explainer: Explainer, batch: pa.RecordBatch, target: Any, options: Mapping[str, Any]
) -> tuple[pa.RecordBatch, Counterfactuals]:
    """The answers to a batch, as a batch and as they were given."""
    import pyarrow as pa

    features = {str(feature.name): feature for feature in explainer.features}
    lost = [name for name in features if name not in batch.schema.names]
    if lost:
        raise InvalidInput(f"The rows have no column {some(lost)}, which the model needs.")
    came = {name: _plain(batch.column(name)) for name in features}
    found = explainer.explain(_frame(came, features), target, progress=False, **options)
    after, report = found.to_frame(), found.report()
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, feature in features.items():
        columns[name] = _array(after[feature.name], _type(feature, came[name].type))
    for name, values in report.items():
        if f"cf_{name}" in columns:
            raise InvalidInput(f"The rows already have a column 'cf_{name}'; rename it.")
        text = pa.string() if values.dtype == "category" else None
        columns[f"cf_{name}"] = _array(values, text)
    return pa.RecordBatch.from_pydict(columns), found


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows: its answers tell the schema of all."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=schema)


def block_rows(schema: pa.Schema) -> int:
    """So many rows have some two million cells, and take some hundred MB to be explained."""
    return max(1, 2**21 // max(1, len(schema)))


def regrouped(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of batches in batches of so many, the last of what is left."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    for batch in batches:
        rest = batch
        while len(rest):
            held.append(rest.slice(0, rows - sum(map(len, held))))
            rest = rest.slice(len(held[-1]))
            if sum(map(len, held)) == rows:
                yield pa.concat_batches(held)
                held = []
    if held:
        yield pa.concat_batches(held)


# Cells


def _plain(values: pa.Array) -> pa.Array:
    """A column without dictionaries and decimals."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    return values.cast(pa.float64()) if pa.types.is_decimal(values.type) else values


def _frame(came: Mapping[str, pa.Array], features: Mapping[str, Any]) -> pd.DataFrame:
    """The model's columns as a pandas frame; text is read as the numbers that it says."""
    import pyarrow as pa

    texts = {name for name in came if _is_text(came[name].type) and not _has_words(features[name])}
    rest = {name: values for name, values in came.items() if name not in texts}
    size = len(next(iter(came.values())))
    frame = pa.RecordBatch.from_pydict(rest or {"": pa.nulls(size)}).to_pandas()
    for name in texts:
        frame[name] = _read(came[name], features[name])
    return frame[[*features]].set_axis([f.name for f in features.values()], axis="columns")


def _read(values: pa.Array, feature: Any) -> pd.Series[Any]:
    """What text says: numbers or categories; a cell that says none stays text."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(values)
    if isinstance(feature, Categorical) and any(isinstance(c, bool) for c in feature.categories):
        known = {str(category): category for category in feature.categories}
        cells = [known.get(cell, cell) for cell in trimmed.to_pylist()]
        return pd.Series(cells, dtype=object)
    try:
        return trimmed.cast(pa.float64()).to_pandas()
    except pa.ArrowInvalid:
        texts = pd.Series(trimmed.to_pylist(), dtype=object)
        numbers = pd.Series(pd.to_numeric(texts, errors="coerce"))
        return numbers.astype(object).where(numbers.notna() | texts.isna(), texts)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _has_words(feature: Any) -> bool:
    """Whether its categories are text."""
    is_kind = isinstance(feature, Categorical)
    return is_kind and all(isinstance(category, str) for category in feature.categories)


def _type(feature: Any, came: pa.DataType) -> pa.DataType:
    """The type of a column of answers, whatever they are."""
    import pyarrow as pa

    if isinstance(feature, Categorical):
        is_read = _is_text(came) and not _has_words(feature)
        return pa.array(list(feature.categories)).type if is_read else came
    is_whole = isinstance(feature, Integer) and float(feature.step).is_integer()
    return came if pa.types.is_floating(came) or (is_whole and not _is_text(came)) else pa.float64()


def _array(values: pd.Series[Any], kind: pa.DataType | None) -> pa.Array:
    """A column of a pandas frame, in this type; missing cells are null."""
    import pyarrow as pa

    array = pa.array(values, from_pandas=True)
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array if kind is None else array.cast(kind)
