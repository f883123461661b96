"""Bad input: a clear error or a row status, and a bad row never costs the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import counterpoint as cp
from counterpoint.letters.writing import write_letters

RNG = np.random.default_rng(0)
N = 60
DATA = pd.DataFrame(
    {
        "age": RNG.integers(20, 70, size=N),
        "income": RNG.normal(30.0, 8.0, size=N),
        "home": RNG.choice(["own", "rent"], N),
    }
)
LABELS = np.where(
    DATA["income"] + 0.2 * DATA["age"] + 5 * (DATA["home"] == "own") > 40, "yes", "no"
)


def pipeline(classifier: Any = LogisticRegression()) -> Any:  # noqa: B008 (fitted anew each time)
    before = ColumnTransformer(
        [
            ("n", StandardScaler(), ["age", "income"]),
            ("h", OneHotEncoder(handle_unknown="ignore"), ["home"]),
        ]
    )
    return make_pipeline(before, clone(classifier))


MODEL = pipeline().fit(DATA, LABELS)
EXPLAINER = cp.Explainer(MODEL, data=DATA)
ROWS = DATA[LABELS == "no"][:5].reset_index(drop=True)


def explain(rows: Any, target: Any = "yes") -> cp.Counterfactuals:
    return EXPLAINER.explain(rows, target)


def numeric_model() -> tuple[Any, pd.DataFrame]:
    data = DATA[["age", "income"]].astype(float)
    return LogisticRegression().fit(data, LABELS), data


# A bad row is a status, and the others are as they were


BAD_CELLS = [
    ("income", np.nan, "column 'income' is missing; expected a finite number. Fill it in."),
    ("income", np.inf, "column 'income' is infinite. Replace it by a finite number."),
    ("income", -np.inf, "column 'income' is infinite. Replace it by a finite number."),
    ("home", "tent", "column 'home' holds the unknown category 'tent'; known: 'own', 'rent'."),
    ("home", None, "column 'home' is missing; expected one of its categories. Fill it in."),
]


@pytest.mark.parametrize(("column", "value", "message"), BAD_CELLS)
def test_a_bad_row_is_invalid_and_costs_no_other_row(column: str, value: Any, message: str):
    expected = explain(ROWS)
    rows = ROWS.copy()
    rows[column] = rows[column].astype(object if column == "home" else float)
    rows.loc[2, column] = value
    answers = explain(rows)
    assert answers.status[2] == cp.Status.INVALID
    assert message in answers[2].message
    assert message in answers.report()["message"][2]
    assert not answers.found[2]
    others = [0, 1, 3, 4]
    np.testing.assert_array_equal(answers.cost[others], expected.cost[others])
    np.testing.assert_array_equal(answers.after[others], expected.after[others])
    assert answers.to_frame()["income"].notna().tolist() == [i in others for i in range(5)]
    with pytest.raises(cp.NoAnswer, match="invalid"):
        answers[2].raise_for_status()


def test_text_in_a_column_of_numbers_is_invalid():
    rows = ROWS.astype({"income": object})
    rows.loc[1, "income"] = "plenty"
    answers = explain(rows)
    assert answers.status[1] == cp.Status.INVALID
    assert "column 'income' holds 'plenty'; expected a number." in answers[1].message
    assert answers.found[[0, 2, 3, 4]].all()


def test_all_rows_bad_is_no_error():
    rows = ROWS.assign(income=np.nan)
    answers = explain(rows)
    assert set(answers.status.tolist()) == {cp.Status.INVALID}
    assert answers.to_frame()[list(DATA)].isna().all(axis=None)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_rows_of_an_array_are_invalid(bad: float):
    model, data = numeric_model()
    model = LogisticRegression().fit(data.to_numpy(), LABELS)
    rows = data.to_numpy()[:6].copy()
    rows[3, 1] = bad
    answers = cp.explain(model, rows, "yes", data=data.to_numpy())
    assert answers.status[3] == cp.Status.INVALID
    assert (np.delete(answers.status, 3) != cp.Status.INVALID).all()


# Columns


def test_missing_columns_are_named():
    with pytest.raises(
        cp.InvalidInput, match=r"Expected the columns that the model uses; missing: 'age'"
    ):
        explain(ROWS.drop(columns="age"))


def test_a_misspelt_column_gets_a_suggestion():
    with pytest.raises(cp.InvalidInput, match=r"missing: 'income'.*did you mean 'incone'"):
        explain(ROWS.rename(columns={"income": "incone"}))


def test_missing_columns_are_said_in_whole_sentences():
    cases = {
        "missing: 'age'.": ROWS.drop(columns="age"),
        "missing: 'age'. Other columns that are known: 'x'.": ROWS.rename(columns={"age": "x"}),
        "missing: 'income', 'home'. For 'home', did you mean 'homes'?": ROWS.rename(
            columns={"income": "x", "home": "homes"}
        ),
    }
    for sentence, rows in cases.items():
        for ask in (
            explain,
            lambda rows: cp.diversify(EXPLAINER, rows, "yes"),
            lambda rows: cp.trace(EXPLAINER, rows, ["yes"]),
            lambda rows: cp.audit(EXPLAINER, rows, "yes"),
            lambda rows: cp.Explainer(MODEL, data=rows),
        ):
            with pytest.raises(cp.InvalidInput) as caught:
                ask(rows)
            expected = f"Expected the columns that the model uses; {sentence}"
            assert str(caught.value).removeprefix("In data=: ") == expected


# Arguments in the wrong order


def test_arguments_in_the_wrong_order_are_told_the_right_one():
    first = "^Expected a fitted model; got a .* The model comes first, then its rows, then the targ"
    for rows in (ROWS, ROWS.to_numpy(), ROWS.to_dict("records"), "model.skops", None):
        with pytest.raises(cp.UnsupportedModel, match=first):
            cp.explain(rows, MODEL, "yes", data=DATA)
        with pytest.raises(cp.UnsupportedModel, match=first):
            cp.Explainer(rows)
        with pytest.raises(cp.UnsupportedModel, match=first):
            cp.read(rows)
    in_one_call = partial(cp.explain, MODEL, data=DATA)
    for ask in (EXPLAINER.explain, in_one_call, partial(cp.diversify, EXPLAINER)):
        with pytest.raises(cp.InvalidInput, match=r"rows in a DataFrame\. Rows come first, th"):
            ask("yes", ROWS)
    for target in (cp.Manhattan(), cp.MaxChanges(2), MODEL):
        with pytest.raises(cp.InvalidInput, match=r"^Expected a target such as cp\.Label"):
            explain(ROWS, target)
    answers = explain(ROWS)
    for call in (
        lambda: cp.audit(MODEL, ROWS, "yes"),
        lambda: cp.diversify(ROWS, EXPLAINER, "yes"),
        lambda: cp.trace(MODEL, ROWS, ["yes"]),
        lambda: cp.letter(answers[0], EXPLAINER),
        lambda: write_letters(MODEL, answers),
    ):
        with pytest.raises(cp.InvalidInput, match=r"^Expected an Explainer; got"):
            call()
    with pytest.raises(cp.InvalidInput, match=r"^Expected the answers of an Explainer; got"):
        write_letters(EXPLAINER, [answers[0]])
    with pytest.raises(cp.InvalidInput, match=r"^Expected an answer, or several to one row; got"):
        cp.letter(EXPLAINER, ROWS)


# Models that predict something else than labels


class Shares:
    """A model of one's own whose ``predict`` gives probabilities."""

    def __init__(self, model: Any) -> None:
        self.model, self.classes_ = model, model.classes_
        self.n_features_in_, self.feature_names_in_ = model.n_features_in_, model.feature_names_in_

    def predict(self, rows: Any) -> Any:
        return self.model.predict_proba(rows)[:, 1]


