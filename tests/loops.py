"""Compiled loops, with every index checked, are compiled by one process for all others.

That takes most of a minute. `start` sets a process about it, while the workers of a test run
collect their tests and run those that need no loops; whoever needs a loop waits for it and reads
the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

_THREADS = RLock()
_HELD: list[int] = []
"""The lock, as often as this process has entered it: what compiles a function compiles others."""


@contextmanager
def alone() -> Iterator[None]:
    """No other process that asks for this compiles; a process that dies leaves the lock."""
    import fcntl

    with _THREADS:
        if not _HELD:
            folder = Path(os.environ["NUMBA_CACHE_DIR"])
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
            fcntl.flock(lock, fcntl.LOCK_EX)
        else:
            lock = _HELD[0]
        _HELD.append(lock)
        try:
            yield
        finally:
            _HELD.pop()
            if not _HELD:
                os.close(lock)


def take_turns() -> None:
    """In this process, whatever has to be compiled is compiled by one process at a time."""
    from numba.core.dispatcher import Dispatcher

    compile_ = Dispatcher.compile

    def compile_alone(self: Any, sig: Any) -> Any:
        with alone():
            return compile_(self, sig)

    Dispatcher.compile = compile_alone


def start() -> subprocess.Popen[bytes]:
    """Compile in a process of its own, which has the lock when this returns."""
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def run() -> None:
    """Explain a row by each family of loops: whole numbers and categories, and trees."""
    import numpy as np
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    import counterpoint as cp

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 9, size=(60, 4)), columns=list("abcd"))
    y = X["a"] - 2 * X["b"] + X["c"] > 0
    rows = X[~y].head(3)
    few = cp.MaxChanges(2)
    cp.explain(LogisticRegression().fit(X, y), rows, True, data=X, constraints=few)
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    cp.explain(forest, rows, True, data=X, cost=cp.Manhattan())


if __name__ == "__main__":
    with alone():
        print("compiling", flush=True)  # noqa: T201 - who started it waits for this line
        run()
