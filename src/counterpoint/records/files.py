"""Read records from JSON and Parquet, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.errors import InvalidInput, shown
from counterpoint.numerics import BoolArray
from counterpoint.programs.proof_text import numbers_from_json
from counterpoint.records.checker import BROKEN
from counterpoint.records.record import (
    EDITED,
    FIELDS,
    HASHED,
    NUMBERS,
    SCHEMA,
    SHARED,
    WORDS,
    RecordBatch,
    canonical,
    cell_from_json,
    digest,
    hashed,
    is_made,
    parsed,
    sentence_of,
)
from counterpoint.records.writing import cells_of, check_parquet, digests
from counterpoint.rows.cells import is_missing
from counterpoint.rows.encoding import match_columns
from counterpoint.rows.features import Continuous, Features
from counterpoint.rows.table import Table

if TYPE_CHECKING:
    import pandas as pd

UNDATED = "does not say when it was made and with which versions, as text"
MAX_NESTING = 32
"""Levels of lists and objects in a record: the ten of a proof and of what was asked, and room for
more; far from what Python's own readers and writers of JSON take."""


def read_records(records: Any, problems: dict[int, list[str]]) -> tuple[list[RecordBatch], int]:
    """Return records in columns, grouped by what they share, and how many records there are.

    Records that cannot be read are left out, and ``problems`` says why, by their position.
    """
    is_text = isinstance(records, str) and records.lstrip()[:1] == "{"
    if is_text or isinstance(records, Mapping):
        records = [records]
    elif isinstance(records, str | PathLike):
        path = Path(records)
        if path.suffix != ".jsonl":
            return _read_parquet(path, problems)
        records = _lines(path)
    if not isinstance(records, Sequence) or not records:
        raise InvalidInput(
            "Expected a record, its JSON text, a list of records, or the path of a .jsonl or "
            f".parquet file of them; got {shown(records)}."
        )
    groups: dict[str, list[int]] = {}
    parsed_records = [_parsed(item) if isinstance(item, str) else item for item in records]
    for i, record in enumerate(parsed_records):
        sentence, key = _grouping_key(record)
        if sentence:
            problems.setdefault(i, []).append(sentence)
        if key:
            groups.setdefault(key, []).append(i)
    batches = [
        batch
        for positions in groups.values()
        for batch in _readable([parsed_records[i] for i in positions], positions, problems)
    ]
    return batches, len(records)


def _lines(path: Path) -> list[str]:
    """Return the lines of a file that are not empty."""
    try:
        # not splitlines, which ends a line at other characters too, that JSON texts may hold
        return [*filter(str.strip, path.read_text(encoding="utf-8").split("\n"))]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path.name} is not UTF-8 text; it may be damaged.") from error


def _parsed(text: str) -> Any:
    """Return the value of a JSON text; if it is none, an error whose text says why."""
    try:
        return parsed(text)
    except (ValueError, RecursionError) as error:
        return InvalidInput(
            f"is not JSON ({sentence_of(error)}); it may have been cut off or edited."
        )


def _is_deep(value: Any, levels: int = MAX_NESTING) -> bool:
    """Return whether lists and objects stand in one another in more than so many ``levels``."""
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deep(item, levels - 1) for item in inner)


def _grouping_key(record: Any) -> tuple[str, str]:
    """Return a sentence on what is wrong with a record, and the text by which it is grouped.

    Records with one key share their query, and all hold rows, or all hashes. The sentence is empty
    if nothing is wrong, and the key if the record cannot be checked further.
    """
    sentence = _misshapen(record)
    if sentence:
        return sentence, ""
    try:
        body = canonical({key: value for key, value in record.items() if key != "digest"})
        shared = [record[name] for name in ("schema", "model", "asked", "asked_hash")]
        key = canonical([*shared, isinstance(record["row"], str)])
        is_edited = digest(body) != record["digest"]
    except UnicodeEncodeError:
        return "It holds half of a surrogate pair, which is no text.", ""
    except BROKEN:
        return "It holds what JSON cannot: a NaN, an infinity or an object of Python.", ""
    return EDITED if is_edited else "", key


def _misshapen(record: Any) -> str:
    """Return why something is not a record of this version, as a sentence; empty if it is one."""
    if isinstance(record, InvalidInput):
        return f"It {record}"
    if _is_deep(record):
        return f"Its lists and objects stand in one another more than {MAX_NESTING} times."
    if not isinstance(record, Mapping):
        return f"It is not a record but {shown(record, 40)}; expected an object."
    if record.get("schema") != SCHEMA:
        return (
            f"Its schema is {shown(record.get('schema'), 40)}; this version of counterpoint reads "
            f"{SCHEMA!r}. Check it with the version that wrote it."
        )
    if {*record} != {*FIELDS}:
        faults = [f"lacks the field {key!r}" for key in FIELDS if key not in record]
        faults += [f"has a field {shown(key, 40)} too many" for key in record if key not in FIELDS]
        return f"It {faults[0]}; it may have been edited."
    return "" if is_made(record["made"]) else f"It {UNDATED}; it may have been edited."


def _readable(
    records: list[dict[str, Any]], positions: Sequence[int], problems: dict[int, list[str]]
) -> Iterator[RecordBatch]:
    """Yield records in columns; halve them where that fails, until those that fail are alone."""
    try:
        yield _batch_from_json(records, positions)
    except BROKEN as error:
        if len(records) > 1:
            middle = len(positions) // 2
            for half in (slice(middle), slice(middle, None)):
                yield from _readable(records[half], positions[half], problems)
            return
        problems.setdefault(positions[0], []).append(f"It cannot be read: {sentence_of(error)}.")


