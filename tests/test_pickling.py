"""What can be kept and sent: explainers and answers of every kind, to a file or another process.

What an object says of itself is compared before and after, here and in processes that were forked,
spawned, or started by joblib. Those run beside a script of their own, as forking beside the threads
of a test run is not safe. No search is cut short by a clock, so that a busy machine says the same.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import counterpoint as cp
from counterpoint.families.uncertain import target as attainable
from counterpoint.search import conflicts

WAYS = (*sorted({"fork", "spawn"} & set(multiprocessing.get_all_start_methods())), "loky")
"""Windows has no fork; and it comes first, where nothing runs beside it yet."""
ROWS = 6
PATIENCE = 3600.0
"""Seconds for what has to be found in about one otherwise."""


@cache
def flowers() -> tuple[Any, Any]:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, y


@cache
def model_of(*, named: bool = True) -> Any:
    from sklearn.linear_model import LogisticRegression

    X, y = flowers()
    return LogisticRegression(max_iter=2000).fit(X if named else X.to_numpy(), y)


def explainer(*constraints: cp.Constraint, cost: cp.Cost | None = None) -> cp.Explainer:
    return cp.Explainer(
        model_of(), data=flowers()[0], extrapolate=True, cost=cost, constraints=constraints
    )


def stuck() -> cp.Explainer:
    X, _ = flowers()
    held = cp.Immutable(*X.columns[2:])
    return explainer(held, cp.MaxChanges(1), cp.WithinObserved())


def used() -> cp.Explainer:
    made = stuck()
    made.explain(flowers()[0].head(ROWS), cp.OtherLabel())
    return made


def unsure() -> cp.Counterfactuals:
    """Answers of which some have remarks that take a search."""
    from sklearn.linear_model import LogisticRegression

    X, y = flowers()
    X = X.iloc[:, :2]
    model = LogisticRegression(max_iter=2000).fit(X[y < 2], y[y < 2])
    noisy = cp.UncertainClassifier(model, covariance=30.0 * np.eye(3))
    made = cp.Explainer(noisy, data=X, constraints=[cp.WithinObserved()])
    return made.explain(X.head(2), cp.Robust(1, 0.9, draws=200))


def polars() -> cp.Counterfactuals:
    import polars as pl

    X, _ = flowers()
    frame = pl.DataFrame({name: X[name].to_numpy() for name in X.columns})
    return cp.Explainer(model_of(named=False), data=frame).explain(frame.head(ROWS), 1)


def torch_layer() -> cp.Counterfactuals:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    X = flowers()[0].to_numpy()
    model = cp.LastLayer(torch.nn.Linear(4, 3))
    return cp.Explainer(model, data=X).explain(X[:ROWS], cp.OtherLabel())


def prototypes() -> cp.Explainer:
    from counterpoint.lvq import GMLVQ

    X, y = flowers()
    made = cp.Explainer(GMLVQ(random_state=0).fit(X, y), data=X, constraints=[cp.MaxChanges(2)])
    made.explain(X.head(2), 2)
    return made


def trees() -> cp.Explainer:
    from sklearn.ensemble import RandomForestClassifier

    X, y = flowers()
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    made = cp.Explainer(model, data=X)
    made.explain(X.head(2), 2)
    return made


def sums() -> cp.Explainer:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import KBinsDiscretizer

    X, y = flowers()
    bins = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
    model = make_pipeline(bins, LogisticRegression()).fit(X, y)
    made = cp.Explainer(model, data=X, constraints=[cp.MaxChanges(3)])
    made.explain(X.head(2), 2)
    return made


def groups() -> Any:
    from counterpoint.groups import Affine, GroupTranslations

    X, y = flowers()
    space = Affine(np.linalg.svd(X - X.mean(), full_matrices=False)[2][:2].T, np.zeros(2))
    return GroupTranslations(space, strengths=3).fit(X, y)


MAKERS: dict[str, Callable[[], Any]] = {
    "fresh explainer": stuck,
    "explainer": used,
    "explainer of prototypes": prototypes,
    "explainer of trees": trees,
    "explainer of sums": sums,
    "answers of trees": lambda: trees().explain(flowers()[0].head(ROWS), 2),
    "counterfactuals": lambda: stuck().explain(flowers()[0].head(ROWS), cp.OtherLabel()),
    "one": lambda: stuck().explain(flowers()[0].head(ROWS), cp.OtherLabel())[1],
    "one found": lambda: explainer().explain(flowers()[0].head(ROWS), 2)[1],
    "probability": lambda: explainer(cp.WithinObserved()).explain(
        flowers()[0].head(2), cp.Probability(2, 0.99999)
    ),
    "robust": unsure,
    "polars": polars,
    "torch": torch_layer,
    "alternatives": lambda: cp.diversify(explainer(), flowers()[0].head(2), 1),
    "path": lambda: cp.trace(
        explainer(cost=cp.SquaredEuclidean()),
        flowers()[0].head(2),
        [cp.Tradeoff(1, 1.0), cp.Tradeoff(1, 0.1), cp.Probability(2, 0.8)],
    ),
    "groups": groups,
    "translations": lambda: groups().sparse(2),
    "path of translations": lambda: groups().path_,
}


@contextmanager
def unhurried() -> Iterator[None]:
    """What is told of a row without an answer is searched for to the end."""
    with (
        patch.multiple(conflicts, SECONDS=PATIENCE, IN_ALL=PATIENCE),
        patch.multiple(attainable, SECONDS=PATIENCE, IN_ALL=PATIENCE),
    ):
        yield


@unhurried()
def said(thing: Any) -> list[Any]:
    """What an object tells: arrays as bytes, frames and sentences as text."""
    match thing:
        case cp.Explainer():
            return [thing.summary(), *said(thing.explain(flowers()[0].head(ROWS), 1))]
        case cp.Counterfactuals():
            c = thing.certificates
            numbers = (thing.before, thing.after, c.cost, c.bound, c.margin)
            told = [array.tobytes() for array in numbers]
            told += [table(thing.to_frame()), table(thing.report()), table(thing.changes())]
            return [*told, *(line for i in (0, 1) for line in said(thing[i]))]
        case cp.Counterfactual():
            return [str(thing), thing.message, str(thing.conflict), thing.factual, thing.changes]
        case cp.Alternatives():
            return [thing.row.tobytes(), table(thing.to_frame()), *said(thing.answers)]
        case cp.Path():
            rest = [line for answers in thing.answers for line in said(answers)]
            return [thing.summary(), table(thing.to_frame()), thing.changes.tobytes(), *rest]
    return said_otherwise(thing)


def said_otherwise(thing: Any) -> list[Any]:
    from counterpoint.groups import GroupTranslations, TranslationPath, Translations

    match thing:
        case GroupTranslations():
            return [*said(thing.translations_), *said(thing.path_), *said(thing.sparse(1))]
        case Translations():
            return [thing.offsets.tobytes(), str(thing), list(thing.groups)]
        case TranslationPath():
            return [str(thing), *(line for one in thing for line in said(one))]
    raise TypeError(type(thing))


def table(frame: Any) -> str:
    return frame.tobytes().hex() if isinstance(frame, np.ndarray) else str(frame.to_dict())


def again(thing: Any) -> Any:
    """Pickled and unpickled."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 (it was made here)


