"""Inverse classification as its paper solves it; nothing of counterpoint is used.

Numbers of equations and theorems are those of Carreira-Perpiñán and Hada, *Inverse classification
with logistic and softmax classifiers: efficient optimization*. Newton's method with iterates in D
dimensions, A Aᵀ known, a Cholesky factorisation of K × K, two passes over A an iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import exp, log, log1p, sqrt
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemv
from scipy.linalg.lapack import dposv
from scipy.optimize import minimize

EPS = 4.0 * float(np.finfo(float).eps)
TOLERANCE = 1e-8
"""‖∇E‖ at which all methods stop."""
MOST = 1000
"""Iterations."""
PATIENCE = 5
"""Iterations without progress after which a method stops."""
FACTOR = 0.8
"""From one step of backtracking to the next."""


@dataclass(frozen=True)
class Problem:
    """min E(x) = λ/2 ‖x − x̄‖² − log softmax(A x + b)_k, equation (2).

    Parameters
    ----------
    A, b
        The classifier: K × D, and K.
    xbar
        The source instance, dense.
    label
        k, the class that is wanted.
    weight
        λ > 0.
    """

    A: np.ndarray
    b: np.ndarray
    xbar: np.ndarray
    label: int
    weight: float

    def both(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """E and ∇E, equation (3), by two passes over A."""
        value, p = surprise(self.A @ x + self.b, self.label)
        p[self.label] -= 1.0
        moved = x - self.xbar
        value += 0.5 * self.weight * float(moved @ moved)
        moved *= self.weight
        moved += p @ self.A
        return value, moved


@dataclass
class Record:
    """E and ‖∇E‖ at the starting point and after each iteration."""

    energies: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    idle: int = 0

    @property
    def iterations(self) -> int:
        """Count the steps."""
        return len(self.energies) - 1

    def goes_on(self, energy: float, norm: float) -> bool:
        """Note where the method is; return whether it should take another step."""
        stuck = bool(self.energies) and energy >= self.energies[-1] and norm >= min(self.norms)
        self.idle = self.idle + 1 if stuck else 0
        self.energies.append(energy)
        self.norms.append(norm)
        return norm >= TOLERANCE and self.idle < PATIENCE and self.iterations < MOST


def surprise(scores: np.ndarray, label: int) -> tuple[float, np.ndarray]:
    """−log softmax(scores)_label, and the softmax."""
    top = float(np.maximum.reduce(scores))
    p = np.exp(scores - top)
    total = float(np.add.reduce(p))
    p /= total
    return (top - float(scores[label])) + log(total), p


def gram(A: np.ndarray) -> np.ndarray:
    """A Aᵀ with the rows of A centred, once for a model and for every label.

    Only differences between classes enter E, so a vector added to all rows changes nothing.
    """
    centred = A - A.mean(axis=0)
    return centred @ centred.T


class Woodbury:
    """The Newton direction of theorem 3.6 by one K × K Cholesky factorisation.

    The direction is s = (Aᵀw − ∇E)/λ. With S = diag(√p), G = A Aᵀ and C = λ I + S G S,
    Sherman–Morrison and Woodbury together give

        w = S (u − (√pᵀu / √pᵀh) h),   C u = S A∇E,   C h = √p.

    C has no eigenvalue below λ, whatever underflows in p, and the denominator does not cancel.
    """

    def __init__(self, gram: np.ndarray, weight: float) -> None:
        size = len(gram)
        self.gram, self.weight = gram, weight
        self._matrix = np.empty((size, size))
        self._diagonal = self._matrix.reshape(-1)[:: size + 1]
        self._right = np.empty((size, 2), order="F")
        self._root, self._pull = self._right.T

    def solve(self, p: np.ndarray, pull: np.ndarray) -> np.ndarray:
        """Return the vector w, given A∇E (up to a constant added to all classes)."""
        root = np.sqrt(p)
        np.multiply(self.gram, root, out=self._matrix)
        self._matrix *= root[:, None]
        self._diagonal += self.weight
        self._root[:] = root
        np.multiply(root, pull, out=self._pull)
        _, solved, failed = dposv(self._matrix.T, self._right, overwrite_a=1, overwrite_b=1)
        if failed:
            raise np.linalg.LinAlgError(f"pivot {failed} is not positive: λ is too small for A")
        along_h, along_u = root.dot(solved).tolist()
        w = solved.dot(np.array((-along_u / along_h, 1.0)))
        w *= root
        return w


class Line:
    """E(x + α s) from the scores of x and from A s: a trial costs O(K), not O(KD).

    Parameters
    ----------
    problem
        Its label and weight are used, A is not.
    scores, rise
        A x + b and A s, each up to a constant added to all classes.
    squares
        ‖x − x̄‖², (x − x̄)ᵀ s and ‖s‖².
    """

    def __init__(
        self,
        problem: Problem,
        scores: np.ndarray,
        rise: np.ndarray,
        squares: tuple[float, float, float],
    ) -> None:
        half = 0.5 * problem.weight
        self._label, self._scores, self._rise = problem.label, scores, rise
        self._constant, self._tilt, self._curve = (
            half * squares[0],
            2.0 * half * squares[1],
            half * squares[2],
        )

    def at(self, step: float) -> float:
        """E at α, which is from then on where the line stands."""
        self.step = step
        self.scores = self._scores + (self._rise if step == 1.0 else step * self._rise)
        value, self.p = surprise(self.scores, self._label)
        return self._constant + step * (self._tilt + step * self._curve) + value

    def backtrack(self, energy: float) -> float:
        """From α = 1, shorten the step until E rises by no more than rounding; E there."""
        noise = EPS * (abs(energy) + float(np.abs(self._scores).max()))
        step, value = 1.0, self.at(1.0)
        while value > energy + noise:
            step *= FACTOR
            value = self.at(step)
        return value


@dataclass
class Point:
    """Where Newton's method is.

    Parameters
    ----------
    start, scores, p
        A x̄ + b, A x + b, and its softmax.
    moved
        λ(x − x̄): that saves passes over D numbers.
    gradient
        ∇E.
    energy, squared
        E, ‖x − x̄‖².
    """

    start: np.ndarray
    scores: np.ndarray
    p: np.ndarray
    moved: np.ndarray
    gradient: np.ndarray
    energy: float
    squared: float

    @classmethod
    def source(cls, problem: Problem) -> Point:
        """Begin at x̄."""
        scores = problem.A.dot(problem.xbar) + problem.b
        energy, p = surprise(scores, problem.label)
        gradient = _pulls(p, problem.label).dot(problem.A)
        return cls(scores, scores, p, np.zeros(len(gradient)), gradient, energy, 0.0)

    def change_weight(self, old: float, new: float) -> None:
        """Stay in place, for another λ."""
        self.squared = float(self.moved.dot(self.moved)) / old**2
        self.energy += 0.5 * (new - old) * self.squared
        self.gradient += (new / old - 1.0) * self.moved
        self.moved *= new / old


def _pulls(p: np.ndarray, label: int) -> np.ndarray:
    pulls = p.copy()
    pulls[label] -= 1.0
    return pulls


def newton(problem: Problem, gram: np.ndarray) -> tuple[np.ndarray, Record]:
    """Newton's method from x̄ with backtracking: the last iterate, and how it went."""
    point = Point.source(problem)
    record = _descend(problem, gram, point)
    return point.moved / problem.weight + problem.xbar, record


