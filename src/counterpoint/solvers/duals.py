"""Rays without the noise of an interior point.

An interior-point method stops at slopes of about 1e-10 where the exact slope is 0, which refutes
nothing if the column has no bounds. Here the multipliers are changed very little so that there is
no slope. The program refutes with any multipliers, so nothing has to be proved of how these were
computed.
"""

from __future__ import annotations

import numpy as np

from counterpoint.numerics import EPS, FloatArray
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch


def normals(program: Program) -> FloatArray:
    """(m, d) the normal that each multiplier of what is convex weighs."""
    return np.vstack([c.normals for c in (program.affine, *program.couplings)])


def purified(program: Program, case: Batch, ray: FloatArray) -> FloatArray:
    """Return a ray (size,) without its noise, if that refutes the row; else the ray as it is."""
    size = np.abs(ray) * _row_sizes(program)
    for faint in (1e-7, 1e-5, 1e-3):  # so small beside the largest, they may be noise
        pure = np.where(size > faint * size.max(initial=0.0), ray, 0.0)
        pure = _without_slopes(program, case, pure)
        if program.refutes(case, pure[None, :])[0]:
            return pure
    return ray


def _row_sizes(program: Program) -> FloatArray:
    """(size,) the largest entry of what each multiplier weighs; beyond rows, of its condition.

    A rival with the label's own score row weighs nothing by itself, and yet it may count most.
    """
    size = np.abs(normals(program)).max(axis=1, initial=0.0)
    start = program.affine.size
    for coupling in program.couplings:
        block = slice(start, start + coupling.size)
        size[block] = size[block].max(initial=0.0) or 1.0
        start += coupling.size
    return size


def _without_slopes(program: Program, case: Batch, multipliers: FloatArray) -> FloatArray:
    """Return the nearest multipliers that have no slope in columns without a bound to descend to.

    Distances are relative to each multiplier, and what is 0 stays 0.
    """
    weights, size = normals(program), np.abs(multipliers)
    unit = np.abs(weights).max(axis=0, initial=0.0)
    unit = 1.0 / np.where(unit > 0.0, unit, 1.0)
    rounding = 8.0 * EPS * (size @ np.abs(weights))  # what is left of a slope that cancels
    held = np.zeros(program.width, dtype=bool)
    for _ in range(6):  # each holds more columns; most need one
        normal = program.cut(multipliers[None, :], case.x).normal[0]
        too_steep = (normal < -rounding) & np.isinf(case.high[0])
        too_steep |= (normal > rounding) & np.isinf(case.low[0])
        if not too_steep.any():
            break
        held |= too_steep
        rows = weights[:, held].T * unit[held, None] * size
        # Equations that differ by less than the error of an interior point, 1e-10, count as one:
        # to satisfy both exactly would change the multipliers a lot, down to all 0.
        change = np.linalg.lstsq(rows, -normal[held] * unit[held], rcond=1e-10)[0]
        multipliers = multipliers + size * change
    return multipliers
