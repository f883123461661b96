"""Answers in few digits: valid, within their constraints, and the cheapest of all roundings."""

from __future__ import annotations

import math
import pickle
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.pictures.html import change

pytestmark = pytest.mark.delicate

ROUNDED = "Its numbers were rounded, and the model was asked again."
STAYED = "Its numbers are not rounded: no rounding that was tried meets target and constraints."


def tumours(columns: int = 6) -> tuple[pd.DataFrame, pd.Series]:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:, 20 : 20 + columns], y


def model_of(name: str, X: pd.DataFrame, y: pd.Series) -> Any:
    models: dict[str, Any] = {
        "linear": make_pipeline(StandardScaler(), LogisticRegression()),
        "forest": RandomForestClassifier(15, max_depth=4, random_state=0),
        "boosted": GradientBoostingClassifier(n_estimators=20, max_depth=2, random_state=0),
    }
    return models[name].fit(X, y)


def neighbours(value: float, change: float, significant: int) -> list[float]:
    """The numbers with so many digits below and above, with two digits of the change at least."""
    place = math.floor(math.log10(abs(value))) - significant + 1 if value else 99
    place = min(place, math.floor(math.log10(abs(change))) - min(significant, 2) + 1)
    place = max(place, math.floor(math.log10(abs(change))) - 6)
    unit = Decimal(1).scaleb(place)
    count = Decimal(value) / unit
    if float(count.to_integral_value() * unit) == value:
        return [value]
    ways = (ROUND_FLOOR, ROUND_CEILING)
    return [float(count.to_integral_value(rounding=way) * unit) for way in ways]


def digits(value: float) -> int:
    return len(Decimal(repr(value)).normalize().as_tuple().digits)


# --- what is rounded, and to what ---


@pytest.mark.parametrize("name", ["linear", "forest", "boosted"])
@pytest.mark.parametrize("significant", [2, 3])
def test_the_cheapest_of_all_roundings_is_taken(name: str, significant: int):
    X, y = tumours()
    model, weights = model_of(name, X, y), {column: 1.0 / X[column].std() for column in X}
    explainer = cp.Explainer(model, data=X, cost=cp.Manhattan(weights))
    rows = X.sample(60, random_state=1)
    answers = explainer.explain(rows, cp.OtherLabel())
    rounded = answers.rounded(significant)
    goal, compared = 1 - model.predict(rows), 0
    low, high = X.min(), X.max()
    for i, (answer, after) in enumerate(zip(answers, rounded, strict=True)):
        names = list(answer.changes)
        ways = [
            [v for v in neighbours(new, new - old, significant) if v != old]
            for old, new in answer.changes.values()
        ]
        tries = pd.DataFrame([rows.iloc[i]] * math.prod(map(len, ways)), columns=X.columns)
        tries[names] = [*product(*ways)]
        inside = ((tries >= low) & (tries <= high)).all(axis=1).to_numpy()
        valid = inside & (model.predict(tries) == goal[i])
        if not valid.any():
            continue
        paid = sum(weights[c] * (tries[c] - rows.iloc[i][c]).abs() for c in names).to_numpy()
        compared += 1
        assert after.cost == pytest.approx(paid[valid].min(), rel=1e-12)
        assert all(new in way for (_, new), way in zip(after.changes.values(), ways, strict=True))
    assert compared > 30
    found = rounded.to_frame()
    assert (model.predict(found) == goal).all()
    assert ((found >= low) & (found <= high)).all(axis=None)


def test_what_did_not_change_stays_to_the_bit():
    X, y = tumours()
    rows = X.head(40) * (1.0 + 1e-9)
    answers = cp.Explainer(model_of("linear", X, y), data=X * (1.0 + 1e-9)).explain(
        rows, cp.OtherLabel()
    )
    rounded = answers.rounded()
    assert (rounded.changed == answers.changed).all()
    assert (rounded.after[~answers.changed] == answers.before[~answers.changed]).all()
    assert answers.rounded().after.tobytes() == rounded.after.tobytes()
    assert answers[0].rounded().changes == rounded[0].changes


