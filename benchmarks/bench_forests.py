"""Forests as people fit them: how good answers are after some seconds, and what bounds them."""

from __future__ import annotations

import resource
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from _common import HERE, Goal, Report, finish, is_quick, number
from bench_gaps import data_sets, fitted
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import counterpoint as cp
from counterpoint.engine import confirm, witnesses
from counterpoint.trees import exchange, search

QUESTION = """
scikit-learn's default forests (100 trees without a limit of depth) and boosted ensembles of 1 000
trees, each row alone: what an answer costs after one and five seconds, over the least that
is known. Manhattan cost in which every column's range counts 1; columns of whole numbers change by
whole steps.
"""
METHOD = """
*Least known*: the cheapest answer of any of these searches to the row, checked by the model's own
`predict`. *Median* and *within 1.02*: of cost / least known over the rows; *gap*: the median of
(cost − bound) / cost. *Naive*: the fifteen nearest rows of the target class, changes taken back one
by one, the dearest first, and the numbers that are left moved towards the row by bisection; its
median CPU. *Overrun*: the longest a row took over its limit. *Memory*: the most that the process
held, all models and data included. The seconds of a limit, and all others, are of processor time on
one core, for the machine was busy.
"""
SECONDS = (1.0, 5.0)
ROWS = 2
NEAREST = 15
HALVINGS = 12


def count_processor_time() -> None:
    """Have limits count the time of this process, and not what others keep it waiting."""
    for module in (confirm, exchange, search, witnesses):
        module.clock = process_time  # type: ignore[attr-defined]


def naive(model: Any, frame: pd.DataFrame, row: pd.Series, target: Any, weights: Any) -> float:
    """What the naive search's answer costs: written without anything of counterpoint's."""
    predicted = model.predict(frame) == target
    whole = {n for n in frame if frame[n].dtype.kind in "iu" or _is_whole(frame[n])}
    words = [n for n in frame if frame[n].dtype.kind not in "biuf"]
    numbers = [n for n in frame if n not in words]

    def parts(some: pd.DataFrame) -> pd.DataFrame:
        away = (some[numbers].astype(float) - row[numbers].astype(float)).abs()
        return pd.concat([away, (some[words] != row[words]).astype(float)], axis=1) * weights

    def gives(some: list[pd.Series]) -> np.ndarray:
        return model.predict(pd.DataFrame(some).astype(frame.dtypes.to_dict())) == target

    known = frame[predicted]
    order = parts(known).sum(axis=1).to_numpy().argsort(kind="stable")[:NEAREST]
    points = [known.iloc[k].astype(object) for k in order]
    plans = [parts(p.to_frame().T).iloc[0].sort_values(ascending=False).index for p in points]
    for turn in range(len(frame.columns)):
        trials = [p.copy() for p in points]
        for trial, plan in zip(trials, plans, strict=True):
            trial[plan[turn]] = row[plan[turn]]
        for k in np.flatnonzero(gives(trials)):
            points[k] = trials[k]
    best = np.inf
    for point in points:
        for name in numbers:
            start, end = float(row[name]), float(point[name])
            for _ in range(HALVINGS if start != end else 0):
                middle = 0.5 * (start + end)
                middle = np.ceil(middle) if name in whole and end > start else middle
                middle = np.floor(middle) if name in whole and end < start else middle
                trial = point.copy()
                trial[name] = middle
                if middle == end:
                    break
                if gives([trial])[0]:
                    point[name], end = middle, middle
                else:
                    start = middle
        best = min(best, float(parts(point.to_frame().T).sum(axis=1).iloc[0]))
    return best


def _is_whole(column: pd.Series) -> bool:
    return column.dtype.kind == "f" and bool((column == column.round()).all())


def _models(quick: bool) -> dict[str, Any]:
    forest = RandomForestClassifier(5 if quick else 100, random_state=0)
    boosted = HistGradientBoostingClassifier(
        max_iter=5 if quick else 1000, early_stopping=False, random_state=0
    )
    return {"default forest": forest, "1 000 boosted trees": boosted}


