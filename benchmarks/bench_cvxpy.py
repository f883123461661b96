"""The same linear and quadratic programs in CVXPY: built for each row, compiled once, and here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cvxpy
import numpy as np
import pandas as pd
from harness.data import standard
from harness.report import Claim, Section, is_quick, publish
from harness.timing import interleaved, microseconds, milliseconds, number, timed
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.lvq import GLVQ, GMLVQ

SOLVERS = {"LP": ("CLARABEL", "HIGHS"), "QP": ("CLARABEL", "DAQP", "OSQP", "SCS")}
ACCURATE = 1e-4
"""Relative error in cost up to which a peer's answer counts."""
COSTS = {"LP": cp.Manhattan(), "QP": cp.SquaredEuclidean()}
SOURCES = {
    "digits, 10 classes × 64": (load_digits, 3),
    "iris, 3 × 4": (load_iris, 1),
    "breast cancer, 2 × 30": (load_breast_cancer, 1),
}
GOALS = {"logistic": {"LP": (80.0, 30.0), "QP": (300.0, 80.0)}}
GOALS |= dict.fromkeys(("GLVQ", "GMLVQ"), dict.fromkeys(COSTS, (100.0, 20.0)))
"""How many times as fast as CVXPY built each time, and compiled once."""
TEXT = f"""
One target class of a softmax model (with bounds or without), or of learning vector quantization
(GLVQ with 3 prototypes a class, GMLVQ with 1): a linear program (L1) or a quadratic one (L2) for
each prototype of the target; time a row, in a batch of 2000 and alone. CVXPY is built for each row,
or compiled once with parameters, for the fastest solver whose cost is within {ACCURATE:g} of the
optimum on every row, at its default settings. Times here include reading the rows, the model's own
`predict`, and the certificate; those of CVXPY are `solve` alone.
"""
WIDE = """
Very many columns, all of which count, ten classes, at a Manhattan cost (ours alone).
"""


class Piece(NamedTuple):
    """matrix · y <= limit: where a model decides for one prototype; and perhaps a box."""

    matrix: np.ndarray
    limit: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


class Setting(NamedTuple):
    """A model, a cost, and rows that do not have the target."""

    family: str
    name: str
    kind: str
    pieces: list[Piece]
    explainer: cp.Explainer
    target: Any
    rows: Any


def built_each_time(piece: Piece, kind: str, x: np.ndarray) -> float:
    """State the problem anew for each row, as papers do, and let CVXPY choose."""
    y = cvxpy.Variable(len(x))
    conditions = [piece.matrix @ y <= piece.limit]
    if piece.low is not None:
        conditions += [y >= piece.low, y <= piece.high]
    return float(cvxpy.Problem(cvxpy.Minimize(_cost(kind, y - x)), conditions).solve())


def _cost(kind: str, delta: Any) -> Any:
    return cvxpy.norm1(delta) if kind == "LP" else cvxpy.sum_squares(delta)


def compiled(piece: Piece, kind: str, solver: str) -> Callable[[np.ndarray], float]:
    """Compile the problem once, with parameters, for one solver; only the numbers change."""
    d = piece.matrix.shape[1]
    delta, limit = cvxpy.Variable(d), cvxpy.Parameter(len(piece.limit))
    low, high = cvxpy.Parameter(d), cvxpy.Parameter(d)
    conditions = [piece.matrix @ delta <= limit]
    if piece.low is not None:
        conditions += [delta >= low, delta <= high]
    problem = cvxpy.Problem(cvxpy.Minimize(_cost(kind, delta)), conditions)
    assert problem.is_dpp()

    def solve(x: np.ndarray) -> float:
        limit.value = piece.limit - piece.matrix @ x
        if piece.low is not None:
            low.value, high.value = piece.low - x, piece.high - x
        value = problem.solve(solver=solver, warm_start=True)
        return float(value) if problem.status == cvxpy.OPTIMAL else np.nan

    return solve


def people(X: np.ndarray, model: Any, target: Any, count: int) -> np.ndarray:
    """Rows like the data, resampled with a little noise, that the model gives another class."""
    rng = np.random.default_rng(0)
    values = X[rng.integers(0, len(X), 4 * count)]
    values = values + rng.normal(0.0, 0.05, values.shape) * (X.std(axis=0) > 0)
    rows = values.clip(X.min(axis=0), X.max(axis=0))
    return rows[model.predict(rows) != target][:count]


def linear_settings(count: int) -> Iterator[Setting]:
    """Softmax models, with and without bounds."""
    for source, (load, k) in SOURCES.items():
        frame, labels, _ = standard(load)
        X = frame.to_numpy()
        model = LogisticRegression(max_iter=1000, tol=1e-8).fit(X, labels)
        slopes, offset = model.coef_, model.intercept_
        if len(slopes) == 1:
            slopes, offset = np.vstack([0 * slopes, slopes]), np.append(0.0, offset)
        rivals = np.arange(len(slopes)) != k
        matrix, limit = slopes[rivals] - slopes[k], offset[k] - offset[rivals]
        rows = pd.DataFrame(people(X, model, k, count), columns=frame.columns)
        named = LogisticRegression(max_iter=1000, tol=1e-8).fit(frame, labels)
        low, high = frame.min(), frame.max()
        box = [cp.Bounds(name, low=low[name], high=high[name]) for name in frame]
        for kind, cost in COSTS.items():
            for bounds, ends in (([], ()), (box, (low.to_numpy(), high.to_numpy()))):
                explainer = cp.Explainer(
                    named, data=frame, extrapolate=True, cost=cost, constraints=bounds
                )
                name = f"{kind}, {source}, {'bounds' if bounds else 'no bounds'}"
                pieces = [Piece(matrix, limit, *ends)]
                yield Setting("logistic", name, kind, pieces, explainer, k, rows)


