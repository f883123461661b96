"""Answer data sets of any size, in this process, in several, or on a Dask cluster: `run`."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from multiprocessing import connection, get_context, parent_process
from os import PathLike
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, Literal, final

import numpy as np
from joblib.hashing import NumpyHasher

from counterpoint import Explainer, InvalidInput, Label, MissingExtra, Problem, Target, __version__
from counterpoint.errors import check_flag, check_number, missing_extra, shown, some
from counterpoint.scale.blocks import answered, block_rows, no_rows
from counterpoint.scale.shards import (
    Fragment,
    Job,
    attempt,
    cost_of,
    fragments_of,
    hashed,
    put,
)

Outcome = tuple[Fragment, dict[str, Any] | str]


@final
@dataclass(frozen=True)
class BatchReport:
    """The outcome of a batch.

    Parameters
    ----------
    rows, found
        How many rows are in the shards, and how many of them have an answer.
    statuses
        Status → number of rows.
    cost
        Share of the changes (0.1, 0.5, 0.9, 1.0) → what they cost at most, to half a percent.
    shards, skipped
        How many shards there are, and how many of them were there before.
    failed
        Input file → why its shard, or one of its shards, could not be made.
    seconds
        How long it took.
    """

    rows: int
    found: int
    statuses: dict[str, int]
    cost: dict[float, float]
    shards: int
    skipped: int
    failed: dict[str, str]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every row has an answer."""
        return self.found == self.rows and not self.failed

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.statuses.items())
        finished = f", {self.skipped} of them finished before" if self.skipped else ""
        lines = [f"{self.rows} rows: {counts or 'none'}", f"{self.shards} shards{finished}"]
        if self.cost[0.5] > 0:
            q = {share: f"{cost:.3g}" for share, cost in self.cost.items()}
            lines.append(
                f"cost: median {q[0.5]}, one in ten below {q[0.1]}, one in ten above {q[0.9]}, "
                f"largest {q[1.0]}"
            )
        lines += [f"failed: {name}: {why}" for name, why in self.failed.items()]
        return "\n".join(lines)


def run(  # noqa: PLR0913 (as Explainer.explain: options have names)
    explainer: Explainer,
    rows: str | PathLike[str],
    out: str | PathLike[str],
    target: Any,
    *,
    gap: float = 1e-6,
    time_limit: float | None = None,
    optimality: Literal["local", "global"] = "local",
    workers: int = 1,
    scheduler: str | None = None,
    records: bool = False,
    progress: bool | None = None,
) -> BatchReport:
    """Explain all rows of a data set, and write their answers as another one.

    What is there already is not done again: a call that was interrupted is taken up by the same
    call. However many workers there are, they write the same bytes (unless ``time_limit`` is set).

    Parameters
    ----------
    explainer
        What explains; it is pickled for other processes.
    rows
        A Parquet or CSV file, or a folder of these; also a URL that fsspec knows.
    out
        A folder, or a URL, for the answers: a Parquet data set of one shard for each file, and for
        each million rows of a large Parquet file, with the columns that `explain_batch` says, and
        ``cf_file`` and ``cf_row``, the file that a row came from and its position there.
        ``_manifest.json``, which is written last, lists them.
    target, gap, time_limit, optimality
        As for `Explainer.explain`.
    workers
        How many processes work on it; 1 for this one. On a cluster, its scheduler says.
    scheduler
        The address of a Dask scheduler, such as ``"tcp://host:8786"``, or ``"local"`` for a cluster
        of ``workers`` on this machine; None for processes without Dask.
    records
        Whether to write records too (see `Counterfactuals.to_records`), into ``_records``.
    progress
        Whether to show a progress bar; None to show one on a terminal.

    Returns
    -------
    BatchReport
        Counts, quantiles of the cost, and what could not be read.

    Raises
    ------
    InvalidInput
        If columns are missing, the folder holds answers to another question or anything else, or
        it cannot be written.
    InvalidSpec
        If target, cost or constraints cannot be written to a file.
    MissingExtra
        If pyarrow, fsspec or Dask is needed and not installed.
    """
    for what, flag in (("records", records), ("progress", progress)):
        if flag is not None:
            check_flag(what, flag)
    check_number("workers", workers)
    if workers < 1 or workers != int(workers):
        raise InvalidInput(
            f"Expected a whole number of at least 1 worker; got workers={shown(workers)}."
        )
    start = perf_counter()
    options = {"gap": gap, "time_limit": time_limit, "optimality": optimality}
    question = _question(explainer, target, options, records=records)
    (source, root), (sink, folder) = _located(rows), _located(out)
    if f"{folder}/".startswith(f"{root}/"):
        raise InvalidInput(f"The answers would be written among the rows, into {out}; move them.")
    schema, fragments = fragments_of(source, root, question)
    size = block_rows(schema)
    job = Job(explainer, target, options, records, source, sink, folder, schema, size)
    # raises, before anything is written, if columns are missing or options make no sense
    answered(explainer, no_rows(schema), target, options)
    with _refusals_in_words(out):
        _make_folder(job)
        with _locked(job):
            _claim_folder(job, question)
            outcomes = _outcomes(job, fragments, int(workers), scheduler)
            summaries, failed = _collect(outcomes, len(fragments), progress=progress)
            report = _report(summaries.values(), failed, perf_counter() - start)
            shards = [
                {"shard": f.shard, "file": f.name, "first": f.first}
                | {key: summaries[f.shard][key] for key in ("rows", "statuses")}
                for f in fragments
                if f.shard in summaries
            ]
            manifest = {"rows": report.rows, "shards": shards, "failed": failed}
            _tidy(job, fragments)
            # last: its presence says that the run has ended
            put(sink, f"{folder}/_manifest.json", manifest | {"question": hashed(question)})
    return report


