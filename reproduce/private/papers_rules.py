"""What the paper asks for: the constant of its rule, its sensitivity, and its usefulness.

counterpoint computes each of them exactly; these are what it is compared with.
"""

from __future__ import annotations

from copy import copy
from math import log, sqrt
from typing import Any

from scipy.stats import norm

import counterpoint as cp
from counterpoint.privacy import PrivateSVC

__all__ = [
    "SENSITIVITIES",
    "by_papers_rule",
    "k_laplace",
    "k_paper",
    "papers_error",
    "probability_at",
    "robust",
    "with_papers_noise",
]

SENSITIVITIES = {"tight": 2.0, "rubinstein": 4.0}
"""By how many times κC/n one row can move the weights: what is proved, and the paper's (10)."""


def k_laplace(p: float) -> float:
    """ln(1 / (2 (1 − p))), the p-quantile of one Laplace variable of scale 1."""
    return -log(2.0 * (1.0 - p))


def k_paper(p: float) -> float:
    """k with λ k ‖φ‖₂ the quantile of φᵀμ by the paper, √2 ln(1 / (2 (1 − p))), (16b)."""
    return sqrt(2.0) * k_laplace(p)


def by_papers_rule(model: PrivateSVC, p: float) -> PrivateSVC:
    """The model with normal noise whose p-quantile is λ k ‖φ‖₂.

    `Robust` with this p and ``guarantee="fixed"`` then asks for what (17) does.
    """
    changed = copy(model)
    changed.mechanism_ = "gaussian"
    changed.scale_ = model.scale_ * k_paper(p) / float(norm.ppf(p))
    return changed


def with_papers_noise(model: PrivateSVC, rows: int) -> PrivateSVC:
    """The model with the scale that (10) gives its noise, fitted to so many rows."""
    changed = copy(model)
    tight = 2.0 * model.norm_bound_ * model.C / rows
    changed.scale_ = model.scale_ * max(2.0 * tight / (tight + 2.0 * sqrt(2.0 * model.tol_)), 1.0)
    return changed


def papers_error(model: PrivateSVC, delta: float) -> float:
    """2Φλ(F − ln δ): the error at which (11) holds by the paper's condition on λ."""
    return 2.0 * model.entry_bound_ * model.scale_ * (len(model.coef_) - log(delta))


def robust(label: int, p: float, how: dict[str, Any], **more: Any) -> cp.Robust:
    """The target of a method; ``rule`` is a matter of the model, see `by_papers_rule`."""
    return cp.Robust(label, p, **{k: v for k, v in how.items() if k != "rule"}, **more)


def probability_at(model: PrivateSVC, point: Any, label: int) -> float:
    """The probability that the true weights are for a label at a point that was fixed."""
    score = float(model.decision_function(point)[0])
    lead = score if model.classes_[1] == label else -score
    return 1.0 - float(model.noise_.tail(lead, model.features(point)[0]))
