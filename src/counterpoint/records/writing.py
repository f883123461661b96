"""Write records as JSON, and as Parquet in columns."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.errors import InvalidInput, MissingExtra
from counterpoint.programs.proof_text import as_pieces, number_to_json
from counterpoint.records.record import (
    HASHED,
    WORDS,
    RecordBatch,
    canonical,
    cell_to_json,
    digest,
    hashed,
)

if TYPE_CHECKING:
    import pandas as pd


def to_json(batches: Iterator[RecordBatch], salt: str | None) -> list[dict[str, Any]]:
    """Return the records as objects of JSON, in the order of the answers."""
    records: dict[int, dict[str, Any]] = {}  # by position
    for batch in batches:
        rows, answers = (cells_of(frame) for frame in (batch.rows, batch.answers))
        columns = {name: np.asarray(values).tolist() for name, values in batch.values.items()}
        for i, position in enumerate(batch.positions.tolist()):
            row, answer = rows[i], answers[i]
            record = {**batch.shared, "row": row, "proof": as_pieces(batch.proofs[i], batch.sizes)}
            record |= {name: number_to_json(values[i]) for name, values in columns.items()}
            record |= {name: str(record[name]) for name in WORDS}
            if salt is not None:  # the answer then holds only the cells that change
                record["row"] = hashed(row, salt)
                answer = {name: cell for name, cell in answer.items() if cell != row[name]}
            record["answer"] = answer if record["valid"] else None
            record["digest"] = digest(canonical(record))
            records[position] = record
    return [record for _, record in sorted(records.items())]


def cells_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the cells of each row as JSON has them, by column."""
    columns = [[cell_to_json(value) for value in frame[name].tolist()] for name in frame.columns]
    names = frame.columns.tolist()
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def write_records(
    batches: Iterator[RecordBatch], path: str | PathLike[str], salt: str | None = None
) -> None:
    """Write records: JSON lines, or Parquet by the ending of the name."""
    path = Path(path)
    if path.suffix == ".jsonl":
        lines = (f"{canonical(record)}\n" for record in to_json(batches, salt))
        path.write_text("".join(lines), encoding="utf-8")
        return
    check_parquet(path)
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    frames = []
    for batch in batches:
        before, after = batch.rows, batch.answers
        columns: dict[str, Any] = {"shared": [canonical(batch.shared)] * len(batch.positions)}
        if salt is not None:  # only hashes of the rows, and the cells of answers that change
            columns[HASHED] = [hashed(row, salt) for row in cells_of(before)]
            same = (before == after) | (before.isna() & after.isna())
            before, after = before[[]], after.astype(object).mask(same, None)
        for side, frame in (("row", before), ("answer", after)):
            columns |= {f"{side}.{name}": frame[name].array for name in frame.columns}
        columns |= {k: v.astype(str) if k in WORDS else v for k, v in batch.values.items()}
        # multipliers alone, which most proofs are, as numbers; all other proofs as JSON
        are_arrays = [isinstance(proof, np.ndarray) for proof in batch.proofs]
        pairs = [*zip(batch.proofs, are_arrays, strict=True)]
        columns["multipliers"] = [proof if is_array else None for proof, is_array in pairs]
        columns["proof"] = [
            None if proof is None or is_array else canonical(proof) for proof, is_array in pairs
        ]
        frames.append(pd.DataFrame(columns, index=batch.positions))
    whole = pd.concat(frames).sort_index()
    whole["shared"] = whole["shared"].astype("category")
    table = pa.Table.from_pandas(whole, preserve_index=False)
    table = table.append_column("digest", pa.array(digests(table.to_pandas())))
    parquet.write_table(table, path)


def digests(frame: pd.DataFrame) -> list[str]:
    """Return the SHA-256 of each row of a frame of records, without its digest.

    It is that of the row's shared text with the names of columns, of its numbers as float64, of its
    multipliers and of all other cells as JSON, in the order of the columns' names.
    """
    cells = frame.drop(columns=["digest", "multipliers", "shared"], errors="ignore")
    numeric = cells.select_dtypes("number").sort_index(axis=1)
    other_names = sorted({*cells.columns} - {*numeric.columns})
    # Rows share long texts: what they have in common is hashed once, and words are encoded once.
    shared, names = frame["shared"].astype("category").cat, [*numeric.columns, *other_names]
    prefixes = [sha256(canonical([text, *names]).encode()) for text in shared.categories]
    encoded_words: dict[tuple[Any, ...], bytes] = {}
    out = []
    rows = (
        shared.codes,
        numeric.to_numpy("<f8") + 0.0,  # adding 0.0 turns −0.0 into 0.0
        frame["multipliers"],
        zip(*(cells[name].tolist() for name in other_names), strict=True),
    )
    for code, numbers, multipliers, words in zip(*rows, strict=True):
        if words not in encoded_words:
            cleaned = [None if word != word else word for word in words]  # noqa: PLR0124 (NaN)
            encoded_words[words] = canonical(cleaned).encode()
        row_hash = prefixes[code].copy()
        row_hash.update(numbers.tobytes())
        row_hash.update(b"" if multipliers is None else multipliers.tobytes())
        row_hash.update(encoded_words[words])
        out.append(f"sha256:{row_hash.hexdigest()}")
    return out


def check_parquet(path: Path) -> None:
    """Raise if a file is not a Parquet file by its name, or pyarrow is missing."""
    if path.suffix != ".parquet":
        raise InvalidInput(f"Expected a file of records (.jsonl, .parquet); got {path.name}.")
    if find_spec("pyarrow") is None:
        raise MissingExtra(
            f"{path.name} is a Parquet file, which needs pyarrow, and that is not installed. "
            "Install it with 'pip install pyarrow', or use JSON lines."
        )
