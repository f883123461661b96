"""The paper's models, its rule, its algorithm 1, and the ten draws of its repository."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple

import cvxpy
import numpy as np
from harness.data import german, heloc
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from counterpoint.privacy import PrivateSVC

Kind = Literal["fourier", "linear"]
Rows = tuple[np.ndarray, np.ndarray] | None
F = 100
"""Random features: cosines and sines in pairs, so that ‖φ‖ = 1."""
TEN = 10
BETAS = np.linspace(0.1, 50.0, TEN)
PS = np.linspace(0.5, 0.99, TEN)
P, BETA = 0.9, 5.0
ACCURACY = 1e-5
"""Length of the last interval of algorithm 1, as in the paper's repository."""


def k_paper(p: float) -> float:
    """k of the rule (16b), λ k ‖φ‖ ≤ lead: √2 ln(1 / (2 (1 − p)))."""
    return float(-np.sqrt(2.0) * np.log(2.0 * (1.0 - p)))


class Bisected(NamedTuple):
    """The last midpoint of algorithm 1, and by how much it misses the rule (met if <= 0)."""

    point: np.ndarray
    miss: float


def bisect(
    lead: Callable[[np.ndarray], float], x: np.ndarray, prototype: np.ndarray, threshold: float
) -> Bisected:
    """Algorithm 1 between x and the prototype; the midpoint is returned, met or not.

    `lead` is −y' φ(x)ᵀw̃, and the rule asks for `threshold`, which for ‖φ‖ = 1 is λ k.
    """
    lower, upper, middle, miss = x, prototype, prototype, 0.0
    while np.linalg.norm(upper - lower) > ACCURACY:
        middle = 0.5 * (upper + lower)
        miss = threshold - lead(middle)
        lower, upper = (lower, middle) if miss < 0.0 else (middle, upper)
    return Bisected(middle, miss)


def cone_program(model: PrivateSVC, x: np.ndarray, sign: float, p: float) -> np.ndarray | None:
    """Equation (17), the nearest point that meets (16b) for linear features, by CVXPY."""
    y = cvxpy.Variable(len(x))
    low, high = model.bounds_
    half = 0.5 * (high - low)
    scaled = cvxpy.multiply(1.0 / half, y) - (low + half) / half
    phi = cvxpy.hstack([scaled, [model.intercept_scaling_]])
    rule = model.scale_ * k_paper(p) * cvxpy.norm(phi) <= sign * (model.coef_ @ phi)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm(y - x)), [rule])
    problem.solve(solver=cvxpy.CLARABEL)
    return y.value if problem.status == cvxpy.OPTIMAL else None


# Data and models


@dataclass(frozen=True, eq=False)
class Data:
    """Standardised rows to train on and their labels 0 and 1; rows held out, 30 % of all."""

    X: np.ndarray
    y: np.ndarray
    test: np.ndarray
    truth: np.ndarray

    @cached_property
    def prototypes(self) -> np.ndarray:
        """(2, d) the means of the classes, as the paper takes them: they are not private."""
        return np.stack([self.X[self.y == label].mean(axis=0) for label in (0, 1)])


def _breast_cancer() -> Rows:
    X, y = load_breast_cancer(return_X_y=True)
    return X, 1 - y  # 1 is malignant


def _digits() -> Rows:
    """Means of 2 × 2 pixels, 4 × 4 of them; label 1 is odd."""
    images, y = load_digits().images, load_digits().target
    return images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(images), -1), y % 2


def _heloc() -> Rows:
    data = heloc()
    return None if data is None else (data[0].to_numpy(float), data[1].to_numpy())


def _german() -> Rows:
    """Without its two columns of words; label 1 is a good customer."""
    data = german()
    if data is None:
        return None
    return data[0].select_dtypes("number").to_numpy(float), (data[1].to_numpy() > 0).astype(int)


LOADERS = {"breast cancer": _breast_cancer, "digits": _digits, "heloc": _heloc, "german": _german}


@cache
def data_set(name: str) -> Data:
    """Return a data set by its name."""
    rows = LOADERS[name]()
    if rows is None:
        raise FileNotFoundError(name)
    X, test, y, truth = train_test_split(*rows, test_size=0.3, random_state=1)
    scaler = StandardScaler().fit(X)
    return Data(scaler.transform(X), y, scaler.transform(test), truth)


