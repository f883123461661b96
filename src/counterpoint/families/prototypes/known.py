"""Quadratic conditions that are not convex."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterpoint.families.prototypes.nearer import QuadraticDifference
from counterpoint.programs.conditions import Cone

if TYPE_CHECKING:
    from counterpoint.testing.known import Solved

__all__ = ["programs"]


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


def programs() -> dict[str, Solved]:  # made when asked for: the package of checks asks for it
    """Programs with quadratic conditions, with their optima and multipliers."""
    from counterpoint.testing.known import (
        FULL,
        INF,
        absolute,
        at_least,
        between,
        solved,
        square,
        whole,
    )

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
            plane, disc, ball, x=near, cost=2.25, point=[2, 0], multipliers=[0, 0, 0.75]
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
