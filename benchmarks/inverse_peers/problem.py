"""The problem that the peers solve, and the record that each of them leaves.

Numbers of equations, theorems and figures are those of Carreira-Perpiñán and Hada, *Inverse
classification with logistic and softmax classifiers: efficient optimization*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, sqrt
from time import process_time

import numpy as np

EPS = 4.0 * float(np.finfo(float).eps)


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
    ones: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A sum of few numbers is a dot product: NumPy's reductions take longer to start.
        object.__setattr__(self, "ones", np.ones(len(self.b)))

    def energy(self, x: np.ndarray) -> float:
        """E at a point."""
        scores = self.A @ x + self.b
        moved = x - self.xbar
        return 0.5 * self.weight * float(moved @ moved) + surprise(scores, self.label)[0]

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """∇E at a point, equation (3)."""
        return self.both(x)[1]

    def both(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """E and ∇E by two passes over A."""
        value, p = surprise(self.A @ x + self.b, self.label)
        p[self.label] -= 1.0
        moved = x - self.xbar
        value += 0.5 * self.weight * float(moved @ moved)
        moved *= self.weight
        moved += p @ self.A
        return value, moved

    def probability(self, x: np.ndarray) -> float:
        """p_k at a point."""
        return float(surprise(self.A @ x + self.b, self.label)[1][self.label])


@dataclass
class Record:
    """How a method went.

    Parameters
    ----------
    energies, norms
        E and ‖∇E‖ at the starting point and after each iteration.
    trials
        How many steps the line search of each iteration tried.
    seconds
        CPU time since the start, beside each of `energies`; None unless it was asked for.
    converged
        Whether ‖∇E‖ became smaller than the tolerance.
    """

    energies: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)
    seconds: list[float] | None = None
    converged: bool = False

    @property
    def iterations(self) -> int:
        """How many steps were taken."""
        return len(self.energies) - 1


@dataclass(frozen=True)
class Limits:
    """When to stop, and whether time is taken after each iteration."""

    tolerance: float = 1e-8
    max_iter: int = 1000
    timed: bool = False


LIMITS = Limits()


class Watch:
    """Keeps a record and says when to stop: converged, out of iterations, or no progress."""

    PATIENCE = 5

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.record = Record(seconds=[] if limits.timed else None)
        self._start = process_time() if limits.timed else 0.0
        self._best = np.inf
        self._idle = 0

    def goes_on(self, energy: float, norm: float) -> bool:
        """Note where the method is; whether it should take another step."""
        record = self.record
        if record.energies and energy >= record.energies[-1] and norm >= self._best:
            self._idle += 1
        else:
            self._idle = 0
        record.energies.append(energy)
        record.norms.append(norm)
        if record.seconds is not None:
            record.seconds.append(process_time() - self._start)
        self._best = min(norm, self._best)
        record.converged = norm < self.limits.tolerance
        return (
            not record.converged
            and self._idle < self.PATIENCE
            and len(record.energies) <= self.limits.max_iter
        )


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

    __slots__ = (
        "_flat",
        "_label",
        "_ones",
        "_rise",
        "_scores",
        "_tilt",
        "_turn",
        "exps",
        "scores",
        "step",
        "total",
    )

    def __init__(
        self,
        problem: Problem,
        scores: np.ndarray,
        rise: np.ndarray,
        squares: tuple[float, float, float],
    ) -> None:
        half = 0.5 * problem.weight
        self._label = problem.label
        self._ones = problem.ones
        self._scores = scores
        self._rise = rise
        self._flat, self._tilt, self._turn = (
            half * squares[0],
            2.0 * half * squares[1],
            half * squares[2],
        )

    def at(self, step: float) -> float:
        """E at α, which is from then on where the line stands."""
        scores = self._scores + (self._rise if step == 1.0 else step * self._rise)
        top = scores.item(scores.argmax())
        exps = np.exp(scores - top)
        total = float(exps.dot(self._ones))
        self.step, self.scores, self.exps, self.total = step, scores, exps, total
        quadratic = self._flat + step * (self._tilt + step * self._turn)
        return quadratic + (top - scores.item(self._label)) + log(total)

    def slope(self) -> float:
        """dE/dα where the line stands."""
        rise = self._rise
        pull = float(rise.dot(self.exps)) / self.total - rise.item(self._label)
        return self._tilt + 2.0 * self.step * self._turn + pull

    def noise(self, energy: float) -> float:
        """Differences of E below this are rounding."""
        return EPS * (abs(energy) + float(np.abs(self._scores).max()))


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


def lipschitz(problem: Problem, gram: np.ndarray) -> float:
    """L = λ + ‖A_k‖² of theorem 3.4, where A_k has the rows a_i − a_k."""
    k = problem.label
    own = gram - gram[k] - gram[:, [k]] + gram[k, k]
    return problem.weight + float(np.linalg.eigvalsh(own)[-1])


def length(vector: np.ndarray) -> float:
    """‖vector‖, with no overhead."""
    return sqrt(vector.dot(vector))
