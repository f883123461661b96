"""Columns that must not decide: contributions and decisions against the model's own answers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.lvq import GMLVQ
from counterpoint.protected import influence, protected_features

pytestmark = pytest.mark.delicate

PROTECTED = ["age", "sex"]
RULE = cp.Immutable(*PROTECTED, protected=True)


def people(weight: float = 1.0) -> tuple[pd.DataFrame, pd.Series]:
    """Rows whose label depends on age and sex by so much."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "income": rng.normal(40.0, 9.0, 300).round(1),
            "age": rng.integers(20, 60, 300),
            "sex": rng.choice(["f", "m"], 300),
        }
    )
    score = (frame["income"] - 40.0) / 9.0
    score += weight * ((frame["age"] - 40.0) / 12.0 + np.where(frame["sex"] == "m", 1.0, -1.0))
    return frame, (score + rng.normal(0.0, 0.3, 300) > 0.0).map({True: "yes", False: "no"})


def model_of(kind: str, frame: pd.DataFrame, labels: Any) -> Any:
    """A model of these rows."""
    numbers = {
        "linear": StandardScaler(),
        "additive": KBinsDiscretizer(5, quantile_method="averaged_inverted_cdf"),
    }.get(kind, StandardScaler())
    prepare = make_column_transformer((OneHotEncoder(), ["sex"]), (numbers, ["income", "age"]))
    last: Any = LogisticRegression(max_iter=1000)
    if kind == "boosted":
        last = GradientBoostingClassifier(n_estimators=20, random_state=0)
    if kind == "prototypes":
        last = GMLVQ(random_state=0)
    return make_pipeline(prepare, last).fit(frame, labels)


