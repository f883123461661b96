"""Answers as files: a table with one line for each row that came in, or JSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

import numpy as np

import counterpoint as cp
from counterpoint.cli.files import STDOUT, completely

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Listing", "write_answers"]

PREFIX = "cf_"
CERTIFICATE = (
    *("claim", "valid", "cost", "objective", "bound", "gap"),
    *("margin", "rounding", "on_edge", "probability", "guarantee", "violation"),
)


@final
@dataclass(frozen=True, eq=False)
class Listing:
    """Answers with the rows that they are answers to.

    Parameters
    ----------
    X
        The rows, one for each answer.
    answers
        The answers.
    summary
        What became of them, in a few lines.
    places
        The position of each row and the rank of each answer among the row's; empty where each row
        has one answer.
    """

    X: pd.DataFrame
    answers: cp.Counterfactuals
    summary: str
    places: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def several(cls, X: pd.DataFrame, several: cp.Alternatives) -> Listing:
        """Several answers to each row, below one another."""
        rows = X.iloc[several.row].reset_index(drop=True)
        places = {"row": several.row, "rank": several.rank}
        return cls(rows, several.answers, several.summary(), places)

    def title(self, k: int) -> str:
        """What to call an answer: its row, its rank if there are several, and its status."""
        status = self.answers.status[k]
        if not self.places:
            return f"Row {k}: {status}"
        row, rank = self.places["row"], self.places["rank"]
        count = int((row == row[k]).sum())
        return f"Row {row[k]}, answer {rank[k] + 1} of {count}: {status}"

    def shown(self, most: int) -> Iterator[tuple[str, cp.Counterfactual]]:
        """The titles and answers of the first rows."""
        row = self.places.get("row", np.arange(len(self.answers)))
        for k in np.flatnonzero(row < most).tolist():
            yield self.title(k), self.answers[k]

    @property
    def rows(self) -> int:
        """How many rows there are, however many answers each has."""
        return int(self.places["row"].max(initial=-1)) + 1 if self.places else len(self.answers)


def write_answers(out: Path, stdout: IO[str], listing: Listing, *, reasons: bool) -> None:
    """Write to a file of the kind that its name says; it is there completely or not at all."""
    if out == STDOUT:
        for line in _lines(listing, reasons=reasons):
            stdout.write(line)
        return
    with completely(out) as part:
        if out.suffix == ".jsonl":
            with part.open("w", encoding="utf-8") as file:
                file.writelines(_lines(listing, reasons=reasons))
        elif out.suffix == ".csv":
            _table(listing, reasons=reasons).to_csv(part, index=False)
        else:
            _table(listing, reasons=reasons).to_parquet(part, index=False)


def _table(listing: Listing, *, reasons: bool) -> pd.DataFrame:
    """The counterfactual rows with the report beside them, first of all the row's position.

    A row without an answer has no features, but all other columns of the file.
    """
    import pandas as pd

    X, answers = listing.X, listing.answers
    report = answers.report(**(listing.places or {"row": np.arange(len(X))}))
    report["changes"] = _sentences(X, answers)
    if reasons:
        report["reason"] = [_text(reason) for reason in _reasons(answers)]
    report = report.add_prefix(PREFIX)
    taken = [name for name in report.columns if name in X.columns]
    if taken:
        raise cp.InvalidInput(f"The rows already have a column {taken[0]!r}; rename it.")
    rows = answers.to_frame().set_axis(X.index, axis="index")
    return pd.concat([rows, report.set_index(X.index)], axis="columns")


def _lines(listing: Listing, *, reasons: bool) -> Iterator[str]:
    """One JSON object an answer: row, rank if there are several, status, message and so on."""
    X, answers = listing.X, listing.answers
    changes = _changes(X, answers)
    why = _reasons(answers) if reasons else [None] * len(X)
    places = listing.places or {"row": np.arange(len(X))}
    for i, line in enumerate(answers.report().to_dict("records")):
        record = {
            **{name: int(place[i]) for name, place in places.items()},
            "status": line["status"],
            "message": line["message"],
            "changes": {name: {"from": a, "to": b} for name, (a, b) in changes[i].items()},
            "certificate": {key: _json(line[key]) for key in CERTIFICATE},
        }
        reason = why[i]
        if reason is not None:
            record["reason"] = {
                "constraints": reason.constraints,
                "relaxations": reason.relaxations,
                "attainable": reason.attainable,
            }
        yield json.dumps(record, ensure_ascii=False, default=str) + "\n"


def _json(value: Any) -> Any:
    """JSON has no numbers that are not finite: null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _changes(X: pd.DataFrame, answers: cp.Counterfactuals) -> list[dict[str, tuple[Any, Any]]]:
    """For each row: name → (from, to) of what changes."""
    out: list[dict[str, tuple[Any, Any]]] = [{} for _ in range(len(X))]
    after = answers.to_frame()
    for j, name in enumerate(answers.features.names):
        changed = answers.changed[:, j]
        rows = changed.nonzero()[0].tolist()
        old = X[name][changed].tolist()
        new = after[name][changed].tolist()
        for row, pair in zip(rows, zip(old, new, strict=True), strict=True):
            out[row][str(name)] = pair
    return out


def _sentences(X: pd.DataFrame, answers: cp.Counterfactuals) -> list[str]:
    return [
        "; ".join(f"{name}: {old} -> {new}" for name, (old, new) in row.items())
        for row in _changes(X, answers)
    ]


def _reasons(answers: cp.Counterfactuals) -> list[cp.Conflict | None]:
    """Why a row is infeasible; None for the others."""
    return [
        answers[i].conflict if status == cp.Status.INFEASIBLE else None
        for i, status in enumerate(answers.status)
    ]


def _text(reason: cp.Conflict | None) -> str:
    return "" if reason is None else str(reason)
