"""Locally optimal answers to programs with quadratic conditions, often proved optimal.

Without whole steps, categories and few changes they are found by descents. With them, first the
program without what is integral is solved so. From its answer one integral part after the other is
held, the most decided ones first, and what is left descends again, until all are held. The points
found so are improved by moves of one or two integral parts, all of them tried at once, and by
descents with one of them held elsewhere. What is proved comes from relaxations and the program's
own bound, which takes integrality into account.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import ClassVar, final

import numpy as np

from counterpoint.engine.domains import INTEGRAL
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.prototypes.solvers.descent import (
    STALLED,
    Descents,
    LocalSearch,
    RowDescent,
)
from counterpoint.prototypes.solvers.lower_bound import Quadric
from counterpoint.solvers.base import Effort, Solution, Solver

__all__ = ["Ccp"]

DECIDED = 1e-6
"""How far from a whole step, in steps, a column counts as being there."""


@final
@dataclass(frozen=True, eq=False)
class Ccp(Solver):
    """The convex-concave procedure from several starts, see `RowDescent` and `Lattice`."""

    accepts: ClassVar[frozenset[type]] = Quadric.accepts
    accuracy: ClassVar[float] = 1e-7

    @classmethod
    def takes(cls, program: Program) -> bool:
        return Quadric.takes(program)

    @cached_property
    def _descents(self) -> Descents:
        return Descents(self.program)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        kind = Lattice if self.program.kinds & set(INTEGRAL) else RowDescent
        for i, case in enumerate(cases):
            reached = np.inf if cutoff is None else float(cutoff[i])
            search: LocalSearch = kind(self._descents, case, effort, reached)
            search.run()
            out.multipliers[i] = search.multipliers
            out.outcomes[i] = search.outcome
            if search.point is not None:
                out.points[i] = search.point
        return out


@final
class Lattice(LocalSearch):
    """One row's search."""

    def run(self) -> None:
        if self.case.empty[0]:
            return
        nearest = self._nearest()
        relaxed = None if self._is_over() else self._relax(nearest)
        if self._is_over():
            return
        self._keep(np.vstack([self.case.x, self.shared.alone(self.case)]))
        starts = [*self.shared.free.prototypes, nearest]
        for start in starts if relaxed is None else [relaxed, *starts]:
            self._dive(start, self.case.low[0], self.case.high[0])
            if self._is_over():
                return
        self._improve()

    def _descent(self, start: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray | None:
        """Where a descent without what is integral ends, within bounds."""
        within = replace(self.case, low=low[None], high=high[None])
        descent = RowDescent(self.shared.free, within, self.effort.until(self._end), np.inf)
        descent.descend(start)
        return descent.point

    def _dive(self, start: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Within bounds, hold one integral part after the other, from where a descent ends."""
        if not np.isfinite(start).all():
            return
        point = self._descent(start, low, high)
        for _ in range(2 * self.program.width):
            if point is None or self._is_late:
                return
            held = self._held(point, low, high)
            if held is None:
                self._keep(self._exactly(point)[None])
                return
            for value in self._choices(point, held):
                lower, upper = np.array(low), np.array(high)
                lower[held] = upper[held] = value
                found = self._descent(point, lower, upper)
                if found is not None:
                    break
            point, low, high = found, lower, upper

    def _improve(self) -> None:
        """Moves and descents in turn, until none of them gains anything."""
        for _ in range(4):
            if self.point is None or self._is_over():
                return
            self._move()
            before = self.cost
            # Each of them is a descent of its own, so a few must do.
            for low, high, start in islice(self._elsewhere(self.point), 24):
                if (low < high).any() and not self._is_late:
                    self._dive(start, low, high)
            if not self.cost < before:
                return

    def _move(self) -> None:
        """Moves of one or two integral parts, as long as one gains."""
        for _ in range(20):
            if self.point is None or self._is_late:
                return
            moves = self._moves(self.point)
            if self._keep(self.point + moves, STALLED):
                continue
            # There are half the square of so many pairs.
            if len(moves) > 80 or not self._keep(self.point + _joined(moves), STALLED):
                return

    def _held(self, point: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray | None:
        """(d,) the columns to hold next; None if nothing is undecided."""
        program, free = self.program, low < high
        held = np.zeros(program.width, dtype=bool)
        still = self._superfluous(point) & free
        if still.any():
            return still
        for group in program.groups:
            if 1.0 - point[group].max() > DECIDED and free[group].any():
                held[group] = True
                return held
        whole = (program.steps > 0.0) & free
        off = np.where(whole, np.abs(self._counts(point) - np.round(self._counts(point))), 0.0)
        undecided = off > DECIDED
        if not undecided.any():
            return None
        nearest = float(off[undecided].min())
        return np.asarray(undecided & (off <= max(0.15, nearest)))  # at once if nearly there

    def _superfluous(self, point: FloatArray) -> BoolArray:
        """(d,) the columns of features that move least, where too many move."""
        program, out = self.program, np.zeros(self.program.width, dtype=bool)
        if program.at_most is None:
            return out
        change = np.abs(point - self.case.x[0])
        paid = program.price.absolute * change + program.price.diagonal * change * change
        blocks = program.at_most.blocks
        moves = np.array([paid[block].sum() for block in blocks])
        order = np.argsort(-moves, kind="stable")
        if moves[order[program.at_most.count :]].any():
            for block in order[program.at_most.count :].tolist():
                out[blocks[block]] = True
        return out

    def _counts(self, point: FloatArray) -> FloatArray:
        """(d,) how many whole steps each column has moved."""
        steps = self.program.steps
        return np.asarray((point - self.case.x[0]) / np.where(steps > 0.0, steps, 1.0))

    def _choices(self, point: FloatArray, held: BoolArray) -> Iterator[FloatArray]:
        """Values to hold columns at, the likeliest first."""
        x, steps = self.case.x[0], self.program.steps
        if self._superfluous(point)[held].any():
            yield x[held]
            return
        columns = np.flatnonzero(held)
        if not self.program.numeric[columns[0]]:
            allowed = np.where(self.case.high[0, columns] > 0.5, point[columns], -1.0)
            for best in np.argsort(-allowed, kind="stable")[:2].tolist():
                yield np.eye(len(columns))[best]
            return
        counts = self._counts(point)[columns]
        away = np.where(counts > np.round(counts), np.ceil(counts), np.floor(counts))
        for rounded in (np.round(counts), away):
            value = x[columns] + rounded * steps[columns]
            low, high = self.case.low[0, columns], self.case.high[0, columns]
            yield np.minimum(np.maximum(value, low), high)

    def _exactly(self, point: FloatArray) -> FloatArray:
        """The point with its integral parts exactly integral."""
        x, steps = self.case.x[0], self.program.steps
        point = np.where(steps > 0.0, x + np.round(self._counts(point)) * steps, point)
        for group in self.program.groups:
            point[group] = np.eye(group.stop - group.start)[int(point[group].argmax())]
        change = np.abs(point - x)
        return np.where(change <= DECIDED * DECIDED * change.max(initial=0.0), x, point)

    def _moves(self, point: FloatArray, strides: tuple[float, ...] = (1.0, 2.0, 5.0)) -> FloatArray:
        """(m, d) changes of one part: some steps, back to x or beyond it, another category."""
        program, x = self.program, self.case.x[0]
        eye = np.eye(program.width)
        moves = [np.zeros((0, program.width))]
        for column in np.flatnonzero(program.steps).tolist():
            both = np.array([s * sign for s in strides for sign in (1.0, -1.0)])
            moves.append(np.outer(both * program.steps[column], eye[column]))
        for group in program.groups:
            change = np.zeros((group.stop - group.start, program.width))
            change[:, group] = np.eye(len(change)) - point[group]
            moves.append(change)
        back = np.where(eye > 0.0, x - point, 0.0)[program.numeric]
        every = np.vstack([*moves, back, 2.0 * back])
        inside = ((self.case.low <= point + every) & (point + every <= self.case.high)).all(axis=1)
        return np.asarray(every[inside & every.any(axis=1)])

    def _elsewhere(self, point: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Bounds in which another feature changes, or one integral part is elsewhere; starts."""
        program, x = self.program, self.case.x[0]
        low, high = self.case.low[0], self.case.high[0]
        if program.at_most is not None:
            changed = program.at_most.changed(point[None], self.case.x)[0]
            blocks = program.at_most.blocks
            for old, new in product(np.flatnonzero(changed), np.flatnonzero(~changed)):
                still = np.ones(program.width, dtype=bool)
                for block in (*np.flatnonzero(changed), new):
                    still[blocks[block]] = block == old
                yield np.where(still, x, low), np.where(still, x, high), np.where(still, x, point)
        held = program.held(point[None], self.case.x)[0]
        for move in self._moves(point, (1.0,)):
            target = point + move
            yield np.where(held, target, low), np.where(held, target, high), target


def _joined(moves: FloatArray) -> FloatArray:
    """Every two moves of different columns together."""
    changed = (moves != 0.0).astype(np.float64)
    first, second = np.nonzero(np.triu(changed @ changed.T == 0.0))
    return np.asarray(moves[first] + moves[second])