class Labels(Shares):
    """One without probabilities."""

    def predict(self, rows: Any) -> Any:
        return self.model.predict(rows)


@cp.read.register(Shares)
def _(model: Shares) -> Any:
    return cp.read(model.model)


def test_a_model_whose_predict_gives_probabilities_is_told_to_give_labels():
    model, data = numeric_model()
    says = (
        r"Shares\.predict gives 0\.\d+, which is none of the classes \['no', 'yes'\]\. Let predict "
        "give labels, and predict_proba probabilities"
    )
    for target, rows in product(("yes", cp.OtherLabel(), cp.Probability("yes", 0.8)), (2, 40)):
        with pytest.raises(cp.ReaderMismatch, match=says):
            cp.explain(Shares(model), data[:rows], target, data=data)
    with pytest.raises(cp.ReaderMismatch, match=says):
        cp.diversify(cp.Explainer(Shares(model), data=data), data[:2], "yes")


def test_a_model_without_probabilities_is_not_asked_for_them():
    model, data = numeric_model()
    explainer = cp.Explainer(Labels(model), data=data)
    assert explainer.explain(data[:3], "yes").found.all()
    for target in (cp.Probability("yes", 0.8), cp.Tradeoff("yes", 1.0)):
        for ask in (explainer.explain, lambda X, target: cp.trace(explainer, X, [target])):
            with pytest.raises(cp.InvalidInput, match=r"^Labels has no predict_proba, which this"):
                ask(data[:3], target)


