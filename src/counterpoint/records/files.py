"""Records written and read: as JSON, and as Parquet in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.certificate import Claim, Status
from counterpoint.errors import InvalidInput, MissingExtra, shown
from counterpoint.numerics import VIOLATION, BoolArray, IntArray
from counterpoint.problem.targets import Guarantee, Validation
from counterpoint.programs.proof_text import as_pieces, numbers, proofs_of, told
from counterpoint.records.checker import BROKEN, concluded, messages_of, nothing
from counterpoint.records.record import (
    EDITED,
    FIELDS,
    HASHED,
    NUMBERS,
    SCHEMA,
    SHARED,
    WORDS,
    RecordBatch,
    RecordedQuery,
    as_cell,
    canonical,
    digest,
    fingerprint,
    hashed,
    is_made,
    made_now,
    of_cell,
    parsed,
    query_of,
    sentence_of,
)
from counterpoint.rows.cells import is_missing
from counterpoint.rows.encoding import match_columns
from counterpoint.rows.features import Continuous, Features
from counterpoint.rows.table import Table
from counterpoint.search.validation import SINGLE

if TYPE_CHECKING:
    import pandas as pd

    from counterpoint.results import Counterfactuals

__all__ = ["read_records", "to_batches", "to_json", "with_rows", "write_records"]

UNMADE = "does not say when it was made and with which versions, as text"
DEEPEST = 32
"""Levels of lists and objects in a record: the ten of a proof and of what was asked, and room for
more; far from what Python's own readers and writers of JSON take."""


# Writing


def to_batches(answers: Counterfactuals) -> Iterator[RecordBatch]:
    """The records of answers in columns, one batch for each target."""
    import pandas as pd

    features, remarks = answers.features, answers.remarks()
    tables = [t.select(features.names) for t in (answers.table, answers.decoded(slice(None)))]
    frames = [pd.DataFrame({str(n): t.column(n) for n in features.names}) for t in tables]
    singles = [str(features.names[j]) for j in sorted(tables[0].singles)]
    read = fingerprint(answers.question.form, features, answers.fills)
    model = {"fingerprint": read, "features": [*map(str, features.names)]}
    groups: dict[str, list[int]] = {}
    for i, target in enumerate(answers.targets.tolist()):
        groups.setdefault(repr(target), []).append(i)
    for listed in groups.values():
        at, target = np.array(listed), answers.targets[listed[0]]
        table = query_of(answers, target, singles)
        shared = {"schema": SCHEMA, "made": made_now(), "model": model, "asked": table}
        shared["asked_hash"] = digest(canonical(table))
        limits, resolution = (table["gap"], answers.eps), SINGLE if singles else VIOLATION
        query = RecordedQuery(
            answers.question, target, *limits, resolution, table["time_limit"] is not None
        )
        # a target that depends on the row is not one of rows that cannot be used
        usable = (answers.statuses[at] != Status.INVALID.code).any()
        programs = answers.question.union(target).proof_programs if usable else ()
        sizes = [program.kept_size for program in programs]
        proofs = _proofs(answers, at, sizes)
        values = _columns(answers, at, query, proofs)
        values["message"] = messages_of(values)
        for k, i in enumerate(listed):
            if i in answers.problems:
                values["message"][k] = answers.problems[i]
            elif i in remarks:
                values["message"][k] += f" {remarks[i]}"
        rows, after = (frame.iloc[at].reset_index(drop=True) for frame in frames)
        yield RecordBatch(shared, rows, after, values, proofs, at, sizes)


def _columns(
    answers: Counterfactuals, at: IntArray, query: RecordedQuery, proofs: list[Any]
) -> dict[str, Any]:
    """Words and numbers of some answers to one target."""
    c, question, target = answers.certificates, answers.question, query.target
    out = nothing(len(at), query.resolution) | {"valid": c.valid[at]}
    index = np.flatnonzero(answers.statuses[at] != Status.INVALID.code)
    if len(index):
        rows = at[index]
        x, y = (question.features.expand(codes[rows]) for codes in (answers.before, answers.after))
        names = ("valid", "margin", "probability", "guarantees", "rounding")
        verdict = Validation(*(getattr(c, name)[rows] for name in names))
        if target.requirement.promise is Guarantee.NONE:  # a search in a span knew less of them
            margin = question.form.margin(y, target)
            rounding = target.requirement.rounding(question.form, y, query.eps)
            verdict = replace(verdict, margin=margin, rounding=rounding)
        status, claim = Status.of(answers.statuses[rows]), Claim.of(c.claims[rows])
        claim[(status == Status.OPTIMAL) | (status == Status.INFEASIBLE)] = Claim.REPORTED
        stated: dict[str, Any] = {"status": status, "claim": claim, "bound": c.bound[rows]}
        stated["valid"] = c.valid[rows]
        stated["proof"] = [proofs[i] for i in index.tolist()]
        for name, values in concluded(query, x, y, verdict, stated).items():
            out[name][index] = values
    del out["proved"]
    return out


