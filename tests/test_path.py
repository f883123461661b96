"""A path is its answers one by one, and trade-offs follow a law along it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies as make
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp

SAME = 1e-9
"""Relative: what objectives in a batch may differ from those one by one."""
PARTS = 1e-6
"""The same of the two parts of a trade-off: at its optimum, moving by the root of what is left of
the objective trades one for the other."""
WEIGHTS = np.geomspace(30.0, 1e-3, 12)
INVERTED = [cp.Probability("b", p) for p in (0.3, 0.6, 0.9)]
LABELS = [cp.Label("b", margin) for margin in (0.0, 1.0)]


def tradeoffs(label: Any = "b", weights: Any = WEIGHTS) -> list[cp.Target]:
    return [cp.Tradeoff(label, weight) for weight in weights]


# Problems: numbers alone, three classes; and every kind of column, two classes


def numbers(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    index = pd.Index([f"person {i}" for i in range(n)], name="who")
    return pd.DataFrame(rng.normal(size=(n, 4)), columns=list("wxyz"), index=index)


def softmax(data: pd.DataFrame) -> Any:
    turned = data.to_numpy() @ np.random.default_rng(5).normal(size=(4, 3))
    labels = np.array(["a", "b", "c"])[turned.argmax(axis=1)]
    return LogisticRegression(C=0.5, max_iter=1000).fit(data, labels)


def mixed(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    return pd.DataFrame(
        {
            "income": rng.normal(30.0, 8.0, size=n),
            "age": rng.integers(20, 70, size=n),
            "home": rng.choice(["own", "rent", "free"], size=n),
            "plan": pd.Categorical(rng.choice(["basic", "full"], size=n), ["basic", "full"]),
            "member": rng.random(n) < 0.5,
        },
        index=[f"person {i}" for i in range(n)],
    )


def binary(data: pd.DataFrame) -> Any:
    total = 0.1 * data["income"] + 0.03 * data["age"] + (data["home"] == "own") + data["member"]
    before = ColumnTransformer(
        [
            ("number", StandardScaler(), ["income", "age"]),
            ("word", OneHotEncoder(), ["home", "plan", "member"]),
        ]
    )
    labels = np.where(total > total.median(), "b", "a")
    return make_pipeline(before, LogisticRegression(C=0.3)).fit(data, labels)


def explainer_of(kind: str, cost: str, constraints: Any = ()) -> tuple[cp.Explainer, pd.DataFrame]:
    data = numbers() if kind == "numbers" else mixed()
    model = softmax(data) if kind == "numbers" else binary(data)
    encoded_cost = make.COSTS[cost](np.random.default_rng(7), cp.Features.from_data(data))
    return cp.Explainer(
        model, data=data, extrapolate=True, cost=encoded_cost, constraints=constraints
    ), data


@pytest.fixture(scope="module")
def plain() -> tuple[cp.Explainer, pd.DataFrame]:
    data = numbers()
    return cp.Explainer(
        softmax(data), data=data, extrapolate=True, cost=cp.SquaredEuclidean()
    ), data


everywhere = pytest.mark.parametrize("kind", ["numbers", "mixed"])
every_cost = pytest.mark.parametrize("cost", sorted(make.COSTS))


def bounded(kind: str) -> list[cp.Constraint]:
    if kind == "numbers":
        return [cp.Bounds("w", fall=0.5, rise=0.5), cp.Immutable("x")]
    return [cp.Immutable("age"), cp.WithinObserved()]


# What a path is


@pytest.mark.parametrize(("cost", "weight"), [("manhattan", 0.1084), ("squared euclidean", 1.8034)])
def test_points_that_miss_linear_rows_by_a_trace_are_still_improved(cost: str, weight: float):
    ask, data = explainer_of("mixed", cost, ())
    answers = ask.explain(data[:3], cp.Tradeoff("b", weight))
    assert answers.status.tolist() == ["optimal"] * 3


@pytest.mark.covering(1)
@everywhere
@every_cost
@pytest.mark.parametrize("constrained", [False, True])
def test_a_path_is_its_answers_one_by_one(kind: str, cost: str, constrained: bool):
    ask, data = explainer_of(kind, cost, bounded(kind) if constrained else ())
    targets = [*tradeoffs(weights=WEIGHTS[::3]), *INVERTED, *LABELS, "a", cp.OtherLabel()]
    path = cp.trace(ask, data[:3], targets)
    assert len(path) == 3
    assert path.targets == (*targets[:-2], cp.Label("a"), cp.OtherLabel())
    for k, target in enumerate(targets):
        alone = ask.explain(data[:3], target)
        assert path.status[:, k].tolist() == alone.status.tolist()
        np.testing.assert_array_equal(path.found[:, k], alone.found)
        parts = PARTS if isinstance(target, cp.Tradeoff) else SAME
        close = {"objective": SAME, "bound": SAME, "cost": parts, "probability": parts}
        for name, rounding in close.items():
            there = getattr(alone.certificates, name)
            np.testing.assert_allclose(getattr(path, name)[:, k], there, rtol=rounding, atol=1e-12)
        assert (np.nan_to_num(path.gap[:, k]) <= 1e-6).all()
        answers = path.answers[k]
        assert answers.table is path.answers[0].table
        moved = np.abs(answers.after - answers.before).max()
        np.testing.assert_allclose(answers.after, alone.after, rtol=0, atol=1e-6 * (1.0 + moved))


@pytest.mark.covering(2)
@everywhere
@every_cost
@pytest.mark.parametrize("constrained", [False, True])
def test_a_smaller_weight_buys_no_less(kind: str, cost: str, constrained: bool):
    """Cost and probability rise as the weight falls, up to what the gaps leave open.

    Two answers with weights λ > μ are within ε of the least objective λ/2 · cost − log p, and δ of
    that with μ. Adding up what each says of the other, (λ − μ)/2 (cost_λ − cost_μ) ≤ ε + δ, and
    (λ − μ)(log p_λ − log p_μ) ≤ μ ε + λ δ: convexity has no part in it.
    """
    ask, data = explainer_of(kind, cost, bounded(kind) if constrained else ())
    path = cp.trace(ask, data[:2], tradeoffs())
    assert path.found.all()
    surely = np.maximum(path.objective - path.bound, 0.0) + 1e-13 * path.objective
    here, there = surely[:, :-1], surely[:, 1:]
    large, small = WEIGHTS[:-1], WEIGHTS[1:]
    log = np.log(path.probability)
    assert (-np.diff(path.cost) * (large - small) / 2.0 <= here + there).all()
    assert (-np.diff(log) * (large - small) <= small * here + large * there).all()
    assert (path.cost[:, -1] > path.cost[:, 0]).all()
    assert (path.probability[:, -1] > path.probability[:, 0]).all()


def test_the_order_is_that_of_the_targets(plain: Any):
    ask, data = plain
    both = [t for pair in zip(tradeoffs("c"), tradeoffs("a"), strict=True) for t in pair]
    both.insert(3, cp.Probability("b", 0.5))
    shuffled = [both[k] for k in np.random.default_rng(0).permutation(len(both))]
    there = cp.trace(ask, data[:4], both)
    path = cp.trace(ask, data[:4], iter(shuffled))
    assert path.targets == tuple(shuffled)
    at = [both.index(target) for target in shuffled]
    np.testing.assert_allclose(path.objective, there.objective[:, at], rtol=SAME)
    np.testing.assert_allclose(path.probability, there.probability[:, at], rtol=PARTS)


def test_a_hundred_weights_are_one_batch(plain: Any, monkeypatch: pytest.MonkeyPatch):
    """The model is asked as often as in one call: the time of a path is that of few calls."""
    ask, data = plain
    asked: list[int] = []
    for name in ("predict", "predict_proba"):
        method = getattr(ask.model, name)
        monkeypatch.setattr(
            ask.model, name, lambda X, method=method: (asked.append(len(X)), method(X))[1]
        )
    ask.explain(data[:20], cp.Tradeoff("b", 0.1))
    once = len(asked)
    path = cp.trace(ask, data[:1], tradeoffs(weights=np.geomspace(1e2, 1e-4, 100)))
    assert path.found.shape == (1, 100)
    assert len(asked) == 2 * once


# What it says


def test_changes_are_those_of_the_answers():
    ask, data = explainer_of("mixed", "manhattan")
    path = cp.trace(ask, data[:4], [*tradeoffs(weights=WEIGHTS[::3]), cp.Probability("b", 0.95)])
    assert path.changes.shape == path.moved.shape == path.changed.shape == (4, 5, 5)
    np.testing.assert_array_equal(path.changes != 0.0, path.changed)
    for k, answers in enumerate(path.answers):
        after, before = answers.to_frame(), data[:4]
        for j, name in enumerate(data):
            if name in ("income", "age"):
                change = after[name] - before[name]
                np.testing.assert_allclose(path.changes[:, k, j], change, atol=1e-12)
            else:
                different = [a != b for a, b in zip(after[name], before[name], strict=True)]
                np.testing.assert_array_equal(path.changes[:, k, j], different)
    assert set(np.unique(path.changes[:, :, 2:])) == {0.0, 1.0}
    np.testing.assert_allclose(np.abs(path.moved).sum(axis=2), path.cost, rtol=1e-12)


@everywhere
def test_moved_adds_up_to_the_cost(kind: str):
    for cost, total in (("manhattan", np.abs), ("squared euclidean", np.square)):
        ask, data = explainer_of(kind, cost)
        path = cp.trace(ask, data[:3], tradeoffs(weights=WEIGHTS[::3]))
        assert path.is_squared == (cost != "manhattan")
        np.testing.assert_allclose(total(path.moved).sum(axis=2), path.cost, rtol=1e-12)


def test_one_row_of_a_path_is_a_path(plain: Any):
    ask, data = plain
    path = cp.trace(ask, data[:5], [*tradeoffs(), *INVERTED])
    for i, one in enumerate(path):
        assert len(one) == 1
        for name in ("cost", "bound", "probability", "objective", "gap"):
            np.testing.assert_array_equal(getattr(one, name), getattr(path, name)[[i]])
        np.testing.assert_array_equal(one.changes, path.changes[[i]])
        assert one.answers[2].to_frame().index.tolist() == [f"person {i}"]
    np.testing.assert_array_equal(path[-1].cost, path[4].cost)
    with pytest.raises(IndexError):
        path[5]


def test_one_row_however_it_is_passed(plain: Any):
    ask, data = plain
    expected = cp.trace(ask, data[:1], tradeoffs()).cost
    for row in (data.iloc[0], data.iloc[0].to_dict(), data.iloc[0].to_numpy()):
        np.testing.assert_allclose(cp.trace(ask, row, tradeoffs()).cost, expected, rtol=PARTS)


def test_no_rows_at_all(plain: Any):
    ask, data = plain
    path = cp.trace(ask, data[:0], [*tradeoffs(), *INVERTED])
    assert len(path) == 0
    assert path.cost.shape == (0, 15)
    assert path.changes.shape == (0, 15, 4)
    assert len(path.to_frame()) == 0
    assert path.summary().startswith("0 rows, 15 targets: none")


def test_a_path_can_be_kept(plain: Any):
    ask, data = plain
    path = cp.trace(ask, data[:2], [*tradeoffs(), *INVERTED])
    kept = pickle.loads(pickle.dumps(path[0]))  # noqa: S301 (our own)
    np.testing.assert_array_equal(kept.cost, path.cost[:1])


def test_progress_counts_all_answers(plain: Any, monkeypatch: pytest.MonkeyPatch):
    ask, data = plain
    counted = []

    @contextmanager
    def track(total: int, *, show: bool | None) -> Iterator[Any]:
        assert (total, show) == (30, True)
        yield counted.append

    monkeypatch.setattr("counterpoint.path.track", track)
    cp.trace(ask, data[:2], [*tradeoffs(), *INVERTED], progress=True)
    assert sum(counted) == 30


# Rows without an answer


def test_a_row_that_fails_keeps_its_place(plain: Any):
    ask, data = plain
    rows = data[:4].copy()
    rows.iloc[1, 2] = np.nan
    path = cp.trace(ask, rows, [*tradeoffs(), *INVERTED])
    kept = cp.trace(ask, data[:4], [*tradeoffs(), *INVERTED])
    assert (path.status[1] == cp.Status.INVALID).all()
    assert not path.found[1].any()
    for name in ("cost", "probability", "objective", "changes", "moved"):
        assert np.isnan(getattr(path, name)[1]).all()
        others = [0, 2, 3]
        left, right = getattr(path, name)[others], getattr(kept, name)[others]
        np.testing.assert_allclose(left, right, rtol=PARTS, atol=PARTS)
    for answers in path.answers:
        assert "column 'y'" in answers[1].message
        assert not answers[0].changes.keys() - set("wxyz")
    with pytest.raises(cp.NoAnswer):
        path[1].answers[0][0].raise_for_status()


def test_a_row_without_an_answer_says_why(plain: Any):
    _, data = plain
    rows = data[:3].assign(w=[0.0, 5.0, 0.0])
    limits = [cp.Linear({"w": 1.0}, high=3.0), cp.Immutable("w")]
    ask = cp.Explainer(
        softmax(data), data=data, extrapolate=True, cost=cp.SquaredEuclidean(), constraints=limits
    )
    path = cp.trace(ask, rows, [*tradeoffs(), *INVERTED])
    assert path.found[[0, 2]].all()
    assert (path.status[1] == cp.Status.INFEASIBLE).all()
    assert np.isposinf(path.bound[1]).all()
    for k in (0, len(WEIGHTS) - 1, len(WEIGHTS)):
        alone = ask.explain(rows, path.targets[k])
        assert str(path.answers[k][1].conflict) == str(alone[1].conflict)
        assert path.answers[k][0].conflict is None
        assert str(path[1].answers[k][0].conflict) == str(alone[1].conflict)
    cells = path.to_frame()
    assert cells.loc["person 1", list("wxyz")].isna().all(axis=None)
    assert cells.loc["person 2", list("wxyz")].notna().all(axis=None)


def test_missing_cells_stay_missing_where_nothing_changes():
    from sklearn.impute import SimpleImputer

    data = numbers()
    data.iloc[:5, 1] = np.nan
    labels = softmax(numbers()).predict(numbers())
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(data, labels)
    ask = cp.Explainer(model, data=data, extrapolate=True)
    path = cp.trace(ask, data[:3], tradeoffs(weights=[1e6, 1e-3]))
    assert path.found.all()
    assert (path.changes[:, 0] == 0.0).all()
    assert path.to_frame().loc["person 0", "x"].isna().iloc[0]


# Frames


def test_the_frame_has_one_line_for_each_answer(plain: Any):
    ask, data = plain
    path = cp.trace(ask, data[:3], [*tradeoffs(), cp.Probability("c", 0.7)])
    cells = path.to_frame()
    assert list(cells) == [
        *["row", "label", "weight", "at_least", "status", "probability", "cost", "gap"],
        *"wxyz",
    ]
    assert cells["row"].tolist() == np.repeat(range(3), 13).tolist()
    assert cells.index.tolist() == np.repeat(data.index[:3], 13).tolist()
    assert cells.index.name == "who"
    assert cells["label"].tolist() == [*["b"] * 12, "c"] * 3
    np.testing.assert_array_equal(cells["weight"][:12], WEIGHTS)
    assert cells["weight"].isna().tolist() == [*[False] * 12, True] * 3
    assert cells["at_least"].isna().tolist() == [*[True] * 12, False] * 3
    assert set(cells["status"]) <= {"optimal", "already"}
    for name in ("probability", "cost", "gap"):
        np.testing.assert_array_equal(cells[name], getattr(path, name).ravel())
    answers = cells[list("wxyz")].to_numpy().reshape(3, 13, 4)
    np.testing.assert_array_equal(answers, path.after)
    proba = ask.model.predict_proba(cells[list("wxyz")])[:, 1]
    wanted = cells["label"] == "b"
    np.testing.assert_allclose(cells["probability"][wanted], proba[wanted], rtol=1e-12)


@pytest.mark.parametrize("broken", [False, True])
def test_frames_come_back_in_their_library(broken: bool):
    data = mixed().reset_index(drop=True)
    ask = cp.Explainer(binary(data), data=data, extrapolate=True)
    rows = data[:4].copy()
    if broken:
        rows.loc[2, "income"] = np.nan
    some = tradeoffs(weights=WEIGHTS[::4])
    path = cp.trace(ask, rows, some)
    cells = path.to_frame()
    assert isinstance(cells, pd.DataFrame)
    if not broken:
        assert cells[list(data)].dtypes.equals(data.dtypes)
    assert cells[list(data)].isna().any(axis=1).tolist() == (~path.found.ravel()).tolist()

    polars = pl.from_pandas(data)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(polars[["income", "age"]], ask.model.predict(data))
    two = polars[:4][["income", "age"]]
    if broken:
        two = two.with_columns(income=pl.Series([1.0, 2.0, None, 3.0]))
    ask = cp.Explainer(model, data=polars[["income", "age"]], extrapolate=True)
    path = cp.trace(ask, two, some)
    cells = path.to_frame()
    assert isinstance(cells, pl.DataFrame)
    assert cells.schema["age"] == polars.schema["age"]
    assert cells.schema["label"] == pl.String
    assert cells.schema["weight"] == pl.Float64
    assert cells["age"].is_null().to_list() == (~path.found.ravel()).tolist()
    assert cells["income"].is_null().to_list() == (~path.found.ravel()).tolist()


def test_arrow_and_arrays(plain: Any):
    ask, data = plain
    arrow = pa.Table.from_pandas(data[:3], preserve_index=False)
    expected = cp.trace(ask, data[:3], tradeoffs())
    named = cp.Explainer(softmax(data), data=data, extrapolate=True, cost=cp.SquaredEuclidean())
    cells = cp.trace(named, data[:3].to_numpy(), tradeoffs()).to_frame()
    assert isinstance(cells, pd.DataFrame)
    assert cells.index.equals(pd.RangeIndex(36))
    np.testing.assert_allclose(cells[list("wxyz")], expected.to_frame()[list("wxyz")], atol=PARTS)
    broken = data[:3].to_numpy(copy=True)
    broken[1, 1] = np.nan
    cells = cp.trace(named, broken, tradeoffs()).to_frame()
    assert cells["x"].isna().tolist() == np.repeat([False, True, False], 12).tolist()

    model = LogisticRegression().fit(pl.from_pandas(data), softmax(data).predict(data))
    cells = cp.trace(
        cp.Explainer(model, data=data, extrapolate=True), arrow, tradeoffs()
    ).to_frame()
    assert isinstance(cells, pa.Table)
    assert cells.column_names[-4:] == list("wxyz")
    assert len(cells) == 36


def test_an_index_may_repeat_itself():
    data = mixed()
    ask = cp.Explainer(binary(data), data=data, extrapolate=True)
    rows = data[:4].set_axis(["one", "two", "one", "one"])
    targets = [*tradeoffs(weights=WEIGHTS[::4]), *INVERTED]
    path = cp.trace(ask, rows, targets)
    plain = cp.trace(ask, data[:4], targets)
    np.testing.assert_array_equal(path.cost, plain.cost)
    cells = path.to_frame()
    assert cells.index.tolist() == np.repeat(rows.index, len(targets)).tolist()
    pd.testing.assert_frame_equal(
        cells.reset_index(drop=True), plain.to_frame().reset_index(drop=True)
    )


def test_frames_without_names_go_by_position(plain: Any):
    _, data = plain
    rows = data.to_numpy()
    model = LogisticRegression().fit(rows, softmax(data).predict(data))
    ask = cp.Explainer(model, data=rows, extrapolate=True, cost=cp.SquaredEuclidean())
    cells = cp.trace(ask, pd.DataFrame(rows[:2]), tradeoffs()).to_frame()
    assert list(cells)[-4:] == [0, 1, 2, 3]


def test_a_feature_keeps_its_name(plain: Any):
    _, data = plain
    same = data.set_axis(["row", "weight", "weight_", "cost"], axis=1)
    model = LogisticRegression().fit(same, softmax(data).predict(data))
    path = cp.trace(cp.Explainer(model, data=same, extrapolate=True), same[:2], tradeoffs())
    cells = path.to_frame()
    assert list(cells)[:3] == ["row_", "label", "weight__"]
    np.testing.assert_array_equal(cells["cost_"], path.cost.ravel())
    np.testing.assert_array_equal(cells["cost"], path.after[:, :, 3].ravel())


def test_columns_that_are_no_features_stay_out(plain: Any):
    ask, data = plain
    rows = data[:2][list("zyxw")].assign(note="for the file")
    path = cp.trace(ask, rows, [*tradeoffs(), *INVERTED])
    assert list(path.to_frame())[-4:] == list("wxyz")
    assert list(path.answers[0].to_frame()) == [*"zyxw", "note"]


@pytest.mark.parametrize(
    ("targets", "columns"),
    [
        (["a", "b"], {"label": ["a", "b"], "margin": [0.0, 0.0]}),
        ([{"a"}, np.str_("c")], {"label": ["a", "c"], "margin": [0.0, 0.0]}),
        ([("a", "b"), "c"], {"label": ["a, b", "c"], "margin": [0.0, 0.0]}),
        (
            [cp.OtherLabel("a"), cp.OtherLabel(), cp.Label("b", 0.5)],
            {"label": [None, None, "b"], "than": ["a", None, None], "margin": [0.0, 0.0, 0.5]},
        ),
    ],
)
def test_the_parameters_of_labels(plain: Any, targets: Any, columns: Any):
    ask, data = plain
    cells = cp.trace(ask, data[:1], targets).to_frame()
    assert list(cells)[1 : 1 + len(columns)] == list(columns)
    for name, values in columns.items():
        got = cells[name].astype(object)
        assert got.where(got.notna(), None).tolist() == values


def test_intervals_of_a_regressor():
    data = numbers()
    model = LinearRegression().fit(data, data.to_numpy() @ [1.0, 2.0, -1.0, 0.5])
    targets = [cp.Interval(low=v) for v in (1.0, 2.0, 3.0)]
    path = cp.trace(cp.Explainer(model, data=data, extrapolate=True), data[:5], targets)
    assert path.found.all()
    assert np.isnan(path.probability).all()
    assert (np.diff(path.cost) >= 0.0).all()
    cells = path.to_frame()
    assert list(cells)[:3] == ["row", "low", "status"]
    assert (model.predict(cells[list("wxyz")]) >= cells["low"]).all()
    assert path.varied == "low"


# Summaries


def test_a_summary_says_where_the_path_goes(plain: Any):
    ask, data = plain
    lines = cp.trace(ask, data[:1], tradeoffs()).summary().splitlines()
    assert lines[0] == "1 row, 12 targets: 12 optimal"
    assert lines[1] == "targets: Tradeoff(label='b') with weight from 30 to 0.001"
    assert [line.split(":")[0] for line in lines[2:]] == [
        *["probability", "cost", "largest gap", "moves most"]
    ]
    path = cp.trace(ask, data[:2], [cp.Tradeoff("b", 0.1)])
    assert repr(path) == "<Path: 2 rows, 1 target: 2 optimal>"
    assert "targets: Tradeoff(label='b', weight=0.1)" in path.summary()
    assert " to " not in path.summary()
    labels = cp.trace(ask, data[:2], ["a", "b", "c", cp.Label("a", 0.5)]).summary()
    assert "targets: Label(label='a'); Label(label='b'); Label(label='c'); and 1 more" in labels
    lost = cp.trace(ask, data[:1] * np.nan, tradeoffs()).summary().splitlines()
    assert lost[0] == "1 row, 12 targets: 12 invalid"
    assert len(lost) == 2


@pytest.mark.parametrize(
    ("targets", "varied"),
    [
        (tradeoffs(), "weight"),
        (tradeoffs()[:1], "weight"),
        (INVERTED, "at_least"),
        (LABELS, "margin"),
        ([cp.Interval(low=1.0, high=v) for v in (2.0, 3.0)], "high"),
        ([cp.Interval(high=2.0)], "high"),
        ([cp.Interval(1.0, 2.0), cp.Interval(2.0, 3.0)], None),
        ([cp.Tradeoff("a", 1.0), cp.Tradeoff("b", 1.0)], None),
        ([cp.Tradeoff("a", 1.0), cp.Probability("a", 0.5)], None),
        (["a", "b"], None),
    ],
)
def test_what_varies(targets: Any, varied: str | None):
    as_targets = tuple(t if isinstance(t, cp.Target) else cp.Label(t) for t in targets)
    assert cp.Path(as_targets, (), cp.Manhattan()).varied == varied


# Bad input


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([], r"Expected at least one target, such as .*; got none"),
        (cp.Tradeoff("b", 0.1), r"Expected a list of targets; got Tradeoff\(.*Pass .* \[target\]"),
        ("b", r"Expected a list of targets; got 'b' \(str\)"),
        (None, r"Expected a list of targets; got None"),
        ({"b": 0.1}, r"Expected a list of targets; got \{'b': 0.1\} \(dict\)"),
        ([cp.Tradeoff], r"Expected targets such as cp.Tradeoff.*got <class .*Tradeoff'>"),
        ([{"b": 0.1}], r"Expected a target such as .*; got \{'b': 0.1\}"),
        (["a", "q"], r"Expected a target among the classes \['a', 'b', 'c'\]; got 'q'"),
        (WEIGHTS, r"Expected a target among the classes"),
    ],
)
def test_targets_that_are_none(plain: Any, targets: Any, said: str):
    ask, data = plain
    with pytest.raises(cp.InvalidInput, match=said):
        cp.trace(ask, data[:1], targets)


def test_an_explainer_is_wanted(plain: Any):
    ask, data = plain
    with pytest.raises(cp.InvalidInput, match=r"Expected an Explainer; got .*Pass cp.Explainer"):
        cp.trace(ask.model, data[:1], tradeoffs())


@pytest.mark.parametrize("options", [{"gap": -1.0}, {"time_limit": 0.0}])
def test_options_are_those_of_explain(plain: Any, options: Any):
    ask, data = plain
    with pytest.raises(cp.InvalidInput, match=r"Expected a (finite gap|time limit)"):
        cp.trace(ask, data[:1], tradeoffs(), **options)


def test_an_explainer_traces_itself():
    data = numbers()
    ask = cp.Explainer(softmax(data), data=data)
    path, same = ask.trace(data.head(3), LABELS), cp.trace(ask, data.head(3), LABELS)
    pd.testing.assert_frame_equal(path.to_frame(), same.to_frame())
