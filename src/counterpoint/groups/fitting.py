"""Fits offsets along a path of λ, refits them without the penalty, and prunes them.

The *levels* of a feature are its distinct offsets; groups with the same are tied. The penalty asks
for few changes on average, whereas an explanation of k features is about the pair that changes
most. So offsets are pruned: two levels of a feature are merged at a time, those by which such pairs
change fewer features for the least loss, until no pair changes more than k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.groups.problem import Fusion, Objective, descend, moving
from counterpoint.numerics import BoolArray, FloatArray, IntArray

FEW_FEATURES = 64
"""Up to so many features are worked on all together: with so few, a working set saves nothing."""


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
    as in `Fit`; or after 20 000 steps, 150 if the task is not convex and large or dear.
    """
    D, steps, tolerance, L = start.copy(), 0, tol * task.scale, task.least_curvature
    # A task of many features that is not convex has many local minima, none worth many steps; and
    # by tangents each step is a linearised task of its own.
    is_small = task.shape[1] <= FEW_FEATURES and not task.by_tangents
    max_steps = 20_000 if task.is_convex or is_small else 150
    for _ in range(60):  # far more than it takes: the set may double each time
        working = _working_set(task, strength, D, tolerance)
        offsets, _, L, n_steps = descend(
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
        steps += n_steps
        stationary = task.residual(D, strength, L) <= 2.0 * tol
        closed = stationary and not task.gap(D, strength) > gap  # NaN if the task is not convex
        if closed or steps >= max_steps or task.by_tangents:
            break
        if stationary:  # and yet the gap is too wide
            tolerance /= 10.0
    return _measured(task, strength, D, L, steps)


def _working_set(task: Objective, strength: float, D: FloatArray, tolerance: float) -> IntArray:
    """Return the features that change, and at most as many (or 32) that gain most by joining."""
    if task.shape[1] <= FEW_FEATURES:
        return np.arange(task.shape[1])
    working = moving(D)
    excess = task.fusion.excess(-task.slope(D)[1], strength)
    gaining = np.setdiff1d(np.flatnonzero(excess > 0.1 * tolerance), working)
    joining = gaining[np.argsort(-excess[gaining], kind="stable")][: max(32, len(working))]
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
    """Fit at falling strengths; ``tol`` and ``gap`` are those of `fit`.

    One chain of fits, each from the one before, begins at no change and goes down. If the task is
    not convex, another begins at the means and goes up: two fits at each strength.
    """

    def chain(strengths: Iterable[float], start: FloatArray) -> Iterator[Fit]:
        for strength in strengths:
            fitted = fit(task, strength, start, tol=tol, gap=gap)
            start = fitted.D
            done(1)
            yield fitted

    down = list(chain(strengths, np.zeros(task.shape)))
    if task.is_convex:
        return [(fitted,) for fitted in down]
    # Of very many features those begin at the means that lower the loss most, to first order.
    gain = -(task.at_zero[1] * means).sum(axis=0)
    begin = np.zeros(task.shape)
    promising = np.argsort(-gain, kind="stable")[: 10 * FEW_FEATURES]
    begin[:, promising] = means[:, promising]
    up = list(chain(strengths[::-1], begin))
    return list(zip(down, up[::-1], strict=True))


def refit(
    task: Objective, pattern: FloatArray, strength: float, *, free: bool = False, steps: int = 200
) -> Fit:
    """Minimise the loss without penalty over offsets (l, d) with the ties of ``pattern``.

    If ``free``, only features that do not change stay tied. It starts from the pattern, and ends
    early, after at most ``steps`` steps: of many refits few matter.
    """
    columns = moving(pattern)
    start, D = pattern[:, columns], np.zeros_like(pattern)
    untied = np.broadcast_to(np.arange(float(len(D)))[:, None], start.shape)
    D[:, columns], residual, _, n_steps = descend(
        task.of(columns),
        0.0,
        start,
        task.least_curvature,
        tol=1e-4 * task.scale,
        max_iter=steps,
        rounding=task.rounding,
        pattern=untied if free else start,
    )
    loss = task.value(D)
    return Fit(D, strength, loss, loss, residual / task.scale, np.nan, n_steps)


def starred(task: Objective, D: FloatArray, reference: int, k: int) -> FloatArray:
    """Return offsets (l, d) in which each group keeps its k costliest changes from a reference.

    The others are undone: the group gets the offsets of the reference group.
    """
    columns, star = moving(D), D.copy()
    D, fusion = D[:, columns], task.fusion.of(columns)
    cost = np.abs(D - D[reference]) * fusion.weight
    order = np.argsort(-cost, axis=1, kind="stable")  # of equal costs the first counts
    undone = np.ones(D.shape, dtype=bool)
    np.put_along_axis(undone, order[:, :k], values=False, axis=1)
    # Of a monotone feature, groups between the reference and one that is tied to it are tied, too.
    monotone = fusion.monotone != 0
    for inwards in (undone[:reference], undone[reference + 1 :][::-1]):
        inwards[:, monotone] = np.logical_or.accumulate(inwards[:, monotone], axis=0)
    star[:, columns] = np.where(undone, D[reference], D)
    return star


def pair_counts(D: FloatArray) -> IntArray:
    """Return how many features each pair (l, l) changes."""
    return np.asarray((D[:, None] != D[None]).sum(axis=2))


def pruned(task: Objective, start: FloatArray, *, near: bool) -> Iterator[FloatArray]:
    """Yield offsets (l, d) in which no pair changes more than k features, for falling k.

    It is greedy: levels are merged for the least loss, and all offsets refitted, one merge after
    the other. With ``near``, only neighbouring levels are merged where that helps; either way
    leads to better explanations at times.
    """
    columns = moving(start)
    reduced, D = task.of(columns), start[:, columns]
    k = int(pair_counts(D).max(initial=0))
    while (k := min(k - 1, int(0.93 * k))) > 0:  # a large k falls by many features at once
        local = reduced.tangent(D) if reduced.by_tangents else reduced
        while ((counts := pair_counts(D)) > k).any():
            # A short refit: the explanations that are chosen are refitted later.
            D = refit(local, _merged(local, D, counts > k, near=near), 0.0, steps=30).D
        offsets = np.zeros_like(start)
        offsets[:, columns] = D
        yield offsets


def _merged(task: Objective, D: FloatArray, crowded: BoolArray, *, near: bool) -> FloatArray:
    """Return offsets (l, d) after the merge that relieves crowded pairs for the least loss."""
    features, columns, gains = _relieving(task.fusion, D, crowded, near=near)
    if not len(features):  # only levels with another one between them are of crowded pairs
        features, columns, gains = _relieving(task.fusion, D, crowded, near=False)
    # The rise of the loss for each pair relieved; where it falls, more relief is the better, too.
    rise = task.exchanged(D, features, columns) - task.value(D)
    best = int(np.argmin(np.where(rise > 0.0, rise / gains, rise * gains)))
    merged = D.copy()
    merged[:, features[best]] = columns[best]
    return merged


def _relieving(
    fusion: Fusion, D: FloatArray, crowded: BoolArray, *, near: bool
) -> tuple[IntArray, FloatArray, FloatArray]:
    """List the merges of two levels of a feature that relieve ``crowded`` pairs of groups (l, l).

    A crowded pair changes too many features; one fewer, once both groups have the same offset.
    Returns each merge's feature (q,), the offsets (q, l) of all groups in it afterwards, and how
    many crowded pairs (q,) it relieves. With ``near``, the two levels are neighbours.
    """
    # A level is an entry of a sorted column that is above the entry before it. Two positions in the
    # column, first and second, stand for a merge if both are levels; two neighbouring positions if
    # the second is, as the first then has the level before it.
    ascending = np.sort(D, axis=0)
    is_level = np.ones(D.shape, dtype=bool)
    is_level[1:] = ascending[1:] > ascending[:-1]
    if near:
        first, second = np.arange(len(D) - 1), np.arange(1, len(D))
        is_merge = is_level[second]
    else:
        first, second = np.triu_indices(len(D), 1)
        is_merge = is_level[first] & is_level[second]
    features, pair = np.nonzero(is_merge.T)
    low, high = (ascending[ends[pair], features][:, None] for ends in (first, second))
    offsets = D[:, features].T  # (q, l), and so is ``tied``: the groups that get one offset
    tied = np.where(
        fusion.monotone[features, None] != 0,
        (low <= offsets) & (offsets <= high),  # to stay monotone, with all groups between
        (offsets == low) | (offsets == high),
    )
    mean = (offsets * tied).sum(axis=1) / tied.sum(axis=1)
    differ = offsets[:, None] != offsets[:, :, None]
    relieved = tied[:, None] & tied[:, :, None] & differ & crowded
    gains = relieved.sum(axis=(1, 2)) / 2.0  # each pair is there in both orders
    relieving = np.flatnonzero(gains)
    merged = np.where(tied, mean[:, None], offsets)
    return features[relieving], merged[relieving], gains[relieving]
