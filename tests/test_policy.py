"""A problem file says the same as the objects it stands for, and what is wrong with it."""

from __future__ import annotations

import inspect
import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
import tomli_w
from conformance.test_constraints import COMBINATIONS, DEFINED
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.problem.tables import kinds
from counterpoint.rows import features

TARGETS = [
    cp.Label("approved"),
    cp.Label(1),
    cp.Label(np.int64(1)),
    cp.Label(True),
    cp.Label("approved", margin=0.25),
    cp.Label(["a", "b"]),
    cp.Label({"b", "a"}, margin=1.0),
    cp.OtherLabel(),
    cp.OtherLabel("declined", margin=0.5),
    cp.OtherLabel(("declined", "open")),
    cp.Probability("approved", 0.9),
    cp.Tradeoff("approved", 0.1),
    cp.Robust("approved", 0.9),
    cp.Robust(1, 0.75, "fixed"),
    cp.Robust("approved", 0.99, "selection", draws=20_000, random_state=1),
    cp.Interval(low=160_000.0),
    cp.Interval(high=np.float64(2.5)),
    cp.Interval(-1.0, 1.0),
]
COSTS = [
    cp.Manhattan(),
    cp.Manhattan({"age": 2.0, "a.b c": np.float64(1e-9)}),
    cp.Manhattan([1.0, 2.0]),
    cp.Manhattan(np.array([1.0, 2.0])),
    cp.SquaredEuclidean({"age": 0.1}),
    cp.Mahalanobis(np.array([[2.0, 0.1], [0.1, 1.0]])),
    cp.Manhattan({"age": 2.0, "gender": {("f", "m"): 3.0, ("m", "f"): 0.5}}),
    cp.PercentileShift({"age": ((18.0, 0.0), (40.0, 0.5)), "income": ((0.0, 0.5),)}, {"age": 2.0}),
]
CONSTRAINTS = [
    cp.Immutable("age", "gender"),
    cp.Bounds("income", high=9e4),
    cp.Bounds("income", low=250, fall=10.0, rise=0.0),
    cp.Monotone("education", "increasing"),
    cp.Clearance("amount", 25.0),
    cp.Linear.parse("2ndFlr <= 1stFlr"),
    cp.Linear.parse("2 * a - b >= -0.1"),
    cp.Linear.parse("a + b == 3"),
    cp.Linear({"a": 1.0, "b": 0.1 + 0.2}, low=-1.0, high=1.0),
    cp.Linear({"debt - to - income": 1.0, "x <= y": 2.0}, low=0.0),
    cp.Ellipsoid({"a": 0.0, "b": 1.0}, np.eye(2), radius=2.0),
    cp.MaxChanges(3),
    cp.WithinObserved(),
    cp.WithinObserved("age"),
    *DEFINED,
    *(constraint for constraint, _ in COMBINATIONS),
]
FEATURES = [
    cp.Continuous("income"),
    cp.Continuous("debt", observed=(0.0, 1e4)),
    cp.Integer("age"),
    cp.Integer("amount", step=50, observed=(250.0, 2e4)),
    cp.Categorical("education", ("none", "school", "degree"), ordered=True),
    cp.Categorical("home", ("own", "rent"), observed=("own",)),
    cp.Categorical('a "quoted" name\\ ü', (0, 1)),
]
PROBLEMS = [
    cp.Problem(),
    *(cp.Problem(target=t) for t in TARGETS),
    *(cp.Problem(cost=c) for c in COSTS),
    *(cp.Problem(constraints=(c,)) for c in CONSTRAINTS),
    *(cp.Problem(features=(f,)) for f in FEATURES),
    cp.Problem(TARGETS[5], COSTS[1], tuple(CONSTRAINTS), tuple(FEATURES)),
]


def same(a: object, b: object) -> bool:
    """The same class and the same parameters, whatever sequence type holds them."""
    if isinstance(a, cp.Problem):
        return all(
            same(getattr(a, n), getattr(b, n)) for n in inspect.signature(type(a)).parameters
        )
    if isinstance(a, set):
        return isinstance(b, tuple) and set(b) == a
    if isinstance(a, tuple | list | np.ndarray) and not isinstance(b, str):
        pairs = zip(np.asarray(a, object), np.asarray(b, object), strict=True)
        return len(a) == len(b) and all(same(x, y) for x, y in pairs)
    if isinstance(
        a, cp.Target | cp.Cost | cp.Constraint | cp.Continuous | cp.Integer | cp.Categorical
    ):
        names = inspect.signature(type(a)).parameters
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in names)
    return bool(a == b)


