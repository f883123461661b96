"""Tools that people use, on the same rows: how right, how far from the optimum, how slow they are.

Each is installed into an environment of its own, under $COUNTERPOINT_BENCH_ENVS or
~/.cache/counterpoint-bench, and runs in a process of its own; files go to and fro.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
from _common import HERE, Goal, More, Report, finish, is_quick, milliseconds, number
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp

ROWS = [
    17,
    60,
    119,
    132,
    141,
    150,
    169,
    202,
    254,
    259,
    268,
    292,
    296,
    304,
    325,
    394,
    430,
    446,
    506,
    534,
]
FREE = 5
QUESTION = """
Breast cancer, StandardScaler and LogisticRegression, 20 rows of the test part, target the other
class. Distances in standard deviations, over the proved optimum, medians over valid answers; valid
as the model itself predicts.
"""
METHOD = """
DiCE is installed without xgboost and lightgbm, which it requires and does not import here; *raw* is
DiCE on the data frame and the pipeline, the others get standardised data. DiCE kdtree on
standardised data takes half a minute a row and is left out. A fault inside DiCE (genetic, on too
few candidates) counts as nothing found. NICE knows no constraints. Times are medians of one row,
alone, in a warm process, unless it says otherwise.
"""


@dataclass(frozen=True)
class Peer:
    """A tool, how it is installed, and the script that runs it."""

    name: str
    script: str
    installs: tuple[tuple[str, ...], ...]
    tools: tuple[str, ...]
    constrained: tuple[str, ...] = ()


PEERS = (
    Peer(
        "dice-ml-0.12",
        "run_dice.py",
        (
            ("--no-deps", "dice-ml==0.12", "raiutils==0.4.2"),
            ("numpy", "pandas", "scikit-learn", "scipy", "tqdm", "jsonschema", "requests"),
        ),
        (
            "DiCE random, raw",
            "DiCE genetic, raw",
            "DiCE kdtree, raw",
            "DiCE random",
            "DiCE genetic",
        ),
        ("DiCE random, raw", "DiCE genetic, raw"),
    ),
    Peer(
        "NICEx-0.2.3",
        "run_nice.py",
        (("NICEx==0.2.3", "scipy"),),
        ("NICE none", "NICE sparsity", "NICE proximity"),
    ),
)


@dataclass(frozen=True)
class Setting:
    """The protocol: one model, twenty rows, both classes' other side as the target."""

    train: pd.DataFrame
    labels: pd.Series
    rows: pd.DataFrame
    model: Any
    free: list[list[int]] | None

    @classmethod
    def make(cls, count: int, *, constrained: bool) -> Setting:
        """Breast cancer, 70/30 stratified; with or without all but five features frozen."""
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        train, _, labels, _ = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
        model = make_pipeline(
            StandardScaler(), LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)
        ).fit(train, labels)
        rows = X.loc[ROWS[:count]]
        rng = np.random.default_rng(0)
        free = [sorted(rng.choice(30, FREE, replace=False).tolist()) for _ in ROWS[:count]]
        return cls(train, labels, rows, model, free if constrained else None)

    @property
    def scale(self) -> np.ndarray:
        """(30,) one standard deviation of each column."""
        return np.asarray(self.model[0].scale_)

    def distances(self, points: np.ndarray, i: int) -> tuple[float, float]:
        """L2 and L1 from row i, in standard deviations."""
        moved = (points - self.rows.to_numpy()[i]) / self.scale
        return float(np.linalg.norm(moved)), float(np.abs(moved).sum())


def environment(peer: Peer) -> Path | None:
    """The peer's Python, installed if it is not there yet; None with a sentence if it cannot be."""
    told = os.environ.get("COUNTERPOINT_BENCH_ENVS")
    root = Path(told) if told else Path.home() / ".cache" / "counterpoint-bench"
    folder = root / peer.name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (folder / "ready").exists():
        return python
    print(f"Installing {peer.name} into an environment of its own")
    steps = [[sys.executable, "-m", "venv", "--clear", str(folder)]]
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    steps += [[*pip, *packages] for packages in peer.installs]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{peer.name} is left out: it does not install here ({last}).")
            return None
    (folder / "ready").touch()
    return python


def run_peer(peer: Peer, tools: Sequence[str], setting: Setting) -> list[dict[str, Any]]:
    """What its tools return; nothing if it does not install or run."""
    python = environment(peer)
    if python is None or not tools:
        return []
    scaler, regression = setting.model
    said = {
        "mean": scaler.mean_.tolist(),
        "scale": scaler.scale_.tolist(),
        "coef": regression.coef_[0].tolist(),
        "intercept": float(regression.intercept_[0]),
        "free": setting.free,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "task.json").write_text(json.dumps(said))
        setting.train.assign(label=setting.labels).to_csv(folder / "train.csv", index=False)
        setting.rows.to_csv(folder / "rows.csv", index=False)
        command = [str(python), str(HERE / "peers" / peer.script), str(folder), "|".join(tools)]
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{peer.name} is left out: it does not run here ({last}).")
            return []
        return list(json.loads((folder / "results.json").read_text()))


def run_ours(setting: Setting, name: str, cost: cp.Cost) -> dict[str, Any]:
    """The same for counterpoint, a row at a time as the peers do."""
    explainers = [explainer_for(setting, i, cost) for i in range(len(setting.rows))]
    result: dict[str, Any] = {"tool": name, "rows": [], "wall": [], "cpu": []}
    result |= {"status": [], "claim": []}
    target = cp.OtherLabel()
    for i, explainer in enumerate(explainers):
        row = setting.rows.iloc[[i]]
        explainer.explain(row, target)
        wall, cpu = perf_counter(), process_time()
        answers = explainer.explain(row, target)
        result["cpu"].append(process_time() - cpu)
        result["wall"].append(perf_counter() - wall)
        result["status"].append(answers.status[0])
        result["claim"].append(answers.certificates.claim[0])
        found = answers.found[0]
        result["rows"].append(answers.to_frame().to_numpy()[0].tolist() if found else None)
    return result


