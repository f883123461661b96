"""The paper's Newton method for softmax classifiers: iterates in D dimensions, K × K systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from scipy.linalg.blas import dgemv
from scipy.linalg.lapack import dposv

from inverse_peers.line_search import BACKTRACKING, Search
from inverse_peers.problem import (
    EPS,
    LIMITS,
    Limits,
    Line,
    Problem,
    Record,
    Watch,
    length,
    surprise,
)

NEAR = 1e-4
"""How small ‖∇E‖ must be, beside what it is the sum of, for it to be formed."""


class Woodbury:
    """The Newton direction of theorem 3.6 by one K × K Cholesky factorisation.

    The direction is s = (Aᵀw − ∇E)/λ. With S = diag(√p), G = A Aᵀ and M = G + λ diag(1/p),
    which is S⁻¹ C S⁻¹ for C = λ I + S G S, Sherman–Morrison and Woodbury together give

        w = S (u − (√pᵀu / √pᵀh) h),   C u = S A∇E,   C h = √p.

    C has no eigenvalue below λ, whatever underflows in p. The denominator of (5) is
    1 − vᵀH⁻¹v = λ √pᵀh, so it does not cancel. Since w sums to zero, it is the same whether the
    rows of A or of A_k are taken.
    """

    def __init__(self, gram: np.ndarray, weight: float) -> None:
        size = len(gram)
        self.gram = gram
        self.weight = weight
        self._matrix = np.empty((size, size))
        self._diagonal = self._matrix.reshape(-1)[:: size + 1]
        self._right = np.empty((size, 2), order="F")
        self._root, self._pull = self._right.T

    def solve(self, p: np.ndarray, pull: np.ndarray) -> np.ndarray:
        """The vector w, given A∇E (up to a constant added to all classes)."""
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


def newton(
    problem: Problem,
    gram: np.ndarray,
    search: Search = BACKTRACKING,
    *,
    shared: bool = True,
    limits: Limits = LIMITS,
) -> tuple[np.ndarray, Record]:
    """Newton's method from x̄, with a line search.

    Parameters
    ----------
    problem
        What to solve.
    gram
        `gram(A)`, computed once for the model.
    search
        The line search: `Backtracking`, or `StrongWolfe`.
    shared
        Take A∇E and A s from products of K × K, which leaves two passes over A an iteration: one
        for the direction, one for the gradient. If False, these two are passes as well, as the
        formulas read: four.
    limits
        When to stop.

    Returns
    -------
    x, record
        The last iterate, and how it went.
    """
    watch = Watch(limits)
    A = np.ascontiguousarray(problem.A)
    point = Point.source(problem, A)
    _descend(problem, A, gram, point, (search, shared, watch))
    return point.x(problem), watch.record


def lean_newton(
    problem: Problem, gram: np.ndarray, *, limits: Limits = LIMITS
) -> tuple[np.ndarray, Record]:
    """Newton's method with backtracking and one pass over A an iteration, the fewest it can have.

    The direction is s = (Aᵀ(w − pulls) − λ(x − x̄))/λ, so that ∇E = λ(x − x̄) + Aᵀ pulls need not
    be known. Its length follows from products of K × K; where these say that it is nearly there,
    which they cannot say exactly, it is formed after all.
    """
    watch = Watch(limits)
    A = np.ascontiguousarray(problem.A)
    label, weight, columns = problem.label, problem.weight, A.T
    system = Woodbury(gram, weight)
    start = scores = A.dot(problem.xbar) + problem.b
    reach = float(np.abs(scores).max())
    energy, p = surprise(scores, label)
    moved, towards = np.zeros((2, len(problem.xbar)))
    squared = 0.0
    while True:
        pulls = p.copy()
        pulls[label] -= 1.0
        lifted = gram.dot(pulls)
        drift = weight * (scores - start)
        pull = drift + lifted
        size = weight**2 * squared + float(pulls.dot(lifted))
        norm = sqrt(max(size + 2.0 * float(drift.dot(pulls)), 0.0))
        if norm < NEAR * sqrt(size):
            norm = length(pulls.dot(A) + moved)
        if not watch.goes_on(energy, norm):
            break
        w = system.solve(p, pull)
        np.copyto(towards, moved)
        towards = dgemv(1.0, columns, w - pulls, -1.0, towards, overwrite_y=1)
        rise = (gram.dot(w) - pull) / weight
        across, along = float(moved.dot(towards)), float(towards.dot(towards))
        line = Line(problem, scores, rise, (squared, across / weight**2, along / weight**2))
        slope = (float(pull.dot(w)) - norm * norm) / weight
        is_end = -slope < EPS * (energy + reach)
        energy, trials = (line.at(1.0), 1) if is_end else BACKTRACKING(line, energy, slope, 1.0)
        step = line.step
        if step == 0.0:
            break
        if step != 1.0:
            towards *= step
        moved += towards
        squared += step * (2.0 * across + step * along) / weight**2
        scores, p = line.scores, line.exps / line.total
        watch.record.trials.append(trials)
    return moved / weight + problem.xbar, watch.record


def newton_path(
    problem: Problem, gram: np.ndarray, weights: Iterable[float], *, limits: Limits = LIMITS
) -> Iterator[tuple[np.ndarray, Record]]:
    """Newton's method with backtracking for one λ after the other, each from the last answer.

    Section 3.4. Scores and gradient are kept, so that to begin anew costs no pass over A.
    """
    A = np.ascontiguousarray(problem.A)
    point = Point.source(problem, A)
    for weight in weights:
        here = replace(problem, weight=weight)
        point.change_weight(problem.weight, weight)
        problem, watch = here, Watch(limits)
        _descend(here, A, gram, point, (BACKTRACKING, True, watch))
        yield point.x(here), watch.record


@dataclass
class Point:
    """Where Newton's method is.

    Parameters
    ----------
    start, scores
        A x̄ + b, A x + b.
    p
        The softmax of the scores.
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
    def source(cls, problem: Problem, A: np.ndarray) -> Point:
        """At x̄."""
        scores = A.dot(problem.xbar) + problem.b
        energy, p = surprise(scores, problem.label)
        pulls = p.copy()
        pulls[problem.label] -= 1.0
        gradient = pulls.dot(A)
        return cls(scores, scores, p, np.zeros(len(gradient)), gradient, energy, 0.0)

    def x(self, problem: Problem) -> np.ndarray:
        """The point itself."""
        return self.moved / problem.weight + problem.xbar

    def change_weight(self, old: float, new: float) -> None:
        """Be where one is, for another λ."""
        self.squared = float(self.moved.dot(self.moved)) / old**2
        self.energy += 0.5 * (new - old) * self.squared
        self.gradient += (new / old - 1.0) * self.moved
        self.moved *= new / old


