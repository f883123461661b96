"""Writes small pages of escaped HTML for notebooks, in the colours of their surroundings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

STYLE = """
.counterpoint {font: 13px/1.5 system-ui, sans-serif; max-width: 60em; margin: .5em 0;
 padding: .6em .9em; border-radius: 6px; overflow-x: auto;
 border: 1px solid color-mix(in srgb, currentColor 25%, transparent)}
.counterpoint table {border-collapse: collapse; margin: .4em 0; font-size: inherit; color: inherit}
.counterpoint :is(th, td) {text-align: left; padding: .15em .8em .15em 0; vertical-align: top;
 font-variant-numeric: tabular-nums;
 border: 0; background: none; color: inherit; max-width: 36em}
.counterpoint thead th {border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent)}
.counterpoint :is(summary, .quiet) {color: color-mix(in srgb, currentColor 70%, transparent)}
.counterpoint summary {cursor: pointer}
.counterpoint ul {margin: .2em 0; padding-left: 1.4em}
.counterpoint strong.good {color: #00694c}
.counterpoint strong.bad {color: #b33c00}
@media (prefers-color-scheme: dark) {
 .counterpoint strong.good {color: #4fd0a5}
 .counterpoint strong.bad {color: #ff9d66}}
:is([data-jp-theme-light="true"], .vscode-light, [data-theme="light"]) .counterpoint strong.good {
 color: #00694c}
:is([data-jp-theme-light="true"], .vscode-light, [data-theme="light"]) .counterpoint strong.bad {
 color: #b33c00}
:is([data-jp-theme-light="false"], .vscode-dark, [theme="dark"], [data-theme="dark"])
 .counterpoint strong.good {color: #4fd0a5}
:is([data-jp-theme-light="false"], .vscode-dark, [theme="dark"], [data-theme="dark"])
 .counterpoint strong.bad {color: #ff9d66}
"""
"""Text has the colour of the page around. Only words on statuses have colours of their own, for a
light or dark page as the browser says, or as JupyterLab, VS Code, Colab and Sphinx do."""


def panel(title: str, *blocks: str, good: bool | None = None) -> str:
    """Return a box with a title, coloured as good or bad unless ``good`` is None."""
    tone = "" if good is None else f' class="{"good" if good else "bad"}"'
    head = f"<strong{tone}>{escape(title)}</strong>"
    return f'<div class="counterpoint"><style>{STYLE}</style>{head}{"".join(blocks)}</div>'


def paragraph(text: str) -> str:
    """Return text, one line below the other."""
    return f"<div>{'<br>'.join(map(escape, text.splitlines()))}</div>" if text else ""


def folded(summary: str, *blocks: str) -> str:
    """Return a summary that opens at a click."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(blocks)}</details>"


def bullets(items: Iterable[object]) -> str:
    """Return a list of lines."""
    return f"<ul>{''.join(f'<li>{escape(str(item))}</li>' for item in items)}</ul>"


def number(value: Any) -> str:
    """Return a value as a table shows it: six digits of a float."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "–" if np.isnan(value) else f"{value:.6g}"
    return str(value)


def table(columns: Sequence[object], rows: Iterable[Sequence[Any]], most: int | None = None) -> str:
    """Return a table; of more than ``most`` rows the first, and how many more there are."""

    def cell(value: Any) -> str:
        return f"<td>{escape(number(value))}</td>"

    rows = list(rows)
    visible = rows if most is None else rows[:most]
    cells = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    head = f"<thead><tr>{cells}</tr></thead>" if any(columns) else ""
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in visible)
    hidden = len(rows) - len(visible)
    note = f'<div class="quiet">and {hidden} more</div>' if hidden else ""
    return f"<table>{head}<tbody>{body}</tbody></table>{note}"


def changes(pairs: Mapping[Any, tuple[Any, Any]]) -> str:
    """Return pairs of old and new values by name as ``income: 30 → 42; loans: 3 → 2``."""
    return "; ".join(f"{name}: {change(*pair)}" for name, pair in pairs.items()) or "–"


def change(old: Any, new: Any) -> str:
    """Return ``30 → 42``, in as few digits as tell them apart, six at least."""
    short = number(old), number(new)
    if short[0] != short[1]:
        return " → ".join(short)
    if not all(isinstance(value, float | np.floating) for value in (old, new)):
        return f"{old} → {new}"
    pairs = ((f"{old:.{k}g}", f"{new:.{k}g}") for k in range(7, 18))
    return " → ".join(next((pair for pair in pairs if pair[0] != pair[1]), short))
