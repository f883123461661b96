"""Validation: answers are decoded as they will be returned, and the model itself is asked.

An `AnswerSearch` holds rows that are searched together:

1. `AnswerSearch.propose` looks for the cheapest points that lead by the model's rounding error.
2. `validate` asks the model about them, as they will be returned.
3. `AnswerSearch.settle` searches again, with a larger margin, for rows that the model does not
   confirm (a tie, float32, rounding); compares answers with rows of the data; and certifies the
   result. No point is ever pushed out of its constraints.

An answer *leads* if its margin, by how much it meets the target, is at least the rounding error of
the model's own score.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
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
    as_slice,
    clock,
)
from counterpoint.problem.targets import Validation
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import RowBatch, as_returned
from counterpoint.search.query import Query
from counterpoint.search.search import Incumbents, Union, search
from counterpoint.search.witnesses import MOST_TRIED, Witnesses, shortened

SMALL_BATCH = 16
"""So many rows may each take a call of the model, a solver, or a look at rows of the data."""
MARGIN_FACTOR = 2.0
"""The margin that is asked for, in units of the model's rounding error at the row: 2 and not 1,
because the error at the answer may exceed the error at the row, and solvers and float32 columns
round the answer. Rows that do not lead by as much are searched again, at 1.5 some in each batch."""
LATE_SHARE = 0.05
"""The share of a row's time in which it is answered by witnesses, or moved off the edge, when that
may have run out."""
CONTRADICTED = (
    "What was proved of a row is contradicted by a point near a row of data=, to which the model "
    "gives the target at a cost of {cost:.6g}. The row is returned as unproved; please report it."
)


@final
class ModelFirst(Exception):
    """Raised where the model is to be asked about factual rows before they are searched.

    `predict` and the form disagree on whether one satisfies the target already (a tie).
    """


@final
class AnswerSearch:
    """n rows that are searched together for one target, and their answers so far.

    After `propose`, ``positions`` (m,) are the rows that have a point, and ``codes`` (m, p) these
    points. After `validate`, ``codes`` (n, p) and ``y`` (n, d) are the answers as they are
    returned, the factual rows where there is none, and ``verdict`` is the model's on them.
    """

    codes: FloatArray
    y: FloatArray
    verdict: Validation

    def __init__(self, query: Query, rows: RowBatch, union: Union) -> None:
        x, n, requirement = rows.x, len(rows.index), query.target.requirement
        self.query, self.rows, self.union = query, rows, union
        # A bound by weak duality holds for any margin. What a branch and bound reports holds for
        # its own margin only; so there only those rows are tightened at which a tie is lost, by
        # less than the rounding error of a score.
        self.is_integral = union.is_integral
        eps = EPS if self.is_integral else query.eps
        # (n, 2) the safety margins: of all rows of the target, and besides where a tie is lost
        self.margin = np.zeros((n, 2))
        self.margin[:, int(self.is_integral)] = MARGIN_FACTOR * query.model.form.margin_error(
            x, requirement, eps
        )
        # the rows as programs see them, with these margins
        self.cases = query.actionable.cases(x, np.array(self.margin))
        if rows.weight is not None:  # an objective is weight / 2 · cost + the terms of the target
            self.cases = self.cases.weighing(0.5 * rows.weight)
        if rows.held is not None:
            widths = [block.stop - block.start for block in query.features.blocks]
            self.cases = self.cases.holding(np.repeat(rows.held, widths, axis=1), x)
        # further margins, if they depend on where the answer is
        self.varying_margins = query.safety_margins(x)
        # rows of the data that may be answers; not with one piece of a target, where a row that has
        # the target may lie in another piece
        may_answer = query.target.demanding and query.piece is None
        self.witnesses: Witnesses | None = query.witnesses if may_answer else None
        self._shortened: dict[int, FloatArray] = {}  # row → its witnesses, the cheapest first
        # (n,) the least objectives of the points that were confirmed, also of those replaced by
        # others that lead by more: no bound is above them
        self.least_confirmed = np.full(n, np.inf)

    # First the cheapest points

    def propose(self) -> None:
        """Search for the cheapest points of the union that lead by the model's rounding error."""
        self.solution = solution = self._search(None, self.margin)
        if (solution.piece < 0).any():
            self._search_without_margin()
        # (n, d) the points before they are decoded; `_as_codes` moves those that solvers found
        self.proposed = solution.points if solution.closed.all() else np.array(solution.points)
        self.positions, self.codes = self._as_codes(np.arange(len(self.rows.index)), solution)

    def _search(
        self, rows: IntArray | None, margin: FloatArray, held: BoolArray | None = None
    ) -> Incumbents:
        """Search for the cheapest points of some rows, None for all, with a margin as in a `Batch`.

        Entries (n, d) that are ``held`` are those of the points that were proposed first.
        """
        query, cases, varying = self.query, self.cases, self.varying_margins
        if rows is not None:
            cases = cases.take(rows).with_margin(margin)
            varying = None if varying is None else varying.take(rows)
        effort = query.effort
        if self.rows.table.singles:
            effort = replace(effort, eps=float(np.finfo(np.float32).eps))
        if held is not None:
            # Time may be up by now; this search takes long only where arithmetic fails.
            if effort.seconds is not None:
                effort = replace(effort, seconds=LATE_SHARE * effort.seconds)
            return search(self.union, cases.holding(held, self.proposed[rows]), effort, varying)

        def starting_points(k: int, end: float) -> FloatArray:
            i = k if rows is None else int(rows[k])
            points = self._witnesses_of(i, end)
            if not len(points):
                return points
            _, _, verdict = self._ask_about_row(i, points)
            # the margin of lost ties, ``cases.margin[:, 1]``, is seen to by the search itself
            return points[verdict.margin >= cases.margin[k, 0]]

        return search(self.union, cases, effort, varying, starting_points)

    def _search_without_margin(self) -> None:
        """Search again for rows that have no point with a margin, unless they are refuted."""
        solution = self.solution
        unsolved = np.flatnonzero(
            (solution.piece < 0) & ~solution.limited & self.margin.any(axis=1)
        )
        if len(unsolved):
            bound = lower_bounds(solution.evidence, np.full(len(self.rows.index), np.inf))[0]
            unsolved = unsolved[np.isfinite(bound[unsolved])]
        if len(unsolved):
            self.margin[unsolved] = 0.0
            result = self._search(unsolved, self.margin[unsolved])
            solution.points[unsolved], solution.piece[unsolved] = result.points, result.piece
            solution.limited[unsolved] = result.limited
            solution.rounded_points |= {
                int(unsolved[i]): y for i, y in result.rounded_points.items()
            }

    # Points become rows

    def _as_codes(self, rows: IntArray, solution: Incumbents) -> tuple[IntArray, FloatArray]:
        """Return the positions (m,) of those rows whose points the model takes, and (m, p) codes.

        ``solution`` is that of the ``rows``, and positions count among these.
        """
        points, query = solution.points, self.query
        positions = np.flatnonzero(~np.isnan(points[:, 0]))
        if query.eps > EPS:  # a model in single precision
            positions = positions[~query.model.overflows(points[positions], query.eps)]
        if not len(positions):
            return positions, np.empty((0, len(query.features)))
        iterated = positions[~solution.closed[positions]]  # closed forms round nothing on the way
        if len(iterated):
            points[iterated] = self._snapped(rows[iterated], points[iterated])
        y = points[positions]
        if solution.rounded_points:  # where the nearest float32 numbers will not do
            y = np.array([solution.rounded_points.get(i, points[i]) for i in positions.tolist()])
        return positions, self._codes(rows[positions], y)

    def _snapped(self, rows: IntArray, y: FloatArray) -> FloatArray:
        """Put values that differ from the factual value, or a bound, by rounding alone, onto it."""
        share = 1e-14  # of the longest change of a row, or of a value: some fifty roundings
        x, encoded_cost = self.cases.x[rows], self.query.encoded_cost
        length = (encoded_cost.absolute + np.sqrt(encoded_cost.diagonal)) * np.abs(y - x)
        y = np.where(length <= share * length.max(axis=1, keepdims=True), x, y)
        if not self.cases.unbounded:
            rounding = share * (np.abs(x) + np.abs(y))
            for bound in (self.cases.low[rows], self.cases.high[rows]):
                y = np.where(np.abs(y - bound) <= rounding, bound, y)
        return y

    def _codes(self, rows: IntArray, y: FloatArray) -> FloatArray:
        """(m, p) codes of points for some rows, as their columns hold them.

        Numbers of float32 columns are rounded to float32, towards the inside of their bounds.
        """
        features, singles, cases = self.query.features, self.rows.table.singles, self.cases
        codes = y if features.all_numeric else features.compress(y)
        if not singles:
            return codes
        numbers = np.array([j for j in singles if features.is_numeric[j]], dtype=np.intp)
        columns = as_slice(np.array([features.blocks[j].start for j in numbers], dtype=np.intp))
        row_block, code_columns = as_slice(rows), as_slice(numbers)
        values, x = codes[:, code_columns], self.rows.x[row_block][:, columns]
        rounded = values.astype(np.float32)
        if not cases.unbounded:
            low, high = cases.low[row_block][:, columns], cases.high[row_block][:, columns]
            for outside, inwards in ((rounded > high, -np.inf), (rounded < low, np.inf)):
                if outside.any():
                    rounded[outside] = np.nextafter(rounded[outside], np.float32(inwards))
        codes = np.array(codes)
        # a value that does not change is of single precision already, or stands for a missing cell
        codes[:, code_columns] = np.where(values == x, values, rounded)
        return codes

    # The model is asked

    def take_outputs(self, codes: FloatArray, y: FloatArray, outputs: NDArray[Any]) -> None:
        """Take proposals as they are returned, (m, p) and (m, d), and the model's outputs (m,)."""
        n, positions = len(self.rows.index), self.positions
        verdict = self._verdict(positions, y, outputs)
        if len(positions) < n:
            all_codes, all_y = np.array(self.rows.codes), np.array(self.rows.x)
            all_codes[positions], all_y[positions] = codes, y
            all_verdicts = Validation.none(n)
            all_verdicts.put(positions, verdict)
            codes, y, verdict = all_codes, all_y, all_verdicts
        self.codes, self.y, self.verdict = codes, y, verdict

    def _verdict(self, rows: IntArray, y: FloatArray, outputs: NDArray[Any]) -> Validation:
        """Judge the model's outputs (m,) on points for some rows, with their varying margins."""
        query = self.query
        verdict = query.target.verdict(query.model.form, y, outputs, query.eps)
        if self.varying_margins is None:
            return verdict
        cost = query.encoded_cost(y, self.rows.x[rows])
        return self.varying_margins.take(rows).applied(verdict, y, cost)

    def _ask(self, rows: IntArray, codes: FloatArray) -> tuple[FloatArray, FloatArray, Validation]:
        """Ask the model about answers to some rows: (m, p) as they are returned, and encoded."""
        query, index, before = self.query, self.rows.at[rows], self.rows.codes[rows]
        table = self.rows.table
        (returned,), codes, y = as_returned(table, query.features, index, before, codes)
        verdict = self._verdict(rows, y, query.target.outputs(query.model, returned))
        if not (query.target.demanding or verdict.valid.all()):
            query.model.check(y, query.model.predict(returned))
        return codes, y, verdict

    def _ask_about_row(
        self, i: int, points: FloatArray
    ) -> tuple[FloatArray, FloatArray, Validation]:
        """Ask the model about several points as answers to one row, as `_ask` does."""
        rows = np.full(len(points), i)
        return self._ask(rows, self._codes(rows, points))

    # Answers are improved, and certified

    def settle(self, out: Counterfactuals) -> None:
        """Search again for rows whose answers are not confirmed; certify and write the result.

        Rows without an answer keep their factual codes.
        """
        solution, effort, target = self.solution, self.query.effort, self.query.target
        if target.demanding:
            if not self.verdict.leads.all():
                self._search_again()
        elif not self.verdict.valid.all():
            # A trade-off demands nothing: a point of it is only invalid if the form weighs another
            # probability than the model's. `_ask` compares their predictions, and raises.
            self._ask(self.positions, self.codes[self.positions])
        certificates = self._certified(self._answer_by_data())
        answered = certificates.holds
        if not answered.all():
            self.codes[~answered] = self.rows.codes[~answered]
            certificates = certificates.withheld(~answered, target.requirement.promise)
        # Without a limit of time, a branch and bound may still have run out of nodes.
        limited = solution.limited & (effort.seconds is not None)
        status, rows = judge(certificates, effort.gap, limited), self.rows.index
        out.put(rows, self.codes, status, certificates, solution.closed)
        out.keep(rows, solution.bound_proofs, self.union.proof_count)

    def _certified(self, by_data: list[int]) -> Certificates:
        """Certify the answers; rows ``by_data`` have those of a witness."""
        effort = self.query.effort
        certificates = certify(
            self.union.objective_program,
            self.y,
            self.cases,
            self.verdict,
            self.solution.evidence,
            gap=effort.gap,
            resolution=SINGLE if self.rows.table.singles else VIOLATION,
        )
        for i in by_data:
            self._judge_witness(i, certificates)
        # a bound above a confirmed point is none
        too_high = certificates.bound > self.least_confirmed
        if too_high.any():
            certificates.bound[too_high] = self.least_confirmed[too_high]
            unsettled = too_high & (certificates.gap > effort.gap)
            certificates.claims[unsettled] = Claim.NONE.code
        return certificates

    def _search_again(self) -> None:
        """Search with larger margins for rows that the model does not confirm, or that lead little.

        A tie of whole columns and categories that the model confirms is an answer, for the next
        point of their lattice is far; only other columns are moved to take it off the edge. A row
        is ``improvable`` until a larger margin does not improve an answer that the model confirms.
        """
        solution, verdict, integral = self.solution, self.verdict, self.is_integral
        improvable = solution.piece >= 0
        # rows that can lead by a little more, because some column moves continuously
        smooth = np.full(len(improvable), not integral) | self.union.moves_smoothly(self.cases)
        # 12 times: the margin grows to 7e10 times the first one, from rounding errors, a relative
        # 1e-16, to 1e-5
        for k in range(12):
            settled = np.where(smooth, verdict.leads, verdict.valid)
            pending = np.flatnonzero(improvable & ~settled)
            # Whole columns and categories are held where they are an answer, and at first anywhere:
            # that takes little time. A search without it may have run out of time before.
            off_edge = integral & (verdict.valid[pending] | (k == 0))
            has_time = off_edge | ~solution.limited[pending]
            pending, off_edge = pending[has_time], off_edge[has_time]
            if not len(pending):
                return
            self._grow_margins(pending, is_first=k == 0)
            valid = verdict.valid[pending]
            for mask, look in ((off_edge, self._search_off_the_edge), (~off_edge, self._search)):
                rows = pending[mask]
                if len(rows):
                    # (n,) for all rows of the target, and none besides for lost ties, see `Batch`
                    other = look(rows, self.margin[rows, 0])
                    better = self._keep_better(rows, other)
                    # a search that ran out of time had all that a row has: it is the row's last
                    improvable[rows[(valid[mask] & ~better) | other.limited]] = False

    def _grow_margins(self, rows: IntArray, *, is_first: bool) -> None:
        """Ask of some rows for eight times their margin, and for what they lack of the present one.

        At ``is_first``, an answer that the model confirms keeps its margin, which it may only have
        missed. An answer that the model does not confirm, though its form is exact, was rounded on
        the way: so its margin exceeds the noise of a score.
        """
        verdict, required = self.verdict, self.margin[rows, 0]
        valid = verdict.valid[rows]
        lacking = np.nan_to_num(np.maximum(required - verdict.margin[rows], 0.0))
        noise = 0.5 * self.query.model.form.noise(self.y[rows], self.query.eps)
        rounding = np.maximum(verdict.rounding[rows], np.where(valid, 0.0, noise))
        grown = np.where(valid & is_first, required, 8.0 * required)
        self.margin[rows, 0] = np.maximum(grown, MARGIN_FACTOR * rounding) + lacking

    def _search_off_the_edge(self, rows: IntArray, margin: FloatArray) -> Incumbents:
        """Search for the same answers with a margin: whole columns and categories held."""
        actionable, points, x = self.query.actionable, self.proposed[rows], self.rows.x[rows]
        cost = actionable.encoded_cost
        result = self._search(rows, margin, actionable.domain.held(points, x))
        # Where a target is not convex the search may end far from the answer: then it costs more.
        if any(piece.program.nonconvex for piece in self.union.listed):
            elsewhere = cost(result.points, x) > 1.001 * cost(points, x)
            result.points[elsewhere], result.piece[elsewhere] = np.nan, -1
        return result

    def _keep_better(self, rows: IntArray, other: Incumbents) -> BoolArray:
        """Take the answers of another search to some rows (n,) where they are better; (n,) which.

        They are where the model confirms them and not those there are, or where they lead by more.
        """
        positions, codes = self._as_codes(rows, other)
        rows_with_point, was_valid = rows[positions], self.verdict.valid[rows]
        self._note_confirmed(rows, self.y[rows], was_valid)
        # The verdict on an answer that is not confirmed says how far the last point is off: it is
        # replaced in any case, by none if there is no point.
        better, unconfirmed = np.zeros(len(rows), dtype=bool), np.flatnonzero(~was_valid)
        self.verdict.put(rows[unconfirmed], Validation.none(len(unconfirmed)))
        if not len(positions):
            return better
        codes, y, verdict = self._ask(rows_with_point, codes)
        self._note_confirmed(rows_with_point, y, verdict.valid)
        leads_by_more = verdict.margin > self.verdict.margin[rows_with_point]
        taken = verdict.valid & (~was_valid[positions] | leads_by_more)
        improved, better[positions] = rows_with_point[taken], taken
        self.codes[improved], self.y[improved] = codes[taken], y[taken]
        self.proposed[improved] = other.points[better]
        replaced = taken | ~was_valid[positions]
        self.verdict.put(rows_with_point[replaced], verdict, replaced)
        return better

    def _note_confirmed(self, rows: IntArray, y: FloatArray, valid: BoolArray) -> None:
        """Note the objectives of confirmed points, before others replace them."""
        program, cases = self.union.objective_program, self.cases.take(rows)
        inside = valid & (program.violation(y, cases.x) <= VIOLATION)
        objective = np.where(inside, program.objective(y, cases), np.inf)
        self.least_confirmed[rows] = np.minimum(self.least_confirmed[rows], objective)

    # Rows of the data are answers, too

    def _witnesses_of(self, i: int, end: float) -> FloatArray:
        """(m, d) rows of the data that the model gives the target, moved towards a row once."""
        if self.witnesses is None:
            return np.empty((0, 0))
        if i not in self._shortened:
            program, case = self.union.objective_program, self.cases.take(np.array([i]))
            points = self.witnesses.nearest(self.query.target, program, case, MOST_TRIED)

            def ask(points: FloatArray) -> tuple[FloatArray, BoolArray]:
                _, y, verdict = self._ask_about_row(i, points)
                return y, verdict.valid

            blocks = self.query.features.blocks
            self._shortened[i] = shortened(points, program, case, blocks, ask, end)
        return self._shortened[i]

    def _answer_by_data(self) -> list[int]:
        """Answer rows by rows of the data that are cheaper; return which rows.

        Reviewed are all rows if a piece has no closed form, for then a search takes longer.
        Else only rows that ended at a limit; rows without an answer, if there are few rows or a
        closed form may have rounded; and all rows, if there are few and it may have rounded.
        """
        if self.witnesses is None:
            return []
        solution, effort, quick = self.solution, self.query.effort, self.union.is_quick
        missed, is_small = ~self.verdict.valid, len(self.y) <= SMALL_BATCH
        reviewed = np.ones(len(missed), dtype=bool)
        if quick:
            often, always = is_small or self.is_integral, is_small and self.is_integral
            reviewed = solution.limited | (missed & often) | always
        program, replaced = self.union.objective_program, list[int]()
        # To move witnesses closer takes long: it is done for rows that ended at a limit, and for
        # those without an answer, but for what a closed form refuted.
        moves_witnesses = missed & reviewed
        if quick and moves_witnesses.any():
            bound = lower_bounds(solution.evidence, np.full(len(missed), np.inf))[0]
            moves_witnesses &= np.isfinite(bound)
        moves_witnesses |= solution.limited
        for i in np.flatnonzero(reviewed).tolist():
            case = self.cases.take(np.array([i]))
            cost = np.inf if missed[i] else program.encoded_cost(self.y[i : i + 1], case.x)[0]
            cutoff = float(cost * (1.0 - effort.gap))
            points = self.witnesses.inside(self.query.target, program, case, cutoff)
            if moves_witnesses[i]:
                end = np.inf if effort.seconds is None else clock() + LATE_SHARE * effort.seconds
                points = np.concatenate(
                    [self._witnesses_of(i, end), points.reshape(-1, case.x.shape[1])]
                )
            if len(points) and self._answer_by_witness(i, points, cutoff):
                replaced.append(i)
        return replaced

    def _answer_by_witness(self, i: int, points: FloatArray, cutoff: float) -> bool:
        """Answer a row by the cheapest of some points that the model confirms, if it is cheaper.

        A row that has an answer keeps it beside points that meet the target by rounding alone: in
        exact arithmetic, which is what is proved, they miss it.
        """
        program, row = self.union.objective_program, np.array([i])
        codes, y, verdict = self._ask_about_row(i, points)
        x = np.broadcast_to(self.cases.x[i], y.shape)
        accepted = verdict.valid & (program.violation(y, x) <= VIOLATION)
        if np.isfinite(cutoff):
            accepted &= (verdict.margin >= 0.0) | (verdict.margin < -verdict.rounding)
        cost = np.where(accepted, program.encoded_cost(y, x), np.inf)
        best = int(cost.argmin())
        if not cost[best] < cutoff:
            return False
        self.codes[i], self.y[i], self.proposed[i] = codes[best], y[best], y[best]
        self.verdict.put(row, verdict, slice(best, best + 1))
        self.solution.closed[i] = False
        return True

    def _judge_witness(self, i: int, certificates: Certificates) -> None:
        """Certify a row that a witness answers.

        A proof with a bound above the witness's cost is wrong: there is a warning, and nothing is
        claimed. What a solver reports without a proof is not used: it is about points that lead by
        a margin, which the witness may not.
        """
        no_answer = np.full(len(self.rows.index), np.inf)
        proved = min(evidence.bounds(no_answer)[0][i] for evidence in self.solution.evidence)
        cost = float(certificates.cost[i])
        if proved > cost * (1.0 + CLOSED):
            warnings.warn(CONTRADICTED.format(cost=cost), stacklevel=2)
            self.verdict.valid[i] = certificates.valid[i] = False
            proved = 0.0
        certificates.bound[i] = min(proved, cost)
        gap = relative_gap(certificates.objective, certificates.bound)[i]
        closed = gap <= self.query.effort.gap
        certificates.claims[i] = (Claim.PROVED if closed else Claim.NONE).code


