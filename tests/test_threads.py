"""One explainer in many threads: the same bits as in one thread, and no crash.

The threads run in a process of their own, so that a crash of the interpreter fails the test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterpoint as cp
from counterpoint.caches import Memo
from counterpoint.models.dispatch import quiet
from counterpoint.solvers.highs import Pool

THREADS = 8
BUSY = 8
Call = Callable[[], Any]


def frame() -> Any:
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 120
    return pd.DataFrame(
        {
            "a": rng.normal(size=n).round(3),
            "b": rng.normal(size=n).round(3),
            "c": rng.normal(size=n).round(3),
            "count": rng.integers(0, 9, n),
            "word": pd.Categorical(rng.choice(["red", "green", "blue"], n)),
        }
    )


def tumours() -> Any:
    """Eight numbers, of which few may change: each search keeps HiGHS busy for milliseconds."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :8]
    return (X - X.mean()) / X.std(), y


def explainers() -> dict[str, cp.Explainer]:
    """Fresh ones, of each kind of model and with constraints of each kind."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    from counterpoint.lvq import GMLVQ

    X = frame()
    numbers = X[["a", "b", "c"]].to_numpy()
    score = numbers @ [1.0, -2.0, 0.5] + 0.3 * X["count"] + (X["word"] == "red")
    two, three = (score > 1.0).astype(int), np.digitize(score, [0.0, 2.0])

    def piped(last: Any) -> Any:
        return make_pipeline(
            make_column_transformer(
                (StandardScaler(), ["a", "b", "c", "count"]), (OneHotEncoder(), ["word"])
            ),
            last,
        )

    binary = piped(LogisticRegression()).fit(X, two)
    several = LogisticRegression().fit(numbers, three)
    sparse = (cp.MaxChanges(2), cp.WithinObserved())
    square = cp.SquaredEuclidean()
    weights = LogisticRegression().fit(numbers, two)
    Z, y = tumours()
    return {
        "busy": cp.Explainer(LogisticRegression().fit(Z, y), data=Z, constraints=sparse),
        "sparse": cp.Explainer(binary, data=X, constraints=sparse),
        "stuck": cp.Explainer(
            binary,
            data=X,
            constraints=[cp.Immutable("a", "c", "word"), cp.Bounds("b", -0.5, 0.5), *sparse],
        ),
        "whole": cp.Explainer(binary, data=X, cost=square, constraints=[cp.Immutable("c")]),
        "few": cp.Explainer(binary, data=X, cost=square, constraints=[cp.MaxChanges(2)]),
        "linear": cp.Explainer(several, data=numbers),
        "square": cp.Explainer(several, data=numbers, cost=square),
        "bounded": cp.Explainer(
            several, data=numbers, cost=square, constraints=[cp.Monotone("x0", "increasing")]
        ),
        "value": cp.Explainer(piped(LinearRegression()).fit(X, score), data=X),
        "cells": cp.Explainer(GMLVQ(random_state=0).fit(numbers, three), data=numbers),
        "unsure": cp.Explainer(
            cp.UncertainClassifier(weights, covariance=4e-4 * np.eye(4)), data=numbers, cost=square
        ),
    }


TARGETS: dict[str, tuple[Any, ...]] = {
    "sparse": (0, 1, cp.OtherLabel(), cp.Label(1, margin=0.1)),
    "stuck": (1, cp.OtherLabel(), cp.Probability(1, 0.95)),
    "whole": (0, cp.OtherLabel(), cp.Probability(1, 0.8)),
    "few": (1, cp.OtherLabel()),
    "linear": (0, 1, 2, cp.OtherLabel(), cp.Probability(2, 0.7)),
    "square": (1, cp.OtherLabel(), cp.Tradeoff(1, 0.5), cp.Probability(0, 0.6)),
    "bounded": (2, cp.Tradeoff(2, 0.1), cp.Probability(2, 0.9)),
    "value": (cp.Interval(1.0, 2.0), cp.Interval(low=3.0)),
    "cells": (0, 1, 2, cp.OtherLabel()),
    "unsure": (cp.Robust(1, 0.9, draws=500), cp.Robust(0, 0.9, guarantee="fixed")),
}


def asked(name: str, target: Any, rows: slice, explainer: cp.Explainer) -> str:
    """A digest of all that one call answers."""
    X = tumours()[0] if name == "busy" else frame()
    if len(explainer.features) == 3:
        X = X[["a", "b", "c"]].to_numpy()
    X = X[rows]
    answers = explainer.explain(X, target)
    c = answers.certificates
    columns = (c.valid, c.cost, c.bound, c.margin, c.objective, c.probability, c.violation)
    parts = [column.tobytes() for column in (answers.after, *columns)]
    parts.append(" ".join(map(str, answers.status)).encode())
    if name == "stuck":
        parts.append(str(answers[0].conflict).encode())
    parts.append(answers[len(answers) - 1].message.encode())
    return sha256(b"|".join(parts)).hexdigest()


def calls() -> list[tuple[str, Any, slice]]:
    """The busy ones first."""
    rows = (slice(0, 1), slice(20, 25))
    every = [(name, target, part) for name in TARGETS for target in TARGETS[name] for part in rows]
    return [("busy", cp.OtherLabel(), slice(5 * k, 5 * k + 5)) for k in range(BUSY)] + every


def answered(order: np.ndarray, shared: dict[str, cp.Explainer]) -> dict[int, set[str]]:
    """What the calls answer in some order, by their positions."""
    out: dict[int, set[str]] = {}
    every = calls()
    for k in order.tolist():
        name, target, rows = every[k]
        out.setdefault(k, set()).add(asked(name, target, rows, shared[name]))
    return out


def compare(each: int) -> None:
    """Eight threads with so many calls each, against one thread, in other orders."""
    count = len(calls())
    alone = answered(np.arange(count), explainers())
    assert all(len(digests) == 1 for digests in alone.values())
    backwards = answered(np.arange(count)[::-1], explainers())
    wrong = [calls()[k][:2] for k in range(count) if backwards[k] != alone[k]]
    assert not wrong, f"what was asked before changed the answers to {wrong}"

    shared, together = explainers(), threading.Barrier(THREADS)
    rng = np.random.default_rng(1)
    orders = [
        np.append(rng.permutation(BUSY), rng.permutation(max(each, count))[:each] % count)
        for _ in range(THREADS)
    ]

    def work(order: np.ndarray) -> dict[int, set[str]]:
        together.wait()
        return answered(order, shared)

    sys.setswitchinterval(1e-5)  # threads take turns where they hardly ever would
    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(work, orders):
            wrong = [calls()[k][:2] for k in found if found[k] != alone[k]]
            assert not wrong, f"threads changed the answers to {wrong}"


def run(each: int) -> None:
    """`compare` in a process of its own.

    While one thread of scikit-learn takes its filters of warnings away, others warn that theirs are
    missing; that is no fault of ours.
    """
    elsewhere = "ignore::UserWarning:sklearn.utils.parallel"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-W", elsewhere, __file__, str(each)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    assert ran.returncode == 0, f"exit code {ran.returncode}\n{ran.stderr[-3000:]}"
    assert ran.stdout.strip() == "the same", ran.stdout


@pytest.mark.further
def test_threads_get_the_answers_of_one_thread():
    run(6)


@pytest.mark.slow
def test_threads_get_the_answers_of_one_thread_in_thousands_of_calls():
    run(1000)


def test_a_pool_lends_nothing_twice_at_once():
    made: list[object] = []
    out: set[int] = set()
    guard = threading.Lock()

    def make() -> object:
        made.append(object())
        return made[-1]

    pool = Pool(make)

    def work(_: int) -> None:
        with pool.lease() as one:
            with guard:
                assert id(one) not in out
                out.add(id(one))
            with guard:
                out.remove(id(one))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(work, range(2000)))
    assert 1 <= len(made) <= THREADS


def test_a_pool_does_not_lend_again_what_failed():
    pool = Pool(object)
    with pytest.raises(ZeroDivisionError), pool.lease() as first:
        _ = 1 / 0
    with pool.lease() as second:
        pass
    with pool.lease() as third:
        pass
    assert first is not second
    assert second is third


def test_a_memo_forgets_the_oldest_and_gives_all_threads_the_same():
    memo: Memo[int, tuple[int, object]] = Memo(3)

    def work(k: int) -> bool:
        key = k % 7
        return memo.made(key, lambda: (key, object()))[0] == key

    with ThreadPoolExecutor(THREADS) as threads:
        assert all(threads.map(work, range(3000)))
    made = [memo.made(key, partial(pytest.fail, "it was forgotten")) for key in _kept(memo)]
    assert len(made) == 3
    memo.made(100, lambda: (100, object()))
    assert _kept(memo)[-1] == 100
    assert len(_kept(memo)) == 3


def test_warnings_are_off_for_one_thread_after_the_other():
    before, entered = list(warnings.filters), threading.Event()

    def first() -> None:
        with quiet():
            entered.set()
            time.sleep(0.05)

    def second() -> None:
        entered.wait()
        with quiet():
            time.sleep(0.1)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(first), threads.submit(second)]:
            done.result()
    assert list(warnings.filters) == before


def _kept(memo: Memo[int, Any]) -> list[int]:
    return list(memo)


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)
    compare(int(sys.argv[1]))
    sys.stdout.write("the same")