def _proofs(answers: Counterfactuals, at: IntArray, sizes: list[int]) -> list[Any]:
    """What proves the bounds of some rows; None where nothing was kept, or has to be proved."""
    out: list[Any] = [None] * len(at)
    search = np.full(len(answers), -1)
    for k, (rows, _) in enumerate(answers.proofs):
        search[rows] = k  # what was searched last counts
    search[answers.statuses == Status.ALREADY.code] = -1
    for k in np.unique(search[at][search[at] >= 0]).tolist():
        rows, pieces = answers.proofs[k]
        if not sizes or sizes != [piece.multipliers.shape[1] for piece in pieces]:
            continue
        mine = np.flatnonzero(search[at] == k)
        for i, proof in zip(mine, proofs_of(pieces, np.searchsorted(rows, at[mine])), strict=True):
            out[i] = proof
    return out


def to_json(batches: Iterator[RecordBatch], salt: str | None) -> list[dict[str, Any]]:
    """The records as JSON has them, in the order of the answers."""
    out: dict[int, dict[str, Any]] = {}
    for batch in batches:
        rows, answers = (_cells(frame) for frame in (batch.rows, batch.answers))
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


def _cells(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns = [[as_cell(value) for value in frame[name].tolist()] for name in frame.columns]
    names = frame.columns.tolist()
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def write_records(
    answers: Counterfactuals, path: str | PathLike[str], salt: str | None = None
) -> None:
    """Write the records of answers: JSON lines, or Parquet by the ending of the name."""
    path, batches = Path(path), to_batches(answers)
    if path.suffix == ".jsonl":
        lines = (f"{canonical(record)}\n" for record in to_json(batches, salt))
        path.write_text("".join(lines), encoding="utf-8")
        return
    _check_parquet(path)
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    frames = []
    for batch in batches:
        rows, after = batch.rows, batch.answers
        columns: dict[str, Any] = {"shared": [canonical(batch.shared)] * len(batch.at)}
        if salt is not None:
            columns[HASHED] = [hashed(row, salt) for row in _cells(rows)]
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
    table = table.append_column("digest", pa.array(_digests(table.to_pandas())))
    parquet.write_table(table, path)


def _digests(frame: pd.DataFrame) -> list[str]:
    """(n,) SHA-256 of all columns of each row: numbers as float64, all else as JSON."""
    whole = frame.drop(columns=["digest", "multipliers", "shared"], errors="ignore")
    numeric = whole.select_dtypes("number").sort_index(axis=1)
    names = [*numeric.columns, *sorted({*whole.columns} - {*numeric.columns})]
    columns = [whole[name].tolist() for name in names[numeric.shape[1] :]]
    shared = frame["shared"].astype("category").cat
    begun = [sha256(canonical([text, *names]).encode()) for text in shared.categories]
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
        shares = begun[code].copy()
        shares.update(row.tobytes() + (b"" if proof is None else proof.tobytes()) + texts[words])
        out.append(f"sha256:{shares.hexdigest()}")
    return out


def _check_parquet(path: Path) -> None:
    """Raise if a file is of another kind, or pyarrow is missing."""
    if path.suffix != ".parquet":
        raise InvalidInput(f"Expected a file of records (.jsonl, .parquet); got {path.name}.")
    if find_spec("pyarrow") is None:
        raise MissingExtra(
            f"{path.name} is a Parquet file, which needs pyarrow, and that is not installed. "
            "Install it with 'pip install pyarrow', or use JSON lines."
        )


# Reading


def read_records(records: Any, problems: dict[int, list[str]]) -> tuple[list[RecordBatch], int]:
    """Records in columns, grouped by what was asked, and their number; what is wrong with others.

    Those that cannot be read are left out, and ``found``.
    """
    text = isinstance(records, str) and records.lstrip()[:1] == "{"
    if isinstance(records, str | PathLike) and not text:
        path = Path(records)
        if path.suffix != ".jsonl":
            return _read_parquet(path, problems)
        try:
            records = [*filter(str.strip, path.read_text(encoding="utf-8").split("\n"))]
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path.name} is not UTF-8 text; it may be damaged.") from error
    records = [records] if text or isinstance(records, Mapping) else records
    if not isinstance(records, Sequence) or not records:
        raise InvalidInput(
            "Expected a record, its JSON text, a list of records, or the path of a .jsonl or "
            f".parquet file of them; got {shown(records)}."
        )
    groups: dict[str, list[int]] = {}
    whole = [_parsed(record) if isinstance(record, str) else record for record in records]
    for i, record in enumerate(whole):
        sentence, same = _group(record)
        if sentence:
            problems.setdefault(i, []).append(sentence)
        if same:
            groups.setdefault(same, []).append(i)
    batches = (_readable([whole[i] for i in at], at, problems) for at in groups.values())
    return [batch for group in batches for batch in group], len(records)


