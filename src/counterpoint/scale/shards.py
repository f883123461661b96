"""Divide a data set into fragments, and write the answers to one fragment as a shard.

A shard is named by a hash of what was asked, of the model and of its fragment, and is renamed to
its name when it is complete. So a shard that is there is finished, and workers that answer the same
fragment twice, or at the same time, write the same bytes under the same name.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, final
from urllib.parse import unquote
from uuid import uuid4

import numpy as np

from counterpoint import Counterfactuals, CounterpointError, Explainer, InvalidInput
from counterpoint.scale.blocks import answered, no_rows, regrouped

if TYPE_CHECKING:
    import pyarrow as pa

SUMMARY = b"counterpoint"
"""The key of the summary in the footer of a shard."""
SUMS = "_sums"
"""The folder in which a file for each shard has the SHA-256 of all files that belong to it."""


@final
@dataclass(frozen=True)
class Fragment:
    """Consecutive rows of one input file, whose answers are one shard."""

    path: str
    name: str  # the path, from the folder that was passed
    keys: dict[str, str]  # column → value, from folders named ``column=value`` in the path
    first: int  # the position of its first row in the file
    groups: tuple[int, ...] | None  # its row groups in a Parquet file; None for CSV
    shard: str  # the name of its shard, without ending


@final
@dataclass(frozen=True)
class Job:
    """The part of the work that is the same for all fragments."""

    explainer: Explainer
    target: Any
    options: dict[str, Any]
    records: bool
    source: Any  # file systems of fsspec, of the rows and of the answers
    sink: Any
    out: str
    schema: pa.Schema  # of the rows
    block: int  # how many rows are explained at once


def hashed(*entries: Any) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 digest of entries as JSON."""
    return sha256(json.dumps(entries, sort_keys=True, default=str).encode()).hexdigest()[:32]


# Fragments


def fragments_of(
    fs: Any, root: str, question: Any, least: int = 2**20
) -> tuple[pa.Schema, list[Fragment]]:
    """Return the schema of a data set, and its fragments in order.

    A large Parquet file is several fragments, each of row groups with at least ``least`` rows. The
    names of shards depend on the ``question``, on the file's version and on its row groups.
    """
    root = root.rstrip("/")
    if not fs.exists(root):
        raise InvalidInput(f"There is no file or folder {root}.")
    paths = [path for path in sorted(fs.find(root)) if not _is_hidden(path[len(root) :])]
    kinds = {"parquet" if path.endswith(".parquet") else "csv" for path in paths}
    others = [path for path in paths if not path.endswith((".parquet", ".csv", ".csv.gz"))]
    if others or len(kinds) != 1:
        place = f"{others[0]} in {root}" if others and others[0] != root else root
        raise InvalidInput(
            f"Expected a .parquet or a .csv file, or a folder of files of one of these kinds; got "
            f"{place}."
        )
    with ThreadPoolExecutor(16) as pool:  # of files far away, answers are waited for together
        heads = list(pool.map(lambda path: (*_head(fs, path), fs.ukey(path)), paths))
    fragments: list[Fragment] = []
    for path, (_, counts, version) in zip(paths, heads, strict=True):
        name = path[len(root) + 1 :] or PurePosixPath(path).name
        folders = [folder.partition("=") for folder in name.split("/")[:-1] if "=" in folder]
        keys = {unquote(key): unquote(value) for key, _, value in folders}
        for row_groups in _runs(counts, least) if kinds == {"parquet"} else [None]:
            first = sum(counts[: row_groups[0]]) if row_groups else 0
            shard = hashed(question, name, version, row_groups)
            fragments.append(Fragment(path, name, keys, first, row_groups, shard))
    schemas = [schema for schema, _, _ in heads if schema is not None]
    return _common_schema(schemas, root, fragments[0].keys), fragments


def _is_hidden(path: str) -> bool:
    """Return whether a path holds no data, as Spark and Arrow have it."""
    return any(folder.startswith((".", "_")) for folder in path.split("/"))