@pytest.mark.parametrize("problem", PROBLEMS, ids=range(len(PROBLEMS)))
@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_what_is_written_is_read_as_the_same(problem: cp.Problem, suffix: str, tmp_path: Path):
    file = tmp_path / f"loan{suffix}"
    problem.save(file)
    back = cp.Problem.load(file)
    assert same(problem, back)
    assert back.to_dict() == problem.to_dict()
    assert same(problem, cp.Problem.from_dict(problem.to_dict()))


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_name_and_number_survive(name: str, number: float):
    asked = cp.Problem(
        target=cp.Label(name),
        cost=cp.Manhattan({name: number}),
        constraints=[cp.Immutable(name), cp.Linear({name: 1.0, "other ": 2.0}, high=number)],
        features=[cp.Integer(name, step=2.0)],
    )
    data = asked.to_dict()
    assert tomllib.loads(tomli_w.dumps(data)) == data == json.loads(json.dumps(data))
    assert same(asked, cp.Problem.from_dict(data))


def finals(cls: type) -> set[type]:
    below = cls.__subclasses__()
    return set().union(*map(finals, below)) if below else {cls}


@pytest.mark.parametrize(
    ("key", "classes"),
    [
        ("target", finals(cp.Target)),
        ("cost", finals(cp.Cost)),
        ("constraint", finals(cp.Constraint)),
        ("feature", set(get_args(features.Feature))),
    ],
)
def test_every_class_has_an_entry_with_all_its_parameters(key: str, classes: set[type]):
    own = {cls for cls in classes if cls.__module__.split(".")[0] == "counterpoint"}
    entries = kinds()[key]
    assert set(entries) == own, f"give {own - set(entries)} an entry in kinds()[{key!r}]"
    for cls, parameters in entries.items():
        assert set(parameters) == set(inspect.signature(cls).parameters) - (
            {"name"} if key == "feature" else set()
        )
    tried = {type(v) for v in (*TARGETS, *COSTS, *CONSTRAINTS, *FEATURES)}
    assert own <= tried, f"add {own - tried} to the round trip above"


def test_a_class_without_an_entry_is_not_written():
    class Hope(cp.Constraint):
        def region(self, features: cp.Features) -> Any:
            raise NotImplementedError

    with pytest.raises(cp.InvalidSpec, match="A Hope cannot be written to a file"):
        cp.Problem(constraints=(Hope(),)).to_dict()
    with pytest.raises(cp.InvalidSpec, match="feature names: expected text; got 3"):
        cp.Problem(cost=cp.Manhattan({3: 1.0})).to_dict()


POLICY = """\
# What an applicant can do about a declined loan.
target = "approved"

constraints = [
    { kind = "immutable", features = ["age"] },          # nobody's choice
    { kind = "bounds", feature = "income", rise = 5000 },
    "debt <= income",
]

[cost]
kind = "manhattan"
weights = { income = 2.0 }

[features.age]
kind = "integer"
step = 1
"""


def test_a_policy_reads_as_the_objects_it_names(tmp_path: Path):
    (tmp_path / "loan.toml").write_text(POLICY)
    assert cp.Problem.load(str(tmp_path / "loan.toml")) == cp.Problem(
        target=cp.Label("approved"),
        cost=cp.Manhattan({"income": 2.0}),
        constraints=(
            cp.Immutable("age"),
            cp.Bounds("income", rise=5000.0),
            cp.Linear.parse("debt <= income"),
        ),
        features=(cp.Integer("age", step=1.0),),
    )


def test_constraints_as_tables_of_their_own():
    head = "[[constraints]]\nkind = "
    text = f'{head}"max_changes"\ncount = 2\n\n{head}"within_observed"'
    problem = cp.Problem.from_dict(tomllib.loads(text))
    assert problem.constraints == (cp.MaxChanges(2), cp.WithinObserved())


