"""Lists small programs with their optima and multipliers, derived by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.numerics import FloatArray
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import (
    AtMost,
    Box,
    Cone,
    LinearBounds,
    OneOf,
    Transitions,
    Whole,
)
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program
from counterpoint.programs.region import Condition, Region

INF = np.inf


@final
@dataclass(frozen=True, eq=False)
class Known:
    """A program, one row, and the answer.

    Parameters
    ----------
    name
        A description in a few words.
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


Solved = tuple[Program, FloatArray, float, FloatArray | None, FloatArray | None]


def solved(
    encoded_cost: EncodedCost,
    *conditions: Condition,
    x: ArrayLike | None = None,
    cost: float = INF,
    point: ArrayLike | None = None,
    multipliers: ArrayLike | None = None,
) -> Solved:
    """Return the fields of `Known` after its name; the row is the origin unless it is passed."""
    program = Program(encoded_cost, Region(conditions))
    arrays = [None if a is None else np.asarray(a, dtype=np.float64) for a in (point, multipliers)]
    row = np.zeros(program.width) if x is None else np.asarray(x, dtype=np.float64)
    return program, row, cost, arrays[0], arrays[1]


def absolute(*weights: float) -> EncodedCost:
    """Return the cost Σ w |change|."""
    return EncodedCost(np.array(weights, dtype=float), np.zeros(len(weights)))


def square(*weights: float) -> EncodedCost:
    """Return the cost Σ w change²."""
    return EncodedCost(np.zeros(len(weights)), np.array(weights, dtype=float))


def rows(matrix: list[list[float]], low: list[float], high: list[float]) -> LinearBounds:
    """Return linear bounds low <= matrix · y <= high."""
    return LinearBounds(*(np.array(numbers, dtype=float) for numbers in (matrix, low, high)))


def at_least(least: float, *row: float) -> LinearBounds:
    """Return one linear row with a lower bound."""
    return rows([list(row)], [least], [INF])


def between(low: list[float], high: list[float]) -> Box:
    """Return bounds of columns."""
    d = len(low)
    return Box(
        np.array(low, dtype=float), np.array(high, dtype=float), np.full(d, -INF), np.full(d, INF)
    )


def loss(matrix: ArrayLike, offset: list[float]) -> LogLoss:
    """Return the objective term log(1 + Σ exp(matrix · y + offset))."""
    return LogLoss(np.asarray(matrix, dtype=float), np.array(offset, dtype=float))


def ball(radius: float, *center: float) -> Cone:
    """Return that y is within a distance of a center."""
    return Cone(np.eye(len(center)), 0.0 - np.array(center), radius)


def upwards(center: float, apex: float) -> Cone:
    """Return the cone |a − center| <= b − apex of y = (a, b)."""
    return Cone(np.eye(1, 2), np.array([0.0 - center]), -apex, np.array([0.0, 1.0]))


def rivals(matrix: list[list[float]], offset: list[float], limit: float) -> LogSumExp:
    """Return that log Σ exp(matrix · y + offset) <= limit."""
    return LogSumExp(np.array(matrix, dtype=float), np.array(offset, dtype=float), limit)


def one_change_of(d: int) -> AtMost:
    """Return that at most one of d features changes, of one column each."""
    return AtMost(1, tuple(slice(j, j + 1) for j in range(d)))


def one_of(count: int) -> OneOf:
    """Return that the first columns are the categories of a feature."""
    return OneOf(slice(0, count))


def whole(*columns: int) -> Whole:
    """Return columns in steps of 1."""
    return Whole(np.array(columns, dtype=np.intp), np.ones(len(columns)))


FULL = EncodedCost(np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]]))
"""2a² + 2ab + 2b²."""