def _head(fs: Any, path: str) -> tuple[pa.Schema | None, list[int]]:
    """Return the schema of a file, and the number of rows of each of its row groups.

    A CSV file has no row groups. Of an unreadable file the schema is None; whoever answers it later
    says why.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with fs.open(path, compression="infer") as file:
            if not path.endswith(".parquet"):
                return _csv(file).schema, []
            metadata = pq.read_metadata(file)
            counts = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
            return metadata.schema.to_arrow_schema().remove_metadata(), counts
    except (pa.ArrowException, OSError, ValueError, EOFError):
        return None, []


def _runs(counts: Sequence[int], least: int) -> Iterator[tuple[int, ...]]:
    """Yield runs of consecutive row groups that have at least ``least`` rows together.

    The last run may have fewer. A file without row groups has one empty run, for its shard.
    """
    run: list[int] = []
    for k in range(len(counts)):
        run.append(k)
        if sum(counts[i] for i in run) >= least:
            yield tuple(run)
            run = []
    if run or not counts:
        yield tuple(run)


def _common_schema(schemas: Sequence[pa.Schema], root: str, keys: dict[str, str]) -> pa.Schema:
    """Return the schema of all files, with the columns that folders name.

    A file whose schema does not go with those before it is left out, and will fail by itself.
    """
    import pyarrow as pa

    if not schemas:
        raise InvalidInput(f"Nothing in {root} can be read: its files are damaged or empty.")
    common, *remaining = dict.fromkeys(schemas)
    for other in remaining:
        try:
            common = pa.unify_schemas([common, other], promote_options="permissive")
        except pa.ArrowException:
            continue
    for key in keys:
        if key not in common.names:
            common = common.append(pa.field(key, pa.string()))
    return common


# Reading


def _csv(file: Any) -> Any:
    """Open a CSV file in batches; all cells are text, for each row to be judged by itself."""
    import pyarrow as pa
    import pyarrow.csv as pc

    start = file.tell()
    names = pc.open_csv(file).schema.names  # types can only be stated by name
    file.seek(start)
    as_text = pc.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    as_text.strings_can_be_null = True
    return pc.open_csv(file, pc.ReadOptions(use_threads=False), convert_options=as_text)


def _blocks(job: Job, fragment: Fragment) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a fragment in batches of ``job.block``, with the data set's columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with job.source.open(fragment.path, compression="infer") as file:
            if fragment.groups is None:
                batches = iter(_csv(file))
            else:
                # each column has a buffer of its own: 32 MB together
                size = max(2**12, 2**25 // len(job.schema))
                parquet = pq.ParquetFile(file, buffer_size=size, pre_buffer=False)
                batches = parquet.iter_batches(
                    job.block, row_groups=[*fragment.groups], use_threads=False
                )
            for batch in regrouped(batches, job.block):
                yield _conformed(job, fragment, batch)
    except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InvalidInput(f"{fragment.name} cannot be read: {reason}.") from error


def _conformed(job: Job, fragment: Fragment, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of a file with the columns of the data set.

    Columns that the file lacks have the value that its folder names, or are null; but the model's
    columns have to be there.
    """
    import pyarrow as pa

    needed, columns = {str(name) for name in job.explainer.features.names}, []
    for field in job.schema:
        if field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        elif field.name in fragment.keys or field.name not in needed:
            cell = pa.scalar(fragment.keys.get(field.name), field.type)
            columns.append(pa.repeat(cell, len(batch)))
        else:
            raise InvalidInput(f"{fragment.name} has no column {field.name!r}.")
    return pa.RecordBatch.from_arrays(columns, schema=job.schema)


# Writing