def test_reordered_columns_are_matched_by_name():
    np.testing.assert_array_equal(explain(ROWS[["home", "income", "age"]]).cost, explain(ROWS).cost)


def test_duplicate_column_names_are_refused():
    rows = pd.concat([ROWS, ROWS[["age"]]], axis=1)
    with pytest.raises(cp.InvalidInput, match="distinct column names; got age more than once"):
        explain(rows)


def test_duplicate_feature_names_are_refused():
    with pytest.raises(cp.InvalidInput, match="Expected distinct feature names"):
        cp.Features([cp.Continuous("a"), cp.Integer("a")])


def test_an_array_of_the_wrong_width_is_refused():
    model, data = numeric_model()
    explainer = cp.Explainer(model, data=data)
    with pytest.raises(cp.InvalidInput, match=r"Expected 2 columns.*got an array with 3"):
        explainer.explain(np.zeros((4, 3)), "yes")


@pytest.mark.parametrize("rows", [5, "rows.csv", None, {1, 2}])
def test_what_is_no_table_is_refused(rows: Any):
    with pytest.raises(cp.InvalidInput, match="Expected a data frame"):
        explain(rows)


def test_no_rows_give_no_answers():
    answers = explain(ROWS[:0])
    assert len(answers) == 0
    back = answers.to_frame()
    assert back.columns.tolist() == ROWS.columns.tolist()
    assert back.dtypes.equals(ROWS.dtypes)
    assert len(answers.report()) == 0


def test_no_columns_are_refused():
    with pytest.raises(cp.InvalidInput):
        explain(pd.DataFrame(index=range(3)))


def test_dates_are_refused_with_what_to_do():
    data = DATA.assign(since=[date(2020, 1, 1)] * N)
    with pytest.raises(cp.InvalidInput, match=r"'since' .*[Tt]urn .*into a number first"):
        cp.Features.from_data(data)


# Models


def test_an_unfitted_model():
    with pytest.raises(cp.ModelNotFitted, match="fit"):
        cp.Explainer(LogisticRegression(), data=DATA[["age"]])


def test_an_unfitted_pipeline():
    with pytest.raises(cp.ModelNotFitted, match="fit"):
        cp.Explainer(pipeline(), data=DATA)


def test_an_unsupported_model_is_named():
    model = pipeline(MLPClassifier(2, tol=1e3)).fit(DATA, LABELS)
    with pytest.raises(cp.UnsupportedModel, match="MLPClassifier"):
        cp.Explainer(model, data=DATA)


@pytest.mark.parametrize("thing", ["model", 3, object()])
def test_what_is_no_model(thing: Any):
    with pytest.raises(cp.UnsupportedModel, match=type(thing).__name__):
        cp.Explainer(thing, data=DATA)


# Targets


def test_an_unknown_label_lists_the_classes():
    with pytest.raises(cp.InvalidInput, match=r"among the classes \['no', 'yes'\]; got 'maybe'"):
        explain(ROWS, "maybe")


def test_a_set_with_every_class_is_no_target():
    with pytest.raises(cp.InvalidInput, match="leaves some class out and some in"):
        explain(ROWS, cp.Label(("no", "yes")))


def test_a_target_of_the_wrong_kind():
    with pytest.raises(
        cp.InvalidInput, match=r"for a classifier \(Label, OtherLabel, Probability or Tradeoff\)"
    ):
        explain(ROWS, cp.Interval(low=1.0))
    _, data = numeric_model()
    regressor = LinearRegression().fit(data, data["income"])
    with pytest.raises(cp.InvalidInput, match=r"for a regressor \(Interval\)"):
        cp.explain(regressor, data, "yes", data=data)


def test_probability_without_probabilities():
    from sklearn.svm import LinearSVC

    model = pipeline(LinearSVC()).fit(DATA, LABELS)
    with pytest.raises(cp.InvalidInput, match="Probability needs class probabilities"):
        cp.explain(model, ROWS, cp.Probability("yes", 0.9), data=DATA)


@pytest.mark.parametrize("at_least", [0.0, 1.0, -1.0, 2.0, np.nan])
def test_a_probability_is_between_0_and_1(at_least: float):
    with pytest.raises(cp.InvalidInput, match="between 0 and 1, both excluded; got"):
        cp.Probability("yes", at_least)


@pytest.mark.parametrize("margin", [-1.0, np.nan, np.inf])
def test_a_margin_is_not_negative(margin: float):
    for kind in (cp.Label, cp.OtherLabel):
        with pytest.raises(cp.InvalidInput, match="Expected a margin of at least 0; got"):
            kind("yes", margin)


