"""What the figures have in common: colours, axes, and files that are small."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from PIL import Image

from inverse.methods import BATCH, OURS

FOLDER = Path(__file__).resolve().parents[1] / "figures"
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
PALETTE = 48
"""Colours of a file, chosen from those of the figure."""
FLOOR = 1e-16
"""Where differences of E are drawn that double precision cannot tell from 0."""

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#8c8c8c",
        "xtick.color": "#444444",
        "ytick.color": "#444444",
        "legend.frameon": False,
        "lines.linewidth": 1.5,
    }
)


def panels(
    rows: int, columns: int, height: float = 2.5, *, alike: bool = True
) -> tuple[Figure, np.ndarray]:
    """A figure of rows × columns panels; those of a row have the same scale if they are alike."""
    return plt.subplots(
        rows,
        columns,
        figsize=(2.45 * columns + 0.6, height * rows + 0.5),
        squeeze=False,
        sharey="row" if alike else False,
        layout="constrained",
    )


def plain(axis: Axis, ticks: tuple[int, ...] = (1, 2, 5)) -> None:
    """Numbers instead of powers of ten on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=ticks, numticks=8))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


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


def save(figure: Figure, name: str, *, dpi: int = 100, colours: int = PALETTE) -> str:
    """Write a figure with few colours; the line of Markdown that shows it."""
    FOLDER.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    plt.close(figure)
    picture = Image.open(buffer).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    picture.save(FOLDER / f"{name}.png", optimize=True)
    return f"![{name.replace('_', ' ')}]({FOLDER.name}/{name}.png)"
