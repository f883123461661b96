"""Some rows of one target: search, make the rows that will be returned, and certify them.

A row that the model does not confirm as returned (a tie, float32, rounding) is searched again with
a larger margin; no point is ever pushed out of its constraints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.certificate import Certificates, Claim, Verdict, certify, lower_bounds
from counterpoint.encoding import decode, recode
from counterpoint.frames import Table
from counterpoint.judge import Judge, Surprise
from counterpoint.members import EnumColumn
from counterpoint.question import Question
from counterpoint.search import Findings, rise, search
from counterpoint.solvers import Effort
from counterpoint.status import Status
from counterpoint.targets import Confidence, Guarantee, Robust, Target, Tradeoff
from counterpoint.terms import Terms

__all__ = ["Asked", "Settled", "Settlement"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

EXACT = 1e-11
"""The first margin of a `Confidence` at most, in log-odds: a probability is met almost exactly."""
ROUNDS = 12
"""How often a row whose answer the model does not confirm is searched again."""
FIRST_MARGIN = 0.25
"""The first margin, in units of the bound on a score's rounding error, which is rarely attained."""
SINGLE = 8.0 * float(np.finfo(np.float32).eps)
"""Largest relative violation of a constraint that counts as rounding in float32 columns."""
HAIR = 1e-14
"""A share of a row's change, or of a value, that is rounding and no change."""
NEARBY = 1.0 + 1e-3
"""How many times as much an answer off the edge may cost."""
GROWTH = 8.0
"""How much more margin a row gets each time."""


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

    def __init__(self, judge: Judge, question: Question, asked: Asked, effort: Effort) -> None:
        self.judge, self.question, self.target = judge, question, asked.target
        self.table, self.before, self.foreseen = asked.table, asked.before, asked.foreseen
        self.x = question.features.expand(asked.before)
        decides = question.on_lattice(self.x).all()
        self.pieces = (question.decided if decides else question.pieces)(asked.target)
        if asked.terms.piece is not None:
            self.pieces = self.pieces[asked.terms.piece : asked.terms.piece + 1]
        self.effort = effort
        self.band = question.band(asked.target, self.x)
        self.cases = asked.terms.of(question.plain.cases(self.x), question.features)

    def run(self) -> Settled:
        """Search once for all rows, then again for those that the model does not confirm."""
        everyone = np.arange(len(self.x))
        margin = self._first_margin()
        findings = self._search(everyone, margin)
        self._without_margin(findings, margin)
        after, verdict = self._returned(everyone, findings)
        if self.foreseen:
            self._compare(self.judge.predict(self.table))
        lost = ~verdict.valid & (findings.piece >= 0)
        edge = np.flatnonzero(self._fragile(verdict) | lost)
        if self.pieces.is_integral and self._is_demanding and len(edge):
            off = self._off_the_edge(edge, findings, self._least_margin(edge))
            self._keep_confirmed(edge, off, after, verdict)
        for _ in range(ROUNDS if self._is_demanding else 0):
            again = np.flatnonzero(~verdict.valid & (findings.piece >= 0) & ~findings.limited)
            if not len(again):
                break
            short = np.nan_to_num(np.maximum(-verdict.margin[again], 0.0))
            grown = np.maximum(GROWTH * margin[again, 0], self._least_margin(again))
            margin[again, 0] = grown + short
            self._keep_confirmed(again, self._search(again, margin[again]), after, verdict)
        return self._certified(findings, after, verdict)

    def _keep_confirmed(
        self, rows: IntArray, findings: Findings, after: FloatArray, verdict: Verdict
    ) -> None:
        """Write the answers of another search that the model confirms, or that miss by less."""
        codes, said = self._returned(rows, findings)
        better = said.valid | ~verdict.valid[rows]
        after[rows[said.valid]] = codes[said.valid]
        verdict.put(rows[better], said.take(better))

    def _without_margin(self, findings: Findings, margin: FloatArray) -> None:
        """Rows for which the first margin left nothing, though nothing refutes them: without it."""
        lost = np.flatnonzero((findings.piece < 0) & ~findings.limited & margin.any(axis=1))
        if not len(lost):
            return
        bound = self._known(findings, np.full(len(self.x), np.inf))[0]
        lost = lost[np.isfinite(bound[lost])]
        if len(lost):
            again = self._search(lost, np.zeros(len(lost)))
            findings.points[lost], findings.piece[lost] = again.points, again.piece

    def _known(self, findings: Findings, cost: FloatArray) -> tuple[FloatArray, EnumColumn[Claim]]:
        """Bounds and claims from what the first search left behind."""
        return lower_bounds(findings.evidence, cost, self.effort.gap)

    def _first_margin(self) -> FloatArray:
        """(n, 2) margins of the first search, whose bounds are what is claimed.

        A bound by weak duality holds for any margin. What a branch and bound reports holds for its
        own margin only; so there only those rows are tightened at which a tie is lost, by less than
        the rounding error of a score.
        """
        least = self._least_margin(np.arange(len(self.x)))
        none = np.zeros_like(least)
        integral = self.pieces.is_integral
        return np.stack([none, least] if integral else [least, none], axis=1)

    def _least_margin(self, rows: IntArray) -> FloatArray:
        """(n,) a share of the rounding error of a score; none if there is nothing to miss."""
        if not self._is_demanding:
            return np.zeros(len(rows))
        least = FIRST_MARGIN * self.judge.form.noise(self.x[rows])
        return np.minimum(least, EXACT) if isinstance(self.target, Confidence) else least

    @property
    def _is_demanding(self) -> bool:
        """Whether the target demands something, so that an answer may miss it."""
        return not isinstance(self.target, Tradeoff)

    def _fragile(self, verdict: Verdict) -> BoolArray:
        """(n,): answers on the very edge, though a continuous column could take them off it."""
        if not self.pieces.is_integral:
            return np.zeros(len(verdict.valid), dtype=bool)
        on_edge = verdict.margin < self._least_margin(np.arange(len(verdict.valid)))
        return np.asarray(verdict.valid & on_edge & self.pieces.moves_smoothly(self.cases))

    def _off_the_edge(self, rows: IntArray, findings: Findings, margin: FloatArray) -> Findings:
        """The same answers with a margin: whole columns and categories held, the others free."""
        points = findings.points[rows]
        held = self.question.plain.held(points, self.x[rows])
        low, high = np.where(held, points, -np.inf), np.where(held, points, np.inf)
        cases = self.cases.take(rows).with_margin(margin).within(low, high)
        off, plain = self._found(rows, cases), self.question.plain
        # Where a target is not convex the search may end elsewhere; that is no way off the edge.
        astray = plain.cost(off.points, cases.x) > plain.cost(points, cases.x) * NEARBY
        off.points[astray], off.piece[astray] = np.nan, -1
        return off

    def _search(self, rows: IntArray, margin: FloatArray) -> Findings:
        cases = self.cases.take(rows) if len(rows) < len(self.x) else self.cases
        return self._found(rows, cases.with_margin(margin))

    def _found(self, rows: IntArray, cases: Cases) -> Findings:
        if self.band is None:
            return search(self.pieces, cases, self.effort)
        return rise(self.pieces, cases, self.effort, self.band.take(rows))

    def _returned(self, rows: IntArray, findings: Findings) -> tuple[FloatArray, Verdict]:
        """The rows as they will be returned: codes, and what the model says of them."""
        features = self.question.features
        after, verdict = np.array(self.before[rows]), Verdict.none(len(rows))
        points = findings.points
        found = np.flatnonzero(~np.isnan(points[:, 0]))
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
        said = self.judge.verdict(self.target, returned, y, predicted)
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
        met = self.judge.meets(self.target, self.table, self.x, factual)
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

    def _certified(self, findings: Findings, after: FloatArray, verdict: Verdict) -> Settled:
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
        if isinstance(self.target, Robust):
            wanted = Guarantee.FIXED if self.band is None else Guarantee.SELECTION
            certificates.guarantee[~answered] = wanted
        optimal = answered & (certificates.gap <= self.effort.gap)
        status = EnumColumn.full(len(y), Status.UNPROVED)
        status[np.isposinf(known[0])] = Status.INFEASIBLE
        status[answered] = Status.SUBOPTIMAL
        if self.effort.seconds is not None:  # a branch and bound may have run out of nodes
            status[findings.limited] = Status.LIMIT
        status[optimal] = Status.OPTIMAL
        certificates.claim[(status == Status.LIMIT) | (status == Status.UNPROVED)] = Claim.NONE
        return Settled(after, status, certificates, findings.closed)
