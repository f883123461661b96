"""A record is in order if what it claims has been verified: of every family, and of no forger."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)

import counterpoint as cp
from counterpoint.certificate import MESSAGES
from counterpoint.lvq import GLVQ, GMLVQ
from counterpoint.records.checker import recorded_query
from counterpoint.records.record import canonical, digest
from counterpoint.search import search as searching

BINS = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
MODELS: dict[str, Any] = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "bins": make_pipeline(BINS, LogisticRegression()),
    "splines": make_pipeline(SplineTransformer(n_knots=4, degree=1), LogisticRegression()),
    "quantiles": make_pipeline(QuantileTransformer(n_quantiles=20), LogisticRegression()),
    "binned ridge": make_pipeline(BINS, Ridge()),
    "ridge": make_pipeline(StandardScaler(), Ridge()),
    "naive Bayes": GaussianNB(),
    "QDA": QuadraticDiscriminantAnalysis(reg_param=0.1),
    "centroids": make_pipeline(StandardScaler(), NearestCentroid()),
    "GLVQ": GLVQ(prototypes_per_class=2),
    "GMLVQ": make_pipeline(StandardScaler(), GMLVQ()),
    "nearest neighbour": make_pipeline(
        StandardScaler(), KNeighborsClassifier(1, algorithm="brute")
    ),
    "forest": RandomForestClassifier(8, max_depth=4, random_state=0),
    "forest of numbers": RandomForestRegressor(5, max_depth=3, random_state=0),
    "boosted": GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0),
}
NUMBERS = ("binned ridge", "ridge", "forest of numbers")
"""Families that predict numbers."""
DTYPES: dict[str, Any] = {
    "float64": "float64",
    "float32": "float32",
    "mixed": {"a": "float32", "c": "int64"},
    "int64": "int64",
}
WEIGHTS: Any = {"a": 0.1, "b": 1.0, "c": 0.5}
COSTS: dict[str, cp.Cost | None] = {
    "default": None,
    "squared": cp.SquaredEuclidean(WEIGHTS),
    "metric": cp.Mahalanobis(np.array([[0.01, 0.02, 0.0], [0.02, 1.0, 0.1], [0.0, 0.1, 0.5]])),
}
RULES: dict[str, list[cp.Constraint]] = {
    "none": [],
    "few changes": [cp.MaxChanges(1), cp.Immutable("c")],
    "impossible": [cp.Immutable("a", "b", "c")],
}


NOTHING = ("answer", "cost", "objective", "gap", "margin", "rounding", "violation", "probability")
"""Fields that are null without an answer."""


def _data(dtype: str) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(50, 12, 90).round(1),
            "b": rng.normal(0, 2, 90),
            "c": rng.integers(0, 8, 90).astype(float),
        }
    )
    z = 0.05 * (X.a - 50) + X.b - 0.2 * (X.c - 3) + rng.normal(0, 0.4, 90)
    return X.astype(DTYPES[dtype]), z.to_numpy()


def _sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with hashes that fit it, as whoever forges one would write."""
    body = {key: value for key, value in record.items() if key != "digest"}
    body["asked_hash"] = digest(canonical(body["asked"]))
    return {**body, "digest": digest(canonical(body))}


def _record(answer: cp.Counterfactual) -> dict[str, Any]:
    return json.loads(json.dumps(answer.to_record()))


@cache
def _iris() -> tuple[Any, Any, Any]:
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, y, LogisticRegression(max_iter=1000).fit(X, y)


# Of every family