PROGRAMS: dict[str, Solved] = {
    # Linear rows and bounds: prices of every kind
    "absolute, one row: the better buy": solved(
        absolute(2, 1), at_least(3, 1, 1), cost=3, point=[0, 3], multipliers=[-1]
    ),
    "absolute, two rows": solved(
        absolute(1, 2),
        rows([[1, 1], [1, 0]], [4, -INF], [INF, 3]),
        cost=5,
        point=[3, 1],
        multipliers=[-2, 1],
    ),
    "absolute, the cheap column is full": solved(
        absolute(1, 2),
        at_least(4, 1, 1),
        between([-INF, -INF], [3, INF]),
        cost=5,
        point=[3, 1],
        multipliers=[-2],
    ),
    "absolute, nothing to do": solved(
        absolute(1, 1), at_least(-1, 1, 1), cost=0, point=[0, 0], multipliers=[0]
    ),
    "absolute, an equation": solved(
        absolute(1, 3), rows([[1, -1]], [2], [2]), cost=2, point=[2, 0], multipliers=[-1]
    ),
    "square, one row: the projection": solved(
        square(1, 1), at_least(2, 1, 1), cost=2, point=[1, 1], multipliers=[-2]
    ),
    "square, one column is full": solved(
        square(1, 1),
        at_least(2, 1, 1),
        between([-INF, -INF], [0.5, INF]),
        cost=2.5,
        point=[0.5, 1.5],
        multipliers=[-3],
    ),
    "full matrix, one row": solved(FULL, at_least(2, 1, 1), cost=6, point=[1, 1], multipliers=[-6]),
    "full matrix, a column at its bound": solved(
        FULL,
        at_least(2, 1, 1),
        between([-INF, -INF], [0, INF]),
        cost=8,
        point=[0, 2],
        multipliers=[-8],
    ),
    # Balls, and several rivals at once
    "square, into a ball": solved(
        square(1, 1), ball(2, 3, 4), cost=9, point=[1.8, 2.4], multipliers=[-3.6, -4.8]
    ),
    "absolute, into a ball": solved(
        absolute(1, 1),
        ball(2, 3, 4),
        cost=7 - 2 * np.sqrt(2),
        point=[3 - np.sqrt(2), 4 - np.sqrt(2)],
        multipliers=[-1, -1],
    ),
    "square, into a cone that opens upwards: its apex": solved(
        square(1, 1), upwards(0, 2), cost=4, point=[0, 2], multipliers=[0, 4]
    ),
    "square, into one branch of a hyperbola": solved(
        square(1, 1),
        # √(a² + 1) <= b
        Cone(np.diag([1.0, 0.0]), np.array([0.0, 1.0]), 0.0, np.array([0.0, 1.0])),
        cost=1,
        point=[0, 1],
        multipliers=[0, 2, 2],
    ),
    "full matrix, into a cone that opens upwards: its apex": solved(
        FULL, upwards(0, 2), x=[-1, 0], cost=14, point=[0, 2], multipliers=[-8, 10]
    ),
    "absolute, into a cone that opens upwards: along the dearer column": solved(
        absolute(1, 2),
        Cone(np.array([[2.0, 0.0]]), np.array([-6.0]), 0.0, np.array([0.0, 1.0])),
        cost=3,
        point=[3, 0],
        multipliers=[-0.5, 2],
    ),
    "whole steps in a cone that opens upwards": solved(
        square(1, 1),
        upwards(1, 1.5),
        whole(0, 1),
        cost=5,
        point=[1, 2],
    ),
    "square, two rivals with equal scores": solved(
        square(1),
        rivals([[-1], [-1]], [0, 0], 0),
        cost=float(np.log(2) ** 2),
        point=[np.log(2)],
        multipliers=[np.log(2), np.log(2)],
    ),
    # Whole steps, categories, and few changes
    "whole steps, absolute": solved(absolute(1), at_least(2.3, 1), whole(0), cost=3, point=[3]),
    "whole steps, square": solved(square(1), at_least(2.3, 1), whole(0), cost=9, point=[3]),
    "whole steps, full matrix: 2a² + 2ab + 2b² with a + b >= 1.5": solved(
        FULL, at_least(1.5, 1, 1), whole(0, 1), cost=6, point=[1, 1]
    ),
    "whole steps in a ball": solved(
        square(1, 1), ball(1, 2.5, 0), whole(0, 1), cost=4, point=[2, 0]
    ),
    "a category, absolute": solved(
        absolute(0.5, 0.5, 0.5, 1),
        at_least(4, 0, 2, 5, 1),
        one_of(3),
        x=[1, 0, 0, 0],
        cost=1,
        point=[0, 0, 1, 0],
    ),
    "a category and a number, square": solved(
        EncodedCost(np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])),
        at_least(2.5, 0, 2, 1),
        one_of(2),
        x=[1, 0, 0],
        cost=1.25,
        point=[0, 1, 0.5],
    ),
    "a category that may not be chosen": solved(
        absolute(0.5, 0.5, 0.5, 1),
        at_least(4, 0, 2, 5, 1),
        one_of(3),
        Transitions(slice(0, 3), np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], dtype=bool)),
        x=[1, 0, 0, 0],
        cost=3,
        point=[0, 1, 0, 2],
    ),
    "at most one change, absolute": solved(
        absolute(1, 2),
        at_least(4, 1, 1),
        between([-9, -9], [3, 5]),
        one_change_of(2),
        cost=8,
        point=[0, 4],
    ),
    "at most one change, square": solved(
        square(1, 2), at_least(2, 1, 1), one_change_of(2), cost=4, point=[2, 0]
    ),
    # Probabilities that are weighed against the price
    "a probability of two classes, square: half way": solved(
        square(1), loss([[2]], [1]), cost=0.25 + np.log(2), point=[-0.5], multipliers=[0.5]
    ),
    "a probability of two classes, full matrix": solved(
        FULL, loss([[3, 3]], [1.5]), cost=0.375 + np.log(2), point=[-0.25, -0.25], multipliers=[0.5]
    ),
    "a probability of two classes, absolute: the cheaper column alone": solved(
        absolute(1, 1), loss([[2, 1]], [2]), cost=1 + np.log(2), point=[-1, 0], multipliers=[0.5]
    ),
    "a probability that is not worth a change": solved(
        absolute(1),
        loss([[2]], [-1]),
        cost=np.log1p(np.exp(-1)),
        point=[0],
        multipliers=[1 / (1 + np.exp(1.0))],
    ),
    "a probability of three classes, square: thirds": solved(
        square(1, 1),
        loss(6 * np.eye(2), [6, 6]),
        cost=2 + np.log(3),
        point=[-1, -1],
        multipliers=[1 / 3, 1 / 3],
    ),
    "a probability of three classes, absolute": solved(
        absolute(1, 1),
        loss(3 * np.eye(2), [3, 3]),
        cost=2 + np.log(3),
        point=[-1, -1],
        multipliers=[1 / 3, 1 / 3],
    ),
    "a probability in a box, square": solved(
        square(1),
        loss([[2]], [1]),
        between([-0.25], [INF]),
        cost=0.0625 + np.log1p(np.exp(0.5)),
        point=[-0.25],
        multipliers=[1 / (1 + np.exp(-0.5))],
    ),
    "a probability in a box, absolute: the second column takes over": solved(
        absolute(1, 1.5),
        loss([[4, 3]], [7]),
        between([-1, -9], [INF, INF]),
        cost=2.5 + np.log(2),
        point=[-1, -1],
        multipliers=[0.5],
    ),
    "a probability of three classes in a box, square": solved(
        square(1, 1),
        loss(6 * np.eye(2), [6, 6]),
        between([-0.5, -0.5], [INF, INF]),
        cost=0.5 + np.log1p(2 * np.exp(3)),
        point=[-0.5, -0.5],
        multipliers=[np.exp(3) / (1 + 2 * np.exp(3))] * 2,
    ),
    "a probability and a row": solved(
        square(1),
        at_least(-0.25, 1),
        loss([[2]], [1]),
        cost=0.0625 + np.log1p(np.exp(0.5)),
        point=[-0.25],
        multipliers=[0.5 - 2 / (1 + np.exp(-0.5)), 1 / (1 + np.exp(-0.5))],
    ),
    "a probability in whole steps": solved(
        square(1), loss([[2]], [2]), whole(0), between([-9], [9]), cost=1 + np.log(2), point=[-1]
    ),
    "a probability and a category": solved(
        absolute(0.5, 0.5, 1),
        loss([[4, 0, 2]], [-2]),
        one_of(2),
        x=[1, 0, 0],
        cost=1 + np.log1p(np.exp(-2)),
        point=[0, 1, 0],
    ),
    # Programs without a point, and what refutes them
    "impossible: an empty interval and a probability": solved(
        square(1), loss([[2]], [1]), between([2], [1]), multipliers=[0]
    ),
    "impossible: the row is out of the box": solved(
        absolute(1, 1), at_least(3, 1, 1), between([-INF, -INF], [1, 1]), multipliers=[-1]
    ),
    **{
        f"impossible: an empty interval, {name}": solved(
            encoded_cost, at_least(1, 1, 1), between([2, -INF], [1, INF]), multipliers=[0]
        )
        for name, encoded_cost in (
            ("absolute", absolute(1.0, 1.0)),
            ("square", square(1.0, 1.0)),
            ("full matrix", FULL),
        )
    },
    "impossible: an empty interval and a category": solved(
        absolute(0.5, 0.5, 1),
        at_least(1, 0, 1, 1),
        one_of(2),
        between([-INF, -INF, 2], [INF, INF, 1]),
        x=[1, 0, 0],
        multipliers=[0],
    ),
    "impossible: two rows contradict": solved(
        square(1, 1), rows([[1, 1], [1, 1]], [3, -INF], [INF, 1]), multipliers=[-1, 1]
    ),
    "impossible: the box is out of the ball": solved(
        square(1, 1), ball(2, 3, 4), between([-INF, -INF], [0, INF]), multipliers=[-1, 0]
    ),
    "impossible: the box is below the apex of a cone that opens upwards": solved(
        square(1, 1), upwards(0, 2), between([-INF, -INF], [INF, 1]), multipliers=[0, 1]
    ),
    "impossible: the rivals stay ahead": solved(
        square(1), rivals([[-1], [-1]], [0, 0], 0), between([-INF], [0.5]), multipliers=[0.5, 0.5]
    ),
    **{
        f"impossible: a rival has the label's own row, {name}": solved(
            encoded_cost,
            rivals([[0, 0], [1, -2]], [0, 1], -0.5),
            multipliers=[1, 0],
        )
        for name, encoded_cost in (("absolute", absolute(1.0, 1.0)), ("square", square(1.0, 1.0)))
    },
    "impossible: no whole step meets the equation": solved(
        absolute(1), rows([[2]], [1], [1]), whole(0), between([-9], [9])
    ),
    "impossible: two changes are needed": solved(
        absolute(1, 1),
        at_least(4, 1, 1),
        between([-3, -3], [3, 3]),
        one_change_of(2),
        multipliers=[-1],
    ),
}
KNOWN = tuple(Known(name, *entry) for name, entry in PROGRAMS.items())
"""Programs of every kind of cost and condition, with answers and without."""
