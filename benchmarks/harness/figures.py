"""How figures look, and how their files stay small."""

from __future__ import annotations

import io
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from PIL import Image

from harness.report import HERE

FOLDER = HERE.parent / "reproduce" / "figures"
COLOURS = 96
"""Colours of a file."""

mpl.use("Agg")
mpl.rcParams.update(
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
    rows: int,
    columns: int,
    height: float = 2.5,
    *,
    size: tuple[float, float] | None = None,
    alike: bool = True,
) -> tuple[Figure, np.ndarray]:
    """Make a figure of rows × columns panels; those of a row share their scale if alike."""
    size = size or (2.45 * columns + 0.6, height * rows + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    sharey: Literal["row", "none"] = "row" if alike else "none"
    return figure, figure.subplots(rows, columns, squeeze=False, sharey=sharey)


def plain(axis: Axis, ticks: tuple[int, ...] = (1, 2, 5)) -> None:
    """Show numbers instead of powers of ten on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=ticks, numticks=8))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, axes: np.ndarray, **style: Any) -> None:
    """Put one legend above all panels."""
    handles = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    style = {"loc": "outside upper center", "ncols": len(handles)} | style
    figure.legend(handles.values(), handles, **style)


def save(figure: Figure, name: str) -> str:
    """Write a figure with few colours; return the line of Markdown that shows it."""
    FOLDER.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100, format="png")
    picture = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(FOLDER / f"{name}.png", optimize=True)
    return f"![{name.replace('_', ' ')}]({FOLDER.name}/{name}.png)"
