"""Letters: rounded advice holds for the model itself, reasons follow the optimum, words fit."""

from __future__ import annotations

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
from counterpoint.cli import app
from counterpoint.letters import Letter, Texts, Wording, letter, write_letters


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
    texts = Texts({n: Wording(step=CREDIT.get(n)) for n in german})
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
    texts = Texts({n: Wording(step=BURDEN.get(n)) for n in heloc})
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
    assert told.sentences[0]["income"] == ("Raise yearly income from 312 EUR to at least 600 EUR.")
    assert told.reasons[0][:3] == ("income", "R1", "Yearly income is too low")
    assert str(told) == (
        "The model's decision: declined.\n\nPrincipal reasons:\n  1. R1 Yearly income is too low\n"
        "\nThe decision would be granted with this change:\n"
        "  - Raise yearly income from 312 EUR to at least 600 EUR.\n\n"
        "These values, with all others as they are, were given to the model again: they lead to "
        "granted."
    )


def test_german_has_its_own_marks():
    explainer = credit(cp.Immutable("income", "age"))
    answer = explainer.explain(row(income=1201.0, debt=20.123), 1)[0]
    told = letter(explainer, answer, TEXTS, language="de")
    assert told.values == ({"debt": 14.0},)
    said = "Share of debt von 2.012,3 % auf höchstens 1.400 % senken."
    assert told.sentences[0]["debt"] == said
    assert "Die Entscheidung des Modells: declined." in told.text


def test_without_texts_advice_has_two_digits_of_the_change():
    explainer = credit(cp.Immutable("debt", "age"))
    answer = explainer.explain(row(income=313.7, debt=0.77), 1)[0]
    told = letter(explainer, answer)
    assert told.values[0] == {"income": 540.0}  # the boundary is at 538.5
    assert told.sentences[0]["income"] == "Raise income from 313.7 to at least 540."


def test_what_bounds_leave_no_room_to_round_is_given_exactly():
    explainer = credit(cp.Immutable("debt", "age"), cp.Bounds("income", high=555.0))
    answer = explainer.explain(row(debt=1.0), 1)[0]
    told = letter(explainer, answer, TEXTS)
    assert told.exact == (("income",),)
    assert told.values[0]["income"] == answer.row["income"]
    assert "(exactly; this number cannot be rounded)" in told.sentences[0]["income"]


def test_where_the_first_multiple_fails_the_next_is_taken_and_nothing_is_said_of_what_is_beyond():
    x = np.arange(0.0, 8.0, 0.05)
    y = ((x > 2.3) & (x < 2.4)) | ((x > 2.8) & (x < 5.0))
    frame = pd.DataFrame({"x": x})
    explainer = cp.Explainer(DecisionTreeClassifier().fit(frame, y), data=frame)
    told = letter(
        explainer, explainer.explain(frame.head(1), True)[0], Texts({"x": Wording(step=0.5)})
    )
    assert told.values == ({"x": 3.0},)
    assert told.sentences[0]["x"] == "Raise x from 0 to 3."


def test_numbers_that_do_not_round_together_are_rounded_one_by_one():
    together = cp.Linear({"income": 1.0, "debt": 100.0}, high=1120.0)
    explainer = credit(cp.Immutable("age"), together, cost=cp.SquaredEuclidean())
    answer = explainer.explain(row(income=900.0, debt=10.0), 1)[0]
    told = letter(explainer, answer, Texts({**TEXTS.features, "debt": Wording(step=1.0)}))
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
    for told in write_letters(explainer, explainer.explain(rows, True)):
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
    assert told.text.endswith("No change within the rules leads to granted.")
    frozen = credit(cp.Immutable("age", "debt", "income"))
    (told,) = write_letters(frozen, frozen.explain(row(), 1), TEXTS)
    assert "have to be stated by a person" in told.text


def test_rows_that_have_the_decision_or_cannot_be_used_say_so():
    explainer = credit()
    rows = pd.concat([row(income=900.0), row(income=np.nan), row()])
    kept, broken, open_ = write_letters(explainer, explainer.explain(rows, 1), TEXTS)
    assert kept.text == "The decision is already granted; nothing has to change."
    assert broken.text.startswith("The row cannot be used:")
    assert open_.values


