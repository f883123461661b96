"""Answers for people: tables on standard output."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import counterpoint as cp

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console", "plain", "show_answer", "show_total", "value"]

NOTHING = 1e-9
"""A relative gap that is rounding."""


def console() -> Console:
    """Standard output, in colour only on a terminal that wants it."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def show_answer(out: Console, title: str, answer: cp.Counterfactual, *, reason: bool) -> None:
    """One row: what changes and what that is worth, or that there is no answer and why."""
    from rich.text import Text

    out.print(Text(title, style="bold"))
    if answer.changes:
        out.print(_table(answer.changes))
        out.print(Text(_certificate(answer)))
        if answer.certificate.guarantee is not cp.Guarantee.NONE:
            for line in wrap(answer.message, out.width):
                out.print(Text(line))
    else:
        out.print(Text(answer.message))
    if answer.status == cp.Status.INFEASIBLE and reason and answer.conflict is not None:
        _show_conflict(out, answer.conflict)
    out.print()


def _show_conflict(out: Console, conflict: cp.Conflict) -> None:
    """A minimal set of conflicting constraints, and what would help."""
    from rich.text import Text

    if not conflict.constraints:
        out.print(Text(str(conflict)))
        return
    told = "without any one of them there is one" if conflict.minimal else "perhaps fewer do"
    out.print(Text(f"These exclude every answer; {told}:"))
    for line in wrap("; ".join(map(str, conflict.constraints)), out.width - 2):
        out.print(Text(f"  {line}"))
    if conflict.relaxations:
        out.print(Text("Any one of these would do:"))
    for relaxation in conflict.relaxations:
        for line in wrap(relaxation, out.width - 4, initial_indent="- ", subsequent_indent="  "):
            out.print(Text(f"  {line}"))


def _table(changes: dict[Hashable, tuple[Any, Any]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ROUNDED, border_style="dim")
    table.add_column("feature", overflow="fold")
    table.add_column("now", justify="right", overflow="fold")
    table.add_column("instead", justify="right", style="bold green", overflow="fold")
    for name, (old, new) in changes.items():
        table.add_row(Text(str(name)), Text(value(old)), Text(value(new)))
    return table


def value(cell: Any) -> str:
    """A cell, with no more digits than one wants to read."""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _certificate(answer: cp.Counterfactual) -> str:
    c = answer.certificate
    gap = "0" if c.gap < NOTHING else f"{c.gap:.1e}"
    claim = "" if c.claim == cp.Claim.NONE else f" ({c.claim})"
    cost = f"cost {c.cost:.4g}{c.likely}"
    if c.objective == c.cost:
        return f"{cost}; nothing costs less than {c.bound:.4g}{claim}; gap {gap}"
    return f"{cost}; traded off at {c.objective:.4g}, at best {c.bound:.4g}{claim}; gap {gap}"


def show_total(out: Console, summary: str, rows: int, seconds: float) -> None:
    """What became of all rows."""
    from rich.text import Text

    for sentence in summary.splitlines():
        for line in wrap(sentence, out.width, subsequent_indent="  "):
            out.print(Text(line))
    out.print(Text(f"time: {plain(seconds)} s{_each(rows, seconds)}"))


def _each(rows: int, seconds: float) -> str:
    return f", {plain(1e3 * seconds / rows)} ms a row" if rows else ""


def plain(number: float) -> str:
    """A number with three digits that count, and never with an exponent."""
    digits = max(0, 2 - math.floor(math.log10(number))) if number > 0.0 else 0
    return f"{round(number, digits):.{digits}f}"
