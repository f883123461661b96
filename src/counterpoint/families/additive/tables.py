"""Columns with curves of constant pieces, as tables: of each piece the nearest value counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np

from counterpoint.families.additive.pieces import Bends
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases

__all__ = ["Options", "options_of"]


@final
class Options(NamedTuple):
    """The options of b columns of n rows."""

    left: BoolArray  # (n, b, k) which there are
    encoded_cost: FloatArray  # (n, b, k)
    # (n, b) the one at which a column stays, or moves least; where changes are counted, and it
    # cannot stay, one that there is not
    here: IntArray
    gain: FloatArray  # (n, s, b, k) what they add to demands
    values: FloatArray  # (3, n, b, k) what they stand for; the least and largest values nearby


def options_of(
    program: Program, bends: Bends, cases: Cases, gains: Callable[[FloatArray], FloatArray]
) -> Options:
    """The options of columns; ``gains`` says what (n, b, k) values add, (n, s, b, k)."""
    x, encoded_cost = cases.x[:, bends.columns, None], program.encoded_cost
    low, high = bends.reachable(cases, program.steps)
    outside = (x[..., 0] < cases.low[:, bends.columns]) | (x[..., 0] > cases.high[:, bends.columns])
    if program.at_most is not None and outside.any():  # what cannot stay counts as changed
        beside = np.full((*outside.shape, 1), np.inf)
        low, high = (
            np.concatenate([end, v, end], axis=2) for end, v in ((beside, low), (-beside, high))
        )
    left = low <= high
    at = np.where(left, np.clip(x, low, high), x)
    far = program.encoded_cost.apart(bends.columns, *(np.moveaxis(v, 1, 2) for v in (at, x)))
    away = np.moveaxis(far, 1, 2)
    absolute, curvature = (
        v[bends.columns, None] for v in (encoded_cost.absolute, encoded_cost.quadratic)
    )
    paid, gain = absolute * away + curvature * away**2, gains(at)
    # not by what it costs: where ranks are equal, values beside x cost nothing either
    here = np.where(left, np.abs(at - x), np.inf).argmin(axis=2)
    if program.at_most is not None:
        last = np.where(x[..., 0] > cases.high[:, bends.columns], left.shape[2] - 1, 0)
        here = np.where(outside, last, here)
    if gain.shape[1] == 1:
        order, left, here, low, high = _records(gain[:, 0], left, here, low, high)
        at, paid = (np.take_along_axis(part, order, axis=2) for part in (at, paid))
        gain = np.take_along_axis(gain, order[:, None], axis=3)
    return Options(left, paid, here, gain, np.stack([at, low, high]))


def _records(
    gain: FloatArray,
    left: BoolArray,
    already_satisfied: IntArray,
    low: FloatArray,
    high: FloatArray,
) -> tuple[IntArray, BoolArray, IntArray, FloatArray, FloatArray]:
    """The options of columns that gain more than all on the way there; nothing else is worth it.

    (n, b, k') which of the k they are, in their order, and which of these there are; (n, b) where
    the column stays; least and largest values, up to the next ones that are kept.
    """
    k = gain.shape[2]
    every, here = np.arange(k), already_satisfied[:, :, None]
    own = np.where(left, gain, -np.inf)
    kept, none = every == here, np.full((*already_satisfied.shape, 1), -np.inf)
    for way in (slice(None), slice(None, None, -1)):
        side = every >= here if way.step is None else every <= here
        best = np.maximum.accumulate(np.where(side, own, -np.inf)[..., way], axis=2)
        before = np.concatenate([none, best[..., :-1]], axis=2)[..., way]
        kept |= side & (every != here) & left & (own > before)
    place = np.where(kept, every, k)
    after = np.minimum.accumulate(place[..., ::-1], axis=2)[..., ::-1]
    after = np.concatenate([after[..., 1:], np.full((*already_satisfied.shape, 1), k)], axis=2)
    before_it = np.maximum.accumulate(np.where(kept, every, -1), axis=2)
    before_it = np.concatenate(
        [np.full((*already_satisfied.shape, 1), -1), before_it[..., :-1]], axis=2
    )
    top = np.where(left, high, -np.inf).max(axis=2, keepdims=True)
    bottom = np.where(left, low, np.inf).min(axis=2, keepdims=True)
    up = np.nextafter(np.take_along_axis(low, np.minimum(after, k - 1), axis=2), -np.inf)
    down = np.nextafter(np.take_along_axis(high, np.maximum(before_it, 0), axis=2), np.inf)
    high = np.where(every >= here, np.where(after < k, up, top), high)
    low = np.where(every <= here, np.where(before_it >= 0, down, bottom), low)
    count = int(kept.sum(axis=2).max(initial=1))
    order = np.argsort(~kept, axis=2, kind="stable")[:, :, :count]
    some, low, high = (np.take_along_axis(part, order, axis=2) for part in (kept & left, low, high))
    return order, some, (kept & (every < here)).sum(axis=2), low, high
