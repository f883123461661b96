"""What Plumb et al. (2020) published on groups, and their method, algorithm 1.

Gradient descent on one random pair of groups at a time, from the paper, with the numbers of its
public code where the paper is silent: five steps on a pair before the next is drawn, a rate of
0.01, clipped gradients, a moving average of the loss that says when to stop. All runs advance
together, each on pairs of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterpoint.groups import DifferenceOfMeans, GroupTranslations, Network, Translations

RADIUS = {"Iris": 0.75, "Housing": 1.5, "Heart": 1.0}
STRENGTHS = tuple(np.linspace(0.0, 5.0, 11))
"""λ of the runs, with so many trials of each."""
TRIALS = 5
CONSECUTIVE = 5
"""Steps on a pair before the next is drawn."""
CLIP, RATE = 5.0, 1e-2
"""The largest entry of a gradient, and the learning rate."""
AVERAGE, PATIENCE, WORTH = 0.99, 2000, 1e-4
"""The moving average of the loss; steps without a gain of so much after which a run stops."""
LEAST, MOST = 2000, 400_000
"""Steps of a run."""


@dataclass(frozen=True, eq=False)
class Published:
    """One of their data sets.

    ``paper`` has a line for each k: k, correctness and coverage of theirs, those of the difference
    of means.
    """

    name: str
    X: np.ndarray
    groups: list[Any]
    network: Network
    radius: float
    paper: np.ndarray

    def rows(self, indices: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Some rows, and their groups."""
        return self.X[indices], [self.groups[i] for i in indices]

    def ours(self, indices: np.ndarray) -> GroupTranslations:
        """Ours on some rows; costs are 1 as in the paper."""
        costs = np.ones(self.X.shape[1])
        model = GroupTranslations(self.network, radius=self.radius, costs=costs, polish=True)
        return model.fit(*self.rows(indices))

    def means(self, indices: np.ndarray) -> DifferenceOfMeans:
        """The difference of means, which also judges other explanations."""
        costs = np.ones(self.X.shape[1])
        model = DifferenceOfMeans(self.network, radius=self.radius, costs=costs)
        return model.fit(*self.rows(indices))


def published(folder: Path, name: str) -> Published:
    """Read one of them; their first data row is lost, as they read the file with a header."""
    arrays = np.load(folder / "results" / name / "encoder_float32.npz")
    weights, biases = ([arrays[f"{letter}{i}"] for i in range(4)] for letter in "Wb")
    X = np.loadtxt(folder / name.lower() / "X.tsv")[1:]
    groups = [None if label < 0 else int(label) for label in arrays["labels"]]
    paper = np.loadtxt(folder / "results" / name / "out.csv", delimiter=",")
    return Published(name, X, groups, Network(weights, biases, "elu"), RADIUS[name], paper)


def runs(data: Published, indices: np.ndarray, seed: int) -> list[Translations]:
    """Their 55 runs on some rows; the best of these is what the paper shows."""
    X, groups = data.rows(indices)
    labels = sorted({group for group in groups if group is not None})
    member = np.array([-1 if group is None else group for group in groups])
    means, targets = (
        np.array([rows[member == label].mean(axis=0) for label in labels])
        for rows in (X, data.network.vjp(X)[0])
    )
    return [Translations.of(D, labels) for D in explain(data.network, means, targets, seed)]


def explain(network: Network, means: np.ndarray, targets: np.ndarray, seed: int) -> np.ndarray:
    """(runs, l, d) offsets that minimise ½‖r(x̄_i + D_j − D_i) − r̄_j‖² + λ mean |D_j − D_i|.

    One for each strength and trial; those of the first group stay 0.
    """
    random = np.random.default_rng(seed)
    strength = np.repeat(STRENGTHS, TRIALS)
    count, (size, width) = len(strength), means.shape
    D, average = np.zeros((count, size, width)), np.zeros(count)
    best, best_at, alive = np.full(count, np.inf), np.zeros(count), np.arange(count)
    pairs = np.empty((count, 2), dtype=int)
    for step in range(MOST):
        if step % CONSECUTIVE == 0:
            pairs = np.argsort(random.random((count, size)), axis=1)[:, :2]
        i, j = pairs[alive].T
        change, charged = D[alive, j] - D[alive, i], strength[alive]
        values, pull = network.vjp(means[i] + change)
        residual = values - targets[j]
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
