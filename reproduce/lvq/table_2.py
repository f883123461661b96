"""Table 2: one house, with and without a constraint, in the units of its features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from common.report import Claim, Section, number
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from lvq import paper
from lvq.sets import FIXED, HOUSES, MODELS, Data, fitted

ORDER = 1375
"""The house of the paper's table."""
SHOWN = HOUSES[: len(HOUSES) - FIXED]
FLOORS = cp.Linear.parse("`2nd Flr SF` <= `1st Flr SF`")
SENSE = (
    FLOORS,
    cp.Linear.parse("`Gr Liv Area` == `1st Flr SF` + `2nd Flr SF`"),
    cp.Bounds("Total Bsmt SF", low=0.0),
    cp.Bounds("2nd Flr SF", low=0.0),
)
TEXT = f"""
Square feet. The pipeline `make_pipeline(StandardScaler(), model)` is trained on the rows of the
fold that does not hold the house; features, constraints and answers are raw, and one standard
deviation of a feature costs 1; the last five features stay as they are. Label 1 is a price of at
least 160 000 dollars. The house of the paper's table is Order {ORDER}; the second is the first of
the same fold for which the constraint binds with GLVQ and GMLVQ. "All" asks, beside 2nd <= 1st,
that areas are not negative and that the living area is that of the two floors, as it is in both
houses.
"""
NOTE = """
The paper's model gives house {order} label 1; its price is 134 432 dollars, and {agree} of {count}
models here give it its true label, 0. From 0 to 1 the question is the other way round, and there
the constraint does not bind. It binds for the second house. The paper's unconstrained answer, a
cheaper house with 637 square feet more to live in, may be the bare prototype that its code
returns where a convex stand-in has no point; its constrained answer has a living area of 3125
square feet on two floors of 2908 together.
"""


FREE: dict[str, Sequence[cp.Constraint]] = {"free": ()}
KINDS = FREE | {"2nd <= 1st": (FLOORS,), "all": SENSE}
ONE_METRIC = ("GLVQ", "GMLVQ")


@dataclass(frozen=True, eq=False)
class Asked:
    """One house, explained by one model.

    Parameters
    ----------
    house
        A frame of one row.
    model, pipeline
        Its name, and itself.
    answers
        What was asked → the answer.
    """

    house: pd.DataFrame
    model: str
    pipeline: Pipeline
    answers: dict[str, cp.Counterfactuals]

    def rows(self, order: int) -> Iterator[tuple[str, ...]]:
        """Those of the table."""
        head, blank = (self.model, str(order)), ("", "", "", "")
        yield *head, "original", *_areas(self.house), self.label(self.house), "", ""
        for name, answer in self.answers.items():
            if not answer.found[0]:
                yield *head, name, *blank, "", "", str(answer.status[0])
                continue
            c, after = answer[0].certificate, answer.to_frame()
            cost_cutoff = number(c.cost), str(c.claim)
            yield *head, name, *_areas(after), self.label(after), *cost_cutoff

    @property
    def holds(self) -> list[bool]:
        """Whether each answer is valid and meets its constraints."""
        return [bool(answer[0].certificate.holds) for answer in self.answers.values()]

    def label(self, house: pd.DataFrame) -> str:
        """What the model predicts."""
        return str(self.pipeline.predict(house)[0])


def section(houses: Data, orders: np.ndarray) -> Section:
    """Both houses."""
    where = int(np.flatnonzero(orders == ORDER)[0])
    train, held = next(fold for fold in houses.folds() if where in fold[1])
    models = {
        name: _pipeline(name, houses.frame.iloc[train], houses.labels[train]) for name in MODELS
    }
    second = _second(houses, held, models)
    rows: list[Sequence[str]] = [
        ("paper", str(ORDER), name, *map(str, values), "", "")
        for name, values in paper.TABLE_2.items()
    ]
    asked = []
    for row in (where, second):
        for name, model in models.items():
            asked.append(_explained(houses.frame.iloc[[row]], name, model, KINDS))
            rows += asked[-1].rows(int(orders[row]))
    agree = sum(one.label(one.house) == "0" for one in asked[: len(models)])
    kept = [held for one in asked for held in one.holds]
    return Section(
        "Table 2: a house, and a constraint",
        TEXT,
        ("model", "house", "row", *SHOWN, "label", "cost", "claim"),
        rows,
        [NOTE.format(order=ORDER, agree=agree, count=len(models))],
        claims=[
            Claim(
                "a linear constraint on the counterfactual is met (table 2)",
                "2ndFlr <= 1stFlr",
                f"{sum(kept)} of {len(kept)} answers are valid and meet all their constraints",
                all(kept),
            )
        ],
    )


def _pipeline(name: str, frame: pd.DataFrame, labels: np.ndarray) -> Pipeline:
    scaler = StandardScaler().fit(frame)
    return make_pipeline(scaler, fitted(name, scaler.transform(frame), labels))


def _explained(
    house: pd.DataFrame,
    name: str,
    pipeline: Pipeline,
    kinds: Mapping[str, Sequence[cp.Constraint]],
) -> Asked:
    """One standard deviation costs 1, and the last features stay."""
    other = 1 - int(pipeline.predict(house)[0])
    weights = dict(zip(HOUSES, 1.0 / pipeline[0].scale_, strict=True))
    fixed = cp.Immutable(*HOUSES[len(SHOWN) :])
    answers = {}
    for kind, constraints in kinds.items():
        cost = cp.Manhattan(weights)
        explainer = cp.Explainer(pipeline, cost=cost, constraints=[fixed, *constraints])
        answers[kind] = explainer.explain(house, other)
    return Asked(house, name, pipeline, answers)


def _second(houses: Data, held: np.ndarray, models: Mapping[str, Pipeline]) -> int:
    """The first house with label 0 that keeps `SENSE`, and whose counterfactuals do not."""
    frame = houses.frame.iloc[held]
    binds = _larger(frame) <= 0.0
    binds &= frame["Gr Liv Area"] == frame["1st Flr SF"] + frame["2nd Flr SF"]
    for name in ONE_METRIC:
        binds &= models[name].predict(frame) == 0
    for row in held[binds]:
        house = houses.frame.iloc[[row]]
        free = [_explained(house, n, models[n], FREE).answers["free"] for n in ONE_METRIC]
        if all(_larger(answer.to_frame()).iloc[0] > 0.0 for answer in free):
            return int(row)
    raise LookupError("Expected a house for which the constraint binds; found none.")


def _larger(frame: pd.DataFrame) -> pd.Series:
    """By how much the second floor is larger than the first."""
    return frame["2nd Flr SF"] - frame["1st Flr SF"]


def _areas(frame: pd.DataFrame) -> tuple[str, ...]:
    return tuple(f"{value:.0f}" for value in frame[list(SHOWN)].iloc[0])
