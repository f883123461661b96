"""Validation: answers are decoded as they will be returned, and the model itself is asked.

The way of the rows that are searched together, in one `AnswerSearch`:

1. `first_search` looks for the cheapest points that lead by the model's rounding error.
2. `ask_about` asks the model about them as they will be returned, several searches at once.
3. `settle` searches again, with a larger margin, for rows that the model does not confirm (a tie,
   float32, rounding); compares answers with rows of the data; and certifies what there is. No point
   is ever pushed out of its constraints.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
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
from counterpoint.programs.region import Batch
from counterpoint.rows.encoding import RowBatch, as_returned
from counterpoint.search.query import Query
from counterpoint.search.search import Incumbents, SafetyMargins, Union, search
from counterpoint.search.witnesses import TRIED, Witnesses, shortened

__all__ = ["SPARE", "AnswerSearch", "NotForeseen", "ask_about", "first_search", "settle"]

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
class NotForeseen(Exception):
    """`predict` and the form disagree on whether a factual row already meets the target (a tie)."""


@final
@dataclass(eq=False)
class AnswerSearch:
    """What is asked of n rows that are searched together, and the answers so far."""

    query: Query
    rows: RowBatch
    union: Union  # where answers are looked for
    cases: Batch  # the rows as its programs see them
    # (n, 2) how much answers have to lead by; and more where a tie is lost
    margin: FloatArray
    varying_margins: SafetyMargins | None  # what they have to lead by besides, where they are
    data: Witnesses | None  # rows of the data that may be answers
    least: FloatArray  # (n,) objectives of points that gave way to others that lead by more
    witnesses: dict[int, FloatArray] = field(default_factory=dict)  # of a row, the cheapest first

    # What `first_search` leaves behind.
    solution: Incumbents = field(init=False)
    exact: FloatArray = field(init=False)  # (n, d) the points that were found, not rounded
    positions: IntArray = field(init=False)  # (m,) rows for which there is a point
    proposed: FloatArray = field(init=False)  # (m, p) codes of these points

    # What `ask_about` adds, and `settle` improves.
    codes: FloatArray = field(init=False)  # (n, p) of the answers, the factual ones without one
    y: FloatArray = field(init=False)  # (n, d) the same encoded
    verdict: Validation = field(init=False)  # what the model says of them


# First the cheapest points


def first_search(query: Query, rows: RowBatch, union: Union) -> AnswerSearch:
    """Search for the cheapest points of a union that lead by the model's rounding error."""
    x, n, required = rows.x, len(rows.index), query.target.requirement
    # A bound by weak duality holds for any margin. What a branch and bound reports holds for its
    # own margin only; so there only those rows are tightened at which a tie is lost, by less than
    # the rounding error of a score.
    integral = union.is_integral
    margin = np.zeros((n, 2))
    rounding = required.rounding(query.model.form, x, EPS if integral else query.eps)
    margin[:, int(integral)] = SPARE * rounding
    cases = query.actionable.cases(x, np.array(margin))
    if rows.weight is not None:
        cases = cases.weighing(0.5 * rows.weight)
    if rows.held is not None:
        width = [block.stop - block.start for block in query.features.blocks]
        cases = cases.holding(np.repeat(rows.held, width, axis=1), x)
    varying = None if required.chance is None else query.safety_margins(x)
    data = query.witnesses if query.target.demanding and query.piece is None else None
    state = AnswerSearch(query, rows, union, cases, margin, varying, data, np.full(n, np.inf))
    state.solution = solution = _search(state, np.arange(n), margin)
    if (solution.piece < 0).any():
        _search_without_margin(state)
    # what closed forms found is not moved when it becomes rows
    state.exact = solution.points if solution.closed.all() else np.array(solution.points)
    state.positions, state.proposed = _proposed(state, np.arange(n), solution)
    return state


def _search(
    state: AnswerSearch, rows: IntArray, margin: FloatArray, held: BoolArray | None = None
) -> Incumbents:
    """Search for the cheapest points of some rows with a margin (n, 2), and entries held if given.

    Entries (n, d) are held at the points that the first search found.
    """
    query, cases = state.query, state.cases.take(rows).with_margin(margin)
    varying = None if state.varying_margins is None else state.varying_margins.take(rows)
    single = float(np.finfo(np.float32).eps)
    effort = replace(query.effort, eps=single) if state.rows.table.singles else query.effort
    if held is not None:
        # Time may be up by now; this search takes long only where arithmetic fails.
        if effort.seconds is not None:
            effort = replace(effort, seconds=LATE * effort.seconds)
        return search(state.union, cases.holding(held, state.exact[rows]), effort, varying)

    def incumbents(k: int, end: float) -> FloatArray:
        # These lead by the margin; by what ties take besides, the search itself sees to.
        points = _witnesses(state, int(rows[k]), end)
        if not len(points):
            return points
        return points[
            _asked_as_answers(state, int(rows[k]), points)[2].margin >= cases.margin[k, 0]
        ]

    return search(state.union, cases, effort, varying, incumbents)


