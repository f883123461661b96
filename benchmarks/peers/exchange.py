"""What a peer's process reads and writes, in the peer's own environment: NumPy and pandas only."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


class Task:
    """A standardised logistic regression, training data, rows, and which features may change."""

    def __init__(self, folder: Path) -> None:
        said = json.loads((folder / "task.json").read_text())
        self.train = pd.read_csv(folder / "train.csv")
        self.labels = self.train.pop("label")
        self.rows = pd.read_csv(folder / "rows.csv")
        self.mean, self.scale, self.coef = (
            np.array(said[key]) for key in ("mean", "scale", "coef")
        )
        self.intercept = said["intercept"]
        self.free = said["free"]

    def standardised(self, frame: pd.DataFrame) -> pd.DataFrame:
        """In units of the training data's standard deviation."""
        return (frame - self.mean) / self.scale

    def raw(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Back to the units of the data."""
        return frame * self.scale + self.mean


Explain = Callable[[int], Any]


def run(tools: Mapping[str, Callable[[Task], Explain]]) -> None:
    """Time each tool on each row; write what it returned, null where it found nothing."""
    folder = Path(sys.argv[1])
    task = Task(folder)
    wanted = sys.argv[2].split("|")
    results = []
    for name, prepare in tools.items():
        if name not in wanted:
            continue
        start = time.perf_counter()
        explain = prepare(task)
        result = {"tool": name, "prepare": time.perf_counter() - start}
        result |= {"rows": [], "wall": [], "cpu": []}
        for i in range(len(task.rows)):
            wall, cpu = time.perf_counter(), time.process_time()
            found = explain(i)
            result["cpu"].append(time.process_time() - cpu)
            result["wall"].append(time.perf_counter() - wall)
            result["rows"].append(None if found is None else np.asarray(found, float).tolist())
        results.append(result)
    (folder / "results.json").write_text(json.dumps(results))
