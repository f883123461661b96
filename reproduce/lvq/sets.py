"""The data sets, their models on four folds, and the points that are explained."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from _common import data_file
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint.lvq import GLVQ, GMLVQ, LGMLVQ

FloatArray = np.ndarray
MODELS: dict[str, Any] = {"GLVQ": GLVQ, "GMLVQ": GMLVQ, "LGMLVQ": LGMLVQ}
PROTOTYPES = 3
"""Of each class."""
FOLDS = 4
SEED = 42
"""Of the folds; the targets are drawn with it, too."""
HOUSES = (
    *("Total Bsmt SF", "1st Flr SF", "2nd Flr SF", "Gr Liv Area", "Wood Deck SF"),
    *("Open Porch SF", "3Ssn Porch", "Screen Porch", "Pool Area"),
)
PRICE = 160_000
"""Houses of at least this price, in dollars, have label 1."""
FIXED = 5
"""The last features of houses, which stay as they are."""


@dataclass(frozen=True)
class Sizes:
    """How much is done: everything, or enough to see that it works.

    Parameters
    ----------
    points
        How many points of each fold are explained.
    seconds
        For each point that is searched exhaustively.
    lifted
        How many points of each fold are explained in raw features.
    """

    points: int = 15
    seconds: float = 5.0
    lifted: int = 10


FULL = Sizes()
QUICK = Sizes(points=3, seconds=2.0, lifted=1)


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
    components: int
    fixed: int

    @property
    def raw(self) -> FloatArray:
        """(n, p) raw rows."""
        return self.frame.to_numpy(dtype=float)

    def steps(self) -> Pipeline:
        """PCA, if any, and then unit variance."""
        first = [PCA(self.components, random_state=0)] if self.components else []
        return make_pipeline(*first, StandardScaler())

    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Positions of the rows to train on, and of the others."""
        return list(KFold(FOLDS, shuffle=True, random_state=SEED).split(self.raw))


@dataclass(frozen=True, eq=False)
class Case:
    """A model that was trained on one fold, and points that it did not see.

    Parameters
    ----------
    data, name
        The data set, and the name of the model.
    before, model
        From raw rows to the model's space, and the model there.
    rows
        (n,) positions of the points in the data.
    X
        (n, d) the points in the model's space.
    targets
        (n,) the labels that are asked for; none of them is predicted.
    right
        The share of the held-out rows that the model predicts right.
    """

    data: Data
    name: str
    before: Pipeline
    model: Any
    rows: np.ndarray
    X: FloatArray
    targets: np.ndarray
    right: float

    @property
    def free(self) -> int:
        """How many features, the first ones, may change."""
        return self.X.shape[1] - self.data.fixed

    @cached_property
    def factors(self) -> FloatArray:
        """(P, k, d) Ω̃ of each prototype, so that d(x, p) = ‖Ω̃ (x − p)‖²."""
        model, (count, width) = self.model, self.model.prototypes_.shape
        found = {
            "GLVQ": lambda: np.eye(width),
            "GMLVQ": lambda: model.omega_,
            "LGMLVQ": lambda: model.omegas_,
        }[self.name]()
        return np.broadcast_to(found, (count, *found.shape[-2:]))


def data_sets() -> Iterator[Data]:
    """Those of table 1; houses only where the file is."""
    cancer = load_breast_cancer(as_frame=True)
    yield Data("breast cancer", cancer.data, cancer.target.to_numpy(), 5, 0)
    digits = load_digits(as_frame=True)
    yield Data("digits", digits.data, digits.target.to_numpy(), 10, 0)
    houses = ames()
    if houses is not None:
        labels = (houses["SalePrice"] >= PRICE).to_numpy().astype(int)
        yield Data("houses", houses[list(HOUSES)], labels, 0, FIXED)


def ames() -> pd.DataFrame | None:
    """Order, price and the nine features of 2930 houses; None where the file is not."""
    path = data_file("ames/ames_raw.csv")
    if path is None:
        return None
    frame = pd.read_csv(path, usecols=["Order", "SalePrice", *HOUSES])
    return frame.fillna(0.0).astype(float)


def cases(data: Data, name: str, points: int) -> Iterator[Case]:
    """One for each fold: its first points that are not predicted as the label drawn for them."""
    random = np.random.default_rng(SEED)
    for train, held in data.folds():
        before = data.steps().fit(data.raw[train])
        model = fitted(name, before.transform(data.raw[train]), data.labels[train])
        X = before.transform(data.raw[held])
        drawn = [random.choice(model.classes_[model.classes_ != y]) for y in data.labels[held]]
        targets, predicted = np.array(drawn), model.predict(X)
        chosen = np.flatnonzero(predicted != targets)[:points]
        right = float(np.mean(predicted == data.labels[held]))
        yield Case(data, name, before, model, held[chosen], X[chosen], targets[chosen], right)


def fitted(name: str, X: Any, y: Any) -> Any:
    """A model with the paper's number of prototypes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MODELS[name](PROTOTYPES, random_state=0).fit(X, y)
