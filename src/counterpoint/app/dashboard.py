"""Answer requests about one model: its policy, and what requests add to it."""

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

import counterpoint as cp
from counterpoint.app.people import People
from counterpoint.app.words import clipped
from counterpoint.cli.answers import CERTIFICATE, as_json


def _cell(value: Any) -> Any:
    """Refuse a cell that JSON does not have: Python reads NaN and infinities."""
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
class ExplainRequest(BaseModel):
    """Rows to explain; target, constraints and cost as in a policy file.

    Constraints are added to those of the policy; target and cost take the place of the policy's.
    At most ``n`` answers are given to each row; ``records`` adds the record of each answer.
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
    """Raised when no place among the computations at one time becomes free soon enough."""


@final
class Dashboard:
    """One model with its policy, and explainers for the last requests that added to it.

    Parameters are those of `make_app`.
    """

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
        self.model, self.most_rows, self.seconds = model, rows, seconds
        self.policy = problem.explainer(model, data=data)
        self.problem = problem
        self.labels = getattr(model, "classes_", np.empty(0)).tolist()
        odd = [name for name in self.policy.features.names if not isinstance(name, str)]
        if odd:
            raise cp.InvalidInput(f"Expected columns whose names are text; got {odd[0]!r}.")
        self.names: list[str] = list(map(str, self.policy.features.names))
        # Rows of people are shown with all their columns; those of data, which nobody chose to be
        # shown, only with the model's.
        self.people = People(data[self.names] if people is None else people, self.names, model)
        self._cached_explainer = lru_cache(16)(self._explainer_with)
        self._workers = BoundedSemaphore(2)

    def _explainer_with(self, text: str) -> cp.Explainer:
        """Return the policy's explainer with the constraints and cost in a JSON text."""
        additions = cp.Problem.from_dict(json.loads(text))
        return self.policy.adding(additions.constraints, cost=additions.cost)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a place among what is computed at once; `Busy` if none is free in time."""
        if not self._workers.acquire(timeout=self.seconds):
            raise Busy("The service is busy; try again in a few seconds.")
        try:
            yield
        finally:
            self._workers.release()

    def target(self, request: ExplainRequest) -> cp.Target:
        """Return the target of the request, or else of the policy; one of them must have one."""
        entries = {} if request.target is None else {"target": request.target}
        target = cp.Problem.from_dict(entries).target or self.problem.target
        if target is None:
            raise cp.InvalidInput("Expected a target: the policy has none. Send one.")
        return target

    def as_json(self, request: ExplainRequest) -> tuple[cp.Counterfactuals, list[dict[str, Any]]]:
        """Return answers, and each as JSON has it; all invalid is `InvalidInput`."""
        answers, rows = self.answers(request)
        if all(status is cp.Status.INVALID for status in answers.status):
            raise cp.InvalidInput(f"Row {rows[0]}: {answers[0].message}")
        entries = []
        for answer, row in zip(answers, rows, strict=True):
            message = clipped(answer.message)
            certificate = {name: getattr(answer.certificate, name) for name in CERTIFICATE}
            entry = as_json(str(answer.status), message, answer.changes, certificate)
            entries.append({"row": row, **entry})
        return answers, entries

    def answers(self, request: ExplainRequest) -> tuple[cp.Counterfactuals, Sequence[int]]:
        """Return answers, and the position of the row of each; a row may be invalid."""
        explainer, X, options = self._prepared(request, request.n or 1)
        target = self.target(request)
        if request.n is None:
            return explainer.explain(X, target, **options), range(len(X))
        several = explainer.explain(X, target, n=request.n, **options)
        return several.answers, several.row.tolist()

    def trace(self, request: ExplainRequest, targets: Sequence[cp.Target]) -> cp.Path:
        """Return the answers to one target after the other."""
        explainer, X, options = self._prepared(request, len(targets))
        return explainer.trace(X, targets, **options)

    def _prepared(
        self, request: ExplainRequest, answers_per_row: int
    ) -> tuple[cp.Explainer, list[dict[str, Any]], dict[str, Any]]:
        """Check a request; return the explainer for it, its rows, and options of the call.

        The rows have the model's columns only. The options divide the time of a request evenly
        among all answers, of which there are ``answers_per_row`` for each row.
        """
        if len(request.rows) > self.most_rows:
            raise cp.InvalidInput(f"Expected 1 to {self.most_rows} rows; got {len(request.rows)}.")
        for i, row in enumerate(request.rows):
            missing = [name for name in self.names if name not in row]
            if missing:
                raise cp.InvalidInput(
                    f"Row {i} has no {missing[0]!r}; send every column of the model, with null "
                    "where the value is missing."
                )
        X = [{name: row[name] for name in self.names} for row in request.rows]
        additions: dict[str, Any] = {"constraints": request.constraints}
        if request.cost is not None:  # without one, the policy's stays
            additions["cost"] = request.cost
        options = {"time_limit": self.seconds / len(X) / answers_per_row, "progress": False}
        # as text, because the cache needs a key that can be hashed
        return self._cached_explainer(json.dumps(additions)), X, options

    def predictions(self, rows: Sequence[Mapping[Any, Any]]) -> list[tuple[Any, list[float]]]:
        """Return the model's prediction for each row, with its probabilities of all labels.

        The list of probabilities is empty for a model that gives none.
        """
        X = pd.DataFrame(list(rows), columns=self.names)
        numbers = [f.name for f in self.policy.features if not isinstance(f, cp.Categorical)]
        X = X.astype(dict.fromkeys(numbers, float))
        predict_proba = getattr(self.model, "predict_proba", None)
        probabilities = [[]] * len(rows) if predict_proba is None else predict_proba(X).tolist()
        return list(zip(self.model.predict(X).tolist(), probabilities, strict=True))
