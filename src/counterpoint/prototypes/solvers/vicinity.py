"""The local optimum about a point: what a search within tolerances found, made exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.prototypes.curvature import quadrics_of
from counterpoint.prototypes.solvers.tangents import convex_step
from counterpoint.solvers.base import Effort

__all__ = ["Vicinity"]

FloatArray = NDArray[np.float64]

MET = 5e-9
"""The largest relative violation of a point that meets a program."""
HAIR = 1e-4
"""How much of the way inside a point that misses the program may be led back."""
HALVINGS = 20
STEPS = 30
STALLED = 1e-9


@final
@dataclass(frozen=True, eq=False)
class Vicinity:
    """Descents within a program, with what is integral about a point held.

    Parameters
    ----------
    program
        The program.
    """

    program: Program

    def meets(self, y: FloatArray, case: Cases) -> bool:
        """Whether a (d,) point meets the program of one person, with the margin."""
        margin = self.program.tightened(case.margin)
        missed = self.program.violation(y[None], case.x), margin.violation(y[None], case.x)
        return bool(max(part[0] for part in missed) <= MET)

    def best(
        self, y: FloatArray, case: Cases, effort: Effort, inside: FloatArray | None
    ) -> FloatArray | None:
        """The cheapest point (d,) about another that meets the program; None if there is none.

        A point that misses it by a hair is led back towards the best one, or to the one ``inside``.
        """
        held = self.program.held(y[None], case.x)[0]
        within = case.within(np.where(held, y, -np.inf), np.where(held, y, np.inf))
        best, lowest = None, np.inf
        if inside is not None and (inside[held] != y[held]).any():
            inside = None
        for candidate in (y, *(() if held.all() else self._steps(y, within, effort))):
            point = self._led_back(candidate, case, inside if best is None else best)
            cost = np.inf if point is None else float(self.program.cost(point[None], case.x)[0])
            if cost < lowest:
                best, lowest = point, cost
        return best

    def _led_back(self, y: FloatArray, case: Cases, inside: FloatArray | None) -> FloatArray | None:
        """The point itself if it meets the program, or the first one on the way inside."""
        if self.meets(y, case):
            return y
        if inside is None or not self.meets(y + HAIR * (inside - y), case):
            return None
        near, far = 0.0, HAIR
        for _ in range(HALVINGS):
            middle = 0.5 * (near + far)
            if self.meets(y + middle * (inside - y), case):
                far = middle
            else:
                near = middle
        return np.asarray(y + far * (inside - y))

    def _steps(self, y: FloatArray, case: Cases, effort: Effort) -> Iterator[FloatArray]:
        """The convex-concave procedure."""
        everything, before = np.arange(len(quadrics_of(self.program))), np.inf
        for _ in range(STEPS):
            step = convex_step(self.program, case, y, everything, effort)
            if step is None:
                return
            y = step.point
            yield y
            cost = float(self.program.cost(y[None], case.x)[0])
            if not cost < before * (1.0 - STALLED):
                return
            before = cost
