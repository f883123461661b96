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


@pytest.mark.parametrize("classes", [2, 3])
def test_few_columns_that_are_binned_change_where_ranks_are_what_counts(classes: int) -> None:
    """Bins begin at values of the data, and a number beside such a value has the same rank."""
    rng = np.random.default_rng(classes)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    y = pd.qcut(X.sum(axis=1) + 0.3 * rng.normal(size=60), classes, labels=False)
    bins = KBinsDiscretizer(
        4, encode="onehot-dense", quantile_method="averaged_inverted_cdf", dtype=np.float64
    )
    columns = make_column_transformer((bins, ["a", "b"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression()).fit(X, y)
    ranks = cp.percentile_ranks(X)
    encoded_cost = {name: np.array(pairs).T for name, pairs in ranks.items()}
    found = cp.explain(
        model, X.head(20), 1, data=X, cost=cp.PercentileShift(ranks), constraints=cp.MaxChanges(1)
    )
    for answer, (_, x) in zip(found, X.head(20).iterrows(), strict=True):
        assert answer.certificate.claim == "proved"
        best = 0.0 if model.predict(x.to_frame().T)[0] == 1 else np.inf
        for name in X:
            values = np.linspace(X[name].min(), X[name].max(), 2001)
            values = np.append(values, X[name])
            grid = pd.DataFrame([x] * len(values)).assign(**{name: values})
            there = values[model.predict(grid) == 1]
            cost = np.abs(
                np.interp(there, *encoded_cost[name]) - np.interp(x[name], *encoded_cost[name])
            )
            best = min([best, *cost])
        assert answer.found == np.isfinite(best)
        if answer.found:
            assert len(answer.changes) <= 1
            assert best - 2e-2 <= answer.certificate.cost <= best + 1e-9


@pytest.mark.parametrize("seed", [2, 9, 11])
@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_answers_in_single_precision_stay_in_their_bins(seed: int, strategy: str) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": 10.0 * rng.normal(size=200)})
    frame = frame.astype("float32")
    labels = 3.0 * frame["a"] - frame["b"] + 3.0 * rng.normal(size=200) > 0.0
    binner = KBinsDiscretizer(5, strategy=strategy)
    model = quietly(make_pipeline(binner, LogisticRegression()), frame, labels)
    answers = cp.Explainer(model, data=frame).explain(frame[:30], cp.OtherLabel())
    assert answers.found.all()
    assert (answers.certificates.gap < 1e-3).all()
    assert (model.predict(answers.to_frame()[["a", "b"]]) != model.predict(frame[:30])).all()


@pytest.mark.parametrize("seed", range(2, 6))
def test_bins_under_an_equation_have_their_least_answer(seed: int):
    """Of two binned columns at a fixed distance, one has to end right at the edge of a bin."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(0.0, 40.0, (80, 2)), columns=["a", "b"])
    steps = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
    model = make_pipeline(steps, LogisticRegression()).fit(X, X.sum(axis=1) > 0.0)
    weights = rng.uniform(0.1, 2.0, 2)
    row = X[~model.predict(X)].iloc[0].to_numpy()
    apart = float(row[0] - row[1])
    edges = np.concatenate(
        [edge - value for edge, value in zip(steps.bin_edges_, row, strict=True)]
    )
    moves = np.concatenate([edges - 1e-9, edges + 1e-9])
    reached = moves[model.predict(pd.DataFrame(row + moves[:, None], columns=["a", "b"]))]
    answer = cp.explain(
        model,
        pd.DataFrame([row], columns=["a", "b"]),
        True,
        cost=cp.Manhattan(weights),
        constraints=[cp.Linear({"a": 1.0, "b": -1.0}, low=apart, high=apart)],
    )[0]
    if not len(reached):
        assert answer.status is cp.Status.INFEASIBLE
        return
    least = weights.sum() * np.abs(reached).min()
    assert answer.certificate.claim is cp.Claim.PROVED
    assert answer.cost == pytest.approx(least, rel=1e-6, abs=1e-7)
