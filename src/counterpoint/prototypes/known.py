"""Quadratic conditions that are not convex."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterpoint.engine.couplings import Cone
from counterpoint.prototypes.nearer import Nearer

if TYPE_CHECKING:
    from counterpoint.testing.known import Known

__all__ = ["programs"]


def outside(radius: float, *center: float) -> Nearer:
    """At least so far from a center."""
    d = len(center)
    return Nearer(np.zeros((1, d)), np.zeros(1), np.eye(d), -np.array(center), -(radius**2))


def inside(radius: float, *center: float) -> Nearer:
    """At most so far from a center."""
    d = len(center)
    return Nearer(np.eye(d), -np.array(center), np.zeros((1, d)), np.zeros(1), radius**2)


def programs() -> tuple[Known, ...]:  # made when asked for: the package of checks asks for it
    """Programs with quadratic conditions, with their optima and multipliers."""
    from counterpoint.testing.known import (
        FULL,
        INF,
        absolute,
        at_least,
        between,
        impossible,
        known,
        optimum,
        program,
        square,
        whole,
    )

    line, plane, lengths = square(1.0), square(1.0, 1.0), absolute(1.0, 1.0)
    disc, ball = outside(2.0, 0.0, 0.0), Cone(np.eye(2), np.array([-3.0, 0.0]), 2.0)
    discs = outside(np.sqrt(2.0), 0.0, 1.0), outside(np.sqrt(2.0), 0.0, -1.0)
    # (a − 3)² <= a² / 4: between 2 and 6
    half = Nearer(np.eye(1), np.array([-3.0]), np.array([[0.5]]), np.zeros(1), 0.0)
    negative = Nearer(np.eye(2), np.zeros(2), np.zeros((1, 2)), np.zeros(1), -1.0)
    same = Nearer(np.eye(2), np.ones(2), np.eye(2), np.ones(2), -1.0)
    root, three = np.sqrt(2.0), np.sqrt(3.0)
    height = np.sqrt(1.75)  # where the circle of radius 2 around 0 is at 1.5
    bound, row = between([-INF, -INF], [1.5, INF]), at_least(1.0, 0.0, 1.0)
    right, near, low = [1.0, 0.0], [0.5, 0.0], [1.0, 0.2]
    disc_and_row = [three, 1.0], [-2.0 / three, 1.0 - 1.0 / three]
    full = [root, root], [3.0 - 3.0 / root]
    at_bound = [1.5, height], [1.0 - 0.2 / height]
    thirds = [2.0], [4.0 / 3.0]
    table = {
        "square, out of a disc": (program(plane, disc, x=right), optimum(1.0, [2.0, 0.0], [0.5])),
        "square, out of a disc from its center: any way is as good": (
            program(plane, disc),
            optimum(4.0, [0.0, 2.0]),
        ),
        "absolute, out of a disc": (
            program(lengths, disc, x=right),
            optimum(1.0, [2.0, 0.0], [0.5, 0.0]),
        ),
        "full matrix, out of a disc": (
            program(FULL, disc, x=[1.0, 1.0]),
            optimum(6.0 * (root - 1.0) ** 2, *full),
        ),
        "square, out of two discs, where they meet": (
            program(plane, *discs, x=near),
            optimum(0.25, right, [0.25, 0.25]),
        ),
        "absolute, out of two discs, where they meet": (
            program(lengths, *discs, x=near),
            optimum(0.5, right, [0.25, 0.25, 0.0]),
        ),
        "square, out of a disc, a column at its bound": (
            program(plane, disc, bound, x=low),
            optimum(0.25 + (height - 0.2) ** 2, *at_bound),
        ),
        "square, out of a disc along a line": (
            program(plane, disc, row, x=right),
            optimum(1.0 + (three - 1.0) ** 2, *disc_and_row),
        ),
        "square, out of a disc within a ball": (
            program(plane, disc, ball, x=near),
            optimum(2.25, [2.0, 0.0], [0.0, 0.0, 0.75]),
        ),
        "square, nearer to one of two in metrics of their own": (
            program(line, half),
            optimum(4.0, *thirds),
        ),
        "absolute, nearer to one of two in metrics of their own": (
            program(absolute(1.0), half),
            optimum(2.0, *thirds),
        ),
        "whole steps, nearer to one of two in metrics of their own": (
            program(absolute(1.0), half, whole(0)),
            optimum(2.0, *thirds),
        ),
        "impossible: nowhere that near": (program(plane, negative), impossible([1.0])),
        "impossible: nearer to one of two at the same place by some margin": (
            program(lengths, same),
            impossible([1.0, 0.0]),
        ),
        "impossible: a row keeps out of a disc": (
            program(plane, inside(2.0, 0.0, 0.0), at_least(3.0, 1.0, 0.0)),
            impossible([-6.0, 1.0]),
        ),
        "impossible: an empty interval and a disc": (
            program(absolute(1.0), half, between([2.0], [1.0])),
            impossible([0.0, 0.0]),
        ),
    }
    return tuple(known(name, *entry) for name, entry in table.items())