def main() -> None:
    quick = is_quick()
    seconds, count = ((0.05, 0.1), 1) if quick else (SECONDS, ROWS)
    if not quick:
        count_processor_time()
    names = ("wine",) if quick else ("German credit", "HELOC", "breast cancer", "wine", "Ames")
    lines, shares, overruns, never_worse, total, drawn = [], [], [], 0, 0, {}
    for name, (frame, labels) in data_sets().items():
        if name not in names:
            continue
        frame = frame.reset_index(drop=True)
        numbers = frame.select_dtypes("number")
        spread = dict((numbers.max() - numbers.min()).clip(lower=1e-9))
        weights = pd.Series({n: 1.0 / spread.get(n, 1.0) for n in frame})
        for kind, last in _models(quick).items():
            model = fitted(frame, labels, last)
            predicted = model.predict(frame)
            target = 1
            rows = frame[predicted != target]
            rows = rows.iloc[np.linspace(0, len(rows) - 1, count).astype(int)]
            explainer = cp.Explainer(model, data=frame, cost=cp.Manhattan(dict(weights)))
            explainer.explain(rows.head(1), target, time_limit=0.05)  # compiles the loops
            cost, gap = np.full((2, len(seconds), len(rows)), np.inf)
            others, cpu = np.empty(len(rows)), np.empty(len(rows))
            for i in range(len(rows)):
                for s, limit in enumerate(seconds):
                    start = process_time()
                    answer = explainer.explain(rows.iloc[[i]], target, time_limit=limit)
                    overruns.append(((process_time() - start) / limit, limit))
                    if answer[0].found:
                        assert model.predict(answer.to_frame())[0] == target
                        cost[s, i], gap[s, i] = answer.cost[0], answer.certificates.gap[0]
                start = process_time()
                others[i] = naive(model, frame, rows.iloc[i], target, weights)
                cpu[i] = process_time() - start
                print(name, kind, cost[:, i], gap[:, i], others[i], cpu[i], flush=True)
            least = np.minimum(cost.min(axis=0), others)
            ratio = cost / np.where(least == 0.0, 1.0, least)
            five = min(1, len(seconds) - 1)
            shares += (ratio[five] <= 1.02).tolist()
            never_worse += int((cost[five] <= others * (1.0 + 1e-6)).sum())
            total += len(rows)
            drawn[f"{name}, {kind}"] = np.median(ratio, axis=1), np.median(gap, axis=1)
            for s, limit in enumerate(seconds):
                lines.append(
                    (
                        *(f"{name}, {kind}", f"{limit:g} s", len(rows)),
                        *(number(float(np.median(ratio[s]))), int((ratio[s] <= 1.02).sum())),
                        f"{100.0 * float(np.median(gap[s])):.0f} %",
                        number(float(np.median(others / np.where(least == 0.0, 1.0, least)))),
                        f"{number(float(np.median(cpu)))} s",
                    )
                )
    columns = (
        *("model", "limit", "rows", "median", "within 1.02", "gap"),
        *("naive: median", "naive: CPU"),
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    late = max(share for share, limit in overruns if limit == seconds[min(1, len(seconds) - 1)])
    share = 100.0 * float(np.mean(shares))
    goals = [
        Goal(
            "within 1.02 of the least known, after 5 s",
            "at least 90 %",
            f"{share:.0f} %",
            share >= 90,
        ),
        Goal(
            "no dearer than the naive search, after 5 s",
            "every row",
            f"{never_worse} of {total}",
            never_worse == total,
        ),
        Goal("overrun of 5 s", "at most 1.1 ×", f"{number(late)} ×", late <= 1.1),
        Goal("memory of the process", "at most 2 GiB", f"{number(memory)} GiB", memory <= 2),
    ]
    report = Report(
        "forests", "Forests as people fit them", QUESTION, columns, lines, goals, [METHOD]
    )
    finish(report, quick=quick)
    if not quick:
        draw(drawn)


def draw(found: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """The picture of docs/trees.md."""
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "forests"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, (ratio, gap) in found.items():
        style = "o-" if "forest" in name else "s--"
        axes[0].semilogx(SECONDS, ratio, style, label=name)
        axes[1].semilogx(SECONDS, 100.0 * gap, style)
    for ax, what in zip(axes, ("cost / least known", "gap, %"), strict=True):
        ax.set(
            xlabel="seconds", ylabel=what, xticks=SECONDS, xticklabels=[f"{s:g}" for s in SECONDS]
        )
    figure.legend(loc="outside right center", fontsize=7)
    figure.savefig(HERE.parent / "docs" / "_static" / "forests.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
