"""What the figures have in common: how they look, axes, and files that are small."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from PIL import Image

__all__ = ["panels", "plain", "save"]

FOLDER = Path(__file__).resolve().parents[1] / "figures"
PALETTE = 48
"""Colours of a file, chosen from those of the figure."""

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
    rows: int, columns: int, height: float = 2.5, *, alike: bool = True
) -> tuple[Figure, np.ndarray]:
    """A figure of rows × columns panels; those of a row have the same scale if they are alike."""
    size = (2.45 * columns + 0.6, height * rows + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    sharey: Literal["row", "none"] = "row" if alike else "none"
    return figure, figure.subplots(rows, columns, squeeze=False, sharey=sharey)


def plain(axis: Axis, ticks: tuple[int, ...] = (1, 2, 5)) -> None:
    """Numbers instead of powers of ten on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=ticks, numticks=8))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, name: str, *, dpi: int = 100, colours: int = PALETTE) -> str:
    """Write a figure with few colours; the line of Markdown that shows it."""
    FOLDER.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    picture = Image.open(buffer).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    picture.save(FOLDER / f"{name}.png", optimize=True)
    return f"![{name.replace('_', ' ')}]({FOLDER.name}/{name}.png)"
