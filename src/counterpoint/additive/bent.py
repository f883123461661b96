"""Columns that bend: branch and bound over boxes for one row of sums, with trees that prove it.

For a multiplier of the row, the Lagrangian is a sum of minima of one column each, in closed form
(`Bends.least`). It is highest between two points, of which one gains too little and one enough:
their chord gives the next multiplier. Where a column jumps from one to the other, because what it
adds does not bend the right way, its interval is halved. The point that gains enough, taken back
towards the factual row by as much as it gains too much, is a point of the program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, final

import numpy as np

from counterpoint.additive.curves import Curve
from counterpoint.additive.pieces import Bends
from counterpoint.additive.sums import SumBounds, SumDuality, lifted
from counterpoint.costs import Manhattan, SquaredEuclidean
from counterpoint.engine.domains import Box, OneOf, Transitions, Whole
from counterpoint.engine.program import Program
from counterpoint.engine.proof import Proof
from counterpoint.engine.region import Cases
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

__all__ = ["Bent"]

NODES = 300
"""After so many nodes a row is left with its best point and bound."""
STEPS = 40
"""How many multipliers are tried for a box, at most; some ten do."""
RAISES = 60
"""How often a multiplier is made four times as large before none is taken to gain enough."""
HALF = 0.5
"""What share of the gap that was asked for the search may leave open."""
SPARE = 1e-9
"""By what share more than the ceiling a box is closed: more than the rounding of bounds."""


@final
class _Found(NamedTuple):
    """What the Lagrangian of n boxes shows."""

    bound: FloatArray  # (n,) infinite where the box has no point that gains enough
    weight: FloatArray  # (n,) the multiplier
    left: FloatArray  # (n, d) a point that gains too little, or enough with a multiplier of 0
    right: FloatArray  # (n, d) one that gains enough; NaN if there is none


@final
@dataclass(frozen=True, eq=False)
class Bent(Solver):
    """Branch and bound for one row of sums of polynomials of single columns."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Box, OneOf, SumBounds, Transitions, Whole}
    )
    accuracy: ClassVar[float] = 1e-7
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        if not program.kinds <= cls.accepts or not program.nonconvex:
            return False
        sums = program.nonconvex_duality
        return isinstance(sums, SumDuality) and sums.rows.size == 1 and not sums.is_tabulated

    @cached_property
    def _curves(self) -> tuple[tuple[int, Curve], ...]:
        first = next(c for c in self.program.region if isinstance(c, SumBounds))
        return first.curves

    @cached_property
    def _row(self) -> FloatArray:
        """(d + outputs,)."""
        sums = self.program.nonconvex_duality
        assert isinstance(sums, SumDuality)  # noqa: S101 (see `takes`)
        return np.asarray(sums.rows.matrix[0])

    @cached_property
    def _numbers(self) -> IntArray:
        return np.flatnonzero(self.program.numeric)

    @cached_property
    def _bends(self) -> Bends:
        """All numeric columns, also those that do not bend."""
        bent = {j for j, _ in self._curves}
        flat = [(j, Curve.polynomial([0.0])) for j in self._numbers.tolist() if j not in bent]
        row = np.append(self._row, np.zeros(len(flat)))[None]
        return Bends.of(row, (*self._curves, *flat))

    def _gain(self, y: FloatArray) -> FloatArray:
        """(n,) the row's values."""
        return np.asarray(lifted(self._curves, y) @ self._row)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        sums, out = self.program.nonconvex_duality, Solution.blank(len(cases), self.program)
        assert isinstance(sums, SumDuality)  # noqa: S101 (see `takes`)
        if not len(cases):
            return out
        low, high = (side[:, 0] for side in sums.rows.limits(cases.margin))
        falls = self._gain(cases.x) > high
        falls |= np.isneginf(low)
        sign, need = np.where(falls, -1.0, 1.0), np.where(falls, -high, low)
        worth = np.full(len(cases), np.inf) if cutoff is None else np.array(cutoff)
        gap = HALF * max(effort.gap, self.accuracy)
        tree = _Tree(self, cases, sign, need, worth, gap)
        tree.grow()
        found = ~np.isnan(tree.points[:, 0])
        # what lies beyond the other side of the row is no point of the program
        value = self._gain(tree.points[found])
        over = np.where(falls[found], low[found] - value, value - high[found])
        found[np.flatnonzero(found)[over > SPARE * np.abs(value)]] = False
        tree.settled[np.flatnonzero(~found & (tree.best < worth))] = False
        out.points[found] = tree.points[found]
        out.outcomes[found] = Outcome.FOUND
        out.outcomes[tree.settled & ~found & np.isposinf(worth)] = Outcome.INFEASIBLE
        out.outcomes[~tree.settled] = Outcome.LIMIT
        out.multipliers[:, -1] = tree.root
        proof = tree.proof()
        out.reported[:] = np.where(tree.settled, proof.ceiling, 0.0)
        return Solution(out.points, out.multipliers, out.outcomes, out.reported, proof)

    def at(
        self, cases: Cases, sign: FloatArray, weight: FloatArray, *, free: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the least price less weight · gain, and (n, d) where; without the price if free."""
        price, scale = self.program.price, 0.0 if free else 1.0
        paid = (scale * price.absolute, scale * price.quadratic)
        weights, none = -(sign * weight)[:, None], np.zeros_like(cases.x)
        least, where = self._bends.least(cases, weights, none, paid, self.program.steps)
        y, total = np.array(cases.x), least.sum(axis=1)
        y[:, self._bends.columns] = where
        if self.program.groups:
            hot = self.program.domain.hot
            allowed = hot.permitted(cases)
            here = cases.x[:, hot.columns] > 0.5
            value = weights * self._row[hot.columns]
            value = value + np.where(here, 0.0, 2.0 * scale * price.absolute[hot.columns])
            value = np.where(allowed, value, np.inf)
            start = 0
            for group in self.program.groups:
                own = value[:, start : start + group.stop - group.start]
                start += group.stop - group.start
                choice = own.argmin(axis=1)
                y[:, group] = choice[:, None] == np.arange(own.shape[1])
                total = total + own.min(axis=1)
        return total, y

    def highest(
        self, cases: Cases, sign: FloatArray, need: FloatArray, ceiling: FloatArray
    ) -> _Found:
        """The highest bounds of boxes, or any from the ceilings on."""
        n = len(cases)
        weight, bound, right = np.zeros(n), np.zeros(n), np.full(cases.x.shape, np.nan)
        value, left = self.at(cases, sign, weight)
        bound[:] = value
        enough = sign * self._gain(left) >= need
        right[enough] = left[enough]
        most = sign * self._gain(self.at(cases, sign, np.ones(n), free=True)[1])
        hopeless = ~enough & ((most < need) | np.isposinf(value))
        bound[hopeless], weight[hopeless] = np.inf, 1.0
        trial = self._first(cases, sign, need, left)
        below, above = np.zeros(n), np.full(n, np.inf)
        open_ = np.flatnonzero(~enough & ~hopeless)
        for step in range(STEPS + RAISES):
            if not len(open_):
                break
            lam = trial[open_]
            value, y = self.at(cases.take(open_), sign[open_], lam)
            value = value + lam * need[open_]
            better = value > bound[open_]
            bound[open_[better]], weight[open_[better]] = value[better], lam[better]
            gains = sign[open_] * self._gain(y) >= need[open_]
            right[open_[gains]], above[open_[gains]] = y[gains], lam[gains]
            left[open_[~gains]], below[open_[~gains]] = y[~gains], lam[~gains]
            following, done = self._next(cases, sign, (left, right, below, above), open_, step)
            with np.errstate(invalid="ignore"):
                cost = self.program.cost(right[open_], cases.x[open_])
                done |= (cost - bound[open_] <= SPARE * cost) | (bound[open_] >= ceiling[open_])
            trial[open_] = following
            open_ = open_[~done]
        return _Found(bound, weight, left, right)

    def _first(
        self, cases: Cases, sign: FloatArray, need: FloatArray, left: FloatArray
    ) -> FloatArray:
        """(n,) multipliers to try first: the price of what is missing, roughly."""
        missing = np.abs(need - sign * self._gain(left))
        scale = np.abs(self.program.price.absolute).max(initial=0.0)
        scale = max(scale, float(np.sqrt(self.program.price.quadratic.max(initial=0.0))))
        return np.asarray(np.maximum(scale, 1e-12) / np.maximum(missing, 1e-9))

    def _next(
        self,
        cases: Cases,
        sign: FloatArray,
        known: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
        open_: IntArray,
        step: int,
    ) -> tuple[FloatArray, BoolArray]:
        """The multipliers to try next, and where nothing is between two any more."""
        left, right, low, high = (part[open_] for part in known)
        x = cases.x[open_]
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = self.program.cost(right, x) - self.program.cost(left, x)
            chord = cost / (sign[open_] * (self._gain(right) - self._gain(left)))
        middle = np.where(
            low > 0.0, np.sqrt(low * np.where(np.isinf(high), 1.0, high)), high / 16.0
        )
        middle = np.where(np.isinf(high), 4.0 * np.maximum(low, 1e-12), middle)
        inside = (chord > low) & (chord < high) & (step % 4 < 3)
        following = np.where(inside, chord, middle)
        done = (high - low <= 1e-13 * high) | (following <= low) | (following >= high)
        return following, np.asarray(done & np.isfinite(high))

    def trimmed(
        self, cases: Cases, sign: FloatArray, need: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Points that gain enough taken back, one column of each, and their costs."""
        free = (self.program.steps[self._numbers] == 0.0)[None]
        columns, ones = self._numbers, np.ones((len(y), 1))
        gain = sign * self._gain(y)
        for _ in range(2):
            own = sign[:, None] * self._bends.here(y, ones)[0]
            least = own - (gain - need)[:, None]
            back, kept = np.zeros(own.shape), np.ones(own.shape)
            x = cases.x[:, columns]
            for _ in range(50):
                share = 0.5 * (back + kept)
                trial = np.array(y)
                trial[:, columns] = x + share * (y[:, columns] - x)
                good = sign[:, None] * self._bends.here(trial, ones)[0] >= least
                kept, back = np.where(good, share, kept), np.where(good, back, share)
            change = y[:, columns] - x
            absolute, curvature = (
                part[columns]
                for part in (self.program.price.absolute, self.program.price.quadratic)
            )
            saved = absolute * np.abs(change) * (1.0 - kept)
            saved = np.where(free, saved + curvature * change**2 * (1.0 - kept**2), 0.0)
            best, rows = saved.argmax(axis=1), np.arange(len(y))
            trial = np.array(y)
            trial[rows, columns[best]] = x[rows, best] + kept[rows, best] * change[rows, best]
            allowed = (trial >= cases.low).all(axis=1) & (trial <= cases.high).all(axis=1)
            now = sign * self._gain(trial)
            good = (now >= need) & (saved[rows, best] > 0.0) & allowed
            y, gain = np.where(good[:, None], trial, y), np.where(good, now, gain)
        return y, self.program.cost(y, cases.x)


@final
class _Tree:
    """The boxes of n rows, searched a layer at a time."""

    def __init__(
        self,
        solver: Bent,
        cases: Cases,
        sign: FloatArray,
        need: FloatArray,
        worth: FloatArray,
        gap: float,
    ) -> None:
        n = len(cases)
        self.solver, self.cases, self.sign, self.need = solver, cases, sign, need
        self.best, self.share, self.worth = np.array(worth), 1.0 - gap, worth
        self.points, self.settled = np.full(cases.x.shape, np.nan), np.ones(n, dtype=bool)
        self.root = np.zeros(n)
        self.row, self.low, self.high = (
            [np.arange(n)],
            [np.array(cases.low)],
            [np.array(cases.high)],
        )
        self.weight, self.children, self.size = list[FloatArray](), list[IntArray](), n

    def grow(self) -> None:
        """Until every box is closed, or a row has too many."""
        counts = np.ones(len(self.cases), dtype=np.intp)
        while len(self.row[-1]):
            row = self.row[-1]
            own = replace(self.cases.take(row), low=self.low[-1], high=self.high[-1])
            sign, need = self.sign[row], self.need[row]
            found = self.solver.highest(own, sign, need, self._ceiling()[row])
            self.weight.append(-sign * found.weight)
            if len(self.weight) == 1:
                self.root = np.array(self.weight[0])
            self._learn(own, row, found)
            left = found.bound < self._ceiling()[row]
            over = counts > NODES
            self.settled[row[left & over[row]]] = False
            left &= ~over[row]
            children = np.full((len(row), 2), -1)
            parts, good = self._halves(own, found, np.flatnonzero(left))
            self.settled[row[np.flatnonzero(left)[~good]]] = False
            which = np.flatnonzero(left)[good]
            children[which] = self.size + np.arange(2 * len(which)).reshape(2, -1).T
            self.children.append(children)
            self.row.append(np.tile(row[which], 2))
            self.low.append(np.concatenate([low[good] for low, _ in parts]))
            self.high.append(np.concatenate([high[good] for _, high in parts]))
            self.size += 2 * len(which)
            np.add.at(counts, self.row[-1], 1)

    def _ceiling(self) -> FloatArray:
        return self.best * self.share * (1.0 + SPARE)

    def _learn(self, own: Cases, row: IntArray, found: _Found) -> None:
        """Better points."""
        some = np.flatnonzero(~np.isnan(found.right[:, 0]))
        if not len(some):
            return
        part = own.take(some)
        y, cost = self.solver.trimmed(
            part, self.sign[row[some]], self.need[row[some]], found.right[some]
        )
        order = np.lexsort((np.arange(len(some)), cost, row[some]))
        rows, first = np.unique(row[some][order], return_index=True)
        at = order[first]
        better = cost[at] < self.best[rows]
        self.best[rows[better]], self.points[rows[better]] = cost[at[better]], y[at[better]]

    def _halves(
        self, own: Cases, found: _Found, at: IntArray
    ) -> tuple[list[tuple[FloatArray, FloatArray]], BoolArray]:
        """Two parts of boxes, and whether there are two: at the column that jumps most."""
        solver, n = self.solver, len(at)
        left, right = found.left[at], np.where(np.isnan(found.right[at]), 0.0, found.right[at])
        columns, ones, rows = solver._numbers, np.ones((n, 1)), np.arange(n)  # noqa: SLF001
        bends, groups = solver._bends, solver.program.groups  # noqa: SLF001
        jump = np.abs(bends.here(left, ones)[0] - bends.here(right, ones)[0])
        low, high = own.low[at], own.high[at]
        jump = np.where((left[:, columns] != right[:, columns]), jump, 0.0)
        jumps = [jump]
        for group in groups:
            gain = (left[:, group] - right[:, group]) @ solver._row[group]  # noqa: SLF001
            jumps.append(np.abs(gain)[:, None])
        every = np.hstack(jumps)
        item = every.argmax(axis=1)
        good = every[rows, item] > 0.0
        below, above = (np.array(low), np.array(high)), (np.array(low), np.array(high))
        number = np.flatnonzero(good & (item < len(columns)))
        j = columns[np.minimum(item[number], len(columns) - 1)]
        middle = 0.5 * (left[number, j] + right[number, j])
        step = solver.program.steps[j]
        x, unit = own.x[at[number], j], np.where(step > 0.0, step, 1.0)
        lower = np.where(step > 0.0, x + np.floor((middle - x) / unit + STEP_SLACK) * unit, middle)
        below[1][number, j] = lower
        above[0][number, j] = np.where(step > 0.0, lower + unit, middle)
        for i in np.flatnonzero(good & (item >= len(columns))).tolist():
            group = groups[item[i] - len(columns)]
            chosen = left[i, group] > 0.5
            below[1][i, group] = np.where(chosen, below[1][i, group], 0.0)
            above[1][i, group] = np.where(chosen, 0.0, above[1][i, group])
        return [below, above], good

    def proof(self) -> Proof:
        """The trees of the rows that are settled."""
        row, kept = np.concatenate(self.row), self.settled
        chosen = np.flatnonzero(kept[row])
        at = np.full(self.size + 1, -1)
        at[chosen] = np.arange(len(chosen))
        low, high = np.concatenate(self.low)[chosen], np.concatenate(self.high)[chosen]
        multipliers = np.zeros((len(chosen), self.solver.program.size))
        multipliers[:, -1] = np.concatenate(self.weight)[chosen]
        ceiling = self.best * self.share
        root = np.where(kept, at[np.arange(len(kept))], -1)
        forced = np.zeros(low.shape, dtype=bool)
        children = at[np.concatenate(self.children)[chosen]]
        return Proof(row[chosen], low, high, forced, multipliers, children, root, ceiling)
