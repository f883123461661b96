"""Trade-offs with softmax and logistic classifiers, against the Newton method of their paper."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from harness.report import Claim, Section, is_quick, publish
from harness.timing import interleaved, keep_memory, microseconds, milliseconds, number
from peers.inverse import Problem, gram, newton, newton_path
from peers.inverse_data import SETTINGS, Setting, draw
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import counterpoint as cp

TEXT = """
Rows of classifiers of the paper's sizes to a far class, min λ/2 ‖x − x̄‖² − log p(x): microseconds a
row through the public interface, `explain(rows, Tradeoff(k, λ)).to_frame()`, certificates and the
model's own `predict_proba` of every answer included, all rows to one class. The peer is the method
of Carreira-Perpiñán and Hada with care (`peers/inverse.py`), without certificates or a model that
is asked, one row at a time. The limit is what no method does without that asks the model as well:
`X @ A.T`, `U @ A`, the subtraction that writes x into memory of its own, and `predict_proba` of x,
in the same run. Freed memory stays with the process, for the limit as for us. Memory as tracemalloc
sees it, beyond the rows.
"""
PATH = """
100 values of λ from 100 to 0.0001, K = 10, D = 784, one row after the other: 100 answers each.
"""


class Case(NamedTuple):
    """A size of the paper, rows in a batch and one by one, and what is promised.

    `goal` is how many times the peer's time a batch shall be as fast, `alone` how many milliseconds
    a single row may take.
    """

    setting: Setting
    rows: int
    few: int
    goal: float
    alone: float | None = None


CASES = tuple(
    Case(setting, *promised)
    for setting, promised in zip(
        SETTINGS,
        (
            (4096, 40, 20, 1.5),
            (640, 10, 15),
            (1024, 30, 15, 1.5),
            (256, 10, 10),
            (1024, 30, 12, 1.5),
        ),
        strict=True,
    )
)


def classifier(A: np.ndarray, b: np.ndarray) -> LogisticRegression:
    """A model that has A and b."""
    model = LogisticRegression()
    model.coef_, model.intercept_, model.n_features_in_ = A, b, A.shape[1]
    model.classes_ = np.arange(max(2, len(A)))
    return model


class Contest:
    """A classifier and rows, all to be moved to the class of the lowest mean score."""

    def __init__(self, case: Case) -> None:
        setting = case.setting
        data = draw(setting.K, setting.D)
        self.A, self.b = data.fit()
        self.gram = gram(self.A)
        rows = np.random.default_rng(3).integers(256, size=case.rows)
        self.X = data.X[rows].toarray() if sparse.issparse(data.X) else data.X[rows]
        self.label = int((self.X @ self.A.T + self.b).mean(axis=0).argmin())
        self.weight, self.few = setting.farthest, case.few
        self.model = classifier(self.A, self.b)
        self.explainer = cp.Explainer(self.model, cost=cp.SquaredEuclidean())
        self.target = cp.Tradeoff(self.label, self.weight)

    def problems(self) -> list[Problem]:
        """The first rows, for those who solve one at a time."""
        return [Problem(self.A, self.b, x, self.label, self.weight) for x in self.X[: self.few]]

    def batch(self) -> cp.Counterfactuals:
        """All rows, to the array of answers."""
        answers = self.explainer.explain(self.X, self.target)
        answers.to_frame()
        return answers

    def alone(self) -> None:
        """The first rows, one by one."""
        for i in range(self.few):
            self.explainer.explain(self.X[i : i + 1], self.target).to_frame()

    def by_newton(self) -> None:
        """The paper's method on the first rows."""
        for problem in self.problems():
            newton(problem, self.gram)

    def limit(self) -> None:
        """Reading A and X, writing the answers, and the model's word on them."""
        u = np.matmul(self.X, self.A.T)
        points = np.matmul(u, self.A)
        self.model.predict_proba(np.subtract(self.X, points, out=points))

    def memory(self) -> float:
        """Peak bytes of a batch, over those of the rows."""
        tracemalloc.start()
        self.batch()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / self.X.nbytes


