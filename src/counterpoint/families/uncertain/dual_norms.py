"""How much linear functions gain for a unit of distance, within the moves open to a row."""

from __future__ import annotations

from typing import final

import numpy as np

from counterpoint.numerics import FloatArray
from counterpoint.problem.costs import Manhattan
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases

__all__ = ["DualNorms"]


@final
class DualNorms:
    """The most that linear functions gain for a unit of distance from each row.

    The distance is the cost if that is a norm, else its root. Only the moves that are open to a row
    count: whether a column may rise or fall, which categories may be chosen, how many features may
    change. How far a column may go counts in `room` alone.
    """

    def __init__(self, program: Program, cases: Cases) -> None:
        self.program, self.cases = program, cases
        self.is_norm = program.encoded_cost.kind is Manhattan
        hot = ~program.domain.numeric
        self.chosen = (cases.x > 0.5) & hot  # the categories of the rows
        self.rises = (cases.high > cases.x) & ~(hot & (cases.high < 0.5))
        self.falls = cases.low < cases.x

    def of(self, slopes: FloatArray) -> FloatArray:
        """(N, d) functions → (n, N) the most that each gains."""
        keys = np.hstack([self.rises, self.falls, self.chosen])
        _, first, alike = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return np.stack([self._gains(i, slopes) for i in first.tolist()])[alike.ravel()]

    def room(self, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 2) and (n, 2): a function (d,) gains at most each first + each second · distance.

        With all columns by the distance; and with only those that may go on forever by it, the
        others as far as they go.
        """
        cases, numeric = self.cases, self.program.domain.numeric
        ends = np.where(slope > 0.0, cases.high, cases.low)
        unbounded = np.isinf(ends) & numeric & (slope != 0.0)
        longest = np.where(unbounded | ~numeric, cases.x, ends) - cases.x
        room = np.zeros((len(longest), 2))
        bounded = np.where(np.isfinite(longest), longest, 0.0)
        room[:, 1] = np.maximum(bounded * slope, 0.0).sum(axis=1)
        most = np.stack([self.of(slope[None, :])[:, 0], np.zeros(len(longest))], axis=1)
        for i, columns in enumerate(unbounded):
            groups = (
                self._best_category(i, g, slope[None, :])[0] for g in self.program.domain.groups
            )
            room[i, 1] += sum(groups)
            most[i, 1] = self._gains(i, np.where(columns, slope, 0.0)[None, :])[0]
        return room, most

    def _gains(self, i: int, slopes: FloatArray) -> FloatArray:
        """(N,) the gains of one row: the largest share, or by Cauchy–Schwarz the root of all."""
        program, cost, power = self.program, self.program.encoded_cost, 1 if self.is_norm else 2
        shares = []
        for group in program.domain.groups:
            gain = self._best_category(i, group, slopes)
            shares.append(gain**power / (2.0 * cost.absolute[group.start]))
        if not self.is_norm and cost.quadratic.ndim == 2:
            free = (self.rises[i] | self.falls[i]) & program.domain.numeric & (cost.diagonal > 0.0)
            block = slopes[:, free]
            joint = np.linalg.solve(cost.quadratic[np.ix_(free, free)], block.T).T
            return np.asarray(np.sqrt((block * joint).sum(axis=1) + sum(shares)))
        moves = np.where(slopes > 0.0, self.rises[i], self.falls[i]) & program.domain.numeric
        gain = np.where(moves, np.abs(slopes), 0.0) ** power
        with np.errstate(divide="ignore", invalid="ignore"):  # what gains nothing costs nothing
            per_cost = gain / (cost.absolute if self.is_norm else cost.quadratic)
        features = np.stack([*shares, *np.where(gain > 0.0, per_cost, 0.0).T])
        if self.is_norm:
            return np.asarray(features.max(axis=0))
        if program.domain.at_most is not None and program.domain.at_most.count < len(features):
            least = len(features) - program.domain.at_most.count
            features = np.partition(features, least, axis=0)[least:]
        return np.asarray(np.sqrt(features.sum(axis=0)))

    def _best_category(self, i: int, group: slice, slopes: FloatArray) -> FloatArray:
        """(N,) what the best other category gains."""
        open_ = self.rises[i, group] & ~self.chosen[i, group]
        if not open_.any():
            return np.zeros(len(slopes))
        block = slopes[:, group]
        gain = block[:, open_].max(axis=1) - block[:, self.chosen[i, group]].sum(axis=1)
        return np.maximum(gain, 0.0)
