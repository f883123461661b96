"""Single cells, from genes to sentences that a biologist can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_groups import halves
from harness.report import Claim, Section
from matplotlib.figure import Figure
from scipy.spatial import KDTree
from sklearn.decomposition import PCA

from counterpoint.groups import DifferenceOfMeans, GroupTranslations, Limits

KS = (25, 50, 100)
"""Genes a pair."""
BOUNDS = (1.0, 1.5, 2.0)
"""The largest change of a gene, in ranges of the cluster means."""
FEW, TIMES = 50, 1.5
"""Genes a pair, and their largest change, in words."""
LEAST = 20
"""Cells of a cluster that is explained."""
MARKERS = {
    "monocytes": """LYZ S100A8 S100A9 CST3 FCN1 CD14 AIF1 LST1 FCER1G TYROBP FTL S100A6""",
    "B cells": """CD79A CD79B MS4A1 CD74 HLA-DRA HLA-DRB1 HLA-DPA1 HLA-DPB1 HLA-DQA1 TCL1A""",
    "killer cells": """NKG7 GNLY GZMA GZMB GZMH PRF1 CST7 CCL5 CTSW FGFBP2""",
    "T cells": """CD3D CD3E IL7R LTB LDHB CD27 CCR7""",
}
"""Genes that textbooks name for these cells."""
CLUSTERS = {0: "T cells", 1: "monocytes", 3: "killer cells", 4: "B cells"}
"""Of four clusters, by the cells that are most of them."""
WAYS = (("T cells", "monocytes"), ("T cells", "B cells"), ("T cells", "killer cells"))
TEXT = """
700 blood cells × 765 genes in 8 principal components, held out: fitted on one half of the cells,
judged on the other. Correctness ± standard deviation over the folds, and the share of changed
values that leave the range of the data. c bounds each change to so many ranges of the cluster
means; k features for each pair, or on average. "t-tests": the k genes of the largest t-statistics
of each pair, changed by the difference of means.
"""
Rows = tuple[np.ndarray, Sequence[int | None]]
"""(n, d) rows and their groups."""


def t_statistics(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Student's, of two samples, gene by gene; 0 where both are constant."""
    spread = len(a) * a.var(axis=0) + len(b) * b.var(axis=0)
    scale = np.sqrt(spread / (len(a) + len(b) - 2) * (1.0 / len(a) + 1.0 / len(b)))
    apart = b.mean(axis=0) - a.mean(axis=0)
    return np.divide(apart, scale, out=np.zeros_like(apart), where=scale > 0.0)


def by_tests(learn: Rows, test: Rows, space: Any, radius: float, k: int) -> tuple[float, float]:
    """Correctness, equation (3), and the share of changed values out of range, means over pairs."""
    samples, judged = (dict(_by_group(*rows)) for rows in (learn, test))
    low, high = (end(np.vstack(list(samples.values())), axis=0) for end in (np.min, np.max))
    trees = {label: KDTree(space.transform(rows)) for label, rows in judged.items()}
    rates = []
    for i, j in permutations(samples, 2):
        genes = np.argsort(-np.abs(t_statistics(samples[i], samples[j])), kind="stable")[:k]
        moved = judged[i].copy()
        moved[:, genes] += (samples[j].mean(axis=0) - samples[i].mean(axis=0))[genes]
        near = trees[j].query(space.transform(moved))[0] <= radius
        rates.append((near.mean(), ((moved < low) | (moved > high))[:, genes].mean()))
    return tuple(np.mean(rates, axis=0).tolist())


def _by_group(X: np.ndarray, groups: Sequence[int | None]) -> Iterator[tuple[int, np.ndarray]]:
    member = np.array([-1 if label is None else label for label in groups])
    for label in np.unique(member[member >= 0]).tolist():
        yield label, X[member == label]


def fold(
    space: Any, learn: Rows, test: Rows, bounds: Sequence[float]
) -> Iterator[tuple[int, str, tuple[float, float]]]:
    """Correctness and the share out of range for each k and method."""
    means = DifferenceOfMeans(space).fit(*learn)
    for k in KS:
        yield k, "difference of means", _rates(means.judge(*test, means.sparse(k)))
        yield k, "t-tests", by_tests(learn, test, space, means.radius_, k)
    for times in bounds:
        model = GroupTranslations(space, limits=Limits(times=times)).fit(*learn)
        for k in KS:
            for count in ("each", "mean"):
                rates = _rates(model.judge(*test, model.sparse(k, count)))
                yield k, f"ours, c = {times:g}, {count}", rates


