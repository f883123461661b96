"""Stationary points of a program with quadratic conditions, to the last digits.

Where a convex step of the convex-concave procedure ends tells which conditions hold with equality,
which columns are at a bound and which do not move. With these held, Newton's method on the
optimality conditions finds the stationary point nearby and its multipliers, which is then judged
against everything that was not held.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Cone
from counterpoint.engine.program import Program
from counterpoint.prototypes.curvature import quadrics_of
from counterpoint.prototypes.nearer import Nearer
from counterpoint.prototypes.quadrics import Quadrics
from counterpoint.prototypes.solvers.held import Held, Stationary

__all__ = ["Equations"]

FloatArray = NDArray[np.float64]

REPAIRS = 4
"""How often what is held is revised."""


@final
@dataclass(frozen=True, eq=False)
class Equations:
    """The conditions of optimality of a program; its integral conditions are not looked at.

    Parameters
    ----------
    program
        The program. Its balls count as quadratic conditions; other cones must not be touched.
    """

    program: Program

    @cached_property
    def unit(self) -> FloatArray:
        """(d,) the change of each column that costs about 1."""
        price = self.program.price
        diagonal = price.quadratic if price.quadratic.ndim == 1 else np.diag(price.quadratic)
        size = price.absolute + np.sqrt(diagonal)
        return 1.0 / np.where(size > 0.0, size, 1.0)

    def steepness(self, change: FloatArray) -> float:
        """The steepest slope of the price at a change, for each unit."""
        price = self.program.price
        full = price.quadratic @ change if price.quadratic.ndim == 2 else price.quadratic * change
        slope = price.absolute + 2.0 * np.abs(full)
        return float((slope * self.unit).max(initial=0.0))

    @cached_property
    def balls(self) -> tuple[Cone, ...]:
        """The cones without a slope."""
        cones = [c for c in self.program.curved if isinstance(c, Cone)]
        return tuple(c for c in cones if not c.slope.any())

    @cached_property
    def quadrics(self) -> Quadrics:
        """The quadratic conditions and the balls."""
        none = np.zeros((1, self.program.width))
        balls = [Nearer(b.matrix, b.offset, none, none[0, :1], b.radius**2) for b in self.balls]
        return Quadrics((*quadrics_of(self.program).conditions, *balls), self.program.width)

    def near(
        self, case: Cases, point: FloatArray, weights: FloatArray, rows: FloatArray
    ) -> Stationary | None:
        """The stationary point near a point, or None if there is none that meets the program.

        Parameters
        ----------
        case
            One person.
        point
            (d,).
        weights, rows
            (J,) and (rows,) multipliers there, of the quadratic conditions and the linear rows.
        """
        held: Held | None = Held.about(self, case, point, weights, rows)
        best: Stationary | None = None
        for _ in range(REPAIRS):
            found = held.newton() if held is not None else None
            if held is None or found is None:
                break
            judged = held.judged(*found)
            if judged is not None and (best is None or judged.price < best.price):
                best = judged
            held = held.repaired(*found)
        return best
