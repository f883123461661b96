"""The command line: what it prints where, what it writes, how it exits."""

from __future__ import annotations

import inspect
import json
import pickle
import re
import subprocess
import sys
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pytest
import skops.io
import typer
from loans import loan_model, loans
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from typer.testing import CliRunner, Result

import counterpoint as cp
import counterpoint.lvq
from counterpoint.cli import COMMANDS, EXAMPLES, app, main
from counterpoint.cli.answers import plain
from counterpoint.cli.files import read_rows, with_formulas, write
from counterpoint.cli.model_files import Trust
from counterpoint.cli.options import SearchEffort, sections_of
from counterpoint.cli.question import Question, Source, Wish
from counterpoint.privacy import PrivateSVC
from counterpoint.records.record import canonical, digest

POLICY = """\
target = "granted"
constraints = [
    { kind = "immutable", features = ["age"] },
    { kind = "bounds", feature = "income", rise = 5000 },
]
"""
ASK = ["explain", "loan.skops", "rows.csv", "--data", "train.csv"]
GRANTED = [*ASK, "--target", "granted"]


def odd_tables(at: Path, rows: pd.DataFrame) -> None:
    """Tables as other programs write them, and others that are none."""
    (at / "empty.csv").write_text("")
    (at / "list.jsonl").write_text("[1]\n")
    (at / "blank.jsonl").write_text("\n")
    rows.to_csv(at / "semicolons.csv", sep=";", decimal=",", index=False)
    rows.to_csv(at / "tabs.csv", sep="\t", index=False)
    rows.to_csv(at / "UPPER.CSV", index=False)
    rows.assign(home="Müllheim").to_csv(at / "latin.csv", index=False, encoding="latin-1")
    (at / "long.csv").write_text("age,income,home\n1,2,rent,3\n")
    (at / "ragged.csv").write_text("age,income,home\n1,2,rent\n1,2,rent,3\n")
    (at / "rows.xlsx").write_bytes(b"PK")
    commas = rows["income"].map(lambda value: f"{value:.2f}".replace(".", ","))
    rows.assign(income=commas).to_csv(at / "commas.csv", index=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, rows and policies; no test changes what is in it."""
    at = tmp_path_factory.mktemp("loans")
    X, y = loans()
    model = loan_model()
    numbers = X[["age", "income"]]
    skops.io.dump(model, at / "loan.skops")
    skops.io.dump(LogisticRegression(max_iter=1000).fit(numbers, y == "granted"), at / "01.skops")
    skops.io.dump(LinearRegression().fit(numbers[["age"]], X["income"]), at / "income.skops")
    skops.io.dump(KNeighborsClassifier(algorithm="brute").fit(numbers, y), at / "nearest.skops")
    skops.io.dump(LogisticRegression(), at / "unfitted.skops")
    odd = make_pipeline(FunctionTransformer(func=loans), LogisticRegression())
    skops.io.dump(odd, at / "odd.skops")
    (at / "loan.pkl").write_bytes(pickle.dumps(model))
    (at / "model.onnx").write_bytes(b"onnx")
    (at / "broken.skops").write_bytes(b"no zip")
    (at / "broken.pkl").write_bytes(b"no pickle")
    X.to_csv(at / "train.csv", index=False)
    rows = X[model.predict(X) == "refused"].head(6).assign(customer=list("abcdef"))
    rows.to_csv(at / "rows.csv", index=False)
    rows.to_parquet(at / "rows.parquet")
    rows.to_json(at / "rows.jsonl", orient="records", lines=True)
    rows.head(0).to_csv(at / "none.csv", index=False)
    gap = rows.astype({"income": object})
    gap.iloc[1, 1] = None
    gap.to_csv(at / "gaps.csv", index=False)
    rows.assign(cf_status="?").to_csv(at / "taken.csv", index=False)
    rows.drop(columns="income").to_csv(at / "short.csv", index=False)
    odd_tables(at, rows)
    labels = np.where(y == "granted", "over 50K", "at most 50K")
    skops.io.dump(LogisticRegression(max_iter=1000).fit(numbers, labels), at / "spaced.skops")
    (at / "bad.jsonl").write_text('{"age": 1}\n{"age": \n')
    (at / "bad.parquet").write_bytes(b"no parquet")
    (at / "deep.jsonl").write_text('{"a":' + "[" * 100_000)
    (at / "deep.json").write_text("[" * 100_000)
    (at / "deep.toml").write_text("x = " + "[" * 5000)
    damaged = loan_model()
    damaged[-1].coef_ = np.array([["a", "b", "c", "d"]])
    skops.io.dump(damaged, at / "coef.skops")
    large = loan_model()
    large[-1].coef_ = np.zeros((1, 20_000_000))
    skops.io.dump(large, at / "large.skops", compression=ZIP_DEFLATED)
    listed = (
        '{"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": ['
    )
    for name, schema in {"deep": "[" * 100_000, "lists": listed * 300 + "]}" * 300}.items():
        with ZipFile(at / f"{name}.skops", "w") as file:
            file.writestr("schema.json", schema)
    (at / "loan.toml").write_text(POLICY)
    (at / "fixed.toml").write_text('constraints = [{ kind = "immutable", features = ["income"] }]')
    (at / "typo.toml").write_text('constraints = [{ kind = "immutable", features = ["incom"] }]')
    (at / "bad.toml").write_text("target =")
    (at / "cost.toml").write_text('[cost]\nkind = "manhattan"\nweights = { income = 0.001 }')
    return at


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COUNTERPOINT_DATA", raising=False)


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


# Starting


def test_the_commands_are_one_program():
    command = [sys.executable, "-m", "counterpoint", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == f"counterpoint {cp.__version__}\n"
    assert not ran.stderr


def test_an_error_is_a_sentence_and_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["counterpoint", "inspect", "broken.skops"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.startswith("Error: broken.skops is not a readable skops file: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("command", [[], ["demo"], ["inspect"], ["explain"]])
def test_help_tells_the_exit_codes(command: list[str]):
    text = " ".join(run(*command, "--help").stdout.split())
    assert "0 every row has an answer; 2 wrong usage or input; 3 some rows have no answer" in text


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_command_can_be_called(name: str):
    """Its options are there, and its help shows it."""
    program, command, *arguments = EXAMPLES[name].split()
    assert (program, command) == ("counterpoint", name)
    commands = typer.main.get_command(app).commands
    assert EXAMPLES.keys() == commands.keys()
    commands[name].make_context(name, arguments)
    assert EXAMPLES[name] in " ".join(run(name, "--help").stdout.split())


@pytest.mark.parametrize("command", [*COMMANDS, SearchEffort, Question, Source, Trust, Wish])
def test_docstrings_tell_of_all_options_and_of_no_others(command: Any):
    _, sections = sections_of(command)
    sections.pop("Examples", None)
    told = re.findall(r"^(\w+)", "\n".join(sections.values()), re.MULTILINE)
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    names = [p.name for p in parameters if not is_dataclass(p.annotation)]
    assert sorted(told) == sorted(names)


# Explaining


def test_a_report_for_people():
    result = run(*GRANTED, "--show", "2")
    lines = result.stdout.splitlines()
    assert lines[0] == "Row 0: optimal"
    assert "│ feature" in result.stdout
    assert "the cheapest possible change costs" in result.stdout
    assert "and 4 more rows (--show, --out)" in lines
    assert "6 rows: 6 optimal" in lines
    assert lines[-2].startswith("time: ")
    assert lines[-1] == "Numbers above are in few digits; --exact shows all of them."
    assert not result.stderr
    assert "\x1b" not in result.stdout
    assert max(map(len, lines)) <= 80


def test_numbers_are_shown_in_few_digits_with_which_the_model_agrees():
    def incomes(*options: str) -> list[float]:
        lines = run(*GRANTED, *options).stdout.splitlines()
        return [float(line.split()[5]) for line in lines if line.startswith("│ income")]

    rows, model = pd.read_csv("rows.csv"), loan_model()
    answers = answers_in_python()
    few, exact = incomes("--show", "6"), incomes("--show", "6", "--exact")
    moved = np.flatnonzero(answers["income"] != rows["income"])
    assert exact == answers["income"].iloc[moved].tolist()
    assert len(few) == len(moved) > 0
    assert all(len(f"{income:.15g}".strip("0")) <= 5 for income in few)
    shown = rows.iloc[moved].assign(income=few, home=answers["home"].iloc[moved])
    shown["age"] = answers["age"].iloc[moved]
    assert set(model.predict(shown)) == {"granted"}


def test_an_answer_after_the_first_is_the_cheapest_that_differs():
    told = run(*GRANTED, "--alternatives", "2", "--show", "6", "--exact").stdout
    assert ": the cheapest possible change (proved)" in told
    assert ": the cheapest that differs so (proved)" in told


def test_a_row_without_an_answer_says_where_to_find_why():
    asked = [*GRANTED, "--spec", "fixed.toml", "--show", "1"]
    assert "--reasons says why there is no answer." in run(*asked, code=3).stdout
    assert "--reasons says" not in run(*asked, "--reasons", code=3).stdout


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_rows_of_every_format_are_the_same_rows(suffix: str, tmp_path: Path):
    out = tmp_path / "answers.csv"
    arguments = ["--data", "train.csv", "--target", "granted", "--out", out]
    run("explain", "loan.skops", f"rows{suffix}", *arguments)
    pd.testing.assert_frame_equal(pd.read_csv(out), answers_in_python())


def test_texts_of_json_lines_hold_any_character(tmp_path: Path):
    rows = pd.read_csv("rows.csv").assign(customer="a\u2028b\u2029c\x85d\n\re")
    write(tmp_path / "rows.jsonl", lambda: rows)
    pd.testing.assert_frame_equal(read_rows(tmp_path / "rows.jsonl"), rows)
    (tmp_path / "windows.jsonl").write_bytes(b'{"a": 1}\r\n\r\n{"a": 2}\r\n')
    assert read_rows(tmp_path / "windows.jsonl")["a"].tolist() == [1, 2]


def answers_in_python() -> pd.DataFrame:
    rows, train = pd.read_csv("rows.csv"), pd.read_csv("train.csv")
    model = skops.io.load("loan.skops")
    answers = cp.explain(model, rows, "granted", data=train)
    report = answers.report(row=np.arange(len(rows)))
    words = report.select_dtypes("category").columns  # text, as a file has them
    report = report.astype(dict.fromkeys(words, "str"))
    report["changes"] = [
        "; ".join(f"{name}: {old} -> {new}" for name, (old, new) in answer.changes.items())
        for answer in answers
    ]
    return pd.concat([answers.to_frame(), report.add_prefix("cf_")], axis=1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_answers_has_a_line_for_every_row(suffix: str, tmp_path: Path):
    out = tmp_path / f"answers{suffix}"
    arguments = ["--data", "train.csv", "--target", "granted", "--out", out]
    result = run("explain", "loan.skops", "gaps.csv", *arguments, code=3)
    assert not result.stdout
    assert result.stderr.startswith(f"Wrote 6 rows to {out} (")
    table = pd.read_csv(out) if suffix == ".csv" else pd.read_parquet(out)
    assert table["customer"].tolist() == list("abcdef")
    assert table["cf_status"].tolist() == ["optimal", "invalid", *["optimal"] * 4]
    assert (
        table["cf_message"][1]
        == "column 'income' is missing; expected a finite number. Fill it in."
    )
    assert table.loc[1, ["age", "income", "home"]].isna().all()
    assert table["income"].notna().sum() == 5
    if suffix == ".csv":
        assert "." not in out.read_text().splitlines()[1].split(",")[0]  # ages stay whole
    else:
        assert table["age"].dtype == "Int64"
    assert list(tmp_path.iterdir()) == [out]


def test_lines_of_json(tmp_path: Path):
    arguments = ["explain", "loan.skops", "gaps.csv", "--data", "train.csv", "--spec", "loan.toml"]
    to_stdout = run(*arguments, "--out", "-", "--reasons", code=3)
    run(*arguments, "--out", tmp_path / "answers.jsonl", "--reasons", code=3)
    assert (tmp_path / "answers.jsonl").read_text() == to_stdout.stdout
    lines = [json.loads(line) for line in to_stdout.stdout.splitlines()]
    assert [line["row"] for line in lines] == list(range(6))
    for line in lines:
        assert set(line) - {"reason"} == {"row", "status", "message", "changes", "certificate"}
        assert set(line["certificate"]) == {
            *("claim", "valid", "cost", "objective", "bound", "gap"),
            *("margin", "rounding", "on_edge", "probability", "guarantee", "violation"),
        }
        assert ("reason" in line) == (line["status"] == "infeasible")
    assert {"optimal", "infeasible", "invalid"} <= {line["status"] for line in lines}
    found = next(line for line in lines if line["status"] == "optimal")
    assert all(set(change) == {"from", "to"} for change in found["changes"].values())
    hopeless = next(line for line in lines if line["status"] == "infeasible")
    assert hopeless["certificate"]["bound"] is None
    assert hopeless["reason"]["constraints"]


def test_a_cell_that_was_missing_is_null_in_json(tmp_path: Path):
    X, y = loans()
    numbers = X[["age", "income"]].astype(float)
    numbers.iloc[::5] = np.nan
    model = make_pipeline(SimpleImputer(), LogisticRegression(max_iter=1000)).fit(numbers, y)
    skops.io.dump(model, tmp_path / "m.skops")
    numbers.head(1).to_csv(tmp_path / "gap.csv", index=False)
    asked = ["explain", tmp_path / "m.skops", tmp_path / "gap.csv", *DATA[:2], "--other"]
    line = json.loads(run(*asked, "--out", "-").stdout, parse_constant=pytest.fail)
    assert any(change["from"] is None for change in line["changes"].values())


def test_reasons(tmp_path: Path):
    spec = ["--spec", "loan.toml"]
    assert "exclude every answer" not in run(*ASK, *spec, code=3).stdout
    assert "exclude every answer" in run(*ASK, *spec, "--reasons", code=3).stdout
    run(*ASK, *spec, "--reasons", "--out", tmp_path / "a.csv", code=3)
    table = pd.read_csv(tmp_path / "a.csv")
    assert (table["cf_reason"].notna() == (table["cf_status"] == "infeasible")).all()


def test_targets(tmp_path: Path):
    out = tmp_path / "a.csv"
    run(*ASK, "--other", "--margin", "0.5", "--out", out)
    farther = pd.read_csv(out)["cf_cost"]
    run(*ASK, "--other", "--out", out)
    assert (farther > pd.read_csv(out)["cf_cost"]).all()
    run(*GRANTED, "--probability", "0.9", "--out", out)
    share = skops.io.load("loan.skops").predict_proba(pd.read_csv(out)[["age", "income", "home"]])
    assert (share[:, 0] >= 0.9).all()
    for text in ("True", "1"):
        data = ["--data", "train.csv", "--target", text]
        run("explain", "01.skops", "rows.csv", *data, "--out", out, code=2 if text == "1" else 0)


def test_several_answers_to_a_row(tmp_path: Path):
    several = [*GRANTED, "--extrapolate", "--alternatives", "2"]
    shown = run(*several, "--show", "1").stdout
    assert "Row 0, answer 1 of 2: optimal" in shown
    assert "Row 0, answer 2 of 2: optimal" in shown
    assert "Row 1" not in shown
    assert "6 rows: 6 rows with 2 answers" in shown
    run(*several, "--out", tmp_path / "answers.csv")
    table = pd.read_csv(tmp_path / "answers.csv")
    assert table["cf_row"].tolist() == np.repeat(np.arange(6), 2).tolist()
    assert table["cf_rank"].tolist() == [0, 1] * 6
    assert table["customer"].tolist() == list("aabbccddeeff")
    lines = run(*several, "--differ", "disjoint", "--out", "-").stdout.splitlines()
    first, second = (json.loads(line) for line in lines[:2])
    assert (first["row"], first["rank"], second["row"], second["rank"]) == (0, 0, 0, 1)
    assert not set(first["changes"]) & set(second["changes"])


def test_one_of_several_labels(tmp_path: Path):
    X, y = loans()
    three = np.where(X["home"] == "own", y, "open")
    model = LogisticRegression(max_iter=1000).fit(X[["age"]], three)
    skops.io.dump(model, tmp_path / "three.skops")
    out = tmp_path / "a.csv"
    two = ["--extrapolate", "--target", "granted", "--target", "refused"]
    run("explain", tmp_path / "three.skops", "rows.csv", "--data", "train.csv", *two, "--out", out)
    assert set(model.predict(pd.read_csv(out)[["age"]])) <= {"granted", "refused"}


def test_an_interval_for_a_regressor(tmp_path: Path):
    out = tmp_path / "a.csv"
    run("explain", "income.skops", "rows.csv", "--data", "train.csv", "--low", "4e4", "--out", out)
    ages = pd.read_csv(out)[["age"]]
    assert (skops.io.load("income.skops").predict(ages) >= 4e4).all()


def test_a_label_that_is_a_number(tmp_path: Path):
    X, y = loans()
    codes = np.where(y == "granted", 1, -1)
    skops.io.dump(LogisticRegression(max_iter=1000).fit(X[["age"]], codes), tmp_path / "m.skops")
    for text in ("1", "1.0", "-1"):
        data = ["--data", "train.csv", f"--target={text}"]
        run("explain", tmp_path / "m.skops", "rows.csv", *data)


def test_every_command_takes_every_target():
    run("letter", *GRANTED[1:], "--probability", "0.9")
    for command in ("audit", "letter"):
        said = run(command, *GRANTED[1:], "--low", "1", code=2).stderr
        assert said == "Error: Expected one target; got --target and --low or --high. Keep one.\n"


def test_the_target_of_the_options_goes_before_that_of_the_file():
    assert "6 already" in run(*ASK, "--spec", "loan.toml", "--target", "refused").stdout


def test_a_cost_in_the_file_makes_data_unnecessary():
    run("explain", "loan.skops", "rows.csv", "--spec", "cost.toml", "--target", "granted")


def test_no_rows_are_no_mistake():
    arguments = ["--data", "train.csv", "--target", "granted"]
    assert "0 rows: none" in run("explain", "loan.skops", "none.csv", *arguments).stdout


def test_time_that_runs_out():
    run(*GRANTED, "--time-limit", "60", "--gap", "0.1", "--optimality", "global")


# Models


def test_a_pickle_is_loaded_only_if_it_is_trusted():
    asked = ["explain", "loan.pkl", "rows.csv", "--data", "train.csv", "--target", "granted"]
    assert "can run any program" in run(*asked, code=2).stderr
    run(*asked, "--trust-pickle")


@pytest.mark.parametrize("search", [False, True])
def test_imputers_and_searches_need_no_trust(tmp_path: Path, search: bool):
    X, y = loans()
    model = make_pipeline(SimpleImputer(), LogisticRegression(max_iter=1000))
    if search:
        model = GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, cv=2)
    skops.io.dump(model.fit(X[["age", "income"]], y), tmp_path / "m.skops")
    run("explain", tmp_path / "m.skops", "rows.csv", *DATA, "--target", "granted")


@pytest.mark.parametrize("prepared", [False, True])
def test_a_model_that_nobody_reads_is_refused_before_trust_is_asked_for(
    tmp_path: Path, prepared: bool
):
    X, y = loans()
    network = MLPClassifier(2, tol=1e3)
    model = make_pipeline(StandardScaler(), network) if prepared else network
    skops.io.dump(model.fit(X[["age", "income"]], y), tmp_path / "network.skops")
    said = run("inspect", tmp_path / "network.skops", code=4).stderr
    assert said.startswith("Error: MLPClassifier cannot be read exactly.")
    assert "--trust" not in said


def test_a_model_that_is_not_fitted_predicts_nothing():
    said = run("explain", "unfitted.skops", "rows.csv", "--target", "granted", code=4).stderr
    assert "LogisticRegression has not been fitted" in said


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder in which nobody can write")
def test_a_place_that_cannot_be_written_is_called_by_its_own_name():
    said = run(*GRANTED, "--out", "/proc/answers.csv", code=2).stderr
    assert said.startswith("Error: /proc/answers.csv cannot be written: ")
    assert ".part" not in said


def test_rows_without_an_answer_are_still_known_by_their_place(tmp_path: Path):
    """All columns that the model does not take are kept, and every row has its position."""
    run(*ASK, "--spec", "loan.toml", "--out", tmp_path / "a.csv", code=3)
    table = pd.read_csv(tmp_path / "a.csv")
    assert table["cf_row"].tolist() == list(range(6))
    assert table["customer"].tolist() == list("abcdef")
    lost = table["cf_status"] == "infeasible"
    assert lost.any()
    assert table.loc[lost, "income"].isna().all()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (1.0, "1.00"),
        (25.64, "25.6"),
        (142.3, "142"),
        (4e5, "400000"),
    ],
)
def test_numbers_are_plain(number: float, said: str):
    assert plain(number) == said


def test_a_model_of_another_version_is_noted_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr("sklearn.base.__version__", "1.4.0")
        skops.io.dump(LogisticRegression().fit(*loans_with_age()), tmp_path / "old.skops")
    result = run("inspect", tmp_path / "old.skops", "--data", "train.csv")
    assert result.stderr.startswith("Note: the model was saved with scikit-learn 1.4.0 and is read")
    assert result.stderr.count("\n") == 1


def loans_with_age() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = loans()
    return X[["age"]], y


def test_inspect_says_what_was_read():
    text = run("inspect", "loan.skops", "--data", "train.csv", "--spec", "loan.toml").stdout
    for part in (
        "decides\n  granted, refused\n",
        "LogisticRegression as LinearScores",
        "age: integer, steps of 1, 20 to 69",
        "home: categorical, own, rent",
        "Manhattan, each change divided by",
        "age",
    ):
        assert part in text
    alone = run("inspect", "income.skops")
    assert "decides\n  a number\n" in alone.stdout
    assert alone.stderr.startswith("Note: without --data every number counts as continuous")


def test_inspect_of_a_model_that_knows_its_ranges_needs_no_data():
    X, y = loans()
    model = PrivateSVC(1.0, bounds=(0.0, 1e6), classes=["granted", "refused"])
    skops.io.dump(model.fit(X[["age", "income"]], y), "private.skops")
    told = run("inspect", "private.skops")
    assert not told.stderr
    assert "income: continuous, 0 to 1e+06" in told.stdout
    assert "each change divided by the feature's range" in told.stdout


# Errors


def test_decimal_commas_are_noted():
    asked = ["explain", "loan.skops", "commas.csv", *DATA, "--show", "0"]
    assert run(*asked, code=3).stderr.startswith(
        "Note: commas.csv: column 'income' has numbers with a decimal comma, such as "
    )


def test_the_ending_of_a_file_may_be_in_capitals():
    run("explain", "loan.skops", "UPPER.CSV", *DATA, "--show", "0")


def test_sentences_speak_of_options():
    told = run("inspect", "loan.skops", "--data", "train.csv").stdout
    assert "numbers stay within the ranges above (--extrapolate lifts it)" in told
    told = run("explain", "loan.skops", "rows.csv", "--target", "granted", code=2).stderr
    assert "Say --data with rows like those the model was fitted on, or write [cost] in" in told


DATA = ["--data", "train.csv", "--target", "granted"]
WRONG: list[tuple[list[str], str]] = [
    (["inspect", "none.skops"], "There is no file 'none.skops'."),
    (["inspect", "laon.skops"], "There is no file 'laon.skops'; did you mean 'loan.skops'?"),
    (["inspect", "nix/loan.skops"], "There is no file 'nix/loan.skops', nor a folder 'nix'."),
    (["inspect", "."], "Expected a file; '.' is a folder."),
    (["explain", "rows.csv", "loan.skops"], "Expected a model in a .skops file; got rows.csv. The"),
    (["explain", "odd.skops", "nix.csv", *DATA], "There is no file 'nix.csv'."),
    (["explain", "odd.skops", "rows.csv", "--data", "nix.csv"], "There is no file 'nix.csv'."),
    (["recheck", "nix.jsonl", "odd.skops"], "There is no file 'nix.jsonl'."),
    (["inspect", "model.onnx"], "Expected a model in a .skops file; got model.onnx. Save yours"),
    (["inspect", "loan.pkl"], "loan.pkl is a pickle, and loading a pickle can run any program"),
    (["inspect", "broken.pkl", "--trust-pickle"], "broken.pkl is not a readable pickle: "),
    (["inspect", "none.pkl", "--trust-pickle"], "There is no file 'none.pkl'."),
    (["inspect", "odd.skops"], "odd.skops holds types that could run code of their own: "),
    (["inspect", "deep.skops"], "deep.skops is not a readable skops file: maximum recursion"),
    (["inspect", "lists.skops"], "lists.skops is not a readable skops file: "),
    (["inspect", "large.skops"], "large.skops has 0."),
    (["explain", "loan.skops", "deep.jsonl", *DATA], "deep.jsonl, line 1: lists stand in one an"),
    (["inspect", "loan.skops", "--spec", "deep.json"], "deep.json: lists or tables stand in one"),
    (["compare", "loan.skops", "rows.csv", "deep.json", *DATA], "deep.json is no JSON of DiCE"),
    (
        ["letter", "loan.skops", "rows.csv", *DATA, "--texts", "deep.toml"],
        "deep.toml: lists or tables stand in one another too deeply; write it flatter.",
    ),
    (["inspect", "loan.skops", "--spec", "bad.toml"], "bad.toml is not valid TOML: "),
    (["inspect", "loan.skops", "--spec", "none.toml"], "There is no file 'none.toml'."),
    (
        ["inspect", "loan.skops", "--data", "train.csv", "--spec", "typo.toml"],
        "There is no feature 'incom'; did you mean 'income'",
    ),
    (["explain", "loan.skops", "loan.toml", *DATA], "Expected rows in a .csv, .parquet or .jsonl"),
    (["explain", "loan.skops", "rows.xlsx", *DATA], "Expected rows in a .csv, .parquet or .jsonl"),
    (["explain", "loan.skops", "nix.csv", *DATA], "There is no file 'nix.csv'."),
    (["explain", "loan.skops", "semicolons.csv", *DATA], "semicolons.csv has semicolons between"),
    (["explain", "loan.skops", "tabs.csv", *DATA], "tabs.csv has tabs between its cells. Save it"),
    (["explain", "loan.skops", "latin.csv", *DATA], "latin.csv is not in UTF-8. Save it as that;"),
    (["explain", "loan.skops", "long.csv", *DATA], "long.csv: rows have more cells than the first"),
    (["explain", "loan.skops", "ragged.csv", *DATA], "ragged.csv, line 3: expected 3 cells, as m"),
    (["explain", "loan.skops", "empty.csv", *DATA], "empty.csv cannot be read: No columns to"),
    (["explain", "loan.skops", "bad.parquet", *DATA], "bad.parquet cannot be read: "),
    (["explain", "loan.skops", "bad.jsonl", *DATA], "bad.jsonl, line 2 is not JSON: "),
    (["explain", "loan.skops", "list.jsonl", *DATA], "list.jsonl, line 1: expected an object of"),
    (["explain", "loan.skops", "blank.jsonl", *DATA], "blank.jsonl has no rows."),
    (
        ["explain", "loan.skops", "short.csv", *DATA],
        "Expected the columns that the model uses; missing: 'income'",
    ),
    (
        ["explain", "loan.skops", "rows.csv", "--data", "short.csv", "--target", "granted"],
        "In --data: Expected the columns that the model uses; missing: 'income'",
    ),
    (
        ["explain", "loan.skops", "rows.csv", "--target", "granted"],
        "Expected to know what a change costs; got neither a cost nor data, and the range of",
    ),
    ([*ASK, "--target", "Grantd"], "The model has no label 'Grantd'; did you mean granted?"),
    (
        ["explain", "spaced.skops", "rows.csv", "--data", "train.csv"],
        "Expected a target; got none. Say --target with one of 'at most 50K', 'over 50K', or",
    ),
    (ASK, "Expected a target; got none. Say --target with one of granted, refused, or --other"),
    ([*ASK, "--target", "yes"], "The model has no label 'yes'; it has granted, refused."),
    ([*GRANTED, "--other"], "Expected one target; got --target and --other. Keep one."),
    ([*ASK, "--probability", "0.9"], "--probability is about one label; got 0. Say which"),
    ([*ASK, "--tradeoff", "0.1"], "--tradeoff is about one label; got 0. Say which"),
    ([*GRANTED, "--tradeoff", "0"], "Expected a finite weight above 0; got 0.0"),
    ([*GRANTED, "--guarantee", "fixed"], "--guarantee goes with --robust."),
    ([*GRANTED, "--robust", ".4"], "Expected a probability of at least 0.5, as likely as not"),
    ([*GRANTED, "--robust", ".9"], "Robust needs a binary linear model, and the law of the noise"),
    (
        [*GRANTED, "--tradeoff", "1", "--robust", ".9"],
        "Expected one of --tradeoff and --robust; got both.",
    ),
    (
        [*GRANTED, "--tradeoff", "1", "--probability", ".9"],
        "Expected one of --probability and --tradeoff; got both.",
    ),
    ([*GRANTED, "--probability", "9"], "Expected a probability between 0 and 1, both excluded"),
    ([*GRANTED, "--probability", ".9", "--margin", "1"], "--margin goes with --target or --other"),
    ([*ASK, "--spec", "loan.toml", "--margin", "1"], "--margin goes with --target or --other"),
    ([*GRANTED, "--margin", "-1"], "Expected a margin of at least 0; got -1.0."),
    ([*ASK, "--low", "1"], "--low and --high are for models that predict numbers; this one"),
    ([*GRANTED, "--gap", "-1"], "Expected a finite gap of at least 0; got -1.0."),
    ([*GRANTED, "--time-limit", "0"], "Expected a time limit above 0 seconds; got 0.0."),
    (
        [*GRANTED, "--optimality", "best"],
        "Expected an optimality of 'local' or 'global'; got 'best'.",
    ),
    (
        ["explain", "income.skops", "rows.csv", *DATA],
        "This model predicts numbers and has no label 'granted'. Say --low, --high or both.",
    ),
    (
        ["explain", "income.skops", "rows.csv", "--data", "train.csv"],
        "Expected a range for the prediction; got none. Say --low, --high or both",
    ),
    ([*GRANTED, "--alternatives", "2", "--differ", "hue"], "Expected by to be one of 'features'"),
    ([*GRANTED, "--out", "a.xls"], "Expected --out to end in .csv, .parquet or .jsonl, or to be"),
    ([*GRANTED, "--out", "nix/a.csv"], "There is no folder 'nix' for --out; make it first."),
    ([*GRANTED, "--out", "rows.csv"], "--out rows.csv would overwrite an input; choose another"),
    (
        ["explain", "loan.skops", "taken.csv", *DATA, "--out", "a.csv"],
        "The rows already have a column 'cf_status'; rename it.",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[m[:40] for _, m in WRONG])
def test_a_mistake_is_a_sentence(arguments: list[str], message: str):
    result = run(*arguments, code=2)
    assert not result.stdout
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stderr.endswith((".\n", "?\n"))
    assert result.stderr.count("\n") == 1
    assert not re.search(r"cp\.(?!Uncertain)|\w=[\s,:;)]", result.stderr), "Python"
    assert not Path("a.csv").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nearest.skops", "KNeighborsClassifier cannot be read exactly."),
        ("unfitted.skops", "LogisticRegression"),
        ("coef.skops", "its fitted attributes do not go together"),
    ],
)
def test_a_model_that_cannot_be_explained_is_another_exit_code(model: str, message: str):
    for arguments in (["inspect", model], ["explain", model, "rows.csv", *DATA[:2], "--other"]):
        result = run(*arguments, code=4)
        assert message in result.stderr
        assert "Error: " in result.stderr


@pytest.mark.parametrize("arguments", [["nothing"], ["explain"], ["demo", "--sav"]])
def test_wrong_usage(arguments: list[str]):
    result = run(*arguments, code=2)
    assert not result.stdout
    assert "Usage: " in result.stderr


@pytest.mark.parametrize("name", counterpoint.lvq.__all__)
def test_estimators_of_this_package_need_no_trust(name: str, tmp_path: Path):
    X, y = loans()
    numbers = X[["age", "income"]]
    model = getattr(counterpoint.lvq, name)(random_state=0).fit(numbers, y)
    skops.io.dump(model, tmp_path / "own.skops")
    assert "granted" in run("inspect", tmp_path / "own.skops", "--data", "train.csv").stdout


def test_a_limit_of_memory_is_lifted_by_name():
    said = "large.skops has 0.1[0-9]* MB, and takes about 161 MB when it is unpacked. If you know"
    assert re.search(said, run("inspect", "large.skops", code=2).stderr)
    told = run("inspect", "large.skops", "--trust-size", code=2).stderr
    assert "Expected 20000000 inputs for step 'logisticregression'" in told  # it was loaded


def test_tables_hold_no_formulas(tmp_path: Path):
    rows = pd.read_csv("rows.csv").assign(customer=["=1+1", "+49 30", "-x", "@a", "\t=b", "-5"])
    rows = rows.assign(**{"=cmd": ["＝1", "a=b", "+5", "'", "", "-1e3"]})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for suffix in ("csv", "parquet"):
        run(*GRANTED[:2], tmp_path / "rows.csv", *GRANTED[3:], "--out", tmp_path / f"out.{suffix}")
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    plain = pd.read_parquet(tmp_path / "out.parquet")
    told = ["'=1+1", "'+49 30", "'-x", "'@a", "'\t=b", "-5"]
    assert found["customer"].tolist() == told
    assert found["'=cmd"].tolist() == ["'＝1", "a=b", "+5", "'", "", "-1e3"]
    assert plain["customer"].tolist() == rows["customer"].tolist()
    own = with_formulas(pd.read_csv(tmp_path / "out.csv", keep_default_na=False))
    assert own["customer"].tolist() == rows["customer"].tolist()
    assert own["=cmd"].tolist() == rows["=cmd"].tolist()
    for name in ("age", "income", "cf_cost", "cf_margin"):
        np.testing.assert_array_equal(pd.to_numeric(found[name]), plain[name])


def test_types_that_are_trusted_by_name_are_loaded():
    name = run("inspect", "odd.skops", code=2).stderr.rsplit("--trust ", 1)[1].removesuffix(".\n")
    assert name.endswith(".loans")
    assert (
        "kept no note of the columns" in run("inspect", "odd.skops", "--trust", name, code=4).stderr
    )


def test_parquet_without_pyarrow(monkeypatch: pytest.MonkeyPatch):
    def not_installed(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("counterpoint.cli.files.import_module", not_installed)
    asked = ["explain", "loan.skops", "rows.parquet", *DATA]
    assert "needs pyarrow, and that is not installed" in run(*asked, code=2).stderr
    assert "needs pyarrow" in run(*GRANTED, "--out", "a.parquet", code=2).stderr


# The demonstration


def test_the_demonstration_runs_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    result = run("demo", "--save", tmp_path / "demo")
    assert not result.stderr
    assert "1000 rows; 29 columns: 21 categorical, 8 integer" in result.stdout
    assert "30 columns: 30 continuous" in result.stdout
    assert "the cheapest possible change (proved)" in result.stdout
    assert "182 rows: 178 optimal, 4 infeasible" in result.stdout
    assert "209 rows: 209 optimal" in result.stdout
    monkeypatch.chdir(tmp_path / "demo")
    explain, serve = (line.split()[1:] for line in result.stdout.strip().splitlines()[-2:])
    assert "182 rows: 178 optimal, 4 infeasible" in run(*explain, code=3).stdout
    monkeypatch.setattr("uvicorn.run", lambda app, **how: None)
    assert "The page: http://127.0.0.1:8765/" in run(*serve).output


def test_the_demonstration_tells_what_a_loan_would_need():
    told = " ".join(run("demo").stdout.split())
    for sentence in (
        "data German credit: real loans",
        "LoanAmount falls by at most 2000",
        "fixed Gender, Single, Age",
        "would be granted with 1 change",
        "would be granted with 3 changes",
        "has no way to be granted",
        "These exclude every answer",
        "an answer exists if LoanDuration may go down to 36",
        "the model agrees",
        "counterpoint demo --save desk && cd desk && counterpoint serve model.skops",
    ):
        assert sentence in told


def test_what_the_demonstration_shows_is_granted_by_the_model():
    """The changes that are printed, made by hand, are asked of the model itself."""
    loans = import_module("counterpoint.cli.demo")._loans()
    shown = run("demo").stdout.partition("Tumours: ")[0]
    answer = re.compile(
        r"^Applicant (\d+) .*? granted with (\d).*?\n(.*?)\n╰", re.DOTALL | re.MULTILINE
    )
    answers = answer.findall(shown)
    assert [count for _, count, _ in answers] == ["1", "2", "3"]
    for number, count, table in answers:
        row = loans.rows.loc[[int(number)]]
        assert loans.model.predict(row).tolist() == ["declined"]
        cells = re.findall(r"^│ (\w+) +│ +(\d+) │ +(\d+) │$", table, re.MULTILINE)
        assert len(cells) == int(count)
        for name, now, instead in cells:
            assert row[name].item() == int(now)
            row[name] = int(instead)
        assert loans.model.predict(row).tolist() == ["granted"]


def test_extrapolation_is_a_flag():
    lifted = "--extrapolate lifts it"
    assert lifted in run("inspect", "loan.skops", "--data", "train.csv").stdout
    free = run("inspect", "loan.skops", "--data", "train.csv", "--extrapolate").stdout
    assert lifted not in free


# Records


def test_records_are_checked_again(tmp_path: Path):
    path, model = tmp_path / "answers.jsonl", skops.io.load("loan.skops", trusted=[])
    explainer = cp.Explainer(model, data=pd.read_csv("train.csv"))
    explainer.explain(pd.read_csv("rows.csv"), "granted").to_records(path)
    result = run("recheck", path, "loan.skops")
    assert not result.stdout
    assert "6 records: 6 without a problem, 6 with their optimality" in result.stderr
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([first.replace('"optimal"', '"suboptimal"'), *others]))
    changed = run("recheck", path, "loan.skops", code=3)
    assert "Record 0: It was changed after it was written" in changed.stdout


def test_records_that_rest_on_the_word_of_a_solver_have_an_exit_code(tmp_path: Path):
    path, model = tmp_path / "answers.jsonl", skops.io.load("loan.skops", trusted=[])
    explainer = cp.Explainer(model, data=pd.read_csv("train.csv"))
    explainer.explain(pd.read_csv("rows.csv"), "granted").to_records(path)
    first, *others = path.read_text().splitlines()
    record = {key: value for key, value in json.loads(first).items() if key != "digest"}
    assert record["status"] == "optimal"
    record |= {"claim": "reported", "proof": None, "proved_bound": 0.0}
    record["message"] = record["message"].replace("proved", "as a solver reports")
    record["digest"] = digest(canonical(record))
    path.write_text("\n".join([json.dumps(record), *others]))
    result = run("recheck", path, "loan.skops", code=5)
    assert "Record 0: It rests on the word of a solver" in result.stdout
    assert "5 with their optimality or impossibility proved, 1 on the word" in result.stderr
    result = run("recheck", path, "loan.skops", "--accept-reported")
    assert not result.stdout
    others[0] = others[0].replace('"cost":', '"cost":1')
    path.write_text("\n".join([json.dumps(record), *others]))
    run("recheck", path, "loan.skops", code=3)
    run("recheck", path, "loan.skops", "--accept-reported", code=3)


def test_records_of_hashed_rows_are_checked_with_the_rows(tmp_path: Path):
    path, model = tmp_path / "answers.jsonl", skops.io.load("loan.skops", trusted=[])
    explainer = cp.Explainer(model, data=pd.read_csv("train.csv"))
    explainer.explain(pd.read_csv("rows.csv"), "granted").to_records(path, salt="pepper")
    given = ("recheck", path, "loan.skops", "--rows", "rows.csv", "--salt")
    assert "6 records: 6 without a problem" in run(*given, "pepper").stderr
    assert "Its row is not the one" in run(*given, "salt", code=3).stdout
    assert "hashes in the place of rows" in run("recheck", path, "loan.skops", code=2).stderr


def test_explain_writes_records(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    given = ("explain", "loan.skops", "rows.csv", "--data", "train.csv", "--target", "granted")
    run(*given, "--records", path, "--salt", "pepper", "--out", tmp_path / "answers.csv")
    checked = run("recheck", path, "loan.skops", "--rows", "rows.csv", "--salt", "pepper")
    assert "6 records: 6 without a problem" in checked.stderr
    refused = run(*given, "--records", tmp_path / "records.csv", code=2)
    assert "Expected --records as a .jsonl or .parquet file" in refused.stderr