def line(case: Case, *, quick: bool) -> tuple[tuple[Any, ...], list[Claim]]:
    """One size."""
    if quick:
        setting = replace(case.setting, D=min(case.setting.D, 1024))
        case = Case(setting, 64, 2, case.goal, case.alone)
    contest, setting = Contest(case), case.setting
    answers = contest.batch()
    tasks: dict[str, Callable[[], Any]] = {
        "public": contest.batch,
        "limit": contest.limit,
        "newton": contest.by_newton,
        "alone": contest.alone,
    }
    counts = {"public": case.rows, "limit": case.rows, "newton": case.few, "alone": case.few}
    seconds = interleaved(tasks, 1 if quick else 9)
    seconds = {name: value / counts[name] for name, value in seconds.items()}
    proved = float(np.mean(answers.certificates.claim == cp.Claim.PROVED))
    ratio, reachable = (seconds["newton"] / seconds[name] for name in ("public", "limit"))
    memory, size = contest.memory(), f"({setting.K}, {setting.D})"
    cells = (
        f"{setting.name}-like {size}",
        *(microseconds(seconds[name]) for name in ("public", "limit", "newton")),
        *(number(ratio), number(reachable), microseconds(seconds["alone"])),
        number(seconds["newton"] / seconds["alone"]),
        *(f"{proved:.1%}", f"{np.max(answers.gap):.0e}", number(memory)),
    )
    measured = f"{number(ratio)}× (limit: {number(reachable)}×)"
    claims = [
        Claim(f"{size}, against Newton", f"≥ {case.goal:g}×", measured, ratio >= case.goal),
        Claim(f"{size}, memory", "≤ 2 × the answers", f"{number(memory)}×", memory <= 2),
    ]
    if case.alone is not None:
        met = seconds["alone"] <= 1e-3 * case.alone
        time = milliseconds(seconds["alone"])
        claims.append(Claim(f"{size}, one row", f"≤ {case.alone:g} ms", time, met))
    return cells, claims


def paths(*, quick: bool) -> Section:
    """Many λ for one row."""
    contest = Contest(Case(SETTINGS[0], 64, 1 if quick else 20, 0))
    weights = np.geomspace(1e2, 1e-4, 10 if quick else 100)
    targets = [cp.Tradeoff(contest.label, weight) for weight in weights]

    def warm(problem: Problem) -> None:
        list(newton_path(problem, contest.gram, weights))

    def cold(problem: Problem) -> None:
        for weight in weights:
            newton(replace(problem, weight=weight), contest.gram)

    problems = contest.problems()
    tasks: dict[str, Callable[[], Any]] = {
        "cp.trace, certified": lambda: [
            cp.trace(contest.explainer, p.xbar, targets) for p in problems
        ],
        "Explainer.explain, one λ, certified": contest.alone,
        "Newton, warm start": lambda: [*map(warm, problems)],
        "Newton, cold": lambda: [*map(cold, problems)],
    }
    for task in tasks.values():
        task()
    seconds = interleaved(tasks, 1 if quick else 5)
    rows = [(name, milliseconds(value / contest.few)) for name, value in seconds.items()]
    trace, explain, *_ = seconds.values()
    times = f"{trace / explain:.1f}×"
    claim = Claim("cp.trace over 100 λ, against one λ", "≤ 10×", times, trace <= 10 * explain)
    return Section("Many λ", PATH, ("method", "a row"), rows, claims=[claim])


def main() -> None:
    quick = is_quick()
    keep_memory()
    pairs = [line(case, quick=quick) for case in (CASES[:3:2] if quick else CASES)]
    columns = (
        *("data (K, D)", "explain, a row", "limit", "the paper's Newton", "Newton / explain"),
        *("reachable: Newton / limit", "one row", "Newton / one row", "proved", "largest gap"),
        "memory / answers",
    )
    claims = [claim for _, made in pairs for claim in made]
    section = Section("", TEXT, columns, [cells for cells, _ in pairs], claims=claims)
    sections = [section, paths(quick=quick)]
    publish("softmax", "Softmax classifiers inverted", sections, quick=quick, packages=("scipy",))


if __name__ == "__main__":
    main()
