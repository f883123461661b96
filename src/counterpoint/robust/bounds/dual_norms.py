"""How much linear functions of a point gain for a unit of distance from a row: dual norms.

The distance is the cost if that is a norm, else its root. Only the moves that are open to a row
count: whether a column may rise or fall, which categories may be chosen, how many features may
change. How far a column may go counts in `Reach.room` alone.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Manhattan
from counterpoint.engine.cases import Cases
from counterpoint.engine.evidence import Spread
from counterpoint.engine.program import Program

__all__ = ["Reach"]

FloatArray = NDArray[np.float64]


@final
class Reach:
    """The gains of linear functions, for each row.

    Parameters
    ----------
    program
        The price, and what features may be.
    cases
        The rows (n), with their bounds.
    """

    def __init__(self, program: Program, cases: Cases) -> None:
        self.program, self.cases = program, cases
        self.rises, self.falls = cases.high > cases.x, cases.low < cases.x
        hot = ~program.numeric
        self.here = (cases.x > 0.5) & hot
        self.rises &= ~(hot & (cases.high < 0.5))

    def of(self, slopes: FloatArray) -> FloatArray:
        """(N, d) functions → (n, N) the most that each gains."""
        out = np.empty((len(self.here), len(slopes)))
        alike: dict[bytes, int] = {}
        for i in range(len(out)):
            key = np.concatenate([self.rises[i], self.falls[i], self.here[i]]).tobytes()
            first = alike.setdefault(key, i)
            out[i] = self._gains(i, slopes) if first == i else out[first]
        return out

    def room(self, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 2) and (n, 2): a function (d,) gains at most each first + each second · distance.

        With all columns by the distance; and with only those that may go on forever by it, the
        others as far as they go.
        """
        cases, numeric = self.cases, self.program.numeric
        ends = np.where(slope > 0.0, cases.high, cases.low)
        goes_on = np.isinf(ends) & numeric & (slope != 0.0)
        far = np.where(goes_on | ~numeric, cases.x, ends) - cases.x
        room = np.zeros((len(far), 2))
        room[:, 1] = np.maximum(np.where(np.isfinite(far), far, 0.0) * slope, 0.0).sum(axis=1)
        most = np.stack([self.of(slope[None, :])[:, 0], np.zeros(len(far))], axis=1)
        for i, on in enumerate(goes_on):
            room[i, 1] += sum(
                self._best_other(i, g, slope[None, :])[0] for g in self.program.groups
            )
            most[i, 1] = self._gains(i, np.where(on, slope, 0.0)[None, :])[0]
        return room, most

    def _gains(self, i: int, slopes: FloatArray) -> FloatArray:
        """(N,) the gains of one row: the largest share, or by Cauchy–Schwarz the root of all."""
        program, price = self.program, self.program.price
        shares = [self._categories(i, group, slopes) for group in program.groups]
        moves = np.where(slopes > 0.0, self.rises[i], self.falls[i]) & program.numeric
        gain = np.where(moves, np.abs(slopes), 0.0)
        if price.kind is Manhattan:
            parts = np.stack([*shares, *_divided(gain, price.absolute).T])
            return np.asarray(parts.max(axis=0))
        if price.quadratic.ndim == 2:
            free = (self.rises[i] | self.falls[i]) & program.numeric
            spread = Spread(price, free)
            joint = ((slopes[:, spread.columns] @ spread.root) ** 2).sum(axis=1)
            return np.asarray(np.sqrt(joint + sum(shares)))
        squares = np.stack([*shares, *_divided(gain * gain, price.quadratic).T])
        most = program.at_most
        if most is not None and most.count < len(squares):
            squares = np.partition(squares, len(squares) - most.count, axis=0)[-most.count :]
        return np.asarray(np.sqrt(squares.sum(axis=0)))

    def _categories(self, i: int, group: slice, slopes: FloatArray) -> FloatArray:
        """(N,) the best other category: its gain for a unit of cost, squared under a root."""
        gain = self._best_other(i, group, slopes)
        weight = 2.0 * self.program.price.absolute[group.start]
        squared = self.program.price.kind is not Manhattan
        return (gain * gain if squared else gain) / weight

    def _best_other(self, i: int, group: slice, slopes: FloatArray) -> FloatArray:
        """(N,) what the best other category gains."""
        others = self.rises[i, group] & ~self.here[i, group]
        if not others.any():
            return np.zeros(len(slopes))
        block = slopes[:, group]
        gain = block[:, others].max(axis=1) - block[:, self.here[i, group]].sum(axis=1)
        return np.maximum(gain, 0.0)


def _divided(gain: FloatArray, price: FloatArray) -> FloatArray:
    """(N, d) gains over prices; 0 where nothing is gained, whatever that costs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gain > 0.0, gain / price, 0.0)
