"""Programs of the families of models, with their optima and multipliers, derived by hand."""

from __future__ import annotations

import numpy as np

from counterpoint.families.additive.curves import Curve
from counterpoint.families.additive.sums import SumBounds
from counterpoint.families.prototypes.quadratic_difference import QuadraticDifference
from counterpoint.programs.conditions import Cone, LinearBounds
from counterpoint.testing import KNOWN as GENERAL
from counterpoint.testing import Known
from counterpoint.testing.known import (
    FULL,
    INF,
    Solved,
    absolute,
    at_least,
    between,
    one_of,
    solved,
    square,
    whole,
)

__all__ = ["KNOWN"]


def sum_at_least(least: float, row: list[float], *curves: tuple[int, Curve]) -> SumBounds:
    """A sum over columns and curves, with a lower bound."""
    rows = LinearBounds(np.array([row]), np.array([least]), np.array([np.inf]))
    return SumBounds(rows, curves)


def additive_programs() -> dict[str, Solved]:
    """Programs with bins and powers, with their optima."""
    bins = Curve.steps([-np.inf, 2.0, 5.0], [0.0, 1.0, 3.0])
    power, cube = (Curve.polynomial([0.0] * k + [1.0]) for k in (2, 3))
    one, both = between([-9.0], [9.0]), between([-9.0, -9.0], [9.0, 9.0])
    return {
        "bins, absolute: the third one": solved(
            absolute(1), sum_at_least(2.0, [0.0, 1.0], (0, bins)), one, cost=5, point=[5]
        ),
        "bins and a column, absolute: the second bin and a little": solved(
            absolute(1, 1),
            sum_at_least(2.0, [0.0, 1.0, 1.0], (0, bins)),
            both,
            cost=2,
            point=[0, 2],
        ),
        "a square of whole steps, absolute: y² >= 5": solved(
            absolute(1),
            sum_at_least(5.0, [0.0, 1.0], (0, power)),
            whole(0),
            between([0.0], [9.0]),
            cost=3,
            point=[3],
        ),
        "a square, squared: y² + 3 z >= 4 from (1, 0)": solved(
            square(1, 1),
            sum_at_least(4.0, [0.0, 3.0, 1.0], (0, power)),
            between([0.0, 0.0], [9.0, 0.0]),
            x=[1, 0],
            cost=1,
            point=[2, 0],
        ),
        "a square, absolute: y² >= 4": solved(
            absolute(1),
            sum_at_least(4.0, [0.0, 1.0], (0, power)),
            between([0.0], [9.0]),
            cost=2,
            point=[2],
        ),
        "a square, absolute: y² <= 1 from 3": solved(
            absolute(1), sum_at_least(-1.0, [0.0, -1.0], (0, power)), one, x=[3], cost=2, point=[1]
        ),
        "a cube, squared: y³ >= 8": solved(
            square(1), sum_at_least(8.0, [0.0, 1.0], (0, cube)), one, cost=4, point=[2]
        ),
        "a square and a cheap column, absolute: y² + z >= 4": solved(
            absolute(1, 0.1),
            sum_at_least(4.0, [0.0, 1.0, 1.0], (0, power)),
            between([0.0, 0.0], [9.0, 9.0]),
            cost=0.4,
            point=[0, 4],
        ),
        "a square or a category, absolute": solved(
            absolute(0.5, 0.5, 1),
            sum_at_least(5.0, [0.0, 5.0, 0.0, 1.0], (2, power)),
            between([-np.inf, -np.inf, 0.0], [np.inf, np.inf, 9.0]),
            one_of(2),
            x=[1, 0, 0],
            cost=1,
            point=[0, 1, 0],
        ),
        "impossible: a square that does not reach": solved(
            square(1), sum_at_least(100.0, [0.0, 1.0], (0, power)), between([-3.0], [3.0])
        ),
        "impossible: bins that do not reach": solved(
            absolute(1), sum_at_least(4.0, [0.0, 1.0], (0, bins)), one
        ),
    }


def outside(radius: float, *center: float) -> QuadraticDifference:
    """At least so far from a center."""
    d = len(center)
    return QuadraticDifference(
        np.zeros((1, d)), np.zeros(1), np.eye(d), -np.array(center), -(radius**2)
    )


def inside(radius: float, *center: float) -> QuadraticDifference:
    """At most so far from a center."""
    d = len(center)
    return QuadraticDifference(
        np.eye(d), -np.array(center), np.zeros((1, d)), np.zeros(1), radius**2
    )


