"""Models that bin their columns: every answer is the cheapest there is, and proved to be."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

import counterpoint as cp
from counterpoint.models import see_through
from counterpoint.rows.features import Features


def quietly(model, data, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data, y)


def candidates(form, j, x, column, low, high):
    """The values of a column that matter: of each piece, the one nearest to x."""
    cuts = np.unique(np.concatenate([c.starts for i, c in form.curves if i == j]))
    ends = np.append(np.nextafter(cuts[1:], -np.inf), np.inf)
    step = 1.0 if column.dtype.kind in "iu" else 0.0
    values = []
    for start, end in zip(np.maximum(cuts, low), np.minimum(ends, high), strict=True):
        if start > end:
            continue
        value = np.clip(x, start, end)
        if step:
            value = x + (np.ceil if value > x else np.floor)(value - x)
            if not start <= value <= end:
                continue
        values.append(value)
    return values


@pytest.mark.parametrize("seed", range(6))
def test_the_cheapest_change_of_bins_is_found_and_proved(seed):
    rng = np.random.default_rng(seed)
    n, squared, classes = 150, seed % 2 == 1, 2 + seed % 3 // 2
    data = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.integers(0, 12, size=n),
            "c": rng.normal(size=n) * 3.0,
            "job": rng.choice(["cook", "clerk", "smith"], size=n),
        }
    )
    score = np.sin(2 * data.a) + 0.2 * data.b + (data.job == "cook") - np.abs(data.c) * 0.3
    y = np.digitize(score + 0.4 * rng.normal(size=n), np.quantile(score, [0.4, 0.8][: classes - 1]))
    steps = make_column_transformer(
        (KBinsDiscretizer(5), ["a", "c"]), (KBinsDiscretizer(3), ["b"]), (OneHotEncoder(), ["job"])
    )
    model = quietly(make_pipeline(steps, LogisticRegression(C=3.0)), data, y)
    cost = cp.SquaredEuclidean() if squared else cp.Manhattan()
    rows = data[:8]
    answers = cp.explain(
        model, rows, 1, data=data, cost=cost, constraints=cp.WithinObserved(*data.columns)
    )
    report = answers.report()
    assert set(report.claim) == {"proved"}
    form = see_through(model, Features.from_data(data), fixed=False).form
    found, told = answers.to_frame(), report.cost.to_numpy()
    for i in range(len(rows)):
        row = rows.iloc[i]
        values = [
            candidates(form, j, float(row[name]), data[name], data[name].min(), data[name].max())
            for j, name in enumerate("abc")
        ]
        points = list(product(*values, ["cook", "clerk", "smith"]))
        frame = pd.DataFrame(points, columns=list(data.columns)).astype({"b": int})
        there = model.predict(frame) == 1
        delta = frame[["a", "b", "c"]].to_numpy() - row[["a", "b", "c"]].to_numpy(dtype=float)
        paid = (delta**2 if squared else np.abs(delta)).sum(axis=1) + (frame.job != row.job)
        best = paid.to_numpy()[there].min() if there.any() else np.inf
        if report.status[i] == "infeasible":
            assert not there.any()
            continue
        assert model.predict(found.iloc[[i]])[0] == 1
        assert told[i] == pytest.approx(best, rel=1e-6, abs=1e-12)