def test_of_many_numbers_all_are_rounded():
    """A squared cost spreads a change over thirty features."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = model_of("linear", X, y)
    cost = cp.SquaredEuclidean({column: 1.0 / X[column].var() for column in X})
    rows = X.head(100)
    answers = cp.Explainer(model, data=X, cost=cost).explain(rows, cp.OtherLabel())
    rounded = answers.rounded()
    assert answers.changed.sum(axis=1).mean() > 20
    assert (model.predict(rounded.to_frame()) == 1 - model.predict(rows)).all()
    assert all(text.endswith(ROUNDED) for text in rounded.report().message)
    assert rounded.gap.max() < 0.05
    few = [digits(new) for answer in rounded for _, new in answer.changes.values()]
    many = [digits(new) for answer in answers for _, new in answer.changes.values()]
    assert np.median(few) <= 4
    assert max(few) <= 9
    assert np.median(many) > 12


def test_decimals_and_steps_of_single_features():
    X, y = tumours()
    answers = cp.Explainer(model_of("linear", X, y), data=X).explain(X, cp.OtherLabel())
    rounded = answers.rounded(None, decimals={"worst texture": 0}, steps={"worst area": 25})
    is_rounded = np.array([text.endswith(ROUNDED) for text in rounded.report().message])
    assert is_rounded.mean() > 0.8
    changes = answers.changes()
    for i in np.flatnonzero(is_rounded).tolist():
        before, after = answers[i].changes, rounded[i].changes
        for name, (_, new) in after.items():
            if name == "worst texture":
                assert new == round(new)
            elif name == "worst area":
                assert new % 25 == 0
            else:
                assert new == before[name][1]
    assert len(rounded.changes()) == len(changes)
    steps = answers.rounded(steps={"worst texture": 0.1})
    assert all(
        new == round(new, 1)
        for answer in steps
        for name, (_, new) in answer.changes.items()
        if name == "worst texture" and answer.message.endswith(ROUNDED)
    )


@pytest.mark.parametrize("library", ["pandas", "polars", "array"])
def test_dtypes_stay(library: str):
    X, y = tumours()
    model = model_of("forest", X, y)
    rows: Any = X.head(30).astype({"worst radius": np.float32, "worst area": np.float32})
    if library == "polars":
        rows = pytest.importorskip("polars").from_pandas(rows)
    if library == "array":
        rows = rows.to_numpy(np.float32)
        model = model_of("forest", X.to_numpy(), y)
    answers = cp.Explainer(model, data=X if library != "array" else X.to_numpy()).explain(
        rows, cp.OtherLabel()
    )
    rounded, exact = answers.rounded().to_frame(), answers.to_frame()
    assert type(rounded) is type(exact)
    if library == "array":
        assert rounded.dtype == np.float32
    else:
        assert list(rounded.dtypes) == list(exact.dtypes)
        moved = answers.changed[:, 0]
        values = np.asarray(rounded["worst radius"])[moved]
        assert len(values)
        assert all(len(str(value)) <= 6 for value in values)
    assert (model.predict(rounded) == model.predict(exact)).all()


def test_a_number_beside_zero_becomes_zero_or_short():
    X = pd.DataFrame({"a": [0.1, 5.3, 9.7], "b": [1.0, 1.5, 2.0]})
    model = LogisticRegression().fit(X, [0, 1, 1])
    model.coef_, model.intercept_ = np.array([[-1.0, 0.0]]), np.array([1e-7])
    cost = cp.Manhattan({"a": 1.0, "b": 1.0})
    answer = cp.Explainer(model, cost=cost).explain(X.iloc[1:2], 1)
    assert abs(answer[0].changes["a"][1]) < 1e-6
    assert answer.rounded()[0].changes["a"][1] == 0.0


# --- what it is worth ---


def test_bounds_stay_and_the_gap_says_what_rounding_costs():
    X, y = tumours()
    answers = cp.Explainer(model_of("linear", X, y), data=X).explain(X.head(80), cp.OtherLabel())
    rounded = answers.rounded()
    assert (answers.status == cp.Status.OPTIMAL).all()
    assert (rounded.bound <= answers.bound).all()
    assert rounded.bound == pytest.approx(np.minimum(answers.bound, rounded.cost))
    assert (rounded.cost >= answers.bound * (1.0 - 1e-9)).all()
    is_dearer = rounded.gap > 1e-6
    assert is_dearer.mean() > 0.9
    assert (rounded.status[is_dearer] == cp.Status.SUBOPTIMAL).all()
    assert (rounded.status[~is_dearer] == cp.Status.OPTIMAL).all()
    assert (rounded.certificates.claim[is_dearer] == cp.Claim.NONE).all()
    message = rounded[int(is_dearer.argmax())].message
    assert message.startswith("This is a valid answer; its gap says how much better one could be.")
    assert message.endswith(ROUNDED)
    assert list(rounded.report().message) == [answer.message for answer in rounded]
    assert not any(ROUNDED in answer.message for answer in answers)  # these stay as they were


def test_rows_without_an_answer_or_a_change_stay():
    X, y = tumours(2)
    model = model_of("linear", X, y)
    explainer = cp.Explainer(model, data=X, constraints=cp.Immutable("worst radius"))
    answers = explainer.explain(X, 1)
    rounded = answers.rounded()
    same = np.isin(answers.status.astype(str), ["already", "infeasible"])
    assert same.any()
    assert (rounded.status[same] == answers.status[same]).all()
    assert rounded[int(same.argmax())].message == answers[int(same.argmax())].message


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_records_of_rounded_answers_check(suffix: str, tmp_path: Any):
    X, y = tumours()
    model = model_of("boosted", X, y)
    rounded = cp.Explainer(model, data=X).explain(X.head(40), cp.OtherLabel()).rounded()
    rounded.to_records(tmp_path / f"rounded.{suffix}")
    assert cp.recheck(tmp_path / f"rounded.{suffix}", model).found == {}
    assert not cp.recheck(rounded[3].to_record(), model).found


# --- constraints ---


def test_whole_steps_stay_whole():
    X, y = tumours()
    X = X.assign(**{"worst area": X["worst area"].round().astype(int)})
    model, cost = (
        model_of("linear", X, y),
        cp.Manhattan(dict.fromkeys(X, 1.0) | {"worst area": 1e-3}),
    )
    rounded = cp.Explainer(model, data=X, cost=cost).explain(X, cp.OtherLabel()).rounded(2)
    frame = rounded.to_frame()
    assert frame["worst area"].dtype == X["worst area"].dtype
    changed = rounded.changed[:, 3] & [text.endswith(ROUNDED) for text in rounded.report().message]
    at_bound = frame["worst area"] == X["worst area"].min()
    # two digits of the change are kept
    changed &= ((frame["worst area"] - X["worst area"]).abs() >= 100) & ~at_bound
    assert changed.sum() > 100
    assert (frame["worst area"][changed] % 10 == 0).all()


def test_sums_and_equal_changes_are_checked_anew():
    """A sum that stays needs numbers of the same unit, though one is ten times the other."""
    X = pd.DataFrame({"a": [3.0, 4.0, 9.0], "b": [97.0, 96.0, 91.0], "c": [1.0, 2.5, 3.0]})
    model = LogisticRegression().fit(X, [0, 0, 1])
    model.coef_, model.intercept_ = np.array([[1.0, 0.0, 0.0]]), np.array([-6.123456])
    model.n_features_in_ = 3
    rules = [cp.Linear({"a": 1.0, "b": 1.0}, low=100.0, high=100.0)]
    cost = cp.Manhattan({"a": 1.0, "b": 1.0, "c": 1.0})
    answers = cp.Explainer(model, cost=cost, constraints=rules).explain(X.iloc[:2], 1)
    rounded = answers.rounded()
    assert rounded[0].changes == {"a": (3.0, 6.13), "b": (97.0, 93.87)}
    assert rounded.certificates.violation.max() < 1e-12


def test_a_row_that_no_rounding_keeps_stays_as_it_was():
    X = pd.DataFrame({"a": [3.0, 4.0, 9.0], "b": [97.0, 96.0, 91.0]})
    model = LogisticRegression().fit(X, [0, 0, 1])
    model.coef_, model.intercept_ = np.array([[1.0, 0.0]]), np.array([-6.123456789012])
    cost = cp.Manhattan({"a": 1.0, "b": 1.0})
    rule = cp.Bounds("a", high=6.1234567890123)
    answers = cp.Explainer(model, cost=cost, constraints=rule).explain(X.iloc[:2], 1)
    rounded = answers.rounded(steps={"a": 1})
    assert rounded.to_frame().equals(answers.to_frame())
    assert (rounded.status == answers.status).all()
    assert rounded[0].message == f"{answers[0].message} {STAYED}"
    assert list(rounded.report().message) == [answer.message for answer in rounded]


# --- targets ---


@pytest.mark.parametrize("target", [cp.Probability(1, 0.7), cp.Label(1, margin=0.2), 1])
def test_targets_of_classifiers(target: Any):
    X, y = tumours()
    model = model_of("linear", X, y)
    answers = cp.Explainer(model, data=X).explain(X[y == 0].head(50), target)
    rounded = answers.rounded(2)
    assert rounded.found.all()
    frame = rounded.to_frame()
    assert (model.predict(frame) == 1).all()
    if isinstance(target, cp.Probability):
        assert (model.predict_proba(frame)[:, 1] >= 0.7).all()
    if isinstance(target, cp.Label):
        assert (model.decision_function(frame) >= 0.2).all()


def test_a_regressor():
    X, _ = tumours()
    model = LinearRegression().fit(X.drop(columns="worst area"), X["worst area"])
    answers = cp.Explainer(model, data=X).explain(X.head(30), cp.Interval(high=500.0))
    rounded = answers.rounded()
    assert (rounded.found == answers.found).all()
    assert rounded.found.any()
    assert (model.predict(rounded.to_frame().dropna()[model.feature_names_in_]) <= 500.0).all()


def test_each_trade_off_of_a_path_keeps_its_own_weight():
    X, y = tumours()
    model = model_of("linear", X, y)
    explainer, weights = cp.Explainer(model, data=X), (10.0, 1.0, 0.1)
    path = explainer.trace(X.head(5), [cp.Tradeoff(1, w) for w in weights])
    rounded = path.rounded()
    paid = np.array(weights) / 2 * rounded.cost - np.log(rounded.probability)
    assert rounded.objective == pytest.approx(paid, rel=1e-9)
    assert (rounded.objective >= path.bound * (1.0 - 1e-9)).all()
    assert (rounded.gap >= path.gap - 1e-12).all()
    single = explainer.explain(X.head(5), cp.Tradeoff(1, 0.1)).rounded()
    assert (single.after == rounded.answers[2].after).all()


def test_several_answers_change_the_same_features():
    X, y = tumours()
    model = model_of("linear", X, y)
    several = cp.Explainer(model, data=X).explain(X.head(6), cp.OtherLabel(), n=3)
    rounded = several.rounded()
    assert (rounded.answers.changed == several.answers.changed).all()
    assert rounded.count.tolist() == several.count.tolist()
    assert any(a[0].changes != b[0].changes for a, b in zip(several, rounded, strict=True))


# --- what is printed ---


def test_a_printed_change_has_as_few_digits_as_tell_it():
    assert change(30.0, 42.123456789) == "30 → 42.1235"
    assert change(1234567.0, 1234567.8) == "1234567 → 1234568"
    assert change(1.0, 1.0 + 2.0**-52) == "1 → 1.0000000000000002"
    assert change(3, 4) == "3 → 4"


# --- what makes no sense ---


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"significant": 0}, "Expected significant to be a whole number of at least 1, or None"),
        ({"significant": 2.5}, "Expected significant to be a whole number"),
        ({"decimals": 3}, "Expected decimals by feature, such as decimals={'age': 1}; got 3"),
        ({"decimals": {"worst radius": 1.5}}, "Expected decimals of 'worst radius' as a whole"),
        ({"steps": {"worst radius": 0}}, "Expected a positive step for 'worst radius'; got 0"),
        ({"steps": {"income": 5}}, "There is no feature 'income'"),
        (
            {"decimals": {"worst radius": 1}, "steps": {"worst radius": 1}},
            "'worst radius' has both decimals and steps",
        ),
    ],
)
def test_bad_input(options: dict[str, Any], sentence: str):
    X, y = tumours(2)
    answers = cp.Explainer(model_of("linear", X, y), data=X).explain(X.head(2), cp.OtherLabel())
    with pytest.raises(cp.InvalidInput, match=sentence):
        answers.rounded(**options)


def test_unpickled_answers_hold_no_model():
    X, y = tumours(2)
    answers = cp.Explainer(model_of("linear", X, y), data=X).explain(X.head(2), cp.OtherLabel())
    rounded = pickle.loads(pickle.dumps(answers.rounded()))  # noqa: S301 (our own)
    assert rounded[0].message.endswith(ROUNDED)
    with pytest.raises(cp.InvalidInput, match="copied or unpickled answers do not hold"):
        rounded.rounded()
