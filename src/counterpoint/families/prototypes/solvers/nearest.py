"""Find the nearest point within linear rows and bounds, for a squared cost, by DAQP.

A `Solver` would do the same, but to prepare one takes longer than this, and of thousands of cells
each is searched only once.
"""

from __future__ import annotations

import daqp
import numpy as np

from counterpoint.numerics import FloatArray
from counterpoint.problem.costs import SquaredEuclidean
from counterpoint.programs.conditions import Box, LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.solvers.base import translated
from counterpoint.solvers.daqp import TOLERANCES


def is_plain(program: Program) -> bool:
    """Return whether a program is a squared cost of every column within bounds, and no more."""
    plain = program.condition_types <= {SquaredEuclidean, Box}
    return plain and bool((program.encoded_cost.diagonal > 0.0).all())


def nearest_point(
    program: Program, rows: LinearBounds, case: Batch
) -> tuple[FloatArray, FloatArray] | None:
    """Return the cheapest point (1, d) that meets some rows, and their multipliers (1, m).

    None if DAQP finds none. Rows have upper limits alone, and the program is plain.
    """
    x, low, high = case.x[0], case.low[0], case.high[0]
    free, unit = low < high, 1.0 / np.sqrt(2.0 * program.encoded_cost.diagonal)
    start = np.where(free, x, low)
    # DAQP minimises ½ ‖v‖² over the free columns, with y = start + unit · length · v: the cost in
    # units of length². Its rows have length 1.
    matrix = (rows.matrix * unit)[:, free]
    norm = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not norm.all():
        return None
    matrix /= norm[:, None]
    high_of_rows = rows.limits(case.margin)[1][0] if case.margin.any() else rows.high
    limit = (high_of_rows - rows.matrix @ start) / norm
    below, above = ((end - x)[free] / unit[free] for end in (low, high))
    # DAQP's tolerances are absolute, so v is to be about 1: the answer is about as far away as the
    # row or the bound that x misses most.
    length = max(-limit.min(), below.max(initial=0.0), -above.min(initial=0.0))
    if not 0.0 < length < np.inf:
        return None
    k = len(below)
    upper = np.concatenate([above, limit]) / length
    lower = np.concatenate([below / length, np.full(len(limit), -np.inf)])
    sense = np.zeros(len(upper), dtype=np.int32)
    with translated("DAQP"):
        v, _, flag, info = daqp.solve(
            np.eye(k), np.zeros(k), matrix, upper, lower, sense, **TOLERANCES
        )
    if flag != 1:  # DAQP's number for an optimum
        return None
    point = np.array(start)
    point[free] += v * length * unit[free]
    multipliers = np.maximum(info["lam"][k:], 0.0) * length / norm
    return np.minimum(np.maximum(point, low), high)[None], multipliers[None]