def test_a_problem_makes_an_explainer():
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [0.0, 2.0, 1.0, 3.0]})
    model = LogisticRegression().fit(X, [0, 0, 1, 1])
    problem = cp.Problem(target=1, constraints=[cp.Immutable("b")], features=[cp.Integer("a")])
    answers = problem.explainer(model, data=X).explain(X, problem.target)
    assert (answers.to_frame()["b"] == X["b"]).all()
    assert (answers.to_frame()["a"] % 1 == 0).all()
    assert cp.Problem(cost=cp.Manhattan()).explainer(model).features.names == ("a", "b")


WRONG = [
    ("x = [", "loan.toml is not valid TOML: "),
    ("goal = 1", "loan.toml: there is no key 'goal' here; known: 'target', 'cost', "),
    (
        "constraint = []",
        "loan.toml: there is no key 'constraint' here; did you mean 'constraints'?",
    ),
    ("target = 2020-01-01", "loan.toml, target: expected text, a number, true or false; got"),
    ("target = []", "loan.toml, target: Expected at least one target label; got none."),
    (
        "target = [[1]]",
        "loan.toml, target, entry 1: expected text, a number, true or false; got [1].",
    ),
    (
        "[target]\nlabel = 1",
        (
            "loan.toml, target: expected a kind of target: 'label', 'other_label', 'probability', "
            "'tradeoff', 'robust' or 'interval'; got none."
        ),
    ),
    (
        '[target]\nkind = "probability"\nlabel = "yes"',
        "loan.toml, target, probability: the key 'at_least' is missing. Add it.",
    ),
    (
        '[target]\nkind = "probability"\nlabel = "yes"\nat_least = 90',
        "loan.toml, target, probability: Expected a probability between 0 and 1, both excl",
    ),
    ('cost = "manhattan"', 'loan.toml, cost: expected a table such as { kind = "manhattan" }; got'),
    ("[cost]\nkind = [1]", "loan.toml, cost, kind: expected text; got [1]."),
    (
        '[cost]\nkind = "euclid"',
        (
            "loan.toml, cost: expected a kind of cost: 'manhattan', 'squared_euclidean', "
            "'mahalanobis' or 'percentile_shift'; got 'euclid'."
        ),
    ),
    (
        '[cost]\nkind = "manhattan"\nweight = 1',
        "loan.toml, cost, manhattan: there is no key 'weight' here; did you mean 'weights'?",
    ),
    (
        '[cost]\nkind = "manhattan"\nweights = { age = "2" }',
        (
            "loan.toml, cost, manhattan, weights, age: expected a number; got '2'. Write numbers "
            "without quotes."
        ),
    ),
    (
        '[cost]\nkind = "manhattan"\nweights = 2',
        (
            "loan.toml, cost, manhattan, weights: expected numbers by feature name, such as "
            "{ age = 2.0 }; got 2."
        ),
    ),
    (
        '[cost]\nkind = "mahalanobis"\nmatrix = [[1, 0], [1]]',
        "loan.toml, cost, mahalanobis, matrix: expected rows of one length; got",
    ),
    (
        f'[cost]\nkind = "manhattan"\nweights = [1{"0" * 400}]',
        "loan.toml, cost, manhattan, weights, entry 1: expected a number that fits 64 bits; got",
    ),
    ('constraints = "a <= b"', "loan.toml, constraints: expected a list; got 'a <= b'. Put it in"),
    ("constraints = [3]", 'loan.toml, constraint 1: expected a relation such as "a <= b", or a'),
    (
        'constraints = ["a <= b", "a < b"]',
        "loan.toml, constraint 2: Expected a relation with one of <=, >= and ==",
    ),
    (
        'constraints = [{ kind = "immutable", features = "age" }]',
        "loan.toml, constraint 1, immutable, features: expected a list of feature names; got 'age'",
    ),
    (
        'constraints = [{ kind = "immutable", features = [3] }]',
        "loan.toml, constraint 1, immutable, features, entry 1: expected text; got 3. Put",
    ),
    (
        'constraints = [{ kind = "immutable" }]',
        "loan.toml, constraint 1, immutable: Expected the name of at least one feature for I",
    ),
    (
        'constraints = [{ kind = "bounds", feature = "age", low = 3, high = 1 }]',
        "loan.toml, constraint 1, bounds: Expected low <= high, fall >= 0 and rise >= 0 for 'age'",
    ),
    (
        'constraints = [{ kind = "max_changes", count = 2.5 }]',
        "loan.toml, constraint 1, max_changes, count: expected a whole number; got 2.5.",
    ),
    (
        "features = []",
        "loan.toml, features: expected a table for each feature, as in [features.age]",
    ),
    (
        '[features.age]\nkind = "integer"\nstep = 0',
        "loan.toml, feature 'age', integer: Expected a positive step for column 'age'; got 0.0.",
    ),
    (
        '[features.age]\nkind = "integer"\nobserved = [1]',
        "loan.toml, feature 'age', integer, observed: expected a smallest and a largest number",
    ),
    (
        '[features.home]\nkind = "categorical"\ncategories = ["a"]\nordered = 1',
        "loan.toml, feature 'home', categorical, ordered: expected true or false; got 1.",
    ),
    *(
        (text, "loan.toml: lists or tables stand in one another too deeply; write it flatter.")
        for text in (f"x = {'[' * 5000}", f"x = {'{a = ' * 5000}", f"x = {'[' * 3000}1{']' * 3000}")
    ),
    *(
        (text, "loan.toml has a key of more than 64 parts; shorten it.")
        for text in (
            *(f"x{'.x' * 20_000} = 1", f"[x{'.x' * 20_000}]", f"x = {{ a{' . a' * 9000} = 1 }}"),
            *(f"""x{".'a'" * 9000} = 1""", f"""x{'."a"' * 9000} = 1"""),
        )
    ),
    (f"target = 1{'0' * 5000}", "loan.toml is not valid TOML: Exceeds the limit (4300 digits)"),
    ("[features]\nage = 1", "loan.toml, feature 'age': expected a table such as { kind = "),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[m[11:50] for _, m in WRONG])
