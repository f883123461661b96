"""Are the answers optimal? Random and real problems, each stated anew in CVXPY."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from harness.data import (
    german,
    german_model,
    german_policy,
    heloc,
    heloc_integers,
    heloc_model,
    heloc_policy,
)
from harness.report import Claim, Section, is_quick, publish
from peers.cvxpy_statement import Answer, Scores, Statement
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp

EXACT = 1e-6
"""What counts as equal: a relative difference in cost."""
FAILURE = 1e-8
"""By how much, relative to its sides, a condition may fail."""
COSTS_AGREE = 1e-9
"""How far apart our cost of a point and the peer's cost of the same point may be."""

TEXT = """
Random linear models (2–10 classes, 2–60 features; every cost, constraint and target; real, whole,
categorical columns), German credit and HELOC with policies: is each answer valid, proved, and no
worse than CVXPY's?
"""
METHOD = """
Every problem is stated anew in CVXPY from public values only (`peers/cvxpy_statement.py`) and
solved by Clarabel (1e-11), HiGHS (mixed-integer linear) or SCIP (other mixed-integer); the peer's
integers are rounded and the rest solved anew, so that its cost is that of a feasible point.
*Valid*: the model's own `predict`, every condition as CVXPY computes it within 1e-8, and the same
cost. *Excess*: our cost over the peer's; *saving*: the reverse (tolerances of the peer, or a search
that it did not finish).
"""


@dataclass(frozen=True)
class Question:
    """What is asked of a model about some rows."""

    family: str
    name: str
    frame: pd.DataFrame
    model: Any
    cost: cp.Cost
    constraints: list[cp.Constraint]
    features: list[Any] | None
    target: Any
    rows: pd.DataFrame


# Random problems


def random_frame(rng: np.random.Generator, kind: str, p: int, n: int = 200) -> pd.DataFrame:
    """Columns of one kind or of all, at scales from 0.1 to 100."""
    columns: dict[str, Any] = {}
    kinds = {"continuous": "c", "whole": "i", "mixed": "cib"}[kind]
    for j in range(p):
        which = kinds[rng.integers(len(kinds))] if kind != "mixed" or j > 2 else "cis"[j]
        if which == "c":
            columns[f"c{j}"] = rng.normal(rng.normal(), 1.0, n) * 10.0 ** rng.uniform(-1, 2)
        elif which == "i":
            columns[f"i{j}"] = rng.poisson(10 ** rng.uniform(0.3, 1.5), n)
        elif which == "b":
            columns[f"b{j}"] = rng.integers(0, 2, n)
        else:
            columns[f"s{j}"] = rng.choice(["ash", "birch", "cedar", "dogwood"], n)
    return pd.DataFrame(columns)


def random_model(rng: np.random.Generator, frame: pd.DataFrame, k: int) -> Any:
    """Logistic regression for random linear classes, on standardised and one-hot columns."""
    text = [name for name in frame if frame[name].dtype.kind not in "fiu"]
    columns = ColumnTransformer([("text", OneHotEncoder(), text)], remainder=StandardScaler())
    Z = columns.fit_transform(frame)
    scores = Z @ rng.normal(size=(Z.shape[1], k)) + rng.normal(size=(len(frame), k))
    labels = scores.argmax(axis=1)
    labels[:k] = np.arange(k)
    return make_pipeline(columns, LogisticRegression(max_iter=200)).fit(frame, labels)


def random_cost(rng: np.random.Generator, frame: pd.DataFrame) -> cp.Cost:
    """One of the three costs, in units of the columns' spread."""
    numeric = [n for n in frame if frame[n].dtype.kind == "f" or str(n).startswith("i")]
    weight = {n: 10.0 ** rng.uniform(-1, 1) / frame[n].std() for n in numeric}
    which = rng.integers(3)
    if which == 0:
        return cp.Manhattan(weight)
    if which == 1:
        return cp.SquaredEuclidean({n: w / frame[n].std() for n, w in weight.items()})
    scale = np.array([1.0 / frame[n].std() if n in numeric else 1.0 for n in frame])
    root = rng.normal(size=(len(scale), len(scale))) / np.sqrt(len(scale))
    matrix = root @ root.T + 0.3 * np.eye(len(scale))
    plain = np.array([n not in numeric for n in frame])
    matrix[plain] = matrix[:, plain] = 0.0
    matrix[plain, plain] = 1.0
    return cp.Mahalanobis(matrix * np.outer(scale, scale))


