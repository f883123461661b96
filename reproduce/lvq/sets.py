"""The data sets, their models on four folds, and the points that are explained."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from harness.data import HOUSES, PRICE, ames
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint.lvq import GLVQ, GMLVQ, LGMLVQ

MODELS: dict[str, Any] = {"GLVQ": GLVQ, "GMLVQ": GMLVQ, "LGMLVQ": LGMLVQ}
SEED = 42
"""Of the folds; the targets are drawn with it, too."""
FIXED = 5
"""The last features of houses, which stay as they are."""


class Sizes(NamedTuple):
    """How many points of each fold are explained; seconds for each that is searched globally."""

    points: int
    seconds: float


FULL, QUICK = Sizes(15, 5.0), Sizes(1, 1.0)


@dataclass(frozen=True, eq=False)
class Data:
    """Rows and labels, and what comes before the model.

    Parameters
    ----------
    name
        As the paper calls it.
    frame, labels
        Raw rows by name, and (n,) their labels.
    components
        Of PCA; 0 for none.
    fixed
        How many of the model's last features stay as they are.
    """

    name: str
    frame: pd.DataFrame
    labels: np.ndarray
    components: int = 0
    fixed: int = 0

    def steps(self) -> Pipeline:
        """PCA, if any, and then unit variance."""
        first = [PCA(self.components, random_state=0)] if self.components else []
        return make_pipeline(*first, StandardScaler())

    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Positions of the rows to train on, and of the others."""
        return list(KFold(4, shuffle=True, random_state=SEED).split(self.frame))


@dataclass(frozen=True, eq=False)
class Case:
    """A model that was trained on one fold, and points that it did not see.

    Parameters
    ----------
    data, name, model
        The data set, the name of the model, and the model.
    X
        (n, d) the points in the model's space.
    targets
        (n,) the labels that are asked for; none of them is predicted.
    accuracy
        The share of the held-out rows that the model predicts right.
    """

    data: Data
    name: str
    model: Any
    X: np.ndarray
    targets: np.ndarray
    accuracy: float

    @property
    def free(self) -> int:
        """How many features, the first ones, may change."""
        return self.X.shape[1] - self.data.fixed

    @cached_property
    def factors(self) -> np.ndarray:
        """(P, k, d) Ω̃ of each prototype, so that d(x, p) = ‖Ω̃ (x − p)‖²."""
        model, (count, width) = self.model, self.model.prototypes_.shape
        omega = getattr(model, "omegas_", getattr(model, "omega_", np.eye(width)))
        return np.broadcast_to(omega, (count, *omega.shape[-2:]))


def data_sets() -> Iterator[Data]:
    """Those of table 1; houses only where the file is."""
    cancer = load_breast_cancer(as_frame=True)
    yield Data("breast cancer", cancer.data, cancer.target.to_numpy(), 5)
    digits = load_digits(as_frame=True)
    yield Data("digits", digits.data, digits.target.to_numpy(), 10)
    houses = ames()
    if houses is not None:
        labels = (houses["SalePrice"] >= PRICE).to_numpy().astype(int)
        yield Data("houses", houses[list(HOUSES)], labels, fixed=FIXED)


def cases(data: Data, name: str, points: int) -> Iterator[Case]:
    """One for each fold: its first points that are not predicted as the label drawn for them."""
    random, raw = np.random.default_rng(SEED), data.frame.to_numpy(dtype=float)
    for train, test in data.folds():
        before = data.steps().fit(raw[train])
        model = fitted(name, before.transform(raw[train]), data.labels[train])
        X = before.transform(raw[test])
        drawn = [random.choice(model.classes_[model.classes_ != y]) for y in data.labels[test]]
        targets, predicted = np.array(drawn), model.predict(X)
        chosen = np.flatnonzero(predicted != targets)[:points]
        accuracy = float(np.mean(predicted == data.labels[test]))
        yield Case(data, name, model, X[chosen], targets[chosen], accuracy)


def fitted(name: str, X: Any, y: Any) -> Any:
    """A model with the paper's number of prototypes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MODELS[name](3, random_state=0).fit(X, y)
