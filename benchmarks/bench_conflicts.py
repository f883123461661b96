"""Why rows have no answer: how long a conflict takes, and whether what it names holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from _common import (
    Goal,
    Report,
    finish,
    german,
    german_model,
    heloc,
    heloc_integers,
    heloc_model,
    is_quick,
    milliseconds,
)
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.noise import ProjectedGaussian

QUESTION = """
Rows that no change can help within constraints drawn at random: features that stay, bounds, one
way only, few changes, a sum of two. How long does it take to say why, is the set of constraints
that is named known to be minimal, and does each relaxation that is named do?
"""
TIGHT = (0.05, 0.2, 0.5)
"""How far bounds are from the row, in standard deviations."""


@dataclass(frozen=True)
class Subject:
    """A model, rows that it denies, and what is wanted for them."""

    model: Any
    frame: pd.DataFrame
    denied: pd.DataFrame
    features: Sequence[Any]
    target: Any


def subjects() -> dict[str, Subject]:
    """Those for which there are data."""
    found = {}
    data = german()
    if data is not None:
        frame, labels = data
        model = german_model(frame, labels)
        numbers = frame.select_dtypes("number").columns
        kinds = [cp.Integer(name) for name in numbers]
        found["German credit"] = Subject(model, frame, frame[model.predict(frame) == -1], kinds, 1)
    data = heloc()
    if data is not None:
        frame, labels = data
        model = heloc_model(frame, labels)
        denied = frame[model.predict(frame) == 1]
        found["HELOC, whole steps"] = Subject(model, frame, denied, heloc_integers(frame), 0)
        found["HELOC, continuous"] = Subject(model, frame, denied, (), 0)
        some = ((frame - frame.mean()) / frame.std()).iloc[:, :8]
        plain = LogisticRegression(max_iter=1000).fit(some, labels)
        noisy = cp.UncertainClassifier(plain, law=ProjectedGaussian(0.05 * np.eye(9)))
        denied = some[plain.predict(some) == 1]
        found["HELOC, uncertain weights"] = Subject(
            noisy, some, denied, (), cp.Robust(0, 0.9, "fixed")
        )
    return found


def drawn(rng: np.random.Generator, frame: pd.DataFrame, row: pd.Series) -> list[cp.Constraint]:
    """Constraints, some of which may exclude every answer."""
    numbers = rng.permutation(frame.select_dtypes("number").columns)
    wide = rng.choice(TIGHT) * frame[numbers].std()
    third = len(numbers) // 3
    made: list[cp.Constraint] = [cp.Immutable(*numbers[: rng.integers(third, 2 * third)])]
    for name in numbers[rng.integers(third) :]:
        near = wide[name] * rng.uniform(0.2, 1.0)
        at = float(row[name])
        sides = {"low": at - near, "high": at + near, "fall": near, "rise": near}
        kept = ("low", "high"), ("fall", "rise"), ("fall",), ("rise",)
        made.append(cp.Bounds(name, **{side: sides[side] for side in kept[rng.integers(4)]}))
    a, b = numbers[-2:]
    made.append(cp.Monotone(a, str(rng.choice(["increasing", "decreasing"]))))
    more = [
        cp.MaxChanges(int(rng.integers(1, 4))),
        cp.MaxChanges(int(rng.integers(1, 3))),
        cp.WithinObserved(),
        cp.Linear({a: 1.0, b: 1.0}, high=float(row[a] + row[b]) + 0.2),
    ]
    return made + [one for one in more if rng.random() < 0.5]


def excluded(
    subject: Subject, rng: np.random.Generator, count: int
) -> Iterator[tuple[Callable[..., cp.Counterfactual], list[cp.Constraint], Any]]:
    """How to ask for rows without an answer, under which constraints, and what came of it."""
    while count:
        row = subject.denied.iloc[[int(rng.integers(len(subject.denied)))]]
        constraints = drawn(rng, subject.frame, row.iloc[0])

        def ask(
            asked: Sequence[cp.Constraint], target: Any, row: pd.DataFrame = row
        ) -> cp.Counterfactual:
            return cp.explain(
                subject.model,
                row,
                target,
                data=subject.frame,
                features=list(subject.features),
                extrapolate=True,
                constraints=asked,
            )[0]

        answer = ask(constraints, subject.target)
        if answer.status is cp.Status.INFEASIBLE:
            count -= 1
            yield ask, constraints, answer


def shared(relaxation: Any, share: float) -> Any:
    """What a relaxation puts in the place of a constraint, with only a share of the way gone."""
    old, new = relaxation.old, relaxation.new
    if isinstance(old, cp.MaxChanges):
        return cp.MaxChanges(old.count + int(share * (new.count - old.count)))
    ends = {f.name: (getattr(old, f.name), getattr(new, f.name)) for f in fields(old)}
    moved = {name: a + share * (b - a) for name, (a, b) in ends.items() if a != b}
    return replace(old, **moved)


def line(name: str, subject: Subject, count: int) -> dict[str, Any]:
    """Times, and what holds of the conflicts of some rows."""
    rng, seconds = np.random.default_rng(count), list[float]()
    said = dict.fromkeys(("minimal", "relaxations", "do", "least", "halves that do not"), 0)
    for ask, constraints, answer in excluded(subject, rng, count):
        start = process_time()
        conflict = answer.conflict
        seconds.append(process_time() - start)
        said["minimal"] += conflict.minimal
        for relaxation in conflict.relaxed:
            said["relaxations"] += 1
            at = [i for i, one in enumerate(constraints) if one is relaxation.old]
            if not at:  # of the target
                said["do"] += ask(constraints, relaxation.new).found
                continue
            asked = list(constraints)
            asked[at[0]] = relaxation.new
            said["do"] += ask(asked, subject.target).found
            if relaxation.least:
                asked[at[0]] = shared(relaxation, 0.5)
                said["least"] += 1
                said["halves that do not"] += not ask(asked, subject.target).found
    return {"kind": name, "rows": count, "seconds": seconds, **said}


def cells(said: Mapping[str, Any]) -> tuple[Any, ...]:
    """A line of the table."""
    return (
        said["kind"],
        said["rows"],
        milliseconds(float(np.median(said["seconds"]))),
        milliseconds(max(said["seconds"])),
        f"{said['minimal']} of {said['rows']}",
        f"{said['do']} of {said['relaxations']}",
        f"{said['halves that do not']} of {said['least']}",
    )


def main() -> None:
    quick = is_quick()
    made = subjects()
    if not made:
        return
    lines = [line(name, subject, 2 if quick else 10) for name, subject in made.items()]
    seconds = np.concatenate([one["seconds"] for one in lines])
    total = {name: sum(one[name] for one in lines) for name in lines[0] if name not in SINGLE}
    median, worst = float(np.median(seconds)), float(seconds.max())
    goals = [
        Goal("median", "below 100 ms", milliseconds(median), median < 0.1),
        Goal("worst", "below 2 s", milliseconds(worst), worst < 2.0),
        *(
            Goal(what, goal, f"{total[part]} of {total[whole]}", total[part] == total[whole])
            for what, goal, part, whole in (
                ("known to be minimal", "every row", "minimal", "rows"),
                ("relaxations that do", "every one", "do", "relaxations"),
                ("least: half does not", "every one", "halves that do not", "least"),
            )
        ),
    ]
    report = Report(
        "conflicts",
        "Conflicts of rows without an answer",
        QUESTION,
        ("rows of", "rows", "median", "worst", "minimal", "relaxations that do", "half does not"),
        [cells(one) for one in lines],
        goals,
        [
            """*Half does not*: of the relaxations of constraints that are said to be the least,
            those of which half does not suffice. Times are CPU time."""
        ],
    )
    finish(report, quick=quick)


SINGLE = ("kind", "seconds")


if __name__ == "__main__":
    main()
