"""A progress bar for long work; nothing for short work, and nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, final

__all__ = ["track"]

PATIENCE = 2.0
"""Seconds before a bar appears by itself."""


@contextmanager
def track(total: int, *, show: bool | None, unit: str = "rows") -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many more rows are done.

    Parameters
    ----------
    total
        The number of rows.
    show
        True for a bar at once, False for none, None for one on a terminal once it takes long.
    unit
        What is counted, if not rows.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    bar = _Bar(total, 0.0 if show else PATIENCE, unit)
    try:
        yield bar.advance
    finally:
        bar.close()


@final
class _Bar:
    """A rich progress bar that appears once it has been needed for some time."""

    def __init__(self, total: int, patience: float, unit: str) -> None:
        self._total, self._unit, self._done = total, unit, 0
        self._from = perf_counter() + patience
        self._shown: Any = None

    def advance(self, count: int) -> None:
        """So many more rows are done."""
        self._done += count
        if self._shown is None and perf_counter() >= self._from:
            self._open()
        if self._shown is not None:
            self._shown.update(self._task, completed=self._done)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), self._unit, TimeRemainingColumn())
        self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._shown.add_task("explaining", total=self._total)
        self._shown.start()

    def close(self) -> None:
        """Take the bar away."""
        if self._shown is not None:
            self._shown.stop()
