"""Locally optimal answers to programs with quadratic conditions, often proved optimal.

They are found by descents from several starts. With whole steps, categories or few changes a
descent is first of the program without what is integral; then one integral part after the other is
held, the most decided ones first, and the others descend again, until all are held. The cheapest
point is improved by descents with one of them held elsewhere. What is proved comes from relaxations
and the program's own bound, which takes integrality into account; where it closes the gap, the
search ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import ClassVar, final

import numpy as np

from counterpoint.families.prototypes.quadratic_difference import curvature_of
from counterpoint.families.prototypes.solvers.descent import STALLED, Descents
from counterpoint.families.prototypes.solvers.lower_bound import RELAXED, Quadric, relaxed
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.programs.conditions import INTEGRAL
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

DECIDED = 1e-6
"""How far from a whole step, in steps, a column counts as being there."""


@final
@dataclass(frozen=True, eq=False)
class Ccp(Solver):
    """The convex-concave procedure from several starts, see `Descents` and `LocalSearch`."""

    accepts: ClassVar[frozenset[type]] = Quadric.accepts
    accuracy: ClassVar[float] = 1e-7

    @classmethod
    def takes(cls, program: Program) -> bool:
        return Quadric.takes(program)

    @cached_property
    def descents(self) -> Descents:
        """What the rows share."""
        return Descents(self.program)

    @cached_property
    def quadric(self) -> Quadric:
        """The nearest points that meet single conditions."""
        return Quadric(self.program)

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            reached = np.inf if cutoff is None else float(cutoff[i])
            search = LocalSearch(self, case, effort, reached)
            if not case.empty[0]:
                search.run()
            out.multipliers[i], out.outcomes[i] = search.multipliers, search.outcome
            if search.point is not None:
                out.points[i] = search.point
        return out


@final
class LocalSearch:
    """One row's search: the cheapest point so far, and the best bound with its multipliers.

    ``cutoff`` is a cost that is reached: a dearer point is of no use.
    """

    def __init__(self, owner: Ccp, case: Batch, effort: Effort, cutoff: float) -> None:
        self.owner, self.descents, self.program = owner, owner.descents, owner.program
        self.case, self.effort, self.cutoff = case, effort, cutoff
        self.cost, self.bound, self.is_empty = np.inf, 0.0, False
        self.point: FloatArray | None = None
        self.multipliers = np.zeros(self.program.size)
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    def run(self) -> None:
        """Search, until the gap is closed, nothing can be gained, or time is up."""
        start, low, high = self._relax(), self.case.low[0], self.case.high[0]
        if self._is_over():
            return
        self.dive(start, low, high)
        # other starts hardly ever gain so much
        if self._is_over() or self.cost > 1.3 * self.cutoff:
            return
        for start in self.descents.free.prototypes:
            self.dive(start, low, high)
            if self._is_over():
                return
        self.offer(self.descents.alone(self.case))
        if self.program.condition_types & set(INTEGRAL):
            self._improve()

    @property
    def outcome(self) -> Outcome:
        """What there is to say."""
        if self.case.empty[0] or self.is_empty:
            return Outcome.INFEASIBLE
        if self.is_late:
            return Outcome.LIMIT
        return Outcome.NOTHING if self.point is None else Outcome.FOUND

    @property
    def is_late(self) -> bool:
        """Whether time is up."""
        return perf_counter() > self._end

    @property
    def seconds(self) -> float | None:
        """The time that remains; None without a limit."""
        return None if np.isinf(self._end) else max(self._end - perf_counter(), 0.0)

    def holding(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(d,) bounds in which what is integral about a point is held, and too small a change."""
        x, (low,), (high,) = self.case.x[0], self.case.low, self.case.high
        point = self._exactly(np.where(self._superfluous(point), x, point))
        held = self.program.domain.held(point[None], self.case.x)[0]
        return np.where(held, point, low), np.where(held, point, high)

    def _is_over(self) -> bool:
        """Whether nothing can be gained on the cost, or on what is already reached; or in time."""
        gap = self.effort.gap
        closed = self.cost < np.inf and self.bound >= self.cost * (1.0 - gap)
        useless = self.bound >= self.cutoff * (1.0 - 0.1 * gap)
        return bool(closed or useless or self.is_empty or self.is_late)

    def offer(self, points: FloatArray) -> None:
        """Take the cheapest point that meets the program, if it beats the best one so far."""
        cost = self.program.encoded_cost(points, np.repeat(self.case.x, len(points), axis=0))
        cheaper = np.flatnonzero(cost < self.cost)
        satisfied = self.descents.satisfied(points[cheaper], self.case)
        if satisfied.any():
            best = cheaper[satisfied][cost[cheaper[satisfied]].argmin()]
            self.point, self.cost = points[best], float(cost[best])

    def _relax(self) -> FloatArray:
        """(d,) where to start; the semidefinite relaxation, which has it, also bounds the cost.

        It is the nearest point that meets the most demanding condition, NaN without one, if there
        are too many columns, or the relaxation is not solved.
        """
        (nearest,), (weights,), (is_empty,) = self.owner.quadric.nearest(self.case)
        if is_empty:
            multipliers = np.zeros(self.program.size)
            first = self.program.size - self.owner.quadric.curvature.size
            multipliers[first : first + len(weights)] = weights
            self._learn(multipliers, refutes=True)
        movable = (self.case.low < self.case.high).sum()
        if self.is_empty or movable > RELAXED[self.effort.optimality]:
            return np.asarray(nearest)
        is_known = np.isfinite(nearest).all()  # about as far away as the answer
        cost = (self.descents.encoded_cost(nearest, self.case) if is_known else 0.0) or 1.0
        size = cost if curvature_of(self.program).is_absolute else np.sqrt(cost)
        relaxation = relaxed(self.program, self.case, size, self.effort)
        if relaxation is None:
            return np.asarray(nearest)
        multipliers, point = relaxation
        has_point = bool(np.isfinite(point).all())
        self._learn(multipliers, refutes=not has_point)
        return point if has_point else np.asarray(nearest)

    def _learn(self, multipliers: FloatArray, *, refutes: bool) -> None:
        """Keep multipliers that bound better, or prove that there is no point, if they are to."""
        bound = float(self.program.bound(self.case, multipliers[None])[0])
        if bound > self.bound:
            self.bound, self.multipliers = bound, multipliers
        if refutes and self.program.refutes(self.case, multipliers[None])[0]:
            self.multipliers, self.is_empty = multipliers, True

    # Points

    def dive(self, start: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Within bounds, hold one integral part after the other, from where a descent ends."""
        descended = self.descents.free.descended
        point = descended(start, replace(self.case, low=low[None], high=high[None]), self._end)
        for _ in range(2 * self.program.width):
            if point is None or self.is_late:
                break
            following = self._held(point, low, high)
            if following is None:
                break
            held, values = following
            for value in values:
                lower, upper = np.array(low), np.array(high)
                lower[held] = upper[held] = value
                within = replace(self.case, low=lower[None], high=upper[None])
                descent = descended(point, within, self._end)
                if descent is not None:
                    break
            point, low, high = descent, lower, upper
        if point is not None:
            self.offer(self._exactly(point)[None])

    def _held(
        self, point: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[BoolArray, list[FloatArray]] | None:
        """Return the columns (d,) to hold next, and their values to try, the likeliest first.

        First features that move although too many do, at x; then a category; then whole steps.
        None if all are decided.
        """
        program, x, free = self.program, self.case.x[0], low < high
        held = self._superfluous(point) & free
        if held.any():
            return held, [x[held]]
        for group in program.domain.groups:
            if 1.0 - point[group].max() > DECIDED and free[group].any():
                held[group] = True
                shares = np.where(self.case.high[0, group] > 0.5, point[group], -1.0)
                likeliest = np.argsort(-shares, kind="stable")[:2]
                return held, list(np.eye(len(shares))[likeliest])
        counts = self._counts(point)
        nearest = np.round(counts)
        distance = np.where((program.domain.steps > 0.0) & free, np.abs(counts - nearest), 0.0)
        undecided = distance > DECIDED
        if not undecided.any():
            return None
        # Columns nearly at a whole step are held together: each round is a descent.
        held = undecided & (distance <= max(0.15, distance[undecided].min()))
        other_side = np.where(counts > nearest, np.ceil(counts), np.floor(counts))
        points = (lattice.number(x, side, program.domain.steps) for side in (nearest, other_side))
        return held, [np.clip(y, self.case.low[0], self.case.high[0])[held] for y in points]

    def _superfluous(self, point: FloatArray) -> BoolArray:
        """(d,) the columns of features that move least, where too many move."""
        program, out = self.program, np.zeros(self.program.width, dtype=bool)
        if program.domain.at_most is None:
            return out
        (paid,) = program.encoded_cost.each(point[None], self.case.x)
        blocks = program.domain.at_most.blocks
        moves = np.array([paid[block].sum() for block in blocks])
        order = np.argsort(-moves, kind="stable")[program.domain.at_most.count :]
        if moves[order].any():
            for block in order.tolist():
                out[blocks[block]] = True
        return out

    def _counts(self, point: FloatArray) -> FloatArray:
        """(d,) how many whole steps each column has moved."""
        steps = self.program.domain.steps
        return np.asarray((point - self.case.x[0]) / np.where(steps > 0.0, steps, 1.0))

    def _exactly(self, point: FloatArray) -> FloatArray:
        """The point with its integral parts exactly integral."""
        x, steps, at_most = self.case.x[0], self.program.domain.steps, self.program.domain.at_most
        point = np.where(
            steps > 0.0, lattice.number(x, np.round(self._counts(point)), steps), point
        )
        for group in self.program.domain.groups:
            point[group] = np.eye(group.stop - group.start)[int(point[group].argmax())]
        change = np.abs(point - x)
        traces = change <= DECIDED * DECIDED * change.max(initial=0.0)
        return np.where(traces & (at_most is not None), x, point)

    def _improve(self) -> None:
        """Moves of one or two integral parts, or descents with one of them moved, until none gains.

        Each of these is a descent of its own, so a few must do.
        """
        for _ in range(20):
            if self.point is None or self._is_over():
                return
            before, point = self.cost * (1.0 - STALLED), self.point
            moves = self._moves(point)
            self.offer(point + moves)
            if self.cost >= before and len(moves) <= 80:  # of so many, pairs are too many
                changed = (moves != 0.0).astype(np.float64)
                first, second = np.nonzero(np.triu(changed @ changed.T == 0.0))
                self.offer(point + moves[first] + moves[second])
            if self.cost < before:
                continue
            held = self.program.domain.held(point[None], self.case.x)[0]
            low, high = self.case.low[0], self.case.high[0]
            if (held | (low == high)).all():
                return
            for target in (point + moves)[:24]:
                self.dive(target, np.where(held, target, low), np.where(held, target, high))
            if self.cost >= before:
                return

    def _moves(self, point: FloatArray) -> FloatArray:
        """(m, d) changes of one integral part: another category, some steps, or x and beyond it."""
        program, x = self.program, self.case.x[0]
        moves = list[FloatArray]()
        for group in program.domain.groups:
            change = np.zeros((group.stop - group.start, program.width))
            change[:, group] = np.eye(len(change)) - point[group]
            moves.append(change)
        stepped, returns = np.diag(program.domain.steps), np.diag(x - point)
        moves += [sign * stride * stepped for stride in (1.0, 2.0, 5.0) for sign in (1.0, -1.0)]
        every = np.vstack(
            [*moves, *(share * returns[program.domain.numeric] for share in (1.0, 2.0))]
        )
        inside = ((self.case.low <= point + every) & (point + every <= self.case.high)).all(axis=1)
        return np.asarray(every[inside & every.any(axis=1)])
