"""Records written: as JSON, and as Parquet in columns."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.errors import InvalidInput, MissingExtra
from counterpoint.programs.proof_text import as_pieces, told
from counterpoint.records.record import (
    HASHED,
    WORDS,
    RecordBatch,
    as_cell,
    canonical,
    digest,
    hashed,
)

if TYPE_CHECKING:
    import pandas as pd


def to_json(batches: Iterator[RecordBatch], salt: str | None) -> list[dict[str, Any]]:
    """Return the records as objects of JSON, in the order of the answers."""
    out: dict[int, dict[str, Any]] = {}
    for batch in batches:
        rows, answers = (cells_of(frame) for frame in (batch.rows, batch.answers))
        columns = {k: np.asarray(v).tolist() for k, v in batch.values.items()}
        for i, at in enumerate(batch.at.tolist()):
            record = {
                **batch.shared,
                "row": rows[i],
                "proof": as_pieces(batch.proofs[i], batch.sizes),
            }
            record |= {name: told(values[i]) for name, values in columns.items()}
            record |= {name: str(record[name]) for name in WORDS}
            record["answer"] = answers[i] if record["valid"] else None
            if salt is not None:
                record["row"] = hashed(rows[i], salt)
                changed = {k: v for k, v in answers[i].items() if v != rows[i][k]}
                record["answer"] = changed if record["valid"] else None
            record["digest"] = digest(canonical(record))
            out[at] = record
    return [out[at] for at in sorted(out)]


def cells_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the cells of each row as JSON has them, by column."""
    columns = [[as_cell(value) for value in frame[name].tolist()] for name in frame.columns]
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
        rows, after = batch.rows, batch.answers
        columns: dict[str, Any] = {"shared": [canonical(batch.shared)] * len(batch.at)}
        if salt is not None:
            columns[HASHED] = [hashed(row, salt) for row in cells_of(rows)]
            same = (rows == after) | (rows.isna() & after.isna())
            rows, after = rows[[]], after.astype(object).mask(same, None)
        for side, frame in (("row", rows), ("answer", after)):
            columns |= {f"{side}.{name}": frame[name].array for name in frame.columns}
        columns |= {k: v.astype(str) if k in WORDS else v for k, v in batch.values.items()}
        plain = [isinstance(proof, np.ndarray) for proof in batch.proofs]
        pairs = [*zip(batch.proofs, plain, strict=True)]
        columns["multipliers"] = [proof if is_array else None for proof, is_array in pairs]
        columns["proof"] = [
            None if p is None or is_array else canonical(p) for p, is_array in pairs
        ]
        frames.append(pd.DataFrame(columns, index=batch.at))
    whole = pd.concat(frames).sort_index()
    whole["shared"] = whole["shared"].astype("category")
    table = pa.Table.from_pandas(whole, preserve_index=False)
    table = table.append_column("digest", pa.array(digests(table.to_pandas())))
    parquet.write_table(table, path)


def digests(frame: pd.DataFrame) -> list[str]:
    """Return the SHA-256 of each row of a frame: its numbers as float64, all else as JSON."""
    cells = frame.drop(columns=["digest", "multipliers", "shared"], errors="ignore")
    numeric = cells.select_dtypes("number").sort_index(axis=1)
    names = [*numeric.columns, *sorted({*cells.columns} - {*numeric.columns})]
    columns = [cells[name].tolist() for name in names[numeric.shape[1] :]]
    # Rows share long texts: what they have in common is hashed once, and words are encoded once.
    shared = frame["shared"].astype("category").cat
    prefixes = [sha256(canonical([text, *names]).encode()) for text in shared.categories]
    texts: dict[tuple[Any, ...], bytes] = {}
    out = []
    rows = (
        shared.codes,
        numeric.to_numpy("<f8") + 0.0,
        frame["multipliers"],
        zip(*columns, strict=True),
    )
    for code, row, proof, words in zip(*rows, strict=True):
        if words not in texts:
            texts[words] = canonical([None if v != v else v for v in words]).encode()  # noqa: PLR0124
        row_hash = prefixes[code].copy()
        row_hash.update(row.tobytes() + (b"" if proof is None else proof.tobytes()) + texts[words])
        out.append(f"sha256:{row_hash.hexdigest()}")
    return out


def check_parquet(path: Path) -> None:
    """Raise if a file is of another kind, or pyarrow is missing."""
    if path.suffix != ".parquet":
        raise InvalidInput(f"Expected a file of records (.jsonl, .parquet); got {path.name}.")
    if find_spec("pyarrow") is None:
        raise MissingExtra(
            f"{path.name} is a Parquet file, which needs pyarrow, and that is not installed. "
            "Install it with 'pip install pyarrow', or use JSON lines."
        )
