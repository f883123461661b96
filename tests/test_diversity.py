"""Several answers to each row: enumeration over all sets of features is the oracle."""

from __future__ import annotations

from functools import cache
from itertools import chain, combinations
from typing import Any

import cvxpy as cvx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint.lvq import GLVQ

CLOSE = {"rtol": 1e-6, "atol": 1e-9}


def numbers(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(n, 4)) * [1.0, 3.0, 0.5, 2.0], columns=list("wxyz"))


def glvq(data: pd.DataFrame) -> Any:
    values = data.to_numpy()
    labels = np.array(["a", "b", "c"])[np.digitize(values[:, 0] + 0.3 * values[:, 1], [-0.7, 0.7])]
    return GLVQ(prototypes_per_class=2, random_state=0).fit(data, labels)


def mixed(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "income": rng.normal(30.0, 8.0, size=n),
            "age": rng.integers(20, 70, size=n),
            "home": rng.choice(["own", "rent", "free"], size=n),
            "member": rng.random(n) < 0.5,
        }
    )


def credit(data: pd.DataFrame) -> Any:
    total = 0.1 * data["income"] + 0.03 * data["age"] + (data["home"] == "own") + data["member"]
    before = make_column_transformer(
        (StandardScaler(), ["income", "age"]),
        (OneHotEncoder(), ["home", "member"]),
    )
    labels = np.where(total > total.median(), "yes", "no")
    return make_pipeline(before, LogisticRegression()).fit(data, labels)


@cache
def posed(name: str) -> tuple[Any, pd.DataFrame, cp.Explainer]:
    """Model, data, and what explains it."""
    make, fit, cost = PROBLEMS[name]
    data = make()
    model = fit(data)
    return model, data, cp.Explainer(model, data=data, extrapolate=True, cost=cost)


@cache
def least_of(name: str, label: Any) -> Any:
    """Set of features → the least costs of changes of these at most, of the first four rows."""
    explainer, costs = posed(name)[2], {}
    names = frozenset(explainer.features.names)
    for free in map(frozenset, chain(*(combinations(names, k) for k in range(1, len(names) + 1)))):
        held = [cp.Immutable(*(names - free))] if free < names else []
        found = explainer.adding(held).explain(posed(name)[1].iloc[:4], label)
        costs[free] = np.where(found.found, found.cost, np.inf)
    return costs


