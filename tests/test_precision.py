"""Answers lead by the model's own rounding error, in the precision in which the model computes."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeRegressor

import counterpoint as cp
from counterpoint.models import see_through

# Whether weights are the best does not matter here, and the columns are badly scaled on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning"),
]

D = 5
NAMES = list("abcde")
SINGLE = float(np.finfo(np.float32).eps)
MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "logistic": (LogisticRegression, "two"),
    "softmax": (LogisticRegression, "three"),
    "hinge": (LinearSVC, "three"),
    "sgd": (lambda: SGDClassifier(random_state=0), "two"),
    "scaled": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), "two"),
    "boxed": (lambda: make_pipeline(MinMaxScaler(), LinearSVC()), "two"),
    "shrunk": (lambda: make_pipeline(MaxAbsScaler(), LinearDiscriminantAnalysis()), "three"),
    "turned": (
        lambda: make_pipeline(StandardScaler(), PCA(4), LogisticRegression()),
        "three",
    ),
    "robust": (lambda: make_pipeline(RobustScaler(), RidgeClassifier()), "three"),
    "votes": (lambda: make_pipeline(StandardScaler(), SVC(kernel="linear")), "three"),
    "centroids": (lambda: make_pipeline(StandardScaler(), NearestCentroid()), "three"),
    "ridge": (Ridge, "number"),
    "scaled ridge": (lambda: make_pipeline(StandardScaler(), Ridge()), "number"),
}
SLOWER: dict[str, tuple[Callable[[], Any], str]] = {
    "neighbour": (lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(1)), "three"),
    "bayes": (GaussianNB, "two"),
    "quadratic": (QuadraticDiscriminantAnalysis, "two"),
}
TARGETS: dict[str, list[Any]] = {
    "two": [cp.Label(0), cp.Label(1)],
    "three": [cp.Label(0), cp.Label(1), cp.Label(2)],
    "number": [cp.Interval(low=1.0), cp.Interval(-0.3, -0.2)],
}
SCORED = ["logistic", "softmax", "sgd", "scaled", "boxed", "shrunk", "turned", "robust"]
"""Models whose decision_function is what decides, with coefficients in float32 if fitted on it."""
CORES = ["Haswell", "Nehalem", "Zen"]


class Case:
    """Columns of very different sizes, far from 0, so that standardising them cancels."""

    def __init__(self, seed: int, rows: int) -> None:
        rng = np.random.default_rng(seed)
        self.scale = 10.0 ** rng.uniform(-1.0, 3.0, D)
        self.shift = 3.0 * self.scale * rng.normal(size=D)
        known, self.rows = rng.normal(size=(300, D)), self.at(rng.normal(size=(rows, D)))
        self.known, score = self.at(known), known @ rng.normal(size=D)
        self.labels = {
            "two": (score + 0.3 * rng.normal(size=300) > 0.0).astype(int),
            "three": np.digitize(score, [-1.0, 1.0]),
            "number": score,
        }

    def at(self, z: np.ndarray) -> np.ndarray:
        return z * self.scale + self.shift


def as_kind(values: np.ndarray, kind: str) -> Any:
    """Rows of an array or a frame, in one dtype or in two."""
    if kind.startswith("array"):
        return values.astype(kind.removeprefix("array "))
    if kind == "frame mixed":
        types = {name: (np.float32, np.float64)[j % 2] for j, name in enumerate(NAMES)}
        return pd.DataFrame(values, columns=NAMES).astype(types)
    return pd.DataFrame(values, columns=NAMES).astype(kind.removeprefix("frame "))


def is_met(model: Any, target: Any, rows: Any) -> np.ndarray:
    if isinstance(target, cp.Probability):
        column = model.classes_.tolist().index(target.label)
        return np.asarray(model.predict_proba(rows)[:, column] >= target.at_least)
    said = model.predict(rows)
    if isinstance(target, cp.Interval):
        return np.asarray((said >= target.low) & (said <= target.high))
    return np.asarray(said == target.label)


def written(rows: Any) -> Any:
    """What another program reads of rows that were written as text."""
    frame = pd.DataFrame(rows)
    back = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    return back.to_numpy(np.float64) if isinstance(rows, np.ndarray) else back.astype(np.float64)


def stored(rows: pd.DataFrame) -> pd.DataFrame:
    file = io.BytesIO()
    rows.to_parquet(file)
    return pd.read_parquet(io.BytesIO(file.getvalue()))


def layouts(rows: Any) -> dict[str, Any]:
    """The same rows in every way in which a model may meet them again, in the same order."""
    again = {"as they came": rows, "text": written(rows), "float64": rows.astype(np.float64)}
    if isinstance(rows, np.ndarray):
        again["by column"] = np.asfortranarray(rows)
        again["every other row"] = np.repeat(rows, 2, axis=0)[::2]
        again["every other column"] = np.repeat(rows, 2, axis=1)[:, ::2]
    else:
        again["parquet"] = stored(rows)
        again["one block"] = pd.DataFrame(rows.to_numpy(), columns=rows.columns)
    return again


def disagreements(model: Any, target: Any, answers: Any) -> tuple[int, dict[str, int]]:
    """How many answers there are, and how often each layout gives something else; none marked."""
    sure = ~answers.certificates.on_edge[answers.found]
    rows = answers.to_frame()[answers.found]
    wrong = {
        name: int((~is_met(model, target, again) & sure).sum())
        for name, again in layouts(rows).items()
    }
    order = np.random.default_rng(0).permutation(len(rows))
    mixed = rows[order] if isinstance(rows, np.ndarray) else rows.iloc[order]
    wrong["in another order"] = int((~is_met(model, target, mixed) & sure[order]).sum())
    alone = [
        bool(is_met(model, target, rows[i : i + 1])[0]) for i in np.flatnonzero(sure)[:20].tolist()
    ]
    wrong["alone"] = len(alone) - sum(alone)
    return int(sure.sum()), {name: count for name, count in wrong.items() if count}


def fitted(name: str, case: Case, kind: str) -> tuple[Any, str]:
    make, task = {**MODELS, **SLOWER}[name]
    labels = case.labels[task]
    if kind == "array float32" and task == "number":
        labels = labels.astype(np.float32)
    return make().fit(as_kind(case.known, kind), labels), task


KINDS = ["array float32", "frame float32", "frame mixed", "array float64"]
GAPS = dict.fromkeys(KINDS[:3], 0.06) | {"array float64": 1e-6}
"""Relative gaps that the lead by a rounding error leaves at most, in columns as badly scaled as
these: 5 % of the cost for centroids in single precision."""


def is_near(answers: Any, changed: np.ndarray) -> bool:
    """Whether answers are optimal, and lead by no more than some rounding errors: 9.4 at most."""
    sure, optimal = answers.certificates, answers.status == cp.Status.OPTIMAL
    return bool((optimal & (sure.margin <= 10.0 * sure.rounding))[changed].all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_the_model_agrees_in_every_layout(name: str, kind: str):
    case = Case(3, 40)
    model, task = fitted(name, case, kind)
    explainer = cp.Explainer(model, data=as_kind(case.known, kind))
    for target in TARGETS[task]:
        answers = explainer.explain(as_kind(case.rows, kind), target, gap=GAPS[kind])
        assert answers.found.all()
        count, wrong = disagreements(model, target, answers)
        assert not wrong
        changed = answers.status != cp.Status.ALREADY
        assert not answers.certificates.on_edge[changed].any()  # all columns may move
        assert is_near(answers, changed)
        assert count >= changed.sum() > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "at_least"), [("scaled", 0.9), ("logistic", 0.999)])
def test_a_probability_is_met_in_every_layout(name: str, at_least: float, kind: str):
    case = Case(4, 40)
    model, _ = fitted(name, case, kind)
    for label in (0, 1):
        target = cp.Probability(label, at_least)
        explainer = cp.Explainer(model, data=as_kind(case.known, kind))
        answers = explainer.explain(as_kind(case.rows, kind), target, gap=GAPS[kind])
        assert answers.found.all()
        assert not disagreements(model, target, answers)[1]
        assert is_near(answers, answers.status != cp.Status.ALREADY)


@pytest.mark.parametrize("name", MODELS)
def test_float64_rows_of_a_float32_model_and_the_reverse(name: str):
    case = Case(5, 30)
    for fit, asked in (("array float32", "array float64"), ("array float64", "array float32")):
        model, task = fitted(name, case, fit)
        explainer = cp.Explainer(model, data=as_kind(case.known, asked))
        for target in TARGETS[task]:
            answers = explainer.explain(as_kind(case.rows, asked), target)
            assert answers.found.all()
            assert not disagreements(model, target, answers)[1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SCORED)
def test_the_rounding_error_is_bounded(name: str, seed: int):
    """Twice what a float32 model may be off at two scores bounds what it is off."""
    case = Case(seed, 500)
    model, _ = fitted(name, case, "array float32")
    reading = see_through(model, None, fixed=False)
    rows = case.rows.astype(np.float32)
    shown = model.decision_function(rows).astype(np.float64)
    exact = in_float64(model).decision_function(rows.astype(np.float64))
    off = np.abs(shown - exact).reshape(len(rows), -1).max(axis=1)
    bound = reading.form.noise(rows.astype(np.float64), SINGLE)
    assert (off <= bound).all()
    assert (bound <= 1e5 * off.max()).all()  # and is no idle bound


def in_float64(model: Any) -> Any:
    """The same model with each of its arrays in float64."""
    wide = copy.deepcopy(model)
    for step in [wide, *(step for _, step in getattr(wide, "steps", ()))]:
        for key, value in vars(step).items():
            if isinstance(value, np.ndarray) and value.dtype == np.float32:
                setattr(step, key, value.astype(np.float64))
    return wide


def test_points_at_which_float32_overflows_are_not_tried():
    """A column that float32 hardly tells from a constant: no lead is large enough."""
    rng = np.random.default_rng(4)
    known = rng.normal(size=(60, 3)) * [1e-2, 1.0, 1.0] + [3e3, 0.0, 0.0]
    model = make_pipeline(StandardScaler(), NearestCentroid())
    rows = known.astype(np.float32)
    model.fit(rows, known[:, 1] + known[:, 2] > 0.0)
    answers = cp.explain(model, rows, cp.OtherLabel(), data=rows, extrapolate=True)
    assert np.isfinite(answers.to_frame()[answers.found]).all()
    assert not (answers.status == cp.Status.INFEASIBLE).any()


def test_the_narrowest_dtype_counts():
    case = Case(0, 1)
    for name in ("logistic", "turned", "scaled ridge"):
        narrow, wide = (fitted(name, case, f"array {kind}")[0] for kind in ("float32", "float64"))
        assert see_through(narrow, None, fixed=False).eps == SINGLE
        assert see_through(wide, None, fixed=False).eps == np.finfo(np.float64).eps


def test_a_tie_on_a_lattice_is_marked():
    """Whole numbers leave no room: the first class wins a tie, and the certificate says so."""
    rows = np.array([[0, 0], [0, 1], [1, 0], [3, 3], [2, 3], [3, 2]])
    model = LogisticRegression().fit(rows, [0, 0, 0, 1, 1, 1])
    model.coef_, model.intercept_ = np.array([[1.0, 1.0]]), np.array([-3.0])
    data = pd.DataFrame(rows, columns=["a", "b"])
    model.fit(data, [0, 0, 0, 1, 1, 1])
    model.coef_, model.intercept_ = np.array([[1.0, 1.0]]), np.array([-3.0])
    answers = cp.explain(model, data.tail(3), 0, data=data, cost=cp.Manhattan())
    assert (answers.to_frame().sum(axis=1) == 3).all()
    assert answers.certificates.on_edge.all()
    assert all(answer.certificate.on_edge for answer in answers)
    assert answers.report()["on_edge"].all()
    smooth = cp.explain(model, data.tail(3).astype(float), 0, cost=cp.Manhattan())
    assert not smooth.certificates.on_edge.any()
    assert not smooth.report()["on_edge"].any()


def test_an_answer_without_room_is_marked():
    """An equation fixes the prediction at the limit: no answer can lead."""
    case = Case(1, 20)
    model = Ridge().fit(case.known, case.labels["number"])
    equal = cp.Interval(0.5, 0.5)
    answers = cp.explain(model, case.rows, equal, data=case.known)
    assert answers.certificates.on_edge[answers.found].all()


@pytest.mark.parametrize("kind", ["array float32", "array float64"])
def test_mixed_columns_leave_the_edge(kind: str):
    """Where whole columns are beside others, these make the lead."""
    case = Case(6, 60)
    whole = np.round(case.known)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        as_kind(whole, kind), case.labels["two"]
    )
    features = [cp.Integer("x0"), cp.Integer("x1")]
    explainer = cp.Explainer(model, data=as_kind(whole, kind), features=features)
    rows = np.round(case.rows)
    rows[:, 2:] = case.rows[:, 2:]
    for label in (0, 1):
        answers = explainer.explain(as_kind(rows, kind), label)
        assert answers.found.all()
        assert not disagreements(model, cp.Label(label), answers)[1]
        assert not answers.certificates.on_edge[answers.status != cp.Status.ALREADY].any()


def test_answers_of_few_changes_leave_the_edge_of_what_is_not_convex():
    """What changes moves on by a hair, and nothing else does."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * [3.0, 1.0]
    model = GaussianNB().fit(X, X[:, 0] + 3.0 * X[:, 1] ** 2 > 2.0)
    few = [cp.MaxChanges(1)]
    explainer = cp.Explainer(model, data=X, cost=cp.Manhattan(), constraints=few, extrapolate=True)
    answers = explainer.explain(X[:1], cp.OtherLabel())
    assert answers.found.all()
    assert not answers.certificates.on_edge.any()
    assert (np.asarray(answers.after) != X[:1]).sum() == 1


