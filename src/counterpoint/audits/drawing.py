"""The picture of an audit; matplotlib is imported only when it is drawn."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.errors import missing_extra, several
from counterpoint.pictures.plots import COLOURS, DASHES, INK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_audit", "draw_curves", "new_figure"]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches, that no window shows.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("Pictures of audits need matplotlib", "plots") from None
    return Figure(figsize=(width, height), layout="constrained")


def draw_audit(audit: Any) -> Figure:
    """Draw the curves of all groups and, if rules matter, bars of what each does."""
    bars = audit.constraints.head(10)[::-1]
    figure = new_figure(11.0 if len(bars) else 6.0, 4.2)
    axes, *right = np.ravel(figure.subplots(1, 1 + bool(len(bars))))
    draw_curves(audit, axes)
    for side in right:
        _draw_rules(bars, sum(audit.sampled), side)
    return figure


def draw_curves(audit: Any, axes: Axes) -> None:
    """Draw which share of each group's rows has an action of at most a cost."""
    cost = np.asarray(audit.answers.cost)
    end = 1.05 * cost[audit.answered].max(initial=0.0)
    labels = [*audit.groups.index[1:]] or ["all"]
    for k, label in enumerate(labels):
        mine = audit.needs & (audit.group == label)
        steps = np.sort(cost[mine & audit.answered])
        share = np.arange(len(steps) + 1) / max(1, int(mine.sum()))
        style = DASHES[k // len(COLOURS) % len(DASHES)]
        x, y = [0.0, *steps, end], [*share, share[-1]]
        text = audit.words.group(label)
        colour = COLOURS[k % len(COLOURS)]
        axes.step(x, y, style, where="post", color=colour, label=text)
    axes.set(xlabel="cost of an action", ylabel="rows with an action of at most this cost")
    axes.set(xlim=(0.0, end or 1.0), ylim=(0.0, 1.02))
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.spines[["top", "right"]].set_visible(False)
    if len(labels) > 1:
        axes.legend(frameon=False, loc="lower right", title=audit.words.groups)


def _draw_rules(bars: Any, count: int, axes: Axes) -> None:
    """Draw what becomes of fixed rows and of others without each rule."""
    at = np.arange(len(bars))
    axes.barh(at + 0.2, bars["frees"], 0.38, color=INK, label="fixed rows that have an action")
    axes.barh(at - 0.2, bars["saves"], 0.38, color=PALE, label="cost that others save")
    wrapped = ["\n".join(wrap(text, 40, max_lines=2)) for text in bars.index]
    axes.set_yticks(at, wrapped, parse_math=False)
    axes.set(xlabel=f"without the rule, of a sample of {several(count, 'row')}", xlim=(0.0, 1.0))
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
