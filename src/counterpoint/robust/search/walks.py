"""One row and one `WaveLimit`: where a segment enters it, and a descent from there.

A step of the descent minimises the price where a parabola that stands in for the condition is not
positive: one with the condition's own value, slope and, as far as that can be, curvature at the
point. Under a quadratic price and without rows that is one root (the S-lemma), and the curvature is
the condition's own, so that it is Newton's method; else it is a convex program, without the
negative part of the curvature. What a step misses the condition by is asked for besides, and it is
never taken for granted: every point is held against the condition itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Manhattan
from counterpoint.engine.cases import Cases
from counterpoint.robust.search.wave_models import Ground, Models
from counterpoint.solvers import Effort

__all__ = ["Walk"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

NEARLY = 0.9
"""A share of what noise asks for at the row, below which points are not looked at."""
MET = 1e-12
"""The largest relative violation of what is not the limit that counts as rounding."""
GRID = 96
"""How many points of a segment are looked at."""
CLOSE = 1e-13
"""How closely the first point within is found, relative to the distance of two of them."""
STEPS = 60
CORRECTIONS = 4
SETTLED = 1e-11
"""A step that gains no more than this share of the cost is the last."""
ROOTS = 100
TRACE = 1e-4
"""Changes with such a share of the price are traces of a search."""
ROUNDED = 1e-6
"""What a point may cost more without them, and how far it may be moved for rounding: shares."""


@final
class Walk:
    """The searches of one row.

    Parameters
    ----------
    ground, case, effort
        What is asked, and of whom.
    asked
        By how much more the score has to lead.
    """

    def __init__(self, ground: Ground, case: Cases, effort: Effort, asked: float = 0.0) -> None:
        self.ground, self.case = ground, case
        self.models = Models(ground, case, effort)
        self.x, self.low, self.high = case.x[0], case.low[0], case.high[0]
        self.closing = float(ground.limit.closed_in(case.margin)[0])
        self.free = self.low < self.high
        self.ask(asked)

    def ask(self, asked: float) -> None:
        """Ask for another lead."""
        self.limit = self.ground.limit.asking(asked + self.closing)

    def price(self, y: FloatArray) -> float:
        """What a point (d,) costs."""
        return float(self.ground.rest.price((y - self.x)[None])[0])

    def excess(self, y: FloatArray) -> float:
        """By how much a point (d,) misses the limit."""
        return float(self.limit.excess(y[None])[0])

    def is_possible(self, y: FloatArray) -> BoolArray:
        """(k,): which points (k, d) meet all but the limit."""
        inside = ((self.low <= y) & (y <= self.high)).all(axis=1)
        if self.ground.is_open:
            return np.asarray(inside)
        missed = self.ground.rest.violation(y, np.broadcast_to(self.x, y.shape))
        return np.asarray(inside & (missed <= MET))

    def enter(self, start: FloatArray, end: FloatArray) -> FloatArray | None:
        """(d,) the first point within that is found from one point (d,) to another.

        It meets the limit and everything else; None if none does.
        """
        found = self._first_within(start, end)
        if found is None:
            return None
        outside, inside = found
        return inside if outside is None else self._crossing(outside, inside)

    def enter_roughly(self, start: FloatArray, end: FloatArray) -> FloatArray | None:
        """(d,) a point within that is near the first one."""
        found = self._first_within(start, end)
        return None if found is None else found[1]

    def _first_within(
        self, start: FloatArray, end: FloatArray
    ) -> tuple[FloatArray | None, FloatArray] | None:
        """The first point of a grid that is within, after the one before it if that is possible."""
        share = np.linspace(0.0, 1.0, GRID + 1)
        points = start + share[:, None] * (end - start)
        points[-1] = end
        possible, score = self.is_possible(points), self.limit.score.value(points)
        asked = self.limit.asked + NEARLY * self.noise
        for i in np.flatnonzero(possible & (score >= asked)).tolist():
            if self.excess(points[i]) <= 0.0:
                return (points[i - 1] if i and possible[i - 1] else None), points[i]
        return None

    @cached_property
    def noise(self) -> float:
        """What the noise asks for at the row; elsewhere it is not much less, or more."""
        limit, x = self.ground.limit, self.case.x
        return float(limit.excess(x)[0] + limit.score.value(x)[0] - limit.asked)

    def _crossing(self, outside: FloatArray, inside: FloatArray) -> FloatArray:
        """(d,) where a short segment enters: the last point that meets the limit (Illinois)."""
        low, high = 0.0, 1.0
        below, above, side = self.excess(outside), self.excess(inside), 0
        if below <= 0.0:
            return outside
        for _ in range(ROOTS):
            share = low + (high - low) * below / (below - above)
            share = min(max(share, low + 0.01 * (high - low)), high - 0.01 * (high - low))
            missed = self.excess(outside + share * (inside - outside))
            if missed <= 0.0:
                high, above = share, missed
                below, side = (0.5 * below if side > 0 else below), 1
            else:
                low, below = share, missed
                above, side = (0.5 * above if side < 0 else above), -1
            if high - low <= CLOSE:
                break
        return np.asarray(outside + high * (inside - outside))

    def descend(self, start: FloatArray, settled: float = SETTLED) -> FloatArray:
        """(d,) a local optimum, from a point that is within.

        Parameters
        ----------
        start
            (d,).
        settled
            A step that gains no more than this share of the cost is the last.
        """
        y, cost = start, self.price(start)
        for _ in range(STEPS):
            found = self._step(y)
            if found is None:
                break
            price = self.price(found)
            gained = cost - price
            if gained > 0.0:
                y, cost = found, price
            if gained <= settled * cost:
                break
        return y

    def _step(self, y: FloatArray) -> FloatArray | None:
        """A cheaper point within, or None."""
        value, slope = (part[0] for part in self.limit.excess_with_slope(y[None]))
        hessian = -self.limit.score.hessian(y)
        cost = self.price(y)
        more = 0.0
        for _ in range(CORRECTIONS):
            found = self.models.solved(y, float(value) + more, slope, hessian)
            if found is None:
                break
            missed = self.excess(found)
            if missed > 0.0:
                found = self._nudged(found, missed, slope)
                missed_now = self.excess(found)
                if missed_now > 0.0:
                    more += 1.1 * missed
                    continue
            if self.price(found) < cost:
                return found
            break
        return self._shortened(y, value, slope, cost)

    def tidied(self, y: FloatArray) -> FloatArray:
        """(d,) a point whose traces of changes are gone, under an absolute price; else the same."""
        price, gone = self.ground.rest.price, np.abs(y - self.x)
        paid = price.absolute * gone
        traces = (paid > 0.0) & (paid <= TRACE * paid.sum())
        if price.kind is not Manhattan or not traces.any():
            return y
        found = np.where(traces, self.x, y)
        missed = self.excess(found)
        if missed > 0.0:
            slope = self.limit.excess_with_slope(found[None])[1][0]
            found = self._nudged(found, missed, slope, TRACE)
        dearer = self.price(found) > self.price(y) * (1.0 + ROUNDED)
        kept = dearer or self.excess(found) > 0.0 or not self.is_possible(found[None])[0]
        return y if kept else found

    def _nudged(
        self, y: FloatArray, missed: float, slope: FloatArray, most: float = ROUNDED
    ) -> FloatArray:
        """A little further in, where hardly anything is missed."""
        moving = self.free & (y != self.x) & (y > self.low) & (y < self.high)
        inwards = np.where(moving, slope, 0.0)
        square = float(inwards @ inwards)
        if not square:
            return y
        step = 1.5 * missed / square * inwards
        room = most * float(np.abs(y - self.x).max())
        if not self.ground.is_open or np.abs(step).max() > room:
            return y
        return self.models.clipped(y - step)

    def _shortened(
        self, y: FloatArray, value: float, slope: FloatArray, cost: float
    ) -> FloatArray | None:
        """A step by the parabola that is below the score everywhere, as far as it is within."""
        found = self.models.convex(y, value, slope, self.limit.score.below(y))
        if found is None:
            return None
        for share in (1.0, 0.5, 0.1, 0.01):
            point = y + share * (found - y)
            if self.price(point) < cost and self.excess(point) <= 0.0:
                return np.asarray(point)
        return None
