"""What an answer of a linear score has to lead by, however it was chosen, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.families.uncertain.chance import (
    Reach,
    SafetyMargin,
    corners,
    least_lead,
)
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import EncodedCost, Manhattan
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases
from counterpoint.search.search import SafetyMargins

__all__ = ["LinearLeads", "linear_leads", "share_answered"]


@final
@dataclass(frozen=True, eq=False)
class LinearLeads(SafetyMargins):
    """The `SafetyMargin` of each row."""

    safety_margins: tuple[SafetyMargin, ...]

    def take(self, rows: IntArray | BoolArray) -> LinearLeads:
        indices = np.arange(len(self.safety_margins))[rows]
        return LinearLeads(tuple(self.safety_margins[i] for i in indices))

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        rows = zip(self.safety_margins, y[:, None], cost[:, None], strict=True)
        return np.array([float(row.required(*point)[0]) for row, *point in rows])


def linear_leads(
    moves: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    cases: Cases,
    safety_margin: tuple[FloatArray, float],
) -> LinearLeads:
    """The leads for rows of a program, and a lead (slope (d,), constant) that is to be kept.

    Each of N draws of the noise ``moves`` the score at y by slope · y + constant, (N, d) and (N,).

    Raises
    ------
    InvalidInput
        If there are too few draws for the probability.
    """
    slope, constant = moves
    norm = encoded_cost = program.encoded_cost
    if encoded_cost.kind is not Manhattan:  # categories count a half of δ² for |δ|
        full = encoded_cost.quadratic.ndim == 2
        square = encoded_cost.quadratic + (
            np.diag(encoded_cost.absolute) if full else encoded_cost.absolute
        )
        norm = EncodedCost(np.zeros(program.width), square)
    margins: list[SafetyMargin] = []
    size = max(1, (1 << 16) // len(slope))  # a number for each draw in the cache
    for first in range(0, len(cases), size):
        block = cases.take(slice(first, first + size))
        reach = Reach(program, block)
        room, most = reach.room(safety_margin[0])
        level = (block.x @ safety_margin[0] + safety_margin[1])[:, None] + room
        start, rate = corners(block.x @ slope.T + constant, reach.of(slope), probability)
        least = least_lead(start, rate, level, most)
        rows = zip(block.x, start, rate, least.tolist(), strict=True)
        margins += [SafetyMargin(x, a, n, *safety_margin, c, norm) for x, a, n, c in rows]
    return LinearLeads(tuple(margins))


def share_answered(
    moves: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    case: Cases,
    safety_margin: tuple[FloatArray, float],
) -> float:
    """How often a release leaves room for an answer to one row, about: from public numbers alone.

    True weights are not known; those that are known, shrunk by as much as noise is expected to have
    lengthened them, stand for them, and are released with 100 draws of the noise.
    """
    slope, constant = moves
    reach, x = Reach(program, case), case.x
    far = reach.of(slope)
    start, rate = corners(x @ slope.T + constant, far, probability)
    known = float(reach.of(safety_margin[0][None])[0, 0]) ** 2
    size = np.sqrt(max(1.0 - float((far**2).mean()) / known, 0.0)) if known > 0.0 else 0.0
    given = 0
    for g, h in zip(slope[:100], constant[:100], strict=True):
        v, c = size * safety_margin[0] + g, size * safety_margin[1] + h
        room, most = reach.room(v)
        least = least_lead(start, rate, (x @ v + c)[:, None] + room, most)
        given += bool(np.isfinite(least[0]))
    return given / len(slope[:100])