def _parsed(text: str) -> Any:
    """What a text of JSON says; the error, if it is none."""
    try:
        return parsed(text)
    except (ValueError, RecursionError) as error:
        return InvalidInput(
            f"is not JSON ({sentence_of(error)}); it may have been cut off or edited."
        )


def _is_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Whether lists and objects stand in one another in more than so many ``levels``."""
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deep(item, levels - 1) for item in inner)


def _group(record: Any) -> tuple[str, str]:
    """What is wrong with a record as a whole, and what it shares with others, if it is one."""
    sentence = _misshapen(record)
    if sentence:
        return sentence, ""
    try:
        body = canonical({key: value for key, value in record.items() if key != "digest"})
        alike = [record[key] for key in ("schema", "model", "asked", "asked_hash")]
        same = canonical([*alike, isinstance(record["row"], str)])
        edited = digest(body) != record["digest"]
    except UnicodeEncodeError:
        return "It holds half of a surrogate pair, which is no text.", ""
    except BROKEN:
        return "It holds what JSON cannot: a NaN, an infinity or an object of Python.", ""
    return EDITED * edited, same


def _misshapen(record: Any) -> str:
    """Why something is no record of this version, as a sentence; empty if it has its fields."""
    if isinstance(record, InvalidInput):
        return f"It {record}"
    if _is_deep(record):
        return f"Its lists and objects stand in one another more than {DEEPEST} times."
    if not isinstance(record, Mapping):
        return f"It is not a record but {shown(record, 40)}; expected an object."
    if record.get("schema") != SCHEMA:
        return (
            f"Its schema is {shown(record.get('schema'), 40)}; this version of counterpoint reads "
            f"{SCHEMA!r}. Check it with the version that wrote it."
        )
    if {*record} != {*FIELDS}:
        lacks = [f"lacks the field {key!r}" for key in FIELDS if key not in record]
        extra = [f"has a field {shown(key, 40)} too many" for key in record if key not in FIELDS]
        return f"It {(lacks + extra)[0]}; it may have been edited."
    return "" if is_made(record["made"]) else f"It {UNMADE}; it may have been edited."


def _readable(
    records: list[dict[str, Any]], at: Sequence[int], problems: dict[int, list[str]]
) -> Iterator[RecordBatch]:
    """Records in columns; if that fails, each half by itself."""
    try:
        batch = _of_json(records, at)
    except BROKEN as error:
        if len(records) > 1:
            for half in (slice(len(at) // 2), slice(len(at) // 2, None)):
                yield from _readable(records[half], at[half], problems)
            return
        problems.setdefault(at[0], []).append(f"It cannot be read: {sentence_of(error)}.")
    else:
        yield batch


def _of_json(records: Sequence[dict[str, Any]], at: Sequence[int]) -> RecordBatch:
    """Records that share what was asked, in columns; ValueError if they are none."""
    import pandas as pd

    first = records[0]
    names = [record["name"] for record in first["asked"]["features"]]
    if any(record["valid"] is not (record["answer"] is not None) for record in records):
        raise ValueError("there is an answer if and only if it is valid")
    if isinstance(first["row"], str):  # answers hold what changes
        empty = dict.fromkeys(names)
        after = [{**empty, **(record["answer"] or {})} for record in records]
        frames = [pd.DataFrame({HASHED: [record["row"] for record in records]})]
    else:
        after = [
            record["row"] if record["answer"] is None else record["answer"] for record in records
        ]
        frames = [_frame([record["row"] for record in records], names)]
    frames.append(_frame(after, names))
    columns: dict[str, Any] = {k: numbers([record[k] for record in records]) for k in NUMBERS}
    columns |= {k: np.array([record[k] for record in records], dtype=object) for k in WORDS}
    columns["valid"] = np.array([record["valid"] for record in records])
    proofs = [record["proof"] for record in records]
    shared = {k: first[k] for k in SHARED}
    return RecordBatch(shared, frames[0], frames[1], columns, proofs, np.array(at))


def _frame(rows: list[dict[str, Any]], names: list[str]) -> pd.DataFrame:
    import pandas as pd

    if any(set(row) != set(names) for row in rows):
        raise ValueError("the row or the answer holds other columns than the features")
    return pd.DataFrame({name: [of_cell(row[name]) for row in rows] for name in names})


def _read_parquet(path: Path, problems: dict[int, list[str]]) -> tuple[list[RecordBatch], int]:
    """The records of a Parquet file; InvalidInput if it is none."""
    _check_parquet(path)
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
        columns = {"shared", "proof", "multipliers", "valid", "digest", *WORDS, *NUMBERS}
        lacks = columns - {*frame.columns}
        out = [] if lacks else [*_in_columns(frame)]
        digests = [] if lacks else _digests(frame)
    except (*BROKEN, OSError) as error:
        raise InvalidInput(
            f"{path.name} is not a file of records: {sentence_of(error)}."
        ) from error
    if lacks:
        raise InvalidInput(f"{path.name} is not a file of records: it lacks {min(lacks)!r}.")
    for i in np.flatnonzero(frame["digest"].to_numpy() != np.array(digests)).tolist():
        problems.setdefault(i, []).append(EDITED)
    return out, len(frame)


def _in_columns(frame: pd.DataFrame) -> Iterator[RecordBatch]:
    """The records of a frame, by what they share."""
    for text, group in frame.groupby("shared", observed=True, sort=False):
        shared = parsed(str(text))
        if not is_made(shared["made"]):
            raise ValueError(f"a record {UNMADE}")
        names = [feature["name"] for feature in shared["asked"]["features"]]
        answers = group[[f"answer.{name}" for name in names]].set_axis(names, axis=1)
        if HASHED in group:
            rows = group[[HASHED]]
        else:
            rows = group[[f"row.{name}" for name in names]].set_axis(names, axis=1)
        columns = {k: group[k].to_numpy(dtype=np.float64) for k in NUMBERS}
        columns |= {k: group[k].to_numpy(dtype=object) for k in (*WORDS, "valid")}
        proofs = group["multipliers"].tolist()
        for i, proof in enumerate(group["proof"].tolist()):
            if isinstance(proof, str):
                proofs[i] = parsed(proof)
        yield RecordBatch(shared, rows, answers, columns, proofs, group.index.to_numpy())


def with_rows(
    batch: RecordBatch, rows: Table | None, salt: str | None
) -> tuple[RecordBatch, BoolArray]:
    """Records with the rows that they hold hashes of; (n,) whether a row is another one."""
    import pandas as pd

    names = tuple(batch.answers.columns)
    if batch.rows.columns.tolist() != [HASHED] or names == (HASHED,):
        return batch, np.zeros(len(batch.at), dtype=bool)
    if rows is None or salt is None:
        raise InvalidInput(
            "These records hold hashes in the place of rows. Pass the rows, in the order of the "
            "records, as rows=, and the salt that the hashes were made with as salt=."
        )
    names_of_rows = {str(name): name for name in rows.names}
    table = match_columns(
        rows, Features(Continuous(names_of_rows.get(name, name)) for name in names)
    )
    columns = zip(names, table.names, strict=True)
    base = pd.DataFrame({name: table.column(source) for name, source in columns}).iloc[batch.at]
    base = base.reset_index(drop=True)
    hashes = np.array([hashed(row, salt) for row in _cells(base)], dtype=object)
    after = {
        name: [
            old if is_missing(new) else new
            for old, new in zip(base[name].tolist(), batch.answers[name].tolist(), strict=True)
        ]
        for name in names
    }
    whole = batch._replace(rows=base, answers=pd.DataFrame(after))
    return whole, np.asarray(batch.rows[HASHED].to_numpy() != hashes)
