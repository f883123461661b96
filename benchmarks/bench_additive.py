"""Whole steps, categories, scorecards: answers as knapsacks, with proofs, in batches and alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _common import (
    Goal,
    Report,
    finish,
    german,
    german_model,
    german_policy,
    heloc,
    heloc_integers,
    heloc_model,
    heloc_policy,
    is_quick,
    milliseconds,
    number,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

import counterpoint as cp

QUESTION = """
Models whose scores are sums over columns, of which some change by whole steps, are categories or
are binned. How fast are answers, and how many are proved?
"""


class Setting(NamedTuple):
    """One line of the table: rows a second that are to be reached, and what share is proved."""

    name: str
    explainer: cp.Explainer
    rows: pd.DataFrame
    target: Any
    speed: float
    proved: float
    alone: Any = None  # the model, if rows are explained one by one; its own time does not count


def settings(*, quick: bool) -> Iterator[Setting]:
    """All of them."""
    data = heloc()
    if data is not None:
        frame, labels = data
        model = heloc_model(frame, labels)
        denied = frame[model.predict(frame) == 1].head(200 if quick else 4000)
        whole = {"data": frame, "extrapolate": True, "features": heloc_integers(frame)}
        variance = {c: 1.0 / max(float(frame[c].var()), 1e-9) for c in frame}
        squared = cp.SquaredEuclidean(variance)
        seen = [cp.WithinObserved()]
        for name, cost, asked, speed, proved in (
            ("L1, within observed", None, seen, 10_000, 1.0),
            ("L2, within observed", squared, seen, 3_000, 0.99),
            ("L1, 3 changes, policy", None, [*heloc_policy(), cp.MaxChanges(3)], 4_000, 0.99),
        ):
            explainer = cp.Explainer(model, cost=cost, constraints=asked, **whole)
            yield Setting(f"HELOC, {name}", explainer, denied, 0, speed, proved)
        card = make_pipeline(
            KBinsDiscretizer(8, encode="onehot-dense", strategy="uniform"),
            LogisticRegression(max_iter=500),
        ).fit(frame, labels)
        denied = frame[card.predict(frame) == 1].head(100 if quick else 1000)
        explainer = cp.Explainer(card, data=frame, features=heloc_integers(frame))
        yield Setting("HELOC binned by 8", explainer, denied, 0, 1_000, 1.0)
        some = frame.iloc[:, :8]
        bayes = GaussianNB().fit(some, labels)
        denied = some[bayes.predict(some) == 1].head(20 if quick else 200)
        explainer = cp.Explainer(bayes, data=some)
        yield Setting("HELOC, Gaussian naive Bayes", explainer, denied, 0, 500, 1.0)
    data = german()
    if data is not None:
        frame, labels = data
        model = german_model(frame, labels)
        bad = frame[model.predict(frame) == -1].head(20 if quick else 100)
        for name, asked in (("free", []), ("policy", german_policy())):
            explainer = cp.Explainer(model, data=frame, constraints=asked)
            row_by_row = f"German credit, {name}, row by row, beside predict"
            yield Setting(row_by_row, explainer, bad, 1, 500, 0.99, alone=model)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"n{j}": rng.integers(0, 20, size=4000) for j in range(8)})
    for j in range(4):
        frame[f"c{j}"] = rng.choice(["ash", "birch", "cedar", "elm"], size=4000)
    design = pd.get_dummies(frame, dtype=float).to_numpy()
    scores = design @ rng.normal(size=(design.shape[1], 4)) * 0.3
    classes = scores.argmax(axis=1)
    model = _encoded(frame, classes)
    rows = frame[model.predict(frame) != 2].head(100 if quick else 1000)
    for name, asked in (("", []), (", a relation", [cp.Linear({"n0": 1, "n1": -1}, high=5)])):
        explainer = cp.Explainer(model, data=frame, constraints=asked)
        yield Setting(f"4 classes, mixed{name}", explainer, rows, 2, 1_000 / 0.3, 0.98)


def _encoded(frame: pd.DataFrame, classes: np.ndarray) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words = [name for name in frame if frame[name].dtype.kind not in "iuf"]
    columns = make_column_transformer((OneHotEncoder(), words), remainder=StandardScaler())
    return make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(frame, classes)


def measured(setting: Setting) -> tuple[list[Any], Goal, Goal]:
    """A line, and whether its goals are met."""
    explain: Callable[..., cp.Counterfactuals] = setting.explainer.explain
    explain(setting.rows.head(2), setting.target)
    rows = [setting.rows]
    if setting.alone is not None:
        rows = [setting.rows.iloc[[i]] for i in range(len(setting.rows))]
    start = process_time()
    several = [explain(row, setting.target) for row in rows]
    seconds = process_time() - start
    if setting.alone is not None:
        start = process_time()
        for row in rows:
            setting.alone.predict(row)
        seconds -= process_time() - start
    seconds /= len(setting.rows)
    status = np.concatenate([np.array([str(s) for s in a.status]) for a in several])
    claim = np.concatenate([np.array([str(c) for c in a.certificates.claim]) for a in several])
    settled = np.isin(status, ("optimal", "infeasible", "already"))
    proved = float(np.mean(settled & (claim == "proved")))
    line = [
        setting.name,
        number(len(setting.rows)),
        number(1.0 / seconds),
        milliseconds(seconds),
        f"{proved:.1%}",
        f"{np.mean(claim == 'reported'):.1%}",
    ]
    return (
        line,
        Goal(
            f"rows/s, {setting.name}",
            f"at least {number(setting.speed)}",
            number(1.0 / seconds),
            1.0 / seconds >= setting.speed,
        ),
        Goal(
            f"proved, {setting.name}",
            f"at least {setting.proved:.0%}",
            f"{proved:.1%}",
            proved >= setting.proved,
        ),
    )


def main() -> None:
    quick = is_quick()
    lines, goals = [], list[Goal]()
    for setting in settings(quick=quick):
        line, *satisfied = measured(setting)
        print(*line, flush=True)
        lines.append(line)
        goals += satisfied
    report = Report(
        "additive",
        "Additive scores",
        QUESTION,
        ("setting", "rows", "rows/s", "a row", "proved", "reported"),
        lines,
        goals,
        [
            "Processor time on one core, through `Explainer.explain`.",
            "Where rows are explained one by one, without what the model's own `predict` takes.",
        ],
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
