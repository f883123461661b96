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
from counterpoint.engine.frontier import Findings
from counterpoint.engine.question import Question
from counterpoint.engine.search import search
from counterpoint.engine.terms import Terms
from counterpoint.models.fitted import FittedModel
from counterpoint.rows.encoding import decode, recode
from counterpoint.rows.enum_column import EnumColumn
from counterpoint.rows.table import Table
from counterpoint.solvers import Effort
from counterpoint.status import Status
from counterpoint.targets import Target, Verdict

__all__ = ["Asked", "Settled", "Settlement", "Surprise"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

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
class Surprise(Exception):
    """The model gives a row the target that what was read of it does not, or the reverse: a tie."""


@final
@dataclass(frozen=True, eq=False)
class Settled:
    """What became of some rows, in columns.

    Parameters
    ----------
    after
        (n, p) codes of the answers; the factual codes where there is none.
    status
        (n,) what became of each.
    certificates
        What the answers are worth.
    closed
        (n,): whether closed forms settled the row.
    """

    after: FloatArray
    status: EnumColumn[Status]
    certificates: Certificates
    closed: BoolArray


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """Rows of one target that need a change.

    Parameters
    ----------
    target
        What is wanted.
    table, before, index
        The rows, their codes, and their positions in the batch.
    foreseen
        Whether the model itself has not been asked about them.
    terms
        What each row asks for itself.
    """

    target: Target
    table: Table
    before: FloatArray
    index: IntArray
    foreseen: bool
    terms: Terms

    def take(self, part: slice | IntArray) -> Asked:
        """Some of the rows."""
        return replace(
            self,
            table=self.table.take(part),
            before=self.before[part],
            index=self.index[part],
            terms=self.terms.take(part),
        )


@final
class Settlement:
    """Some rows of one target, in the making.

    Parameters
    ----------
    judge, question
        The model, and what is asked.
    asked
        The rows, all of them on the lattice of whole columns or none, and their target. If the
        model has not been asked about them, it is together with their answers; `Surprise` is
        raised if it gives one of them the target already.
    effort
        When a search may stop.
    """

    def __init__(
        self, judge: FittedModel, question: Question, asked: Asked, effort: Effort
    ) -> None:
        self.judge, self.question, self.target = judge, question, asked.target
        self.table, self.before, self.foreseen = asked.table, asked.before, asked.foreseen
        self.x = question.features.expand(asked.before)
        decides = question.on_lattice(self.x).all()
        self.pieces = (question.decided if decides else question.pieces)(asked.target)
        if asked.terms.piece is not None:
            self.pieces = self.pieces[asked.terms.piece : asked.terms.piece + 1]
        self.effort = effort
        self.band = asked.target.leads(question, self.x)
        self.cases = asked.terms.of(question.plain.cases(self.x), question.features)
        self.exact = np.full(self.x.shape, np.nan)

    def run(self) -> Settled:
        """Search once for all rows, then again for those that the model does not confirm."""
        everyone = np.arange(len(self.x))
        margin = self._first_margin()
        findings = self._search(everyone, margin)
        self._without_margin(findings, margin)
        self.exact = np.array(findings.points)
        after, verdict = self._returned(everyone, findings)
        if self.foreseen:
            self._compare(self.judge.predict(self.table))
        if self.target.demanding:
            self._search_again(findings, margin, after, verdict)
        return self._certified(findings, after, verdict, margin)

    def _search_again(
        self, findings: Findings, margin: FloatArray, after: FloatArray, verdict: Verdict
    ) -> None:
        """Rows that the model does not confirm, or that do not lead by enough: larger margins.

        A tie of whole columns and categories that the model confirms is an answer, for the next
        point of their lattice is far; only other columns are moved to take it off the edge.
        """
        integral, left = self.pieces.is_integral, findings.piece >= 0
        smooth = np.full(len(left), not integral) | self.pieces.moves_smoothly(self.cases)
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
            for part, look in ((near, self._off_the_edge), (~near, self._search)):
                rows = again[part]
                if len(rows):
                    better = self._keep_better(rows, look(rows, margin[rows, 0]), after, verdict)
                    left[rows[valid[part] & ~better]] = False

    def _keep_better(
        self, rows: IntArray, findings: Findings, after: FloatArray, verdict: Verdict
    ) -> BoolArray:
        """Write the answers of another search that lead by more, and say which these are.

        What the model confirms is better than what it does not.
        """
        codes, said = self._returned(rows, findings)
        valid, ahead = verdict.valid[rows], said.margin > verdict.margin[rows]
        better = said.valid & (~valid | ahead)
        after[rows[better]] = codes[better]
        self.exact[rows[better]] = findings.points[better]
        told = better | ~valid
        verdict.put(rows[told], said.take(told))
        return better

    def _without_margin(self, findings: Findings, margin: FloatArray) -> None:
        """Rows for which the first margin left nothing, though nothing refutes them: without it."""
        lost = np.flatnonzero((findings.piece < 0) & ~findings.limited & margin.any(axis=1))
        if not len(lost):
            return
        bound = self._known(findings, np.full(len(self.x), np.inf))[0]
        lost = lost[np.isfinite(bound[lost])]
        if len(lost):
            margin[lost] = 0.0
            again = self._search(lost, margin[lost])
            findings.points[lost], findings.piece[lost] = again.points, again.piece

    def _optimal_among_leading(
        self, rows: BoolArray, findings: Findings, verdict: Verdict, margin: FloatArray
    ) -> tuple[BoolArray, EnumColumn[Claim]]:
        """(n,): which answers are optimal among the points that lead by what was asked for.

        In float32 a lead by the rounding error may cost more than the gap; so may the rounding of
        the answer to its column, which is left out here.
        """
        eps, gap = self.judge.eps(self.table), self.effort.gap
        rounding = np.maximum(self._rounding(eps), verdict.rounding)
        asked = np.minimum(margin[:, 0], SPARE * rounding)
        both = np.stack([asked, np.zeros_like(asked)], axis=1)
        program = self.question.asked(self.target)
        worth = np.where(rows, program.objective(self.exact, self.cases), np.inf)
        bound, claim = lower_bounds(findings.evidence, worth, gap, both)
        optimal = np.asarray(rows & (worth * (1.0 - gap) <= bound))
        left = np.flatnonzero(rows & ~optimal & ~findings.limited)
        if self.pieces.is_integral and len(left):  # what was reported holds without a margin
            again = self._search(left, asked[left])
            bound, claim[left] = lower_bounds(again.evidence, worth[left], gap, both[left])
            optimal[left] = worth[left] * (1.0 - gap) <= bound
        return optimal, claim

    def _known(self, findings: Findings, cost: FloatArray) -> tuple[FloatArray, EnumColumn[Claim]]:
        """Bounds and claims from what the first search left behind."""
        return lower_bounds(findings.evidence, cost, self.effort.gap)

    def _first_margin(self) -> FloatArray:
        """(n, 2) margins of the first search, whose bounds are what is claimed.

        A bound by weak duality holds for any margin. What a branch and bound reports holds for its
        own margin only; so there only those rows are tightened at which a tie is lost, by less than
        the rounding error of a score.
        """
        integral = self.pieces.is_integral
        eps = EPS if integral else self.judge.eps(self.table)
        least = SPARE * self._rounding(eps)
        none = np.zeros_like(least)
        return np.stack([none, least] if integral else [least, none], axis=1)

    def _rounding(self, eps: float) -> FloatArray:
        """(n,) how far off the model's own margins may be at the rows, in score units."""
        return self.target.requirement.rounding(self.judge.form, self.x, eps)

    def _off_the_edge(self, rows: IntArray, margin: FloatArray) -> Findings:
        """The same answers with a margin: whole columns and categories held, the others free."""
        points = self.exact[rows]
        held = self.question.plain.held(points, self.x[rows])
        low, high = np.where(held, points, -np.inf), np.where(held, points, np.inf)
        cases = self.cases.take(rows).with_margin(margin).within(low, high)
        off, plain = self._found(rows, cases), self.question.plain
        # Where a target is not convex the search may end elsewhere; that is no way off the edge.
        if any(piece.program.nonconvex for piece in self.pieces.listed):
            astray = plain.cost(off.points, cases.x) > plain.cost(points, cases.x) * NEARBY
            off.points[astray], off.piece[astray] = np.nan, -1
        return off

    def _search(self, rows: IntArray, margin: FloatArray) -> Findings:
        cases = self.cases.take(rows) if len(rows) < len(self.x) else self.cases
        return self._found(rows, cases.with_margin(margin))

    def _found(self, rows: IntArray, cases: Cases) -> Findings:
        leads = None if self.band is None else self.band.take(rows)
        return search(self.pieces, cases, self.effort, leads)

    def _returned(self, rows: IntArray, findings: Findings) -> tuple[FloatArray, Verdict]:
        """The rows as they will be returned: codes, and what the model says of them."""
        features = self.question.features
        after, verdict = np.array(self.before[rows]), Verdict.none(len(rows))
        points = findings.points
        found = np.flatnonzero(~np.isnan(points[:, 0]))
        found = found[~self.judge.overflows(points[found], self.judge.eps(self.table))]
        if not len(found):
            return after, verdict
        which = slice(None) if len(found) == len(self.x) else rows[found]
        solved = found[~findings.closed[found]]
        if len(solved):
            self._snap(points, solved, rows[solved])
        start = self.before[which]
        codes = self._representable(features.compress(points[found]), which)
        returned = decode(self.table, features, which, start, codes)
        codes = recode(returned, features, codes)
        y = features.expand(codes)
        predicted = self._predictions(returned)
        after[found] = codes
        said = self.target.verdict(self.judge, returned, y, predicted)
        verdict.put(found, self._led(rows[found], y, said))
        return after, verdict

    def _led(self, rows: IntArray, y: FloatArray, said: Verdict) -> Verdict:
        """The same of points (n, d), whose leads must be what is needed at their distances."""
        if self.band is None:
            return said
        cost = self.question.plain.cost(y, self.x[rows])
        margin = said.margin - self.band.take(rows).required(y, cost)
        return replace(said, valid=said.valid & (margin >= 0.0), margin=margin)

    def _predictions(self, returned: Table) -> NDArray[Any]:
        """The model's own, for rows as they will be returned; for the factual rows with them."""
        if not self.foreseen:
            return self.judge.predict(returned)
        predicted, factual = self.judge.predict_both(returned, self.table)
        self._compare(factual)
        return predicted

    def _compare(self, factual: NDArray[Any]) -> None:
        """What was foreseen of the factual rows with what the model predicts."""
        self.foreseen = False
        self.judge.check(self.x, factual)
        met = self.target.met(self.judge, self.table, self.x, factual)
        if self.band is not None and met.any():
            ahead = self.judge.form.margin(self.x, self.target)
            met &= ahead >= self.band.required(self.x, np.zeros(len(self.x)))
        if met.any():
            raise Surprise

    def _representable(self, codes: FloatArray, which: IntArray | slice) -> FloatArray:
        """Numbers of float32 columns rounded to float32, towards the inside of their bounds."""
        if not self.table.singles:
            return codes
        features, cases = self.question.features, self.cases.take(which)
        codes = np.array(codes)
        for j in self.table.singles:
            block = features.blocks[j]
            if features.is_numeric[j]:
                low, high = cases.low[:, block.start], cases.high[:, block.start]
                single = codes[:, j].astype(np.float32)
                down, up = (np.nextafter(single, np.float32(way)) for way in (-np.inf, np.inf))
                codes[:, j] = np.where(single > high, down, np.where(single < low, up, single))
        return codes

    def _snap(self, points: FloatArray, found: IntArray, which: IntArray) -> None:
        """Values that rounding left a hair from the factual value, or from a bound, put onto it."""
        cases, price = self.cases, self.question.price
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
        self, findings: Findings, after: FloatArray, verdict: Verdict, margin: FloatArray
    ) -> Settled:
        asked, cases = self.question.asked(self.target), self.cases
        y = self.question.features.expand(after)
        reached = np.where(verdict.valid, asked.objective(y, cases), np.inf)
        known = self._known(findings, reached)
        certificates = certify(asked, y, cases, known, verdict)
        if self.table.singles:
            certificates = replace(certificates, resolution=SINGLE)
        answered = certificates.holds
        after[~answered] = self.before[~answered]
        certificates = certificates.withheld(~answered, known[0])
        certificates.guarantee[~answered] = self.target.promise
        optimal = answered & (certificates.gap <= self.effort.gap)
        left = answered & ~optimal
        if left.any() and self.judge.eps(self.table) > EPS and self.target.demanding:
            leading, claim = self._optimal_among_leading(left, findings, verdict, margin)
            certificates.claim[leading] = claim[leading]
            optimal |= leading
        status = EnumColumn.full(len(y), Status.UNPROVED)
        status[np.isposinf(known[0])] = Status.INFEASIBLE
        status[answered] = Status.SUBOPTIMAL
        if self.effort.seconds is not None:  # a branch and bound may have run out of nodes
            status[findings.limited] = Status.LIMIT
        status[optimal] = Status.OPTIMAL
        certificates.claim[(status == Status.LIMIT) | (status == Status.UNPROVED)] = Claim.NONE
        return Settled(after, status, certificates, findings.closed)