@pytest.mark.covering(2)
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", MODELS)
def test_records_of_every_family_are_in_order(
    family: str, dtype: str, cost: str, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every dtype, under every cost; kinds of columns, targets and limits of time take turns.

    They claim what the answers claim.
    """
    if family == "nearest neighbour":  # as if it had thousands of points
        monkeypatch.setattr(searching, "LISTED", 0)
    X, z = _data(dtype)
    lists = (MODELS, family), (DTYPES, dtype), (COSTS, cost), (RULES, rules)
    turn = sum([*known].index(name) for known, name in lists)
    labels = family not in NUMBERS
    model = MODELS[family].fit(X, (z > 0.0).astype(int) if labels else z)
    target = [1, cp.OtherLabel(), 0][turn % 3] if labels else cp.Interval(low=0.5)
    whole = [cp.Integer("c"), cp.Integer("a", step=0.25)] if turn % 2 else None
    try:
        explainer = cp.Explainer(
            model, data=X, features=whole, cost=COSTS[cost], constraints=RULES[rules]
        )
        limit = 1e-6 if turn % 5 == 0 else None
        answers = explainer.explain(X.head(3), target, time_limit=limit)
    except cp.NoSolver:
        pytest.skip("no such question may be asked of this family")
    records = [_record(answer) for answer in answers]
    for answer, record in zip(answers, records, strict=True):
        claimed = str(answer.status), str(answer.certificate.claim)
        assert (record["status"], record["claim"]) == claimed
    found = cp.recheck(records, model, accept_reported=True)
    for i, problems in found.found.items():
        # on the edge a model may decide otherwise in another batch
        assert answers[i].certificate.on_edge, (problems, answers[i])
        assert problems == ("The model does not give the answer the target.",)


# What rests on a word


def test_a_lie_that_calls_itself_reported_is_not_ok() -> None:
    X, _, model = _iris()
    explainer = cp.Explainer(model, data=X)
    near = _record(explainer.explain(X.head(1), 1)[0])
    none: dict[str, Any] = dict.fromkeys(NOTHING)
    none |= {"valid": False, "proof": None}
    none |= {"status": "infeasible", "claim": "reported", "bound": "inf", "proved_bound": 0.0}
    none |= {"message": "No change within the constraints gives the target."}
    far = _record(explainer.explain(X.head(1), cp.Label(1, margin=3.0))[0])
    farther = near | {k: far[k] for k in ("answer", "cost", "objective", "violation", "rounding")}
    farther |= {"margin": far["margin"] + 3.0, "claim": "reported", "gap": 0.0, "proof": None}
    farther |= {"bound": far["objective"], "proved_bound": 0.0}
    farther |= {"message": "This is the cheapest possible change (as a solver reports)."}
    for lie in (_sealed(near | none), _sealed(farther)):
        found = cp.recheck(lie, model)
        assert not found.ok
        assert "rests on the word of a solver" in found.problems[0]
        assert found.reported.all()
        assert not found.proved.any()
        assert len(found.problems) == 1
        found = cp.recheck(lie, model, accept_reported=True)
        assert found.ok  # whoever takes the word of a solver takes that of a forger
        assert found.reported.all()


def test_a_bound_that_nothing_proves_is_no_bound() -> None:
    """An answer that is not the cheapest claims no more than its proof shows."""
    X, _, model = _iris()
    record = _record(cp.Explainer(model, data=X).explain(X.head(1), 1)[0])
    weaker = {"status": "suboptimal", "claim": "none", "proof": None, "proved_bound": 0.0}
    weaker |= {"message": MESSAGES[cp.Status.SUBOPTIMAL]}
    found = cp.recheck(_sealed(record | weaker), model)
    assert "Its bound is not what is computed." in found.problems
    honest = _sealed(record | weaker | {"bound": 0.0, "gap": 1.0})
    assert cp.recheck(honest, model).ok


def test_an_optimal_answer_does_not_pass_for_the_best_in_its_time() -> None:
    """Whether its time was limited or not: the proof says that it is optimal."""
    X, _, model = _iris()
    words = {"status": "limit", "claim": "none"}
    words["message"] = "The time limit ran out; this is the best answer so far."
    for limit in (None, 60.0):
        answer = cp.Explainer(model, data=X).explain(X.head(1), 1, time_limit=limit)[0]
        found = cp.recheck(_sealed(_record(answer) | words), model)
        assert "Its status is not what is computed." in found.problems
    # a gap is left: there was no limit of time that may have run out
    answer = cp.Explainer(model, data=X).explain(X.head(1), 1, gap=0.0)[0]
    assert answer.status is cp.Status.SUBOPTIMAL
    record = _record(answer)
    assert cp.recheck(record, model).ok
    found = cp.recheck(_sealed(record | words), model)
    assert found.problems[0] == "Its status is not what is computed."
    timed = record | words | {"asked": record["asked"] | {"time_limit": 1.0}}
    assert cp.recheck(_sealed(timed), model).ok


def test_an_answer_that_breaks_a_constraint_and_says_so_is_none() -> None:
    """It says by how much, and claims nothing else; but an answer is one within constraints."""
    X, _, model = _iris()
    record = _record(cp.Explainer(model, data=X).explain(X.head(1), 1)[0])
    name = "petal length (cm)"
    rule = {"kind": "bounds", "feature": name, "high": record["answer"][name] * (1.0 - 1e-5)}
    words = {"status": "suboptimal", "claim": "none", "proof": None, "bound": 0.0, "gap": 1.0}
    words |= {
        "proved_bound": 0.0,
        "message": "This is a valid answer; its gap says how much better one could be.",
    }
    for rules, ok in (([], True), ([rule], False)):
        asked = record["asked"] | {"constraints": [*record["asked"]["constraints"], *rules]}
        told = _sealed(record | words | {"asked": asked})
        program = recorded_query(told, model).query.actionable
        row, answer = ([[*told[side].values()]] for side in ("row", "answer"))
        violation = program.violation(np.array(answer), np.array(row))[0]
        found = cp.recheck(_sealed(told | {"violation": float(violation)}), model)
        assert found.problems == (() if ok else ("The answer breaks a constraint.",))


def test_no_answer_to_a_convex_question_is_a_local_optimum() -> None:
    X, _, model = _iris()
    record = _record(cp.Explainer(model, data=X).explain(X.head(1), 1, gap=0.0)[0])
    local = {"claim": "local"}
    local["message"] = "This is a local optimum; a better answer may exist elsewhere."
    found = cp.recheck(_sealed(record | local), model)
    assert "Its claim is not what is computed." in found.problems


def test_a_gap_is_closed_up_to_the_gap_that_was_asked_for_and_no_more() -> None:
    """Local optima whose gaps are left call themselves optimal, up to some gap."""
    X, z = _data("float64")
    model = MODELS["QDA"].fit(X, z > 0.0)
    whole = [cp.Integer("a", step=8.0), cp.Integer("c")]
    explainer = cp.Explainer(model, data=X, features=whole, cost=COSTS["metric"])
    records = [_record(answer) for answer in explainer.explain(X.head(5), cp.OtherLabel())]
    records = [record for record in records if record["status"] == "suboptimal"]
    assert len(records) > 2
    words = {"status": "optimal", "claim": "proved"}
    for record in records:
        assert cp.recheck(record, model).ok
        for share, ok in ((1.01, True), (0.99, False), (0.2, False)):
            asked = record["asked"] | {"gap": share * record["gap"]}
            percent = f"{100 * asked['gap']:.6g} %"
            words["message"] = f"No possible change is more than {percent} cheaper (proved)."
            found = cp.recheck(_sealed(record | words | {"asked": asked}), model)
            assert found.ok == ok
            assert ok or "Its status is not what is computed." in found.problems
        # nor is a bound within that gap any other than what is proved
        asked = record["asked"] | {"gap": 1.01 * record["gap"]}
        percent = f"{100 * asked['gap']:.6g} %"
        words["message"] = f"No possible change is more than {percent} cheaper (proved)."
        numbers = {"bound": record["objective"], "gap": 0.0}
        found = cp.recheck(_sealed(record | words | numbers | {"asked": asked}), model)
        assert "Its bound is not what is computed." in found.problems
        asked["gap"] = 0.2 * record["gap"]
        lie = _sealed(record | words | {"asked": asked, "claim": "reported"})
        found = cp.recheck(lie, model, accept_reported=True)
        assert "Its status is not what is computed." in found.problems


def test_a_refutation_has_to_exclude_ties() -> None:
    """Two trees, of which one always says 1: the first label is given where the other says 0."""
    X = np.array([[0.0], [1.0]] * 8)
    model = RandomForestClassifier(2, max_depth=1, bootstrap=False, random_state=0)
    model.fit(X, X[:, 0] == 0.0)
    model.estimators_[1].tree_.value[:] = [0.0, 1.0]
    assert model.predict([[0.0], [1.0]]).tolist() == [True, False]
    answer = cp.Explainer(model, data=X).explain([[0.0]], False)[0]
    assert answer.found
    record = _record(answer)
    (piece,) = record["proof"]
    alone = {"bound": "inf", "nodes": b64encode(bytes(13 + 1)).decode(), "multipliers": ""}
    none: dict[str, Any] = dict.fromkeys(NOTHING)
    none |= {"valid": False, "proof": [piece | {"trees": [alone]}]}
    none |= {"status": "infeasible", "claim": "proved", "bound": "inf", "proved_bound": "inf"}
    none |= {"message": "No change within the constraints gives the target."}
    found = cp.recheck(_sealed(record | none), model, accept_reported=True)
    assert "Its proved bound is not what is computed." in found.problems


# What else is said


def test_what_is_said_in_words_has_to_follow() -> None:
    X, _, model = _iris()
    record = _record(cp.Explainer(model, data=X).explain(X.head(1), 1)[0])
    for text in ("Fine.", record["message"] + " Really.", record["message"][:-1], "", 3, None):
        found = cp.recheck(_sealed(record | {"message": text}), model)
        assert not found.ok, text
    (problem,) = cp.recheck(_sealed(record | {"message": "Fine."}), model).problems
    assert problem == "Its message is not what follows from it."


def test_when_and_with_what_a_record_was_made_is_text() -> None:
    X, _, model = _iris()
    record = _record(cp.Explainer(model, data=X).explain(X.head(1), 1)[0])
    made = record["made"]
    other = made | {"time": "2020-02-02T20:20:20+00:00", "numpy": "0.1"}
    assert cp.recheck(_sealed(record | {"made": other}), model).ok  # believed, as the page says
    wrongs: list[Any] = [
        {},
        made | {"by": "me"},
        made | {"time": "soon"},
        made | {"numpy": 1},
        "now",
    ]
    for wrong in wrongs:
        (problem,) = cp.recheck(_sealed(record | {"made": wrong}), model).problems
        assert "when it was made" in problem


def test_a_row_that_already_has_the_target_is_its_own_answer() -> None:
    X, _, model = _iris()
    row = X[model.predict(X) == 1].head(1)
    record = _record(cp.Explainer(model, data=X).explain(row, 1)[0])
    assert record["status"] == "already"
    assert cp.recheck(record, model).ok
    none: dict[str, Any] = dict.fromkeys(NOTHING)
    none |= {"valid": False, "claim": "none"}
    found = cp.recheck(_sealed(record | none), model)
    assert "Nothing has to change, but the answer is not the row." in found.problems


# Text that is none


def test_no_key_stands_twice(tmp_path: Any) -> None:
    X, _, model = _iris()
    text = canonical(_record(cp.Explainer(model, data=X).explain(X.head(1), 1)[0]))
    twice = text.replace('"proof":[{', '"proof":[{"multipliers":[0.0],', 1)
    for forged in (f'{{"cost":0.1,{text[1:]}', twice):
        (problem,) = cp.recheck(forged, model).problems
        assert "stands twice" in problem
    path = tmp_path / "records.parquet"
    cp.Explainer(model, data=X).explain(X.head(1), 1).to_records(path)
    frame = pd.read_parquet(path)
    frame["shared"] = [frame["shared"][0].replace('"gap":', '"gap":0.5,"gap":')]
    frame.to_parquet(path)
    with pytest.raises(cp.InvalidInput, match="stands twice"):
        cp.recheck(path, model)


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("field", ["schema", "message", "made", "asked", "row", "proof", "digest"])
def test_what_is_no_text_is_one_sentence(field: str, tmp_path: Any) -> None:
    X, _, model = _iris()
    record = _record(cp.Explainer(model, data=X).explain(X.head(1), 1)[0])
    for value in ("\ud800", {"\ud800": 1}, {"a": "x\udfff"}, _nested(40), _nested(5000)):
        found = cp.recheck([record, record | {field: value}], model)
        assert [*found.found] == [1]
        found.problems[0].encode()
    text = canonical(record | {field: "HERE"}).replace('"HERE"', "[" * 5000 + "]" * 5000)
    found = cp.recheck([canonical(record), text], model)
    assert [*found.found] == [1]
    assert cp.recheck([record, _nested(5000)], model).found.keys() == {1}
    path = tmp_path / "records.jsonl"
    path.write_bytes(canonical(record).encode() + b"\n\xff\xfe")
    with pytest.raises(cp.InvalidInput, match="is not UTF-8 text"):
        cp.recheck(path, model)


def test_a_record_in_single_precision_proves_its_gap() -> None:
    """With few changes, where trees of boxes prove what leads by the rounding error costs most."""
    X, z = _data("float32")
    model = MODELS["GLVQ"].fit(X, (z > 0.0).astype(int))
    rules = [cp.Immutable("a"), cp.MaxChanges(1), cp.WithinObserved()]
    explainer = cp.Explainer(model, data=X, cost=COSTS["squared"], constraints=rules)
    answers = explainer.explain(X.head(30), cp.OtherLabel(), gap=1e-2)
    optimal = [answer for answer in answers if answer.certificate.claim is cp.Claim.PROVED]
    assert len(optimal) > 3
    for answer in optimal:
        found = cp.recheck(_record(answer), model)
        assert found.ok, found.problems
        assert found.proved.all()


def test_columns_in_single_precision_hold_no_other_numbers() -> None:
    X, z = _data("float32")
    model = MODELS["logistic"].fit(X, z > 0.0)
    record = _record(cp.Explainer(model, data=X).explain(X.head(1), cp.OtherLabel())[0])
    answer = {name: value * (1.0 + 1e-12) for name, value in record["answer"].items()}
    (problem,) = cp.recheck(_sealed(record | {"answer": answer}), model).problems
    assert "not of single precision" in problem
