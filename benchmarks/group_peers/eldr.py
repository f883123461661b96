"""The data, encoders, translations and numbers that the authors published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups import Network

FloatArray = NDArray[np.float64]

RADIUS = {"Iris": 0.75, "Housing": 1.5, "Heart": 1.0}


@dataclass(frozen=True)
class Published:
    """One of their data sets.

    ``paper`` has a line for each k: k, correctness and coverage of theirs, those of the difference
    of means.
    """

    name: str
    X: FloatArray
    groups: list[Any]
    network: Network
    radius: float
    paper: FloatArray


def published(folder: Path, name: str) -> Published:
    """Read one of them; their first data row is lost, as they read the file with a header."""
    kept = np.load(folder / "results" / name / "encoder_float32.npz")
    layers = range(4)
    network = Network([kept[f"W{i}"] for i in layers], [kept[f"b{i}"] for i in layers], "elu")
    X = np.loadtxt(folder / name.lower() / "X.tsv")[1:]
    groups = [None if label < 0 else int(label) for label in kept["labels"]]
    paper = np.loadtxt(folder / "results" / name / "out.csv", delimiter=",")
    return Published(name, X, groups, network, RADIUS[name], paper)
