"""What a user gets: columns for the batch, an object for a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import counterpoint as cp
from counterpoint.pictures.html import change
from counterpoint.programs.evidence import BoundProof

RNG = np.random.default_rng(0)
DATA = pd.DataFrame(RNG.normal(size=(60, 3)), columns=list("abc"), index=range(100, 160))
MODEL = LogisticRegression().fit(DATA, DATA["a"] + DATA["b"] > 0)


@pytest.fixture
def answers() -> cp.Counterfactuals:
    """Answered, already there, invalid and infeasible rows in one batch."""
    rows = DATA[:12].copy()
    rows.iloc[3, 1] = np.nan
    wall = [cp.Bounds("a", high=0.3), cp.Immutable("b", "c")]
    return cp.explain(MODEL, rows, True, data=DATA, constraints=wall)


def test_the_batch_shows_every_status(answers: cp.Counterfactuals):
    assert {str(s) for s in answers.status} == {"optimal", "already", "invalid", "infeasible"}


def test_there_is_one_answer_for_each_row_in_its_order(answers: cp.Counterfactuals):
    assert len(answers) == len(list(answers)) == 12
    assert [a.status for a in answers] == answers.status.tolist()
    assert answers[-1].status == answers[11].status
    with pytest.raises(IndexError):
        answers[12]


def test_the_frame_has_a_row_for_each_row_and_no_values_without_an_answer(
    answers: cp.Counterfactuals,
):
    back = answers.to_frame()
    assert back.index.equals(DATA.index[:12])
    assert MODEL.predict(back[answers.found]).all()
    assert back[~answers.found].isna().all(axis=None)


def test_the_report_has_a_line_for_each_row(answers: cp.Counterfactuals):
    report = answers.report()
    assert report.index.equals(DATA.index[:12])
    for name in ("cost", "bound", "gap"):
        np.testing.assert_array_equal(report[name], getattr(answers, name))
    assert (report["valid"] == answers.found).all()
    assert (report["changed"] == answers.changed.sum(axis=1)).all()
    assert report["message"].str.len().gt(10).all()
    assert report["message"].tolist() == [answer.message for answer in answers]


def test_changes_lists_exactly_the_changed_cells(answers: cp.Counterfactuals):
    changes = answers.changes()
    back = answers.to_frame()
    assert len(changes) == answers.changed.sum() > 0
    for row, feature, old, new in changes.itertuples(index=False):
        assert old == DATA.loc[row, feature]
        assert new == back.loc[row, feature] != old


def test_a_row_agrees_with_the_columns(answers: cp.Counterfactuals):
    back = answers.to_frame()
    for i, answer in enumerate(answers):
        assert answer.found == answers.found[i]
        if not answer.found:
            assert np.isnan(answer.cost)
            with pytest.raises(cp.NoAnswer, match=str(answer.status)):
                _ = answer.row
            continue
        label = DATA.index[i]
        assert answer.row == back.loc[label].to_dict()
        assert answer.factual == DATA.loc[label].to_dict()
        assert answer.cost == answers.cost[i] == answer.certificate.cost
        assert set(answer.changes) == set(np.array(list("abc"))[answers.changed[i]])


def test_what_was_not_found_has_no_numbers(answers: cp.Counterfactuals):
    nothing = ~answers.found
    assert np.isnan(answers.cost[nothing]).all()
    assert not answers.changed[nothing].any()
    assert not answers.certificates.holds[nothing].any()


def test_some_answers_that_follow_one_another_say_what_all_do(answers: cp.Counterfactuals):
    for first, end in ((0, 3), (2, 7), (3, 4), (4, 12)):
        rows = slice(first, end)
        some = answers.part(rows, answers.table.take(rows))
        assert some.status.tolist() == answers.status[rows].tolist()
        pd.testing.assert_frame_equal(
            some.report(), answers.report()[rows], check_categorical=False
        )
        for answer, i in zip(some, range(first, end), strict=True):
            assert answer.message == answers[i].message
            assert (answer.factual, answer.changes) == (answers[i].factual, answers[i].changes)


def test_only_proofs_of_all_pieces_are_kept(answers: cp.Counterfactuals):
    proof, rows = BoundProof(np.zeros((1, 1))), np.zeros(1, dtype=np.intp)
    count = len(answers.proofs)
    for proofs, pieces, more in (([proof], 2, 0), ([], 2, 0), ([proof] * 2, 2, 1)):
        answers.keep(rows, proofs, pieces)
        assert len(answers.proofs) == count + more


def test_only_an_infeasible_row_has_a_conflict(answers: cp.Counterfactuals):
    for answer in answers:
        assert (answer.conflict is not None) == (answer.status == cp.Status.INFEASIBLE)


def test_a_conflict_is_about_what_was_wanted_of_its_row():
    rows = pd.DataFrame({"a": [-1.0, 1.0], "b": [-9.0, 9.0], "c": 0.0})
    up, down, rest = cp.Bounds("a", high=1.5), cp.Bounds("a", low=-1.5), cp.Immutable("b", "c")
    both = cp.explain(MODEL, rows, cp.OtherLabel(), data=DATA, constraints=[up, down, rest])
    for answer, wall in zip(both, (up, down), strict=True):
        assert set(answer.conflict.constraints) == {wall, rest}


def test_an_answer_that_trades_off_says_its_objective_and_its_cost():
    answers = cp.explain(MODEL, DATA[:6], cp.Tradeoff(True, 0.1), data=DATA)
    answer = next(a for a in answers if a.changes)
    c = answer.certificate
    assert f"cost {c.cost:.6g}{c.likely}, objective {c.objective:.6g}, at least" in str(answer)


def test_the_summary_is_of_rows_that_change(answers: cp.Counterfactuals):
    moved = answers.changed.any(axis=1)
    assert 0 < moved.sum() < answers.found.sum()
    cost, gap = answers.cost[moved], answers.gap[moved]
    assert f"median {np.median(cost):.4g}, largest {cost.max():.4g}" in answers.summary()
    assert f"largest gap {gap.max():.1e}" in answers.summary()


def test_texts_name_status_and_changes(answers: cp.Counterfactuals):
    assert "12 rows" in repr(answers)
    assert "optimal" in answers.summary()
    found = next(a for a in answers if a.changes)
    assert "→" in str(found)
    assert "proved" in str(found)


def test_changes_are_shown_in_few_digits_that_tell_them_apart():
    assert change(32.01, 14.789210564737065) == "32.01 → 14.7892"
    assert change(29.0, 29.000000001) == "29 → 29.000000001"
    assert change("rent", "own") == "rent → own"


def test_the_rows_that_came_in_are_left_alone():
    rows = DATA[:5].copy()
    kept = rows.copy()
    cp.explain(MODEL, rows, True, data=DATA)
    pd.testing.assert_frame_equal(rows, kept)
    array = DATA.to_numpy()[:5].copy()
    model = LogisticRegression().fit(DATA.to_numpy(), DATA["a"] > 0)
    cp.explain(model, array, True, data=DATA.to_numpy()).to_frame()[:] = 0.0
    np.testing.assert_array_equal(array, DATA.to_numpy()[:5])


WHOLE = pd.DataFrame(
    {
        "n": RNG.integers(0, 30, 80),
        "z": RNG.normal(size=80),
        "home": RNG.choice(["own", "rent"], 80),
    },
    index=[f"row {i}" for i in range(80)],
)


def mixed() -> tuple[Any, pd.DataFrame]:
    """A model of whole numbers, floats and text, and rows that it refuses."""
    before = make_column_transformer((OneHotEncoder(), ["home"]), remainder="passthrough")
    score = WHOLE["n"] + 3 * WHOLE["z"] + 20 * (WHOLE["home"] == "own")
    model = make_pipeline(before, LogisticRegression(max_iter=5000)).fit(WHOLE, score > 30)
    return model, WHOLE[~model.predict(WHOLE)][:12]


def test_changes_of_whole_columns_are_ints_and_rows_go_by_their_labels():
    model, rows = mixed()
    cost = cp.Manhattan({"n": 1.0, "z": 2.9, "home": 14.0})
    answers = cp.explain(model, rows, True, data=WHOLE, cost=cost)
    changes = answers.changes()
    back = answers.to_frame()
    assert {type(value) for value in changes.loc[changes["feature"] == "n", "to"]} == {int}
    assert {type(value) for value in changes.loc[changes["feature"] == "z", "to"]} == {float}
    assert set(changes["feature"]) == {"n", "z", "home"}
    for label, name, old, new in changes.itertuples(index=False):
        assert (old, new) == (rows.loc[label, name], back.loc[label, name])
    assert back["n"].dtype == rows["n"].dtype


def test_whole_values_of_columns_of_floats_stay_floats():
    model, rows = mixed()
    cost = cp.Manhattan({"n": 9.0, "z": 1.0, "home": 99.0})
    changes = cp.explain(model, rows.assign(z=-1.0), True, data=WHOLE, cost=cost).changes()
    assert {type(value) for value in changes.loc[changes["feature"] == "z", "from"]} == {float}


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_whole_numbers_in_a_column_of_objects_stay_ints(kind: str):
    counts = RNG.integers(0, 9, size=60)
    rows = pd.DataFrame({"a": counts.astype(object), "b": RNG.normal(size=60).astype(object)})
    model = LogisticRegression().fit(rows.to_numpy(float), counts > 4)
    taken: Any = rows.to_numpy() if kind == "array" else rows.set_axis(["x0", "x1"], axis=1)
    answers = cp.explain(model, taken, cp.OtherLabel(), data=taken, constraints=cp.Immutable("x1"))
    back = pd.DataFrame(answers.to_frame())
    assert answers.changed.any()
    assert {type(value) for value in back.iloc[:, 0]} == {int}
    assert {type(value) for value in back.iloc[:, 1]} == {float}
    changes = answers.changes()
    assert {type(value) for value in [*changes["from"], *changes["to"]]} <= {int, np.int64}


def test_polars_has_changes_of_columns_of_many_kinds_as_text():
    """Its columns hold one type each; a number is written as Python writes it."""
    model, rows = mixed()
    cost = cp.Manhattan({"n": 1.0, "z": 2.9, "home": 14.0})
    expected = cp.explain(model, rows, True, data=WHOLE, cost=cost).changes()
    answers = cp.explain(model, pl.from_pandas(rows), True, data=WHOLE, cost=cost)
    changes = answers.changes()
    assert changes["to"].to_list() == expected["to"].map(str).tolist()
    assert changes["row"].to_list() == [rows.index.get_loc(label) for label in expected["row"]]
    numbers = cp.explain(
        model, pl.from_pandas(rows), True, data=WHOLE, cost=cost, constraints=cp.Immutable("home")
    )
    assert numbers.changes()["to"].dtype == pl.Float64


def test_rows_without_an_answer_are_missing_in_place():
    """The model's columns are; others keep their values, and whole numbers stay whole."""
    model, rows = mixed()
    rows = rows.assign(id=range(12), n=rows["n"].astype("int16"))
    rows.iloc[4, rows.columns.get_loc("z")] = np.inf
    answers = cp.explain(model, rows, True, data=WHOLE)
    assert answers.found.tolist() == [i != 4 for i in range(12)]
    back = answers.to_frame()
    assert back.index.equals(rows.index)
    assert back.dtypes.astype(str).tolist() == [
        "Int16" if name == "n" else str(dtype) for name, dtype in rows.dtypes.items()
    ]
    assert back.iloc[4][["n", "z", "home"]].isna().all()
    assert back["id"].tolist() == list(range(12))
    assert model.predict(back[answers.found].astype({"n": int})).all()