@pytest.mark.parametrize("ends", [{}, {"low": 2.0, "high": 1.0}, {"low": np.nan}])
def test_an_interval_has_an_end_and_is_not_empty(ends: dict[str, float]):
    with pytest.raises(cp.InvalidInput, match="Expected low"):
        cp.Interval(**ends)


def test_an_empty_label_set():
    with pytest.raises(cp.InvalidInput, match="at least one target label; got none"):
        cp.Label(())


def test_a_target_that_is_met_is_already_there_at_cost_0():
    rows = DATA[LABELS == "yes"][:4]
    satisfied = rows[MODEL.predict(rows) == "yes"]
    answers = explain(satisfied)
    assert set(answers.status.tolist()) == {cp.Status.ALREADY}
    assert answers.cost.tolist() == answers.gap.tolist() == [0.0] * len(satisfied)
    assert not answers.changed.any()
    pd.testing.assert_frame_equal(answers.to_frame(), satisfied)
    assert answers[0].certificate.claim == cp.Claim.PROVED


# Costs


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("cost", [cp.Manhattan, cp.SquaredEuclidean])
def test_weights_are_positive_and_finite(cost: Any, weight: float):
    with pytest.raises(
        cp.InvalidInput, match=r"positive finite weight for 'income'; got .*Immutable"
    ):
        cp.Explainer(MODEL, data=DATA, cost=cost({"income": weight}))


def test_a_weight_for_an_unknown_feature():
    with pytest.raises(cp.InvalidInput, match="no feature 'incom'; did you mean 'income'"):
        cp.Explainer(MODEL, data=DATA, cost=cp.Manhattan({"incom": 1.0}))


def test_too_few_weights():
    with pytest.raises(
        cp.InvalidInput, match=r"Expected 3 weights, one for each feature; got shape \(2,\)"
    ):
        cp.Explainer(MODEL, data=DATA, cost=cp.Manhattan([1.0, 2.0]))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 2)), "singular or indefinite one. Add a small multiple of the identity"),
        (np.diag([1.0, -1.0]), "singular or indefinite"),
        (np.diag([1.0, 0.0]), "singular or indefinite"),
        (np.array([[1.0, 0.5], [0.1, 1.0]]), "finite symmetric"),
        (np.full((2, 2), np.nan), "finite symmetric"),
        (np.eye(3), r"shape \(2, 2\); got \(3, 3\)"),
    ],
)
def test_a_mahalanobis_matrix_is_positive_definite(matrix: np.ndarray, message: str):
    model, data = numeric_model()
    with pytest.raises(cp.InvalidInput, match=message):
        cp.Explainer(model, data=data, cost=cp.Mahalanobis(matrix))


def test_a_category_has_no_sign_under_mahalanobis():
    matrix = np.eye(3)
    matrix[0, 2] = matrix[2, 0] = 0.1
    with pytest.raises(cp.InvalidInput, match=r"zeros off the diagonal .*'home'"):
        cp.Explainer(MODEL, data=DATA, cost=cp.Mahalanobis(matrix))


def test_neither_cost_nor_data():
    model, _ = numeric_model()
    with pytest.raises(
        cp.InvalidInput,
        match=r"got neither a cost nor data, and the range of .* is not known. Pass",
    ):
        cp.Explainer(model)


@pytest.mark.parametrize("cost", ["l1", 1.0, cp.Manhattan])
def test_what_is_no_cost(cost: Any):
    with pytest.raises(cp.InvalidInput, match=r"Expected a cost such as cp.Manhattan\(\); got"):
        cp.Explainer(MODEL, data=DATA, cost=cost)


# Constraints


@pytest.mark.parametrize("constraint", ["age <= 3", cp.Immutable, 1])
def test_what_is_no_constraint(constraint: Any):
    with pytest.raises(cp.InvalidInput, match=r"Expected constraints such as cp.Immutable"):
        cp.Explainer(MODEL, data=DATA, constraints=[constraint])


@pytest.mark.parametrize(
    "constraint",
    [
        cp.Immutable("agee"),
        cp.Bounds("agee", low=1.0),
        cp.Monotone("agee", "increasing"),
        cp.Clearance("agee", 1.0),
        cp.Linear({"agee": 1.0}, high=1.0),
        cp.SameChange("agee", "home"),
        cp.Forbidden({"agee": (None, 1)}),
        cp.ObservedCombinations("home", "agee"),
        cp.Implies({"home": "own"}, {"agee": (None, 1)}),
        cp.Ellipsoid({"agee": 1.0}, [[1.0]]),
        cp.WithinObserved("agee"),
    ],
)
def test_a_constraint_on_an_unknown_feature_fails_when_the_explainer_is_made(constraint: Any):
    with pytest.raises(cp.InvalidInput, match="no feature 'agee'; did you mean 'age'"):
        cp.Explainer(MODEL, data=DATA, constraints=[constraint])


