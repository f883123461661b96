"""Letters: rounded advice holds for the model itself, reasons follow the optimum, words fit."""

from __future__ import annotations

import copy
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import counterpoint as cp
from counterpoint import letters as package
from counterpoint.cli import app
from counterpoint.letters import Letter, Texts, Wording, draft, letter, write_letters


def logistic(frame: pd.DataFrame, labels: Any) -> Any:
    words = [*frame.select_dtypes(exclude="number")]
    prepare = make_column_transformer((OneHotEncoder(), words), remainder=StandardScaler())
    return make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(frame, labels)


def advised(rows: pd.DataFrame, letters: list[Letter]) -> tuple[pd.DataFrame, int]:
    """The rows with what the first way of each letter advises, and how many sentences that is."""
    out = rows.copy().astype(dict.fromkeys(rows.select_dtypes("number"), float))
    count = 0
    for at, each in zip(rows.index, letters, strict=True):
        for name, value in each.values[0].items() if each.values else ():
            out.loc[at, name] = value
            count += 1
    return out, count


def steps_hold(steps: dict[str, float], letters: list[Letter]) -> bool:
    """Whether every rounded number is a multiple of its step."""
    pairs = [
        (value, steps[name])
        for each in letters
        for way, exact in zip(each.values, each.exact, strict=True)
        for name, value in way.items()
        if name in steps and name not in exact
    ]
    return all(abs(value / step - round(value / step)) < 1e-9 for value, step in pairs)


