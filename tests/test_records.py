"""Records say all that is needed to check them, and what was changed in them is found."""

from __future__ import annotations

import copy
import json
import warnings
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint.records.checker import problem_of
from counterpoint.records.record import FIELDS, SCHEMA, canonical, digest
from counterpoint.solvers.base import Solver

FREE = ("made",)
"""Fields that nobody can check: what they say is not about the answer."""


def _rows(n: int = 300) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": rng.normal(3000, 800, n).round(2),
            "job": rng.choice(["a", "b", "c"], n),
            "loans": rng.integers(0, 6, n),
            "score": rng.normal(size=n),
        }
    )
    z = 0.02 * (X.age - 40) + 0.001 * (X.income - 3000) + 0.8 * (X.job == "b") - 0.4 * X.loans
    z += X.score + rng.normal(scale=0.5, size=n)
    return X, z


X, Z = _rows()
Y = np.where(Z > 0, "yes", "no")
NUMBERS = ["age", "income", "loans", "score"]


def _mixed(*, impute: bool = False) -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler()) if impute else StandardScaler()
    first = make_column_transformer((numbers, NUMBERS), (OneHotEncoder(), ["job"]))
    return make_pipeline(first, LogisticRegression(C=10))


def _missing() -> pd.DataFrame:
    gaps = X.astype({"age": float})
    gaps.loc[::5, "age"] = np.nan
    return gaps


def _bad() -> pd.DataFrame:
    bad = _missing().head(12)
    bad.loc[3, "job"] = "zzz"
    bad.loc[4, "income"] = np.inf
    return bad


SQUARED = cp.SquaredEuclidean({"age": 0.01, "income": 1e-6, "job": 1.0, "loans": 0.5, "score": 1.0})
POLICY = [
    cp.MaxChanges(2),
    cp.Immutable("age"),
    cp.Linear.parse("loans <= 4"),
    cp.Bounds("score", low=-1.0),
]
SINGLES = X[["income", "score"]].astype(np.float32)
METRIC = np.diag([0.01, 1e-6, 1.0, 0.5, 1.0])
METRIC[0, 3] = METRIC[3, 0] = 0.05
FIXED = cp.Immutable("age", "income", "job", "score")
CASES: dict[str, Any] = {
    "mixed types": lambda: (_mixed().fit(X, Y), X, {}, X.head(12), "yes"),
    "a metric": lambda: (
        _mixed().fit(X, Y),
        X,
        {"cost": cp.Mahalanobis(METRIC)},
        X.head(6),
        "yes",
    ),
    "a metric, any other label": lambda: (
        LogisticRegression(max_iter=2000).fit(*load_iris(return_X_y=True)),
        load_iris().data,
        {"cost": cp.Mahalanobis(np.eye(4) + 0.3)},
        load_iris().data[::12],
        cp.OtherLabel(),
    ),
    "percentile shifts": lambda: (
        _mixed().fit(X, Y),
        X,
        {"cost": cp.PercentileShift(cp.percentile_ranks(X), {"job": {("a", "b"): 2.0}})},
        X.head(6),
        "yes",
    ),
    "any other label": lambda: (_mixed().fit(X, Y), X, {}, X.head(12), cp.OtherLabel()),
    "a policy": lambda: (
        _mixed().fit(X, Y),
        X,
        {"cost": SQUARED, "constraints": POLICY},
        X.head(12),
        "yes",
    ),
    "impossible": lambda: (
        _mixed().fit(X, Y),
        X,
        {"constraints": FIXED},
        X.head(12),
        cp.Probability("yes", 0.99),
    ),
    "missing and bad cells": lambda: (
        _mixed(impute=True).fit(_missing(), Y),
        _missing(),
        {},
        _bad(),
        "yes",
    ),
    "single precision": lambda: (
        make_pipeline(StandardScaler(), LogisticRegression()).fit(SINGLES, Y),
        SINGLES,
        {},
        SINGLES.head(20),
        "yes",
    ),
    "a trade-off": lambda: (
        LogisticRegression().fit(X[["age", "score"]].to_numpy(), Y),
        X[["age", "score"]].to_numpy(),
        {"cost": cp.SquaredEuclidean()},
        X[["age", "score"]].to_numpy()[:12],
        cp.Tradeoff("yes", 0.5),
    ),
    "a regressor": lambda: (
        make_pipeline(StandardScaler(), Ridge()).fit(X[NUMBERS], Z),
        X,
        {},
        X.head(12),
        cp.Interval(low=1.0),
    ),
    "a forest": lambda: (
        RandomForestClassifier(8, max_depth=4, random_state=0).fit(X[NUMBERS], Y),
        X[NUMBERS],
        {},
        X[NUMBERS].head(6),
        "yes",
    ),
    "bins": lambda: (
        make_pipeline(
            KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), LogisticRegression()
        ).fit(X[NUMBERS], Y),
        X[NUMBERS],
        {},
        X[NUMBERS].head(6),
        "yes",
    ),
    "a forest in single precision": lambda: (
        RandomForestClassifier(8, max_depth=4, random_state=0).fit(X[NUMBERS], Y),
        X[NUMBERS].astype({"income": np.float32, "score": np.float32}),
        {},
        X[NUMBERS].astype({"income": np.float32, "score": np.float32}).head(6),
        "yes",
    ),
    "a forest with relations": lambda: (
        RandomForestClassifier(8, max_depth=4, random_state=0).fit(X[NUMBERS], Y),
        X[NUMBERS],
        {"constraints": [cp.Linear.parse("age + 10 * score <= 40")]},
        X[NUMBERS].head(6),
        "yes",
    ),
    "prototypes": lambda: (
        NearestCentroid().fit(X[NUMBERS], Y),
        X[NUMBERS],
        {},
        X[NUMBERS].head(8),
        "yes",
    ),
}


