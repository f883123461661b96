"""The same linear and quadratic programs in CVXPY: built for each row, compiled once, and here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

import cvxpy
import numpy as np
import pandas as pd
from _common import (
    Goal,
    More,
    Report,
    finish,
    is_quick,
    microseconds,
    milliseconds,
    number,
    standard,
)
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import counterpoint as cp

SOLVERS = {
    "LP": ("CLARABEL", "HIGHS", "SCIPY", "OSQP", "SCS", "ECOS"),
    "QP": ("CLARABEL", "OSQP", "DAQP", "PIQP", "QPALM", "PROXQP", "SCS", "ECOS"),
}
ACCURATE = 1e-4
"""The relative error in cost up to which a peer's answer counts."""
QUESTION = """
One target class of a softmax model: a linear program (L1) or a quadratic one (L2); time a row, in a
batch of 2000 and alone.
"""
METHOD = f"""
The best solver is the fastest whose cost is within {ACCURATE:g} of the optimum on every row, at its
default settings. Times here include reading the frame, the model's own `predict`, and the
certificate; those of CVXPY are `solve` alone, without reading a frame or asking the model.
"""
GOALS = {"LP": (150.0, 50.0), "QP": (300.0, 80.0)}
"""How many times as fast as CVXPY built each time, and compiled once."""
CLASSES, COLUMNS = 10, 20_000
SLOWEST = 0.5
"""The seconds that a row with very many columns may take at a Manhattan cost."""


@dataclass(frozen=True)
class Subproblem:
    """matrix · y <= limit: where a softmax model decides for one class; and perhaps a box."""

    matrix: np.ndarray
    limit: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None

    @classmethod
    def of(cls, model: Any, k: int, frame: pd.DataFrame, *, boxed: bool) -> Subproblem:
        """Read from the fitted model's attributes."""
        scores, offset = model.coef_, model.intercept_
        if len(scores) == 1:
            scores, offset = np.vstack([0 * scores, scores]), np.append(0.0, offset)
        others = np.arange(len(scores)) != k
        box = (frame.min().to_numpy(), frame.max().to_numpy()) if boxed else (None, None)
        return cls(scores[others] - scores[k], offset[k] - offset[others], *box)


def built_each_time(piece: Subproblem, kind: str, x: np.ndarray) -> float:
    """As papers do: state the problem anew for each row, let CVXPY choose."""
    y = cvxpy.Variable(len(x))
    conditions = [piece.matrix @ y <= piece.limit]
    if piece.low is not None:
        conditions += [y >= piece.low, y <= piece.high]
    problem = cvxpy.Problem(cvxpy.Minimize(_cost(kind, y - x)), conditions)
    return float(problem.solve())


def _cost(kind: str, delta: Any) -> Any:
    return cvxpy.norm1(delta) if kind == "LP" else cvxpy.sum_squares(delta)


class Compiled:
    """With care: parameters, compiled once, one solver, only the numbers change."""

    def __init__(self, piece: Subproblem, kind: str, solver: str) -> None:
        d = piece.matrix.shape[1]
        self.piece, self.solver = piece, solver
        self.delta = cvxpy.Variable(d)
        self.limit = cvxpy.Parameter(len(piece.limit))
        conditions = [piece.matrix @ self.delta <= self.limit]
        self.low, self.high = cvxpy.Parameter(d), cvxpy.Parameter(d)
        if piece.low is not None:
            conditions += [self.delta >= self.low, self.delta <= self.high]
        self.problem = cvxpy.Problem(cvxpy.Minimize(_cost(kind, self.delta)), conditions)
        assert self.problem.is_dpp()

    def __call__(self, x: np.ndarray) -> float:
        self.limit.value = self.piece.limit - self.piece.matrix @ x
        if self.piece.low is not None:
            self.low.value, self.high.value = self.piece.low - x, self.piece.high - x
        value = self.problem.solve(solver=self.solver, warm_start=True)
        return float(value) if self.problem.status == cvxpy.OPTIMAL else np.nan


