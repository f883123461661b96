"""Draws pictures of paths and of groups; matplotlib is imported only when one is drawn.

The objects that are drawn call these functions, so that their types are not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import isotonic_regression

from counterpoint.errors import InvalidInput, NoAnswer, missing_extra
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.rows.features import Categorical, Continuous

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE = "#222222", "#a0a0a0"
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#882255", "#000000"),
)
"""Okabe and Ito's, told apart by those who see fewer colours; wine in the place of yellow."""
DASHES = ("-", "--", ":", "-.")
"""One after the other, when all colours are taken."""
LABEL_SIZE = 8.5
"""The size of words beside lines, in points."""
RATES = (("correctness", "-", "o"), ("coverage", "--", "s"))
"""The rates of explanations of groups, with the dashes and the marker of their lines."""


def draw(path: Any, features: Any, ax: Any) -> Figure:
    """Draw the two parts of `Path.plot` for a path of one row; on one axis, the left part alone.

    ``features`` is how many are named in the right part.
    """
    if isinstance(features, bool) or not isinstance(features, int | np.integer) or features < 1:
        raise InvalidInput(f"Expected a number of features, at least 1; got {features!r}.")
    varied = path.varied
    if varied is None:
        raise InvalidInput(
            "Expected targets that differ in one number, such as the weights of trade-offs of "
            "one label; got others. Trace each kind of target, and each label, by itself."
        )
    values = np.array([getattr(target, varied) for target in path.targets], dtype=float)
    # From the target that costs least on; those without an answer are left out.
    order = np.argsort(-values if varied in ("weight", "high") else values, kind="stable")
    order = order[path.found[0, order]]
    if not len(order):
        answer = path.answers[0][0]
        raise NoAnswer(f"There is nothing to plot. {answer.status}: {answer.message}")
    values, cost = values[order], path.cost[0, order]
    x, unit = (np.sqrt(cost), "distance") if path.is_squared else (cost, "cost")
    left, *right = axes_of(ax, (2, 1), (10.0, 4.2), "Path.plot needs")
    requirement = path.targets[0].requirement
    y, label = values, {"low": "value, at least", "high": "value, at most"}.get(varied, varied)
    if requirement.probable:
        y, label = path.probability[0, order], f"probability of {requirement.labels[0]}"
        left.set_ylim(-0.04, 1.04)
    dot_size = 4.0 if len(np.unique(x)) <= 20 else 2.5  # so that many do not hide the line
    left.plot(x, y, color=INK, linewidth=1.0, marker="o", markersize=dot_size)
    left.margins(x=0.12)
    left.set_ylabel(label, parse_math=False)
    for axes in (left, *right):
        axes.set_xlabel("distance (√cost)" if path.is_squared else "cost")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in right:
        axes.set_ylabel(f"change, in units of {unit}")
        _draw_moves(axes, path, order, x, int(features))
    if varied == "weight":
        _mark_weights(left, x, y, values)  # last, as it needs the final size of the axes
    return figure_of(left)


def _mark_weights(ax: Axes, x: FloatArray, y: FloatArray, weights: FloatArray) -> None:
    """Write weights on the curve where there is room; those at its ends come first.

    Up to twenty are all written; of more, those within a factor of 1.26 of a power of ten, as that
    power. Weights fall along the curve, and y is a probability.
    """
    words = [f"{value:.2g}" for value in weights]
    if len(weights) > 20:
        logs, tolerance = np.log10(weights), 0.1
        first, last = np.floor(logs[0] + tolerance), np.ceil(logs[-1] - tolerance)
        powers = np.arange(first, last - 1.0, -1.0)
        distance = np.abs(powers[:, None] - logs)
        has_weight = distance.min(axis=1) <= tolerance
        nearest = distance.argmin(axis=1)[has_weight]
        x, y, words = x[nearest], y[nearest], [f"{value:g}" for value in 10.0 ** powers[has_weight]]
    if not words:
        return
    colour = COLOURS[0]
    ax.plot(x, y, "o", color=colour, markersize=5.5, zorder=3)
    ax.text(
        0.98, 0.04, "● weight", color=colour, transform=ax.transAxes, ha="right", size=LABEL_SIZE
    )
    ax.figure.figure.draw_without_rendering()  # so that the axes are as wide as they will be
    points = ax.transData.transform(np.column_stack([x, y])) * 72.0 / ax.figure.dpi
    boxes: list[FloatArray] = []  # of words that are written already: lower left, upper right
    for k in sorted(range(len(words)), key=lambda k: min(k, len(words) - 1 - k)):
        above = y[k] < 0.5  # above the point and to its left, or below and to its right
        size = np.array(
            [0.65 * LABEL_SIZE * len(words[k]), -LABEL_SIZE]
        )  # a digit is about so wide
        box = np.sort([points[k], points[k] + (-size if above else size)], axis=0)
        if any((box[0] < other[1]).all() and (other[0] < box[1]).all() for other in boxes):
            continue  # it would overlap
        boxes.append(box)
        ax.annotate(
            words[k],
            (x[k], y[k]),
            (-5, 4) if above else (5, -4),
            textcoords="offset points",
            size=LABEL_SIZE,
            color=colour,
            ha="right" if above else "left",
            va="bottom" if above else "top",
        )


