"""Linear programs of a whole batch by the dual simplex method, in NumPy.

    minimise    Σ_j price_j |v_j|
    subject to  low <= v <= high  and  row_low <= w <= row_high, where w = matrix v

All programs pivot at once, each on a basis of its own: of the variables v and w, as many as there
are rows. What is outside of the basis stays at a breakpoint of its convex, piecewise linear price:
a bound, or 0. What is in it moves on a piece between two of them. At first the basis is w, and
nothing changes that need not. Then, again and again, the variable furthest off its piece leaves the
basis (dual steepest edge) and the first that becomes worth moving enters it, or it goes on to its
next piece if that becomes worth it before. See R. Fourer, "A simplex algorithm for piecewise-linear
programming", Mathematical Programming 33 (1985).
"""

from __future__ import annotations

from typing import final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.solvers.standard_form import BatchBounds

__all__ = ["unique_optima"]

STRICT = 1e-9
"""The least pivot, and how far prices are at least from where another optimum begins."""


def unique_optima(
    matrix: FloatArray, encoded_cost: FloatArray, limits: BatchBounds
) -> tuple[FloatArray, FloatArray]:
    """(n, d) the optima of n programs, (n, rows) their multipliers; NaN where none was found.

    Multipliers of lower bounds are positive. A program without a point is left out, and so is one
    with several optima, among which rounding would choose.
    """
    rows, d = matrix.shape
    change, duals = np.full((len(limits.low), d), np.nan), np.full((len(limits.low), rows), np.nan)
    size = max((1 << 15) // (rows + d), 1)  # so that their numbers fit into the cache
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for first in range(0, len(change) if rows else 0, size):
            some = slice(first, first + size)
            block = _Block(matrix, encoded_cost, BatchBounds(*(limit[some] for limit in limits)))
            block.solve(change[some], duals[some])
    return change, duals


@final
class _Block:
    """The bases of some programs; those that are finished are dropped."""

    def __init__(self, matrix: FloatArray, encoded_cost: FloatArray, limits: BatchBounds) -> None:
        n, (m, d) = len(limits.low), matrix.shape
        self.columns = np.vstack([matrix.T, -np.eye(m)])  # (d + m, m) of each variable
        self.encoded_cost = np.append(encoded_cost, np.zeros(m))
        # (n, d + m) bounds, and values, which those in the basis do not have here
        self.low, self.high = (np.hstack(ends) for ends in (limits[::2], limits[1::2]))
        self.value = np.minimum(np.maximum(0.0, self.low), self.high)
        # (n, d + m) what it costs to raise and to lower a variable; infinite in the basis
        self.rise, self.fall = self._slopes(np.arange(n)[:, None], np.arange(d + m), self.value)
        self.rise[:, d:] = self.fall[:, d:] = np.inf
        # (n, m) the basis: variables, values, slopes and ends of their pieces; (n, m, m) inverses
        self.basis, self.at = np.tile(np.arange(d, d + m), (n, 1)), self.value[:, :d] @ matrix.T
        self.bottom, self.top = np.array(limits.row_low), np.array(limits.row_high)
        self.slope, self.inverse = np.zeros((n, m)), np.tile(-np.eye(m), (n, 1, 1))
        self.which = np.arange(n)  # the programs that are left

    def solve(self, change: FloatArray, duals: FloatArray) -> None:
        """Write down the optima and the multipliers."""
        for _ in range(self.low.shape[1]):  # about as many as there are rows do
            missed = np.maximum(self.bottom - self.at, self.at - self.top)
            missed[missed <= 1e-10] = 0.0  # no entry of the rows exceeds 1
            norm = np.einsum("nij,nij->ni", self.inverse, self.inverse)
            leave = (missed * missed / norm).argmax(axis=1)
            done = np.asarray(~missed.any(axis=1))
            if done.any():
                self._finish(done, change, duals)
                self._keep(~done)
                leave = leave[~done]
            possible = self._move(leave)
            if not possible.all():  # nothing brings these onto their pieces: there is no point
                self._keep(possible)
            if not len(self.which):
                return

    def _keep(self, kept: BoolArray) -> None:
        self.which, self.basis, self.at = self.which[kept], self.basis[kept], self.at[kept]
        self.bottom, self.top, self.slope = self.bottom[kept], self.top[kept], self.slope[kept]
        self.rise, self.fall, self.inverse = self.rise[kept], self.fall[kept], self.inverse[kept]

    def _slopes(
        self, which: IntArray, variable: IntArray, value: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """What raising and lowering variables costs where they are, but for the multipliers."""
        encoded_cost = self.encoded_cost[variable]
        rise, fall = (np.where(end >= 0.0, encoded_cost, -encoded_cost) for end in (value, -value))
        rise[value >= self.high[which, variable]] = np.inf
        fall[value <= self.low[which, variable]] = np.inf
        return rise, fall

    def _finish(self, done: BoolArray, change: FloatArray, duals: FloatArray) -> None:
        """Write down the optima that are unique, refined once; not where that changes much."""
        done = done & ((self.rise > STRICT) & (self.fall > STRICT)).all(axis=1)
        which, basis, inverse = self.which[done], self.basis[done], self.inverse[done]
        value, at, width = self.value[which], self.at[done], change.shape[1]
        np.put_along_axis(value, basis, at, axis=1)
        error = (inverse @ (value @ self.columns)[:, :, None])[:, :, 0]
        np.put_along_axis(
            value, basis, np.where(np.abs(error) <= STRICT, at - error, np.nan), axis=1
        )
        change[which] = value[:, :width]
        np.put_along_axis(value, basis, np.nan, axis=1)  # rows in the basis have no multiplier
        multipliers = (self.slope[done][:, None, :] @ inverse)[:, 0, :]
        duals[which] = np.where(np.isnan(value[:, width:]), 0.0, multipliers)

    def _move(self, leave: IntArray) -> BoolArray:
        """One step of the multipliers for the variables at (n,) positions; whether one can help."""
        rows = np.arange(len(leave))
        gone, edge = self.basis[rows, leave], self.inverse[rows, leave]
        slope, at = self.slope[rows, leave], self.at[rows, leave]
        bottom, top = self.bottom[rows, leave], self.top[rows, leave]
        short = at < bottom
        end = np.where(short, bottom, top)
        effect = np.where(short[:, None], edge, -edge) @ self.columns.T
        ratio = np.where(effect < 0.0, self.rise, self.fall) / np.abs(effect)
        ratio[np.abs(effect) <= STRICT] = np.inf
        enter = ratio.argmin(axis=1)
        rise, fall = self._slopes(self.which, gone, end)
        step, room = ratio[rows, enter], np.where(short, fall + slope, rise - slope)
        effect *= np.minimum(step, room)[:, None]
        self.rise += effect
        self.fall -= effect
        on = np.flatnonzero(room <= step)
        self._put(on, leave[on], gone[on], end[on], ~short[on])
        rows = np.flatnonzero(step < room)
        leave, enter, gone, end = leave[rows], enter[rows], gone[rows], end[rows]
        which, raised = self.which[rows], effect[rows, enter] < 0.0
        self.value[which, gone] = end
        reduced = slope[rows] - np.where(short[rows], step[rows], -step[rows])
        self.rise[rows, gone], self.fall[rows, gone] = rise[rows] - reduced, fall[rows] + reduced
        self.rise[rows, enter] = self.fall[rows, enter] = np.inf
        column = np.einsum("nij,nj->ni", self.inverse[rows], self.columns[enter])
        edge, share = edge[rows], 1.0 / column[np.arange(len(rows)), leave]
        length, value = (at[rows] - end) * share, self.value[which, enter]
        self.at[rows] -= column * length[:, None]
        self.inverse[rows] -= (column * share[:, None])[:, :, None] * edge[:, None, :]
        self.inverse[rows, leave], self.basis[rows, leave] = edge * share[:, None], enter
        self.at[rows, leave] = value + length
        self._put(rows, leave, enter, value, raised)
        return np.isfinite(np.minimum(step, room))

    def _put(
        self, rows: IntArray, at: IntArray, variable: IntArray, value: FloatArray, above: BoolArray
    ) -> None:
        """Variables at positions in the basis on the pieces above or below some breakpoints."""
        encoded_cost, which = self.encoded_cost[variable], self.which[rows]
        low, high = self.low[which, variable], self.high[which, variable]
        top = np.where((encoded_cost > 0.0) & (value < 0.0) & (high > 0.0), 0.0, high)
        bottom = np.where((encoded_cost > 0.0) & (value > 0.0) & (low < 0.0), 0.0, low)
        self.bottom[rows, at] = np.where(above, value, bottom)
        self.top[rows, at] = np.where(above, top, value)
        positive = (value > 0.0) | (above & (value == 0.0))
        self.slope[rows, at] = np.where(positive, encoded_cost, -encoded_cost)