def _question(
    explainer: Explainer, target: Any, options: dict[str, Any], *, records: bool
) -> dict[str, Any]:
    """Describe all that answers depend on but the rows, with a hash of the model."""
    stated = target if isinstance(target, Target) else Label(target)
    problem = Problem(stated, explainer.cost, explainer.constraints, tuple(explainer.features))
    # pickled once, so that a model has the same hash before it is saved and after
    model = pickle.loads(pickle.dumps(explainer.model))  # noqa: S301 (its own)
    description = {
        "counterpoint": __version__,
        "model": _Hasher("sha1").hash(model),
        **problem.to_dict(),
        "implied": [repr(c) for c in explainer.implied],
        "records": records,
        **options,
    }
    # as it will be when it is read from its file again, to be compared with that
    return dict(json.loads(json.dumps(description, default=str)))


@final
class _Hasher(NumpyHasher):  # type: ignore[misc]
    """A hash of a model that is the same after it was saved and read again.

    Objects that were pickled once share what they will always share; records of NumPy have gaps
    between their fields, which hold anything.
    """

    def save(self, obj: Any) -> None:
        """Hash an object, a record by its fields."""
        is_record = isinstance(obj, np.ndarray) and obj.dtype.names is not None
        super().save([np.ascontiguousarray(obj[n]) for n in obj.dtype.names] if is_record else obj)


def _missing_extra(error: ImportError) -> MissingExtra:
    return missing_extra(f"Batches need {(error.name or '').partition('.')[0]}", "scale")


def _located(url: str | PathLike[str]) -> tuple[Any, str]:
    """Return the file system of a path or a URL, and the path there."""
    try:
        import_module("pyarrow")
        url_to_fs = import_module("fsspec.core").url_to_fs
    except ImportError as error:
        raise _missing_extra(error) from None
    try:
        fs, path = url_to_fs(os.fspath(url))
    except ImportError as error:  # it knows which package does
        raise InvalidInput(f"{shown(url)} needs another package: {error}.") from None
    except ValueError as error:
        raise InvalidInput(f"{shown(url)} is not a location that fsspec knows: {error}.") from None
    return fs, path


# The folder of the answers


