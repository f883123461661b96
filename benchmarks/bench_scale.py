"""Batches larger than memory: time and memory of one process and of two, against the model."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from _common import Goal, Report, finish, is_quick, number
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.scale import run

ROWS = 10_000_000
COLUMNS = 30
BLOCK = 2**16
QUESTION = f"""
A data set of {number(ROWS)} rows × {COLUMNS} float64 columns in Parquet files, explained by a
pipeline (standardised, logistic regression; Manhattan costs, answers within what the data show)
into another data set, with all columns of the report. `predict_proba` reads the same files in
blocks of the same process, and throws its probabilities away; two processes that do no more show
what a second one gains on this machine.
"""
NOTES = [
    """CPU time is that of all processes together. Memory is the peak of resident memory of one
    worker, with the libraries that it imports.""",
    """Half of the rows have the label that is asked for already, and are written as they are.""",
]


def in_seconds(time: float) -> str:
    return f"{number(time)} s"


def write_rows(folder: Path, count: int, files: int) -> None:
    """Random rows, made and written block by block."""
    random = np.random.default_rng(0)
    names = [f"x{j}" for j in range(COLUMNS)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    for k in range(files):
        with pq.ParquetWriter(folder / f"part{k:02}.parquet", schema, use_dictionary=False) as file:
            for start in range(0, count // files, BLOCK):
                size = min(BLOCK, count // files - start)
                cells = random.normal(size=(COLUMNS, size))
                file.write_batch(pa.RecordBatch.from_arrays([*map(pa.array, cells)], schema=schema))


def the_model() -> tuple[Any, pd.DataFrame]:
    random = np.random.default_rng(1)
    X = pd.DataFrame(random.normal(size=(4000, COLUMNS))).add_prefix("x")
    score = X.to_numpy() @ random.normal(size=COLUMNS) + random.normal(size=len(X))
    labels = np.where(score > 0, "granted", "refused")
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, labels), X


def predicted(model: Any, files: Sequence[Path]) -> tuple[float, float, float]:
    """Seconds of `predict_proba` alone; of CPU, and on the clock, with reading."""
    alone, start, cpu = 0.0, perf_counter(), process_time()
    for path in files:
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20)
        for batch in file.iter_batches(BLOCK, use_threads=False):
            rows = batch.to_pandas()
            begun = process_time()
            model.predict_proba(rows)
            alone += process_time() - begun
    return alone, process_time() - cpu, perf_counter() - start


def by_two(model: Any, files: Sequence[Path]) -> tuple[float, float]:
    """The same by two processes that share the files: seconds on the clock, and of CPU."""
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(partial(predicted, model), [files[:1], files[1:2]]))  # both are up
        start = perf_counter()
        told = list(pool.map(partial(predicted, model), [files[::2], files[1::2]]))
        return perf_counter() - start, sum(cpu for _, cpu, _ in told)


@contextmanager
def peaks_of_children() -> Any:
    """The peak of resident memory of each child process, in bytes."""
    found: dict[int, int] = {}
    ended = Event()

    def watch() -> None:
        while not ended.wait(0.05):
            for child in psutil.Process().children(recursive=True):
                try:
                    found[child.pid] = max(found.get(child.pid, 0), child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    thread = Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def cpu_of_all() -> float:
    """CPU seconds of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(task: Callable[[], Any]) -> tuple[Any, float, float, float]:
    """What a task gives, its seconds on the clock and of CPU, and the most memory of a child."""
    with peaks_of_children() as peaks:
        start, cpu = perf_counter(), cpu_of_all()
        told = task()
        return told, perf_counter() - start, cpu_of_all() - cpu, max(peaks.values(), default=0)


def main() -> None:
    quick = is_quick()
    count, files = (40_000, 2) if quick else (ROWS, 10)
    model, data = the_model()
    explainer = cp.Explainer(model, data=data)
    explainer.explain(data, "granted", progress=False)
    root = os.environ.get("COUNTERPOINT_SCRATCH")
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        rows = Path(scratch, "rows")
        rows.mkdir()
        write_rows(rows, count, files)
        paths = sorted(rows.iterdir())
        alone, cpu, clock = predicted(model, paths)
        both = by_two(model, paths)
        lines = [
            ("predict_proba alone", number(count), "–", in_seconds(alone), "–", "–"),
            ("with reading", number(count), in_seconds(clock), in_seconds(cpu), "–", "–"),
            ("with reading, by two processes", number(count), *map(in_seconds, both), "–", "–"),
        ]
        clocks, most = {}, 0.0
        for workers in (1, 2):
            out = Path(scratch, f"out{workers}")
            told, took, used, peak = measured(
                partial(run, explainer, rows, out, "granted", workers=workers)
            )
            assert told.rows == count
            clocks[workers], most = took, peak / 2**20
            times = in_seconds(took), in_seconds(used), f"{number(count / took)} rows/s"
            memory = f"{number(most)} MiB" if peak else "–"
            name = f"explained, {workers} worker{'s' * (workers > 1)}"
            lines.append((name, number(count), *times, memory))
        again = measured(partial(run, explainer, rows, out, "granted"))[1]
        few = Path(scratch, "few")
        few.mkdir()
        for k in range(20):
            data.head(1).assign(x0=float(k)).to_parquet(few / f"{k}.parquet")
        small = measured(partial(run, explainer, few, Path(scratch, "small"), "granted"))[2] / 20

    def goal(what: str, asked: str, found: float, satisfied: bool, unit: str = "×") -> Goal:  # noqa: FBT001
        return Goal(what, asked, f"{number(found)}{unit}", satisfied)

    two, faster = clocks[2], clocks[1] / clocks[2]
    what, limit = "two workers, on the clock", number(clock / both[0])
    goals = [
        goal(what, "≤ 10 × predict_proba alone", two / alone, two <= 10 * alone),
        goal(what, "≤ 10 × predict_proba with reading", two / clock, two <= 10 * clock),
        goal("two workers, speed-up", f"≥ 1.8 ({limit} to the model)", faster, faster >= 1.8, ""),
        goal("memory of a worker", "below 1024 MiB", most, most < 1024, " MiB"),
    ]
    parts = f"""A shard of one row takes {number(1e3 * small)} ms of CPU time, and to find that all
        shards of {number(count)} rows are there already {in_seconds(again)}."""
    columns = ("what", "rows", "clock", "CPU", "rate", "memory of a worker")
    finish(
        Report(
            "scale",
            "Batches",
            QUESTION,
            columns,
            lines,
            goals,
            [*NOTES, parts],
            packages=("pyarrow", "distributed"),
        ),
        quick=quick,
    )


if __name__ == "__main__":
    main()
