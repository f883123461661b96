"""Single cells, from genes to sentences that a biologist can read."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from bench_groups import blood
from common.report import Claim, Section
from group_peers import genes
from matplotlib.figure import Figure

from counterpoint.groups import GroupTranslations

FEW = 50
"""Genes a pair in words."""
TIMES = 1.5
"""The largest change, in ranges of the cluster means."""
MOST = 8
"""Genes that a sentence names."""
KNOWN = {
    "monocytes": {
        "LYZ",
        "S100A8",
        "S100A9",
        "CST3",
        "FCN1",
        "CD14",
        "AIF1",
        "LST1",
        "FCER1G",
        "TYROBP",
        "FTL",
        "S100A6",
    },
    "B cells": {
        "CD79A",
        "CD79B",
        "MS4A1",
        "CD74",
        "HLA-DRA",
        "HLA-DRB1",
        "HLA-DPA1",
        "HLA-DPB1",
        "HLA-DQA1",
        "TCL1A",
    },
    "killer cells": {
        "NKG7",
        "GNLY",
        "GZMA",
        "GZMB",
        "GZMH",
        "PRF1",
        "CST7",
        "CCL5",
        "CTSW",
        "FGFBP2",
    },
    "T cells": {"CD3D", "CD3E", "IL7R", "LTB", "LDHB", "CD27", "CCR7"},
}
"""Genes that textbooks name for these cells."""
CLUSTERS = {0: "T cells", 1: "monocytes", 3: "killer cells", 4: "B cells"}
"""Of four clusters, by the cells that are most of them."""
WAYS = (("T cells", "monocytes"), ("T cells", "B cells"), ("T cells", "killer cells"))


def section(file: Path, *, quick: bool) -> Section:
    """Correctness at several numbers of genes, and what explanations say."""
    goals, table = blood(file, 1, (TIMES,)) if quick else blood(file, 2)
    X, groups, space, names = genes.blood(file)
    labels = [None if g is None else CLUSTERS.get(g, f"cluster {g}") for g in groups]
    frame = pd.DataFrame(X, columns=names)
    model = genes.fitted(space, frame, labels, TIMES)
    few = model.sparse(FEW)
    model.translations_ = few
    raised = {}
    for start, end in WAYS:
        up = [str(name) for name, change in few.changes(start, end).items() if change > 0.0]
        raised[end] = [name for name in up if name in KNOWN[end]]
    return Section(
        "Single cells",
        f"""{" ".join(table.caption.split())} Held out: fitted on one half of the cells, judged on
        the other; the benchmarks have more folds.""",
        table.columns,
        table.rows,
        notes=[
            f"""With at most {FEW} genes for every pair, and changes of at most {TIMES:g} times the
            range of the cluster means, in standard deviations of the genes:""",
            *(f"- {few.sentence(start, end, MOST)}." for start, end in WAYS),
            f"""Every fit is a global optimum: the largest gap is {model.path_.gap.max():.0e}. A
            bound on changes is needed: standardised genes are moved by a few standard deviations,
            so that many values leave the range of the data, the more so the fewer genes there are;
            differences of means leave it least, and explain least.""",
        ],
        figures={"groups_cells": _figure(model, frame, labels)},
        claims=[
            *(Claim(goal.what, goal.goal, goal.measured, goal.satisfied) for goal in goals),
            Claim(
                "known markers are among what is raised",
                "",
                "; ".join(f"{end}: {', '.join(found) or 'none'}" for end, found in raised.items()),
                all(len(found) > 1 for found in raised.values()),
            ),
        ],
    )


def _figure(model: GroupTranslations, frame: pd.DataFrame, labels: list[str | None]) -> Figure:
    """One way: the first two components before and after, and what changes."""
    start, end = WAYS[1]
    figure = Figure(figsize=(12.0, 4.4), layout="constrained")
    axes = figure.subplots(1, 3)
    model.plot_map(frame, labels, start, end, ax=axes[:2])
    model.translations_.plot(start, end, most=15, ax=axes[2])
    for ax in axes:
        ax.grid(visible=False)
    return figure
