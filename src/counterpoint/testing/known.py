"""Small programs with their optima and multipliers, derived by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.costs import Price
from counterpoint.programs import Program
from counterpoint.regions import (
    Affine,
    AtMost,
    Box,
    Condition,
    Cone,
    LogLoss,
    LogSumExp,
    OneOf,
    Region,
    Transitions,
    Whole,
)

__all__ = ["KNOWN", "Known"]

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


def _known(  # noqa: PLR0913 (a table)
    name: str,
    price: Price,
    conditions: list[Condition],
    cost: float,
    *,
    point: ArrayLike | None = None,
    multipliers: ArrayLike | None = None,
    x: ArrayLike | None = None,
) -> Known:
    program = Program(price, Region(tuple(conditions)))
    here = np.zeros(program.width) if x is None else np.asarray(x, dtype=np.float64)
    return Known(name, program, here, cost, _vector(point), _vector(multipliers))


def _vector(values: ArrayLike | None) -> FloatArray | None:
    return None if values is None else np.asarray(values, dtype=np.float64)


def _absolute(*weights: float) -> Price:
    return Price(np.array(weights), np.zeros(len(weights)))


def _square(*weights: float) -> Price:
    return Price(np.zeros(len(weights)), np.array(weights))


def _rows(matrix: list[list[float]], low: list[float], high: list[float]) -> Affine:
    return Affine(np.array(matrix), np.array(low), np.array(high))


def _at_least(least: float, *row: float) -> Affine:
    return _rows([list(row)], [least], [INF])


def _between(low: list[float], high: list[float]) -> Box:
    d = len(low)
    return Box(np.array(low), np.array(high), np.full(d, -INF), np.full(d, INF))


def _whole(*columns: int) -> Whole:
    return Whole(np.array(columns, dtype=np.intp), np.ones(len(columns)))


FULL = Price(np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]]))
TWO = (slice(0, 1), slice(1, 2))
BALL = Cone(np.eye(2), np.array([-3.0, -4.0]), 2.0)

KNOWN: tuple[Known, ...] = (
    _known(
        "absolute, one row: the better buy",
        _absolute(2.0, 1.0),
        [_at_least(3.0, 1.0, 1.0)],
        3.0,
        point=[0.0, 3.0],
        multipliers=[-1.0],
    ),
    _known(
        "absolute, two rows",
        _absolute(1.0, 2.0),
        [_rows([[1.0, 1.0], [1.0, 0.0]], [4.0, -INF], [INF, 3.0])],
        5.0,
        point=[3.0, 1.0],
        multipliers=[-2.0, 1.0],
    ),
    _known(
        "absolute, the cheap column is full",
        _absolute(1.0, 2.0),
        [_at_least(4.0, 1.0, 1.0), _between([-INF, -INF], [3.0, INF])],
        5.0,
        point=[3.0, 1.0],
        multipliers=[-2.0],
    ),
    _known(
        "absolute, nothing to do",
        _absolute(1.0, 1.0),
        [_at_least(-1.0, 1.0, 1.0)],
        0.0,
        point=[0.0, 0.0],
        multipliers=[0.0],
    ),
    _known(
        "absolute, an equation",
        _absolute(1.0, 3.0),
        [_rows([[1.0, -1.0]], [2.0], [2.0])],
        2.0,
        point=[2.0, 0.0],
        multipliers=[-1.0],
    ),
    _known(
        "square, one row: the projection",
        _square(1.0, 1.0),
        [_at_least(2.0, 1.0, 1.0)],
        2.0,
        point=[1.0, 1.0],
        multipliers=[-2.0],
    ),
    _known(
        "square, one column is full",
        _square(1.0, 1.0),
        [_at_least(2.0, 1.0, 1.0), _between([-INF, -INF], [0.5, INF])],
        2.5,
        point=[0.5, 1.5],
        multipliers=[-3.0],
    ),
    _known(
        "full matrix, one row",
        FULL,
        [_at_least(2.0, 1.0, 1.0)],
        6.0,
        point=[1.0, 1.0],
        multipliers=[-6.0],
    ),
    _known(
        "full matrix, a column at its bound",
        FULL,
        [_at_least(2.0, 1.0, 1.0), _between([-INF, -INF], [0.0, INF])],
        8.0,
        point=[0.0, 2.0],
        multipliers=[-8.0],
    ),
    _known(
        "square, into a ball",
        _square(1.0, 1.0),
        [BALL],
        9.0,
        point=[1.8, 2.4],
        multipliers=[-3.6, -4.8],
    ),
    _known(
        "absolute, into a ball",
        _absolute(1.0, 1.0),
        [BALL],
        7.0 - 2.0 * np.sqrt(2.0),
        point=[3.0 - np.sqrt(2.0), 4.0 - np.sqrt(2.0)],
        multipliers=[-1.0, -1.0],
    ),
    _known(
        "square, two rivals with equal scores",
        _square(1.0),
        [LogSumExp(np.array([[-1.0], [-1.0]]), np.zeros(2), 0.0)],
        float(np.log(2.0) ** 2),
        point=[np.log(2.0)],
        multipliers=[np.log(2.0), np.log(2.0)],
    ),
    _known(
        "whole steps, absolute",
        _absolute(1.0),
        [_at_least(2.3, 1.0), _whole(0)],
        3.0,
        point=[3.0],
    ),
    _known(
        "whole steps, square",
        _square(1.0),
        [_at_least(2.3, 1.0), _whole(0)],
        9.0,
        point=[3.0],
    ),
    _known(
        "whole steps, full matrix: 2a² + 2ab + 2b² with a + b >= 1.5",
        FULL,
        [_at_least(1.5, 1.0, 1.0), _whole(0, 1)],
        6.0,
        point=[1.0, 1.0],
    ),
    _known(
        "whole steps in a ball",
        _square(1.0, 1.0),
        [Cone(np.eye(2), np.array([-2.5, 0.0]), 1.0), _whole(0, 1)],
        4.0,
        point=[2.0, 0.0],
    ),
    _known(
        "a category, absolute",
        _absolute(0.5, 0.5, 0.5, 1.0),
        [_at_least(4.0, 0.0, 2.0, 5.0, 1.0), OneOf(slice(0, 3))],
        1.0,
        point=[0.0, 0.0, 1.0, 0.0],
        x=[1.0, 0.0, 0.0, 0.0],
    ),
    _known(
        "a category and a number, square",
        Price(np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])),
        [_at_least(2.5, 0.0, 2.0, 1.0), OneOf(slice(0, 2))],
        1.25,
        point=[0.0, 1.0, 0.5],
        x=[1.0, 0.0, 0.0],
    ),
    _known(
        "a category that may not be chosen",
        _absolute(0.5, 0.5, 0.5, 1.0),
        [
            _at_least(4.0, 0.0, 2.0, 5.0, 1.0),
            OneOf(slice(0, 3)),
            Transitions(slice(0, 3), np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], dtype=bool)),
        ],
        3.0,
        point=[0.0, 1.0, 0.0, 2.0],
        x=[1.0, 0.0, 0.0, 0.0],
    ),
    _known(
        "at most one change, absolute",
        _absolute(1.0, 2.0),
        [_at_least(4.0, 1.0, 1.0), _between([-9.0, -9.0], [3.0, 5.0]), AtMost(1, TWO)],
        8.0,
        point=[0.0, 4.0],
    ),
    _known(
        "at most one change, square",
        _square(1.0, 2.0),
        [_at_least(2.0, 1.0, 1.0), AtMost(1, TWO)],
        4.0,
        point=[2.0, 0.0],
    ),
    _known(
        "a probability of two classes, square: half way",
        _square(1.0),
        [LogLoss(np.array([[2.0]]), np.array([1.0]))],
        0.25 + np.log(2.0),
        point=[-0.5],
        multipliers=[0.5],
    ),
    _known(
        "a probability of two classes, full matrix",
        FULL,
        [LogLoss(np.array([[3.0, 3.0]]), np.array([1.5]))],
        0.375 + np.log(2.0),
        point=[-0.25, -0.25],
        multipliers=[0.5],
    ),
    _known(
        "a probability of two classes, absolute: the cheaper column alone",
        _absolute(1.0, 1.0),
        [LogLoss(np.array([[2.0, 1.0]]), np.array([2.0]))],
        1.0 + np.log(2.0),
        point=[-1.0, 0.0],
        multipliers=[0.5],
    ),
    _known(
        "a probability that is not worth a change",
        _absolute(1.0),
        [LogLoss(np.array([[2.0]]), np.array([-1.0]))],
        np.log1p(np.exp(-1.0)),
        point=[0.0],
        multipliers=[1.0 / (1.0 + np.e)],
    ),
    _known(
        "a probability of three classes, square: thirds",
        _square(1.0, 1.0),
        [LogLoss(6.0 * np.eye(2), np.array([6.0, 6.0]))],
        2.0 + np.log(3.0),
        point=[-1.0, -1.0],
        multipliers=[1.0 / 3.0, 1.0 / 3.0],
    ),
    _known(
        "a probability of three classes, absolute",
        _absolute(1.0, 1.0),
        [LogLoss(3.0 * np.eye(2), np.array([3.0, 3.0]))],
        2.0 + np.log(3.0),
        point=[-1.0, -1.0],
        multipliers=[1.0 / 3.0, 1.0 / 3.0],
    ),
    _known(
        "a probability in a box, square",
        _square(1.0),
        [LogLoss(np.array([[2.0]]), np.array([1.0])), _between([-0.25], [INF])],
        0.0625 + np.log1p(np.exp(0.5)),
        point=[-0.25],
        multipliers=[1.0 / (1.0 + np.exp(-0.5))],
    ),
    _known(
        "a probability in a box, absolute: the second column takes over",
        _absolute(1.0, 1.5),
        [LogLoss(np.array([[4.0, 3.0]]), np.array([7.0])), _between([-1.0, -9.0], [INF, INF])],
        2.5 + np.log(2.0),
        point=[-1.0, -1.0],
        multipliers=[0.5],
    ),
    _known(
        "a probability of three classes in a box, square",
        _square(1.0, 1.0),
        [LogLoss(6.0 * np.eye(2), np.array([6.0, 6.0])), _between([-0.5, -0.5], [INF, INF])],
        0.5 + np.log1p(2.0 * np.exp(3.0)),
        point=[-0.5, -0.5],
        multipliers=[np.exp(3.0) / (1.0 + 2.0 * np.exp(3.0))] * 2,
    ),
    _known(
        "a probability and a row",
        _square(1.0),
        [_at_least(-0.25, 1.0), LogLoss(np.array([[2.0]]), np.array([1.0]))],
        0.0625 + np.log1p(np.exp(0.5)),
        point=[-0.25],
        multipliers=[0.5 - 2.0 / (1.0 + np.exp(-0.5)), 1.0 / (1.0 + np.exp(-0.5))],
    ),
    _known(
        "a probability in whole steps",
        _square(1.0),
        [LogLoss(np.array([[2.0]]), np.array([2.0])), _whole(0), _between([-9.0], [9.0])],
        1.0 + np.log(2.0),
        point=[-1.0],
    ),
    _known(
        "a probability and a category",
        _absolute(0.5, 0.5, 1.0),
        [LogLoss(np.array([[4.0, 0.0, 2.0]]), np.array([-2.0])), OneOf(slice(0, 2))],
        1.0 + np.log1p(np.exp(-2.0)),
        point=[0.0, 1.0, 0.0],
        x=[1.0, 0.0, 0.0],
    ),
    _known(
        "impossible: an empty interval and a probability",
        _square(1.0),
        [LogLoss(np.array([[2.0]]), np.array([1.0])), _between([2.0], [1.0])],
        INF,
        multipliers=[0.0],
    ),
    _known(
        "impossible: the row is out of the box",
        _absolute(1.0, 1.0),
        [_at_least(3.0, 1.0, 1.0), _between([-INF, -INF], [1.0, 1.0])],
        INF,
        multipliers=[-1.0],
    ),
    *(
        _known(
            f"impossible: an empty interval, {name}",
            price,
            [_at_least(1.0, 1.0, 1.0), _between([2.0, -INF], [1.0, INF])],
            INF,
            multipliers=[0.0],
        )
        for name, price in (
            ("absolute", _absolute(1.0, 1.0)),
            ("square", _square(1.0, 1.0)),
            ("full matrix", FULL),
        )
    ),
    _known(
        "impossible: an empty interval and a category",
        _absolute(0.5, 0.5, 1.0),
        [
            _at_least(1.0, 0.0, 1.0, 1.0),
            OneOf(slice(0, 2)),
            _between([-INF, -INF, 2.0], [INF, INF, 1.0]),
        ],
        INF,
        multipliers=[0.0],
        x=[1.0, 0.0, 0.0],
    ),
    _known(
        "impossible: two rows contradict",
        _square(1.0, 1.0),
        [_rows([[1.0, 1.0], [1.0, 1.0]], [3.0, -INF], [INF, 1.0])],
        INF,
        multipliers=[-1.0, 1.0],
    ),
    _known(
        "impossible: the box is out of the ball",
        _square(1.0, 1.0),
        [BALL, _between([-INF, -INF], [0.0, INF])],
        INF,
        multipliers=[-1.0, 0.0],
    ),
    _known(
        "impossible: the rivals stay ahead",
        _square(1.0),
        [LogSumExp(np.array([[-1.0], [-1.0]]), np.zeros(2), 0.0), _between([-INF], [0.5])],
        INF,
        multipliers=[0.5, 0.5],
    ),
    _known(
        "impossible: no whole step meets the equation",
        _absolute(1.0),
        [_rows([[2.0]], [1.0], [1.0]), _whole(0), _between([-9.0], [9.0])],
        INF,
    ),
    _known(
        "impossible: two changes are needed",
        _absolute(1.0, 1.0),
        [_at_least(4.0, 1.0, 1.0), _between([-3.0, -3.0], [3.0, 3.0]), AtMost(1, TWO)],
        INF,
        multipliers=[-1.0],
    ),
)
"""Programs of every kind of price and condition, with answers and without."""