def random_constraints(rng: np.random.Generator, frame: pd.DataFrame) -> list[cp.Constraint]:
    """Any of the constraints, each with a probability."""
    names = list(frame)
    constraints: list[cp.Constraint] = []
    if rng.random() < 0.4 and len(names) > 2:
        count = rng.integers(1, 1 + len(names) // 2)
        constraints.append(cp.Immutable(*rng.choice(names, count, replace=False).tolist()))
    if rng.random() < 0.5:
        constraints.append(cp.WithinObserved())
        if rng.random() < 0.4:
            constraints.append(cp.MaxChanges(int(rng.integers(1, 5))))
    return constraints + random_ranges(rng, frame) + random_couplings(rng, frame)


def random_ranges(rng: np.random.Generator, frame: pd.DataFrame) -> list[cp.Constraint]:
    """Bounds and directions of one or two numbers."""
    constraints: list[cp.Constraint] = []
    numeric = [n for n in frame if str(n)[0] in "ci"]
    for name in rng.choice(numeric, min(2, len(numeric)), replace=False).tolist():
        fall, rise = frame[name].std() * rng.random(2)
        if rng.random() < 0.4:
            constraints.append(cp.Bounds(name, fall=fall, rise=2 * rise))
        elif rng.random() < 0.3:
            way = str(rng.choice(["increasing", "decreasing"]))
            constraints.append(cp.Monotone(name, way))
    return constraints


def random_couplings(rng: np.random.Generator, frame: pd.DataFrame) -> list[cp.Constraint]:
    """A linear relation between two numbers, an ellipsoid around up to four real ones."""
    constraints: list[cp.Constraint] = []
    numeric = [n for n in frame if str(n)[0] in "ci"]
    floats = [n for n in frame if str(n)[0] == "c"]
    if rng.random() < 0.4 and len(numeric) > 1:
        pair = rng.choice(numeric, 2, replace=False).tolist()
        weights = {n: float(rng.normal() / frame[n].std()) for n in pair}
        total = sum(w * frame[n] for n, w in weights.items())
        constraints.append(cp.Linear(weights, high=float(np.quantile(total, 0.7))))
    if rng.random() < 0.25 and len(floats) > 1:
        constraints.append(cp.Ellipsoid.from_data(frame, floats[:4], coverage=0.99))
    return constraints


def random_target(rng: np.random.Generator, k: int) -> Any:
    """One of the targets."""
    label = int(rng.integers(k))
    choices: list[Any] = [cp.Label(label), cp.OtherLabel(), cp.Label(label, margin=0.2)]
    choices.append(cp.Probability(label, float(rng.uniform(0.5, 0.95))))
    if k > 3:
        choices.append(cp.Label({label, (label + 1) % k}))
    return choices[rng.integers(len(choices))]


def random_questions(count: int) -> Iterator[Question]:
    """Continuous ones up to 60 features and 10 classes; smaller ones with whole numbers."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        kind = ("continuous", "whole", "mixed")[seed % 3]
        p = int(np.exp(rng.uniform(np.log(2), np.log(60 if kind == "continuous" else 14))))
        p = max(p, 4) if kind == "mixed" else p
        k = int(rng.integers(2, 11 if kind == "continuous" else 5))
        frame = random_frame(rng, kind, p)
        model = random_model(rng, frame, k)
        cost, constraints = random_cost(rng, frame), random_constraints(rng, frame)
        target = random_target(rng, k)
        if isinstance(target, cp.Probability) and k > 2 and kind != "continuous":
            target = cp.Label(target.label)
        rows = frame.iloc[rng.choice(len(frame), 2, replace=False)]
        family = f"{kind}, {type(cost).__name__}"
        yield Question(family, f"seed {seed}", frame, model, cost, constraints, None, target, rows)


# Real ones


def german_questions(count: int) -> Iterator[Question]:
    """Rejected applicants under three policies."""
    data = german()
    if data is None:
        return
    frame, labels = data
    model = german_model(frame, labels)
    rows = frame[model.predict(frame) == -1].head(count)
    costs = [cp.Manhattan(cp.mad_weights(frame))]
    costs.append(cp.SquaredEuclidean({"LoanAmount": 1e-6, "LoanDuration": 1e-2, "Age": 0.01}))
    policies = {"none": [], "policy": german_policy()}
    policies["policy, 2 changes"] = [*german_policy(), cp.MaxChanges(2)]
    for cost in costs:
        for name, policy in policies.items():
            family = f"German credit, {type(cost).__name__}"
            yield Question(family, name, frame, model, cost, policy, None, 1, rows)


def heloc_questions(count: int) -> Iterator[Question]:
    """Denied applicants, real columns and whole ones."""
    data = heloc()
    if data is None:
        return
    frame, labels = data
    model = heloc_model(frame, labels)
    rows = frame[model.predict(frame) == 1].head(count)
    whole = heloc_integers(frame)
    costs = [cp.Manhattan(cp.mad_weights(frame))]
    costs.append(cp.SquaredEuclidean({n: 1.0 / frame[n].var() for n in frame}))
    for cost in costs:
        for name, features in (("real", None), ("whole", whole)):
            family = f"HELOC {name}, {type(cost).__name__}"
            yield Question(family, "policy", frame, model, cost, heloc_policy(), features, 0, rows)


# Judging


@dataclass
class Tally:
    """What became of a family of problems."""

    rows: int = 0
    already: int = 0
    answered: int = 0
    valid: int = 0
    exact: int = 0
    compared: int = 0
    impossible: int = 0
    infeasible: int = 0
    proved: int = 0
    gap: float = 0.0
    excess: float = -np.inf
    saving: float = -np.inf
    unfinished: int = 0
    trouble: list[str] = field(default_factory=list)


def judge(question: Question, tally: Tally) -> None:
    """Answer a question, and hold each answer against CVXPY."""
    explainer = cp.Explainer(
        question.model,
        data=question.frame,
        extrapolate=True,
        features=question.features,
        cost=question.cost,
        constraints=question.constraints,
    )
    target = question.target
    target = target if isinstance(target, cp.Target) else cp.Label(target)
    answers = explainer.explain(question.rows, target, time_limit=60)
    classes = np.asarray(question.model.classes_).tolist()
    scores = Scores.ask(question.model, question.frame, explainer.features)
    spread = question.frame.std(numeric_only=True)
    now = question.model.predict(question.rows).tolist()
    returned = answers.to_frame()[answers.found].astype(question.rows.dtypes)
    before = [now[i] for i in np.flatnonzero(answers.found)]
    confirmed = _confirmed(question, target, returned, before)
    after = iter(zip(_rows(returned), confirmed, strict=True))
    for i, x in enumerate(_rows(question.rows)):
        statement = Statement(explainer, scores, x, spread)
        y = next(after) if answers.found[i] else None  # only rows that have one
        where = f"{question.family}, {question.name}, row {i}"
        _judge_row(statement, (answers, i, y), (target, classes, now[i]), tally, where)


def _confirmed(
    question: Question, target: Any, returned: pd.DataFrame, before: list[Any]
) -> list[bool]:
    """What the model itself says of the rows that were returned."""
    if not len(returned):
        return []
    if isinstance(target, cp.Probability):
        column = question.model.classes_.tolist().index(target.label)
        return (question.model.predict_proba(returned)[:, column] >= target.at_least).tolist()
    predicted = question.model.predict(returned).tolist()
    if isinstance(target, cp.Label):
        return [label in target.labels for label in predicted]
    away = [target.labels or (label,) for label in before]
    return [label not in labels for label, labels in zip(predicted, away, strict=True)]


def _rows(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Each row's own values, in their own types."""
    return frame.to_dict("records")


def _judge_row(
    statement: Statement, ours: tuple[Any, int, Any], ask: tuple[Any, ...], tally: Tally, where: str
) -> None:
    answers, i, y = ours
    tally.rows += 1
    if answers.status[i] == "already":
        tally.already += 1
        return
    peer = statement.answer(*ask)
    tally.unfinished += not peer.finished
    if y is None:
        _judge_silence(answers[i], peer, tally, where)
        return
    cost = _judge_point(statement, ours, ask, tally, where)
    if np.isfinite(peer.cost):
        tally.compared += 1
        difference = (cost - peer.cost) / max(abs(peer.cost), 1e-12)
        tally.excess, tally.saving = max(tally.excess, difference), max(tally.saving, -difference)
        if difference > EXACT:
            tally.trouble.append(f"{where}: costs {cost:.9g}, CVXPY {peer.cost:.9g}")
    elif peer.impossible:
        tally.trouble.append(f"{where}: answered, but CVXPY says infeasible")


def _judge_silence(ours: cp.Counterfactual, peer: Answer, tally: Tally, where: str) -> None:
    """A row without an answer: whether it is impossible, and what says so."""
    tally.impossible += peer.impossible
    tally.infeasible += ours.status is cp.Status.INFEASIBLE
    tally.proved += (
        ours.status is cp.Status.INFEASIBLE and ours.certificate.claim is cp.Claim.PROVED
    )
    if np.isfinite(peer.cost):
        tally.trouble.append(f"{where}: {ours.status}, but CVXPY finds {peer.cost:.9g}")
    elif ours.status is not cp.Status.INFEASIBLE:
        tally.trouble.append(f"{where}: {ours.status}; CVXPY finds nothing either")


def _judge_point(
    statement: Statement, ours: tuple[Any, int, Any], ask: tuple[Any, ...], tally: Tally, where: str
) -> float:
    """A row with an answer: whether it is valid, at the cost that was said, its gap closed."""
    answers, i, (point, confirmed) = ours
    cost, failure = statement.judge(point, *ask)
    reported, gap = float(answers.cost[i]), float(answers.gap[i])
    agrees = abs(cost - reported) <= COSTS_AGREE * max(cost, 1e-300)
    valid = confirmed and failure <= FAILURE and agrees
    tally.answered += 1
    tally.valid += valid
    tally.gap = max(tally.gap, gap)
    tally.exact += gap <= EXACT
    if not valid:
        problem = (
            f"confirmed {confirmed}, fails by {failure:.1e}, cost {reported:.12g}, {cost:.12g}"
        )
        tally.trouble.append(f"{where}: {problem}")
    if gap > EXACT:
        tally.trouble.append(f"{where}: {answers.status[i]} with gap {gap:.1e}")
    return cost


def main() -> None:
    warnings.filterwarnings("ignore")
    quick = is_quick()
    sources: list[tuple[Callable[[int], Iterator[Question]], int]] = [
        (random_questions, 9 if quick else 600),
        (german_questions, 1 if quick else 40),
        (heloc_questions, 1 if quick else 40),
    ]
    tallies: dict[str, Tally] = {}
    for source, count in sources:
        for question in source(count):
            judge(question, tallies.setdefault(question.family, Tally()))
    packages = ("cvxpy", "PySCIPOpt")
    publish("optimality", "Optimality", [section(tallies)], quick=quick, packages=packages)


COLUMNS = {
    "rows": "rows",
    "already": "already",
    "answered": "answered",
    "valid": "valid",
    "exact": "gap ≤ 1e-6",
    "gap": "worst gap",
    "compared": "compared",
    "excess": "worst excess",
    "saving": "largest saving",
    "impossible": "impossible says peer",
    "infeasible": "infeasible",
    "proved": "of these proved",
}
"""Fields of a tally, and their columns."""


def section(tallies: dict[str, Tally]) -> Section:
    """The table, and what went wrong."""
    rows = [
        (family, *(_cell(getattr(tally, name)) for name in COLUMNS))
        for family, tally in tallies.items()
    ]
    total = {
        name: sum(getattr(tally, name) for tally in tallies.values())
        for name in ("rows", "already", "answered", "valid", "exact", "infeasible", "unfinished")
    }
    worst = max(tally.excess for tally in tallies.values())
    unanswered = total["rows"] - total["already"] - total["answered"]
    claims = [
        Claim(what, goal, f"{total[name]} of {count}", total[name] == count)
        for what, goal, name, count in (
            ("valid", "every answer", "valid", total["answered"]),
            ("gap", "≤ 1e-6 each", "exact", total["answered"]),
            ("impossible rows", "each infeasible, proved or reported", "infeasible", unanswered),
        )
    ]
    claims.append(Claim("worst against the peer", "≤ 1e-6 relative", _cell(worst), worst <= EXACT))
    trouble = [line for tally in tallies.values() for line in tally.trouble]
    unfinished = f"""The peer did not finish, or not accurately, on {total["unfinished"]} of
        {total["rows"]} rows."""
    notes = [METHOD, *([unfinished] if total["unfinished"] else [])]
    notes += ["What went wrong: " + "; ".join(trouble) + "."] if trouble else []
    return Section("", TEXT, ("problems", *COLUMNS.values()), rows, notes, claims=claims)


def _cell(value: float) -> str | int:
    if isinstance(value, int):
        return value
    return "–" if not np.isfinite(value) else f"{value:.0e}"


if __name__ == "__main__":
    main()
