"""Answers: columns for a batch, an object for a row that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import CLAIMS, GUARANTEES, Certificate, Certificates, Claim
from counterpoint.constraints import Constraint
from counterpoint.encoding import decode
from counterpoint.errors import NoAnswer
from counterpoint.features import Features
from counterpoint.frames import Table
from counterpoint.targets import Guarantee

__all__ = ["STATUSES", "Conflict", "Counterfactual", "Counterfactuals", "Status"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Status(StrEnum):
    """What became of a row."""

    OPTIMAL = "optimal"
    """A valid answer whose gap is at most the gap that was asked for."""
    ALREADY = "already"
    """The row meets the target as it is: nothing has to change, and the answer is the row.

    Constraints are about changes: the row may break one (its certificate says by how much)."""
    SUBOPTIMAL = "suboptimal"
    """A valid answer whose gap is larger than asked for."""
    LIMIT = "limit"
    """Time, or the number of nodes, ran out; the best answer so far, if any, with its gap."""
    INFEASIBLE = "infeasible"
    """No answer exists: proved, or reported by a branch and bound (see the claim)."""
    UNPROVED = "unproved"
    """No answer was found, and no proof that none exists."""
    INVALID = "invalid"
    """The row cannot be used; the message says why."""


STATUSES = tuple(Status)

MESSAGES = {
    Status.OPTIMAL: "No better answer exists, to within the gap asked for.",
    Status.ALREADY: "The model already gives the target; nothing has to change.",
    Status.SUBOPTIMAL: "An answer; a better one is not excluded.",
    Status.LIMIT: "The search was cut short; an answer, if there is one, is the best so far.",
    Status.INFEASIBLE: "No change within the constraints gives the target.",
    Status.UNPROVED: "No change was found, but none is excluded either.",
    Status.INVALID: "The row cannot be used.",
}
LOCALLY = "A local optimum; a better answer elsewhere is not excluded."
"""The message of a suboptimal answer whose claim is local."""
ANSWERED = (Status.OPTIMAL, Status.SUBOPTIMAL, Status.LIMIT)
SURE = {
    Guarantee.FIXED: "Its probability is that of a point fixed beforehand; this one was chosen by "
    "looking at the weights.",
    Guarantee.SELECTION: "It is as sure as was asked for, although it was chosen by looking at the "
    "weights.",
}
"""What is said besides of an answer to a `Robust`."""
UNSURE = {
    Guarantee.FIXED: "No change within the constraints is as likely to hold as was asked for, with "
    "weights as uncertain as these.",
    Guarantee.SELECTION: "No change within the constraints can be certified, with weights as "
    "uncertain as these, for a point that is chosen by looking at them.",
}
"""What is said where there is none."""
UNFOUND = (
    "No change was found that is as likely to hold as was asked for, with weights as uncertain as "
    "these, but none is excluded either."
)
"""What is said where none was found."""


REMARKS = 20
"""Of so many rows without an answer a report says what could be had instead."""


def _nothing(_: int) -> str:
    """Nothing is to be said."""
    return ""


@final
@dataclass(frozen=True)
class Conflict:
    """Why a row has no answer.

    Parameters
    ----------
    constraints
        A minimal set of constraints that together with the target exclude every answer: without
        any one of them (for `Immutable` and `WithinObserved`, for any one feature) there is an
        answer. Empty if the target alone is impossible.
    relaxations
        For each bound in the set, what it alone would have to become for an answer to exist.
    minimal
        False if time ran out for some smaller set, so that the set may hold more than it need.
    attainable
        For a `Confidence` or a `Robust`, the highest probability that was reached within all
        constraints.
    """

    constraints: tuple[Constraint, ...]
    relaxations: tuple[str, ...]
    minimal: bool = True
    attainable: float | None = None

    def __str__(self) -> str:
        if not self.constraints:
            return self._relaxed("No point at all gives the target, even without constraints.")
        head = "These exclude every answer"
        if not self.minimal:
            head += " (time ran out before it was known whether fewer do)"
        text = f"{head}: {'; '.join(map(str, self.constraints))}."
        return self._relaxed(text)

    def _relaxed(self, text: str) -> str:
        """The text, and what would help."""
        told = "; ".join(self.relaxations)
        return f"{text} {told[0].upper()}{told[1:]}." if told else text


@final
@dataclass(frozen=True, eq=False)
class Counterfactual:
    """One row's answer.

    Parameters
    ----------
    status
        What became of the row.
    factual
        Name → value, as it came in.
    changes
        Name → (from, to) of the features that change.
    certificate
        What the answer is worth.
    explain_conflict
        Computes the reason of an infeasible row.
    tell
        Makes the message.
    """

    status: Status
    factual: dict[Hashable, Any]
    changes: dict[Hashable, tuple[Any, Any]]
    certificate: Certificate
    explain_conflict: Callable[[], Conflict | None] = field(repr=False)
    tell: Callable[[], str] = field(repr=False)

    @cached_property
    def message(self) -> str:
        """What became of the row, in a sentence or two.

        For a `Robust` without an answer, it says what could be had; that takes a few searches.
        """
        return self.tell()

    @property
    def found(self) -> bool:
        """Whether there is an answer."""
        return self.certificate.valid

    @property
    def cost(self) -> float:
        """Of the answer, in cost units; NaN without one."""
        return self.certificate.cost

    @property
    def row(self) -> dict[Hashable, Any]:
        """Name → value of the answer.

        Raises
        ------
        NoAnswer
            If there is none.
        """
        self.raise_for_status()
        return {**self.factual, **{name: pair[1] for name, pair in self.changes.items()}}

    @property
    def conflict(self) -> Conflict | None:
        """Why there is no answer: a minimal set of conflicting constraints; None with one."""
        return self.explain_conflict()

    def raise_for_status(self) -> None:
        """Raise `NoAnswer`, with the reason, unless there is an answer."""
        if not self.found:
            raise NoAnswer(f"{self.status}: {self.message}")

    def __str__(self) -> str:
        head = f"{self.status}: {self.message}"
        if not self.found:
            return head
        c = self.certificate
        lines = [f"  {name}: {old!r} → {new!r}" for name, (old, new) in self.changes.items()]
        traded = c.objective != c.cost
        least = f"objective {c.objective:.6g}, at least" if traded else "at least"
        sure = "" if np.isnan(c.probability) else f", probability {_likely(c.probability)}"
        sure += "" if c.guarantee is Guarantee.NONE else " if fixed beforehand"
        tail = f"  cost {c.cost:.6g}{sure}, {least} {c.bound:.6g} ({c.claim}), gap {c.gap:.1e}"
        return "\n".join([head, *lines, tail])


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
        status, claim = STATUSES[self.codes[i]], CLAIMS[self.certificates.claim[i]]
        local = status == Status.SUBOPTIMAL and claim == Claim.LOCAL
        guarantee = GUARANTEES[self.certificates.guarantee[i]]
        text = LOCALLY if local else MESSAGES[status]
        if status is Status.INFEASIBLE:
            text = UNSURE.get(guarantee, text)
        elif status is Status.UNPROVED and guarantee in UNSURE:
            text = UNFOUND
        elif self.found[i] and status in ANSWERED and guarantee in SURE:
            text = f"{text} {SURE[guarantee]}"
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


def _likely(probability: float) -> str:
    """Six digits; what rounds to 1 is not called 1, for nothing is certain."""
    text = f"{probability:.6g}"
    return "above 0.999999" if text == "1" else text


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
