"""`Counterfactual`: one row's answer, as it is shown, recorded and explained."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from counterpoint.caches import fields_only
from counterpoint.certificate import Certificate, Claim, Status
from counterpoint.errors import NoAnswer, several
from counterpoint.pictures import html

if TYPE_CHECKING:
    from counterpoint.results import Counterfactuals
    from counterpoint.search.conflicts import Conflict

__all__ = ["Counterfactual"]


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
    batch, position
        The answers that it is one of, and which.
    """

    status: Status
    factual: dict[Hashable, Any]
    changes: dict[Hashable, tuple[Any, Any]]
    certificate: Certificate
    batch: Counterfactuals = field(repr=False)
    position: int = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Of the batch, this row alone."""
        row = slice(self.position, self.position + 1)
        alone = self.batch.part(row, self.batch.table.take(row))
        return {**fields_only(self), "batch": alone, "position": 0}

    @cached_property
    def message(self) -> str:
        """What became of the row, in a sentence or two.

        For a `Robust` without an answer, it says what is attainable; that takes a few searches.
        """
        return self.batch.message(self.position)

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

    @cached_property
    def conflict(self) -> Conflict | None:
        """Why there is no answer: a minimal set of conflicting constraints; None with one."""
        if self.status is not Status.INFEASIBLE:
            return None
        from counterpoint.search.conflicts import conflict_of

        batch, i = self.batch, self.position
        x = batch.features.expand(batch.before[i : i + 1])
        return conflict_of(batch.question, batch.targets[i], x, batch.eps)

    def to_record(self, *, salt: str | None = None) -> dict[str, Any]:
        """The answer with all that is needed to check it again, as JSON has it.

        `counterpoint.recheck` does so, without solving anything. The same input gives the same
        record, but for ``made``, which says when and with which versions.

        Parameters
        ----------
        salt
            A secret text. The record then holds an HMAC of the row with it in the place of the
            row, and of the answer what changes; `recheck` needs the row and the salt.

        Raises
        ------
        InvalidInput
            If it is one of several answers to the row.
        InvalidSpec
            If target, cost or constraints cannot be written to a file.
        """
        from counterpoint.records.files import to_batches, to_json

        row = slice(self.position, self.position + 1)
        batches = to_batches(self.batch.part(row, self.batch.table.take(row)))
        (record,) = to_json(batches, salt)
        return record

    def raise_for_status(self) -> None:
        """Raise `NoAnswer`, with the reason, unless there is an answer."""
        if not self.found:
            raise NoAnswer(f"{self.status}: {self.message}")

    def __str__(self) -> str:
        head = f"{self.status}: {self.message}"
        if not self.found:
            return head
        c = self.certificate
        lines = [f"  {name}: {html.change(*pair)}" for name, pair in self.changes.items()]
        traded = c.objective != c.cost
        least = f"objective {c.objective:.6g}, at least" if traded else "at least"
        claim = "" if c.claim is Claim.NONE else f" ({c.claim})"
        tail = f"  cost {c.cost:.6g}{c.likely}, {least} {c.bound:.6g}{claim}, gap {c.gap:.1e}"
        return "\n".join([head, *lines, tail])

    def __repr__(self) -> str:
        text = f", cost {self.cost:.6g}: {html.changes(self.changes)}" if self.found else ""
        return f"<Counterfactual: {self.status}{text}>"

    def _repr_html_(self) -> str:
        names = [f.name for f in fields(self.certificate)]
        certificate = [(name, getattr(self.certificate, name)) for name in names]
        moved = [(name, *pair) for name, pair in self.changes.items()]
        same = [(name, value) for name, value in self.factual.items() if name not in self.changes]
        already_satisfied, c = html.table(("feature", "value"), same), self.certificate
        cost = f"cost {c.cost:.6g}{c.likely}, at least {c.bound:.6g} ({c.claim})"
        return html.panel(
            f"Counterfactual: {self.status}",
            html.paragraph(self.message),
            html.table(("feature", "from", "to"), moved) if moved else "",
            html.paragraph(cost if self.found and c.objective == c.cost else ""),
            html.folded(f"{several(len(same), 'feature')} unchanged", already_satisfied),
            html.folded("Certificate", html.table(("", ""), certificate)),
            good=self.found,
        )
