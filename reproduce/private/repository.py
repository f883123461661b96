"""The ten draws of the paper's repository, seed by seed.

It takes ten rows of the test set, each with its own noise. y' is what the **true** weights say of
the row, which nobody knows who explains the released model; here that is kept, to come to the same
numbers, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from counterpoint.privacy.features import lift
from counterpoint.privacy.hinge import minimize_hinge
from private.bisection import Bisected, asked_by_paper, bisect
from private.sets import Data, data_set
from private.tasks import TOL, F

__all__ = ["Found", "Repository", "along_beta", "along_p", "repository", "without_noise"]

FloatArray = NDArray[np.float64]

TEN = 10
BETAS = np.linspace(0.1, 50.0, TEN)
PS = np.linspace(0.5, 0.99, TEN)
P, BETA = 0.9, 5.0


@dataclass(frozen=True, eq=False)
class Repository:
    """Its model: the same rows, random features and weights.

    Parameters
    ----------
    data, frequencies, weights
        Breast cancer, W of φ, and w*.
    """

    data: Data
    frequencies: FloatArray
    weights: FloatArray

    def scale(self, beta: float) -> float:
        """λ, (10) with κ = 1 and C = √n."""
        return float(4.0 * np.sqrt(F) / (beta * np.sqrt(len(self.data.X))))

    def features(self, X: FloatArray) -> FloatArray:
        """(n, F) φ."""
        return lift(X, self.frequencies, 0.0)

    def score(self, x: FloatArray, noise: FloatArray | float = 0.0) -> float:
        """φ(x)ᵀ(w* + noise) for one row (d,)."""
        return float((self.features(x[None]) @ (self.weights + noise))[0])

    def explained(
        self, x: FloatArray, sign: float, noise: FloatArray, scale: float, p: float
    ) -> Bisected:
        """By algorithm 1, from a row whose y' is given."""
        prototype = self.data.prototypes[0 if sign > 0.0 else 1]
        asked = asked_by_paper(scale, p)
        return bisect(lambda y: -sign * self.score(y, noise), x, prototype, asked)


@dataclass(frozen=True, eq=False)
class Found:
    """Ten draws (10,) along ten values (10,): arrays are (10, 10).

    Parameters
    ----------
    accuracy
        Of the released weights.
    robust, plain
        Distances of both explanations.
    robust_score, plain_score
        The left-hand side of (12b) there, by the true weights.
    met
        Whether the robust one meets the rule.
    """

    accuracy: FloatArray
    robust: FloatArray
    plain: FloatArray
    robust_score: FloatArray
    plain_score: FloatArray
    satisfied: FloatArray


@cache
def repository() -> Repository:
    """The model."""
    data = data_set("breast cancer")
    assert data is not None  # noqa: S101 (it comes with scikit-learn)
    d = data.X.shape[1]
    drawn = np.random.RandomState(1).normal(size=(d, F // 2)) * np.sqrt(2.0 / d)
    rows = np.where(data.y == 1, 1.0, -1.0)[:, None] * lift(data.X, drawn.T, 0.0)
    return Repository(data, drawn.T, minimize_hinge(rows, 1.0 / np.sqrt(len(rows)), TOL, 200))


@cache
def along_beta() -> Found:
    """Figures 3, 5a and 6: noise is drawn anew for each β."""
    one, held = repository(), np.full((6, TEN, TEN), np.nan)
    for draw in range(TEN):
        random, x, sign = _row(draw)
        for k, beta in enumerate(BETAS):
            scale = one.scale(beta)
            noise = random.laplace(0.0, scale, size=(1, F))[0]
            held[:, draw, k] = _measured(one, (x, sign), noise, scale, P)
    return Found(*held)


@cache
def along_p() -> Found:
    """Figure 5b: one draw of the noise for all p."""
    one, held = repository(), np.full((6, TEN, TEN), np.nan)
    for draw in range(TEN):
        random, x, sign = _row(draw)
        scale = one.scale(BETA)
        noise = random.laplace(0.0, scale, size=(1, F))[0]
        for k, p in enumerate(PS):
            held[:, draw, k] = _measured(one, (x, sign), noise, scale, p)
    return Found(*held)


def without_noise() -> float:
    """The mean distance of the explanations of the true weights, on their segments."""
    one, found = repository(), []
    for draw in range(TEN):
        _, x, sign = _row(draw)
        point = one.explained(x, sign, np.zeros(F), 1.0, 0.5).point
        found.append(float(np.linalg.norm(point - x)))
    return float(np.mean(found))


def _row(draw: int) -> tuple[np.random.RandomState, FloatArray, float]:
    """A generator, a row, and y'."""
    one, random = repository(), np.random.RandomState(draw)
    x = one.data.test[random.randint(0, len(one.data.test))]
    return random, x, float(np.sign(one.score(x)))


def _measured(
    one: Repository, row: tuple[FloatArray, float], noise: FloatArray, scale: float, p: float
) -> tuple[float, ...]:
    x, sign = row
    test = one.features(one.data.test)
    right = (test @ (one.weights + noise) >= 0.0) == (one.data.truth == 1)
    robust = one.explained(x, sign, noise, scale, p)
    plain = one.explained(x, sign, noise, scale, 0.5)
    return (
        float(right.mean()),
        *(float(np.linalg.norm(found.point - x)) for found in (robust, plain)),
        *(sign * one.score(found.point) for found in (robust, plain)),
        float(robust.satisfied),
    )