def test_what_a_lead_costs_is_a_gap_and_no_more():
    """In float32 nothing that leads by so much costs less, by the closed form."""
    case = Case(2, 200)
    model, _ = fitted("logistic", case, "array float32")
    rows = case.rows.astype(np.float32)
    explainer = cp.Explainer(model, data=rows, cost=cp.SquaredEuclidean(), extrapolate=True)
    for label in (0, 1):
        answers = explainer.explain(rows, label)
        changed = answers.status != cp.Status.ALREADY
        assert answers.found.all()
        wide = rows.astype(np.float64)
        score = wide @ model.coef_[0].astype(float) + float(model.intercept_[0])
        length = np.linalg.norm(model.coef_[0].astype(float))
        sure = answers.certificates
        least = (np.abs(score) / length) ** 2
        ahead = ((np.abs(score) + sure.margin) / length) ** 2
        at = changed & (least > 0.0)
        assert (sure.bound[at] <= least[at] * (1.0 + 1e-12)).all()
        assert (sure.margin[at] >= sure.rounding[at]).all()
        size = np.linalg.norm(wide, axis=1) + np.sqrt(ahead)
        moved = 2.0 * SINGLE * size * np.sqrt(ahead)  # what float32 columns make of the answer
        assert (sure.cost[at] <= ahead[at] + moved[at] + (SINGLE * size[at]) ** 2).all()
        dearer = 1.0 - least[at] / sure.cost[at]
        assert (sure.gap[at] >= dearer - 1e-12).all()
        small = sure.gap[at] <= 1e-6
        assert ((answers.status[at] == cp.Status.OPTIMAL) == small).all()
        assert not small.all()
        assert all("its gap says" in answers[i].message for i in np.flatnonzero(at)[~small])