def replaced(frame: pd.DataFrame, rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Each row beside the columns of each row of the data: len(rows) times len(frame) lines."""
    out = rows.loc[rows.index.repeat(len(frame))].reset_index(drop=True)
    for name in names:
        out[name] = np.tile(frame[name].to_numpy(), len(rows))
    return out


@pytest.mark.parametrize("kind", ["linear", "additive", "boosted"])
def test_contributions_are_mean_differences_of_the_models_own_scores(kind: str):
    frame, labels = people()
    model = model_of(kind, frame, labels)
    explainer = cp.Explainer(model, data=frame, constraints=RULE)
    rows = frame.head(12)
    result = influence(explainer, explainer.explain(rows, "yes"))
    score = model.decision_function(rows)
    assert result.features == ("age", "sex")
    assert result.margin == pytest.approx(score, abs=1e-9)
    for names, got in (
        (PROTECTED, result.contribution),
        (["age"], result.contributions[:, 0]),
        (["sex"], result.contributions[:, 1]),
    ):
        others = model.decision_function(replaced(frame, rows, names)).reshape(len(rows), -1)
        assert got == pytest.approx(score - others.mean(axis=1), abs=1e-9)
    if kind != "boosted":
        assert result.contributions.sum(axis=1) == pytest.approx(result.contribution, abs=1e-9)
    refused = score < 0
    assert result.share[refused] == pytest.approx((result.contribution / score)[refused])
    assert np.isnan(result.share[~refused]).all()


@pytest.mark.parametrize("weight", [0.1, 0.5])
@pytest.mark.parametrize("kind", ["linear", "additive", "boosted", "prototypes"])
def test_whether_they_decide_alone_is_what_the_model_says_of_all_their_values(
    kind: str, weight: float
):
    frame, labels = people(weight)
    model = model_of(kind, frame, labels)
    explainer = cp.Explainer(model, data=frame, constraints=RULE)
    rows = frame.head(40)
    result = influence(explainer, explainer.explain(rows, "yes"))
    values = [*product(range(frame["age"].min(), frame["age"].max() + 1), ["f", "m"])]
    grid = pd.DataFrame(values, columns=PROTECTED)
    predicted = model.predict(replaced(grid, rows, PROTECTED)).reshape(len(rows), -1)
    changes = (predicted != model.predict(rows)[:, None]).any(axis=1)
    assert not result.undecided.any()
    assert result.decides.tolist() == changes.tolist()
    assert weight < 0.5 or 0 < changes.sum() < len(rows)
    for i, answer in result.answers.items():
        assert {*answer.changes} <= {*PROTECTED}
        other = rows.iloc[[i]].assign(**{n: [v] for n, (_, v) in answer.changes.items()})
        assert model.predict(other) != model.predict(rows.iloc[[i]])


def test_columns_that_the_model_does_not_use_carry_exactly_nothing():
    frame, labels = people()
    data = frame[["income", "age"]]
    tree = DecisionTreeClassifier(max_depth=1).fit(data, data["income"] > 40.0)
    linear = LogisticRegression().fit(data, labels)
    linear.coef_[0, 1] = 0.0
    for model, target in ((linear, "yes"), (tree, True)):
        explainer = cp.Explainer(model, data=data, constraints=cp.Immutable("age"))
        result = influence(explainer, explainer.explain(data.head(20), target), ["age"])
        assert (result.contribution == 0.0).all()
        assert not result.depends.any()
        assert not result.decides.any()
        assert not result.undecided.any()


def test_a_regressor_a_probability_and_rows_that_cannot_be_used():
    frame, labels = people()
    data = frame[["income", "age"]]
    value = data["income"] / 10.0 + data["age"] / 20.0
    explainer = cp.Explainer(LinearRegression().fit(data, value), data=data)
    rows = pd.DataFrame({"income": [30.0, np.nan, 61.0], "age": [25.0, 30.0, 50.0]})
    answers = explainer.explain(rows, cp.Interval(low=7.0))
    result = influence(explainer, answers, ["age"])
    expected = (rows["age"] - data["age"].mean()) / 20.0
    assert result.contribution[[0, 2]] == pytest.approx(expected[[0, 2]])
    assert np.isnan(result.contribution[1])
    # 3 + age / 20 is 7 at 80, and 6.1 + age / 20 at 18; the data show ages from 20 to 59
    assert not result.decides.any()
    assert result.undecided.tolist() == [False, True, False]
    model = LogisticRegression().fit(data, labels)
    explainer = cp.Explainer(model, data=data)
    answers = explainer.explain(data.head(3), cp.Probability("yes", 0.8))
    result = influence(explainer, answers, ["age"])
    slope = model.coef_[0, 1]
    expected = slope * (data["age"].head(3) - data["age"].mean())
    assert result.contribution == pytest.approx(expected.to_numpy())


def test_other_label_is_about_the_label_of_each_row():
    frame, labels = people()
    explainer = cp.Explainer(model_of("linear", frame, labels), data=frame, constraints=RULE)
    rows = frame.head(20)
    either = influence(explainer, explainer.explain(rows, cp.OtherLabel()))
    yes = influence(explainer, explainer.explain(rows, "yes"))
    assert (either.margin < 0).all()
    assert either.decides.tolist() == yes.decides.tolist()


def test_protected_columns_come_from_the_policy_and_stay_in_conflicts():
    frame, labels = people()
    policy = {"constraints": [{"kind": "immutable", "features": PROTECTED, "protected": True}]}
    problem = cp.Problem.from_dict(policy)
    assert problem.constraints == (RULE,)
    assert problem.to_dict() == policy
    model = model_of("linear", frame, labels)
    explainer = problem.explainer(model, data=frame)
    assert protected_features(explainer) == ("age", "sex")
    narrow = explainer.adding(cp.Immutable("income"))
    low = pd.DataFrame({"income": [38.0], "age": [30], "sex": ["m"]})
    conflict = narrow.explain(low, "yes")[0].conflict
    assert model.predict(low) == "no"
    assert conflict is not None
    assert {*map(str, conflict.constraints)} == {
        "income is immutable",
        "age is immutable (protected)",
    }


def test_calls_that_cannot_be_answered_are_refused_in_a_sentence():
    frame, labels = people()
    model = model_of("linear", frame, labels)
    explainer = cp.Explainer(model, data=frame)
    answers = explainer.explain(frame.head(1), "yes")
    with pytest.raises(cp.InvalidInput, match=r"there are none\. Say which"):
        influence(explainer, answers)
    with pytest.raises(cp.InvalidInput, match="did you mean 'age'"):
        influence(explainer, answers, ["agee"])
    bare = cp.Explainer(model, features=[*explainer.features], cost=cp.Manhattan())
    with pytest.raises(cp.InvalidInput, match="Pass data= to the Explainer"):
        influence(bare, bare.explain(frame.head(1), "yes"), ["age"])
    with pytest.raises(cp.InvalidInput, match="demands no decision"):
        influence(explainer, explainer.explain(frame.head(1), cp.Tradeoff("yes", 1.0)), ["age"])
    with pytest.raises(cp.InvalidInput, match="True or False for protected"):
        cp.Immutable("age", protected="yes")  # type: ignore[arg-type]
