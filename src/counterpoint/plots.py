"""The picture of a path; matplotlib is imported only when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from counterpoint.errors import InvalidInput, MissingExtra, NoAnswer
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.rows.features import Categorical, Continuous

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counterpoint.path import Path

__all__ = ["draw", "short_name"]

INK, PALE = "#222222", "#a0a0a0"
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#882255", "#000000"),
)
"""Okabe and Ito's, told apart by those who see fewer colours; wine in the place of yellow."""
DASHES = ("-", "--", ":", "-.")
"""One after the other, when all colours are taken."""
SMALL = 8.5
"""The size of words beside lines, in points."""
FEW = 20
"""Answers that are all marked, and drawn as larger dots."""


def draw(path: Path, features: Any, ax: Any) -> Figure:
    """The two parts of `Path.plot`, for a path of one row: with two axes, one, or None."""
    if isinstance(features, bool) or not isinstance(features, int | np.integer) or features < 1:
        raise InvalidInput(f"Expected a number of features, at least 1; got {features!r}.")
    curve = _Curve(path)
    left, right = _axes(ax)
    _draw_curve(left, curve)
    if right is not None:
        _draw_changes(right, curve, int(features))
    if path.varied == "weight":
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
        self.path, varied = path, path.varied
        values = np.array([getattr(target, varied) for target in path.targets], dtype=float)
        order = np.argsort(-values if varied in ("weight", "high") else values, kind="stable")
        self.order = order = order[path.found[0, order]]
        if not len(order):
            answer = path.answers[0][0]
            raise NoAnswer(f"There is nothing to plot. {answer.status}: {answer.message}")
        self.values, self.moved = values[order], path.moved[0, order]
        cost = path.cost[0, order]
        self.x, self.x_name = (np.sqrt(cost), "distance") if path.is_squared else (cost, "cost")
        asked = path.targets[0].requirement
        self.is_probability = asked.probable
        if asked.probable:
            self.y, self.y_name = path.probability[0, order], f"probability of {asked.labels[0]}"
        else:
            ends = {"low": "value, at least", "high": "value, at most"}
            self.y, self.y_name = self.values, ends.get(varied, varied)

    def marked(self) -> tuple[IntArray, list[str]]:
        """Answers whose weights are marked, and what is written there.

        Of few answers all; of many those nearest to the decades, if they are near.
        """
        if len(self.values) <= FEW:
            return np.arange(len(self.values)), [f"{value:.2g}" for value in self.values]
        logs, near = np.log10(self.values), 0.1
        decades = np.arange(np.floor(logs[0] + near), np.ceil(logs[-1] - near) - 1.0, -1.0)
        away = np.abs(decades[:, None] - logs)
        there = away.min(axis=1) <= near
        return away.argmin(axis=1)[there], [f"{value:g}" for value in 10.0 ** decades[there]]

    def most_moved(self, count: int) -> IntArray:
        """The features that move most."""
        most = np.abs(self.moved).max(axis=0)
        order = np.argsort(-most, kind="stable")[:count]
        return order[most[order] > 0.0]

    def named(self, j: int) -> str:
        """A feature and its change at the end of the path, in its own units."""
        feature, end = self.path.features.items[j], int(self.order[-1])
        name = short_name(feature.name)
        if isinstance(feature, Categorical):
            codes = (self.path.answers[0].before[0, j], self.path.after[0, end, j])
            old, new = (short_name(feature.categories[int(code)]) for code in codes)
            return f"{name}  {old} → {new}" if old != new else f"{name}  {old}"
        change = float(self.path.changes[0, end, j])
        said = f"{change:+,.0f}" if abs(change) >= 100.0 else f"{change:+.3g}"
        return f"{name}  {said.replace('-', '−')}"


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
    if curve.is_probability:
        ax.set_ylim(-0.04, 1.04)
    _frame(ax, curve, curve.y_name)


def _mark_weights(ax: Axes, curve: _Curve) -> None:
    """Weights on the curve, written where there is room; those of the ends come first."""
    answers, words = curve.marked()
    if not words:
        return
    x, y, colour = curve.x[answers], curve.y[answers], COLOURS[0]
    ax.plot(x, y, "o", color=colour, markersize=5.5, zorder=3)
    ax.text(0.98, 0.04, "● weight", color=colour, transform=ax.transAxes, ha="right", size=SMALL)
    ax.figure.figure.draw_without_rendering()  # so that the axes are as wide as they will be
    taken: list[FloatArray] = []
    points = ax.transData.transform(np.column_stack([x, y])) * 72.0 / ax.figure.dpi
    for k in sorted(range(len(words)), key=lambda k: min(k, len(words) - 1 - k)):
        left = y[k] < 0.5  # above the point and to its left, or below and to its right
        size = np.array([0.65 * SMALL * len(words[k]), -SMALL])  # a digit is about so wide
        box = np.sort([points[k], points[k] + (-size if left else size)], axis=0)
        if any((box[0] < other[1]).all() and (other[0] < box[1]).all() for other in taken):
            continue
        taken.append(box)
        ax.annotate(
            words[k],
            (x[k], y[k]),
            (-5, 4) if left else (5, -4),
            textcoords="offset points",
            size=SMALL,
            color=colour,
            ha="right" if left else "left",
            va="bottom" if left else "top",
        )


def _draw_changes(ax: Axes, curve: _Curve, count: int) -> None:
    """The features that move most, named at the ends of their lines."""
    shown = curve.most_moved(count)
    ax.axhline(0.0, color=PALE, linewidth=0.8, zorder=1)
    for k, j in enumerate(shown.tolist()):
        colour, dashes = _line(k)
        stays = not isinstance(curve.path.features.items[j], Continuous)
        ax.plot(
            curve.x,
            curve.moved[:, j],
            color=colour,
            linestyle=dashes,
            linewidth=1.6,
            clip_on=False,
            drawstyle="steps-post" if stays else "default",
        )
    ax.margins(x=0)
    if curve.x.min() < 0.1 * curve.x.max():
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
    heights = _apart(ends, 1.45 * SMALL / tall)
    for k, j in enumerate(shown.tolist()):
        colour, dashes = _line(k)
        arrow = {"arrowstyle": "-", "color": colour, "linestyle": dashes, "shrinkA": 2}
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
            arrowprops=arrow | {"shrinkB": 0, "relpos": (0, 0.5)},
        )


def _line(k: int) -> tuple[str, str]:
    """The colour and the dashes of the k-th line."""
    return COLOURS[k % len(COLOURS)], DASHES[k // len(COLOURS) % len(DASHES)]


def _apart(ends: FloatArray, least: float) -> FloatArray:
    """The heights nearest to the ends, in their order, at least so far apart, from 0 to 1."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(ends, kind="stable")
    room = least * np.arange(len(ends))  # less what the order alone asks for, heights may not fall
    heights = np.empty(len(ends))
    fitted = isotonic_regression(ends[order] - room).x
    heights[order] = np.clip(fitted, 0.0, max(1.0 - room[-1], 0.0)) + room
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
        _, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
        return left, right
    given = [ax] if isinstance(ax, Axes) else list(np.ravel(ax))
    if len(given) > 2 or not given or not all(isinstance(one, Axes) for one in given):
        raise InvalidInput(f"Expected two matplotlib axes, one, or None; got {ax!r}.")
    return given[0], given[1] if len(given) > 1 else None


def short_name(name: object) -> str:
    """A name or a category, cut in the middle where it has more than 28 letters."""
    words = str(name)
    return words if len(words) <= 28 else f"{words[:14]}…{words[-13:]}"
