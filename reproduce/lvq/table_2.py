"""Table 2: one house, with and without a constraint, in the units of its features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from harness.data import HOUSES, ames
from harness.report import Claim, Section
from harness.timing import number
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from lvq.sets import FIXED, MODELS, Data, fitted

PAPER = {
    "original": (0, 1120, 468, 1588, 1),
    "counterfactual": (0, 366, 1824, 2225, 0),
    "constrained": (373, 1454, 1454, 3125, 0),
}
"""Row: TotalBsmt, 1stFlr, 2ndFlr, GrLivA, label."""
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
class Explained:
    """One house (a frame of one row), explained by one model: what was asked → the answer."""

    house: pd.DataFrame
    model: str
    pipeline: Pipeline
    answers: dict[str, cp.Counterfactuals]

    def rows(self, order: int) -> Iterator[tuple[str, ...]]:
        """Those of the table."""
        head = (self.model, str(order))
        yield *head, "original", *_areas(self.house), self.label(self.house), "", ""
        for name, answer in self.answers.items():
            if not answer.found[0]:
                yield *head, name, *[""] * 6, str(answer.status[0])
                continue
            c, after = answer[0].certificate, answer.to_frame()
            yield *head, name, *_areas(after), self.label(after), number(c.cost), str(c.claim)

    def label(self, house: pd.DataFrame) -> str:
        """What the model predicts."""
        return str(self.pipeline.predict(house)[0])


def section(houses: Data) -> Section:
    """Both houses."""
    orders = ames()["Order"].to_numpy()
    index = int(np.flatnonzero(orders == ORDER)[0])
    train, test = next(fold for fold in houses.folds() if index in fold[1])
    models = {
        name: _pipeline(name, houses.frame.iloc[train], houses.labels[train]) for name in MODELS
    }
    rows: list[Sequence[str]] = [
        ("paper", str(ORDER), name, *map(str, values), "", "") for name, values in PAPER.items()
    ]
    explained = []
    for row in (index, _second(houses, test, models)):
        for name, model in models.items():
            explained.append(_explained(houses.frame.iloc[[row]], name, model, KINDS))
            rows += explained[-1].rows(int(orders[row]))
    agree = sum(house.label(house.house) == "0" for house in explained[: len(models)])
    holds = [bool(a[0].certificate.holds) for house in explained for a in house.answers.values()]
    claim = Claim(
        "a linear constraint on the counterfactual is met (table 2)",
        "2ndFlr <= 1stFlr",
        f"{sum(holds)} of {len(holds)} answers are valid and meet all their constraints",
        all(holds),
    )
    columns = ("model", "house", "row", *SHOWN, "label", "cost", "claim")
    note = NOTE.format(order=ORDER, agree=agree, count=len(models))
    return Section(
        "Table 2: a house, and a constraint", TEXT, columns, rows, [note], claims=[claim]
    )


def _pipeline(name: str, frame: pd.DataFrame, labels: np.ndarray) -> Pipeline:
    scaler = StandardScaler().fit(frame)
    return make_pipeline(scaler, fitted(name, scaler.transform(frame), labels))


def _explained(
    house: pd.DataFrame,
    name: str,
    pipeline: Pipeline,
    kinds: Mapping[str, Sequence[cp.Constraint]],
) -> Explained:
    """One standard deviation costs 1, and the last features stay."""
    other = 1 - int(pipeline.predict(house)[0])
    weights = dict(zip(HOUSES, 1.0 / pipeline[0].scale_, strict=True))
    fixed = cp.Immutable(*HOUSES[len(SHOWN) :])
    answers = {}
    for kind, constraints in kinds.items():
        cost = cp.Manhattan(weights)
        explainer = cp.Explainer(pipeline, cost=cost, constraints=[fixed, *constraints])
        answers[kind] = explainer.explain(house, other)
    return Explained(house, name, pipeline, answers)


def _second(houses: Data, test: np.ndarray, models: Mapping[str, Pipeline]) -> int:
    """The first house with label 0 that keeps `SENSE`, and whose counterfactuals do not."""
    frame = houses.frame.iloc[test]
    binds = _larger(frame) <= 0.0
    binds &= frame["Gr Liv Area"] == frame["1st Flr SF"] + frame["2nd Flr SF"]
    for name in ONE_METRIC:
        binds &= models[name].predict(frame) == 0
    for row in test[binds]:
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
