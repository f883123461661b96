"""How far answers of other tools are from the optimum: DiCE, NICE and CFNOW on six data sets.

Each tool runs in an environment of its own, as in bench_peers.py, and is measured by
`counterpoint.metrics`, which any reader can use on any tool.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import (
    HERE,
    Goal,
    Report,
    each,
    finish,
    german,
    heloc,
    is_quick,
    milliseconds,
    number,
)
from bench_peers import PEERS, Peer, environment
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint import metrics

ROWS = 10
CFNOW = Peer(
    "cfnow-0.0.6",
    "run_gaps.py",
    (
        ("--no-deps", "cfnow==0.0.6", "counterplots", "opencv-python-headless"),
        ("numpy<2", "pandas<2.3", "scikit-learn", "nltk", "scikit-image", "matplotlib", "tqdm"),
    ),
    ("CFNOW greedy",),
)
TOOLS = {
    PEERS[0]: ("DiCE random", "DiCE genetic"),
    PEERS[1]: ("NICE sparsity", "NICE proximity"),
    CFNOW: CFNOW.tools,
}
QUESTION = """
Logistic regressions over standardised numbers and one-hot categories; ten rows of class 0 each,
target the other class, answers within the range of the data, numbers of any size between. The
distance is the sum of changes in median absolute deviations. Every tool is measured by
`counterpoint.metrics`.
"""
METHOD = """
*Violated*: how many valid answers are outside the range of the data. *Cost / optimum*: the total
cost over the least, and *gap*: the mean of (cost − bound) / cost with proved bounds, both over
answers that are valid and violate nothing. A fault inside a tool counts as nothing found. DiCE
minimises a distance of its own and CFNOW a sum of changes in raw units; NICE needs the training
data. CPU is the median of a row in a warm process, with the time limit of CFNOW at ten seconds on
the clock, of which a busy machine gave it two or three.
"""


def ames() -> tuple[pd.DataFrame, pd.Series] | None:
    """Nine areas of a house, and whether it was sold for at least 160 000."""
    from _common import data_file

    path = data_file("ames/ames_raw.csv")
    if path is None:
        return None
    frame = pd.read_csv(path)
    names = [
        *("Total Bsmt SF", "1st Flr SF", "2nd Flr SF", "Gr Liv Area", "Wood Deck SF"),
        *("Open Porch SF", "3Ssn Porch", "Screen Porch", "Pool Area"),
    ]
    frame = frame.dropna(subset=names)
    return frame[names], frame["SalePrice"] >= 160_000


def data_sets() -> dict[str, tuple[pd.DataFrame, np.ndarray]]:
    """Name → a frame and labels 0 and 1."""
    found: dict[str, Any] = {"German credit": german(), "HELOC": heloc(), "Ames": ames()}
    sets = {name: pair for name, pair in found.items() if pair is not None}
    cancer, wine, diabetes = (
        load(as_frame=True, return_X_y=True)
        for load in (load_breast_cancer, load_wine, load_diabetes)
    )
    sets |= {"breast cancer": cancer, "wine": (wine[0], wine[1] == 0)}
    sets["diabetes"] = (diabetes[0], diabetes[1] > diabetes[1].median())
    return {n: (X, (np.asarray(y, dtype=float) > 0).astype(int)) for n, (X, y) in sets.items()}


def fitted(X: pd.DataFrame, y: np.ndarray, last: Any) -> Any:
    """The model that all tools explain: columns made ready for ``last``."""
    words = [name for name in X if X[name].dtype.kind not in "biuf"]
    numbers = [name for name in X if name not in words]
    columns = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(), words))
    return make_pipeline(columns, last).fit(X, y)


def described(model: Any) -> dict[str, Any]:
    """The model for model.json."""
    (_, scaler, numbers), (_, encoder, words) = model[0].transformers_[:2]
    columns: dict[str, Any] = {
        name: {"mean": m, "scale": s}
        for name, m, s in zip(numbers, scaler.mean_.tolist(), scaler.scale_.tolist(), strict=True)
    }
    for name, known in zip(words, getattr(encoder, "categories_", ()), strict=True):
        columns[name] = {"categories": known.tolist()}
    last = model[-1]
    if hasattr(last, "estimators_"):
        return {"columns": columns, "trees": [_tree(each.tree_) for each in last.estimators_]}
    coef, intercept = last.coef_[0].tolist(), float(last.intercept_[0])
    return {"columns": columns, "coef": coef, "intercept": intercept}


def _tree(tree: Any) -> dict[str, list[float]]:
    return {
        "left": tree.children_left.tolist(),
        "right": tree.children_right.tolist(),
        "column": tree.feature.tolist(),
        "threshold": tree.threshold.tolist(),
        "share": (tree.value[:, 0, 1] / tree.value[:, 0].sum(axis=1)).tolist(),
    }


def answers(peer: Peer, tools: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """What a peer's tools return for what is in the folder."""
    python = environment(peer)
    if python is None:
        return {}
    command = [str(python), str(HERE / "peers" / "run_gaps.py"), str(folder), "|".join(tools)]
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{peer.name} is left out: it does not run here ({last}).")
        return {}
    return dict(json.loads((folder / "results.json").read_text()))


