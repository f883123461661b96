"""Show answers on a terminal, and turn them into tables or JSON lines for files."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, final

import numpy as np

import counterpoint as cp

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

CERTIFICATE = (
    *("claim", "valid", "cost", "objective", "bound", "gap"),
    *("margin", "rounding", "on_edge", "probability", "guarantee", "violation"),
)

DIGITS = 3
"""Significant digits of numbers that change, as they are shown: nobody earns 41237.12."""
CHEAPEST = "the cheapest possible change"


@final
@dataclass(frozen=True, eq=False)
class Listing:
    """Answers below one another: one to each row, or several."""

    X: pd.DataFrame  # the row of each answer: a row with several answers stands there several times
    answers: cp.Counterfactuals
    # ``row``: the position of each answer's row; ``rank``: its place among those of its row, if
    # several were asked for
    row_and_rank: dict[str, Any]
    summary: str

    @classmethod
    def of(cls, X: pd.DataFrame, answers: cp.Counterfactuals | cp.Alternatives) -> Listing:
        """Return the listing of answers to the rows ``X``."""
        if isinstance(answers, cp.Counterfactuals):
            return cls(X, answers, {"row": np.arange(len(X))}, answers.summary())
        rows, row_and_rank = X.iloc[answers.row], {"row": answers.row, "rank": answers.rank}
        return cls(rows.reset_index(drop=True), answers.answers, row_and_rank, answers.summary())

    def title(self, k: int) -> str:
        """Name an answer by its row, its rank if there are several, and its status."""
        row, title = self.row_and_rank["row"], f"Row {self.row_and_rank['row'][k]}"
        if "rank" in self.row_and_rank:
            title += f", answer {self.row_and_rank['rank'][k] + 1} of {(row == row[k]).sum()}"
        return f"{title}: {self.answers.status[k]}"

    def table(self, *, reasons: bool) -> pd.DataFrame:
        """Return the counterfactual rows with the report beside them, the row's position first.

        A row without an answer has no features, but all other columns of the file.
        """
        import pandas as pd

        report = self.answers.report(**self.row_and_rank)
        report["changes"] = [
            "; ".join(f"{name}: {old} -> {new}" for name, (old, new) in changes.items())
            for changes in self._changes()
        ]
        if reasons:
            report["reason"] = [str(reason or "") for reason in self._reasons()]
        report = report.add_prefix("cf_")
        duplicate = [name for name in report.columns if name in self.X.columns]
        if duplicate:
            raise cp.InvalidInput(f"The rows already have a column {duplicate[0]!r}; rename it.")
        rows = self.answers.to_frame().set_axis(self.X.index, axis="index")
        return pd.concat([rows, report.set_index(self.X.index)], axis="columns")

    def lines(self, *, reasons: bool) -> Iterator[str]:
        """Yield a JSON object for each answer: row, rank if there are several, status and so on."""
        report = self.answers.report().to_dict("records")
        conflicts = self._reasons() if reasons else [None] * len(self.X)
        lines = zip(report, self._changes(), conflicts, strict=True)
        for i, (certificate, changes, conflict) in enumerate(lines):
            place = {name: int(values[i]) for name, values in self.row_and_rank.items()}
            status, message = certificate["status"], certificate["message"]
            line = place | as_json(status, message, changes, certificate)
            if conflict is not None:
                fields = ("constraints", "relaxations", "attainable")
                line["reason"] = {name: _finite(getattr(conflict, name)) for name in fields}
            yield json.dumps(line, ensure_ascii=False, default=str) + "\n"

    def _changes(self) -> list[dict[str, tuple[Any, Any]]]:
        """Return the changes of each row: name → (from, to)."""
        changes: list[dict[str, tuple[Any, Any]]] = [{} for _ in range(len(self.X))]
        after = self.answers.to_frame()
        for j, name in enumerate(self.answers.features.names):
            rows = np.flatnonzero(self.answers.changed[:, j])
            pairs = zip(
                self.X[name].iloc[rows].tolist(), after[name].iloc[rows].tolist(), strict=True
            )
            for row, pair in zip(rows.tolist(), pairs, strict=True):
                changes[row][str(name)] = pair
        return changes

    def _reasons(self) -> list[cp.Conflict | None]:
        """Return the conflict of each infeasible row; None for the others."""
        return [
            self.answers[i].conflict if status == cp.Status.INFEASIBLE else None
            for i, status in enumerate(self.answers.status)
        ]


def as_json(
    status: str,
    message: str,
    changes: Mapping[Any, tuple[Any, Any]],
    certificate: Mapping[str, Any],
) -> dict[str, Any]:
    """Return an answer as JSON has it: numbers that are not finite are null."""
    return {
        "status": status,
        "message": message,
        "changes": {
            str(name): {"from": _finite(old), "to": _finite(new)}
            for name, (old, new) in changes.items()
        },
        "certificate": {name: _finite(certificate[name]) for name in CERTIFICATE},
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# To read


def console() -> Console:
    """Standard output, in colour only on a terminal that wants it."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def show_answer(
    out: Console,
    title: str,
    answer: cp.Counterfactual,
    *,
    reason: bool,
    exact: bool = False,
    best: str = CHEAPEST,
) -> bool:
    """Print one row: its changes and their certificate, or why there is no answer.

    Numbers are rounded as far as the model still agrees, unless ``exact``; returns whether any was.
    ``best`` is the name of an answer that is proved to be optimal.
    """
    from rich import box
    from rich.table import Table

    out.print(title, style="bold")
    rounded = answer if exact or not answer.found else answer.rounded(DIGITS)
    if answer.changes:
        table = Table(box=box.ROUNDED, border_style="dim")
        table.add_column("feature", overflow="fold")
        table.add_column("now", justify="right", overflow="fold")
        table.add_column("instead", justify="right", style="bold green", overflow="fold")
        for name, (before, after) in rounded.changes.items():
            table.add_row(str(name), *_cells(before, after, exact=exact))
        out.print(table)
        out.print(_certificate(answer.certificate, rounded.certificate, best))
        if answer.certificate.guarantee is not cp.Guarantee.NONE:
            _show(out, answer.message)
    else:
        out.print(answer.message)
    if reason and answer.conflict is not None:
        _show_conflict(out, answer.conflict)
    out.print()
    return rounded.changes != answer.changes


