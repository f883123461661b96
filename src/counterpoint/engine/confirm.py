"""Some rows of one target: search, make the rows that will be returned, and certify them.

A row that the model does not confirm as returned (a tie, float32, rounding) is searched again with
a larger margin; no point is ever pushed out of its constraints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Certificates, Claim, certify, lower_bounds
from counterpoint.engine.cases import Cases
from counterpoint.engine.evidence import Leads
from counterpoint.engine.frontier import Findings
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.question import Question
from counterpoint.engine.search import search
from counterpoint.models.reading import FittedModel
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.rows.encoding import decode, recode
from counterpoint.rows.rows import Rows
from counterpoint.rows.table import Table
from counterpoint.solvers import Effort
from counterpoint.status import Status
from counterpoint.targets import Target, Verdict, members

__all__ = ["NotForeseen", "Task", "confirmed"]


ROUNDS = 12
"""How often a row whose answer the model does not confirm is searched again."""
SPARE = 1.5
"""The margin that is asked for, in units of the model's rounding error at the row: the answer is
elsewhere, where the error may be larger, and solvers and float32 columns round it."""
SINGLE = 8.0 * float(np.finfo(np.float32).eps)
"""Largest relative violation of a constraint that counts as rounding in float32 columns."""
EPS = float(np.finfo(np.float64).eps)
HAIR = 1e-14
"""A share of a row's change, or of a value, that is rounding and no change."""
NEARBY = 1.0 + 1e-3
"""How many times as much an answer off the edge may cost."""
GROWTH = 8.0
"""How much more margin a row gets each time."""