@cache
def _answers(case: str) -> tuple[Any, cp.Counterfactuals]:
    return _asked(case)


def _asked(case: str) -> tuple[Any, cp.Counterfactuals]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, data, options, rows, target = CASES[case]()
        return model, cp.Explainer(model, data=data, **options).explain(rows, target)


def _records(answers: cp.Counterfactuals) -> list[dict[str, Any]]:
    return [json.loads(text) for text in _texts(answers)]


@cache
def _texts(answers: cp.Counterfactuals) -> list[str]:
    return [json.dumps(answer.to_record()) for answer in answers]


def _sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with a digest that fits it, as whoever forges one would write."""
    body = {key: value for key, value in record.items() if key != "digest"}
    return {**body, "digest": digest(canonical(body))}


def _without_time(record: dict[str, Any]) -> str:
    return canonical({k: v for k, v in record.items() if k not in ("made", "digest")})


@pytest.mark.parametrize("case", CASES)
def test_records_of_true_answers_have_no_problems(case: str, tmp_path: Any) -> None:
    model, answers = _answers(case)
    records = _records(answers)
    found = cp.recheck(records, model, accept_reported=True)
    assert found.ok, found.problems
    claims = answers.certificates.claim
    assert (found.proved == [str(claim) == "proved" for claim in claims]).all()
    assert (found.reported == [str(claim) == "reported" for claim in claims]).all()
    word = "rests on the word of a solver"
    refused = cp.recheck(records, model).found
    assert [*refused] == np.flatnonzero(found.reported).tolist()
    assert all(len(problems) == 1 and word in problems[0] for problems in refused.values())
    for name in ("records.jsonl", "records.parquet"):
        answers.to_records(tmp_path / name)
        again = cp.recheck(tmp_path / name, model, accept_reported=True)
        assert again.ok, again.problems
        assert (again.proved == found.proved).all()
    first = (tmp_path / "records.jsonl").read_text().splitlines()
    _asked(case)[1].to_records(tmp_path / "again.jsonl")
    second = (tmp_path / "again.jsonl").read_text().splitlines()
    assert [_without_time(json.loads(a)) for a in first] == [
        _without_time(json.loads(b)) for b in second
    ]


def test_nothing_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    model, answers = _answers("a policy")
    records = _records(answers)

    def refuse(*_: Any) -> Any:
        raise AssertionError("a solver was asked")

    for solver in Solver.__subclasses__():
        monkeypatch.setattr(solver, "solve", refuse)
    assert cp.recheck(records, model).ok


@pytest.mark.parametrize("case", ["mixed types", "a policy", "impossible"])
def test_what_a_record_says_was_asked_gives_the_same_answer(case: str) -> None:
    model, answers = _answers(case)
    for i, record in enumerate(_records(answers)):
        problem = problem_of(record["asked"])
        row = pd.DataFrame([record["row"]])
        again = problem.explainer(model).explain(row, problem.target)[0]
        assert str(again.status) == record["status"]
        if record["valid"]:
            assert again.cost == pytest.approx(answers[i].cost, rel=1e-9)


def test_bounds_that_hold_instead_of_the_range_are_recorded_as_such() -> None:
    model = _mixed().fit(X, Y)
    rule = cp.Bounds("score", high=9.0)  # beyond what the data show
    answers = cp.Explainer(model, data=X, constraints=[rule, FIXED.__class__("job")]).explain(
        X.head(20), cp.Probability("yes", 0.999)
    )
    records = _records(answers)
    assert cp.recheck(records, model).ok
    assert max(r["answer"]["score"] for r in records if r["valid"]) > X.score.max()


def test_the_same_input_gives_the_same_bytes() -> None:
    first, second = (map(_without_time, _records(_asked("a policy")[1])) for _ in range(2))
    assert [*first] == [*second]


# What was changed is found


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where all leaves of nested dicts and lists are."""
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in _places(v, (*path, k))] or [path]
    if isinstance(value, list):
        return [p for k, v in enumerate(value) for p in _places(v, (*path, k))] or [path]
    return [path]


