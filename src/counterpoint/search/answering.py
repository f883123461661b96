"""The way of rows: predicted, searched, confirmed by the model, and certified."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Certificates, Status, certify
from counterpoint.numerics import BoolArray, FloatArray, as_slice
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import PRESENT, Rows
from counterpoint.rows.table import Table
from counterpoint.search.union import Task, Union
from counterpoint.search.validation import ModelValidation, NotForeseen, ask_about

__all__ = ["answers_to"]

CELLS = 1 << 20
"""Cells of a chunk: 8 MiB, a compromise between the cache and what a call of ``predict`` takes
whatever the number of its rows, which is a millisecond on a frame."""
WIDE = 4
"""Rows take so many numbers at least: with few columns, what is known of them takes more."""
PROOFS = 1 << 25
"""Multipliers that are kept at once, one for each row, piece and demand: 256 MiB of them."""
FEW = 16
"""For so many rows, what the model says of them is foreseen, see `answers_to`: if that is wrong for
one, all are searched again, so that little is lost. So many rows lie between two steps of the
progress bar where each may need a solver."""


def answers_to(
    task: Task,
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
    (came, inputs), features = tables, task.question.features
    encoded = task.encoded(inputs)
    codes, n = encoded.codes, len(encoded.codes)
    missing = encoded.missing[: 1 if encoded.missing.strides[0] == 0 else n] != PRESENT
    required, usable = task.target.requirement, np.ones(n, dtype=bool)
    usable[[*encoded.problems]] = False
    cheapest = weight is None and held is None and task.piece is None
    if weight is None and required.weight is not None:
        weight = np.full(n, required.weight)
    out = Counterfactuals(
        came,
        codes,
        np.array(codes),
        np.broadcast_to(missing, codes.shape),
        np.full(n, Status.INVALID.code, np.int8),
        Certificates.blank(n),
        np.zeros(n, dtype=bool),
        encoded.problems,
        task.question,
        np.full(n, task.target, dtype=object),
        task.eps,
        effort=task.effort if cheapest else None,
        fills=task.model.fills,
    )
    size = max(64, CELLS // max(features.width, WIDE))
    for start in range(0, n, size):
        index = start + np.flatnonzero(usable[start : start + size])
        if not len(index):
            continue
        part = as_slice(index)  # which is not copied
        codes = encoded.codes[part]
        rows = Rows(
            index,
            np.arange(len(index)),
            inputs if len(index) == n else inputs.take(part),
            codes,
            codes if features.all_numeric else features.expand(codes),
            None if weight is None else weight[part],
            None if held is None else held[part],
        )
        _answer_surely(task, rows, out, advance)
    return out


def _answer_surely(
    task: Task, rows: Rows, out: Counterfactuals, advance: Callable[[int], None] | None
) -> None:
    """`_answer_chunk`, but a row whose arithmetic fails is invalid, and no other is lost with it.

    It is found by halves, so that it alone takes time; the progress of these is not told twice.
    What NumPy makes infinite or NaN instead of failing proves nothing, see `relative`.
    """
    records = len(out.kept)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            _answer_chunk(task, rows, out, advance)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        del out.kept[records:]
        if len(rows) > 1:
            for part in np.array_split(np.arange(len(rows)), 2):
                half = rows.take(part)
                table = rows.table.take(half.at)
                _answer_surely(task, replace(half, at=np.arange(len(part)), table=table), out, None)
            return
        out.put(
            rows.index,
            rows.codes,
            np.full(1, Status.INVALID.code, np.int8),
            Certificates.blank(1),
            np.zeros(1, dtype=bool),
        )
        out.problems[int(rows.index[0])] = (
            "its numbers, with those of the model and the cost, are too large or too small to "
            f"compute with ({error}). Rescale the columns, or the weights of the cost."
        )


def _answer_chunk(
    task: Task, rows: Rows, out: Counterfactuals, advance: Callable[[int], None] | None
) -> None:
    """What the model says of some rows, and the answers to them."""
    if not task.target.demanding:  # then nothing depends on what the model says
        _answer(task, rows, np.zeros(len(rows)), out, advance, foreseen=False)
        return
    if rows.index.size <= FEW and task.target.requirement.at_least is None:
        with suppress(NotForeseen):
            _answer(task, rows, task.model.form.predict(rows.x), out, None, foreseen=True)
            if advance is not None:
                advance(len(rows))
            return
    predicted = task.model.predict(rows.table)
    task.model.check(rows.x, predicted)
    _answer(task, rows, predicted, out, advance, foreseen=False)


def _answer(
    task: Task,
    rows: Rows,
    predicted: NDArray[Any],
    out: Counterfactuals,
    advance: Callable[[int], None] | None,
    *,
    foreseen: bool,
) -> None:
    """What the target means for each row of a chunk: those that meet it, and a search for others.

    Predictions that are ``foreseen`` the model itself has not said: `NotForeseen` is raised if a
    row seems to meet the target already, or if the model says otherwise in the end.
    """
    answered, said, tell = np.zeros(predicted.size, dtype=bool), predicted, advance or _nobody
    if task.target.requirement.at_least is not None:
        said = task.target.said(task.model, rows.table)
    for parts in task.target.each(predicted, answered):
        searches: list[Search] = []
        for target, part in parts:
            one = task if target is task.target else replace(task, target=target)
            some = rows.take(part)
            out.targets[some.index] = target
            satisfied = one.already_satisfied(some.x, said[some.at])
            if satisfied.any():
                if foreseen:
                    raise NotForeseen
                _put_already(one, some.take(np.flatnonzero(satisfied)), said, out)
                tell(int(satisfied.sum()))
                some = some.take(np.flatnonzero(~satisfied))
            searches += _searches(one, some)
        for group in _together(searches):
            found = [ModelValidation(*each) for each in group]
            ask_about(task, rows, found, predicted if foreseen else None)
            foreseen = False
            for each in found:
                index = each.rows.index
                out.put(index, *each.run())
                pieces = 1 if each.pieces.lazy is not None else len(each.pieces)
                out.keep(index, each.found.kept, pieces)
                answered[each.rows.at] = out.certificates.valid[index]
                tell(len(index))
        tell = _nobody


def _nobody(_: int) -> None:
    """Who is told how many rows are done, if nobody is."""


Search = tuple[Task, Rows, Union]
"""What is asked of some rows, and the union in which their answers are looked for."""


def _searches(task: Task, rows: Rows) -> list[Search]:
    """Which rows are searched together, in which union; few where each may need a solver."""
    n = rows.index.size
    if not n:
        return []
    pieces, step, left = task.pieces, FEW, np.arange(n)
    unions = [(pieces, left)]
    if task.question.is_discrete:
        whole = task.question.on_lattice(rows.x)
        unions = [(pieces, left[~whole])]
        if whole.any():
            unions.insert(0, (task.question.ties_resolved(task.target, pieces), left[whole]))
    if n > FEW and pieces.is_quick:
        step = max(FEW, PROOFS // max(pieces.size, 1))
    out: list[Search] = []
    for union, alike in unions:
        some = union if task.piece is None else union[task.piece : task.piece + 1]
        out += [(task, rows.take(alike[i : i + step]), some) for i in range(0, len(alike), step)]
    return out


def _together(searches: list[Search]) -> list[list[Search]]:
    """The searches about whose answers the model is asked at once: closed forms, or few rows."""
    if len(searches) < 2:
        return [searches] if searches else []
    out: list[list[Search]] = []
    count, kept = 0, 0
    for each in searches:
        n, pieces = each[1].index.size, each[2]
        quick = pieces.is_quick and kept + n * pieces.size <= PROOFS
        if not out or (count + n > FEW and not quick):
            out.append([])
            count, kept = 0, 0
        out[-1].append(each)
        count, kept = count + n, kept + n * pieces.size
    return out


def _put_already(task: Task, rows: Rows, said: NDArray[Any], out: Counterfactuals) -> None:
    """Rows that meet the target as they are."""
    actionable, n = task.question.actionable, rows.index.size
    verdict = task.target.verdict(task.model.form, rows.x, said[rows.at], task.eps)
    already = certify(actionable, rows.x, actionable.cases(rows.x), verdict, None)
    status = np.full(n, Status.ALREADY.code, np.int8)
    out.put(rows.index, rows.codes, status, already, np.ones(n, dtype=bool))