def test_several_answers_are_several_ways():
    explainer = credit()
    found = explainer.explain(pd.concat([row(debt=3.0), row(debt=5.0)]), 1, n=2)
    both = write_letters(explainer, found, TEXTS)
    assert len(both) == 2
    assert len(both[0].values) == len(found[0]) > 1
    assert "Way 2:" in both[0].text
    assert letter(explainer, found[1], TEXTS) == both[1]


def test_missing_cells_and_categories_are_told():
    frame = pd.DataFrame({"job": ["a", "b"] * 20, "pay": [1.0, 2.0, 3.0, np.nan] * 10})
    prepare = make_column_transformer((OneHotEncoder(), ["job"]), (SimpleImputer(), ["pay"]))
    model = make_pipeline(prepare, LogisticRegression()).fit(frame, [0, 1, 0, 1] * 10)
    model[-1].coef_, model[-1].intercept_ = np.array([[0.0, 1.0, 2.0]]), np.array([-5.5])
    explainer = cp.Explainer(model, data=frame)
    rows = pd.DataFrame({"job": ["a"], "pay": [np.nan]})
    texts = Texts({"job": Wording(values={"a": "clerk", "b": "nurse"}), "pay": Wording(step=0.5)})
    pay = cp.Explainer(model, data=frame, constraints=cp.Immutable("job"))
    (told,) = write_letters(pay, pay.explain(rows, 1), texts)
    assert told.sentences[0]["pay"] == "State pay, which is missing: at least 3."
    assert told.reasons[0].text == "Pay is missing"
    job = cp.Explainer(model, data=frame, constraints=cp.Immutable("pay"))
    (told,) = write_letters(job, job.explain(rows.assign(pay=2.5), 1), texts)
    assert told.sentences[0]["job"] == "Change job from clerk to nurse."
    assert told.reasons[0].text == "Job is clerk"
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
    explainer = cp.Explainer(LinearRegression().fit(frame, frame["x"] / 2 + 1.03), data=frame)
    (told,) = write_letters(explainer, explainer.explain(frame.head(1), target))
    assert f"would be {said} with" in told.text
    assert ("at least 8" in told.sentences[0]["x"]) == (said == "at least 5")


def test_every_number_beyond_at_most_keeps_the_decision(german: pd.DataFrame):
    labels = german.pop("GoodCustomer")
    german = german.select_dtypes("number")
    model = LogisticRegression(max_iter=5000).fit(german, labels)
    explainer = cp.Explainer(model, data=german, cost=cp.Manhattan())
    rows = german[model.predict(german) == -1].head(3)
    letters = write_letters(explainer, explainer.explain(rows, 1))
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
    assert "'en', 'de'" in refused(explainer, answers, language="fr")
    traded = explainer.explain(row(), cp.Tradeoff(1, 0.1))
    assert "A Tradeoff demands no decision" in refused(explainer, traded)
    other = cp.Explainer(
        LogisticRegression().fit([[0.0], [1.0]], [0, 1]), cost=cp.Manhattan({"x0": 1.0})
    )
    assert "the explainer that gave these answers" in refused(other, answers)
    assert "Expected Texts" in refused(explainer, answers, 3)
    with pytest.raises(cp.InvalidInput, match="several to one row"):
        letter(explainer, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[features.x]\nunits = 'kg'", "features, x: expected code"),
        ("[features.x]\nstep = 0", "features, x: Expected a positive step"),
        ("[features.x]\ndecimals = 99", "decimals from 0 to 12"),
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
    assert "1. R1 Income zu niedrig" in shown.stdout
    written = CliRunner().invoke(app, [*call, "--out", "letters.jsonl"])
    assert written.exit_code == 0, written.output
    lines = pd.read_json("letters.jsonl", lines=True)
    assert len(lines) == len(frame)
    assert {*lines["codes"]} == {"", "R1"}
    outside = CliRunner().invoke(app, [*call, "--row", "99"])
    assert (outside.exit_code, "no row 99" in outside.stderr) == (2, True)
