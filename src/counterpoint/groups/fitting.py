"""Fits along a path of λ on a working set of features, refits without penalty, pruning.

The penalty asks for few changes on average, whereas an explanation of k features is about the pair
that changes most. So offsets are pruned: made equal two levels at a time, where that lowers the
numbers of features of such pairs for the least loss, until no pair changes more than k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.groups.problem import Fusion, Objective, descend, moving
from counterpoint.numerics import BoolArray, FloatArray, IntArray

FEW = 64
"""Features that are all worked on together: with so few, a working set saves nothing."""


@final
@dataclass(frozen=True, eq=False)
class Fit:
    """Offsets at one strength λ of the penalty, with what proves them."""

    D: FloatArray  # (l, d) offsets
    strength: float  # λ
    objective: float  # loss plus penalty
    loss: float
    residual: float  # of the proximal gradient, relative to the gradient at zero: 0 if stationary
    gap: float  # to a lower bound, relative to the loss at zero; NaN if the task is not convex
    iterations: int


def fit(task: Objective, strength: float, start: FloatArray, *, tol: float, gap: float) -> Fit:
    """Minimise loss and penalty from a start, by descents on a working set of features that grows.

    Ends where the residual of all features is at most 2 ``tol`` and the gap at most ``gap``, both
    as in `Fit`.
    """
    D, steps, tolerance, L = start.copy(), 0, tol * task.scale, task.least_curvature
    # A task of many features that is not convex has many local minima, none worth many steps; and
    # by tangents each step is a linearised task of its own.
    few = task.shape[1] <= FEW and not task.by_tangents
    max_steps = 20_000 if task.is_convex or few else 150
    for _ in range(60):  # far more than it takes: the set may double each time
        working = _working(task, strength, D, tolerance)
        offsets, _, L, taken = descend(
            task.of(working),
            strength,
            D[:, working],
            L,
            tol=tolerance,
            max_iter=max_steps - steps,
            rounding=task.rounding,
        )
        D = np.zeros_like(D)
        D[:, working] = offsets
        steps += taken
        stationary = task.residual(D, strength, L) <= 2.0 * tol
        closed = stationary and not task.gap(D, strength) > gap  # a NaN if not convex
        if closed or steps >= max_steps or task.by_tangents:
            break
        tolerance = tolerance / 10.0 if stationary else tolerance  # the gap is still too wide
    return _measured(task, strength, D, L, steps)


def _working(task: Objective, strength: float, D: FloatArray, least: float) -> IntArray:
    """Return the features that change, and as many (or 32) that would gain most by it."""
    if task.shape[1] <= FEW:
        return np.arange(task.shape[1])
    working = moving(D)
    excess = task.fusion.excess(-task.slope(D)[1], strength)
    asking = np.setdiff1d(np.flatnonzero(excess > 0.1 * least), working)
    joining = asking[np.argsort(-excess[asking], kind="stable")][: max(32, len(working))]
    return np.union1d(working, joining)


def _measured(task: Objective, strength: float, D: FloatArray, L: float, steps: int) -> Fit:
    loss, residual = task.value(D), task.residual(D, strength, L)
    objective = loss + strength * task.fusion.value(D)
    return Fit(D, strength, objective, loss, residual, task.gap(D, strength), steps)


def at_zero(task: Objective, strength: float) -> Fit:
    """Return the fit at the critical strength and above it: nothing changes."""
    return _measured(task, strength, np.zeros(task.shape), task.least_curvature, 0)


def follow(
    task: Objective,
    strengths: Sequence[float],
    means: FloatArray,
    *,
    tol: float,
    gap: float,
    done: Callable[[int], None] = lambda _: None,
) -> list[tuple[Fit, ...]]:
    """Fit at falling strengths, each from the last; if not convex, also from the means up."""

    def chain(strengths: Iterable[float], start: FloatArray) -> Iterator[Fit]:
        for strength in strengths:
            fitted = fit(task, strength, start, tol=tol, gap=gap)
            start = fitted.D
            done(1)
            yield fitted

    down = list(chain(strengths, np.zeros(task.shape)))
    if task.is_convex:
        return [(fitted,) for fitted in down]
    gain = -(task.at_zero[1] * means).sum(axis=0)  # the features that would lower the loss most
    promising = np.argsort(np.argsort(-gain, kind="stable")) < 10 * FEW
    up = list(chain(strengths[::-1], np.where(promising, means, 0.0)))
    return list(zip(down, up[::-1], strict=True))


def refit(
    task: Objective, pattern: FloatArray, strength: float, *, free: bool = False, steps: int = 200
) -> Fit:
    """Minimise the loss without penalty over offsets (l, d) with the ties of ``pattern``.

    If ``free``, only features that do not change stay tied. It starts from the pattern, and ends
    early: of many refits few matter.
    """
    columns = moving(pattern)
    start, D = pattern[:, columns], np.zeros_like(pattern)
    distinct = np.broadcast_to(np.arange(float(len(D)))[:, None], start.shape)
    D[:, columns], residual, _, iterations = descend(
        task.of(columns),
        0.0,
        start,
        task.least_curvature,
        tol=1e-4 * task.scale,
        max_iter=steps,
        rounding=task.rounding,
        pattern=distinct if free else start,
    )
    loss = task.value(D)
    return Fit(D, strength, loss, loss, residual / task.scale, np.nan, iterations)


def starred(task: Objective, D: FloatArray, reference: int, k: int) -> FloatArray:
    """Keep the k costliest changes of each group from a reference group, in offsets (l, d)."""
    columns, star = moving(D), D.copy()
    D, fusion = D[:, columns], task.fusion.of(columns)
    cost = np.abs(D - D[reference]) * fusion.weight
    order = np.argsort(-cost, axis=-1, kind="stable")  # of equal costs the first counts
    tied, ordered = np.argsort(order, axis=-1, kind="stable") >= k, fusion.monotone != 0
    for block in (tied[reference + 1 :][::-1], tied[:reference]):
        block[:, ordered] = np.logical_or.accumulate(block[:, ordered], axis=0)
    star[:, columns] = np.where(tied, D[reference], D)
    return star


def pair_counts(D: FloatArray) -> IntArray:
    """Return how many features each pair (l, l) changes."""
    return np.asarray((D[:, None] != D[None]).sum(axis=2))


def pruned(task: Objective, start: FloatArray, *, near: bool) -> Iterator[FloatArray]:
    """Yield offsets (l, d) in which no pair changes more than k features, for falling k."""
    # Greedy: the merge of least loss for each pair relieved, then a refit. With ``near``, only of
    # levels next to each other, where there are such: either way is better at times.
    columns = moving(start)
    reduced, D = task.of(columns), start[:, columns]
    k = int(pair_counts(D).max(initial=0))
    while (k := min(k - 1, int(0.93 * k))) > 0:  # a large k falls by many features at once
        about = reduced.tangent(D) if reduced.by_tangents else reduced
        while ((counts := pair_counts(D)) > k).any():
            # A short refit: the explanations that are chosen are refitted later.
            D = refit(about, _merged(about, D, counts > k, near=near), 0.0, steps=30).D
        offsets = np.zeros_like(start)
        offsets[:, columns] = D
        yield offsets


def _merged(task: Objective, D: FloatArray, crowded: BoolArray, *, near: bool) -> FloatArray:
    """Merge the two levels that relieve crowded pairs for the least loss."""
    features, columns, gains = _relieving(task.fusion, D, crowded, near=near)
    if not len(features):  # only levels with another one between them are of crowded pairs
        features, columns, gains = _relieving(task.fusion, D, crowded, near=False)
    rise = task.exchanged(D, features, columns) - task.value(D)
    least = int(np.argmin(np.where(rise > 0.0, rise / gains, rise * gains)))
    merged = D.copy()
    merged[:, features[least]] = columns[least]
    return merged


def _relieving(
    fusion: Fusion, D: FloatArray, crowded: BoolArray, *, near: bool
) -> tuple[IntArray, FloatArray, FloatArray]:
    """List the merges of two levels of a feature that relieve a crowded pair of groups.

    A crowded pair changes too many features; one fewer, once both groups have the same offset.
    Returns each merge's feature (q,), its offsets (q, l) afterwards, and how many crowded pairs
    (q,) it relieves.
    """
    ascending = np.sort(D, axis=0)
    is_new = np.concatenate([np.ones((1, D.shape[1]), dtype=bool), ascending[1:] > ascending[:-1]])
    if near:  # neighbouring levels
        first, second = np.arange(len(D) - 1), np.arange(1, len(D))
        distinct = is_new[second]
    else:  # any two levels
        first, second = np.triu_indices(len(D), 1)
        distinct = is_new[first] & is_new[second]
    features, k = np.nonzero(distinct.T)
    low, high = ascending[first[k], features][:, None], ascending[second[k], features][:, None]
    column, monotone = D[:, features].T, fusion.monotone[features, None]
    between = (low <= column) & (column <= high)  # to stay monotone, these are merged as well
    merged = np.where(monotone != 0, between, (column == low) | (column == high))
    level = (column * merged).sum(axis=1) / merged.sum(axis=1)
    ties = merged[:, None] & merged[:, :, None] & (column[:, None] != column[:, :, None])
    gains = (ties & crowded).sum(axis=(1, 2)) / 2.0
    relieving = np.flatnonzero(gains)
    offsets = np.where(merged, level[:, None], column)
    return features[relieving], offsets[relieving], gains[relieving]