def _batch_from_json(records: Sequence[dict[str, Any]], positions: Sequence[int]) -> RecordBatch:
    """Return records that share a query as columns; raise one of `BROKEN` if they are malformed."""
    import pandas as pd

    first = records[0]
    names = [record["name"] for record in first["asked"]["features"]]
    if any(record["valid"] is not (record["answer"] is not None) for record in records):
        raise ValueError("there is an answer if and only if it is valid")
    rows, answers = [[record[key] for record in records] for key in ("row", "answer")]
    if isinstance(first["row"], str):  # a hash: the answer holds only the cells that change
        row_frame = pd.DataFrame({HASHED: rows})
        answers = [{**dict.fromkeys(names), **(answer or {})} for answer in answers]
    else:
        row_frame = _frame(rows, names)
        # a row without an answer stands in for it, so that its cells have the types of the others
        pairs = zip(rows, answers, strict=True)
        answers = [row if answer is None else answer for row, answer in pairs]
    answer_frame = _frame(answers, names)
    columns: dict[str, Any] = {
        k: numbers_from_json([record[k] for record in records]) for k in NUMBERS
    }
    columns |= {k: np.array([record[k] for record in records], dtype=object) for k in WORDS}
    columns["valid"] = np.array([record["valid"] for record in records])
    proofs = [record["proof"] for record in records]
    shared = {k: first[k] for k in SHARED}
    return RecordBatch(shared, row_frame, answer_frame, columns, proofs, np.array(positions))


def _frame(rows: list[dict[str, Any]], names: list[str]) -> pd.DataFrame:
    import pandas as pd

    if any(set(row) != set(names) for row in rows):
        raise ValueError("the row or the answer holds other columns than the features")
    return pd.DataFrame({name: [cell_from_json(row[name]) for row in rows] for name in names})


def _read_parquet(path: Path, problems: dict[int, list[str]]) -> tuple[list[RecordBatch], int]:
    """Return the records of a Parquet file in columns, and their number."""
    check_parquet(path)
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
        columns = {"shared", "proof", "multipliers", "valid", "digest", *WORDS, *NUMBERS}
        missing = columns - {*frame.columns}
        batches = [] if missing else [*_batches_of_frame(frame)]
        computed = [] if missing else digests(frame)
    except (*BROKEN, OSError) as error:
        raise InvalidInput(
            f"{path.name} is not a file of records: {sentence_of(error)}."
        ) from error
    if missing:
        raise InvalidInput(f"{path.name} is not a file of records: it lacks {min(missing)!r}.")
    for i in np.flatnonzero(frame["digest"].to_numpy() != np.array(computed)).tolist():
        problems.setdefault(i, []).append(EDITED)
    return batches, len(frame)


def _batches_of_frame(frame: pd.DataFrame) -> Iterator[RecordBatch]:
    """Yield the records of a frame in columns, grouped by what they share."""
    for text, group in frame.groupby("shared", observed=True, sort=False):
        shared = parsed(str(text))
        if not is_made(shared["made"]):
            raise ValueError(f"a record {UNDATED}")
        names = [feature["name"] for feature in shared["asked"]["features"]]
        answers = group[[f"answer.{name}" for name in names]].set_axis(names, axis=1)
        if HASHED in group:
            rows = group[[HASHED]]
        else:
            rows = group[[f"row.{name}" for name in names]].set_axis(names, axis=1)
        columns = {k: group[k].to_numpy(dtype=np.float64) for k in NUMBERS}
        columns |= {k: group[k].to_numpy(dtype=object) for k in (*WORDS, "valid")}
        # one of the two, or none: an array of multipliers, or the text of other proofs
        both = zip(group["multipliers"].tolist(), group["proof"].tolist(), strict=True)
        proofs = [parsed(text) if isinstance(text, str) else numbers for numbers, text in both]
        yield RecordBatch(shared, rows, answers, columns, proofs, group.index.to_numpy())


def with_rows(
    batch: RecordBatch, rows: Table | None, salt: str | None
) -> tuple[RecordBatch, BoolArray]:
    """Return records with rows instead of hashes, and which rows (n,) do not fit their hash.

    ``rows`` are those of all records, in order; ``salt`` is what the hashes were made with. An
    answer beside a hash holds only the cells that change; the others are those of the row.
    """
    import pandas as pd

    names = tuple(batch.answers.columns)
    # a model may have one feature, of the same name as the column of hashes
    if batch.rows.columns.tolist() != [HASHED] or names == (HASHED,):
        return batch, np.zeros(len(batch.positions), dtype=bool)
    if rows is None or salt is None:
        raise InvalidInput(
            "These records hold hashes in the place of rows. Pass the rows, in the order of the "
            "records, as rows=, and the salt that the hashes were made with as salt=."
        )
    # Records name columns by text, and the rows may name them otherwise, say by numbers.
    by_text = {str(name): name for name in rows.names}
    features = Features(Continuous(by_text.get(name, name)) for name in names)
    table = match_columns(rows, features)
    columns = zip(names, table.names, strict=True)
    frame = pd.DataFrame({name: table.column(column) for name, column in columns})
    before = frame.iloc[batch.positions].reset_index(drop=True)
    hashes = np.array([hashed(row, salt) for row in cells_of(before)], dtype=object)
    after = {
        name: [
            old if is_missing(new) else new
            for old, new in zip(before[name].tolist(), batch.answers[name].tolist(), strict=True)
        ]
        for name in names
    }
    complete = batch._replace(rows=before, answers=pd.DataFrame(after))
    return complete, np.asarray(batch.rows[HASHED].to_numpy() != hashes)