def compiled(piece: Subproblem, kind: str, x: np.ndarray) -> dict[str, Compiled]:
    """One for each solver that is there and takes the problem."""
    found = {}
    for solver in SOLVERS[kind]:
        if solver not in cvxpy.installed_solvers():
            continue
        problem = Compiled(piece, kind, solver)
        try:
            problem(x)
        except (cvxpy.SolverError, ValueError):
            continue
        found[solver] = problem
    return found


@dataclass(frozen=True)
class Setting:
    """A model, a cost, with or without a box, and the rows that do not have the target."""

    name: str
    kind: str
    piece: Subproblem
    explainer: cp.Explainer
    target: Any
    rows: pd.DataFrame


def people(frame: pd.DataFrame, model: Any, k: int, count: int) -> pd.DataFrame:
    """Rows like the data, resampled with a little noise, that the model gives another class."""
    rng = np.random.default_rng(0)
    values = frame.to_numpy()[rng.integers(0, len(frame), 4 * count)]
    values += rng.normal(0.0, 0.05, values.shape) * (frame.std().to_numpy() > 0)
    rows = pd.DataFrame(values, columns=frame.columns).clip(frame.min(), frame.max(), axis=1)
    return rows[model.predict(rows) != k].head(count)


def settings(count: int) -> list[Setting]:
    """All of them."""
    out = []
    sources = {"digits, 10 classes × 64": (load_digits, 3)}
    sources |= {"iris, 3 × 4": (load_iris, 1), "breast cancer, 2 × 30": (load_breast_cancer, 1)}
    for source, (load, k) in sources.items():
        frame, _, model = standard(load)
        rows = people(frame, model, k, count)
        for kind, cost in (("LP", cp.Manhattan()), ("QP", cp.SquaredEuclidean())):
            for boxed in (False, True):
                box = [
                    cp.Bounds(name, low=frame[name].min(), high=frame[name].max())
                    for name in frame.columns
                ]
                piece = Subproblem.of(model, k, frame, boxed=boxed)
                constraints = box if boxed else []
                explainer = cp.Explainer(
                    model, data=frame, extrapolate=True, cost=cost, constraints=constraints
                )
                name = f"{kind}, {source}, {'bounds' if boxed else 'no bounds'}"
                out.append(Setting(name, kind, piece, explainer, k, rows))
    return out


@dataclass
class Measured:
    """Seconds a row of each contender, and the relative error of its costs."""

    seconds: dict[str, float]
    errors: dict[str, float]
    closed: float


def measure(setting: Setting, *, few: int, repeats: int) -> Measured:
    """Batch and single rows here, and each peer on the first few rows, in turns."""
    explainer, target, rows = setting.explainer, setting.target, setting.rows
    points = rows.to_numpy()
    singles = [rows.iloc[[i]] for i in range(min(few, len(rows)))]
    answers = explainer.explain(rows, target)
    assert (answers.status == "optimal").all()
    explainer.explain(singles[0], target)
    peers: dict[str, Callable[[np.ndarray], float]] = {
        "built": lambda x: built_each_time(setting.piece, setting.kind, x)
    }
    peers |= compiled(setting.piece, setting.kind, points[0])
    times: dict[str, list[float]] = {name: [] for name in ("batch", "single", *peers)}
    errors = dict.fromkeys(peers, 0.0)
    for _ in range(repeats):
        start = process_time()
        explainer.explain(rows, target)
        times["batch"].append((process_time() - start) / len(rows))
        for i, row in enumerate(singles):
            start = process_time()
            explainer.explain(row, target)
            times["single"].append(process_time() - start)
            for name, peer in peers.items():
                start = process_time()
                value = peer(points[i])
                times[name].append(process_time() - start)
                off = abs(value - answers.cost[i]) / answers.cost[i]
                errors[name] = max(errors[name], off if np.isfinite(off) else np.inf)
    seconds = {name: float(np.median(values)) for name, values in times.items()}
    return Measured(seconds, errors, float(answers.closed_form.mean()))


