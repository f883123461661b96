"""Metrics: each against its definition, written out in loops; DiCE's JSON; the command."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from typer.testing import CliRunner

import counterpoint as cp
from counterpoint import metrics
from counterpoint.cli import app

# As dice-ml 0.12 wrote it, of a frame like `credit` gives: rows in float32, a row without answers.
DICE = {
    "test_data": [
        [[41.0, 3, "rent", 0]],
        [[34.599998474121094, 5, "own", 0]],
        [[49.5, 5, "rent", 0]],
    ],
    "cfs_list": [
        [[43.5, 3, "rent", 1], [44.3, 3, "own", 1]],
        None,
        [[46.6, 5, "own", 1], [52.4, 5, "own", 1]],
    ],
    "local_importance": None,
    "summary_importance": None,
    "data_interface": {"outcome_name": "approved", "data_df": "dummy_data"},
    "feature_names": ["income", "loans", "home"],
    "feature_names_including_target": ["income", "loans", "home", "approved"],
    "model_type": "classifier",
    "desired_class": 1,
    "desired_range": None,
    "metadata": {"version": "2.0"},
}


@cache
def credit() -> tuple[pd.DataFrame, Any]:
    rng, n = np.random.default_rng(0), 120
    X = pd.DataFrame(
        {
            "income": rng.normal(40, 10, n).round(1),
            "loans": rng.integers(0, 6, n),
            "home": rng.choice(["own", "rent", "free"], n),
        }
    )
    noise = rng.normal(0, 6, n)
    y = (X["income"] - 5 * X["loans"] + 8 * (X["home"] == "own") + noise > 25).astype(int)
    before = make_column_transformer(
        (StandardScaler(), ["income", "loans"]), (OneHotEncoder(), ["home"])
    )
    return X, make_pipeline(before, LogisticRegression()).fit(X, y)


def refused(count: int = 6) -> pd.DataFrame:
    X, model = credit()
    return X[model.predict(X) == 0].head(count).reset_index(drop=True)


def others(rows: pd.DataFrame) -> pd.DataFrame:
    """Answers of some tool: more income, some move, one pays back half a loan, one has none."""
    out = rows.assign(income=rows["income"] + [3.0, 30.0, 50.0, 0.5, 40.0, 8.0])
    out.loc[2, "home"] = "rent" if rows.loc[2, "home"] == "own" else "own"
    out["loans"] = out["loans"].astype(float)
    out.loc[1, "loans"] -= 0.5
    out.loc[3] = np.nan
    return out


def lengths(x: pd.Series, y: pd.Series, scale: dict[str, float]) -> list[float]:
    moved = [abs(y[name] - x[name]) / scale[name] for name in ("income", "loans")]
    return [*moved, float(x["home"] != y["home"])]


def test_each_metric_is_its_definition():
    X, model = credit()
    rows = refused()
    answers, found = others(rows), np.arange(6) != 3
    said = model.predict(answers[found])
    wanted = np.full(6, np.nan)
    wanted[found] = said
    np.testing.assert_array_equal(metrics.validity(model, rows, answers, 1), wanted)
    np.testing.assert_array_equal(metrics.validity(model, rows, answers), wanted)
    np.testing.assert_array_equal(metrics.validity(model, rows, answers, 0), 1.0 - wanted)
    sure = metrics.validity(model, rows, answers, cp.Probability(1, 0.9))
    np.testing.assert_array_equal(sure[found], model.predict_proba(answers[found])[:, 1] >= 0.9)
    deviation = {"income": X["income"].std(ddof=0), "loans": X["loans"].std(ddof=0)}
    mad = {n: np.median(abs(X[n] - X[n].median())) for n in ("income", "loans")}
    for distance, scale, power in (("l1", deviation, 1), ("l2", deviation, 2), ("mad", mad, 1)):
        values = metrics.proximity(model, rows, answers, distance=distance, data=X)
        for i in np.flatnonzero(found):
            each = lengths(rows.loc[i], answers.loc[i], scale)
            assert values[i] == pytest.approx(sum(v**power for v in each) ** (1 / power))
        assert np.isnan(values[3])
    changed = metrics.sparsity(model, rows, answers)
    np.testing.assert_array_equal(changed, [1, 2, 2, np.nan, 1, 1])


def test_redundancy_takes_changes_back_one_at_a_time():
    _, model = credit()
    rows = refused()
    answers = others(rows)
    values = metrics.redundancy(model, rows, answers, 1)
    for i in range(6):
        if i == 3 or model.predict(answers.loc[[i]])[0] == 0:
            assert np.isnan(values[i])
            continue
        undone = 0
        for name in rows:
            if rows.loc[i, name] != answers.loc[i, name]:
                y = answers.loc[[i]].copy()
                y[name] = rows.loc[i, name]
                undone += model.predict(y)[0] == 1
        assert values[i] == undone


def test_neighbours_and_outliers_are_those_of_the_definition():
    X, model = credit()
    rows = refused()
    answers, k = others(rows), 7
    wide = pd.get_dummies(X["home"]).astype(float) / np.sqrt(2.0)
    deviations = X[["income", "loans"]].std(ddof=0)
    points = np.column_stack([X[["income", "loans"]] / deviations, wide])
    shares = metrics.ynn(model, rows, answers, 1, k=k, data=X)
    outside = metrics.lof(model, rows, answers, data=X)
    factor = LocalOutlierFactor(20, novelty=True).fit(points)
    said = model.predict(X)
    for i in (0, 1, 2, 4, 5):
        y = answers.loc[i]
        block = [float(y["home"] == name) / np.sqrt(2.0) for name in wide]
        place = np.array([*(y[["income", "loans"]] / deviations), *block], dtype=float)
        near = np.argsort(((points - place) ** 2).sum(axis=1))[:k]
        assert shares[i] == pytest.approx(said[near].mean())
        assert outside[i] == pytest.approx(-factor.score_samples(place[None, :])[0])
    assert np.isnan([shares[3], outside[3]]).all()


def test_several_classes_count_any_other_as_wanted():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    answers = X[[60, 120, 10]]
    np.testing.assert_array_equal(metrics.validity(model, X[[0, 0, 0]], answers), [1, 1, 0])
    near = metrics.ynn(model, X[[0, 0, 0]], answers, data=X)
    np.testing.assert_array_equal(near, [1, 1, 0])
    np.testing.assert_array_equal(
        metrics.validity(model, X[[0, 0, 0]], answers, cp.Label([1])), [1, 0, 0]
    )


def test_regressors_and_ranges():
    X = load_iris().data
    model = LinearRegression().fit(X[:, :3], X[:, 3])
    explainer = cp.Explainer(model, data=X[:, :3])
    target = cp.Interval(low=1.0)
    answers = explainer.explain(X[:5, :3], target)
    np.testing.assert_array_equal(metrics.validity(model, X[:5, :3], answers, target), np.ones(5))
    assert (metrics.optimality_gap(explainer, X[:5, :3], answers, target) <= 1e-6).all()
    assert len(metrics.compare(explainer, X[:5, :3], answers, target, data=X[:, :3])) == 2


def test_constraints_and_whole_steps_are_looked_at():
    X, model = credit()
    rows = refused()
    answers = others(rows)
    explainer = cp.Explainer(model, data=X, constraints=[cp.Immutable("home")])
    values = metrics.constraint_violation(explainer, rows, answers)
    over = answers["income"] > X["income"].max()
    wrong = over | (answers.index == 1) | (answers["home"] != rows["home"])
    known = [0, 1, 2, 4, 5]
    np.testing.assert_array_equal((values > 0.0)[known], wrong[known])
    gaps = metrics.optimality_gap(explainer, rows, answers, 1)
    least = explainer.explain(rows, 1)
    spread = cp.mad_weights(X)
    for i in known:
        if wrong[i] or model.predict(answers.loc[[i]])[0] == 0:
            assert np.isnan(gaps[i])
        else:
            cost = (answers["income"] - rows["income"])[i] * spread["income"]
            assert gaps[i] == pytest.approx(1.0 - least.cost[i] / cost, abs=1e-6)
    more = metrics.constraint_violation(model, rows, answers, constraints=cp.Immutable("income"))
    assert (more[known] > 0.0).all()


def test_several_answers_to_a_row():
    X, model = credit()
    rows = refused(3)
    explainer = cp.Explainer(model, data=X)
    found = explainer.explain(rows, 1, n=3)
    values = metrics.diversity(explainer, rows, found, data=X)
    scale = {n: 1.0 / w for n, w in cp.mad_weights(X).items()}
    frame = found.to_frame().reset_index(drop=True)
    for i in range(3):
        mine = np.flatnonzero(found.row == i)
        both = [(a, b) for a in mine for b in mine if a < b]
        each = [sum(lengths(frame.loc[a], frame.loc[b], scale)) for a, b in both]
        assert values[i] == pytest.approx(np.mean(each))
    alone = metrics.diversity(explainer, rows, frame.iloc[[0, 1]], data=X, row=[0, 2])
    assert np.isnan(alone).all()


def test_our_own_answers_are_optimal_and_polars_and_arrays_say_the_same():
    X, model = credit()
    explainer, rows = cp.Explainer(model, data=X), refused()
    answers = explainer.explain(rows, 1)
    table = metrics.compare(explainer, rows, {"again": answers}, 1, data=X)
    assert (table.loc["counterpoint"].fillna(0) == table.loc["again"].fillna(0)).all()
    assert table.loc["again", ["found", "validity", "violated"]].tolist() == [1, 1, 0]
    assert table.loc["again", "gap"] <= 1e-6
    other = others(rows)
    np.testing.assert_array_equal(
        metrics.proximity(None, pl.from_pandas(rows), pl.from_pandas(other)),
        metrics.proximity(None, rows, other),
    )


def test_rounding_is_no_change():
    _, model = credit()
    rows = refused()
    near = rows.assign(income=rows["income"].astype(np.float32))
    np.testing.assert_array_equal(metrics.sparsity(model, rows, near), np.zeros(6))
    near.loc[0, "income"] += 1.0
    held = metrics.constraint_violation(model, rows, near, constraints=cp.Immutable("income"))
    np.testing.assert_array_equal(held > 0.0, np.arange(6) == 0)


def test_missing_cells_are_no_distance_unless_they_stay():
    rows = pd.DataFrame({"a": [1.0, np.nan, np.nan], "b": [0.5, 1.5, 3.0]})
    answers = rows.assign(b=rows["b"] + 1.0)
    answers.loc[2, "a"] = 1.0
    values = metrics.proximity(None, rows, answers, distance=cp.Manhattan())
    np.testing.assert_array_equal(values, [1.0, 1.0, np.nan])
    np.testing.assert_array_equal(metrics.sparsity(None, rows, answers), [1, 1, 2])


def test_few_data_or_none_will_do():
    X, model = credit()
    rows = refused(4)
    answers = cp.Explainer(model, data=X).explain(rows, 1)
    few = metrics.ynn(model, rows, answers, 1, data=X.head(6), k=50)
    np.testing.assert_array_equal(few, metrics.ynn(model, rows, answers, 1, data=X.head(6), k=5))
    table = metrics.compare(model, rows, answers, 1)
    assert "lof" not in table
    assert table.loc["answers", "validity"] == 1.0


def test_no_answers_at_all():
    X, model = credit()
    rows = refused(2)
    none = rows.astype(object)
    none.loc[:] = np.nan
    table = metrics.compare(cp.Explainer(model, data=X), rows, {"none": none}, 1, data=X)
    assert table.loc["none", "found"] == 0.0
    assert table.loc["none"].drop("found").isna().all()


def test_no_answers_reach_no_probability():
    X, model = credit()
    assert metrics.validity(model, X[:0], X[:0], cp.Probability(1, 0.9), data=X).shape == (0,)


def test_a_column_of_zeros_and_ones_is_one_of_numbers_where_answers_hold_others():
    rows = pd.DataFrame({"share": [0, 1, 0], "age": [20.0, 30.0, 40.0]})
    answers = rows.assign(share=[0.5, 1.0, 0.25])
    np.testing.assert_array_equal(metrics.sparsity(None, rows, answers), [1, 0, 1])


# DiCE


def test_what_dice_writes_is_read(tmp_path: Path):
    X, model = credit()
    (tmp_path / "cf.json").write_text(json.dumps(DICE))
    for source in (tmp_path / "cf.json", json.dumps(DICE)):
        frame, row = metrics.read_dice(source)
        assert list(frame) == ["income", "loans", "home"]
        assert row.tolist() == [0, 0, 2, 2]
    rows = pd.DataFrame([r[0][:3] for r in DICE["test_data"]], columns=list(X))  # type: ignore[attr-defined]
    table = metrics.compare(model, rows, (frame, row), 1, data=X)
    assert table.loc["answers", "found"] == pytest.approx(2 / 3)


def test_options_of_dice_are_a_policy():
    X, model = credit()
    problem = metrics.problem_from_dice(
        X, ["income", "home"], {"income": [20, 60], "home": ["own", "rent"]}, target=1
    )
    rows = X[X["home"] == "rent"].assign(income=25.0)
    rows = rows[model.predict(rows) == 0]
    answers = problem.explainer(model, data=X).explain(rows, problem.target)
    assert answers.found.any()
    after = answers.to_frame()[answers.found]
    assert (after["loans"] == rows["loans"][answers.found]).all()
    assert after["home"].isin(["own", "rent"]).all()
    assert after["income"].between(20, 60).all()
    assert cp.Problem.from_dict(problem.to_dict()) == problem
    assert metrics.problem_from_dice(X) == cp.Problem()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no JSON of DiCE"),
        ("[1]", "no JSON of DiCE"),
        (json.dumps(DICE | {"metadata": {"version": "1.0"}}), "version '1.0'"),
        (json.dumps({k: v for k, v in DICE.items() if k != "cfs_list"}), "cfs_list"),
        (json.dumps(DICE | {"cfs_list": [[[1.0]]]}), "no JSON of DiCE"),
    ],
)
def test_other_json_is_refused(text: str, says: str):
    with pytest.raises(cp.InvalidSpec, match=says):
        metrics.read_dice(text)


# Bad input


def changed(**columns: Any) -> pd.DataFrame:
    return refused().assign(**columns)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (lambda: refused().drop(columns="home"), "counterfactuals; missing: 'home'"),
        (lambda: refused().head(2), "one counterfactual for each of 6 rows.*got 2"),
        (lambda: changed(home="villa"), "one of its categories in column 'home'.*got 'villa'"),
        (lambda: changed(income="much"), "a finite number in column 'income'.*got 'much'"),
        (lambda: changed(income=np.inf), "a finite number"),
        (lambda: np.zeros((6, 2)), r"shape \(rows, 3\); got shape \(6, 2\)"),
        (lambda: 3, "a data frame or an array; got 3"),
    ],
)
def test_answers_that_do_not_fit_are_refused(answers: Any, says: str):
    X, model = credit()
    with pytest.raises(cp.InvalidInput, match=says):
        metrics.sparsity(cp.Explainer(model, data=X), refused(), answers())


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda m, X: metrics.sparsity(m, X, X, row=[0]), "one counterfactual for each of 1 rows"),
        (lambda m, X: metrics.sparsity(m, X[:1], X[:1], row=[7]), "positions of the 1 rows"),
        (lambda m, X: metrics.sparsity(m, X[:1], X[:1], row=[0.5]), "positions of the 1 rows"),
        (lambda m, X: metrics.proximity(m, X, X, distance="l3"), "'l1', 'l2', 'mad' or a Cost"),
        (lambda m, X: metrics.ynn(m, X, X, k=0), "k of at least 1.*got k=0"),
        (lambda m, X: metrics.lof(m, X[:1], X[:1]), "at least 2 rows of data.*and 1 rows"),
        (lambda m, X: metrics.validity(m, X, X, cp.Tradeoff(1, 1.0)), "meets or misses"),
        (lambda m, X: metrics.validity(m, X, X, cp.Probability(7, 0.5)), "no probability of 7"),
        (lambda m, X: metrics.validity("no", X, X), "fitted model with predict; got 'no'"),
        (lambda m, X: metrics.optimality_gap(m, X, X), "needs an Explainer"),
        (
            lambda m, X: metrics.constraint_violation(m, X, X, constraints="a"),
            "constraints such as",
        ),
        (lambda m, X: metrics.problem_from_dice(X, ["incme"]), "did you mean 'income'"),
        (lambda m, X: metrics.problem_from_dice(X, permitted_range={"income": [1]}), "low, high"),
        (lambda m, X: metrics.problem_from_dice(X, permitted_range={"home": ["x"]}), "got 'x'"),
    ],
)
def test_what_makes_no_sense_is_refused(ask: Any, says: str):
    X, model = credit()
    with pytest.raises(cp.InvalidInput, match=says):
        ask(model, X)


# The command


def run(folder: Path, *args: str) -> Any:
    return CliRunner().invoke(app, ["compare", *(str(folder / a) if "." in a else a for a in args)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from skops import io

    X, model = credit()
    io.dump(model, tmp_path / "model.skops")
    X.to_csv(tmp_path / "train.csv", index=False)
    rows = refused()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    others(rows).to_csv(tmp_path / "tool.csv", index=False)
    several = cp.Explainer(model, data=X).explain(rows, 1, n=2)
    several.to_frame().assign(cf_row=several.row).to_csv(tmp_path / "two.csv", index=False)
    (tmp_path / "dice.json").write_text(json.dumps(DICE))
    return tmp_path


def test_the_command_makes_the_same_table(folder: Path):
    X, model = credit()
    args = ("model.skops", "rows.csv", "tool.csv", "two.csv", "dice.json", "--data", "train.csv")
    done = run(folder, *args, "--target", "1", "--out", "table.csv")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(folder / "table.csv", index_col="tool")
    rows = refused()
    several = cp.Explainer(model, data=X).explain(rows, 1, n=2)
    tools = {"tool": others(rows), "two": several, "dice": metrics.read_dice(json.dumps(DICE))}
    wanted = metrics.compare(cp.Explainer(model, data=X), rows, tools, 1, data=X)
    pd.testing.assert_frame_equal(table, wanted, check_names=False, rtol=1e-6)
    shown = run(folder, *args, "--other")
    assert shown.exit_code == 0
    assert "counterpoint" in shown.output
    assert "redundancy" in shown.output


def test_the_command_says_what_is_wrong(folder: Path):
    (folder / "broken.json").write_text("{")
    done = run(folder, "model.skops", "rows.csv", "broken.json", "--other", "--data", "train.csv")
    assert done.exit_code == 2
    assert "broken.json is no JSON of DiCE" in done.output
    done = run(
        folder, "model.skops", "rows.csv", "tool.csv", "tool.csv", "--other", "--data", "train.csv"
    )
    assert done.exit_code == 2
    assert "same name" in done.output