def _cells(*values: Any, exact: bool) -> list[str]:
    """Return values in few digits, unless these look alike."""
    shown = [f"{v:.6g}" if isinstance(v, float) and not exact else str(v) for v in values]
    return shown if len({*shown}) > 1 else [*map(str, values)]


def _show(out: Console, sentence: str, first: str = "", then: str | None = None) -> None:
    """Print a sentence in lines that fit, indented by ``first`` and ``then``."""
    then = first if then is None else then
    for line in wrap(sentence, out.width, initial_indent=first, subsequent_indent=then):
        out.print(line)


def _show_conflict(out: Console, conflict: cp.Conflict) -> None:
    """Print a set of conflicting constraints, and relaxations that would help."""
    if not conflict.constraints:
        out.print(str(conflict))
        return
    minimality = "without any one of them there is one" if conflict.minimal else "perhaps fewer do"
    out.print(f"These exclude every answer; {minimality}:")
    _show(out, "; ".join(map(str, conflict.constraints)), "  ")
    if conflict.relaxations:
        out.print("Any one of these would do:")
    for relaxation in conflict.relaxations:
        _show(out, relaxation, "  - ", "    ")


def _certificate(c: cp.Certificate, rounded: cp.Certificate, best: str) -> str:
    """Say what an answer costs as it is shown, in few digits, and what no answer costs less than.

    ``c`` is the certificate of the answer in all its digits.
    """
    negligible = 1e-5  # a gap that is not mentioned: a cost of 1000 could be one of 999.99
    claim = "" if c.claim == cp.Claim.NONE else f" ({c.claim})"
    cost = f"cost {rounded.cost:.4g}{c.likely}"
    if c.objective != c.cost:
        return (
            f"{cost}; traded off at {rounded.objective:.4g}, at best {c.bound:.4g}{claim}; gap "
            f"{_gap(rounded.gap)}"
        )
    if c.claim == cp.Claim.PROVED and c.gap <= negligible:
        if rounded.gap <= negligible:
            return f"{cost}: {best}{claim}"
        if f"{rounded.cost:.4g}" == f"{c.cost:.4g}":
            return f"{cost}: {best}{claim}, but for rounding"
        return f"{cost} in few digits; {best} costs {c.cost:.4g}{claim}"
    return f"{cost}; nothing costs less than {c.bound:.4g}{claim}; gap {_gap(rounded.gap)}"


def _gap(gap: float) -> str:
    return "0" if gap < 1e-9 else f"{100.0 * gap:.2g} %"  # below, it is rounding


def show_total(out: Console, summary: str, rows: int, seconds: float) -> None:
    """Print the summary of all rows and the time."""
    for sentence in summary.splitlines():
        _show(out, sentence, "", "  ")
    per_row = f", {plain(1e3 * seconds / rows)} ms a row" if rows else ""
    _show(out, f"time: {plain(seconds)} s{per_row}")


def plain(number: float) -> str:
    """Format a number with three significant digits and no exponent."""
    digits = max(0, 2 - math.floor(math.log10(number))) if number > 0.0 else 0
    return f"{round(number, digits):.{digits}f}"
