"""Fits from sparse to dense: along the strengths of the penalty, and with other weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups.fitting import Fit, fit
from counterpoint.groups.matching import Task

__all__ = ["best", "densify", "follow", "patterns", "reweighted"]

FloatArray = NDArray[np.float64]

MANY = 640
"""Features of the means that fits begin with at most."""
CLOSE = 1.01
"""Strengths whose ratio is less are not separated further."""
SOFT = 0.1
"""Of the largest change: what a feature without one is taken to change when weights are set."""
FACTORS = (1.0, 1.0 / 3.0)
"""Strengths that are tried with new weights, in units of the old one."""


def follow(
    task: Task, strengths: Sequence[float], means: FloatArray, *, tol: float, gap: float
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
    """
    down = list(_chain(task, strengths, np.zeros(task.shape), tol, gap))
    if task.is_convex:
        return [(one,) for one in down]
    up = list(_chain(task, strengths[::-1], _promising(task, means), tol, gap))[::-1]
    return list(zip(down, up, strict=True))


def best(tried: Iterable[Fit]) -> Fit:
    """The fit of the least objective."""
    return min(tried, key=lambda one: one.objective)


def densify(
    task: Task, fits: Sequence[tuple[Fit, ...]], most: int, *, tol: float, gap: float
) -> list[tuple[Fit, ...]]:
    """More fits, between those whose numbers of changed features differ by more than one.

    Parameters
    ----------
    task
        What is minimised.
    fits
        As of `follow`.
    most
        How many strengths are added at most.
    tol, gap
        As in `fit`.
    """
    fits = list(fits)
    for _ in range(most):
        strengths = np.array([tried[0].strength for tried in fits])
        counts = np.array([_pair_counts(best(tried).D) for tried in fits])
        jumps = np.abs(np.diff(counts, axis=0)).max(axis=1, initial=0.0)
        jumps[strengths[:-1] < CLOSE * strengths[1:]] = 0.0
        at = int(jumps.argmax())
        if jumps[at] <= 1.0:
            break
        between = float(np.sqrt(strengths[at] * strengths[at + 1]))
        starts = [best(fits[i]).D for i in (at, at + 1)][: 1 if task.is_convex else 2]
        tried = tuple(fit(task, between, start, tol=tol, gap=gap) for start in starts)
        fits.insert(at + 1, tried)
    return fits


def reweighted(task: Task, fits: Sequence[Fit], *, tol: float, gap: float) -> Iterator[Fit]:
    """Sparser fits: a feature costs the less, the more it changed (Candès, Wakin & Boyd, 2008).

    Parameters
    ----------
    task
        What is minimised.
    fits
        Where weights and starts are taken from.
    tol, gap
        As in `fit`.
    """
    for one in fits:
        spread = np.ptp(one.D, axis=0)
        if not spread.any():
            continue
        share = spread + SOFT * spread.max()
        fusion = replace(
            task.fusion, weight=task.fusion.weight * share[spread > 0.0].mean() / share
        )
        for factor in FACTORS:
            again = replace(task, fusion=fusion)
            yield fit(again, factor * one.strength, one.D, tol=tol, gap=gap)


def patterns(D: FloatArray) -> bytes:
    """Which offsets are tied, and in which order they are, as something to compare."""
    moving = np.flatnonzero(np.ptp(D, axis=0) > 0.0)
    ranks = (D[:, None, moving] > D[None, :, moving]).sum(axis=1, dtype=np.int32)
    return moving.astype(np.int64).tobytes() + ranks.tobytes()


def _promising(task: Task, means: FloatArray) -> FloatArray:
    """The means of the features that would lower the loss most, by its gradient at zero."""
    gain = -(task.at_zero[1] * means).sum(axis=0)
    return np.where(np.argsort(np.argsort(-gain, kind="stable")) < MANY, means, 0.0)


def _pair_counts(D: FloatArray) -> tuple[float, float]:
    """How many features the pair changes that changes most, and pairs on average."""
    pairs = (D[:, None] != D[None]).sum(axis=2)[~np.eye(len(D), dtype=bool)]
    return float(pairs.max()), float(pairs.mean())


def _chain(
    task: Task, strengths: Iterable[float], start: FloatArray, tol: float, gap: float
) -> Iterator[Fit]:
    for strength in strengths:
        found = fit(task, strength, start, tol=tol, gap=gap)
        start = found.D
        yield found