def test_what_a_lead_costs_is_a_gap_of_a_branch_and_bound():
    """Whole columns are beside others: what is optimal among those that lead may have a gap."""
    case = Case(7, 20)
    rows, whole = np.round(case.rows), as_kind(np.round(case.known), "array float32")
    rows[:, 2:] = case.rows[:, 2:]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(whole, case.labels["two"])
    features = [cp.Integer("x0"), cp.Integer("x1")]
    explainer = cp.Explainer(model, data=whole, features=features, cost=cp.Manhattan())
    answers = explainer.explain(as_kind(rows, "array float32"), 1, gap=1e-7)
    gap, changed = answers.certificates.gap, answers.status != cp.Status.ALREADY
    assert (gap[changed] < 1e-3).all()
    assert ((answers.status[changed] == cp.Status.OPTIMAL) == (gap[changed] <= 1e-7)).all()
    assert (gap[changed] > 1e-7).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_agrees_with_a_hundred_thousand_answers(kind: str):
    """The law over 100 000 answers for all kinds of rows together, at least 25 000 for each."""
    total, seed = 0, 0
    while total < 25_000:
        for name, (_, task) in {**MODELS, **SLOWER}.items():
            case = Case(100 + seed, 60 if name in SLOWER else 1000)
            model, _ = fitted(name, case, kind)
            targets = list(TARGETS[task])
            if name in ("logistic", "scaled"):
                targets += [cp.Probability(1, 0.9), cp.Probability(0, 0.9999)]
            for target in targets:
                answers = cp.explain(
                    model, as_kind(case.rows, kind), target, data=as_kind(case.known, kind)
                )
                count, wrong = disagreements(model, target, answers)
                assert not wrong, (name, seed, target)
                negative = (answers.certificates.margin < 0.0) & answers.found
                assert not (negative & ~answers.certificates.on_edge).any()
                total += count
        seed += 1


