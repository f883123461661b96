"""Linear rows and bounds: prices of every kind."""

from __future__ import annotations

from counterpoint.testing.known.build import (
    FULL,
    INF,
    Known,
    absolute,
    at_least,
    between,
    known,
    rows,
    square,
)

__all__ = ["ROWS"]

ROWS: tuple[Known, ...] = (
    known(
        "absolute, one row: the better buy",
        absolute(2.0, 1.0),
        [at_least(3.0, 1.0, 1.0)],
        3.0,
        point=[0.0, 3.0],
        multipliers=[-1.0],
    ),
    known(
        "absolute, two rows",
        absolute(1.0, 2.0),
        [rows([[1.0, 1.0], [1.0, 0.0]], [4.0, -INF], [INF, 3.0])],
        5.0,
        point=[3.0, 1.0],
        multipliers=[-2.0, 1.0],
    ),
    known(
        "absolute, the cheap column is full",
        absolute(1.0, 2.0),
        [at_least(4.0, 1.0, 1.0), between([-INF, -INF], [3.0, INF])],
        5.0,
        point=[3.0, 1.0],
        multipliers=[-2.0],
    ),
    known(
        "absolute, nothing to do",
        absolute(1.0, 1.0),
        [at_least(-1.0, 1.0, 1.0)],
        0.0,
        point=[0.0, 0.0],
        multipliers=[0.0],
    ),
    known(
        "absolute, an equation",
        absolute(1.0, 3.0),
        [rows([[1.0, -1.0]], [2.0], [2.0])],
        2.0,
        point=[2.0, 0.0],
        multipliers=[-1.0],
    ),
    known(
        "square, one row: the projection",
        square(1.0, 1.0),
        [at_least(2.0, 1.0, 1.0)],
        2.0,
        point=[1.0, 1.0],
        multipliers=[-2.0],
    ),
    known(
        "square, one column is full",
        square(1.0, 1.0),
        [at_least(2.0, 1.0, 1.0), between([-INF, -INF], [0.5, INF])],
        2.5,
        point=[0.5, 1.5],
        multipliers=[-3.0],
    ),
    known(
        "full matrix, one row",
        FULL,
        [at_least(2.0, 1.0, 1.0)],
        6.0,
        point=[1.0, 1.0],
        multipliers=[-6.0],
    ),
    known(
        "full matrix, a column at its bound",
        FULL,
        [at_least(2.0, 1.0, 1.0), between([-INF, -INF], [0.0, INF])],
        8.0,
        point=[0.0, 2.0],
        multipliers=[-8.0],
    ),
)
