"""Audits: what is counted, its intervals, whom to blame; boxes of rows without an action."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import combinations, product
from math import comb
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
from counterpoint.audits.differences import fisher_test, holm, rank_test
from counterpoint.audits.wording import AuditWords
from counterpoint.cli import app
from counterpoint.letters import Texts, Wording


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


@pytest.mark.filterwarnings("ignore:Group .* would need an action")
@pytest.mark.parametrize("dtype", ["string", "Int64", "boolean", "category", "datetime64[ns]"])
def test_groups_may_be_missing_in_every_dtype(dtype: str):
    by = pd.Series([1, 0, None] * 30, dtype="Int64").astype(dtype)
    found = audit(explainer_of_people(), people(90), 1, by, sample=0)
    assert found.groups.loc["missing", "rows"] == 30


@pytest.mark.filterwarnings("ignore:Group .* would need an action")
def test_groups_come_in_the_order_of_their_values():
    frame, explainer = people(), explainer_of_people()
    ages = np.arange(400) % 12
    numbers = audit(explainer, frame, 1, ages, sample=0).groups.index[1:]
    assert [*numbers] == [*map(str, range(12))]
    ranges = audit(explainer, frame, 1, pd.cut(ages, [-1, 2, 9, 11]), sample=0).groups.index[1:]
    assert [*ranges] == ["(-1, 2]", "(2, 9]", "(9, 11]"]
    mixed = np.where(ages < 6, "a", None)
    mixed[ages == 7] = 7
    names = audit(explainer, frame, 1, mixed, sample=0).groups.index[1:]
    assert [*names] == ["7", "a", "missing"]


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
    found = audit(explainer_of_people(), people(), 1, "sex")
    figure = found.plot()
    figure.draw_without_rendering()
    left, right = figure.axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["f", "m"]
    ends = [line.get_ydata()[-1] for line in left.get_lines()]
    table = found.groups.loc[["f", "m"]]
    np.testing.assert_allclose(ends, 1.0 - table["fixed_share"])  # the rest is fixed
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


@pytest.mark.parametrize("seed", range(3))
def test_what_an_audit_says_of_a_tree_is_what_all_changes_show(seed: int):
    rng = np.random.default_rng(seed)
    grid = pd.DataFrame(product(range(5), range(4), "xyz"), columns=["a", "b", "k"])
    prepare = make_column_transformer((OneHotEncoder(), ["k"]), remainder="passthrough")
    model = make_pipeline(prepare, DecisionTreeClassifier(max_depth=5, random_state=seed))
    model.fit(grid, rng.random(len(grid)) < 0.25)
    rules = [cp.Bounds("a", rise=1, fall=1), cp.Immutable("k"), cp.Monotone("b", "increasing")]
    explainer = cp.Explainer(model, data=grid, cost=cp.Manhattan(), constraints=rules)
    with pytest.warns(UserWarning, match="Group"):
        found = audit(explainer, grid, True, "k", sample=1000)

    has = grid[model.predict(grid)]
    moves = grid.reset_index().merge(has, how="cross", suffixes=("", "_new"))
    costs = (moves["a_new"] - moves["a"]).abs() + (moves["b_new"] - moves["b"]).abs()
    moves["cost"] = costs + (moves["k_new"] != moves["k"])
    allowed = {
        "a falls by at most 1 and rises by at most 1": (moves["a_new"] - moves["a"]).abs() <= 1,
        "k is immutable": moves["k_new"] == moves["k"],
        "b only rises": moves["b_new"] >= moves["b"],
    }

    def cheapest(*rules_of_moves: str) -> Any:
        fits = np.logical_and.reduce([allowed[rule] for rule in rules_of_moves])
        return moves[fits].groupby("index")["cost"].min().reindex(grid.index).to_numpy()

    cost = cheapest(*allowed)
    np.testing.assert_array_equal(found.fixed, np.isnan(cost))
    np.testing.assert_allclose(found.answers.cost[~found.fixed], cost[~found.fixed])
    answered = (cost > 0) & ~found.fixed
    for k in "xyz":
        mine, line = (grid["k"] == k).to_numpy(), found.groups.loc[k]
        assert line["cost_median"] == pytest.approx(np.median(cost[mine & answered]))
        assert line["fixed_share"] == pytest.approx(
            found.fixed[mine].sum() / (mine & (cost != 0)).sum()
        )
    assert found.fixed.any()
    for rule in allowed:
        looser = cheapest(*({*allowed} - {rule}))
        frees = np.isfinite(looser[found.fixed]).mean()
        saves = np.mean(1 - looser[answered] / cost[answered])
        line = found.constraints.reindex([rule]).fillna(0.0).loc[rule]
        assert line["frees"] == pytest.approx(frees)
        assert line["saves"] == pytest.approx(saves, abs=1e-6)


# Differences of groups


def test_shares_of_fixed_rows_are_compared_by_fishers_exact_test():
    # The lady tasting tea, 3 and 1 against 1 and 3: (16 + 1) of 70 ways on each side.
    assert fisher_test([[3, 1], [1, 3]]).p == pytest.approx(34 / 70)
    assert fisher_test([[3, 1], [1, 3]]).smallest == pytest.approx(2 / 70)
    frame = people()
    found = audit(explainer_of_people(), frame, 1, "sex", sample=0)
    score, is_f = frame["a"] + frame["b"], frame["sex"] == "f"
    counts = [
        [((score < -1) & side).sum(), ((score >= -1) & (score <= 0) & side).sum()]
        for side in (is_f, ~is_f)
    ]
    (line,) = found.differences.reset_index().to_dict("records")
    assert (line["group"], line["against"], line["remark"]) == ("f", "m", "")
    assert line["fixed_p"] == pytest.approx(stats.fisher_exact(counts).pvalue)
    assert line["fixed_p_holm"] == line["fixed_p"]
    assert line["fixed_share"] == pytest.approx(counts[0][0] / sum(counts[0]))
    assert line["fixed_share_against"] == pytest.approx(counts[1][0] / sum(counts[1]))


def test_costs_are_compared_by_the_rank_test():
    frame = people()
    found = audit(explainer_of_people(), frame, 1, "sex", sample=0)
    score, is_f = frame["a"] + frame["b"], frame["sex"] == "f"
    has = (score >= -1) & (score <= 0)
    costs, against = (-score[has & side] for side in (is_f, ~is_f))
    line = found.differences.loc["f"]
    assert line["cost_p"] == pytest.approx(stats.mannwhitneyu(costs, against).pvalue, rel=0.02)
    pairs = costs.to_numpy()[:, None] > against.to_numpy()[None, :]
    assert line["dearer"] == pytest.approx(pairs.mean(), abs=0.003)


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=5),
    st.lists(st.integers(0, 4), min_size=2, max_size=5),
)
def test_the_rank_test_counts_all_ways_to_deal_groups_out(first: list[int], second: list[int]):
    ranks, n = stats.rankdata([*first, *second]), len(first)
    sums = np.array([ranks[[*chosen]].sum() for chosen in combinations(range(len(ranks)), n)])
    distance = np.abs(sums - n * (len(ranks) + 1) / 2)
    found = rank_test(np.array(first, float), np.array(second, float))
    assert found.p == pytest.approx(np.mean(distance >= distance[0]))
    assert found.smallest == pytest.approx(np.mean(distance == distance.max()))


def test_the_rank_test_is_scipys_where_there_are_no_ties():
    rng = np.random.default_rng(0)
    for sizes in ((7, 9), (40, 55), (60, 80)):
        first, second = (rng.normal(0.3 * k, 1, size) for k, size in enumerate(sizes))
        method = "exact" if sum(sizes) <= 100 else "asymptotic"
        expected = stats.mannwhitneyu(first, second, method=method).pvalue
        assert rank_test(first, second).p == pytest.approx(expected, rel=1e-9)


def test_costs_that_agree_but_for_the_end_of_a_search_are_ties():
    first, second = np.array([1.0, 2.0, 2.0]), np.array([1.0, 1.0, 2.0, 3.0])
    noise = 1 + 1e-9 * np.array([1, -1, 1])
    assert rank_test(first * noise, second) == rank_test(first, second)


def test_several_groups_are_compared_with_all_others_and_corrected():
    np.testing.assert_allclose(
        holm([0.01, 0.04, np.nan, 0.03, 0.005]), [0.03, 0.06, np.nan, 0.06, 0.02]
    )
    frame = people().assign(region=np.arange(400) % 4)
    found = audit(explainer_of_people(), frame, 1, "region", sample=0)
    table, score = found.differences, frame["a"] + frame["b"]
    assert [*table["against"]] == ["all others"] * 4
    fixed, answered = score < -1, (score >= -1) & (score <= 0)
    p = [
        stats.fisher_exact([[(m & s).sum() for m in (fixed, answered)] for s in (mine, ~mine)])[1]
        for mine in (frame["region"] == k for k in range(4))
    ]
    np.testing.assert_allclose(table["fixed_p"], p)
    assert table["fixed_p_holm"].min() == pytest.approx(min(1.0, 4 * min(p)))
    assert "of 4 tests" in str(found)


def test_groups_that_are_too_small_have_no_p_value_but_a_reason():
    frame = pd.DataFrame({"a": [-0.5, -2.0, -2.1, -0.4, -0.3], "b": 0.0, "sex": [*"ffmmm"]})
    with pytest.warns(UserWarning, match="Group"):
        found = audit(explainer_of_people(), frame, 1, "sex", sample=0)
    line = found.differences.loc["f"]
    assert np.isnan(line["fixed_p"])
    assert np.isnan(line["cost_p"])
    # one of two fixed among five: at best 1 in 10 ways
    assert (
        "too few rows (2 and 3): even the largest difference possible would have p = 0.1"
        in (line["remark"])
    )
    alike = frame.assign(a=-0.5)
    with pytest.warns(UserWarning, match="Group"):
        remark = (
            audit(explainer_of_people(), alike, 1, "sex", sample=0).differences["remark"].iloc[0]
        )
    assert remark.splitlines() == [
        "fixed: no test, since none of these rows are fixed.",
        "cost: no test, since 5 actions cost the same.",
    ]
    assert not len(audit(explainer_of_people(), frame, 1, sample=0).differences)


# Protected columns


def test_protected_columns_are_measured_for_every_group():
    rng = np.random.default_rng(0)
    frame = people(240).assign(c=rng.integers(0, 2, 240))
    model = linear([1.0, 1.0, 0.7], 0.0)
    rules = [cp.Immutable("c", protected=True), cp.Bounds("a", rise=1.0)]
    explainer = cp.Explainer(model, data=frame[["a", "b", "c"]], constraints=rules)
    found = audit(explainer, frame, 1, "sex")
    assert found.protected is not None
    X = frame[["a", "b", "c"]]
    other = model.predict(X.assign(c=1 - X["c"])) != model.predict(X)
    score = model.decision_function(X)
    contribution = score - np.mean([model.decision_function(X.assign(c=c)) for c in X["c"]], axis=0)
    for name in ("all", "f", "m"):
        mine = np.ones(240, bool) if name == "all" else (frame["sex"] == name).to_numpy()
        line = found.protected.groups.loc[name]
        assert (line["rows"], line["undecided"]) == (mine.sum(), 0)
        assert line["decided"] == other[mine].sum()
        assert line["decided_share"] == pytest.approx(other[mine].mean())
        assert line["decided_low"] < line["decided_share"] < line["decided_high"]
        assert line["contribution"] == pytest.approx(contribution[mine].mean())
        lacks = mine & (score < 0)
        share = contribution[lacks].sum() / score[lacks].sum()
        assert line["missing_share"] == pytest.approx(share)
    assert 0 < other.sum() < 240
    text = str(found)
    assert "Protected: c. Asked about 240 rows." in text
    assert f"{100 * other.mean():.1f} %" in text
    words = Words(found.to_html()).text
    assert "decided by it alone" in words
    assert f"{100 * other.mean():.1f}\N{NO-BREAK SPACE}%" in found.to_html()


def test_a_protected_column_that_the_model_does_not_take_decides_nothing():
    frame = people(60)
    explainer = cp.Explainer(linear([1.0, 1.0], 0.0), data=frame[["a", "b"]])
    texts = Texts({"sex": Wording(name="gender")})
    found = audit(explainer, frame, 1, sample=0, protected=["sex"], texts=texts)
    said = "gender is no column of the model: no decision rests on it directly."
    assert said in str(found)
    assert said in Words(found.to_html()).text
    both = audit(explainer, frame, 1, sample=0, protected=["sex", "b"])
    assert both.protected is not None
    assert both.protected.unused == ("sex",)
    assert both.protected.influence is not None
    assert both.protected.influence.features == ("b",)
    with pytest.raises(cp.InvalidInput, match="columns of the rows as protected=; got 'gender'"):
        audit(explainer, frame, 1, protected=["gender"])


def test_protected_columns_are_asked_about_a_sample_of_many_rows():
    frame = people(200)
    rules = cp.Immutable("b", protected=True)
    explainer = cp.Explainer(linear([1.0, 1.0], 0.0), data=frame[["a", "b"]], constraints=rules)
    found = audit(explainer, frame, 1, "sex", sample=0, protected_sample=30)
    assert found.protected is not None
    assert found.protected.groups["rows"].tolist()[0] == 30
    assert found.protected.groups["rows"].sum() == 60
    assert audit(explainer, frame, 1, sample=0, protected=()).protected is None
    bare = cp.Explainer(linear([1.0, 1.0], 0.0), cost=cp.Manhattan(), constraints=rules)
    with pytest.raises(cp.InvalidInput, match="Pass data= to the Explainer"):
        audit(bare, frame, 1, sample=0)


# What it says


def test_an_audit_says_what_fixed_means_and_why_an_interval_is_missing():
    frame = people().assign(sex=["x", "x", *["m"] * 398])
    frame.loc[:1, ["a", "b"]] = -0.2
    with pytest.warns(UserWarning, match="Group 'x'"):
        found = audit(explainer_of_people(), frame, 1, "sex", sample=0)
    text = str(found)
    assert 'fixed: It is proved that no change within the rules leads to "1".' in text
    assert "x: 2 rows with an action are too few" in text
    assert "inf" not in text
    assert "nan" not in text
    assert "it takes 6" in found.groups.loc["x", "remark"]
    assert found.groups.loc["m", "remark"] == ""


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("yes", '"yes"'),
        (cp.OtherLabel(), "a decision other than the present one"),
        (cp.Probability("yes", 0.8), 'a probability of at least 80 % of "yes"'),
        (cp.Interval(low=3.0), "a prediction of at least 3"),
        (cp.Interval(1.0, 2.5), "a prediction between 1 and 2.5"),
    ],
)
def test_targets_are_said_so_that_they_fit_a_sentence(target: Any, text: str):
    target = target if isinstance(target, cp.Target) else cp.Label(target)
    assert AuditWords.of(None, (), None).target(target) == text


def test_an_audit_speaks_as_the_texts_do(tmp_path: Path):
    (tmp_path / "texts.toml").write_text(
        "decisions.1 = 'approved'\n[features.a]\nname = 'yearly income'\nunit = 'EUR'\n"
        "scale = 1000\n[features.b]\nname = 'age'\n"
        "[features.sex]\nname = 'gender'\nvalues.f = 'women'\nvalues.m = 'men'\n"
    )
    found = audit(explainer_of_people(), people(), 1, "sex", texts=tmp_path / "texts.toml")
    assert [*found.constraints.index] == [
        "age is immutable",
        "yearly income rises by at most 1,000 EUR",
    ]
    assert "women against men" in str(found)
    assert "leads to approved" in str(found)
    counts = found.groups.loc["all"]
    assert f"Of 400 rows, the model gives approved to {counts['already']} already." in (
        found.summary()
    )
    assert f"for {counts['fixed']} ({100 * counts['fixed_share']:.1f} %) it is proved" in (
        found.summary()
    )
    left, *_ = found.plot().axes
    legend = left.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["women", "men"]
    assert legend.get_title().get_text() == "gender"
    assert {*found.groups.index} == {"all", "f", "m"}  # data keep their labels
    with pytest.raises(cp.InvalidInput, match="texts about columns of the rows"):
        audit(explainer_of_people(), people(), 1, texts=Texts({"height": Wording(name="height")}))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (cp.Bounds("a", low=1, high=2, fall=0), "size is between 1 and 2 cm and never falls"),
        (cp.Bounds("a", low=3, high=3), "size is 3 cm"),
        (cp.Bounds("a", high=0.5, rise=1), "size is at most 0.5 cm and rises by at most 1 cm"),
        (cp.Bounds("a"), "size has no bound"),
        (cp.Immutable("a", "b"), "size and b are immutable"),
        (cp.Linear({"a": 2.0, "b": -1.0}, high=3), "2 × size - b is at most 3"),
        (cp.SameChange("a", "b"), "size and b change by the same amount"),
        (cp.MaxChanges(2), "at most 2 features may change"),
    ],
)
def test_rules_are_said_with_the_names_of_the_texts(rule: cp.Constraint, text: str):
    texts = Texts({"a": Wording(name="size", unit="cm")})
    assert AuditWords.of(texts, ("a", "b"), None).rule(rule) == text
    assert AuditWords.of(None, ("a", "b"), None).rule(rule) == str(rule)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (cp.Bounds("a", low=1.5, rise=10), "weekly hours are at least 1.5 and rise by at most 10"),
        (cp.Immutable("a"), "weekly hours are immutable"),
        (cp.Monotone("a", "increasing"), "weekly hours only rise"),
        (cp.WithinObserved("a"), "weekly hours stay within what the data showed"),
        (cp.Immutable("a", "b"), "weekly hours and b are immutable"),
        (cp.Monotone("b", "decreasing"), "b only falls"),
    ],
)
def test_rules_agree_with_names_in_the_plural_and_say_units_once(rule: cp.Constraint, text: str):
    texts = Texts({"a": Wording(name="weekly hours", unit="hours", plural=True)})
    assert AuditWords.of(texts, ("a", "b"), None).rule(rule) == text


def test_rules_between_features_are_said_with_the_names_of_categories():
    texts = Texts(
        {
            "rel": Wording(name="relationship", values={"Husband": "a husband", "Wife": "a wife"}),
            "hours": Wording(name="working time", scale=60.0),
        }
    )
    words = AuditWords.of(texts, ("rel", "hours", "mar"), None)
    implied = cp.Implies({"rel": ["Husband", "Wife"]}, {"mar": "Married"})
    assert words.rule(implied) == "if relationship is a husband or a wife, then mar is Married"
    together = cp.Forbidden({"rel": "Wife"}, {"hours": (None, 20)})
    assert words.rule(together) == (
        "never together: relationship is a wife and working time is at most 20 "
        "(numbers as in the data)"
    )


def test_numbers_of_rules_are_no_names_of_columns():
    texts = Texts({1: Wording(name="one"), 2: Wording(name="two", scale=10.0)})
    words = AuditWords.of(texts, (1, 2), None)
    for rule, text in (
        (cp.Immutable(1, protected=True), "one is immutable (protected)"),
        (cp.MaxChanges(2), "at most 2 features may change"),
        (cp.Bounds(2, low=1.5, rise=0.1), "two is at least 15 and rises by at most 1"),
        (cp.Clearance(2, 1), "two ends at least 1 beyond each threshold that it crosses"),
    ):
        assert words.rule(rule).removesuffix(" (numbers as in the data)") == text
    assert words.rule(cp.Linear({2: 1.0}, low=3)) == "two is at least 3 (numbers as in the data)"


def test_what_data_showed_is_no_rule_but_is_said():
    frame = people()
    model = linear([1.0, 1.0], -3.0)
    explainer = cp.Explainer(model, data=frame[["a", "b"]], constraints=cp.Immutable("b"))
    found = audit(explainer, frame, 1, sample=50)
    assert [*found.constraints.index] == ["b is immutable"]
    # a row is fixed just if b and the largest a of the data do not do; without that end none is
    np.testing.assert_array_equal(found.fixed, frame["b"] + frame["a"].max() < 3)
    assert 0 < np.count_nonzero(found.fixed) < 400
    assert found.observed is not None
    assert found.observed.frees == 1.0
    assert "100.0 % of these fixed rows would have an action" in " ".join(str(found).split())
    free = cp.Explainer(model, data=frame[["a", "b"]], extrapolate=True)
    assert audit(free, frame, 1).observed is None


# The page


class Words(HTMLParser):
    """Text of a page and what it loads; fails where an element is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts, self.open, self.loaded = list[str](), list[str](), list[str]()
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [f"{tag} {value}" for name, value in attrs if name in ("src", "data")]
        if tag in ("script", "link", "img", "iframe"):
            self.loaded.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_a_page_stands_alone_and_says_all_that_the_audit_does(tmp_path: Path):
    explainer, frame = explainer_of_people(), people()
    found = audit(explainer, frame, 1, "sex")
    page = found.to_html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text(encoding="utf-8") == page
    words = Words(page)
    assert not words.loaded
    assert "url(http" not in page
    assert "@import" not in page
    for name in ("f", "m"):
        for count in ("rows", "already", "answered", "fixed"):
            assert f">{found.groups.loc[name, count]:,}<" in page
    for text in (
        'It is proved that no change within the rules leads to "1"',
        f"p = {found.differences.loc['f', 'fixed_p']:.2f}",
        "a rises by at most 1",
        "LogisticRegression",
        found.answers[0].to_record()["model"]["fingerprint"],
        found.made["time"],
        "cost of an action",  # in the picture, as text
    ):
        assert text in words.text
    for python in ("True", "None", "nan", "inf ", "Manhattan(", "Immutable("):
        assert python not in words.text


