"""Displays: what is drawn is what the answers say, on the axes that were given."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint.displays import (
    AlternativesDisplay,
    ChangesDisplay,
    RegionsDisplay,
    WaterfallDisplay,
)


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def asked() -> tuple[cp.Explainer, pd.DataFrame]:
    """Numbers and a category, with names that mathematics or markup could spoil."""
    rng, n = np.random.default_rng(0), 120
    X = pd.DataFrame(
        {
            "income $a_b$": rng.normal(40, 10, n),
            "loans": rng.integers(0, 6, n),
            "debt": rng.normal(10, 3, n),
            "home": rng.choice(["own", "rent", "free"], n),
        }
    )
    y = X["income $a_b$"] - 5 * X["loans"] - 2 * X["debt"] + 8 * (X["home"] == "own") > 5
    numbers = [name for name in X if name != "home"]
    before = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(), ["home"]))
    model = make_pipeline(before, LogisticRegression()).fit(X, np.where(y, "yes", "no"))
    rows = X[model.predict(X) == "no"].reset_index(drop=True).head(25)
    return cp.Explainer(model, data=X), rows


def test_the_waterfall_adds_up_to_the_score_of_the_answer():
    explainer, rows = asked()
    answers = explainer.explain(rows, "yes")
    model, sides = explainer.model, (rows, answers.to_frame())
    first, last = (model.decision_function(side) for side in sides)
    for i, answer in enumerate(answers):
        shown = WaterfallDisplay.from_answer(answer)
        assert len(shown.names) == len(answer.changes) == len(shown.scores) - 1
        assert shown.scores[0] == pytest.approx(first[i])
        assert shown.scores[-1] == pytest.approx(last[i], abs=1e-9)
        steps = np.abs(np.diff(shown.scores))
        assert (np.diff(steps) <= 1e-9).all()
    several = max(answers, key=lambda a: len(a.changes))
    shown = WaterfallDisplay.from_answer(several).plot()
    bars = shown.ax_.patches
    assert [bar.get_width() for bar in bars] == pytest.approx(np.diff(shown.scores).tolist())
    assert shown.ax_.get_yticklabels()[0].get_text() == "as it is"


def test_a_waterfall_of_a_forest_ends_at_the_target():
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    explainer = cp.Explainer(model, data=X)
    answers = explainer.explain(X[model.predict(X) == 0][:5], 1)
    for answer in answers:
        scores = WaterfallDisplay.from_answer(answer).plot().scores
        assert scores[0] < 0.0 <= scores[-1]


@pytest.mark.parametrize("cost", [None, cp.SquaredEuclidean({"loans": 9.0})])
def test_the_heat_map_sums_to_the_costs(cost: cp.Cost | None):
    explainer, rows = asked()
    data = pd.concat([rows, rows])
    answers = cp.Explainer(explainer.model, data=data, cost=cost).explain(rows, "yes")
    shown = ChangesDisplay.from_answers(answers, features=4).plot()
    np.testing.assert_allclose(np.abs(shown.shares).sum(axis=1), shown.costs, atol=1e-9)
    np.testing.assert_array_equal(shown.costs, np.sort(answers.cost[answers.found]))
    order = np.argsort(answers.cost, kind="stable")
    for name, column in zip(shown.names, shown.shares.T, strict=True):
        if name != "home":
            change = answers.to_frame()[name].to_numpy() - rows[name].to_numpy()
            moved = column != 0.0
            np.testing.assert_array_equal(np.sign(change[order])[moved], np.sign(column)[moved])
    (image,) = shown.ax_.get_images()
    np.testing.assert_array_equal(np.asarray(image.get_array()), shown.shares.T)
    fewer = ChangesDisplay.from_answers(answers, features=1)
    assert fewer.names == shown.names[:1]


def test_answers_stand_side_by_side():
    explainer, rows = asked()
    several = explainer.explain(rows.head(3), "yes", n=3)
    shown = AlternativesDisplay.from_alternatives(several, row=1).plot()
    assert shown.costs.tolist() == [answer.cost for answer in several[1]]
    for j, answer in enumerate(several[1]):
        told = {name for name, words in zip(shown.names, shown.words, strict=True) if words[j]}
        assert told == {str(name) for name in answer.changes}
    drawn = {text.get_text() for text in shown.ax_.texts}
    assert {word for words in shown.words for word in words} <= drawn


def test_regions_are_what_the_model_predicts():
    explainer, rows = asked()
    answer = max(explainer.explain(rows, "yes"), key=lambda a: a.cost)
    shown = RegionsDisplay.from_answer(answer, ("debt", "income $a_b$"), resolution=15).plot()
    grid = [(i, j) for i in range(0, 15, 3) for j in range(0, 15, 3)]
    points = pd.DataFrame([answer.row] * len(grid))
    points["debt"] = [shown.x[j] for _, j in grid]
    points["income $a_b$"] = [shown.y[i] for i, _ in grid]
    said = [shown.decisions[i, j] for i, j in grid]
    assert said == explainer.model.predict(points).tolist()
    assert shown.row == (answer.factual["debt"], answer.factual["income $a_b$"])
    assert shown.answer == (answer.row["debt"], answer.row["income $a_b$"])
    chosen = RegionsDisplay.from_answer(answer, resolution=5)
    assert set(chosen.names) <= {"income $a_b$", "loans", "debt"}


def test_regions_of_whole_numbers_are_at_whole_numbers():
    explainer, rows = asked()
    answer = explainer.explain(rows.head(1), "yes")[0]
    shown = RegionsDisplay.from_answer(answer, ("loans", "debt"), resolution=40).plot()
    assert shown.x.tolist() == list(range(6))
    assert shown.decisions.shape == (40, 6)
    points = pd.DataFrame([answer.row] * 6)
    points["loans"], points["debt"] = range(6), shown.y[3]
    assert shown.decisions[3].tolist() == explainer.model.predict(points).tolist()
    ticks = shown.ax_.get_xticks()
    assert (ticks == np.round(ticks)).all()


@pytest.mark.parametrize("pair", [("debt", "loans"), ("income $a_b$", "loans")])
def test_regions_say_what_else_changes(pair: tuple[str, str]):
    """A plane of features that an answer leaves as they are is not a picture of its changes."""
    explainer, rows = asked()
    keep = cp.Immutable("loans", "debt")
    answers = explainer.adding(keep).explain(rows, "yes")
    for answer in [a for a in answers if a.changes][:4]:
        shown = RegionsDisplay.from_answer(answer, pair, resolution=5).plot()
        others = {name for name in answer.changes if name not in pair}
        assert len(shown.changes) == len(others)
        title = " ".join(shown.ax_.get_title(loc="left").split())
        for name in others:
            assert f"{name} " in title
            old, new = answer.changes[name]
            assert (
                f"{old:.6g} → {new:.6g}" in title if name != "home" else f"{old} → {new}" in title
            )
        assert title.endswith("after these changes") == bool(others)
        marks = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
        if "income $a_b$" not in answer.changes or pair[0] == "debt":
            assert title.startswith("Neither of these two changes; what does: ")
            assert "the row (no) and its answer (yes)" in marks
        else:
            assert {"the row (no)", "the answer (yes)"} < set(marks)


def test_labels_of_decisions_are_words():
    X = np.array([[0.0, 1.5], [1.0, 0.2], [2.0, 1.1], [3.0, 0.4]])
    model = LogisticRegression().fit(X, X[:, 0] > 1.5)
    answer = cp.Explainer(model, data=X).explain(X[:1], True)[0]
    shown = RegionsDisplay.from_answer(answer, resolution=5).plot()
    marks = {text.get_text() for text in shown.ax_.get_legend().get_texts()}
    assert marks == {"predicts no", "predicts yes", "the row (no)", "the answer (yes)"}


def test_labels_that_are_floats_are_no_predictions_of_a_regressor():
    X = np.array([[0.0, 1.5], [1.0, 0.2], [2.0, 1.1], [3.0, 0.4]])
    model = LogisticRegression().fit(X, np.array([1.0, 1.0, 2.0, 2.0]))
    shown = RegionsDisplay.from_answer(cp.Explainer(model, data=X).explain(X[:1], 2.0)[0]).plot()
    marks = {text.get_text() for text in shown.ax_.get_legend().get_texts()}
    assert marks == {"predicts 1", "predicts 2", "the row (1)", "the answer (2)"}
    assert len(shown.figure_.axes) == 1


def test_regions_of_a_regressor():
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = LinearRegression().fit(X, X @ [1.0, 2.0, 0.5])
    answers = cp.Explainer(model, data=X).explain(X[:1], cp.Interval(low=2.0))
    shown = RegionsDisplay.from_answer(answers[0], resolution=10).plot()
    assert shown.decisions.dtype == np.float64


def test_given_axes_are_drawn_on():
    explainer, rows = asked()
    answers = explainer.explain(rows, "yes")
    several = explainer.explain(rows.head(1), "yes", n=2)
    figure, axes = plt.subplots(1, 5)
    shown: list[Any] = [
        WaterfallDisplay.from_answer(answers[0]).plot(axes[0]),
        ChangesDisplay.from_answers(answers).plot(axes[1:3]),
        AlternativesDisplay.from_alternatives(several).plot(axes[3]),
        RegionsDisplay.from_answer(answers[0], resolution=5).plot(axes[4]),
    ]
    assert [one.ax_ for one in shown] == [axes[0], axes[1], axes[3], axes[4]]
    assert all(one.figure_ is figure for one in shown)
    figure.canvas.draw()


def test_where_nothing_changes_a_row_is_all_there_is_to_see():
    explainer, rows = asked()
    answers = explainer.explain(rows, "no")
    assert WaterfallDisplay.from_answer(answers[0]).plot().names == []
    for made in (
        lambda: ChangesDisplay.from_answers(answers),
        lambda: AlternativesDisplay.from_alternatives(explainer.explain(rows, "no", n=2)),
    ):
        with pytest.raises(cp.NoAnswer, match="nothing changes"):
            made()


def test_what_cannot_be_drawn_is_said():
    explainer, rows = asked()
    stuck = cp.Explainer(explainer.model, data=rows, constraints=cp.Immutable(*rows))
    none, some = stuck.explain(rows, "yes"), explainer.explain(rows, "yes")
    for display in (WaterfallDisplay, RegionsDisplay):
        with pytest.raises(cp.NoAnswer, match="infeasible"):
            display.from_answer(none[0])
        with pytest.raises(cp.InvalidInput, match=r"one answer, such as answers\[0\]"):
            display.from_answer(some)  # type: ignore[arg-type]
    with pytest.raises(cp.NoAnswer, match="no row has an answer"):
        ChangesDisplay.from_answers(none)
    with pytest.raises(cp.InvalidInput, match="Counterfactuals, as explain returns them"):
        ChangesDisplay.from_answers(some[0])  # type: ignore[arg-type]
    with pytest.raises(cp.NoAnswer, match="row 0 has no answer"):
        AlternativesDisplay.from_alternatives(stuck.explain(rows.head(1), "yes", n=2))
    for pair in (("home", "debt"), ("debt", "debt"), ("debt",)):
        with pytest.raises(cp.InvalidInput, match="two features that are numbers"):
            RegionsDisplay.from_answer(some[0], pair)
    with pytest.raises(cp.InvalidInput, match="There is no feature 'dept'"):
        RegionsDisplay.from_answer(some[0], ("dept", "loans"))
