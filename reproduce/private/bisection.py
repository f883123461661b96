"""Algorithm 1 of the paper, as it is printed and as its code does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from private.papers_rules import k_paper

__all__ = ["Bisected", "bisect"]

FloatArray = NDArray[np.float64]
ACCURACY = 1e-5
"""The ε of the algorithm in the paper's repository."""


@dataclass(frozen=True, eq=False)
class Bisected:
    """What the algorithm returns, and how it came there.

    Parameters
    ----------
    point
        (d,) the last midpoint: it is returned whether or not it meets the rule.
    met
        Whether it does.
    lengths
        ‖upper − lower‖ after each step; negative where the midpoint meets the rule.
    """

    point: FloatArray
    satisfied: bool
    lengths: FloatArray


def bisect(
    safety_margin: Callable[[FloatArray], float],
    x: FloatArray,
    prototype: FloatArray,
    asked: float,
    accuracy: float = ACCURACY,
) -> Bisected:
    """Between x and the prototype, for g = asked − lead.

    Parameters
    ----------
    lead
        −y' φ(x)ᵀw̃.
    x, prototype
        (d,) where the search begins and ends.
    asked
        What the rule asks for, λ k ‖φ‖, which is the same everywhere.
    accuracy
        How long the last interval may be.
    """
    lower, upper, middle, missed = x, prototype, prototype, 0.0
    lengths = []
    while np.linalg.norm(upper - lower) > accuracy:
        middle = 0.5 * (upper + lower)
        missed = asked - safety_margin(middle)
        lower, upper = (lower, middle) if missed < 0.0 else (middle, upper)
        lengths.append(np.copysign(np.linalg.norm(upper - lower), missed))
    return Bisected(middle, bool(missed <= 0.0), np.array(lengths))


def asked_by_paper(scale: float, p: float) -> float:
    """λ √2 ln(1 / (2 (1 − p))), equation (16b) for ‖φ‖ = 1."""
    return scale * k_paper(p)
