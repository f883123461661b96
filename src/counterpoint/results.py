"""`Counterfactuals`, the answers to a batch in columns, and `Counterfactual`, one row's answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
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
from counterpoint.numerics import BoolArray, FloatArray, IntArray, WordArray, row_blocks
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
"""Of so many rows without an answer a report says what is attainable instead."""
ROUNDED, STAYED = 1, 2
OF_ROUNDING = (
    "",
    "Its numbers were rounded, and the model was asked again.",
    "Its numbers are not rounded: no rounding that was tried meets target and constraints.",
)
"""Added to the message of an answer that was to be rounded."""


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
        return {**fields_only(self), "batch": self._alone, "position": 0}

    @property
    def _alone(self) -> Counterfactuals:
        """The row and its answer in a batch of their own."""
        row = slice(self.position, self.position + 1)
        return self.batch.part(row, self.batch.table.take(row))

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
        return conflict_of(batch.query.asking(target=batch.targets[i]), x)

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
        """The same answer in few digits, see `Counterfactuals.rounded`."""
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
        (in_few_digits,) = self.batch.in_few_digits(slice(self.position, self.position + 1))
        moved = [(name, *pair) for name, pair in in_few_digits.changes.items()]
        same = [(name, value) for name, value in self.factual.items() if name not in self.changes]
        already_satisfied, c = html.table(("feature", "value"), same), self.certificate
        rounded_cost = in_few_digits.certificate.cost
        cost = f"cost {rounded_cost:.4g}{c.likely}, at least {c.bound:.4g} ({c.claim})"
        is_rounded = in_few_digits.changes != self.changes
        if is_rounded:
            cost += "; numbers are rounded, and the model was asked again"
        return html.panel(
            f"Counterfactual: {self.status}",
            html.paragraph(self.message),
            html.table(("feature", "from", "to"), moved) if moved else "",
            html.paragraph(cost if self.found and c.objective == c.cost else ""),
            html.folded(f"{several(len(same), 'feature')} unchanged", already_satisfied),
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
        (n, p): which cells came in missing.
    statuses
        (n,) the codes of what became of each row.
    certificates
        What the answers are worth.
    closed_form
        (n,): whether a row was settled without a solver.
    problems
        Row → sentence, for rows that cannot be used.
    query
        What was asked of all rows.
    targets
        (n,) what was wanted of each.
    is_cheapest
        Whether each answer is the cheapest of its row, as records need.
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
    _remarks: dict[int, str] = field(default_factory=dict, repr=False)  # row → what else is said
    is_cheapest: bool = True
    proofs: list[tuple[IntArray, list[BoundProof]]] = field(default_factory=list, repr=False)
    _roundings: WordArray | None = field(default=None, repr=False)  # (n,) what rounding did

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in fields_only(self).items() if value is not None}

    def put(
        self,
        rows: NDArray[np.intp],
        after: FloatArray,
        status: WordArray,
        certificates: Certificates,
        closed_form: BoolArray,
        proofs: Sequence[BoundProof] = (),
    ) -> None:
        """Write what became of some rows, in order, and what proves their bounds in each piece."""
        positions = slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] + 1 == len(rows) else rows
        self.after[positions] = after
        self.statuses[positions] = status
        self.certificates.put(positions, certificates)
        self.closed_form[positions] = closed_form
        if proofs and self.is_cheapest:
            self.proofs.append((rows, [*proofs]))

    def __len__(self) -> int:
        return len(self.statuses)

    def __iter__(self) -> Iterator[Counterfactual]:
        return (self[i] for i in range(len(self)))

    @property
    def features(self) -> Features:
        """The kinds of the model's columns."""
        return self.query.features

    @property
    def status(self) -> NDArray[Any]:
        """(n,) `Status` of each row."""
        return Status.of(self.statuses)

    @property
    def found(self) -> BoolArray:
        """(n,): whether a row has an answer."""
        return _only_read(self.certificates.valid)

    @property
    def cost(self) -> FloatArray:
        """(n,) cost of each answer; NaN without one."""
        return _only_read(self.certificates.cost)

    @property
    def bound(self) -> FloatArray:
        """(n,) lower bound on the objective of any answer; infinite for infeasible rows."""
        return _only_read(self.certificates.bound)

    @property
    def gap(self) -> FloatArray:
        """(n,) (objective − bound) / objective; the objective is the cost, but for a `Tradeoff`."""
        return self.certificates.gap

    @property
    def changed(self) -> BoolArray:
        """(n, p): which features of each answer differ from the factual row."""
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
        """Some answers that follow one another, to the rows of a table."""
        first, end, _ = rows.indices(len(self))
        numbers = {name: getattr(self.certificates, name)[rows] for name in COLUMNS}
        names = ["before", "after", "missing", "statuses", "closed_form", "targets"]
        if self._roundings is not None:
            names.append("_roundings")

        def within(texts: dict[int, str]) -> dict[int, str]:
            return {i - first: text for i, text in texts.items() if first <= i < end}

        return replace(
            self,
            table=table,
            certificates=replace(self.certificates, **numbers),
            problems=within(self.problems),
            _remarks=within(self._remarks),
            **{name: getattr(self, name)[rows] for name in names},
            proofs=[(rows - first, pieces) for rows, pieces in _taken(self.proofs, first, end)],
        )

    @property
    def _comparison(self) -> Comparison:
        is_tradeoff = not self.query.target.demanding
        return Comparison.of(is_cheapest=self.is_cheapest, is_tradeoff=is_tradeoff)

    def _status(self, i: int) -> Status:
        return [*Status][self.statuses[i]]

    def message(self, i: int) -> str:
        """A sentence about one row, or two; the second may take a search."""
        if i in self.problems:
            return self.problems[i]
        status, c = self._status(i), self.certificates[i]
        text = message_of(
            status,
            c.claim,
            c.guarantee,
            has_answer=c.valid,
            on_edge=c.on_edge,
            comparison=self._comparison,
            gap=self.query.effort.gap,
        )
        if i not in self._remarks and status not in (Status.ALREADY, Status.INVALID):
            chance = self.targets[i].requirement.chance
            self._remarks[i] = ""
            if chance is not None:
                row = slice(i, i + 1)
                y = self.features.expand(self.after[row]) if c.valid else None
                x = self.features.expand(self.before[row])
                self._remarks[i] = chance.remark(self.query, x, y, c.guarantee)
        return " ".join(filter(None, (text, self._rounding_of(i), self._remarks.get(i))))

    def _rounding_of(self, i: int) -> str:
        """What rounding did to a row, in a sentence; empty if it was not rounded."""
        return "" if self._roundings is None else OF_ROUNDING[self._roundings[i]]

    def messages(self) -> tuple[IntArray, list[str]]:
        """Codes of the messages of all rows, and what they stand for.

        Rows of one sort share a message. Those with a sentence of their own are looked at one by
        one; of rows without an answer only the first.
        """
        c, single = self.certificates, [*self.problems, *self.remarks()]
        sizes = len(Status), len(Claim), len(Guarantee), 2, 2, len(OF_ROUNDING)
        roundings = np.zeros(len(self), np.int8) if self._roundings is None else self._roundings
        columns = self.statuses, c.claims, c.guarantees, c.valid, c.on_edge, roundings
        sort = np.ravel_multi_index(columns, sizes)
        words: dict[str, int] = {}
        code = np.zeros(np.prod(sizes), dtype=np.intp)
        for k in np.flatnonzero(np.bincount(np.delete(sort, single) if single else sort)).tolist():
            status, claim, guarantee, valid, on_edge, rounding = np.unravel_index(k, sizes)
            text = message_of(
                [*Status][status],
                [*Claim][claim],
                [*Guarantee][guarantee],
                has_answer=bool(valid),
                on_edge=bool(on_edge),
                comparison=self._comparison,
                gap=self.query.effort.gap,
            )
            text = " ".join(filter(None, (text, OF_ROUNDING[rounding])))
            code[k] = words.setdefault(text, len(words))
        codes = code[sort]
        for i in single:
            codes[i] = words.setdefault(self.message(i), len(words))
        return codes, [*words]

    def remarks(self) -> dict[int, str]:
        """Row → what is said of it besides; of rows without an answer only of the first."""
        if not len(self) or self.targets[0].requirement.chance is None:
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
        """The same answers in few digits: 4850 in the place of 4849.999755859374.

        Every number that changes becomes one of its two neighbours with so many digits, such that
        the model, which is asked again, still gives the target and all constraints are met; of
        these the cheapest. A number keeps two digits of its change at least. Where none is an
        answer, up to four digits more are tried. A row that no rounding keeps an answer stays as it
        is, and its message says so.

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
        >>> model = LogisticRegression(max_iter=1000).fit(X, y)
        >>> answers = cp.Explainer(model, data=X).explain(X.head(1), target=1)
        >>> answers[0].changes
        {'petal length (cm)': (1.4, 3.11933593462...)}
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
        numbers: dict[str, Any] = {n: np.array(getattr(self.certificates, n)) for n in COLUMNS}
        certificates = replace(self.certificates, **numbers)
        roundings = np.zeros(len(self), np.int8)
        moved = (self.changed & self.features.is_numeric).any(axis=1)
        groups: dict[str, list[int]] = {}
        for i in np.flatnonzero(moved).tolist():
            groups.setdefault(repr(self.targets[i]), []).append(i)
        for positions in groups.values():
            rows = np.array(positions)
            query = self.query.asking(target=self.targets[rows[0]])
            parts = inputs.take(rows), self.before[rows], self.after[rows]
            before = replace(self.certificates, **{k: v[rows] for k, v in numbers.items()})
            after[rows], changed, is_rounded = Unrounded(query, digits, *parts, before).rounded()
            limited = statuses[rows] == Status.LIMIT.code
            gap = query.effort.gap
            statuses[rows] = np.where(is_rounded, judge(changed, gap, limited), statuses[rows])
            certificates.put(rows, changed)
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
        """The answers, as they are returned; rows without one as they came."""
        before, after = self.before[rows], self.after[rows]
        gaps = self.missing[:1] if self.missing.strides[0] == 0 else self.missing
        whole = not (gaps.any() or self.problems)
        return decode(self.table, self.features, rows, before, after, whole=whole)

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
        """The counterfactual rows, one for each row that was passed, as they were passed.

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
        """One row each: status, claim, the numbers of `Certificate`, changed, message.

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
        # products of matrices add up fastest, and exactly what is below 2**24
        moved, ones = np.empty(n, np.float32), np.ones(width, np.float32)
        for block in row_blocks(n, width):
            differs = self.before[block] != self.after[block]
            moved[block] = differs.astype(np.float32) @ ones
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
            "changed": np.where(self.found, moved, 0.0).astype(np.intp),
            "message": self.messages(),
        }
        return self.table.sibling(columns, slice(None))

    def changes(self) -> Any:
        """One row for each changed cell: row, feature, from (None if missing), to.

        ``row`` is the label in the index of a pandas frame, else the position. Columns of whole
        numbers give ints. Where polars or Arrow cannot hold what comes together, numbers of both
        kinds are floats, and numbers beside text are text.
        """
        rows, columns = np.nonzero(self.changed)
        before, after, names = [], [], []
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            name = self.features.names[column]
            names.append(str(name))
            old = self._value(name, self.before[row, column])
            before.append(None if self.missing[row, column] else old)
            after.append(self._value(name, self.after[row, column]))
        table = {
            "row": self.table.labels_of(rows),
            "feature": names,
            "from": before,
            "to": after,
        }
        return self.table.sibling(table, None)

    def _value(self, name: Hashable, code: float) -> Any:
        """What a code stands for; an int in a column of whole numbers."""
        value = self.features.describe(name, code)
        whole = name in self.table.whole and isinstance(value, float) and value.is_integer()
        return int(value) if whole else value

    def summary(self) -> str:
        """How many rows have which status, what the answers cost, and which features change."""
        n = len(self)
        counts = zip(Status, np.bincount(self.statuses, minlength=len(Status)), strict=True)
        listing = ", ".join(f"{count} {status}" for status, count in counts if count)
        lines = [f"{n} rows: {listing or 'none'}"]
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
        """Some answers as they are shown: rounded, unless they are, or hold no model to ask."""
        part = self.part(rows, self.table.take(rows))
        is_rounded = self._roundings is not None
        return part if self.query.model.model is None or is_rounded else part.rounded()

    def displayed(
        self, title: str, summary: str, front_columns: dict[str, NDArray[Any]], most: int = 10
    ) -> str:
        """What notebooks show of the first answers, with columns in front."""
        first_rows, c = range(min(len(self), most)), self.certificates
        safety_margin = [[int(values[i]) for values in front_columns.values()] for i in first_rows]
        kinds = ("claim", "valid", "bound", "gap", "margin", "violation")
        visible = self.in_few_digits(slice(0, len(first_rows)))
        answers = [
            (
                *(*safety_margin[i], self._status(i), f"{visible.cost[i]:.4g}"),
                html.changes(visible[i].changes),
            )
            for i in first_rows
        ]
        certificates = [
            (*safety_margin[i], *(getattr(c[i], name) for name in kinds)) for i in first_rows
        ]
        remainder = f"and {len(self) - most} more: see report() and changes()"
        return html.panel(
            title,
            html.paragraph(summary),
            html.table((*front_columns, "status", "cost", "changes"), answers),
            html.paragraph(remainder if len(self) > most else ""),
            html.folded("Certificates", html.table((*front_columns, *kinds), certificates)),
        )


def _only_read(column: NDArray[Any]) -> NDArray[Any]:
    """A column in which nobody can write."""
    view = column.view()
    view.flags.writeable = False
    return view


def _taken(
    proofs: Sequence[tuple[IntArray, list[BoundProof]]], first: int, end: int
) -> Iterator[tuple[IntArray, list[BoundProof]]]:
    """What is kept of some rows that follow one another."""
    for rows, pieces in proofs:
        mine = np.flatnonzero((rows >= first) & (rows < end))
        if len(mine):
            yield rows[mine], [piece.take(mine) for piece in pieces]
