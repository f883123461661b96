"""Draw the picture of an audit; matplotlib is imported only then."""

from __future__ import annotations

import re
from io import StringIO
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.errors import missing_extra, several
from counterpoint.pictures.plots import COLOURS, DASHES, INK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def check_drawing() -> None:
    """Raise if pictures cannot be drawn, to be called before a long audit.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise missing_extra("Pictures of audits need matplotlib", "plots") from None


def _new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, of a size in inches, that no window shows."""
    check_drawing()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def draw_audit(audit: Any) -> Figure:
    """Draw the curves of all groups and, if rules matter, bars of what each does."""
    bars = audit.constraints.head(10)[::-1]  # drawn from below
    figure = _new_figure(11.0 if len(bars) else 6.0, 3.8 + _legend_height(audit))
    curves, *others = np.ravel(figure.subplots(1, 2 if len(bars) else 1))
    draw_curves(audit, curves)
    for axes in others:
        _draw_rules(bars, sum(audit.sampled), axes)
    return figure


def draw_curves(audit: Any, axes: Axes) -> None:
    """Draw the share of each group's rows that has an action of at most a cost, as a curve of it.

    Groups in which no row needs an action have no curve.
    """
    cost, lines, labels = np.asarray(audit.answers.cost), list[Any](), list[str]()
    end = 1.05 * cost[audit.answered].max(initial=0.0)
    for k, group in enumerate([*audit.groups.index[1:]] or ["all"]):
        needs = audit.needs & (audit.group == group)
        if not needs.any():
            continue
        costs = np.sort(cost[needs & audit.answered])
        shares = np.arange(len(costs) + 1) / needs.sum()
        style, colour = DASHES[k // len(COLOURS) % len(DASHES)], COLOURS[k % len(COLOURS)]
        # the last step goes on to the right edge of the picture
        x, y = [0.0, *costs, end], [*shares, shares[-1]]
        lines += axes.step(x, y, style, where="post", color=colour)
        labels.append(audit.words.group(group))
    axes.set(xlabel="cost of an action", ylabel="rows with an action of at most this cost")
    axes.set(xlim=(0.0, end or 1.0), ylim=(0.0, 1.02))
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.spines[["top", "right"]].set_visible(False)
    if len(audit.groups) > 2:
        legend = axes.legend(
            lines,
            [*map(str, range(len(lines)))],  # matplotlib leaves out names that begin with _
            frameon=False,
            loc="lower left",  # above the curves, which it would hide
            bbox_to_anchor=(0.0, 1.0),
            ncols=_legend_columns(audit),
            title=audit.words.groups,
            alignment="left",
        )
        legend.get_title().set_parse_math(False)
        for text, label in zip(legend.get_texts(), labels, strict=True):
            text.set(parse_math=False, text=label)


def _legend_columns(audit: Any) -> int:
    """Return how many names of groups go on a line of the legend, which holds about 50 letters."""
    letters = max(len(audit.words.group(name)) for name in audit.groups.index)
    return min(max(1, 50 // (letters + 8)), 4)  # 8 for the line before each name


def _legend_height(audit: Any) -> float:
    """Return the height of the legend, in inches."""
    return 0.22 * (1 + np.ceil((len(audit.groups) - 1) / _legend_columns(audit)))


def svg_of_curves(audit: Any) -> str:
    """Return the curves as an element ``<svg>`` whose words are text, in the page's colours."""
    figure = _new_figure(5.0, 3.2 + _legend_height(audit))
    draw_curves(audit, figure.subplots())
    out = StringIO()
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "counterpoint"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace("#000000", "currentColor")
    return text.replace("<svg ", '<svg role="img" aria-labelledby="curves" ', 1)


def _draw_rules(bars: Any, count: int, axes: Axes) -> None:
    """Draw bars of the effect of each rule on ``count`` rows: fixed rows freed, and costs saved."""
    position = np.arange(len(bars))
    for offset, column, colour, label in (
        (0.2, "frees", INK, "fixed rows that have an action"),
        (-0.2, "saves", PALE, "cost that others save"),
    ):
        axes.barh(position + offset, bars[column], 0.38, color=colour, label=label)
    wrapped = ["\n".join(wrap(text, 40, max_lines=2)) for text in bars.index]
    axes.set_yticks(position, wrapped, parse_math=False)
    axes.set_ylim(min(len(bars) - 4, 0) - 0.5, len(bars) - 0.5)  # few bars are no wider than four
    axes.set(xlabel=f"without the rule, of a sample of {several(count, 'row')}", xlim=(0.0, 1.0))
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
