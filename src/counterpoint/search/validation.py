"""Confirmation: answers are decoded as they will be returned, and the model itself is asked.

A row that the model does not confirm as returned (a tie, float32, rounding) is searched again with
a larger margin; no point is ever pushed out of its constraints.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Certificates, Claim, certify, judge, lower_bounds, relative_gap
from counterpoint.numerics import (
    CLOSED,
    EPS,
    SINGLE,
    VIOLATION,
    BoolArray,
    FloatArray,
    IntArray,
    WordArray,
    as_slice,
    clock,
)
from counterpoint.problem.targets import Validation
from counterpoint.rows.encoding import RowBatch, as_returned
from counterpoint.rows.table import Table
from counterpoint.search.query import Task
from counterpoint.search.search import Found, SafetyMargins, Union, search
from counterpoint.search.witnesses import TRIED, Witness, Witnesses, shortened
from counterpoint.solvers.base import Effort

__all__ = ["SPARE", "ModelValidation", "NotForeseen", "ask_about"]

ROUNDS = 12
"""How often a row whose answer the model does not confirm is searched again."""
GROWTH = 8.0
"""How many times as much margin a row gets each time. `ROUNDS` of them make up 7e10: from rounding
errors, a relative 1e-16, to 1e-5."""
SPARE = 2.0
"""The margin that is asked for, in units of the model's rounding error at the row: 2 and not 1,
because the error at the answer may exceed the error at the row, and solvers and float32 columns
round the answer. Rows that do not lead by as much are searched again, at 1.5 some in each batch."""
HAIR = 1e-14
"""A share of a row's change, or of a value, that is rounding and no change: some fifty roundings of
float64."""
NEARBY = 1.0 + 1e-3
"""How many times as much an answer off the edge may cost; what costs more is taken for a point
elsewhere."""

FEW = 16
"""So many rows that closed forms settle are compared with rows of the data; of more, only those
without an answer, where whole steps or categories were branched on."""
LATE = 0.05
"""The share of a row's time in which it is answered by witnesses, or moved off the edge, when that
may have run out."""
NOBODY = Witness(np.empty((0, 0)), np.empty(0))
CONTRADICTED = (
    "What was proved of a row is contradicted by a point near a row of data=, to which the model "
    "gives the target at a cost of {cost:.6g}. The row is returned as unproved; please report it."
)


@final
class NotForeseen(Exception):
    """`predict` and the form disagree on whether a factual row already meets the target (a tie)."""


def ask_about(
    task: Task, rows: RowBatch, searches: list[ModelValidation], foreseen: NDArray[Any] | None
) -> None:
    """Ask the model about the first answers of some searches, which are of one kind, in one table.

    What is ``foreseen`` of the factual rows, if it has not been asked about them, it is asked
    together with their answers: `NotForeseen` is raised if it gives one of them the target already.
    """
    which, codes, places = _joined(rows, searches)
    if not len(which):  # there is no answer at all
        if foreseen is not None:
            _compare(rows, searches, foreseen, task.model.predict(rows.table))
        for validation in searches:
            validation.answer(codes, validation.rows.x[:0], Validation.none(0))
        return
    answered = as_slice(which)
    features, followed = task.question.features, foreseen is not None
    returned, after, y = as_returned(
        rows.table, features, answered, rows.codes[answered], codes, followed=followed
    )
    if foreseen is None:
        outputs = task.target.said(task.model, returned[0])
    else:
        both = task.model.predict(*returned)
        outputs = both[: len(which)]
        _compare(rows, searches, foreseen, both[len(which) :])
    for validation, place in zip(searches, places, strict=True):
        positions, proposed = validation.proposed
        proposed = proposed if after is codes else after[place]
        point = proposed if y is after else y[place]
        verdict = validation.verdict_of(positions, returned[0], proposed, point, outputs[place])
        validation.answer(proposed, point, verdict)


def _joined(
    rows: RowBatch, searches: list[ModelValidation]
) -> tuple[IntArray, FloatArray, list[IntArray | slice]]:
    """Which of the rows have an answer, their codes, and where those of each search are there."""
    answers = [
        (validation.rows.at[validation.proposed[0]], validation.proposed[1])
        for validation in searches
    ]
    if len(answers) == 1:
        return *answers[0], [slice(None)]
    codes, answered = np.empty_like(rows.codes), np.zeros(len(rows), dtype=bool)
    for positions, proposed in answers:
        codes[positions], answered[positions] = proposed, True
    which = np.flatnonzero(answered)
    if len(which) == len(rows):
        return which, codes, [as_slice(positions) for positions, _ in answers]
    return (
        which,
        codes[which],
        [as_slice(np.searchsorted(which, positions)) for positions, _ in answers],
    )


def _compare(
    rows: RowBatch,
    searches: list[ModelValidation],
    foreseen: NDArray[Any],
    predicted: NDArray[Any],
) -> None:
    """What was foreseen of the factual rows with what the model predicts."""
    if (foreseen == predicted).all():
        return
    searches[0].task.model.check(rows.x, predicted, foreseen)
    for validation in searches:
        if validation.task.already_satisfied(
            validation.rows.x, predicted[validation.rows.at]
        ).any():
            raise NotForeseen


@final
class ModelValidation:
    """Answers to a part of some rows, from a union of programs, that the model confirms."""

    def __init__(self, task: Task, rows: RowBatch, union: Union) -> None:
        self.task, self.rows, self.union, self.eps = task, rows, union, task.eps
        self.features, x = task.question.features, rows.x
        self.safety_margins: SafetyMargins | None = None
        if task.target.requirement.chance is not None:
            self.safety_margins = task.target.requirement.chance.safety_margins(task.question, x)
        # A bound by weak duality holds for any margin. What a branch and bound reports holds for
        # its own margin only; so there only those rows are tightened at which a tie is lost, by
        # less than the rounding error of a score.
        integral = union.is_integral
        rounding = task.target.requirement.rounding(
            task.model.form, x, EPS if integral else task.eps
        )
        n = rows.index.size
        self.margin = np.zeros((n, 2))
        self.margin[:, int(integral)] = SPARE * rounding
        self.cases = task.question.actionable.cases(x, np.array(self.margin))
        if rows.weight is not None:
            self.cases = self.cases.weighing(0.5 * rows.weight)
        if rows.held is not None:
            width = [block.stop - block.start for block in self.features.blocks]
            self.cases = self.cases.holding(np.repeat(rows.held, width, axis=1), x)
        single = float(np.finfo(np.float32).eps)
        self.effort = replace(task.effort, eps=single) if rows.table.singles else task.effort
        self.witnesses: dict[int, Witness] = {}
        self.least = np.full(n, np.inf)  # the objective of points that gave way to what leads more
        self.found = self._search(np.arange(n), self.margin)
        if (self.found.piece < 0).any():
            self._without_margin()
        # what closed forms found is not moved when it becomes rows
        points, closed = self.found.points, self.found.closed
        self.exact = points if closed.all() else np.array(points)
        self.proposed = self._proposed(np.arange(n), self.found)

    def run(self) -> tuple[FloatArray, WordArray, Certificates, BoolArray]:
        """Search again for all rows whose answers are not confirmed, and certify what there is.

        (n, p) codes of the answers, the factual codes where there is none; (n,) what became of each
        row, what the answers are worth, and whether closed forms settled the row.
        """
        solution, effort, target = self.found, self.task.effort, self.task.target
        if target.demanding and not self.verdict.safety_margins.all():
            self._search_again()
        taught = self._learn_from_witnesses()
        resolution = SINGLE if self.rows.table.singles else VIOLATION
        program, (y, verdict) = self.union.asked, (self.y, self.verdict)
        certificates = certify(
            program,
            y,
            self.cases,
            verdict,
            solution.evidence,
            gap=effort.gap,
            resolution=resolution,
        )
        for i in taught:
            self._judge(i, certificates)
        above = certificates.bound > self.least
        certificates.bound[above] = self.least[above]
        beyond = above & (certificates.gap > effort.gap)
        certificates.claims[beyond] = Claim.NONE.code
        answered = certificates.holds
        if not answered.all():
            self.after[~answered] = self.rows.codes[~answered]
            certificates = certificates.withheld(~answered, target.requirement.promise)
        # Without a limit of time, a branch and bound may still have run out of nodes.
        limited = solution.limited & (effort.seconds is not None)
        return self.after, judge(certificates, effort.gap, limited), certificates, solution.closed

    def _search(self, rows: IntArray, margin: FloatArray, held: BoolArray | None = None) -> Found:
        """The cheapest points of some rows with other margins, perhaps with entries held."""
        cases = self.cases.take(rows).with_margin(margin)
        if held is not None:
            cases = cases.holding(held, self.exact[rows])
        safety_margins = None if self.safety_margins is None else self.safety_margins.take(rows)
        if held is not None:
            return search(self.union, cases, self._briefly, safety_margins)

        def incumbents(k: int, end: float) -> FloatArray:
            return self._incumbents(int(rows[k]), cases.margin[k], end)

        return search(self.union, cases, self.effort, safety_margins, incumbents)

    @property
    def _briefly(self) -> Effort:
        """For searches that take long only where arithmetic fails, when a row's time may be up."""
        seconds = self.effort.seconds
        return self.effort if seconds is None else replace(self.effort, seconds=LATE * seconds)

    # --- witnesses ---

    @property
    def _may_be_known(self) -> Witnesses | None:
        """Rows of the data that may be answers; None if all that is asked for is not said here."""
        task = self.task
        is_demanded = task.target.demanding and task.piece is None
        return task.witnesses if is_demanded else None

    def _ask(self, i: int, points: FloatArray) -> tuple[FloatArray, FloatArray, Validation]:
        """Codes of points as answers to one row, the same encoded, and what the model says."""
        rows, codes = np.full(len(points), i), points
        if not self.features.all_numeric:
            codes = self.features.compress(points)
        codes = self._representable(codes, rows)
        at = self.rows.at[rows]
        (returned,), codes, y = as_returned(
            self.rows.table, self.features, at, self.rows.codes[rows], codes
        )
        outputs = self.task.target.said(self.task.model, returned)
        return codes, y, self.verdict_of(rows, returned, codes, y, outputs)

    def _witness(self, i: int, end: float) -> Witness:
        """Witnesses of a row that are moved towards it, once."""
        data = self._may_be_known
        if i not in self.witnesses and data is not None:
            program, case = self.union.asked, self.cases.take(np.array([i]))
            points = data.nearest(self.task.target, program, case, TRIED[-1])

            def ask(points: FloatArray) -> tuple[FloatArray, BoolArray]:
                _, y, verdict = self._ask(i, points)
                return y, verdict.valid

            blocks = self.features.blocks
            self.witnesses[i] = shortened(points, program, case, blocks, ask, end)
        return self.witnesses.get(i, NOBODY)

    def _incumbents(self, i: int, margin: FloatArray, end: float) -> FloatArray:
        """(m, d) witnesses of a row that lead by a margin.

        By how much more where ties are lost, the search itself has to ask.
        """
        points = self._witness(i, end).points
        if not len(points):
            return points
        safety_margin = self._ask(i, points)[2].margin
        return points[safety_margin >= margin[0]]

    def _learn_from_witnesses(self) -> list[int]:
        """Rows whose answers are witnesses now, for they are cheaper than what the search left.

        Rows of a batch for which closed forms found the answer are passed over.
        """
        data, solution, taught = self._may_be_known, self.found, list[int]()
        if data is None:
            return taught
        program, quick, missed = self.union.asked, self.union.is_quick, ~self.verdict.valid
        branched, few = not quick or self.union.is_integral, not quick or len(missed) <= FEW
        rows = (missed & (branched or few)) | (branched and few)
        unsettled = missed & rows & quick
        if unsettled.any():
            unsettled &= np.isfinite(lower_bounds(solution.evidence, np.full(len(rows), np.inf))[0])
        reviewed = np.flatnonzero(rows | solution.limited).tolist()
        if not reviewed:
            return taught
        reached = np.where(missed, np.inf, program.encoded_cost(self.y, self.cases.x))
        for i in reviewed:
            case, cutoff = self.cases.take(np.array([i])), reached[i] * (1.0 - self.task.effort.gap)
            points = data.inside(self.task.target, program, case, cutoff)
            if solution.limited[i] or (np.isinf(reached[i]) and (not quick or unsettled[i])):
                seconds = self.task.effort.seconds
                end = np.inf if seconds is None else clock() + LATE * seconds
                other = self._witness(i, end).points
                points = np.concatenate([other, points.reshape(-1, case.x.shape[1])])
            if len(points) and self._take_witness(i, points, cutoff):
                taught.append(i)
        return taught

    def _take_witness(self, i: int, points: FloatArray, cutoff: float) -> bool:
        """Answer a row by the cheapest of some points that the model confirms, if it is cheaper."""
        program, row = self.union.asked, np.array([i])
        codes, y, verdict = self._ask(i, points)
        x = np.broadcast_to(self.cases.x[i], y.shape)
        inside = program.violation(y, x) <= VIOLATION
        cost = np.where(verdict.valid & inside, program.encoded_cost(y, x), np.inf)
        best = int(cost.argmin())
        if not cost[best] < cutoff:
            return False
        self.after[i], self.y[i], self.exact[i] = codes[best], y[best], y[best]
        self.verdict.put(row, verdict, slice(best, best + 1))
        self.found.closed[i] = False
        return True

    def _judge(self, i: int, certificates: Certificates) -> None:
        """A proof that excludes the witness by which a row is answered is none.

        A bound that rests on the word of a solver is one on points that lead by a margin.
        """
        none = np.full(len(self.y), np.inf)
        proved = min(evidence.bounds(none)[0][i] for evidence in self.found.evidence)
        cost = float(certificates.cost[i])
        if proved > cost * (1.0 + CLOSED):
            warnings.warn(CONTRADICTED.format(cost=cost), stacklevel=2)
            self.verdict.valid[i] = certificates.valid[i] = False
            proved = 0.0
        certificates.bound[i] = min(proved, cost)
        closed = relative_gap(certificates.objective, certificates.bound)[i] <= self.effort.gap
        certificates.claims[i] = (Claim.PROVED if closed else Claim.NONE).code

    # --- searching again ---

    def _without_margin(self) -> None:
        """Rows for which the first margin left nothing, though nothing refutes them: without it."""
        solution = self.found
        unsolved = np.flatnonzero(
            (solution.piece < 0) & ~solution.limited & self.margin.any(axis=1)
        )
        if len(unsolved):
            bound = lower_bounds(solution.evidence, np.full(len(solution.piece), np.inf))[0]
            unsolved = unsolved[np.isfinite(bound[unsolved])]
        if len(unsolved):
            self.margin[unsolved] = 0.0
            result = self._search(unsolved, self.margin[unsolved])
            solution.points[unsolved], solution.piece[unsolved] = result.points, result.piece
            solution.limited[unsolved] = result.limited
            solution.written |= {int(unsolved[i]): y for i, y in result.written.items()}

    def _search_again(self) -> None:
        """Rows that the model does not confirm, or that do not lead by enough: larger margins.

        A tie of whole columns and categories that the model confirms is an answer, for the next
        point of their lattice is far; only other columns are moved to take it off the edge. A row
        is ``improvable`` until a larger margin does not improve an answer that the model confirms;
        those that are ``near`` keep their whole columns and categories.
        """
        solution, verdict, margin = self.found, self.verdict, self.margin
        integral, improvable = self.union.is_integral, solution.piece >= 0
        smooth = np.full(len(improvable), not integral) | self.union.moves_smoothly(self.cases)
        for k in range(ROUNDS):
            unconfirmed = np.flatnonzero(
                improvable & ~np.where(smooth, verdict.safety_margins, verdict.valid)
            )
            near = integral & (verdict.valid[unconfirmed] | (k == 0))
            searched = near | ~solution.limited[unconfirmed]
            unconfirmed, near = unconfirmed[searched], near[searched]
            if not len(unconfirmed):
                return
            valid = verdict.valid[unconfirmed]
            required = margin[unconfirmed, 0]
            short = np.nan_to_num(np.maximum(required - verdict.margin[unconfirmed], 0.0))
            # what the model does not confirm, though its form is exact, was rounded on the way
            noise = 0.5 * self.task.model.form.noise(self.y[unconfirmed], self.eps)
            rounding = SPARE * np.maximum(
                verdict.rounding[unconfirmed], np.where(valid, 0.0, noise)
            )
            grown = np.where(valid & (k == 0), required, GROWTH * required)
            margin[unconfirmed, 0] = np.maximum(grown, rounding) + short
            for mask, look in ((near, self._off_the_edge), (~near, self._search)):
                rows = unconfirmed[mask]
                if len(rows):
                    other = look(rows, margin[rows, 0])
                    better = self._keep_better(rows, other)
                    # each of these searches has all the time of a row, so the first is the last
                    improvable[rows[(valid[mask] & ~better) | other.limited]] = False

    def _keep_better(self, rows: IntArray, other: Found) -> BoolArray:
        """Write the answers of another search that lead by more, or alone are confirmed; which."""
        positions, codes = self._proposed(rows, other)
        which, valid = rows[positions], self.verdict.valid[rows]
        self._remember(rows, self.y[rows], valid)
        better, stale = np.zeros(len(rows), dtype=bool), np.flatnonzero(~valid)
        self.verdict.put(rows[stale], Validation.none(len(stale)))
        if not len(positions):
            return better
        table = self.rows.table
        (returned,), codes, y = as_returned(
            table, self.features, self.rows.at[which], self.rows.codes[which], codes
        )
        validation = self.verdict_of(
            which, returned, codes, y, self.task.target.said(self.task.model, returned)
        )
        self._remember(which, y, validation.valid)
        ahead = validation.valid & (
            ~valid[positions] | (validation.margin > self.verdict.margin[which])
        )
        improved, better[positions] = which[ahead], ahead
        self.after[improved], self.y[improved] = codes[ahead], y[ahead]
        self.exact[improved] = other.points[better]
        current = ahead | ~valid[positions]
        self.verdict.put(which[current], validation, current)
        return better

    def _remember(self, rows: IntArray, y: FloatArray, valid: BoolArray) -> None:
        """What points cost that the model confirms, for no bound is above it."""
        program, cases = self.union.asked, self.cases.take(rows)
        inside = valid & (program.violation(y, cases.x) <= VIOLATION)
        cost_cutoff = np.where(inside, program.objective(y, cases), np.inf)
        self.least[rows] = np.minimum(self.least[rows], cost_cutoff)

    def _off_the_edge(self, rows: IntArray, margin: FloatArray) -> Found:
        """The same answers with a margin: whole columns and categories held, the others free."""
        actionable, points = self.task.question.actionable, self.exact[rows]
        x = self.rows.x[rows]
        result = self._search(rows, margin, actionable.domain.held(points, x))
        # Where a target is not convex the search may end elsewhere; that is no way off the edge.
        if any(piece.program.nonconvex for piece in self.union.listed):
            astray = (
                actionable.encoded_cost(result.points, x)
                > actionable.encoded_cost(points, x) * NEARBY
            )
            result.points[astray], result.piece[astray] = np.nan, -1
        return result

    def _proposed(self, rows: IntArray, solution: Found) -> tuple[IntArray, FloatArray]:
        """Which of some rows have a point that the model takes, and their (m, p) codes."""
        points = solution.points
        positions = np.flatnonzero(~np.isnan(points[:, 0]))
        if self.eps > EPS:
            positions = positions[~self.task.model.overflows(points[positions], self.eps)]
        if not len(positions):
            return positions, np.empty((0, len(self.features)))
        self._snap(solution, positions, rows)
        codes = points[positions]
        if solution.written:
            codes = np.array([solution.written.get(i, points[i]) for i in positions.tolist()])
        if not self.features.all_numeric:
            codes = self.features.compress(codes)
        return positions, self._representable(codes, rows[positions])

    def answer(self, codes: FloatArray, y: FloatArray, validation: Validation) -> None:
        """Take what was ``proposed`` as it is returned, and what the model says of it."""
        n, rows = self.rows.index.size, self.proposed[0]
        self.after, self.y, self.verdict = codes, y, validation
        if len(rows) < n:
            self.after, self.y = np.array(self.rows.codes), np.array(self.rows.x)
            self.after[rows], self.y[rows], self.verdict = codes, y, Validation.none(n)
            self.verdict.put(rows, validation)

    def verdict_of(
        self,
        rows: IntArray,
        returned: Table,
        codes: FloatArray,
        y: FloatArray,
        outputs: NDArray[Any],
    ) -> Validation:
        """What the model says of some rows, and whether they lead by what is asked for."""
        model, target = self.task.model, self.task.target
        verdict = target.verdict(model.form, y, outputs, self.eps)
        if not (target.demanding or verdict.valid.all()):
            model.check(y, model.predict(returned))
        if self.safety_margins is None:
            return verdict
        cost = self.task.question.actionable.encoded_cost(y, self.rows.x[rows])
        margin = verdict.margin - self.safety_margins.take(rows).required(y, cost)
        return replace(verdict, valid=verdict.valid & (margin >= 0.0), margin=margin)

    def _representable(self, codes: FloatArray, which: IntArray) -> FloatArray:
        """Numbers of float32 columns rounded to float32, towards the inside of their bounds."""
        features, singles = self.features, self.rows.table.singles
        if not singles:
            return codes
        positions = np.array([j for j in singles if features.is_numeric[j]], dtype=np.intp)
        columns = np.array([features.blocks[j].start for j in positions], dtype=np.intp)
        rows, at = as_slice(which), as_slice(columns)
        values, x = codes[:, as_slice(positions)], self.rows.x[rows][:, at]
        single = values.astype(np.float32)
        if not self.cases.unbounded:
            low, high = self.cases.low[rows][:, at], self.cases.high[rows][:, at]
            for beyond, inwards in ((single > high, -np.inf), (single < low, np.inf)):
                if beyond.any():
                    single[beyond] = np.nextafter(single[beyond], np.float32(inwards))
        codes = np.array(codes)
        # what stays is of single precision already, or counts as a missing cell
        codes[:, as_slice(positions)] = np.where(values == x, values, single)
        return codes

    def _snap(self, solution: Found, positions: IntArray, rows: IntArray) -> None:
        """Values that solvers left a hair from the factual value, or a bound, put onto it."""
        solved = positions[~solution.closed[positions]]
        if not len(solved):
            return
        cases, encoded_cost, which = self.cases, self.task.question.encoded_cost, rows[solved]
        x, y = cases.x[which], solution.points[solved]
        length = (encoded_cost.absolute + np.sqrt(encoded_cost.diagonal)) * np.abs(y - x)
        y = np.where(length <= HAIR * length.max(axis=1, keepdims=True), x, y)
        if not cases.unbounded:
            hair = HAIR * (np.abs(x) + np.abs(y))
            for bound in (cases.low[which], cases.high[which]):
                y = np.where(np.abs(y - bound) <= hair, bound, y)
        solution.points[solved] = y
