"""Fits from sparse to dense, along the strengths of the penalty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups.fitting import Fit, fit
from counterpoint.groups.matching import Task

__all__ = ["best", "follow", "patterns"]

FloatArray = NDArray[np.float64]

MANY = 640
"""Features of the means that fits begin with at most."""


def follow(
    task: Task,
    strengths: Sequence[float],
    means: FloatArray,
    *,
    tol: float,
    gap: float,
    done: Callable[[int], None] = lambda _: None,
) -> list[tuple[Fit, ...]]:
    """Fits at falling strengths, each from the one before.

    A task that is not convex is followed twice, from zero down and from the means of the groups up,
    and has two fits at each strength.

    Parameters
    ----------
    task
        What is minimised.
    strengths
        λ, falling.
    means
        (l, d) offsets that are the differences of means.
    tol, gap
        As in `fit`.
    done
        Is told after each fit that there is one more.
    """

    def told(fits: Iterator[Fit]) -> Iterator[Fit]:
        for one in fits:
            done(1)
            yield one

    down = list(told(_chain(task, strengths, np.zeros(task.shape), tol, gap)))
    if task.is_convex:
        return [(one,) for one in down]
    up = list(told(_chain(task, strengths[::-1], _promising(task, means), tol, gap)))
    return list(zip(down, up[::-1], strict=True))


def best(tried: Iterable[Fit]) -> Fit:
    """The fit of the least objective."""
    return min(tried, key=lambda one: one.objective)


def patterns(D: FloatArray) -> bytes:
    """Which offsets are tied, and in which order they are, as something to compare."""
    moving = np.flatnonzero(np.ptp(D, axis=0) > 0.0)
    ranks = (D[:, None, moving] > D[None, :, moving]).sum(axis=1, dtype=np.int32)
    return moving.astype(np.int64).tobytes() + ranks.tobytes()


def _promising(task: Task, means: FloatArray) -> FloatArray:
    """The means of the features that would lower the loss most, by its gradient at zero."""
    gain = -(task.at_zero[1] * means).sum(axis=0)
    return np.where(np.argsort(np.argsort(-gain, kind="stable")) < MANY, means, 0.0)


def _chain(
    task: Task, strengths: Iterable[float], start: FloatArray, tol: float, gap: float
) -> Iterator[Fit]:
    for strength in strengths:
        found = fit(task, strength, start, tol=tol, gap=gap)
        start = found.D
        yield found