def newton_path(
    problem: Problem, gram: np.ndarray, weights: Iterable[float]
) -> Iterator[tuple[np.ndarray, Record]]:
    """Newton's method for one λ after the other, each from the last answer (section 3.4)."""
    point = Point.source(problem)
    for weight in weights:
        point.change_weight(problem.weight, weight)
        problem = replace(problem, weight=weight)
        record = _descend(problem, gram, point)
        yield point.moved / weight + problem.xbar, record


def _descend(problem: Problem, gram: np.ndarray, point: Point) -> Record:
    """Move the point until the record says that it is over."""
    label, weight, columns = problem.label, problem.weight, problem.A.T
    system, record = Woodbury(gram, weight), Record()
    scores, p, moved, gradient = point.scores, point.p, point.moved, point.gradient
    energy, squared, pulls = point.energy, point.squared, _pulls(point.p, label)
    norm = sqrt(gradient.dot(gradient))
    # A direction is kept as λ s; it and the next gradient are written where the gradient was.
    while record.goes_on(energy, norm):
        pull = weight * (scores - point.start) + gram.dot(pulls)
        w = system.solve(p, pull)
        towards = dgemv(1.0, columns, w, -1.0, gradient, overwrite_y=1)
        rise = (gram.dot(w) - pull) / weight
        across, along = float(moved.dot(towards)), float(towards.dot(towards))
        line = Line(problem, scores, rise, (squared, across / weight**2, along / weight**2))
        energy = line.backtrack(energy)
        step = line.step
        if step != 1.0:
            towards *= step
        moved += towards
        squared += step * (2.0 * across + step * along) / weight**2
        scores, p = line.scores, line.p
        pulls = _pulls(p, label)
        np.copyto(towards, moved)
        gradient = dgemv(1.0, columns, pulls, 1.0, towards, overwrite_y=1)
        norm = sqrt(gradient.dot(gradient))
    point.scores, point.p, point.gradient = scores, p, gradient
    point.energy, point.squared = energy, squared
    return record


