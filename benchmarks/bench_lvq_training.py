"""Training of learning vector quantization: how accurate on folds, and how long a fit takes.

Beside it the same models of sklearn-lvq, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from _common import HERE, Goal, Report, data_file, finish, is_quick, milliseconds
from bench_peers import Peer, environment
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint import lvq

PROTOTYPES = 3
REPEATS = 3
MODELS = ("GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "RSLVQ", "MRSLVQ", "LMRSLVQ")
HOUSES = [
    *("Total Bsmt SF", "1st Flr SF", "2nd Flr SF", "Gr Liv Area", "Wood Deck SF"),
    *("Open Porch SF", "3Ssn Porch", "Screen Porch", "Pool Area"),
]
ACCURACY = {
    "breast cancer, PCA 5": {"GLVQ": 0.940, "GMLVQ": 0.953, "LGMLVQ": 0.956},
    "digits, PCA 10": {"GLVQ": 0.923, "GMLVQ": 0.939, "LGMLVQ": 0.963},
    "houses, 9 features": {"GLVQ": 0.831, "GMLVQ": 0.834, "LGMLVQ": 0.855},
}
PEER = Peer(
    "sklearn-lvq-1.1.1",
    "run_sklearn_lvq.py",
    (("sklearn-lvq==1.1.1", "numpy==1.23.5", "scipy==1.9.3", "scikit-learn==1.1.3"),),
    MODELS[:4],
)
WITHOUT_PEER = ("digits, 64 features",)
QUESTION = """
Mean accuracy over four folds (shuffled with seed 42) and the median CPU time of a fit. 3 prototypes
a class, everything else as it comes. PCA, where it is named, and StandardScaler are fitted on the
training fold.
"""
METHOD = """
sklearn-lvq 1.1.1 is the version of 2020, with the versions of NumPy, SciPy and scikit-learn that it
still runs on; random_state 0. It has none of the models of the likelihood ratio. On all 64 features
of digits it is left out for the time it takes.
"""


@dataclass(frozen=True)
class Fold:
    """Training and test rows, scaled."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def folds(X: np.ndarray, y: np.ndarray, *steps: Any) -> list[Fold]:
    """Four of them."""
    made = []
    for train, test in KFold(4, shuffle=True, random_state=42).split(X):
        before = make_pipeline(*steps, StandardScaler()).fit(X[train])
        made.append(Fold(before.transform(X[train]), y[train], before.transform(X[test]), y[test]))
    return made


def subjects(*, quick: bool) -> dict[str, list[Fold]]:
    """The data sets by name."""
    found = {"breast cancer, PCA 5": folds(*load_breast_cancer(return_X_y=True), PCA(5))}
    found["iris"] = folds(*load_iris(return_X_y=True))
    found["wine"] = folds(*load_wine(return_X_y=True))
    if quick:
        return found
    digits = load_digits(return_X_y=True)
    found["digits, PCA 10"] = folds(*digits, PCA(10))
    found["digits, 64 features"] = folds(*digits)
    path = data_file("ames/ames_raw.csv")
    if path is not None:
        frame = pd.read_csv(path)
        labels = (frame["SalePrice"] >= 160_000).to_numpy().astype(int)
        found["houses, 9 features"] = folds(frame[HOUSES].fillna(0.0).to_numpy(float), labels)
    return found


Measured = dict[tuple[str, str], tuple[float, float]]


def ours(data: dict[str, list[Fold]]) -> Measured:
    """Accuracy and seconds by data set and model."""
    found = {}
    for name, parts in data.items():
        for model in MODELS:
            right, seconds = [], []
            for fold in parts:
                for _ in range(REPEATS):
                    estimator = getattr(lvq, model)(PROTOTYPES, random_state=0)
                    start = process_time()
                    estimator.fit(fold.X, fold.y)
                    seconds.append(process_time() - start)
                right.append(estimator.score(fold.X_test, fold.y_test))
            found[name, model] = float(np.mean(right)), float(np.median(seconds))
    return found


def theirs(data: dict[str, list[Fold]]) -> Measured:
    """The same for sklearn-lvq; nothing if it does not install or run."""
    python = environment(PEER)
    if python is None:
        return {}
    wanted = [name for name in data if name not in WITHOUT_PEER]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number, name in enumerate(wanted):
            for i, fold in enumerate(data[name]):
                np.savez(folder / f"{number}-{i}.npz", **vars(fold))
        command = [str(python), str(HERE / "peers" / PEER.script), str(folder), str(PROTOTYPES)]
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        clean |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{PEER.name} is left out: it does not run here ({last}).")
            return {}
        results = json.loads((folder / "results.json").read_text())
    frame = pd.DataFrame(results)
    frame["data"] = [wanted[int(fold.split("-")[0])] for fold in frame["fold"]]
    grouped = frame.groupby(["data", "model"])
    right, seconds = grouped["right"].mean(), grouped["cpu"].median()
    return {key: (float(right[key]), float(seconds[key])) for key in right.index}


def goals(mine: Measured, peer: Measured) -> list[Goal]:
    """Accuracies that were promised; and never slower than the peer."""
    made = [
        Goal(f"{name}, {model}, accuracy", f"at least {goal}", f"{right:.4f}", right >= goal)
        for name, asked in ACCURACY.items()
        for model, goal in asked.items()
        if (name, model) in mine
        for right, _ in [mine[name, model]]
    ]
    for (name, model), (_, limit) in peer.items():
        seconds = mine[name, model][1]
        asked = f"at most {milliseconds(limit)}"
        made.append(Goal(f"{name}, {model}, a fit", asked, milliseconds(seconds), seconds <= limit))
    return made


def line(key: tuple[str, str], mine: Measured, peer: Measured) -> Sequence[str]:
    """One row of the table."""
    right, seconds = mine[key]
    other = peer.get(key)
    if other is None:
        return (*key, f"{right:.4f}", milliseconds(seconds), "–", "–", "–")
    ratio = f"{other[1] / seconds:.0f}×"
    return (
        *key,
        f"{right:.4f}",
        milliseconds(seconds),
        f"{other[0]:.4f}",
        milliseconds(other[1]),
        ratio,
    )


def main() -> None:
    quick = is_quick()
    data = subjects(quick=quick)
    mine = ours(data)
    peer = {} if quick else theirs(data)
    columns = ("data", "model", "accuracy", "a fit", "sklearn-lvq", "a fit of it", "faster")
    report = Report(
        "lvq_training",
        "Training of learning vector quantization",
        QUESTION,
        columns,
        [line(key, mine, peer) for key in mine],
        goals(mine, peer),
        [METHOD],
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
