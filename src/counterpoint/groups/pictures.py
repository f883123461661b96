"""Pictures of explanations and of how good they are; matplotlib is imported only to draw one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.errors import InvalidInput, MissingExtra
from counterpoint.groups.tables import Groups
from counterpoint.groups.translations import Translations, amount
from counterpoint.numerics import FloatArray
from counterpoint.plots import COLOURS, INK, PALE, SMALL, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counterpoint.groups.path import Count, TranslationPath
    from counterpoint.groups.quality import Quality

__all__ = ["draw_changes", "draw_map", "draw_path", "draw_quality", "plot_curves"]

BOTH = (("correctness", "-", "o"), ("coverage", "--", "s"))
"""What curves show, and how."""


def draw_changes(translations: Translations, start: Any, end: Any, most: int, ax: Any) -> Figure:
    """A bar for each feature that changes from one group to another, in units of cost."""
    changes = list(translations.changes(start, end).items())
    shown = changes[:most]
    price = dict(zip(translations.columns.tolist(), translations.costs.tolist(), strict=True))
    cost = [price[translations.names.index(name)] * change for name, change in shown]
    (axes,) = _axes(ax, 1, (6.4, 1.4 + 0.28 * max(len(shown), 2)))
    places = np.arange(len(shown))
    colours = [COLOURS[0] if change > 0.0 else COLOURS[1] for _, change in shown]
    bars = axes.barh(places, cost, color=colours, height=0.7)
    said = [f"{'+' if change > 0.0 else '−'}{amount(abs(change))}" for _, change in shown]
    axes.bar_label(bars, said, padding=4, size=SMALL, color=INK)
    axes.axvline(0.0, color=PALE, linewidth=0.8)
    axes.set_yticks(places, [short_name(name) for name, _ in shown], parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.margins(x=0.22)
    if not shown:
        axes.text(0.5, 0.5, "nothing changes", color=INK, transform=axes.transAxes, ha="center")
    rest = f", the {most} largest of {len(changes)} changes" if len(changes) > most else ""
    axes.set_title(f"from {start} to {end}{rest}", loc="left", size="medium", parse_math=False)
    axes.set_xlabel("change, in units of cost")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return _figure(axes)


def draw_quality(quality: Quality, ax: Any) -> Figure:
    """Correctness and coverage, from each group (row) to each (column)."""
    side = 1.6 + 0.42 * len(quality.groups)
    left, right = _axes(ax, 2, (2.0 * side + 1.0, side))
    for axes, name in ((left, "correctness"), (right, "coverage")):
        values = getattr(quality, name)
        shown = axes.imshow(values, vmin=0.0, vmax=1.0, cmap="cividis_r")
        labels = [short_name(group) for group in quality.groups]
        turned = 90 if max(map(len, labels)) > 3 else 0
        axes.set_xticks(range(len(labels)), labels, rotation=turned, parse_math=False)
        axes.set_yticks(range(len(labels)), labels, parse_math=False)
        axes.set_xlabel("to")
        axes.set_ylabel("from")
        mean = quality.mean(values)
        axes.set_title(f"{name}, mean {mean:.2f}", loc="left", size="medium")
        axes.spines[:].set_visible(False)
        if len(labels) <= 10:  # else numbers would be too small
            for i, j in np.ndindex(values.shape):
                tone = "white" if values[i, j] > 0.55 else INK
                word = f"{values[i, j]:.2f}"
                axes.text(j, i, word, ha="center", va="center", color=tone, size=SMALL)
        else:
            axes.figure.figure.colorbar(shown, ax=axes, shrink=0.8)
    return _figure(left)


def draw_map(
    values: FloatArray, groups: Groups, moved: FloatArray, pair: tuple[Any, Any], ax: Any
) -> Figure:
    """The values (n, m) of rows, before and after those of the first of two groups are moved."""
    if values.shape[1] < 2:
        raise InvalidInput(
            "Expected a representation of at least two dimensions to draw a map; got one. Draw a "
            "histogram of its values."
        )
    before, after = _axes(ax, 2, (10.0, 4.6))
    start, end = (groups.labels.index(label) for label in pair)
    for axes, points, title in (
        (before, values[groups.rows(start)], "before"),
        (after, moved, "after"),
    ):
        axes.scatter(*values[:, :2].T, s=6, color=PALE, alpha=0.5, linewidths=0)
        axes.update_datalim(moved[:, :2])  # so that both show the same part of the plane
        there = values[groups.rows(end)]
        axes.scatter(*there[:, :2].T, s=12, color=COLOURS[0], linewidths=0, label=f"{pair[1]}")
        axes.scatter(
            *points[:, :2].T, s=12, color=COLOURS[1], marker="^", linewidths=0, label=f"{pair[0]}"
        )
        axes.set_title(f"{title} the change from {pair[0]} to {pair[1]}", loc="left", size="medium")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color(PALE)
        axes.legend(frameon=False, markerscale=1.8, loc="best", fontsize=SMALL)
    return _figure(before)


def draw_path(path: TranslationPath, count: Count, ax: Any) -> Figure:
    """Correctness and coverage of the best explanations of so many features, as they are chosen."""
    counts = sorted(set(np.ceil(path.counts(count)).astype(int).tolist()) - {0})
    chosen = [path.choose(k, count) for k in counts]
    (axes,) = _axes(ax, 1, (5.6, 4.0))
    for tone, (name, dashes, marker) in zip(COLOURS, BOTH, strict=False):
        rates = [getattr(one, name) for one in chosen]
        size = 7 if name == BOTH[0][0] else 3  # of a linear representation they are the same
        axes.plot(counts, rates, dashes, marker=marker, color=tone, markersize=size, label=name)
    said = {"each": "features a pair, at most", "mean": "features a pair, on average"}
    _frame(axes, said.get(count, "features of all pairs together"))
    axes.set_title("on the rows of the fit", loc="left", size="medium")
    return _figure(axes)


def plot_curves(
    ks: Sequence[int], qualities: Mapping[str, Sequence[Quality]], ax: Any = None
) -> Figure:
    """Correctness and coverage of several methods against the number of features.

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
    both = _axes(ax, 2, (10.0, 4.0))
    for tone, (method, found) in zip(COLOURS, qualities.items(), strict=False):
        if len(found) != len(ks):
            raise InvalidInput(
                f"Expected {len(ks)} qualities of {method!r}, one for each number of features; got "
                f"{len(found)}. Pass what evaluate_each returned for the same numbers."
            )
        for axes, (name, _, marker) in zip(both, BOTH, strict=True):
            rates = [one.mean(getattr(one, name)) for one in found]
            axes.plot(ks, rates, marker=marker, color=tone, markersize=4, label=method)
    for axes, (name, _, _) in zip(both, BOTH, strict=True):
        _frame(axes, "features a pair")
        axes.set_title(name, loc="left", size="medium")
    return _figure(both[0])


def _frame(axes: Axes, what: str) -> None:
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(what)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")


def _figure(axes: Axes) -> Figure:
    figure: Figure = axes.figure.figure  # of a part of a figure, the whole
    return figure


def _axes(ax: Any, count: int, size: tuple[float, float]) -> list[Axes]:
    """The axes to draw on."""
    try:
        from matplotlib import pyplot as plt
        from matplotlib.axes import Axes
    except ImportError:
        raise MissingExtra(
            "Pictures need matplotlib, which is not installed. "
            "Install it with pip install 'counterpoint[plots]'."
        ) from None
    if ax is None:
        _, made = plt.subplots(1, count, figsize=size, layout="constrained", squeeze=False)
        return list(made[0])
    given = [ax] if isinstance(ax, Axes) else list(np.ravel(ax))
    if len(given) != count or not all(isinstance(one, Axes) for one in given):
        raise InvalidInput(
            f"Expected {count} matplotlib axes, or None for a new figure; got {ax!r}."
        )
    return given
