"""Whole steps, categories, and few changes."""

from __future__ import annotations

import numpy as np

from counterpoint.costs import Price
from counterpoint.engine.couplings import Cone
from counterpoint.engine.domains import AtMost, OneOf, Transitions
from counterpoint.testing.known.build import (
    FULL,
    TWO,
    Known,
    absolute,
    at_least,
    between,
    known,
    square,
    whole,
)

__all__ = ["INTEGRAL"]

INTEGRAL: tuple[Known, ...] = (
    known(
        "whole steps, absolute",
        absolute(1.0),
        [at_least(2.3, 1.0), whole(0)],
        3.0,
        point=[3.0],
    ),
    known(
        "whole steps, square",
        square(1.0),
        [at_least(2.3, 1.0), whole(0)],
        9.0,
        point=[3.0],
    ),
    known(
        "whole steps, full matrix: 2a² + 2ab + 2b² with a + b >= 1.5",
        FULL,
        [at_least(1.5, 1.0, 1.0), whole(0, 1)],
        6.0,
        point=[1.0, 1.0],
    ),
    known(
        "whole steps in a ball",
        square(1.0, 1.0),
        [Cone(np.eye(2), np.array([-2.5, 0.0]), 1.0), whole(0, 1)],
        4.0,
        point=[2.0, 0.0],
    ),
    known(
        "a category, absolute",
        absolute(0.5, 0.5, 0.5, 1.0),
        [at_least(4.0, 0.0, 2.0, 5.0, 1.0), OneOf(slice(0, 3))],
        1.0,
        point=[0.0, 0.0, 1.0, 0.0],
        x=[1.0, 0.0, 0.0, 0.0],
    ),
    known(
        "a category and a number, square",
        Price(np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])),
        [at_least(2.5, 0.0, 2.0, 1.0), OneOf(slice(0, 2))],
        1.25,
        point=[0.0, 1.0, 0.5],
        x=[1.0, 0.0, 0.0],
    ),
    known(
        "a category that may not be chosen",
        absolute(0.5, 0.5, 0.5, 1.0),
        [
            at_least(4.0, 0.0, 2.0, 5.0, 1.0),
            OneOf(slice(0, 3)),
            Transitions(slice(0, 3), np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], dtype=bool)),
        ],
        3.0,
        point=[0.0, 1.0, 0.0, 2.0],
        x=[1.0, 0.0, 0.0, 0.0],
    ),
    known(
        "at most one change, absolute",
        absolute(1.0, 2.0),
        [at_least(4.0, 1.0, 1.0), between([-9.0, -9.0], [3.0, 5.0]), AtMost(1, TWO)],
        8.0,
        point=[0.0, 4.0],
    ),
    known(
        "at most one change, square",
        square(1.0, 2.0),
        [at_least(2.0, 1.0, 1.0), AtMost(1, TWO)],
        4.0,
        point=[2.0, 0.0],
    ),
)