@pytest.mark.parametrize(
    "constraint",
    [
        cp.Bounds("home", low=1.0),
        cp.Monotone("home", "increasing"),
        cp.Clearance("home", 1.0),
        cp.Linear({"home": 1.0}, high=1.0),
        cp.SameChange("age", "home"),
        cp.Forbidden({"home": (None, 1)}),
        cp.Implies({"home": "castle"}, {"age": (None, 1)}),
        cp.Ellipsoid({"home": 1.0}, [[1.0]]),
    ],
)
def test_a_constraint_that_does_not_fit_the_kind(constraint: Any):
    with pytest.raises(cp.InvalidInput, match="'home'"):
        cp.Explainer(MODEL, data=DATA, constraints=[constraint])


@pytest.mark.parametrize(
    "make",
    [
        cp.Immutable,
        lambda: cp.Bounds("age", low=2.0, high=1.0),
        lambda: cp.Bounds("age", rise=-1.0),
        lambda: cp.Bounds("age", low=np.nan),
        lambda: cp.Monotone("age", "up"),
        lambda: cp.SameChange("age", "age"),
        cp.Forbidden,
        lambda: cp.Forbidden("age"),
        lambda: cp.ObservedCombinations("home"),
        lambda: cp.ObservedCombinations("home", "home"),
        lambda: cp.ObservedCombinations(min_count=0),
        lambda: cp.ObservedCombinations(min_count=1.5),
        lambda: cp.Forbidden({}),
        lambda: cp.Forbidden({"age": ()}),
        lambda: cp.Forbidden({"age": (2, 1)}),
        lambda: cp.Forbidden({"age": (None, None)}),
        lambda: cp.Forbidden({"age": {"least": 1}}),
        lambda: cp.Implies({"age": (1, 2)}, {}),
        lambda: cp.Clearance("age", 0.0),
        lambda: cp.Clearance("age", np.inf),
        lambda: cp.Linear({}, high=1.0),
        lambda: cp.Linear({"age": 0.0}, high=1.0),
        lambda: cp.Linear({"age": np.nan}, high=1.0),
        lambda: cp.Linear({"age": 1.0}),
        lambda: cp.Linear({"age": 1.0}, low=2.0, high=1.0),
        lambda: cp.Ellipsoid({"age": 1.0}, np.eye(2)),
        lambda: cp.Ellipsoid({"age": 1.0}, [[1.0]], radius=0.0),
        lambda: cp.Ellipsoid({"age": 1.0}, [[-1.0]]),
        lambda: cp.Ellipsoid({"age": np.nan}, [[1.0]]),
        lambda: cp.MaxChanges(0),
        lambda: cp.MaxChanges(1.5),
        lambda: cp.Integer("age", step=0.0),
        lambda: cp.Categorical("home", ()),
        lambda: cp.Categorical("home", ("own", "own")),
        lambda: cp.Features([]),
    ],
)
def test_values_that_make_no_sense_say_what_was_expected_and_what_came(make: Any):
    with pytest.raises(cp.InvalidInput, match=r"Expected .*; got"):
        make()


def test_conflicting_constraints_are_a_result_with_a_reason():
    answers = cp.explain(
        MODEL,
        ROWS,
        "yes",
        data=DATA,
        constraints=[cp.Bounds("income", low=50.0), cp.Bounds("income", high=20.0)],
    )
    assert set(answers.status.tolist()) == {cp.Status.INFEASIBLE}
    conflict = answers[0].conflict
    assert conflict is not None
    assert len(conflict.constraints) == 2
    assert all("income" in str(constraint) for constraint in conflict.constraints)


@pytest.mark.parametrize(
    "option",
    [{"gap": -1.0}, {"gap": np.nan}, {"gap": np.inf}, {"time_limit": 0.0}, {"time_limit": -1.0}],
)
def test_options_that_make_no_sense(option: dict[str, float]):
    with pytest.raises(cp.InvalidInput, match=r"Expected a .*; got"):
        EXPLAINER.explain(ROWS, "yes", **option)


@pytest.mark.parametrize("gap", [0.0, 1.0, 5.0])
def test_any_other_gap_is_fine(gap: float):
    answers = EXPLAINER.explain(ROWS, "yes", gap=gap)
    assert answers.found.all()
    assert (MODEL.predict(answers.to_frame()) == "yes").all()


# Scales and dtypes