@final
class NotForeseen(Exception):
    """The model gives a row the target that what was read of it does not, or the reverse: a tie."""


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is asked of all rows of a call.

    Parameters
    ----------
    model, question
        The model, and what is asked of each row but the target.
    target
        What is wanted.
    effort
        When a search may stop.
    piece
        The one piece of the target in which to search; None for all.
    """

    model: FittedModel
    question: Question
    target: Target
    effort: Effort
    piece: int | None = None


@final
@dataclass(eq=False)
class _Search:
    """The search for the answers to some rows.

    Parameters
    ----------
    task, rows
        What is asked of which rows.
    pieces
        The union of programs in which to search.
    cases
        The rows as programs see them.
    leads
        By how much answers have to lead, if that depends on the distance.
    eps
        The distance from 1 to the next number where the model computes, or rows are kept.
    foreseen
        Whether the model itself is still to be asked about the rows.
    exact
        (n, d) the points that were found, before they became rows.
    """

    task: Task
    rows: Rows
    pieces: Pieces
    cases: Cases
    leads: Leads | None
    eps: float
    foreseen: bool
    exact: FloatArray


def confirmed(
    task: Task, rows: Rows, pieces: Pieces, eps: float, *, decides: bool, foreseen: bool
) -> tuple[FloatArray, NDArray[np.object_], Certificates, BoolArray]:
    """Search once for all rows, then again for those whose answers the model does not confirm.

    Parameters
    ----------
    task
        What is asked.
    rows
        The rows.
    pieces
        The union of programs that is the target.
    eps
        The distance from 1 to the next number where the model computes, or rows are kept.
    decides
        Whether all of them are on the lattice of whole columns; else none is.
    foreseen
        Whether the model has not been asked about the rows: it is together with their answers, and
        `NotForeseen` is raised if it gives one of them the target already.

    Returns
    -------
    tuple
        (n, p) codes of the answers, the factual codes where there is none; (n,) what became of each
        row, what the answers are worth, and whether closed forms settled the row.
    """
    question, x = task.question, rows.x
    if decides:
        pieces = question.decided(task.target, pieces)
    if task.piece is not None:
        pieces = pieces[task.piece : task.piece + 1]
    cases, leads = question.cases(rows), task.target.leads(question, x)
    s = _Search(task, rows, pieces, cases, leads, eps, foreseen, x)
    everyone = np.arange(len(x))
    margin = _first_margin(s)
    findings = _search(s, everyone, margin)
    _without_margin(s, findings, margin)
    s.exact = np.array(findings.points)
    after, verdict = _returned(s, everyone, findings)
    if s.foreseen:
        _compare(s, task.model.predict(rows.table))
    if task.target.demanding:
        _search_again(s, findings, margin, after, verdict)
    return _certified(s, findings, after, verdict, margin)


def _search_again(
    s: _Search, findings: Findings, margin: FloatArray, after: FloatArray, verdict: Verdict
) -> None:
    """Rows that the model does not confirm, or that do not lead by enough: larger margins.

    A tie of whole columns and categories that the model confirms is an answer, for the next
    point of their lattice is far; only other columns are moved to take it off the edge.
    """
    integral, left = s.pieces.is_integral, findings.piece >= 0
    smooth = np.full(len(left), not integral) | s.pieces.moves_smoothly(s.cases)
    for k in range(ROUNDS):
        again = np.flatnonzero(left & ~np.where(smooth, verdict.leads, verdict.valid))
        near = integral & (verdict.valid[again] | (k == 0))
        here = near | ~findings.limited[again]
        again, near = again[here], near[here]
        if not len(again):
            return
        valid = verdict.valid[again]
        asked = margin[again, 0]
        short = np.nan_to_num(np.maximum(asked - verdict.margin[again], 0.0))
        grown = np.where(valid & (k == 0), asked, GROWTH * asked)
        margin[again, 0] = np.maximum(grown, SPARE * verdict.rounding[again]) + short
        for part, look in ((near, _off_the_edge), (~near, _search)):
            rows = again[part]
            if len(rows):
                better = _keep_better(s, rows, look(s, rows, margin[rows, 0]), after, verdict)
                left[rows[valid[part] & ~better]] = False


def _keep_better(
    s: _Search, rows: IntArray, findings: Findings, after: FloatArray, verdict: Verdict
) -> BoolArray:
    """Write the answers of another search that lead by more, and say which these are.

    What the model confirms is better than what it does not.
    """
    codes, said = _returned(s, rows, findings)
    valid, ahead = verdict.valid[rows], said.margin > verdict.margin[rows]
    better = said.valid & (~valid | ahead)
    after[rows[better]] = codes[better]
    s.exact[rows[better]] = findings.points[better]
    told = better | ~valid
    verdict.put(rows[told], said, told)
    return better


def _without_margin(s: _Search, findings: Findings, margin: FloatArray) -> None:
    """Rows for which the first margin left nothing, though nothing refutes them: without it."""
    lost = np.flatnonzero((findings.piece < 0) & ~findings.limited & margin.any(axis=1))
    if not len(lost):
        return
    bound = _known(s, findings, np.full(len(s.rows.x), np.inf))[0]
    lost = lost[np.isfinite(bound[lost])]
    if len(lost):
        margin[lost] = 0.0
        again = _search(s, lost, margin[lost])
        findings.points[lost], findings.piece[lost] = again.points, again.piece


def _optimal_among_leading(
    s: _Search, rows: BoolArray, findings: Findings, verdict: Verdict, margin: FloatArray
) -> tuple[BoolArray, NDArray[np.object_]]:
    """(n,): which answers are optimal among the points that lead by what was asked for.

    In float32 a lead by the rounding error may cost more than the gap; so may the rounding of
    the answer to its column, which is left out here.
    """
    eps, gap = s.eps, s.task.effort.gap
    rounding = np.maximum(_rounding(s, eps), verdict.rounding)
    asked = np.minimum(margin[:, 0], SPARE * rounding)
    both = np.stack([asked, np.zeros_like(asked)], axis=1)
    program = s.pieces.asked
    worth = np.where(rows, program.objective(s.exact, s.cases), np.inf)
    bound, claim = lower_bounds(findings.evidence, worth, gap, both)
    optimal = np.asarray(rows & (worth * (1.0 - gap) <= bound))
    left = np.flatnonzero(rows & ~optimal & ~findings.limited)
    if s.pieces.is_integral and len(left):  # what was reported holds without a margin
        again = _search(s, left, asked[left])
        bound, claim[left] = lower_bounds(again.evidence, worth[left], gap, both[left])
        optimal[left] = worth[left] * (1.0 - gap) <= bound
    return optimal, claim


def _known(
    s: _Search, findings: Findings, cost: FloatArray
) -> tuple[FloatArray, NDArray[np.object_]]:
    """Bounds and claims from what the first search left behind."""
    return lower_bounds(findings.evidence, cost, s.task.effort.gap)


def _first_margin(s: _Search) -> FloatArray:
    """(n, 2) margins of the first search, whose bounds are what is claimed.

    A bound by weak duality holds for any margin. What a branch and bound reports holds for its
    own margin only; so there only those rows are tightened at which a tie is lost, by less than
    the rounding error of a score.
    """
    integral = s.pieces.is_integral
    eps = EPS if integral else s.eps
    least = SPARE * _rounding(s, eps)
    none = np.zeros_like(least)
    return np.stack([none, least] if integral else [least, none], axis=1)


def _rounding(s: _Search, eps: float) -> FloatArray:
    """(n,) how far off the model's own margins may be at the rows, in score units."""
    return s.task.target.requirement.rounding(s.task.model.reading.form, s.rows.x, eps)


