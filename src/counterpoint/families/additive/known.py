"""Sums of functions of single columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterpoint.families.additive.curves import Curve
from counterpoint.families.additive.sums import SumBounds
from counterpoint.programs.conditions import LinearBounds

if TYPE_CHECKING:
    from counterpoint.testing.known import Solved

__all__ = ["programs"]


def at_least(least: float, row: list[float], *curves: tuple[int, Curve]) -> SumBounds:
    """A sum over columns and curves, with a lower bound."""
    rows = LinearBounds(np.array([row]), np.array([least]), np.array([np.inf]))
    return SumBounds(rows, curves)


def programs() -> dict[str, Solved]:  # made when asked for: the package of checks asks for it
    """Programs with bins and powers, with their optima."""
    from counterpoint.testing.known import absolute, between, one_of, solved, square, whole

    bins = Curve.steps([-np.inf, 2.0, 5.0], [0.0, 1.0, 3.0])
    power, cube = (Curve.polynomial([0.0] * k + [1.0]) for k in (2, 3))
    one, both = between([-9.0], [9.0]), between([-9.0, -9.0], [9.0, 9.0])
    return {
        "bins, absolute: the third one": solved(
            absolute(1), at_least(2.0, [0.0, 1.0], (0, bins)), one, cost=5, point=[5]
        ),
        "bins and a column, absolute: the second bin and a little": solved(
            absolute(1, 1), at_least(2.0, [0.0, 1.0, 1.0], (0, bins)), both, cost=2, point=[0, 2]
        ),
        "a square of whole steps, absolute: y² >= 5": solved(
            absolute(1),
            at_least(5.0, [0.0, 1.0], (0, power)),
            whole(0),
            between([0.0], [9.0]),
            cost=3,
            point=[3],
        ),
        "a square, squared: y² + 3 z >= 4 from (1, 0)": solved(
            square(1, 1),
            at_least(4.0, [0.0, 3.0, 1.0], (0, power)),
            between([0.0, 0.0], [9.0, 0.0]),
            x=[1, 0],
            cost=1,
            point=[2, 0],
        ),
        "a square, absolute: y² >= 4": solved(
            absolute(1),
            at_least(4.0, [0.0, 1.0], (0, power)),
            between([0.0], [9.0]),
            cost=2,
            point=[2],
        ),
        "a square, absolute: y² <= 1 from 3": solved(
            absolute(1), at_least(-1.0, [0.0, -1.0], (0, power)), one, x=[3], cost=2, point=[1]
        ),
        "a cube, squared: y³ >= 8": solved(
            square(1), at_least(8.0, [0.0, 1.0], (0, cube)), one, cost=4, point=[2]
        ),
        "a square and a cheap column, absolute: y² + z >= 4": solved(
            absolute(1, 0.1),
            at_least(4.0, [0.0, 1.0, 1.0], (0, power)),
            between([0.0, 0.0], [9.0, 9.0]),
            cost=0.4,
            point=[0, 4],
        ),
        "a square or a category, absolute": solved(
            absolute(0.5, 0.5, 1),
            at_least(5.0, [0.0, 5.0, 0.0, 1.0], (2, power)),
            between([-np.inf, -np.inf, 0.0], [np.inf, np.inf, 9.0]),
            one_of(2),
            x=[1, 0, 0],
            cost=1,
            point=[0, 1, 0],
        ),
        "impossible: a square that does not reach": solved(
            square(1), at_least(100.0, [0.0, 1.0], (0, power)), between([-3.0], [3.0])
        ),
        "impossible: bins that do not reach": solved(
            absolute(1), at_least(4.0, [0.0, 1.0], (0, bins)), one
        ),
    }