def _search_without_margin(state: AnswerSearch) -> None:
    """Search again for rows that have no point with a margin, though nothing refutes them."""
    solution = state.solution
    unsolved = np.flatnonzero((solution.piece < 0) & ~solution.limited & state.margin.any(axis=1))
    if len(unsolved):
        bound = lower_bounds(solution.evidence, np.full(len(solution.piece), np.inf))[0]
        unsolved = unsolved[np.isfinite(bound[unsolved])]
    if len(unsolved):
        state.margin[unsolved] = 0.0
        result = _search(state, unsolved, state.margin[unsolved])
        solution.points[unsolved], solution.piece[unsolved] = result.points, result.piece
        solution.limited[unsolved] = result.limited
        solution.written |= {int(unsolved[i]): y for i, y in result.written.items()}


# Points become rows


def _proposed(
    state: AnswerSearch, rows: IntArray, solution: Incumbents
) -> tuple[IntArray, FloatArray]:
    """Return which of some rows have a point that the model takes, and their (m, p) codes."""
    points, query = solution.points, state.query
    positions = np.flatnonzero(~np.isnan(points[:, 0]))
    if query.eps > EPS:
        positions = positions[~query.model.overflows(points[positions], query.eps)]
    if not len(positions):
        return positions, np.empty((0, len(query.features)))
    iterated = positions[~solution.closed[positions]]
    if len(iterated):
        points[iterated] = _snapped(state, rows[iterated], points[iterated])
    y = points[positions]
    if solution.written:
        y = np.array([solution.written.get(i, points[i]) for i in positions.tolist()])
    return positions, _codes(state, rows[positions], y)


def _snapped(state: AnswerSearch, rows: IntArray, y: FloatArray) -> FloatArray:
    """Put values that solvers left a hair from the factual value, or a bound, onto it."""
    x, encoded_cost = state.cases.x[rows], state.query.encoded_cost
    length = (encoded_cost.absolute + np.sqrt(encoded_cost.diagonal)) * np.abs(y - x)
    y = np.where(length <= HAIR * length.max(axis=1, keepdims=True), x, y)
    if not state.cases.unbounded:
        hair = HAIR * (np.abs(x) + np.abs(y))
        for bound in (state.cases.low[rows], state.cases.high[rows]):
            y = np.where(np.abs(y - bound) <= hair, bound, y)
    return y


def _codes(state: AnswerSearch, rows: IntArray, y: FloatArray) -> FloatArray:
    """(m, p) codes of points for some rows.

    Numbers of float32 columns are rounded to float32, towards the inside of their bounds.
    """
    features, singles, cases = state.query.features, state.rows.table.singles, state.cases
    codes = y if features.all_numeric else features.compress(y)
    if not singles:
        return codes
    positions = np.array([j for j in singles if features.is_numeric[j]], dtype=np.intp)
    columns = as_slice(np.array([features.blocks[j].start for j in positions], dtype=np.intp))
    block, positions_block = as_slice(rows), as_slice(positions)
    values, x = codes[:, positions_block], state.rows.x[block][:, columns]
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


# The model is asked


def ask_about(
    query: Query, rows: RowBatch, searches: list[AnswerSearch], foreseen: NDArray[Any] | None
) -> None:
    """Ask the model about the first answers of some searches, which are of one kind, in one table.

    If it has not been asked about the factual rows, what is ``foreseen`` of them is compared with
    what it says in the same call: `NotForeseen` is raised if it gives one the target already.
    """
    which, codes, places = _joined(rows, searches)
    if not len(which):  # there is no answer at all
        if foreseen is not None:
            _compare(rows, searches, foreseen, query.model.predict(rows.table))
        for state in searches:
            _take_verdict(state, codes, state.rows.x[:0], Validation.none(0))
        return
    answered, features = as_slice(which), query.features
    returned, after, y = as_returned(
        rows.table, features, answered, rows.codes[answered], codes, followed=foreseen is not None
    )
    if foreseen is None:
        outputs = query.target.said(query.model, returned[0])
    else:
        both = query.model.predict(*returned)
        outputs = both[: len(which)]
        _compare(rows, searches, foreseen, both[len(which) :])
    for state, place in zip(searches, places, strict=True):
        proposed = state.proposed if after is codes else after[place]
        points = proposed if y is after else y[place]
        verdict = _verdict(state, state.positions, points, outputs[place])
        if not (state.query.target.demanding or verdict.valid.all()):
            query.model.check(points, query.model.predict(returned[0])[place])
        _take_verdict(state, proposed, points, verdict)


