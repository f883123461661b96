"""Duals without the noise of an interior point.

An interior point stops at slopes of about 1e-10 where 0, or exactly a price, was meant. A column
without bounds could run away with what is over, so a bound has to shrink all multipliers until
nothing is: under small prices that is most of what is lost. Here the multipliers are moved, by
hardly anything, to where no slope is too steep. The program bounds and refutes with any, so nothing
has to be proved of how they were found.
"""

from __future__ import annotations

import numpy as np

from counterpoint.numerics import EPS, FloatArray
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases

__all__ = ["priced", "purified"]


def priced(program: Program, case: Cases, multipliers: FloatArray) -> FloatArray:
    """(size,) the nearest multipliers whose slopes are within the prices, if they bound more."""
    encoded_cost = program.encoded_cost
    flat = program.numeric & (encoded_cost.absolute > 0.0)
    if encoded_cost.quadratic.ndim == 2 or not flat.any():
        return multipliers
    weight = float(case.weights[0]) if program.objective_terms else 1.0
    flat &= encoded_cost.quadratic == 0.0
    most = np.where(flat, weight * encoded_cost.absolute, np.inf)
    moved = _nearest(program, case, multipliers, most)
    if moved is multipliers:
        return multipliers
    before, after = (program.bound(case, v[None, :])[0] for v in (multipliers, moved))
    return moved if after > before else multipliers


def purified(program: Program, case: Cases, ray: FloatArray) -> FloatArray:
    """(size,) what nearly refutes a row, without its noise as soon as that does; else as it is."""
    size = np.abs(ray) * _row_sizes(program)
    for faint in (1e-7, 1e-5, 1e-3):  # so small beside the largest, they may be noise
        pure = np.where(size > faint * size.max(initial=0.0), ray, 0.0)
        pure = _nearest(program, case, pure, np.zeros(program.width))
        if program.refutes(case, pure[None, :])[0]:
            return pure
    return ray


def _row_sizes(program: Program) -> FloatArray:
    """(size,) the largest entry of what each multiplier weighs; beyond rows, of its condition.

    A rival with the label's own score row weighs nothing by itself, and yet it may count most.
    """
    size = np.abs(program.normals).max(axis=1, initial=0.0)
    start = program.affine.size
    for coupling in program.nonlinear_and_objective_terms:
        block = slice(start, start + coupling.size)
        size[block] = size[block].max(initial=0.0) or 1.0
        start += coupling.size
    return size


def _nearest(
    program: Program, case: Cases, multipliers: FloatArray, most: FloatArray
) -> FloatArray:
    """The nearest multipliers, relative to each, with no open column's slope above ``most``."""
    normals, size = program.normals, np.abs(multipliers)
    unit = np.abs(normals).max(axis=0, initial=0.0)
    unit = 1.0 / np.where(unit > 0.0, unit, 1.0)
    rounding = 8.0 * EPS * (size @ np.abs(normals))  # what is left of a slope that cancels
    bearable = (1.0 - 4.0 * EPS) * most
    held = np.zeros(program.width, dtype=bool)
    for _ in range(6):  # each holds more columns; most need one
        normal = program.cut(multipliers[None, :]).normal[0]
        escaping = (normal < -most - rounding) & np.isinf(case.high[0])
        escaping |= (normal > most + rounding) & np.isinf(case.low[0])
        if not escaping.any():
            break
        held |= escaping
        away = (np.clip(normal, -bearable, bearable) - normal)[held] * unit[held]
        rows = normals[:, held].T * unit[held, None] * size
        # Slopes that differ by less than an interior point leaves, 1e-10, are dependent: the way to
        # make them 0 is not to make all 0.
        multipliers = multipliers + size * np.linalg.lstsq(rows, away, rcond=1e-10)[0]
    return multipliers
