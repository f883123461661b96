"""Rows become answers: they are predicted, searched, confirmed by the model, and certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Certificates, Status, certify
from counterpoint.numerics import BLOCK, BoolArray, FloatArray
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import PRESENT, RowBatch
from counterpoint.rows.table import Table
from counterpoint.search.query import Query
from counterpoint.search.validation import SMALL_BATCH, AnswerSearch, ModelFirst, validate

CHUNK_CELLS = 1 << 18
"""Cells of a chunk of rows: 2 MiB, so that arrays stay in the cache."""
MULTIPLIERS = 1 << 25
"""Multipliers of rows that are searched together, one for each row, piece and demand: 256 MiB."""
TOO_LARGE = (
    "its numbers, with those of the model and the cost, are too large or too small to compute with "
    "({error}). Rescale the columns, or the weights of the cost."
)


def answers_to(
    query: Query,
    tables: tuple[Table, Table],
    advance: Callable[[int], None] | None = None,
    *,
    weight: FloatArray | None = None,
    held: BoolArray | None = None,
) -> Counterfactuals:
    """Answer all rows of a call.

    The ``tables`` are the rows as they came, and the model's columns of them. ``advance`` is told
    how many more rows are done; ``weight`` (n,) is how much the cost counts beside the other terms
    of the objective, by default the target's; ``held`` (n, p) says which features of which row must
    stay.
    """
    table, inputs = tables
    rows = query.read(inputs)
    n, default_weight = len(rows.index), query.target.requirement.weight
    is_cheapest = weight is None and held is None and query.piece is None
    if weight is None and default_weight is not None:
        weight = np.full(n, default_weight)
    if weight is not None or held is not None:
        rows = replace(rows, weight=weight, held=held)
    # without missing cells, all rows of `missing` are one row repeated, which is compared once
    distinct = 1 if rows.missing.strides[0] == 0 else n
    out = Counterfactuals(
        table,
        rows.codes,
        np.array(rows.codes),
        np.broadcast_to(rows.missing[:distinct] != PRESENT, rows.codes.shape),
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
    # A call of ``predict`` takes milliseconds on a wide frame, however few its rows are: so a chunk
    # has a block of rows, up to four times its cells. What is known of a row, beside its cells,
    # takes as much as four columns.
    fitting = CHUNK_CELLS // max(query.features.width, 4)
    size = max(64, min(max(fitting, BLOCK), 4 * fitting))
    for start in range(0, n, size):
        chunk = start + np.flatnonzero(usable[start : start + size])
        if len(chunk):
            _answer_chunk(query, rows.take(chunk).apart(), out, advance)
    return out


def _answer_chunk(
    query: Query, rows: RowBatch, out: Counterfactuals, advance: Callable[[int], None] | None
) -> None:
    """Answer the rows of a chunk; one whose arithmetic fails is invalid, and no other row is.

    The failing row is looked for by halves, so that only it costs time; the progress of these
    attempts is not told again. What NumPy makes infinite or NaN instead of failing proves nothing,
    see `counterpoint.numerics.relative`.
    """
    target, proof_count = query.target, len(out.proofs)
    # A few rows are predicted by the form at first, and the model is asked about them together with
    # their answers: one call of ``predict`` instead of two. Of many rows, more would be lost where
    # the form is wrong about one, for then all are searched again.
    by_form = (
        target.demanding and target.requirement.at_least is None and len(rows.index) <= SMALL_BATCH
    )
    pending = [(rows, by_form)]
    while pending:
        rows, by_form = pending.pop()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                _answer(query, rows, out, None if by_form else advance, by_form=by_form)
            if by_form and advance is not None:
                advance(len(rows.index))
        except ModelFirst:
            pending.append((rows, False))
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            del out.proofs[proof_count:]
            advance = None
            if len(rows.index) > 1:
                halves = np.array_split(np.arange(len(rows.index)), 2)
                pending += [(rows.take(half).apart(), by_form) for half in reversed(halves)]
                continue
            unsolved, status = np.zeros(1, dtype=bool), np.full(1, Status.INVALID.code, np.int8)
            out.put(rows.index, rows.codes, status, Certificates.blank(1), unsolved)
            out.problems[int(rows.index[0])] = TOO_LARGE.format(error=error)
        proof_count = len(out.proofs)


def _answer(
    query: Query,
    rows: RowBatch,
    out: Counterfactuals,
    advance: Callable[[int], None] | None,
    *,
    by_form: bool,
) -> None:
    """Write rows that satisfy their target as they are; search for answers to the others.

    Factual rows are predicted ``by_form`` or by the model. Predicted by the form, `ModelFirst` is
    raised if one seems to satisfy its target already, or if the model says so in the end.
    """
    predicted, outputs = _predicted(query, rows, by_form=by_form)
    answered = np.zeros(len(rows.index), dtype=bool)
    for goals in query.target.goals(predicted, answered):
        searches: list[AnswerSearch] = []
        for target, positions in goals:
            goal = query if target is query.target else query.asking(target=target)
            goal_rows = rows.take(positions)
            satisfied = goal.already_satisfied(goal_rows.x, outputs[goal_rows.at])
            if by_form and satisfied.any():
                raise ModelFirst
            out.targets[goal_rows.index] = target
            searches += _searches(goal, _put_already(goal, goal_rows, satisfied, outputs, out))
            if advance is not None:
                advance(int(satisfied.sum()))
        for answer_search in searches:
            answer_search.propose()
            if advance is not None:
                advance(len(answer_search.rows.index))
        validate(searches, rows, predicted if by_form else None)
        for answer_search in searches:
            answer_search.settle(out)
            answered[answer_search.rows.at] = out.certificates.valid[answer_search.rows.index]
        # further goals are about the same rows, whose progress has been told; and the model has
        # been asked about these, if any was searched
        advance, by_form = None, by_form and not searches


def _predicted(query: Query, rows: RowBatch, *, by_form: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Predict factual rows, (n,); return also the outputs (n,) that decide about the target.

    These are the same predictions, or probabilities if the target demands one. Where nothing is
    demanded, zeros stand for both: nobody reads them.
    """
    target, model = query.target, query.model
    if not target.demanding:
        return (np.zeros(len(rows.index)),) * 2
    if by_form:
        return (model.form.predict(rows.x),) * 2
    predicted = model.predict(rows.table)
    model.check(rows.x, predicted)
    is_probability = target.requirement.at_least is not None
    return predicted, target.outputs(model, rows.table) if is_probability else predicted


