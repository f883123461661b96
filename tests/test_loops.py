"""What is compiled is compiled by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import loops
import pytest

pytest.importorskip("fcntl")
WAITS = "import loops\nprint('asks', flush=True)\nwith loops.alone():\n    print('has it')"


@pytest.fixture(autouse=True)
def other_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Not the lock of the tests that run beside."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


def waiting() -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(loops.__file__).parent)}
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asks\n"
    return process


def rest(process: subprocess.Popen[str]) -> str:
    assert process.wait(60) == 0
    with process.stdout as out:
        return out.read()


def test_another_process_waits_until_the_outermost_is_done():
    with loops.alone():
        with loops.alone():
            process = waiting()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
    assert rest(process) == "has it\n"


def test_an_error_leaves_the_lock():
    with pytest.raises(ZeroDivisionError), loops.alone():
        raise ZeroDivisionError
    assert rest(waiting()) == "has it\n"
