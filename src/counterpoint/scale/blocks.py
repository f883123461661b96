"""Answer one block of rows: an Arrow record batch in, a record batch out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from counterpoint import Categorical, Counterfactuals, Explainer, Integer, InvalidInput
from counterpoint.errors import some

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def explain_batch(
    explainer: Explainer,
    batch: pa.RecordBatch,
    target: Any,
    *,
    gap: float = 1e-6,
    time_limit: float | None = None,
    optimality: Literal["local", "global"] = "local",
) -> pa.RecordBatch:
    """Answer a record batch with a record batch, a row for each row.

    The schema of the answers depends on that of the rows alone: an empty batch tells it.

    Parameters
    ----------
    explainer
        The explainer of the model that decides on the rows.
    batch
        n rows, with the model's columns by name. In a column of text where numbers are expected,
        each cell is read as a number, and where it is none, its row is invalid.
    target, gap, time_limit, optimality
        As for `Explainer.explain`.

    Returns
    -------
    pyarrow.RecordBatch
        All columns of the batch, those of the model with their values in the answer (null in a row
        without one), and the report of `Counterfactuals.report`, each of its columns with ``cf_``
        before its name. A column of whole numbers that may take others comes in float64.
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
    """Answer a data frame of Spark with a data frame of Spark, by its ``mapInArrow``.

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
    size = block_rows(schema)

    def answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # the workers of Spark share the cores
            for batch in batches:
                for block in regrouped([batch], size):
                    yield answered(explainer, block, target, options)[0]

    answer_schema = answered(explainer, no_rows(schema), target, options)[0].schema
    return frame.mapInArrow(answers, from_arrow_schema(answer_schema))


def answered(
    explainer: Explainer, batch: pa.RecordBatch, target: Any, options: Mapping[str, Any]
) -> tuple[pa.RecordBatch, Counterfactuals]:
    """Return the answers to a batch, as a batch and as `Counterfactuals`.

    ``options`` are those of `Explainer.explain`; the batch is what `explain_batch` describes.
    """
    import pandas as pd
    import pyarrow as pa

    features = {str(feature.name): feature for feature in explainer.features}
    missing = [name for name in features if name not in batch.schema.names]
    if missing:
        raise InvalidInput(f"The rows have no column {some(missing)}, which the model needs.")
    cells = {name: _plain(batch.column(name)) for name in features}
    frame = pd.DataFrame({f.name: _cells(cells[name], f) for name, f in features.items()})
    answers = explainer.explain(frame, target, progress=False, **options)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    after = answers.to_frame()
    for name, feature in features.items():
        columns[name] = _array(after[feature.name], _answer_type(feature, cells[name].type))
    for name, values in answers.report().items():
        if f"cf_{name}" in columns:
            raise InvalidInput(f"The rows already have a column 'cf_{name}'; rename it.")
        text = pa.string() if values.dtype == "category" else None
        columns[f"cf_{name}"] = _array(values, text)
    return pa.RecordBatch.from_pydict(columns), answers


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows, whose answers have the schema of all answers."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=schema)


def block_rows(schema: pa.Schema) -> int:
    """Return the number of rows in a block: two million cells take some hundred MB to explain."""
    return max(1, 2**21 // max(1, len(schema)))


def regrouped(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in batches of ``rows`` rows, the last one smaller."""
    import pyarrow as pa

    pending: list[pa.RecordBatch] = []  # together fewer than ``rows`` rows
    for batch in batches:
        start = 0
        while start < len(batch):
            pending.append(batch.slice(start, rows - sum(map(len, pending))))
            start += len(pending[-1])
            if sum(map(len, pending)) == rows:
                yield pa.concat_batches(pending)
                pending = []
    if pending:
        yield pa.concat_batches(pending)


# Cells


def _plain(values: pa.Array) -> pa.Array:
    """Return a column without dictionaries and decimals."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    return values.cast(pa.float64()) if pa.types.is_decimal(values.type) else values


def _needs_parsing(raw: pa.DataType, feature: Any) -> bool:
    """Return whether a column holds text in the place of numbers, or of booleans."""
    import pyarrow as pa

    is_text = pa.types.is_string(raw) or pa.types.is_large_string(raw)
    takes_text = isinstance(feature, Categorical) and all(
        isinstance(category, str) for category in feature.categories
    )
    return is_text and not takes_text


def _cells(values: pa.Array, feature: Any) -> pd.Series[Any]:
    """Return a column as pandas has it, with text parsed where the feature has other values.

    Text that cannot be parsed stays as it is, and makes its row invalid.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _needs_parsing(values.type, feature):
        return values.to_pandas()
    trimmed = pc.utf8_trim_whitespace(values)
    if isinstance(feature, Categorical) and any(isinstance(c, bool) for c in feature.categories):
        by_text = {str(category): category for category in feature.categories}
        cells = [by_text.get(cell, cell) for cell in trimmed.to_pylist()]
        return pd.Series(cells, dtype=object)
    try:
        return trimmed.cast(pa.float64()).to_pandas()
    except pa.ArrowInvalid:  # some cell is no number
        texts = pd.Series(trimmed.to_pylist(), dtype=object)
        numbers = pd.Series(pd.to_numeric(texts, errors="coerce"))
        return numbers.astype(object).where(numbers.notna() | texts.isna(), texts)


def _answer_type(feature: Any, raw: pa.DataType) -> pa.DataType:
    """Return the type of a feature's column in the answers, from that in the rows alone."""
    import pyarrow as pa

    is_parsed = _needs_parsing(raw, feature)
    if isinstance(feature, Categorical):
        return pa.array(list(feature.categories)).type if is_parsed else raw
    is_whole = isinstance(feature, Integer) and float(feature.step).is_integer()
    holds_answers = pa.types.is_floating(raw) or (is_whole and not is_parsed)
    return raw if holds_answers else pa.float64()


def _array(values: pd.Series[Any], kind: pa.DataType | None) -> pa.Array:
    """Return a column of a pandas frame in this type; missing cells are null."""
    import pyarrow as pa

    array = pa.array(values, from_pandas=True)
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array if kind is None else array.cast(kind)
