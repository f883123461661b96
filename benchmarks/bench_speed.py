"""How fast answers are: a million rows at once, one row alone, whole steps and categories."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from harness.data import (
    encoded,
    german,
    german_model,
    german_policy,
    heloc,
    heloc_integers,
    heloc_model,
    heloc_policy,
    resampled,
    standard,
)
from harness.report import Claim, Section, is_quick, publish
from harness.timing import (
    interleaved,
    keep_memory,
    milliseconds,
    number,
    one_by_one,
    predict_times,
    timed,
)
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

import counterpoint as cp

COSTS = {"L1": cp.Manhattan(), "L2": cp.SquaredEuclidean()}
MILLION = """
Binary logistic regression on 30 float64 columns, every row to the other label: certified answers a
second from `explain(rows)` to `to_frame()`, both included, and how many times the model's own
`predict(rows)` that takes, also with `report()`. The limit is what no method does without, in the
same run: the model's scores of the rows, its predictions before and after, and the rows moved
along one direction, in a frame of their own. Freed memory stays with the process. Peak memory is
that of tracemalloc, answers and frame included; the input itself is 240 B/row, and so is the frame
that is returned.
"""
ALONE = """
One row in, one certified answer out, through an Explainer that has answered before, beside the
model's own `predict` of the same row, which every answer needs at least once. *Settled*: optimal,
or impossible.
"""
STEPS = """
Models whose scores are sums over columns, of which some change by whole steps, are categories or
are binned; rows at once.
"""


# A million rows at once


def minimal_work(model: LogisticRegression, rows: Any) -> None:
    """Read the rows, move them, and ask the model before and after."""
    values, row = np.asarray(rows), model.coef_[0]
    moved = np.multiply.outer((values @ row + model.intercept_) / -(row @ row), row)
    moved += values
    model.predict(rows)
    framed = isinstance(rows, pd.DataFrame)
    model.predict(pd.DataFrame(moved, rows.index, rows.columns, copy=False) if framed else moved)


def peak_memory(model: Any, frame: pd.DataFrame, count: int) -> float:
    """Peak bytes beyond the input, during one call and the making of its frame."""
    rows = resampled(frame, count, 0.1)
    explainer = cp.Explainer(model, data=frame, extrapolate=True, cost=cp.Manhattan())
    explainer.explain(rows.head(1000), cp.OtherLabel()).to_frame()
    tracemalloc.start()
    explainer.explain(rows, cp.OtherLabel()).to_frame()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return float(peak)


def memory_claim(model: Any, frame: pd.DataFrame, sizes: tuple[int, ...]) -> Claim:
    """Fit a line through the peaks, and say how much they deviate from it."""
    peaks = [peak_memory(model, frame, size) for size in sizes]
    slope, constant = np.polyfit(sizes, peaks, 1)
    error = np.abs(np.polyval([slope, constant], sizes) / peaks - 1.0).max()
    measured = f"{number(slope)} B/row + {number(constant / 2**20)} MiB, off by at most {error:.0%}"
    expected = "linear, at most 2 × the answers (480 B/row)"
    return Claim("peak memory beyond the input", expected, measured, error < 0.05 and slope <= 480)


def batch(explainer: cp.Explainer, rows: Any, repeats: int) -> tuple[Any, dict[str, float]]:
    """Answers, and the seconds of answering, reporting, predicting, and of the minimal work."""
    model, target = explainer.model, cp.OtherLabel()
    explainer.explain(rows[:1000], target)
    results: list[Any] = []

    def answer() -> None:
        results[:] = [explainer.explain(rows, target)]
        results.append(results[0].to_frame())

    tasks = {
        "ours": answer,
        "report": lambda: results[0].report(),  # noqa: PLW0108 (what is there then)
        "predict": lambda: model.predict(rows),
        "limit": lambda: minimal_work(model, rows),
    }
    return results, interleaved(tasks, repeats)


def million_rows(*, quick: bool) -> Section:
    """Rows a second, with and without bounds, as frames and arrays."""
    count, repeats = (20_000, 1) if quick else (1_000_000, 3)
    frame, labels, model = standard(load_breast_cancer)
    nameless = LogisticRegression(max_iter=1000, tol=1e-8).fit(frame.to_numpy(), labels)
    people, lines, claims = resampled(frame, count, 0.1), [], []
    inputs = {
        "pandas": (model, frame, people),
        "NumPy": (nameless, *map(np.asarray, (frame, people))),
    }
    for cost_name, cost in COSTS.items():
        for source, kind in (("pandas", "none"), ("NumPy", "none"), ("pandas", "within observed")):
            fitted, data, rows = inputs[source]
            bounds = [] if kind == "none" else [cp.WithinObserved()]
            explainer = cp.Explainer(
                fitted, data=data, extrapolate=True, cost=cost, constraints=bounds
            )
            (answers, _), seconds = batch(explainer, rows, repeats)
            speed = count / seconds["ours"]
            both = (seconds["ours"] + seconds["report"]) / seconds["predict"]
            ratios = (
                seconds["ours"] / seconds["predict"],
                both,
                seconds["limit"] / seconds["predict"],
            )
            proved = (answers.certificates.claim == cp.Claim.PROVED)[answers.found]
            name = f"{source}, {cost_name}, constraints: {kind}"
            lines.append(
                (
                    *(name, number(count), number(speed), *map(number, ratios)),
                    *(f"{np.mean(answers.closed_form):.1%}", f"{proved.mean():.1%}"),
                    f"{np.nanmax(answers.gap):.0e}",
                )
            )
            limit = f"{number(both)}× (limit: {number(ratios[2])}×)"
            claims.append(Claim(f"{name}, with report", "≤ 30 × predict", limit, both <= 30))
    sizes = (20_000, 40_000) if quick else (100_000, 200_000, 400_000, 800_000)
    columns = (
        *("input", "rows", "rows/s", "× predict", "with report, × predict", "limit, × predict"),
        *("closed form", "proved", "largest gap"),
    )
    claims.append(memory_claim(model, frame, sizes))
    return Section("A million rows", MILLION, columns, lines, claims=claims)


# One row


class Case(NamedTuple):
    """A situation, and how many milliseconds a row may take."""

    name: str
    explainer: cp.Explainer
    rows: Any
    target: Any
    limit: float


def cases(count: int) -> Iterator[Case]:
    """Closed forms, small programs, and German credit with its policy."""
    frame, labels, model = standard(load_breast_cancer)
    nameless = LogisticRegression(max_iter=1000, tol=1e-8).fit(frame.to_numpy(), labels)
    rows, other = frame.head(count), cp.OtherLabel()
    for name, cost in COSTS.items():
        explainer = cp.Explainer(model, data=frame, extrapolate=True, cost=cost)
        yield Case(f"closed form, {name}, frame", explainer, rows, other, 1.0)
        explainer = cp.Explainer(nameless, data=frame.to_numpy(), extrapolate=True, cost=cost)
        yield Case(f"closed form, {name}, array", explainer, rows.to_numpy(), other, 1.0)
        explainer = cp.Explainer(model, data=frame, cost=cost, constraints=[cp.WithinObserved()])
        yield Case(f"closed form, {name}, in observed", explainer, rows, other, 1.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 30))
    soft = LogisticRegression().fit(X, (X @ rng.normal(size=(30, 3))).argmax(axis=1))
    explainer = cp.Explainer(soft, cost=cp.SquaredEuclidean())
    yield Case("trade-off, 3 classes, array", explainer, X[:count], cp.Tradeoff(2, 0.1), 2.0)
    for label, load in (("iris, 3 classes", load_iris), ("digits, 10 classes", load_digits)):
        frame, _, model = standard(load)
        target = model.classes_[1].item()
        rows = frame[model.predict(frame) != target].head(count)
        for kind, cost in zip(("LP", "QP"), COSTS.values(), strict=True):
            explainer = cp.Explainer(model, data=frame, extrapolate=True, cost=cost)
            yield Case(f"{kind}, {label}", explainer, rows, target, 2.0)
    yield from credit_cases(count)


def credit_cases(count: int) -> Iterator[Case]:
    """German credit: whole numbers and categories, with and without a policy."""
    data = german()
    if data is None:
        return
    model = german_model(*data)
    rows = data[0][model.predict(data[0]) == -1].head(count)
    squared = cp.SquaredEuclidean({"LoanAmount": 1e-6, "LoanDuration": 1e-2, "Age": 0.01})
    policies = {"no policy": [], "policy": german_policy()}
    policies["policy, 2 changes"] = [*german_policy(), cp.MaxChanges(2)]
    for kind, cost in (("L1", None), ("L2", squared)):
        for name, constraints in policies.items():
            explainer = cp.Explainer(
                model, data=data[0], extrapolate=True, cost=cost, constraints=constraints
            )
            yield Case(f"German credit, {kind}, {name}", explainer, rows, 1, 20.0)


def one_row(*, quick: bool) -> Section:
    """Median and 95th percentile of single rows."""
    lines, claims = [], []
    for case in cases(6 if quick else 200):
        singles = one_by_one(case.explainer, case.rows, case.target)
        times = predict_times(case.explainer.model, case.rows)
        settled = np.isin(singles.status, ("optimal", "already", "infeasible"))
        lines.append(
            (
                *(case.name, len(case.rows), singles.median, singles.quantile(0.95)),
                milliseconds(float(np.median(times))),
                *(f"{singles.closed_form.mean():.0%}", f"{settled.mean():.0%}"),
            )
        )
        met = bool(np.median(singles.seconds) < 1e-3 * case.limit)
        claims.append(Claim(case.name, f"below {case.limit:g} ms", singles.median, met))
    columns = ("situation", "rows", "median", "95 %", "predict alone", "closed form", "settled")
    return Section("One row", ALONE, columns, lines, claims=claims)


# Whole steps, categories, bins


class Setting(NamedTuple):
    """A model with rows, and how many of them a second shall be answered."""

    name: str
    explainer: cp.Explainer
    rows: pd.DataFrame
    target: Any
    speed: float


def heloc_settings(*, quick: bool) -> Iterator[Setting]:
    """HELOC in whole steps, binned, and by naive Bayes."""
    data = heloc()
    if data is None:
        return
    frame, labels = data
    model, integers = heloc_model(frame, labels), heloc_integers(frame)
    denied = frame[model.predict(frame) == 1].head(200 if quick else 4000)
    squared = cp.SquaredEuclidean({c: 1.0 / max(float(frame[c].var()), 1e-9) for c in frame})
    observed, few = [cp.WithinObserved()], [*heloc_policy(), cp.MaxChanges(3)]
    for name, cost, constraints, speed in (
        ("L1, within observed", None, observed, 4_000),
        ("L2, within observed", squared, observed, 1_500),
        ("L1, 3 changes, policy", None, few, 1_000),
    ):
        explainer = cp.Explainer(
            model,
            data=frame,
            extrapolate=True,
            features=integers,
            cost=cost,
            constraints=constraints,
        )
        yield Setting(f"HELOC, {name}", explainer, denied, 0, speed)
    bins = KBinsDiscretizer(8, encode="onehot-dense", strategy="uniform")
    card = make_pipeline(bins, LogisticRegression(max_iter=500)).fit(frame, labels)
    denied = frame[card.predict(frame) == 1].head(100 if quick else 1000)
    explainer = cp.Explainer(card, data=frame, features=integers)
    yield Setting("HELOC binned by 8", explainer, denied, 0, 300)
    narrow = frame.iloc[:, :8]
    bayes = GaussianNB().fit(narrow, labels)
    denied = narrow[bayes.predict(narrow) == 1].head(20 if quick else 200)
    explainer = cp.Explainer(bayes, data=narrow)
    yield Setting("HELOC, Gaussian naive Bayes", explainer, denied, 0, 100)


def mixed_settings(*, quick: bool) -> Iterator[Setting]:
    """Four random classes of whole numbers and words."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"n{j}": rng.integers(0, 20, size=4000) for j in range(8)})
    for j in range(4):
        frame[f"c{j}"] = rng.choice(["ash", "birch", "cedar", "elm"], size=4000)
    design = pd.get_dummies(frame, dtype=float).to_numpy()
    classes = (design @ rng.normal(size=(design.shape[1], 4)) * 0.3).argmax(axis=1)
    model = encoded(frame, classes, LogisticRegression(max_iter=1000))
    rows = frame[model.predict(frame) != 2].head(100 if quick else 1000)
    relation = cp.Linear({"n0": 1, "n1": -1}, high=5)
    for name, constraints in (("", []), (", a relation", [relation])):
        explainer = cp.Explainer(model, data=frame, constraints=constraints)
        yield Setting(f"4 classes, mixed{name}", explainer, rows, 2, 500)