def test_a_page_shows_names_as_text_whatever_they_hold():
    name = '<b>$x_1$ & "y"</b>'
    frame = people().rename(columns={"sex": name})
    frame[name] = np.where(frame[name] == "f", "_<i>", "m")
    page = audit(explainer_of_people(), frame, 1, name).to_html()
    words = Words(page)
    assert "<b>" not in page
    assert "<i>" not in page
    assert words.text.count(name) == 2 + 1  # below the title, in the table, and in the picture
    assert words.text.count("_<i>") > 3
    curves = page[page.index("<svg") : page.index("</svg>")]
    assert "_&lt;i&gt;" in curves


def test_a_page_of_rows_that_all_have_the_target_has_no_picture():
    found = audit(explainer_of_people(), pd.DataFrame({"a": [1.0], "b": [1.0]}), 1)
    page = found.to_html()
    assert "Nobody needs an action." in Words(page).text
    assert "<svg" not in page


def test_groups_in_which_nobody_needs_an_action_have_no_curve():
    frame = people().assign(sex=["x"] * 30 + ["m"] * 370)
    frame.loc[:29, ["a", "b"]] = 2.0
    with pytest.warns(UserWarning, match="Group 'x' has 0 rows"):
        found = audit(explainer_of_people(), frame, 1, "sex", sample=0)
    (axes,) = found.plot().axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["m"]
    assert "x: no row needs an action." in Words(found.to_html()).text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (None, "each divided by the feature's spread in the data"),
        (cp.Manhattan({"a": 2.0, "b": 1.0}), "times the weight of its feature; weights: a 2, b 1."),
        (cp.Mahalanobis(np.eye(2)), "the squared Mahalanobis distance of the change."),
    ],
)
def test_a_page_says_what_a_change_costs(cost: cp.Cost | None, text: str):
    explainer = cp.Explainer(linear([1.0, 1.0], 0.0), data=people()[["a", "b"]], cost=cost)
    assert text in Words(audit(explainer, people(60), 1, sample=0).to_html()).text


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
    def refused(box: Any, *constraints: cp.Constraint, target: Any = 1) -> str:
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
    for wrong in ("12", (0, 10**400), (0, None), [0, [1]], (0, 1, 2), {0: 1}):
        assert "lowest and a highest value of 'a'" in refused(box | {"a": wrong})
    assert "categories of 'b'" in refused(box | {"b": [2]})
    for wrong in (5, 2.5, [], [[0]], [{}], [0, [1]], np.array([0, 2]), pd.NA, [pd.NA], "01", b"0"):
        assert "categories of 'b'" in refused(box | {"b": wrong})
    assert "There is no feature 'c'" in refused(box | {"c": (0, 1)})
    for wrong in (None, "a", [("a", (0, 1))], pd.Series(box)):
        assert "a mapping from names" in refused(wrong)


