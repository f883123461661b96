"""Batches of any size: nothing lost, nothing twice, the same bytes whoever works on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from typer.testing import CliRunner

import counterpoint as cp
from counterpoint.cli import app
from counterpoint.scale import BatchReport, explain_batch, run
from counterpoint.scale.blocks import block_rows, regrouped
from counterpoint.scale.shards import cost_of

RANDOM = np.random.default_rng(0)


def loans(count: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "customer": [f"{k:05}" for k in range(count)],
            "age": RANDOM.integers(20, 70, count),
            "income": RANDOM.normal(4e4, 1.2e4, count).round(2),
            "home": RANDOM.choice(["own", "rent"], count),
            "grade": RANDOM.choice([1, 2, 3], count),
            "member": RANDOM.choice([True, False], count),
        }
    )


def fitted() -> tuple[Any, pd.DataFrame]:
    X = loans(300)
    score = X["income"] + 200 * X["age"] + 5e3 * (X["home"] == "own") + 3e3 * X["grade"]
    y = np.where(score + RANDOM.normal(0, 5e3, 300) > 5.5e4, "granted", "refused")
    words = OneHotEncoder(handle_unknown="ignore")
    prepare = ColumnTransformer(
        [("words", words, ["home", "grade", "member"])], remainder=StandardScaler()
    )
    train = X.drop(columns="customer")
    return make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(train, y), train


MODEL, TRAIN = fitted()
EXPLAINER = cp.Explainer(MODEL, data=TRAIN)
TREES = ["sklearn.tree._tree.Tree"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of three files, one of them in a folder; no test changes it."""
    at = tmp_path_factory.mktemp("rows")
    for k, count in enumerate((40, 70)):
        loans(count).to_parquet(at / f"part{k}.parquet", row_group_size=30)
    (at / "more").mkdir()
    loans(5).to_parquet(at / "more" / "part.parquet")
    (at / "_SUCCESS").touch()
    return at


@pytest.fixture
def own(rows: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(rows, tmp_path / "rows"))


def content(out: Path) -> dict[str, bytes]:
    """Everything in a folder, byte for byte."""
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def answers(out: Path) -> pd.DataFrame:
    frame = pd.read_parquet(out)
    return frame.sort_values(["cf_file", "cf_row"]).reset_index(drop=True)


def check_complete(rows: Path, out: Path) -> None:
    """Each row is answered once, as `explain` answers it."""
    found = answers(out)
    names = [str(p.relative_to(rows)) for p in sorted(rows.rglob("*.parquet"))]
    came = pd.concat([pd.read_parquet(rows / name) for name in names], ignore_index=True)
    want = EXPLAINER.explain(came, "granted")
    assert found["cf_file"].unique().tolist() == names
    assert found["customer"].tolist() == came["customer"].tolist()
    assert found["cf_status"].tolist() == want.status.tolist()
    np.testing.assert_allclose(found["cf_cost"], want.cost, rtol=1e-9)
    same = want.to_frame()
    for name in TRAIN.columns:
        assert (found[name].isna() == same[name].isna()).all()
        if pd.api.types.is_float_dtype(found[name]):
            np.testing.assert_allclose(found[name], same[name].astype(float), rtol=1e-9)
        else:
            assert found[name].dropna().tolist() == same[name].dropna().tolist()


# One batch


def batch(frame: pd.DataFrame) -> pa.RecordBatch:
    return pa.RecordBatch.from_pandas(frame, preserve_index=False)


def test_a_batch_has_the_answers_of_explain_in_its_own_types():
    came = loans(20)
    found = explain_batch(EXPLAINER, batch(came), "granted")
    want = EXPLAINER.explain(came, "granted")
    assert found["cf_status"].to_pylist() == [str(s) for s in want.status]
    kinds = {name: str(found.schema.field(name).type) for name in came.columns}
    assert kinds == {name: str(batch(came).schema.field(name).type) for name in came.columns}
    assert found.to_pandas()[came.columns.tolist()].equals(want.to_frame())


