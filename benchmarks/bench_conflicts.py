"""Why rows have no answer: how long a conflict takes, and whether what it names holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from harness.data import german, german_model, heloc, heloc_integers, heloc_model
from harness.report import Claim, Section, is_quick, publish
from harness.timing import milliseconds, timed
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint.privacy.noise import ProjectedGaussian

TEXT = """
Rows that no change can help within constraints drawn at random: features that stay, bounds, one
way only, few changes, a sum of two. How long does it take to say why, is the set of constraints
that is named known to be minimal, and does each relaxation that is named do? *Half does not*: of
the relaxations of constraints that are said to be the least, those of which half does not suffice.
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


def subjects() -> Iterator[tuple[str, Subject]]:
    """Those for which there are data."""
    data = german()
    if data is not None:
        frame, labels = data
        model = german_model(frame, labels)
        integers = [cp.Integer(name) for name in frame.select_dtypes("number").columns]
        denied = frame[model.predict(frame) == -1]
        yield "German credit", Subject(model, frame, denied, integers, 1)
    data = heloc()
    if data is not None:
        frame, labels = data
        model = heloc_model(frame, labels)
        denied = frame[model.predict(frame) == 1]
        yield "HELOC, whole steps", Subject(model, frame, denied, heloc_integers(frame), 0)
        yield "HELOC, continuous", Subject(model, frame, denied, (), 0)
        narrow = ((frame - frame.mean()) / frame.std()).iloc[:, :8]
        plain = LogisticRegression(max_iter=1000).fit(narrow, labels)
        noisy = cp.UncertainClassifier(plain, law=ProjectedGaussian(0.05 * np.eye(9)))
        denied, target = narrow[plain.predict(narrow) == 1], cp.Robust(0, 0.9, "fixed")
        yield "HELOC, uncertain weights", Subject(noisy, narrow, denied, (), target)


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
        ends = (("low", "high"), ("fall", "rise"), ("fall",), ("rise",))[rng.integers(4)]
        made.append(cp.Bounds(name, **{side: sides[side] for side in ends}))
    a, b = numbers[-2:]
    made.append(cp.Monotone(a, str(rng.choice(["increasing", "decreasing"]))))
    couplings = [
        cp.MaxChanges(int(rng.integers(1, 4))),
        cp.MaxChanges(int(rng.integers(1, 3))),
        cp.WithinObserved(),
        cp.Linear({a: 1.0, b: 1.0}, high=float(row[a] + row[b]) + 0.2),
    ]
    return made + [constraint for constraint in couplings if rng.random() < 0.5]


def excluded(
    subject: Subject, rng: np.random.Generator, count: int
) -> Iterator[tuple[Callable[..., cp.Counterfactual], list[cp.Constraint], Any]]:
    """How to ask for rows without an answer, under which constraints, and what came of it."""
    while count:
        row = subject.denied.iloc[[int(rng.integers(len(subject.denied)))]]
        constraints = drawn(rng, subject.frame, row.iloc[0])

        def ask(
            policy: Sequence[cp.Constraint], target: Any, row: pd.DataFrame = row
        ) -> cp.Counterfactual:
            return cp.explain(
                subject.model,
                row,
                target,
                data=subject.frame,
                features=list(subject.features),
                extrapolate=True,
                constraints=policy,
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


COUNTS = ("minimal", "relaxations", "do", "least", "halves")


def line(name: str, subject: Subject, count: int) -> dict[str, Any]:
    """Times, and what holds of the conflicts of some rows."""
    rng, seconds, counts = np.random.default_rng(count), list[float](), dict.fromkeys(COUNTS, 0)
    for ask, constraints, answer in excluded(subject, rng, count):
        conflict, time = timed(lambda: answer.conflict)  # noqa: B023
        seconds.append(time)
        counts["minimal"] += conflict.minimal
        for relaxation in conflict.relaxed:
            counts["relaxations"] += 1
            at = [i for i, c in enumerate(constraints) if c is relaxation.old]
            if not at:  # of the target
                counts["do"] += ask(constraints, relaxation.new).found
                continue
            policy = list(constraints)
            policy[at[0]] = relaxation.new
            counts["do"] += ask(policy, subject.target).found
            if relaxation.least:
                policy[at[0]] = shared(relaxation, 0.5)
                counts["least"] += 1
                counts["halves"] += not ask(policy, subject.target).found
    return {"name": name, "rows": count, "seconds": seconds, **counts}


def main() -> None:
    quick = is_quick()
    results = [line(name, subject, 2 if quick else 10) for name, subject in subjects()]
    if not results:
        return
    shares = (("minimal", "rows"), ("do", "relaxations"), ("halves", "least"))
    rows = [
        (
            *(result["name"], result["rows"], milliseconds(float(np.median(result["seconds"])))),
            milliseconds(max(result["seconds"])),
            *(f"{result[mask]} of {result[whole]}" for mask, whole in shares),
        )
        for result in results
    ]
    seconds = np.concatenate([result["seconds"] for result in results])
    median, worst = float(np.median(seconds)), float(seconds.max())
    claims = [
        Claim("median", "below 100 ms", milliseconds(median), median < 0.1),
        Claim("worst", "below 2 s", milliseconds(worst), worst < 2.0),
    ]
    promises = (
        ("known to be minimal", "every row"),
        ("relaxations that do", "every one"),
        ("least: half does not", "every one"),
    )
    for (what, goal), pair in zip(promises, shares, strict=True):
        count, total = (sum(result[name] for result in results) for name in pair)
        claims.append(Claim(what, goal, f"{count} of {total}", count == total))
    columns = (
        *("rows of", "rows", "median", "worst", "minimal", "relaxations that do"),
        "half does not",
    )
    section = Section("", TEXT, columns, rows, claims=claims)
    publish("conflicts", "Conflicts of rows without an answer", [section], quick=quick)


if __name__ == "__main__":
    main()
