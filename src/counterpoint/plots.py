"""The picture of a path; matplotlib is imported only when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, MissingExtra, NoAnswer
from counterpoint.rows.features import Categorical, Continuous

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counterpoint.path import Path

__all__ = ["draw", "short_name"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

INK, PALE = "#222222", "#a0a0a0"
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#882255",
    "#000000",
)
"""Okabe and Ito's, told apart by those who see fewer colours; wine in the place of yellow."""
DASHES = ("-", "--", ":", "-.")
"""One after the other, when all colours are taken."""
SIZE = (10.0, 4.2)
"""Of a new figure, in inches."""
SMALL = 8.5
"""The size of words beside lines, in points."""
APART = 1.45
"""How far such words keep apart, in units of their size."""
WIDE = 0.65
"""About how wide a digit is, in units of its size."""
LONGEST = 28
"""How many letters of a name, or of a category, are written."""
NEAR = 0.1
"""How many decades a weight may be off that marks one."""
START = 0.1
"""A path that begins within this share of its end is shown from 0 on."""
FEW = 20
"""Answers that are all marked, and drawn as larger dots."""


def draw(path: Path, features: Any, ax: Any) -> Figure:
    """The two parts of `Path.plot`.

    Parameters
    ----------
    path
        A path of one row.
    features
        How many features to show at most.
    ax
        Two axes, one, or None.
    """
    if isinstance(features, bool) or not isinstance(features, int | np.integer) or features < 1:
        raise InvalidInput(f"Expected a number of features, at least 1; got {features!r}.")
    curve = _Curve(path)
    left, right = _axes(ax)
    _draw_curve(left, curve)
    if right is not None:
        _draw_changes(right, curve, int(features))
    if curve.varied == "weight":
        _mark_weights(left, curve)  # when all that takes room is there
    figure: Figure = left.figure.figure  # of a part of a figure, the whole
    return figure


@final
class _Curve:
    """The answers of a path of one row, in the order of the number that its targets vary.

    ``x`` is the cost or the distance of each answer, ``y`` the probability or the number that is
    varied, ``values`` that number, ``moved`` the change of each feature in units of x.
    """

    def __init__(self, path: Path) -> None:
        if path.varied is None:
            raise InvalidInput(
                "Expected targets that differ in one number, such as the weights of trade-offs of "
                "one label; got others. Trace each kind of target, and each label, by itself."
            )
        self.path, self.target, self.varied = path, path.targets[0], path.varied
        values = np.array([getattr(target, path.varied) for target in path.targets], dtype=float)
        falls = path.varied in ("weight", "high")
        order = np.argsort(-values if falls else values, kind="stable")
        self.order = order[path.found[0, order]]
        if not len(self.order):
            answer = path.answers[0][0]
            raise NoAnswer(f"There is nothing to plot. {answer.status}: {answer.message}")
        self.values, self.moved = values[self.order], path.moved[0, self.order]
        cost = path.cost[0, self.order]
        self.x = np.sqrt(cost) if path.is_squared else cost
        about = self.target.requirement.probable
        self.y = path.probability[0, self.order] if about else self.values

    @property
    def x_name(self) -> str:
        """What x is."""
        return "distance" if self.path.is_squared else "cost"

    @property
    def y_name(self) -> str:
        """What y is."""
        if self.target.requirement.probable:
            return f"probability of {self.target.requirement.labels[0]}"
        return {"low": "value, at least", "high": "value, at most"}.get(self.varied, self.varied)

    @property
    def marked(self) -> tuple[IntArray, list[str]]:
        """Answers whose weights are marked, and what is written there.

        Of few answers all; of many those nearest to the decades, if they are near.
        """
        logs = np.log10(self.values)
        if len(logs) <= FEW:
            return np.arange(len(logs)), [f"{value:.2g}" for value in self.values]
        decades = np.arange(np.floor(logs[0] + NEAR), np.ceil(logs[-1] - NEAR) - 1.0, -1.0)
        away = np.abs(decades[:, None] - logs)
        there = away.min(axis=1) <= NEAR
        return away.argmin(axis=1)[there], [f"{value:g}" for value in 10.0 ** decades[there]]

    def most_moved(self, count: int) -> IntArray:
        """The features that move most."""
        most = np.abs(self.moved).max(axis=0)
        order = np.argsort(-most, kind="stable")[:count]
        return order[most[order] > 0.0]

    def named(self, j: int) -> str:
        """A feature and its change at the end of the path, in its own units."""
        feature = self.path.features.items[j]
        name, end = short_name(feature.name), int(self.order[-1])
        if isinstance(feature, Categorical):
            codes = (self.path.answers[0].before[0, j], self.path.after[0, end, j])
            old, new = (short_name(feature.categories[int(code)]) for code in codes)
            return f"{name}  {old} → {new}" if old != new else f"{name}  {old}"
        return f"{name}  {_signed(float(self.path.changes[0, end, j]))}"