def wide(columns: int, rows: int) -> tuple[list[tuple[str, ...]], list[Goal]]:
    """Seconds a row with very many columns, each of which counts, at a Manhattan cost."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(4 * CLASSES, columns)), np.tile(np.arange(CLASSES), 4)
    model = LogisticRegression(max_iter=1).fit(X, labels)
    model.coef_ = rng.normal(size=(CLASSES, columns)) * 30.0 / np.sqrt(columns)
    explainer = cp.Explainer(model, data=X, extrapolate=True, cost=cp.Manhattan())
    lines, goals = [], []
    for target in (cp.Label(3), cp.Probability(3, 0.9), cp.Tradeoff(3, 0.1)):
        explainer.explain(X[:1], target)
        start = process_time()
        answers = explainer.explain(X[:rows], target)
        seconds = (process_time() - start) / rows
        assert (answers.status != "unproved").all()
        name, many = type(target).__name__, number(columns)
        moved = number(float(answers.changed.sum(axis=1).mean()))
        lines.append((name, many, milliseconds(seconds), f"{answers.gap.max():.0e}", moved))
        what = f"{CLASSES} classes × {many} columns, Manhattan, {name}"
        asked = f"≤ {SLOWEST:g} s a row"
        goals.append(Goal(what, asked, milliseconds(seconds), seconds <= SLOWEST))
    return lines, goals


def main() -> None:
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    warnings.filterwarnings("ignore", message="Solution may be inaccurate")
    quick = is_quick()
    rows, goals, detail = [], [], []
    ratios: dict[str, list[float]] = {"built": [], "LP": [], "QP": []}
    for setting in settings(100 if quick else 2000):
        result = measure(setting, few=1 if quick else 15, repeats=1 if quick else 7)
        peers = {s: t for s, t in result.seconds.items() if s not in ("batch", "single", "built")}
        usable = {s: t for s, t in peers.items() if result.errors[s] <= ACCURATE}
        best = min(usable, key=lambda solver: usable[solver])
        ours, single = result.seconds["batch"], result.seconds["single"]
        built, careful = result.seconds["built"], usable[best]
        ratios["built"].append(built / ours)
        ratios[setting.kind].append(careful / ours)
        rows.append(
            (
                setting.name,
                microseconds(ours),
                f"{result.closed:.0%}",
                microseconds(single),
                microseconds(built),
                f"{microseconds(careful)} ({best})",
                f"{built / ours:.0f}",
                f"{careful / ours:.0f}",
                f"{careful / single:.2g}",
            )
        )
        ways = ("built each time", built), ("compiled once", careful)
        for (way, peer), asked in zip(ways, GOALS[setting.kind], strict=True):
            times = f"{peer / ours:.0f}×"
            name = f"{way}, {setting.name}"
            goals.append(Goal(name, f"≥ {asked:g}×", times, peer >= asked * ours))
        detail += [
            (setting.name, s, microseconds(t), f"{result.errors[s]:.0e}") for s, t in peers.items()
        ]
    middle = ", ".join(f"{name} {number(float(np.median(r)))}×" for name, r in ratios.items())
    notes = [
        f"""Medians over the settings (built: against CVXPY built for each row; LP, QP: against
        CVXPY compiled once): {middle}.""",
        METHOD,
    ]
    every = More(
        "Every solver that CVXPY has here, compiled once:",
        ("program", "solver", "time", "largest relative error"),
        detail,
    )
    lines, more = wide(500 if quick else COLUMNS, 2 if quick else 10)
    many = More(
        "Very many columns, all of which count, at a Manhattan cost (ours alone):",
        ("target", "columns", "a row", "largest gap", "columns that change"),
        lines,
    )
    report = Report(
        "speed_cvxpy",
        "Speed against CVXPY",
        QUESTION,
        (
            "program",
            "batch",
            "closed form",
            "single row",
            "CVXPY built each time",
            "CVXPY compiled once",
            "built / batch",
            "compiled / batch",
            "compiled / single",
        ),
        rows,
        goals + more,
        notes,
        [every, many],
        ("cvxpy", "osqp", "scs"),
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
