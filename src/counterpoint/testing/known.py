"""Small programs with their optima and multipliers, derived by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.costs import Price
from counterpoint.engine.couplings import Cone, LinearBounds, LogLoss, LogSumExp
from counterpoint.engine.domains import AtMost, Box, OneOf, Transitions, Whole
from counterpoint.engine.program import Program
from counterpoint.engine.region import Condition, Region
from counterpoint.engine.wings import parts
from counterpoint.numerics import FloatArray

__all__ = ["KNOWN", "Known"]

INF = np.inf


@final
@dataclass(frozen=True, eq=False)
class Known:
    """A program, one row, and the answer.

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


Answer = tuple[float, FloatArray | None, FloatArray | None]


def known(name: str, asked: tuple[Program, FloatArray], answer: Answer) -> Known:
    """An entry of the table."""
    cost, point, multipliers = answer
    return Known(name, *asked, cost, point, multipliers)


def program(
    price: Price, *conditions: Condition, x: ArrayLike | None = None
) -> tuple[Program, FloatArray]:
    """A program and its row, the origin unless it is given."""
    made = Program(price, Region(conditions))
    return made, np.zeros(made.width) if x is None else np.asarray(x, dtype=np.float64)


def optimum(cost: float, point: ArrayLike, multipliers: ArrayLike | None = None) -> Answer:
    """The cost of the best point, and what proves it."""
    return cost, np.asarray(point, dtype=np.float64), impossible(multipliers)[2]


def impossible(multipliers: ArrayLike | None = None) -> Answer:
    """That there is no point, and what proves it."""
    return INF, None, None if multipliers is None else np.asarray(multipliers, dtype=np.float64)


def absolute(*weights: float) -> Price:
    """Σ w |change|."""
    return Price(np.array(weights), np.zeros(len(weights)))


def square(*weights: float) -> Price:
    """Σ w change²."""
    return Price(np.zeros(len(weights)), np.array(weights))


def rows(matrix: list[list[float]], low: list[float], high: list[float]) -> LinearBounds:
    """Linear rows between bounds."""
    return LinearBounds(np.array(matrix), np.array(low), np.array(high))


def at_least(least: float, *row: float) -> LinearBounds:
    """One linear row with a lower bound."""
    return rows([list(row)], [least], [INF])


def between(low: list[float], high: list[float]) -> Box:
    """Bounds of columns."""
    d = len(low)
    return Box(np.array(low), np.array(high), np.full(d, -INF), np.full(d, INF))


def loss(matrix: ArrayLike, offset: list[float]) -> LogLoss:
    """log(1 + Σ exp(matrix · y + offset))."""
    return LogLoss(np.asarray(matrix, dtype=np.float64), np.array(offset))


def one_of(count: int) -> OneOf:
    """The first columns are the categories of a feature."""
    return OneOf(slice(0, count))


def whole(*columns: int) -> Whole:
    """Columns in steps of 1."""
    return Whole(np.array(columns, dtype=np.intp), np.ones(len(columns)))


FULL = Price(np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]]))
"""2a² + 2ab + 2b²."""
ONE_CHANGE = AtMost(1, (slice(0, 1), slice(1, 2)))
"""Of two features of one column each."""
TIED = LogSumExp(np.array([[-1.0], [-1.0]]), np.zeros(2), 0.0)
"""Two rivals with equal scores."""
BALL = Cone(np.eye(2), np.array([-3.0, -4.0]), 2.0)
"""Of radius 2 about (3, 4)."""
UPWARDS = Cone(np.eye(1, 2), np.zeros(1), -2.0, np.array([0.0, 1.0]))
"""|a| <= b − 2."""
HYPERBOLA = Cone(np.diag([1.0, 0.0]), np.array([0.0, 1.0]), 0.0, np.array([0.0, 1.0]))
"""√(a² + 1) <= b."""

