"""What `bench_softmax.py` times: ours, its limit, the paper's method and SciPy, each as a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from inverse_peers import (
    METHODS,
    Problem,
    Problems,
    batched_newton,
    gram,
    lean_newton,
    newton,
    newton_path,
    scipy_minimize,
    synthetic,
)

import counterpoint as cp
from counterpoint.models.softmax import Reduced, minimise

CHECKED = 64
"""Rows whose gradients are recomputed at a time."""


@dataclass(frozen=True)
class Case:
    """A size of the paper, λ, how many rows are solved by whom, and what was promised.

    Parameters
    ----------
    name, K, D, weight
        A data set of the paper and its λ.
    rows
        In a batch of ours; `batched` in one of the peer, `few` one by one, `slow` by SciPy.
    goal
        How many times the peer's time; `single` likewise for a row alone, `limit` how many times
        what reading and writing take. Of the method alone; `public` and `alone` are what was
        promised of the public call, for a batch and for one row.
    """

    name: str
    K: int
    D: int
    weight: float
    rows: int
    batched: int
    few: int
    slow: int
    goal: float
    public: float
    single: float | None = None
    limit: float | None = None
    alone: float | None = None


CASES = (
    Case("MNIST", 10, 784, 0.01, 4096, 256, 40, 4, 20.0, 20.0),
    Case("RCV1", 51, 47_236, 0.01, 640, 64, 10, 2, 60.0, 30.0, 15.0, 1.5, 5.0),
    Case("VGGFeat64", 16, 8_192, 0.01, 1024, 128, 30, 3, 15.0, 15.0),
    Case("VGGFeat256", 16, 131_072, 0.006, 256, 64, 10, 2, 25.0, 20.0, 15.0, 1.5, 5.0),
    Case("MNIST-100", 100, 1_568, 0.01, 1024, 128, 30, 3, 8.0, 12.0),
)


@dataclass(frozen=True, eq=False)
class Contest:
    """One case, drawn: a classifier and rows, each to be moved to its farthest class.

    Parameters
    ----------
    case
        The size.
    A, b, X
        The classifier, and dense rows.
    sparse
        The same rows as a CSR matrix, where they are documents; else None.

    Answers are written into `room`, which is there already: the price of new memory is no one's.
    """

    case: Case
    A: np.ndarray
    b: np.ndarray
    X: np.ndarray
    sparse: Any = None
    gram: np.ndarray = field(init=False)
    upright: np.ndarray = field(init=False)
    labels: np.ndarray = field(init=False)
    room: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        # What belongs to the model alone: made once for it, here and by the peers.
        object.__setattr__(self, "gram", gram(self.A))
        object.__setattr__(self, "upright", np.ascontiguousarray(self.A.T))
        object.__setattr__(self, "labels", (self.X @ self.A.T + self.b).argmin(axis=1))
        object.__setattr__(self, "room", np.zeros_like(self.X))

    @classmethod
    def draw(cls, case: Case) -> Contest:
        """Rows of the data on which the classifier was trained, some of them several times."""
        is_text = case.name == "RCV1"
        A, b, X = synthetic(case.K, case.D, dense=not is_text)
        rows = np.random.default_rng(3).integers(X.shape[0], size=case.rows)
        kept = X[rows]
        return cls(case, A, b, kept.toarray(), kept) if is_text else cls(case, A, b, kept)

    def problems(self, number: int) -> Iterator[Problem]:
        """The first rows, for those who solve one at a time."""
        for x, label in zip(self.X[:number], self.labels[:number], strict=True):
            yield Problem(self.A, self.b, x, int(label), self.case.weight)

    def reduced(self, X: Any, labels: np.ndarray) -> Reduced:
        """u of some rows: scores, and Newton's method in K dimensions."""
        scores = X @ (self.A.T if isinstance(X, np.ndarray) else self.upright)
        scores += self.b
        return minimise(scores, self.gram, labels, self.case.weight)

    def moved(self, X: np.ndarray, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """x = x̄ − Aᵀu, written out."""
        points = np.matmul(u, self.A, out=out)
        return np.subtract(X, points, out=points)

    def batch(self, X: Any = None) -> np.ndarray:
        """Ours: all rows at once, perhaps read as a sparse matrix."""
        reduced = self.reduced(self.X if X is None else X, self.labels)
        return self.moved(self.X, reduced.coefficients, self.room)

    def alone(self) -> list[np.ndarray]:
        """Ours: the first rows, one by one."""
        found = []
        for i in range(self.case.few):
            row = slice(i, i + 1)
            reduced = self.reduced(self.X[row], self.labels[row])
            found.append(self.moved(self.X[row], reduced.coefficients, self.room[row])[0])
        return found

    def limits(self) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """What reading A and X and writing the answers take: all rows at once, and one by one."""
        u = self.reduced(self.X, self.labels).coefficients

        def batch() -> np.ndarray:
            np.matmul(self.X, self.A.T)
            return self.moved(self.X, u, self.room)

        def alone() -> None:
            for i in range(self.case.few):
                np.matmul(self.X[i], self.A.T)
                self.moved(self.X[i], u[i], self.room[i])

        return batch, alone

    def factored(self, X: Any) -> np.ndarray:
        """Ours, left as u."""
        return self.reduced(X, self.labels).coefficients

    def by_newton(self) -> list[np.ndarray]:
        """The paper's method, two passes over A an iteration."""
        return [newton(problem, self.gram)[0] for problem in self.problems(self.case.few)]

    def by_lean_newton(self) -> list[np.ndarray]:
        """The same with the fewest passes."""
        return [lean_newton(problem, self.gram)[0] for problem in self.problems(self.case.few)]

    def by_batched_newton(self) -> np.ndarray:
        """The same on many rows at once."""
        n = self.case.batched
        weights = np.full(n, self.case.weight)
        problems = Problems(self.A, self.b, self.X[:n], self.labels[:n], weights)
        return batched_newton(problems, self.gram, out=self.room[:n])[0]

    def by_scipy(self, method: str) -> list[np.ndarray]:
        """SciPy's minimisers."""
        number = 1 if method == "BFGS" else self.case.slow
        return [scipy_minimize(problem, method)[0] for problem in self.problems(number)]

    def scipy_methods(self) -> tuple[str, ...]:
        """Those that are feasible: BFGS keeps D × D numbers, and multiplies them."""
        return METHODS if self.case.D < 1000 else METHODS[:2]

    def norms(self, answers: Any) -> np.ndarray:
        """‖∇E‖ at answers, recomputed in D dimensions; rows with K numbers are u."""
        found = []
        for start in range(0, len(answers), CHECKED):
            part = slice(start, start + CHECKED)
            x = np.array(answers[part])
            source, labels = self.X[part][: len(x)], self.labels[part][: len(x)]
            if x.shape[1] == self.case.K:
                x = self.moved(source, x)
            scores = x @ self.A.T + self.b
            scores -= scores.max(axis=1, keepdims=True)
            pulls = np.exp(scores)
            pulls /= pulls.sum(axis=1, keepdims=True)
            pulls[np.arange(len(x)), labels] -= 1.0
            slopes = pulls @ self.A
            x -= source
            slopes += np.multiply(x, self.case.weight, out=x)
            found.append(np.sqrt(np.vecdot(slopes, slopes)))
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class Public:
    """The public call on the rows of a contest: certified, with the model's own word, as an array.

    Parameters
    ----------
    contest
        The rows; those who are compared move them to the same class.
    model
        A classifier that has A and b.
    """

    contest: Contest
    model: Any
    explainer: cp.Explainer = field(init=False)
    target: cp.Tradeoff = field(init=False)

    def __post_init__(self) -> None:
        of = self.contest
        label = int((of.X @ of.A.T + of.b).mean(axis=0).argmin())
        of.labels[:] = label  # a call has one target
        explainer = cp.Explainer(self.model, cost=cp.SquaredEuclidean())
        object.__setattr__(self, "explainer", explainer)
        object.__setattr__(self, "target", cp.Tradeoff(label, of.case.weight))

    def batch(self) -> cp.Counterfactuals:
        """All rows, to the array of answers."""
        answers = self.explainer.explain(self.contest.X, self.target)
        answers.to_frame()
        return answers

    def alone(self) -> None:
        """The first rows, one by one."""
        for i in range(self.contest.case.few):
            self.explainer.explain(self.contest.X[i : i + 1], self.target).to_frame()

    def limits(self) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """Reading A and X, writing the answers, and the model's word on them; the same one by one.

        New memory for the answers is part of it: they are handed over.
        """
        of = self.contest
        u = of.reduced(of.X, of.labels).coefficients

        def batch() -> None:
            np.matmul(of.X, of.A.T)
            self.model.predict_proba(of.moved(of.X, u))

        def alone() -> None:
            for i in range(of.case.few):
                np.matmul(of.X[i], of.A.T)
                self.model.predict_proba(of.moved(of.X[i : i + 1], u[i : i + 1]))

        return batch, alone


@dataclass(frozen=True)
class Along:
    """The first rows of a contest, each for many λ.

    Parameters
    ----------
    contest, weights
        The rows, and the values of λ.
    explainer
        Asked about the same model.
    """

    contest: Contest
    weights: np.ndarray
    explainer: cp.Explainer

    def rows(self) -> Iterator[tuple[np.ndarray, int]]:
        """x̄ and k."""
        few = self.contest.case.few
        yield from zip(self.contest.X[:few], self.contest.labels[:few].tolist(), strict=True)

    def together(self) -> None:
        """Ours: all λ of a row in one batch."""
        of = self.contest
        for x, label in self.rows():
            scores = np.broadcast_to(x @ of.A.T + of.b, (len(self.weights), of.case.K))
            of.moved(x, minimise(scores, of.gram, label, self.weights).coefficients)

    def apart(self) -> None:
        """Ours: each λ by itself, from the start."""
        of = self.contest
        for x, label in self.rows():
            for weight in self.weights:
                scores = (x @ of.A.T + of.b)[None]
                of.moved(x, minimise(scores, of.gram, label, weight).coefficients)

    def warm(self) -> None:
        """The paper's: each λ from the answer of the one before."""
        for problem in self.contest.problems(self.contest.case.few):
            for _ in newton_path(problem, self.contest.gram, self.weights):
                pass

    def cold(self) -> None:
        """The paper's, from x̄."""
        for problem in self.contest.problems(self.contest.case.few):
            for weight in self.weights:
                newton(replace(problem, weight=weight), self.contest.gram)

    def traced(self) -> None:
        """The public interface, with certificates."""
        for x, label in self.rows():
            cp.trace(self.explainer, x, [cp.Tradeoff(label, weight) for weight in self.weights])

    def explained(self) -> None:
        """The same for one λ."""
        for x, label in self.rows():
            self.explainer.explain(x, cp.Tradeoff(label, self.contest.case.weight))
