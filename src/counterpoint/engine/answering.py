"""The way of rows: predicted, searched, confirmed by the model, and certified.

A row that the model does not confirm as returned (a tie, float32, rounding) is searched again with
a larger margin; no point is ever pushed out of its constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import (
    CLOSED,
    VIOLATION,
    Certificates,
    Status,
    certify,
    judge,
    lower_bounds,
)
from counterpoint.engine.pieces import Pieces, Question
from counterpoint.engine.search import Found, Leads, search
from counterpoint.engine.span import CELLS as SPAN_CELLS
from counterpoint.engine.span import FRAMES, InSpan
from counterpoint.models.reading import Reading
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray, WordArray, as_slice
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import PRESENT, Encoded, Rows, as_returned, decode, encode
from counterpoint.rows.table import Table
from counterpoint.solvers import Effort
from counterpoint.targets import Target, Verdict

__all__ = ["SINGLE", "SPARE", "Task", "answers_to", "encoded_rows"]

CELLS = 1 << 18
"""Cells of a chunk: small enough for the cache, large enough that Python's overhead is
negligible."""
PRODUCTS = 1 << 16
"""So many products make up the scores of all rows at least, or a search in their span costs more
than it saves."""
WIDE = 4
"""Rows take so many numbers at least: with few columns, what is known of them takes more."""
PROOFS = 1 << 25
"""Multipliers that are kept at once, one for each row, piece and demand: 256 MiB of them."""
FEW = 16
"""For so many rows, what the model says of them is foreseen, see `answers_to`: if that is wrong for
one, all are searched again, so that little is lost. So many rows lie between two steps of the
progress bar where each may need a solver."""
ROUNDS = 12
"""How often a row whose answer the model does not confirm is searched again."""
GROWTH = 8.0
"""How many times as much margin a row gets each time. `ROUNDS` of them make up 7e10: from rounding
errors, a relative 1e-16, to 1e-5."""
SPARE = 1.5
"""The margin that is asked for, in units of the model's rounding error at the row: 1.5 and not 1,
because the error at the answer may exceed the error at the row, and solvers and float32 columns
round the answer."""
SINGLE = 8.0 * float(np.finfo(np.float32).eps)
"""Largest relative violation of a constraint that counts as rounding in float32 columns, of
which `VIOLATION` is less than one."""
HAIR = 1e-14
"""A share of a row's change, or of a value, that is rounding and no change: some fifty roundings of
float64."""
NEARBY = 1.0 + 1e-3
"""How many times as much an answer off the edge may cost; what costs more is taken for a point
elsewhere."""


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is asked of all rows of a call."""

    model: Reading
    question: Question  # what is asked of each row but the target
    target: Target
    effort: Effort
    eps: float  # from 1 to the next number where the model computes, or rows are kept
    piece: int | None = None  # the one piece of the target in which to search; None for all
    span: InSpan | None = None  # the rows of which these are coordinates, if they are

    @cached_property
    def pieces(self) -> Pieces:
        """The programs whose union is the target."""
        return self.question.pieces(self.target)


@final
class NotForeseen(Exception):
    """`predict` and the form disagree on whether a factual row already meets the target (a tie)."""


