"""Wide programs at a Manhattan cost: at the optimum only a few columns move.

So the program is solved over a few columns, all others held where they are. Multipliers of that are
multipliers of the whole: where their slope on a column that is held exceeds its cost, it pays to
move it, and it joins them (column generation). If there is none, the optimum is that of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.problem.costs import EncodedCost, Manhattan
from counterpoint.programs.conditions import Box, LinearBounds
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch, Condition, Region
from counterpoint.solvers.base import Outcome
from counterpoint.solvers.duals import normals

Answer = tuple[Outcome, FloatArray, FloatArray]
"""Of one row: the point, NaN where there is none, and the multipliers."""

FEW = 4
"""To begin with, so many columns for each row of the program: those that buy the most."""


def is_wide(program: Program) -> bool:
    """Whether a program has so many columns, each with a cost, that a few at a time are faster."""
    accepts = frozenset({Manhattan, Box, LinearBounds, LogLoss, LogSumExp})
    return (
        program.condition_types <= accepts
        and program.width > 128
        and bool(program.encoded_cost.absolute.all())
    )


def by_columns(program: Program, case: Batch, solve: Callable[[Program, Batch], Answer]) -> Answer:
    """Solve a wide program for one row on few of its columns, and add those that it pays to move.

    The other columns stay. It ends where the multipliers show that no other column pays.
    """
    unit_costs = program.encoded_cost.absolute
    weight = float(case.weights[0]) if LogLoss in program.condition_types else 1.0
    fixed_values = np.minimum(np.maximum(case.x, case.low), case.high)[0]
    free = case.low[0] < case.high[0]

    def narrow(columns: BoolArray) -> Answer:
        few = Batch(case.x[:, columns], case.low[:, columns], case.high[:, columns], case.margin)
        return solve(_restricted(program, fixed_values, columns), replace(few, weight=case.weight))

    def extended(columns: BoolArray, answer: Answer) -> BoolArray | None:
        """The columns with those that it pays to move; None if there are none."""
        outcome, _, multipliers = answer
        refuted = outcome is Outcome.INFEASIBLE
        is_proved = refuted and program.refutes(case, multipliers[None, :])[0]
        if outcome is Outcome.LIMIT or is_proved or not (free & ~columns).any():
            return None
        normal = program.cut(multipliers[None, :], case.x).normal[0]
        room = np.where(normal > 0.0, fixed_values > case.low[0], fixed_values < case.high[0])
        gain = np.where(room & free & ~columns, np.abs(normal) / unit_costs, 0.0)
        better = gain > (0.0 if refuted else weight * (1.0 + 1e-10))  # more is no rounding
        if outcome is Outcome.NOTHING or (refuted and not better.any()):
            return free  # all of them may tell more
        if not better.any():
            return None
        best = np.argsort(gain)[-max(int(columns.sum()) // 2, FEW) :]
        larger = np.array(columns)
        larger[best[better[best]]] = True
        return larger

    rates = np.where(free, np.abs(normals(program)) / unit_costs, 0.0)
    columns = np.zeros(program.width, dtype=bool)
    columns[np.argsort(rates, axis=1)[:, -FEW:]] = True
    columns &= free
    answer = narrow(columns)
    while (larger := extended(columns, answer)) is not None:
        columns, answer = larger, narrow(larger)
    outcome, point, multipliers = answer
    if outcome is not Outcome.FOUND:
        return outcome, np.full(program.width, np.nan), multipliers
    fixed_values[columns] = point
    return outcome, fixed_values, multipliers


def _restricted(program: Program, held: FloatArray, columns: BoolArray) -> Program:
    """The program over some columns, the others held at a point."""
    fixed = np.where(columns, 0.0, held)
    conditions: list[Condition] = []
    for coupling in program.couplings:
        if isinstance(coupling, LogLoss | LogSumExp):  # `is_wide` lets nothing else in
            offset = coupling.offset + coupling.matrix @ fixed
            conditions.append(replace(coupling, matrix=coupling.matrix[:, columns], offset=offset))
    rows = program.affine
    if rows.size:
        values = rows.matrix @ fixed
        low, high = rows.low - values, rows.high - values
        conditions.append(replace(rows, matrix=rows.matrix[:, columns], low=low, high=high))
    encoded_cost = EncodedCost(
        program.encoded_cost.absolute[columns], program.encoded_cost.quadratic[columns]
    )
    return Program(encoded_cost, Region(tuple(conditions)))
