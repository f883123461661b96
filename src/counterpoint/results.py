"""Hold the answers to a batch in columns, `Counterfactuals`, and one row's as `Counterfactual`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import fields_only
from counterpoint.certificate import (
    COLUMNS,
    Certificate,
    Certificates,
    Claim,
    Comparison,
    Status,
    judge,
    message_of,
)
from counterpoint.errors import InvalidInput, NoAnswer, position_of, several, shown
from counterpoint.numerics import (
    BoolArray,
    FloatArray,
    IntArray,
    WordArray,
    as_slice,
    row_blocks,
)
from counterpoint.pictures import html
from counterpoint.problem.targets import Guarantee
from counterpoint.rows.encoding import cells_after, decode, match_columns
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table

if TYPE_CHECKING:
    from counterpoint.programs.evidence import BoundProof
    from counterpoint.search.conflicts import Conflict
    from counterpoint.search.query import Query

REMARKS = 20
"""How many rows without an answer have a remark in a report: each takes a few searches."""
ROUNDED, STAYED = 1, 2
ROUNDING_SENTENCES = (
    "",
    "Its numbers were rounded, and the model was asked again.",
    "Its numbers are not rounded: no rounding that was tried meets target and constraints.",
)
"""Sentences that `Counterfactuals.rounded` adds to messages: none, for `ROUNDED`, for `STAYED`."""


@final
@dataclass(frozen=True, eq=False)
class Counterfactual:
    """One row's answer.

    Parameters
    ----------
    status
        Whether there is an answer, and whether it is proved to be the cheapest.
    factual
        Name → value of the row, as it came in.
    changes
        Name → (from, to) of the features that change.
    certificate
        Cost, lower bound, and the model's judgement of the answer.
    batch, position
        The answers that it is one of, and its position among them.
    """

    status: Status
    factual: dict[Hashable, Any]
    changes: dict[Hashable, tuple[Any, Any]]
    certificate: Certificate
    batch: Counterfactuals = field(repr=False)
    position: int = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Keep this row of the batch only."""
        return {**fields_only(self), "batch": self._alone, "position": 0}

    @property
    def _alone(self) -> Counterfactuals:
        """A batch of this answer alone."""
        row = slice(self.position, self.position + 1)
        return self.batch.part(row, self.batch.table.take(row))

    @cached_property
    def message(self) -> str:
        """The status in a sentence or two.

        For a `Robust` without an answer, it says which probability is attainable; that takes a few
        searches.
        """
        return self.batch.message(self.position)

    @property
    def found(self) -> bool:
        """Whether there is an answer."""
        return self.certificate.valid

    @property
    def cost(self) -> float:
        """The cost of the answer; NaN without one."""
        return self.certificate.cost

    @property
    def row(self) -> dict[Hashable, Any]:
        """The answer, name → value.

        Raises
        ------
        NoAnswer
            If there is none.
        """
        self.raise_for_status()
        return {**self.factual, **{name: pair[1] for name, pair in self.changes.items()}}

    @cached_property
    def conflict(self) -> Conflict | None:
        """A minimal set of constraints that exclude every answer; None if not infeasible."""
        if self.status is not Status.INFEASIBLE:
            return None
        from counterpoint.search.conflicts import conflict_of

        batch, i = self.batch, self.position
        x = batch.features.expand(batch.before[i : i + 1])
        return conflict_of(batch.query.asking(target=batch.targets[i]), x)

    def to_record(self, *, salt: str | None = None) -> dict[str, Any]:
        """Return the answer with all that is needed to check it again, as nested dicts for JSON.

        `counterpoint.recheck` checks it without solving anything. The same input gives the same
        record, but for ``made``, which says when and with which versions.

        Parameters
        ----------
        salt
            A secret text. The record then holds an HMAC of the row with it in place of the row, and
            only the changes of the answer; `recheck` needs the row and the salt.

        Raises
        ------
        InvalidInput
            If it is one of several answers to the row.
        InvalidSpec
            If target, cost or constraints cannot be written to a file.
        """
        from counterpoint.records.batches import to_batches
        from counterpoint.records.writing import to_json

        (record,) = to_json(to_batches(self._alone), salt)
        return record

    def rounded(
        self,
        significant: int | None = 3,
        *,
        decimals: Mapping[Hashable, int] | None = None,
        steps: Mapping[Hashable, float] | None = None,
    ) -> Counterfactual:
        """Return the same answer in few digits, see `Counterfactuals.rounded`."""
        return self._alone.rounded(significant, decimals=decimals, steps=steps)[0]

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
        is_tradeoff = c.objective != c.cost
        objective = f"objective {c.objective:.6g}, " if is_tradeoff else ""
        claim = "" if c.claim is Claim.NONE else f" ({c.claim})"
        bound = f"{objective}at least {c.bound:.6g}{claim}"
        lines.append(f"  cost {c.cost:.6g}{c.likely}, {bound}, gap {c.gap:.1e}")
        return "\n".join([head, *lines])

    def __repr__(self) -> str:
        text = f", cost {self.cost:.6g}: {html.changes(self.changes)}" if self.found else ""
        return f"<Counterfactual: {self.status}{text}>"

    def _repr_html_(self) -> str:
        c = self.certificate
        certificate = [(f.name, getattr(c, f.name)) for f in fields(c)]
        (in_few_digits,) = self.batch.in_few_digits(slice(self.position, self.position + 1))
        changes = [(name, *pair) for name, pair in in_few_digits.changes.items()]
        unchanged = [item for item in self.factual.items() if item[0] not in self.changes]
        rounded_cost = in_few_digits.certificate.cost
        cost = f"cost {rounded_cost:.4g}{c.likely}, at least {c.bound:.4g} ({c.claim})"
        is_rounded = in_few_digits.changes != self.changes
        if is_rounded:
            cost += "; numbers are rounded, and the model was asked again"
        return html.panel(
            f"Counterfactual: {self.status}",
            html.paragraph(self.message),
            html.table(("feature", "from", "to"), changes) if changes else "",
            # not for a `Tradeoff`: its bound is one on the objective, not on the cost
            html.paragraph(cost if self.found and c.objective == c.cost else ""),
            html.folded(
                f"{several(len(unchanged), 'feature')} unchanged",
                html.table(("feature", "value"), unchanged),
            ),
            html.folded(
                "Certificate of the exact answer" if is_rounded else "Certificate",
                html.table(("", ""), certificate),
            ),
            good=self.found,
        )


