"""Quantiles of projected Laplace noise from the norm of φ alone: k(p) with q_p(φ) ≈ λ k(p) ‖φ‖₂.

========================  ==============================================================
`k_paper`                 that of the paper, whose law is another one (16b)
`k_laplace`               exact where a single entry of φ is not 0
`k_pair`                  exact where two entries are not 0, of the same size
`k_normal`                the limit of many entries of about the same size
`k_safe`                  the largest of the last three
========================  ==============================================================

`k_safe` was above the quantile for every φ that was tried. That is no proof: the exact quantile
(`ProjectedLaplace`) decides.
"""

from __future__ import annotations

from math import exp, log, sqrt

from counterpoint.errors import InvalidInput

__all__ = ["k_laplace", "k_normal", "k_pair", "k_paper", "k_safe", "normal_quantile"]


def k_paper(p: float) -> float:
    """√2 ln(1 / (2 (1 − p))), equation (16b): too wide for most φ, too narrow for some."""
    return sqrt(2.0) * k_laplace(p)


def k_laplace(p: float) -> float:
    """ln(1 / (2 (1 − p))), the quantile of one Laplace variable of scale 1."""
    return -log(2.0 * _upper(p))


def k_pair(p: float) -> float:
    """The quantile of (L₁ + L₂) / √2, whose tail is exp(−u) (2 + u) / 4 at u / √2."""
    from scipy.special import lambertw

    q = _upper(p)
    if q == 0.5:  # the branch point, where the function loses half of its digits
        return 0.0
    return (-2.0 - float(lambertw(-4.0 * q * exp(-2.0), -1).real)) / sqrt(2.0)


def k_normal(p: float) -> float:
    """√2 Φ⁻¹(p), the quantile of a normal variable with the variance of a Laplace one."""
    return sqrt(2.0) * normal_quantile(_upper(p))


def k_safe(p: float) -> float:
    """The largest of `k_normal`, `k_laplace` and `k_pair`."""
    return max(k_normal(p), k_laplace(p), k_pair(p))


def normal_quantile(q: float) -> float:
    """z with P(Z > z) = q."""
    from scipy.special import ndtri

    return -float(ndtri(q))


def _upper(p: float) -> float:
    """1 − p, of a probability of at least ½."""
    if not 0.5 <= p < 1.0:
        raise InvalidInput(
            f"Expected a probability of at least 0.5 and below 1, and got {p!r}: pass one such as "
            "0.9."
        )
    return 1.0 - p
