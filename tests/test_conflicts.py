"""Why there is no answer: the conflict is minimal, and its relaxations are the thresholds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import counterpoint as cp
from counterpoint.lvq import LGMLVQ
from counterpoint.privacy.noise import ProjectedGaussian

NAMES = list("abcd")


def problem(seed: int) -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(80, 4)), columns=NAMES)
    labels = data.to_numpy() @ np.array([1.0, -1.0, 0.5, 2.0]) > 0
    model = LogisticRegression().fit(data, labels)
    row = data[~model.predict(data)].iloc[[0]]
    return model, data, row


def policy(seed: int) -> list[cp.Constraint]:
    """Constraints, some needed for the conflict and some not; each about one or two features."""
    rng = np.random.default_rng(seed)
    made: list[cp.Constraint] = [
        cp.Immutable("a") if rng.random() < 0.5 else cp.Bounds("a", fall=0.1, rise=0.1),
        cp.Monotone("b", "increasing") if rng.random() < 0.5 else cp.Immutable("b"),
        cp.Bounds("c", rise=0.05),
        cp.Linear({"d": 1.0, "a": 0.1}, high=-3.0)
        if rng.random() < 0.5
        else cp.Bounds("d", rise=0.01),
        cp.Bounds("c", fall=5.0),
        cp.WithinObserved("b"),
    ]
    return [made[i] for i in rng.permutation(len(made))]


def status(model: Any, data: pd.DataFrame, row: pd.DataFrame, constraints: Any) -> cp.Status:
    cost = cp.Manhattan()
    return cp.explain(
        model, row, True, data=data, extrapolate=True, cost=cost, constraints=constraints
    ).status[0]


def infeasible(*args: Any) -> bool:
    found = status(*args)
    assert found in (cp.Status.OPTIMAL, cp.Status.INFEASIBLE)
    return found == cp.Status.INFEASIBLE


@pytest.mark.parametrize("seed", range(8))
def test_a_conflict_is_a_minimal_conflict(seed: int):
    """Brute force over all subsets: the named ones conflict, and no proper subset of them does."""
    model, data, row = problem(seed)
    constraints = policy(seed)
    if not infeasible(model, data, row, constraints):
        constraints.append(cp.Bounds("d", high=float(row["d"].iloc[0]) - 5.0))
    assert infeasible(model, data, row, constraints)
    answers = cp.explain(
        model, row, True, data=data, extrapolate=True, cost=cp.Manhattan(), constraints=constraints
    )
    conflict = answers[0].conflict
    assert conflict is not None
    named = list(conflict.constraints)
    assert conflict.minimal
    assert set(map(repr, named)) <= set(map(repr, constraints))
    assert named
    assert infeasible(model, data, row, named)
    for size in range(len(named)):
        for subset in combinations(named, size):
            assert not infeasible(model, data, row, list(subset))


NUMBER = r"(-?[0-9.]+(?:e[-+]?[0-9]+)?)"


@pytest.mark.parametrize("seed", range(6))
def test_a_relaxation_is_the_threshold(seed: int):
    """A bound that gives as far as said has an answer; a little less far, it has none."""
    model, data, row = problem(seed)
    at = float(row["a"].iloc[0])
    others = [cp.Immutable("b", "c", "d")]
    bound = cp.Bounds("a", high=at + 1e-3)
    answers = cp.explain(
        model,
        row,
        True,
        data=data,
        extrapolate=True,
        cost=cp.Manhattan(),
        constraints=[bound, *others],
    )
    conflict = answers[0].conflict
    assert conflict is not None
    said = [r for r in conflict.relaxations if r.startswith("an answer exists if a ")]
    found = re.search(rf"a may go up to {NUMBER} \(now at most {NUMBER}\)", said[0])
    assert found, said
    needed = float(found[1])
    z = model.decision_function(row)[0]
    assert needed == pytest.approx(at - z / model.coef_[0, 0], rel=1e-5)
    digits = 1e-5 * abs(needed)  # six digits are said
    assert not infeasible(model, data, row, [cp.Bounds("a", high=needed + digits), *others])
    assert infeasible(model, data, row, [cp.Bounds("a", high=needed - digits), *others])


def test_rows_with_an_answer_have_no_conflict():
    model, data, row = problem(0)
    answers = cp.explain(model, row, True, data=data, extrapolate=True)
    assert answers[0].conflict is None


def test_a_conflict_reads_as_a_sentence():
    model, data, row = problem(0)
    constraints = [cp.Immutable("a", "b", "c", "d"), cp.MaxChanges(2)]
    answers = cp.explain(model, row, True, data=data, extrapolate=True, constraints=constraints)
    text = str(answers[0].conflict)
    assert text.startswith("These exclude every answer: ")
    assert "a, b, c and d are immutable" in text
    assert "may change" not in text


def test_conflicts_of_metrics_of_their_own():
    """A bound that excludes every answer, of a model whose boundaries bend."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = list(X.columns)
    model = LGMLVQ(random_state=0).fit(X, y)
    held = cp.Immutable(*names[1:])
    bounds = cp.Bounds(names[0], low=4.5, high=5.5)
    answer = cp.explain(model, X.head(1), 2, data=X, extrapolate=True, constraints=[held, bounds])[
        0
    ]
    assert answer.status == cp.Status.INFEASIBLE
    conflict = answer.conflict
    assert conflict is not None
    assert bounds in conflict.constraints
    for told in conflict.relaxations:
        assert told.startswith(f"an answer exists if {names[0]} may go ")


