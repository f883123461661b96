"""Trees, forests and boosted trees: how long an exact answer takes, and how many are proved."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _common import (
    HERE,
    Goal,
    More,
    Report,
    each,
    finish,
    german,
    heloc,
    is_quick,
    milliseconds,
    number,
)
from bench_gaps import CFNOW, COLUMNS, TOOLS, data_sets, fitted, lines
from bench_peers import Peer, environment
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
OCEAN = Peer("ocean", "run_ocean.py", (("oceanpy==2.0.7",),), ("OCEAN",))
EXACT = """
OCEAN (constraint programs of OR-tools, one worker, twenty seconds a row; Python 3.12 or later) on
German credit with ranges of 1 and the same forest of 100 trees of depth 5, class 0 → 1, numbers of
any size between. *Same cost*: of the rows that it proved, those whose cost is ours to 1e-4; OCEAN
ends a little beyond thresholds. *Ours / theirs*: the total cost over all rows.
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
            satisfied = value <= goal
            goals.append(Goal(f"{setting.name}, {what}", asked, f"{number(value)} ms", satisfied))
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


def exact_peer() -> list[Any]:
    """OCEAN and ours on the same rows; nothing, and a sentence, where it does not run."""
    data, python = german(), environment(OCEAN)
    if data is None or python is None:
        return []
    frame = pd.get_dummies(data[0]).astype(float)
    frame = frame.loc[:, frame.max() > frame.min()]
    many = frame.nunique() > 2
    frame = (frame - frame.min()) / (frame.max() - frame.min())
    frame.loc[:, many] -= 0.5
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    forest = RandomForestClassifier(100, max_depth=5, random_state=0)
    forest.fit(frame.to_numpy(), (data[1] > 0).astype(int))
    rows = frame[forest.predict(frame.to_numpy()) == 0].head(8)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        frame.to_csv(folder / "train.csv", index=False)
        rows.to_csv(folder / "rows.csv", index=False)
        (folder / "model.pickle").write_bytes(pickle.dumps(forest))
        command = [str(python), str(HERE / "peers" / OCEAN.script), place, "20"]
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"OCEAN is left out: it does not run here ({last}).")
            return []
        theirs = json.loads((folder / "results.json").read_text())
    frame = frame.astype(dict.fromkeys(frame.columns[~many], int))
    cost = cp.Manhattan(dict.fromkeys(frame, 1.0))
    explainer = cp.Explainer(forest, data=frame, cost=cost)
    found = explainer.explain(rows, 1)
    clock, _ = each([lambda i=i: explainer.explain(rows.iloc[[i]], 1) for i in range(len(rows))])
    near = [np.full(rows.shape[1], np.nan) if t["row"] is None else t["row"] for t in theirs]
    costs = np.abs(np.array(near, dtype=float) - rows.to_numpy()).sum(axis=1)
    valid = np.isfinite(costs)
    valid[valid] = forest.predict(np.array(near)[valid]) == 1
    proved = np.array([t["proved"] for t in theirs]) & valid
    same = np.abs(costs - found.cost)[proved] < 1e-4
    proofs = sum(answer.certificate.claim == "proved" for answer in found)
    told, cpu = (
        float(found.cost[valid].sum() / costs[valid].sum()),
        np.array([t["cpu"] for t in theirs]),
    )
    return [
        (
            "counterpoint",
            len(rows),
            len(rows),
            proofs,
            "–",
            "1",
            milliseconds(np.median(clock)),
            "1",
        ),
        (
            *("OCEAN", len(rows), int(valid.sum()), int(proved.sum())),
            f"{same.sum()} of {len(same)}",
            number(told),
            milliseconds(float(np.median(cpu))),
            number(float(np.median(cpu / np.array(clock)))),
        ),
    ]


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
    known = []
    beside = [] if quick else exact_peer()
    if beside:
        columns = ("tool", "rows", "valid", "proved", "same cost", "ours / theirs", "CPU", "times")
        known.append(More(EXACT, columns, beside))
        times = float(beside[-1][-1])
        satisfied = times >= 500.0
        goals.append(Goal("OCEAN's CPU over ours", "at least 500", f"{number(times)}", satisfied))
    report = Report(
        "trees",
        "Trees and forests",
        QUESTION,
        ("setting", "rows", "predict", "median", "90 %", "slowest", "proved"),
        table,
        goals,
        [METHOD],
        [] if quick else [More(PEERS, COLUMNS, others()), *known],
        packages=("xgboost-cpu", "xgboost", "lightgbm"),
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
