"""Softmax and logistic classifiers inverted: in K dimensions, in closed form, along a path."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from _common import (
    Goal,
    More,
    Report,
    finish,
    interleaved,
    is_quick,
    keep_memory,
    microseconds,
    milliseconds,
    number,
)
from logistic_tasks import TwoClasses
from sklearn.linear_model import LogisticRegression
from softmax_tasks import CASES, Along, Case, Contest, Public

import counterpoint as cp

ACCURATE = 1e-8
QUESTION = """
Rows of classifiers of the paper's sizes to a far class, min λ/2 ‖x − x̄‖² − log p(x): microseconds
a row, from x̄ to x.
"""
METHOD = """
The method alone, to the farthest class of each row: no certificate, no model asked. The peer is the
method of Carreira-Perpiñán and Hada with care: Newton's method with iterates in D dimensions, A Aᵀ
known, a Cholesky factorisation of K × K, two passes over A an iteration; "fewest passes" makes one.
Both solve one row at a time; "peer, batch" many, by products of matrices. The limit is `X @ A.T`,
`U @ A` and the subtraction that writes x, in the same run: no method that returns x does without.
Everyone writes answers into memory that is there already. "Reachable" is what the limit leaves of
the peer's time, so a goal above it is out of reach of any algorithm here. Goals were set on another
machine, where the peer was several times slower: here A fits into a processor cache.
"""
SCIPY = """
The same problems, one row at a time, with their accuracy: ‖∇E‖ is recomputed in D dimensions at
every answer that was timed.
"""
NARROW = """
Two classes in closed form (theorem 4.2), λ = 0.01, rows of noise, the class with p < ½. The peer
is the paper's Newton method for two classes, O(D) an iteration. The limit is reading X and writing
x.
"""
PATH = """
100 values of λ from 100 to 0.0001, K = 10, D = 784, one row after the other: 100 answers each.
"""
PUBLIC = """
Through the public interface: `explain(rows, Tradeoff(k, λ)).to_frame()`, certificates and the
model's own `predict_proba` of every answer included, all rows to one class. The limit is what no
method does without that asks the model as well: `X @ A.T`, `U @ A`, the subtraction that writes x
into memory of its own, and `predict_proba` of x, in the same run. Freed memory stays with the
process, for the limit as for us. Memory as tracemalloc sees it, beyond the rows.
"""
Measured = tuple[list[tuple[Any, ...]], list[Goal]]


@dataclass(frozen=True)
class Timed:
    """Seconds a row of each task of a case, and the gradients at its answers."""

    case: Case
    seconds: dict[str, float]
    norms: dict[str, np.ndarray]
    proved: float
    gap: float
    memory: float

    def ratio(self, slow: str, fast: str) -> float:
        """How many times as long."""
        return self.seconds[slow] / self.seconds[fast]


def measure(case: Case, *, quick: bool) -> Timed:
    """Everything about one size."""
    if quick:
        case = replace(case, D=min(case.D, 1024), rows=64, batched=16, few=2, slow=1)
    contest = Contest.draw(case)
    limit, limit_alone = contest.limits()
    tasks: dict[str, tuple[Callable[[], Any], int]] = {
        "two passes": (contest.by_newton, case.few),
        "fewest passes": (contest.by_lean_newton, case.few),
        "peer, batch": (contest.by_batched_newton, case.batched),
        "ours": (contest.batch, case.rows),
        "ours, left as u": (lambda: contest.factored(contest.X), case.rows),
        "ours, alone": (contest.alone, case.few),
    }
    if contest.sparse is not None:
        tasks["ours, sparse X"] = (
            lambda: contest.batch(contest.sparse),
            case.rows,
        )
        tasks["ours, sparse X, left as u"] = (
            lambda: contest.factored(contest.sparse),
            case.rows,
        )
    scipy = {
        f"SciPy {method}": (lambda m=method: contest.by_scipy(m), case.slow)
        for method in contest.scipy_methods()
        if not (quick and method == "BFGS")
    }
    if "SciPy BFGS" in scipy:
        scipy["SciPy BFGS"] = (scipy["SciPy BFGS"][0], 1)
    norms = {name: contest.norms(task()) for name, (task, _) in (tasks | scipy).items()}
    tasks |= {"limit": (limit, case.rows), "limit, alone": (limit_alone, case.few)}
    seconds = interleaved({k: task for k, (task, _) in tasks.items()}, 1 if quick else 9)
    seconds |= interleaved({k: task for k, (task, _) in scipy.items()}, 1 if quick else 3)
    asked = Public(contest, classifier(contest.A, contest.b))  # it moves all to one class
    limit, limit_alone = asked.limits()
    offered: dict[str, tuple[Callable[[], Any], int]] = {
        "public": (asked.batch, case.rows),
        "public limit": (limit, case.rows),
        "public, two passes": (contest.by_newton, case.few),
        "public, alone": (asked.alone, case.few),
        "public limit, alone": (limit_alone, case.few),
    }
    answers = asked.batch()
    seconds |= interleaved({k: task for k, (task, _) in offered.items()}, 1 if quick else 9)
    rows = {name: number for name, (_, number) in (tasks | scipy | offered).items()}
    return Timed(
        case,
        {name: s / rows[name] for name, s in seconds.items()},
        norms,
        float(np.mean(answers.certificates.claim == cp.Claim.PROVED)),
        float(np.max(answers.gap)),
        memory_of(asked.batch, contest.X.nbytes),
    )


def batches(every: list[Timed]) -> Measured:
    """Many rows at once."""
    rows, goals = [], []
    for timed in every:
        case = timed.case
        size = f"({case.K}, {case.D})"
        ours = [name for name in timed.seconds if name.startswith("ours") and "alone" not in name]
        for name in ours:
            has_limit = name == "ours"
            rows.append(
                (
                    f"{case.name}-like {size}",
                    name,
                    microseconds(timed.seconds[name]),
                    number(timed.ratio(name, "limit")) if has_limit else "",
                    microseconds(timed.seconds["two passes"]),
                    microseconds(timed.seconds["fewest passes"]),
                    microseconds(timed.seconds["peer, batch"]),
                    *(
                        number(timed.ratio(peer, name))
                        for peer in ("two passes", "fewest passes", "peer, batch")
                    ),
                    number(timed.ratio("two passes", "limit")) if has_limit else "",
                )
            )
        promised = ["ours"] + [n for n in ours if n == "ours, sparse X, left as u"]
        for name in promised:
            for peer in ("two passes", "fewest passes"):
                ratio = timed.ratio(peer, name)
                reachable = (
                    f" (limit: {number(timed.ratio(peer, 'limit'))}×)" if name == "ours" else ""
                )
                goals.append(
                    Goal(
                        f"{size}, {name}, against the paper's Newton, {peer}",
                        f"≥ {case.goal:g}×",
                        f"{number(ratio)}×{reachable}",
                        ratio >= case.goal,
                    )
                )
        if case.limit is not None:
            ratio = timed.ratio("ours", "limit")
            measured = f"{number(ratio)}×"
            asked = f"≤ {case.limit:g}×"
            goals.append(Goal(f"{size}, against the limit", asked, measured, ratio <= case.limit))
    return rows, goals


def singles(every: list[Timed]) -> Measured:
    """One row at a time."""
    rows, goals = [], []
    for timed in every:
        case = timed.case
        rows.append(
            (
                f"{case.name}-like ({case.K}, {case.D})",
                microseconds(timed.seconds["ours, alone"]),
                microseconds(timed.seconds["limit, alone"]),
                microseconds(timed.seconds["two passes"]),
                microseconds(timed.seconds["fewest passes"]),
                number(timed.ratio("two passes", "ours, alone")),
                number(timed.ratio("fewest passes", "ours, alone")),
                number(timed.ratio("two passes", "limit, alone")),
                number(timed.ratio("fewest passes", "limit, alone")),
            )
        )
        if case.single is None:
            continue
        for peer in ("two passes", "fewest passes"):
            ratio = timed.ratio(peer, "ours, alone")
            goals.append(
                Goal(
                    f"({case.K}, {case.D}), one row alone, against the paper's Newton, {peer}",
                    f"≥ {case.single:g}×",
                    f"{number(ratio)}× (limit: {number(timed.ratio(peer, 'limit, alone'))}×)",
                    ratio >= case.single,
                )
            )
    return rows, goals


def accuracies(every: list[Timed]) -> Measured:
    """Everyone, with ‖∇E‖."""
    rows = []
    for timed in every:
        for name, norms in timed.norms.items():
            rows.append(
                (
                    f"({timed.case.K}, {timed.case.D})",
                    name,
                    microseconds(timed.seconds[name]),
                    number(timed.ratio(name, "ours, alone")),
                    number(timed.ratio(name, "ours")),
                    f"{norms.max():.0e}",
                    f"{np.sum(norms < ACCURATE)} of {len(norms)}",
                )
            )
    named = {
        name: norms
        for timed in every
        for name, norms in timed.norms.items()
        if name.startswith("ours")
    }
    worst = max(float(norms.max()) for norms in named.values())
    goal = Goal("‖∇E‖ at every answer of ours", "< 1e-8", f"{worst:.2g}", worst < ACCURATE)
    return rows, [goal]


def two_classes(*, quick: bool) -> Measured:
    """The closed form against Newton's method in D dimensions."""
    rows, goals = [], []
    few = 5 if quick else 40
    for size in (30, 784) if quick else (30, 784, 47_236, 131_072):
        count = 1000 if quick else max(few, min(1_000_000, 40_000_000 // size))
        two = TwoClasses.draw(count, size)
        tasks: dict[str, tuple[Callable[[], Any], int]] = {
            "ours": (two.closed_form, count),
            "alone": (lambda t=two: [t.closed_form(slice(i, i + 1))[0] for i in range(few)], few),
            "peer": (lambda t=two: [t.by_newton(i) for i in range(few)], few),
        }
        # One task after the other: they write their answers into the same memory.
        worst = max(
            two.norm(x, i) for task, _ in tasks.values() for i, x in enumerate(task()[:few])
        )
        tasks["limit"] = two.read_and_write, count
        seconds = interleaved({k: task for k, (task, _) in tasks.items()}, 1 if quick else 9)
        each = {k: s / tasks[k][1] for k, s in seconds.items()}
        ratio, reachable = each["peer"] / each["ours"], each["peer"] / each["limit"]
        rows.append(
            (
                size,
                number(count),
                number(1.0 / each["ours"]),
                *(microseconds(each[k]) for k in ("ours", "limit", "alone", "peer")),
                number(ratio),
                number(reachable),
                number(each["peer"] / each["alone"]),
                f"{worst:.0e}",
            )
        )
        if size == 30:
            speed = 1.0 / each["ours"]
            asked, measured = "≥ 2 million rows/s", f"{number(speed)} rows/s"
            goals.append(
                Goal("two classes, D = 30, before certification", asked, measured, speed >= 2e6)
            )
        goals.append(
            Goal(
                f"two classes, D = {size}, batch against the paper's Newton",
                "≥ 100×",
                f"{number(ratio)}× (limit: {number(reachable)}×)",
                ratio >= 100,
            )
        )
    return rows, goals


def paths(*, quick: bool) -> Measured:
    """Many λ for one row."""
    case = replace(CASES[0], few=1 if quick else 20, rows=64)
    contest = Contest.draw(case)
    explainer = cp.Explainer(classifier(contest.A, contest.b), cost=cp.SquaredEuclidean())
    along = Along(contest, np.geomspace(1e2, 1e-4, 10 if quick else 100), explainer)
    tasks: dict[str, Callable[[], Any]] = {
        "ours, all λ in one batch": along.together,
        "ours, one λ": contest.alone,
        "ours, each λ by itself": along.apart,
        "Newton, warm start": along.warm,
        "Newton, cold": along.cold,
        "cp.trace, certified": along.traced,
        "Explainer.explain, one λ, certified": along.explained,
    }
    for task in tasks.values():
        task()
    took = interleaved(tasks, 1 if quick else 5)
    batch = took["ours, all λ in one batch"]
    rows = [
        (name, milliseconds(seconds / case.few), number(seconds / batch))
        for name, seconds in took.items()
    ]
    one = batch / took["ours, one λ"]
    cold = took["ours, each λ by itself"] / batch
    warm = took["Newton, warm start"] / batch
    trace = took["cp.trace, certified"] / took["Explainer.explain, one λ, certified"]
    return rows, [
        Goal("100 λ in one batch, against one cold solve", "≤ 10×", f"{one:.1f}×", one <= 10),
        Goal("100 λ in one batch, against 100 cold solves", "≥ 4×", f"{cold:.0f}×", cold >= 4),
        Goal(
            "100 λ in one batch, against the paper's Newton with warm start",
            "faster",
            f"{warm:.1f}×",
            warm > 1,
        ),
        Goal("cp.trace over 100 λ, against one λ", "≤ 10×", f"{trace:.1f}×", trace <= 10),
    ]


def public(every: list[Timed]) -> Measured:
    """What a user calls."""
    rows, goals = [], []
    for timed in every:
        case, each = timed.case, timed.seconds
        size, peer = f"({case.K}, {case.D})", each["public, two passes"]
        multiple = each["public"] / each["public limit"]
        alone = each["public, alone"] / each["public limit, alone"]
        rows.append(
            (
                f"{case.name}-like {size}",
                *(microseconds(each[k]) for k in ("public", "public limit")),
                number(multiple),
                microseconds(peer),
                number(peer / each["public"]),
                number(peer / each["public limit"]),
                microseconds(each["public, alone"]),
                number(alone),
                number(peer / each["public, alone"]),
                f"{timed.proved:.1%}",
                f"{timed.gap:.0e}",
                number(timed.memory),
            )
        )
        most = 2 if case.D >= 8192 else 4
        asked, satisfied = f"≤ {most}×", multiple <= most
        goals.append(
            Goal(f"{size}, public, against its limit", asked, f"{number(multiple)}×", satisfied)
        )
        for name, limit, goal in (
            ("public", "public limit", case.public),
            ("public, alone", "public limit, alone", case.alone),
        ):
            if goal is None:
                continue
            ratio, reachable = peer / each[name], peer / each[limit]
            measured = f"{number(ratio)}× (limit: {number(reachable)}×)"
            what = f"{size}, {name}, against the paper's Newton"
            goals.append(Goal(what, f"≥ {goal:g}×", measured, ratio >= goal))
        what, measured = f"{size}, memory beyond the rows", f"{number(timed.memory)}×"
        goals.append(Goal(what, "≤ 2 × the answers", measured, timed.memory <= 2))
    return rows, goals


def memory_of(task: Callable[[], Any], size: int) -> float:
    """Peak bytes of a call, in so many."""
    tracemalloc.start()
    task()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / size


def classifier(A: np.ndarray, b: np.ndarray) -> LogisticRegression:
    """A model that has A and b."""
    model = LogisticRegression()
    model.coef_, model.intercept_, model.n_features_in_ = A, b, A.shape[1]
    model.classes_ = np.arange(max(2, len(A)))
    return model


def main() -> None:
    quick = is_quick()
    keep_memory()
    every = [measure(case, quick=quick) for case in (CASES[:3:2] if quick else CASES)]
    asked, public_goals = public(every)
    batch, batch_goals = batches(every)
    alone, alone_goals = singles(every)
    accuracy, accuracy_goals = accuracies(every)
    narrow, narrow_goals = two_classes(quick=quick)
    path, path_goals = paths(quick=quick)
    report = Report(
        "softmax",
        "Softmax and logistic classifiers inverted",
        QUESTION,
        (
            "data (K, D)",
            "explain, a row",
            "limit",
            "× limit",
            "the paper's Newton",
            "Newton / explain",
            "reachable: Newton / limit",
            "one row",
            "× its limit",
            "Newton / one row",
            "proved",
            "largest gap",
            "memory / answers",
        ),
        asked,
        [*public_goals, *batch_goals, *alone_goals, *accuracy_goals, *narrow_goals, *path_goals],
        [PUBLIC],
        [
            More(
                METHOD,
                (
                    "data (K, D)",
                    "",
                    "ours",
                    "× limit",
                    "peer, two passes",
                    "fewest passes",
                    "peer, batch",
                    "two passes / ours",
                    "fewest / ours",
                    "peer batch / ours",
                    "reachable: two passes / limit",
                ),
                batch,
            ),
            More(
                "One row alone:",
                (
                    "data (K, D)",
                    "ours",
                    "limit",
                    "peer, two passes",
                    "fewest passes",
                    "two passes / ours",
                    "fewest / ours",
                    "two passes / limit",
                    "fewest / limit",
                ),
                alone,
            ),
            More(
                SCIPY,
                (
                    "(K, D)",
                    "method",
                    "a row",
                    "/ ours, alone",
                    "/ ours, batch",
                    "largest ‖∇E‖",
                    "below 1e-8",
                ),
                accuracy,
            ),
            More(
                NARROW,
                (
                    "D",
                    "rows",
                    "ours, rows/s",
                    "ours",
                    "limit",
                    "ours, alone",
                    "peer",
                    "peer / ours",
                    "peer / limit",
                    "peer / ours, alone",
                    "largest ‖∇E‖",
                ),
                narrow,
            ),
            More(PATH, ("method", "a row", "/ ours, all λ"), path),
        ],
        ("scipy", "threadpoolctl"),
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
