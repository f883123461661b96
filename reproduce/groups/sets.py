"""Where the data are, what their features are called, and the explanations that are stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from _common import data_file
from group_peers.eldr import RADIUS, Published, published

from counterpoint.groups import DifferenceOfMeans, Translations

__all__ = ["NAMES", "Published", "cells_file", "folder", "means_of", "named", "sets", "stored"]

NAMES = {
    "Iris": ("sepal length", "sepal width", "petal length", "petal width"),
    "Housing": (
        *("crime", "large lots", "industry", "river", "nitric oxides", "rooms", "age"),
        *("distance", "highways", "tax", "pupils", "B", "low status"),
    ),
    "Heart": (
        *("age", "sex", "chest pain", "blood pressure", "cholesterol", "blood sugar", "ECG"),
        *("heart rate", "angina", "ST depression", "ST slope", "vessels", "thalassemia"),
    ),
}
"""Table 2, in words."""


def folder() -> Path | None:
    """What the authors published; None if it is not here."""
    file = data_file("eldr/results/Iris/out.csv")
    return None if file is None else file.parents[2]


def cells_file() -> Path | None:
    """Single cells; None if they are not here."""
    return data_file("scrna/pbmc68k_reduced.npz")


def sets(where: Path, *, quick: bool) -> list[Published]:
    """Their data sets."""
    return [published(where, name) for name in (("Iris",) if quick else RADIUS)]


def stored(where: Path, data: Published, k: int) -> Translations:
    """Their explanation for k features, truncated; the first group is the reference."""
    rest = np.load(where / "results" / data.name / f"deltas{k}.npy")
    labels = sorted({label for label in data.groups if label is not None})
    return Translations.of(np.vstack([np.zeros(rest.shape[1]), rest]), labels).truncated(k)


def means_of(data: Published) -> DifferenceOfMeans:
    """The difference of means, which also judges other explanations."""
    means = DifferenceOfMeans(data.network, radius=data.radius, costs=np.ones(data.X.shape[1]))
    return means.fit(data.X, data.groups)


def named(data: str, one: Translations, i: int, j: int) -> dict[str, float]:
    """Name → change from one group to another, of the features that change."""
    change = one.translation(i, j)
    order = np.argsort(-np.abs(change), kind="stable")
    return {NAMES[data][f]: float(change[f]) for f in order if change[f]}
