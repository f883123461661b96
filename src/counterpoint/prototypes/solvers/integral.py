"""The integral parts of a point: whole steps, categories, features that stay; and moves of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.domains import AtMost, OneOf, Whole
from counterpoint.engine.program import Program

__all__ = ["INTEGRAL", "Integral", "joined"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

INTEGRAL = (Whole, OneOf, AtMost)
DECIDED = 1e-6
NEARLY = 0.15
"""Columns that are this near to a whole step are held together."""
STRIDES = (1.0, 2.0, 5.0)
"""How many whole steps a move may take."""


@final
@dataclass(frozen=True, eq=False)
class Integral:
    """One person's integral parts.

    Parameters
    ----------
    program
        The program.
    case
        The person.
    """

    program: Program
    case: Cases

    def held(self, point: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray | None:
        """(d,) the columns to hold next; None if nothing is undecided."""
        program, free = self.program, low < high
        held = np.zeros(program.width, dtype=bool)
        still = self.superfluous(point) & free
        if still.any():
            return still
        for group in program.groups:
            if 1.0 - point[group].max() > DECIDED and free[group].any():
                held[group] = True
                return held
        whole = (program.steps > 0.0) & free
        off = np.where(whole, np.abs(self.counts(point) - np.round(self.counts(point))), 0.0)
        undecided = off > DECIDED
        if not undecided.any():
            return None
        return np.asarray(undecided & (off <= max(NEARLY, float(off[undecided].min()))))

    def superfluous(self, point: FloatArray) -> BoolArray:
        """(d,) the columns of features that move least, where too many move."""
        program, out = self.program, np.zeros(self.program.width, dtype=bool)
        if program.at_most is None:
            return out
        change = np.abs(point - self.case.x[0])
        change[change <= DECIDED * change.max(initial=0.0)] = 0.0
        price = program.price
        diagonal = price.quadratic if price.quadratic.ndim == 1 else np.diag(price.quadratic)
        paid = price.absolute * change + diagonal * change * change
        blocks = program.at_most.blocks
        moves = np.array([paid[block].sum() for block in blocks])
        order = np.argsort(-moves, kind="stable")
        if moves[order[program.at_most.count :]].any():
            for block in order[program.at_most.count :].tolist():
                out[blocks[block]] = True
        return out

    def counts(self, point: FloatArray) -> FloatArray:
        """(d,) how many whole steps each column has moved."""
        steps = self.program.steps
        return np.asarray((point - self.case.x[0]) / np.where(steps > 0.0, steps, 1.0))

    def choices(self, point: FloatArray, held: BoolArray) -> Iterator[FloatArray]:
        """Values to hold columns at, the likeliest first."""
        x, steps = self.case.x[0], self.program.steps
        if self.superfluous(point)[held].any():
            yield x[held]
            return
        columns = np.flatnonzero(held)
        if not self.program.numeric[columns[0]]:
            allowed = np.where(self.case.high[0, columns] > 0.5, point[columns], -1.0)
            for best in np.argsort(-allowed, kind="stable")[:2].tolist():
                yield np.eye(len(columns))[best]
            return
        counts = self.counts(point)[columns]
        away = np.where(counts > np.round(counts), np.ceil(counts), np.floor(counts))
        for rounded in (np.round(counts), away):
            value = x[columns] + rounded * steps[columns]
            low, high = self.case.low[0, columns], self.case.high[0, columns]
            yield np.minimum(np.maximum(value, low), high)

    def exactly(self, point: FloatArray) -> FloatArray:
        """The point with its integral parts exactly integral."""
        x, steps = self.case.x[0], self.program.steps
        point = np.where(steps > 0.0, x + np.round(self.counts(point)) * steps, point)
        for group in self.program.groups:
            point[group] = np.eye(group.stop - group.start)[int(point[group].argmax())]
        change = np.abs(point - x)
        return np.where(change <= DECIDED * DECIDED * change.max(initial=0.0), x, point)

    def moves(self, point: FloatArray, steps: Sequence[float] = STRIDES) -> FloatArray:
        """(m, d) changes of one part: some steps, back to x or beyond it, another category."""
        program, x = self.program, self.case.x[0]
        eye = np.eye(program.width)
        moves = [np.zeros((0, program.width))]
        for column in np.flatnonzero(program.steps).tolist():
            strides = np.array([s * sign for s in steps for sign in (1.0, -1.0)])
            moves.append(np.outer(strides * program.steps[column], eye[column]))
        for group in program.groups:
            change = np.zeros((group.stop - group.start, program.width))
            change[:, group] = np.eye(len(change)) - point[group]
            moves.append(change)
        back = np.where(eye > 0.0, x - point, 0.0)[program.numeric]
        every = np.vstack([*moves, back, 2.0 * back])
        inside = ((self.case.low <= point + every) & (point + every <= self.case.high)).all(axis=1)
        return np.asarray(every[inside & every.any(axis=1)])

    def elsewhere(self, point: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
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
        for move in self.moves(point, STRIDES[:1]):
            target = point + move
            yield np.where(held, target, low), np.where(held, target, high), target


def joined(moves: FloatArray, alone: FloatArray) -> FloatArray:
    """Every move together with each single one of other columns."""
    apart = (moves != 0.0).astype(np.float64) @ (alone != 0.0).astype(np.float64).T == 0.0
    first, second = np.nonzero(apart)
    return np.asarray(moves[first] + alone[second])