@pytest.mark.parametrize("cost", ["manhattan", "squared euclidean", "mahalanobis"])
@pytest.mark.parametrize("scales", [(1e-9, 1e9), (1e9, 1e9), (1e-9, 1e-9)])
def test_extreme_scales_are_proved_like_others(scales: tuple[float, float], cost: str):
    rng = np.random.default_rng(1)
    plain = rng.normal(size=(200, 3))
    factors = np.array([*scales, 1.0])
    data = pd.DataFrame(plain * factors, columns=list("abc"))
    labels = plain @ [1.0, 2.0, -1.0] > 0.3
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data, labels)
    prices = {
        "manhattan": cp.Manhattan(1.0 / factors),
        "squared euclidean": cp.SquaredEuclidean(1.0 / factors**2),
        "mahalanobis": cp.Mahalanobis((np.eye(3) + 0.3) / np.outer(factors, factors)),
    }
    limits = [cp.Bounds("a", fall=0.3 * scales[0], rise=0.3 * scales[0])]
    for constraints in ([], limits):
        answers = cp.explain(
            model, data[:40], True, data=data, cost=prices[cost], constraints=constraints
        )
        assert answers.found.all()
        assert (answers.gap <= 1e-6).all()
        assert model.predict(answers.to_frame()).all()


def test_float32_rows_and_models():
    model, data = numeric_model()
    rows = data.astype(np.float32)
    model = LogisticRegression().fit(rows, LABELS)
    answers = cp.explain(model, rows, "yes", data=rows)
    back = answers.to_frame()
    assert answers.found.all()
    assert (back.dtypes == np.float32).all()
    assert (model.predict(back) == "yes").all()
    # float32 rounds a value by 6e-8 of itself, whatever the size of the change.
    encoded_cost = max(cp.mad_weights(rows).values())
    rounding = 1e-6 * np.abs(rows.to_numpy(float)).max() * encoded_cost
    safety_margin = answers.certificates.rounding / np.abs(model.coef_).min() * encoded_cost
    assert (answers.cost - answers.bound <= rounding + safety_margin).all()


def test_object_columns_of_numbers_are_numbers():
    model, data = numeric_model()
    rows = data[:8].astype(object)
    answers = cp.explain(model, rows, "yes", data=data)
    np.testing.assert_allclose(answers.cost, cp.explain(model, data[:8], "yes", data=data).cost)


def test_a_constant_column_keeps_its_value():
    data = DATA[["age", "income"]].astype(float).assign(flat=1.0)
    model = LogisticRegression().fit(data, LABELS)
    answers = cp.explain(model, data, "yes", data=data)
    assert (answers.to_frame()["flat"] == 1.0).all()


COEFFICIENTS: dict[str, tuple[Any, str]] = {
    "coefficients": (LogisticRegression(), "coef_"),
    "an intercept": (LogisticRegression(), "intercept_"),
    "a regressor": (Ridge(), "coef_"),
    "votes": (SVC(kernel="linear"), "intercept_"),
    "a scaler": (make_pipeline(StandardScaler(), LogisticRegression()), "mean_"),
}


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("what", COEFFICIENTS)
def test_coefficients_that_are_not_finite_are_refused_at_once(what: str, number: float):
    """They decide nothing: every row would end without an answer and without a reason."""
    made, name = COEFFICIENTS[what]
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = clone(made).fit(X, np.arange(60) % 3)
    part = model[0] if isinstance(model, Pipeline) else model
    broken = np.array(getattr(part, name), dtype=float)
    broken.flat[0] = number
    setattr(part, name, broken)
    with pytest.raises(cp.InvalidInput, match=r"Expected finite coefficients.*Fit it again"):
        cp.Explainer(model, data=X)


@pytest.mark.parametrize("labels", [[0.0, 1.0, np.nan], ["a", "b", np.nan]])
@pytest.mark.parametrize("made", [LogisticRegression(), GaussianNB()], ids=repr)
def test_classes_that_are_nan_are_refused(made: Any, labels: list[Any]):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = clone(made).fit(X, np.arange(60) % 3)
    model.classes_ = np.array(labels, dtype=object if isinstance(labels[0], str) else float)
    with pytest.raises(cp.UnsupportedModel, match=r"has NaN among its classes.*labels without NaN"):
        cp.Explainer(model, data=X)


# Wrong types, everywhere: one sentence