def _joined(
    rows: RowBatch, searches: list[AnswerSearch]
) -> tuple[IntArray, FloatArray, list[IntArray | slice]]:
    """Return which rows have an answer, their codes, and where those of each search are in them."""
    if len(searches) == 1:
        return searches[0].rows.at[searches[0].positions], searches[0].proposed, [slice(None)]
    answers = [(state.rows.at[state.positions], state.proposed) for state in searches]
    codes, answered = np.empty_like(rows.codes), np.zeros(len(rows), dtype=bool)
    for positions, proposed in answers:
        codes[positions], answered[positions] = proposed, True
    which = np.flatnonzero(answered)
    if len(which) == len(rows):
        return which, codes, [as_slice(positions) for positions, _ in answers]
    places = [as_slice(np.searchsorted(which, positions)) for positions, _ in answers]
    return which, codes[which], places


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
    for state in searches:
        if state.query.already_satisfied(state.rows.x, predicted[state.rows.at]).any():
            raise NotForeseen


def _take_verdict(
    state: AnswerSearch, codes: FloatArray, y: FloatArray, verdict: Validation
) -> None:
    """Take what was proposed as it is returned, and what the model says of it."""
    n, positions = state.rows.index.size, state.positions
    state.codes, state.y, state.verdict = codes, y, verdict
    if len(positions) < n:
        state.codes, state.y = np.array(state.rows.codes), np.array(state.rows.x)
        state.codes[positions], state.y[positions] = codes, y
        state.verdict = Validation.none(n)
        state.verdict.put(positions, verdict)


def _asked(
    state: AnswerSearch, rows: IntArray, codes: FloatArray
) -> tuple[FloatArray, FloatArray, Validation]:
    """Ask the model about answers to some rows: (m, p) as they are returned, the same encoded."""
    query, index = state.query, state.rows.at[rows]
    features, before = query.features, state.rows.codes[rows]
    (returned,), codes, y = as_returned(state.rows.table, features, index, before, codes)
    verdict = _verdict(state, rows, y, query.target.said(query.model, returned))
    if not (query.target.demanding or verdict.valid.all()):
        query.model.check(y, query.model.predict(returned))
    return codes, y, verdict


def _asked_as_answers(
    state: AnswerSearch, i: int, points: FloatArray
) -> tuple[FloatArray, FloatArray, Validation]:
    """Ask the model about points as answers to one row, as `_asked` does."""
    rows = np.full(len(points), i)
    return _asked(state, rows, _codes(state, rows, points))


def _verdict(
    state: AnswerSearch, rows: IntArray, y: FloatArray, outputs: NDArray[Any]
) -> Validation:
    """Judge what the model says of answers to some rows: whether they lead by what is asked for."""
    query = state.query
    verdict = query.target.verdict(query.model.form, y, outputs, query.eps)
    if state.varying_margins is None:
        return verdict
    cost = query.encoded_cost(y, state.rows.x[rows])
    margin = verdict.margin - state.varying_margins.take(rows).required(y, cost)
    return replace(verdict, valid=verdict.valid & (margin >= 0.0), margin=margin)


# Answers are improved, and certified


def settle(state: AnswerSearch) -> tuple[FloatArray, WordArray, Certificates, BoolArray]:
    """Search again for rows whose answers are not confirmed, and certify what there is.

    Return (n, p) codes of the answers, the factual codes where there is none; (n,) what became of
    each row, what the answers are worth, and whether closed forms settled the row.
    """
    solution, effort, target = state.solution, state.query.effort, state.query.target
    if target.demanding and not state.verdict.leads.all():
        _search_again(state)
    replaced = _learn_from_data(state)
    resolution = SINGLE if state.rows.table.singles else VIOLATION
    certificates = certify(
        state.union.asked,
        state.y,
        state.cases,
        state.verdict,
        solution.evidence,
        gap=effort.gap,
        resolution=resolution,
    )
    for i in replaced:
        _judge_witness(state, i, certificates)
    above = certificates.bound > state.least
    certificates.bound[above] = state.least[above]
    beyond = above & (certificates.gap > effort.gap)
    certificates.claims[beyond] = Claim.NONE.code
    answered = certificates.holds
    if not answered.all():
        state.codes[~answered] = state.rows.codes[~answered]
        certificates = certificates.withheld(~answered, target.requirement.promise)
    # Without a limit of time, a branch and bound may still have run out of nodes.
    limited = solution.limited & (effort.seconds is not None)
    return state.codes, judge(certificates, effort.gap, limited), certificates, solution.closed


