"""Witnesses: known points are answers when a search leaves nothing, and contradict false proofs."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

import counterpoint as cp
from counterpoint.programs.evidence import Bounding, BoundProof
from counterpoint.search import validation, witnesses
from counterpoint.search.search import Incumbents, search
from counterpoint.search.witnesses import ROWS

RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "income": RNG.normal(40.0, 12.0, 240).round(2),
        "years": RNG.integers(0, 30, 240),
        "debt": RNG.exponential(9.0, 240).round(2),
        "job": RNG.choice(["office", "field", "none"], 240),
    }
)
Y = X["income"] + 0.8 * X["years"] - X["debt"] + 9.0 * (X["job"] == "office") > 44.0
NUMBERS = X.drop(columns="job")


def encoded(last: Any, frame: pd.DataFrame = X) -> Any:
    words = [name for name in frame if frame[name].dtype.kind not in "iuf"]
    columns = ColumnTransformer([("words", OneHotEncoder(), words)], remainder="passthrough")
    return make_pipeline(columns, last).fit(frame, Y)


MODELS: dict[str, tuple[Any, pd.DataFrame]] = {
    "forest": (encoded(RandomForestClassifier(20, random_state=0)), X),
    "boosted": (encoded(HistGradientBoostingClassifier(max_iter=20)), X),
    "bins": (
        make_pipeline(KBinsDiscretizer(4, encode="onehot-dense"), LogisticRegression()).fit(
            NUMBERS, Y
        ),
        NUMBERS,
    ),
    "linear": (encoded(LogisticRegression(max_iter=5000)), X),
    "neighbour": (KNeighborsClassifier(1).fit(NUMBERS, Y), NUMBERS),
}


class Bound(Bounding):
    """Says that all objectives are at least something."""

    is_local, bound_proofs = False, (BoundProof(np.zeros((0, 0))),)

    def __init__(self, bound: float) -> None:
        self.bound = bound

    def bounds(self, reached: np.ndarray, margin: Any = None) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(reached), self.bound), np.full(len(reached), self.bound)


Blind = Callable[[float], None]


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Blind:
    """Have searches find nothing: with this bound, and without time if that is 0."""

    def patched(bound: float) -> None:
        def nothing(pieces: Any, cases: Any, effort: Any, *_: Any) -> Incumbents:
            found = Incumbents(cases, effort)
            found.limited[:], found.evidence = bound == 0.0, [Bound(bound)]
            return found

        monkeypatch.setattr(validation, "search", nothing)

    return patched


@pytest.mark.parametrize("name", MODELS)
def test_what_runs_out_of_time_is_answered_by_witnesses(name: str, blind: Blind):
    """No dearer than the nearest row of data that is predicted as the target."""
    model, frame = MODELS[name]
    rows = frame[model.predict(frame) == 0].head(4)
    explainer = cp.Explainer(model, data=frame)
    best = explainer.explain(rows, True)
    blind(0.0)
    answers = explainer.explain(rows, True, time_limit=60.0)
    assert {str(s) for s in answers.status} == {"limit"}
    assert model.predict(answers.to_frame()).all()
    assert (answers.cost >= best.cost * (1.0 - 1e-6)).all()
    weights = {n: 1.0 / s for n, (s, _) in explainer.spreads.items()}
    known = frame[model.predict(frame)]
    for i in range(len(rows)):
        away = sum(
            weights[n]
            * (
                (known[n] != rows[n].iloc[i])
                if known[n].dtype.kind not in "iuf"
                else (known[n] - rows[n].iloc[i]).abs()
            )
            for n in frame
        )
        assert answers.cost[i] <= away.min() * (1.0 + 1e-9)
    blind(0.0)
    copied = pickle.loads(pickle.dumps(explainer))  # noqa: S301
    again = copied.explain(rows, True, time_limit=60.0)
    assert again.cost.tobytes() == answers.cost.tobytes()
    assert again.to_frame().equals(answers.to_frame())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("bound", [np.inf, 1e6])
def test_what_a_witness_contradicts_is_not_returned(name: str, bound: float, blind: Blind):
    model, frame = MODELS[name]
    rows = frame[model.predict(frame) == 0].head(2)
    explainer = cp.Explainer(model, data=frame)
    blind(bound)
    with pytest.warns(UserWarning, match="contradicted by a point near a row of data="):
        answers = explainer.explain(rows, True)
    assert {str(s) for s in answers.status} == {"unproved"}
    assert {str(c) for c in answers.certificates.claim} == {"none"}
    assert (answers.certificates.bound == 0.0).all()
    assert not answers.found.any()


def test_a_dear_answer_with_a_bound_that_a_witness_contradicts_is_not_returned(
    monkeypatch: pytest.MonkeyPatch,
):
    model, frame = MODELS["bins"]
    row = frame[model.predict(frame) == 0].head(1)
    explainer = cp.Explainer(model, data=frame)
    far = explainer.features.expand(frame[model.predict(frame)].tail(1).to_numpy(dtype=float))
    encoded_cost = explainer.explain(row, True).query.encoded_cost
    dear = float(encoded_cost(far, row.to_numpy(dtype=float))[0])

    def wrong(pieces: Any, cases: Any, effort: Any, *_: Any) -> Incumbents:
        found = Incumbents(cases, effort)
        found.offer(0, np.zeros(1, dtype=np.intp), far, np.array([dear]))
        found.evidence = [Bound(dear)]
        return found

    monkeypatch.setattr(validation, "search", wrong)
    with pytest.warns(UserWarning, match="contradicted"):
        answers = explainer.explain(row, True)
    assert str(answers.status[0]) == "unproved"


def test_without_data_nothing_is_known(blind: Blind):
    model, frame = MODELS["bins"]
    rows = frame[model.predict(frame) == 0].head(2)
    explainer = cp.Explainer(model, cost=cp.Manhattan(np.ones(3)))
    blind(0.0)
    answers = explainer.explain(rows, True, time_limit=60.0)
    assert not answers.found.any()


CONSTRAINTS: dict[str, tuple[Any, Callable[[Any, Any], bool]]] = {
    "at most two": (cp.MaxChanges(2), lambda y, x: (y != x).sum() <= 2),
    "same years": (cp.Immutable("years"), lambda y, x: y["years"] == x["years"]),
    "bounds": (cp.Bounds("income", high=50.0), lambda y, x: y["income"] <= max(50.0, x["income"])),
    "less debt": (cp.Monotone("debt", "decreasing"), lambda y, x: y["debt"] <= x["debt"]),
    "linear": (
        cp.Linear.parse("debt <= income"),
        lambda y, x: y["debt"] <= y["income"] * (1.0 + 1e-8),
    ),
    "same job": (cp.Immutable("job"), lambda y, x: y["job"] == x["job"]),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("model", ["forest", "linear"])
def test_witnesses_keep_constraints_and_steps(name: str, model: str, blind: Blind):
    fitted, frame = MODELS[model]
    constraint, holds = CONSTRAINTS[name]
    rows = frame[~fitted.predict(frame) & (frame["debt"] <= frame["income"])].head(6)
    explainer = cp.Explainer(
        fitted, data=frame, features=[cp.Integer("income", step=0.25)], constraints=constraint
    )
    blind(0.0)
    answers = explainer.explain(rows, True, time_limit=60.0)
    assert answers.found.sum() >= 3
    after = answers.to_frame()
    for i in np.flatnonzero(answers.found).tolist():
        x, y = rows.iloc[i], after.iloc[i]
        assert holds(y, x), name
        steps = round((y["income"] - x["income"]) / 0.25)
        assert y["income"] == x["income"] + steps * 0.25
        assert y["years"] == int(y["years"])
        assert fitted.predict(after.iloc[[i]])[0]


def test_every_target_says_which_rows_are_witnesses(blind: Blind):
    model, frame = MODELS["forest"]
    numbers = RandomForestRegressor(20, random_state=0).fit(NUMBERS, X["income"] - X["debt"])
    three = RandomForestClassifier(20, random_state=0).fit(
        NUMBERS, pd.qcut(X["income"], 3).cat.codes
    )
    asked = [
        (model, frame, cp.Probability(True, 0.8), lambda m, f: m.predict_proba(f)[:, 1] >= 0.8),
        (three, NUMBERS, cp.OtherLabel(), None),
        (three, NUMBERS, cp.Label([0, 2]), lambda m, f: m.predict(f) != 1),
        (numbers, NUMBERS, cp.Interval(30, 40), lambda m, f: abs(m.predict(f) - 35.0) <= 5.0),
    ]
    blind(0.0)
    for fitted, data, target, holds in asked:
        rows = data.head(5)
        before = fitted.predict(rows)
        answers = cp.Explainer(fitted, data=data).explain(rows, target, time_limit=60.0)
        assert answers.found.all()
        after = answers.to_frame()
        good = fitted.predict(after) != before if holds is None else holds(fitted, after)
        assert good.all()


def test_missing_cells_stay_missing(blind: Blind):
    frame = NUMBERS.copy()
    frame.loc[::5, "debt"] = np.nan
    model = HistGradientBoostingClassifier(max_iter=20).fit(frame, Y)
    rows = frame[(model.predict(frame) == 0) & frame["debt"].isna()].head(3)
    explainer = cp.Explainer(model, data=frame)
    blind(0.0)
    answers = explainer.explain(rows, True, time_limit=60.0)
    assert answers.found.all()
    assert answers.to_frame()["debt"].isna().all()
    assert model.predict(answers.to_frame()).all()


def test_pickles_of_explainers_hold_a_part_of_the_data_and_answers_none(
    monkeypatch: pytest.MonkeyPatch,
):
    many = pd.DataFrame(RNG.normal(size=(3 * ROWS, 3)), columns=list("abc"))
    model = LogisticRegression().fit(many, many["a"] > 0)
    explainer = cp.Explainer(model, data=many)
    assert len(pickle.dumps(explainer)) < 8.5 * ROWS * 3 + 50_000
    answers = explainer.explain(many.head(3), cp.OtherLabel())
    assert len(pickle.dumps(answers)) < 50_000
    monkeypatch.setattr(witnesses, "CELLS", 60)
    assert len(cp.Explainer(model, data=many)._witnesses.data) == 20


def test_a_search_that_takes_long_begins_with_witnesses(monkeypatch: pytest.MonkeyPatch):
    """What it begins with meets target and constraints, and its answer is no dearer."""
    model, frame = MODELS["forest"]
    rows = frame[model.predict(frame) == 0].head(6)
    explainer = cp.Explainer(model, data=frame, features=[cp.Continuous("years")])
    begun: list[float] = []

    def watched(
        pieces: Any, cases: Any, effort: Any, safety_margins: Any, incumbents: Any
    ) -> Incumbents:
        def told(i: int, end: float) -> np.ndarray:
            points = incumbents(i, end)
            begun.extend(
                pieces.objective_program.encoded_cost(
                    points, np.broadcast_to(cases.x[i], points.shape)
                )
            )
            assert (
                pieces.listed[0].program.violation(points, cases.x[[i] * len(points)]) <= 1e-8
            ).all()
            return points

        return search(pieces, cases, effort, safety_margins, told)

    monkeypatch.setattr(validation, "search", watched)
    monkeypatch.setattr("counterpoint.families.trees.search.WITNESSES_AFTER", 0)
    answers = explainer.explain(rows, True)
    assert begun
    assert answers.cost.min() <= min(begun)
    monkeypatch.undo()
    with warnings.catch_warnings():
        assert answers.cost == pytest.approx(explainer.explain(rows, True).cost, rel=1e-5)