PROBLEMS = {
    "prototypes": (numbers, glvq, cp.Manhattan()),
    "prototypes squared": (numbers, glvq, cp.SquaredEuclidean()),
    "pipeline": (mixed, credit, None),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_each_answer_is_the_cheapest_that_covers_no_earlier_one(name: str) -> None:
    model, data, explainer = posed(name)
    for label in model.classes_:
        several = cp.diversify(explainer, data.iloc[:4], label, 4)
        for i, answers in enumerate(several):
            if answers[0].status == cp.Status.ALREADY:
                assert len(answers) == 1
                continue
            costs = {free: each[i] for free, each in least_of(name, label).items()}
            taken: list[frozenset[Any]] = []
            for answer in answers:
                left = {free: c for free, c in costs.items() if not any(t <= free for t in taken)}
                np.testing.assert_allclose(answer.cost, min(left.values()), **CLOSE)
                assert answer.certificate.gap <= 1e-6
                assert answer.certificate.bound <= min(left.values()) * (1 + 1e-9)
                changed = frozenset(answer.changes)
                assert not any(t <= changed for t in taken)
                taken.append(changed)
            if len(answers) < 4:
                left = {free: c for free, c in costs.items() if not any(t <= free for t in taken)}
                assert several.exhausted[i]
                assert np.isinf(list(left.values())).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_disjoint_answers_are_each_the_cheapest_that_touches_nothing_touched(name: str) -> None:
    model, data, explainer = posed(name)
    for label in model.classes_:
        several = cp.diversify(explainer, data.iloc[:4], label, 4, by="disjoint")
        for i, answers in enumerate(several):
            if answers[0].status == cp.Status.ALREADY:
                continue
            costs = {free: each[i] for free, each in least_of(name, label).items()}
            touched: set[Any] = set()
            for answer in answers:
                assert not touched & set(answer.changes)
                open_ = [c for free, c in costs.items() if not touched & free]
                np.testing.assert_allclose(answer.cost, min(open_), **CLOSE)
                touched |= set(answer.changes)
            open_ = [c for free, c in costs.items() if not touched & free]
            assert np.isinf(open_).all() or len(answers) == 4
            assert bool(several.exhausted[i]) or len(answers) == 4


@pytest.mark.parametrize("target", [cp.Label("a"), cp.Label("b"), cp.OtherLabel()], ids=str)
def test_one_answer_for_each_prototype(target: cp.Target) -> None:
    data = numbers()
    model = glvq(data)
    explainer = cp.Explainer(model, data=data, extrapolate=True, cost=cp.SquaredEuclidean())
    rows = data.iloc[:5]
    several = cp.diversify(explainer, rows, target, 6, by="piece")
    points, owner = model.prototypes_, model.prototype_labels_
    for x, now, answers in zip(rows.to_numpy(), model.predict(rows), several, strict=True):
        mine = owner != now if isinstance(target, cp.OtherLabel) else owner == target.label
        if mine[((points - x) ** 2).sum(axis=1).argmin()]:
            assert [answer.status for answer in answers] == [cp.Status.ALREADY]
            continue
        expected = sorted(cell(x, points, i, ~mine) for i in np.flatnonzero(mine))
        costs = [answer.cost for answer in answers]
        np.testing.assert_allclose(costs, expected[: len(costs)], rtol=1e-4)
        assert len({tuple(answer.row.values()) for answer in answers}) == len(answers)
        assert costs == sorted(costs)


def cell(x: Any, points: Any, i: int, rivals: Any) -> float:
    """The least squared distance to where prototype i is nearer than all rivals, by CVXPY."""
    y = cvx.Variable(len(x))
    rows = 2.0 * (points[rivals] - points[i])
    limits = (points[rivals] ** 2).sum(axis=1) - (points[i] ** 2).sum()
    problem = cvx.Problem(cvx.Minimize(cvx.sum_squares(y - x)), [rows @ y <= limits])
    return float(problem.solve(solver=cvx.CLARABEL))


def test_answers_are_valid_and_come_in_order() -> None:
    data = mixed()
    model = credit(data)
    explainer = cp.Explainer(
        model, data=data, extrapolate=True, constraints=[cp.Monotone("age", "increasing")]
    )
    several = cp.diversify(explainer, data, "yes", 3)
    frame, report = several.to_frame(), several.report()
    assert list(frame.columns) == list(data.columns)
    assert (frame.dtypes == data.dtypes).all()
    assert len(frame) == len(report) == len(several.row)
    assert (model.predict(frame) == "yes").all()
    assert (frame.index == data.index[several.row]).all()
    assert report.columns[:3].tolist() == ["row", "rank", "status"]
    for i in range(len(data)):
        costs = several.answers.cost[several.row == i]
        assert (np.diff(costs) >= -1e-9).all()
        assert len(several[i]) == several.count[i]
    ages = frame["age"].to_numpy() - data["age"].to_numpy()[several.row]
    assert (ages >= 0).all()
    assert several.summary().startswith("80 rows: ")


def test_the_first_answer_is_that_of_explain() -> None:
    data = numbers()
    explainer = cp.Explainer(glvq(data), data=data, extrapolate=True)
    one = explainer.explain(data, "a")
    for by in ("features", "disjoint", "piece"):
        several = cp.diversify(explainer, data, "a", 2, by=by)
        np.testing.assert_allclose(several.answers.cost[several.rank == 0], one.cost, **CLOSE)


def test_a_lead_in_single_precision_makes_no_first_answer_suboptimal() -> None:
    """What it costs to lead by the rounding error of float32 is no gap, here as in `explain`."""
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    alone = explainer.explain(X[60:80], cp.OtherLabel(), gap=1e-7)
    assert (alone.certificates.gap > 1e-7).any()
    several = explainer.explain(X[60:80], cp.OtherLabel(), gap=1e-7, n=2)
    first = several.report().query("rank == 0")
    assert list(first["status"]) == list(alone.report()["status"])
    assert list(first["claim"]) == list(alone.report()["claim"])


def test_rows_without_an_answer_say_why() -> None:
    data = numbers()
    explainer = cp.Explainer(
        glvq(data), data=data, extrapolate=True, constraints=[cp.Immutable(*"wxyz")]
    )
    rows = data.iloc[:6].astype(object)
    rows.iloc[5, 2] = "much"
    several = cp.diversify(explainer, rows, "a", 3)
    for i, answers in enumerate(several):
        entry = several.answers[int(np.flatnonzero(several.row == i)[0])]
        assert several.count[i] == len(answers) <= 1
        if entry.status == cp.Status.INFEASIBLE:
            assert several.exhausted[i]
    assert several.answers[-1].status == cp.Status.INVALID
    assert "much" in several.answers[-1].message
    assert not several.exhausted[5]


def test_polars_and_arrays_come_back_as_they_came() -> None:
    data = numbers()
    model = glvq(data)
    frame = pl.from_pandas(data)
    several = cp.diversify(cp.Explainer(model, data=frame, extrapolate=True), frame[:3], "c", 2)
    assert isinstance(several.to_frame(), pl.DataFrame)
    assert isinstance(several.report(), pl.DataFrame)
    values = data.to_numpy()
    unnamed = GLVQ(random_state=0).fit(values, model.predict(data))
    explainer = cp.Explainer(unnamed, data=values, extrapolate=True)
    assert isinstance(cp.diversify(explainer, values[:3], "c", 2).to_frame(), np.ndarray)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"count": 0}, "count of at least 1"),
        ({"count": 1.5}, "count of at least 1"),
        ({"by": "colour"}, "'features', 'disjoint', 'piece'"),
        ({"explainer": "model"}, "Expected an Explainer"),
        ({"target": "unseen"}, "unseen"),
    ],
)
def test_what_makes_no_sense_is_said(given: dict[str, Any], said: str) -> None:
    data = numbers()
    asked = {
        "explainer": cp.Explainer(glvq(data), data=data, extrapolate=True),
        "X": data,
        "target": "a",
    } | given
    with pytest.raises(cp.InvalidInput, match=said):
        cp.diversify(**asked)