def _changed(rng: np.random.Generator, value: Any) -> Any:
    """Another value, of the same type or not."""
    if rng.random() < 0.1:
        return rng.choice([None, True, 7, "x", -1.5])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        scale = 10.0 ** rng.uniform(-6, 2)
        return type(value)(value + max(1.0, abs(value)) * scale * rng.choice([-1, 1]) * 1.5)
    if isinstance(value, str):
        place = rng.integers(len(value) + 1)
        return f"{value[:place]}{rng.choice([*'abz019=-.'])}{value[place + 1 :]}"
    return 3.25


def _tampered(rng: np.random.Generator, record: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """A record with one leaf changed, and where."""
    while True:
        field = rng.choice([name for name in FIELDS if name != "digest"])
        places = _places(record[field], (field,))
        path = places[rng.integers(len(places))]
        out = copy.deepcopy(record)
        inner = out
        for key in path[:-1]:
            inner = inner[key]
        old = inner[path[-1]]
        new = _changed(rng, old)
        new = new.item() if isinstance(new, np.generic) else new
        if new != old:  # true is 1 where a number stands
            inner[path[-1]] = new
            return out, path


def _tamper(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for case in CASES:
        model, answers = _answers(case)
        records = _records(answers)
        forged = [_tampered(rng, records[rng.integers(len(records))]) for _ in range(count)]
        found = cp.recheck([record for record, _ in forged], model, accept_reported=True)
        assert {*found.found} == {*range(count)}
        # Whoever writes a digest that fits is found by what does not follow, or has changed what
        # is free text, or less than processors differ by, or a proof that still proves as much.
        again = [_sealed(record) for record, _ in forged]
        sealed = cp.recheck(again, model, accept_reported=True)
        for i in set(range(count)) - {*sealed.found}:
            record, path = forged[i]
            allowed = path[0] in (*FREE, "proof", "margin", "rounding")
            assert allowed or (path[0] == "row" and not record["valid"]), path


def test_whatever_is_changed_in_a_record_is_found() -> None:
    _tamper(15, 1)


@pytest.mark.slow
def test_whatever_is_changed_in_a_record_is_found_10_000_times() -> None:
    _tamper(1000, 2)


@pytest.mark.parametrize("field", ["cost", "objective", "bound", "proved_bound", "gap", "margin"])
def test_a_changed_number_is_named(field: str) -> None:
    model, answers = _answers("mixed types")
    record = next(r for r in _records(answers) if r["status"] == "optimal")
    forged = _sealed(record | {field: record[field] * 0.9 - 1e-3 * (field == "gap") - 1e-2})
    found = cp.recheck(forged, model)
    assert any(field.replace("_", " ") in problem for problem in found.problems), found.problems


def test_a_worse_answer_does_not_pass_for_the_best() -> None:
    """All numbers of a forged record fit each other, but its proof does not prove its bound."""
    model, answers = _answers("mixed types")
    explainer = cp.Explainer(model, data=X)
    farther = _records(explainer.explain(X.head(len(answers)), cp.Label("yes", margin=0.5)))
    for near, far in zip(_records(answers), farther, strict=True):
        if near["status"] != "optimal":
            continue
        taken = {name: far[name] for name in ("answer", "cost", "objective", "violation")}
        taken |= {"margin": far["margin"] + 0.5, "rounding": far["rounding"], "gap": 0.0}
        taken |= {"bound": far["objective"], "proved_bound": far["objective"]}
        problems = cp.recheck(_sealed(near | taken), model).problems
        assert "Its proved bound is not what is computed." in problems
        honest = _sealed(near | taken | {"proved_bound": near["proved_bound"]})
        assert "Its bound is not what is computed." in cp.recheck(honest, model).problems


def test_of_a_row_that_can_be_computed_with_no_record_may_say_otherwise() -> None:
    model, answers = _answers("mixed types")
    record = next(a for a in answers if a.status == "optimal").to_record()
    numbers = ("cost", "objective", "gap", "margin", "rounding", "violation", "probability")
    nothing = dict.fromkeys((*numbers, "answer", "proof"))
    nothing |= {"bound": 0.0, "proved_bound": 0.0, "valid": False, "guarantee": "none"}
    sentence = (
        "its numbers, with those of the model and the cost, are too large or too small to compute "
        "with (division by zero). Rescale the columns, or the weights of the cost."
    )
    said = {"status": "invalid", "claim": "none", "message": sentence}
    assert cp.recheck(_sealed(record | nothing | said), model).problems == (
        "Its status is not what is computed.",
        "Its message is not what follows from it.",
    )


@pytest.mark.parametrize(("then", "now"), [(None, 2), (2, 1)])
def test_on_how_many_threads_a_forest_runs_makes_it_no_other_model(
    then: int | None, now: int
) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, X.sum(axis=1) > 0.0)
    model.n_jobs = then
    records = [a.to_record() for a in cp.explain(model, X[:3], cp.OtherLabel(), data=X)]
    model.n_jobs = now
    assert cp.recheck(records, model).ok
    doubled = _sealed(records[0] | {"rounding": 2.0 * records[0]["rounding"] + 1e-17})
    assert cp.recheck(doubled, model).problems == ("Its rounding is not what is computed.",)


def test_a_record_of_another_model_is_named() -> None:
    model, answers = _answers("mixed types")
    other = copy.deepcopy(model)
    other[-1].coef_[0, 0] *= 1.001
    found = cp.recheck(_records(answers), other)
    assert all("another model" in found.found[i][0] for i in range(len(answers)))


def test_bad_input_is_one_sentence(tmp_path: Any) -> None:
    model, answers = _answers("a regressor")
    record = _records(answers)[0]

    def said(what: Any) -> str:
        (problem,) = cp.recheck(what, model).problems
        return problem

    assert "this version of counterpoint reads" in said(record | {"schema": "x/9"})
    assert "is not JSON" in said(json.dumps(record)[:200])
    made = record["made"] | {"python": "4.0"}
    assert "its digest does not fit it" in said(record | {"made": made})
    assert "It lacks the field 'gap'" in said({k: v for k, v in record.items() if k != "gap"})
    assert "has a field 'more' too many" in said(record | {"more": 1})
    assert "expected an object" in said([3])
    path = tmp_path / "records.jsonl"
    answers.to_records(path)
    path.write_text(path.read_text() + '{"schema"')
    assert [*cp.recheck(path, model).found] == [len(answers)]
    for what in (tmp_path / "x.csv", 3, []):
        with pytest.raises(cp.InvalidInput, match="record"):
            cp.recheck(what, model)
    with pytest.raises(cp.InvalidInput, match="Expected a file of records"):
        answers.to_records(tmp_path / "records.csv")


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    "case",
    ["mixed types", "missing and bad cells", "single precision", "a forest in single precision"],
)
def test_a_record_may_hold_a_hash_in_the_place_of_its_row(
    case: str, ending: str, tmp_path: Any
) -> None:
    model, answers = _answers(case)
    rows, path = CASES[case]()[3], tmp_path / f"records.{ending}"
    answers.to_records(path, salt="pepper")
    found = cp.recheck(path, model, rows=rows, salt="pepper")
    assert found.ok, found.problems
    assert (found.proved == cp.recheck(_records(answers), model).proved).all()
    other = rows.copy()
    other.iloc[0, -1] += 1
    assert 0 in cp.recheck(path, model, rows=other, salt="pepper").found
    assert len(cp.recheck(path, model, rows=rows, salt="salt").found) == len(answers)
    with pytest.raises(cp.InvalidInput, match="hashes in the place of rows"):
        cp.recheck(path, model)
    with pytest.raises(cp.InvalidInput, match="Expected one row for each of"):
        cp.recheck(path, model, rows=rows.head(2), salt="pepper")
    record = answers[0].to_record(salt="pepper")
    assert record["row"].startswith("hmac-sha256:")
    if record["valid"]:
        assert {*record["answer"]} == {*answers[0].changes}


