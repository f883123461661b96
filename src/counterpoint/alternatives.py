"""`Alternatives`: several answers to each row, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import COLUMNS, Certificates, Claim
from counterpoint.results import Counterfactual, Counterfactuals
from counterpoint.rows.enum_column import EnumColumn
from counterpoint.rows.table import Table
from counterpoint.status import Status

__all__ = ["Alternatives", "Choice", "gathered"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """One row's answer among those of a batch.

    Parameters
    ----------
    answers
        The batch.
    position
        Where in it.
    bound, claim
        What is known of the least objective among all that the row may still choose, and what
        that rests on.
    """

    answers: Counterfactuals
    position: int
    bound: float
    claim: Claim

    @classmethod
    def of(cls, answers: Counterfactuals, position: int) -> Choice:
        """An answer with its own bound."""
        c = answers.certificates
        return cls(answers, position, float(c.bound[position]), c.claim[position])

    def bounded(self, bound: float, claim: Claim) -> Choice:
        """The same answer with a lower bound, which settles none that is not optimal by its own."""
        return replace(
            self, bound=bound, claim=claim if self.status is Status.OPTIMAL else self.claim
        )

    @property
    def found(self) -> bool:
        """Whether there is an answer."""
        return bool(self.answers.found[self.position])

    @property
    def status(self) -> Status:
        """What became of the row."""
        return self.answers.statuses[self.position]

    @property
    def objective(self) -> float:
        """What was minimised."""
        return float(self.answers.certificates.objective[self.position])

    @property
    def after(self) -> FloatArray:
        """(p,) codes of the answer."""
        return np.asarray(self.answers.after[self.position])

    @cached_property
    def changed(self) -> frozenset[int]:
        """The positions of the features that differ from the factual row."""
        here = self.answers.before[self.position] != self.after
        return frozenset(np.flatnonzero(here).tolist()) if self.found else frozenset()


@final
@dataclass(frozen=True, eq=False)
class Alternatives:
    """Several answers to each row, the cheapest first; made by `diversify`.

    ``len`` is the number of rows n, and ``alternatives[i]`` are the answers to row i.

    Parameters
    ----------
    answers
        All answers below one another, m in all, those to one row together. A row without any has
        one entry, which says why.
    row
        (m,) the position of the row that each answers.
    rank
        (m,) 0 for the cheapest of a row, 1 for the next, and so on.
    exhausted
        (n,): whether it is certain that there are no more than these.
    """

    answers: Counterfactuals
    row: IntArray
    rank: IntArray
    exhausted: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.exhausted)

    def __iter__(self) -> Iterator[tuple[Counterfactual, ...]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> tuple[Counterfactual, ...]:
        i = range(len(self))[i]
        mine = np.flatnonzero((self.row == i) & self.answers.found)
        return tuple(self.answers[k] for k in mine.tolist())

    @property
    def count(self) -> IntArray:
        """(n,) how many answers each row has."""
        return np.bincount(self.row[self.answers.found], minlength=len(self))

    def to_frame(self) -> Any:
        """The counterfactual rows below one another, as `Counterfactuals.to_frame` gives them.

        The index of a row is repeated for each of its answers.
        """
        return self.answers.to_frame()

    def report(self) -> Any:
        """One row for each answer: its row and rank, and what `Counterfactuals.report` says."""
        return self.answers.report(row=self.row, rank=self.rank)

    def summary(self) -> str:
        """How many answers the rows have, what they cost, and which features change."""
        count = self.count
        sizes, times = np.unique(count, return_counts=True)
        pairs = zip(sizes.tolist(), times.tolist(), strict=True)
        shown = ", ".join(f"{_rows(t)} with {_answers(s)}" for s, t in pairs)
        lines = [f"{_rows(len(self))}: {shown or 'none'}"]
        for rank in range(int(count.max(initial=0))):
            cost = self.answers.cost[(self.rank == rank) & self.answers.found]
            lines.append(f"answer {rank + 1}: median cost {np.median(cost):.4g}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Alternatives: {self.summary().splitlines()[0]}>"


def gathered(table: Table, choices: Sequence[Choice], gap: float) -> Counterfactuals:
    """Answers from several batches as one.

    Parameters
    ----------
    table
        The rows that they answer, as they came, one for each choice.
    choices
        The answers.
    gap
        The relative gap up to which an answer counts as optimal.
    """
    parts = [(c.answers, c.position) for c in choices]
    certificates = Certificates.blank(len(choices))
    status = EnumColumn.full(len(choices), Status.INVALID)
    for i, choice in enumerate(choices):
        for name in COLUMNS:
            getattr(certificates, name)[i] = getattr(choice.answers.certificates, name)[
                choice.position
            ]
        certificates.bound[i], certificates.claim[i] = choice.bound, choice.claim
        status[i] = choice.status
    reopened = (status == Status.OPTIMAL) & (certificates.gap > gap)
    status[reopened], certificates.claim[reopened] = Status.SUBOPTIMAL, Claim.NONE
    resolution = max((a.certificates.resolution for a, _ in parts), default=0.0)
    problems = {i: a.problems[k] for i, (a, k) in enumerate(parts) if k in a.problems}
    targets = np.array([a.targets[k] for a, k in parts], dtype=object)
    return Counterfactuals(
        table,
        np.array([a.before[k] for a, k in parts]),
        np.array([a.after[k] for a, k in parts]),
        np.array([a.missing[k] for a, k in parts]),
        status,
        replace(certificates, resolution=resolution) if resolution else certificates,
        np.array([a.closed_form[k] for a, k in parts], dtype=bool),
        problems,
        choices[0].answers.question,
        targets,
        choices[0].answers.eps,
    )


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n} rows"


def _answers(n: int) -> str:
    return "1 answer" if n == 1 else f"{n} answers"
