"""`Conflict`: why a row has no answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from counterpoint.constraints import Constraint

__all__ = ["Conflict"]


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
