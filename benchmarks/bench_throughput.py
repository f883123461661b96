"""How many certified rows a second: binary logistic regression, 30 features, one core."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
from _common import Goal, Report, finish, interleaved, is_quick, keep_memory, number, standard
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import counterpoint as cp

ROWS = 1_000_000
GOAL = 500_000
MULTIPLE = 12
QUESTION = """
Binary logistic regression on 30 float64 columns: certified answers a second from `explain(rows)`
to `to_frame()`, both included, and how many times the model's own `predict(rows)` that takes, also
with `report()`.
"""
METHOD = """
`other label` makes every row work; with `label 1` those that have it already are answered at cost
0. The limit is what no method does without, in the same run: the model's scores of the rows, its
predictions before and after, and the rows moved along one direction, in a frame of their own. Freed
memory stays with the process, for everyone. Peak memory as tracemalloc sees it, answers and frame
included; the input itself is 240 B/row, and so is the frame that is returned.
"""
COSTS = {"L1": cp.Manhattan(), "L2": cp.SquaredEuclidean()}
CONSTRAINTS: dict[str, list[cp.Constraint]] = {"none": [], "within observed": [cp.WithinObserved()]}


def population(frame: pd.DataFrame, count: int) -> pd.DataFrame:
    """Many rows like the data: resampled, with noise."""
    rng = np.random.default_rng(0)
    values = frame.to_numpy()[rng.integers(0, len(frame), count)]
    return pd.DataFrame(values + rng.normal(0.0, 0.1, values.shape), columns=frame.columns)


def memory_of(count: int) -> float:
    """Peak bytes beyond the input, during one call and the making of its frame."""
    frame, _, model = standard(load_breast_cancer)
    rows = population(frame, count)
    explainer = cp.Explainer(model, data=frame, extrapolate=True, cost=cp.Manhattan())
    explainer.explain(rows.head(1000), cp.OtherLabel()).to_frame()
    tracemalloc.start()
    explainer.explain(rows, cp.OtherLabel()).to_frame()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return float(peak)


def memory_goal(peaks: list[float], sizes: tuple[int, ...]) -> Goal:
    """A line through the peaks, and how far they are from it."""
    slope, constant = np.polyfit(sizes, peaks, 1)
    off = np.abs(np.polyval([slope, constant], sizes) / peaks - 1.0).max()
    measured = f"{number(slope)} B/row + {number(constant / 2**20)} MiB, off by at most {off:.0%}"
    asked = "linear, at most 2 × the answers (480 B/row)"
    return Goal("peak memory beyond the input", asked, measured, off < 0.05 and slope <= 480)


def limit_of(model: LogisticRegression, rows: Any) -> None:
    """Read the rows, move them, and ask the model before and after."""
    values, row = np.asarray(rows), model.coef_[0]
    moved = np.multiply.outer((values @ row + model.intercept_) / -(row @ row), row)
    moved += values
    model.predict(rows)
    framed = isinstance(rows, pd.DataFrame)
    model.predict(pd.DataFrame(moved, rows.index, rows.columns, copy=False) if framed else moved)


def measure(name: str, case: tuple[Any, Any, Any], rows: Any, target: Any, repeats: int) -> Any:
    """One line of the table: answers and frame, against predict in the same run."""
    data, model, (cost, constraints) = case
    explainer = cp.Explainer(model, data=data, extrapolate=True, cost=cost, constraints=constraints)
    explainer.explain(rows[:1000], target)
    held: list[Any] = []

    def answer() -> None:
        held[:] = [explainer.explain(rows, target)]
        held.append(held[0].to_frame())

    def report() -> None:
        held[0].report()

    tasks = {
        "ours": answer,
        "report": report,
        "predict": lambda: model.predict(rows),
        "limit": lambda: limit_of(model, rows),
    }
    seconds = interleaved(tasks, repeats)
    answers = held[0]
    work = float(np.mean(answers.status != "already"))
    proved = float(np.mean((answers.certificates.claim == cp.Claim.PROVED)[answers.found]))
    speed = len(rows) / seconds["ours"]
    multiple = seconds["ours"] / seconds["predict"]
    reported = multiple + seconds["report"] / seconds["predict"]
    limit = seconds["limit"] / seconds["predict"]
    cells = (
        name,
        number(len(rows)),
        f"{work:.0%}",
        number(speed),
        number(multiple),
        number(reported),
        number(limit),
        f"{np.mean(answers.closed_form):.1%}",
        f"{proved:.1%}",
        f"{np.nanmax(answers.gap):.0e}",
    )
    return cells, speed, (reported, limit)


def main() -> None:
    quick = is_quick()
    keep_memory()
    count, repeats = (20_000, 1) if quick else (ROWS, 3)
    frame, labels, model = standard(load_breast_cancer)
    nameless = LogisticRegression(max_iter=1000, tol=1e-8).fit(frame.to_numpy(), labels)
    rows, goals = [], []
    people = population(frame, count)
    for cost_name, cost in COSTS.items():
        for kind, constraints in CONSTRAINTS.items():
            for target_name, target in (("other label", cp.OtherLabel()), ("label 1", cp.Label(1))):
                inputs = [("pandas", frame, model, people)]
                if kind == "none":
                    inputs.append(("NumPy", frame.to_numpy(), nameless, people.to_numpy()))
                for source, data, fitted, given in inputs:
                    name = f"{source}, {cost_name}, constraints: {kind}, {target_name}"
                    case = data, fitted, (cost, constraints)
                    cells, speed, (reported, limit) = measure(name, case, given, target, repeats)
                    rows.append(cells)
                    if kind == "none":
                        measured = f"{number(speed)} rows/s"
                        goals.append(Goal(name, "at least 500 000 rows/s", measured, speed >= GOAL))
                    if kind == "none" and cost_name == "L2":
                        satisfied, asked = reported <= MULTIPLE, f"≤ {MULTIPLE} × predict"
                        measured = f"{number(reported)}× (limit: {number(limit)}×)"
                        goals.append(Goal(f"{name}, with report", asked, measured, satisfied))
    sizes = (20_000, 40_000) if quick else (100_000, 200_000, 400_000, 800_000)
    goals.append(memory_goal([memory_of(size) for size in sizes], sizes))
    report = Report(
        "throughput",
        "Throughput",
        QUESTION,
        (
            "input",
            "rows",
            "need a change",
            "rows/s",
            "× predict",
            "with report, × predict",
            "limit, × predict",
            "closed form",
            "proved",
            "largest gap",
        ),
        rows,
        goals,
        [METHOD],
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
