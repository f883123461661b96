"""Validation: answers are decoded as they will be returned, and the model itself is asked.

An `AnswerSearch` is what becomes of rows that are searched together:

1. `AnswerSearch.propose` looks for the cheapest points that lead by the model's rounding error.
2. `AnswerSearch.validate` takes what the model says of them as they will be returned.
3. `AnswerSearch.settle` searches again, with a larger margin, for rows that the model does not
   confirm (a tie, float32, rounding); compares answers with rows of the data; and certifies what
   there is. No point is ever pushed out of its constraints.
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
    as_slice,
    clock,
)
from counterpoint.problem.targets import Validation
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import RowBatch, as_returned
from counterpoint.search.query import Query
from counterpoint.search.search import Incumbents, Union, search
from counterpoint.search.witnesses import TRIED, shortened

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
CONTRADICTED = (
    "What was proved of a row is contradicted by a point near a row of data=, to which the model "
    "gives the target at a cost of {cost:.6g}. The row is returned as unproved; please report it."
)


@final
class AnswerSearch:
    """Rows that are searched together for one target, and their answers so far."""

    def __init__(self, query: Query, rows: RowBatch, union: Union) -> None:
        x, n, required = rows.x, len(rows.index), query.target.requirement
        self.query, self.rows, self.union = query, rows, union
        # A bound by weak duality holds for any margin. What a branch and bound reports holds for
        # its own margin only; so there only those rows are tightened at which a tie is lost, by
        # less than the rounding error of a score.
        self.is_integral = union.is_integral
        eps = EPS if self.is_integral else query.eps
        # (n, 2) how much answers have to lead by; and more where a tie is lost
        self.margin = np.zeros((n, 2))
        self.margin[:, int(self.is_integral)] = SPARE * query.model.form.margin_error(
            x, required, eps
        )
        # the rows as programs see them, with the margins that come first
        self.cases = query.actionable.cases(x, np.array(self.margin))
        if rows.weight is not None:
            self.cases = self.cases.weighing(0.5 * rows.weight)
        if rows.held is not None:
            width = [block.stop - block.start for block in query.features.blocks]
            self.cases = self.cases.holding(np.repeat(rows.held, width, axis=1), x)
        # what answers have to lead by besides, where they are
        self.varying_margins = None if required.chance is None else query.safety_margins(x)
        # rows of the data that may be answers
        self.data = query.witnesses if query.target.demanding and query.piece is None else None
        self.witnesses: dict[int, FloatArray] = {}  # of a row, the cheapest first
        # (n,) objectives of points that gave way to others that lead by more
        self.least = np.full(n, np.inf)

    # First the cheapest points

    def propose(self) -> None:
        """Search for the cheapest points of the union that lead by the model's rounding error."""
        self.solution = solution = self._search(None, self.margin)
        if (solution.piece < 0).any():
            self._search_without_margin()
        # (n, d) the points that were found; what closed forms found is not moved on the way
        self.exact = solution.points if solution.closed.all() else np.array(solution.points)
        # (m,) rows for which there is a point, and (m, p) codes of these points
        self.positions, self.codes = self._as_codes(np.arange(len(self.least)), solution)

    def _search(
        self, rows: IntArray | None, margin: FloatArray, held: BoolArray | None = None
    ) -> Incumbents:
        """Search for the cheapest points of some rows, None for all, with a margin (n, 2).

        Entries (n, d) that are ``held`` are those of the points that the first search found.
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
                effort = replace(effort, seconds=LATE * effort.seconds)
            return search(self.union, cases.holding(held, self.exact[rows]), effort, varying)

        def starting_points(k: int, end: float) -> FloatArray:
            # These lead by the margin; by what ties take besides, the search itself sees to.
            i = k if rows is None else int(rows[k])
            points = self._witnesses_of(i, end)
            if not len(points):
                return points
            return points[self._ask_of_row(i, points)[2].margin >= cases.margin[k, 0]]

        return search(self.union, cases, effort, varying, starting_points)

    def _search_without_margin(self) -> None:
        """Search again for rows that have no point with a margin, though nothing refutes them."""
        solution = self.solution
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

    # Points become rows, and the model is asked

    def _as_codes(self, rows: IntArray, solution: Incumbents) -> tuple[IntArray, FloatArray]:
        """Return which of some rows have a point that the model takes, and their (m, p) codes."""
        points, query = solution.points, self.query
        positions = np.flatnonzero(~np.isnan(points[:, 0]))
        if query.eps > EPS:
            positions = positions[~query.model.overflows(points[positions], query.eps)]
        if not len(positions):
            return positions, np.empty((0, len(query.features)))
        iterated = positions[~solution.closed[positions]]
        if len(iterated):
            points[iterated] = self._snapped(rows[iterated], points[iterated])
        y = points[positions]
        if solution.written:
            y = np.array([solution.written.get(i, points[i]) for i in positions.tolist()])
        return positions, self._codes(rows[positions], y)

    def _snapped(self, rows: IntArray, y: FloatArray) -> FloatArray:
        """Put values that solvers left a hair from the factual value, or a bound, onto it."""
        x, encoded_cost = self.cases.x[rows], self.query.encoded_cost
        length = (encoded_cost.absolute + np.sqrt(encoded_cost.diagonal)) * np.abs(y - x)
        y = np.where(length <= HAIR * length.max(axis=1, keepdims=True), x, y)
        if not self.cases.unbounded:
            hair = HAIR * (np.abs(x) + np.abs(y))
            for bound in (self.cases.low[rows], self.cases.high[rows]):
                y = np.where(np.abs(y - bound) <= hair, bound, y)
        return y

    def _codes(self, rows: IntArray, y: FloatArray) -> FloatArray:
        """(m, p) codes of points for some rows.

        Numbers of float32 columns are rounded to float32, towards the inside of their bounds.
        """
        features, singles, cases = self.query.features, self.rows.table.singles, self.cases
        codes = y if features.all_numeric else features.compress(y)
        if not singles:
            return codes
        positions = np.array([j for j in singles if features.is_numeric[j]], dtype=np.intp)
        columns = as_slice(np.array([features.blocks[j].start for j in positions], dtype=np.intp))
        block, positions_block = as_slice(rows), as_slice(positions)
        values, x = codes[:, positions_block], self.rows.x[block][:, columns]
        single = values.astype(np.float32)
        if not cases.unbounded:
            low, high = cases.low[block][:, columns], cases.high[block][:, columns]
            for beyond, inwards in ((single > high, -np.inf), (single < low, np.inf)):
                if beyond.any():
                    single[beyond] = np.nextafter(single[beyond], np.float32(inwards))
        codes = np.array(codes)
        # what stays is of single precision already, or counts as a missing cell
        codes[:, positions_block] = np.where(values == x, values, single)
        return codes

    def validate(self, codes: FloatArray, y: FloatArray, outputs: NDArray[Any]) -> None:
        """Take what was proposed as it is returned, (m, p) and (m, d), and what the model says."""
        n, positions = len(self.least), self.positions
        verdict = self._verdict(positions, y, outputs)
        if len(positions) < n:
            every_code, every_y = np.array(self.rows.codes), np.array(self.rows.x)
            every_code[positions], every_y[positions] = codes, y
            every_verdict = Validation.none(n)
            every_verdict.put(positions, verdict)
            codes, y, verdict = every_code, every_y, every_verdict
        # (n, p) of the answers, the factual ones without one; (n, d) the same encoded
        self.codes, self.y, self.verdict = codes, y, verdict

    def _verdict(self, rows: IntArray, y: FloatArray, outputs: NDArray[Any]) -> Validation:
        """Judge what the model says of answers: whether they lead by what is asked for."""
        query = self.query
        verdict = query.target.verdict(query.model.form, y, outputs, query.eps)
        if self.varying_margins is None:
            return verdict
        cost = query.encoded_cost(y, self.rows.x[rows])
        margin = verdict.margin - self.varying_margins.take(rows).required(y, cost)
        return replace(verdict, valid=verdict.valid & (margin >= 0.0), margin=margin)

    def _ask(self, rows: IntArray, codes: FloatArray) -> tuple[FloatArray, FloatArray, Validation]:
        """Ask the model about answers to some rows: (m, p) as they are returned, and encoded."""
        query, index, before = self.query, self.rows.at[rows], self.rows.codes[rows]
        table = self.rows.table
        (returned,), codes, y = as_returned(table, query.features, index, before, codes)
        verdict = self._verdict(rows, y, query.target.outputs(query.model, returned))
        if not (query.target.demanding or verdict.valid.all()):
            query.model.check(y, query.model.predict(returned))
        return codes, y, verdict

    def _ask_of_row(self, i: int, points: FloatArray) -> tuple[FloatArray, FloatArray, Validation]:
        """Ask the model about points as answers to one row."""
        rows = np.full(len(points), i)
        return self._ask(rows, self._codes(rows, points))

    # Answers are improved, and certified

    def settle(self, out: Counterfactuals) -> None:
        """Search again for rows whose answers are not confirmed; certify and write what there is.

        Rows without an answer keep their factual codes.
        """
        solution, effort, target = self.solution, self.query.effort, self.query.target
        if not (target.demanding or self.verdict.valid.all()):
            self._ask(self.positions, self.codes[self.positions])  # compares what was read
        elif target.demanding and not self.verdict.leads.all():
            self._search_again()
        replaced = self._learn_from_data()
        resolution = SINGLE if self.rows.table.singles else VIOLATION
        certificates = certify(
            self.union.objective_program,
            self.y,
            self.cases,
            self.verdict,
            solution.evidence,
            gap=effort.gap,
            resolution=resolution,
        )
        for i in replaced:
            self._judge_witness(i, certificates)
        above = certificates.bound > self.least
        if above.any():
            certificates.bound[above] = self.least[above]
            beyond = above & (certificates.gap > effort.gap)
            certificates.claims[beyond] = Claim.NONE.code
        answered = certificates.holds
        if not answered.all():
            self.codes[~answered] = self.rows.codes[~answered]
            certificates = certificates.withheld(~answered, target.requirement.promise)
        # Without a limit of time, a branch and bound may still have run out of nodes.
        limited = solution.limited & (effort.seconds is not None)
        status, rows = judge(certificates, effort.gap, limited), self.rows.index
        out.put(rows, self.codes, status, certificates, solution.closed)
        pieces = 1 if self.union.lazy is not None else len(self.union.regions)
        out.keep(rows, solution.bound_proofs, pieces)

    def _search_again(self) -> None:
        """Search with larger margins for rows that the model does not confirm, or that lead little.

        A tie of whole columns and categories that the model confirms is an answer, for the next
        point of their lattice is far; only other columns are moved to take it off the edge. A row
        is ``improvable`` until a larger margin does not improve an answer that the model confirms;
        those that are ``near`` keep their whole columns and categories.
        """
        solution, verdict, margin, query = self.solution, self.verdict, self.margin, self.query
        integral, improvable = self.is_integral, solution.piece >= 0
        smooth = np.full(len(improvable), not integral) | self.union.moves_smoothly(self.cases)
        for k in range(ROUNDS):
            unconfirmed = np.flatnonzero(
                improvable & ~np.where(smooth, verdict.leads, verdict.valid)
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
            noise = 0.5 * query.model.form.noise(self.y[unconfirmed], query.eps)
            rounding = SPARE * np.maximum(
                verdict.rounding[unconfirmed], np.where(valid, 0.0, noise)
            )
            grown = np.where(valid & (k == 0), required, GROWTH * required)
            margin[unconfirmed, 0] = np.maximum(grown, rounding) + short
            for mask, look in ((near, self._search_off_the_edge), (~near, self._search)):
                rows = unconfirmed[mask]
                if len(rows):
                    other = look(rows, margin[rows, 0])
                    better = self._keep_better(rows, other)
                    # each of these searches has all the time of a row, so the first is the last
                    improvable[rows[(valid[mask] & ~better) | other.limited]] = False

    def _search_off_the_edge(self, rows: IntArray, margin: FloatArray) -> Incumbents:
        """Search for the same answers with a margin: whole columns and categories held."""
        actionable, points, x = self.query.actionable, self.exact[rows], self.rows.x[rows]
        cost = actionable.encoded_cost
        result = self._search(rows, margin, actionable.domain.held(points, x))
        # Where a target is not convex the search may end elsewhere; that is no way off the edge.
        if any(piece.program.nonconvex for piece in self.union.listed):
            astray = cost(result.points, x) > cost(points, x) * NEARBY
            result.points[astray], result.piece[astray] = np.nan, -1
        return result

    def _keep_better(self, rows: IntArray, other: Incumbents) -> BoolArray:
        """Take the answers of another search that lead by more, or alone are confirmed; which."""
        positions, codes = self._as_codes(rows, other)
        which, valid = rows[positions], self.verdict.valid[rows]
        self._lower_least(rows, self.y[rows], valid)
        better, stale = np.zeros(len(rows), dtype=bool), np.flatnonzero(~valid)
        self.verdict.put(rows[stale], Validation.none(len(stale)))
        if not len(positions):
            return better
        codes, y, verdict = self._ask(which, codes)
        self._lower_least(which, y, verdict.valid)
        leads_by_more = verdict.margin > self.verdict.margin[which]
        ahead = verdict.valid & (~valid[positions] | leads_by_more)
        improved, better[positions] = which[ahead], ahead
        self.codes[improved], self.y[improved] = codes[ahead], y[ahead]
        self.exact[improved] = other.points[better]
        current = ahead | ~valid[positions]
        self.verdict.put(which[current], verdict, current)
        return better

    def _lower_least(self, rows: IntArray, y: FloatArray, valid: BoolArray) -> None:
        """Note what points cost that the model confirms, for no bound is above it."""
        program, cases = self.union.objective_program, self.cases.take(rows)
        inside = valid & (program.violation(y, cases.x) <= VIOLATION)
        objective = np.where(inside, program.objective(y, cases), np.inf)
        self.least[rows] = np.minimum(self.least[rows], objective)

    # Rows of the data are answers, too

    def _witnesses_of(self, i: int, end: float) -> FloatArray:
        """(m, d) rows of the data that the model gives the target, moved towards a row once."""
        if self.data is None:
            return np.empty((0, 0))
        if i not in self.witnesses:
            program, case = self.union.objective_program, self.cases.take(np.array([i]))
            points = self.data.nearest(self.query.target, program, case, TRIED[-1])

            def ask(points: FloatArray) -> tuple[FloatArray, BoolArray]:
                _, y, verdict = self._ask_of_row(i, points)
                return y, verdict.valid

            blocks = self.query.features.blocks
            self.witnesses[i] = shortened(points, program, case, blocks, ask, end)
        return self.witnesses[i]

    def _learn_from_data(self) -> list[int]:
        """Answer rows by cheaper rows of the data, where there are any; return which rows.

        Looked at are rows that ended at a limit; rows without an answer, if they are few or a
        branch and bound searched them; and all rows, if they are few and a branch and bound
        searched them.
        """
        if self.data is None:
            return []
        solution, effort, quick = self.solution, self.query.effort, self.union.is_quick
        missed = ~self.verdict.valid
        branched, few = not quick or self.is_integral, not quick or len(missed) <= FEW
        reviewed = solution.limited | (missed & (branched or few)) | (branched and few)
        program, replaced = self.union.objective_program, list[int]()
        unrefuted = missed & reviewed
        if quick and unrefuted.any():
            bound = lower_bounds(solution.evidence, np.full(len(missed), np.inf))[0]
            unrefuted &= np.isfinite(bound)
        for i in np.flatnonzero(reviewed).tolist():
            case = self.cases.take(np.array([i]))
            reached = np.inf if missed[i] else program.encoded_cost(self.y[i : i + 1], case.x)[0]
            cutoff = float(reached * (1.0 - effort.gap))
            points = self.data.inside(self.query.target, program, case, cutoff)
            if solution.limited[i] or (np.isinf(reached) and unrefuted[i]):
                end = np.inf if effort.seconds is None else clock() + LATE * effort.seconds
                points = np.concatenate(
                    [self._witnesses_of(i, end), points.reshape(-1, case.x.shape[1])]
                )
            if len(points) and self._answer_by_witness(i, points, cutoff):
                replaced.append(i)
        return replaced

    def _answer_by_witness(self, i: int, points: FloatArray, cutoff: float) -> bool:
        """Answer a row by the cheapest of some points that the model confirms, if it is cheaper."""
        program, row = self.union.objective_program, np.array([i])
        codes, y, verdict = self._ask_of_row(i, points)
        x = np.broadcast_to(self.cases.x[i], y.shape)
        inside = program.violation(y, x) <= VIOLATION
        cost = np.where(verdict.valid & inside, program.encoded_cost(y, x), np.inf)
        best = int(cost.argmin())
        if not cost[best] < cutoff:
            return False
        self.codes[i], self.y[i], self.exact[i] = codes[best], y[best], y[best]
        self.verdict.put(row, verdict, slice(best, best + 1))
        self.solution.closed[i] = False
        return True

    def _judge_witness(self, i: int, certificates: Certificates) -> None:
        """Certify a row that a witness answers.

        A proof with a bound above the witness's cost is wrong: there is a warning, and nothing is
        claimed. What a solver reports without a proof is not used: it is about points that lead by
        a margin, which the witness may not.
        """
        none = np.full(len(self.y), np.inf)
        proved = min(evidence.bounds(none)[0][i] for evidence in self.solution.evidence)
        cost = float(certificates.cost[i])
        if proved > cost * (1.0 + CLOSED):
            warnings.warn(CONTRADICTED.format(cost=cost), stacklevel=2)
            self.verdict.valid[i] = certificates.valid[i] = False
            proved = 0.0
        certificates.bound[i] = min(proved, cost)
        gap = relative_gap(certificates.objective, certificates.bound)[i]
        closed = gap <= self.query.effort.gap
        certificates.claims[i] = (Claim.PROVED if closed else Claim.NONE).code
