"""`Desk`: one model with its policy, and the explainers for what is asked beyond it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from threading import BoundedSemaphore
from typing import Annotated, Any, final

import numpy as np
import pandas as pd
from pydantic import PlainValidator, WithJsonSchema

import counterpoint as cp

__all__ = ["Busy", "Cell", "Desk", "answer_of"]


def _cell(value: Any) -> Any:
    """What JSON has for a cell; what it has not, Python reads: NaN, infinities."""
    if not (value is None or isinstance(value, str | int | float)):
        raise ValueError("expected a number, text, true, false or null")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("expected a finite number; send null for a missing value")
    if isinstance(value, str) and not value.isprintable():
        value.encode()  # a ValueError of its own, for half a character
    return value


CELL: Any = {"type": ["number", "string", "boolean", "null"]}
Cell = Annotated[Any, PlainValidator(_cell), WithJsonSchema(CELL)]

NUMBERS = (
    *("cost", "objective", "bound", "gap", "margin"),
    *("rounding", "probability", "violation"),
)


@final
class Busy(cp.CounterpointError):
    """All that may be computed at once is being computed."""


@final
class Desk:
    """One model with its policy, and the explainers for what is asked beyond it.

    Parameters
    ----------
    model, data, problem, people
        As for `make_app`.
    rows, seconds
        The most rows of a request, and seconds of its search.
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
        policy = problem.explainer(model, data=data)
        self.model, self.policy, self.rows, self.seconds = model, policy, rows, seconds
        self.labels = getattr(model, "classes_", np.empty(0)).tolist()
        self.problem = replace(problem, cost=policy.cost)
        odd = [name for name in policy.features.names if not isinstance(name, str)]
        if odd:
            raise cp.InvalidInput(f"Expected columns whose names are text; got {odd[0]!r}.")
        self.names: list[str] = list(map(str, policy.features.names))
        self.people = (data if people is None else people)[self.names]
        self.explainer = lru_cache(16)(self._explainer)
        """Constraints and cost of a policy file, as JSON text → the explainer that has them too."""
        self._says = lru_cache(256)(self._asked)  # while a limit is dragged, rows stay as they are
        self._workers = BoundedSemaphore(2)

    def _explainer(self, asked: str) -> cp.Explainer:
        more = cp.Problem.from_dict(json.loads(asked))
        return self.policy.adding(more.constraints, cost=more.cost)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A place among what is computed at once.

        Raises
        ------
        Busy
            If there is none for as long as a request may take.
        """
        if not self._workers.acquire(timeout=self.seconds):
            raise Busy("The service is busy; try again in a few seconds.")
        try:
            yield
        finally:
            self._workers.release()

    def target(self, asked: Any = None) -> cp.Target:
        """The target that a policy file would say so; None for that of the policy.

        Raises
        ------
        InvalidInput
            If there is none.
        """
        given = {} if asked is None else {"target": asked}
        target = cp.Problem.from_dict(given).target or self.problem.target
        if target is None:
            raise cp.InvalidInput("Expected a target: the policy has none. Send one.")
        return target

    def ask(
        self,
        rows: Sequence[Mapping[str, Any]],
        target: cp.Target,
        asked: Mapping[str, Any],
        n: int | None = None,
    ) -> tuple[cp.Counterfactuals, Sequence[int]]:
        """Answers to rows, with the position of the row of each; ``n`` as for `Explainer.explain`.

        Raises
        ------
        InvalidInput
            If the rows are too many or lack columns, or what is asked does not fit the model.
        """
        explainer, X = self.explainer(json.dumps(asked)), self._cells(rows)
        seconds = self.seconds / len(rows) / (n or 1)
        if n is None:
            found = explainer.explain(X, target, time_limit=seconds, progress=False)
            return found, range(len(rows))
        several = explainer.explain(X, target, n=n, time_limit=seconds, progress=False)
        return several.answers, several.row.tolist()

    def trace(
        self, row: Mapping[str, Any], targets: Sequence[cp.Target], asked: Mapping[str, Any]
    ) -> cp.Path:
        """The answers of a row to one target after the other."""
        explainer, X = self.explainer(json.dumps(asked)), self._cells([row])
        seconds = self.seconds / len(targets)
        return explainer.trace(X, targets, time_limit=seconds, progress=False)

    def _cells(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The columns of the model."""
        if not 1 <= len(rows) <= self.rows:
            raise cp.InvalidInput(f"Expected 1 to {self.rows} rows; got {len(rows)}.")
        for i, row in enumerate(rows):
            lost = [name for name in self.names if name not in row]
            if lost:
                raise cp.InvalidInput(
                    f"Row {i} has no {lost[0]!r}; send every column of the model, with null where "
                    "the value is missing."
                )
        return [{name: row[name] for name in self.names} for row in rows]

    def says(self, row: Mapping[str, Any]) -> tuple[Any, list[float]]:
        """What the model itself says of a row: its decision, and the probability of each label.

        There are none from a model without ``predict_proba``.
        """
        return self._says(json.dumps(row, default=np.generic.item))

    def _asked(self, text: str) -> tuple[Any, list[float]]:
        frame = pd.DataFrame([json.loads(text)], columns=self.names)
        for feature in self.policy.features:
            if not isinstance(feature, cp.Categorical):
                frame[feature.name] = pd.to_numeric(frame[feature.name])
        (said,) = self.model.predict(frame).tolist()
        chances = getattr(self.model, "predict_proba", None)
        return said, [] if chances is None else chances(frame)[0].tolist()


def answer_of(answer: cp.Counterfactual, row: int) -> dict[str, Any]:
    """An answer as JSON has it; numbers that are not finite are null."""
    c = answer.certificate
    numbers = {name: _plain(float(getattr(c, name))) for name in NUMBERS}
    words = {"claim": str(c.claim), "guarantee": str(c.guarantee), "valid": bool(c.valid)}
    return {
        "row": row,
        "status": str(answer.status),
        "message": answer.message,
        "changes": {
            str(name): {"from": _plain(old), "to": _plain(new)}
            for name, (old, new) in answer.changes.items()
        },
        "certificate": {**words, **numbers, "on_edge": bool(c.on_edge)},
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