def answers_to(
    task: Task,
    tables: tuple[Table, Table],
    advance: Callable[[int], None] | None = None,
    *,
    weight: FloatArray | None = None,
    held: BoolArray | None = None,
    into: Counterfactuals | None = None,
) -> Counterfactuals:
    """The answers to all rows of a call, as they came and the model's columns of them.

    For a few rows, what the model says of them is foreseen from its form and confirmed together
    with their answers: one call of ``predict`` instead of two. ``advance`` is told how many more
    rows are done; ``weight`` (n,) is what the price counts beside what is charged, by default the
    target's; ``held`` (n, p) says which features of which row must stay. What becomes of rows is
    written into the columns of others ``into``, if there are any: those that can be used there.
    """
    (came, inputs), features = tables, task.question.features
    spanned = None if held is not None else _in_span(task, inputs)
    encoded = encoded_rows(task, inputs, spanned)
    codes, n = encoded.codes, len(encoded.codes)
    missing = encoded.missing[: 1 if encoded.missing.strides[0] == 0 else n] != PRESENT
    required, usable = task.target.requirement, np.ones(n, dtype=bool)
    usable[[*encoded.problems, *(into.problems if into else ())]] = False
    cheapest = weight is None and held is None and task.piece is None and task.span is None
    if weight is None and required.weight is not None:
        weight = np.full(n, required.weight)
    after = np.array(codes) if spanned is None else spanned.answers
    rows_of = came, codes, after, np.broadcast_to(missing, codes.shape)
    out = _blank(task, rows_of, encoded.problems, into, cheapest=cheapest)
    if spanned is not None:
        usable &= ~_answer_in_span(task, spanned, out, weight, advance)
    size = max(64, CELLS // max(features.width, WIDE))
    if task.span is not None:  # the model is asked about whole blocks
        size = task.span.block * max(1, size // task.span.block)
    for start in range(0, n, size):
        index = start + np.flatnonzero(usable[start : start + size])
        if not len(index):
            continue
        together = index[-1] - index[0] + 1 == len(index)  # then they are not copied
        part = slice(index[0], index[-1] + 1) if together else index
        codes = encoded.codes[part]
        rows = Rows(
            index,
            inputs if len(index) == n else inputs.take(part),
            codes,
            codes if features.all_numeric else features.expand(codes),
            None if weight is None else weight[part],
            None if held is None else held[part],
        )
        _answer_chunk(task, rows, out, advance)
    return out


def _in_span(task: Task, inputs: Table) -> InSpan | None:
    """The rows in coordinates of the span in which answers move, if that is much less to look at.

    Their finite lengths say that all values are finite.
    """
    question, model, matrix = task.question, task.model, inputs.float_matrix
    span = None if matrix is None or task.span is not None else question.span
    if matrix is None or span is None:
        return None
    if len(matrix) * span.matrix.size < PRODUCTS:
        return None
    if question.features.width <= 2 * span.question.features.width:
        return None

    def as_input(rows: IntArray | slice, full: FloatArray) -> Any:
        return inputs.with_matrix(rows, full).to_model_input(named=model.named)

    cells = FRAMES * SPAN_CELLS if model.named else SPAN_CELLS
    options: dict[str, Any] = {"exactly": task.target.demanding, "cells": cells}
    rows = InSpan.of(span, model.model, matrix, keep=True, as_input=as_input, **options)
    if np.isfinite(rows.length).all():
        return rows
    codes = encode(inputs, question.features, model.fills, model.unfilled).codes
    return InSpan.of(span, model.model, codes, keep=True, as_input=as_input, **options)


def encoded_rows(task: Task, inputs: Table, spanned: InSpan | None = None) -> Encoded:
    """Codes of rows, and why some cannot be used; what does not fit is an error in any case."""
    features, reading, required = task.question.features, task.model, task.target.requirement
    matrix = inputs.float_matrix
    if matrix is not None and spanned is not None and spanned.X is matrix:
        encoded = Encoded.of_numbers(matrix)
    else:
        encoded = encode(inputs, features, reading.fills, reading.unfilled)
    problems = task.target.unusable(encoded.codes, features.names)
    encoded.problems.update(problems | encoded.problems)
    if required.labels or not required.others:
        asked = task.question if spanned is None else spanned.span.question
        asked.pieces(task.target)
    if reading.fills:
        encoded.problems.update(_not_filled(task, inputs, encoded))
    return encoded


def _blank(
    task: Task,
    rows: tuple[Table, FloatArray, FloatArray, BoolArray],
    problems: dict[int, str],
    into: Counterfactuals | None,
    *,
    cheapest: bool,
) -> Counterfactuals:
    """No answers yet, to rows as they came with their codes before and after, and missing cells."""
    n = len(rows[1])
    if into is None:
        statuses, closed = np.full(n, Status.INVALID.code, np.int8), np.zeros(n, dtype=bool)
        columns = statuses, Certificates.blank(n), closed
        targets = np.full(n, task.target, dtype=object)
        kept, effort = [], task.effort if cheapest else None
    else:
        columns, targets = (into.statuses, into.certificates, into.closed_form), into.targets
        kept, effort = into.kept, into.effort
    asked = task.question, targets, task.eps
    return Counterfactuals(*rows, *columns, problems, *asked, {}, effort, task.model.fills, kept)


def _answer_in_span(
    task: Task,
    rows: InSpan,
    out: Counterfactuals,
    weight: FloatArray | None,
    advance: Callable[[int], None] | None,
) -> BoolArray:
    """(n,): which rows are answered by what is asked in coordinates of their span.

    Others are left, as they came: those that are not settled there, whose cost is not known to the
    last digits, or whose answer is not the last one about which the model was asked.
    """
    asked = replace(task, model=rows.reading(task.model), question=rows.span.question, span=rows)
    table = rows.table
    found = answers_to(asked, (table, table), advance, weight=weight, into=out)
    stays = found.statuses == Status.ALREADY.code
    optimal = (found.statuses == Status.OPTIMAL.code) & rows.were_asked(found.after)
    done = stays | (optimal & (rows.misses(found.cost) <= CLOSED))
    rows.stay(stays, done)
    return done


def _answer_chunk(
    task: Task, rows: Rows, out: Counterfactuals, advance: Callable[[int], None] | None
) -> None:
    """What the model says of some rows, and the answers to them."""
    if not task.target.demanding:  # then nothing depends on what the model says
        _answer(task, rows, np.zeros(len(rows)), out, advance, foreseen=False)
        return
    if len(rows) <= FEW and task.target.requirement.at_least is None:
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
    answered, said, tell = np.zeros(len(rows), dtype=bool), predicted, advance or _nobody
    if task.target.requirement.at_least is not None:
        said = task.target.said(task.model, rows.table)
    for parts in task.target.each(predicted, answered):
        searches = []
        for target, part in parts:
            one = task if target is task.target else replace(task, target=target)
            out.targets[rows.index[part]] = target
            here = as_slice(part)
            met = _staying(one, rows.x[here], said[here])
            if met.any():
                if foreseen:
                    raise NotForeseen
                _put_already(one, rows, part[met], said, out)
            searches += _searches(one, rows, part[~met])
        count = sum(len(part) for _, part in parts) - sum(len(part) for _, part, _ in searches)
        tell(count)
        for some in _together(searches):
            found = [Confirmation(one, rows, part, pieces) for one, part, pieces in some]
            _ask_about(task, rows, found, predicted if foreseen else None)
            foreseen = False
            for each in found:
                index = rows.index[each.part]
                out.put(index, *each.run())
                out.keep(index, each.found.evidence, len(each.pieces.listed))
                answered[each.part] = out.certificates.valid[index]
            tell(sum(len(each.part) for each in found))
        tell = _nobody


def _nobody(_: int) -> None:
    """Who is told how many rows are done, if nobody is."""


def _staying(task: Task, x: FloatArray, said: NDArray[Any]) -> BoolArray:
    """(n,): which rows meet the target as they are, by as much as is asked of rows that stay."""
    met = task.target.met(task.model.form, x, said)
    if met.any():
        here = x[met]
        leads = task.target.leads(task.question, here)
        if leads is not None:
            required = leads.required(here, np.zeros(len(here)))
            met[met] = task.model.form.margin(here, task.target) >= required
    return met


def _searches(task: Task, rows: Rows, left: IntArray) -> list[tuple[Task, IntArray, Pieces]]:
    """Which rows are searched together, in which union; few where each may need a solver."""
    if not len(left):
        return []
    pieces, step, unions = task.pieces, FEW, [(task.pieces, left)]
    if task.question.is_discrete:
        whole = task.question.on_lattice(rows.x[left])
        unions = [(pieces, left[~whole])]
        if whole.any():
            unions.insert(0, (task.question.decided(task.target, pieces), left[whole]))
    if len(left) > FEW and pieces.is_quick:
        step = max(FEW, PROOFS // max(pieces.size, 1))
    out: list[tuple[Task, IntArray, Pieces]] = []
    for union, alike in unions:
        some = union if task.piece is None else union[task.piece : task.piece + 1]
        out += [(task, alike[i : i + step], some) for i in range(0, len(alike), step)]
    return out


def _together(
    searches: list[tuple[Task, IntArray, Pieces]],
) -> list[list[tuple[Task, IntArray, Pieces]]]:
    """The searches about whose answers the model is asked at once: closed forms, or few rows."""
    out: list[list[tuple[Task, IntArray, Pieces]]] = []
    count, kept = 0, 0
    for each in searches:
        rows, size = len(each[1]), len(each[1]) * each[2].size
        quick = each[2].is_quick and kept + size <= PROOFS
        if not out or (count + rows > FEW and not quick):
            out.append([])
            count, kept = 0, 0
        out[-1].append(each)
        count, kept = count + rows, kept + size
    return out


def _put_already(
    task: Task, rows: Rows, met: IntArray, said: NDArray[Any], out: Counterfactuals
) -> None:
    """Rows that meet the target as they are."""
    actionable, here = task.question.actionable, as_slice(met)
    x = rows.x[here]
    verdict = task.target.verdict(task.model.form, x, said[here], task.eps)
    already = certify(actionable, x, actionable.cases(x), verdict, None)
    status = np.full(len(met), Status.ALREADY.code, np.int8)
    out.put(rows.index[here], rows.codes[here], status, already, np.ones(len(met), dtype=bool))


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


def _ask_about(
    task: Task, rows: Rows, searches: list[Confirmation], foreseen: NDArray[Any] | None
) -> None:
    """Ask the model about the first answers of some searches, which are of one kind, in one table.

    What is ``foreseen`` of the factual rows, if it has not been asked about them, it is asked
    together with their answers: `NotForeseen` is raised if it gives one of them the target already.
    """
    which, codes, places = _joined(rows, searches)
    if not len(which):  # there is no answer at all
        if foreseen is not None:
            _compare(rows, searches, foreseen, task.model.predict(rows.table))
        for each in searches:
            each.answer(codes, each.x[:0], Verdict.none(0))
        return
    here = as_slice(which)
    returned, codes, y = as_returned(
        rows.table, task.question.features, here, rows.codes[here], codes
    )
    if foreseen is None:
        said = task.target.said(task.model, returned)
    else:
        said, factual = np.split(task.model.predict(returned, rows.table), [len(which)])
        _compare(rows, searches, foreseen, factual)
    for each, place in zip(searches, places, strict=True):
        own, point = codes[place], y[place]
        verdict = each.verdict_of(each.proposed[0], returned, own, point, said[place])
        each.answer(own, point, verdict)


def _joined(
    rows: Rows, searches: list[Confirmation]
) -> tuple[IntArray, FloatArray, list[IntArray | slice]]:
    """Which of the rows have an answer, their codes, and where those of each search are there."""
    found = [(each.part[each.proposed[0]], each.proposed[1]) for each in searches]
    if len(found) == 1:
        return *found[0], [slice(None)]
    codes, asked = np.empty_like(rows.codes), np.zeros(len(rows), dtype=bool)
    for part, some in found:
        codes[part], asked[part] = some, True
    which = np.flatnonzero(asked)
    if len(which) == len(rows):
        return which, codes, [as_slice(part) for part, _ in found]
    return which, codes[which], [as_slice(np.searchsorted(which, part)) for part, _ in found]


def _compare(
    rows: Rows,
    searches: list[Confirmation],
    foreseen: NDArray[Any],
    predicted: NDArray[Any],
) -> None:
    """What was foreseen of the factual rows with what the model predicts."""
    if (foreseen == predicted).all():
        return
    searches[0].task.model.check(rows.x, predicted, foreseen)
    for each in searches:
        if _staying(each.task, each.x, predicted[each.part]).any():
            raise NotForeseen


@final
class Confirmation:
    """Answers to a part of some rows, from a union of programs, that the model confirms."""

    def __init__(self, task: Task, rows: Rows, part: IntArray, pieces: Pieces) -> None:
        self.task, self.rows, self.part, self.pieces, self.eps = task, rows, part, pieces, task.eps
        self.features, here = task.question.features, as_slice(part)
        self.before, self.x = rows.codes[here], rows.x[here]
        self.leads: Leads | None = task.target.leads(task.question, self.x)
        # A bound by weak duality holds for any margin. What a branch and bound reports holds for
        # its own margin only; so there only those rows are tightened at which a tie is lost, by
        # less than the rounding error of a score.
        integral = pieces.is_integral
        rounding = task.target.requirement.rounding(
            task.model.form, self.x, EPS if integral else task.eps
        )
        self.margin = np.zeros((len(part), 2))
        self.margin[:, int(integral)] = SPARE * rounding
        self.cases = task.question.actionable.cases(self.x, np.array(self.margin))
        if rows.weight is not None:
            self.cases = self.cases.weighing(0.5 * rows.weight[here])
        if rows.held is not None:
            width = [block.stop - block.start for block in self.features.blocks]
            self.cases = self.cases.holding(np.repeat(rows.held[here], width, axis=1), self.x)
        self.found = search(pieces, self.cases, task.effort, self.leads)
        if (self.found.piece < 0).any():
            self._without_margin()
        self.exact = np.array(self.found.points)  # before they become rows
        self.proposed = self._proposed(np.arange(len(part)), self.found)

    def run(self) -> tuple[FloatArray, WordArray, Certificates, BoolArray]:
        """Search again for all rows whose answers are not confirmed, and certify what there is.

        (n, p) codes of the answers, the factual codes where there is none; (n,) what became of each
        row, what the answers are worth, and whether closed forms settled the row.
        """
        found, effort, target = self.found, self.task.effort, self.task.target
        if target.demanding and not self.verdict.leads.all():
            self._search_again()
        resolution = SINGLE if self.rows.table.singles else VIOLATION
        asked, (y, verdict) = self.pieces.asked, (self.y, self.verdict)
        margin, stretch, span = None, 0.0, self.task.span
        if span is not None:
            price = asked.objective(y, self.cases) / self.cases.weights
            margin, stretch = span.slack(self.before[:, -1], price), span.span.stretch
        certificates = certify(
            asked,
            y,
            self.cases,
            verdict,
            found.evidence,
            gap=effort.gap,
            resolution=resolution,
            margin=margin,
            stretch=stretch,
        )
        if span is not None:  # the margins allow for points that cost no more than the answers
            short = ~verdict.valid & np.isfinite(certificates.bound)
            certificates.bound[short] = 0.0
        answered = certificates.holds
        if not answered.all():
            self.after[~answered] = self.before[~answered]
            certificates = certificates.withheld(~answered, target.promise)
        optimal = answered & (certificates.gap <= effort.gap)
        left = answered & ~optimal
        if left.any() and target.demanding and (self.eps > EPS or self.pieces.jumps):
            leading, claim = self._optimal_among_leading(left)
            certificates.claims[leading] = claim[leading]
            optimal |= leading
        # Without a limit of time, a branch and bound may still have run out of nodes.
        limited = found.limited & (effort.seconds is not None)
        return self.after, judge(certificates, optimal, limited), certificates, found.closed

    def _search(self, rows: IntArray, margin: FloatArray, held: BoolArray | None = None) -> Found:
        """The cheapest points of some rows with other margins, perhaps with entries held."""
        cases = self.cases.take(rows).with_margin(margin)
        if held is not None:
            cases = cases.holding(held, self.exact[rows])
        leads = None if self.leads is None else self.leads.take(rows)
        return search(self.pieces, cases, self.task.effort, leads)

    def _without_margin(self) -> None:
        """Rows for which the first margin left nothing, though nothing refutes them: without it."""
        found = self.found
        lost = np.flatnonzero((found.piece < 0) & ~found.limited & self.margin.any(axis=1))
        if len(lost):
            bound = lower_bounds(found.evidence, np.full(len(found.piece), np.inf))[0]
            lost = lost[np.isfinite(bound[lost])]
        if len(lost):
            self.margin[lost] = 0.0
            again = self._search(lost, self.margin[lost])
            found.points[lost], found.piece[lost] = again.points, again.piece
            found.limited[lost] = again.limited

    def _search_again(self) -> None:
        """Rows that the model does not confirm, or that do not lead by enough: larger margins.

        A tie of whole columns and categories that the model confirms is an answer, for the next
        point of their lattice is far; only other columns are moved to take it off the edge. A row
        is ``left`` until a larger margin does not improve an answer that the model confirms; those
        that are ``near`` keep their whole columns and categories.
        """
        found, verdict, margin = self.found, self.verdict, self.margin
        integral, left = self.pieces.is_integral, found.piece >= 0
        smooth = np.full(len(left), not integral) | self.pieces.moves_smoothly(self.cases)
        for k in range(ROUNDS):
            again = np.flatnonzero(left & ~np.where(smooth, verdict.leads, verdict.valid))
            near = integral & (verdict.valid[again] | (k == 0))
            here = near | ~found.limited[again]
            again, near = again[here], near[here]
            if not len(again):
                return
            valid = verdict.valid[again]
            asked = margin[again, 0]
            short = np.nan_to_num(np.maximum(asked - verdict.margin[again], 0.0))
            grown = np.where(valid & (k == 0), asked, GROWTH * asked)
            margin[again, 0] = np.maximum(grown, SPARE * verdict.rounding[again]) + short
            for part, look in ((near, self._off_the_edge), (~near, self._search)):
                rows = again[part]
                if len(rows):
                    better = self._keep_better(rows, look(rows, margin[rows, 0]))
                    left[rows[valid[part] & ~better]] = False

    def _keep_better(self, rows: IntArray, other: Found) -> BoolArray:
        """Write the answers of another search that lead by more, or alone are confirmed; which."""
        here, codes = self._proposed(rows, other)
        which, valid = rows[here], self.verdict.valid[rows]
        better, told = np.zeros(len(rows), dtype=bool), np.flatnonzero(~valid)
        self.verdict.put(rows[told], Verdict.none(len(told)))
        if not len(here):
            return better
        table = self.rows.table
        asked = as_returned(table, self.features, self.part[which], self.before[which], codes)
        said = self.verdict_of(which, *asked, self.task.target.said(self.task.model, asked[0]))
        ahead = said.valid & (~valid[here] | (said.margin > self.verdict.margin[which]))
        kept, better[here] = which[ahead], ahead
        _, codes, y = asked
        self.after[kept], self.y[kept] = codes[ahead], y[ahead]
        self.exact[kept] = other.points[better]
        heard = ahead | ~valid[here]
        self.verdict.put(which[heard], said, heard)
        return better

    def _off_the_edge(self, rows: IntArray, margin: FloatArray) -> Found:
        """The same answers with a margin: whole columns and categories held, the others free."""
        actionable, points = self.task.question.actionable, self.exact[rows]
        x = self.x[rows]
        off = self._search(rows, margin, actionable.held(points, x))
        # Where a target is not convex the search may end elsewhere; that is no way off the edge.
        if any(piece.program.nonconvex for piece in self.pieces.listed):
            astray = actionable.cost(off.points, x) > actionable.cost(points, x) * NEARBY
            off.points[astray], off.piece[astray] = np.nan, -1
        return off

    def _proposed(self, rows: IntArray, found: Found) -> tuple[IntArray, FloatArray]:
        """Which of some rows have a point that the model takes, and their (m, p) codes."""
        points = found.points
        here = np.flatnonzero(~np.isnan(points[:, 0]))
        if self.eps > EPS:
            here = here[~self.task.model.overflows(points[here], self.eps)]
        if not len(here):
            return here, np.empty((0, len(self.features)))
        self._snap(found, here, rows)
        codes = points[as_slice(here)]
        if not self.features.all_numeric:
            codes = self.features.compress(codes)
        return here, self._representable(codes, rows[here])

    def answer(self, codes: FloatArray, y: FloatArray, said: Verdict) -> None:
        """Take what was ``proposed`` as it is returned, and what the model says of it."""
        n, rows = len(self.part), self.proposed[0]
        self.after, self.y, self.verdict = codes, y, said
        if len(rows) < n:
            self.after, self.y = np.array(self.before), np.array(self.x)
            self.after[rows], self.y[rows], self.verdict = codes, y, Verdict.none(n)
            self.verdict.put(rows, said)

    def verdict_of(
        self, rows: IntArray, returned: Table, codes: FloatArray, y: FloatArray, said: NDArray[Any]
    ) -> Verdict:
        """What the model says of some rows, and whether they lead by what is asked for."""
        model, target = self.task.model, self.task.target
        verdict = target.verdict(model.form, y, said, self.eps)
        if not (target.demanding or verdict.valid.all()):
            model.check(y, model.predict(returned))
        if self.leads is None:
            return verdict
        cost = self.task.question.actionable.cost(y, self.x[rows])
        margin = verdict.margin - self.leads.take(rows).required(y, cost)
        return replace(verdict, valid=verdict.valid & (margin >= 0.0), margin=margin)

    def _representable(self, codes: FloatArray, which: IntArray) -> FloatArray:
        """Numbers of float32 columns rounded to float32, towards the inside of their bounds."""
        if not self.rows.table.singles:
            return codes
        cases, codes = self.cases.take(which), np.array(codes)
        for j in self.rows.table.singles:
            if self.features.is_numeric[j]:
                column = self.features.blocks[j].start
                low, high = cases.low[:, column], cases.high[:, column]
                single = codes[:, j].astype(np.float32)
                down, up = (np.nextafter(single, np.float32(way)) for way in (-np.inf, np.inf))
                codes[:, j] = np.where(single > high, down, np.where(single < low, up, single))
        return codes

    def _snap(self, found: Found, here: IntArray, rows: IntArray) -> None:
        """Values that solvers left a hair from the factual value, or a bound, put onto it."""
        solved = here[~found.closed[here]]
        if not len(solved):
            return
        cases, price, which = self.cases, self.task.question.price, rows[solved]
        x, y = cases.x[which], found.points[solved]
        length = (price.absolute + np.sqrt(price.diagonal)) * np.abs(y - x)
        y = np.where(length <= HAIR * length.max(axis=1, keepdims=True), x, y)
        if not cases.unbounded:
            hair = HAIR * (np.abs(x) + np.abs(y))
            for bound in (cases.low[which], cases.high[which]):
                y = np.where(np.abs(y - bound) <= hair, bound, y)
        found.points[solved] = y

    def _optimal_among_leading(self, rows: BoolArray) -> tuple[BoolArray, WordArray]:
        """(n,): which answers are optimal among the points that lead by what was asked for.

        In float32, and where scores have steps, a lead by the rounding error may cost more than
        the gap; so may the rounding of the answer to its column, which is left out here.
        """
        found, gap = self.found, self.task.effort.gap
        here = self.task.target.requirement.rounding(self.task.model.form, self.x, self.eps)
        rounding = np.maximum(here, self.verdict.rounding)
        asked = np.minimum(self.margin[:, 0], SPARE * rounding)
        both = np.stack([asked, np.zeros_like(asked)], axis=1)
        worth = np.where(rows, self.pieces.asked.objective(self.exact, self.cases), np.inf)
        bound, claim = lower_bounds(found.evidence, worth, gap, both)
        optimal = np.asarray(rows & (worth * (1.0 - gap) <= bound))
        left = np.flatnonzero(rows & ~optimal & ~found.limited)
        if self.pieces.is_integral and len(left):  # what was reported holds without a margin
            again = self._search(left, asked[left])
            bound, claim[left] = lower_bounds(again.evidence, worth[left], gap, both[left])
            optimal[left] = worth[left] * (1.0 - gap) <= bound
        return optimal, claim