ASK = """
import sys, joblib, numpy as np
for model, met, rows, target in joblib.load(sys.argv[1]):
    said = model.predict(rows)
    alone = np.concatenate([model.predict(rows[i:i + 1]) for i in range(len(rows))])
    assert met(target, said).all() and met(target, alone).all(), (model, target)
"""


def satisfied(target: Any, said: np.ndarray) -> np.ndarray:
    return np.asarray(said == target)


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_the_model_agrees_on_other_processors(core: str, tmp_path: Path):
    """Rows answered here are asked about in an interpreter whose BLAS takes another processor."""
    asked = []
    for kind in ("array float32", "array float64"):
        for name, (_, task) in MODELS.items():
            if task == "number":
                continue
            case = Case(7, 300)
            model, _ = fitted(name, case, kind)
            for target in TARGETS[task]:
                answers = cp.explain(
                    model, as_kind(case.rows, kind), target, data=as_kind(case.known, kind)
                )
                sure = answers.found & ~answers.certificates.on_edge
                asked.append((model, satisfied, answers.to_frame()[sure], target.label))
    path = tmp_path / "asked.joblib"
    joblib.dump(asked, path)
    here = str(Path(__file__).parent)
    paths = os.pathsep.join([here, *sys.path])
    environment = {**os.environ, "OPENBLAS_CORETYPE": core, "PYTHONPATH": paths}
    command = [sys.executable, "-c", ASK, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean()])
