"""How far forests go: memory and time against the number of trees and of leaves."""

from __future__ import annotations

import copy
import tracemalloc
from time import process_time
from typing import Any

import numpy as np
from _common import HERE, Goal, Report, finish, heloc, is_quick, milliseconds, number
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import counterpoint as cp

SECONDS = 10.0
"""For each row."""
QUESTION = """
Forests of HELOC, each tree with at most so many leaves: whole numbers, target the better class,
Manhattan cost in which every column's range counts 1.
"""
METHOD = """
*Memory* is the most that Python holds at once while an explainer is made and gives one answer,
beyond the model. *First* is the time of both, and *median*, *slowest* and *proved* are of five
rows, each alone, with ten seconds on the clock. Processor time on one core. Where
rows are not proved and the slowest took less than ten seconds, the machine was busy.
"""


def main() -> None:
    quick = is_quick()
    data = None if quick else heloc()
    frame, labels = data or load_breast_cancer(return_X_y=True, as_frame=True)
    spread = (frame.max() - frame.min()).clip(lower=1e-9)
    cost = cp.Manhattan(dict(1.0 / spread))
    small = RandomForestClassifier(2, max_depth=2).fit(frame, labels)
    cp.Explainer(small, data=frame).explain(frame.head(1), 0)  # compiles the loops
    lines, drawn = [], []
    for leaves in (4, 8) if quick else (16, 64, 256):
        sizes = (5, 10) if quick else (30, 100, 300, 1000)
        forest = RandomForestClassifier(
            sizes[-1], max_leaf_nodes=leaves, max_samples=0.3, random_state=0
        ).fit(frame, labels)
        for trees in sizes:
            part = copy.copy(forest)
            part.estimators_ = forest.estimators_[:trees]
            part.n_estimators = trees
            rows = frame[part.predict(frame) == 1].head(2 if quick else 5)
            start = process_time()
            explainer = cp.Explainer(part, data=frame, cost=cost)
            explainer.explain(rows.head(1), 0, time_limit=1.0)
            first = process_time() - start
            tracemalloc.start()
            cp.Explainer(part, data=frame, cost=cost).explain(rows.head(1), 0, time_limit=1.0)
            memory = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
            times, proved = np.empty(len(rows)), 0
            for i in range(len(rows)):
                start = process_time()
                answer = explainer.explain(rows.iloc[[i]], 0, time_limit=SECONDS)
                times[i] = process_time() - start
                assert (part.predict(answer.to_frame()) == 0).all()
                proved += answer[0].certificate.claim == "proved"
            middle, top = float(np.median(times)), float(times.max())
            shown = (milliseconds(first), milliseconds(middle), milliseconds(top))
            lines.append(
                (trees, leaves, f"{number(memory)} MiB", *shown, f"{proved} of {len(rows)}")
            )
            drawn.append((trees, leaves, memory, middle))
            print(*lines[-1], sep=" | ", flush=True)
    columns = ("trees", "leaves", "memory", "first", "median", "slowest", "proved")
    title = "How far forests go"
    trees, leaves, memory, _ = drawn[-1]
    each = memory * 2**20 / (trees * leaves)
    goal = Goal(
        "memory of the largest", "at most 1000 bytes a leaf", f"{each:.0f} bytes", each <= 1e3
    )
    report = Report("trees_reach", title, QUESTION, columns, lines, [goal], [METHOD])
    finish(report, quick=quick)
    if not quick:
        draw(drawn)


def draw(points: list[tuple[Any, ...]]) -> None:
    """The picture of docs/trees.md."""
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "trees"
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for leaves in sorted({point[1] for point in points}):
        trees, _, memory, middle = zip(*(p for p in points if p[1] == leaves), strict=True)
        axes[0].loglog(trees, memory, "o-", label=f"{leaves} leaves")
        axes[1].loglog(trees, 1e3 * np.array(middle), "o-", label=f"{leaves} leaves")
    for ax, what in zip(axes, ("memory, MiB", "median of a row, ms"), strict=True):
        ax.set(xlabel="trees", ylabel=what)
    axes[0].legend()
    figure.savefig(HERE.parent / "docs" / "_static" / "trees.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