def _rates(quality: Any) -> tuple[float, float]:
    return quality.mean(quality.correctness), quality.mean(quality.outside)


def held_out(
    X: np.ndarray, groups: list[int | None], space: Any, *, quick: bool
) -> tuple[tuple[str, ...], list[list[str]], list[Claim]]:
    """Columns, lines and claims of the table."""
    rates: dict[tuple[int, str], list[tuple[float, float]]] = {}
    bounds = (TIMES,) if quick else BOUNDS
    for seed in range(1 if quick else 2):
        for learn, test in halves(groups, seed):
            pair = ((X[rows], [groups[i] for i in rows]) for rows in (learn, test))
            for k, method, rate in fold(space, *pair, bounds):
                rates.setdefault((k, method), []).append(rate)
    means = {key: np.mean(every, axis=0) for key, every in rates.items()}
    spreads = {key: np.std(every, axis=0, ddof=1)[0] for key, every in rates.items()}
    methods = list(dict.fromkeys(method for _, method in rates))
    lines = [
        [
            str(k),
            *(
                f"{means[k, m][0]:.2f} ± {spreads[k, m]:.2f}, {means[k, m][1]:.0%} out"
                for m in methods
            ),
        ]
        for k in KS
    ]
    claims = []
    for times in bounds:
        ours = [float(means[k, f"ours, c = {times:g}, each"][0]) for k in KS]
        best = [max(float(means[k, m][0]) for m in ("difference of means", "t-tests")) for k in KS]
        pairs = list(zip(ours, best, strict=True))
        claims.append(
            Claim(
                f"blood cells, correctness, held out, changes within {times:g}× the range of means",
                "above differences of means and t-tests at k = 25, 50, 100",
                ", ".join(f"{a:.2f} against {b:.2f}" for a, b in pairs),
                all(a > b for a, b in pairs),
            )
        )
    return ("genes a pair", *methods), lines, claims


def section(file: Path, *, quick: bool) -> Section:
    """Correctness at several numbers of genes, and what explanations say."""
    arrays = np.load(file)
    X, clusters = arrays["X_scaled"].astype(float), arrays["louvain"].astype(int)
    large = np.bincount(clusters) >= LEAST
    groups = [int(label) if large[label] else None for label in clusters]
    space = PCA(8, random_state=0).fit(X)
    columns, lines, claims = held_out(X, groups, space, quick=quick)
    labels = [None if g is None else CLUSTERS.get(g, f"cluster {g}") for g in groups]
    frame = pd.DataFrame(X, columns=arrays["genes"].tolist())
    model = GroupTranslations(space, limits=Limits(times=TIMES)).fit(frame, labels)
    model.translations_ = few = model.sparse(FEW)
    raised = {}
    for start, end in WAYS:
        up = [str(name) for name, change in few.changes(start, end).items() if change > 0.0]
        raised[end] = [name for name in up if name in MARKERS[end].split()]
    names = "; ".join(f"{end}: {', '.join(genes) or 'none'}" for end, genes in raised.items())
    every = all(len(genes) > 1 for genes in raised.values())
    claims.append(Claim("known markers are among what is raised", "", names, every))
    gap = model.path_.to_frame()["gap"].max()
    notes = [
        f"""With at most {FEW} genes for every pair, and changes of at most {TIMES:g} times the
        range of the cluster means, in standard deviations of the genes:""",
        *(f"- {few.sentence(start, end, 8)}." for start, end in WAYS),
        f"""Every fit is a global optimum: the largest gap is {gap:.0e}. A bound
        on changes is needed: standardised genes are moved by a few standard deviations, so that
        many values leave the range of the data, the more so the fewer genes there are; differences
        of means leave it least, and explain least.""",
    ]
    figure = Figure(figsize=(12.0, 4.4), layout="constrained")
    axes = figure.subplots(1, 3)
    model.plot_map(frame, labels, *WAYS[1], ax=axes[:2])
    few.plot(*WAYS[1], most=15, ax=axes[2])
    return Section("Single cells", TEXT, columns, lines, notes, {"groups_cells": figure}, claims)
