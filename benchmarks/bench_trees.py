"""Trees, forests and boosted trees: how long an exact answer takes, and how many are proved."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from harness.data import encoded, german, heloc, tables
from harness.peers import Peer, run
from harness.report import Claim, Section, is_quick, publish
from harness.timing import fraction, milliseconds, number, one_by_one, predict_times
from peers.tools import COLUMNS, DICE, NICE, TOOLS, compared
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import counterpoint as cp

TEXT = """
Exact answers for ensembles of trees, row by row, with a Manhattan cost in which every column's
range counts 1. Columns of whole numbers change by whole steps. All answers are checked by the
model's own `predict`; proofs are checked without the search. Processor time on one core, through
`Explainer.explain`. Breast cancer has three rows a line, for its thirty continuous columns take all
the time that there is.
"""
TOOLS_TEXT = """
Other tools on forests of 100 trees of depth 5: ten rows of class 0 each, target the other class,
numbers of any size between, distance in median absolute deviations. *Violated*: valid, but outside
the range of the data. *Cost / optimum*: the total cost over the least, of answers that are valid
and violate nothing. CPU is the median of a row in a warm process.
"""
OCEAN = Peer("ocean", "run_ocean.py", (("oceanpy==2.0.7",),))
OCEAN_TEXT = """
OCEAN (constraint programs of OR-tools, one worker, twenty seconds a row; Python 3.12 or later) on
German credit with ranges of 1 and the same forest of 100 trees of depth 5, class 0 → 1, numbers of
any size between. *Same cost*: of the rows that it proved, those whose cost is ours to 1e-4; OCEAN
ends a little beyond thresholds. *Ours / theirs*: the total cost over all rows.
"""
SECONDS = 10.0
"""For each row."""


class Setting(NamedTuple):
    """One line of the table, with the milliseconds that the median and the slowest may take."""

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
    data = []
    for name, pair in (("German credit", german()), ("HELOC", heloc())):
        if pair is not None:
            data.append((name, pd.get_dummies(pair[0]).astype(int), (pair[1] > 0).astype(int)))
    for name, load in (("breast cancer", load_breast_cancer), ("wine", load_wine)):
        frame, labels = load(return_X_y=True, as_frame=True)
        data.append((name, frame.rename(columns=lambda c: c.replace(" ", "_")), labels))
    for name, frame, labels in data:
        for kind, model in models(quick=quick):
            model.fit(frame, labels)
            limits = (25.0, 2000.0) if "forest" in kind and "×5" in kind else (None, None)
            count = 3 if quick or name == "breast cancer" else 16 if "forest" in kind else 80
            for target in np.unique(labels)[: 1 if quick else None]:
                yield Setting(f"{name}, {kind} → {target}", model, frame, target, count, *limits)
        if name == "German credit" and not quick:
            forest = RandomForestClassifier(500, max_depth=8, random_state=0).fit(frame, labels)
            yield Setting(f"{name}, forest 500×8 → 1", forest, frame, 1, 16, 150.0)


def measured(setting: Setting) -> tuple[list[Any], list[Claim], np.ndarray]:
    """A line, its claims, and which answers are proved."""
    name, model, frame, target, count, *limits = setting
    spread = (frame.max() - frame.min()).clip(lower=1e-9)
    explainer = cp.Explainer(model, data=frame, cost=cp.Manhattan(dict(1.0 / spread)))
    rows = frame[np.asarray(model.predict(frame)) != target].head(count)
    singles = one_by_one(explainer, rows, target, time_limit=SECONDS)
    for answers in singles.answers:
        assert (model.predict(answers.to_frame()) == target).all()
    predict = milliseconds(float(np.median(predict_times(model, rows.head(5)))))
    times = (singles.median, singles.quantile(0.9), singles.slowest)
    line = [name, len(rows), predict, *times, f"{singles.proved.mean():.0%}"]
    print(*line, flush=True)
    values = 1e3 * np.median(singles.seconds), 1e3 * singles.seconds.max()
    claims = [
        Claim(f"{name}, {what}", f"at most {number(limit)} ms", f"{number(ms)} ms", ms <= limit)
        for what, ms, limit in zip(("median", "slowest"), values, limits, strict=True)
        if limit is not None
    ]
    return line, claims, singles.proved


def ensembles(*, quick: bool) -> Section:
    """Every ensemble."""
    measures = [measured(setting) for setting in settings(quick=quick)]
    proved = np.concatenate([mask for *_, mask in measures])
    what, share = f"proved within {SECONDS:.0f} s", f"{proved.mean():.1%} of {len(proved)}"
    claims = [claim for _, made, _ in measures for claim in made]
    claims.append(Claim(what, "at least 99 %", share, bool(proved.mean() >= 0.99)))
    columns = ("setting", "rows", "predict", "median", "90 %", "slowest", "proved")
    return Section("", TEXT, columns, [line for line, *_ in measures], claims=claims)


def other_tools() -> Section:
    """DiCE and NICE on the forests of two data sets, ours first."""
    lines, tools = [], {peer: TOOLS[peer] for peer in (DICE, NICE)}
    for name, data in tables().items():
        if name in ("German credit", "HELOC"):
            forest = RandomForestClassifier(100, max_depth=5, random_state=0)
            lines += compared(name, data, encoded(*data, forest), 10, tools)
    return Section("Other tools", TOOLS_TEXT, COLUMNS, lines)


def ocean() -> Iterator[Section]:
    """OCEAN and ours on the same rows; nothing, and a sentence, where it does not run."""
    data = german()
    if data is None:
        return
    frame = pd.get_dummies(data[0]).astype(float)
    frame = frame.loc[:, frame.max() > frame.min()]
    wide = frame.nunique() > 2
    frame = (frame - frame.min()) / (frame.max() - frame.min())
    frame.loc[:, wide] -= 0.5
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    forest = RandomForestClassifier(100, max_depth=5, random_state=0)
    forest.fit(frame.to_numpy(), (data[1] > 0).astype(int))
    rows = frame[forest.predict(frame.to_numpy()) == 0].head(8)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        frame.to_csv(folder / "train.csv", index=False)
        rows.to_csv(folder / "rows.csv", index=False)
        (folder / "model.pickle").write_bytes(pickle.dumps(forest))
        theirs = run(OCEAN, folder, "20")
    if theirs is None:
        return
    frame = frame.astype(dict.fromkeys(frame.columns[~wide], int))
    explainer = cp.Explainer(forest, data=frame, cost=cp.Manhattan(dict.fromkeys(frame, 1.0)))
    ours = one_by_one(explainer, rows, 1)
    points = [np.full(rows.shape[1], np.nan) if t["row"] is None else t["row"] for t in theirs]
    costs = np.abs(np.array(points, dtype=float) - rows.to_numpy()).sum(axis=1)
    valid = np.isfinite(costs)
    valid[valid] = forest.predict(np.array(points)[valid]) == 1
    proved = np.array([t["proved"] for t in theirs]) & valid
    same = (np.abs(costs - ours.costs) < 1e-4)[proved]
    seconds = np.array([t["cpu"] for t in theirs])
    times, ratio = np.median(seconds / ours.seconds), ours.costs[valid].sum() / costs[valid].sum()
    count = len(rows)
    lines = [
        ("counterpoint", count, count, int(ours.proved.sum()), "–", "1", ours.median, "1"),
        (
            *("OCEAN", count, int(valid.sum()), int(proved.sum()), fraction(same)),
            *(number(float(ratio)), milliseconds(float(np.median(seconds))), number(float(times))),
        ),
    ]
    columns = ("tool", "rows", "valid", "proved", "same cost", "ours / theirs", "CPU", "times")
    claim = Claim("OCEAN's CPU over ours", "at least 100", number(float(times)), bool(times >= 100))
    yield Section("OCEAN", OCEAN_TEXT, columns, lines, claims=[claim])


def main() -> None:
    quick = is_quick()
    sections = [ensembles(quick=quick), *([] if quick else [other_tools(), *ocean()])]
    packages = ("xgboost-cpu", "xgboost", "lightgbm")
    publish("trees", "Trees and forests", sections, quick=quick, packages=packages)


if __name__ == "__main__":
    main()
