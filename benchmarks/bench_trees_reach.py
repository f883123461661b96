"""How far forests go: memory and time against the number of trees and of leaves."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import numpy as np
from harness.data import heloc
from harness.report import HERE, Claim, Section, is_quick, publish
from harness.timing import Singles, fraction, milliseconds, number, one_by_one, timed
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import counterpoint as cp

SECONDS = 10.0
"""For each row."""
TEXT = """
Forests of HELOC, each tree with at most so many leaves: whole numbers, target the better class,
Manhattan cost in which every column's range counts 1.
"""
METHOD = """
*Memory* is the most that Python holds at once while an explainer is made and gives one answer,
beyond the model. *First* is the time of both, and *median*, *slowest* and *proved* are of five
rows, each alone, with ten seconds on the clock. Processor time on one core. Where rows are not
proved and the slowest took less than ten seconds, the machine was busy.
"""


def measured(model: Any, frame: Any, count: int) -> tuple[float, float, Singles]:
    """MiB and seconds of an explainer and its first answer; and several rows."""
    spread = (frame.max() - frame.min()).clip(lower=1e-9)
    rows = frame[model.predict(frame) == 1].head(count)

    def first() -> cp.Explainer:
        explainer = cp.Explainer(model, data=frame, cost=cp.Manhattan(dict(1.0 / spread)))
        explainer.explain(rows.head(1), 0, time_limit=1.0)
        return explainer

    explainer, seconds = timed(first)
    tracemalloc.start()
    first()
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    singles = one_by_one(explainer, rows, 0, time_limit=SECONDS)
    for answers in singles.answers:
        assert (model.predict(answers.to_frame()) == 0).all()
    return memory, seconds, singles


def main() -> None:
    quick = is_quick()
    data = None if quick else heloc()
    frame, labels = data or load_breast_cancer(return_X_y=True, as_frame=True)
    sizes = (5, 10) if quick else (30, 100, 300, 1000)
    lines, points = [], []
    for leaves in (4, 8) if quick else (16, 64, 256):
        forest = RandomForestClassifier(
            sizes[-1], max_leaf_nodes=leaves, max_samples=0.3, random_state=0
        ).fit(frame, labels)
        for trees in sizes:
            model = copy.copy(forest)
            model.estimators_, model.n_estimators = forest.estimators_[:trees], trees
            memory, first, singles = measured(model, frame, 2 if quick else 5)
            times = (milliseconds(first), singles.median, singles.slowest)
            lines.append((trees, leaves, f"{number(memory)} MiB", *times, fraction(singles.proved)))
            points.append((trees, leaves, memory, float(np.median(singles.seconds))))
            print(*lines[-1], sep=" | ", flush=True)
    trees, leaves, memory, _ = points[-1]
    size = memory * 2**20 / (trees * leaves)
    what, measure = "memory of the largest", f"{size:.0f} bytes"
    claim = Claim(what, "at most 1000 bytes a leaf", measure, size <= 1000)
    columns = ("trees", "leaves", "memory", "first", "median", "slowest", "proved")
    section = Section("", TEXT, columns, lines, [METHOD], claims=[claim])
    publish("trees_reach", "How far forests go", [section], quick=quick)
    if not quick:
        draw(points)


def draw(points: list[tuple[Any, ...]]) -> None:
    """Draw the picture of docs/trees.md."""
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "trees"
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for leaves in sorted({point[1] for point in points}):
        trees, _, memory, median = zip(*(p for p in points if p[1] == leaves), strict=True)
        axes[0].loglog(trees, memory, "o-", label=f"{leaves} leaves")
        axes[1].loglog(trees, 1e3 * np.array(median), "o-", label=f"{leaves} leaves")
    for ax, what in zip(axes, ("memory, MiB", "median of a row, ms"), strict=True):
        ax.set(xlabel="trees", ylabel=what)
    axes[0].legend()
    figure.savefig(HERE.parent / "docs" / "_static" / "trees.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
