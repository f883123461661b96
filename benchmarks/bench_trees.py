"""Trees, forests and boosted trees: how long an exact answer takes, and how many are proved."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _common import Goal, More, Report, finish, german, heloc, is_quick, milliseconds, number
from bench_gaps import CFNOW, COLUMNS, TOOLS, data_sets, fitted, lines
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import counterpoint as cp

QUESTION = """
Exact answers for ensembles of trees, row by row, with a Manhattan cost in which every column's
range counts 1. Columns of whole numbers change by whole steps. All answers are checked by the
model's own `predict`; proofs are checked without the search.
"""
METHOD = """
Processor time on one core, through `Explainer.explain`, row by row. Breast cancer has
three rows a line, for its thirty continuous columns take all the time that there is.
"""
PEERS = """
Other tools on forests of 100 trees of depth 5: ten rows of class 0 each, target the other class,
numbers of any size between, distance in median absolute deviations. *Violated*: valid, but outside
the range of the data. *Cost / optimum*: the total cost over the least, of answers that are valid
and violate nothing. CPU is the median of a row in a warm process.
"""
SECONDS = 10.0
"""For each row."""


class Setting(NamedTuple):
    """One line of the table, with the median and the longest time that are to be reached."""

    name: str
    model: Any
    frame: pd.DataFrame
    target: Any
    rows: int
    median: float | None = None
    slow: float | None = None


def models(*, quick: bool) -> Iterator[tuple[str, Any]]:
    """Ensembles, not fitted."""
    count = 10 if quick else 100
    yield f"forest {count}×5", RandomForestClassifier(count, max_depth=5, random_state=0)
    if not quick:
        yield "forest 100×8", RandomForestClassifier(100, max_depth=8, random_state=0)
    yield f"histogram boosting {count}", HistGradientBoostingClassifier(max_iter=count)
    try:
        from xgboost import XGBClassifier

        yield f"XGBoost {count}×4", XGBClassifier(n_estimators=count, max_depth=4)
    except ImportError:
        print("XGBoost is left out: it is not installed.")
    try:
        from lightgbm import LGBMClassifier

        yield f"LightGBM {count}", LGBMClassifier(n_estimators=count, verbose=-1, n_jobs=1)
    except ImportError:
        print("LightGBM is left out: it is not installed.")


def settings(*, quick: bool) -> Iterator[Setting]:
    """All of them."""
    tables = []
    for name, data in (("German credit", german()), ("HELOC", heloc())):
        if data is not None:
            frame = pd.get_dummies(data[0]).astype(int)
            tables.append((name, frame, (data[1] > 0).astype(int)))
    for name, load in (("breast cancer", load_breast_cancer), ("wine", load_wine)):
        frame, labels = load(return_X_y=True, as_frame=True)
        tables.append((name, frame.rename(columns=lambda c: c.replace(" ", "_")), labels))
    for name, frame, labels in tables:
        for kind, model in models(quick=quick):
            fitted = model.fit(frame, labels)
            for target in np.unique(labels)[: 1 if quick else None]:
                goals = (10.0, 2000.0) if "forest" in kind and "×5" in kind else (None, None)
                count = 3 if quick or name == "breast cancer" else 16 if "forest" in kind else 80
                yield Setting(f"{name}, {kind} → {target}", fitted, frame, target, count, *goals)
        if name == "German credit" and not quick:
            forest = RandomForestClassifier(500, max_depth=8, random_state=0).fit(frame, labels)
            yield Setting(f"{name}, forest 500×8 → 1", forest, frame, 1, 16, 150.0)


def measured(setting: Setting) -> tuple[list[Any], list[Goal], np.ndarray]:
    """A line, its goals, and (n,) which answers are proved."""
    frame = setting.frame
    spread = (frame.max() - frame.min()).clip(lower=1e-9)
    explainer = cp.Explainer(setting.model, data=frame, cost=cp.Manhattan(dict(1.0 / spread)))
    said = np.asarray(setting.model.predict(frame))
    rows = frame[said != setting.target].head(setting.rows)
    explainer.explain(rows.head(1), setting.target)
    times, proved = np.empty(len(rows)), np.zeros(len(rows), dtype=bool)
    start = process_time()
    for i in range(5):
        setting.model.predict(rows.iloc[[i % len(rows)]])
    predict = (process_time() - start) / 5
    for i in range(len(rows)):
        start = process_time()
        answer = explainer.explain(rows.iloc[[i]], setting.target, time_limit=SECONDS)
        times[i] = process_time() - start
        assert (setting.model.predict(answer.to_frame()) == setting.target).all()
        proved[i] = answer[0].certificate.claim == "proved"
    middle, top = np.median(times), times.max()
    line = [
        setting.name,
        len(rows),
        milliseconds(predict),
        milliseconds(middle),
        milliseconds(np.quantile(times, 0.9)),
        milliseconds(top),
        f"{proved.mean():.0%}",
    ]
    goals = []
    for what, value, goal in (
        ("median", 1e3 * middle, setting.median),
        ("slowest", 1e3 * top, setting.slow),
    ):
        if goal is not None:
            asked = f"at most {number(goal)} ms"
            met = value <= goal
            goals.append(Goal(f"{setting.name}, {what}", asked, f"{number(value)} ms", met))
    return line, goals, proved


def others() -> list[Any]:
    """DiCE and NICE on the forests of two data sets, ours first."""
    out = []
    for name, (X, y) in data_sets().items():
        if name in ("German credit", "HELOC"):
            forest = RandomForestClassifier(100, max_depth=5, random_state=0)
            tools = {peer: kept for peer, kept in TOOLS.items() if peer is not CFNOW}
            out += lines(name, X, fitted(X, y, forest), y, 10, tools)
    return out


def main() -> None:
    quick = is_quick()
    table, goals, proved = [], list[Goal](), list[np.ndarray]()
    for setting in settings(quick=quick):
        line, more, sure = measured(setting)
        print(*line, flush=True)
        table.append(line)
        goals += more
        proved.append(sure)
    every = np.concatenate(proved)
    share = float(every.mean())
    goals.append(
        Goal(
            f"proved within {SECONDS:.0f} s",
            "at least 99 %",
            f"{share:.1%} of {len(every)}",
            share >= 0.99,
        )
    )
    report = Report(
        "trees",
        "Trees and forests",
        QUESTION,
        ("setting", "rows", "predict", "median", "90 %", "slowest", "proved"),
        table,
        goals,
        [METHOD],
        [More(PEERS, COLUMNS, others())] if not quick else (),
        packages=("xgboost-cpu", "xgboost", "lightgbm", "numba"),
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