def _off_the_edge(s: _Search, rows: IntArray, margin: FloatArray) -> Findings:
    """The same answers with a margin: whole columns and categories held, the others free."""
    points = s.exact[rows]
    held = s.task.question.plain.held(points, s.rows.x[rows])
    low, high = np.where(held, points, -np.inf), np.where(held, points, np.inf)
    cases = s.cases.take(rows).with_margin(margin).within(low, high)
    off, plain = _found(s, rows, cases), s.task.question.plain
    # Where a target is not convex the search may end elsewhere; that is no way off the edge.
    if any(piece.program.nonconvex for piece in s.pieces.listed):
        astray = plain.cost(off.points, cases.x) > plain.cost(points, cases.x) * NEARBY
        off.points[astray], off.piece[astray] = np.nan, -1
    return off


def _search(s: _Search, rows: IntArray, margin: FloatArray) -> Findings:
    cases = s.cases.take(rows) if len(rows) < len(s.rows.x) else s.cases
    return _found(s, rows, cases.with_margin(margin))


def _found(s: _Search, rows: IntArray, cases: Cases) -> Findings:
    leads = None if s.leads is None else s.leads.take(rows)
    return search(s.pieces, cases, s.task.effort, leads)


def _returned(s: _Search, rows: IntArray, findings: Findings) -> tuple[FloatArray, Verdict]:
    """The rows as they will be returned: codes, and what the model says of them."""
    features = s.task.question.features
    points = findings.points
    found = np.flatnonzero(~np.isnan(points[:, 0]))
    found = found[~s.task.model.overflows(points[found], s.eps)]
    if not len(found):
        return np.array(s.rows.codes[rows]), Verdict.none(len(rows))
    which = slice(None) if len(found) == len(s.rows.x) else rows[found]
    solved = found[~findings.closed[found]]
    if len(solved):
        _snap(s, points, solved, rows[solved])
    start = s.rows.codes[which]
    codes = _representable(s, features.compress(points[found]), which)
    returned = decode(s.rows.table, features, which, start, codes)
    codes = recode(returned, features, codes)
    y = features.expand(codes)
    predicted = _predictions(s, returned)
    said = _led(
        s, rows[found], y, s.task.target.verdict(s.task.model, returned, y, predicted, s.eps)
    )
    if len(found) == len(rows):
        return codes, said
    after, verdict = np.array(s.rows.codes[rows]), Verdict.none(len(rows))
    after[found] = codes
    verdict.put(found, said)
    return after, verdict


def _led(s: _Search, rows: IntArray, y: FloatArray, said: Verdict) -> Verdict:
    """The same of points (n, d), whose leads must be what is needed at their distances."""
    if s.leads is None:
        return said
    cost = s.task.question.plain.cost(y, s.rows.x[rows])
    margin = said.margin - s.leads.take(rows).required(y, cost)
    return replace(said, valid=said.valid & (margin >= 0.0), margin=margin)