KNOWN: tuple[Known, ...] = (
    # Linear rows and bounds: prices of every kind
    known(
        "absolute, one row: the better buy",
        program(absolute(2.0, 1.0), at_least(3.0, 1.0, 1.0)),
        optimum(3.0, [0.0, 3.0], multipliers=[-1.0]),
    ),
    known(
        "absolute, two rows",
        program(absolute(1.0, 2.0), rows([[1.0, 1.0], [1.0, 0.0]], [4.0, -INF], [INF, 3.0])),
        optimum(5.0, [3.0, 1.0], multipliers=[-2.0, 1.0]),
    ),
    known(
        "absolute, the cheap column is full",
        program(absolute(1.0, 2.0), at_least(4.0, 1.0, 1.0), between([-INF, -INF], [3.0, INF])),
        optimum(5.0, [3.0, 1.0], multipliers=[-2.0]),
    ),
    known(
        "absolute, nothing to do",
        program(absolute(1.0, 1.0), at_least(-1.0, 1.0, 1.0)),
        optimum(0.0, [0.0, 0.0], multipliers=[0.0]),
    ),
    known(
        "absolute, an equation",
        program(absolute(1.0, 3.0), rows([[1.0, -1.0]], [2.0], [2.0])),
        optimum(2.0, [2.0, 0.0], multipliers=[-1.0]),
    ),
    known(
        "square, one row: the projection",
        program(square(1.0, 1.0), at_least(2.0, 1.0, 1.0)),
        optimum(2.0, [1.0, 1.0], multipliers=[-2.0]),
    ),
    known(
        "square, one column is full",
        program(square(1.0, 1.0), at_least(2.0, 1.0, 1.0), between([-INF, -INF], [0.5, INF])),
        optimum(2.5, [0.5, 1.5], multipliers=[-3.0]),
    ),
    known(
        "full matrix, one row",
        program(FULL, at_least(2.0, 1.0, 1.0)),
        optimum(6.0, [1.0, 1.0], multipliers=[-6.0]),
    ),
    known(
        "full matrix, a column at its bound",
        program(FULL, at_least(2.0, 1.0, 1.0), between([-INF, -INF], [0.0, INF])),
        optimum(8.0, [0.0, 2.0], multipliers=[-8.0]),
    ),
    # Balls, and several rivals at once
    known(
        "square, into a ball",
        program(square(1.0, 1.0), BALL),
        optimum(9.0, [1.8, 2.4], multipliers=[-3.6, -4.8]),
    ),
    known(
        "absolute, into a ball",
        program(absolute(1.0, 1.0), BALL),
        optimum(
            7.0 - 2.0 * np.sqrt(2.0),
            [3.0 - np.sqrt(2.0), 4.0 - np.sqrt(2.0)],
            multipliers=[-1.0, -1.0],
        ),
    ),
    known(
        "square, into a cone that opens upwards: its apex",
        program(square(1.0, 1.0), UPWARDS),
        optimum(4.0, [0.0, 2.0], multipliers=[0.0, 4.0]),
    ),
    known(
        "square, into one branch of a hyperbola",
        program(square(1.0, 1.0), HYPERBOLA),
        optimum(1.0, [0.0, 1.0], multipliers=[0.0, 2.0, 2.0]),
    ),
    known(
        "full matrix, into a cone that opens upwards: its apex",
        program(FULL, UPWARDS, x=[-1.0, 0.0]),
        optimum(14.0, [0.0, 2.0], multipliers=[-8.0, 10.0]),
    ),
    known(
        "absolute, into a cone that opens upwards: along the dearer column",
        program(
            absolute(1.0, 2.0),
            Cone(np.array([[2.0, 0.0]]), np.array([-6.0]), 0.0, np.array([0.0, 1.0])),
        ),
        optimum(3.0, [3.0, 0.0], multipliers=[-0.5, 2.0]),
    ),
    known(
        "whole steps in a cone that opens upwards",
        program(
            square(1.0, 1.0),
            Cone(np.eye(1, 2), np.array([-1.0]), -1.5, np.array([0.0, 1.0])),
            whole(0, 1),
        ),
        optimum(5.0, [1.0, 2.0]),
    ),
    known(
        "square, two rivals with equal scores",
        program(square(1.0), TIED),
        optimum(float(np.log(2.0) ** 2), [np.log(2.0)], multipliers=[np.log(2.0), np.log(2.0)]),
    ),
    # Whole steps, categories, and few changes
    known(
        "whole steps, absolute",
        program(absolute(1.0), at_least(2.3, 1.0), whole(0)),
        optimum(3.0, [3.0]),
    ),
    known(
        "whole steps, square",
        program(square(1.0), at_least(2.3, 1.0), whole(0)),
        optimum(9.0, [3.0]),
    ),
    known(
        "whole steps, full matrix: 2a² + 2ab + 2b² with a + b >= 1.5",
        program(FULL, at_least(1.5, 1.0, 1.0), whole(0, 1)),
        optimum(6.0, [1.0, 1.0]),
    ),
    known(
        "whole steps in a ball",
        program(square(1.0, 1.0), Cone(np.eye(2), np.array([-2.5, 0.0]), 1.0), whole(0, 1)),
        optimum(4.0, [2.0, 0.0]),
    ),
    known(
        "a category, absolute",
        program(
            absolute(0.5, 0.5, 0.5, 1.0),
            at_least(4.0, 0.0, 2.0, 5.0, 1.0),
            one_of(3),
            x=[1.0, 0.0, 0.0, 0.0],
        ),
        optimum(1.0, [0.0, 0.0, 1.0, 0.0]),
    ),
    known(
        "a category and a number, square",
        program(
            Price(np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])),
            at_least(2.5, 0.0, 2.0, 1.0),
            one_of(2),
            x=[1.0, 0.0, 0.0],
        ),
        optimum(1.25, [0.0, 1.0, 0.5]),
    ),
    known(
        "a category that may not be chosen",
        program(
            absolute(0.5, 0.5, 0.5, 1.0),
            at_least(4.0, 0.0, 2.0, 5.0, 1.0),
            one_of(3),
            Transitions(slice(0, 3), np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], dtype=bool)),
            x=[1.0, 0.0, 0.0, 0.0],
        ),
        optimum(3.0, [0.0, 1.0, 0.0, 2.0]),
    ),
    known(
        "at most one change, absolute",
        program(
            absolute(1.0, 2.0),
            at_least(4.0, 1.0, 1.0),
            between([-9.0, -9.0], [3.0, 5.0]),
            ONE_CHANGE,
        ),
        optimum(8.0, [0.0, 4.0]),
    ),
    known(
        "at most one change, square",
        program(square(1.0, 2.0), at_least(2.0, 1.0, 1.0), ONE_CHANGE),
        optimum(4.0, [2.0, 0.0]),
    ),
    # Probabilities that are weighed against the price
    known(
        "a probability of two classes, square: half way",
        program(square(1.0), loss([[2.0]], [1.0])),
        optimum(0.25 + np.log(2.0), [-0.5], multipliers=[0.5]),
    ),
    known(
        "a probability of two classes, full matrix",
        program(FULL, loss([[3.0, 3.0]], [1.5])),
        optimum(0.375 + np.log(2.0), [-0.25, -0.25], multipliers=[0.5]),
    ),
    known(
        "a probability of two classes, absolute: the cheaper column alone",
        program(absolute(1.0, 1.0), loss([[2.0, 1.0]], [2.0])),
        optimum(1.0 + np.log(2.0), [-1.0, 0.0], multipliers=[0.5]),
    ),
    known(
        "a probability that is not worth a change",
        program(absolute(1.0), loss([[2.0]], [-1.0])),
        optimum(np.log1p(np.exp(-1.0)), [0.0], multipliers=[1.0 / (1.0 + np.e)]),
    ),
    known(
        "a probability of three classes, square: thirds",
        program(square(1.0, 1.0), loss(6.0 * np.eye(2), [6.0, 6.0])),
        optimum(2.0 + np.log(3.0), [-1.0, -1.0], multipliers=[1.0 / 3.0, 1.0 / 3.0]),
    ),
    known(
        "a probability of three classes, absolute",
        program(absolute(1.0, 1.0), loss(3.0 * np.eye(2), [3.0, 3.0])),
        optimum(2.0 + np.log(3.0), [-1.0, -1.0], multipliers=[1.0 / 3.0, 1.0 / 3.0]),
    ),
    known(
        "a probability in a box, square",
        program(square(1.0), loss([[2.0]], [1.0]), between([-0.25], [INF])),
        optimum(0.0625 + np.log1p(np.exp(0.5)), [-0.25], multipliers=[1.0 / (1.0 + np.exp(-0.5))]),
    ),
    known(
        "a probability in a box, absolute: the second column takes over",
        program(absolute(1.0, 1.5), loss([[4.0, 3.0]], [7.0]), between([-1.0, -9.0], [INF, INF])),
        optimum(2.5 + np.log(2.0), [-1.0, -1.0], multipliers=[0.5]),
    ),
    known(
        "a probability of three classes in a box, square",
        program(
            square(1.0, 1.0), loss(6.0 * np.eye(2), [6.0, 6.0]), between([-0.5, -0.5], [INF, INF])
        ),
        optimum(
            0.5 + np.log1p(2.0 * np.exp(3.0)),
            [-0.5, -0.5],
            multipliers=[np.exp(3.0) / (1.0 + 2.0 * np.exp(3.0))] * 2,
        ),
    ),
    known(
        "a probability and a row",
        program(square(1.0), at_least(-0.25, 1.0), loss([[2.0]], [1.0])),
        optimum(
            0.0625 + np.log1p(np.exp(0.5)),
            [-0.25],
            multipliers=[0.5 - 2.0 / (1.0 + np.exp(-0.5)), 1.0 / (1.0 + np.exp(-0.5))],
        ),
    ),
    known(
        "a probability in whole steps",
        program(square(1.0), loss([[2.0]], [2.0]), whole(0), between([-9.0], [9.0])),
        optimum(1.0 + np.log(2.0), [-1.0]),
    ),
    known(
        "a probability and a category",
        program(
            absolute(0.5, 0.5, 1.0), loss([[4.0, 0.0, 2.0]], [-2.0]), one_of(2), x=[1.0, 0.0, 0.0]
        ),
        optimum(1.0 + np.log1p(np.exp(-2.0)), [0.0, 1.0, 0.0]),
    ),
    # Programs without a point, and what refutes them
    known(
        "impossible: an empty interval and a probability",
        program(square(1.0), loss([[2.0]], [1.0]), between([2.0], [1.0])),
        impossible([0.0]),
    ),
    known(
        "impossible: the row is out of the box",
        program(absolute(1.0, 1.0), at_least(3.0, 1.0, 1.0), between([-INF, -INF], [1.0, 1.0])),
        impossible([-1.0]),
    ),
    *(
        known(
            f"impossible: an empty interval, {name}",
            program(price, at_least(1.0, 1.0, 1.0), between([2.0, -INF], [1.0, INF])),
            impossible([0.0]),
        )
        for name, price in (
            ("absolute", absolute(1.0, 1.0)),
            ("square", square(1.0, 1.0)),
            ("full matrix", FULL),
        )
    ),
    known(
        "impossible: an empty interval and a category",
        program(
            absolute(0.5, 0.5, 1.0),
            at_least(1.0, 0.0, 1.0, 1.0),
            one_of(2),
            between([-INF, -INF, 2.0], [INF, INF, 1.0]),
            x=[1.0, 0.0, 0.0],
        ),
        impossible([0.0]),
    ),
    known(
        "impossible: two rows contradict",
        program(square(1.0, 1.0), rows([[1.0, 1.0], [1.0, 1.0]], [3.0, -INF], [INF, 1.0])),
        impossible([-1.0, 1.0]),
    ),
    known(
        "impossible: the box is out of the ball",
        program(square(1.0, 1.0), BALL, between([-INF, -INF], [0.0, INF])),
        impossible([-1.0, 0.0]),
    ),
    known(
        "impossible: the box is below the apex of a cone that opens upwards",
        program(square(1.0, 1.0), UPWARDS, between([-INF, -INF], [INF, 1.0])),
        impossible([0.0, 1.0]),
    ),
    known(
        "impossible: the rivals stay ahead",
        program(square(1.0), TIED, between([-INF], [0.5])),
        impossible([0.5, 0.5]),
    ),
    *(
        known(
            f"impossible: a rival has the label's own row, {name}",
            program(
                price, LogSumExp(np.array([[0.0, 0.0], [1.0, -2.0]]), np.array([0.0, 1.0]), -0.5)
            ),
            impossible([1.0, 0.0]),
        )
        for name, price in (("absolute", absolute(1.0, 1.0)), ("square", square(1.0, 1.0)))
    ),
    known(
        "impossible: no whole step meets the equation",
        program(absolute(1.0), rows([[2.0]], [1.0], [1.0]), whole(0), between([-9.0], [9.0])),
        impossible(),
    ),
    known(
        "impossible: two changes are needed",
        program(
            absolute(1.0, 1.0),
            at_least(4.0, 1.0, 1.0),
            between([-3.0, -3.0], [3.0, 3.0]),
            ONE_CHANGE,
        ),
        impossible([-1.0]),
    ),
    *(known for part in parts("known") for known in part.programs()),
)
"""Programs of every kind of price and condition, with answers and without."""