def test_what_is_wrong_is_said_with_its_place(text: str, message: str, tmp_path: Path):
    (tmp_path / "loan.toml").write_text(text)
    with pytest.raises(cp.InvalidSpec) as caught:
        cp.Problem.load(tmp_path / "loan.toml")
    assert message in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1]", "loan.json: expected a table with the keys 'target', 'cost', "),
        (b"{", "loan.json is not valid JSON: "),
        (b"\xff", "loan.json is not UTF-8 text; save it as such."),
        (b"[" * 100_000, "loan.json: lists or tables stand in one another too deeply; write it"),
        (b'{"target": 1%s}' % (b"0" * 5000), "loan.json is not valid JSON: Exceeds the limit"),
        (
            b'{"target": null}',
            "loan.json, target: expected text, a number, true or false; got None.",
        ),
        (
            b'{"cost": {"kind": "manhattan", "kind": "mahalanobis"}}',
            "loan.json: the key 'kind' stands twice in a table; keep one.",
        ),
    ],
)
def test_what_is_wrong_with_json(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "loan.json").write_bytes(content)
    with pytest.raises(cp.InvalidSpec) as caught:
        cp.Problem.load(tmp_path / "loan.json")
    assert str(caught.value).startswith(message)


def test_long_texts_and_many_numbers_are_no_long_keys(tmp_path: Path):
    row = ", ".join(["1.5"] * 200)
    cost = f'[cost]\nkind = "mahalanobis"\nmatrix = [[{row}]]\n'
    (tmp_path / "loan.toml").write_text(f'target = "{"a" * 10**6}"\n{cost}# {". " * 999}')
    assert cp.Problem.load(tmp_path / "loan.toml").target == cp.Label("a" * 10**6)


def test_no_file_is_the_usual_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        cp.Problem.load(tmp_path / "loan.toml")


def test_a_problem_says_whether_numbers_may_leave_their_range():
    problem = cp.Problem.from_dict({"extrapolate": True})
    assert problem == cp.Problem(extrapolate=True)
    assert problem.to_dict() == {"extrapolate": True}
    assert cp.Problem(extrapolate=False).to_dict() == {}
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]})
    model = LogisticRegression(C=0.01).fit(X, [0, 0, 0, 1])
    for asked, found in ((problem, True), (cp.Problem(), False)):
        assert asked.explainer(model, data=X).explain(X[:1], 1).found.all() == found
    with pytest.raises(cp.InvalidInput, match="expected true or false; got 'yes'"):
        cp.Problem.from_dict({"extrapolate": "yes"})
