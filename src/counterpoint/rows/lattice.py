"""Whole steps: the numbers x + k · step, and which of them lie between two ends.

Every number of a lattice is computed by `number`, and it is that number which is returned, priced,
and placed into pieces, boxes and cells. A quotient (end − x) / step only proposes k: rounded, it
may name the number beside an end, and then whatever starts or stops there loses it or takes in one
that is not its own.
"""

from __future__ import annotations

import numpy as np

from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray

Numbers = FloatArray | float


def number(x: Numbers, count: Numbers, step: Numbers) -> FloatArray:
    """The number that is so many steps from x."""
    return np.asarray(x + count * step)


def nearest(x: Numbers, y: Numbers, step: Numbers) -> FloatArray:
    """The number of the lattice of x that is nearest to y."""
    return number(x, np.rint((y - x) / step), step)


def first(x: FloatArray, low: FloatArray, step: Numbers) -> FloatArray:
    """The least k whose number is at least ``low``; infinite where that is."""
    with np.errstate(invalid="ignore", over="ignore"):
        count = np.ceil((low - x) / step)
        count = np.where(number(x, count - 1.0, step) >= low, count - 1.0, count)
        return np.where(number(x, count, step) < low, count + 1.0, count)


def last(x: FloatArray, high: FloatArray, step: Numbers) -> FloatArray:
    """The largest k whose number is at most ``high``; infinite where that is."""
    with np.errstate(invalid="ignore", over="ignore"):
        count = np.floor((high - x) / step)
        count = np.where(number(x, count + 1.0, step) <= high, count + 1.0, count)
        return np.where(number(x, count, step) > high, count - 1.0, count)


def within(
    x: FloatArray, low: FloatArray, high: FloatArray, steps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The least and largest numbers from ``low`` to ``high``; where a step is 0, these themselves.

    Where there is none, the least is above the largest.
    """
    whole, step = steps > 0.0, np.where(steps > 0.0, steps, 1.0)
    with np.errstate(over="ignore"):
        least = number(x, first(x, low, step), step)
        most = number(x, last(x, high, step), step)
    return np.where(whole, least, low), np.where(whole, most, high)


def is_held(x: FloatArray, ends: FloatArray, step: float, eps: float) -> BoolArray:
    """Return whether a column in which 1 + ``eps`` follows 1 holds each number exactly, (n,).

    It does where x (n,) and the step are multiples of the distance between neighbours at the
    largest number, which is at most the larger of the ``ends`` (n, 2), if these are finite.
    """
    finite = np.where(np.isfinite(ends), ends, 0.0)
    largest = np.maximum(np.abs(x) + step, np.abs(finite).max(axis=1))
    unit = eps * np.exp2(np.floor(np.log2(largest)))
    return np.asarray((x % unit == 0.0) & (step % unit == 0.0))


def within_bounds(
    x: FloatArray, low: FloatArray, high: FloatArray, steps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same of what is asked for: rounding puts no number beside a bound that it is meant for.

    Of a bound of 1.8, x = 1.7 and steps of .1, the number 1.8 + 2e-16 is within.
    """
    return within(x, low - STEP_SLACK * steps, high + STEP_SLACK * steps, steps)
