"""Loans that a model grants or refuses, for tests of what people read and write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def loans() -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": random.integers(20, 70, 300),
            "income": random.normal(4e4, 1.2e4, 300).round(2),
            "home": random.choice(["own", "rent"], 300),
        }
    )
    score = X["income"] + 200 * X["age"] + 5e3 * (X["home"] == "own")
    return X, np.where(score + random.normal(0, 5e3, 300) > 5e4, "granted", "refused")


def loan_model() -> Any:
    prepare = ColumnTransformer([("home", OneHotEncoder(), ["home"])], remainder=StandardScaler())
    return make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(*loans())
