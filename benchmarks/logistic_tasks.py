"""Two classes: the closed form, its limit, and the paper's Newton methods, each as a task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from inverse_peers import Problem, gram, newton, newton_logistic

from counterpoint.models.softmax import logistic_root

CACHED = 1 << 15
"""How many numbers are written at a time, so that the second pass finds them in the cache."""


@dataclass(frozen=True, eq=False)
class TwoClasses:
    """min λ/2 ‖x − x̄‖² − log p, p = 1/(1 + exp(s (wᵀx + w₀))), for many rows x̄.

    Parameters
    ----------
    w, w0
        The classifier.
    X
        (n, D) the rows x̄.
    weight
        λ.
    sign
        (n,) s, which says for each row which class is wanted: that with p < ½ at x̄.
    """

    w: np.ndarray
    w0: float
    X: np.ndarray
    weight: float
    sign: np.ndarray

    @cached_property
    def room(self) -> np.ndarray:
        """Where answers are written: memory that is there already."""
        return np.zeros_like(self.X)

    @classmethod
    def of(cls, w: np.ndarray, w0: float, X: np.ndarray, weight: float) -> TwoClasses:
        """The other class for each row."""
        return cls(w, w0, X, weight, np.where(X @ w + w0 > 0.0, 1.0, -1.0))

    @classmethod
    def draw(cls, rows: int, size: int) -> TwoClasses:
        """Noise; scores have a standard deviation of 3."""
        rng = np.random.default_rng(5)
        w = rng.normal(scale=3.0 / np.sqrt(size), size=size)
        return cls.of(w, 0.0, rng.normal(size=(rows, size)), 0.01)

    def pulls(self, rows: slice) -> np.ndarray:
        """By how many times w each row moves (theorem 4.2)."""
        sign = self.sign[rows]
        alpha = np.full(len(sign), self.w @ self.w / self.weight)
        _, rest = logistic_root(alpha, sign * (self.X[rows] @ self.w + self.w0) - alpha)
        return sign * rest / self.weight

    def moved(self, rows: slice, pulls: np.ndarray) -> np.ndarray:
        """x = x̄ − pull w, written out."""
        X, points = self.X[rows], self.room[rows]
        step = max(1, CACHED // X.shape[1])
        for start in range(0, len(X), step):
            some = slice(start, start + step)
            np.multiply(pulls[some, None], self.w, out=points[some])
            np.subtract(X[some], points[some], out=points[some])
        return points

    def closed_form(self, rows: slice = slice(None)) -> np.ndarray:
        """Ours."""
        return self.moved(rows, self.pulls(rows))

    def read_and_write(self) -> np.ndarray:
        """What no method does without."""
        return self.moved(slice(None), self.X @ self.w)

    def by_newton(self, i: int) -> np.ndarray:
        """Newton's method in D dimensions, with the Hessian of one direction."""
        sign = self.sign[i]
        return newton_logistic(sign * self.w, sign * self.w0, self.X[i], self.weight)[0]

    def by_softmax_newton(self, i: int, products: np.ndarray) -> np.ndarray:
        """Newton's method in D dimensions, with the paper's Hessian for K classes."""
        sign = self.sign[i]
        A, b = np.array([0.0 * self.w, sign * self.w]), np.array([0.0, sign * self.w0])
        return newton(Problem(A, b, self.X[i], 0, self.weight), products)[0]

    @property
    def products(self) -> np.ndarray:
        """What `by_softmax_newton` asks for."""
        return gram(np.array([0.0 * self.w, self.w]))

    def norm(self, x: np.ndarray, i: int) -> float:
        """‖∇E‖ at an answer to row i."""
        sign = self.sign[i]
        rest = 0.5 + 0.5 * np.tanh(0.5 * sign * (x @ self.w + self.w0))
        return float(np.linalg.norm(self.weight * (x - self.X[i]) + sign * rest * self.w))
