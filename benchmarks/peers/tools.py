"""DiCE, NICE and CFNOW on mixed data frames, measured by `counterpoint.metrics`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness.peers import Peer, run
from harness.timing import milliseconds, number, one_by_one

import counterpoint as cp
from counterpoint import metrics

DICE = Peer(
    "dice-ml-0.12",
    "run_tools.py",
    (
        ("--no-deps", "dice-ml==0.12", "raiutils==0.4.2"),
        ("numpy", "pandas", "scikit-learn", "scipy", "tqdm", "jsonschema", "requests"),
    ),
)
NICE = Peer("NICEx-0.2.3", "run_tools.py", (("NICEx==0.2.3", "scipy"),))
CFNOW = Peer(
    "cfnow-0.0.6",
    "run_tools.py",
    (
        ("--no-deps", "cfnow==0.0.6", "counterplots", "opencv-python-headless"),
        ("numpy<2", "pandas<2.3", "scikit-learn", "nltk", "scikit-image", "matplotlib", "tqdm"),
    ),
)
TOOLS = {
    DICE: ("DiCE random", "DiCE genetic"),
    NICE: ("NICE sparsity", "NICE proximity"),
    CFNOW: ("CFNOW greedy",),
}
COLUMNS = (
    *("data", "tool", "rows", "found", "valid", "violated"),
    *("cost / optimum", "gap", "changed", "CPU"),
)


def described(model: Any) -> dict[str, Any]:
    """A regression or forest of `harness.data.encoded` as JSON."""
    (_, scaler, numbers), (_, encoder, words) = model[0].transformers_[:2]
    columns: dict[str, Any] = {
        name: {"mean": m, "scale": s}
        for name, m, s in zip(numbers, scaler.mean_.tolist(), scaler.scale_.tolist(), strict=True)
    }
    for name, categories in zip(words, getattr(encoder, "categories_", ()), strict=True):
        columns[name] = {"categories": categories.tolist()}
    last = model[-1]
    if hasattr(last, "estimators_"):
        return {"columns": columns, "trees": [_tree(tree.tree_) for tree in last.estimators_]}
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


def framed(answers: list[Any], like: pd.DataFrame) -> pd.DataFrame:
    """Answers as text → a frame; a row without one is missing as a whole."""
    blank = dict.fromkeys(like)
    frame = pd.DataFrame([answer or blank for answer in answers], columns=list(like))
    numbers = [name for name in like if like[name].dtype.kind in "biuf"]
    frame[numbers] = frame[numbers].astype(float)
    return frame


def compared(
    name: str,
    data: tuple[pd.DataFrame, np.ndarray],
    model: Any,
    count: int,
    peers: Mapping[Peer, tuple[str, ...]],
) -> list[tuple[Any, ...]]:
    """The lines of one data set and model, ours first: some rows of class 0, to class 1."""
    X, y = data
    numbers = [column for column in X if X[column].dtype.kind in "iuf" and X[column].nunique() > 2]
    explainer = cp.Explainer(model, data=X, features=[cp.Continuous(column) for column in numbers])
    rows = X[model.predict(X) == 0].sample(count, random_state=0).reset_index(drop=True)
    ours = explainer.explain(rows, 1)
    answers: dict[str, Any] = {"counterpoint": (ours, one_by_one(explainer, rows, 1).seconds)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        X.assign(label=y).to_csv(folder / "train.csv", index=False)
        rows.to_csv(folder / "rows.csv", index=False)
        (folder / "model.json").write_text(json.dumps(described(model)))
        for peer, tools in peers.items():
            results = run(peer, folder, "|".join(tools)) or {}
            answers |= {tool: (framed(r["rows"], rows), r["cpu"]) for tool, r in results.items()}
    lines = []
    for tool, (points, seconds) in answers.items():
        both = (explainer, rows, points)
        valid, gap = metrics.validity(*both, 1), metrics.optimality_gap(*both, 1)
        violation = metrics.constraint_violation(*both)
        cost, good, fit = metrics.proximity(*both, data=X), valid == 1.0, ~np.isnan(gap)
        ratio = cost[fit].sum() / ours.cost[fit].sum() if fit.any() else np.nan
        lines.append(
            (
                *(name, tool, count, int((~np.isnan(valid)).sum()), int(good.sum())),
                int((violation[good] > 0.0).sum()),
                *(
                    _cell(ratio),
                    _cell(_mean(gap[fit])),
                    _cell(_mean(metrics.sparsity(*both)[good])),
                ),
                milliseconds(float(np.median(seconds))),
            )
        )
        print(*lines[-1], sep=" | ", flush=True)
    return lines


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _cell(value: float) -> str:
    return "–" if np.isnan(value) else number(value)