@dataclass(frozen=True, eq=False)
class TrueModel:
    """A model whose weights before noise are known, and what it was trained on."""

    data: Data
    model: PrivateSVC
    weights: np.ndarray

    def scale(self, beta: float) -> float:
        """λ, by the paper's bound (10) with C = √n: 4 κ C √F / (β n)."""
        size, count = len(self.weights), len(self.data.X)
        return float(4.0 * self.model.norm_bound_ * np.sqrt(size) / (beta * np.sqrt(count)))

    def released(self, beta: float, noise: np.ndarray | int) -> PrivateSVC:
        """The model with noise for β, or with a seed of it."""
        model = copy(self.model).set_params(epsilon=beta)
        model.scale_ = self.scale(beta)
        drawn = model.noise_.draw(1, noise)[0] if isinstance(noise, int) else noise
        model.coef_ = self.weights + drawn
        return model

    def lead(self, rows: np.ndarray, label: int) -> np.ndarray:
        """By how much the true weights are for a label, which is −(12b)."""
        score = self.model.features(rows) @ self.weights
        return score if label == 1 else -score


@cache
def true_model(name: str, kind: Kind, seed: int) -> TrueModel:
    """A model with the paper's C and F; `seed` is that of the random features."""
    data = data_set(name)
    model = PrivateSVC(
        1.0,
        C=float(np.sqrt(len(data.X))),
        feature_map=kind,
        trust_data=True,
        insecure_noise_seed=0,
        random_state=seed,
    ).fit(data.X, data.y)
    return TrueModel(data, model, model.coef_ - model.noise_.draw(1, 0)[0])


# The ten draws of the repository


@cache
def repository() -> TrueModel:
    """The model of the paper's repository: the same rows, random features and weights."""
    first = true_model("breast cancer", "fourier", 0)
    data, model = first.data, copy(first.model)
    d = data.X.shape[1]
    directions = np.random.RandomState(1).normal(size=(d, F // 2)) * np.sqrt(2.0 / d)
    model.frequencies_ = directions.T
    signs = np.where(data.y == 1, 1.0, -1.0)
    weights = _hinge(model.features(data.X), signs, 1.0 / float(np.sqrt(len(data.X))))
    return TrueModel(data, model, weights)


def _hinge(features: np.ndarray, signs: np.ndarray, box: float) -> np.ndarray:
    """The weights that minimise ½‖w‖² + box Σ max(0, 1 − y φᵀw)."""
    w, slack = cvxpy.Variable(features.shape[1]), cvxpy.Variable(len(signs), nonneg=True)
    rows = signs[:, None] * features
    objective = 0.5 * cvxpy.sum_squares(w) + box * cvxpy.sum(slack)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [rows @ w + slack >= 1.0])
    problem.solve(solver=cvxpy.CLARABEL, **tight)
    return np.asarray(w.value)


class Draws(NamedTuple):
    """Ten draws along ten values, (10, 10) each: accuracy of the released weights, and two points.

    Distances of the robust and of the plain explanation, the left-hand side of (12b) there by the
    true weights, and whether the robust one meets the rule.
    """

    accuracy: np.ndarray
    robust: np.ndarray
    plain: np.ndarray
    robust_score: np.ndarray
    plain_score: np.ndarray
    met: np.ndarray


@cache
def along_beta() -> Draws:
    """Figures 3, 5a and 6: noise is drawn anew for each β."""
    return Draws(*_drawn(lambda random: [(_noise(random, b), b, P) for b in BETAS]))


@cache
def along_p() -> Draws:
    """Figure 5b: one draw of the noise for all p."""

    def settings(random: np.random.RandomState) -> list[tuple[np.ndarray, float, float]]:
        noise = _noise(random, BETA)
        return [(noise, BETA, p) for p in PS]

    return Draws(*_drawn(settings))


def _noise(random: np.random.RandomState, beta: float) -> np.ndarray:
    return random.laplace(0.0, repository().scale(beta), size=(1, F))[0]


def _drawn(
    settings: Callable[[np.random.RandomState], list[tuple[np.ndarray, float, float]]],
) -> np.ndarray:
    """(6, 10, 10) ten rows of the test set, each with its own noise.

    y' is what the **true** weights say of the row, which nobody knows who explains the released
    model; here that is kept, to come to the same numbers, and nowhere else.
    """
    truth, values = repository(), np.empty((6, TEN, TEN))
    data = truth.data
    for draw in range(TEN):
        random = np.random.RandomState(draw)
        x = data.test[random.randint(0, len(data.test))]
        label = 0 if truth.lead(x[None], 1)[0] > 0.0 else 1
        for k, (noise, beta, p) in enumerate(settings(random)):
            model = truth.released(beta, noise)
            right = (model.decision_function(data.test) >= 0.0) == (data.truth == 1)
            sign = 1.0 if label == 1 else -1.0
            points = [
                bisect(
                    lambda y, m=model, s=sign: float(s * m.decision_function(y[None])[0]),
                    *(x, data.prototypes[label], threshold),
                )
                for threshold in (model.scale_ * k_paper(p), 0.0)
            ]
            values[:, draw, k] = (
                right.mean(),
                *(np.linalg.norm(bisected.point - x) for bisected in points),
                *(-truth.lead(bisected.point[None], label)[0] for bisected in points),
                points[0].miss <= 0.0,
            )
    return values