def test_the_schema_depends_on_that_of_the_rows_alone():
    came = batch(loans(20))
    want = explain_batch(EXPLAINER, came.slice(0, 0), "granted").schema
    gaps = pa.RecordBatch.from_arrays(
        [pa.nulls(len(came), kind) for kind in came.schema.types], schema=came.schema
    )
    for part in (came, came.slice(0, 1), gaps):
        assert explain_batch(EXPLAINER, part, "granted").schema == want


def test_text_is_read_as_the_numbers_that_it_says_and_a_bad_cell_is_named():
    came = loans(6)
    text = came.astype({"age": str, "income": str, "grade": str, "member": str})
    text.loc[1, "income"] = "much"
    text.loc[2, "home"] = "boat"
    text.loc[3, "member"] = "perhaps"
    text.loc[4, "age"] = None
    found = explain_batch(EXPLAINER, batch(text), "granted").to_pandas()
    want = EXPLAINER.explain(came, "granted")
    good = [0, 5]
    np.testing.assert_allclose(found["cf_cost"][good], want.cost[good])
    assert found["cf_status"][1:5].tolist() == ["invalid"] * 4
    assert "column 'income' holds 'much'; expected a number" in found["cf_message"][1]
    assert "unknown category 'boat'" in found["cf_message"][2]
    assert "unknown category 'perhaps'" in found["cf_message"][3]
    assert "age" in found["cf_message"][4]
    assert found.loc[1, ["age", "income"]].isna().all()


@pytest.mark.parametrize("column", ["age", "income", "grade", "member"])
def test_what_python_alone_reads_as_a_number_is_none(column: str, tmp_path: Path):
    cells = ["1_000", "٣٤", "１２", "١e2", "1_0.5", "0x10", "1,000", "−5"]
    came = loans(12)
    text = came.assign(**{column: [*cells, *came[column].astype(str)[len(cells) :]]})
    text.to_csv(tmp_path / "rows.csv", index=False)
    told = run(EXPLAINER, tmp_path / "rows.csv", tmp_path / "out", "granted")
    assert not told.failed
    found = answers(tmp_path / "out")
    want = EXPLAINER.explain(came[len(cells) :], "granted")
    assert found["cf_status"].tolist() == ["invalid"] * len(cells) + want.status.tolist()
    assert all(cell in said for cell, said in zip(cells, found["cf_message"], strict=False))


def test_dictionaries_and_decimals_are_what_they_stand_for():
    came = loans(10)
    plain = batch(came)
    arrays = dict(zip(plain.schema.names, plain.columns, strict=True))
    arrays["home"] = arrays["home"].dictionary_encode()
    arrays["income"] = arrays["income"].cast(pa.decimal128(20, 2), safe=False)
    found = explain_batch(EXPLAINER, pa.RecordBatch.from_pydict(arrays), "granted")
    want = explain_batch(EXPLAINER, plain, "granted")
    assert found["cf_status"] == want["cf_status"]
    assert found.schema.field("income").type == pa.float64()
    np.testing.assert_allclose(found["cf_cost"], want["cf_cost"])


def test_missing_and_taken_columns_are_named():
    came = loans(3)
    with pytest.raises(cp.InvalidInput, match="The rows have no column 'age', which the model"):
        explain_batch(EXPLAINER, batch(came.drop(columns="age")), "granted")
    with pytest.raises(cp.InvalidInput, match="already have a column 'cf_cost'; rename it"):
        explain_batch(EXPLAINER, batch(came.assign(cf_cost=0)), "granted")


@pytest.mark.parametrize("most", [1, 7, 100])
def test_batches_are_regrouped_without_loss(most: int):
    parts = [pa.RecordBatch.from_pydict({"k": list(range(a, b))}) for a, b in ((0, 3), (3, 23))]
    found = list(regrouped(iter(parts), most))
    assert [k for part in found for k in part["k"].to_pylist()] == list(range(23))
    assert {len(part) for part in found[:-1]} <= {most}


