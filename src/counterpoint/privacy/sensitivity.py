"""How far the weights can move when one row changes: what the noise has to hide.

w₁ and w₂ minimise (2) on two data sets of n rows that differ in one row. With subgradients g_i of
the losses there, w = −C/n Σ g_i. The shared losses are convex, so their subgradients are monotone,
and in the inner product of w₁ − w₂ with itself only the rows that differ are left:

    ‖w₁ − w₂‖² ≤ C/n (g(w₂) − g(w₁))ᵀ(w₁ − w₂) ≤ 2 L κ C/n ‖w₁ − w₂‖

with L = 1 for the hinge and κ ≥ ‖φ‖₂. Weights within ``tol`` of the minimum are within √(2 tol) of
the minimiser, because (2) is 1-strongly convex; that is added for each of the two. ‖·‖₁ ≤ √F ‖·‖₂.
The whole proof is on the page *Private models*.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

__all__ = ["UPWARDS", "sensitivity_of"]

UPWARDS = 1.0 + 1e-12
"""More than what rounding takes away."""


def sensitivity_of(
    rule: Literal["tight", "rubinstein"], *, box: float, norm: float, tol: float
) -> float:
    """The largest ‖w₁ − w₂‖₂, in weight units.

    Parameters
    ----------
    rule
        ``"tight"``: 2 κ C/n + 2 √(2 tol). ``"rubinstein"``: the larger one of (10), 4 κ C/n.
    box
        C/n.
    norm
        κ.
    tol
        How far the objective may be from its minimum.
    """
    tight = 2.0 * norm * box + 2.0 * sqrt(2.0 * tol)
    return UPWARDS * (tight if rule == "tight" else max(4.0 * norm * box, tight))
