"""Data sets whose models are explained: standardised by the rows to train on, as in the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from _common import german, heloc
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

__all__ = ["NAMES", "Data", "data_set", "data_sets"]

FloatArray = NDArray[np.float64]
Loaded = tuple[FloatArray, NDArray[np.intp]]


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to train on, their labels, and rows to explain.

    Parameters
    ----------
    name
        What it is.
    X, y
        (n, d) standardised rows, and (n,) labels 0 and 1.
    test, truth
        (m, d) rows that were held out, 30 % of all, and (m,) their labels.
    """

    name: str
    X: FloatArray
    y: NDArray[np.intp]
    test: FloatArray
    truth: NDArray[np.intp]

    @cached_property
    def prototypes(self) -> FloatArray:
        """(2, d) the means of the classes, as the paper takes them: they are not private."""
        return np.stack([self.X[self.y == label].mean(axis=0) for label in (0, 1)])


def _breast_cancer() -> Loaded:
    """Label 1 is malignant."""
    X, y = load_breast_cancer(return_X_y=True)
    return X, 1 - y


def _digits() -> Loaded:
    """Means of 2 × 2 pixels, 4 × 4 of them; label 1 is odd."""
    images, y = load_digits().images, load_digits().target
    return images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(images), -1), y % 2


def _heloc() -> Loaded | None:
    found = heloc()
    return None if found is None else (found[0].to_numpy(float), found[1].to_numpy())


def _german() -> Loaded | None:
    """Without its two columns of words; label 1 is a good customer."""
    found = german()
    if found is None:
        return None
    frame = found[0].select_dtypes("number")
    return frame.to_numpy(float), (found[1].to_numpy() > 0).astype(np.intp)


LOADERS: dict[str, Callable[[], Loaded | None]] = {
    "breast cancer": _breast_cancer,
    "digits": _digits,
    "heloc": _heloc,
    "german": _german,
}
NAMES = tuple(LOADERS)


@cache
def data_set(name: str) -> Data | None:
    """One by its name; None if it is not here."""
    found = LOADERS[name]()
    if found is None:
        return None
    X, test, y, truth = train_test_split(*found, test_size=0.3, random_state=1)
    scaler = StandardScaler().fit(X)
    return Data(name, scaler.transform(X), y, scaler.transform(test), truth)


def data_sets() -> Iterator[Data]:
    """All that are here."""
    yield from (data for data in map(data_set, NAMES) if data is not None)
