"""The points of one descent: each step solves the program's convex part about a point.

What the step gives is followed as far as it stays within the conditions and gets cheaper; and where
the same conditions were held twice, Newton's method takes the last steps at once. A start that
misses conditions is led to meet them by a penalty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.prototypes.solvers.held import Stationary
from counterpoint.prototypes.solvers.starts import entry
from counterpoint.prototypes.solvers.tangents import Step

if TYPE_CHECKING:
    from counterpoint.prototypes.solvers.descent import Descent

__all__ = ["STALLED", "Path"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

STALLED = 1e-7
"""A relative gain in price at which a descent ends."""
FEW = 6
"""So many conditions are all looked at from the first."""
ADDED = 5
"""How often conditions that a step misses are added to those that it looks at."""
ALMOST = 1e-7
"""By how much, relatively, a point may miss conditions from which Newton's method goes on."""
SHORTER = 1.0 - np.array([1e-4, 1e-6, 1e-8])
"""How much shorter a step is, in case that its end is not quite within convex conditions."""
LENGTHS = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
"""How far beyond the end of a step to look, in lengths of the step."""
PENALTIES = (10.0, 100.0, 1e3, 1e4)


@final
class Path:
    """The points of one descent.

    Parameters
    ----------
    search
        Whose descent it is.
    start
        (d,) between the bounds.
    """

    def __init__(self, search: Descent, start: FloatArray) -> None:
        self.search, self.point = search, start
        self.is_within = bool(search.methods.starts.met(start[None], search.case)[0])
        self.price = search.price(start) if self.is_within else np.inf
        self._chosen = self._first()
        self._size = float(np.abs(search.missed(search.case.x[0])).max(initial=0.0))
        self._before: tuple[bytes, bytes] | None = None
        self._newton_from = 0

    def _first(self) -> IntArray:
        """The conditions to look at first: those that the start or the row itself meets least."""
        search = self.search
        missed, at_x = search.missed(self.point), search.missed(search.case.x[0])
        if len(missed) <= FEW:
            return np.arange(len(missed))
        return np.union1d(np.argsort(-missed)[: FEW // 2], np.argsort(-at_x)[: FEW // 2])

    def goes_on(self, number: int) -> bool:
        """One more step; whether another one is worth its while."""
        search = self.search
        penalty = None if self.is_within else PENALTIES[min(number, len(PENALTIES) - 1)]
        step = self._step(penalty)
        if step is None:
            return False
        if self.is_within:
            reached = self._followed(step.point)
        else:
            reached = step.point
            self.is_within = bool(search.missed(reached).max() <= ALMOST * self._size)
        if self.is_within and search.is_familiar(reached):
            return False
        found = self._newton(step, number)
        if found is not None:
            search.take(found)
            if not self.is_within or found.price <= search.price(reached) * (1.0 + STALLED):
                reached, self.is_within = found.point, True
        if not self.is_within:
            self.point = reached
            return number < 2 * len(PENALTIES)
        price = search.price(reached)
        search.keep(reached)
        gained = price < self.price * (1.0 - STALLED)
        if gained or price < self.price:
            self.point, self.price = reached, price
        return bool(gained and not (found is not None and found.settled))

    def _step(self, penalty: float | None) -> Step | None:
        """The next point; conditions that it misses are looked at from then on."""
        search = self.search
        step = None
        for _ in range(ADDED):
            tangents = search.methods.tangents
            step = tangents.step(search.case, self.point, self._chosen, search.left(), penalty)
            if step is None or step.slack > ALMOST:
                break
            missed = np.flatnonzero(search.missed(step.point) > 0.01 * ALMOST * self._size)
            missed = np.setdiff1d(missed, self._chosen)
            if not len(missed):
                break
            self._chosen = np.union1d(self._chosen, missed)
        return step

    def _followed(self, end: FloatArray) -> FloatArray:
        """The cheapest point on the way to a point and beyond that meets the program."""
        search, start = self.search, self.point
        value, slope, square = search.along(end, start - end)
        back = entry(square, slope, value)
        end = start if np.isnan(back) else end + back * (start - end)
        tried = end + (np.append(LENGTHS, SHORTER) - 1.0)[:, None] * (end - start)
        met = search.methods.starts.met(tried, search.case)
        cost = search.program.cost(tried, np.repeat(search.case.x, len(tried), axis=0))
        if not met[1:].any():
            return end
        cost[1:] = np.where(met[1:], cost[1:], np.inf)
        return np.asarray(tried[cost.argmin()])

    def _newton(self, step: Step, number: int) -> Stationary | None:
        """The stationary point nearby, where the same conditions were held twice."""
        search = self.search
        change = (step.point - search.case.x[0]) / search.unit
        moved = np.abs(change) > 1e-5 * np.abs(change).max(initial=0.0)
        held = step.weights > 1e-5 * step.weights.max(initial=0.0)
        signature = (np.sign(change) * moved).tobytes(), held.tobytes()
        same, self._before = signature == self._before, signature
        if step.slack > ALMOST or not same or number < self._newton_from:
            return None
        found = search.stationary(step.point, step.weights, step.rows)
        if found is None or found.price > self.price:
            self._newton_from = number + 3
        return found
