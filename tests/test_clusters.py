"""Batches on workers that die, on a Dask cluster and on Spark: `make test-clusters` runs these."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import fsspec
import numpy as np
import pandas as pd
import psutil
import pytest
from deadly import Deadly
from test_scale import EXPLAINER, check_complete, content, loans

import counterpoint as cp
from counterpoint.scale import on_spark, run

pytestmark = pytest.mark.slow


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    for k, count in enumerate((40, 70, 5)):
        loans(count).to_parquet(tmp_path / "rows" / f"part{k}.parquet")
    return tmp_path / "rows"


@pytest.fixture
def alone(rows: Path, tmp_path: Path) -> dict[str, bytes]:
    """What one process writes."""
    run(EXPLAINER, rows, tmp_path / "alone", "granted")
    return content(tmp_path / "alone")


def test_what_kills_workers_is_named_and_all_else_is_done(
    rows: Path, alone: dict[str, bytes], tmp_path: Path
):
    fsspec.register_implementation("deadly", Deadly, clobber=True)
    loans(5).to_parquet(rows / "poison.parquet")
    told = run(EXPLAINER, f"deadly://{rows}", tmp_path / "out", "granted", workers=2)
    assert (tmp_path / "killed").exists()
    assert [*told.failed] == ["poison.parquet"]
    assert "died of it twice" in told.failed["poison.parquet"]
    (rows / "poison.parquet").unlink()
    assert run(EXPLAINER, rows, tmp_path / "out", "granted", workers=2).rows == 115
    found = content(tmp_path / "out")
    assert {name: found[name] for name in alone} == alone


def test_a_cluster_of_dask_writes_the_same_bytes(
    rows: Path, alone: dict[str, bytes], tmp_path: Path
):
    program = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    address = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    where = ["--scheduler-file", address]
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    started = [subprocess.Popen([*program, *where, *options], **quiet)]
    program[-1] = "distributed.cli.dask_worker"
    for _ in range(2):
        threads = ["--nthreads", "1", "--no-dashboard", "--local-directory", tmp_path]
        started.append(subprocess.Popen([*program, *where, *threads], **quiet))
    try:
        until = time.monotonic() + 60
        while not address.exists() and time.monotonic() < until:
            time.sleep(0.05)
        scheduler = json.loads(address.read_text())["address"]
        told = run(EXPLAINER, rows, tmp_path / "out", "granted", scheduler=scheduler)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)
    assert (told.rows, told.ok) == (115, True)
    assert content(tmp_path / "out") == alone


def test_a_cluster_is_started_on_this_machine(rows: Path, alone: dict[str, bytes], tmp_path: Path):
    run(EXPLAINER, rows, tmp_path / "out", "granted", workers=2, scheduler="local")
    assert content(tmp_path / "out") == alone


def test_a_scheduler_that_does_not_answer_is_named(rows: Path, tmp_path: Path):
    quick = {"distributed.comm.timeouts.connect": "1s"}
    with (
        dask.config.set(quick),
        pytest.raises(cp.InvalidInput, match="No Dask scheduler answers at 'tcp"),
    ):
        run(EXPLAINER, rows, tmp_path / "out", "granted", scheduler="tcp://127.0.0.1:9")


DRIVER = """
import pickle, sys
import counterpoint as cp
from counterpoint.scale import run
if __name__ == "__main__":
    rows, out = sys.argv[1:]
    explainer = pickle.load(open(f"{rows}/../explainer.pkl", "rb"))
    run(explainer, rows, out, "granted", workers=2, progress=False)
"""


def test_a_driver_that_was_killed_is_taken_up_and_leaves_no_workers(tmp_path: Path):
    (tmp_path / "rows").mkdir()
    for k in range(12):
        loans(4000).to_parquet(tmp_path / "rows" / f"part{k:02}.parquet")
    (tmp_path / "explainer.pkl").write_bytes(pickle.dumps(EXPLAINER))
    (tmp_path / "driver.py").write_text(DRIVER)
    out = tmp_path / "out"
    command = [sys.executable, tmp_path / "driver.py", tmp_path / "rows", out]
    driver = subprocess.Popen(command)
    while len([*out.glob("*.parquet")]) < 2:
        assert driver.poll() is None
        time.sleep(0.01)
    workers = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.wait()
    assert not psutil.wait_procs(workers, timeout=20)[1]
    assert not (out / "_manifest.json").exists()
    told = run(EXPLAINER, tmp_path / "rows", out, "granted")
    assert 2 <= told.skipped < 12
    check_complete(tmp_path / "rows", out)
    assert not [*out.glob("*.part")]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session of Spark on this machine, two workers wide."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none.")
    builder = sql.SparkSession.builder.master("local[2]").appName("batches")
    quiet = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # and not the first one on the path
        session = builder.config(map=quiet).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


# Spark warns of all that it may do with pandas 3, and here it does nothing with it.
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark_gives_the_answers_of_explain(spark: Any, rows: Path):
    parts = [pd.read_parquet(path) for path in sorted(rows.iterdir())]
    came = pd.concat(parts, ignore_index=True).assign(customer=np.arange(115))
    came.to_parquet(rows.parent / "whole.parquet")
    frame = spark.read.parquet(str(rows.parent / "whole.parquet")).repartition(3)
    found = on_spark(frame, EXPLAINER, "granted").toArrow().to_pandas()
    found = found.sort_values("customer", ignore_index=True)
    want = EXPLAINER.explain(came, "granted")
    assert found["customer"].tolist() == came["customer"].tolist()
    assert found["cf_status"].tolist() == [str(status) for status in want.status]
    np.testing.assert_allclose(found["cf_cost"], want.cost, rtol=1e-9)
    assert found["home"].tolist() == want.to_frame()["home"].tolist()