def _put_already(
    query: Query, rows: RowBatch, satisfied: BoolArray, outputs: NDArray[Any], out: Counterfactuals
) -> RowBatch:
    """Write rows that are ``satisfied`` (n,) as they are, at no cost; return the others."""
    if not satisfied.any():
        return rows
    done, program = rows.take(np.flatnonzero(satisfied)), query.actionable
    verdict = query.target.verdict(query.model.form, done.x, outputs[done.at], query.eps)
    certificates = certify(program, done.x, program.cases(done.x), verdict, None)
    status = np.full(len(done.index), Status.ALREADY.code, np.int8)
    out.put(done.index, done.codes, status, certificates, np.ones(len(done.index), dtype=bool))
    return rows.take(np.flatnonzero(~satisfied))


def _searches(query: Query, rows: RowBatch) -> list[AnswerSearch]:
    """Split rows into blocks that are searched together.

    Blocks are small where each row may need a solver, for progress is told block by block. Rows on
    the lattice, for which ties are resolved, come first, in a union of their own.
    """
    union, size = query.union, SMALL_BATCH
    if len(rows.index) > SMALL_BATCH and union.is_quick:
        size = max(SMALL_BATCH, MULTIPLIERS // max(union.size, 1))
    parts = [(np.arange(len(rows.index)), union)]
    if query.is_discrete:
        on_lattice = query.on_lattice(rows.x)
        parts = [(np.flatnonzero(~on_lattice), union)]
        if on_lattice.any():
            parts.insert(0, (np.flatnonzero(on_lattice), query.lattice_union))
    searches: list[AnswerSearch] = []
    for positions, pieces in parts:
        searched = pieces if query.piece is None else pieces[query.piece : query.piece + 1]
        searches += [
            AnswerSearch(query, rows.take(positions[start : start + size]), searched)
            for start in range(0, len(positions), size)
        ]
    return searches
