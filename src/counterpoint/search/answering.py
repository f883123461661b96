"""The way of rows: predicted, searched, confirmed by the model, and certified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Certificates, Status, certify
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import PRESENT, RowBatch, as_returned
from counterpoint.rows.table import Table
from counterpoint.search.query import Query
from counterpoint.search.validation import AnswerSearch

CELLS = 1 << 18
"""Cells of a chunk, unless it has fewer than `ROWS`: 2 MiB, so that arrays stay in the cache."""
ROWS = 1 << 12
"""Rows of a chunk at least, up to four times its cells: a call of ``predict`` takes milliseconds on
a wide frame, whatever the number of its rows."""
WIDE = 4
"""Columns that a row counts as at least: with few of them, what is known of it takes more."""
PROOFS = 1 << 25
"""Multipliers of a search, one for each row, piece and demand: 256 MiB of them."""
FEW = 16
"""For so many rows, what the model says of them is foreseen, see `answers_to`: if that is wrong for
one, all are searched again, so that little is lost. So many rows are searched together, and lie
between two steps of the progress bar, where each may need a solver."""
TOO_LARGE = (
    "its numbers, with those of the model and the cost, are too large or too small to compute with "
    "({error}). Rescale the columns, or the weights of the cost."
)


@final
class NotForeseen(Exception):
    """`predict` and the form disagree on whether a factual row already meets the target (a tie)."""


def answers_to(
    query: Query,
    tables: tuple[Table, Table],
    advance: Callable[[int], None] | None = None,
    *,
    weight: FloatArray | None = None,
    held: BoolArray | None = None,
) -> Counterfactuals:
    """The answers to all rows of a call, as they came and the model's columns of them.

    For a few rows, what the model says of them is foreseen from its form and confirmed together
    with their answers: one call of ``predict`` instead of two. ``advance`` is told how many more
    rows are done; ``weight`` (n,) is what the price counts beside what is charged, by default the
    target's; ``held`` (n, p) says which features of which row must stay.
    """
    table, inputs = tables
    rows = query.read(inputs)
    n, default = len(rows.codes), query.target.requirement.weight
    is_cheapest = weight is None and held is None and query.piece is None
    if weight is None and default is not None:
        weight = np.full(n, default)
    if weight is not None or held is not None:
        rows = replace(rows, weight=weight, held=held)
    missing = rows.missing[: 1 if rows.missing.strides[0] == 0 else n] != PRESENT
    out = Counterfactuals(
        table,
        rows.codes,
        np.array(rows.codes),
        np.broadcast_to(missing, rows.codes.shape),
        np.full(n, Status.INVALID.code, np.int8),
        Certificates.blank(n),
        np.zeros(n, dtype=bool),
        rows.problems,
        query,
        np.full(n, query.target, dtype=object),
        is_cheapest=is_cheapest,
    )
    usable = np.ones(n, dtype=bool)
    usable[[*rows.problems]] = False
    cells = CELLS // max(query.features.width, WIDE)
    size = max(64, min(max(cells, ROWS), 4 * cells))
    for start in range(0, n, size):
        chunk = start + np.flatnonzero(usable[start : start + size])
        if len(chunk):
            _answer_surely(query, rows.take(chunk).apart(), out, advance)
    return out


def _answer_surely(
    query: Query, rows: RowBatch, out: Counterfactuals, advance: Callable[[int], None] | None
) -> None:
    """Answer rows of a chunk; one whose arithmetic fails is invalid, and no other is lost with it.

    It is found by halves, so that it alone takes time; the progress of these is not told twice.
    What NumPy makes infinite or NaN instead of failing proves nothing, see `relative`.
    """
    target, records = query.target, len(out.proofs)
    # Of a few rows, and where nothing is demanded, the model is asked in the end alone.
    foreseen = target.demanding and target.requirement.at_least is None
    pending = [(rows, foreseen and len(rows.index) <= FEW)]
    while pending:
        rows, foreseen = pending.pop()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                _answer(query, rows, out, None if foreseen else advance, foreseen=foreseen)
            if foreseen and advance is not None:
                advance(len(rows.index))
        except NotForeseen:
            pending.append((rows, False))
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            del out.proofs[records:]
            advance = None
            if len(rows.index) > 1:
                halves = np.array_split(np.arange(len(rows.index)), 2)
                pending += [(rows.take(half).apart(), foreseen) for half in reversed(halves)]
                continue
            closed, status = np.zeros(1, dtype=bool), np.full(1, Status.INVALID.code, np.int8)
            out.put(rows.index, rows.codes, status, Certificates.blank(1), closed)
            out.problems[int(rows.index[0])] = TOO_LARGE.format(error=error)
        records = len(out.proofs)


def _answer(
    query: Query,
    rows: RowBatch,
    out: Counterfactuals,
    advance: Callable[[int], None] | None,
    *,
    foreseen: bool,
) -> None:
    """Find what the target means for each row, write rows that meet it, and search for the others.

    Predictions are ``foreseen`` if the form makes them: `NotForeseen` is raised if a row seems to
    meet the target already, or if the model predicts otherwise in the end.
    """
    answered, progress = np.zeros(len(rows.index), dtype=bool), advance or _ignore
    predicted, outputs = _predicted(query, rows, foreseen=foreseen)
    for goals in query.target.goals(predicted, answered):
        searches: list[AnswerSearch] = []
        for target, positions in goals:
            goal = query if target is query.target else query.asking(target=target)
            batch = rows.take(positions)
            out.targets[batch.index] = target
            satisfied = goal.already_satisfied(batch.x, outputs[batch.at])
            if satisfied.any():
                if foreseen:
                    raise NotForeseen
                _put_already(goal, batch.take(np.flatnonzero(satisfied)), outputs, out)
                progress(int(satisfied.sum()))
                batch = batch.take(np.flatnonzero(~satisfied))
            searches += _searches(goal, batch)
        for answer_search in searches:
            answer_search.propose()
            progress(len(answer_search.rows.index))
        if searches:
            codes, y, responses = _ask_about(rows, searches, predicted if foreseen else None)
            foreseen, end = False, 0
        for answer_search in searches:
            start, end = end, end + len(answer_search.positions)
            answer_search.validate(codes[start:end], y[start:end], responses[start:end])
            answer_search.settle(out)
            answered[answer_search.rows.at] = out.certificates.valid[answer_search.rows.index]
        progress = _ignore


def _ignore(_: int) -> None:
    pass


def _predicted(
    query: Query, rows: RowBatch, *, foreseen: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(n,) what the model predicts, or its form if that is ``foreseen``; what the target asks."""
    target, model = query.target, query.model
    if not target.demanding:
        return (np.zeros(len(rows.index)),) * 2
    if foreseen:
        return (model.form.predict(rows.x),) * 2
    predicted = model.predict(rows.table)
    model.check(rows.x, predicted)
    is_probable = target.requirement.at_least is not None
    return predicted, target.outputs(model, rows.table) if is_probable else predicted