def _descend(
    problem: Problem,
    A: np.ndarray,
    gram: np.ndarray,
    point: Point,
    how: tuple[Search, bool, Watch],
) -> None:
    """Move the point until the watch says that it is over."""
    search, shared, watch = how
    label, weight, columns = problem.label, problem.weight, A.T
    system = Woodbury(gram, weight)
    start, scores, p = point.start, point.scores, point.p
    moved, gradient, energy, squared = point.moved, point.gradient, point.energy, point.squared
    reach = float(np.abs(scores).max())
    pulls = p.copy()
    pulls[label] -= 1.0
    # A direction is kept as λ s; it and the next gradient are written where the gradient was.
    norm = length(gradient)
    while watch.goes_on(energy, norm):
        pull = weight * (scores - start) + gram.dot(pulls) if shared else A.dot(gradient)
        w = system.solve(p, pull)
        towards = dgemv(1.0, columns, w, -1.0, gradient, overwrite_y=1)
        rise = gram.dot(w) - pull if shared else A.dot(towards)
        rise /= weight
        across, along = float(moved.dot(towards)), float(towards.dot(towards))
        line = Line(problem, scores, rise, (squared, across / weight**2, along / weight**2))
        slope = (float(pull.dot(w)) - norm * norm) / weight
        # A decrease that E cannot show is not searched for: Newton's own step is taken.
        is_end = -slope < EPS * (energy + reach)
        energy, trials = (line.at(1.0), 1) if is_end else search(line, energy, slope, 1.0)
        step = line.step
        if step == 0.0:
            break
        if step != 1.0:
            towards *= step
        moved += towards
        squared += step * (2.0 * across + step * along) / weight**2
        scores, p = line.scores, line.exps / line.total
        pulls = p.copy()
        pulls[label] -= 1.0
        np.copyto(towards, moved)
        gradient = dgemv(1.0, columns, pulls, 1.0, towards, overwrite_y=1)
        norm = length(gradient)
        watch.record.trials.append(trials)
    point.scores, point.p, point.gradient = scores, p, gradient
    point.energy, point.squared = energy, squared
