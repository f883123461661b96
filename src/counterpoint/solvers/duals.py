"""Change multipliers of an interior-point method slightly, so that its noise spoils no bound.

Such a method stops at slopes that are off by about 1e-10 where the exact slope is 0, or a cost. In
a column without bounds a slope beyond the cost makes the bound −∞, unless all multipliers are
shrunk, which takes most of the bound if costs are small. Here the multipliers are changed very
little so that no slope is too steep. The program bounds and refutes with any multipliers, so that
nothing has to be proved of how these were computed.
"""

from __future__ import annotations

import numpy as np

from counterpoint.numerics import EPS, FloatArray
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch


def normals(program: Program) -> FloatArray:
    """Return the normal that each multiplier weighs, (m, d), of linear rows and couplings."""
    return np.vstack([c.normals for c in (program.affine, *program.couplings)])


def cost_limited(program: Program, case: Batch, multipliers: FloatArray) -> FloatArray:
    """Return multipliers (size,) whose slopes are within the absolute costs, if they prove more.

    Else the given ones.
    """
    encoded_cost = program.encoded_cost
    flat = program.domain.numeric & (encoded_cost.absolute > 0.0)
    if encoded_cost.quadratic.ndim == 2 or not flat.any():
        return multipliers
    weight = float(case.weights[0]) if LogLoss in program.condition_types else 1.0
    flat &= encoded_cost.quadratic == 0.0
    steepest = np.where(flat, weight * encoded_cost.absolute, np.inf)
    limited = _with_slopes_within(program, case, multipliers, steepest)
    if limited is multipliers:
        return multipliers
    before, after = (program.bound(case, v[None, :])[0] for v in (multipliers, limited))
    return limited if after > before else multipliers


def purified(program: Program, case: Batch, ray: FloatArray) -> FloatArray:
    """Return a ray of multipliers (size,) without noise, if that refutes the row; else the ray."""
    size = np.abs(ray) * _row_sizes(program)
    for share in (1e-7, 1e-5, 1e-3):  # of the largest: smaller multipliers may be noise
        pure = np.where(size > share * size.max(initial=0.0), ray, 0.0)
        pure = _with_slopes_within(program, case, pure, np.zeros(program.width))
        if program.refutes(case, pure[None, :])[0]:
            return pure
    return ray


def _row_sizes(program: Program) -> FloatArray:
    """Return the largest entry of each multiplier's normal, (m,), or of its condition's normals.

    The normal of a rival with the label's own score row is 0, and yet its multiplier may matter
    most: so the multipliers of a coupling share one size.
    """
    size = np.abs(normals(program)).max(axis=1, initial=0.0)
    start = program.affine.size
    for coupling in program.couplings:
        block = slice(start, start + coupling.size)
        size[block] = size[block].max(initial=0.0) or 1.0
        start += coupling.size
    return size


def _with_slopes_within(
    program: Program, case: Batch, multipliers: FloatArray, steepest: FloatArray
) -> FloatArray:
    """Return the nearest multipliers whose slopes are at most the ``steepest`` (d,) in size.

    Only the slopes of columns without a bound in the direction of descent matter. Distances are
    relative to each multiplier, so that those that are 0 stay 0. Return the same array if nothing
    is too steep.
    """
    weights, size = normals(program), np.abs(multipliers)
    unit = np.abs(weights).max(axis=0, initial=0.0)
    unit = 1.0 / np.where(unit > 0.0, unit, 1.0)
    rounding = 8.0 * EPS * (size @ np.abs(weights))  # what is left of a slope that cancels
    allowed = (1.0 - 4.0 * EPS) * steepest
    held = np.zeros(program.width, dtype=bool)
    for _ in range(6):  # each holds more columns; most need one
        normal = program.cut(multipliers[None, :], case.x).normal[0]
        too_steep = (normal < -steepest - rounding) & np.isinf(case.high[0])
        too_steep |= (normal > steepest + rounding) & np.isinf(case.low[0])
        if not too_steep.any():
            break
        held |= too_steep
        change = (np.clip(normal, -allowed, allowed) - normal)[held] * unit[held]
        rows = weights[:, held].T * unit[held, None] * size
        # The least relative change of multipliers that moves the slopes as far as they are too
        # steep. Equations that differ by less than the error of an interior point, 1e-10, count as
        # one: to satisfy both exactly would change the multipliers a lot, down to all 0.
        multipliers = multipliers + size * np.linalg.lstsq(rows, change, rcond=1e-10)[0]
    return multipliers