def prototype_programs() -> dict[str, Solved]:
    """Programs with quadratic conditions, with their optima and multipliers."""
    line, plane, lengths = square(1.0), square(1.0, 1.0), absolute(1.0, 1.0)
    disc, ball = outside(2.0, 0.0, 0.0), Cone(np.eye(2), np.array([-3.0, 0.0]), 2.0)
    discs = outside(np.sqrt(2.0), 0.0, 1.0), outside(np.sqrt(2.0), 0.0, -1.0)
    # (a − 3)² <= a² / 4: between 2 and 6
    half = QuadraticDifference(np.eye(1), np.array([-3.0]), np.array([[0.5]]), np.zeros(1), 0.0)
    negative = QuadraticDifference(np.eye(2), np.zeros(2), np.zeros((1, 2)), np.zeros(1), -1.0)
    same = QuadraticDifference(np.eye(2), np.ones(2), np.eye(2), np.ones(2), -1.0)
    root, three = np.sqrt(2.0), np.sqrt(3.0)
    height = np.sqrt(1.75)  # where the circle of radius 2 around 0 is at 1.5
    bound, row = between([-INF, -INF], [1.5, INF]), at_least(1.0, 0.0, 1.0)
    right, near, low = [1.0, 0.0], [0.5, 0.0], [1.0, 0.2]
    disc_and_row = [three, 1.0], [-2.0 / three, 1.0 - 1.0 / three]
    full = [root, root], [3.0 - 3.0 / root]
    at_bound = [1.5, height], [1.0 - 0.2 / height]
    thirds = [2.0], [4.0 / 3.0]
    return {
        "square, out of a disc": solved(
            plane, disc, x=right, cost=1, point=[2, 0], multipliers=[0.5]
        ),
        "square, out of a disc from its center: any way is as good": solved(
            plane, disc, cost=4, point=[0, 2]
        ),
        "absolute, out of a disc": solved(
            lengths, disc, x=right, cost=1, point=[2, 0], multipliers=[0.5, 0]
        ),
        "full matrix, out of a disc": solved(
            FULL, disc, x=[1, 1], cost=6 * (root - 1) ** 2, point=full[0], multipliers=full[1]
        ),
        "square, out of two discs, where they meet": solved(
            plane, *discs, x=near, cost=0.25, point=right, multipliers=[0.25, 0.25]
        ),
        "absolute, out of two discs, where they meet": solved(
            lengths, *discs, x=near, cost=0.5, point=right, multipliers=[0.25, 0.25, 0]
        ),
        "square, out of a disc, a column at its bound": solved(
            plane,
            disc,
            bound,
            x=low,
            cost=0.25 + (height - 0.2) ** 2,
            point=at_bound[0],
            multipliers=at_bound[1],
        ),
        "square, out of a disc along a line": solved(
            plane,
            disc,
            row,
            x=right,
            cost=1 + (three - 1) ** 2,
            point=disc_and_row[0],
            multipliers=disc_and_row[1],
        ),
        "square, out of a disc within a ball": solved(
            plane, disc, ball, x=near, cost=2.25, point=[2, 0], multipliers=[0, 0, 0.75, 0]
        ),
        "square, nearer to one of two in metrics of their own": solved(
            line, half, cost=4, point=thirds[0], multipliers=thirds[1]
        ),
        "absolute, nearer to one of two in metrics of their own": solved(
            absolute(1), half, cost=2, point=thirds[0], multipliers=thirds[1]
        ),
        "whole steps, nearer to one of two in metrics of their own": solved(
            absolute(1), half, whole(0), cost=2, point=thirds[0], multipliers=thirds[1]
        ),
        "impossible: nowhere that near": solved(plane, negative, multipliers=[1]),
        "impossible: nearer to one of two at the same place by some margin": solved(
            lengths, same, multipliers=[1, 0]
        ),
        "impossible: a row keeps out of a disc": solved(
            plane, inside(2.0, 0.0, 0.0), at_least(3, 1, 0), multipliers=[-6, 1]
        ),
        "impossible: an empty interval and a disc": solved(
            absolute(1), half, between([2], [1]), multipliers=[0, 0]
        ),
    }


KNOWN = (
    *GENERAL,
    *(Known(name, *entry) for name, entry in (additive_programs() | prototype_programs()).items()),
)
"""Programs of every kind of cost and condition, with answers and without."""
