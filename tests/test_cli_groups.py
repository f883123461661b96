"""`counterpoint groups`: what it prints where, what it writes, how it exits."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner, Result

from counterpoint.cli import app
from counterpoint.groups import GroupTranslations

IRIS = load_iris(as_frame=True)
X = IRIS.data.set_axis(["a", "b", "c", "d"], axis=1)
ROWS = X.assign(kind=IRIS.target_names[IRIS.target])
NUMBERS = list("abcd")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows and a space; no test changes what is in it."""
    at = tmp_path_factory.mktemp("irises")
    rng = np.random.default_rng(0)
    ROWS.to_csv(at / "rows.csv", index=False)
    ROWS.to_parquet(at / "rows.parquet")
    mixed = ROWS.assign(place=rng.choice(["north", "south"], 150), name=[f"n{i}" for i in X.index])
    mixed.loc[4, "a"] = np.nan
    mixed.loc[5, "place"] = None
    mixed.loc[6, "kind"] = None
    mixed.to_csv(at / "mixed.csv", index=False)
    ROWS.groupby("kind").head(3).to_csv(at / "few.csv", index=False)
    ROWS[ROWS["kind"] == "setosa"].to_csv(at / "one.csv", index=False)
    skops.io.dump(make_pipeline(StandardScaler(), PCA(2)).fit(X), at / "space.skops")
    return at


def run(folder: Path, *arguments: str) -> Result:
    given = [str(folder / one) if (folder / one).is_file() else one for one in arguments]
    return CliRunner().invoke(app, ["groups", *given], catch_exceptions=False)


@cache
def expected() -> str:
    space = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    model = GroupTranslations(space, k=2).fit(ROWS, "kind")
    return f"{model.sentences()}\n\n{model.evaluate(ROWS, 'kind').summary()}\n"


@pytest.mark.parametrize("rows", ["rows.csv", "rows.parquet"])
def test_sentences_are_those_of_the_library(folder: Path, rows: str):
    ran = run(folder, rows, "--groups", "kind", "--features", "2", "--space", "space.skops")
    assert ran.exit_code == 0, ran.output
    assert ran.stdout == expected()
    assert ran.stderr == ""


def test_without_a_space_all_columns_are_seen(folder: Path):
    ran = run(folder, "mixed.csv", "--groups", "kind", "--without", "name", "--dimensions", "2")
    assert ran.exit_code == 0, ran.output
    assert "3 groups, held-out rows" in ran.stdout
    assert ran.stdout.count("from ") >= 3


def test_columns_can_be_left_out_or_stay(folder: Path):
    asked = ["rows.csv", "--groups", "kind", "--out", "-"]
    changed = {
        name: {
            json.loads(line)["feature"]
            for line in run(folder, *asked, *more).stdout.split("\n")[:-1]
        }
        for name, more in {
            "all": [],
            "left out": ["--without", "c"],
            "stays": ["--immutable", "c"],
        }.items()
    }
    assert "c" in changed["all"]
    assert "c" not in changed["left out"] | changed["stays"]
    assert changed["left out"]
    assert changed["stays"]


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".jsonl", "-"])
def test_changes_are_written(folder: Path, tmp_path: Path, kind: str):
    out = kind if kind == "-" else str(tmp_path / f"changes{kind}")
    ran = run(folder, "rows.csv", "--groups", "kind", "--features", "1", "--out", out)
    assert ran.exit_code == 0, ran.output
    readers = {
        ".csv": pd.read_csv,
        ".parquet": pd.read_parquet,
        ".jsonl": lambda path: pd.read_json(path, lines=True),
    }
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    found = pd.DataFrame(lines) if kind == "-" else readers[kind](out)
    assert list(found.columns) == ["from", "to", "feature", "change"]
    assert len(found) >= 2
    assert found["change"].sum() == pytest.approx(0.0)  # there and back
    assert "correctness" in ran.stderr
    assert (kind == "-") == bool(ran.stdout)
    assert list(tmp_path.iterdir()) == ([] if kind == "-" else [Path(out)])


def test_groups_too_small_to_set_rows_aside_are_judged_as_they_are(folder: Path):
    ran = run(folder, "few.csv", "--groups", "kind", "--features", "2")
    assert ran.exit_code == 0
    assert "none could be set aside" in ran.stderr
    assert "100% of the rows were in the fit" in ran.stdout


WRONG: dict[str, tuple[list[str], str]] = {
    "no such column": (
        ["rows.csv", "--groups", "kinds"],
        "got 'kinds'. Did you mean 'kind'?",
    ),
    "left out as well": (["rows.csv", "--groups", "kind", "--without", "kind"], "do not leave it"),
    "names": (["mixed.csv", "--groups", "kind"], "Leave it out with --without name"),
    "one group": (["one.csv", "--groups", "kind"], "at least two groups; got 1"),
    "k": (["rows.csv", "--groups", "kind", "--features", "9"], "1 to 4; got 9"),
    "count": (["rows.csv", "--groups", "kind", "--count", "some"], "got 'some'"),
    "stays": (["rows.csv", "--groups", "kind", "--immutable", "z"], "There is no feature 'z'"),
    "times": (["rows.csv", "--groups", "kind", "--times", "-1"], "times of at least 0"),
    "a picture": (["rows.csv", "--groups", "kind", "--out", "x.png"], "Expected --out to end in"),
    "itself": (["rows.csv", "--groups", "kind", "--out", "rows.csv"], "would overwrite an input"),
    "no model": (
        ["rows.csv", "--groups", "kind", "--space", "few.csv"],
        "a model in a .skops file",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_done_is_one_sentence(folder: Path, name: str):
    arguments, words = WRONG[name]
    ran = run(folder, *arguments)
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("Error: ")
    assert words in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_few_rows_are_said_to_tell_little(folder: Path):
    """Ten rows with nothing between them are no proof that nothing is between the groups."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(10, 3)), columns=list("abc")).assign(kind=list("xy") * 5)
    rows.to_csv(folder / "ten.csv", index=False)
    result = run(folder, "ten.csv", "--groups", "kind")
    assert "Note: group x has 5 rows. With fewer than 20" in result.stderr
    assert "Note: group" not in run(folder, "rows.csv", "--groups", "kind").stderr
