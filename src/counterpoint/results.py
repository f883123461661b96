"""`Counterfactuals`: the answers to a batch, in columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.answer import Conflict, Counterfactual
from counterpoint.certificate import CLAIMS, GUARANTEES, Certificates
from counterpoint.encoding import decode
from counterpoint.features import Features
from counterpoint.frames import Table
from counterpoint.status import STATUSES, said_of

__all__ = ["Counterfactuals"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

REMARKS = 20
"""Of so many rows without an answer a report says what could be had instead."""


def _nothing(_: int) -> str:
    """Nothing is to be said."""
    return ""


@final
@dataclass(frozen=True, eq=False)
class Counterfactuals:
    """The answers to a batch, one for each row that was passed, in its order.

    Everything is held in columns; a `Counterfactual` is made when a row is asked for.

    Parameters
    ----------
    table
        The rows as they came in.
    features
        The kinds of the model's columns.
    before, after
        (n, p) codes of the factual rows and of the answers; a missing cell has that of its fill.
    missing
        (n, p): which cells came in missing.
    codes
        (n,) positions in ``STATUSES``.
    certificates
        What the answers are worth.
    closed_form
        (n,): whether a row was settled without a solver.
    problems
        Row → sentence, for rows that cannot be used.
    explain_conflict
        Row → why it is infeasible.
    remark
        Row → what else is to be said of it; empty for nothing.
    """

    table: Table
    features: Features
    before: FloatArray
    after: FloatArray
    missing: BoolArray
    codes: NDArray[np.int8]
    certificates: Certificates
    closed_form: BoolArray
    problems: dict[int, str]
    explain_conflict: Callable[[int], Conflict | None]
    remark: Callable[[int], str] = _nothing

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Counterfactual]:
        return (self[i] for i in range(len(self)))

    @property
    def status(self) -> NDArray[Any]:
        """(n,) `Status` of each row."""
        return np.array(STATUSES, dtype=object)[self.codes]

    @property
    def found(self) -> BoolArray:
        """(n,): whether a row has an answer."""
        return self.certificates.valid

    @property
    def cost(self) -> FloatArray:
        """(n,) cost of each answer; NaN without one."""
        return self.certificates.cost

    @property
    def bound(self) -> FloatArray:
        """(n,) lower bound on the objective of any answer; infinite for infeasible rows."""
        return self.certificates.bound

    @property
    def gap(self) -> FloatArray:
        """(n,) (objective − bound) / objective; the objective is the cost, but for a `Tradeoff`."""
        return self.certificates.gap

    @property
    def changed(self) -> BoolArray:
        """(n, p): which features of each answer differ from the factual row."""
        return (self.before != self.after) & self.found[:, None]

    def __getitem__(self, i: int) -> Counterfactual:
        i = range(len(self))[i]
        status = STATUSES[self.codes[i]]
        names = self.features.names
        changed = np.flatnonzero(self.changed[i]).tolist()
        rows = np.array([i], dtype=np.intp)
        factual = {} if i in self.problems else self._values(self.table.take(rows), names)
        changes = {}
        if changed:
            answer = self._decoded(rows)
            new = self._values(answer, [names[j] for j in changed])
            changes = {name: (factual[name], new[name]) for name in new}
        return Counterfactual(
            status,
            factual,
            changes,
            self.certificates[i],
            lambda: self.explain_conflict(i),
            lambda: self._message(i),
        )

    def _message(self, i: int, *, briefly: bool = False) -> str:
        """A sentence about one row, or two; briefly without those that take a search."""
        certificates, status = self.certificates, STATUSES[self.codes[i]]
        claim, guarantee = CLAIMS[certificates.claim[i]], GUARANTEES[certificates.guarantee[i]]
        text = said_of(status, claim, guarantee, found=bool(self.found[i]))
        more = "" if briefly or i in self.problems else self.remark(i)
        return self.problems.get(i, f"{text} {more}" if more else text)

    def _messages(self) -> list[str]:
        """Those of all rows; of rows without an answer only the first are looked at closely."""
        out, left = [], REMARKS
        for i, found in enumerate(self.found.tolist()):
            out.append(self._message(i, briefly=not found and left <= 0))
            left -= not found
        return out

    @staticmethod
    def _values(table: Table, names: Any) -> dict[Hashable, Any]:
        return {name: _plain(table.column(name)[0]) for name in names}

    def _decoded(self, rows: NDArray[np.intp] | slice) -> Table:
        return decode(self.table, self.features, rows, self.before[rows], self.after[rows])

    def to_frame(self) -> Any:
        """The counterfactual rows, in the library, index, columns and dtypes of what was passed.

        Rows without an answer are missing. An array comes back as an array. A missing cell that the
        answer does not change is still missing.
        """
        rows = slice(None) if self.found.all() else np.flatnonzero(self.found)
        return self.table.as_it_came(self._decoded(rows))

    def report(self, **beside: NDArray[Any]) -> Any:
        """One row each: status, claim, the numbers of `Certificate`, changed, message.

        A pandas data frame with the index of what was passed, or a polars one for polars.

        Parameters
        ----------
        **beside
            Columns of shape (n,) to put in front.
        """
        c = self.certificates
        columns = {
            **beside,
            "status": [str(STATUSES[code]) for code in self.codes],
            "claim": [str(CLAIMS[claim]) for claim in c.claim],
            "valid": c.valid,
            "cost": c.cost,
            "bound": c.bound,
            "gap": c.gap,
            "margin": c.margin,
            "objective": c.objective,
            "probability": c.probability,
            "guarantee": [str(GUARANTEES[code]) for code in c.guarantee],
            "violation": c.violation,
            "changed": self.changed.sum(axis=1),
            "message": self._messages(),
        }
        return self._frame(columns, np.arange(len(self)))

    def changes(self) -> Any:
        """One row for each changed cell: row, feature, from (None if missing), to."""
        rows, columns = np.nonzero(self.changed)
        before, after, names = [], [], []
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            name = self.features.names[column]
            names.append(str(name))
            old = self.features.describe(name, self.before[row, column])
            before.append(None if self.missing[row, column] else old)
            after.append(self.features.describe(name, self.after[row, column]))
        table = {"row": rows, "feature": names, "from": before, "to": after}
        return self._frame(table, None)

    def _frame(self, columns: dict[str, Any], rows: NDArray[np.intp] | None) -> Any:
        return self.table.sibling(columns, rows)

    def summary(self) -> str:
        """How many rows have which status, what the answers cost, and which features change."""
        n = len(self)
        counts = {s: int((self.codes == k).sum()) for k, s in enumerate(STATUSES)}
        shown = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        lines = [f"{n} rows: {shown or 'none'}"]
        moved = self.changed.any(axis=1)
        if moved.any():
            cost, gap = self.cost[moved], self.gap[moved]
            lines.append(
                f"cost: median {np.median(cost):.4g}, largest {cost.max():.4g}; "
                f"largest gap {gap.max():.1e}"
            )
            times = self.changed[moved].sum(axis=0)
            order = np.argsort(-times, kind="stable")[:8]
            often = [f"{self.features.names[j]} ({times[j]})" for j in order if times[j]]
            lines.append(f"changed most often: {', '.join(often)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Counterfactuals: {self.summary().splitlines()[0]}>"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
