"""Programs without a point, and what refutes them."""

from __future__ import annotations

import numpy as np

from counterpoint.engine.couplings import LogLoss, LogSumExp
from counterpoint.engine.domains import AtMost, OneOf
from counterpoint.testing.known.build import (
    BALL,
    FULL,
    INF,
    TWO,
    UPWARDS,
    Known,
    absolute,
    at_least,
    between,
    known,
    rows,
    square,
    whole,
)

__all__ = ["IMPOSSIBLE"]

IMPOSSIBLE: tuple[Known, ...] = (
    known(
        "impossible: an empty interval and a probability",
        square(1.0),
        [LogLoss(np.array([[2.0]]), np.array([1.0])), between([2.0], [1.0])],
        INF,
        multipliers=[0.0],
    ),
    known(
        "impossible: the row is out of the box",
        absolute(1.0, 1.0),
        [at_least(3.0, 1.0, 1.0), between([-INF, -INF], [1.0, 1.0])],
        INF,
        multipliers=[-1.0],
    ),
    *(
        known(
            f"impossible: an empty interval, {name}",
            price,
            [at_least(1.0, 1.0, 1.0), between([2.0, -INF], [1.0, INF])],
            INF,
            multipliers=[0.0],
        )
        for name, price in (
            ("absolute", absolute(1.0, 1.0)),
            ("square", square(1.0, 1.0)),
            ("full matrix", FULL),
        )
    ),
    known(
        "impossible: an empty interval and a category",
        absolute(0.5, 0.5, 1.0),
        [
            at_least(1.0, 0.0, 1.0, 1.0),
            OneOf(slice(0, 2)),
            between([-INF, -INF, 2.0], [INF, INF, 1.0]),
        ],
        INF,
        multipliers=[0.0],
        x=[1.0, 0.0, 0.0],
    ),
    known(
        "impossible: two rows contradict",
        square(1.0, 1.0),
        [rows([[1.0, 1.0], [1.0, 1.0]], [3.0, -INF], [INF, 1.0])],
        INF,
        multipliers=[-1.0, 1.0],
    ),
    known(
        "impossible: the box is out of the ball",
        square(1.0, 1.0),
        [BALL, between([-INF, -INF], [0.0, INF])],
        INF,
        multipliers=[-1.0, 0.0],
    ),
    known(
        "impossible: the box is below the apex of a cone that opens upwards",
        square(1.0, 1.0),
        [UPWARDS, between([-INF, -INF], [INF, 1.0])],
        INF,
        multipliers=[0.0, 1.0],
    ),
    known(
        "impossible: the rivals stay ahead",
        square(1.0),
        [LogSumExp(np.array([[-1.0], [-1.0]]), np.zeros(2), 0.0), between([-INF], [0.5])],
        INF,
        multipliers=[0.5, 0.5],
    ),
    *(
        known(
            f"impossible: a rival has the label's own row, {name}",
            price,
            [LogSumExp(np.array([[0.0, 0.0], [1.0, -2.0]]), np.array([0.0, 1.0]), -0.5)],
            INF,
            multipliers=[1.0, 0.0],
        )
        for name, price in (("absolute", absolute(1.0, 1.0)), ("square", square(1.0, 1.0)))
    ),
    known(
        "impossible: no whole step meets the equation",
        absolute(1.0),
        [rows([[2.0]], [1.0], [1.0]), whole(0), between([-9.0], [9.0])],
        INF,
    ),
    known(
        "impossible: two changes are needed",
        absolute(1.0, 1.0),
        [at_least(4.0, 1.0, 1.0), between([-3.0, -3.0], [3.0, 3.0]), AtMost(1, TWO)],
        INF,
        multipliers=[-1.0],
    ),
)
