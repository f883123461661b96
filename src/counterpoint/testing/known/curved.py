"""Balls, and several rivals at once."""

from __future__ import annotations

import numpy as np

from counterpoint.engine.couplings import Cone, LogSumExp
from counterpoint.testing.known.build import (
    BALL,
    FULL,
    UPWARDS,
    Known,
    absolute,
    known,
    square,
    whole,
)

__all__ = ["CURVED"]

HYPERBOLA = Cone(np.diag([1.0, 0.0]), np.array([0.0, 1.0]), 0.0, np.array([0.0, 1.0]))
"""√(a² + 1) <= b."""

CURVED: tuple[Known, ...] = (
    known(
        "square, into a ball",
        square(1.0, 1.0),
        [BALL],
        9.0,
        point=[1.8, 2.4],
        multipliers=[-3.6, -4.8],
    ),
    known(
        "absolute, into a ball",
        absolute(1.0, 1.0),
        [BALL],
        7.0 - 2.0 * np.sqrt(2.0),
        point=[3.0 - np.sqrt(2.0), 4.0 - np.sqrt(2.0)],
        multipliers=[-1.0, -1.0],
    ),
    known(
        "square, into a cone that opens upwards: its apex",
        square(1.0, 1.0),
        [UPWARDS],
        4.0,
        point=[0.0, 2.0],
        multipliers=[0.0, 4.0],
    ),
    known(
        "square, into one branch of a hyperbola",
        square(1.0, 1.0),
        [HYPERBOLA],
        1.0,
        point=[0.0, 1.0],
        multipliers=[0.0, 2.0, 2.0],
    ),
    known(
        "full matrix, into a cone that opens upwards: its apex",
        FULL,
        [UPWARDS],
        14.0,
        point=[0.0, 2.0],
        x=[-1.0, 0.0],
        multipliers=[-8.0, 10.0],
    ),
    known(
        "absolute, into a cone that opens upwards: along the dearer column",
        absolute(1.0, 2.0),
        [Cone(np.array([[2.0, 0.0]]), np.array([-6.0]), 0.0, np.array([0.0, 1.0]))],
        3.0,
        point=[3.0, 0.0],
        multipliers=[-0.5, 2.0],
    ),
    known(
        "whole steps in a cone that opens upwards",
        square(1.0, 1.0),
        [Cone(np.eye(1, 2), np.array([-1.0]), -1.5, np.array([0.0, 1.0])), whole(0, 1)],
        5.0,
        point=[1.0, 2.0],
    ),
    known(
        "square, two rivals with equal scores",
        square(1.0),
        [LogSumExp(np.array([[-1.0], [-1.0]]), np.zeros(2), 0.0)],
        float(np.log(2.0) ** 2),
        point=[np.log(2.0)],
        multipliers=[np.log(2.0), np.log(2.0)],
    ),
)