def _search_again(state: AnswerSearch) -> None:
    """Search with larger margins for rows that the model does not confirm, or that lead too little.

    A tie of whole columns and categories that the model confirms is an answer, for the next point
    of their lattice is far; only other columns are moved to take it off the edge. A row is
    ``improvable`` until a larger margin does not improve an answer that the model confirms; those
    that are ``near`` keep their whole columns and categories.
    """
    solution, verdict, margin, query = state.solution, state.verdict, state.margin, state.query
    integral, improvable = state.union.is_integral, solution.piece >= 0
    smooth = np.full(len(improvable), not integral) | state.union.moves_smoothly(state.cases)
    for k in range(ROUNDS):
        unconfirmed = np.flatnonzero(improvable & ~np.where(smooth, verdict.leads, verdict.valid))
        near = integral & (verdict.valid[unconfirmed] | (k == 0))
        searched = near | ~solution.limited[unconfirmed]
        unconfirmed, near = unconfirmed[searched], near[searched]
        if not len(unconfirmed):
            return
        valid = verdict.valid[unconfirmed]
        required = margin[unconfirmed, 0]
        short = np.nan_to_num(np.maximum(required - verdict.margin[unconfirmed], 0.0))
        # what the model does not confirm, though its form is exact, was rounded on the way
        noise = 0.5 * query.model.form.noise(state.y[unconfirmed], query.eps)
        rounding = SPARE * np.maximum(verdict.rounding[unconfirmed], np.where(valid, 0.0, noise))
        grown = np.where(valid & (k == 0), required, GROWTH * required)
        margin[unconfirmed, 0] = np.maximum(grown, rounding) + short
        for mask, look in ((near, _search_off_the_edge), (~near, _search)):
            rows = unconfirmed[mask]
            if len(rows):
                other = look(state, rows, margin[rows, 0])
                better = _keep_better(state, rows, other)
                # each of these searches has all the time of a row, so the first is the last
                improvable[rows[(valid[mask] & ~better) | other.limited]] = False


def _search_off_the_edge(state: AnswerSearch, rows: IntArray, margin: FloatArray) -> Incumbents:
    """Search for the same answers with a margin: whole columns and categories held, others free."""
    actionable, points, x = state.query.actionable, state.exact[rows], state.rows.x[rows]
    cost = actionable.encoded_cost
    result = _search(state, rows, margin, actionable.domain.held(points, x))
    # Where a target is not convex the search may end elsewhere; that is no way off the edge.
    if any(piece.program.nonconvex for piece in state.union.listed):
        astray = cost(result.points, x) > cost(points, x) * NEARBY
        result.points[astray], result.piece[astray] = np.nan, -1
    return result


def _keep_better(state: AnswerSearch, rows: IntArray, other: Incumbents) -> BoolArray:
    """Write the answers of another search that lead by more, or alone are confirmed; which."""
    positions, codes = _proposed(state, rows, other)
    which, valid = rows[positions], state.verdict.valid[rows]
    _lower_least(state, rows, state.y[rows], valid)
    better, stale = np.zeros(len(rows), dtype=bool), np.flatnonzero(~valid)
    state.verdict.put(rows[stale], Validation.none(len(stale)))
    if not len(positions):
        return better
    codes, y, verdict = _asked(state, which, codes)
    _lower_least(state, which, y, verdict.valid)
    leads_by_more = verdict.margin > state.verdict.margin[which]
    ahead = verdict.valid & (~valid[positions] | leads_by_more)
    improved, better[positions] = which[ahead], ahead
    state.codes[improved], state.y[improved] = codes[ahead], y[ahead]
    state.exact[improved] = other.points[better]
    current = ahead | ~valid[positions]
    state.verdict.put(which[current], verdict, current)
    return better


