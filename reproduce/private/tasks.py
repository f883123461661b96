"""The paper's task: breast cancer, standardised, 100 random features, C = √n."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from counterpoint.noise import NoiseLaw
from counterpoint.privacy.features import lift
from counterpoint.privacy.hinge import minimize_hinge
from counterpoint.privacy.mechanisms import MECHANISMS
from private.papers_rules import SENSITIVITIES

FloatArray = NDArray[np.float64]

F = 100
TOL = 1e-10
DELTA = 1e-5
"""δ of normal noise."""


@dataclass(frozen=True)
class Method:
    """A kind of noise, and the sensitivity that it is scaled by."""

    mechanism: str
    sensitivity: str


METHODS = {
    "Laplace, bound (10)": Method("laplace", "rubinstein"),
    "Laplace, tight": Method("laplace", "tight"),
    "gamma, bound (10)": Method("gamma", "rubinstein"),
    "gamma, tight": Method("gamma", "tight"),
    f"normal, δ = {DELTA:g}, tight": Method("gaussian", "tight"),
}
"""The first is the paper's."""


@dataclass(frozen=True, eq=False)
class Task:
    """A fitted model before noise, and the rows that it is measured on.

    Parameters
    ----------
    X, truth
        (m, d) standardised rows of the test set, and (m,) their labels: 1 is malignant, −1 benign.
    frequencies
        (F/2, d) W of φ.
    weights
        (F,) w*.
    rows
        n, how many it was trained on.
    """

    X: FloatArray
    truth: FloatArray
    frequencies: FloatArray
    weights: FloatArray
    rows: int

    def features(self, X: FloatArray) -> FloatArray:
        """(n, F) φ."""
        return lift(X, self.frequencies, 0.0)

    @property
    def box(self) -> float:
        """C/n, with C = √n."""
        return 1.0 / float(np.sqrt(self.rows))

    def law(self, method: Method, epsilon: float) -> NoiseLaw:
        """The law of the noise that makes the weights ε-private."""
        mechanism, size = MECHANISMS[method.mechanism], len(self.weights)
        least = 2.0 * self.box + 2.0 * float(np.sqrt(2.0 * TOL))  # of weights to a gap of TOL
        l2 = max(SENSITIVITIES[method.sensitivity] * self.box, least)
        budget = epsilon, DELTA if method.mechanism == "gaussian" else 0.0
        scale = mechanism.scale(mechanism.sensitivity(l2, size), budget)
        return mechanism.law(scale, size)


@cache
def breast_cancer(drawn: int = 0, split: int = 1) -> Task:
    """The paper's task.

    Parameters
    ----------
    drawn
        Seed of the random features.
    split
        Seed of the split; 1 is that of the paper's repository.
    """
    X, y = load_breast_cancer(return_X_y=True)
    X, test, y, truth = train_test_split(X, y, test_size=0.3, random_state=split)
    scaler = StandardScaler().fit(X)
    random = np.random.RandomState(drawn)
    frequencies = np.sqrt(2.0 / 30.0) * random.standard_normal((F // 2, X.shape[1]))
    rows = np.where(y == 0, 1.0, -1.0)[:, None] * lift(scaler.transform(X), frequencies, 0.0)
    weights = minimize_hinge(rows, 1.0 / np.sqrt(len(X)), TOL, 200)
    signs = np.where(truth == 0, 1.0, -1.0)
    return Task(scaler.transform(test), signs, frequencies, weights, len(X))
