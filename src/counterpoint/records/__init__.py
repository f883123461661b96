"""Check records of answers against a model: `recheck`, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Claim
from counterpoint.errors import InvalidInput
from counterpoint.records.checker import BROKEN, check, recorded_query
from counterpoint.records.files import read_records, with_rows
from counterpoint.records.record import RecordBatch, RecordedQuery, canonical, sentence_of
from counterpoint.rows.table import Table

__all__ = ["Recheck", "recheck"]


@final
@dataclass(frozen=True)
class Recheck:
    """The result of checking records.

    Parameters
    ----------
    count
        How many records were checked.
    found
        Position of a record → what is wrong with it, in sentences; only records with problems.
    proved
        (count,) whether the record's own proof shows that its answer is optimal up to the gap
        that was asked for, that there is none, or that none is needed.
    reported
        (count,) whether the record says so on the word of a solver. That is not verified, and a
        problem unless such records were to be accepted; all else in it is as it should be.
    """

    count: int
    found: dict[int, tuple[str, ...]]
    proved: NDArray[np.bool_]
    reported: NDArray[np.bool_]

    @property
    def ok(self) -> bool:
        """Whether no record has a problem."""
        return not self.found

    @property
    def problems(self) -> tuple[str, ...]:
        """All sentences; of several records, with their positions, counted from 0."""
        alone = self.count == 1
        return tuple(
            sentence if alone else f"Record {i}: {sentence}"
            for i, sentences in sorted(self.found.items())
            for sentence in sentences
        )


def recheck(
    records: Any,
    model: Any,
    *,
    rows: Any = None,
    salt: str | None = None,
    accept_reported: bool = False,
) -> Recheck:
    """Check records of answers against a model, without solving anything.

    A record is in order if all that it claims has been verified.

    Parameters
    ----------
    records
        A record (`Counterfactual.to_record`), its JSON text, a list of them, or the path of a file
        that `Counterfactuals.to_records` wrote.
    model
        The fitted model that the answers are said to be of.
    rows
        For records that hold hashes in the place of rows: the rows, one for each record, in order.
    salt
        The salt that the hashes were made with.
    accept_reported
        Whether to take a solver's word: for records whose claim is ``reported``, nothing proves
        that the answer is optimal, or that there is none. Whoever forges a record can claim as
        much.

    Returns
    -------
    Recheck
        Its ``ok`` says whether all is well, its ``problems`` what is not.

    Raises
    ------
    InvalidInput
        If there is nothing that could be a record, a file cannot be read, or rows are missing.
    UnsupportedModel, ModelNotFitted
        If the model cannot be read.

    Examples
    --------
    >>> import counterpoint as cp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> record = cp.Explainer(model, data=X).explain(X.head(1), target=1)[0].to_record()
    >>> cp.recheck(record, model).ok
    True
    >>> cp.recheck(record | {"cost": 0.1}, model).ok
    False
    """
    problems: dict[int, list[str]] = {}
    batches, count = read_records(records, problems)
    table = None if rows is None else Table.read(rows)
    if table is not None and len(table) != count:
        raise InvalidInput(f"Expected one row for each of {count} records; got {len(table)} rows.")
    claims, queries = np.full(count, Claim.NONE, dtype=object), dict[str, RecordedQuery]()
    for batch in batches:
        complete, mismatched = with_rows(batch, table, salt)
        for i in complete.positions[mismatched].tolist():
            problems.setdefault(i, []).append(
                "Its row is not the one that was passed, or its salt."
            )
        _check(complete, model, queries, problems, claims)
    claims[[*problems]] = Claim.NONE
    reported = claims == Claim.REPORTED
    if not accept_reported:
        sentence = "It rests on the word of a solver: nothing in it proves that its answer is "
        unproved = [f"{sentence}optimal, or that there is none."]
        problems |= dict.fromkeys(np.flatnonzero(reported).tolist(), unproved)
    found = {i: tuple(dict.fromkeys(sentences)) for i, sentences in problems.items()}
    return Recheck(count, found, claims == Claim.PROVED, reported)


def _check(
    batch: RecordBatch,
    model: Any,
    queries: dict[str, RecordedQuery],
    problems: dict[int, list[str]],
    claims: NDArray[np.object_],
) -> None:
    """Enter what is wrong with records in ``problems``, and what settles them in ``claims``.

    ``queries`` are those of earlier batches, for reading the model takes long. A batch that cannot
    be checked is halved, until the records that cannot be are alone.
    """
    try:
        key = canonical([batch.shared[k] for k in ("asked", "asked_hash", "model")])
        if key not in queries:
            queries[key] = recorded_query(batch.shared, model)
        query = queries[key]
        wrong, settled_by = check(batch, query)
    except BROKEN as error:
        if len(batch.positions) > 1:
            for half in batch.halves():
                _check(half, model, queries, problems, claims)
            return
        problems.setdefault(int(batch.positions[0]), []).append(
            f"It cannot be checked: {sentence_of(error)}."
        )
        return
    for i in batch.positions.tolist() if query.problems else ():
        problems.setdefault(i, []).extend(query.problems)
    for sentence, rows in wrong:
        for i in batch.positions[rows].tolist():
            problems.setdefault(i, []).append(sentence)
    claims[batch.positions] = settled_by
