"""`Desk`: one model with its policy, and the explainers for what is asked beyond it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import BoundedSemaphore
from typing import Annotated, Any, final

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from sklearn.pipeline import Pipeline

import counterpoint as cp
from counterpoint.cli.answers import CERTIFICATE, as_json

__all__ = ["Busy", "Cell", "Desk", "Question", "answer_of"]


def _cell(value: Any) -> Any:
    """What JSON has for a cell; what it has not, Python reads: NaN, infinities."""
    if not (value is None or isinstance(value, str | int | float)):
        raise ValueError("expected a number, text, true, false or null")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("expected a finite number; send null for a missing value")
    if isinstance(value, str):
        value.encode()  # a ValueError of its own, for half a character
    return value


CELL: Any = {"type": ["number", "string", "boolean", "null"]}
Cell = Annotated[Any, PlainValidator(_cell), WithJsonSchema(CELL)]


@final
class Question(BaseModel):
    """What is asked of rows; target, constraints and cost as in a policy file.

    Constraints are added to those of the policy; target and cost take the place of the policy's.
    ``n`` asks for so many answers to each row at most, ``records`` for the record of each answer.
    """

    model_config = ConfigDict(extra="forbid")

    rows: list[dict[str, Cell]] = Field(min_length=1, description="Column name → value.")
    target: str | bool | int | float | list[Any] | dict[str, Any] | None = None
    constraints: list[str | dict[str, Any]] = []
    cost: dict[str, Any] | None = None
    n: int | None = Field(default=None, ge=1, le=10)
    records: bool = False


@final
class Busy(cp.CounterpointError):
    """All that may be computed at once is being computed."""


@final
class Desk:
    """One model with its policy; parameters as for `make_app`."""

    def __init__(
        self,
        model: Any,
        data: Any,
        problem: cp.Problem,
        people: Any = None,
        *,
        rows: int = 256,
        seconds: float = 10.0,
    ) -> None:
        self.model, self.rows, self.seconds = model, rows, seconds
        self.policy = problem.explainer(model, data=data)
        self.problem = problem
        self.labels = getattr(model, "classes_", np.empty(0)).tolist()
        odd = [name for name in self.policy.features.names if not isinstance(name, str)]
        if odd:
            raise cp.InvalidInput(f"Expected columns whose names are text; got {odd[0]!r}.")
        self.names: list[str] = list(map(str, self.policy.features.names))
        self.people = (data if people is None else people)[self.names]
        self._explainer = lru_cache(16)(self._made)
        self._workers = BoundedSemaphore(2)

    def _made(self, asked: str) -> cp.Explainer:
        more = cp.Problem.from_dict(json.loads(asked))
        return self.policy.adding(more.constraints, cost=more.cost)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A place among what is computed at once; `Busy` if there is none for too long."""
        if not self._workers.acquire(timeout=self.seconds):
            raise Busy("The service is busy; try again in a few seconds.")
        try:
            yield
        finally:
            self._workers.release()

    def target(self, asked: Question) -> cp.Target:
        """What is wanted; it is an `InvalidInput` if neither question nor policy say so."""
        given = {} if asked.target is None else {"target": asked.target}
        target = cp.Problem.from_dict(given).target or self.problem.target
        if target is None:
            raise cp.InvalidInput("Expected a target: the policy has none. Send one.")
        return target

    def ask(self, asked: Question) -> tuple[cp.Counterfactuals, Sequence[int]]:
        """Answers, with the position of the row of each; if all are invalid, `InvalidInput`."""
        explainer, X, seconds = self._prepared(asked, asked.n or 1)
        if asked.n is None:
            target, rows = self.target(asked), range(len(X))
            found = explainer.explain(X, target, time_limit=seconds, progress=False)
        else:
            several = explainer.explain(
                X, self.target(asked), n=asked.n, time_limit=seconds, progress=False
            )
            found, rows = several.answers, several.row.tolist()
        if all(status is cp.Status.INVALID for status in found.status):
            raise cp.InvalidInput(f"Row {rows[0]}: {found[0].message}")
        return found, rows

    def trace(self, asked: Question, targets: Sequence[cp.Target]) -> cp.Path:
        """The answers to one target after the other."""
        explainer, X, seconds = self._prepared(asked, len(targets))
        return explainer.trace(X, targets, time_limit=seconds, progress=False)

    def _prepared(self, asked: Question, times: int) -> tuple[cp.Explainer, list[Any], float]:
        """Who answers, the model's columns of the rows, and seconds for each of so many answers."""
        if len(asked.rows) > self.rows:
            raise cp.InvalidInput(f"Expected 1 to {self.rows} rows; got {len(asked.rows)}.")
        for i, row in enumerate(asked.rows):
            lost = [name for name in self.names if name not in row]
            if lost:
                raise cp.InvalidInput(
                    f"Row {i} has no {lost[0]!r}; send every column of the model, with null where "
                    "the value is missing."
                )
        X = [{name: row[name] for name in self.names} for row in asked.rows]
        more = {"constraints": asked.constraints, "cost": asked.cost}
        said = {key: value for key, value in more.items() if value is not None}
        return self._explainer(json.dumps(said)), X, self.seconds / len(X) / times

    def says(self, rows: Sequence[Mapping[Any, Any]]) -> list[tuple[Any, list[float]]]:
        """What the model itself says of each row: its decision, and the probabilities of labels.

        There are none from a model without ``predict_proba``.
        """
        cells = {f: [row[f.name] for row in rows] for f in self.policy.features}
        words = cp.Categorical
        X: Any = {
            f.name: c if isinstance(f, words) else np.array(c, float) for f, c in cells.items()
        }
        X, model = pd.DataFrame(X), self.model
        if isinstance(model, Pipeline) and len(model) > 1:  # what costs most is done once
            X, model = model[:-1].transform(X), model[-1]
        chances = getattr(model, "predict_proba", None)
        known = [[]] * len(rows) if chances is None else chances(X).tolist()
        return list(zip(model.predict(X).tolist(), known, strict=True))


def answer_of(answer: cp.Counterfactual, row: int) -> dict[str, Any]:
    """An answer as JSON has it; numbers that are not finite are null."""
    return {
        "row": row,
        "status": str(answer.status),
        "message": answer.message,
        "changes": {
            str(name): {"from": as_json(old), "to": as_json(new)}
            for name, (old, new) in answer.changes.items()
        },
        "certificate": {name: as_json(getattr(answer.certificate, name)) for name in CERTIFICATE},
    }