def wording(column: str, step: float | None = None) -> Wording:
    """The words of LoanAmount: loan amount; of 0 and 1, no and yes."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower()
    return Wording(name=name, step=step, values={"0": "no", "1": "yes"})


GOOD = {"-1": "bad", "0": "good", "1": "good"}
CREDIT = {"LoanAmount": 50.0, "LoanDuration": 3.0}


def credit_letters(german: pd.DataFrame, count: int) -> int:
    """Letters about German credit, checked by the model and by hand; how many sentences."""
    labels = german.pop("GoodCustomer")
    model = logistic(german, labels)
    explainer = cp.Explainer(
        model,
        data=german,
        features=[cp.Continuous("LoanAmount"), cp.Continuous("LoanDuration")],
        cost=cp.Manhattan({"LoanAmount": 1e-4, "LoanDuration": 0.01, "HasGuarantor": 9.0}),
        constraints=[
            cp.Immutable("Gender", "Age", "ForeignWorker", "PurposeOfLoan"),
            cp.Monotone("LoanAmount", "decreasing"),
            cp.Linear.parse("OwnsHouse + RentsHouse <= 1"),
        ],
    )
    rows = german[model.predict(german) == -1].head(count)
    texts = Texts({n: wording(n, CREDIT.get(n)) for n in german}, GOOD)
    letters = write_letters(explainer, explainer.explain(rows, 1), texts, protected=["Gender"])
    changed, sentences = advised(rows, letters)
    assert (model.predict(changed) == 1).all()
    assert steps_hold(CREDIT, letters)
    kept = ["Gender", "Age", "ForeignWorker", "PurposeOfLoan"]
    pd.testing.assert_frame_equal(changed[kept], rows[kept], check_dtype=False)
    assert (changed["LoanAmount"] <= rows["LoanAmount"]).all()
    assert (changed["OwnsHouse"] + changed["RentsHouse"] <= 1).all()
    return sentences


BURDEN = {"NetFractionRevolvingBurden": 5.0, "AverageMInFile": 6.0}


def heloc_letters(heloc: pd.DataFrame, count: int) -> int:
    """Letters about HELOC, checked by the model and by hand; how many sentences."""
    labels = heloc.pop("RiskPerformance").astype(int)
    model = logistic(heloc, labels)
    explainer = cp.Explainer(
        model,
        data=heloc,
        cost=cp.SquaredEuclidean({name: 1.0 / heloc[name].var() for name in heloc}),
        constraints=[
            cp.Immutable("ExternalRiskEstimate", "MaxDelqEver"),
            cp.Bounds("NetFractionRevolvingBurden", fall=40, rise=0),
            cp.Monotone("PercentTradesNeverDelq", "increasing"),
            cp.Linear.parse("NumInqLast6Mexcl7days <= NumInqLast6M"),
        ],
    )
    rows = heloc[model.predict(heloc) == 1].head(count)
    texts = Texts({n: wording(n, BURDEN.get(n)) for n in heloc}, GOOD)
    letters = write_letters(explainer, explainer.explain(rows, 0), texts)
    changed, sentences = advised(rows, letters)
    has = np.array([bool(each.values) for each in letters])
    assert (model.predict(changed[has]) == 0).all()
    assert steps_hold(BURDEN, letters)
    fall = rows["NetFractionRevolvingBurden"] - changed["NetFractionRevolvingBurden"]
    assert fall.between(0, 40).all()
    more = changed["NumInqLast6Mexcl7days"] - changed["NumInqLast6M"]
    before = rows["NumInqLast6Mexcl7days"] - rows["NumInqLast6M"]
    assert (more <= np.maximum(before, 0) + 1e-6).all()
    return sentences


def test_rounded_advice_on_credit_holds_for_the_model(german: pd.DataFrame):
    assert credit_letters(german, 12) >= 12


def test_rounded_advice_on_heloc_holds_for_the_model(heloc: pd.DataFrame):
    assert heloc_letters(heloc, 10) >= 60


@pytest.mark.slow
def test_a_thousand_rounded_sentences_hold_for_the_model(german: pd.DataFrame, heloc: pd.DataFrame):
    assert credit_letters(german, 1000) + heloc_letters(heloc, 100) >= 1000


# A model that is easy to see through: granted if 2 · income − 100 · debt >= 1000


FRAME = pd.DataFrame(
    {"income": [300.0, 2000.0, 900.0], "debt": [0.0, 45.5, 3.0], "age": [30.0, 40.0, 50.0]}
)


def credit(*constraints: cp.Constraint, **options: Any) -> cp.Explainer:
    model = LogisticRegression().fit(FRAME.to_numpy(), [0, 1, 0])
    model.coef_, model.intercept_ = np.array([[2.0, -100.0, 0.0]]), np.array([-1000.0])
    model.feature_names_in_ = np.array(FRAME.columns, dtype=object)
    cost = options.pop("cost", cp.Manhattan({"income": 1.0, "debt": 60.0, "age": 1.0}))
    return cp.Explainer(model, cost=cost, constraints=constraints, **options)


def row(**cells: float) -> pd.DataFrame:
    return pd.DataFrame([{"income": 300.0, "debt": 0.0, "age": 30.0} | cells])


TEXTS = Texts(
    {
        "income": Wording(name="yearly income", code="R1", unit="EUR", step=100.0),
        "debt": Wording(name="share of debt", code="R2", unit="%", step=0.05, scale=100.0),
        "age": Wording(),
    },
    {"1": "granted", "0": "declined"},
)


def test_numbers_are_rounded_away_from_where_they_are_and_said_with_their_units():
    explainer = credit(cp.Immutable("debt", "age"))
    told = letter(explainer, explainer.explain(row(income=312.0, debt=1.0), 1)[0], TEXTS)
    assert told.values == ({"income": 600.0},)  # 550 is the boundary
    assert told.sentences[0]["income"] == ("Raise yearly income from 312 to at least 600 EUR.")
    said = "Your yearly income is too low (312 EUR)"
    assert told.reasons[0][:3] == ("income", "R1", said)
    assert str(told) == (
        f"The model's decision: declined.\n\nPrincipal reasons:\n  1. R1 {said}\n"
        "\nWith this change, the decision would be granted:\n"
        "  - Raise yearly income from 312 to at least 600 EUR.\n\n"
        "The model was given these values, with all others as they are, and confirms this. A later "
        "decision may rest on other data or on another model.\n\n"
        "This letter says how the model came to its decision. It does not limit any right that you "
        "have to an explanation of the decision, to object to it, or to have it reviewed."
    )


def test_german_has_its_own_marks():
    explainer = credit(cp.Immutable("income", "age"))
    answer = explainer.explain(row(income=1201.0, debt=20.123), 1)[0]
    told = letter(explainer, answer, TEXTS, language="de")
    assert told.values == ({"debt": 14.0},)
    said = "Share of debt: von 2.012,3 auf höchstens 1.400 % senken."
    assert told.sentences[0]["debt"] == said
    assert "Die Entscheidung des Modells lautet „declined“." in told.text
    assert told.reasons[0].text == "Share of debt zu hoch (2.012,3 %)"


def test_without_a_step_advice_has_three_digits():
    explainer = credit(cp.Immutable("debt", "age"))
    answer = explainer.explain(row(income=313.7, debt=0.77), 1)[0]
    told = letter(explainer, answer, Texts(decisions=TEXTS.decisions))
    assert told.values[0] == {"income": 539.0}  # the boundary is at 538.5
    assert told.sentences[0]["income"] == "Raise income from 313.7 to at least 539."


def test_where_bounds_leave_no_room_for_the_step_it_is_given_up_and_the_letter_says_so():
    explainer = credit(cp.Immutable("debt", "age"), cp.Bounds("income", high=555.0))
    answer = explainer.explain(row(debt=1.0), 1)[0]
    told = letter(explainer, answer, TEXTS)
    assert told.exact == (("income",),)
    assert told.values[0]["income"] == 551.0  # the boundary is at 550
    assert "(this number cannot be rounded further)" in told.sentences[0]["income"]


def test_where_no_multiple_beside_the_answer_will_do_nothing_is_said_of_what_is_beyond():
    x = np.arange(0.0, 8.0, 0.05)
    y = ((x > 2.3) & (x < 2.4)) | ((x > 2.8) & (x < 5.0))
    frame = pd.DataFrame({"x": x})
    explainer = cp.Explainer(DecisionTreeClassifier().fit(frame, y), data=frame)
    told = letter(
        explainer,
        explainer.explain(frame.head(1), True)[0],
        Texts({"x": Wording(step=0.5)}, {"True": "in", "False": "out"}),
    )
    assert told.values == ({"x": 2.28},)  # 2 and 2.5 are out
    assert (
        told.sentences[0]["x"] == "Raise x from 0 to 2.28 (this number cannot be rounded further)."
    )


def test_numbers_that_do_not_round_together_are_rounded_one_by_one():
    together = cp.Linear({"income": 1.0, "debt": 100.0}, high=1120.0)
    explainer = credit(cp.Immutable("age"), together, cost=cp.SquaredEuclidean())
    answer = explainer.explain(row(income=900.0, debt=10.0), 1)[0]
    told = letter(
        explainer, answer, Texts({**TEXTS.features, "debt": Wording(step=1.0)}, TEXTS.decisions)
    )
    values = answer.row | told.values[0]
    assert 2 * values["income"] - 100 * values["debt"] >= 1000
    assert values["income"] + 100 * values["debt"] <= 1120 * (1 + 1e-8)


def test_reasons_are_the_shares_of_the_score_that_changes_close():
    cost = cp.SquaredEuclidean({"income": 1.0, "debt": 2500.0, "age": 1.0})
    explainer = credit(cp.Immutable("age"), cost=cost)
    told = letter(explainer, explainer.explain(row(income=100.0, debt=5.0), 1)[0], TEXTS)
    change = explainer.explain(row(income=100.0, debt=5.0), 1)[0].row
    closed = {"income": 2 * (change["income"] - 100), "debt": 100 * (5 - change["debt"])}
    expected = sorted(closed, key=closed.__getitem__, reverse=True)
    assert [reason.feature for reason in told.reasons] == expected
    shares = {reason.feature: reason.share for reason in told.reasons}
    for name, part in closed.items():
        assert shares[name] == pytest.approx(part / sum(closed.values()), rel=1e-6)


def test_there_are_at_most_four_reasons():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 7)), columns=[*"abcdefg"])
    model = LogisticRegression().fit(frame, frame.sum(axis=1) > 0)
    explainer = cp.Explainer(model, data=frame, cost=cp.SquaredEuclidean())
    rows = frame[~model.predict(frame)]
    named = Texts(decisions={"True": "high", "False": "low"})
    for told in write_letters(explainer, explainer.explain(rows, True), named):
        assert len(told.reasons) == 4
        shares = [reason.share for reason in told.reasons]
        assert shares == sorted(shares, reverse=True)


def test_a_change_that_only_a_relation_forces_is_no_reason():
    explainer = credit(cp.Immutable("debt"), cp.Linear.parse("income - 20 * age <= 0"))
    answer = explainer.explain(row(income=300.0, age=15.0), 1)[0]
    assert {*answer.changes} == {"income", "age"}
    told = letter(explainer, answer, TEXTS)
    assert [reason.feature for reason in told.reasons] == ["income"]
    assert {*told.sentences[0]} == {"income", "age"}


def test_a_row_without_an_answer_has_the_reasons_of_fewer_rules():
    explainer = credit(cp.Immutable("age", "debt"), cp.Bounds("income", rise=10.0))
    (told,) = write_letters(explainer, explainer.explain(row(), 1), TEXTS)
    assert [reason.code for reason in told.reasons] == ["R1"]
    assert told.values == ()
    none = "Within the rules, there is no change with which the decision would be granted."
    assert [*map(str, told.parts["ways"])] == [none]
    frozen = credit(cp.Immutable("age", "debt", "income"))
    (told,) = write_letters(frozen, frozen.explain(row(), 1), TEXTS)
    assert "have to be stated by a person" in told.text


def test_rows_that_have_the_decision_or_cannot_be_used_say_so():
    explainer = credit()
    rows = pd.concat([row(income=900.0), row(income=np.nan), row()])
    kept, broken, open_ = write_letters(explainer, explainer.explain(rows, 1), TEXTS)
    assert str(kept.parts["decision"][0]) == (
        "The decision is already granted; nothing has to change."
    )
    assert broken.text.startswith("The row cannot be used:")
    assert open_.values


def test_copies_of_answers_have_the_same_letters():
    explainer = credit()
    answers = explainer.explain(row(debt=3.0), 1)
    again = copy.deepcopy(answers)
    assert write_letters(explainer, again, TEXTS) == write_letters(explainer, answers, TEXTS)


def test_several_answers_are_several_ways():
    explainer = credit()
    found = explainer.explain(pd.concat([row(debt=3.0), row(debt=5.0)]), 1, n=2)
    both = write_letters(explainer, found, TEXTS)
    assert len(both) == 2
    assert len(both[0].values) == len(found[0]) > 1
    assert "Way 2:" in both[0].text
    assert letter(explainer, found[1], TEXTS) == both[1]


def test_a_letter_is_about_one_row_in_whatever_order_its_answers_come():
    explainer = credit()
    rows = pd.concat([row(debt=3.0), row(debt=5.0), row(debt=3.0)], ignore_index=True)
    named = rows.assign(name=["Ada", "Ben", None]).set_index(pd.Index([1.0, 2.0, np.nan]))
    for X in (rows, named, rows.to_numpy()):
        found = explainer.explain(X, 1, n=2)
        ways, reverse = (letter(explainer, found[2][::k], TEXTS) for k in (1, -1))
        assert ways.values == reverse.values[::-1]
        single = explainer.explain(X, 1)
        mixed = [[*single][:2], [single[1], single[0]], [found[0][0], found[1][0]]]
        mixed.append([single[0], explainer.explain(X, 1)[0]])
        if isinstance(X, pd.DataFrame):
            mixed.append([single[0], single[2]])  # two people of the same values
        for answers in mixed:
            with pytest.raises(cp.InvalidInput, match="got answers to different rows"):
                letter(explainer, answers, TEXTS)


def test_missing_cells_and_categories_are_told():
    frame = pd.DataFrame({"job": ["a", "b"] * 20, "pay": [1.0, 2.0, 3.0, np.nan] * 10})
    prepare = make_column_transformer((OneHotEncoder(), ["job"]), (SimpleImputer(), ["pay"]))
    model = make_pipeline(prepare, LogisticRegression()).fit(frame, [0, 1, 0, 1] * 10)
    model[-1].coef_, model[-1].intercept_ = np.array([[0.0, 1.0, 2.0]]), np.array([-5.5])
    explainer = cp.Explainer(model, data=frame)
    rows = pd.DataFrame({"job": ["a"], "pay": [np.nan]})
    texts = Texts(
        {"job": Wording(values={"a": "clerk", "b": "nurse"}), "pay": Wording(step=0.5)},
        TEXTS.decisions,
    )
    pay = cp.Explainer(model, data=frame, constraints=cp.Immutable("job"))
    (told,) = write_letters(pay, pay.explain(rows, 1), texts)
    assert told.sentences[0]["pay"] == "Supply the missing pay: at least 3."
    assert told.reasons[0].text == "Your pay is missing"
    job = cp.Explainer(model, data=frame, constraints=cp.Immutable("pay"))
    (told,) = write_letters(job, job.explain(rows.assign(pay=2.5), 1), texts)
    assert told.sentences[0]["job"] == "Change job from clerk to nurse."
    assert told.reasons[0].text == "Your job is clerk"
    (told,) = write_letters(explainer, explainer.explain(rows.assign(pay=2.5), 1, n=1), texts)
    assert told.values


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (cp.Interval(low=5.0), "at least 5"),
        (cp.Interval(low=5.0, high=6.0), "between 5 and 6"),
    ],
)
def test_regressors_predict_ranges(target: cp.Interval, said: str):
    frame = pd.DataFrame({"x": np.arange(9.0)})
    model = LinearRegression().fit(frame, frame["x"] / 2 + 1.03)
    explainer = cp.Explainer(model, data=frame, features=[cp.Continuous("x")])
    (told,) = write_letters(explainer, explainer.explain(frame.head(1), target))
    assert f"With this change, the prediction would be {said}:" in told.text
    assert ("at least 7.95" in told.sentences[0]["x"]) == (said == "at least 5")


def test_every_number_beyond_at_most_keeps_the_decision(german: pd.DataFrame):
    labels = german.pop("GoodCustomer")
    german = german.select_dtypes("number")
    model = LogisticRegression(max_iter=5000).fit(german, labels)
    explainer = cp.Explainer(model, data=german, cost=cp.Manhattan())
    rows = german[model.predict(german) == -1].head(3)
    texts = Texts({n: wording(n) for n in german}, GOOD)
    letters = write_letters(explainer, explainer.explain(rows, 1), texts)
    rng = np.random.default_rng(0)
    beyond = 0
    for (_, factual), each in zip(rows.iterrows(), letters, strict=True):
        for name, said in each.sentences[0].items():
            if "at least" not in said and "at most" not in said:
                continue
            end = german[name].min() if "at most" in said else german[name].max()
            some = pd.DataFrame([{**factual, **each.values[0]}] * 50)
            some[name] = rng.uniform(*sorted([each.values[0][name], end]), 50)
            assert (model.predict(some[german.columns]) == 1).all()
            beyond += 1
    assert beyond >= 2


# Words


def hours(**fields: Any) -> tuple[cp.Explainer, Texts]:
    """A model that grants from 41 hours on, and texts about hours."""
    data = pd.DataFrame({"hours-per-week": [20, 30, 40, 50, 60]})
    model = LogisticRegression().fit(data, [0, 0, 0, 1, 1])
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([-40.5])
    texts = Texts({"hours-per-week": Wording(**fields)}, {"1": "granted", "0": "declined"})
    return cp.Explainer(model, data=data), texts


@pytest.mark.parametrize(
    ("fields", "advice", "reason"),
    [
        (
            {"name": "weekly working hours", "unit": "hours", "plural": True},
            "Raise weekly working hours from 40 to at least 41.",
            "Your weekly working hours are too low (40)",
        ),
        (
            {"name": "working time", "unit": "hours"},
            "Raise working time from 40 to at least 41 hours.",
            "Your working time is too low (40 hours)",
        ),
        (
            {"name": "working time", "subject": "The time that you work"},
            "Raise working time from 40 to at least 41.",
            "The time that you work is too low (40)",
        ),
    ],
)
def test_a_unit_is_said_once_and_reasons_agree_in_number(
    fields: dict[str, Any], advice: str, reason: str
):
    explainer, texts = hours(**fields)
    answers = explainer.explain(pd.DataFrame({"hours-per-week": [40]}), 1)
    (told,) = write_letters(explainer, answers, texts)
    assert told.sentences[0]["hours-per-week"] == advice
    assert told.reasons[0].text == reason


def test_german_sentences_decline_nothing_and_agree_in_number():
    fields = {"subject": "Ihre Arbeitsstunden je Woche", "plural": True, "unit": "Stunden"}
    explainer, texts = hours(name="Arbeitsstunden je Woche", **fields)
    answers = explainer.explain(pd.DataFrame({"hours-per-week": [40]}), 1)
    texts = Texts(texts.features, {"1": "bewilligt", "0": "abgelehnt"})
    (told,) = write_letters(explainer, answers, texts, language="de")
    assert told.reasons[0].text == "Ihre Arbeitsstunden je Woche sind zu niedrig (40 Stunden)"
    advice = "Arbeitsstunden je Woche: von 40 auf mindestens 41 Stunden erhöhen."
    assert told.sentences[0]["hours-per-week"] == advice
    assert "Mit dieser Änderung würde die Entscheidung „bewilligt“ lauten:" in told.text


def test_what_has_no_words_for_people_is_asked_for():
    explainer, texts = hours()
    answers = explainer.explain(pd.DataFrame({"hours-per-week": [40]}), 1)
    message = refused(explainer, answers)
    assert (
        "missing: a name for the column 'hours-per-week', names for the decisions 0, 1." in message
    )
    assert "a name for the column 'hours-per-week'." in refused(explainer, answers, texts)
    frame = pd.DataFrame({"job": ["A1", "A2", "A1", "A2"], "rooms": [1, 2, 4, 2]})
    frame["owner"] = [0, 1, 0, 1]
    prepare = make_column_transformer((OneHotEncoder(), ["job", "rooms"]), remainder="passthrough")
    model = make_pipeline(prepare, LogisticRegression()).fit(frame, ["no", "yes", "no", "yes"])
    explainer = cp.Explainer(model, data=frame)
    message = refused(explainer, explainer.explain(frame, "yes"))
    assert "values 'A1', 'A2' of 'job', names for the values '0', '1' of 'owner'." in message
    fixed = cp.Explainer(model, data=frame, constraints=cp.Immutable("job", "owner"))
    assert write_letters(fixed, fixed.explain(frame, "yes"))  # which letters never name


def test_a_draft_lists_all_that_is_asked_for_and_can_be_read(tmp_path: Path):
    explainer, _ = hours()
    path = tmp_path / "texts.toml"
    path.write_text(draft(explainer))
    answers = explainer.explain(pd.DataFrame({"hours-per-week": [40]}), 1)
    assert "a name for the column 'hours-per-week', names for" in refused(explainer, answers, path)
    filled = draft(explainer).replace('name = ""', 'name = "hours"')
    path.write_text(filled.replace('"0" = ""', '"0" = "no"').replace('"1" = ""', '"1" = "yes"'))
    (told,) = write_letters(explainer, answers, path)
    assert "Raise hours from 40 to at least 41." in told.text
    frame = pd.DataFrame({'a "b"': ["A1", "A2"] * 2, "c.d": [1.0, 2.0, 3.0, 4.0]})
    prepare = make_column_transformer((OneHotEncoder(), ['a "b"']), remainder="passthrough")
    other = make_pipeline(prepare, LogisticRegression()).fit(frame, ["no", "yes"] * 2)
    path.write_text(draft(cp.Explainer(other, data=frame)))
    assert {*Texts.load(path).features} == {*frame}


def test_the_keys_of_a_draft_hold_any_character(tmp_path: Path):
    odd = ["🏠", "é", 'a "b" \\', "\x7f", "\t\n\x00\x85\u2028"]
    frame = pd.DataFrame({"a 🏠": odd, "n": range(5)})
    prepare = make_column_transformer((OneHotEncoder(), ["a 🏠"]), remainder="passthrough")
    model = make_pipeline(prepare, LogisticRegression()).fit(frame, ["🏠 no", "yes"] * 2 + ["yes"])
    path = tmp_path / "texts.toml"
    path.write_text(draft(cp.Explainer(model, data=frame)), encoding="utf-8")
    texts = Texts.load(path)
    assert {*texts.features["a 🏠"].values} == {*odd}
    assert {*texts.decisions} == {"🏠 no", "yes"}


# Parts and templates


def one(**options: Any) -> Letter:
    explainer, texts = hours(name="hours", plural=True, code="R1")
    texts = Texts(texts.features, texts.decisions, options.pop("texts_parts", {}))
    answers = explainer.explain(pd.DataFrame({"hours-per-week": [40]}), 1)
    return write_letters(explainer, answers, texts, **options)[0]


def test_parts_come_from_the_texts_and_the_call_in_the_order_of_a_letter():
    assert [*one().parts] == ["decision", "reasons", "ways", "checked", "rights"]
    told = one(
        texts_parts={"creditor": "A bank", "date": "some day", "signature": "Yours, a bank"},
        parts={"date": "4 March 2026", "rights": "", "salutation": ["Dear customer,"]},
    )
    assert [*told.parts] == [
        *("creditor", "date", "salutation", "decision", "reasons", "ways", "checked", "signature")
    ]
    assert told.text.startswith("A bank\n\n4 March 2026\n\nDear customer,\n\nThe model's")
    assert told.text.endswith("Yours, a bank")


def test_html_stands_alone_and_escapes_what_is_filled_in():
    told = one(parts={"signature": "A & B <bank>", "reference": "No. 7"})
    assert told.html.startswith('<!doctype html>\n<html lang="en">')
    assert "A &amp; B &lt;bank&gt;" in told.html
    assert "<ol><li>R1 Your hours are too low (40)</li></ol>" in told.html
    assert "<title>No. 7</title>" in told.html


TEMPLATE = """{{ creditor }}: {{ decision }}
{% for reason in reasons %}
* {{ reason.code }}: {{ reason.text }}
{% endfor %}
{{ outcome }} {{ ways[0][0] }}"""


def test_a_template_of_ones_own_has_all_parts(tmp_path: Path):
    expected = (
        "A & B: The model's decision: declined.\n* R1: Your hours are too low (40)\n"
        "With this change, the decision would be granted: Raise hours from 40 to at least 41."
    )
    assert one(template=TEMPLATE, parts={"creditor": "A & B"}).text == expected
    path = tmp_path / "letter.html"
    path.write_text(TEMPLATE)
    assert one(template=path, parts={"creditor": "A & B"}).text.startswith("A &amp; B:")
    assert one(template="{{ branch }} {{ date is defined }}", parts={"branch": "x"}).text == (
        "x False"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"template": "{{ creditor }}"}, "'creditor' is undefined. It may use checked, decision"),
        ({"template": "a\n{% if %}"}, "the template, line 2:"),
        ({"template": "{{ ''.__class__.__mro__ }}"}, "the template"),
        ({"template": "{{ range(10**9) }}"}, "cannot be filled in"),
        ({"template": "{% include 'other' %}"}, "the template cannot be filled in"),
        ({"template": 3}, "a path or as text"),
        ({"parts": {"creditr": "x"}}, "no part 'creditr'; expected creditor"),
        ({"parts": {"creditor": ["x", "y"]}}, "one for each of 1 letters"),
        ({"parts": "x"}, "from names to texts"),
        ({"language": Path("nowhere.xml")}, "a .toml file like theirs"),
    ],
)
def test_parts_and_templates_that_do_not_fit_are_refused(options: dict[str, Any], said: str):
    with pytest.raises(cp.InvalidInput, match=re.escape(said)):
        one(**options)


def test_the_languages_have_the_same_words_and_a_file_may_replace_them(tmp_path: Path):
    folder = Path(str(package.__file__)).parent / "languages"
    english, german = (tomllib.loads((folder / f"{n}.toml").read_text()) for n in ("en", "de"))
    assert {k: [*v] for k, v in english.items()} == {k: [*v] for k, v in german.items()}
    path = tmp_path / "plain.toml"
    path.write_text((folder / "en.toml").read_text().replace("too low", "not enough"))
    assert one(language=path).reasons[0].text == "Your hours are not enough (40)"
    path.write_text("layout = []")
    with pytest.raises(cp.InvalidInput, match=r"plain\.toml: expected all the words"):
        one(language=path)


# Columns that must not decide


PROTECTED = cp.Immutable("age", protected=True)


def aged(*constraints: cp.Constraint, weight: float = 20.0) -> cp.Explainer:
    """Granted if 2 · income + weight · (age − 40) >= 1000; ages are 30, 40 and 50 in the data."""
    explainer = credit()
    model = explainer.model
    model.coef_ = np.array([[2.0, 0.0, weight]])
    model.intercept_ = np.array([-1000.0 - 40.0 * weight])
    return cp.Explainer(model, data=FRAME, constraints=[PROTECTED, *constraints])


@pytest.mark.parametrize(
    ("cells", "weight", "said"),
    [
        # lacks 2 · 300 − 200 − 1000 = −600, a third of it by age 30 and not 40; 50 is not enough
        (
            {},
            20.0,
            "this makes up 33 % of what is missing. No other values of age that the data",
        ),
        (
            {"income": 460.0},
            20.0,
            "this makes up 71 % of what is missing. With other values of age alone, the decision",
        ),
        (
            {"income": 520.0},
            20.0,
            "this makes up more than what is missing. With other values of age alone",
        ),
        ({"age": 50.0}, 20.0, "this counts in your favour. No other values of age"),
        ({}, 0.1, "this makes up less than 1 % of what is missing. No other values of age"),
        ({"age": 40.0}, 20.0, ""),
        ({"age": 40.0, "income": 460.0}, 20.0, "which must not decide. With other values of age"),
        ({}, 0.0, ""),
    ],
)
def test_letters_say_where_the_score_depends_on_protected_columns(
    cells: dict[str, float], weight: float, said: str
):
    explainer = aged(cp.Immutable("debt"), weight=weight)
    (told,) = write_letters(explainer, explainer.explain(row(**cells), 1), TEXTS)
    protected = "".join(map(str, told.parts.get("protected", ())))
    assert said in protected
    assert bool(protected) == bool(said)
    assert not protected or protected.startswith("The model's score depends on age, which must")


def test_only_protected_columns_that_count_are_named():
    frame = FRAME.assign(sex=["f", "m", "f"], single=[0, 1, 1], job=["a", "b", "c"])
    words = ["sex", "job"]
    prepare = make_column_transformer((OneHotEncoder(), words), remainder="passthrough")
    model = make_pipeline(prepare, LogisticRegression()).fit(frame, [0, 1, 0])
    texts = Texts({"income": Wording()}, TEXTS.decisions)
    weights = {"sex": 40.0, "job": 30.0, "income": 2.0, "age": 20.0, "single": 10.0}
    blocks = {"sex": [0, 1], "job": [2, 3, 4], "income": [5], "age": [7], "single": [8]}

    def protected(*names: str) -> str:
        model[-1].coef_, model[-1].intercept_ = np.zeros((1, 9)), np.array([-2000.0])
        for name in ("income", *names):
            block = blocks[name]
            model[-1].coef_[0, block] = weights[name] * np.arange(1.0, len(block) + 1.0)
        rule = cp.Immutable("age", "sex", "single", "job", protected=True)
        explainer = cp.Explainer(model, data=frame, constraints=[rule, cp.Immutable("debt")])
        answers = explainer.explain(frame.head(1), 1)
        return str(write_letters(explainer, answers, texts)[0].parts["protected"][0])

    assert protected("age").startswith("The model's score depends on age, which must not decide.")
    assert "depends on sex and age, which" not in protected("age", "sex")
    assert "depends on age and sex, which" in protected("age", "sex")
    several = protected("age", "sex", "job")
    assert "depends on age, sex and job, which" in several
    assert "No other values of these that the data show would change the decision by" in several


def test_a_conflict_over_a_protected_column_names_it():
    explainer = aged(cp.Immutable("debt"), cp.Bounds("income", rise=1.0))
    (told,) = write_letters(explainer, explainer.explain(row(income=520.0), 1), TEXTS)
    assert told.status is cp.Status.INFEASIBLE
    assert "depends on age, which must not decide" in told.text
    granted = write_letters(explainer, explainer.explain(row(income=900.0), 1), TEXTS)[0]
    assert "protected" not in granted.parts
    (told,) = write_letters(
        explainer, explainer.explain(row(income=520.0), 1), TEXTS, language="de"
    )
    assert "Angaben ab, die nicht entscheiden dürfen: age. Verglichen" in told.text
    frame = pd.DataFrame({"age": [30.0, 40.0, 50.0], "pay": [1.0, 2.0, 3.0]})
    regressor = LinearRegression().fit(frame, [1.0, 3.0, 2.0])
    valued = cp.Explainer(regressor, data=frame, constraints=PROTECTED)
    (told,) = write_letters(valued, valued.explain(frame.head(1), cp.Interval(low=1.5)))
    assert "The model's prediction depends on age, which must not decide." in told.text
    bare = credit(cp.Immutable("age"))
    with pytest.raises(cp.InvalidInput, match="Pass data= to the Explainer"):
        write_letters(bare, bare.explain(row(), 1), TEXTS, protected=["age"])


# Bad input


def refused(*args: Any, **options: Any) -> str:
    with pytest.raises(cp.InvalidInput) as error:
        write_letters(*args, **options)
    return str(error.value)


def test_bad_input_is_named():
    explainer = credit(cp.Immutable("age"))
    answers = explainer.explain(row(), 1)
    only = Texts({"income": Wording()})
    assert "there is none for 'debt'" in refused(explainer, answers, only)
    wrong = Texts({**TEXTS.features, "incme": Wording()})
    assert "did you mean 'income'" in refused(explainer, answers, wrong)
    assert "cp.Immutable('debt')" in refused(explainer, answers, protected=["age", "debt"])
    assert "'de', 'en'" in refused(explainer, answers, language="fr")
    traded = explainer.explain(row(), cp.Tradeoff(1, 0.1))
    assert "A Tradeoff demands no decision" in refused(explainer, traded)
    other = cp.Explainer(
        LogisticRegression().fit([[0.0], [1.0]], [0, 1]), cost=cp.Manhattan({"x0": 1.0})
    )
    assert "the explainer that gave these answers" in refused(other, answers)
    assert "Expected Texts" in refused(explainer, answers, 3)
    with pytest.raises(cp.InvalidInput, match="several to one row"):
        letter(explainer, [])


@pytest.mark.parametrize("wrong", [2.0, True, False, -1, 13, "2", [2], np.array([2, 3]), np.nan])
def test_decimals_are_a_whole_number(wrong: Any):
    with pytest.raises(cp.InvalidInput, match="a whole number of decimals from 0 to 12; got"):
        Wording(decimals=wrong)
    with pytest.raises(cp.InvalidInput, match="a positive scale; got None"):
        Wording(scale=None)  # type: ignore[arg-type]


def test_decimals_may_be_a_whole_number_of_numpy():
    texts = [hours(name="hours", decimals=decimals)[1] for decimals in (2, np.int64(2))]
    explainer, X = hours()[0], pd.DataFrame({"hours-per-week": [40]})
    (plain,), (numpy,) = (write_letters(explainer, explainer.explain(X, 1), t) for t in texts)
    assert "from 40.00 to" in plain.text
    assert plain == numpy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[features.x]\nunits = 'kg'", "features, x: expected code"),
        ("[features.x]\nstep = 0", "features, x: Expected a positive step"),
        ("[features.x]\ndecimals = 99", "decimals from 0 to 12"),
        ("[features.x]\ndecimals = 2.0", "decimals from 0 to 12; got 2.0"),
        ("[features.x]\ncode = 3", "Expected text as code"),
        ("[features.x]\nvalues = {a = 1}", "from text to text"),
        ("[feature.x]\ncode = 'R1'", "expected tables"),
        ("features = 3", "expected tables"),
        ("x", "is not valid TOML"),
    ],
)
def test_texts_that_cannot_be_read_say_where(tmp_path: Path, text: str, said: str):
    path = tmp_path / "texts.toml"
    path.write_text(text)
    with pytest.raises(cp.InvalidInput, match=said):
        Texts.load(path)


# The command line


def test_letters_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"income": rng.normal(50, 9, 60).round(1), "age": rng.integers(20, 60, 60)}
    )
    model = LogisticRegression().fit(frame, np.where(frame["income"] > 50, "yes", "no"))
    skops.io.dump(model, "model.skops")
    frame.to_csv("rows.csv", index=False)
    Path("texts.toml").write_text("[features.income]\ncode = 'R1'\nstep = 1\n")
    call = ["letter", "model.skops", "rows.csv", "--target", "yes", "--data", "rows.csv"]
    refuse = CliRunner().invoke(app, [*call, "--texts", "texts.toml"])
    assert refuse.exit_code == 2
    assert "there is none for 'age'" in refuse.stderr
    Path("policy.toml").write_text("constraints = [{kind = 'immutable', features = ['age']}]\n")
    call += ["--texts", "texts.toml", "--spec", "policy.toml", "--protected", "age"]
    low = int(np.flatnonzero(model.predict(frame) == "no")[0])
    shown = CliRunner().invoke(app, [*call, "--row", str(low), "--language", "de"])
    assert shown.exit_code == 0, shown.output
    assert "1. R1 Income zu niedrig (" in shown.stdout
    framed = CliRunner().invoke(app, [*call, "--row", str(low), "--part", "date=4 March"])
    assert framed.stdout.startswith(f"Row {low}\n\n4 March\n\nThe model's decision")
    assert "--part NAME=TEXT" in CliRunner().invoke(app, [*call, "--part", "date"]).stderr
    page = CliRunner().invoke(app, [*call, "--row", str(low), "--html"])
    assert page.stdout.startswith("<!doctype html>")
    Path("own.txt").write_text("{{ decision }} {{ status }}")
    own = CliRunner().invoke(app, [*call, "--row", str(low), "--template", "own.txt"])
    assert 'The model\'s decision: "no". optimal' in own.stdout
    both = CliRunner().invoke(app, [*call, "--template", "own.txt", "--html"])
    assert "pass it, or --template" in both.stderr
    drafted = CliRunner().invoke(app, [*call, "--draft", "draft.toml"])
    assert (drafted.exit_code, "[features.income]" in Path("draft.toml").read_text()) == (0, True)
    again = CliRunner().invoke(app, [*call, "--draft", "draft.toml"])
    assert (again.exit_code, "is there already" in again.stderr) == (2, True)
    written = CliRunner().invoke(app, [*call, "--out", "letters.jsonl"])
    assert written.exit_code == 0, written.output
    lines = pd.read_json("letters.jsonl", lines=True)
    assert len(lines) == len(frame)
    assert {*lines["codes"]} == {"", "R1"}
    outside = CliRunner().invoke(app, [*call, "--row", "99"])
    assert (outside.exit_code, "no row 99" in outside.stderr) == (2, True)