def frame_of(rows: list[Any], like: pd.DataFrame) -> pd.DataFrame:
    """Answers as text → a frame; a row without one is missing as a whole."""
    blank = dict.fromkeys(like)
    frame = pd.DataFrame([blank if row is None else row for row in rows], columns=list(like))
    numbers = [name for name in like if like[name].dtype.kind in "biuf"]
    frame[numbers] = frame[numbers].astype(float)
    return frame


COLUMNS = (
    *("data", "tool", "rows", "found", "valid", "violated"),
    *("cost / optimum", "gap", "changed", "CPU"),
)


def lines(
    name: str,
    X: pd.DataFrame,
    model: Any,
    y: np.ndarray,
    count: int,
    peers: Mapping[Peer, tuple[str, ...]],
) -> list[Any]:
    """The lines of one data set, ours first."""
    numbers = [name for name in X if X[name].dtype.kind in "iuf" and X[name].nunique() > 2]
    explainer = cp.Explainer(model, data=X, features=[cp.Continuous(name) for name in numbers])
    refused = X[model.predict(X) == 0]
    rows = refused.sample(count, random_state=0).reset_index(drop=True)
    ours = explainer.explain(rows, 1)
    found: dict[str, Any] = {"counterpoint": {"rows": ours, "faults": 0}}
    clock, _ = each([lambda i=i: explainer.explain(rows.iloc[[i]], 1) for i in range(count)])
    found["counterpoint"]["cpu"] = clock
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        X.assign(label=y).to_csv(folder / "train.csv", index=False)
        rows.to_csv(folder / "rows.csv", index=False)
        (folder / "model.json").write_text(json.dumps(described(model)))
        for peer, tools in peers.items():
            made = answers(peer, tools, folder)
            found |= {n: {**m, "rows": frame_of(m["rows"], rows)} for n, m in made.items()}
    out = []
    for tool, made in found.items():
        both = (explainer, rows, made["rows"])
        valid = metrics.validity(*both, 1)
        violation = metrics.constraint_violation(*both)
        gap = metrics.optimality_gap(*both, 1)
        cost = metrics.proximity(*both, data=X)
        fit = ~np.isnan(gap)
        ratio = cost[fit].sum() / ours.cost[fit].sum() if fit.any() else np.nan
        good = valid == 1.0
        changed = metrics.sparsity(*both)[good]
        out.append(
            (
                *(name, tool, count, int((~np.isnan(valid)).sum()), int(good.sum())),
                int((violation[good] > 0.0).sum()),
                *("–" if np.isnan(v) else number(v) for v in (ratio, _mean(gap[fit]))),
                number(_mean(changed)) if good.any() else "–",
                milliseconds(float(np.median(made["cpu"]))),
            )
        )
        print(*out[-1], sep=" | ", flush=True)
    return out


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def main() -> None:
    quick = is_quick()
    sets = data_sets()
    kept = dict(list(sets.items())[-2:]) if quick else sets
    count = 3 if quick else ROWS
    rows = []
    for name, (X, y) in kept.items():
        model = fitted(X, y, LogisticRegression(max_iter=2000))
        rows += lines(name, X, model, y, count, {} if quick else TOOLS)
    finish(report(rows), quick=quick)


def report(rows: list[Any]) -> Report:
    """The table; ours are valid and optimal, or the comparison means nothing."""
    ours = [dict(zip(COLUMNS, row, strict=True)) for row in rows if row[1] == "counterpoint"]
    asked, valid = (sum(row[name] for row in ours) for name in ("rows", "valid"))
    worst = max(float(row["gap"]) for row in ours)
    goals = [
        Goal("counterpoint, valid", "every row", f"{valid} of {asked}", valid == asked),
        Goal("counterpoint, largest mean gap", "≤ 1e-6", f"{worst:.1e}", worst <= 1e-6),
    ]
    title = "How far other tools are from the optimum"
    return Report("gaps", title, QUESTION, COLUMNS, rows, goals, [METHOD])


if __name__ == "__main__":
    main()
