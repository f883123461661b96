"""Some rows of one target: search, make the rows that will be returned, and certify them.

A row that the model does not confirm as returned (a tie, float32, rounding) is searched again with
a larger margin; no point is ever pushed out of its constraints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo, fields_only
from counterpoint.certificate import (
    VIOLATION,
    Certificates,
    certify,
    judge,
    lower_bounds,
)
from counterpoint.constraints import Constraint
from counterpoint.costs import Cost, Price
from counterpoint.engine.cases import Cases
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.program import Program, kinds_region
from counterpoint.engine.search import Found, Leads, highest_probability, search
from counterpoint.models.form import Form
from counterpoint.models.reading import FittedModel
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.rows.encoding import Rows, as_returned
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table
from counterpoint.solvers import Effort
from counterpoint.targets import Requirement, Target, Verdict

__all__ = ["Confirmation", "NotForeseen", "Question", "Task"]

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
class NotForeseen(Exception):
    """`predict` and the form disagree on whether a factual row already meets the target (a tie)."""


@final
@dataclass(frozen=True, eq=False)
class Question:
    """A model, a cost and constraints over features.

    Parameters
    ----------
    form
        What was read of the model.
    features
        The raw columns with their kinds.
    constraints
        What was asked for, and what the data imply.
    price
        The cost over the encoded columns.
    """

    form: Form
    features: Features
    constraints: tuple[Constraint, ...]
    price: Price

    @classmethod
    def ask(
        cls, form: Form, features: Features, constraints: Iterable[Constraint], cost: Cost
    ) -> Question:
        """The question in feature names; names and kinds are checked here."""
        question = cls(form, features, tuple(constraints), cost.price(features))
        _ = question.actionable
        return question

    @cached_property
    def actionable(self) -> Program:
        """The cost over the actionable region, without a target."""
        region = kinds_region(self.features)
        for constraint in self.constraints:
            region = region & constraint.region(self.features)
        return Program(self.price, region)

    __getstate__ = fields_only

    @cached_property
    def _pieces(self) -> Memo[Requirement, Pieces]:
        return Memo()

    def pieces(self, target: Target) -> Pieces:
        """The programs whose union is the target; cached for each target."""
        return self._pieces.get(
            target.requirement,
            lambda: Pieces.of(self.actionable, self.form.regions(target), target.aim(self)),
        )

    def on_lattice(self, x: FloatArray) -> BoolArray:
        """(n,): whether all whole columns of (n, d) rows hold multiples of their steps."""
        steps = self.actionable.steps
        whole = np.flatnonzero(steps)
        at = x[:, whole]
        return np.asarray((at == np.rint(at / steps[whole]) * steps[whole]).all(axis=1))

    def cases(self, rows: Rows) -> Cases:
        """Rows as programs see them, with what each asks for itself."""
        cases = self.actionable.cases(rows.x)
        if rows.weight is not None:
            cases = cases.weighing(0.5 * rows.weight)
        if rows.held is None:
            return cases
        width = [block.stop - block.start for block in self.features.blocks]
        held = np.repeat(rows.held, width, axis=1)
        return cases.within(np.where(held, rows.x, -np.inf), np.where(held, rows.x, np.inf))

    def decided(self, target: Target, pieces: Pieces) -> Pieces:
        """The pieces of a target for rows `on_lattice`, each tie in whole columns decided."""
        if not (self._is_discrete and pieces.has_ties):
            return pieces
        units = np.where(self.actionable.numeric, self.actionable.steps, 1.0)
        return self._decided.get(target.requirement, partial(pieces.decided, units))

    def highest_probability(self, target: Target, x: FloatArray, end: float) -> float | None:
        """The highest probability of a `Tradeoff`'s label that one row can reach by ``end``."""
        return highest_probability(self.pieces(target), x, end)

    @cached_property
    def _is_discrete(self) -> bool:
        """Whether some column is whole or a category."""
        return bool(self.actionable.steps.any() or self.actionable.groups)

    @cached_property
    def _decided(self) -> Memo[Requirement, Pieces]:
        return Memo()


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is asked of all rows of a call."""

    model: FittedModel
    question: Question  # what is asked of each row but the target
    target: Target
    effort: Effort
    piece: int | None = None  # the one piece of the target in which to search; None for all

    @cached_property
    def pieces(self) -> Pieces:
        """The programs whose union is the target."""
        return self.question.pieces(self.target)


@final
class Confirmation:
    """Answers to some rows that the model confirms.

    Parameters
    ----------
    task, rows
        What is asked of which rows.
    pieces
        The union of programs in which to search.
    eps
        The distance from 1 to the next number where the model computes, or rows are kept.
    foreseen
        What the form predicts for the rows, if the model has not been asked about them: it is
        together with their answers, and `NotForeseen` is raised if it gives one of them the target
        already. None if it has.
    """

    def __init__(
        self, task: Task, rows: Rows, pieces: Pieces, eps: float, foreseen: NDArray[Any] | None
    ) -> None:
        self.task, self.rows, self.pieces, self.eps = task, rows, pieces, eps
        self.form, self.features, self.foreseen = task.model.form, task.question.features, foreseen
        self.cases = task.question.cases(rows)
        self.leads: Leads | None = task.target.leads(task.question, rows.x)
        # A bound by weak duality holds for any margin. What a branch and bound reports holds for
        # its own margin only; so there only those rows are tightened at which a tie is lost, by
        # less than the rounding error of a score.
        self.margin, integral = np.zeros((len(rows.x), 2)), pieces.is_integral
        self.margin[:, int(integral)] = SPARE * self._rounding(EPS if integral else eps)

    def run(self) -> tuple[FloatArray, NDArray[np.object_], Certificates, BoolArray]:
        """Search once for all rows, then again for those whose answers are not confirmed.

        Returns
        -------
        tuple
            (n, p) codes of the answers, the factual codes where there is none; (n,) what became of
            each row, what the answers are worth, and whether closed forms settled the row.
        """
        everyone = np.arange(len(self.rows.x))
        self.found = self._search(everyone)
        if (self.found.piece < 0).any():
            self._without_margin()
        self.exact = np.array(self.found.points)  # before they become rows
        self.after, self.y, self.verdict = self._returned(everyone, self.found)
        if self.foreseen is not None:
            self._compare(self.task.model.predict(self.rows.table))
        if self.task.target.demanding and not self.verdict.leads.all():
            self._search_again()
        return self._certified()

    def _rounding(self, eps: float) -> FloatArray:
        """(n,) how far off the model's own margins may be at the rows, in score units."""
        return self.task.target.requirement.rounding(self.form, self.rows.x, eps)

    def _search(self, rows: IntArray, margin: FloatArray | None = None) -> Found:
        """The cheapest points of some rows with their margins, or others."""
        cases = self.cases.take(rows) if len(rows) < len(self.rows.x) else self.cases
        cases = cases.with_margin(self.margin[rows] if margin is None else margin)
        leads = None if self.leads is None else self.leads.take(rows)
        return search(self.pieces, cases, self.task.effort, leads)

    def _without_margin(self) -> None:
        """Rows for which the first margin left nothing, though nothing refutes them: without it."""
        found = self.found
        lost = np.flatnonzero((found.piece < 0) & ~found.limited & self.margin.any(axis=1))
        if not len(lost):
            return
        none = np.full(len(found.piece), np.inf)
        bound = lower_bounds(found.evidence, none, self.task.effort.gap)[0]
        lost = lost[np.isfinite(bound[lost])]
        if len(lost):
            self.margin[lost] = 0.0
            again = self._search(lost)
            found.points[lost], found.piece[lost] = again.points, again.piece
            found.limited[lost] = again.limited

    def _search_again(self) -> None:
        """Rows that the model does not confirm, or that do not lead by enough: larger margins.

        A tie of whole columns and categories that the model confirms is an answer, for the next
        point of their lattice is far; only other columns are moved to take it off the edge.

        Only rows in ``left`` are searched: those with an answer, until a larger margin does not
        improve one that the model confirms; no row comes back. In each round ``again`` are those of
        them that still fall short; ``near`` says which of these keep their whole columns and
        categories, and all others are searched anew.
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
        """Write the answers of another search that lead by more, and say which these are.

        What the model confirms is better than what it does not.
        """
        codes, y, said = self._returned(rows, other)
        valid, ahead = self.verdict.valid[rows], said.margin > self.verdict.margin[rows]
        better = said.valid & (~valid | ahead)
        kept = rows[better]
        self.after[kept], self.y[kept], self.exact[kept] = (
            codes[better],
            y[better],
            other.points[better],
        )
        told = better | ~valid
        self.verdict.put(rows[told], said, told)
        return better

    def _off_the_edge(self, rows: IntArray, margin: FloatArray) -> Found:
        """The same answers with a margin: whole columns and categories held, the others free."""
        actionable, points = self.task.question.actionable, self.exact[rows]
        held = actionable.held(points, self.rows.x[rows])
        low, high = np.where(held, points, -np.inf), np.where(held, points, np.inf)
        cases = self.cases.take(rows).with_margin(margin).within(low, high)
        leads = None if self.leads is None else self.leads.take(rows)
        off = search(self.pieces, cases, self.task.effort, leads)
        # Where a target is not convex the search may end elsewhere; that is no way off the edge.
        if any(piece.program.nonconvex for piece in self.pieces.listed):
            worth = actionable.cost(points, cases.x)
            astray = actionable.cost(off.points, cases.x) > worth * NEARBY
            off.points[astray], off.piece[astray] = np.nan, -1
        return off

    def _returned(self, rows: IntArray, found: Found) -> tuple[FloatArray, FloatArray, Verdict]:
        """The rows as they will be returned: codes, the same encoded, what the model says."""
        task, points = self.task, found.points
        here = np.flatnonzero(~np.isnan(points[:, 0]))
        if self.eps > EPS:
            here = here[~task.model.overflows(points[here], self.eps)]
        if not len(here):
            none = Verdict.none(len(rows))
            return np.array(self.rows.codes[rows]), np.array(self.rows.x[rows]), none
        which = slice(None) if len(here) == len(self.rows.x) else rows[here]
        solved = here[~found.closed[here]]
        if len(solved):
            self._snap(points, solved, rows[solved])
        codes = self.features.compress(points[here])
        if self.rows.table.singles:
            codes = self._representable(codes, which)
        before = self.rows.codes[which]
        returned, codes, y = as_returned(self.rows.table, self.features, which, before, codes)
        said = task.target.verdict(task.model, returned, y, self._predictions(returned), self.eps)
        if self.leads is not None:  # which must be what is needed at the distances of the points
            cost = task.question.actionable.cost(y, self.rows.x[rows[here]])
            margin = said.margin - self.leads.take(rows[here]).required(y, cost)
            said = replace(said, valid=said.valid & (margin >= 0.0), margin=margin)
        if len(here) == len(rows):
            return codes, y, said
        after, ys, verdict = self.rows.codes[rows], self.rows.x[rows], Verdict.none(len(rows))
        after[here], ys[here] = codes, y
        verdict.put(here, said)
        return after, ys, verdict

    def _predictions(self, returned: Table) -> NDArray[Any]:
        """The model's own, for rows as they will be returned; for the factual rows with them."""
        if self.foreseen is None:
            return self.task.model.predict(returned)
        both = self.task.model.predict(returned, self.rows.table)
        count = len(both) - len(self.foreseen)
        self._compare(both[count:])
        return both[:count]

    def _compare(self, factual: NDArray[Any]) -> None:
        """What was foreseen of the factual rows with what the model predicts."""
        task, rows, foreseen = self.task, self.rows, self.foreseen
        self.foreseen = None
        if foreseen is None or (factual == foreseen).all():
            return
        task.model.check(rows.x, factual, foreseen)
        met = task.target.met(task.model, rows.table, rows.x, factual)
        if met.any() and self.leads is not None:
            ahead = self.form.margin(rows.x, task.target)
            met &= ahead >= self.leads.required(rows.x, np.zeros(len(rows.x)))
        if met.any():
            raise NotForeseen

    def _representable(self, codes: FloatArray, which: IntArray | slice) -> FloatArray:
        """Numbers of float32 columns rounded to float32, towards the inside of their bounds."""
        cases, codes = self.cases.take(which), np.array(codes)
        for j in self.rows.table.singles:
            if self.features.is_numeric[j]:
                column = self.features.blocks[j].start
                low, high = cases.low[:, column], cases.high[:, column]
                single = codes[:, j].astype(np.float32)
                down, up = (np.nextafter(single, np.float32(way)) for way in (-np.inf, np.inf))
                codes[:, j] = np.where(single > high, down, np.where(single < low, up, single))
        return codes

    def _snap(self, points: FloatArray, solved: IntArray, which: IntArray) -> None:
        """Values that rounding left a hair from the factual value, or a bound, put onto it."""
        cases, price = self.cases, self.task.question.price
        x, y = cases.x[which], points[solved]
        length = (price.absolute + np.sqrt(price.diagonal)) * np.abs(y - x)
        y = np.where(length <= HAIR * length.max(axis=1, keepdims=True), x, y)
        if not cases.unbounded:
            hair = HAIR * (np.abs(x) + np.abs(y))
            for bound in (cases.low[which], cases.high[which]):
                y = np.where(np.abs(y - bound) <= hair, bound, y)
        points[solved] = y

    def _certified(self) -> tuple[FloatArray, NDArray[np.object_], Certificates, BoolArray]:
        """What the answers are worth, and what became of each row."""
        effort, target = self.task.effort, self.task.target
        found, after = self.found, self.after
        certificates = certify(
            self.pieces.asked,
            self.y,
            self.cases,
            self.verdict,
            found.evidence,
            gap=effort.gap,
            resolution=SINGLE if self.rows.table.singles else VIOLATION,
        )
        answered = certificates.holds
        if not answered.all():
            after[~answered] = self.rows.codes[~answered]
            certificates = certificates.withheld(~answered, target.promise)
        optimal = answered & (certificates.gap <= effort.gap)
        left = answered & ~optimal
        if left.any() and self.eps > EPS and target.demanding:
            leading, claim = self._optimal_among_leading(left)
            certificates.claim[leading] = claim[leading]
            optimal |= leading
        # Without a limit of time, a branch and bound may still have run out of nodes.
        limited = found.limited & (effort.seconds is not None)
        return after, judge(certificates, optimal, limited), certificates, found.closed

    def _optimal_among_leading(self, rows: BoolArray) -> tuple[BoolArray, NDArray[np.object_]]:
        """(n,): which answers are optimal among the points that lead by what was asked for.

        In float32 a lead by the rounding error may cost more than the gap; so may the rounding of
        the answer to its column, which is left out here.
        """
        found, gap = self.found, self.task.effort.gap
        rounding = np.maximum(self._rounding(self.eps), self.verdict.rounding)
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
