"""Compute with whole steps: the numbers x + k · step, and which of them lie between two ends.

Every number of a lattice is computed by `number`; all rooms return, price and place this number. A
quotient (end − x) / step only proposes k: it is rounded, so k may be off by 1, and an interval
would lose its last number or take in its neighbour's.
"""

from __future__ import annotations

import numpy as np

from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray

Numbers = FloatArray | float


def number(x: Numbers, count: Numbers, step: Numbers) -> FloatArray:
    """Return the number that is ``count`` steps from x."""
    return np.asarray(x + count * step)


def nearest(x: Numbers, y: Numbers, step: Numbers) -> FloatArray:
    """Return the number that is nearest to y among those whole steps from x."""
    return number(x, np.rint((y - x) / step), step)


def first(x: FloatArray, low: FloatArray, step: Numbers) -> FloatArray:
    """Return the least k with x + k · step >= low; infinite where ``low`` is."""
    with np.errstate(invalid="ignore", over="ignore"):
        count = np.ceil((low - x) / step)
        count = np.where(number(x, count - 1.0, step) >= low, count - 1.0, count)
        return np.where(number(x, count, step) < low, count + 1.0, count)


def last(x: FloatArray, high: FloatArray, step: Numbers) -> FloatArray:
    """Return the largest k with x + k · step <= high; infinite where ``high`` is."""
    with np.errstate(invalid="ignore", over="ignore"):
        count = np.floor((high - x) / step)
        count = np.where(number(x, count + 1.0, step) <= high, count + 1.0, count)
        return np.where(number(x, count, step) > high, count - 1.0, count)


def within(
    x: FloatArray, low: FloatArray, high: FloatArray, steps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least and largest numbers from ``low`` to ``high``, whole steps from x.

    Where a step is 0, they are ``low`` and ``high``. Where there is no such number, the least is
    above the largest.
    """
    whole, step = steps > 0.0, np.where(steps > 0.0, steps, 1.0)
    with np.errstate(over="ignore"):
        least = number(x, first(x, low, step), step)
        most = number(x, last(x, high, step), step)
    return np.where(whole, least, low), np.where(whole, most, high)


def is_held(x: FloatArray, ends: FloatArray, step: float, eps: float) -> BoolArray:
    """Return for each x (n,) whether a column of precision ``eps`` holds its lattice exactly.

    It does if x and the step are multiples of the distance between neighbouring numbers at the
    largest one in reach: the larger of the ``ends`` (n, 2), or x + step beyond infinite ones.
    ``eps`` is the distance from 1 to the next number.
    """
    finite = np.where(np.isfinite(ends), ends, 0.0)
    largest = np.maximum(np.abs(x) + step, np.abs(finite).max(axis=1))
    unit = eps * np.exp2(np.floor(np.log2(largest)))
    return np.asarray((x % unit == 0.0) & (step % unit == 0.0))


def within_bounds(
    x: FloatArray, low: FloatArray, high: FloatArray, steps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return `within` for bounds that a person states: numbers beyond them by rounding count too.

    With a bound of 1.8, x = 1.7 and steps of 0.1, the number 1.8 + 2e-16 is within.
    """
    return within(x, low - STEP_SLACK * steps, high + STEP_SLACK * steps, steps)