def prototype_settings(count: int) -> Iterator[Setting]:
    """Learning vector quantization: nearer to one prototype than to any of another class."""
    for source, (load, target) in SOURCES.items():
        frame, labels, _ = standard(load)
        X = frame.to_numpy()
        for family, per_class in ((GLVQ, 3), (GMLVQ, 1)):
            model = family(prototypes_per_class=per_class, random_state=0).fit(X, labels)
            points, owner = model.prototypes_, model.prototype_labels_
            omega = getattr(model, "omega_", np.eye(X.shape[1]))
            metric = omega.T @ omega
            size = np.einsum("ij,jk,ik->i", points, metric, points)
            rivals = owner != target
            pieces = [
                Piece(2.0 * (points[rivals] - points[i]) @ metric, size[rivals] - size[i])
                for i in np.flatnonzero(owner == target)
            ]
            rows = people(X, model, target, count)
            for kind, cost in COSTS.items():
                explainer = cp.Explainer(model, data=X, extrapolate=True, cost=cost)
                name = f"{kind}, {family.__name__}, {per_class} a class, {source}"
                yield Setting(family.__name__, name, kind, pieces, explainer, target, rows)


def measure(setting: Setting, few: int, repeats: int) -> tuple[dict[str, float], str, float]:
    """Seconds a row of each contender, the best compiled solver, and the closed forms' share."""
    _, _, kind, pieces, explainer, target, rows = setting
    points = np.asarray(rows)[:few]
    answers = explainer.explain(rows, target)
    assert (answers.status == "optimal").all()
    single = [rows[i : i + 1] for i in range(len(points))]
    tasks: dict[str, Callable[[], Any]] = {
        "batch": lambda: explainer.explain(rows, target),
        "alone": lambda: [explainer.explain(row, target) for row in single],
        "built": lambda: [min(built_each_time(p, kind, x) for p in pieces) for x in points],
    }
    for solver in set(SOLVERS[kind]) & set(cvxpy.installed_solvers()):
        ready = [compiled(piece, kind, solver) for piece in pieces]

        def run(ready: Any = ready) -> np.ndarray:
            return np.array([min(solve(x) for solve in ready) for x in points])

        error = np.abs(run() / np.asarray(answers.cost[: len(points)]) - 1.0).max()
        if error <= ACCURATE:  # NaN is not
            tasks[solver] = run
    seconds = interleaved(tasks, repeats)
    seconds = {n: s / (len(rows) if n == "batch" else len(points)) for n, s in seconds.items()}
    best = min((n for n in seconds if n.isupper()), key=lambda n: seconds[n])
    return seconds, best, float(answers.closed_form.mean())


def against_cvxpy(*, quick: bool) -> Section:
    """Every setting against CVXPY."""
    lines, claims = [], []
    count, few, repeats = (50, 1, 1) if quick else (2000, 12, 5)
    for setting in (*linear_settings(count), *prototype_settings(count)):
        seconds, best, closed = measure(setting, few, repeats)
        ours, alone = seconds["batch"], seconds["alone"]
        built, careful = seconds["built"] / ours, seconds[best] / ours
        lines.append(
            (
                *(setting.name, microseconds(ours), f"{closed:.0%}", microseconds(alone)),
                *(microseconds(seconds["built"]), f"{microseconds(seconds[best])} ({best})"),
                *(f"{built:.0f}", f"{careful:.0f}", f"{seconds[best] / alone:.2g}"),
            )
        )
        goals = GOALS[setting.family][setting.kind]
        ways = ("built each time", built), ("compiled once", careful)
        for (way, times), goal in zip(ways, goals, strict=True):
            name = f"{way}, {setting.name}"
            claims.append(Claim(name, f"≥ {goal:g}×", f"{times:.0f}×", times >= goal))
    columns = (
        *("program", "batch", "closed form", "single row", "CVXPY built each time"),
        *("CVXPY compiled once", "built / batch", "compiled / batch", "compiled / single"),
    )
    return Section("", TEXT, columns, lines, claims=claims)


def wide(columns: int, rows: int) -> Section:
    """Seconds a row with very many columns, each of which counts, at a Manhattan cost."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(40, columns)), np.tile(np.arange(10), 4)
    model = LogisticRegression(max_iter=1).fit(X, labels)
    model.coef_ = rng.normal(size=(10, columns)) * 30.0 / np.sqrt(columns)
    explainer = cp.Explainer(model, data=X, extrapolate=True, cost=cp.Manhattan())
    lines, claims = [], []
    for target in (cp.Label(3), cp.Probability(3, 0.9), cp.Tradeoff(3, 0.1)):
        explainer.explain(X[:1], target)
        answers, seconds = timed(lambda t=target: explainer.explain(X[:rows], t))
        assert (answers.status != "unproved").all()
        name, time = type(target).__name__, milliseconds(seconds / rows)
        moved = number(float(answers.changed.sum(axis=1).mean()))
        lines.append((name, number(columns), time, f"{answers.gap.max():.0e}", moved))
        met = seconds <= 0.5 * rows
        claims.append(Claim(f"{number(columns)} columns, {name}", "≤ 500 ms a row", time, met))
    columns_ = ("target", "columns", "a row", "largest gap", "columns that change")
    return Section("Very many columns", WIDE, columns_, lines, claims=claims)


def main() -> None:
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    warnings.filterwarnings("ignore", message="Solution may be inaccurate")
    quick = is_quick()
    sections = [against_cvxpy(quick=quick), wide(500 if quick else 20_000, 2 if quick else 10)]
    packages = ("cvxpy", "osqp", "scs")
    publish("cvxpy", "Speed against CVXPY", sections, quick=quick, packages=packages)


if __name__ == "__main__":
    main()