def attempt(job: Job, fragment: Fragment) -> dict[str, Any] | str:
    """Write the shard of a fragment, unless it is complete already; return the shard's summary.

    A failure that concerns this fragment only is returned as a sentence. A summary with the key
    ``unwritable`` ends the run, for no other shard could be written either.
    """
    from threadpoolctl import threadpool_limits

    try:
        # The workers share the cores, a fragment each; threads of BLAS within them would compete
        # for the same cores, and may round differently, where a shard is to be the same bytes.
        with threadpool_limits(1):
            return _finished(job, fragment) or _write_shard(job, fragment)
    except CounterpointError as error:
        return str(error)
    except OSError as error:  # of the output folder: one of the input is an `InvalidInput` by now
        return {"unwritable": error.strerror or str(error)}
    except (  # what a model may raise for rows that it cannot take
        ArithmeticError,
        LookupError,
        MemoryError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        return f"{type(error).__name__} at {fragment.name}: {error}"


def _finished(job: Job, fragment: Fragment) -> dict[str, Any] | None:
    """Return the summary of a fragment's shard; None unless it is there, with its records.

    All these files have to be what their SHA-256 says, to the last bit.
    """
    import pyarrow.parquet as pq

    shard = f"{fragment.shard}.parquet"
    try:
        with job.sink.open(f"{job.out}/{SUMS}/{fragment.shard}.json") as file:
            digests = json.load(file)
        is_intact = all(_sha256(job, name) == digest for name, digest in digests.items())
        if not (is_intact and shard in digests):
            return None
        with job.sink.open(f"{job.out}/{shard}") as file:
            summary: dict[str, Any] = json.loads(pq.read_metadata(file).metadata[SUMMARY])
    except (OSError, ValueError, LookupError, AttributeError):
        return None
    return summary | {"skipped": True}


def _sha256(job: Job, name: str) -> str:
    with job.sink.open(f"{job.out}/{name}", "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _write_shard(job: Job, fragment: Fragment) -> dict[str, Any]:
    """Answer a fragment; return the summary of its shard.

    It is written under another name, and renamed when it is complete.
    """
    partial = f"_{fragment.shard}-{uuid4().hex}.part"
    try:
        summary = _write_answers(job, fragment, f"{job.out}/{partial}")
        digests = {name: _sha256(job, name) for name in summary["records"]}
        digests[f"{fragment.shard}.parquet"] = _sha256(job, partial)
        job.sink.makedirs(f"{job.out}/{SUMS}", exist_ok=True)
        put(job.sink, f"{job.out}/{SUMS}/{fragment.shard}.json", digests)
        # last: a shard that has its name is finished
        job.sink.mv(f"{job.out}/{partial}", f"{job.out}/{fragment.shard}.parquet")
    finally:
        if job.sink.exists(f"{job.out}/{partial}"):
            job.sink.rm(f"{job.out}/{partial}")
    return summary


def _write_answers(job: Job, fragment: Fragment, path: str) -> dict[str, Any]:
    """Write the answers to a fragment as a Parquet file, and their records; return its summary."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, found = 0, 0
    statuses, costs, records = Counter[str](), Counter[str](), list[str]()
    schema = _answers(job, fragment, no_rows(job.schema), 0)[0].schema  # as that of any block
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    options: dict[str, Any] = {"use_dictionary": texts, "write_page_checksum": True}
    with job.sink.open(path, "wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
        for block in _blocks(job, fragment):
            answers, counterfactuals = _answers(job, fragment, block, rows)
            if job.records:
                records.append(f"_records/{fragment.shard}-{len(records):05}.parquet")
                _put_records(job, counterfactuals, records[-1])
            writer.write_batch(answers)
            rows += len(block)
            found += int(counterfactuals.found.sum())
            statuses.update(answers["cf_status"].to_pylist())
            costs.update(_cost_counts(counterfactuals))
        summary = {
            "rows": rows,
            "found": found,
            "records": records,
            "statuses": dict(statuses),
            "costs": dict(sorted(costs.items())),
        }
        writer.add_key_value_metadata({SUMMARY: json.dumps(summary, sort_keys=True)})
    return summary


def _answers(
    job: Job, fragment: Fragment, block: pa.RecordBatch, offset: int
) -> tuple[pa.RecordBatch, Counterfactuals]:
    """Answer a block that begins ``offset`` rows into a fragment; name the place of each row."""
    import pyarrow as pa

    answers, counterfactuals = answered(job.explainer, block, job.target, job.options)
    start = fragment.first + offset
    places = {
        "cf_file": pa.repeat(fragment.name, len(block)),
        "cf_row": pa.array(np.arange(start, start + len(block))),
    }
    for name, column in places.items():
        if name in answers.schema.names:
            raise InvalidInput(f"The rows already have a column {name!r}; rename it.")
        answers = answers.append_column(name, column)
    return answers, counterfactuals


def _put_records(job: Job, answers: Counterfactuals, name: str) -> None:
    with TemporaryDirectory() as folder:
        local = Path(folder, "records.parquet")
        answers.to_records(local)
        job.sink.put(str(local), f"{job.out}/{name}")


def put(fs: Any, path: str, content: Any) -> None:
    """Write JSON to a file that is there completely or not at all."""
    folder, _, name = path.rpartition("/")
    partial = f"{folder}/_{uuid4().hex}.part"
    with fs.open(partial, "wb") as file:
        file.write((json.dumps(content, indent=1, sort_keys=True, default=str) + "\n").encode())
    fs.mv(partial, f"{folder}/{name}")


# Costs are counted on a grid, in hundredths of their logarithm, so that those of all shards add up


def _cost_counts(answers: Counterfactuals) -> Counter[str]:
    """Return the number of changes that cost about ``exp(key / 100)``, by key."""
    cost = answers.cost[answers.found & (answers.cost > 0)]
    keys, counts = np.unique(np.round(100.0 * np.log(cost)).astype(int), return_counts=True)
    return Counter(dict(zip(map(str, keys.tolist()), counts.tolist(), strict=True)))


def cost_of(counted: dict[str, int], share: float) -> float:
    """Return the cost that a share of all changes does not exceed, to .5 %; NaN of none.

    ``counted`` is what `_cost_counts` returns, added up over shards.
    """
    keys = sorted(counted, key=int)
    if not keys:
        return float("nan")
    cumulative = np.cumsum([counted[key] for key in keys])
    quantile = keys[int(np.searchsorted(cumulative, share * cumulative[-1]))]
    return float(np.exp(int(quantile) / 100.0))
