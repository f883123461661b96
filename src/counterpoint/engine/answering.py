"""The way of rows through the house: predicted, searched, confirmed by the model and certified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Status, certify
from counterpoint.engine.confirm import Confirmation, NotForeseen, Task
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import PRESENT, Encoded, Rows, decode, encode
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table

__all__ = ["answers_to"]

Advance = Callable[[int], None]

CELLS = 1 << 18
"""Cells of a chunk: small enough for the cache, large enough that Python's overhead is
negligible."""
PROOFS = 1 << 25
"""Multipliers that are kept at once, one for each row, piece and demand: 256 MiB of them."""
FORESEEN = 16
"""What the model says is foreseen for at most so many rows of a chunk, see `answers_to`. If that is
wrong for one, all are searched again: few, so that little is lost."""
STEP = 16
"""Rows between two steps of the progress bar where each may need a solver."""


def answers_to(
    task: Task,
    tables: tuple[Table, Table],
    advance: Advance,
    *,
    weight: FloatArray | None = None,
    held: BoolArray | None = None,
) -> Counterfactuals:
    """The answers to all rows of a call, chunk by chunk.

    For a few rows, what the model says of them is foreseen from its form and confirmed together
    with their answers: one call of ``predict`` instead of two.

    Parameters
    ----------
    task
        What is asked of all of them.
    tables
        The rows as they came, and the model's columns of them.
    advance
        Is told how many more rows are done.
    weight
        (n,) what the price counts beside what is charged; None for the weight of the target.
    held
        (n, p) which features of which row must stay; None if none must.
    """
    features, required, (came, inputs) = task.question.features, task.target.requirement, tables
    if required.labels or not required.others:
        _ = task.pieces  # what does not fit is an error, whatever the rows are
    reading = task.model.reading
    encoded = encode(inputs, features, reading.fills, reading.unfilled)
    for i, said in task.target.unusable(encoded.codes, features.names).items():
        encoded.problems.setdefault(i, said)
    if reading.fills:
        encoded.problems.update(_not_filled(task, inputs, encoded))
    out = Counterfactuals.blank(came, encoded, task.question, task.target, task.model.eps(inputs))
    if weight is None and required.weight is not None:
        weight = np.full(len(inputs), required.weight)
    for rows in _chunks(inputs, features, encoded, weight, held):
        if len(rows.x) <= FORESEEN and required.at_least is None:
            with suppress(NotForeseen):
                _answer(task, rows, reading.form.predict(rows.x), out, foreseen=True)
                advance(len(rows.x))
                continue
        predicted = task.model.predict(rows.table)
        task.model.check(rows.x, predicted)
        _answer(task, rows, predicted, out, advance, foreseen=False)
    return out


def _chunks(
    inputs: Table,
    features: Features,
    encoded: Encoded,
    weight: FloatArray | None,
    held: BoolArray | None,
) -> Iterator[Rows]:
    """The rows that can be used, as many at a time as fit the cache."""
    n = len(encoded.codes)
    usable = np.ones(n, dtype=bool)
    usable[list(encoded.problems)] = False
    size = max(64, CELLS // max(features.width, 1))
    for start in range(0, n, size):
        index = start + np.flatnonzero(usable[start : start + size])
        if not len(index):
            continue
        together = index[-1] - index[0] + 1 == len(index)  # then they are not copied
        part = slice(index[0], index[-1] + 1) if together else index
        codes = encoded.codes[part]
        yield Rows(
            index,
            inputs if len(index) == n else inputs.take(part),
            codes,
            features.expand(codes),
            None if weight is None else weight[part],
            None if held is None else held[part],
        )


def _answer(
    task: Task,
    rows: Rows,
    predicted: NDArray[Any],
    out: Counterfactuals,
    advance: Advance | None = None,
    *,
    foreseen: bool,
) -> None:
    """What the target means for each row of a chunk: those that meet it, and a search for others.

    Predictions that are ``foreseen`` the model itself has not said: `NotForeseen` is raised if a
    row seems to meet the target already, or if the model says otherwise in the end.
    """
    n = len(rows.index)
    answered, told = np.zeros(n, dtype=bool), False
    for target, part in task.target.each(predicted, answered):
        one = task if target is task.target else replace(task, target=target)
        some, said = (rows, predicted) if len(part) == n else (rows.take(part), predicted[part])
        tell = None if told else advance
        told = len(part) == n
        out.targets[some.index] = target
        met = target.met(task.model, some.table, some.x, said)
        if met.any():
            x = some.x[met]
            leads = target.leads(task.question, x)
            if leads is not None:  # which count for rows that stay too
                ahead = task.model.form.margin(x, target)
                met[met] = ahead >= leads.required(x, np.zeros(len(x)))
        left = np.flatnonzero(~met)
        if len(left) < len(met):
            if foreseen:
                raise NotForeseen
            _put_already(one, some.take(np.flatnonzero(met)), said[met], out)
            if tell is not None:
                tell(len(met) - len(left))
            some, said = some.take(left), said[left]
        if len(left):
            _ask(one, some, out, tell, said if foreseen else None)
        answered[part] = out.certificates.valid[rows.index[part]]


def _ask(
    task: Task,
    rows: Rows,
    out: Counterfactuals,
    advance: Advance | None,
    foreseen: NDArray[Any] | None,
) -> None:
    """Search and confirm; a few rows at a time where each may need a solver."""
    question, n = task.question, len(rows.x)
    pieces, step = task.pieces, n
    if n > STEP:
        step = max(STEP, PROOFS // max(pieces.size, 1)) if pieces.is_quick else STEP
    on_lattice = question.on_lattice(rows.x)
    for decides in (True, False):
        alike = np.flatnonzero(on_lattice == decides)
        if not len(alike):
            continue
        union = question.decided(task.target, pieces) if decides else pieces
        if task.piece is not None:
            union = union[task.piece : task.piece + 1]
        for start in range(0, len(alike), step):
            part = alike[start : start + step]
            some = rows if len(part) == n else rows.take(part)
            said = None if foreseen is None else foreseen[part]
            answers = Confirmation(task, some, union, out.eps, said).run()
            out.put(some.index, *answers)
            if advance is not None:
                advance(len(part))


def _put_already(task: Task, rows: Rows, predicted: NDArray[Any], out: Counterfactuals) -> None:
    """Rows that meet the target as they are."""
    actionable, n = task.question.actionable, len(rows.index)
    verdict = task.target.verdict(task.model, rows.table, rows.x, predicted, out.eps)
    already = certify(actionable, rows.x, actionable.cases(rows.x), verdict, None)
    status = np.array([Status.ALREADY] * n, dtype=object)
    out.put(rows.index, rows.codes, status, already, np.ones(n, dtype=bool))


def _not_filled(task: Task, inputs: Table, encoded: Encoded) -> dict[int, str]:
    """The rows whose missing cells the model does not take as the values they count as.

    An imputer fills in NaN and passes None on, say. All rows that miss the same cells in the
    same way are alike, so the model is asked about one of each sort, before and after filling.
    """
    features = task.question.features
    usable = (encoded.missing != PRESENT).any(axis=1)
    usable[list(encoded.problems)] = False
    rows = np.flatnonzero(usable)
    if not len(rows):
        return {}
    kinds, first, sort = np.unique(
        encoded.missing[rows], axis=0, return_index=True, return_inverse=True
    )
    asked, after = inputs.take(rows[first]), encoded.codes[rows[first]]
    before = np.where(kinds == PRESENT, after, np.nan)
    filled = decode(asked, features, slice(None), before, after)
    good = task.model.is_indifferent(asked, filled, features.expand(after))
    wrong: dict[int, str] = {}
    for k in np.flatnonzero(~good).tolist():
        row = asked.take(slice(k, k + 1))
        names = [features.names[j] for j in np.flatnonzero(kinds[k])]
        held = ", ".join(f"column {name!r} holds {row.column(name)[0]!r}" for name in names)
        sentence = f"{held}, which the pipeline does not fill in. Fill it in."
        wrong |= dict.fromkeys(rows[sort.ravel() == k].tolist(), sentence)
    return wrong