def _lower_least(state: AnswerSearch, rows: IntArray, y: FloatArray, valid: BoolArray) -> None:
    """Note what points cost that the model confirms, for no bound is above it."""
    program, cases = state.union.asked, state.cases.take(rows)
    inside = valid & (program.violation(y, cases.x) <= VIOLATION)
    objective = np.where(inside, program.objective(y, cases), np.inf)
    state.least[rows] = np.minimum(state.least[rows], objective)


# Rows of the data are answers, too


def _witnesses(state: AnswerSearch, i: int, end: float) -> FloatArray:
    """(m, d) rows of the data that the model gives the target, moved towards a row once."""
    if state.data is None:
        return np.empty((0, 0))
    if i not in state.witnesses:
        program, case = state.union.asked, state.cases.take(np.array([i]))
        points = state.data.nearest(state.query.target, program, case, TRIED[-1])

        def ask(points: FloatArray) -> tuple[FloatArray, BoolArray]:
            _, y, verdict = _asked_as_answers(state, i, points)
            return y, verdict.valid

        blocks = state.query.features.blocks
        state.witnesses[i] = shortened(points, program, case, blocks, ask, end)
    return state.witnesses[i]


def _learn_from_data(state: AnswerSearch) -> list[int]:
    """Answer rows by rows of the data that are cheaper than the search's answers; return the rows.

    Looked at are rows that ended at a limit; rows without an answer, if they are few or a branch
    and bound searched them; and all rows, if they are few and a branch and bound searched them.
    """
    solution, effort, replaced = state.solution, state.query.effort, list[int]()
    if state.data is None:
        return replaced
    program, quick, missed = state.union.asked, state.union.is_quick, ~state.verdict.valid
    branched, few = not quick or state.union.is_integral, not quick or len(missed) <= FEW
    rows = (missed & (branched or few)) | (branched and few)
    unsettled = missed & rows & quick
    if unsettled.any():
        unsettled &= np.isfinite(lower_bounds(solution.evidence, np.full(len(rows), np.inf))[0])
    reviewed = np.flatnonzero(rows | solution.limited).tolist()
    if not reviewed:
        return replaced
    reached = np.where(missed, np.inf, program.encoded_cost(state.y, state.cases.x))
    for i in reviewed:
        case, cutoff = state.cases.take(np.array([i])), reached[i] * (1.0 - effort.gap)
        points = state.data.inside(state.query.target, program, case, cutoff)
        if solution.limited[i] or (np.isinf(reached[i]) and (not quick or unsettled[i])):
            end = np.inf if effort.seconds is None else clock() + LATE * effort.seconds
            other = _witnesses(state, i, end)
            points = np.concatenate([other, points.reshape(-1, case.x.shape[1])])
        if len(points) and _answer_by_witness(state, i, points, cutoff):
            replaced.append(i)
    return replaced


def _answer_by_witness(state: AnswerSearch, i: int, points: FloatArray, cutoff: float) -> bool:
    """Answer a row by the cheapest of some points that the model confirms, if it is cheaper."""
    program, row = state.union.asked, np.array([i])
    codes, y, verdict = _asked_as_answers(state, i, points)
    x = np.broadcast_to(state.cases.x[i], y.shape)
    inside = program.violation(y, x) <= VIOLATION
    cost = np.where(verdict.valid & inside, program.encoded_cost(y, x), np.inf)
    best = int(cost.argmin())
    if not cost[best] < cutoff:
        return False
    state.codes[i], state.y[i], state.exact[i] = codes[best], y[best], y[best]
    state.verdict.put(row, verdict, slice(best, best + 1))
    state.solution.closed[i] = False
    return True


def _judge_witness(state: AnswerSearch, i: int, certificates: Certificates) -> None:
    """Certify a row that a witness answers.

    A proof with a bound above the witness's cost is wrong: there is a warning, and nothing is
    claimed. What a solver reports without a proof is not used: it is about points that lead by a
    margin, which the witness may not.
    """
    none = np.full(len(state.y), np.inf)
    proved = min(evidence.bounds(none)[0][i] for evidence in state.solution.evidence)
    cost = float(certificates.cost[i])
    if proved > cost * (1.0 + CLOSED):
        warnings.warn(CONTRADICTED.format(cost=cost), stacklevel=2)
        state.verdict.valid[i] = certificates.valid[i] = False
        proved = 0.0
    certificates.bound[i] = min(proved, cost)
    gap = relative_gap(certificates.objective, certificates.bound)[i]
    closed = gap <= state.query.effort.gap
    certificates.claims[i] = (Claim.PROVED if closed else Claim.NONE).code
