"""One call of `Explainer.explain`: rows in chunks, each row's target, and what became of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Certificates, Claim, certify
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.question import Question
from counterpoint.engine.settle import Asked, Settled, Settlement, Surprise
from counterpoint.engine.terms import Terms
from counterpoint.models.fitted import FittedModel
from counterpoint.progress import track
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import PRESENT, Encoded, decode, encode
from counterpoint.rows.enum_column import EnumColumn
from counterpoint.rows.table import Table
from counterpoint.solvers import Effort
from counterpoint.status import Status
from counterpoint.targets import Target, Verdict

__all__ = ["Batch", "People"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

CELLS = 1 << 18
"""Cells of a chunk: small enough for the cache, large enough that Python does not count."""
PROOFS = 1 << 25
"""Multipliers that are kept at once, one for each row, piece and demand: 256 MiB of them."""
FEW = 16
"""Rows between two steps of the progress bar where each may need a solver."""
NOTHING = Terms()
"""Of rows that ask for nothing by themselves."""


@final
@dataclass(frozen=True, eq=False)
class People:
    """The rows of a call.

    Parameters
    ----------
    table
        As they came.
    inputs
        The model's columns of them.
    terms
        What each of them asks for itself.
    """

    table: Table
    inputs: Table
    terms: Terms = NOTHING

    def repeated(self, rows: IntArray, terms: Terms) -> People:
        """These rows, each as often as it is named, and what each asks for itself."""
        inputs = self.inputs.take(rows)
        table = inputs if self.table is self.inputs else self.table.take(rows)
        return People(table, inputs, terms)

    def weighed(self, weights: FloatArray) -> People:
        """The rows once for each of these weights: all of them with the first, and so on."""
        n = len(self.inputs)
        rows = np.tile(np.arange(n), len(weights))
        return self.repeated(rows, Terms(np.repeat(weights, n)))


@final
class Batch:
    """The rows of one call.

    Parameters
    ----------
    judge, question, target, effort
        The model, what is asked, what is wanted, when to stop.
    people
        The rows.
    """

    def __init__(
        self,
        judge: FittedModel,
        question: Question,
        target: Target,
        effort: Effort,
        people: People,
    ) -> None:
        self.judge, self.question, self.target, self.effort = judge, question, target, effort
        self.table, self.inputs, self.terms = people.table, people.inputs, people.terms
        asked = target.requirement
        if self.terms.weight is None and asked.weight is not None:
            self.terms = replace(self.terms, weight=np.full(len(people.inputs), asked.weight))
        if asked.labels or not asked.others:  # else what is asked depends on the row
            question.pieces(target)
        reading = judge.reading
        encoded = encode(self.inputs, question.features, reading.fills, reading.unfilled)
        self.before, self.missing = encoded.codes, encoded.missing != PRESENT
        self.problems = (
            target.unusable(self.before, question.features.names)
            | encoded.problems
            | self._not_filled(encoded)
        )
        n = len(self.inputs)
        self.after = np.array(self.before)
        self.status = EnumColumn.full(n, Status.INVALID)
        self.certificates = Certificates.blank(n)
        self.closed = np.zeros(n, dtype=bool)
        self.targets = np.full(n, target, dtype=object)

    def _not_filled(self, encoded: Encoded) -> dict[int, str]:
        """The rows whose missing cells the model does not take as the values they count as.

        An imputer fills in NaN and passes None on, say. All rows that miss the same cells in the
        same way are alike, so the model is asked about one of each sort, before and after filling.
        """
        features = self.question.features
        usable = (encoded.missing != PRESENT).any(axis=1)
        usable[list(encoded.problems)] = False
        rows = np.flatnonzero(usable)
        if not len(rows):
            return {}
        kinds, first, sort = np.unique(
            encoded.missing[rows], axis=0, return_index=True, return_inverse=True
        )
        asked, after = self.inputs.take(rows[first]), encoded.codes[rows[first]]
        before = np.where(kinds == PRESENT, after, np.nan)
        filled = decode(asked, features, slice(None), before, after)
        good = self.judge.is_indifferent(asked, filled, features.expand(after))
        wrong: dict[int, str] = {}
        for k in np.flatnonzero(~good).tolist():
            sentence = self._holding(asked.take(slice(k, k + 1)), kinds[k])
            wrong |= dict.fromkeys(rows[sort.ravel() == k].tolist(), sentence)
        return wrong

    def _holding(self, row: Table, kinds: NDArray[np.int8]) -> str:
        names = [self.question.features.names[j] for j in np.flatnonzero(kinds)]
        held = ", ".join(f"column {name!r} holds {row.column(name)[0]!r}" for name in names)
        return f"{held}, which the pipeline does not fill in. Fill it in."

    def run(self, *, progress: bool | None) -> Counterfactuals:
        """`answers`, with a progress bar or without."""
        with track(len(self.before), show=progress) as advance:
            return self.answers(advance)

    def answers(self, advance: Callable[[int], None]) -> Counterfactuals:
        """Chunk by chunk; ``advance`` is told how many more rows are done."""
        size = max(64, CELLS // max(self.question.features.width, 1))
        usable = np.ones(len(self.before), dtype=bool)
        usable[list(self.problems)] = False
        for chunk in self.inputs.chunks(size):
            rows = np.arange(chunk.start, chunk.stop)[usable[chunk]]
            if len(rows):
                self._chunk(chunk if len(rows) == chunk.stop - chunk.start else rows, advance)
        return Counterfactuals(
            self.table,
            self.before,
            self.after,
            self.missing,
            self.status,
            self.certificates,
            self.closed,
            self.problems,
            self.question,
            self.targets,
            self.judge.eps(self.inputs),
        )

    def _chunk(self, rows: slice | IntArray, advance: Callable[[int], None]) -> None:
        """Some rows.

        For a few, what the model says of them is foreseen from its form and confirmed together
        with their answers: one call of ``predict`` instead of two.
        """
        table, before = self.inputs.take(rows), self.before[rows]
        x = self.question.features.expand(before)
        index = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        if len(x) <= FEW and self.target.requirement.at_least is None:
            try:
                self._settle(table, before, index, self.judge.form.predict(x), foreseen=True)
            except Surprise:
                pass
            else:
                advance(len(x))
                return
        predicted = self.judge.predict(table)
        self.judge.check(x, predicted)
        self._settle(table, before, index, predicted, foreseen=False, advance=advance)

    def _settle(
        self,
        table: Table,
        before: FloatArray,
        index: IntArray,
        predicted: NDArray[Any],
        *,
        foreseen: bool,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """The rows that have the target already, and the search for the others."""
        x = self.question.features.expand(before)
        answered, told = np.zeros(len(x), dtype=bool), False
        for target, part in self.target.each(predicted, answered):
            self.targets[index[part]] = target
            tell = (lambda _: None) if told else advance
            told = len(part) == len(x)
            inside = table.take(part) if len(part) < len(x) else table
            met = target.met(self.judge, inside, x[part], predicted[part])
            met[met] = self._stays(target, x[part[met]])
            if foreseen and met.any():
                raise Surprise
            if met.any():
                rows, factual = part[met], inside.take(np.flatnonzero(met))
                said = target.verdict(self.judge, factual, x[rows], predicted[rows])
                self._put_already(index[rows], x[rows], said)
                tell(len(rows))
            if not met.all():
                ask = part[~met]
                here = slice(None) if len(ask) == len(x) else ask
                asked = Asked(
                    target,
                    table.take(here),
                    before[here],
                    index[here],
                    foreseen,
                    self.terms.take(index[here]),
                )
                self._ask(asked, tell)
            answered[part] = self.certificates.valid[index[part]]

    def _stays(self, target: Target, x: FloatArray) -> BoolArray:
        """(n,): whether (n, d) people lead by enough if they stay, where that counts."""
        band = target.leads(self.question, x) if len(x) else None
        if band is None:
            return np.ones(len(x), dtype=bool)
        return np.asarray(self.judge.form.margin(x, target) >= band.required(x, np.zeros(len(x))))

    def _put_already(self, rows: IntArray, x: FloatArray, verdict: Verdict) -> None:
        known = np.zeros(len(rows)), EnumColumn.full(len(rows), Claim.PROVED)
        plain = self.question.plain
        already = certify(plain, x, plain.cases(x), known, verdict)
        self.certificates.put(rows, already)
        self.status[rows] = Status.ALREADY
        self.closed[rows] = True

    def _ask(self, asked: Asked, advance: Callable[[int], None]) -> None:
        """Settle some rows of a chunk; a few at a time where each may need a solver."""
        n = len(asked.before)
        step = n if n <= FEW else _at_once(self.question.pieces(asked.target))
        on_lattice = self.question.on_lattice(self.question.features.expand(asked.before))
        for alike in (np.flatnonzero(on_lattice), np.flatnonzero(~on_lattice)):
            for start in range(0, len(alike), step):
                part = alike[start : start + step]
                some = asked if len(part) == n else asked.take(part)
                settlement = Settlement(self.judge, self.question, some, self.effort)
                self._put(some.index, settlement.run())
                advance(len(part))

    def _put(self, rows: IntArray, settled: Settled) -> None:
        here = slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] + 1 == len(rows) else rows
        self.after[here] = settled.after
        self.status[here] = settled.status
        self.certificates.put(here, settled.certificates)
        self.closed[here] = settled.closed


def _at_once(pieces: Pieces) -> int:
    """How many rows to settle together: few where each may need a solver, or keeps much."""
    return max(FEW, PROOFS // max(pieces.size, 1)) if pieces.is_quick else FEW