def _draw_moves(ax: Axes, path: Any, order: IntArray, x: FloatArray, count: int) -> None:
    """Draw how the ``count`` features change that move most, named at the ends of their lines."""
    moved = path.moved[0, order]
    most = np.abs(moved).max(axis=0)
    columns = [j for j in np.argsort(-most, kind="stable")[:count].tolist() if most[j] > 0.0]
    ax.axhline(0.0, color=PALE, linewidth=0.8, zorder=1)
    for k, j in enumerate(columns):
        colour, dashes = _line(k)
        jumps = not isinstance(path.features.items[j], Continuous)
        ax.plot(
            x,
            moved[:, j],
            color=colour,
            linestyle=dashes,
            linewidth=1.6,
            clip_on=False,
            drawstyle="steps-post" if jumps else "default",
        )
    ax.margins(x=0)
    if x.min() < 0.1 * x.max():
        ax.set_xlim(left=0)

    if not columns:
        ax.text(0.5, 0.6, "nothing changes", color=INK, transform=ax.transAxes, ha="center")
        return
    ax.figure.figure.draw_without_rendering()  # so that the axes are as tall as they will be
    low, high = ax.get_ylim()
    ends = (moved[-1, columns] - low) / (high - low)  # as parts of the axis, and so are heights
    points = ax.bbox.height * 72.0 / ax.figure.dpi
    heights = _apart(ends, 1.45 * LABEL_SIZE / points)
    for k, j in enumerate(columns):
        colour, dashes = _line(k)
        arrow = {"arrowstyle": "-", "color": colour, "linestyle": dashes, "shrinkA": 2}
        ax.annotate(
            _change(path, j, int(order[-1])),
            (1.0, ends[k]),
            (1.06, heights[k]),
            xycoords="axes fraction",
            textcoords="axes fraction",
            size=LABEL_SIZE,
            color=INK,
            va="center",
            parse_math=False,
            annotation_clip=False,
            arrowprops=arrow | {"shrinkB": 0, "relpos": (0, 0.5)},
        )


def _change(path: Any, j: int, end: int) -> str:
    """Return a feature's name and its change at the end of the path, in its own units."""
    feature = path.features.items[j]
    name = short(feature.name)
    if isinstance(feature, Categorical):
        codes = (path.answers[0].before[0, j], path.after[0, end, j])
        old, new = (short(feature.categories[int(code)]) for code in codes)
        return f"{name}  {old} → {new}" if old != new else f"{name}  {old}"
    change = float(path.changes[0, end, j])
    number = f"{change:+,.0f}" if abs(change) >= 100.0 else f"{change:+.3g}"
    return f"{name}  {number.replace('-', '−')}"


