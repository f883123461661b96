"""The nearest point within linear rows and bounds, for a squared cost: one small program in DAQP.

Preparing a solver costs more than this takes, and of thousands of cells each is searched once.
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

OPTIMAL = 1
"""DAQP's own number."""


def is_plain(program: Program) -> bool:
    """Return whether the program is a squared cost of every column within bounds, and no more."""
    plain = program.condition_types <= {SquaredEuclidean, Box}
    return plain and bool((program.encoded_cost.diagonal > 0.0).all())


def nearest_point(
    program: Program, rows: LinearBounds, case: Batch
) -> tuple[FloatArray, FloatArray] | None:
    """Return the (1, d) cheapest point that meets some rows, and their (1, m) multipliers.

    None if DAQP finds none. Rows have upper limits alone, and the program is plain.
    """
    x, low, high = case.x[0], case.low[0], case.high[0]
    free, unit = low < high, 1.0 / np.sqrt(2.0 * program.encoded_cost.diagonal)
    start = np.where(free, x, low)
    matrix = (rows.matrix * unit)[:, free]
    size = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not size.all():
        return None
    matrix /= size[:, None]
    most = rows.limits(case.margin)[1][0] if case.margin.any() else rows.high
    limit = (most - rows.matrix @ start) / size
    below, above = ((end - x)[free] / unit[free] for end in (low, high))
    # The answer is about as far away as what is missed, so that it is about 1 in DAQP.
    length = max(-limit.min(), below.max(initial=0.0), -above.min(initial=0.0))
    if not 0.0 < length < np.inf:
        return None
    k = len(below)
    ends = np.concatenate([above, limit]) / length
    starts = np.concatenate([below / length, np.full(len(limit), -np.inf)])
    sense = np.zeros(len(ends), dtype=np.int32)
    with translated("DAQP"):
        change, _, flag, info = daqp.solve(
            np.eye(k), np.zeros(k), matrix, ends, starts, sense, **TOLERANCES
        )
    if flag != OPTIMAL:
        return None
    point = np.array(start)
    point[free] += change * length * unit[free]
    weights = np.maximum(info["lam"][k:], 0.0) * length / size
    return np.minimum(np.maximum(point, low), high)[None], weights[None]
