"""Training of learning vector quantization: how accurate on folds, and how long a fit takes.

Beside it the same models of sklearn-lvq, in an environment of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness.data import HOUSES, PRICE, ames
from harness.peers import Peer, run
from harness.report import Claim, Section, is_quick, publish
from harness.timing import milliseconds, timed
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint import lvq

PROTOTYPES = 3
REPEATS = 3
MODELS = ("GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "RSLVQ", "MRSLVQ", "LMRSLVQ")
ACCURACY = {
    "breast cancer, PCA 5": {"GLVQ": 0.940, "GMLVQ": 0.953, "LGMLVQ": 0.956},
    "digits, PCA 10": {"GLVQ": 0.923, "GMLVQ": 0.939, "LGMLVQ": 0.963},
    "houses, 9 features": {"GLVQ": 0.831, "GMLVQ": 0.834, "LGMLVQ": 0.855},
}
PEER = Peer(
    "sklearn-lvq-1.1.1",
    "run_sklearn_lvq.py",
    (("sklearn-lvq==1.1.1", "numpy==1.23.5", "scipy==1.9.3", "scikit-learn==1.1.3"),),
)
TEXT = """
Mean accuracy over four folds (shuffled with seed 42) and the median CPU time of a fit. 3 prototypes
a class, everything else as it comes. PCA, where it is named, and StandardScaler are fitted on the
training fold. sklearn-lvq 1.1.1 is the version of 2020, with the versions of NumPy, SciPy and
scikit-learn that it still runs on; random_state 0. It has none of the models of the likelihood
ratio.
"""
Measured = dict[tuple[str, str], tuple[float, float]]
"""Data set and model → accuracy and seconds."""


@dataclass(frozen=True)
class Fold:
    """Training and test rows, scaled."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def folds(X: np.ndarray, y: np.ndarray, *steps: Any) -> Iterator[Fold]:
    """Four of them."""
    for train, test in KFold(4, shuffle=True, random_state=42).split(X):
        before = make_pipeline(*steps, StandardScaler()).fit(X[train])
        yield Fold(before.transform(X[train]), y[train], before.transform(X[test]), y[test])


def subjects(*, quick: bool) -> Iterator[tuple[str, list[Fold]]]:
    """The data sets by name."""
    yield "breast cancer, PCA 5", [*folds(*load_breast_cancer(return_X_y=True), PCA(5))]
    yield "iris", [*folds(*load_iris(return_X_y=True))]
    yield "wine", [*folds(*load_wine(return_X_y=True))]
    if quick:
        return
    yield "digits, PCA 10", [*folds(*load_digits(return_X_y=True), PCA(10))]
    houses = ames()
    if houses is not None:
        labels = (houses["SalePrice"] >= PRICE).to_numpy().astype(int)
        yield "houses, 9 features", [*folds(houses[list(HOUSES)].to_numpy(), labels)]


def ours(data: dict[str, list[Fold]]) -> Measured:
    """Accuracy and seconds of our models."""
    results = {}
    for name, splits in data.items():
        for model in MODELS:
            accuracy, seconds = [], []
            for fold in splits:
                for _ in range(REPEATS):
                    estimator = getattr(lvq, model)(PROTOTYPES, random_state=0)
                    seconds.append(timed(lambda e=estimator, f=fold: e.fit(f.X, f.y))[1])
                accuracy.append(estimator.score(fold.X_test, fold.y_test))
            results[name, model] = float(np.mean(accuracy)), float(np.median(seconds))
    return results


def theirs(data: dict[str, list[Fold]]) -> Measured:
    """The same for sklearn-lvq; nothing if it does not install or run."""
    names = list(data)
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(names):
            for i, fold in enumerate(data[name]):
                np.savez(Path(place) / f"{number}-{i}.npz", **vars(fold))
        results = run(PEER, Path(place), str(PROTOTYPES))
    if results is None:
        return {}
    frame = pd.DataFrame(results)
    frame["data"] = [names[int(fold.split("-")[0])] for fold in frame["fold"]]
    grouped = frame.groupby(["data", "model"])
    accuracy, seconds = grouped["right"].mean(), grouped["cpu"].median()
    return {key: (float(accuracy[key]), float(seconds[key])) for key in accuracy.index}


def claims(mine: Measured, peer: Measured) -> Iterator[Claim]:
    """Accuracies that were promised; and never slower than the peer."""
    for name, goals in ACCURACY.items():
        for model, goal in goals.items():
            if (name, model) in mine:
                accuracy, what = mine[name, model][0], f"{name}, {model}, accuracy"
                yield Claim(what, f"at least {goal}", f"{accuracy:.4f}", accuracy >= goal)
    for key, (_, limit) in peer.items():
        seconds, what = mine[key][1], f"{', '.join(key)}, a fit"
        yield Claim(what, f"at most {milliseconds(limit)}", milliseconds(seconds), seconds <= limit)


def main() -> None:
    quick = is_quick()
    data = dict(subjects(quick=quick))
    mine = ours(data)
    peer = {} if quick else theirs(data)
    rows = []
    for key, (accuracy, seconds) in mine.items():
        cells = ("–", "–", "–")
        if key in peer:
            other, time = peer[key]
            cells = (f"{other:.4f}", milliseconds(time), f"{time / seconds:.0f}×")
        rows.append((*key, f"{accuracy:.4f}", milliseconds(seconds), *cells))
    columns = ("data", "model", "accuracy", "a fit", "sklearn-lvq", "a fit of it", "faster")
    section = Section("", TEXT, columns, rows, claims=list(claims(mine, peer)))
    publish("lvq_training", "Training of learning vector quantization", [section], quick=quick)


if __name__ == "__main__":
    main()
