"""The paper's Newton method for two classes, in D dimensions: what a closed form replaces."""

from __future__ import annotations

from math import exp, log1p

import numpy as np

from inverse_peers.problem import EPS, LIMITS, Limits, Record, Watch, length

FACTOR = 0.8


def newton_logistic(
    w: np.ndarray, w0: float, xbar: np.ndarray, weight: float, *, limits: Limits = LIMITS
) -> tuple[np.ndarray, Record]:
    """min λ/2 ‖x − x̄‖² + log(1 + exp(wᵀx + w₀)): p₁ = 1 / (1 + exp(wᵀx + w₀)) is wanted.

    The Hessian (7e) is inverted by Sherman–Morrison, so that an iteration costs O(D).
    """
    watch = Watch(limits)
    steep = float(w.dot(w))
    score = start = float(w.dot(xbar)) + w0
    energy, rest = _loss(score)
    gradient = rest * w
    norm, squared = length(gradient), 0.0
    # As for more classes: moved is λ(x − x̄), towards is λ s.
    moved, towards = np.zeros((2, len(w)))
    while watch.goes_on(energy, norm):
        pull = weight * (score - start) + rest * steep
        bend = rest * (1.0 - rest)
        bend /= weight + bend * steep
        np.multiply(w, bend * pull, out=towards)
        towards -= gradient
        rise = (bend * steep - 1.0) * pull / weight
        across, along = float(moved.dot(towards)), float(towards.dot(towards))
        decrease = (norm * norm - bend * pull * pull) / weight
        noise = EPS * (energy + abs(score))
        step, trials = 1.0, 1
        while True:
            square = squared + step * (2.0 * across + step * along) / weight
            loss, rest = _loss(score + step * rise)
            value = 0.5 * square + loss
            if value < energy or step * decrease < noise:
                break
            step *= FACTOR
            trials += 1
        if step != 1.0:
            towards *= step
        moved += towards
        score += step * rise
        squared, energy = square, value
        np.multiply(w, rest, out=gradient)
        gradient += moved
        norm = length(gradient)
        watch.record.trials.append(trials)
    moved /= weight
    moved += xbar
    return moved, watch.record


def _loss(score: float) -> tuple[float, float]:
    """log(1 + exp(score)) and 1 − p₁, whatever the sign."""
    small = exp(-abs(score))
    if score > 0.0:
        return score + log1p(small), 1.0 / (1.0 + small)
    return log1p(small), small / (1.0 + small)
