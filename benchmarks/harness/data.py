"""Data sets, with the models and policies that several scripts use."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
from harness.report import HERE

HOUSES = (
    *("Total Bsmt SF", "1st Flr SF", "2nd Flr SF", "Gr Liv Area", "Wood Deck SF"),
    *("Open Porch SF", "3Ssn Porch", "Screen Porch", "Pool Area"),
)
"""Nine areas of a house of Ames, in square feet."""
PRICE = 160_000
"""Houses of at least this price, in dollars, have label 1."""


def data_file(name: str) -> Path | None:
    """Return a file of the data folder, or None with a sentence."""
    folder = os.environ.get("COUNTERPOINT_DATA")
    path = (Path(folder) if folder else HERE.parent.parent / "shared" / "data") / name
    if path.exists():
        return path
    print(f"{name} is left out: it is not here. Set COUNTERPOINT_DATA to the folder that holds it.")
    return None


def german() -> tuple[pd.DataFrame, pd.Series] | None:
    """German credit: 28 columns of mixed types, GoodCustomer 1 or -1; None without the data."""
    path = data_file("german/german.csv")
    if path is None:
        return None
    frame = pd.read_csv(path)
    return frame, frame.pop("GoodCustomer")


def heloc() -> tuple[pd.DataFrame, pd.Series] | None:
    """HELOC: 23 columns of whole numbers, RiskPerformance 0 or 1; None without the data."""
    path = data_file("heloc/heloc.csv")
    if path is None:
        return None
    frame = pd.read_csv(path)
    return frame, frame.pop("RiskPerformance").astype(int)


def ames() -> pd.DataFrame | None:
    """Order, price and nine areas of 2930 houses; None without the data."""
    path = data_file("ames/ames_raw.csv")
    if path is None:
        return None
    return pd.read_csv(path, usecols=["Order", "SalePrice", *HOUSES]).fillna(0.0).astype(float)


def mnist() -> tuple[np.ndarray, np.ndarray] | None:
    """MNIST's test images, (10 000, 784) between 0 and 1, and their digits; None without them."""
    arrays = []
    for name, offset in (("images-idx3", 16), ("labels-idx1", 8)):
        path = data_file(f"mnist/t10k-{name}-ubyte.gz")
        if path is None:
            return None
        arrays.append(np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=offset))
    return arrays[0].reshape(-1, 784) / 255.0, arrays[1].astype(int)


def encoded(frame: pd.DataFrame, labels: Any, last: Any) -> Any:
    """Fit a model behind one-hot words and standardised numbers."""
    words = [name for name in frame if frame[name].dtype.kind not in "biuf"]
    numbers = [name for name in frame if name not in words]
    columns = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(), words))
    return make_pipeline(columns, last).fit(frame, labels)


def tables() -> dict[str, tuple[pd.DataFrame, np.ndarray]]:
    """Six data sets of two classes by name: a frame, and labels 0 and 1."""
    cancer, wine, diabetes = (
        load(as_frame=True, return_X_y=True)
        for load in (load_breast_cancer, load_wine, load_diabetes)
    )
    houses = ames()
    data: dict[str, Any] = {"German credit": german(), "HELOC": heloc()}
    if houses is not None:
        data["Ames"] = (houses[list(HOUSES)], houses["SalePrice"] >= PRICE)
    data |= {"breast cancer": cancer, "wine": (wine[0], wine[1] == 0)}
    data["diabetes"] = (diabetes[0], diabetes[1] > diabetes[1].median())
    return {
        name: (pair[0], (np.asarray(pair[1], dtype=float) > 0).astype(int))
        for name, pair in data.items()
        if pair is not None
    }


def german_model(frame: pd.DataFrame, labels: pd.Series) -> Any:
    """Logistic regression behind one-hot and standardised columns."""
    return encoded(frame, labels, LogisticRegression(max_iter=1000))


def german_policy() -> list[Any]:
    """What an applicant can change, and how the indicator columns hang together."""
    relations = (
        "OwnsHouse + RentsHouse <= 1",
        "CheckingAccountBalance_geq_200 <= CheckingAccountBalance_geq_0",
        "SavingsAccountBalance_geq_500 <= SavingsAccountBalance_geq_100",
        "YearsAtCurrentJob_lt_1 + YearsAtCurrentJob_geq_4 <= 1",
    )
    return [
        cp.Immutable("Gender", "ForeignWorker", "Single", "Age", "NumberOfLiableIndividuals"),
        cp.WithinObserved(),
        cp.Monotone("LoanAmount", "decreasing"),
        *(cp.Linear.parse(relation) for relation in relations),
    ]


def heloc_model(frame: pd.DataFrame, labels: pd.Series) -> Any:
    """Logistic regression behind standardised columns."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(frame, labels)


def heloc_integers(frame: pd.DataFrame) -> list[Any]:
    """Every column changes by whole numbers."""
    return [cp.Integer(name) for name in frame.columns]


def heloc_policy() -> list[Any]:
    """A credit history cannot be undone, months pass slowly, counts hang together."""
    history = (
        *("ExternalRiskEstimate", "NumTrades60Ever2DerogPubRec", "NumTrades90Ever2DerogPubRec"),
        *("MaxDelq2PublicRecLast12M", "MaxDelqEver"),
    )
    return [
        cp.Immutable(*history),
        cp.WithinObserved(),
        cp.Bounds("MSinceOldestTradeOpen", fall=0, rise=24),
        cp.Bounds("AverageMInFile", fall=12, rise=24),
        cp.Bounds("MSinceMostRecentDelq", fall=0, rise=24),
        cp.Bounds("NetFractionRevolvingBurden", fall=40, rise=0),
        cp.Monotone("PercentTradesNeverDelq", "increasing"),
        cp.Linear.parse("NumInqLast6Mexcl7days <= NumInqLast6M"),
        cp.Linear.parse("NumTradesOpeninLast12M <= NumTotalTrades"),
    ]


def standard(load: Callable[..., Any]) -> tuple[pd.DataFrame, pd.Series, Any]:
    """A data set of scikit-learn, its columns standardised, and its logistic regression.

    The model takes the standardised columns, so that all tools see the same space.
    """
    raw, labels = load(return_X_y=True, as_frame=True)
    frame = pd.DataFrame(StandardScaler().fit_transform(raw), columns=raw.columns)
    return frame, labels, LogisticRegression(max_iter=1000, tol=1e-8).fit(frame, labels)


def resampled(frame: pd.DataFrame, count: int, noise: float) -> pd.DataFrame:
    """Many rows like the data: drawn from it, with noise in standard deviations."""
    rng = np.random.default_rng(0)
    values = frame.to_numpy()[rng.integers(0, len(frame), count)]
    values = values + noise * frame.std().to_numpy() * rng.normal(size=values.shape)
    return pd.DataFrame(values, columns=frame.columns)