def _put_already(query: Query, rows: RowBatch, outputs: NDArray[Any], out: Counterfactuals) -> None:
    """Write rows that meet the target as they are, at no cost."""
    actionable, n = query.actionable, len(rows)
    verdict = query.target.verdict(query.model.form, rows.x, outputs[rows.at], query.eps)
    certificates = certify(actionable, rows.x, actionable.cases(rows.x), verdict, None)
    status = np.full(n, Status.ALREADY.code, np.int8)
    out.put(rows.index, rows.codes, status, certificates, np.ones(n, dtype=bool))


def _searches(query: Query, rows: RowBatch) -> Iterator[AnswerSearch]:
    """Split rows into blocks that are searched together; small ones where rows may need a solver.

    Rows on the lattice, for which ties are resolved, come first, in a union of their own.
    """
    union, everyone = query.union, np.arange(len(rows.index))
    is_quick = len(everyone) > FEW and union.is_quick
    size = max(FEW, PROOFS // max(union.size, 1)) if is_quick else FEW
    sorts = [(everyone, union)]
    if query.is_discrete:
        on_lattice = query.on_lattice(rows.x)
        sorts = [(np.flatnonzero(~on_lattice), union)]
        if on_lattice.any():
            sorts.insert(0, (np.flatnonzero(on_lattice), query.lattice_union))
    for positions, pieces in sorts:
        searched = pieces if query.piece is None else pieces[query.piece : query.piece + 1]
        for start in range(0, len(positions), size):
            yield AnswerSearch(query, rows.take(positions[start : start + size]), searched)


def _ask_about(
    rows: RowBatch, searches: list[AnswerSearch], foreseen: NDArray[Any] | None
) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
    """Ask the model in one table about what searches propose, one after the other.

    Return (m, p) codes and (m, d) points as they are returned, and (m,) what the model says. If it
    has not been asked about the factual rows, what is ``foreseen`` of them is compared with what it
    says in the same call: `NotForeseen` is raised if it gives one the target already.
    """
    query, first, follows = searches[0].query, searches[0], foreseen is not None
    which: IntArray | slice = first.rows.at[first.positions]
    codes, y, outputs = first.codes, rows.x[:0], np.empty(0)
    if len(searches) > 1:
        which = np.concatenate([s.rows.at[s.positions] for s in searches])
        codes = np.concatenate([s.codes for s in searches])
    elif len(codes) == len(rows.codes):
        which = slice(None)
    if len(codes):
        before = rows.codes[which]
        returned, codes, y = as_returned(
            rows.table, query.features, which, before, codes, followed=follows
        )
        ask = query.model.predict if follows else partial(query.target.outputs, query.model)
        outputs = ask(*returned)
    elif follows:
        outputs = query.model.predict(rows.table)
    if foreseen is not None:
        _compare(rows, searches, foreseen, outputs[len(codes) :])
    return codes, y, outputs


def _compare(
    rows: RowBatch,
    searches: list[AnswerSearch],
    foreseen: NDArray[Any],
    predicted: NDArray[Any],
) -> None:
    """Compare what was foreseen of the factual rows with what the model predicts."""
    if (foreseen == predicted).all():
        return
    searches[0].query.model.check(rows.x, predicted, foreseen)
    for answer_search in searches:
        mine = answer_search.rows
        if answer_search.query.already_satisfied(mine.x, predicted[mine.at]).any():
            raise NotForeseen
