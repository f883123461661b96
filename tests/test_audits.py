"""Audits: what is counted, its intervals, whom to blame; boxes of rows without an action."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import counterpoint as cp
from counterpoint.audits import audit, confined
from counterpoint.cli import app


def linear(weights: list[float], offset: float, names: str = "abcdef") -> Any:
    """A model that says 1 where weights · x + offset > 0."""
    count = len(weights)
    frame = pd.DataFrame(np.eye(count), columns=[*names[:count]])
    model = LogisticRegression().fit(frame, [0, *[1] * (count - 1)])
    model.coef_, model.intercept_ = np.array([weights]), np.array([offset])
    return model


# Whole frames


def people(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    return frame.assign(sex=np.where(rng.random(n) < 0.3, "f", "m"))


def explainer_of_people() -> cp.Explainer:
    """The score is a + b; b stays, and a rises by one at most: rows below −1 are fixed."""
    return cp.Explainer(
        linear([1.0, 1.0], 0.0),
        cost=cp.Manhattan(),
        constraints=[cp.Immutable("b"), cp.Bounds("a", rise=1.0), cp.Bounds("a", fall=9.0)],
    )


def test_rows_are_counted_by_group():
    frame = people()
    found = cp.audit(explainer_of_people(), frame, 1, "sex")
    score = frame["a"] + frame["b"]
    np.testing.assert_array_equal(found.fixed, score < -1)
    for name in ("all", "f", "m"):
        mine = score if name == "all" else score[frame["sex"] == name]
        line = found.groups.loc[name]
        assert line["rows"] == len(mine)
        assert line["already"] == (mine > 0).sum()
        assert line["fixed"] == (mine < -1).sum()
        assert line["answered"] == ((mine <= 0) & (mine >= -1)).sum()
        assert line["undecided"] == line["unusable"] == 0
        near = -mine[(mine <= 0) & (mine >= -1)]
        assert line["cost_median"] == pytest.approx(np.median(near), rel=1e-6)
        assert line["cost_low"] <= line["cost_median"] <= line["cost_high"]
        assert line["fixed_low"] <= line["fixed_share"] <= line["fixed_high"]


def test_proofs_of_fixed_rows_can_be_checked_again(tmp_path: Path):
    explainer = explainer_of_people()
    found = audit(explainer, people(100), 1, sample=0)
    found.answers.to_records(tmp_path / "rows.jsonl")
    again = cp.recheck(tmp_path / "rows.jsonl", explainer.model)
    assert again.ok
    assert again.proved[found.fixed].all()
    assert found.fixed.any()


def test_intervals_of_medians_are_those_of_the_quantile_test():
    frame = people()
    found = audit(explainer_of_people(), frame, 1, "sex", sample=0)
    for name in ("f", "m"):
        rows = (found.group == name) & found.answers.found
        cost = found.answers.cost[rows & (found.answers.status != cp.Status.ALREADY)]
        expected = stats.quantile_test(cost, p=0.5).confidence_interval(0.95)
        line = found.groups.loc[name]
        assert line["cost_low"] <= expected.low
        assert line["cost_high"] >= expected.high


def test_intervals_hold_as_often_as_they_promise():
    rng = np.random.default_rng(0)
    model, held = linear([1.0, 0.0], 0.0), 0
    explainer = cp.Explainer(model, cost=cp.Manhattan(), constraints=cp.Bounds("a", rise=1.0))
    for _ in range(50):  # the distance is uniform on [0, 2]: half of the rows are fixed
        frame = pd.DataFrame({"a": -rng.uniform(0, 2, 30), "b": 0.0})
        line = audit(explainer, frame, 1, sample=0).groups.loc["all"]
        held += line["fixed_low"] <= 0.5 <= line["fixed_high"]
        held += line["cost_low"] <= 0.5 <= line["cost_high"]
    assert held >= 89  # of 100 that hold with 95 % each


def test_constraints_are_named_by_what_they_do():
    table = audit(explainer_of_people(), people(), 1).constraints
    assert [*table.index[:2]] == ["b is immutable", "a rises by at most 1"]
    line = table.loc["a rises by at most 1"]
    assert (line["frees"], line["named"], line["saves"]) == (1.0, 1.0, 0.0)
    assert "a falls by at most 9" not in table.index  # which keeps nobody from anything


def test_saved_cost_is_that_of_the_explainer_without_the_constraint():
    model, frame = linear([1.0, 4.0], 0.0), people(60)
    cost, frozen = cp.Manhattan(), cp.Immutable("b")
    explainer = cp.Explainer(model, cost=cost, constraints=frozen)
    table = audit(explainer, frame, 1, sample=1000).constraints
    low = frame[model.predict(frame[["a", "b"]]) == 0]
    with_, without = (
        cp.Explainer(model, cost=cost, constraints=kept).explain(low, 1).cost
        for kept in ([frozen], [])
    )
    saved = table.loc["b is immutable", "saves"]
    assert saved == pytest.approx(np.mean(1 - without / with_), rel=1e-6)


def test_small_groups_are_warned_of_and_their_intervals_are_wide():
    frame = people().assign(sex=["x", "x", *["m"] * 398])
    frame.loc[:1, ["a", "b"]] = -0.2
    with pytest.warns(UserWarning, match="Group 'x' has 2 rows that would need an action"):
        found = audit(explainer_of_people(), frame, 1, "sex", sample=0)
    line = found.groups.loc["x"]
    assert (line["cost_low"], line["cost_high"]) == (0.0, np.inf)
    assert line["fixed_high"] > 0.8


def test_groups_may_be_passed_and_may_be_missing():
    frame = people(90)
    group = np.where(frame["sex"] == "f", None, "m")
    with pytest.warns(UserWarning, match="'missing'"):
        found = audit(explainer_of_people(), frame[["a", "b"]].to_numpy(), 1, group, sample=0)
    assert {*found.groups.index} == {"all", "m", "missing"}


def test_a_group_may_be_called_all():
    found = audit(explainer_of_people(), people(), 1, np.full(400, "all"), sample=0)
    assert [*found.groups.index] == ["all", "all"]
    assert found.groups.iloc[0].equals(found.groups.iloc[1])


def test_bad_groups_are_refused():
    frame, explainer = people(60), explainer_of_people()
    for by, said in (
        ("gender", "There are 'a', 'b', 'sex'"),
        ([1, 2], "one group for each of 60 rows"),
        ("a", "at most 50 groups"),
    ):
        with pytest.raises(cp.InvalidInput, match=said):
            audit(explainer, frame, 1, by)
    with pytest.raises(cp.InvalidInput, match="confidence between 0 and 1"):
        audit(explainer, frame, 1, confidence=95)


def test_rows_that_all_have_the_target_leave_nothing_to_say():
    found = audit(
        explainer_of_people(),
        people().abs() if False else pd.DataFrame({"a": [1.0], "b": [1.0]}),
        1,
    )
    assert np.isnan(found.groups.loc["all", "fixed_share"])
    assert not len(found.constraints)
    found.plot().draw_without_rendering()


def test_a_picture_shows_every_group():
    figure = audit(explainer_of_people(), people(), 1, "sex").plot()
    figure.draw_without_rendering()
    left, right = figure.axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["f", "m"]
    ends = [line.get_ydata()[-1] for line in left.get_lines()]
    assert all(0 < end < 1 for end in ends)  # the rest is fixed
    assert len(right.patches) > 0


def test_the_model_is_asked_about_few_rows_more_than_for_the_answers(
    heloc: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
):
    labels = heloc.pop("RiskPerformance").astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(heloc, labels)
    keep = ["ExternalRiskEstimate", "MaxDelqEver", "NumInqLast6M"]
    bounds = cp.Bounds("AverageMInFile", fall=0, rise=12)
    explainer = cp.Explainer(model, data=heloc, constraints=[cp.Immutable(*keep), bounds])
    predict, asked = LogisticRegression.predict, list[int]()

    def counted(self: LogisticRegression, X: Any) -> Any:
        asked.append(len(X))
        return predict(self, X)

    monkeypatch.setattr(LogisticRegression, "predict", counted)
    explainer.explain(heloc, 0)
    answered = sum(asked)
    audit(explainer, heloc, 0, np.arange(len(heloc)) % 4)
    assert sum(asked) - answered <= 1.3 * answered


# Boxes


def every(box: dict[str, tuple[int, int]]) -> list[dict[str, float]]:
    ranges = [range(low, high + 1) for low, high in box.values()]
    return [dict(zip(box, map(float, cells), strict=True)) for cells in product(*ranges)]


MOVES = st.sampled_from(["immutable", "rises", "falls", "bounds", "free", "observed"])


def constraint(kind: str, name: str) -> list[cp.Constraint]:
    return {
        "immutable": [cp.Immutable(name)],
        "rises": [cp.Monotone(name, "increasing")],
        "falls": [cp.Monotone(name, "decreasing"), cp.Bounds(name, low=1)],
        "bounds": [cp.Bounds(name, fall=1, rise=2, high=5)],
        "observed": [cp.WithinObserved(name)],
        "free": [cp.Bounds(name, low=-2, high=7)],
    }[kind]


@settings(max_examples=15)
@given(
    kinds=st.tuples(MOVES, MOVES),
    low=st.tuples(st.integers(-1, 4), st.integers(-1, 4)),
    size=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    weights=st.tuples(st.sampled_from([-2.0, 1.0, 3.0]), st.sampled_from([-1.0, 2.0])),
    offset=st.integers(-14, 6),
    related=st.booleans(),
)
def test_a_box_is_confined_just_if_each_of_its_rows_is(
    kinds: tuple[str, str],
    low: tuple[int, int],
    size: tuple[int, int],
    weights: tuple[float, float],
    offset: int,
    related: bool,
):
    box = {n: (at, at + more) for n, at, more in zip("ab", low, size, strict=True)}
    constraints = [c for n, kind in zip("ab", kinds, strict=True) for c in constraint(kind, n)]
    constraints += [cp.Linear({"a": 1.0, "b": 1.0}, high=7.0)] if related else []
    explainer = cp.Explainer(
        linear([*weights], offset + 0.5),
        features=[cp.Integer("a", observed=(0, 4)), cp.Integer("b", observed=(1, 3))],
        cost=cp.Manhattan(),
        constraints=constraints,
    )
    found = confined(explainer, box, 1)
    has = explainer.explain(every(box), 1).found
    assert found.proved is (not has.any())
    if found.proved:
        assert found.row is None
    else:
        assert found.row is not None
        assert found.answers[0].found
        assert all(box[name][0] <= value <= box[name][1] for name, value in found.row.items())


@settings(max_examples=10)
@given(
    st.sets(st.sampled_from("uvw"), min_size=1),
    st.sampled_from(["none", "immutable", "observed", "rises"]),
    st.integers(-1, 4),
)
def test_a_box_of_categories_is_confined_just_if_each_is(inside: set[str], kind: str, offset: int):
    frame = pd.DataFrame({"k": ["u", "v", "w"] * 4, "x": np.arange(12.0)})
    prepare = make_column_transformer((OneHotEncoder(), ["k"]), remainder="passthrough")
    model = make_pipeline(prepare, LogisticRegression()).fit(frame, [0, 1] * 6)
    model[-1].coef_, model[-1].intercept_ = (
        np.array([[0.0, 1.0, 2.0, 0.1]]),
        np.array([-offset - 0.03]),
    )
    constraints: dict[str, list[cp.Constraint]] = {
        "none": [],
        "immutable": [cp.Immutable("k")],
        "observed": [cp.WithinObserved("k")],
        "rises": [cp.Monotone("k", "decreasing")],
    }
    described = cp.Categorical("k", ("u", "v", "w"), ordered=True, observed=("u", "v"))
    explainer = cp.Explainer(
        model,
        features=[described, cp.Continuous("x", (0.0, 11.0))],
        cost=cp.Manhattan(),
        constraints=[*constraints[kind], cp.Immutable("x")],
    )
    found = confined(explainer, {"k": inside, "x": (0.0, 5.0)}, 1)
    ends = [{"k": k, "x": x} for k in sorted(inside) for x in (0.0, 5.0)]
    assert found.proved is (not explainer.explain(ends, 1).found.any())


@pytest.mark.parametrize("kind", ["additive", "tree"])
def test_boxes_of_other_models_are_settled_too(kind: str):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0, 10, (300, 2)), columns=["a", "b"])
    labels = (frame["a"] - 5) ** 2 + frame["b"] > 12
    bins = KBinsDiscretizer(
        6, encode="onehot", strategy="uniform", quantile_method="averaged_inverted_cdf"
    )
    additive = make_pipeline(bins, LogisticRegression())
    model = (additive if kind == "additive" else DecisionTreeClassifier(max_depth=4)).fit(
        frame, labels
    )
    constraints = [cp.Immutable("a"), cp.Bounds("b", rise=1.0)]
    explainer = cp.Explainer(model, data=frame, constraints=constraints)
    grid = np.linspace(0, 10, 11)
    outcomes = set()
    for left, low in product((0.5, 4.5), (0.0, 5.0)):
        box = {"a": (left, left + 1.0), "b": (low, low + 1.0)}
        found = confined(explainer, box, True)
        rows = [{"a": a, "b": b} for a, b in product(grid, grid)]
        rows = [r for r in rows if all(box[n][0] <= r[n] <= box[n][1] for n in box)]
        has = explainer.explain(rows, True).found.any()
        assert found.proved is not None
        assert not (found.proved and has)
        outcomes.add(found.proved)
    assert outcomes == {True, False}


def test_the_proof_of_a_box_can_be_kept():
    explainer = cp.Explainer(
        linear([1.0, 1.0], -10.0),
        cost=cp.Manhattan(),
        constraints=cp.Bounds("a", rise=1.0),
        features=[cp.Continuous("a"), cp.Continuous("b")],
    )
    box = {"a": (0.0, 3.0), "b": (0.0, 4.0)}
    assert confined(explainer, box, 1).proved is False
    frozen = cp.Explainer(
        explainer.model,
        cost=cp.Manhattan(),
        constraints=[*explainer.constraints, cp.Immutable("b")],
    )
    found = confined(frozen, box, 1)
    assert found.proved
    assert len(found.answers) == 2
    for answer in found.answers:
        assert cp.recheck(answer.to_record(), frozen.model).proved.all()


def test_boxes_that_make_no_sense_are_refused():
    def refused(box: dict[Any, Any], *constraints: cp.Constraint, target: Any = 1) -> str:
        explainer = cp.Explainer(
            linear([1.0, 1.0], 0.0),
            features=[cp.Integer("a"), cp.Categorical("b", (0, 1))],
            cost=cp.Manhattan(),
            constraints=constraints,
        )
        with pytest.raises(cp.InvalidInput) as error:
            confined(explainer, box, target)
        return str(error.value)

    box = {"a": (0, 1), "b": [0]}
    assert "MaxChanges(count=1)" in refused(box, cp.MaxChanges(1))
    assert "the same for all rows" in refused(box, target=cp.OtherLabel())
    assert "no data that show one" in refused({"b": [0]})
    assert "lowest and a highest value of 'a'" in refused(box | {"a": (1, 0)})
    assert "lowest and a highest value of 'a'" in refused(box | {"a": (0.2, 0.8)})
    assert "lowest and a highest value of 'a'" in refused(box | {"a": 3})
    assert "categories of 'b'" in refused(box | {"b": [2]})
    assert "There is no feature 'c'" in refused(box | {"c": (0, 1)})


# The command line


def test_audits_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    frame = people(200)
    model = LogisticRegression().fit(frame[["a", "b"]], np.where(frame["a"] > 0, "yes", "no"))
    skops.io.dump(model, "model.skops")
    frame.to_csv("rows.csv", index=False)
    Path("policy.toml").write_text("constraints = [{kind='bounds', feature='a', rise=0.5}]\n")
    call = ["audit", "model.skops", "rows.csv", "--target", "yes", "--data", "rows.csv"]
    call += ["--spec", "policy.toml", "--by", "sex"]
    files = ["--plot", "audit.png", "--records", "rows.parquet", "--out", "groups.csv"]
    shown = CliRunner().invoke(app, call)
    assert shown.exit_code == 0, shown.output
    assert "a rises by at most 0.5" in shown.stdout
    written = CliRunner().invoke(app, [*call, *files])
    assert written.exit_code == 0, written.output
    assert [*pd.read_csv("groups.csv")["group"]] == ["all", "f", "m"]
    assert cp.recheck("rows.parquet", model).ok
    assert Path("audit.png").stat().st_size > 1000
    for option in (["--plot", "audit.txt"], ["--records", "rows.csv"], ["--out", "rows.csv"]):
        assert CliRunner().invoke(app, [*call, *option]).exit_code == 2
