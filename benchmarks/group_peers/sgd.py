"""The method of Plumb et al. (2020), algorithm 1: gradient descent on one random pair at a time.

From the paper, with the numbers of its public code where the paper is silent: five steps on a pair
before the next is drawn, a rate of 0.01, clipped gradients, a moving average of the loss that says
when to stop. All runs advance together, each on pairs of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups import Representation

FloatArray = NDArray[np.float64]

STRENGTHS = tuple(np.linspace(0.0, 5.0, 11))
TRIALS = 5
CONSECUTIVE = 5
CLIP = 5.0
RATE = 1e-2
AVERAGE = 0.99
PATIENCE = 2000
LEAST, MOST = 2000, 400_000
WORTH = 1e-4


@dataclass(frozen=True)
class Setting:
    """What is minimised: ½‖r(x̄_i + D_j − D_i) − r̄_j‖² + λ mean |D_j − D_i|."""

    representation: Representation
    means: FloatArray
    targets: FloatArray


def explain(
    setting: Setting,
    *,
    strengths: tuple[float, ...] = STRENGTHS,
    trials: int = TRIALS,
    seed: int = 0,
) -> FloatArray:
    """(runs, l, d) offsets, of each strength and each trial; those of the first group stay 0."""
    random = np.random.default_rng(seed)
    strength = np.repeat(strengths, trials)
    runs, (count, width) = len(strength), setting.means.shape
    D, average = np.zeros((runs, count, width)), np.zeros(runs)
    best, best_at, alive = np.full(runs, np.inf), np.zeros(runs), np.arange(runs)
    pairs = np.empty((runs, 2), dtype=int)
    for step in range(MOST):
        if step % CONSECUTIVE == 0:
            pairs = np.argsort(random.random((runs, count)), axis=1)[:, :2]
        i, j = pairs[alive].T
        change = D[alive, j] - D[alive, i]
        values, pull = setting.representation.vjp(setting.means[i] + change)
        residual = values - setting.targets[j]
        charged = strength[alive]
        loss = 0.5 * (residual**2).sum(axis=1) + charged * np.abs(change).mean(axis=1)
        slope = pull(residual) + charged[:, None] * np.sign(change) / width
        average[alive] = loss if step == 0 else AVERAGE * average[alive] + (1 - AVERAGE) * loss
        better = average[alive] < best[alive] - WORTH
        best[alive[better]], best_at[alive[better]] = average[alive[better]], step
        move = RATE * np.clip(slope, -CLIP, CLIP)
        D[alive, j] -= np.where(i == 0, 1.0, 0.5)[:, None] * move * (j != 0)[:, None]
        D[alive, i] += np.where(j == 0, 1.0, 0.5)[:, None] * move * (i != 0)[:, None]
        alive = alive[(step < LEAST) | (step - best_at[alive] <= PATIENCE)]
        if not len(alive):
            break
    return D