def test_of_trees_behind_a_scaler_only_what_has_to_change_counts_as_changed(cost: cp.Cost):
    """Values beside a threshold were moved off it, as changes that MaxChanges does not allow."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(-4, 5, size=(60, 2)), columns=["a", "b"]).astype(np.float32)
    X["c"] = rng.choice(["ash", "birch"], size=60)
    y = (X["a"] + X["b"] > 0.0) ^ (X["c"] == "ash")
    scaled = ColumnTransformer([("n", StandardScaler(), ["a", "b"]), ("c", OneHotEncoder(), ["c"])])
    model = make_pipeline(scaled, RandomForestClassifier(9, random_state=0)).fit(X, y)
    explainer = cp.Explainer(model, data=X, cost=cost, constraints=[cp.MaxChanges(1)])
    answers = explainer.explain(X.head(20), cp.OtherLabel())
    assert not (answers.status == cp.Status.UNPROVED).any()
    changed = (answers.to_frame()[["a", "b", "c"]] != X.head(20)).sum(axis=1)
    assert (changed[answers.found] <= 1).all()


def test_what_is_missing_in_single_precision_stays_missing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    X.loc[::3, "a"] = np.nan
    X = X.astype(np.float32)
    model = DecisionTreeRegressor(max_depth=4).fit(X, X["b"] + X["a"].fillna(1.0))
    answers = cp.Explainer(model, data=X).explain(X.iloc[::3], cp.Interval(1.5, 2.5))
    assert answers.certificates.valid.all()
    assert answers.to_frame()["a"].isna().any()
