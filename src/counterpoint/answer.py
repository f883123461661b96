"""`Counterfactual`: one row's answer; `Conflict`: why there is none."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from counterpoint.certificate import Certificate
from counterpoint.constraints import Constraint
from counterpoint.errors import NoAnswer
from counterpoint.status import Status

__all__ = ["Conflict", "Counterfactual"]


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
        tail = f"  cost {c.cost:.6g}{c.likely}, {least} {c.bound:.6g} ({c.claim}), gap {c.gap:.1e}"
        return "\n".join([head, *lines, tail])
