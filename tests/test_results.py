"""What a user gets: columns for the batch, an object for a row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import counterpoint as cp

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


def test_the_frame_has_the_rows_with_an_answer(answers: cp.Counterfactuals):
    back = answers.to_frame()
    assert back.index.tolist() == DATA.index[:12][answers.found].tolist()
    assert MODEL.predict(back).all()


def test_the_report_has_a_line_for_each_row(answers: cp.Counterfactuals):
    report = answers.report()
    assert report.index.equals(DATA.index[:12])
    for name in ("cost", "bound", "gap"):
        np.testing.assert_array_equal(report[name], getattr(answers, name))
    assert (report["valid"] == answers.found).all()
    assert (report["changed"] == answers.changed.sum(axis=1)).all()
    assert report["message"].str.len().gt(10).all()


def test_changes_lists_exactly_the_changed_cells(answers: cp.Counterfactuals):
    changes = answers.changes()
    back = answers.to_frame()
    assert len(changes) == answers.changed.sum() > 0
    for row, feature, old, new in changes.itertuples(index=False):
        label = DATA.index[row]
        assert old == DATA.loc[label, feature]
        assert new == back.loc[label, feature] != old


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


def test_texts_name_status_and_changes(answers: cp.Counterfactuals):
    assert "12 rows" in repr(answers)
    assert "optimal" in answers.summary()
    found = next(a for a in answers if a.changes)
    assert "→" in str(found)
    assert "proved" in str(found)


def test_the_rows_that_came_in_are_left_alone():
    rows = DATA[:5].copy()
    kept = rows.copy()
    cp.explain(MODEL, rows, True, data=DATA)
    pd.testing.assert_frame_equal(rows, kept)
    array = DATA.to_numpy()[:5].copy()
    model = LogisticRegression().fit(DATA.to_numpy(), DATA["a"] > 0)
    cp.explain(model, array, True, data=DATA.to_numpy()).to_frame()[:] = 0.0
    np.testing.assert_array_equal(array, DATA.to_numpy()[:5])
