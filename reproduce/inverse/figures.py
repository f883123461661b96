"""What the figures have in common: colours, markers, and one legend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from inverse.methods import BATCH, OURS

COLOURS = {
    "Newton": "#0072b2",
    "BFGS": "#8c8c8c",
    "L-BFGS": "#009e73",
    "CG": "#cc79a7",
    "GD": "#e69f00",
    OURS: "#d62728",
    BATCH: "#7f0000",
    "backtracking": "#0072b2",
    "Wolfe": "#e69f00",
    "constant": "#8c8c8c",
}
MARKERS = {
    "Newton": "o",
    "BFGS": "s",
    "L-BFGS": "^",
    "CG": "v",
    "GD": "D",
    OURS: "*",
    BATCH: "P",
    "backtracking": "o",
    "Wolfe": "^",
    "constant": "s",
}
FLOOR = 1e-16
"""Where differences of E are drawn that double precision cannot tell from 0."""


def legend(figure: Figure, axes: np.ndarray) -> None:
    """One legend above all panels."""
    seen = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            seen.setdefault(label, handle)
    names = [name for name in COLOURS if name in seen] + [n for n in seen if n not in COLOURS]
    figure.legend(
        [seen[name] for name in names],
        names,
        loc="outside upper center",
        ncols=len(names),
        markerscale=1.4,
    )


def dots(ax: Axes, name: str, x: Sequence[float], y: Sequence[float]) -> None:
    """One method's answers in a scatter plot."""
    size = {OURS: 26, BATCH: 22}.get(name, 12)
    front = 3 if name in {OURS, BATCH} else 2
    ax.scatter(
        x,
        y,
        s=size,
        marker=MARKERS[name],
        color=COLOURS[name],
        alpha=0.75,
        linewidths=0,
        label=name,
        zorder=front,
    )


def line(ax: Axes, name: str, x: Sequence[float], y: Sequence[float]) -> None:
    """One method's learning curve; few points are marked."""
    few = len(x) <= 20
    ax.plot(
        x,
        np.maximum(y, FLOOR),
        color=COLOURS[name],
        marker=MARKERS[name] if few else None,
        markersize=6 if name == OURS else 3.5,
        markeredgewidth=0,
        label=name,
        zorder=3 if name in {OURS, "Newton"} else 2,
    )
