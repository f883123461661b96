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

    possible: BoolArray  # (n, b, k) which there are
    encoded_cost: FloatArray  # (n, b, k)
    # (n, b) the one at which a column stays, or moves least; where changes are counted, and it
    # cannot stay, one that there is not
    factual: IntArray
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
        sentinel = np.full((*outside.shape, 1), np.inf)
        low, high = (
            np.concatenate([end, v, end], axis=2) for end, v in ((sentinel, low), (-sentinel, high))
        )
    possible = low <= high
    at = np.where(possible, np.clip(x, low, high), x)
    distance = program.encoded_cost.apart(bends.columns, *(np.moveaxis(v, 1, 2) for v in (at, x)))
    distance = np.moveaxis(distance, 1, 2)
    absolute, curvature = (
        v[bends.columns, None] for v in (encoded_cost.absolute, encoded_cost.quadratic)
    )
    paid, gain = absolute * distance + curvature * distance**2, gains(at)
    # not by what it costs: where ranks are equal, values sentinel x cost nothing either
    factual = np.where(possible, np.abs(at - x), np.inf).argmin(axis=2)
    if program.at_most is not None:
        last = np.where(x[..., 0] > cases.high[:, bends.columns], possible.shape[2] - 1, 0)
        factual = np.where(outside, last, factual)
    if gain.shape[1] == 1:
        order, possible, factual, low, high = _records(gain[:, 0], possible, factual, low, high)
        at, paid = (np.take_along_axis(values, order, axis=2) for values in (at, paid))
        gain = np.take_along_axis(gain, order[:, None], axis=3)
    return Options(possible, paid, factual, gain, np.stack([at, low, high]))


def _records(
    gain: FloatArray,
    possible: BoolArray,
    factual: IntArray,
    low: FloatArray,
    high: FloatArray,
) -> tuple[IntArray, BoolArray, IntArray, FloatArray, FloatArray]:
    """The options of columns that gain more than all on the way there; nothing else is worth it.

    (n, b, k') which of the k they are, in their order, and which of these there are; (n, b) where
    the column stays; least and largest values, up to the next ones that are useful.
    """
    k = gain.shape[2]
    every, stay = np.arange(k), factual[:, :, None]
    reachable = np.where(possible, gain, -np.inf)
    useful, none = every == stay, np.full((*factual.shape, 1), -np.inf)
    for way in (slice(None), slice(None, None, -1)):
        side = every >= stay if way.step is None else every <= stay
        best = np.maximum.accumulate(np.where(side, reachable, -np.inf)[..., way], axis=2)
        before = np.concatenate([none, best[..., :-1]], axis=2)[..., way]
        useful |= side & (every != stay) & possible & (reachable > before)
    place = np.where(useful, every, k)
    after = np.minimum.accumulate(place[..., ::-1], axis=2)[..., ::-1]
    after = np.concatenate([after[..., 1:], np.full((*factual.shape, 1), k)], axis=2)
    before_it = np.maximum.accumulate(np.where(useful, every, -1), axis=2)
    before_it = np.concatenate([np.full((*factual.shape, 1), -1), before_it[..., :-1]], axis=2)
    top = np.where(possible, high, -np.inf).max(axis=2, keepdims=True)
    bottom = np.where(possible, low, np.inf).min(axis=2, keepdims=True)
    up = np.nextafter(np.take_along_axis(low, np.minimum(after, k - 1), axis=2), -np.inf)
    down = np.nextafter(np.take_along_axis(high, np.maximum(before_it, 0), axis=2), np.inf)
    high = np.where(every >= stay, np.where(after < k, up, top), high)
    low = np.where(every <= stay, np.where(before_it >= 0, down, bottom), low)
    count = int(useful.sum(axis=2).max(initial=1))
    order = np.argsort(~useful, axis=2, kind="stable")[:, :, :count]
    mask, low, high = (
        np.take_along_axis(values, order, axis=2) for values in (useful & possible, low, high)
    )
    return order, mask, (useful & (every < stay)).sum(axis=2), low, high
