"""The methods: the paper's, implemented beside the benchmarks, and ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from inverse_peers import (
    Backtracking,
    Limits,
    Problem,
    Record,
    StrongWolfe,
    bfgs,
    conjugate_gradient,
    gradient_descent,
    lbfgs,
    newton,
)

from counterpoint.models.softmax import Reduced, minimise
from inverse.sets import Set

Method = Callable[[Set, Problem, Limits], tuple[np.ndarray, Record]]

MOST_FOR_BFGS = 2_000
"""The largest D for which BFGS keeps its D × D matrix here."""
OURS, BATCH = "ours", "ours, batch"
PEERS: dict[str, Method] = {
    "Newton": lambda of, problem, limits: newton(problem, of.gram, limits=limits),
    "BFGS": lambda _, problem, limits: bfgs(problem, limits=limits),
    "L-BFGS": lambda _, problem, limits: lbfgs(problem, limits=limits),
    "CG": lambda _, problem, limits: conjugate_gradient(problem, limits=limits),
    "GD": lambda _, problem, limits: gradient_descent(problem, limits=limits),
}
SEARCHES: dict[str, Method] = {
    "backtracking": lambda of, problem, limits: newton(
        problem, of.gram, Backtracking(), limits=limits
    ),
    "Wolfe": lambda of, problem, limits: newton(problem, of.gram, StrongWolfe(), limits=limits),
}


@dataclass(frozen=True)
class Solved:
    """One problem, solved by one method.

    Parameters
    ----------
    energy, norm
        E and ‖∇E‖, recomputed in D dimensions at the answer.
    iterations, seconds
        What it took.
    trials
        Steps that the line search of each iteration tried; none for ours, which does not count.
    """

    energy: float
    norm: float
    iterations: int
    seconds: float
    trials: tuple[int, ...] = ()


def methods_for(one: Set) -> dict[str, Method]:
    """The peers that can be run at its size."""
    large = one.A.shape[1] > MOST_FOR_BFGS
    return {name: run for name, run in PEERS.items() if not (large and name == "BFGS")}


def by_peer(one: Set, problem: Problem, method: Method) -> Solved:
    """A problem solved by a peer: CPU time, the median of a few runs."""
    limits = Limits(max_iter=one.sizes.iterations)
    (x, record), seconds = measured(lambda: method(one, problem, limits), one.sizes.repeats)
    energy, gradient = problem.both(x)
    norm = float(np.linalg.norm(gradient))
    return Solved(energy, norm, record.iterations, seconds, tuple(record.trials))


def by_us(one: Set) -> dict[str, list[Solved]]:
    """All problems of a set solved by counterpoint, row by row and as a batch."""
    problems, repeats = one.problems, one.sizes.repeats
    found: dict[str, list[Solved]] = {OURS: [], BATCH: []}
    for problem in problems:
        result, seconds = measured(lambda p=problem: solve(one, [p]), repeats)
        found[OURS] += _solved(result, [problem], seconds)
    X = sources(problems)
    result, seconds = measured(lambda: solve(one, problems, X), repeats)
    found[BATCH] = _solved(result, problems, seconds / len(problems))
    return found


def solve(
    one: Set, problems: Sequence[Problem], X: np.ndarray | None = None, **asked: tuple[float, float]
) -> tuple[np.ndarray, Reduced]:
    """Answers in D dimensions: two products with A, and Newton's method in K dimensions between."""
    X = sources(problems) if X is None else X
    labels = [problem.label for problem in problems]
    weights = [problem.weight for problem in problems]
    reduced = minimise(X @ one.A.T + one.b, one.gram, labels, weights, **asked)
    moved = reduced.coefficients @ one.A
    return np.subtract(X, moved, out=moved), reduced


def sources(problems: Sequence[Problem]) -> np.ndarray:
    """(n, D) the source instances; for one problem, a view."""
    if len(problems) == 1:
        return problems[0].xbar[None]
    return np.array([problem.xbar for problem in problems])


def our_record(one: Set, problem: Problem) -> Record:
    """Energies, gradients and times of our iterates.

    Each is found by asking for a gradient below that of the iterate before, so that an iterate
    whose gradient is not the smallest yet is left out. The time of an iterate is that of the
    whole call, products with A included.
    """
    scores = (problem.xbar @ one.A.T + problem.b)[None]
    record = Record(seconds=[])
    tolerance = np.inf
    while True:
        (_, reduced), seconds = measured(
            lambda asked=tolerance: solve(one, [problem], accuracy=(asked, 1e9)),
            one.sizes.repeats,
        )
        if not reduced.settled[0] and record.energies:
            return record
        u = reduced.coefficients[0]
        pull = one.gram @ u
        energy = _surprise(scores[0] - pull, problem.label)
        record.energies.append(energy + 0.5 * problem.weight * float(u @ pull))
        record.norms.append(float(reduced.gradient[0]))
        record.seconds.append(max([seconds, *record.seconds]))
        record.trials.append(int(reduced.iterations[0]))
        tolerance = 0.999 * record.norms[-1]
        if record.norms[-1] < Limits().tolerance or not reduced.settled[0]:
            record.converged = bool(reduced.settled[0])
            return record


def measured(task: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """What a task returns, and its CPU time: the median of some runs after a first.

    What was returned before is let go, so that its memory is used again: new memory costs more.
    """
    times, result = [], None
    for _ in range(repeats if repeats == 1 else repeats + 1):
        result = None
        start = process_time()
        result = task()
        times.append(process_time() - start)
    return result, float(np.median(times[-repeats:]))


def _surprise(scores: np.ndarray, label: int) -> float:
    top = scores.max()
    return float(top - scores[label] + np.log(np.exp(scores - top).sum()))


def _solved(
    result: tuple[np.ndarray, Reduced], problems: Sequence[Problem], seconds: float
) -> list[Solved]:
    found = []
    for x, steps, problem in zip(result[0], result[1].iterations, problems, strict=True):
        energy, gradient = problem.both(x)
        norm = float(np.linalg.norm(gradient))
        found.append(Solved(energy, norm, int(steps), seconds))
    return found
