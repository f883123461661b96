"""Figures 20, 22 and 23: what explanations say, and where they move groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from common.report import Claim, Section
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from counterpoint.groups import Translations
from groups.figure_7 import EACH, LOOKS, THEIRS, Compared
from groups.figure_8 import SHOWN
from groups.sets import NAMES, named

NUMBER = {"Iris": 20, "Housing": 22, "Heart": 23}
PAPER: dict[str, dict[tuple[int, int], tuple[float, float] | None]] = {
    "Iris": {
        (0, 1): (0.93, 0.857),
        (1, 0): (0.786, 0.953),
        (0, 2): (0.605, 0.208),
        (2, 0): (0.896, 0.419),
    },
    "Housing": {
        (0, 2): (0.943, 0.291),
        (2, 0): (0.756, 0.943),
        (3, 5): (0.987, 0.571),
        (5, 3): (0.514, 0.591),
    },
    "Heart": {(1, 3): (0.972, 1.0), (3, 1): None, (1, 6): (0.954, 1.0), (6, 1): (1.0, 0.861)},
}
"""Correctness and coverage that the paper prints above its pictures; one is not legible."""
SAID = {
    ("Iris", 0, 1): ("petal width",),
    ("Iris", 0, 2): ("petal width",),
    ("Housing", 0, 2): ("large lots", "B", "highways", "tax"),
    ("Housing", 3, 5): ("river", "B"),
    ("Heart", 1, 3): ("chest pain", "angina"),
    ("Heart", 1, 6): ("sex",),
}
"""The features that the paper says explain the difference."""
TINY = 0.05
"""Changes of features in [0, 1] that one would not mention."""


def sections(found: Sequence[Compared]) -> list[Section]:
    """One for each of the three figures."""
    return [_section(one) for one in found]


def _section(one: Compared) -> Section:
    name, k = one.data.name, SHOWN[one.data.name]
    lines, off = [], []
    for (i, j), printed in PAPER[name].items():
        told = [_rates(one, method, i, j) for method in (THEIRS, EACH)]
        if printed is not None:
            off.append(np.abs(np.subtract(printed, told[0])).max())
        lines.append(
            [
                f"{i} → {j}",
                "" if printed is None else _pair(printed),
                *map(_pair, told),
                *(_words(name, one.answers[method][k], i, j) for method in (THEIRS, EACH)),
            ]
        )
    number = NUMBER[name]
    return Section(
        f"Figure {number}: {name}, {k} feature{'s'[: k - 1]} a pair",
        """Correctness/coverage as printed above the paper's pictures, of its stored explanation,
        and of ours; then what each changes, largest first. Features are scaled to [0, 1].""",
        ("from → to", "paper", "TGT, here", "ours", "TGT changes", "ours changes"),
        lines,
        notes=[NOTES[name]] if name in NOTES else [],
        figures={f"groups_figure_{number}": _figure(one, k)},
        claims=[
            Claim(
                f"figure {number}: the printed numbers",
                f"{2 * len(off)} numbers",
                f"off by at most {max(off):.1e}",
                max(off) < 6e-4,
            ),
            *(_claim(one, k, *pair) for pair in [at[1:] for at in SAID if at[0] == name]),
        ],
    )


NOTES = {
    "Housing": """B is a transform of the share of black residents by the authors of the data, from
    which that share cannot be had again; the paper's words about B are repeated here and not
    endorsed. For 3 → 5 ours does without it: the river and nitric oxides are enough. Where ours
    says nothing of the tax, highways, industry and nitric oxides say it: tax goes with all of
    these, with highways at a correlation of 0.91.""",
    "Heart": """For the way to the low risk, group 1 → 3, the paper reads angina and a moderate fall
    of chest pain; ours does it with angina alone and needs no chest pain. Sex is 1 for men.""",
}


def _claim(one: Compared, k: int, i: int, j: int) -> Claim:
    said = SAID[one.data.name, i, j]
    told = named(one.data.name, one.answers[EACH][k], i, j)
    large = {name: change for name, change in told.items() if abs(change) > TINY}
    kept = [name for name in said if name in large]
    return Claim(
        f"{one.data.name}, {i} → {j}: what differs",
        ", ".join(said),
        ", ".join(f"{name} {change:+.2f}" for name, change in large.items()),
        len(kept) == len(said),
    )


def _rates(one: Compared, method: str, i: int, j: int) -> tuple[float, float]:
    quality = one.quality[method][SHOWN[one.data.name]]
    return float(quality.correctness[i, j]), float(quality.coverage[i, j])


def _pair(rates: tuple[float, float]) -> str:
    return f"{rates[0]:.3f}/{rates[1]:.3f}"


def _words(name: str, one: Translations, i: int, j: int) -> str:
    told = named(name, one, i, j)
    return ", ".join(
        f"{feature} {change:+.{2 if abs(change) > 0.005 else 4}f}"
        for feature, change in told.items()
    )


def _figure(one: Compared, k: int) -> Figure:
    """Maps for both pairs, there and back, of ours; below, the changes of both methods."""
    pairs = [pair for pair in PAPER[one.data.name] if pair[0] < pair[1]]
    figure = Figure(figsize=(8.6, 9.2), layout="constrained")
    axes = figure.subplots(3, len(pairs))
    for column, (i, j) in zip(axes.T, pairs, strict=True):
        for ax, (a, b) in zip(column, ((i, j), (j, i)), strict=False):
            _map(ax, one, one.answers[EACH][k], a, b)
            rates = _rates(one, EACH, a, b)
            ax.set_title(
                f"{a} → {b}, ours: correctness {rates[0]:.2f}, coverage {rates[1]:.2f}", size=9
            )
        _bars(column[2], one, k, i, j)
    return figure


def _map(ax: Axes, one: Compared, answer: Translations, i: int, j: int) -> None:
    """The representation: all points, the two groups, and the first one moved."""
    data = one.data
    member = np.array([-1 if label is None else label for label in data.groups])
    values = data.network.vjp(data.X)[0]
    moved = data.network.vjp(data.X[member == i] + answer.translation(i, j))[0]
    ax.scatter(*values.T, s=7, color="#d9d9d9", linewidths=0)
    ax.scatter(*values[member == i].T, s=9, color="#0072b2", linewidths=0, label=f"group {i}")
    ax.scatter(*values[member == j].T, s=9, color="#009e73", linewidths=0, label=f"group {j}")
    look = {"s": 14, "facecolors": "none", "edgecolors": "#d62728", "linewidths": 0.8}
    ax.scatter(*moved.T, label=f"group {i}, moved", **look)
    ax.grid(visible=False)
    ax.margins(0.12)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.legend(
        fontsize=7, markerscale=1.3, handletextpad=0.1, loc="best", frameon=True, framealpha=0.8
    )


def _bars(ax: Axes, one: Compared, k: int, i: int, j: int) -> None:
    """What both methods change."""
    names = NAMES[one.data.name]
    places = np.arange(len(names))
    for shift, method in ((-0.2, THEIRS), (0.2, EACH)):
        change = one.answers[method][k].translation(i, j)
        ax.barh(places + shift, change, height=0.38, color=LOOKS[method][0], label=method)
    ax.axvline(0.0, color="#8c8c8c", linewidth=0.8)
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set_title(f"what changes from {i} to {j}", size=9)
    ax.legend(fontsize=7, loc="best")