@pytest.mark.parametrize("several", [(0, 1), {0, 1}, np.array([0, 1]), pd.Series([0, 1])])
def test_categories_of_a_box_come_in_every_container(several: Any):
    explainer = cp.Explainer(
        linear([1.0, 1.0], -9.0),
        features=[cp.Integer("a"), cp.Categorical("b", (0, 1))],
        cost=cp.Manhattan(),
        constraints=cp.Immutable("a"),
    )
    assert confined(explainer, {"a": (0, 1), "b": several}, 1).proved


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
    Path("texts.toml").write_text("[features.a]\nname = 'income'\n")
    files = ["--plot", "audit.png", "--records", "rows.parquet", "--out", "groups.csv"]
    files += ["--html", "audit.html", "--texts", "texts.toml", "--protected", "b"]
    shown = CliRunner().invoke(app, call)
    assert shown.exit_code == 0, shown.output
    assert "a rises by at most 0.5" in shown.stdout
    written = CliRunner().invoke(app, [*call, *files])
    assert written.exit_code == 0, written.output
    assert [*pd.read_csv("groups.csv")["group"]] == ["all", "f", "m"]
    assert cp.recheck("rows.parquet", model).ok
    assert Path("audit.png").stat().st_size > 1000
    assert (
        "Protected: b. Asked about 200 rows." in Words(Path("audit.html").read_text("utf-8")).text
    )
    assert "income rises by at most 0.5" in Words(Path("audit.html").read_text("utf-8")).text
    assert "Wrote the page to audit.html." in written.stderr
    for option in (
        ["--html", "audit.txt"],
        ["--html", "nowhere/audit.html"],
        ["--html", "rows.csv"],
        ["--plot", "audit.txt"],
        ["--records", "rows.csv"],
        ["--out", "rows.csv"],
    ):
        assert CliRunner().invoke(app, [*call, *option]).exit_code == 2


@pytest.mark.parametrize(("n", "m"), [(1, 200), (200, 1), (2, 150)])
def test_a_small_group_among_many_rows_is_not_judged_by_an_approximation(n: int, m: int):
    """Exact by counting: the small group has the highest costs, and there are no ties."""
    costs = np.arange(1.0, n + m + 1)
    result = rank_test(costs[m:], costs[:m]) if n < m else rank_test(costs[:n], costs[n:])
    exact = 2.0 / comb(n + m, min(n, m))
    assert result.p == pytest.approx(exact, rel=0.25, abs=2e-4)
    assert result.smallest <= result.p
