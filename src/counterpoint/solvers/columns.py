"""Solve wide programs at a Manhattan cost by column generation: few columns move at the optimum.

The program is solved over a few columns, with all others held where they are. Its multipliers are
multipliers of the whole program: where their slope on a held column exceeds its cost, to move it
pays, and it is added. If there is no such column, the optimum is that of the whole program.
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
"""Of one row: the outcome, the point (d,), NaN if there is none, and the multipliers (size,)."""


def is_wide(program: Program) -> bool:
    """Return whether a program has so many columns that a few at a time are faster.

    Each needs a cost, or it would pay to move all.
    """
    accepts = frozenset({Manhattan, Box, LinearBounds, LogLoss, LogSumExp})
    return (
        program.condition_types <= accepts
        and program.width > 128
        and bool(program.encoded_cost.absolute.all())
    )


def by_columns(program: Program, case: Batch, solve: Callable[[Program, Batch], Answer]) -> Answer:
    """Solve a wide program for one row over few of its columns; add columns while they pay.

    ``solve`` solves a program over some columns. The others stay where they are.
    """
    unit_costs = program.encoded_cost.absolute
    weight = float(case.weights[0]) if LogLoss in program.condition_types else 1.0
    fixed_values = np.minimum(np.maximum(case.x, case.low), case.high)[0]
    free = case.low[0] < case.high[0]

    def solved(columns: BoolArray) -> Answer:
        """Return the answer over some of the columns."""
        x, low, high = (array[:, columns] for array in (case.x, case.low, case.high))
        over_columns = Batch(x, low, high, case.margin, case.weight)
        return solve(_restricted(program, fixed_values, columns), over_columns)

    def extended(columns: BoolArray, answer: Answer) -> BoolArray | None:
        """Return the columns and others that it pays to add; None if all columns need no more.

        The multipliers have a slope on each held column. It pays to add one that may move along
        its slope, if that gains more than the move costs.
        """
        outcome, _, multipliers = answer
        refuted = outcome is Outcome.INFEASIBLE
        is_proved = refuted and program.refutes(case, multipliers[None, :])[0]
        if outcome is Outcome.LIMIT or is_proved or not (free & ~columns).any():
            return None
        normal = program.cut(multipliers[None, :], case.x).normal[0]
        may_move = np.where(normal > 0.0, fixed_values > case.low[0], fixed_values < case.high[0])
        gain = np.where(may_move & free & ~columns, np.abs(normal) / unit_costs, 0.0)
        # a refutation has no cost to exceed: any slope may end it
        pays = gain > (0.0 if refuted else weight * (1.0 + 1e-10))  # by more than rounding
        if outcome is Outcome.NOTHING or (refuted and not pays.any()):
            return free  # with all columns there may be an answer
        if not pays.any():
            return None
        best = np.argsort(gain)[-max(int(columns.sum()) // 2, first_count) :]
        larger = np.array(columns)
        larger[best[pays[best]]] = True
        return larger

    first_count = 4  # columns for each row of the program: those that buy the most of it
    rates = np.where(free, np.abs(normals(program)) / unit_costs, 0.0)
    columns = np.zeros(program.width, dtype=bool)
    columns[np.argsort(rates, axis=1)[:, -first_count:]] = True
    columns &= free
    answer = solved(columns)
    while (larger := extended(columns, answer)) is not None:
        columns, answer = larger, solved(larger)
    outcome, point, multipliers = answer
    if outcome is not Outcome.FOUND:
        return outcome, np.full(program.width, np.nan), multipliers
    fixed_values[columns] = point
    return outcome, fixed_values, multipliers


def _restricted(program: Program, fixed_values: FloatArray, columns: BoolArray) -> Program:
    """Return the program over some columns, with the others held at ``fixed_values`` (d,)."""
    fixed = np.where(columns, 0.0, fixed_values)
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