def test_a_block_of_many_columns_has_few_rows():
    wide = pa.schema([(f"x{j}", pa.float64()) for j in range(20_000)])
    assert block_rows(wide) == 104


# A data set


def test_all_files_are_answered_and_a_second_call_does_nothing(rows: Path, tmp_path: Path):
    out = tmp_path / "out"
    told = run(EXPLAINER, rows, out, "granted")
    check_complete(rows, out)
    before = content(out)
    assert (told.rows, told.shards, told.skipped, told.ok) == (115, 3, 0, True)
    assert sum(told.statuses.values()) == 115
    assert str(told).startswith("115 rows: ")
    again = run(EXPLAINER, rows, out, "granted")
    assert again.skipped == 3
    assert (again.rows, again.statuses, again.cost) == (told.rows, told.statuses, told.cost)
    assert content(out) == before
    manifest = json.loads(before["_manifest.json"])
    assert [shard["file"] for shard in manifest["shards"]] == [
        *("more/part.parquet", "part0.parquet", "part1.parquet")
    ]


def test_quantiles_of_the_cost_are_right_to_half_a_percent(rows: Path, tmp_path: Path):
    told = run(EXPLAINER, rows, tmp_path / "out", "granted")
    cost = answers(tmp_path / "out")["cf_cost"]
    for share, found in told.cost.items():
        want = np.quantile(cost[cost > 0], share, method="inverted_cdf")
        assert abs(np.log(found / want)) <= 0.005 + 1e-12
    assert np.isnan(cost_of({}, 0.5))


def test_only_what_changed_is_done_again(own: Path, tmp_path: Path):
    out = tmp_path / "out"
    run(EXPLAINER, own, out, "granted")
    (out / "_notes.txt").touch()
    loans(8).to_parquet(own / "part0.parquet")
    (own / "more" / "part.parquet").unlink()
    told = run(EXPLAINER, own, out, "granted")
    assert (told.skipped, told.shards) == (1, 2)
    check_complete(own, out)
    assert len([*out.glob("*.parquet")]) == 2
    assert (out / "_notes.txt").exists()


