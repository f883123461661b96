"""How long one person waits: single rows through a warm Explainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _common import (
    Goal,
    Report,
    each,
    finish,
    german,
    german_model,
    german_policy,
    is_quick,
    milliseconds,
    standard,
)
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression

import counterpoint as cp

SETTLED = (cp.Status.OPTIMAL, cp.Status.ALREADY, cp.Status.INFEASIBLE)
QUESTION = """
One row in, one certified answer out and read, `explain(row, target)[0]`, through an Explainer that
has answered before: median and 95th percentile over rows, beside the model's own `predict` of the
same row, which every answer needs at least once. *Settled*: optimal, or impossible.
"""


@dataclass(frozen=True)
class Case:
    """One situation, and how long it may take."""

    name: str
    explainer: cp.Explainer
    rows: list[Any]
    target: Any
    limit: float


def single_rows(frame: Any, count: int) -> list[Any]:
    """One-row frames."""
    return [frame.iloc[[i]] for i in range(min(count, len(frame)))]


def closed_forms(count: int) -> list[Case]:
    """Binary logistic regression, 30 features."""
    frame, labels, model = standard(load_breast_cancer)
    nameless = LogisticRegression(max_iter=1000, tol=1e-8).fit(frame.to_numpy(), labels)
    cases = []
    for name, cost in (("L1", cp.Manhattan()), ("L2", cp.SquaredEuclidean())):
        explainer = cp.Explainer(model, data=frame, extrapolate=True, cost=cost)
        rows = single_rows(frame, count)
        arrays = [row.to_numpy() for row in rows]
        target = cp.OtherLabel()
        plain = cp.Explainer(nameless, data=frame.to_numpy(), extrapolate=True, cost=cost)
        cases.append(Case(f"closed form, {name}, frame", explainer, rows, target, 1e-3))
        cases.append(Case(f"closed form, {name}, array", plain, arrays, target, 1e-3))
        named = cp.Explainer(model, data=frame, cost=cost, constraints=[cp.WithinObserved()])
        cases.append(Case(f"closed form, {name}, in observed", named, rows, target, 1e-3))
    return cases


def small_programs(count: int) -> list[Case]:
    """Softmax models: trade-offs, linear and quadratic programs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 30))
    soft = LogisticRegression().fit(X, (X @ rng.normal(size=(30, 3))).argmax(axis=1))
    explainer = cp.Explainer(soft, cost=cp.SquaredEuclidean())
    rows = [X[[i]] for i in range(count)]
    cases = [Case("trade-off, 3 classes, array", explainer, rows, cp.Tradeoff(2, 0.1), 2e-3)]
    for label, load in (("iris, 3 classes", load_iris), ("digits, 10 classes", load_digits)):
        frame, _, model = standard(load)
        for kind, cost in (("LP", cp.Manhattan()), ("QP", cp.SquaredEuclidean())):
            explainer = cp.Explainer(model, data=frame, extrapolate=True, cost=cost)
            target = model.classes_[1].item()
            rows = single_rows(frame[model.predict(frame) != target], count)
            cases.append(Case(f"{kind}, {label}", explainer, rows, target, 2e-3))
    return cases


def mixed(count: int) -> list[Case]:
    """German credit: whole numbers and categories, with a policy."""
    data = german()
    if data is None:
        return []
    frame, labels = data
    model = german_model(frame, labels)
    rows = single_rows(frame[model.predict(frame) == -1], count)
    costs = {
        "L1": None,
        "L2": cp.SquaredEuclidean({"LoanAmount": 1e-6, "LoanDuration": 1e-2, "Age": 0.01}),
    }
    policies = {"no policy": [], "policy": german_policy()}
    policies["policy, 2 changes"] = [*german_policy(), cp.MaxChanges(2)]
    return [
        Case(
            f"German credit, {kind}, {name}",
            cp.Explainer(model, data=frame, extrapolate=True, cost=cost, constraints=constraints),
            rows,
            1,
            20e-3,
        )
        for kind, cost in costs.items()
        for name, constraints in policies.items()
    ]


def measure(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """Seconds of each answer (CPU, clock) and each predict, in turns; and the answers."""

    def answer(row: Any) -> Any:
        return case.explainer.explain(row, case.target)[0]

    answer(case.rows[0])
    tasks: list[Callable[[], Any]] = []
    answers: list[Any] = []
    predict = case.explainer.model.predict
    for row in case.rows:
        tasks.append(lambda row=row: answers.append(answer(row)))
        tasks.append(lambda row=row: predict(row))
    cpu, clock = each(tasks)
    return cpu[::2], clock[::2], cpu[1::2], answers


def main() -> None:
    quick = is_quick()
    count = 6 if quick else 200
    rows, goals = [], []
    for case in [*closed_forms(count), *small_programs(count), *mixed(count)]:
        ours, clock, predict, answers = measure(case)
        settled = np.mean([a.status in SETTLED for a in answers])
        closed = np.mean([a.batch.closed_form[a.position] for a in answers])
        median, late = float(np.median(ours)), float(np.quantile(ours, 0.95))
        rows.append(
            (
                case.name,
                len(ours),
                milliseconds(median),
                milliseconds(late),
                milliseconds(float(np.median(clock))),
                milliseconds(float(np.median(predict))),
                f"{closed:.0%}",
                f"{settled:.0%}",
            )
        )
        asked = f"below {1e3 * case.limit:g} ms"
        goals.append(Goal(case.name, asked, milliseconds(median), median < case.limit))
    report = Report(
        "latency",
        "Latency",
        QUESTION,
        (
            "situation",
            "rows",
            "median",
            "95 %",
            "median on the clock",
            "predict alone",
            "closed form",
            "settled",
        ),
        rows,
        goals,
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
