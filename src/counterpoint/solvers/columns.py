"""Wide programs at a Manhattan price: at the optimum only a few columns move.

So the program is solved over a few columns, all others held where they are. Multipliers of that are
multipliers of the whole: where their slope on a column that is held exceeds its price, it pays to
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
from counterpoint.programs.region import Cases, Condition, Region
from counterpoint.solvers.base import Outcome

__all__ = ["by_columns", "is_wide"]

Answer = tuple[Outcome, FloatArray, FloatArray]
"""Of one row: the point, NaN where there is none, and the multipliers."""

FEW = 4
"""To begin with, so many columns for each row of the program: those that buy the most."""


def is_wide(program: Program) -> bool:
    """Whether a program has so many columns, each with a price, that a few at a time are faster."""
    known = frozenset({Manhattan, Box, LinearBounds, LogLoss, LogSumExp})
    return (
        program.condition_types <= known
        and program.width > 128
        and bool(program.encoded_cost.absolute.all())
    )


def by_columns(program: Program, case: Cases, solve: Callable[[Program, Cases], Answer]) -> Answer:
    """The answer to one row, by a solver of narrower programs."""
    encoded_cost = program.encoded_cost.absolute
    weight = float(case.weights[0]) if program.objective_terms else 1.0
    held = np.minimum(np.maximum(case.x, case.low), case.high)[0]
    free = case.low[0] < case.high[0]
    rates = np.where(free, np.abs(program.normals) / encoded_cost, 0.0)
    columns = np.zeros(program.width, dtype=bool)
    columns[np.argsort(rates, axis=1)[:, -FEW:]] = True
    while True:
        columns &= free
        few = Cases(case.x[:, columns], case.low[:, columns], case.high[:, columns], case.margin)
        found, point, multipliers = solve(
            _restricted(program, held, columns), replace(few, weight=case.weight)
        )
        refuted = found is Outcome.INFEASIBLE
        if refuted and program.refutes(case, multipliers[None, :])[0]:
            break
        if found is Outcome.LIMIT:
            break
        normal = program.cut(multipliers[None, :]).normal[0]
        room = np.where(normal > 0.0, held > case.low[0], held < case.high[0])
        gain = np.where(room & ~columns, np.abs(normal) / encoded_cost, 0.0)
        better = gain > (0.0 if refuted else weight * (1.0 + 1e-10))  # more is no rounding
        if found is Outcome.NOTHING or (refuted and not better.any()):  # all of them may tell more
            return solve(program, case)
        if not better.any():
            break
        most = np.argsort(gain)[-max(int(columns.sum()) // 2, FEW) :]
        columns[most[better[most]]] = True
    if found is not Outcome.FOUND:
        return found, np.full(program.width, np.nan), multipliers
    held[columns] = point
    return found, held, multipliers


def _restricted(program: Program, held: FloatArray, columns: BoolArray) -> Program:
    """The program over some columns, the others held at a point."""
    rest = np.where(columns, 0.0, held)
    conditions: list[Condition] = []
    for part in program.nonlinear_and_objective_terms:
        if isinstance(part, LogLoss | LogSumExp):  # `is_wide` lets nothing else in
            offset = part.offset + part.matrix @ rest
            conditions.append(replace(part, matrix=part.matrix[:, columns], offset=offset))
    rows = program.affine
    if rows.size:
        there = rows.matrix @ rest
        low, high = rows.low - there, rows.high - there
        conditions.append(replace(rows, matrix=rows.matrix[:, columns], low=low, high=high))
    encoded_cost = EncodedCost(
        program.encoded_cost.absolute[columns], program.encoded_cost.quadratic[columns]
    )
    return Program(encoded_cost, Region(tuple(conditions)))