def test_an_explainer_gives_several_answers_itself() -> None:
    data = mixed()
    explainer = cp.Explainer(credit(data), data=data)
    rows = data.head(5)
    for by in ("features", "disjoint"):
        several = explainer.explain(rows, "yes", n=2, by=by)
        pd.testing.assert_frame_equal(
            several.report(), cp.diversify(explainer, rows, "yes", 2, by=by).report()
        )
    with pytest.raises(cp.InvalidInput, match="Pass, say, n=3"):
        explainer.explain(rows, "yes", by="disjoint")


@pytest.mark.parametrize("by", ["features", "disjoint", "piece"])
@pytest.mark.parametrize("rows", ["none", "already there", "unusable"])
def test_rows_without_a_question_are_no_trouble(by: Any, rows: str) -> None:
    data = numbers()
    model = glvq(data)
    there = data[model.predict(data) == "a"].head(2)
    X = {"none": data.head(0), "already there": there, "unusable": there.assign(w=np.nan)}[rows]
    several = cp.diversify(cp.Explainer(model, data=data), X, "a", by=by)
    status = {"none": [], "already there": ["already"] * 2, "unusable": ["invalid"] * 2}[rows]
    assert several.report()["status"].tolist() == status


def test_answers_have_the_columns_that_were_passed():
    """Also where the frame's columns have no names and go by position."""
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    explainer = cp.Explainer(model, data=pd.DataFrame(X, columns=list("abcd")))
    rows = pd.DataFrame(X[:2])
    several = cp.diversify(explainer, rows, 1, 2).to_frame()
    assert several.columns.equals(rows.columns)
    assert several.columns.equals(explainer.explain(rows, 1).to_frame().columns)
