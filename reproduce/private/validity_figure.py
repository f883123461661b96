"""Real validity against distance, for every method and data set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from common.figures import panels, plain
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from private.grid import P
from private.looks import COLOURS, MARKERS
from private.methods import AS_PRINTED, METHODS
from private.results import NAMES, Results
from private.simulation import Tally, interval

__all__ = ["figure"]

LEAST = 5
"""Answers, for a point to be drawn."""
SPREAD = 0.03
"""By how much points of methods are set apart along a logarithmic β."""


def figure(every: Sequence[Results]) -> Figure:
    """A row of panels for each kind of features, a column for each data set."""
    names = list(dict.fromkeys(cell.data for cell in every[0].held))
    drawn, axes = panels(len(every), len(names), 2.9)
    drawn.set_size_inches(2.75 * len(names) + 0.8, 2.7 * len(every) + 1.0)
    for line, one in zip(axes, every, strict=True):
        for ax, name in zip(line, names, strict=True):
            _draw(ax, one, name)
        line[0].set_ylabel(f"{NAMES[one.kind]}:\nanswers that are right")
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_title(name)
    for ax in axes[-1]:
        ax.set_xlabel("β")
    for line, one, where in zip(axes, every, ("upper", "lower"), strict=True):
        handles, labels = line[0].get_legend_handles_labels()
        drawn.legend(
            handles,
            labels,
            loc=f"outside {where} center",
            ncols=len(labels),
            title=NAMES[one.kind],
            fontsize=8,
            title_fontsize=8,
        )
    return drawn


def _draw(ax: Axes, one: Results, name: str) -> None:
    methods = list(METHODS[one.kind])
    for k, method in enumerate(methods):
        shift = float(np.exp(SPREAD * 2.0 * (k - 0.5 * (len(methods) - 1))))
        held = [(c.beta * shift, t) for c, t in one.of(method, P) if c.data == name]
        _points(ax, [pair for pair in held if pair[1].found >= LEAST], method)
    ax.axhline(P, color="#a33b2a", linewidth=1.0, linestyle="--", zorder=1)
    ax.set(xscale="log", ylim=(-0.03, 1.04))
    plain(ax.xaxis)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))


def _points(ax: Axes, held: list[tuple[float, Tally]], method: str) -> None:
    """Shares with their intervals."""
    places = [place for place, _ in held]
    shares = np.array([tally.right / tally.found for _, tally in held])
    ends = np.array([interval(tally.right, tally.found) for _, tally in held]).reshape(-1, 2)
    ax.errorbar(
        places,
        shares,
        yerr=np.abs(ends.T - shares),
        color=COLOURS[method],
        marker=MARKERS[method] or "_",
        markersize=4.5,
        linewidth=1.0,
        elinewidth=0.7,
        linestyle="--" if method == AS_PRINTED else "-",
        label=method,
    )