def run_batch(setting: Setting, name: str, cost: cp.Cost, rows: list[Any]) -> dict[str, Any]:
    """The time a row when all rows come at once."""
    explainer = cp.Explainer(setting.model, data=setting.train, extrapolate=True, cost=cost)
    result: dict[str, Any] = {"tool": name, "rows": rows, "wall": [], "cpu": []}
    for _ in range(9):
        wall, cpu = perf_counter(), process_time()
        explainer.explain(setting.rows, cp.OtherLabel())
        result["cpu"].append((process_time() - cpu) / len(rows))
        result["wall"].append((perf_counter() - wall) / len(rows))
    return result


def explainer_for(setting: Setting, i: int, cost: cp.Cost) -> cp.Explainer:
    """With the frozen features of row i, if there are any."""
    constraints: list[cp.Constraint] = []
    if setting.free is not None:
        frozen = [n for j, n in enumerate(setting.rows) if j not in setting.free[i]]
        constraints = [cp.Immutable(*frozen), cp.WithinObserved()]
    return cp.Explainer(
        setting.model, data=setting.train, extrapolate=True, cost=cost, constraints=constraints
    )


def line(setting: Setting, result: dict[str, Any], best: dict[str, list[float]]) -> tuple[Any, ...]:
    """Validity by the one model, distances over the proved optimum, time."""
    now = setting.model.predict(setting.rows)
    found, valid, ratios, changed, moved = 0, 0, {"L2": [], "L1": []}, [], 0
    missed = 0
    for i, point in enumerate(result["rows"]):
        possible = np.isfinite(best["L1"][i])
        if point is None:
            missed += possible
            continue
        found += 1
        values = np.array(point)
        frame = pd.DataFrame([values], columns=setting.rows.columns)
        differs = np.abs(values - setting.rows.to_numpy()[i]) > 1e-6 * setting.scale
        changed.append(int(differs.sum()))
        if setting.free is not None:
            moved += bool(np.delete(differs, setting.free[i]).any())
        if setting.model.predict(frame)[0] == now[i]:
            continue
        valid += 1
        for kind, distance in zip(("L2", "L1"), setting.distances(values, i), strict=True):
            if np.isfinite(best[kind][i]):
                ratios[kind].append(distance / best[kind][i])
    n = len(result["rows"])
    over = [number(float(np.median(r))) if r else "–" for r in ratios.values()]
    middle = number(float(np.mean(changed))) if changed else "–"
    cells = [result["tool"], n, found, valid, *over, middle]
    if setting.free is not None:
        cells += [moved, missed]
    times = (milliseconds(float(np.median(result[clock]))) for clock in ("wall", "cpu"))
    return (*cells, *times)


def measure(
    count: int, peers: Sequence[Peer], *, constrained: bool
) -> tuple[list[tuple[Any, ...]], int]:
    """The lines of one protocol, ours first; and how many rows are proved impossible."""
    setting = Setting.make(count, constrained=constrained)
    weight = dict(zip(setting.rows.columns, (1.0 / setting.scale).tolist(), strict=True))
    costs: dict[str, cp.Cost] = {
        "L2": cp.SquaredEuclidean({name: w * w for name, w in weight.items()}),
        "L1": cp.Manhattan(weight),
    }
    ours = {kind: run_ours(setting, f"counterpoint {kind}", cost) for kind, cost in costs.items()}
    best = {
        kind: [
            np.inf if point is None else setting.distances(np.array(point), i)[kind == "L1"]
            for i, point in enumerate(result["rows"])
        ]
        for kind, result in ours.items()
    }
    results = list(ours.values())
    if not constrained:
        for kind, cost in costs.items():
            name = f"counterpoint {kind}, {count} rows at once"
            results.append(run_batch(setting, name, cost, ours[kind]["rows"]))
    for peer in peers:
        results += run_peer(peer, peer.constrained if constrained else peer.tools, setting)
    impossible = sum(status is cp.Status.INFEASIBLE for status in ours["L1"]["status"])
    assert all(claim is cp.Claim.PROVED for result in ours.values() for claim in result["claim"])
    return [line(setting, result, best) for result in results], impossible


def main() -> None:
    quick = is_quick()
    count = 4 if quick else len(ROWS)
    peers = () if quick else PEERS  # each needs an environment of its own
    free, _ = measure(count, peers, constrained=False)
    bound, impossible = measure(count, peers, constrained=True)
    columns = (
        "tool",
        "rows",
        "found",
        "valid",
        "L2 / optimum",
        "L1 / optimum",
        "changed",
        "wall",
        "CPU",
    )
    bound_columns = (*columns[:-2], "frozen moved", "possible but not found", *columns[-2:])
    goals = [
        Goal(f"{r[0]}, valid", "every row", f"{r[3]} of {r[1]}", r[3] == r[1])
        for r in free
        if r[0].startswith("counterpoint")
    ]
    more = More(
        f"""Under constraints: {FREE} random features of 30 may move (others for each row), within
        the training range. counterpoint proves {impossible} of {count} rows impossible.""",
        bound_columns,
        bound,
    )
    report = Report(
        "peers",
        "Against tools that people use",
        QUESTION,
        columns,
        free,
        goals,
        [METHOD],
        [more],
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
