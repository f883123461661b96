"""Show a progress bar for long work on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def track(total: int, *, show: bool | None, unit: str = "rows") -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of further units of ``total`` that are done.

    ``show`` is True for a bar at once, False for none, and None for one that appears on a terminal
    after two seconds. ``unit`` names the units beside the bar.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    earliest, done = perf_counter() + (0.0 if show else 2.0), 0
    bar: Progress | None = None

    def advance(count: int) -> None:
        nonlocal bar, done
        done += count
        if bar is None and perf_counter() >= earliest:
            bar = _bar(total, unit)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def _bar(total: int, unit: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), unit, TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("explaining", total=total)
    bar.start()
    return bar