@contextmanager
def _refusals_in_words(out: str | PathLike[str]) -> Iterator[None]:
    """Turn errors of the file system of the answers into a sentence."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"{out} cannot be written: {error.strerror or error}. Finished shards stay: once that "
            "is mended, the same call goes on."
        ) from error


def _make_folder(job: Job) -> None:
    """Make the folder of the answers; refuse one that holds anything else."""
    fs = job.sink
    fs.makedirs(f"{job.out}/_records" if job.records else job.out, exist_ok=True)
    names = {Path(path).name for path in fs.find(job.out)}
    is_ours = "_question.json" in names
    if not is_ours and any(name != LOCK and not name.endswith(".part") for name in names):
        raise InvalidInput(f"{job.out} holds other files; choose another folder for the answers.")


LOCK = "_lock"
"""The file in the folder of the answers that a run locks."""


@contextmanager
def _locked(job: Job) -> Iterator[None]:
    """Lock the folder of the answers for one run; the lock ends with its process, even if killed.

    Only folders of this machine are locked, for few other file systems can be. Elsewhere, two runs
    at once write the same shards, but the run that ends first may remove the partial files of the
    other, as if a worker that was killed had left them (see `_tidy`).
    """
    try:
        fcntl = import_module("fcntl")
    except ImportError:  # on Windows
        fcntl = None
    if fcntl is None or "file" not in job.sink.protocol:
        yield
        return
    with Path(job.out, LOCK).open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(
                f"Another run is writing its answers to {job.out}. Wait until it has ended, or "
                "choose another folder."
            ) from None
        except OSError:  # some network file systems have no locks either
            pass
        yield


def _claim_folder(job: Job, question: dict[str, Any]) -> None:
    """Write the question into the folder, and remove the manifest of its last run.

    A folder with answers to another question is refused.
    """
    fs, file = job.sink, f"{job.out}/_question.json"
    if not fs.exists(file):
        put(fs, file, question)
    try:
        with fs.open(file) as opened:
            earlier = dict(json.load(opened))
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(
            f"{file} is damaged, and nothing else says to which question the answers there are. "
            "Choose another folder, or remove this one."
        ) from None
    differing = [k for k in {**earlier, **question} if earlier.get(k) != question.get(k)]
    if differing:
        raise InvalidInput(
            f"{job.out} holds answers to another question: there, {some(differing, 8, str)} "
            "differs. Choose another folder, or remove this one."
        )
    if fs.exists(f"{job.out}/_manifest.json"):
        fs.rm(f"{job.out}/_manifest.json")


def _tidy(job: Job, fragments: Sequence[Fragment]) -> None:
    """Remove shards of rows that have changed, and partial files of workers that were killed."""
    current = {fragment.shard for fragment in fragments}
    for path in job.sink.find(job.out):
        name = Path(path).name
        # a shard, its sums, or a file of its records
        shard = re.fullmatch(r"([0-9a-f]{32})(-\d{5})?\.(parquet|json)", name)
        is_outdated = shard is not None and shard[1] not in current
        is_partial = name.startswith("_") and name.endswith(".part")
        if is_outdated or is_partial:
            job.sink.rm(path)


# The work


def _collect(
    outcomes: Generator[Outcome], shards: int, *, progress: bool | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Wait for all outcomes; return shard → summary, and file → why it failed."""
    summaries: dict[str, Any] = {}
    failed: dict[str, str] = {}
    # closed also when it is not exhausted: that ends the workers
    with closing(outcomes), _progress_bar(shards, show=progress) as advance:
        for fragment, outcome in outcomes:
            if isinstance(outcome, str):
                failed[fragment.name] = outcome
                advance(0)
            elif "unwritable" in outcome:
                raise OSError(outcome["unwritable"])
            else:
                summaries[fragment.shard] = outcome
                advance(outcome["rows"])
    return summaries, dict(sorted(failed.items()))


def _report(
    summaries: Collection[Mapping[str, Any]], failed: dict[str, str], seconds: float
) -> BatchReport:
    """Add up the summaries of all shards."""
    statuses, costs = Counter[str](), Counter[str]()
    for summary in summaries:
        statuses.update(summary["statuses"])
        costs.update(summary["costs"])
    return BatchReport(
        rows=sum(summary["rows"] for summary in summaries),
        found=sum(summary["found"] for summary in summaries),
        statuses=dict(sorted(statuses.items())),
        cost={share: cost_of(costs, share) for share in (0.1, 0.5, 0.9, 1.0)},
        shards=len(summaries),
        skipped=sum("skipped" in summary for summary in summaries),
        failed=failed,
        seconds=seconds,
    )