def told(data: bytes) -> list[Any]:
    """What a pickled object tells, in whatever process this runs."""
    return said(pickle.loads(data))  # noqa: S301 (it was made here)


def elsewhere(way: str, pickles: list[bytes]) -> list[list[Any]]:
    """What objects tell in another process."""
    if way == "loky":
        from joblib.externals.loky import get_reusable_executor

        return list(get_reusable_executor(1).map(told, pickles))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(way)) as pool:
        return list(pool.map(told, pickles))


# --- here ---


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_kept_says_the_same(name: str):
    thing = MAKERS[name]()
    before = pickle.dumps(thing)  # before it was asked, and after
    expected = said(thing)
    after = pickle.dumps(thing)
    for kept in {before, after}:
        assert told(kept) == expected
    assert said(copy.deepcopy(thing)) == expected
    assert said(copy.copy(thing)) == expected


def test_a_conflict_is_told_after_unpickling():
    answers = MAKERS["counterfactuals"]()
    assert (answers.status == cp.Status.INFEASIBLE).all()
    for kept in (again(answers)[2], again(answers[2])):
        assert kept.conflict == answers[2].conflict
        assert kept.conflict.constraints


def test_a_remark_is_told_after_unpickling():
    answers = unsure()
    assert "is attainable" in answers[0].message
    kept = again(answers[0])
    assert kept.message == answers[0].message


def test_pickles_hold_no_solver_and_no_model():
    """A thousand answers take about what their arrays take, whatever was asked before."""
    made = explainer(cp.MaxChanges(2))
    fresh = len(pickle.dumps(made))
    answers = made.explain(flowers()[0].sample(1000, replace=True, random_state=0), 1)
    assert len(pickle.dumps(made)) <= fresh + 100
    held: tuple[Any, ...] = (answers.table, answers.before, answers.after, answers.missing)
    held += (answers.certificates, answers.proofs)
    assert len(pickle.dumps(answers)) < sum(len(pickle.dumps(part)) for part in held) + 20_000
    alone = answers.part(slice(1), answers.table.take(slice(1)))
    assert len(pickle.dumps(answers[0])) < len(pickle.dumps(alone.proofs)) + 4_700


def test_a_pickled_explainer_answers_with_the_same_bits():
    first = used()
    second = again(first)
    X = flowers()[0]
    ours, theirs = (one.explain(X, cp.OtherLabel()) for one in (first, second))
    assert ours.after.tobytes() == theirs.after.tobytes()
    assert ours.bound.tobytes() == theirs.bound.tobytes()


# --- in other processes ---


@pytest.mark.parametrize(
    "ways", [WAYS[:1] + WAYS[-1:], pytest.param(WAYS, marks=pytest.mark.slow)], ids="-".join
)
def test_other_processes_say_the_same(ways: tuple[str, ...]):
    ran = subprocess.run(
        [sys.executable, "-W", "error", __file__, *ways],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.splitlines() == [f"{way}: the same" for way in ways]


SENT = ("explainer", "counterfactuals", "one", "robust", "alternatives", "path")


def main() -> None:
    # Under its own name, so that other processes find its functions.
    import test_pickling as mine

    things = [mine.MAKERS[name]() for name in mine.SENT]
    pickles = [pickle.dumps(thing) for thing in things]
    here = [mine.said(thing) for thing in things]
    for way in sys.argv[1:]:
        assert mine.elsewhere(way, pickles) == here, way
        sys.stdout.write(f"{way}: the same\n")


if __name__ == "__main__":
    main()