def validate(
    searches: list[AnswerSearch], rows: RowBatch, form_predictions: NDArray[Any] | None
) -> None:
    """Ask the model in one table about the proposals of searches, and tell each its outputs.

    If the model has not been asked about the factual rows, ``form_predictions`` (n,) of them are
    compared with its predictions in the same call: `ModelFirst` is raised if it gives one of them
    the target already.
    """
    if not searches:
        return
    query, first, asks_rows = searches[0].query, searches[0], form_predictions is not None
    answered: IntArray | slice = first.rows.at[first.positions]
    codes, y, outputs = first.codes, rows.x[:0], np.empty(0)
    if len(searches) > 1:
        answered = np.concatenate([s.rows.at[s.positions] for s in searches])
        codes = np.concatenate([s.codes for s in searches])
    elif len(codes) == len(rows.index):
        answered = slice(None)  # nothing is copied
    if len(codes):
        before = rows.codes[answered]
        returned, codes, y = as_returned(
            rows.table, query.features, answered, before, codes, followed=asks_rows
        )
        ask = query.model.predict if asks_rows else partial(query.target.outputs, query.model)
        outputs = ask(*returned)
    elif asks_rows:
        outputs = query.model.predict(rows.table)
    if form_predictions is not None:
        _compare(searches, rows, form_predictions, outputs[len(codes) :])
    end = 0
    for answer_search in searches:
        start, end = end, end + len(answer_search.positions)
        answer_search.take_outputs(codes[start:end], y[start:end], outputs[start:end])


def _compare(
    searches: list[AnswerSearch],
    rows: RowBatch,
    form_predictions: NDArray[Any],
    predicted: NDArray[Any],
) -> None:
    """Check the form's predictions of factual rows by the model's; see `validate`."""
    if (form_predictions == predicted).all():
        return
    searches[0].query.model.check(rows.x, predicted, form_predictions)
    for answer_search in searches:
        searched = answer_search.rows
        if answer_search.query.already_satisfied(searched.x, predicted[searched.at]).any():
            raise ModelFirst
