"""Columns with curves of which few values count, as tables of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np

from counterpoint.additive.pieces import Bends
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray

__all__ = ["Options", "options_of"]

MOST = 4096
"""How many steps of a column with a curve are looked at, half of them up and half down."""


@final
class Options(NamedTuple):
    """The options of b columns of n rows."""

    left: BoolArray  # (n, b, k) which there are
    price: FloatArray  # (n, b, k)
    here: IntArray  # (n, b) the one at which a column stays, or moves least
    gain: FloatArray  # (n, s, b, k) what they add to demands
    values: FloatArray  # (3, n, b, k) what they stand for; the least and largest values nearby


def options_of(
    program: Program, bends: Bends, cases: Cases, gains: Callable[[FloatArray], FloatArray]
) -> Options:
    """The options of columns; ``gains`` says what (n, b, k) values add, (n, s, b, k)."""
    x, price = cases.x[:, bends.columns, None], program.price
    value, low, high = _values(bends, cases, program.steps)
    left = low <= high
    at = np.where(np.isnan(value), np.clip(x, low, high), value)
    at = np.where(left, at, x)
    away = np.abs(at - x)
    absolute, curvature = (v[bends.columns, None] for v in (price.absolute, price.quadratic))
    paid, gain = absolute * away + curvature * away**2, gains(at)
    here = np.where(left, away, np.inf).argmin(axis=2)
    if gain.shape[1] == 1:
        order, left, here, low, high = _records(gain[:, 0], left, here, low, high)
        at, paid = (np.take_along_axis(part, order, axis=2) for part in (at, paid))
        gain = np.take_along_axis(gain, order[:, None], axis=3)
    return Options(left, paid, here, gain, np.stack([at, low, high]))


def _records(
    gain: FloatArray, left: BoolArray, stays: IntArray, low: FloatArray, high: FloatArray
) -> tuple[IntArray, BoolArray, IntArray, FloatArray, FloatArray]:
    """The options of columns that gain more than all on the way there; nothing else is worth it.

    (n, b, k') which of the k they are, in their order, and which of these there are; (n, b) where
    the column stays; least and largest values, up to the next ones that are kept.
    """
    k = gain.shape[2]
    every, here = np.arange(k), stays[:, :, None]
    own = np.where(left, gain, -np.inf)
    kept, none = every == here, np.full((*stays.shape, 1), -np.inf)
    for way in (slice(None), slice(None, None, -1)):
        side = every >= here if way.step is None else every <= here
        best = np.maximum.accumulate(np.where(side, own, -np.inf)[..., way], axis=2)
        before = np.concatenate([none, best[..., :-1]], axis=2)[..., way]
        kept |= side & (every != here) & left & (own > before)
    place = np.where(kept, every, k)
    after = np.minimum.accumulate(place[..., ::-1], axis=2)[..., ::-1]
    after = np.concatenate([after[..., 1:], np.full((*stays.shape, 1), k)], axis=2)
    before_it = np.maximum.accumulate(np.where(kept, every, -1), axis=2)
    before_it = np.concatenate([np.full((*stays.shape, 1), -1), before_it[..., :-1]], axis=2)
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


def _values(bends: Bends, cases: Cases, steps: FloatArray) -> FloatArray:
    """(3, n, b, k) of columns with curves: NaN or the value of each option, least and largest.

    An option is a piece, where the nearest value is best; or a value on its steps.
    """
    low, high = bends.reachable(cases, steps)
    values = np.stack([np.full(low.shape, np.nan), low, high])
    bent = ~bends.flat  # (b,)
    if not bent.any():
        return values
    x = cases.x[:, bends.columns]
    unit = np.where(steps > 0.0, steps, 1.0)[bends.columns]
    with np.errstate(invalid="ignore"):
        first = np.ceil((cases.low[:, bends.columns] - x) / unit - STEP_SLACK)
        last = np.floor((cases.high[:, bends.columns] - x) / unit + STEP_SLACK)
    first, last = np.maximum(first, -MOST / 2), np.minimum(last, MOST / 2)
    most = int(np.where(bent, last - first + 1.0, 0.0).max(initial=1.0))
    out = np.stack([np.full((*x.shape, max(most, low.shape[2])), v) for v in (np.nan, 1.0, 0.0)])
    out[..., : low.shape[2]] = np.where(bent[:, None], out[..., : low.shape[2]], values)
    number = first[:, :, None] + np.arange(most)
    at = x[:, :, None] + number * unit[:, None]
    here = bent[:, None] & (number <= last[:, :, None])
    for part, missing in zip(out, (np.nan, 1.0, 0.0), strict=True):
        part[..., :most] = np.where(here, at, np.where(bent[:, None], missing, part[..., :most]))
    return out