def _predictions(s: _Search, returned: Table) -> NDArray[Any]:
    """The model's own, for rows as they will be returned; for the factual rows with them."""
    if not s.foreseen:
        return s.task.model.predict(returned)
    predicted, factual = s.task.model.predict_both(returned, s.rows.table)
    _compare(s, factual)
    return predicted


def _compare(s: _Search, factual: NDArray[Any]) -> None:
    """What was foreseen of the factual rows with what the model predicts."""
    s.foreseen = False
    s.task.model.check(s.rows.x, factual)
    met = s.task.target.met(s.task.model, s.rows.table, s.rows.x, factual)
    if s.leads is not None and met.any():
        ahead = s.task.model.reading.form.margin(s.rows.x, s.task.target)
        met &= ahead >= s.leads.required(s.rows.x, np.zeros(len(s.rows.x)))
    if met.any():
        raise NotForeseen


def _representable(s: _Search, codes: FloatArray, which: IntArray | slice) -> FloatArray:
    """Numbers of float32 columns rounded to float32, towards the inside of their bounds."""
    if not s.rows.table.singles:
        return codes
    features, cases = s.task.question.features, s.cases.take(which)
    codes = np.array(codes)
    for j in s.rows.table.singles:
        block = features.blocks[j]
        if features.is_numeric[j]:
            low, high = cases.low[:, block.start], cases.high[:, block.start]
            single = codes[:, j].astype(np.float32)
            down, up = (np.nextafter(single, np.float32(way)) for way in (-np.inf, np.inf))
            codes[:, j] = np.where(single > high, down, np.where(single < low, up, single))
    return codes


def _snap(s: _Search, points: FloatArray, found: IntArray, which: IntArray) -> None:
    """Values that rounding left a hair from the factual value, or from a bound, put onto it."""
    cases, price = s.cases, s.task.question.price
    x, y = cases.x[which], points[found]
    diagonal = price.quadratic if price.quadratic.ndim == 1 else np.diag(price.quadratic)
    length = (price.absolute + np.sqrt(diagonal)) * np.abs(y - x)
    y = np.where(length <= HAIR * length.max(axis=1, keepdims=True), x, y)
    if not cases.unbounded:
        hair = HAIR * (np.abs(x) + np.abs(y))
        for bound in (cases.low[which], cases.high[which]):
            y = np.where(np.abs(y - bound) <= hair, bound, y)
    points[found] = y


def _certified(
    s: _Search, findings: Findings, after: FloatArray, verdict: Verdict, margin: FloatArray
) -> tuple[FloatArray, NDArray[np.object_], Certificates, BoolArray]:
    asked, cases = s.pieces.asked, s.cases
    y = s.task.question.features.expand(after)
    reached = np.where(verdict.valid, asked.objective(y, cases), np.inf)
    known = _known(s, findings, reached)
    certificates = certify(asked, y, cases, known, verdict)
    if s.rows.table.singles:
        certificates = replace(certificates, resolution=SINGLE)
    answered = certificates.holds
    if not answered.all():
        after[~answered] = s.rows.codes[~answered]
        certificates = certificates.withheld(~answered, known[0])
        certificates.guarantee[~answered] = s.task.target.promise
    optimal = answered & (certificates.gap <= s.task.effort.gap)
    left = answered & ~optimal
    if left.any() and s.eps > EPS and s.task.target.demanding:
        leading, claim = _optimal_among_leading(s, left, findings, verdict, margin)
        certificates.claim[leading] = claim[leading]
        optimal |= leading
    # Without a limit of time, a branch and bound may still have run out of nodes.
    limited = findings.limited & (s.task.effort.seconds is not None)
    infeasible = np.isposinf(known[0])
    status = members(
        len(y),
        Status.UNPROVED,
        (infeasible, Status.INFEASIBLE),
        (answered, Status.SUBOPTIMAL),
        (limited, Status.LIMIT),
        (optimal, Status.OPTIMAL),
    )
    open_ended = ~optimal & (limited | ~(infeasible | answered))
    if open_ended.any():
        certificates.claim[open_ended] = Claim.NONE
    return after, status, certificates, findings.closed