WRONG: list[Any] = [None, "a", 3, [], ["a"], {}, {"a": 1}, set(), np.array([1, "a"], dtype=object)]
WRONG += [object(), int, 1j, pd.NaT, np.nan, -1, pd.NA, 10**400, np.array("a"), np.zeros((2, 2))]
WRONG += [[[1, 2], [3]], DATA, MODEL, lambda: 1, slice(None)]
NUMERIC, NUMBERS = numeric_model()
ASKED: dict[str, Callable[[Any], Any]] = {
    "Immutable": lambda w: said(cp.Immutable(w)),
    "WithinObserved": lambda w: said(cp.WithinObserved(w)),
    "Bounds of": lambda w: said(cp.Bounds(w, low=1)),
    **{f"Bounds {k}": lambda w, k=k: said(cp.Bounds("age", **{k: w})) for k in ("low", "rise")},
    "Monotone of": lambda w: said(cp.Monotone(w, "increasing")),
    "Monotone": lambda w: said(cp.Monotone("age", w)),
    "MaxChanges": lambda w: said(cp.MaxChanges(w)),
    "Linear of": lambda w: said(cp.Linear(w, low=1)),
    "Linear": lambda w: said(cp.Linear({"age": w}, low=1)),
    "Linear low": lambda w: said(cp.Linear({"age": 1}, low=w)),
    "Linear.parse": cp.Linear.parse,
    "Ellipsoid of": lambda w: said(cp.Ellipsoid(w, np.eye(1))),
    "Ellipsoid matrix": lambda w: said(cp.Ellipsoid({"age": 0}, w)),
    "Ellipsoid radius": lambda w: said(cp.Ellipsoid({"age": 0}, np.eye(1), w)),
    "Ellipsoid.from_data": lambda w: cp.Ellipsoid.from_data(w, ["age"]),
    "Ellipsoid.from_data of": lambda w: cp.Ellipsoid.from_data(NUMBERS, w),
    "Ellipsoid coverage": lambda w: cp.Ellipsoid.from_data(NUMBERS, ["age"], coverage=w),
    "Manhattan": lambda w: said(cost=cp.Manhattan(w)),
    "Manhattan of": lambda w: said(cost=cp.Manhattan({"age": w})),
    "Mahalanobis": lambda w: said(cost=cp.Mahalanobis(w)),
    "constraints": lambda w: said(constraints=w),
    "features": lambda w: said(features=w),
    "cost": lambda w: said(cost=w),
    "data": lambda w: cp.Explainer(NUMERIC, data=w, cost=cp.Manhattan()),
    "Continuous": lambda w: said(features=cp.Continuous("age", w)),
    "Integer": lambda w: said(features=cp.Integer("age", w)),
    "Categorical": lambda w: said(features=cp.Categorical("age", w)),
    "Categorical of": lambda w: said(features=cp.Categorical("age", [w])),
    "Categorical observed": lambda w: said(features=cp.Categorical("age", (1, 2), observed=w)),
    "Categorical stand_in": lambda w: said(features=cp.Categorical("age", (1, 2), stand_in=w)),
    "Categorical ordered": lambda w: said(features=cp.Categorical("age", (1, 2), w)),
    "Features": cp.Features,
    "mad_weights features": lambda w: cp.mad_weights(NUMBERS, w),
    "extrapolate": lambda w: said(extrapolate=w),
    "progress": lambda w: said().explain(NUMBERS[:2], "yes", progress=w),
    "label": lambda w: said().explain(NUMBERS[:2], cp.Label(w)),
    "other label": lambda w: said().explain(NUMBERS[:2], cp.OtherLabel(w)),
    **{
        f"{t.__name__} margin": lambda w, t=t: said().explain(NUMBERS[:2], t("yes", margin=w))
        for t in (cp.Label, cp.OtherLabel)
    },
    "Probability label": lambda w: said().explain(NUMBERS[:2], cp.Probability(w, 0.7)),
    "targets": lambda w: cp.trace(said(), NUMBERS[:2], w),
    "beside a report": lambda w: said().explain(NUMBERS[:3], "yes").report(beside=w),
    "X": lambda w: cp.explain(NUMERIC, w, "yes", data=NUMBERS),
    "target": lambda w: cp.explain(NUMERIC, NUMBERS[:2], w, data=NUMBERS),
    "gap": lambda w: cp.explain(NUMERIC, NUMBERS[:2], "yes", data=NUMBERS, gap=w),
    "time_limit": lambda w: cp.explain(NUMERIC, NUMBERS[:2], "yes", data=NUMBERS, time_limit=w),
    "optimality": lambda w: cp.explain(NUMERIC, NUMBERS[:2], "yes", data=NUMBERS, optimality=w),
    **{
        f"Robust {k}": lambda w, k=k: cp.Robust("yes", 0.9, **{k: w})
        for k in ("guarantee", "draws", "random_state", "search", "prototype")
    },
    "Interval": lambda w: cp.Interval(low=w),
    "Problem constraints": lambda w: cp.Problem(constraints=w),
    "Problem features": lambda w: cp.Problem(features=w),
    "diversify gap": lambda w: cp.diversify(said(), NUMBERS[:2], "yes", 2, gap=w),
    "diversify by": lambda w: cp.diversify(said(), NUMBERS[:2], "yes", 2, by=w),
}