def whole_steps(*, quick: bool) -> Section:
    """Rows a second, and which share is proved."""
    lines, claims = [], []
    for setting in (*heloc_settings(quick=quick), *mixed_settings(quick=quick)):
        explain = setting.explainer.explain
        explain(setting.rows.head(2), setting.target)
        answers, seconds = timed(lambda s=setting: explain(s.rows, s.target))  # noqa: B023
        count, speed = len(setting.rows), len(setting.rows) / seconds
        settled = np.isin(answers.status, ("optimal", "infeasible", "already"))
        proved = float(np.mean(settled & (answers.certificates.claim == cp.Claim.PROVED)))
        cells = number(count), number(speed), milliseconds(seconds / count), f"{proved:.1%}"
        lines.append((setting.name, *cells))
        expected, measured = f"at least {number(setting.speed)} rows/s", f"{number(speed)} rows/s"
        claims += [
            Claim(setting.name, expected, measured, speed >= setting.speed),
            Claim(f"proved, {setting.name}", "at least 98%", f"{proved:.1%}", proved >= 0.98),
        ]
    columns = ("setting", "rows", "rows/s", "a row", "proved")
    return Section("Whole steps, categories, bins", STEPS, columns, lines, claims=claims)


def main() -> None:
    quick = is_quick()
    keep_memory()
    sections = [million_rows(quick=quick), one_row(quick=quick), whole_steps(quick=quick)]
    publish("speed", "Speed", sections, quick=quick)


if __name__ == "__main__":
    main()