def newton_logistic(w: np.ndarray, w0: float, xbar: np.ndarray, weight: float) -> np.ndarray:
    """min λ/2 ‖x − x̄‖² + log(1 + exp(wᵀx + w₀)): p₁ = 1 / (1 + exp(wᵀx + w₀)) is wanted.

    The Hessian (7e) is inverted by Sherman–Morrison, so that an iteration costs O(D).
    """
    record, steep = Record(), float(w.dot(w))
    score = start = float(w.dot(xbar)) + w0
    energy, miss = _loss(score)
    gradient = miss * w
    squared = 0.0
    moved, towards = np.zeros((2, len(w)))  # λ(x − x̄) and λ s, as for more classes
    while record.goes_on(energy, norm := sqrt(gradient.dot(gradient))):
        pull = weight * (score - start) + miss * steep
        bend = miss * (1.0 - miss)
        bend /= weight + bend * steep
        np.multiply(w, bend * pull, out=towards)
        towards -= gradient
        rise = (bend * steep - 1.0) * pull / weight
        across, along = float(moved.dot(towards)), float(towards.dot(towards))
        decrease = (norm * norm - bend * pull * pull) / weight
        step, noise = 1.0, EPS * (energy + abs(score))
        while True:
            square = squared + step * (2.0 * across + step * along) / weight
            loss, miss = _loss(score + step * rise)
            if 0.5 * square + loss < energy or step * decrease < noise:
                break
            step *= FACTOR
        towards *= step
        moved += towards
        score += step * rise
        squared, energy = square, 0.5 * square + loss
        np.multiply(w, miss, out=gradient)
        gradient += moved
    return moved / weight + xbar


def _loss(score: float) -> tuple[float, float]:
    """log(1 + exp(score)) and 1 − p₁, whatever the sign."""
    small = exp(-abs(score))
    if score > 0.0:
        return score + log1p(small), 1.0 / (1.0 + small)
    return log1p(small), small / (1.0 + small)


def scipy_minimize(problem: Problem, method: str) -> tuple[np.ndarray, Record]:
    """SciPy's minimisers, until ‖∇E‖ is small or they give up."""
    record, last = Record(), (problem.xbar, problem.both(problem.xbar))

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal last
        last = x.copy(), problem.both(x)
        return last[1]

    def iterate(intermediate_result: Any) -> None:
        x = intermediate_result.x
        energy, gradient = last[1] if np.array_equal(last[0], x) else problem.both(x)
        if not record.goes_on(energy, float(np.linalg.norm(gradient))):
            raise StopIteration

    record.goes_on(last[1][0], float(np.linalg.norm(last[1][1])))
    options: dict[str, Any] = {"maxiter": MOST, "gtol": 0.0}
    if method == "L-BFGS-B":
        options |= {"ftol": 0.0, "maxfun": 50 * MOST}
    result = minimize(
        both, problem.xbar, jac=True, method=method, callback=iterate, options=options
    )
    return result.x, record
