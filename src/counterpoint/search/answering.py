"""The way of rows: predicted, searched, confirmed by the model, and certified."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Certificates, Status, certify
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import PRESENT, RowBatch
from counterpoint.rows.table import Table
from counterpoint.search.query import Query
from counterpoint.search.search import Union
from counterpoint.search.validation import NotForeseen, ask_about, first_search, settle

__all__ = ["answers_to"]

CELLS = 1 << 18
"""Cells of a chunk, unless it has fewer than `ROWS`: 2 MiB, so that arrays stay in the cache."""
ROWS = 1 << 12
"""Rows of a chunk at least, up to four times its cells: a call of ``predict`` takes milliseconds on
a wide frame, whatever the number of its rows."""
WIDE = 4
"""Columns that a row counts as at least: with few of them, what is known of it takes more."""
PROOFS = 1 << 25
"""Multipliers that are kept at once, one for each row, piece and demand: 256 MiB of them."""
FEW = 16
"""For so many rows, what the model says of them is foreseen, see `answers_to`: if that is wrong for
one, all are searched again, so that little is lost. So many rows lie between two steps of the
progress bar where each may need a solver."""


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
    batch = query.read(inputs)
    n, default = len(batch.codes), query.target.requirement.weight
    is_cheapest = weight is None and held is None and query.piece is None
    if weight is None and default is not None:
        weight = np.full(n, default)
    batch = replace(batch, weight=weight, held=held)
    missing = batch.missing[: 1 if batch.missing.strides[0] == 0 else n] != PRESENT
    out = Counterfactuals(
        table,
        batch.codes,
        np.array(batch.codes),
        np.broadcast_to(missing, batch.codes.shape),
        np.full(n, Status.INVALID.code, np.int8),
        Certificates.blank(n),
        np.zeros(n, dtype=bool),
        batch.problems,
        query.without_data(),
        np.full(n, query.target, dtype=object),
        is_cheapest=is_cheapest,
        model=query.model.model,
    )
    usable = np.ones(n, dtype=bool)
    usable[[*batch.problems]] = False
    cells = CELLS // max(query.features.width, WIDE)
    size = max(64, min(max(cells, ROWS), 4 * cells))
    for start in range(0, n, size):
        rows = start + np.flatnonzero(usable[start : start + size])
        if len(rows):
            _answer_surely(query, batch.take(rows).apart(), out, advance)
    return out


def _answer_surely(
    query: Query, rows: RowBatch, out: Counterfactuals, advance: Callable[[int], None] | None
) -> None:
    """Answer rows of a chunk; one whose arithmetic fails is invalid, and no other is lost with it.

    It is found by halves, so that it alone takes time; the progress of these is not told twice.
    What NumPy makes infinite or NaN instead of failing proves nothing, see `relative`.
    """
    records, target = len(out.proofs), query.target
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            # Of a few rows, and where nothing is demanded, the model is asked in the end alone.
            if not target.demanding:
                _answer(query, rows, np.zeros(len(rows)), out, advance, foreseen=False)
                return
            if len(rows.index) <= FEW and target.requirement.at_least is None:
                with suppress(NotForeseen):
                    _answer(query, rows, query.model.form.predict(rows.x), out, None, foreseen=True)
                    if advance is not None:
                        advance(len(rows.index))
                    return
            predicted = query.model.predict(rows.table)
            query.model.check(rows.x, predicted)
            _answer(query, rows, predicted, out, advance, foreseen=False)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        del out.proofs[records:]
        if len(rows) > 1:
            for half in np.array_split(np.arange(len(rows)), 2):
                _answer_surely(query, rows.take(half).apart(), out, None)
            return
        closed, status = np.zeros(1, dtype=bool), np.full(1, Status.INVALID.code, np.int8)
        out.put(rows.index, rows.codes, status, Certificates.blank(1), closed)
        out.problems[int(rows.index[0])] = (
            "its numbers, with those of the model and the cost, are too large or too small to "
            f"compute with ({error}). Rescale the columns, or the weights of the cost."
        )


def _answer(
    query: Query,
    rows: RowBatch,
    predicted: NDArray[Any],
    out: Counterfactuals,
    advance: Callable[[int], None] | None,
    *,
    foreseen: bool,
) -> None:
    """Find what the target means for each row, write rows that meet it, and search for the others.

    Predictions are ``foreseen`` if the form makes them: `NotForeseen` is raised if a row seems to
    meet the target already, or if the model predicts otherwise in the end.
    """
    answered, progress = np.zeros(predicted.size, dtype=bool), advance or _ignore
    outputs, whole = predicted, query.target
    if whole.requirement.at_least is not None:
        outputs = whole.said(query.model, rows.table)
    for goals in whole.each(predicted, answered):
        searches: list[Search] = []
        for target, positions in goals:
            goal = query if target is whole else query.asking(target=target)
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
        for group in _groups(searches):
            states = [first_search(*search) for search in group]
            ask_about(query, rows, states, predicted if foreseen else None)
            foreseen = False
            for state in states:
                index = state.rows.index
                out.put(index, *settle(state))
                pieces = 1 if state.union.lazy is not None else len(state.union)
                out.keep(index, state.solution.bound_proofs, pieces)
                answered[state.rows.at] = out.certificates.valid[index]
                progress(len(index))
        progress = _ignore


def _ignore(_: int) -> None:
    pass


Search = tuple[Query, RowBatch, Union]
"""What is asked of rows, and the union in which their answers are looked for."""


def _searches(query: Query, rows: RowBatch) -> list[Search]:
    """Split rows into blocks that are searched together; small ones where rows may need a solver.

    Rows on the lattice, for which ties are resolved, come first, in a union of their own.
    """
    n, union = len(rows.index), query.union()
    if not n:
        return []
    on_lattice = np.zeros(n, dtype=bool)
    if query.is_discrete:
        on_lattice = query.on_lattice(rows.x)
    resolved = query.union(on_lattice=True) if on_lattice.any() else union
    is_quick = n > FEW and union.is_quick
    size = max(FEW, PROOFS // max(union.size, 1)) if is_quick else FEW
    searches: list[Search] = []
    for mask, pieces in ((on_lattice, resolved), (~on_lattice, union)):
        positions = np.flatnonzero(mask)
        searched = pieces if query.piece is None else pieces[query.piece : query.piece + 1]
        blocks = [positions[start : start + size] for start in range(0, len(positions), size)]
        searches += [(query, rows.take(block), searched) for block in blocks]
    return searches


def _groups(searches: list[Search]) -> list[list[Search]]:
    """The searches about whose answers the model is asked at once: closed forms, or few rows."""
    if len(searches) < 2:
        return [searches] if searches else []
    groups: list[list[Search]] = []
    count, multipliers = 0, 0
    for search in searches:
        n, union = len(search[1]), search[2]
        is_quick = union.is_quick and multipliers + n * union.size <= PROOFS
        if not groups or (count + n > FEW and not is_quick):
            groups.append([])
            count, multipliers = 0, 0
        groups[-1].append(search)
        count, multipliers = count + n, multipliers + n * union.size
    return groups


def _put_already(query: Query, rows: RowBatch, outputs: NDArray[Any], out: Counterfactuals) -> None:
    """Write rows that meet the target as they are, at no cost."""
    actionable, n = query.actionable, len(rows)
    verdict = query.target.verdict(query.model.form, rows.x, outputs[rows.at], query.eps)
    certificates = certify(actionable, rows.x, actionable.cases(rows.x), verdict, None)
    status = np.full(n, Status.ALREADY.code, np.int8)
    out.put(rows.index, rows.codes, status, certificates, np.ones(n, dtype=bool))