def test_several_answers_have_no_records() -> None:
    model, _ = _answers("a regressor")
    several = cp.Explainer(model, data=X).explain(X.head(2), cp.Interval(low=1.0), n=2)
    with pytest.raises(cp.InvalidInput, match="cheapest answer of each row"):
        several[0][0].to_record()


def test_the_schema_lists_the_fields() -> None:
    text = files("counterpoint.records").joinpath("schema.json").read_text()
    schema = json.loads(text)
    assert schema["required"] == [*FIELDS]
    assert {*schema["properties"]} == {*FIELDS}
    assert schema["properties"]["schema"]["const"] == SCHEMA
    assert schema["properties"]["status"]["enum"] == [*map(str, cp.Status)]


def test_records_follow_the_schema() -> None:
    schema = pytest.importorskip("jsonschema_rs")
    text = files("counterpoint.records").joinpath("schema.json").read_text()
    validator = schema.validator_for(json.loads(text))
    for case in ("a policy", "a forest", "missing and bad cells"):
        answers = _answers(case)[1]
        for record in _records(answers):
            validator.validate(record)
        validator.validate(json.loads(json.dumps(answers[0].to_record(salt="pepper"))))


def test_a_number_that_is_changed_in_a_parquet_file_is_found(tmp_path: Any) -> None:
    model, answers = _answers("mixed types")
    answers.to_records(tmp_path / "records.parquet")
    frame = pd.read_parquet(tmp_path / "records.parquet")
    at = int(np.flatnonzero(frame["status"] == "optimal")[0])
    for name in ("cost", "bound", "row.income", "answer.income"):
        forged = frame.copy()
        forged.loc[at, name] += 0.25
        forged.to_parquet(tmp_path / "forged.parquet")
        assert [*cp.recheck(tmp_path / "forged.parquet", model).found] == [at], name
    forged = frame.copy()
    forged.loc[at, "message"] = "Fine."
    forged.to_parquet(tmp_path / "forged.parquet")
    first, second = cp.recheck(tmp_path / "forged.parquet", model).problems
    assert "its digest does not fit it" in first
    assert "Its message is not what follows from it." in second
    frame.drop(columns="gap").to_parquet(tmp_path / "forged.parquet")
    with pytest.raises(cp.InvalidInput, match=r"is not a file of records: it lacks 'gap'\."):
        cp.recheck(tmp_path / "forged.parquet", model)