def said(constraints: Any = (), **options: Any) -> cp.Explainer:
    return cp.Explainer(NUMERIC, data=NUMBERS, constraints=constraints, **options)


@pytest.mark.parametrize("what", ASKED)
def test_a_wrong_type_is_taken_or_refused_in_a_sentence(what: str):
    refused = 0
    for wrong in WRONG:
        try:
            ASKED[what](wrong)
        except cp.CounterpointError as error:
            refused += 1
            text = str(error)
            assert len(text) > 20 and "\n" not in text, text  # noqa: PT018
    assert refused


@pytest.mark.parametrize(
    "position", [None, "a", 1.0, True, slice(None), [0], np.array([True, False])]
)
def test_answers_go_by_the_position_of_one_row(position: Any):
    answers = said().explain(NUMBERS[:2], "yes")
    assert answers[np.int64(1)].factual == answers[-1].factual
    with pytest.raises(cp.InvalidInput, match="Expected the position of one row; got"):
        answers[position]
    several = cp.diversify(said(), NUMBERS[:2], "yes"), cp.trace(said(), NUMBERS[:2], ["yes"])
    for sequence in (answers, *several):
        with pytest.raises(cp.InvalidInput, match="Expected the position of one row; got"):
            sequence[position]
        for beyond in (2, -3):
            says = f"^Expected a position among 2 rows; got {beyond}. Pass 0 to 1.$"
            with pytest.raises(IndexError, match=says) as caught:
                sequence[beyond]
            assert isinstance(caught.value, cp.InvalidInput)
    with pytest.raises(cp.InvalidInput, match=r"among 0 rows; got 0.$"):
        said().explain(NUMBERS[:0], "yes")[0]


def test_one_constraint_or_feature_needs_no_list():
    one = said(cp.Immutable("age"), features=cp.Integer("income", step=2))
    assert one.constraints == (cp.Immutable("age"),)
    assert one.features["income"].step == 2
    assert cp.Immutable(["age", "income"]) == cp.Immutable("age", "income")
    assert cp.WithinObserved(NUMBERS.columns) == cp.WithinObserved("age", "income")
    assert cp.Problem(constraints=cp.Immutable("age")).constraints == (cp.Immutable("age"),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cp.Bounds("age", low="a"), "Expected a number for low of 'age'; got 'a'."),
        (
            lambda: cp.Monotone(["a"], "increasing"),
            r"one feature for Monotone; got \['a'\]",
        ),
        (lambda: cp.Continuous("a", (2, 1)), "smallest and a largest value as the observed range"),
        (lambda: cp.Categorical("a", "abc"), "a list for the categories of column 'a'; got 'abc'"),
        (lambda: cp.Categorical("a", (1, 2), observed=(3,)), "among its categories; got 3"),
        (lambda: cp.Linear({"a": "b"}, low=1), "number for coefficients of 'a'; got 'b'"),
        (lambda: said(features=3), r"Expected features such as .*; got 3 \(int\)"),
    ],
)
def test_the_sentence_for_a_wrong_type(make: Any, message: str):
    with pytest.raises(cp.InvalidInput, match=message):
        make()


def test_an_array_goes_by_position_for_a_model_that_was_fitted_on_a_frame():
    by_array = cp.Explainer(NUMERIC, data=NUMBERS.to_numpy())
    whole = cp.Continuous("age")  # a frame says that it is whole, and an array does not
    by_frame = cp.Explainer(NUMERIC, data=NUMBERS, features=[whole])
    assert by_array.features == by_frame.features
    assert by_array.cost == by_frame.cost
    with pytest.raises(cp.InvalidInput, match=r"In data=: Expected 2 columns .* array with 3"):
        cp.Explainer(NUMERIC, data=np.ones((9, 3)))


def test_a_pipeline_without_steps_is_refused():
    with pytest.raises(cp.UnsupportedModel, match="it has no steps"):
        cp.Explainer(Pipeline([]), data=np.zeros((3, 2)))


def test_a_model_that_predicts_nan_is_no_match():
    X = np.random.default_rng(0).normal(size=(20, 2))

    class Broken(Ridge):
        def predict(self, X: Any) -> Any:
            return np.full(len(X), np.nan)

    model = Broken().fit(X, X[:, 0])
    with pytest.raises(cp.ReaderMismatch):
        cp.explain(model, X[:2], cp.Interval(low=5.0), data=X, extrapolate=True)
