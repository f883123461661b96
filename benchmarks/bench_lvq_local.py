"""Counterfactuals of models with local metrics (LGMLVQ): how near to the best known, and how fast.

Beside ours the method of the paper, and the best of many other searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time

import numpy as np
from _common import Goal, Report, finish, is_quick, milliseconds
from lvq_tasks import DATA, Task, by_scip, from_anywhere, from_prototypes, tasks

import counterpoint as cp

ROWS = 200
STARTS = 50
EXHAUSTIVE = 20
"""On so many rows SCIP is asked besides."""
CLOSE = 1e-4
"""A relative difference in cost that does not count as worse."""
COSTS = {"Manhattan": cp.Manhattan(), "squared Euclidean": cp.SquaredEuclidean()}
QUESTION = """
Held-out rows of LGMLVQ models (3 prototypes a class, four folds), a target drawn among the other
classes. Not convex: is the answer the best that is known, is it proved, and how long does it take?
"""
METHOD = """
*Paper*: one convex-concave procedure from each prototype of the target, its convex programs by
direct calls of Clarabel. *Best known*:
the least of ours, the paper's, procedures from 50 random points of the target, and on the first 20
rows SCIP, 5 s for each prototype. CPU time of one row through a warm Explainer. *Gap* is the mean
of what the certificates leave open.
"""


@dataclass(frozen=True)
class Measured:
    """What became of the rows of one data set with one cost, each (n,)."""

    ours: np.ndarray
    paper: np.ndarray
    best: np.ndarray
    seconds: np.ndarray
    paper_seconds: np.ndarray
    proved: np.ndarray
    gap: np.ndarray


def measure(rows: list[Task], cost: cp.Cost, *, square: bool, quick: bool) -> Measured:
    """All searches on all rows."""
    explainers: dict[int, cp.Explainer] = {}
    columns = []
    for number, task in enumerate(rows):
        if id(task.model) not in explainers:
            explainers[id(task.model)] = cp.Explainer(task.model, cost=cost)
        explainer = explainers[id(task.model)]
        explainer.explain(task.x[None], task.target)
        start = process_time()
        answer = explainer.explain(task.x[None], task.target)[0]
        seconds = process_time() - start
        start = process_time()
        paper = from_prototypes(task, square=square)
        paper_seconds = process_time() - start
        c = answer.certificate
        assert c.holds
        others = [c.cost, paper, from_anywhere(task, 3 if quick else STARTS, square=square)]
        if number < EXHAUSTIVE and not quick:
            others.append(by_scip(task, square=square))
        proved = c.claim == cp.Claim.PROVED
        columns.append((c.cost, paper, min(others), seconds, paper_seconds, proved, c.gap))
    return Measured(*np.array(columns, dtype=float).T)


def goals(name: str, found: Measured) -> list[Goal]:
    """What was promised."""
    ratio = found.ours.mean() / found.best.mean()
    worse = int((found.ours > found.paper * (1.0 + CLOSE)).sum())
    seconds = float(np.median(found.seconds))
    return [
        Goal(f"{name}, mean cost", "≤ 1.02 × the best known", f"{ratio:.4f}×", ratio <= 1.02),
        Goal(f"{name}, against the paper", "no row worse", f"{worse} worse", worse == 0),
        Goal(f"{name}, a row", "≤ 100 ms", milliseconds(seconds), seconds <= 0.1),
    ]


def line(name: str, cost: str, found: Measured) -> tuple[str, ...]:
    """One row of the table."""
    short = found.ours > found.best * (1.0 + CLOSE)
    return (
        name,
        cost,
        f"{found.ours.mean():.4f}",
        f"{found.paper.mean():.4f}",
        f"{found.best.mean():.4f}",
        f"{short.sum():.0f} of {len(short)}",
        f"{100 * found.proved.mean():.0f}%",
        f"{100 * found.gap.mean():.2g}%",
        milliseconds(float(np.median(found.seconds))),
        milliseconds(float(np.median(found.paper_seconds))),
    )


def main() -> None:
    quick = is_quick()
    lines, promised = [], []
    for name in DATA:
        rows = tasks(name, 4 if quick else ROWS)
        for kind, cost in COSTS.items():
            found = measure(rows, cost, square=kind != "Manhattan", quick=quick)
            lines.append(line(name, kind, found))
            promised += goals(f"{name}, {kind}", found)
    columns = (
        *("data", "cost", "ours", "paper", "best known", "short of it", "proved", "gap"),
        *("a row", "a row of the paper's"),
    )
    report = Report(
        "lvq_local",
        "Models with local metrics",
        QUESTION,
        columns,
        lines,
        promised,
        [METHOD],
        packages=("PySCIPOpt",),
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