@contextmanager
def _progress_bar(shards: int, *, show: bool | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yield the function to call with the rows of each shard that is done."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("shards, {task.fields[rate]:.3g} rows/s,"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("left"),
    )
    console = Console(stderr=True)
    with progress.Progress(*columns, console=console, speed_estimate_period=600) as bar:
        task, start, done = bar.add_task("", total=shards, rate=0.0), perf_counter(), 0

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            bar.update(task, advance=1, rate=done / (perf_counter() - start))

        yield advance


def _outcomes(
    job: Job, fragments: Sequence[Fragment], workers: int, scheduler: str | None
) -> Generator[Outcome]:
    """Yield the outcome of each fragment, in the order in which they are done."""
    if scheduler is not None:
        yield from _on_dask(job, fragments, workers, scheduler)
    elif workers > 1:
        yield from _in_processes(job, fragments, workers)
    else:
        yield from ((fragment, attempt(job, fragment)) for fragment in fragments)


def _in_processes(job: Job, fragments: Sequence[Fragment], workers: int) -> Iterator[Outcome]:
    """Yield the outcome of each fragment, from processes of this machine.

    If one process dies, the whole pool breaks, and it is not known which fragment was the cause.
    The fragments that were running become suspects, which are tried again one at a time; one that
    kills its process then fails with a sentence.
    """
    waiting, suspects = deque(fragments), deque[Fragment]()
    start = partial(_start, pickle.dumps(job))
    while waiting or suspects:
        queue, processes = (suspects, 1) if suspects else (waiting, workers)
        # two fragments for each process, so that none waits for its next one
        capacity = 1 if suspects else 2 * workers
        running: dict[Future[Any], Fragment] = {}
        with ProcessPoolExecutor(processes, get_context("spawn"), start) as pool:
            try:
                while queue or running:
                    while queue and len(running) < capacity:
                        # removed once it is submitted, which fails if the pool broke meanwhile
                        running[pool.submit(_next, queue[0])] = queue[0]
                        queue.popleft()
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        outcome = future.result()
                        yield running.pop(future), outcome
            except BrokenProcessPool:
                if queue is suspects:
                    for fragment in running.values():
                        yield fragment, "Its worker died of it twice; perhaps of lack of memory."
                else:
                    suspects.extend(running.values())


WORK: list[bytes] = []
"""In a worker process: its `Job`, pickled."""


def _start(pickled: bytes) -> None:
    """Prepare a worker process, which is to end with its parent, however that ends."""
    WORK.append(pickled)
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


@cache
def _work() -> Job:
    """Return the job of this worker, read when it is first needed.

    An error here is raised by the task that needs it; in ``_start`` it would break the pool.
    """
    job: Job = pickle.loads(WORK[0])  # noqa: S301 (of the process that started this one)
    return job


def _next(fragment: Fragment) -> dict[str, Any] | str:
    return attempt(_work(), fragment)


def _on_dask(
    job: Job, fragments: Sequence[Fragment], workers: int, scheduler: str
) -> Iterator[Outcome]:
    """Yield the outcome of each fragment, from a Dask cluster.

    The scheduler gives a fragment of a worker that died to another one, a few times.
    """
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as error:
        raise _missing_extra(error) from None
    local = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(**local) if scheduler == "local" else Client(scheduler)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"No Dask scheduler answers at {scheduler!r}: {error}.") from error
    with client:
        # The job is a result, and not scattered data: the scheduler computes a result again if the
        # worker that holds it dies.
        shared = client.submit(_same, job, pure=False)
        futures = {client.submit(attempt, shared, f, pure=False): f for f in fragments}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except KilledWorker as error:
                yield futures[future], f"Its workers died of it: {error}"


def _same(job: Job) -> Job:
    return job