# Whole numbers and a category, few enough to try them all: nothing here asks the library.

FAR = 40
"""No answer of these models is farther from the row in a feature, if there is one."""
DATA = pd.DataFrame(
    {"a": [-2, 0, 2, 3] * 3, "b": [-3, 0, 1, 4] * 3, "k": list("uvwuvwuvwuvw"), "y": [0, 1] * 6}
)
FEATURES = [cp.Integer("a"), cp.Integer("b")]


def whole_model(a: int, b: int, k: tuple[int, int, int], offset: int) -> Any:
    """Decides for 1 where a linear score is positive, which is never 0."""
    encode = ColumnTransformer([("k", OneHotEncoder(), ["k"])], remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression()).fit(DATA[["a", "b", "k"]], DATA["y"])
    model[-1].coef_ = np.array([[*k, a, b]], dtype=float)
    model[-1].intercept_ = np.array([offset + 0.5])
    return model


def everything() -> pd.DataFrame:
    """All points that are near enough."""
    near = np.arange(-FAR, FAR + 1)
    a, b, k = np.meshgrid(near, near, list("uvw"), indexing="ij")
    return pd.DataFrame({"a": a.ravel(), "b": b.ravel(), "k": k.ravel()})


POINTS = everything()


def meets(constraint: cp.Constraint, row: pd.Series) -> Any:
    """Which of the points meet a constraint."""
    match constraint:
        case cp.Bounds(name, low, high, fall, rise):
            y, x = POINTS[name], row[name]
            return (y >= max(low, x - fall)) & (y <= min(high, x + rise))
        case cp.Immutable():
            return (POINTS[list(constraint.features)] == row[list(constraint.features)]).all(axis=1)
        case cp.Monotone(name, direction):
            change = POINTS[name] - row[name]
            return change >= 0 if direction == "increasing" else change <= 0
        case cp.MaxChanges(count):
            return (row != POINTS).sum(axis=1) <= count
        case cp.Linear(coefficients, low, high):
            total = sum(POINTS[name] * c for name, c in coefficients.items())
            return (total >= low) & (total <= high)
        case cp.WithinObserved():
            names = [n for n in constraint.features or ("a", "b") if n != "k"]
            inside = [
                POINTS[n].between(min(DATA[n].min(), row[n]), max(DATA[n].max(), row[n]))
                for n in names
            ]
            return np.logical_and.reduce(inside) if inside else np.ones(len(POINTS), dtype=bool)
    raise AssertionError(constraint)


def has_answer(model: Any, row: pd.Series, constraints: Iterable[cp.Constraint]) -> bool:
    """Whether any point gives class 1 within constraints."""
    weights = dict(zip("uvwab", model[-1].coef_[0].tolist(), strict=True))
    score = POINTS["a"] * weights["a"] + POINTS["b"] * weights["b"] + POINTS["k"].map(weights)
    inside = score + model[-1].intercept_[0] > 0.0
    for constraint in constraints:
        inside &= meets(constraint, row)
    return bool(inside.any())


