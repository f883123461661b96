"""Timing, and how numbers are written in tables."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

import counterpoint as cp


def interleaved(tasks: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each task, run in turns so that a busy moment meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            times[name].append(timed(task)[1])
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def timed(task: Callable[[], Any]) -> tuple[Any, float]:
    """Run a task; return its result and its CPU seconds."""
    start = process_time()
    result = task()
    return result, process_time() - start


def repeated(task: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """Return a task's result and the median CPU time of some runs after a first.

    The result of the run before is freed first, so that its memory is used anew: fresh memory
    costs more.
    """
    times, result = [], None
    for _ in range(repeats if repeats == 1 else repeats + 1):
        result = None
        result, seconds = timed(task)
        times.append(seconds)
    return result, float(np.median(times[-repeats:]))


@dataclass(frozen=True)
class Singles:
    """Rows that were explained one at a time: their answers, and CPU seconds of each call."""

    answers: list[cp.Counterfactuals]
    seconds: np.ndarray

    def where(self, mask: np.ndarray) -> Singles:
        """Keep the rows of a mask."""
        return Singles([self.answers[i] for i in np.flatnonzero(mask)], self.seconds[mask])

    @property
    def costs(self) -> np.ndarray:
        """Cost of each answer; NaN without one."""
        return np.array([answers.cost[0] for answers in self.answers])

    @property
    def proved(self) -> np.ndarray:
        """Whether each answer, or that there is none, is proved."""
        claims = [answers.certificates.claim[0] for answers in self.answers]
        return np.array(claims) == cp.Claim.PROVED

    @property
    def closed_form(self) -> np.ndarray:
        """Whether each answer needed no solver."""
        return np.array([answers.closed_form[0] for answers in self.answers])

    @property
    def status(self) -> np.ndarray:
        """Status of each answer."""
        return np.array([str(answers.status[0]) for answers in self.answers])

    @property
    def median(self) -> str:
        """Median time of a row."""
        return milliseconds(float(np.median(self.seconds)))

    @property
    def slowest(self) -> str:
        """Longest time of a row."""
        return milliseconds(float(self.seconds.max()))

    def quantile(self, share: float) -> str:
        """Time that a share of the rows stays below."""
        return milliseconds(float(np.quantile(self.seconds, share)))


def one_by_one(explainer: cp.Explainer, rows: Any, target: Any, **options: Any) -> Singles:
    """Explain rows one at a time, after a first call that does not count."""
    cut = rows.iloc if hasattr(rows, "iloc") else rows
    single = [cut[i : i + 1] for i in range(len(rows))]
    explainer.explain(single[0], target, **options)
    pairs = [timed(lambda row=row: explainer.explain(row, target, **options)) for row in single]
    return Singles([answers for answers, _ in pairs], np.array([time for _, time in pairs]))


def predict_times(model: Any, rows: Any) -> np.ndarray:
    """CPU seconds of the model's own `predict` of each row alone."""
    cut = rows.iloc if hasattr(rows, "iloc") else rows
    single = [cut[i : i + 1] for i in range(len(rows))]
    return np.array([timed(lambda row=row: model.predict(row))[1] for row in single])


def keep_memory() -> None:
    """Have freed memory stay with the process, where the allocator can be told so.

    A virtual machine hands it to its host some time later: touching new memory then costs some
    calls next to nothing, and others as much as all of their work.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(-4, 0)  # M_MMAP_MAX: none by mmap
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


def number(value: float, digits: int = 3) -> str:
    """Write a number as a table shows it: few digits, thousands apart."""
    if not np.isfinite(value):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.{digits}g}"


def milliseconds(seconds: float) -> str:
    """Write seconds as milliseconds."""
    return f"{number(1e3 * seconds)} ms"


def microseconds(seconds: float) -> str:
    """Write seconds as microseconds."""
    return f"{number(1e6 * seconds)} µs"


def spread(values: Iterable[float], digits: int = 3) -> str:
    """Write the median, and the least and the greatest in brackets."""
    quantiles = np.quantile(np.array(list(values), dtype=float), [0.0, 0.5, 1.0])
    least, middle, most = (number(value, digits) for value in quantiles)
    return f"{middle} ({least}–{most})"


def fraction(mask: Sequence[Any] | np.ndarray) -> str:
    """Write how many of a mask are true, as "3 of 4"."""
    return f"{int(np.sum(mask))} of {len(mask)}"