def _line(k: int) -> tuple[str, str]:
    """Return the colour and the dashes of the k-th line."""
    return COLOURS[k % len(COLOURS)], DASHES[k // len(COLOURS) % len(DASHES)]


def _apart(ends: FloatArray, least: float) -> FloatArray:
    """Return the heights nearest to the ends, in their order, ``least`` apart, from 0 to 1."""
    # Heights that are ``least`` apart are those that do not fall once k · least is subtracted.
    order = np.argsort(ends, kind="stable")
    lowest = least * np.arange(len(ends))
    heights = np.empty(len(ends))
    fitted = isotonic_regression(ends[order] - lowest).x
    heights[order] = np.clip(fitted, 0.0, max(1.0 - lowest[-1], 0.0)) + lowest
    return heights


def draw_bars(bars: Sequence[tuple[str, float]], title: str, ax: Any) -> Figure:
    """Draw horizontal bars: each has a name, and its length is in units of cost."""
    names, lengths = zip(*bars, strict=True) if bars else ((), ())
    (axes,) = axes_of(ax, (1,), (6.4, 1.4 + 0.28 * max(len(bars), 2)))
    colours = [COLOURS[0] if length > 0.0 else COLOURS[1] for length in lengths]
    drawn = axes.barh(range(len(bars)), lengths, color=colours, height=0.7)
    axes.bar_label(
        drawn, [f"{length:+.2g}" for length in lengths], padding=4, size=LABEL_SIZE, color=INK
    )
    axes.axvline(0.0, color=PALE, linewidth=0.8)
    axes.set_yticks(range(len(bars)), map(short, names), parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.margins(x=0.22)
    if not bars:
        axes.text(0.5, 0.5, "nothing changes", color=INK, transform=axes.transAxes, ha="center")
    axes.set_title(title, loc="left", size="medium", parse_math=False)
    axes.set_xlabel("change, in units of cost")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure_of(axes)


def draw_quality(quality: Any, ax: Any) -> Figure:
    """Draw heat maps of correctness and coverage, from each group (row) to each (column)."""
    labels = [short(group) for group in quality.groups]
    side, ticks = 1.6 + 0.42 * len(labels), range(len(labels))
    rotation = 90 if max(map(len, labels)) > 3 else 0
    panels = axes_of(ax, (2,), (2.0 * side + 1.0, side))
    for axes, (name, _, _) in zip(panels, RATES, strict=True):
        values = getattr(quality, name)
        image = axes.imshow(values, vmin=0.0, vmax=1.0, cmap="cividis_r")
        axes.set_xticks(ticks, labels, rotation=rotation, parse_math=False)
        axes.set_yticks(ticks, labels, parse_math=False)
        axes.set_xlabel("to")
        axes.set_ylabel("from")
        axes.set_title(f"{name}, mean {quality.mean(values):.2f}", loc="left", size="medium")
        axes.spines[:].set_visible(False)
        if len(labels) > 10:  # numbers would be too small
            axes.figure.figure.colorbar(image, ax=axes, shrink=0.8)
            continue
        for i, j in np.ndindex(values.shape):
            colour, word = "white" if values[i, j] > 0.55 else INK, f"{values[i, j]:.2f}"
            axes.text(j, i, word, ha="center", va="center", color=colour, size=LABEL_SIZE)
    return figure_of(panels[0])


def draw_map(
    values: FloatArray, groups: Any, moved: FloatArray, pair: tuple[Any, Any], ax: Any
) -> Figure:
    """Draw two groups in the plane, before and after the first is moved to the second.

    ``values`` (n, m) are those of all rows, ``moved`` those of the first group after the move.
    """
    if values.shape[1] < 2:
        raise InvalidInput(
            "Expected a representation of at least two dimensions to draw a map; got one. Draw a "
            "histogram of its values."
        )
    panels = axes_of(ax, (2,), (10.0, 4.6))
    start, goal = (values[groups.rows(groups.labels.index(label))] for label in pair)
    for axes, points, title in zip(panels, (start, moved), ("before", "after"), strict=True):
        axes.scatter(*values[:, :2].T, s=6, color=PALE, alpha=0.5, linewidths=0)
        axes.update_datalim(moved[:, :2])  # so that both show the same part of the plane
        axes.scatter(*goal[:, :2].T, s=12, color=COLOURS[0], linewidths=0, label=f"{pair[1]}")
        axes.scatter(
            *points[:, :2].T, s=12, color=COLOURS[1], marker="^", linewidths=0, label=f"{pair[0]}"
        )
        axes.set_title(f"{title} the change from {pair[0]} to {pair[1]}", loc="left", size="medium")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color(PALE)
        axes.legend(frameon=False, markerscale=1.8, loc="best", fontsize=LABEL_SIZE)
    return figure_of(panels[0])


def draw_translation_path(path: Any, count: Any, ax: Any) -> Figure:
    """Draw correctness and coverage of the explanation chosen for each number of features."""
    ks = sorted(set(np.ceil(path.counts(count)).astype(int).tolist()) - {0})
    chosen = [path.able(k, count)[0] for k in ks]  # the best of at most k features
    (axes,) = axes_of(ax, (1,), (5.6, 4.0))
    for colour, (name, dashes, marker) in zip(COLOURS, RATES, strict=False):
        rates = [getattr(candidate, name) for candidate in chosen]
        size = 7 if name == "correctness" else 3  # so that both are seen where they are the same
        axes.plot(ks, rates, dashes, marker=marker, color=colour, markersize=size, label=name)
    labels = {
        "each": "features a pair, at most",
        "mean": "features a pair, on average",
        "shared": "features of all pairs together",
        "reference": "features a group, from a reference group",
    }
    _finish_curves(axes, labels[count], "on the rows of the fit")
    return figure_of(axes)


def plot_curves(
    ks: Sequence[int], qualities: Mapping[str, Sequence[Any]], ax: Any = None
) -> Figure:
    """Draw correctness and coverage of several methods against the number of features.

    Parameters
    ----------
    ks
        Numbers of features.
    qualities
        Name of a method → its quality at each of them, as of `GroupTranslations.evaluate_each`.
    ax
        Two matplotlib axes; None for a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    InvalidInput
        If a method has more or fewer numbers.
    """
    panels = axes_of(ax, (2,), (10.0, 4.0))
    for colour, (method, evaluations) in zip(COLOURS, qualities.items(), strict=False):
        if len(evaluations) != len(ks):
            raise InvalidInput(
                f"Expected {len(ks)} qualities of {method!r}, one for each number of features; got "
                f"{len(evaluations)}. Pass what evaluate_each returned for the same numbers."
            )
        for axes, (name, _, marker) in zip(panels, RATES, strict=True):
            rates = [quality.mean(getattr(quality, name)) for quality in evaluations]
            axes.plot(ks, rates, marker=marker, color=colour, markersize=4, label=method)
    for axes, (name, _, _) in zip(panels, RATES, strict=True):
        _finish_curves(axes, "features a pair", name)
    return figure_of(panels[0])


def _finish_curves(axes: Axes, xlabel: str, title: str) -> None:
    """Set what all curves of rates, 0 to 1, against numbers of features have around them."""
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(xlabel)
    axes.set_title(title, loc="left", size="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")


def axes_of(
    ax: Any, counts: Sequence[int], size: tuple[float, float], needing: str = "Pictures need"
) -> list[Axes]:
    """Return axes to draw on: those passed, as many as one of ``counts``, or counts[0] new ones."""
    try:
        from matplotlib import pyplot as plt
        from matplotlib.axes import Axes
    except ImportError:
        raise missing_extra(f"{needing} matplotlib", "plots") from None
    if ax is None:
        _, made = plt.subplots(1, counts[0], figsize=size, layout="constrained", squeeze=False)
        return list(made[0])
    axes = [ax] if isinstance(ax, Axes) else list(np.ravel(ax))
    if len(axes) not in counts or not all(isinstance(item, Axes) for item in axes):
        expected = f"{counts[0]} matplotlib axes, or None for a new figure"
        if len(counts) > 1:
            expected = "two matplotlib axes, one, or None"
        raise InvalidInput(f"Expected {expected}; got {ax!r}.")
    return axes


def figure_of(axes: Axes) -> Figure:
    """Return the whole figure, also of axes in a part of it."""
    figure: Figure = axes.figure.figure
    return figure


def short(name: object) -> str:
    """Return a name or a category, cut in the middle where it has more than 28 letters."""
    words = str(name)
    return words if len(words) <= 28 else f"{words[:14]}…{words[-13:]}"
