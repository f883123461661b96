"""What the tables of known programs are written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.costs import Price
from counterpoint.engine.couplings import Affine, Cone
from counterpoint.engine.domains import Box, Whole
from counterpoint.engine.program import Program
from counterpoint.engine.region import Condition, Region

__all__ = [
    "BALL",
    "FULL",
    "INF",
    "TWO",
    "UPWARDS",
    "Known",
    "absolute",
    "at_least",
    "between",
    "known",
    "rows",
    "square",
    "whole",
]

FloatArray = NDArray[np.float64]
INF = np.inf


@final
@dataclass(frozen=True, eq=False)
class Known:
    """A program, one person, and the answer.

    Parameters
    ----------
    name
        What it is, in a few words.
    program
        The program.
    x
        (d,) the factual point.
    cost
        The optimum of the objective; infinite if there is no point.
    point
        (d,) an optimal point; None if there is none.
    multipliers
        (size,) by which weak duality gives the optimum, or refutes the program; None where only
        branching does.
    """

    name: str
    program: Program
    x: FloatArray
    cost: float
    point: FloatArray | None = None
    multipliers: FloatArray | None = None


def known(  # noqa: PLR0913 (a table)
    name: str,
    price: Price,
    conditions: list[Condition],
    cost: float,
    *,
    point: ArrayLike | None = None,
    multipliers: ArrayLike | None = None,
    x: ArrayLike | None = None,
) -> Known:
    """An entry of the table; x is the origin unless it is given."""
    program = Program(price, Region(tuple(conditions)))
    here = np.zeros(program.width) if x is None else np.asarray(x, dtype=np.float64)
    return Known(name, program, here, cost, _vector(point), _vector(multipliers))


def _vector(values: ArrayLike | None) -> FloatArray | None:
    return None if values is None else np.asarray(values, dtype=np.float64)


def absolute(*weights: float) -> Price:
    """Σ w |change|."""
    return Price(np.array(weights), np.zeros(len(weights)))


def square(*weights: float) -> Price:
    """Σ w change²."""
    return Price(np.zeros(len(weights)), np.array(weights))


def rows(matrix: list[list[float]], low: list[float], high: list[float]) -> Affine:
    """Linear rows between bounds."""
    return Affine(np.array(matrix), np.array(low), np.array(high))


def at_least(least: float, *row: float) -> Affine:
    """One linear row with a lower bound."""
    return rows([list(row)], [least], [INF])


def between(low: list[float], high: list[float]) -> Box:
    """Bounds of columns."""
    d = len(low)
    return Box(np.array(low), np.array(high), np.full(d, -INF), np.full(d, INF))


def whole(*columns: int) -> Whole:
    """Columns in steps of 1."""
    return Whole(np.array(columns, dtype=np.intp), np.ones(len(columns)))


FULL = Price(np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]]))
"""2a² + 2ab + 2b²."""
TWO = (slice(0, 1), slice(1, 2))
"""Two features of one column each."""
BALL = Cone(np.eye(2), np.array([-3.0, -4.0]), 2.0)
"""Of radius 2 about (3, 4)."""
UPWARDS = Cone(np.eye(1, 2), np.zeros(1), -2.0, np.array([0.0, 1.0]))
"""|a| <= b − 2."""
