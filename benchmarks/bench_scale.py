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
from harness.report import Claim, Section, is_quick, publish
from harness.timing import number
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.scale import run

ROWS = 10_000_000
COLUMNS = 30
BLOCK = 2**16
TEXT = f"""
A data set of {number(ROWS)} rows × {COLUMNS} float64 columns in Parquet files, explained by a
pipeline (standardised, logistic regression; Manhattan costs, answers within what the data show)
into another data set, with all columns of the report. Half of the rows have the label already, and
are written as they are. `predict_proba` reads the same files in blocks of the same process, and
throws its probabilities away; two processes that do no more show what a second one gains on this
machine. CPU time is that of all processes together. Memory is the peak of resident memory of one
worker, with the libraries that it imports.
"""


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
        times = list(pool.map(partial(predicted, model), [files[::2], files[1::2]]))
        return perf_counter() - start, sum(cpu for _, cpu, _ in times)


@contextmanager
def peaks_of_children() -> Any:
    """The peak of resident memory of each child process, in bytes."""
    peaks: dict[int, int] = {}
    ended = Event()

    def watch() -> None:
        while not ended.wait(0.05):
            for child in psutil.Process().children(recursive=True):
                try:
                    peaks[child.pid] = max(peaks.get(child.pid, 0), child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    thread = Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def cpu_of_all() -> float:
    """CPU seconds of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def measured(task: Callable[[], Any]) -> tuple[Any, float, float, float]:
    """What a task gives, its seconds on the clock and of CPU, and the most memory of a child."""
    with peaks_of_children() as peaks:
        start, cpu = perf_counter(), cpu_of_all()
        result = task()
        return result, perf_counter() - start, cpu_of_all() - cpu, max(peaks.values(), default=0)


def main() -> None:
    quick = is_quick()
    count, files = (40_000, 2) if quick else (ROWS, 10)
    model, data = the_model()
    explainer = cp.Explainer(model, data=data)
    explainer.explain(data, "granted", progress=False)
    with tempfile.TemporaryDirectory(dir=os.environ.get("COUNTERPOINT_SCRATCH")) as scratch:
        rows = Path(scratch, "rows")
        rows.mkdir()
        write_rows(rows, count, files)
        paths = sorted(rows.iterdir())
        alone, cpu, clock = predicted(model, paths)
        both = by_two(model, paths)
        lines = [
            ("predict_proba alone", "–", in_seconds(alone), "–", "–"),
            ("with reading", in_seconds(clock), in_seconds(cpu), "–", "–"),
            ("with reading, by two processes", *map(in_seconds, both), "–", "–"),
        ]
        clocks, memory = {}, 0.0
        for workers in (1, 2):
            task = partial(
                run, explainer, rows, Path(scratch, f"out{workers}"), "granted", workers=workers
            )
            result, clocks[workers], used, peak = measured(task)
            assert result.rows == count
            memory = peak / 2**20
            times = in_seconds(clocks[workers]), in_seconds(used)
            rate = f"{number(count / clocks[workers])} rows/s"
            name = f"explained, {workers} worker{'s' * (workers > 1)}"
            lines.append((name, *times, rate, f"{number(memory)} MiB" if peak else "–"))
        rerun = measured(partial(run, explainer, rows, Path(scratch, "out2"), "granted"))[1]
        small = Path(scratch, "small")
        small.mkdir()
        for k in range(20):
            data.head(1).assign(x0=float(k)).to_parquet(small / f"{k}.parquet")
        shard = measured(partial(run, explainer, small, Path(scratch, "few"), "granted"))[2] / 20
    two, faster, limit = clocks[2], clocks[1] / clocks[2], number(clock / both[0])
    claims = [
        Claim(
            "two workers, on the clock",
            f"≤ 10 × {what}",
            f"{number(two / base)}×",
            two <= 10 * base,
        )
        for what, base in (("predict_proba alone", alone), ("predict_proba with reading", clock))
    ]
    expected = f"≥ 1.8 ({limit} to the model)"
    claims += [
        Claim("two workers, speed-up", expected, number(faster), faster >= 1.8),
        Claim("memory of a worker", "below 1024 MiB", f"{number(memory)} MiB", memory < 1024),
    ]
    columns = ("what", "clock", "CPU", "rate", "memory of a worker")
    note = f"""A shard of one row takes {number(1e3 * shard)} ms of CPU time, and to find that all
        shards of {number(count)} rows are there already {in_seconds(rerun)}."""
    section = Section("", TEXT, columns, lines, [note], claims=claims)
    publish("scale", "Batches", [section], quick=quick, packages=("pyarrow", "distributed"))


if __name__ == "__main__":
    main()