def test_progress_tells_shards_and_rate(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run(EXPLAINER, rows, tmp_path / "out", "granted", progress=True)
    said = capsys.readouterr().err
    assert "3/3 shards" in said
    assert "rows/s" in said


@pytest.mark.parametrize(
    ("other", "differs"),
    [({"target": "refused"}, "target"), ({"gap": 1e-3}, "gap"), ({"records": True}, "records")],
)
def test_answers_to_another_question_are_not_mixed(
    rows: Path, tmp_path: Path, other: dict[str, Any], differs: str
):
    run(EXPLAINER, rows / "more", tmp_path / "out", "granted")
    before = content(tmp_path / "out")
    with pytest.raises(cp.InvalidInput, match=f"another question: there, {differs} differs"):
        run(EXPLAINER, rows / "more", tmp_path / "out", **{"target": "granted", **other})
    assert content(tmp_path / "out") == before


def test_another_model_is_another_question(rows: Path, tmp_path: Path):
    run(EXPLAINER, rows / "more", tmp_path / "out", "granted")
    model, train = fitted()
    with pytest.raises(cp.InvalidInput, match=r"there, .*model.* differs"):
        run(cp.Explainer(model, data=train), rows / "more", tmp_path / "out", "granted")


@pytest.mark.parametrize("kind", [LogisticRegression, RandomForestClassifier])
def test_a_model_that_was_saved_and_read_is_the_same_model(tmp_path: Path, kind: type):
    numbers = TRAIN[["age", "income"]]
    model = make_pipeline(StandardScaler(), kind()).fit(numbers, MODEL.predict(TRAIN))
    loans(2).to_parquet(tmp_path / "rows.parquet")
    skops.io.dump(model, tmp_path / "model.skops")
    read = [skops.io.load(tmp_path / "model.skops", trusted=TREES) for _ in range(2)]
    for same in (model, deepcopy(model), *read):
        explainer = cp.Explainer(same, data=numbers)
        told = run(explainer, tmp_path / "rows.parquet", tmp_path / "out", "granted")
    assert told.skipped == 1


@pytest.mark.parametrize("kept", [0, 1000, -1])
def test_a_truncated_shard_is_made_again(rows: Path, tmp_path: Path, kept: int):
    out = tmp_path / "out"
    run(EXPLAINER, rows, out, "granted")
    before = content(out)
    shard = sorted(out.glob("*.parquet"))[1]
    shard.write_bytes(shard.read_bytes()[:kept])
    (out / "_0123.part").write_bytes(b"left by one that was killed")
    assert run(EXPLAINER, rows, out, "granted").skipped == 2
    assert content(out) == before


def test_a_bit_that_flipped_is_noticed(rows: Path, tmp_path: Path):
    out = tmp_path / "out"
    ask = partial(run, EXPLAINER, rows / "more", out, "granted", records=True)
    ask()
    before = content(out)
    for name in before:
        if name.startswith(("_manifest", "_question", "_lock")):
            continue
        for place in (0.001, 0.3, 0.6, 0.9, 0.98):  # data, their headers, the footer
            damaged = bytearray(before[name])
            damaged[int(place * len(damaged))] ^= 4
            (out / name).write_bytes(damaged)
            assert ask().skipped == 0
            assert [*content(out)] == [*before]
            assert name.startswith(("_records", "_sums")) or content(out)[name] == before[name]
    assert ask().skipped == 1


@pytest.mark.parametrize("said", [b'{"a', b"", b"[1]", b"null", b"\xff", b"[" * 100_000])
def test_a_folder_that_forgot_its_question_is_refused(rows: Path, tmp_path: Path, said: bytes):
    out = tmp_path / "out"
    run(EXPLAINER, rows / "more", out, "granted")
    (out / "_question.json").write_bytes(said)
    before = content(out)
    with pytest.raises(cp.InvalidInput, match=r"_question.json is damaged, .* remove this one"):
        run(EXPLAINER, rows / "more", out, "granted")
    assert content(out) == before


def test_two_runs_do_not_write_into_one_folder(rows: Path, tmp_path: Path):
    fcntl = pytest.importorskip("fcntl")
    out = tmp_path / "out"
    run(EXPLAINER, rows / "more", out, "granted")
    before = content(out)
    with (out / "_lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)  # as a run does; the system takes it back from a dead one
        for target in ("granted", "refused"):
            with pytest.raises(cp.InvalidInput, match=r"Another run is writing .* Wait until it"):
                run(EXPLAINER, rows / "more", out, target)
    assert content(out) == before
    assert run(EXPLAINER, rows / "more", out, "granted").skipped == 1


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_answered(own: Path, tmp_path: Path):
    out, good = tmp_path / "out", (own / "part0.parquet").read_bytes()
    (own / "part0.parquet").write_bytes(good[: len(good) // 2])
    loans(4).drop(columns="age").to_parquet(own / "short.parquet")
    told = run(EXPLAINER, own, out, "granted")
    assert not told.ok
    assert [*told.failed] == ["part0.parquet", "short.parquet"]
    assert "part0.parquet cannot be read" in told.failed["part0.parquet"]
    assert told.failed["short.parquet"] == "short.parquet has no column 'age'."
    assert "failed: part0.parquet: " in str(told)
    assert [*json.loads((out / "_manifest.json").read_text())["failed"]] == [*told.failed]
    (own / "part0.parquet").write_bytes(good)
    (own / "short.parquet").unlink()
    told = run(EXPLAINER, own, out, "granted")
    assert (told.skipped, told.failed) == (2, {})
    check_complete(own, out)


def test_files_whose_numbers_are_of_different_types_go_together(own: Path, tmp_path: Path):
    loans(4).astype({"income": "float32", "age": "float64"}).to_parquet(own / "other.parquet")
    run(EXPLAINER, own, tmp_path / "out", "granted")
    assert len(answers(tmp_path / "out")) == 119


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_csv_keeps_its_text_and_names_its_bad_rows(tmp_path: Path, name: str):
    came = loans(12).astype({"income": object})
    came.loc[3, "income"] = "much"
    came.to_csv(tmp_path / name, index=False)
    told = run(EXPLAINER, tmp_path / name, tmp_path / "out", "granted")
    found = answers(tmp_path / "out")
    assert found["customer"].tolist() == came["customer"].tolist()
    assert (told.rows, told.found, told.statuses["invalid"]) == (12, 11, 1)
    assert found["cf_row"][found["cf_status"] == "invalid"].tolist() == [3]
    good = came.drop(index=3).astype({"income": float})
    np.testing.assert_allclose(
        found["cf_cost"].drop(index=3), EXPLAINER.explain(good, "granted").cost
    )


def test_what_stands_in_the_path_is_a_column(tmp_path: Path):
    for home in ("own", "rent"):
        (tmp_path / "rows" / f"home={home}").mkdir(parents=True)
        part = loans(10).drop(columns="home")
        part.to_parquet(tmp_path / "rows" / f"home={home}" / "part.parquet")
    told = run(EXPLAINER, tmp_path / "rows", tmp_path / "out", "granted")
    assert told.ok
    found = answers(tmp_path / "out")
    already = found[found["cf_changed"] == 0]
    assert [f"home={home}/part.parquet" for home in already["home"]] == already["cf_file"].tolist()


def test_a_large_file_is_several_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from counterpoint.scale import running, shards

    loans(100).to_parquet(tmp_path / "rows.parquet", row_group_size=10)
    split = lambda fs, root, question: shards.fragments_of(fs, root, question, 25)  # noqa: E731
    monkeypatch.setattr(running, "fragments_of", split)
    told = run(EXPLAINER, tmp_path / "rows.parquet", tmp_path / "out", "granted")
    assert told.shards == 4
    found = answers(tmp_path / "out")
    assert found["cf_row"].tolist() == list(range(100))
    assert found["customer"].tolist() == [f"{k:05}" for k in range(100)]


def test_records_stand_beside_and_can_be_checked(rows: Path, tmp_path: Path):
    out = tmp_path / "out"
    run(EXPLAINER, rows / "more", out, "granted", records=True)
    [record] = (out / "_records").iterdir()
    assert cp.recheck(record, MODEL).ok
    record.unlink()
    assert run(EXPLAINER, rows / "more", out, "granted", records=True).skipped == 0
    assert record.exists()
    assert len(pd.read_parquet(out)) == 5


def test_no_rows_are_no_answers(tmp_path: Path):
    loans(3).head(0).to_parquet(tmp_path / "none.parquet")
    told = run(EXPLAINER, tmp_path / "none.parquet", tmp_path / "out", "granted")
    assert (told.rows, told.ok, str(told)) == (0, True, "0 rows: none\n1 shards")
    assert "cf_status" in pd.read_parquet(tmp_path / "out").columns


def test_answers_go_to_any_file_system():
    memory = fsspec.filesystem("memory")
    for k in range(2):
        with memory.open(f"/rows/{k}.parquet", "wb") as file:
            loans(10).to_parquet(file)
    assert run(EXPLAINER, "memory://rows", "memory://out", "granted").rows == 20
    assert run(EXPLAINER, "memory://rows", "memory://out", "granted").skipped == 2


def test_wrong_calls_are_told_in_a_sentence(rows: Path, tmp_path: Path):
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "rows.txt").touch()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").touch()
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    out = tmp_path / "out"
    for given, said in (
        ((tmp_path / "nowhere", out), "There is no file or folder"),
        ((tmp_path / "strange", out), r"Expected a \.parquet or a \.csv file"),
        ((tmp_path / "bad.parquet", out), "can be read: its files are damaged"),
        ((rows, rows / "out"), "would be written among the rows"),
        ((rows, tmp_path / "taken"), "holds other files; choose another folder"),
        (("nothing://rows", out), "is not a location that fsspec knows"),
        ((rows / "more" / "part.parquet", out, "maybe"), "maybe"),
    ):
        with pytest.raises(cp.InvalidInput, match=said):
            run(EXPLAINER, *given, **({} if len(given) > 2 else {"target": "granted"}))
    with pytest.raises(cp.InvalidInput, match="at least 1 worker; got workers=0"):
        run(EXPLAINER, rows, out, "granted", workers=0)
    assert not out.exists()


@pytest.mark.parametrize("package", ["pyarrow", "fsspec.core"])
def test_the_extra_is_named_where_it_is_missing(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
):
    monkeypatch.setitem(sys.modules, package, None)
    sentence = rf"{package[:6]}.*, which .*pip install '\.\[scale\]'"
    with pytest.raises(cp.MissingExtra, match=sentence):
        run(EXPLAINER, rows, tmp_path / "out", "granted")


# Workers


def test_two_workers_write_the_same_bytes_as_one(rows: Path, tmp_path: Path):
    run(EXPLAINER, rows, tmp_path / "alone", "granted")
    told = run(EXPLAINER, rows, tmp_path / "out", "granted", workers=2)
    assert (told.rows, told.skipped) == (115, 0)
    assert content(tmp_path / "out") == content(tmp_path / "alone")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 28 kB."""
    at = tmp_path / "disk"
    at.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("Only root can mount a small disk.")
    command = [mount, "-t", "tmpfs", "-o", "size=28k", "tmpfs", str(at)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("This machine does not let a small disk be mounted.")
    yield at
    subprocess.run(["umount", at], check=True)  # noqa: S607


def test_a_full_disk_ends_the_run_and_room_takes_it_up(
    rows: Path, small_disk: Path, tmp_path: Path
):
    with pytest.raises(cp.InvalidInput, match=r"cannot be written: No space left.*goes on"):
        run(EXPLAINER, rows, small_disk / "out", "granted")
    assert not [*(small_disk / "out").glob("*.part")]
    done = len([*(small_disk / "out").glob("*.parquet")])
    assert done > 0
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)  # noqa: S607
    assert run(EXPLAINER, rows, small_disk / "out", "granted").skipped == done
    check_complete(rows, small_disk / "out")


# The command


def command(*arguments: object, code: int = 0) -> str:
    ran = CliRunner().invoke(app, ["batch", *map(str, arguments)], catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran.output


def test_the_command_asks_in_the_words_of_explain(rows: Path, tmp_path: Path):
    skops.io.dump(MODEL, tmp_path / "loan.skops")
    TRAIN.to_parquet(tmp_path / "train.parquet")
    ask = (tmp_path / "loan.skops", rows, tmp_path / "out", "--data", tmp_path / "train.parquet")
    said = command(*ask, "--target", "granted")
    assert said.startswith("115 rows: ")
    assert f"Wrote {tmp_path / 'out'} (" in said
    assert "3 of them finished before" in command(*ask, "--target", "granted")
    assert "another question" in command(*ask, "--target", "refused", code=2)
    assert "Say --target" in command(*ask, code=2)
    loans(3).assign(home="boat").to_parquet(tmp_path / "boat.parquet")
    odd = (ask[0], tmp_path / "boat.parquet", tmp_path / "odd", *ask[3:], "--target", "granted")
    assert command(*odd, code=3).startswith("3 rows: 3 invalid")


def test_a_report_says_what_failed():
    told = BatchReport(0, 0, {}, {0.5: float("nan")}, 0, 0, {"a.csv": "It is empty."}, 1.0)
    assert str(told) == "0 rows: none\n0 shards\nfailed: a.csv: It is empty."
    assert not told.ok
