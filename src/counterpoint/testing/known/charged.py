"""Probabilities that are weighed against the price."""

from __future__ import annotations

import numpy as np

from counterpoint.engine.couplings import LogLoss
from counterpoint.engine.domains import OneOf
from counterpoint.testing.known.build import (
    FULL,
    INF,
    Known,
    absolute,
    at_least,
    between,
    known,
    square,
    whole,
)

__all__ = ["CHARGED"]

CHARGED: tuple[Known, ...] = (
    known(
        "a probability of two classes, square: half way",
        square(1.0),
        [LogLoss(np.array([[2.0]]), np.array([1.0]))],
        0.25 + np.log(2.0),
        point=[-0.5],
        multipliers=[0.5],
    ),
    known(
        "a probability of two classes, full matrix",
        FULL,
        [LogLoss(np.array([[3.0, 3.0]]), np.array([1.5]))],
        0.375 + np.log(2.0),
        point=[-0.25, -0.25],
        multipliers=[0.5],
    ),
    known(
        "a probability of two classes, absolute: the cheaper column alone",
        absolute(1.0, 1.0),
        [LogLoss(np.array([[2.0, 1.0]]), np.array([2.0]))],
        1.0 + np.log(2.0),
        point=[-1.0, 0.0],
        multipliers=[0.5],
    ),
    known(
        "a probability that is not worth a change",
        absolute(1.0),
        [LogLoss(np.array([[2.0]]), np.array([-1.0]))],
        np.log1p(np.exp(-1.0)),
        point=[0.0],
        multipliers=[1.0 / (1.0 + np.e)],
    ),
    known(
        "a probability of three classes, square: thirds",
        square(1.0, 1.0),
        [LogLoss(6.0 * np.eye(2), np.array([6.0, 6.0]))],
        2.0 + np.log(3.0),
        point=[-1.0, -1.0],
        multipliers=[1.0 / 3.0, 1.0 / 3.0],
    ),
    known(
        "a probability of three classes, absolute",
        absolute(1.0, 1.0),
        [LogLoss(3.0 * np.eye(2), np.array([3.0, 3.0]))],
        2.0 + np.log(3.0),
        point=[-1.0, -1.0],
        multipliers=[1.0 / 3.0, 1.0 / 3.0],
    ),
    known(
        "a probability in a box, square",
        square(1.0),
        [LogLoss(np.array([[2.0]]), np.array([1.0])), between([-0.25], [INF])],
        0.0625 + np.log1p(np.exp(0.5)),
        point=[-0.25],
        multipliers=[1.0 / (1.0 + np.exp(-0.5))],
    ),
    known(
        "a probability in a box, absolute: the second column takes over",
        absolute(1.0, 1.5),
        [LogLoss(np.array([[4.0, 3.0]]), np.array([7.0])), between([-1.0, -9.0], [INF, INF])],
        2.5 + np.log(2.0),
        point=[-1.0, -1.0],
        multipliers=[0.5],
    ),
    known(
        "a probability of three classes in a box, square",
        square(1.0, 1.0),
        [LogLoss(6.0 * np.eye(2), np.array([6.0, 6.0])), between([-0.5, -0.5], [INF, INF])],
        0.5 + np.log1p(2.0 * np.exp(3.0)),
        point=[-0.5, -0.5],
        multipliers=[np.exp(3.0) / (1.0 + 2.0 * np.exp(3.0))] * 2,
    ),
    known(
        "a probability and a row",
        square(1.0),
        [at_least(-0.25, 1.0), LogLoss(np.array([[2.0]]), np.array([1.0]))],
        0.0625 + np.log1p(np.exp(0.5)),
        point=[-0.25],
        multipliers=[0.5 - 2.0 / (1.0 + np.exp(-0.5)), 1.0 / (1.0 + np.exp(-0.5))],
    ),
    known(
        "a probability in whole steps",
        square(1.0),
        [LogLoss(np.array([[2.0]]), np.array([2.0])), whole(0), between([-9.0], [9.0])],
        1.0 + np.log(2.0),
        point=[-1.0],
    ),
    known(
        "a probability and a category",
        absolute(0.5, 0.5, 1.0),
        [LogLoss(np.array([[4.0, 0.0, 2.0]]), np.array([-2.0])), OneOf(slice(0, 2))],
        1.0 + np.log1p(np.exp(-2.0)),
        point=[0.0, 1.0, 0.0],
        x=[1.0, 0.0, 0.0],
    ),
)
