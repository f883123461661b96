"""Forests as people fit them: how good answers are after some seconds, and what bounds them."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from harness.data import encoded, tables
from harness.report import HERE, Claim, Section, is_quick, publish
from harness.timing import fraction, number, timed
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import counterpoint as cp

TEXT = """
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
held, all models and data included. Times are processor time on one core.
"""
SECONDS = (1.0, 5.0)
ROWS = 2
NEAREST = 15
HALVINGS = 12


class Naive:
    """The naive search, written without anything of counterpoint's."""

    def __init__(self, model: Any, frame: pd.DataFrame, target: Any, weights: Any) -> None:
        self.model, self.frame, self.target, self.weights = model, frame, target, weights
        self.examples = frame[model.predict(frame) == target]
        self.words = [n for n in frame if frame[n].dtype.kind not in "biuf"]
        self.numbers = [n for n in frame if n not in self.words]
        self.whole = {n for n in frame if frame[n].dtype.kind in "iu" or _is_whole(frame[n])}

    def costs(self, points: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
        """What each change costs."""
        distance = (points[self.numbers].astype(float) - row[self.numbers].astype(float)).abs()
        moved = (points[self.words] != row[self.words]).astype(float)
        return pd.concat([distance, moved], axis=1) * self.weights

    def gives(self, points: list[pd.Series]) -> np.ndarray:
        """Whether the model gives points the target."""
        rows = pd.DataFrame(points).astype(self.frame.dtypes.to_dict())
        return np.asarray(self.model.predict(rows) == self.target)

    def cost(self, row: pd.Series) -> float:
        """What its answer to a row costs."""
        order = self.costs(self.examples, row).sum(axis=1).to_numpy().argsort(kind="stable")
        points = [self.examples.iloc[k].astype(object) for k in order[:NEAREST]]
        prices = [self.costs(p.to_frame().T, row).iloc[0] for p in points]
        plans = [price.sort_values(ascending=False).index for price in prices]
        for turn in range(len(self.frame.columns)):
            trials = [p.copy() for p in points]
            for trial, plan in zip(trials, plans, strict=True):
                trial[plan[turn]] = row[plan[turn]]
            for k in np.flatnonzero(self.gives(trials)):
                points[k] = trials[k]
        for point in points:
            for name in self.numbers:
                self._move(point, name, float(row[name]))
        return min(float(self.costs(p.to_frame().T, row).sum(axis=1).iloc[0]) for p in points)

    def _move(self, point: pd.Series, name: Any, start: float) -> None:
        """Move one number towards the row by bisection."""
        end = float(point[name])
        for _ in range(HALVINGS if start != end else 0):
            middle = 0.5 * (start + end)
            if name in self.whole:
                middle = float(np.ceil(middle) if end > start else np.floor(middle))
            if middle == end:
                return
            trial = point.copy()
            trial[name] = middle
            if self.gives([trial])[0]:
                point[name] = end = middle
            else:
                start = middle


def _is_whole(column: pd.Series) -> bool:
    return column.dtype.kind == "f" and bool((column == column.round()).all())


def _models(*, quick: bool) -> dict[str, Any]:
    forest = RandomForestClassifier(5 if quick else 100, random_state=0)
    boosted = HistGradientBoostingClassifier(
        max_iter=5 if quick else 1000, early_stopping=False, random_state=0
    )
    return {"default forest": forest} | ({} if quick else {"1 000 boosted trees": boosted})


class Measured(NamedTuple):
    """What was measured of some rows of one model."""

    cost: np.ndarray  # (limits, rows)
    gap: np.ndarray
    naive: np.ndarray  # (rows,)
    cpu: np.ndarray
    overrun: float  # the longest a row took over its limit, after five seconds

    @property
    def least(self) -> np.ndarray:
        """(rows,) least costs that are known, 1 where they are 0."""
        least = np.minimum(self.cost.min(axis=0), self.naive)
        return np.where(least == 0.0, 1.0, least)

    @property
    def ratio(self) -> np.ndarray:
        """(limits, rows) costs over the least known."""
        return self.cost / self.least

    def lines(self, name: str, seconds: Sequence[float]) -> list[tuple[Any, ...]]:
        """Those of the table."""
        naive = number(float(np.median(self.naive / self.least)))
        naive_seconds = f"{number(float(np.median(self.cpu)))} s"
        return [
            (
                *(name, f"{limit:g} s", len(self.naive), number(float(np.median(self.ratio[s])))),
                int((self.ratio[s] <= 1.02).sum()),
                *(f"{100 * float(np.median(self.gap[s])):.0f} %", naive, naive_seconds),
            )
            for s, limit in enumerate(seconds)
        ]


def measured(model: Any, frame: pd.DataFrame, seconds: Sequence[float], count: int) -> Measured:
    """Answers to a few rows after some seconds, and the naive search."""
    numbers = frame.select_dtypes("number")
    spread = dict((numbers.max() - numbers.min()).clip(lower=1e-9))
    weights = pd.Series({n: 1.0 / spread.get(n, 1.0) for n in frame})
    rows = frame[model.predict(frame) == 0]
    rows = rows.iloc[np.linspace(0, len(rows) - 1, count).astype(int)]
    explainer = cp.Explainer(model, data=frame, cost=cp.Manhattan(dict(weights)))
    explainer.explain(rows.head(1), 1, time_limit=0.05)
    search, overrun = Naive(model, frame, 1, weights), 0.0
    cost, gap = np.full((2, len(seconds), len(rows)), np.inf)
    naive, cpu = np.empty(len(rows)), np.empty(len(rows))
    for i in range(len(rows)):
        row = rows.iloc[[i]]
        for s, limit in enumerate(seconds):
            answer, time = timed(lambda: explainer.explain(row, 1, time_limit=limit))  # noqa: B023
            overrun = max(overrun, time / limit if s else 0.0)
            if answer[0].found:
                assert model.predict(answer.to_frame())[0] == 1
                cost[s, i], gap[s, i] = answer.cost[0], answer.certificates.gap[0]
        naive[i], cpu[i] = timed(lambda: search.cost(rows.iloc[i]))  # noqa: B023
        print(cost[:, i], gap[:, i], naive[i], cpu[i], flush=True)
    return Measured(cost, gap, naive, cpu, overrun)


def claims(results: Sequence[Measured], last: str) -> list[Claim]:
    """What is promised of all models together."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    overrun = max(result.overrun for result in results)
    share = 100.0 * float(np.mean([result.ratio[1] <= 1.02 for result in results]))
    naive = np.concatenate([m.cost[1] <= m.naive * (1.0 + 1e-6) for m in results])
    what = f"no dearer than the naive search, {last}"
    return [
        Claim(f"within 1.02, {last}", "at least 90 %", f"{share:.0f} %", share >= 90),
        Claim(what, "every row", fraction(naive), bool(naive.all())),
        Claim("time over the limit", "at most 1.1 ×", f"{number(overrun)} ×", overrun <= 1.1),
        Claim("memory of the process", "at most 2 GiB", f"{number(memory)} GiB", memory <= 2),
    ]


def main() -> None:
    quick = is_quick()
    seconds, count = ((0.05, 0.1), 1) if quick else (SECONDS, ROWS)
    names = ("wine",) if quick else ("German credit", "HELOC", "breast cancer", "wine", "Ames")
    results: dict[str, Measured] = {}
    for name, (frame, labels) in tables().items():
        for kind, last in _models(quick=quick).items() if name in names else ():
            rows = frame.reset_index(drop=True)
            print(name, kind, flush=True)
            model = encoded(rows, labels, last)
            results[f"{name}, {kind}"] = measured(model, rows, seconds, count)
    columns = (
        *("model", "limit", "rows", "median", "within 1.02", "gap"),
        *("naive: median", "naive: CPU"),
    )
    lines = [line for name, result in results.items() for line in result.lines(name, seconds)]
    promises = claims(list(results.values()), f"after {seconds[1]:g} s")
    section = Section("", TEXT, columns, lines, [METHOD], claims=promises)
    publish("forests", "Forests as people fit them", [section], quick=quick)
    if not quick:
        draw({name: (np.median(m.ratio, 1), np.median(m.gap, 1)) for name, m in results.items()})


def draw(points: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Draw the picture of docs/trees.md."""
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "forests"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, (ratio, gap) in points.items():
        style = "o-" if "forest" in name else "s--"
        axes[0].semilogx(SECONDS, ratio, style, label=name)
        axes[1].semilogx(SECONDS, 100.0 * gap, style)
    for ax, what in zip(axes, ("cost / least known", "gap, %"), strict=True):
        ax.set(
            xlabel="seconds", ylabel=what, xticks=SECONDS, xticklabels=[f"{s:g}" for s in SECONDS]
        )
        ax.minorticks_off()  # their labels lie on one another
    figure.legend(loc="outside right center", fontsize=7)
    figure.savefig(HERE.parent / "docs" / "_static" / "forests.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
