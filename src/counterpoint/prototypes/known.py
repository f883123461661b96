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


ROOT = np.sqrt(2.0)
HALF = Nearer(np.eye(1), np.array([-3.0]), np.array([[0.5]]), np.zeros(1), 0.0)
"""(a − 3)² <= a² / 4: between 2 and 6."""
HEIGHT = np.sqrt(1.75)
"""Where the circle of radius 2 around 0 is at 1.5."""


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

    return (
        known(
            "square, out of a disc",
            program(square(1.0, 1.0), outside(2.0, 0.0, 0.0), x=[1.0, 0.0]),
            optimum(1.0, [2.0, 0.0], multipliers=[0.5]),
        ),
        known(
            "square, out of a disc from its center: any way is as good",
            program(square(1.0, 1.0), outside(2.0, 0.0, 0.0)),
            optimum(4.0, [0.0, 2.0]),
        ),
        known(
            "absolute, out of a disc",
            program(absolute(1.0, 1.0), outside(2.0, 0.0, 0.0), x=[1.0, 0.0]),
            optimum(1.0, [2.0, 0.0], multipliers=[0.5, 0.0]),
        ),
        known(
            "full matrix, out of a disc",
            program(FULL, outside(2.0, 0.0, 0.0), x=[1.0, 1.0]),
            optimum(6.0 * (ROOT - 1.0) ** 2, [ROOT, ROOT], multipliers=[3.0 - 3.0 / ROOT]),
        ),
        known(
            "square, out of two discs, where they meet",
            program(
                square(1.0, 1.0), outside(ROOT, 0.0, 1.0), outside(ROOT, 0.0, -1.0), x=[0.5, 0.0]
            ),
            optimum(0.25, [1.0, 0.0], multipliers=[0.25, 0.25]),
        ),
        known(
            "absolute, out of two discs, where they meet",
            program(
                absolute(1.0, 1.0), outside(ROOT, 0.0, 1.0), outside(ROOT, 0.0, -1.0), x=[0.5, 0.0]
            ),
            optimum(0.5, [1.0, 0.0], multipliers=[0.25, 0.25, 0.0]),
        ),
        known(
            "square, out of a disc, a column at its bound",
            program(
                square(1.0, 1.0),
                outside(2.0, 0.0, 0.0),
                between([-INF, -INF], [1.5, INF]),
                x=[1.0, 0.2],
            ),
            optimum(0.25 + (HEIGHT - 0.2) ** 2, [1.5, HEIGHT], multipliers=[1.0 - 0.2 / HEIGHT]),
        ),
        known(
            "square, out of a disc along a line",
            program(
                square(1.0, 1.0), outside(2.0, 0.0, 0.0), at_least(1.0, 0.0, 1.0), x=[1.0, 0.0]
            ),
            optimum(
                1.0 + (np.sqrt(3.0) - 1.0) ** 2,
                [np.sqrt(3.0), 1.0],
                multipliers=[-2.0 / np.sqrt(3.0), 1.0 - 1.0 / np.sqrt(3.0)],
            ),
        ),
        known(
            "square, out of a disc within a ball",
            program(
                square(1.0, 1.0),
                outside(2.0, 0.0, 0.0),
                Cone(np.eye(2), np.array([-3.0, 0.0]), 2.0),
                x=[0.5, 0.0],
            ),
            optimum(2.25, [2.0, 0.0], multipliers=[0.0, 0.0, 0.75]),
        ),
        known(
            "square, nearer to one of two in metrics of their own",
            program(square(1.0), HALF),
            optimum(4.0, [2.0], multipliers=[4.0 / 3.0]),
        ),
        known(
            "absolute, nearer to one of two in metrics of their own",
            program(absolute(1.0), HALF),
            optimum(2.0, [2.0], multipliers=[4.0 / 3.0]),
        ),
        known(
            "whole steps, nearer to one of two in metrics of their own",
            program(absolute(1.0), HALF, whole(0)),
            optimum(2.0, [2.0], multipliers=[4.0 / 3.0]),
        ),
        known(
            "impossible: nowhere that near",
            program(
                square(1.0, 1.0),
                Nearer(np.eye(2), np.zeros(2), np.zeros((1, 2)), np.zeros(1), -1.0),
            ),
            impossible([1.0]),
        ),
        known(
            "impossible: nearer to one of two at the same place by some margin",
            program(absolute(1.0, 1.0), Nearer(np.eye(2), np.ones(2), np.eye(2), np.ones(2), -1.0)),
            impossible([1.0, 0.0]),
        ),
        known(
            "impossible: a row keeps out of a disc",
            program(square(1.0, 1.0), inside(2.0, 0.0, 0.0), at_least(3.0, 1.0, 0.0)),
            impossible([-6.0, 1.0]),
        ),
        known(
            "impossible: an empty interval and a disc",
            program(absolute(1.0), HALF, between([2.0], [1.0])),
            impossible([0.0, 0.0]),
        ),
    )