@st.composite
def bounds(draw: st.DrawFn) -> cp.Bounds:
    """A bound on a or b, perhaps one that the row breaks."""
    low, high = sorted(draw(st.tuples(st.integers(-6, 6), st.integers(-6, 6))))
    sides = {
        "low": float(low),
        "high": float(high),
        "fall": float(draw(st.integers(0, 4))),
        "rise": float(draw(st.integers(0, 4))),
    }
    kept = draw(st.lists(st.sampled_from(sorted(sides)), min_size=1, max_size=3, unique=True))
    return cp.Bounds(draw(st.sampled_from("ab")), **{side: sides[side] for side in kept})


LIMITS = st.one_of(
    bounds(),
    bounds(),
    st.builds(cp.Immutable, st.sampled_from("abk")),
    st.just(cp.Immutable("b", "k")),
    st.builds(cp.Monotone, st.sampled_from("ab"), st.sampled_from(["increasing", "decreasing"])),
    st.builds(cp.MaxChanges, st.integers(1, 2)),
    st.builds(
        cp.Linear,
        st.sampled_from([{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": -1.0}]),
        high=st.integers(-4, 4).map(float),
    ),
    st.just(cp.WithinObserved()),
    st.just(cp.WithinObserved("a")),
)
WEIGHT = st.sampled_from([-3, -2, -1, 1, 2, 3])


def fewer(constraints: list[cp.Constraint]) -> Iterable[list[cp.Constraint]]:
    """The sets with one constraint less; of several features, with one feature less."""
    for i, constraint in enumerate(constraints):
        rest = constraints[:i] + constraints[i + 1 :]
        if isinstance(constraint, cp.Immutable | cp.WithinObserved):
            for name in constraint.features:
                names = [other for other in constraint.features if other != name]
                yield [*rest, type(constraint)(*names)] if names else rest
        else:
            yield rest


def instead(
    constraints: list[cp.Constraint], relaxation: cp.Relaxation, share: float = 1.0
) -> list[cp.Constraint]:
    """The constraints with a relaxation applied, or with a share of it."""
    old, new = relaxation.old, relaxation.new
    if isinstance(old, cp.MaxChanges):
        assert isinstance(new, cp.MaxChanges)
        assert new.count > old.count
        new = replace(old, count=old.count + int(share * (new.count - old.count)))
    elif isinstance(old, cp.Bounds):
        assert isinstance(new, cp.Bounds)
        sides = ("low", "high", "fall", "rise")
        moved = [side for side in sides if getattr(new, side) != getattr(old, side)]
        assert moved
        assert set(moved) in (
            {"low"},
            {"high"},
            {"fall"},
            {"rise"},
            {"low", "fall"},
            {"high", "rise"},
        )
        for side in moved:
            way = getattr(new, side) - getattr(old, side)
            assert way < 0 if side == "low" else way > 0
            new = replace(new, **{side: getattr(old, side) + share * way})
    at = next(i for i, constraint in enumerate(constraints) if constraint is old)
    return [*constraints[:at], new, *constraints[at + 1 :]]


@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.filter_too_much],
)  # most constraints leave a way
@given(
    st.builds(whole_model, WEIGHT, WEIGHT, st.tuples(WEIGHT, WEIGHT, WEIGHT), st.integers(-9, -1)),
    st.tuples(st.integers(-4, 4), st.integers(-4, 4), st.sampled_from("uvw")),
    st.lists(LIMITS, min_size=2, max_size=6),
)
def test_conflicts_are_true(
    model: Any, values: tuple[int, int, str], constraints: list[cp.Constraint]
):
    """All points tried: a minimal conflict, and relaxations that do, the least ones just so."""
    row = pd.Series(dict(zip("abk", values, strict=True)), dtype=object)
    frame = pd.DataFrame([row]).astype({"a": int, "b": int, "k": str})
    assume(not has_answer(model, row, constraints))
    assume(model.predict(frame)[0] == 0)

    def answer(asked: list[cp.Constraint]) -> cp.Counterfactual:
        data = DATA[["a", "b", "k"]]
        return cp.explain(
            model, frame, 1, data=data, extrapolate=True, features=FEATURES, constraints=asked
        )[0]

    found = answer(constraints)
    assert found.status == cp.Status.INFEASIBLE
    conflict = found.conflict
    assert conflict is not None
    assert conflict.minimal
    named = list(conflict.constraints)
    assert not has_answer(model, row, named)
    for rest in fewer(named):
        assert has_answer(model, row, rest)
    for relaxation in conflict.relaxed:
        assert has_answer(model, row, instead(constraints, relaxation))
        assert answer(instead(constraints, relaxation)).found
        assert relaxation.least
        assert not has_answer(model, row, instead(constraints, relaxation, 0.5))
    told = {id(relaxation.old) for relaxation in conflict.relaxed}
    for i, constraint in enumerate(constraints):  # no relaxation that would do is missed
        if any(constraint is one for one in named) and isinstance(constraint, cp.Bounds):
            others = constraints[:i] + constraints[i + 1 :]
            down = replace(constraint, low=-np.inf, fall=np.inf)
            up = replace(constraint, high=np.inf, rise=np.inf)
            either = any(has_answer(model, row, [*others, side]) for side in (down, up))
            assert (id(constraint) in told) == either


def test_a_bound_gives_although_few_columns_without_ends_may_change():
    """Where other columns cost nothing, a mixed-integer solver may find no point at all."""
    row = DATA[["a", "b", "k"]].head(1).assign(a=0, b=0)
    bound = cp.Bounds("b", high=0.0, fall=0.0)
    asked = [cp.MaxChanges(1), cp.Linear({"a": 1.0, "b": -1.0}, high=0.0), bound]
    (answer,) = cp.explain(
        whole_model(1, 1, (0, 0, 0), -3),
        row,
        1,
        data=DATA[["a", "b", "k"]],
        extrapolate=True,
        features=FEATURES,
        constraints=asked,
    )
    assert answer.conflict is not None
    (relaxation,) = answer.conflict.relaxed
    assert relaxation.old is bound
    assert isinstance(relaxation.new, cp.Bounds)
    assert relaxation.new.high == 3.0


def test_a_bound_that_the_row_breaks_gives_towards_the_row():
    """Only b can change, so a must be allowed to stay where it is."""
    model, data, row = problem(0)
    row = row.assign(a=0.0, b=0.0, c=0.0, d=-5.0)
    assert not model.predict(row)[0]
    constraints = [cp.MaxChanges(1), cp.Bounds("a", low=2.0, high=3.0)]
    answers = cp.explain(model, row, True, data=data, extrapolate=True, constraints=constraints)
    conflict = answers[0].conflict
    assert conflict is not None
    assert "an answer exists if a may go down to 0 (now at least 2)" in conflict.relaxations
    for relaxation in conflict.relaxed:
        relaxed = instead(constraints, relaxation)
        assert cp.explain(model, row, True, data=data, extrapolate=True, constraints=relaxed)[
            0
        ].found


def test_a_bound_between_the_row_and_its_limit():
    """The row breaks the bound, and an answer needs only part of the way back."""
    model, data, row = problem(0)
    row = row.assign(a=0.0, b=0.0, c=0.0, d=-1.0)
    held, below = cp.Immutable("b", "c", "d"), -model.decision_function(row)[0]
    needed = below / model.coef_[0, 0]  # a must be at least that, where the row is classified 1
    assert needed > 0
    row = row.assign(d=-0.5)
    constraints = [held, cp.Bounds("a", low=-9.0, high=-1.0)]
    there = -model.decision_function(row.assign(a=0.0))[0] / model.coef_[0, 0]
    row = row.assign(a=there - 1e-3)
    conflict = cp.explain(model, row, True, data=data, extrapolate=True, constraints=constraints)[
        0
    ].conflict
    assert conflict is not None
    (relaxation,) = conflict.relaxed
    assert isinstance(relaxation.new, cp.Bounds)
    assert relaxation.new.high == pytest.approx(there, rel=1e-4)
    assert relaxation.least


def test_a_relaxation_is_tried_with_all_constraints():
    """Each of two bounds on a excludes every answer: neither alone can give."""
    model, data, row = problem(1)
    at = float(row["a"].iloc[0])
    held = [cp.Immutable("b", "c", "d")]
    twice = [cp.Bounds("a", fall=0.1, rise=0.1), cp.Bounds("a", low=at - 0.2, high=at + 0.2)]
    assert infeasible(model, data, row, [*held, twice[0]])
    assert infeasible(model, data, row, [*held, twice[1]])
    answers = cp.explain(model, row, True, data=data, extrapolate=True, constraints=[*held, *twice])
    conflict = answers[0].conflict
    assert conflict is not None
    assert len(set(conflict.constraints) & set(twice)) == 1
    assert not conflict.relaxed


def test_the_limit_that_is_told_is_the_one_that_holds():
    """Of a lowest value and a largest fall, the narrower one; and the same upwards."""
    model, data, row = problem(0)
    held, at = cp.Immutable("b", "c", "d"), 1.0
    row = row.assign(a=at)
    while model.predict(row)[0]:
        row["d"] -= 1.0
    rises = model.coef_[0, 0] > 0.0
    for near, far in ((0.25, 3.0), (3.0, 0.25)):
        sides = {"high": at + near, "rise": far} if rises else {"low": at - near, "fall": far}
        bound = cp.Bounds("a", **sides)
        answer = cp.explain(
            model, row, True, data=data, extrapolate=True, constraints=[held, bound]
        )[0]
        assert answer.status == cp.Status.INFEASIBLE
        (told,) = answer.conflict.relaxations
        now = f"at most {at + 0.25:g}" if rises else f"at least {at - 0.25:g}"
        assert f" (now {now})" in told


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_few_changes_of_many_features(seed: int):
    """Each set of features that may change is told apart in time: the conflict is minimal."""
    rng = np.random.default_rng(seed)
    names = [f"f{i}" for i in range(24)]
    data = pd.DataFrame(rng.normal(size=(200, 24)), columns=names)
    labels = data.to_numpy() @ rng.normal(size=24) > 0.0
    model = LogisticRegression(C=100.0).fit(data, labels)
    row = data.iloc[[int(model.decision_function(data).argmin())]]
    x = row.iloc[0]
    constraints: list[cp.Constraint] = [cp.MaxChanges(2), cp.WithinObserved()]
    for name, (fall, rise) in zip(names[:10], rng.uniform(0.1, 2.0, (10, 2)), strict=True):
        constraints.append(cp.Bounds(name, fall=fall, rise=rise))
    constraints += [
        cp.Immutable(*names[10:14]),
        cp.Linear({"f0": 1.0, "f15": 1.0, "f20": -1.0}, high=x["f0"] + x["f15"] - x["f20"] + 0.2),
    ]

    def answer(asked: list[cp.Constraint]) -> cp.Counterfactual:
        return cp.explain(model, row, True, data=data, extrapolate=True, constraints=asked)[0]

    conflict = answer(constraints).conflict
    assert conflict is not None
    assert conflict.minimal
    named = list(conflict.constraints)
    assert answer(named).status is cp.Status.INFEASIBLE
    for rest in fewer(named):
        assert answer(rest).found
    assert conflict.relaxed
    for relaxation in conflict.relaxed:
        assert answer(instead(constraints, relaxation)).found
        assert relaxation.least
        assert not answer(instead(constraints, relaxation, 0.5)).found


@pytest.mark.parametrize("seed", range(6))
def test_relaxations_of_float32_models_do(seed: int):
    """They lead by more than float32 may be off, which is far more than their six digits."""
    rng = np.random.default_rng(seed)
    values = 1000.0 * rng.normal(size=(80, 4)) + [0.0, 3000.0, -3000.0, 2000.0]
    data = pd.DataFrame(values, columns=NAMES).astype(np.float32)
    labels = (data - data.mean()).to_numpy() @ np.array([1.0, -1.0, 0.5, 2.0]) > 0.0
    model = LogisticRegression().fit(data, labels)
    row = data[~model.predict(data)].iloc[[0]]
    constraints = [cp.Bounds("a", fall=1.0, rise=1.0), cp.Immutable("b", "c", "d")]

    def answer(asked: list[cp.Constraint]) -> cp.Counterfactual:
        return cp.explain(model, row, True, data=data, extrapolate=True, constraints=asked)[0]

    conflict = answer(constraints).conflict
    assert conflict is not None
    (relaxation,) = conflict.relaxed
    relaxed = answer(instead(constraints, relaxation))
    assert relaxed.found
    assert not relaxed.certificate.on_edge
    assert relaxation.least
    assert not answer(instead(constraints, relaxation, 0.5)).found


def test_what_the_data_showed_may_conflict_by_itself():
    """`WithinObserved` without names stands for every feature; those that count are named."""
    model, data, row = problem(0)
    row = row.assign(d=-50.0)
    answers = cp.explain(
        model,
        row,
        True,
        data=data,
        extrapolate=True,
        constraints=[cp.Immutable("d"), cp.WithinObserved()],
    )
    conflict = answers[0].conflict
    assert conflict is not None
    assert conflict.minimal
    observed = [c for c in conflict.constraints if isinstance(c, cp.WithinObserved)]
    assert observed
    assert infeasible(model, data, row, conflict.constraints)
    for rest in fewer(list(conflict.constraints)):
        assert not infeasible(model, data, row, rest)


def test_the_highest_probability_can_be_had():
    """What is named is reached with everything kept; halfway to what was asked for is not."""
    model, data, row = problem(2)
    constraints = [cp.Bounds(name, fall=0.3, rise=0.3) for name in NAMES]
    wanted = cp.Probability(True, 0.999)
    answer = cp.explain(model, row, wanted, data=data, extrapolate=True, constraints=constraints)[0]
    assert answer.status == cp.Status.INFEASIBLE
    conflict = answer.conflict
    assert conflict is not None
    (relaxation,) = [r for r in conflict.relaxed if r.old == wanted]
    assert relaxation.least
    easier = relaxation.new
    assert isinstance(easier, cp.Probability)
    assert cp.explain(model, row, easier, data=data, extrapolate=True, constraints=constraints)[
        0
    ].found
    most = easier.at_least + 1e-4
    z = model.decision_function(row)[0] + 0.3 * np.abs(model.coef_).sum()
    assert easier.at_least == pytest.approx(1.0 / (1.0 + np.exp(-z)), rel=1e-4)
    harder = replace(wanted, at_least=most)
    refused = cp.explain(model, row, harder, data=data, extrapolate=True, constraints=constraints)[
        0
    ]
    assert refused.status == cp.Status.INFEASIBLE


def test_where_nothing_may_change_and_changes_are_counted_the_conflict_is_told():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    frozen = [cp.Immutable("x0", "x1", "x2", "x3"), cp.MaxChanges(1)]
    row = X[[model.predict_proba(X)[:, 1].argmin()]]
    (answer,) = cp.explain(model, row, cp.Probability(1, 0.9), data=X, constraints=frozen)
    assert answer.status == "infeasible"
    assert answer.conflict is not None
    assert answer.conflict.constraints


def test_a_probability_that_the_row_has_already_is_no_relaxation():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    frozen = cp.Immutable("x0", "x1", "x2", "x3")
    answers = cp.explain(model, X[60:70], cp.Probability(1, 0.9999), data=X, constraints=frozen)
    for answer, now in zip(answers, model.predict_proba(X[60:70])[:, 1], strict=True):
        assert answer.status == "infeasible"
        assert answer.conflict is not None
        assert answer.conflict.attainable == pytest.approx(now, rel=1e-6)
        assert not [one for one in answer.conflict.relaxed if isinstance(one.new, cp.Probability)]


@pytest.mark.parametrize("seed", [7, 8])
def test_the_highest_probability_is_told_in_digits_that_an_answer_has(seed: int):
    """Only points without end come near to the highest; in six of its digits they are too far."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"])
    plain = LogisticRegression().fit(data, rng.integers(0, 2, 50))
    plain.coef_, plain.intercept_ = rng.uniform(0.02, 0.06, (1, 2)), np.array([-1.0])
    model = cp.UncertainClassifier(plain, law=ProjectedGaussian(0.05 * np.eye(3)))
    limits = [cp.MaxChanges(1), cp.Bounds("b", rise=0.5, fall=0.5)]

    def ask(target: cp.Target) -> cp.Counterfactual:
        row = data.head(1) * 0.0
        return cp.explain(model, row, target, data=data, extrapolate=True, constraints=limits)[0]

    conflict = ask(cp.Robust(1, 0.99, "fixed")).conflict
    assert conflict is not None
    (told,) = (one for one in conflict.relaxed if isinstance(one.new, cp.Robust))
    answer = ask(told.new)
    assert answer.status is cp.Status.OPTIMAL
    assert abs(answer.changes["a"][1]) < 1e5
    assert conflict.attainable is not None
    assert conflict.attainable - 1e-2 < told.new.probability <= conflict.attainable


def test_a_probability_that_has_steps_has_a_conflict_too() -> None:
    """Of trees no highest probability is searched for; what excludes all answers is said."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    model = HistGradientBoostingClassifier(max_iter=50).fit(x, x["a"] > 0.0)
    explainer = cp.Explainer(model, data=x, constraints=cp.Immutable("a"))
    (answer,) = explainer.explain(x[x["a"] < -1.0].head(1), cp.Probability(True, 0.9))
    assert answer.conflict is not None
    assert answer.conflict.constraints == (cp.Immutable("a"),)
    assert answer.conflict.attainable is None
