"""Combinations that do not occur: brute force, proofs, conflicts, records, and what is refused."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, SplineTransformer
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.lvq import LGMLVQ
from counterpoint.privacy.noise import ProjectedGaussian
from counterpoint.records.record import canonical, digest

pytestmark = pytest.mark.delicate

RNG = np.random.default_rng(0)
HOMES, JOBS = ["loan", "own", "rent"], ["clerk", "driver", "none", "pilot"]
VALUES: dict[str, list[Any]] = {
    "age": [*range(16, 23)],
    "income": [*range(5)],
    "home": HOMES,
    "job": JOBS,
}
PEOPLE = pd.DataFrame({name: RNG.choice(values, 400) for name, values in VALUES.items()})
SCORE = (
    0.6 * (PEOPLE["age"] - 19)
    + 0.8 * (PEOPLE["income"] - 2)
    + 1.2 * (PEOPLE["home"] == "own")
    + 1.5 * (PEOPLE["job"] == "pilot")
    - 1.0 * (PEOPLE["job"] == "none")
    + RNG.normal(0.0, 0.4, 400)
)
GRID = pd.DataFrame([*product(*VALUES.values())], columns=[*VALUES])
"""All rows that data= leaves to an answer."""


def pipeline(numbers: Any, model: Any) -> Any:
    categories = (OneHotEncoder(), ["home", "job"])
    return make_pipeline(make_column_transformer(categories, (numbers, ["age", "income"])), model)


BINS = KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")
MODELS: dict[str, tuple[Any, int]] = {
    "two classes": (pipeline("passthrough", LogisticRegression(max_iter=1000)), 2),
    "three classes": (pipeline("passthrough", LogisticRegression(max_iter=1000)), 3),
    "splines": (pipeline(SplineTransformer(3), LogisticRegression(max_iter=1000)), 2),
    "bins": (pipeline(BINS, LogisticRegression(max_iter=1000)), 3),
    "tree": (pipeline("passthrough", DecisionTreeClassifier(max_depth=5, random_state=0)), 3),
    "forest": (pipeline("passthrough", RandomForestClassifier(8, random_state=0)), 2),
    "boosting": (pipeline("passthrough", HistGradientBoostingClassifier(max_iter=8)), 2),
}
WEIGHTS = {"age": 0.7, "income": 1.1, "home": 1.3, "job": 0.9}
COSTS: dict[str, Any] = {
    "Manhattan": cp.Manhattan(WEIGHTS),
    "squared": cp.SquaredEuclidean(WEIGHTS),
}
FITTED: dict[str, Any] = {}


def fitted(name: str) -> Any:
    if name not in FITTED:
        model, classes = MODELS[name]
        FITTED[name] = model.fit(PEOPLE, np.digitize(SCORE, [-0.5, 1.0] if classes == 3 else [0.5]))
    return FITTED[name]


# --- what the constraints say, in raw terms ---


def meets(rows: pd.DataFrame, condition: dict[str, Any]) -> np.ndarray:
    """Whether rows meet all of a condition."""
    out = np.ones(len(rows), dtype=bool)
    for name, values in condition.items():
        column = rows[name]
        if isinstance(values, tuple):
            low, high = (-np.inf, np.inf)
            low, high = (
                low if values[0] is None else values[0],
                high if values[1] is None else values[1],
            )
            out &= ((column >= low) & (column <= high)).to_numpy()
        else:
            listed = values if isinstance(values, list) else [values]
            out &= column.isin(listed).to_numpy()
    return out


def differs(rows: pd.DataFrame, row: pd.Series, names: set[str]) -> np.ndarray:
    return np.logical_or.reduce([(rows[name] != row[name]).to_numpy() for name in names])


Rule = tuple[str, Any]
"""A kind, and its conditions."""


def made(rule: Rule) -> cp.Constraint:
    kind, conditions = rule
    return cp.Forbidden(*conditions) if kind == "forbidden" else cp.Implies(*conditions)


def excluded(rows: pd.DataFrame, row: pd.Series, rule: Rule) -> np.ndarray:
    """Which rows are no answers to a row."""
    kind, (first, second) = rule
    if kind == "forbidden":
        both = meets(rows, first) & meets(rows, second)
        return both & differs(rows, row, {*first, *second})
    out = np.zeros(len(rows), dtype=bool)
    for name, values in second.items():
        contradicts = meets(rows, first) & ~meets(rows, {name: values})
        side = contradicts
        if isinstance(values, tuple) and None not in values:
            # each side of a number is a combination of its own; the row's own is only on one
            column = rows[name]
            for side in (column < values[0], column > values[1]):
                out |= contradicts & side.to_numpy() & differs(rows, row, {*first, name})
            continue
        out |= side & differs(rows, row, {*first, name})
    return out


def condition(rng: np.random.Generator, names: list[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in names:
        values = VALUES[name]
        if name in ("home", "job"):
            count = int(rng.integers(1, len(values)))
            chosen = rng.choice(values, count, replace=False).tolist()
            out[name] = chosen[0] if count == 1 and rng.random() < 0.5 else chosen
        else:
            low, high = sorted(rng.choice(values, 2).tolist())
            ends = [(low, None), (None, high), (low, high)]
            out[name] = ends[int(rng.integers(3))]
    return out


def rule(rng: np.random.Generator) -> Rule:
    names = rng.permutation([*VALUES]).tolist()
    first = int(rng.integers(1, 3))
    further = int(rng.integers(1, 3))
    sides = condition(rng, names[:first]), condition(rng, names[first : first + further])
    return ("forbidden" if rng.random() < 0.5 else "implies"), sides


BESIDE: list[list[cp.Constraint]] = [
    [],
    [],
    [cp.Immutable("job")],
    [cp.Monotone("age", "increasing"), cp.Bounds("income", rise=1)],
    [cp.MaxChanges(2)],
    [cp.Immutable("age", "income")],
]


def satisfies(rows: pd.DataFrame, row: pd.Series, constraints: list[cp.Constraint]) -> np.ndarray:
    out = np.ones(len(rows), dtype=bool)
    for constraint in constraints:
        if isinstance(constraint, cp.Immutable):
            for name in constraint.features:
                out &= (rows[name] == row[name]).to_numpy()
        elif isinstance(constraint, cp.Monotone):
            out &= (rows[constraint.feature] >= row[constraint.feature]).to_numpy()
        elif isinstance(constraint, cp.Bounds):
            change = rows[constraint.feature] - row[constraint.feature]
            out &= (change <= constraint.rise).to_numpy()
        else:
            out &= ((rows != row).sum(axis=1) <= constraint.count).to_numpy()
    return out


def costs(rows: pd.DataFrame, row: pd.Series, cost: str) -> np.ndarray:
    """What changes cost: of a category, its weight."""
    out = np.zeros(len(rows))
    for name, weight in WEIGHTS.items():
        if name in ("home", "job"):
            out += weight * (rows[name] != row[name]).to_numpy()
        else:
            change = np.abs(rows[name].to_numpy() - row[name])
            out += weight * (change if cost == "Manhattan" else change**2)
    return out


def question(seed: int) -> tuple[cp.Explainer, pd.DataFrame, int, list[Rule], Any, str]:
    rng = np.random.default_rng(seed)
    name = [*MODELS][seed % len(MODELS)]
    cost = [*COSTS][int(rng.integers(2))]
    rules = [rule(rng) for _ in range(int(rng.integers(1, 5)))]
    beside = BESIDE[int(rng.integers(len(BESIDE)))]
    model = fitted(name)
    target = int(rng.integers(MODELS[name][1]))
    explainer = cp.Explainer(
        model, data=PEOPLE, cost=COSTS[cost], constraints=[*map(made, rules), *beside]
    )
    rows = PEOPLE.iloc[rng.choice(len(PEOPLE), 4, replace=False)]
    return explainer, rows, target, rules, beside, cost


def check(seed: int) -> int:
    """Compare a question with brute force; return how many rows have an answer."""
    explainer, rows, target, rules, beside, cost = question(seed)
    answers = explainer.explain(rows, target)
    gives = explainer.model.predict(GRID) == target
    for i, (_, row) in enumerate(rows.iterrows()):
        status = answers[i].status
        if explainer.model.predict(row.to_frame().T.astype(PEOPLE.dtypes))[0] == target:
            assert status is cp.Status.ALREADY
            continue
        possible = gives & satisfies(GRID, row, beside)
        for each in rules:
            possible &= ~excluded(GRID, row, each)
        if not possible.any():
            assert status is cp.Status.INFEASIBLE, (seed, i, status)
            continue
        least = costs(GRID[possible], row, cost).min()
        assert status is cp.Status.OPTIMAL, (seed, i, status)
        certificate = answers.certificates[i]
        assert certificate.claim is cp.Claim.PROVED, (seed, i)
        answer = answers.to_frame().loc[[rows.index[i]]].astype(PEOPLE.dtypes)
        at = (answer.iloc[0] == GRID).all(axis=1).to_numpy()
        assert (at & possible).any(), (seed, i)
        assert certificate.cost == pytest.approx(float(costs(answer, row, cost)[0])), (seed, i)
        assert certificate.cost == pytest.approx(least, rel=1e-6), (seed, i)
        assert certificate.bound <= least * (1.0 + 1e-9), (seed, i)
    return int(answers.found.sum())


@pytest.mark.parametrize("seed", range(28))
def test_answers_are_those_of_brute_force(seed: int) -> None:
    check(seed)


# --- numbers without steps, and of single precision ---


CONTINUOUS = pd.DataFrame(
    {"a": RNG.normal(size=300), "b": RNG.normal(size=300), "c": RNG.choice(list("xyz"), 300)}
)
LINES = np.linspace(-2.0, 2.0, 81)
FINE = pd.DataFrame([*product(LINES, LINES, "xyz")], columns=["a", "b", "c"])
NUMBERS: list[list[Rule]] = [
    [("forbidden", ({"a": (-0.2, 0.7)}, {"c": ["x", "y"]}))],
    [("forbidden", ({"a": (0.1, None), "b": (0.3, None)}, {"c": "z"}))],
    [
        ("implies", ({"c": "x"}, {"a": (None, -0.4)})),
        ("forbidden", ({"b": (0.5, 1.3)}, {"a": (0, 1)})),
    ],
    [("implies", ({"a": (0.25, None)}, {"b": (0.1, 0.6)}))],
]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("rules", NUMBERS, ids=lambda rules: str(made(rules[0]))[:30])
@pytest.mark.parametrize("kind", ["linear", "softmax", "forest"])
def test_no_point_of_a_fine_grid_is_cheaper(kind: str, rules: list[Rule], single: bool) -> None:
    data = CONTINUOUS.astype({"a": np.float32, "b": np.float32}) if single else CONTINUOUS
    score = data["a"] + 0.8 * data["b"] + (data["c"] == "x") - 0.5 * (data["c"] == "z")
    model = RandomForestClassifier(6, random_state=0) if kind == "forest" else LogisticRegression()
    encoder = make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")
    ends = [-0.5, 0.8] if kind == "softmax" else [0.5]
    model = make_pipeline(encoder, model).fit(data, np.digitize(score, ends))
    weights = {"a": 1.0, "b": 1.3, "c": 0.8}
    explainer = cp.Explainer(
        model, data=data, cost=cp.Manhattan(weights), constraints=[*map(made, rules)]
    )
    rows = data.head(12)
    answers = explainer.explain(rows, 1)
    inside = FINE["a"].between(*data["a"].agg(["min", "max"]))
    inside &= FINE["b"].between(*data["b"].agg(["min", "max"]))
    grid = FINE[inside].astype(data.dtypes)
    grid = grid[model.predict(grid) == 1]
    after = answers.to_frame().astype(data.dtypes)
    for i, (index, row) in enumerate(rows.iterrows()):
        possible = ~np.logical_or.reduce([excluded(grid, row, each) for each in rules])
        changed = grid[possible]
        least = sum(w * np.abs(changed[n] - row[n]) for n, w in weights.items() if n != "c")
        least = (least + weights["c"] * (changed["c"] != row["c"])).min()
        if answers[i].status is cp.Status.ALREADY:
            continue
        certificate = answers.certificates[i]
        if single:  # whatever is forbidden, its rounding is more than the gap for a small change
            assert certificate.gap < 1e-4
        else:
            assert answers[i].status is cp.Status.OPTIMAL
            assert certificate.claim is cp.Claim.PROVED
        assert certificate.cost <= least * (1.0 + (1e-4 if single else 1e-6))
        answer = after.loc[[index]]
        assert model.predict(answer)[0] == 1
        assert not any(excluded(answer, row, each)[0] for each in rules)


# --- numbers at the ends of what is said ---


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [0.1, 0.7, 1.6])
def test_a_number_at_an_end_meets_it(value: float, dtype: Any) -> None:
    """Neither the decimals 0.1 and 0.7 nor their single precision is a binary number."""
    data = pd.DataFrame({"a": np.tile([0.1, 0.7, 1.6, 2.3], 60).astype(dtype)})
    data["c"] = np.repeat([*"xyz"], 80)
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough"),
        LogisticRegression(),
    ).fit(data, data["c"] == "x")
    row = pd.DataFrame({"a": np.array([value], dtype), "c": ["y"]})
    for ends in ((value, None), (None, value), (value, value), value):
        met = [cp.Implies({"c": "x"}, {"a": ends}), cp.Immutable("a")]
        answers = cp.Explainer(model, data=data, constraints=met).explain(row, True)
        assert answers.to_frame().equals(row.assign(c="x"))
        assert answers[0].status is cp.Status.OPTIMAL
        broken = [cp.Forbidden({"c": "x"}, {"a": ends}), cp.Immutable("a")]
        answers = cp.Explainer(model, data=data, constraints=broken).explain(row, True)
        assert answers[0].status is cp.Status.INFEASIBLE


@pytest.mark.parametrize("middle", [20, 20_000_001, 10**12 + 1])
def test_whole_numbers_are_exact_however_large(middle: int) -> None:
    """Single precision holds whole numbers up to 16 777 216 alone."""
    near = [middle - 2, middle - 1, middle, middle + 1, middle + 2]
    data = pd.DataFrame({"sum": np.tile(near, 60), "c": np.repeat([*"xyz"], 100)})
    model = pipeline_of_sums(data)
    says: list[tuple[cp.Constraint, Any]] = [
        (cp.Forbidden({"c": "x"}, {"sum": (None, middle)}), lambda v: v > middle),
        (cp.Forbidden({"c": "x"}, {"sum": (middle, None)}), lambda v: v < middle),
        (cp.Forbidden({"c": "x"}, {"sum": middle}), lambda v: v != middle),
        (cp.Implies({"c": "x"}, {"sum": (middle, None)}), lambda v: v >= middle),
        (cp.Implies({"c": "x"}, {"sum": (None, middle)}), lambda v: v <= middle),
        (cp.Implies({"c": "x"}, {"sum": middle}), lambda v: v == middle),
    ]
    rows = pd.DataFrame({"sum": near, "c": "y"})
    for constraint, holds in says:
        explainer = cp.Explainer(model, data=data, constraints=[constraint, cp.Immutable("sum")])
        found = explainer.explain(rows, True).found
        assert found.tolist() == [holds(value) for value in near], str(constraint)


def pipeline_of_sums(data: pd.DataFrame) -> Any:
    encoder = make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")
    return make_pipeline(encoder, DecisionTreeClassifier()).fit(data, data["c"] == "x")


# --- rows whose every box is forbidden ---


@pytest.mark.parametrize(
    "rules",
    [
        [cp.Forbidden({"age": (17, None)})],
        [cp.Forbidden({"age": (None, 19)}), cp.Forbidden({"age": (20, None)})],
    ],
    ids=["at once", "in parts"],
)
def test_where_all_is_forbidden_it_is_proved_that_there_is_no_answer(
    rules: list[cp.Constraint],
) -> None:
    """The row itself is outside of its bounds, so that no answer keeps what it has."""
    data = pd.DataFrame({"age": [*range(16, 22)] * 10, "income": [0, 1] * 30})
    model = LogisticRegression().fit(data, data["age"] > 17)
    explainer = cp.Explainer(
        model, data=data, constraints=[cp.Bounds("age", low=17, high=21), *rules]
    )
    (answer,) = explainer.explain(data.head(1), True)
    assert answer.status is cp.Status.INFEASIBLE
    assert answer.certificate.claim is cp.Claim.PROVED
    assert not cp.recheck(answer.to_record(), model).found


# --- what a row has already ---


def test_a_row_may_keep_what_is_forbidden_but_not_change_it() -> None:
    rule: Rule = ("forbidden", ({"age": (None, 18)}, {"home": "own"}))
    model = fitted("two classes")
    row = pd.DataFrame({"age": [17], "income": [2], "home": ["own"], "job": ["none"]})
    assert model.predict(row)[0] == 0
    fixed = [cp.Immutable("home", "income"), cp.Bounds("age", high=18)]
    explainer = cp.Explainer(model, data=PEOPLE, constraints=[made(rule), *fixed])
    answers = explainer.explain(row, 1)
    possible = GRID[model.predict(GRID) == 1]
    possible = possible[(possible["home"] == "own") & (possible["income"] == 2)]
    assert answers.found[0] == bool(len(possible[possible["age"] == 17]))
    assert len(possible[possible["age"] == 18])
    if answers.found[0]:
        assert answers.to_frame()["age"].tolist() == [17]


# --- conflicts ---


@pytest.mark.parametrize("name", MODELS)
def test_a_conflict_names_the_combination(name: str) -> None:
    """Of rows that would have an answer in the same home and job, which is forbidden to change."""
    model = fitted(name)
    rule: Rule = ("forbidden", ({"home": "loan"}, {"income": (0, None), "age": (16, None)}))
    fixed = [cp.Immutable("home", "job")]
    rows = PEOPLE[(model.predict(PEOPLE) == 0) & (PEOPLE["home"] == "loan")].head(8)
    free = cp.Explainer(model, data=PEOPLE, constraints=fixed).explain(rows, 1)
    bound = cp.Explainer(model, data=PEOPLE, constraints=[made(rule), *fixed]).explain(rows, 1)
    assert free.found.any()
    assert (bound.status == cp.Status.INFEASIBLE).all()
    for i in range(len(rows)):
        conflict = bound[i].conflict
        assert conflict is not None
        assert (made(rule) in conflict.constraints) == free.found[i]
        assert conflict.minimal
        if free.found[i]:
            assert "never together: home is loan and income is at least 0" in str(conflict)


# --- records ---


@pytest.mark.parametrize("name", MODELS)
def test_records_are_checked_again(name: str, tmp_path: Path) -> None:
    rules = [
        ("implies", ({"job": "pilot"}, {"age": (20, None), "home": "own"})),
        ("forbidden", ({"home": "own"}, {"income": (3, None)})),
    ]
    model = fitted(name)
    explainer = cp.Explainer(model, data=PEOPLE, constraints=[*map(made, rules)])
    answers = explainer.explain(PEOPLE.head(30), 1)
    path = tmp_path / "answers.jsonl"
    answers.to_records(path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert any("boxes" in piece for r in records for piece in r["proof"] or ())
    checked = cp.recheck(path, model)
    assert checked.ok
    assert checked.proved.all()
    for tamper in (_without_a_leaf, _with_another_split):
        forged = [tamper(json.loads(json.dumps(r))) for r in records]
        forged = [r for r in forged if r is not None]
        for record in forged:
            record["digest"] = digest(canonical({k: v for k, v in record.items() if k != "digest"}))
        again = cp.recheck(forged, model)
        # a proof that leaves nothing out is one, whatever its splits are
        assert {*again.found} == {*range(len(forged))} or (
            again.found and tamper is _with_another_split
        )


def _without_a_leaf(record: dict[str, Any]) -> dict[str, Any] | None:
    for piece in record["proof"] or ():
        if piece.get("boxes", {}).get("leaves"):
            piece["boxes"]["leaves"].pop()
            return record
    return None


def _with_another_split(record: dict[str, Any]) -> dict[str, Any] | None:
    """The first split keeps what it should exclude: one part is all there is."""
    for piece in record["proof"] or ():
        if piece.get("boxes", {}).get("leaves"):
            nodes = bytearray(b64decode(piece["boxes"]["nodes"]))
            size = len(nodes) // (1 + 2 * _splits(bytes(nodes)))
            nodes[0] = 1  # a number, the age
            nodes[1:5] = (0).to_bytes(4, "little")
            nodes[5:13] = np.float64(1e9).tobytes()
            assert size == 14
            piece["boxes"]["nodes"] = b64encode(bytes(nodes)).decode()
            return record
    return None


def _splits(nodes: bytes) -> int:
    return sum(kind != 0 for kind in nodes[::14])


# --- what is refused, and what is written ---


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (LGMLVQ(random_state=0), True),
        (QuadraticDiscriminantAnalysis(), True),
        (LogisticRegression(), cp.Robust(True, 0.9)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_models_refuse_it_in_a_sentence(model: Any, target: Any) -> None:
    numbers = PEOPLE[["age", "income"]].astype(float)
    model.fit(numbers, SCORE > 0.5)
    if isinstance(target, cp.Robust):
        model = cp.UncertainClassifier(model, law=ProjectedGaussian(0.01 * np.eye(3)))
    explainer = cp.Explainer(model, data=numbers, constraints=cp.Forbidden({"age": (None, 18)}))
    rows = numbers[~model.predict(numbers)].head(2)
    with pytest.raises(cp.NoSolver, match="taken for linear, additive and tree models"):
        explainer.explain(rows, target)


def test_without_a_violation_nothing_is_searched_again() -> None:
    rule = cp.Forbidden({"age": (40, None)}, {"home": "own"})  # which data= excludes anyway
    for name in ("two classes", "forest"):
        answers = [
            cp.Explainer(fitted(name), data=PEOPLE, constraints=constraints).explain(PEOPLE, 1)
            for constraints in ((), rule)
        ]
        pd.testing.assert_frame_equal(*(a.to_frame() for a in answers))
        evidence = [{type(e) for _, p in a.proofs for e in p} for a in answers]
        assert evidence[0] == evidence[1]
        assert all(proof.boxed is None for _, p in answers[1].proofs for proof in p)


# --- as the data show ---


SHOWN = PEOPLE[
    ~((PEOPLE["home"] == "own") & PEOPLE["job"].isin(["pilot", "none"]))
    & ~((PEOPLE["home"] == "rent") & (PEOPLE["job"] == "pilot") & (PEOPLE["age"] < 21))
]
"""Some combinations are rare, and some are not there."""


@pytest.mark.parametrize("names", [("home", "job"), ()], ids=["named", "all pairs"])
@pytest.mark.parametrize("min_count", [1, 12, 35])
@pytest.mark.parametrize("name", MODELS)
def test_answers_have_combinations_that_the_data_show(
    name: str, min_count: int, names: tuple[str, ...]
) -> None:
    model = fitted(name)
    explainer = cp.Explainer(
        model,
        data=SHOWN,
        cost=COSTS["Manhattan"],
        constraints=[
            cp.ObservedCombinations(*names, min_count=min_count),
            cp.Bounds("age", rise=2),
        ],
    )
    counts = SHOWN.groupby(["home", "job"]).size()
    often = counts[counts >= min_count].index
    assert 0 < len(often) < 12 if min_count > 1 else 0 < len(often) < 11
    rows = PEOPLE[model.predict(PEOPLE) == 0].head(16)  # in which rare ones are, too
    answers = explainer.explain(rows, 1)
    gives = GRID[model.predict(GRID) == 1]
    shown = gives.set_index(["home", "job"]).index.isin(often)
    for i, (index, row) in enumerate(rows.iterrows()):
        same = (gives["home"] == row["home"]) & (gives["job"] == row["job"])
        possible = gives[(shown | same) & (gives["age"] - row["age"] <= 2)]
        assert answers.found[i] == bool(len(possible))
        certificate = answers.certificates[i]
        assert certificate.claim is cp.Claim.PROVED
        if len(possible):
            least = costs(possible, row, "Manhattan").min()
            assert certificate.cost == pytest.approx(least, rel=1e-6)
            answer = answers.to_frame().loc[[index]].astype(PEOPLE.dtypes)
            assert ((possible == answer.iloc[0]).all(axis=1)).any()


def test_what_was_counted_is_in_records_and_in_policy_files(tmp_path: Path) -> None:
    model, rule = fitted("forest"), cp.ObservedCombinations(min_count=35)
    explainer = cp.Explainer(model, data=SHOWN, constraints=rule)
    (counted,) = explainer.constraints
    assert isinstance(counted, cp.ObservedCombinations)
    ((names, seen),) = counted.seen
    assert names == ("home", "job")
    assert 0 < len(seen) < 12
    policy = cp.Problem(constraints=(counted,))
    policy.save(tmp_path / "policy.toml")
    assert cp.Problem.load(tmp_path / "policy.toml") == policy
    answers = explainer.explain(SHOWN.head(20), 1)
    answers.to_records(tmp_path / "answers.jsonl")
    checked = cp.recheck(tmp_path / "answers.jsonl", model)
    assert checked.ok
    assert checked.proved.all()


def test_a_conflict_names_the_pair() -> None:
    model, rule = fitted("two classes"), cp.ObservedCombinations(min_count=35)
    fixed = [cp.Immutable("age", "income"), cp.Bounds("income", low=0)]
    rows = PEOPLE[model.predict(PEOPLE) == 0]
    free = cp.Explainer(model, data=SHOWN, constraints=fixed).explain(rows, 1)
    bound = cp.Explainer(model, data=SHOWN, constraints=[rule, *fixed]).explain(rows, 1)
    excluded_rows = np.flatnonzero(free.found & ~bound.found)
    assert len(excluded_rows)
    conflict = bound[int(excluded_rows[0])].conflict
    assert "home and job are together as in at least 35 rows of the data" in str(conflict)


def test_without_data_it_says_what_to_do() -> None:
    features = [cp.Continuous("age"), cp.Continuous("income")]
    features += [cp.Categorical("home", HOMES), cp.Categorical("job", JOBS)]
    rule = cp.ObservedCombinations("home", "job")
    with pytest.raises(cp.InvalidInput, match="counts rows of data="):
        cp.Explainer(fitted("forest"), features=features, cost=cp.Manhattan(), constraints=rule)
    explainer = cp.Explainer(fitted("forest"), data=PEOPLE)
    with pytest.raises(cp.InvalidInput, match="counts rows of data="):
        explainer.adding(rule)
    with pytest.raises(cp.InvalidInput, match="takes categories; 'age' is a number"):
        cp.Explainer(
            fitted("forest"), data=PEOPLE, constraints=cp.ObservedCombinations("age", "home")
        )
