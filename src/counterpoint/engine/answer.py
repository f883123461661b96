"""`Conflict`: why a row has no answer; `Relaxation`: what would give it one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from counterpoint.constraints import Constraint
from counterpoint.targets import Target

__all__ = ["EXISTS", "Conflict", "Relaxation"]

EXISTS = "an answer exists if "
"""How the text of a relaxation begins."""


@final
@dataclass(frozen=True)
class Relaxation:
    """What would give a row an answer: something easier in the place of what was asked for.

    It was tried with everything else kept.

    Parameters
    ----------
    old
        A constraint, or the target.
    new
        What to ask for instead.
    text
        The same in words.
    least
        Whether it is known that less does not suffice: 99 % of the move of a bound, one change
        fewer, half the way for a `Probability`.
    """

    old: Constraint | Target
    new: Constraint | Target
    text: str
    least: bool

    def __str__(self) -> str:
        return self.text


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
    relaxed
        For each bound in the set, on either side, and for `MaxChanges`: what it alone would have to
        become for an answer to exist, with all other constraints kept, and not those of the set
        alone. None where nothing that it alone could become would do. The same of the probability
        of a `Probability` or a `Robust`.
    minimal
        False if it is not known for some smaller set whether it has an answer, because time ran
        out, say; then the set may hold more than it need.
    attainable
        For a `Probability` or a `Robust`, the highest probability that was reached within all
        constraints.
    """

    constraints: tuple[Constraint, ...]
    relaxed: tuple[Relaxation, ...]
    minimal: bool = True
    attainable: float | None = None

    @property
    def relaxations(self) -> tuple[str, ...]:
        """`relaxed`, in words."""
        return tuple(map(str, self.relaxed))

    def __str__(self) -> str:
        if not self.constraints:
            return self._relaxed("No point at all gives the target, even without constraints.")
        head = "These exclude every answer"
        if not self.minimal:
            head += " (it is not known whether fewer do)"
        text = f"{head}: {'; '.join(map(str, self.constraints))}."
        return self._relaxed(text)

    def _relaxed(self, text: str) -> str:
        """The text, and what would help."""
        told = ", or if ".join(said.removeprefix(EXISTS) for said in self.relaxations)
        return f"{text} {EXISTS.capitalize()}{told}." if told else text