@final
@dataclass(frozen=True, eq=False)
class Counterfactuals:
    """The answers to a batch, one for each row that was passed, in its order.

    Everything is held in columns; a `Counterfactual` is made when a row is asked for.

    Parameters
    ----------
    table
        The rows as they came in.
    before, after
        (n, p) codes of the factual rows and of the answers; a missing cell has that of its fill.
    missing
        (n, p): whether a cell came in missing.
    statuses
        (n,) codes of the `Status` of each row.
    certificates
        Cost, lower bound, and the model's judgement of each answer.
    closed_form
        (n,): whether a row was settled without a solver.
    problems
        Row → sentence, for rows that cannot be used.
    query
        Model, features, cost and constraints, and the target of the call.
    targets
        (n,) the target of each row: for `OtherLabel`, another one than its own label.
    is_cheapest
        Whether each answer was searched as the cheapest of its row, as records need.
    proofs
        Positions of rows with the proofs of their bounds, for records.
    """

    table: Table
    before: FloatArray
    after: FloatArray
    missing: BoolArray
    statuses: WordArray
    certificates: Certificates
    closed_form: BoolArray
    problems: dict[int, str]
    query: Query
    targets: NDArray[np.object_]
    _remarks: dict[int, str] = field(default_factory=dict, repr=False)  # row → last sentence
    is_cheapest: bool = True
    proofs: list[tuple[IntArray, list[BoundProof]]] = field(default_factory=list, repr=False)
    _roundings: WordArray | None = field(default=None, repr=False)  # (n,) 0, `ROUNDED` or `STAYED`

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in fields_only(self).items() if value is not None}

    def put(
        self,
        rows: NDArray[np.intp],
        after: FloatArray,
        status: WordArray,
        certificates: Certificates,
        closed_form: BoolArray,
    ) -> None:
        """Write the answers to some rows, by increasing positions."""
        positions = as_slice(rows)
        self.after[positions] = after
        self.statuses[positions] = status
        self.certificates.put(positions, certificates)
        self.closed_form[positions] = closed_form

    def keep(self, rows: IntArray, proofs: list[BoundProof], pieces: int) -> None:
        """Keep the proofs of the bounds of some rows, if there is one for each of the pieces."""
        if self.is_cheapest and len(rows) and len(proofs) == pieces:
            self.proofs.append((rows, proofs))

    def __len__(self) -> int:
        return len(self.statuses)

    def __iter__(self) -> Iterator[Counterfactual]:
        return (self[i] for i in range(len(self)))

    @property
    def features(self) -> Features:
        """The columns of the model, with their kinds."""
        return self.query.features

    @property
    def status(self) -> NDArray[Any]:
        """The `Status` of each row, (n,)."""
        return Status.of(self.statuses)

    @property
    def found(self) -> BoolArray:
        """Whether each row has an answer, (n,)."""
        return _only_read(self.certificates.valid)

    @property
    def cost(self) -> FloatArray:
        """The cost of each answer, (n,); NaN without one."""
        return _only_read(self.certificates.cost)

    @property
    def bound(self) -> FloatArray:
        """A lower bound on the objective of every answer to a row, (n,); infinite if infeasible."""
        return _only_read(self.certificates.bound)

    @property
    def gap(self) -> FloatArray:
        """(objective − bound) / objective, (n,); the objective is the cost but for a `Tradeoff`."""
        return self.certificates.gap

    @property
    def changed(self) -> BoolArray:
        """The mask (n, p) of the features in which an answer differs from its factual row."""
        return (self.before != self.after) & self.found[:, None]

    def __getitem__(self, i: int) -> Counterfactual:
        advice = " For several answers, take rows of report() or to_frame()."
        i = position_of(i, len(self), advice=advice)
        row, changes = slice(i, i + 1), {}
        factual = {} if i in self.problems else self.table.row(i, self.features.names)
        if self.certificates.valid[i]:
            new = cells_after(self.table, self.features, i, self.before[row], self.after[row])
            changes = {name: (factual[name], new[name]) for name in new}
        return Counterfactual(self._status(i), factual, changes, self.certificates[i], self, i)

    def part(self, rows: slice, table: Table) -> Counterfactuals:
        """Return the answers to consecutive rows, with the ``table`` of these rows."""
        first, end, _ = rows.indices(len(self))
        names = ["before", "after", "missing", "statuses", "closed_form", "targets"]
        if self._roundings is not None:
            names.append("_roundings")
        proofs = []
        for positions, pieces in self.proofs:
            inside = np.flatnonzero((positions >= first) & (positions < end))
            if len(inside):
                proofs.append((positions[inside] - first, [piece.take(inside) for piece in pieces]))

        def within(texts: dict[int, str]) -> dict[int, str]:
            return {i - first: text for i, text in texts.items() if first <= i < end}

        return replace(
            self,
            table=table,
            certificates=_selected(self.certificates, rows),
            problems=within(self.problems),
            _remarks=within(self._remarks),
            **{name: getattr(self, name)[rows] for name in names},
            proofs=proofs,
        )

    def _status(self, i: int) -> Status:
        return [*Status][self.statuses[i]]

    def message(self, i: int) -> str:
        """Return the sentences on one row; the last, a remark of its target, may take a search."""
        if i in self.problems:
            return self.problems[i]
        status, c = self._status(i), self.certificates[i]
        rounding = 0 if self._roundings is None else self._roundings[i]
        text = self._sentences(status, c.claim, c.guarantee, c.valid, c.on_edge, rounding)
        if i not in self._remarks and status not in (Status.ALREADY, Status.INVALID):
            varying_margin = self.targets[i].requirement.varying_margin
            self._remarks[i] = ""
            if varying_margin is not None:
                row = slice(i, i + 1)
                y = self.features.expand(self.after[row]) if c.valid else None
                x = self.features.expand(self.before[row])
                self._remarks[i] = varying_margin.remark(self.query, x, y, c.guarantee)
        return " ".join(filter(None, (text, self._remarks.get(i))))

    def _sentences(
        self,
        status: Status,
        claim: Claim,
        guarantee: Guarantee,
        has_answer: bool,  # noqa: FBT001 (an entry of a key, see `messages`)
        on_edge: bool,  # noqa: FBT001
        rounding: int,
    ) -> str:
        """Return the sentences that all rows with these entries share."""
        is_tradeoff = not self.query.target.demanding
        text = message_of(
            status,
            claim,
            guarantee,
            has_answer=has_answer,
            on_edge=on_edge,
            comparison=Comparison.of(is_cheapest=self.is_cheapest, is_tradeoff=is_tradeoff),
            gap=self.query.effort.gap,
        )
        return " ".join(filter(None, (text, ROUNDING_SENTENCES[rounding])))

    def messages(self) -> tuple[IntArray, list[str]]:
        """Return the messages of all rows, as codes (n,) and the texts that they stand for.

        A text is made once for each combination of entries that occurs, not for each row. Rows with
        a problem or a remark have a message of their own, see `remarks`.
        """
        c, single = self.certificates, [*self.problems, *self.remarks()]
        roundings = np.zeros(len(self), np.int8) if self._roundings is None else self._roundings
        columns = self.statuses, c.claims, c.guarantees, c.valid, c.on_edge, roundings
        truth = [False, True]
        choices = [*Status], [*Claim], [*Guarantee], truth, truth, range(len(ROUNDING_SENTENCES))
        sizes = tuple(map(len, choices))
        key = np.ravel_multi_index(columns, sizes)
        texts: dict[str, int] = {}
        code_of_key = np.zeros(np.prod(sizes), dtype=np.intp)
        for k in np.flatnonzero(np.bincount(np.delete(key, single) if single else key)).tolist():
            indices = np.unravel_index(k, sizes)
            entries: Any = [words[int(i)] for words, i in zip(choices, indices, strict=True)]
            code_of_key[k] = texts.setdefault(self._sentences(*entries), len(texts))
        codes = code_of_key[key]
        for i in single:
            codes[i] = texts.setdefault(self.message(i), len(texts))
        return codes, [*texts]

    def remarks(self) -> dict[int, str]:
        """Return row → remark of its target, for all answers and the first `REMARKS` other rows."""
        if not len(self) or self.targets[0].requirement.varying_margin is None:
            return {}
        answered = self.found
        rows = [*np.flatnonzero(answered).tolist(), *np.flatnonzero(~answered)[:REMARKS].tolist()]
        for i in rows:
            self.message(i)
        return {i: text for i in rows if (text := self._remarks.get(i))}

    def rounded(
        self,
        significant: int | None = 3,
        *,
        decimals: Mapping[Hashable, int] | None = None,
        steps: Mapping[Hashable, float] | None = None,
    ) -> Counterfactuals:
        """Return the same answers in few digits: 4850 in place of 4849.999755859374.

        Every number that changes becomes one of its two neighbours with so many digits, such that
        the model, which is asked again, still gives the target and all constraints are met; the
        cheapest of these is taken. A number keeps two digits of its change at least. Where none is
        an answer, up to four digits more are tried. Where no rounding is an answer, a row stays as
        it is, and its message says so.

        Rounding again may round a number that stayed at its bound, where the others made room.

        Costs and gaps are those of the rounded answers; the lower bounds stay. So an answer that
        was optimal is suboptimal where it costs more now than the gap allows.

        Parameters
        ----------
        significant
            Digits of each number that changes; None to round only features that ``decimals`` and
            ``steps`` name.
        decimals
            Name → decimals of a feature; -3 for thousands.
        steps
            Name → what a feature is to be a multiple of. In features with decimals or steps, no
            more digits are tried.

        Returns
        -------
        Counterfactuals

        Raises
        ------
        InvalidInput
            If the digits make no sense, or the answers are copied or unpickled.

        Examples
        --------
        >>> import counterpoint as cp
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = LogisticRegression(max_iter=1000, tol=1e-8).fit(X, y)
        >>> answers = cp.Explainer(model, data=X).explain(X.head(1), target=1)
        >>> answers[0].changes
        {'petal length (cm)': (1.4, 3.1206...)}
        >>> answers.rounded(2)[0].changes
        {'petal length (cm)': (1.4, 3.2)}
        """
        from counterpoint.search.rounding import Digits, Unrounded

        digits = Digits.checked(significant, decimals, steps, self.features)
        if self.query.model.model is None:
            raise InvalidInput(
                "Rounding asks the model, which copied or unpickled answers do not hold. Round "
                "them first, or explain the rows again."
            )
        inputs = match_columns(self.table, self.features, named=self.query.model.named)
        after, statuses = np.array(self.after), np.array(self.statuses)
        certificates = _selected(self.certificates, np.arange(len(self)))
        roundings = np.zeros(len(self), np.int8)
        moved = (self.changed & self.features.is_numeric).any(axis=1)
        rows_by_target: dict[str, list[int]] = {}
        for i in np.flatnonzero(moved).tolist():
            rows_by_target.setdefault(repr(self.targets[i]), []).append(i)
        for positions in rows_by_target.values():
            rows = np.array(positions)
            query = self.query.asking(target=self.targets[rows[0]])
            answers = inputs.take(rows), self.before[rows], self.after[rows]
            exact = _selected(self.certificates, rows)
            unrounded = Unrounded(query, digits, *answers, exact)
            after[rows], rounded, is_rounded = unrounded.rounded()
            certificates.put(rows, rounded)
            judged = judge(rounded, query.effort.gap, statuses[rows] == Status.LIMIT.code)
            statuses[rows] = np.where(is_rounded, judged, statuses[rows])
            roundings[rows] = np.where(is_rounded, ROUNDED, STAYED)
        return replace(
            self,
            after=after,
            statuses=statuses,
            certificates=certificates,
            _remarks={},
            _roundings=roundings,
        )

    def decoded(self, rows: slice) -> Table:
        """Return the table of answers, as they are returned; rows without one as they came."""
        before, after = self.before[rows], self.after[rows]
        # One row that is repeated stands for all: in most batches no cell is missing.
        missing = self.missing[:1] if self.missing.strides[0] == 0 else self.missing
        none_missing = not (missing.any() or self.problems)
        return decode(self.table, self.features, rows, before, after, none_missing=none_missing)

    def to_records(self, path: str | PathLike[str], *, salt: str | None = None) -> None:
        """Write a record of each row, which `counterpoint.recheck` checks without solving anything.

        Parameters
        ----------
        path
            A file of JSON lines (``.jsonl``), or a Parquet file (``.parquet``), which is smaller
            and read faster.
        salt
            As for `Counterfactual.to_record`.

        Raises
        ------
        InvalidInput
            If these are several answers to each row, or the file is of another kind.
        InvalidSpec
            If target, cost or constraints cannot be written to a file.
        MissingExtra
            If pyarrow is needed and not installed.
        """
        from counterpoint.records.batches import to_batches
        from counterpoint.records.writing import write_records

        write_records(to_batches(self), path, salt)

    def to_frame(self) -> Any:
        """Return the counterfactual rows, one for each row that was passed, as they were passed.

        The library, index, column order and dtypes are those of what was passed; an array comes
        back as an array. A missing cell that the answer does not change is still missing.

        In rows without an answer the model's columns are missing; other columns keep their values.
        Where there is such a row, pandas' columns of NumPy's whole numbers and booleans come in the
        nullable dtype of the same size (``Int64`` for ``int64``), an array of them in float64, and
        one of text in dtype object, since these cannot be missing.
        """
        names, unanswered = self.features.names, ~self.found
        answers = self.decoded(slice(None)).emptied(names, unanswered)
        return self.table.as_it_came(answers)

    def report(self, **front_columns: NDArray[Any]) -> Any:
        """Return a row each: status, claim, the numbers of `Certificate`, changed, message.

        A pandas data frame with the index of what was passed, or a polars one for polars. Words
        and messages are categories in pandas.

        Parameters
        ----------
        **front_columns
            Columns of shape (n,) to put in front.
        """
        for name, values in front_columns.items():
            if np.asarray(values, dtype=object).shape != (len(self),):
                raise InvalidInput(
                    f"Expected one value of {name!r} for each of {len(self)} rows; got "
                    f"{shown(values)}."
                )
        c, (n, width) = self.certificates, self.before.shape
        # Matrix products count fastest; float32 counts exactly up to 2**24.
        n_changed, ones = np.empty(n, np.float32), np.ones(width, np.float32)
        for block in row_blocks(n, width):
            differs = self.before[block] != self.after[block]
            n_changed[block] = differs.astype(np.float32) @ ones
        columns = {
            **front_columns,
            "status": (self.statuses, [*map(str, Status)]),
            "claim": (c.claims, [*map(str, Claim)]),
            "valid": c.valid,
            "cost": c.cost,
            "bound": c.bound,
            "gap": c.gap,
            "margin": c.margin,
            "rounding": c.rounding,
            "on_edge": c.on_edge,
            "objective": c.objective,
            "probability": c.probability,
            "guarantee": (c.guarantees, [*map(str, Guarantee)]),
            "violation": c.violation,
            "changed": np.where(self.found, n_changed, 0.0).astype(np.intp),
            "message": self.messages(),
        }
        return self.table.sibling(columns, slice(None))

    def changes(self) -> Any:
        """Return a row for each changed cell: row, feature, from (None if missing), to.

        ``row`` is the label in the index of a pandas frame, else the position. Columns of whole
        numbers give ints. polars and Arrow hold one type in a column: there, ints beside floats are
        floats, and numbers beside text are text.
        """
        rows, columns = np.nonzero(self.changed)
        before, after, names = [], [], []
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            name = self.features.names[column]
            names.append(str(name))
            old = self._value(name, self.before[row, column])
            before.append(None if self.missing[row, column] else old)
            after.append(self._value(name, self.after[row, column]))
        labels = self.table.labels_of(rows)
        cells = {"row": labels, "feature": names, "from": before, "to": after}
        return self.table.sibling(cells, None)

    def _value(self, name: Hashable, code: float) -> Any:
        """Return the raw value of a code; an int in a column of whole numbers."""
        value = self.features.describe(name, code)
        whole = name in self.table.whole and isinstance(value, float) and value.is_integer()
        return int(value) if whole else value

    def summary(self) -> str:
        """Describe how many rows have which status, the costs, and the changes by feature."""
        counts = zip(Status, np.bincount(self.statuses, minlength=len(Status)), strict=True)
        listing = ", ".join(f"{count} {status}" for status, count in counts if count)
        lines = [f"{len(self)} rows: {listing or 'none'}"]
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

    def _repr_html_(self) -> str:
        return self.displayed("Counterfactuals", self.summary(), {"row": np.arange(len(self))})

    def in_few_digits(self, rows: slice) -> Counterfactuals:
        """Return answers to consecutive rows, rounded for display.

        Unpickled answers stay exact, as they hold no model to ask; rounded ones are not rounded
        further.
        """
        part = self.part(rows, self.table.take(rows))
        is_rounded = self._roundings is not None
        return part if self.query.model.model is None or is_rounded else part.rounded()

    def displayed(
        self, title: str, summary: str, front_columns: dict[str, NDArray[Any]], most: int = 10
    ) -> str:
        """Return the HTML that notebooks show of the first answers, with numbers in front."""
        first_rows, c = range(min(len(self), most)), self.certificates
        front = [[int(values[i]) for values in front_columns.values()] for i in first_rows]
        numbers = ("claim", "valid", "bound", "gap", "margin", "violation")
        visible = self.in_few_digits(slice(0, len(first_rows)))
        answers = [
            (
                *(*front[i], self._status(i), f"{visible.cost[i]:.4g}"),
                html.changes(visible[i].changes),
            )
            for i in first_rows
        ]
        certificates = [(*front[i], *(getattr(c[i], name) for name in numbers)) for i in first_rows]
        remainder = f"and {len(self) - most} more: see report() and changes()"
        return html.panel(
            title,
            html.paragraph(summary),
            html.table((*front_columns, "status", "cost", "changes"), answers),
            html.paragraph(remainder if len(self) > most else ""),
            html.folded("Certificates", html.table((*front_columns, *numbers), certificates)),
        )


def _only_read(column: NDArray[Any]) -> NDArray[Any]:
    """Return a view of a column that cannot be written into."""
    view = column.view()
    view.flags.writeable = False
    return view


def _selected(certificates: Certificates, rows: slice | IntArray) -> Certificates:
    """Return the certificates of some rows; views for a slice, copies for positions."""
    return replace(certificates, **{name: getattr(certificates, name)[rows] for name in COLUMNS})