def _frame(ax: Axes, curve: _Curve, name: str) -> None:
    """Names of the axes, and no frame."""
    ax.set_xlabel("distance (√cost)" if curve.path.is_squared else "cost")
    ax.set_ylabel(name, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_curve(ax: Axes, curve: _Curve) -> None:
    """The probability, or what is in its place, against the cost."""
    dots = 4.0 if len(np.unique(curve.x)) <= FEW else 2.5  # of many, a line where they are dense
    ax.plot(curve.x, curve.y, color=INK, linewidth=1.0, marker="o", markersize=dots)
    ax.margins(x=0.12)
    if curve.target.requirement.probable:
        ax.set_ylim(-0.04, 1.04)
    _frame(ax, curve, curve.y_name)


def _mark_weights(ax: Axes, curve: _Curve) -> None:
    """Weights on the curve, written where there is room; those of the ends come first."""
    answers, words = curve.marked
    if not words:
        return
    x, y, colour = curve.x[answers], curve.y[answers], COLOURS[0]
    ax.plot(x, y, "o", color=colour, markersize=5.5, zorder=3)
    ax.text(0.98, 0.04, "● weight", color=colour, transform=ax.transAxes, ha="right", size=SMALL)
    ax.figure.figure.draw_without_rendering()  # so that the axes are as wide as they will be
    taken: list[FloatArray] = []
    points = ax.transData.transform(np.column_stack([x, y])) * 72.0 / ax.figure.dpi
    for k in sorted(range(len(words)), key=lambda k: min(k, len(words) - 1 - k)):
        low = y[k] < 0.5
        box = _box(points[k], words[k], -1.0 if low else 1.0)
        if any(_overlap(box, other) for other in taken):
            continue
        taken.append(box)
        ax.annotate(
            words[k],
            (x[k], y[k]),
            (-5, 4) if low else (5, -4),
            textcoords="offset points",
            size=SMALL,
            color=colour,
            ha="right" if low else "left",
            va="bottom" if low else "top",
        )


def _box(at: FloatArray, words: str, side: float) -> FloatArray:
    """(2, 2) corners, in points, of words above a point to its left, or below to its right."""
    far = at + side * np.array([WIDE * SMALL * len(words), -SMALL])
    return np.stack([np.minimum(at, far), np.maximum(at, far)])


def _overlap(a: FloatArray, b: FloatArray) -> bool:
    return bool((a[0] < b[1]).all() and (b[0] < a[1]).all())


def _draw_changes(ax: Axes, curve: _Curve, count: int) -> None:
    """The features that move most, named at the ends of their lines."""
    shown = curve.most_moved(count)
    ax.axhline(0.0, color=PALE, linewidth=0.8, zorder=1)
    for k, j in enumerate(shown.tolist()):
        stays = not isinstance(curve.path.features.items[j], Continuous)
        ax.plot(
            curve.x,
            curve.moved[:, j],
            color=COLOURS[k % len(COLOURS)],
            linestyle=DASHES[k // len(COLOURS) % len(DASHES)],
            linewidth=1.6,
            clip_on=False,
            drawstyle="steps-post" if stays else "default",
        )
    ax.margins(x=0)
    if curve.x.min() < START * curve.x.max():
        ax.set_xlim(left=0)
    _frame(ax, curve, f"change, in units of {curve.x_name}")
    if len(shown):
        _name_ends(ax, curve, shown)
    else:
        ax.text(0.5, 0.6, "nothing changes", color=INK, transform=ax.transAxes, ha="center")


def _name_ends(ax: Axes, curve: _Curve, shown: IntArray) -> None:
    """Names to the right of the lines, as high as their ends, apart from each other."""
    ax.figure.figure.draw_without_rendering()  # so that the axes are as tall as they will be
    low, high = ax.get_ylim()
    ends = (curve.moved[-1, shown] - low) / (high - low)
    tall = ax.bbox.height * 72.0 / ax.figure.dpi
    heights = _apart(ends, APART * SMALL / tall)
    for k, j in enumerate(shown.tolist()):
        ax.annotate(
            curve.named(j),
            (1.0, ends[k]),
            (1.06, heights[k]),
            xycoords="axes fraction",
            textcoords="axes fraction",
            size=SMALL,
            color=INK,
            va="center",
            parse_math=False,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": COLOURS[k % len(COLOURS)],
                "linestyle": DASHES[k // len(COLOURS) % len(DASHES)],
                "shrinkA": 2,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def _apart(ends: FloatArray, least: float) -> FloatArray:
    """The heights nearest to the ends, in their order, at least so far apart, from 0 to 1.

    Less what the order alone asks for, heights may not fall: neighbours that do are pooled.
    """
    order = np.argsort(ends, kind="stable")
    room = least * np.arange(len(ends))
    pools: list[tuple[float, int]] = []
    for value in ends[order] - room:
        pools.append((float(value), 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m), (b, n) = pools.pop(), pools.pop()
            pools.append(((a * m + b * n) / (m + n), m + n))
    means, sizes = zip(*pools, strict=True)
    heights = np.empty(len(ends))
    heights[order] = np.clip(np.repeat(means, sizes), 0.0, max(1.0 - room[-1], 0.0)) + room
    return heights


def _axes(ax: Any) -> tuple[Axes, Axes | None]:
    """The axes to draw on; the right one may be left out."""
    try:
        from matplotlib import pyplot as plt
        from matplotlib.axes import Axes
    except ImportError:
        raise MissingExtra(
            "Path.plot needs matplotlib, which is not installed. "
            "Install it with pip install 'counterpoint[plots]'."
        ) from None
    if ax is None:
        _, (left, right) = plt.subplots(1, 2, figsize=SIZE, layout="constrained")
        return left, right
    given = [ax] if isinstance(ax, Axes) else list(np.ravel(ax))
    if len(given) > 2 or not given or not all(isinstance(one, Axes) for one in given):
        raise InvalidInput(f"Expected two matplotlib axes, one, or None; got {ax!r}.")
    return given[0], given[1] if len(given) > 1 else None


def short_name(name: object) -> str:
    """A name or a category, cut in the middle where it is long."""
    words = str(name)
    if len(words) <= LONGEST:
        return words
    return f"{words[: LONGEST // 2]}…{words[1 - LONGEST // 2 :]}"


def _signed(value: float) -> str:
    return (f"{value:+,.0f}" if abs(value) >= 100.0 else f"{value:+.3g}").replace("-", "−")
